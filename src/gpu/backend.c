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

#define QN_GPU_OP(name)
#define QN_GPU_OP64(name) [QN_OP_##name] = true,
static const bool of_doubles[QN_OP_COUNT] = {
#include "gpu/ops.def"
};
#undef QN_GPU_OP

const qn_gpu_op *qn__gpu_op(qn_op op) { return (unsigned)op < QN_OP_COUNT ? ops[op] : NULL; }

bool qn__gpu_accepts(const qn_backend *be, const qn_node *node, qn_error *err)
{
    const qn_gpu_op *op = qn__gpu_op(node->op);
    if (op && of_doubles[node->op] && !((const qn_gpu *)be)->info.doubles) {
        QN_FAIL(err, unsupported, "%s is computed in 64-bit floats, which %s lacks", qn_node_op_name(node), be->name);
        return false;
    }
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

/* The dimensions from `first` to `last`, both included, as n rows `stride` apart. */
static bool merge_dims(const qn_layout *l, int first, int last, int64_t *n, int64_t *stride)
{
    *n = 1;
    *stride = 0;
    for (int i = last; i >= first; i--) {
        if (l->dim[i] != 1 && *n != 1 && l->stride[i] != *stride * *n) return false;
        if (l->dim[i] != 1 && *n == 1) *stride = l->stride[i];
        *n *= l->dim[i];
    }
    return true;
}

static bool dense_row(const qn_layout *l)
{
    return l->rank == 0 || l->dim[l->rank - 1] <= 1 || l->stride[l->rank - 1] == 1;
}

bool qn__gpu_rows_of(const qn_layout *l, qn_gpu_rows *out)
{
    *out = (qn_gpu_rows){.n = 1, .size = 1, .stride = 0};
    if (l->rank == 0) return true;
    out->size = l->dim[l->rank - 1];
    return dense_row(l) && merge_dims(l, 0, l->rank - 2, &out->n, &out->stride);
}

/* Dimensions up to `last` in two levels. */
static bool two_levels(const qn_layout *l, int last, qn_rows *out, int64_t *n)
{
    int64_t outer = 1;
    for (int cut = 0; cut <= (last > 0 ? last : 0); cut++) {
        if (!merge_dims(l, cut, last, n, &out->stride)) continue;
        out->inner = *n > 0 ? *n : 1;
        const bool good = merge_dims(l, 0, cut - 1, &outer, &out->outer);
        *n *= outer;
        return good;
    }
    return false;
}

bool qn__gpu_rows_at(const qn_layout *l, qn_rows *out, int64_t *n)
{
    *out = (qn_rows){.inner = 1};
    *n = 1;
    return dense_row(l) && two_levels(l, l->rank - 2, out, n);
}

bool qn__gpu_ids_at(const qn_layout *l, qn_rows *out)
{
    int64_t n;
    *out = (qn_rows){.inner = 1};
    return two_levels(l, l->rank - 1, out, &n);
}

static const char *shown(const qn_node *n) { return n->name[0] ? n->name : qn_node_op_name(n); }

bool qn__gpu_want_rows(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    qn_rows rows;
    int64_t count;
    if (qn__gpu_rows_at(&n->layout, &rows, &count)) return true;
    QN_FAIL(err, unsupported, "%s: the rows of %s \"%s\" are not dense", qn_node_op_name(user), what, shown(n));
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

static const struct {
    bool there;
    int32_t format;
} formats[QN_DTYPE_COUNT] = {
#define ROW(name) [QN_DTYPE_##name] = {true, QN_GPU_##name},
    QN_GPU_FORMAT_ROWS(ROW)
#undef ROW
};

bool qn__gpu_format(qn_dtype dtype, int32_t *out)
{
    *out = formats[dtype].format;
    return formats[dtype].there;
}

bool qn__gpu_want_format(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    const qn_dtype_class class_ = qn_dtype_get(n->dtype)->class_;
    if (formats[n->dtype].there && (class_ == QN_CLASS_real || class_ == QN_CLASS_block) && n->dtype != QN_DTYPE_F64)
        return true;
    QN_FAIL(err, unsupported, "%s: no kernel reads %s in %s", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}

bool qn__gpu_want_ids(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    qn_rows rows;
    if ((n->dtype == QN_DTYPE_I32 || n->dtype == QN_DTYPE_I64) && qn__gpu_ids_at(&n->layout, &rows)) return true;
    QN_FAIL(err, unsupported, "%s: no kernel reads %s in %s of this layout", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}
