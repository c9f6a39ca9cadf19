/* SPDX-License-Identifier: MIT */
/* tests/unit/array/losses.c -- losses of 16-bit tensors, which are computed in F32 and rounded once: those of the same
 * values in F32, rounded, whatever overflows or is lost on the way in 16 bits. Values of all losses are compared in
 * parity.c. */
#include "rig.h"

static const qn_dtype halves[] = {QN_DTYPE_F16, QN_DTYPE_BF16};

/* ---- each loss against itself in F32 ---- */

/* a: any numbers, p and q: probabilities, w: weights */
typedef struct inputs {
    qn_tensor *a, *b, *p, *q, *w, *ids;
    qn_reduction reduction;
} inputs;

static qn_tensor *mse(const inputs *i) { return qn_mse_loss(i->a, i->b, i->reduction); }
static qn_tensor *l1(const inputs *i) { return qn_l1_loss(i->a, i->b, i->reduction); }
static qn_tensor *smooth_l1(const inputs *i) { return qn_smooth_l1_loss(i->a, i->b, 0.75, i->reduction); }
static qn_tensor *huber(const inputs *i) { return qn_huber_loss(i->a, i->b, 50, i->reduction); }
static qn_tensor *bce(const inputs *i) { return qn_binary_cross_entropy(i->p, i->q, NULL, i->reduction); }
static qn_tensor *weighed_bce(const inputs *i) { return qn_binary_cross_entropy(i->p, i->q, i->w, i->reduction); }
static qn_tensor *logits_bce(const inputs *i)
{
    return qn_binary_cross_entropy_with_logits(i->a, i->q, NULL, NULL, i->reduction);
}
static qn_tensor *weighed_logits_bce(const inputs *i)
{
    return qn_binary_cross_entropy_with_logits(i->a, i->q, i->w, i->w, i->reduction);
}
static qn_tensor *kl(const inputs *i) { return qn_kl_div(i->a, i->q, false, i->reduction); }
static qn_tensor *kl_of_logs(const inputs *i) { return qn_kl_div(i->a, qn_neg(i->p), true, i->reduction); }
static qn_tensor *nll(const inputs *i)
{
    return qn_nll_loss(i->a, i->ids, &(qn_cross_entropy_options){.reduction = i->reduction});
}
static qn_tensor *weighed_nll(const inputs *i)
{
    qn_tensor *w = qn_select(i->w, 0, 0);
    return qn_nll_loss(i->a, i->ids, &(qn_cross_entropy_options){.reduction = i->reduction, .weight = w});
}
static qn_tensor *of_probabilities(const inputs *i)
{
    qn_tensor *w = qn_select(i->w, 0, 0);
    return qn_cross_entropy(
        i->a, i->q, &(qn_cross_entropy_options){.reduction = i->reduction, .weight = w, .label_smoothing = 0.125});
}

static const struct {
    const char *name;
    qn_tensor *(*loss)(const inputs *i);
} losses[] = {
    {"mse_loss", mse},
    {"l1_loss", l1},
    {"smooth_l1_loss", smooth_l1},
    {"huber_loss", huber},
    {"binary_cross_entropy", bce},
    {"binary_cross_entropy, weighed", weighed_bce},
    {"binary_cross_entropy_with_logits", logits_bce},
    {"binary_cross_entropy_with_logits, weighed", weighed_logits_bce},
    {"kl_div", kl},
    {"kl_div of logarithms", kl_of_logs},
    {"nll_loss", nll},
    {"nll_loss, weighed", weighed_nll},
    {"cross_entropy of probabilities", of_probabilities},
};

enum { ROWS = 4, CLASSES = 6 };

/* Numbers that both 16-bit types hold. */
static qn_tensor *some(qn_context *c, int seed, double from, double to)
{
    float v[ROWS * CLASSES];
    for (int i = 0; i < ROWS * CLASSES; i++)
        v[i] = (float)(from + (to - from) * ((i * 37 + seed * 11 + 5) % 101) / 101);
    return qn_to(qn_to(qn_to(f32(c, qn_shape_of(ROWS, CLASSES), v), QN_DTYPE_BF16), QN_DTYPE_F16), F32);
}

