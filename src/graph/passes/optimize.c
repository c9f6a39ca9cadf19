/* SPDX-License-Identifier: MIT */
/* src/graph/passes/optimize.c -- runs the passes in row order and keeps their statistics; and what they share. */
#include "graph/passes/passes.h"
#include "base/thread.h"
#include <string.h>

/* ---- shared by passes ---- */

qn_status qn__pass_resolve(qn_pass_ctx *ctx, qn_node *n, qn_error *err)
{
    const int64_t moved = n->n_src > 0 ? ctx->shift[n->src[0]->id] : 0;
    for (int k = 0; k < n->n_src; k++) {
        qn_node *to = ctx->alias[n->src[k]->id];
        if (to != NULL) n->src[k] = to;
    }
    if (moved != 0 && qn__node_is_view(n)) {
        qn_view_attrs *attrs = qn__arena_alloc(&ctx->g->arena, sizeof *attrs);
        if (attrs == NULL) return QN_FAIL_NOMEM(err, sizeof *attrs);
        n->layout.offset += moved;
        qn__layout_canonical(&attrs->layout, &n->layout);
        n->attrs = attrs;
        ctx->shift[n->id] = moved;
    }
    n->root = qn__root_of(n);
    return QN_OK;
}

void qn__pass_replace(qn_pass_ctx *ctx, qn_node *n, qn_node *with)
{
    QN_ASSERT(!(n->flags & QN_NODE_output));
    ctx->alias[n->id] = with;
    if (n->root == n) ctx->shift[n->id] = with->layout.offset;
    qn__pass_remove(ctx, n, with);
}

void qn__pass_remove(qn_pass_ctx *ctx, qn_node *n, qn_node *into)
{
    n->flags |= QN_NODE_dead;
    ctx->changed++;
    if (!n->name[0]) return;
    n->into = into;
    n->gone_by = ctx->pass;
    n->next_gone = ctx->g->gone;
    ctx->g->gone = n;
}

bool qn__pass_may_read_later(const qn_pass_ctx *ctx, const qn_node *n, int32_t id)
{
    return !qn__is_param(n->root, QN_NODE_mutable) || ctx->last_update[n->root->id] < id;
}

void qn__pass_count_users(const qn_pass_ctx *ctx, int32_t *count)
{
    const qn_graph *g = ctx->g;
    memset(count, 0, (size_t)g->n_nodes * sizeof *count);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        count[i] += (n->flags & QN_NODE_output) != 0;
        for (int k = 0; k < n->n_src; k++) count[n->src[k]->id]++;
    }
}

/* ---- running them ---- */

static qn_status (*const passes[QN_PASS_COUNT])(qn_pass_ctx *, qn_error *) = {
#define QN_PASS_SLOT(name, text) qn__pass_##name,
    QN_PASS_ROWS(QN_PASS_SLOT)
#undef QN_PASS_SLOT
};
static const char *const names[QN_PASS_COUNT] = {
#define QN_PASS_NAME(name, text) #name,
    QN_PASS_ROWS(QN_PASS_NAME)
#undef QN_PASS_NAME
};

const char *qn_pass_name(qn_pass pass) { return (unsigned)pass < QN_PASS_COUNT ? names[pass] : NULL; }

bool qn_pass_find(const char *name, qn_pass *out)
{
    for (int i = 0; i < QN_PASS_COUNT; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (qn_pass)i;
        return true;
    }
    return false;
}

qn_status qn__check_passes_off(uint32_t off, qn_error *err)
{
    if (off >> QN_PASS_COUNT == 0) return QN_OK;
    return QN_FAIL(err, invalid, "passes_off is 0x%x; there are %d passes: %s", off, QN_PASS_COUNT, QN_PASS_NAMES);
}

/* A graph only shrinks, so room for its first size is room for all. */
static qn_status prepare(qn_pass_ctx *ctx, qn_graph *g, const qn_pass_options *options, qn_error *err)
{
    const size_t n = (size_t)g->n_nodes;
    const size_t bytes = n * (sizeof(*ctx->alias) + sizeof(*ctx->shift) + 5 * sizeof(int32_t)) + 16 * sizeof(int32_t);
    char *p = qn__alloc(bytes); /* n is at most QN_MAX_NODES: no overflow */
    if (p == NULL) return QN_FAIL_NOMEM(err, bytes);
    *ctx = (qn_pass_ctx){.g = g, .options = options, .alias = (qn_node **)p};
    ctx->shift = (int64_t *)(ctx->alias + n);
    ctx->last_update = (int32_t *)(ctx->shift + n);
    ctx->scratch = ctx->last_update + n;
    return QN_OK;
}

