/* SPDX-License-Identifier: MIT */
/* src/gpu/backend.c -- a device as a backend: what kernels there are, and what it accepts. */
#include "gpu/gpu.h"

static const char *const kernel_names[] = {
#define QN_GPU_KERNEL(name, width, room) #name,
#include "gpu/kernels.def"
#undef QN_GPU_KERNEL
};

const char *qn__gpu_kernel_name(int kernel) { return kernel_names[kernel]; }

static const uint32_t kernel_widths[] = {
#define QN_GPU_KERNEL(name, width, room) width,
#include "gpu/kernels.def"
#undef QN_GPU_KERNEL
};

uint32_t qn__gpu_kernel_width(int kernel) { return kernel_widths[kernel]; }

static const uint32_t kernel_rooms[] = {
#define QN_GPU_KERNEL(name, width, room) room,
#include "gpu/kernels.def"
#undef QN_GPU_KERNEL
};

uint32_t qn__gpu_kernel_room(int kernel) { return kernel_rooms[kernel]; }

/* ---- operations ---- */

#define QN_GPU_OP(name) [QN_OP_##name] = &qn__gpu_op_##name,
static const qn_gpu_op *const ops[QN_OP_COUNT] = {
#include "gpu/ops.def"
};
#undef QN_GPU_OP

const qn_gpu_op *qn__gpu_op(qn_op op) { return (unsigned)op < QN_OP_COUNT ? ops[op] : NULL; }

bool qn__gpu_accepts(const qn_backend *be, const qn_node *node, qn_error *err)
{
    const qn_gpu_op *op = qn__gpu_op(node->op);
    if (op) return op->accepts(node, err);
    QN_FAIL(err, unsupported, "%s has no kernel for %s", be->type->name, qn_node_op_name(node));
    return false;
}

uint64_t qn__gpu_scratch(const qn_backend *be, const qn_node *node)
{
    const qn_gpu_op *op = qn__gpu_op(node->op);
    (void)be;
    return op && op->scratch ? op->scratch(node) : 0;
}

/* ---- conditions ---- */

bool qn__gpu_rows_of(const qn_layout *l, qn_gpu_rows *out)
{
    *out = (qn_gpu_rows){.n = 1, .size = 1, .stride = 0};
    if (l->rank == 0) return true;
    out->size = l->dim[l->rank - 1];
    if (out->size > 1 && l->stride[l->rank - 1] != 1) return false;
    int64_t stride = 0;
    for (int i = l->rank - 2; i >= 0; i--) {
        if (l->dim[i] != 1 && out->n != 1 && l->stride[i] != stride * out->n) return false;
        if (l->dim[i] != 1 && out->n == 1) stride = l->stride[i];
        out->n *= l->dim[i];
    }
    out->stride = stride;
    return true;
}

static const char *shown(const qn_node *n) { return n->name[0] ? n->name : qn_node_op_name(n); }

bool qn__gpu_want_rows(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    qn_gpu_rows rows;
    if (qn__gpu_rows_of(&n->layout, &rows)) return true;
    QN_FAIL(err, unsupported, "%s: the rows of %s \"%s\" lie too far apart", qn_node_op_name(user), what, shown(n));
    return false;
}

bool qn__gpu_want_dtype(const qn_node *user, const char *what, const qn_node *n, qn_dtype dtype, qn_error *err)
{
    if (n->dtype == dtype) return true;
    QN_FAIL(err, unsupported, "%s: %s \"%s\" is %s, %s expected", qn_node_op_name(user), what, shown(n),
            qn_dtype_get(n->dtype)->name, qn_dtype_get(dtype)->name);
    return false;
}

bool qn__gpu_want_dense(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    qn_layout l = n->layout;
    l.offset = 0;
    if (qn_layout_is_contiguous(&l)) return true;
    QN_FAIL(err, unsupported, "%s: %s \"%s\" is not dense", qn_node_op_name(user), what, shown(n));
    return false;
}
