/* SPDX-License-Identifier: MIT */
/* src/train/lora.c -- adapters: the base opened, its weights as tensors where they lie in the file, the pairs that are
 * learnt, and their file. */
#include "train/lora.h"
#include "base/str.h"
#include "format/native.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/ops.h>
#include <stdio.h>
#include <string.h>

/* ---- which layers ---- */

/* Patterns separated by commas, against a name without ".weight". */
static bool is_target(const char *patterns, const qn_weight *w)
{
    char name[256], pattern[256];
    const size_t len = strlen(w->name), n = len > 7 && strcmp(w->name + len - 7, ".weight") == 0 ? len - 7 : len;
    snprintf(name, sizeof name, "%.*s", (int)n, w->name);
    for (const char *p = patterns; *p;) {
        const size_t m = strcspn(p, ",");
        if (m < sizeof pattern) {
            snprintf(pattern, sizeof pattern, "%.*s", (int)m, p);
            if (qn__glob_match(pattern, name)) return true;
        }
        p += m + (p[m] == ',');
    }
    return false;
}

static qn_status choose(qn_trainer *t, const qn_lora_options *lora, qn_error *err)
{
    qn_lora_base *base = t->lora;
    const qn_model *m = base->model;
    const char *patterns = lora->targets ? lora->targets : "blk.*";
    if (lora->rank < 0 || lora->rank > 65536)
        return QN_FAIL(err, invalid, "rank is %d; 1 to 65536 are possible, 0 is 8", lora->rank);
    if (!(lora->alpha >= 0 && lora->alpha <= 1e6f))
        return QN_FAIL(err, invalid, "alpha is %g; up to 1e6 is possible, 0 is twice the rank", (double)lora->alpha);
    base->rank = lora->rank ? lora->rank : 8;
    base->alpha = lora->alpha > 0 ? lora->alpha : 2 * (float)base->rank;
    base->target = qn__arena_array(&t->arena, (size_t)m->n_weights, sizeof *base->target);
    base->layers = qn__arena_array(&t->arena, (size_t)m->n_weights, sizeof *base->layers);
    base->steps = qn__arena_array(&t->arena, (size_t)m->hp.n_layer, sizeof *base->steps);
    if (!base->target || !base->layers || !base->steps)
        return QN_FAIL_NOMEM(err, (size_t)m->n_weights * sizeof *base->layers);
    for (int i = 0; i < m->n_weights; i++) {
        base->target[i] = qn__adapter_fits(m, &m->weights[i]) && is_target(patterns, &m->weights[i]);
        base->n_targets += base->target[i];
    }
    return base->n_targets
               ? QN_OK
               : QN_FAIL(err, invalid,
                         "no linear layer of the base matches \"%.200s\"; names are such as blk.0.attn_q, output",
                         patterns);
}

/* ---- the base ---- */

static qn_status decided_by_base(const qn_train_options *in, qn_error *err)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        {"layers", in->n_layer != 0},       {"embd", in->n_embd != 0}, {"heads", in->n_head != 0},
        {"kv-heads", in->n_kv_head != 0},   {"ff", in->n_ff != 0},     {"vocab-size", in->n_vocab != 0},
        {"rope-base", in->rope_base != 0},  {"tied", in->tied},        {"arch", in->arch != NULL},
        {"split-digits", in->split_digits},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].given)
            return QN_FAIL(err, invalid, "%s is the base's in training an adapter, and cannot be given", rows[i].name);
    return QN_OK;
}

static qn_status open_base(qn_trainer *t, const qn_lora_options *lora, const qn_train_options *in,
                           qn_train_options *out, qn_error *err)
{
    qn_lora_base *base = t->lora;
    QN_TRY(qn_tokenizer_create(base->file, &base->tok, err));
    QN_TRY(qn__model_load(base->file, qn_tokenizer_n_tokens(base->tok), &base->model, err));
    const qn_hparams *hp = &base->model->hp;
    QN_TRY(qn__lm_trainable(base->model, err));
    *out = *in;
    out->n_layer = (int32_t)hp->n_layer;
    out->n_embd = (int32_t)hp->n_embd;
    out->n_head = (int32_t)hp->n_head;
    out->n_kv_head = (int32_t)hp->n_kv_head;
    out->n_ff = (int32_t)hp->n_ff;
    out->n_vocab = (int32_t)hp->n_vocab;
    out->rope_base = hp->rope_base;
    out->tied = base->model->top.out == base->model->top.tok_embd;
    /* none by default: a pair that shrinks forgets, the base is what regularizes */
    if (out->weight_decay == 0) out->weight_decay = -1;
    if (out->n_ctx > (int32_t)hp->n_ctx_train)
        return QN_FAIL(err, invalid, "ctx is %d; the base's context is %u", out->n_ctx, hp->n_ctx_train);
    if (!out->n_ctx) out->n_ctx = hp->n_ctx_train < 256 ? (int32_t)hp->n_ctx_train : 256;
    return choose(t, lora, err);
}

