/* SPDX-License-Identifier: MIT */
/* src/array/autograd/checkpoint.c -- parts of a program that are recorded twice, so that nothing of their inside is
 * kept in between: once without the tape, and once more when backward comes there, on inputs that the passes cannot
 * take for those of the first time (QN_OP_barrier). */
#include "array/autograd/tape.h"
#include <quern/autograd.h>

#include <string.h>

/* ---- the first time ---- */

static qn_tensor *noted(qn_tensor *y, const qn_again *again, qn_tensor *const *inputs, int n)
{
    qn_auto *a = qn__auto_new(of(y)->ctx, QN_OP_barrier);
    if (a == NULL) return NULL;
    a->again = true;
    memset(a->attrs, 0, sizeof a->attrs);
    memcpy(a->attrs, again, sizeof *again);
    a->n_src = n;
    for (int i = 0; i < n; i++) qn__auto_edge(&a->src[i], inputs[i], true);
    a->y.dtype = of(y)->storage->dtype;
    a->y.place = qn__place_of(y);
    a->y.layout = of(y)->layout;
    of(y)->grad_fn = a;
    of(y)->rebased = of(y)->storage->rebased;
    return y;
}

static bool shares(const qn_tensor *y, qn_tensor *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        if (of(inputs[i])->storage == of(y)->storage) return true;
    }
    return false;
}

qn_tensor *qn_checkpoint(qn_checkpoint_fn fn, void *arg, qn_tensor *const *inputs, int n)
{
    if (n < 1 || inputs == NULL || !LIVE(inputs[0])) return NULL;
    if (n > QN_MAX_SRC) {
        (void)QN_FAIL(qn__err(of(inputs[0])->ctx), invalid, "checkpoint: %d inputs, at most %d are possible", n,
                      QN_MAX_SRC);
        return NULL;
    }
    qn_context *ctx = qn__one_context("checkpoint", inputs, n); /* the function may move them */
    if (ctx == NULL || ctx->grad_off) return ctx != NULL ? fn(arg, inputs, n) : NULL;
    const qn_again again = {fn, arg, ctx->seed, ctx->drawn, ctx->place};
    if (!qn__make_room(ctx) || qn_scope_begin(ctx) != QN_OK) return NULL;
    ctx->grad_off = true;
    qn_tensor *y = fn(arg, inputs, n);
    qn_tensor *own = y != NULL ? qn_detach(y) : NULL; /* it may be an input, or a view of one */
    if (own != NULL) of(own)->detached = shares(y, inputs, n);
    y = own;
    ctx->grad_off = false;
    if (y != NULL && qn__is_real(of(y)->storage->dtype)) y = noted(y, &again, inputs, n);
    return qn_scope_end(ctx, y);
}

/* ---- and once more ---- */

static qn_tensor *held(qn_auto *a, const qn_edge *e)
{
    qn_context *ctx = a->ctx;
    qn_node *x;
    if (qn__auto_value(a, e, &x) != QN_OK) return NULL;
    const qn_barrier_attrs attrs = {ctx->graph->n_nodes};
    qn_tensor *t = qn__tensor_of(ctx, qn__node_op(ctx, QN_OP_barrier, &attrs, &x, 1));
    return t != NULL && e->to != NULL ? qn_requires_grad_(t, true) : t;
}

static qn_status check_same(const qn_auto *a, const qn_tensor *y)
{
    qn_context *ctx = a->ctx;
    if (y == NULL) return qn__status(ctx);
    const qn_shape was = qn_layout_shape(&a->y.layout), is = qn_layout_shape(&of(y)->layout);
    if (of(y)->ctx == ctx && of(y)->storage->dtype == a->y.dtype && qn_shape_equal(&was, &is)) return QN_OK;
    char before[192], now[192];
    return QN_FAIL(qn__err(ctx), state, "checkpoint: the function gave %s %s and, called again, %s %s",
                   qn_dtype_get(a->y.dtype)->name, qn_shape_print(&was, before, sizeof before),
                   qn_dtype_get(of(y)->storage->dtype)->name, qn_shape_print(&is, now, sizeof now));
}

/* Entries that the function made lie between the newest and `mark`; what they lead to outside only collects its
 * gradient. */
static qn_status walk_inside(qn_auto *a, qn_tensor *y, const qn_auto *mark)
{
    qn_context *ctx = a->ctx;
    if (!qn__tape_fresh(y)) return qn__status(ctx);
    if (of(y)->grad_fn == NULL) return QN_OK;
    qn__auto_add(of(y)->grad_fn, a->dy);
    for (qn_auto *e = ctx->tape_newest; e != mark; e = e->older) {
        if (e->dy != NULL && !e->leaf) QN_TRY(qn__auto_step(e));
    }
    return QN_OK;
}

static qn_status record_again(qn_auto *a, const qn_auto *mark)
{
    const qn_again *again = (const void *)a->attrs;
    qn_tensor *inputs[QN_MAX_SRC];
    for (int i = 0; i < a->n_src; i++) {
        inputs[i] = held(a, &a->src[i]);
        if (inputs[i] == NULL) return qn__status(a->ctx);
    }
    a->ctx->looked = false;
    qn_tensor *y = again->fn(again->arg, inputs, a->n_src);
    if (a->ctx->looked) return QN_STATUS_state; /* the context knows; the function went on with what is no value */
    QN_TRY(check_same(a, y));
    QN_TRY(walk_inside(a, y, mark));
    for (int i = 0; i < a->n_src; i++) {
        qn_auto *in = of(inputs[i])->grad_fn;
        if (a->src[i].to != NULL && in != NULL && in->dy != NULL) qn__auto_add(a->src[i].to, in->dy);
    }
    return QN_OK;
}

qn_status qn__auto_again(qn_auto *a)
{
    qn_context *ctx = a->ctx;
    const qn_again *again = (const void *)a->attrs;
    const qn_again now = {.seed = ctx->seed, .drawn = ctx->drawn};
    const bool was = ctx->grad_off;
    qn_auto *mark = ctx->tape_newest;
    QN_TRY(qn_scope_begin(ctx));
    ctx->seed = again->seed;
    ctx->drawn = again->drawn;
    ctx->grad_off = false;
    const int32_t place = qn__place_swap(ctx, again->place);
    const qn_status status = record_again(a, mark);
    qn__place_swap(ctx, place);
    for (qn_auto *e = ctx->tape_newest; e != mark; e = e->older) e->dy = NULL;
    (void)qn_scope_end(ctx, NULL);
    ctx->seed = now.seed;
    ctx->drawn = now.drawn;
    ctx->grad_off = was;
    return status;
}
