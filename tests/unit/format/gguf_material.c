/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_material.c -- every .gguf file of the repository, and of the test material beside it: keys,
 * values, tensors as the gguf package reads them (oracle/gguf_inventory.txt, written by gguf_inventory.py), finite
 * numbers, one parse, little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/str.h"
#include <inttypes.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t h, const char *text) { return qn__hash(h, text, strlen(text)); }

static uint64_t hash_value(uint64_t h, const qn_gguf *file, const qn_gguf_kv *kv, uint64_t i)
{
    char text[64];
    int64_t s;
    uint64_t u;
    double d;
    bool b;
    qn_gguf_str str;
    if (qn_gguf_get_str(file, kv, i, &str, NULL) == QN_OK) return qn__hash(qn__hash(h, str.data, str.len), "", 1);
    if (qn_gguf_get_bool(file, kv, i, &b, NULL) == QN_OK)
        snprintf(text, sizeof text, "%d", b);
    else if (qn_gguf_get_i64(file, kv, i, &s, NULL) == QN_OK)
        snprintf(text, sizeof text, "%" PRId64, s);
    else if (qn_gguf_get_u64(file, kv, i, &u, NULL) == QN_OK)
        snprintf(text, sizeof text, "%" PRIu64, u);
    else if (qn_gguf_get_f64(file, kv, i, &d, NULL) == QN_OK)
        snprintf(text, sizeof text, "%.9g", d);
    else
        fail_msg("key %s: no getter reads element %" PRIu64, kv->key, i);
    return qn__hash(hash_text(h, text), "", 1);
}

static uint64_t hash_metadata(const qn_gguf *file)
{
    uint64_t h = QN_HASH_INIT;
    char text[16];
    for (size_t k = 0; k < qn_gguf_n_kv(file); k++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(file, k);
        snprintf(text, sizeof text, "%d", (int)kv->type);
        h = hash_text(qn__hash(hash_text(h, kv->key), "", 1), text);
        for (uint64_t i = 0; i < kv->count; i++) h = hash_value(h, file, kv, i);
    }
    return h;
}

static uint64_t hash_tensors(const qn_gguf *file)
{
    uint64_t h = QN_HASH_INIT;
    char text[256];
    for (size_t k = 0; k < qn_gguf_n_tensors(file); k++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, k);
        int n = snprintf(text, sizeof text, "%d ", qn_dtype_get(t->dtype)->gguf_id);
        for (int d = t->shape.rank - 1; d >= 0; d--)
            n += snprintf(text + n, sizeof text - (size_t)n, "%" PRId64 " ", t->shape.dim[d]);
        snprintf(text + n, sizeof text - (size_t)n, "%" PRIu64 " %" PRIu64 " ", t->file_offset, t->size_bytes);
        h = hash_text(qn__hash(hash_text(h, t->name), "", 1), text);
    }
    return h;
}

static void note(void *ctx, const char *tensor, const char *text)
{
    (void)ctx;
    print_error("%s: %s\n", tensor, text);
}

static void check_file(const char *path, const char *line_rest)
{
    unsigned version, alignment;
    size_t n_kv, n_tensors;
    uint64_t kv_hash, tensor_hash;
    qn_gguf *file = NULL;
    qn_error err = {0};
    qn_metrics before, after;
    assert_int_equal(sscanf(line_rest, "%u %u %zu %zu %" SCNx64 " %" SCNx64, &version, &alignment, &n_kv, &n_tensors,
                            &kv_hash, &tensor_hash),
                     6);
    qn_metrics_snapshot(&before);
    if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.gguf_parses - before.gguf_parses, 1);
    assert_true(after.live_bytes - before.live_bytes < qn_gguf_file_bytes(file) + (64 << 10));
    assert_int_equal(qn_gguf_version(file), version);
    assert_int_equal(qn_gguf_alignment(file), alignment);
    assert_int_equal(qn_gguf_n_kv(file), n_kv);
    assert_int_equal(qn_gguf_n_tensors(file), n_tensors);
    if (hash_metadata(file) != kv_hash) fail_msg("%s: metadata differs", path);
    if (hash_tensors(file) != tensor_hash) fail_msg("%s: tensors differ", path);
    if (qn_gguf_verify(file, note, NULL, &err) != QN_OK) fail_msg("%s: %s", path, err.text);
    qn_gguf_close(file);
}

static void test_material(void **state)
{
    (void)state;
    static const char beside[] = "../shared/";
    char line[512], path[1024];
    int n_ours = 0, n_absent = 0;
    FILE *f = fopen(QN_TESTS_DIR "/oracle/gguf_inventory.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *rest = strchr(line, ' ');
        assert_non_null(rest);
        const bool ours = strncmp(line, beside, strlen(beside)) != 0;
        const char *name = ours ? line : line + strlen(beside);
        snprintf(path, sizeof path, "%s/%.*s", ours ? QN_TESTS_DIR "/.." : QN_SHARED_DIR, (int)(rest - name), name);
        n_ours += ours;
        if (!ours && access(path, R_OK) != 0)
            n_absent++;
        else
            check_file(path, rest);
    }
    fclose(f);
    assert_true(n_ours >= 10);
    if (n_absent > 0) print_message("skipped: %d files are not in %s\n", n_absent, QN_SHARED_DIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_material)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
