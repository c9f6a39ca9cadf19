/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/compare.c -- comparisons, logic and questions about numbers: BOOL results from sources of any
 * dtype. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>

#define DRIVER(name) \
    static const qn_pw pw_##name = {.fn = {name##_f32, name##_f64, name##_i64}, .truth = true}; \
    QN_PW_DRIVER(name, pw_##name)
/* clang-format off */
#define TRUTH2(name, expr) \
    QN_PW_LOOP2(name##_f32, uint8_t, float, expr) \
    QN_PW_LOOP2(name##_f64, uint8_t, double, expr) \
    QN_PW_LOOP2(name##_i64, uint8_t, int64_t, expr) \
    DRIVER(name)
#define TRUTH1(name, real, whole) \
    QN_PW_LOOP1(name##_f32, uint8_t, float, real) \
    QN_PW_LOOP1(name##_f64, uint8_t, double, real) \
    QN_PW_LOOP1(name##_i64, uint8_t, int64_t, whole) \
    DRIVER(name)
TRUTH2(eq, a == b)
TRUTH2(ne, a != b)
TRUTH2(lt, a < b)
TRUTH2(le, a <= b)
TRUTH2(gt, a > b)
TRUTH2(ge, a >= b)
TRUTH2(logical_and, a != 0 && b != 0)
TRUTH2(logical_or, a != 0 || b != 0)
TRUTH2(logical_xor, (a != 0) != (b != 0))
TRUTH1(logical_not, a == 0, a == 0)
/* clang-format on */
/* A question is put in parentheses where math.h has a macro of its name. */
#define IS_NAN(a)    ((a) != (a))
#define IS_FINITE(a) ((a) - (a) == 0)
/* clang-format off */
TRUTH1(isnan, IS_NAN(a), a != a)
TRUTH1(isinf, !IS_NAN(a) && !IS_FINITE(a), a != a)
TRUTH1(isfinite, IS_FINITE(a), a == a)
/* clang-format on */
