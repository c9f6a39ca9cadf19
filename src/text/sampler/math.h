/* SPDX-License-Identifier: MIT */
/* src/text/sampler/math.h -- exp, log, pow and random bits that give the same bits on every machine.
 *
 * A C library's exp may differ in its last bit from one CPU to the next (glibc picks an FMA variant at run time), and a
 * last bit can move a draw over a border. These use only IEEE operations in a fixed order; the build forbids
 * contraction. Relative error: exp 2e-10, log 1e-15. */
#ifndef QN_TEXT_SAMPLER_MATH_H
#define QN_TEXT_SAMPLER_MATH_H

#include <quern/base.h>
#include <string.h>

#define QN_LN2_HI     0x1.62e42feep-1 /* 33 bits, so n * QN_LN2_HI is exact for |n| < 2^20 */
#define QN_LN2_LO     0x1.a39ef35793c76p-33
#define QN_EXP_LOWEST (-700.0) /* there and below a weight is 0: e^-700 is out of sight of floats and draws */

static inline uint64_t qn__bits_f64(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline double qn__f64_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}
static inline uint32_t qn__bits_f32(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline float qn__f32_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* Two at a time: 16-byte vectors are what every x86-64 and AArch64 has. */
typedef double qn_v2d __attribute__((vector_size(16)));
typedef int64_t qn_v2i __attribute__((vector_size(16)));

/* For |x| <= 700. x = n ln 2 + r with |r| <= ln 2 / 2, a Taylor polynomial for e^r, and n added to the exponent. */
static inline qn_v2d qn__exp2(qn_v2d x)
{
    const double shift = 0x1.8p52; /* adding it leaves round(x / ln 2) in the low bits of the sum */
    const qn_v2d t = x * 0x1.71547652b82fep0 + shift;
    const qn_v2d n = t - shift;
    const qn_v2d r = (x - n * QN_LN2_HI) - n * QN_LN2_LO;
    qn_v2d y = r * (1.0 / 40320) + 1.0 / 5040;

    y = y * r + 1.0 / 720;
    y = y * r + 1.0 / 120;
    y = y * r + 1.0 / 24;
    y = y * r + 1.0 / 6;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    return (qn_v2d)((qn_v2i)y + ((qn_v2i)t << 52));
}

static inline double qn__exp(double x)
{
    const qn_v2d v = {x, x};
    return qn__exp2(v)[0];
}

/* The weights of two candidates whose logits are `x` below the largest, 0 where they are out of sight (-INFINITY
 * included); there `x` becomes 0, too. */
static inline qn_v2d qn__weight2(qn_v2d *x)
{
    const qn_v2d lowest = {QN_EXP_LOWEST, QN_EXP_LOWEST};
    const qn_v2i seen = *x > lowest;

    *x = (qn_v2d)(seen & (qn_v2i)*x);
    return (qn_v2d)(seen & (qn_v2i)qn__exp2(*x));
}

static inline double qn__weight(double x)
{
    qn_v2d v = {x, x};
    return qn__weight2(&v)[0];
}

/* For normal x > 0: x = 2^e m with m within a factor sqrt 2 of 1, and log m = 2 atanh((m - 1) / (m + 1)). */
static inline double qn__log(double x)
{
    const uint64_t bits = qn__bits_f64(x);
    double e = (double)(int64_t)(bits >> 52) - 1023.0;
    double m = qn__f64_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);

    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        e += 1.0;
    }
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double y = 1.0 / 21;
    y = y * z + 1.0 / 19;
    y = y * z + 1.0 / 17;
    y = y * z + 1.0 / 15;
    y = y * z + 1.0 / 13;
    y = y * z + 1.0 / 11;
    y = y * z + 1.0 / 9;
    y = y * z + 1.0 / 7;
    y = y * z + 1.0 / 5;
    y = y * z + 1.0 / 3;
    return e * QN_LN2_HI + (e * QN_LN2_LO + (2.0 * s + 2.0 * s * (z * y)));
}

/* a^b for a >= 0; results beyond e^±700 stop there. 0^b is 0. */
static inline double qn__pow(double a, double b)
{
    if (!(a > 0.0)) return 0.0;
    const double x = b * qn__log(a);
    return qn__exp(x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x);
}

/* ---- xoshiro256** (Blackman and Vigna 2018), its state filled from a 64-bit seed by splitmix64 ---- */
typedef struct qn_rng {
    uint64_t s[4];
} qn_rng;

static inline void qn__rng_seed(qn_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->s[i] = z ^ (z >> 31);
    }
}

static inline uint64_t qn__rng_next(qn_rng *rng)
{
    uint64_t *s = rng->s;
    const uint64_t five = s[1] * 5, result = ((five << 7) | (five >> 57)) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* Uniform in [0, 1), 53 bits. */
static inline double qn__rng_unit(qn_rng *rng) { return (double)(qn__rng_next(rng) >> 11) * 0x1p-53; }

#endif
