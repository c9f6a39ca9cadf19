/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/sdpa.c -- y = softmax(scale q k^T) v, see graph/ops/sdpa.h and sdpa.h.
 *
 * Phase 0 packs each head's keys in transposed panels, and its values in rows of whole lanes. Phase 1: an item is a
 * block of rows of one head with the keys that they see, a tile at a time: scores, their exponentials relative to
 * the highest so far, and sums so far rescaled to it (Milakov and Gimelshein 2018). */
#include "cpu/op/attention/sdpa.h"

#include "cpu/op/ops.h"

#include <math.h>

enum { ROWS = 48 };

static int64_t floats_of_row(const qn_sdpa_geo *g) { return g->s.d + g->dvp + QN_SDPA_TILE + 2; }

static qn_sdpa_geo geo_of(const qn_node *node)
{
    qn_sdpa_geo g = qn__sdpa_geo(node);
    qn__sdpa_cut(&g, ROWS, floats_of_row(&g));
    return g;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    const int64_t d = node->src[0]->layout.dim[3], dv = node->src[2]->layout.dim[3];
    if (d <= QN_SDPA_MAX_SIZE && dv <= QN_SDPA_MAX_SIZE) return true;
    QN_FAIL(err, unsupported, "%s: rows of %lld and %lld numbers, at most %d", qn_node_op_name(node), (long long)d,
            (long long)dv, QN_SDPA_MAX_SIZE);
    return false;
}

static int64_t k_floats(const qn_sdpa_geo *g) { return g->panels * QN_SDPA_PANEL * g->s.d; } /* of a head */
static int64_t v_floats(const qn_sdpa_geo *g) { return g->s.m * g->dvp; }

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    const qn_sdpa_geo g = geo_of(node);
    /* never 0, since pointers into it are made */
    return node->dtype == QN_DTYPE_F64 ? 0
                                       : (uint64_t)(g.s.batch * g.s.kv_heads * (k_floats(&g) + v_floats(&g))) * 4 + 4;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    const qn_sdpa_geo g = geo_of(node);
    *chunk = 1;
    if (node->dtype == QN_DTYPE_F64) return phase == 0 ? 0 : g.s.batch * g.s.heads;
    if (phase == 1) return g.s.batch * g.s.heads * g.blocks;
    *chunk = qn__chunk_of(4096, QN_SDPA_PANEL * (g.s.d + g.s.dv));
    return g.s.batch * g.s.kv_heads * g.panels;
}

static void pack(const qn_task *t, const qn_sdpa_geo *g)
{
    float *k = (float *)(void *)t->scratch, *v = k + g->s.batch * g->s.kv_heads * k_floats(g);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t which = item / g->panels, panel = item % g->panels, batch = which / g->s.kv_heads,
                      head = which % g->s.kv_heads;
        const int64_t first = panel * QN_SDPA_PANEL,
                      n = g->s.m - first < QN_SDPA_PANEL ? g->s.m - first : QN_SDPA_PANEL;
        qn__sdpa_panel(t, &t->src[1], batch, head, panel, k + which * k_floats(g) + first * g->s.d);
        qn__sdpa_rows(t, &t->src[2], batch, head, first, n, 1, v + which * v_floats(g) + first * g->dvp, g->dvp);
    }
}

/* Parts of the thread's tile. */
typedef struct block {
    float *q, *s, *y, *max, *sum;
    int64_t batch, head, first, n; /* rows */
} block;

/* Replaces scores of keys [key, key + n) by exponentials, and rescales rows of y to the new highest score. */
static void soften(const qn_task *t, const qn_sdpa_geo *g, const block *b, int64_t key, int64_t n, bool begun)
{
    for (int64_t r = 0; r < b->n; r++) {
        float *s = b->s + r * QN_SDPA_TILE;
        int64_t lo, hi;
        qn__sdpa_sees(g, b->first + r, &lo, &hi);
        lo = lo > key ? lo - key : 0;
        hi = hi - key < n ? hi - key : n;
        if (lo >= hi) {
            memset(s, 0, (size_t)n * 4);
            continue;
        }
        qn__sdpa_refine(t, g, g->attrs->has_mask ? &t->src[3] : NULL, b->batch, b->head, b->first + r, key + lo,
                        hi - lo, s + lo, NULL);
        const float high = t->kernels->max_f32(s + lo, hi - lo), max = high > b->max[r] ? high : b->max[r];
        const float from = max == -INFINITY ? 0 : max;
        const float sum = t->kernels->exp_sum_f32(s + lo, s + lo, from, hi - lo);
        memset(s, 0, (size_t)lo * 4);
        memset(s + hi, 0, (size_t)(n - hi) * 4);
        float factor = 1;
        if (begun && max != b->max[r]) {
            t->kernels->exp_sum_f32(&factor, &b->max[r], from, 1);
            t->kernels->mul_scale_f32(b->y + r * g->dvp, b->y + r * g->dvp, NULL, factor, g->dvp);
        }
        b->sum[r] = fmaf(b->sum[r], factor, sum);
        b->max[r] = max;
    }
}

