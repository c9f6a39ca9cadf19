/* SPDX-License-Identifier: MIT */
/* tests/unit/text/special.c -- special tokens: which are found in text and in which order, white space they swallow,
 * roles and ends of generation by key and by spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vocab_file.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."

typedef struct entry {
    const char *text;
    unsigned char kind;
} entry;

static void begin(vocab_file *f, const char *model, const entry *entries, size_t n)
{
    vf_begin(f);
    vf_str(f, KEY "model", model);
    vf_array(f, KEY "tokens", QN_GGUF_str, n);
    for (size_t i = 0; i < n; i++) vf_text(f, entries[i].text, strlen(entries[i].text));
    vf_array(f, KEY "token_type", QN_GGUF_i32, n);
    for (size_t i = 0; i < n; i++) vf_int(f, entries[i].kind, 4);
}

static qn_tokenizer *finish(vocab_file *f)
{
    qn_tokenizer *tok;
    qn_error err = {0};
    if (vf_open(f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    return tok;
}

/* `want` spells pieces separated by |. */
static void check(const qn_tokenizer *tok, const char *text, bool no_special, const char *want)
{
    qn_token *ids;
    size_t n;
    char got[512] = "";
    assert_int_equal(qn_tokenize(tok, text, strlen(text),
                                 &(qn_tokenize_options){.no_bos = true, .no_special = no_special}, &ids, &n, NULL),
                     QN_OK);
    for (size_t i = 0; i < n; i++) {
        if (i) strcat(got, "|");
        strcat(got, qn_tokenizer_piece(tok, ids[i], NULL));
    }
    assert_string_equal(got, want);
    qn_free(ids);
}

#define SPACE "\342\226\201"
/* clang-format off */
static const entry spm[] = {
    {"<unk>", 2}, {"<s>", 3}, {"</s>", 3}, {SPACE, 1}, {"a", 1}, {"b", 1},     {"<", 1},
    {">", 1},     {"s", 1},   {"/", 1},    {"|", 1},   {"x", 1}, {"<|x|>", 3}, {"<|x|><|x|>", 3},
    {"[U]", 4},   {"a[", 4},  {"[", 1},    {"]", 1},   {"U", 1}, {"\n", 1}, {"UU", 4},
};
/* clang-format on */

static void found_longest_first(void **state)
{
    (void)state;
    vocab_file f;
    begin(&f, "llama", spm, LEN(spm));
    qn_tokenizer *tok = finish(&f);
    check(tok, "a<s>b", false, SPACE "|a|<s>|" SPACE "|b");
    check(tok, "<s>", false, "<s>");
    check(tok, "a<s>b", true, SPACE "|a|<|s|>|b");
    check(tok, "<|x|><|x|><|x|>", false, "<|x|><|x|>|<|x|>");
    /* user-defined pieces always; the longer one first, although the shorter one begins earlier */
    check(tok, "a[U]b", false, SPACE "|a|[U]|" SPACE "|b");
    check(tok, "a[U]b", true, SPACE "|a|[U]|" SPACE "|b");
    check(tok, "a[b", true, "a[|" SPACE "|b");
    check(tok, "<unk>", false, "<unk>");
    check(tok, "", false, "");
    qn_tokenizer_destroy(tok);
}

static void prefix_by_key(void **state)
{
    (void)state;
    vocab_file f;
    begin(&f, "llama", spm, LEN(spm));
    vf_bool(&f, KEY "add_space_prefix", false);
    qn_tokenizer *tok = finish(&f);
    check(tok, "a<s>b a", false, "a|<s>|b|" SPACE "|a");
    qn_tokenizer_destroy(tok);
}

/* A piece may reach into the next word; then words can't be joined one by one. */
static void pieces_across_words(void **state)
{
    (void)state;
    static const entry entries[] = {{"<unk>", 2}, {"<s>", 3},     {"</s>", 3},    {SPACE, 1},        {"a", 1},
                                    {"b", 1},     {SPACE "b", 1}, {"a" SPACE, 1}, {"a" SPACE "b", 1}};
    for (size_t n = 7; n <= LEN(entries); n += 2) {
        vocab_file f;
        begin(&f, "llama", entries, n);
        qn_tokenizer *tok = finish(&f);
        check(tok, "a b a  b", false,
              n == 7 ? SPACE "|a|" SPACE "b|" SPACE "|a|" SPACE "|" SPACE "b"
                     : SPACE "|a" SPACE "b|" SPACE "|a" SPACE "|" SPACE "b");
        qn_tokenizer_destroy(tok);
    }
}

