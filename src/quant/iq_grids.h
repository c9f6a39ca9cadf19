/* SPDX-License-Identifier: MIT */
/* src/quant/iq_grids.h -- the codebooks of the IQ formats. An entry is a vector of 8 levels of 2 bits (IQ1, IQ2) or of
 * 4 levels of 3 bits (IQ3), the first in the lowest bits; the functions below give the number that a level stands for.
 */
#ifndef QN_QUANT_IQ_GRIDS_H
#define QN_QUANT_IQ_GRIDS_H

#include <stdint.h>

extern const uint16_t qn__iq2_xxs_grid[256]; /* 8 x 2 bits, magnitudes */
extern const uint16_t qn__iq2_xs_grid[512];
extern const uint16_t qn__iq2_s_grid[1024];
extern const uint16_t qn__iq3_xxs_grid[256]; /* 4 x 3 bits, magnitudes */
extern const uint16_t qn__iq3_s_grid[512];
extern const uint16_t qn__iq1_grid[2048]; /* 8 x 2 bits, signed; IQ1_S and IQ1_M */

/* Element j of an entry. */
static inline int qn__iq2_value(unsigned entry, int j)
{
    const int level = entry >> 2 * j & 3;
    return 8 + 17 * level + (level >> 1); /* 8, 25, 43 */
}

static inline int qn__iq3_xxs_value(unsigned entry, int j)
{
    const int level = entry >> 3 * j & 7;
    return 4 + 8 * level + 2 * (level == 7); /* 4, 12, ... 52, 62 */
}

static inline int qn__iq3_s_value(unsigned entry, int j)
{
    return 1 + 2 * (int)(entry >> 3 * j & 7); /* 1, 3, ... 15 */
}

static inline int qn__iq1_value(unsigned entry, int j) { return (int)(entry >> 2 * j & 3) - 1; /* -1, 0, 1 */ }

/* The sign bits of 8 elements of which 7 are stored: the eighth makes the number of minus signs even. */
static inline unsigned qn__iq_signs(unsigned stored)
{
    unsigned parity = stored & 127;
    parity ^= parity >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (stored & 127) | (parity & 1) << 7;
}

#endif
