/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/along.c -- ops along one dimension whose result has the source's shape: softmax, log_softmax,
 * cumsum, cumprod. Indices of the other dimensions number the lanes; an item is a lane. A lane of at most TILE
 * numbers is computed at once, a longer one in tiles of that size, in order, and twice where its sum must be known
 * first. Scans sum in double. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <math.h>
#include <string.h>

/* lanes in a strip at least: a cache line of F32 holds 16, but 4 pay already */
enum { TILE = 8192, STRIP = 64, LEAST = 4, LINE = 16 };
enum { STRIP_BYTES = QN_MM_TILE_BYTES - 4 * TILE }; /* of a strip; log_softmax uses the memory behind it */
_Static_assert((12 + 8 + 8) * TILE <= QN_MM_TILE_BYTES,
               "a tile of the source, one of the result, and room to narrow it");
_Static_assert((12 + 8) * TILE <= STRIP_BYTES, "room of log_softmax behind a tile and its result");

typedef struct lane_state {
    double a, b;
    int64_t i;
} lane_state;
typedef void (*whole_fn)(const qn_task *t, void *y, const void *x, int64_t n);
typedef void (*fold_fn)(const qn_task *t, const void *x, int64_t n, lane_state *s);
typedef void (*apply_fn)(const qn_task *t, void *y, const void *x, int64_t n, lane_state *s);
typedef struct along {
    whole_fn whole[3]; /* by qn_number; NULL: as a tile */
    fold_fn fold[3];   /* NULL: one pass is enough */
    apply_fn apply[3];
    lane_state start;
} along;

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels; /* the shape rule has checked everything */
    (void)node;
    (void)err;
    return true;
}

static int64_t length_of(const qn_node *n)
{
    const qn_layout *l = &n->layout;
    return l->rank ? l->dim[((const qn_along_attrs *)n->attrs)->dim] : 1;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    const int64_t n = length_of(node);
    *chunk = qn__chunk_of(8192, n);
    if (*chunk < STRIP && node->layout.rank > 0 && ((const qn_along_attrs *)node->attrs)->dim < node->layout.rank - 1)
        *chunk = STRIP;
    return n > 0 ? qn_layout_numel(&node->layout) / n : 0;
}

/* The lane's elements as a walk. */
static qn_walk lane_of(const qn_view *v, int dim, int64_t lane)
{
    const qn_layout *l = &v->layout;
    qn_layout one = {.rank = 1, .dim = {1}};
    for (int i = l->rank - 1; i >= 0; i--) {
        if (i == dim) continue;
        one.offset += lane % l->dim[i] * l->stride[i];
        lane /= l->dim[i];
    }
    if (l->rank > 0) {
        one.dim[0] = l->dim[dim];
        one.stride[0] = l->stride[dim];
    }
    return qn__walk_layout(v, &one);
}

static void do_tile(const qn_task *t, const along *op, qn_walk *from, qn_walk *to, int64_t at, int64_t n, bool whole,
                    lane_state *s)
{
    uint8_t *tile = (uint8_t *)t->tile, *room = tile + 12 * TILE;
    const qn_number kind = qn__number_of(t->src[0].dtype);
    const bool direct = qn__number_is(to->dtype) && qn__walk_dense(to);
    const void *x = qn__walk_load(t->kernels, from, at, n, tile);
    void *y = direct ? (void *)(uintptr_t)(to->data + at * to->bytes) : room;
    if (whole)
        op->whole[kind](t, y, x, n);
    else
        op->apply[kind](t, y, x, n, s);
    if (!direct) qn__walk_store(t->kernels, to, at, n, y, room + 8 * TILE);
}

/* ---- neighbouring lanes ---- Where the dimension is not the last, a single lane would touch a cache line for each
 * element. A strip of neighbouring lanes is transposed into the tile, lane after lane, computed there, and
 * transposed back: the same operations on each lane, so the same bits. */

/* How many lanes from `lane` on a strip may take; 0 if that is less than LEAST. */
static int64_t strip_of(const qn_task *t, int dim, int64_t length, int64_t pitch, int64_t lane, int64_t left)
{
    const qn_layout *x = &t->src[0].layout, *y = &t->dst.layout;
    const int last = y->rank - 1;
    if (dim >= last || t->src[0].dtype != t->dst.dtype || !qn__number_is(t->dst.dtype)) return 0;
    if (x->stride[last] != 1 || y->stride[last] != 1 || length > TILE) return 0;
    int64_t room = STRIP_BYTES / (pitch * qn__number_bytes(qn__number_of(t->dst.dtype)));
    /* a cache line that two strips share is read twice */
    room = room > STRIP ? STRIP : room > LINE ? room / LINE * LINE : room;
    int64_t n = y->dim[last] - lane % y->dim[last];
    n = n < left ? n : left;
    return n < room ? n : room;
}