/* Phi-3's special tokens take the white space that follows; jina's mask takes what precedes. */
static void strips_white_space(void **state)
{
    (void)state;
    static const entry jina[] = {{"<unk>", 2}, {"<s>", 3}, {"</s>", 3}, {SPACE, 1}, {"a", 1}, {"<mask>", 3}, {"\n", 1}};
    vocab_file f;
    begin(&f, "llama", spm, LEN(spm));
    vf_str(&f, "general.name", "Phi-3 mini");
    qn_tokenizer *tok = finish(&f);
    check(tok, "<|x|> \n a", false, "<|x|>|" SPACE "|a");
    check(tok, "<|x|> \n<s> a", false, "<|x|>|<s>|" SPACE "|" SPACE "|a");
    check(tok, "a <|x|>", false, SPACE "|a|" SPACE "|<|x|>");
    check(tok, "<|x|>  ", false, "<|x|>");
    qn_tokenizer_destroy(tok);

    begin(&f, "llama", jina, LEN(jina));
    vf_str(&f, KEY "pre", "jina-v2-de");
    tok = finish(&f);
    check(tok, "a \n <mask> a", false, SPACE "|a|<mask>|" SPACE "|" SPACE "|a");
    check(tok, "  <mask>", false, "<mask>");
    qn_tokenizer_destroy(tok);
}

static void roles_by_spelling(void **state)
{
    (void)state;
    static const entry entries[] = {
        {"<unk>", 2},           {"<s>", 3},         {"</s>", 3},         {"a", 1},
        {"<|end_of_text|>", 1}, {"<|eot_id|>", 1},  {"<|eom_id|>", 3},   {"<|fim_pad|>", 3},
        {"<|file_sep|>", 1},    {"<|channel|>", 3}, {"<fim_prefix>", 1}, {"plain", 3},
    };
    vocab_file f;
    begin(&f, "llama", entries, LEN(entries));
    qn_tokenizer *tok = finish(&f);
    static const bool eog[] = {0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0};
    for (int i = 0; i < (int)LEN(entries); i++)
        if (qn_tokenizer_is_eog(tok, i) != eog[i]) fail_msg("\"%s\"", entries[i].text);
    assert_int_equal(qn_tokenizer_eot(tok), 5); /* before <|end_of_text|>, which comes first in the vocabulary */
    assert_int_equal(qn_tokenizer_bos(tok), 1);
    assert_int_equal(qn_tokenizer_eos(tok), 2);
    assert_int_equal(qn_tokenizer_unk(tok), 0);
    assert_int_equal(qn_tokenizer_sep(tok), QN_TOKEN_NONE);
    assert_int_equal(qn_tokenizer_pad(tok), QN_TOKEN_NONE);
    assert_int_equal(qn_tokenizer_kind(tok, 5), QN_TOKEN_control);
    assert_int_equal(qn_tokenizer_kind(tok, 8), QN_TOKEN_control);
    assert_int_equal(qn_tokenizer_kind(tok, 9), QN_TOKEN_user);
    assert_int_equal(qn_tokenizer_kind(tok, 10), QN_TOKEN_control);
    assert_int_equal(qn_tokenizer_kind(tok, 11), QN_TOKEN_control);
    assert_false(qn_tokenizer_is_eog(tok, -1));
    assert_false(qn_tokenizer_is_eog(tok, (qn_token)LEN(entries)));
    check(tok, "<|channel|>", true, "<|channel|>");
    qn_tokenizer_destroy(tok);
}

