/* SPDX-License-Identifier: MIT */
/* src/text/sampler/cands.c -- the candidate set: what each operation does to the dense form and to a list. */
#include "text/sampler/cands.h"
#include "text/sampler/sweep.h"

#include <float.h>
#include <math.h>

#define BLOCK QN_CANDS_BLOCK

uint64_t qn__cands_bytes(int32_t n_vocab)
{
    const uint64_t n = (uint64_t)n_vocab, n_blocks = (n + BLOCK - 1) / BLOCK;
    const qn_cands *c = NULL;
    return n_blocks * (BLOCK * sizeof *c->dense + sizeof *c->block_max + sizeof *c->block_sum) +
           (n + 1) * sizeof *c->keys + n * 2 * sizeof *c->tmp[0];
}

bool qn__cands_init(qn_cands *c, int32_t n_vocab, qn_arena *arena)
{
    c->n_vocab = n_vocab;
    c->n_blocks = (n_vocab + BLOCK - 1) / BLOCK;
    c->temp = 1;
    c->dense = qn__arena_alloc_aligned(arena, (size_t)c->n_blocks * BLOCK * sizeof *c->dense, QN_ALIGN_CPU);
    c->block_max = qn__arena_array(arena, (size_t)c->n_blocks, sizeof *c->block_max);
    c->block_sum = qn__arena_array(arena, (size_t)c->n_blocks, sizeof *c->block_sum);
    c->keys = qn__arena_array(arena, (size_t)n_vocab + 1, sizeof *c->keys);
    c->tmp[0] = qn__arena_array(arena, (size_t)n_vocab * 2, sizeof *c->tmp[0]);
    c->tmp[1] = c->tmp[0] ? c->tmp[0] + n_vocab : NULL;
    return c->dense && c->block_max && c->block_sum && c->keys && c->tmp[0];
}

float qn__cands_clean(double logit)
{
    const float v = logit < FLT_MAX ? (float)logit : FLT_MAX;
    return logit == logit ? v + 0.0f : -INFINITY; /* -0 becomes +0 */
}

void qn__cands_load(qn_cands *c, const float *logits, const uint32_t *mask)
{
    const int32_t whole = c->n_vocab / BLOCK;

    for (int32_t b = 0; b < whole; b++) {
        const size_t at = (size_t)b * BLOCK;
        if (mask && (mask[at / 32] & mask[at / 32 + 1]) != UINT32_MAX)
            c->block_max[b] = qn__sweep_load_masked(c->dense + at, logits + at, mask + at / 32);
        else
            c->block_max[b] = qn__sweep_load(c->dense + at, logits + at);
    }
    for (int32_t b = whole; b < c->n_blocks; b++) { /* the last one is not whole */
        const size_t at = (size_t)b * BLOCK;
        float some[BLOCK];
        for (size_t i = 0; i < BLOCK; i++) {
            const size_t t = at + i;
            const bool there = t < (size_t)c->n_vocab && (!mask || mask[t / 32] >> t % 32 & 1);
            some[i] = there ? logits[t] : -INFINITY;
        }
        c->block_max[b] = qn__sweep_load(c->dense + at, some);
    }
    c->form = QN_CANDS_dense;
    c->n = 0;
    c->temp = 1;
}

void qn__cands_set(qn_cands *c, qn_token token, float logit)
{
    const int32_t b = token / BLOCK;
    const float old = c->dense[token];

    c->dense[token] = logit;
    if (logit >= c->block_max[b])
        c->block_max[b] = logit;
    else if (old == c->block_max[b])
        c->block_max[b] = qn__sweep_max(c->dense + (size_t)b * BLOCK);
}

float qn__cands_max(const qn_cands *c)
{
    float m = -INFINITY;

    if (c->form == QN_CANDS_dense) {
        for (int32_t b = 0; b < c->n_blocks; b++) m = m > c->block_max[b] ? m : c->block_max[b];
    } else if (c->n > 0) {
        uint64_t first = c->keys[0];
        if (c->form != QN_CANDS_by_logit)
            for (size_t i = 1; i < c->n; i++) first = first < c->keys[i] ? first : c->keys[i];
        m = qn__key_logit(first);
    }
    return m;
}

size_t qn__cands_count(const qn_cands *c)
{
    size_t n = 0;

    if (c->form != QN_CANDS_dense) return c->n;
    for (size_t i = 0; i < (size_t)c->n_blocks * BLOCK; i++) n += c->dense[i] > -INFINITY;
    return n;
}

