/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/sdpa_wide.c -- attention over whole tensors and its gradient in F64, by plain loops: for
 * checking other implementations. */
#include "cpu/op/attention/sdpa.h"

#include <math.h>

typedef struct place {
    const qn_sdpa_geo *g;
    const qn_view *q, *k, *v, *mask;
    int64_t batch, head, kv_head;
} place;

static place place_of(const qn_task *t, const qn_sdpa_geo *g, int64_t batch, int64_t head, int mask)
{
    return (place){g,     &t->src[0], &t->src[1],     &t->src[2], g->attrs->has_mask ? &t->src[mask] : NULL,
                   batch, head,       head / g->group};
}

static double number(const uint8_t *p, int64_t at)
{
    double x;
    memcpy(&x, p + at * 8, 8);
    return x;
}

static double dot(const uint8_t *a, int64_t a_step, const uint8_t *b, int64_t b_step, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum = fma(number(a, i * a_step), number(b, i * b_step), sum);
    return sum;
}

static void add_row(double *y, double factor, const uint8_t *x, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fma(factor, number(x, i * step), y[i]);
}

/* The score of row i and key j; *slope: the derivative of the score by the scaled product. */
static double score(const place *p, int64_t i, int64_t j, double *slope)
{
    int64_t q_step, k_step, m_step;
    const uint8_t *q = qn__sdpa_row(p->q, p->batch, p->head, i, &q_step),
                  *k = qn__sdpa_row(p->k, p->batch, p->kv_head, j, &k_step);
    double s = p->g->attrs->scale * dot(q, q_step, k, k_step, p->g->s.d);
    const double cap = p->g->attrs->softcap;
    *slope = 1;
    if (cap > 0) {
        const double bent = tanh(s / cap);
        *slope = 1 - bent * bent;
        s = cap * bent;
    }
    if (p->mask == NULL) return s;
    const uint8_t *m = qn__sdpa_mask(p->mask, p->batch, p->head, i, j, &m_step);
    return p->mask->dtype != QN_DTYPE_BOOL ? s + number(m, 0) : *m ? s : -INFINITY;
}

static void attend(const qn_task *t, const place *p, int64_t i, double *y, double *lse)
{
    const qn_sdpa_geo *g = p->g;
    int64_t lo, hi, step;
    double max = -INFINITY, sum = 0, slope;
    qn__sdpa_sees(g, i, &lo, &hi);
    for (int64_t j = lo; j < hi; j++) max = fmax(max, score(p, i, j, &slope));
    if (g->attrs->has_sinks) {
        const qn_view *sinks = &t->src[t->n_src - 1];
        const double sink = number(sinks->data, p->head * sinks->layout.stride[0]);
        max = fmax(max, sink);
        sum = exp(sink - max);
    }
    memset(y, 0, (size_t)g->s.dv * 8);
    if (max == -INFINITY) max = 0;
    for (int64_t j = lo; j < hi; j++) {
        const double e = exp(score(p, i, j, &slope) - max);
        const uint8_t *v = qn__sdpa_row(p->v, p->batch, p->kv_head, j, &step);
        sum += e;
        add_row(y, e, v, step, g->s.dv);
    }
    *lse = sum == 0 ? INFINITY : max + log(sum);
    for (int64_t c = 0; c < g->s.dv && sum != 0; c++) y[c] /= sum;
}

void qn__sdpa_wide(const qn_task *t, const qn_sdpa_geo *g, int64_t item)
{
    const place p = place_of(t, g, item / g->s.heads, item % g->s.heads, 3);
    double *dst = (double *)(void *)t->dst.data, *lse = dst + g->parts.lse.offset + item * g->s.n;
    const qn_layout *y = &g->parts.y;
    for (int64_t i = 0; i < g->s.n; i++)
        attend(t, &p, i, dst + p.batch * y->stride[0] + p.head * y->stride[1] + i * y->stride[2], &lse[i]);
}

/* Computes dq of row i of one head and adds to dk and dv, whose rows start at key 0. */
static void row_back(const qn_task *t, const place *p, int64_t i, double *dk, double *dv)
{
    const qn_sdpa_geo *g = p->g;
    const qn_layout *y = &g->parts.y, *l = &t->src[4].layout;
    const int64_t all = t->src[3].layout.stride[0], at = (p->batch * g->s.heads + p->head) * g->s.n + i;
    const int64_t row = p->batch * y->stride[0] + p->head * y->stride[1] + i * y->stride[2];
    const bool whole = l->rank == 1;
    double *dst = (double *)(void *)t->dst.data,
           *dq = dst + p->batch * g->parts.dq.stride[0] + p->head * g->parts.dq.stride[1] + i * g->parts.dq.stride[2];
    int64_t dy_step = whole ? l->stride[0] : 1, q_step, k_step, v_step, lo, hi;
    const uint8_t *dy =
        whole ? t->src[4].data + row * dy_step * 8 : qn__sdpa_row(&t->src[4], p->batch, p->head, i, &dy_step);
    const uint8_t *q = qn__sdpa_row(p->q, p->batch, p->head, i, &q_step);
    const double lse = number(t->src[3].data, (g->parts.lse.offset + at) * all);
    double delta = dot(t->src[3].data + row * all * 8, all, dy, dy_step, g->s.dv);
    if (whole) delta -= number(t->src[4].data, (g->parts.lse.offset + at) * dy_step);
    dst[g->parts.delta.offset + at] = delta;
    memset(dq, 0, (size_t)g->s.d * 8);
    qn__sdpa_sees(g, i, &lo, &hi);
    for (int64_t j = lo; j < hi; j++) {
        double slope;
        const double e = exp(score(p, i, j, &slope) - lse);
        const uint8_t *k = qn__sdpa_row(p->k, p->batch, p->kv_head, j, &k_step),
                      *v = qn__sdpa_row(p->v, p->batch, p->kv_head, j, &v_step);
        const double ds = e * (dot(dy, dy_step, v, v_step, g->s.dv) - delta) * slope * g->attrs->scale;
        add_row(dq, ds, k, k_step, g->s.d);
        add_row(dk + j * g->parts.dk.stride[2], ds, q, q_step, g->s.d);
        add_row(dv + j * g->parts.dv.stride[2], e, dy, dy_step, g->s.dv);
    }
}

void qn__sdpa_back_wide(const qn_task *t, const qn_sdpa_geo *g, int64_t item)
{
    const int64_t batch = item / g->s.kv_heads, kv_head = item % g->s.kv_heads;
    const qn_layout *k = &g->parts.dk, *v = &g->parts.dv;
    double *dst = (double *)(void *)t->dst.data;
    double *dk = dst + k->offset + batch * k->stride[0] + kv_head * k->stride[1],
           *dv = dst + v->offset + batch * v->stride[0] + kv_head * v->stride[1];
    for (int64_t j = 0; j < g->s.m; j++) {
        memset(dk + j * k->stride[2], 0, (size_t)g->s.d * 8);
        memset(dv + j * v->stride[2], 0, (size_t)g->s.dv * 8);
    }
    for (int64_t h = 0; h < g->group; h++) {
        const place p = place_of(t, g, batch, kv_head * g->group + h, 5);
        for (int64_t i = 0; i < g->s.n; i++) row_back(t, &p, i, dk, dv);
    }
}
