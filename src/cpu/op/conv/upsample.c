/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/upsample.c -- resizing, nearest or linear in each dimension, and its gradient. Positions follow
 * PyTorch's convention: nearest takes floor(i * scale); linear takes centres of elements, (i + 1/2) * scale - 1/2,
 * not below 0, or with align_corners i * (in - 1) / (out - 1). */
#include "cpu/op/ops.h"
#include "cpu/op/conv/planes.h"

#include <math.h>

/* scale: source positions per result position */
typedef struct axis {
    const qn_upsample_attrs *a;
    int64_t in, out;
    double scale;
} axis;

/* The two source positions of a result position, and the weight of the second. */
typedef struct taps {
    int64_t low, high;
    double share;
} taps;

static taps taps_of(const axis *x, int64_t i, bool narrow)
{
    if (x->in == x->out && x->a->mode == QN_UPSAMPLE_linear && x->a->align_corners) return (taps){i, i, 0};
    /* PyTorch computes places in the type it sums in: float32 unless the tensor is F64. */
    double at;
    if (x->a->mode == QN_UPSAMPLE_nearest) {
        at = narrow ? (double)floorf((float)i * (float)x->scale) : floor((double)i * x->scale);
        const int64_t place = at < (double)(x->in - 1) ? (int64_t)at : x->in - 1;
        return (taps){place, place, 0};
    }
    if (narrow)
        at = x->a->align_corners ? (double)((float)x->scale * (float)i)
                                 : (double)((float)x->scale * ((float)i + 0.5f) - 0.5f);
    else
        at = x->a->align_corners ? x->scale * (double)i : x->scale * ((double)i + 0.5) - 0.5;
    if (at < 0) at = 0;
    const int64_t low = at < (double)(x->in - 1) ? (int64_t)at : x->in - 1;
    const double share = at - (double)low;
    return (taps){low, low + (low < x->in - 1), share > 1 ? 1 : share};
}

static axis axis_of(const qn_upsample_attrs *a, int i, int64_t in, int64_t out)
{
    axis x = {a, in, out, 1};
    const int from = i - (3 - a->n_spatial);
    if (from < 0) return x;
    if (a->mode == QN_UPSAMPLE_linear && a->align_corners)
        x.scale = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    else
        x.scale = a->scale[from] > 0 ? 1 / a->scale[from] : (double)in / (double)out;
    return x;
}

/* in: the smaller end's planes (the source of upsample, the result of its gradient). tw: the last dimension's taps. */
#define PLANE(dtype, S, T, to, from) \
    static void up_##dtype(const axis ax[3], const taps *tw, const qn_planes *in, const void *x_, void *y_) \
    { \
        const S *x = x_; \
        S *y = y_; \
        const bool narrow = sizeof(T) == 4; \
        for (int64_t d = 0; d < ax[0].out; d++) { \
            const taps td = taps_of(&ax[0], d, narrow); \
            for (int64_t h = 0; h < ax[1].out; h++) { \
                const taps th = taps_of(&ax[1], h, narrow); \
                const S *r00 = x + td.low * in->stride[0] + th.low * in->stride[1]; \
                const S *r01 = x + td.low * in->stride[0] + th.high * in->stride[1]; \
                const S *r10 = x + td.high * in->stride[0] + th.low * in->stride[1]; \
                const S *r11 = x + td.high * in->stride[0] + th.high * in->stride[1]; \
                const T d1 = (T)td.share, d0 = 1 - d1, h1 = (T)th.share, h0 = 1 - h1; \
                const bool nearest = ax[0].a->mode == QN_UPSAMPLE_nearest; \
                for (int64_t w = 0; w < ax[2].out && nearest; w++) *y++ = r00[tw[w].low * in->stride[2]]; \
                for (int64_t w = 0; w < ax[2].out && !nearest; w++) { \
                    const int64_t a = tw[w].low * in->stride[2], b = tw[w].high * in->stride[2]; \
                    const T w1 = (T)tw[w].share, w0 = 1 - w1; \
                    const T y0 = h0 * (w0 * to(r00[a]) + w1 * to(r00[b])) + h1 * (w0 * to(r01[a]) + w1 * to(r01[b])); \
                    if (d1 == 0) { /* of one and two dimensions always */ \
                        *y++ = from(y0); \
                        continue; \
                    } \
                    const T y1 = h0 * (w0 * to(r10[a]) + w1 * to(r10[b])) + h1 * (w0 * to(r11[a]) + w1 * to(r11[b])); \
                    *y++ = from(d0 * y0 + d1 * y1); \
                } \
            } \
        } \
    } \
    static void down_##dtype(const axis ax[3], const taps *of, const qn_planes *out, const void *y_, void *sum_, \
                             void *dx_) \
    { \
        const S *y = y_; \
        S *dx = dx_; \
        T *sum = sum_; \
        const int64_t n = ax[0].in * ax[1].in * ax[2].in; \
        const bool narrow = sizeof(T) == 4; \
        for (int64_t i = 0; i < n; i++) sum[i] = 0; \
        for (int64_t d = 0; d < ax[0].out; d++) { \
            const taps td = taps_of(&ax[0], d, narrow); \
            for (int64_t h = 0; h < ax[1].out; h++) { \
                const taps th = taps_of(&ax[1], h, narrow); \
                T *r00 = sum + (td.low * ax[1].in + th.low) * ax[2].in, \
                  *r01 = sum + (td.low * ax[1].in + th.high) * ax[2].in; \
                T *r10 = sum + (td.high * ax[1].in + th.low) * ax[2].in, \
                  *r11 = sum + (td.high * ax[1].in + th.high) * ax[2].in; \
                const T d1 = (T)td.share, d0 = 1 - d1, h1 = (T)th.share, h0 = 1 - h1; \
                for (int64_t w = 0; w < ax[2].out; w++) { \
                    const taps tw = of[w]; \
                    const T g = to(y[d * out->stride[0] + h * out->stride[1] + w * out->stride[2]]); \
                    if (ax[0].a->mode == QN_UPSAMPLE_nearest) { \
                        r00[tw.low] += g; \
                        continue; \
                    } \
                    const T w1 = (T)tw.share, w0 = 1 - w1; \
                    r00[tw.low] += d0 * h0 * w0 * g; \
                    r00[tw.high] += d0 * h0 * w1 * g; \
                    r01[tw.low] += d0 * h1 * w0 * g; \
                    r01[tw.high] += d0 * h1 * w1 * g; \
                    r10[tw.low] += d1 * h0 * w0 * g; \
                    r10[tw.high] += d1 * h0 * w1 * g; \
                    r11[tw.low] += d1 * h1 * w0 * g; \
                    r11[tw.high] += d1 * h1 * w1 * g; \
                } \
            } \
        } \
        if ((void *)dx != (void *)sum) \
            for (int64_t i = 0; i < n; i++) dx[i] = from(sum[i]); \
    }
