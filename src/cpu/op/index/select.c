/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/select.c -- where and masked_fill: elements are chosen as they are, whatever their dtype; full and
 * arange: values made of attributes. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <string.h>

/* ---- by the size of an element --------------------------------------------------------------- */

#define CHOICES(T, bits) \
    static void where_##bits(void *y_, const uint8_t *cond, const void *a_, const void *b_, int64_t n) \
    { \
        T *y = y_; \
        const T *a = a_, *b = b_; \
        for (int64_t i = 0; i < n; i++) { \
            const T from_a = (T) - (T)(cond[i] != 0); /* no branches: conditions are often random */ \
            y[i] = (T)((a[i] & from_a) | (b[i] & ~from_a)); \
        } \
    } \
    static void put_##bits(void *y_, const uint8_t *mask, const void *x_, const void *value_, int64_t n) \
    { \
        T *y = y_, value; \
        const T *x = x_; \
        memcpy(&value, value_, sizeof value); \
        for (int64_t i = 0; i < n && !mask; i++) y[i] = value; \
        for (int64_t i = 0; i < n && mask; i++) { \
            const T kept = (T)((T)(mask[i] != 0) - 1); \
            y[i] = (T)((x[i] & kept) | (value & ~kept)); \
        } \
    }
/* clang-format off */
CHOICES(uint8_t, 8)
CHOICES(uint16_t, 16)
CHOICES(uint32_t, 32)
CHOICES(uint64_t, 64)
/* clang-format on */

typedef void (*choose_fn)(void *y, const uint8_t *which, const void *a, const void *b, int64_t n);
static const choose_fn wheres[9] = {[1] = where_8, [2] = where_16, [4] = where_32, [8] = where_64};
static const choose_fn puts_[9] = {[1] = put_8, [2] = put_16, [4] = put_32, [8] = put_64};

/* The bytes of one element; always a copy in `room`, 8 bytes. */
static void element(const qn_kernels *kernels, qn_dtype dtype, double value, int64_t whole, void *room)
{
    const float f = (float)value;
    const void *const numbers[QN_NUM_COUNT] = {&f, &value, &whole};
    const void *x = numbers[qn__number_of(dtype)];
    const int64_t truth = value != 0 || whole != 0;
    if (dtype == QN_DTYPE_BOOL) x = &truth;
    if (qn__number_is(dtype))
        memcpy(room, x, (size_t)qn_dtype_get(dtype)->block_bytes);
    else
        qn__narrow_to(kernels, dtype, x, 1, room);
}

static void where_raw(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    wheres[qn_dtype_get(t->dst.dtype)->block_bytes](y, x[0], x[1], x[2], n);
}
static const qn_pw pw_where = {.raw = where_raw};
QN_PW_DRIVER(where, pw_where)

static void masked_fill_raw(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    const qn_value_attrs *a = t->attrs;
    uint64_t value = 0;
    element(t->kernels, t->dst.dtype, a->value, a->whole, &value);
    puts_[qn_dtype_get(t->dst.dtype)->block_bytes](y, x[1], x[0], &value, n);
}
static const qn_pw pw_masked_fill = {.raw = masked_fill_raw};
QN_PW_DRIVER(masked_fill, pw_masked_fill)

/* ---- without sources ------------------------------------------------------------------------- */

static void full_raw(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    const qn_full_attrs *a = t->attrs;
    uint64_t value = 0;
    (void)x;
    element(t->kernels, t->dst.dtype, a->value, a->whole, &value);
    puts_[qn_dtype_get(t->dst.dtype)->block_bytes](y, NULL, NULL, &value, n);
}
static const qn_pw pw_full = {.raw = full_raw};
QN_PW_DRIVER(full, pw_full)

static void run_arange(const qn_task *t)
{
    const qn_arange_attrs *a = t->attrs;
    const qn_dtype dtype = t->dst.dtype;
    const int64_t total = qn_layout_numel(&t->dst.layout), bytes = qn_dtype_get(dtype)->block_bytes;
    const qn_number kind = qn__number_of(dtype);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_PW_RUN, n = total - at < QN_PW_RUN ? total - at : QN_PW_RUN;
        uint8_t *y = t->dst.data + at * bytes;
        void *x = qn__number_is(dtype) ? (void *)y : (void *)t->tile;
        for (int64_t i = 0; i < n; i++) {
            const double real = a->start + (double)(at + i) * a->step;
            if (kind == QN_NUM_f32)
                ((float *)x)[i] = (float)real;
            else if (kind == QN_NUM_f64)
                ((double *)x)[i] = real;
            else
                ((int64_t *)x)[i] = (int64_t)((uint64_t)a->whole_start + (uint64_t)(at + i) * (uint64_t)a->whole_step);
        }
        if (x != y) qn__narrow_to(t->kernels, dtype, x, n, y);
    }
}
const qn_cpu_op qn__cpu_op_arange = {QN_OP_arange, qn__pw_accepts, NULL, 1, qn__pw_items, run_arange};
