/* SPDX-License-Identifier: MIT */
/* bench/serve.h -- the client of bench/serve.c: requests whose answers come as server-sent events, many at a time. */
#ifndef QN_BENCH_SERVE_H
#define QN_BENCH_SERVE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    int port, prompt, tokens, long_prompt, beside, seconds, pid, low, high, eos, most;
    const char *name, *model, *csv, *key;
} options;

static options o = {.port = 8080,
                    .name = "server",
                    .prompt = 128,
                    .tokens = 64,
                    .long_prompt = 16384,
                    .beside = 8,
                    .seconds = 60,
                    .low = 1000,
                    .high = 1999,
                    .eos = 2,
                    .most = 480};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_serve: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A prompt of `prompt` tokens that follow from the seed, then `more` others. */
typedef struct ask {
    uint32_t seed;
    int prompt, more, tokens;
} ask;

enum { LINE_MAX_BYTES = 1 << 16, HEAD_MAX_BYTES = 1 << 14 };

typedef struct stream {
    int fd; /* -1 once it is over */
    uint32_t seed;
    char *out; /* the request */
    size_t n_out, sent;
    int64_t sent_ns;
    int64_t *times; /* of events with text */
    int n_times, cap_times;
    bool headed, chunked, over;
    long chunk; /* bytes of the chunk that are to come; -1: its size is */
    char *line;
    size_t n_line;
} stream;

/* ---- a request ------------------------------------------------------------------------------- */

static size_t put_ids(char *to, uint32_t seed, int n, const char *comma)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at += (size_t)sprintf(to + at, "%s%u", i ? "," : comma,
                              (unsigned)o.low + (seed >> 8) % (unsigned)(o.high - o.low + 1));
    }
    return at;
}

static void write_request(stream *s, const ask *a)
{
    const size_t most = 8192 + 10 * (size_t)(a->prompt + a->more);
    char *body = malloc(most);
    s->out = malloc(most + 1024);
    if (!body || !s->out) fail("out of memory");
    size_t n = (size_t)sprintf(body, "{");
    if (o.model) n += (size_t)snprintf(body + n, 512, "\"model\":\"%s\",", o.model);
    n += (size_t)sprintf(body + n,
                         "\"stream\":true,\"n_predict\":%d,\"temperature\":0.8,\"top_k\":40,\"top_p\":0.95,\"min_p\":"
                         "0.05,\"seed\":%u,\"ignore_eos\":true,\"cache_prompt\":true,\"logit_bias\":{\"%d\":-100",
                         a->tokens, a->seed % 1000000, o.eos);
    /* Single bytes, of which a random model makes what is no UTF-8: llama-server ends with an error 500 then. */
    for (int id = 3; id < 259; id++) n += (size_t)sprintf(body + n, ",\"%d\":-100", id);
    n += (size_t)sprintf(body + n, "},\"prompt\":[");
    n += put_ids(body + n, a->seed, a->prompt, "");
    n += put_ids(body + n, ~a->seed, a->more, a->prompt ? "," : "");
    n += (size_t)sprintf(body + n, "]}");
    s->n_out =
        (size_t)snprintf(s->out, 1024,
                         "POST /completion HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: "
                         "application/json\r\n%s%s%sConnection: close\r\nContent-Length: %zu\r\n\r\n",
                         o.port, o.key ? "Authorization: Bearer " : "", o.key ? o.key : "", o.key ? "\r\n" : "", n);
    memcpy(s->out + s->n_out, body, n);
    s->n_out += n;
    free(body);
}

