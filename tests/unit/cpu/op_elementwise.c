/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_elementwise.c -- add, mul, scale, silu and swiglu: broadcasting, strided sources, odd sizes,
 * against double. */
#include "rig.h"

typedef struct source {
    qn_shape shape; /* as stored */
    int permute[4]; /* applied when `permuted` */
    bool permuted;
    int narrow_dim; /* applied after, when length > 0 */
    int64_t narrow_start, narrow_length;
} source;

typedef struct ew_case {
    qn_op op;
    source src[2];
    int n_src;
    qn_scale_attrs scale;
    tensor t[2];
} ew_case;

static qn_layout layout_of(const source *s)
{
    qn_layout l;
    OK(qn_layout_contiguous(&s->shape, &l, err));
    if (s->permuted) OK(qn_layout_permute(&l, s->permute, s->shape.rank, &l, err));
    if (s->narrow_length) OK(qn_layout_narrow(&l, s->narrow_dim, s->narrow_start, s->narrow_length, &l, err));
    return l;
}

static qn_node *build(rig *r, void *ctx)
{
    ew_case *c = ctx;
    qn_node *n[2];
    for (int i = 0; i < c->n_src; i++) {
        n[i] = rig_input(r, &c->t[i]);
        if (c->src[i].permuted) n[i] = qn__permute(r->g, n[i], c->src[i].permute, c->src[i].shape.rank);
        if (c->src[i].narrow_length)
            n[i] = qn__narrow(r->g, n[i], c->src[i].narrow_dim, c->src[i].narrow_start, c->src[i].narrow_length);
    }
    return qn__op(r->g, c->op, c->op == QN_OP_scale ? &c->scale : NULL, n, c->n_src);
}

static double at(const tensor *t, const qn_layout *l, const int64_t *index, int rank)
{
    int64_t e = l->offset;
    for (int i = 0; i < l->rank; i++) e += l->dim[i] == 1 ? 0 : index[i + rank - l->rank] * l->stride[i];
    return t->value[e];
}

static double oracle(const ew_case *c, double a, double b)
{
    switch (c->op) {
    case QN_OP_add: return a + b;
    case QN_OP_mul: return a * b;
    case QN_OP_scale: return c->scale.scale * a + c->scale.bias;
    case QN_OP_silu: return a / (1 + exp(-a));
    default: return a / (1 + exp(-a)) * b;
    }
}

static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const ew_case *c = ctx;
    const float *y = result;
    qn_layout l[2];
    qn_shape shape = {0};
    (void)r;
    for (int i = 0; i < c->n_src; i++) {
        l[i] = layout_of(&c->src[i]);
        const qn_shape s = qn_layout_shape(&l[i]);
        OK(qn_shape_broadcast(&shape, &s, &shape, err));
    }
    assert_int_equal(bytes, 4 * qn_shape_numel(&shape));
    int64_t index[QN_MAX_RANK] = {0};
    for (int64_t e = 0; e < (int64_t)bytes / 4; e++) {
        int64_t rest = e;
        for (int i = shape.rank - 1; i >= 0; i--) {
            index[i] = rest % shape.dim[i];
            rest /= shape.dim[i];
        }
        const double a = at(&c->t[0], &l[0], index, shape.rank),
                     b = c->n_src > 1 ? at(&c->t[1], &l[1], index, shape.rank) : 0;
        const double want = oracle(c, a, b);
        close_to(y[e], want, 4e-7 * fabs(want) + 2e-7 * (c->op == QN_OP_scale ? fabs(a * c->scale.scale) : 0),
                 "element", e);
    }
}

static void try_case(ew_case c)
{
    for (int i = 0; i < c.n_src; i++) c.t[i] = tensor_random(QN_DTYPE_F32, c.src[i].shape);
    for_levels(build, &c, check);
    for (int i = 0; i < c.n_src; i++) tensor_free(&c.t[i]);
}

static void test_dense(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 7, 33, 2048, 4099, 20011};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const source s = {.shape = qn_shape_of(sizes[i])};
        try_case((ew_case){.op = QN_OP_add, .src = {s, s}, .n_src = 2});
        try_case((ew_case){.op = QN_OP_mul, .src = {s, s}, .n_src = 2});
        try_case((ew_case){.op = QN_OP_scale, .src = {s}, .n_src = 1, .scale = {0.37f, -1.5f}});
        try_case((ew_case){.op = QN_OP_silu, .src = {s}, .n_src = 1});
        try_case((ew_case){.op = QN_OP_swiglu, .src = {s, s}, .n_src = 2});
    }
}

static void test_broadcast(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { qn_shape a, b; } cases[] = {
        {{2, {5, 33}}, {1, {33}}},           {{2, {5, 33}}, {2, {5, 1}}},       {{2, {1, 33}}, {2, {5, 1}}},
        {{3, {2, 1, 7}}, {3, {1, 3, 7}}},    {{3, {2, 3, 1}}, {1, {9}}},        {{0}, {2, {3, 4}}},
        {{4, {2, 3, 4, 5}}, {3, {3, 1, 5}}}, {{2, {3, 20001}}, {2, {3, 1}}},    {{1, {1}}, {1, {1}}},
        {{2, {0, 4}}, {1, {4}}},             {{2, {4, 1}}, {2, {4, 1}}},        {{3, {1, 1, 4097}}, {1, {1}}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const source a = {.shape = cases[i].a}, b = {.shape = cases[i].b};
        try_case((ew_case){.op = QN_OP_add, .src = {a, b}, .n_src = 2});
        try_case((ew_case){.op = QN_OP_mul, .src = {b, a}, .n_src = 2});
    }
}

static void test_strided(void **state)
{
    (void)state;
    const source transposed = {.shape = qn_shape_of(5, 9, 37), .permute = {2, 0, 1}, .permuted = true};
    const source cut = {.shape = qn_shape_of(37, 5, 20), .narrow_dim = 2, .narrow_start = 3, .narrow_length = 9};
    const source both = {.shape = qn_shape_of(9, 9, 37),
                         .permute = {2, 0, 1},
                         .permuted = true,
                         .narrow_dim = 1,
                         .narrow_start = 2,
                         .narrow_length = 5};
    const source *all[] = {&transposed, &cut, &both};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            try_case((ew_case){.op = QN_OP_add, .src = {*all[i], *all[j]}, .n_src = 2});
            try_case((ew_case){.op = QN_OP_swiglu, .src = {*all[i], *all[j]}, .n_src = 2});
        }
        try_case((ew_case){.op = QN_OP_scale, .src = {*all[i]}, .n_src = 1, .scale = {-2.5f, 0.25f}});
        try_case((ew_case){.op = QN_OP_silu, .src = {*all[i]}, .n_src = 1});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dense), cmocka_unit_test(test_broadcast),
                                       cmocka_unit_test(test_strided)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
