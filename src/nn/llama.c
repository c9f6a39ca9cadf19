/* SPDX-License-Identifier: MIT */
/* src/nn/llama.c -- Llama-like decoders: pre-norm attention with RoPE and a gated feed-forward, as src/model/arch
 * computes them. Children lie flat in each block, named as in GGUF files. */
#include "nn/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct llama_arch {
    const char *name;
    bool neox, qk_norm;
    double rope_base;
} llama_arch;

static const llama_arch archs[] = {
/* clang-format off */
#define LLAMA_ARCH(name, neox, qk_norm, rope_base) {#name, neox, qk_norm, rope_base},
    /* clang-format on */
    QN_LLAMA_ROWS(LLAMA_ARCH)
#undef LLAMA_ARCH
};

static const llama_arch *find_arch(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    }
    return NULL;
}

typedef struct llama_state {
    qn_llama_options o; /* defaults filled in */
    const llama_arch *arch;
    qn_tensor *factors; /* the buffer of a child; NULL without */
    qn_kv_cache *cache; /* during one call */
} llama_state;

/* ---- a layer ---- */

enum { ATTN_NORM, ATTN_Q, ATTN_K, ATTN_V, ATTN_OUTPUT, FFN_NORM, FFN_GATE, FFN_UP, FFN_DOWN, ATTN_Q_NORM, ATTN_K_NORM };

typedef struct block_state {
    llama_state *model; /* NULL when it is gone */
    int layer;
} block_state;

static qn_tensor *child(const qn_module *m, int i, qn_tensor *x)
{
    return x != NULL ? qn_module_forward(m->children[i].module, x) : NULL;
}

/* x + what half a layer makes of it */
static qn_tensor *residual(const qn_module *m, const llama_state *s, qn_tensor *x, qn_tensor *y)
{
    if (y != NULL && s->o.dropout_p > 0) y = qn_dropout(y, s->o.dropout_p, m->training);
    return y != NULL ? qn_add(x, y) : NULL;
}

static qn_rope_options rope_of(const llama_state *s)
{
    const qn_llama_options *o = &s->o;
    return (qn_rope_options){.base = o->rope_base,
                             .neox = s->arch->neox,
                             .factors = s->factors,
                             .freq_scale = 1 / o->rope_factor,
                             .attn_factor = o->rope_attn_factor,
                             .ext_factor = o->yarn,
                             .n_ctx_orig = (int)o->n_ctx_orig};
}

/* The norm of every head of x [.., n, heads d]. */
static qn_tensor *head_norm(const qn_module *m, int i, qn_tensor *x, int64_t heads, int64_t d)
{
    if (x == NULL || i >= m->n_children) return x;
    qn_shape whole = qn_shape_get(x), parts = whole;
    parts.dim[whole.rank - 1] = heads;
    parts.dim[parts.rank++] = d;
    qn_tensor *y = child(m, i, qn_view_as(x, parts));
    return y != NULL ? qn_view_as(y, whole) : NULL;
}

static qn_tensor *block(qn_module *m, qn_tensor *const *inputs, int n)
{
    const block_state *b = m->state;
    const llama_state *s = b->model;
    if (s == NULL) return QN_MODULE_FAIL(m, state, "the model that this layer belongs to is gone"), NULL;
    qn_tensor *x = inputs[0], *mask = n > 1 ? inputs[1] : NULL, *h = child(m, ATTN_NORM, x);
    const qn_rope_options rope = rope_of(s);
    const qn_attend_spec spec = {
        .heads = s->o.n_head,
        .kv_heads = s->o.n_kv_head,
        .is_causal = mask == NULL,
        .mask = mask,
        .rope = &rope,
        .cache = s->cache,
        .layer = b->layer,
    };
    qn_tensor *q = child(m, ATTN_Q, h), *k = child(m, ATTN_K, h), *v = child(m, ATTN_V, h);
    q = head_norm(m, ATTN_Q_NORM, q, s->o.n_head, s->o.head_dim);
    k = head_norm(m, ATTN_K_NORM, k, s->o.n_kv_head, s->o.head_dim);
    if (q == NULL || k == NULL || v == NULL) return NULL;
    x = residual(m, s, x, child(m, ATTN_OUTPUT, qn__attend(q, k, v, &spec)));
    h = child(m, FFN_NORM, x);
    qn_tensor *gate = child(m, FFN_GATE, h), *up = child(m, FFN_UP, h);
    if (gate == NULL || up == NULL) return NULL;
    return residual(m, s, x, child(m, FFN_DOWN, qn_swiglu(gate, up)));
}

