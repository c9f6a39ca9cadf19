/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention.c -- softmax(scale q k^T) v over the cells that a query sees, a tile of its list at a time: no longer row of
 * scores exists (Milakov and Gimelshein 2018; Dao et al. 2022). This file cuts the work; attention_tile.c computes one tile.
 *
 * What the result is, to the bit, at every level. A query's list is cut into tiles of TILE cells at multiples of TILE, from the
 * list's start; cells outside the query's span or window, and cell numbers out of range, are absent. For each tile with a cell, over
 * its cells c in list order:
 *     s_c = (..fma(q'[1], k_c[1], fma(q'[0], k_c[0], 0))..)      q' = q * scale, rounded; one chain over the head
 *     s_c = softcap * tanh(s_c / softcap)                        where there is one
 *     m = max s_c;  p_c = exp(s_c - m);  sum = 0 + p_0 + p_1 ..  in order
 *     y[j] = one chain of fma(v_c[j], p_c, y[j]) from 0
 * and tiles meet in order, from M = -inf, S = 0, Y = 0:
 *     M' = max(M, m);  a = exp(M - M');  b = exp(m - M');  S = fma(sum, b, S a);  Y[j] = fma(y[j], b, Y[j] a)
 * and the result is Y[j] * (1 / S). So it depends on the query's own list, never on who else is computed or by whom.
 *
 * A unit is one KV head (or as many of its query heads as fit) and a block of consecutive queries; the queries of a block that share
 * a list share every unpacked K and V row. Where units are too few to keep threads busy, the tiles of a unit are shared out as well:
 * phase 0 leaves what each tile gives in scratch, and phase 1 lets the tiles meet. */
#include "cpu/op/attention.h"
#include "cpu/op/ops.h"

#include <limits.h>
#include <string.h>

enum {
    UNITS = 32,   /* fewer than that are split: 16 threads still find work then */
    PIECES = 64,  /* what units are split into, about */
};
static const uint64_t scratch_max = 16u << 20; /* bytes; larger nodes stay unsplit */

/* How the node is cut. */
typedef struct cut {
    int64_t n_query, n_head, n_kv, group, d, dv;
    int64_t heads, head_blocks, queries, query_blocks, slices; /* slices of a value row */
    int64_t units, splits, tiles; /* tiles of the longest list */
} cut;

static uint64_t split_bytes(const cut *c)
{
    return (uint64_t)c->n_query * (uint64_t)c->n_head * (uint64_t)c->tiles * (uint64_t)(c->dv + 2) * 4;
}

static cut cut_of(const qn_node *node)
{
    cut c = {.n_query = node->src[0]->layout.dim[0], .n_head = node->src[0]->layout.dim[1], .n_kv = node->src[1]->layout.dim[1],
             .d = node->src[0]->layout.dim[2], .dv = node->src[2]->layout.dim[2]};
    const int64_t lanes = qn__attn_lanes(c.d, c.dv);
    c.group = c.n_kv > 0 ? c.n_head / c.n_kv : 0;
    c.heads = c.group < 1 ? 1 : c.group < lanes ? c.group : lanes;
    c.head_blocks = (c.group + c.heads - 1) / c.heads;
    c.queries = lanes / c.heads;
    c.query_blocks = (c.n_query + c.queries - 1) / c.queries;
    c.slices = (c.dv + QN_ATTN_SLICE - 1) / QN_ATTN_SLICE;
    c.units = c.query_blocks * c.n_kv * c.head_blocks * c.slices;
    c.tiles = (node->src[3]->layout.dim[1] + QN_ATTN_TILE - 1) / QN_ATTN_TILE;
    c.splits = 1;
    if (c.units > 0 && c.units < UNITS && c.tiles > 1 && split_bytes(&c) <= scratch_max) {
        c.splits = (PIECES + c.units - 1) / c.units;
        if (c.splits > c.tiles) c.splits = c.tiles;
    }
    return c;
}

static bool takes_kv(const qn_ukr *ukr, const qn_node *node, const char *what, const qn_node *kv, qn_error *err)
{
    if (!ukr->unpack[kv->dtype]) return qn__want_dtype(node, what, kv, QN_DTYPE_F32, err);
    return qn__want_loadable(ukr, node, what, kv, err) && qn__want_dense_rows(node, what, kv, err);
}

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    return qn__want_dtype(node, "q", node->src[0], QN_DTYPE_F32, err) && qn__want_dense_rows(node, "q", node->src[0], err) &&
           takes_kv(ukr, node, "k", node->src[1], err) && takes_kv(ukr, node, "v", node->src[2], err) &&
           qn__want_dtype(node, "the lists", node->src[3], QN_DTYPE_I32, err) &&
           qn__want_dtype(node, "the spans", node->src[4], QN_DTYPE_I32, err);
}

