/* SPDX-License-Identifier: MIT */
/* src/cli/generation.c -- see generation.h. */
#include "cli/generation.h"

int cli_parse_generation(const cli_usage *usage, cli_generation *g, cli_option *options, int n_own, int argc,
                         char **argv, const char **args, int *n_args)
{
    cli_sampling_init(&g->sampling);
    cli_sampling_options(&g->sampling, options + n_own);
    int status = cli_parse(usage, options, n_own + CLI_N_SAMPLING, argc, argv, args, n_args);
    if (status >= 0) return status;
    status = cli_check_grammar(&g->grammar);
    if (status == CLI_OK) status = cli_check_sampling(&g->sampling);
    return status == CLI_OK ? -1 : status;
}

int cli_find_generation_model(const char **model, const cli_option *options, int n_own, int argc, char **argv)
{
    *model = cli_model_path(*model);
    if (!*model) return CLI_FAILED;
    return cli_model_defaults(cli_model_found(*model), options, n_own + CLI_N_SAMPLING, argc, argv);
}
