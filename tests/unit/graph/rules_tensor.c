/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/rules_tensor.c -- products, indexing, joining, padding, convolution and pooling: shapes, and the
 * exact message for what is refused. */
#include "common.h"
#include "builders.h"

static qn_graph *g;
static qn_node *in(qn_dtype dtype, qn_shape shape) { return qn__input(g, "x", dtype, &shape); }
#define X(...) in(F32, qn_shape_of(__VA_ARGS__))
#define I(...) in(QN_DTYPE_I64, qn_shape_of(__VA_ARGS__))

#define REFUSED(text, ...) \
    do { \
        g = graph_new(); \
        (void)(__VA_ARGS__); \
        graph_fails(g, QN_STATUS_invalid, text); \
    } while (0)

static void is(const qn_node *n, qn_dtype dtype, const char *shape)
{
    const qn_shape have = qn_node_shape(n);
    char text[192];
    assert_string_equal(qn_shape_print(&have, text, sizeof text), shape);
    assert_int_equal(qn_node_dtype(n), dtype);
}

static void test_shapes(void **state)
{
    (void)state;
    g = graph_new();
    const qn_conv_attrs conv = {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .n_spatial = 2, .groups = 1};
    const qn_pool_attrs pool = {
        .kernel = {3}, .stride = {2}, .padding = {1}, .dilation = {1}, .n_spatial = 1, .ceil_mode = 1};
    is(qn__matmul(g, X(2, 1, 4, 3), X(5, 3, 6)), F32, "[2,5,4,6]");
    is(qn__matmul(g, X(3), X(5, 3, 6)), F32, "[5,6]");
    is(qn__matmul(g, X(5, 4, 3), X(3)), F32, "[5,4]");
    is(qn__matmul(g, X(3), X(3)), F32, "[]");
    is(qn__gather(g, X(4, 5), 1, I(3, 9)), F32, "[3,9]");
    is(qn__index_select(g, I(4, 5), -1, I(2)), QN_DTYPE_I64, "[4,2]");
    is(qn__cat(g, (qn_node *[]){X(2, 3), X(0, 3), X(4, 3)}, 3, 0), F32, "[6,3]");
    is(qn__stack(g, (qn_node *[]){X(2, 3), X(2, 3)}, 2, -1), F32, "[2,3,2]");
    is(qn__cat(g, (qn_node *[]){X(2, 3)}, 1, 1), F32, "[2,3]");
    is(qn__stack(g, (qn_node *[]){X(2, 3)}, 1, 0), F32, "[1,2,3]");
    is(qn__repeat(g, X(2, 3), (int64_t[]){4, 1, 2}, 3), F32, "[4,2,6]");
    is(qn__topk(g, X(4, 5), 2, 0, true), QN_DTYPE_I64, "[2,5]");
    is(qn__pad(g, X(4, 5), (int64_t[]){1, -2}, (int64_t[]){0, 3}, 0), F32, "[5,6]");
    is(qn__diagonal(g, X(4, 5), -1, 0, 1), F32, "[3]");
    is(qn__diagonal(g, X(4, 5), 7, 0, 1), F32, "[0]");
    is(qn__conv(g, X(2, 3, 9, 8), X(4, 3, 3, 3), NULL, &conv), F32, "[2,4,5,4]");
    is(qn__pool(g, X(2, 3, 8), &pool), F32, "[2,3,5]");
    /* rounded up, the first window may reach over the end too, if it starts inside */
    const qn_pool_attrs over = {.kernel = {5}, .stride = {3}, .dilation = {1}, .n_spatial = 1, .ceil_mode = 1};
    is(qn__pool(g, X(2, 3, 3), &over), F32, "[2,3,1]");
    is(qn__pool(g, X(2, 3, 6), &over), F32, "[2,3,2]");
    OK(qn__graph_finish(g, err));
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);
}