static void transpose_strip(const qn_task *t, int64_t bytes, void *y, int64_t y_stride, const void *x, int64_t x_stride,
                            int64_t rows, int64_t cols)
{
    if (bytes == 4) {
        t->kernels->transpose_f32(y, y_stride, x, x_stride, rows, cols);
        return;
    }
    for (int64_t c = 0; c < cols; c++) {
        for (int64_t r = 0; r < rows; r++)
            memcpy((uint8_t *)y + (c * y_stride + r) * 8, (const uint8_t *)x + (r * x_stride + c) * 8, 8);
    }
}

static void run_strip(const qn_task *t, const along *op, int dim, int64_t length, int64_t pitch, int64_t lane,
                      int64_t n)
{
    const qn_number kind = qn__number_of(t->dst.dtype);
    const int64_t bytes = qn__number_bytes(kind), x_step = t->src[0].layout.stride[dim],
                  y_step = t->dst.layout.stride[dim];
    const qn_walk from = lane_of(&t->src[0], dim, lane), to = lane_of(&t->dst, dim, lane);
    uint8_t *tile = (uint8_t *)t->tile;
    transpose_strip(t, bytes, tile, pitch, from.data, x_step, length, n);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *at = tile + i * pitch * bytes;
        lane_state s = op->start;
        if (op->whole[kind]) {
            op->whole[kind](t, at, at, length);
            continue;
        }
        if (op->fold[kind]) op->fold[kind](t, at, length, &s);
        op->apply[kind](t, at, at, length, &s);
    }
    transpose_strip(t, bytes, (void *)(uintptr_t)to.data, y_step, tile, pitch, n, length);
}

static void run_lanes(const qn_task *t, const along *op)
{
    const qn_number kind = qn__number_of(t->src[0].dtype);
    const int dim = ((const qn_along_attrs *)t->attrs)->dim;
    /* lanes of 2^k begin in different sets of the cache */
    const int64_t length = length_of(t->node), pitch = (length + 15) / 16 * 16 + 16;
    for (int64_t i = t->begin; i < t->end; i++) {
        const int64_t strip = strip_of(t, dim, length, pitch, i, t->end - i);
        if (strip >= LEAST) {
            run_strip(t, op, dim, length, pitch, i, strip);
            i += strip - 1;
            continue;
        }
        qn_walk from = lane_of(&t->src[0], dim, i), to = lane_of(&t->dst, dim, i);
        lane_state s = op->start;
        const bool whole = op->whole[kind] && length <= TILE;
        for (int64_t at = 0; at < length && op->fold[kind] && !whole; at += TILE) {
            const int64_t n = length - at < TILE ? length - at : TILE;
            op->fold[kind](t, qn__walk_load(t->kernels, &from, at, n, t->tile), n, &s);
        }
        for (int64_t at = 0; at < length; at += TILE)
            do_tile(t, op, &from, &to, at, length - at < TILE ? length - at : TILE, whole, &s);
    }
}

#define DRIVER(name, op) \
    static void run_##name(const qn_task *t) { run_lanes(t, &(op)); } \
    const qn_cpu_op qn__cpu_op_##name = {QN_OP_##name, accepts, NULL, 1, items, run_##name};

/* ---- softmax: a the highest so far, b the sum of exp(x - a) ---------------------------------- */

static void shift_f32(const qn_task *t, float *y, const float *x, float by, int64_t n)
{
    t->kernels->scale_f32(y, x, 1, by, n);
}

static void softmax_f32(const qn_task *t, void *y, const void *x, int64_t n)
{
    const float max = t->kernels->max_f32(x, n); /* NaN are skipped here and appear in the sum */
    const float sum = t->kernels->exp_sum_f32(y, x, max, n);
    t->kernels->mul_scale_f32(y, y, NULL, 1 / sum, n);
}

