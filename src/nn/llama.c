/* SPDX-License-Identifier: MIT */
/* src/nn/llama.c -- a Llama decoder: pre-norm attention with interleaved RoPE and a gated feed-forward, as src/model/arch/llama.c computes it.
 * Children lie flat in each block, named as in GGUF files. */
#include "nn/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct llama_state {
    qn_llama_options o;       /* defaults filled in */
    qn_kv_cache *cache;       /* during one call */
} llama_state;

/* ---- a layer ---- */

enum { ATTN_NORM, ATTN_Q, ATTN_K, ATTN_V, ATTN_OUTPUT, FFN_NORM, FFN_GATE, FFN_UP, FFN_DOWN };

typedef struct block_state {
    llama_state *model;       /* NULL when it is gone */
    int layer;
} block_state;

static qn_tensor *child(const qn_module *m, int i, qn_tensor *x) { return x != NULL ? qn_module_forward(m->children[i].module, x) : NULL; }

/* x + what half a layer makes of it */
static qn_tensor *residual(const qn_module *m, const llama_state *s, qn_tensor *x, qn_tensor *y)
{
    if (y != NULL && s->o.dropout_p > 0) y = qn_dropout(y, s->o.dropout_p, m->training);
    return y != NULL ? qn_add(x, y) : NULL;
}

static qn_tensor *block(qn_module *m, qn_tensor *const *inputs, int n)
{
    const block_state *b = m->state;
    const llama_state *s = b->model;
    if (s == NULL) return QN_MODULE_FAIL(m, state, "the model that this layer belongs to is gone"), NULL;
    qn_tensor *x = inputs[0], *h = child(m, ATTN_NORM, x);
    const qn_rope_options rope = {.base = s->o.rope_base};
    const qn_attend_spec spec = {
        .heads = s->o.n_head, .kv_heads = s->o.n_kv_head, .is_causal = true, .rope = &rope, .cache = s->cache, .layer = b->layer,
    };
    (void)n;
    qn_tensor *q = child(m, ATTN_Q, h), *k = child(m, ATTN_K, h), *v = child(m, ATTN_V, h);
    if (q == NULL || k == NULL || v == NULL) return NULL;
    x = residual(m, s, x, child(m, ATTN_OUTPUT, qn__attend(q, k, v, &spec)));
    h = child(m, FFN_NORM, x);
    qn_tensor *gate = child(m, FFN_GATE, h), *up = child(m, FFN_UP, h);
    if (gate == NULL || up == NULL) return NULL;
    return residual(m, s, x, child(m, FFN_DOWN, qn_swiglu(gate, up)));
}

static const qn_module_type block_type = {.name = "LlamaBlock", .forward = block, .state_bytes = sizeof(block_state)};

/* A projection whose weights are normal. */
static void add_linear(qn_module *m, const char *name, int64_t in, int64_t out, double deviation)
{
    qn_module *l = m != NULL ? qn_module_add_module(m, name, qn_nn_linear(m->ctx, in, out, false)) : NULL;
    if (l != NULL && qn_init_normal_(qn__own(l, 0), 0, deviation) == NULL) m->failed = true;
}

static qn_module *make_block(qn_context *c, llama_state *s, int layer)
{
    const qn_llama_options *o = &s->o;
    const int64_t d = o->n_embd, q = o->n_head * o->head_dim, kv = o->n_kv_head * o->head_dim;
    const double added = o->deviation / sqrt(2.0 * (double)o->n_layer);
    qn_module *m = qn_module_create(c, &block_type);
    if (m == NULL) return NULL;
    *(block_state *)m->state = (block_state){s, layer};
    (void)qn_module_add_module(m, "attn_norm", qn_nn_rms_norm(c, d, o->norm_eps));
    add_linear(m, "attn_q", d, q, o->deviation);
    add_linear(m, "attn_k", d, kv, o->deviation);
    add_linear(m, "attn_v", d, kv, o->deviation);
    add_linear(m, "attn_output", q, d, added);
    (void)qn_module_add_module(m, "ffn_norm", qn_nn_rms_norm(c, d, o->norm_eps));
    add_linear(m, "ffn_gate", d, o->n_ff, o->deviation);
    add_linear(m, "ffn_up", d, o->n_ff, o->deviation);
    add_linear(m, "ffn_down", o->n_ff, d, added);
    return qn_module_ready(m);
}

/* ---- the model ---- */

enum { TOKEN_EMBD, BLOCKS, OUTPUT_NORM, OUTPUT };

