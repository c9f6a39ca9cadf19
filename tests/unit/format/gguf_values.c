/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_values.c -- what an open file says: every value type in both byte orders, conversions and
 * their refusals, lookups, tensors, and files whose header was cut off from its data. The files are the corpus's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf/"

static qn_gguf *open_good(const char *name)
{
    char path[512];
    qn_gguf *file = NULL;
    qn_error err = {0};
    snprintf(path, sizeof path, CORPUS "%s.gguf", name);
    if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    return file;
}

static const qn_gguf_kv *find(const qn_gguf *file, const char *kind, qn_gguf_type type)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%d", kind, (int)type);
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    if (!kv) fail_msg("no key %s", key);
    return kv;
}

/* The values that make_corpus.py wrote: extremes of each type, then 0 and 1 in the arrays. */
static void check_integers(const qn_gguf *file)
{
    /* clang-format off */
    static const struct { qn_gguf_type type; bool negative; uint64_t bits; } want[] = {
        {QN_GGUF_u8, false, 255},         {QN_GGUF_i8, true, (uint64_t)-128},           {QN_GGUF_u16, false, 65535},
        {QN_GGUF_i16, true, (uint64_t)-32768}, {QN_GGUF_u32, false, 4294967295},
        {QN_GGUF_i32, true, (uint64_t)-2147483648LL},
        {QN_GGUF_u64, false, UINT64_MAX}, {QN_GGUF_i64, true, (uint64_t)INT64_MIN},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        for (int array = 0; array < 2; array++) {
            const qn_gguf_kv *kv = find(file, array ? "array" : "scalar", want[i].type);
            uint64_t u = 77;
            int64_t s = 77;
            double d = 77;
            qn_error err = {0};
            assert_int_equal(kv->elem, want[i].type);
            assert_int_equal(kv->type, array ? QN_GGUF_arr : want[i].type);
            assert_int_equal(kv->count, array ? 3 : 1);
            assert_int_equal(qn_gguf_get_u64(file, kv, 0, &u, &err), want[i].negative ? QN_STATUS_format : QN_OK);
            assert_true(u == (want[i].negative ? 77 : want[i].bits));
            if (want[i].negative) assert_non_null(strstr(err.text, "expected an integer of 0 or more"));
            const bool too_large = want[i].type == QN_GGUF_u64;
            assert_int_equal(qn_gguf_get_i64(file, kv, 0, &s, &err), too_large ? QN_STATUS_format : QN_OK);
            assert_true(s == (too_large ? 77 : (int64_t)want[i].bits));
            const bool inexact = qn_gguf_get_f64(file, kv, 0, &d, &err) != QN_OK;
            assert_int_equal(inexact, want[i].type == QN_GGUF_u64 || want[i].type == QN_GGUF_i64);
            if (!inexact) assert_true(d == (want[i].negative ? (double)(int64_t)want[i].bits : (double)want[i].bits));
            if (array) {
                assert_int_equal(qn_gguf_get_u64(file, kv, 2, &u, NULL), QN_OK);
                assert_true(u == 1);
                assert_int_equal(qn_gguf_get_u64(file, kv, 3, &u, &err), QN_STATUS_invalid);
                assert_non_null(strstr(err.text, "found 3 in all"));
            } else {
                assert_int_equal(qn_gguf_get_i64(file, kv, 1, &s, NULL), QN_STATUS_invalid);
            }
            bool flag;
            qn_gguf_str str;
            assert_int_equal(qn_gguf_get_bool(file, kv, 0, &flag, NULL), QN_STATUS_format);
            assert_int_equal(qn_gguf_get_str(file, kv, 0, &str, &err), QN_STATUS_format);
            assert_non_null(strstr(err.text, "expected a string"));
            assert_non_null(strstr(err.text, kv->key));
        }
    }
}

