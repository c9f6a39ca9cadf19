/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention_int.c -- attention over one tile of cells in integers, see attention.c for what the
 * numbers are.
 *
 * As in attention_tile.c, scores and values are products of matrices with rows, that is (query, head) pairs, in lanes,
 * or, where rows are few, cells and elements of V. What is unpacked serves all groups of rows of a unit: turning a cell
 * into integers costs as much as 16 to 32 rows take to use it. */
#include "cpu/op/attention/attention.h"

#include <math.h>
#include <string.h>

enum {
    FLOATS = QN_MM_TILE_BYTES / 4,
    STEP = 16, /* cells on their way to integers at once */
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

/* Cells of K that are integers at a time: all of the tile where several groups want them. */
static int64_t k_cells_of(bool one_group, int64_t d_pad)
{
    const int64_t n = K_ELEMS / d_pad / 16 * 16;
    return !one_group || n > QN_ATTN_TILE ? QN_ATTN_TILE : n;
}

/* What a KV head has of its own: s, log_scale, weight, v16, q_scale, q16. */
static int64_t head_floats(int64_t rows, int64_t d_pad, int64_t n_pad)
{
    const bool skinny = rows <= QN_ATTN_SKINNY;
    return QN_ATTN_TILE * (skinny ? QN_ATTN_SKINNY : group_of(rows)) + 2 * QN_ATTN_TILE + QN_ATTN_TILE * n_pad / 2 +
           whole_lanes(rows) + (skinny ? QN_ATTN_SKINNY : whole_lanes(rows)) * d_pad / 2;
}

static int64_t floats_for(int64_t rows, int64_t d_pad, int64_t n_pad, int64_t head)
{
    const int64_t lanes = group_of(rows), all = whole_lanes(rows), k = k_cells_of(lanes == all, d_pad) * d_pad / 2;
    return head * head_floats(rows, d_pad, n_pad) + all * (n_pad + 4) +
           lanes * (n_pad + QN_ATTN_TILE / 2 + QN_ATTN_BLOCKS + 2) + (rows <= QN_ATTN_SKINNY ? 2 * k : k) +
           QN_ATTN_TILE + n_pad + STEP * at_least(d_pad, n_pad);
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
_Static_assert(16 * (QN_ATTN_SLICE * 5 / 2 + QN_ATTN_TILE * 3 / 2 + QN_ATTN_BLOCKS + 7) + K_ELEMS +
                       QN_ATTN_TILE * QN_ATTN_SLICE / 2 + 3 * QN_ATTN_TILE + QN_ATTN_SLICE + STEP * QN_ATTN_SLICE <=
                   FLOATS,
               "16 rows always fit");
_Static_assert((int)QN_ATTN_SKINNY <= (int)STEP && (int)QN_ATTN_TILE == 16 * (int)QN_ATTN_BLOCKS && STEP % 2 == 0,
               "rows pass through the piece; V goes in pairs of cells");

void qn__attn_int_choose(qn_attn *a, int64_t head, int64_t first_row)
{
    const int64_t all = whole_lanes(a->all_rows);
    float *next = a->heads + head * head_floats(a->all_rows, a->d_pad, a->n_pad);
    a->first_head += (a->first_kv + head - a->kv_head) * a->n_heads;
    a->kv_head = a->first_kv + head;
    a->first_row = first_row;
    a->n_rows = a->all_rows - first_row < a->group_rows ? a->all_rows - first_row : a->group_rows;
    a->n_lanes = whole_lanes(a->n_rows);
    a->total = a->all_total + first_row * a->n_pad;
    a->total_max = a->all_total_max + first_row;
    a->total_sum = a->all_total_sum + first_row;
    a->first = a->all_first + first_row;
    a->last = a->all_last + first_row;
#define TAKE(name, n) (a->name = (void *)next, next += (n))
    TAKE(s, QN_ATTN_TILE * (a->skinny ? QN_ATTN_SKINNY : a->group_rows));
    TAKE(log_scale, QN_ATTN_TILE);
    TAKE(weight, QN_ATTN_TILE);
    TAKE(v16, QN_ATTN_TILE * a->n_pad / 2);
    TAKE(q_scale, all);
    TAKE(q16, a->d_pad / 2 * (a->skinny ? QN_ATTN_SKINNY : all));
    a->q_scale += first_row;
    a->q16 += first_row * a->d_pad;
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Elements [from, from + n) of the rows of the group at hand; sixteen at a time pass through the piece. */
static void load_queries(qn_attn *a, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *q = &a->t->src[0];
    const int64_t width = whole_lanes(n);
    for (int64_t l = 0; l < a->n_lanes; l++) {
        int16_t *row = a->skinny ? a->q16 + l * a->d_pad : (int16_t *)(void *)a->rows + l % 16 * width;
        a->q_scale[l] = 0;
        if (l < a->n_rows) {
            const int64_t r = a->first_row + l;
            const float *x = (const float *)(const void *)q->data +
                             (a->first_query + r / a->n_heads) * q->layout.stride[0] +
                             (a->first_head + r % a->n_heads) * q->layout.stride[1];
            a->q_scale[l] = kernels->attn_pack_q(row, x + from, a->attrs->scale, n);
        } else if (!a->skinny) {
            memset(row, 0, (size_t)width * 2);
        }
        if (l % 16 == 15 && !a->skinny)
            kernels->transpose_f32((float *)(void *)a->q16 + l - 15, a->n_lanes, a->rows, width / 2, 16, width / 2);
    }
}

void qn__attn_int_start(qn_attn *a, int64_t list)
{
    const int64_t d = head_size(a), d_pad = slice_of(d), n_pad = whole_lanes(a->n_values);
    float *next = a->t->tile;
    a->list = list;
    a->all_rows = a->n_queries * a->n_heads;
    a->group_rows = group_of(a->all_rows);
    a->skinny = a->all_rows <= QN_ATTN_SKINNY;
    a->d_pad = d_pad;
    a->n_pad = n_pad;

    a->k_cells = k_cells_of(a->group_rows >= a->all_rows, d_pad);

    const int64_t all = whole_lanes(a->all_rows), lanes = a->group_rows, k = a->k_cells * d_pad / 2;
    TAKE(heads, a->n_kv_heads * head_floats(a->all_rows, d_pad, n_pad));
    TAKE(p16, QN_ATTN_TILE / 2 * lanes);
    TAKE(rows, STEP * at_least(d_pad, n_pad));
    TAKE(y, n_pad * lanes);
    TAKE(all_total, n_pad * all);
    TAKE(k_scale, QN_ATTN_TILE);
    TAKE(ones, n_pad);
    TAKE(p_scale, QN_ATTN_BLOCKS * lanes);
    TAKE(max, lanes);
    TAKE(sum, lanes);
    TAKE(all_total_max, all);
    TAKE(all_total_sum, all);
    TAKE(all_first, all);
    TAKE(all_last, all);
    TAKE(k16, k);
    a->kt16 = (void *)next; /* where rows are few, and only then */
#undef TAKE

    if (!a->kept) memset(a->all_total, 0, (size_t)(n_pad * all) * 4);
    memset(a->all_total_sum, 0, (size_t)all * 4);
    for (int64_t l = 0; l < all; l++) a->all_total_max[l] = -INFINITY;
    for (int64_t j = 0; j < n_pad; j++) a->ones[j] = 1;
    for (int64_t h = 0; h < a->n_kv_heads && d <= QN_ATTN_SLICE; h++)
        for (int64_t row = 0; row < a->all_rows; row += a->group_rows) {
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

/* The same of several heads, from the first to the last byte; of the first one where they don't lie side by side. */
static qn_attn_rows rows_of_heads(const qn_view *kv, int64_t head, int64_t n_heads, int64_t from, int64_t n)
{
    const int64_t step = kv->layout.stride[1];
    return part_of_rows(kv, head, from, step > 0 && step <= 2 * n ? (n_heads - 1) * step + n : n);
}

/* Asks memory for them, of some cells. A row is too short for processors to foresee the next one in every case, and in
 * a model they are in no cache: waiting for them took half of a decoding step's attention. */
static void prefetch_rows(const qn_attn_rows *rows, const int32_t *cell, int64_t n_cells)
{
    const qn_attn_rows r = *rows;
    __asm__ volatile(""); /* gcc takes a function that only asks for one without effects, and leaves out the calls */
    const bool whole_lines = (((uintptr_t)r.base | (uint64_t)r.cell_bytes | (uint64_t)r.bytes) & 63) == 0;
    if (r.bytes == 128 && whole_lines) { /* 64 elements of 16 bits */
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

/* What is read next is asked for evenly between the steps of what is computed now: a few cells' K and V each time.
 * Memory takes some lines at once, and whoever asks for more waits. */
static void prefetch_until(qn_attn *a, int64_t n)
{
    n = (n < a->n_next ? n : a->n_next) - a->n_prefetched;
    if (n <= 0) return;
    prefetch_rows(&a->next_v, a->next_cell + a->n_prefetched, n);
    prefetch_rows(&a->next_k, a->next_cell + a->n_prefetched, n);
    a->n_prefetched += n;
}
static void prefetch_next(qn_attn *a) { prefetch_until(a, (a->due += a->due_a_step) / 256); }

static void find_next(qn_attn *a, int64_t at)
{
    a->n_next = a->n_prefetched = a->due = 0;
    if (a->next_at < 0) return;
    a->next_cell = a->next_at == at ? a->cell : a->next_list; /* other heads of the same cells, or others */
    a->n_next = a->next_at == at ? a->n_cells : qn__attn_list(a, a->next_at, a->next_list, NULL, NULL);
    a->next_k = rows_of_heads(&a->t->src[1], a->next_kv, a->next_kv_heads, 0, first_slice(a));
    a->next_v = rows_of_heads(&a->t->src[2], a->next_kv, a->next_kv_heads, a->first_value, a->n_values);
    /* K, V, weights by row, values by block */
    const int64_t steps = a->n_kv_heads * (3 * ((a->n_cells + 15) / 16) + a->all_rows);
    a->due_a_step = steps > 0 ? 256 * a->n_next / steps + 1 : 0;
}

/* Rows in the formats that have kernels of their own become integers as they lie; others pass through the piece as
 * floats. */
static bool as_it_lies(const qn_attn *a, const qn_view *kv, int64_t from, int64_t n)
{
    return a->t->kernels->kv[kv->dtype].pack_k && n % 16 == 0 &&
           (((uintptr_t)rows_of(kv, a->kv_head, from) | (uint64_t)cell_bytes_of(kv)) & 1) == 0;
}

/* `n_cells` cells of K as integers, from the tile's cell `first`. */
static void load_k(qn_attn *a, int64_t first, int64_t n_cells, int64_t from, int64_t n)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *k = &a->t->src[1];
    int16_t *y = a->k16;
    float *scale = a->k_scale + first;
    const bool lies = as_it_lies(a, k, from, n);
    const qn_attn_rows rows = part_of_rows(k, a->kv_head, from, n);
    for (int64_t c = 0; c < n_cells; c += STEP) {
        const int64_t cells = n_cells - c < STEP ? n_cells - c : STEP;
        prefetch_next(a);
        if (lies) {
            kernels->kv[k->dtype].pack_k(y + c * n, scale + c, rows.base, rows.cell_bytes, a->cell + first + c, cells,
                                         n);
            continue;
        }
        qn__attn_unpack(a, k, first + c, cells, from, n);
        kernels->attn_pack_k(y + c * whole_lanes(n), scale + c, a->rows, cells, whole_lanes(n));
    }
}

/* All of V is asked for at once, and K while V is read, unless that was done before. */
static void load_v(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const qn_view *v = &a->t->src[2];
    const int64_t n = a->n_values;
    const qn_attn_rows all_v = rows_of_heads(v, a->first_kv, a->n_kv_heads, a->first_value, n);
    const qn_attn_rows all_k = rows_of_heads(&a->t->src[1], a->first_kv, a->n_kv_heads, 0, first_slice(a));
    if (!a->prefetched) prefetch_rows(&all_v, a->cell, a->n_cells);
    for (int64_t c = 0; c < a->n_cells; c += STEP) {
        const int64_t cells = a->n_cells - c < STEP ? a->n_cells - c : STEP;
        if (!a->prefetched) prefetch_rows(&all_k, a->cell + c, cells);
        for (int64_t h = 0; h < a->n_kv_heads; h++) {
            qn__attn_int_choose(a, h, 0);
            const qn_attn_rows rows = part_of_rows(v, a->kv_head, a->first_value, n);
            int16_t *y = a->v16 + c * a->n_pad;
            float *log_scale = a->log_scale + c, *weight = a->weight + c;
            prefetch_next(a);
            if (as_it_lies(a, v, a->first_value, n)) {
                kernels->kv[v->dtype].pack_v(y, log_scale, weight, rows.base, rows.cell_bytes, a->cell + c, cells, n);
            } else {
                qn__attn_unpack(a, v, c, cells, a->first_value, n);
                kernels->attn_pack_v(y, log_scale, weight, a->rows, cells, a->n_pad);
            }
        }
    }
    for (int64_t h = 0; h < a->n_kv_heads; h++) {
        qn__attn_int_choose(a, h, 0);
        for (int64_t c = a->n_cells; c < whole_lanes(a->n_cells); c++) a->log_scale[c] = a->weight[c] = 0;
    }
    for (int64_t c = a->n_cells; c < whole_lanes(a->n_cells); c++) a->k_scale[c] = 0;
}

/* Of the cells, what some row of the group sees, and what all do that see any. */
static void look(qn_attn *a)
{
    int32_t lo = (int32_t)a->n_cells, hi = 0, full_lo = 0, full_hi = (int32_t)a->n_cells;
    for (int64_t l = 0; l < a->n_rows; l++) {
        const int32_t first = a->first[l], last = a->last[l];
        if (first >= last) continue;
        lo = first < lo ? first : lo;
        hi = last > hi ? last : hi;
        full_lo = first > full_lo ? first : full_lo;
        full_hi = last < full_hi ? last : full_hi;
    }
    a->first_block = lo / 16;
    a->end_block = lo < hi ? (hi + 15) / 16 : a->first_block;
    a->full_first = full_lo < full_hi ? full_lo : 0;
    a->full_last = full_lo < full_hi ? full_hi : 0;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Cells [c, end) of the tile, which are integers from k16 on; s is [QN_ATTN_TILE, n_lanes]. */
static void score(qn_attn *a, const int16_t *k16, int64_t c, int64_t end, int64_t n, bool starts)
{
    const int64_t pairs = whole_lanes(n) / 2, lanes = a->n_lanes;
    const bool capped = a->attrs->softcap > 0;
    if (starts && capped) memset(a->s + c * lanes, 0, (size_t)((end - c) * lanes) * 4);
    a->t->kernels->outer_i16(&(qn_outer_i16){.y = a->s + c * lanes,
                                             .y_stride = lanes,
                                             .a = k16,
                                             .a_out = pairs,
                                             .a_in = 1,
                                             .b = a->q16,
                                             .b_stride = lanes,
                                             .out_scale = a->k_scale + c,
                                             .out_start = starts && !capped ? a->log_scale + c : NULL,
                                             .lane_scale = a->q_scale,
                                             .n_lanes = lanes,
                                             .n_out = end - c,
                                             .n_in = pairs});
}

/* The same for few rows; s is [n_rows, QN_ATTN_TILE]. */
static void score_skinny(qn_attn *a, int64_t c, int64_t end, int64_t n, bool starts)
{
    const int64_t lanes = whole_lanes(end - c);
    for (int64_t r = 0; r < a->n_rows && starts; r++) {
        if (a->attrs->softcap > 0)
            memset(a->s + r * QN_ATTN_TILE + c, 0, (size_t)lanes * 4);
        else
            memcpy(a->s + r * QN_ATTN_TILE + c, a->log_scale + c, (size_t)lanes * 4);
    }
    a->t->kernels->attn_score_skinny(a->s + c, QN_ATTN_TILE, a->q16, a->d_pad, a->q_scale, a->n_rows, a->k16,
                                     a->k_scale + c, a->kt16, end - c, whole_lanes(n));
}

static void cap(qn_attn *a, int64_t from, int64_t to)
{
    const float softcap = a->attrs->softcap;
    const int64_t rows = a->skinny ? a->n_rows : a->n_lanes, row = a->skinny ? QN_ATTN_TILE : 1,
                  step = a->skinny ? 1 : a->n_lanes;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = from; c < to; c++) {
            float *s = a->s + r * row + c * step;
            *s = softcap * tanhf(*s / softcap) + a->log_scale[c];
        }
}

/* Cells that some row sees, of all heads abreast where there is one group, which needs K only once. */
static void score_cells(qn_attn *a, int64_t from, int64_t to)
{
    const int64_t d = head_size(a);
    for (int64_t e = 0; e < d || e == 0; e += QN_ATTN_SLICE) {
        const int64_t n = d - e < QN_ATTN_SLICE ? d - e : QN_ATTN_SLICE;
        if (d > QN_ATTN_SLICE) load_queries(a, e, n);
        for (int64_t c = from, end; c < to; c = end) {
            end = to - c < a->k_cells ? to : c + a->k_cells;
            for (int64_t h = 0; h < a->n_kv_heads; h++) {
                qn__attn_int_choose(a, h, 0);
                load_k(a, c, end - c, e, n);
                if (a->skinny)
                    score_skinny(a, c, end, n, e == 0);
                else
                    score(a, a->k16, c, end, n, e == 0);
            }
        }
    }
}

static int64_t seen_from(const qn_attn *a) { return 16 * a->first_block; }
static int64_t seen_to(const qn_attn *a) { return a->end_block * 16 < a->n_cells ? a->end_block * 16 : a->n_cells; }

void qn__attn_int_tile(qn_attn *a, int64_t at)
{
    a->first = a->all_first;
    a->last = a->all_last;
    qn__attn_cells(a, at, a->all_rows);
    find_next(a, at);
    if (a->n_cells == 0) return;
    load_v(a);
    if (a->group_rows < a->all_rows) {
        load_k(a, 0, a->n_cells, 0, head_size(a));
    } else {
        qn__attn_int_choose(a, 0, 0);
        look(a);
        score_cells(a, seen_from(a), seen_to(a));
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static int64_t pairs_of(const qn_attn *a, int64_t block)
{
    return a->n_cells - 16 * block < 16 ? (a->n_cells - 16 * block + 1) / 2 : 8;
}

static void weigh_and_add(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t lanes = a->n_lanes, from = seen_from(a), to = seen_to(a);
    for (int64_t l = 0; l < lanes && from > 0; l++) { /* as the kernel counts */
        a->first[l] -= (int32_t)from;
        a->last[l] -= (int32_t)from;
    }
    kernels->attn_weigh(a->p16, a->p_scale, a->max, a->sum, a->s + from * lanes, a->weight + from, lanes, to - from,
                        a->full_first < from ? 0 : a->full_first - from, a->full_last < from ? 0 : a->full_last - from,
                        a->first, a->last);
    for (int64_t l = 0; l < lanes && from > 0; l++) {
        a->first[l] += (int32_t)from;
        a->last[l] += (int32_t)from;
    }
    memset(a->y, 0, (size_t)(a->n_values * lanes) * 4);
    for (int64_t b = a->first_block; b < a->end_block; b++)
        kernels->outer_i16(&(qn_outer_i16){.y = a->y,
                                           .y_stride = lanes,
                                           .a = a->v16 + 16 * b * a->n_pad,
                                           .a_out = 1,
                                           .a_in = a->n_pad,
                                           .b = a->p16 + 16 * (b - a->first_block) * lanes,
                                           .b_stride = lanes,
                                           .lane_scale = a->p_scale + (b - a->first_block) * lanes,
                                           .n_lanes = lanes,
                                           .n_out = a->n_values,
                                           .n_in = pairs_of(a, b)});
}

/* Rows of y pass through the piece. */
static void weigh_and_add_skinny(qn_attn *a)
{
    const qn_kernels *kernels = a->t->kernels;
    const int64_t lanes = a->n_lanes, from = seen_from(a), to = seen_to(a);
    for (int64_t r = 0; r < a->n_rows; r++) {
        float scale[QN_ATTN_BLOCKS] = {0};
        int16_t *p = a->p16 + r * QN_ATTN_TILE;
        prefetch_next(a);
        if (a->first[r] < a->last[r])
            kernels->attn_weigh_row(p, scale, &a->max[r], &a->sum[r], a->s + r * QN_ATTN_TILE + from, a->weight + from,
                                    to - from, a->first[r] - (int32_t)from, a->last[r] - (int32_t)from);
        else
            memset(p, 0, QN_ATTN_TILE * sizeof(*p));
        for (int64_t b = 0; b < QN_ATTN_BLOCKS; b++) a->p_scale[b * lanes + r] = scale[b];
    }
    memset(a->rows, 0, (size_t)(a->n_rows * a->n_pad) * 4);
    for (int64_t b = a->first_block; b < a->end_block; b++) {
        prefetch_next(a);
        kernels->outer_i16(&(qn_outer_i16){.y = a->rows,
                                           .y_stride = a->n_pad,
                                           .a = a->p16 + 16 * (b - a->first_block),
                                           .a_out = QN_ATTN_TILE / 2,
                                           .a_in = 1,
                                           .b = a->v16 + 16 * b * a->n_pad,
                                           .b_stride = a->n_pad,
                                           .out_scale = a->p_scale + (b - a->first_block) * lanes,
                                           .lane_scale = a->ones,
                                           .n_lanes = a->n_pad,
                                           .n_out = a->n_rows,
                                           .n_in = pairs_of(a, b)});
    }
    if (!a->kept) kernels->transpose_f32(a->y, lanes, a->rows, a->n_pad, a->n_rows, a->n_values);
}

void qn__attn_int_group(qn_attn *a, int64_t head, int64_t first_row)
{
    qn__attn_int_choose(a, head, first_row);
    look(a);
    if (a->first_block < a->end_block) {
        if (a->group_rows < a->all_rows)
            score(a, a->k16 + seen_from(a) * a->d_pad, seen_from(a), seen_to(a), head_size(a), true);
        if (a->attrs->softcap > 0) cap(a, seen_from(a), seen_to(a));
        if (a->skinny)
            weigh_and_add_skinny(a);
        else
            weigh_and_add(a);
    }
    if (head == a->n_kv_heads - 1) prefetch_until(a, QN_ATTN_TILE);
    for (int64_t l = 0; l < a->n_lanes; l++)
        if (a->first[l] >= a->last[l]) a->sum[l] = 0;
}
