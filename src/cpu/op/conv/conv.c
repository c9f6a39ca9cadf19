/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/conv.c -- convolution as a matrix product: for each image and group, weights [o, c k] times a
 * matrix [c k, positions]. The matrix is never stored: slices of it are gathered into the packed panel (gemm.h). */
#include "cpu/op/conv/conv.h"

#include "cpu/op/ops.h"

/* ---- geometry -------------------------------------------------------------------------------- */

qn_conv_geo qn__conv_geo(const qn_conv_attrs *a, qn_dtype dtype, const qn_layout *x, const qn_layout *w,
                         const qn_layout *y)
{
    qn_conv_geo g = {.dtype = dtype,
                     .n = x->dim[0],
                     .c = x->dim[1],
                     .o = y->dim[1],
                     .groups = a->groups,
                     .n_in = 1,
                     .n_out = 1,
                     .n_k = 1};
    const int gap = 3 - a->n_spatial;
    g.x.batch = x->stride[0];
    g.x.channel = x->stride[1];
    g.y.batch = y->stride[0];
    g.y.channel = y->stride[1];
    g.w_out = w->stride[0];
    g.w_in = w->stride[1];
    for (int i = 0; i < 3; i++) {
        const int from = i - gap;
        const bool real = from >= 0;
        g.in[i] = real ? x->dim[2 + from] : 1;
        g.out[i] = real ? y->dim[2 + from] : 1;
        g.k[i] = real ? w->dim[2 + from] : 1;
        g.x.at[i] = real ? x->stride[2 + from] : 0;
        g.y.at[i] = real ? y->stride[2 + from] : 0;
        g.w_at[i] = real ? w->stride[2 + from] : 0;
        g.stride[i] = real ? a->stride[from] : 1;
        g.pad[i] = real ? a->padding[from] : 0;
        g.dilation[i] = real ? a->dilation[from] : 1;
        g.n_in *= g.in[i];
        g.n_out *= g.out[i];
        g.n_k *= g.k[i];
    }
    return g;
}

/* ---- gathering ------------------------------------------------------------------------------- */

void qn__conv_run(const qn_conv_geo *g, void *dst, const uint8_t *line, int64_t stride, int64_t first, int64_t step,
                  int64_t size, int64_t n)
{
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    /* [low, high) are inside. */
    int64_t low = first >= 0 ? 0 : (-first + step - 1) / step, high = first >= size ? 0 : (size - 1 - first) / step + 1;
    if (low > n) low = n;
    if (high > n) high = n;
    if (high < low) high = low;
    uint8_t *to = dst;
    memset(to, 0, (size_t)(low * wide));
    memset(to + high * wide, 0, (size_t)((n - high) * wide));
    if (high == low) return;
    const uint8_t *from = line + (first + low * step) * stride * bytes;
    if (bytes == wide)
        qn__move(bytes, to + low * wide, 1, from, step * stride, high - low);
    else
        qn__row_load(g->t->kernels, g->dtype, from, step * stride, 0, high - low, (float *)(void *)(to + low * wide));
}

static void split(const int64_t size[3], int64_t i, int64_t at[3])
{
    at[2] = i % size[2];
    i /= size[2];
    at[1] = i % size[1];
    at[0] = i / size[1];
}

