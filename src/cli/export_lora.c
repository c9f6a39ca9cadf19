/* SPDX-License-Identifier: MIT */
/* src/cli/export_lora.c -- quern export-lora: adapters merged into their base model. */
#include "cli/model.h"
#include <string.h>

static const cli_usage usage = {
    .command = "export-lora",
    .arguments = "BASE.gguf LORA.gguf[:SCALE] OUT.gguf",
    .summary = "Writes the model that the base is with the adapter added, which then needs no adapter.",
    .notes =
        "Matrices keep their types unless --type names another one or a mix: rounding to few bits loses part of what "
        "the adapter changed. More adapters are added by --lora.",
    .examples =
        "Half of what an adapter changes, for good:\nquern export-lora base.gguf adapter.gguf:0.5 merged.gguf\n",
    .min_args = 3,
    .max_args = 3,
};

int cli_command_export_lora(int argc, char **argv)
{
    qn_lora_export_options o = {0};
    cli_strings more = {0};
    const char *args[3] = {0};
    static char paths[CLI_MAX_STRINGS][4096];
    qn_lora_file loras[CLI_MAX_STRINGS];
    const cli_option options[] = {
        {"type", 0, CLI_STRING, &o.type, "TYPE", "type of the result's matrices (default: each keeps its own)", 0, 0,
         NULL},
        {"lora", 0, CLI_STRINGS, &more, "LORA.gguf[:SCALE]", "one more adapter (may be repeated)", 0, 0, NULL},
        {"threads", 't', CLI_INT, &o.n_threads, "N", "threads that compute (default: physical cores within the quota)",
         1, 256, NULL},
        CLI_STORE_OPTIONS,
    };
    int n_args = 0, n = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    if (more.n == CLI_MAX_STRINGS) return cli_bad_usage("--lora: more than %d adapters", CLI_MAX_STRINGS);
    for (int i = -1; i < more.n; i++, n++) {
        status = cli_parse_lora(i < 0 ? args[1] : more.item[i], paths[n], sizeof(paths[n]), &loras[n].scale);
        if (status != CLI_OK) return status;
        loras[n].path = paths[n];
    }
    args[0] = cli_model_path(args[0]);
    if (!args[0]) return CLI_FAILED;
    cli_progress progress;
    qn_error err;
    cli_progress_init(&progress, "merging");
    o.progress = cli_progress_step;
    o.progress_ctx = &progress;
    const qn_status merged = qn_lora_export(args[0], loras, n, args[2], &o, &err);
    cli_progress_end(&progress);
    if (merged == QN_STATUS_cancelled && cli_interrupted()) return CLI_INTERRUPTED;
    return merged == QN_OK ? CLI_OK : cli_fail_error(&err);
}
