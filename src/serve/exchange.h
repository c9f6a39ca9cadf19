/* SPDX-License-Identifier: MIT */
/* src/serve/exchange.h -- one HTTP request and its reply, and the server that has them all.
 *
 * An exchange is made when a request's headers are there. It is held by the connection until the reply is out or the
 * client gone, by the worker that reads it, and by each of its answers under way; whoever lets go last frees it.
 * Threads:
 *
 *     HTTP (libmicrohttpd's)  headers, bodies in, replies out; never computes, never waits
 *     workers                 JSON, templates, tokenizing, grammars; hand requests to the batcher
 *     the executor            the batcher's: leaves tokens in a list, and goes on
 *     the pump                tokens to text, text to the dialect's form, into the reply; watches sockets and deadlines
 *
 * Locks, always in this order: server.models_lock, server.lock, answers.lock, exchange.lock, server.events_lock. */
#ifndef QN_SERVE_EXCHANGE_H
#define QN_SERVE_EXCHANGE_H

#include "serve/model.h"
#include "serve/problem.h"
#include "serve/serve.h"
#include "serve/text.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct answers answers;
typedef struct choice choice;
typedef struct dialect dialect;
typedef struct stored stored; /* a response; responses_store.c */

/* ---- routes ---- */
typedef struct route {
    const char *method, *path; /* a path that ends in * takes any rest */
    void (*handle)(exchange *x);
    const dialect *dialect;
    enum { BY_http, BY_worker, BY_computer } by; /* who answers; see routes.def */
    bool open;                                   /* needs no key */
    enum {
        NEEDS_none,
        NEEDS_model,
        NEEDS_query
    } needs; /* the handler finds exchange.model; model: and exchange.json */
} route;
const route *route_find(const char *method, const char *path, const char **rest, bool *other_method);
void route_methods(const char *path, char *out, size_t size); /* "GET, HEAD", for Allow */

/* How a dialect writes. A stream's functions put text into the reply; the whole reply is made of the same answers. */
typedef struct piece piece;
struct dialect {
    const char *stream_type;                      /* of the content */
    bool pings;                                   /* lines that clients skip may be put in while nothing comes */
    bool always;                                  /* its functions are called for whole replies too */
    void (*problem)(text *out, const problem *p); /* a body */
    const char *no_memory;                        /* the body where there is none to write one */
    void (*begin)(answers *a);                    /* the stream's */
    void (*piece)(answers *a, choice *c, const piece *p); /* of the stream */
    void (*end_choice)(answers *a, choice *c);            /* of the stream */
    void (*end)(answers *a);                              /* of the stream; or makes the whole reply */
    void (*broken)(answers *a, const problem *p);         /* a stream ends with a problem */
    void (*progress)(answers *a, choice *c);              /* NULL: nothing is told while a prompt is read */
};

/* ---- exchanges ---- */
enum { KEY_ID = 24, KEY_NAME = 48 };
typedef struct peer peer; /* a connection */
struct exchange {
    exchange *next, *prev; /* server.exchanges */
    server *server;
    const route *route;
    const char *rest; /* of the path, where the route takes one */
    char *path;
    char method[8]; /* for the log, where no route has it */
    uint64_t id;
    _Atomic int refs;
    char key[KEY_ID];        /* which of the server's keys it came with: names it for the batcher; under server.lock */
    char key_name[KEY_NAME]; /* for the log; "": it has none */
    bool anthropic;          /* sent anthropic-version */
    model *model;            /* held; NULL: none */
    int adapter;             /* 1 + the number of the one of --lora that was named with it; 0: none */
    const char *named;       /* what the client calls it; of `json` or `query_model` */
    model *waits_for;        /* under models_lock */
    json_t *json;            /* the body, once it was parsed */
    char *query_model;       /* "?model=", or NULL */
    text body;
    problem *refusal;       /* told when the body is over, or no more of it comes; it is thrown away. NULL: none */
    _Atomic bool whole;     /* the request is all there: its reply is waited for when the server stops */
    int64_t throw_until_ns; /* the latest time for that */
    uint64_t length;        /* of the body, where that was said */
    uint64_t thrown;        /* of it, bytes thrown away */
    bool has_body;
    uint64_t counted; /* bytes of its body in server.body_bytes */
    int64_t began_ns;
    int64_t asked_ns, load_ns; /* when it asked for its model; how long it waited for that */
    peer *peer;
    exchange *next_job;

    pthread_mutex_t lock;
    void *connection; /* struct MHD_Connection; NULL once it is done with */
    int fd;
    bool begun, suspended, gone; /* begun: a worker has it; gone: the client is */
    bool ready;                  /* the reply below may be sent */
    _Atomic bool streams;
    bool ended, broken; /* out grows until it ended; broken: the connection is cut after it */
    int status, retry_after;
    const char *content_type;
    char allow[64], cors[256];
    char headers[512];    /* that a page may send */
    char response_id[48]; /* of the answers, where others may name them; "": none */
    char warning[256];    /* a header of what was left out */
    text out;
    size_t taken; /* of a stream's out, by the reader */
    /* a whole reply, which nobody else can watch, is on its way; what the client has taken in, as the system counts */
    _Atomic bool sends;
    uint64_t acked;
    int64_t moved_ns; /* when the reader last took something, might have, or we last put something */
    int64_t put_ns;
    answers *answers;
};

