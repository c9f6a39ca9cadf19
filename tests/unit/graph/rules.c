/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/rules.c -- every shape rule: what it yields, and the exact message for each thing it refuses. */
#include "common.h"
#include "builders.h"
#include <math.h>

/* Small vocabulary, so that a case is one line. */
typedef struct kit {
    qn_graph *g;
    qn_node *x43, *x35, *v3, *v5, *scalar, *ids2, *w52, *w53, *q8, *f16, *cache, *ibuf, *lbuf;
} kit;

static kit t;

static kit make(void)
{
    qn_graph *g = graph_new();
    return (kit){
        .g = g,
        .x43 = qn__input(g, "x43", F32, SHAPE(4, 3)),
        .x35 = qn__input(g, "x35", F32, SHAPE(3, 5)),
        .v3 = qn__input(g, "v3", F32, SHAPE(3)),
        .v5 = qn__input(g, "v5", F32, SHAPE(5)),
        .scalar = qn__input(g, "scalar", F32, &(qn_shape){0}),
        .ids2 = qn__input(g, "ids2", I32, SHAPE(2)),
        .w52 = weight(g, "w52", 5, 2),
        .w53 = weight(g, "w53", 5, 3),
        .q8 = qn__param(g, "q8", QN_DTYPE_Q8_0, SHAPE(6, 64), NULL, 0, 0),
        .f16 = qn__input(g, "f16", QN_DTYPE_F16, SHAPE(4, 3)),
        .cache = qn__param(g, "cache", QN_DTYPE_F16, SHAPE(8, 3), NULL, 0, QN_NODE_mutable),
        .ibuf = qn__param(g, "ibuf", I32, SHAPE(8, 3), NULL, 0, QN_NODE_mutable),
        .lbuf = qn__param(g, "lbuf", QN_DTYPE_I64, SHAPE(8, 3), NULL, 0, QN_NODE_mutable),
    };
}

#define REFUSED(text, ...) \
    do { \
        t = make(); \
        qn_graph *g = t.g; \
        (void)g; \
        (void)(__VA_ARGS__); \
        graph_fails(t.g, QN_STATUS_invalid, text); \
    } while (0)

static void is_value(const qn_node *n, qn_dtype dtype, const qn_shape *shape)
{
    const qn_shape have = qn_node_shape(n);
    char text[2][192];
    assert_int_equal(qn_node_dtype(n), dtype);
    assert_string_equal(qn_shape_print(&have, text[0], 192), qn_shape_print(shape, text[1], 192));
}

static void test_leaves(void **state)
{
    (void)state;
    t = make();
    is_value(t.x43, F32, SHAPE(4, 3));
    is_value(t.scalar, F32, &(qn_shape){0});
    is_value(t.q8, QN_DTYPE_Q8_0, SHAPE(6, 64));
    is_value(qn__input(t.g, "none", F32, SHAPE(0, 3)), F32, SHAPE(0, 3));
    assert_int_equal(qn__node_bytes(t.q8), 6 * 2 * 34);
    assert_int_equal(qn__node_bytes(t.scalar), 4);
    OK(qn__graph_finish(t.g, err));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("input: a name is needed", qn__input(g, NULL, F32, SHAPE(1)));
    REFUSED("input: a name is needed", qn__input(g, "", F32, SHAPE(1)));
    REFUSED("input: dtype 77 does not exist", qn__input(g, "x", (qn_dtype)77, SHAPE(1)));
    REFUSED("param: rows of [4,33] in Q8_0 don't divide into blocks of 32",
            qn__param(g, "x", QN_DTYPE_Q8_0, SHAPE(4, 33), NULL, 0, 0));
    REFUSED("param: rows of [] in Q8_0 don't divide into blocks of 32",
            qn__param(g, "x", QN_DTYPE_Q8_0, &(qn_shape){0}, NULL, 0, 0));
    REFUSED("param: flags 0x4, only mutable and output are possible",
            qn__param(g, "x", F32, SHAPE(1), NULL, 0, QN_NODE_const));
    REFUSED("input: leaves have builders of their own", qn__op(g, QN_OP_input, NULL, NULL, 0));
    t = make();
    qn__input(t.g, "x", F32, SHAPE(INT64_C(1) << 61));
    graph_fails(t.g, QN_STATUS_limit, "input: F32 [2305843009213693952] takes more than 2^63 bytes");
}