qn_status qn__lora_open(qn_trainer *t, const qn_lora_options *lora, const qn_train_options *in, qn_train_options *out,
                        qn_error *err)
{
    QN_TRY(decided_by_base(in, err));
    if (in->bf16)
        return QN_FAIL(err, unsupported,
                       "bf16 is for models from nothing; an adapter learns in F32 over its base's type");
    if (!lora->base) return QN_FAIL(err, invalid, "an adapter needs a base model");
    t->lora = qn__arena_array(&t->arena, 1, sizeof *t->lora);
    if (!t->lora) return QN_FAIL_NOMEM(err, sizeof *t->lora);
    QN_TRY(qn_gguf_open(lora->base, NULL, &t->lora->file, err));
    return qn__prefix(err, open_base(t, lora, in, out, err), "%s", lora->base);
}

void qn__lora_close(qn_lora_base *base)
{
    if (!base) return;
    qn__model_free(base->model);
    qn_tokenizer_destroy(base->tok);
    qn_gguf_close(base->file);
}

const qn_gguf *qn__lora_file(const qn_lora_base *base) { return base->file; }
const qn_tokenizer *qn__lora_tokenizer(const qn_lora_base *base) { return base->tok; }

double qn__lora_count(const qn_lora_base *base)
{
    double n = 0;
    for (int i = 0; i < base->model->n_weights; i++)
        if (base->target[i])
            n += (double)base->rank *
                 (double)(base->model->weights[i].shape.dim[0] + base->model->weights[i].shape.dim[1]);
    return n;
}

double qn__lora_weights(const qn_lora_base *base)
{
    double n = 0;
    for (int i = 0; i < base->model->n_weights; i++) {
        const qn_weight *w = &base->model->weights[i];
        if (w->shape.rank == 2 && (w != base->model->top.tok_embd || w == base->model->top.out))
            n += (double)qn_shape_numel(&w->shape);
    }
    return n;
}

/* A few bytes of each weight tell fine-tunes of one model apart without reading all of it. */
static uint64_t hash_sample(uint64_t h, const qn_weight *w)
{
    enum { SAMPLE = 64 };
    const uint64_t size = w->tensor->size_bytes, n = size < SAMPLE ? size : SAMPLE;
    const uint64_t at[] = {0, (size - n) / 2, size - n};
    const uint8_t *data = w->tensor->data;
    h = qn__hash(h, w->name, strlen(w->name) + 1);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) h = qn__hash(h, data + at[i], (size_t)n);
    return h;
}

void qn__lora_identity(const qn_lora_base *base, qn_lora_identity *out)
{
    const uint64_t bytes = qn_gguf_file_bytes(base->file);
    *out = (qn_lora_identity){.base = qn__hash(QN_HASH_INIT, &bytes, sizeof bytes), .targets = QN_HASH_INIT};
    for (int i = 0; i < base->model->n_weights; i++) {
        const qn_weight *w = &base->model->weights[i];
        out->base = hash_sample(out->base, w);
        if (base->target[i]) out->targets = qn__hash(out->targets, w->name, strlen(w->name) + 1);
    }
    qn__format(out->options, sizeof out->options, "lora-r=%d\nlora-alpha=%.9g\n", base->rank, (double)base->alpha);
}

uint64_t qn__lora_joined_hash(const qn_lora_base *base, uint64_t seed)
{
    const uint64_t bytes = qn_gguf_file_bytes(base->file);
    uint64_t h = qn__hash(seed, &base->alpha, sizeof base->alpha);
    h = qn__hash(h, &bytes, sizeof bytes);
    const qn_top *top = &base->model->top;
    const qn_weight *norm = top->out_norm ? top->out_norm : top->tok_embd;
    return qn__hash(h, norm->tensor->data, norm->tensor->size_bytes);
}

/* ---- tensors ---- */

static void release_copy(void *copy) { qn__free(copy); }

/* A weight as a tensor over the mapped file. Vectors become F32; a file of the other byte order is byte-swapped in a
 * copy. */
static qn_tensor *base_tensor(qn_trainer *t, const qn_weight *w, qn_error *err)
{
    const bool native = qn__gguf_is_native(t->lora->file);
    void *data = (void *)(uintptr_t)w->tensor->data; /* read only, as no operation writes there */
    if (!native) {
        data = qn__alloc(w->tensor->size_bytes);
        if (!data) return QN_FAIL_NOMEM(err, w->tensor->size_bytes), NULL;
        if (qn__gguf_tensor_native(t->lora->file, w->tensor, data, err) != QN_OK) return qn__free(data), NULL;
    }
    qn_tensor *x = qn_from_blob(t->ctx, data, w->shape, NULL, w->dtype, native ? NULL : release_copy, data);
    if (!x && !native) qn__free(data);
    if (x && w->vector && w->dtype != QN_DTYPE_F32) x = qn_to(x, QN_DTYPE_F32);
    if (!x) (void)qn__train_failed(t, err);
    return x;
}

