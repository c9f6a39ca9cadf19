/* SPDX-License-Identifier: MIT */
/* src/quant/super.h -- packing of super-blocks: 256 elements in 16 or 8 sub-blocks, whose scales (and minima) are
 * themselves integer codes of one or two binary16 numbers. What comes out here, a format only has to put into its bits.
 */
#ifndef QN_QUANT_SUPER_H
#define QN_QUANT_SUPER_H

#include "quant/lanes.h"

#define QN_SUPER_ELEMS 256

typedef struct qn_super_packed {
    uint16_t d, dmin;
    int8_t scale[16], min[16];
    int8_t q[QN_SUPER_ELEMS]; /* codes, or the levels themselves */
} qn_super_packed;

typedef struct qn_super_spec {
    int sub; /* elements a sub-block: 16 or 32 */
    int block_bytes;
    qn_codes codes;           /* of elements */
    float scale_lo, scale_hi; /* codes of scales and of minima */
    bool affine;              /* y = d scale q - dmin min, else y = d scale q */
    const qn_starts *starts;
    void (*put)(void *block, const qn_super_packed *p);
} qn_super_spec;

void qn__super_pack(const qn_super_spec *spec, const float *src, void *dst, int64_t n, const float *importance);

#endif
