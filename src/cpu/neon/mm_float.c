/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_float.c -- products with columns of floats: kernel/mm_float.h over this level's lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

enum { ROOM = QN_MM_SLICE + 16 }; /* row stride in floats; a power of two would put all rows into a few sets of L1 */

static inline __attribute__((always_inline)) void chunk4(const float *row, lanes *v)
{
    float32x4_t q[4][4];
    UNROLL
    for (int g = 0; g < 4; g++) {
        UNROLL
        for (int e = 0; e < 4; e++) q[g][e] = vld1q_f32(row + (4 * g + e) * ROOM);
        transpose4(q[g]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) v[j] = (lanes){q[0][j], q[1][j], q[2][j], q[3][j]};
}

#define FN(name) qn__neon_##name
#include "cpu/kernel/mm_float.h"

void qn__neon_mm_float_init(qn_kernels *kernels) { mm_init(kernels); }
