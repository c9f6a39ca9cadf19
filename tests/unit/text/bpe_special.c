/* SPDX-License-Identifier: MIT */
/* tests/unit/text/bpe_special.c -- special tokens of the caller's in a vocabulary that is trained: where SentencePiece
 * puts them, found where text is trusted, shown by their kind, and refused when they cannot be told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <quern/text.h>

static const char text[] = "the cat sat on the mat and that was that\nthe cat sat on the hat 1234 times\n";
static const qn_special_token good[] = {{"<|im_start|>", QN_TOKEN_control},
                                        {"<|im_end|>", QN_TOKEN_control},
                                        {"<think>", QN_TOKEN_user}};

static qn_status train(const qn_special_token *special, int32_t n, const char *eos, qn_vocab **out, qn_error *err)
{
    const qn_bpe_train_options o = {
        .n_tokens = 300, .whole_text = true, .no_space_prefix = true, .special = special, .n_special = n, .eos = eos};
    return qn_bpe_train(&o, &(qn_gguf_str){text, sizeof text - 1}, 1, out, err);
}

/* The ids and the pieces behind them that sentencepiece 0.2.3 gives with control_symbols and user_defined_symbols:
 * after <unk> <s> </s>, in the order given, before the bytes; the pieces of the text are what they are without. */
static void as_sentencepiece_places_them(void **state)
{
    (void)state;
    qn_vocab *with, *without;
    qn_error err;
    if (train(good, 3, "<|im_end|>", &with, &err) != QN_OK) fail_msg("%s", err.text);
    if (train(NULL, 0, NULL, &without, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(with->pieces[3 + i].data, good[i].text);
        assert_int_equal(with->kinds[3 + i], good[i].kind);
        assert_true(with->scores[3 + i] == 0);
    }
    assert_string_equal(with->pieces[6].data, "<0x00>");
    assert_int_equal(with->eos, 4);
    assert_int_equal(with->bos, 1);
    assert_int_equal(without->eos, 2);
    assert_int_equal(with->n_tokens, without->n_tokens); /* all that were asked for */
    assert_int_equal(with->n_merges, without->n_merges - 3);
    for (int32_t i = 6; i < 6 + 256 + with->n_merges; i++)
        assert_string_equal(with->pieces[i].data, without->pieces[i - 3].data);
    qn_vocab_destroy(with);
    qn_vocab_destroy(without);
}

static void gives(const qn_tokenizer *tok, const char *s, const qn_tokenize_options *o, int n_special, const char *back,
                  const char *shown)
{
    qn_token *ids;
    char *again;
    size_t n, len;
    int found = 0;
    assert_int_equal(qn_tokenize(tok, s, strlen(s), o, &ids, &n, NULL), QN_OK);
    for (size_t i = 0; i < n; i++) found += ids[i] >= 3 && ids[i] < 6;
    assert_int_equal(found, n_special);
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &again, &len, NULL), QN_OK);
    assert_string_equal(again, back);
    qn_free(again);
    assert_int_equal(qn_detokenize(tok, ids, n, &(qn_detokenize_options){.show_special = true}, &again, &len, NULL),
                     QN_OK);
    assert_string_equal(again, shown);
    qn_free(again);
    qn_free(ids);
}

static void found_and_shown(void **state)
{
    (void)state;
    static const char s[] = "<|im_start|>the cat<think>sat<|im_end|>";
    qn_vocab *v;
    qn_tokenizer *tok;
    qn_error err;
    if (train(good, 3, "<|im_end|>", &v, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_vocab_tokenizer(v, &tok, &err), QN_OK);
    gives(tok, s, &(qn_tokenize_options){.no_bos = true}, 3, "the cat<think>sat", s);
    gives(tok, s, &(qn_tokenize_options){.no_bos = true, .no_special = true}, 1, s, s);
    const qn_span plain = {20, sizeof s - 1}; /* the end and <think>, which are text then */
    gives(tok, s, &(qn_tokenize_options){.no_bos = true, .plain = &plain, .n_plain = 1}, 1, s + 12, s);
    assert_int_equal(qn_tokenizer_eos(tok), 4);
    assert_true(qn_tokenizer_is_eog(tok, 4));
    assert_true(qn_tokenizer_is_eog(tok, 2)); /* </s> ends, too */
    assert_false(qn_tokenizer_is_eog(tok, 3));
    qn_tokenizer_destroy(tok);
    qn_vocab_destroy(v);
}

static void refused(void **state)
{
    (void)state;
    static const char long_one[] = "<0123456789012345678901234567890123456789012345678901234567890123>";
    static const struct {
        qn_special_token special[2];
        int32_t n;
        const char *eos, *message;
    } cases[] = {
        {{{"<a>", QN_TOKEN_control}, {"<a>", QN_TOKEN_user}}, 2, NULL, "\"<a>\" is there twice"},
        {{{"", QN_TOKEN_control}}, 1, NULL, "special token 0 is empty"},
        {{{NULL, QN_TOKEN_control}}, 1, NULL, "special token 0 is empty"},
        {{{"<a b>", QN_TOKEN_control}}, 1, NULL, "white space"},
        {{{"<\xff>", QN_TOKEN_control}}, 1, NULL, "no UTF-8"},
        {{{"</s>", QN_TOKEN_control}}, 1, NULL, "every vocabulary has"},
        {{{"<0x41>", QN_TOKEN_control}}, 1, NULL, "every vocabulary has"},
        {{{long_one, QN_TOKEN_control}}, 1, NULL, "more than 64 bytes"},
        {{{"<a>", QN_TOKEN_normal}}, 1, NULL, "kind 1"},
        {{{"<a>", QN_TOKEN_control}}, 1, "<b>", "\"<b>\", is no special token"},
        {{{"<a>", QN_TOKEN_control}}, 0, "</s>", "is no special token"},
        {{{"t", QN_TOKEN_control}}, 1, NULL, "the text has this as a piece"},
        {{{"<a>", QN_TOKEN_control}}, 2000, NULL, "at most 1024"},
        {{{"<a>", QN_TOKEN_control}}, -1, NULL, "at most 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_vocab *v = NULL;
        qn_error err;
        assert_int_equal(train(cases[i].special, cases[i].n, cases[i].eos, &v, &err), QN_STATUS_invalid);
        if (!strstr(err.text, cases[i].message)) fail_msg("\"%s\" has no \"%s\"", err.text, cases[i].message);
        assert_null(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_sentencepiece_places_them),
                                       cmocka_unit_test(found_and_shown), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
