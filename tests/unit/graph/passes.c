/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/passes.c -- each pass alone: what it changes, what it must leave, its statistics, and that values
 * stay the same bits (by tests/unit/graph/interp.h; random.c does that for graphs nobody thought of). */
#include "interp.h"

#define ONLY(pass) (((1u << QN_PASS_COUNT) - 1) & ~(1u << QN_PASS_##pass))

/* Builds the graph twice, optimizes one with a single pass, checks that the values agree, and returns the optimized
 * one. */
static qn_pass_report report;
static int folded;

static qn_graph *after(void (*build)(qn_graph *g), uint32_t off)
{
    qn_graph *a = graph_new(), *b = graph_new();
    build(a);
    build(b);
    OK(qn__graph_finish(a, err));
    OK(qn__graph_verify(a, err));
    folded = 0;
    const qn_pass_options options = {.off = off, .fold = interp_fold, .fold_ctx = &folded};
    OK(qn__graph_optimize(b, &options, &report, err));
    OK(qn__graph_verify(b, err));
    interp x = interp_run(a, NULL), y = interp_run(b, NULL);
    interp_compare(&x, &y);
    interp_close(&x);
    interp_close(&y);
    qn__graph_destroy(a);
    return b;
}

static void changed_by(qn_pass pass, int nodes_before, int nodes_after, int changed)
{
    for (int i = 0; i < QN_PASS_COUNT; i++) {
        if (i == (int)pass) {
            assert_int_equal(report.stats[i].nodes_before, nodes_before);
            assert_int_equal(report.stats[i].nodes_after, nodes_after);
            assert_int_equal(report.stats[i].changed, changed);
            assert_true(report.stats[i].ns > 0);
        } else {
            assert_int_equal(report.stats[i].nodes_before, report.stats[i].nodes_after);
            assert_int_equal(report.stats[i].changed, 0);
            assert_int_equal(report.stats[i].ns, 0);
        }
    }
}

static qn_node *in(qn_graph *g, const char *name) { return qn__input(g, name, F32, SHAPE(4, 6)); }
static qn_node *resident(qn_graph *g) { return qn__param(g, "resident", F32, SHAPE(4, 6), NULL, 0, QN_NODE_mutable); }
static void out(qn_graph *g, qn_node *n, const char *name) { qn__output(g, qn__name(g, n, "%s", name)); }

/* ---- fold ---- */

static void build_scale_by_one(qn_graph *g)
{
    out(g, qn__silu(g, qn__scale(g, in(g, "x"), 1, 0)), "y");
    /* an output keeps its node */
    out(g, qn__scale(g, in(g, "z"), 1, 0), "kept");
    /* it makes rows dense */
    out(g, qn__silu(g, qn__scale(g, qn__permute(g, in(g, "t"), (int[]){1, 0}, 2), 1, 0)), "w");
    /* a bias is no identity */
    out(g, qn__silu(g, qn__scale(g, in(g, "u"), 1, 0.5f)), "v");
}

static void build_scale_chain(qn_graph *g)
{
    qn_node *x = in(g, "x");
    const struct {
        float a, ab, b, bb;
    } good[] = {{-1, 0, 0.3f, 0.7f}, {4, 0, 3, 0}, {0.3f, 0, -1, 0}, {1024, 0, -1.5f, 0}};
    const struct {
        float a, ab, b, bb;
    } bad[] = {{4, 0, 0.3f, 0},                                    /* 4x may overflow where 1.2x does not */
               {0.5f, 0, 3, 0},                                    /* x/2 may lose a bit among the denormals */
               {3, 0, 2, 0},        {3, 0, 5, 0}, {1, 0.5f, 2, 0}, /* a bias inside */
               {3, 0, -1, 0.5f},                                   /* a fused kernel would not round 3x */
               {1e38f, 0, 1e38f, 0}};
    char name[16];
    for (int i = 0; i < (int)N_OF(good); i++) {
        snprintf(name, sizeof name, "good%d", i);
        out(g, qn__scale(g, qn__scale(g, x, good[i].a, good[i].ab), good[i].b, good[i].bb), name);
    }
    for (int i = 0; i < (int)N_OF(bad); i++) {
        snprintf(name, sizeof name, "bad%d", i);
        out(g, qn__scale(g, qn__scale(g, x, bad[i].a, bad[i].ab), bad[i].b, bad[i].bb), name);
    }
}

