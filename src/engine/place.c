/* SPDX-License-Identifier: MIT */
/* src/engine/place.c -- which backend each weight and layer lies on: rules first, then the last layers on devices, as
 * many as asked for or as fit; all of it before anything is allocated there. */
#include "base/log.h"
#include "base/str.h"
#include "engine/engine.h"
#include <stdio.h>
#include <string.h>

/* ---- the list of backends ---- */

/* The device that nobody named: the first that is not the processor; of no other where layers were asked for, that. */
static qn_status default_device(bool must, char name[40], qn_error *err)
{
    enum { MOST = 64 };
    qn_device found[MOST];
    qn_error why = {0};
    const int n = qn_devices_get(found, MOST, &why);
    int at = 0;
    while (at < n && found[at].processor) at++;
    name[0] = '\0';
    if (at == n && must && n > 0) at = 0;
    if (at < n) snprintf(name, 40, "%.39s", found[at].backend);
    if (at < n || !must) return QN_OK;
    return QN_FAIL(err, unsupported, "--gpu-layers: no device is found here%s%s; `quern doctor` lists what is",
                   why.text[0] ? ": " : "", why.text);
}

qn_status qn__engine_list(const qn_engine_options *o, char *text, size_t size, const char **out, qn_error *err)
{
    char name[40] = "";
    const char *devices = o->devices;
    if (o->gpu_layers_set && o->gpu_layers < QN_GPU_LAYERS_AUTO)
        return QN_FAIL(err, invalid, "%d layers on devices; 0 or more are possible, all and auto", o->gpu_layers);
    if (!devices && o->gpu_layers_set && o->gpu_layers != 0 && !qn__backends_name_device(o->backends)) {
        QN_TRY(default_device(o->gpu_layers != QN_GPU_LAYERS_AUTO, name, err));
        devices = name[0] ? name : NULL;
    }
    *out = o->backends;
    if (!devices) return QN_OK;
    if (!qn__backends_name_device(devices))
        return QN_FAIL(err, invalid,
                       "\"%.64s\" names no device; devices are like opencl:0, and quern doctor lists them", devices);
    const int len = snprintf(text, size, "%s,%s", devices, o->backends ? o->backends : "cpu");
    if (len < 0 || (size_t)len >= size) return QN_FAIL(err, invalid, "the list of devices is longer than %zu", size);
    *out = text;
    return QN_OK;
}

/* ---- rules ---- */

/* A layer's own name. */
static const char *layer_name(char text[24], uint32_t layer)
{
    snprintf(text, 24, "blk.%u", layer);
    return text;
}

static bool names_layer(const qn_engine *e, const char *pattern)
{
    char name[24];
    for (uint32_t i = 0; i < e->model->hp.n_layer; i++)
        if (qn__glob_match(pattern, layer_name(name, i))) return true;
    return false;
}

/* A rule that names nothing is a slip of the pen, and running without it a surprise. */
static qn_status check_rule(const qn_engine *e, const qn_place_rule *rule, qn_error *err)
{
    if (rule->backend < 0 || rule->backend >= e->n_backends)
        return QN_FAIL(err, invalid, "placement rule \"%s\" names backend %d; there are backends 0 to %d",
                       rule->pattern, rule->backend, e->n_backends - 1);
    for (int i = 0; i < e->model->n_weights; i++)
        if (qn__glob_match(rule->pattern, e->model->weights[i].name)) return QN_OK;
    if (names_layer(e, rule->pattern)) return QN_OK;
    return QN_FAIL(
        err, invalid,
        "placement rule \"%s\" matches no weight and no layer of this model; 'quern inspect' lists their names",
        rule->pattern);
}

static qn_status check_rules(const qn_engine *e, const qn_engine_options *options, qn_error *err)
{
    for (int i = 0; i < options->n_rules; i++) QN_TRY(check_rule(e, &options->rules[i], err));
    return QN_OK;
}

