/* SPDX-License-Identifier: MIT */
/* src/cli/man.c -- manual pages, made of the option tables, in the language of man(7). */
#include "cli/describe.h"
#include <ctype.h>
#include <string.h>

/* Where an option's dash stands; elsewhere a - is a hyphen, at which lines may break. */
static bool is_dash(const char *text, const char *p)
{
    return p == text || !isalnum((unsigned char)p[-1]) || !isalnum((unsigned char)p[1]);
}

/* `literal`: every dash is one, as in commands. */
static void put(const char *text, int len, bool literal)
{
    for (const char *p = text; p < text + len; p++) {
        if (p == text && (*p == '.' || *p == '\'')) printf("\\&");
        if (*p == '\\')
            printf("\\e");
        else if (*p == '-' && (literal || is_dash(text, p)))
            printf("\\-");
        else if (*p == '~')
            printf("\\(ti");
        else if (*p == '^')
            printf("\\(ha");
        else if (*p == '\'')
            printf("\\(aq");
        else
            putchar(*p);
    }
}

static void put_text(const char *text) { put(text, (int)strlen(text), false); }

/* A paragraph a line. */
static void put_paragraphs(const char *text)
{
    for (const char *line = text; *line;) {
        const int len = (int)strcspn(line, "\n");
        if (line > text) printf(".PP\n");
        put(line, len, false);
        putchar('\n');
        line += len;
        line += *line == '\n';
    }
}

static void put_upper(const char *text)
{
    for (; *text; text++) *text == '-' ? printf("\\-") : putchar(toupper((unsigned char)*text));
}

static void put_head(const char *command, const char *what)
{
    printf(".TH QUERN%s", command ? "\\-" : "");
    if (command) put_upper(command);
    /* Lines are broken between words only: names of options and files stay whole. */
    printf(" 1 \"" QN_DATE "\" \"Quern %s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\nquern", qn_version());
    if (command) {
        printf("\\-");
        put(command, (int)strlen(command), true);
    }
    printf(" \\- ");
    put_text(what);
    printf("\n");
}

