/* SPDX-License-Identifier: MIT */
/* src/nn/kv_cache.c -- keys and values of what came before, for decoding a few tokens at a time. Tensors keep their
 * shapes from step to step and positions are values, so that every step finds its graph compiled; only the length that
 * is looked at grows, a page at a time. */
#include "nn/attention.h"

#include <math.h>
#include <string.h>

#define PAGE 256 /* positions; a graph is compiled for each page reached, and at most so many are looked at in vain */

struct qn_kv_cache {
    qn_context *ctx;
    qn_kv_options options;
    qn_kv_shape *layers;
    qn_tensor **k, **v;   /* of each layer [capacity, batch, heads, d], and [.., dv]: F32, or F64 where q was F64 */
    int64_t n, n_more;    /* positions held; being added */
    qn_tensor *positions; /* I64 [n_more], while a step is on */
    qn_tensor *rows;      /* the same as I32 */
    qn_tensor *mask;      /* BOOL [n_more, looked at] */
};

static bool make_layers(qn_kv_cache *kv, const qn_kv_shape *layers)
{
    const qn_kv_options *o = &kv->options;
    const size_t n = (size_t)o->n_layers;
    kv->layers = qn__calloc(n, sizeof *kv->layers);
    kv->k = qn__calloc(n, sizeof *kv->k);
    kv->v = qn__calloc(n, sizeof *kv->v);
    if (kv->layers == NULL || kv->k == NULL || kv->v == NULL)
        return (void)QN_FAIL_NOMEM(qn__err(kv->ctx), n * sizeof *kv->layers), false;
    memcpy(kv->layers, layers, n * sizeof *layers);
    for (size_t i = 0; i < n; i++) {
        const qn_kv_shape *l = &layers[i];
        kv->k[i] = qn_keep(qn_zeros(kv->ctx, qn_shape_of(o->capacity, o->batch, l->heads, l->d), QN_DTYPE_F32));
        kv->v[i] = qn_keep(qn_zeros(kv->ctx, qn_shape_of(o->capacity, o->batch, l->heads, l->dv), QN_DTYPE_F32));
        if (kv->k[i] == NULL || kv->v[i] == NULL) return false;
    }
    return true;
}

qn_kv_cache *qn__kv_cache_of(qn_context *c, const qn_kv_options *o, const qn_kv_shape *layers)
{
    if (!qn__sizes_fit(c, "kv_cache", (const int64_t[]){o->n_layers, o->batch, o->capacity}, 3)) return NULL;
    if (o->capacity > INT32_MAX) {
        (void)qn_context_fail(c, QN_STATUS_limit, "kv_cache: a capacity of %lld, at most %d is possible",
                              (long long)o->capacity, INT32_MAX);
        return NULL;
    }
    qn_kv_cache *kv = qn__calloc(1, sizeof *kv);
    if (kv == NULL) return (void)QN_FAIL_NOMEM(qn__err(c), sizeof *kv), NULL;
    kv->ctx = c;
    qn__context_hold(c);
    kv->options = *o;
    if (make_layers(kv, layers)) return kv;
    qn_kv_cache_destroy(kv);
    return NULL;
}

qn_kv_cache *qn_kv_cache_create(qn_context *c, const qn_kv_options *options)
{
    const qn_kv_options *o = options;
    if (c == NULL) return NULL;
    const int64_t sizes[] = {o->n_layers, o->batch, o->heads, o->capacity, o->head_dim};
    if (!qn__sizes_fit(c, "kv_cache", sizes, 5)) return NULL;
    qn_kv_shape *layers = qn__calloc((size_t)o->n_layers, sizeof *layers);
    if (layers == NULL) return (void)QN_FAIL_NOMEM(qn__err(c), (size_t)o->n_layers * sizeof *layers), NULL;
    for (int64_t i = 0; i < o->n_layers; i++) layers[i] = (qn_kv_shape){o->heads, o->head_dim, o->head_dim};
    qn_kv_cache *kv = qn__kv_cache_of(c, o, layers);
    qn__free(layers);
    return kv;
}

