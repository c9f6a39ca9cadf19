/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_write.c -- writing: the exact bytes of a small file, write and read back, copying from files
 * of either byte order, and every way to misuse the writer. tests/oracle/gguf_roundtrip.py lets the gguf package read
 * the results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf/"
#define OUT    QN_BUILD_DIR "/t_format_gguf_write.gguf"

static qn_gguf_writer *create(void)
{
    qn_gguf_writer *w = NULL;
    qn_error err = {0};
    unlink(OUT);
    if (qn_gguf_writer_create(OUT, &w, &err) != QN_OK) fail_msg("%s", err.text);
    return w;
}

static qn_gguf *reopen(void)
{
    qn_gguf *file = NULL;
    qn_error err = {0};
    if (qn_gguf_open(OUT, NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    return file;
}

static void commit(qn_gguf_writer *w)
{
    qn_error err = {0};
    if (qn_gguf_writer_commit(w, &err) != QN_OK) fail_msg("%s", err.text);
}

static size_t slurp(const char *path, uint8_t *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(buf, 1, size, f);
    fclose(f);
    return n;
}

/* make_corpus.py wrote good-v3-little from the format's description alone. */
static void test_exact_bytes(void **state)
{
    (void)state;
    static uint8_t want[4096], found[4096];
    qn_gguf_writer *w = create();
    qn_gguf_write_str(w, "general.architecture", "llama");
    qn_gguf_write_str(w, "general.name", "corpus");
    qn_gguf_declare(w, "a.weight", QN_DTYPE_F32, &qn_shape_of(2, 4));
    qn_gguf_write_data(w, (const float[8]){0}, 32);
    commit(w);
    const size_t n = slurp(CORPUS "good-v3-little.gguf", want, sizeof want);
    assert_int_equal(slurp(OUT, found, sizeof found), n);
    assert_memory_equal(found, want, n);
}

/* A file with every kind of value, copied entry by entry from either byte order, is the little-endian file again. */
static void test_copy_every_value(void **state)
{
    (void)state;
    static uint8_t want[4096], found[4096];
    static const char *const names[] = {"good-every-value-little", "good-every-value-big"};
    const size_t n = slurp(CORPUS "good-every-value-little.gguf", want, sizeof want);
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        qn_gguf *from = NULL;
        snprintf(path, sizeof path, CORPUS "%s.gguf", names[i]);
        assert_int_equal(qn_gguf_open(path, NULL, &from, NULL), QN_OK);
        qn_gguf_writer *w = create();
        qn_gguf_write_kvs(w, from, "");
        commit(w);
        qn_gguf_close(from);
        assert_int_equal(slurp(OUT, found, sizeof found), n);
        assert_memory_equal(found, want, n);
    }
}

static void fill(uint8_t *data, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 31 + (size_t)seed);
}

