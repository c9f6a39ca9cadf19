/* SPDX-License-Identifier: MIT */
/* tests/unit/text/vocab.c -- real vocabularies. Every string of shared/vocab/NAME.inp must give exactly the ids of
 * NAME.out, which were written by the models' own tokenizers, and the ids must give the string back:
 *  - byte for byte, with BPE and SentencePiece vocabularies, both from qn_detokenize and from qn_detok token by token;
 *  - with bert, which loses case, accents and spacing, the text must give the same ids again, unknown words included.
 * The witness is outside: the .inp and .out files of the llama.cpp project. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <quern/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATOR "\n__ggml_vocab_test__\n"

static char *read_file(const char *name, const char *suffix, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/vocab/%s%s", QN_SHARED_DIR, name, suffix);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    data[*size] = '\0';
    fclose(f);
    return data;
}

static qn_tokenizer *open_vocab(const char *name)
{
    char path[512];
    qn_gguf *file;
    qn_tokenizer *tok = NULL;
    qn_error err = {0};
    snprintf(path, sizeof path, "%s/vocab/%s.gguf", QN_SHARED_DIR, name);
    if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) fail_msg("%s: %s", path, err.text);
    if (qn_tokenizer_create(file, &tok, &err) != QN_OK) fail_msg("%s: %s", path, err.text);
    qn_gguf_close(file);
    return tok;
}

static void check_ids(const char *name, int index, const char *text, size_t len, const qn_token *ids, size_t n,
                      const char *want)
{
    size_t i = 0;
    for (char *end; *want && *want != '\n'; want = end) {
        const long id = strtol(want, &end, 10);
        if (end == want) break;
        if (i >= n || ids[i] != id)
            fail_msg("%s, string %d \"%.*s\": token %zu is %d, %ld expected", name, index, (int)len, text, i,
                     i < n ? ids[i] : -1, id);
        i++;
    }
    if (i != n) fail_msg("%s, string %d \"%.*s\": %zu tokens, %zu expected", name, index, (int)len, text, n, i);
}

static void check_text_back(const qn_tokenizer *tok, const char *name, int index, const char *text, size_t len,
                            const qn_token *ids, size_t n)
{
    char *back, buf[1024];
    size_t back_len, streamed = 0;
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &back, &back_len, NULL), QN_OK);
    if (back_len != len || memcmp(back, text, len) != 0)
        fail_msg("%s, string %d: \"%.*s\" came back as \"%s\"", name, index, (int)len, text, back);

    qn_detok d = {0};
    for (size_t i = 0; i <= n; i++) {
        const int64_t got =
            i < n ? qn_detok_push(&d, tok, ids[i], buf, sizeof buf) : qn_detok_finish(&d, buf, sizeof buf);
        assert_true(got >= 0 && streamed + (size_t)got <= len);
        assert_memory_equal(buf, text + streamed, (size_t)got);
        streamed += (size_t)got;
    }
    assert_int_equal(streamed, len);
    qn_free(back);
}

static void check_ids_back(const qn_tokenizer *tok, const char *name, int index, const qn_token *ids, size_t n)
{
    char *back;
    size_t back_len, again_n;
    qn_token *again;
    assert_int_equal(qn_detokenize(tok, ids, n, &(qn_detokenize_options){.show_special = true}, &back, &back_len, NULL),
                     QN_OK);
    assert_int_equal(qn_tokenize(tok, back, back_len, &(qn_tokenize_options){.no_bos = true}, &again, &again_n, NULL),
                     QN_OK);
    if (again_n != n || memcmp(again, ids, n * sizeof *ids) != 0)
        fail_msg("%s, string %d: other ids from \"%s\"", name, index, back);
    qn_free(again);
    qn_free(back);
}

static void check_vocab(const char *name)
{
    size_t inp_size, out_size, n;
    char *inp = read_file(name, ".inp", &inp_size), *out = read_file(name, ".out", &out_size);
    assert_non_null(inp);
    assert_non_null(out);
    qn_tokenizer *tok = open_vocab(name);
    const bool words_only = strcmp(qn_tokenizer_model(tok), "bert") == 0;
    const char *line = out;
    int index = 0;

    for (char *text = inp, *next; text < inp + inp_size; text = next, index++) {
        char *end = memmem(text, (size_t)(inp + inp_size - text), SEPARATOR, strlen(SEPARATOR));
        next = end ? end + strlen(SEPARATOR) : inp + inp_size;
        const size_t len = (size_t)((end ? end : inp + inp_size) - text);
        assert_non_null(line);
        qn_token *ids;
        qn_error err = {0};
        if (qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, &err) != QN_OK)
            fail_msg("%s", err.text);
        check_ids(name, index, text, len, ids, n, line);
        if (words_only)
            check_ids_back(tok, name, index, ids, n);
        else
            check_text_back(tok, name, index, text, len, ids, n);
        qn_free(ids);
        line = strchr(line, '\n');
        if (line) line++;
    }
    assert_true(index >= 40);
    assert_true(!line || !*line); /* as many lines as strings */
    printf("%s: %d strings\n", name, index);
    qn_tokenizer_destroy(tok);
    free(inp);
    free(out);
}

/* clang-format off */
#define VOCABS(X) \
    X(bert_bge, "bert-bge") X(deepseek_coder, "deepseek-coder") X(falcon, "falcon") X(gpt_2, "gpt-2") \
    X(llama_bpe, "llama-bpe") X(llama_spm, "llama-spm") X(phi_3, "phi-3") X(starcoder, "starcoder")
/* clang-format on */
#define TEST(id, name) \
    static void test_##id(void **state) \
    { \
        (void)state; \
        check_vocab(name); \
    }
VOCABS(TEST)

int main(void)
{
    size_t size;
    char *probe = read_file("gpt-2", ".inp", &size);
    if (!probe) {
        printf("skipped: no %s/vocab\n", QN_SHARED_DIR);
        return 77;
    }
    free(probe);
#define ENTRY(id, name) cmocka_unit_test(test_##id),
    const struct CMUnitTest tests[] = {VOCABS(ENTRY)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