/* Divides by the sums, which include the sink, and stores y and lse. */
static void finish(const qn_task *t, const qn_sdpa_geo *g, const block *b)
{
    float *lse =
        (float *)(void *)t->dst.data + g->parts.lse.offset + (b->batch * g->s.heads + b->head) * g->s.n + b->first;
    for (int64_t r = 0; r < b->n; r++) {
        float *y = (float *)(void *)t->dst.data + b->batch * g->parts.y.stride[0] + b->head * g->parts.y.stride[1] +
                   (b->first + r) * g->parts.y.stride[2];
        float max = b->max[r], sum = b->sum[r], factor = 1;
        if (g->attrs->has_sinks) {
            const qn_view *sinks = &t->src[t->n_src - 1];
            const float sink = ((const float *)(const void *)sinks->data)[b->head * sinks->layout.stride[0]],
                        both = sink > max ? sink : max;
            float e[2] = {max, sink};
            t->kernels->exp_sum_f32(e, e, both == -INFINITY ? 0 : both, 2);
            factor = e[0];
            sum = fmaf(sum, factor, e[1]);
            max = both;
        }
        if (sum == 0) { /* nothing seen */
            memset(y, 0, (size_t)g->s.dv * 4);
            lse[r] = INFINITY;
            continue;
        }
        t->kernels->mul_scale_f32(y, b->y + r * g->dvp, NULL, factor / sum, g->s.dv);
        t->kernels->log_f32(&lse[r], &sum, 1);
        lse[r] += max;
    }
}

static void attend(const qn_task *t, const qn_sdpa_geo *g, block *b)
{
    const int64_t kv = b->batch * g->s.kv_heads + b->head / g->group;
    const float *k = (const float *)(const void *)t->scratch + kv * k_floats(g);
    const float *v =
        (const float *)(const void *)t->scratch + g->s.batch * g->s.kv_heads * k_floats(g) + kv * v_floats(g);
    int64_t lo, hi, skip;
    qn__sdpa_sees(g, b->first, &lo, &skip);
    qn__sdpa_sees(g, b->first + b->n - 1, &skip, &hi);
    for (int64_t r = 0; r < b->n; r++) {
        b->max[r] = -INFINITY;
        b->sum[r] = 0;
    }
    qn__sdpa_rows(t, &t->src[0], b->batch, b->head, b->first, b->n, (float)g->attrs->scale, b->q, g->s.d);
    bool begun = false;
    for (int64_t key = lo / QN_SDPA_TILE * QN_SDPA_TILE; key < hi; key += QN_SDPA_TILE, begun = true) {
        const int64_t n = hi - key < QN_SDPA_TILE ? hi - key : QN_SDPA_TILE;
        qn__sdpa_scores(t, b->q, g->s.d, b->n, k, g->s.d, key, n, b->s);
        soften(t, g, b, key, n, begun);
        t->kernels->outer_f32(&(qn_outer){
            .y = b->y,
            .a = b->s,
            .b = v + key * g->dvp,
            .y_stride = g->dvp,
            .a_out = QN_SDPA_TILE,
            .a_in = 1,
            .b_stride = g->dvp,
            .n_lanes = g->dvp,
            .n_out = b->n,
            .n_in = n,
            .mode = begun ? QN_OUTER_go_on : QN_OUTER_set,
        });
    }
    if (!begun) memset(b->y, 0, (size_t)(b->n * g->dvp) * 4); /* no keys: the sink has all weight */
    finish(t, g, b);
}

static void run(const qn_task *t)
{
    const qn_sdpa_geo g = geo_of(t->node);
    if (t->dst.dtype == QN_DTYPE_F64) {
        for (int64_t item = t->begin; item < t->end; item++) qn__sdpa_wide(t, &g, item);
        return;
    }
    if (t->phase == 0) {
        pack(t, &g);
        return;
    }
    block b = {.q = t->tile};
    b.s = b.q + g.rows * g.s.d;
    b.y = b.s + g.rows * QN_SDPA_TILE;
    b.max = b.y + g.rows * g.dvp;
    b.sum = b.max + g.rows;
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t which = item / g.blocks;
        b.first = item % g.blocks * g.rows;
        b.n = g.s.n - b.first < g.rows ? g.s.n - b.first : g.rows;
        b.batch = which / g.s.heads;
        b.head = which % g.s.heads;
        attend(t, &g, &b);
    }
}

const qn_cpu_op qn__cpu_op_sdpa = {QN_OP_sdpa, accepts, scratch, 2, items, run};
