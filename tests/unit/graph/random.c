/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/random.c -- properties of graphs that nobody thought of: for seeded random graphs of all ops, every
 * set of passes leaves outputs and resident tensors the same bit for bit, the verifier and the plan's verifier agree,
 * and running in the planned memory, with garbage in it and scribbled scratch, gives the same bits again. */
#include "interp.h"
#include "base/thread.h"

#define N_GRAPHS 1500
#define POOL     160

/* Values that may be read now. A value is dropped when the resident tensor that it shows is updated. */
typedef struct maker {
    qn_graph *g;
    uint64_t seed;
    qn_node *pool[POOL];
    int n_pool, n_leaves, n_outputs;
    uint32_t features; /* counts what was made, to know that everything comes up */
} maker;

static uint32_t roll(maker *m, uint32_t n) { return (uint32_t)(interp_mix(&m->seed) >> 33) % n; }

static qn_node *keep(maker *m, qn_node *n)
{
    if (m->n_pool < POOL)
        m->pool[m->n_pool++] = n;
    else
        m->pool[roll(m, POOL)] = n;
    return n;
}

static void forget(maker *m, const qn_node *root)
{
    int kept = 0;
    for (int i = 0; i < m->n_pool; i++) {
        if (m->pool[i]->root != root) m->pool[kept++] = m->pool[i];
    }
    m->n_pool = kept;
}

static qn_node *ints(maker *m, const char *kind, int64_t a, int64_t b)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", kind, roll(m, 2) ? m->n_leaves++ : m->n_leaves);
    qn_node *old = find_node(m->g, name);
    const qn_shape shape = b > 0 ? qn_shape_of(a, b) : qn_shape_of(a);
    const qn_shape have = old != NULL ? qn_node_shape(old) : (qn_shape){0};
    if (old != NULL && qn_shape_equal(&have, &shape)) return old;
    if (old != NULL) snprintf(name, sizeof name, "%s%d", kind, ++m->n_leaves);
    m->n_leaves++;
    return qn__input(m->g, name, I32, &shape);
}

static qn_node *leaf(maker *m, const qn_shape *shape)
{
    char name[32];
    const int kind = (int)roll(m, 4);
    snprintf(name, sizeof name, "%c%d", "ipcm"[kind], m -> n_leaves++);
    if (kind == 0) return qn__input(m->g, name, F32, shape);
    if (kind == 1) return qn__param(m->g, name, F32, shape, NULL, 0, 0);
    if (kind == 3) return qn__param(m->g, name, F32, shape, NULL, 0, QN_NODE_mutable);
    uint8_t bytes[4 * 512];
    qn_node like = {.name = name, .dtype = F32};
    OK(qn_layout_contiguous(shape, &like.layout, err));
    assert_true(numel(&like) <= 512);
    interp_fill(&like, bytes);
    return qn__const(m->g, name, F32, shape, bytes);
}

/* Some value of this shape: mostly one that there is. */
static qn_node *value(maker *m, qn_shape shape)
{
    const int start = m->n_pool > 0 ? (int)roll(m, (uint32_t)m->n_pool) : 0;
    for (int i = 0; i < m->n_pool && roll(m, 10) > 0; i++) {
        qn_node *n = m->pool[(start + i) % m->n_pool];
        const qn_shape have = qn_node_shape(n);
        if (n->dtype == F32 && qn_shape_equal(&have, &shape)) return n;
    }
    return keep(m, leaf(m, &shape));
}

static qn_node *any(maker *m)
{
    static const int64_t sizes[] = {1, 4, 6, 8};
    if (m->n_pool > 0 && roll(m, 8) > 0) {
        qn_node *n = m->pool[roll(m, (uint32_t)m->n_pool)];
        if (n->dtype == F32) return n;
    }
    return value(m, qn_shape_of(sizes[roll(m, 4)], sizes[1 + roll(m, 3)]));
}