void qn_kv_cache_destroy(qn_kv_cache *kv)
{
    if (kv == NULL) return;
    for (int64_t i = 0; i < kv->options.n_layers; i++) {
        if (kv->k != NULL) qn_release(kv->k[i]);
        if (kv->v != NULL) qn_release(kv->v[i]);
    }
    qn__free(kv->layers);
    qn__free(kv->k);
    qn__free(kv->v);
    qn__context_let_go(kv->ctx);
    qn__free(kv);
}

int64_t qn_kv_cache_length(const qn_kv_cache *kv) { return kv != NULL ? kv->n : 0; }

void qn_kv_cache_truncate(qn_kv_cache *kv, int64_t length)
{
    if (kv != NULL && length >= 0 && length < kv->n) kv->n = length;
}

bool qn__kv_begin(qn_kv_cache *kv, int64_t n)
{
    const int64_t capacity = kv->options.capacity;
    if (n > capacity - kv->n) {
        (void)qn_context_fail(kv->ctx, QN_STATUS_limit,
                              "kv_cache: %lld of %lld positions are taken, %lld more do not fit", (long long)kv->n,
                              (long long)capacity, (long long)n);
        return false;
    }
    const int64_t pages = (kv->n + n + PAGE - 1) / PAGE, seen = pages * PAGE < capacity ? pages * PAGE : capacity;
    kv->n_more = n;
    kv->positions = qn_arange(kv->ctx, (double)kv->n, (double)(kv->n + n), 1, QN_DTYPE_I64);
    qn_tensor *all = qn_arange(kv->ctx, 0, (double)seen, 1, QN_DTYPE_I64);
    kv->mask = kv->positions != NULL && all != NULL ? qn_le(all, qn_unsqueeze(kv->positions, 1)) : NULL;
    kv->rows = qn_to(kv->positions, QN_DTYPE_I32);
    return kv->mask != NULL && kv->rows != NULL;
}

qn_tensor *qn__kv_positions(const qn_kv_cache *kv) { return kv->positions; }

void qn__kv_end(qn_kv_cache *kv, bool good)
{
    if (good) kv->n += kv->n_more;
    kv->n_more = 0;
    kv->positions = kv->rows = kv->mask = NULL;
}

/* The cache of a layer lies where the layer computes, and becomes F64 when it has to hold that. */
static qn_tensor *follow(qn_tensor **kept, int place, bool f64)
{
    const qn_dtype dtype = f64 ? QN_DTYPE_F64 : qn_dtype_of(*kept);
    if (qn__place_of(*kept) == place && qn_dtype_of(*kept) == dtype) return *kept;
    qn_tensor *stored = qn_keep(qn_to(qn__there(*kept, place), dtype));
    if (stored == NULL) return NULL;
    qn_release(*kept);
    return *kept = stored;
}

/* Row rows_at[i] becomes values[i]: one node, which touches no other row, but in F64, of which set_rows has none. */
static bool write_rows(qn_tensor *rows, qn_tensor *values, qn_tensor *rows_at)
{
    if (rows == NULL || values == NULL) return false;
    if (qn_dtype_of(rows) == QN_DTYPE_F64) return qn_index_copy_(rows, 0, rows_at, values) != NULL;
    return qn__update(rows, QN_OP_set_rows, NULL, (qn_tensor *[]){values, rows_at}, 2);
}