static void check_others(const qn_gguf *file)
{
    double d;
    uint64_t u;
    int64_t s;
    bool flag = false;
    qn_gguf_str str;
    qn_error err = {0};
    assert_int_equal(qn_gguf_get_f64(file, find(file, "scalar", QN_GGUF_f32), 0, &d, NULL), QN_OK);
    assert_true(d == 1.5);
    assert_int_equal(qn_gguf_get_f64(file, find(file, "array", QN_GGUF_f64), 0, &d, NULL), QN_OK);
    assert_true(d == -0.1);
    assert_int_equal(qn_gguf_get_u64(file, find(file, "scalar", QN_GGUF_f32), 0, &u, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "found f32, expected an integer"));
    assert_int_equal(qn_gguf_get_i64(file, find(file, "array", QN_GGUF_f64), 0, &s, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "found an array of f64"));
    assert_int_equal(qn_gguf_get_bool(file, find(file, "scalar", QN_GGUF_bool), 0, &flag, NULL), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_gguf_get_bool(file, find(file, "array", QN_GGUF_bool), 1, &flag, NULL), QN_OK);
    assert_false(flag);
    assert_int_equal(qn_gguf_get_u64(file, find(file, "scalar", QN_GGUF_bool), 0, &u, NULL), QN_STATUS_format);
    assert_int_equal(qn_gguf_get_f64(file, find(file, "scalar", QN_GGUF_bool), 0, &d, NULL), QN_STATUS_format);

    const char *text = "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80";
    assert_int_equal(qn_gguf_get_str(file, find(file, "scalar", QN_GGUF_str), 0, &str, NULL), QN_OK);
    assert_int_equal(str.len, strlen(text));
    assert_memory_equal(str.data, text, str.len);
    static const char *const items[] = {"", "one", "zw\xc3\xb6lf"};
    const qn_gguf_kv *list = find(file, "array", QN_GGUF_str);
    assert_int_equal(list->count, 3);
    for (uint64_t i = 3; i-- > 0;) { /* backwards: any order costs the same */
        assert_int_equal(qn_gguf_get_str(file, list, i, &str, NULL), QN_OK);
        assert_int_equal(str.len, strlen(items[i]));
        assert_memory_equal(str.data, items[i], str.len);
    }
    assert_int_equal(qn_gguf_get_str(file, list, 3, &str, NULL), QN_STATUS_invalid);
    const qn_gguf_kv *empty = qn_gguf_kv_find(file, "array.empty");
    assert_int_equal(empty->count, 0);
    assert_int_equal(qn_gguf_get_str(file, empty, 0, &str, NULL), QN_STATUS_invalid);
    const qn_gguf_kv *nested = qn_gguf_kv_find(file, "array.nested");
    assert_int_equal(nested->elem, QN_GGUF_arr);
    assert_int_equal(nested->count, 3);
    assert_int_equal(qn_gguf_get_u64(file, nested, 0, &u, NULL), QN_STATUS_format);
    assert_int_equal(qn_gguf_get_str(file, nested, 0, &str, NULL), QN_STATUS_format);
}

static void test_values(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        qn_gguf *file = open_good(big ? "good-every-value-big" : "good-every-value-little");
        assert_int_equal(qn_gguf_big_endian(file), big);
        assert_int_equal(qn_gguf_version(file), 3);
        check_integers(file);
        check_others(file);
        qn_gguf_close(file);
    }
}

static void test_lookups(void **state)
{
    (void)state;
    qn_gguf *file = open_good("good-every-value-little");
    assert_int_equal(qn_gguf_n_kv(file), 26);
    for (size_t i = 0; i < qn_gguf_n_kv(file); i++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(file, i);
        assert_ptr_equal(qn_gguf_kv_find(file, kv->key), kv);
    }
    assert_null(qn_gguf_kv_get(file, 26));
    assert_null(qn_gguf_kv_find(file, "scalar"));
    assert_null(qn_gguf_kv_find(file, ""));
    assert_null(qn_gguf_tensor_find(file, "scalar.0"));
    assert_null(qn_gguf_tensor_get(file, 0));
    assert_string_equal(qn_gguf_type_name(QN_GGUF_arr), "arr");
    assert_string_equal(qn_gguf_type_name((qn_gguf_type)99), "?");
    qn_gguf_close(file);
}