static void put_options(const cli_option *options, int n)
{
    char words[CLI_WORDS_SIZE];
    printf(".SH OPTIONS\n");
    for (int i = 0; i < n; i++) {
        const cli_option *o = &options[i];
        if (o->kind == CLI_GROUP) {
            printf(".SS ");
            put_text(o->help);
            putchar('\n');
            continue;
        }
        printf(".TP\n");
        if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
        printf("\\fB\\-\\-");
        put(o->name, (int)strlen(o->name), true);
        printf("\\fR");
        if (o->argument) {
            printf(" \\fI");
            put(o->argument, (int)strlen(o->argument), true);
            printf("\\fR");
        }
        putchar('\n');
        put_text(o->help);
        const cli_value *value = o->argument ? cli_value_find(o->argument) : NULL;
        cli_value_words(value, ", ", words, sizeof(words));
        if (*words) {
            printf(": ");
            put_text(words);
        }
        putchar('\n');
    }
    printf(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint a summary of this page\n");
}

static void put_examples(const char *examples)
{
    bool command = false;
    if (!examples) return;
    printf(".SH EXAMPLES\n");
    for (const char *line = examples; *line; command = !command) {
        const int len = (int)strcspn(line, "\n");
        if (!command && line > examples) printf(".PP\n");
        if (command) printf(".PP\n.RS 4\n.nf\n");
        put(line, len, command);
        putchar('\n');
        if (command) printf(".fi\n.RE\n");
        line += len;
        line += *line == '\n';
    }
}

static void put_status_and_environment(void)
{
    printf(".SH EXIT STATUS\n"
           ".TP\n0\ndone\n"
           ".TP\n1\nfailed; standard error has one line that says why\n"
           ".TP\n2\nwrong usage\n"
           ".TP\n130\ninterrupted\n"
           ".SH ENVIRONMENT\n");
#define CLI_ENVIRONMENT(name, what) \
    printf(".TP\n\\fB" #name "\\fR\n"); \
    put_text(what); \
    putchar('\n');
#include "cli/environment.def"
#undef CLI_ENVIRONMENT
}

/* "MODEL [PROMPT]" with the words that stand for something in italics. */
static void put_arguments(const char *arguments)
{
    bool italic = false;
    for (const char *p = arguments; *p; p++) {
        const bool word =
            isupper((unsigned char)*p) || islower((unsigned char)*p) || (*p == '.' && p[1] != '.' && p[1]);
        if (word != italic) printf(word ? "\\fI" : "\\fR");
        italic = word;
        if (*p == '-') putchar('\\');
        putchar(*p);
    }
    if (italic) printf("\\fR");
}

static void put_siblings(const char *but)
{
    printf(".SH SEE ALSO\n");
    if (but) printf("\\fBquern\\fR(1)");
    for (int i = 0, n = but != NULL; i < cli_n_commands(); i++) {
        const char *name = cli_command_get(i)->name;
        if (but && strcmp(name, but) == 0) continue;
        printf(n++ ? ",\n\\fBquern\\-" : "\\fBquern\\-");
        put(name, (int)strlen(name), true);
        printf("\\fR(1)");
    }
    putchar('\n');
}

static void put_command(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    put_head(u->command, ((const cli_command *)ctx)->help);
    printf(".SH SYNOPSIS\n\\fBquern ");
    put(u->command, (int)strlen(u->command), true);
    printf("\\fR ");
    put_arguments(u->arguments);
    printf(*u->arguments ? " [\\fIoptions\\fR]\n.SH DESCRIPTION\n" : "[\\fIoptions\\fR]\n.SH DESCRIPTION\n");
    put_paragraphs(u->summary);
    if (u->notes) {
        printf(".PP\n");
        put_paragraphs(u->notes);
    }
    put_options(options, n);
    put_examples(u->examples);
    put_status_and_environment();
    put_siblings(u->command);
}

static void put_program(void)
{
    put_head(NULL, "a tensor library and language-model runtime");
    printf(".SH SYNOPSIS\n\\fBquern\\fR \\fICOMMAND\\fR [\\fIarguments\\fR] [\\fIoptions\\fR]\n"
           ".PP\n\\fBquern help\\fR [\\fICOMMAND\\fR]\n"
           ".SH DESCRIPTION\n"
           "Quern reads models in GGUF files, generates text with them, trains them, and shows what they are made of "
           "and how fast they could be on this machine.\n"
           "Results go to standard output, everything else to standard error.\n"
           ".SH COMMANDS\n");
    for (int i = 0; i < cli_n_commands(); i++) {
        printf(".TP\n\\fB");
        put(cli_command_get(i)->name, (int)strlen(cli_command_get(i)->name), true);
        printf("\\fR\n");
        put_text(cli_command_get(i)->help);
        putchar('\n');
    }
    printf(".SH OPTIONS\n"
           ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the commands; after a command, its options\n"
           ".TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nprint the version\n"
           ".PP\n"
           "Options and arguments of a command may stand in any order; \\fB\\-\\-\\fR ends the options.\n"
           "\\fB\\-\\-name=value\\fR and \\fB\\-\\-name value\\fR, \\fB\\-n5\\fR and \\fB\\-n 5\\fR are the same.\n");
    put_examples("Generate text:\nquern run model.gguf \"Once upon a time\"\n"
                 "Train a small model from text and let it speak:\n"
                 "quern train plays.txt -o plays.gguf && quern run plays.gguf \"ROMEO:\"\n"
                 "What bounds a model's speed here:\nquern bench --roofline model.gguf\n");
    put_status_and_environment();
    put_siblings(NULL);
}

int cli_print_man(const cli_command *command)
{
    if (command) return cli_describe(command, put_command, (void *)command);
    put_program();
    return cli_finish_output();
}
