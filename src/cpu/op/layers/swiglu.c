/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/swiglu.c -- y = silu(gate) * up, and its gradients to gate and up, which share one exponential. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>

static void swiglu(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    t->kernels->swiglu_f32(y, x[0], x[1], n);
}
QN_PW_LOOP2(swiglu_f64, double, double, a / (1 + exp(-a)) * b)
static const qn_pw pw = {.fn = {swiglu, swiglu_f64}};
QN_PW_DRIVER(swiglu, pw)

/* ---- gradients: runs of the sources, as pointwise operations have them, into the two halves of the result --- */

enum { ROOM = 12 * QN_PW_RUN, ROOM_Y = 8 * QN_PW_RUN }; /* bytes, as in pointwise.c */
_Static_assert(3 * ROOM + 2 * ROOM_Y <= QN_MM_TILE_BYTES, "a tile holds the sources and both results");

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    return qn__pw_items(kernels, node->src[0], phase, chunk);
}

static void back_f64(double *d_gate, double *d_up, const double *dy, const double *gate, const double *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double g = gate[i], s = 1 / (1 + exp(-g));
        d_up[i] = dy[i] * (g * s);
        d_gate[i] = dy[i] * up[i] * (s * (1 + g * (1 / (1 + exp(g)))));
    }
}

static void run_back(const qn_task *t)
{
    const qn_dtype to = t->dst.dtype;
    const int64_t total = qn_layout_numel(&t->src[0].layout), y_bytes = qn_dtype_get(to)->block_bytes;
    const bool direct = qn__number_is(to);
    uint8_t *tile = (uint8_t *)t->tile;
    const qn_walk walk[3] = {qn__walk_of(&t->src[0]), qn__walk_of(&t->src[1]), qn__walk_of(&t->src[2])};

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_PW_RUN, n = total - at < QN_PW_RUN ? total - at : QN_PW_RUN;
        const void *x[3];
        for (int i = 0; i < 3; i++) x[i] = qn__walk_load(t->kernels, &walk[i], at, n, tile + i * ROOM);
        uint8_t *out[2], *y[2];
        for (int i = 0; i < 2; i++) {
            out[i] = t->dst.data + (i * total + at) * y_bytes;
            y[i] = direct ? out[i] : tile + 3 * ROOM + i * ROOM_Y;
        }
        if (qn__number_of(to) == QN_NUM_f64)
            back_f64((double *)(void *)y[0], (double *)(void *)y[1], x[0], x[1], x[2], n);
        else
            t->kernels->swiglu_back_f32((float *)(void *)y[0], (float *)(void *)y[1], x[0], x[1], x[2], n);
        for (int i = 0; i < 2 && !direct; i++) qn__narrow_to(t->kernels, to, y[i], n, out[i]);
    }
}

const qn_cpu_op qn__cpu_op_swiglu_back = {QN_OP_swiglu_back, qn__pw_accepts, NULL, 1, items, run_back};