static qn_node *two_d(maker *m)
{
    qn_node *n = any(m);
    return n->layout.rank == 2 && dim(n, 0) >= 4 ? n : value(m, qn_shape_of(4 + 2 * roll(m, 2), 6));
}

/* ---- steps; each gives a new value ---- */

static qn_node *make_view(maker *m)
{
    qn_node *x = any(m);
    const int rank = x->layout.rank, which = (int)roll(m, 3);
    if (which == 0 && rank > 1) {
        const int dims[3][3] = {{1, 0, 0}, {2, 0, 1}, {1, 0, 2}};
        return qn__permute(m->g, x, rank == 2 ? dims[0] : dims[1 + roll(m, 2)], rank);
    }
    if (which == 1 && rank > 0) {
        const int d = (int)roll(m, (uint32_t)rank);
        const int64_t start = roll(m, (uint32_t)dim(x, d));
        return qn__narrow(m->g, x, d, start, 1 + roll(m, (uint32_t)(dim(x, d) - start)));
    }
    qn_layout l;
    const qn_shape shapes[] = {{1, {-1}}, {2, {-1, 2}}, {2, {2, -1}}, {3, {-1, 1, 2}}, qn_node_shape(x)};
    const qn_shape s = shapes[roll(m, 5)];
    return numel(x) % 2 == 0 && qn_layout_view(&x->layout, &s, &l, NULL) == QN_OK ? qn__reshape(m->g, x, s) : x;
}

static qn_node *make_copy(maker *m)
{
    qn_node *x = any(m);
    if (roll(m, 3) == 0) x = qn__copy(m->g, x, QN_DTYPE_BF16);
    /* a copy that goes, under a view that stays */
    const bool moved = x->layout.rank == 2 && dim(x, 0) > 1 && roll(m, 2);
    if (moved) x = qn__narrow(m->g, x, 0, 1, dim(x, 0) - 1);
    x = qn__copy(m->g, x, F32);
    return moved ? qn__permute(m->g, keep(m, x), (int[]){1, 0}, 2) : x;
}

static qn_node *make_scale(maker *m)
{
    static const float factors[] = {1, 1, -1, 4, 2, 0.5f, 3, -1.5f, 0.3f}, biases[] = {0, 0, 0, 0.25f};
    qn_node *x = any(m);
    for (int i = 0; i <= (int)roll(m, 2); i++) x = qn__scale(m->g, x, factors[roll(m, 9)], biases[roll(m, 4)]);
    return x;
}

static qn_node *make_gate(maker *m)
{
    qn_node *g = any(m), *u = roll(m, 4) ? value(m, qn_node_shape(g)) : g, *s = qn__silu(m->g, g);
    if (roll(m, 4) == 0) keep(m, s);
    if (roll(m, 5) == 0) return qn__swiglu(m->g, g, u);
    return roll(m, 2) ? qn__mul(m->g, s, u) : qn__mul(m->g, u, s);
}

static qn_node *make_norm(maker *m)
{
    qn_node *x = any(m);
    if (x->layout.rank == 0) return x;
    qn_node *w = value(m, qn_shape_of(dim(x, -1)));
    if (roll(m, 4) == 0) return qn__rms_norm(m->g, x, w, 0.1f);
    qn_node *n = qn__rms_norm(m->g, x, NULL, 0.1f);
    if (roll(m, 4) == 0) keep(m, n);
    return roll(m, 2) ? qn__mul(m->g, n, w) : qn__mul(m->g, w, n);
}

static qn_node *make_linear(maker *m)
{
    qn_node *x = any(m);
    if (x->layout.rank == 0) return x;
    const int64_t out = 4 + 2 * roll(m, 2);
    qn_node *w = value(m, qn_shape_of(out, dim(x, -1))), *b = value(m, qn_shape_of(out));
    if (roll(m, 4) == 0) return qn__linear(m->g, x, w, b);
    x = qn__linear(m->g, x, w, NULL);
    if (roll(m, 3) == 0) keep(m, x);
    return roll(m, 2) ? qn__add(m->g, x, b) : qn__add(m->g, b, x);
}

