/* SPDX-License-Identifier: MIT */
/* tests/check/math.c -- the rows of kernel/math.h: functions of floats against the C library's doubles, sums and
 * extremes of arrays. */
#include "check.h"

/* ---- functions of one or two numbers --------------------------------------------------------- */

/* One float in 4099 of all there are, every exponent and sign among them. */
static void dense(check *t, const check_each *each)
{
    enum { N = 1024 };
    float x[N], y[N];
    check_where(t, "one float in 4099");
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        int n = 0;
        for (; n < N && bits >> 32 == 0; bits += 4099) {
            const uint32_t u = (uint32_t)bits;
            memcpy(&x[n++], &u, 4);
        }
        each->call(t->kernels, y, (const float *const[]){x}, n);
        for (int i = 0; i < n; i++) {
            double bound;
            const double exact = check_want(t, each, &x[i], &bound);
            check_close(t, y[i], exact, bound, i);
        }
    }
}

#define CALL1(name) \
    static void call_##name(const qn_kernels *kernels, float *y, const float *const *in, int64_t n) \
    { \
        kernels->name(y, in[0], n); \
    }
#define CALL2(name) \
    static void call_##name(const qn_kernels *kernels, float *y, const float *const *in, int64_t n) \
    { \
        kernels->name(y, in[0], in[1], n); \
    }
#define WANT1(name, value, limit) \
    CALL1(name) \
    static double want_##name(const float *in, double *bound) \
    { \
        const double x = in[0], y = value; \
        (void)x; \
        *bound = limit; \
        return y > FLT_MAX ? INFINITY : y; \
    }
#define WANT2(name, value) \
    CALL2(name) \
    static double want_##name(const float *in, double *bound) \
    { \
        const float a = in[0], b = in[1]; \
        *bound = 0; \
        return (double)(value); \
    }

static void check1(check *t, const check_each *each)
{
    check_elements(t, each);
    if (!t->bench) dense(t, each);
}
/* clang-format off */
#define ONE(name) { check1(t, &(check_each){1, false, false, call_##name, want_##name}); }
#define TWO(name) { check_elements(t, &(check_each){2, false, false, call_##name, want_##name}); }
/* clang-format on */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* clang-format off */
WANT1(exp_f32, exp(x), 1e-7 * y + 1.2e-38)
WANT1(log_f32, log(x), 1.5e-7 * fabs(y))
WANT1(log2_f32, log2(x), 1.5e-7 * fabs(y))
WANT1(log1p_f32, log1p(x), 2.5e-7 * fabs(y) + 1e-45)
WANT1(expm1_f32, expm1(x), 2.5e-7 * fabs(y) + 1e-45)
WANT1(sin_f32, sin(x), 2.5e-7 * fabs(y) + 1e-45)
WANT1(cos_f32, cos(x), 2.5e-7 * fabs(y))
WANT1(tan_f32, tan(x), 2.5e-7 * fabs(y) + 1e-45)
WANT1(atan_f32, atan(x), 2.5e-7 * fabs(y) + 1e-45)
WANT1(floor_f32, floor(x), 0)
WANT1(ceil_f32, ceil(x), 0)
WANT1(round_f32, rint(x), 0)
WANT1(trunc_f32, trunc(x), 0)
WANT1(sigmoid_f32, sigmoid(x), 2e-7 * y + 1.2e-38)
WANT1(tanh_f32, tanh(x), 2e-7 * fabs(y))
WANT1(erf_f32, erf(x), 2e-7 * fabs(y) + 1e-45)
/* clang-format on */
WANT1(gelu_f32, 0.5 * x * (1 + erf(x / sqrt(2))), 3e-7 * fabs(x) + 1e-36)
WANT1(gelu_tanh_f32, x *sigmoid(2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)), 3e-7 * fabs(x) + 1e-36)
WANT1(sqrt_f32, (double)sqrtf(in[0]), 0) /* IEEE leaves no choice */
/* clang-format off */
WANT2(sub_f32, a - b)
WANT2(div_f32, a / b)
WANT2(maximum_f32, isnan(a) || a > b ? a : b)
WANT2(minimum_f32, isnan(a) || a < b ? a : b)
/* clang-format on */

/* dy times a slope; what the slope is made of is near 1 at most. */
static double want_gelu_back_f32(const float *in, double *bound)
{
    const double dy = in[0], x = in[1], xp = x * exp(-0.5 * x * x) / sqrt(2 * acos(-1));
    *bound = 5e-7 * fabs(dy) * (1 + fabs(xp)) + 1e-36 * (1 + fabs(dy)) * (1 + fabs(x));
    return dy * (0.5 * (1 + erf(x / sqrt(2))) + xp);
}

static double want_gelu_tanh_back_f32(const float *in, double *bound)
{
    const double dy = in[0], x = in[1], two_u = 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x), s = sigmoid(two_u),
                 rest = sigmoid(-two_u);
    const double bend = s * rest == 0 ? 0 : x * s * rest * 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
    *bound = 5e-7 * fabs(dy) * (1 + fabs(bend)) + 1e-36 * (1 + fabs(dy));
    return dy * (s + bend);
}

CALL2(gelu_back_f32)
CALL2(gelu_tanh_back_f32)
CHECK_KERNEL(gelu_back_f32)
{
    check_elements(t, &(check_each){2, false, true, call_gelu_back_f32, want_gelu_back_f32});
}
CHECK_KERNEL(gelu_tanh_back_f32)
{
    check_elements(t, &(check_each){2, false, true, call_gelu_tanh_back_f32, want_gelu_tanh_back_f32});
}

