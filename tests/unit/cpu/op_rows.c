/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_rows.c -- copy, barrier, get_rows and rms_norm: every format in, every format out, strides, bad
 * ids. */
#include "rig.h"

/* ---- copy ------------------------------------------------------------------------------------ */

typedef struct copy_case {
    qn_dtype from, to;
    qn_shape shape;
    bool transposed, cut; /* dimensions reversed; the first narrowed to 1.. */
    tensor x;
} copy_case;

static qn_node *build_copy(rig *r, void *ctx)
{
    copy_case *c = ctx;
    qn_node *x = rig_param(r, &c->x, 0);
    if (c->transposed) x = qn__permute(r->g, x, (int[]){1, 0}, 2);
    if (c->cut) x = qn__narrow(r->g, x, 0, 1, x->layout.dim[0] - 1);
    return qn__copy(r->g, x, c->to);
}

static void check_copy(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const copy_case *c = ctx;
    qn_layout l;
    (void)r;
    OK(qn_layout_contiguous(&c->shape, &l, err));
    if (c->transposed) OK(qn_layout_transpose(&l, 0, 1, &l, err));
    if (c->cut) OK(qn_layout_narrow(&l, 0, 1, l.dim[0] - 1, &l, err));
    const int64_t n = qn_layout_numel(&l), row = l.dim[1];
    float *x = malloc((size_t)n * 4 + 4), *y = malloc((size_t)n * 4 + 4);
    for (int64_t i = 0; i < n; i++) x[i] = c->x.value[l.offset + i / row * l.stride[0] + i % row * l.stride[1]];

    if (c->to == QN_DTYPE_F32) {
        assert_memory_equal(x, result, bytes);
    } else {
        const int64_t block = qn_dtype_get(c->to)->block_elems;
        OK(qn_unpack(c->to, result, y, n, err));
        for (int64_t i = 0; i < n; i++) { /* within a step of what the format can say */
            float max = 0;
            for (int64_t k = i / block * block; k < i / block * block + block; k++) max = fmaxf(max, fabsf(x[k]));
            const double step = c->to == QN_DTYPE_F16    ? 0x1p-11
                                : c->to == QN_DTYPE_BF16 ? 0x1p-8
                                : c->to == QN_DTYPE_Q8_0 ? 0.51 / 127
                                                         : 0.15;
            close_to(y[i], x[i], step * (block > 1 ? max : fabsf(x[i])) + 1e-7, qn_dtype_get(c->to)->name, i);
        }
    }
    free(x);
    free(y);
}

static void try_copy(copy_case c)
{
    c.x = tensor_random(c.from, c.shape);
    for_levels(build_copy, &c, check_copy);
    tensor_free(&c.x);
}

static void test_copy(void **state)
{
    (void)state;
    static const qn_dtype scalars[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16};
    static const qn_dtype packed[] = {QN_DTYPE_Q4_0, QN_DTYPE_Q4_1, QN_DTYPE_Q5_0,
                                      QN_DTYPE_Q5_1, QN_DTYPE_Q8_0, QN_DTYPE_IQ4_NL};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                try_copy((copy_case){scalars[i], scalars[j], qn_shape_of(7, 33), .transposed = k & 1, .cut = k & 2});
        for (int j = 0; j < 6; j++)
            try_copy((copy_case){scalars[i], packed[j], qn_shape_of(96, 64), .transposed = true, .cut = true});
    }
    for (int t = 0; t < QN_DTYPE_COUNT; t++) {
        const qn_dtype_info *d = qn_dtype_get((qn_dtype)t);
        if (d->class_ != QN_CLASS_block || !qn_dtype_can_pack((qn_dtype)t)) continue;
        try_copy((copy_case){(qn_dtype)t, QN_DTYPE_F32, qn_shape_of(3, 512), .cut = true});
    }
    /* longer than a tile */
    try_copy((copy_case){.from = QN_DTYPE_F32, .to = QN_DTYPE_F16, .shape = qn_shape_of(2, 40000)});
}

static qn_node *build_same(rig *r, void *ctx)
{
    qn_node *x = rig_param(r, ctx, 0);
    return qn__copy(r->g, qn__permute(r->g, x, (int[]){2, 0, 1}, 3), x->dtype);
}

