/* SPDX-License-Identifier: MIT */
/* src/array/io/dlpack.c -- tensors to and from other libraries. What goes out holds a reference to its storage. It may
 * come back on any thread, so it is only put on a list there, which the context empties when it next asks for memory;
 * and it may come back after the context was destroyed, so what is out holds the context as well. */
#include "array/io/dlpack.h"
#include "array/array.h"
#include "array/eval/materialize.h"
#include <quern/dlpack.h>

#include <string.h>

/* ---- element types ---- */

typedef struct type_row {
    uint8_t code, bits, dtype;
} type_row;
/* clang-format off */
static const type_row types[] = {
    {QN_DL_FLOAT, 16, QN_DTYPE_F16}, {QN_DL_FLOAT, 32, QN_DTYPE_F32}, {QN_DL_FLOAT, 64, QN_DTYPE_F64},
    {QN_DL_BFLOAT, 16, QN_DTYPE_BF16},
    {QN_DL_INT, 8, QN_DTYPE_I8},     {QN_DL_INT, 16, QN_DTYPE_I16},   {QN_DL_INT, 32, QN_DTYPE_I32},
    {QN_DL_INT, 64, QN_DTYPE_I64},
    {QN_DL_UINT, 8, QN_DTYPE_U8},    {QN_DL_BOOL, 8, QN_DTYPE_BOOL},
};
/* clang-format on */
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- out ---- */

struct qn_export {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } u;
    int64_t shape[QN_MAX_RANK], strides[QN_MAX_RANK];
    qn_storage *storage;
    qn_export *next; /* among those that came back */
};

void qn__exports_collect(qn_context *ctx)
{
    if (atomic_load_explicit(&ctx->returned, memory_order_relaxed) == NULL) return;
    qn_export *x = atomic_exchange(&ctx->returned, NULL);
    while (x != NULL) {
        qn_export *next = x->next;
        qn__storage_unref(x->storage);
        qn__free(x);
        x = next;
    }
}

/* The owner is the collector until the context is destroyed; then whoever finds nobody at it. Ending a storage may
 * bring back another export, on this very thread, so the collector looks again when somebody came by in the meantime.
 */
void qn__exports_end(qn_context *ctx)
{
    int64_t seen;
    do {
        seen = atomic_load(&ctx->collecting);
        qn__exports_collect(ctx);
    } while (!atomic_compare_exchange_strong(&ctx->collecting, &seen, 0));
}

static void come_back(qn_export *x)
{
    qn_context *ctx = x->storage->ctx;
    x->next = atomic_load_explicit(&ctx->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&ctx->returned, &x->next, x)) continue;
    if (atomic_fetch_add(&ctx->collecting, 1) == 0) qn__exports_end(ctx);
    qn__context_let_go(ctx);
}

static void plain_deleter(struct DLManagedTensor *self) { come_back(self->manager_ctx); }
static void versioned_deleter(struct DLManagedTensorVersioned *self) { come_back(self->manager_ctx); }

static qn_dl_device device_of(const qn_tensor *t)
{
    const qn_backend *be = of(t)->ctx->backends[qn__place_of(t)];
    if (be->type->dl_type == 0) return (qn_dl_device){QN_DL_CPU, 0};
    return (qn_dl_device){be->type->dl_type, be->type->dl_index(be)};
}

/* Where element [0,0,..] lies, computed by now and not written any more; on a device as its backend's type names it. */
static bool find_memory(qn_tensor *t, void **data, uint64_t *from)
{
    qn_context *ctx = of(t)->ctx;
    const qn_backend *be = ctx->backends[qn__place_of(t)];
    if (be->type->dl_type == 0) return (*data = qn_data(t)) != NULL;
    qn_storage *s = of(t)->storage;
    if ((s->leaf != NULL || s->value != NULL) && qn__flush_for(ctx, s, false) != QN_OK) return false;
    if (qn_eval(t) != QN_OK || qn__backend_sync(s->memory->buffer->backend, qn__err(ctx)) != QN_OK) return false;
    *data = be->type->dl_memory(s->memory->buffer);
    *from = (uint64_t)of(t)->layout.offset * (uint64_t)qn_dtype_get(s->dtype)->block_bytes;
    if (!be->type->dl_is_address) return true;
    *data = (char *)*data + *from;
    *from = 0;
    return true;
}

