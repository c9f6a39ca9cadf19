/* SPDX-License-Identifier: MIT */
/* tests/unit/text/token_trie.c -- masks over a vocabulary of 24,000 tokens (words, runs longer than a slice counts,
 * text in quotes, broken UTF-8): held against accepting each token alone; searches in it; many threads over one
 * grammar. */
#include "../base/failing.h"

#include "text/grammar/table.h"
#include "text/tokenizer/models.h"
#include "vocab_file.h"

#include <pthread.h>
#include <quern/grammar.h>
#include <stdio.h>

enum { N_BYTES = 256, N_MADE = 24000, N_TOKENS = 3 + N_BYTES + N_MADE };
static qn_tokenizer *tok;

static uint32_t next_random(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*x >> 33);
}

/* A token's text, terminated; different for each i. */
static void made(int i, char *out, size_t size)
{
    static const char *const parts[] = {"a",  "the",      "Z",  "9", "_", " ",  "\"",           "\\",
                                        "\n", "\303\251", ", ", "}", ":", "qu", "\342\202\254", "[[",
                                        "]",  "x"};
    uint64_t seed = (uint64_t)i * 77 + 5;
    size_t n = 0;
    out[0] = '\0';
    for (int k = (int)(next_random(&seed) % 6); k >= 0; k--) {
        /* mostly letters, as in a real one */
        const char *part =
            next_random(&seed) % 4 ? parts[next_random(&seed) % 3] : parts[next_random(&seed) % ARRAY_LEN(parts)];
        n += (size_t)snprintf(out + n, size - n, "%s", part);
    }
    if (i % 400 == 0) /* longer than a slice counts */
        for (int k = 0; k < 20 + i / 400 % 20; k++) n += (size_t)snprintf(out + n, size - n, "w");
    for (int k = i + 26 * 26 * 26; k > 0; k /= 26) n += (size_t)snprintf(out + n, size - n, "%c", 'a' + k % 26);
    if (i % 50 == 1) snprintf(out + n, size - n, "\342\202"); /* ends within a character */
}

static int make_tokenizer(void **state)
{
    (void)state;
    vocab_file f;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "gpt2");
    vf_str(&f, "tokenizer.ggml.pre", "default");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, N_TOKENS);
    for (int i = 0; i < 3; i++) vf_text(&f, i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>", i == 0 ? 5 : i == 1 ? 3 : 4);
    for (int i = 0; i < N_BYTES + N_MADE; i++) {
        char text[128] = "", piece[512] = "", letter[4];
        if (i >= N_BYTES) made(i - N_BYTES, text, sizeof text);
        if (i < N_BYTES) strcpy(piece, vf_byte_letter(i, letter));
        for (const char *p = text; *p; p++) strcat(piece, vf_byte_letter((unsigned char)*p, letter));
        vf_text(&f, piece, strlen(piece));
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) vf_int(&f, i < 3 ? 3 : 1, 4);
    vf_array(&f, "tokenizer.ggml.merges", QN_GGUF_str, 0);
    vf_u32(&f, "tokenizer.ggml.eos_token_id", 2);
    qn_error err;
    if (vf_open(&f, &tok, &err) == QN_OK) return 0;
    print_message("%s\n", err.text);
    return -1;
}

static int free_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_destroy(tok);
    return 0;
}

static const char string_gbnf[] = "root ::= string | \"[\" string (\",\" string)* \"]\"\n"
                                  "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\n])* \"\\\"\"\n";
static const char bounded_gbnf[] = "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]{3,30} \"\\\"\" [,}]\n";
static const struct {
    const char *gbnf, *said[6];
} cases[] = {
    {string_gbnf, {"", "[", "[\"", "[\"a\303", "[\"the\\"}},
    {bounded_gbnf,
     {"", "\"", "\"a", "\"the end of it", "\"the end of it all is near, sa", "\"0123456789012345678901234567"}},
    {"root ::= [a-z]+ \"!\"", {"", "a"}},
    {"root ::= [b-y]{2,} [az]? \"!\"", {"", "b", "bcd"}},
    {"root ::= [a-zA-Z0-9_ ]{2,9} [0-9]", {"", "a", "abcdef"}},
    {"root ::= (.{4} \"w\")* \"x\"", {"", "a", "abcd"}},
    {"root ::= [^x]{3} [^y]* | \"xx\" .*", {"", "a", "ab", "abc", "xxa"}},
    {"root ::= [\\u00e0-\\U0010ffff a-zA-Z]* \"9\"", {"", "\342", "\303\251"}},
    {"root ::= [^\\n]{,26} \"\\n\"", {"", "a", "abcdefghijklmnopqrstuvwx"}},
};

