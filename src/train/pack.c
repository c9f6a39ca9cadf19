/* SPDX-License-Identifier: MIT */
/* src/train/pack.c -- conversations of many lengths in rows of one: each goes into the fullest row that has room (best
 * fit, decreasing). Rows come out 95 to 100 % full, and the same talks always share a row: which ones does not matter,
 * as they do not see each other. */
#include "train/train.h"
#include <string.h>

typedef struct packer {
    const qn_train_talk *talks;
    int64_t n;
    int32_t n_ctx;
    int64_t *order;          /* [n] the longest first, then as they came */
    int64_t *row;            /* [n] of each talk */
    int32_t *used, *n_parts; /* [n] of each row */
    int64_t *next;           /* [n] rows with as much room as this one */
    int64_t *first;          /* [n_ctx + 1] a row with that much room, or -1 */
    int64_t n_rows;
} packer;

static int32_t fed(const qn_train_talk *t) { return t->n - 1; }

static bool make_order(packer *p)
{
    int64_t *from = qn__calloc((size_t)p->n_ctx + 2, sizeof *from);
    if (!from) return false;
    for (int64_t i = 0; i < p->n; i++) from[p->n_ctx - fed(&p->talks[i]) + 1]++;
    for (int32_t k = 0; k < p->n_ctx; k++) from[k + 1] += from[k];
    for (int64_t i = 0; i < p->n; i++) p->order[from[p->n_ctx - fed(&p->talks[i])]++] = i;
    qn__free(from);
    return true;
}

static void place(packer *p, int64_t talk)
{
    const int32_t n = fed(&p->talks[talk]);
    int32_t room = n;
    while (room <= p->n_ctx && p->first[room] < 0) room++;
    int64_t row = p->n_rows;
    if (room <= p->n_ctx) {
        row = p->first[room];
        p->first[room] = p->next[row];
    } else {
        p->n_rows++;
    }
    p->used[row] += n;
    p->next[row] = p->first[p->n_ctx - p->used[row]];
    p->first[p->n_ctx - p->used[row]] = row;
    p->row[talk] = row;
}

static void fill(packer *p, qn_train_rows *out)
{
    const size_t n_ctx = (size_t)p->n_ctx;
    memset(out->part, 0xff, (size_t)out->n * n_ctx * sizeof *out->part);
    memset(out->targets, 0xff, (size_t)out->n * n_ctx * sizeof *out->targets);
    memset(p->used, 0, (size_t)p->n * sizeof *p->used);
    for (int64_t i = 0; i < p->n; i++) {
        const qn_train_talk *t = &p->talks[p->order[i]];
        const int64_t row = p->row[p->order[i]];
        const size_t at = (size_t)row * n_ctx + (size_t)p->used[row];
        for (int32_t k = 0; k < fed(t); k++) {
            out->ids[at + (size_t)k] = t->ids[k];
            out->part[at + (size_t)k] = p->n_parts[row];
            if (t->said[k + 1]) out->targets[at + (size_t)k] = t->ids[k + 1];
            out->n_learnt[row] += t->said[k + 1];
        }
        p->used[row] += fed(t);
        p->n_parts[row]++;
    }
}

static qn_status pack(packer *p, qn_train_rows *out, qn_error *err)
{
    const size_t n = (size_t)p->n, n_ctx = (size_t)p->n_ctx;
    p->order = qn__alloc(n * sizeof *p->order);
    p->row = qn__alloc(n * sizeof *p->row);
    p->used = qn__calloc(n, sizeof *p->used);
    p->n_parts = qn__calloc(n, sizeof *p->n_parts);
    p->next = qn__alloc(n * sizeof *p->next);
    p->first = qn__alloc((n_ctx + 1) * sizeof *p->first);
    if (!p->order || !p->row || !p->used || !p->n_parts || !p->next || !p->first || !make_order(p))
        return QN_FAIL_NOMEM(err, n * 40);
    memset(p->first, 0xff, (n_ctx + 1) * sizeof *p->first);
    for (int64_t i = 0; i < p->n; i++) place(p, p->order[i]);
    const size_t cells = (size_t)p->n_rows * n_ctx;
    out->n = p->n_rows;
    out->ids = qn__calloc(cells, sizeof *out->ids);
    out->targets = qn__alloc(cells * sizeof *out->targets);
    out->part = qn__alloc(cells * sizeof *out->part);
    out->n_learnt = qn__calloc((size_t)p->n_rows, sizeof *out->n_learnt);
    if (!out->ids || !out->targets || !out->part || !out->n_learnt) return QN_FAIL_NOMEM(err, cells * 12);
    fill(p, out);
    return QN_OK;
}

qn_status qn__talks_pack(const qn_train_talk *talks, int64_t n, int32_t n_ctx, qn_train_rows *out, qn_error *err)
{
    packer p = {.talks = talks, .n = n, .n_ctx = n_ctx};
    if (n == 0) return QN_OK;
    const qn_status status = pack(&p, out, err);
    qn__free(p.order);
    qn__free(p.row);
    qn__free(p.used);
    qn__free(p.n_parts);
    qn__free(p.next);
    qn__free(p.first);
    return status;
}

void qn__rows_deinit(qn_train_rows *rows)
{
    qn__free(rows->ids);
    qn__free(rows->targets);
    qn__free(rows->part);
    qn__free(rows->n_learnt);
    *rows = (qn_train_rows){0};
}
