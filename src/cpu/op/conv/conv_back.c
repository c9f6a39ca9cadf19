/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/conv_back.c -- the gradients of convolution, as matrix products like convolution itself (gemm.h).
 *
 * To the source: with stride s, positions i of x with the same remainder of i / s are reached by the same taps k:
 * those with i + padding - k * dilation divisible by s. So x is divided into phases. Each phase is a product [c, o
 * taps] x [o taps, positions] whose matrix is read from y with step 1: no multiplication by the zeros between
 * strides, and no additions into shared memory. To the weight: [o, n positions] x [n positions, c taps], summed over
 * images and positions in order. */
#include "cpu/op/conv/conv.h"

#include "cpu/op/ops.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_real(node, "the first source", node->src[0], err);
}

static void split(const int64_t size[3], int64_t i, int64_t at[3])
{
    at[2] = i % size[2];
    i /= size[2];
    at[1] = i % size[1];
    at[0] = i / size[1];
}

/* ---- to the source --------------------------------------------------------------------------- */

typedef struct phase {
    const qn_conv_geo *geo;
    const uint8_t *w;                                  /* of the group */
    uint8_t *x;                                        /* [c, in..] of the group and image: dense */
    int64_t batch, first_o, c;                         /* c: channels of the group */
    int64_t rest[3];                                   /* i = rest + stride * t */
    int64_t size[3];                                   /* t < size */
    int64_t tap0[3], tap_step[3], n_taps[3], all_taps; /* taps of this phase */
} phase;

/* Phases of each dimension. One that begins behind the end of x has nothing, so that there are never more of them than
 * positions, however large the stride is. */
static void phases_of(const qn_conv_geo *g, int64_t n[3])
{
    for (int i = 0; i < 3; i++) {
        n[i] = g->stride[i] < g->in[i] ? g->stride[i] : g->in[i];
        if (n[i] < 1) n[i] = 1;
    }
}

static int64_t n_phases(const qn_conv_geo *g)
{
    int64_t n[3];
    phases_of(g, n);
    return n[0] * n[1] * n[2];
}

static phase phase_of(const qn_conv_geo *g, int64_t number)
{
    phase p = {.geo = g, .all_taps = 1};
    int64_t n[3];
    phases_of(g, n);
    split(n, number, p.rest);
    for (int i = 0; i < 3; i++) {
        const int64_t s = g->stride[i];
        p.size[i] = p.rest[i] < g->in[i] ? (g->in[i] - 1 - p.rest[i]) / s + 1 : 0;
        p.tap0[i] = g->k[i];
        p.tap_step[i] = s; /* until a second one is found */
        int64_t found = 0;
        for (int64_t k = 0; k < g->k[i] && found < 2 && k < 2 * s; k++) {
            if ((p.rest[i] + g->pad[i] - k * g->dilation[i]) % s != 0) continue;
            if (found++ == 0)
                p.tap0[i] = k;
            else
                p.tap_step[i] = k - p.tap0[i];
        }
        p.n_taps[i] = found == 0 ? 0 : (g->k[i] - 1 - p.tap0[i]) / p.tap_step[i] + 1;
        p.all_taps *= p.n_taps[i];
    }
    return p;
}

static void tap_of(const phase *p, int64_t number, int64_t tap[3])
{
    split(p->n_taps, number, tap);
    for (int i = 0; i < 3; i++) tap[i] = p->tap0[i] + tap[i] * p->tap_step[i];
}

/* (o taps, channel) */
static void pack_w(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const phase *p = s->ctx;
    const qn_conv_geo *g = p->geo;
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    for (int64_t k = 0; k < nk; k++) {
        int64_t tap[3];
        tap_of(p, (k0 + k) % p->all_taps, tap);
        const int64_t at =
            (k0 + k) / p->all_taps * g->w_out + tap[0] * g->w_at[0] + tap[1] * g->w_at[1] + tap[2] * g->w_at[2];
        qn__conv_run(g, (uint8_t *)dst + k * stride * wide, p->w + at * bytes, g->w_in, j0, 1, j0 + nj, nj);
    }
}

/* (o taps, position): y at t + (rest + padding - tap * dilation) / stride */
static void pack_y(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const phase *p = s->ctx;
    const qn_conv_geo *g = p->geo;
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    for (int64_t k = 0; k < nk; k++) {
        int64_t tap[3], shift[3], t[3];
        tap_of(p, (k0 + k) % p->all_taps, tap);
        for (int i = 0; i < 3; i++) shift[i] = (p->rest[i] + g->pad[i] - tap[i] * g->dilation[i]) / g->stride[i];
        const uint8_t *plane =
            g->y.data + (p->batch * g->y.batch + (p->first_o + (k0 + k) / p->all_taps) * g->y.channel) * bytes;
        uint8_t *to = (uint8_t *)dst + k * stride * wide;
        split(p->size, j0, t);
        for (int64_t done = 0; done < nj;) {
            const int64_t left = p->size[2] - t[2], m = nj - done < left ? nj - done : left;
            const int64_t d = t[0] + shift[0], h = t[1] + shift[1];
            if (d < 0 || d >= g->out[0] || h < 0 || h >= g->out[1])
                memset(to, 0, (size_t)(m * wide));
            else
                qn__conv_run(g, to, plane + (d * g->y.at[0] + h * g->y.at[1]) * bytes, g->y.at[2], t[2] + shift[2], 1,
                             g->out[2], m);
            to += m * wide;
            done += m;
            t[2] = 0;
            if (++t[1] == p->size[1]) {
                t[1] = 0;
                t[0]++;
            }
        }
    }
}

