/* SPDX-License-Identifier: MIT */
/* src/cli/chat_input.c -- messages out of lines; see chat_input.h. Lines come from chat_line.c. */
#include "cli/chat_line.h"
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

struct chat_input {
    chat_line *line;
    char *text; /* of the present message */
    size_t len, cap;
    bool was_empty;
    char history[4096]; /* path; "" without one */
};

/* ---- the terminal ---- */

static struct termios as_it_was;
static bool is_terminal;

void chat_echo(bool on)
{
    struct termios t;
    if (!is_terminal || tcgetattr(STDIN_FILENO, &t) != 0) return;
    t.c_lflag = on ? t.c_lflag | ECHO : t.c_lflag & ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

void chat_input_lend(bool lend)
{
    if (lend && is_terminal) tcsetattr(STDIN_FILENO, TCSADRAIN, &as_it_was);
    if (!lend) chat_echo(false);
}

/* ---- lines ---- */

static void remember_loaded(void *ctx, const char *entry)
{
    chat_line *l = ctx;
    l->type->remember(l, entry);
}

/* Without a cursor that can be moved there is nothing to edit. */
static const chat_line_type *line_type(void)
{
#ifdef QN_LIBEDIT
    const char *term = getenv("TERM");
    if (term && *term && strcmp(term, "dumb") != 0) return &chat_line_edit;
#endif
    return &chat_line_plain;
}

chat_input *chat_input_open(const chat_screen *screen, const char *(*complete)(const void *ctx, int i))
{
    chat_input *in = calloc(1, sizeof(*in));
    is_terminal = tcgetattr(STDIN_FILENO, &as_it_was) == 0;
    chat_echo(false);
    if (in) in->line = line_type()->open(screen, complete);
    if (!in || !in->line) {
        chat_input_close(in);
        cli_no_memory("out of memory");
        return NULL;
    }
    if (chat_history_path(in->history, sizeof(in->history)))
        chat_history_load(in->history, remember_loaded, in->line);
    else
        in->history[0] = '\0';
    return in;
}

void chat_input_close(chat_input *in)
{
    if (!in) return;
    if (in->line) in->line->type->close(in->line);
    chat_input_lend(true);
    free(in->text);
    free(in);
}

bool chat_input_was_empty(const chat_input *in) { return in->was_empty; }
void chat_input_preset(chat_input *in, const char *text) { in->line->type->preset(in->line, text); }

void chat_input_remember(chat_input *in, const char *text)
{
    in->line->type->remember(in->line, text);
    if (in->history[0]) chat_history_append(in->history, text);
}

static bool add(chat_input *in, const char *text, size_t n)
{
    if (in->len + n + 1 > in->cap) {
        const size_t cap = (in->len + n + 1) * 2;
        char *more = realloc(in->text, cap);
        if (!more) return false;
        in->text = more;
        in->cap = cap;
    }
    memcpy(in->text + in->len, text, n);
    in->len += n;
    in->text[in->len] = '\0';
    return true;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    const size_t len = strlen(end);
    return n >= len && memcmp(text + n - len, end, len) == 0;
}

/* Where a message stands. */
typedef enum going { GOING_over, GOING_on, GOING_quoted } going;

/* Adds a line to the message; whether more lines belong to it. */
static going add_line(chat_input *in, going before, const char *line, bool pasting, bool *good)
{
    static const char quotes[] = "\"\"\"";
    size_t n = strlen(line);
    going now = before;
    if (before != GOING_quoted && in->len == 0 && strncmp(line, quotes, 3) == 0) {
        now = GOING_quoted;
        line += 3;
        n -= 3;
        if (n == 0 && !pasting) return now; /* the text begins in the next line */
    }
    if (now == GOING_quoted && ends_with(line, n, quotes)) {
        *good = add(in, line, n - 3);
        return GOING_over;
    }
    const bool more = now != GOING_quoted && ends_with(line, n, "\\");
    *good = add(in, line, n - more);
    if (now != GOING_quoted) now = more || pasting ? GOING_on : GOING_over;
    if (now != GOING_over) *good = *good && add(in, "\n", 1);
    return now;
}

chat_typed chat_input_message(chat_input *in, const char *prompt, const char **text)
{
    going state = GOING_on;
    const char *line;
    bool good = true;
    in->len = 0;
    for (bool first = true; state != GOING_over; first = false) {
        const chat_typed typed = in->line->type->read(in->line, first ? prompt : "... ", &line);
        in->was_empty = first && in->line->was_empty;
        /* what is open when the input ends is a message all the same */
        if (typed == CHAT_TYPED_end && in->len > 0) break;
        if (typed != CHAT_TYPED_text) return typed;
        state = add_line(in, state, line, in->line->pasting, &good);
        if (!good) {
            cli_no_memory("out of memory");
            return CHAT_TYPED_cancel;
        }
    }
    while (in->len && in->text[in->len - 1] == '\n') in->text[--in->len] = '\0';
    *text = in->text ? in->text : "";
    return CHAT_TYPED_text;
}
