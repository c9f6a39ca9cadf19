/* SPDX-License-Identifier: MIT */
/* src/cpu/op/row.c -- rows of values, see row.h. */
#include "cpu/op/row.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "quant/quant.h"

int64_t qn__row_count(const qn_layout *l)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < l->rank; i++) n *= l->dim[i];
    return n;
}

int64_t qn__row_start(const qn_layout *l, int64_t row)
{
    int64_t at = l->offset;
    for (int i = l->rank - 2; i >= 0 && row > 0; i--) {
        at += row % l->dim[i] * l->stride[i];
        row /= l->dim[i];
    }
    return at;
}

bool qn__rows_uniform(const qn_layout *l, int64_t *stride)
{
    int64_t step = 0, reach = 0; /* reach: the stride that the next outer dimension must have */
    for (int i = l->rank - 2; i >= 0; i--) {
        if (l->dim[i] == 1) continue;
        if (reach == 0)
            step = l->stride[i];
        else if (l->stride[i] != reach)
            return false;
        reach = l->stride[i] * l->dim[i];
        if (reach == 0) return false; /* a broadcast dimension: stride 0, which means "one row" here */
    }
    *stride = step;
    return true;
}

static void load_ints(const uint8_t *row, int64_t step, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t x;
        memcpy(&x, row + i * step * 4, 4);
        dst[i] = (float)x;
    }
}

static void gather_f32(const uint8_t *row, int64_t step, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) memcpy(dst + i, row + i * step * 4, 4);
}

void qn__row_load(const qn_kernels *kernels, qn_dtype dtype, const uint8_t *row, int64_t step, int64_t first, int64_t n,
                  float *dst)
{
    row += qn__elems_bytes(dtype, first * step);
    if (dtype == QN_DTYPE_I32) {
        load_ints(row, step, n, dst);
    } else if (step == 1) {
        kernels->unpack[dtype](row, dst, n);
    } else if (dtype == QN_DTYPE_F32) {
        gather_f32(row, step, n, dst);
    } else {
        const int64_t bytes = qn__elems_bytes(dtype, step);
        for (int64_t i = 0; i < n; i++) kernels->unpack[dtype](row + i * bytes, dst + i, 1);
    }
}

bool qn__row_loads(const qn_kernels *kernels, qn_dtype dtype)
{
    return dtype == QN_DTYPE_I32 || kernels->unpack[dtype];
}

/* ---- storing ---- */

typedef void (*store_fn)(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n);

static void store_f32(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    (void)kernels;
    if (n > 0) memcpy(row, x, (size_t)n * 4);
}

static void store_f16(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    kernels->f32_to_f16((uint16_t *)(void *)row, x, n);
}

static void store_bf16(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    kernels->f32_to_bf16((uint16_t *)(void *)row, x, n);
}

static void store_ints(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    (void)kernels;
    for (int64_t i = 0; i < n; i++) {
        const int32_t y = x[i] >= 2147483648.0f    ? INT32_MAX
                          : x[i] > -2147483648.0f  ? (int32_t)x[i]
                          : x[i] <= -2147483648.0f ? INT32_MIN
                                                   : 0; /* NaN */
        memcpy(row + i * 4, &y, 4);
    }
}

static void store_doubles(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    (void)kernels;
    for (int64_t i = 0; i < n; i++) {
        const double y = x[i];
        memcpy(row + i * 8, &y, 8);
    }
}

static void store_q8_0(const qn_kernels *kernels, uint8_t *row, float *x, int64_t n)
{
    kernels->f32_to_q8_0(row, x, n);
}

/* Types with a function of their own; other blocks are packed by their format. */
static const store_fn stores[QN_DTYPE_COUNT] = {
    [QN_DTYPE_F32] = store_f32,     [QN_DTYPE_F16] = store_f16,  [QN_DTYPE_BF16] = store_bf16,
    [QN_DTYPE_F64] = store_doubles, [QN_DTYPE_I32] = store_ints, [QN_DTYPE_Q8_0] = store_q8_0,
};

bool qn__row_stores(qn_dtype dtype) { return stores[dtype] || qn__quant_get(dtype)->packs_fast; }

void qn__row_store(const qn_kernels *kernels, qn_dtype dtype, uint8_t *row, float *x, int64_t n)
{
    if (qn_dtype_get(dtype)->class_ == QN_CLASS_block) /* a scale is shared: one infinity would take the others along */
        for (int64_t i = 0; i < n; i++) x[i] = isfinite(x[i]) ? x[i] : 0;
    if (stores[dtype])
        stores[dtype](kernels, row, x, n);
    else
        qn__quant_get(dtype)->pack(x, row, n, NULL);
}

void qn__row_move(qn_dtype dtype, uint8_t *dst, const uint8_t *row, int64_t step, int64_t n)
{
    const int64_t bytes = qn_dtype_get(dtype)->block_bytes;
    if (n == 0) return;
    if (step == 1)
        memcpy(dst, row, (size_t)qn__elems_bytes(dtype, n));
    else
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * bytes, row + i * step * bytes, (size_t)bytes);
}

bool qn__want_dtype(const qn_node *user, const char *what, const qn_node *n, qn_dtype dtype, qn_error *err)
{
    if (n->dtype == dtype) return true;
    QN_FAIL(err, unsupported, "%s: %s is %s, %s expected", qn_node_op_name(user), what, qn_dtype_get(n->dtype)->name,
            qn_dtype_get(dtype)->name);
    return false;
}

bool qn__want_dense_rows(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (qn__row_step(&n->layout) == 1 || qn_layout_numel(&n->layout) == 0) return true; /* no elements: any stride */
    QN_FAIL(err, unsupported, "%s: the last dimension of %s has stride %lld, 1 expected", qn_node_op_name(user), what,
            (long long)qn__row_step(&n->layout));
    return false;
}

static bool on_block_borders(const qn_node *n)
{
    const int64_t block = qn_dtype_get(n->dtype)->block_elems;
    if (n->layout.offset % block || qn__row_size(&n->layout) % block) return false;
    for (int i = 0; i + 1 < n->layout.rank; i++)
        if (n->layout.dim[i] > 1 && n->layout.stride[i] % block) return false;
    return true;
}

static bool want_blocks(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (qn_dtype_get(n->dtype)->block_elems == 1) return true;
    if (!qn__want_dense_rows(user, what, n, err)) return false;
    if (on_block_borders(n)) return true;
    QN_FAIL(err, unsupported, "%s: rows of %s (%s) don't start and end on block borders", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}

bool qn__want_loadable(const qn_kernels *kernels, const qn_node *user, const char *what, const qn_node *n,
                       qn_error *err)
{
    if (qn__row_loads(kernels, n->dtype)) return want_blocks(user, what, n, err);
    QN_FAIL(err, unsupported, "%s: %s is %s, a real or block dtype or I32 expected", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}

bool qn__want_storable(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (qn__row_stores(n->dtype)) return qn__want_dense_rows(user, what, n, err) && want_blocks(user, what, n, err);
    QN_FAIL(err, unsupported, "%s: %s is %s, which nothing packs at run time", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}
