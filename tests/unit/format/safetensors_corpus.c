/* SPDX-License-Identifier: MIT */
/* tests/unit/format/safetensors_corpus.c -- every file of the seed corpus, by path and from memory: good ones open,
 * each bad one fails with its status and one line that names the tensor, the offset and what was expected (the .expect
 * file says which words; tests/fuzz/make_safetensors_corpus.py writes both). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_safetensors"

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    char *data = malloc(1 << 16);
    *size = fread(data, 1, 1 << 16, f);
    fclose(f);
    /* Exactly as large as the file, so that a sanitizer sees one byte too far. */
    char *exact = malloc(*size ? *size : 1);
    memcpy(exact, data, *size);
    free(data);
    return exact;
}

/* Returns the number of complaints about one way of opening. */
static int check(const char *name, const char *how, const char *status_name, char *const *words, int n_words,
                 qn_status status, const qn_error *err)
{
    int bad = 0;
    if (strcmp(qn_status_name(status), status_name) != 0) {
        print_error("%s %s: found status %s, expected %s (%s)\n", name, how, qn_status_name(status), status_name,
                    status == QN_OK ? "" : err->text);
        return 1;
    }
    if (status == QN_OK) return 0;
    for (int i = 0; i < n_words; i++) {
        if (strstr(err->text, words[i])) continue;
        print_error("%s %s: \"%s\" does not say \"%s\"\n", name, how, err->text, words[i]);
        bad++;
    }
    if (strchr(err->text, '\n') || strlen(err->text) < 20 || !strstr(err->text, "offset") ||
        !strstr(err->text, "expected")) {
        print_error("%s %s: \"%s\" is not one line with an offset and what was expected\n", name, how, err->text);
        bad++;
    }
    return bad;
}

static int open_every_way(const char *name, const char *status_name, char *const *words, int n_words)
{
    char path[512];
    size_t size;
    qn_safetensors *file = NULL;
    qn_error err = {0};
    snprintf(path, sizeof path, CORPUS "/%s", name);
    qn_status status = qn_safetensors_open(path, NULL, &file, &err);
    int bad = check(name, "by path", status_name, words, n_words, status, &err);
    if (status != QN_OK && !strstr(err.text, name)) {
        print_error("%s: \"%s\" does not name the file\n", name, err.text);
        bad++;
    }
    qn_safetensors_close(status == QN_OK ? file : NULL);

    char *data = read_file(path, &size);
    status = qn_safetensors_open_memory(data, size, NULL, &file, &err);
    bad += check(name, "from memory", status_name, words, n_words, status, &err);
    qn_safetensors_close(status == QN_OK ? file : NULL);

    const bool kept = strncmp(name, "keep-", 5) == 0;
    status = qn_safetensors_open_memory(data, size, &(qn_safetensors_options){.keep_unsupported = true}, &file, &err);
    bad += check(name, "with keep_unsupported", kept ? "ok" : status_name, words, n_words, status, &err);
    if (status == QN_OK && kept) {
        const qn_safetensors_tensor *t = qn_safetensors_tensor_get(file, 0);
        assert_int_equal(t->dtype, QN_DTYPE_COUNT);
        assert_string_equal(t->type, words[0]);
        assert_false(t->direct);
        assert_int_equal(qn_safetensors_read(file, t, data, &err), QN_STATUS_unsupported);
        assert_non_null(strstr(err.text, t->type));
    }
    qn_safetensors_close(status == QN_OK ? file : NULL);
    free(data);
    return bad;
}

static void test_corpus(void **state)
{
    (void)state;
    char line[1024];
    int n_files = 0, n_bad_files = 0, complaints = 0;
    FILE *expect = fopen(CORPUS ".expect", "r");
    assert_non_null(expect);
    while (fgets(line, sizeof line, expect)) {
        char *words[16], *save = NULL;
        int n = 0;
        line[strcspn(line, "\n")] = '\0';
        for (char *w = strtok_r(line, "\t", &save); w && n < 16; w = strtok_r(NULL, "\t", &save)) words[n++] = w;
        assert_true(n >= 2);
        n_files++;
        n_bad_files += strncmp(words[0], "bad-", 4) == 0;
        complaints += open_every_way(words[0], words[1], words + 2, n - 2);
    }
    fclose(expect);
    assert_int_equal(complaints, 0);
    assert_true(n_files > 90);
    assert_true(n_bad_files >= 70);
}

/* A file that ends too early never opens: its data has no padding that could go missing. */
static void test_every_prefix(void **state)
{
    (void)state;
    static const char *const names[] = {"good-types", "good-meta", "good-escapes", "good-empty", "good-more-keys"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[512];
        size_t size;
        snprintf(path, sizeof path, CORPUS "/%s.safetensors", names[k]);
        char *data = read_file(path, &size);
        for (size_t n = 0; n < size; n++) {
            char *prefix = malloc(n ? n : 1);
            memcpy(prefix, data, n);
            qn_safetensors *file = NULL;
            qn_error err = {0};
            assert_int_not_equal(qn_safetensors_open_memory(prefix, n, NULL, &file, &err), QN_OK);
            assert_non_null(strstr(err.text, "expected"));
            free(prefix);
        }
        free(data);
    }
}

/* Each byte of a header replaced by each of a few values: opens or fails, and what opens can be read to the end. */
static void test_every_byte(void **state)
{
    (void)state;
    static const char values[] = "\0\x01 \"\\{}[],:09-e\x7f\x80\xff";
    size_t size, opened = 0;
    char *data = read_file(CORPUS "/good-meta.safetensors", &size), *copy = malloc(size);
    for (size_t at = 0; at < size; at++) {
        for (size_t v = 0; v < sizeof values - 1; v++) {
            const char old = data[at];
            qn_safetensors *file = NULL;
            data[at] = values[v];
            if (qn_safetensors_open_memory(data, size, NULL, &file, NULL) == QN_OK) {
                opened++;
                for (size_t i = 0; i < qn_safetensors_n_tensors(file); i++)
                    assert_int_equal(qn_safetensors_read(file, qn_safetensors_tensor_get(file, i), copy, NULL), QN_OK);
                qn_safetensors_close(file);
            }
            data[at] = old;
        }
    }
    assert_true(opened > 0 && opened < size * (sizeof values - 1));
    free(copy);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
