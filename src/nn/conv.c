/* SPDX-License-Identifier: MIT */
/* src/nn/conv.c -- convolution and pooling. */
#include "nn/module.h"

#include <stdio.h>

enum { WEIGHT, BIAS };

typedef struct conv_state {
    qn_conv_options options;
} conv_state;

static qn_tensor *conv1d(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const conv_state *s = m->state;
    return qn_conv1d(x[0], qn__own(m, WEIGHT), qn__own(m, BIAS), &s->options);
}

static qn_tensor *conv2d(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const conv_state *s = m->state;
    return qn_conv2d(x[0], qn__own(m, WEIGHT), qn__own(m, BIAS), &s->options);
}

static void describe_conv(const qn_module *m, char *text, size_t size)
{
    char shape[192];
    const qn_shape w = qn_shape_get(qn__own(m, WEIGHT));
    const conv_state *s = m->state;
    snprintf(text, size, "weight=%s, groups=%d%s", qn_shape_print(&w, shape, sizeof shape),
             s->options.groups > 0 ? s->options.groups : 1, m->n_tensors > BIAS ? "" : ", bias=false");
}

static const qn_module_type conv1d_type = {
    .name = "Conv1d",
    .forward = conv1d,
    .describe = describe_conv,
    .state_bytes = sizeof(conv_state),
};
static const qn_module_type conv2d_type = {
    .name = "Conv2d",
    .forward = conv2d,
    .describe = describe_conv,
    .state_bytes = sizeof(conv_state),
};

/* shape: [out, in, kernel ..] as asked for. */
static qn_module *conv(qn_context *c, const qn_module_type *type, qn_shape shape, bool bias,
                       const qn_conv_options *options)
{
    const int groups = options != NULL && options->groups != 0 ? options->groups : 1;
    if (c == NULL || !qn__sizes_fit(c, type->name, shape.dim, shape.rank)) return NULL;
    if (groups < 1 || shape.dim[0] % groups != 0 || shape.dim[1] % groups != 0) {
        (void)qn_context_fail(c, QN_STATUS_invalid, "%s: %lld channels in and %lld out do not divide into %d groups",
                              type->name, (long long)shape.dim[1], (long long)shape.dim[0], groups);
        return NULL;
    }
    qn_module *m = qn_module_create(c, type);
    if (m == NULL) return NULL;
    conv_state *s = m->state;
    if (options != NULL) s->options = *options;
    shape.dim[1] /= groups;
    qn_tensor *w = qn__add_empty(m, "weight", shape),
              *b = bias ? qn__add_empty(m, "bias", qn_shape_of(shape.dim[0])) : NULL;
    qn__init_affine(m, w, b);
    return qn_module_ready(m);
}

qn_module *qn_nn_conv1d(qn_context *c, int64_t in, int64_t out, int64_t kernel, bool bias,
                        const qn_conv_options *options)
{
    return conv(c, &conv1d_type, qn_shape_of(out, in, kernel), bias, options);
}

qn_module *qn_nn_conv2d(qn_context *c, int64_t in, int64_t out, int64_t kernel_h, int64_t kernel_w, bool bias,
                        const qn_conv_options *options)
{
    return conv(c, &conv2d_type, qn_shape_of(out, in, kernel_h, kernel_w), bias, options);
}

/* ---- pooling ---- */

static qn_tensor *max_pool2d(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    return qn_max_pool2d(x[0], m->state);
}

static qn_tensor *avg_pool2d(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    return qn_avg_pool2d(x[0], m->state);
}

static void describe_pool(const qn_module *m, char *text, size_t size)
{
    const qn_pool_options *o = m->state;
    snprintf(text, size, "kernel=[%lld,%lld]", (long long)o->kernel[0], (long long)o->kernel[1]);
}

static const qn_module_type max_pool2d_type = {
    .name = "MaxPool2d",
    .forward = max_pool2d,
    .describe = describe_pool,
    .state_bytes = sizeof(qn_pool_options),
};
static const qn_module_type avg_pool2d_type = {
    .name = "AvgPool2d",
    .forward = avg_pool2d,
    .describe = describe_pool,
    .state_bytes = sizeof(qn_pool_options),
};

static qn_module *pool(qn_context *c, const qn_module_type *type, const qn_pool_options *options)
{
    if (c == NULL || options == NULL || !qn__sizes_fit(c, type->name, options->kernel, 2)) return NULL;
    qn_module *m = qn_module_create(c, type);
    if (m != NULL) *(qn_pool_options *)m->state = *options;
    return m;
}

qn_module *qn_nn_max_pool2d(qn_context *c, const qn_pool_options *options)
{
    return pool(c, &max_pool2d_type, options);
}
qn_module *qn_nn_avg_pool2d(qn_context *c, const qn_pool_options *options)
{
    return pool(c, &avg_pool2d_type, options);
}
