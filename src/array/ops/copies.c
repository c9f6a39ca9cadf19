/* SPDX-License-Identifier: MIT */
/* src/array/ops/copies.c -- copies, conversions, and writes of whole values. */
#include "array/ops/apply.h"
#include "array/eval/materialize.h"

qn_tensor *qn_clone(qn_tensor *t)
{
    return LIVE(t) && qn__make_room(of(t)->ctx)
               ? qn__apply(QN_OP_copy, &(qn_copy_attrs){(int32_t)of(t)->storage->dtype}, &t, 1)
               : NULL;
}

/* The same tensor under another handle, gradient and all. */
qn_tensor *qn__again(qn_tensor *t)
{
    qn_tensor *v = qn__tape_fresh(t) ? qn__tensor_alias(t, &of(t)->layout) : NULL;
    if (v == NULL || of(t)->grad_fn == NULL) return v;
    qn__tape_share(v, t);
    return v;
}

qn_tensor *qn_contiguous(qn_tensor *t)
{
    return !LIVE(t) ? NULL : qn_layout_is_contiguous(&of(t)->layout) ? qn__again(t) : qn_clone(t);
}
qn_tensor *qn_to(qn_tensor *t, qn_dtype dtype)
{
    if (!LIVE(t)) return NULL;
    if (of(t)->storage->dtype == dtype) return qn__again(t);
    return qn__make_room(of(t)->ctx) ? qn__cast(t, dtype) : NULL;
}

bool qn__carry(qn_storage *to, qn_tensor *from)
{
    qn_buffer *buffer = to->memory->buffer;
    const int64_t bytes = qn__tensor_bytes(from);
    if (buffer->host != NULL || bytes == 0) return qn_to_host(from, buffer->host, (size_t)bytes) == QN_OK;
    void *copy = qn__alloc((size_t)bytes);
    bool good = copy != NULL;
    if (!good) (void)QN_FAIL_NOMEM(qn__err(of(from)->ctx), bytes);
    good = good && qn_to_host(from, copy, (size_t)bytes) == QN_OK;
    good = good && buffer->backend->type->upload(buffer, 0, copy, (uint64_t)bytes, qn__err(of(from)->ctx)) == QN_OK;
    qn__free(copy);
    return good;
}

qn_tensor *qn_to_context(qn_tensor *t, qn_context *ctx)
{
    if (!LIVE(t) || ctx == NULL) return NULL;
    if (of(t)->ctx == ctx) return qn__again(t);
    if (of(t)->grad_fn != NULL) {
        (void)QN_FAIL(qn__err(of(t)->ctx), unsupported,
                      "to_context: the tensor requires a gradient, which cannot cross contexts; detach it first");
        return NULL;
    }
    qn_tensor *copy = qn_empty(ctx, qn_shape_get(t), of(t)->storage->dtype);
    if (copy == NULL) *qn__err(of(t)->ctx) = *ctx->latest; /* who asked looks there */
    if (copy == NULL || qn__carry(of(copy)->storage, t)) return copy;
    qn_release(copy);
    return NULL;
}

qn_tensor *qn_copy_(qn_tensor *t, qn_tensor *src)
{
    qn_context *ctx = qn__one_context("copy_", (qn_tensor *[]){t, src}, 2);
    if (ctx == NULL || !qn__make_room(ctx)) return NULL;
    if (qn__place_of(src) != qn__place_of(t)) { /* as PyTorch: copy_ alone crosses by itself */
        qn_tensor *here = qn__to_place(src, qn__place_of(t)), *done = here != NULL ? qn_copy_(t, here) : NULL;
        qn_release(here);
        return done;
    }
    const qn_dtype to = of(t)->storage->dtype, from = of(src)->storage->dtype;
    if (to != from && qn_dtype_get(to)->class_ == QN_CLASS_block) {
        (void)QN_FAIL(qn__err(ctx), invalid, "copy_: %s cannot be stored in %s; qn_quantize makes a new tensor of it",
                      qn_dtype_get(from)->name, qn_dtype_get(to)->name);
        return NULL;
    }
    const qn_shape shape = qn_layout_shape(&of(t)->layout), have = qn_layout_shape(&of(src)->layout);
    qn_tensor *wide = qn_shape_equal(&shape, &have) ? src : qn_expand(src, shape);
    if (wide == NULL) {
        (void)qn__prefix(ctx->latest, ctx->latest->status, "copy_");
        return NULL;
    }
    const qn_copy_attrs attrs = {(int32_t)to};
    qn_tensor *done = qn__apply_into(t, true, QN_OP_copy, &attrs, &wide, 1);
    if (wide != src) qn_release(wide);
    return done;
}

qn_tensor *qn_fill_(qn_tensor *t, double value)
{
    if (!LIVE(t)) return NULL;
    if (qn_dtype_get(of(t)->storage->dtype)->class_ == QN_CLASS_block) {
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid,
                      "fill_: %s is a block format; qn_quantize makes a new tensor of real numbers",
                      qn_dtype_get(of(t)->storage->dtype)->name);
        return NULL;
    }
    if (!qn__number_check(of(t)->ctx, "fill_", value, of(t)->storage->dtype)) return NULL;
    qn_tensor *number = qn__scalar(of(t)->ctx, qn__place_of(t), value, of(t)->storage->dtype),
              *done = qn_copy_(t, number);
    qn_release(number);
    return done;
}

qn_tensor *qn_zero_(qn_tensor *t) { return qn_fill_(t, 0.0); }

qn_tensor *qn_become(qn_tensor *t, qn_tensor *from)
{
    if (qn__one_context("become", (qn_tensor *[]){t, from}, 2) == NULL) return NULL;
    if (t == from) return t;
    qn_storage *const old = of(t)->storage;
    if (of(t)->grad_fn != NULL) qn__auto_unref(of(t)->grad_fn);
    if (of(t)->frozen != NULL) qn__auto_unref(of(t)->frozen);
    of(t)->grad_fn = of(t)->frozen = NULL;
    of(t)->storage = qn__storage_ref(of(from)->storage);
    of(t)->storage->n_handles++;
    qn__storage_drop_handle(old);
    qn__storage_unref(old);
    of(t)->layout = of(from)->layout;
    of(t)->rebased = of(from)->rebased;
    of(t)->detached = of(from)->detached;
    of(t)->epoch = 0; /* the view recorded last was of the other storage */
    qn__tape_share(t, from);
    return t;
}
