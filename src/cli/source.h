/* SPDX-License-Identifier: MIT */
/* src/cli/source.h -- where a MODEL argument leads: a path, or a model that another program has downloaded. What was
 * found stays until the program ends. */
#ifndef QN_CLI_SOURCE_H
#define QN_CLI_SOURCE_H

#include "cli/cli.h"
#include <quern/gguf.h>
#include <quern/store.h>

/* A row for the option table of every command that takes a MODEL. */
extern cli_strings cli_models_dirs;
/* clang-format off */
#define CLI_STORE_OPTIONS \
    {"models-dir", 0, CLI_STRINGS, &cli_models_dirs, "DIR", "look for MODEL in this folder too (may be repeated)", \
        0, 0, NULL}
/* clang-format on */

/* All stores that the environment and --models-dir name; NULL after a message. */
const qn_store *cli_open_store(void);
/* The same as it is now; the caller's. NULL after an error. */
qn_store *cli_open_new_store(qn_error *err);
/* The file that MODEL stands for, as a path: itself where there is a file, or where it can only be one. NULL after a
 * message that names what is near. */
const char *cli_model_path(const char *text);
/* What a store says of the model at a path that cli_model_path gave; NULL for others. */
const qn_store_model *cli_model_found(const char *path);
/* A model's own options (those of an Ollama model) become the defaults of the command's: those that are in its table
 * and do not stand on its command line. One line says which. -1 to go on, or the status to exit with. */
int cli_model_defaults(const qn_store_model *model, const cli_option *options, int n_options, int argc, char **argv);
/* The i-th parameter of Ollama's models that is an option here, and that option; NULL past the last. */
const char *cli_param_option(int i, const char **option);

#endif
