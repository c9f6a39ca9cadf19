/* SPDX-License-Identifier: MIT */
/* src/serve/pump.c -- the pump: a thread that turns tokens into text, and watches sockets of requests under way
 * (libmicrohttpd doesn't watch those of suspended connections: a client that left would be noticed at the next write
 * only), deadlines of requests that don't come, and clients that don't read what they are sent. */
#include "serve/answers.h"
#include "serve/exchange.h"
#include "serve/tls.h"
#include <errno.h>
#include <linux/tcp.h> /* of tcp_info the C library's header has only the beginning */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 250, PING_S = 15, EVENTS = 64 };

void pump_notify(server *s)
{
    const uint64_t one = 1;
    while (write(s->wake, &one, sizeof(one)) < 0 && errno == EINTR) {}
}

/* ---- sockets ---- */

void pump_watch(server *s, const peer *p)
{
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = p->id};
    (void)epoll_ctl(s->epoll, EPOLL_CTL_ADD, p->fd, &e);
}

void pump_unwatch(server *s, const peer *p) { (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, p->fd, NULL); }

static void cancel(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->gone = true;
    pthread_mutex_unlock(&x->lock);
    answers_cancel(x);
    loader_leave(x);
    exchange_wake(x);
}

/* A client that closes its sending half counts as gone, too; one whose request is not whole yet has a moment, since it
 * may lie in the socket still. */
static void left(server *s, uint64_t id, int64_t now)
{
    exchange *x = NULL;
    pthread_mutex_lock(&s->lock);
    peer *p = s->peers;
    while (p && p->id != id) p = p->next;
    if (p) p->left = true;
    if (p && p->exchange)
        x = exchange_hold(p->exchange);
    else if (p && p->deadline_ns)
        p->deadline_ns = now + (int64_t)LEFT_S * 1000000000;
    pthread_mutex_unlock(&s->lock);
    if (!x) return;
    cancel(x);
    exchange_release(x);
}

/* ---- events ---- */

static void pump_all(server *s)
{
    pthread_mutex_lock(&s->events_lock);
    choice *c = s->ready;
    s->ready = NULL;
    pthread_mutex_unlock(&s->events_lock);
    while (c) {
        choice *next = c->next_ready; /* it may be listed again, and freed, from here on */
        choice_pump(c);
        c = next;
    }
}

/* ---- deadlines ---- */

/* Who sends a body that is thrown away is told, and has a moment to see it. */
static void tell_refusal(peer *p, int64_t now)
{
    (void)!send(p->fd, p->refusal, strlen(p->refusal), MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(p->fd, SHUT_WR);
    p->told = true;
    p->deadline_ns = now + (int64_t)LEFT_S * 1000000000;
}

/* Who still sends then is reset. Where the window was closed as we closed, and all that lay here had been read, the
 * system would send no reset, and the other side would ask a hundred seconds long whether the window is open. */
static void reset_at_close(int fd)
{
    const struct linger none = {.l_onoff = 1};
    (void)!setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

static void check_peers(server *s, int64_t now)
{
    static const char late[] = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    pthread_mutex_lock(&s->lock);
    for (peer *p = s->peers; p; p = p->next) {
        if (!p->deadline_ns || p->deadline_ns > now) continue;
        if (p->refusal && !p->told && !s->o.tls_cert) {
            tell_refusal(p, now);
            continue;
        }
        p->deadline_ns = 0;
        if (p->told || p->refusal)
            reset_at_close(p->fd);
        else if (!s->o.tls_cert)
            (void)!send(p->fd, late, strlen(late), MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(p->fd, SHUT_RDWR); /* the HTTP thread sees the end and closes it */
    }
    pthread_mutex_unlock(&s->lock);
}

/* Bytes that the other side has taken in; UINT64_MAX: the system doesn't tell. */
static uint64_t acked_by(int fd)
{
    struct tcp_info info;
    socklen_t n = sizeof(info);
    const bool told = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 &&
                      n >= offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked);
    return told ? info.tcpi_bytes_acked : UINT64_MAX;
}

/* Under lock. What is left of a reply lies in the library and the socket: only the system knows whether it is read. */
static void watch_rest(exchange *x, int64_t now)
{
    const uint64_t acked = acked_by(x->fd);
    if (acked != UINT64_MAX && acked == x->acked) return;
    x->acked = acked;
    x->moved_ns = now;
}

/* Whether the system would take more for the client: what waits then waits for a thread of ours. */
static bool has_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT;
}

static void check_stream(exchange *x, int64_t now)
{
    bool stuck, ping;
    pthread_mutex_lock(&x->lock);
    const bool under_way = x->streams && !x->ended && !x->gone, waits = x->out.n > x->taken,
               rest = x->connection && (x->sends || (x->ended && !waits));
    if (rest) watch_rest(x, now);
    if (x->streams && waits && x->connection && has_room(x->fd)) x->moved_ns = now;
    stuck = ((x->streams && waits) || rest) && now - x->moved_ns > (int64_t)x->server->o.timeout_s * 1000000000;
    ping = under_way && x->route->dialect->pings && now - x->put_ns > (int64_t)PING_S * 1000000000;
    if (stuck) {
        x->gone = true;
        if (x->connection) shutdown(x->fd, SHUT_RDWR);
    }
    answers *a = x->answers;
    pthread_mutex_unlock(&x->lock);
    if (ping) exchange_put(x, ": waiting\n\n", 11);
    if (ping) exchange_wake(x);
    if (stuck) cancel(x);
    if (a) answers_pace(a);
}

/* One at a time, by id, so that no lock is held while it is looked at. */
static void check_streams(server *s, int64_t now)
{
    uint64_t last = UINT64_MAX;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        exchange *x = s->exchanges; /* newest first */
        while (x && (x->id >= last || !(x->streams || x->sends) || !exchange_try_hold(x))) x = x->next;
        pthread_mutex_unlock(&s->lock);
        if (!x) return;
        last = x->id;
        check_stream(x, now);
        exchange_release(x);
    }
}

