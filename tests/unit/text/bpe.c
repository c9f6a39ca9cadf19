/* SPDX-License-Identifier: MIT */
/* tests/unit/text/bpe.c -- byte-level BPE on vocabularies made here: the merge loop against a naive one that looks for
 * the best pair anew each time; any text back from its ids; invalid UTF-8; the flags of pre-tokenizer rows; long runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shorter.h"
#include "vocab_file.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."

/* 256 letters, then what `more` lists. */
static void begin_bytes(vocab_file *f, const char *model, const char *pre, const char *const *more, size_t n_more)
{
    char letter[4];
    vf_begin(f);
    vf_str(f, KEY "model", model);
    vf_str(f, KEY "pre", pre);
    vf_array(f, KEY "tokens", QN_GGUF_str, 256 + n_more);
    for (int b = 0; b < 256; b++) vf_text(f, vf_byte_letter(b, letter), strlen(vf_byte_letter(b, letter)));
    for (size_t i = 0; i < n_more; i++) vf_text(f, more[i], strlen(more[i]));
}

static qn_tokenizer *finish(vocab_file *f)
{
    qn_tokenizer *tok;
    qn_error err = {0};
    if (vf_open(f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    return tok;
}

static void check(const qn_tokenizer *tok, const char *text, size_t len, const qn_token *want, size_t n_want)
{
    qn_token *ids;
    size_t n;
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n * sizeof *ids);
    qn_free(ids);
}

static void check_round_trip(const qn_tokenizer *tok, const char *text, size_t len)
{
    qn_token *ids;
    char *back;
    size_t n, back_len;
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true}, &ids, &n, NULL), QN_OK);
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &back, &back_len, NULL), QN_OK);
    assert_int_equal(back_len, len);
    assert_memory_equal(back, text, len);
    qn_free(back);
    qn_free(ids);
}

/* ---- merges against the naive loop ---- */

enum { N_RULES = 60, MAX_WORD = 64 };
typedef struct rule {
    int left, right, joined;
} rule;

/* Random rules over the letters a, b, c: each joins two tokens that exist already. */
static qn_tokenizer *random_rules(unsigned seed, rule rules[N_RULES])
{
    static char spelled[N_RULES][2 * MAX_WORD];
    static char merges[N_RULES][4 * MAX_WORD];
    const char *texts[3 + N_RULES] = {"a", "b", "c"}, *more[N_RULES], *list[N_RULES];
    int ids[3 + N_RULES] = {'a', 'b', 'c'}, n = 3, n_more = 0;
    srand(seed);
    for (int i = 0; i < N_RULES; i++) {
        int l, r, known = -1;
        do {
            l = rand() % n;
            r = rand() % n;
        } while (strlen(texts[l]) + strlen(texts[r]) >= MAX_WORD);
        snprintf(spelled[i], sizeof spelled[i], "%s%s", texts[l], texts[r]);
        snprintf(merges[i], sizeof merges[i], "%s %s", texts[l], texts[r]);
        for (int k = 0; k < n; k++)
            if (strcmp(texts[k], spelled[i]) == 0) known = ids[k];
        if (known < 0) {
            known = 256 + n_more;
            more[n_more++] = texts[n] = spelled[i];
            ids[n++] = known;
        }
        rules[i] = (rule){ids[l], ids[r], known};
        list[i] = merges[i];
    }
    vocab_file f;
    begin_bytes(&f, "gpt2", "gpt-2", more, (size_t)n_more);
    vf_strs(&f, KEY "merges", list, N_RULES);
    return finish(&f);
}

static size_t naive(const rule *rules, const char *word, size_t len, qn_token *ids)
{
    size_t n = len;
    for (size_t i = 0; i < len; i++) ids[i] = word[i];
    for (;;) {
        int best = N_RULES;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int r = 0; r < best; r++)
                if (rules[r].left == ids[i] && rules[r].right == ids[i + 1]) {
                    best = r;
                    at = i;
                }
        if (best == N_RULES) return n;
        ids[at] = rules[best].joined;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void merges_as_a_naive_loop_would(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 12; seed++) {
        rule rules[N_RULES];
        qn_tokenizer *tok = random_rules(seed, rules);
        for (int k = 0; k < 400; k++) {
            char word[MAX_WORD];
            qn_token want[MAX_WORD];
            const size_t len = 1 + (size_t)(rand() % (MAX_WORD - 1));
            for (size_t i = 0; i < len; i++) word[i] = (char)('a' + rand() % (k % 2 ? 2 : 3));
            check(tok, word, len, want, naive(rules, word, len, want));
        }
        qn_tokenizer_destroy(tok);
    }
}

/* ---- any text ---- */

