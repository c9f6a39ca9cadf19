/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sampler_common.h -- what the sampler's tests share. */
#ifndef SAMPLER_COMMON_H
#define SAMPLER_COMMON_H

#include <quern/text.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NO_TRUNCATION .top_k = -1, .top_p = 1, .min_p = -1

/* As tests/oracle/sampler.py makes them: a triangle of +-2 * scale, and a hundredth of the tokens pushed up. */
static inline void generate(float *logits, int n, uint32_t seed, float scale)
{
    for (int i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i + seed * 0x9e3779b1u;
        h = (h ^ (h >> 16)) * 0x7feb352du;
        h = (h ^ (h >> 15)) * 0x846ca68bu;
        h ^= h >> 16;
        const int32_t v = (int32_t)(h & 0xffff) + (int32_t)(h >> 16) - 65535 + (h % 101 == 0 ? 65536 : 0);
        logits[i] = (float)(v / 32768.0 * scale);
    }
}

static inline qn_sampler *make_sampler(const qn_sampler_params *params, int32_t n_vocab)
{
    qn_error err = {0};
    qn_sampler *s = NULL;

    if (qn_sampler_create(params, n_vocab, NULL, &s, &err) != QN_OK) fail_msg("%s", err.text);
    return s;
}

static inline qn_token sample(qn_sampler *s, const float *logits)
{
    qn_error err = {0};
    qn_token token = QN_TOKEN_NONE;

    if (qn_sampler_sample(s, logits, &token, &err) != QN_OK) fail_msg("%s", err.text);
    return token;
}

#endif
