/* SPDX-License-Identifier: MIT */
/* src/graph/passes/fuse.c -- an op and its only user become one op that is defined as the two in a row:
 *   mul(silu(g), u) or mul(u, silu(g))          -> swiglu(g, u)            silu(g) * u
 *   mul(rms_norm(x), w) or mul(w, rms_norm(x))  -> rms_norm(x, w)          (x * s) * w
 *   add(linear(x, w), b) or add(b, linear(..))  -> linear(x, w, b)         x w^T, then + b
 * Addition and multiplication commute bit for bit, so either order of the outer op's sources does. The outer node is
 * rewritten where it stands and keeps its name and users; the inner one goes. One row a rule. */
#include "graph/passes/passes.h"
#include <string.h>

typedef struct rule {
    qn_op inner, outer, fused;
    int inner_src;                                            /* exactly so many sources before fusing */
    bool (*fits)(const qn_node *inner, const qn_node *other); /* other: what the outer op combines it with */
    /* the fused op takes the inner's attributes, else none */
    bool inner_attrs;
} rule;

static bool same_shape(const qn_node *inner, const qn_node *other)
{
    const qn_shape a = qn_layout_shape(&inner->layout), b = qn_layout_shape(&other->layout);
    return qn_shape_equal(&a, &b);
}

static bool of_floats(const qn_node *inner, const qn_node *other)
{
    return inner->dtype == QN_DTYPE_F32 && other->dtype == QN_DTYPE_F32 && same_shape(inner, other);
}

static bool last_dim_vector(const qn_node *inner, const qn_node *other)
{
    const qn_layout *x = &inner->layout, *v = &other->layout;
    return v->rank == 1 && x->rank >= 1 && v->dim[0] == x->dim[x->rank - 1];
}

/* clang-format off */
static const rule rules[] = {
    {QN_OP_silu,     QN_OP_mul, QN_OP_swiglu,   1, of_floats,       false},
    {QN_OP_rms_norm, QN_OP_mul, QN_OP_rms_norm, 1, last_dim_vector, true},
    {QN_OP_linear,   QN_OP_add, QN_OP_linear,   2, last_dim_vector, false},
};
/* clang-format on */

static bool applies(const qn_pass_ctx *ctx, const rule *r, const qn_node *outer, int side, const int32_t *users)
{
    const qn_node *inner = outer->src[side], *other = outer->src[1 - side];
    if (outer->op != r->outer || inner->op != r->inner || inner->n_src != r->inner_src) return false;
    if (users[inner->id] != 1 || inner->hint != outer->hint || !r->fits(inner, other)) return false;
    for (int k = 0; k < inner->n_src; k++) { /* they will be read where the outer node stands */
        if (!qn__pass_may_read_later(ctx, inner->src[k], inner->id)) return false;
    }
    return true;
}

static void rewrite(qn_pass_ctx *ctx, const rule *r, qn_node *outer, int side)
{
    static const qn_no_attrs no_attrs;
    qn_node *inner = outer->src[side], *other = outer->src[1 - side];
    outer->op = r->fused;
    outer->attrs = r->inner_attrs ? inner->attrs : &no_attrs;
    memcpy(outer->src, inner->src, sizeof outer->src);
    outer->n_src = inner->n_src;
    outer->src[outer->n_src++] = other;
    qn__pass_remove(ctx, inner, outer);
}

qn_status qn__pass_fuse(qn_pass_ctx *ctx, qn_error *err)
{
    int32_t *users = ctx->scratch;
    qn__pass_count_users(ctx, users);
    for (int32_t i = 0; i < ctx->g->n_nodes; i++) {
        qn_node *n = ctx->g->nodes[i];
        QN_TRY(qn__pass_resolve(ctx, n, err));
        bool done = n->n_src != 2;
        for (size_t r = 0; r < sizeof rules / sizeof rules[0] && !done; r++) {
            for (int side = 0; side < 2 && !done; side++) {
                done = applies(ctx, &rules[r], n, side, users);
                if (done) rewrite(ctx, &rules[r], n, side);
            }
        }
    }
    return QN_OK;
}
