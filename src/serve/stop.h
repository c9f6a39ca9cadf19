/* SPDX-License-Identifier: MIT */
/* src/serve/stop.h -- text passed on until a stop string comes; what may be the beginning of one is held back. */
#ifndef QN_SERVE_STOP_H
#define QN_SERVE_STOP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct stop_text {
    const char *const *strings;
    size_t *len; /* of each */
    int n_strings;
    size_t longest;
    char *held; /* text not yet passed on */
    size_t n_held, cap;
    char *out; /* what the last push or finish passed on; n_out bytes, valid until the next */
    size_t n_out, out_cap;
    bool hit;  /* a stop string came: nothing follows */
    int which; /* the number of that string */
} stop_text;

/* The strings are borrowed; empty ones are left out of account. False when out of memory. */
bool stop_text_init(stop_text *s, const char *const *strings, int n_strings);
void stop_text_deinit(stop_text *s);
/* False once a stop string came. */
bool stop_text_push(stop_text *s, const char *text, size_t len);
/* Passes on what is held back: the end of the text was no stop string after all. */
void stop_text_finish(stop_text *s);

#endif