static void test_round_trip(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { const char *name; qn_dtype dtype; qn_shape shape; size_t bytes; } tensors[] = {
        {"f32", QN_DTYPE_F32, {3, {2, 3, 5}}, 120},   {"one", QN_DTYPE_I8, {1, {1}}, 1},
        {"q4_k", QN_DTYPE_Q4_K, {2, {3, 512}}, 864},  {"bf16", QN_DTYPE_BF16, {2, {7, 1}}, 14},
        {"deep", QN_DTYPE_F64, {8, {1, 2, 1, 2, 1, 2, 1, 3}}, 192},
    };
    /* clang-format on */
    static uint8_t data[1024];
    const int32_t ints[] = {-1, 0, 2147483647};
    const double doubles[] = {0.1, -1e300};
    qn_gguf_writer *w = create();
    qn_gguf_write_u32(w, "general.alignment", 128);
    qn_gguf_write_u32(w, "a.u32", 4000000000u);
    qn_gguf_write_u64(w, "a.u64", UINT64_MAX);
    qn_gguf_write_f32(w, "a.f32", -0.25f);
    qn_gguf_write_bool(w, "a.bool", true);
    qn_gguf_write_str(w, "a.str", "");
    qn_gguf_write_strs(w, "a.strs", (const qn_gguf_str[]){{"x", 1}, {NULL, 0}, {"yz\0w", 4}}, 3);
    qn_gguf_write_strs(w, "a.none", NULL, 0);
    qn_gguf_write_array(w, "a.i32", QN_GGUF_i32, ints, 3);
    qn_gguf_write_array(w, "a.f64", QN_GGUF_f64, doubles, 2);
    qn_gguf_write_array(w, "a.bools", QN_GGUF_bool, (const uint8_t[]){1, 0}, 2);
    for (size_t i = 0; i < 5; i++) qn_gguf_declare(w, tensors[i].name, tensors[i].dtype, &tensors[i].shape);
    for (size_t i = 0; i < 5; i++) { /* in pieces of all sizes */
        fill(data, tensors[i].bytes, (int)i);
        for (size_t at = 0, step = 1; at < tensors[i].bytes; at += step, step = step % 97 + 1) {
            if (step > tensors[i].bytes - at) step = tensors[i].bytes - at;
            qn_gguf_write_data(w, data + at, step);
        }
    }
    assert_int_equal(qn_gguf_writer_status(w, NULL), QN_OK);
    assert_int_equal(access(OUT, F_OK), -1); /* not before commit */
    commit(w);

    qn_gguf *file = reopen();
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0;
    bool flag = false;
    qn_gguf_str str;
    assert_int_equal(qn_gguf_version(file), 3);
    assert_int_equal(qn_gguf_alignment(file), 128);
    assert_int_equal(qn_gguf_n_kv(file), 11);
    assert_int_equal(qn_gguf_get_u64(file, qn_gguf_kv_find(file, "a.u32"), 0, &u, NULL), QN_OK);
    assert_true(u == 4000000000u);
    assert_int_equal(qn_gguf_get_u64(file, qn_gguf_kv_find(file, "a.u64"), 0, &u, NULL), QN_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(qn_gguf_get_f64(file, qn_gguf_kv_find(file, "a.f32"), 0, &d, NULL), QN_OK);
    assert_true(d == -0.25);
    assert_int_equal(qn_gguf_get_bool(file, qn_gguf_kv_find(file, "a.bool"), 0, &flag, NULL), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_gguf_get_str(file, qn_gguf_kv_find(file, "a.strs"), 2, &str, NULL), QN_OK);
    assert_int_equal(str.len, 4);
    assert_memory_equal(str.data, "yz\0w", 4);
    assert_int_equal(qn_gguf_get_str(file, qn_gguf_kv_find(file, "a.strs"), 1, &str, NULL), QN_OK);
    assert_int_equal(str.len, 0);
    assert_int_equal(qn_gguf_kv_find(file, "a.none")->count, 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(qn_gguf_get_i64(file, qn_gguf_kv_find(file, "a.i32"), i, &s, NULL), QN_OK);
        assert_true(s == ints[i]);
    }
    assert_int_equal(qn_gguf_get_f64(file, qn_gguf_kv_find(file, "a.f64"), 1, &d, NULL), QN_OK);
    assert_true(d == -1e300);
    assert_int_equal(qn_gguf_n_tensors(file), 5);
    for (size_t i = 0; i < 5; i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        assert_string_equal(t->name, tensors[i].name);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_true(qn_shape_equal(&t->shape, &tensors[i].shape));
        assert_int_equal(t->size_bytes, tensors[i].bytes);
        assert_int_equal(t->file_offset % 128, 0);
        fill(data, tensors[i].bytes, (int)i);
        assert_memory_equal(t->data, data, tensors[i].bytes);
    }
    assert_int_equal(qn_gguf_file_bytes(file) % 128, 0); /* the last tensor is padded too: other readers want that */
    qn_gguf_close(file);
}

/* general.alignment and split.* describe the file they stand in, so copying all leaves them out. */
static void test_copy_leaves_layout(void **state)
{
    (void)state;
    qn_gguf *from = NULL;
    assert_int_equal(qn_gguf_open(CORPUS "good-split-of-one.gguf", NULL, &from, NULL), QN_OK);
    qn_gguf_writer *w = create();
    qn_gguf_write_kvs(w, from, "");
    commit(w);
    qn_gguf_close(from);
    qn_gguf *file = reopen();
    assert_int_equal(qn_gguf_n_kv(file), 2);
    assert_null(qn_gguf_kv_find(file, "split.count"));
    qn_gguf_close(file);

    assert_int_equal(qn_gguf_open(CORPUS "good-alignment-as-u64.gguf", NULL, &from, NULL), QN_OK);
    w = create();
    qn_gguf_write_kvs(w, from, "general.n");
    qn_gguf_write_kv(w, from, qn_gguf_kv_find(from, "general.alignment"));
    commit(w);
    qn_gguf_close(from);
    file = reopen();
    assert_int_equal(qn_gguf_n_kv(file), 2);
    assert_int_equal(qn_gguf_kv_find(file, "general.alignment")->type, QN_GGUF_u32);
    qn_gguf_close(file);
}

typedef void (*misuse_fn)(qn_gguf_writer *w);
static const qn_shape four = {1, {4}};
static void key_twice(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "k", 1);
    qn_gguf_write_str(w, "k", "x");
}
static void key_empty(qn_gguf_writer *w) { qn_gguf_write_u32(w, "", 1); }
static void key_null(qn_gguf_writer *w) { qn_gguf_write_u32(w, NULL, 1); }
static void key_utf8(qn_gguf_writer *w) { qn_gguf_write_u32(w, "k\xff", 1); }
static void string_utf8(qn_gguf_writer *w) { qn_gguf_write_str(w, "text", "ab\xe9"); }
static void string_null(qn_gguf_writer *w) { qn_gguf_write_str(w, "text", NULL); }
static void strings_utf8(qn_gguf_writer *w)
{
    qn_gguf_write_strs(w, "list", (const qn_gguf_str[]){{"ok", 2}, {"\x80", 1}}, 2);
}
static void array_of_strings(qn_gguf_writer *w) { qn_gguf_write_array(w, "list", QN_GGUF_str, "x", 1); }
static void array_huge(qn_gguf_writer *w) { qn_gguf_write_array(w, "list", QN_GGUF_u64, "x", UINT64_MAX); }
static void array_bool(qn_gguf_writer *w) { qn_gguf_write_array(w, "flags", QN_GGUF_bool, (const uint8_t[]){1, 2}, 2); }
static void alignment_odd(qn_gguf_writer *w) { qn_gguf_write_u32(w, "general.alignment", 48); }
static void alignment_type(qn_gguf_writer *w) { qn_gguf_write_u64(w, "general.alignment", 64); }
static void alignment_string(qn_gguf_writer *w) { qn_gguf_write_str(w, "general.alignment", "32"); }
static void tensor_twice(qn_gguf_writer *w)
{
    qn_gguf_declare(w, "t", QN_DTYPE_F32, &four);
    qn_gguf_declare(w, "t", QN_DTYPE_F16, &four);
    qn_gguf_write_data(w, "0123456789abcdef", 16);
}
static void tensor_name(qn_gguf_writer *w) { qn_gguf_declare(w, "t\n", QN_DTYPE_F32, &four); }
static void tensor_rank_0(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_F32, &(qn_shape){0}); }
static void tensor_empty(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_F32, &qn_shape_of(4, 0)); }
static void tensor_ragged(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_Q4_0, &qn_shape_of(2, 33)); }
static void tensor_huge(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_F64, &qn_shape_of(1LL << 60, 4)); }
static void tensor_huge_sum(qn_gguf_writer *w)
{
    qn_gguf_declare(w, "t", QN_DTYPE_F64, &qn_shape_of(1LL << 59));
    qn_gguf_declare(w, "u", QN_DTYPE_F64, &qn_shape_of(1LL << 59));
    qn_gguf_write_data(w, "x", 0);
}
static void tensor_type(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_U8, &four); }
static void data_missing(qn_gguf_writer *w) { qn_gguf_declare(w, "t", QN_DTYPE_F32, &four); }
static void data_short(qn_gguf_writer *w)
{
    qn_gguf_declare(w, "t", QN_DTYPE_F32, &four);
    qn_gguf_write_data(w, "abc", 3);
}
static void data_long(qn_gguf_writer *w)
{
    qn_gguf_declare(w, "t", QN_DTYPE_F32, &four);
    qn_gguf_declare(w, "u", QN_DTYPE_F32, &four);
    qn_gguf_write_data(w, "0123456789abcdefg", 17);
}
static void data_unasked(qn_gguf_writer *w) { qn_gguf_write_data(w, "x", 1); }
static void late_key(qn_gguf_writer *w)
{
    data_short(w);
    qn_gguf_write_u32(w, "late.key", 1);
}
static void late_tensor(qn_gguf_writer *w)
{
    data_short(w);
    qn_gguf_declare(w, "late", QN_DTYPE_F32, &four);
}

