/* SPDX-License-Identifier: MIT */
/* src/cli/chat_line_edit.c -- lines edited with libedit. Characters are read here and not by the library, so that
 * signals, pasted text and what a line begins with can be handled where they come. */
#ifdef QN_LIBEDIT
#include "cli/chat_line.h"
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_REMEMBERED = 1000, SHOW = 037 /* the key of on_show, which nobody has */ };

typedef struct edit_line {
    chat_line base;
    FILE *out;
    EditLine *el;
    History *history;
    chat_words complete;
    char prompt[64];
    char *text, *preset;
    unsigned char ahead[8]; /* bytes that were read to see what they begin */
    int n_ahead;
    bool interrupted, quoting;
} edit_line;

static volatile sig_atomic_t resized, resumed;
static void on_resize(int signal_number) { (void)signal_number, resized = 1; }
static void on_resume(int signal_number) { (void)signal_number, resumed = 1; }

/* ---- characters ---- */

static const char paste_begins[] = "\033[200~", paste_ends[] = "\033[201~";

static edit_line *of(EditLine *el)
{
    void *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    return l;
}

enum { AT_END = 256 };

static bool signal_came(void) { return resized || resumed || cli_interrupted(); }

/* The next byte; AT_END, or -1 when interrupted. */
static int next_byte(edit_line *l)
{
    unsigned char c;
    if (l->n_ahead) {
        c = l->ahead[0];
        memmove(l->ahead, l->ahead + 1, (size_t)--l->n_ahead);
        return c;
    }
    for (;;) {
        const ssize_t got = chat_read_byte(&c, signal_came);
        if (got == 1) return c;
        if (got == 0 || errno != EINTR) return AT_END;
        if (cli_interrupted()) return -1;
        if (resized) el_resize(l->el);
        if (resumed) {
            el_set(l->el, EL_PREP_TERM, 1); /* the shell had the terminal meanwhile */
            el_set(l->el, EL_REFRESH);
        }
        resized = resumed = 0;
    }
}

/* After an escape: the rest of a mark of pasted text, which terminals send in one piece. What turns out to be another
 * sequence is given back. */
static bool take_mark(edit_line *l, const char *mark)
{
    const int n = (int)strlen(mark) - 1;
    while (l->n_ahead < n) {
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        if (memcmp(l->ahead, mark + 1, (size_t)l->n_ahead) != 0 || poll(&fd, 1, 20) <= 0 || signal_came()) return false;
        unsigned char c;
        if (read(STDIN_FILENO, &c, 1) != 1) return false;
        l->ahead[l->n_ahead++] = c;
    }
    if (memcmp(l->ahead, mark + 1, (size_t)n) != 0) return false;
    l->n_ahead -= n;
    memmove(l->ahead, l->ahead + n, (size_t)l->n_ahead);
    return true;
}

/* UTF-8 by hand: what a broken sequence begins becomes U+FFFD. */
static wchar_t decode(edit_line *l, int first)
{
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (first < 0x80) return (wchar_t)first;
    if (!more || first > 0xf4) return 0xfffd;
    uint32_t cp = (uint32_t)first & (0x3fu >> more);
    for (int i = 0; i < more; i++) {
        const int c = next_byte(l);
        if (c < 0 || c == AT_END || (c & 0xc0) != 0x80) {
            if (c >= 0 && c != AT_END) l->ahead[l->n_ahead++] = (unsigned char)c;
            return 0xfffd;
        }
        cp = cp << 6 | (uint32_t)(c & 0x3f);
    }
    return cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? 0xfffd : (wchar_t)cp;
}

static int get_char(EditLine *el, wchar_t *out)
{
    edit_line *l = of(el);
    if (l->preset) {
        el_insertstr(el, l->preset);
        free(l->preset);
        l->preset = NULL;
        *out = SHOW;
        return 1;
    }
    for (;;) {
        const int c = next_byte(l);
        if (c < 0) {
            const LineInfo *info = el_line(el);
            l->interrupted = true;
            l->base.was_empty = info->lastchar == info->buffer;
            return -1;
        }
        if (c == AT_END) return 0;
        if (c == 0) continue; /* Ctrl-Space */
        if (c == 033 && take_mark(l, l->base.pasting ? paste_ends : paste_begins)) {
            l->base.pasting = !l->base.pasting;
            continue;
        }
        if (l->base.pasting && c == '\r') {
            *out = '\n';
            return 1;
        }
        if (l->base.pasting && c < 0x20 && c != '\n' && c != '\t') continue; /* would be a command of the editor */
        if (l->base.pasting && c == '\t' && !l->quoting) {
            l->ahead[l->n_ahead++] = '\t';
            l->quoting = true;
            *out = 026; /* take the next character as it is */
            return 1;
        }
        l->quoting = false;
        *out = decode(l, c);
        return 1;
    }
}

/* ---- completing the names of commands ---- */

static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

/* Under the line, which is shown again below. */
static void list_matches(const edit_line *l, const char *begin, size_t n)
{
    const char *name, *gap = "\n";
    for (int i = 0; (name = l->complete(NULL, i)); i++) {
        if (strlen(name) < n || memcmp(name, begin, n) != 0) continue;
        fprintf(l->out, "%s/%s", gap, name);
        gap = "  ";
    }
    fputc('\n', l->out);
}