/* Stores t [batch, n, heads, d] and gives what is looked at [batch, heads, seen, d]. */
static qn_tensor *exchange(qn_kv_cache *kv, qn_tensor **kept, qn_tensor *t, bool f64)
{
    qn_tensor *rows_at = qn__there(kv->rows, qn__place_of(t));
    qn_tensor *stored = rows_at != NULL ? follow(kept, qn__place_of(t), f64) : NULL;
    if (stored == NULL) return NULL;
    qn_tensor *values = qn_to(qn_transpose(qn_detach(t), 0, 1), qn_dtype_of(stored));
    values = values != NULL ? qn_reshape(values, qn_shape_of(kv->n_more, -1)) : NULL;
    if (!write_rows(qn_view_as(stored, qn_shape_of(kv->options.capacity, -1)), values, rows_at)) return NULL;
    return qn_permute_to(qn_narrow(stored, 0, 0, qn_dim(kv->mask, 1)), 1, 2, 0, 3);
}

/* ---- attention ---- */

/* [.., heads d] -> [.., heads, d] */
static qn_tensor *split(qn_tensor *x, int64_t heads)
{
    if (x == NULL) return NULL;
    qn_shape s = qn_shape_get(x);
    if (s.rank < 2 || s.rank >= QN_MAX_RANK || s.dim[s.rank - 1] % heads != 0) {
        char text[192];
        (void)qn_context_fail(qn_context_of(x), QN_STATUS_invalid, "attention: %s with %lld heads",
                              qn_shape_print(&s, text, sizeof text), (long long)heads);
        return NULL;
    }
    s.dim[s.rank] = s.dim[s.rank - 1] / heads;
    s.dim[s.rank++ - 1] = heads;
    return qn_reshape(x, s);
}

static bool cache_fits(const qn_kv_cache *kv, const qn_attend_spec *spec, const qn_tensor *k, const qn_tensor *v)
{
    const qn_kv_options *o = &kv->options;
    const bool there = spec->layer >= 0 && spec->layer < o->n_layers;
    const qn_kv_shape *l = &kv->layers[there ? spec->layer : 0];
    const qn_shape a = qn_shape_get(k), b = qn_shape_get(v), want = qn_shape_of(o->batch, kv->n_more, l->heads, l->d),
                   want_v = qn_shape_of(o->batch, kv->n_more, l->heads, l->dv);
    char t1[192], t2[192], t3[192];
    if (spec->mask != NULL) {
        (void)qn_context_fail(kv->ctx, QN_STATUS_unsupported,
                              "attention: a mask together with a cache, which has its own");
        return false;
    }
    if (there && qn_shape_equal(&a, &want) && qn_shape_equal(&b, &want_v)) return true;
    (void)qn_context_fail(kv->ctx, QN_STATUS_invalid,
                          "attention: keys %s and values %s of layer %d do not fit a cache of %d layers that takes %s",
                          qn_shape_print(&a, t1, sizeof t1), qn_shape_print(&b, t2, sizeof t2), spec->layer,
                          (int)o->n_layers, qn_shape_print(&want, t3, sizeof t3));
    return false;
}

/* What each new position sees: itself and those before it, from `first` on. */
static qn_tensor *looked_at(const qn_kv_cache *kv, qn_tensor *first, int place)
{
    qn_tensor *mask = qn__there(kv->mask, place);
    if (first == NULL || mask == NULL) return mask;
    qn_tensor *all = qn_arange(kv->ctx, 0, (double)qn_dim(mask, 1), 1, QN_DTYPE_I64);
    return all != NULL ? qn_logical_and(mask, qn_ge(qn__there(all, place), first)) : NULL;
}

/* The mask, BOOL or added to scores, and what distances cost, as one: [heads, n, m]. pos [n]: NULL for 0, 1, .. */
static qn_tensor *with_distances(qn_tensor *mask, qn_tensor *slopes, qn_tensor *pos, int64_t n, int64_t m)
{
    qn_context *c = qn_context_of(slopes);
    const int32_t was = qn__place_swap(c, qn__place_of(slopes));
    if (pos == NULL) pos = qn_arange(c, 0, (double)n, 1, QN_DTYPE_I64);
    if (pos != NULL) pos = qn__there(pos, qn__place_of(slopes));
    qn_tensor *far = qn_abs(qn_sub(qn_arange(c, 0, (double)m, 1, QN_DTYPE_I64), qn_unsqueeze(pos, 1)));
    qn__place_swap(c, was);
    qn_tensor *cost = qn_mul(slopes, qn_neg(qn_to(far, QN_DTYPE_F32)));
    if (mask == NULL || cost == NULL) return cost;
    return qn_dtype_of(mask) == QN_DTYPE_BOOL ? qn_masked_fill(cost, qn_logical_not(mask), -(double)INFINITY)
                                              : qn_add(cost, mask);
}

