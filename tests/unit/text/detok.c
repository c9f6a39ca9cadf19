/* SPDX-License-Identifier: MIT */
/* tests/unit/text/detok.c -- text token by token: whatever the cuts, what comes out is whole UTF-8 sequences and adds
 * up to the text; broken bytes become U+FFFD; a small buffer loses nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/utf8.h"
#include "vocab_file.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."
#define SPACE  "\342\226\201"

/* SentencePiece: ids 0 to 2 special, 3 to 258 the bytes, then what `more` lists. */
static qn_tokenizer *byte_vocab(const char *const *more, size_t n_more)
{
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    const size_t n = 259 + n_more;
    vf_begin(&f);
    vf_str(&f, KEY "model", "llama");
    vf_array(&f, KEY "tokens", QN_GGUF_str, n);
    vf_text(&f, "<unk>", 5);
    vf_text(&f, "<s>", 3);
    vf_text(&f, "</s>", 4);
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        vf_text(&f, name, 6);
    }
    for (size_t i = 0; i < n_more; i++) vf_text(&f, more[i], strlen(more[i]));
    vf_array(&f, KEY "token_type", QN_GGUF_i32, n);
    for (size_t i = 0; i < n; i++) vf_int(&f, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1, 4);
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    return tok;
}

/* Pushes all ids into buffers of exactly the promised size and returns the text. */
static size_t stream(const qn_tokenizer *tok, const qn_token *ids, size_t n, char *out)
{
    const size_t size = qn_tokenizer_max_piece(tok) + 8;
    qn_detok d = {0};
    size_t len = 0;
    for (size_t i = 0; i <= n; i++) {
        char *buf = malloc(size); /* of its own, so that a sanitizer sees a byte too many */
        const int64_t got = i < n ? qn_detok_push(&d, tok, ids[i], buf, size) : qn_detok_finish(&d, buf, size);
        assert_true(got >= 0 && (size_t)got <= size);
        assert_int_equal(qn__utf8_valid_prefix(buf, (size_t)got), got);
        assert_in_range(d.n_pending, 0, 3);
        memcpy(out + len, buf, (size_t)got);
        len += (size_t)got;
        free(buf);
    }
    out[len] = '\0';
    return len;
}

static void every_cut_of_valid_text(void **state)
{
    (void)state;
    static const char text[] = "a\303\251\342\202\254\360\237\232\200z\364\217\277\277\302\200\340\240\200";
    static const char *const more[] = {"a", "\303\251", "\342\202\254", "\360\237\232\200", "z"};
    qn_tokenizer *tok = byte_vocab(more, LEN(more));
    const size_t len = sizeof text - 1;
    /* bytes up to `cut`, whole characters as far as there are pieces, bytes again */
    for (size_t cut = 0; cut <= len; cut++) {
        qn_token ids[64];
        size_t n = 0;
        char out[256];
        for (size_t i = 0; i < len;) {
            size_t step = 1;
            qn_token id = 3 + (unsigned char)text[i];
            for (int m = 0; i >= cut && m < (int)LEN(more); m++) {
                if (strncmp(text + i, more[m], strlen(more[m])) != 0) continue;
                step = strlen(more[m]);
                id = 259 + m;
            }
            ids[n++] = id;
            i += step;
        }
        assert_int_equal(stream(tok, ids, n, out), len);
        assert_string_equal(out, text);
    }
    qn_tokenizer_destroy(tok);
}

#define R "\357\277\275"
static void broken_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\200", R},
        {"\377a", R "a"},
        {"\360\237\232", R},
        {"\360\237\232a", R "a"},
        {"\342\202\342\202\254", R "\342\202\254"},
        {"\300\200", R R},
        {"\355\240\200", R R R},
        {"\364\220\200\200", R R R R},
        {"\303", R},
        {"\303\303\251", R "\303\251"},
        {"\360\237\360\237\232\200", R "\360\237\232\200"},
        {"a\342\202", "a" R},
        {"\342\202\n", R "\n"},
    };
    static const char *const more[] = {"a"};
    qn_tokenizer *tok = byte_vocab(more, 1);
    for (size_t i = 0; i < LEN(cases); i++) {
        qn_token ids[32];
        char out[256];
        const size_t n = strlen(cases[i].bytes);
        for (size_t k = 0; k < n; k++) ids[k] = 3 + (unsigned char)cases[i].bytes[k];
        stream(tok, ids, n, out);
        assert_string_equal(out, cases[i].text);
        /* all at once, the bytes come as they are */
        char *raw;
        size_t len;
        assert_int_equal(qn_detokenize(tok, ids, n, NULL, &raw, &len, NULL), QN_OK);
        assert_string_equal(raw, cases[i].bytes);
        qn_free(raw);
    }
    qn_tokenizer_destroy(tok);
}

/* A byte-level piece may hold parts of two characters: all 1,024 ways to cut 11 bytes into pieces give the same text.
 */
