/* SPDX-License-Identifier: MIT */
/* src/backend/place.c -- which backend computes each node; the rules are in sched.h. One pass in graph order; nothing
 * here depends on anything but the graph, the backends and their order, so the same graph is placed the same way every
 * time. */
#include "backend/internal.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static const char *title(const qn_node *n) { return n->name[0] ? n->name : "(unnamed)"; }

static int32_t index_of(const qn_sched *s, const qn_backend *be)
{
    for (int32_t i = 0; i < s->n_backends; i++)
        if (s->backends[i] == be) return i;
    return -1;
}

static qn_status place_leaf(const qn_sched *s, qn_node *n, bool dry, qn_error *err)
{
    n->place = n->hint; /* inputs and loose constants go where they are first used unless there is a hint */
    if (n->op != QN_OP_param || qn__is_loose_const(n)) return QN_OK;
    if (!n->buffer) {
        if (!dry) return QN_FAIL(err, invalid, "param \"%s\" has no buffer", title(n));
        if (n->place < 0) n->place = 0;
        return QN_OK;
    }
    const qn_backend *be = ((const qn_buffer *)n->buffer)->backend;
    n->place = index_of(s, be);
    if (n->place < 0)
        return QN_FAIL(err, invalid, "param \"%s\" lies in a buffer of %s, which this scheduler does not have",
                       title(n), be->name);
    const uint64_t bytes = (uint64_t)qn__node_bytes(n), has = ((const qn_buffer *)n->buffer)->bytes;
    if (n->buffer_offset > has || bytes > has - n->buffer_offset)
        return QN_FAIL(err, invalid, "param \"%s\": %llu bytes at %llu of a buffer of %llu", title(n),
                       (unsigned long long)bytes, (unsigned long long)n->buffer_offset, (unsigned long long)has);
    return QN_OK;
}

bool qn__is_early(const qn_node *n)
{
    bool ids = false;
    if (qn__op_info(n->op)->kind != QN_KIND_compute || qn__op_info(n->op)->follows >= 0 || n->n_src == 0) return false;
    if (n->flags & (QN_NODE_output | QN_NODE_bound)) return false;
    for (int i = 0; i < n->n_src; i++) {
        const qn_node *root = n->src[i]->root;
        const bool is_input = root->op == QN_OP_input;
        if (is_input && root->dtype != QN_DTYPE_I32) return false;
        if (!is_input && (root->op != QN_OP_param || (root->flags & (QN_NODE_mutable | QN_NODE_bound)))) return false;
        ids |= is_input;
    }
    return ids;
}

static bool is_computed(const qn_node *n)
{
    while (qn__node_is_view(n)) n = n->src[0];
    return qn__computes(n);
}

/* A copy that was asked for in another place, as it is. */
static bool is_moved(const qn_node *copy)
{
    const qn_node *x = copy->src[0];
    return copy->dtype == x->dtype && copy->hint >= 0 && copy->hint != x->root->place;
}

/* Where a source's memory is resident, -1 for what a run computes. A copy of a param is one in another dtype: as good
 * as the param itself. */
static int32_t resident_place(const qn_node *n)
{
    while (n->root->op == QN_OP_copy && !is_moved(n->root)) n = n->root->src[0];
    return n->root->op == QN_OP_param ? n->root->place : -1;
}

static int32_t wanted_place(const qn_node *n)
{
    const int follows = qn__op_info(n->op)->follows;
    if (qn__op_info(n->op)->kind == QN_KIND_update) return n->root->place;
    if (follows >= 0 && follows < n->n_src) {
        const int32_t place = resident_place(n->src[follows]);
        if (place >= 0) return place;
    }
    if (n->hint >= 0) return n->hint;
    for (int i = 0; i < n->n_src; i++)
        if (is_computed(n->src[i]) && n->src[i]->root->place >= 0) return n->src[i]->root->place;
    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]->root->place >= 0) return n->src[i]->root->place;
    return 0;
}

static bool takes(const qn_sched *s, int32_t place, const qn_node *n, qn_error *err)
{
    return s->backends[place]->type->accepts(s->backends[place], n, err);
}

void qn__sched_fell_back(qn_sched *s, const qn_node *n, int32_t wanted, int32_t place, const qn_error *why)
{
    if (!s->logged[n->op][wanted])
        qn__log(QN_LOG_warn, "%s \"%s\" runs on %s because %s does not take it: %s (said once for this operation)",
                qn_node_op_name(n), title(n), s->backends[place]->name, s->backends[wanted]->name, why->text);
    s->logged[n->op][wanted] = true;
}