static void log_softmax_f32(const qn_task *t, void *y, const void *x, int64_t n)
{
    float *e = t->tile + STRIP_BYTES / 4; /* at most TILE elements; neither tiles nor strips reach this far */
    const float max = t->kernels->max_f32(x, n), sum = t->kernels->exp_sum_f32(e, x, max, n);
    shift_f32(t, y, x, -max, n);
    shift_f32(t, y, y, -logf(sum), n);
}

static double highest(const double *x, int64_t n)
{
    double max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

static double exp_sum(const double *x, double max, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    return sum;
}

/* Adds tiles: one of nothing but -infinity adds nothing, one with a NaN makes the sum NaN. */
static void join(lane_state *s, double max, double sum)
{
    const double high = max > s->a ? max : s->a;
    s->b = (s->a > -INFINITY ? s->b * exp(s->a - high) : s->b) + sum * (max > -INFINITY ? exp(max - high) : 1);
    s->a = high;
}

static void fold_f32(const qn_task *t, const void *x, int64_t n, lane_state *s)
{
    float *e = t->tile + 12 * TILE / 4;
    const float max = t->kernels->max_f32(x, n);
    join(s, (double)max, (double)t->kernels->exp_sum_f32(e, x, max > -INFINITY ? max : 0, n)); /* exp(-infinity) is 0 */
}

static void fold_f64(const qn_task *t, const void *x, int64_t n, lane_state *s)
{
    (void)t;
    const double max = highest(x, n);
    join(s, max, exp_sum(x, max > -INFINITY ? max : 0, n));
}

static void softmax_tile_f32(const qn_task *t, void *y, const void *x, int64_t n, lane_state *s)
{
    (void)t->kernels->exp_sum_f32(y, x, (float)s->a, n);
    t->kernels->mul_scale_f32(y, y, NULL, (float)(1 / s->b), n);
}

static void softmax_tile_f64(const qn_task *t, void *y_, const void *x_, int64_t n, lane_state *s)
{
    const double *x = x_;
    double *y = y_;
    (void)t;
    for (int64_t i = 0; i < n; i++) y[i] = exp(x[i] - s->a) / s->b;
}

static void log_softmax_tile_f32(const qn_task *t, void *y, const void *x, int64_t n, lane_state *s)
{
    shift_f32(t, y, x, -(float)s->a, n);
    shift_f32(t, y, y, -(float)log(s->b), n);
}

static void log_softmax_tile_f64(const qn_task *t, void *y_, const void *x_, int64_t n, lane_state *s)
{
    const double *x = x_, log_sum = log(s->b);
    double *y = y_;
    (void)t;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - s->a) - log_sum;
}

static const along softmax = {{softmax_f32, NULL, NULL},
                              {fold_f32, fold_f64, NULL},
                              {softmax_tile_f32, softmax_tile_f64, NULL},
                              {-INFINITY, 0, 0}};
DRIVER(softmax, softmax)
static const along log_softmax = {{log_softmax_f32, NULL, NULL},
                                  {fold_f32, fold_f64, NULL},
                                  {log_softmax_tile_f32, log_softmax_tile_f64, NULL},
                                  {-INFINITY, 0, 0}};
DRIVER(log_softmax, log_softmax)

/* ---- scans ----------------------------------------------------------------------------------- */

#define SCAN(fn, T, from, step) \
    static void fn(const qn_task *t, void *y_, const void *x_, int64_t n, lane_state *s) \
    { \
        const T *x = x_; \
        T *y = y_; \
        (void)t; \
        for (int64_t i = 0; i < n; i++) { \
            step; \
            y[i] = (T)s->from; \
        } \
    }
SCAN(cumsum_f32, float, a, s->a += (double)x[i])
SCAN(cumsum_f64, double, a, s->a += x[i])
SCAN(cumsum_i64, int64_t, i, s->i = (int64_t)((uint64_t)s->i + (uint64_t)x[i]))
SCAN(cumprod_f32, float, a, s->a *= (double)x[i])
SCAN(cumprod_f64, double, a, s->a *= x[i])
SCAN(cumprod_i64, int64_t, i, s->i = (int64_t)((uint64_t)s->i * (uint64_t)x[i]))

static const along cumsum = {{NULL}, {NULL}, {cumsum_f32, cumsum_f64, cumsum_i64}, {0, 0, 0}};
DRIVER(cumsum, cumsum)
static const along cumprod = {{NULL}, {NULL}, {cumprod_f32, cumprod_f64, cumprod_i64}, {1, 0, 1}};
DRIVER(cumprod, cumprod)