static const qn_module_type block_type = {
    .name = "LlamaBlock", .forward = block, .state_bytes = sizeof(block_state), .min_inputs = 1, .max_inputs = 2};

/* A projection whose weights are normal, and whose bias, if any, is 0. */
static void add_linear(qn_module *m, const char *name, int64_t in, int64_t out, bool bias, double deviation)
{
    qn_module *l = m != NULL ? qn_module_add_module(m, name, qn_nn_linear(m->ctx, in, out, bias)) : NULL;
    if (l != NULL && qn_init_normal_(qn__own(l, 0), 0, deviation) == NULL) m->failed = true;
    if (l != NULL && bias && qn_init_constant_(qn__own(l, 1), 0) == NULL) m->failed = true;
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
    add_linear(m, "attn_q", d, q, o->qkv_bias, o->deviation);
    add_linear(m, "attn_k", d, kv, o->qkv_bias, o->deviation);
    add_linear(m, "attn_v", d, kv, o->qkv_bias, o->deviation);
    add_linear(m, "attn_output", q, d, o->out_bias, added);
    (void)qn_module_add_module(m, "ffn_norm", qn_nn_rms_norm(c, d, o->norm_eps));
    add_linear(m, "ffn_gate", d, o->n_ff, o->ff_bias, o->deviation);
    add_linear(m, "ffn_up", d, o->n_ff, o->ff_bias, o->deviation);
    add_linear(m, "ffn_down", o->n_ff, d, o->ff_bias, added);
    if (s->arch->qk_norm) {
        (void)qn_module_add_module(m, "attn_q_norm", qn_nn_rms_norm(c, o->head_dim, o->norm_eps));
        (void)qn_module_add_module(m, "attn_k_norm", qn_nn_rms_norm(c, o->head_dim, o->norm_eps));
    }
    return qn_module_ready(m);
}

/* ---- the model ---- */

enum { TOKEN_EMBD, BLOCKS, OUTPUT_NORM, OUTPUT };

static qn_tensor *layer_again(void *layer, qn_tensor *const *inputs, int n)
{
    return qn_module_forward_n(layer, inputs, n);
}

static qn_tensor *llama(qn_module *m, qn_tensor *const *inputs, int n)
{
    llama_state *s = m->state;
    qn_tensor *mask = n > 1 ? inputs[1] : NULL;
    if (s->cache != NULL && !qn__kv_begin(s->cache, qn_dim(inputs[0], -1))) return NULL;
    qn_tensor *x = child(m, TOKEN_EMBD, inputs[0]);
    if (x != NULL && s->o.dropout_p > 0) x = qn_dropout(x, s->o.dropout_p, m->training);
    const qn_module *blocks = m->children[BLOCKS].module;
    const bool again = s->o.grad_checkpointing && m->training && s->cache == NULL;
    for (int i = 0; i < blocks->n_children && x != NULL; i++) {
        qn_module *layer = blocks->children[i].module;
        qn_tensor *const in[] = {x, mask};
        x = again ? qn_checkpoint(layer_again, layer, in, mask != NULL ? 2 : 1) : qn_module_forward_n(layer, in, 2);
    }
    x = child(m, OUTPUT_NORM, x);
    if (s->o.tied)
        x = x != NULL ? qn_linear(x, qn__own(m->children[TOKEN_EMBD].module, 0), NULL) : NULL;
    else
        x = child(m, OUTPUT, x);
    if (s->cache != NULL) qn__kv_end(s->cache, x != NULL);
    return x;
}

