/* SPDX-License-Identifier: MIT */
/* src/gpu/op/layers.c -- norms, rotations, and rows by number. */
#include "gpu/gpu.h"
#include "quant/quant.h"

#include <string.h>

static int64_t bytes_of(qn_dtype dtype, int64_t elems)
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    return elems / d->block_elems * d->block_bytes;
}

/* ---- norms ---- */

static bool norm_accepts(const qn_node *n, qn_error *err)
{
    if (!qn__gpu_want_dtype(n, "the result", n, QN_DTYPE_F32, err) || !qn__gpu_want_rows(n, "x", n->src[0], err))
        return false;
    for (int i = 1; i < n->n_src; i++)
        if (!qn__gpu_want_dtype(n, "the weight", n->src[i], QN_DTYPE_F32, err) ||
            !qn__gpu_want_dense(n, "the weight", n->src[i], err))
            return false;
    return true;
}

static int64_t norm_sizes(const qn_node *n, float eps, qn_norm_sizes *s)
{
    const qn_layout *l = &n->layout;
    int64_t rows = 0;
    *s = (qn_norm_sizes){.n = l->rank ? l->dim[l->rank - 1] : 1,
                         .eps = eps,
                         .has_weight = n->n_src > 1,
                         .has_bias = n->n_src > 2};
    return s->n > 0 && qn__gpu_rows_at(&n->src[0]->layout, &s->x, &rows) ? rows : 0;
}

void qn__gpu_norms(qn_gpu_builder *b, const qn_node *const *norm, int count, const qn_node *first)
{
    qn_rms_sizes s = {.n_jobs = count, .block = first ? qn__gpu_column_block(first) : 0};
    QN_ASSERT(count == 1 || s.block == 0);
    const qn_node *n[QN_GPU_MAX_JOBS];
    int64_t groups = 0;
    for (int i = 0; i < QN_GPU_MAX_JOBS; i++) {
        qn_norm_sizes one;
        n[i] = norm[i < count ? i : 0];
        if (i >= count) continue;
        s.groups[i] = norm_sizes(n[i], (float)((const qn_norm_attrs *)n[i]->attrs)->eps, &one);
        groups += s.groups[i];
        s.n[i] = one.n;
        s.x[i] = one.x;
        s.eps[i] = one.eps;
        s.has_weight[i] = one.has_weight;
    }
    const qn_gpu_value q = s.block ? (qn_gpu_value)QN_GPU_SCRATCH(0) : (qn_gpu_value)QN_GPU_OF(n[0]);
    QN_GPU_LAUNCH(b, QN_GPU_rms_norm, groups, s, QN_GPU_OF(n[0]), QN_GPU_OF(n[0]->src[0]),
                  QN_GPU_OF(n[0]->src[n[0]->n_src - 1]), q, QN_GPU_OF(n[1]), QN_GPU_OF(n[1]->src[0]),
                  QN_GPU_OF(n[1]->src[n[1]->n_src - 1]), QN_GPU_OF(n[2]), QN_GPU_OF(n[2]->src[0]),
                  QN_GPU_OF(n[2]->src[n[2]->n_src - 1]));
}

void qn__gpu_norm_sum(qn_gpu_builder *b, const qn_node *norm, const qn_node *sum, const qn_node *next,
                      const qn_node *first)
{
    const qn_node *other = sum->src[0] == norm ? sum->src[1] : sum->src[0], *last = next ? next : norm;
    qn_norm_sizes one;
    const int64_t groups = norm_sizes(norm, (float)((const qn_norm_attrs *)norm->attrs)->eps, &one);
    const qn_norm_sum_sizes s = {.n = one.n,
                                 .x = one.x,
                                 .eps = {one.eps, (float)((const qn_norm_attrs *)last->attrs)->eps},
                                 .has_weight = {one.has_weight, last->n_src > 1},
                                 .has_next = next != NULL,
                                 .block = first ? qn__gpu_column_block(first) : 0};
    const qn_gpu_value q = s.block ? (qn_gpu_value)QN_GPU_SCRATCH(0) : (qn_gpu_value)QN_GPU_OF(norm);
    QN_GPU_LAUNCH(b, QN_GPU_norm_sum, groups, s, QN_GPU_OF(norm), QN_GPU_OF(norm->src[0]),
                  QN_GPU_OF(norm->src[norm->n_src - 1]), QN_GPU_OF(sum), QN_GPU_OF(other), QN_GPU_OF(last),
                  QN_GPU_OF(last->src[last->n_src - 1]), q);
}

static void rms_norm_launch(qn_gpu_builder *b, const qn_node *n) { qn__gpu_norms(b, &n, 1, NULL); }

