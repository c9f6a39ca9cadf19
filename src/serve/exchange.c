/* SPDX-License-Identifier: MIT */
/* src/serve/exchange.c -- exchanges: held and let go, replied to, their bodies parsed. */
#include "serve/exchange.h"
#include "serve/anthropic.h"
#include "serve/answers.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_DEPTH = 64 };

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void text_log(const server *s, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    if (!s->o.log) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    s->o.log(line);
}

exchange *exchange_hold(exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
    return x;
}

bool exchange_try_hold(exchange *x)
{
    int n = atomic_load(&x->refs);
    while (n && !atomic_compare_exchange_weak(&x->refs, &n, n + 1)) {}
    return n > 0;
}

void exchange_release(exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1) return;
    server *s = x->server;
    pthread_mutex_lock(&s->lock);
    if (x->prev)
        x->prev->next = x->next;
    else
        s->exchanges = x->next;
    if (x->next) x->next->prev = x->prev;
    s->n_exchanges--;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_sub(&s->body_bytes, x->counted);
    answers_free(x->answers);
    if (x->model) loader_release(x->model);
    json_decref(x->json);
    free(x->query_model);
    text_deinit(&x->body);
    free(x->refusal);
    text_deinit(&x->out);
    pthread_mutex_destroy(&x->lock);
    free(x->path);
    free(x);
}

/* ---- replying ---- */

