/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_linear.c -- linear with every weight format that packs, odd shapes, strided columns, narrowed
 * weights and a bias, against double; a column's result does not depend on the other columns. */
#include "rig.h"

typedef struct lin_case {
    qn_dtype dtype;
    int64_t cols, k, m;
    bool bias, permuted; /* permuted: x is stored [k, cols] */
    int64_t skip;        /* rows of the stored weight before the ones that count */
    tensor x, w, b;
    int64_t first, n; /* columns to run */
} lin_case;

static qn_node *build(rig *r, void *ctx)
{
    lin_case *c = ctx;
    qn_node *x = rig_input(r, &c->x), *w = rig_param(r, &c->w, 0), *b = c->bias ? rig_param(r, &c->b, 0) : NULL;
    if (c->permuted) x = qn__permute(r->g, x, (int[]){1, 0}, 2);
    if (c->n < c->cols) x = qn__narrow(r->g, x, 0, c->first, c->n);
    if (c->skip) w = qn__narrow(r->g, w, 0, c->skip, c->m);
    return qn__linear(r->g, x, w, b);
}

/* What quantizing a column to qn_act may cost: a step of its block for each weight. */
ORACLE static void steps_of(const lin_case *c, int64_t col, double *step)
{
    const int64_t block = qn__kernels_get(QN_CPU_ref)->mm[c->dtype].act == QN_ACT_256 ? 256 : 32;
    for (int64_t at = 0; at < c->k; at += block) {
        double lo = 0, hi = 0;
        for (int64_t i = at; i < at + block; i++) {
            const double x = c->x.value[c->permuted ? i * c->cols + col : col * c->k + i];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        for (int64_t i = at; i < at + block; i++) step[i] = (hi - lo) / 254;
    }
}

ORACLE static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const lin_case *c = ctx;
    const float *y = result;
    const qn_act_kind act = r->kernels->mm[c->dtype].act;
    const bool quantized = act == QN_ACT_32 || act == QN_ACT_256;
    double *step = calloc((size_t)c->k + 1, sizeof *step);
    assert_int_equal(bytes, c->cols * c->m * 4);
    for (int64_t col = 0; col < c->cols; col++) {
        if (quantized) steps_of(c, col, step);
        for (int64_t row = 0; row < c->m; row++) {
            double want = c->bias ? c->b.value[row] : 0, size = fabs(want), bound = 0;
            for (int64_t i = 0; i < c->k; i++) {
                const double w = c->w.value[(row + c->skip) * c->k + i],
                             x = c->x.value[c->permuted ? i * c->cols + col : col * c->k + i];
                want += w * x;
                size += fabs(w * x);
                if (quantized) bound += fabs(w) * step[i] * 0.6;
                if (act == QN_ACT_bf16) bound += fabs(w * x) * 0x1p-17; /* act.h */
                if (act == QN_ACT_512) bound += fabs(w * x) * (0x1p-17 + 0x1p-15);
            }
            close_to(y[col * c->m + row], want, bound + (double)(c->k + 2) * FLT_EPSILON * size,
                     qn_dtype_get(c->dtype)->name, col * c->m + row);
        }
    }
    free(step);
}

static void try_case(lin_case c)
{
    c.n = c.cols;
    c.x = tensor_random(QN_DTYPE_F32, c.permuted ? qn_shape_of(c.k, c.cols) : qn_shape_of(c.cols, c.k));
    c.w = tensor_random(c.dtype, qn_shape_of(c.m + c.skip, c.k));
    c.b = tensor_random(QN_DTYPE_F32, qn_shape_of(c.m));
    for_levels(build, &c, check);
    tensor_free(&c.x);
    tensor_free(&c.w);
    tensor_free(&c.b);
}

static void test_formats(void **state)
{
    (void)state;
    for (int t = 0; t < QN_DTYPE_COUNT; t++) {
        const qn_dtype_info *d = qn_dtype_get((qn_dtype)t);
        if (!qn_dtype_can_pack((qn_dtype)t) || (d->class_ != QN_CLASS_real && d->class_ != QN_CLASS_block)) continue;
        if (!qn__kernels_get(QN_CPU_ref)->mm[t].gemv) continue;
        const int64_t k = d->block_elems == 1 ? 77 : d->block_elems == 32 ? 96 : 512;
        try_case((lin_case){.dtype = (qn_dtype)t, .cols = 1, .k = k, .m = 19, .bias = true});
        try_case((lin_case){.dtype = (qn_dtype)t, .cols = 7, .k = k, .m = 33, .skip = 3});
    }
}

static void test_shapes(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_Q8_0};
    for (int i = 0; i < 3; i++) {
        const qn_dtype t = dtypes[i];
        try_case((lin_case){.dtype = t, .cols = 1, .k = 32, .m = 1});
        try_case((lin_case){.dtype = t, .cols = 37, .k = 64, .m = 5, .bias = true});
        /* several tiles and parts of a column */
        try_case((lin_case){.dtype = t, .cols = 3, .k = 4160, .m = 130, .bias = true});
        /* one thread prepares, all multiply */
        try_case((lin_case){.dtype = t, .cols = 1, .k = 2048, .m = 400});
        try_case((lin_case){.dtype = t, .cols = 6, .k = 96, .m = 40, .permuted = true});
        try_case((lin_case){.dtype = t, .cols = 1, .k = 96, .m = 40, .permuted = true});
        try_case((lin_case){.dtype = t, .cols = 0, .k = 32, .m = 9});
    }
    try_case((lin_case){.dtype = QN_DTYPE_F32, .cols = 3, .k = 0, .m = 4, .bias = true});
    try_case((lin_case){.dtype = QN_DTYPE_F32, .cols = 3, .k = 1, .m = 1});
}