static void build_scale_of_resident(qn_graph *g) /* what is read before an update may not be read after it */
{
    qn_node *p = resident(g), *one = qn__scale(g, p, 1, 0), *two = qn__scale(g, p, 2, 0);
    qn__slice_update(g, p, in(g, "x"), 0, 0, true);
    out(g, qn__silu(g, one), "y");
    out(g, qn__scale(g, two, 4, 0), "z");
}

static void build_consts(qn_graph *g)
{
    const float data[6] = {1, 2, 3, 4, 5, -0.0f};
    qn_node *c = qn__const(g, "c", F32, SHAPE(2, 3), data), *d = qn__const(g, "d", F32, SHAPE(3), data);
    qn_node *sum = qn__name(g, qn__mul(g, qn__add(g, c, d), d), "sum");
    /* a view is gathered */
    qn_node *transposed = qn__silu(g, qn__permute(g, qn__narrow(g, sum, 1, 1, 2), (int[]){1, 0}, 2));
    out(g, qn__add(g, qn__reshape(g, qn__input(g, "x", F32, SHAPE(4)), qn_shape_of(2, 2)), transposed), "y");
    out(g, qn__scale(g, d, 3, 1), "kept"); /* an output is computed at every run */
}

static void build_large_const(qn_graph *g) /* 8 Mi floats out of 8 K: cheaper to compute than to keep */
{
    static float zeros[4096];
    qn_node *c = qn__const(g, "c", F32, SHAPE(4096, 1), zeros), *d = qn__const(g, "d", F32, SHAPE(2048), zeros);
    out(g, qn__get_rows(g, qn__add(g, c, d), qn__input(g, "i", I32, SHAPE(1))), "y");
}

static void test_fold(void **state)
{
    (void)state;
    qn_graph *g = after(build_scale_by_one, ONLY(fold));
    assert_ptr_equal(find_node(g, "y")->src[0], find_node(g, "x"));
    assert_int_equal(count_op(g, QN_OP_scale), 3);
    changed_by(QN_PASS_fold, 12, 11, 1);
    qn__graph_destroy(g);

    g = after(build_scale_chain, ONLY(fold));
    for (int i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (strncmp(n->name, "good", 4) == 0) assert_ptr_equal(n->src[0], find_node(g, "x"));
        if (strncmp(n->name, "bad", 3) == 0) assert_int_equal(n->src[0]->op, QN_OP_scale);
    }
    assert_true(((const qn_scale_attrs *)find_node(g, "good1")->attrs)->scale == 12);
    assert_int_equal(report.stats[QN_PASS_fold].changed, 4);
    qn__graph_destroy(g);

    g = after(build_scale_of_resident, ONLY(fold));
    assert_int_equal(report.stats[QN_PASS_fold].changed, 0);
    qn__graph_destroy(g);

    g = after(build_consts, ONLY(fold));
    assert_int_equal(folded, 3);
    const qn_node *sum = find_node(g, "sum"), *transposed = find_node(g, "y")->src[1];
    assert_true(sum->op == QN_OP_param && (sum->flags & QN_NODE_const) && sum->n_src == 0);
    assert_true(((const float *)sum->host)[4] == (5 + 2) * 2);
    assert_true(transposed->op == QN_OP_param && dim(transposed, 0) == 2 &&
                ((const float *)transposed->host)[1] == silu(14));
    assert_int_equal(find_node(g, "kept")->op, QN_OP_scale);
    assert_int_equal(report.stats[QN_PASS_fold].changed, 3);
    qn__graph_destroy(g);

    g = after(build_large_const, ONLY(fold));
    assert_int_equal(folded, 0);
    qn__graph_destroy(g);
}

static qn_status refuse(void *ctx, const qn_node *n, void *dst, qn_error *err)
{
    (void)dst;
    if (ctx != NULL) return QN_FAIL(err, io, "the machine is on fire");
    return QN_FAIL(err, unsupported, "no %s here", qn_node_op_name(n));
}