static unsigned char on_tab(EditLine *el, int key)
{
    (void)key;
    const edit_line *l = of(el);
    const LineInfo *info = el_line(el);
    const size_t n = (size_t)(info->cursor - info->buffer);
    const char *match = NULL;
    size_t shared = 0;
    int n_matches = 0;
    char rest[32];
    if (n == 0 || info->buffer[0] != '/' || memchr(info->buffer, ' ', n)) return CC_ERROR;
    for (int i = 0; l->complete && l->complete(NULL, i); i++) {
        const char *name = l->complete(NULL, i);
        if (strlen(name) < n - 1 || memcmp(name, info->buffer + 1, n - 1) != 0) continue;
        shared = n_matches++ ? common(name, match) < shared ? common(name, match) : shared : strlen(name);
        match = name;
    }
    if (!match) return CC_ERROR;
    snprintf(rest, sizeof(rest), "%.*s%s", (int)(shared - (n - 1)), match + n - 1, n_matches == 1 ? " " : "");
    if (*rest && el_insertstr(el, rest) != 0) return CC_ERROR;
    if (n_matches == 1 || *rest) return n_matches == 1 ? CC_REFRESH : CC_REFRESH_BEEP;
    list_matches(l, info->buffer + 1, n - 1);
    return CC_REDISPLAY;
}

/* The line as it is, where characters came into it unseen. */
static unsigned char on_show(EditLine *el, int key) { return (void)el, (void)key, CC_REFRESH; }

/* ---- the line ---- */

static char *prompt_of(EditLine *el) { return of(el)->prompt; }

static void on_signal(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}; /* an answer under way goes on */
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

/* Characters have the width that Unicode says, whatever the locale is called. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind(EditLine *el)
{
    static const struct {
        const char *key, *function;
    } keys[] = {
        {"\\e[1;5C", "em-next-word"},  {"\\e[1;5D", "ed-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
        {"\\e[H", "ed-move-to-beg"},   {"\\e[F", "ed-move-to-end"},  {"\\e[1~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"},  {"^R", "em-inc-search-prev"}, {"^L", "ed-clear-screen"},
        {"^W", "ed-delete-prev-word"}, {"^U", "vi-kill-line-prev"},
    };
    for (int i = 0; i < CLI_N(keys); i++) el_set(el, EL_BIND, keys[i].key, keys[i].function, NULL);
    el_wset(el, EL_ADDFN, L"quern-complete", L"Complete the name of a command", on_tab);
    el_set(el, EL_BIND, "^I", "quern-complete", NULL);
    el_wset(el, EL_ADDFN, L"quern-show", L"Show the line", on_show);
    el_set(el, EL_BIND, "^_", "quern-show", NULL);
}

static void close_line(chat_line *line)
{
    edit_line *l = (edit_line *)line;
    if (l->history) history_end(l->history);
    if (l->el) el_end(l->el);
    free(l->text);
    free(l->preset);
    free(l);
}

static chat_line *open_line(const chat_screen *screen, chat_words complete)
{
    HistEvent event;
    edit_line *l = calloc(1, sizeof(*l));
    if (!l) return NULL;
    use_utf8();
    l->base = (chat_line){.type = &chat_line_edit, .screen = screen};
    l->complete = complete;
    l->out = screen->terminal ? stdout : stderr;
    l->el = el_init("quern", stdin, l->out, stderr);
    l->history = history_init();
    if (!l->el || !l->history) {
        close_line(&l->base);
        return NULL;
    }
    history(l->history, &event, H_SETSIZE, MOST_REMEMBERED);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT_ESC, prompt_of, '\1');
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_SIGNAL, 0);
    bind(l->el);
    el_source(l->el, NULL);
    el_set(l->el, EL_GETCFN, get_char);
    on_signal(SIGWINCH, on_resize);
    on_signal(SIGCONT, on_resume);
    return &l->base;
}

static void preset(chat_line *line, const char *text)
{
    edit_line *l = (edit_line *)line;
    free(l->preset);
    l->preset = strdup(text);
}

static void remember(chat_line *line, const char *text)
{
    HistEvent event;
    history(((edit_line *)line)->history, &event, H_ENTER, text);
}

/* The escape sequence back stands before the last blank: libedit leaves one out that nothing follows. */
static void set_prompt(edit_line *l, const char *prompt)
{
    const int n = (int)strlen(prompt) - 1;
    if (l->base.screen->colours && n > 0)
        snprintf(l->prompt, sizeof(l->prompt), "\1%s\1%.*s\1%s\1%s", chat_screen_code(l->base.screen, CHAT_bold), n,
                 prompt, chat_screen_code(l->base.screen, CHAT_plain), prompt + n);
    else
        snprintf(l->prompt, sizeof(l->prompt), "%s", prompt);
}

static chat_typed read_line(chat_line *base, const char *prompt, const char **line)
{
    edit_line *l = (edit_line *)base;
    int n = 0;
    set_prompt(l, prompt);
    l->interrupted = l->base.was_empty = false;
    if (!l->base.pasting) fputs("\033[?2004h", l->out); /* pasted text comes between marks */
    if (resized) el_resize(l->el);
    resized = 0;
    el_set(l->el, EL_PREP_TERM, 1); /* or what is typed just after the prompt was shown would be the terminal's */
    const char *got = el_gets(l->el, &n);
    chat_echo(false); /* libedit has switched it on */
    if (!l->base.pasting) fputs("\033[?2004l", l->out);
    fflush(l->out);
    free(l->text);
    l->text = got && n > 0 ? strndup(got, (size_t)n - (got[n - 1] == '\n')) : NULL;
    if (l->text) {
        *line = l->text;
        return CHAT_TYPED_text;
    }
    fputc('\n', l->out);
    cli_clear_interrupt();
    l->base.pasting = false;
    return l->interrupted ? CHAT_TYPED_cancel : CHAT_TYPED_end;
}

const chat_line_type chat_line_edit = {open_line, close_line, read_line, preset, remember};
#else
typedef int chat_line_edit_is_empty; /* C wants a declaration in every file */
#endif
