/* SPDX-License-Identifier: MIT */
/* tests/unit/array/random.c -- random tensors: of a seed, whatever the threads; within their range, and distributed as
 * they should. */
#include "rig.h"

enum { N = 200000 };

static qn_context *context_of(int n_threads)
{
    qn_context *c = NULL;
    qn_error err = {0};
    if (qn_context_create(&(qn_context_options){.n_threads = n_threads}, &c, &err) != QN_OK) fail_msg("%s", err.text);
    return c;
}

static double sum_of(qn_tensor *t) { return qn_item(qn_sum(qn_to(t, QN_DTYPE_F64), QN_ALL, false)); }

/* The first four moments, within six deviations of what they would be by chance. */
static void moments(qn_tensor *t, double mean, double variance, double fourth, double low, double high)
{
    qn_tensor *x = qn_to(t, QN_DTYPE_F64), *centred = qn_sub_number(x, mean), *square = qn_mul(centred, centred);
    const double n = (double)qn_numel(t), third = sum_of(qn_mul(square, centred)) / n;
    const double m = sum_of(x) / n, v = sum_of(square) / n, f = sum_of(qn_mul(square, square)) / n;
    if (fabs(m - mean) > 6 * sqrt(variance / n)) fail_msg("mean %g, %g expected", m, mean);
    if (fabs(v - variance) > 6 * sqrt((fourth - variance * variance) / n))
        fail_msg("variance %g, %g expected", v, variance);
    if (fabs(third) > 6 * sqrt(15 * variance * variance * variance / n)) fail_msg("third moment %g", third);
    if (fabs(f - fourth) > 6 * sqrt(105 * variance * variance * variance * variance / n))
        fail_msg("fourth moment %g, %g expected", f, fourth);
    const double least = qn_item(qn_amin(x, QN_ALL, false)), most = qn_item(qn_amax(x, QN_ALL, false));
    if (least < low || most > high) fail_msg("%g to %g, %g to %g expected", least, most, low, high);
    /* Neighbours know nothing of each other. */
    const double with_next =
        sum_of(qn_mul(qn_narrow(centred, 0, 0, qn_numel(t) - 1), qn_narrow(centred, 0, 1, qn_numel(t) - 1))) / n;
    if (fabs(with_next) > 6 * variance / sqrt(n)) fail_msg("neighbours: %g", with_next);
}

static void distributions(void **state)
{
    (void)state;
    static const qn_dtype types[] = {F32, QN_DTYPE_F64, QN_DTYPE_F16, QN_DTYPE_BF16};
    qn_context *c = context_of(2);
    const qn_shape shape = qn_shape_of(N);
    for (int i = 0; i < 4; i++) {
        const double most = i < 2 ? 0x1.fffffffffffffp-1 : 1; /* short types round */
        moments(qn_uniform(c, shape, -3, 5, types[i]), 1, 64.0 / 12, 4096.0 / 80, -3, 5);
        if (i == 3) continue; /* eight bits show in the fourth moment */
        moments(qn_rand(c, shape, types[i]), 0.5, 1.0 / 12, 1.0 / 80, 0, most);
        moments(qn_randn(c, shape, types[i]), 0, 1, 3, -8, 8);
        moments(qn_normal(c, shape, 2, 3, types[i]), 2, 9, 243, -25, 30);
    }
    moments(qn_randint(c, -2, 3, shape, QN_DTYPE_I64), 0, 2, 6.8, -2, 2);
    moments(qn_randint(c, 0, 2, shape, QN_DTYPE_U8), 0.5, 0.25, 0.0625, 0, 1);
    qn_tensor *p = qn_full(c, shape, 0.25, F32), *b = qn_bernoulli(p);
    assert_true(fabs(sum_of(b) - 0.25 * N) < 6 * sqrt(N * 0.25 * 0.75));
    assert_true(sum_of(qn_mul(b, b)) == sum_of(b)); /* 0 or 1 */
    assert_true(sum_of(qn_bernoulli(qn_zeros(c, shape, F32))) == 0 &&
                sum_of(qn_bernoulli(qn_ones(c, shape, F32))) == N);
    context_end(c);
}

