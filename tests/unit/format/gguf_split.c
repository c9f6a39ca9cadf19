/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_split.c -- models in several files: found, read and checked as one, and what is said when they
 * are not whole. (What else can be wrong with the keys of one part is in the corpus.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR QN_BUILD_DIR "/t_format_gguf_split.parts"

/* What a part says of itself; tensors are tN with N floats of value N. */
typedef struct part {
    uint32_t no, count, total;
    int first, n;
} part;

static const char *path_of(int number, int count)
{
    static char path[512];
    snprintf(path, sizeof path, DIR "/model-%05d-of-%05d.gguf", number, count);
    return path;
}

static void write_part(const char *path, const part *p)
{
    qn_gguf_writer *w = NULL;
    qn_error err = {0};
    char name[16];
    if (qn_gguf_writer_create(path, &w, &err) != QN_OK) fail_msg("%s", err.text);
    if (p->no == 0) qn_gguf_write_str(w, "general.name", "in parts");
    if (p->no == 1) qn_gguf_write_u32(w, "general.alignment", 64); /* a part's alignment is its own */
    qn_gguf_write_u32(w, "split.no", p->no);
    qn_gguf_write_u32(w, "split.count", p->count);
    qn_gguf_write_u32(w, "split.tensors.count", p->total);
    for (int i = 0; i < p->n; i++) {
        snprintf(name, sizeof name, "t%d", p->first + i);
        qn_gguf_declare(w, name, QN_DTYPE_F32, &qn_shape_of(p->first + i));
    }
    for (int i = 0; i < p->n; i++) {
        float values[64];
        for (int k = 0; k < p->first + i; k++) values[k] = (float)(p->first + i);
        qn_gguf_write_data(w, values, (size_t)(p->first + i) * 4);
    }
    if (qn_gguf_writer_commit(w, &err) != QN_OK) fail_msg("%s", err.text);
}

/* Three parts with 0, 3 and 2 tensors, as the reference's splitter makes them with the metadata alone in the first. */
static void write_good(void)
{
    static const part parts[] = {{0, 3, 5, 1, 0}, {1, 3, 5, 1, 3}, {2, 3, 5, 4, 2}};
    mkdir(DIR, 0777);
    for (int i = 0; i < 3; i++) write_part(path_of(i + 1, 3), &parts[i]);
}

static qn_status open_status(const char *path, qn_error *err)
{
    qn_gguf *file = NULL;
    const qn_status status = qn_gguf_open(path, NULL, &file, err);
    if (status == QN_OK) qn_gguf_close(file);
    return status;
}

static void expect(const char *path, qn_status status, const char *a, const char *b)
{
    qn_error err = {0};
    const qn_status found = open_status(path, &err);
    if (found != status) fail_msg("found status %s: %s", qn_status_name(found), err.text);
    if (!strstr(err.text, a) || !strstr(err.text, b)) fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err.text, a, b);
}