static void test_columns_stand_alone(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32,  QN_DTYPE_F16,  QN_DTYPE_BF16, QN_DTYPE_Q8_0, QN_DTYPE_Q4_0,
                                      QN_DTYPE_Q4_K, QN_DTYPE_Q6_K, QN_DTYPE_Q5_1, QN_DTYPE_Q3_K};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        lin_case c = {.dtype = dtypes[i], .cols = 21, .k = 512, .m = 70, .bias = true, .n = 21};
        c.x = tensor_random(QN_DTYPE_F32, qn_shape_of(c.cols, c.k));
        c.w = tensor_random(c.dtype, qn_shape_of(c.m, c.k));
        c.b = tensor_random(QN_DTYPE_F32, qn_shape_of(c.m));
        for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
            if (!level_exists((qn_cpu_level)level)) continue;
            size_t bytes;
            c.first = 0;
            c.n = c.cols;
            char *all = run_at((qn_cpu_level)level, build, &c, &bytes);
            for (c.first = 0; c.first < c.cols; c.first += c.n) {
                c.n = c.first < 3 ? 1 : c.first < 8 ? 5 : c.cols - c.first;
                char *some = run_at((qn_cpu_level)level, build, &c, &bytes);
                assert_memory_equal(some, all + c.first * c.m * 4, bytes);
                free(some);
            }
            free(all);
        }
        tensor_free(&c.x);
        tensor_free(&c.w);
        tensor_free(&c.b);
    }
}

/* ---- the way back ---- */

typedef struct back_case {
    qn_dtype dtype;
    int64_t cols, k, m, spare; /* spare: columns of the stored y behind those that count */
    tensor y, w;
} back_case;

static qn_node *build_back(rig *r, void *ctx)
{
    back_case *c = ctx;
    qn_node *y = rig_input(r, &c->y);
    return qn__linear_input(r->g, c->spare ? qn__narrow(r->g, y, 1, 0, c->m) : y, rig_param(r, &c->w, 0));
}

static void check_back(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const back_case *c = ctx;
    const float *x = result;
    (void)r;
    assert_int_equal(bytes, c->cols * c->k * 4);
    for (int64_t col = 0; col < c->cols; col++) {
        for (int64_t i = 0; i < c->k; i++) {
            double want = 0, size = 0;
            for (int64_t row = 0; row < c->m; row++) {
                const double term = (double)c->y.value[col * (c->m + c->spare) + row] * c->w.value[row * c->k + i];
                want += term;
                size += fabs(term);
            }
            close_to(x[col * c->k + i], want, (double)(c->m + 2) * FLT_EPSILON * size, qn_dtype_get(c->dtype)->name,
                     col * c->k + i);
        }
    }
}

static void try_back(back_case c)
{
    c.y = tensor_random(QN_DTYPE_F32, qn_shape_of(c.cols, c.m + c.spare));
    c.w = tensor_random(c.dtype, qn_shape_of(c.m, c.k));
    for_levels(build_back, &c, check_back);
    tensor_free(&c.y);
    tensor_free(&c.w);
}

static void test_linear_input(void **state)
{
    (void)state;
    for (int t = 0; t < QN_DTYPE_COUNT; t++) {
        const qn_dtype_info *d = qn_dtype_get((qn_dtype)t);
        if (!qn_dtype_can_pack((qn_dtype)t) || (d->class_ != QN_CLASS_real && d->class_ != QN_CLASS_block)) continue;
        if (!qn__kernels_get(QN_CPU_ref)->mm[t].gemv) continue;
        try_back((back_case){.dtype = (qn_dtype)t, .cols = 5, .k = d->block_elems <= 32 ? 96 : 512, .m = 19});
    }
    static const qn_dtype dtypes[] = {QN_DTYPE_F16, QN_DTYPE_Q8_0, QN_DTYPE_Q4_0};
    for (int i = 0; i < 3; i++) {
        const qn_dtype t = dtypes[i];
        try_back((back_case){.dtype = t, .cols = 1, .k = 32, .m = 1});
        /* several tiles of rows and columns */
        try_back((back_case){.dtype = t, .cols = 150, .k = 288, .m = 70, .spare = 3});
        try_back((back_case){.dtype = t, .cols = 2, .k = 32, .m = 600}); /* several slices */
        try_back((back_case){.dtype = t, .cols = 0, .k = 32, .m = 9});
        try_back((back_case){.dtype = t, .cols = 3, .k = 32, .m = 0});
    }
}

static void test_refusals(void **state)
{
    (void)state;
    rig r;
    qn_error e;
    rig_open(&r, QN_CPU_ref, 1);
    OK(qn__graph_create(&r.g, err));
    qn_node *x = qn__input(r.g, "x", QN_DTYPE_F32, &qn_shape_of(2, 8)),
            *w = qn__input(r.g, "w", QN_DTYPE_F32, &qn_shape_of(8, 4));
    qn_node *y = qn__linear(r.g, x, qn__permute(r.g, w, (int[]){1, 0}, 2), NULL);
    assert_false(qn__backend_cpu.accepts(r.be, y, &e));
    assert_non_null(strstr(e.text, "stride"));
    qn__graph_destroy(r.g);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_columns_stand_alone), cmocka_unit_test(test_linear_input),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
