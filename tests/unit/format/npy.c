/* SPDX-License-Identifier: MIT */
/* tests/unit/format/npy.c -- .npy files against files that NumPy saved: read to the right numbers, written byte for
 * byte alike, and refused with a reason when they are of another kind or damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "unit/format/npy_whole.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "unit/format/npy_files.h"

#define OUT QN_BUILD_DIR "/t_format_npy.npy"

static const float f32_values[6] = {1.5f, -0.25f, 3e38f, 0, 7, -1};
static const int32_t i32_values[6] = {1, -2, INT32_MAX, 0, INT32_MIN, 77};
static const int64_t i64_values[6] = {1, -2, INT32_MAX, 0, INT32_MIN, 77};

static const uint16_t f16_values[6] = {15872, 46080, 18560, 0, 18176, 48128},
                      bf16_values[6] = {0x3fc0, 0xbe80, 0x7f62, 0, 0x40e0, 0xbf80};
static const double f64_values[6] = {1.5, -0.25, 3e38, 0, 7, -1};
static const int8_t i8_values[6] = {-99, -107, 86, -100, -36, -23};
static const int16_t i16_values[6] = {1, 30009, 16531, 0, 13479, 77};
static const uint8_t u8_values[6] = {1, 249, 186, 0, 64, 77}, bool_values[6] = {1, 0, 0, 1, 1, 1};

static const struct {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    qn_dtype dtype;
    qn_shape shape;
    const void *values;
    size_t n;
    bool as_we_write;
} good[] = {
#define FILE_OF(name) #name, npy_##name, sizeof npy_##name
    {FILE_OF(f32_2x3), QN_DTYPE_F32, {2, {2, 3}}, f32_values, 24, true},
    {FILE_OF(f32_big), QN_DTYPE_F32, {2, {2, 3}}, f32_values, 24, false},
    {FILE_OF(f32_v2), QN_DTYPE_F32, {2, {2, 3}}, f32_values, 24, false},
    {FILE_OF(f32_v3), QN_DTYPE_F32, {2, {2, 3}}, f32_values, 24, false},
    {FILE_OF(i32_6), QN_DTYPE_I32, {1, {6}}, i32_values, 24, true},
    {FILE_OF(i32_big), QN_DTYPE_I32, {1, {6}}, i32_values, 24, false},
    {FILE_OF(i64_1x6x1), QN_DTYPE_I64, {3, {1, 6, 1}}, i64_values, 48, true},
    {FILE_OF(i64_big), QN_DTYPE_I64, {3, {1, 6, 1}}, i64_values, 48, false},
    {FILE_OF(f32_scalar), QN_DTYPE_F32, {0, {0}}, (const float[]){2.5f}, 4, true},
    {FILE_OF(f32_empty), QN_DTYPE_F32, {3, {3, 0, 2}}, "", 0, true},
    {FILE_OF(f32_rank8), QN_DTYPE_F32, {8, {1, 1, 2, 1, 3, 1, 1, 1}}, f32_values, 24, true},
    {FILE_OF(f64), QN_DTYPE_F64, {1, {6}}, f64_values, 48, true},
    {FILE_OF(f64_big), QN_DTYPE_F64, {1, {6}}, f64_values, 48, false},
    {FILE_OF(f16), QN_DTYPE_F16, {1, {6}}, f16_values, 12, true},
    {FILE_OF(bf16), QN_DTYPE_BF16, {1, {6}}, bf16_values, 12, true},
    {FILE_OF(i8), QN_DTYPE_I8, {1, {6}}, i8_values, 6, true},
    {FILE_OF(i16), QN_DTYPE_I16, {1, {6}}, i16_values, 12, true},
    {FILE_OF(u8), QN_DTYPE_U8, {1, {6}}, u8_values, 6, true},
    {FILE_OF(bools), QN_DTYPE_BOOL, {1, {6}}, bool_values, 6, true},
};

static void test_read(void **state)
{
    (void)state;
    qn__npy_deinit(NULL);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qn_npy npy;
        qn_error err = {0};
        if (qn__npy_parse(good[i].bytes, good[i].size, good[i].name, 48, &npy, &err) != QN_OK) fail_msg("%s", err.text);
        assert_int_equal(npy.dtype, good[i].dtype);
        assert_true(qn_shape_equal(&npy.shape, &good[i].shape));
        assert_int_equal(npy.bytes, good[i].n);
        assert_memory_equal(npy.data, good[i].values, good[i].n);
        qn__npy_deinit(&npy);
        qn__npy_deinit(&npy);
        for (size_t n = 0; n < good[i].size; n++) { /* no prefix is a file */
            uint8_t *prefix = malloc(n ? n : 1);
            memcpy(prefix, good[i].bytes, n);
            assert_int_not_equal(qn__npy_parse(prefix, n, "prefix", 48, &npy, NULL), QN_OK);
            free(prefix);
        }
    }
}

