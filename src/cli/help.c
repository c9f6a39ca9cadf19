/* SPDX-License-Identifier: MIT */
/* src/cli/help.c -- quern help, and what --help prints, as wide as the terminal. */
#include "cli/describe.h"
#include <string.h>

enum { OPTION_COLUMN = 30, ENVIRONMENT_COLUMN = 17, WIDEST = 100, NARROWEST = 50 };

static int width(FILE *out)
{
    const int columns = cli_columns(fileno(out));
    if (columns == 0 || columns > WIDEST) return WIDEST;
    return columns < NARROWEST ? NARROWEST : columns;
}

/* Paragraphs, a line each, broken between words; `at` is the column that the first begins in. */
static void print_wrapped(FILE *out, const char *text, int indent, int at)
{
    const int columns = width(out);
    while (*text) {
        if (*text == '\n') {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
            text++;
            continue;
        }
        const int len = (int)strcspn(text, " \n");
        if (at > indent && at + 1 + len > columns) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(out, "%s%.*s", at > indent ? " " : "", len, text);
        text += len;
        text += *text == ' ';
    }
    fputc('\n', out);
}

static void print_option(const char *left, const char *help)
{
    int at = printf("  %s", left);
    if (at + 2 > OPTION_COLUMN) putchar('\n'), at = 0;
    printf("%*s", OPTION_COLUMN - at, "");
    print_wrapped(stdout, help, OPTION_COLUMN, OPTION_COLUMN);
}

void cli_print_help(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    printf("usage: quern %s%s%s [options]\n\n", u->command, *u->arguments ? " " : "", u->arguments);
    print_wrapped(stdout, u->summary, 0, 0);
    if (n == 0 || options[0].kind != CLI_GROUP) printf("\nOptions:\n");
    for (int i = 0; i < n; i++) {
        const cli_option *o = &options[i];
        char left[96], letter[8] = "    ", words[CLI_WORDS_SIZE], help[CLI_WORDS_SIZE + 512];
        if (o->kind == CLI_GROUP) {
            printf("\n%s:\n", o->help);
            continue;
        }
        if (o->letter) snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
                 o->argument ? o->argument : "");
        const cli_value *value = o->argument ? cli_value_find(o->argument) : NULL;
        snprintf(help, sizeof(help), "%s", o->help);
        cli_value_words(value, ", ", words, sizeof(words));
        if (*words) snprintf(help, sizeof(help), "%s: %s", o->help, words);
        print_option(left, help);
    }
    print_option("-h, --help", "this text");
    if (u->notes) {
        putchar('\n');
        print_wrapped(stdout, u->notes, 0, 0);
    }
    if (u->examples) {
        printf("\nExamples:\n");
        bool command = false;
        for (const char *line = u->examples; *line; command = !command) {
            const int len = (int)strcspn(line, "\n");
            printf(command ? "      %.*s\n" : "  %.*s\n", len, line);
            line += len;
            line += *line == '\n';
        }
    }
}

void cli_print_overview(FILE *out)
{
    fprintf(out, "quern %s: a tensor library and language-model runtime\n\nusage: quern COMMAND ...\n\n", qn_version());
    for (int i = 0; i < cli_n_commands(); i++)
        fprintf(out, "  %-12s %s\n", cli_command_get(i)->name, cli_command_get(i)->help);
    fprintf(out, "\nenvironment:\n");
#define CLI_ENVIRONMENT(name, what) \
    fprintf(out, "  %-14s ", #name); \
    print_wrapped(out, what, ENVIRONMENT_COLUMN, ENVIRONMENT_COLUMN);
#include "cli/environment.def"
#undef CLI_ENVIRONMENT
    fprintf(out, "\n\"quern help COMMAND\" tells a command's options, \"quern --version\" the version. Example:\n"
                 "  quern run model.gguf \"Once upon a time\"\n");
}

static const cli_usage usage = {
    .command = "help",
    .arguments = "[COMMAND]",
    .summary = "Lists the commands, or tells what a command does and its options.",
    .examples = "The options of run:\nquern help run\n"
                "The same as a manual page:\nquern help --man run | man -l -\n",
    .max_args = 1,
};

int cli_command_help(int argc, char **argv)
{
    bool man = false;
    const cli_option options[] = {
        {"man", 0, CLI_FLAG, &man, NULL, "print the manual page, in the language of man(7)", 0, 0, NULL},
    };
    const char *name = NULL;
    int n_args = 0;
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &name, &n_args);
    if (status >= 0) return status;
    const cli_command *command = name ? cli_command_find(name) : NULL;
    if (name && !command) return cli_no_command(name);
    if (man) return cli_print_man(command);
    if (command) return cli_describe(command, cli_print_help, NULL);
    cli_print_overview(stdout);
    return cli_finish_output();
}