static void test_views(void **state)
{
    (void)state;
    t = make();
    is_value(qn__reshape(t.g, t.x43, qn_shape_of(2, -1)), F32, SHAPE(2, 6));
    is_value(qn__permute(t.g, t.x43, (int[]){1, 0}, 2), F32, SHAPE(3, 4));
    qn_node *n = qn__narrow(t.g, t.x43, -1, 1, 2);
    is_value(n, F32, SHAPE(4, 2));
    assert_int_equal(n->layout.offset, 1);
    assert_ptr_equal(n->root, t.x43);
    assert_true(qn__node_is_view(n));
    assert_false(qn__node_is_view(t.x43));
    assert_int_equal(qn__node_bytes(n), 32);
    is_value(qn__narrow(t.g, t.q8, 1, 32, 32), QN_DTYPE_Q8_0, SHAPE(6, 32));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("reshape of %0 input \"x43\": view: [4,3] with 12 elements cannot become [5,2]",
            qn__reshape(g, t.x43, qn_shape_of(5, 2)));
    REFUSED("permute of %0 input \"x43\": permute: dimension 0 of [4,3] is named twice",
            qn__permute(g, t.x43, (int[]){0, 0}, 2));
    REFUSED("narrow of %0 input \"x43\": narrow: start 3 and length 2 leave dimension 0 of [4,3]",
            qn__narrow(g, t.x43, 0, 3, 2));
    REFUSED("view: rows of [6,16] in Q8_0 don't divide into blocks of 32", qn__narrow(g, t.q8, 1, 0, 16));
    REFUSED("view: Q8_0 [6,32] cuts through blocks of 32", qn__narrow(g, t.q8, 1, 16, 32));
    REFUSED("view: Q8_0 [6,32] cuts through blocks of 32",
            qn__op(g, QN_OP_view, &(qn_view_attrs){.layout = {2, {6, 32}, {64, 2}, 0}}, &t.q8, 1));
    REFUSED("view: elements 2 to 14 of memory of [4,3]",
            qn__op(g, QN_OP_view, &(qn_view_attrs){.layout = {1, {12}, {1}, 2}}, &t.x43, 1));
    REFUSED("view: elements -1 to 1 of memory of [4,3]",
            qn__op(g, QN_OP_view, &(qn_view_attrs){.layout = {1, {2}, {1}, -1}}, &t.x43, 1));
}

static void test_copy(void **state)
{
    (void)state;
    t = make();
    is_value(qn__copy(t.g, qn__permute(t.g, t.x43, (int[]){1, 0}, 2), QN_DTYPE_BF16), QN_DTYPE_BF16, SHAPE(3, 4));
    is_value(qn__copy(t.g, t.q8, F32), F32, SHAPE(6, 64));
    is_value(qn__copy(t.g, t.ids2, I32), I32, SHAPE(2));
    is_value(qn__op(t.g, QN_OP_transfer, NULL, &t.q8, 1), QN_DTYPE_Q8_0, SHAPE(6, 64));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("copy: I32 cannot be converted to Q8_0", qn__copy(g, t.ids2, QN_DTYPE_Q8_0));
    REFUSED("copy: Q8_0 cannot be converted to I32", qn__copy(g, t.q8, I32));
    REFUSED("copy: F32 cannot be converted to IQ2_XXS", qn__copy(g, t.v3, QN_DTYPE_IQ2_XXS));
    REFUSED("copy: dtype -3 does not exist", qn__copy(g, t.v3, (qn_dtype)-3));
    REFUSED("copy: rows of [4,3] in Q8_0 don't divide into blocks of 32", qn__copy(g, t.x43, QN_DTYPE_Q8_0));
}