static const qn_place_rule *rule_for(const qn_engine_options *options, const char *name)
{
    for (int i = 0; i < options->n_rules; i++)
        if (qn__glob_match(options->rules[i].pattern, name)) return &options->rules[i];
    return NULL;
}

/* ---- layers on devices ---- */

typedef struct placing {
    qn_engine *e;
    const qn_engine_options *options;
    int devices[QN_MAX_PLACES], n_devices, host; /* backends with memory of their own, and the first without; -1 */
    int32_t *layer_of;                           /* [n_weights]; -1 outside layers */
} placing;

static void sort_backends(placing *p)
{
    p->host = -1;
    for (int i = 0; i < p->e->n_backends; i++) {
        if (p->e->backends[i]->type->memory)
            p->devices[p->n_devices++] = i;
        else if (p->host < 0)
            p->host = i;
    }
}

static qn_status find_layers(placing *p, qn_error *err)
{
    const qn_model *m = p->e->model;
    p->layer_of = qn__arena_array(&p->e->arena, (size_t)m->n_weights, sizeof(*p->layer_of));
    if (!p->layer_of) return QN_FAIL(err, nomem, "out of memory while placing %d weights", m->n_weights);
    for (int i = 0; i < m->n_weights; i++) {
        unsigned layer = 0;
        int len = 0;
        const bool is_layer = sscanf(m->weights[i].name, "blk.%u.%n", &layer, &len) == 1 && len > 0;
        p->layer_of[i] = is_layer && layer < m->hp.n_layer ? (int32_t)layer : -1;
    }
    return QN_OK;
}

/* What tokens meet before the first layer, and the angles, which follow from positions. */
static bool comes_first(const qn_model *m, const qn_weight *w)
{
    const qn_top *t = &m->top;
    const qn_weight *const first[] = {t->tok_embd,  t->pos_embd,   t->type_embd,  t->embd_norm, t->embd_norm_bias,
                                      t->rope_long, t->rope_short, t->rope_freqs, t->layer_embd};
    for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
        if (w == first[i] && !(w == t->tok_embd && t->out == w)) return true;
    return false;
}

/* Of layer i when the last n lie on devices; i = n_layer is the output. Devices get runs of layers, as many as their
 * part of the memory. */
static int device_of(const placing *p, int32_t i, int32_t n)
{
    const int32_t n_layer = (int32_t)p->e->model->hp.n_layer, first = n_layer - n;
    uint64_t sum = 0, upto = 0;
    if (n == 0 || i < first) return p->host >= 0 ? p->host : p->devices[0];
    for (int d = 0; d < p->n_devices; d++) {
        const qn_backend *be = p->e->backends[p->devices[d]];
        sum += be->type->memory(be).left >> 10;
    }
    for (int d = 0; d < p->n_devices; d++) {
        const qn_backend *be = p->e->backends[p->devices[d]];
        upto += be->type->memory(be).left >> 10;
        if ((double)(i - first) * (double)sum < (double)upto * (n + 1)) return p->devices[d];
    }
    return p->devices[p->n_devices - 1];
}

static int place_by_default(const placing *p, const qn_weight *w, int32_t n, bool everything)
{
    const int32_t layer = p->layer_of[w->index], n_layer = (int32_t)p->e->model->hp.n_layer;
    if (!p->options->gpu_layers_set || p->n_devices == 0) return 0;
    if (layer >= 0) return device_of(p, layer, n);
    if (!comes_first(p->e->model, w)) return device_of(p, n_layer, n);
    return everything ? p->devices[0] : p->host >= 0 ? p->host : p->devices[0];
}

