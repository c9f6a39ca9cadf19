/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sampler_dry.c -- DRY's breakers against trained vocabularies (vocab/): which tokens break, and after
 * which tails. The penalties themselves are checked by the vectors of sampler.c. */
#include "sampler_common.h"
#include "text/sampler/sampler.h"
#include "unit/base/failing.h"

#include <stdio.h>

static const char *const vocabularies[] = {"gpt-2", "spm", "llama-bpe", "bert", "unigram", "rwkv"};

static qn_tokenizer *load(const char *name)
{
    char path[512];
    qn_error err = {0};
    qn_gguf *file;
    qn_tokenizer *tok;

    snprintf(path, sizeof path, QN_TESTS_DIR "/unit/text/vocab/%s.gguf", name);
    if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) fail_msg("%s", err.text);
    if (qn_tokenizer_create(file, &tok, &err) != QN_OK) fail_msg("%s: %s", name, err.text);
    qn_gguf_close(file);
    return tok;
}

static qn_sampler *with_breakers(const qn_tokenizer *tok, const char *const *breakers)
{
    const qn_sampler_params p = {.seed = 1, .dry_multiplier = 1, .dry_breakers = breakers};
    qn_error err = {0};
    qn_sampler *s;

    if (qn_sampler_create(&p, qn_tokenizer_n_tokens(tok), tok, &s, &err) != QN_OK) fail_msg("%s", err.text);
    return s;
}

/* The text of a token by another road than the sampler's. */
static char *text_of(const qn_tokenizer *tok, qn_token id, size_t *len)
{
    qn_error err = {0};
    char *text;

    const qn_detokenize_options whole = {.show_special = true, .keep_prefix = true};
    if (qn_detokenize(tok, &id, 1, &whole, &text, len, &err) != QN_OK) fail_msg("%s", err.text);
    return text;
}

/* By default, exactly the tokens with a newline, colon, quote or asterisk break, alone. */
static void usual_breakers(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(vocabularies); v++) {
        qn_tokenizer *tok = load(vocabularies[v]);
        qn_sampler *s = with_breakers(tok, NULL);
        int n = 0;

        for (qn_token id = 0; id < qn_tokenizer_n_tokens(tok); id++) {
            size_t len;
            char *text = text_of(tok, id, &len);
            bool breaks = false;
            for (size_t i = 0; i < len; i++) breaks |= strchr("\n:\"*", text[i]) != NULL && text[i] != 0;
            if (s->dry.table->flags[id] != (breaks ? QN_DRY_head | QN_DRY_single : 0))
                fail_msg("%s: token %d \"%s\" is flagged %d", vocabularies[v], id, text, s->dry.table->flags[id]);
            n += breaks;
            qn_free(text);
        }
        assert_true(n >= 3);
        assert_int_equal(s->dry.table->n_breakers, n);
        assert_int_equal(s->dry.table->n_tails, 0);
        qn_sampler_destroy(s);
        qn_tokenizer_destroy(tok);
    }
}