static qn_node *make_binary(maker *m)
{
    qn_node *a = any(m), *b = roll(m, 2)           ? value(m, qn_node_shape(a))
                              : a->layout.rank > 0 ? value(m, qn_shape_of(dim(a, -1)))
                                                   : a;
    if (roll(m, 4) == 0) a = b;
    return roll(m, 2) ? qn__add(m->g, a, b) : qn__mul(m->g, a, b);
}

static qn_node *make_rope(maker *m)
{
    qn_node *x = value(m, qn_shape_of(2, 2, 4));
    const qn_rope_attrs attrs = {
        .mode = (int32_t)roll(m, 2), .n_rot = roll(m, 2) ? 2 : 4, .base = 100, .freq_scale = 1, .attn_factor = 1};
    return qn__rope(m->g, x, ints(m, "n", 2, 0), roll(m, 2) ? leaf(m, &qn_shape_of(attrs.n_rot / 2)) : NULL, &attrs);
}

static qn_node *make_rows(maker *m) { return qn__get_rows(m->g, two_d(m), ints(m, "n", 1 + roll(m, 4), 0)); }

static qn_node *make_update(maker *m)
{
    qn_node *dst = two_d(m);
    if (dst->root->op != QN_OP_param || !(dst->root->flags & QN_NODE_mutable) ||
        !qn_layout_is_contiguous(&dst->layout)) {
        char name[32];
        snprintf(name, sizeof name, "m%d", m->n_leaves++);
        dst = qn__param(m->g, name, F32, SHAPE(4, 6), NULL, 0, QN_NODE_mutable);
    }
    const int64_t n = 1 + roll(m, 4), width = dim(dst, 1);
    qn_node *x = roll(m, 2) && dst->layout.rank == 2 ? value(m, qn_shape_of(n, width))
                                                     : keep(m, leaf(m, &qn_shape_of(n, width)));
    if (x->root == dst->root) x = qn__copy(m->g, x, F32);
    qn_node *u = roll(m, 2) ? qn__set_rows(m->g, dst, x, ints(m, "r", n, 0))
                            : qn__slice_update(m->g, dst, x, 0, roll(m, (uint32_t)(dim(dst, 0) - n + 1)), roll(m, 2));
    forget(m, u->root);
    return u;
}

static qn_node *make_attention(maker *m)
{
    const qn_attn_attrs attrs = {.scale = 0.5f};
    const int64_t heads = 1 + roll(m, 2);
    qn_node *k = value(m, qn_shape_of(4, 1, 2)), *v = value(m, qn_shape_of(4, 1, 2 * heads));
    qn_node *q = value(m, qn_shape_of(3, heads, 2)), *lists = ints(m, "n", 4, 4), *spans = ints(m, "n", 3, 3);
    return qn__attention(m->g, &(qn_attn_sources){.q = q, .k = k, .v = v, .lists = lists, .spans = spans}, &attrs);
}

/* An earlier computation again: food for CSE. Its sources must still be readable. */
static qn_node *make_again(maker *m)
{
    if (m->g->n_nodes == 0) return any(m);
    const qn_node *n = m->g->nodes[roll(m, (uint32_t)m->g->n_nodes)];
    bool ok = n->n_src > 0 && qn__op_info(n->op)->kind != QN_KIND_update && n->dtype == F32;
    for (int k = 0; ok && k < n->n_src; k++) {
        bool current = !(n->src[k]->root->flags & QN_NODE_mutable);
        for (int i = 0; i < m->n_pool && !current; i++) current = m->pool[i] == n->src[k];
        ok = current;
    }
    return ok ? qn__op(m->g, n->op, n->attrs, n->src, n->n_src) : any(m);
}

