/* SPDX-License-Identifier: MIT */
/* src/graph/plan/check.c -- proves a plan by an argument of its own (every pair of values), and prints one. */
#include "graph/plan/plan.h"
#include "graph/internal.h"
#include <stdio.h>

/* Something in an activation buffer from the start of node `first` to the end of node `last`. */
typedef struct span {
    const qn_node *node;
    bool scratch;
    int32_t first, last;
    uint64_t begin, end;
} span;

static int32_t last_use(const qn_graph *g, const qn_node *root)
{
    int32_t last = root->id;
    if (root->one_last) last = root->one_last->id;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        const int32_t end = n->one_last ? n->one_last->id : i;
        if (n->root == root && (n->flags & QN_NODE_output)) return g->n_nodes;
        for (int k = 0; k < n->n_src; k++) {
            if (n->src[k]->root == root && end > last) last = end;
        }
    }
    return root->op == QN_OP_input ? g->n_nodes : last;
}

/* The value of n and its scratch: 0 to 2 spans. */
static int spans_of(const qn_graph *g, const qn_node *n, span out[2])
{
    const int32_t first = n->one_first ? n->one_first->id : n->id, last = n->one_last ? n->one_last->id : n->id;
    int count = 0;
    if (n->root == n && n->op != QN_OP_param && !(n->flags & QN_NODE_bound)) {
        out[count++] = (span){n,
                              false,
                              n->op == QN_OP_input ? -1 : first,
                              last_use(g, n),
                              n->offset,
                              n->offset + (uint64_t)qn__node_bytes(n)};
    }
    if (n->scratch_bytes > 0)
        out[count++] = (span){n, true, first, last, n->scratch_offset, n->scratch_offset + n->scratch_bytes};
    return count;
}

/* `b` overwrites `a` at the moment a dies: whole, by an op that may, and reading a through source 0 only. */
static bool takes_over(const span *a, const span *b)
{
    const qn_node *n = b->node;
    if (a->scratch || b->scratch || a->last != b->first || a->begin != b->begin || a->end != b->end) return false;
    if (!qn__op_info(n->op)->inplace || n->src[0]->root != a->node || a->node->op == QN_OP_input) return false;
    if (n->src[0]->dtype != n->dtype || n->src[0]->layout.offset != 0 || !qn_layout_is_contiguous(&n->src[0]->layout))
        return false;
    const qn_shape x = qn_layout_shape(&n->src[0]->layout), y = qn_layout_shape(&n->layout);
    if (!qn_shape_equal(&x, &y)) return false;
    for (int k = 1; k < n->n_src; k++) {
        if (n->src[k]->root == a->node) return false;
    }
    return true;
}

static qn_status check_pair(const span *a, const span *b, qn_error *err)
{
    if (a->node->place != b->node->place || a->begin == a->end || b->begin == b->end) return QN_OK;
    if (a->begin >= b->end || b->begin >= a->end) return QN_OK;
    if (a->last < b->first || b->last < a->first || takes_over(a, b) || takes_over(b, a)) return QN_OK;
    char x[QN_NODE_TEXT], y[QN_NODE_TEXT];
    return QN_FAIL(err, internal, "%s%s at %llu to %llu and %s%s at %llu to %llu are alive at once",
                   a->scratch ? "scratch of " : "", qn__node_text(a->node, x), (unsigned long long)a->begin,
                   (unsigned long long)a->end, b->scratch ? "scratch of " : "", qn__node_text(b->node, y),
                   (unsigned long long)b->begin, (unsigned long long)b->end);
}

static qn_status list_spans(const qn_graph *g, span **out, size_t *count, qn_error *err)
{
    const size_t bytes = 2 * (size_t)g->n_nodes * sizeof(span);
    span *spans = qn__alloc(bytes);
    if (spans == NULL) return QN_FAIL_NOMEM(err, bytes);
    *count = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) *count += (size_t)spans_of(g, g->nodes[i], spans + *count);
    *out = spans;
    return QN_OK;
}