static void test_fold_function_refuses(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    build_consts(g);
    const int32_t n = g->n_nodes;
    qn_pass_options options = {.fold = refuse, .off = ONLY(fold)};
    OK(qn__graph_optimize(g, &options, NULL, err));
    assert_int_equal(g->n_nodes, n);
    options.fold = NULL;
    OK(qn__graph_optimize(g, &options, NULL, err));
    assert_int_equal(g->n_nodes, n);
    options = (qn_pass_options){.fold = refuse, .fold_ctx = g};
    qn_error e = {0};
    assert_int_equal(qn__graph_optimize(g, &options, NULL, &e), QN_STATUS_io);
    assert_string_equal(e.text, "pass fold: the machine is on fire");
    qn__graph_destroy(g);
}

/* Blocks of a view are gathered whole. */
static qn_status take_blocks(void *ctx, const qn_node *n, void *dst, qn_error *err)
{
    (void)err;
    memcpy(ctx, n->src[0]->host, (size_t)qn__node_bytes(n->src[0]));
    memset(dst, 0, (size_t)qn__node_bytes(n));
    return QN_OK;
}

static void test_fold_gathers_blocks(void **state)
{
    (void)state;
    uint8_t blocks[3 * 2 * 34], seen[3 * 34];
    for (size_t i = 0; i < sizeof blocks; i++) blocks[i] = (uint8_t)i;
    qn_graph *g = graph_new();
    qn_node *c = qn__const(g, "c", QN_DTYPE_Q8_0, SHAPE(3, 64), blocks);
    qn_node *ids = qn__const(g, "i", I32, SHAPE(1), &(int32_t){2});
    out(g, qn__silu(g, qn__get_rows(g, qn__narrow(g, c, 1, 32, 32), ids)), "y");
    const qn_pass_options options = {.fold = take_blocks, .fold_ctx = seen};
    qn_node *rows = g->nodes[3];
    assert_int_equal(rows->op, QN_OP_get_rows);
    OK(qn__graph_optimize(g, &options, NULL, err));
    assert_int_equal(rows->op, QN_OP_param);
    for (int r = 0; r < 3; r++) assert_memory_equal(seen + r * 34, blocks + (2 * r + 1) * 34, 34);
    qn__graph_destroy(g);
}

/* ---- layout ---- */

static void build_views(qn_graph *g)
{
    qn_node *x = in(g, "x");
    qn_node *v =
        qn__reshape(g,
                    qn__permute(g, qn__permute(g, qn__reshape(g, x, qn_shape_of(2, 2, 6)), (int[]){2, 0, 1}, 3),
                                (int[]){1, 2, 0}, 3),
                    qn_shape_of(4, 6)); /* all the way round: x itself */
    out(g, qn__silu(g, v), "y");
    out(g, qn__silu(g, qn__narrow(g, qn__narrow(g, x, 0, 1, 3), 1, 2, 2)), "z");
    out(g, qn__reshape(g, x, qn_shape_of(4, 6)), "kept");
}

static void build_copies(qn_graph *g)
{
    qn_node *x = in(g, "x"), *part = qn__narrow(g, x, 0, 1, 2); /* row-major, but not from the start */
    qn_node *c = qn__copy(g, part, F32);
    out(g, qn__silu(g, qn__narrow(g, qn__reshape(g, c, qn_shape_of(3, 4)), 0, 1, 2)), "y"); /* views of it move along */
    out(g, qn__copy(g, x, F32), "kept");
    out(g, qn__silu(g, qn__copy(g, qn__permute(g, x, (int[]){1, 0}, 2), F32)), "dense");
    out(g, qn__silu(g, qn__copy(g, qn__copy(g, x, QN_DTYPE_BF16), F32)), "rounded");
    out(g, qn__silu(g, qn__copy(g, qn__copy(g, x, F32), F32)), "twice");
}

static void build_copies_of_resident(qn_graph *g)
{
    qn_node *p = resident(g), *before = qn__copy(g, p, F32);
    qn_node *u = qn__slice_update(g, p, in(g, "x"), 0, 0, true), *later = qn__copy(g, u, F32);
    out(g, qn__add(g, before, later), "y");
}

