/* SPDX-License-Identifier: MIT */
/* src/gpu/together.c -- runs of nodes that are computed as one: what is beside a product is done in its launches, and
 * products of one x, rotations and writes to caches share one. No bit changes: kernels of runs are those of nodes.
 *
 * A layer is then ten launches: norm with its columns; queries, keys and values; rotations and writes; attention; its
 * columns; the product with the sum behind it; norm with its columns; gate and up; gating with its columns; the product
 * with the sum. Where what comes of attention and of the gate is normed before it is added (Gemma 3), that norm, the
 * sum and the norm behind it are one launch, and a layer is eleven. Values that only the run reads are written all the
 * same, for whoever looks. */
#include "gpu/gpu.h"

/* A view of the value, too. */
static bool reads(const qn_node *n, const qn_node *value)
{
    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]->root == value->root) return true;
    return false;
}

/* Groups of one launch run in any order: none of them may read or write what another one writes. */
static bool apart(const qn_node *n, const qn_node *const *others, int count)
{
    for (int i = 0; i < count; i++)
        if (reads(n, others[i]) || reads(others[i], n) || n->root == others[i]->root) return false;
    return true;
}

/* What a norm is scaled by is not of the value. */
static bool norm_is_apart(const qn_node *norm, const qn_node *value)
{
    for (int i = 1; i < norm->n_src; i++)
        if (norm->src[i]->root == value->root) return false;
    return true;
}

/* All of y, row-major, as rows of the same length: what a product may take as its x. */
static bool is_whole(const qn_node *x, const qn_node *y)
{
    return x->root == y && x->dtype == QN_DTYPE_F32 && x->layout.offset == 0 && x->layout.rank > 0 &&
           y->layout.rank > 0 && qn_layout_is_contiguous(&x->layout) &&
           qn_layout_numel(&x->layout) == qn_layout_numel(&y->layout) &&
           x->layout.dim[x->layout.rank - 1] == y->layout.dim[y->layout.rank - 1];
}

static bool is_product(const qn_node *n) { return n->op == QN_OP_linear || n->op == QN_OP_linear_experts; }

static bool is_norm(const qn_node *n) { return n->op == QN_OP_rms_norm && qn_layout_numel(&n->layout) > 0; }

/* y + something of its shape. */
static bool is_sum(const qn_node *n, const qn_node *y)
{
    if (n->op != QN_OP_add || n->dtype != QN_DTYPE_F32) return false;
    const qn_shape shape = qn_layout_shape(&y->layout);
    for (int i = 0; i < 2; i++) {
        const qn_shape of = qn_layout_shape(&n->src[i]->layout);
        if (n->src[i]->dtype != QN_DTYPE_F32 || !qn_layout_is_contiguous(&n->src[i]->layout) ||
            !qn_shape_equal(&of, &shape))
            return false;
    }
    return (n->src[0] == y) != (n->src[1] == y) && n->src[n->src[0] == y]->root != y;
}

static void find_products(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    while (r->n < n && r->n_products < QN_GPU_MAX_JOBS && is_product(nodes[r->n]) &&
           (r->n_products == 0 || qn__gpu_products_alike(r->product[0], nodes[r->n])) &&
           apart(nodes[r->n], r->product, r->n_products))
        r->product[r->n_products++] = nodes[r->n++];
    if (r->n_products == 1 && r->product[0]->op == QN_OP_linear && r->n < n && is_sum(nodes[r->n], r->product[0]))
        r->sum = nodes[r->n++];
}

/* Products of what the run has computed so far, if they take it as columns; else it ends before them. */
static void find_users(qn_node *const *nodes, int32_t n, const qn_node *y, qn_gpu_run *r)
{
    const int32_t end = r->n;
    if (end < n && is_product(nodes[end]) && is_whole(nodes[end]->src[0], y) && qn__gpu_column_block(nodes[end]))
        find_products(nodes, n, r);
}

static void find_post(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    if (n < 2 || !is_norm(nodes[0]) || !is_sum(nodes[1], nodes[0])) return;
    const qn_node *y = nodes[1];
    r->post = nodes[0];
    r->post_sum = y;
    r->n = 2;
    if (n > 2 && is_norm(nodes[2]) && is_whole(nodes[2]->src[0], y) && norm_is_apart(nodes[2], r->post) &&
        norm_is_apart(nodes[2], r->post_sum)) {
        r->norm[r->n_norms++] = y = nodes[2];
        r->n++;
    }
    find_users(nodes, n, y, r);
}

