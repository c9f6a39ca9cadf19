/* SPDX-License-Identifier: MIT */
/* src/nn/norms.c -- LayerNorm, RMSNorm, GroupNorm. */
#include "nn/module.h"

#include <stdio.h>

enum { WEIGHT, BIAS };

typedef struct norm_state {
    int count; /* LayerNorm: of dimensions; GroupNorm: of groups */
    double eps;
} norm_state;

static double eps_or_default(double eps) { return eps > 0 ? eps : 1e-5; }

/* weight of ones and bias of zeros, of that shape, as asked for. */
static qn_module *norm(qn_context *c, const qn_module_type *type, qn_shape shape, norm_state state, bool weight,
                       bool bias)
{
    qn_module *m = qn_module_create(c, type);
    if (m == NULL) return NULL;
    *(norm_state *)m->state = state;
    if (weight) (void)qn_module_add_parameter(m, "weight", qn_ones(c, shape, QN_DTYPE_F32));
    if (bias) (void)qn_module_add_parameter(m, "bias", qn_zeros(c, shape, QN_DTYPE_F32));
    return qn_module_ready(m);
}

/* ---- LayerNorm ---- */

static qn_tensor *layer_norm(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const norm_state *s = m->state;
    return qn_layer_norm(x[0], s->count, qn__own(m, WEIGHT), qn__own(m, BIAS), s->eps);
}

static void describe_layer_norm(const qn_module *m, char *text, size_t size)
{
    const norm_state *s = m->state;
    snprintf(text, size, "dims=%d, eps=%g", s->count, s->eps);
}

static const qn_module_type layer_norm_type = {
    .name = "LayerNorm",
    .forward = layer_norm,
    .describe = describe_layer_norm,
    .state_bytes = sizeof(norm_state),
};

qn_module *qn_nn_layer_norm(qn_context *c, qn_shape dims, double eps, bool affine, bool bias)
{
    if (c == NULL || !qn__sizes_fit(c, "LayerNorm", dims.dim, dims.rank)) return NULL;
    if (dims.rank < 1)
        return (void)qn_context_fail(c, QN_STATUS_invalid, "LayerNorm: no dimensions, at least 1 expected"), NULL;
    return norm(c, &layer_norm_type, dims, (norm_state){dims.rank, eps_or_default(eps)}, affine, affine && bias);
}

/* ---- RMSNorm ---- */

static qn_tensor *rms_norm(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const norm_state *s = m->state;
    return qn_rms_norm(x[0], qn__own(m, WEIGHT), s->eps);
}

static void describe_rms_norm(const qn_module *m, char *text, size_t size)
{
    const norm_state *s = m->state;
    snprintf(text, size, "%lld, eps=%g", (long long)qn_numel(qn__own(m, WEIGHT)), s->eps);
}

static const qn_module_type rms_norm_type = {
    .name = "RMSNorm",
    .forward = rms_norm,
    .describe = describe_rms_norm,
    .state_bytes = sizeof(norm_state),
};

qn_module *qn_nn_rms_norm(qn_context *c, int64_t dim, double eps)
{
    if (c == NULL || !qn__sizes_fit(c, "RMSNorm", &dim, 1)) return NULL;
    return norm(c, &rms_norm_type, qn_shape_of(dim), (norm_state){1, eps_or_default(eps)}, true, false);
}

/* ---- GroupNorm ---- */

static qn_tensor *group_norm(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const norm_state *s = m->state;
    return qn_group_norm(x[0], s->count, qn__own(m, WEIGHT), qn__own(m, BIAS), s->eps);
}

static void describe_group_norm(const qn_module *m, char *text, size_t size)
{
    const norm_state *s = m->state;
    snprintf(text, size, "groups=%d, eps=%g", s->count, s->eps);
}

static const qn_module_type group_norm_type = {
    .name = "GroupNorm",
    .forward = group_norm,
    .describe = describe_group_norm,
    .state_bytes = sizeof(norm_state),
};

qn_module *qn_nn_group_norm(qn_context *c, int groups, int64_t channels, double eps, bool affine)
{
    if (c == NULL || !qn__sizes_fit(c, "GroupNorm", (const int64_t[]){groups, channels}, 2)) return NULL;
    if (channels % groups != 0) {
        (void)qn_context_fail(c, QN_STATUS_invalid, "GroupNorm: %lld channels do not divide into %d groups",
                              (long long)channels, groups);
        return NULL;
    }
    return norm(c, &group_norm_type, qn_shape_of(channels), (norm_state){groups, eps_or_default(eps)}, affine, affine);
}
