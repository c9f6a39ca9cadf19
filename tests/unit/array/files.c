/* SPDX-License-Identifier: MIT */
/* tests/unit/array/files.c -- tensors from .npy files that NumPy saved, and to files that it would have saved alike. */
#include "rig.h"

#include "unit/format/npy_files.h"
#include <unistd.h>

#define PATH QN_BUILD_DIR "/t_array_files.npy"

static void put(const void *bytes, size_t n)
{
    FILE *f = fopen(PATH, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void from_numpy(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *t;
#define LOAD(name) (put(npy_##name, sizeof npy_##name), t = qn_load_npy(c, PATH))
    EXPECT(LOAD(f32_2x3), 1.5, -0.25, (double)3e38f, 0, 7, -1);
    SHAPE(t, 2, 3);
    EXPECT(LOAD(f64_big), 1.5, -0.25, 3e38, 0, 7, -1);
    EXPECT(LOAD(f16), 1.5, -0.25, 9, 0, 7, -1);
    assert_int_equal(qn_dtype_of(t), QN_DTYPE_F16);
    EXPECT(LOAD(i8), -99, -107, 86, -100, -36, -23);
    EXPECT(LOAD(i16), 1, 30009, 16531, 0, 13479, 77);
    EXPECT(LOAD(u8), 1, 249, 186, 0, 64, 77);
    EXPECT(LOAD(i32_big), 1, -2, INT32_MAX, 0, INT32_MIN, 77);
    EXPECT(LOAD(i64_big), 1, -2, INT32_MAX, 0, INT32_MIN, 77);
    EXPECT(qn_logical_not(LOAD(bools)), 0, 1, 1, 0, 0, 0);
    EXPECT(LOAD(f32_scalar), 2.5);
    assert_int_equal(qn_rank(t), 0);
    LOAD(f32_empty);
    SHAPE(t, 3, 0, 2);
    EXPECT(LOAD(fortran), 1.5, -0.25, (double)3e38f, 0, 7, -1);
    assert_true(qn_layout_get(t).stride[0] == 1 && qn_layout_get(t).stride[1] == 2);
    LOAD(fortran_rank3);
    SHAPE(t, 2, 3, 4);
    for (int i = 0; i < 24; i++) {
        assert_true(qn_item(qn_select(qn_select(qn_select(t, 0, i / 12), 0, i / 4 % 3), 0, i % 4)) == i);
    }
    context_end(c);
}

static void round_trips(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F16, QN_DTYPE_F32, QN_DTYPE_F64, QN_DTYPE_BF16, QN_DTYPE_I8,
                                     QN_DTYPE_I16, QN_DTYPE_I32, QN_DTYPE_I64, QN_DTYPE_U8,   QN_DTYPE_BOOL};
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        qn_tensor *x = qn_to(qn_reshape(qn_arange(c, 0, 120, 1, QN_DTYPE_I64), qn_shape_of(2, 3, 4, 5)), types[i]);
        qn_tensor *forms[] = {x,
                              qn_transpose(x, 0, 2),
                              qn_slice(x, 3, 1, QN_END, 2),
                              qn_select(qn_select(x, 0, 1), 0, 2),
                              qn_narrow(x, 1, 1, 0),
                              qn_expand(qn_narrow(x, 0, 1, 1), qn_shape_of(3, 3, 4, 5))};
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            OK(c, qn_save_npy(forms[k], PATH));
            qn_tensor *back = qn_load_npy(c, PATH);
            GOOD(c, back);
            const qn_shape want = qn_shape_get(forms[k]);
            expect_shape(back, want, __FILE__, __LINE__);
            assert_int_equal(qn_dtype_of(back), types[i]);
            assert_true(qn_item(qn_all(qn_eq(back, forms[k]), QN_ALL, false)) == 1);
        }
    }
    context_end(c);
}

static void alike(void **state)
{
    (void)state;
    static uint8_t found[1024];
    qn_context *c = context_new();
    OK(c, qn_save_npy(qn_to(f32(c, qn_shape_of(6), (float[]){1.5f, -0.25f, 3e38f, 0, 7, -1}), QN_DTYPE_BF16), PATH));
    FILE *f = fopen(PATH, "rb");
    assert_non_null(f);
    assert_int_equal(fread(found, 1, sizeof found, f), sizeof npy_bf16);
    fclose(f);
    assert_memory_equal(found, npy_bf16, sizeof npy_bf16);
    context_end(c);
}

static void refused(void **state)
{
    (void)state;
    qn_context *c = context_new();
    put(npy_f32_2x3, sizeof npy_f32_2x3 - 1);
    REFUSED(c, qn_load_npy(c, PATH), PATH ": found 23 bytes of data at offset 128, expected 24");
    put(npy_complex, sizeof npy_complex);
    REFUSED(c, qn_load_npy(c, PATH), "<c8");
    put("", 0);
    REFUSED(c, qn_load_npy(c, PATH), "magic");
    unlink(PATH);
    REFUSED(c, qn_load_npy(c, PATH), "t_array_files.npy");
    qn_tensor *packed = qn_empty(c, qn_shape_of(32), QN_DTYPE_Q8_0), *x = qn_ones(c, qn_shape_of(2), F32);
    assert_int_equal(qn_save_npy(packed, PATH), QN_STATUS_unsupported);
    assert_non_null(strstr(qn_context_error(c)->text, "no type for Q8_0"));
    qn_context_clear(c);
    assert_int_equal(qn_save_npy(x, "/nowhere/at/all.npy"), QN_STATUS_io);
    assert_int_equal(qn_save_npy(NULL, PATH), QN_STATUS_invalid);
    assert_int_equal(access(PATH, F_OK), -1);
    qn_context_clear(c);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(from_numpy), cmocka_unit_test(round_trips),
                                       cmocka_unit_test(alike), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
