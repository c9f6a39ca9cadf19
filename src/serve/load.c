/* SPDX-License-Identifier: MIT */
/* src/serve/load.c -- one model: its engine, template, adapters, defaults and batcher, made and given back. */
#include "serve/answers.h"
#include "serve/exchange.h"
#include <errno.h>
#include <string.h>

int32_t model_n_ctx(const model *m) { return m->batcher ? qn_batcher_n_ctx(m->batcher) : m->info.n_ctx_train; }

static void log_text(const model *m, const char *what, const char *why)
{
    text_log(m->server, "%s: %s: %s", m->name, what, why);
}

static bool go_on(void *ctx, uint64_t done, uint64_t total)
{
    const model *m = ctx;
    (void)done, (void)total;
    return !atomic_load(&m->abandoned) && !atomic_load(&m->server->models_stop);
}

/* ---- what a model says for requests that don't ---- */

static bool is_fixed(const server *s, const char *name)
{
    for (int i = 0; i < s->o.n_fixed; i++)
        if (strcmp(s->o.fixed[i], name) == 0) return true;
    return false;
}

static int64_t whole_param(const model *m, const char *name, int64_t lo, int64_t hi)
{
    problem p = {0};
    int64_t n = 0;
    const fields f = {m->params, "", &p};
    if (is_fixed(m->server, name) || !field_integer(&f, name, lo, hi, &n) || p.status) return 0;
    return n;
}

/* One that makes no sense here is told and passed over: the model can be used without. */
static void apply_params(model *m)
{
    const char *name;
    const json_t *value;
    ask q = {.sampler = m->sampler};
    json_object_foreach(m->params, name, value)
    {
        problem p = {0};
        if (is_fixed(m->server, name)) continue;
        json_t *one = json_pack("{s:O}", name, value);
        const fields f = {one, "", &p};
        if (!ask_sampling(&q, &f) || !ask_stops(&q, &f, "stop")) log_text(m, name, p.text);
        json_decref(one);
    }
    m->sampler = q.sampler;
    for (int i = 0; i < q.n_stop && m->n_stops < MAX_STOPS; i++) m->stops[m->n_stops++] = q.stop[i];
    const int64_t n = whole_param(m, "num_predict", -2, INT32_MAX);
    if (n) m->max_tokens = n > 0 ? (int32_t)n : 0;
    const int64_t keep = whole_param(m, "num_keep", -1, INT32_MAX - 1);
    if (keep && !m->n_keep) m->n_keep = (int32_t)keep;
}

static bool set_defaults(model *m, qn_error *err)
{
    const serve_options *o = &m->server->o;
    m->command = o->sampler ? o->sampler(o->ctx, m->tok, model_n_ctx(m), err) : NULL;
    if (o->sampler && !m->command) return false;
    m->sampler = m->command ? *m->command : (qn_sampler_params){0};
    m->max_tokens = o->max_tokens;
    m->n_keep = o->n_keep;
    m->n_stops = 0;
    for (int i = 0; i < o->n_stop && i < MAX_STOPS; i++) m->stops[m->n_stops++] = o->stop[i];
    (void)text_was_short();
    if (m->params) apply_params(m);
    if (!text_was_short()) return true;
    *err = (qn_error){.status = QN_STATUS_nomem, .text = "out of memory"}; /* it may lack a parameter */
    return false;
}

/* ---- measuring ---- */

/* An encoder has embeddings and nothing else, and so has a model whose tokens see what comes after them. */
static bool writes(const model *m) { return !m->info.encoder && !m->info.both_ways; }

/* What it has when it is loaded, or would have. */
int32_t model_served_ctx(const model *m)
{
    const int64_t asked = whole_param(m, "num_ctx", 1, INT32_MAX);
    const int64_t n = asked ? asked : m->server->o.batcher.session.n_ctx, train = (int64_t)m->facts.n_ctx_train;
    if (m->state == MODEL_loaded) return model_n_ctx(m);
    return (int32_t)(n ? n : train && train < QN_DEFAULT_CTX ? train : QN_DEFAULT_CTX);
}

static qn_batcher_options batcher_options(const model *m)
{
    qn_batcher_options o = m->server->o.batcher;
    const int64_t n_ctx = whole_param(m, "num_ctx", 1, INT32_MAX);
    if (n_ctx) o.session.n_ctx = (int32_t)n_ctx;
    o.session.loras = m->loras;
    o.session.n_loras = m->n_loras;
    return o;
}

qn_session_options model_embedder_options(const model *m)
{
    enum { MOST_TOKENS = 8192, BATCH = 512, SEQUENCES = 8 };
    const int32_t n = m->info.n_ctx_train > 0 && m->info.n_ctx_train < MOST_TOKENS ? m->info.n_ctx_train : MOST_TOKENS;
    return (qn_session_options){
        .n_ctx = n,
        .n_batch = m->info.both_ways || n < BATCH ? n : BATCH,
        .n_seq = SEQUENCES,
        .embeddings = true,
        .memory_limit = m->server->o.memory ? UINT64_MAX : 0, /* loader_take has looked */
    };
}

/* 0: none. */
static uint64_t lower(uint64_t a, uint64_t b) { return !a || (b && b < a) ? b : a; }

