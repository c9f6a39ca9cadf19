/* SPDX-License-Identifier: MIT */
/* src/cli/trace_command.c -- the command of a recording with one option more, to be typed. The note has it as words for
 * a shell: of plain characters, and the rest in quotes. */
#include "cli/trace.h"
#include <string.h>

/* Where a text for a shell is inside of quotes. */
typedef struct quotes {
    bool single, twofold;
} quotes;

static void pass(quotes *q, char c)
{
    if (c == '"' && !q->single) q->twofold = !q->twofold;
    if (c == '\'' && !q->twofold) q->single = !q->single;
}

/* Where an option that is added goes: before the word that ends options, if there is one. */
static size_t options_end(const char *command)
{
    quotes q = {0};
    size_t i = 0;
    for (; command[i]; pass(&q, command[i++])) {
        const char *word = command + i;
        if (!q.single && !q.twofold && strncmp(word, " --", 3) == 0 && (word[3] == ' ' || word[3] == '\0')) break;
    }
    return i;
}

/* As a shell reads it, byte for byte; what could harm a terminal is in $'..'. */
static void print_words(const char *text, size_t n)
{
    quotes q = {0};
    for (size_t i = 0; i < n;) {
        const size_t c = trace_harmless(text + i);
        pass(&q, text[i]);
        if (c > 0)
            i += fwrite(text + i, 1, c, stdout);
        else
            printf(q.single ? "'$'\\x%02x''" : "$'\\x%02x'", (unsigned char)text[i++]);
    }
}

void trace_print_command(const char *command, const char *option)
{
    if (!command) return;
    const size_t end = options_end(command);
    printf("   quern ");
    print_words(command, end);
    /* serve's keys are no business of a recording: its name alone is there */
    if (strcmp(command, "serve") == 0) printf(" ..");
    /* recorded too, beside this one: what was expected and what came can be compared */
    printf(" %s --trace after.qtr", option);
    print_words(command + end, strlen(command + end));
    printf("\n");
}
