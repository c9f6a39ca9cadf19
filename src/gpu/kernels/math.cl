/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/math.cl -- functions of floats, operation for operation as backend/numbers/math.h defines them. */

DEVICE float with_sign_of(float x, float sign) { return FLOAT((BITS(x) & 0x7fffffff) | (BITS(sign) & 0x80000000)); }

DEVICE float log_with(float x, bool base_2)
{
    if (isnan(x) || x < 0) return NO_NUMBER;
    if (x == 0) return -INFINITE;
    if (x == INFINITE) return x;
    const bool tiny = x < QN_LOG_TINY;
    const int32_t bits = (int32_t)BITS(tiny ? x * 0x1p23f : x);
    const int32_t n = (bits - QN_LOG_BITS) >> 23;
    const float e = tiny ? (float)n - 23 : (float)n, f = FLOAT((uint32_t)bits - ((uint32_t)n << 23)) - 1, z = f * f;
    float p = QN_LOG_C8;
    p = fma(p, f, QN_LOG_C7);
    p = fma(p, f, QN_LOG_C6);
    p = fma(p, f, QN_LOG_C5);
    p = fma(p, f, QN_LOG_C4);
    p = fma(p, f, QN_LOG_C3);
    p = fma(p, f, QN_LOG_C2);
    p = fma(p, f, QN_LOG_C1);
    p = fma(p, f, QN_LOG_C0);
    p = f * z * p;
    if (!base_2) p = fma(e, QN_LOG_LN2_LO, p);
    p = f + fma(-0.5f, z, p);
    return base_2 ? fma(p, QN_LOG2E, e) : fma(e, QN_LOG_LN2_HI, p);
}

DEVICE float log_of(float x) { return log_with(x, false); }

DEVICE float log1p_of(float x)
{
    if (fabs(x) < QN_LOG_TINY) return x;
    const float u = 1 + x, log_u = log_of(u);
    return u < QN_LOG_LEAST || u == INFINITE ? log_u : log_u + (x - (u - 1)) / u;
}

DEVICE float expm1_of(float x)
{
    if (isnan(x) || fabs(x) < QN_LOG_TINY) return x;
    if (fabs(x) >= QN_EXPM1_NEAR) return exp_of(x) - 1;
    float p = fma(QN_EXPM1_C5, x, QN_EXPM1_C4);
    p = fma(p, x, QN_EXPM1_C3);
    p = fma(p, x, QN_EXPM1_C2);
    p = fma(p, x, QN_EXPM1_C1);
    p = fma(p, x, QN_EXPM1_C0);
    p = fma(p, x, 0.5f);
    return fma(x * x, p, x);
}

DEVICE float atan_of(float x)
{
    if (isnan(x)) return x;
    const float a = fabs(x);
    const bool high = a > QN_TAN_3PI_8, low = a > QN_TAN_PI_8;
    const float v = high ? -1 / a : low ? (a - 1) / (a + 1) : a;
    const float base = high ? 2 * QN_PI_4 : low ? QN_PI_4 : 0, z = v * v;
    const float p = fma(fma(fma(QN_ATAN_C3, z, QN_ATAN_C2), z, QN_ATAN_C1), z, QN_ATAN_C0);
    return with_sign_of(base + fma(v * z, p, v), x);
}

DEVICE float sigmoid_of(float x) { return 1 / (1 + exp_of(0 - x)); }
DEVICE float silu_of(float x) { return x / (1.0f + exp_of(-x)); }

DEVICE float tanh_of(float x)
{
    const float a = fabs(x), z = x * x;
    if (isnan(x)) return x;
    if (a >= QN_TANH_NEAR) return with_sign_of(1 - 2 / (exp_of(a + a) + 1), x);
    float p = fma(QN_TANH_C4, z, QN_TANH_C3);
    p = fma(p, z, QN_TANH_C2);
    p = fma(p, z, QN_TANH_C1);
    p = fma(p, z, QN_TANH_C0);
    return fma(p * z, x, x);
}

