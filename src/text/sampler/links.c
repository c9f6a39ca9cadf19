/* SPDX-License-Identifier: MIT */
/* src/text/sampler/links.c -- the links that truncate, and temperature. Each returns at once when its parameter is at
 * "off", and leaves at least one candidate.
 *
 * Where a definition is not the paper's it is that of llama.cpp, whose users' presets these parameters come from. */
#include "text/sampler/sampler.h"

#include <math.h>

/* Keeps l >= max - n * sigma, sigma over all candidates. A common temperature changes nothing. */
void qn__sampler_top_n_sigma(qn_sampler *s)
{
    qn_cands *c = s->cands;

    if (s->p.top_n_sigma <= 0) return;
    const double max = qn__cands_max(c);
    qn__cands_keep_from(c, max - s->p.top_n_sigma * qn__cands_sigma(c), 1);
}

void qn__sampler_top_k(qn_sampler *s)
{
    if (s->p.top_k > 0) qn__cands_keep_top(s->cands, (size_t)s->p.top_k);
}

/* The smallest set of the most typical candidates, those whose surprise -log p is nearest to the entropy, with
 * probability above typical_p. */
void qn__sampler_typical_p(qn_sampler *s)
{
    qn_cands *c = s->cands;

    if (s->p.typical_p >= 1) return;
    qn__cands_list(c);
    const qn_softmax sm = qn__cands_softmax(c);
    const double log_sum = qn__log(sm.sum), limit = (double)s->p.typical_p * sm.sum;
    uint64_t *by_score = c->tmp[1], *kept = c->tmp[0];

    for (size_t i = 0; i < c->n; i++) {
        const double log_p = (qn__key_logit(c->keys[i]) - sm.max) / c->temp - log_sum;
        /* not negative: bits are ordered */
        by_score[i] = (uint64_t)qn__bits_f32((float)fabs(-log_p - sm.entropy)) << 32 | i;
    }
    qn__keys_sort(by_score, c->tmp[0], c->n, 32);

    double sum = 0;
    size_t n = 0;
    while (n < c->n && (sum <= limit || n < (size_t)s->p.min_keep)) {
        const size_t i = (uint32_t)by_score[n];
        sum += qn__cands_weight(c, &sm, i);
        kept[n++] = c->keys[i];
    }
    memcpy(c->keys, kept, n * sizeof *kept);
    c->n = n;
    c->form = QN_CANDS_mixed;
}

void qn__sampler_top_p(qn_sampler *s)
{
    if (s->p.top_p < 1) qn__cands_keep_mass(s->cands, s->p.top_p, (size_t)s->p.min_keep);
}

/* p >= min_p * p_max, said in logits: no exponential at all. */
void qn__sampler_min_p(qn_sampler *s)
{
    qn_cands *c = s->cands;

    if (s->p.min_p <= 0) return;
    qn__cands_keep_from(c, qn__cands_max(c) + qn__log(s->p.min_p) * c->temp, (size_t)s->p.min_keep);
}

/* With some chance, of the candidates at or above the threshold only the least likely stays. A dense set remains dense:
 * there the few above are listed only to be struck out. */
void qn__sampler_xtc(qn_sampler *s)
{
    qn_cands *c = s->cands;

    if (s->p.xtc_probability <= 0 || s->p.xtc_threshold > 0.5f) return; /* two can't both be above a half */
    if (qn__rng_unit(&s->rng) >= s->p.xtc_probability) return;
    const bool dense = c->form == QN_CANDS_dense;
    const size_t n = s->p.min_keep > 1 ? qn__cands_count(c) : SIZE_MAX;
    const qn_softmax sm = qn__cands_softmax(c);
    const double limit = (double)s->p.xtc_threshold * sm.sum;
    size_t above = 0;

    if (dense) qn__cands_keep_from(c, sm.max + (qn__log(limit) - 1e-6) * c->temp, 1);
    qn__cands_sort(c);
    while (above < c->n && qn__cands_weight(c, &sm, above) >= limit) above++;
    if (dense) qn__cands_unlist(c);
    if (above < 2 || n - (above - 1) < (size_t)s->p.min_keep) return;
    if (dense) {
        for (size_t i = 0; i + 1 < above; i++) qn__cands_set(c, (qn_token)qn__key_id(c->keys[i]), -INFINITY);
    } else {
        c->n -= above - 1;
        memmove(c->keys, c->keys + above - 1, c->n * sizeof *c->keys);
    }
}

/* Dynamic: between T - range and T + range, by the entropy's share of the largest possible. At 0 only the top is left.
 */
void qn__sampler_temperature(qn_sampler *s)
{
    qn_cands *c = s->cands;
    double t = s->p.temperature;

    if (s->p.dynatemp_range > 0) {
        const size_t n = qn__cands_count(c);
        if (n < 2) return;
        const double low = t > s->p.dynatemp_range ? t - s->p.dynatemp_range : 0, high = t + s->p.dynatemp_range;
        const double share = qn__cands_softmax(c).entropy / qn__log((double)n);
        t = low + (high - low) * qn__pow(share, s->p.dynatemp_exponent);
        if (!(t > 0)) {
            qn__cands_keep_top(c, 1);
            return;
        }
    }
    c->temp *= t;
}
