/* SPDX-License-Identifier: MIT */
/* src/array/ops/conv.c -- convolution, pooling and resizing on handles. Sources may lack the batch: they get one, and
 * the result loses it. */
#include "array/ops/apply.h"

#include <string.h>

static bool check_rank(const char *name, const qn_tensor *x, int n_spatial)
{
    if (of(x)->layout.rank == n_spatial + 2 || of(x)->layout.rank == n_spatial + 1) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: x is %s, %d or %d dimensions expected", name, QN_TEXT_OF(x),
                  n_spatial + 1, n_spatial + 2);
    return false;
}

static qn_tensor *run(qn_op op, const void *attrs, int n_spatial, qn_tensor *const *src, int n)
{
    qn_tensor *in[QN_MAX_SRC];
    memcpy(in, src, (size_t)n * sizeof *in);
    const bool alone = of(src[0])->layout.rank == n_spatial + 1;
    if (alone) in[0] = qn_unsqueeze(src[0], 0);
    qn_tensor *y = in[0] != NULL ? qn__plain(op, attrs, (qn_target){0}, in, n) : NULL;
    if (!alone) return y;
    qn_release(in[0]);
    qn_tensor *v = y != NULL ? qn_squeeze(y, 0) : NULL;
    qn_release(y);
    return v;
}

/* ---- convolution ---- */

static void conv_attrs(const qn_conv_options *o, int n_spatial, qn_conv_attrs *out)
{
    memset(out, 0, sizeof *out);
    out->n_spatial = n_spatial;
    out->groups = o != NULL && o->groups != 0 ? o->groups : 1;
    for (int i = 0; i < n_spatial; i++) {
        out->stride[i] = o != NULL && o->stride[i] != 0 ? o->stride[i] : 1;
        out->dilation[i] = o != NULL && o->dilation[i] != 0 ? o->dilation[i] : 1;
        out->padding[i] = o != NULL ? o->padding[i] : 0;
    }
}

static qn_tensor *conv(const char *name, int n_spatial, qn_tensor *x, qn_tensor *w, qn_tensor *b,
                       const qn_conv_options *o)
{
    qn_tensor *src[] = {x, w, b};
    const int n = b != NULL ? 3 : 2;
    qn_conv_attrs attrs;
    if (qn__same_context(name, src, n) == NULL || !check_rank(name, x, n_spatial)) return NULL;
    conv_attrs(o, n_spatial, &attrs);
    return run(QN_OP_conv, &attrs, n_spatial, src, n);
}

/* The size of a transposed convolution's result; false when no such size is. */
static bool back_size(const qn_conv_attrs *a, int i, int64_t in, int64_t kernel, int64_t more, int64_t *out)
{
    int64_t size, reach;
    if (in < 1 || kernel < 1 || more < 0 || (more >= a->stride[i] && more >= a->dilation[i])) return false;
    if (__builtin_mul_overflow(in - 1, a->stride[i], &size) ||
        __builtin_mul_overflow(kernel - 1, a->dilation[i], &reach))
        return false;
    if (__builtin_add_overflow(size, reach, &size) || __builtin_add_overflow(size, more + 1, &size)) return false;
    if (a->padding[i] < 0 || a->padding[i] > size / 2) return false;
    *out = size - 2 * a->padding[i];
    return *out > 0;
}

static bool bias_fits(const char *name, const qn_tensor *x, const qn_tensor *b, int64_t channels)
{
    if (b == NULL) return true;
    const qn_layout *l = &of(b)->layout;
    if (l->rank == 1 && l->dim[0] == channels && of(b)->storage->dtype == of(x)->storage->dtype) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: bias is %s %s, %s [%lld] expected", name,
                  qn_dtype_get(of(b)->storage->dtype)->name, QN_TEXT_OF(b), qn_dtype_get(of(x)->storage->dtype)->name,
                  (long long)channels);
    return false;
}

/* With as much output padding as a stride or more, which a dilated kernel may have, sizes of a result are none that
 * the convolution leads back to x from. What no padding takes off is computed, then cut and padded. */
static qn_tensor *cut_after(const char *name, qn_conv_attrs *attrs, const int64_t *more, qn_tensor *x, qn_tensor *w,
                            qn_tensor *b)
{
    const int n = attrs->n_spatial;
    int64_t pads[6] = {0}, channels;
    if (__builtin_mul_overflow(of(w)->layout.dim[1], (int64_t)attrs->groups, &channels)) channels = -1;
    if (!bias_fits(name, x, b, channels)) return NULL;
    for (int i = 0; i < n; i++) {
        if (more[i] < attrs->stride[i]) continue;
        attrs->size[i] += 2 * attrs->padding[i] - more[i];
        pads[2 * (n - 1 - i)] = -attrs->padding[i];
        pads[2 * (n - 1 - i) + 1] = more[i] - attrs->padding[i];
        attrs->padding[i] = 0;
    }
    qn_tensor *all = run(QN_OP_conv_input, attrs, n, (qn_tensor *[]){x, w}, 2),
              *y = all != NULL ? qn_pad(all, pads, 2 * n, NULL, 0) : NULL;
    qn_release(all);
    if (b == NULL || y == NULL) return y;
    qn_shape column = {.rank = n + 1, .dim = {channels, 1, 1, 1}};
    qn_tensor *bias = qn_reshape(b, column), *sum = bias != NULL ? qn_add(y, bias) : NULL;
    qn_release(bias);
    qn_release(y);
    return sum;
}

