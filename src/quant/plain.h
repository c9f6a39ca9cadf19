/* SPDX-License-Identifier: MIT */
/* src/quant/plain.h -- packing of blocks that have one scale (and minimum) of their own, four blocks at a time. */
#ifndef QN_QUANT_PLAIN_H
#define QN_QUANT_PLAIN_H

#include "quant/lanes.h"

#define QN_PLAIN_MAX 256

typedef struct qn_plain_spec {
    int n; /* elements a block, at most QN_PLAIN_MAX */
    int block_bytes;
    qn_codes codes;
    bool affine; /* y = d q + m, else y = d q */
    const qn_starts *starts;
    /* Writes one block; d and m are binary16, q are codes or the levels themselves. */
    void (*put)(void *block, uint16_t d, uint16_t m, const int8_t *q);
} qn_plain_spec;

void qn__plain_pack(const qn_plain_spec *spec, const float *src, void *dst, int64_t n, const float *importance);

#endif
