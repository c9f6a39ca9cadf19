/* SPDX-License-Identifier: MIT */
/* src/engine/lora.c -- adapters: opened beside the engine's model, shared by its sessions. */
#include "engine/engine.h"
#include <string.h>

/* A pair lies where its weight lies: the product that it is added to runs there. */
static qn_status place_pairs(qn_lora *l, const qn_model *m, qn_error *err)
{
    l->buffers = qn__arena_array(&l->arena, (size_t)m->n_weights, 2 * sizeof(*l->buffers));
    if (!l->buffers) return QN_FAIL(err, nomem, "out of memory while placing an adapter for %d weights", m->n_weights);
    for (int i = 0; i < m->n_weights; i++) {
        qn_weight *half[2] = {&l->adapter->of[i].a, &l->adapter->of[i].b};
        qn_backend *be = ((qn_buffer *)m->weights[i].buffer)->backend;
        for (int j = 0; j < 2 && half[j]->tensor; j++) {
            QN_TRY(qn__engine_place(l->file, half[j]->tensor, be, &l->buffers[2 * i + j], err));
            half[j]->buffer = l->buffers[2 * i + j];
        }
    }
    return QN_OK;
}

/* Among those that sessions plan for, once all of it is there. */
static qn_status join(qn_lora *l, qn_error *err)
{
    qn_engine *e = l->engine;
    qn_turn_taker me = {0};
    qn__devices_take(e, &me);
    const qn_status status = place_pairs(l, e->model, err);
    qn__devices_give(e, &me);
    qn__turns_forget(&e->turns, &me);
    if (status != QN_OK) return status;
    qn__mutex_lock(&e->lock);
    l->adapter->id = ++e->last_lora_id;
    l->next = e->loras;
    e->loras = l;
    qn__mutex_unlock(&e->lock);
    return QN_OK;
}

qn_status qn_lora_open(qn_engine *engine, const char *path, qn_lora **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_lora *l = qn__arena_alloc(&arena, sizeof(*l));
    if (!l) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof(*l));
    }
    l->arena = arena;
    l->engine = engine;
    qn_status status = qn_gguf_open(path, NULL, &l->file, err); /* names the file itself */
    if (status == QN_OK) {
        status = qn__adapter_load(engine->model, l->file, &l->adapter, err);
        if (status == QN_OK) status = join(l, err);
        qn__prefix(err, status, "%s", path); /* changes nothing when all is well */
    }
    if (status != QN_OK) {
        qn_lora_close(l);
        return status;
    }
    *out = l;
    return QN_OK;
}

void qn_lora_close(qn_lora *l)
{
    if (!l) return;
    qn_engine *e = l->engine;
    qn_turn_taker me = {0};
    qn__mutex_lock(&e->lock);
    qn_lora **at = &e->loras;
    while (*at && *at != l) at = &(*at)->next; /* one that failed to open is not there */
    if (*at) *at = l->next;
    qn__mutex_unlock(&e->lock);
    qn__devices_take(e, &me);
    for (int i = 0; l->buffers && i < 2 * e->model->n_weights; i++)
        if (l->buffers[i]) l->buffers[i]->backend->type->buffer_destroy(l->buffers[i]);
    qn__devices_give(e, &me);
    qn__turns_forget(&e->turns, &me);
    qn__adapter_free(l->adapter);
    qn_gguf_close(l->file);
    qn_arena arena = l->arena; /* the object lies inside it */
    qn__arena_deinit(&arena);
}

void qn_lora_get_info(const qn_lora *l, qn_lora_info *out)
{
    *out = (qn_lora_info){.n_pairs = l->adapter->n_pairs, .max_rank = l->adapter->max_rank, .alpha = l->adapter->alpha};
    for (int i = 0; i < l->adapter->n_weights; i++) {
        const qn_lora_pair *pair = &l->adapter->of[i];
        if (pair->a.tensor) out->bytes += pair->a.tensor->size_bytes + pair->b.tensor->size_bytes;
    }
}

/* ---- in a session ---- */

bool qn__lora_part(const qn_engine *e, int32_t i, qn_lora_set *out)
{
    int64_t skip = (int64_t)i * QN_MAX_LORAS;
    *out = (qn_lora_set){0};
    for (const qn_lora *l = e->loras; l && out->n < QN_MAX_LORAS; l = l->next)
        if (skip-- <= 0) out->use[out->n++] = (qn_adapter_use){l->adapter, 1};
    return i == 0 || out->n > 0;
}

qn_status qn__lora_set(const qn_engine *e, const qn_lora_use *loras, int32_t n, qn_lora_set *out, qn_error *err)
{
    if (n < 0 || n > QN_MAX_LORAS) return QN_FAIL(err, invalid, "%d adapters; 0 to %d are possible", n, QN_MAX_LORAS);
    qn_lora_set set = {.n = n};
    for (int i = 0; i < n; i++) {
        const float scale = loras[i].scale;
        if (!loras[i].lora || loras[i].lora->engine != e)
            return QN_FAIL(err, invalid, "adapter %d is not one of this session's engine", i);
        if (!(scale >= -1e6f && scale <= 1e6f))
            return QN_FAIL(err, invalid, "adapter %d has scale %g; -1e6 to 1e6 are possible", i, (double)scale);
        set.use[i] = (qn_adapter_use){loras[i].lora->adapter, scale};
        for (int j = 0; j < i; j++)
            if (set.use[j].adapter == set.use[i].adapter)
                return QN_FAIL(err, invalid, "adapters %d and %d are the same one", j, i);
    }
    *out = set;
    return QN_OK;
}
