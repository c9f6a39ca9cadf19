/* SPDX-License-Identifier: MIT */
/* Block formats as tensors: packed as qn_pack packs, used as weight and table with the gradient through them, told by
 * name, refused by name. */
#include "rig.h"

static qn_tensor *random_tensor(qn_context *c, qn_shape shape, uint64_t seed)
{
    qn_manual_seed(c, seed);
    qn_tensor *t = qn_randn(c, shape, F32);
    GOOD(c, t);
    return t;
}

/* Every format that packs, with an importance and without, on few rows and on many: the bytes of qn_pack. */
static void as_qn_pack(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype dtype = (qn_dtype)d;
        if (qn_dtype_get(dtype)->class_ != QN_CLASS_block || !qn_dtype_can_pack(dtype)) continue;
        for (int large = 0; large < 2; large++) {
            const int64_t rows = large && d < QN_DTYPE_Q2_K ? 300 : 3, k = 256;
            const size_t bytes = (size_t)(rows * qn_dtype_row_bytes(dtype, k));
            qn_tensor *t = random_tensor(c, qn_shape_of(k, rows), 7), *transposed = qn_transpose(t, 0, 1);
            float *x = malloc((size_t)(rows * k) * sizeof *x), importance[256],
                  *back = malloc((size_t)(rows * k) * sizeof *back);
            char *want = malloc(bytes), *have = malloc(bytes);
            for (int i = 0; i < 256; i++) importance[i] = (float)(i % 7) + 0.1f;
            OK(c, qn_to_host(transposed, x, (size_t)(rows * k) * sizeof *x));
            for (int steered = 0; steered < 2; steered++) {
                qn_tensor *q = qn_quantize(transposed, dtype, steered ? f32(c, qn_shape_of(256), importance) : NULL);
                GOOD(c, q);
                SHAPE(q, rows, k);
                assert_int_equal(qn_dtype_of(q), dtype);
                assert_int_equal(qn_pack(dtype, x, want, rows, k, steered ? importance : NULL, NULL), QN_OK);
                OK(c, qn_to_host(q, have, bytes));
                assert_memory_equal(have, want, bytes);
                OK(c, qn_to_host(qn_dequantize(q), back, (size_t)(rows * k) * sizeof *back));
                float first[256];
                assert_int_equal(qn_unpack(dtype, want, first, 256, NULL), QN_OK);
                assert_memory_equal(back, first, sizeof first);
            }
            free(x);
            free(back);
            free(want);
            free(have);
        }
    }
    context_end(c);
}

/* d sum(g * linear(x, w)) / d x against g w in double, w what the packed weight stands for. The gradient does not see
 * that activations were rounded to 8 bits on the way there. */
static void gradient_through(qn_context *c, qn_dtype dtype, int64_t k)
{
    enum { B = 3, N = 5, M = 37 };
    qn_tensor *w = qn_quantize(random_tensor(c, qn_shape_of(M, k), 3), dtype, NULL),
              *x = qn_requires_grad_(random_tensor(c, qn_shape_of(B, N, k), 4), true);
    qn_tensor *g = random_tensor(c, qn_shape_of(B, N, M), 5),
              *bias = qn_requires_grad_(random_tensor(c, qn_shape_of(M), 6), true);
    qn_tensor *y = qn_linear(x, w, bias);
    GOOD(c, y);
    OK(c, qn_backward_with(y, g, false));
    double *dw = malloc(sizeof *dw * (size_t)(M * k)), *dx = malloc(sizeof *dx * (size_t)(B * N * k)), dg[B * N * M],
           db[M];
    OK(c, qn_to_doubles(qn_dequantize(w), dw, M * k));
    OK(c, qn_to_doubles(g, dg, B * N * M));
    OK(c, qn_to_doubles(qn_grad(x), dx, B * N * k));
    OK(c, qn_to_doubles(qn_grad(bias), db, M));
    for (int64_t r = 0; r < B * N; r++) {
        for (int64_t i = 0; i < k; i++) {
            double want = 0, size = 0;
            for (int64_t m = 0; m < M; m++) {
                want += dg[r * M + m] * dw[m * k + i];
                size += fabs(dg[r * M + m] * dw[m * k + i]);
            }
            if (!(fabs(dx[r * k + i] - want) <= 40 * 0x1p-24 * size))
                fail_msg("%s: dx[%lld,%lld] is %g, %g expected", qn_dtype_get(dtype)->name, (long long)r, (long long)i,
                         dx[r * k + i], want);
        }
    }
    for (int m = 0; m < M; m++) {
        double want = 0;
        for (int r = 0; r < B * N; r++) want += dg[r * M + m];
        assert_true(fabs(db[m] - want) < 1e-4);
    }
    free(dw);
    free(dx);
}

