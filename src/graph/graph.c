/* SPDX-License-Identifier: MIT */
/* src/graph/graph.c -- a graph as an object: its arena, its list of nodes, the recorder under every builder, and the
 * sticky error. Always holds: nodes[i]->id == i, sources come before their users, and a node that is in the list has
 * passed its op's rule. */
#include "graph/internal.h"
#include "base/metrics.h"
#include <stdio.h>
#include <string.h>

#define ARENA_BLOCK (128 * 1024) /* a node is about 400 bytes: some 300 nodes an allocation */

static const qn_no_attrs no_attrs;

qn_status qn__graph_create(qn_graph **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, ARENA_BLOCK);
    qn_graph *g = qn__arena_alloc(&arena, sizeof *g);
    qn_node *bad = qn__arena_alloc(&arena, sizeof *bad);
    if (g == NULL || bad == NULL) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *g + sizeof *bad);
    }
    *bad = (qn_node){.op = QN_OP_input,
                     .dtype = QN_DTYPE_F32,
                     .attrs = &no_attrs,
                     .root = bad,
                     .layer = -1,
                     .name = "",
                     .place = -1,
                     .hint = -1};
    *g = (qn_graph){.arena = arena, .layer = -1, .hint = -1, .bad = bad};
    g->start = qn__arena_get_mark(&g->arena);
    *out = g;
    QN_COUNT(graph_builds, 1);
    return QN_OK;
}

void qn__graph_reset(qn_graph *g)
{
    qn__arena_reset(&g->arena, g->start);
    g->arena.failed = false;
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    g->layer = g->hint = -1;
    g->error = (qn_error){0};
    g->gone = NULL;
    g->owner = NULL;
}

static bool clone_node(qn_graph *to, const qn_node *n)
{
    const size_t attrs_bytes = qn__op_info(n->op)->attrs_bytes;
    qn_node *c = qn__arena_alloc(&to->arena, sizeof *c);
    void *attrs = n->attrs == &no_attrs ? NULL : qn__arena_alloc(&to->arena, attrs_bytes);
    if (c == NULL || (attrs == NULL && n->attrs != &no_attrs)) return false;
    *c = *n;
    if (attrs != NULL) c->attrs = memcpy(attrs, n->attrs, attrs_bytes);
    c->name = n->name[0] == '\0' ? "" : qn__arena_strdup(&to->arena, n->name);
    for (int i = 0; i < n->n_src; i++) c->src[i] = to->nodes[n->src[i]->id];
    c->root = n->root == n ? c : to->nodes[n->root->id];
    if (n->host != NULL) {
        const size_t bytes = (size_t)qn__node_bytes(n);
        void *host = qn__arena_alloc_aligned(&to->arena, bytes, QN_ALIGN_CPU);
        if (host == NULL) return false;
        c->host = bytes > 0 ? memcpy(host, n->host, bytes) : host;
    }
    to->nodes[to->n_nodes++] = c;
    return c->name != NULL;
}

qn_status qn__graph_clone(const qn_graph *g, qn_graph **out, qn_error *err)
{
    qn_graph *to;
    QN_TRY(qn__graph_create(&to, err));
    to->nodes = qn__arena_array(&to->arena, (size_t)g->n_nodes, sizeof *to->nodes);
    bool good = to->nodes != NULL;
    if (good) to->cap_nodes = g->n_nodes;
    for (int32_t i = 0; i < g->n_nodes && good; i++) good = clone_node(to, g->nodes[i]);
    if (!good) {
        qn__graph_destroy(to);
        return QN_FAIL(err, nomem, "out of memory: a copy of a graph of %d nodes", g->n_nodes);
    }
    *out = to;
    return QN_OK;
}

void qn__graph_destroy(qn_graph *g)
{
    if (g == NULL) return;
    qn_arena arena = g->arena; /* the graph itself lies in it */
    qn__arena_deinit(&arena);
}

qn_status qn__graph_finish(qn_graph *g, qn_error *err)
{
    if (g->error.status == QN_OK && g->arena.failed)
        (void)QN_FAIL(&g->error, nomem, "out of memory while a graph was built");
    if (g->error.status != QN_OK && err != NULL) *err = g->error;
    return g->error.status;
}

