/* SPDX-License-Identifier: MIT */
/* src/cli/chat_line_plain.c -- lines without libedit: the terminal's own erasing, no history. */
#include "cli/chat_line.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct plain_line {
    chat_line base;
    char *text;
    size_t n, cap;
} plain_line;

ssize_t chat_read_byte(unsigned char *c, bool (*came)(void))
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t all, before;
    int n = -1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* or one between the look and the wait would be noticed by the next key */
    if (came())
        errno = EINTR;
    else
        n = ppoll(&fd, 1, NULL, &before);
    int why = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    /* Ctrl-C empties the terminal's queue of what was typed, and while it does Linux may call an empty one readable:
     * the read would wait for the next key. */
    if (n >= 0 && came()) n = -1, why = EINTR;
    errno = why;
    return n < 0 ? -1 : read(STDIN_FILENO, c, 1);
}

static chat_line *open_line(const chat_screen *screen, chat_words complete)
{
    (void)complete;
    plain_line *l = calloc(1, sizeof(*l));
    if (!l) return NULL;
    l->base = (chat_line){.type = &chat_line_plain, .screen = screen};
    return &l->base;
}

static void close_line(chat_line *line)
{
    plain_line *l = (plain_line *)line;
    free(l->text);
    free(l);
}

static void ignore(chat_line *line, const char *text) { (void)line, (void)text; }

static bool add(plain_line *l, char c)
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

static chat_typed read_shown(chat_line *base, const char *prompt, const char **line)
{
    plain_line *l = (plain_line *)base;
    const chat_screen *screen = base->screen;
    FILE *out = screen->terminal ? stdout : stderr;
    fprintf(out, "%s%s%s", chat_screen_code(screen, CHAT_bold), prompt, chat_screen_code(screen, CHAT_plain));
    fflush(out);
    l->n = 0;
    base->was_empty = false;
    for (;;) {
        unsigned char c;
        const ssize_t got = chat_read_byte(&c, cli_interrupted);
        if (got < 0 && errno == EINTR && !cli_interrupted()) continue;
        if (got < 0 && errno == EINTR) {
            fputc('\n', out);
            cli_clear_interrupt();
            base->was_empty = l->n == 0; /* a line under way is with the terminal until it ends: this is a guess */
            return CHAT_TYPED_cancel;
        }
        if (got <= 0 && l->n == 0) {
            fputc('\n', out);
            return CHAT_TYPED_end;
        }
        if (got <= 0 || c == '\n') break;
        if (!add(l, (char)c)) {
            cli_no_memory("out of memory");
            return CHAT_TYPED_end;
        }
    }
    *line = l->n ? l->text : "";
    return CHAT_TYPED_text;
}

static chat_typed read_line(chat_line *base, const char *prompt, const char **line)
{
    chat_echo(true);
    const chat_typed typed = read_shown(base, prompt, line);
    chat_echo(false);
    return typed;
}

const chat_line_type chat_line_plain = {open_line, close_line, read_line, ignore, ignore};
