/* SPDX-License-Identifier: MIT */
/* tests/unit/array/parity.c -- the same calls as in PyTorch: parity.inc, made by tests/oracle/parity.py, says what it gives. */
#include "rig.h"

static qn_tensor *input(qn_context *c, int64_t seed, qn_dtype dtype, qn_shape shape)
{
    const int64_t n = qn_shape_numel(&shape);
    double *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        const int64_t h = (i * 7919 + seed * 104729 + i * i % 131 * 31) % 257;
        v[i] = dtype == QN_DTYPE_BOOL ? (double)(h % 2) : dtype == QN_DTYPE_U8 ? (double)(h % 7) : (double)(h % 7 - 3);
        if (qn_dtype_get(dtype)->class_ == QN_CLASS_real) v[i] = (double)h / 64 - 2;
    }
    qn_tensor *t = qn_to(qn_from_data(c, v, shape, QN_DTYPE_F64), dtype);
    free(v);
    return t;
}

static qn_tensor *index_of(qn_context *c, int64_t seed, int64_t n, qn_shape shape)
{
    int64_t v[64];
    for (int64_t i = 0; i < qn_shape_numel(&shape); i++) v[i] = (i * 7919 + seed * 104729 + i * i % 131 * 31) % n;
    return qn_from_data(c, v, shape, QN_DTYPE_I64);
}

#define X(seed, dtype, ...) input(c, seed, QN_DTYPE_##dtype, qn_shape_of(__VA_ARGS__))
#define ids(seed, n, ...) index_of(c, seed, n, qn_shape_of(__VA_ARGS__))
#define cat2(a, b, dim) qn_cat((qn_tensor *[]){a, b}, 2, dim)
#define stack2(a, b, dim) qn_stack((qn_tensor *[]){a, b}, 2, dim)
#define index2(x, i, j) qn_index(x, (qn_tensor *[]){i, j}, 2)
#define put1(x, i, v, add) qn_index_put(x, (qn_tensor *[]){i}, 1, v, add)
#define pads(x, mode, ...) qn_pad(x, (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), mode, 0)
#define OPT(...) &(qn_conv_options){__VA_ARGS__}
#define POOL(...) &(qn_pool_options){__VA_ARGS__}
#define sdpa(q, k, v, ...) qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){__VA_ARGS__})
#define ROPE(...) &(qn_rope_options){__VA_ARGS__}
#define CE(...) &(qn_cross_entropy_options){__VA_ARGS__}
#define LIST(...) (const double[]){__VA_ARGS__}

static int n_bad, n_rows;

static double tolerance(qn_dtype d)
{
    return d == QN_DTYPE_F64 ? 1e-12 : d == QN_DTYPE_F32 ? 4e-6 : d == QN_DTYPE_F16 ? 2e-3 : d == QN_DTYPE_BF16 ? 1e-2 : 0;
}

static const char *compare(qn_context *c, qn_tensor *y, qn_dtype dtype, const double *dims, const double *strides, const double *values)
{
    static double have[4096];
    if (y == NULL) return qn_context_error(c)->text;
    if (qn_dtype_of(y) != dtype) return qn_dtype_get(qn_dtype_of(y))->name;
    const qn_layout l = qn_layout_get(y);
    bool same = l.rank == (int)dims[0];
    for (int i = 0; same && i < l.rank; i++) same = (double)l.dim[i] == dims[1 + i] && (strides[0] == 0 || (double)l.stride[i] == strides[1 + i]);
    if (!same) return "another shape or other strides";
    const int64_t n = (int64_t)values[0];
    if (n > 4096 || qn_to_doubles(y, have, n) != QN_OK) return qn_context_error(c)->text;
    const double t = tolerance(dtype);
    for (int64_t i = 0; i < n; i++) {
        const double want = values[1 + i];
        if (have[i] == want || (isnan(have[i]) && isnan(want)) || fabs(have[i] - want) <= t * (1 + fabs(want))) continue;
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
static const char *refused(qn_context *c, const qn_tensor *y)
{
    return y != NULL ? "an error expected" : qn_context_error(c)->status == QN_OK ? "no error told" : NULL;
}

#define ROW(call, dtype, dims, strides, values) \
    (void)qn_scope_begin(c); \
    told(#call, compare(c, call, QN_DTYPE_##dtype, dims, strides, values)); \
    (void)qn_scope_end(c, NULL); \
    qn_context_clear(c);
#define ERROR(...) \
    (void)qn_scope_begin(c); \
    told(#__VA_ARGS__, refused(c, __VA_ARGS__)); \
    (void)qn_scope_end(c, NULL); \
    qn_context_clear(c);

static void like_pytorch(void **state)
{
    (void)state;
    qn_context *c = context_new();
#include "parity.inc"
    qn_context_destroy(c);
    print_message("%d rows\n", n_rows);
    assert_int_equal(n_bad, 0);
    assert_true(n_rows >= 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
