/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/parity.c -- every layer against PyTorch's. */
#include "rig.h"

static qn_module *convnet(qn_context *c)
{
    return qn_nn_sequential(c, QN_MODULES(qn_nn_conv2d(c, 1, 3, 3, 3, true, &(qn_conv_options){.padding = {1, 1}}),
                                          qn_nn_relu(c), qn_nn_max_pool2d(c, &(qn_pool_options){.kernel = {2, 2}}),
                                          qn_nn_conv2d(c, 3, 4, 2, 2, true, NULL), qn_nn_gelu(c),
                                          qn_nn_avg_pool2d(c, &(qn_pool_options){.kernel = {2, 2}, .stride = {1, 1}}),
                                          qn_nn_flatten(c, 1, -1), qn_nn_dropout(c, 0), qn_nn_linear(c, 16, 3, true)));
}

static qn_module *activations(qn_context *c)
{
    return qn_nn_sequential(c, QN_MODULES(qn_nn_identity(c), qn_nn_linear(c, 4, 4, true), qn_nn_silu(c),
                                          qn_nn_linear(c, 4, 4, true), qn_nn_sigmoid(c), qn_nn_linear(c, 4, 4, true),
                                          qn_nn_tanh(c), qn_nn_linear(c, 4, 4, true), qn_nn_gelu_tanh(c),
                                          qn_nn_softplus(c), qn_nn_linear(c, 4, 4, true), qn_nn_elu(c),
                                          qn_nn_linear(c, 4, 4, true), qn_nn_leaky_relu(c), qn_nn_softmax(c),
                                          qn_nn_log_softmax(c)));
}

#define PARITY_CASES   "unit/nn/cases.inc"
#define PARITY_FIGURES "unit/nn/figures.inc"
#include "parity.h"
