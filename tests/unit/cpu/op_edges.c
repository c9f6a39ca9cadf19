/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_edges.c -- the ends of what shape rules let in, where the results are known without a program to
 * compare with: numbers that no float holds, windows and strides larger than what they go over, results that get fewer.
 */
#include "rig.h"

#include "unit/graph/builders.h"

#define S(...) qn_shape_of(__VA_ARGS__)

/* One node over tensors, its elements in double, or bytes where they are whole. */
typedef struct edge {
    tensor src[3];
    const void *attrs;
    const double *want;
    int64_t n;
    qn_dtype dtype;
} edge;

static double elem(qn_dtype dtype, const void *data, int64_t i)
{
    float f = 0;
    const void *p = (const char *)data + i * qn_dtype_get(dtype)->block_bytes;
    if (dtype == QN_DTYPE_F64) return *(const double *)p;
    if (dtype == QN_DTYPE_I64) return (double)*(const int64_t *)p;
    if (dtype == QN_DTYPE_I32) return *(const int32_t *)p;
    if (dtype == QN_DTYPE_I8) return *(const int8_t *)p;
    if (dtype == QN_DTYPE_U8 || dtype == QN_DTYPE_BOOL) return *(const uint8_t *)p;
    OK(qn_unpack(dtype, p, &f, 1, err));
    return (double)f;
}

static void check_edge(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const edge *c = ctx;
    (void)r;
    assert_int_equal(bytes, c->n * qn_dtype_get(c->dtype)->block_bytes);
    for (int64_t i = 0; i < c->n; i++) close_to(elem(c->dtype, result, i), c->want[i], 0, "edge", i);
}

static tensor floats(qn_shape shape, const float *values)
{
    tensor t = tensor_new(QN_DTYPE_F32, shape);
    memcpy(t.data, values, t.bytes);
    return t;
}

static void try_edge(build_fn build, edge *c)
{
    for_levels(build, c, check_edge);
    for (int i = 0; i < 3; i++) tensor_free(&c->src[i]);
}

/* ---- strides beyond the size of what they step over ------------------------------------------ */

static qn_node *build_conv_input(rig *r, void *ctx)
{
    const edge *c = ctx;
    return qn__conv_input(r->g, rig_input(r, &c->src[0]), rig_input(r, &c->src[1]), NULL, c->attrs);
}

static void test_wide_strides(void **state)
{
    (void)state;
    static const int64_t strides[] = {1 << 22, 1 << 21, 7, 10000, INT32_MAX};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        const int64_t s = strides[i];
        const qn_conv_attrs one = {
            .stride = {s, s, s}, .dilation = {1, 1, 1}, .size = {1, 1, 1}, .n_spatial = 3, .groups = 1};
        try_edge(build_conv_input,
                 &(edge){.src = {floats(S(1, 1, 1, 1, 1), (float[]){3}), floats(S(1, 1, 1, 1, 1), (float[]){0.5f})},
                         .attrs = &one,
                         .want = (double[]){1.5},
                         .n = 1});
        const qn_conv_attrs square = {
            .stride = {s, s}, .dilation = {1, 1}, .size = {2, 2}, .n_spatial = 2, .groups = 1};
        try_edge(build_conv_input,
                 &(edge){.src = {floats(S(1, 1, 1, 1), (float[]){3}), floats(S(1, 1, 2, 2), (float[]){1, 2, 3, 4})},
                         .attrs = &square,
                         .want = (double[]){3, 6, 9, 12},
                         .n = 4});
        /* taps at -1, 2 and 5 */
        const qn_conv_attrs wide = {
            .stride = {s}, .padding = {1}, .dilation = {3}, .size = {5}, .n_spatial = 1, .groups = 1};
        try_edge(build_conv_input,
                 &(edge){.src = {floats(S(1, 1, 1), (float[]){3}), floats(S(1, 2, 3), (float[]){1, 2, 3, 4, 5, 6})},
                         .attrs = &wide,
                         .want = (double[]){0, 0, 6, 0, 0, 0, 0, 15, 0, 0},
                         .n = 10});
    }
    const qn_conv_attrs empty = {.stride = {5}, .padding = {1}, .dilation = {1}, .n_spatial = 1, .groups = 1};
    try_edge(build_conv_input,
             &(edge){.src = {floats(S(1, 1, 1), (float[]){3}), floats(S(1, 1, 2), (float[]){1, 2})}, .attrs = &empty});
}

