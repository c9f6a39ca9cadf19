/* SPDX-License-Identifier: MIT */
/* src/cli/generation.h -- what the commands that generate text have in common: their options, and how they are read. */
#ifndef QN_CLI_GENERATION_H
#define QN_CLI_GENERATION_H

#include "cli/grammar.h"
#include "cli/model.h"
#include "cli/sampling.h"

typedef struct cli_generation {
    cli_model_options model;
    cli_sampling sampling;
    cli_grammar grammar;
    int32_t n_ctx, n_batch;
} cli_generation;

/* Rows of a command's option table; those of the sampling come last of all, from cli_parse_generation. */
/* clang-format off */
#define CLI_GENERATION_OPTIONS(g) \
    CLI_OPTION_GROUP("Model and machine"), \
    {"ctx-size", 'c', CLI_INT, &(g).n_ctx, "N", "context in tokens (default: the model's, at most 8192)", 1, 1 << 28, \
     NULL}, \
    {"batch-size", 'b', CLI_INT, &(g).n_batch, "N", "tokens of the prompt computed at once (default: 512)", 1, \
     1 << 20, NULL}, \
    CLI_MODEL_OPTIONS((g).model)
/* clang-format on */

/* cli_parse of a table [n_own + CLI_N_SAMPLING], whose last rows it makes, and what can be said before a model is
 * opened. -1 to go on, or the status to exit with. */
int cli_parse_generation(const cli_usage *usage, cli_generation *g, cli_option *options, int n_own, int argc,
                         char **argv, const char **args, int *n_args);
/* Then: *model, as it was typed, becomes a path, and its own options the command's defaults. -1 to go on, or the status
 * to exit with. */
int cli_find_generation_model(const char **model, const cli_option *options, int n_own, int argc, char **argv);

#endif
