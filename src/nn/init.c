/* SPDX-License-Identifier: MIT */
/* src/nn/init.c -- first values: torch.nn.init's formulas. Everything here writes through `put`, so nothing of it is
 * recorded for backward. */
#include "nn/module.h"

#include <math.h>
#include <string.h>

/* t = values, which end. */
static qn_tensor *put(qn_tensor *t, qn_tensor *values)
{
    if (t == NULL || values == NULL) return NULL;
    const bool was = qn_set_grad_enabled(of(t)->ctx, false);
    qn_tensor *done = qn_copy_(t, values);
    qn_set_grad_enabled(of(t)->ctx, was);
    qn_release(values);
    return done;
}

static bool real(const qn_tensor *t, const char *name)
{
    if (t == NULL) return false;
    if (qn__is_real(qn_dtype_of(t))) return true;
    (void)qn_context_fail(of(t)->ctx, QN_STATUS_invalid, "init_%s: a tensor of %s, a real dtype expected", name,
                          qn_dtype_get(qn_dtype_of(t))->name);
    return false;
}

qn_tensor *qn_init_constant_(qn_tensor *t, double value)
{
    return t != NULL ? put(t, qn_full(of(t)->ctx, QN_SCALAR, value, qn_dtype_of(t))) : NULL;
}
qn_tensor *qn_init_zeros_(qn_tensor *t) { return qn_init_constant_(t, 0); }
qn_tensor *qn_init_ones_(qn_tensor *t) { return qn_init_constant_(t, 1); }

qn_tensor *qn_init_uniform_(qn_tensor *t, double from, double to)
{
    return real(t, "uniform") ? put(t, qn_uniform(of(t)->ctx, qn_shape_get(t), from, to, qn_dtype_of(t))) : NULL;
}

qn_tensor *qn_init_normal_(qn_tensor *t, double mean, double deviation)
{
    return real(t, "normal") ? put(t, qn_normal(of(t)->ctx, qn_shape_get(t), mean, deviation, qn_dtype_of(t))) : NULL;
}

qn_tensor *qn_init_eye_(qn_tensor *t)
{
    if (t == NULL) return NULL;
    if (qn_rank(t) == 2) return put(t, qn_eye(of(t)->ctx, qn_dim(t, 0), qn_dim(t, 1), qn_dtype_of(t)));
    (void)qn_context_fail(of(t)->ctx, QN_STATUS_invalid, "init_eye: %d dimensions, 2 expected", qn_rank(t));
    return NULL;
}

/* ---- spread by the number of inputs and outputs ---- */

static bool fans(const qn_tensor *t, const char *name, double *in, double *out)
{
    if (!real(t, name)) return false;
    if (qn_rank(t) < 2 || qn_numel(t) == 0) {
        char text[192];
        const qn_shape shape = qn_shape_get(t);
        (void)qn_context_fail(of(t)->ctx, QN_STATUS_invalid,
                              "init_%s: %s, at least 2 dimensions expected, and none of size 0", name,
                              qn_shape_print(&shape, text, sizeof text));
        return false;
    }
    const double field = (double)(qn_numel(t) / (qn_dim(t, 0) * qn_dim(t, 1)));
    *in = (double)qn_dim(t, 1) * field;
    *out = (double)qn_dim(t, 0) * field;
    return true;
}

static qn_tensor *spread(qn_tensor *t, double deviation, bool uniform)
{
    const double bound = sqrt(3.0) * deviation;
    return uniform ? qn_init_uniform_(t, -bound, bound) : qn_init_normal_(t, 0, deviation);
}

static qn_tensor *xavier(qn_tensor *t, const char *name, double gain, bool uniform)
{
    double in, out;
    return fans(t, name, &in, &out) ? spread(t, (gain != 0 ? gain : 1) * sqrt(2 / (in + out)), uniform) : NULL;
}

qn_tensor *qn_init_xavier_uniform_(qn_tensor *t, double gain) { return xavier(t, "xavier_uniform", gain, true); }
qn_tensor *qn_init_xavier_normal_(qn_tensor *t, double gain) { return xavier(t, "xavier_normal", gain, false); }

bool qn_init_gain(const char *nonlinearity, double a, double *out)
{
    static const struct {
        const char *name;
        double gain;
    } rows[] = {
        {"linear", 1},           {"conv1d", 1},
        {"conv2d", 1},           {"conv3d", 1},
        {"conv_transpose1d", 1}, {"conv_transpose2d", 1},
        {"conv_transpose3d", 1}, {"sigmoid", 1},
        {"tanh", 5.0 / 3},       {"relu", 1.4142135623730951},
        {"selu", 0.75},
    };
    if (strcmp(nonlinearity, "leaky_relu") == 0) return *out = sqrt(2 / (1 + a * a)), true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(nonlinearity, rows[i].name) == 0) return *out = rows[i].gain, true;
    }
    return false;
}

static qn_tensor *kaiming(qn_tensor *t, const char *name, double a, bool fan_out, const char *nonlinearity,
                          bool uniform)
{
    double in, out, gain;
    if (!fans(t, name, &in, &out)) return NULL;
    if (qn_init_gain(nonlinearity != NULL ? nonlinearity : "leaky_relu", a, &gain)) {
        return spread(t, gain / sqrt(fan_out ? out : in), uniform);
    }
    char quoted[64];
    (void)qn_context_fail(of(t)->ctx, QN_STATUS_invalid, "init_%s: nonlinearity \"%s\" is not known", name,
                          qn__str_quote(quoted, sizeof quoted, nonlinearity, strlen(nonlinearity)));
    return NULL;
}