/* clang-format off */
CHECK_KERNEL(exp_f32) ONE(exp_f32)
CHECK_KERNEL(log_f32) ONE(log_f32)
CHECK_KERNEL(sigmoid_f32) ONE(sigmoid_f32)
CHECK_KERNEL(tanh_f32) ONE(tanh_f32)
CHECK_KERNEL(erf_f32) ONE(erf_f32)
CHECK_KERNEL(gelu_f32) ONE(gelu_f32)
CHECK_KERNEL(gelu_tanh_f32) ONE(gelu_tanh_f32)
CHECK_KERNEL(sqrt_f32) ONE(sqrt_f32)
CHECK_KERNEL(log2_f32) ONE(log2_f32)
CHECK_KERNEL(log1p_f32) ONE(log1p_f32)
CHECK_KERNEL(expm1_f32) ONE(expm1_f32)
CHECK_KERNEL(sin_f32) ONE(sin_f32)
CHECK_KERNEL(cos_f32) ONE(cos_f32)
CHECK_KERNEL(tan_f32) ONE(tan_f32)
CHECK_KERNEL(atan_f32) ONE(atan_f32)
CHECK_KERNEL(floor_f32) ONE(floor_f32)
CHECK_KERNEL(ceil_f32) ONE(ceil_f32)
CHECK_KERNEL(round_f32) ONE(round_f32)
CHECK_KERNEL(trunc_f32) ONE(trunc_f32)
CHECK_KERNEL(sub_f32) TWO(sub_f32)
CHECK_KERNEL(div_f32) TWO(div_f32)
CHECK_KERNEL(maximum_f32) TWO(maximum_f32)
CHECK_KERNEL(minimum_f32) TWO(minimum_f32)
    /* clang-format on */

    static const float limits[][2] = {{-1, 2}, {0, INFINITY}, {-INFINITY, 0.25f}, {3, -3}};
static int limit; /* the pair that is tried */

static void call_clamp(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->clamp_f32(y, in[0], limits[limit][0], limits[limit][1], n);
}

static double want_clamp(const float *in, double *bound)
{
    const double lo = limits[limit][0], hi = limits[limit][1], x = in[0];
    *bound = 0;
    return isnan(x) ? x : fmin(fmax(x, lo), hi);
}

CHECK_KERNEL(clamp_f32)
{
    for (limit = 0; limit < (int)(sizeof limits / sizeof limits[0]) - 3 * t->bench; limit++)
        check_elements(t, &(check_each){1, false, false, call_clamp, want_clamp});
}

/* ---- one number of an array ------------------------------------------------------------------ */

typedef float (*array_fn)(const qn_kernels *kernels, const float *x, int64_t n);
typedef double (*array_want)(const float *x, int64_t n, double *bound);

static void over_arrays(check *t, array_fn call, array_want want)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        volatile float sink = 0;
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 4 * CHECK_BENCH_N, sink = call(t->kernels, x, CHECK_BENCH_N));
        (void)sink;
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                float *x = check_floats(t, 0, *n, (check_place)place);
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                check_fill(t, x, *n, (check_fill_kind)fill);
                const float got = call(t->kernels, x, *n), ref = call(t->ref, x, *n);
                double bound = 0;
                check_same(t, &got, &ref, 1, "at level ref");
                check_intact(t);
                const double exact = want(x, *n, &bound);
                if (!isfinite(bound)) continue; /* partial sums may leave the floats */
                check_close(t, got, exact, bound, -1);
            }
}

static float call_sum(const qn_kernels *kernels, const float *x, int64_t n) { return kernels->sum_f32(x, n); }
static float call_dev_sq(const qn_kernels *kernels, const float *x, int64_t n)
{
    return kernels->dev_sq_f32(x, 0.25f, n);
}
static float call_highest(const qn_kernels *kernels, const float *x, int64_t n) { return kernels->highest_f32(x, n); }
static float call_lowest(const qn_kernels *kernels, const float *x, int64_t n) { return kernels->lowest_f32(x, n); }

static double want_sum(const float *x, int64_t n, double *bound)
{
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        size += fabs((double)x[i]);
    }
    *bound = size < FLT_MAX ? (double)(n / 64 + 8) * FLT_EPSILON * size : INFINITY;
    return sum;
}

static double want_dev_sq(const float *x, int64_t n, double *bound)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)x[i] - 0.25) * ((double)x[i] - 0.25);
    *bound = sum < FLT_MAX / 2 ? (double)(n / 64 + 10) * FLT_EPSILON * sum + 1e-44 : INFINITY;
    return sum;
}

static double extreme(const float *x, int64_t n, float sign)
{
    float best = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) return NAN;
        if (sign * x[i] > best) best = sign * x[i];
    }
    return sign * best;
}

static double want_highest(const float *x, int64_t n, double *bound)
{
    *bound = 0;
    return extreme(x, n, 1);
}

static double want_lowest(const float *x, int64_t n, double *bound)
{
    *bound = 0;
    return extreme(x, n, -1);
}

CHECK_KERNEL(sum_f32) { over_arrays(t, call_sum, want_sum); }
CHECK_KERNEL(dev_sq_f32) { over_arrays(t, call_dev_sq, want_dev_sq); }
CHECK_KERNEL(highest_f32) { over_arrays(t, call_highest, want_highest); }
CHECK_KERNEL(lowest_f32) { over_arrays(t, call_lowest, want_lowest); }
