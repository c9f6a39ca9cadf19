/* SPDX-License-Identifier: MIT */
/* src/cli/lens.h -- quern lens: what its files share. */
#ifndef QN_CLI_LENS_H
#define QN_CLI_LENS_H

#include "cli/cli.h"
#include <quern/lens.h>

/* What there is to show. */
typedef struct lens_view {
    const qn_engine *engine;
    const qn_lens *lens;
    qn_lens_info info;
    int32_t position; /* of the token whose words are listed */
    bool attention;
    const qn_lens_grid *grid; /* NULL: nothing was patched */
    const char *value;        /* that was */
    const qn_token *other;    /* [n_tokens] where from */
} lens_view;

/* What a token stands for; "" where there is no memory. Freed with free. */
char *lens_text(const qn_engine *engine, qn_token token);

/* ---- lens_text.c, lens_json.c ---- */
void lens_print(const lens_view *v, FILE *out);
void lens_print_json(const lens_view *v, FILE *out);

#endif