static void test_products(void **state)
{
    (void)state;
    t = make();
    is_value(qn__linear(t.g, t.x43, t.w53, t.v5), F32, SHAPE(4, 5));
    is_value(qn__linear(t.g, t.v3, t.w53, NULL), F32, SHAPE(5));
    is_value(qn__linear(t.g, qn__reshape(t.g, t.x43, qn_shape_of(2, 2, 3)), t.w53, NULL), F32, SHAPE(2, 2, 5));
    is_value(qn__linear(t.g, qn__input(t.g, "x64", F32, SHAPE(2, 64)), t.q8, NULL), F32, SHAPE(2, 6));
    is_value(qn__get_rows(t.g, t.q8, t.ids2), F32, SHAPE(2, 64));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("linear: [4,3] x [5,2]: inner sizes 3 and 2 differ", qn__linear(g, t.x43, t.w52, NULL));
    REFUSED("linear: x is F16, F32 expected", qn__linear(g, t.f16, t.w53, NULL));
    REFUSED("linear: w is I32, a real or block type expected", qn__linear(g, t.x43, t.ibuf, NULL));
    REFUSED("linear: w is [3], 2 dimensions expected", qn__linear(g, t.x43, t.v3, NULL));
    REFUSED("linear: x is a scalar, at least 1 dimension expected", qn__linear(g, t.scalar, t.w53, NULL));
    REFUSED("linear: bias is [3], [5] expected", qn__linear(g, t.x43, t.w53, t.v3));
    REFUSED("linear: bias is I32, F32 expected", qn__linear(g, t.x43, t.w53, t.ids2));
    REFUSED("linear: source 1 is missing", qn__linear(g, t.x43, NULL, NULL));
    REFUSED("linear: 1 sources, 2 to 3 expected", qn__op(g, QN_OP_linear, NULL, &t.x43, 1));
    REFUSED("get_rows: table is I32, a real or block type expected", qn__get_rows(g, t.ibuf, t.ids2));
    REFUSED("get_rows: table is [3], 2 dimensions expected", qn__get_rows(g, t.v3, t.ids2));
    REFUSED("get_rows: ids is F32, I32 expected", qn__get_rows(g, t.x43, t.v3));
    REFUSED("get_rows: ids is [8,3], 1 dimension expected", qn__get_rows(g, t.x43, t.ibuf));
}

static void test_elementwise(void **state)
{
    (void)state;
    t = make();
    is_value(qn__add(t.g, t.x43, t.v3), F32, SHAPE(4, 3));
    is_value(qn__mul(t.g, t.v3, t.x43), F32, SHAPE(4, 3));
    is_value(qn__add(t.g, t.scalar, t.scalar), F32, &(qn_shape){0});
    is_value(qn__mul(t.g, qn__reshape(t.g, t.v5, qn_shape_of(5, 1)), t.v3), F32, SHAPE(5, 3));
    is_value(qn__scale(t.g, t.x43, 2, 1), F32, SHAPE(4, 3));
    is_value(qn__silu(t.g, qn__permute(t.g, t.x43, (int[]){1, 0}, 2)), F32, SHAPE(3, 4));
    is_value(qn__swiglu(t.g, t.x43, t.x43), F32, SHAPE(4, 3));
    is_value(qn__rms_norm(t.g, t.x43, t.v3, 1e-6f), F32, SHAPE(4, 3));
    is_value(qn__rms_norm(t.g, t.x43, NULL, 0), F32, SHAPE(4, 3));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("add: [4,3] and [3,5] do not broadcast", qn__add(g, t.x43, t.x35));
    REFUSED("mul: a is F32 and b is F16, one dtype expected", qn__mul(g, t.x43, t.f16));
    REFUSED("add: a is I32 and b is F32, one dtype expected", qn__add(g, t.ids2, t.x43));
    REFUSED("silu: x is I32, a real type expected", qn__silu(g, t.ids2));
    REFUSED("scale: x is I32, F32 expected", qn__scale(g, t.ids2, 2, 0));
    REFUSED("scale: factor inf and bias 2, finite numbers expected", qn__scale(g, t.x43, INFINITY, 2));
    REFUSED("swiglu: up is [3,5], [4,3] expected", qn__swiglu(g, t.x43, t.x35));
    REFUSED("swiglu: up is F32, F16 expected", qn__swiglu(g, t.f16, t.x43));
    REFUSED("rms_norm: w is [5], [3] expected", qn__rms_norm(g, t.x43, t.v5, 0));
    REFUSED("rms_norm: w is I32, F32 expected", qn__rms_norm(g, t.x43, t.ids2, 0));
    REFUSED("rms_norm: x is a scalar, at least 1 dimension expected", qn__rms_norm(g, t.scalar, NULL, 0));
    REFUSED("rms_norm: eps is -1, 0 or more expected", qn__rms_norm(g, t.x43, NULL, -1));
    REFUSED("rms_norm: eps is nan, 0 or more expected", qn__rms_norm(g, t.x43, NULL, NAN));
}