/* A step that takes so long is a machine without memory, or a mistake of ours: said once each. */
static void watch_step(model *m, void *ctx)
{
    enum { SLOW_S = 30 };
    qn_batcher_stats stats;
    (void)ctx;
    if (m->state != MODEL_loaded || !m->batcher) return;
    qn_batcher_get_stats(m->batcher, &stats);
    const bool slow = stats.step_seconds > SLOW_S;
    if (slow && !m->told_slow)
        text_log(m->server, "%s: a step has been computed for %.0f s", m->name, stats.step_seconds);
    m->told_slow = slow;
}

static void longest_step(model *m, void *ctx)
{
    double *longest = ctx;
    qn_batcher_stats stats;
    if (m->state != MODEL_loaded || !m->batcher) return;
    qn_batcher_get_stats(m->batcher, &stats);
    if (stats.step_seconds > *longest) *longest = stats.step_seconds;
}

double serve_longest_step(server *s)
{
    double longest = 0;
    models_each(s, longest_step, &longest);
    pthread_mutex_lock(&s->lock);
    pthread_mutex_unlock(&s->lock);
    return longest;
}

/* ---- the thread ---- */

/* Without connections nothing has to be looked at: an idle server costs nothing. */
static int patience(server *s)
{
    pthread_mutex_lock(&s->lock);
    const bool idle = !s->peers && !s->exchanges;
    pthread_mutex_unlock(&s->lock);
    return idle ? -1 : TICK_MS;
}

static void *pump(void *ctx)
{
    server *s = ctx;
    struct epoll_event events[EVENTS];
    int64_t ticked = now_ns();
    while (!atomic_load(&s->pump_stops)) {
        const int n = epoll_wait(s->epoll, events, EVENTS, patience(s));
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.u64)
                left(s, events[i].data.u64, now_ns());
            else
                (void)!read(s->wake, &count, sizeof(count));
        }
        pump_all(s);
        const int64_t now = now_ns();
        if (now - ticked < (int64_t)TICK_MS * 1000000) continue;
        ticked = now;
        check_peers(s, now);
        check_streams(s, now);
        models_each(s, watch_step, NULL);
        tls_drop_old(s);
    }
    pump_all(s);
    return NULL;
}

bool pump_start(server *s, qn_error *err)
{
    sigset_t all, old;
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0};
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = s->epoll < 0 || s->wake < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->wake, &e) != 0 ? errno : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (rc == 0) rc = pthread_create(&s->pump, NULL, pump, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->has_pump = rc == 0;
    if (rc == 0) return true;
    err->status = QN_STATUS_limit;
    snprintf(err->text, sizeof(err->text), "cannot watch connections: %s", strerror(rc));
    return false;
}

void pump_stop(server *s)
{
    if (s->has_pump) {
        atomic_store(&s->pump_stops, true);
        pump_notify(s);
        pthread_join(s->pump, NULL);
        s->has_pump = false;
    }
    if (s->epoll >= 0) close(s->epoll);
    if (s->wake >= 0) close(s->wake);
}
