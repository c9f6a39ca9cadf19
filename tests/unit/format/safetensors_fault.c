/* SPDX-License-Identifier: MIT */
/* tests/unit/format/safetensors_fault.c -- every allocation of opening and of writing fails once: a clean nomem each
 * time, nothing leaked, no file left behind. */
#include "unit/base/failing.h"
#include <quern/safetensors.h>
#include <stdio.h>
#include <unistd.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_safetensors/"
#define OUT    QN_BUILD_DIR "/t_format_safetensors_fault.out"

static qn_status open_one(const char *path, qn_error *err)
{
    qn_safetensors *file = NULL;
    const qn_status status = qn_safetensors_open(path, NULL, &file, err);
    if (status == QN_OK) qn_safetensors_close(file);
    return status;
}

static qn_status open_types(qn_error *err) { return open_one(CORPUS "good-types.safetensors", err); }
static qn_status open_meta(qn_error *err) { return open_one(CORPUS "good-meta.safetensors", err); }
static qn_status open_shards(qn_error *err)
{
    return open_one(QN_TESTS_DIR "/unit/format/safetensors/model.safetensors.index.json", err);
}

static qn_status write_many(qn_error *err)
{
    qn_safetensors_writer *w = NULL;
    char name[16];
    const qn_status status = qn_safetensors_writer_create(OUT, &w, err);
    if (status != QN_OK) return status;
    for (int i = 0; i < 100; i++) { /* more than the tables hold at first */
        snprintf(name, sizeof name, "k%d", i);
        qn_safetensors_write_meta(w, name, "value");
        qn_safetensors_declare(w, name, i % 2 ? QN_DTYPE_F32 : QN_DTYPE_I64, &qn_shape_of(2));
    }
    for (size_t i; (i = qn_safetensors_writer_next(w)) < 100 && qn_safetensors_writer_status(w, NULL) == QN_OK;)
        qn_safetensors_write_data(w, "0123456789abcdef", i % 2 ? 8 : 16);
    return qn_safetensors_writer_commit(w, err);
}

static void test_each(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_status (*fn)(qn_error *err);
    } cases[] = {{"open types", open_types},
                 {"open metadata", open_meta},
                 {"open shards", open_shards},
                 {"write", write_many}};
    qn_error err = {0};
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