QN_REAL_ROWS(PLANE)

typedef struct typed_fns {
    void (*up)(const axis ax[3], const taps *tw, const qn_planes *in, const void *x, void *y);
    void (*down)(const axis ax[3], const taps *tw, const qn_planes *out, const void *y, void *sum, void *dx);
} typed_fns;
#define ROW(dtype, S, T, to, from) [QN_DTYPE_##dtype] = {up_##dtype, down_##dtype},
static const typed_fns table[QN_DTYPE_COUNT] = {QN_REAL_ROWS(ROW)};

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_real(node, "the source", node->src[0], err);
}

/* Phase 0 computes the taps of the last dimension into the scratch, phase 1 the planes. */
static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    *chunk = 1;
    return phase == 0 ? 1 : qn__plane_items(node, chunk);
}

/* Of the larger end: the result of upsample, the source of its gradient. */
static uint64_t taps_bytes(const qn_layout *l) { return (uint64_t)l->dim[l->rank - 1] * sizeof(taps); }

static void find_taps(const qn_task *t, const axis *last)
{
    taps *tw = (taps *)(void *)t->scratch;
    for (int64_t i = 0; i < last->out; i++) tw[i] = taps_of(last, i, t->dst.dtype != QN_DTYPE_F64);
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return taps_bytes(&node->layout);
}

static void run(const qn_task *t)
{
    const qn_upsample_attrs *a = t->attrs;
    const qn_planes in = qn__planes(&t->src[0].layout, a->n_spatial), out = qn__planes(&t->dst.layout, a->n_spatial);
    const taps *tw = (const taps *)(const void *)t->scratch;
    axis ax[3];
    for (int i = 0; i < 3; i++) ax[i] = axis_of(a, i, in.size[i], out.size[i]);
    if (t->phase == 0) {
        find_taps(t, &ax[2]);
        return;
    }
    for (int64_t plane = t->begin; plane < t->end; plane++)
        table[t->dst.dtype].up(ax, tw, &in, qn__elem_at(&t->src[0], qn__plane_start(&in, plane)),
                               qn__elem_at(&t->dst, qn__plane_start(&out, plane)));
}

const qn_cpu_op qn__cpu_op_upsample = {QN_OP_upsample, accepts, scratch, 2, items, run};

/* ---- the gradient ---------------------------------------------------------------------------- */

/* Behind the taps: sums of a type that is narrower. */
static uint64_t scratch_back(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return taps_bytes(&node->src[0]->layout) +
           (qn__elem_bytes(node->dtype) < 4 ? (uint64_t)qn_layout_numel(&node->layout) * 4 : 0);
}

static void run_back(const qn_task *t)
{
    const qn_upsample_attrs *a = t->attrs;
    const qn_planes out = qn__planes(&t->src[0].layout, a->n_spatial), dx = qn__planes(&t->dst.layout, a->n_spatial);
    const taps *tw = (const taps *)(const void *)t->scratch;
    uint8_t *sums = t->scratch + taps_bytes(&t->src[0].layout);
    axis ax[3];
    for (int i = 0; i < 3; i++) ax[i] = axis_of(a, i, dx.size[i], out.size[i]);
    if (t->phase == 0) {
        find_taps(t, &ax[2]);
        return;
    }
    for (int64_t plane = t->begin; plane < t->end; plane++) {
        const int64_t at = qn__plane_start(&dx, plane);
        uint8_t *to = qn__elem_at(&t->dst, at);
        table[t->dst.dtype].down(ax, tw, &out, qn__elem_at(&t->src[0], qn__plane_start(&out, plane)),
                                 qn__elem_bytes(t->dst.dtype) < 4 ? sums + at * 4 : to, to);
    }
}

const qn_cpu_op qn__cpu_op_upsample_back = {QN_OP_upsample_back, accepts, scratch_back, 2, items, run_back};
