/* SPDX-License-Identifier: MIT */
/* src/array/eval/materialize.c -- what a tensor is, and its values: whoever looks makes the pending graph run. */
#include "array/eval/materialize.h"

#include <math.h>
#include <string.h>

qn_context *qn_context_of(const qn_tensor *t) { return LIVE(t) ? of(t)->ctx : NULL; }
qn_dtype qn_dtype_of(const qn_tensor *t) { return LIVE(t) ? of(t)->storage->dtype : QN_DTYPE_COUNT; }
qn_shape qn_shape_get(const qn_tensor *t) { return LIVE(t) ? qn_layout_shape(&of(t)->layout) : (qn_shape){0}; }
qn_layout qn_layout_get(const qn_tensor *t) { return LIVE(t) ? of(t)->layout : (qn_layout){0}; }
int qn_rank(const qn_tensor *t) { return LIVE(t) ? of(t)->layout.rank : -1; }
int64_t qn_numel(const qn_tensor *t) { return LIVE(t) ? qn_layout_numel(&of(t)->layout) : -1; }
bool qn_is_contiguous(const qn_tensor *t) { return LIVE(t) && qn_layout_is_contiguous(&of(t)->layout); }
bool qn_shares_storage(const qn_tensor *a, const qn_tensor *b)
{
    return LIVE(a) && LIVE(b) && of(a)->storage == of(b)->storage;
}

int64_t qn_dim(const qn_tensor *t, int dim)
{
    if (!LIVE(t)) return -1;
    if (dim < 0) dim += of(t)->layout.rank;
    return dim >= 0 && dim < of(t)->layout.rank ? of(t)->layout.dim[dim] : -1;
}

qn_status qn_eval_all(qn_context *ctx) { return ctx != NULL ? qn__flush(ctx) : QN_STATUS_invalid; }

qn_status qn_eval(qn_tensor *t)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    if (of(t)->storage->value != NULL) QN_TRY(qn__flush_for(of(t)->ctx, of(t)->storage, false));
    if (!of(t)->storage->lost && of(t)->storage->memory != NULL) return QN_OK;
    return QN_FAIL(qn__err(of(t)->ctx), state, "the value of a tensor was lost when a run failed");
}

/* Pending readers and writers of the memory come first. */
void *qn_data(qn_tensor *t)
{
    if (!LIVE(t)) return NULL;
    if (of(t)->storage->leaf != NULL || of(t)->storage->value != NULL) {
        if (qn__flush_for(of(t)->ctx, of(t)->storage, false) != QN_OK) return NULL;
    }
    if (qn_eval(t) != QN_OK) return NULL;
    const qn_dtype_info *info = qn_dtype_get(of(t)->storage->dtype);
    char *host = of(t)->storage->memory->buffer->host;
    if (host != NULL) return host + of(t)->layout.offset / info->block_elems * info->block_bytes;
    (void)QN_FAIL(qn__err(of(t)->ctx), unsupported,
                  "data: the tensor lies on %s, whose memory the host cannot reach; qn_to_host copies its values, "
                  "qn_to_device moves it",
                  qn__place_name(of(t)->ctx, qn__place_of(t)));
    return NULL;
}

/* ---- elements ---- */

/* Walks the elements of a layout row by row: calls back with where a row begins. */
typedef struct walk {
    const qn_layout *l;
    int64_t index[QN_MAX_RANK], at, left;
} walk;

static walk walk_begin(const qn_layout *l)
{
    int64_t rows = qn_layout_numel(l);
    if (l->rank > 0 && rows > 0) rows /= l->dim[l->rank - 1];
    return (walk){.l = l, .at = l->offset, .left = rows};
}

static void walk_next(walk *w)
{
    w->left--;
    for (int d = w->l->rank - 2; d >= 0; d--) {
        w->at += w->l->stride[d];
        if (++w->index[d] < w->l->dim[d]) return;
        w->at -= w->l->stride[d] * w->l->dim[d];
        w->index[d] = 0;
    }
}

qn_status qn__host_of(qn_tensor *t, const char **host, void **copy)
{
    *copy = NULL;
    QN_TRY(qn_eval(t));
    const qn_buffer *buffer = of(t)->storage->memory->buffer;
    *host = buffer->host;
    if (*host != NULL) return QN_OK;
    const qn_dtype_info *info = qn_dtype_get(of(t)->storage->dtype);
    const uint64_t bytes = (uint64_t)(qn_layout_numel(&of(t)->storage->layout) / info->block_elems * info->block_bytes);
    *copy = qn__alloc((size_t)bytes + 1);
    *host = *copy;
    if (*copy == NULL) return QN_FAIL_NOMEM(qn__err(of(t)->ctx), bytes);
    const qn_status status = buffer->backend->type->download(buffer, 0, *copy, bytes, qn__err(of(t)->ctx));
    if (status != QN_OK) {
        qn__free(*copy);
        *copy = NULL;
    }
    return status;
}

static qn_status check_count(qn_tensor *t, int64_t n, int64_t want, const char *what)
{
    if (n == want) return QN_OK;
    return QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: room for %lld, there are %lld", what, (long long)n,
                   (long long)want);
}

