/* SPDX-License-Identifier: MIT */
/* tests/unit/text/lazy.c -- grammars that name tokens, and grammars that sleep until a trigger comes. */
#include "grammar_rig.h"

/* ---- tokens as such ------------------------------------------------------------------------------------------ */

enum { TOK_X = 3, TOK_TRUE = 4, TOK_FALSE = 5, TOK_NULL = 8, TOK_OBJECT = 9, TOK_12 = 12, TOK_AB = 13, TOK_YES = 20 };
enum { TOK_NO = 21, TOK_BYTES = 24 };

static void named_tokens(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    const uint32_t *mask;
    qn_matcher *m = matcher_of("root ::= <|x|> \"yes\" <[12]> !<|x|>* <|x|>", &g);
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    for (qn_token t = 0; t < N_WORDS + 256; t++) assert_int_equal(bit(mask, t), t == TOK_X);
    assert_int_equal(qn_matcher_accept_text(m, "<|x|>", 5, NULL), QN_STATUS_invalid); /* its text is not the token */
    assert_int_equal(qn_matcher_accept(m, TOK_X, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_YES, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_BYTES + '1', &err), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept(m, TOK_12, NULL), QN_OK);
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    for (qn_token t = 0; t < N_WORDS + 256; t++) assert_int_equal(bit(mask, t), !qn_tokenizer_is_eog(tok, t));
    assert_int_equal(qn_matcher_accept(m, TOK_FALSE, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, 1, NULL), QN_OK); /* another control token */
    assert_int_equal(qn_matcher_accept(m, TOK_X, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    /* a token that is named does not come as text, others do; what comes as either stands for both */
    m = matcher_of("root ::= \"true\" | \"tr\" [a-z]* | !<[4]> \"!\" | \"ab\" \"?\"", &g);
    assert_int_equal(qn_matcher_accept(m, TOK_TRUE, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    assert_false(bit(mask, TOK_TRUE));
    assert_true(bit(mask, TOK_TRUE + 2) && bit(mask, TOK_X) && bit(mask, TOK_AB));
    for (int i = 0; i < 2; i++) {
        qn_matcher_reset(m);
        assert_int_equal(qn_matcher_accept(m, TOK_AB, NULL), QN_OK);
        assert_int_equal(qn_matcher_accept_text(m, i ? "!" : "?", 1, NULL), QN_OK);
        assert_true(qn_matcher_must_end(m));
    }
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    /* one that ends the output is never "any but" another, also where the grammar names it */
    assert_true(qn_tokenizer_is_eog(tok, 2));
    m = matcher_of("root ::= !<|x|> <[2]>", &g);
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    assert_true(bit(mask, TOK_AB) && !bit(mask, 2) && !bit(mask, TOK_X));
    assert_int_equal(qn_matcher_accept(m, 2, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept(m, TOK_AB, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, 2, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    assert_int_equal(qn_grammar_create("root ::= <none>", NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "<none>"));
    qn_grammar_destroy(g);
    assert_int_equal(qn_grammar_create("root ::= <[9999]>", NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_STATUS_invalid);
    qn_grammar_destroy(g);
}

/* ---- lazy grammars ------------------------------------------------------------------------------------------- */

static bool allows(qn_matcher *m, qn_token t)
{
    const uint32_t *mask;
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    return !mask || bit(mask, t);
}

static void lazy_by_token(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    const uint32_t *mask;
    qn_matcher *m = matcher_of("root ::= \"yes\" | \"no\"", &g);
    const qn_grammar_trigger after = {.text = "<|x|>", .after = true}, with = {.token = TOK_YES},
                             wrong = {.text = "maybe"};
    assert_true(qn_matcher_awake(m));
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&wrong, 1, false}, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "does not begin"));
    assert_true(qn_matcher_awake(m)); /* nothing changed */
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&wrong, 0, false}, &err), QN_STATUS_invalid);
    for (int required = 0; required < 2; required++) {
        assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&after, 1, required}, &err), QN_OK);
        assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
        assert_int_equal(mask != NULL, required); /* the end alone is held back */
        assert_int_equal(allows(m, 2), !required);
        assert_int_equal(qn_matcher_accept(m, 2, NULL), required ? QN_STATUS_invalid : QN_OK);
        assert_int_equal(qn_matcher_may_end(m), !required);
        assert_false(qn_matcher_must_end(m) || qn_matcher_awake(m));
        assert_int_equal(qn_matcher_accept(m, TOK_12, NULL), QN_OK);
        /* a model may write about it */
        assert_int_equal(qn_matcher_accept_text(m, "the <|x|> of it", 15, NULL), QN_OK);
        assert_false(qn_matcher_awake(m));
        assert_int_equal(qn_matcher_accept(m, TOK_X, NULL), QN_OK);
        assert_true(qn_matcher_awake(m) && !qn_matcher_may_end(m));
        assert_true(allows(m, TOK_YES) && !allows(m, TOK_12) && !allows(m, 2));
        assert_int_equal(qn_matcher_accept(m, TOK_NO, NULL), QN_OK);
        assert_true(qn_matcher_must_end(m));
        qn_matcher_reset(m);
        assert_false(qn_matcher_awake(m));
    }
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&with, 1, false}, &err), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_NO, NULL), QN_OK); /* asleep */
    assert_int_equal(qn_matcher_accept(m, TOK_YES, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* A text as trigger, cut into tokens in every way; what follows it in the same token is held to the grammar. */
static void lazy_by_text(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_matcher *m = matcher_of("root ::= \"true\" [0-9]+", &g);
    const qn_grammar_trigger triggers[] = {{.text = "true"}, {.text = "{ab", .after = true}};
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){triggers, 2, false}, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_TRUE, NULL), QN_OK);
    assert_true(qn_matcher_awake(m) && allows(m, TOK_12) && !allows(m, TOK_AB));
    qn_matcher_reset(m);
    for (const char *p = "trtrut"; *p; p++) assert_int_equal(qn_matcher_accept_text(m, p, 1, NULL), QN_OK);
    assert_false(qn_matcher_awake(m));
    assert_int_equal(qn_matcher_accept_text(m, "rue1", 4, NULL), QN_OK);
    assert_true(qn_matcher_awake(m) && qn_matcher_may_end(m));
    qn_matcher_reset(m);
    /* "{" came: "abc" would end the trigger and go on with a c */
    assert_true(allows(m, TOK_AB) && allows(m, TOK_AB + 1));
    assert_int_equal(qn_matcher_accept_text(m, "x{", 2, NULL), QN_OK);
    assert_true(allows(m, TOK_AB) && !allows(m, TOK_AB + 1));
    assert_int_equal(qn_matcher_accept(m, TOK_AB + 1, NULL), QN_STATUS_invalid);
    assert_false(qn_matcher_awake(m));
    assert_int_equal(qn_matcher_accept(m, 1, NULL), QN_OK); /* a control token comes between: no trigger */
    assert_true(allows(m, TOK_AB + 1));
    assert_int_equal(qn_matcher_accept(m, TOK_AB, NULL), QN_OK);
    assert_false(qn_matcher_awake(m));
    assert_int_equal(qn_matcher_accept_text(m, "{", 1, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_AB, NULL), QN_OK);
    assert_true(qn_matcher_awake(m) && !qn_matcher_may_end(m) && allows(m, TOK_TRUE) && !allows(m, TOK_12));
    qn_matcher_destroy(m);
    /* a token that holds all of a trigger and goes on */
    const qn_grammar_trigger inside = {.text = "ab", .after = true};
    assert_int_equal(qn_matcher_create(g, tok, &m, NULL), QN_OK);
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&inside, 1, false}, NULL), QN_OK);
    assert_true(allows(m, TOK_AB) && !allows(m, TOK_AB + 1));
    assert_int_equal(qn_matcher_accept(m, TOK_AB + 1, NULL), QN_STATUS_invalid);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* What made other servers abort: a token that cannot come, after a trigger, of a kind that has no text, at the end. It
 * is an error of that output; another one of the same grammar does not notice. */
