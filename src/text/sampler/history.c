/* SPDX-License-Identifier: MIT */
/* src/text/sampler/history.c -- the tokens that penalties look back at, and the penalties link.
 *
 * Counts are kept as tokens come and go, so a sample call costs what the distinct tokens in the window cost. */
#include "text/sampler/sampler.h"
#include "base/error.h"

#include <float.h>
#include <math.h>

qn_status qn__sampler_init_history(qn_sampler *s, qn_error *err)
{
    const int32_t n_vocab = s->cands->n_vocab;
    qn_penalty_counts *c = &s->counts;

    s->history.cap = c->window > s->dry.window ? c->window : s->dry.window;
    if (s->history.cap > 0) {
        s->history.tokens = qn__arena_array(&s->arena, 2 * (size_t)s->history.cap, sizeof *s->history.tokens);
        if (!s->history.tokens) return QN_FAIL_NOMEM(err, 2 * (size_t)s->history.cap * sizeof *s->history.tokens);
    }
    if (c->window > 0) {
        /* one more comes before one goes */
        const size_t n_active = (size_t)(c->window < n_vocab ? c->window : n_vocab) + 1;
        c->count = qn__arena_array(&s->arena, (size_t)n_vocab, sizeof *c->count);
        c->slot = qn__arena_array(&s->arena, (size_t)n_vocab, sizeof *c->slot);
        c->active = qn__arena_array(&s->arena, n_active, sizeof *c->active);
        if (!c->count || !c->slot || !c->active)
            return QN_FAIL_NOMEM(err,
                                 (size_t)n_vocab * (sizeof *c->count + sizeof *c->slot) + n_active * sizeof *c->active);
    }
    return QN_OK;
}

static void count_in(qn_penalty_counts *c, qn_token token)
{
    if (c->count[token]++ > 0) return;
    c->slot[token] = c->n_active;
    c->active[c->n_active++] = token;
}

static void count_out(qn_penalty_counts *c, qn_token token)
{
    if (--c->count[token] > 0) return;
    const qn_token moved = c->active[--c->n_active];
    c->active[c->slot[token]] = moved;
    c->slot[moved] = c->slot[token];
}

void qn__sampler_remember(qn_sampler *s, qn_token token)
{
    qn_history *h = &s->history;

    if (h->cap == 0) return;
    if (s->counts.window > 0) {
        if (h->n >= s->counts.window) count_out(&s->counts, *qn__history_last(h, s->counts.window));
        count_in(&s->counts, token);
    }
    h->tokens[h->at] = h->tokens[h->at + h->cap] = token;
    h->at = h->at + 1 < h->cap ? h->at + 1 : 0;
    if (h->n < h->cap) h->n++;
}

void qn__sampler_forget(qn_sampler *s)
{
    qn_penalty_counts *c = &s->counts;

    for (int32_t i = 0; i < c->n_active; i++) c->count[c->active[i]] = 0;
    c->n_active = 0;
    s->history.n = s->history.at = 0;
}

float qn__sampler_penalised(const qn_sampler *s, double logit, double penalty)
{
    double v = logit - penalty * s->cands->temp; /* stored logits are temp times the effective ones */

    v = v < -FLT_MAX ? -FLT_MAX : v; /* a NaN can't come: both are finite, or the penalty is infinite */
    return qn__cands_clean(v);
}

/* l > 0 ? l / repeat : l * repeat, then - count * frequency - presence. The paper divides either way, which would make
 * an unlikely token likelier. */
static float penalise(const qn_sampler *s, float logit, int32_t count)
{
    const double l = logit > 0 ? (double)logit / s->p.repeat_penalty : (double)logit * s->p.repeat_penalty;
    return qn__sampler_penalised(s, l, (double)count * s->p.frequency_penalty + s->p.presence_penalty);
}

void qn__sampler_penalties(qn_sampler *s)
{
    const qn_penalty_counts *pc = &s->counts;
    qn_cands *c = s->cands;

    if (pc->window == 0 || pc->n_active == 0) return;
    if (c->form == QN_CANDS_dense) {
        for (int32_t i = 0; i < pc->n_active; i++) {
            const qn_token t = pc->active[i];
            const float old = c->dense[t];
            if (old > -INFINITY) qn__cands_set(c, t, penalise(s, old, pc->count[t]));
        }
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t id = qn__key_id(c->keys[i]);
        if (pc->count[id] > 0) c->keys[i] = qn__key(penalise(s, qn__key_logit(c->keys[i]), pc->count[id]), id);
    }
    if (c->form == QN_CANDS_by_logit) c->form = QN_CANDS_mixed;
}