void qn__conv_row(const qn_conv_geo *g, void *dst, int64_t batch, int64_t c, int64_t tap, int64_t j0, int64_t n)
{
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    const uint8_t *plane = g->x.data + (batch * g->x.batch + c * g->x.channel) * bytes;
    int64_t k[3], o[3];
    split(g->k, tap, k);
    split(g->out, j0, o);
    uint8_t *to = dst;
    for (int64_t done = 0; done < n;) {
        const int64_t left = g->out[2] - o[2], m = n - done < left ? n - done : left;
        const int64_t d = o[0] * g->stride[0] - g->pad[0] + k[0] * g->dilation[0];
        const int64_t h = o[1] * g->stride[1] - g->pad[1] + k[1] * g->dilation[1];
        if (d < 0 || d >= g->in[0] || h < 0 || h >= g->in[1])
            memset(to, 0, (size_t)(m * wide));
        else
            qn__conv_run(g, to, plane + (d * g->x.at[0] + h * g->x.at[1]) * bytes, g->x.at[2],
                         o[2] * g->stride[2] - g->pad[2] + k[2] * g->dilation[2], g->stride[2], g->in[2], m);
        to += m * wide;
        done += m;
        o[2] = 0;
        if (++o[1] == g->out[1]) {
            o[1] = 0;
            o[0]++;
        }
    }
}

/* ---- the forward product --------------------------------------------------------------------- */

/* ctx_index: batch, first channel. */
static void pack_x(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const qn_conv_geo *g = s->ctx;
    const int64_t wide = qn__conv_wide(g);
    for (int64_t k = 0; k < nk; k++)
        qn__conv_row(g, (uint8_t *)dst + k * stride * wide, s->ctx_index[0], s->ctx_index[1] + (k0 + k) / g->n_k,
                     (k0 + k) % g->n_k, j0, nj);
}

/* A weight whose taps are not contiguous; ctx_index: first output. */
static void pack_w(const qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj)
{
    const qn_conv_geo *g = s->ctx;
    const int64_t wide = qn__conv_wide(g), bytes = qn__elem_bytes(g->dtype);
    for (int64_t k = 0; k < nk; k++) {
        int64_t at[3];
        split(g->k, (k0 + k) % g->n_k, at);
        const int64_t from = (k0 + k) / g->n_k * g->w_in + at[0] * g->w_at[0] + at[1] * g->w_at[1] + at[2] * g->w_at[2];
        qn__conv_run(g, (uint8_t *)dst + k * stride * wide, s->data + from * bytes, g->w_out, j0, 1, j0 + nj, nj);
    }
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_real(node, "x", node->src[0], err);
}

static qn_conv_geo geo_of(const qn_node *n)
{
    return qn__conv_geo(n->attrs, n->src[0]->dtype, &n->src[0]->layout, &n->src[1]->layout, &n->layout);
}

static qn_gemm_cut cut_of(const qn_conv_geo *g)
{
    return qn__gemm_cut(g->o / g->groups, g->n_out, g->c / g->groups * g->n_k, g->n * g->groups,
                        g->dtype != QN_DTYPE_F32);
}

/* ---- groups with one output channel ---- Such a product has one row, and packing would cost more than the product.
 * Runs of x are added up in place, tap by tap in the order of the product's sum. */

static bool by_runs(const qn_conv_geo *g)
{
    return g->dtype == QN_DTYPE_F32 && g->o == g->groups && g->c / g->groups * g->n_k <= QN_MM_SLICE &&
           g->stride[2] == 1 && g->x.at[2] == 1 && g->out[2] >= 4;
}

/* A row of the result, at [o0, o1] of its plane. x, w: of the group. */
static void row_by_runs(const qn_conv_geo *g, float *y, const float *x, const float *w, int64_t o0, int64_t o1)
{
    memset(y, 0, (size_t)g->out[2] * sizeof *y);
    for (int64_t k = 0; k < g->c / g->groups * g->n_k; k++) {
        int64_t at[3];
        split(g->k, k % g->n_k, at);
        const int64_t d = o0 * g->stride[0] - g->pad[0] + at[0] * g->dilation[0],
                      h = o1 * g->stride[1] - g->pad[1] + at[1] * g->dilation[1];
        if (d < 0 || d >= g->in[0] || h < 0 || h >= g->in[1]) continue;
        const int64_t shift = at[2] * g->dilation[2] - g->pad[2], low = shift < 0 ? -shift : 0;
        const int64_t high = g->in[2] - shift < g->out[2] ? g->in[2] - shift : g->out[2], c = k / g->n_k;
        if (high <= low) continue;
        const float tap = w[c * g->w_in + at[0] * g->w_at[0] + at[1] * g->w_at[1] + at[2] * g->w_at[2]];
        g->t->kernels->axpy_f32(y + low, tap, x + c * g->x.channel + d * g->x.at[0] + h * g->x.at[1] + low + shift,
                                high - low);
    }
}

