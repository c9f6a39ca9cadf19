/* SPDX-License-Identifier: MIT */
/* src/serve/anthropic.h -- Anthropic's dialect: anthropic.c reads it, anthropic_write.c writes it. */
#ifndef QN_SERVE_ANTHROPIC_H
#define QN_SERVE_ANTHROPIC_H

#include "serve/answers.h"

extern const dialect anthropic_dialect;

#endif