static void describe(const qn_module *m, char *text, size_t size)
{
    const llama_state *s = m->state;
    snprintf(text, size, "vocab=%lld, ctx=%lld, heads=%lld, kv_heads=%lld%s", (long long)s->o.n_vocab,
             (long long)s->o.n_ctx, (long long)s->o.n_head, (long long)s->o.n_kv_head, s->o.tied ? ", tied" : "");
}

/* One row for each number that a file has, behind the name of the architecture: written by saving, read by
 * qn_llama_options_read. */
/* clang-format off */
#define LLAMA_NUMBER_ROWS(NUMBER, REAL) \
    NUMBER("vocab_size", n_vocab) \
    NUMBER("context_length", n_ctx) \
    NUMBER("embedding_length", n_embd) \
    NUMBER("block_count", n_layer) \
    NUMBER("feed_forward_length", n_ff) \
    NUMBER("attention.head_count", n_head) \
    NUMBER("attention.head_count_kv", n_kv_head) \
    NUMBER("attention.key_length", head_dim) \
    NUMBER("attention.value_length", head_dim) \
    NUMBER("rope.dimension_count", head_dim) \
    REAL("attention.layer_norm_rms_epsilon", norm_eps) \
    REAL("rope.freq_base", rope_base)
/* clang-format on */
/* The same where RoPE is stretched. */
/* clang-format off */
#define LLAMA_SCALING_ROWS(NUMBER, REAL) \
    REAL("rope.scaling.factor", rope_factor) \
    REAL("rope.scaling.attn_factor", rope_attn_factor) \
    NUMBER("rope.scaling.original_context_length", n_ctx_orig)
/* clang-format on */

static const char *key_of(const llama_arch *arch, const char *key, char text[96])
{
    snprintf(text, 96, "%s.%s", arch->name, key);
    return text;
}

static void gguf(const qn_module *m, qn_gguf_writer *w)
{
    const llama_state *s = m->state;
    char text[96];
    qn_gguf_write_str(w, "general.architecture", s->arch->name);
#define WRITE_NUMBER(key, field) qn_gguf_write_u32(w, key_of(s->arch, key, text), (uint32_t)s->o.field);
#define WRITE_REAL(key, field)   qn_gguf_write_f32(w, key_of(s->arch, key, text), (float)s->o.field);
    LLAMA_NUMBER_ROWS(WRITE_NUMBER, WRITE_REAL)
    if (!s->o.yarn && s->o.rope_factor == 1 && s->o.rope_attn_factor == 1) return;
    qn_gguf_write_str(w, key_of(s->arch, "rope.scaling.type", text), s->o.yarn ? "yarn" : "linear");
    LLAMA_SCALING_ROWS(WRITE_NUMBER, WRITE_REAL)
}

/* A layer that somebody retained lives on, but computes no more. */
static void destroy(qn_module *m)
{
    const qn_module *blocks = m->n_children > BLOCKS ? m->children[BLOCKS].module : NULL;
    for (int i = 0; blocks != NULL && i < blocks->n_children; i++) {
        qn_module *b = blocks->children[i].module;
        if (b->type == &block_type && ((block_state *)b->state)->model == m->state)
            ((block_state *)b->state)->model = NULL;
    }
}

static const qn_module_type llama_type = {
    .name = "Llama",
    .forward = llama,
    .destroy = destroy,
    .describe = describe,
    .gguf = gguf,
    .state_bytes = sizeof(llama_state),
    .min_inputs = 1,
    .max_inputs = 2,
};

static qn_tensor *no_forward(qn_module *m, qn_tensor *const *inputs, int n)
{
    (void)inputs, (void)n;
    return QN_MODULE_FAIL(m, unsupported, "these factors are read by the layers, and compute nothing"), NULL;
}

static const qn_module_type factors_type = {.name = "RopeFactors", .forward = no_forward};

/* Frequencies are divided by its buffer. */
static qn_tensor *add_factors(qn_module *m, int64_t n)
{
    qn_module *f = qn_module_add_module(m, "rope_freqs", qn_module_create(m->ctx, &factors_type));
    qn_tensor *ones = f != NULL ? qn_ones(m->ctx, qn_shape_of(n), QN_DTYPE_F32) : NULL;
    if (ones == NULL || qn_module_add_buffer(f, "weight", ones) == NULL) m->failed = true;
    return f != NULL ? qn__own(f, 0) : NULL;
}

