/* SPDX-License-Identifier: MIT */
/* tests/unit/array/attention.c -- attention on handles: how many nodes it takes, gradients through both of its ways,
 * what is refused. Its values beside PyTorch's are in parity.inc, the gradients of its operation in gradient_cases.inc.
 */
#include "rig.h"

#include "array/array.h"

enum { N = 2 * 4 * 5 * 4 };

static qn_tensor *numbers(qn_context *c, int seed, qn_shape shape, qn_dtype dtype)
{
    double v[N];
    for (int64_t i = 0; i < qn_shape_numel(&shape); i++) v[i] = (double)((i * 37 + seed * 11 + 5) % 101) / 50 - 1;
    qn_tensor *t = qn_to(qn_from_data(c, v, shape, QN_DTYPE_F64), dtype);
    GOOD(c, t);
    return t;
}

static int count(const qn_context *c, qn_op op)
{
    int n = 0;
    for (int32_t i = 0; i < c->graph->n_nodes; i++) n += c->graph->nodes[i]->op == op;
    return n;
}

/* From rows [batch, n, heads * d], as products give them, to such rows: no copies, there and back. */
static void one_node_each_way(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = numbers(c, 1, qn_shape_of(2, 5, 8), F32), *dy = numbers(c, 2, qn_shape_of(2, 5, 8), F32), *heads[3];
    OK(c, qn_eval_all(c));
    GOOD(c, qn_requires_grad_(x, true));
    for (int i = 0; i < 3; i++)
        heads[i] = qn_transpose(qn_view_as(qn_mul_number(x, 1 + i), qn_shape_of(2, 5, 2, 4)), 1, 2);
    qn_tensor *y = qn_scaled_dot_product_attention(heads[0], heads[1], heads[2], &(qn_sdpa_options){.is_causal = true});
    qn_tensor *rows = qn_view_as(qn_transpose(y, 1, 2), qn_shape_of(2, 5, 8));
    GOOD(c, rows);
    OK(c, qn_backward_with(rows, dy, false));
    assert_int_equal(count(c, QN_OP_sdpa), 1);
    assert_int_equal(count(c, QN_OP_sdpa_back), 1);
    assert_int_equal(count(c, QN_OP_copy), 0);
    SHAPE(qn_grad(x), 2, 5, 8);
    context_end(c);
}

typedef struct inputs {
    qn_tensor *q, *k, *v, *mask, *sinks;
} inputs;

static inputs make(qn_context *c, bool mask_learns)
{
    inputs in = {numbers(c, 1, qn_shape_of(2, 4, 5, 4), QN_DTYPE_F64),
                 numbers(c, 2, qn_shape_of(2, 2, 3, 4), QN_DTYPE_F64),
                 numbers(c, 3, qn_shape_of(2, 2, 3, 2), QN_DTYPE_F64),
                 numbers(c, 4, qn_shape_of(4, 5, 1), QN_DTYPE_F64), numbers(c, 5, qn_shape_of(4), QN_DTYPE_F64)};
    qn_tensor *all[] = {in.q, in.k, in.v, in.sinks};
    for (int i = 0; i < 4; i++) GOOD(c, qn_requires_grad_(all[i], true));
    if (mask_learns) GOOD(c, qn_requires_grad_(in.mask, true));
    return in;
}

static qn_tensor *attend(const inputs *in)
{
    return qn_scaled_dot_product_attention(
        in->q, in->k, in->v,
        &(qn_sdpa_options){.mask = in->mask, .sinks = in->sinks, .softcap = 0.8, .enable_gqa = true});
}

static void close_values(qn_context *c, qn_tensor *a, qn_tensor *b)
{
    double x[N], y[N];
    GOOD(c, a);
    GOOD(c, b);
    const int64_t n = qn_numel(a);
    assert_int_equal(qn_numel(b), n);
    OK(c, qn_to_doubles(a, x, n));
    OK(c, qn_to_doubles(b, y, n));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(x[i] - y[i]) <= 1e-12)) fail_msg("element %d: %.17g and %.17g", (int)i, x[i], y[i]);
}

static double weighed(qn_context *c, qn_tensor *y)
{
    double v[N], sum = 0;
    GOOD(c, y);
    OK(c, qn_to_doubles(y, v, qn_numel(y)));
    for (int64_t i = 0; i < qn_numel(y); i++) sum += v[i] * (double)(i % 7 - 2);
    return sum;
}

/* A mask that learns takes the other way; the gradients of all else are the same, and its own is the difference
 * quotient. */