/* Lists what is at `lowest` (finite) or above, by id. */
static void list_from(qn_cands *c, float lowest)
{
    size_t n = 0;

    for (int32_t b = 0; b < c->n_blocks; b++) {
        if (c->block_max[b] < lowest) continue;
        const uint32_t begin = (uint32_t)b * BLOCK;
        const uint32_t end = begin + BLOCK < (uint32_t)c->n_vocab ? begin + BLOCK : (uint32_t)c->n_vocab;
        for (uint32_t i = begin; i < end; i++) { /* keys has one place more than there are tokens */
            c->keys[n] = qn__key(c->dense[i], i);
            n += c->dense[i] >= lowest;
        }
    }
    c->n = n;
    c->form = QN_CANDS_by_id;
}

void qn__cands_list(qn_cands *c)
{
    if (c->form == QN_CANDS_dense) list_from(c, -FLT_MAX);
}

void qn__cands_unlist(qn_cands *c)
{
    c->form = QN_CANDS_dense;
    c->n = 0;
}

void qn__cands_sort(qn_cands *c)
{
    qn__cands_list(c);
    if (c->form != QN_CANDS_by_logit) qn__keys_sort(c->keys, c->tmp[0], c->n, c->form == QN_CANDS_by_id ? 32 : 0);
    c->form = QN_CANDS_by_logit;
}

/* The k-th largest block maximum is a lower bound of the k-th largest logit: k blocks reach it. */
static float bound_of_top(qn_cands *c, size_t k)
{
    uint64_t *maxima = c->tmp[0];
    size_t n = 0;

    for (int32_t b = 0; b < c->n_blocks; b++)
        if (c->block_max[b] > -INFINITY) maxima[n++] = qn__key(c->block_max[b], (uint32_t)b);
    if (k >= n) return -FLT_MAX;
    qn__keys_select(maxima, n, k);
    uint64_t last = maxima[0];
    for (size_t i = 1; i < k; i++) last = last > maxima[i] ? last : maxima[i];
    return qn__key_logit(last);
}

void qn__cands_keep_top(qn_cands *c, size_t k)
{
    if (c->form == QN_CANDS_dense) list_from(c, bound_of_top(c, k));
    if (k < c->n && c->form != QN_CANDS_by_logit) {
        qn__keys_select(c->keys, c->n, k);
        c->form = QN_CANDS_mixed;
    }
    if (k < c->n) c->n = k;
    qn__cands_sort(c);
}

