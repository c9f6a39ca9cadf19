/* SPDX-License-Identifier: MIT */
/* tests/unit/format/safetensors.c -- files of the format's own library (tests/oracle/safetensors_files.py wrote them)
 * give the values that went in, and written again give the same bytes; what the writer makes is what that library was
 * seen to load; sharded models open by their index, and by nothing that reaches out of its folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#define FILES QN_TESTS_DIR "/unit/format/safetensors/"
#define OUT   QN_BUILD_DIR "/t_format_safetensors"

static qn_safetensors *open_file(const char *path)
{
    qn_safetensors *file = NULL;
    qn_error err = {0};
    if (qn_safetensors_open(path, NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    return file;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    char *data = malloc(1 << 16);
    *size = fread(data, 1, 1 << 16, f);
    fclose(f);
    return data;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n_a, n_b;
    char *x = read_file(a, &n_a), *y = read_file(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(x, y, n_a);
    free(x);
    free(y);
}

/* Element i as the harness makes it, in the bytes of a little-endian file. Returns how many. */
static size_t value(qn_dtype dtype, int64_t i, uint8_t out[8])
{
    const int64_t v = (7 * i + 3) % 61;
    const float f = (float)(v - 30);
    const double d = (double)(v - 30);
    const size_t n = (size_t)qn_dtype_get(dtype)->block_bytes;
    const qn_dtype_class class_ = qn_dtype_get(dtype)->class_;
    uint64_t bits = (uint64_t)(v - 30);
    uint32_t f_bits;
    memcpy(&f_bits, &f, 4);
    if (class_ == QN_CLASS_boolean)
        bits = (uint64_t)(v % 2);
    else if (dtype == QN_DTYPE_U8)
        bits = (uint64_t)v;
    else if (dtype == QN_DTYPE_F64)
        memcpy(&bits, &d, 8);
    else if (dtype == QN_DTYPE_F32)
        bits = f_bits;
    else if (dtype == QN_DTYPE_BF16)
        bits = f_bits >> 16;
    else if (dtype == QN_DTYPE_F16) { /* whole numbers below 31 are exact; 0 has no exponent */
        const int e = (int)(f_bits >> 23 & 0xff);
        bits = f == 0 ? 0 : (f_bits >> 31) << 15 | (uint64_t)(e - 112) << 10 | (f_bits >> 13 & 0x3ff);
    }
    for (size_t b = 0; b < n; b++) out[b] = (uint8_t)(bits >> 8 * b);
    return n;
}

static void check_values(const qn_safetensors *file, const qn_safetensors_tensor *t)
{
    uint8_t want[8];
    const int64_t numel = qn_shape_numel(&t->shape);
    uint8_t *copy = malloc(t->size_bytes + 1);
    assert_int_equal(qn_safetensors_read(file, t, copy, NULL), QN_OK);
    size_t at = 0;
    for (int64_t i = 0; i < numel; i++) {
        const size_t n = value(t->dtype, i, want);
        if (memcmp((const uint8_t *)t->data + at, want, n) != 0) fail_msg("%s, element %lld", t->name, (long long)i);
        assert_memory_equal(copy + at, want, n); /* on a little-endian machine */
        at += n;
    }
    assert_int_equal(at, t->size_bytes);
    free(copy);
}

