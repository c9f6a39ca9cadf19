/* SPDX-License-Identifier: MIT */
/* src/serve/http_reply.c -- how replies leave by libmicrohttpd: whole ones, and streams that it asks for what there is.
 */
#include "serve/answers.h"
#include "serve/exchange.h"
#include <microhttpd.h>
#include <string.h>

void http_resume(exchange *x) { MHD_resume_connection(x->connection); }

/* Called by an HTTP thread when the client can take more. */
static ssize_t read_stream(void *ctx, uint64_t pos, char *buf, size_t max)
{
    exchange *x = ctx;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&x->lock);
    const size_t left = x->out.n - x->taken;
    if (left) {
        n = (ssize_t)(left < max ? left : max);
        memcpy(buf, x->out.data + x->taken, (size_t)n);
        x->taken += (size_t)n;
        if (x->taken >= x->out.n - x->taken) text_drop(&x->out, x->taken), x->taken = 0; /* each byte moves once */
        x->moved_ns = now_ns();
    } else if (x->out.failed || (x->ended && x->broken) || (x->gone && !x->ended)) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (x->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static void drop_stream(void *ctx) { exchange_release(ctx); }

static void add_headers(const exchange *x, struct MHD_Response *r)
{
    char number[16];
    if (x->content_type) MHD_add_response_header(r, "Content-Type", x->content_type);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "Server", "quern");
    if (x->streams) MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* nginx passes on what comes */
    if (x->cors[0]) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", x->cors);
        MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Quern-Ignored, Retry-After");
        MHD_add_response_header(r, "Vary", "Origin");
    }
    if (x->headers[0]) MHD_add_response_header(r, "Access-Control-Allow-Headers", x->headers);
    if (x->allow[0]) MHD_add_response_header(r, x->route ? "Allow" : "Access-Control-Allow-Methods", x->allow);
    if (x->warning[0]) MHD_add_response_header(r, "X-Quern-Ignored", x->warning);
    if (x->status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (x->retry_after) {
        snprintf(number, sizeof(number), "%d", x->retry_after);
        MHD_add_response_header(r, "Retry-After", number);
    }
    if (x->status == 400 || x->status == 408 || x->status == 413) MHD_add_response_header(r, "Connection", "close");
}

const route *http_route(const exchange *x)
{
    const char *rest;
    bool other;
    if (x->route) return x->route;
    const bool ollama = strncmp(x->path, "/api/", 5) == 0;
    const char *like = ollama ? "/api/chat" : x->anthropic ? "/v1/messages" : "/v1/chat/completions";
    return route_find("POST", like, &rest, &other);
}

bool http_send(exchange *x)
{
    struct MHD_Response *r;
    pthread_mutex_lock(&x->lock);
    if (x->streams) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_stream, x, drop_stream);
        if (r) exchange_hold(x);
    } else if (x->out.n && !x->out.failed) {
        r = MHD_create_response_from_buffer(x->out.n, x->out.data, MHD_RESPMEM_MUST_FREE);
        if (r) x->out = (text){0};
    } else {
        const char *body = x->out.failed ? http_route(x)->dialect->no_memory : "";
        r = MHD_create_response_from_buffer(strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    }
    if (r) add_headers(x, r);
    x->moved_ns = now_ns();
    x->sends = !x->streams;
    pthread_mutex_unlock(&x->lock);
    if (!r) return false;
    const bool sent = MHD_queue_response(x->connection, (unsigned)x->status, r) == MHD_YES;
    MHD_destroy_response(r);
    return sent;
}