static inputs in_type(const inputs *i, qn_dtype dtype)
{
    inputs y = *i;
    qn_tensor **all[] = {&y.a, &y.b, &y.p, &y.q, &y.w};
    for (int k = 0; k < 5; k++) *all[k] = qn_requires_grad_(qn_detach(qn_to(*all[k], dtype)), true);
    return y;
}

static void rounded_once(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int d = 0; d < 2; d++) {
        for (size_t l = 0; l < sizeof losses / sizeof losses[0]; l++) {
            for (int r = 0; r < 3; r++) {
                OK(c, qn_scope_begin(c));
                inputs i = {.reduction = (qn_reduction)r};
                i.a = some(c, 1, -90, 90), i.b = some(c, 2, -90, 90), i.w = some(c, 5, 0.5, 3);
                i.p = some(c, 3, 0.125, 0.875), i.q = some(c, 4, 0.125, 0.875);
                i.ids = qn_from_data(c, (int64_t[]){0, 3, 5, 1}, qn_shape_of(ROWS), QN_DTYPE_I64);
                const inputs wide = in_type(&i, F32), half = in_type(&i, halves[d]);
                qn_tensor *want = losses[l].loss(&wide), *have = losses[l].loss(&half);
                GOOD(c, want);
                GOOD(c, have);
                double a[ROWS * CLASSES], b[ROWS * CLASSES];
                const int64_t n = qn_numel(want);
                assert_int_equal(qn_dtype_of(have), halves[d]);
                OK(c, qn_to_doubles(qn_to(qn_detach(want), halves[d]), a, n));
                OK(c, qn_to_doubles(have, b, n));
                for (int64_t k = 0; k < n; k++) {
                    if (a[k] != b[k])
                        fail_msg("%s, reduction %d, %s: number %d is %.9g, %.9g expected", losses[l].name, r,
                                 qn_dtype_get(halves[d])->name, (int)k, b[k], a[k]);
                }
                /* and so are its gradients */
                OK(c, qn_backward(qn_sum(want, QN_ALL, false)));
                OK(c, qn_backward(qn_sum(have, QN_ALL, false)));
                qn_tensor *const from[] = {wide.a, wide.b, wide.p, wide.q}, *const to[] = {half.a, half.b, half.p,
                                                                                           half.q};
                for (int s = 0; s < 4; s++) {
                    assert_true((qn_grad(from[s]) == NULL) == (qn_grad(to[s]) == NULL));
                    if (qn_grad(from[s]) == NULL) continue;
                    OK(c, qn_to_doubles(qn_to(qn_grad(from[s]), halves[d]), a, ROWS * CLASSES));
                    OK(c, qn_to_doubles(qn_grad(to[s]), b, ROWS * CLASSES));
                    for (int k = 0; k < ROWS * CLASSES; k++) {
                        if (!(fabs(a[k] - b[k]) <= (d == 0 ? 2e-3 : 1.6e-2) * fabs(a[k]) + 1e-7))
                            fail_msg("%s, reduction %d, %s: gradient %d of %d is %.9g, %.9g expected", losses[l].name,
                                     r, qn_dtype_get(halves[d])->name, k, s, b[k], a[k]);
                    }
                }
                (void)qn_scope_end(c, NULL);
            }
        }
    }
    context_end(c);
}

/* ---- what 16 bits do not hold on the way ---- */

