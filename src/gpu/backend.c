/* SPDX-License-Identifier: MIT */
/* src/gpu/backend.c -- a device as a backend: opening, buffers, and what it accepts. */
#include "gpu/gpu.h"
#include "backend/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels read bytes, halves and floats at their own alignment; values of activations begin at cache lines. */
enum { ALIGNMENT = 256 };

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

void qn__gpu_close(qn_backend *be)
{
    qn_gpu *gpu = (qn_gpu *)be;
    if (!gpu) return;
    if (gpu->device) gpu->driver->close(gpu->device);
    qn__free(gpu);
}

qn_status qn__gpu_open(const qn_backend_type *type, const qn_gpu_driver *driver, const qn_backend_options *options,
                       qn_backend **out, qn_error *err)
{
    int n = 0, index = 0;
    const char *which = options && options->which ? options->which : "0";
    char quoted[128], *end = NULL;
    const unsigned long number = strtoul(which, &end, 10);
    if (*which < '0' || *which > '9' || *end || number >= QN_GPU_MAX_DEVICES)
        return QN_FAIL(err, invalid, "%s: device \"%s\" is no number: %s:0 is the first", type->name,
                       qn__str_quote(quoted, sizeof(quoted), which, strlen(which)), type->name);
    index = (int)number;
    qn_device found[QN_GPU_MAX_DEVICES];
    QN_TRY(driver->devices(found, QN_GPU_MAX_DEVICES, &n, err));
    if (index >= n)
        return QN_FAIL(err, unsupported, "%s: device %d is not there: %d of them were found%s", type->name, index, n,
                       n ? "" : " (its library is there; does the device's own driver miss?)");
    qn_gpu *gpu = qn__calloc(1, sizeof(*gpu));
    if (!gpu) return QN_FAIL_NOMEM(err, sizeof(*gpu));
    gpu->base = (qn_backend){.type = type, .alignment = ALIGNMENT};
    gpu->driver = driver;
    const qn_status status = driver->open(index, &gpu->device, &gpu->info, err);
    if (status != QN_OK) {
        qn__gpu_close(&gpu->base);
        return status;
    }
    if (options && options->name)
        snprintf(gpu->base.name, sizeof(gpu->base.name), "%s", options->name);
    else
        snprintf(gpu->base.name, sizeof(gpu->base.name), "%s:%d", type->name, index);
    *out = &gpu->base;
    return QN_OK;
}

/* ---- buffers ---- */

qn_status qn__gpu_buffer_create(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    if (bytes > gpu->info.largest)
        return QN_FAIL(err, nomem, "%s: a buffer of %llu bytes; the device takes at most %llu in one", be->name,
                       (unsigned long long)bytes, (unsigned long long)gpu->info.largest);
    qn_gpu_buffer *b = qn__calloc(1, sizeof(*b));
    if (!b) return QN_FAIL_NOMEM(err, sizeof(*b));
    b->base = (qn_buffer){.backend = be, .bytes = bytes};
    const qn_status status = gpu->driver->alloc(gpu->device, bytes, &b->memory, err);
    if (status != QN_OK) {
        qn__free(b);
        return status;
    }
    *out = &b->base;
    return QN_OK;
}

void qn__gpu_buffer_destroy(qn_buffer *buffer)
{
    if (!buffer) return;
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    gpu->driver->free(gpu->device, ((qn_gpu_buffer *)buffer)->memory);
    qn__free(buffer);
}

qn_status qn__gpu_upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    return bytes ? gpu->driver->write(gpu->device, ((qn_gpu_buffer *)buffer)->memory, offset, src, bytes, false, err)
                 : QN_OK;
}

qn_status qn__gpu_download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    QN_TRY(qn__gpu_failure(gpu, err));
    return bytes ? gpu->driver->read(gpu->device, ((const qn_gpu_buffer *)buffer)->memory, offset, dst, bytes, err)
                 : QN_OK;
}

/* sync has no status of its own: what it met is told by the next call that has one, and by all after it. */
qn_status qn__gpu_failure(const qn_gpu *gpu, qn_error *err)
{
    if (gpu->failed.status != QN_OK && err) *err = gpu->failed;
    return gpu->failed.status;
}

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
