/* SPDX-License-Identifier: MIT */
/* quern/grammar.h -- grammars that output has to follow: which tokens may come next, as a mask for a sampler.
 *
 *     qn_grammar *g; qn_matcher *m; const uint32_t *mask;
 *     qn_grammar_create("root ::= \"yes\" | \"no\"", NULL, &g, &err);
 *     qn_matcher_create(g, tokenizer, &m, &err);
 *     for (;;) {
 *         qn_matcher_mask(m, &mask, &err);
 *         qn_sampler_sample_masked(sampler, logits, mask, &id, &err);
 *         if (qn_tokenizer_is_eog(tokenizer, id)) break;
 *         qn_matcher_accept(m, id, &err);
 *     }
 *
 * A grammar is compiled to a pushdown automaton over bytes, so a token may end within a character. */
#ifndef QUERN_GRAMMAR_H
#define QUERN_GRAMMAR_H

#include <quern/base.h>
#include <quern/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled grammar: immutable, shared by any number of matchers and threads. */
typedef struct qn_grammar qn_grammar;

/* GBNF, as llama.cpp writes it: rules `name ::= ...`, "literals" and [character sets] with escapes (\n \r \t \\ \" \[
 * \] \xNN \uNNNN \UNNNNNNNN), . for any character, ( ) | * + ? {m} {m,} {,n} {m,n}, # comments; text is UTF-8. A rule
 * goes on until the next `name ::=`. `root` (NULL: "root") is the rule that output follows.
 *
 * format, with line and column, for what is no GBNF, a rule that is not defined, and one that begins with itself
 * (left recursion); limit for a grammar of more than QN_GRAMMAR_MAX_STATES states, which repetitions count into. */
#define QN_GRAMMAR_MAX_STATES 200000
QN_API qn_status qn_grammar_create(const char *gbnf, const char *root, qn_grammar **out, qn_error *err);
/* After all its matchers. */
QN_API void qn_grammar_destroy(qn_grammar *grammar);

/* One output under way. Used by one thread at a time. */
typedef struct qn_matcher qn_matcher;

/* tok outlives the matcher. */
QN_API qn_status qn_matcher_create(const qn_grammar *grammar, const qn_tokenizer *tok, qn_matcher **out, qn_error *err);
QN_API void qn_matcher_destroy(qn_matcher *matcher);
QN_API void qn_matcher_reset(qn_matcher *matcher); /* to the beginning */

/* A bit a token, token t is bit t % 32 of word t / 32: those that can come next. Tokens that end a generation can when
 * the output may end here; other control tokens never can. Borrowed until the next call. Masks are kept by state: the
 * second time a state comes costs nothing. */
QN_API qn_status qn_matcher_mask(qn_matcher *matcher, const uint32_t **mask, qn_error *err);
/* The output goes on with that token. invalid, and nothing changed, for one that cannot come here: an error of this
 * output, no other knows of it. limit when rules are nested more than QN_GRAMMAR_MAX_DEPTH deep. */
#define QN_GRAMMAR_MAX_DEPTH 10000
QN_API qn_status qn_matcher_accept(qn_matcher *matcher, qn_token token, qn_error *err);
/* The same for text, all of it or none. */
QN_API qn_status qn_matcher_accept_text(qn_matcher *matcher, const char *text, size_t len, qn_error *err);
/* Whether the output may end here, and whether it must: nothing else can come. */
QN_API bool qn_matcher_may_end(const qn_matcher *matcher);
QN_API bool qn_matcher_must_end(const qn_matcher *matcher);

#ifdef __cplusplus
}
#endif
#endif
