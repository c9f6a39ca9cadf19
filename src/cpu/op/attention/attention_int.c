/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention_int.c -- attention over one tile of cells in integers; attention.c defines the
 * numbers.
 *
 * As in attention_tile.c, scores and values are matrix products with rows in lanes, or, where rows are few, with
 * cells and elements of V in lanes. What is unpacked serves all groups of rows of a unit: converting a cell to
 * integers costs as much as 16 to 32 rows take to use it. */
#include "cpu/op/attention/attention.h"

#include <math.h>
#include <string.h>

enum {
    FLOATS = QN_MM_TILE_BYTES / 4,
    STEP = 16, /* cells converted to integers at a time */
    K_ELEMS = 16 * QN_ATTN_SLICE,
};

static int64_t whole_lanes(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t slice_of(int64_t d) { return whole_lanes(d < QN_ATTN_SLICE ? d : QN_ATTN_SLICE); }
static int64_t at_least(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t head_size(const qn_attn *a) { return a->t->src[0].layout.dim[2]; }

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t group_of(int64_t rows)
{
    const int64_t groups = (rows + QN_ATTN_LANES - 1) / QN_ATTN_LANES;
    return groups > 0 ? whole_lanes((rows + groups - 1) / groups) : 16;
}

/* Cells of K that are converted at a time: all of the tile where several groups need them. */
static int64_t k_cells_of(bool one_group, int64_t d_pad)
{
    const int64_t n = K_ELEMS / d_pad / 16 * 16;
    return !one_group || n > QN_ATTN_TILE ? QN_ATTN_TILE : n;
}

/* What each KV head of an item has. s_rows, q_rows: rows of scores and of queries; all: rows, as whole lanes. */
/* clang-format off */
#define HEAD_SCRATCH(ROW, s_rows, q_rows, all, d_pad, n_pad) \
    ROW(s,             QN_ATTN_TILE * (s_rows)) \
    ROW(log_scale,     QN_ATTN_TILE) \
    ROW(weight,        QN_ATTN_TILE) \
    ROW(v16,           QN_ATTN_TILE / 2 * (n_pad)) \
    ROW(q_scale,       all) \
    ROW(q16,           (d_pad) / 2 * (q_rows))
/* What they share. heads: floats of all heads; lanes: rows of a group; k: floats of the cells of K at a time; kt: the
 * same where rows are skinny, else 0; widest: the greater of d_pad and n_pad. */
#define SCRATCH(ROW, heads_, lanes, all, n_pad, k, kt, widest) \
    ROW(heads,         heads_) \
    ROW(p16,           QN_ATTN_TILE / 2 * (lanes)) \
    ROW(rows,          STEP * (widest)) \
    ROW(y,             (n_pad) * (lanes)) \
    ROW(all_total,     (n_pad) * (all)) \
    ROW(k_scale,       QN_ATTN_TILE) \
    ROW(ones,          n_pad) \
    ROW(p_scale,       QN_ATTN_BLOCKS * (lanes)) \
    ROW(max,           lanes) \
    ROW(sum,           lanes) \
    ROW(all_total_max, all) \
    ROW(all_total_sum, all) \
    ROW(all_first,     all) \
    ROW(all_last,      all) \
    ROW(k16,           k) \
    ROW(kt16,          kt)
/* clang-format on */
#define HEAD_16 (HEAD_SCRATCH(QN_ATTN_SIZE, 16, 16, 16, QN_ATTN_SLICE, QN_ATTN_SLICE))
_Static_assert((SCRATCH(QN_ATTN_SIZE, HEAD_16, 16, 16, QN_ATTN_SLICE, K_ELEMS / 2, K_ELEMS / 2, QN_ATTN_SLICE)) <=
                   FLOATS,
               "16 rows always fit");
_Static_assert((int)QN_ATTN_SKINNY <= (int)STEP && (int)QN_ATTN_TILE == 16 * (int)QN_ATTN_BLOCKS && STEP % 2 == 0,
               "rows pass through mem.rows; V goes in pairs of cells");

static int64_t s_rows_of(int64_t rows) { return rows <= QN_ATTN_SKINNY ? QN_ATTN_SKINNY : group_of(rows); }
static int64_t q_rows_of(int64_t rows) { return rows <= QN_ATTN_SKINNY ? QN_ATTN_SKINNY : whole_lanes(rows); }

static int64_t head_floats(int64_t rows, int64_t d_pad, int64_t n_pad)
{
    return HEAD_SCRATCH(QN_ATTN_SIZE, s_rows_of(rows), q_rows_of(rows), whole_lanes(rows), d_pad, n_pad);
}

static int64_t floats_for(int64_t rows, int64_t d_pad, int64_t n_pad, int64_t n_kv_heads)
{
    const int64_t lanes = group_of(rows), all = whole_lanes(rows), k = k_cells_of(lanes == all, d_pad) * d_pad / 2;
    return SCRATCH(QN_ATTN_SIZE, n_kv_heads * head_floats(rows, d_pad, n_pad), lanes, all, n_pad, k,
                   rows <= QN_ATTN_SKINNY ? k : 0, at_least(d_pad, n_pad));
}

int64_t qn__attn_int_kv_heads(int64_t d, int64_t dv)
{
    int64_t n = 1;
    while (d <= QN_ATTN_SLICE && dv <= QN_ATTN_SLICE &&
           floats_for(QN_ATTN_SKINNY, slice_of(d), slice_of(dv), n + 1) <= FLOATS)
        n++;
    return n;
}

int64_t qn__attn_int_rows(int64_t d, int64_t dv)
{
    /* a head in slices is scored a slice at a time: one group */
    int64_t rows = d <= QN_ATTN_SLICE ? QN_ATTN_ROWS : QN_ATTN_LANES;
    while (rows > 16 && floats_for(rows, slice_of(d), slice_of(dv), 1) > FLOATS) rows -= 16;
    return rows;
}
void qn__attn_int_choose(qn_attn *a, int64_t kv, int64_t first_row)
{
    qn_attn_geometry *g = &a->geo;
    qn_attn_scratch *m = &a->mem;
    float *next = m->heads + kv * head_floats(g->all_rows, g->d_pad, g->n_pad);
    g->first_head += (g->first_kv + kv - g->kv_head) * g->n_heads;
    g->kv_head = g->first_kv + kv;
    g->first_row = first_row;
    g->n_rows = g->all_rows - first_row < g->group_rows ? g->all_rows - first_row : g->group_rows;
    g->n_lanes = whole_lanes(g->n_rows);
    HEAD_SCRATCH(QN_ATTN_TAKE, s_rows_of(g->all_rows), q_rows_of(g->all_rows), whole_lanes(g->all_rows), g->d_pad,
                 g->n_pad)
    m->q_scale += first_row;
    m->q16 += first_row * g->d_pad;
    m->total = m->all_total + first_row * g->n_pad;
    m->total_max = m->all_total_max + first_row;
    m->total_sum = m->all_total_sum + first_row;
    m->first = m->all_first + first_row;
    m->last = m->all_last + first_row;
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Converts elements [from, from + n) of the queries of the group at hand, sixteen rows at a time through mem.rows. */
static void load_queries(qn_attn *a, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *q = &a->t->src[0];
    const int64_t width = whole_lanes(n);
    for (int64_t l = 0; l < a->geo.n_lanes; l++) {
        int16_t *row = a->geo.skinny ? a->mem.q16 + l * a->geo.d_pad : (int16_t *)(void *)a->mem.rows + l % 16 * width;
        a->mem.q_scale[l] = 0;
        if (l < a->geo.n_rows) {
            const int64_t r = a->geo.first_row + l;
            const float *x = (const float *)(const void *)q->data +
                             (a->geo.first_query + r / a->geo.n_heads) * q->layout.stride[0] +
                             (a->geo.first_head + r % a->geo.n_heads) * q->layout.stride[1];
            a->mem.q_scale[l] = kernels->attn_pack_q(row, x + from, a->attrs->scale, n);
        } else if (!a->geo.skinny) {
            memset(row, 0, (size_t)width * 2);
        }
        if (l % 16 == 15 && !a->geo.skinny)
            kernels->transpose_f32((float *)(void *)a->mem.q16 + l - 15, a->geo.n_lanes, a->mem.rows, width / 2, 16,
                                   width / 2);
    }
}

void qn__attn_int_start(qn_attn *a, int64_t list)
{
    const int64_t d = head_size(a), d_pad = slice_of(d), n_pad = whole_lanes(a->geo.n_values);
    float *next = a->t->tile;
    a->geo.list = list;
    a->geo.all_rows = a->geo.n_queries * a->geo.n_heads;
    a->geo.group_rows = group_of(a->geo.all_rows);
    a->geo.skinny = a->geo.all_rows <= QN_ATTN_SKINNY;
    a->geo.d_pad = d_pad;
    a->geo.n_pad = n_pad;

    a->geo.k_cells = k_cells_of(a->geo.group_rows >= a->geo.all_rows, d_pad);

    const int64_t all = whole_lanes(a->geo.all_rows), lanes = a->geo.group_rows, k = a->geo.k_cells * d_pad / 2;
    SCRATCH(QN_ATTN_TAKE, a->geo.n_kv_heads * head_floats(a->geo.all_rows, d_pad, n_pad), lanes, all, n_pad, k,
            a->geo.skinny ? k : 0, at_least(d_pad, n_pad))

    if (!a->geo.kept) memset(a->mem.all_total, 0, (size_t)(n_pad * all) * 4);
    qn__attn_begin(a, a->mem.all_total_max, a->mem.all_total_sum, all);
    for (int64_t j = 0; j < n_pad; j++) a->mem.ones[j] = 1;
    for (int64_t h = 0; h < a->geo.n_kv_heads && d <= QN_ATTN_SLICE; h++)
        for (int64_t row = 0; row < a->geo.all_rows; row += a->geo.group_rows) {
            qn__attn_int_choose(a, h, row);
            load_queries(a, 0, d);
        }
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int64_t cell_bytes_of(const qn_view *kv) { return qn__elems_bytes(kv->dtype, kv->layout.stride[0]); }
static int64_t first_slice(const qn_attn *a) { return head_size(a) < QN_ATTN_SLICE ? head_size(a) : QN_ATTN_SLICE; }
/* The row of cell 0, from element `from` on. */
static const uint8_t *rows_of(const qn_view *kv, int64_t head, int64_t from)
{
    return kv->data + qn__elems_bytes(kv->dtype, head * kv->layout.stride[1] + from);
}

/* Elements [from, from + n) of a head's rows. */
static qn_attn_rows part_of_rows(const qn_view *kv, int64_t head, int64_t from, int64_t n)
{
    return (qn_attn_rows){rows_of(kv, head, from), cell_bytes_of(kv), qn__elems_bytes(kv->dtype, n)};
}

/* The same of several heads, from the first to the last byte; only of the first head where heads are not neighbours. */
static qn_attn_rows rows_of_heads(const qn_view *kv, int64_t head, int64_t n_heads, int64_t from, int64_t n)
{
    const int64_t step = kv->layout.stride[1];
    return part_of_rows(kv, head, from, step > 0 && step <= 2 * n ? (n_heads - 1) * step + n : n);
}

/* Prefetches such rows of some cells. Hardware prefetchers do not predict them all, since a row is short and cells
 * are anywhere, and in a model they are in no cache: waiting for them took half of a decoding step's attention. */
static void prefetch_rows(const qn_attn_rows *rows, const int32_t *cell, int64_t n_cells)
{
    const qn_attn_rows r = *rows;
    __asm__ volatile(""); /* gcc takes a function that only prefetches for one without effects, and drops the calls */
    const bool whole_lines = (((uintptr_t)r.base | (uint64_t)r.cell_bytes | (uint64_t)r.bytes) & 63) == 0;
    if (r.bytes == 128 && whole_lines) { /* 64 elements of 16 bits, aligned */
        for (int64_t c = 0; c < n_cells; c++) {
            const uint8_t *row = r.base + cell[c] * r.cell_bytes;
            __builtin_prefetch(row);
            __builtin_prefetch(row + 64);
        }
        return;
    }
    for (int64_t c = 0; c < n_cells && r.bytes > 0; c++) {
        const uint8_t *row = r.base + cell[c] * r.cell_bytes;
        for (int64_t at = 0; at < r.bytes; at += 64) __builtin_prefetch(row + at);
        if (!whole_lines) __builtin_prefetch(row + r.bytes - 1);
    }
}

/* The next item's K and V are prefetched evenly between the steps of this one, a few cells each time: memory accepts
 * a limited number of lines at once, and further prefetches stall. */
static void prefetch_until(qn_attn *a, int64_t n)
{
    n = (n < a->next.n ? n : a->next.n) - a->next.n_done;
    if (n <= 0) return;
    prefetch_rows(&a->next.v, a->next.cell + a->next.n_done, n);
    prefetch_rows(&a->next.k, a->next.cell + a->next.n_done, n);
    a->next.n_done += n;
}
static void prefetch_next(qn_attn *a) { prefetch_until(a, (a->next.due += a->next.due_per_step) / 256); }

static void find_next(qn_attn *a, int64_t at)
{
    a->next.n = a->next.n_done = a->next.due = 0;
    if (a->next.at < 0) return;
    a->next.cell = a->next.at == at ? a->geo.cell : a->next.cells; /* other heads of the same cells, or other cells */
    a->next.n = a->next.at == at ? a->geo.n_cells : qn__attn_list(a, a->next.at, a->next.cells, NULL, NULL);
    a->next.k = rows_of_heads(&a->t->src[1], a->next.first_kv, a->next.n_kv_heads, 0, first_slice(a));
    a->next.v = rows_of_heads(&a->t->src[2], a->next.first_kv, a->next.n_kv_heads, a->geo.first_value, a->geo.n_values);
    /* steps: K, V and values by block of cells, weights by row */
    const int64_t steps = a->geo.n_kv_heads * (3 * ((a->geo.n_cells + 15) / 16) + a->geo.all_rows);
    a->next.due_per_step = steps > 0 ? 256 * a->next.n / steps + 1 : 0;
}

/* Formats with pack kernels of their own are converted straight from the cache; others pass through mem.rows as
 * floats. */
static bool as_it_lies(const qn_attn *a, const qn_view *kv, int64_t from, int64_t n)
{
    return a->t->kernels->kv[kv->dtype].pack_k && n % 16 == 0 &&
           (((uintptr_t)rows_of(kv, a->geo.kv_head, from) | (uint64_t)cell_bytes_of(kv)) & 1) == 0;
}

/* Converts `n_cells` cells of K to integers, from cell `first` of the tile on. */
static void load_k(qn_attn *a, int64_t first, int64_t n_cells, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *k = &a->t->src[1];
    int16_t *y = a->mem.k16;
    float *scale = a->mem.k_scale + first;
    const bool lies = as_it_lies(a, k, from, n);
    const qn_attn_rows rows = part_of_rows(k, a->geo.kv_head, from, n);
    for (int64_t c = 0; c < n_cells; c += STEP) {
        const int64_t cells = n_cells - c < STEP ? n_cells - c : STEP;
        prefetch_next(a);
        if (lies) {
            kernels->kv[k->dtype].pack_k(y + c * n, scale + c, rows.base, rows.cell_bytes, a->geo.cell + first + c,
                                         cells, n);
            continue;
        }
        qn__attn_unpack(a, k, first + c, cells, from, n);
        kernels->attn_pack_k(y + c * whole_lanes(n), scale + c, a->mem.rows, cells, whole_lanes(n));
    }
}

/* Converts V. All of V is prefetched at once, and K while V is read, unless that was done during the item before. */
static void load_v(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *v = &a->t->src[2];
    const int64_t n = a->geo.n_values;
    const qn_attn_rows all_v = rows_of_heads(v, a->geo.first_kv, a->geo.n_kv_heads, a->geo.first_value, n);
    const qn_attn_rows all_k = rows_of_heads(&a->t->src[1], a->geo.first_kv, a->geo.n_kv_heads, 0, first_slice(a));
    if (!a->next.warm) prefetch_rows(&all_v, a->geo.cell, a->geo.n_cells);
    for (int64_t c = 0; c < a->geo.n_cells; c += STEP) {
        const int64_t cells = a->geo.n_cells - c < STEP ? a->geo.n_cells - c : STEP;
        if (!a->next.warm) prefetch_rows(&all_k, a->geo.cell + c, cells);
        for (int64_t h = 0; h < a->geo.n_kv_heads; h++) {
            qn__attn_int_choose(a, h, 0);
            const qn_attn_rows rows = part_of_rows(v, a->geo.kv_head, a->geo.first_value, n);
            int16_t *y = a->mem.v16 + c * a->geo.n_pad;
            float *log_scale = a->mem.log_scale + c, *weight = a->mem.weight + c;
            prefetch_next(a);
            if (as_it_lies(a, v, a->geo.first_value, n)) {
                kernels->kv[v->dtype].pack_v(y, log_scale, weight, rows.base, rows.cell_bytes, a->geo.cell + c, cells,
                                             n);
            } else {
                qn__attn_unpack(a, v, c, cells, a->geo.first_value, n);
                kernels->attn_pack_v(y, log_scale, weight, a->mem.rows, cells, a->geo.n_pad);
            }
        }
    }
    for (int64_t h = 0; h < a->geo.n_kv_heads; h++) {
        qn__attn_int_choose(a, h, 0);
        for (int64_t c = a->geo.n_cells; c < whole_lanes(a->geo.n_cells); c++)
            a->mem.log_scale[c] = a->mem.weight[c] = 0;
    }
    for (int64_t c = a->geo.n_cells; c < whole_lanes(a->geo.n_cells); c++) a->mem.k_scale[c] = 0;
}

/* Sets which cells some row of the group sees, and which all rows see that see any. */
static void look(qn_attn *a)
{
    int32_t lo = (int32_t)a->geo.n_cells, hi = 0, full_lo = 0, full_hi = (int32_t)a->geo.n_cells;
    for (int64_t l = 0; l < a->geo.n_rows; l++) {
        const int32_t first = a->mem.first[l], last = a->mem.last[l];
        if (first >= last) continue;
        lo = first < lo ? first : lo;
        hi = last > hi ? last : hi;
        full_lo = first > full_lo ? first : full_lo;
        full_hi = last < full_hi ? last : full_hi;
    }
    a->geo.first_block = lo / 16;
    a->geo.end_block = lo < hi ? (hi + 15) / 16 : a->geo.first_block;
    a->geo.full_first = full_lo < full_hi ? full_lo : 0;
    a->geo.full_last = full_lo < full_hi ? full_hi : 0;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Scores of cells [c, end) of the tile, which are integers from k16 on; s is [QN_ATTN_TILE, n_lanes]. */
static void score(qn_attn *a, const int16_t *k16, int64_t c, int64_t end, int64_t n, bool starts)
{
    const int64_t pairs = whole_lanes(n) / 2, lanes = a->geo.n_lanes;
    const bool capped = a->attrs->softcap > 0;
    if (starts && capped) memset(a->mem.s + c * lanes, 0, (size_t)((end - c) * lanes) * 4);
    a->t->kernels->outer_i16(&(qn_outer_i16){.y = a->mem.s + c * lanes,
                                             .y_stride = lanes,
                                             .a = k16,
                                             .a_out = pairs,
                                             .a_in = 1,
                                             .b = a->mem.q16,
                                             .b_stride = lanes,
                                             .out_scale = a->mem.k_scale + c,
                                             .out_start = starts && !capped ? a->mem.log_scale + c : NULL,
                                             .lane_scale = a->mem.q_scale,
                                             .n_lanes = lanes,
                                             .n_out = end - c,
                                             .n_in = pairs});
}

/* The same for few rows; s is [n_rows, QN_ATTN_TILE]. */
static void score_skinny(qn_attn *a, int64_t c, int64_t end, int64_t n, bool starts)
{
    const int64_t lanes = whole_lanes(end - c);
    for (int64_t r = 0; r < a->geo.n_rows && starts; r++) {
        if (a->attrs->softcap > 0)
            memset(a->mem.s + r * QN_ATTN_TILE + c, 0, (size_t)lanes * 4);
        else
            memcpy(a->mem.s + r * QN_ATTN_TILE + c, a->mem.log_scale + c, (size_t)lanes * 4);
    }
    a->t->kernels->attn_score_skinny(a->mem.s + c, QN_ATTN_TILE, a->mem.q16, a->geo.d_pad, a->mem.q_scale,
                                     a->geo.n_rows, a->mem.k16, a->mem.k_scale + c, a->mem.kt16, end - c,
                                     whole_lanes(n));
}

static void cap(qn_attn *a, int64_t from, int64_t to)
{
    const int64_t lanes = a->geo.n_lanes;
    for (int64_t r = 0; r < a->geo.n_rows && a->geo.skinny; r++) {
        float *s = a->mem.s + r * QN_ATTN_TILE;
        if (from < to) qn__attn_bend(a, s + from, to - from);
        for (int64_t c = from; c < to; c++) s[c] += a->mem.log_scale[c];
    }
    for (int64_t c = from; c < to && !a->geo.skinny; c++) {
        float *s = a->mem.s + c * lanes;
        qn__attn_bend(a, s, lanes);
        for (int64_t l = 0; l < lanes; l++) s[l] += a->mem.log_scale[c];
    }
}

/* Scores of the cells that some row sees, for all KV heads, where there is one group, which needs K only once. */
static void score_cells(qn_attn *a, int64_t from, int64_t to)
{
    const int64_t d = head_size(a);
    for (int64_t e = 0; e < d || e == 0; e += QN_ATTN_SLICE) {
        const int64_t n = d - e < QN_ATTN_SLICE ? d - e : QN_ATTN_SLICE;
        if (d > QN_ATTN_SLICE) load_queries(a, e, n);
        for (int64_t c = from, end; c < to; c = end) {
            end = to - c < a->geo.k_cells ? to : c + a->geo.k_cells;
            for (int64_t h = 0; h < a->geo.n_kv_heads; h++) {
                qn__attn_int_choose(a, h, 0);
                load_k(a, c, end - c, e, n);
                if (a->geo.skinny)
                    score_skinny(a, c, end, n, e == 0);
                else
                    score(a, a->mem.k16, c, end, n, e == 0);
            }
        }
    }
}

static int64_t seen_from(const qn_attn *a) { return 16 * a->geo.first_block; }
static int64_t seen_to(const qn_attn *a)
{
    return a->geo.end_block * 16 < a->geo.n_cells ? a->geo.end_block * 16 : a->geo.n_cells;
}

void qn__attn_int_tile(qn_attn *a, int64_t at)
{
    a->mem.first = a->mem.all_first;
    a->mem.last = a->mem.all_last;
    qn__attn_cells(a, at, a->geo.all_rows);
    find_next(a, at);
    if (a->geo.n_cells == 0) return;
    load_v(a);
    if (a->geo.group_rows < a->geo.all_rows) {
        load_k(a, 0, a->geo.n_cells, 0, head_size(a));
    } else {
        qn__attn_int_choose(a, 0, 0);
        look(a);
        score_cells(a, seen_from(a), seen_to(a));
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static int64_t pairs_of(const qn_attn *a, int64_t block)
{
    return a->geo.n_cells - 16 * block < 16 ? (a->geo.n_cells - 16 * block + 1) / 2 : 8;
}

static void weigh_and_add(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t lanes = a->geo.n_lanes, from = seen_from(a), to = seen_to(a);
    for (int64_t l = 0; l < lanes && from > 0; l++) { /* the kernel counts from block first_block */
        a->mem.first[l] -= (int32_t)from;
        a->mem.last[l] -= (int32_t)from;
    }
    kernels->attn_weigh(a->mem.p16, a->mem.p_scale, a->mem.max, a->mem.sum, a->mem.s + from * lanes,
                        a->mem.weight + from, lanes, to - from, a->geo.full_first < from ? 0 : a->geo.full_first - from,
                        a->geo.full_last < from ? 0 : a->geo.full_last - from, a->mem.first, a->mem.last);
    for (int64_t l = 0; l < lanes && from > 0; l++) {
        a->mem.first[l] += (int32_t)from;
        a->mem.last[l] += (int32_t)from;
    }
    memset(a->mem.y, 0, (size_t)(a->geo.n_values * lanes) * 4);
    for (int64_t b = a->geo.first_block; b < a->geo.end_block; b++)
        kernels->outer_i16(&(qn_outer_i16){.y = a->mem.y,
                                           .y_stride = lanes,
                                           .a = a->mem.v16 + 16 * b * a->geo.n_pad,
                                           .a_out = 1,
                                           .a_in = a->geo.n_pad,
                                           .b = a->mem.p16 + 16 * (b - a->geo.first_block) * lanes,
                                           .b_stride = lanes,
                                           .lane_scale = a->mem.p_scale + (b - a->geo.first_block) * lanes,
                                           .n_lanes = lanes,
                                           .n_out = a->geo.n_values,
                                           .n_in = pairs_of(a, b)});
}

/* The same for few rows; y is rows in mem.rows. */
static void weigh_and_add_skinny(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t lanes = a->geo.n_lanes, from = seen_from(a), to = seen_to(a);
    for (int64_t r = 0; r < a->geo.n_rows; r++) {
        float scale[QN_ATTN_BLOCKS] = {0};
        int16_t *p = a->mem.p16 + r * QN_ATTN_TILE;
        prefetch_next(a);
        if (a->mem.first[r] < a->mem.last[r])
            kernels->attn_weigh_row(p, scale, &a->mem.max[r], &a->mem.sum[r], a->mem.s + r * QN_ATTN_TILE + from,
                                    a->mem.weight + from, to - from, a->mem.first[r] - (int32_t)from,
                                    a->mem.last[r] - (int32_t)from);
        else
            memset(p, 0, QN_ATTN_TILE * sizeof(*p));
        for (int64_t b = 0; b < QN_ATTN_BLOCKS; b++) a->mem.p_scale[b * lanes + r] = scale[b];
    }
    memset(a->mem.rows, 0, (size_t)(a->geo.n_rows * a->geo.n_pad) * 4);
    for (int64_t b = a->geo.first_block; b < a->geo.end_block; b++) {
        prefetch_next(a);
        kernels->outer_i16(&(qn_outer_i16){.y = a->mem.rows,
                                           .y_stride = a->geo.n_pad,
                                           .a = a->mem.p16 + 16 * (b - a->geo.first_block),
                                           .a_out = QN_ATTN_TILE / 2,
                                           .a_in = 1,
                                           .b = a->mem.v16 + 16 * b * a->geo.n_pad,
                                           .b_stride = a->geo.n_pad,
                                           .out_scale = a->mem.p_scale + (b - a->geo.first_block) * lanes,
                                           .lane_scale = a->mem.ones,
                                           .n_lanes = a->geo.n_pad,
                                           .n_out = a->geo.n_rows,
                                           .n_in = pairs_of(a, b)});
    }
    if (!a->geo.kept)
        kernels->transpose_f32(a->mem.y, lanes, a->mem.rows, a->geo.n_pad, a->geo.n_rows, a->geo.n_values);
}

void qn__attn_int_group(qn_attn *a, int64_t kv, int64_t first_row)
{
    qn__attn_int_choose(a, kv, first_row);
    look(a);
    if (a->geo.first_block < a->geo.end_block) {
        if (a->geo.group_rows < a->geo.all_rows)
            score(a, a->mem.k16 + seen_from(a) * a->geo.d_pad, seen_from(a), seen_to(a), head_size(a), true);
        if (a->attrs->softcap > 0) cap(a, seen_from(a), seen_to(a));
        if (a->attrs->alibi > 0) qn__attn_distance(a, seen_from(a), seen_to(a));
        if (a->geo.skinny)
            weigh_and_add_skinny(a);
        else
            weigh_and_add(a);
    }
    if (kv == a->geo.n_kv_heads - 1) prefetch_until(a, QN_ATTN_TILE);
    for (int64_t l = 0; l < a->geo.n_lanes; l++)
        if (a->mem.first[l] >= a->mem.last[l]) a->mem.sum[l] = 0;
}
