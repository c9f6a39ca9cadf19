/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/sdpa_back.c -- the gradient of attention over whole tensors, see graph/ops/sdpa.h and sdpa.h.
 *
 * With p = exp(s - lse) and delta = dy . y, the gradient of a score is ds = p (dy . v - delta), and
 *     dq = scale * ds k        dk = scale * ds^T q        dv = p^T dy
 * Scores are computed again, a tile at a time. Phase 0 packs keys and values in transposed panels and keys in rows
 * of whole lanes, and sums the deltas. Phase 1: an item is a head of k and v with all that reads it, so that one
 * thread adds up dk and dv: over the heads of q, then blocks of rows, then rows. Where there are few heads, their
 * readers are divided into parts, whose sums phase 2 adds in order; the number of parts depends on the sizes alone. */
#include "cpu/op/attention/sdpa.h"

#include "cpu/op/ops.h"

#include <math.h>

enum {
    ROWS = 48,
    DELTAS = 64, /* rows of an item of phase 0 */
    ITEMS = 16,  /* items of phase 1 wanted, as long as memory stays below MOST_PARTS times dk and dv */
    MOST_PARTS = 8,
};

static int64_t floats_of_row(const qn_sdpa_geo *g) { return 2 * g->dp + g->dvp + 3 * QN_SDPA_TILE; }

static qn_sdpa_geo geo_of(const qn_node *node)
{
    qn_sdpa_geo g = qn__sdpa_geo(node);
    qn__sdpa_cut(&g, ROWS, floats_of_row(&g));
    return g;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    return qn__cpu_op_sdpa.accepts(kernels, node, err);
}

/* The number of parts that the blocks of rows reading a head are divided into. */
static int64_t parts_of(const qn_sdpa_geo *g)
{
    const int64_t heads = g->s.batch * g->s.kv_heads, blocks = g->group * g->blocks,
                  want = heads > 0 ? (ITEMS + heads - 1) / heads : 1;
    const int64_t most = blocks < MOST_PARTS ? blocks : MOST_PARTS;
    return want < most ? want : most > 1 ? most : 1;
}

/* ---- scratch: for each head of k and v ---- */

/* offsets in floats; dk and dv: of all parts */
typedef struct rooms {
    int64_t kt, vt, k, dk, dv, all;
} rooms;

/* Sums that have whole lanes and a single part are computed in the result itself. */
static bool in_place(const qn_sdpa_geo *g, int64_t size) { return size % 16 == 0 && parts_of(g) == 1; }

static rooms rooms_of(const qn_sdpa_geo *g)
{
    const int64_t padded = g->panels * QN_SDPA_PANEL, m = g->s.m, parts = parts_of(g);
    rooms r = {.vt = padded * g->s.d};
    r.k = r.vt + padded * g->s.dv;
    r.dk = r.k + m * g->dp;
    r.dv = r.dk + (in_place(g, g->s.d) ? 0 : parts * m * g->dp);
    r.all = r.dv + (in_place(g, g->s.dv) ? 0 : parts * m * g->dvp);
    return r;
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    const qn_sdpa_geo g = geo_of(node);
    /* never 0, since pointers into it are made */
    return node->dtype == QN_DTYPE_F64 ? 0 : (uint64_t)(g.s.batch * g.s.kv_heads * rooms_of(&g).all) * 4 + 4;
}

static int64_t delta_items(const qn_sdpa_geo *g) { return g->s.batch * g->s.heads * ((g->s.n + DELTAS - 1) / DELTAS); }

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    const qn_sdpa_geo g = geo_of(node);
    *chunk = 1;
    if (node->dtype == QN_DTYPE_F64) return phase == 1 ? g.s.batch * g.s.kv_heads : 0;
    if (phase == 1) return g.s.batch * g.s.kv_heads * parts_of(&g);
    if (phase == 2) {
        *chunk = qn__chunk_of(8192, QN_SDPA_PANEL * (g.dp + g.dvp) * parts_of(&g));
        return in_place(&g, g.s.d) && in_place(&g, g.s.dv) ? 0 : g.s.batch * g.s.kv_heads * g.panels;
    }
    *chunk = qn__chunk_of(8192, QN_SDPA_PANEL * (g.s.d + g.s.dv));
    return g.s.batch * g.s.kv_heads * g.panels + delta_items(&g);
}

/* ---- phase 0 ---- */

