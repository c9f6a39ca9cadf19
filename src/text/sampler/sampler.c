/* SPDX-License-Identifier: MIT */
/* src/text/sampler/sampler.c -- a sampler's life, and a sample call: load, bias, links, draw. Nothing here allocates
 * after create. */
#include "text/sampler/sampler.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/trace.h"

#include <float.h>
#include <math.h>

#define LINK(name, letter, text) qn__sampler_##name,
static void (*const links[QN_SAMPLER_COUNT])(qn_sampler *s) = {QN_SAMPLER_ROWS(LINK)};
#undef LINK

_Static_assert(sizeof(qn_candidate) <= 2 * sizeof(uint64_t), "reported candidates lie in cands.tmp");

static qn_status init_sampler(qn_sampler *s, const qn_sampler_params *params, int32_t n_vocab, const qn_tokenizer *tok,
                              qn_error *err)
{
    const char *const *breakers = params->dry_breakers;

    QN_TRY(qn__sampler_resolve(params, n_vocab, s, err));
    s->p.dry_breakers = NULL; /* the caller's; used up here */
    s->p.order = NULL;
    s->p.logit_bias = NULL;
    s->scratch = params->scratch;
    if (!s->scratch) {
        QN_TRY(qn_sampler_scratch_create(n_vocab, &s->own, err));
        s->scratch = s->own;
    }
    s->p.scratch = NULL;
    s->cands = &s->scratch->cands;
    if (s->cands->n_vocab != n_vocab)
        return QN_FAIL(err, invalid, "sampler: n_vocab is %d, that of its scratch %d", (int)n_vocab,
                       (int)s->cands->n_vocab);
    if (s->p.n_logit_bias > 0) {
        const size_t bytes = (size_t)s->p.n_logit_bias * sizeof *s->p.logit_bias;
        qn_logit_bias *copy = qn__arena_alloc(&s->arena, bytes);
        if (!copy) return QN_FAIL_NOMEM(err, bytes);
        s->p.logit_bias = memcpy(copy, params->logit_bias, bytes);
    }
    QN_TRY(qn__sampler_init_history(s, err));
    QN_TRY(qn__sampler_init_dry(s, breakers, tok, err));
    s->out = (qn_candidate *)(void *)s->cands->tmp[0];
    s->seed = s->p.seed ? s->p.seed : qn__sampler_os_seed();
    qn_sampler_reset(s);
    return QN_OK;
}

/* Of the one block of its arena. */
uint64_t qn__sampler_scratch_bytes(int32_t n_vocab)
{
    enum { ARRAYS = 6 }; /* of them, the scratch included, each begins at a boundary */
    return sizeof(qn_sampler_scratch) + qn__cands_bytes(n_vocab) + ARRAYS * QN_ALIGN_CPU;
}

qn_status qn_sampler_scratch_create(int32_t n_vocab, qn_sampler_scratch **out, qn_error *err)
{
    qn_arena arena;
    if (n_vocab < 1 || n_vocab > QN_SAMPLER_MAX_VOCAB)
        return QN_FAIL(err, invalid, "sampler: n_vocab is %d, 1 to %d expected", (int)n_vocab, QN_SAMPLER_MAX_VOCAB);
    qn__arena_init(&arena, (size_t)qn__sampler_scratch_bytes(n_vocab));
    qn_sampler_scratch *scratch = qn__arena_alloc(&arena, sizeof *scratch);
    if (!scratch || !qn__cands_init(&scratch->cands, n_vocab, &arena)) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, (size_t)qn__sampler_scratch_bytes(n_vocab));
    }
    scratch->arena = arena;
    qn__mutex_init(&scratch->lock);
    *out = scratch;
    return QN_OK;
}

void qn_sampler_scratch_destroy(qn_sampler_scratch *scratch)
{
    if (!scratch) return;
    qn_arena arena = scratch->arena; /* it lives in it */
    qn__dry_free_tables(scratch);
    qn__mutex_deinit(&scratch->lock);
    qn__arena_deinit(&arena);
}

qn_status qn_sampler_create(const qn_sampler_params *params, int32_t n_vocab, const qn_tokenizer *tok, qn_sampler **out,
                            qn_error *err)
{
    static const qn_sampler_params defaults;
    qn_arena arena;

    if (!out) return QN_FAIL(err, invalid, "sampler: out is NULL");
    if (n_vocab < 1 || n_vocab > QN_SAMPLER_MAX_VOCAB)
        return QN_FAIL(err, invalid, "sampler: n_vocab is %d, 1 to %d expected", (int)n_vocab, QN_SAMPLER_MAX_VOCAB);

    qn__arena_init(&arena, 0);
    qn_sampler *s = qn__arena_alloc(&arena, sizeof *s);
    if (!s) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *s);
    }
    s->arena = arena;
    const qn_status status = init_sampler(s, params ? params : &defaults, n_vocab, tok, err);
    if (status == QN_OK)
        *out = s;
    else
        qn_sampler_destroy(s);
    return status;
}