static void theirs_loads(void **state)
{
    (void)state;
    qn_safetensors *file = open_file(FILES "theirs.safetensors");
    static const qn_dtype types[] = {QN_DTYPE_BOOL, QN_DTYPE_U8,  QN_DTYPE_I8,  QN_DTYPE_I16, QN_DTYPE_F16,
                                     QN_DTYPE_BF16, QN_DTYPE_I32, QN_DTYPE_F32, QN_DTYPE_F64, QN_DTYPE_I64};
    assert_int_equal(qn_safetensors_n_tensors(file), 33);
    for (size_t i = 0; i < 30; i++) {
        char name[32], lower[8];
        const qn_dtype_info *info = qn_dtype_get(types[i / 3]);
        for (size_t k = 0; k <= strlen(info->name); k++)
            lower[k] = (char)(info->name[k] | (info->name[k] >= 'A' ? 0x20 : 0));
        snprintf(name, sizeof name, "t%02zu.%s", i, lower);
        const qn_safetensors_tensor *t = qn_safetensors_tensor_find(file, name);
        if (!t) fail_msg("no %s", name);
        const qn_shape want = i % 3 == 0 ? qn_shape_of(3, 5) : i % 3 == 1 ? (qn_shape){0} : qn_shape_of(0, 4);
        assert_int_equal(t->dtype, types[i / 3]);
        assert_string_equal(t->type, info->name);
        assert_true(qn_shape_equal(&t->shape, &want));
        assert_int_equal(t->direct, t->dtype != QN_DTYPE_BOOL); /* their writer aligns everything */
        check_values(file, t);
    }
    check_values(file, qn_safetensors_tensor_find(file, "t30.f32"));
    assert_true(qn_shape_equal(&qn_safetensors_tensor_find(file, "t30.f32")->shape, &qn_shape_of(2, 1, 3, 1, 2)));
    check_values(file, qn_safetensors_tensor_find(file, "t31.i8"));
    check_values(file, qn_safetensors_tensor_find(file, "t32.bf16"));
    assert_int_equal(qn_safetensors_n_meta(file), 1);
    const qn_safetensors_meta *m = qn_safetensors_meta_find(file, "format");
    assert_ptr_equal(m, qn_safetensors_meta_get(file, 0));
    assert_string_equal(m->value, "pt \u00e9\n\"\\\x01");
    assert_null(qn_safetensors_meta_find(file, "no"));
    assert_null(qn_safetensors_tensor_find(file, "no"));
    qn_safetensors_close(file);
}

/* What is read from their file and declared in the order of names gives their bytes. */
static void theirs_again(void **state)
{
    (void)state;
    qn_safetensors *file = open_file(FILES "theirs.safetensors");
    qn_safetensors_writer *w;
    qn_error err = {0};
    const size_t n = qn_safetensors_n_tensors(file);
    const qn_safetensors_tensor *by_name[64] = {0};
    for (size_t i = 0; i < n; i++) { /* names are t00 ... t32 */
        const qn_safetensors_tensor *t = qn_safetensors_tensor_get(file, i);
        by_name[atoi(t->name + 1)] = t;
    }
    assert_int_equal(qn_safetensors_writer_create(OUT ".again", &w, &err), QN_OK);
    qn_safetensors_write_meta(w, "format", qn_safetensors_meta_find(file, "format")->value);
    for (size_t i = 0; i < n; i++) qn_safetensors_declare(w, by_name[i]->name, by_name[i]->dtype, &by_name[i]->shape);
    for (size_t i; (i = qn_safetensors_writer_next(w)) < n;)
        for (uint64_t at = 0; at < by_name[i]->size_bytes; at += 3) { /* in small pieces, as a stream comes */
            const uint64_t left = by_name[i]->size_bytes - at;
            qn_safetensors_write_data(w, (const char *)by_name[i]->data + at, left < 3 ? left : 3);
        }
    assert_int_equal(qn_safetensors_writer_status(w, NULL), QN_OK);
    assert_int_equal(access(OUT ".again", F_OK), -1); /* nothing there before the end */
    if (qn_safetensors_writer_commit(w, &err) != QN_OK) fail_msg("%s", err.text);
    qn_safetensors_close(file);
    assert_same_file(OUT ".again", FILES "theirs.safetensors");
    unlink(OUT ".again");
}

static void stream(qn_safetensors_writer *w, const qn_dtype *types, const int64_t *numel, size_t n)
{
    uint8_t bytes[8];
    for (size_t i; (i = qn_safetensors_writer_next(w)) < n;)
        for (int64_t k = 0; k < numel[i]; k++) qn_safetensors_write_data(w, bytes, value(types[i], k, bytes));
}

