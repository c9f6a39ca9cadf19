/* SPDX-License-Identifier: MIT */
/* One adapted layer against PyTorch: its value, the gradients of its pair, and where three steps of AdamW take them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/ops.h>
#include <quern/optim.h>

#include "lora_figures.inc"

static void near(qn_tensor *t, const float *want, int n, double most)
{
    double have[64];
    assert_non_null(t);
    assert_int_equal(qn_to_doubles(t, have, n), QN_OK);
    for (int i = 0; i < n; i++)
        if (!(fabs(have[i] - (double)want[i]) <= most))
            fail_msg("element %d is %.9g, %.9g expected", i, have[i], (double)want[i]);
}

static qn_tensor *matrix(qn_context *c, const float *values, int rows, int columns)
{
    return qn_from_data(c, values, qn_shape_of(rows, columns), QN_DTYPE_F32);
}

/* As src/train/lora_model.c records it. */
static qn_tensor *layer(qn_tensor *x, qn_tensor *w, qn_tensor *bias, qn_tensor *a, qn_tensor *b)
{
    qn_tensor *h = qn_mul_number(qn_linear(x, a, NULL), ALPHA / RANK);
    return qn_add(qn_linear(x, w, bias), qn_linear(h, b, NULL));
}

static void one_layer(void **state)
{
    (void)state;
    qn_context *c;
    qn_optimizer *o;
    assert_int_equal(qn_context_create(NULL, &c, NULL), QN_OK);
    qn_tensor *x = matrix(c, x_in, N, IN), *w = matrix(c, w_in, OUT, IN),
              *bias = qn_from_data(c, bias_in, qn_shape_of(OUT), QN_DTYPE_F32);
    qn_tensor *target = matrix(c, target_in, N, OUT);
    qn_tensor *pair[2] = {qn_requires_grad_(matrix(c, a_in, RANK, IN), true),
                          qn_requires_grad_(matrix(c, b_in, OUT, RANK), true)};
    near(layer(x, w, bias, pair[0], pair[1]), y_out, N * OUT, 3e-6);
    assert_int_equal(qn_adamw_create(&(qn_adam_options){.lr = 0.05, .beta1 = 0.9, .beta2 = 0.95}, pair, 2, &o, NULL),
                     QN_OK);
    for (int step = 0; step < 3; step++) {
        qn_tensor *loss = qn_mse_loss(layer(x, w, bias, pair[0], pair[1]), target, QN_REDUCTION_MEAN);
        near(loss, losses_out + step, 1, 1e-5);
        assert_int_equal(qn_backward(loss), QN_OK);
        if (step == 0) {
            near(qn_grad(pair[0]), da_out, RANK * IN, 3e-6);
            near(qn_grad(pair[1]), db_out, OUT * RANK, 3e-6);
        }
        assert_null(qn_grad(w));
        assert_int_equal(qn_optimizer_step(o), QN_OK);
        qn_optimizer_zero_grad(o);
    }
    near(pair[0], a_out, RANK * IN, 1e-5);
    near(pair[1], b_out, OUT * RANK, 1e-5);
    qn_optimizer_destroy(o);
    qn_context_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_layer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