static qn_tensor *learnt(qn_trainer *t, const qn_weight *w, bool is_a)
{
    const qn_lora_base *base = t->lora;
    const qn_shape shape = is_a ? qn_shape_of(base->rank, w->shape.dim[1]) : qn_shape_of(w->shape.dim[0], base->rank);
    /* Kaiming's uniform distribution with a = sqrt 5, as PEFT begins */
    const double most = 1 / sqrt((double)w->shape.dim[1]);
    char name[300];
    qn_train_param *p = &t->params[t->n_params];
    snprintf(name, sizeof name, "%s.lora_%c", w->name, is_a ? 'a' : 'b');
    p->name = qn__arena_strdup(&t->arena, name);
    const bool open = qn_scope_begin(t->ctx) == QN_OK;
    qn_tensor *value = is_a ? qn_add_number(qn_mul_number(qn_rand(t->ctx, shape, QN_DTYPE_F32), 2 * most), -most)
                            : qn_zeros(t->ctx, shape, QN_DTYPE_F32);
    if (open) qn_scope_end(t->ctx, value);
    p->value = qn_requires_grad_(value, true);
    t->n_params++;
    return p->value;
}

qn_status qn__lora_create(qn_trainer *t, qn_error *err)
{
    qn_lora_base *base = t->lora;
    const qn_model *m = base->model;
    t->params = qn__arena_array(&t->arena, (size_t)base->n_targets * 2, sizeof *t->params);
    if (!t->params) return QN_FAIL_NOMEM(err, (size_t)base->n_targets * 2 * sizeof *t->params);
    qn_manual_seed(t->ctx, t->o.seed);
    for (int i = 0; i < m->n_weights; i++) {
        qn_lora_layer *l = &base->layers[i];
        if (!(l->w = base_tensor(t, &m->weights[i], err)))
            return err && err->status != QN_OK ? err->status : QN_STATUS_nomem;
        if (!base->target[i]) continue;
        l->a = learnt(t, &m->weights[i], true);
        l->b = learnt(t, &m->weights[i], false);
    }
    if (t->arena.failed) return QN_FAIL_NOMEM(err, 64);
    return qn_eval_all(t->ctx) == QN_OK && qn_context_error(t->ctx)->status == QN_OK ? QN_OK : qn__train_failed(t, err);
}

/* ---- the file ---- */

static qn_status write_param(qn_trainer *t, qn_gguf_writer *w, const qn_train_param *p, qn_dtype dtype, qn_error *err)
{
    const qn_shape shape = qn_shape_get(p->value);
    const size_t bytes = (size_t)(qn_dtype_row_bytes(dtype, shape.dim[1]) * shape.dim[0]);
    const float *values = t->has_best ? p->best : qn_data(p->value);
    if (!values) return qn__train_failed(t, err);
    if (dtype == QN_DTYPE_F32) {
        qn_gguf_write_data(w, values, bytes);
        return qn_gguf_writer_status(w, err);
    }
    void *packed = qn__alloc(bytes);
    if (!packed) return QN_FAIL_NOMEM(err, bytes);
    qn_status status = qn_pack(dtype, values, packed, shape.dim[0], shape.dim[1], NULL, err);
    if (status == QN_OK) qn_gguf_write_data(w, packed, bytes);
    qn__free(packed);
    return status == QN_OK ? qn_gguf_writer_status(w, err) : qn__prefix(err, status, "%s", p->name);
}

qn_status qn__lora_export(qn_trainer *t, const char *path, const char *type, const char *name, qn_error *err)
{
    const qn_lora_base *base = t->lora;
    qn_dtype dtype = QN_DTYPE_F32;
    if (type &&
        (!qn_dtype_find(type, &dtype) || (dtype != QN_DTYPE_F32 && dtype != QN_DTYPE_F16 && dtype != QN_DTYPE_BF16)))
        return QN_FAIL(err, unsupported, "type \"%.64s\": an adapter is F32, F16 or BF16", type);
    qn_gguf_writer *w = NULL;
    QN_TRY(qn_gguf_writer_create(path, &w, err));
    qn_gguf_write_str(w, "general.type", "adapter");
    qn_gguf_write_str(w, "general.architecture", base->model->arch->name);
    if (name) qn_gguf_write_str(w, "general.name", name);
    qn_gguf_write_str(w, "adapter.type", "lora");
    qn_gguf_write_f32(w, "adapter.lora.alpha", base->alpha);
    for (int32_t i = 0; i < t->n_params; i++) {
        const qn_shape shape = qn_shape_get(t->params[i].value);
        qn_gguf_declare(w, t->params[i].name, dtype, &shape);
    }
    qn_status status = qn_gguf_writer_status(w, err);
    for (int32_t i = 0; i < t->n_params && status == QN_OK; i++) status = write_param(t, w, &t->params[i], dtype, err);
    if (status == QN_OK || qn_gguf_writer_status(w, NULL) != QN_OK) return qn_gguf_writer_commit(w, err);
    qn_gguf_writer_abort(w);
    return status;
}
