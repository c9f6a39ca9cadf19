/* SPDX-License-Identifier: MIT */
/* src/cli/common.c -- messages, progress, files and signals: what every command needs of the world around it. */
#include "cli/cli.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *cli_name = "";
static volatile sig_atomic_t interrupted, pipe_closed;

/* ---- messages ---- */

static void message(const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof(text), fmt, args);
    for (char *p = text; *p; p++) /* one line, whatever a file or an argument smuggled in */
        if ((unsigned char)*p < 32 || *p == 127) *p = '?';
    fprintf(stderr, "quern%s%s: %s\n", *cli_name ? " " : "", cli_name, text);
}

int cli_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    message(fmt, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_no_memory(const char *text) { return cli_fail("%s; close other programs, or ask for less", text); }

int cli_fail_error(const qn_error *err)
{
    if (pipe_closed && err->status == QN_STATUS_io) return CLI_PIPE;
    return err->status == QN_STATUS_nomem ? cli_no_memory(err->text) : cli_fail("%s", err->text);
}

int cli_bad_usage(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    message(fmt, args);
    va_end(args);
    return CLI_USAGE;
}

void cli_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    message(fmt, args);
    va_end(args);
}

/* ---- progress ---- */

int64_t cli_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int cli_columns(int fd)
{
    struct winsize size;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void cli_progress_init(cli_progress *p, const char *what)
{
    *p = (cli_progress){.what = what, .on = isatty(STDERR_FILENO), .start_ns = cli_now_ns(), .last_percent = -1};
}

bool cli_progress_step(void *ctx, uint64_t done, uint64_t total)
{
    cli_progress *p = ctx;
    const int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    const int64_t now = cli_now_ns();
    /* Nothing for what is over in a moment; then ten times a second at most. */
    if (p->on && now - p->start_ns > 300000000 && percent != p->last_percent &&
        (now - p->last_ns > 100000000 || done == total)) {
        char bar[41] = "";
        /* A line that wraps could not be overwritten. */
        const int columns = cli_columns(STDERR_FILENO), room = columns - (int)strlen(p->what) - 10,
                  wide = columns == 0 || room > 40 ? 40
                         : room > 0                ? room
                                                   : 0;
        memset(bar, ' ', (size_t)wide);
        memset(bar, '=', (size_t)(percent * wide / 100));
        fprintf(stderr, "\r%s [%s] %3d %%", p->what, bar, percent);
        fflush(stderr);
        p->shown = true;
        p->last_ns = now;
        p->last_percent = percent;
    }
    return !cli_interrupted();
}

void cli_progress_end(cli_progress *p)
{
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

/* ---- files ---- */

void cli_put_csv(const char *text)
{
    const bool quoted = strpbrk(text, ",\"\n\r") != NULL;
    if (quoted) putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    if (quoted) putchar('"');
}

int cli_finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    if (pipe_closed) return CLI_PIPE;
    return cli_fail("cannot write to standard output: %s", strerror(errno));
}

char *cli_read_text(const char *path, size_t max_bytes, size_t *len)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t n = 0, cap = 1 << 16;
    char *text = file ? malloc(cap + 1) : NULL;
    bool too_long = false;
    while (text && !too_long) {
        const size_t got = fread(text + n, 1, cap - n, file);
        n += got;
        if (got == 0 && (feof(file) || ferror(file))) break;
        if (n < cap) continue;
        too_long = cap >= max_bytes;
        char *more = too_long ? NULL : realloc(text, (cap *= 2) + 1);
        if (!more && !too_long) {
            free(text);
            text = NULL;
            errno = ENOMEM;
        } else if (more) {
            text = more;
        }
    }
    const bool failed = !file || !text || ferror(file);
    if (failed)
        cli_fail("cannot read %s: %s", strcmp(path, "-") == 0 ? "standard input" : path, strerror(errno));
    else if (too_long)
        cli_fail("%s is longer than %zu bytes", path, max_bytes);
    if (file && file != stdin) fclose(file);
    if (failed || too_long) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *len = n;
    return text;
}

/* The program's own output or error stream, where path names what that is already (/dev/stdout); NULL: neither. */
static FILE *own_stream(const struct stat *st)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &own) != 0 || own.st_dev != st->st_dev || own.st_ino != st->st_ino) continue;
        fflush(fd == STDOUT_FILENO ? stdout : stderr);
        const int again = dup(fd);
        return again >= 0 ? fdopen(again, "wb") : NULL;
    }
    return NULL;
}

int cli_output_open(cli_output *o, const char *path)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    *o = (cli_output){.path = path};
    const int refused = cli_may_write(path);
    if (refused != CLI_OK) return refused;
    if (there) o->file = own_stream(&st);
    if (!o->file && there && !S_ISREG(st.st_mode)) {
        o->file = fopen(path, "wb"); /* a device or a pipe must not be replaced by a file */
    } else if (!o->file) {
        char *real = there ? realpath(path, NULL) : NULL; /* a symbolic link stays one */
        const int n = snprintf(o->target, sizeof o->target, "%s", real ? real : path),
                  m = snprintf(o->temporary, sizeof o->temporary, "%s.tmp-%ld", o->target, (long)getpid());
        free(real);
        if (n < 0 || (size_t)n >= sizeof o->target || m < 0 || (size_t)m >= sizeof o->temporary)
            return cli_fail("%.64s...: the path is too long", path);
        o->file = fopen(o->temporary, "wb");
        if (!o->file) o->temporary[0] = '\0';
    }
    return o->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