static void test_write(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qn_npy_writer *w = NULL;
        qn_error err = {0};
        static uint8_t found[1024];
        const size_t elem = (size_t)qn_dtype_get(good[i].dtype)->block_bytes;
        if (qn_npy_writer_open(OUT, good[i].dtype, &good[i].shape, &w, &err) != QN_OK) fail_msg("%s", err.text);
        for (size_t at = 0; at < good[i].n; at += elem) qn_npy_write(w, (const char *)good[i].values + at, 1);
        if (qn_npy_writer_commit(w, &err) != QN_OK) fail_msg("%s", err.text);
        FILE *f = fopen(OUT, "rb");
        assert_non_null(f);
        const size_t n = fread(found, 1, sizeof found, f);
        fclose(f);
        if (good[i].as_we_write) {
            assert_int_equal(n, good[i].size);
            assert_memory_equal(found, good[i].bytes, n);
        }
        qn_npy npy;
        assert_int_equal(qn__npy_read(OUT, 48, &npy, NULL), QN_OK);
        assert_memory_equal(npy.data, good[i].values, good[i].n);
        qn__npy_deinit(&npy);
        unlink(OUT);
    }
}

static void test_fortran(void **state)
{
    (void)state;
    qn_npy npy;
    assert_int_equal(qn__npy_parse(npy_fortran, sizeof npy_fortran, "fortran", 24, &npy, NULL), QN_OK);
    assert_true(npy.fortran && qn_shape_equal(&npy.shape, &qn_shape_of(2, 3)));
    for (int i = 0; i < 6; i++) assert_true(((float *)npy.data)[i] == f32_values[i % 2 * 3 + i / 2]);
    qn__npy_deinit(&npy);
}

static void expect(const void *bytes, size_t size, qn_status status, const char *says)
{
    qn_npy npy;
    qn_error err = {0};
    const qn_status found = qn__npy_parse(bytes, size, "x.npy", 24, &npy, &err);
    if (found != status || !strstr(err.text, says) || !strstr(err.text, "x.npy"))
        fail_msg("status %s, \"%s\" does not say \"%s\"", qn_status_name(found), err.text, says);
}

/* A version 1 file with this dictionary and `data` bytes of zeros. */
static void expect_header(const char *dictionary, size_t data, qn_status status, const char *says)
{
    uint8_t file[512] = "\x93NUMPY\x01";
    const size_t n = strlen(dictionary);
    file[8] = (uint8_t)n;
    memcpy(file + 10, dictionary, n);
    expect(file, 10 + n + data, status, says);
}

