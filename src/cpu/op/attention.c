/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention.c -- softmax(scale q k^T) v over the cells that a query sees, streaming: no row of scores longer than a tile
 * exists (Milakov and Gimelshein 2018; Dao et al. 2022).
 *
 * An item is one KV head and a block of consecutive queries; queries that share a list share every unpacked K and V row, and so
 * do the query heads of the group. A query takes its list in tiles of TILE cells that start at multiples of TILE in the list: it
 * keeps the highest score so far, the sum of exponentials relative to it, and the weighted sum of values (in the result
 * itself), and rescales both when a tile raises the maximum. All that depends on the query's own list, span and window, never
 * on who shares its block. A cell number that is out of range counts as absent. */
#include "cpu/op/ops.h"
#include "cpu/row.h"

#include <math.h>
#include <string.h>

enum {
    TILE = 64,     /* cells; scores of a tile are a cache line's multiple and its bits fit a word */
    ROWS = 64,     /* (query, head) pairs a block: their scores take 16 KiB */
    FLOATS = QN_MM_TILE_BYTES / 4,
    AREA = FLOATS - ROWS * TILE - 2 * ROWS, /* for unpacked K or V rows: all 64 up to head size 190, else fewer at once */
};

/* How the node is cut: the group's heads by at most ROWS, then as many queries as fit. */
typedef struct cut {
    int64_t n_query, n_head, n_kv, group;
    int64_t heads, head_blocks, queries, query_blocks;
} cut;

static cut cut_of(const qn_node *node)
{
    cut c = {.n_query = node->src[0]->layout.dim[0], .n_head = node->src[0]->layout.dim[1], .n_kv = node->src[1]->layout.dim[1]};
    c.group = c.n_kv > 0 ? c.n_head / c.n_kv : 0;
    c.heads = c.group < ROWS ? (c.group > 0 ? c.group : 1) : ROWS;
    c.head_blocks = (c.group + c.heads - 1) / c.heads;
    c.queries = ROWS / c.heads;
    c.query_blocks = (c.n_query + c.queries - 1) / c.queries;
    return c;
}

static bool takes_kv(const qn_ukr *ukr, const qn_node *node, const char *what, const qn_node *kv, qn_error *err)
{
    const int64_t d = qn__row_size(&kv->layout);
    if (!ukr->unpack[kv->dtype]) return qn__want_dtype(node, what, kv, QN_DTYPE_F32, err);
    if (!qn__want_loadable(ukr, node, what, kv, err) || !qn__want_dense_rows(node, what, kv, err)) return false;
    if (d <= AREA) return true;
    QN_FAIL(err, limit, "attention: head size of %s is %lld, at most %d", what, (long long)d, (int)AREA);
    return false;
}

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    return qn__want_dtype(node, "q", node->src[0], QN_DTYPE_F32, err) && qn__want_dense_rows(node, "q", node->src[0], err) &&
           takes_kv(ukr, node, "k", node->src[1], err) && takes_kv(ukr, node, "v", node->src[2], err) &&
           qn__want_dtype(node, "the lists", node->src[3], QN_DTYPE_I32, err) &&
           qn__want_dtype(node, "the spans", node->src[4], QN_DTYPE_I32, err);
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    (void)ukr;
    (void)phase;
    const cut c = cut_of(node);
    *chunk = 1;
    return c.query_blocks * c.n_kv * c.head_blocks;
}

/* A block of queries over one list, and a tile of it. */
typedef struct block {
    const qn_task *t;
    int64_t kv_head, first_head, n_heads, n_head;
    int64_t first_query, n_queries;            /* all see a prefix of the same list */
    int64_t begin[ROWS], end[ROWS];            /* by query: the part of the list that counts */
    int64_t at;                                /* where in the list the tile starts */
    int32_t cell[TILE];
    uint64_t valid;                            /* bit j: cell[j] exists */
    float *score;                              /* [ROWS, TILE]; exponentials later */
    float *max, *sum;                          /* [ROWS] */
    float *area;                               /* [AREA] */
} block;

static int32_t int_at(const qn_view *v, int64_t i, int64_t j)
{
    int32_t x;
    memcpy(&x, v->data + (i * v->layout.stride[0] + j * v->layout.stride[1]) * 4, 4);
    return x;
}

/* Row r of a block is query r / n_heads and head r % n_heads. */
static float *result(const block *b, int64_t row)
{
    const int64_t dv = b->t->src[2].layout.dim[2];
    const int64_t query = b->first_query + row / b->n_heads, head = b->first_head + row % b->n_heads;
    return (float *)(void *)b->t->dst.data + (query * b->n_head + head) * dv;
}