static qn_tensor *as(qn_tensor *t, qn_dtype dtype)
{
    return t != NULL && qn_dtype_of(t) != dtype ? qn_to(t, dtype) : t;
}

/* With a cache: k and v become what it holds. Attention computes 16 bits in F32, so q becomes what the cache is, and
 * nothing of the cache is converted. */
static bool by_cache(const qn_attend_spec *spec, qn_tensor **q, qn_tensor **k, qn_tensor **v, qn_sdpa_options *options)
{
    qn_kv_cache *kv = spec->cache;
    const bool f64 = qn_dtype_of(*q) == QN_DTYPE_F64;
    if (!cache_fits(kv, spec, *k, *v)) return false;
    *k = exchange(kv, &kv->k[spec->layer], *k, f64);
    *v = exchange(kv, &kv->v[spec->layer], *v, f64);
    if (*k == NULL || *v == NULL) return false;
    const qn_dtype dtype = qn_dtype_of(*k);
    *q = as(*q, dtype);
    options->sinks = as(spec->sinks, dtype);
    options->mask = looked_at(kv, spec->first, qn__place_of(*k));
    options->is_causal = false;
    return *q != NULL && options->mask != NULL && (options->sinks != NULL || spec->sinks == NULL);
}

qn_tensor *qn__attend_heads(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attend_spec *spec)
{
    qn_kv_cache *kv = spec->cache;
    qn_sdpa_options options = {.mask = spec->mask,
                               .is_causal = spec->is_causal,
                               .enable_gqa = spec->heads != spec->kv_heads,
                               .dropout_p = spec->dropout_p,
                               .scale = spec->scale,
                               .softcap = spec->softcap,
                               .sinks = spec->sinks,
                               .window = spec->window};
    if (q == NULL || k == NULL || v == NULL) return NULL;
    const qn_dtype dtype = qn_dtype_of(q);
    if (kv != NULL) {
        if (!by_cache(spec, &q, &k, &v, &options)) return NULL;
    } else {
        k = qn_transpose(k, -3, -2);
        v = qn_transpose(v, -3, -2);
        options.mask = qn__there(spec->mask, qn__place_of(q));
        if (options.mask == NULL && spec->mask != NULL) return NULL;
    }
    if (spec->slopes != NULL) {
        options.mask = k == NULL ? NULL
                                 : with_distances(options.mask, spec->slopes, kv != NULL ? kv->positions : NULL,
                                                  qn_dim(q, -3), qn_dim(k, -2));
        if (options.mask == NULL) return NULL;
    }
    qn_tensor *y = as(qn_scaled_dot_product_attention(qn_transpose(q, -3, -2), k, v, &options), dtype);
    return y != NULL ? qn_flatten(qn_transpose(y, -3, -2), -2, -1) : NULL;
}

qn_tensor *qn__attend(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attend_spec *spec)
{
    q = split(q, spec->heads);
    k = split(k, spec->kv_heads);
    v = split(v, spec->kv_heads);
    if (q != NULL && k != NULL && spec->rope != NULL) {
        qn_tensor *positions = spec->cache != NULL ? qn__there(spec->cache->positions, qn__place_of(q)) : NULL;
        q = qn_rope(q, positions, spec->rope);
        k = qn_rope(k, positions, spec->rope);
    }
    return qn__attend_heads(q, k, v, spec);
}