static void find_norms(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    while (r->n < n && r->n_norms < QN_GPU_MAX_JOBS && is_norm(nodes[r->n]) && apart(nodes[r->n], r->norm, r->n_norms))
        r->norm[r->n_norms++] = nodes[r->n++];
    if (r->n_norms == 1) find_users(nodes, n, r->norm[0], r);
}

/* y times something that is no part of y. */
static bool is_times(const qn_node *n, const qn_node *y)
{
    return n->op == QN_OP_mul && qn__gpu_gates(n) && (n->src[0] == y) != (n->src[1] == y) &&
           n->src[n->src[0] == y]->root != y;
}

static void find_gate(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    const qn_node *y = nodes[0];
    r->gate = y;
    r->n = 1;
    if (n > 1 && is_times(nodes[1], y)) r->times = y = nodes[r->n++];
    find_users(nodes, n, y, r);
    if (!r->n_products) *r = (qn_gpu_run){.n = 1};
}

/* Keys go from where they are rotated to where they are written within a group; nothing else that one of the four
 * reads is written by another. */
static bool turns_and_writes_apart(const qn_node *const *turn, const qn_node *const *write)
{
    return apart(write[1], write, 1) && apart(write[1], turn, 2) && apart(write[0], turn, 1) &&
           !reads(turn[1], write[0]) && write[0]->src[2]->root != turn[1];
}

static void find_turns(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    while (r->n < n && r->n_turns < QN_GPU_MAX_JOBS && nodes[r->n]->op == QN_OP_rope_apply &&
           (r->n_turns == 0 || qn__gpu_turns_alike(r->turn[0], nodes[r->n])) && apart(nodes[r->n], r->turn, r->n_turns))
        r->turn[r->n_turns++] = nodes[r->n++];
    const int32_t at = r->n;
    if (r->n_turns != 2 || at + 2 > n || nodes[at]->op != QN_OP_set_rows || nodes[at + 1]->op != QN_OP_set_rows) return;
    const qn_node *const writes[] = {nodes[at], nodes[at + 1]};
    if (!turns_and_writes_apart(r->turn, writes) || !qn__gpu_turns_to_write(r->turn, writes)) return;
    r->n_writes = 2;
    r->n += 2;
    for (int i = 0; i < 2; i++) r->write[i] = writes[i];
}

static void find_writes(qn_node *const *nodes, int32_t n, qn_gpu_run *r)
{
    while (r->n < n && r->n_writes < QN_GPU_MAX_JOBS && nodes[r->n]->op == QN_OP_set_rows &&
           apart(nodes[r->n], r->write, r->n_writes))
        r->write[r->n_writes++] = nodes[r->n++];
}

void qn__gpu_find_run(qn_node *const *nodes, int32_t n, qn_gpu_run *out)
{
    *out = (qn_gpu_run){0};
    find_post(nodes, n, out);
    if (!out->n) find_norms(nodes, n, out);
    if (!out->n) find_products(nodes, n, out);
    if (!out->n) find_turns(nodes, n, out);
    if (!out->n) find_writes(nodes, n, out);
    if (!out->n && qn__gpu_gates(nodes[0])) find_gate(nodes, n, out);
    if (!out->n) out->n = 1;
}

int32_t qn__gpu_together(const qn_backend *be, qn_node *const *nodes, int32_t n)
{
    qn_gpu_run run;
    (void)be;
    qn__gpu_find_run(nodes, n, &run);
    return run.n;
}

void qn__gpu_launch_run(qn_gpu_builder *b, const qn_gpu_run *r)
{
    const qn_node *first = r->n_products ? r->product[0] : NULL;
    if (r->post)
        qn__gpu_norm_sum(b, r->post, r->post_sum, r->n_norms ? r->norm[0] : NULL, first);
    else if (r->n_norms)
        qn__gpu_norms(b, r->norm, r->n_norms, first);
    if (r->gate) qn__gpu_gate(b, r->gate, r->times, r->product[0]);
    if (r->n_products) qn__gpu_products(b, r->product, r->n_products, r->post || r->n_norms || r->gate, r->sum);
    if (r->n_turns && r->n_writes) {
        qn__gpu_turn_write(b, r->turn, r->write);
        return;
    }
    if (r->n_turns) qn__gpu_turns(b, r->turn, r->n_turns);
    if (r->n_writes) qn__gpu_writes(b, r->write, r->n_writes);
}
