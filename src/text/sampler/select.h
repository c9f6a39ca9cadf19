/* SPDX-License-Identifier: MIT */
/* src/text/sampler/select.h -- a candidate as one integer, and sorting and selecting of such integers in linear time.
 *
 * The upper half of a key falls as the logit rises, the lower half is the token id: ascending order of keys is most
 * likely first, ties to the lowest id, and no two keys are equal. -0 must have been made +0 before (the two are one
 * logit). */
#ifndef QN_TEXT_SAMPLER_SELECT_H
#define QN_TEXT_SAMPLER_SELECT_H

#include "text/sampler/math.h"

static inline uint32_t qn__rank_bits(uint32_t b) { return b ^ (((b >> 31) - 1) & 0x7fffffffu); } /* its own inverse */
static inline uint64_t qn__key(float logit, uint32_t id)
{
    return (uint64_t)qn__rank_bits(qn__bits_f32(logit)) << 32 | id;
}
static inline uint32_t qn__key_id(uint64_t key) { return (uint32_t)key; }
static inline float qn__key_logit(uint64_t key) { return qn__f32_bits(qn__rank_bits((uint32_t)(key >> 32))); }

/* Ascending. `scratch` has room for n. Stable and only by bits from `low_bit` (0 or 32) on: 32 when the input is
 * already in ascending order of the lower halves. */
void qn__keys_sort(uint64_t *keys, uint64_t *scratch, size_t n, int low_bit);
/* Brings the k smallest (1 <= k <= n) to the front, in no particular order. Linear for every input. */
void qn__keys_select(uint64_t *keys, size_t n, size_t k);

#endif
