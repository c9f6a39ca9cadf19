/* SPDX-License-Identifier: MIT */
/* src/cli/args.c -- options by table. Every number is checked against its row's range; what is wrong is said with the
 * option's name. */
#include "cli/describe.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

bool cli_parse_int(const char *text, double lo, double hi, int64_t *out)
{
    /* By hand: strtol takes blanks, a locale's digits and overflow in ways that differ. */
    const bool negative = *text == '-';
    const char *p = text + (negative || *text == '+');
    uint64_t value = 0;
    if (!*p) return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || value > (UINT64_MAX - 9) / 10) return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (value > (uint64_t)INT64_MAX) return false;
    const int64_t signed_value = negative ? -(int64_t)value : (int64_t)value;
    if ((double)signed_value < lo || (double)signed_value > hi) return false;
    *out = signed_value;
    return true;
}

bool cli_parse_float(const char *text, double lo, double hi, double *out)
{
    /* Only what a decimal number is made of: no hexadecimal, "inf" or "nan". */
    if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    if (*end || end == text || !isfinite(value) || value < lo || value > hi) return false;
    *out = value;
    return true;
}

bool cli_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char number[32];
    double value = 0;
    const size_t n = strlen(text);
    const char *unit = n > 1 && isalpha((unsigned char)text[n - 1]) ? strchr(units, text[n - 1] & ~0x20) : NULL;
    if (n == 0 || n >= sizeof(number)) return false;
    memcpy(number, text, n + 1);
    if (unit) number[n - 1] = '\0';
    if (!cli_parse_float(number, 0, 9e15, &value)) return false;
    value = ldexp(value, unit ? 10 * (int)(unit - units + 1) : 0);
    if (value < 1 || value >= 0x1p63) return false;
    *out = (uint64_t)value;
    return true;
}

static bool parse_u64(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        const unsigned digit = (unsigned)(*text - '0');
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* ---- one option ---- */

static int bad_value(const cli_option *o, const char *text)
{
    if (o->kind == CLI_U64)
        return cli_bad_usage("--%s: \"%.64s\" is no whole number from %d up", o->name, text, o->lo < 0 ? -1 : 0);
    return cli_bad_usage("--%s: \"%.64s\" is no %s from %.10g to %.10g", o->name, text,
                         o->kind == CLI_INT ? "whole number" : "number", o->lo, o->hi);
}

static int check_words(const cli_option *o, char *text)
{
    char words[CLI_WORDS_SIZE];
    const cli_value *value = o->argument ? cli_value_find(o->argument) : NULL;
    if (cli_value_check(value, text)) return -1;
    cli_value_words(value, ", ", words, sizeof(words));
    return cli_bad_usage("--%s: \"%.64s\" is none of %s", o->name, text, words);
}

int cli_store(const cli_option *o, char *text)
{
    int64_t i = 0;
    double f = 0;
    if ((o->kind == CLI_STRING || o->kind == CLI_STRINGS) && check_words(o, text) >= 0) return CLI_USAGE;
    if (o->set) *o->set = true;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)o->at = true; return -1;
    case CLI_INT:
        if (!cli_parse_int(text, o->lo, o->hi, &i)) return bad_value(o, text);
        *(int32_t *)o->at = (int32_t)i;
        return -1;
    case CLI_U64:
        if (o->lo < 0 && strcmp(text, "-1") == 0) {
            *(uint64_t *)o->at = 0;
            return -1;
        }
        return parse_u64(text, o->at) ? -1 : bad_value(o, text);
    case CLI_FLOAT:
        if (!cli_parse_float(text, o->lo, o->hi, &f)) return bad_value(o, text);
        *(float *)o->at = (float)f;
        return -1;
    case CLI_OUTPUT:
    case CLI_STRING: *(const char **)o->at = text; return -1;
    case CLI_GROUP: return -1; /* never found by a name */
    case CLI_STRINGS: {
        cli_strings *list = o->at;
        if (list->n == CLI_MAX_STRINGS) return cli_bad_usage("--%s: more than %d times", o->name, CLI_MAX_STRINGS);
        list->item[list->n++] = text;
        return -1;
    }
    }
    return -1;
}

/* ---- the command line ---- */

typedef struct other_name {
    const char *written, *meant, *argument;
} other_name;
#define CLI_HINT(written, argument, text)
#define CLI_ALIAS(written, name) {written, name, NULL},
static const other_name aliases[] = {
#include "cli/aliases.def"
};
#undef CLI_ALIAS
#undef CLI_HINT
#define CLI_ALIAS(written, name)
#define CLI_HINT(written, argument, text) {written, text, argument},
static const other_name hints[] = {
#include "cli/aliases.def"
};
#undef CLI_ALIAS
#undef CLI_HINT

static const other_name *meant_by(const other_name *names, int n, const char *dashes, const char *name, size_t len)
{
    const size_t n_dashes = strlen(dashes);
    for (int i = 0; i < n; i++)
        if (strncmp(names[i].written, dashes, n_dashes) == 0 && strlen(names[i].written) == n_dashes + len &&
            memcmp(names[i].written + n_dashes, name, len) == 0)
            return &names[i];
    return NULL;
}

