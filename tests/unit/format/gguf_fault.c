/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_fault.c -- every allocation of opening and of writing fails once: a clean nomem each time,
 * nothing leaked, no file left behind. */
#include "unit/base/failing.h"
#include <quern/gguf.h>
#include <quern/npy.h>
#include <stdio.h>
#include <unistd.h>
#include "unit/format/npy_whole.h"

#define CORPUS   QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf/"
#define OUT      QN_BUILD_DIR "/t_format_gguf_fault.out"
#define SPLIT(n) QN_BUILD_DIR "/t_format_gguf_fault-0000" n "-of-00002.gguf"

static qn_status open_one(const char *path, qn_error *err)
{
    qn_gguf *file = NULL;
    const qn_status status = qn_gguf_open(path, NULL, &file, err);
    if (status == QN_OK) qn_gguf_close(file);
    return status;
}

static qn_status open_values(qn_error *err) { return open_one(CORPUS "good-every-value-big.gguf", err); }
static qn_status open_types(qn_error *err) { return open_one(CORPUS "good-every-type-little.gguf", err); }
static qn_status open_unordered(qn_error *err) { return open_one(CORPUS "good-data-out-of-order.gguf", err); }
static qn_status open_split(qn_error *err) { return open_one(SPLIT("1"), err); }

static qn_status write_part(const char *path, uint32_t no, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    char name[16];
    const qn_status status = qn_gguf_writer_create(path, &w, err);
    if (status != QN_OK) return status;
    qn_gguf_write_u32(w, "split.no", no);
    qn_gguf_write_u32(w, "split.count", 2);
    qn_gguf_write_u32(w, "split.tensors.count", 200);
    qn_gguf_write_strs(w, "list", (const qn_gguf_str[]){{"a", 1}, {"b", 1}}, 2);
    for (int i = 0; i < 100; i++) { /* more than the tables hold at first */
        snprintf(name, sizeof name, "t%u.%d", no, i);
        qn_gguf_declare(w, name, QN_DTYPE_F32, &qn_shape_of(1));
    }
    for (int i = 0; i < 100; i++) qn_gguf_write_data(w, "abcd", 4);
    return qn_gguf_writer_commit(w, err);
}

static qn_status write_gguf(qn_error *err) { return write_part(OUT, 0, err); }

static qn_status copy_gguf(qn_error *err)
{
    qn_gguf *from = NULL;
    qn_gguf_writer *w = NULL;
    qn_status status = qn_gguf_open(CORPUS "good-every-value-big.gguf", NULL, &from, err);
    if (status != QN_OK) return status;
    status = qn_gguf_writer_create(OUT, &w, err);
    if (status == QN_OK) {
        qn_gguf_write_kvs(w, from, "");
        status = qn_gguf_writer_commit(w, err);
    }
    qn_gguf_close(from);
    return status;
}

static qn_status write_npy(qn_error *err)
{
    qn_npy_writer *w = NULL;
    const qn_status status = qn_npy_writer_open(OUT, QN_DTYPE_F32, &qn_shape_of(2), &w, err);
    if (status != QN_OK) return status;
    qn_npy_write(w, (const float[]){1, 2}, 2);
    return qn_npy_writer_commit(w, err);
}

static qn_status read_npy(qn_error *err)
{
    qn_npy npy = {0};
    const qn_status status = qn__npy_read(QN_BUILD_DIR "/t_format_gguf_fault.npy", 100, &npy, err);
    qn__npy_deinit(&npy);
    return status;
}

static void test_each(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_status (*fn)(qn_error *err);
    } cases[] = {
        {"open values", open_values}, {"open types", open_types}, {"open unordered", open_unordered},
        {"open split", open_split},   {"write", write_gguf},      {"copy", copy_gguf},
        {"write npy", write_npy},     {"read npy", read_npy},
    };
    qn_error err = {0};
    assert_int_equal(write_part(SPLIT("1"), 0, &err), QN_OK);
    assert_int_equal(write_part(SPLIT("2"), 1, &err), QN_OK);
    assert_int_equal(write_npy(&err), QN_OK);
    assert_int_equal(rename(OUT, QN_BUILD_DIR "/t_format_gguf_fault.npy"), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        long at = 0, n_nomem = 0;
        for (;; at++) {
            memset(&err, 0, sizeof err);
            unlink(OUT);
            books_open(at);
            const qn_status status = cases[i].fn(&err);
            const bool failed = books.n_failed > 0;
            books_close();
            if (!failed) {
                if (status != QN_OK) fail_msg("%s: %s", cases[i].name, err.text);
                break;
            }
            /* a growing string asked again for less and got it */
            if (status == QN_OK && access(OUT, F_OK) == 0) continue;
            if (status != QN_STATUS_nomem)
                fail_msg("%s, allocation %ld: status %s: %s", cases[i].name, at, qn_status_name(status), err.text);
            n_nomem++;
            assert_int_equal(err.status, QN_STATUS_nomem);
            assert_int_equal(access(OUT, F_OK), -1);
        }
        assert_true(n_nomem >= 2); /* something did fail */
    }
    unlink(OUT);
    unlink(SPLIT("1"));
    unlink(SPLIT("2"));
    unlink(QN_BUILD_DIR "/t_format_gguf_fault.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
