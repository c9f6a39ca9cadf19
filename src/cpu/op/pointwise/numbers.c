/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/numbers.c -- gathering, widening, narrowing and scattering of runs, see numbers.h. */
#include "cpu/op/pointwise/numbers.h"

#include <string.h>

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* widen or narrow n dense elements; NULL: the dtype is its number itself */
typedef struct dtype_row {
    qn_number kind;
    void (*widen)(const qn_kernels *kernels, const void *x, int64_t n, void *y);
    void (*narrow)(const qn_kernels *kernels, const void *x, int64_t n, void *y);
} dtype_row;

#define FLOATS(dtype, from, to) \
    static void widen_##dtype(const qn_kernels *kernels, const void *x, int64_t n, void *y) \
    { \
        kernels->from(y, x, n); \
    } \
    static void narrow_##dtype(const qn_kernels *kernels, const void *x, int64_t n, void *y) { kernels->to(y, x, n); }
FLOATS(F16, f16_to_f32, f32_to_f16)
FLOATS(BF16, bf16_to_f32, f32_to_bf16)

#define INTS(dtype, T, from, to) \
    static void widen_##dtype(const qn_kernels *kernels, const void *x_, int64_t n, void *y_) \
    { \
        const T *x = x_; \
        int64_t *y = y_; \
        (void)kernels; \
        for (int64_t i = 0; i < n; i++) y[i] = from; \
    } \
    static void narrow_##dtype(const qn_kernels *kernels, const void *x_, int64_t n, void *y_) \
    { \
        const int64_t *x = x_; \
        T *y = y_; \
        (void)kernels; \
        for (int64_t i = 0; i < n; i++) y[i] = to; \
    }
/* clang-format off */
INTS(I32, int32_t, x[i], (int32_t)(uint32_t)(uint64_t)x[i])
INTS(I16, int16_t, x[i], (int16_t)(uint16_t)(uint64_t)x[i])
INTS(I8, int8_t, x[i], (int8_t)(uint8_t)(uint64_t)x[i])
INTS(U8, uint8_t, x[i], (uint8_t)(uint64_t)x[i])
INTS(BOOL, uint8_t, x[i] != 0, x[i] != 0)
/* clang-format on */

#define ROW(dtype, kind) [QN_DTYPE_##dtype] = {QN_NUM_##kind, widen_##dtype, narrow_##dtype}
static const dtype_row rows[QN_DTYPE_COUNT] = {
    [QN_DTYPE_F32] = {QN_NUM_f32, NULL, NULL},
    [QN_DTYPE_F64] = {QN_NUM_f64, NULL, NULL},
    [QN_DTYPE_I64] = {QN_NUM_i64, NULL, NULL},
    ROW(F16, f32),
    ROW(BF16, f32),
    ROW(I32, i64),
    ROW(I16, i64),
    ROW(I8, i64),
    ROW(U8, i64),
    ROW(BOOL, i64),
};

qn_number qn__number_of(qn_dtype dtype) { return rows[dtype].kind; }
bool qn__number_is(qn_dtype dtype) { return rows[dtype].widen == NULL; }

void qn__narrow_to(const qn_kernels *kernels, qn_dtype dtype, const void *x, int64_t n, void *y)
{
    rows[dtype].narrow(kernels, x, n, y);
}

/* ---- walks ----------------------------------------------------------------------------------- */

qn_walk qn__walk_layout(const qn_view *v, const qn_layout *l)
{
    const qn_dtype_info *d = qn_dtype_get(v->dtype);
    qn_walk w = {.data = v->data + l->offset * d->block_bytes, .dtype = v->dtype, .bytes = d->block_bytes};
    for (int i = 0; i < l->rank; i++) {
        if (l->dim[i] == 1) continue;
        const int last = w.rank - 1;
        if (last >= 0 && w.stride[last] == l->stride[i] * l->dim[i]) {
            w.dim[last] *= l->dim[i];
            w.stride[last] = l->stride[i];
        } else {
            w.dim[w.rank] = l->dim[i];
            w.stride[w.rank++] = l->stride[i];
        }
    }
    if (w.rank == 0) w.dim[w.rank++] = 1; /* its stride stays 0: a constant */
    return w;
}

qn_walk qn__walk_of(const qn_view *v) { return qn__walk_layout(v, &v->layout); }

