/* SPDX-License-Identifier: MIT */
/* src/backend/look.c -- looking inside: a node's values while it runs, times, printed graphs and plans. Models and
 * tensor programs show their graphs by these functions. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"
#include "quant/element.h"

/* ---- values ---------------------------------------------------------------------------------- */

qn_status qn__widen(qn_dtype dtype, const void *raw, float *dst, int64_t n, qn_error *err)
{
    const qn_dtype_class class = qn_dtype_get(dtype)->class_;
    if (class == QN_CLASS_real || class == QN_CLASS_block) return qn_unpack(dtype, raw, dst, n, err);
    int64_t whole;
    for (int64_t i = 0; i < n; i++) dst[i] = (float)qn__element(dtype, raw, i, &whole);
    return QN_OK;
}

qn_status qn__exec_read(const qn_exec *e, const qn_node *node, float *dst, uint64_t bytes, qn_error *err)
{
    const int64_t n = qn_layout_numel(&node->layout);
    if (bytes != (uint64_t)n * sizeof(float))
        return QN_FAIL(err, invalid, "node %s has %lld values; %llu bytes were offered, 4 each are expected",
                       node->name, (long long)n, (unsigned long long)bytes);
    if (!qn_layout_is_contiguous(&node->layout))
        return QN_FAIL(err, unsupported, "node %s is a strided view", node->name);
    if (node->dtype == QN_DTYPE_F32) return qn__exec_peek(e, node, dst, 0, bytes, err);
    const uint64_t raw_bytes = (uint64_t)qn_dtype_row_bytes(node->dtype, n);
    void *raw = qn__alloc(raw_bytes);
    if (!raw) return QN_FAIL_NOMEM(err, raw_bytes);
    qn_status status = qn__exec_peek(e, node, raw, 0, raw_bytes, err);
    if (status == QN_OK) status = qn__widen(node->dtype, raw, dst, n, err);
    qn__free(raw);
    return status;
}

/* Elements of the last dimensions that lie one behind the other. */
static int64_t run_length(const qn_layout *l)
{
    int64_t n = 1;
    for (int i = l->rank - 1; i >= 0 && (l->stride[i] == n || l->dim[i] == 1); i--) n *= l->dim[i];
    return n;
}

/* Bytes of a value between where it lies and `host`, run by run. */
static qn_status move_value(const qn_exec *e, const qn_node *node, uint8_t *host, bool in, qn_error *err)
{
    const qn_layout *l = &node->layout;
    const qn_dtype_info *d = qn_dtype_get(node->dtype);
    const int64_t run = run_length(l), n = qn_layout_numel(l);
    int64_t index[QN_MAX_RANK] = {0}, at = 0;
    int rank = l->rank;
    for (int64_t inner = 1; rank > 0 && inner < run; rank--) inner *= l->dim[rank - 1];
    uint64_t start;
    qn_buffer *buffer = qn__exec_memory(e, node, &start);
    const qn_backend_type *type = buffer->backend->type;
    const uint64_t bytes = (uint64_t)qn_dtype_row_bytes(node->dtype, run);
    QN_TRY(qn__backend_sync(buffer->backend, err));
    for (int64_t done = 0; done < n; done += run, host += bytes) {
        const uint64_t from = start + (uint64_t)(at / d->block_elems * d->block_bytes);
        QN_TRY(in ? type->upload(buffer, from, host, bytes, err) : type->download(buffer, from, host, bytes, err));
        for (int i = rank - 1; i >= 0; i--) {
            at += l->stride[i];
            if (++index[i] < l->dim[i]) break;
            at -= l->stride[i] * l->dim[i];
            index[i] = 0;
        }
    }
    return QN_OK;
}

qn_status qn__exec_take(const qn_exec *e, const qn_node *node, float *dst, void *raw, qn_error *err)
{
    if (node->dtype == QN_DTYPE_F32) return move_value(e, node, (uint8_t *)dst, false, err);
    QN_TRY(move_value(e, node, raw, false, err));
    return qn__widen(node->dtype, raw, dst, qn_layout_numel(&node->layout), err);
}

qn_status qn__exec_put(const qn_exec *e, const qn_node *node, const float *src, qn_error *err)
{
    QN_ASSERT(node->dtype == QN_DTYPE_F32);
    return move_value(e, node, (uint8_t *)src, true, err);
}

/* ---- times ----------------------------------------------------------------------------------- */

qn_status qn__exec_prepare_times(const qn_exec *e, qn_node_times *times, qn_error *err)
{
    const int32_t n = e->graph->n_nodes;
    if (n > times->cap) {
        double *more = qn__realloc(times->ns, (size_t)n * sizeof(*more));
        if (!more) return QN_FAIL_NOMEM(err, (size_t)n * sizeof(*more));
        times->ns = more;
        times->cap = n;
    }
    if (n > 0) memset(times->ns, 0, (size_t)n * sizeof(*times->ns));
    return QN_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

qn_status qn__look_take(qn_str *text, qn_status status, char **out, qn_error *err)
{
    char *taken = status == QN_OK ? qn__str_take(text, NULL) : NULL;
    qn__str_deinit(text);
    if (status != QN_OK) return status;
    if (!taken) return QN_FAIL(err, nomem, "out of memory while printing");
    *out = taken;
    return QN_OK;
}

qn_status qn__sched_print_graph(const qn_sched *s, const qn_graph *graph, int layer, const double *node_ns,
                                const char *title, qn_graph_format format, qn_graph_color color, char **out,
                                qn_error *err)
{
    const char *names[QN_MAX_PLACES] = {0};
    qn_str text = {0};
    for (int p = 0; p < s->n_backends; p++) names[p] = s->backends[p]->name;
    const qn_print_options options = {.layer = layer,
                                      .by_layer_only = layer >= 0,
                                      .node_ns = node_ns,
                                      .place_names = names,
                                      .title = title,
                                      .color = color};
    const qn_status status = qn__graph_print(graph, format, &options, &text, err);
    return qn__look_take(&text, status, out, err);
}

static void print_step(const qn_exec *e, int32_t i, int *n_split, qn_str *out)
{
    const qn_step *step = &e->steps[i];
    const char *to = e->sched->backends[step->place]->name;
    if (step->transfer) {
        const qn_node *t = step->transfer;
        char bytes[32];
        qn__str_printf(out, "  copy %%%d \"%s\", %s, %s -> %s\n", t->id, qn__title(t),
                       qn__str_bytes(bytes, sizeof(bytes), (uint64_t)qn__node_bytes(t)),
                       e->sched->backends[t->src[0]->root->place]->name, to);
        return;
    }
    const qn_node *first = e->work[step->first], *last = e->work[step->first + step->n_nodes - 1];
    qn__str_printf(out, "split %d: %s, %d nodes, %%%d to %%%d\n", (*n_split)++, to, step->n_nodes, first->id, last->id);
}

qn_status qn__exec_print_plan(const qn_exec *e, qn_str *out, qn_error *err)
{
    int n_split = 0;
    QN_TRY(qn__plan_print(e->graph, &e->plan, out, err));
    for (int32_t i = 0; i < e->graph->n_nodes; i++) {
        const qn_node *n = e->graph->nodes[i];
        qn__str_printf(out, "%%%d %s \"%s\" -> %s\n", n->id, qn_node_op_name(n), n->name,
                       e->sched->backends[n->place]->name);
    }
    for (int32_t i = 0; i < e->n_steps; i++) print_step(e, i, &n_split, out);
    return out->failed ? QN_FAIL_NOMEM(err, out->cap * 2) : QN_OK;
}
