/* SPDX-License-Identifier: MIT */
/* src/cli/grammar.h -- what generated text has to follow, for every command that generates: a GBNF or a JSON schema. */
#ifndef QN_CLI_GRAMMAR_H
#define QN_CLI_GRAMMAR_H

#include "cli/cli.h"

#include <quern/grammar.h>

typedef struct cli_grammar {
    const char *gbnf, *gbnf_file, *schema, *schema_file;
    cli_strings trigger, trigger_after;
} cli_grammar;

/* clang-format off */
#define CLI_GRAMMAR_OPTIONS(g) \
    {"grammar", 0, CLI_STRING, &(g).gbnf, "GBNF", "what is generated follows this grammar", 0, 0, NULL}, \
    {"grammar-file", 0, CLI_STRING, &(g).gbnf_file, "FILE", "the same from a file", 0, 0, NULL}, \
    {"json-schema", 'j', CLI_STRING, &(g).schema, "SCHEMA", \
     "what is generated is JSON by this schema; @FILE reads it from a file", 0, 0, NULL}, \
    {"json-schema-file", 0, CLI_STRING, &(g).schema_file, "FILE", "the same from a file", 0, 0, NULL}, \
    {"grammar-trigger", 0, CLI_STRINGS, &(g).trigger, "STR", \
     "the grammar holds only from this text or token on, and begins with it (may be repeated)", 0, 0, NULL}, \
    {"grammar-trigger-after", 0, CLI_STRINGS, &(g).trigger_after, "STR", \
     "the same, but the grammar begins behind it (may be repeated)", 0, 0, NULL}
/* clang-format on */

/* CLI_OK, or wrong usage. */
int cli_check_grammar(const cli_grammar *g);
/* The text of the JSON schema, freed with free; NULL when none was asked for. */
int cli_schema_text(const cli_grammar *g, char **text);
/* Both NULL when no grammar was asked for. */
int cli_create_matcher(const cli_grammar *g, const qn_tokenizer *tok, qn_grammar **grammar, qn_matcher **matcher);

#endif