qn_walk qn__walk_stretched(const qn_view *v, const qn_layout *to)
{
    qn_layout l = *to;
    l.offset = 0;
    for (int i = 0; i < l.rank; i++) {
        const int from = i - (l.rank - v->layout.rank);
        l.stride[i] = from < 0 || v->layout.dim[from] == 1 ? 0 : v->layout.stride[from];
    }
    return qn__walk_layout(v, &l);
}

/* ---- gathering and scattering ---------------------------------------------------------------- */

#define MOVES(T, bits) \
    static void gather_##bits(void *y_, const void *x_, int64_t step, int64_t n) \
    { \
        T *y = y_; \
        const T *x = x_; \
        if (step == 0) { \
            const T value = *x; \
            for (int64_t i = 0; i < n; i++) y[i] = value; \
        } else { \
            for (int64_t i = 0; i < n; i++) y[i] = x[i * step]; \
        } \
    } \
    static void scatter_##bits(void *y_, const void *x_, int64_t step, int64_t n) \
    { \
        T *y = y_; \
        const T *x = x_; \
        for (int64_t i = 0; i < n; i++) y[i * step] = x[i]; \
    }
/* clang-format off */
MOVES(uint8_t, 8)
MOVES(uint16_t, 16)
MOVES(uint32_t, 32)
MOVES(uint64_t, 64)
/* clang-format on */

typedef void (*move_fn)(void *y, const void *x, int64_t step, int64_t n);
static const move_fn gathers[9] = {[1] = gather_8, [2] = gather_16, [4] = gather_32, [8] = gather_64};
static const move_fn scatters[9] = {[1] = scatter_8, [2] = scatter_16, [4] = scatter_32, [8] = scatter_64};

/* A position in a walk. */
typedef struct cursor {
    int64_t index[QN_MAX_RANK];
    int64_t at; /* in elements, of the start of the innermost dimension */
} cursor;

static cursor seek(const qn_walk *w, int64_t first)
{
    cursor c = {.at = 0};
    for (int i = w->rank - 1; i >= 0; i--) {
        c.index[i] = first % w->dim[i];
        first /= w->dim[i];
        if (i < w->rank - 1) c.at += c.index[i] * w->stride[i];
    }
    return c;
}

static void next_row(const qn_walk *w, cursor *c)
{
    c->index[w->rank - 1] = 0;
    for (int i = w->rank - 2; i >= 0; i--) {
        c->at += w->stride[i];
        if (++c->index[i] < w->dim[i]) return;
        c->at -= w->stride[i] * w->dim[i];
        c->index[i] = 0;
    }
}

const void *qn__walk_raw(const qn_walk *w, int64_t first, int64_t n, void *room)
{
    if (qn__walk_dense(w)) return w->data + first * w->bytes;
    const int last = w->rank - 1;
    const int64_t step = w->stride[last];
    uint8_t *y = room;
    for (cursor c = seek(w, first); n > 0; next_row(w, &c)) {
        const int64_t left = w->dim[last] - c.index[last], m = left < n ? left : n;
        const uint8_t *x = w->data + (c.at + c.index[last] * step) * w->bytes;
        if (step == 1 && m == n && y == room) return x; /* within one row */
        if (step == 1)
            memcpy(y, x, (size_t)(m * w->bytes));
        else
            gathers[w->bytes](y, x, step, m);
        y += m * w->bytes;
        n -= m;
    }
    return room;
}

const void *qn__walk_load(const qn_kernels *kernels, const qn_walk *w, int64_t first, int64_t n, void *room)
{
    const dtype_row *row = &rows[w->dtype];
    if (!row->widen) return qn__walk_raw(w, first, n, room);
    row->widen(kernels, qn__walk_raw(w, first, n, (uint8_t *)room + 8 * n), n, room);
    return room;
}

void qn__walk_store(const qn_kernels *kernels, const qn_walk *w, int64_t first, int64_t n, const void *x, void *room)
{
    const dtype_row *row = &rows[w->dtype];
    const int last = w->rank - 1;
    const int64_t step = w->stride[last];
    if (row->narrow) {
        row->narrow(kernels, x, n, room);
        x = room;
    }
    const uint8_t *from = x;
    for (cursor c = seek(w, first); n > 0; next_row(w, &c)) {
        const int64_t left = w->dim[last] - c.index[last], m = left < n ? left : n;
        uint8_t *y = (uint8_t *)(uintptr_t)w->data + (c.at + c.index[last] * step) * w->bytes;
        if (step == 1) {
            if (y != from) memcpy(y, from, (size_t)(m * w->bytes));
        } else {
            scatters[w->bytes](y, from, step, m);
        }
        from += m * w->bytes;
        n -= m;
    }
}
