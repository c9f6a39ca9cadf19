/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_panel.h -- panels: eight weight rows, transposed. Vector i of a panel's w holds elements 4i to
 * 4i+3 of every row, row r in lane r, so that one broadcast word of activations is multiplied with eight rows, and
 * no sum crosses lanes.
 *
 * AVX2 has no exact 8-bit dot product: maddubs adds two products of an unsigned and a signed byte in 16 bits, and
 * saturates. Activations are its unsigned operand (a = q + 127), weights its signed one, which may be in memory.
 * Sums of a sub-block stay in 16 bits: no maddubs saturates (at most 254 * 2 * 32), and additions may wrap, because
 * they start at -127 sum w, which compensates a - q, so that they end at sum w q, which fits (at most 16 * 127 * 16
 * for 32 elements, 8 * 127 * 32 for 16). Formats with 8-bit weights have no such sums; there 16-bit words are
 * multiplied. */
#ifndef QN_CPU_AVX2_MM_PANEL_H
#define QN_CPU_AVX2_MM_PANEL_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* One block of 32; w is the format's weight minus `off`. */
typedef struct qn_panel32 {
    __m256i w[8];
    __m256i start; /* -127 sum w in each 16-bit lane; with PLAIN, sum w */
    __m256i pair;  /* 16-bit factors for a column's (zero, sum): -sum w, off */
    __m256 d, m;
} qn_panel32;
typedef struct qn_words32 {
    __m256i w[16];
    __m256 d;
} qn_words32;

/* One super-block of 256; arrays of sub-blocks of 32 use the first half. */
typedef struct qn_panel256 {
    __m256i w[64];
    __m256i start[16]; /* of each sub-block; EXACT: of all, in start[0], in 32 bits */
    __m256i scale[16]; /* 16 bits, twice */
    __m256i min[8];    /* of sub-blocks 2i and 2i + 1, 16 bits each */
    __m256i pair[4];   /* for formats with `off`: twice their scales */
    __m256 z;          /* sum over j of scale_j (sum of the format's w over j) */
    __m256 d, m;
} qn_panel256;
typedef struct qn_words256 {
    __m256i w[128]; /* scale_j w: 16 bits hold it */
    __m256 z, d;
} qn_words256;

/* Unpacks the block at byte `at` of eight rows. Reads nothing outside it. */
typedef void (*qn_panel_fn)(const uint8_t *const *row, size_t at, void *panel);

/* FORMAT(name, elements of a sub-block, has a minimum, off, PLAIN: |w| <= 8, so that even sum w (q - zero) fits 16
 * bits) */
#define QN_PANEL_FORMATS_32(FORMAT) \
    FORMAT(Q4_0, 32, 0, 0, 1) \
    FORMAT(Q4_1, 32, 1, 0, 0) FORMAT(Q5_0, 32, 0, 0, 0) FORMAT(Q5_1, 32, 1, 16, 0) FORMAT(MXFP4, 32, 0, 0, 0)
#define QN_PANEL_FORMATS_256(FORMAT)   FORMAT(Q4_K, 32, 1, 0, 0) FORMAT(Q5_K, 32, 1, 16, 0) FORMAT(Q6_K, 16, 0, 0, 0)
/* EXACT: sums of a sub-block fit 16 bits without a start value. */
#define QN_PANEL_FORMATS_EXACT(FORMAT) FORMAT(Q2_K, 16, 1, 0, 0) FORMAT(Q3_K, 16, 0, 0, 0)
#define QN_WORDS_FORMATS_32(FORMAT)    FORMAT(Q8_0, 32, 0, 0, 0) FORMAT(IQ4_NL, 32, 0, 0, 0)
#define QN_WORDS_FORMATS_256(FORMAT)   FORMAT(IQ4_XS, 32, 0, 0, 0)

#define FORMAT(name, ...)              void qn__avx2_panel_##name(const uint8_t *const *row, size_t at, void *panel);
/* clang-format off */
QN_PANEL_FORMATS_32(FORMAT)
QN_PANEL_FORMATS_256(FORMAT)
QN_PANEL_FORMATS_EXACT(FORMAT)
QN_WORDS_FORMATS_32(FORMAT)
QN_WORDS_FORMATS_256(FORMAT)
/* clang-format on */
#undef FORMAT

#endif