int cli_output_close(cli_output *o, int status)
{
    const bool lost = ferror(o->file) != 0, closed = fclose(o->file) == 0;
    if (status == CLI_OK && (lost || !closed || (o->temporary[0] && rename(o->temporary, o->target) != 0)))
        status = pipe_closed ? CLI_PIPE : cli_fail("cannot write %s: %s", o->path, strerror(errno));
    if (status != CLI_OK && o->temporary[0]) remove(o->temporary);
    return status;
}

int cli_write_text(const char *path, const char *text, size_t len)
{
    cli_output o;
    if (strcmp(path, "-") == 0) {
        fwrite(text, 1, len, stdout);
        return cli_finish_output();
    }
    const int status = cli_output_open(&o, path);
    if (status != CLI_OK) return status;
    fwrite(text, 1, len, o.file);
    return cli_output_close(&o, CLI_OK);
}

/* ---- signals ---- */

static volatile sig_atomic_t patience; /* how many interrupts may come before one ends the program at once */

static qn_session *_Atomic session_to_stop;

static void stop_session(void)
{
    qn_session *s = atomic_load(&session_to_stop);
    if (s) qn_session_stop(s, true);
}

void cli_interrupt_stops(qn_session *session)
{
    qn_session *before = atomic_exchange(&session_to_stop, session);
    if (before) qn_session_stop(before, false);
    if (session && cli_interrupted()) stop_session();
}

static void on_interrupt(int signal_number)
{
    interrupted = 1;
    stop_session();
    if (patience == 0) signal(signal_number, SIG_DFL);
    patience = patience ? patience - 1 : 0;
}

static void ask_again(void)
{
    /* A write that waits for the terminal goes on; who reads waits with chat_read_byte. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    patience = 2;
    sigaction(SIGINT, &action, NULL);
}

static bool goes_on; /* after an interrupt */

void cli_interrupts_ask(void)
{
    goes_on = true;
    ask_again();
}

void cli_clear_interrupt(void)
{
    interrupted = 0;
    if (goes_on) ask_again();
}

/* The reader has gone: the write fails, what is under way ends as when interrupted, and nothing is said about it. */
static void on_closed_pipe(int signal_number)
{
    (void)signal_number;
    pipe_closed = 1;
    stop_session();
}

/* A mapped file that shrinks under us raises SIGBUS at the next touch: nothing can be saved, but it can be said. */
static void on_bus_error(int signal_number)
{
    static const char text[] = "quern: a mapped file can no longer be read: it was cut short or its disk failed; try "
                               "again with the whole file\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(CLI_FAILED);
}

void cli_catch_signals(void)
{
    signal(SIGINT, on_interrupt);
    signal(SIGBUS, on_bus_error);
    signal(SIGPIPE, on_closed_pipe);
}

void cli_catch_termination(void)
{
    signal(SIGTERM, on_interrupt);
    signal(SIGPIPE, SIG_IGN);
}

static void on_stop(int signal_number)
{
    interrupted = 1;
    signal(signal_number, SIG_DFL);
}

void cli_catch_stop(void)
{
    static const int signals[] = {SIGTERM, SIGHUP};
    for (int i = 0; i < CLI_N(signals); i++)
        if (signal(signals[i], on_stop) == SIG_IGN) signal(signals[i], SIG_IGN); /* under nohup */
}

static volatile sig_atomic_t hung_up;

static void on_hangup(int signal_number)
{
    (void)signal_number;
    hung_up = 1;
}

bool cli_hung_up(void)
{
    const bool came = hung_up;
    hung_up = 0;
    signal(SIGHUP, on_hangup);
    return came;
}

bool cli_interrupted(void) { return interrupted || pipe_closed; }
bool cli_pipe_closed(void) { return pipe_closed; }

/* ---- token lists ---- */

int32_t *cli_parse_tokens(const char *text, size_t *n)
{
    size_t count = 0, cap = 0;
    int32_t *ids = malloc(sizeof(*ids));
    const char *p = text;
    while (ids) {
        p += strspn(p, " \t\r\n,[]");
        if (!*p) break;
        const size_t len = strcspn(p, " \t\r\n,[]");
        char number[24] = "";
        int64_t id = -1;
        if (len < sizeof(number)) memcpy(number, p, len);
        if (len >= sizeof(number) || !cli_parse_int(number, 0, INT32_MAX, &id)) {
            cli_fail("\"%.*s\" is no token id; expected numbers such as 1,2,3", len > 32 ? 32 : (int)len, p);
            free(ids);
            return NULL;
        }
        if (count == cap) {
            int32_t *more = realloc(ids, (cap = cap ? cap * 2 : 64) * sizeof(*ids));
            if (!more) free(ids);
            ids = more;
            if (!ids) break;
        }
        ids[count++] = (int32_t)id;
        p += len;
    }
    if (!ids) cli_no_memory("out of memory");
    *n = count;
    return ids;
}

int32_t *cli_read_tokens(const char *text, size_t *n)
{
    if (text[0] != '@') return cli_parse_tokens(text, n);
    size_t len = 0;
    if (cli_reads(text + 1) != CLI_OK) return NULL;
    char *list = cli_read_text(text + 1, ((size_t)256 << 20), &len);
    if (list && strlen(list) != len) {
        cli_fail("%s holds a zero byte; a list of numbers is expected", text + 1);
        free(list);
        return NULL;
    }
    int32_t *ids = list ? cli_parse_tokens(list, n) : NULL;
    free(list);
    return ids;
}
