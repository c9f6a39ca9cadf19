/* SPDX-License-Identifier: MIT */
/* src/array/ops/embedding_bag.c -- bags of embeddings on handles. */
#include "array/ops/apply.h"

#include <string.h>

static bool find_mode(qn_context *ctx, const char *mode, int32_t *out)
{
    static const char *const names[] = {[QN_BAG_sum] = "sum", [QN_BAG_mean] = "mean", [QN_BAG_max] = "max"};
    *out = QN_BAG_mean;
    if (mode == NULL) return true;
    for (int32_t i = 0; i <= QN_BAG_max; i++) {
        if (strcmp(mode, names[i]) != 0) continue;
        *out = i;
        return true;
    }
    (void)QN_FAIL(qn__err(ctx), invalid, "embedding_bag: mode \"%.20s\", sum, mean or max expected", mode);
    return false;
}

static bool check(qn_tensor *table, qn_tensor *indices, const qn_embedding_bag_options *o, qn_bag_attrs *attrs)
{
    qn_context *ctx = of(table)->ctx;
    qn_error *err = qn__err(ctx);
    if (!find_mode(ctx, o->mode, &attrs->mode)) return false;
    if (of(table)->layout.rank != 2) {
        return (void)QN_FAIL(err, invalid, "embedding_bag: the table is %s, a matrix expected", QN_TEXT_OF(table)),
               false;
    }
    const int rank = of(indices)->layout.rank;
    if (rank != (o->offsets != NULL ? 1 : 2)) {
        return (void)QN_FAIL(err, invalid, "embedding_bag: indices %s %s offsets, %s expected", QN_TEXT_OF(indices),
                             o->offsets != NULL ? "with" : "without", o->offsets != NULL ? "a vector" : "a matrix"),
               false;
    }
    const qn_shape shape = qn_shape_get(indices), weights = o->weights != NULL ? qn_shape_get(o->weights) : shape;
    if (!qn_shape_equal(&shape, &weights)) {
        return (void)QN_FAIL(err, invalid, "embedding_bag: weights %s for indices %s", QN_TEXT_OF(o->weights),
                             QN_TEXT_OF(indices)),
               false;
    }
    if (o->include_last_offset && o->offsets == NULL) {
        return (void)QN_FAIL(err, invalid, "embedding_bag: include_last_offset without offsets"), false;
    }
    const int64_t rows = of(table)->layout.dim[0];
    attrs->padding_idx = -1;
    if (!o->has_padding_idx) return true;
    if (o->padding_idx < -rows || o->padding_idx >= rows) {
        return (void)QN_FAIL(err, invalid, "embedding_bag: padding_idx %lld for a table %s", (long long)o->padding_idx,
                             QN_TEXT_OF(table)),
               false;
    }
    attrs->padding_idx = o->padding_idx < 0 ? o->padding_idx + rows : o->padding_idx;
    return true;
}

/* The rows of a matrix as bags one after the other. */
static qn_tensor *even_offsets(const qn_tensor *indices)
{
    const int64_t bags = of(indices)->layout.dim[0], n = of(indices)->layout.dim[1];
    const int32_t was = qn__place_swap(of(indices)->ctx, qn__place_of(indices));
    qn_tensor *numbers = qn_arange(of(indices)->ctx, 0, (double)bags, 1, QN_DTYPE_I64);
    qn__place_swap(of(indices)->ctx, was);
    qn_tensor *at = qn_mul_number(numbers, (double)n);
    qn_release(numbers);
    return at;
}

qn_tensor *qn_embedding_bag(qn_tensor *table, qn_tensor *indices, const qn_embedding_bag_options *options)
{
    static const qn_embedding_bag_options defaults;
    const qn_embedding_bag_options *o = options != NULL ? options : &defaults;
    qn_tensor *given[4] = {table, indices};
    int n = 2;
    if (o->offsets != NULL) given[n++] = o->offsets;
    if (o->weights != NULL) given[n++] = o->weights;
    qn_bag_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    if (qn__same_context("embedding_bag", given, n) == NULL || !check(table, indices, o, &attrs)) return NULL;
    attrs.include_last = o->include_last_offset;
    attrs.strict = QN_STRICT_embedding_bag;

    const qn_shape flat = qn_shape_of(qn_numel(indices));
    qn_tensor *ids = qn_reshape(indices, flat), *weights = o->weights != NULL ? qn_reshape(o->weights, flat) : NULL;
    qn_tensor *offsets = o->offsets != NULL ? qn_retain(o->offsets) : even_offsets(indices);
    qn_tensor *y = NULL;
    if (ids != NULL && offsets != NULL && (weights != NULL || o->weights == NULL)) {
        y = qn__plain(QN_OP_embedding_bag, &attrs, (qn_target){0}, (qn_tensor *[]){table, ids, offsets, weights},
                      weights != NULL ? 4 : 3);
    }
    qn_release(ids);
    qn_release(weights);
    qn_release(offsets);
    return y;
}
