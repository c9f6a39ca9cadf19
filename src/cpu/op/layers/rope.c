/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/rope.c -- rotates pairs of each head of x [n,heads,d] by an angle proportional to the position.
 *
 * Phase 0 fills a table of cosines and sines, n_rot/2 pairs a token, in double: the angle of position 10^6 is exact
 * to 1e-10, and each entry is the nearest float to within 1e-9. (Computed in float, as is usual, that angle would be
 * off by 0.06.) Phase 1 rotates the heads. A token's result depends on its own position only.
 *
 * Models and training use the two phases as two operations, rope_table and rope_apply, with the same bits: many
 * layers, forward and backward, share the table of one node. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    const qn_rope_attrs *a = node->attrs;
    const qn_node *x = node->src[0], *factors = node->n_src > 2 ? node->src[2] : NULL;
    if (!qn__want_dtype(node, "x", x, QN_DTYPE_F32, err) || !qn__want_dense_rows(node, "x", x, err)) return false;
    if (!qn__want_dtype(node, "the positions", node->src[1], QN_DTYPE_I32, err)) return false;
    if (a->n_rot < 0 || a->n_rot % 2 || a->n_rot > qn__row_size(&x->layout)) {
        QN_FAIL(err, unsupported, "rope: %d rotated elements of %lld, an even number of at most as many expected",
                (int)a->n_rot, (long long)qn__row_size(&x->layout));
        return false;
    }
    return !factors || (qn__want_dtype(node, "the frequency factors", factors, QN_DTYPE_F32, err) &&
                        qn__want_dense_rows(node, "the frequency factors", factors, err));
}

static int64_t n_tokens(const qn_node *node) { return node->src[0]->layout.dim[0]; }

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    const qn_rope_attrs *a = node->attrs;
    return (uint64_t)n_tokens(node) * (uint64_t)a->n_rot * sizeof(float);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    *chunk = phase == 0 ? 16 : qn__chunk_of(8192, qn__row_size(&node->layout));
    return phase == 0 ? n_tokens(node) : qn__row_count(&node->layout);
}

/* YaRN (Peng et al. 2023) keeps the angles of fast pairs as trained and scales those of slow ones; between the pairs
 * that rotate beta_fast and beta_slow times over the training context it blends linearly. low, high: the numbers of
 * these pairs. */
typedef struct blend {
    double low, high, ext, scale;
} blend;

static double pair_with_rotations(const qn_rope_attrs *a, double rotations)
{
    return a->n_rot * log(a->n_ctx_orig / (rotations * 2 * PI)) / (2 * log((double)a->base));
}

static blend blend_of(const qn_rope_attrs *a)
{
    blend b = {0, 0, a->ext_factor, a->attn_factor};
    if (a->ext_factor == 0) return b;
    b.low = pair_with_rotations(a, a->beta_fast);
    b.high = pair_with_rotations(a, a->beta_slow);
    if (!a->exact_bounds) {
        b.low = floor(b.low);
        b.high = ceil(b.high);
    }
    b.low = fmax(0, b.low);
    b.high = fmin(a->n_rot - 1, b.high);
    b.scale *= 1 + 0.1 * log(1.0 / a->freq_scale); /* the attention temperature of the paper */
    return b;
}

/* Which of a position's four numbers pair i rotates by. */
static int64_t axis_of(const qn_rope_attrs *a, int64_t i)
{
    const int32_t *s = a->sections;
    i %= (int64_t)s[0] + s[1] + s[2] + s[3];
    if (a->interleaved) return i / 3 < s[i % 3] ? i % 3 : 3;
    int64_t axis = 0;
    for (; axis < 3 && i >= s[axis]; axis++) i -= s[axis];
    return axis;
}

