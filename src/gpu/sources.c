/* SPDX-License-Identifier: MIT */
/* src/gpu/sources.c -- the kernels' sources, as the build embeds them. */
#include "gpu/gpu.h"

#include "kernels.inc"

#include <string.h>

static const struct {
    const char *name;
    const unsigned char *text;
    size_t len;
} sources[] = {
#define ROW(name, array) {name, array, sizeof(array) - 1},
    EMBEDDED_ROWS(ROW)
#undef ROW
};

const char *qn__gpu_source(int i, size_t *len)
{
    if (i < 0 || (size_t)i >= sizeof(sources) / sizeof(*sources)) return NULL;
    *len = sources[i].len;
    return (const char *)sources[i].text;
}