static void every_text_comes_back(void **state)
{
    (void)state;
    static const char *const rows[] = {"default",  "gpt-2",   "llama-bpe", "deepseek-llm", "tekken",
                                       "superbpe", "kimi-k2", "chameleon", "bloom"};
    for (size_t r = 0; r < LEN(rows); r++) {
        vocab_file f;
        static const char *const more[] = {"\304\240t", "he"}, *const merges[] = {"\304\240 t", "h e"};
        begin_bytes(&f, "gpt2", rows[r], more, 2);
        vf_strs(&f, KEY "merges", merges, 2);
        qn_tokenizer *tok = finish(&f);
        assert_string_equal(qn_tokenizer_pre(tok), rows[r]);
        char text[4 * 512];
        for (uint32_t first = 0; first < 0x3000; first += 512) { /* every character up to U+2FFF */
            size_t len = 0;
            for (uint32_t cp = first; cp < first + 512; cp++) {
                if (cp < 0x80)
                    text[len++] = (char)cp;
                else if (cp < 0x800)
                    len += (size_t)sprintf(text + len, "%c%c", (char)(0xC0 | cp >> 6), (char)(0x80 | (cp & 63)));
                else
                    len += (size_t)sprintf(text + len, "%c%c%c", (char)(0xE0 | cp >> 12), (char)(0x80 | (cp >> 6 & 63)),
                                           (char)(0x80 | (cp & 63)));
            }
            check_round_trip(tok, text, len);
        }
        check_round_trip(tok, "\xF0\x9F\x9A\x80 the \xF4\x8F\xBF\xBF he\0x", 18);
        check_round_trip(tok, "", 0);
        qn_tokenizer_destroy(tok);
    }
}

/* One U+FFFD for each byte that belongs to no valid sequence. */
static void invalid_utf8_is_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int n_replaced;
        const char *rest;
    } cases[] = {
        {"\x80", 1, ""},         {"\xFF\xFE", 2, ""},     {"\xE2\x96", 2, ""},
        {"\xC0\x80", 2, ""},     {"\xED\xA0\x80", 3, ""}, {"\xF4\x90\x80\x80", 4, ""},
        {"\xF0\x9F\x9A", 3, ""}, {"\xE2\x96z", 2, "z"},   {"\xF8\x88\x80\x80\x80", 5, ""},
    };
    vocab_file f;
    begin_bytes(&f, "gpt2", "gpt-2", NULL, 0);
    vf_strs(&f, KEY "merges", NULL, 0);
    qn_tokenizer *tok = finish(&f);
    for (size_t i = 0; i < LEN(cases); i++) {
        qn_token want[32];
        size_t n = 0;
        for (int k = 0; k < cases[i].n_replaced; k++) {
            want[n++] = 0xEF;
            want[n++] = 0xBF;
            want[n++] = 0xBD;
        }
        for (const char *c = cases[i].rest; *c; c++) want[n++] = *c;
        check(tok, cases[i].bytes, strlen(cases[i].bytes), want, n);
    }
    qn_tokenizer_destroy(tok);
}

/* ---- flags of rows ---- */

static void whole_words(void **state)
{
    (void)state;
    static const char *const more[] = {"th", "the", "he", "\304\240the"}, *const merges[] = {"t h", "h e"};
    static const char *const pres[] = {"llama-bpe", "gpt-2"};
    for (int i = 0; i < 2; i++) {
        vocab_file f;
        begin_bytes(&f, "gpt2", pres[i], more, 4);
        vf_strs(&f, KEY "merges", merges, 2);
        vf_u32(&f, KEY "bos_token_id", 0);
        qn_tokenizer *tok = finish(&f);
        const qn_token whole[] = {257, 259}, merged[] = {256, 'e', ' ', 256, 'e'};
        check(tok, "the the", 7, i ? merged : whole, i ? 5 : 2);
        assert_int_equal(qn_tokenizer_add_bos(tok), !i); /* a row's default */
        qn_tokenizer_destroy(tok);
    }
}

static void bos_by_row_and_file(void **state)
{
    (void)state;
    static const struct {
        const char *pre;
        int said;
        bool adds;
    } cases[] = {
        {"llama-bpe", -1, true}, {"llama-bpe", 0, false}, {"gpt-2", -1, false},    {"gpt-2", 1, true},
        {"gemma4", 0, true},     {"tekken", -1, true},    {"chameleon", -1, true}, {"qwen2", -1, false},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        vocab_file f;
        begin_bytes(&f, "gpt2", cases[i].pre, NULL, 0);
        vf_strs(&f, KEY "merges", NULL, 0);
        vf_u32(&f, KEY "bos_token_id", 7);
        if (cases[i].said >= 0) vf_bool(&f, KEY "add_bos_token", cases[i].said);
        qn_tokenizer *tok = finish(&f);
        qn_token *ids;
        size_t n;
        assert_int_equal(qn_tokenizer_add_bos(tok), cases[i].adds);
        assert_int_equal(qn_tokenize(tok, "", 0, NULL, &ids, &n, NULL), QN_OK);
        assert_int_equal(n, cases[i].adds);
        if (n) assert_int_equal(ids[0], 7);
        qn_free(ids);
        qn_tokenizer_destroy(tok);
    }
}

