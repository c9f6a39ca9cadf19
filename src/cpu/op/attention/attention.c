/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention.c -- softmax(scale q k^T) v over the cells that a query sees, a tile of its list at
 * a time, so that no longer row of scores exists (Milakov and Gimelshein 2018; Dao et al. 2022). This file divides
 * the work; attention_tile.c and attention_int.c compute one tile, in floats and in integers.
 *
 * The definition of the result, to the bit, at every level. A query's list is divided into tiles of QN_ATTN_TILE
 * cells, counted from the list's start. Cells outside the query's span, and cell numbers out of range, are
 * absent. For each tile with a cell, over its cells c in list order, where K or V holds floats:
 *     s_c = (..fma(q'[1], k_c[1], fma(q'[0], k_c[0], 0))..)      q' = q * scale, rounded; one chain over the head
 *     s_c = softcap * tanh(s_c / softcap)                        where there is one
 *     s_c = s_c - slope * |p_c - p|                              with ALiBi; p: positions
 *     m = max s_c;  p_c = exp(s_c - m);  sum = 0 + p_0 + p_1 ..  in order
 *     y[j] = one chain of fma(v_c[j], p_c, y[j]) from 0
 * Where both hold 16 bits or less, products are of int16 with sums in int32: twice as fast, exact in any order, and
 * with errors below those of the formats themselves. A row of q' becomes integers of length 65000 or less, one of K
 * of length 2^14 to 2^15, one of V of magnitudes up to 2^15. K and V are scaled by powers of two, which keeps most
 * halves exact (attn_pack_q, _k, _v; g, h_c and 2^-x_c are their scales). By the Cauchy-Schwarz inequality no sum
 * leaves int32. The scale of a row of V goes into the exponent of its weight. Weights become integers by blocks of
 * 16 cells, counted from the tile's start without absent cell numbers, with a sum of at most 2^16 a block:
 *     s_c = fma(q.k_c, h_c g, z)                                 z = log(2^-x_c) in the first slice of 256 elements,
 *                                                                then s_c of the slice before
 *     s_c = softcap * tanh(s_c / softcap) + log(2^-x_c)          where there is one; then z = 0
 *     s_c = s_c - slope * |p_c - p|                              with ALiBi
 *     m_b = max s_c of a block;  e_c = exp(s_c - m_b);  t = max(sum e_c / 65528, 1 / 32767);  p_c = rint(e_c / t)
 *     m = max m_b;  w_b = exp(m_b - m)
 *     sum = a tree over 16 chains of fma(e_c, 2^x_c w_b, sum), one for each place in a block
 *     y[j] = one chain of fma(sum of p_c v_c[j] over a block, w_b t, y[j]) from 0
 * Values come in slices of 256 elements, each with its own scales, weights and sums. A row whose square overflows
 * floats makes all results that see it NaN. Tiles are merged in order, from M = -inf, S = 0, Y = 0:
 *     M' = max(M, m);  a = exp(M - M');  b = exp(m - M');  S = fma(sum, b, S a);  Y[j] = fma(y[j], b, Y[j] a)
 * and the result is Y[j] * (1 / S). A sink is as a tile before the first, with m = its score, sum = 1, y = 0. So it
 * depends on the query's own list, not on other queries, threads or batches.
 *
 * How the work is divided. A unit is one KV head (or as many of its query heads as fit) and a block of consecutive
 * queries; queries of a block that share a list share every unpacked K and V row. Where there are too few units for
 * the threads, the tiles of a unit are divided too: phase 0 stores the result of each tile in scratch, and phase 1
 * merges them. With few rows, as in decoding, reading memory is the bound: then each tile is a part of its own, and
 * a thread reads the rows of several KV heads together, as they are neighbours in memory. */
#include "cpu/op/attention/attention.h"
#include "cpu/op/ops.h"

#include <math.h>
#include <string.h>

enum {
    UNITS = 32,    /* fewer units are split: enough for 16 threads */
    FEW_UNITS = 8, /* with fewer units, units have fewer queries */
    SPLITS = 64,   /* parts wanted */
    /* items wanted where rows are few; with 32, four KV heads become two at a time: 8 to 11 % slower at depth 2048 */
    ITEMS = 16,
};
static const uint64_t scratch_max = 16u << 20; /* bytes; larger nodes are not split */

/* How the node is divided, or would be with n_query queries. */
typedef struct cut {
    bool ints;
    int64_t n_query, n_head, n_kv, group, d, dv;
    int64_t heads, head_blocks, queries, query_blocks, slices; /* slices of a value row */
    int64_t units, splits, tiles;                              /* tiles of the longest list */
    int64_t kv_heads, unit_blocks; /* units of an item: KV heads, where it is more than one */
    bool in_ranges;                /* a thread gets contiguous items, so the next one is known */
} cut;

static uint64_t split_bytes(const cut *c)
{
    return (uint64_t)c->n_query * (uint64_t)c->n_head * (uint64_t)c->tiles * (uint64_t)(c->dv + 2 * c->slices) * 4;
}

static int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

static bool of_ints(const qn_node *node)
{
    return node->src[1]->dtype != QN_DTYPE_F32 && node->src[2]->dtype != QN_DTYPE_F32;
}

/* Rows of a block: queries times heads. */
static int64_t most_rows(const qn_node *node)
{
    const int64_t d = node->src[0]->layout.dim[2], dv = node->src[2]->layout.dim[2];
    return of_ints(node) ? qn__attn_int_rows(d, dv) : qn__attn_lanes(d, dv);
}

static cut cut_for(const qn_node *node, int64_t n_query)
{
    cut c = {.n_query = n_query,
             .n_head = node->src[0]->layout.dim[1],
             .n_kv = node->src[1]->layout.dim[1],
             .d = node->src[0]->layout.dim[2],
             .dv = node->src[2]->layout.dim[2]};
    c.ints = of_ints(node);
    const int64_t rows = most_rows(node);
    c.group = c.n_kv > 0 ? c.n_head / c.n_kv : 0;
    c.heads = c.group < 1 ? 1 : c.group < rows ? c.group : rows;
    c.head_blocks = blocks_of(c.group, c.heads);
    c.slices = blocks_of(c.dv, QN_ATTN_SLICE);
    c.queries = rows / c.heads;
    const int64_t per_query_block = c.n_kv * c.head_blocks * c.slices;
    while (c.queries > 1 && c.queries * c.heads > QN_ATTN_LANES &&
           per_query_block * blocks_of(c.n_query, c.queries) < FEW_UNITS)
        c.queries = (c.queries + 1) / 2;
    c.query_blocks = blocks_of(c.n_query, c.queries);
    if (c.ints && c.query_blocks > 0) c.queries = blocks_of(c.n_query, c.query_blocks); /* no small one at the end */
    c.units = c.query_blocks * per_query_block;
    c.tiles = blocks_of(node->src[3]->layout.dim[1], QN_ATTN_TILE);
    c.splits = c.kv_heads = 1;
    c.unit_blocks = c.units;
    if (c.ints && c.units > 0 && c.tiles > 1 && c.query_blocks == 1 && c.n_query * c.heads <= QN_ATTN_SKINNY &&
        split_bytes(&c) <= scratch_max) {
        const int64_t most = qn__attn_int_kv_heads(c.d, c.dv);
        c.splits = c.tiles;
        c.in_ranges = true;
        c.kv_heads = c.units * c.tiles / ITEMS;
        c.kv_heads = c.kv_heads < 1 ? 1 : c.kv_heads < most ? c.kv_heads : most;
        c.unit_blocks = blocks_of(c.units, c.kv_heads);
        c.kv_heads = blocks_of(c.units, c.unit_blocks);
    } else if (c.units > 0 && c.units < UNITS && c.tiles > 1 && split_bytes(&c) <= scratch_max) {
        c.splits = (SPLITS + c.units - 1) / c.units;
        if (c.splits > c.tiles) c.splits = c.tiles;
    }
    return c;
}

static cut cut_of(const qn_node *node) { return cut_for(node, node->src[0]->layout.dim[0]); }

static bool takes_kv(const qn_kernels *kernels, const qn_node *node, const char *what, const qn_node *kv, qn_error *err)
{
    if (!kernels->unpack[kv->dtype]) return qn__want_dtype(node, what, kv, QN_DTYPE_F32, err);
    return qn__want_loadable(kernels, node, what, kv, err) && qn__want_dense_rows(node, what, kv, err);
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    return qn__want_dtype(node, "q", node->src[0], QN_DTYPE_F32, err) &&
           qn__want_dense_rows(node, "q", node->src[0], err) && takes_kv(kernels, node, "k", node->src[1], err) &&
           takes_kv(kernels, node, "v", node->src[2], err) &&
           qn__want_dtype(node, "the lists", node->src[3], QN_DTYPE_I32, err) &&
           qn__want_dtype(node, "the spans", node->src[4], QN_DTYPE_I32, err) &&
           (node->n_src < 6 || qn__want_dtype(node, "the sinks", node->src[5], QN_DTYPE_F32, err));
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    /* Enough for fewer queries too, which may be split where these are not: what is reserved for a batch is enough
     * for every smaller one. More than these are never split (cut_for): each block of queries is a unit at least. */
    const int64_t rows = most_rows(node), blocks = UNITS * rows,
                  most = blocks > QN_ATTN_SKINNY ? blocks : QN_ATTN_SKINNY, n_query = node->src[0]->layout.dim[0];
    for (int64_t n = n_query < most ? n_query : most; n > 0; n--) {
        const cut c = cut_for(node, n);
        if (c.splits > 1) return split_bytes(&c);
    }
    return 0;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    const cut c = cut_of(node);
    *chunk = 1;
    if (phase == 0) return c.unit_blocks * c.splits;
    *chunk = qn__chunk_of(65536, c.tiles * c.dv);
    return c.splits > 1 ? c.n_query * c.n_head : 0;
}

/* The results of tiles: [n_query, n_head, slices, tiles] times max and sum, and after all of these [n_query, n_head,
 * tiles] times dv values. */
static float *kept_sums(const qn_task *t, const cut *c, int64_t query, int64_t head, int64_t slice)
{
    return (float *)(void *)t->scratch + ((query * c->n_head + head) * c->slices + slice) * c->tiles * 2;
}

static float *kept_values(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    return kept_sums(t, c, c->n_query, 0, 0) + (query * c->n_head + head) * c->tiles * c->dv;
}

static float *result(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    return (float *)(void *)t->dst.data + (query * c->n_head + head) * c->dv;
}

/* The list that a query reads, or -1 for none, and the part of it that it sees. */
static int64_t span_of(const qn_task *t, int64_t query, int64_t *begin, int64_t *end)
{
    const int64_t list = qn__attn_int(&t->src[4], query, 0), capacity = t->src[3].layout.dim[1];
    const int64_t n_lists = qn__attn_n_lists(t);
    *begin = qn__attn_int(&t->src[4], query, 1);
    *end = qn__attn_int(&t->src[4], query, 2);
    if (*begin < 0) *begin = 0;
    if (*end > capacity) *end = capacity;
    if (*begin >= *end || list < 0 || list >= n_lists) *begin = *end = 0;
    return *end > 0 ? list : -1;
}

static void merge(qn_attn *a)
{
    a->t->kernels->attn_merge(a->mem.total, a->mem.total_max, a->mem.total_sum, a->mem.y, a->mem.max, a->mem.sum,
                              a->geo.n_lanes, a->geo.n_values);
}

/* Row r of y or total. Call it in order of r: sixteen rows at a time are transposed into mem.rows. */
static float *row_of(qn_attn *a, const float *y, int64_t r)
{
    const int64_t n = a->geo.n_rows - r < 16 ? a->geo.n_rows - r : 16;
    if (a->geo.kept && a->geo.skinny) return a->mem.rows + r * a->geo.n_pad;
    if (r % 16 == 0)
        a->t->kernels->transpose_f32(a->mem.rows, a->geo.n_values, y + r, a->geo.n_lanes, a->geo.n_values, n);
    return a->mem.rows + r % 16 * a->geo.n_values;
}

/* Stores the result of a tile for phase 1. */
static void keep(qn_attn *a, const cut *c, int64_t tile)
{
    const int64_t n = a->geo.n_values;
    for (int64_t r = 0; r < a->geo.n_rows; r++) {
        const int64_t row = a->geo.first_row + r, query = a->geo.first_query + row / a->geo.n_heads,
                      head = a->geo.first_head + row % a->geo.n_heads;
        float *sums = kept_sums(a->t, c, query, head, a->geo.first_value / QN_ATTN_SLICE) + tile * 2;
        const float *y = row_of(a, a->mem.y, r);
        sums[0] = a->mem.max[r];
        sums[1] = a->mem.sum[r];
        if (a->mem.sum[r] != 0)
            memcpy(kept_values(a->t, c, query, head) + tile * c->dv + a->geo.first_value, y, (size_t)n * 4);
    }
}

static void finish(qn_attn *a, const cut *c)
{
    const int64_t n = a->geo.n_values;
    for (int64_t r = 0; r < a->geo.n_rows; r++) {
        const int64_t row = a->geo.first_row + r;
        float *y =
            result(a->t, c, a->geo.first_query + row / a->geo.n_heads, a->geo.first_head + row % a->geo.n_heads) +
            a->geo.first_value;
        const float *from = row_of(a, a->mem.total, r);
        if (a->mem.total_sum[r] != 0)
            a->t->kernels->mul_scale_f32(y, from, NULL, 1.0f / a->mem.total_sum[r], n);
        else
            memset(y, 0, (size_t)n * 4);
    }
}

/* Computes part `part` of the tiles of a run of queries over one list. */
static void attend(qn_attn *a, const cut *c, int64_t list, int64_t part)
{
    int64_t lo = INT64_MAX, hi = 0;
    for (int64_t q = 0; q < a->geo.n_queries; q++) {
        if (a->geo.begin[q] < lo) lo = a->geo.begin[q];
        if (a->geo.end[q] > hi) hi = a->geo.end[q];
    }
    const int64_t first = hi > 0 ? lo / QN_ATTN_TILE : 0,
                  n = hi > 0 ? (hi + QN_ATTN_TILE - 1) / QN_ATTN_TILE - first : 0;
    const int64_t from = first + part * n / c->splits, to = first + (part + 1) * n / c->splits;
    if (c->splits > 1 && from == to) return;
    a->next.at = a->next.part < 0 ? -1 : (first + a->next.part * n / c->splits) * QN_ATTN_TILE;

    if (c->ints)
        qn__attn_int_start(a, list);
    else
        qn__attn_start(a, list);
    for (int64_t tile = from; tile < to; tile++) {
        if (c->ints)
            qn__attn_int_tile(a, tile * QN_ATTN_TILE);
        else
            qn__attn_tile(a, tile * QN_ATTN_TILE);
        for (int64_t h = 0; h < a->geo.n_kv_heads; h++)
            for (int64_t row = 0; row < a->geo.all_rows; row += a->geo.group_rows) {
                if (c->ints) qn__attn_int_group(a, h, row);
                if (c->splits > 1)
                    keep(a, c, tile);
                else
                    merge(a);
            }
    }
    for (int64_t row = 0; row < a->geo.all_rows && c->splits == 1; row += a->geo.group_rows) {
        if (c->ints) qn__attn_int_choose(a, 0, row);
        finish(a, c);
    }
}

/* A work item: units [unit, unit + n), and which part of their tiles. */
typedef struct work_item {
    int64_t unit, n, part;
} work_item;

static work_item item_of(const cut *c, int64_t index)
{
    const int64_t unit = index % c->unit_blocks * c->kv_heads;
    return (work_item){unit, c->units - unit < c->kv_heads ? c->units - unit : c->kv_heads, index / c->unit_blocks};
}

static int64_t kv_head_of(const cut *c, int64_t u) { return u / c->query_blocks / c->head_blocks % c->n_kv; }

/* next: the item that the thread computes after this one, part -1 if unknown; prefetched: this item's rows were
 * prefetched during the item before. */
static void do_item(qn_attn *a, const cut *c, work_item this, work_item next, bool prefetched)
{
    const qn_task *t = a->t;
    const int64_t u = this.unit, block = u / c->query_blocks, in_group = block % c->head_blocks * c->heads;
    a->geo.kv_head = a->geo.first_kv = kv_head_of(c, u);
    a->geo.n_kv_heads = this.n;
    a->next.first_kv = kv_head_of(c, next.unit);
    a->next.n_kv_heads = next.n;
    a->next.part = next.part;
    a->next.warm = prefetched;
    a->geo.first_head = a->geo.kv_head * c->group + in_group;
    a->geo.n_heads = c->group - in_group < c->heads ? c->group - in_group : c->heads;
    a->geo.first_value = block / c->head_blocks / c->n_kv * QN_ATTN_SLICE;
    a->geo.n_values = c->dv - a->geo.first_value < QN_ATTN_SLICE ? c->dv - a->geo.first_value : QN_ATTN_SLICE;

    const int64_t first = u % c->query_blocks * c->queries;
    const int64_t last = c->n_query - first < c->queries ? c->n_query : first + c->queries;
    for (int64_t q = first; q < last; q += a->geo.n_queries) { /* queries with the same list, one run at a time */
        const int64_t list = span_of(t, q, &a->geo.begin[0], &a->geo.end[0]);
        a->geo.first_query = q;
        a->geo.n_queries = 1;
        while (q + a->geo.n_queries < last &&
               span_of(t, q + a->geo.n_queries, &a->geo.begin[a->geo.n_queries], &a->geo.end[a->geo.n_queries]) == list)
            a->geo.n_queries++;
        attend(a, c, list, this.part);
    }
}

/* Merges the tiles of a slice of one query and head; exponentials for SOME tiles at a time. */
static void merge_slice(const qn_kernels *kernels, float *y, int64_t n, const float *sums, const float *values,
                        int64_t stride, int64_t tile, int64_t end, const float *sink)
{
    enum { SOME = 32 };
    float max = sink ? *sink : -QN_ATTN_INFINITY, sum = sink ? 1 : 0;
    memset(y, 0, (size_t)n * 4);
    while (tile < end) {
        float factor[2 * SOME]; /* of the sums so far, and of the tile */
        int64_t which[SOME];
        int some = 0;
        for (; some < SOME && tile < end; tile++) {
            if (sums[tile * 2 + 1] == 0) continue;
            const float m = max > sums[tile * 2] ? max : sums[tile * 2];
            factor[some] = max - m;
            factor[SOME + some] = sums[tile * 2] - m;
            which[some++] = tile;
            max = m;
        }
        kernels->exp_sum_f32(factor, factor, 0, some);
        kernels->exp_sum_f32(factor + SOME, factor + SOME, 0, some);
        for (int i = 0; i < some; i++) {
            sum = fmaf(sums[which[i] * 2 + 1], factor[SOME + i], sum * factor[i]);
            if (factor[i] != 1) kernels->mul_scale_f32(y, y, NULL, factor[i], n);
            kernels->axpy_f32(y, factor[SOME + i], values + which[i] * stride, n);
        }
    }
    if (sum != 0) kernels->mul_scale_f32(y, y, NULL, 1.0f / sum, n);
}

static void merge_tiles(const qn_task *t, const cut *c, int64_t query, int64_t head)
{
    int64_t begin, end;
    if (span_of(t, query, &begin, &end) < 0) begin = end = 0;
    const int64_t tile = begin / QN_ATTN_TILE, last = blocks_of(end, QN_ATTN_TILE);
    for (int64_t slice = 0; slice < c->slices; slice++) {
        const int64_t at = slice * QN_ATTN_SLICE, n = c->dv - at < QN_ATTN_SLICE ? c->dv - at : QN_ATTN_SLICE;
        merge_slice(t->kernels, result(t, c, query, head) + at, n, kept_sums(t, c, query, head, slice),
                    kept_values(t, c, query, head) + at, c->dv, tile, last, qn__attn_sink(t, head));
    }
}

static void run(const qn_task *t)
{
    const cut c = cut_of(t->node);
    qn_attn a = {.t = t, .attrs = t->attrs, .geo.kept = c.splits > 1}; /* one for all: clearing it takes a while */
    for (int64_t item = t->begin; item < t->end; item++) {
        if (t->phase == 1) {
            merge_tiles(t, &c, item / c.n_head, item % c.n_head);
            continue;
        }
        const int64_t n = c.unit_blocks * c.splits, index = c.in_ranges ? qn__in_ranges(item, n, t->n_members) : item;
        const bool known = c.in_ranges && index + 1 < n;
        do_item(&a, &c, item_of(&c, index), known ? item_of(&c, index + 1) : (work_item){.part = -1},
                c.in_ranges && item >= t->n_members);
    }
}

const qn_cpu_op qn__cpu_op_attention = {QN_OP_attention, accepts, scratch, 2, items, run};
