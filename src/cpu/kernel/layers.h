/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/layers.h -- norms, gates and their gradients over sixteen float lanes, written once. A level's
 * layers.c defines FN(name), includes its lanes.h and lanes_math.h, and then this. ref/layers.c does the same
 * element by element. */
#include "cpu/dispatch.h"
#include "cpu/kernel/lanes.h"

#include <float.h>

void FN(normalize_f32)(float *y, const float *x, float mean, float s, const float *w, const float *b, int64_t n)
{
    const lanes m = l_set(mean), scale = l_set(s);
#define BODY(LOAD, STORE)   STORE(y, l_mul(l_sub(LOAD(x), m), scale));
#define BODY_W(LOAD, STORE) STORE(y, l_mul(l_mul(l_sub(LOAD(x), m), scale), LOAD(w)));
#define BODY_B(LOAD, STORE) STORE(y, l_fma(l_mul(l_sub(LOAD(x), m), scale), LOAD(w), LOAD(b)));
    if (w && b)
        EACH(n, BODY_B);
    else if (w)
        EACH(n, BODY_W);
    else
        EACH(n, BODY);
#undef BODY
#undef BODY_W
#undef BODY_B
}

static inline lanes weighed(const float *a, const float *w, int64_t i, int64_t left)
{
    const int n = left < 16 ? (int)left : 16;
    if (n == 16) return w ? l_mul(l_load(a + i), l_load(w + i)) : l_load(a + i);
    const lanes v = l_load_n(a + i, n, l_set(0));
    return l_first_n(n, w ? l_mul(v, l_load_n(w + i, n, l_set(0))) : v);
}

float FN(dot_dev_f32)(const float *a, const float *w, const float *x, float mean, int64_t n)
{
    const lanes m = l_set(mean);
    lanes acc[4] = {l_set(0), l_set(0), l_set(0), l_set(0)};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++)
            acc[k] = l_fma(weighed(a, w, i + 16 * k, 16), l_sub(l_load(x + i + 16 * k), m), acc[k]);
    for (int k = 0; i < n; i += 16, k++) {
        const int64_t left = n - i;
        const lanes d =
            left >= 16 ? l_sub(l_load(x + i), m) : l_first_n((int)left, l_sub(l_load_n(x + i, (int)left, m), m));
        acc[k] = l_fma(weighed(a, w, i, left), d, acc[k]);
    }
    return l_sum(l_add(l_add(acc[0], acc[2]), l_add(acc[1], acc[3])));
}

void FN(norm_back_f32)(float *y, const float *a, const float *w, const float *x, float mean, float p, float q, float r,
                       int64_t n)
{
    const lanes m = l_set(mean), of_a = l_set(p), of_x = l_set(q), rest_of_all = l_set(r);
#define BODY(LOAD, STORE)   STORE(y, l_fma(of_a, LOAD(a), l_fma(of_x, l_sub(LOAD(x), m), rest_of_all)));
#define BODY_W(LOAD, STORE) STORE(y, l_fma(of_a, l_mul(LOAD(a), LOAD(w)), l_fma(of_x, l_sub(LOAD(x), m), rest_of_all)));
    if (w)
        EACH(n, BODY_W);
    else
        EACH(n, BODY);
#undef BODY
#undef BODY_W
}

void FN(add_dev_f32)(float *y, const float *a, const float *x, float mean, float s, int64_t n)
{
    const lanes m = l_set(mean), scale = l_set(s);
#define BODY(LOAD, STORE) STORE(y, l_fma(LOAD(a), l_mul(l_sub(LOAD(x), m), scale), LOAD(y)));
    EACH(n, BODY);
#undef BODY
}

/* 1 - s is computed as e s, which is accurate where s is near 1. Where e overflows, s is 0 and so is the product. */
void FN(swiglu_back_f32)(float *d_gate, float *d_up, const float *dy, const float *gate, const float *up, int64_t n)
{
    const lanes one = l_set(1), most = l_set(FLT_MAX);
#define BODY(LOAD, STORE) \
    const lanes g = LOAD(gate), d = LOAD(dy), u = LOAD(up), e = exp_lanes(l_sub(l_set(0), g)); \
    const lanes s = l_div(one, l_add(one, e)), slope = l_mul(s, l_fma(g, l_mul(l_min(most, e), s), one)); \
    STORE(d_up, l_mul(d, l_mul(g, s))); \
    STORE(d_gate, l_mul(l_mul(d, u), slope));
    EACH(n, BODY);
#undef BODY
}

void FN(layers_init)(qn_kernels *kernels)
{
#define SET(name) kernels->name = FN(name);
    /* clang-format off */
    SET(normalize_f32) SET(dot_dev_f32) SET(norm_back_f32) SET(add_dev_f32) SET(swiglu_back_f32)
    /* clang-format on */
#undef SET
}
