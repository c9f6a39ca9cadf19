/* SPDX-License-Identifier: MIT */
/* src/nn/clip.c -- norms of all gradients together, and clipping by them. */
#include "nn/optim.h"

#include <quern/ops.h>

#include <math.h>

/* ---- whose gradients ------------------------------------------------------------------------- */

typedef struct grads {
    qn_context *ctx;
    const qn_optimizer *o;    /* of its parameters, or */
    qn_tensor *const *params; /* of these */
    int n;
} grads;

static qn_tensor *grad_at(const grads *g, int i) { return qn_grad(g->o != NULL ? g->o->slots[i].param : g->params[i]); }
static grads of_optimizer(const qn_optimizer *o) { return (grads){.ctx = o->ctx, .o = o, .n = o->n_slots}; }

/* ---- the norm -------------------------------------------------------------------------------- */

/* A chain of nodes, each of which takes the sum so far and as many gradients as a node has room for. */
typedef struct chain {
    qn_tensor *src[QN_MAX_SRC];
    int n;
    bool carry;
} chain;

static bool fold(chain *c)
{
    c->src[0] = qn__apply(QN_OP_sum_squares, &(qn_sum_squares_attrs){c->carry}, c->src, c->n);
    c->n = 1;
    c->carry = true;
    return c->src[0] != NULL;
}

static qn_tensor *sum_of_squares(const grads *g)
{
    chain c = {0};
    for (int i = 0; i < g->n; i++) {
        qn_tensor *grad = grad_at(g, i);
        if (grad == NULL) continue;
        const bool crosses = c.n > 0 && qn__place_of(grad) != qn__place_of(c.src[0]);
        if ((c.n == QN_MAX_SRC || crosses) && !fold(&c)) return NULL;
        if (crosses && (c.src[0] = qn__there(c.src[0], qn__place_of(grad))) == NULL) return NULL;
        c.src[c.n++] = grad;
    }
    if (c.n == 0) return qn_zeros(g->ctx, QN_SCALAR, QN_DTYPE_F64);
    return fold(&c) ? c.src[0] : NULL;
}

qn_tensor *qn__optim_sum_of_squares(const qn_optimizer *o)
{
    const grads g = of_optimizer(o);
    return sum_of_squares(&g);
}

/* The norm of norms. */
static qn_tensor *norm_of(const grads *g, double p)
{
    qn_tensor *total = NULL;
    if (p == 2) { /* a number of the host goes along with tensors of any device */
        return qn_sqrt(qn__there(sum_of_squares(g), qn__place_of_host(g->ctx)));
    }
    for (int i = 0; i < g->n; i++) {
        if (grad_at(g, i) == NULL) continue;
        qn_tensor *part = qn_to(qn_norm(grad_at(g, i), p, QN_ALL, false), QN_DTYPE_F64);
        part = qn__there(part, qn__place_of_host(g->ctx));
        if (p == 0)
            part = qn_sign(part); /* of order 0 a norm counts what is not 0: of norms, those */
        else if (!isinf(p))
            part = qn_pow_number(part, p);
        total = total == NULL ? part
                : !isinf(p)   ? qn_add(total, part)
                : p > 0       ? qn_maximum(total, part)
                              : qn_minimum(total, part);
        if (total == NULL) return NULL;
    }
    if (total == NULL) return qn_zeros(g->ctx, QN_SCALAR, QN_DTYPE_F64);
    return isinf(p) || p == 0 ? total : qn_pow_number(total, 1 / p);
}

/* min(1, max_norm / (norm + 1e-6)) */
static qn_tensor *factor_of(qn_tensor *norm, double max_norm)
{
    return qn_clamp(qn_mul_number(qn_reciprocal(qn_add_number(norm, 1e-6)), max_norm), -INFINITY, 1);
}

