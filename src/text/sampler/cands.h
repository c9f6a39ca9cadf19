/* SPDX-License-Identifier: MIT */
/* src/text/sampler/cands.h -- the set of candidates that a sampler's links narrow down.
 *
 * The set has two forms. *Dense*: one logit a token, -INFINITY where it is out, with the largest of each block of 64
 * beside it, so that finding the top of 250,000 logits means looking at a few blocks. *Listed*: an array of keys
 * (sampler_select.h), made by the first link that truncates. Listing leaves the dense form intact.
 *
 * What always holds: no NaN, no +INFINITY and no -0 in either form; nothing at -INFINITY in a list; the effective logit
 * of a candidate is its stored logit / temp, in double, so that a temperature costs nothing and loses nothing. */
#ifndef QN_TEXT_SAMPLER_CANDS_H
#define QN_TEXT_SAMPLER_CANDS_H

#include <quern/text.h>
#include "base/mem.h"
#include "text/sampler/select.h"

#define QN_CANDS_BLOCK 64

typedef enum qn_cands_form { QN_CANDS_dense, QN_CANDS_by_id, QN_CANDS_by_logit, QN_CANDS_mixed } qn_cands_form;

typedef struct qn_cands {
    int32_t n_vocab, n_blocks;
    qn_cands_form form; /* a list's order, too */
    size_t n;           /* of the list */
    double temp;
    float *dense;      /* [n_blocks * 64] */
    float *block_max;  /* [n_blocks] */
    double *block_sum; /* [n_blocks], of weights; valid after qn__cands_softmax on the dense form */
    uint64_t *keys;    /* [n_vocab + 1] */
    uint64_t *tmp[2];  /* [n_vocab] each, one behind the other: sort scratch; tmp[0] holds a list's weights after
                        * qn__cands_softmax; after the draw, both hold the candidates as they are reported */
} qn_cands;

typedef struct qn_softmax {
    double max;     /* the largest stored logit */
    double sum;     /* of weights e^((logit - max) / temp) */
    double entropy; /* of the distribution, in nats */
} qn_softmax;

bool qn__cands_init(qn_cands *c, int32_t n_vocab, qn_arena *arena);
uint64_t qn__cands_bytes(int32_t n_vocab); /* that this takes of it */
/* n_vocab of them; NaN counts as -INFINITY, and so does what the mask (a bit a token; NULL: all) lacks */
void qn__cands_load(qn_cands *c, const float *logits, const uint32_t *mask);
float qn__cands_clean(double logit);                          /* a logit as the set may hold it */
void qn__cands_set(qn_cands *c, qn_token token, float logit); /* dense form only; a clean logit */
float qn__cands_max(const qn_cands *c);                       /* -INFINITY when empty */
size_t qn__cands_count(const qn_cands *c);

/* From here on the set may not be empty. */
void qn__cands_list(qn_cands *c);               /* every candidate, as a list in some order */
void qn__cands_sort(qn_cands *c);               /* the same, most likely first */
void qn__cands_keep_top(qn_cands *c, size_t k); /* the k most likely, most likely first */
/* stored logit >= lowest, but at least min_keep */
void qn__cands_keep_from(qn_cands *c, double lowest, size_t min_keep);
/* the most likely that make up the share, sorted */
void qn__cands_keep_mass(qn_cands *c, double share, size_t min_keep);
/* back to dense, when the list hasn't been modified */
void qn__cands_unlist(qn_cands *c);
qn_softmax qn__cands_softmax(qn_cands *c);
static inline double qn__cands_weight(const qn_cands *c, const qn_softmax *sm, size_t i)
{
    return qn__weight((qn__key_logit(c->keys[i]) - sm->max) * (1.0 / c->temp));
}
double qn__cands_sigma(const qn_cands *c); /* standard deviation of the stored logits */
/* The candidate at which the running sum of weights passes u * sum (0 <= u < 1): by id in the dense form, most likely
 * first in a list, which it sorts. `*p` is its probability. */
qn_token qn__cands_draw(qn_cands *c, double u, double *p);

#endif