static uint64_t bits(int64_t lo, int64_t hi) /* lo..hi-1 of 0..63 */
{
    if (hi <= lo) return 0;
    const uint64_t below_hi = hi >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << hi) - 1;
    return below_hi & ~((UINT64_C(1) << lo) - 1);
}

/* Cells of the tile that the row's query sees. */
static uint64_t seen(const block *b, int64_t row)
{
    const int64_t q = row / b->n_heads;
    const int64_t lo = b->begin[q] > b->at ? b->begin[q] - b->at : 0;
    const int64_t hi = b->end[q] < b->at + TILE ? b->end[q] - b->at : TILE;
    return lo < TILE ? bits(lo, hi) & b->valid : 0;
}

/* Takes the lowest run of set bits off `set`: [*lo, *hi). Nearly always there is one. */
static bool next_run(uint64_t *set, int *lo, int *hi)
{
    if (!*set) return false;
    *lo = __builtin_ctzll(*set);
    const uint64_t after = ~(*set >> *lo);
    *hi = after ? *lo + __builtin_ctzll(after) : 64;
    if (*hi > 64) *hi = 64;
    *set &= ~bits(*lo, *hi);
    return true;
}

static void load_cells(block *b, int64_t list, int64_t end)
{
    const qn_view *lists = &b->t->src[3];
    const int64_t n_cells = b->t->src[1].layout.dim[0], n = end - b->at < TILE ? end - b->at : TILE;
    b->valid = 0;
    for (int64_t j = 0; j < n; j++) {
        b->cell[j] = int_at(lists, list, b->at + j);
        if (b->cell[j] >= 0 && b->cell[j] < n_cells) b->valid |= UINT64_C(1) << j;
    }
}

/* Rows of K or V of cells [from, to) of the tile as float32: where they lie, or unpacked into the area. */
static void rows_of(const block *b, const qn_view *kv, int from, int to, const float **row)
{
    const int64_t d = kv->layout.dim[2];
    float *next = b->area;
    for (int j = from; j < to; j++) {
        if (!(b->valid >> j & 1)) continue;
        const int64_t start = b->cell[j] * kv->layout.stride[0] + b->kv_head * kv->layout.stride[1];
        const uint8_t *data = kv->data + qn__elems_bytes(kv->dtype, start);
        row[j] = (const float *)(const void *)data;
        if (kv->dtype == QN_DTYPE_F32) continue;
        b->t->ukr->unpack[kv->dtype](data, next, d);
        row[j] = next;
        next += d;
    }
}

static int rows_at_once(const qn_view *kv)
{
    const int64_t d = kv->layout.dim[2];
    return kv->dtype == QN_DTYPE_F32 || d * TILE <= AREA ? TILE : (int)(AREA / d);
}

static void score_tile(block *b)
{
    const qn_task *t = b->t;
    const qn_attn_attrs *attrs = t->attrs;
    const int64_t d = t->src[0].layout.dim[2], n_rows = b->n_queries * b->n_heads;
    const int step = rows_at_once(&t->src[1]);
    const float *k[TILE]; /* [d] each */

    for (int from = 0; from < TILE; from += step) {
        const int to = from + step < TILE ? from + step : TILE;
        rows_of(b, &t->src[1], from, to, k);
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t query = b->first_query + r / b->n_heads, head = b->first_head + r % b->n_heads;
            const float *q = (const float *)(const void *)t->src[0].data + query * t->src[0].layout.stride[0] +
                             head * t->src[0].layout.stride[1];
            float *s = b->score + r * TILE;
            for (uint64_t left = seen(b, r) & bits(from, to); left; left &= left - 1) {
                const int j = __builtin_ctzll(left);
                s[j] = t->ukr->dot_f32(q, k[j], d) * attrs->scale;
                if (attrs->softcap > 0) s[j] = attrs->softcap * tanhf(s[j] / attrs->softcap);
            }
        }
    }
}

