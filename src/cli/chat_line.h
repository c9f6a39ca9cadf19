/* SPDX-License-Identifier: MIT */
/* src/cli/chat_line.h -- one line from the terminal: edited with libedit (chat_line_edit.c) where the build has it and
 * the terminal can, else with what the terminal itself does (chat_line_plain.c). */
#ifndef QN_CLI_CHAT_LINE_H
#define QN_CLI_CHAT_LINE_H

#include "cli/chat_input.h"
#include <sys/types.h>

typedef const char *(*chat_words)(const void *ctx, int i); /* NULL past the last */

typedef struct chat_line chat_line;
typedef struct chat_line_type {
    chat_line *(*open)(const chat_screen *screen, chat_words complete); /* NULL without memory */
    void (*close)(chat_line *l);                                        /* not NULL */
    /* *line is without its newline, borrowed until the next call. A line out of the history may hold newlines. */
    chat_typed (*read)(chat_line *l, const char *prompt, const char **line);
    void (*preset)(chat_line *l, const char *text);
    void (*remember)(chat_line *l, const char *text);
} chat_line_type;

/* What both begin with. */
struct chat_line {
    const chat_line_type *type;
    const chat_screen *screen;
    bool was_empty; /* when it was cancelled */
    bool pasting;   /* the line ended within a text that is being pasted: more of it comes */
};

/* Whether the terminal shows what is typed. */
void chat_echo(bool on);
/* As read() of one byte from standard input, but a signal ends the waiting with EINTR although writes are restarted,
 * and so does one that `came` knows of already. */
ssize_t chat_read_byte(unsigned char *c, bool (*came)(void));

extern const chat_line_type chat_line_plain;
#ifdef QN_LIBEDIT
extern const chat_line_type chat_line_edit;
#endif

#endif
