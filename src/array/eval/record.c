/* SPDX-License-Identifier: MIT */
/* src/array/eval/record.c -- recording: handles to nodes of the pending graph and back. An operation whose node no rule
 * or backend takes leaves the graph as it was, so what is recorded can be run. */
#include "array/array.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the pending graph as it was before ---- */

qn_mark qn__mark(const qn_context *ctx) { return (qn_mark){ctx->graph->n_nodes, ctx->n_leaves, ctx->n_numbers}; }

void qn__roll_back(qn_context *ctx, qn_mark m)
{
    while (ctx->n_leaves > m.n_leaves) {
        qn_storage *s = ctx->leaves[--ctx->n_leaves].storage;
        if (s == NULL) continue;
        s->leaf = NULL;
        qn__storage_unref(s);
    }
    ctx->graph->n_nodes = m.n_nodes;
    ctx->n_numbers = m.n_numbers;
    ctx->epoch++; /* views remembered by handles may be gone */
}

/* ---- nodes ---- */

/* A builder's failure is the context's error, and the graph goes on. */
static qn_node *failed(qn_context *ctx)
{
    *qn__err(ctx) = ctx->graph->error;
    ctx->graph->error = (qn_error){0};
    ctx->graph->arena.failed = false;
    return NULL;
}

/* Where an operation on those runs: where they lie. Numbers that the host reaches go along with the others; what an
 * update writes stays. */
static int place_for(const qn_context *ctx, qn_op op, qn_node *const *src, int n_src)
{
    if (n_src == 0) return ctx->place;
    for (int i = 0; i < n_src && qn__op_info(op)->kind != QN_KIND_update; i++) {
        const int place = src[i]->root->hint;
        if (src[i]->layout.rank > 0 || !qn__place_is_host(ctx, place)) return place;
    }
    return src[0]->root->hint;
}

bool qn__node_taken(const qn_context *ctx, const qn_node *n, qn_error *err)
{
    qn_error why = {0};
    const bool must = ctx->strict || qn__op_info(n->op)->kind == QN_KIND_update;
    for (int i = 0; i < ctx->n_backends; i++) {
        qn_backend *be = ctx->backends[(n->hint + i) % ctx->n_backends];
        if (be->type->accepts(be, n, i == 0 ? &why : NULL)) return true;
        if (must) break;
    }
    const char *text = why.status != QN_OK ? why.text : "no backend takes this";
    if (ctx->n_backends == 1)
        (void)QN_FAIL(err, unsupported, "%s", text);
    else
        (void)QN_FAIL(err, unsupported, "%s on %s: %s%s", qn_node_op_name(n), qn__place_name(ctx, n->hint), text,
                      ctx->strict ? "; a strict context computes nowhere else" : "");
    return false;
}

static qn_node *node_at(qn_context *ctx, int place, qn_op op, const void *attrs, qn_node *const *src, int n_src)
{
    qn_graph *g = ctx->graph;
    qn__graph_scope(g, -1, place);
    qn_node *n = qn__op(g, op, attrs, src, n_src);
    if (g->error.status != QN_OK) return failed(ctx);
    if (qn__op_info(op)->kind == QN_KIND_view || qn__node_taken(ctx, n, &g->error)) return n;
    g->n_nodes--; /* it was the last */
    return failed(ctx);
}

qn_node *qn__node_op(qn_context *ctx, qn_op op, const void *attrs, qn_node *const *src, int n_src)
{
    return node_at(ctx, place_for(ctx, op, src, n_src), op, attrs, src, n_src);
}

qn_node *qn__node_moved(qn_context *ctx, qn_node *n, int place)
{
    if (n->root->hint == place) return n;
    return node_at(ctx, place, QN_OP_copy, &(qn_copy_attrs){(int32_t)n->dtype}, &n, 1);
}

qn_node *qn__node_view(qn_context *ctx, qn_node *n, const qn_layout *layout)
{
    if (n->layout.rank == layout->rank && n->layout.offset == layout->offset) {
        const size_t bytes = (size_t)layout->rank * sizeof layout->dim[0];
        if (memcmp(n->layout.dim, layout->dim, bytes) == 0 && memcmp(n->layout.stride, layout->stride, bytes) == 0)
            return n;
    }
    const qn_view_attrs attrs = {.layout = *layout};
    return qn__node_op(ctx, QN_OP_view, &attrs, &n, 1);
}

