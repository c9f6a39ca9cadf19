/* SPDX-License-Identifier: MIT */
/* src/serve/ollama.h -- Ollama's dialect: ollama.c answers, ollama_models.c tells what there is. */
#ifndef QN_SERVE_OLLAMA_H
#define QN_SERVE_OLLAMA_H

#include "serve/answers.h"

json_t *ollama_time(int64_t seconds);

extern const dialect ollama_chat_dialect, ollama_generate_dialect;

#endif
