/* SPDX-License-Identifier: MIT */
/* src/gpu/op/attention.c -- attention over listed cells: one kernel where K and V hold 16 bits or less, another where
 * one of them holds floats. */
#include "gpu/gpu.h"

#include "gpu/kernels/sizes.h"

static bool in_rows(const qn_node *n, const char *what, const qn_node *x, qn_error *err)
{
    const qn_layout *l = &x->layout;
    if (l->rank == 3 && (l->dim[2] <= 1 || l->stride[2] == 1)) return true;
    QN_FAIL(err, unsupported, "attention: the rows of %s are not dense", what);
    (void)n;
    return false;
}

static bool accepts(const qn_node *n, qn_error *err)
{
    const qn_attn_attrs *a = n->attrs;
    if (a->alibi != 0 && n->src[0]->layout.dim[1] > QN_GPU_MAX_SLOPES) {
        QN_FAIL(err, unsupported, "attention: no kernel has ALiBi with %lld heads",
                (long long)n->src[0]->layout.dim[1]);
        return false;
    }
    return qn__gpu_want_dtype(n, "q", n->src[0], QN_DTYPE_F32, err) && in_rows(n, "q", n->src[0], err) &&
           qn__gpu_want_format(n, "k", n->src[1], err) && in_rows(n, "k", n->src[1], err) &&
           qn__gpu_want_format(n, "v", n->src[2], err) && in_rows(n, "v", n->src[2], err) &&
           qn__gpu_want_dtype(n, "the lists", n->src[3], QN_DTYPE_I32, err) &&
           qn__gpu_want_dtype(n, "the spans", n->src[4], QN_DTYPE_I32, err) &&
           (n->n_src < 6 || qn__gpu_want_dtype(n, "the sinks", n->src[5], QN_DTYPE_F32, err));
}

enum { SLICE = 256 }; /* values of a group */

static int64_t bytes_of(const qn_node *x, int64_t elems)
{
    const qn_dtype_info *d = qn_dtype_get(x->dtype);
    return elems / d->block_elems * d->block_bytes;
}

static void launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_attn_attrs *a = n->attrs;
    const qn_node *q = n->src[0], *k = n->src[1], *v = n->src[2], *lists = n->src[3], *spans = n->src[4],
                  *sinks = n->n_src > 5 ? n->src[5] : q;
    const qn_layout *ql = &q->layout, *kl = &k->layout, *vl = &v->layout;
    const bool floats = k->dtype == QN_DTYPE_F32 || v->dtype == QN_DTYPE_F32;
    qn_attention_sizes s = {.n_query = (int32_t)ql->dim[0],
                            .n_head = (int32_t)ql->dim[1],
                            .n_kv = (int32_t)kl->dim[1],
                            .d = (int32_t)ql->dim[2],
                            .dv = (int32_t)vl->dim[2],
                            .n_lists = (int32_t)lists->layout.dim[0] / (a->alibi != 0 ? 2 : 1),
                            .capacity = (int32_t)lists->layout.dim[1],
                            .n_cells = (int32_t)kl->dim[0],
                            .q_query = (int32_t)ql->stride[0],
                            .q_head = (int32_t)ql->stride[1],
                            .k_head = (int32_t)bytes_of(k, kl->stride[1]),
                            .v_head = (int32_t)bytes_of(v, vl->stride[1]),
                            .list_row = (int32_t)lists->layout.stride[0],
                            .list_entry = (int32_t)lists->layout.stride[1],
                            .k_cell = bytes_of(k, kl->stride[0]),
                            .v_cell = bytes_of(v, vl->stride[0]),
                            .span_row = (int32_t)spans->layout.stride[0],
                            .span_entry = (int32_t)spans->layout.stride[1],
                            .sink_stride = a->has_sinks ? (int32_t)sinks->layout.stride[0] : -1,
                            .scale = a->scale,
                            .softcap = a->softcap,
                            .has_slopes = a->alibi != 0};
    for (int32_t h = 0; h < s.n_head && s.has_slopes; h++) s.slope[h] = qn__alibi_slope(a->alibi, s.n_head, h);
    if (!qn__gpu_format(k->dtype, &s.k_format) || !qn__gpu_format(v->dtype, &s.v_format) || s.n_kv == 0) return;
    const int64_t groups = (int64_t)s.n_query * s.n_head * ((s.dv + SLICE - 1) / SLICE);
    QN_GPU_LAUNCH(b, floats ? QN_GPU_attention_float : QN_GPU_attention_int, groups, s, QN_GPU_OF(n), QN_GPU_OF(q),
                  QN_GPU_OF(k), QN_GPU_OF(v), QN_GPU_OF(lists), QN_GPU_OF(spans), QN_GPU_OF(sinks));
}

const qn_gpu_op qn__gpu_op_attention = {accepts, NULL, launch};