qn_tensor *qn_init_kaiming_uniform_(qn_tensor *t, double a, bool fan_out, const char *nonlinearity)
{
    return kaiming(t, "kaiming_uniform", a, fan_out, nonlinearity, true);
}

qn_tensor *qn_init_kaiming_normal_(qn_tensor *t, double a, bool fan_out, const char *nonlinearity)
{
    return kaiming(t, "kaiming_normal", a, fan_out, nonlinearity, false);
}

/* ---- made on the host, in double ---- */

/* Random numbers, in double, on the host; freed with qn__free. */
static double *drawn(qn_tensor *t, bool normal, double low, double high)
{
    const int64_t n = qn_numel(t);
    double *p = qn__alloc(((size_t)n + 1) * sizeof *p);
    if (p == NULL) return (void)QN_FAIL_NOMEM(qn__err(of(t)->ctx), ((size_t)n + 1) * sizeof *p), NULL;
    const qn_shape flat = qn_shape_of(n);
    qn_tensor *u = normal ? qn_normal(of(t)->ctx, flat, 0, 1, QN_DTYPE_F64)
                          : qn_uniform(of(t)->ctx, flat, low, high, QN_DTYPE_F64);
    const bool good = u != NULL && qn_to_doubles(u, p, n) == QN_OK;
    qn_release(u);
    if (good) return p;
    qn__free(p);
    return NULL;
}

/* p as a tensor; p ends. */
static qn_tensor *doubles(qn_tensor *t, double *p, qn_shape shape)
{
    qn_tensor *values = p != NULL ? qn_from_data(of(t)->ctx, p, shape, QN_DTYPE_F64) : NULL;
    qn__free(p);
    return values;
}

/* The x with erf(x) = y: a rough start (Winitzki 2008), then Halley's steps, each of which triples the digits. */
static double erf_inverse(double y)
{
    const double s = fabs(y);
    if (s >= 1) return copysign(INFINITY, y);
    const double log1 = log1p(-s * s), k = 2 / (3.14159265358979323846 * 0.147) + log1 / 2;
    double x = sqrt(sqrt(k * k - log1 / 0.147) - k);
    for (int i = 0; i < 3; i++) {
        const double u = ((1 - s) - erfc(x)) * 0.88622692545275801 * exp(x * x); /* sqrt(pi) / 2 */
        x -= u / (1 + x * u);
    }
    return copysign(x, y);
}

static double normal_below(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }

qn_tensor *qn_init_trunc_normal_(qn_tensor *t, double mean, double deviation, double min, double max)
{
    if (!real(t, "trunc_normal")) return NULL;
    if (!(deviation > 0 && min < max)) {
        (void)qn_context_fail(of(t)->ctx, QN_STATUS_invalid, "init_trunc_normal: deviation %g, from %g to %g",
                              deviation, min, max);
        return NULL;
    }
    const double low = normal_below((min - mean) / deviation), high = normal_below((max - mean) / deviation);
    double *p = drawn(t, false, 2 * low - 1, 2 * high - 1);
    for (int64_t i = 0; p != NULL && i < qn_numel(t); i++) {
        p[i] = mean + deviation * 1.4142135623730951 * erf_inverse(p[i]);
        p[i] = fmin(fmax(p[i], min), max);
    }
    return put(t, doubles(t, p, qn_shape_get(t)));
}

/* Gram-Schmidt over n rows, twice: once loses digits when rows are nearly parallel, twice is enough (Kahan, Parlett).
 */
static void orthonormal(double *p, int64_t n, int64_t length)
{
    for (int64_t i = 0; i < n; i++) {
        double *v = p + i * length, square = 0;
        for (int64_t j = 0; j < 2 * i; j++) {
            const double *u = p + j % i * length;
            double dot = 0;
            for (int64_t k = 0; k < length; k++) dot += u[k] * v[k];
            for (int64_t k = 0; k < length; k++) v[k] -= dot * u[k];
        }
        for (int64_t k = 0; k < length; k++) square += v[k] * v[k];
        const double scale = square > 0 ? 1 / sqrt(square) : 0;
        for (int64_t k = 0; k < length; k++) v[k] *= scale;
    }
}

qn_tensor *qn_init_orthogonal_(qn_tensor *t, double gain)
{
    double in, out;
    if (t == NULL || !fans(t, "orthogonal", &in, &out)) return NULL;
    const int64_t rows = qn_dim(t, 0), columns = qn_numel(t) / rows, n = rows < columns ? rows : columns,
                  length = qn_numel(t) / n;
    double *p = drawn(t, true, 0, 0);
    if (p != NULL) orthonormal(p, n, length);
    for (int64_t i = 0; p != NULL && gain != 0 && i < n * length; i++) p[i] *= gain;
    qn_tensor *values = doubles(t, p, qn_shape_of(n, length)),
              *transposed = n < rows ? qn_transpose(values, 0, 1) : qn_detach(values);
    qn_tensor *shaped = transposed != NULL ? qn_reshape(transposed, qn_shape_get(t)) : NULL;
    qn_release(transposed);
    qn_release(values);
    return put(t, shaped);
}
