/* SPDX-License-Identifier: MIT */
/* tests/unit/text/wordpiece.c -- WordPiece: cleaning, accents, case, CJK, punctuation and covering agree with the
 * models' own tokenizer (wordpiece_figures.inc, written by tests/oracle/wordpiece.py), for an uncased and a cased
 * vocabulary. Two things can't be compared there: that tokenizer gives up on words over 100 characters, by a setting
 * that GGUF files don't carry, and it leaves a lone apostrophe between its spaces, where the rule here is llama.cpp's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vocab_file.h"
#include "wordpiece_figures.inc"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."

static qn_tokenizer *open_bert(bool cased)
{
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    unsigned char types[LEN(pieces)];
    for (size_t i = 0; i < LEN(pieces); i++) types[i] = i < n_special ? QN_TOKEN_control : QN_TOKEN_normal;
    vf_begin(&f);
    vf_str(&f, KEY "model", "bert");
    vf_strs(&f, KEY "tokens", pieces, LEN(pieces));
    vf_types(&f, types, LEN(pieces));
    vf_u32(&f, KEY "unknown_token_id", 1);
    vf_u32(&f, KEY "cls_token_id", 2);
    vf_u32(&f, KEY "seperator_token_id", 3);
    if (cased) vf_bool(&f, KEY "normalizer.lowercase", false);
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    return tok;
}

static size_t parse_ids(const char *list, qn_token *ids, size_t max)
{
    size_t n = 0;
    for (char *end; *list; list = end) {
        const long id = strtol(list, &end, 10);
        if (end == list) break;
        assert_true(n < max);
        ids[n++] = (qn_token)id;
    }
    return n;
}

static void check(const qn_tokenizer *tok, const char *text, size_t len, const char *list)
{
    qn_token want[128], *ids;
    size_t n;
    const size_t n_want = parse_ids(list, want, LEN(want));
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n,
                                 NULL),
                     QN_OK);
    if (n != n_want) fail_msg("\"%s\": %zu tokens, %s expected", text, n, list);
    for (size_t i = 0; i < n; i++)
        if (ids[i] != want[i]) fail_msg("\"%s\": token %zu is %d, %s expected", text, i, ids[i], list);
    qn_free(ids);
}

static void agrees(void **state)
{
    (void)state;
    qn_tokenizer *uncased = open_bert(false), *cased = open_bert(true);
    for (size_t i = 0; i < LEN(strings); i++) {
        check(uncased, strings[i].text, strings[i].len, strings[i].uncased);
        check(cased, strings[i].text, strings[i].len, strings[i].cased);
    }
    qn_tokenizer_destroy(uncased);
    qn_tokenizer_destroy(cased);
}

static void check_text(const qn_tokenizer *tok, const qn_token *ids, size_t n, const qn_detokenize_options *options,
                       const char *want)
{
    char *text;
    size_t len;
    assert_int_equal(qn_detokenize(tok, ids, n, options, &text, &len, NULL), QN_OK);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    qn_free(text);
}

static void decodes(void **state)
{
    (void)state;
    qn_tokenizer *tok = open_bert(false);
    qn_token ids[16];
    for (size_t i = 0; i < LEN(decoded); i++)
        check_text(tok, ids, parse_ids(decoded[i].ids, ids, LEN(ids)), NULL, decoded[i].text);

    static const struct {
        const char *text, *back;
    } apostrophes[] = {
        {"it's a", "it's a"},     {"don't", "don't"}, {"he're x", "he're x"},
        {"the ' the", "the'the"}, {"' a", "' a"},     {"a '", "a '"},
    };
    for (size_t i = 0; i < LEN(apostrophes); i++) {
        qn_token *got;
        size_t n;
        assert_int_equal(qn_tokenize(tok, apostrophes[i].text, strlen(apostrophes[i].text), NULL, &got, &n, NULL),
                         QN_OK);
        check_text(tok, got, n, NULL, apostrophes[i].back);
        qn_free(got);
    }
    const qn_token words[] = {2, 6, 7, 1, 3}; /* [CLS] hello world [UNK] [SEP] */
    check_text(tok, words, 5, NULL, "hello world");
    check_text(tok, words, 5, &(qn_detokenize_options){.keep_prefix = true}, " hello world");
    check_text(tok, words, 5, &(qn_detokenize_options){.show_special = true}, "[CLS] hello world[UNK][SEP]");
    qn_tokenizer_destroy(tok);
}