struct peer {
    peer *next, *prev; /* server.peers */
    uint64_t id;
    int fd;
    bool greeted;        /* has sent a request */
    exchange *exchange;  /* whose reply is being made; who leaves cancels it */
    bool left;           /* the client is gone, maybe before its request was looked at */
    char *refusal;       /* the reply to who sends no more of a body that is thrown away; NULL: that it came too late */
    bool told;           /* `refusal` was sent, and what still comes has until the deadline */
    int64_t deadline_ns; /* until a request is whole; 0: none runs */
};

struct server {
    serve_options o;
    int64_t started_s;
    void *daemon; /* struct MHD_Daemon */
    int port;
    bool local; /* listens on a loopback address */

    pthread_mutex_t lock;
    exchange *exchanges;
    peer *peers;
    uint64_t last_id, last_peer, n_exchanges;
    struct {
        exchange *first, **end;
    } jobs[2]; /* for workers, and for the computer */
    pthread_cond_t job_came;
    bool stopping;
    _Atomic bool draining; /* takes no more requests */
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t n_served;

    pthread_mutex_t catalog_lock; /* who reads the list of models anew; models_lock comes behind it */
    pthread_mutex_t models_lock;
    pthread_cond_t models_changed; /* for the loader */
    model *models, *wanted;        /* wanted: to be loaded, in order */
    qn_store *store;
    int64_t refreshed_ns; /* when the list was last read, or tried: stale */
    bool stale;
    pthread_t loader;
    bool has_loader;
    _Atomic bool models_stop;

    pthread_mutex_t keys_lock; /* taken alone */
    struct keys *keys;
    int n_key_ids;

    pthread_mutex_t responses_lock; /* nothing else is taken under it */
    stored *responses;

    pthread_mutex_t events_lock;
    choice *ready; /* have events that the pump has not seen */
    int epoll, wake;
    pthread_t pump, workers[17]; /* the first is the computer */
    int n_workers;
    bool has_pump;
    _Atomic bool pump_stops;
};

int64_t now_ns(void);
/* A line of the log, where there is one. */
void text_log(const server *s, const char *fmt, ...) QN_PRINTF(2, 3);

/* ---- replying: from any thread ---- */
/* The whole reply; takes the text. */
void exchange_reply(exchange *x, int status, text *body);
void exchange_reply_json(exchange *x, int status, json_t *body);
void exchange_reply_type(exchange *x, int status, const char *type, text *body);
void exchange_refuse(exchange *x, const problem *p);
/* Named in a header of the reply, and in the log. */
void exchange_ignores(exchange *x, const char *what);
void exchange_leaves_out(exchange *x, const char *path, const char *what); /* "path:what" */
/* A reply that grows. */
void exchange_begin_stream(exchange *x);
void exchange_put(exchange *x, const char *data, size_t n);
void exchange_end_stream(exchange *x, bool broken);
/* What its route does; makes the reply, now or later. */
void exchange_handle(exchange *x);
/* Lets the HTTP thread go on with it. */
void exchange_wake(exchange *x);
bool exchange_is_gone(exchange *x);
size_t exchange_backlog(exchange *x);

exchange *exchange_hold(exchange *x);
/* Under server.lock, one of its list: false where the last has just let go of it. */
bool exchange_try_hold(exchange *x);
void exchange_release(exchange *x);

/* Bodies in memory, and what is made of them, are bounded in sum: so many bytes more. */
bool exchange_count(exchange *x, uint64_t bytes, problem *p);
/* The body as an object, a reference of the caller's; NULL after a problem. Text in it is UTF-8, nested MAX_DEPTH deep
 * at most. */
json_t *exchange_parse(exchange *x, problem *p);
json_t *exchange_parse_list(exchange *x, problem *p); /* an array */

/* ---- http.c ---- */
bool http_start(server *s, qn_error *err);
void http_stop(server *s);

/* ---- http_reply.c ---- */
/* What the HTTP thread does when it was woken; see http.c. */
void http_resume(exchange *x);
/* The reply that is ready, or a stream's beginning; false: the connection is to be closed. */
bool http_send(exchange *x);
/* A path that leads nowhere is refused in OpenAI's form, or in Anthropic's or Ollama's. */
const route *http_route(const exchange *x);

/* ---- work.c ---- */
bool work_start(server *s, qn_error *err);
void work_stop(server *s);
void work_add(exchange *x);

/* ---- pump.c ---- */
enum { LEFT_S = 1 }; /* for what a client that left has sent before */
bool pump_start(server *s, qn_error *err);
void pump_stop(server *s);
/* A connection's socket: under server.lock. */
void pump_watch(server *s, const peer *p);
void pump_unwatch(server *s, const peer *p);
void pump_notify(server *s);

/* ---- access.c: who may come in ---- */
typedef const char *(*header_fn)(void *ctx, const char *name);
/* Fills in the exchange's key and cors. */
bool access_check(exchange *x, const route *r, header_fn header, void *ctx, problem *p);

/* ---- keys.c ---- */
typedef struct keys keys;
bool keys_set(server *s, const serve_key *list, int n); /* copied; false when out of memory */
/* Fills in whose it is. */
bool keys_find(server *s, const char *given, char id[KEY_ID], char name[KEY_NAME]);
void keys_deinit(server *s);

#endif
