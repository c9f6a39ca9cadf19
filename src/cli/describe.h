/* SPDX-License-Identifier: MIT */
/* src/cli/describe.h -- a command's option table for others than itself: help, manual pages and completions are all
 * made of the rows that the command parses its arguments by. */
#ifndef QN_CLI_DESCRIBE_H
#define QN_CLI_DESCRIBE_H

#include "cli/cli.h"

typedef void (*cli_describe_fn)(void *ctx, const cli_usage *usage, const cli_option *options, int n_options);
/* Hands a command's table to `describe`. The command is run with --help alone, and so must call cli_parse before it
 * does anything else. CLI_OK, or the status of a failed output. */
int cli_describe(const cli_command *command, cli_describe_fn describe, void *ctx);
/* A cli_describe_fn: what --help prints. ctx is not used. */
void cli_print_help(void *ctx, const cli_usage *usage, const cli_option *options, int n_options);
void cli_print_overview(FILE *out);
/* Manual pages in man(7)'s language on standard output; command NULL: of the program. */
int cli_print_man(const cli_command *command);

/* What a value's placeholder stands for. */
typedef enum cli_value_kind {
    CLI_VALUE_text,
    CLI_VALUE_file,
    CLI_VALUE_folder,
    CLI_VALUE_gguf,
    CLI_VALUE_output, /* a model to be written */
    CLI_VALUE_words,  /* nothing else is possible */
    CLI_VALUE_hints
} cli_value_kind;
typedef struct cli_value {
    const char *placeholder;
    cli_value_kind kind;
    char separator;                   /* between words where several may be given; 0: one */
    const char *words;                /* of words and hints: "f32, f16"; NULL where `list` tells them */
    const char *const *(*list)(void); /* NULL-terminated */
} cli_value;
/* Of an option's argument ("FILE[:SCALE]") or one word of a usage line ("[MODEL...]"); NULL when there is no row. */
const cli_value *cli_value_find(const char *argument);
enum { CLI_WORDS_SIZE = 4096 }; /* holds the longest list, that of the architectures, three times */
/* Words or hints with `between` between any two; empty for other kinds, and for value NULL. */
void cli_value_words(const cli_value *value, const char *between, char *buf, size_t size);
/* Whether text is possible: for words, one or a list of them, large or small; they are then spelled as listed. */
bool cli_value_check(const cli_value *value, char *text);

/* The candidate nearest to what was typed, or NULL when none is near; candidate(ctx, i) gives NULL after the last. */
const char *cli_nearest(const char *typed, const char *(*candidate)(const void *ctx, int i), const void *ctx);

#endif