bool qn__grow_leaves(qn_context *ctx)
{
    if (ctx->n_leaves < ctx->cap_leaves) return true;
    const int32_t cap = ctx->cap_leaves > 0 ? ctx->cap_leaves * 2 : 64;
    qn_leaf *leaves = qn__realloc(ctx->leaves, (size_t)cap * sizeof *leaves);
    if (leaves == NULL) {
        (void)QN_FAIL_NOMEM(qn__err(ctx), (size_t)cap * sizeof *leaves);
        return false;
    }
    ctx->leaves = leaves;
    ctx->cap_leaves = cap;
    return true;
}

static qn_node *new_leaf(qn_context *ctx, qn_dtype dtype, const qn_shape *shape, qn_leaf leaf)
{
    if (!qn__grow_leaves(ctx)) return NULL;
    qn__graph_scope(ctx->graph, -1, leaf.place);
    leaf.node = qn__param(ctx->graph, "", dtype, shape, NULL, 0, 0);
    if (ctx->graph->error.status != QN_OK) return failed(ctx);
    ctx->leaves[ctx->n_leaves++] = leaf;
    return leaf.node;
}

/* The node of a storage's latest value, in whatever layout. */
static qn_node *root_of(qn_storage *s)
{
    if (s->value != NULL) return s->value;
    if (s->leaf != NULL && !s->lost) return s->leaf;
    if (s->lost || s->memory == NULL) {
        (void)QN_FAIL(qn__err(s->ctx), state, "the value of a tensor was lost when a run failed");
        return NULL;
    }
    const qn_shape shape = qn_layout_shape(&s->layout);
    s->leaf = new_leaf(s->ctx, s->dtype, &shape, (qn_leaf){.storage = s, .place = s->place});
    if (s->leaf != NULL) s->refs++;
    return s->leaf;
}

qn_node *qn__node_at(qn_storage *s, const qn_layout *layout)
{
    qn_node *root = root_of(s);
    return root != NULL ? qn__node_view(s->ctx, root, layout) : NULL;
}

qn_node *qn__node_of(qn_tensor *t)
{
    qn_node *root = root_of(of(t)->storage);
    if (root == NULL) return NULL;
    if (of(t)->epoch == of(t)->ctx->epoch && of(t)->node_root == root) return of(t)->node;
    qn_node *n = qn__node_view(of(t)->ctx, root, &of(t)->layout);
    if (n == NULL) return NULL;
    of(t)->epoch = of(t)->ctx->epoch;
    of(t)->node_root = root;
    of(t)->node = n;
    return n;
}

/* ---- numbers ---- */

bool qn__number_write(void *out, double value, qn_dtype dtype, qn_error *err)
{
    const float f = (float)value;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    if (info->class_ == QN_CLASS_real) {
        if (dtype == QN_DTYPE_F64)
            memcpy(out, &value, sizeof value);
        else if (dtype == QN_DTYPE_F32)
            memcpy(out, &f, sizeof f);
        else if (isfinite(f))
            return qn_pack(dtype, &f, out, 1, 1, NULL, err) == QN_OK;
        else
            memcpy(out, (char *)&f + 2, 2); /* the upper half is right for BF16; F16 below */
        if (dtype == QN_DTYPE_F16) memcpy(out, &(uint16_t){isnan(f) ? 0x7e00 : f > 0 ? 0x7c00 : 0xfc00}, 2);
        return true;
    }
    if (info->class_ == QN_CLASS_boolean) {
        memcpy(out, &(uint8_t){value != 0.0}, 1);
        return true;
    }
    if (info->class_ != QN_CLASS_integer || !(value >= -0x1p63) || !(value < 0x1p63)) {
        (void)QN_FAIL(err, invalid, "the number %g cannot be stored in %s", value, info->name);
        return false;
    }
    const int64_t i = (int64_t)value; /* little-endian: the low bytes come first */
    memcpy(out, &i, (size_t)info->block_bytes);
    return true;
}

