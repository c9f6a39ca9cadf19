/* SPDX-License-Identifier: MIT */
/* src/engine/session_lists.c -- the lists of cells on the backends: what has changed of them goes up before a run. On a
 * device the entries that a step adds ride with its inputs, and its graph writes them down. */
#include "engine/engine.h"

/* Entries that ride: `next` of `most` are noted so far; most 0: they go up one run at a time. */
typedef struct riders {
    int32_t next, most;
} riders;

static qn_status upload_numbers(qn_session *s, uint64_t at, const int32_t *x, int32_t n, riders *r, qn_error *err)
{
    for (int32_t i = 0; i < n && r->most; i++) {
        s->list_at[r->next] = (int32_t)(at / sizeof(int32_t)) + i;
        s->list_to[r->next++] = x[i];
    }
    for (int p = 0; p < s->engine->n_backends; p++) {
        qn_buffer *buffer = s->list_buffers[p];
        if (buffer && !(r->most && qn__lists_ride(buffer->backend)))
            QN_TRY(buffer->backend->type->upload(buffer, at, x, (uint64_t)n * sizeof(int32_t), err));
    }
    return QN_OK;
}

/* Of the entries of a list, some at a time. */
static qn_status upload_positions(qn_session *s, uint64_t at, const qn_kv *kv, const int32_t *cells, int32_t n,
                                  riders *r, qn_error *err)
{
    enum { SOME = 1024 };
    int32_t pos[SOME];
    for (int32_t i = 0; i < n; i += SOME) {
        const int32_t some = n - i < SOME ? n - i : SOME;
        for (int32_t j = 0; j < some; j++) pos[j] = kv->pos[cells[i + j]];
        QN_TRY(upload_numbers(s, at + (uint64_t)i * sizeof(int32_t), pos, some, r, err));
    }
    return QN_OK;
}

static qn_status upload_row(qn_session *s, int32_t group, int32_t seq, riders *r, qn_error *err)
{
    qn_kv *kv = &s->memory.kv[group];
    const int32_t lo = kv->dirty_lo[seq], hi = kv->dirty_hi[seq], *cells = qn__kv_row(kv, seq) + lo;
    if (lo >= hi) return QN_OK;
    const uint64_t at =
        s->kv_desc.list_offset[group] + ((uint64_t)seq * (uint64_t)kv->size.row + (uint64_t)lo) * sizeof(int32_t);
    QN_TRY(upload_numbers(s, at, cells, hi - lo, r, err));
    if (s->kv_desc.positions) QN_TRY(upload_positions(s, at + qn__list_bytes(&kv->size), kv, cells, hi - lo, r, err));
    kv->dirty_lo[seq] = kv->dirty_hi[seq] = 0;
    return QN_OK;
}

static qn_status upload_rows(qn_session *s, riders *r, qn_error *err)
{
    for (int32_t g = 0; g < s->memory.n_groups; g++)
        for (int32_t q = 0; q < s->shape.n_seq && qn__model_uses_group(s->engine->model, g); q++)
            QN_TRY(upload_row(s, g, q, r, err));
    return QN_OK;
}

static int64_t changed_entries(const qn_session *s)
{
    int64_t n = 0;
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        const qn_kv *kv = &s->memory.kv[g];
        for (int32_t q = 0; q < s->shape.n_seq && qn__model_uses_group(s->engine->model, g); q++)
            if (kv->dirty_hi[q] > kv->dirty_lo[q]) n += kv->dirty_hi[q] - kv->dirty_lo[q];
    }
    return n * (s->kv_desc.positions ? 2 : 1);
}

void qn__session_lists_anew(qn_session *s)
{
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        qn_kv *kv = &s->memory.kv[g];
        for (int32_t q = 0; q < s->shape.n_seq; q++) {
            kv->dirty_lo[q] = qn__kv_start(kv, q);
            kv->dirty_hi[q] = qn__kv_start(kv, q) + kv->len[q];
        }
    }
}

qn_status qn__session_send_lists(qn_session *s, qn_exec *e, int32_t n_tokens, qn_error *err)
{
    const qn_node *at = qn__exec_find(e, "list_at"), *to = qn__exec_find(e, "list_to");
    const int32_t most = qn__list_entries(s->engine->model, n_tokens);
    riders r = {.most = at && to && changed_entries(s) <= most ? most : 0};
    QN_TRY(upload_rows(s, &r, err));
    if (!at || !to) return QN_OK;
    for (int32_t i = r.next; i < most; i++) {
        s->list_at[i] = -1;
        s->list_to[i] = 0;
    }
    QN_TRY(qn__exec_set(e, at, s->list_at, (uint64_t)most * sizeof(int32_t), err));
    return qn__exec_set(e, to, s->list_to, (uint64_t)most * sizeof(int32_t), err);
}