/* ---- a compiled graph with fewer results ----------------------------------------------------- */

enum { ROWS = 64, LONG = 16384 }; /* from 64 results on, the blocks of one are not shared among threads */

static qn_graph *mean_of(int64_t rows)
{
    qn_graph *g = NULL;
    OK(qn__graph_create(&g, err));
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &S(rows, LONG));
    qn__output(g, qn__name(g, qn__reduce(g, QN_OP_mean, x, (int[]){1}, 1, false, 0), "y"));
    return g;
}

static void test_fewer_results(void **state)
{
    (void)state;
    static const int32_t less[] = {24, 0, 1, 63};
    float *x = malloc((size_t)ROWS * LONG * 4), y[ROWS];
    for (int64_t i = 0; i < ROWS * LONG; i++) x[i] = (float)(i / LONG - 7);
    rig r;
    qn_exec *e;
    rig_open(&r, QN_CPU_ref, 2);
    OK(qn__sched_compile(r.sched, mean_of(ROWS), "mean", 4, &e, err));
    OK(qn__exec_learn(e, 0, mean_of(ROWS - 1), err));
    for (size_t i = 0; i < sizeof less / sizeof less[0]; i++) {
        const int64_t rows = ROWS - less[i];
        assert_true(qn__exec_resize(e, (int32_t[QN_EXEC_AXES]){less[i]}));
        OK(qn__exec_set(e, qn__exec_find(e, "x"), x, (uint64_t)rows * LONG * 4, err));
        OK(qn__exec_run(e, NULL, err));
        OK(qn__exec_get(e, qn__exec_find(e, "y"), y, 0, (uint64_t)rows * 4, err));
        for (int64_t row = 0; row < rows; row++) close_to((double)y[row], (double)row - 7, 0, "mean", row);
    }
    rig_close(&r);
    free(x);
}

/* ---- products beyond floats ------------------------------------------------------------------ */

static qn_node *build_cumprod_back(rig *r, void *ctx)
{
    const edge *c = ctx;
    return qn__cumprod_back(r->g, rig_input(r, &c->src[0]), rig_input(r, &c->src[1]));
}

/* What comes behind is too large for a float where what comes before is 0, or too small. */
static void test_products_beyond_floats(void **state)
{
    (void)state;
    try_edge(build_cumprod_back, &(edge){.src = {floats(S(2, 4), (float[]){0, 0, 0, 1, 0, 0, 0, 1}),
                                                 floats(S(2, 4), (float[]){0, 1e20f, 1e20f, 1e20f, 0x1p-100f, 0x1p-30f,
                                                                           0x1p90f, 0x1p100f})},
                                         .want = (double[]){INFINITY, 0, 0, 0, INFINITY, 0x1p90, 0x1p-30, 0x1p-40},
                                         .n = 8});
    enum { N = 5000 }; /* three parts of a row */
    static float x[N], dy[N];
    static double want[N];
    for (int i = 0; i < N; i++) {
        x[i] = i % 100 == 99 ? -2 : i % 100 == 49 ? 0.5f : 1; /* partial products are powers of 2: exact */
        dy[i] = (float)(i % 7 - 3);
    }
    for (int i = 0; i < N; i++) {
        double product = 1;
        for (int k = 0; k < i; k++) product *= (double)x[k];
        want[i] = product * (double)dy[i];
        for (int k = i + 1; k < N; k++) want[i] += (product *= (double)x[k]) * (double)dy[k];
    }
    try_edge(build_cumprod_back, &(edge){.src = {floats(S(1, N), dy), floats(S(1, N), x)}, .want = want, .n = N});
}

/* ---- windows beyond the size of what they go over -------------------------------------------- */

static qn_node *build_pool(rig *r, void *ctx)
{
    const edge *c = ctx;
    return qn__pool(r->g, rig_input(r, &c->src[0]), c->attrs);
}

static qn_node *build_pool_back(rig *r, void *ctx)
{
    const edge *c = ctx;
    return qn__pool_back(r->g, rig_input(r, &c->src[0]), NULL, c->attrs);
}