static void permutations(void **state)
{
    (void)state;
    qn_context *c = context_of(2);
    qn_tensor *p = qn_randperm(c, 10000), *sorted = qn_sort(p, 0, false, NULL);
    assert_true(qn_item(qn_all(qn_eq(sorted, qn_arange(c, 0, 10000, 1, QN_DTYPE_I64)), QN_ALL, false)) == 1);
    assert_true(qn_item(qn_sum(qn_eq(p, sorted), QN_ALL, false)) < 20); /* few stay in place: one on average */
    assert_int_equal(qn_numel(qn_randperm(c, 0)), 0);
    /* Of three, each of the six orders. */
    int count[6] = {0};
    for (int i = 0; i < 600; i++) {
        int64_t v[3];
        OK(c, qn_scope_begin(c));
        OK(c, qn_to_ints(qn_randperm(c, 3), v, 3));
        (void)qn_scope_end(c, NULL);
        count[v[0] * 2 + (v[1] > v[2])]++;
    }
    for (int i = 0; i < 6; i++) assert_true(count[i] > 50 && count[i] < 150);
    context_end(c);
}

static void dropout(void **state)
{
    (void)state;
    qn_context *c = context_of(2);
    qn_tensor *x = qn_requires_grad_(qn_ones(c, qn_shape_of(N), F32), true), *y = qn_dropout(x, 0.2, true);
    OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
    const double kept = sum_of(qn_ne(qn_detach(y), qn_zeros(c, QN_SCALAR, F32)));
    assert_true(fabs(kept - 0.8 * N) < 6 * sqrt(N * 0.16));
    assert_true(fabs(sum_of(qn_detach(y)) - kept * 1.25) < 1e-3 * N);
    /* the gradient went where the value went */
    assert_true(qn_item(qn_all(qn_eq(qn_grad(x), qn_detach(y)), QN_ALL, false)) == 1);
    assert_true(sum_of(qn_dropout(qn_detach(x), 0.2, false)) == N && sum_of(qn_dropout(qn_detach(x), 0, true)) == N);
    assert_true(sum_of(qn_dropout(qn_detach(x), 1, true)) == 0);
    context_end(c);
}

/* The same bits for one seed, with any number of threads; others for another seed, and for the next draw. */
static void reproducible(void **state)
{
    (void)state;
    enum { M = 30001 };
    static double first[4][M], again[M];
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        qn_context *c = context_of(n_threads);
        for (int round = 0; round < 2; round++) {
            qn_manual_seed(c, 42);
            for (int i = 0; i < 4; i++) {
                const qn_shape shape = qn_shape_of(M);
                qn_tensor *t = i == 0   ? qn_rand(c, shape, F32)
                               : i == 1 ? qn_randn(c, shape, F32)
                               : i == 2 ? qn_randint(c, 0, 1000, shape, QN_DTYPE_I32)
                                        : qn_dropout(qn_ones(c, shape, F32), 0.5, true);
                OK(c, qn_to_doubles(t, n_threads == 1 && round == 0 ? first[i] : again, M));
                if (n_threads > 1 || round > 0) assert_memory_equal(first[i], again, sizeof again);
            }
        }
        OK(c, qn_to_doubles(qn_rand(c, qn_shape_of(M), F32), again, M)); /* the next draw */
        assert_memory_not_equal(first[0], again, sizeof again);
        qn_manual_seed(c, 43);
        OK(c, qn_to_doubles(qn_rand(c, qn_shape_of(M), F32), again, M));
        assert_memory_not_equal(first[0], again, sizeof again);
        context_end(c);
    }
}

static void refused(void **state)
{
    (void)state;
    qn_context *c = context_of(1);
    const qn_shape shape = qn_shape_of(3);
    REFUSED(c, qn_rand(c, shape, QN_DTYPE_I32), "I32");
    REFUSED(c, qn_randn(c, shape, QN_DTYPE_BOOL), "BOOL");
    REFUSED(c, qn_randint(c, 3, 3, shape, QN_DTYPE_I64), "randint");
    REFUSED(c, qn_uniform(c, shape, 1, 0, F32), "uniform");
    REFUSED(c, qn_normal(c, shape, 0, -1, F32), "normal");
    REFUSED(c, qn_randperm(c, -1), "randperm");
    REFUSED(c, qn_dropout(qn_ones(c, shape, F32), 1.5, true), "dropout");
    REFUSED(c, qn_bernoulli(qn_ones(c, shape, QN_DTYPE_I64)), "bernoulli");
    assert_int_equal(qn_numel(qn_rand(c, qn_shape_of(0, 3), F32)), 0);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(distributions), cmocka_unit_test(permutations),
                                       cmocka_unit_test(dropout), cmocka_unit_test(reproducible),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
