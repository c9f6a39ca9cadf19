/* SPDX-License-Identifier: MIT */
/* src/serve/ollama.h -- Ollama's dialect: ollama.c answers, ollama_models.c tells what there is. */
#ifndef QN_SERVE_OLLAMA_H
#define QN_SERVE_OLLAMA_H

#include "serve/answers.h"

/* The model that a body names, as "model" or "name"; NULL after a problem. A body takes its time to be read: not under
 * a lock. */
const char *ollama_name(exchange *x, problem *p);
/* "keep_alive": seconds or "5m"; negative for ever, 0 not at all. *ns stays where nothing is said; false after a
 * problem. It acts when the request was taken. */
#define KEEP_AS_IT_IS INT64_MIN
bool ollama_keep_alive(const fields *f, int64_t *ns);
void ollama_keep(exchange *x, int64_t ns, const problem *p);

json_t *ollama_time(int64_t seconds);

extern const dialect ollama_chat_dialect, ollama_generate_dialect;

#endif
