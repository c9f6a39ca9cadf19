/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_verify.c -- numbers that are not finite are found in every format and byte order, named with
 * tensor, element and offset; good files pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf/"

typedef struct found_log {
    int n;
    char last[400];
} found_log;

static void note(void *ctx, const char *tensor, const char *text)
{
    found_log *log = ctx;
    log->n++;
    snprintf(log->last, sizeof log->last, "%s: %s", tensor, text);
}

static char *load(const char *name, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, CORPUS "%s.gguf", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *data = malloc(8192);
    *size = fread(data, 1, 8192, f);
    fclose(f);
    return data;
}

static void test_good(void **state)
{
    (void)state;
    static const char *const names[] = {"good-every-type-little", "good-every-type-big", "good-v3-big",
                                        "good-no-tensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        char *data = load(names[i], &size);
        qn_gguf *file = NULL;
        found_log log = {0};
        qn_error err = {0};
        assert_int_equal(qn_gguf_open_memory(data, size, NULL, &file, NULL), QN_OK);
        if (qn_gguf_verify(file, note, &log, &err) != QN_OK) fail_msg("%s: %s (%s)", names[i], err.text, log.last);
        assert_int_equal(log.n, 0);
        qn_gguf_close(file);
        free(data);
    }
}

/* The two bytes of each format's scale, from the start of a block; NaN as 16-bit floats have it. */
static void test_bad_scales(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { const char *tensor; int at, width; } cases[] = {
        {"t.f32", 0, 4},    {"t.f16", 0, 2},     {"t.bf16", 0, 2},   {"t.f64", 0, 8},     {"t.q4_0", 0, 2},
        {"t.q4_1", 2, 2},
        {"t.q5_0", 0, 2},   {"t.q5_1", 2, 2},    {"t.q8_0", 0, 2},   {"t.q2_k", 80, 2},   {"t.q2_k", 82, 2},
        {"t.q3_k", 108, 2},
        {"t.q4_k", 0, 2},   {"t.q4_k", 2, 2},    {"t.q5_k", 2, 2},   {"t.q6_k", 208, 2},  {"t.iq2_xxs", 0, 2},
        {"t.iq2_xs", 0, 2}, {"t.iq3_xxs", 0, 2}, {"t.iq1_s", 0, 2},  {"t.iq4_nl", 0, 2},  {"t.iq3_s", 0, 2},
        {"t.iq2_s", 0, 2},
        {"t.iq4_xs", 0, 2}, {"t.tq1_0", 52, 2},  {"t.tq2_0", 64, 2},
    };
    /* clang-format on */
    for (int big = 0; big < 2; big++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            size_t size;
            char *data = load(big ? "good-every-type-big" : "good-every-type-little", &size), where[64];
            qn_gguf *file = NULL;
            found_log log = {0};
            qn_error err = {0};
            assert_int_equal(qn_gguf_open_memory(data, size, NULL, &file, NULL), QN_OK);
            const qn_gguf_tensor *t = qn_gguf_tensor_find(file, cases[i].tensor);
            assert_non_null(t);
            uint8_t *scale = (uint8_t *)data + t->file_offset + cases[i].at;
            /* 0x7f7f...: large or NaN */
            for (int k = 0; k < cases[i].width; k++) scale[big ? k : cases[i].width - 1 - k] = 0x7f;
            scale[big ? 0 : cases[i].width - 1] = 0x7f;
            scale[big ? 1 : cases[i].width - 2] = 0xff;
            assert_int_equal(qn_gguf_verify(file, note, &log, &err), QN_STATUS_format);
            assert_non_null(strstr(err.text, "found 1 tensors"));
            assert_int_equal(log.n, 1);
            snprintf(where, sizeof where, "(offset %llu)", (unsigned long long)t->file_offset);
            if (strncmp(log.last, cases[i].tensor, strlen(cases[i].tensor)) != 0 || !strstr(log.last, where) ||
                !strstr(log.last, "the first a NaN at [0]"))
                fail_msg("%s: \"%s\"", cases[i].tensor, log.last);
            assert_int_equal(qn_gguf_verify(file, NULL, NULL, NULL), QN_STATUS_format);
            qn_gguf_close(file);
            free(data);
        }
    }
}

/* Counts, the first position in several dimensions and beyond the first chunk, and infinities. */
static void test_positions(void **state)
{
    (void)state;
    static float x[3][5][1000];
    const char *path = QN_BUILD_DIR "/t_format_gguf_verify.gguf";
    qn_gguf_writer *w = NULL;
    qn_gguf *file = NULL;
    found_log log = {0};
    x[1][2][345] = INFINITY;
    x[1][2][346] = -INFINITY;
    x[2][0][0] = NAN;
    assert_int_equal(qn_gguf_writer_create(path, &w, NULL), QN_OK);
    qn_gguf_declare(w, "clean", QN_DTYPE_F32, &qn_shape_of(2));
    qn_gguf_declare(w, "x", QN_DTYPE_F32, &qn_shape_of(3, 5, 1000));
    qn_gguf_declare(w, "numbers", QN_DTYPE_I32, &qn_shape_of(2));
    qn_gguf_declare(w, "wide", QN_DTYPE_F64, &qn_shape_of(2));
    qn_gguf_write_data(w, x[0][0], 8);
    qn_gguf_write_data(w, x, sizeof x);
    qn_gguf_write_data(w, (const int32_t[]){0x7fc00000, -1}, 8); /* a NaN's bits, but integers */
    qn_gguf_write_data(w, (const double[]){1e300, -1e-300}, 16); /* finite, though not as float32 */
    assert_int_equal(qn_gguf_writer_commit(w, NULL), QN_OK);
    assert_int_equal(qn_gguf_open(path, NULL, &file, NULL), QN_OK);
    assert_int_equal(qn_gguf_verify(file, note, &log, NULL), QN_STATUS_format);
    assert_int_equal(log.n, 1);
    char want[200];
    snprintf(want, sizeof want,
             "x: 1 NaN and 2 infinite of 15000 elements, the first an infinity at [1,2,345] (offset %llu)",
             (unsigned long long)qn_gguf_tensor_find(file, "x")->file_offset + 4 * 7345);
    assert_string_equal(log.last, want);
    qn_gguf_close(file);
    remove(path);
}

static void test_missing_data(void **state)
{
    (void)state;
    size_t size;
    char *data = load("good-v3-little", &size);
    qn_gguf *file = NULL;
    found_log log = {0};
    assert_int_equal(qn_gguf_open_memory(data, size - 1, &(qn_gguf_options){.metadata_only = true}, &file, NULL),
                     QN_OK);
    assert_int_equal(qn_gguf_verify(file, note, &log, NULL), QN_STATUS_format);
    assert_string_equal(log.last, "a.weight: its 32 bytes at offset 160 are not in the file, which ends at 191");
    qn_gguf_close(file);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad_scales),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_missing_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
