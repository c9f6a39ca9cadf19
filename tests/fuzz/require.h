/* SPDX-License-Identifier: MIT */
/* tests/fuzz/require.h -- a broken promise ends a fuzz target, with its place and text. */
#ifndef QN_FUZZ_REQUIRE_H
#define QN_FUZZ_REQUIRE_H

#include <stdio.h>

#define REQUIRE(x) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            __builtin_trap(); \
        } \
    } while (0)

#endif
