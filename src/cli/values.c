/* SPDX-License-Identifier: MIT */
/* src/cli/values.c -- what the values of options can be, by their placeholders, and which name is near to a mistyped
 * one. */
#include "cli/describe.h"
#include <quern/engine.h>
#include <quern/machine.h>
#include <quern/text.h>
#include <quern/train.h>
#include <string.h>
#include <strings.h>

#define SAMPLER_NAME(name, letter, text) ", " #name
#define SAMPLER_NAMES                    (&(QN_SAMPLER_ROWS(SAMPLER_NAME))[2])

static const char *const *sampler_letters(void)
{
#define SAMPLER_LETTER(name, letter, text) letter,
    static const char letters[] = {QN_SAMPLER_ROWS(SAMPLER_LETTER) '\0'};
#undef SAMPLER_LETTER
    static const char *const list[] = {letters, NULL};
    return list;
}

/* Without the types that are read and not written. */
static const char *const *packed_types(void)
{
    static const char *names[64];
    int n = 0;
    for (const char *const *name = qn_synth_types(); *name && n < CLI_N(names) - 1; name++) {
        qn_dtype dtype;
        if (!qn_dtype_find(*name, &dtype) || qn_dtype_can_pack(dtype)) names[n++] = *name;
    }
    names[n] = NULL;
    return names;
}

static const char *const *command_names(void)
{
    static const char *names[64];
    for (int i = 0; i < cli_n_commands() && i < CLI_N(names) - 1; i++) names[i] = cli_command_get(i)->name;
    return names;
}

static const cli_value values[] = {
#define CLI_VALUE(placeholder, kind, separator, words, list) {placeholder, CLI_VALUE_##kind, separator, words, list},
#include "cli/values.def"
#undef CLI_VALUE
};

const cli_value *cli_value_find(const char *argument)
{
    argument += *argument == '[';
    size_t len = strcspn(argument, "[]|:=(");
    const char *dots = strstr(argument, "...");
    if (dots && (size_t)(dots - argument) < len) len = (size_t)(dots - argument);
    for (int i = 0; i < CLI_N(values); i++)
        if (strlen(values[i].placeholder) == len && memcmp(values[i].placeholder, argument, len) == 0)
            return &values[i];
    return NULL;
}

void cli_value_words(const cli_value *value, const char *between, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = '\0';
    if (!value) return;
    for (const char *const *word = value->list ? value->list() : NULL; word && *word && n < size; word++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? between : "", *word);
    for (const char *p = value->words; p && *p && n < size; p += strcspn(p, ", "), p += strspn(p, ", "))
        n += (size_t)snprintf(buf + n, size - n, "%s%.*s", n ? between : "", (int)strcspn(p, ", "), p);
}

bool cli_value_check(const cli_value *value, char *text)
{
    char words[CLI_WORDS_SIZE];
    if (!value || value->kind != CLI_VALUE_words) return true;
    cli_value_words(value, " ", words, sizeof(words));
    const char end[] = {value->separator, '\0'};
    for (char *p = text;; p++) {
        const size_t len = strcspn(p, end);
        const char *found = NULL;
        for (const char *word = words; *word && !found; word += strcspn(word, " "), word += *word == ' ')
            if (strcspn(word, " ") == len && strncasecmp(word, p, len) == 0) found = word;
        if (!found) return false;
        memcpy(p, found, len);
        p += len;
        if (!*p) return true;
    }
}

/* ---- near names ---- */

/* Insertions, deletions, replacements and exchanges of neighbours that make one of the other. */
static size_t distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    size_t rows[3][MAX + 1];
    const size_t n = strnlen(a, MAX), m = strnlen(b, MAX);
    for (size_t j = 0; j <= m; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < least) least = above[j] + 1;
            if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < least)
                least = two_above[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n % 3][m];
}

const char *cli_nearest(const char *typed, const char *(*candidate)(const void *ctx, int i), const void *ctx)
{
    const size_t len = strlen(typed);
    const char *best = NULL, *name;
    size_t least = len < 4 ? 1 : len / 3; /* further away it is another word */
    for (int i = 0; (name = candidate(ctx, i)); i++) {
        size_t d = distance(typed, name);
        /* The beginning of a name, or a name with something before it (--n-predict). */
        if (len >= 3 && d > 1 && (strncmp(name, typed, len) == 0 || (strlen(name) >= 4 && strstr(typed, name)))) d = 1;
        if (d > least || (best && d == least)) continue;
        best = name;
        least = d;
    }
    return best;
}
