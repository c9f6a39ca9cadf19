/* SPDX-License-Identifier: MIT */
/* src/cli/chat_screen.h -- what quern chat shows. On a terminal, text that a model, a file or a tool gave cannot steer
 * it: control characters are shown as pictures. Elsewhere the bytes of answers go out as they are, without decoration,
 * and what the program says of itself goes to standard error. */
#ifndef QN_CLI_CHAT_SCREEN_H
#define QN_CLI_CHAT_SCREEN_H

#include "cli/cli.h"

typedef enum chat_style { CHAT_plain, CHAT_dim, CHAT_bold, CHAT_accent, CHAT_alert } chat_style;

typedef struct chat_screen {
    bool terminal, colours;
    bool aside;      /* somebody types, but answers go elsewhere: what the program says goes to standard error */
    bool line_start; /* nothing stands on the present line */
    chat_style style;
} chat_screen;

void chat_screen_init(chat_screen *s);
/* The escape sequence that switches to a style; "" without colours. */
const char *chat_screen_code(const chat_screen *s, chat_style style);
/* A piece of text, whole UTF-8 characters. Nothing is flushed. */
void chat_screen_text(chat_screen *s, chat_style style, const char *text, size_t len);
/* Ends the line if something stands on it. */
void chat_screen_end_line(chat_screen *s);
/* A line of the program's own. Elsewhere than on a terminal it goes to standard error, and only if it is an alert. */
void chat_screen_say(chat_screen *s, chat_style style, const char *fmt, ...) QN_PRINTF(3, 4);
/* CLI_OK, or the status of output that was lost. */
int chat_screen_flush(chat_screen *s);

#endif