static qn_node *rope(qn_graph *g, const int64_t *shape, const qn_rope_attrs *attrs, int64_t n_pos, int64_t n_factors)
{
    qn_node *x = qn__input(g, "q", F32, SHAPE(shape[0], shape[1], shape[2]));
    qn_node *pos = qn__input(g, "pos", I32, SHAPE(n_pos));
    return qn__rope(g, x, pos, n_factors ? qn__input(g, "factors", F32, SHAPE(n_factors)) : NULL, attrs);
}

static void test_rope(void **state)
{
    (void)state;
    const int64_t s[] = {2, 3, 8};
    const qn_rope_attrs good = {.mode = QN_ROPE_NORM, .n_rot = 6, .base = 1e4f, .freq_scale = 1, .attn_factor = 1};
    qn_rope_attrs bad;
    t = make();
    is_value(rope(t.g, s, &good, 2, 0), F32, SHAPE(2, 3, 8));
    is_value(rope(t.g, s, &good, 2, 3), F32, SHAPE(2, 3, 8));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("rope: x is [4,3], 3 dimensions expected", qn__rope(g, t.x43, t.ids2, NULL, &good));
    REFUSED("rope: pos is F32, I32 expected",
            qn__rope(g, qn__reshape(g, t.x43, qn_shape_of(2, 1, 6)), t.v3, NULL, &good));
    REFUSED("rope: pos is [3], [2] expected", rope(g, s, &good, 3, 0));
    REFUSED("rope: factors is [4], [3] expected", rope(g, s, &good, 2, 4));
    bad = good, bad.sections[1] = 3;
    REFUSED("rope: pos is [2], [2,4] expected", rope(g, s, &bad, 2, 0));
    REFUSED("rope_table: pos is [2], with sections a last dimension of 4 is expected",
            qn__rope_table(g, t.ids2, NULL, &(qn_rope_table_attrs){bad, F32}));
    bad.sections[1] = 4;
    REFUSED("rope: section 1 has 4 pairs; 0 to 3 are possible",
            qn__rope_table(g, t.ids2, NULL, &(qn_rope_table_attrs){bad, F32}));
    REFUSED("rope: n_rot is 0, an even number from 2 to the head size 8 expected", rope(g, s, NULL, 2, 0));
    bad = good, bad.n_rot = 5;
    REFUSED("rope: n_rot is 5, an even number from 2 to the head size 8 expected", rope(g, s, &bad, 2, 0));
    bad = good, bad.n_rot = 10;
    REFUSED("rope: n_rot is 10, an even number from 2 to the head size 8 expected", rope(g, s, &bad, 2, 0));
    bad = good, bad.mode = 7;
    REFUSED("rope: mode 7, 0 or 1 expected", rope(g, s, &bad, 2, 0));
    bad = good, bad.freq_scale = 0;
    REFUSED("rope: base 10000 and freq_scale 0, positive numbers expected", rope(g, s, &bad, 2, 0));
    bad = good, bad.ext_factor = 1;
    REFUSED("rope: n_ctx_orig is 0, YaRN needs the context of training", rope(g, s, &bad, 2, 0));
    bad = good, bad.attn_factor = NAN;
    REFUSED("rope: attn_factor nan, ext_factor 0, beta_fast 0, beta_slow 0: finite numbers expected",
            rope(g, s, &bad, 2, 0));
}

