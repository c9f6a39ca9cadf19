/* SPDX-License-Identifier: MIT */
/* src/serve/prompts.h -- prompts as text, ids, or both mixed. */
#ifndef QN_SERVE_PROMPTS_H
#define QN_SERVE_PROMPTS_H

#include "serve/answers.h"

/* Control tokens are found in text where q->special. Text; a list of ids and texts, which is one prompt; or a list of
 * such, or of texts, which are several, `most` at the most. */
bool prompts_read(ask *q, const model *m, const fields *f, const char *name, size_t most);
/* Are there several in it, each with a place of its own in the list? */
bool prompts_several(const json_t *value);
/* A list of ids, *out of which is freed with free; NULL after a problem. */
qn_token *prompts_ids(const model *m, const fields *f, const char *name, size_t *n);

#endif
