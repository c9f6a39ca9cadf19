/* SPDX-License-Identifier: MIT */
/* tests/unit/text/vocab.c -- vocabularies of each kind, small ones (vocab/) and real ones (shared/vocab). Every string
 * of NAME.inp must give exactly the ids of NAME.out, which another tokenizer wrote, and the ids must give the string
 * back:
 *  - byte for byte, with BPE, SentencePiece and RWKV vocabularies, both from qn_detokenize and from qn_detok token by
 *    token, but for strings of which a piece is unknown;
 *  - with bert, which loses case, accents and spacing, the text must give the same ids again, unknown words included.
 * The witnesses are outside: the programs that trained the small ones (tests/oracle/vocabularies.py), and the .inp and
 * .out files of the llama.cpp project. */
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

#define OURS      QN_TESTS_DIR "/unit/text/vocab"
#define SHARED    QN_SHARED_DIR "/vocab"

static char *read_file(const char *folder, const char *name, const char *suffix, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
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

static qn_tokenizer *open_vocab(const char *folder, const char *name)
{
    char path[512];
    qn_gguf *file;
    qn_tokenizer *tok = NULL;
    qn_error err = {0};
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
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
    const qn_detokenize_options options = {.show_special = true};
    assert_int_equal(qn_detokenize(tok, ids, n, &options, &back, &back_len, NULL), QN_OK);
    if (back_len != len || memcmp(back, text, len) != 0)
        fail_msg("%s, string %d: \"%.*s\" came back as \"%s\"", name, index, (int)len, text, back);

    qn_detok d = {.options = options};
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

static bool has(const qn_token *ids, size_t n, qn_token id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static void check_vocab(const char *folder, const char *name)
{
    size_t inp_size, out_size, n;
    char *inp = read_file(folder, name, ".inp", &inp_size), *out = read_file(folder, name, ".out", &out_size);
    if (!inp && strcmp(folder, SHARED) == 0) {
        printf("skipped: no %s/%s.inp\n", folder, name);
        skip();
    }
    assert_non_null(inp);
    assert_non_null(out);
    qn_tokenizer *tok = open_vocab(folder, name);
    const bool unknown_is_lost = strcmp(qn_tokenizer_model(tok), "t5") == 0;
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
        else if (!unknown_is_lost || !has(ids, n, 2))
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
    X(bert, OURS, "bert") X(bert_cased, OURS, "bert-cased") X(gpt_2, OURS, "gpt-2") X(gpt_4o, OURS, "gpt-4o") \
    X(llama_bpe, OURS, "llama-bpe") X(qwen2, OURS, "qwen2") X(rwkv, OURS, "rwkv") X(spm, OURS, "spm") \
    X(starcoder, OURS, "starcoder") X(unigram, OURS, "unigram") \
    X(real_bert_bge, SHARED, "bert-bge") X(real_deepseek_coder, SHARED, "deepseek-coder") \
    X(real_falcon, SHARED, "falcon") X(real_gpt_2, SHARED, "gpt-2") X(real_llama_bpe, SHARED, "llama-bpe") \
    X(real_llama_spm, SHARED, "llama-spm") X(real_phi_3, SHARED, "phi-3") X(real_starcoder, SHARED, "starcoder")
/* clang-format on */
#define TEST(id, folder, name) \
    static void test_##id(void **state) \
    { \
        (void)state; \
        check_vocab(folder, name); \
    }
VOCABS(TEST)

int main(void)
{
#define ENTRY(id, folder, name) cmocka_unit_test(test_##id),
    const struct CMUnitTest tests[] = {VOCABS(ENTRY)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
