/* SPDX-License-Identifier: MIT */
/* src/serve/http.c -- what libmicrohttpd is told: whom it lets in, where bodies go. An HTTP thread
 * suspends a connection whose reply is being made, and goes on with others; exchange_wake brings it back.
 *
 * The library takes two Content-Lengths, and Content-Length beside chunked, of which proxies in front of us may believe
 * the other: both are refused here. */
#include "serve/answers.h"
#include "serve/exchange.h"
#include "serve/tls.h"
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    HTTP_THREADS = 2,
    CONNECTION_BYTES = 16384, /* of headers; an idle connection costs 17 KiB with it, 33 with twice as much */
    CONNECTIONS = 4096,
    BODY_PACE = 64 << 10, /* bytes a second that a body comes at, at least */
    QUIET_S = 2,          /* without a byte of a body that is thrown away: its sender waits for the answer */
    UNSENT = 128 << 10,   /* bytes that the system may hold for a connection beside those under way */
    THROW_TIMES = 8,      /* so many times the largest body is thrown away at most */
};

/* ---- requests ---- */

static enum MHD_Result send_reply(exchange *x) { return http_send(x) ? MHD_YES : MHD_NO; }

static const char *header_of(void *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

typedef struct framing {
    int n_lengths, n_hosts, n_encodings;
    uint64_t length;
    bool bad;
} framing;

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    framing *f = ctx;
    (void)kind;
    if (strcasecmp(name, "Content-Length") == 0) {
        char *end;
        f->n_lengths++;
        f->length = strtoull(value ? value : "", &end, 10);
        if (!value || !*value || strspn(value, "0123456789") != strlen(value)) f->bad = true;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->n_encodings++;
        if (!value || strcasecmp(value, "chunked") != 0) f->bad = true;
    } else if (strcasecmp(name, "Host") == 0) {
        f->n_hosts++;
    }
    return MHD_YES;
}

/* Where the request ends is known behind this. */
static bool check_framing(exchange *x, const framing *f, problem *p)
{
    if (f->bad || f->n_lengths > 1 || f->n_encodings > 1 || (f->n_lengths && f->n_encodings))
        return problem_set(p, 400, "",
                           "it is not clear where the request ends: %d Content-Length, %d Transfer-Encoding",
                           f->n_lengths, f->n_encodings);
    if (f->n_hosts > 1) return problem_set(p, 400, "", "a request with %d Hosts", f->n_hosts);
    x->length = f->length;
    x->has_body = f->length || f->n_encodings;
    return true;
}

static bool check_length(const exchange *x, problem *p)
{
    const uint64_t most = x->server->o.max_body;
    return x->length <= most || problem_set(p, 413, "", "the body has %llu bytes; %llu are taken (--max-body)",
                                            (unsigned long long)x->length, (unsigned long long)most);
}

/* Who makes the reply, for when the client leaves; false where it has left already. */
static bool set_exchange(exchange *x, exchange *at_work)
{
    pthread_mutex_lock(&x->server->lock);
    x->peer->exchange = at_work;
    const bool here = !x->peer->left;
    pthread_mutex_unlock(&x->server->lock);
    return here;
}

static void set_deadline(exchange *x, uint64_t bytes)
{
    server *s = x->server;
    pthread_mutex_lock(&s->lock);
    const int64_t full = (int64_t)s->o.request_timeout_s + (int64_t)(bytes / BODY_PACE);
    x->peer->deadline_ns = bytes ? now_ns() + (x->peer->left ? LEFT_S : full) * 1000000000 : 0;
    pthread_mutex_unlock(&s->lock);
}

/* Headers of our clients' requests; an ending * takes any rest. */
static bool is_known_header(const char *name, size_t n)
{
    static const char *const known[] = {
        "accept",
        "anthropic-beta",
        "anthropic-dangerous-direct-browser-access",
        "anthropic-version",
        "authorization",
        "cache-control",
        "content-type",
        "idempotency-key",
        "openai-*",
        "user-agent",
        "x-api-key",
        "x-conversation",
        "x-stainless-*",
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const size_t len = strlen(known[i]);
        const bool any = known[i][len - 1] == '*';
        if (any ? n >= len && strncasecmp(name, known[i], len - 1) == 0
                : n == len && strncasecmp(name, known[i], len) == 0)
            return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") >= n;
    }
    return false;
}