static void make_graph(maker *m)
{
    static qn_node *(*const steps[])(maker *) = {make_view, make_view,   make_copy,      make_scale,  make_gate,
                                                 make_norm, make_linear, make_binary,    make_binary, make_rope,
                                                 make_rows, make_update, make_attention, make_again};
    const int n_steps = 1 + (int)roll(m, 50);
    for (int i = 0; i < n_steps; i++) {
        if (roll(m, 6) == 0) qn__graph_scope(m->g, (int)roll(m, 3) - 1, (int)roll(m, 3) - 1);
        qn_node *n = keep(m, steps[roll(m, N_OF(steps))](m));
        OK(qn__graph_finish(m->g, err));
        /* a later update would forbid it */
        const bool changes = n->root->op == QN_OP_param && (n->root->flags & QN_NODE_mutable);
        if ((roll(m, 6) == 0 || i == n_steps - 1) && n->name[0] == '\0' && !changes) {
            qn__output(m->g, qn__name(m->g, n, "out%d", m->n_outputs++));
        }
    }
}

static qn_graph *graph_of(uint64_t seed)
{
    maker m = {.g = graph_new(), .seed = seed};
    make_graph(&m);
    OK(qn__graph_finish(m.g, err));
    OK(qn__graph_verify(m.g, err));
    return m.g;
}

/* Places, and scratch for some. */
static void prepare(qn_graph *g, uint64_t seed, int n_places)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        const qn_op_kind kind = qn__op_info(n->op)->kind;
        n->place = (int32_t)(interp_mix(&seed) % (uint64_t)n_places);
        n->scratch_bytes = kind == QN_KIND_compute || kind == QN_KIND_update ? interp_mix(&seed) % 3 * 50 : 0;
    }
}

static void test_values_survive(void **state)
{
    (void)state;
    int64_t changed[QN_PASS_COUNT] = {0}, n_ops[QN_OP_COUNT] = {0}, n_inplace = 0;
    uint64_t sum = 0, peak = 0;
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        qn_graph *a = graph_of(seed), *b = graph_of(seed);
        for (int32_t i = 0; i < a->n_nodes; i++) n_ops[a->nodes[i]->op]++;
        const qn_pass_options options = {.off = seed % 3 ? 0 : (uint32_t)(seed / 3) & 31,
                                         .fold = seed % 5 ? interp_fold : NULL};
        qn_pass_report report;
        OK(qn__graph_optimize(b, &options, &report, err));
        OK(qn__graph_verify(b, err));
        for (int p = 0; p < QN_PASS_COUNT; p++) changed[p] += report.stats[p].changed;
        interp x = interp_run(a, NULL), y = interp_run(b, NULL);
        interp_compare(&x, &y);
        interp_close(&y);

        qn_plan plan;
        prepare(b, seed, 1 + (int)(seed % 3));
        OK(qn__plan_make(b, 1 + (int)(seed % 3), 64, &plan, err));
        OK(qn__plan_verify(b, &plan, err));
        n_inplace += plan.n_inplace;
        for (int i = 0; i < plan.n_places; i++) sum += plan.sum_bytes[i], peak += plan.bytes[i];
        interp z = interp_run(b, &plan);
        interp_compare(&x, &z);
        interp_close(&x);
        interp_close(&z);
        qn__graph_destroy(a);
        qn__graph_destroy(b);
    }
    for (int i = 0; i <= QN_OP_attention; i++) { /* those of language models, which interp.h knows */
        if (i != QN_OP_transfer && n_ops[i] == 0) fail_msg("no %s in any graph", qn__op_info((qn_op)i)->name);
    }
    for (int p = 0; p < QN_PASS_COUNT; p++) assert_true(changed[p] > 100);
    assert_true(n_inplace > 100);
    assert_true(peak < sum * 3 / 4);
    print_message(
        "%d graphs: fold %lld, layout %lld, cse %lld, fuse %lld, dce %lld changes; %lld in place; peak %.2f of sum\n",
        N_GRAPHS, (long long)changed[0], (long long)changed[1], (long long)changed[2], (long long)changed[3],
        (long long)changed[4], (long long)n_inplace, (double)peak / (double)sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