static bool check_rope(qn_context *c, const qn_llama_options *o)
{
    const double least = o->yarn ? 1 : 1e-6;
    if (o->rope_factor >= least && o->rope_factor <= 1e6 && o->rope_attn_factor > 0 && o->rope_attn_factor <= 1e3 &&
        o->rope_base >= 1 && o->n_ctx_orig >= 1 && o->n_ctx_orig <= 1 << 28)
        return true;
    (void)qn_context_fail(
        c, QN_STATUS_invalid,
        "Llama: RoPE of base %g, factor %g, attention factor %g, from a context of %lld, is not possible", o->rope_base,
        o->rope_factor, o->rope_attn_factor, (long long)o->n_ctx_orig);
    return false;
}

/* Fills in defaults; NULL, with an error, when sizes do not go together. */
static const llama_arch *resolve(qn_context *c, const qn_llama_options *o, qn_llama_options *out)
{
    const char *name = o->arch != NULL ? o->arch : archs[0].name;
    const llama_arch *arch = find_arch(name, strlen(name));
    if (arch == NULL) {
        (void)qn_context_fail(c, QN_STATUS_unsupported, "Llama: architecture \"%.64s\" is not known", name);
        return NULL;
    }
    *out = *o;
    out->arch = arch->name;
    if (out->n_kv_head == 0) out->n_kv_head = o->n_head;
    if (out->head_dim == 0 && o->n_head > 0 && o->n_embd % o->n_head == 0) out->head_dim = o->n_embd / o->n_head;
    if (out->norm_eps == 0) out->norm_eps = 1e-5;
    if (out->rope_base == 0) out->rope_base = arch->rope_base;
    if (out->rope_factor == 0) out->rope_factor = 1;
    if (out->rope_attn_factor == 0) out->rope_attn_factor = 1;
    if (out->n_ctx_orig == 0) out->n_ctx_orig = o->n_ctx;
    if (out->deviation == 0) out->deviation = 0.02;
    const int64_t sizes[] = {out->n_vocab, out->n_ctx,     out->n_embd, out->n_layer,
                             out->n_head,  out->n_kv_head, out->n_ff,   out->head_dim};
    if (!qn__sizes_fit(c, "Llama", sizes, 8)) return NULL;
    bool good = out->n_head % out->n_kv_head == 0 && out->head_dim % 2 == 0 && out->dropout_p >= 0 &&
                out->dropout_p <= 1 && out->deviation > 0;
    for (int i = 0; i < 8; i++) good = good && sizes[i] <= 1 << 28;
    good = good && out->n_head <= 65536 && out->n_layer <= 4096 && out->head_dim <= 65536;
    if (good) return check_rope(c, out) ? arch : NULL;
    (void)qn_context_fail(c, QN_STATUS_invalid,
                          "Llama: %lld heads of %lld elements, %lld of keys, %lld layers, dropout %g are not possible",
                          (long long)out->n_head, (long long)out->head_dim, (long long)out->n_kv_head,
                          (long long)out->n_layer, out->dropout_p);
    return NULL;
}

qn_module *qn_nn_llama(qn_context *c, const qn_llama_options *options)
{
    qn_llama_options o;
    const llama_arch *arch = c != NULL && options != NULL ? resolve(c, options, &o) : NULL;
    qn_module *m = arch != NULL ? qn_module_create(c, &llama_type) : NULL;
    if (m == NULL) return NULL;
    llama_state *s = m->state;
    s->o = o;
    s->arch = arch;
    qn_module *table = qn_module_add_module(m, "token_embd", qn_nn_embedding(c, o.n_vocab, o.n_embd, -1));
    if (table != NULL && qn_init_normal_(qn__own(table, 0), 0, o.deviation) == NULL) m->failed = true;
    qn_module *blocks = qn_module_add_module(m, "blk", qn_nn_module_list(c, NULL, 0));
    for (int64_t i = 0; i < o.n_layer && blocks != NULL; i++) (void)qn_module_append(blocks, make_block(c, s, (int)i));
    if (blocks == NULL || blocks->failed) m->failed = true;
    (void)qn_module_add_module(m, "output_norm", qn_nn_rms_norm(c, o.n_embd, o.norm_eps));
    if (!o.tied) add_linear(m, "output", o.n_embd, o.n_vocab, false, o.deviation);
    if (o.rope_factors) s->factors = add_factors(m, o.head_dim / 2);
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
    return qn_kv_cache_create(m->ctx, &(qn_kv_options){.n_layers = s->o.n_layer,
                                                       .batch = batch,
                                                       .heads = s->o.n_kv_head,
                                                       .head_dim = s->o.head_dim,
                                                       .capacity = capacity > 0 ? capacity : s->o.n_ctx});
}

