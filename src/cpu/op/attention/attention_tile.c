/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention_tile.c -- attention over one tile of cells in floats (attention.c defines the
 * numbers), and what attention_int.c shares with it.
 *
 * Scores and values are matrix products (outer_f32) with rows in lanes: K and V rows are used as they lie, and
 * maxima, exponentials and sums are computed lane by lane. With few rows that would leave most lanes empty. Then
 * cells are in lanes for the scores, and elements of the value rows for the values: the same chains, so the same
 * bits. */
#include "cpu/op/attention/attention.h"

#include <math.h>

enum {
    FLOATS = QN_MM_TILE_BYTES / 4,
    /* up to this many rows; K has to be transposed, which costs as much as 7 of the 16 rows that lanes would take */
    SKINNY_SCORES = 8,
    SKINNY_VALUES = 12,
    /* with few rows, fewer cells at a time stay in L1: 12 % of a decoding step's attention at head size 64 */
    SKINNY_UNPACK = 16,
};

static int64_t whole_lanes(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t slice_of(int64_t d) { return whole_lanes(d < QN_ATTN_SLICE ? d : QN_ATTN_SLICE); }

/* The scratch of `lanes` lanes; d, n: elements of a slice of K and of V as whole lanes, widest: the greater of both. */
/* clang-format off */
#define SCRATCH(ROW, lanes, d, n, widest) \
    ROW(s,          QN_ATTN_TILE * (lanes)) \
    ROW(q,          (d) * (lanes)) \
    ROW(y,          (n) * (lanes)) \
    ROW(total,      (n) * (lanes)) \
    ROW(rows,       QN_ATTN_UNPACK * (widest)) \
    ROW(transposed, QN_ATTN_UNPACK * (widest)) \
    ROW(max,        lanes) \
    ROW(sum,        lanes) \
    ROW(total_max,  lanes) \
    ROW(total_sum,  lanes) \
    ROW(first,      lanes) \
    ROW(last,       lanes)
/* clang-format on */
_Static_assert((SCRATCH(QN_ATTN_SIZE, 16, QN_ATTN_SLICE, QN_ATTN_SLICE, QN_ATTN_SLICE)) <= FLOATS,
               "16 lanes always fit");
_Static_assert((int)QN_ATTN_LANES <= (int)QN_ATTN_UNPACK, "rows of queries pass through mem.rows");

static int64_t floats_for(int64_t lanes, int64_t d, int64_t n)
{
    return SCRATCH(QN_ATTN_SIZE, lanes, d, n, d > n ? d : n);
}

int64_t qn__attn_lanes(int64_t d, int64_t dv)
{
    int64_t lanes = QN_ATTN_LANES;
    while (lanes > 16 && floats_for(lanes, slice_of(d), slice_of(dv)) > FLOATS) lanes -= 16;
    return lanes;
}
static int64_t head_size(const qn_attn *a) { return a->t->src[0].layout.dim[2]; }

/* ---- queries --------------------------------------------------------------------------------- */

static void load_queries(qn_attn *a, int64_t from, int64_t n)
{
    const qn_view *q = &a->t->src[0];
    const bool skinny = a->geo.n_rows <= SKINNY_SCORES;
    float *rows = skinny ? a->mem.q : a->mem.rows; /* mem.rows is free: at most QN_ATTN_LANES rows */
    for (int64_t r = 0; r < a->geo.n_rows; r++) {
        const float *x = (const float *)(const void *)q->data +
                         (a->geo.first_query + r / a->geo.n_heads) * q->layout.stride[0] +
                         (a->geo.first_head + r % a->geo.n_heads) * q->layout.stride[1];
        a->t->kernels->mul_scale_f32(rows + r * n, x + from, NULL, a->attrs->scale, n);
    }
    if (skinny) return;
    if (a->geo.n_rows < a->geo.n_lanes) memset(a->mem.q, 0, (size_t)(n * a->geo.n_lanes) * 4);
    a->t->kernels->transpose_f32(a->mem.q, a->geo.n_lanes, rows, n, a->geo.n_rows, n);
}

void qn__attn_begin(const qn_attn *a, float *max, float *sum, int64_t n_lanes)
{
    for (int64_t l = 0; l < n_lanes; l++) {
        const float *sink = l < a->geo.all_rows ? qn__attn_sink(a->t, a->geo.first_head + l % a->geo.n_heads) : NULL;
        max[l] = sink ? *sink : -INFINITY;
        sum[l] = sink ? 1 : 0;
    }
}

void qn__attn_start(qn_attn *a, int64_t list)
{
    const int64_t d = head_size(a), d_pad = slice_of(d), n_pad = slice_of(a->geo.n_values);
    float *next = a->t->tile;
    a->geo.list = list;
    a->geo.n_rows = a->geo.all_rows = a->geo.group_rows = a->geo.n_queries * a->geo.n_heads;
    a->geo.n_lanes = whole_lanes(a->geo.n_rows);
    a->geo.n_unpack = a->geo.n_rows <= SKINNY_UNPACK ? QN_ATTN_UNPACK / 2 : QN_ATTN_UNPACK;

    const int64_t lanes = a->geo.n_lanes;
    SCRATCH(QN_ATTN_TAKE, lanes, d_pad, n_pad, d_pad > n_pad ? d_pad : n_pad)
    memset(a->mem.total, 0, (size_t)(a->geo.n_values * lanes) * 4);
    qn__attn_begin(a, a->mem.total_max, a->mem.total_sum, lanes);
    if (d <= QN_ATTN_SLICE) load_queries(a, 0, d);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int64_t within(int64_t x, int64_t hi) { return x < 0 ? 0 : x < hi ? x : hi; }

/* Copies n entries of a list. Are all of them cell numbers in range? */
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
    for (int64_t q = 0; q < a->geo.n_queries; q++) hi = a->geo.end[q] > hi ? a->geo.end[q] : hi;
    const int64_t left = hi > at ? hi - at : 0, n = left < QN_ATTN_TILE ? left : QN_ATTN_TILE;
    const uint8_t *from = lists->data + (a->geo.list * lists->layout.stride[0] + at * lists->layout.stride[1]) * 4;

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

/* The positions of the tile's cells: `before` says which places have them. */
static void load_positions(qn_attn *a, int64_t at, const int32_t *before, int64_t places)
{
    const int64_t row = qn__attn_n_lists(a->t) + a->geo.list;
    for (int64_t j = 0; j < places; j++) a->geo.pos[before[j]] = qn__attn_int(&a->t->src[3], row, at + j);
}

void qn__attn_bend(const qn_attn *a, float *s, int64_t n)
{
    const float softcap = a->attrs->softcap;
    for (int64_t i = 0; i < n; i++) s[i] = s[i] / softcap;
    a->t->kernels->tanh_f32(s, s, n);
    for (int64_t i = 0; i < n; i++) s[i] = softcap * s[i];
}

static float distance(int32_t a, int32_t b) { return fabsf((float)(int32_t)((uint32_t)a - (uint32_t)b)); }

void qn__attn_distance(qn_attn *a, int64_t from, int64_t to)
{
    const int64_t n_head = a->t->src[0].layout.dim[1], lanes = a->geo.n_lanes;
    const int32_t *pos = a->geo.pos;
    float slope[QN_ATTN_LANES] = {0};
    int32_t own[QN_ATTN_LANES] = {0};
    for (int64_t l = 0; l < a->geo.n_rows; l++) {
        const int64_t r = a->geo.first_row + l;
        slope[l] = qn__alibi_slope(a->attrs->alibi, n_head, a->geo.first_head + r % a->geo.n_heads);
        own[l] = qn__attn_int(&a->t->src[4], a->geo.first_query + r / a->geo.n_heads, 3);
    }
    for (int64_t l = 0; l < a->geo.n_rows && a->geo.skinny; l++) {
        float *s = a->mem.s + l * QN_ATTN_TILE;
        for (int64_t c = from; c < to; c++) s[c] -= slope[l] * distance(pos[c], own[l]);
    }
    for (int64_t c = from; c < to && !a->geo.skinny; c++) {
        float *s = a->mem.s + c * lanes;
        for (int64_t l = 0; l < lanes; l++) s[l] -= slope[l] * distance(pos[c], own[l]);
    }
}

void qn__attn_cells(qn_attn *a, int64_t at, int64_t n_rows)
{
    int32_t before[QN_ATTN_TILE + 1];
    int64_t n;
    a->geo.n_cells = qn__attn_list(a, at, a->geo.cell, before, &n);
    if (a->attrs->alibi > 0) load_positions(a, at, before, n);

    a->geo.full_first = 0;
    a->geo.full_last = a->geo.n_cells;
    for (int64_t q = 0; q < a->geo.n_queries; q++) {
        int32_t first = before[within(a->geo.begin[q] - at, n)], last = before[within(a->geo.end[q] - at, n)];
        if (first >= last) {
            first = last = 0;
        } else {
            if (first > a->geo.full_first) a->geo.full_first = first;
            if (last < a->geo.full_last) a->geo.full_last = last;
        }
        for (int64_t h = 0; h < a->geo.n_heads; h++) {
            a->mem.first[q * a->geo.n_heads + h] = first;
            a->mem.last[q * a->geo.n_heads + h] = last;
        }
    }
    for (int64_t l = n_rows; l < whole_lanes(n_rows); l++) a->mem.first[l] = a->mem.last[l] = 0;
    if (a->geo.full_first > a->geo.full_last) a->geo.full_first = a->geo.full_last = 0;
}

void qn__attn_unpack(const qn_attn *a, const qn_view *kv, int64_t first, int64_t n_cells, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t stride = whole_lanes(n), cell_bytes = qn__elems_bytes(kv->dtype, kv->layout.stride[0]);
    const uint8_t *base = kv->data + qn__elems_bytes(kv->dtype, a->geo.kv_head * kv->layout.stride[1] + from);
    const bool even = (((uintptr_t)base | (uint64_t)cell_bytes) & 1) == 0;

    if (kernels->kv[kv->dtype].gather && even) {
        kernels->kv[kv->dtype].gather(a->mem.rows, stride, base, cell_bytes, a->geo.cell + first, n_cells, n);
    } else {
        for (int64_t c = 0; c < n_cells; c++)
            kernels->unpack[kv->dtype](base + a->geo.cell[first + c] * cell_bytes, a->mem.rows + c * stride, n);
    }
    for (int64_t c = 0; c < n_cells && n < stride; c++)
        memset(a->mem.rows + c * stride + n, 0, (size_t)(stride - n) * 4);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Cells in lanes: K is transposed, and then the scores back. */
static void score_skinny(qn_attn *a, int64_t first, int64_t n_cells, int64_t n, qn_outer_mode mode)
{
    const int64_t stride = whole_lanes(n_cells);
    float *rows = a->mem.rows; /* [n_lanes, stride]; K is no longer needed */
    float *s = a->mem.s + first * a->geo.n_lanes;
    a->t->kernels->transpose_f32(a->mem.transposed, stride, a->mem.rows, whole_lanes(n), n_cells, n);
    for (int64_t i = 0; i < n && n_cells < stride; i++)
        memset(a->mem.transposed + i * stride + n_cells, 0, (size_t)(stride - n_cells) * 4);
    if (mode == QN_OUTER_go_on) a->t->kernels->transpose_f32(rows, stride, s, a->geo.n_lanes, n_cells, a->geo.n_rows);
    a->t->kernels->outer_f32(&(qn_outer){.y = rows,
                                         .y_stride = stride,
                                         .a = a->mem.q,
                                         .a_out = n,
                                         .a_in = 1,
                                         .b = a->mem.transposed,
                                         .b_stride = stride,
                                         .n_lanes = stride,
                                         .n_out = a->geo.n_rows,
                                         .n_in = n,
                                         .mode = mode});
    memset(rows + a->geo.n_rows * stride, 0, (size_t)((a->geo.n_lanes - a->geo.n_rows) * stride) * 4);
    a->t->kernels->transpose_f32(s, a->geo.n_lanes, rows, stride, a->geo.n_lanes, n_cells);
}

static void score(qn_attn *a)
{
    const int64_t d = head_size(a);
    const bool skinny = a->geo.n_rows <= SKINNY_SCORES;
    for (int64_t from = 0; from < d || from == 0; from += QN_ATTN_SLICE) {
        const int64_t n = d - from < QN_ATTN_SLICE ? d - from : QN_ATTN_SLICE;
        const qn_outer_mode mode = from ? QN_OUTER_go_on : QN_OUTER_set;
        if (d > QN_ATTN_SLICE) load_queries(a, from, n);
        for (int64_t c = 0; c < a->geo.n_cells; c += a->geo.n_unpack) {
            const int64_t n_cells = a->geo.n_cells - c < a->geo.n_unpack ? a->geo.n_cells - c : a->geo.n_unpack;
            qn__attn_unpack(a, &a->t->src[1], c, n_cells, from, n);
            if (skinny) {
                score_skinny(a, c, n_cells, n, mode);
                continue;
            }
            a->t->kernels->outer_f32(&(qn_outer){.y = a->mem.s + c * a->geo.n_lanes,
                                                 .y_stride = a->geo.n_lanes,
                                                 .a = a->mem.rows,
                                                 .a_out = whole_lanes(n),
                                                 .a_in = 1,
                                                 .b = a->mem.q,
                                                 .b_stride = a->geo.n_lanes,
                                                 .n_lanes = a->geo.n_lanes,
                                                 .n_out = n_cells,
                                                 .n_in = n,
                                                 .mode = mode});
        }
    }
    if (a->attrs->softcap > 0) qn__attn_bend(a, a->mem.s, a->geo.n_cells * a->geo.n_lanes);
    if (a->attrs->alibi > 0) qn__attn_distance(a, 0, a->geo.n_cells);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Elements of the value rows in lanes; results are rows [n_rows, whole_lanes(n_values)] in `transposed`. */
static void add_values_skinny(qn_attn *a, int64_t at, int64_t n_cells)
{
    const int64_t stride = whole_lanes(a->geo.n_values);
    for (int64_t r = 0, n; r < a->geo.n_rows; r += n) { /* rows that see the same cells */
        for (n = 1;
             r + n < a->geo.n_rows && a->mem.first[r + n] == a->mem.first[r] && a->mem.last[r + n] == a->mem.last[r];
             n++) {}
        const int64_t first = within(a->mem.first[r] - at, n_cells), last = within(a->mem.last[r] - at, n_cells);
        if (first >= last) continue;
        a->t->kernels->outer_f32(&(qn_outer){.y = a->mem.transposed + r * stride,
                                             .y_stride = stride,
                                             .a = a->mem.s + (at + first) * a->geo.n_lanes + r,
                                             .a_out = 1,
                                             .a_in = a->geo.n_lanes,
                                             .b = a->mem.rows + first * stride,
                                             .b_stride = stride,
                                             .n_lanes = stride,
                                             .n_out = n,
                                             .n_in = last - first,
                                             .mode = QN_OUTER_go_on});
    }
}

static void add_values_wide(qn_attn *a, int64_t at, int64_t n_cells)
{
    const int64_t stride = whole_lanes(a->geo.n_values);
    const int64_t first = within(a->geo.full_first - at, n_cells), last = within(a->geo.full_last - at, n_cells);
    for (int64_t c = 0; c < n_cells; c++) {
        if (c == first && last > first) {
            a->t->kernels->outer_f32(&(qn_outer){.y = a->mem.y,
                                                 .y_stride = a->geo.n_lanes,
                                                 .a = a->mem.rows + first * stride,
                                                 .a_out = 1,
                                                 .a_in = stride,
                                                 .b = a->mem.s + (at + first) * a->geo.n_lanes,
                                                 .b_stride = a->geo.n_lanes,
                                                 .n_lanes = a->geo.n_lanes,
                                                 .n_out = a->geo.n_values,
                                                 .n_in = last - first,
                                                 .mode = QN_OUTER_go_on});
            c = last - 1;
            continue;
        }
        a->t->kernels->attn_add_some(a->mem.y, a->geo.n_values, a->mem.rows + c * stride,
                                     a->mem.s + (at + c) * a->geo.n_lanes, a->geo.n_lanes, at + c, a->mem.first,
                                     a->mem.last);
    }
}

static void add_values(qn_attn *a)
{
    const int64_t stride = whole_lanes(a->geo.n_values);
    const bool skinny = a->geo.n_rows <= SKINNY_VALUES;
    if (skinny)
        memset(a->mem.transposed, 0, (size_t)(a->geo.n_rows * stride) * 4);
    else
        memset(a->mem.y, 0, (size_t)(a->geo.n_values * a->geo.n_lanes) * 4);
    for (int64_t c = 0; c < a->geo.n_cells; c += a->geo.n_unpack) {
        const int64_t n_cells = a->geo.n_cells - c < a->geo.n_unpack ? a->geo.n_cells - c : a->geo.n_unpack;
        qn__attn_unpack(a, &a->t->src[2], c, n_cells, a->geo.first_value, a->geo.n_values);
        if (skinny)
            add_values_skinny(a, c, n_cells);
        else
            add_values_wide(a, c, n_cells);
    }
    if (skinny)
        a->t->kernels->transpose_f32(a->mem.y, a->geo.n_lanes, a->mem.transposed, stride, a->geo.n_rows,
                                     a->geo.n_values);
}

void qn__attn_tile(qn_attn *a, int64_t at)
{
    qn__attn_cells(a, at, a->geo.n_rows);
    if (a->geo.n_cells > 0) {
        score(a);
        a->t->kernels->attn_soften(a->mem.s, a->geo.n_lanes, a->geo.n_cells, a->geo.full_first, a->geo.full_last,
                                   a->mem.first, a->mem.last, a->mem.max, a->mem.sum);
        add_values(a);
    }
    for (int64_t l = 0; l < a->geo.n_lanes; l++)
        if (a->mem.first[l] >= a->mem.last[l]) a->mem.sum[l] = 0;
}