/* Rows [begin, end) of the table for positions `pos` of any layout; entries are floats, or doubles. */
static void fill_table(const qn_rope_attrs *a, const qn_view *pos, const float *factors, void *table, bool wide,
                       int64_t begin, int64_t end)
{
    const blend b = blend_of(a);
    const int64_t n_pairs = a->n_rot / 2, row = qn__row_size(&pos->layout), step = qn__row_step(&pos->layout);
    const bool in_sections = qn__rope_in_sections(a);

    for (int64_t i = 0; i < n_pairs; i++) {
        const int64_t axis = in_sections ? axis_of(a, i) : 0, numbers = qn__rope_numbers(a);
        const bool stays = a->of_text && axis == 3;
        const double frequency = pow(a->base, -2.0 * (double)i / a->n_rot) / (factors ? factors[i] : 1.0);
        double speed = frequency * a->freq_scale;
        if (b.ext != 0) {
            const double past = ((double)i - b.low) / fmax(0.001, b.high - b.low);
            const double keep = (1 - fmin(1, fmax(0, past))) * b.ext;
            speed = speed * (1 - keep) + frequency * keep;
        }
        for (int64_t token = begin; token < end; token++) {
            const int64_t p = token * numbers + (numbers > 1 ? axis : 0);
            const int64_t at = stays ? 0 : qn__index_at(pos, qn__row_start(&pos->layout, p / row) + p % row * step);
            const double c = cos((double)at * speed) * b.scale, s = sin((double)at * speed) * b.scale;
            const int64_t entry = (token * n_pairs + i) * 2;
            if (wide) {
                ((double *)table)[entry] = c;
                ((double *)table)[entry + 1] = s;
            } else {
                ((float *)table)[entry] = (float)c;
                ((float *)table)[entry + 1] = (float)s;
            }
        }
    }
}

static void rotate_heads(const qn_task *t)
{
    const qn_rope_attrs *a = t->attrs;
    const int64_t d = qn__row_size(&t->dst.layout), n_heads = t->dst.layout.dim[1], rest = d - a->n_rot;

    for (int64_t r = t->begin; r < t->end; r++) {
        const float *x = qn__row_f32(&t->src[0], r);
        const float *cos_sin = (const float *)(const void *)t->scratch + r / n_heads * a->n_rot;
        float *y = qn__row_f32(&t->dst, r);
        (a->mode == QN_ROPE_NEOX ? t->kernels->rope_neox_f32 : t->kernels->rope_norm_f32)(y, x, cos_sin, a->n_rot / 2);
        if (rest > 0 && y != x) memcpy(y + a->n_rot, x + a->n_rot, (size_t)rest * 4);
    }
}

static void run(const qn_task *t)
{
    const float *factors = t->n_src > 2 ? (const float *)(const void *)t->src[2].data : NULL; /* [n_rot/2] */
    if (t->phase == 0)
        fill_table(t->attrs, &t->src[1], factors, t->scratch, false, t->begin, t->end);
    else
        rotate_heads(t);
}

const qn_cpu_op qn__cpu_op_rope = {QN_OP_rope, accepts, scratch, 2, items, run};

/* ---- the table alone ------------------------------------------------------------------------- */

static bool accepts_table(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return node->n_src < 2 || qn__want_dense_rows(node, "the frequency factors", node->src[1], err);
}

static int64_t table_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 16;
    const qn_rope_table_attrs *a = node->attrs;
    return qn_layout_numel(&node->src[0]->layout) / qn__rope_numbers(&a->rope);
}

static void run_table(const qn_task *t)
{
    const float *factors = t->n_src > 1 ? (const float *)(const void *)t->src[1].data : NULL; /* [n_rot/2] */
    const qn_rope_table_attrs *a = t->attrs;
    fill_table(&a->rope, &t->src[0], factors, t->dst.data, a->dtype == QN_DTYPE_F64, t->begin, t->end);
}

const qn_cpu_op qn__cpu_op_rope_table = {QN_OP_rope_table, accepts_table, NULL, 1, table_items, run_table};