static void test_refused(void **state)
{
    (void)state;
    const qn_conv_attrs conv = {.stride = {1}, .dilation = {1}, .n_spatial = 1, .groups = 1};
    const qn_pool_attrs pool = {.kernel = {5}, .stride = {1}, .dilation = {1}, .n_spatial = 1};
    REFUSED("matmul: [4,3] x [5,2]: inner sizes 3 and 5 differ", qn__matmul(g, X(4, 3), X(5, 2)));
    REFUSED("matmul: [2,4,3] x [3,3,2]: batch dimensions do not broadcast", qn__matmul(g, X(2, 4, 3), X(3, 3, 2)));
    REFUSED("matmul: F32 and I64, one dtype expected", qn__matmul(g, X(4, 3), I(3, 2)));
    REFUSED("matmul: a is BOOL, a real or integer type expected",
            qn__matmul(g, in(QN_DTYPE_BOOL, qn_shape_of(2, 2)), in(QN_DTYPE_BOOL, qn_shape_of(2, 2))));
    REFUSED("matmul: c [3] does not broadcast to the product [4,2]", qn__addmm(g, X(3), X(4, 3), X(3, 2), 1, 1));
    REFUSED("gather: ids is F32, I64 or I32 expected", qn__gather(g, X(3), 0, X(3)));
    REFUSED("gather: ids [4,3] are larger than [3,3] in dimension 0", qn__gather(g, X(3, 3), 1, I(4, 3)));
    REFUSED("gather: dimension 2 of [3,3] does not exist", qn__gather(g, X(3, 3), 2, I(3, 3)));
    REFUSED("scatter: ids [3,3] are larger than src [3,2] in dimension 1",
            qn__scatter(g, X(3, 3), 0, I(3, 3), X(3, 2), QN_COMBINE_add));
    REFUSED("index_add: src is [3,3], [2,3] expected", qn__index_add(g, X(4, 3), 0, I(2), X(3, 3), QN_COMBINE_add));
    REFUSED("cat: [2,3] and [2,4] differ in more than dimension 0", qn__cat(g, (qn_node *[]){X(2, 3), X(2, 4)}, 2, 0));
    REFUSED("cat: nothing to join", qn__cat(g, (qn_node *[]){X(2, 3)}, 0, 0));
    REFUSED("stack: nothing to join", qn__stack(g, (qn_node *[]){X(2, 3)}, 0, 0));
    REFUSED("stack: source 1 is not like source 0", qn__stack(g, (qn_node *[]){X(2, 3), X(3)}, 2, 0));
    REFUSED("sum: dimension -1 of [2,3] is named twice",
            qn__reduce(g, QN_OP_sum, X(2, 3), (int[]){1, -1}, 2, false, 0));
    REFUSED("sum: dimension 2 of [2,3] does not exist", qn__reduce(g, QN_OP_sum, X(2, 3), (int[]){2}, 1, false, 0));
    REFUSED("topk: k is 6, 0 to 5 expected for dimension 1 of [4,5]", qn__topk(g, X(4, 5), 6, 1, true));
    REFUSED("pad: 3 before and 0 after a dimension of size 3, at most 2 expected",
            qn__pad_like(g, X(3), (int64_t[]){3}, (int64_t[]){0}, QN_PAD_reflect));
    REFUSED("pad: -2 before and -2 after dimension 0 of [3] leave nothing",
            qn__pad(g, X(3), (int64_t[]){-2}, (int64_t[]){-2}, 0));
    REFUSED("conv: [2,3,9] x [4,2,3]: 3 channels a group, the weight has 2",
            qn__conv(g, X(2, 3, 9), X(4, 2, 3), NULL, &conv));
    REFUSED("conv: a kernel that reaches over 3 does not fit into 2 (with padding) of spatial dimension 0",
            qn__conv(g, X(2, 3, 2), X(4, 3, 3), NULL, &conv));
    REFUSED("pool: a window that reaches over 5 leaves nothing of 4 in spatial dimension 0",
            qn__pool(g, X(2, 3, 4), &pool));
    const qn_pool_attrs over = {.kernel = {5}, .stride = {3}, .dilation = {1}, .n_spatial = 1, .ceil_mode = 1};
    REFUSED("pool: a window that reaches over 5 leaves nothing of 2 in spatial dimension 0",
            qn__pool(g, X(2, 3, 2), &over));
    REFUSED("random: state is F32, I64 expected", qn__random(g, X(2), QN_RANDOM_uniform, F32, qn_shape_of(3), 0, 1, 0));
    REFUSED("strided_update: [2,2] with strides [1,1] would write some element twice",
            qn__strided_update(g, X(3, 3), X(2, 2), &(qn_layout){.rank = 2, .dim = {2, 2}, .stride = {1, 1}},
                               QN_COMBINE_set));
    REFUSED("strided_update: elements 0 to 10 of dst [3,3]",
            qn__strided_update(g, X(3, 3), X(10), &(qn_layout){.rank = 1, .dim = {10}, .stride = {1}}, QN_COMBINE_set));
    qn_node *x;
    REFUSED("assign: the destination %0 input \"x\" is not a mutable param", x = X(2), qn__assign(g, x, x));
    REFUSED("assign: blocks of Q8_0 are moved in one piece, from one into one",
            x = qn__param(g, "q", QN_DTYPE_Q8_0, &qn_shape_of(2, 64), NULL, 0, QN_NODE_mutable),
            qn__assign(g, qn__narrow(g, x, 1, 0, 32), qn__narrow(g, in(QN_DTYPE_Q8_0, qn_shape_of(2, 64)), 1, 0, 32)));
    qn_node *p, *numbers, *one;
#define OPTIM(op, attrs, g_or_state) \
    (p = qn__param(g, "p", F32, &qn_shape_of(4), NULL, 0, QN_NODE_mutable), \
     numbers = in(QN_DTYPE_F64, qn_shape_of(QN_OPTIM_NUMBERS)), one = in(QN_DTYPE_F64, (qn_shape){0}), \
     qn__op(g, op, attrs, (qn_node *[]){p, g_or_state, numbers, one}, op == QN_OP_adam_step ? 3 : 4))
    REFUSED("sgd_step: the gradient is [5] for a destination [4]", OPTIM(QN_OP_sgd_step, NULL, X(5)));
    REFUSED("sgd_step: the gradient is F64 for a destination that is F32",
            OPTIM(QN_OP_sgd_step, NULL, in(QN_DTYPE_F64, qn_shape_of(4))));
    REFUSED("sgd_step: 4 sources, 5 expected", OPTIM(QN_OP_sgd_step, &(qn_sgd_attrs){QN_SGD_nesterov}, X(4)));
    REFUSED("adam_moments: the state is [4], 2 dimensions expected", OPTIM(QN_OP_adam_moments, NULL, X(4)));
    REFUSED("adam_step: the state is [4,4], 2 or 3 rows expected", OPTIM(QN_OP_adam_step, NULL, X(4, 4)));
    REFUSED("sum_squares: a source is I64, a real type expected",
            qn__op(g, QN_OP_sum_squares, NULL, (qn_node *[]){I(3)}, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