static qn_tensor *llama(qn_module *m, qn_tensor *const *inputs, int n)
{
    llama_state *s = m->state;
    (void)n;
    if (s->cache != NULL && !qn__kv_begin(s->cache, qn_dim(inputs[0], -1))) return NULL;
    qn_tensor *x = child(m, TOKEN_EMBD, inputs[0]);
    if (x != NULL && s->o.dropout_p > 0) x = qn_dropout(x, s->o.dropout_p, m->training);
    const qn_module *blocks = m->children[BLOCKS].module;
    for (int i = 0; i < blocks->n_children; i++) x = child(blocks, i, x);
    x = child(m, OUTPUT_NORM, x);
    if (s->o.tied) x = x != NULL ? qn_linear(x, qn__own(m->children[TOKEN_EMBD].module, 0), NULL) : NULL;
    else x = child(m, OUTPUT, x);
    if (s->cache != NULL) qn__kv_end(s->cache, x != NULL);
    return x;
}

static void describe(const qn_module *m, char *text, size_t size)
{
    const llama_state *s = m->state;
    snprintf(text, size, "vocab=%lld, ctx=%lld, heads=%lld, kv_heads=%lld%s", (long long)s->o.n_vocab, (long long)s->o.n_ctx,
             (long long)s->o.n_head, (long long)s->o.n_kv_head, s->o.tied ? ", tied" : "");
}

/* One row for each number that a file has: written by saving, read by qn_llama_options_read. */
#define LLAMA_NUMBER_ROWS(NUMBER, REAL) \
    NUMBER("llama.vocab_size", n_vocab) \
    NUMBER("llama.context_length", n_ctx) \
    NUMBER("llama.embedding_length", n_embd) \
    NUMBER("llama.block_count", n_layer) \
    NUMBER("llama.feed_forward_length", n_ff) \
    NUMBER("llama.attention.head_count", n_head) \
    NUMBER("llama.attention.head_count_kv", n_kv_head) \
    NUMBER("llama.attention.key_length", head_dim) \
    NUMBER("llama.attention.value_length", head_dim) \
    NUMBER("llama.rope.dimension_count", head_dim) \
    REAL("llama.attention.layer_norm_rms_epsilon", norm_eps) \
    REAL("llama.rope.freq_base", rope_base)

static void gguf(const qn_module *m, qn_gguf_writer *w)
{
    const llama_state *s = m->state;
    qn_gguf_write_str(w, "general.architecture", "llama");
#define WRITE_NUMBER(key, field) qn_gguf_write_u32(w, key, (uint32_t)s->o.field);
#define WRITE_REAL(key, field) qn_gguf_write_f32(w, key, (float)s->o.field);
    LLAMA_NUMBER_ROWS(WRITE_NUMBER, WRITE_REAL)
}

/* A layer that somebody retained lives on, but computes no more. */
static void destroy(qn_module *m)
{
    const qn_module *blocks = m->n_children > BLOCKS ? m->children[BLOCKS].module : NULL;
    for (int i = 0; blocks != NULL && i < blocks->n_children; i++) {
        qn_module *b = blocks->children[i].module;
        if (b->type == &block_type && ((block_state *)b->state)->model == m->state) ((block_state *)b->state)->model = NULL;
    }
}

static const qn_module_type llama_type = {
    .name = "Llama", .forward = llama, .destroy = destroy, .describe = describe, .gguf = gguf, .state_bytes = sizeof(llama_state),
};

/* Fills in defaults; false, with an error, when sizes do not go together. */
static bool resolve(qn_context *c, const qn_llama_options *o, qn_llama_options *out)
{
    *out = *o;
    if (out->n_kv_head == 0) out->n_kv_head = o->n_head;
    if (out->head_dim == 0 && o->n_head > 0 && o->n_embd % o->n_head == 0) out->head_dim = o->n_embd / o->n_head;
    if (out->norm_eps == 0) out->norm_eps = 1e-5;
    if (out->rope_base == 0) out->rope_base = 10000;
    if (out->deviation == 0) out->deviation = 0.02;
    const int64_t sizes[] = {out->n_vocab, out->n_ctx, out->n_embd, out->n_layer, out->n_head, out->n_kv_head, out->n_ff, out->head_dim};
    if (!qn__sizes_fit(c, "Llama", sizes, 8)) return false;
    bool good = out->n_head % out->n_kv_head == 0 && out->head_dim % 2 == 0 && out->dropout_p >= 0 && out->dropout_p <= 1 && out->deviation > 0;
    for (int i = 0; i < 8; i++) good = good && sizes[i] <= 1 << 28;
    good = good && out->n_head <= 65536 && out->n_layer <= 4096 && out->head_dim <= 65536;
    if (good) return true;
    (void)qn_context_fail(c, QN_STATUS_invalid, "Llama: %lld heads of %lld elements, %lld of keys, %lld layers, dropout %g are not possible",
                          (long long)out->n_head, (long long)out->head_dim, (long long)out->n_kv_head, (long long)out->n_layer, out->dropout_p);
    return false;
}