DEVICE float erf_of(float x)
{
    const float t = fabs(x), s = x * x;
    if (isnan(x)) return x;
    if (t > QN_ERF_NEAR) {
        float r = fma(QN_ERF_F6, t, QN_ERF_F5);
        r = fma(r, s, fma(QN_ERF_F4, t, QN_ERF_F3));
        r = fma(r, t, QN_ERF_F2);
        r = fma(r, t, QN_ERF_F1);
        r = fma(r, t, QN_ERF_F0);
        return with_sign_of(1 - exp_of(t > QN_ERF_ONE ? -100 : fma(r, t, -t)), x);
    }
    float p = fma(QN_ERF_N5, s, QN_ERF_N4);
    p = fma(p, s, QN_ERF_N3);
    p = fma(p, s, QN_ERF_N2);
    p = fma(p, s, QN_ERF_N1);
    p = fma(p, s, QN_ERF_N0);
    return fma(p, x, x);
}

DEVICE float gelu_of(float x, bool by_tanh)
{
    return by_tanh ? x / (1 + exp_of(x * fma(x * x, QN_GELU_C1, QN_GELU_C0)))
                   : 0.5f * x * (1 + erf_of(x * QN_SQRT1_2));
}

DEVICE float gelu_slope(float x, bool by_tanh)
{
    if (!by_tanh) return fma(x, exp_of(x * x * -0.5f) * QN_1_SQRT2PI, 0.5f * (1 + erf_of(x * QN_SQRT1_2)));
    const float z = x * x, e = exp_of(x * fma(z, QN_GELU_C1, QN_GELU_C0)), s = 1 / (1 + e);
    const float du = fma(z, -3 * QN_GELU_C1, -QN_GELU_C0);
    return fma(x * s, (LARGEST < e ? LARGEST : e) * s * du, s);
}

/* log(1 + exp(beta x)) / beta, or x above the threshold */
DEVICE float softplus_of(float x, float beta, float threshold)
{
    const float bent = log1p_of(exp_of(fma(beta, x, 0))) / beta;
    return x * beta > threshold ? x : bent;
}

DEVICE float clamped(float x, float lo, float hi)
{
    const float up = x < lo ? lo : x;
    return hi < up ? hi : up;
}

DEVICE float blended(float a, float b, float c)
{
    return fabs(c) < 0.5f ? a + c * (b - a) : b - (b - a) * (1.0f - c);
}

/* What C's fmod gives, which is exact: the rest of |a| / |b| bit by bit, with a's sign. */
DEVICE float rest_of(float a, float b)
{
    uint32_t x = BITS(a) & 0x7fffffff, y = BITS(b) & 0x7fffffff;
    if (isnan(a) || isnan(b) || x == 0x7f800000 || y == 0) return NO_NUMBER;
    if (x < y || y == 0x7f800000) return a;
    int32_t ex = (int32_t)(x >> 23), ey = (int32_t)(y >> 23);
    uint32_t m = ex ? (x & 0x7fffff) | 0x800000 : x, n = ey ? (y & 0x7fffff) | 0x800000 : y;
    ex = ex ? ex : 1; /* subnormal numbers have the exponent of the least normal ones */
    ey = ey ? ey : 1;
    m %= n;
    for (; ex > ey && m; ex--) m = 2 * m % n; /* below 2^25 */
    if (m == 0) return with_sign_of(0, a);
    /* m 2^(ey - 150): normalized as far as the exponent allows */
    while (m < 0x800000 && ey > 1) {
        m *= 2;
        ey--;
    }
    return with_sign_of(FLOAT(m < 0x800000 ? m : (m & 0x7fffff) | (uint32_t)ey << 23), a);
}

DEVICE float floor_rest(float a, float b)
{
    const float mod = rest_of(a, b);
    return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

DEVICE float floor_quotient(float a, float b)
{
    if (b == 0) return a / b;
    const float mod = rest_of(a, b);
    float q = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) q -= 1;
    if (q == 0) return with_sign_of(0, a / b);
    const float down = floor(q); /* q is whole but for rounding */
    return q - down > 0.5f ? down + 1 : down;
}

/* ---- integers ---- */

DEVICE int64_t int_quotient(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
DEVICE int64_t int_rest(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
DEVICE bool int_crosses(int64_t a, int64_t b) { return int_rest(a, b) != 0 && (a < 0) != (b < 0); }
DEVICE int64_t int_power(int64_t base, int64_t e)
{
    if (e < 0) return base == 1 ? 1 : base == -1 ? (e % 2 ? -1 : 1) : 0;
    uint64_t y = 1, x = (uint64_t)base;
    for (; e > 0; e /= 2, x *= x)
        if (e % 2) y *= x;
    return (int64_t)y;
}
