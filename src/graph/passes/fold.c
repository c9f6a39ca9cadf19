/* SPDX-License-Identifier: MIT */
/* src/graph/passes/fold.c -- scales that change nothing go, scales of scales become one where not a bit can differ, and
 * nodes of constants only are computed now, through the caller's function, and become constants. A bias of -0 is none:
 * x + -0 is x for every x (the builder writes it for 0). */
#include "graph/passes/passes.h"
#include <math.h>
#include <string.h>

/* A larger result is computed at every run instead: it would cost more to keep than to compute. */
#define FOLD_MAX_BYTES (16 << 20)

/* ---- scales ---- */

static bool none(float bias) { return bias == 0.0f && signbit(bias); }

static bool scale_changes_nothing(const qn_pass_ctx *ctx, const qn_node *n)
{
    const qn_scale_attrs *a = n->attrs;
    const qn_node *x = n->src[0];
    return a->scale == 1.0f && none(a->bias) && n->hint == x->hint && qn__row_major(&x->layout) &&
           qn__pass_may_read_later(ctx, x, n->id);
}

/* Is b.scale * (a.scale * x) + b.bias the same float as (a.scale * b.scale) * x + b.bias for every x, whether or not a
 * kernel fuses the multiplication with the addition? */
static bool scales_merge(const qn_scale_attrs *a, const qn_scale_attrs *b)
{
    if (!none(a->bias)) return false;
    if (fabsf(a->scale) == 1.0f) return true; /* the inner product is exact */
    /* the outer one is; before a bias the inner rounding would show */
    if (fabsf(b->scale) == 1.0f) return none(b->bias);
    int exponent; /* of 2^k with k >= 0: nothing rounds, and what overflows inside does so in the end too */
    if (fabsf(frexpf(a->scale, &exponent)) != 0.5f || exponent < 1) return false;
    return none(b->bias) && fabsf(b->scale) >= 1.0f && isfinite(a->scale * b->scale);
}

static qn_status merge_scales(qn_pass_ctx *ctx, qn_node *n, qn_error *err)
{
    const qn_node *inner = n->src[0];
    const qn_scale_attrs *b = n->attrs, *a = inner->attrs;
    if (inner->op != QN_OP_scale || inner->hint != n->hint || !scales_merge(a, b)) return QN_OK;
    if (!qn__pass_may_read_later(ctx, inner->src[0], inner->id)) return QN_OK;
    qn_scale_attrs *attrs = qn__arena_alloc(&ctx->g->arena, sizeof *attrs);
    if (attrs == NULL) return QN_FAIL_NOMEM(err, sizeof *attrs);
    *attrs = (qn_scale_attrs){a->scale * b->scale, b->bias};
    n->attrs = attrs;
    n->src[0] = inner->src[0];
    ctx->changed++;
    return QN_OK;
}

/* ---- constants ---- */

/* The bytes of a view of a constant, row-major. Units are scalars or whole blocks, which views never cut. */
static void gather(const qn_node *n, char *dst)
{
    const qn_dtype_info *info = qn_dtype_get(n->dtype);
    const size_t unit = (size_t)info->block_bytes;
    const char *src = n->root->host;
    int64_t index[QN_MAX_RANK] = {0};
    qn_layout l = n->layout;
    for (int i = 0; info->block_elems > 1 && i < l.rank - 1; i++) l.stride[i] /= info->block_elems;
    if (info->block_elems > 1) l.dim[l.rank - 1] /= info->block_elems;
    l.offset /= info->block_elems;
    for (int64_t left = qn_layout_numel(&l), at = l.offset; left > 0; left--) {
        memcpy(dst, src + (size_t)at * unit, unit);
        dst += unit;
        for (int i = l.rank - 1; i >= 0; i--) {
            at += l.stride[i];
            if (++index[i] < l.dim[i]) break;
            at -= l.stride[i] * l.dim[i];
            index[i] = 0;
        }
    }
}