/* Of those that a page wants to send, the ones that it may. */
static void allow_headers(exchange *x, const char *wanted)
{
    size_t n, at = 0;
    for (; wanted && *wanted; wanted += n) {
        wanted += strspn(wanted, ", \t");
        n = strcspn(wanted, ", \t");
        if (!is_known_header(wanted, n) || at + n + 3 > sizeof(x->headers)) continue;
        at += (size_t)snprintf(x->headers + at, sizeof(x->headers) - at, "%s%.*s", at ? ", " : "", (int)n, wanted);
    }
}

/* A page of an origin that may use us asks whether it may. */
static bool is_preflight(exchange *x, const char *method, struct MHD_Connection *connection)
{
    if (strcmp(method, "OPTIONS") != 0 || !header_of(connection, "Access-Control-Request-Method")) return false;
    snprintf(x->allow, sizeof(x->allow), "GET, POST, DELETE, HEAD");
    allow_headers(x, header_of(connection, "Access-Control-Request-Headers"));
    x->ready = true;
    x->status = 204;
    return true;
}

static bool admit(exchange *x, struct MHD_Connection *connection, const char *method, problem *p)
{
    static const route nowhere = {.open = true};
    bool other = false;
    framing f = {0};
    x->route = route_find(strcmp(method, "HEAD") == 0 ? "GET" : method, x->path, &x->rest, &other);
    x->anthropic = header_of(connection, "anthropic-version") != NULL;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, &f);
    if (!check_framing(x, &f, p)) return false;
    if (!access_check(x, x->route ? x->route : &nowhere, header_of, connection, p)) return false;
    if (is_preflight(x, method, connection)) return true;
    if (atomic_load(&x->server->draining) && !(x->route && x->route->by == BY_http))
        return problem_set(p, 503, "", "the server is stopping");
    if (!x->route && other) route_methods(x->path, x->allow, sizeof(x->allow));
    if (!x->route && other) return problem_set(p, 405, "", "%.40s is not for %.200s", method, x->path);
    if (!x->route) return problem_set(p, 404, "", "there is no %.200s here", x->path);
    if (!check_length(x, p)) return false;
    const char *name = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "model");
    if (name && !(x->query_model = strdup(name))) return problem_set(p, 503, "", "out of memory");
    set_deadline(x, x->has_body ? x->length + 1 : 0);
    return exchange_count(x, x->length, p);
}

/* NULL where memory is short, also for the peer. */
static exchange *new_exchange(server *s, struct MHD_Connection *connection, const char *url, const char *method)
{
    const union MHD_ConnectionInfo *of = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange *x = of && of->socket_context ? calloc(1, sizeof(*x)) : NULL;
    if (!x || !(x->path = strdup(url))) {
        free(x);
        return NULL;
    }
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->server = s;
    x->refs = 1;
    x->connection = connection;
    x->fd = fd ? fd->connect_fd : -1;
    x->peer = of->socket_context;
    x->began_ns = now_ns();
    snprintf(x->method, sizeof(x->method), "%s", method);
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_lock(&s->lock);
    x->peer->greeted = true;
    x->id = ++s->last_id;
    x->next = s->exchanges;
    if (x->next) x->next->prev = x;
    s->exchanges = x;
    s->n_exchanges++;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->n_served, 1);
    return x;
}

static enum MHD_Result refuse(exchange *x, const problem *p)
{
    x->route = http_route(x);
    x->whole = true;
    exchange_refuse(x, p);
    return send_reply(x);
}

