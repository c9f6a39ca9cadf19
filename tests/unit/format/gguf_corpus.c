/* SPDX-License-Identifier: MIT */
/* tests/unit/format/gguf_corpus.c -- every file of the seed corpus, by path and from memory: good ones open, each bad
 * one fails with its status and one line that names the key or tensor, the offset and what was expected (the .expect
 * file says which words; tests/fuzz/make_corpus.py writes both). */
#include "corpus.h"
#include <quern/gguf.h>

#define CORPUS QN_TESTS_DIR "/fuzz/corpus/fuzz_gguf"

static int open_both_ways(const char *name, const char *status_name, char *const *words, int n_words)
{
    char path[512];
    size_t size;
    qn_gguf *file = NULL;
    qn_error err = {0};
    snprintf(path, sizeof path, CORPUS "/%s", name);
    qn_status status = qn_gguf_open(path, NULL, &file, &err);
    int bad = check(name, "by path", status_name, words, n_words, status, &err);
    if (status != QN_OK && !strstr(err.text, name)) {
        print_error("%s: \"%s\" does not name the file\n", name, err.text);
        bad++;
    }
    qn_gguf_close(status == QN_OK ? file : NULL);

    char *data = read_file(path, &size);
    status = qn_gguf_open_memory(data, size, NULL, &file, &err);
    bad += check(name, "from memory", status_name, words, n_words, status, &err);
    qn_gguf_close(status == QN_OK ? file : NULL);
    free(data);
    return bad;
}

static void test_corpus(void **state)
{
    (void)state;
    each_file(CORPUS ".expect", open_both_ways, 100, 45);
}

/* Every prefix of a good file is a bad file, or good: it must not matter which. Prefixes that end before the data fail.
 */
static void test_every_prefix(void **state)
{
    (void)state;
    static const char *const names[] = {"good-every-value-little", "good-every-value-big", "good-v3-big",
                                        "good-every-type-little"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[512];
        size_t size;
        snprintf(path, sizeof path, CORPUS "/%s.gguf", names[k]);
        char *data = read_file(path, &size);
        for (size_t n = 0; n <= size; n++) {
            char *prefix = malloc(n ? n : 1);
            memcpy(prefix, data, n);
            qn_gguf *file = NULL;
            qn_error err = {0};
            const qn_status status = qn_gguf_open_memory(prefix, n, NULL, &file, &err);
            if (n < size)
                assert_true(status != QN_OK || n > size - 32); /* only padding may go missing */
            else
                assert_int_equal(status, QN_OK);
            if (status == QN_OK)
                qn_gguf_close(file);
            else
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
    static const uint8_t values[] = {0x00, 0x01, 0x08, 0x09, 0x7f, 0x80, 0xff};
    size_t size;
    char *data = read_file(CORPUS "/good-every-value-little.gguf", &size);
    for (size_t at = 0; at < size; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            const char old = data[at];
            qn_gguf *file = NULL;
            data[at] = (char)values[v];
            if (qn_gguf_open_memory(data, size, NULL, &file, NULL) == QN_OK) {
                for (size_t i = 0; i < qn_gguf_n_kv(file); i++) {
                    const qn_gguf_kv *kv = qn_gguf_kv_get(file, i);
                    assert_ptr_equal(qn_gguf_kv_find(file, kv->key), kv);
                    for (uint64_t e = 0; e < kv->count && kv->elem == QN_GGUF_str; e++) {
                        qn_gguf_str s = {0};
                        assert_int_equal(qn_gguf_get_str(file, kv, e, &s, NULL), QN_OK);
                        assert_true(s.data >= data && s.data + s.len <= data + size);
                    }
                }
                qn_gguf_close(file);
            }
            data[at] = old;
        }
    }
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
