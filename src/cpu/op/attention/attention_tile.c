/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention_tile.c -- attention over one tile of cells in floats, see attention.c for what the
 * numbers are; and what integers share with it.
 *
 * Scores and values are products of matrices (outer_f32), with (query, head) pairs in lanes: K and V rows are used as
 * they lie, and maxima, exponentials and sums are lane by lane. Where rows are few, that leaves most lanes empty; then
 * cells stand in lanes for the scores, and elements of the value rows for the values: the same chains, so the same
 * bits. */
#include "cpu/op/attention/attention.h"

#include <math.h>

enum {
    FLOATS = QN_MM_TILE_BYTES / 4,
    /* rows: K has to be turned, which costs about as much as 7 of the 16 rows that lanes would take */
    SKINNY_SCORES = 8,
    SKINNY_VALUES = 12,
    /* smaller pieces keep all that one needs in L1: 12 % of a decoding step's attention at head size 64 */
    SKINNY_UNPACK = 16,
};

static int64_t whole_lanes(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t slice_of(int64_t d) { return whole_lanes(d < QN_ATTN_SLICE ? d : QN_ATTN_SLICE); }

static int64_t floats_for(int64_t lanes, int64_t d, int64_t dv)
{
    const int64_t widest = slice_of(d) > slice_of(dv) ? slice_of(d) : slice_of(dv);
    return lanes * (QN_ATTN_TILE + slice_of(d) + 2 * slice_of(dv) + 6) + 2 * QN_ATTN_UNPACK * widest;
}

int64_t qn__attn_lanes(int64_t d, int64_t dv)
{
    int64_t lanes = QN_ATTN_LANES;
    while (lanes > 16 && floats_for(lanes, d, dv) > FLOATS) lanes -= 16;
    return lanes;
}
_Static_assert((int)QN_ATTN_LANES <= (int)QN_ATTN_UNPACK, "rows of queries pass through the piece");
_Static_assert(16 * (QN_ATTN_TILE + 3 * QN_ATTN_SLICE + 6) + 2 * QN_ATTN_UNPACK * QN_ATTN_SLICE <= FLOATS,
               "16 lanes always fit");

static int64_t head_size(const qn_attn *a) { return a->t->src[0].layout.dim[2]; }

/* ---- queries --------------------------------------------------------------------------------- */

static void load_queries(qn_attn *a, int64_t from, int64_t n)
{
    const qn_view *q = &a->t->src[0];
    const bool skinny = a->n_rows <= SKINNY_SCORES;
    float *rows = skinny ? a->q : a->rows; /* whose place is free: at most QN_ATTN_LANES rows */
    for (int64_t r = 0; r < a->n_rows; r++) {
        const float *x = (const float *)(const void *)q->data +
                         (a->first_query + r / a->n_heads) * q->layout.stride[0] +
                         (a->first_head + r % a->n_heads) * q->layout.stride[1];
        a->t->kernels->mul_scale_f32(rows + r * n, x + from, NULL, a->attrs->scale, n);
    }
    if (skinny) return;
    if (a->n_rows < a->n_lanes) memset(a->q, 0, (size_t)(n * a->n_lanes) * 4);
    a->t->kernels->transpose_f32(a->q, a->n_lanes, rows, n, a->n_rows, n);
}

void qn__attn_start(qn_attn *a, int64_t list)
{
    const int64_t d = head_size(a), widest = slice_of(d) > slice_of(a->n_values) ? slice_of(d) : slice_of(a->n_values);
    float *next = a->t->tile;
    a->list = list;
    a->n_rows = a->all_rows = a->group_rows = a->n_queries * a->n_heads;
    a->n_lanes = whole_lanes(a->n_rows);
    a->n_unpack = a->n_rows <= SKINNY_UNPACK ? QN_ATTN_UNPACK / 2 : QN_ATTN_UNPACK;

    const int64_t lanes = a->n_lanes;
#define TAKE(name, n) (a->name = next, next += (n))
    TAKE(s, QN_ATTN_TILE * lanes);
    TAKE(q, slice_of(d) * lanes);
    TAKE(y, slice_of(a->n_values) * lanes);
    TAKE(total, slice_of(a->n_values) * lanes);
    TAKE(rows, QN_ATTN_UNPACK * widest);
    TAKE(transposed, QN_ATTN_UNPACK * widest);
    TAKE(max, lanes);
    TAKE(sum, lanes);
    TAKE(total_max, lanes);
    TAKE(total_sum, lanes);
#undef TAKE
    a->first = (int32_t *)(void *)next;
    a->last = a->first + lanes;

    memset(a->total, 0, (size_t)(a->n_values * lanes) * 4);
    memset(a->total_sum, 0, (size_t)lanes * 4);
    for (int64_t l = 0; l < lanes; l++) a->total_max[l] = -INFINITY;
    if (d <= QN_ATTN_SLICE) load_queries(a, 0, d);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int64_t within(int64_t x, int64_t hi) { return x < 0 ? 0 : x < hi ? x : hi; }

/* Copies n entries of a list; are all of them cells? */
static bool all_cells(int32_t *cell, const uint8_t *from, int64_t step, int64_t n, int64_t exist)
{
    uint32_t highest = 0;
    if (step == 4)
        memcpy(cell, from, (size_t)n * 4);
    else
        for (int64_t j = 0; j < n; j++) memcpy(&cell[j], from + j * step, 4);
    for (int64_t j = 0; j < n; j++) highest = (uint32_t)cell[j] > highest ? (uint32_t)cell[j] : highest;
    return highest < exist;
}

int64_t qn__attn_list(const qn_attn *a, int64_t at, int32_t cell[QN_ATTN_TILE], int32_t before[QN_ATTN_TILE + 1],
                      int64_t *places)
{
    const qn_view *lists = &a->t->src[3];
    const int64_t exist = a->t->src[1].layout.dim[0], step = lists->layout.stride[1] * 4;
    int64_t hi = 0, n_cells = 0;
    for (int64_t q = 0; q < a->n_queries; q++) hi = a->end[q] > hi ? a->end[q] : hi;
    const int64_t left = hi > at ? hi - at : 0, n = left < QN_ATTN_TILE ? left : QN_ATTN_TILE;
    const uint8_t *from = lists->data + (a->list * lists->layout.stride[0] + at * lists->layout.stride[1]) * 4;

    for (int32_t j = 0; before && j <= QN_ATTN_TILE; j++) before[j] = j;
    if (places) *places = n;
    if (all_cells(cell, from, step, n, exist)) return n;
    for (int64_t j = 0; j < n; j++) {
        const int32_t c = cell[j];
        if (before) before[j] = (int32_t)n_cells;
        cell[n_cells] = c;
        n_cells += c >= 0 && c < exist;
    }
    if (before) before[n] = (int32_t)n_cells;
    return n_cells;
}

void qn__attn_cells(qn_attn *a, int64_t at, int64_t n_rows)
{
    int32_t before[QN_ATTN_TILE + 1];
    int64_t n;
    a->n_cells = qn__attn_list(a, at, a->cell, before, &n);

    a->full_first = 0;
    a->full_last = a->n_cells;
    for (int64_t q = 0; q < a->n_queries; q++) {
        int32_t first = before[within(a->begin[q] - at, n)], last = before[within(a->end[q] - at, n)];
        if (first >= last) {
            first = last = 0;
        } else {
            if (first > a->full_first) a->full_first = first;
            if (last < a->full_last) a->full_last = last;
        }
        for (int64_t h = 0; h < a->n_heads; h++) {
            a->first[q * a->n_heads + h] = first;
            a->last[q * a->n_heads + h] = last;
        }
    }
    for (int64_t l = n_rows; l < whole_lanes(n_rows); l++) a->first[l] = a->last[l] = 0;
    if (a->full_first > a->full_last) a->full_first = a->full_last = 0;
}

void qn__attn_unpack(const qn_attn *a, const qn_view *kv, int64_t first, int64_t n_cells, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t stride = whole_lanes(n), cell_bytes = qn__elems_bytes(kv->dtype, kv->layout.stride[0]);
    const uint8_t *base = kv->data + qn__elems_bytes(kv->dtype, a->kv_head * kv->layout.stride[1] + from);
    const bool even = (((uintptr_t)base | (uint64_t)cell_bytes) & 1) == 0;

    if (kernels->kv[kv->dtype].gather && even) {
        kernels->kv[kv->dtype].gather(a->rows, stride, base, cell_bytes, a->cell + first, n_cells, n);
    } else {
        for (int64_t c = 0; c < n_cells; c++)
            kernels->unpack[kv->dtype](base + a->cell[first + c] * cell_bytes, a->rows + c * stride, n);
    }
    for (int64_t c = 0; c < n_cells && n < stride; c++) memset(a->rows + c * stride + n, 0, (size_t)(stride - n) * 4);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Cells in lanes: K turned by 90 degrees; then the scores turn too. */
static void score_skinny(qn_attn *a, int64_t first, int64_t n_cells, int64_t n, qn_outer_mode mode)
{
    const int64_t stride = whole_lanes(n_cells);
    float *rows = a->rows; /* [n_lanes, stride] in passing, where K is no longer needed */
    float *s = a->s + first * a->n_lanes;
    a->t->kernels->transpose_f32(a->transposed, stride, a->rows, whole_lanes(n), n_cells, n);
    for (int64_t i = 0; i < n && n_cells < stride; i++)
        memset(a->transposed + i * stride + n_cells, 0, (size_t)(stride - n_cells) * 4);
    if (mode == QN_OUTER_go_on) a->t->kernels->transpose_f32(rows, stride, s, a->n_lanes, n_cells, a->n_rows);
    a->t->kernels->outer_f32(&(qn_outer){.y = rows,
                                         .y_stride = stride,
                                         .a = a->q,
                                         .a_out = n,
                                         .a_in = 1,
                                         .b = a->transposed,
                                         .b_stride = stride,
                                         .n_lanes = stride,
                                         .n_out = a->n_rows,
                                         .n_in = n,
                                         .mode = mode});
    memset(rows + a->n_rows * stride, 0, (size_t)((a->n_lanes - a->n_rows) * stride) * 4);
    a->t->kernels->transpose_f32(s, a->n_lanes, rows, stride, a->n_lanes, n_cells);
}

static void score(qn_attn *a)
{
    const int64_t d = head_size(a);
    const bool skinny = a->n_rows <= SKINNY_SCORES;
    for (int64_t from = 0; from < d || from == 0; from += QN_ATTN_SLICE) {
        const int64_t n = d - from < QN_ATTN_SLICE ? d - from : QN_ATTN_SLICE;
        const qn_outer_mode mode = from ? QN_OUTER_go_on : QN_OUTER_set;
        if (d > QN_ATTN_SLICE) load_queries(a, from, n);
        for (int64_t c = 0; c < a->n_cells; c += a->n_unpack) {
            const int64_t n_cells = a->n_cells - c < a->n_unpack ? a->n_cells - c : a->n_unpack;
            qn__attn_unpack(a, &a->t->src[1], c, n_cells, from, n);
            if (skinny) {
                score_skinny(a, c, n_cells, n, mode);
                continue;
            }
            a->t->kernels->outer_f32(&(qn_outer){.y = a->s + c * a->n_lanes,
                                                 .y_stride = a->n_lanes,
                                                 .a = a->rows,
                                                 .a_out = whole_lanes(n),
                                                 .a_in = 1,
                                                 .b = a->q,
                                                 .b_stride = a->n_lanes,
                                                 .n_lanes = a->n_lanes,
                                                 .n_out = n_cells,
                                                 .n_in = n,
                                                 .mode = mode});
        }
    }
    if (a->attrs->softcap > 0)
        for (int64_t i = 0; i < a->n_cells * a->n_lanes; i++)
            a->s[i] = a->attrs->softcap * tanhf(a->s[i] / a->attrs->softcap);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Elements of the value rows in lanes; rows [n_rows, whole_lanes(n_values)] in `turned`. */
static void add_values_skinny(qn_attn *a, int64_t at, int64_t n_cells)
{
    const int64_t stride = whole_lanes(a->n_values);
    for (int64_t r = 0, n; r < a->n_rows; r += n) { /* rows that see the same */
        for (n = 1; r + n < a->n_rows && a->first[r + n] == a->first[r] && a->last[r + n] == a->last[r]; n++) {}
        const int64_t first = within(a->first[r] - at, n_cells), last = within(a->last[r] - at, n_cells);
        if (first >= last) continue;
        a->t->kernels->outer_f32(&(qn_outer){.y = a->transposed + r * stride,
                                             .y_stride = stride,
                                             .a = a->s + (at + first) * a->n_lanes + r,
                                             .a_out = 1,
                                             .a_in = a->n_lanes,
                                             .b = a->rows + first * stride,
                                             .b_stride = stride,
                                             .n_lanes = stride,
                                             .n_out = n,
                                             .n_in = last - first,
                                             .mode = QN_OUTER_go_on});
    }
}

static void add_values_wide(qn_attn *a, int64_t at, int64_t n_cells)
{
    const int64_t stride = whole_lanes(a->n_values);
    const int64_t first = within(a->full_first - at, n_cells), last = within(a->full_last - at, n_cells);
    for (int64_t c = 0; c < n_cells; c++) {
        if (c == first && last > first) {
            a->t->kernels->outer_f32(&(qn_outer){.y = a->y,
                                                 .y_stride = a->n_lanes,
                                                 .a = a->rows + first * stride,
                                                 .a_out = 1,
                                                 .a_in = stride,
                                                 .b = a->s + (at + first) * a->n_lanes,
                                                 .b_stride = a->n_lanes,
                                                 .n_lanes = a->n_lanes,
                                                 .n_out = a->n_values,
                                                 .n_in = last - first,
                                                 .mode = QN_OUTER_go_on});
            c = last - 1;
            continue;
        }
        a->t->kernels->attn_add_some(a->y, a->n_values, a->rows + c * stride, a->s + (at + c) * a->n_lanes, a->n_lanes,
                                     at + c, a->first, a->last);
    }
}

static void add_values(qn_attn *a)
{
    const int64_t stride = whole_lanes(a->n_values);
    const bool skinny = a->n_rows <= SKINNY_VALUES;
    if (skinny)
        memset(a->transposed, 0, (size_t)(a->n_rows * stride) * 4);
    else
        memset(a->y, 0, (size_t)(a->n_values * a->n_lanes) * 4);
    for (int64_t c = 0; c < a->n_cells; c += a->n_unpack) {
        const int64_t n_cells = a->n_cells - c < a->n_unpack ? a->n_cells - c : a->n_unpack;
        qn__attn_unpack(a, &a->t->src[2], c, n_cells, a->first_value, a->n_values);
        if (skinny)
            add_values_skinny(a, c, n_cells);
        else
            add_values_wide(a, c, n_cells);
    }
    if (skinny) a->t->kernels->transpose_f32(a->y, a->n_lanes, a->transposed, stride, a->n_rows, a->n_values);
}

void qn__attn_tile(qn_attn *a, int64_t at)
{
    qn__attn_cells(a, at, a->n_rows);
    if (a->n_cells > 0) {
        score(a);
        a->t->kernels->attn_soften(a->s, a->n_lanes, a->n_cells, a->full_first, a->full_last, a->first, a->last, a->max,
                                   a->sum);
        add_values(a);
    }
    for (int64_t l = 0; l < a->n_lanes; l++)
        if (a->first[l] >= a->last[l]) a->sum[l] = 0;
}
