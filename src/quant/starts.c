/* SPDX-License-Identifier: MIT */
/* src/quant/starts.c -- the lists of starts, see starts.inc. */
#include "quant/starts.h"

#define STARTS(name, ...) \
    static const qn_start name##_at[] = {__VA_ARGS__}; \
    const qn_starts qn__starts_##name = {(int)(sizeof name##_at / sizeof name##_at[0]), name##_at};
#include "quant/starts.inc"
