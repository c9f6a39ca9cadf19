/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/pool.c -- pooling and its gradient, in one to three dimensions, also with windows that adapt to
 * the result's size. The maximum is the first of equals in row-major order of the window, and NaN wins: for values,
 * indices and gradients alike. */
#include "cpu/op/ops.h"
#include "cpu/op/conv/planes.h"

#include <math.h>

typedef struct windows {
    const qn_pool_attrs *a;
    int64_t kernel[3], stride[3], pad[3], dilation[3], size[3]; /* size: of the source */
    int64_t out[3];
} windows;

static windows windows_of(const qn_pool_attrs *a, const qn_planes *in, const qn_planes *out)
{
    windows w = {.a = a};
    qn__spread(a->kernel, a->n_spatial, 1, w.kernel);
    qn__spread(a->stride, a->n_spatial, 1, w.stride);
    qn__spread(a->padding, a->n_spatial, 0, w.pad);
    qn__spread(a->dilation, a->n_spatial, 1, w.dilation);
    for (int i = 0; i < 3; i++) {
        w.size[i] = in->size[i];
        w.out[i] = out->size[i];
    }
    return w;
}

/* The window of one result: positions begin, begin + step .. below end in each dimension. Its mean divides by the
 * product of `spread`. */
typedef struct window {
    int64_t begin[3], end[3], step[3];
    double spread[3];
} window;

/* Dimension i of the window of a result. */
static void window_in(const windows *w, int i, int64_t o, window *v)
{
    v->step[i] = 1;
    if (w->a->adaptive) {
        v->begin[i] = o * w->size[i] / w->out[i];
        v->end[i] = ((o + 1) * w->size[i] + w->out[i] - 1) / w->out[i];
        v->spread[i] = (double)(v->end[i] - v->begin[i]);
        return;
    }
    v->step[i] = w->dilation[i];
    v->begin[i] = o * w->stride[i] - w->pad[i];
    v->end[i] = v->begin[i] + (w->kernel[i] - 1) * v->step[i] + 1;
    const int64_t padded_end = v->end[i] < w->size[i] + w->pad[i] ? v->end[i] : w->size[i] + w->pad[i];
    v->spread[i] = (double)(padded_end - v->begin[i]);
    if (v->begin[i] < 0) v->begin[i] += (-v->begin[i] + v->step[i] - 1) / v->step[i] * v->step[i];
    if (v->end[i] > w->size[i]) v->end[i] = w->size[i];
    if (!w->a->count_include_pad) v->spread[i] = (double)(v->end[i] - v->begin[i]);
}

static double divisor_of(const windows *w, const window *v)
{
    return w->a->divisor != 0 ? (double)w->a->divisor : v->spread[0] * v->spread[1] * v->spread[2];
}

/* Results [low, high) of the last dimension whose windows are completely inside. */
static void whole_windows(const windows *w, int64_t *low, int64_t *high)
{
    /* where a window may begin, padded */
    const int64_t reach = (w->kernel[2] - 1) * w->dilation[2] + 1, last = w->size[2] + w->pad[2] - reach;
    *low = w->a->adaptive ? 0 : (w->pad[2] + w->stride[2] - 1) / w->stride[2];
    *high = w->a->adaptive || last < 0 ? 0 : last / w->stride[2] + 1;
    if (*low > w->out[2]) *low = w->out[2];
    if (*high > w->out[2]) *high = w->out[2];
    if (*high < *low) *high = *low;
}

#define EACH_ROW(w, o, v) \
    for (o[0] = 0; o[0] < (w)->out[0]; o[0]++) \
        for (o[1] = 0, window_in(w, 0, o[0], &v); o[1] < (w)->out[1]; o[1]++)
#define EACH_IN(v, d, h, c) \
    for (int64_t d = (v)->begin[0]; d < (v)->end[0]; d += (v)->step[0]) \
        for (int64_t h = (v)->begin[1]; h < (v)->end[1]; h += (v)->step[1]) \
            for (int64_t c = (v)->begin[2]; c < (v)->end[2]; c += (v)->step[2])