/* The committed files are those that their library was given to load. */
static void ours_is_what_they_loaded(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_I8,  QN_DTYPE_F64, QN_DTYPE_BF16, QN_DTYPE_BOOL,
                                     QN_DTYPE_F32, QN_DTYPE_F32, QN_DTYPE_F16,  QN_DTYPE_I64};
    static const char *const names[] = {"z", "y", "x\u00e9\u2581\"\\", "m", "f", "s", "e", "a"};
    const qn_shape shapes[] = {qn_shape_of(5),    qn_shape_of(2, 2), qn_shape_of(3),
                               qn_shape_of(4),    qn_shape_of(2, 3), {0},
                               qn_shape_of(0, 2), qn_shape_of(1)};
    int64_t numel[8];
    qn_safetensors_writer *w;
    assert_int_equal(qn_safetensors_writer_create(QN_BUILD_DIR "/ours-mixed.safetensors", &w, NULL), QN_OK);
    qn_safetensors_write_meta(w, "format", "pt");
    qn_safetensors_write_meta(w, "note", "line\n\u2581\a");
    for (size_t i = 0; i < 8; i++) {
        numel[i] = qn_shape_numel(&shapes[i]);
        qn_safetensors_declare(w, names[i], types[i], &shapes[i]);
    }
    stream(w, types, numel, 8);
    assert_int_equal(qn_safetensors_writer_commit(w, NULL), QN_OK);
    assert_int_equal(qn_safetensors_writer_create(QN_BUILD_DIR "/ours-empty.safetensors", &w, NULL), QN_OK);
    assert_int_equal(qn_safetensors_writer_commit(w, NULL), QN_OK);
    assert_same_file(QN_BUILD_DIR "/ours-mixed.safetensors", FILES "ours-mixed.safetensors");
    assert_same_file(QN_BUILD_DIR "/ours-empty.safetensors", FILES "ours-empty.safetensors");

    qn_safetensors *file = open_file(FILES "ours-mixed.safetensors");
    for (size_t i = 0; i < 8; i++) {
        const qn_safetensors_tensor *t = qn_safetensors_tensor_find(file, names[i]);
        assert_non_null(t);
        assert_int_equal(t->direct, t->dtype != QN_DTYPE_BOOL);
        check_values(file, t);
    }
    assert_string_equal(qn_safetensors_meta_find(file, "note")->value, "line\n\u2581\a");
    qn_safetensors_close(file);
}

/* Bytes other than 0 and 1 in a BOOL are read as 1; an unaligned tensor says that it is one. */
static void odd_data(void **state)
{
    (void)state;
    uint8_t copy[4];
    qn_safetensors *file = open_file(QN_TESTS_DIR "/fuzz/corpus/fuzz_safetensors/good-bool.safetensors");
    assert_int_equal(qn_safetensors_read(file, qn_safetensors_tensor_get(file, 0), copy, NULL), QN_OK);
    assert_memory_equal(copy, "\0\1\1\1", 4);
    qn_safetensors_close(file);
    file = open_file(QN_TESTS_DIR "/fuzz/corpus/fuzz_safetensors/good-unaligned.safetensors");
    assert_string_equal(qn_safetensors_tensor_get(file, 0)->name, "b"); /* in the order of the data */
    assert_true(qn_safetensors_tensor_find(file, "b")->direct);
    const qn_safetensors_tensor *a = qn_safetensors_tensor_find(file, "a");
    assert_int_equal(a->direct, (uintptr_t)a->data % 4 == 0);
    qn_safetensors_close(file);
}

/* ---- what the writer refuses ---- */

static void expect_refusal(void (*fn)(qn_safetensors_writer *w), qn_status status, const char *words)
{
    qn_safetensors_writer *w;
    qn_error err = {0}, early = {0};
    write_file(OUT ".kept", "old", 3);
    assert_int_equal(qn_safetensors_writer_create(OUT ".kept", &w, &err), QN_OK);
    fn(w);
    const qn_status before = qn_safetensors_writer_status(w, &early);
    assert_int_equal(qn_safetensors_writer_commit(w, &err), status);
    assert_int_equal(err.status, status);
    if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    if (before != QN_OK) assert_string_equal(early.text, err.text);
    size_t n;
    char *old = read_file(OUT ".kept", &n);
    assert_int_equal(n, 3); /* the file that was there is whole */
    free(old);
    unlink(OUT ".kept");
}

