/* SPDX-License-Identifier: MIT */
/* convnet.c -- a convolutional network that sees whether a noisy 12 x 12 picture shows a bar lying, a bar standing or a
 * cross. It is measured on pictures that it has not been trained on, and its weights are saved and loaded again. cc
 * convnet.c -o convnet $(pkg-config --cflags --libs quern) && ./convnet [WEIGHTS.safetensors] */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 12, BATCH = 64, STEPS = 60, CLASSES = 3 };

static float noise(unsigned *state)
{
    return (float)((*state = *state * 1664525u + 1013904223u) >> 8) / 0x1p24f - 0.5f;
}

static void draw(unsigned *state, float *picture, int64_t *class)
{
    const int at = 2 + (int)((noise(state) + 0.5f) * (SIDE - 4)),
              across = 2 + (int)((noise(state) + 0.5f) * (SIDE - 4));
    *class = (int64_t)((noise(state) + 0.5f) * CLASSES);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int on = (*class != 1 && i / SIDE == at) || (*class != 0 && i % SIDE == across);
        picture[i] = (float)on + 0.8f * noise(state);
    }
}

static void batch(qn_context *c, unsigned *state, qn_tensor **x, qn_tensor **y)
{
    static float pictures[BATCH][SIDE * SIDE];
    static int64_t classes[BATCH];
    for (int i = 0; i < BATCH; i++) draw(state, pictures[i], &classes[i]);
    *x = qn_from_data(c, pictures, qn_shape_of(BATCH, 1, SIDE, SIDE), QN_DTYPE_F32);
    *y = qn_from_data(c, classes, qn_shape_of(BATCH), QN_DTYPE_I64);
}

static qn_module *network(qn_context *c)
{
    const qn_conv_options same = {.padding = {1, 1}};
    const qn_pool_options halve = {.kernel = {2, 2}};
    return qn_nn_sequential(c, QN_MODULES(qn_nn_conv2d(c, 1, 8, 3, 3, true, &same), qn_nn_relu(c),
                                          qn_nn_max_pool2d(c, &halve), qn_nn_conv2d(c, 8, 16, 3, 3, true, &same),
                                          qn_nn_relu(c), qn_nn_max_pool2d(c, &halve), qn_nn_flatten(c, 1, -1),
                                          qn_nn_linear(c, 16 * 9, CLASSES, true)));
}

static double accuracy(qn_context *c, qn_module *net, unsigned state)
{
    qn_tensor *x, *y;
    qn_scope_begin(c);
    qn_module_train(net, false);
    batch(c, &state, &x, &y);
    qn_tensor *hits = qn_eq(qn_argmax(qn_module_forward(net, x), -1, false), y);
    const double share = (double)qn_item_int(qn_sum(hits, QN_ALL, false)) / BATCH;
    qn_module_train(net, true);
    qn_scope_end(c, NULL);
    return share;
}

int main(int argc, char **argv)
{
    const char *file = argc > 1 ? argv[1] : "convnet.safetensors";
    unsigned state = 1;
    qn_context *c;
    qn_error err = {0};
    if (qn_context_create(NULL, &c, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }

    qn_module *net = network(c), *copy = network(c);
    qn_tensor *params[16];
    const int n_params = (int)qn_module_parameters(net, params, 16);
    qn_optimizer *opt = NULL;
    if (qn_adamw_create(&(qn_adam_options){.lr = 3e-3}, params, n_params, &opt, &err) != QN_OK) goto failed;
    for (int step = 0; step < STEPS; step++) {
        qn_tensor *x, *y;
        qn_scope_begin(c);
        batch(c, &state, &x, &y);
        qn_tensor *loss = qn_cross_entropy(qn_module_forward(net, x), y, NULL);
        qn_backward(loss);
        qn_optimizer_step(opt);
        qn_optimizer_zero_grad(opt);
        if (step % 20 == 0) printf("step %2d  loss %.4f\n", step, qn_item(loss));
        qn_eval_all(c);
        qn_scope_end(c, NULL);
    }
    if (qn_module_save(net, file, NULL, &err) != QN_OK || qn_module_load(copy, file, NULL, &err) != QN_OK) goto failed;
    printf("accuracy on new pictures %.1f %%, after loading %s %.1f %%\n", 100 * accuracy(c, net, 99), file,
           100 * accuracy(c, copy, 99));
    if (qn_context_error(c)->status != QN_OK) goto failed;
    qn_optimizer_destroy(opt);
    qn_module_destroy(copy);
    qn_module_destroy(net);
    qn_context_destroy(c);
    return 0;
failed:
    fprintf(stderr, "%s\n", err.status != QN_OK ? err.text : qn_context_error(c)->text);
    return 1;
}
