/* SPDX-License-Identifier: MIT */
/* src/cli/config.c -- options from a file: every line becomes an argument, so that both roads accept and refuse the
 * same. */
#include "cli/cli.h"
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)1 << 20)

/* Cuts blanks from both ends, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1])) n--;
    text[n] = '\0';
    return text;
}

static int apply(const char *path, int number, char *line, const cli_option *options, int n)
{
    char *equals = strchr(line, '=');
    if (!equals) return cli_fail("%s:%d: \"%.64s\" is no \"name = value\"", path, number, line);
    *equals = '\0';
    char *name = trim(line), *value = trim(equals + 1);
    const cli_option *o = cli_find_option(options, n, name, strlen(name));
    if (!o) return cli_fail("%s:%d: \"%.64s\" is no option", path, number, name);
    if (strcmp(name, "config") == 0) return cli_fail("%s:%d: a file of options names no other one", path, number);
    if (o->kind != CLI_FLAG) return cli_store(o, value);
    const bool on = strcmp(value, "true") == 0;
    if (!on && strcmp(value, "false") != 0)
        return cli_fail("%s:%d: %s is \"%.64s\"; true or false is expected", path, number, name, value);
    return on ? cli_store(o, NULL) : -1;
}

int cli_parse_file(const char *path, const cli_option *options, int n, char **text)
{
    size_t len = 0;
    *text = cli_read_text(path, MAX_CONFIG_BYTES, &len);
    if (!*text) return CLI_FAILED;
    if (strlen(*text) != len) return cli_fail("%s holds a zero byte; text is expected", path);
    char *line = *text;
    for (int number = 1; line; number++) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        line[strcspn(line, "#")] = '\0';
        char *content = trim(line);
        const int status = *content ? apply(path, number, content, options, n) : -1;
        if (status >= 0) return status;
        line = end ? end + 1 : NULL;
    }
    return -1;
}