static void test_good(void **state)
{
    (void)state;
    write_good();
    qn_gguf *file = NULL;
    qn_error err = {0};
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    if (qn_gguf_open(path_of(1, 3), NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.gguf_parses - before.gguf_parses, 1);
    assert_int_equal(qn_gguf_n_parts(file), 3);
    assert_int_equal(qn_gguf_n_tensors(file), 5);
    assert_int_equal(qn_gguf_n_kv(file), 4);
    assert_non_null(strstr(qn_gguf_path(file), "-00001-of-00003.gguf"));
    uint64_t bytes = 0;
    for (int i = 1; i <= 3; i++) {
        struct stat st;
        assert_int_equal(stat(path_of(i, 3), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    assert_int_equal(qn_gguf_file_bytes(file), bytes);
    for (int i = 1; i <= 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        const qn_gguf_tensor *t = qn_gguf_tensor_find(file, name);
        assert_ptr_equal(t, qn_gguf_tensor_get(file, (size_t)i - 1)); /* parts in order */
        assert_int_equal(t->part, i <= 3 ? 1 : 2);
        assert_int_equal(t->file_offset % (i <= 3 ? 64 : 32), 0);
        for (int k = 0; k < i; k++) assert_true(((const float *)t->data)[k] == (float)i);
    }
    qn_gguf_close(file);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.mapped_bytes, before.mapped_bytes);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static bool sum_progress(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;
    assert_true(done >= last[0] && done <= total);
    last[0] = done;
    last[1] = total;
    return true;
}

static bool stop_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx, (void)done, (void)total;
    return false;
}

/* Each part takes its turn, and the callback sees one total. */
static void test_load(void **state)
{
    (void)state;
    write_good();
    qn_gguf *file = NULL;
    uint64_t seen[2] = {0, 0};
    qn_error err = {0};
    assert_int_equal(qn_gguf_open(path_of(1, 3), NULL, &file, NULL), QN_OK);
    assert_int_equal(qn_gguf_load(file, QN_GGUF_lazy, stop_progress, NULL, NULL), QN_OK);
    assert_int_equal(qn_gguf_load(file, QN_GGUF_populate, sum_progress, seen, NULL), QN_OK);
    assert_int_equal(seen[1], 3 * 64 + 2 * 32);
    assert_int_equal(seen[0], seen[1]);
    assert_int_equal(qn_gguf_load(file, QN_GGUF_populate, NULL, NULL, NULL), QN_OK);
    assert_int_equal(qn_gguf_load(file, QN_GGUF_populate, stop_progress, NULL, &err), QN_STATUS_cancelled);
    assert_int_equal(qn_gguf_load(file, (qn_gguf_policy)77, NULL, NULL, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "77"));
    assert_true(qn_gguf_resident_bytes(file) > 0);
    qn_gguf_close(file);
}

static void test_missing(void **state)
{
    (void)state;
    write_good();
    unlink(path_of(3, 3));
    expect(path_of(1, 3), QN_STATUS_io, "part 3 of 3", "model-00003-of-00003.gguf");
    unlink(path_of(2, 3));
    expect(path_of(1, 3), QN_STATUS_io, "part 2 of 3", "model-00002-of-00003.gguf");
    write_good();
    FILE *f = fopen(path_of(2, 3), "wb");
    fputs("GGUF", f);
    fclose(f);
    expect(path_of(1, 3), QN_STATUS_format, "model-00002-of-00003.gguf", "offset 4");
}

static void test_not_the_first(void **state)
{
    (void)state;
    write_good();
    expect(path_of(2, 3), QN_STATUS_format, "split.no", "open the first part, model-00001-of-00003.gguf");
    expect(path_of(3, 3), QN_STATUS_format, "found part index 2", "open the first part, model-00001-of-00003.gguf");
    write_part(path_of(49, 190), &(part){48, 190, 5, 1, 1}); /* every digit in a name */
    expect(path_of(49, 190), QN_STATUS_format, "found part index 48", "open the first part, model-00001-of-00190.gguf");
    unlink(path_of(49, 190));
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"model.gguf",
                                        "-00001-of-00003.gguf",
                                        "model-00001-of-00002.gguf",
                                        "model-00002-of-00003.gguf",
                                        "model-0001-of-00003.gguf",
                                        "model-00001-of-00003.gguf2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        write_good();
        snprintf(path, sizeof path, DIR "/%s", names[i]);
        rename(path_of(1, 3), path);
        if (i == 1) { /* the directory's slash is a name of sorts: only the parts' absence tells */
            unlink(path_of(2, 3));
            assert_int_not_equal(open_status(path, NULL), QN_OK);
        } else {
            expect(path, QN_STATUS_format, "split.count", "expected a file named NAME-00001-of-00003.gguf");
        }
        unlink(path);
    }
}

static void test_parts_that_disagree(void **state)
{
    (void)state;
    static const struct {
        part p;
        const char *a, *b;
    } cases[] = {
        {{2, 3, 5, 1, 3}, "split.no", "found part index 2, expected 1"},
        {{1, 4, 5, 1, 3}, "split.count", "found a count of 4, expected 3"},
        {{1, 3, 5, 1, 2}, "split.tensors.count", "found a count of 5, expected the 4"},
        {{1, 3, 5, 2, 3}, "\"t4\"", "same name as at offset"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_good();
        write_part(path_of(2, 3), &cases[i].p);
        expect(path_of(1, 3), QN_STATUS_format, cases[i].a, cases[i].b);
    }
}

static int remove_all(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++) unlink(path_of(i, 3));
    return rmdir(DIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_load),          cmocka_unit_test(test_missing),
        cmocka_unit_test(test_names), cmocka_unit_test(test_not_the_first), cmocka_unit_test(test_parts_that_disagree),
    };
    return cmocka_run_group_tests(tests, NULL, remove_all);
}