/* The smallest float not below x: comparing a float with it is comparing with x. */
static float float_not_below(double x)
{
    if (!(x > -FLT_MAX)) return -FLT_MAX;
    const float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

void qn__cands_keep_from(qn_cands *c, double lowest, size_t min_keep)
{
    const float limit = float_not_below(lowest);
    const bool was_dense = c->form == QN_CANDS_dense;
    const uint64_t last = qn__key(limit, UINT32_MAX);
    size_t n = 0;

    if (was_dense) {
        list_from(c, limit);
        n = c->n;
    } else {
        for (size_t i = 0; i < c->n; i++) n += c->keys[i] <= last;
    }
    if (n < min_keep) {
        if (was_dense) qn__cands_unlist(c);
        qn__cands_keep_top(c, min_keep);
    } else if (n < c->n) {
        for (size_t i = 0, to = 0; i < c->n; i++)
            if (c->keys[i] <= last) c->keys[to++] = c->keys[i];
        c->n = n;
    }
}

static double list_softmax(const qn_cands *c, double max, double inv_temp, double *sum_wx)
{
    double *w = (double *)(void *)c->tmp[0], sum = 0;
    const size_t even = c->n & ~(size_t)1;

    for (size_t i = 0; i < even; i += 2) {
        qn_v2d x = {qn__key_logit(c->keys[i]), qn__key_logit(c->keys[i + 1])};
        x = (x - max) * inv_temp;
        const qn_v2d y = qn__weight2(&x);
        memcpy(w + i, &y, sizeof y);
        sum = (sum + y[0]) + y[1];
        *sum_wx += y[0] * x[0] + y[1] * x[1];
    }
    if (even < c->n) {
        const double x = (qn__key_logit(c->keys[even]) - max) * inv_temp;
        w[even] = qn__weight(x);
        sum += w[even];
        if (w[even] > 0) *sum_wx += w[even] * x;
    }
    return sum;
}

qn_softmax qn__cands_softmax(qn_cands *c)
{
    const double inv_temp = 1.0 / c->temp;
    qn_softmax sm = {.max = qn__cands_max(c)};
    double sum_wx = 0;

    if (c->form == QN_CANDS_dense) {
        for (int32_t b = 0; b < c->n_blocks; b++) {
            const bool seen = (c->block_max[b] - sm.max) * inv_temp > QN_EXP_LOWEST;
            c->block_sum[b] = seen ? qn__sweep_softmax(c->dense + (size_t)b * BLOCK, sm.max, inv_temp, &sum_wx) : 0;
            sm.sum += c->block_sum[b];
        }
    } else {
        sm.sum = list_softmax(c, sm.max, inv_temp, &sum_wx);
    }
    const double entropy = qn__log(sm.sum) - sum_wx / sm.sum;
    sm.entropy = entropy > 0 ? entropy : 0;
    return sm;
}

/* How many of the list, most likely first, it takes to weigh `mass`; 0 when all of them don't. */
static size_t reach(const qn_cands *c, const qn_softmax *sm, double mass, size_t min_keep)
{
    double sum = 0;

    for (size_t i = 0; i < c->n; i++) {
        sum += qn__cands_weight(c, sm, i);
        if (sum >= mass && i + 1 >= min_keep) return i + 1;
    }
    return 0;
}

/* A logit such that all candidates at or above it weigh `mass`, and few more than needed do: weights are added up in
 * bins of a 32nd of e, the last of which is open. */
static double floor_of_mass(const qn_cands *c, const qn_softmax *sm, double mass)
{
    enum { N_BINS = 1024 };
    double bins[N_BINS] = {0}, sum = 0;
    const double scale = 32 / c->temp;

    for (int32_t b = 0; b < c->n_blocks; b++) {
        if (!(c->block_sum[b] > 0)) continue;
        for (size_t i = (size_t)b * BLOCK; i < (size_t)(b + 1) * BLOCK; i++) {
            const double down = sm->max - c->dense[i], bin = down * scale;
            bins[bin < N_BINS - 1 ? (int)bin : N_BINS - 1] += qn__weight(-down * (1.0 / c->temp));
        }
    }
    for (int i = 0; i < N_BINS - 1; i++) {
        sum += bins[i];
        if (sum >= mass) return sm->max - (i + 1) / scale;
    }
    return -FLT_MAX;
}

void qn__cands_keep_mass(qn_cands *c, double share, size_t min_keep)
{
    const bool dense = c->form == QN_CANDS_dense;

    if (!dense) qn__cands_sort(c);
    const qn_softmax sm = qn__cands_softmax(c);
    const double mass = share * sm.sum;

    if (dense) qn__cands_keep_top(c, 256); /* nearly always enough */
    size_t n = reach(c, &sm, mass, min_keep);
    if (dense && n == 0 && c->n == 256) {
        qn__cands_unlist(c);
        qn__cands_keep_from(c, floor_of_mass(c, &sm, mass), min_keep);
        qn__cands_sort(c);
        n = reach(c, &sm, mass, min_keep);
    }
    if (n > 0) c->n = n; /* else the sum fell short of the mass by rounding, and all of them stay */
}

double qn__cands_sigma(const qn_cands *c)
{
    const double max = qn__cands_max(c);
    double n = 0, sum = 0, sum_sq = 0;

    if (c->form == QN_CANDS_dense) {
        for (int32_t b = 0; b < c->n_blocks; b++)
            n += qn__sweep_moments(c->dense + (size_t)b * BLOCK, max, &sum, &sum_sq);
    } else {
        n = (double)c->n;
        for (size_t i = 0; i < c->n; i++) {
            const double d = qn__key_logit(c->keys[i]) - max;
            sum += d;
            sum_sq += d * d;
        }
    }
    const double mean = sum / n, var = sum_sq / n - mean * mean;
    return var > 0 ? sqrt(var) : 0;
}

static qn_token draw_dense(const qn_cands *c, const qn_softmax *sm, double target, double *w)
{
    double sum = 0;
    int32_t block = -1, last = 0;

    for (int32_t b = 0; b < c->n_blocks && block < 0; b++) {
        if (c->block_sum[b] > 0) last = b;
        if (sum + c->block_sum[b] > target)
            block = b;
        else
            sum += c->block_sum[b];
    }
    if (block < 0) block = last; /* rounding */

    qn_token token = 0;
    for (int i = 0; i < BLOCK; i++) {
        const int32_t id = block * BLOCK + i;
        const double wi = qn__weight((c->dense[id] - sm->max) * (1.0 / c->temp));
        if (wi > 0) {
            token = id;
            *w = wi;
        }
        sum += wi;
        if (wi > 0 && sum > target) break;
    }
    return token;
}

qn_token qn__cands_draw(qn_cands *c, double u, double *p)
{
    if (c->form != QN_CANDS_dense) qn__cands_sort(c);

    const qn_softmax sm = qn__cands_softmax(c);
    const double target = u * sm.sum;
    double w = 1;
    qn_token token;

    if (c->form == QN_CANDS_dense) {
        token = draw_dense(c, &sm, target, &w);
    } else {
        const double *weights = (const double *)(const void *)c->tmp[0];
        double sum = 0;
        size_t i = 0;
        while (i + 1 < c->n && (sum += weights[i]) <= target) i++;
        while (i > 0 && weights[i] == 0) i--; /* rounding */
        token = (qn_token)qn__key_id(c->keys[i]);
        w = weights[i];
    }
    *p = w / sm.sum;
    return token;
}