static qn_status check_bound(qn_context *ctx, const char *what, double bound)
{
    if (bound >= 0) return QN_OK;
    return QN_FAIL(qn__err(ctx), invalid, "%s: a bound of %g, at least 0 expected", what, bound);
}

/* ---- for the next step of an optimizer ------------------------------------------------------- */

qn_tensor *qn_optimizer_clip(qn_optimizer *o, double max_norm)
{
    qn_context *ctx = o->ctx;
    const grads g = of_optimizer(o);
    if (check_bound(ctx, "clip", max_norm) != QN_OK || !qn__make_room(ctx) || qn_scope_begin(ctx) != QN_OK) return NULL;
    const bool was = qn_set_grad_enabled(ctx, false);
    qn_tensor *norm = norm_of(&g, 2);
    if (o->unscale != 1) norm = qn_mul_number(norm, o->unscale);
    qn_tensor *factor = qn_keep(factor_of(norm, max_norm));
    qn_set_grad_enabled(ctx, was);
    if (factor != NULL) {
        qn_release(o->factor);
        o->factor = factor;
    }
    norm = qn_scope_end(ctx, factor != NULL ? norm : NULL);
    return norm;
}

/* ---- of the gradients themselves ------------------------------------------------------------- */

static qn_context *context_of(const char *what, qn_tensor *const *params, int n)
{
    if (n <= 0 || params == NULL || !qn__live(params[0], what)) return NULL;
    qn_context *ctx = of(params[0])->ctx;
    for (int i = 1; i < n; i++) {
        const char *wrong = NULL;
        if (params[i] == NULL)
            wrong = "NULL";
        else if (of(params[i])->ctx != ctx)
            wrong = "of another context";
        else if (!qn__live(params[i], what))
            return NULL;
        if (wrong == NULL) continue;
        (void)QN_FAIL(qn__err(ctx), invalid, "%s: parameter %d is %s", what, i, wrong);
        return NULL;
    }
    return ctx;
}

/* Every gradient times the factor, in a scope of the caller. */
static bool scale(const grads *g, qn_tensor *factor)
{
    for (int i = 0; i < g->n; i++) {
        if (grad_at(g, i) != NULL && qn_mul_(grad_at(g, i), factor) == NULL) return false;
    }
    return true;
}

qn_tensor *qn_clip_grad_norm_(qn_tensor *const *params, int n, double max_norm, double p)
{
    qn_context *ctx = context_of("clip_grad_norm_", params, n);
    if (ctx != NULL && isnan(p)) {
        (void)QN_FAIL(qn__err(ctx), invalid, "clip_grad_norm_: the order of the norm is NaN");
        return NULL;
    }
    if (ctx == NULL || check_bound(ctx, "clip_grad_norm_", max_norm) != QN_OK || !qn__make_room(ctx) ||
        qn_scope_begin(ctx) != QN_OK)
        return NULL;
    const grads g = {.ctx = ctx, .params = params, .n = n};
    const bool was = qn_set_grad_enabled(ctx, false);
    qn_tensor *norm = norm_of(&g, p), *factor = factor_of(norm, max_norm);
    const bool good = factor != NULL && scale(&g, factor);
    qn_set_grad_enabled(ctx, was);
    return qn_scope_end(ctx, good ? norm : NULL);
}

qn_status qn_clip_grad_value_(qn_tensor *const *params, int n, double value)
{
    if (n == 0) return QN_OK;
    qn_context *ctx = context_of("clip_grad_value_", params, n);
    if (ctx == NULL) return QN_STATUS_invalid;
    QN_TRY(check_bound(ctx, "clip_grad_value_", value));
    const bool was = qn_set_grad_enabled(ctx, false);
    bool good = qn__make_room(ctx);
    for (int i = 0; i < n && good; i++)
        good = qn_grad(params[i]) == NULL || qn_clamp_(qn_grad(params[i]), -value, value) != NULL;
    qn_set_grad_enabled(ctx, was);
    return good ? QN_OK : qn__status(ctx);
}