static qn_export *export_of(qn_tensor *t, qn_dl_tensor *out)
{
    if (!LIVE(t)) return NULL;
    qn_context *ctx = of(t)->ctx;
    const qn_dtype dtype = of(t)->storage->dtype;
    int row = 0;
    while (row < N_TYPES && types[row].dtype != dtype) row++;
    if (row == N_TYPES || of(t)->grad_fn != NULL) {
        (void)QN_FAIL(qn__err(ctx), unsupported, "to_dlpack: %s",
                      row == N_TYPES ? "DLPack has no packed formats; convert the tensor first"
                                     : "the tensor requires a gradient; detach it first");
        return NULL;
    }
    void *data;
    uint64_t from = 0;
    if (!find_memory(t, &data, &from)) return NULL;
    qn_export *x = qn__calloc(1, sizeof *x);
    if (x == NULL) {
        (void)QN_FAIL_NOMEM(qn__err(ctx), sizeof *x);
        return NULL;
    }
    memcpy(x->shape, of(t)->layout.dim, sizeof x->shape);
    memcpy(x->strides, of(t)->layout.stride, sizeof x->strides);
    x->storage = qn__storage_ref(of(t)->storage);
    atomic_fetch_add_explicit(&ctx->holders, 1, memory_order_relaxed);
    *out = (qn_dl_tensor){.data = data,
                          .device = device_of(t),
                          .byte_offset = from,
                          .ndim = of(t)->layout.rank,
                          .dtype = {types[row].code, types[row].bits, 1},
                          .shape = x->shape,
                          .strides = x->strides};
    return x;
}

struct DLManagedTensor *qn_to_dlpack(qn_tensor *t)
{
    qn_dl_tensor tensor;
    if (LIVE(t) && qn__is_read_only(of(t)->storage)) { /* this form cannot say so */
        (void)QN_FAIL(qn__err(of(t)->ctx), unsupported,
                      "to_dlpack: the memory is read-only; use the versioned form, or clone the tensor");
        return NULL;
    }
    qn_export *x = export_of(t, &tensor);
    if (x == NULL) return NULL;
    x->u.plain = (struct DLManagedTensor){.dl_tensor = tensor, .manager_ctx = x, .deleter = plain_deleter};
    return &x->u.plain;
}

struct DLManagedTensorVersioned *qn_to_dlpack_versioned(qn_tensor *t)
{
    qn_dl_tensor tensor;
    qn_export *x = export_of(t, &tensor);
    if (x == NULL) return NULL;
    x->u.versioned = (struct DLManagedTensorVersioned){.version = {QN_DL_MAJOR, QN_DL_MINOR},
                                                       .manager_ctx = x,
                                                       .deleter = versioned_deleter,
                                                       .flags = qn__is_read_only(of(t)->storage) ? QN_DL_READ_ONLY : 0,
                                                       .dl_tensor = tensor};
    return &x->u.versioned;
}

/* ---- in ---- */

static bool find_type(const qn_dl_tensor *d, qn_dtype *out, qn_error *err)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (d->dtype.code != types[i].code || d->dtype.bits != types[i].bits || d->dtype.lanes != 1) continue;
        *out = (qn_dtype)types[i].dtype;
        return true;
    }
    (void)QN_FAIL(err, unsupported, "from_dlpack: elements of code %d, %d bits, %d lanes have no dtype here",
                  d->dtype.code, d->dtype.bits, d->dtype.lanes);
    return false;
}