bool qn__number_fits(double value, qn_dtype dtype, bool wraps)
{
    if ((unsigned)dtype >= QN_DTYPE_COUNT) return true; /* said elsewhere */
    const qn_dtype_info *info = qn_dtype_get(dtype);
    if (info->class_ == QN_CLASS_real) {
        const double most = dtype == QN_DTYPE_F64    ? DBL_MAX
                            : dtype == QN_DTYPE_F16  ? 65504
                            : dtype == QN_DTYPE_BF16 ? 0x1.fep127
                                                     : (double)FLT_MAX;
        return !isfinite(value) || fabs(value) <= most;
    }
    if (info->class_ != QN_CLASS_integer) return true;
    const bool is_unsigned = dtype == QN_DTYPE_U8;
    const double top = ldexp(1, (int)info->block_bytes * 8 - !is_unsigned), /* the first beyond */
        low = is_unsigned ? (wraps ? 1 - top : 0) : -top;
    return trunc(value) >= low && trunc(value) < top;
}

bool qn__number_check(qn_context *ctx, const char *name, double value, qn_dtype dtype)
{
    if (qn__number_fits(value, dtype, true)) return true;
    (void)QN_FAIL(qn__err(ctx), invalid, "%s: the number %g cannot be stored in %s", name, value,
                  qn_dtype_get(dtype)->name);
    return false;
}

qn_node *qn__node_number(qn_context *ctx, int place, double value, qn_dtype dtype)
{
    if (ctx->n_numbers == QN_MAX_NUMBERS) { /* graphs with more are rare: each takes a storage of its own */
        qn_storage *s = qn__storage_new_resident(ctx, place, dtype, &QN_SCALAR);
        if (s == NULL) return NULL;
        uint8_t bytes[QN_NUMBER_BYTES];
        const bool good = qn__number_write(bytes, value, dtype, qn__err(ctx)) &&
                          qn__storage_fill(s, bytes, (uint64_t)qn_dtype_get(dtype)->block_bytes);
        qn_node *n = good ? root_of(s) : NULL;
        qn__storage_unref(s);
        return n;
    }
    const uint64_t offset = (uint64_t)ctx->n_numbers * QN_NUMBER_BYTES;
    if (!qn__number_write(ctx->numbers + offset, value, dtype, qn__err(ctx))) return NULL;
    qn_node *n = new_leaf(ctx, dtype, &QN_SCALAR, (qn_leaf){.offset = offset, .place = place});
    if (n != NULL) ctx->n_numbers++;
    return n;
}

/* ---- values ---- */

/* Can this node be the value of a storage, as it is? */
static bool is_free_value(const qn_node *n)
{
    return n->root == n && qn__op_info(n->op)->kind == QN_KIND_compute && !(n->flags & QN_NODE_owned);
}

static qn_node *as_value(qn_context *ctx, qn_node *n)
{
    if (!is_free_value(n)) n = qn__node_op(ctx, QN_OP_copy, &(qn_copy_attrs){(int32_t)n->dtype}, &n, 1);
    return n;
}

static void set_value(qn_storage *s, qn_node *n)
{
    n->flags |= QN_NODE_owned;
    s->value = n;
    qn__storage_list(s);
}

qn_tensor *qn__tensor_of(qn_context *ctx, qn_node *n)
{
    if (n == NULL) return NULL;
    n = as_value(ctx, n);
    qn_storage *s = n != NULL ? qn__slab_get(ctx, &ctx->storages) : NULL;
    if (s == NULL) return NULL;
    *s = (qn_storage){.ctx = ctx, .refs = 1, .dtype = n->dtype, .place = n->hint, .layout = n->layout};
    ctx->n_storages++;
    set_value(s, n);
    return qn__tensor_new(ctx, s, &n->layout);
}

/* ---- writing ---- */

/* An update of src[0], memory that lies in a storage. */
static qn_node *update_node(qn_context *ctx, qn_storage *s, qn_op op, const void *attrs, qn_node *const *src, int n_src)
{
    const bool was_mutable = (s->leaf->flags & QN_NODE_mutable) != 0;
    s->leaf->flags |= QN_NODE_mutable;
    qn_node *u = qn__node_op(ctx, op, attrs, src, n_src);
    if (u == NULL && !was_mutable) s->leaf->flags &= ~(uint32_t)QN_NODE_mutable;
    return u;
}

static qn_node *write_over(qn_context *ctx, qn_storage *s, qn_node *dst, qn_node *x)
{
    return update_node(ctx, s, QN_OP_assign, NULL, (qn_node *[]){dst, x}, 2);
}

/* Gives a storage whose value is pending its memory now, and a node that writes the value there. The value may have
 * the shape of a view of the whole that was written; it is as dense as the memory. */