static void stream_open(stream *s, const ask *a)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)o.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *s = (stream){.seed = a->seed, .chunk = -1, .cap_times = 64, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    s->times = malloc((size_t)s->cap_times * sizeof(*s->times));
    s->line = malloc(LINE_MAX_BYTES);
    if (s->fd < 0 || !s->times || !s->line) fail("no socket or no memory");
    write_request(s, a);
    if (connect(s->fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
        fail("127.0.0.1:%d: %s", o.port, strerror(errno));
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    s->sent_ns = now_ns();
}

static void stream_over(stream *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->over = true;
}

static void stream_free(stream *s)
{
    stream_over(s);
    free(s->out);
    free(s->times);
    free(s->line);
    *s = (stream){.fd = -1, .over = true};
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void add_time(stream *s)
{
    if (s->n_times == s->cap_times) {
        s->cap_times *= 2;
        s->times = realloc(s->times, (size_t)s->cap_times * sizeof(*s->times));
        if (!s->times) fail("out of memory");
    }
    s->times[s->n_times++] = now_ns();
}

/* An event: every token is one, also where its text is empty, but not the last, which tells how it ended. */
static void on_line(stream *s)
{
    s->line[s->n_line] = 0;
    if (strncmp(s->line, "data:", 5) != 0) {
        if (strncmp(s->line, "error", 5) == 0 || s->line[0] == '{') fail("the server says: %.300s", s->line);
        return;
    }
    if (strstr(s->line, "\"error\"")) fail("the server says: %.300s", s->line);
    if (strstr(s->line, "\"stop\":false") || strstr(s->line, "\"stop\": false")) add_time(s);
}

static void on_text(stream *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            on_line(s);
            s->n_line = 0;
        } else if (text[i] != '\r') {
            if (s->n_line + 1 == LINE_MAX_BYTES) fail("an event of over %d bytes", LINE_MAX_BYTES);
            s->line[s->n_line++] = text[i];
        }
    }
}

/* The head, gathered as one line. Returns how much of the bytes is behind it. */
static size_t on_head(stream *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s->n_line == HEAD_MAX_BYTES) fail("no head of a reply in %d bytes", HEAD_MAX_BYTES);
        s->line[s->n_line++] = bytes[i];
        if (s->n_line < 4 || memcmp(s->line + s->n_line - 4, "\r\n\r\n", 4) != 0) continue;
        s->line[s->n_line - 1] = 0;
        if (strncmp(s->line, "HTTP/1.1 200", 12) != 0)
            fail("the server says: %.*s%.*s", (int)strcspn(s->line, "\r"), s->line, (int)(n - i - 1), bytes + i + 1);
        s->chunked = strcasestr(s->line, "transfer-encoding: chunked") != NULL;
        s->headed = true;
        s->n_line = 0;
        return i + 1;
    }
    return n;
}

static void on_chunks(stream *s, const char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n;) {
        if (s->chunk > 0) { /* its bytes */
            const size_t k = (size_t)s->chunk < n - i ? (size_t)s->chunk : n - i;
            on_text(s, bytes + i, k);
            s->chunk -= (long)k;
            if (s->chunk == 0) s->chunk = -1;
            i += k;
            continue;
        }
        const char c = (char)(bytes[i] | 0x20), *digit = bytes[i] > ' ' ? strchr(digits, c) : NULL; /* its size */
        if (digit) s->chunk = (s->chunk < -1 ? -s->chunk - 2 : 0) * 16 + (digit - digits);
        if (digit) s->chunk = -s->chunk - 2; /* still being read: below -1 */
        if (bytes[i] == '\n' && s->chunk < -1) s->chunk = -s->chunk - 2;
        if (s->chunk == 0) {
            stream_over(s);
            return;
        }
        i++;
    }
}

static void on_bytes(stream *s, const char *bytes, size_t n)
{
    if (!s->headed) {
        const size_t head = on_head(s, bytes, n);
        bytes += head;
        n -= head;
    }
    if (n == 0) return;
    if (s->chunked)
        on_chunks(s, bytes, n);
    else
        on_text(s, bytes, n);
}

static void turn(stream *s, short events)
{
    static char bytes[1 << 16];
    if (events & POLLOUT) {
        const ssize_t n = send(s->fd, s->out + s->sent, s->n_out - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) fail("the server left: %s", strerror(errno));
        if (n > 0) s->sent += (size_t)n;
    }
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        const ssize_t n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0) on_bytes(s, bytes, (size_t)n);
        if (n == 0) stream_over(s);
        if (n < 0 && errno != EAGAIN) fail("the server left: %s", strerror(errno));
    }
}

/* Waits for something to happen to one of them, `ns` at most, -1 for ever; false when all are over. */
static bool streams_wait(stream *s, int n, int64_t ns)
{
    struct pollfd *fds = malloc((size_t)n * sizeof(*fds));
    if (!fds) fail("out of memory");
    bool open = false;
    for (int i = 0; i < n; i++) {
        const bool there = s[i].line && !s[i].over;
        open |= there;
        fds[i] =
            (struct pollfd){.fd = there ? s[i].fd : -1, .events = s[i].sent < s[i].n_out ? POLLOUT | POLLIN : POLLIN};
    }
    const int ms = ns < 0 ? -1 : (int)(ns / 1000000) + 1;
    if (open && poll(fds, (nfds_t)n, ms) < 0 && errno != EINTR) fail("poll: %s", strerror(errno));
    for (int i = 0; i < n && open; i++)
        if (fds[i].fd >= 0 && fds[i].revents) turn(&s[i], fds[i].revents);
    free(fds);
    return open;
}

#endif