static void test_misuse(void **state)
{
    (void)state;
    static const struct {
        misuse_fn fn;
        qn_status status;
        const char *says[2];
    } cases[] = {
        {key_twice, QN_STATUS_invalid, {"\"k\"", "once"}},
        {key_empty, QN_STATUS_invalid, {"nothing", "1 to 65535"}},
        {key_null, QN_STATUS_invalid, {"nothing", "1 to 65535"}},
        {key_utf8, QN_STATUS_invalid, {"UTF-8", "k\\xff"}},
        {string_utf8, QN_STATUS_invalid, {"text", "0xe9"}},
        {string_null, QN_STATUS_invalid, {"text", "UTF-8"}},
        {strings_utf8, QN_STATUS_invalid, {"list", "0x80"}},
        {array_of_strings, QN_STATUS_invalid, {"list", "fixed-size"}},
        {array_huge, QN_STATUS_invalid, {"list", "256 MiB"}},
        {array_bool, QN_STATUS_invalid, {"flags", "found 2"}},
        {alignment_odd, QN_STATUS_invalid, {"general.alignment", "48"}},
        {alignment_type, QN_STATUS_invalid, {"general.alignment", "u64"}},
        {alignment_string, QN_STATUS_invalid, {"general.alignment", "str"}},
        {tensor_twice, QN_STATUS_invalid, {"tensor \"t\"", "once"}},
        {tensor_name, QN_STATUS_invalid, {"tensor \"t", "control"}},
        {tensor_rank_0, QN_STATUS_invalid, {"tensor \"t\"", "1 to 8"}},
        {tensor_empty, QN_STATUS_invalid, {"tensor \"t\"", "[4,0]"}},
        {tensor_ragged, QN_STATUS_invalid, {"[2,33]", "multiple of 32"}},
        {tensor_huge, QN_STATUS_invalid, {"tensor \"t\"", "2^63"}},
        {tensor_huge_sum, QN_STATUS_invalid, {"tensor \"u\"", "2^63"}},
        {tensor_type, QN_STATUS_unsupported, {"tensor \"t\"", "U8"}},
        {data_missing, QN_STATUS_state, {"tensor \"t\"", "expected 16"}},
        {data_short, QN_STATUS_state, {"tensor \"t\"", "found 3"}},
        {data_long, QN_STATUS_invalid, {"tensor \"t\"", "expected 16"}},
        {data_unasked, QN_STATUS_state, {"after the last", "expected none"}},
        {late_key, QN_STATUS_state, {"late.key", "before"}},
        {late_tensor, QN_STATUS_state, {"\"late\"", "before"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_gguf_writer *w = create();
        qn_error err = {0};
        cases[i].fn(w);
        /* errors stick: later ones change nothing */
        if (qn_gguf_writer_status(w, NULL) != QN_OK) qn_gguf_write_u32(w, "", 1);
        const qn_status status = qn_gguf_writer_commit(w, &err);
        if (status != cases[i].status) fail_msg("case %zu: status %s: %s", i, qn_status_name(status), err.text);
        for (int k = 0; k < 2; k++)
            if (!strstr(err.text, cases[i].says[k]))
                fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.text, cases[i].says[k]);
        assert_int_equal(err.status, status);
        assert_int_equal(access(OUT, F_OK), -1); /* nothing half-written appears */
    }
}

static void test_failure_keeps_the_old_file(void **state)
{
    (void)state;
    qn_gguf_writer *w = create();
    qn_gguf_write_str(w, "general.name", "old");
    commit(w);
    assert_int_equal(qn_gguf_writer_create(OUT, &w, NULL), QN_OK);
    data_short(w);
    assert_int_equal(qn_gguf_writer_status(w, NULL), QN_OK);
    qn_gguf_writer_abort(w);
    qn_gguf_writer_abort(NULL);
    assert_int_equal(qn_gguf_writer_create(OUT, &w, NULL), QN_OK);
    data_long(w);
    qn_error err = {0};
    assert_int_equal(qn_gguf_writer_status(w, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "tensor \"t\""));
    assert_int_equal(qn_gguf_writer_commit(w, NULL), QN_STATUS_invalid);
    qn_gguf *file = reopen();
    assert_non_null(qn_gguf_kv_find(file, "general.name"));
    qn_gguf_close(file);
    assert_int_equal(qn_gguf_writer_create("/nowhere/at/all.gguf", &w, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "/nowhere/at/all.gguf"));
}

/* Memory is that of the header: 64 MiB stream through in 64 KiB pieces. */
static void test_bounded_memory(void **state)
{
    (void)state;
    static uint8_t piece[1 << 16];
    qn_metrics m;
    qn_metrics_reset();
    qn_gguf_writer *w = create();
    qn_gguf_declare(w, "large", QN_DTYPE_I8, &qn_shape_of(1024, 1 << 16));
    for (int i = 0; i < 1024; i++) qn_gguf_write_data(w, piece, sizeof piece);
    commit(w);
    qn_metrics_snapshot(&m);
    assert_true(m.peak_bytes < (4u << 20));
    assert_int_equal(m.live_bytes, 0);
    unlink(OUT);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_bytes),        cmocka_unit_test(test_copy_every_value),
        cmocka_unit_test(test_round_trip),         cmocka_unit_test(test_copy_leaves_layout),
        cmocka_unit_test(test_misuse),             cmocka_unit_test(test_failure_keeps_the_old_file),
        cmocka_unit_test(test_bounded_memory),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