static void build_hinted_copy(qn_graph *g)
{
    qn_node *x = in(g, "x");
    qn__graph_scope(g, -1, 1);
    qn_node *c = qn__copy(g, x, F32);
    qn__graph_scope(g, -1, -1);
    out(g, qn__silu(g, c), "y");
}

static void test_layout(void **state)
{
    (void)state;
    qn_graph *g = after(build_views, ONLY(layout));
    assert_ptr_equal(find_node(g, "y")->src[0], find_node(g, "x"));
    assert_ptr_equal(find_node(g, "z")->src[0]->src[0], find_node(g, "x"));
    assert_int_equal(find_node(g, "kept")->op, QN_OP_view);
    changed_by(QN_PASS_layout, 10, 9, 5);
    qn__graph_destroy(g);

    g = after(build_copies, ONLY(layout));
    assert_int_equal(count_op(g, QN_OP_copy), 4);
    const qn_node *moved = find_node(g, "y")->src[0];
    assert_ptr_equal(moved->src[0], find_node(g, "x"));
    assert_ptr_equal(moved->root, find_node(g, "x"));
    assert_int_equal(moved->layout.offset, 6 + 4);
    assert_ptr_equal(find_node(g, "twice")->src[0], find_node(g, "x"));
    qn__graph_destroy(g);

    g = after(build_copies_of_resident, ONLY(layout));
    assert_int_equal(count_op(g, QN_OP_copy), 1); /* the one after the update may go, for nothing changes it any more */
    assert_int_equal(find_node(g, "y")->src[0]->op, QN_OP_copy);
    assert_int_equal(find_node(g, "y")->src[1]->op, QN_OP_slice_update);
    qn__graph_destroy(g);

    g = after(build_hinted_copy, ONLY(layout));
    assert_int_equal(count_op(g, QN_OP_copy), 1);
    qn__graph_destroy(g);
}

/* ---- cse ---- */

static char a_buffer;

static void build_equal(qn_graph *g)
{
    qn_node *x = in(g, "x"), *y = in(g, "y");
    qn_node *w1 = qn__param(g, "w", F32, SHAPE(6), &a_buffer, 64, 0),
            *w2 = qn__param(g, "w", F32, SHAPE(6), &a_buffer, 64, 0);
    qn_node *a = qn__add(g, qn__mul(g, x, w1), qn__mul(g, x, w2));
    qn_node *b = qn__add(g, qn__rms_norm(g, x, NULL, 1e-5f), qn__rms_norm(g, x, NULL, 1e-6f)); /* other attributes */
    qn_node *c = qn__add(g, qn__add(g, x, y), qn__add(g, y, x));                               /* other order */
    qn_node *d = qn__add(g, qn__narrow(g, x, 0, 1, 2), qn__narrow(g, x, 0, 1, 2));
    out(g, a, "a"), out(g, b, "b"), out(g, c, "c"), out(g, d, "d");
    out(g, qn__silu(g, x), "s"), out(g, qn__silu(g, x), "t"); /* both are asked for */
}

static void build_updates(qn_graph *g)
{
    qn_node *p = resident(g), *x = in(g, "x");
    qn_node *v1 = qn__narrow(g, p, 0, 0, 2), *v2 = qn__narrow(g, p, 0, 2, 2);
    qn_node *a = qn__silu(g, v1), *b = qn__silu(g, v2);
    qn_node *u = qn__slice_update(g, v1, qn__narrow(g, x, 0, 0, 2), 0, 0, true);
    qn_node *c = qn__silu(g, v2); /* untouched, but nobody need prove it */
    qn_node *w = qn__slice_update(g, u, qn__narrow(g, x, 0, 0, 2), 0, 0, true); /* the same again */
    qn_node *d = qn__silu(g, w), *e = qn__silu(g, w);
    out(g, qn__add(g, qn__add(g, a, b), qn__add(g, c, qn__add(g, d, e))), "y");
}

static void build_hints(qn_graph *g)
{
    qn_node *x = in(g, "x"), *a = qn__silu(g, x);
    qn__graph_scope(g, -1, 1);
    qn_node *b = qn__silu(g, x);
    qn__graph_scope(g, -1, -1);
    out(g, qn__add(g, a, b), "y");
}

