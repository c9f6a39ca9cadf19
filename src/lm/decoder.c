/* SPDX-License-Identifier: MIT */
/* src/lm/decoder.c -- a decoder as a module: the forward pass of its architecture (model/forward.c) over its
 * parameters. Each layer is a module too, and computes when it is called by itself. */
#include "lm/decoder.h"
#include <stdio.h>

/* ---- computing ---- */

typedef struct recording {
    const qn_lm_state *s;
    bool training;
} recording;

static qn_tensor *weight(void *host, const qn_weight *w)
{
    const qn_lm_place *p = &((recording *)host)->s->places[w->index];
    return qn__own(p->module, p->i);
}

static qn_tensor *drop(void *host, qn_tensor *x)
{
    const recording *rec = host;
    return rec->s->dropout_p > 0 ? qn_dropout(x, rec->s->dropout_p, rec->training) : x;
}

static const qn_lm_host host = {.weight = weight, .drop = drop};

static qn_lm_pass pass(recording *rec, qn_tensor *ids, qn_tensor *sees)
{
    const qn_lm_state *s = rec->s;
    return (qn_lm_pass){.type = &host,
                        .host = rec,
                        .model = s->model,
                        .ids = ids,
                        .sees = sees,
                        .cache = s->cache,
                        .n_ctx = s->model->hp.n_ctx_train};
}

/* Inputs of a layer: x, what else the architecture's stream has, and what sees what, which may be left out. */
enum { MAX_INPUTS = 4 };

static int join(const qn_stream *s, qn_tensor *sees, qn_tensor **in)
{
    int n = 0;
    in[n++] = qn__lm_tensor(s->x);
    if (s->embd) in[n++] = qn__lm_tensor(s->embd);
    if (s->inputs) in[n++] = qn__lm_tensor(s->inputs);
    if (sees) in[n++] = sees;
    return n;
}

static qn_stream apart(const qn_model *m, qn_tensor *const *in, int n, qn_tensor **sees)
{
    int k = 0;
    qn_stream s = {.x = qn__lm_value(in[k++])};
    if (m->arch->block.embd_again && k < n) s.embd = qn__lm_value(in[k++]);
    if (m->top.layer_embd && k < n) s.inputs = qn__lm_value(in[k++]);
    *sees = k < n ? in[k] : NULL;
    return s;
}

static qn_tensor *block(qn_module *m, qn_tensor *const *x, int n)
{
    const qn_lm_block_state *b = m->state;
    if (!b->top) return QN_MODULE_FAIL(m, state, "the model that this layer belongs to is gone"), NULL;
    recording rec = {b->top, m->training};
    const qn_model *model = b->top->model;
    const uint32_t width = model->hp.n_embd * (model->hp.n_altup ? model->hp.n_altup : 1);
    qn_tensor *sees;
    const qn_stream s = apart(model, x, n, &sees);
    qn_lm_pass p = pass(&rec, NULL, sees);
    if (qn_rank(x[0]) != 3 || qn_dim(x[0], 2) != width)
        return QN_MODULE_FAIL(m, invalid, "the input is not [batch,n,%u]", width), NULL;
    if ((model->arch->block.embd_again && !s.embd) || (model->top.layer_embd && !s.inputs))
        return QN_MODULE_FAIL(m, invalid, "a layer of this model reads embeddings too"), NULL;
    return qn__lm_tensor(qn__forward_layer(&qn__lm_recorder, &p, model, b->layer, &s));
}

static qn_tensor *layer_again(void *layer, qn_tensor *const *inputs, int n)
{
    return qn_module_forward_n(layer, inputs, n);
}

