/* SPDX-License-Identifier: MIT */
/* src/cli/chat.h -- what the files of quern chat share. chat.c: options, one turn or many. chat_prompt.c: from the
 * conversation to what the model has read. chat_answer.c: an answer as it comes. chat_tools.c: calls and their results.
 * chat_command.c: /help and its like. chat_screen.c, chat_input.c, chat_line_*.c, chat_history.c: the terminal.
 *
 * What the conversation is lies in `messages` alone: each turn renders it anew, and the cache gives what it still has.
 */
#ifndef QN_CLI_CHAT_H
#define QN_CLI_CHAT_H

#include "cli/chat_input.h"
#include "cli/chat_screen.h"
#include "cli/generation.h"
#include <quern/chat.h>
#include <quern/messages.h>

#define CHAT_MAX_TEXT_BYTES ((size_t)64 << 20)

typedef struct chat_options {
    cli_generation gen;
    int32_t n_predict;
    const char *prompt, *system, *think, *tools, *tool_choice, *kwargs, *template_name, *template_file;
    cli_strings stop;
    bool context_shift;
} chat_options;

/* Of the last answer. */
typedef struct chat_stats {
    size_t n_prompt, n_reused, n_computed, n_answer; /* tokens */
    double prompt_seconds, first_seconds, answer_seconds;
} chat_stats;

typedef struct chat {
    chat_options o;
    const char *model;
    chat_screen screen;
    chat_input *input; /* NULL where nobody types */
    qn_engine *engine;
    const qn_tokenizer *tok;
    qn_session *session;
    qn_chat_template *tmpl;
    qn_grammar *grammar;
    qn_matcher *matcher; /* NULL without a grammar */
    char *tools;         /* JSON, NULL without tools */
    char *schema;        /* of answers, NULL without one */
    bool has_results;    /* the tools that had to be called were called */
    bool told_widened;
    qn_messages *messages;
    size_t first; /* messages before it are no longer read, but for the system turns at the beginning */
    chat_stats stats;
    uint64_t n_answers;
    char *kept[64]; /* texts that options were set to by /set */
    int n_kept;
} chat;

/* ---- chat_prompt.c ---- */
/* What the model reads, and behind it what it has said since. */
typedef struct chat_ids {
    qn_prompt prompt;
    qn_token *ids; /* [n], the first n_prompt of the prompt */
    size_t n_prompt, n, cap;
} chat_ids;
/* Of the messages from `first` on. */
int chat_ids_render(const chat *c, size_t first, chat_ids *out);
int chat_ids_add(chat_ids *ids, qn_token id);
void chat_ids_deinit(chat_ids *ids);
/* CLI_OK when the context has room for at least one token more. Otherwise the oldest turns are left out, where
 * --context-shift or the user says so, and *shift tells whether cells may be moved; where there are none, the oldest
 * half of an answer that has a number of tokens to go to. CLI_FAILED where not: after a message, unless an answer is
 * under way, which chat_say_full tells about once it has ended. */
int chat_ids_fit(chat *c, chat_ids *ids, bool *shift);
void chat_say_full(chat *c, const chat_ids *ids);
/* Computes what the cache does not have. CLI_OK, CLI_INTERRUPTED, or the status of a message. */
int chat_ids_compute(chat *c, const chat_ids *ids, bool shift, size_t *n_reused);

/* ---- chat_answer.c ---- */
typedef enum chat_end {
    CHAT_END_done,
    CHAT_END_stopped, /* Ctrl-C */
    CHAT_END_limit,   /* as many tokens as were asked for */
    CHAT_END_full     /* the context is; it was said */
} chat_end;
/* The grammar that an answer to that prompt follows: calls as the tools have them, content by the schema; NULL where
 * nothing is to be held. */
int chat_hold(chat *c, const qn_prompt *prompt, qn_grammar **out);
/* Has the model answer, and adds what it said to the messages, a part too. When nothing was said at all, the messages
 * stay as they are. n_calls: whole calls in the new message. CLI_FAILED after a message too where a schema's answer is
 * not whole. */
int chat_answer(chat *c, chat_end *end, int *n_calls);

/* ---- chat_tools.c ---- */
/* Shows the calls of the last message; asks for their results and adds them, where somebody types. *given: all came. */
int chat_ask_results(chat *c, bool *given);
/* The calls, a JSON object a line. */
int chat_print_calls(const chat *c);

/* ---- chat.c ---- */
/* An answer, and those after the results of its calls. */
int chat_reply(chat *c);
/* The text as the user's next message, and a reply. A message that nothing was said to is taken back. */
int chat_turn(chat *c, const char *text);
/* A message's content as text, freed with free; NULL where it has none. */
char *chat_message_text(const chat *c, size_t i);

/* ---- chat_command.c ---- */
bool chat_is_command(const char *text);
/* Runs "/name arguments"; *leave: the user wants to. What goes wrong is said; returns CLI_OK unless output is lost. */
int chat_command(chat *c, const char *text, bool *leave);
const char *chat_command_name(const void *ctx, int i); /* NULL past the last */
/* Rows of sampling options and of chat's own that may change in mid-conversation. */
#define CHAT_N_CHANGEABLE 3
/* clang-format off */
#define CHAT_CHANGEABLE_OPTIONS(o) \
    {"predict", 'n', CLI_INT, &(o).n_predict, "N", "tokens of an answer at most; -1: until the context is full", -1, \
        1 << 30, NULL}, \
    {"think", 0, CLI_STRING, &(o).think, "THINK", "whether and how hard the model thinks before it answers, where " \
        "its template can say so", 0, 0, NULL}, \
    {"context-shift", 0, CLI_FLAG, &(o).context_shift, NULL, "when the context is full, leave out the oldest turns " \
        "and move what is computed of the others (default: ask, or fail where nobody can be asked)", 0, 0, NULL}
/* clang-format on */

#endif