static void roles_by_key(void **state)
{
    (void)state;
    vocab_file f;
    begin(&f, "llama", spm, LEN(spm));
    vf_u32(&f, KEY "bos_token_id", 4);
    vf_u32(&f, KEY "eos_token_id", 5);
    vf_u32(&f, KEY "eot_token_id", 12);
    vf_u32(&f, KEY "padding_token_id", 0xFFFFFFFFu); /* none */
    vf_u32(&f, KEY "seperator_token_id", 2);
    vf_bool(&f, KEY "add_eos_token", true);
    qn_tokenizer *tok = finish(&f);
    qn_token *ids;
    size_t n;
    assert_int_equal(qn_tokenize(tok, "x", 1, NULL, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, 4);
    assert_int_equal(ids[0], 4);
    assert_int_equal(ids[3], 5);
    qn_free(ids);
    assert_true(qn_tokenizer_add_bos(tok) && qn_tokenizer_add_eos(tok));
    assert_true(qn_tokenizer_is_eog(tok, 5) && qn_tokenizer_is_eog(tok, 12) && qn_tokenizer_is_eog(tok, 2));
    assert_int_equal(qn_tokenizer_pad(tok), QN_TOKEN_NONE);
    assert_int_equal(qn_tokenizer_sep(tok), 2);
    assert_int_equal(qn_tokenizer_nl(tok), 19);
    qn_tokenizer_destroy(tok);
}

/* In the harmony format <|end|> ends a message, not a generation. */
static void end_that_is_none(void **state)
{
    (void)state;
    static const entry harmony[] = {{"<unk>", 2},   {"<s>", 3},        {"x", 1},
                                    {"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}};
    for (size_t n = 4; n <= LEN(harmony); n++) {
        vocab_file f;
        begin(&f, "llama", harmony, n);
        qn_tokenizer *tok = finish(&f);
        assert_int_equal(qn_tokenizer_is_eog(tok, 3), n < LEN(harmony));
        assert_int_equal(qn_tokenizer_kind(tok, 3), n < LEN(harmony) ? QN_TOKEN_control : QN_TOKEN_user);
        qn_tokenizer_destroy(tok);
    }
}

static void lookups(void **state)
{
    (void)state;
    vocab_file f;
    size_t len;
    begin(&f, "llama", spm, LEN(spm));
    qn_tokenizer *tok = finish(&f);
    assert_int_equal(qn_tokenizer_n_tokens(tok), LEN(spm));
    for (int i = 0; i < (int)LEN(spm); i++) {
        const char *piece = qn_tokenizer_piece(tok, i, &len);
        assert_string_equal(piece, spm[i].text);
        assert_int_equal(len, strlen(spm[i].text));
        assert_int_equal(qn_tokenizer_find(tok, piece, len), i);
        assert_true(qn_tokenizer_score(tok, i) == 0.0f);
    }
    assert_int_equal(qn_tokenizer_find(tok, "ab", 2), QN_TOKEN_NONE);
    assert_int_equal(qn_tokenizer_find(tok, "", 0), QN_TOKEN_NONE);
    assert_null(qn_tokenizer_piece(tok, -1, &len));
    assert_null(qn_tokenizer_piece(tok, (qn_token)LEN(spm), &len));
    assert_string_equal(qn_tokenizer_model(tok), "llama");
    qn_tokenizer_destroy(tok);
    qn_tokenizer_destroy(NULL);
}

/* Spans of the text that is not trusted: `plain` has a u under each of their bytes. */
static void check_plain(const qn_tokenizer *tok, const char *text, const char *plain, const char *want)
{
    qn_token *ids;
    qn_span spans[16];
    size_t n, n_spans = 0;
    char got[512] = "";
    for (size_t i = 0; plain[i]; i++) {
        if (plain[i] != 'u') continue;
        if (i && plain[i - 1] == 'u')
            spans[n_spans - 1].end++;
        else
            spans[n_spans++] = (qn_span){i, i + 1};
    }
    const qn_tokenize_options options = {.no_bos = true, .plain = spans, .n_plain = n_spans};
    assert_int_equal(qn_tokenize(tok, text, strlen(text), &options, &ids, &n, NULL), QN_OK);
    for (size_t i = 0; i < n; i++) {
        if (i) strcat(got, "|");
        strcat(got, qn_tokenizer_piece(tok, ids[i], NULL));
    }
    assert_string_equal(got, want);
    qn_free(ids);
}

static void plain_spans(void **state)
{
    (void)state;
    vocab_file f;
    begin(&f, "llama", spm, LEN(spm));
    qn_tokenizer *tok = finish(&f);
    check_plain(tok, "a<|x|>b<|x|>", "...........", SPACE "|a|<|x|>|" SPACE "|b|<|x|>");
    check_plain(tok, "a<|x|>b<|x|>", ".uuuuu.....",
                SPACE "|a|<|"
                      "|"
                      "|x|"
                      "|"
                      "|>|b|<|x|>");
    check_plain(tok, "<|x|><|x|>", "....uu....",
                SPACE "|<|"
                      "|"
                      "|x|"
                      "|"
                      "|>|<|"
                      "|"
                      "|x|"
                      "|"
                      "|>");
    check_plain(tok, "<|x|><|x|>", "....u.....",
                SPACE "|<|"
                      "|"
                      "|x|"
                      "|"
                      "|>|<|x|>");
    check_plain(tok, "<|x|><|x|>", ".....u....",
                "<|x|>|" SPACE "|<|"
                "|"
                "|x|"
                "|"
                "|>");
    check_plain(tok, "a[U]<s>", "uuuuuuu", "a[|" SPACE "|U|]|<|s|>"); /* a user-defined mark is none there */
    check_plain(tok, "a[U]<s>", ".....uu", SPACE "|a|[U]|" SPACE "|<|s|>");
    check_plain(tok, "sUUs", "uuuu", SPACE "|s|UU|" SPACE "|s"); /* one that is text stays */
    qn_token *ids;
    size_t n;
    qn_error err;
    const qn_span bad[][2] = {{{2, 1}, {3, 3}}, {{0, 9}, {9, 9}}, {{1, 3}, {2, 4}}};
    for (size_t i = 0; i < LEN(bad); i++) {
        const qn_tokenize_options options = {.plain = bad[i], .n_plain = 2};
        assert_int_equal(qn_tokenize(tok, "abcd", 4, &options, &ids, &n, &err), QN_STATUS_invalid);
        assert_non_null(strstr(err.text, "spans ascend"));
    }
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_longest_first), cmocka_unit_test(prefix_by_key), cmocka_unit_test(pieces_across_words),
        cmocka_unit_test(strips_white_space),  cmocka_unit_test(roles_by_spelling), cmocka_unit_test(roles_by_key),
        cmocka_unit_test(end_that_is_none),    cmocka_unit_test(lookups),         cmocka_unit_test(plain_spans),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
