/* SPDX-License-Identifier: MIT */
/* src/nn/transformer.c -- MultiheadAttention, RotaryEmbedding, FeedForward. */
#include "nn/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- MultiheadAttention ---- */

enum { Q, K, V, OUT };

typedef struct mha_state {
    int64_t heads, kv_heads;
    double dropout_p;
    bool is_causal, has_rope;
    qn_rope_options rope;
    qn_kv_cache *cache; /* during one call */
    int layer;
} mha_state;

static qn_tensor *mha(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const mha_state *s = m->state;
    qn_rope_options rope = s->rope;
    rope.factors = qn__own(m, 0);
    qn_tensor *key = x[1] != NULL ? x[1] : x[0], *value = x[2] != NULL ? x[2] : key, *y = NULL;
    if (s->cache != NULL && !qn__kv_begin(s->cache, qn_dim(key, -2))) return NULL;
    const qn_attend_spec spec = {
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .is_causal = s->is_causal && x[3] == NULL,
        .dropout_p = m->training ? s->dropout_p : 0,
        .mask = x[3],
        .rope = s->has_rope ? &rope : NULL,
        .cache = s->cache,
        .layer = s->layer,
    };
    qn_tensor *q = qn_module_forward(m->children[Q].module, x[0]), *k = qn_module_forward(m->children[K].module, key);
    qn_tensor *v = qn_module_forward(m->children[V].module, value);
    if (q != NULL && k != NULL && v != NULL) y = qn_module_forward(m->children[OUT].module, qn__attend(q, k, v, &spec));
    if (s->cache != NULL) qn__kv_end(s->cache, y != NULL);
    return y;
}

static void describe_mha(const qn_module *m, char *text, size_t size)
{
    const mha_state *s = m->state;
    snprintf(text, size, "heads=%lld, kv_heads=%lld%s", (long long)s->heads, (long long)s->kv_heads,
             s->is_causal ? ", causal" : "");
}

static const qn_module_type mha_type = {
    .name = "MultiheadAttention",
    .forward = mha,
    .describe = describe_mha,
    .state_bytes = sizeof(mha_state),
    .min_inputs = 1,
    .max_inputs = 4,
};

qn_tensor *qn_mha_forward_cached(qn_module *m, qn_tensor *x, qn_kv_cache *cache, int layer)
{
    if (m == NULL || cache == NULL) return NULL;
    if (m->type != &mha_type) {
        QN_MODULE_FAIL(m, invalid, "mha_forward_cached: a MultiheadAttention expected, this is a %s", m->type->name);
        return NULL;
    }
    mha_state *s = m->state;
    s->cache = cache;
    s->layer = layer;
    qn_tensor *y = qn_module_forward(m, x);
    s->cache = NULL;
    return y;
}

/* PyTorch's: weights xavier_uniform, where queries, keys and values of one size count as one matrix; biases zero. */
static void init_mha(qn_module *m, int64_t embd, bool packed, bool bias)
{
    bool good = true;
    for (int i = Q; i <= V && good; i++) {
        qn_tensor *w = qn__own(m->children[i].module, 0);
        const double bound = sqrt(6.0 / (double)(4 * embd));
        good = (packed ? qn_init_uniform_(w, -bound, bound) : qn_init_xavier_uniform_(w, 1)) != NULL;
    }
    for (int i = Q; bias && i <= OUT && good; i++) good = qn_init_zeros_(qn__own(m->children[i].module, 1)) != NULL;
    if (!good) m->failed = true;
}

qn_module *qn_nn_mha(qn_context *c, const qn_mha_options *options)
{
    if (c == NULL || options == NULL) return NULL;
    const qn_mha_options *o = options;
    const int64_t embd = o->embd, heads = o->heads, kv_heads = o->kv_heads > 0 ? o->kv_heads : heads;
    const int64_t k_dim = o->k_dim > 0 ? o->k_dim : embd, v_dim = o->v_dim > 0 ? o->v_dim : embd;
    if (!qn__sizes_fit(c, "MultiheadAttention", (const int64_t[]){embd, heads}, 2)) return NULL;
    if (embd % heads != 0 || heads % kv_heads != 0 || !(o->dropout_p >= 0 && o->dropout_p <= 1)) {
        (void)qn_context_fail(
            c, QN_STATUS_invalid,
            "MultiheadAttention: %lld elements, %lld heads, %lld of keys, dropout %g do not go together",
            (long long)embd, (long long)heads, (long long)kv_heads, o->dropout_p);
        return NULL;
    }
    const int64_t d = embd / heads;
    qn_module *m = qn_module_create(c, &mha_type);
    if (m == NULL) return NULL;
    mha_state *s = m->state;
    *s = (mha_state){.heads = heads,
                     .kv_heads = kv_heads,
                     .dropout_p = o->dropout_p,
                     .is_causal = o->is_causal,
                     .has_rope = o->rope != NULL};
    if (o->rope != NULL) s->rope = *o->rope;
    if (o->rope != NULL && o->rope->factors != NULL) (void)qn_module_add_buffer(m, "rope_factors", o->rope->factors);
    (void)qn_module_add_module(m, "q_proj", qn_nn_linear(c, embd, heads * d, o->bias));
    (void)qn_module_add_module(m, "k_proj", qn_nn_linear(c, k_dim, kv_heads * d, o->bias));
    (void)qn_module_add_module(m, "v_proj", qn_nn_linear(c, v_dim, kv_heads * d, o->bias));
    (void)qn_module_add_module(m, "out_proj", qn_nn_linear(c, heads * d, embd, o->bias));
    if (!m->failed) init_mha(m, embd, k_dim == embd && v_dim == embd && kv_heads == heads, o->bias);
    return qn_module_ready(m);
}

