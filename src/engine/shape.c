/* SPDX-License-Identifier: MIT */
/* src/engine/shape.c -- a session's sizes: options checked, the cache laid out, memory estimated, all before anything
 * is allocated. */
#include "engine/engine.h"
#include <string.h>

#define MAX_SEQ       256
#define MAX_ENDS      (1 << 20)
#define DEFAULT_BATCH 512 /* prompt processing gains little beyond it, activations grow with it */

static int32_t least(int64_t a, int64_t b) { return (int32_t)(a < b ? a : b); }

static bool caches(qn_dtype type)
{
#define SAME(name) type == QN_DTYPE_##name ||
    return QN_KV_TYPE_ROWS(SAME) false;
#undef SAME
}

qn_status qn__session_shape(const qn_engine *e, const qn_session_options *options, qn_session_shape *out, qn_error *err)
{
    static const qn_session_options defaults;
    const qn_hparams *hp = &e->model->hp;
    if (!options) options = &defaults;
    qn_session_shape s = {
        .n_ctx = options->n_ctx ? options->n_ctx : least(hp->n_ctx_train, QN_DEFAULT_CTX),
        .n_seq = options->n_seq ? options->n_seq : 1,
        .n_ends = options->n_ends,
        .n_batch = options->n_batch       ? options->n_batch
                   : e->model->sees_ahead ? QN_DEFAULT_CTX
                                          : DEFAULT_BATCH,
        .n_logits = options->n_logits,
        .kv_type = options->kv_type_set ? options->kv_type : QN_DTYPE_F16,
    };
    if (s.n_ctx < 1 || s.n_ctx > 1 << 28)
        return QN_FAIL(err, invalid, "context of %d tokens; 1 to %d are possible, 0 is the default", s.n_ctx, 1 << 28);
    if (s.n_seq < 1 || s.n_seq > MAX_SEQ)
        return QN_FAIL(err, invalid, "%d sequences; 1 to %d are possible", s.n_seq, MAX_SEQ);
    if (s.n_ends < 0 || s.n_ends > MAX_ENDS)
        return QN_FAIL(err, invalid, "ends of %d prefixes; 0 to %d are possible", s.n_ends, MAX_ENDS);
    if (s.n_batch < 1)
        return QN_FAIL(err, invalid, "batch of %d tokens; at least 1 is needed, 0 is the default", s.n_batch);
    s.n_batch = least(s.n_batch, s.n_ctx);
    s.embeddings = options->embeddings;
    if (!s.embeddings && !e->model->top.out)
        return QN_FAIL(err, unsupported, "%s is an encoder: it computes embeddings, and neither logits nor text",
                       e->model->arch->name);
    if (s.embeddings) s.n_logits = s.n_batch;
    if (!s.n_logits) s.n_logits = s.n_seq;
    if (s.n_logits < 1)
        return QN_FAIL(err, invalid, "%d rows of logits; at least 1 is needed, 0 is the default", s.n_logits);
    s.n_logits = least(s.n_logits, s.n_ctx);
    QN_TRY(qn__lora_set(e, options->loras, options->n_loras, &s.loras, err));
    if (!caches(s.kv_type))
        return QN_FAIL(err, unsupported, "KV cache of type %s; there are %s", qn_dtype_get(s.kv_type)->name,
                       QN_KV_TYPE_NAMES);
    const int block = qn_dtype_get(s.kv_type)->block_elems;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const qn_layer_hp *l = &e->model->layers[i].hp;
        if (l->d_k % (uint32_t)block || l->d_v % (uint32_t)block)
            return QN_FAIL(err, unsupported,
                           "KV cache of type %s needs a head size that is a multiple of %d; this model's is %u",
                           qn_dtype_get(s.kv_type)->name, block, l->d_k);
    }
    *out = s;
    return QN_OK;
}

int64_t qn__output_width(const qn_engine *e, const qn_session_shape *shape)
{
    return shape->embeddings ? e->model->hp.n_embd : e->model->hp.n_vocab;
}