#define REFUSED(name, body) static void name(qn_safetensors_writer *w) body
REFUSED(empty_name, { qn_safetensors_declare(w, "", QN_DTYPE_F32, &qn_shape_of(1)); })
REFUSED(null_name, { qn_safetensors_declare(w, NULL, QN_DTYPE_F32, &qn_shape_of(1)); })
REFUSED(bad_name, { qn_safetensors_declare(w, "a\xff", QN_DTYPE_F32, &qn_shape_of(1)); })
REFUSED(reserved, { qn_safetensors_declare(w, "__metadata__", QN_DTYPE_F32, &qn_shape_of(1)); })
REFUSED(block_type, { qn_safetensors_declare(w, "q", QN_DTYPE_Q4_K, &qn_shape_of(256)); })
REFUSED(overflow, { qn_safetensors_declare(w, "o", QN_DTYPE_F64, &qn_shape_of(INT64_C(1) << 60)); })
REFUSED(negative, { qn_safetensors_declare(w, "n", QN_DTYPE_F32, &qn_shape_of(-1)); })
REFUSED(total, {
    for (int i = 0; i < 9; i++)
        qn_safetensors_declare(w, (char[]){(char)('a' + i), 0}, QN_DTYPE_U8, &qn_shape_of((INT64_C(1) << 60) - 1));
})
REFUSED(twice, {
    qn_safetensors_declare(w, "a", QN_DTYPE_F32, &qn_shape_of(0));
    qn_safetensors_declare(w, "a", QN_DTYPE_I8, &qn_shape_of(0));
})
REFUSED(meta_twice, {
    qn_safetensors_write_meta(w, "k", "1");
    qn_safetensors_write_meta(w, "k", "2");
})
REFUSED(meta_null, { qn_safetensors_write_meta(w, "k", NULL); })
REFUSED(meta_bytes, { qn_safetensors_write_meta(w, "k", "\x80"); })
REFUSED(too_little, {
    qn_safetensors_declare(w, "a", QN_DTYPE_F32, &qn_shape_of(2));
    qn_safetensors_write_data(w, "1234567", 7);
})
REFUSED(too_much, {
    qn_safetensors_declare(w, "a", QN_DTYPE_F32, &qn_shape_of(2));
    qn_safetensors_write_data(w, "123456789", 9);
})
REFUSED(after_the_last, {
    qn_safetensors_declare(w, "a", QN_DTYPE_F32, &qn_shape_of(1));
    qn_safetensors_write_data(w, "1234", 4);
    qn_safetensors_write_data(w, "1", 1);
})
REFUSED(late, {
    (void)qn_safetensors_writer_next(w);
    qn_safetensors_declare(w, "late", QN_DTYPE_F32, &qn_shape_of(1));
    assert_true(qn_safetensors_writer_next(w) == SIZE_MAX); /* a loop over what was to be written ends */
})

static void refusals(void **state)
{
    (void)state;
    expect_refusal(empty_name, QN_STATUS_invalid, "nothing in its name");
    expect_refusal(null_name, QN_STATUS_invalid, "nothing in its name");
    expect_refusal(bad_name, QN_STATUS_invalid, "not UTF-8");
    expect_refusal(reserved, QN_STATUS_invalid, "keeps for itself");
    expect_refusal(block_type, QN_STATUS_unsupported, "tensor \"q\": found type Q4_K");
    expect_refusal(overflow, QN_STATUS_invalid, "fewer than 2^60 bytes");
    expect_refusal(negative, QN_STATUS_invalid, "found the shape [-1]");
    expect_refusal(total, QN_STATUS_invalid, "2^63");
    expect_refusal(twice, QN_STATUS_invalid, "tensor \"a\": declared as number 0 and again as number 1");
    expect_refusal(meta_twice, QN_STATUS_invalid, "__metadata__ \"k\": declared as number 0");
    expect_refusal(meta_null, QN_STATUS_invalid, "no value");
    expect_refusal(meta_bytes, QN_STATUS_invalid, "UTF-8");
    expect_refusal(too_little, QN_STATUS_state, "tensor \"a\": found 7 bytes of data at the end, expected 8");
    expect_refusal(too_much, QN_STATUS_invalid, "found 9 bytes of data or more, expected 8");
    expect_refusal(after_the_last, QN_STATUS_state, "after the last of 1 tensors");
    expect_refusal(late, QN_STATUS_state, "declared after tensor data began");
}

/* No room on the disk: the end says so, and the file that was there stays. */
static void full_disk(void **state)
{
    (void)state;
    struct rlimit old, limit;
    qn_safetensors_writer *w;
    qn_error err = {0};
    static char block[4096];
    write_file(OUT ".full", "old", 3);
    assert_int_equal(qn_safetensors_writer_create(OUT ".full", &w, &err), QN_OK);
    qn_safetensors_declare(w, "big", QN_DTYPE_U8, &qn_shape_of(64 << 20));
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 1 << 20;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < (64 << 20) / 4096; i++) qn_safetensors_write_data(w, block, sizeof block);
    const qn_status early = qn_safetensors_writer_status(w, NULL);
    const qn_status status = qn_safetensors_writer_commit(w, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(early, QN_STATUS_io);
    assert_int_equal(status, QN_STATUS_io);
    assert_non_null(strstr(err.text, OUT ".full"));
    size_t n;
    char *kept = read_file(OUT ".full", &n);
    assert_int_equal(n, 3);
    free(kept);
    unlink(OUT ".full");
}

