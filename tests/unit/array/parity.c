/* SPDX-License-Identifier: MIT */
/* tests/unit/array/parity.c -- the same calls as in PyTorch: parity.inc, parity_forms.inc,
 * parity_out.inc and parity_edges.inc, made by the scripts of these names in tests/oracle, say what it gives. What
 * PyTorch refuses, at once or, for indices, when the value is looked at, is an error here too, and leaves the sources
 * as they were. */
#include "rig.h"

static double *numbers(int64_t seed, qn_dtype dtype, int64_t n)
{
    double *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        const int64_t h = (i * 7919 + seed * 104729 + i * i % 131 * 31) % 257;
        v[i] = dtype == QN_DTYPE_BOOL ? (double)(h % 2) : dtype == QN_DTYPE_U8 ? (double)(h % 7) : (double)(h % 7 - 3);
        if (qn_dtype_get(dtype)->class_ == QN_CLASS_real) v[i] = (double)h / 64 - 2;
    }
    return v;
}

/* Sources of the present row. */
static struct {
    qn_tensor *t;
    int64_t seed;
} sources[16];
static int n_sources;

/* "2, 3.5": rows have their numbers as text, which costs the compiler nothing. */
static int read_list(const char *text, double *out, int room)
{
    int n = 0;
    for (char *end = NULL;; text = end + 1) {
        assert_true(n < room);
        out[n++] = strtod(text, &end);
        assert_ptr_not_equal(end, text);
        if (*end != ',') break;
    }
    return n;
}

static qn_tensor *input(qn_context *c, int64_t seed, qn_dtype dtype, const char *dims)
{
    double dim[QN_MAX_RANK];
    qn_shape shape = {.rank = read_list(dims, dim, QN_MAX_RANK)};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = (int64_t)dim[i];
    double *v = numbers(seed, dtype, qn_shape_numel(&shape));
    qn_tensor *t = qn_to(qn_from_data(c, v, shape, QN_DTYPE_F64), dtype);
    free(v);
    sources[n_sources].t = t;
    sources[n_sources++].seed = seed;
    return t;
}

static bool sources_are_as_they_were(void)
{
    bool same = true;
    for (int i = 0; i < n_sources && same; i++) {
        const int64_t n = qn_numel(sources[i].t);
        double *want = numbers(sources[i].seed, qn_dtype_of(sources[i].t), n),
               *have = calloc((size_t)n + 1, sizeof *have);
        same = qn_to_doubles(sources[i].t, have, n) == QN_OK && memcmp(want, have, (size_t)n * sizeof *have) == 0;
        free(want);
        free(have);
    }
    return same;
}

/* z is what an in-place operation writes: it gives z back, and z stays where it is. */
static qn_tensor *z, *second, *parts[16];
static void *z_at;
static int n_parts;
static float static_data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static qn_tensor *stayed(qn_tensor *y) { return y == z && qn_data(y) == z_at ? y : NULL; }

/* The gradient of the sum of y to z. */
static qn_tensor *gradient_of(qn_tensor *y)
{
    return y != NULL && qn_backward(qn_sum(y, QN_ALL, false)) == QN_OK ? qn_grad(z) : NULL;
}

/* Part i of those that split_sizes gives. */
static qn_tensor *size_part(qn_tensor *x, int dim, int i, const int64_t *list, int n)
{
    n_parts = qn_split_sizes(x, list, n, dim, parts);
    return n_parts > i ? parts[i] : NULL;
}

static qn_tensor *index_of(qn_context *c, int64_t seed, int64_t n, qn_shape shape)
{
    int64_t v[64];
    for (int64_t i = 0; i < qn_shape_numel(&shape); i++) v[i] = (i * 7919 + seed * 104729 + i * i % 131 * 31) % n;
    return qn_from_data(c, v, shape, QN_DTYPE_I64);
}

#define in_place(x, call)      (z = (x), z_at = qn_data(z), stayed(call))
#define seen_in(x, call)       (z = (x), (call) != NULL ? z : NULL)
#define gradient(x, call)      (z = qn_requires_grad_((x), true), gradient_of(call))
#define which(call)            ((call) != NULL ? second : NULL)
#define part(fn, x, n, dim, i) (n_parts = fn((x), n, dim, parts, 16), n_parts > (i) ? parts[i] : NULL)
#define sizes(x, dim, i, ...) \
    size_part(x, dim, i, (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8))
