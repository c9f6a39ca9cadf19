/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sentencepiece.c -- two tiny SentencePiece models (unigram with a normaliser, BPE with byte fall-back)
 * give the ids that SentencePiece itself gives, and the text that it makes of them again (sentencepiece_figures.inc,
 * written by tests/oracle/sentencepiece_figures.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vocab_file.h"
#include "sentencepiece_figures.inc"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."

static qn_tokenizer *open_unigram(void)
{
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    vf_begin(&f);
    vf_str(&f, KEY "model", "t5");
    vf_strs(&f, KEY "tokens", unigram_pieces, LEN(unigram_pieces));
    vf_f32s(&f, KEY "scores", unigram_scores, LEN(unigram_scores));
    vf_types(&f, unigram_types, LEN(unigram_types));
    vf_u8s(&f, KEY "precompiled_charsmap", unigram_charsmap, unigram_charsmap_size);
    vf_bool(&f, KEY "add_space_prefix", true);
    vf_bool(&f, KEY "remove_extra_whitespaces", true);
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    return tok;
}

static qn_tokenizer *open_spm(void)
{
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    vf_begin(&f);
    vf_str(&f, KEY "model", "llama");
    vf_strs(&f, KEY "tokens", spm_pieces, LEN(spm_pieces));
    vf_f32s(&f, KEY "scores", spm_scores, LEN(spm_scores));
    vf_types(&f, spm_types, LEN(spm_types));
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(spm_charsmap_size, 0);
    assert_int_equal(spm_charsmap[0], 0);
    return tok;
}

static void check_ids(const qn_tokenizer *tok, const char *text, size_t len, const char *want, qn_token **ids,
                      size_t *n)
{
    qn_error err = {0};
    if (qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true, .no_special = true}, ids, n, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < *n; i++) {
        char *end;
        const long id = strtol(want, &end, 10);
        if (end == want || (*ids)[i] != id) fail_msg("\"%s\": token %zu is %d, wanted %s", text, i, (*ids)[i], want);
        want = end;
    }
    if (*want) fail_msg("\"%s\": only %zu tokens, wanted also %s", text, *n, want);
}

static void check_back(const qn_tokenizer *tok, const qn_token *ids, size_t n, const char *want, size_t want_len)
{
    size_t len;
    char *text;
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &text, &len, NULL), QN_OK);
    assert_int_equal(len, want_len);
    assert_memory_equal(text, want, len);
    assert_int_equal(text[len], 0);
    qn_free(text);
}

#define CHECK_STRINGS(tok, strings) \
    for (size_t i = 0; i < LEN(strings); i++) { \
        qn_token *ids; \
        size_t n; \
        check_ids(tok, strings[i].text, strings[i].len, strings[i].ids, &ids, &n); \
        if (strings[i].back) check_back(tok, ids, n, strings[i].back, strings[i].back_len); \
        qn_free(ids); \
    }

static void unigram_agrees(void **state)
{
    (void)state;
    qn_tokenizer *tok = open_unigram();
    CHECK_STRINGS(tok, unigram_strings)
    qn_tokenizer_destroy(tok);
}

static void spm_agrees(void **state)
{
    (void)state;
    qn_tokenizer *tok = open_spm();
    CHECK_STRINGS(tok, spm_strings)
    qn_tokenizer_destroy(tok);
}

/* t5 ends a text with eos and begins it with nothing; llama begins it with bos. */
static void ends_are_added(void **state)
{
    (void)state;
    qn_tokenizer *tok[2] = {open_unigram(), open_spm()};
    for (int i = 0; i < 2; i++) {
        qn_token *plain, *whole;
        size_t n_plain, n_whole;
        assert_int_equal(qn_tokenize(tok[i], "the king", 8, &(qn_tokenize_options){.no_bos = true}, &plain, &n_plain,
                                     NULL),
                         QN_OK);
        assert_int_equal(qn_tokenize(tok[i], "the king", 8, NULL, &whole, &n_whole, NULL), QN_OK);
        assert_int_equal(n_whole, n_plain + 1);
        assert_int_equal(whole[i ? 0 : n_plain], i ? qn_tokenizer_bos(tok[i]) : qn_tokenizer_eos(tok[i]));
        assert_memory_equal(whole + i, plain, n_plain * sizeof *plain);
        qn_free(plain);
        qn_free(whole);
        qn_tokenizer_destroy(tok[i]);
    }
}

/* Two megabytes of one letter, and of words: neither joining nor the best path is quadratic. */
static void long_texts(void **state)
{
    (void)state;
    const size_t len = 2u << 20;
    char *text = malloc(len);
    qn_tokenizer *tok[2] = {open_unigram(), open_spm()};
    assert_non_null(text);
    for (int i = 0; i < 4; i++) {
        qn_token *ids;
        char *back;
        size_t n, back_len;
        for (size_t k = 0; k < len; k++) text[k] = i < 2 ? 'a' : "the king "[k % 9];
        assert_int_equal(qn_tokenize(tok[i % 2], text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, NULL),
                         QN_OK);
        assert_int_equal(qn_detokenize(tok[i % 2], ids, n, NULL, &back, &back_len, NULL), QN_OK);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, text, len);
        qn_free(back);
        qn_free(ids);
    }
    free(text);
    qn_tokenizer_destroy(tok[0]);
    qn_tokenizer_destroy(tok[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unigram_agrees),
        cmocka_unit_test(spm_agrees),
        cmocka_unit_test(ends_are_added),
        cmocka_unit_test(long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