/* The wanted backend refused (why says the reason): the first other one that accepts. */
static qn_status fall_back(qn_sched *s, qn_node *n, int32_t wanted, const qn_error *why, qn_error *err)
{
    const char *op = qn_node_op_name(n), *from = s->backends[wanted]->name;
    if (qn__op_info(n->op)->kind == QN_KIND_update)
        return QN_FAIL(err, unsupported, "%s \"%s\" must run on %s, where its memory is, which does not take it: %s",
                       op, title(n), from, why->text);
    if (s->options.strict && !qn__is_early(n))
        return QN_FAIL(err, unsupported,
                       "%s \"%s\" belongs on %s, which does not take it, and strict forbids another backend: %s", op,
                       title(n), from, why->text);
    for (int32_t i = 0; i < s->n_backends; i++) {
        if (i == wanted || !takes(s, i, n, NULL)) continue;
        n->place = i;
        if (qn__is_early(n)) return QN_OK;
        qn__sched_fell_back(s, n, wanted, i, why);
        s->n_fallbacks++;
        return QN_OK;
    }
    return QN_FAIL(err, unsupported, "%s \"%s\": no backend takes it; %s: %s", op, title(n), from, why->text);
}

static qn_status place_at(qn_sched *s, qn_node *n, int32_t wanted, qn_error *err)
{
    qn_error why = {0};
    n->place = wanted;
    return takes(s, wanted, n, &why) ? QN_OK : fall_back(s, n, wanted, &why, err);
}

static qn_status place_node(qn_sched *s, qn_node *n, qn_error *err)
{
    if (n->n_src == 0 && n->hint < 0) return QN_OK; /* follows nothing: first use decides, as for leaves */
    QN_TRY(place_at(s, n, wanted_place(n), err));
    for (int i = 0; i < n->n_src; i++) {
        qn_node *root = n->src[i]->root;
        if (root->place >= 0) continue;
        root->place = n->place;
        if (qn__computes(root)) QN_TRY(place_at(s, root, n->place, err));
    }
    return QN_OK;
}

/* ---- outputs whose memory is given ---- */

static bool is_elsewhere(const qn_node *n)
{
    return (n->flags & QN_NODE_bound) && n->hint >= 0 && n->place != n->hint &&
           qn__op_info(n->op)->kind == QN_KIND_compute;
}

/* n becomes the transfer of what computes it, which the splitter gives to those who read it in that place. */
static qn_node *part_from(qn_graph *g, qn_node *n)
{
    static const qn_no_attrs none;
    qn__graph_scope(g, n->layer, n->place);
    qn_node *there = qn__op(g, n->op, n->attrs, n->src, n->n_src);
    if (there == g->bad) return NULL;
    there->place = n->place;
    memset(n->src, 0, sizeof(n->src));
    n->op = QN_OP_transfer;
    n->attrs = &none;
    n->src[0] = there;
    n->n_src = 1;
    n->place = n->hint;
    return there;
}

/* Its memory is where it was asked for, though it fell back to another backend. */
static qn_status bring_home(qn_graph *g, qn_error *err)
{
    const int32_t n = g->n_nodes;
    int32_t more = 0, at;
    for (int32_t i = 0; i < n; i++) more += is_elsewhere(g->nodes[i]);
    if (more == 0) return QN_OK;
    for (int32_t i = 0; i < n; i++)
        if (is_elsewhere(g->nodes[i]) && !part_from(g, g->nodes[i])) return qn__graph_finish(g, err);
    const size_t bytes = (size_t)(n + more) * sizeof(qn_node *);
    qn_node **order = qn__alloc(bytes);
    if (!order) return QN_FAIL_NOMEM(err, bytes);
    at = 0;
    for (int32_t i = 0; i < n; i++) {
        if (g->nodes[i]->op == QN_OP_transfer) order[at++] = g->nodes[i]->src[0];
        order[at++] = g->nodes[i];
    }
    for (int32_t i = 0; i < at; i++) {
        g->nodes[i] = order[i];
        order[i]->id = i;
        if (qn__node_is_view(order[i])) order[i]->place = order[i]->root->place;
    }
    qn__free(order);
    return QN_OK;
}

qn_status qn__place_nodes(qn_sched *s, qn_graph *g, bool dry, qn_error *err)
{
    s->n_fallbacks = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (n->hint >= s->n_backends)
            return QN_FAIL(err, invalid, "%s \"%s\" asks for backend %d of %d", qn_node_op_name(n), title(n), n->hint,
                           s->n_backends);
        n->place = -1;
        if (qn__op_info(n->op)->kind == QN_KIND_leaf)
            QN_TRY(place_leaf(s, n, dry, err));
        else if (qn__computes(n))
            QN_TRY(place_node(s, n, err));
    }
    for (int32_t i = 0; i < g->n_nodes; i++) { /* unused leaves; then views, which are where their memory is */
        qn_node *n = g->nodes[i];
        if (n->root == n && n->place < 0 && qn__computes(n)) QN_TRY(place_at(s, n, 0, err));
        if (n->root == n && n->place < 0) n->place = 0;
        if (n->root != n && n->place < 0) n->place = n->root->place;
    }
    return bring_home(g, err);
}