static void test_cse(void **state)
{
    (void)state;
    qn_graph *g = after(build_equal, ONLY(cse));
    assert_ptr_equal(find_node(g, "a")->src[0], find_node(g, "a")->src[1]);
    assert_ptr_equal(find_node(g, "d")->src[0], find_node(g, "d")->src[1]);
    assert_ptr_not_equal(find_node(g, "b")->src[0], find_node(g, "b")->src[1]);
    assert_ptr_not_equal(find_node(g, "c")->src[0], find_node(g, "c")->src[1]);
    assert_true(find_node(g, "s") != NULL && find_node(g, "t") != NULL);
    assert_int_equal(count_op(g, QN_OP_param), 1);
    assert_int_equal(report.stats[QN_PASS_cse].changed, 3);
    assert_int_equal(report.stats[QN_PASS_cse].nodes_before - report.stats[QN_PASS_cse].nodes_after, 3);
    qn__graph_destroy(g);

    g = after(build_updates, ONLY(cse));
    assert_int_equal(count_op(g, QN_OP_slice_update), 2);
    assert_int_equal(count_op(g, QN_OP_silu), 4); /* a, b, c and one of d and e */
    qn__graph_destroy(g);

    g = after(build_hints, ONLY(cse));
    assert_int_equal(count_op(g, QN_OP_silu), 2);
    qn__graph_destroy(g);
}

/* ---- fuse ---- */

static void build_fusable(qn_graph *g)
{
    qn_node *x = in(g, "x"), *y = in(g, "y"), *v = qn__input(g, "v", F32, SHAPE(6)), *w = weight(g, "w", 6, 6);
    out(g, qn__mul(g, qn__silu(g, x), y), "gate1"), out(g, qn__mul(g, y, qn__silu(g, x)), "gate2");
    out(g, qn__mul(g, qn__rms_norm(g, x, NULL, 0.1f), v), "norm1"),
        out(g, qn__mul(g, v, qn__rms_norm(g, x, NULL, 0.2f)), "norm2");
    out(g, qn__add(g, qn__linear(g, x, w, NULL), v), "bias1"),
        out(g, qn__add(g, v, qn__linear(g, x, w, NULL)), "bias2");
    out(g, qn__mul(g, qn__silu(g, x), qn__silu(g, y)), "both");
}

static void build_unfusable(qn_graph *g)
{
    qn_node *x = in(g, "x"), *y = in(g, "y"), *v = qn__input(g, "v", F32, SHAPE(6)), *w = weight(g, "w", 6, 6);
    qn_node *s = qn__silu(g, x), *kept = qn__silu(g, y);
    out(g, qn__mul(g, s, y), "a"), out(g, qn__mul(g, s, x), "b"); /* two users */
    out(g, kept, "kept"), out(g, qn__mul(g, kept, x), "c");       /* an output */
    out(g, qn__mul(g, qn__silu(g, v), x), "d");                   /* broadcast */
    out(g, qn__mul(g, qn__rms_norm(g, v, NULL, 0), x), "e");
    out(g, qn__mul(g, qn__rms_norm(g, x, NULL, 0), y), "f"); /* not a vector */
    out(g, qn__mul(g, qn__rms_norm(g, x, v, 0), v), "g");    /* has a weight */
    out(g, qn__add(g, qn__linear(g, x, w, v), v), "h");      /* has a bias */
    out(g, qn__add(g, qn__linear(g, x, w, NULL), y), "i");   /* a residual */
    out(g, qn__mul(g, qn__linear(g, x, w, NULL), v), "j");   /* another op */
    out(g, qn__add(g, qn__silu(g, x), y), "k");
    out(g, qn__mul(g, qn__reshape(g, qn__silu(g, x), qn_shape_of(6, 4)), qn__reshape(g, y, qn_shape_of(6, 4))), "l");
    qn_node *square = qn__silu(g, in(g, "z"));
    out(g, qn__mul(g, square, square), "m");
    /* rms_norm wants a vector */
    out(g, qn__mul(g, qn__rms_norm(g, x, NULL, 0), qn__reshape(g, v, qn_shape_of(1, 6))), "n");
}