/* Scores become exponentials relative to the highest score so far; what was summed before is brought to the same scale. */
static void soften_tile(block *b)
{
    const qn_ukr *ukr = b->t->ukr;
    const int64_t dv = b->t->src[2].layout.dim[2], n_rows = b->n_queries * b->n_heads;
    int lo, hi;

    for (int64_t r = 0; r < n_rows; r++) {
        float *s = b->score + r * TILE, max = b->max[r], old = b->max[r], factor;
        for (uint64_t left = seen(b, r); next_run(&left, &lo, &hi);) {
            const float m = ukr->max_f32(s + lo, hi - lo);
            if (m > max) max = m;
        }
        if (max > old && b->sum[r] > 0) {
            ukr->exp_sum_f32(&factor, &old, max, 1);
            b->sum[r] *= factor;
            ukr->mul_scale_f32(result(b, r), result(b, r), NULL, factor, dv);
        }
        b->max[r] = max;
        for (uint64_t left = seen(b, r); next_run(&left, &lo, &hi);) b->sum[r] += ukr->exp_sum_f32(s + lo, s + lo, max, hi - lo);
    }
}

static void add_values(block *b)
{
    const qn_task *t = b->t;
    const int64_t dv = t->src[2].layout.dim[2], n_rows = b->n_queries * b->n_heads;
    const int step = rows_at_once(&t->src[2]);
    const float *v[TILE]; /* [dv] each */

    for (int from = 0; from < TILE; from += step) {
        const int to = from + step < TILE ? from + step : TILE;
        rows_of(b, &t->src[2], from, to, v);
        for (int64_t r = 0; r < n_rows; r++) {
            const float *s = b->score + r * TILE;
            float *y = result(b, r);
            for (uint64_t left = seen(b, r) & bits(from, to); left; left &= left - 1) {
                const int j = __builtin_ctzll(left);
                t->ukr->axpy_f32(y, s[j], v[j], dv);
            }
        }
    }
}

static void attend(block *b, int64_t list)
{
    const int64_t dv = b->t->src[2].layout.dim[2], n_rows = b->n_queries * b->n_heads;
    int64_t lo = INT64_MAX, hi = 0;
    for (int64_t q = 0; q < b->n_queries; q++) {
        if (b->begin[q] < lo) lo = b->begin[q];
        if (b->end[q] > hi) hi = b->end[q];
    }
    for (int64_t r = 0; r < n_rows; r++) {
        b->max[r] = -INFINITY;
        b->sum[r] = 0;
        memset(result(b, r), 0, (size_t)dv * 4);
    }
    for (b->at = lo / TILE * TILE; b->at < hi; b->at += TILE) {
        load_cells(b, list, hi);
        if (!b->valid) continue;
        score_tile(b);
        soften_tile(b);
        add_values(b);
    }
    for (int64_t r = 0; r < n_rows; r++)
        if (b->sum[r] != 0) b->t->ukr->mul_scale_f32(result(b, r), result(b, r), NULL, 1.0f / b->sum[r], dv);
}

/* The list that a query reads, or -1 for none, and the part of it that counts. */
static int64_t span_of(const qn_task *t, int64_t query, int64_t *begin, int64_t *end)
{
    const qn_attn_attrs *attrs = t->attrs;
    const int64_t list = int_at(&t->src[4], query, 0), capacity = t->src[3].layout.dim[1];
    *end = int_at(&t->src[4], query, 1);
    if (*end > capacity) *end = capacity;
    if (*end < 0 || list < 0 || list >= t->src[3].layout.dim[0]) *end = 0;
    *begin = attrs->window > 0 && *end > attrs->window ? *end - attrs->window : 0;
    return *end > 0 ? list : -1;
}

static void run(const qn_task *t)
{
    const cut c = cut_of(t->node);
    block b = {.t = t, .n_head = c.n_head, .score = t->tile};
    b.max = b.score + ROWS * TILE;
    b.sum = b.max + ROWS;
    b.area = b.sum + ROWS;

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t in_group = item / c.query_blocks % c.head_blocks * c.heads;
        b.kv_head = item / c.query_blocks / c.head_blocks;
        b.first_head = b.kv_head * c.group + in_group;
        b.n_heads = c.group - in_group < c.heads ? c.group - in_group : c.heads;
        const int64_t first = item % c.query_blocks * c.queries;
        const int64_t last = c.n_query - first < c.queries ? c.n_query : first + c.queries;

        for (int64_t q = first; q < last; q += b.n_queries) { /* runs of queries with the same list */
            const int64_t list = span_of(t, q, &b.begin[0], &b.end[0]);
            b.first_query = q;
            b.n_queries = 1;
            while (q + b.n_queries < last && span_of(t, q + b.n_queries, &b.begin[b.n_queries], &b.end[b.n_queries]) == list)
                b.n_queries++;
            attend(&b, list);
        }
    }
}

const qn_cpu_op qn__cpu_op_attention = {QN_OP_attention, accepts, NULL, 1, items, run};