static bool land(qn_storage *s)
{
    if (s->memory != NULL) return root_of(s) != NULL;
    qn_context *ctx = s->ctx;
    qn_node *value = s->value;
    const uint64_t bytes = (uint64_t)qn__node_bytes(value);
    const qn_mark mark = qn__mark(ctx);
    qn_memory *m;
    if (qn__memory_get(ctx, s->place, bytes, &m, qn__err(ctx)) != QN_OK) return false;
    s->memory = m;
    s->value = NULL;
    qn_node *leaf = root_of(s), *dst = leaf != NULL ? qn__node_view(ctx, leaf, &value->layout) : NULL,
            *u = dst != NULL ? write_over(ctx, s, dst, value) : NULL;
    if (u == NULL) { /* then it is a computed value without memory again */
        qn__roll_back(ctx, mark);
        s->value = value;
        s->memory = NULL;
        qn__memory_put(ctx, m);
        return false;
    }
    s->value = u;
    return true;
}

bool qn__store(qn_tensor *t, qn_node *y)
{
    qn_context *ctx = of(t)->ctx;
    qn_storage *s = of(t)->storage;
    if (y == NULL || (s->keeper != NULL && !qn__tape_save(s))) return false;
    y = qn__node_moved(ctx, y, s->place);
    if (y == NULL) return false;
    if (qn__is_whole(t) && s->memory == NULL) {
        y = as_value(ctx, y);
        if (y == NULL) return false;
        set_value(s, y);
        s->version++;
        return true;
    }
    if (!land(s)) return false;
    /* reads what it writes */
    if (y->root == s->leaf) y = qn__node_op(ctx, QN_OP_copy, &(qn_copy_attrs){(int32_t)y->dtype}, &y, 1);
    qn_node *dst = y != NULL ? qn__node_of(t) : NULL;
    qn_node *u = dst != NULL && root_of(s) != NULL ? write_over(ctx, s, dst, y) : NULL;
    if (u == NULL) return false;
    s->value = u;
    qn__storage_list(s);
    s->version++;
    return true;
}

/* Where that update of memory in s runs: where it lies, or else, as any operation, the next device that takes it. What
 * nobody takes is refused where it lies. */
static int update_place(qn_context *ctx, qn_storage *s, qn_op op, const void *attrs, qn_node *const *src, int n_src)
{
    qn_graph *g = ctx->graph;
    int place = s->place;
    if (ctx->n_backends == 1 || ctx->strict || qn__place_is_host(ctx, place)) return place;
    const uint32_t flags = s->leaf->flags;
    qn_error why = {0};
    s->leaf->flags |= QN_NODE_mutable;
    qn__graph_scope(g, -1, place);
    const qn_node *n = qn__op(g, op, attrs, src, n_src);
    s->leaf->flags = flags;
    if (g->error.status != QN_OK) { /* said by who records it */
        g->error = (qn_error){0};
        g->arena.failed = false;
        return place;
    }
    for (int i = 0; i < ctx->n_backends; i++) {
        const int at = (s->place + i) % ctx->n_backends;
        if (!ctx->backends[at]->type->accepts(ctx->backends[at], n, i == 0 ? &why : NULL)) continue;
        if (i > 0) qn__sched_fell_back(ctx->sched, n, s->place, at, &why);
        place = at;
        break;
    }
    g->n_nodes--; /* it was the last */
    return place;
}

/* On a copy there, whose value t takes. */
static bool update_at(int place, qn_tensor *t, qn_op op, const void *attrs, qn_tensor *const *others, int n_others)
{
    qn_context *ctx = of(t)->ctx;
    qn_node *x = qn__node_of(t);
    qn_tensor *copy = x != NULL ? qn__tensor_of(ctx, qn__node_moved(ctx, x, place)) : NULL;
    const bool good = copy != NULL && qn__update(copy, op, attrs, others, n_others) && qn__store(t, qn__node_of(copy));
    qn_release(copy);
    ctx->n_fallbacks += good;
    return good;
}

