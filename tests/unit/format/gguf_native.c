/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_native.c -- tensor data of files of the other byte order: each format's blocks against an
 * independent decoder of big-endian blocks (big_endian_blocks.h says which), and whole files. Assumes a little-endian
 * machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/str.h"
#include "format/native.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "unit/format/big_endian_blocks.h"

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf/"

static void test_blocks(void **state)
{
    (void)state;
    int seen[QN_DTYPE_COUNT] = {0};
    for (size_t i = 0; i < sizeof big_endian_blocks / sizeof *big_endian_blocks; i++) {
        const qn_dtype dtype = big_endian_blocks[i].dtype;
        const qn_dtype_info *info = qn_dtype_get(dtype);
        const int n = big_endian_blocks[i].n_blocks * info->block_elems;
        uint8_t raw[512];
        float x[1024];
        const size_t bytes = (size_t)(big_endian_blocks[i].n_blocks * info->block_bytes);
        seen[dtype] = 1;
        memcpy(raw, big_endian_blocks[i].bytes, bytes);
        memset(raw + bytes, 0x5a, sizeof raw - bytes);
        qn__swap_blocks(dtype, raw, (size_t)big_endian_blocks[i].n_blocks);
        assert_int_equal(raw[bytes], 0x5a);
        assert_int_equal(qn_unpack(dtype, raw, x, n, NULL), QN_OK);
        for (int k = 0; k < 4; k++)
            if (x[k] != big_endian_blocks[i].first[k])
                fail_msg("%s: element %d is %.9g, expected %.9g", info->name, k, (double)x[k],
                         (double)big_endian_blocks[i].first[k]);
        if (qn__hash(QN_HASH_INIT, x, (size_t)n * 4) != big_endian_blocks[i].hash)
            fail_msg("%s: values differ", info->name);
        qn__swap_blocks(dtype, raw, (size_t)big_endian_blocks[i].n_blocks); /* its own inverse */
        assert_memory_equal(raw, big_endian_blocks[i].bytes, bytes);
    }
    for (int d = 0; d < QN_DTYPE_COUNT; d++) /* a new block format needs its row in the oracle's table */
        if (qn_dtype_get((qn_dtype)d)->class_ == QN_CLASS_block && !seen[d])
            fail_msg("no block of %s", qn_dtype_get((qn_dtype)d)->name);
}

static void test_scalars(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        uint8_t big[8], little[8];
    } cases[] = {
        {QN_DTYPE_F32, {0x3f, 0x80, 0, 1, 1, 2, 3, 4}, {1, 0, 0x80, 0x3f, 4, 3, 2, 1}},
        {QN_DTYPE_I32, {1, 2, 3, 4, 5, 6, 7, 8}, {4, 3, 2, 1, 8, 7, 6, 5}},
        {QN_DTYPE_F16, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 4, 3, 6, 5, 8, 7}},
        {QN_DTYPE_I16, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 4, 3, 6, 5, 8, 7}},
        {QN_DTYPE_F64, {1, 2, 3, 4, 5, 6, 7, 8}, {8, 7, 6, 5, 4, 3, 2, 1}},
        {QN_DTYPE_I64, {1, 2, 3, 4, 5, 6, 7, 8}, {8, 7, 6, 5, 4, 3, 2, 1}},
        {QN_DTYPE_I8, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}},
        {QN_DTYPE_U8, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t data[9] = {0};
        memcpy(data + 1, cases[i].big, 8); /* at an odd address: files promise no more than their alignment */
        qn__swap_blocks(cases[i].dtype, data + 1, 8 / (size_t)qn_dtype_get(cases[i].dtype)->block_bytes);
        assert_memory_equal(data + 1, cases[i].little, 8);
    }
}

static qn_gguf *open_patched(const char *name, char **copy, size_t at, const void *bytes, size_t n)
{
    char path[512];
    qn_gguf *file = NULL;
    snprintf(path, sizeof path, CORPUS "%s.gguf", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *copy = malloc(4096);
    const size_t size = fread(*copy, 1, 4096, f);
    fclose(f);
    memcpy(*copy + at, bytes, n);
    assert_int_equal(qn_gguf_open_memory(*copy, size, NULL, &file, NULL), QN_OK);
    return file;
}

/* Both files come to the same numbers through the copy, and the mapping keeps the file's order. */
static void test_files(void **state)
{
    (void)state;
    static const uint8_t big[4] = {0x40, 0x49, 0x0f, 0xdb}, little[4] = {0xdb, 0x0f, 0x49, 0x40}; /* pi */
    const float pi = 3.14159274f;
    char *copies[2];
    float values[8];
    qn_gguf *a = open_patched("good-v3-big", &copies[0], 160 + 4, big, 4);
    qn_gguf *b = open_patched("good-v3-little", &copies[1], 160 + 4, little, 4);
    assert_false(qn__gguf_is_native(a));
    assert_true(qn__gguf_is_native(b));
    assert_int_equal(qn_gguf_tensor_get(a, 0)->file_offset, 160);
    assert_memory_equal((const char *)qn_gguf_tensor_get(a, 0)->data + 4, big, 4);
    assert_int_equal(qn__gguf_tensor_native(a, qn_gguf_tensor_get(a, 0), values, NULL), QN_OK);
    assert_true(values[1] == pi && values[0] == 0 && values[2] == 0);
    memset(values, 1, sizeof values);
    assert_int_equal(qn__gguf_tensor_native(b, qn_gguf_tensor_get(b, 0), values, NULL), QN_OK);
    assert_true(values[1] == pi && values[0] == 0 && values[2] == 0);
    qn_gguf_close(a);
    qn_gguf_close(b);

    qn_error err = {0};
    assert_int_equal(qn_gguf_open_memory(copies[0], 170, &(qn_gguf_options){.metadata_only = true}, &a, NULL), QN_OK);
    assert_int_equal(qn__gguf_tensor_native(a, qn_gguf_tensor_get(a, 0), values, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "a.weight"));
    assert_non_null(strstr(err.text, "170"));
    qn_gguf_close(a);
    free(copies[0]);
    free(copies[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
