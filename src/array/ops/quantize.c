/* SPDX-License-Identifier: MIT */
/* src/array/ops/quantize.c -- packing to block formats, at once and with a search: what cannot be packed is said where
 * it stands. Unpacking is a conversion like others. */
#include "array/ops/apply.h"
#include "array/eval/materialize.h"
#include "base/thread.h"
#include <quern/autograd.h>

enum { PARALLEL = 1 << 16 }; /* elements from which threads are asked for: that may cost more than packing fewer */

typedef struct pack_job {
    qn_pool_user *pool;
    qn_dtype dtype;
    const float *src, *importance;
    char *dst;
    int64_t rows, k;
    _Atomic bool failed;
} pack_job;

static void pack_rows(void *ctx, int member, int n_members)
{
    pack_job *j = ctx;
    (void)member, (void)n_members;
    const int64_t bytes = qn_dtype_row_bytes(j->dtype, j->k);
    int64_t begin, end;
    while (qn__team_next(qn__pool_team(j->pool), j->rows, 1 + 4096 / j->k, &begin, &end)) {
        if (qn_pack(j->dtype, j->src + begin * j->k, j->dst + begin * bytes, end - begin, j->k, j->importance, NULL) !=
            QN_OK)
            j->failed = true;
    }
}

/* What a thread finds wrong is found again by one alone, which counts rows from the first. */
static qn_status pack(pack_job *j, qn_error *err)
{
    if (j->rows * j->k >= PARALLEL && j->rows > 1 && qn__pool_join(0, &j->pool, NULL) == QN_OK) {
        qn__pool_run(j->pool, pack_rows, j);
        qn__pool_leave(j->pool);
        if (!j->failed) return QN_OK;
    }
    return qn_pack(j->dtype, j->src, j->dst, j->rows, j->k, j->importance, err);
}

static bool may_quantize(const qn_tensor *t, qn_dtype dtype, const qn_tensor *importance)
{
    qn_error *err = qn__err(of(t)->ctx);
    const qn_dtype_info *to = qn_dtype_get(dtype);
    const int64_t k = of(t)->layout.rank > 0 ? of(t)->layout.dim[of(t)->layout.rank - 1] : 1;
    if (to->class_ != QN_CLASS_block)
        (void)QN_FAIL(err, invalid, "quantize: %s is no block format; qn_to converts to it", to->name);
    else if (!qn_dtype_can_pack(dtype))
        (void)QN_FAIL(err, unsupported, "quantize: %s can be read but not written", to->name);
    else if (!qn__is_real(of(t)->storage->dtype))
        (void)QN_FAIL(err, invalid, "quantize: %s of %s to %s: a real tensor expected%s", QN_TEXT_OF(t),
                      qn_dtype_get(of(t)->storage->dtype)->name, to->name,
                      qn_dtype_get(of(t)->storage->dtype)->class_ == QN_CLASS_block ? "; qn_dequantize makes one" : "");
    else if (of(t)->layout.rank < 1 || k % to->block_elems != 0)
        (void)QN_FAIL(err, invalid, "quantize: %s to %s: a last dimension that is a multiple of %d expected",
                      QN_TEXT_OF(t), to->name, to->block_elems);
    else if (importance != NULL && (of(importance)->layout.rank != 1 || of(importance)->layout.dim[0] != k ||
                                    !qn__is_real(of(importance)->storage->dtype)))
        (void)QN_FAIL(err, invalid, "quantize: importance %s of %s for %s: one real number a column expected, [%lld]",
                      QN_TEXT_OF(importance), qn_dtype_get(of(importance)->storage->dtype)->name, QN_TEXT_OF(t),
                      (long long)k);
    else
        return true;
    return false;
}

/* t as dense floats of the host, in t's order; *copy is freed and *held released after use. */
static const float *dense_floats(qn_tensor *t, qn_tensor **held, void **copy)
{
    const char *host;
    qn_tensor *f = qn_to(t, QN_DTYPE_F32);
    *copy = NULL;
    *held = f != NULL ? qn_contiguous(f) : NULL;
    qn_release(f);
    if (*held == NULL || qn__host_of(*held, &host, copy) != QN_OK) return NULL;
    return (const float *)(const void *)host + of(*held)->layout.offset;
}

/* The storage's memory filled with packed rows. */
static bool fill(qn_storage *s, qn_tensor *t, qn_tensor *importance)
{
    qn_context *ctx = s->ctx;
    qn_buffer *buffer = s->memory->buffer;
    qn_tensor *held[2] = {0};
    void *copy[2] = {0};
    const size_t bytes = (size_t)(qn_layout_numel(&s->layout) / qn_dtype_get(s->dtype)->block_elems *
                                  qn_dtype_get(s->dtype)->block_bytes);
    char *packed = buffer->host != NULL ? NULL : qn__alloc(bytes);
    pack_job j = {.dtype = s->dtype,
                  .dst = packed != NULL ? packed : buffer->host,
                  .k = s->layout.dim[s->layout.rank - 1]};
    j.rows = j.k > 0 ? qn_layout_numel(&s->layout) / j.k : 0;
    j.src = dense_floats(t, &held[0], &copy[0]);
    bool good = j.src != NULL;
    if (good && importance != NULL) good = (j.importance = dense_floats(importance, &held[1], &copy[1])) != NULL;
    if (good && j.dst == NULL) good = false, (void)QN_FAIL_NOMEM(qn__err(ctx), bytes);
    if (good && j.rows > 0) {
        qn_error *err = qn__err(ctx);
        good = pack(&j, err) == QN_OK || (qn__prefix(err, err->status, "quantize"), false);
    }
    if (good && packed != NULL) good = qn__storage_fill(s, packed, bytes);
    for (int i = 0; i < 2; i++) {
        qn__free(copy[i]);
        qn_release(held[i]);
    }
    qn__free(packed);
    return good;
}

qn_tensor *qn_quantize(qn_tensor *t, qn_dtype dtype, qn_tensor *importance)
{
    if (!LIVE(t)) return NULL;
    if (importance != NULL && qn__same_context("quantize", (qn_tensor *[]){t, importance}, 2) == NULL) return NULL;
    if (!may_quantize(t, dtype, importance)) return NULL;
    const qn_shape shape = qn_shape_get(t);
    const bool graded = qn_set_grad_enabled(of(t)->ctx, false); /* the search has no gradient */
    qn_storage *s = qn__storage_new_resident(of(t)->ctx, qn__place_of(t), dtype, &shape);
    if (s != NULL && !fill(s, t, importance)) {
        qn__storage_unref(s);
        s = NULL;
    }
    (void)qn_set_grad_enabled(of(t)->ctx, graded);
    return s != NULL ? qn__tensor_new(of(t)->ctx, s, &s->layout) : NULL;
}

qn_tensor *qn_dequantize(qn_tensor *t) { return qn_to(t, QN_DTYPE_F32); }
