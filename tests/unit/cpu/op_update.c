/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_update.c -- set_rows and slice_update write what they should and leave every other byte alone. */
#include "rig.h"

/* ---- set_rows -------------------------------------------------------------------------------- */

typedef struct set_case {
    qn_dtype dtype;
    int64_t m;
    bool transposed, as_heads; /* x is stored [m, n]; dst is a resident [n_rows, 2, m/2] seen as [n_rows, m] */
    tensor dst, x, rows;
} set_case;

static qn_node *build_set(rig *r, void *ctx)
{
    set_case *c = ctx;
    qn_node *dst = rig_param(r, &c->dst, QN_NODE_mutable), *x = rig_input(r, &c->x);
    if (c->as_heads) dst = qn__reshape(r->g, dst, qn_shape_of(c->dst.shape.dim[0], c->m));
    if (c->transposed) x = qn__permute(r->g, x, (int[]){1, 0}, 2);
    return qn__set_rows(r->g, dst, x, rig_input(r, &c->rows));
}

static void check_set(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const set_case *c = ctx;
    const int64_t n_rows = c->dst.shape.dim[0], n = c->rows.numel, row_bytes = qn_dtype_row_bytes(c->dtype, c->m);
    float *row = malloc((size_t)c->m * 4);
    (void)r;
    assert_int_equal(bytes, c->dst.bytes);
    for (int64_t k = 0; k < n_rows; k++) {
        int64_t from = -1; /* the last one that names the row */
        for (int64_t i = 0; i < n; i++)
            if (ints_of(&c->rows)[i] == k) from = i;
        const char *have = (const char *)result + k * row_bytes;
        if (from < 0) {
            assert_memory_equal(have, (const char *)c->dst.data + k * row_bytes, row_bytes);
            continue;
        }
        OK(qn_unpack(c->dtype, have, row, c->m, err));
        const int64_t block = qn_dtype_get(c->dtype)->block_elems;
        for (int64_t i = 0; i < c->m; i++) {
            float max = 0;
            for (int64_t j = i / block * block; j < i / block * block + block; j++)
                max = fmaxf(max, fabsf(c->x.value[c->transposed ? j * n + from : from * c->m + j]));
            const double step = c->dtype == QN_DTYPE_F32    ? 0
                                : c->dtype == QN_DTYPE_F16  ? 0x1p-11
                                : c->dtype == QN_DTYPE_BF16 ? 0x1p-8
                                : c->dtype == QN_DTYPE_Q8_0 ? 0.51 / 127
                                                            : 0.15;
            close_to(row[i], c->x.value[c->transposed ? i * n + from : from * c->m + i],
                     step * max + (step > 0 ? 1e-7 : 0), "row", i);
        }
    }
    free(row);
}

static void test_set_rows(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32,  QN_DTYPE_F16,  QN_DTYPE_BF16, QN_DTYPE_Q8_0,  QN_DTYPE_Q4_0,
                                      QN_DTYPE_Q4_1, QN_DTYPE_Q5_0, QN_DTYPE_Q5_1, QN_DTYPE_IQ4_NL};
    static const int32_t rows[] = {4, -1, 0, 9, 4, 13, INT32_MAX, INT32_MIN, 11, 0, 3};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]) * 4; i++) {
        const qn_dtype t = dtypes[i / 4];
        set_case c = {.dtype = t,
                      .m = qn_dtype_get(t)->block_elems == 1 && i < 8 ? 70 : 128,
                      .transposed = i & 1,
                      .as_heads = i & 2};
        c.dst = tensor_random(t, c.as_heads ? qn_shape_of(12, 2, c.m / 2) : qn_shape_of(12, c.m));
        c.x = tensor_random(QN_DTYPE_F32, c.transposed ? qn_shape_of(c.m, 11) : qn_shape_of(11, c.m));
        c.rows = tensor_ints(qn_shape_of(11), rows);
        for_levels(build_set, &c, check_set);
        tensor_free(&c.dst);
        tensor_free(&c.x);
        tensor_free(&c.rows);
    }
}

/* Many items name few rows: the last one wins, whichever thread runs it. */
static void test_set_rows_many_times(void **state)
{
    (void)state;
    set_case c = {.dtype = QN_DTYPE_F32, .m = 512};
    c.dst = tensor_random(c.dtype, qn_shape_of(3, c.m));
    c.x = tensor_random(QN_DTYPE_F32, qn_shape_of(400, c.m));
    c.rows = tensor_ints(qn_shape_of(400), NULL);
    for (int i = 0; i < 400; i++) ints_of(&c.rows)[i] = i < 399 ? i % 2 : 1;
    for (int i = 0; i < 20; i++) for_levels(build_set, &c, check_set);
    tensor_free(&c.dst);
    tensor_free(&c.x);
    tensor_free(&c.rows);
}

