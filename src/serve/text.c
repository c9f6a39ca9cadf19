/* SPDX-License-Identifier: MIT */
/* src/serve/text.c -- see text.h. */
#include "serve/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 256 /* an event of a stream; JSON comes in pieces of a byte or two, each of which would grow it */

static _Thread_local bool short_of_memory;

static void *watched_alloc(size_t n)
{
    void *p = malloc(n);
    short_of_memory = short_of_memory || !p;
    return p;
}

void text_watch(void) { json_set_alloc_funcs(watched_alloc, free); }

bool text_was_short(void)
{
    const bool was = short_of_memory;
    short_of_memory = false;
    return was;
}

bool text_is_short(void) { return short_of_memory; }

void text_lost(void) { short_of_memory = true; }

static bool reserve(text *t, size_t more)
{
    if (t->failed || more > SIZE_MAX / 4 - t->n) t->failed = short_of_memory = true;
    if (t->failed || t->n + more + 1 <= t->cap) return !t->failed;
    const size_t need = (t->n + more + 1) * 2, cap = need > LEAST ? need : LEAST;
    char *data = realloc(t->data, cap);
    if (!data) {
        t->failed = short_of_memory = true;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

void text_put(text *t, const char *data, size_t n)
{
    if (!reserve(t, n)) return;
    if (n) memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = '\0';
}

void text_repeat(text *t, size_t at, size_t n)
{
    if (reserve(t, n)) text_put(t, t->data + at, n); /* which moves nothing now */
}

void text_puts(text *t, const char *s) { text_put(t, s, strlen(s)); }

void text_printf(text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !reserve(t, (size_t)n)) {
        t->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(t->data + t->n, (size_t)n + 1, fmt, args);
    va_end(args);
    t->n += (size_t)n;
}

static int put_some(const char *data, size_t n, void *ctx)
{
    text_put(ctx, data, n);
    return ((text *)ctx)->failed ? -1 : 0;
}

void text_json(text *t, json_t *value)
{
    if (short_of_memory || !value || json_dump_callback(value, put_some, t, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        t->failed = short_of_memory = true;
    json_decref(value);
}

void text_clear(text *t)
{
    t->n = 0;
    t->failed = false;
    if (t->data) t->data[0] = '\0';
}

void text_deinit(text *t)
{
    free(t->data);
    *t = (text){0};
}

void text_drop(text *t, size_t n)
{
    memmove(t->data, t->data + n, t->n - n);
    t->n -= n;
    t->data[t->n] = '\0';
}