static void layer_norm_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_norm_sizes s;
    const int64_t rows = norm_sizes(n, (float)((const qn_layer_norm_attrs *)n->attrs)->eps, &s);
    QN_GPU_LAUNCH(b, QN_GPU_layer_norm, rows, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]),
                  QN_GPU_OF(n->src[n->n_src > 1 ? 1 : 0]), QN_GPU_OF(n->src[n->n_src - 1]));
}

const qn_gpu_op qn__gpu_op_rms_norm = {norm_accepts, NULL, rms_norm_launch};
const qn_gpu_op qn__gpu_op_layer_norm = {norm_accepts, NULL, layer_norm_launch};

/* ---- rotations ---- */

static bool rope_apply_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_dtype(n, "x", n->src[0], QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", n->src[0], err) &&
           qn__gpu_want_rows(n, "the table", n->src[1], err);
}

bool qn__gpu_turns_alike(const qn_node *a, const qn_node *b)
{
    return a->src[1] == b->src[1] && a->layout.rank == b->layout.rank &&
           a->layout.dim[a->layout.rank - 1] == b->layout.dim[b->layout.rank - 1] &&
           memcmp(a->attrs, b->attrs, sizeof(qn_rope_apply_attrs)) == 0 &&
           !((const qn_rope_apply_attrs *)a->attrs)->heads_first;
}

/* Groups in all; 0: there is nothing to compute. */
static int64_t set_turns(qn_rope_sizes *s, const qn_node *const *turn, int count)
{
    const qn_rope_apply_attrs *a = turn[0]->attrs;
    const qn_layout *l = &turn[0]->layout;
    int64_t groups = 0;
    *s = (qn_rope_sizes){.d = l->dim[l->rank - 1],
                         .n_rot = a->n_rot,
                         .tokens = a->heads_first ? l->dim[l->rank - 2] : 1,
                         .n_jobs = count,
                         .heads_first = a->heads_first,
                         .neox = a->mode == QN_ROPE_NEOX,
                         .back = a->back};
    if (!qn__gpu_rows_at(&turn[0]->src[1]->layout, &s->table, &s->n_table) || s->n_table <= 0) return 0;
    for (int i = 0; i < count; i++) {
        l = &turn[i]->layout;
        s->heads[i] = a->heads_first ? l->dim[l->rank - 3] : l->dim[l->rank - 2];
        if (!qn__gpu_rows_at(&turn[i]->src[0]->layout, &s->x[i], &s->groups[i])) return 0;
        groups += s->groups[i];
    }
    return groups;
}

void qn__gpu_turns(qn_gpu_builder *b, const qn_node *const *turn, int count)
{
    const qn_node *n[QN_GPU_MAX_JOBS];
    qn_rope_sizes s;
    const int64_t groups = set_turns(&s, turn, count);
    for (int i = 0; i < QN_GPU_MAX_JOBS; i++) n[i] = turn[i < count ? i : 0];
    QN_GPU_LAUNCH(b, QN_GPU_rope_apply, groups, s, QN_GPU_OF(n[0]), QN_GPU_OF(n[0]->src[0]), QN_GPU_OF(n[0]->src[1]),
                  QN_GPU_OF(n[1]), QN_GPU_OF(n[1]->src[0]), QN_GPU_OF(n[2]), QN_GPU_OF(n[2]->src[0]));
}

static void rope_apply_launch(qn_gpu_builder *b, const qn_node *n) { qn__gpu_turns(b, &n, 1); }

const qn_gpu_op qn__gpu_op_rope_apply = {rope_apply_accepts, NULL, rope_apply_launch};

/* ---- rows by number ---- */

/* Of a table [n, m], from one row to the next. */
static int64_t row_bytes(const qn_node *table)
{
    return bytes_of(table->dtype, table->layout.dim[0] > 1 ? table->layout.stride[0] : table->layout.dim[1]);
}

static bool get_rows_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_format(n, "the table", n->src[0], err) && qn__gpu_want_rows(n, "the table", n->src[0], err) &&
           qn__gpu_want_ids(n, "the ids", n->src[1], err);
}

static void get_rows_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *table = n->src[0], *ids = n->src[1];
    qn_get_rows_sizes s = {.m = table->layout.dim[1], .n_rows = table->layout.dim[0], .table_bytes = row_bytes(table)};
    if (qn__gpu_format(table->dtype, &s.format) && qn__gpu_format(ids->dtype, &s.id_format) &&
        qn__gpu_ids_at(&ids->layout, &s.ids))
        QN_GPU_LAUNCH(b, QN_GPU_get_rows, qn_layout_numel(&ids->layout), s, QN_GPU_OF(n), QN_GPU_OF(table),
                      QN_GPU_OF(ids));
}

const qn_gpu_op qn__gpu_op_get_rows = {get_rows_accepts, NULL, get_rows_launch};