static void what_overflows(void **state)
{
    (void)state;
    enum { N = 70000 };
    qn_context *c = context_new();
    float v[100] = {300};
    qn_tensor *x = qn_requires_grad_(qn_to(f32(c, qn_shape_of(100), v), QN_DTYPE_F16), true),
              *zero = qn_zeros(c, qn_shape_of(100), QN_DTYPE_F16);
    qn_tensor *loss = qn_mse_loss(x, zero, QN_REDUCTION_MEAN);
    assert_true(qn_item(loss) == 900);
    OK(c, qn_backward(loss));
    assert_true(qn_item(qn_select(qn_grad(x), 0, 0)) == 6);
    qn_tensor *small = qn_full(c, qn_shape_of(100), 0.0078125, F32);
    loss = qn_binary_cross_entropy_with_logits(qn_full(c, qn_shape_of(100), 60000, QN_DTYPE_F16), zero, small,
                                               qn_full(c, qn_shape_of(100), 3, QN_DTYPE_F16), QN_REDUCTION_MEAN);
    assert_true(qn_item(loss) == 468.75 && qn_dtype_of(loss) == F32); /* the type of all together, as for any product */

    qn_tensor *logs = qn_requires_grad_(qn_full(c, qn_shape_of(N, 2), -0.5, QN_DTYPE_F16), true),
              *ids = qn_zeros(c, qn_shape_of(N), QN_DTYPE_I64);
    loss = qn_nll_loss(logs, ids, NULL);
    assert_true(qn_item(loss) == 0.5 && qn_dtype_of(loss) == QN_DTYPE_F16);
    OK(c, qn_backward(loss));
    assert_true(fabs(qn_item(qn_select(qn_select(qn_grad(logs), 0, 9), 0, 0)) * N + 1) < 0.01);
    context_end(c);
}

/* Types of sources that differ give what they gave. */
static void types_of_results(void **state)
{
    (void)state;
    qn_context *c = context_new();
    static const qn_dtype types[][3] = {
        {QN_DTYPE_F16, QN_DTYPE_F16, QN_DTYPE_F16},
        {QN_DTYPE_BF16, QN_DTYPE_BF16, QN_DTYPE_BF16},
        {QN_DTYPE_F16, QN_DTYPE_BF16, QN_DTYPE_F32},
        {QN_DTYPE_F16, QN_DTYPE_F32, QN_DTYPE_F32},
        {QN_DTYPE_F16, QN_DTYPE_F64, QN_DTYPE_F64},
        {QN_DTYPE_I64, QN_DTYPE_F16, QN_DTYPE_F16},
        {QN_DTYPE_I32, QN_DTYPE_I32, QN_DTYPE_I64} /* a sum's */,
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        qn_tensor *a = qn_ones(c, qn_shape_of(2), types[i][0]), *b = qn_ones(c, qn_shape_of(2), types[i][1]);
        assert_int_equal(qn_dtype_of(qn_mse_loss(a, b, QN_REDUCTION_SUM)), types[i][2]);
    }
    qn_tensor *half = qn_ones(c, qn_shape_of(2), QN_DTYPE_F16);
    qn_tensor *number = qn_ones(c, QN_SCALAR, QN_DTYPE_F64);
    assert_int_equal(qn_dtype_of(qn_l1_loss(half, number, QN_REDUCTION_MEAN)), QN_DTYPE_F16);
    REFUSED(c, qn_mse_loss(half, NULL, QN_REDUCTION_MEAN), "mse_loss: tensor 1 is NULL");
    REFUSED(c, qn_mse_loss(half, half, (qn_reduction)7), "mse_loss: reduction 7");
    context_end(c);
}

/* Whatever the targets are, gradients do not reach the weights of classes. */
static void weights_are_constants(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_requires_grad_(qn_ones(c, qn_shape_of(2, 3), F32), true),
              *w = qn_requires_grad_(qn_ones(c, qn_shape_of(3), F32), true);
    const qn_cross_entropy_options o = {.weight = w};
    qn_tensor *q = qn_requires_grad_(qn_full(c, qn_shape_of(2, 3), 0.25, F32), true),
              *ids = qn_zeros(c, qn_shape_of(2), QN_DTYPE_I64);
    OK(c, qn_backward(qn_cross_entropy(x, q, &o)));
    assert_null(qn_grad(w));
    assert_non_null(qn_grad(q)); /* targets that are probabilities do have one */
    OK(c, qn_backward(qn_cross_entropy(x, ids, &o)));
    OK(c, qn_backward(qn_nll_loss(x, ids, &o)));
    assert_null(qn_grad(w));
    assert_non_null(qn_grad(x));
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_once),
        cmocka_unit_test(what_overflows),
        cmocka_unit_test(types_of_results),
        cmocka_unit_test(weights_are_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
