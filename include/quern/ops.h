/* SPDX-License-Identifier: MIT */
/* quern/ops.h -- what can be computed with tensors.
 *
 * Rules that hold everywhere: see quern/array.h for ownership and errors. Sources broadcast as NumPy's do and are
 * brought to a common dtype by PyTorch's rules; any strides will do. For most operations there are three functions: y =
 * qn_add(a, b)              a new tensor qn_add_(a, b)                 in place: a = a + b, in a's dtype and memory;
 * returns a qn_add_out(out, a, b)         out = a + b, in out's memory; returns out, whose shape must be that of the
 * result and for those of two sources also qn_add_number(a, 2.5) and qn_add_number_(a, 2.5). A number that is whole
 * counts as an integer, any other as real, when types are found. What multiplies or divides F16 or BF16 is not rounded
 * to 16 bits itself, neither a number nor a 0-d tensor as second source. Numbers may change from run to run without a
 * new graph being compiled. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/functional.h>
#include <quern/functions.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_BINARY(name, types, "what it computes"). Types: arith = the common type; divide = likewise, but integers become
 * F32; quotient = the common type, an integer divided by 0 is an error, found like an index out of range; power = the
 * common type, integers to a negative number are an error; compare = in the common type, the result is BOOL; bits =
 * integers or BOOL. */
/* clang-format off */
#define QN_BINARY_ROWS(QN_BINARY) \
    QN_BINARY(add,          arith,    "a + b") \
    QN_BINARY(sub,          arith,    "a - b") \
    QN_BINARY(mul,          arith,    "a * b") \
    QN_BINARY(div,          divide,   "a / b") \
    QN_BINARY(floor_divide, quotient, "floor(a / b)") \
    QN_BINARY(trunc_divide, quotient, "trunc(a / b)") \
    QN_BINARY(remainder,    quotient, "a - b floor(a / b), Python's %") \
    QN_BINARY(fmod,         quotient, "a - b trunc(a / b), C's fmod") \
    QN_BINARY(pow,          power,    "a to the power of b") \
    QN_BINARY(maximum,      arith,    "the greater, or NaN") \
    QN_BINARY(minimum,      arith,    "the lesser, or NaN") \
    QN_BINARY(atan2,        divide,   "the angle of (b, a)") \
    QN_BINARY(eq,           compare,  "a == b") \
    QN_BINARY(ne,           compare,  "a != b") \
    QN_BINARY(lt,           compare,  "a < b") \
    QN_BINARY(le,           compare,  "a <= b") \
    QN_BINARY(gt,           compare,  "a > b") \
    QN_BINARY(ge,           compare,  "a >= b") \
    QN_BINARY(logical_and,  compare,  "a and b") \
    QN_BINARY(logical_or,   compare,  "a or b") \
    QN_BINARY(logical_xor,  compare,  "a or b, not both") \
    QN_BINARY(bitwise_and,  bits,     "a & b") \
    QN_BINARY(bitwise_or,   bits,     "a | b") \
    QN_BINARY(bitwise_xor,  bits,     "a ^ b") \
    QN_BINARY(shift_left,   bits,     "a << b") \
    QN_BINARY(shift_right,  bits,     "a >> b")
/* clang-format on */

/* QN_UNARY(name, types, "what it computes"). Types: same = x's own; count = the same, and I64 of BOOL; real = integers
 * become F32; truth = the result is BOOL. */
/* clang-format off */
#define QN_UNARY_ROWS(QN_UNARY) \
    QN_UNARY(neg,         same,  "-x") \
    QN_UNARY(abs,         same,  "|x|") \
    QN_UNARY(sign,        same,  "-1, 0 or 1") \
    QN_UNARY(square,      count, "x * x") \
    QN_UNARY(floor,       same,  "rounded down") \
    QN_UNARY(ceil,        same,  "rounded up") \
    QN_UNARY(round,       same,  "rounded to nearest, half to even") \
    QN_UNARY(trunc,       same,  "rounded towards 0") \
    QN_UNARY(frac,        real,  "x - trunc(x)") \
    QN_UNARY(exp,         real,  "e^x") \
    QN_UNARY(expm1,       real,  "e^x - 1") \
    QN_UNARY(log,         real,  "natural logarithm") \
    QN_UNARY(log1p,       real,  "log(1 + x)") \
    QN_UNARY(log2,        real,  "logarithm to base 2") \
    QN_UNARY(log10,       real,  "logarithm to base 10") \
    QN_UNARY(sqrt,        real,  "square root") \
    QN_UNARY(rsqrt,       real,  "1 / sqrt(x)") \
    QN_UNARY(reciprocal,  real,  "1 / x") \
    QN_UNARY(sin,         real,  "sine") \
    QN_UNARY(cos,         real,  "cosine") \
    QN_UNARY(tan,         real,  "tangent") \
    QN_UNARY(asin,        real,  "arc sine") \
    QN_UNARY(acos,        real,  "arc cosine") \
    QN_UNARY(atan,        real,  "arc tangent") \
    QN_UNARY(sinh,        real,  "hyperbolic sine") \
    QN_UNARY(cosh,        real,  "hyperbolic cosine") \
    QN_UNARY(tanh,        real,  "hyperbolic tangent") \
    QN_UNARY(asinh,       real,  "its inverse") \
    QN_UNARY(acosh,       real,  "its inverse") \
    QN_UNARY(atanh,       real,  "its inverse") \
    QN_UNARY(erf,         real,  "2 / sqrt(pi) * integral of e^(-t t) from 0 to x") \
    QN_UNARY(sigmoid,     real,  "1 / (1 + e^-x)") \
    QN_UNARY(relu,        same,  "max(x, 0)") \
    QN_UNARY(silu,        real,  "x / (1 + e^-x)") \
    QN_UNARY(logical_not, truth, "x == 0") \
    QN_UNARY(isnan,       truth, "is x NaN") \
    QN_UNARY(isinf,       truth, "is x infinite") \
    QN_UNARY(isfinite,    truth, "is x neither") \
    QN_UNARY(bitwise_not, same,  "~x; of BOOL: not x")
/* clang-format on */

#define QN_BINARY_DECLARE(name, types, text) \
    QN_API qn_tensor *qn_##name(qn_tensor *a, qn_tensor *b); \
    QN_API qn_tensor *qn_##name##_(qn_tensor *a, qn_tensor *b); \
    QN_API qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *a, qn_tensor *b); \
    QN_API qn_tensor *qn_##name##_number(qn_tensor *a, double b); \
    QN_API qn_tensor *qn_##name##_number_(qn_tensor *a, double b);
QN_BINARY_ROWS(QN_BINARY_DECLARE)
#undef QN_BINARY_DECLARE

#define QN_UNARY_DECLARE(name, types, text) \
    QN_API qn_tensor *qn_##name(qn_tensor *x); \
    QN_API qn_tensor *qn_##name##_(qn_tensor *x); \
    QN_API qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *x);
QN_UNARY_ROWS(QN_UNARY_DECLARE)
#undef QN_UNARY_DECLARE

#ifdef __cplusplus
}
#endif
#endif