static qn_tensor *decode(const qn_module *m, recording *rec, qn_tensor *ids, qn_tensor *sees)
{
    const qn_lm_state *s = rec->s;
    qn_lm_pass p = pass(rec, ids, sees);
    const qn_module *blocks = m->children[1].module;
    const bool again = s->grad_checkpointing && rec->training && !s->cache;
    qn_stream stream = qn__forward_begin(&qn__lm_recorder, &p, s->model);
    for (int i = 0; i < blocks->n_children && stream.x; i++) {
        qn_module *layer = blocks->children[i].module;
        qn_tensor *in[MAX_INPUTS];
        const int n = join(&stream, sees, in);
        stream.x = qn__lm_value(again ? qn_checkpoint(layer_again, layer, in, n) : qn_module_forward_n(layer, in, n));
    }
    if (!stream.x) return NULL;
    return qn__lm_tensor(s->model->top.out ? qn__forward_logits(&qn__lm_recorder, &p, s->model, stream.x)
                                           : qn__forward_hidden(&qn__lm_recorder, &p, s->model, stream.x));
}

static qn_tensor *top(qn_module *m, qn_tensor *const *x, int n)
{
    const qn_lm_state *s = m->state;
    recording rec = {s, m->training};
    if (qn_rank(x[0]) != 2) return QN_MODULE_FAIL(m, invalid, "tokens are not [batch,n]"), NULL;
    if (s->cache && !qn__kv_begin(s->cache, qn_dim(x[0], -1))) return NULL;
    qn_tensor *y = decode(m, &rec, x[0], n > 1 ? x[1] : NULL);
    if (s->cache) qn__kv_end(s->cache, y != NULL);
    return y;
}

/* ---- the modules ---- */

static void describe(const qn_module *m, char *text, size_t size)
{
    const qn_model *model = ((const qn_lm_state *)m->state)->model;
    const qn_hparams *hp = &model->hp;
    if (!model->n_weights) return;
    snprintf(text, size, "%s, vocab=%u, ctx=%u, heads=%u, kv_heads=%u%s", model->arch->name, hp->n_vocab,
             hp->n_ctx_train, hp->n_head, hp->n_kv_head,
             model->top.out && model->top.out == model->top.tok_embd ? ", tied" : "");
}

static void gguf(const qn_module *m, qn_gguf_writer *w)
{
    const qn_model *model = ((const qn_lm_state *)m->state)->model;
    char key[96];
    qn_gguf_write_str(w, "general.architecture", model->arch->name);
    snprintf(key, sizeof key, "%s.vocab_size", model->arch->name);
    qn_gguf_write_u32(w, key, model->hp.n_vocab);
    qn__hparams_write(model, w);
}

/* A layer that somebody retained lives on, but computes no more. */
static void destroy(qn_module *m)
{
    qn_lm_state *s = m->state;
    const qn_module *blocks = m->n_children > 1 ? m->children[1].module : NULL;
    for (int i = 0; blocks && i < blocks->n_children; i++) {
        const qn_module *b = blocks->children[i].module;
        if (b->type->forward == block && ((qn_lm_block_state *)b->state)->top == s)
            ((qn_lm_block_state *)b->state)->top = NULL;
    }
    qn__model_free(s->model);
    qn__free(s->places);
}

#define TYPE(top_name, block_name) \
    { \
        .top = {.name = (top_name), \
                .forward = top, \
                .destroy = destroy, \
                .describe = describe, \
                .gguf = gguf, \
                .state_bytes = sizeof(qn_lm_state), \
                .min_inputs = 1, \
                .max_inputs = 2}, \
        .block = {.name = (block_name), \
                  .forward = block, \
                  .state_bytes = sizeof(qn_lm_block_state), \
                  .min_inputs = 1, \
                  .max_inputs = MAX_INPUTS}, \
    }
const qn_lm_type qn__lm_llama = TYPE("Llama", "LlamaBlock"), qn__lm_decoder = TYPE("Decoder", "DecoderBlock");

qn_status qn__lm_check(const qn_model *m, qn_error *err)
{
    for (int i = 0; i < (int)m->hp.n_layer; i++) {
        if (m->layers[i].ffn_gate_inp)
            return QN_FAIL(err, unsupported, "this %s is a mixture of experts; linear_experts has no gradient",
                           m->arch->name);
        if (m->layers[i].kv_of != i)
            return QN_FAIL(err, unsupported,
                           "layer %d of this %s reads the keys of layer %d; only the engine does that", i,
                           m->arch->name, m->layers[i].kv_of);
    }
    return QN_OK;
}

