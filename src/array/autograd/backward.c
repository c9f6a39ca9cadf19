/* SPDX-License-Identifier: MIT */
/* src/array/autograd/backward.c -- gradients: one walk over the tape from newest to oldest, appending nodes to the
 * pending graph. A gradient is a node until the walk is over; then those of leaves become tensors, all or none. */
#include "array/autograd/tape.h"
#include <quern/autograd.h>

#include <string.h>

/* ---- one entry ---- */

qn_status qn__auto_value(qn_auto *a, const qn_edge *e, qn_node **out)
{
    qn_error *err = qn__err(a->ctx);
    const char *op = qn__op_info(a->op)->name;
    *out = NULL;
    if (e->kept == NULL) return QN_OK;
    if (e->kept->version != e->version) {
        return QN_FAIL(
            err, state,
            "backward: a value that the gradient of %s needs was changed in place after it was used (it is at "
            "version %u, %u expected)",
            op, e->kept->version, e->version);
    }
    *out = qn__node_at(e->kept, &e->layout);
    return *out != NULL ? QN_OK : qn__status(a->ctx);
}

void qn__auto_add(qn_auto *to, qn_node *dx)
{
    qn__graph_scope(to->ctx->graph, -1, to->y.place);
    to->dy = to->dy == NULL ? dx : qn__add(to->ctx->graph, to->dy, dx);
}

/* To where the source is that it is the gradient of. Not checked here: see check_accepted. */
static qn_node *brought(qn_graph *g, qn_node *dx, int place)
{
    if (dx->root->hint == place) return dx;
    qn__graph_scope(g, -1, place);
    return qn__copy(g, dx, dx->dtype);
}

qn_status qn__auto_step(qn_auto *a)
{
    qn_context *ctx = a->ctx;
    qn_error *err = qn__err(ctx);
    const qn_grad_row *row = qn__grad_row(a->op);
    if (row->fn == NULL && !a->again)
        return QN_FAIL(err, unsupported, "backward: %s has no gradient", qn__op_info(a->op)->name);
    if (a->released) {
        return QN_FAIL(
            err, state,
            "backward: what the gradient of %s needs was let go by an earlier backward; keep it with retain_graph",
            qn__op_info(a->op)->name);
    }
    if (a->again) return qn__auto_again(a);
    qn_grad_task t = {.g = ctx->graph,
                      .op = a->op,
                      .attrs = a->attrs,
                      .n_src = a->n_src,
                      .dy = a->dy,
                      .y_shape = qn_layout_shape(&a->y.layout)};
    for (int i = 0; i < a->n_src; i++) {
        t.shape[i] = qn_layout_shape(&a->src[i].layout);
        t.dtype[i] = a->src[i].dtype;
        t.wanted[i] = a->src[i].to != NULL;
        QN_TRY(qn__auto_value(a, &a->src[i], &t.src[i]));
    }
    QN_TRY(qn__auto_value(a, &a->y, &t.y));
    qn_graph *g = ctx->graph;
    qn__graph_scope(g, -1, a->y.place);
    row->fn(&t);
    for (int i = 0; i < a->n_src; i++) {
        if (t.wanted[i] && t.dx[i] != NULL) qn__auto_add(a->src[i].to, brought(g, t.dx[i], a->src[i].place));
    }
    if (g->error.status == QN_OK) return QN_OK;
    const qn_status status = qn__prefix(&g->error, g->error.status, "gradient of %s", qn__op_info(a->op)->name);
    *err = g->error;
    g->error = (qn_error){0};
    g->arena.failed = false;
    return status;
}

/* ---- what comes out ---- */

static bool takes_gradient(const qn_auto *a) { return a->dy != NULL && (a->leaf || a->retain); }

/* Phase one: the sum with what is there already, as a node. */
static qn_status add_present(qn_auto *a)
{
    qn_context *ctx = a->ctx;
    if (a->grad == NULL) return QN_OK;
    qn_node *old = qn__node_of(a->grad);
    a->dy = old != NULL ? qn__node_op(ctx, QN_OP_add, NULL, (qn_node *[]){old, a->dy}, 2) : NULL;
    return a->dy != NULL ? QN_OK : qn__status(ctx);
}

/* Phase two: a tensor of it. What was there is remembered until all are delivered. */
static bool deliver(qn_auto *a)
{
    if (a->grad == NULL) {
        qn_tensor *t = qn__tensor_of(a->ctx, a->dy);
        if (t == NULL) return false;
        a->grad = qn_keep(t);
        a->delivery = QN_DELIVERED_new;
        return true;
    }
    qn_storage *s = of(a->grad)->storage;
    qn_node *before = s->value;
    if (!qn__store(a->grad, a->dy)) return false;
    a->delivery = QN_DELIVERED_sum;
    a->before = before;
    return true;
}

static void take_back(qn_auto *a)
{
    if (a->delivery == QN_DELIVERED_new) {
        qn_release(a->grad);
        a->grad = NULL;
    } else if (a->delivery == QN_DELIVERED_sum) {
        qn_storage *s = of(a->grad)->storage;
        s->value = a->before;
        s->version--;
        if (s->value == NULL) qn__storage_unlist(s);
    }
}

/* Nodes that backward's rows recorded were taken by rules; a backend must take them too, or the graph could not be run.
 */
