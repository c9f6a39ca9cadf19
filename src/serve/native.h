/* SPDX-License-Identifier: MIT */
/* src/serve/native.h -- what llama-server's endpoints share. */
#ifndef QN_SERVE_NATIVE_H
#define QN_SERVE_NATIVE_H

#include "serve/answers.h"

json_t *native_timings(const choice *c);
/* How much of the prompt was read. */
json_t *native_progress(const choice *c);

extern const dialect native_dialect;
/* What /completion and /infill have in common. */
bool native_options(ask *q, exchange *x, const fields *f);

/* ---- infill.c ---- */
/* Has the vocabulary tokens for a prefix, a suffix and what lies between? */
bool infill_can(const model *m);
/* The prompt of "prompt" and "suffix", for what lies between: [prefix] PROMPT [suffix] SUFFIX [middle]. */
bool infill_prompt(ask *q, const model *m, const fields *f);

#endif
