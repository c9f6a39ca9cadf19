/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/bits.c -- bitwise operations of integers and BOOL, and shifts: by less than 0 or more than the
 * width, every bit leaves. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#define DRIVER(name) \
    static const qn_pw pw_##name = {.fn = {NULL, NULL, name}}; \
    QN_PW_DRIVER(name, pw_##name)
/* clang-format off */
#define BITS(name, expr) \
    QN_PW_LOOP2(name, int64_t, int64_t, expr) \
    DRIVER(name)
BITS(bitwise_and, a & b)
BITS(bitwise_or, a | b)
BITS(bitwise_xor, a ^ b)
/* clang-format on */
BITS(shift_left, b<0 || b> 63 ? 0 : (int64_t)((uint64_t)a << b))
BITS(shift_right, a >> (b < 0 || b > 63 ? 63 : b))

/* Of BOOL it is "not": only bit 0 is there. */
QN_PW_LOOP1(bitwise_not, int64_t, int64_t, t->dst.dtype == QN_DTYPE_BOOL ? a ^ 1 : ~a)
DRIVER(bitwise_not)
