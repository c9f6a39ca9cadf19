/* SPDX-License-Identifier: MIT */
/* src/cli/chat_screen.c -- see chat_screen.h. */
#include "cli/chat_screen.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void chat_screen_init(chat_screen *s)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    *s = (chat_screen){.terminal = isatty(STDOUT_FILENO), .line_start = true};
    s->colours = s->terminal && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

const char *chat_screen_code(const chat_screen *s, chat_style style)
{
    static const char *const codes[] = {
        [CHAT_plain] = "\033[0m",   [CHAT_dim] = "\033[2m",    [CHAT_bold] = "\033[1m",
        [CHAT_accent] = "\033[36m", [CHAT_alert] = "\033[33m",
    };
    return s->colours ? codes[style] : "";
}

static void switch_to(chat_screen *s, chat_style style)
{
    if (style == s->style) return;
    fputs(chat_screen_code(s, CHAT_plain), stdout);
    if (style != CHAT_plain) fputs(chat_screen_code(s, style), stdout);
    s->style = style;
}

/* How many bytes at p may not reach a terminal: C0 without newline and tab, DEL, and the C1 controls of UTF-8. *picture
 * is what stands for them. */
static size_t control(const unsigned char *p, size_t n, char picture[4])
{
    if (*p == '\n' || *p == '\t' || (*p >= 0x20 && *p != 0x7f && *p != 0xc2)) return 0;
    if (*p == 0xc2 && (n < 2 || p[1] >= 0xa0)) return 0;
    const bool c1 = *p == 0xc2;
    memcpy(picture, "\xe2\x90\x80", 4); /* U+2400 and on: pictures of C0 */
    if (c1)
        memcpy(picture, "\xef\xbf\xbd", 4);
    else
        picture[2] = (char)(*p == 0x7f ? 0xa1 : 0x80 + *p);
    return c1 ? 2 : 1;
}

void chat_screen_text(chat_screen *s, chat_style style, const char *text, size_t len)
{
    char picture[4];
    if (len == 0) return;
    if (s->terminal) switch_to(s, style);
    size_t from = 0;
    for (size_t i = 0; s->terminal && i < len;) {
        const size_t n = control((const unsigned char *)text + i, len - i, picture);
        if (n == 0) {
            i++;
            continue;
        }
        fwrite(text + from, 1, i - from, stdout);
        fputs(picture, stdout);
        from = i += n;
    }
    fwrite(text + from, 1, len - from, stdout);
    s->line_start = text[len - 1] == '\n';
}

void chat_screen_end_line(chat_screen *s)
{
    if (s->terminal) switch_to(s, CHAT_plain);
    if (!s->line_start) putchar('\n');
    s->line_start = true;
}

static size_t columns(void)
{
    enum { USUAL = 80, NARROWEST = 20 };
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return USUAL;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

/* Characters of the first n bytes: our own lines hold none that are two columns wide. */
static size_t width_of(const char *text, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

void chat_screen_say(chat_screen *s, chat_style style, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    const int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0) return;
    if (!s->terminal) {
        if (s->aside)
            fprintf(stderr, "%s\n", text);
        else if (style == CHAT_alert)
            cli_note("%s", text);
        free(text);
        return;
    }
    chat_screen_end_line(s);
    const size_t most = columns();
    size_t at = 0;                    /* column */
    for (const char *p = text; *p;) { /* broken between words; blanks that begin a line stay */
        const size_t blanks = strspn(p, " "), n = blanks + strcspn(p + blanks, " \n"), width = width_of(p, n);
        if (at && at + width > most) {
            chat_screen_text(s, style, "\n", 1);
            at = 0;
            p += blanks;
            continue;
        }
        chat_screen_text(s, style, p, n);
        at += width;
        p += n;
        if (*p != '\n') continue;
        chat_screen_text(s, style, p++, 1);
        at = 0;
    }
    free(text);
    chat_screen_end_line(s);
    fflush(stdout);
}

int chat_screen_flush(chat_screen *s)
{
    (void)s;
    return cli_finish_output();
}
