/* SPDX-License-Identifier: MIT */
/* src/serve/stop.c -- see stop.h. A push costs the held bytes times the stop strings: both are short. */
#include "serve/stop.h"
#include <stdlib.h>
#include <string.h>

bool stop_text_init(stop_text *s, const char *const *strings, int n_strings)
{
    *s = (stop_text){.strings = strings, .n_strings = n_strings};
    s->len = malloc(((size_t)n_strings + 1) * sizeof(*s->len));
    for (int i = 0; i < n_strings && s->len; i++) {
        s->len[i] = strlen(strings[i]);
        if (s->len[i] > s->longest) s->longest = s->len[i];
    }
    s->cap = s->out_cap = s->longest + 4096; /* room for the usual piece; longer ones make it grow */
    s->held = malloc(s->cap);
    s->out = malloc(s->out_cap);
    return s->len && s->held && s->out;
}

void stop_text_deinit(stop_text *s)
{
    free(s->len);
    free(s->held);
    free(s->out);
    *s = (stop_text){0};
}

static bool reserve(char **data, size_t *cap, size_t need)
{
    if (need <= *cap) return true;
    char *more = realloc(*data, need * 2);
    if (!more) return false;
    *data = more;
    *cap = need * 2;
    return true;
}

static void pass_on(stop_text *s, size_t n)
{
    memcpy(s->out, s->held, n);
    s->n_out = n;
    memmove(s->held, s->held + n, s->n_held - n);
    s->n_held -= n;
}

/* At position `at` of the held text: 2 a whole stop string, 1 the text ends in what may become one, 0 neither. */
static int match_at(stop_text *s, size_t at)
{
    int best = 0;
    for (int i = 0; i < s->n_strings; i++) {
        const size_t len = s->len[i], left = s->n_held - at;
        if (len == 0) continue;
        if (left >= len && memcmp(s->held + at, s->strings[i], len) == 0) {
            s->which = i;
            return 2;
        }
        if (left < len && memcmp(s->held + at, s->strings[i], left) == 0) best = 1;
    }
    return best;
}

bool stop_text_push(stop_text *s, const char *text, size_t len)
{
    s->n_out = 0;
    if (s->hit || !reserve(&s->held, &s->cap, s->n_held + len) || !reserve(&s->out, &s->out_cap, s->n_held + len))
        return false;
    memcpy(s->held + s->n_held, text, len);
    s->n_held += len;
    size_t at = 0;
    int match = 0;
    while (at < s->n_held && !(match = match_at(s, at))) at++;
    if (match == 2) {
        s->hit = true;
        pass_on(s, at);
        s->n_held = 0;
        return false;
    }
    pass_on(s, at);
    return true;
}

void stop_text_finish(stop_text *s)
{
    s->n_out = 0;
    if (s->hit) return;
    size_t end = 0; /* a short stop string may hide behind the beginning of a longer one */
    while (end < s->n_held && match_at(s, end) != 2) end++;
    pass_on(s, end);
}