static void aborted(void **state)
{
    (void)state;
    qn_safetensors_writer *w;
    qn_safetensors_writer_abort(NULL);
    qn_safetensors_close(NULL);
    assert_int_equal(qn_safetensors_writer_create(OUT ".aborted", &w, NULL), QN_OK);
    qn_safetensors_declare(w, "a", QN_DTYPE_F32, &qn_shape_of(1));
    assert_int_equal(qn_safetensors_writer_next(w), 0);
    qn_safetensors_writer_abort(w);
    assert_int_equal(access(OUT ".aborted", F_OK), -1);
}

/* ---- shards ---- */

static void shards(void **state)
{
    (void)state;
    qn_safetensors *file = open_file(FILES "model.safetensors.index.json");
    static const struct {
        const char *name;
        qn_dtype dtype;
        int part;
    } want[] = {{"a.weight", QN_DTYPE_F32, 0},
                {"b.weight", QN_DTYPE_BF16, 0},
                {"c.weight", QN_DTYPE_I64, 1},
                {"c.bias", QN_DTYPE_F16, 1}};
    assert_int_equal(qn_safetensors_n_parts(file), 2);
    assert_int_equal(qn_safetensors_n_tensors(file), 4);
    for (size_t i = 0; i < 4; i++) {
        const qn_safetensors_tensor *t = qn_safetensors_tensor_get(file, i);
        assert_string_equal(t->name, want[i].name);
        assert_ptr_equal(t, qn_safetensors_tensor_find(file, want[i].name));
        assert_int_equal(t->dtype, want[i].dtype);
        assert_int_equal(t->part, want[i].part);
        check_values(file, t);
    }
    assert_int_equal(qn_safetensors_n_meta(file), 1); /* of the first part */
    size_t n_a, n_b;
    free(read_file(FILES "model-00001-of-00002.safetensors", &n_a));
    free(read_file(FILES "model-00002-of-00002.safetensors", &n_b));
    assert_int_equal(qn_safetensors_file_bytes(file), n_a + n_b);
    qn_safetensors_close(file);
}

#define ONE "\"model-00001-of-00002.safetensors\""
#define TWO "\"model-00002-of-00002.safetensors\""
static const struct {
    const char *text;
    qn_status status;
    const char *words;
} bad_indices[] = {
    {"", QN_STATUS_format, "an object"},
    {"[]", QN_STATUS_format, "found '[', expected an object"},
    {"{}", QN_STATUS_format, "weight_map"},
    {"{\"weight_map\":{}}", QN_STATUS_format, "found no tensors"},
    {"{\"weight_map\":[]}", QN_STATUS_format, "an object"},
    {"{\"weight_map\":{\"a\":1}}", QN_STATUS_format, "tensor \"a\", offset 19: found '1', expected a string"},
    {"{\"weight_map\":{\"a\":\"x\"}} x", QN_STATUS_format, "nothing behind"},
    {"{\"weight_map\":{\"a\":\"x\"},\"weight_map\":{}}", QN_STATUS_format, "\"weight_map\" again"},
    {"{\"weight_map\":{\"a\":\"../x\"}}", QN_STATUS_format, "found a slash in the file name \"../x\""},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", QN_STATUS_format, "found a slash"},
    {"{\"weight_map\":{\"a\":\"\\u002fetc\"}}", QN_STATUS_format, "found a slash"},
    {"{\"weight_map\":{\"a\":\"b\\\\c\"}}", QN_STATUS_format, "found a slash"},
    {"{\"weight_map\":{\"a\":\"..\"}}", QN_STATUS_format, "a dot at the start"},
    {"{\"weight_map\":{\"a\":\"x\\u0000y\"}}", QN_STATUS_format, "control character"},
    {"{\"weight_map\":{\"a\":\"\"}}", QN_STATUS_format, "nothing in the file name"},
    {"{\"weight_map\":{\"\":\"x\"}}", QN_STATUS_format, "nothing in its name"},
    {"{\"weight_map\":{\"a\":\"not-there.safetensors\"}}", QN_STATUS_io, "part 1 of 1"},
    {"{\"weight_map\":{\"a.weight\":" ONE ",\"zz\":" ONE "}}", QN_STATUS_format,
     "tensor \"zz\", offset 62: found it in none"},
    {"{\"weight_map\":{\"a.weight\":" ONE ",\"c.bias\":" ONE ",\"c.weight\":" TWO "}}", QN_STATUS_format,
     "found it in model-00002-of-00002.safetensors, expected it in model-00001-of-00002.safetensors"},
    {"{\"weight_map\":{\"a.weight\":" ONE ",\"a.weight\":" ONE "}}", QN_STATUS_format, "each name once"},
    {"{\"weight_map\":{\"\xff\":\"x\"}}", QN_STATUS_format, "offset 16: found byte 0xff, expected UTF-8"},
    {"{\"weight_map\":{\"t00.bool\":\"copy-a.safetensors\",\"t01.bool\":\"copy-b.safetensors\"}}", QN_STATUS_format,
     "each name once"},
};

