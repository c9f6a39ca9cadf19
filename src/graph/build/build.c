/* SPDX-License-Identifier: MIT */
/* src/graph/build/build.c -- one builder an op. They fill attributes and sources; shapes and dtypes are checked by the
 * op's rule. */
#include <math.h>
#include "graph/internal.h"
#include <string.h>

static qn_node *refuse(qn_graph *g, const char *fmt, ...) QN_PRINTF(2, 3);
static qn_node *refuse(qn_graph *g, const char *fmt, ...)
{
    qn_error e = {0};
    va_list args;
    va_start(args, fmt);
    (void)qn__vfail(&e, QN_STATUS_invalid, __FILE__, __LINE__, fmt, args);
    va_end(args);
    return qn__stick(g, &e);
}

static bool usable(const qn_graph *g, const qn_node *n) { return g->error.status == QN_OK && n != NULL && n != g->bad; }

/* ---- leaves ---- */

static qn_node *leaf(qn_graph *g, const char *name, const qn_shape *shape, qn_node *proto)
{
    if (g->error.status != QN_OK) return g->bad;
    const char *op = qn__op_info(proto->op)->name;
    char quoted[96];
    if (name == NULL) return refuse(g, "%s: a name is needed", op);
    qn_error e;
    e.status = QN_OK;
    e.text[0] = '\0';
    if (qn_layout_contiguous(shape, &proto->layout, &e) != QN_OK) {
        (void)qn__prefix(&e, e.status, "%s \"%s\"", op, qn__str_quote(quoted, sizeof quoted, name, strlen(name)));
        return qn__stick(g, &e);
    }
    proto->name = name[0] == '\0' ? "" : qn__arena_strdup(&g->arena, name);
    if (proto->name == NULL) {
        (void)QN_FAIL_NOMEM(&e, strlen(name) + 1);
        return qn__stick(g, &e);
    }
    return qn__record(g, proto);
}

qn_node *qn__input(qn_graph *g, const char *name, qn_dtype dtype, const qn_shape *shape)
{
    if (g->error.status == QN_OK && name != NULL && name[0] == '\0') return refuse(g, "input: a name is needed");
    return leaf(g, name, shape, &(qn_node){.op = QN_OP_input, .dtype = dtype});
}

qn_node *qn__param(qn_graph *g, const char *name, qn_dtype dtype, const qn_shape *shape, void *buffer, uint64_t offset,
                   uint32_t flags)
{
    if (g->error.status != QN_OK) return g->bad;
    if (flags & ~(uint32_t)(QN_NODE_mutable | QN_NODE_output)) {
        return refuse(g, "param: flags %#x, only mutable and output are possible", (unsigned)flags);
    }
    qn_node proto = {.op = QN_OP_param, .dtype = dtype, .buffer = buffer, .buffer_offset = offset, .flags = flags};
    return leaf(g, name, shape, &proto);
}

/* ---- views ---- */

static qn_node *view(qn_graph *g, qn_node *x, qn_status status, const qn_layout *layout, qn_error *e, const char *what)
{
    if (status != QN_OK) {
        char text[QN_NODE_TEXT];
        (void)qn__prefix(e, status, "%s of %s", what, qn__node_text(x, text));
        return qn__stick(g, e);
    }
    const qn_view_attrs attrs = {.layout = *layout};
    return qn__op(g, QN_OP_view, &attrs, &x, 1);
}

qn_node *qn__reshape(qn_graph *g, qn_node *x, qn_shape shape)
{
    if (g->error.status != QN_OK) return g->bad;
    if (x == NULL) return refuse(g, "reshape: source 0 is missing");
    qn_layout layout;
    qn_error e = {0};
    return view(g, x, qn_layout_view(&x->layout, &shape, &layout, &e), &layout, &e, "reshape");
}

qn_node *qn__permute(qn_graph *g, qn_node *x, const int *dims, int n_dims)
{
    if (g->error.status != QN_OK) return g->bad;
    if (x == NULL) return refuse(g, "permute: source 0 is missing");
    qn_layout layout;
    qn_error e = {0};
    return view(g, x, qn_layout_permute(&x->layout, dims, n_dims, &layout, &e), &layout, &e, "permute");
}

qn_node *qn__narrow(qn_graph *g, qn_node *x, int dim, int64_t start, int64_t length)
{
    if (g->error.status != QN_OK) return g->bad;
    if (x == NULL) return refuse(g, "narrow: source 0 is missing");
    qn_layout layout;
    qn_error e = {0};
    return view(g, x, qn_layout_narrow(&x->layout, dim, start, length, &layout, &e), &layout, &e, "narrow");
}