bool qn__update(qn_tensor *t, qn_op op, const void *attrs, qn_tensor *const *others, int n_others)
{
    qn_context *ctx = of(t)->ctx;
    qn_storage *s = of(t)->storage;
    qn_node *src[QN_MAX_SRC];
    if ((s->keeper != NULL && !qn__tape_save(s)) || !land(s)) return false;
    for (int i = 0; i < n_others; i++) {
        qn_node *n = qn__node_of(others[i]);
        if (n != NULL && n->root == s->leaf)
            n = qn__node_op(ctx, QN_OP_copy, &(qn_copy_attrs){(int32_t)n->dtype}, &n, 1);
        if (n == NULL) return false;
        src[i + 1] = n;
    }
    src[0] = qn__node_of(t);
    if (src[0] == NULL) return false;
    const int place = update_place(ctx, s, op, attrs, src, n_others + 1);
    if (place != s->place) return update_at(place, t, op, attrs, others, n_others);
    qn_node *u = update_node(ctx, s, op, attrs, src, n_others + 1);
    if (u == NULL) return false;
    s->value = u;
    qn__storage_list(s);
    s->version++;
    return true;
}

/* ---- operations on handles ---- */

/* While backward records, its gradients are nodes of the graph that is pending. */
bool qn__make_room(qn_context *ctx)
{
    if (ctx->graph->n_nodes < ctx->max_pending || ctx->in_backward) return true;
    if (qn__flush_for(ctx, NULL, false) != QN_OK) return false;
    return ctx->graph->n_nodes < ctx->max_pending || qn__flush(ctx) == QN_OK; /* what waits may be as much */
}

/* Who passes NULL on has an error there already; who gives it by mistake gets this one. */
static void missing(const char *op, qn_tensor *const *t, int n, int which)
{
    for (int i = 0; i < n; i++) {
        if (t[i] == NULL || !qn__live(t[i], op)) continue;
        (void)QN_FAIL(qn__err(of(t[i])->ctx), invalid, "%s: tensor %d is NULL", op, which);
        return;
    }
}

qn_context *qn__one_context(const char *op, qn_tensor *const *t, int n)
{
    if (t == NULL) return NULL;
    for (int i = 0; i < n; i++) {
        if (t[i] == NULL) missing(op, t, n, i);
        if (!qn__live(t[i], op) || !qn__tape_fresh(t[i])) return NULL;
    }
    for (int i = 1; i < n; i++) {
        if (of(t[i])->ctx == of(t[0])->ctx) continue;
        (void)QN_FAIL(qn__err(of(t[0])->ctx), invalid,
                      "%s: tensor 0 belongs to context %u (%s), tensor %d to context %u (%s); "
                      "qn_to_context copies",
                      op, of(t[0])->ctx->serial, qn__place_name(of(t[0])->ctx, qn__place_of(t[0])), i,
                      of(t[i])->ctx->serial, qn__place_name(of(t[i])->ctx, qn__place_of(t[i])));
        return NULL;
    }
    return of(t[0])->ctx;
}

qn_context *qn__same_context(const char *op, qn_tensor *const *t, int n)
{
    qn_context *ctx = qn__one_context(op, t, n);
    int first = -1;
    for (int i = 0; ctx != NULL && ctx->n_backends > 1 && i < n; i++) {
        if (of(t[i])->layout.rank == 0 && qn__place_is_host(ctx, qn__place_of(t[i]))) continue;
        if (first < 0) first = i;
        if (qn__place_of(t[i]) == qn__place_of(t[first])) continue;
        (void)QN_FAIL(qn__err(ctx), invalid,
                      "%s: tensors of one device expected, but tensor %d lies on %s and tensor %d on %s; qn_to_device "
                      "moves one",
                      op, first, qn__place_name(ctx, qn__place_of(t[first])), i,
                      qn__place_name(ctx, qn__place_of(t[i])));
        return NULL;
    }
    return ctx;
}

static qn_node *node_for(qn_context *ctx, qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    qn_node *nodes[QN_MAX_SRC];
    for (int i = 0; i < n_src; i++) {
        nodes[i] = qn__node_of(src[i]);
        if (nodes[i] == NULL) return NULL;
    }
    return qn__node_op(ctx, op, attrs, nodes, n_src);
}

qn_tensor *qn__apply(qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    qn_context *ctx = qn__same_context(qn__op_info(op)->name, src, n_src);
    if (ctx == NULL) return NULL;
    qn_tensor *y = qn__tensor_of(ctx, node_for(ctx, op, attrs, src, n_src));
    if (y == NULL || !qn__tape_wanted(ctx, src, n_src) || qn__tape_record(y, op, attrs, src, n_src)) return y;
    qn_release(y);
    return NULL;
}