static qn_status check_accepted(qn_context *ctx, int32_t from)
{
    const qn_graph *g = ctx->graph;
    qn_error *err = qn__err(ctx);
    for (int32_t i = from; i < g->n_nodes; i++) {
        const qn_op_kind kind = qn__op_info(g->nodes[i]->op)->kind;
        if (kind != QN_KIND_compute && kind != QN_KIND_update) continue;
        if (qn__node_taken(ctx, g->nodes[i], err)) continue;
        return qn__prefix(err, QN_STATUS_unsupported, "backward");
    }
    return QN_OK;
}

static qn_status walk(qn_auto *from)
{
    for (qn_auto *a = from; a != NULL; a = a->older) {
        if (a->dy == NULL || a->leaf) continue;
        QN_TRY(qn__auto_step(a));
    }
    return QN_OK;
}

/* Of the whole tape: a checkpoint's function, called again, may lead to a leaf that is newer than the root, such as a
 * weight that has been unfrozen since. */
static qn_status deliver_all(qn_context *ctx, int32_t first_node)
{
    for (qn_auto *a = ctx->tape_newest; a != NULL; a = a->older) {
        if (takes_gradient(a)) QN_TRY(add_present(a));
    }
    QN_TRY(check_accepted(ctx, first_node));
    for (qn_auto *a = ctx->tape_newest; a != NULL; a = a->older) {
        if (takes_gradient(a) && !deliver(a)) return qn__status(ctx);
    }
    return QN_OK;
}

static void clean_up(const qn_auto *root, bool good, bool release)
{
    bool walked = false; /* what is newer than the root was not, and keeps what it has */
    for (qn_auto *a = root->ctx->tape_newest; a != NULL; a = a->older) {
        walked |= a == root;
        if (a->dy == NULL) continue;
        a->dy = NULL;
        if (!good) take_back(a);
        a->delivery = QN_DELIVERED_none;
        if (!release || !walked || a->leaf) continue;
        qn__auto_drop_kept(a);
        a->released = true;
    }
}

static qn_node *seed_of(qn_tensor *t, qn_tensor *grad)
{
    qn_context *ctx = of(t)->ctx;
    const qn_shape shape = qn_layout_shape(&of(t)->layout);
    if (grad == NULL) {
        qn_node *one = qn__node_number(ctx, qn__place_of(t), 1.0, of(t)->storage->dtype);
        qn_layout l;
        if (one == NULL || qn_layout_expand(&one->layout, &shape, &l, qn__err(ctx)) != QN_OK) return NULL;
        return qn__node_view(ctx, one, &l);
    }
    return qn__node_of(grad);
}

static qn_status check_root(qn_tensor *t, qn_tensor *grad)
{
    qn_context *ctx = of(t)->ctx;
    qn_error *err = qn__err(ctx);
    char a[192], b[192];
    const qn_shape shape = qn_layout_shape(&of(t)->layout);
    if (ctx->in_backward) return QN_FAIL(err, state, "backward: another one is running");
    if (!qn__tape_fresh(t)) return qn__status(ctx);
    if (of(t)->grad_fn == NULL) return QN_FAIL(err, state, "backward: the tensor does not require a gradient");
    if (grad == NULL) {
        if (qn_layout_numel(&of(t)->layout) == 1) return QN_OK;
        return QN_FAIL(err, invalid, "backward: a gradient is needed for %s, only one of a single element is 1",
                       qn_shape_print(&shape, a, sizeof a));
    }
    const qn_shape have = qn_layout_shape(&of(grad)->layout);
    if (of(grad)->ctx == ctx && qn__place_of(grad) != qn__place_of(t))
        return QN_FAIL(err, invalid, "backward: the gradient lies on %s, the tensor on %s",
                       qn__place_name(ctx, qn__place_of(grad)), qn__place_name(ctx, qn__place_of(t)));
    if (of(grad)->ctx != ctx) return QN_FAIL(err, invalid, "backward: the gradient belongs to another context");
    if (qn_shape_equal(&shape, &have) && of(grad)->storage->dtype == of(t)->storage->dtype) return QN_OK;
    return QN_FAIL(err, invalid, "backward: the gradient is %s %s, %s %s expected",
                   qn_dtype_get(of(grad)->storage->dtype)->name, qn_shape_print(&have, a, sizeof a),
                   qn_dtype_get(of(t)->storage->dtype)->name, qn_shape_print(&shape, b, sizeof b));
}

qn_status qn_backward_with(qn_tensor *t, qn_tensor *grad, bool retain_graph)
{
    if (!LIVE(t) || (grad != NULL && !LIVE(grad))) return QN_STATUS_invalid;
    qn_context *ctx = of(t)->ctx;
    QN_TRY(check_root(t, grad));
    if (!qn__make_room(ctx)) return qn__status(ctx);
    const qn_mark m = qn__mark(ctx);
    qn_auto *root = of(t)->grad_fn;
    ctx->in_backward = true;
    root->dy = seed_of(t, grad);
    qn_status status = root->dy != NULL ? walk(root) : qn__status(ctx);
    if (status == QN_OK) status = deliver_all(ctx, m.n_nodes);
    ctx->in_backward = false;
    if (status != QN_OK) {
        clean_up(root, false, false);
        qn__roll_back(ctx, m);
        return status;
    }
    clean_up(root, true, !retain_graph);
    return QN_OK;
}

qn_status qn_backward(qn_tensor *t) { return qn_backward_with(t, NULL, false); }