static uint64_t scratch(const qn_ukr *ukr, const qn_node *node)
{
    (void)ukr;
    const cut c = cut_of(node);
    return c.splits > 1 ? split_bytes(&c) : 0;
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    (void)ukr;
    const cut c = cut_of(node);
    *chunk = 1;
    if (phase == 0) return c.units * c.splits;
    *chunk = qn__chunk_of(65536, c.tiles * c.dv);
    return c.splits > 1 ? c.n_query * c.n_head : 0;
}

/* What a tile gave: [n_query, n_head, tiles] times max, sum, and after all of these times dv values. */
static float *kept_sums(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    return (float *)(void *)t->scratch + (query * c->n_head + head) * c->tiles * 2;
}

static float *kept_values(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    return (float *)(void *)t->scratch + c->n_query * c->n_head * c->tiles * 2 + (query * c->n_head + head) * c->tiles * c->dv;
}

static float *result(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    return (float *)(void *)t->dst.data + (query * c->n_head + head) * c->dv;
}

/* The list that a query reads, or -1 for none, and the part of it that counts. */
static int64_t span_of(const qn_task *t, int64_t query, int64_t *begin, int64_t *end)
{
    const qn_attn_attrs *attrs = t->attrs;
    const int64_t list = qn__attn_int(&t->src[4], query, 0), capacity = t->src[3].layout.dim[1];
    *end = qn__attn_int(&t->src[4], query, 1);
    if (*end > capacity) *end = capacity;
    if (*end < 0 || list < 0 || list >= t->src[3].layout.dim[0]) *end = 0;
    *begin = attrs->window > 0 && *end > attrs->window ? *end - attrs->window : 0;
    return *end > 0 ? list : -1;
}

/* Puts what the tile gave where phase 1 finds it. */
static void keep(qn_attn *a, const cut *c, int64_t tile)
{
    const int64_t n = a->n_values;
    float *rows = qn__attn_rows(a, a->y);
    for (int64_t r = 0; r < a->n_rows; r++) {
        const int64_t query = a->first_query + r / a->n_heads, head = a->first_head + r % a->n_heads;
        float *sums = kept_sums(a->t, c, query, head) + tile * 2;
        if (a->first_value == 0) { /* they are the same for every slice of the values */
            sums[0] = a->max[r];
            sums[1] = a->sum[r];
        }
        if (a->sum[r] != 0) memcpy(kept_values(a->t, c, query, head) + tile * c->dv + a->first_value, rows + r * n, (size_t)n * 4);
    }
}

static void finish(qn_attn *a, const cut *c)
{
    const int64_t n = a->n_values;
    float *rows = qn__attn_rows(a, a->total);
    for (int64_t r = 0; r < a->n_rows; r++) {
        float *y = result(a->t, c, a->first_query + r / a->n_heads, a->first_head + r % a->n_heads) + a->first_value;
        if (a->total_sum[r] != 0) a->t->ukr->mul_scale_f32(y, rows + r * n, NULL, 1.0f / a->total_sum[r], n);
        else memset(y, 0, (size_t)n * 4);
    }
}