static void test_tensors(void **state)
{
    (void)state;
    qn_gguf *file = open_good("good-v2-big");
    assert_int_equal(qn_gguf_version(file), 2);
    assert_true(qn_gguf_big_endian(file));
    const qn_gguf_tensor *t = qn_gguf_tensor_find(file, "a.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, QN_DTYPE_F32);
    assert_true(qn_shape_equal(&t->shape, &qn_shape_of(2, 4))); /* [4, 2] in the file: innermost first */
    assert_int_equal(t->size_bytes, 32);
    assert_int_equal(t->file_offset % 32, 0);
    assert_int_equal(t->file_offset + 32, qn_gguf_file_bytes(file));
    qn_gguf_close(file);

    file = open_good("good-data-out-of-order");
    static const struct {
        const char *name;
        uint64_t after;
    } want[] = {{"last", 64}, {"first", 0}, {"middle", 32}};
    const uint64_t start = qn_gguf_tensor_find(file, "first")->file_offset;
    assert_int_equal(qn_gguf_n_tensors(file), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(qn_gguf_tensor_get(file, i)->name, want[i].name);
        assert_int_equal(qn_gguf_tensor_get(file, i)->file_offset, start + want[i].after);
        const char *first = qn_gguf_tensor_find(file, "first")->data;
        assert_ptr_equal(qn_gguf_tensor_get(file, i)->data, first + want[i].after);
    }
    assert_null(qn_gguf_tensor_get(file, 3));
    qn_gguf_close(file);

    file = open_good("good-eight-dimensions");
    assert_true(qn_shape_equal(&qn_gguf_tensor_get(file, 0)->shape, &qn_shape_of(2, 1, 2, 1, 2, 1, 2, 1)));
    qn_gguf_close(file);
    file = open_good("good-alignment-64");
    assert_int_equal(qn_gguf_alignment(file), 64);
    assert_int_equal(qn_gguf_tensor_find(file, "b")->file_offset, qn_gguf_tensor_find(file, "a")->file_offset + 64);
    qn_gguf_close(file);
}

static void test_every_type(void **state)
{
    (void)state;
    qn_gguf *file = open_good("good-every-type-little");
    size_t n = 0;
#define EXPECT(name_, id, block, bytes, class) \
    if (id >= 0) { \
        while (n < qn_gguf_n_tensors(file) && qn_gguf_tensor_get(file, n)->dtype != QN_DTYPE_##name_) n++; \
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, n); \
        if (!t) fail_msg("no tensor of type " #name_); \
        assert_int_equal(t->size_bytes, bytes); \
        assert_int_equal(t->shape.dim[0], block); \
        n = 0; \
    }
    QN_DTYPE_ROWS(EXPECT)
#undef EXPECT
    qn_gguf_close(file);
}

/* A header without its data opens for its metadata, and says which tensors are not there. */
static void test_metadata_only(void **state)
{
    (void)state;
    qn_gguf *file = open_good("good-v3-little");
    const uint64_t start = qn_gguf_tensor_get(file, 0)->file_offset, size = qn_gguf_file_bytes(file);
    const void *whole = (const char *)qn_gguf_tensor_get(file, 0)->data - start;
    for (uint64_t n = start - 4; n <= size; n++) { /* 4: within the padding before the data */
        qn_gguf *cut = NULL;
        char *copy = malloc(n);
        memcpy(copy, whole, n);
        assert_int_equal(qn_gguf_open_memory(copy, n, NULL, &cut, NULL), n == size ? QN_OK : QN_STATUS_format);
        if (n == size) qn_gguf_close(cut);
        assert_int_equal(qn_gguf_open_memory(copy, n, &(qn_gguf_options){.metadata_only = true}, &cut, NULL), QN_OK);
        const qn_gguf_tensor *t = qn_gguf_tensor_get(cut, 0);
        assert_int_equal(t->file_offset, start);
        assert_int_equal(t->data != NULL, n == size);
        qn_gguf_close(cut);
        free(copy);
    }
    qn_gguf_close(file);
}

/* A value that changes under an open file is caught when it is read, before it is used as a length. */
static void test_changed_under_us(void **state)
{
    (void)state;
    qn_gguf *file = open_good("good-every-value-little"), *mine = NULL;
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "array.8");
    qn_gguf_str str;
    qn_error err = {0};
    assert_int_equal(qn_gguf_get_str(file, kv, 0, &str, NULL), QN_OK);
    const char *whole = str.data - 8 - 12 - kv->offset;
    const size_t size = qn_gguf_file_bytes(file);
    char *copy = malloc(size);
    memcpy(copy, whole, size);
    assert_int_equal(qn_gguf_open_memory(copy, size, NULL, &mine, NULL), QN_OK);
    copy[kv->offset + 12 + 6] = 1; /* a length of 2^48 */
    assert_int_equal(qn_gguf_get_str(mine, qn_gguf_kv_find(mine, "array.8"), 0, &str, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "has changed"));
    qn_gguf_close(mine);
    free(copy);
    qn_gguf_close(file);
}

static void test_counters_and_paths(void **state)
{
    (void)state;
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    qn_gguf *file = open_good("good-v3-little");
    qn_metrics_snapshot(&after);
    assert_int_equal(after.gguf_parses - before.gguf_parses, 1);
    assert_non_null(strstr(qn_gguf_path(file), "good-v3-little.gguf"));
    assert_int_equal(qn_gguf_n_parts(file), 1);
    qn_gguf_close(file);
    qn_gguf_close(NULL);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.mapped_bytes, before.mapped_bytes);

    file = (qn_gguf *)(uintptr_t)1;
    qn_error err = {0};
    assert_int_equal(qn_gguf_open("/nowhere/model.gguf", NULL, &file, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "/nowhere/model.gguf"));
    assert_ptr_equal(file, (qn_gguf *)(uintptr_t)1); /* outputs are untouched on failure */
    assert_int_equal(qn_gguf_open("/", NULL, &file, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "directory"));
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_tensors),        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_metadata_only),  cmocka_unit_test(test_changed_under_us),
        cmocka_unit_test(test_counters_and_paths),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