/* `out` becomes a const param of the values of `s`, as the fold function wants its sources. */
static qn_status plain_const(const qn_node *s, qn_node *out, qn_arena *arena, qn_error *err)
{
    static const qn_no_attrs no_attrs;
    *out = *s;
    if (s->op == QN_OP_param) {
        out->root = out;
        return QN_OK;
    }
    const size_t bytes = (size_t)qn__node_bytes(s);
    char *host = qn__arena_alloc_aligned(arena, bytes, QN_ALIGN_CPU);
    if (host == NULL) return QN_FAIL_NOMEM(err, bytes);
    gather(s, host);
    *out = (qn_node){.op = QN_OP_param,
                     .dtype = s->dtype,
                     .attrs = &no_attrs,
                     .root = out,
                     .flags = QN_NODE_const,
                     .layer = -1,
                     .name = s->name,
                     .host = host,
                     .place = -1,
                     .hint = -1,
                     .id = s->id};
    const qn_shape shape = qn_layout_shape(&s->layout);
    return qn_layout_contiguous(&shape, &out->layout, err);
}

static bool foldable(const qn_pass_ctx *ctx, const qn_node *n)
{
    if (ctx->options->fold == NULL || qn__op_info(n->op)->kind != QN_KIND_compute) return false;
    if ((n->flags & QN_NODE_output) || n->n_src == 0 || qn__may_stop(n) || qn__node_bytes(n) > FOLD_MAX_BYTES)
        return false;
    for (int k = 0; k < n->n_src; k++) {
        const qn_node *s = n->src[k];
        if (!qn__is_param(s->root, QN_NODE_const) || s->root->host == NULL) return false;
        if (qn__node_bytes(s) > FOLD_MAX_BYTES) return false;
        if (!qn__node_is_view(s) && s->op != QN_OP_param) return false;
    }
    return true;
}

static qn_status compute(qn_pass_ctx *ctx, const qn_node *n, void *host, qn_error *err)
{
    qn_node plain[QN_MAX_SRC], copy = *n;
    qn_arena arena; /* gathered views live only while the node is computed */
    qn_status status = QN_OK;
    qn__arena_init(&arena, 0);
    copy.root = &copy;
    for (int k = 0; k < n->n_src && status == QN_OK; k++) {
        copy.src[k] = &plain[k];
        status = plain_const(n->src[k], &plain[k], &arena, err);
    }
    if (status == QN_OK) status = ctx->options->fold(ctx->options->fold_ctx, &copy, host, err);
    qn__arena_deinit(&arena);
    return status;
}

/* The node becomes a param where it stands, so its users and its name stay. A fold function that says `unsupported`
 * leaves the node as it is. */
static qn_status fold_const(qn_pass_ctx *ctx, qn_node *n, qn_error *err)
{
    static const qn_no_attrs no_attrs;
    const size_t bytes = (size_t)qn__node_bytes(n);
    const qn_arena_mark mark = qn__arena_get_mark(&ctx->g->arena);
    void *host = qn__arena_alloc_aligned(&ctx->g->arena, bytes, QN_ALIGN_CPU);
    if (host == NULL) return QN_FAIL_NOMEM(err, bytes);
    qn_error why = {0};
    const qn_status status = compute(ctx, n, host, &why);
    if (status == QN_STATUS_unsupported) {
        qn__arena_reset(&ctx->g->arena, mark);
        return QN_OK;
    }
    if (status != QN_OK) {
        if (err != NULL) *err = why;
        return status;
    }
    memset(n->src, 0, sizeof n->src);
    n->n_src = 0;
    n->op = QN_OP_param;
    n->attrs = &no_attrs;
    n->flags |= QN_NODE_const;
    n->host = host;
    n->root = n;
    n->scratch_bytes = 0;
    ctx->changed++;
    return QN_OK;
}

qn_status qn__pass_fold(qn_pass_ctx *ctx, qn_error *err)
{
    for (int32_t i = 0; i < ctx->g->n_nodes; i++) {
        qn_node *n = ctx->g->nodes[i];
        QN_TRY(qn__pass_resolve(ctx, n, err));
        if (foldable(ctx, n)) {
            QN_TRY(fold_const(ctx, n, err));
            continue;
        }
        if (n->op != QN_OP_scale) continue;
        QN_TRY(merge_scales(ctx, n, err));
        if (!(n->flags & QN_NODE_output) && scale_changes_nothing(ctx, n)) qn__pass_replace(ctx, n, n->src[0]);
    }
    return QN_OK;
}