/* Sources that the gradient will need as they are, and that the write changes, are copied first. */
static bool save_sources(qn_context *ctx, const qn_tensor *dst, qn_op op, qn_tensor **src, int n_src, qn_tensor **made)
{
    memset(made, 0, (size_t)n_src * sizeof *made);
    if (!qn__tape_wanted(ctx, src, n_src)) return true;
    for (int i = 0; i < n_src; i++) {
        if (of(src[i])->storage != of(dst)->storage || !qn__tape_keeps(ctx, op, src, n_src, i)) continue;
        made[i] = qn__apply(QN_OP_copy, &(qn_copy_attrs){(int32_t)of(src[i])->storage->dtype}, &src[i], 1);
        if (made[i] == NULL) return false;
        src[i] = made[i];
    }
    return true;
}

static qn_tensor *apply_into(qn_context *ctx, qn_tensor *dst, bool in_place, qn_op op, const void *attrs,
                             qn_tensor *const *src, int n_src);

qn_tensor *qn__apply_into(qn_tensor *dst, bool in_place, qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    const char *name = qn__op_info(op)->name;
    qn_tensor *all[QN_MAX_SRC + 1] = {dst};
    for (int i = 0; i < n_src; i++) all[i + 1] = src[i];
    qn_context *ctx = qn__same_context(name, all, n_src + 1);
    if (ctx == NULL || !qn__tape_writable(dst, name, src, n_src)) return NULL;
    qn_tensor *in[QN_MAX_SRC], *made[QN_MAX_SRC];
    for (int i = 0; i < n_src; i++) in[i] = src[i];
    qn_tensor *done =
        save_sources(ctx, dst, op, in, n_src, made) ? apply_into(ctx, dst, in_place, op, attrs, in, n_src) : NULL;
    for (int i = 0; i < n_src; i++) qn_release(made[i]);
    return done;
}

/* To the tape, a result that is converted on its way is two operations. */
static qn_tensor *store_converted(qn_context *ctx, qn_tensor *dst, qn_node *y, qn_op op, const void *attrs,
                                  qn_tensor *const *src, int n_src)
{
    const qn_copy_attrs to = {(int32_t)of(dst)->storage->dtype};
    qn_node *converted = qn__node_op(ctx, QN_OP_copy, &to, &y, 1);
    if (converted == NULL) return NULL;
    if (!qn__tape_wanted(ctx, src, n_src)) return qn__tape_store(dst, converted, op, attrs, src, n_src) ? dst : NULL;
    qn_tensor *x = qn__tensor_of(ctx, y);
    const bool good = x != NULL && qn__tape_record(x, op, attrs, src, n_src) &&
                      qn__tape_store(dst, converted, QN_OP_copy, &to, &x, 1);
    qn_release(x);
    return good ? dst : NULL;
}

static qn_tensor *apply_into(qn_context *ctx, qn_tensor *dst, bool in_place, qn_op op, const void *attrs,
                             qn_tensor *const *src, int n_src)
{
    const char *name = qn__op_info(op)->name;
    qn_node *y = node_for(ctx, op, attrs, src, n_src);
    if (y == NULL) return NULL;
    if (y->root->hint != qn__place_of(dst)) { /* only numbers of the host go with others */
        (void)QN_FAIL(qn__err(ctx), invalid, "%s%s: the result on %s cannot be stored on %s", name,
                      in_place ? "_" : "_out", qn__place_name(ctx, y->root->hint),
                      qn__place_name(ctx, qn__place_of(dst)));
        return NULL;
    }
    const qn_shape have = qn_layout_shape(&y->layout), want = qn_layout_shape(&of(dst)->layout);
    if (!qn_shape_equal(&have, &want)) {
        char a[192], b[192];
        (void)QN_FAIL(qn__err(ctx), invalid, "%s%s: the result %s does not fit %s", name, in_place ? "_" : "_out",
                      qn_shape_print(&have, a, sizeof a), qn_shape_print(&want, b, sizeof b));
        return NULL;
    }
    if (y->dtype != of(dst)->storage->dtype) {
        if (!qn__can_cast(y->dtype, of(dst)->storage->dtype)) {
            (void)QN_FAIL(qn__err(ctx), invalid, "%s%s: the result is %s and cannot be stored in %s", name,
                          in_place ? "_" : "_out", qn_dtype_get(y->dtype)->name,
                          qn_dtype_get(of(dst)->storage->dtype)->name);
            return NULL;
        }
        return store_converted(ctx, dst, y, op, attrs, src, n_src);
    }
    return qn__tape_store(dst, y, op, attrs, src, n_src) ? dst : NULL;
}