static qn_status run_pass(qn_pass_ctx *ctx, int pass, qn_error *err)
{
    qn_graph *g = ctx->g;
    const size_t n = (size_t)g->n_nodes;
    ctx->changed = 0;
    ctx->pass = pass;
    memset(ctx->alias, 0, n * sizeof *ctx->alias);
    memset(ctx->shift, 0, n * sizeof *ctx->shift);
    memset(ctx->last_update, 0xff, n * sizeof *ctx->last_update);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (qn__op_info(g->nodes[i]->op)->kind == QN_KIND_update) ctx->last_update[g->nodes[i]->root->id] = i;
    }
    const qn_status status = passes[pass](ctx, err);
    if (status != QN_OK) return qn__prefix(err, status, "pass %s", names[pass]);
    qn__graph_compact(g);
#ifdef QN_CHECKED
    const qn_status sound = qn__graph_verify(g, err);
    if (sound != QN_OK) return qn__prefix(err, sound, "after pass %s", names[pass]);
#endif
    return QN_OK;
}

static void count_ops(const qn_graph *g, int32_t by, int32_t ops[QN_OP_COUNT])
{
    for (int32_t i = 0; i < g->n_nodes; i++) ops[g->nodes[i]->op] += by;
}

/* One pass, and what is said about it. */
static qn_status reported(qn_pass_ctx *ctx, int pass, qn_pass_report *report, qn_error *err)
{
    qn_pass_stats *s = &report->stats[pass];
    *s = (qn_pass_stats){.nodes_before = ctx->g->n_nodes, .nodes_after = ctx->g->n_nodes};
    if (ctx->options->off >> pass & 1) return QN_OK;
    count_ops(ctx->g, -1, report->ops[pass]);
    const int64_t start = qn__now_ns();
    QN_TRY(run_pass(ctx, pass, err));
    s->ns = qn__now_ns() - start;
    s->nodes_after = ctx->g->n_nodes;
    s->changed = ctx->changed;
    count_ops(ctx->g, 1, report->ops[pass]);
    return QN_OK;
}

qn_status qn__graph_optimize(qn_graph *g, const qn_pass_options *options, qn_pass_report *report, qn_error *err)
{
    static const qn_pass_options defaults;
    qn_pass_report unread, *r = report != NULL ? report : &unread;
    qn_pass_ctx ctx;
    QN_TRY(qn__graph_finish(g, err));
    qn__graph_compact(g);
#ifdef QN_CHECKED
    QN_TRY(qn__graph_verify(g, err));
#endif
    QN_TRY(prepare(&ctx, g, options != NULL ? options : &defaults, err));
    memset(r, 0, sizeof *r);
    r->off = ctx.options->off;
    qn_status status = QN_OK;
    for (int i = 0; i < QN_PASS_COUNT && status == QN_OK; i++) status = reported(&ctx, i, r, err);
    qn__free(ctx.alias);
    return status;
}

/* ---- what went ---- */

const qn_node *qn__node_into(const qn_node *gone)
{
    const qn_node *n = gone->into;
    while (n && n->flags & QN_NODE_dead) n = n->into;
    return n;
}

/* ---- as a table ---- */

static void print_ops(const int32_t ops[QN_OP_COUNT], qn_str *out)
{
    const char *before = "  ";
    for (int sign = -1; sign <= 1; sign += 2) { /* what went, then what came */
        for (int op = 0; op < QN_OP_COUNT; op++) {
            if (ops[op] * sign <= 0) continue;
            qn__str_printf(out, "%s%+d %s", before, ops[op], qn__op_info((qn_op)op)->name);
            before = ", ";
        }
    }
}

void qn__passes_print(const qn_pass_report *report, qn_str *out)
{
    qn__str_printf(out, "%-8s%8s%8s%9s%12s  %s\n", "pass", "before", "after", "changed", "time", "nodes by operation");
    for (int i = 0; i < QN_PASS_COUNT; i++) {
        const qn_pass_stats *s = &report->stats[i];
        if (report->off >> i & 1) {
            qn__str_printf(out, "%-8s%8d%8s\n", names[i], s->nodes_before, "off");
            continue;
        }
        /* whole numbers: no decimal comma of a locale */
        const uint64_t tenths = (uint64_t)(s->ns + 50) / 100;
        qn__str_printf(out, "%-8s%8d%8d%9d%7llu.%u us", names[i], s->nodes_before, s->nodes_after, s->changed,
                       (unsigned long long)(tenths / 10), (unsigned)(tenths % 10));
        print_ops(report->ops[i], out);
        qn__str_putc(out, '\n');
    }
}
