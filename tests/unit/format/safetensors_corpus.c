/* SPDX-License-Identifier: MIT */
/* tests/unit/format/safetensors_corpus.c -- every file of the seed corpus, by path and from memory: good ones open,
 * each bad one fails with its status and one line that names the tensor, the offset and what was expected (the .expect
 * file says which words; tests/fuzz/make_safetensors_corpus.py writes both). */
#include "corpus.h"
#include <quern/safetensors.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_safetensors"

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
    each_file(CORPUS ".expect", open_every_way, 90, 70);
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