/* The whole reply as it goes over the line: the library sends none before the body is over. */
static char *refusal_text(const exchange *x, const problem *p)
{
    text body = {0}, t = {0};
    (void)text_was_short(); /* of what is refused */
    http_route(x)->dialect->problem(&body, p);
    text_printf(&t, "HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n", p->status,
                body.n);
    if (problem_passes(p)) text_puts(&t, "Retry-After: 1\r\n");
    if (x->allow[0]) text_printf(&t, "Allow: %s\r\n", x->allow);
    if (x->cors[0]) text_printf(&t, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n", x->cors);
    text_puts(&t, "Connection: close\r\n\r\n");
    text_put(&t, body.data, body.n);
    if (body.failed || t.failed) text_deinit(&t);
    text_deinit(&body);
    return t.data;
}

/* Who has begun to send is listened to, and thrown away, as long as something comes. */
static void set_refusal_deadline(exchange *x)
{
    server *s = x->server;
    pthread_mutex_lock(&s->lock);
    const int64_t quiet = now_ns() + (int64_t)QUIET_S * 1000000000;
    if (!x->peer->told) x->peer->deadline_ns = quiet < x->throw_until_ns ? quiet : x->throw_until_ns;
    pthread_mutex_unlock(&s->lock);
}

/* Who is still sending would find the connection broken, and not why: the body is taken in first, and thrown away. Who
 * waits for an answer before he sends the rest has it when nothing has come for a moment. */
static bool throw_away(exchange *x, const problem *p)
{
    if (!(x->refusal = malloc(sizeof(*p)))) return false;
    *x->refusal = *p;
    x->status = p->status; /* for the log */
    text_deinit(&x->body);
    atomic_fetch_sub(&x->server->body_bytes, x->counted);
    x->counted = 0;
    char *reply = refusal_text(x, p);
    pthread_mutex_lock(&x->server->lock);
    x->throw_until_ns = x->peer->deadline_ns;
    free(x->peer->refusal);
    x->peer->refusal = reply;
    pthread_mutex_unlock(&x->server->lock);
    set_refusal_deadline(x);
    return true;
}

static uint64_t most_thrown(const exchange *x)
{
    const uint64_t most = x->server->o.max_body;
    return most < UINT64_MAX / THROW_TIMES ? most * THROW_TIMES : UINT64_MAX;
}

/* Who asks before he sends a body (Expect: 100-continue) is told at once. */
static bool refuse_later(exchange *x, const problem *p)
{
    const uint64_t length = x->length < most_thrown(x) ? x->length : most_thrown(x);
    if (!x->has_body || header_of(x->connection, "Expect")) return false;
    set_deadline(x, length + 1);
    return throw_away(x, p);
}

/* More of what was refused. Who sends without end is told why by the pump, and is left when as much again has come. */
static void throw_more(exchange *x, size_t n)
{
    const uint64_t most = most_thrown(x);
    x->thrown += n;
    if (x->thrown <= most) set_refusal_deadline(x);
    if (x->thrown / most == (x->thrown - n) / most) return;
    pthread_mutex_lock(&x->server->lock);
    x->peer->deadline_ns = 1;
    pthread_mutex_unlock(&x->server->lock);
    pump_notify(x->server);
}

/* The connection's next request is another one. */
static void forget_refusal(exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    free(x->peer->refusal);
    x->peer->refusal = NULL;
    pthread_mutex_unlock(&x->server->lock);
}

static enum MHD_Result take_body(exchange *x, const char *data, size_t n)
{
    problem p = {0};
    if (x->refusal) {
        throw_more(x, n);
        return MHD_YES;
    }
    if (x->body.n + n > x->server->o.max_body) {
        problem_set(&p, 413, "", "the body has more than %llu bytes (--max-body)",
                    (unsigned long long)x->server->o.max_body);
        return throw_away(x, &p) ? MHD_YES : MHD_NO;
    }
    if (x->body.n + n > x->counted && !exchange_count(x, n, &p)) return throw_away(x, &p) ? MHD_YES : MHD_NO;
    text_put(&x->body, data, n);
    return x->body.failed ? MHD_NO : MHD_YES;
}

static void leave(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->gone = true;
    pthread_mutex_unlock(&x->lock);
    exchange_wake(x);
}

/* False: there is something to do for it, and it goes on at once. */
static bool suspend(exchange *x, struct MHD_Connection *connection)
{
    pthread_mutex_lock(&x->lock);
    const bool waits = !x->ready && !x->gone;
    if (waits) {
        x->suspended = true;
        MHD_suspend_connection(connection);
    }
    pthread_mutex_unlock(&x->lock);
    return waits;
}

/* The request is whole. */
static enum MHD_Result go_on(exchange *x, struct MHD_Connection *connection)
{
    pthread_mutex_lock(&x->lock);
    const bool ready = x->ready, gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    if (gone) return MHD_NO;
    x->whole = true;
    if (ready) return send_reply(x);
    set_deadline(x, 0);
    if (x->refusal) return refuse(x, x->refusal);
    if (x->route->by == BY_http) {
        exchange_handle(x);
        return send_reply(x);
    }
    if (!suspend(x, connection)) return go_on(x, connection);
    if (x->begun) return MHD_YES;
    x->begun = true;
    if (set_exchange(x, x))
        work_add(x);
    else
        leave(x);
    return MHD_YES;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *n, void **con_cls)
{
    exchange *x = *con_cls;
    problem p = {0};
    (void)version;
    if (!x) {
        if (!(x = new_exchange(ctx, connection, url, method))) return MHD_NO;
        *con_cls = x;
        if (!admit(x, connection, method, &p)) return refuse_later(x, &p) ? MHD_YES : refuse(x, &p);
        return x->ready ? send_reply(x) : MHD_YES;
    }
    if (!*n) return go_on(x, connection);
    const enum MHD_Result result = take_body(x, data, *n);
    *n = 0;
    return result;
}

/* A path is a stranger's: what it holds is no line of its own, and no control of a terminal. */
static void put_path(text *line, const char *path)
{
    enum { MOST = 120 };
    for (int i = 0; path[i] && i < MOST; i++) text_printf(line, "%c", path[i] > ' ' && path[i] < 127 ? path[i] : '?');
    if (strlen(path) > MOST) text_puts(line, "..");
}

/* One line, nothing of what was said, and of a key its name or number. */
static void log_request(exchange *x, bool whole)
{
    text line = {0};
    if (!x->server->o.log || !x->route) return;
    pthread_mutex_lock(&x->lock); /* a client may leave while a worker still replies to him */
    const int status = x->status;
    answers *a = x->answers;
    pthread_mutex_unlock(&x->lock);
    text_printf(&line, "%llu %s ", (unsigned long long)x->id, x->method);
    put_path(&line, x->path);
    text_printf(&line, ": %d%s", status, whole ? "" : ", the client left");
    if (x->key[0]) text_printf(&line, ", key %s", x->key_name[0] ? x->key_name : x->key);
    pthread_mutex_lock(&x->server->models_lock); /* or while it gets its model */
    if (x->model) text_printf(&line, ", %s", x->model->name);
    pthread_mutex_unlock(&x->server->models_lock);
    if (a && x->server->o.log_prompts) answers_log(a);
    if (a) answers_tell(a, &line);
    text_printf(&line, ", %.0f ms in all", (double)(now_ns() - x->began_ns) * 1e-6);
    pthread_mutex_lock(&x->lock);
    if (x->warning[0]) text_printf(&line, ", ignored %s", x->warning);
    pthread_mutex_unlock(&x->lock);
    if (!line.failed) x->server->o.log(line.data);
    text_deinit(&line);
}

static void completed(void *ctx, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    exchange *x = *con_cls;
    (void)ctx, (void)connection;
    if (!x) return;
    *con_cls = NULL;
    (void)set_exchange(x, NULL);
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    x->gone = true;
    pthread_mutex_unlock(&x->lock);
    forget_refusal(x);
    loader_leave(x);
    log_request(x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    answers_cancel(x);
    set_deadline(x, 1);
    exchange_release(x);
}

/* ---- connections ---- */

/* A connection that nobody could watch has no deadline either: it ends here. */
static void turn_away(const server *s, struct MHD_Connection *connection)
{
    static const char reply[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!fd) return;
    if (!s->o.tls_cert) (void)!send(fd->connect_fd, reply, sizeof(reply) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd->connect_fd, SHUT_RDWR);
}

/* The system would take 4 MB for a client who does not read: of his stream, thousands of tokens would be computed
 * before it waits, and none of our counts had these bytes. What is under way to a client far away is not bounded. */
static void bound_unsent(int fd)
{
#ifdef TCP_NOTSENT_LOWAT
    const int n = UNSENT;
    if (fd >= 0) (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &n, sizeof n);
#else
    (void)fd;
#endif
}

static void connected(void *ctx, struct MHD_Connection *connection, void **context,
                      enum MHD_ConnectionNotificationCode code)
{
    server *s = ctx;
    peer *p = *context;
    pthread_mutex_lock(&s->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (p = calloc(1, sizeof(*p)))) {
        const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *p = (peer){.next = s->peers,
                    .fd = fd ? fd->connect_fd : -1,
                    .deadline_ns = now_ns() + (int64_t)s->o.request_timeout_s * 1000000000};
        bound_unsent(p->fd);
        if (p->next) p->next->prev = p;
        p->id = ++s->last_peer;
        s->peers = p;
        pump_watch(s, p);
        *context = p;
        pump_notify(s);
    } else if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        turn_away(s, connection);
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && p) {
        pump_unwatch(s, p);
        *(p->prev ? &p->prev->next : &s->peers) = p->next;
        if (p->next) p->next->prev = p->prev;
        free(p->refusal);
        free(p);
        *context = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

/* A path ends at no NUL: one that was written so is another path. */
static size_t unescape(void *ctx, struct MHD_Connection *connection, char *path)
{
    (void)ctx, (void)connection;
    for (char *at = path; (at = strstr(at, "%00")); at += 3) at[2] = '1';
    return MHD_http_unescape(path);
}

/* ---- listening ---- */

static int say(qn_error *err, const char *what, const server *s, const char *why)
{
    if (err) {
        err->status = QN_STATUS_io;
        snprintf(err->text, sizeof(err->text), "%s %s, port %d: %s", what, s->o.host, s->o.port, why);
    }
    return -1;
}

static int listen_on(server *s, qn_error *err)
{
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char port[16];
    const int on = 1;
    snprintf(port, sizeof(port), "%d", s->o.port);
    const int rc = getaddrinfo(s->o.host, port, &hints, &list);
    if (rc != 0) return say(err, "cannot listen on", s, gai_strerror(rc));
    const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool good = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 511) == 0 &&
                      getsockname(fd, (struct sockaddr *)&bound, &size) == 0;
    const int why = errno;
    freeaddrinfo(list);
    if (!good) {
        if (fd >= 0) close(fd);
        return say(err, "cannot listen on", s,
                   why == EADDRINUSE ? "Address already in use; --port N takes another, 0 any that is free"
                                     : strerror(why));
    }
    const struct sockaddr_in *v4 = (const void *)&bound;
    const struct sockaddr_in6 *v6 = (const void *)&bound;
    const bool six = bound.ss_family == AF_INET6;
    s->port = ntohs(six ? v6->sin6_port : v4->sin_port);
    s->local = six ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) : ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return fd;
}

/* TLS 1.2 and 1.3; who speaks something else on that port is left at once. */
static bool start_daemon(server *s, int fd)
{
    const unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_PEDANTIC_CHECKS | (s->o.tls_cert ? MHD_USE_TLS : 0);
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_callback()},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    s->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
                         completed, s, MHD_OPTION_NOTIFY_CONNECTION, connected, s, MHD_OPTION_THREAD_POOL_SIZE,
                         (unsigned)HTTP_THREADS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)(s->o.connections ? s->o.connections : CONNECTIONS),
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)s->o.connections_per_address,
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, unescape, s, MHD_OPTION_ARRAY,
                         s->o.tls_cert ? tls : tls + 2, MHD_OPTION_END);
    return s->daemon != NULL;
}

bool http_start(server *s, qn_error *err)
{
    const int fd = listen_on(s, err);
    if (fd < 0) return false;
    if (s->o.tls_cert && !tls_can()) {
        say(err, "cannot serve on", s, "libmicrohttpd was built without TLS");
    } else {
        if (start_daemon(s, fd)) return true;
        say(err, "cannot serve on", s, "libmicrohttpd does not start");
    }
    close(fd);
    return false;
}

/* No connection may be suspended any more. */
void http_stop(server *s)
{
    if (s->daemon) MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}