static const cli_option *find_name(const cli_option *options, int n, const char *name, size_t len)
{
    for (int i = 0; name && i < n; i++)
        if (options[i].kind != CLI_GROUP && strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return &options[i];
    return NULL;
}

const cli_option *cli_find_option(const cli_option *options, int n, const char *name, size_t len)
{
    const cli_option *o = find_name(options, n, name, len);
    const other_name *alias = o ? NULL : meant_by(aliases, CLI_N(aliases), "--", name, len);
    return alias ? find_name(options, n, alias->meant, strlen(alias->meant)) : o;
}

/* What --help does. */
static cli_describe_fn describe = cli_print_help;
static void *describe_ctx;

int cli_describe(const cli_command *command, cli_describe_fn fn, void *ctx)
{
    char help[] = "--help", name[sizeof(command->name)];
    memcpy(name, command->name, sizeof(name));
    char *argv[] = {name, help, NULL};
    describe = fn;
    describe_ctx = ctx;
    const int status = command->run(2, argv);
    describe = cli_print_help;
    return status;
}

static const cli_option *find_letter(const cli_option *options, int n, char letter)
{
    for (int i = 0; i < n; i++)
        if (options[i].letter && options[i].letter == letter) return &options[i];
    return NULL;
}

typedef struct option_names {
    const cli_option *options;
    int n;
} option_names;

static const char *option_name(const void *ctx, int i)
{
    const option_names *names = ctx;
    return i < names->n ? names->options[i].name : NULL;
}

static int no_option(const cli_usage *u, const cli_option *options, int n, const char *text)
{
    char typed[64];
    const other_name *hint = meant_by(hints, CLI_N(hints), "", text, strcspn(text, "="));
    if (hint && strstr(u->arguments, hint->argument))
        return cli_bad_usage("\"%.64s\" is no option: %s; usage: quern %s%s%s [options]", text, hint->meant, u->command,
                             *u->arguments ? " " : "", u->arguments);
    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *near = text[1] == '-' ? cli_nearest(typed, option_name, &(option_names){options, n}) : NULL;
    if (near)
        return cli_bad_usage("\"%.64s\" is no option; did you mean --%s? \"quern %s --help\" lists them", text, near,
                             u->command);
    return cli_bad_usage("\"%.64s\" is no option; \"quern %s --help\" lists them", text, u->command);
}

/* The option that an argument names, and its value where that stands in the same argument; NULL: none. */
static const cli_option *option_of(const cli_option *options, int n, char *text, char **value)
{
    *value = NULL;
    if (text[1] != '-') {
        /* llama.cpp's -fa is no -f with the value a */
        const other_name *alias = meant_by(aliases, CLI_N(aliases), "-", text + 1, strlen(text + 1));
        if (alias) return find_name(options, n, alias->meant, strlen(alias->meant));
        if (text[2] && meant_by(hints, CLI_N(hints), "", text, strlen(text))) return NULL;
        const cli_option *o = find_letter(options, n, text[1]);
        if (o && text[2]) *value = text + 2;
        return o;
    }
    const size_t len = strcspn(text + 2, "=");
    if (text[2 + len] == '=') *value = text + 3 + len;
    return cli_find_option(options, n, text + 2, len);
}

/* The next option of a command line that was parsed, from argv[*at] on; moves *at behind it. NULL: no more. */
static const cli_option *next_option(const cli_option *options, int n, int argc, char **argv, int *at)
{
    while (*at < argc && strcmp(argv[*at], "--") != 0) {
        char *value, *text = argv[(*at)++];
        const cli_option *o = text[0] == '-' && text[1] ? option_of(options, n, text, &value) : NULL;
        if (!o) continue;
        *at += o->kind != CLI_FLAG && !value;
        return o;
    }
    return NULL;
}

void cli_given(const cli_option *options, int n, int argc, char **argv, bool *given)
{
    int at = 1;
    for (const cli_option *o; (o = next_option(options, n, argc, argv, &at));) given[o - options] = true;
}

static bool is_listed(const char *names, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = names; (p = strstr(p, name)); p += len)
        if ((p == names || p[-1] == ' ') && (p[len] == ' ' || !p[len])) return true;
    return false;
}

int cli_only(const cli_option *options, int n, int argc, char **argv, const char *names, const char *mode)
{
    int at = 1;
    for (const cli_option *o; (o = next_option(options, n, argc, argv, &at));)
        if (!is_listed(names, o->name)) return cli_bad_usage("--%s does nothing with %s", o->name, mode);
    return CLI_OK;
}

/* An option at argv[*at]; moves *at past a value that stands in the next argument. */
static int parse_option(const cli_usage *u, const cli_option *options, int n, int argc, char **argv, int *at)
{
    char *text = argv[*at], *value = NULL;
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        describe(describe_ctx, u, options, n);
        return cli_finish_output();
    }
    const cli_option *o = option_of(options, n, text, &value);
    if (!o) return no_option(u, options, n, text);
    if (o->kind == CLI_FLAG) return value ? cli_bad_usage("--%s takes no value", o->name) : cli_store(o, NULL);
    if (!value) {
        if (*at + 1 >= argc) return cli_bad_usage("--%s needs a value: %s", o->name, o->argument);
        value = argv[++*at];
    }
    return cli_store(o, value);
}

int cli_parse(const cli_usage *u, const cli_option *options, int n, int argc, char **argv, const char **args,
              int *n_args)
{
    bool ended = false;
    *n_args = 0;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!ended && strcmp(text, "--") == 0) {
            ended = true;
        } else if (!ended && text[0] == '-' && text[1]) { /* a lone "-" is standard input */
            const int status = parse_option(u, options, n, argc, argv, &i);
            if (status >= 0) return status;
        } else {
            if (*n_args == u->max_args)
                return cli_bad_usage("\"%.64s\" is one argument too many; usage: quern %s%s%s [options]", text,
                                     u->command, *u->arguments ? " " : "", u->arguments);
            args[(*n_args)++] = text;
        }
    }
    if (*n_args < u->min_args)
        return cli_bad_usage("an argument is missing; usage: quern %s %s [options]", u->command, u->arguments);
    const int status = cli_note_files(u, options, n, args, *n_args);
    return status == CLI_OK ? -1 : status;
}