static void test_updates(void **state)
{
    (void)state;
    t = make();
    qn_node *rows = qn__input(t.g, "rows", I32, SHAPE(4));
    qn_node *u = qn__set_rows(t.g, t.cache, t.x43, rows);
    is_value(u, QN_DTYPE_F16, SHAPE(8, 3));
    assert_ptr_equal(u->root, t.cache);
    assert_false(qn__node_is_view(u));
    u = qn__slice_update(t.g, u, t.x43, 0, 4, false);
    assert_ptr_equal(u->root, t.cache);
    u = qn__slice_update(t.g, u, qn__input(t.g, "col", F32, SHAPE(8, 1)), -1, 2, true);
    is_value(u, QN_DTYPE_F16, SHAPE(8, 3));
    qn__slice_update(t.g, t.ibuf, qn__input(t.g, "i", I32, SHAPE(2, 3)), 0, 0, false);
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    REFUSED("set_rows: the destination %0 input \"x43\" is not a mutable param",
            qn__set_rows(g, t.x43, t.x43, qn__input(g, "r", I32, SHAPE(4))));
    REFUSED("set_rows: the destination %7 param \"w53\" is not a mutable param",
            qn__set_rows(g, t.w53, t.x43, qn__input(g, "r", I32, SHAPE(4))));
    REFUSED("set_rows: rows is [2], [4] expected", qn__set_rows(g, t.cache, t.x43, t.ids2));
    REFUSED("set_rows: rows is F32, I32 expected", qn__set_rows(g, t.cache, t.x43, t.v3));
    REFUSED("set_rows: x is F16, F32 expected", qn__set_rows(g, t.cache, t.f16, t.ids2));
    REFUSED("set_rows: x is [3], 2 dimensions expected", qn__set_rows(g, t.cache, t.v3, t.ids2));
    REFUSED("set_rows: dst is [3], 2 dimensions expected", qn__set_rows(g, t.v3, t.x43, t.ids2));
    REFUSED("set_rows: x [3,5] into dst [8,3]: row sizes 5 and 3 differ", qn__set_rows(g, t.cache, t.x35, t.ids2));
    REFUSED("set_rows: x is F32, I32 expected", qn__set_rows(g, t.ibuf, t.x43, t.ids2));
    REFUSED("set_rows: nothing is converted to dst's type I64", qn__set_rows(g, t.lbuf, t.x43, t.ids2));
    REFUSED("slice_update: dimension 2 of dst [8,3] does not exist", qn__slice_update(g, t.cache, t.x43, 2, 0, false));
    REFUSED("slice_update: dimension -1 of dst [8,3] does not exist",
            qn__slice_update(g, t.cache, t.x43, -3, 0, false));
    REFUSED("slice_update: x [4,3] from 5 on leaves dimension 0 of dst [8,3]",
            qn__slice_update(g, t.cache, t.x43, 0, 5, false));
    REFUSED("slice_update: x [4,3] from -1 on leaves dimension 0 of dst [8,3]",
            qn__slice_update(g, t.cache, t.x43, 0, -1, false));
    REFUSED("slice_update: x is [3,5], [3,3] expected", qn__slice_update(g, t.cache, t.x35, 0, 0, false));
    REFUSED("slice_update: x is [3], 2 dimensions expected", qn__slice_update(g, t.cache, t.v3, 0, 0, false));
    REFUSED("slice_update: x I32 cannot be stored in F16 dst", qn__slice_update(g, t.cache, t.ids2, 0, 0, false));
    REFUSED("slice_update: x F16 cannot be added to F16 dst", qn__slice_update(g, t.cache, t.f16, 0, 0, true));
    REFUSED("slice_update: start 16 and size 32 don't divide into blocks of 32",
            qn__slice_update(g, qn__param(g, "b", QN_DTYPE_Q8_0, SHAPE(2, 64), NULL, 0, QN_NODE_mutable),
                             qn__input(g, "y", F32, SHAPE(2, 32)), 1, 16, false));
}

typedef struct attn_case {
    int64_t q[3], k[3], v[3], lists[2], spans[2], sinks; /* sinks: how many, 0: not a source */
} attn_case;

static qn_node *attention(qn_graph *g, attn_case c, qn_attn_attrs attrs)
{
    qn_node *q = qn__input(g, "q", F32, SHAPE(c.q[0], c.q[1], c.q[2]));
    qn_node *k = qn__param(g, "k", QN_DTYPE_F16, SHAPE(c.k[0], c.k[1], c.k[2]), NULL, 0, QN_NODE_mutable);
    qn_node *v = qn__param(g, "v", QN_DTYPE_F16, SHAPE(c.v[0], c.v[1], c.v[2]), NULL, 0, QN_NODE_mutable);
    qn_node *lists = qn__param(g, "lists", I32, SHAPE(c.lists[0], c.lists[1]), NULL, 0, 0);
    qn_node *spans = qn__input(g, "spans", I32, SHAPE(c.spans[0], c.spans[1]));
    qn_node *sinks = c.sinks ? qn__input(g, "sinks", F32, SHAPE(c.sinks)) : NULL;
    return qn__attention(g, &(qn_attn_sources){.q = q, .k = k, .v = v, .lists = lists, .spans = spans, .sinks = sinks},
                         &attrs);
}

