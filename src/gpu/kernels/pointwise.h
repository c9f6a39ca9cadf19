/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/pointwise.h -- the operations element by element, one row each, read by both sides: the host takes
 * the names, kernels the formulas. a, b, c: the sources; p, q (floats) and w, v (integers): numbers of the operation.
 * Formulas are to the bit those of cpu/op/pointwise. */
#ifndef QN_GPU_POINTWISE_H
#define QN_GPU_POINTWISE_H

/* clang-format off */
/* ROW(name, of floats) */
#define QN_GPU_REAL_ROWS(ROW) \
    ROW(div, a / b) ROW(scale, fma(p, a, q)) ROW(silu, silu_of(a)) ROW(swiglu, silu_of(a) * b) \
    ROW(frac, a - trunc(a)) ROW(exp, exp_of(a)) ROW(expm1, expm1_of(a)) ROW(log, log_of(a)) \
    ROW(log1p, log1p_of(a)) ROW(log2, log_with(a, true)) ROW(sqrt, sqrt(a)) ROW(rsqrt, 1.0f / sqrt(a)) \
    ROW(reciprocal, 1.0f / a) ROW(atan, atan_of(a)) ROW(tanh, tanh_of(a)) ROW(erf, erf_of(a)) \
    ROW(sigmoid, sigmoid_of(a)) ROW(gelu, gelu_of(a, p != 0)) ROW(gelu_back, a * gelu_slope(b, p != 0)) \
    ROW(elu, a > 0 ? a : p * expm1_of(a)) ROW(leaky_relu, a > 0 ? a : p * a) ROW(softplus, softplus_of(a, p, q)) \
    ROW(lerp, blended(a, b, c)) ROW(addcdiv, a + p * b / c)

/* ROW(name, of floats, of integers) */
#define QN_GPU_NUMBER_ROWS(ROW) \
    ROW(add, a + b, (int64_t)((uint64_t)a + (uint64_t)b)) ROW(sub, a - b, (int64_t)((uint64_t)a - (uint64_t)b)) \
    ROW(mul, a * b, (int64_t)((uint64_t)a * (uint64_t)b)) \
    ROW(maximum, a > b || isnan(a) ? a : b, a > b ? a : b) ROW(minimum, a < b || isnan(a) ? a : b, a < b ? a : b) \
    ROW(neg, -a, (int64_t)(0 - (uint64_t)a)) ROW(abs, fabs(a), a < 0 ? (int64_t)(0 - (uint64_t)a) : a) \
    ROW(sign, (float)((a > 0) - (a < 0)), (int64_t)((a > 0) - (a < 0))) \
    ROW(square, a * a, (int64_t)((uint64_t)a * (uint64_t)a)) ROW(floor, floor(a), a) ROW(ceil, ceil(a), a) \
    ROW(round, rint(a), a) ROW(trunc, trunc(a), a) ROW(relu, clamped(a, 0, INFINITE), a > 0 ? a : 0) \
    ROW(clamp, clamped(a, p, q), (a < w ? w : a) > v ? v : a < w ? w : a) \
    ROW(addcmul, a + p * b * c, (int64_t)((uint64_t)a + (uint64_t)w * (uint64_t)b * (uint64_t)c)) \
    ROW(floor_divide, floor_quotient(a, b), int_quotient(a, b) - int_crosses(a, b)) \
    ROW(trunc_divide, trunc(a / b), int_quotient(a, b)) \
    ROW(remainder, floor_rest(a, b), int_rest(a, b) + (int_crosses(a, b) ? b : 0)) \
    ROW(fmod, rest_of(a, b), int_rest(a, b)) \
    ROW(eq, a == b, a == b) ROW(ne, a != b, a != b) ROW(lt, a < b, a < b) ROW(le, a <= b, a <= b) \
    ROW(gt, a > b, a > b) ROW(ge, a >= b, a >= b) ROW(logical_and, a != 0 && b != 0, a != 0 && b != 0) \
    ROW(logical_or, a != 0 || b != 0, a != 0 || b != 0) ROW(logical_xor, (a != 0) != (b != 0), (a != 0) != (b != 0)) \
    ROW(logical_not, a == 0, a == 0) ROW(isnan, isnan(a), false) ROW(isinf, fabs(a) == INFINITE, false) \
    ROW(isfinite, isfinite(a), true)

/* ROW(name, of integers) */
#define QN_GPU_WHOLE_ROWS(ROW) \
    ROW(bitwise_and, a & b) ROW(bitwise_or, a | b) ROW(bitwise_xor, a ^ b) ROW(bitwise_not, a ^ w) \
    ROW(shift_left, b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b)) \
    ROW(shift_right, a >> (b < 0 || b > 63 ? 63 : b)) ROW(pow, int_power(a, b))
/* clang-format on */

#define QN_GPU_ROW_NAME(name, ...) QN_GPU_PW_##name,
typedef enum qn_gpu_pointwise {
    QN_GPU_REAL_ROWS(QN_GPU_ROW_NAME) QN_GPU_NUMBER_ROWS(QN_GPU_ROW_NAME) QN_GPU_WHOLE_ROWS(QN_GPU_ROW_NAME)
        QN_GPU_PW_COUNT
} qn_gpu_pointwise;
#undef QN_GPU_ROW_NAME

#endif