/* ---- RotaryEmbedding ---- */

static qn_tensor *rotary(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    qn_rope_options options = *(const qn_rope_options *)m->state;
    options.factors = qn__own(m, 0);
    return qn_rope(x[0], x[1], &options);
}

static void describe_rotary(const qn_module *m, char *text, size_t size)
{
    const qn_rope_options *o = m->state;
    snprintf(text, size, "base=%g%s", o->base > 0 ? o->base : 10000.0, o->neox ? ", neox" : "");
}

static const qn_module_type rotary_type = {
    .name = "RotaryEmbedding",
    .forward = rotary,
    .describe = describe_rotary,
    .state_bytes = sizeof(qn_rope_options),
    .min_inputs = 1,
    .max_inputs = 2,
};

qn_module *qn_nn_rotary(qn_context *c, const qn_rope_options *options)
{
    qn_module *m = qn_module_create(c, &rotary_type);
    if (m == NULL || options == NULL) return m;
    *(qn_rope_options *)m->state = *options;
    if (options->factors != NULL) (void)qn_module_add_buffer(m, "factors", options->factors);
    return qn_module_ready(m);
}

/* ---- FeedForward ---- */

enum { UP, DOWN, GATE };

typedef qn_tensor *(*activation_fn)(qn_tensor *x);
#define ACTIVATION_FN(word, type_name, of_x) \
    static qn_tensor *word##_of(qn_tensor *x) { return of_x; }
QN_ACTIVATION_ROWS(ACTIVATION_FN)

static activation_fn activation_named(const char *name)
{
#define ACTIVATION_FIND(word, type_name, of_x) \
    if (strcmp(name, #word) == 0) return word##_of;
    QN_ACTIVATION_ROWS(ACTIVATION_FIND)
    return NULL;
}

typedef struct ffn_state {
    activation_fn activation;
    double dropout_p;
} ffn_state;

static qn_tensor *feed_forward(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const ffn_state *s = m->state;
    qn_tensor *h = qn_module_forward(m->children[UP].module, x[0]);
    if (h == NULL) return NULL;
    if (m->n_children > GATE) {
        qn_tensor *gate = qn_module_forward(m->children[GATE].module, x[0]);
        if (gate == NULL) return NULL;
        h = s->activation == silu_of ? qn_swiglu(gate, h) : qn_mul(s->activation(gate), h);
    } else {
        h = s->activation(h);
    }
    if (h != NULL && s->dropout_p > 0) h = qn_dropout(h, s->dropout_p, m->training);
    return h != NULL ? qn_module_forward(m->children[DOWN].module, h) : NULL;
}

static const qn_module_type ffn_type = {.name = "FeedForward",
                                        .forward = feed_forward,
                                        .state_bytes = sizeof(ffn_state)};

qn_module *qn_nn_feed_forward(qn_context *c, const qn_ffn_options *options)
{
    if (c == NULL || options == NULL) return NULL;
    const qn_ffn_options *o = options;
    const char *name = o->activation != NULL ? o->activation : "silu";
    const activation_fn activation = activation_named(name);
    char quoted[64];
    if (!qn__sizes_fit(c, "FeedForward", (const int64_t[]){o->dim, o->hidden}, 2)) return NULL;
    if (activation == NULL || !(o->dropout_p >= 0 && o->dropout_p <= 1)) {
        (void)qn_context_fail(c, QN_STATUS_invalid, "FeedForward: activation \"%s\"%s, dropout %g",
                              qn__str_quote(quoted, sizeof quoted, name, strlen(name)),
                              activation == NULL ? " is not known" : "", o->dropout_p);
        return NULL;
    }
    qn_module *m = qn_module_create(c, &ffn_type);
    if (m == NULL) return NULL;
    *(ffn_state *)m->state = (ffn_state){activation, o->dropout_p};
    (void)qn_module_add_module(m, "up", qn_nn_linear(c, o->dim, o->hidden, o->bias));
    (void)qn_module_add_module(m, "down", qn_nn_linear(c, o->hidden, o->dim, o->bias));
    if (o->gated) (void)qn_module_add_module(m, "gate", qn_nn_linear(c, o->dim, o->hidden, o->bias));
    return qn_module_ready(m);
}
