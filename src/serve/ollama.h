/* SPDX-License-Identifier: MIT */
/* src/serve/ollama.h -- Ollama's dialect: ollama.c answers, ollama_models.c tells what there is. */
#ifndef QN_SERVE_OLLAMA_H
#define QN_SERVE_OLLAMA_H

#include "serve/answers.h"

/* "keep_alive": seconds or "5m"; negative for ever, 0 not at all. Of the exchange's model; false after a problem. */
/* The model that a body names, as "model" or "name", under models_lock; NULL after a problem. */
model *ollama_named(exchange *x, int *adapter, problem *p);
bool ollama_keep_alive(exchange *x, const fields *f);

json_t *ollama_time(int64_t seconds);

extern const dialect ollama_chat_dialect, ollama_generate_dialect;

#endif