/* Stores positions [j0, j0 + n) of channel i to where they belong in x. */
static void store_x(const qn_gemm *gemm, const qn_task *task, int64_t i, int64_t j0, int64_t n, void *row)
{
    const phase *p = gemm->ctx;
    const qn_conv_geo *g = p->geo;
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    int64_t t[3];
    split(p->size, j0, t);
    uint8_t *from = row;
    if (bytes < wide)
        qn__row_store(task->kernels, g->dtype, row, row, n); /* narrow numbers fit in front of the wide ones */
    for (int64_t done = 0; done < n;) {
        const int64_t left = p->size[2] - t[2], m = n - done < left ? n - done : left;
        int64_t at = 0;
        for (int k = 0; k < 3; k++) at = at * g->in[k] + p->rest[k] + t[k] * g->stride[k];
        qn__move(bytes, p->x + (i * g->n_in + at) * bytes, g->stride[2], from, 1, m);
        from += m * bytes;
        done += m;
        t[2] = 0;
        if (++t[1] == p->size[1]) {
            t[1] = 0;
            t[0]++;
        }
    }
}

static qn_conv_geo geo_input(const qn_node *n)
{
    return qn__conv_geo(n->attrs, n->dtype, &n->layout, &n->src[1]->layout, &n->src[0]->layout);
}

/* Divided for the largest phase; the others have fewer tiles. */
static qn_gemm_cut cut_input(const qn_conv_geo *g)
{
    int64_t most = 1;
    for (int i = 0; i < 3; i++) most *= (g->in[i] + g->stride[i] - 1) / g->stride[i];
    return qn__gemm_cut(g->c / g->groups, most, g->o / g->groups * g->n_k / n_phases(g) + 1,
                        g->n * g->groups * n_phases(g), true);
}

static int64_t items_input(const qn_kernels *kernels, const qn_node *node, int phase_number, int64_t *chunk)
{
    (void)kernels;
    (void)phase_number;
    const qn_conv_geo g = geo_input(node);
    const qn_gemm_cut cut = cut_input(&g);
    *chunk = qn__gemm_chunk(&cut, g.o / g.groups * g.n_k / n_phases(&g) + 1);
    return qn_layout_numel(&node->layout) > 0 ? g.n * g.groups * n_phases(&g) * qn__gemm_tiles(&cut) : 0;
}

static void run_input(const qn_task *t)
{
    qn_conv_geo geo = geo_input(t->node);
    const qn_gemm_cut cut = cut_input(&geo);
    const int64_t tiles = qn__gemm_tiles(&cut), phases = n_phases(&geo), bytes = qn__elem_bytes(geo.dtype);
    const int64_t o = geo.o / geo.groups, c = geo.c / geo.groups;
    geo.t = t;
    geo.y.data = t->src[0].data;
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t rest = item / tiles, group = rest / phases % geo.groups, batch = rest / phases / geo.groups;
        phase p = phase_of(&geo, rest % phases);
        const int64_t places = p.size[0] * p.size[1] * p.size[2], tile = item % tiles;
        if (tile / cut.n_rows * cut.cols >= places) continue;
        p.w = t->src[1].data + group * o * geo.w_out * bytes;
        p.batch = batch;
        p.first_o = group * o;
        p.c = c;
        p.x = t->dst.data + (batch * geo.c + group * c) * geo.n_in * bytes;
        const qn_gemm g = {
            .a = {.dtype = geo.dtype, .pack = pack_w, .ctx = &p},
            .b = {.dtype = geo.dtype, .pack = pack_y, .ctx = &p},
            .k = o * p.all_taps,
            .dtype = geo.dtype,
            .y = p.x,
            .y_stride = geo.n_in,
            .alpha = 1,
            .beta = 1,
            .c = t->n_src > 2 ? t->src[2].data + group * c * qn__row_step(&t->src[2].layout) * bytes : NULL,
            .c_row = t->n_src > 2 ? qn__row_step(&t->src[2].layout) : 0,
            .store = phases > 1 ? store_x : NULL,
            .ctx = &p,
        };
        qn__gemm_run(t, &g, &cut, c, places, tile);
    }
}

const qn_cpu_op qn__cpu_op_conv_input = {QN_OP_conv_input, accepts, NULL, 1, items_input, run_input};

/* ---- to the weight --------------------------------------------------------------------------- */

/* k counts (image, position). Runs within one image are passed to `one`: batch, position, length, offset in dst. */
#define EACH_IMAGE(k0, nk, n_out, batch, at, m, done) \
    for (int64_t done = 0, batch, at, m; done < (nk); done += m) \
        if (batch = ((k0) + done) / (n_out), at = ((k0) + done) % (n_out), \
            m = (n_out)-at < (nk)-done ? (n_out)-at : (nk)-done, 1)