static qn_tensor *conv_transpose(const char *name, int n_spatial, qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                 const qn_conv_options *o)
{
    qn_tensor *src[] = {x, w, b};
    const int n = b != NULL ? 3 : 2;
    qn_conv_attrs attrs;
    if (qn__same_context(name, src, n) == NULL || !check_rank(name, x, n_spatial)) return NULL;
    conv_attrs(o, n_spatial, &attrs);
    bool within = true;
    for (int i = 0; i < n_spatial; i++) {
        within = within && (o == NULL || o->output_padding[i] < attrs.stride[i]);
        const int64_t in = of(x)->layout.dim[of(x)->layout.rank - n_spatial + i],
                      kernel = of(w)->layout.rank == n_spatial + 2 ? of(w)->layout.dim[2 + i] : 0;
        if (back_size(&attrs, i, in, kernel, o != NULL ? o->output_padding[i] : 0, &attrs.size[i])) continue;
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid,
                      "%s: %s with a weight %s gives nothing in spatial dimension %d with these options", name,
                      QN_TEXT_OF(x), QN_TEXT_OF(w), i);
        return NULL;
    }
    if (!within) return cut_after(name, &attrs, o->output_padding, x, w, b);
    return run(QN_OP_conv_input, &attrs, n_spatial, src, n);
}

#define CONV(n) \
    qn_tensor *qn_conv##n##d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) \
    { \
        return conv("conv" #n "d", n, x, w, b, options); \
    } \
    qn_tensor *qn_conv_transpose##n##d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) \
    { \
        return conv_transpose("conv_transpose" #n "d", n, x, w, b, options); \
    }
/* clang-format off */
CONV(1)
CONV(2)
CONV(3)
/* clang-format on */

/* ---- pooling ---- */

static qn_tensor *pool(const char *name, qn_pool_kind kind, int n_spatial, qn_tensor *x, const qn_pool_options *o)
{
    if (!qn__live(x, name) || !qn__given_at(of(x)->ctx, o, name, "the kernel") || !check_rank(name, x, n_spatial))
        return NULL;
    qn_pool_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.kind = (int32_t)kind;
    attrs.n_spatial = n_spatial;
    attrs.ceil_mode = o->ceil_mode;
    attrs.count_include_pad = !o->exclude_pad;
    attrs.divisor = kind == QN_POOL_avg ? o->divisor : 0;
    for (int i = 0; i < n_spatial; i++) {
        attrs.kernel[i] = o->kernel[i];
        attrs.stride[i] = o->stride[i] != 0 ? o->stride[i] : o->kernel[i];
        attrs.padding[i] = o->padding[i];
        attrs.dilation[i] = kind == QN_POOL_max && o->dilation[i] != 0 ? o->dilation[i] : 1;
    }
    return run(QN_OP_pool, &attrs, n_spatial, &x, 1);
}

#define POOL(n) \
    qn_tensor *qn_max_pool##n##d(qn_tensor *x, const qn_pool_options *options) \
    { \
        return pool("max_pool" #n "d", QN_POOL_max, n, x, options); \
    } \
    qn_tensor *qn_avg_pool##n##d(qn_tensor *x, const qn_pool_options *options) \
    { \
        return pool("avg_pool" #n "d", QN_POOL_avg, n, x, options); \
    }
/* clang-format off */
POOL(1)
POOL(2)
POOL(3)
/* clang-format on */

static bool check_size(const char *name, qn_tensor *x, const qn_shape *size)
{
    if (size->rank >= 1 && size->rank <= 3) return check_rank(name, x, size->rank);
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: a size of %d dimensions, 1 to 3 expected", name, size->rank);
    return false;
}

static qn_tensor *adaptive(const char *name, qn_pool_kind kind, qn_tensor *x, const qn_shape *size)
{
    if (!LIVE(x) || !check_size(name, x, size)) return NULL;
    qn_pool_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.kind = (int32_t)kind;
    attrs.n_spatial = size->rank;
    attrs.adaptive = 1;
    memcpy(attrs.size, size->dim, (size_t)size->rank * sizeof attrs.size[0]);
    return run(QN_OP_pool, &attrs, size->rank, &x, 1);
}

qn_tensor *qn_adaptive_avg_pool(qn_tensor *x, qn_shape size)
{
    return adaptive("adaptive_avg_pool", QN_POOL_avg, x, &size);
}
qn_tensor *qn_adaptive_max_pool(qn_tensor *x, qn_shape size)
{
    return adaptive("adaptive_max_pool", QN_POOL_max, x, &size);
}

/* ---- resizing ---- */

qn_tensor *qn_interpolate(qn_tensor *x, qn_shape size, const char *mode, bool align_corners)
{
    static const char *const linear[] = {"linear", "bilinear", "trilinear"};
    if (!LIVE(x) || !check_size("interpolate", x, &size)) return NULL;
    const bool nearest = mode == NULL || strcmp(mode, "nearest") == 0;
    if (!nearest && strcmp(mode, linear[size.rank - 1]) != 0) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "interpolate: mode \"%s\", nearest or %s expected", mode,
                      linear[size.rank - 1]);
        return NULL;
    }
    if (nearest && align_corners) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "interpolate: nearest has no corners to align");
        return NULL;
    }
    qn_upsample_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.mode = nearest ? QN_UPSAMPLE_nearest : QN_UPSAMPLE_linear;
    attrs.n_spatial = size.rank;
    attrs.align_corners = align_corners;
    memcpy(attrs.size, size.dim, (size_t)size.rank * sizeof attrs.size[0]);
    return run(QN_OP_upsample, &attrs, size.rank, &x, 1);
}