static void masks_are_exact(void **state)
{
    (void)state;
    char *bytes = malloc(qn_tokenizer_max_piece(tok) + 8);
    assert_non_null(bytes);
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        qn_grammar *g;
        qn_matcher *m, *each;
        assert_int_equal(qn_grammar_create(cases[c].gbnf, NULL, &g, NULL), QN_OK);
        assert_int_equal(qn_matcher_create(g, tok, &m, NULL), QN_OK);
        assert_int_equal(qn_matcher_create(g, tok, &each, NULL), QN_OK);
        for (size_t s = 0; s < ARRAY_LEN(cases[c].said) && cases[c].said[s]; s++) {
            const char *said = cases[c].said[s];
            const uint32_t *mask;
            qn_matcher_reset(m);
            assert_int_equal(qn_matcher_accept_text(m, said, strlen(said), NULL), QN_OK);
            assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
            for (qn_token t = 3; t < N_TOKENS; t++) {
                const size_t n = qn__token_bytes(tok, t, bytes);
                qn_matcher_reset(each);
                assert_int_equal(qn_matcher_accept_text(each, said, strlen(said), NULL), QN_OK);
                const bool may = qn_matcher_accept_text(each, bytes, n, NULL) == QN_OK;
                if (may != (mask[t / 32] >> t % 32 & 1))
                    fail_msg("%s after \"%s\": token %d \"%.*s\" %s come", cases[c].gbnf, said, t, (int)n, bytes,
                             may ? "can" : "cannot");
            }
            assert_int_equal(mask[0] & 7, qn_matcher_may_end(m) ? 4 : 0);
        }
        qn_matcher_destroy(m);
        qn_matcher_destroy(each);
        qn_grammar_destroy(g);
    }
    free(bytes);
}

/* ---- searches ------------------------------------------------------------------------------------------------- */

static bool count(void *ctx, qn_token id)
{
    (void)id;
    ++*(int *)ctx;
    return true;
}

static void searches(void **state)
{
    (void)state;
    qn_token_trie *t, *again;
    assert_int_equal(qn__token_trie(tok, &t, NULL), QN_OK);
    assert_int_equal(qn__token_trie(tok, &again, NULL), QN_OK);
    assert_ptr_equal(t, again);
    char *bytes = malloc(qn_tokenizer_max_piece(tok) + 8);
    assert_non_null(bytes);
    static const char *const texts[] = {"the", "\"", "w", "thethe", "\303", "nowhere"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const size_t len = strlen(texts[i]);
        int begin = 0, inside = 0, found = 0;
        for (qn_token id = 3; id < N_TOKENS; id++) {
            const size_t n = qn__token_bytes(tok, id, bytes);
            begin += n > len && memcmp(bytes, texts[i], len) == 0;
            bool in = false;
            for (size_t k = 0; k + len < n; k++) in |= memcmp(bytes + k, texts[i], len) == 0;
            inside += in;
        }
        size_t n;
        const qn_token *ids = qn__token_trie_beginning(t, texts[i], len, &n);
        assert_int_equal(n, begin);
        for (size_t k = 0; k < n; k++) {
            qn__token_bytes(tok, ids[k], bytes);
            assert_memory_equal(bytes, texts[i], len);
        }
        assert_true(qn__token_trie_inside(t, texts[i], len, count, &found));
        assert_int_equal(found, inside);
    }
    free(bytes);
}