/* Pools one plane. x has the strides of `in`; results and gradients to x are dense; y of a gradient has the strides
 * of `out`. Neighbours whose windows are complete are computed RUN at a time, window position after window position,
 * so that each adds its elements in the same order. */
enum { RUN = 128 };
#define PLANE(dtype, S, T, to, from) \
    static int64_t place_##dtype(const windows *w, const window *v, const qn_planes *in, const S *x, T *best) \
    { \
        int64_t place = -1; \
        T most = -INFINITY; \
        EACH_IN(v, d, h, c) \
        { \
            const T value = to(x[d * in->stride[0] + h * in->stride[1] + c * in->stride[2]]); \
            if (place >= 0 && !(value > most) && value == value) continue; \
            if (place >= 0 && most != most) continue; \
            most = value; \
            place = (d * w->size[1] + h) * w->size[2] + c; \
        } \
        *best = most; \
        return place; \
    } \
    static void run_##dtype(const windows *w, const window *v, const qn_planes *in, const S *x, S *y, int64_t first, \
                            int64_t n) \
    { \
        const bool max = w->a->kind == QN_POOL_max; \
        const int64_t step = w->stride[2] * in->stride[2]; \
        T made[RUN]; \
        const T start = max ? (T)-INFINITY : 0; \
        for (int64_t i = 0; i < n; i++) made[i] = start; \
        for (int64_t d = v->begin[0]; d < v->end[0]; d += v->step[0]) \
            for (int64_t h = v->begin[1]; h < v->end[1]; h += v->step[1]) \
                for (int64_t k = 0; k < w->kernel[2]; k++) { \
                    const int64_t c = first * w->stride[2] - w->pad[2] + k * w->dilation[2]; \
                    const S *p = x + d * in->stride[0] + h * in->stride[1] + c * in->stride[2]; \
                    if (!max) { \
                        for (int64_t i = 0; i < n; i++) made[i] += to(p[i * step]); \
                        continue; \
                    } \
                    for (int64_t i = 0; i < n; i++) { \
                        const T value = to(p[i * step]); \
                        const bool better = (value > made[i]) | ((value != value) & (made[i] == made[i])); \
                        made[i] = better ? value : made[i]; \
                    } \
                } \
        const T divisor = max ? 1 : (T)divisor_of(w, v); \
        for (int64_t i = 0; i < n; i++) y[i] = from(made[i] / divisor); \
    } \
    static void pool_##dtype(const windows *w, const qn_planes *in, const void *x_, void *y_) \
    { \
        const S *x = x_; \
        S *y = y_; \
        int64_t o[3], low, high, *places = y_; \
        window v; \
        whole_windows(w, &low, &high); \
        EACH_ROW(w, o, v) \
        { \
            window_in(w, 1, o[1], &v); \
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) { \
                const int64_t left = high - o[2], n = left < RUN ? left : RUN; \
                window_in(w, 2, o[2], &v); \
                if (n > 1 && o[2] >= low && w->a->kind != QN_POOL_argmax) { \
                    run_##dtype(w, &v, in, x, y, o[2], n); \
                    y += n; \
                    o[2] += n - 1; \
                    continue; \
                } \
                if (w->a->kind != QN_POOL_avg) { \
                    T most; \
                    const int64_t place = place_##dtype(w, &v, in, x, &most); \
                    if (w->a->kind == QN_POOL_max) \
                        *y++ = from(most); \
                    else \
                        *places++ = place; \
                    continue; \
                } \
                T sum = 0; \
                EACH_IN(&v, d, h, c) sum += to(x[d * in->stride[0] + h * in->stride[1] + c * in->stride[2]]); \
                *y++ = from(sum / (T)divisor_of(w, &v)); \
            } \
        } \
    } \
    static void back_##dtype(const windows *w, const qn_planes *in, const qn_planes *out, const void *x, \
                             const void *y_, T *sum, void *dx_) \
    { \
        const S *y = y_; \
        S *dx = dx_; \
        int64_t o[3]; \
        window v; \
        const int64_t n = w->size[0] * w->size[1] * w->size[2]; \
        for (int64_t i = 0; i < n; i++) sum[i] = 0; \
        EACH_ROW(w, o, v) \
        { \
            window_in(w, 1, o[1], &v); \
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) { \
                window_in(w, 2, o[2], &v); \
                const T g = to(y[o[0] * out->stride[0] + o[1] * out->stride[1] + o[2] * out->stride[2]]); \
                T most; \
                if (w->a->kind == QN_POOL_max) { \
                    const int64_t place = place_##dtype(w, &v, in, x, &most); \
                    if (place >= 0) sum[place] += g; \
                    continue; \
                } \
                const T part = g / (T)divisor_of(w, &v); \
                EACH_IN(&v, d, h, c) sum[(d * w->size[1] + h) * w->size[2] + c] += part; \
            } \
        } \
        if ((void *)dx != (void *)sum) \
            for (int64_t i = 0; i < n; i++) dx[i] = from(sum[i]); \
    }
