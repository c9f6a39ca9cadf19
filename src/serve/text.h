/* SPDX-License-Identifier: MIT */
/* src/serve/text.h -- text that grows. A failure sticks: whoever sends it looks once.
 *
 * jansson's builders go on with less when memory is short, so that a member, or a whole piece of a stream, would be
 * missing and nobody knew: text_was_short tells, for all that a thread has built. */
#ifndef QN_SERVE_TEXT_H
#define QN_SERVE_TEXT_H

#include <jansson.h>
#include <quern/base.h>

typedef struct text {
    char *data; /* terminated once something was put */
    size_t n, cap;
    bool failed;
} text;

void text_put(text *t, const char *data, size_t n);
void text_puts(text *t, const char *s);
void text_repeat(text *t, size_t at, size_t n); /* n of its own bytes, from `at`, once more */
void text_printf(text *t, const char *fmt, ...) QN_PRINTF(2, 3);
/* Compact; takes the reference. Fails where memory was short: the value may lack a member, then. */
void text_json(text *t, json_t *value);
void text_clear(text *t); /* keeps the memory */
void text_deinit(text *t);
/* From now on text_was_short knows of jansson's allocations, too. */
void text_watch(void);
/* Whether a text or a JSON value found no memory on this thread since this was asked last. */
bool text_was_short(void);
bool text_is_short(void); /* the same, to be asked again */
void text_lost(void);     /* something else that belongs into a text of this thread found none */
/* Takes the first n bytes away. */
void text_drop(text *t, size_t n);

#endif