static void both_ways_agree(void **state)
{
    (void)state;
    qn_context *c = context_new();
    inputs a = make(c, false), b = make(c, true);
    qn_tensor *y = attend(&a), *z = attend(&b);
    close_values(c, y, z);
    double dy[N];
    for (int i = 0; i < 2 * 4 * 5 * 2; i++) dy[i] = (double)(i % 7 - 2);
    qn_tensor *grad = qn_from_data(c, dy, qn_shape_of(2, 4, 5, 2), QN_DTYPE_F64);
    OK(c, qn_backward_with(y, grad, false));
    OK(c, qn_backward_with(z, grad, false));
    close_values(c, qn_grad(a.q), qn_grad(b.q));
    close_values(c, qn_grad(a.k), qn_grad(b.k));
    close_values(c, qn_grad(a.v), qn_grad(b.v));
    close_values(c, qn_grad(a.sinks), qn_grad(b.sinks));
    double have[20], at[20];
    OK(c, qn_to_doubles(qn_grad(b.mask), have, 20));
    OK(c, qn_to_doubles(b.mask, at, 20));
    for (int i = 0; i < 20; i++) {
        double value[2];
        for (int side = 0; side < 2; side++) {
            double moved[20];
            memcpy(moved, at, sizeof moved);
            moved[i] += side ? 0x1p-17 : -0x1p-17;
            a.mask = qn_from_data(c, moved, qn_shape_of(4, 5, 1), QN_DTYPE_F64);
            value[side] = weighed(c, attend(&a));
        }
        assert_true(fabs((value[1] - value[0]) * 0x1p16 - have[i]) < 1e-7);
    }
    context_end(c);
}

/* Each weight is dropped or doubled: with equal scores and two keys, each row is one of four sums. */
static void drops_weights(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *q = qn_zeros(c, qn_shape_of(2, 16, 4), F32), *k = qn_zeros(c, qn_shape_of(2, 2, 4), F32);
    qn_tensor *v = qn_expand(qn_view_as(qn_arange(c, 1, 3, 1, F32), qn_shape_of(1, 2, 1)), qn_shape_of(2, 2, 1));
    double y[32];
    int seen[4] = {0};
    qn_manual_seed(c, 7);
    OK(c, qn_to_doubles(qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){.dropout_p = 0.5}), y, 32));
    for (int i = 0; i < 32; i++) {
        assert_true(y[i] == 0 || y[i] == 1 || y[i] == 2 || y[i] == 3);
        seen[(int)y[i]]++;
    }
    for (int i = 0; i < 4; i++) assert_true(seen[i] > 0);
    OK(c, qn_to_doubles(qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){.dropout_p = 1}), y, 32));
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
    context_end(c);
}

static void refuses(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *q = qn_zeros(c, qn_shape_of(1, 4, 3, 8), F32), *k = qn_zeros(c, qn_shape_of(1, 2, 5, 8), F32);
    qn_tensor *mask = qn_ones(c, qn_shape_of(3, 5), QN_DTYPE_BOOL);
#define TRY(q, k, v, ...) qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){__VA_ARGS__})
    REFUSED(c, TRY(q, k, k, 0),
            "scaled_dot_product_attention: q [1,4,3,8], k [1,2,5,8], v [1,2,5,8]: heads differ; enable_gqa lets heads");
    REFUSED(c, TRY(q, qn_zeros(c, qn_shape_of(1, 3, 5, 8), F32), k, .enable_gqa = true), "k and v differ in heads");
    REFUSED(c, TRY(qn_narrow(q, 1, 0, 3), k, k, .enable_gqa = true),
            "heads of q must be a multiple of those of k and v");
    REFUSED(c, TRY(qn_narrow(q, 3, 0, 7), k, k, 0), "rows of q and k differ in size");
    REFUSED(c, TRY(q, k, qn_narrow(k, 2, 0, 4), 0), "k and v differ in rows");
    REFUSED(c, TRY(q, k, qn_to(k, QN_DTYPE_F64), 0), "one real dtype expected");
    REFUSED(c, TRY(q, q, q, .mask = mask), "the mask [3,5] does not broadcast to 4 heads of [3,3]");
    REFUSED(c, TRY(k, k, k, .mask = mask, .is_causal = true), "a mask and is_causal exclude each other");
    REFUSED(c, TRY(k, k, k, .window = 3), "a window must not be below 0, and goes with is_causal");
    REFUSED(c, TRY(k, k, k, .dropout_p = 1.5), "dropout_p must be from 0 to 1");
    REFUSED(c, TRY(k, k, k, .softcap = -1), "the softcap not below 0");
    REFUSED(c, TRY(k, k, k, .scale = NAN), "scale and softcap must be finite");
    REFUSED(c, TRY(k, k, k, .sinks = qn_zeros(c, qn_shape_of(3), F32)), "the sinks must be one number a head of q");
    REFUSED(c, TRY(k, k, k, .sinks = qn_zeros(c, qn_shape_of(2), QN_DTYPE_F64)), "the sinks must have the dtype of q");
    REFUSED(c, TRY(k, k, k, .mask = qn_zeros(c, qn_shape_of(5, 5), QN_DTYPE_I32)),
            "the mask must be BOOL, F32 or of the dtype of q");
    REFUSED(c, TRY(qn_zeros(c, qn_shape_of(2, 1, 3, 8), F32), qn_zeros(c, qn_shape_of(3, 1, 3, 8), F32), k, 0),
            "batch dimensions do not broadcast");
    REFUSED(c, qn_scaled_dot_product_attention(NULL, k, k, NULL), "attention: tensor 0 is NULL");
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_each_way),
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(drops_weights),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