/* A longer breaker may begin within a token: the rest of it, tokenized, is the tail. */
static void breakers_across_tokens(void **state)
{
    static const char *const breakers[] = {"###Stop:", NULL};
    qn_tokenizer *tok = load("gpt-2");
    qn_sampler *s = with_breakers(tok, breakers);
    qn_token *ids;
    size_t n, n_heads = 0;

    (void)state;
    for (size_t i = 0; i < s->dry.table->n_breakers; i++) {
        const qn_dry_breaker *b = &s->dry.table->breakers[i];
        size_t len, tail_len;
        char *text = text_of(tok, b->head, &len), *tail;
        if (i > 0) assert_true(b->head >= b[-1].head);
        assert_int_equal(qn_detokenize(tok, s->dry.table->tails + b->tail_at, (size_t)b->n_tail, NULL, &tail, &tail_len,
                                       NULL),
                         QN_OK);
        /* head and tail together end in the breaker, or the head holds all of it */
        if (b->n_tail > 0) {
            const size_t here = strlen(breakers[0]) - tail_len;
            assert_true(here >= 1 && here <= len);
            assert_memory_equal(text + len - here, breakers[0], here);
            assert_string_equal(tail, breakers[0] + here);
        } else {
            assert_non_null(strstr(text, breakers[0]));
        }
        n_heads += b->n_tail > 0;
        qn_free(text);
        qn_free(tail);
    }
    assert_true(n_heads >= 3); /* "#", "##", "###" at least */

    /* and it works: a repeat is not seen across the breaker in between */
    const char *said = "one two three four ###Stop: one two three four ###Stop: one two three";
    float *logits = calloc((size_t)qn_tokenizer_n_tokens(tok), sizeof *logits);
    assert_int_equal(qn_tokenize(tok, said, strlen(said), NULL, &ids, &n, NULL), QN_OK);
    for (size_t i = 0; i < n; i++) qn_sampler_accept(s, ids[i]);
    qn_sampler *unbroken = with_breakers(tok, (const char *const[]){NULL});
    for (size_t i = 0; i < n; i++) qn_sampler_accept(unbroken, ids[i]);
    const qn_token four = qn_tokenizer_find(tok,
                                            "\xc4\xa0"
                                            "four",
                                            6);
    assert_int_not_equal(four, QN_TOKEN_NONE);
    sample(s, logits);
    sample(unbroken, logits);
    const float broken_by = -s->cands->dense[four], unbroken_by = -unbroken->cands->dense[four];
    assert_true(fabs(broken_by - 1.75) < 1e-5); /* " one two three": 1.75^(3 - 2) */
    assert_true(unbroken_by > 10);              /* the whole phrase before it, too */
    qn_free(ids);
    free(logits);
    qn_sampler_destroy(s);
    qn_sampler_destroy(unbroken);
    qn_tokenizer_destroy(tok);
}

/* Samplers of one scratch find breakers once: those that are the same, of the same tokenizer. */
static void shared(void **state)
{
    static const char *const breakers[] = {"###Stop:", NULL}, *const others[] = {"###Stop", ":", NULL},
                             *const none[] = {NULL};
    static const char *const *const lists[] = {breakers, others, none, NULL};
    qn_tokenizer *tok[2] = {load("gpt-2"), load("gpt-2")};
    qn_sampler_scratch *scratch = NULL;
    qn_sampler *s[2][4][2];

    (void)state;
    assert_int_equal(qn_sampler_scratch_create(qn_tokenizer_n_tokens(tok[0]), &scratch, NULL), QN_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 16; i++) {
            const qn_sampler_params p = {.seed = 1,
                                         .dry_multiplier = 1,
                                         .dry_breakers = lists[i / 2 % 4],
                                         .scratch = scratch};
            const qn_tokenizer *t = tok[i / 8];
            assert_int_equal(qn_sampler_create(&p, qn_tokenizer_n_tokens(t), t, &s[i / 8][i / 2 % 4][i % 2], NULL),
                             QN_OK);
        }
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++) {
                const bool same = s[i / 8][i / 2 % 4][i % 2]->dry.table == s[k / 8][k / 2 % 4][k % 2]->dry.table;
                assert_int_equal(same, i / 2 == k / 2);
            }
        for (int i = 0; i < 16; i++) qn_sampler_destroy(s[i / 8][i / 2 % 4][i % 2]);
        int n_kept = 0;
        for (const qn_dry_table *t = scratch->tables; t; t = t->next) n_kept++;
        assert_in_range(n_kept, 1, 2);
    }
    qn_sampler_scratch_destroy(scratch);
    for (int i = 0; i < 2; i++) qn_tokenizer_destroy(tok[i]);
}

static void every_allocation_may_fail(void **state)
{
    static const char *const breakers[] = {"###Stop:", "\n", NULL};
    const qn_sampler_params p = {.seed = 1, .dry_multiplier = 1, .dry_breakers = breakers};

    (void)state;
    books_open(-1);
    qn_tokenizer *tok = load("gpt-2");
    const long before = books.n_alloc - books.n_release;
    long at = 0;
    for (bool done = false; !done; at++) {
        qn_sampler *s = NULL;
        books.countdown = at;
        const qn_status status = qn_sampler_create(&p, qn_tokenizer_n_tokens(tok), tok, &s, NULL);
        done = status == QN_OK;
        if (!done) assert_int_equal(status, QN_STATUS_nomem);
        qn_sampler_destroy(s);
        assert_int_equal(books.n_alloc - books.n_release, before);
    }
    assert_true(at > 10);
    books.countdown = -1;
    qn_tokenizer_destroy(tok);
    books_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_breakers),
        cmocka_unit_test(breakers_across_tokens),
        cmocka_unit_test(shared),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