/* Pieces in plain UTF-8: spaces are U+2581, what no piece covers is its bytes, runs of newlines are looked up whole. */
static void raw_utf8(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<0x0A>", "<0xC3>",        "<0xA9>",         "\342\226\201", "a",
                                         "b",      "\342\226\201a", "\342\226\201ab", "\n",           "\n\n\n"};
    static const char *const merges[] = {"\342\226\201 a", "\342\226\201a b"};
    static const unsigned char types[] = {6, 6, 6, 1, 1, 1, 1, 1, 1, 1};
    vocab_file f;
    vf_begin(&f);
    vf_str(&f, KEY "model", "gemma4");
    vf_strs(&f, KEY "tokens", tokens, LEN(tokens));
    vf_types(&f, types, LEN(types));
    vf_strs(&f, KEY "merges", merges, LEN(merges));
    qn_tokenizer *tok = finish(&f);
    static const qn_token want[] = {4, 7, 3, 6, 8, 1, 2, 9, 5, 8, 8};
    const char *text = "a ab  a\n\303\251\n\n\nb\n\n";
    assert_string_equal(qn_tokenizer_model(tok), "gemma4");
    assert_string_equal(qn_tokenizer_pre(tok), "gemma4");
    check(tok, text, strlen(text), want, LEN(want));
    check_round_trip(tok, text, strlen(text));
    assert_int_equal(qn_tokenizer_nl(tok), 8);
    qn_tokenizer_destroy(tok);
}

static void white_space_dropped(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "B", "<0xC3>", "<0x89>", "\303\251"}, *const merges[] = {
                                                                                                   "a b"};
    for (int lowercase = 0; lowercase < 2; lowercase++) {
        vocab_file f;
        vf_begin(&f);
        vf_str(&f, KEY "model", "whitespace");
        vf_str(&f, KEY "pre", "whitespace");
        vf_strs(&f, KEY "tokens", tokens, LEN(tokens));
        vf_strs(&f, KEY "merges", merges, LEN(merges));
        if (lowercase) vf_bool(&f, KEY "normalizer.lowercase", true);
        qn_tokenizer *tok = finish(&f);
        static const qn_token as_is[] = {2, 0, 3, 0, 1, 4, 5}, lowered[] = {2, 2, 0, 1, 6};
        const char *text = " ab aB\342\200\203a\n b\303\211";
        check(tok, text, strlen(text), lowercase ? lowered : as_is, lowercase ? LEN(lowered) : LEN(as_is));
        qn_tokenizer_destroy(tok);
    }
}

static void merges_may_be_missing_for_kimi(void **state)
{
    (void)state;
    vocab_file f;
    begin_bytes(&f, "gpt2", "kimi-k2", NULL, 0);
    qn_tokenizer *tok = finish(&f);
    check(tok, "ab", 2, (qn_token[]){'a', 'b'}, 2);
    qn_tokenizer_destroy(tok);
}

/* ---- long runs ---- */

static void long_runs(void **state)
{
    (void)state;
    static const char *const more[] = {"aa", "aaaa", "aaaaaaaa", "ab"};
    static const char *const merges[] = {"a a", "aa aa", "aaaa aaaa", "a b"};
    const size_t len = (3u << 20) / SHORTER;
    char *text = malloc(len);
    qn_token *ids;
    size_t n;
    vocab_file f;
    begin_bytes(&f, "gpt2", "llama-bpe", more, LEN(more));
    vf_strs(&f, KEY "merges", merges, LEN(merges));
    vf_bool(&f, KEY "add_bos_token", false);
    qn_tokenizer *tok = finish(&f);
    assert_non_null(text);
    memset(text, 'a', len);
    assert_int_equal(qn_tokenize(tok, text, len, NULL, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, len / 8);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], 258);
    qn_free(ids);
    memset(text, ' ', len);
    assert_int_equal(qn_tokenize(tok, text, len, NULL, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, len);
    qn_free(ids);
    assert_int_equal(qn_tokenize(tok, text, ((size_t)512 << 20) + 1, NULL, &ids, &n, NULL), QN_STATUS_limit);
    free(text);
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_as_a_naive_loop_would), cmocka_unit_test(every_text_comes_back),
        cmocka_unit_test(invalid_utf8_is_replaced),     cmocka_unit_test(whole_words),
        cmocka_unit_test(bos_by_row_and_file),          cmocka_unit_test(raw_utf8),
        cmocka_unit_test(white_space_dropped),          cmocka_unit_test(merges_may_be_missing_for_kimi),
        cmocka_unit_test(long_runs),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
