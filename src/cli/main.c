/* SPDX-License-Identifier: MIT */
/* src/cli/main.c -- finds the command and runs it. */
#include "cli/describe.h"
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

int cli_n_commands(void) { return CLI_N(commands); }
const cli_command *cli_command_get(int i) { return &commands[i]; }

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; i < CLI_N(commands); i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(const void *ctx, int i)
{
    (void)ctx;
    return i < CLI_N(commands) ? commands[i].name : NULL;
}

int cli_no_command(const char *name)
{
    static const char *const downloads[] = {"pull", "download", "get"};
    for (int i = 0; i < CLI_N(downloads); i++)
        if (strcmp(name, downloads[i]) == 0)
            return cli_bad_usage("\"%s\" is no command; " CLI_NO_DOWNLOADS ", and quern list shows it", name);
    const char *near = cli_nearest(name, command_name, NULL);
    if (near) return cli_bad_usage("\"%.64s\" is no command; did you mean %s? \"quern help\" lists them", name, near);
    return cli_bad_usage("\"%.64s\" is no command; \"quern help\" lists them", name);
}

/* Warnings always, the rest only on request: standard error is for people. */
static void show_log(void *ctx, qn_log_level level, const char *line)
{
    const qn_log_level least = *(const qn_log_level *)ctx;
    if (level >= least) fprintf(stderr, "quern: %s\n", line);
}

static bool find_level(const char *name, qn_log_level *out)
{
    static const char *const names[] = {"debug", "info", "warn", "error"}; /* in order of qn_log_level */
    for (int i = 0; i < CLI_N(names); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (qn_log_level)i;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static qn_log_level least = QN_LOG_warn;
    const char *level = getenv("QUERN_LOG");
    if (level && *level && !find_level(level, &least))
        cli_note("QUERN_LOG is \"%.32s\"; debug, info, warn or error is expected", level);
    qn_set_log(show_log, &least);

    spell_commands();
    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_print_overview(stdout);
        return cli_finish_output();
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("quern %s\n", qn_version());
        return cli_finish_output();
    }
    const cli_command *command = cli_command_find(argv[1]);
    if (!command) return cli_no_command(argv[1]);
    cli_name = command->name;
    cli_catch_signals();
    const int status = command->run(argc - 1, argv + 1);
    return cli_pipe_closed() ? CLI_PIPE : status;
}
