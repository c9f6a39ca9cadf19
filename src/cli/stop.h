/* SPDX-License-Identifier: MIT */
/* src/cli/stop.h -- text passed on until a stop string comes; what may be the beginning of one is held back. */
#ifndef QN_CLI_STOP_H
#define QN_CLI_STOP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_stop {
    const char *const *strings;
    int n_strings;
    size_t longest;
    char *held; /* text not yet passed on */
    size_t n_held, cap;
    char *out; /* what the last push or finish passed on; n_out bytes, valid until the next */
    size_t n_out, out_cap;
    bool hit; /* a stop string came: nothing follows */
} cli_stop;

/* The strings are borrowed; empty ones are left out of account. False when out of memory. */
bool cli_stop_init(cli_stop *s, const char *const *strings, int n_strings);
void cli_stop_deinit(cli_stop *s);
/* False once a stop string came. */
bool cli_stop_push(cli_stop *s, const char *text, size_t len);
/* Passes on what is held back: the end of the text was no stop string after all. */
void cli_stop_finish(cli_stop *s);

#endif