static void build_fusable_over_update(qn_graph *g)
{
    qn_node *p = resident(g), *x = in(g, "x"), *s = qn__silu(g, p);
    qn_node *u = qn__slice_update(g, p, x, 0, 0, false);
    out(g, qn__mul(g, s, x), "y");              /* silu reads what was there before */
    out(g, qn__mul(g, qn__silu(g, u), x), "z"); /* nothing comes after this */
}

static void build_hinted_gate(qn_graph *g)
{
    qn_node *x = in(g, "x");
    qn__graph_scope(g, -1, 1);
    qn_node *s = qn__silu(g, x);
    qn__graph_scope(g, -1, -1);
    out(g, qn__mul(g, s, x), "y");
}

static void test_fuse(void **state)
{
    (void)state;
    qn_graph *g = after(build_fusable, ONLY(fuse));
    assert_int_equal(count_op(g, QN_OP_swiglu), 3);
    assert_int_equal(count_op(g, QN_OP_mul) + count_op(g, QN_OP_add), 0);
    assert_int_equal(count_op(g, QN_OP_silu), 1);
    const qn_node *norm = find_node(g, "norm2"), *bias = find_node(g, "bias2"), *gate = find_node(g, "gate2");
    assert_true(norm->op == QN_OP_rms_norm && norm->n_src == 2 && ((const qn_norm_attrs *)norm->attrs)->eps == 0.2f);
    assert_true(bias->op == QN_OP_linear && bias->n_src == 3 && bias->src[2] == find_node(g, "v"));
    assert_true(gate->src[0] == find_node(g, "x") && gate->src[1] == find_node(g, "y"));
    changed_by(QN_PASS_fuse, 19, 12, 7);
    qn__graph_destroy(g);

    g = after(build_unfusable, ONLY(fuse));
    assert_int_equal(report.stats[QN_PASS_fuse].changed, 0);
    qn__graph_destroy(g);

    g = after(build_fusable_over_update, ONLY(fuse));
    assert_int_equal(find_node(g, "y")->op, QN_OP_mul);
    assert_int_equal(find_node(g, "z")->op, QN_OP_swiglu);
    qn__graph_destroy(g);

    g = after(build_hinted_gate, ONLY(fuse));
    assert_int_equal(report.stats[QN_PASS_fuse].changed, 0);
    qn__graph_destroy(g);
}

/* ---- dce ---- */

static void build_unused(qn_graph *g)
{
    qn_node *x = in(g, "x"), *p = resident(g), *rows = qn__input(g, "rows", I32, SHAPE(4));
    in(g, "unused");
    weight(g, "unread", 2, 2);
    qn__silu(g, qn__silu(g, qn__permute(g, x, (int[]){1, 0}, 2)));
    qn_node *u = qn__set_rows(g, p, qn__scale(g, x, 2, 0), rows); /* an effect: stays without a reader */
    qn__silu(g, u);
    out(g, qn__silu(g, x), "y");
}

static void test_dce(void **state)
{
    (void)state;
    qn_graph *g = after(build_unused, ONLY(dce));
    assert_null(find_node(g, "unused"));
    assert_null(find_node(g, "unread"));
    assert_int_equal(count_op(g, QN_OP_set_rows), 1);
    assert_int_equal(count_op(g, QN_OP_scale), 1);
    assert_int_equal(count_op(g, QN_OP_silu), 1);
    changed_by(QN_PASS_dce, 12, 6, 6);
    qn__graph_destroy(g);
}

/* ---- all of them ---- */

static void build_decoder(qn_graph *g)
{
    const decoder_shape s = {3, 5, 16, 4, 2, 4, 24, 10, 8};
    decoder_build(g, &s);
    for (int i = 0; i < g->n_nodes; i++) { /* the interpreter knows BF16 */
        if (g->nodes[i]->dtype == QN_DTYPE_F16) g->nodes[i]->dtype = QN_DTYPE_BF16;
    }
}

