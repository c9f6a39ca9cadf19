/* SPDX-License-Identifier: MIT */
/* src/cli/chat_input.h -- what a person types: lines edited with libedit where the build has it, else as the terminal
 * has them; messages of several lines; a history that lasts. */
#ifndef QN_CLI_CHAT_INPUT_H
#define QN_CLI_CHAT_INPUT_H

#include "cli/chat_screen.h"

typedef struct chat_input chat_input;

typedef enum chat_typed {
    CHAT_TYPED_text,
    CHAT_TYPED_end,    /* Ctrl-D in an empty line, or the input is over */
    CHAT_TYPED_cancel, /* Ctrl-C; whether something stood in the line is chat_input_was_empty */
} chat_typed;

/* The terminal is the process's; `complete` gives the words that a line may begin with, or NULL past the last. The
 * history is read from its file. NULL after a message. */
chat_input *chat_input_open(const chat_screen *screen, const char *(*complete)(const void *ctx, int i));
void chat_input_close(chat_input *in);
/* From opening to closing the terminal shows what is typed only while a line is read: what is typed into an answer
 * waits for the next line, and does not stand in the answer. An editor gets the terminal as it was. */
void chat_input_lend(bool lend);

/* A message: one line, or more of them: a trailing \ goes on in the next line, and a line that begins with """ opens a
 * text that a line with """ at its end closes. A text that was pasted is one message. *text is borrowed until the next
 * call. */
chat_typed chat_input_message(chat_input *in, const char *prompt, const char **text);
bool chat_input_was_empty(const chat_input *in);
/* What the next message's line begins with, for editing; borrowed until then. */
void chat_input_preset(chat_input *in, const char *text);
/* Adds to the history and its file. */
void chat_input_remember(chat_input *in, const char *text);

/* ---- chat_history.c: the file, an entry a line ---- */
/* $XDG_STATE_HOME/quern/chat_history, or below ~/.local/state; makes the folders. False where there is no place. */
bool chat_history_path(char *path, size_t size);
/* Calls add for each entry, the oldest first. */
void chat_history_load(const char *path, void (*add)(void *ctx, const char *entry), void *ctx);
void chat_history_append(const char *path, const char *entry);

#endif
