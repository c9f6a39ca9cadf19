/* SPDX-License-Identifier: MIT */
/* src/cli/main.c -- finds the command and runs it. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

static cli_command commands[] = {
/* clang-format off */
#define QN_COMMAND(name, help) {#name, help, cli_command_##name},
/* clang-format on */
#include "cli/commands.def"
#undef QN_COMMAND
};

/* Rows are C names; users write a dash where those have an underscore. */
static void spell_commands(void)
{
    for (int i = 0; i < CLI_N(commands); i++)
        for (char *p = commands[i].name; *p; p++)
            if (*p == '_') *p = '-';
}

static void print_help(FILE *out)
{
    fprintf(out, "quern %s -- a tensor library and language-model runtime\n\nusage: quern COMMAND ...\n\n",
            qn_version());
    for (int i = 0; i < CLI_N(commands); i++) fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n\"quern COMMAND --help\" tells a command's options. Example:\n  quern run model.gguf \"Once upon a "
                 "time\"\n");
}

/* Warnings always, the rest only on request: standard error is for people. */
static void show_log(void *ctx, qn_log_level level, const char *line)
{
    const qn_log_level least = *(const qn_log_level *)ctx;
    if (level >= least) fprintf(stderr, "quern: %s\n", line);
}

int main(int argc, char **argv)
{
    static qn_log_level least = QN_LOG_warn;
    const char *verbose = getenv("QUERN_LOG"); /* debug, info, warn, error */
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    for (int i = 0; verbose && i < CLI_N(levels); i++)
        if (strcmp(verbose, levels[i]) == 0) least = (qn_log_level)i;
    qn_set_log(show_log, &least);

    spell_commands();
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return cli_finish_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("quern %s\n", qn_version());
        return cli_finish_output();
    }
    for (int i = 0; i < CLI_N(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        cli_name = commands[i].name;
        cli_catch_signals();
        return commands[i].run(argc - 1, argv + 1);
    }
    return cli_bad_usage("\"%.64s\" is no command; \"quern --help\" lists them", argv[1]);
}