/* ---- from a file ---- */

static qn_status read_number(const qn_gguf *file, const char *key, int64_t *out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    uint64_t value;
    if (kv == NULL) return QN_OK;
    QN_TRY(qn_gguf_get_u64(file, kv, 0, &value, err));
    if (value > 1 << 28)
        return QN_FAIL(err, format, "%s is %llu, at most %d expected", key, (unsigned long long)value, 1 << 28);
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

static bool is(qn_gguf_str text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* As src/model/hparams.c: older files name only the factor. */
static qn_status read_scaling(const qn_gguf *file, const llama_arch *arch, qn_llama_options *o, qn_error *err)
{
    char text[96], quoted[64];
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key_of(arch, "rope.scaling.type", text));
    qn_gguf_str type = {"linear", 6};
    if (kv != NULL) QN_TRY(qn_gguf_get_str(file, kv, 0, &type, err));
    o->yarn = is(type, "yarn");
    if (!o->yarn && !is(type, "linear") && !is(type, "none")) {
        return QN_FAIL(err, unsupported, "%s is \"%s\"; none, linear and yarn are supported", text,
                       qn__str_quote(quoted, sizeof quoted, type.data, type.len));
    }
    if (is(type, "none")) o->rope_factor = 0;
    return QN_OK;
}

qn_status qn_llama_options_read(const qn_gguf *file, qn_llama_options *out, qn_error *err)
{
    qn_llama_options o = {0};
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "general.architecture");
    qn_gguf_str name = {"", 0};
    char quoted[64], text[96];
    if (kv != NULL) QN_TRY(qn_gguf_get_str(file, kv, 0, &name, err));
    const llama_arch *arch = find_arch(name.data, name.len);
    if (arch == NULL) {
#define LLAMA_NAME(name, neox, qk_norm, rope_base) #name " "
        return QN_FAIL(err, unsupported, "general.architecture is \"%s\", one of " QN_LLAMA_ROWS(LLAMA_NAME) "expected",
                       qn__str_quote(quoted, sizeof quoted, name.data, name.len));
    }
    o.arch = arch->name;
    o.rope_factors = qn_gguf_tensor_find(file, "rope_freqs.weight") != NULL;
    o.qkv_bias = qn_gguf_tensor_find(file, "blk.0.attn_q.bias") != NULL;
    o.out_bias = qn_gguf_tensor_find(file, "blk.0.attn_output.bias") != NULL;
    o.ff_bias = qn_gguf_tensor_find(file, "blk.0.ffn_gate.bias") != NULL;
    const qn_gguf_tensor *table = qn_gguf_tensor_find(file, "token_embd.weight");
    if (table != NULL && table->shape.rank == 2) o.n_vocab = table->shape.dim[0];
#define READ_NUMBER(key, field) QN_TRY(read_number(file, key_of(arch, key, text), &o.field, err));
#define READ_REAL(key, field)   QN_TRY(read_real(file, key_of(arch, key, text), &o.field, err));
    LLAMA_NUMBER_ROWS(READ_NUMBER, READ_REAL)
    LLAMA_SCALING_ROWS(READ_NUMBER, READ_REAL)
    QN_TRY(read_scaling(file, arch, &o, err));
    o.tied = qn_gguf_tensor_find(file, "output.weight") == NULL;
    *out = o;
    return QN_OK;
}