static void pack(const qn_task *t, const qn_sdpa_geo *g, int64_t item)
{
    const rooms at = rooms_of(g);
    const int64_t which = item / g->panels, panel = item % g->panels, batch = which / g->s.kv_heads,
                  head = which % g->s.kv_heads;
    const int64_t first = panel * QN_SDPA_PANEL, n = g->s.m - first < QN_SDPA_PANEL ? g->s.m - first : QN_SDPA_PANEL;
    float *room = (float *)(void *)t->scratch + which * at.all;
    qn__sdpa_panel(t, &t->src[1], batch, head, panel, room + first * g->s.d);
    qn__sdpa_panel(t, &t->src[2], batch, head, panel, room + at.vt + first * g->s.dv);
    qn__sdpa_rows(t, &t->src[1], batch, head, first, n, 1, room + at.k + first * g->dp, g->dp);
}

static void sum_deltas(const qn_task *t, const qn_sdpa_geo *g, int64_t item)
{
    const int64_t per_head = (g->s.n + DELTAS - 1) / DELTAS, which = item / per_head, first = item % per_head * DELTAS;
    const int64_t batch = which / g->s.heads, head = which % g->s.heads,
                  end = first + DELTAS < g->s.n ? first + DELTAS : g->s.n;
    const qn_layout *y = &g->parts.y, *dy = &t->src[4].layout;
    const bool whole = dy->rank == 1; /* the gradient of y and lse */
    const int64_t all = t->src[3].layout.stride[0], step = whole ? dy->stride[0] : dy->dim[3] > 1 ? dy->stride[3] : 1;
    const float *result = (const float *)(const void *)t->src[3].data,
                *from = (const float *)(const void *)t->src[4].data;
    float *delta = (float *)(void *)t->dst.data + g->parts.delta.offset + which * g->s.n;
    for (int64_t i = first; i < end; i++) {
        const int64_t row = batch * y->stride[0] + head * y->stride[1] + i * y->stride[2];
        const float *a = result + row * all,
                    *b = from + (whole ? row * step : batch * dy->stride[0] + head * dy->stride[1] + i * dy->stride[2]);
        if (step != 1) {
            qn__move(4, t->tile, 1, b, step, g->s.dv);
            b = t->tile;
        }
        if (all != 1) {
            qn__move(4, t->tile + g->dvp, 1, a, all, g->s.dv);
            a = t->tile + g->dvp;
        }
        delta[i] = t->kernels->dot_f32(a, b, g->s.dv);
        if (whole) delta[i] -= from[(g->parts.lse.offset + which * g->s.n + i) * step];
    }
}

/* ---- phase 1 ---- */

typedef struct block {
    float *q, *dy, *dq, *p, *ds, *tanh; /* parts of the thread's tile */
    const float *kt, *vt, *k;
    float *dk, *dv;
    int64_t dk_stride, dv_stride;
    int64_t batch, head, first, n; /* rows */
} block;

/* Replaces the scores in p, and dy . v in ds, of keys [key, key + n) by p and ds as defined above. */
static void differentiate(const qn_task *t, const qn_sdpa_geo *g, const block *b, int64_t key, int64_t n)
{
    const int64_t at = (b->batch * g->s.heads + b->head) * g->s.n + b->first;
    const int64_t all = t->src[3].layout.stride[0];
    const float *lse = (const float *)(const void *)t->src[3].data + (g->parts.lse.offset + at) * all;
    const float *delta = (const float *)(const void *)t->dst.data + g->parts.delta.offset + at;
    const bool capped = g->attrs->softcap > 0;
    for (int64_t r = 0; r < b->n; r++) {
        float *p = b->p + r * QN_SDPA_TILE, *ds = b->ds + r * QN_SDPA_TILE;
        int64_t lo, hi;
        qn__sdpa_sees(g, b->first + r, &lo, &hi);
        lo = lo > key ? lo - key : 0;
        hi = hi - key < n ? hi - key : n;
        if (lo > hi) lo = hi = 0;
        if (lo < hi) {
            qn__sdpa_refine(t, g, g->attrs->has_mask ? &t->src[5] : NULL, b->batch, b->head, b->first + r, key + lo,
                            hi - lo, p + lo, b->tanh);
            (void)t->kernels->exp_sum_f32(p + lo, p + lo, lse[r * all], hi - lo);
            t->kernels->scale_f32(ds + lo, ds + lo, 1, -delta[r], hi - lo);
            t->kernels->mul_f32(ds + lo, ds + lo, p + lo, hi - lo);
            for (int64_t c = 0; c < hi - lo && capped; c++) ds[lo + c] *= 1 - b->tanh[c] * b->tanh[c];
        }
        memset(p, 0, (size_t)lo * 4);
        memset(ds, 0, (size_t)lo * 4);
        memset(p + hi, 0, (size_t)(n - hi) * 4);
        memset(ds + hi, 0, (size_t)(n - hi) * 4);
    }
}

