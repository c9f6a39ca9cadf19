/* SPDX-License-Identifier: MIT */
/* src/text/sampler/mirostat.c -- mirostat 1 and 2 (Basu et al. 2021): holds the surprise of the text near tau bits a
 * token. mu starts at 2 tau and moves when the chosen token is accepted, so trying a draw twice changes nothing. */
#include "text/sampler/sampler.h"

#include <math.h>

#define LN_2 0x1.62e42fefa39efp-1

/* The Zipf exponent that fits the most likely tokens best; the list has two at least, most likely first. */
static double zipf_exponent(const qn_cands *c)
{
    double sum_tb = 0, sum_tt = 0;

    for (size_t i = 0; i + 1 < c->n && i + 1 < QN_MIROSTAT_M; i++) {
        const double t = qn__log((double)(i + 2) / (double)(i + 1));
        /* log p_i / p_i+1 */
        const double b = ((double)qn__key_logit(c->keys[i]) - qn__key_logit(c->keys[i + 1])) / c->temp;
        sum_tb += t * b;
        sum_tt += t * t;
    }
    return sum_tb / sum_tt;
}

/* k = (eps 2^mu / (1 - N^-eps))^(1/s), eps = s - 1; at s = 1 its limit. Returns at least 1. */
static size_t zipf_k(double exponent, double mu, int32_t n_vocab)
{
    const double eps = exponent - 1, log_n = qn__log(n_vocab);
    double share = 1 - qn__pow(n_vocab, -eps);

    share = fabs(eps * log_n) > 1e-8 ? eps / share : 1 / log_n;
    const double log_k = (qn__log(share) + mu * LN_2) / exponent; /* infinite, or no number, when all are alike */
    if (log_k >= log_n) return (size_t)n_vocab;
    return log_k > 0 ? (size_t)qn__exp(log_k) : 1;
}

static void narrow_1(qn_sampler *s)
{
    qn_cands *c = s->cands;
    const bool dense = c->form == QN_CANDS_dense;

    if (dense)
        qn__cands_keep_top(c, QN_MIROSTAT_M);
    else
        qn__cands_sort(c);
    if (c->n < 2) return;
    const size_t k = zipf_k(zipf_exponent(c), s->mu, c->n_vocab);
    if (dense && k > c->n) qn__cands_unlist(c);
    qn__cands_keep_top(c, k);
}

/* Keeps a surprise -log2 p of at most mu. */
static void narrow_2(qn_sampler *s)
{
    qn_cands *c = s->cands;
    const qn_softmax sm = qn__cands_softmax(c);

    qn__cands_keep_from(c, sm.max + (qn__log(sm.sum) - s->mu * LN_2) * c->temp, 1);
}

void qn__sampler_mirostat(qn_sampler *s)
{
    if (s->p.mirostat == 1)
        narrow_1(s);
    else
        narrow_2(s);
}

void qn__sampler_mirostat_learn(qn_sampler *s)
{
    const double surprise = -qn__log(s->chosen_p) / LN_2;
    s->mu -= s->p.mirostat_eta * (surprise - s->p.mirostat_tau);
}