/* A norm or bias that no rule names goes where its matrix is: elsewhere the stream would cross over and back for it. */
static void place_all(placing *p, int32_t n, bool everything)
{
    qn_engine *e = p->e;
    const qn_model *m = e->model;
    char name[24];
    for (int i = 0; i < m->n_weights; i++) {
        const qn_weight *w = &m->weights[i], *beside = &m->weights[w->beside];
        const qn_place_rule *rule = rule_for(p->options, w->name);
        if (!rule) rule = rule_for(p->options, beside->name);
        e->places[i] = (uint8_t)(rule ? rule->backend : place_by_default(p, beside, n, everything));
    }
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        const qn_place_rule *rule = rule_for(p->options, layer_name(name, i));
        e->hints[i] = rule                                             ? rule->backend
                      : p->options->gpu_layers_set && p->n_devices > 0 ? device_of(p, (int32_t)i, n)
                                                                       : -1;
    }
    e->info.gpu_layers = p->options->gpu_layers_set && p->n_devices > 0 ? n : 0;
}

/* ---- what fits ---- */

static bool has_room(const qn_engine *e, int p, uint64_t bytes, uint64_t largest)
{
    const qn_backend *be = e->backends[p];
    if (!be->type->memory) return true;
    const qn_backend_memory memory = be->type->memory(be);
    return bytes <= memory.left && largest <= memory.largest;
}

/* Whether weights, as they are placed now, and a session fit on every device. */
static qn_status fits(placing *p, bool *out, qn_error *err)
{
    qn_engine *e = p->e;
    qn_session_options o = p->options->gpu_session ? *p->options->gpu_session : (qn_session_options){0};
    qn_buffer stand_in[QN_MAX_PLACES];
    qn_estimate est = {0};
    o.loras = NULL; /* of another engine, if of any */
    o.n_loras = 0;
    if (!e->model->top.out) o.embeddings = true;
    for (int i = 0; i < e->n_backends; i++) stand_in[i] = (qn_buffer){.backend = e->backends[i], .bytes = UINT64_MAX};
    for (int i = 0; i < e->model->n_weights; i++) e->model->weights[i].buffer = &stand_in[e->places[i]];
    const qn_status status = qn_engine_estimate(e, &o, &est, err);
    for (int i = 0; i < e->model->n_weights; i++) e->model->weights[i].buffer = NULL;
    QN_TRY(status);
    *out = true;
    for (int i = 0; i < e->n_backends; i++)
        *out &= has_room(e, i, qn__weights_bytes(e, i) + est.backend_bytes[i], est.backend_bytes[i]);
    return QN_OK;
}

static qn_status choose(placing *p, qn_error *err)
{
    int32_t lo = 0, hi = (int32_t)p->e->model->hp.n_layer;
    bool fit = false;
    place_all(p, hi, true);
    QN_TRY(fits(p, &fit, err));
    if (fit) return QN_OK;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        place_all(p, mid, false);
        QN_TRY(fits(p, &fit, err));
        if (fit)
            lo = mid;
        else
            hi = mid - 1;
    }
    place_all(p, lo, false);
    return QN_OK;
}

qn_status qn__engine_plan(qn_engine *e, const qn_engine_options *options, qn_error *err)
{
    placing p = {.e = e, .options = options};
    const int32_t n_layer = (int32_t)e->model->hp.n_layer, asked = options->gpu_layers;
    e->places = qn__arena_array(&e->arena, (size_t)e->model->n_weights, sizeof(*e->places));
    e->hints = qn__arena_array(&e->arena, (size_t)n_layer, sizeof(*e->hints));
    if (!e->places || !e->hints) return QN_FAIL(err, nomem, "out of memory while placing %d layers", n_layer);
    QN_TRY(check_rules(e, options, err));
    sort_backends(&p);
    QN_TRY(find_layers(&p, err));
    if (options->gpu_layers_set && asked == QN_GPU_LAYERS_AUTO && p.n_devices > 0) {
        QN_TRY(choose(&p, err));
        qn__log(QN_LOG_info, "%d of %d layers on %s", e->info.gpu_layers, n_layer, e->backends[p.devices[0]]->name);
    } else {
        place_all(&p,
                  asked == QN_GPU_LAYERS_ALL || asked > n_layer ? n_layer
                  : asked < 0                                   ? 0
                                                                : asked,
                  asked == QN_GPU_LAYERS_ALL);
    }
    return QN_OK;
}