static void copy_to(const char *from, const char *to)
{
    size_t n;
    char *data = read_file(from, &n);
    write_file(to, data, n);
    free(data);
}

/* A header that ends within an escape: the data behind it would go on with it. */
static void cut_escapes(void **state)
{
    (void)state;
    static const char *const cuts[][2] = {
        {"{\"__metadata__\":{\"a\":\"b\\", "n\"}}"},
        {"{\"__metadata__\":{\"a\":\"b\\u00", "e9\"}}"},
        {"{\"__metadata__\":{\"a\":\"b\\ud83d", "\\ude00\"}}"},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char text[96] = {(char)strlen(cuts[i][0])};
        qn_safetensors *file = NULL;
        qn_error err = {0};
        const int n = snprintf(text + 8, sizeof text - 8, "%s%s", cuts[i][0], cuts[i][1]);
        write_file(OUT ".cut", text, 8 + (size_t)n);
        assert_int_equal(qn_safetensors_open(OUT ".cut", NULL, &file, &err), QN_STATUS_format);
        assert_non_null(strstr(err.text, "offset 31: found '\\x5c', expected a valid escape behind it"));
        assert_null(file);
    }
}

static void bad_shards(void **state)
{
    (void)state;
    static const char *const copies[][2] = {
        {FILES "model-00001-of-00002.safetensors", QN_BUILD_DIR "/model-00001-of-00002.safetensors"},
        {FILES "model-00002-of-00002.safetensors", QN_BUILD_DIR "/model-00002-of-00002.safetensors"},
        {FILES "theirs.safetensors", QN_BUILD_DIR "/copy-a.safetensors"},
        {FILES "theirs.safetensors", QN_BUILD_DIR "/copy-b.safetensors"},
    };
    const char *path = OUT ".index.json";
    for (size_t i = 0; i < 4; i++) copy_to(copies[i][0], copies[i][1]);
    for (size_t i = 0; i < sizeof bad_indices / sizeof *bad_indices; i++) {
        qn_safetensors *file = NULL;
        qn_error err = {0};
        write_file(path, bad_indices[i].text, strlen(bad_indices[i].text));
        const qn_status status = qn_safetensors_open(path, NULL, &file, &err);
        if (status != bad_indices[i].status || !strstr(err.text, bad_indices[i].words))
            fail_msg("%s: found %s, \"%s\"; expected %s, \"%s\"", bad_indices[i].text, qn_status_name(status), err.text,
                     qn_status_name(bad_indices[i].status), bad_indices[i].words);
        assert_null(file);
    }
    static const char good[] =
        "{\"weight_map\":{\"a.weight\":" ONE ",\"c.bias\":\"model-0000\\u0032-of-00002.safetensors\"},\"x\":{}}";
    write_file(path, good, sizeof good - 1); /* names not all that the shards hold; a name spelled with an escape */
    qn_safetensors *file = open_file(path);
    assert_int_equal(qn_safetensors_n_tensors(file), 4);
    qn_safetensors_close(file);
    for (size_t i = 0; i < 4; i++) unlink(copies[i][1]);
    unlink(path);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theirs_loads), cmocka_unit_test(theirs_again), cmocka_unit_test(ours_is_what_they_loaded),
        cmocka_unit_test(odd_data),     cmocka_unit_test(refusals),     cmocka_unit_test(full_disk),
        cmocka_unit_test(aborted),      cmocka_unit_test(shards),       cmocka_unit_test(bad_shards),
        cmocka_unit_test(cut_escapes),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