QN_REAL_ROWS(PLANE)

typedef struct typed_fns {
    void (*pool)(const windows *w, const qn_planes *in, const void *x, void *y);
    void (*back)(const windows *w, const qn_planes *in, const qn_planes *out, const void *x, const void *y, void *sum,
                 void *dx);
} typed_fns;

#define BACK(dtype, S, T, to, from) \
    static void untyped_##dtype(const windows *w, const qn_planes *in, const qn_planes *out, const void *x, \
                                const void *y, void *sum, void *dx) \
    { \
        back_##dtype(w, in, out, x, y, sum, dx); \
    }
QN_REAL_ROWS(BACK)
#define ROW(dtype, S, T, to, from) [QN_DTYPE_##dtype] = {pool_##dtype, untyped_##dtype},
static const typed_fns table[QN_DTYPE_COUNT] = {QN_REAL_ROWS(ROW)};

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_real(node, "the source", node->src[0], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    return qn__plane_items(node, chunk);
}

static void run(const qn_task *t)
{
    const qn_pool_attrs *a = t->attrs;
    const qn_planes in = qn__planes(&t->src[0].layout, a->n_spatial), out = qn__planes(&t->dst.layout, a->n_spatial);
    const windows w = windows_of(a, &in, &out);
    for (int64_t plane = t->begin; plane < t->end; plane++)
        table[t->src[0].dtype].pool(&w, &in, qn__elem_at(&t->src[0], qn__plane_start(&in, plane)),
                                    qn__elem_at(&t->dst, qn__plane_start(&out, plane)));
}

const qn_cpu_op qn__cpu_op_pool = {QN_OP_pool, accepts, NULL, 1, items, run};

/* ---- the gradient: sums in the result itself where it is of the type that is summed in, else beside it --- */

static bool sums_beside(const qn_node *node) { return qn__elem_bytes(node->dtype) < 4; }

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return sums_beside(node) ? (uint64_t)qn_layout_numel(&node->layout) * 4 : 0;
}

static void run_back(const qn_task *t)
{
    const qn_pool_attrs *a = t->attrs;
    const bool max = a->kind == QN_POOL_max, beside = sums_beside(t->node);
    const qn_planes out = qn__planes(&t->src[0].layout, a->n_spatial), dx = qn__planes(&t->dst.layout, a->n_spatial);
    const qn_planes in = max ? qn__planes(&t->src[1].layout, a->n_spatial) : dx;
    const windows w = windows_of(a, &dx, &out);
    for (int64_t plane = t->begin; plane < t->end; plane++) {
        const int64_t at = qn__plane_start(&dx, plane);
        uint8_t *to = qn__elem_at(&t->dst, at);
        table[t->dst.dtype].back(&w, &in, &out, max ? qn__elem_at(&t->src[1], qn__plane_start(&in, plane)) : NULL,
                                 qn__elem_at(&t->src[0], qn__plane_start(&out, plane)),
                                 beside ? t->scratch + at * 4 : to, to);
    }
}

const qn_cpu_op qn__cpu_op_pool_back = {QN_OP_pool_back, accepts, scratch, 1, items, run_back};
