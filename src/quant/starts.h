/* SPDX-License-Identifier: MIT */
/* src/quant/starts.h -- the lists of starts (lanes.h), one for each kind of code. */
#ifndef QN_QUANT_STARTS_H
#define QN_QUANT_STARTS_H

#include "quant/lanes.h"

extern const qn_starts qn__starts_scale_3;  /* -4 to 3 */
extern const qn_starts qn__starts_scale_4;  /* -8 to 7 */
extern const qn_starts qn__starts_scale_5;  /* -16 to 15 */
extern const qn_starts qn__starts_scale_6;  /* -32 to 31 */
extern const qn_starts qn__starts_scale_8;  /* -127 to 127 */
extern const qn_starts qn__starts_trits;    /* -1 to 1 */
extern const qn_starts qn__starts_levels;   /* the sixteen of IQ4 */
extern const qn_starts qn__starts_affine_2; /* 0 to 3 */
extern const qn_starts qn__starts_affine_4; /* 0 to 15 */
extern const qn_starts qn__starts_affine_5; /* 0 to 31 */

#endif