static void test_attention(void **state)
{
    (void)state;
    const attn_case good = {{5, 4, 8}, {16, 2, 8}, {16, 2, 6}, {3, 16}, {5, 3}, 0};
    const qn_attn_attrs attrs = {.scale = 0.3f};
    attn_case c;
    t = make();
    is_value(attention(t.g, good, attrs), F32, SHAPE(5, 4 * 6));
    const qn_attn_attrs alibi = {.scale = 1, .alibi = 8};
    c = good, c.spans[1] = 4, c.lists[0] = 6;
    is_value(attention(t.g, c, alibi), F32, SHAPE(5, 4 * 6));
    c = good, c.sinks = 4;
    is_value(attention(t.g, c, attrs), F32, SHAPE(5, 4 * 6));
    OK(qn__graph_verify(t.g, err));
    qn__graph_destroy(t.g);
    c.sinks = 2;
    REFUSED("attention: sinks is [2], [4] expected", attention(g, c, attrs));
    c = good, c.k[2] = 6;
    REFUSED("attention: q [5,4,8] and k [16,2,6]: head sizes 8 and 6 differ", attention(g, c, attrs));
    c = good, c.v[0] = 15;
    REFUSED("attention: k [16,2,8] and v [15,2,6]: cells and heads differ", attention(g, c, attrs));
    c = good, c.q[1] = 3;
    REFUSED("attention: 3 query heads don't share 2 key heads evenly", attention(g, c, attrs));
    c = good, c.k[1] = c.v[1] = 0;
    REFUSED("attention: 4 query heads don't share 0 key heads evenly", attention(g, c, attrs));
    c = good, c.spans[1] = 2;
    REFUSED("attention: spans is [5,2], [5,3] expected", attention(g, c, attrs));
    c = good, c.spans[1] = 4, c.lists[0] = 5;
    REFUSED("attention: lists [5,16]: with ALiBi as many rows of positions as of cells expected",
            attention(g, c, alibi));
    REFUSED("attention: spans is [5,3], [5,4] expected", attention(g, good, alibi));
    REFUSED("attention: alibi -1: finite and 0 or more expected",
            attention(g, c, (qn_attn_attrs){.scale = 1, .alibi = -1}));
    REFUSED("attention: scale nan, softcap 0: finite and 0 or more expected",
            attention(g, good, (qn_attn_attrs){.scale = NAN}));
    REFUSED("attention: scale 1, softcap -1: finite and 0 or more expected",
            attention(g, good, (qn_attn_attrs){.scale = 1, .softcap = -1}));
    REFUSED("attention: q is [4,3], 3 dimensions expected",
            qn__attention(g, &(qn_attn_sources){t.x43, t.x43, t.x43, t.x43, t.x43, NULL}, &attrs));
    REFUSED("attention: k is I32, a real or block type expected",
            qn__attention(g,
                          &(qn_attn_sources){qn__reshape(g, t.x43, qn_shape_of(2, 2, 3)), t.ids2, t.x43, t.x43, t.x43,
                                             NULL},
                          &attrs));
}

/* Every row of ops.def is used somewhere above, has its own name and a formula. */
static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < QN_OP_COUNT; i++) {
        const qn_op_info *a = qn__op_info((qn_op)i);
        assert_true(a->name[0] != '\0' && a->formula[0] != '\0' && a->rule != NULL && a->attrs_bytes > 0);
        for (int j = 0; j < i; j++) assert_string_not_equal(a->name, qn__op_info((qn_op)j)->name);
    }
    assert_string_equal(qn__op_info(QN_OP_rms_norm)->name, "rms_norm");
    assert_string_equal(qn__op_info((qn_op)999)->name, "?");
    assert_true(qn__op_info(QN_OP_add)->inplace && !qn__op_info(QN_OP_linear)->inplace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),   cmocka_unit_test(test_views),       cmocka_unit_test(test_copy),
        cmocka_unit_test(test_products), cmocka_unit_test(test_elementwise), cmocka_unit_test(test_rope),
        cmocka_unit_test(test_updates),  cmocka_unit_test(test_attention),   cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