/* Part `part` of the tiles of a run of queries over one list. */
static void attend(qn_attn *a, const cut *c, int64_t list, int64_t part)
{
    int64_t lo = INT64_MAX, hi = 0;
    for (int64_t q = 0; q < a->n_queries; q++) {
        if (a->begin[q] < lo) lo = a->begin[q];
        if (a->end[q] > hi) hi = a->end[q];
    }
    const int64_t first = hi > 0 ? lo / QN_ATTN_TILE : 0, n = hi > 0 ? (hi + QN_ATTN_TILE - 1) / QN_ATTN_TILE - first : 0;
    const int64_t from = first + part * n / c->splits, to = first + (part + 1) * n / c->splits;
    if (c->splits > 1 && from == to) return;

    qn__attn_start(a, list);
    for (int64_t tile = from; tile < to; tile++) {
        qn__attn_tile(a, tile * QN_ATTN_TILE);
        if (c->splits > 1) keep(a, c, tile);
        else qn__attn_merge(a);
    }
    if (c->splits == 1) finish(a, c);
}

static void unit(const qn_task *t, const cut *c, int64_t item)
{
    qn_attn a = {.t = t, .attrs = t->attrs};
    const int64_t u = item % c->units, block = u / c->query_blocks, in_group = block % c->head_blocks * c->heads;
    a.kv_head = block / c->head_blocks % c->n_kv;
    a.first_head = a.kv_head * c->group + in_group;
    a.n_heads = c->group - in_group < c->heads ? c->group - in_group : c->heads;
    a.first_value = block / c->head_blocks / c->n_kv * QN_ATTN_SLICE;
    a.n_values = c->dv - a.first_value < QN_ATTN_SLICE ? c->dv - a.first_value : QN_ATTN_SLICE;

    const int64_t first = u % c->query_blocks * c->queries;
    const int64_t last = c->n_query - first < c->queries ? c->n_query : first + c->queries;
    for (int64_t q = first; q < last; q += a.n_queries) { /* runs of queries with the same list */
        const int64_t list = span_of(t, q, &a.begin[0], &a.end[0]);
        a.first_query = q;
        a.n_queries = 1;
        while (q + a.n_queries < last && span_of(t, q + a.n_queries, &a.begin[a.n_queries], &a.end[a.n_queries]) == list)
            a.n_queries++;
        attend(&a, c, list, item / c->units);
    }
}

/* The tiles of one query and head meet. */
static void meet(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    int64_t begin, end;
    const int64_t list = span_of(t, query, &begin, &end);
    const float *sums = kept_sums(t, c, query, head), *values = kept_values(t, c, query, head);
    float *y = result(t, c, query, head), max = -QN_ATTN_INFINITY, sum = 0;

    memset(y, 0, (size_t)c->dv * 4);
    if (list < 0) return;
    for (int64_t tile = begin / QN_ATTN_TILE; tile * QN_ATTN_TILE < end; tile++) {
        if (sums[tile * 2 + 1] == 0) continue;
        const float m = max > sums[tile * 2] ? max : sums[tile * 2];
        float a = 1, b = 1; /* what exp(0) is; not for infinities, whose difference is no number */
        if (max != m || m - m != 0) t->ukr->exp_sum_f32(&a, &max, m, 1);
        if (sums[tile * 2] != m || m - m != 0) t->ukr->exp_sum_f32(&b, &sums[tile * 2], m, 1);
        max = m;
        t->ukr->mul_scale_f32(&sum, &sum, NULL, a, 1);
        t->ukr->axpy_f32(&sum, b, &sums[tile * 2 + 1], 1);
        t->ukr->mul_scale_f32(y, y, NULL, a, c->dv);
        t->ukr->axpy_f32(y, b, values + tile * c->dv, c->dv);
    }
    if (sum != 0) t->ukr->mul_scale_f32(y, y, NULL, 1.0f / sum, c->dv);
}

static void run(const qn_task *t)
{
    const cut c = cut_of(t->node);
    for (int64_t item = t->begin; item < t->end; item++) {
        if (t->phase == 0) unit(t, &c, item);
        else meet(t, &c, item / c.n_head, item % c.n_head);
    }
}

const qn_cpu_op qn__cpu_op_attention = {QN_OP_attention, accepts, scratch, 2, items, run};