/* y[key][..] += sum over the block's rows of p(row, key) x(row, ..) */
static void add_transposed(const qn_task *t, const block *b, const float *p, int64_t n, const float *x, int64_t lanes,
                           float *y, int64_t y_stride)
{
    t->kernels->outer_f32(&(qn_outer){
        .y = y,
        .a = p,
        .b = x,
        .y_stride = y_stride,
        .a_out = 1,
        .a_in = QN_SDPA_TILE,
        .b_stride = lanes,
        .n_lanes = lanes,
        .n_out = n,
        .n_in = b->n,
        .mode = QN_OUTER_go_on,
    });
}

static void block_back(const qn_task *t, const qn_sdpa_geo *g, const block *b)
{
    int64_t lo, hi, skip;
    qn__sdpa_sees(g, b->first, &lo, &skip);
    qn__sdpa_sees(g, b->first + b->n - 1, &skip, &hi);
    const float scale = (float)g->attrs->scale;
    const qn_view *dy = &t->src[4];
    qn_view rows = *dy;
    if (dy->layout.rank == 1) { /* the part of y */
        rows.layout = g->parts.y;
        for (int i = 0; i < 4; i++) rows.layout.stride[i] *= dy->layout.stride[0];
    }
    qn__sdpa_rows(t, &t->src[0], b->batch, b->head, b->first, b->n, scale, b->q, g->dp);
    qn__sdpa_rows(t, &rows, b->batch, b->head, b->first, b->n, 1, b->dy, g->dvp);
    memset(b->dq, 0, (size_t)(b->n * g->dp) * 4);
    for (int64_t key = lo / QN_SDPA_TILE * QN_SDPA_TILE; key < hi; key += QN_SDPA_TILE) {
        const int64_t n = hi - key < QN_SDPA_TILE ? hi - key : QN_SDPA_TILE;
        qn__sdpa_scores(t, b->q, g->dp, b->n, b->kt, g->s.d, key, n, b->p);
        qn__sdpa_scores(t, b->dy, g->dvp, b->n, b->vt, g->s.dv, key, n, b->ds);
        differentiate(t, g, b, key, n);
        add_transposed(t, b, b->p, n, b->dy, g->dvp, b->dv + key * b->dv_stride, b->dv_stride);
        add_transposed(t, b, b->ds, n, b->q, g->dp, b->dk + key * b->dk_stride, b->dk_stride);
        t->kernels->outer_f32(&(qn_outer){
            .y = b->dq,
            .a = b->ds,
            .b = b->k + key * g->dp,
            .y_stride = g->dp,
            .a_out = QN_SDPA_TILE,
            .a_in = 1,
            .b_stride = g->dp,
            .n_lanes = g->dp,
            .n_out = b->n,
            .n_in = n,
            .mode = QN_OUTER_go_on,
        });
    }
    float *dq = (float *)(void *)t->dst.data + b->batch * g->parts.dq.stride[0] + b->head * g->parts.dq.stride[1];
    for (int64_t r = 0; r < b->n; r++)
        t->kernels->mul_scale_f32(dq + (b->first + r) * g->parts.dq.stride[2], b->dq + r * g->dp, NULL, scale, g->s.d);
}

static void clear_rows(float *y, int64_t stride, int64_t n, int64_t size)
{
    for (int64_t i = 0; i < n; i++) memset(y + i * stride, 0, (size_t)size * 4);
}

/* The first row of a head in a part of the result. */
static float *head_of(const qn_task *t, const qn_layout *l, int64_t batch, int64_t head)
{
    return (float *)(void *)t->dst.data + l->offset + batch * l->stride[0] + head * l->stride[1];
}