static void check_same(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const tensor *t = ctx;
    const size_t size = (size_t)qn_dtype_get(t->dtype)->block_bytes;
    (void)r;
    for (size_t i = 0; i < bytes / size; i++) { /* [3,5,7] read as [7,3,5] */
        const size_t from = i % 15 * 7 + i / 15;
        assert_memory_equal((const char *)result + i * size, (const char *)t->data + from * size, size);
    }
}

static void test_copy_moves_any_bytes(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_I8,  QN_DTYPE_I16,  QN_DTYPE_I32, QN_DTYPE_I64,
                                      QN_DTYPE_F64, QN_DTYPE_BOOL, QN_DTYPE_F16};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        tensor t = tensor_new(dtypes[i], qn_shape_of(3, 5, 7));
        for (size_t k = 0; k < t.bytes; k++) ((uint8_t *)t.data)[k] = (uint8_t)rng_next();
        for_levels(build_same, &t, check_same);
        tensor_free(&t);
    }
}

/* A barrier is a copy to the kernels: of any dtype, any bytes, any strides. */
static qn_node *build_barrier(rig *r, void *ctx)
{
    qn_node *x = rig_param(r, ctx, 0);
    x = qn__permute(r->g, x, (int[]){2, 0, 1}, 3);
    return qn__op(r->g, QN_OP_barrier, &(qn_barrier_attrs){1}, &x, 1);
}

static void test_barrier(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_F64, QN_DTYPE_I32, QN_DTYPE_BF16, QN_DTYPE_BOOL};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        tensor t = tensor_new(dtypes[i], qn_shape_of(3, 5, 7));
        for (size_t k = 0; k < t.bytes; k++) ((uint8_t *)t.data)[k] = (uint8_t)rng_next();
        for_levels(build_barrier, &t, check_same);
        tensor_free(&t);
    }
}

/* Non-finite numbers must not turn into garbage: halves keep them, blocks have no way to, and say 0. */
static void test_copy_of_nan(void **state)
{
    (void)state;
    copy_case c = {.from = QN_DTYPE_F32,
                   .to = QN_DTYPE_F16,
                   .shape = qn_shape_of(1, 64),
                   .x = tensor_new(QN_DTYPE_F32, qn_shape_of(1, 64))};
    float *x = c.x.data, y[64];
    for (int i = 0; i < 64; i++) x[i] = (float)i / 7;
    x[3] = NAN;
    x[40] = INFINITY;
    size_t bytes;
    void *half = run_at(QN_CPU_ref, build_copy, &c, &bytes);
    OK(qn_unpack(QN_DTYPE_F16, half, y, 64, err));
    assert_true(isnan(y[3]) && isinf(y[40]));
    free(half);
    static const qn_dtype packed[] = {QN_DTYPE_Q4_0, QN_DTYPE_Q4_1, QN_DTYPE_Q5_0,
                                      QN_DTYPE_Q5_1, QN_DTYPE_Q8_0, QN_DTYPE_IQ4_NL};
    for (int t = 0; t < 6; t++) {
        c.to = packed[t];
        void *block = run_at(QN_CPU_ref, build_copy, &c, &bytes);
        OK(qn_unpack(packed[t], block, y, 64, err));
        for (int i = 0; i < 64; i++) assert_true(isfinite(y[i]));
        close_to(y[3], 0, 0.35, "NaN", 3);
        close_to(y[40], 0, 0.75, "infinity", 40);
        close_to(y[20], x[20], 0.75, "a neighbour", 20);
        free(block);
    }
    tensor_free(&c.x);
}

/* ---- get_rows -------------------------------------------------------------------------------- */

typedef struct get_case {
    tensor table, ids;
    bool cut; /* columns 256.. of the table */
} get_case;

static qn_node *build_get(rig *r, void *ctx)
{
    get_case *c = ctx;
    qn_node *table = rig_param(r, &c->table, 0);
    if (c->cut) table = qn__narrow(r->g, table, 1, 256, 256);
    return qn__get_rows(r->g, table, rig_input(r, &c->ids));
}

