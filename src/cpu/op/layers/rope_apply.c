/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/rope_apply.c -- rotates pairs of each head of x [..,n,heads,d] by rows of a rope_table; see rope.c.
 * Back is by the same rows with their sines negated. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <string.h>

#define ATTRS(of) ((const qn_rope_apply_attrs *)(of)->attrs)

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    if ((size_t)ATTRS(node)->n_rot * sizeof(float) > QN_MM_TILE_BYTES) {
        QN_FAIL(err, unsupported, "rope_apply: %d rotated elements of a head, at most %d are possible",
                ATTRS(node)->n_rot, (int)(QN_MM_TILE_BYTES / sizeof(float)));
        return false;
    }
    return qn__want_dense_rows(node, "x", node->src[0], err) &&
           qn__want_dense_rows(node, "the table", node->src[1], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(8192, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

/* The token of head number `row` of x, counted over all dimensions but heads. */
static int64_t token_of(const qn_task *t, int64_t row)
{
    const qn_layout *x = &t->dst.layout;
    if (!ATTRS(t)->heads_first) return row / x->dim[x->rank - 2];
    const int64_t heads = x->dim[x->rank - 3], n = x->dim[x->rank - 2];
    return row / (heads * n) * n + row % n;
}

static void rotate_f64(double *y, const double *x, const double *cos_sin, int64_t n_pairs, bool neox, bool back)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        const int64_t first = neox ? i : 2 * i, second = neox ? i + n_pairs : 2 * i + 1;
        const double c = cos_sin[2 * i], s = back ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1], a = x[first],
                     b = x[second];
        y[first] = a * c - b * s;
        y[second] = b * c + a * s;
    }
}

/* The table's row for `token`; for the inverse rotation a copy, valid until the next call. */
static const float *cos_sin_of(const qn_task *t, int64_t token, int64_t *copied)
{
    const int64_t n_rot = ATTRS(t)->n_rot;
    const float *row = qn__row_f32(&t->src[1], token);
    if (!ATTRS(t)->back) return row;
    if (*copied == token) return t->tile;
    *copied = token;
    for (int64_t i = 0; i < n_rot; i += 2) {
        t->tile[i] = row[i];
        t->tile[i + 1] = -row[i + 1];
    }
    return t->tile;
}

static void run(const qn_task *t)
{
    const qn_rope_apply_attrs *a = t->attrs;
    const int64_t d = qn__row_size(&t->dst.layout), n_table = qn__row_count(&t->src[1].layout), rest = d - a->n_rot;
    const int64_t elem = qn_dtype_get(t->dst.dtype)->block_bytes;
    const bool neox = a->mode == QN_ROPE_NEOX;
    int64_t copied = -1;

    for (int64_t r = t->begin; r < t->end; r++) {
        const int64_t token = token_of(t, r) % n_table;
        uint8_t *y = qn__row_at(&t->dst, r);
        const uint8_t *x = qn__row_at(&t->src[0], r);
        if (t->dst.dtype == QN_DTYPE_F64) {
            rotate_f64((double *)(void *)y, (const double *)(const void *)x,
                       (const double *)(const void *)qn__row_at(&t->src[1], token), a->n_rot / 2, neox, a->back);
        } else {
            (neox ? t->kernels->rope_neox_f32 : t->kernels->rope_norm_f32)((float *)(void *)y,
                                                                           (const float *)(const void *)x,
                                                                           cos_sin_of(t, token, &copied), a->n_rot / 2);
        }
        if (rest > 0 && y != x) memcpy(y + a->n_rot * elem, x + a->n_rot * elem, (size_t)(rest * elem));
    }
}

const qn_cpu_op qn__cpu_op_rope_apply = {QN_OP_rope_apply, accepts, NULL, 1, items, run};