void qn__graph_scope(qn_graph *g, int layer, int hint)
{
    g->layer = layer < 0 ? -1 : layer;
    g->hint = hint < 0 ? -1 : hint;
}

qn_node *qn__name(qn_graph *g, qn_node *n, const char *fmt, ...)
{
    if (n == NULL || n == g->bad || g->error.status != QN_OK) return n;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = qn__vformat(NULL, 0, fmt, args);
    va_end(args);
    char *name = len >= 0 ? qn__arena_alloc(&g->arena, (size_t)len + 1) : NULL;
    if (name != NULL) {
        qn__vformat(name, (size_t)len + 1, fmt, again);
        n->name = name;
    } else {
        (void)QN_FAIL(&g->error, nomem, "out of memory: the name of a node");
    }
    va_end(again);
    return n;
}

void qn__output(qn_graph *g, qn_node *n)
{
    if (n != NULL && n != g->bad) n->flags |= QN_NODE_output;
}

/* ---- recording ---- */

qn_node *qn__stick(qn_graph *g, const qn_error *e)
{
    if (g->error.status != QN_OK) return g->bad;
    g->error = *e;
    if (g->layer >= 0) (void)qn__prefix(&g->error, e->status, "layer %d", g->layer);
    return g->bad;
}

static qn_status grow(qn_graph *g, qn_error *err)
{
    if (g->n_nodes < g->cap_nodes) return QN_OK;
    if (g->n_nodes >= QN_MAX_NODES) return QN_FAIL(err, limit, "a graph of more than %d nodes", QN_MAX_NODES);
    const int32_t cap = g->cap_nodes > 0 ? g->cap_nodes * 2 : 256;
    qn_node **nodes = qn__arena_array(&g->arena, (size_t)cap, sizeof *nodes);
    if (nodes == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *nodes);
    if (g->n_nodes > 0) memcpy(nodes, g->nodes, (size_t)g->n_nodes * sizeof *nodes);
    g->nodes = nodes;
    g->cap_nodes = cap;
    return QN_OK;
}

/* A graph-owned copy of the attributes: all zero for NULL, and the same bytes for the same meaning. */
static const void *keep_attrs(qn_graph *g, const qn_node *proto)
{
    const qn_op_info *info = qn__op_info(proto->op);
    if (proto->attrs == NULL && info->attrs_bytes == sizeof no_attrs) return &no_attrs;
    void *attrs = qn__arena_alloc(&g->arena, info->attrs_bytes);
    if (attrs == NULL || proto->attrs == NULL) return attrs;
    if (info->kind == QN_KIND_view)
        qn__layout_canonical(attrs, &((const qn_view_attrs *)proto->attrs)->layout);
    else
        memcpy(attrs, proto->attrs, info->attrs_bytes);
    return attrs;
}

static qn_status check_sources(const qn_graph *g, const qn_node *proto, qn_error *err)
{
    const qn_op_info *info = qn__op_info(proto->op);
    if (proto->n_src < info->min_src || proto->n_src > info->max_src) {
        return QN_FAIL(err, invalid, "%s: %d sources, %d to %d expected", info->name, proto->n_src, info->min_src,
                       info->max_src);
    }
    for (int i = 0; i < proto->n_src; i++) {
        const qn_node *s = proto->src[i];
        if (s == NULL) return QN_FAIL(err, invalid, "%s: source %d is missing", info->name, i);
        if (s->id < 0 || s->id >= g->n_nodes || g->nodes[s->id] != s) {
            return QN_FAIL(err, invalid, "%s: source %d belongs to another graph", info->name, i);
        }
    }
    return QN_OK;
}

/* n lies in the graph's arena, and is filled in so far as a builder knows it. */
static qn_status try_record(qn_graph *g, qn_node *n, qn_error *err)
{
    if ((unsigned)n->op >= QN_OP_COUNT) return QN_FAIL(err, invalid, "op %d does not exist", (int)n->op);
    QN_TRY(check_sources(g, n, err));
    QN_TRY(grow(g, err));
    n->attrs = keep_attrs(g, n);
    if (n->attrs == NULL) return QN_FAIL_NOMEM(err, qn__op_info(n->op)->attrs_bytes);
    if (n->name == NULL) n->name = "";
    n->layer = g->layer;
    n->hint = g->hint;
    n->place = -1;
    n->root = qn__root_of(n);
    QN_TRY(qn__op_info(n->op)->rule(n, err));
    n->id = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return QN_OK;
}