const qn_model *qn__decoder_model(const qn_module *m) { return ((const qn_lm_state *)m->state)->model; }

qn_module *qn__decoder_create(qn_context *c, const qn_lm_type *type, qn_model *model, const qn_decoder_options *o)
{
    qn_module *m = qn_module_create(c, &type->top);
    if (!m) return qn__model_free(model), NULL;
    qn_lm_state *s = m->state;
    *s = (qn_lm_state){.model = model,
                       .places = qn__calloc((size_t)model->n_weights, sizeof *s->places),
                       .dropout_p = o->dropout_p,
                       .deviation = o->deviation != 0 ? o->deviation : 0.02,
                       .grad_checkpointing = o->grad_checkpointing};
    if (s->places) {
        qn__lm_add_weights(m, type);
    } else {
        m->failed = true;
        (void)QN_FAIL_NOMEM(qn__err(c), (size_t)model->n_weights * sizeof *s->places);
    }
    return qn_module_ready(m);
}

/* ---- a few tokens at a time ---- */

static qn_lm_state *state_of(qn_module *m, const char *name, const char *want)
{
    if (!m) return NULL;
    if (m->type->forward == top) return m->state;
    QN_MODULE_FAIL(m, invalid, "%s: a %s expected, this is a %s", name, want, m->type->name);
    return NULL;
}

static qn_tensor *decode_cached(qn_module *m, qn_lm_state *s, qn_tensor *tokens, qn_kv_cache *cache)
{
    if (!s) return NULL;
    if (!cache) {
        QN_MODULE_FAIL(m, invalid, "decode: the cache is NULL");
        return NULL;
    }
    s->cache = cache;
    qn_tensor *y = qn_module_forward(m, tokens);
    s->cache = NULL;
    return y;
}

static qn_kv_cache *make_cache(qn_module *m, const qn_lm_state *s, int64_t batch, int64_t capacity)
{
    if (!s) return NULL;
    const qn_model *model = s->model;
    const uint32_t n = model->hp.n_layer;
    if (model->sees_ahead) {
        QN_MODULE_FAIL(m, unsupported, "tokens see what comes after them: there is nothing to decode step by step");
        return NULL;
    }
    qn_kv_shape *layers = qn__calloc(n, sizeof *layers);
    if (!layers) return (void)QN_FAIL_NOMEM(qn__err(m->ctx), n * sizeof *layers), NULL;
    for (uint32_t i = 0; i < n; i++) {
        const qn_layer_hp *l = &model->layers[i].hp;
        layers[i] = (qn_kv_shape){l->n_kv_head, l->d_k, l->d_v};
    }
    const qn_kv_options options = {.n_layers = n,
                                   .batch = batch,
                                   .capacity = capacity > 0 ? capacity : model->hp.n_ctx_train};
    qn_kv_cache *kv = qn__kv_cache_of(m->ctx, &options, layers);
    qn__free(layers);
    return kv;
}

qn_tensor *qn_decoder_decode(qn_module *m, qn_tensor *tokens, qn_kv_cache *cache)
{
    return decode_cached(m, state_of(m, "decoder_decode", "Decoder"), tokens, cache);
}

qn_kv_cache *qn_decoder_cache(qn_module *m, int64_t batch, int64_t capacity)
{
    return make_cache(m, state_of(m, "decoder_cache", "Decoder"), batch, capacity);
}

qn_tensor *qn_llama_decode(qn_module *m, qn_tensor *tokens, qn_kv_cache *cache)
{
    return decode_cached(m, state_of(m, "llama_decode", "Llama"), tokens, cache);
}

qn_kv_cache *qn_llama_cache(qn_module *m, int64_t batch, int64_t capacity)
{
    return make_cache(m, state_of(m, "llama_cache", "Llama"), batch, capacity);
}