/* Which pieces that begin with an apostrophe lose the space before it. */
static void closed_up(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *text;
    } rows[] = {
        {"\342\226\201's", "a's"},    {"\342\226\201'm", "a'm"},    {"\342\226\201're", "a're"},
        {"\342\226\201've", "a've"},  {"\342\226\201'd", "a 'd"},   {"\342\226\201'r", "a 'r"},
        {"\342\226\201'va", "a 'va"}, {"\342\226\201'te", "a 'te"}, {"\342\226\201'", "a '"},
    };
    enum { FIRST = 5 };
    const char *names[FIRST + LEN(rows)] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\342\226\201a"};
    unsigned char types[LEN(names)];
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    for (size_t i = 0; i < LEN(rows); i++) names[FIRST + i] = rows[i].piece;
    for (size_t i = 0; i < LEN(names); i++) types[i] = i < 4 ? QN_TOKEN_control : QN_TOKEN_normal;
    vf_begin(&f);
    vf_str(&f, KEY "model", "bert");
    vf_u32(&f, KEY "unknown_token_id", 1);
    vf_u32(&f, KEY "cls_token_id", 2);
    vf_u32(&f, KEY "seperator_token_id", 3);
    vf_strs(&f, KEY "tokens", names, LEN(names));
    vf_types(&f, types, LEN(names));
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < LEN(rows); i++)
        check_text(tok, (qn_token[]){FIRST - 1, (qn_token)(FIRST + i)}, 2, NULL, rows[i].text);
    qn_tokenizer_destroy(tok);
}

static void ends_and_special(void **state)
{
    (void)state;
    qn_tokenizer *tok = open_bert(false);
    /* clang-format off */
    static const struct { const char *text; qn_tokenize_options options; qn_token ids[8]; size_t n; } cases[] = {
        {"hello",          {0},                                  {2, 6, 3},    3},
        {"",               {0},                                  {2, 3},       2},
        {"hello",          {.no_bos = true},                     {6},          1},
        {"hello[SEP]the",  {.no_bos = true},                     {6, 3, 5},    3},
        {"hello [MASK].",  {0},                                  {2, 6, 4, 19, 3}, 5},
        {"a[PAD]",         {.no_bos = true, .no_special = true}, {10, 1, 1, 1}, 4},
    };
    /* clang-format on */
    for (size_t i = 0; i < LEN(cases); i++) {
        qn_token *ids;
        size_t n;
        assert_int_equal(qn_tokenize(tok, cases[i].text, strlen(cases[i].text), &cases[i].options, &ids, &n, NULL),
                         QN_OK);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(ids, cases[i].ids, n * sizeof *ids);
        qn_free(ids);
    }
    assert_int_equal(qn_tokenizer_bos(tok), 2);
    assert_int_equal(qn_tokenizer_sep(tok), 3);
    assert_int_equal(qn_tokenizer_unk(tok), 1);
    assert_string_equal(qn_tokenizer_pre(tok), "");
    qn_tokenizer_destroy(tok);
}

/* A word of a million characters: covered or unknown, in linear time. */
static void long_words(void **state)
{
    (void)state;
    qn_tokenizer *tok = open_bert(false);
    const size_t len = 1 << 20;
    char *text = malloc(len);
    qn_token *ids;
    size_t n;
    assert_non_null(text);
    memset(text, 'e', len);
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, len);
    qn_free(ids);
    text[len - 1] = 'q';
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 1);
    qn_free(ids);
    free(text);
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees),           cmocka_unit_test(decodes),    cmocka_unit_test(closed_up),
        cmocka_unit_test(ends_and_special), cmocka_unit_test(long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