static void pieces_cut_inside_characters(void **state)
{
    (void)state;
    static const char bytes[] = "\360\237\232\200\342\202\254\303\251x\377";
    static const char want[] = "\360\237\232\200\342\202\254\303\251x" R;
    enum { N = sizeof bytes - 1 };
    qn_token id_of[N + 1][N + 1];
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    int n_ids = 0;
    vf_begin(&f);
    vf_str(&f, KEY "model", "gpt2");
    vf_str(&f, KEY "pre", "gpt-2");
    vf_array(&f, KEY "tokens", QN_GGUF_str, N * (N + 1) / 2);
    for (size_t i = 0; i < N; i++)
        for (size_t j = i + 1; j <= N; j++) {
            char name[4 * N] = "";
            size_t n = 0;
            for (size_t k = i; k < j; k++)
                n += (size_t)sprintf(name + n, "%s", vf_byte_letter((unsigned char)bytes[k], (char[4]){0}));
            vf_text(&f, name, n);
            id_of[i][j] = n_ids++;
        }
    vf_strs(&f, KEY "merges", NULL, 0);
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    for (unsigned cuts = 0; cuts < 1u << (N - 1); cuts++) {
        qn_token ids[N];
        size_t n = 0, begin = 0;
        char out[128];
        for (size_t end = 1; end <= N; end++) {
            if (end < N && !(cuts >> (end - 1) & 1)) continue;
            ids[n++] = id_of[begin][end];
            begin = end;
        }
        stream(tok, ids, n, out);
        assert_string_equal(out, want);
    }
    qn_tokenizer_destroy(tok);
}

static void small_buffers_lose_nothing(void **state)
{
    (void)state;
    static const char *const more[] = {"hello", SPACE "world"};
    qn_tokenizer *tok = byte_vocab(more, 2);
    char buf[64];
    qn_detok d = {0};
    assert_int_equal(qn_detok_push(&d, tok, 259, buf, 4), -1);
    assert_int_equal(qn_detok_push(&d, tok, 3 + 0xF0, buf, sizeof buf), 0);
    assert_int_equal(qn_detok_push(&d, tok, 3 + 0x9F, buf, sizeof buf), 0);
    const qn_detok before = d;
    for (size_t size = 0; size < 8; size++) {
        assert_int_equal(qn_detok_push(&d, tok, 259, buf, size), -1);
        assert_memory_equal(&d, &before, sizeof d);
    }
    assert_int_equal(qn_detok_push(&d, tok, 259, buf, 8), 8); /* U+FFFD and the word */
    assert_memory_equal(buf, R "hello", 8);
    assert_int_equal(qn_detok_push(&d, tok, -1, buf, sizeof buf), -1);
    assert_int_equal(qn_detok_push(&d, tok, 261, buf, sizeof buf), -1);
    assert_int_equal(qn_detok_push(&d, tok, 3 + 0xC3, buf, sizeof buf), 0);
    assert_int_equal(qn_detok_finish(&d, buf, 2), -1);
    assert_int_equal(qn_detok_finish(&d, buf, 3), 3);
    assert_int_equal(qn_detok_finish(&d, buf, 3), 0);
    qn_tokenizer_destroy(tok);
}

static void prefix_and_special(void **state)
{
    (void)state;
    static const char *const more[] = {SPACE "hello", SPACE "world", SPACE};
    qn_tokenizer *tok = byte_vocab(more, 3);
    static const qn_token ids[] = {1, 259, 260, 2};
    static const struct {
        qn_detokenize_options options;
        const char *text;
    } cases[] = {
        {{0}, "hello world"},
        {{.keep_prefix = true}, " hello world"},
        {{.show_special = true}, "<s> hello world</s>"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        char *text, buf[64];
        size_t len, n = 0;
        qn_detok d = {.options = cases[i].options};
        assert_int_equal(qn_detokenize(tok, ids, LEN(ids), &cases[i].options, &text, &len, NULL), QN_OK);
        assert_string_equal(text, cases[i].text);
        for (size_t k = 0; k < LEN(ids); k++) {
            const int64_t got = qn_detok_push(&d, tok, ids[k], buf + n, sizeof buf - n);
            assert_true(got >= 0);
            n += (size_t)got;
        }
        assert_int_equal(n, len);
        assert_memory_equal(buf, text, n);
        qn_free(text);
    }
    char *text;
    size_t len;
    qn_error err = {0};
    assert_int_equal(qn_detokenize(tok, (qn_token[]){259, 262}, 2, NULL, &text, &len, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "262"));
    assert_int_equal(qn_detokenize(tok, NULL, 0, NULL, &text, &len, NULL), QN_OK);
    assert_string_equal(text, "");
    qn_free(text);
    assert_int_equal(qn_detokenize(tok, (qn_token[]){261, 259}, 2, NULL, &text, &len, NULL), QN_OK);
    assert_string_equal(text, " hello"); /* only the first space is the tokenizer's */
    qn_free(text);
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_of_valid_text),      cmocka_unit_test(broken_bytes),
        cmocka_unit_test(pieces_cut_inside_characters), cmocka_unit_test(small_buffers_lose_nothing),
        cmocka_unit_test(prefix_and_special),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