static void part_back(const qn_task *t, const qn_sdpa_geo *g, block *b, int64_t item)
{
    const rooms at = rooms_of(g);
    const qn_layout *dk = &g->parts.dk, *dv = &g->parts.dv;
    const int64_t parts = parts_of(g), part = item % parts, which = item / parts, kv_head = which % g->s.kv_heads,
                  units = g->group * g->blocks;
    float *room = (float *)(void *)t->scratch + which * at.all;
    b->batch = which / g->s.kv_heads;
    b->kt = room;
    b->vt = room + at.vt;
    b->k = room + at.k;
    b->dk = in_place(g, g->s.d) ? head_of(t, dk, b->batch, kv_head) : room + at.dk + part * g->s.m * g->dp;
    b->dv = in_place(g, g->s.dv) ? head_of(t, dv, b->batch, kv_head) : room + at.dv + part * g->s.m * g->dvp;
    b->dk_stride = in_place(g, g->s.d) ? dk->stride[2] : g->dp;
    b->dv_stride = in_place(g, g->s.dv) ? dv->stride[2] : g->dvp;
    clear_rows(b->dk, b->dk_stride, g->s.m, g->dp);
    clear_rows(b->dv, b->dv_stride, g->s.m, g->dvp);
    for (int64_t u = units * part / parts; u < units * (part + 1) / parts; u++) {
        b->head = kv_head * g->group + u / g->blocks;
        b->first = u % g->blocks * g->rows;
        b->n = g->s.n - b->first < g->rows ? g->s.n - b->first : g->rows;
        block_back(t, g, b);
    }
}

/* ---- phase 2 ---- */

/* Rows [first, first + n) of y = the sum over all parts, in order. */
static void add_parts(const qn_task *t, const qn_sdpa_geo *g, float *y, int64_t y_stride, const float *x,
                      int64_t x_stride, int64_t size, int64_t first, int64_t n)
{
    const int64_t parts = parts_of(g), part_stride = g->s.m * x_stride;
    for (int64_t i = first; i < first + n; i++) {
        memcpy(y + i * y_stride, x + i * x_stride, (size_t)size * 4);
        for (int64_t p = 1; p < parts; p++)
            t->kernels->add_f32(y + i * y_stride, y + i * y_stride, x + p * part_stride + i * x_stride, size);
    }
}

static void whole_back(const qn_task *t, const qn_sdpa_geo *g, int64_t item)
{
    const rooms at = rooms_of(g);
    const int64_t which = item / g->panels, first = item % g->panels * QN_SDPA_PANEL, batch = which / g->s.kv_heads,
                  head = which % g->s.kv_heads;
    const int64_t n = g->s.m - first < QN_SDPA_PANEL ? g->s.m - first : QN_SDPA_PANEL;
    const float *room = (const float *)(const void *)t->scratch + which * at.all;
    const qn_layout *dk = &g->parts.dk, *dv = &g->parts.dv;
    if (!in_place(g, g->s.d))
        add_parts(t, g, head_of(t, dk, batch, head), dk->stride[2], room + at.dk, g->dp, g->s.d, first, n);
    if (!in_place(g, g->s.dv))
        add_parts(t, g, head_of(t, dv, batch, head), dv->stride[2], room + at.dv, g->dvp, g->s.dv, first, n);
}

static void run(const qn_task *t)
{
    const qn_sdpa_geo g = geo_of(t->node);
    if (t->dst.dtype == QN_DTYPE_F64) {
        for (int64_t item = t->begin; item < t->end; item++) qn__sdpa_back_wide(t, &g, item);
        return;
    }
    if (t->phase == 0) {
        const int64_t packs = g.s.batch * g.s.kv_heads * g.panels;
        for (int64_t item = t->begin; item < t->end; item++) {
            if (item < packs)
                pack(t, &g, item);
            else
                sum_deltas(t, &g, item - packs);
        }
        return;
    }
    if (t->phase == 2) {
        for (int64_t item = t->begin; item < t->end; item++) whole_back(t, &g, item);
        return;
    }
    block b = {.q = t->tile};
    b.dy = b.q + g.rows * g.dp;
    b.dq = b.dy + g.rows * g.dvp;
    b.p = b.dq + g.rows * g.dp;
    b.ds = b.p + g.rows * QN_SDPA_TILE;
    b.tanh = b.ds + g.rows * QN_SDPA_TILE;
    for (int64_t item = t->begin; item < t->end; item++) part_back(t, &g, &b, item);
}

const qn_cpu_op qn__cpu_op_sdpa_back = {QN_OP_sdpa_back, accepts, scratch, 3, items, run};
