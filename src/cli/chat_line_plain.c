/* SPDX-License-Identifier: MIT */
/* src/cli/chat_line_plain.c -- lines without libedit: the terminal's own erasing, no history. */
#ifndef QN_LIBEDIT
#include "cli/chat_line.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat_line {
    const chat_screen *screen;
    char *text;
    size_t n, cap;
    bool was_empty;
};

chat_line *chat_line_open(const chat_screen *screen, const char *(*complete)(const void *ctx, int i))
{
    (void)complete;
    chat_line *l = calloc(1, sizeof(*l));
    if (l) l->screen = screen;
    return l;
}

void chat_line_close(chat_line *l)
{
    if (l) free(l->text);
    free(l);
}

bool chat_line_was_empty(const chat_line *l) { return l->was_empty; }
bool chat_line_pasting(const chat_line *l) { return (void)l, false; }
void chat_line_preset(chat_line *l, const char *text) { (void)l, (void)text; }
void chat_line_remember(chat_line *l, const char *text) { (void)l, (void)text; }

static bool add(chat_line *l, char c)
{
    if (l->n + 1 >= l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 256;
        char *more = realloc(l->text, cap);
        if (!more) return false;
        l->text = more;
        l->cap = cap;
    }
    l->text[l->n++] = c;
    l->text[l->n] = '\0';
    return true;
}

chat_typed chat_line_read(chat_line *l, const char *prompt, const char **line)
{
    FILE *out = l->screen->terminal ? stdout : stderr;
    fprintf(out, "%s%s%s", chat_screen_code(l->screen, CHAT_bold), prompt, chat_screen_code(l->screen, CHAT_plain));
    fflush(out);
    l->n = 0;
    l->was_empty = false;
    for (;;) {
        char c;
        const ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got < 0 && errno == EINTR && !cli_interrupted()) continue;
        if (got < 0 && errno == EINTR) {
            fputc('\n', out);
            cli_clear_interrupt();
            l->was_empty = l->n == 0; /* a line under way is with the terminal until it ends: this is a guess */
            return CHAT_TYPED_cancel;
        }
        if (got <= 0 && l->n == 0) {
            fputc('\n', out);
            return CHAT_TYPED_end;
        }
        if (got <= 0 || c == '\n') break;
        if (!add(l, c)) {
            cli_no_memory("out of memory");
            return CHAT_TYPED_end;
        }
    }
    *line = l->n ? l->text : "";
    return CHAT_TYPED_text;
}
#else
typedef int chat_line_plain_is_empty; /* C wants a declaration in every file */
#endif
