/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/lanes.h -- what files that implement rows of kernels.def over sixteen float lanes share: the loop
 * over an array, and exp. Include it after a level's lanes.h.
 *
 * Every sum over lanes is one tree: lane j takes elements j, j + 16, j + 32 .. in order; then lanes j and j + 8 are
 * added, then j and j + 4, j and j + 2, j and j + 1 (l_sum; qn__ref_sum16 is the plain reading of it). */
#ifndef QN_CPU_KERNEL_LANES_H
#define QN_CPU_KERNEL_LANES_H

#include "backend/numbers/exp.h"

#include <math.h>

/* Runs BODY over n elements: full vectors with plain loads and stores, the tail with masked ones. LOAD(p) and
 * STORE(p, x) act at index i. */
#define EACH(n, BODY) \
    do { \
        int64_t i = 0; \
        for (; i + 16 <= (n); i += 16) { BODY(LOAD_ALL, STORE_ALL) } \
        const int rest = (int)((n)-i); \
        if (rest > 0) { BODY(LOAD_REST, STORE_REST) } \
    } while (0)
#define LOAD_ALL(p)      l_load((p) + i)
#define STORE_ALL(p, x)  l_store((p) + i, x)
#define LOAD_REST(p)     l_load_n((p) + i, rest, l_set(0))
#define STORE_REST(p, x) l_store_n((p) + i, rest, x)

static inline lanes exp_lanes(lanes x)
{
    const lanes magic = l_set(QN_EXP_MAGIC);
    const lanes t = l_fma(x, l_set(QN_EXP_LOG2E), magic), n = l_sub(t, magic);
    const lanes r = l_fma(n, l_set(-QN_EXP_LN2_LO), l_fma(n, l_set(-QN_EXP_LN2_HI), x));
    lanes q = l_fma(l_set(QN_EXP_C4), r, l_set(QN_EXP_C3));
    q = l_fma(q, r, l_set(QN_EXP_C2));
    q = l_fma(q, r, l_set(QN_EXP_C1));
    q = l_fma(q, r, l_set(QN_EXP_C0));
    lanes y = l_scale_by(l_add(l_set(1), l_fma(l_mul(r, r), q, r)), t);
    y = l_if_less(x, l_set(QN_EXP_MIN), l_set(0), y);
    y = l_if_less(l_set(QN_EXP_MAX), x, l_set(INFINITY), y);
    return l_keep_nan(x, y);
}

#endif
