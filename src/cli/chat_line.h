/* SPDX-License-Identifier: MIT */
/* src/cli/chat_line.h -- one line from the terminal: edited with libedit where the build has it (chat_line_edit.c),
 * else with what the terminal itself can (chat_line_plain.c). */
#ifndef QN_CLI_CHAT_LINE_H
#define QN_CLI_CHAT_LINE_H

#include "cli/chat_input.h"

typedef struct chat_line chat_line;

chat_line *chat_line_open(const chat_screen *screen, const char *(*complete)(const void *ctx, int i)); /* may be NULL */
void chat_line_close(chat_line *l);
/* *line is without its newline, borrowed until the next call. A line out of the history may hold newlines. */
chat_typed chat_line_read(chat_line *l, const char *prompt, const char **line);
bool chat_line_was_empty(const chat_line *l); /* when it was cancelled */
bool chat_line_pasting(const chat_line *l);   /* the line ended within a text that is being pasted: more of it comes */
void chat_line_preset(chat_line *l, const char *text);
void chat_line_remember(chat_line *l, const char *text);

#endif
