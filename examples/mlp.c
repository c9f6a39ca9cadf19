/* SPDX-License-Identifier: MIT */
/* mlp.c -- a network with two hidden layers tells the arms of two spirals apart.
 *     cc mlp.c -o mlp $(pkg-config --cflags --libs quern) -lm && ./mlp
 *     ./mlp opencl:0,cpu               the same on a device; what that has no kernel for, the processor computes */
#include <quern/quern.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 400, STEPS = 400 };

int main(int argc, char **argv)
{
    qn_context *c;
    qn_error err = {0};
    const qn_context_options options = {.backend = argc > 1 ? argv[1] : NULL};
    if (qn_context_create(&options, &c, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    qn_manual_seed(c, 7);

    static float points[POINTS][2];
    static int64_t arms[POINTS];
    for (int i = 0; i < POINTS; i++) {
        const double t = 0.5 + 3.0 * (i / 2) / (POINTS / 2.0), angle = 3.2 * t + 3.14159265 * (i % 2);
        points[i][0] = (float)(t * cos(angle));
        points[i][1] = (float)(t * sin(angle));
        arms[i] = i % 2;
    }
    qn_tensor *x = qn_from_data(c, points, qn_shape_of(POINTS, 2), QN_DTYPE_F32);
    qn_tensor *y = qn_from_data(c, arms, qn_shape_of(POINTS), QN_DTYPE_I64);

    qn_module *net =
        qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 2, 32, true), qn_nn_tanh(c), qn_nn_linear(c, 32, 32, true),
                                       qn_nn_tanh(c), qn_nn_linear(c, 32, 2, true)));
    qn_tensor *params[16];
    const int n_params = (int)qn_module_parameters(net, params, 16);
    qn_optimizer *opt = NULL;
    if (n_params < 0 || qn_adam_create(&(qn_adam_options){.lr = 0.01}, params, n_params, &opt, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.status != QN_OK ? err.text : qn_context_error(c)->text);
        return 1;
    }
    for (int step = 0; step < STEPS; step++) {
        qn_scope_begin(c);
        qn_tensor *loss = qn_cross_entropy(qn_module_forward(net, x), y, NULL);
        qn_backward(loss);
        qn_optimizer_step(opt);
        qn_optimizer_zero_grad(opt);
        if (step % 100 == 0) printf("step %3d  loss %.4f\n", step, qn_item(loss));
        qn_eval_all(c);
        qn_scope_end(c, NULL);
    }
    qn_tensor *hits = qn_eq(qn_argmax(qn_module_forward(net, x), -1, false), y);
    const double right = (double)qn_item_int(qn_sum(hits, QN_ALL, false));
    printf("accuracy %.1f %%\n", 100 * right / POINTS);

    const int failed = qn_context_error(c)->status != QN_OK;
    if (failed) fprintf(stderr, "%s\n", qn_context_error(c)->text);
    qn_optimizer_destroy(opt);
    qn_module_destroy(net);
    qn_context_destroy(c);
    return failed;
}