static void reports(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_matcher *m = matcher_of("root ::= \"true\" \"12\"", &g), *other;
    const qn_grammar_trigger trigger = {.text = "true"};
    assert_int_equal(qn_matcher_create(g, tok, &other, NULL), QN_OK);
    assert_int_equal(qn_matcher_set_lazy(m, &(qn_lazy_options){&trigger, 1, false}, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(other, TOK_TRUE, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(m, TOK_TRUE, NULL), QN_OK);
    for (qn_token t = -2; t < N_WORDS + 258; t++) {
        if (t == TOK_12 || t == TOK_BYTES + '1') continue;
        qn_error err;
        assert_int_equal(qn_matcher_accept(m, t, &err), QN_STATUS_invalid);
        assert_true(err.text[0] && qn_matcher_awake(m) && !qn_matcher_may_end(m));
    }
    assert_int_equal(qn_matcher_accept(m, TOK_BYTES + '1', NULL), QN_OK); /* as bytes, too */
    assert_int_equal(qn_matcher_accept(m, TOK_BYTES + '2', NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    assert_int_equal(qn_matcher_accept(m, TOK_12, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept(m, 2, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept(other, TOK_12, NULL), QN_OK);
    assert_true(qn_matcher_must_end(other));
    qn_matcher_destroy(m);
    qn_matcher_destroy(other);
    qn_grammar_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_tokens),
        cmocka_unit_test(lazy_by_token),
        cmocka_unit_test(lazy_by_text),
        cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