/* Slices are made, found again, and give way to others, but not while they are used. */
static void slices(void **state)
{
    (void)state;
    qn_token_trie *t;
    qn_token_slice *held[QN_TOKEN_SLICES + 1], *other;
    assert_int_equal(qn__token_trie(tok, &t, NULL), QN_OK);
    for (uint64_t i = 0; i <= QN_TOKEN_SLICES; i++) {
        const uint64_t ascii[2] = {i, UINT64_C(0x07fffffe00000000)};
        assert_true(qn__token_slice_acquire(t, ascii, false, &held[i]));
        assert_int_equal(held[i] != NULL, i < QN_TOKEN_SLICES); /* all are in use */
        if (i > 0) assert_ptr_not_equal(held[i], held[i - 1]);
    }
    const uint64_t first[2] = {0, UINT64_C(0x07fffffe00000000)}, new[2] = {99, 99};
    assert_true(qn__token_slice_acquire(t, first, false, &other));
    assert_ptr_equal(other, held[0]);
    qn__token_slice_release(t, other);
    qn__token_slice_release(t, held[3]);
    assert_true(qn__token_slice_acquire(t, new, true, &other));
    assert_int_equal(other->ascii[0], 99);
    qn__token_slice_release(t, other);
    for (int i = 0; i < QN_TOKEN_SLICES; i++)
        if (i != 3) qn__token_slice_release(t, held[i]);
}

/* Both forms of what is not in a slice are among the cases above. */
static void rests(void **state)
{
    (void)state;
    qn_token_trie *t;
    qn_token_slice *few, *many;
    const uint64_t string[2] = {UINT64_C(0xfffffffb00000000), UINT64_C(0xffffffffefffffff)};
    const uint64_t b_to_y[2] = {0, UINT64_C(0x03fffffc00000000)};
    assert_int_equal(qn__token_trie(tok, &t, NULL), QN_OK);
    assert_true(qn__token_slice_acquire(t, string, true, &few) && qn__token_slice_acquire(t, b_to_y, false, &many));
    assert_true(few->rest.n_ids > 1000 && !few->rest_bits);
    assert_true(many->rest.n_ids == 0 && many->rest_bits);
    qn__token_slice_release(t, few);
    qn__token_slice_release(t, many);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

enum { N_THREADS = 4 };
typedef struct worker {
    const qn_grammar *g;
    uint64_t seed, sum;
} worker;

/* Says strings at random; the sum of all masks follows from the seed alone. */
static void *say(void *arg)
{
    worker *w = arg;
    uint64_t seed = w->seed;
    qn_matcher *m = NULL;
    for (int output = 0; output < 6; output++) {
        if (qn_matcher_create(w->g, tok, &m, NULL) != QN_OK) return NULL;
        for (int i = 0; i < 30; i++) {
            const uint32_t *mask;
            if (qn_matcher_mask(m, &mask, NULL) != QN_OK) return NULL;
            for (int k = 0; k < N_TOKENS / 32; k++) w->sum = w->sum * 31 + mask[k];
            qn_token t;
            do t = 3 + (qn_token)(next_random(&seed) % (N_TOKENS - 3));
            while (!(mask[t / 32] >> t % 32 & 1) && !qn_matcher_must_end(m));
            if (qn_matcher_must_end(m)) break;
            if (qn_matcher_accept(m, t, NULL) != QN_OK) return NULL;
        }
        qn_matcher_destroy(m);
    }
    return w;
}

static void threads(void **state)
{
    (void)state;
    uint64_t sums[2][N_THREADS];
    for (int round = 0; round < 2; round++) { /* one after the other, then together over a new grammar and vocabulary */
        qn_grammar *g;
        pthread_t ids[N_THREADS];
        worker w[N_THREADS];
        free_tokenizer(NULL);
        assert_int_equal(make_tokenizer(NULL), 0);
        assert_int_equal(qn_grammar_create(string_gbnf, NULL, &g, NULL), QN_OK);
        for (int i = 0; i < N_THREADS; i++) {
            w[i] = (worker){.g = g, .seed = (uint64_t)i};
            if (round) assert_int_equal(pthread_create(&ids[i], NULL, say, &w[i]), 0);
            if (!round) assert_ptr_equal(say(&w[i]), &w[i]);
        }
        for (int i = 0; i < N_THREADS; i++) {
            void *said = &w[i];
            if (round) assert_int_equal(pthread_join(ids[i], &said), 0);
            assert_ptr_equal(said, &w[i]);
            sums[round][i] = w[i].sum;
        }
        qn_grammar_destroy(g);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_exact), cmocka_unit_test(searches), cmocka_unit_test(slices),
        cmocka_unit_test(rests),           cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