qn_node *qn__expand(qn_graph *g, qn_node *x, qn_shape shape)
{
    if (g->error.status != QN_OK) return g->bad;
    if (x == NULL) return refuse(g, "expand: source 0 is missing");
    qn_layout layout;
    qn_error e = {0};
    return view(g, x, qn_layout_expand(&x->layout, &shape, &layout, &e), &layout, &e, "expand");
}

/* ---- computations ---- */

qn_node *qn__copy(qn_graph *g, qn_node *x, qn_dtype dtype)
{
    return qn__op(g, QN_OP_copy, &(qn_copy_attrs){(int32_t)dtype}, &x, 1);
}

qn_node *qn__get_rows(qn_graph *g, qn_node *table, qn_node *ids)
{
    return qn__op(g, QN_OP_get_rows, NULL, (qn_node *[]){table, ids}, 2);
}

qn_node *qn__linear(qn_graph *g, qn_node *x, qn_node *w, qn_node *b)
{
    return qn__op(g, QN_OP_linear, NULL, (qn_node *[]){x, w, b}, b != NULL ? 3 : 2);
}

qn_node *qn__linear_input(qn_graph *g, qn_node *y, qn_node *w)
{
    return qn__op(g, QN_OP_linear_input, NULL, (qn_node *[]){y, w}, 2);
}

qn_node *qn__rms_norm(qn_graph *g, qn_node *x, qn_node *w, float eps)
{
    return qn__op(g, QN_OP_rms_norm, &(qn_norm_attrs){(double)eps}, (qn_node *[]){x, w}, w != NULL ? 2 : 1);
}

qn_node *qn__add(qn_graph *g, qn_node *a, qn_node *b) { return qn__op(g, QN_OP_add, NULL, (qn_node *[]){a, b}, 2); }
qn_node *qn__mul(qn_graph *g, qn_node *a, qn_node *b) { return qn__op(g, QN_OP_mul, NULL, (qn_node *[]){a, b}, 2); }
qn_node *qn__silu(qn_graph *g, qn_node *x) { return qn__op(g, QN_OP_silu, NULL, &x, 1); }

qn_node *qn__scale(qn_graph *g, qn_node *x, float scale, float bias)
{
    /* Adding +0 would turn a product of -0 into +0; adding -0 changes nothing at all. So "no bias" is -0, and a scale
     * by one is the identity bit for bit. */
    return qn__op(g, QN_OP_scale, &(qn_scale_attrs){scale, bias == 0.0f ? -0.0f : bias}, &x, 1);
}

qn_node *qn__swiglu(qn_graph *g, qn_node *gate, qn_node *up)
{
    return qn__op(g, QN_OP_swiglu, NULL, (qn_node *[]){gate, up}, 2);
}

qn_node *qn__rope(qn_graph *g, qn_node *x, qn_node *pos, qn_node *factors, const qn_rope_attrs *attrs)
{
    return qn__op(g, QN_OP_rope, attrs, (qn_node *[]){x, pos, factors}, factors != NULL ? 3 : 2);
}

float qn__alibi_slope(float max_bias, int64_t n_head, int64_t head)
{
    int64_t n = 1;
    while (2 * n <= n_head) n *= 2;
    const int64_t steps = head < n ? 2 * (head + 1) : 2 * (head - n) + 1; /* of half a head's exponent */
    return (float)exp2(-(double)max_bias * (double)steps / (double)(2 * n));
}

qn_node *qn__attention(qn_graph *g, const qn_attn_sources *src, const qn_attn_attrs *attrs)
{
    qn_attn_attrs a = *attrs;
    a.has_sinks = src->sinks != NULL;
    return qn__op(g, QN_OP_attention, &a, (qn_node *[]){src->q, src->k, src->v, src->lists, src->spans, src->sinks},
                  5 + a.has_sinks);
}

/* ---- updates ---- */

qn_node *qn__set_rows(qn_graph *g, qn_node *dst, qn_node *x, qn_node *rows)
{
    return qn__op(g, QN_OP_set_rows, NULL, (qn_node *[]){dst, x, rows}, 3);
}

qn_node *qn__slice_update(qn_graph *g, qn_node *dst, qn_node *x, int dim, int64_t start, bool accumulate)
{
    if (dim < 0 && usable(g, dst)) dim += dst->layout.rank; /* what is still negative, the rule refuses */
    const qn_slice_attrs attrs = {.dim = dim, .accumulate = accumulate, .start = start};
    return qn__op(g, QN_OP_slice_update, &attrs, (qn_node *[]){dst, x}, 2);
}
