/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_panel.h -- panels: sixteen weight rows, transposed. Vector i of a panel's w holds elements 4i to
 * 4i+3 of every row, row r in lane r, so that one dot-product instruction with four broadcast activations adds to
 * sixteen rows, and no sum crosses lanes. Weights are the format's signed integers. Activations are the unsigned
 * operand (q + 128); the surplus, 128 sum w, is subtracted in the start values of sums. */
#ifndef QN_CPU_AVX512_MM_PANEL_H
#define QN_CPU_AVX512_MM_PANEL_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* One block of 32. */
typedef struct qn_panel32 {
    __m512i w[8];
    __m512i sum_w; /* 16 bits in the low half of each lane, 0 above */
    __m512 d, m;
} qn_panel32;

/* Adding an integer below 2^22 to the bits of this float gives the float that is greater by that integer. */
#define QN_PANEL_FLOATS 0x1.8p23f

/* One super-block of 256; arrays of sub-blocks of 32 use the first half. */
typedef struct qn_panel256 {
    __m512i w[64];
    __m512i start[16]; /* -128 sum w, of each sub-block */
    __m512 scale[16];
    /* -FLOATS scale, for sub-blocks that begin a chain of one or two: FLOATS is in their start value */
    __m512 more[8];
    __m512i min[8]; /* of sub-blocks 2i and 2i + 1, 16 bits each */
    __m512 z;       /* sum over j of scale_j (sum w over j) */
    __m512 d, m;
} qn_panel256;

/* Unpacks the block at byte `at` of sixteen rows. Reads nothing outside it. */
typedef void (*qn_panel_fn)(const uint8_t *const *row, size_t at, void *panel);

/* FORMAT(name, elements of a sub-block; 32 in FORMATS_32, has a minimum) */
/* clang-format off */
#define QN_PANEL_FORMATS_32(FORMAT) \
    FORMAT(Q4_0, 32, 0) FORMAT(Q4_1, 32, 1) FORMAT(Q5_0, 32, 0) FORMAT(Q5_1, 32, 1) FORMAT(Q8_0, 32, 0) \
    FORMAT(IQ4_NL, 32, 0)
/* clang-format on */
/* Floats hold integers below 2^24 exactly: chains of four sub-blocks of Q4_K (4 * 63 * 32 * 15 * 127), of two of
 * Q5_K and Q6_K (2 * 63 * 32 * 31 * 127, 2 * 128 * 16 * 32 * 127), of one of IQ4_XS (32 * 32 * 127 * 127). */
#define QN_PANEL_FORMATS_256(FORMAT)   FORMAT(Q4_K, 32, 1) FORMAT(Q5_K, 32, 1) FORMAT(Q6_K, 16, 0) FORMAT(IQ4_XS, 32, 0)
/* scale_j w fits a byte, so a super-block is one sum. w holds scale_j w; for Q3_K negated,
 * because -32 * -4 = 128 does not fit. start[0] and z are of the whole super-block; scale is not used. */
#define QN_PANEL_FORMATS_EXACT(FORMAT) FORMAT(Q2_K, 16, 1) FORMAT(Q3_K, 16, 0)

/* Blocks of 32 with a power of two as scale. */
#define QN_PANEL_FORMATS_POW2(FORMAT)  FORMAT(MXFP4, 32, 0)

#define FORMAT(name, sub, with_min)    void qn__avx512_panel_##name(const uint8_t *const *row, size_t at, void *panel);
/* clang-format off */
QN_PANEL_FORMATS_32(FORMAT)
QN_PANEL_FORMATS_POW2(FORMAT)
QN_PANEL_FORMATS_256(FORMAT)
QN_PANEL_FORMATS_EXACT(FORMAT)
/* clang-format on */
#undef FORMAT

#endif