void exchange_wake(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (x->suspended && x->connection) {
        x->suspended = false;
        http_resume(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_handle(exchange *x)
{
    (void)text_was_short(); /* whatever this thread did before */
    x->route->handle(x);
}

void exchange_reply_type(exchange *x, int status, const char *type, text *body)
{
    if (text_was_short()) body->failed = true;
    pthread_mutex_lock(&x->lock);
    if (!x->ready) {
        x->ready = true;
        x->status = status;
        x->content_type = type;
        text_deinit(&x->out);
        x->out = *body;
        *body = (text){0};
        if (x->out.failed) x->status = 503, x->retry_after = 1;
    }
    pthread_mutex_unlock(&x->lock);
    text_deinit(body);
    exchange_wake(x);
}

void exchange_reply(exchange *x, int status, text *body) { exchange_reply_type(x, status, "application/json", body); }

void exchange_reply_json(exchange *x, int status, json_t *body)
{
    text t = {0};
    text_json(&t, body);
    exchange_reply(x, status, &t);
}

/* The list of models is of two dialects: clients of Anthropic's say so. */
static const dialect *dialect_of(const exchange *x)
{
    return x->anthropic && strncmp(x->route->path, "/v1/models", 10) == 0 ? &anthropic_dialect : x->route->dialect;
}

void exchange_refuse(exchange *x, const problem *p)
{
    text t = {0};
    dialect_of(x)->problem(&t, p);
    if (problem_passes(p)) x->retry_after = 1;
    exchange_reply(x, p->status, &t);
}

void exchange_ignores(exchange *x, const char *what)
{
    pthread_mutex_lock(&x->lock);
    const size_t n = strlen(x->warning);
    snprintf(x->warning + n, sizeof(x->warning) - n, "%s%s", n ? ", " : "", what);
    for (char *c = x->warning; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* it becomes a header */
    pthread_mutex_unlock(&x->lock);
}

void exchange_leaves_out(exchange *x, const char *path, const char *what)
{
    char both[256];
    snprintf(both, sizeof(both), "%.180s:%.40s", path, what);
    exchange_ignores(x, both);
}

void exchange_begin_stream(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->streams = true;
    x->ready = true;
    x->status = 200;
    x->content_type = x->route->dialect->stream_type;
    x->moved_ns = x->put_ns = now_ns();
    pthread_mutex_unlock(&x->lock);
    exchange_wake(x);
}

void exchange_put(exchange *x, const char *data, size_t n)
{
    pthread_mutex_lock(&x->lock);
    const bool was_empty = x->out.n == x->taken;
    if (!x->gone) text_put(&x->out, data, n);
    x->put_ns = now_ns();
    if (was_empty) x->moved_ns = x->put_ns;
    pthread_mutex_unlock(&x->lock);
}

void exchange_end_stream(exchange *x, bool broken)
{
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    x->broken = broken;
    pthread_mutex_unlock(&x->lock);
    exchange_wake(x);
}

bool exchange_is_gone(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}

size_t exchange_backlog(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const size_t n = x->out.n - x->taken;
    pthread_mutex_unlock(&x->lock);
    return n;
}

/* ---- bodies ---- */

/* Many small values take more than the largest body where that is small. */
static uint64_t large_body(const server *s)
{
    enum { LEAST = 8 << 20 };
    return s->o.max_body > LEAST ? s->o.max_body : LEAST;
}

bool exchange_count(exchange *x, uint64_t bytes, problem *p)
{
    enum { SUM_OF_BODIES = 8 }; /* times the largest one */
    server *s = x->server;
    const uint64_t most = large_body(s) * SUM_OF_BODIES, own = x->counted + bytes;
    if (!bytes) return true; /* whatever others ask for at this moment */
    if (atomic_fetch_add(&s->body_bytes, bytes) + bytes <= most) {
        x->counted = own;
        return true;
    }
    atomic_fetch_sub(&s->body_bytes, bytes);
    if (own > most) /* it would be refused again */
        return problem_set(p, 413, "", "the request, and what is made of it, take more than %llu bytes (--max-body)",
                           (unsigned long long)most);
    return problem_set(p, 503, "", "too many large requests at once");
}

/* How deep it is, and what its values will take at most, before anything is made of it: of a body of 32 MiB that is all
 * {} they would take 3 GiB. */
static uint64_t bytes_of_values(const char *p, size_t n, bool *too_deep)
{
    enum { OBJECT = 320, LIST = 160, MEMBER = 112 }; /* bytes, of jansson 2.14 */
    uint64_t bytes = 0;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (p[i] == '\\')
                i++;
            else if (p[i] == '"')
                in_string = false;
        } else if (p[i] == '"') {
            in_string = true;
        } else if (p[i] == ',') {
            bytes += MEMBER;
        } else if (p[i] == '{' || p[i] == '[') {
            bytes += p[i] == '{' ? OBJECT + MEMBER : LIST + MEMBER;
            if (++depth > MAX_DEPTH) *too_deep = true;
        } else if (p[i] == '}' || p[i] == ']') {
            depth--;
        }
    }
    return bytes;
}

static bool check_values(exchange *x, problem *p)
{
    enum { TIMES = 4 }; /* as much as the largest body; a million token ids go into 32 MiB */
    bool too_deep = false;
    const uint64_t most = large_body(x->server) * TIMES, bytes = bytes_of_values(x->body.data, x->body.n, &too_deep);
    if (too_deep) return problem_set(p, 400, "", "the body is nested more than %d levels deep", MAX_DEPTH);
    if (bytes > most)
        return problem_set(p, 413, "",
                           "the body has too many values: they take %llu bytes; %llu are taken (--max-body)",
                           (unsigned long long)bytes, (unsigned long long)most);
    return exchange_count(x, bytes, p);
}

static json_t *parse(exchange *x, bool list, problem *p)
{
    json_error_t error;
    const char *expected = list ? "an array" : "an object";
    if (!x->body.n) {
        problem_set(p, 400, "", "the body is empty; %s of JSON is expected", expected);
        return NULL;
    }
    if (!check_values(x, p)) return NULL;
    json_t *body = json_loadb(x->body.data, x->body.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!body) {
        if (json_error_code(&error) == json_error_out_of_memory)
            problem_set(p, 503, "", "out of memory");
        else
            problem_set(p, 400, "", "the body is no JSON: %s (line %d, column %d)", error.text, error.line,
                        error.column);
        return NULL;
    }
    if (list ? json_is_array(body) : json_is_object(body)) return body;
    problem_set(p, 400, "", "the body is %s, %s is expected", json_type_name(body), expected);
    json_decref(body);
    return NULL;
}

json_t *exchange_parse(exchange *x, problem *p) { return x->json ? json_incref(x->json) : parse(x, false, p); }

json_t *exchange_parse_list(exchange *x, problem *p) { return parse(x, true, p); }