/* A row's bytes don't depend on which other rows are written with it. */
static void test_set_rows_one_by_one(void **state)
{
    (void)state;
    set_case c = {.dtype = QN_DTYPE_Q8_0, .m = 96};
    static const int32_t rows[] = {3, 1, 0, 2};
    c.dst = tensor_random(c.dtype, qn_shape_of(4, c.m));
    c.x = tensor_random(QN_DTYPE_F32, qn_shape_of(4, c.m));
    c.rows = tensor_ints(qn_shape_of(4), rows);
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t bytes;
        memcpy(ints_of(&c.rows), rows, sizeof(rows));
        char *all = run_at((qn_cpu_level)level, build_set, &c, &bytes);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 4; k++) ints_of(&c.rows)[k] = k == i ? rows[i] : -1;
            char *one = run_at((qn_cpu_level)level, build_set, &c, &bytes);
            const size_t row = bytes / 4;
            assert_memory_equal(one + (size_t)rows[i] * row, all + (size_t)rows[i] * row, row);
            free(one);
        }
        free(all);
    }
    tensor_free(&c.dst);
    tensor_free(&c.x);
    tensor_free(&c.rows);
}

/* ---- slice_update ---------------------------------------------------------------------------- */

typedef struct slice_case {
    qn_dtype dtype;
    int dim;
    int64_t start, length;
    bool accumulate, part; /* part: dst is all but the first of six */
    tensor dst, x;
} slice_case;

static qn_node *build_slice(rig *r, void *ctx)
{
    slice_case *c = ctx;
    qn_node *dst = rig_param(r, &c->dst, QN_NODE_mutable);
    if (c->part) dst = qn__narrow(r->g, dst, 0, 1, 5);
    return qn__slice_update(r->g, dst, rig_input(r, &c->x), c->dim, c->start, c->accumulate);
}

static void check_slice(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const slice_case *c = ctx;
    const int64_t n = 5 * 7 * 64, skip = c->dst.numel - n;
    float *have = malloc((size_t)n * 4);
    (void)r;
    assert_int_equal(bytes, c->dst.bytes * 5 / (c->part ? 6 : 5));
    OK(qn_unpack(c->dtype, result, have, n, err));
    for (int64_t e = 0; e < n; e++) {
        const int64_t at[3] = {e / 7 / 64, e / 64 % 7, e % 64};
        int64_t in[3] = {at[0], at[1], at[2]}, size[3] = {5, 7, 64};
        in[c->dim] -= c->start;
        size[c->dim] = c->length;
        if (in[c->dim] < 0 || in[c->dim] >= c->length) {
            assert_true(have[e] == c->dst.value[skip + e]);
            continue;
        }
        const float x = c->x.value[(in[0] * size[1] + in[1]) * size[2] + in[2]];
        const float want = c->accumulate ? c->dst.value[skip + e] + x : x;
        const double step = c->dtype == QN_DTYPE_F32    ? 0
                            : c->dtype == QN_DTYPE_F16  ? 0x1p-11 * fabsf(want) + 1e-7
                            : c->dtype == QN_DTYPE_BF16 ? 0x1p-8 * fabsf(want) + 1e-7
                                                        : 8 * 0.51 / 127;
        close_to(have[e], want, step, "element", e);
    }
    free(have);
}

static void test_slice_update(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16, QN_DTYPE_Q8_0};
    static const struct {
        int dim;
        int64_t start, length;
    } slices[] = {{0, 0, 5}, {0, 3, 2}, {1, 2, 4}, {1, 6, 1}, {2, 32, 32}, {2, 0, 64}};
    for (int t = 0; t < 4; t++) {
        for (int s = 0; s < 6; s++) {
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                if (accumulate && dtypes[t] == QN_DTYPE_Q8_0) continue; /* the rule refuses it */
                slice_case c = {.dtype = dtypes[t],
                                .dim = slices[s].dim,
                                .start = slices[s].start,
                                .length = slices[s].length,
                                .accumulate = accumulate};
                c.part = s & 1;
                c.dst = tensor_random(c.dtype, qn_shape_of(c.part ? 6 : 5, 7, 64));
                qn_shape shape = qn_shape_of(5, 7, 64);
                shape.dim[c.dim] = c.length;
                c.x = tensor_random(QN_DTYPE_F32, shape);
                for_levels(build_slice, &c, check_slice);
                tensor_free(&c.dst);
                tensor_free(&c.x);
            }
        }
    }
}

static qn_node *build_int_slice(rig *r, void *ctx)
{
    tensor *t = ctx;
    return qn__slice_update(r->g, rig_param(r, &t[0], QN_NODE_mutable), rig_input(r, &t[1]), 0, 1, false);
}

static void test_integers_stay_exact(void **state)
{
    (void)state;
    tensor t[2] = {tensor_ints(qn_shape_of(4), (int32_t[]){1, 2, 3, 4}),
                   tensor_ints(qn_shape_of(2), (int32_t[]){INT32_MAX, -16777217})};
    size_t bytes;
    int32_t *y = run_at(QN_CPU_ref, build_int_slice, t, &bytes);
    assert_memory_equal(y, ((int32_t[]){1, INT32_MAX, -16777217, 4}), 16);
    free(y);
    tensor_free(&t[0]);
    tensor_free(&t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set_rows), cmocka_unit_test(test_set_rows_one_by_one),
                                       cmocka_unit_test(test_set_rows_many_times), cmocka_unit_test(test_slice_update),
                                       cmocka_unit_test(test_integers_stay_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