/* A value in lent memory: until it is assigned, nobody else touches what it covers, and it reads there only itself. */
static qn_status check_lent(const qn_graph *g, const qn_node *y, qn_error *err)
{
    char a[QN_NODE_TEXT], b[QN_NODE_TEXT];
    const int64_t unit = qn_dtype_get(y->dtype)->block_bytes, elems = qn_dtype_get(y->dtype)->block_elems;
    const int64_t begin = (int64_t)y->offset / unit * elems, end = begin + qn_layout_numel(&y->layout);
    for (int32_t i = y->id; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (n->op == QN_OP_assign && n->src[1] == y) {
            if (n->root == y->lender && n->src[0]->layout.offset == begin && qn__row_major(&y->layout)) return QN_OK;
            return QN_FAIL(err, internal, "%s lies elsewhere than %s", qn__node_text(y, a), qn__node_text(n, b));
        }
        for (int k = 0; k < n->n_src && !qn__node_is_view(n); k++) {
            const qn_node *x = n->src[k];
            int64_t lo, hi;
            qn_layout_range(&x->layout, &lo, &hi);
            if (x->root != y->lender || lo >= end || hi <= begin) continue;
            if (n == y && k == 0 && qn__op_info(y->op)->inplace && lo == begin && hi == end) continue;
            return QN_FAIL(err, internal, "%s reads memory that %s is computed in", qn__node_text(n, b),
                           qn__node_text(y, a));
        }
    }
    return QN_FAIL(err, internal, "%s is never assigned", qn__node_text(y, a));
}

qn_status qn__plan_verify(const qn_graph *g, const qn_plan *plan, qn_error *err)
{
    span *spans;
    size_t n;
    QN_TRY(list_spans(g, &spans, &n, err));
    qn_status status = QN_OK;
    char text[QN_NODE_TEXT];
    for (size_t i = 0; i < n && status == QN_OK; i++) {
        const int place = spans[i].node->place;
        if (place < 0 || place >= plan->n_places) {
            status = QN_FAIL(err, internal, "%s has place %d of %d", qn__node_text(spans[i].node, text), place,
                             plan->n_places);
        } else if (spans[i].end > plan->bytes[place]) {
            status = QN_FAIL(err, internal, "%s ends at %llu, the buffer at %llu", qn__node_text(spans[i].node, text),
                             (unsigned long long)spans[i].end, (unsigned long long)plan->bytes[place]);
        }
        for (size_t j = 0; j < i && status == QN_OK; j++) status = check_pair(&spans[i], &spans[j], err);
    }
    for (int32_t i = 0; i < g->n_nodes && status == QN_OK; i++) {
        if (g->nodes[i]->lender != NULL) status = check_lent(g, g->nodes[i], err);
    }
    qn__free(spans);
    return status;
}

qn_status qn__plan_print(const qn_graph *g, const qn_plan *plan, qn_str *out, qn_error *err)
{
    span *spans;
    size_t n;
    QN_TRY(list_spans(g, &spans, &n, err));
    for (int i = 0; i < plan->n_places; i++) {
        char peak[32], sum[32];
        qn__str_printf(out, "place %d: %s, without reuse %s\n", i, qn__str_bytes(peak, sizeof peak, plan->bytes[i]),
                       qn__str_bytes(sum, sizeof sum, plan->sum_bytes[i]));
    }
    qn__str_printf(out, "%d values, %d of them in place\n", plan->n_values, plan->n_inplace);
    qn__str_puts(out, "place       offset        bytes   from     to  value\n");
    for (size_t i = 0; i < n; i++) {
        const span *s = &spans[i];
        char text[QN_NODE_TEXT], first[16] = "start", last[16] = "end";
        if (s->first >= 0) snprintf(first, sizeof first, "%d", s->first);
        if (s->last < g->n_nodes) snprintf(last, sizeof last, "%d", s->last);
        qn__str_printf(out, "%5d %12llu %12llu  %5s  %5s  %s%s\n", s->node->place, (unsigned long long)s->begin,
                       (unsigned long long)(s->end - s->begin), first, last, s->scratch ? "scratch of " : "",
                       qn__node_text(s->node, text));
    }
    qn__free(spans);
    return out->failed ? QN_FAIL(err, nomem, "out of memory while a plan was printed") : QN_OK;
}