enum { LINES = 16 };

/* Transposes lines of nk numbers into columns [j, j + n) of dst. */
static void transpose_lines(const qn_conv_geo *g, void *dst, int64_t stride, int64_t j, const void *lines, int64_t n,
                            int64_t nk)
{
    if (qn__conv_wide(g) == 4) {
        g->t->kernels->transpose_f32((float *)dst + j, stride, lines, QN_MM_SLICE, n, nk);
        return;
    }
    const double *from = lines;
    for (int64_t k = 0; k < nk; k++)
        for (int64_t i = 0; i < n; i++) ((double *)dst)[k * stride + j + i] = from[i * QN_MM_SLICE + k];
}

/* (image position, output) of y; ctx_index: first output */
static void pack_out(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const qn_conv_geo *g = s->ctx;
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    double lines[LINES * QN_MM_SLICE];
    for (int64_t j = 0; j < nj; j += LINES) {
        const int64_t n = nj - j < LINES ? nj - j : LINES;
        for (int64_t i = 0; i < n; i++) EACH_IMAGE(k0, nk, g->n_out, batch, at, m, done)
            {
                const uint8_t *plane =
                    g->y.data + (batch * g->y.batch + (s->ctx_index[0] + j0 + j + i) * g->y.channel) * bytes;
                uint8_t *to = (uint8_t *)lines + (i * QN_MM_SLICE + done) * wide;
                int64_t p[3];
                split(g->out, at, p);
                for (int64_t put = 0; put < m;) {
                    const int64_t left = g->out[2] - p[2], run = m - put < left ? m - put : left;
                    qn__conv_run(g, to + put * wide, plane + (p[0] * g->y.at[0] + p[1] * g->y.at[1]) * bytes,
                                 g->y.at[2], p[2], 1, g->out[2], run);
                    put += run;
                    p[2] = 0;
                    if (++p[1] == g->out[1]) {
                        p[1] = 0;
                        p[0]++;
                    }
                }
            }
        transpose_lines(g, dst, stride, j, lines, n, nk);
    }
}

/* (image position, channel tap) of x; ctx_index: first channel */
static void pack_taps(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const qn_conv_geo *g = s->ctx;
    const int64_t wide = qn__conv_wide(g);
    double lines[LINES * QN_MM_SLICE];
    for (int64_t j = 0; j < nj; j += LINES) {
        const int64_t n = nj - j < LINES ? nj - j : LINES;
        for (int64_t i = 0; i < n; i++) EACH_IMAGE(k0, nk, g->n_out, batch, at, m, done)
        qn__conv_row(g, (uint8_t *)lines + (i * QN_MM_SLICE + done) * wide, batch,
                     s->ctx_index[0] + (j0 + j + i) / g->n_k, (j0 + j + i) % g->n_k, at, m);
        transpose_lines(g, dst, stride, j, lines, n, nk);
    }
}

static qn_conv_geo geo_weight(const qn_node *n)
{
    return qn__conv_geo(n->attrs, n->dtype, &n->src[0]->layout, &n->layout, &n->src[1]->layout);
}

static qn_gemm_cut cut_weight(const qn_conv_geo *g)
{
    return qn__gemm_cut(g->o / g->groups, g->c / g->groups * g->n_k, g->n * g->n_out, g->groups,
                        g->dtype != QN_DTYPE_F32);
}

static int64_t items_weight(const qn_kernels *kernels, const qn_node *node, int phase_number, int64_t *chunk)
{
    (void)kernels;
    (void)phase_number;
    const qn_conv_geo g = geo_weight(node);
    const qn_gemm_cut cut = cut_weight(&g);
    *chunk = qn__gemm_chunk(&cut, g.n * g.n_out);
    return g.groups * qn__gemm_tiles(&cut);
}

static void run_weight(const qn_task *t)
{
    qn_conv_geo geo = geo_weight(t->node);
    const qn_gemm_cut cut = cut_weight(&geo);
    const int64_t tiles = qn__gemm_tiles(&cut), bytes = qn__elem_bytes(geo.dtype);
    const int64_t o = geo.o / geo.groups, c = geo.c / geo.groups;
    geo.t = t;
    geo.x.data = t->src[0].data;
    geo.y.data = t->src[1].data;
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t group = item / tiles;
        const qn_gemm g = {
            .a = {.dtype = geo.dtype, .pack = pack_out, .ctx = &geo, .ctx_index = {group * o}},
            .b = {.dtype = geo.dtype, .pack = pack_taps, .ctx = &geo, .ctx_index = {group * c}},
            .k = geo.n * geo.n_out,
            .dtype = geo.dtype,
            .y = t->dst.data + group * o * c * geo.n_k * bytes,
            .y_stride = c * geo.n_k,
            .alpha = 1,
        };
        qn__gemm_run(t, &g, &cut, o, c * geo.n_k, item % tiles);
    }
}

const qn_cpu_op qn__cpu_op_conv_weight = {QN_OP_conv_weight, accepts, NULL, 1, items_weight, run_weight};