qn_module *qn_nn_llama(qn_context *c, const qn_llama_options *options)
{
    qn_llama_options o;
    if (c == NULL || options == NULL || !resolve(c, options, &o)) return NULL;
    qn_module *m = qn_module_create(c, &llama_type);
    if (m == NULL) return NULL;
    llama_state *s = m->state;
    s->o = o;
    qn_module *table = qn_module_add_module(m, "token_embd", qn_nn_embedding(c, o.n_vocab, o.n_embd, -1));
    if (table != NULL && qn_init_normal_(qn__own(table, 0), 0, o.deviation) == NULL) m->failed = true;
    qn_module *blocks = qn_module_add_module(m, "blk", qn_nn_module_list(c, NULL, 0));
    for (int64_t i = 0; i < o.n_layer && blocks != NULL; i++) (void)qn_module_append(blocks, make_block(c, s, (int)i));
    if (blocks == NULL || blocks->failed) m->failed = true;
    (void)qn_module_add_module(m, "output_norm", qn_nn_rms_norm(c, o.n_embd, o.norm_eps));
    if (!o.tied) add_linear(m, "output", o.n_embd, o.n_vocab, o.deviation);
    return qn_module_ready(m);
}

/* ---- decoding ---- */

static llama_state *state_of(qn_module *m, const char *name)
{
    if (m == NULL) return NULL;
    if (m->type == &llama_type) return m->state;
    QN_MODULE_FAIL(m, invalid, "%s: a Llama expected, this is a %s", name, m->type->name);
    return NULL;
}

qn_tensor *qn_llama_decode(qn_module *m, qn_tensor *tokens, qn_kv_cache *cache)
{
    llama_state *s = state_of(m, "llama_decode");
    if (s == NULL || cache == NULL) return NULL;
    s->cache = cache;
    qn_tensor *y = qn_module_forward(m, tokens);
    s->cache = NULL;
    return y;
}

qn_kv_cache *qn_llama_cache(qn_module *m, int64_t batch, int64_t capacity)
{
    const llama_state *s = state_of(m, "llama_cache");
    if (s == NULL) return NULL;
    return qn_kv_cache_create(m->ctx, &(qn_kv_options){.n_layers = s->o.n_layer, .batch = batch, .heads = s->o.n_kv_head,
                                                       .head_dim = s->o.head_dim, .capacity = capacity > 0 ? capacity : s->o.n_ctx});
}

/* ---- from a file ---- */

static qn_status read_number(const qn_gguf *file, const char *key, int64_t *out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    uint64_t value;
    if (kv == NULL) return QN_OK;
    QN_TRY(qn_gguf_get_u64(file, kv, 0, &value, err));
    if (value > 1 << 28) return QN_FAIL(err, format, "%s is %llu, at most %d expected", key, (unsigned long long)value, 1 << 28);
    if (*out != 0 && *out != (int64_t)value) {
        return QN_FAIL(err, unsupported, "%s is %llu, %lld expected", key, (unsigned long long)value, (long long)*out);
    }
    *out = (int64_t)value;
    return QN_OK;
}

static qn_status read_real(const qn_gguf *file, const char *key, double *out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    return kv != NULL ? qn_gguf_get_f64(file, kv, 0, out, err) : QN_OK;
}

qn_status qn_llama_options_read(const qn_gguf *file, qn_llama_options *out, qn_error *err)
{
    qn_llama_options o = {0};
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "general.architecture");
    qn_gguf_str arch = {"", 0};
    char quoted[64];
    if (kv != NULL) QN_TRY(qn_gguf_get_str(file, kv, 0, &arch, err));
    if (arch.len != 5 || memcmp(arch.data, "llama", 5) != 0) {
        return QN_FAIL(err, unsupported, "general.architecture is \"%s\", \"llama\" expected", qn__str_quote(quoted, sizeof quoted, arch.data, arch.len));
    }
    if (qn_gguf_kv_find(file, "llama.rope.scaling.type") != NULL || qn_gguf_tensor_find(file, "rope_freqs.weight") != NULL) {
        return QN_FAIL(err, unsupported, "scaled rotary embeddings are not supported in this module");
    }
    const qn_gguf_tensor *table = qn_gguf_tensor_find(file, "token_embd.weight");
    if (table != NULL && table->shape.rank == 2) o.n_vocab = table->shape.dim[0];
#define READ_NUMBER(key, field) QN_TRY(read_number(file, key, &o.field, err));
#define READ_REAL(key, field) QN_TRY(read_real(file, key, &o.field, err));
    LLAMA_NUMBER_ROWS(READ_NUMBER, READ_REAL)
    o.tied = qn_gguf_tensor_find(file, "output.weight") == NULL;
    *out = o;
    return QN_OK;
}
