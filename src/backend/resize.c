/* SPDX-License-Identifier: MIT */
/* src/backend/resize.c -- one compiled graph for many sizes. What depends on a size is found by comparing the graph
 * with that of one less: where two nodes differ in a dimension, a stride or an offset, that number grows with the size,
 * and where they differ in anything else, the graph serves its own size alone. Smaller values lie where the larger ones
 * would, so nothing is planned or compiled again, and nothing is allocated. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"

static bool same_attrs(const qn_node *a, const qn_node *b)
{
    const qn_op_info *info = qn__op_info(a->op);
    if (info->kind == QN_KIND_view || info->attrs_bytes == 0) return true; /* a view's are its layout */
    return memcmp(a->attrs, b->attrs, info->attrs_bytes) == 0;
}

static bool same_sources(const qn_node *a, const qn_node *b)
{
    for (int i = 0; i < a->n_src; i++)
        if (a->src[i]->id != b->src[i]->id) return false;
    return true;
}

static bool same_memory(const qn_node *a, const qn_node *b)
{
    if (a->root->id != b->root->id || a->place != b->place || a->lender || b->lender) return false;
    if (a->op != QN_OP_param) return true;
    if (!qn__is_loose_const(b)) return a->buffer == b->buffer && a->buffer_offset == b->buffer_offset;
    return memcmp(a->host, b->host, (size_t)qn__node_bytes(b)) == 0; /* of a constant the smaller one is the start */
}

/* The numbers of a layout that differ from those of one less, into `out` where that is not NULL; -1: they do not grow
 * together with it. */
static int32_t compare_layouts(qn_layout *full, const qn_layout *less, qn_stretch *out)
{
    int64_t *a[2 * QN_MAX_RANK + 1];
    int64_t b[2 * QN_MAX_RANK + 1];
    int32_t n = 0, count = 0;
    if (full->rank != less->rank) return -1;
    for (int d = 0; d < full->rank; d++) {
        a[n] = &full->dim[d];
        b[n++] = less->dim[d];
        a[n] = &full->stride[d];
        b[n++] = less->stride[d];
    }
    a[n] = &full->offset;
    b[n++] = less->offset;
    for (int32_t i = 0; i < n; i++) {
        if (*a[i] == b[i]) continue;
        if (*a[i] < b[i]) return -1;
        if (out) out[count] = (qn_stretch){a[i], *a[i] - b[i]};
        count++;
    }
    return count;
}

static bool alike(const qn_graph *a, const qn_graph *b)
{
    if (a->n_nodes != b->n_nodes) return false;
    for (int32_t i = 0; i < a->n_nodes; i++) {
        const qn_node *x = a->nodes[i], *y = b->nodes[i];
        if (x->op != y->op || x->dtype != y->dtype || x->n_src != y->n_src || x->flags != y->flags) return false;
        if (!same_attrs(x, y) || !same_sources(x, y) || !same_memory(x, y)) return false;
    }
    return true;
}

/* How many numbers grow, -1: it is not only that. */
static int32_t compare(const qn_graph *full, const qn_graph *less, qn_stretch *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < full->n_nodes; i++) {
        const int32_t k = compare_layouts(&full->nodes[i]->layout, &less->nodes[i]->layout, out ? out + n : NULL);
        if (k < 0) return -1;
        n += k;
    }
    return n;
}

static bool backends_can(const qn_exec *e)
{
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].program && !e->sched->backends[e->steps[i].place]->type->resize) return false;
    return true;
}

static qn_status learn(qn_exec *e, qn_axis *axis, const qn_exec *less, qn_error *err)
{
    const int32_t n =
        alike(e->graph, less->graph) && e->n_steps == less->n_steps ? compare(e->graph, less->graph, NULL) : -1;
    if (n < 0) return QN_OK;
    axis->stretches = qn__alloc((size_t)(n ? n : 1) * sizeof(*axis->stretches));
    if (!axis->stretches) return QN_FAIL_NOMEM(err, (size_t)n * sizeof(*axis->stretches));
    axis->n = compare(e->graph, less->graph, axis->stretches);
    return QN_OK;
}

bool qn__exec_has_learnt(const qn_exec *e, int axis) { return e->axes[axis].learnt; }

qn_status qn__exec_learn(qn_exec *e, int axis, qn_graph *graph, qn_error *err)
{
    static const int32_t whole[QN_EXEC_AXES];
    qn_exec less = {.sched = e->sched, .graph = graph};
    qn_status status = QN_OK;
    (void)qn__exec_resize(e, whole);
    if (backends_can(e)) {
        status = qn__exec_prepare(e->sched, &less, false, err);
        if (status == QN_OK) status = learn(e, &e->axes[axis], &less, err);
    }
    qn__graph_destroy(graph);
    if (status == QN_OK) e->axes[axis].learnt = true;
    return status;
}

bool qn__exec_resize(qn_exec *e, const int32_t less[QN_EXEC_AXES])
{
    bool same = true;
    for (int a = 0; a < QN_EXEC_AXES; a++) {
        same &= less[a] == e->less[a];
        if (less[a] && !e->axes[a].stretches) return false;
    }
    if (same) return true;
    for (int a = 0; a < QN_EXEC_AXES; a++) {
        const int64_t by = (int64_t)e->less[a] - less[a];
        for (int32_t i = 0; by && i < e->axes[a].n; i++)
            *e->axes[a].stretches[i].at += by * e->axes[a].stretches[i].step;
        e->less[a] = less[a];
    }
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].program) e->sched->backends[e->steps[i].place]->type->resize(e->steps[i].program);
    return true;
}