static bool open_engine(model *m, qn_gguf_policy policy, uint64_t limit, qn_error *err)
{
    qn_engine_options o = m->server->o.engine;
    o.policy = policy;
    o.progress = go_on;
    o.progress_ctx = m;
    o.memory_limit = lower(limit, o.memory_limit);
    if (m->paged) o.memory = m->server->o.memory;
    const qn_batcher_options batcher = batcher_options(m);
    qn_session_options session = batcher.session; /* that the batcher will create */
    if (qn_batcher_session(&batcher, &session, err) != QN_OK) return false;
    o.gpu_session = &session;
    if (qn_engine_open(m->path, &o, &m->engine, err) != QN_OK) return false;
    m->tok = qn_engine_tokenizer(m->engine);
    qn_engine_get_info(m->engine, &m->info);
    return true;
}

static bool failed(const model *m, const qn_error *err, problem *p)
{
    struct stat st;
    if (stat(m->path, &st) != 0) {
        const int why = errno;
        snprintf(p->code, sizeof(p->code), "model_not_found");
        if (!m->st.st_ino) return problem_set(p, 404, "model", "%s", err->text); /* it never was there */
        return problem_set(p, 404, "model", "the file of %s is gone: %s", m->name, strerror(why));
    }
    p->no_room = err->status == QN_STATUS_limit;
    p->given_up = err->status == QN_STATUS_cancelled;
    const bool full = err->status == QN_STATUS_limit || err->status == QN_STATUS_nomem;
    return problem_set(p,
                       full                                 ? 503
                       : err->status == QN_STATUS_cancelled ? 503
                                                            : 500,
                       "model", "%s: %s", m->name, err->text);
}

bool model_measure(model *m, uint64_t *bytes, uint64_t *least, problem *p)
{
    qn_error err = {0};
    qn_estimate e = {0};
    struct stat st;
    const bool lazy = m->server->o.engine.policy == QN_GGUF_lazy;
    if (!open_engine(m, QN_GGUF_lazy, 0, &err)) return failed(m, &err, p);
    const qn_batcher_options o = batcher_options(m);
    const qn_status status = writes(m) ? qn_batcher_estimate(m->engine, &o, &e, &err) : QN_OK;
    *bytes = m->info.weight_bytes + m->info.copied_bytes + e.total_bytes;
    for (int i = 0; i < m->n_adapters; i++)
        if (stat(m->adapters[i], &st) == 0) *bytes += (uint64_t)st.st_size;
    *least = *bytes - m->info.weight_bytes + qn_engine_least_memory(m->engine);
    const bool good = status == QN_OK || failed(m, &err, p),
               paged = m->server->o.memory && *bytes > m->server->o.memory;
    if (!lazy || !good || paged) {
        qn_engine_close(m->engine);
        m->engine = NULL;
    }
    return good;
}

/* ---- loading ---- */

const char *model_lora_path(const model *m, int i)
{
    return i < m->n_adapters ? m->adapters[i] : m->server->o.loras[i - m->n_adapters].path;
}

static bool open_adapters(model *m, qn_error *err)
{
    const serve_options *o = &m->server->o;
    const int n = m->n_adapters + o->n_loras;
    for (int i = 0; i < n && i < QN_MAX_LORAS; i++) {
        if (qn_lora_open(m->engine, model_lora_path(m, i), &m->loras[i].lora, err) != QN_OK) return false;
        m->loras[i].scale = i < m->n_adapters ? 1 : o->loras[i - m->n_adapters].scale;
        m->n_loras = i + 1;
    }
    return true;
}

static bool load_template(model *m, qn_error *err)
{
    const serve_options *o = &m->server->o;
    const char *source = m->tmpl_source ? m->tmpl_source : o->template_source;
    if (!source) return qn_chat_template_load(qn_engine_file(m->engine), o->template_name, &m->tmpl, err) == QN_OK;
    return qn_chat_template_create(source, strlen(source), &m->tmpl, err) == QN_OK;
}

static bool load(model *m, uint64_t limit, qn_error *err)
{
    if (!m->engine && !open_engine(m, m->server->o.engine.policy, limit, err)) return false;
    if (!m->n_loras && !open_adapters(m, err)) return false;
    if (!m->tmpl && !load_template(m, err)) return false;
    qn_chat_template_needs(m->tmpl, &m->needs);
    qn_batcher_options o = batcher_options(m);
    o.session.memory_limit = lower(limit, m->server->o.engine.memory_limit);
    if (writes(m) && qn_batcher_create(m->engine, &o, &m->batcher, err) != QN_OK) return false;
    return set_defaults(m, err);
}

/* On failure what was opened stays for another try; model_unload gives it back. */
bool model_load(model *m, uint64_t limit, problem *p)
{
    qn_error err = {0};
    const int64_t began = now_ns();
    if (!load(m, limit, &err)) return failed(m, &err, p);
    m->load_seconds = (double)(now_ns() - began) * 1e-9;
    return true;
}

void model_keep_counts(model *m)
{
    qn_batcher_stats b = {0};
    if (m->batcher) qn_batcher_get_stats(m->batcher, &b);
#define ADD(field) m->past.field += b.field;
    MODEL_COUNTERS(ADD)
#undef ADD
    for (int i = 0; i < QN_BATCH_STEP_BUCKETS; i++) m->past.steps_within[i] += b.steps_within[i];
}

void model_unload(model *m)
{
    qn_batcher_destroy(m->batcher);
    qn_session_destroy(m->embedder);
    if (m->command) m->server->o.sampler_free(m->command);
    qn_chat_template_destroy(m->tmpl);
    for (int i = 0; i < m->n_loras; i++) qn_lora_close(m->loras[i].lora);
    qn_engine_close(m->engine);
    m->batcher = NULL;
    m->embedder = NULL;
    m->command = NULL;
    m->tmpl = NULL;
    m->engine = NULL;
    m->tok = NULL;
    m->n_loras = 0;
    atomic_store(&m->bytes, 0);
    atomic_store(&m->least, 0);
}