/* clang-format off */
#define BAG(...) &(qn_embedding_bag_options){__VA_ARGS__}
/* clang-format on */
#define X(seed, dtype, ...) input(c, seed, QN_DTYPE_##dtype, #__VA_ARGS__)
#define ids(seed, n, ...)   index_of(c, seed, n, qn_shape_of(__VA_ARGS__))
#define cat2(a, b, dim)     qn_cat((qn_tensor *[]){a, b}, 2, dim)
#define stack2(a, b, dim)   qn_stack((qn_tensor *[]){a, b}, 2, dim)
#define index2(x, i, j)     qn_index(x, (qn_tensor *[]){i, j}, 2)
#define flip(x, d)          qn_flip(x, &(int){d}, 1)
#define put1(x, i, v, add)  qn_index_put(x, (qn_tensor *[]){i}, 1, v, add)
#define pads(x, mode, ...)  qn_pad(x, (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), mode, 0)
/* clang-format off */
#define OPT(...) &(qn_conv_options){__VA_ARGS__}
#define POOL(...) &(qn_pool_options){__VA_ARGS__}
/* clang-format on */
#define sdpa(q, k, v, ...)  qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){__VA_ARGS__})
/* clang-format off */
#define ROPE(...) &(qn_rope_options){__VA_ARGS__}
#define CE(...) &(qn_cross_entropy_options){__VA_ARGS__}
#define LIST(...) #__VA_ARGS__
/* clang-format on */

static int n_bad, n_rows;

static double tolerance(qn_dtype d)
{
    return d == QN_DTYPE_F64    ? 1e-12
           : d == QN_DTYPE_F32  ? 4e-6
           : d == QN_DTYPE_F16  ? 2e-3
           : d == QN_DTYPE_BF16 ? 1e-2
                                : 0;
}

static const char *compare(qn_context *c, qn_tensor *y, qn_dtype dtype, const char *dim_list, const char *stride_list,
                           const char *value_list)
{
    static double have[4096], values[4097];
    double dims[1 + QN_MAX_RANK], strides[1 + QN_MAX_RANK];
    const int n_dims = read_list(dim_list, dims, 1 + QN_MAX_RANK), n_values = read_list(value_list, values, 4097);
    (void)read_list(stride_list, strides, 1 + QN_MAX_RANK);
    assert_true(n_dims == 1 + (int)dims[0] && n_values == 1 + (int)values[0]);
    if (y == NULL) return qn_context_error(c)->text;
    if (qn_dtype_of(y) != dtype) return qn_dtype_get(qn_dtype_of(y))->name;
    const qn_layout l = qn_layout_get(y);
    bool same = l.rank == (int)dims[0];
    for (int i = 0; same && i < l.rank; i++)
        same = (double)l.dim[i] == dims[1 + i] && (strides[0] == 0 || (double)l.stride[i] == strides[1 + i]);
    if (!same) return "another shape or other strides";
    const int64_t n = (int64_t)values[0];
    if (n > 4096 || qn_to_doubles(y, have, n) != QN_OK) return qn_context_error(c)->text;
    const double t = tolerance(dtype);
    for (int64_t i = 0; i < n; i++) {
        const double want = values[1 + i];
        if (have[i] == want || (isnan(have[i]) && isnan(want)) || fabs(have[i] - want) <= t * (1 + fabs(want)))
            continue;
        static char text[96];
        snprintf(text, sizeof text, "element %d is %.9g, %.9g expected", (int)i, have[i], want);
        return text;
    }
    return NULL;
}

static void told(const char *call, const char *what)
{
    n_rows++;
    if (what == NULL) return;
    n_bad++;
    print_error("%s: %s\n", call, what);
}

/* A call that PyTorch refuses gives nothing, and says why. */
static const char *refused(qn_context *c, qn_tensor *y)
{
    if (y != NULL && qn_data(y) != NULL && qn_context_error(c)->status == QN_OK) return "an error expected";
    if (qn_context_error(c)->status == QN_OK) return "no error told";
    qn_context_clear(c);
    return sources_are_as_they_were() ? NULL : "a source has changed";
}

static void end_row(qn_context *c)
{
    (void)qn_scope_end(c, NULL);
    qn_context_clear(c);
    n_sources = 0;
}

#define ROW(call, dtype, dims, strides, values) \
    (void)qn_scope_begin(c); \
    told(#call, compare(c, call, QN_DTYPE_##dtype, dims, strides, values)); \
    end_row(c);
#define ERROR(...) \
    (void)qn_scope_begin(c); \
    told(#__VA_ARGS__, refused(c, __VA_ARGS__)); \
    end_row(c);

#include "parity.inc"
#include "parity_forms.inc"
#include "parity_out.inc"
#include "parity_edges.inc"

static void like_pytorch(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof parity_parts / sizeof *parity_parts; i++) parity_parts[i](c);
    for (size_t i = 0; i < sizeof parity_forms_parts / sizeof *parity_forms_parts; i++) parity_forms_parts[i](c);
    for (size_t i = 0; i < sizeof parity_out_parts / sizeof *parity_out_parts; i++) parity_out_parts[i](c);
    for (size_t i = 0; i < sizeof parity_edges_parts / sizeof *parity_edges_parts; i++) parity_edges_parts[i](c);
    qn_context_destroy(c);
    print_message("%d rows\n", n_rows);
    assert_int_equal(n_bad, 0);
    assert_true(n_rows >= 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