static void build_named(qn_graph *g)
{
    qn_node *x = in(g, "x"), *w = qn__input(g, "w", F32, SHAPE(6));
    qn_node *idle = qn__name(g, qn__scale(g, x, 1, 0), "idle");
    qn_node *gate = qn__name(g, qn__silu(g, idle), "gate");
    qn_node *twin = qn__name(g, qn__rms_norm(g, x, NULL, 1e-5f), "twin");
    qn_node *again = qn__name(g, qn__rms_norm(g, x, NULL, 1e-5f), "again");
    qn__name(g, qn__add(g, x, x), "unused");
    (void)qn__add(g, x, gate); /* goes without a name */
    out(g, qn__mul(g, gate, qn__add(g, twin, again)), "y");
    out(g, qn__mul(g, again, w), "z");
}

static void build_named_to_fuse(qn_graph *g)
{
    out(g, qn__mul(g, qn__name(g, qn__silu(g, in(g, "x")), "gate"), in(g, "u")), "y");
}

static const qn_node *gone(const qn_graph *g, const char *name)
{
    const qn_node *n = g->gone;
    while (n && strcmp(n->name, name) != 0) n = n->next_gone;
    return n;
}

static void is_gone(const qn_graph *g, const char *name, qn_pass by, const char *into)
{
    const qn_node *n = gone(g, name);
    assert_non_null(n);
    assert_int_equal(n->gone_by, by);
    if (!into)
        assert_null(qn__node_into(n));
    else
        assert_string_equal(qn__node_into(n)->name, into);
}

/* What a pass removed can be asked for by name, and what stands in its place. */
static void test_gone(void **state)
{
    (void)state;
    qn_graph *g = after(build_named, 0);
    is_gone(g, "idle", QN_PASS_fold, "x");
    is_gone(g, "again", QN_PASS_cse, "twin");
    is_gone(g, "unused", QN_PASS_dce, NULL);
    assert_null(gone(g, "twin")); /* two read it, so it is not fused */
    assert_null(gone(g, "gate")); /* of two users one went after fusing was tried */
    assert_null(gone(g, "y"));
    for (const qn_node *n = g->gone; n; n = n->next_gone) assert_string_not_equal(n->name, "");
    qn__graph_reset(g);
    assert_null(gone(g, "idle"));
    qn__graph_destroy(g);
    g = after(build_named_to_fuse, 0);
    is_gone(g, "gate", QN_PASS_fuse, "y");
    qn__graph_destroy(g);
}

static void test_all(void **state)
{
    (void)state;
    qn_graph *g = after(build_decoder, 0);
    assert_int_equal(count_op(g, QN_OP_silu), 0);
    assert_int_equal(count_op(g, QN_OP_mul), 0);
    assert_int_equal(count_op(g, QN_OP_swiglu), 3);
    assert_int_equal(count_op(g, QN_OP_add), 6); /* the residuals */
    assert_int_equal(count_op(g, QN_OP_set_rows), 6);
    for (int i = 1; i < QN_PASS_COUNT; i++)
        assert_int_equal(report.stats[i].nodes_before, report.stats[i - 1].nodes_after);
    assert_true(report.stats[QN_PASS_fuse].changed == 3 * (2 + 3 + 1) + 1);
    const uint64_t once = qn__graph_hash(g);
    OK(qn__graph_optimize(g, NULL, &report, err)); /* a second time nothing is left to do */
    for (int i = 0; i < QN_PASS_COUNT; i++) assert_int_equal(report.stats[i].changed, 0);
    assert_true(qn__graph_hash(g) == once);
    qn__graph_destroy(g);

    g = after(build_decoder, (1u << QN_PASS_COUNT) - 1); /* all off: nothing happens at all */
    for (int i = 0; i < QN_PASS_COUNT; i++)
        assert_true(report.stats[i].changed == 0 && report.stats[i].nodes_after == g->n_nodes);
    qn__graph_destroy(g);

    g = graph_new(); /* empty graphs are graphs */
    OK(qn__graph_optimize(g, NULL, NULL, err));
    in(g, "x");
    OK(qn__graph_optimize(g, NULL, NULL, err));
    assert_int_equal(g->n_nodes, 0);
    qn__graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_fold_function_refuses),
        cmocka_unit_test(test_fold_gathers_blocks),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_cse),
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_dce),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
