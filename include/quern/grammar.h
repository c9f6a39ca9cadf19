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

/* A compiled grammar, shared by any number of matchers and threads. What matchers find out about it over a vocabulary
 * (where outputs can stand, what comes then, masks) it keeps for the next, in at most 24 MiB and half a kilobyte for
 * each level that unfinished outputs are nested; a tokenizer that a matcher was made for keeps a trie of its tokens,
 * about 120 bytes each, that all grammars share. */
typedef struct qn_grammar qn_grammar;

/* GBNF, as llama.cpp writes it: rules `name ::= ...`, "literals" and [character sets] with escapes (\n \r \t \\ \" \[
 * \] \xNN \uNNNN \UNNNNNNNN), . for any character, ( ) | * + ? {m} {m,} {,n} {m,n}, # comments; text is UTF-8. A rule
 * ends with its line, but not within brackets or behind `::=` or |, nor where the next line begins with |. <think> is
 * the vocabulary's token of that text as such, <[123]> the token of that number, and !<think> any other token but those
 * that end a generation; a token that a grammar names comes where it is named and never as text. `root` (NULL: "root")
 * is the rule that output follows.
 *
 * format, with line and column, for what is no GBNF, a rule that is not defined, one that begins with itself
 * (left recursion), and where output could never end; limit for a grammar of more than QN_GRAMMAR_MAX_STATES states,
 * which repetitions count into. */
#define QN_GRAMMAR_MAX_STATES 200000
QN_API qn_status qn_grammar_create(const char *gbnf, const char *root, qn_grammar **out, qn_error *err);

/* A JSON schema of draft 2020-12: output is a JSON value that satisfies it.
 *
 *     type (a list too) enum const properties required additionalProperties patternProperties items prefixItems
 *     minItems maxItems minLength maxLength (in code points) pattern format minimum maximum exclusiveMinimum
 *     exclusiveMaximum anyOf oneOf allOf $ref $defs definitions, true and false as schemas, and annotations: $schema
 *     $id $comment title description default examples deprecated readOnly writeOnly content...
 *
 * pattern: ECMA-262 without look-around, back-references, \b and \p; found anywhere unless it says ^ and $. format:
 * date time date-time uuid ipv4 ipv6 email uri, and asserted (of leap seconds those with Z and +00:00). Where a
 * maxLength of 100 or more stands beside email or uri each part has a most of its own, so that the longest do not come:
 * 64 and 253 characters around the @; of a uri 15 of the scheme, 21 of a user, 80 of the host (below 600 no user, and
 * 16), 1760 behind it, 512 where there is no host. oneOf: only where it can be told that no value satisfies two of
 * them. $ref: within the schema, "#/..", recursive too. Any other keyword is refused, on whatever node.
 *
 * What is written: properties in the order in which the schema names them, then any others that may be there. Between
 * tokens there is nothing, a space, or a newline with up to 20 spaces or 10 tabs; before a colon nothing. A string that
 * the schema says something of, and every name of a property, is written plainly (escapes where JSON needs them, and
 * \u for what is not ASCII); other strings with any escapes, but no half of a surrogate pair. Integers have no
 * fraction and no exponent; numbers with bounds no exponent. Names that the schema doesn't have are not told apart from
 * each other: of these one may come twice.
 *
 * format for what is no JSON or no schema, unsupported with keyword and JSON pointer ("schema, #/properties/a: "not" is
 * not supported"), invalid for one that no value satisfies, limit for one that is too large or too deep (1 MiB, 200
 * levels, 20,000 schemas, QN_GRAMMAR_MAX_STATES) or whose patterns, lengths (100,000), bounds (10,000 digits) or
 * combinations are: within 100 ms and 64 MB. */
typedef struct qn_schema_options {
    bool widen; /* leave out what cannot be enforced: a keyword where that only lets more values through, else its whole
                 * schema, for any JSON value. For parameters of tools that aren't strict */
    bool object;          /* whatever else: the value is an object, as arguments of a tool are */
    bool whole_fractions; /* 1.0 is an integer: by the standard, but many typed readers of JSON refuse it */
} qn_schema_options;
QN_API qn_status qn_grammar_create_schema(const char *schema, const qn_schema_options *options, qn_grammar **out,
                                          qn_error *err);
/* What was widened, "#/properties/a: "not" is not supported"; to be said once. NULL for i out of range. */
QN_API int32_t qn_grammar_n_widened(const qn_grammar *grammar);
QN_API const char *qn_grammar_widened(const qn_grammar *grammar, int32_t i);

/* After all its matchers. */
QN_API void qn_grammar_destroy(qn_grammar *grammar);

/* One output under way. Used by one thread at a time. */
typedef struct qn_matcher qn_matcher;

/* Microseconds, but for the first of a tokenizer (60 ms at 150,000 tokens). tok outlives the matcher. invalid where the
 * vocabulary lacks a token that the grammar names. */
QN_API qn_status qn_matcher_create(const qn_grammar *grammar, const qn_tokenizer *tok, qn_matcher **out, qn_error *err);
QN_API void qn_matcher_destroy(qn_matcher *matcher);
QN_API void qn_matcher_reset(qn_matcher *matcher); /* to the beginning */

/* A bit a token, token t is bit t % 32 of word t / 32: those that can come next; NULL: all can. Tokens that end a
 * generation can when the output may end here; other control tokens never can. Borrowed until the next call. Masks are
 * kept by state: the second time a state comes, in whatever matcher of the grammar, costs nothing. limit for a grammar
 * that can be read in too many ways to tell. */
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