static void weights(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        if (qn_dtype_get((qn_dtype)d)->class_ != QN_CLASS_block || !qn_dtype_can_pack((qn_dtype)d)) continue;
        OK(c, qn_scope_begin(c));
        gradient_through(c, (qn_dtype)d, 512);
        qn_scope_end(c, NULL);
    }
    context_end(c);
}

/* F16 weights whose gradient is wanted too, with rows that no vector divides. */
static void half_weights(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int64_t k = 16; k <= 17; k++) {
        qn_tensor *w = qn_requires_grad_(qn_to(random_tensor(c, qn_shape_of(4, k), 3), QN_DTYPE_F16), true);
        qn_tensor *x = qn_requires_grad_(random_tensor(c, qn_shape_of(2, k), 4), true), *y = qn_linear(x, w, NULL);
        OK(c, qn_backward(qn_sum(y, NULL, 0, false)));
        double dx[34], sums[17];
        OK(c, qn_to_doubles(qn_grad(x), dx, 2 * k));
        OK(c, qn_to_doubles(qn_sum(qn_to(qn_detach(w), QN_DTYPE_F64), QN_DIMS(0), false), sums, k));
        for (int64_t i = 0; i < 2 * k; i++) assert_true(fabs(dx[i] - sums[i % k]) < 1e-5);
        assert_int_equal(qn_dtype_of(qn_grad(w)), QN_DTYPE_F16);
    }
    context_end(c);
}

/* As files have them: matrices of 16 bits, biases in F32. */
static void half_weights_with_wide_biases(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F16, QN_DTYPE_BF16, QN_DTYPE_F64};
    qn_context *c = context_new();
    for (int d = 0; d < 3; d++) {
        qn_tensor *w = qn_requires_grad_(qn_full(c, qn_shape_of(2, 3), 2, dtypes[d]), true),
                  *b = qn_requires_grad_(qn_from_data(c, (float[]){0.5f, -1}, qn_shape_of(2), F32), true),
                  *x = qn_full(c, qn_shape_of(4, 3), 1.5, dtypes[d]), *y = qn_linear(x, w, b);
        GOOD(c, y);
        assert_int_equal(qn_dtype_of(y), dtypes[d]);
        EXPECT(y, 9.5, 8, 9.5, 8, 9.5, 8, 9.5, 8);
        OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
        assert_int_equal(qn_dtype_of(qn_grad(b)), F32);
        EXPECT(qn_grad(b), 4, 4);
        EXPECT(qn_grad(w), 6, 6, 6, 6, 6, 6);
    }
    context_end(c);
}

static void tables(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *q = qn_quantize(random_tensor(c, qn_shape_of(9, 64), 1), QN_DTYPE_Q4_0, NULL);
    qn_tensor *ids = qn_from_data(c, (int64_t[]){8, 0, 3, 3, 1, 5}, qn_shape_of(2, 3), QN_DTYPE_I64),
              *y = qn_embedding(q, ids);
    SHAPE(y, 2, 3, 64);
    double want[6 * 64];
    OK(c, qn_to_doubles(qn_embedding(qn_dequantize(q), ids), want, 6 * 64));
    expect_values(y, want, 6 * 64, __FILE__, __LINE__);
    qn_tensor *bad = qn_embedding(q, qn_from_data(c, (int64_t[]){1, 9}, qn_shape_of(2), QN_DTYPE_I64));
    GOOD(c, bad);
    assert_int_not_equal(qn_eval(bad), QN_OK);
    assert_non_null(strstr(qn_context_error(c)->text, "embedding"));
    qn_context_clear(c);
    bad = qn_embedding(q, qn_from_data(c, (int64_t[]){1, -1}, qn_shape_of(2), QN_DTYPE_I64)); /* nor from the end */
    GOOD(c, bad);
    assert_int_not_equal(qn_eval(bad), QN_OK);
    assert_string_equal(qn_context_error(c)->text, "embedding: index -1 is out of range for dimension 0 of size 9");
    qn_context_clear(c);
    context_end(c);
}