static void test_refused(void **state)
{
    (void)state;
    expect(npy_complex, sizeof npy_complex, QN_STATUS_unsupported, "\"<c8\", expected a byte order and f2, f4, f8");
    expect(npy_u2, sizeof npy_u2, QN_STATUS_unsupported, "<u2");
    expect_header("{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4, QN_STATUS_unsupported, "|f4");
    expect_header("{'descr': '', 'fortran_order': False, 'shape': (1,)}", 4, QN_STATUS_unsupported,
                  "expected a byte order");
    expect(npy_record, sizeof npy_record, QN_STATUS_format, "expected a quoted string");
    expect(npy_rank9, sizeof npy_rank9, QN_STATUS_format, "at most 8 dimensions");
    expect(npy_i64_big, sizeof npy_i64_big, QN_STATUS_limit, "found 48 bytes of data, expected at most 24");
    expect(npy_f32_2x3, sizeof npy_f32_2x3 - 1, QN_STATUS_format, "found 23 bytes of data at offset 128, expected 24");
    expect("not a .npy file", 15, QN_STATUS_format, "magic");
    expect("\x93NUMPY\x04\x00\x10\x00\x00\x00", 12, QN_STATUS_unsupported, "version 4.0");
    expect("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, QN_STATUS_format, "4294967295");

    /* Anything NumPy could have written is fine, in any order and spacing. */
    qn_npy npy;
    const char odd[] = "\x93NUMPY\x01\x00\x3a\x00 {\"shape\":( 2 ,3, ) ,'fortran_order' : True,'descr':'<f4'}   ";
    const char one[] = "\x93NUMPY\x01\x00\x35\x00{'shape':(0,),'fortran_order':True,'descr':'=f4',}\n\n\n";
    expect(odd, sizeof odd - 1, QN_STATUS_format,
           "found 3 bytes of data at offset 68, expected 24 for the shape [2,3]");
    assert_int_equal(qn__npy_parse(one, sizeof one - 1, "one", 0, &npy, NULL), QN_OK);
    assert_false(npy.fortran); /* rank 1 has no order */
    qn__npy_deinit(&npy);
    const char lies[] = "\x93NUMPY\x01\x00\x36\x00{'descr':'|b1','fortran_order':False,'shape':(1,4),}  \0\1\2\xff";
    assert_int_equal(qn__npy_parse(lies, sizeof lies - 1, "lies", 4, &npy, NULL), QN_OK);
    assert_memory_equal(npy.data, "\0\1\1\1", 4); /* whatever a byte holds, a BOOL is 0 or 1 */
    qn__npy_deinit(&npy);

    static const struct {
        const char *dictionary;
        const char *says;
    } cases[] = {
        {"", "found the end of the header, expected a dictionary"},
        {"[1]", "offset 10"},
        {"{'descr': '<f4', 'fortran_order': False}", "keys descr, fortran_order and shape"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "once"},
        {"{'descr': '<f4', 'colour': 'red', 'fortran_order': False, 'shape': (1,)}", "once"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "below 2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "2^63 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}", "2^63 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} extra", "nothing after"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "comma"},
        {"{'descr' '<f4'}", "colon"},
        {"{'descr': <f4}", "quoted string"},
        {"{'descr': '<f4", "quoted string"},
        {"{'descr': '<f4<f4<f4<f4<f4<f4'}", "short quoted string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_header(cases[i].dictionary, 4, QN_STATUS_format, cases[i].says);
}

static void test_writer_misuse(void **state)
{
    (void)state;
    qn_npy_writer *w = NULL;
    qn_error err = {0};
    assert_int_equal(qn_npy_writer_open(OUT, QN_DTYPE_Q4_0, &qn_shape_of(32), &w, &err), QN_STATUS_unsupported);
    assert_non_null(strstr(err.text, "Q4_0"));
    assert_int_equal(qn_npy_writer_open(OUT, QN_DTYPE_F32, &qn_shape_of(-1), &w, &err), QN_STATUS_invalid);
    assert_int_equal(qn_npy_writer_open(OUT, QN_DTYPE_I64, &qn_shape_of(1LL << 61), &w, &err), QN_STATUS_invalid);
    assert_int_equal(qn_npy_writer_open("/nowhere/at/all.npy", QN_DTYPE_F32, &qn_shape_of(1), &w, &err), QN_STATUS_io);
    for (uint64_t n = 0; n < 5; n++) {
        if (n == 2) continue;
        assert_int_equal(qn_npy_writer_open(OUT, QN_DTYPE_F32, &qn_shape_of(2), &w, NULL), QN_OK);
        for (uint64_t i = 0; i < n; i++) qn_npy_write(w, f32_values, 1);
        assert_int_equal(qn_npy_writer_commit(w, &err), QN_STATUS_state);
        assert_non_null(strstr(err.text, "expected 2"));
        assert_int_equal(access(OUT, F_OK), -1);
    }
    assert_int_equal(qn_npy_writer_open(OUT, QN_DTYPE_F32, &qn_shape_of(2), &w, NULL), QN_OK);
    qn_npy_write(w, f32_values, UINT64_MAX);
    qn_npy_writer_abort(w);
    qn_npy_writer_abort(NULL);
    assert_int_equal(access(OUT, F_OK), -1);
}

/* A header with another number of rows is the one that would be made, where it has as many digits. */
static void test_rows(void **state)
{
    (void)state;
    static const struct {
        int64_t from, to;
        bool fits;
    } cases[] = {{0, 9, true}, {9, 10, false}, {10, 99, true}, {1000, 7, false}, {INT64_MAX, INT64_MAX - 5, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_str have = {0}, want = {0};
        assert_true(qn__npy_header(&have, QN_DTYPE_F32, &qn_shape_of(cases[i].from, 17), 128));
        assert_true(
            qn__npy_header(&want, QN_DTYPE_F32, &qn_shape_of(cases[i].fits ? cases[i].to : cases[i].from, 17), 128));
        assert_true(qn__npy_set_rows(have.data, cases[i].to) == cases[i].fits);
        assert_true(have.len == want.len);
        assert_memory_equal(have.data, want.data, want.len);
        qn__str_deinit(&have);
        qn__str_deinit(&want);
    }
}

/* The logits of the test material, where it is. */
static void test_material(void **state)
{
    (void)state;
    const char *path = QN_SHARED_DIR "/golden/llama-gqa-F16.logits.npy";
    qn_npy npy;
    qn_error err = {0};
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        skip();
    }
    if (qn__npy_read(path, 1 << 20, &npy, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(npy.dtype, QN_DTYPE_F32);
    assert_true(qn_shape_equal(&npy.shape, &qn_shape_of(32, 512)));
    qn__npy_deinit(&npy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),     cmocka_unit_test(test_write),         cmocka_unit_test(test_fortran),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_writer_misuse), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_material),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
