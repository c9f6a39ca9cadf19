/* SPDX-License-Identifier: MIT */
/* src/graph/print/attrs_ops.h -- attributes of products, indexing, convolution and attention as text. Part of print.c,
 * which includes it once. */
#ifndef QN_GRAPH_PRINT_ATTRS_OPS_H
#define QN_GRAPH_PRINT_ATTRS_OPS_H

#include "graph/graph.h"

/* " stride=2,1" */
static void put_dims(qn_str *out, const char *name, const int64_t *dim, int n)
{
    qn__str_printf(out, " %s=", name);
    for (int i = 0; i < n; i++) qn__str_printf(out, i ? ",%lld" : "%lld", (long long)dim[i]);
}

static void print_qn_matmul_attrs(const void *attrs, qn_str *out)
{
    const qn_matmul_attrs *a = attrs;
    if (a->alpha != 1) qn__str_printf(out, " alpha=%.17g", a->alpha);
    if (a->beta != 0) qn__str_printf(out, " beta=%.17g", a->beta);
}

static void print_qn_index_attrs(const void *attrs, qn_str *out)
{
    const qn_index_attrs *a = attrs;
    qn__str_printf(out, " dim=%d", a->dim);
    if (a->mode != QN_COMBINE_set) qn__str_printf(out, " mode=%s", qn__combine_name(a->mode));
    if (a->strict != QN_STRICT_not) qn__str_puts(out, " strict");
}

static void print_qn_flat_attrs(const void *attrs, qn_str *out)
{
    const qn_flat_attrs *a = attrs;
    put_dims(out, "size", a->size, QN_MAX_SRC);
    if (a->from_start) qn__str_puts(out, " from_start");
    if (a->strict != QN_STRICT_not) qn__str_puts(out, " strict");
}

static void print_qn_empty_attrs(const void *attrs, qn_str *out)
{
    (void)attrs; /* the shape and the dtype are the result's */
    (void)out;
}

static void print_qn_strided_attrs(const void *attrs, qn_str *out)
{
    const qn_strided_attrs *a = attrs;
    put_dims(out, "strides", a->layout.stride, a->layout.rank);
    if (a->layout.offset != 0) qn__str_printf(out, " offset=%lld", (long long)a->layout.offset);
    if (a->mode != QN_COMBINE_set) qn__str_printf(out, " mode=%s", qn__combine_name(a->mode));
}

static void print_qn_tri_attrs(const void *attrs, qn_str *out)
{
    const qn_tri_attrs *a = attrs;
    qn__str_printf(out, " %s diagonal=%lld", a->upper ? "upper" : "lower", (long long)a->diagonal);
}

static void print_qn_sort_attrs(const void *attrs, qn_str *out)
{
    const qn_sort_attrs *a = attrs;
    qn__str_printf(out, " dim=%d%s", a->dim, a->descending ? " descending" : "");
    if (a->k > 0) qn__str_printf(out, " k=%lld", (long long)a->k);
}

static void print_qn_pad_attrs(const void *attrs, qn_str *out)
{
    const qn_pad_attrs *a = attrs;
    put_dims(out, "before", a->before, QN_MAX_RANK);
    put_dims(out, "after", a->after, QN_MAX_RANK);
    if (a->value != 0) qn__str_printf(out, " value=%.17g", a->value);
}

static void print_qn_pad_index_attrs(const void *attrs, qn_str *out)
{
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    const qn_pad_index_attrs *a = attrs;
    qn__str_printf(out, " n=%lld before=%lld after=%lld mode=%s", (long long)a->n, (long long)a->before,
                   (long long)a->after, (uint32_t)a->mode <= QN_PAD_circular ? modes[a->mode] : "?");
}

static void print_qn_random_attrs(const void *attrs, qn_str *out)
{
    static const char *const kinds[] = {"uniform", "normal", "integer", "bernoulli", "bits"};
    const qn_random_attrs *a = attrs;
    qn__str_printf(out, " kind=%s a=%.17g b=%.17g stream=%d",
                   (uint32_t)a->kind <= QN_RANDOM_bits ? kinds[a->kind] : "?", a->a, a->b, a->stream);
}

static void print_qn_conv_attrs(const void *attrs, qn_str *out)
{
    const qn_conv_attrs *a = attrs;
    put_dims(out, "stride", a->stride, a->n_spatial);
    put_dims(out, "padding", a->padding, a->n_spatial);
    put_dims(out, "dilation", a->dilation, a->n_spatial);
    if (a->groups != 1) qn__str_printf(out, " groups=%d", a->groups);
}

static void print_qn_pool_attrs(const void *attrs, qn_str *out)
{
    static const char *const kinds[] = {"max", "avg", "argmax"};
    const qn_pool_attrs *a = attrs;
    qn__str_printf(out, " kind=%s", (uint32_t)a->kind <= QN_POOL_argmax ? kinds[a->kind] : "?");
    if (a->adaptive) {
        qn__str_puts(out, " adaptive");
        return;
    }
    put_dims(out, "window", a->kernel, a->n_spatial);
    put_dims(out, "stride", a->stride, a->n_spatial);
    put_dims(out, "padding", a->padding, a->n_spatial);
}

static void print_qn_upsample_attrs(const void *attrs, qn_str *out)
{
    const qn_upsample_attrs *a = attrs;
    qn__str_printf(out, " mode=%s%s", a->mode == QN_UPSAMPLE_linear ? "linear" : "nearest",
                   a->align_corners ? " align_corners" : "");
    put_dims(out, "size", a->size, a->n_spatial);
}

static void print_qn_barrier_attrs(const void *attrs, qn_str *out)
{
    qn__str_printf(out, " serial=%d", (int)((const qn_barrier_attrs *)attrs)->serial);
}

static void print_qn_sum_squares_attrs(const void *attrs, qn_str *out)
{
    if (((const qn_sum_squares_attrs *)attrs)->carry) qn__str_puts(out, " carry");
}

static void print_qn_sgd_attrs(const void *attrs, qn_str *out)
{
    static const char *const names[QN_SGD_MODES] = {" mode=plain", " mode=buffered", " mode=nesterov"};
    const int32_t mode = ((const qn_sgd_attrs *)attrs)->mode;
    if ((uint32_t)mode < QN_SGD_MODES) qn__str_puts(out, names[mode]);
}

static void print_qn_bag_attrs(const void *attrs, qn_str *out)
{
    static const char *const modes[] = {"sum", "mean", "max"};
    const qn_bag_attrs *a = attrs;
    qn__str_printf(out, " mode=%s", (uint32_t)a->mode <= QN_BAG_max ? modes[a->mode] : "?");
    if (a->padding_idx >= 0) qn__str_printf(out, " padding_idx=%lld", (long long)a->padding_idx);
    if (a->strict != QN_STRICT_not) qn__str_puts(out, " strict");
}

static void print_qn_sdpa_attrs(const void *attrs, qn_str *out)
{
    const qn_sdpa_attrs *a = attrs;
    qn__str_printf(out, " scale=%.9g%s%s%s", a->scale, a->causal ? " causal" : "", a->has_mask ? " mask" : "",
                   a->has_sinks ? " sinks" : "");
    if (a->softcap != 0) qn__str_printf(out, " softcap=%.9g", a->softcap);
    if (a->window != 0) qn__str_printf(out, " window=%lld", (long long)a->window);
}

#endif