static void said_and_refused(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_view_as(qn_arange(c, 0, 128, 1, F32), qn_shape_of(2, 64)),
              *q = qn_quantize(a, QN_DTYPE_Q8_0, NULL);
    char *text = qn_to_string(qn_narrow(q, 0, 0, 1));
    assert_non_null(text);
    assert_non_null(strstr(text, "dtype=Q8_0"));
    qn_free(text);
    SHAPE(qn_narrow(q, 1, 32, 32), 2, 32);
    SHAPE(qn_select(q, 0, 1), 64);
    SHAPE(qn_clone(q), 2, 64);

    REFUSED(c, qn_add(q, a), "add: source 0 is Q8_0, a block format; qn_dequantize");
    REFUSED(c, qn_add_(a, q), "add: source 1 is Q8_0");
    REFUSED(c, qn_relu(q), "relu: source 0 is Q8_0");
    REFUSED(c, qn_mul_number(q, 2), "mul: source 0 is Q8_0");
    REFUSED(c, qn_cat((qn_tensor *[]){a, q}, 2, 0), "cat: source 1 is Q8_0, a block format; qn_dequantize");
    REFUSED(c, qn_matmul(a, qn_view_as(q, qn_shape_of(64, 2))), "cut or transposed inside its blocks of 32");
    REFUSED(c, qn_sum(q, QN_DIMS(0), false), "sum: x is Q8_0, not a block format expected; dequantize");
    REFUSED(c, qn_softmax(q, 0), "softmax: x is Q8_0, a real type expected; dequantize");
    REFUSED(c, qn_index_select(q, 0, qn_zeros(c, qn_shape_of(1), QN_DTYPE_I64)), "index_select: x is Q8_0");
    REFUSED(c, qn_transpose(q, 0, 1), "Q8_0 cannot be cut or transposed inside its blocks of 32");
    REFUSED(c, qn_select(q, 1, 3), "Q8_0 cannot be cut");
    REFUSED(c, qn_narrow(q, 1, 16, 32), "Q8_0 cannot be cut");
    REFUSED(c, qn_fill_(q, 1), "fill_: Q8_0 is a block format; qn_quantize");
    for (int pending = 0; pending < 2; pending++) { /* nothing is quantized by the way */
        qn_tensor *to = pending ? qn_clone(q) : q;
        REFUSED(c, qn_copy_(to, a), "copy_: F32 cannot be stored in Q8_0; qn_quantize");
        REFUSED(c, qn_copy_(to, qn_to(a, QN_DTYPE_I32)), "copy_: I32 cannot be stored in Q8_0");
        REFUSED(c, qn_add_out(to, a, a), "add_out: the result is F32 and cannot be stored in Q8_0");
    }
    REFUSED(c, qn_requires_grad_(q, true), "Q8_0");
    REFUSED(c, qn_full(c, qn_shape_of(32), 1, QN_DTYPE_Q8_0), "Q8_0 is a block format; qn_quantize");
    REFUSED(c, qn_linear(qn_to(a, QN_DTYPE_F64), q, NULL), "linear: x is F64; with a weight in Q8_0 F32 is expected");
    assert_int_not_equal(qn_to_doubles(q, (double[128]){0}, 128), QN_OK);
    assert_non_null(strstr(qn_context_error(c)->text, "qn_dequantize"));

    REFUSED(c, qn_quantize(q, QN_DTYPE_Q4_0, NULL),
            "quantize: [2,64] of Q8_0 to Q4_0: a real tensor expected; qn_dequantize makes one");
    REFUSED(c, qn_quantize(qn_to(a, QN_DTYPE_I32), QN_DTYPE_Q4_0, NULL), "a real tensor expected");
    REFUSED(c, qn_quantize(a, QN_DTYPE_Q4_K, NULL), "[2,64] to Q4_K: a last dimension that is a multiple of 256");
    REFUSED(c, qn_quantize(qn_scalar(c, 1, F32), QN_DTYPE_Q4_0, NULL), "a multiple of 32");
    REFUSED(c, qn_quantize(a, QN_DTYPE_IQ2_XXS, NULL), "IQ2_XXS can be read but not written");
    REFUSED(c, qn_quantize(a, QN_DTYPE_F16, NULL), "F16 is no block format");
    REFUSED(c, qn_quantize(a, (qn_dtype)999, NULL), "no block format");
    REFUSED(c, qn_quantize(a, QN_DTYPE_Q4_0, a),
            "importance [2,64] of F32 for [2,64]: one real number a column expected, [64]");
    REFUSED(c, qn_quantize(a, QN_DTYPE_Q4_K, qn_ones(c, qn_shape_of(63), F32)), "quantize");
    REFUSED(c, qn_quantize(a, QN_DTYPE_Q4_0, qn_full(c, qn_shape_of(64), -1, F32)), "quantize");
    /* enough for threads: the row is found all the same */
    qn_tensor *bad = qn_clone(qn_expand(a, qn_shape_of(1000, 2, 64)));
    GOOD(c, qn_fill_(qn_narrow(qn_select(qn_select(bad, 0, 700), 0, 1), 0, 5, 1), INFINITY));
    REFUSED(c, qn_quantize(bad, QN_DTYPE_Q8_0, NULL), "row 1401, column 5");
    assert_null(qn_quantize(NULL, QN_DTYPE_Q8_0, NULL));
    assert_null(qn_dequantize(NULL));
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_qn_pack),       cmocka_unit_test(weights),
        cmocka_unit_test(half_weights),     cmocka_unit_test(tables),
        cmocka_unit_test(said_and_refused), cmocka_unit_test(half_weights_with_wide_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