uint64_t qn__output_bytes(const qn_engine *e, const qn_session_shape *shape)
{
    const uint64_t width = (uint64_t)qn__output_width(e, shape);
    const uint64_t rows = ((uint64_t)shape->n_logits * width + 1) / 2 * 2; /* what follows is of 8 bytes */
    return rows * sizeof(float) + (shape->embeddings ? width * sizeof(double) : 0);
}

qn_decode_spec qn__decode_spec(const qn_engine *e, const qn_session_shape *shape, int32_t n_tokens, int32_t n_out)
{
    return (qn_decode_spec){.n_tokens = n_tokens,
                            .n_out = n_out,
                            .loras = shape->loras.use,
                            .n_loras = shape->loras.n,
                            .hints = e->hints,
                            .hidden = shape->embeddings};
}

int32_t qn__inputs_a_token(const qn_engine *e)
{
    return 3 + e->model->n_groups + qn__span_size(e->model) * e->model->n_sights + 2 * qn__list_entries(e->model, 1);
}

qn_status qn__kv_layout(const qn_engine *e, const qn_session_shape *shape, qn_arena *arena, qn_kv_layout *layout,
                        qn_kv_desc *kv, qn_error *err)
{
    const qn_model *m = e->model;
    *layout = (qn_kv_layout){.place = qn__arena_array(arena, m->hp.n_layer, sizeof(int32_t))};
    *kv = (qn_kv_desc){.layers = qn__arena_array(arena, m->hp.n_layer, sizeof(*kv->layers)), .type = shape->kv_type};
    if (!layout->place || !kv->layers)
        return QN_FAIL(err, nomem, "out of memory while laying out the cache of %u layers", m->hp.n_layer);
    qn__kv_groups(m, shape->n_ctx, shape->n_batch, shape->n_seq, shape->n_ends, kv);

    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        const qn_layer *l = &m->layers[i];
        if (l->kv_of != (int32_t)i) { /* no rows of its own */
            layout->place[i] = layout->place[l->kv_of];
            continue;
        }
        const qn_weight *beside = l->attn_k ? l->attn_k : l->attn_qkv ? l->attn_qkv : l->attn_kv_a;
        const qn_backend *be = ((qn_buffer *)beside->buffer)->backend;
        int place = 0;
        while (e->backends[place] != be) place++;
        layout->place[i] = place;
        const int64_t n_kv = l->hp.n_kv_head;
        const uint64_t rows[2] = {kv->layers[i].k_row_bytes =
                                      (uint64_t)qn_dtype_row_bytes(shape->kv_type, n_kv * l->hp.d_k),
                                  kv->layers[i].v_row_bytes =
                                      /* a part of the key where both are one vector */
                                  l->attn_k_b ? 0 : (uint64_t)qn_dtype_row_bytes(shape->kv_type, n_kv * l->hp.d_v)};
        uint64_t *at[2] = {&kv->layers[i].k_offset, &kv->layers[i].v_offset};
        for (int j = 0; j < 2; j++) {
            *at[j] = layout->bytes[place];
            /* rows < 2^36, cells <= 2^28: no overflow */
            const uint64_t bytes = rows[j] * (uint64_t)kv->sizes[kv->layers[i].group].n_cells;
            if (layout->bytes[place] > (UINT64_MAX >> 1) - bytes)
                return QN_FAIL(err, limit, "the KV cache of %d cells exceeds 2^63 bytes", shape->n_ctx);
            layout->bytes[place] += qn__align_up(bytes, QN_ALIGN_GPU);
        }
    }
    for (int p = 0; p < e->n_backends; p++) layout->total_bytes += layout->bytes[p];
    return QN_OK;
}

void qn__kv_layout_bind(const qn_kv_layout *layout, qn_kv_desc *kv, uint32_t n_layer, qn_buffer *const *kv_buffers,
                        qn_buffer *const *list_buffers)
{
    for (uint32_t i = 0; i < n_layer; i++) {
        const int32_t place = layout->place[i];
        kv->layers[i].k_buffer = kv->layers[i].v_buffer = kv_buffers[place];
        kv->layers[i].list_buffer = list_buffers[place];
        kv->layers[i].list_rides = list_buffers[place] && qn__lists_ride(list_buffers[place]->backend);
    }
}
