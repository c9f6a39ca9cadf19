/* SPDX-License-Identifier: MIT */
/* src/graph/print/attrs_layers.h -- attributes of layers and losses as text. Part of print.c, which includes it once.
 */
#ifndef QN_GRAPH_PRINT_ATTRS_LAYERS_H
#define QN_GRAPH_PRINT_ATTRS_LAYERS_H

#include "graph/graph.h"

static void print_qn_layer_norm_attrs(const void *attrs, qn_str *out)
{
    qn__str_printf(out, " eps=%g", ((const qn_layer_norm_attrs *)attrs)->eps);
}

static void print_qn_norm_back_attrs(const void *attrs, qn_str *out)
{
    const qn_norm_back_attrs *a = attrs;
    qn__str_printf(out, " of=%s eps=%g wanted=%s%s%s", a->centred ? "layer_norm" : "rms_norm", a->eps,
                   a->wanted & QN_NORM_x ? "x" : "", a->wanted & QN_NORM_w ? "w" : "",
                   a->wanted & QN_NORM_b ? "b" : "");
}

static void print_qn_rope_table_attrs(const void *attrs, qn_str *out)
{
    print_qn_rope_attrs(&((const qn_rope_table_attrs *)attrs)->rope, out);
}

static void print_qn_softmax_back_attrs(const void *attrs, qn_str *out)
{
    qn__str_puts(out, ((const qn_softmax_back_attrs *)attrs)->log ? " of=log_softmax" : " of=softmax");
}

static void print_qn_rope_apply_attrs(const void *attrs, qn_str *out)
{
    const qn_rope_apply_attrs *a = attrs;
    qn__str_printf(out, " mode=%s n_rot=%d%s%s", a->mode == QN_ROPE_NEOX ? "neox" : "norm", a->n_rot,
                   a->heads_first ? " heads_first" : "", a->back ? " back" : "");
}

static void print_qn_cross_entropy_attrs(const void *attrs, qn_str *out)
{
    static const char *const reductions[] = {"mean", "sum", "none"};
    const qn_cross_entropy_attrs *a = attrs;
    qn__str_printf(out, " reduction=%s ignore=%lld",
                   (uint32_t)a->reduction <= QN_LOSSES_none ? reductions[a->reduction] : "?", (long long)a->ignore);
    if (a->smoothing != 0) qn__str_printf(out, " smoothing=%g", a->smoothing);
}

#endif
