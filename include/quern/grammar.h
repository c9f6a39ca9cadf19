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
 * goes on until the next `name ::=`. <think> is the vocabulary's token of that text as such, <[123]> the token of that
 * number, and !<think> any other token but those that end a generation; a token that a grammar names comes where it is
 * named and never as text. `root` (NULL: "root") is the rule that output follows.
 *
 * format, with line and column, for what is no GBNF, a rule that is not defined, and one that begins with itself
 * (left recursion); limit for a grammar of more than QN_GRAMMAR_MAX_STATES states, which repetitions count into. */
#define QN_GRAMMAR_MAX_STATES 200000
QN_API qn_status qn_grammar_create(const char *gbnf, const char *root, qn_grammar **out, qn_error *err);
/* After all its matchers. */
QN_API void qn_grammar_destroy(qn_grammar *grammar);

/* One output under way. Used by one thread at a time. */
typedef struct qn_matcher qn_matcher;

/* tok outlives the matcher. invalid where the vocabulary lacks a token that the grammar names. */
QN_API qn_status qn_matcher_create(const qn_grammar *grammar, const qn_tokenizer *tok, qn_matcher **out, qn_error *err);
QN_API void qn_matcher_destroy(qn_matcher *matcher);
QN_API void qn_matcher_reset(qn_matcher *matcher); /* to the beginning */

/* A bit a token, token t is bit t % 32 of word t / 32: those that can come next; NULL: all can. Tokens that end a
 * generation can when the output may end here; other control tokens never can. Borrowed until the next call. Masks are
 * kept by state: the second time a state comes costs nothing. */
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

/* ---- lazy grammars --------------------------------------------------------------------------- */

/* What wakes a grammar: a token, or a text. A text that is a control or user-defined token of the vocabulary is that
 * token alone, since a model may write about "</think>"; any other text may come in any tokens, and begin and end
 * within one. The first to come counts; the longest, where several end at once. */
typedef struct qn_grammar_trigger {
    const char *text; /* 1 to 255 bytes; NULL: `token` */
    qn_token token;
    bool after; /* the grammar begins behind the trigger; otherwise with it: a token that the grammar does not name is
                 * read as its text then */
} qn_grammar_trigger;

typedef struct qn_lazy_options {
    const qn_grammar_trigger *triggers; /* [n_triggers] 1 to 64, copied */
    int32_t n_triggers;
    bool required; /* the output cannot end before a trigger has come */
} qn_lazy_options;

/* The grammar sleeps until a trigger comes: after the end of reasoning, say, or at the mark of a tool call. Asleep, all
 * can come (control tokens too) but for tokens that hold a trigger's end and go on with what the grammar refuses. Once
 * awake it holds to the end. Resets the matcher, which sleeps again after each reset. invalid, and nothing changed,
 * where the grammar does not begin with a trigger that it should begin with. */
QN_API qn_status qn_matcher_set_lazy(qn_matcher *matcher, const qn_lazy_options *options, qn_error *err);
QN_API bool qn_matcher_awake(const qn_matcher *matcher); /* true without triggers */

#ifdef __cplusplus
}
#endif
#endif