static qn_status each_value(qn_tensor *t, double *doubles, int64_t *ints)
{
    const char *host;
    void *copy;
    const qn_dtype_info *info = qn_dtype_get(of(t)->storage->dtype);
    if (info->class_ == QN_CLASS_block) {
        return QN_FAIL(qn__err(of(t)->ctx), unsupported,
                       "elements of %s are not numbers of their own; qn_dequantize makes numbers of the tensor",
                       info->name);
    }
    QN_TRY(qn__host_of(t, &host, &copy));
    const qn_layout *l = &of(t)->layout;
    const int64_t n = l->rank > 0 ? l->dim[l->rank - 1] : 1, step = l->rank > 0 ? l->stride[l->rank - 1] : 0;
    int64_t at = 0;
    for (walk w = walk_begin(l); w.left > 0; walk_next(&w)) {
        for (int64_t i = 0; i < n; i++, at++) {
            int64_t whole;
            const double d = qn__element(of(t)->storage->dtype, host, w.at + i * step, &whole);
            if (doubles != NULL)
                doubles[at] = d;
            else
                ints[at] = whole;
        }
    }
    qn__free(copy);
    return QN_OK;
}

qn_status qn_to_doubles(qn_tensor *t, double *out, int64_t n)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    QN_TRY(check_count(t, n, qn_numel(t), "to_doubles"));
    if (n > 0 && !GIVEN(of(t)->ctx, out, "out")) return QN_STATUS_invalid;
    return n > 0 ? each_value(t, out, NULL) : QN_OK;
}

qn_status qn_to_ints(qn_tensor *t, int64_t *out, int64_t n)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    QN_TRY(check_count(t, n, qn_numel(t), "to_ints"));
    if (n > 0 && !GIVEN(of(t)->ctx, out, "out")) return QN_STATUS_invalid;
    return n > 0 ? each_value(t, NULL, out) : QN_OK;
}

static qn_status one(qn_tensor *t)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    if (qn_numel(t) == 1) return QN_OK;
    char text[192];
    const qn_shape shape = qn_shape_get(t);
    return QN_FAIL(qn__err(of(t)->ctx), invalid, "item: %s has %lld elements, one expected",
                   qn_shape_print(&shape, text, sizeof text), (long long)qn_numel(t));
}

double qn_item(qn_tensor *t)
{
    double d = NAN;
    return one(t) == QN_OK && each_value(t, &d, NULL) == QN_OK ? d : (double)NAN;
}

int64_t qn_item_int(qn_tensor *t)
{
    int64_t i = 0;
    return one(t) == QN_OK && each_value(t, NULL, &i) == QN_OK ? i : 0;
}

/* ---- whole values ---- */

int64_t qn__tensor_bytes(const qn_tensor *t)
{
    const qn_dtype_info *info = qn_dtype_get(of(t)->storage->dtype);
    return qn_numel(t) / info->block_elems * info->block_bytes;
}

qn_status qn_to_host(qn_tensor *t, void *out, size_t bytes)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    QN_TRY(check_count(t, (int64_t)bytes, qn__tensor_bytes(t), "to_host, in bytes"));
    if (bytes == 0) return qn_eval(t);
    if (!GIVEN(of(t)->ctx, out, "out")) return QN_STATUS_invalid;
    const qn_dtype_info *info = qn_dtype_get(of(t)->storage->dtype);
    const qn_layout *l = &of(t)->layout;
    if (qn_layout_is_contiguous(l)) {
        QN_TRY(qn_eval(t));
        const qn_buffer *buffer = of(t)->storage->memory->buffer;
        return buffer->backend->type->download(buffer, (uint64_t)(l->offset / info->block_elems * info->block_bytes),
                                               out, bytes, qn__err(of(t)->ctx));
    }
    const char *host;
    void *copy;
    char *to = out;
    QN_TRY(qn__host_of(t, &host, &copy));
    const size_t unit = (size_t)info->block_bytes;
    const int64_t n = l->dim[l->rank - 1] / info->block_elems;
    for (walk w = walk_begin(l); w.left > 0; walk_next(&w)) {
        for (int64_t i = 0; i < n; i++, to += unit) {
            const int64_t at = w.at + i * l->stride[l->rank - 1] * info->block_elems;
            memcpy(to, host + at / info->block_elems * info->block_bytes, unit);
        }
    }
    qn__free(copy);
    return QN_OK;
}

qn_status qn_set_data(qn_tensor *t, const void *data, size_t bytes)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    qn_context *ctx = of(t)->ctx;
    QN_TRY(check_count(t, (int64_t)bytes, qn__tensor_bytes(t), "set_data, in bytes"));
    if (bytes > 0 && !GIVEN(ctx, data, "data")) return QN_STATUS_invalid;
    if (!qn__tape_writable(t, "set_data", NULL, 0)) return qn__status(ctx);
    qn_tensor *src = qn__from_data_at(ctx, qn__place_of(t), data, qn_shape_get(t), of(t)->storage->dtype);
    const bool good = src != NULL && qn_copy_(t, src) != NULL;
    qn_release(src);
    return good ? QN_OK : qn__status(ctx);
}