static bool find_device(qn_context *ctx, const qn_dl_device *d, qn_wrapped *how)
{
    static const struct {
        int32_t type;
        const char *name;
    } kinds[] = {{2, "CUDA"}, {4, "OpenCL"}, {10, "ROCm"}};
    const char *kind = NULL;
    if (d->type == QN_DL_CPU || d->type == QN_DL_CUDA_HOST || d->type == QN_DL_ROCM_HOST) return true;
    for (int i = 0; i < ctx->n_backends; i++) {
        const qn_backend *be = ctx->backends[i];
        if (be->type->dl_type == 0 || be->type->dl_type != d->type || be->type->dl_index(be) != d->id) continue;
        how->on_device = true;
        how->place = i;
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].type == d->type) kind = kinds[i].name;
    }
    if (kind != NULL)
        (void)QN_FAIL(qn__err(ctx), unsupported,
                      "from_dlpack: the memory is that of %s device %d, which this context does not have", kind, d->id);
    else
        (void)QN_FAIL(qn__err(ctx), unsupported, "from_dlpack: memory of device type %d has no backend here", d->type);
    return false;
}

static qn_tensor *import(qn_context *ctx, const qn_dl_tensor *d, qn_wrapped how)
{
    qn_error *err = qn__err(ctx);
    qn_dtype dtype;
    qn_layout layout;
    qn_shape shape = {.rank = d->ndim};
    if (ctx == NULL || !find_device(ctx, &d->device, &how)) return NULL;
    if (d->ndim < 0 || d->ndim > QN_MAX_RANK || (d->ndim > 0 && d->shape == NULL)) {
        (void)QN_FAIL(err, invalid, "from_dlpack: rank %d%s, 0 to %d expected", d->ndim,
                      d->shape == NULL ? " without a shape" : "", QN_MAX_RANK);
        return NULL;
    }
    if (!find_type(d, &dtype, err)) return NULL;
    if (d->ndim > 0) memcpy(shape.dim, d->shape, (size_t)d->ndim * sizeof shape.dim[0]);
    if (qn_layout_contiguous(&shape, &layout, err) != QN_OK) return NULL;
    if (d->strides != NULL) memcpy(layout.stride, d->strides, (size_t)d->ndim * sizeof layout.stride[0]);
    how.data = d->data;
    how.from = how.on_device ? d->byte_offset : 0;
    if (!how.on_device && d->data != NULL) how.data = (void *)((uintptr_t)d->data + d->byte_offset);
    return qn__wrap(ctx, "from_dlpack", &layout, dtype, &how);
}

static void end_plain(void *arg)
{
    struct DLManagedTensor *m = arg;
    if (m->deleter != NULL) m->deleter(m);
}

static void end_versioned(void *arg)
{
    struct DLManagedTensorVersioned *m = arg;
    if (m->deleter != NULL) m->deleter(m);
}

qn_tensor *qn_from_dlpack(qn_context *ctx, struct DLManagedTensor *managed)
{
    if (managed == NULL) return NULL;
    return import(ctx, &managed->dl_tensor, (qn_wrapped){.deleter = end_plain, .arg = managed});
}

qn_tensor *qn_from_dlpack_versioned(qn_context *ctx, struct DLManagedTensorVersioned *managed)
{
    if (managed == NULL) return NULL;
    if (managed->version.major != QN_DL_MAJOR) { /* nothing after the version can be relied on */
        (void)QN_FAIL(qn__err(ctx), unsupported, "from_dlpack: version %u.%u, %d expected", managed->version.major,
                      managed->version.minor, QN_DL_MAJOR);
        return NULL;
    }
    return import(ctx, &managed->dl_tensor,
                  (qn_wrapped){.deleter = end_versioned,
                               .arg = managed,
                               .read_only = (managed->flags & QN_DL_READ_ONLY) != 0});
}