void qn_sampler_destroy(qn_sampler *s)
{
    if (!s) return;
    qn_arena arena = s->arena; /* s lives in it */
    qn__dry_deinit(&s->dry);
    qn_sampler_scratch_destroy(s->own);
    qn__arena_deinit(&arena);
}

void qn__sampler_use(qn_sampler *s, qn_sampler_scratch *scratch)
{
    s->scratch = scratch;
    s->cands = &scratch->cands;
    s->out = (qn_candidate *)(void *)s->cands->tmp[0];
    s->has_cands = false;
}

uint64_t qn_sampler_seed(const qn_sampler *s) { return s->seed; }

void qn_sampler_reset(qn_sampler *s)
{
    qn__sampler_forget(s);
    qn__rng_seed(&s->rng, s->seed);
    s->mu = 2.0 * s->p.mirostat_tau;
    s->chosen = QN_TOKEN_NONE;
    s->has_cands = false;
}

static void add_bias(qn_sampler *s)
{
    for (int32_t i = 0; i < s->p.n_logit_bias; i++) {
        const qn_logit_bias *b = &s->p.logit_bias[i];
        const float old = s->cands->dense[b->token];
        double v = (double)old + b->bias;
        if (old > -INFINITY && b->bias > -INFINITY && v < -FLT_MAX) v = -FLT_MAX; /* only a ban bans */
        qn__cands_set(s->cands, b->token, qn__cands_clean(v));
    }
}

qn_status qn_sampler_sample(qn_sampler *s, const float *logits, qn_token *out, qn_error *err)
{
    return qn_sampler_sample_masked(s, logits, NULL, out, err);
}

static qn_status sample(qn_sampler *s, const float *logits, const uint32_t *mask, qn_token *out, qn_error *err)
{
    s->chosen = QN_TOKEN_NONE;
    s->has_cands = s->reported = false;
    if (!logits || !out) return QN_FAIL(err, invalid, "sampler: %s is NULL", logits ? "out" : "logits");

    s->scratch->last = s;
    qn__cands_load(s->cands, logits, mask);
    add_bias(s);
    if (!(qn__cands_max(s->cands) > -INFINITY))
        return QN_FAIL(err, invalid, "sampler: all %d logits are -inf or NaN%s%s, at least one finite expected",
                       (int)s->cands->n_vocab, s->p.n_logit_bias > 0 ? " or banned" : "", mask ? " or masked" : "");

    for (int i = 0; i < s->n_chain; i++) links[s->chain[i]](s);
    if (s->p.greedy)
        qn__cands_keep_top(s->cands, 1);
    else if (s->p.mirostat > 0)
        qn__sampler_mirostat(s);

    s->chosen = qn__cands_draw(s->cands, s->p.greedy ? 0 : qn__rng_unit(&s->rng), &s->chosen_p);
    s->has_cands = true;
    *out = s->chosen;
    return QN_OK;
}

qn_status qn_sampler_sample_masked(qn_sampler *s, const float *logits, const uint32_t *mask, qn_token *out,
                                   qn_error *err)
{
    const int64_t start = qn__now_ns();
    const uint64_t began = qn__trace_begin();
    const qn_status status = sample(s, logits, mask, out, err);
    qn__trace_end(QN_TRACE_sample, began);
    QN_OBSERVE(sample, qn__now_ns() - start);
    return status;
}

void qn_sampler_accept(qn_sampler *s, qn_token token)
{
    if (token < 0 || token >= s->cands->n_vocab) return;
    if (s->p.mirostat > 0 && !s->p.greedy && token == s->chosen) qn__sampler_mirostat_learn(s);
    s->chosen = QN_TOKEN_NONE;
    qn__sampler_remember(s, token);
}

/* Sorted and weighed only here: a draw from a whole vocabulary needs neither. From the last to the first, because `out`
 * lies over the weights and its entries are larger. */
static void report(qn_sampler *s)
{
    qn_cands *c = s->cands;

    qn__cands_sort(c);
    const qn_softmax sm = qn__cands_softmax(c);
    const double inv_temp = 1.0 / c->temp, inv_sum = 1.0 / sm.sum;
    for (size_t i = c->n; i-- > 0;) {
        double w;
        memcpy(&w, (const char *)s->out + i * sizeof w, sizeof w);
        const double logit = qn__key_logit(c->keys[i]) * inv_temp;
        s->out[i] = (qn_candidate){
            .token = (qn_token)qn__key_id(c->keys[i]),
            .logit = (float)(logit < -FLT_MAX  ? -FLT_MAX
                             : logit > FLT_MAX ? FLT_MAX
                                               : logit),
            .p = (float)(w * inv_sum),
        };
    }
    s->reported = true;
}

const qn_candidate *qn_sampler_candidates(const qn_sampler *s, size_t *n)
{
    *n = 0;
    if (!s->has_cands || s->scratch->last != s) return NULL; /* or another sampler took the room */
    if (!s->reported) report((qn_sampler *)s);               /* const to the caller; the object never is */
    *n = s->cands->n;
    return s->out;
}