static bool set_rows_accepts(const qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0], *x = n->src[1];
    const bool numbers = dst->dtype == QN_DTYPE_I32; /* four bytes each, as they are */
    if (!numbers && (!qn__quant_get(dst->dtype)->packs_fast || dst->dtype == QN_DTYPE_F64)) {
        QN_FAIL(err, unsupported, "set_rows: no kernel writes %s", qn_dtype_get(dst->dtype)->name);
        return false;
    }
    return qn__gpu_want_rows(n, "the destination", dst, err) &&
           qn__gpu_want_dtype(n, "x", x, numbers ? QN_DTYPE_I32 : QN_DTYPE_F32, err) &&
           qn__gpu_want_rows(n, "x", x, err) && qn__gpu_want_ids(n, "the row numbers", n->src[2], err);
}

static bool set_write(qn_set_rows_sizes *s, int i, const qn_node *n)
{
    const qn_node *dst = n->src[0], *x = n->src[1], *ids = n->src[2];
    const qn_dtype_info *d = qn_dtype_get(dst->dtype);
    s->m[i] = dst->layout.dim[1];
    s->n_rows[i] = dst->layout.dim[0];
    s->dst_bytes[i] = row_bytes(dst);
    s->block_bytes[i] = d->block_elems > 1 ? d->block_bytes : 0;
    return qn__gpu_format(dst->dtype == QN_DTYPE_I32 ? QN_DTYPE_F32 : dst->dtype, &s->format[i]) &&
           qn__gpu_format(ids->dtype, &s->id_format[i]) && qn__gpu_rows_at(&x->layout, &s->x[i], &s->n[i]) &&
           qn__gpu_ids_at(&ids->layout, &s->ids[i]);
}

void qn__gpu_writes(qn_gpu_builder *b, const qn_node *const *write, int count)
{
    qn_set_rows_sizes s = {.n_jobs = count};
    const qn_node *n[QN_GPU_MAX_JOBS];
    int64_t groups = 0;
    for (int i = 0; i < QN_GPU_MAX_JOBS; i++) {
        n[i] = write[i < count ? i : 0];
        if (i >= count) continue;
        if (!set_write(&s, i, n[i])) return;
        s.groups[i] = s.n[i];
        groups += s.n[i];
    }
    QN_GPU_LAUNCH(b, QN_GPU_set_rows, groups, s, QN_GPU_OF(n[0]->src[0]), QN_GPU_OF(n[0]->src[1]),
                  QN_GPU_OF(n[0]->src[2]), QN_GPU_OF(n[1]->src[0]), QN_GPU_OF(n[1]->src[1]), QN_GPU_OF(n[1]->src[2]),
                  QN_GPU_OF(n[2]->src[0]), QN_GPU_OF(n[2]->src[1]), QN_GPU_OF(n[2]->src[2]));
}

/* Keys go from where they are rotated to their cache. */
bool qn__gpu_turns_to_write(const qn_node *const *turn, const qn_node *const *write)
{
    const qn_node *x = write[0]->src[1], *k = turn[1];
    const qn_layout *l = &x->layout;
    return x->root == k && x->dtype == QN_DTYPE_F32 && l->offset == 0 && l->rank == 2 && k->layout.rank == 3 &&
           qn_layout_is_contiguous(l) && l->dim[0] == k->layout.dim[0] && turn[0]->layout.rank == 3 &&
           qn_layout_numel(l) == qn_layout_numel(&k->layout) && qn_layout_numel(l) > 0;
}

void qn__gpu_turn_write(qn_gpu_builder *b, const qn_node *const *turn, const qn_node *const *write)
{
    qn_turn_write_sizes s = {.write = {.n_jobs = 2}};
    const qn_node *q = turn[0], *k = turn[1];
    if (set_turns(&s.turn, turn, 2) == 0 || !set_write(&s.write, 0, write[0]) || !set_write(&s.write, 1, write[1]))
        return;
    QN_GPU_LAUNCH(b, QN_GPU_turn_write, s.turn.groups[0] + s.write.n[0] + s.write.n[1], s, QN_GPU_OF(q),
                  QN_GPU_OF(q->src[0]), QN_GPU_OF(q->src[1]), QN_GPU_OF(k), QN_GPU_OF(k->src[0]),
                  QN_GPU_OF(write[0]->src[0]), QN_GPU_OF(write[0]->src[2]), QN_GPU_OF(write[1]->src[1]),
                  QN_GPU_OF(write[1]->src[0]), QN_GPU_OF(write[1]->src[2]));
}

static void set_rows_launch(qn_gpu_builder *b, const qn_node *n) { qn__gpu_writes(b, &n, 1); }

const qn_gpu_op qn__gpu_op_set_rows = {set_rows_accepts, NULL, set_rows_launch};
