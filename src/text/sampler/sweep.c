/* SPDX-License-Identifier: MIT */
/* src/text/sampler/sweep.c -- the block passes. Every function has an unrolled body of eight lanes and no branch. */
#include "text/sampler/sweep.h"

#include <float.h>
#include <math.h>

#define BLOCK QN_SWEEP_BLOCK

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef float v2f __attribute__((vector_size(8)));

static inline v4f load4(const float *p)
{
    v4f v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Where the mask is set a, else b. */
static inline v4f select4(v4i mask, v4f a, v4f b) { return (v4f)((mask & (v4i)a) | (~mask & (v4i)b)); }
static inline v4f max4(v4f a, v4f b) { return select4(a > b, a, b); }

static inline float largest(v4f a, v4f b)
{
    a = max4(a, b);
    const float x = a[0] > a[1] ? a[0] : a[1], y = a[2] > a[3] ? a[2] : a[3];
    return x > y ? x : y;
}

static inline v4f clean4(v4f v)
{
    const v4f none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, most = {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX},
              zero = {0};
    v = select4(v == v, v, none);
    v = select4(v < most, v, most);
    return v + zero;
}

float qn__sweep_load(float *to, const float *from)
{
    v4f a = clean4(load4(from)), b = clean4(load4(from + 4));

    memcpy(to, &a, sizeof a);
    memcpy(to + 4, &b, sizeof b);
    for (int i = 8; i < BLOCK; i += 8) {
        const v4f x = clean4(load4(from + i)), y = clean4(load4(from + i + 4));
        memcpy(to + i, &x, sizeof x);
        memcpy(to + i + 4, &y, sizeof y);
        a = max4(a, x);
        b = max4(b, y);
    }
    return largest(a, b);
}

float qn__sweep_load_masked(float *to, const float *from, const uint32_t *mask)
{
    const v4f none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    v4f a = none;

    if (!(mask[0] | mask[1])) { /* most blocks, where a grammar knows what it wants */
        for (int i = 0; i < BLOCK; i += 4) memcpy(to + i, &none, sizeof none);
        return -INFINITY;
    }
    for (int i = 0; i < BLOCK; i += 4) {
        const int32_t four = (int32_t)(mask[i / 32] >> i % 32 & 15);
        const v4i bits = {1, 2, 4, 8}, all = {four, four, four, four};
        const v4f x = select4((all & bits) != 0, clean4(load4(from + i)), none);
        memcpy(to + i, &x, sizeof x);
        a = max4(a, x);
    }
    return largest(a, none);
}

float qn__sweep_max(const float *logits)
{
    v4f a = load4(logits), b = load4(logits + 4);

    for (int i = 8; i < BLOCK; i += 8) {
        a = max4(a, load4(logits + i));
        b = max4(b, load4(logits + i + 4));
    }
    return largest(a, b);
}

static inline qn_v2d load2(const float *p)
{
    v2f v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, qn_v2d);
}

static inline double add_lanes(const qn_v2d *v)
{
    const qn_v2d s = (v[0] + v[2]) + (v[1] + v[3]);
    return s[0] + s[1];
}

double qn__sweep_softmax(const float *logits, double max, double inv_temp, double *sum_wx)
{
    qn_v2d w[4] = {{0}, {0}, {0}, {0}}, wx[4] = {{0}, {0}, {0}, {0}};

    for (int i = 0; i < BLOCK; i += 8)
        for (int j = 0; j < 4; j++) {
            qn_v2d x = (load2(logits + i + 2 * j) - max) * inv_temp;
            const qn_v2d y = qn__weight2(&x);
            w[j] += y;
            wx[j] += y * x;
        }
    *sum_wx += add_lanes(wx);
    return add_lanes(w);
}

double qn__sweep_moments(const float *logits, double max, double *sum, double *sum_sq)
{
    const qn_v2d none = {-INFINITY, -INFINITY};
    const qn_v2d one = {1, 1};
    qn_v2d n[4] = {{0}, {0}, {0}, {0}}, d1[4] = {{0}, {0}, {0}, {0}}, d2[4] = {{0}, {0}, {0}, {0}};

    for (int i = 0; i < BLOCK; i += 8)
        for (int j = 0; j < 4; j++) {
            const qn_v2d x = load2(logits + i + 2 * j);
            const qn_v2i here = x > none;
            const qn_v2d d = (qn_v2d)(here & (qn_v2i)(x - max));
            n[j] += (qn_v2d)(here & (qn_v2i)one);
            d1[j] += d;
            d2[j] += d * d;
        }
    *sum += add_lanes(d1);
    *sum_sq += add_lanes(d2);
    return add_lanes(n);
}