static qn_node *record(qn_graph *g, qn_node *n)
{
    qn_error e;
    e.status = QN_OK; /* half a kilobyte of text that mostly nobody writes */
    e.text[0] = '\0';
    if (n == NULL)
        (void)QN_FAIL_NOMEM(&e, sizeof *n);
    else if (try_record(g, n, &e) == QN_OK)
        return n;
    return qn__stick(g, &e);
}

qn_node *qn__record(qn_graph *g, const qn_node *proto)
{
    if (g->error.status != QN_OK) return g->bad;
    qn_node *n = qn__arena_alloc(&g->arena, sizeof *n);
    if (n != NULL) *n = *proto;
    return record(g, n);
}

static qn_node *refuse_op(qn_graph *g, qn_op op, int n_src)
{
    qn_error e = {0};
    if (n_src < 0 || n_src > QN_MAX_SRC)
        (void)QN_FAIL(&e, invalid, "%s: %d sources, at most %d are possible", qn__op_info(op)->name, n_src, QN_MAX_SRC);
    else
        (void)QN_FAIL(&e, invalid, "%s: leaves have builders of their own", qn__op_info(op)->name);
    return qn__stick(g, &e);
}

qn_node *qn__op(qn_graph *g, qn_op op, const void *attrs, qn_node *const *src, int n_src)
{
    if (g->error.status != QN_OK) return g->bad;
    if (n_src < 0 || n_src > QN_MAX_SRC || ((unsigned)op < QN_OP_COUNT && qn__op_info(op)->kind == QN_KIND_leaf))
        return refuse_op(g, op, n_src);
    qn_node *n = qn__arena_alloc(&g->arena, sizeof *n);
    if (n != NULL) {
        *n = (qn_node){.op = op, .attrs = attrs, .n_src = n_src};
        for (int i = 0; i < n_src; i++) n->src[i] = src[i];
    }
    return record(g, n);
}

/* ---- asking and tidying ---- */

int64_t qn__layout_bytes(qn_dtype dtype, const qn_layout *layout)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    const int64_t n = qn_layout_numel(layout);
    int64_t bytes;
    if (n < 0 || n % info->block_elems != 0 ||
        __builtin_mul_overflow(n / info->block_elems, (int64_t)info->block_bytes, &bytes)) {
        return -1;
    }
    return bytes;
}

int64_t qn__node_bytes(const qn_node *n) { return qn__layout_bytes(n->dtype, &n->layout); }
bool qn__node_is_view(const qn_node *n) { return qn__op_info(n->op)->kind == QN_KIND_view; }

bool qn__layout_same(const qn_layout *a, const qn_layout *b)
{
    if (a->rank != b->rank || a->offset != b->offset) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i] || a->stride[i] != b->stride[i]) return false;
    }
    return true;
}

void qn__layout_canonical(qn_layout *dst, const qn_layout *src)
{
    memset(dst, 0, sizeof *dst);
    dst->rank = src->rank;
    dst->offset = src->offset;
    for (int i = 0; i < src->rank && i < QN_MAX_RANK; i++) {
        dst->dim[i] = src->dim[i];
        dst->stride[i] = src->stride[i];
    }
}

void qn__graph_compact(qn_graph *g)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (n->flags & QN_NODE_dead) {
            n->id = -1;
            continue;
        }
        n->id = kept;
        g->nodes[kept++] = n;
    }
    g->n_nodes = kept;
}

const char *qn__node_text(const qn_node *n, char buf[QN_NODE_TEXT])
{
    char quoted[96];
    if (n->name[0] == '\0')
        snprintf(buf, QN_NODE_TEXT, "%%%d %s", n->id, qn__op_info(n->op)->name);
    else
        snprintf(buf, QN_NODE_TEXT, "%%%d %s \"%s\"", n->id, qn__op_info(n->op)->name,
                 qn__str_quote(quoted, sizeof quoted, n->name, strlen(n->name)));
    return buf;
}
