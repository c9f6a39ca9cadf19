/* SPDX-License-Identifier: MIT */
/* linear_regression.c -- y = 3 x0 - 2 x1 + 0.5 found again from noisy samples: gradients and plain steps, no optimizer
 * object. cc linear_regression.c -o linear_regression $(pkg-config --cflags --libs quern) && ./linear_regression */
#include <quern/quern.h>
#include <stdio.h>

int main(void)
{
    qn_context *c;
    qn_error err = {0};
    if (qn_context_create(NULL, &c, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    qn_manual_seed(c, 1);

    qn_tensor *x = qn_randn(c, qn_shape_of(256, 2), QN_DTYPE_F32);
    qn_tensor *truth = qn_from_data(c, (float[]){3, -2}, qn_shape_of(2), QN_DTYPE_F32);
    qn_tensor *noise = qn_mul_number(qn_randn(c, qn_shape_of(256), QN_DTYPE_F32), 0.01);
    qn_tensor *y = qn_add(qn_add_number(qn_matmul(x, truth), 0.5), noise);

    qn_tensor *w = qn_requires_grad_(qn_zeros(c, qn_shape_of(2), QN_DTYPE_F32), true);
    qn_tensor *b = qn_requires_grad_(qn_zeros(c, QN_SCALAR, QN_DTYPE_F32), true);
    for (int step = 0; step < 100; step++) {
        qn_scope_begin(c); /* what is made in the scope ends with it */
        qn_tensor *loss = qn_mse_loss(qn_add(qn_matmul(x, w), b), y, QN_REDUCTION_MEAN);
        qn_backward(loss);
        qn_set_grad_enabled(c, false);
        qn_sub_(w, qn_mul_number(qn_grad(w), 0.1));
        qn_sub_(b, qn_mul_number(qn_grad(b), 0.1));
        qn_set_grad_enabled(c, true);
        qn_zero_grad(w);
        qn_zero_grad(b);
        if (step % 20 == 0) printf("step %2d  loss %.6f\n", step, qn_item(loss));
        qn_eval_all(c); /* the same graph every time: compiled once */
        qn_scope_end(c, NULL);
    }
    printf("w = ");
    qn_print(w);
    printf("b = ");
    qn_print(b);
    const int failed = qn_context_error(c)->status != QN_OK; /* one look for all that was done */
    if (failed) fprintf(stderr, "%s\n", qn_context_error(c)->text);
    qn_context_destroy(c);
    return failed;
}