static void check_get(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const get_case *c = ctx;
    const float *y = result;
    const int64_t m = c->table.shape.dim[1], from = c->cut ? 256 : 0, n = c->cut ? 256 : m;
    (void)r;
    assert_int_equal(bytes, c->ids.numel * n * 4);
    for (int64_t i = 0; i < c->ids.numel; i++) {
        const int32_t id = ints_of(&c->ids)[i];
        const bool there = id >= 0 && id < c->table.shape.dim[0];
        for (int64_t k = 0; k < n; k++) assert_true(y[i * n + k] == (there ? c->table.value[id * m + from + k] : 0.0f));
    }
}

static void test_get_rows(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 10, 3, 3, -1, 11, INT32_MAX, INT32_MIN, 9};
    for (int t = 0; t < QN_DTYPE_COUNT; t++) {
        const qn_dtype_info *d = qn_dtype_get((qn_dtype)t);
        if (!qn_dtype_can_pack((qn_dtype)t) || (d->class_ != QN_CLASS_real && d->class_ != QN_CLASS_block)) continue;
        get_case c = {tensor_random((qn_dtype)t, qn_shape_of(11, 512)), tensor_ints(qn_shape_of(9), ids), false};
        for_levels(build_get, &c, check_get);
        c.cut = true;
        for_levels(build_get, &c, check_get);
        tensor_free(&c.table);
        tensor_free(&c.ids);
    }
    get_case c = {tensor_random(QN_DTYPE_F16, qn_shape_of(3, 1)), tensor_ints(qn_shape_of(1), (int32_t[]){2}), false};
    for_levels(build_get, &c, check_get);
    tensor_free(&c.table);
    tensor_free(&c.ids);
}

/* ---- rms_norm -------------------------------------------------------------------------------- */

typedef struct norm_case {
    qn_shape shape; /* [rows, heads, n] */
    bool weight, transposed;
    float eps, factor;
    tensor x, w;
} norm_case;

static qn_node *build_norm(rig *r, void *ctx)
{
    norm_case *c = ctx;
    qn_node *x = rig_input(r, &c->x);
    if (c->transposed) x = qn__permute(r->g, x, (int[]){1, 0, 2}, 3);
    return qn__rms_norm(r->g, x, c->weight ? rig_param(r, &c->w, 0) : NULL, c->eps);
}

static void check_norm(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const norm_case *c = ctx;
    const float *y = result;
    const int64_t a = c->shape.dim[0], b = c->shape.dim[1], n = c->shape.dim[2];
    (void)r;
    assert_int_equal(bytes, a * b * n * 4);
    for (int64_t row = 0; row < a * b; row++) {
        const float *x = c->x.value + (c->transposed ? row % a * b + row / a : row) * n;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
        const double scale = 1 / sqrt(sum / (double)n + c->eps);
        for (int64_t i = 0; i < n; i++) {
            const double want = x[i] * scale * (c->weight ? c->w.value[i] : 1);
            close_to(y[row * n + i], want, fabs(want) * ((double)n * FLT_EPSILON / 2 + 6e-7), "norm", row * n + i);
        }
    }
}

static void test_rms_norm(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 16, 33, 64, 100, 2049};
    for (int i = 0; i < 7 * 4; i++) {
        norm_case c = {.shape = qn_shape_of(5, 3, sizes[i / 4]),
                       .weight = i & 1,
                       .transposed = i & 2,
                       .eps = i & 2 ? 1e-5f : 1e-6f};
        c.x = tensor_random(QN_DTYPE_F32, c.shape);
        c.w = tensor_random(QN_DTYPE_F32, qn_shape_of(sizes[i / 4]));
        for_levels(build_norm, &c, check_norm);
        tensor_free(&c.x);
        tensor_free(&c.w);
    }
}

static void test_norm_of_zeros(void **state)
{
    (void)state;
    norm_case c = {.shape = qn_shape_of(2, 2, 40), .eps = 1e-6f};
    c.x = tensor_new(QN_DTYPE_F32, c.shape);
    c.x.value = c.x.data;
    for_levels(build_norm, &c, check_norm);
    tensor_free(&c.x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),          cmocka_unit_test(test_copy_moves_any_bytes),
        cmocka_unit_test(test_barrier),       cmocka_unit_test(test_copy_of_nan),
        cmocka_unit_test(test_get_rows),      cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_norm_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
