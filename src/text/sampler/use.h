/* SPDX-License-Identifier: MIT */
/* src/text/sampler/use.h -- samplers in the scratch of whichever thread runs them. */
#ifndef QN_TEXT_SAMPLER_USE_H
#define QN_TEXT_SAMPLER_USE_H

#include <quern/text.h>

/* From now on it works in this scratch, of as many tokens. Candidates of the call before are gone. */
void qn__sampler_use(qn_sampler *s, qn_sampler_scratch *scratch);
/* What a scratch takes. */
uint64_t qn__sampler_scratch_bytes(int32_t n_vocab);

#endif