/* What is counted ends at the end of the padding. */
static void test_windows_over_the_end(void **state)
{
    (void)state;
    const qn_pool_attrs max = {.kernel = {3}, .stride = {2}, .dilation = {1}, .n_spatial = 1, .ceil_mode = 1};
    qn_pool_attrs avg = {.kernel = {5},
                         .stride = {4},
                         .padding = {1},
                         .dilation = {1},
                         .size = {1},
                         .kind = QN_POOL_avg,
                         .n_spatial = 1,
                         .ceil_mode = 1};
    try_edge(build_pool, &(edge){.src = {floats(S(1, 2, 2), (float[]){1, 2, -3, -4})},
                                 .attrs = &max,
                                 .want = (double[]){2, -3},
                                 .n = 2});
    for (int pads = 0; pads < 2; pads++) {
        avg.count_include_pad = pads;
        try_edge(build_pool, &(edge){.src = {floats(S(1, 1, 1), (float[]){6})},
                                     .attrs = &avg,
                                     .want = (double[]){pads ? 2 : 6},
                                     .n = 1});
        try_edge(build_pool_back, &(edge){.src = {floats(S(1, 1, 1), (float[]){6})},
                                          .attrs = &avg,
                                          .want = (double[]){pads ? 2 : 6},
                                          .n = 1});
    }
}

/* ---- numbers beyond the dtype ---------------------------------------------------------------- */

static qn_node *build_clamp(rig *r, void *ctx)
{
    const edge *c = ctx;
    const qn_clamp_attrs *a = c->attrs;
    return qn__clamp(r->g, rig_input(r, &c->src[0]), a->min, a->max);
}

static void test_bounds_beyond_the_dtype(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        qn_clamp_attrs bounds;
        double want[2]; /* of 1 and 2 */
    } cases[] = {
        {QN_DTYPE_I32, {3e9, 1e18}, {INT32_MAX, INT32_MAX}},
        {QN_DTYPE_I32, {-1e18, -3e9}, {INT32_MIN, INT32_MIN}},
        {QN_DTYPE_I32, {-3e9, 1.5}, {1, 1}},
        {QN_DTYPE_I32, {1.5, 3e9}, {2, 2}},
        {QN_DTYPE_I32, {INFINITY, INFINITY}, {INT32_MAX, INT32_MAX}},
        {QN_DTYPE_I8, {200, 300}, {127, 127}},
        {QN_DTYPE_I8, {-300, -200}, {-128, -128}},
        {QN_DTYPE_I8, {-INFINITY, INFINITY}, {1, 2}},
        {QN_DTYPE_U8, {-5, -3}, {0, 0}},
        {QN_DTYPE_U8, {200, 300}, {200, 200}},
        {QN_DTYPE_U8, {300, 400}, {255, 255}},
        {QN_DTYPE_I64, {1e19, 1e20}, {0x1p63, 0x1p63}},
        {QN_DTYPE_I64, {-1e20, -1e19}, {-0x1p63, -0x1p63}},
        {QN_DTYPE_I64, {-1e20, 1}, {1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tensor x = tensor_new(cases[i].dtype, S(2));
        const int bytes = qn_dtype_get(x.dtype)->block_bytes;
        for (int k = 0; k < 2; k++) ((uint8_t *)x.data)[k * bytes] = (uint8_t)(k + 1);
        try_edge(
            build_clamp,
            &(edge){.src = {x}, .attrs = &cases[i].bounds, .want = cases[i].want, .n = 2, .dtype = cases[i].dtype});
    }
}

static qn_node *build_pad(rig *r, void *ctx)
{
    const edge *c = ctx;
    return qn__pad(r->g, rig_input(r, &c->src[0]), (int64_t[]){1}, (int64_t[]){1}, *(const double *)c->attrs);
}

/* Everything but 0 is true, and that is a byte of 1. */
static void test_padding_with_truth(void **state)
{
    (void)state;
    static const double values[] = {0, 1, 2, 0.5, -256};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const double truth = values[i] != 0;
        try_edge(build_pad, &(edge){.src = {tensor_new(QN_DTYPE_BOOL, S(2))},
                                    .attrs = &values[i],
                                    .want = (double[]){truth, 0, 0, truth},
                                    .n = 4,
                                    .dtype = QN_DTYPE_BOOL});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_strides),
        cmocka_unit_test(test_fewer_results),
        cmocka_unit_test(test_products_beyond_floats),
        cmocka_unit_test(test_windows_over_the_end),
        cmocka_unit_test(test_bounds_beyond_the_dtype),
        cmocka_unit_test(test_padding_with_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