static void run_by_runs(const qn_conv_geo *g)
{
    const qn_task *t = g->t;
    const int64_t rows = g->out[0] * g->out[1];
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t batch = item / g->o, group = item % g->o;
        const float *x = (const float *)(const void *)t->src[0].data + batch * g->x.batch +
                         group * (g->c / g->groups) * g->x.channel;
        const float *w = (const float *)(const void *)t->src[1].data + group * g->w_out;
        float *y = (float *)(void *)t->dst.data + item * g->n_out;
        for (int64_t r = 0; r < rows; r++) row_by_runs(g, y + r * g->out[2], x, w, r / g->out[1], r % g->out[1]);
        if (t->n_src < 3) continue;
        const float bias = ((const float *)(const void *)t->src[2].data)[group * qn__row_step(&t->src[2].layout)];
        t->kernels->scale_f32(y, y, 1, bias, g->n_out);
    }
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    const qn_conv_geo g = geo_of(node);
    if (by_runs(&g)) {
        *chunk = qn__chunk_of(16384, g.n_out * g.n_k);
        return qn_layout_numel(&node->layout) > 0 ? g.n * g.o : 0;
    }
    const qn_gemm_cut cut = cut_of(&g);
    *chunk = qn__gemm_chunk(&cut, g.c / g.groups * g.n_k);
    return qn_layout_numel(&node->layout) > 0 ? g.n * g.groups * qn__gemm_tiles(&cut) : 0;
}

static bool taps_are_dense(const qn_conv_geo *g)
{
    int64_t want = 1;
    for (int i = 2; i >= 0; i--) {
        if (g->k[i] > 1 && g->w_at[i] != want) return false;
        want *= g->k[i];
    }
    return g->c / g->groups <= 1 || g->w_in == want;
}

static void run(const qn_task *t)
{
    qn_conv_geo geo = geo_of(t->node);
    geo.t = t;
    if (by_runs(&geo)) {
        run_by_runs(&geo);
        return;
    }
    const qn_gemm_cut cut = cut_of(&geo);
    const int64_t tiles = qn__gemm_tiles(&cut), bytes = qn__elem_bytes(geo.dtype), o = geo.o / geo.groups,
                  c = geo.c / geo.groups;
    geo.x.data = t->src[0].data;
    qn_gemm g = {
        .a = {.dtype = geo.dtype,
              .k_stride = 1,
              .j_stride = geo.w_out,
              .pack = taps_are_dense(&geo) ? NULL : pack_w,
              .ctx = &geo},
        .b = {.dtype = geo.dtype, .pack = pack_x, .ctx = &geo},
        .k = c * geo.n_k,
        .dtype = geo.dtype,
        .y_stride = geo.n_out,
        .alpha = 1,
        .beta = 1,
        .c_row = t->n_src > 2 ? qn__row_step(&t->src[2].layout) : 0,
    };
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t group = item / tiles % geo.groups, batch = item / tiles / geo.groups;
        g.a.data = t->src[1].data + group * o * geo.w_out * bytes;
        g.b.ctx_index[0] = batch;
        g.b.ctx_index[1] = group * c;
        g.y = t->dst.data + (batch * geo.o + group * o) * geo.n_out * bytes;
        g.c = t->n_src > 2 ? t->src[2].data + group * o * g.c_row * bytes : NULL;
        qn__gemm_run(t, &g, &cut, o, geo.n_out, item % tiles);
    }
}

const qn_cpu_op qn__cpu_op_conv = {QN_OP_conv, accepts, NULL, 1, items, run};
