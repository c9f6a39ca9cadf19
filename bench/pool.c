/* SPDX-License-Identifier: MIT */
/* bench/pool.c -- what a hit of a context's pool of memory (src/array/eval/memory.c) saves against malloc and memset.
 * Both sides touch every page of the buffer, as a user of it would; a hit hands out memory whose pages are there
 * already. Prints median microseconds of one get, touch, put. */
#include "array/array.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200 };

static void touch(volatile char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 4096) p[i] = 1;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One way to a buffer that is ready to use, and back. */
static void by_pool(qn_context *ctx, size_t n)
{
    qn_memory *m = NULL;
    if (qn__memory_get(ctx, 0, n, &m, NULL) != QN_OK) exit(1);
    touch(m->buffer->host, n);
    qn__memory_put(ctx, m);
}

/* Behind volatile pointers, or the compiler joins or drops the three calls. */
static void *(*volatile opaque_malloc)(size_t) = malloc;
static void *(*volatile opaque_memset)(void *, int, size_t) = memset;
static void (*volatile opaque_free)(void *) = free;

static void by_malloc(qn_context *ctx, size_t n)
{
    (void)ctx;
    char *p = opaque_malloc(n);
    if (p) {
        opaque_memset(p, 0, n);
        touch(p, n);
    }
    opaque_free(p);
}

static double median_us(void (*way)(qn_context *, size_t), qn_context *ctx, size_t n)
{
    static double us[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t start = qn__now_ns();
        way(ctx, n);
        us[i] = (double)(qn__now_ns() - start) * 1e-3;
    }
    qsort(us, ROUNDS, sizeof(*us), by_value);
    return us[ROUNDS / 2];
}

int main(void)
{
    static const size_t sizes[] = {64 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20};
    qn_context *ctx = NULL;
    if (qn_context_create(NULL, &ctx, NULL) != QN_OK) return 1;
    printf("%10s %12s %18s %8s\n", "bytes", "pool hit", "malloc + memset", "ratio");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        by_pool(ctx, sizes[i]); /* the miss that fills the pool */
        const double hit = median_us(by_pool, ctx, sizes[i]), fresh = median_us(by_malloc, ctx, sizes[i]);
        printf("%10zu %9.2f us %15.2f us %8.1f\n", sizes[i], hit, fresh, fresh / hit);
    }
    qn_context_destroy(ctx);
    return 0;
}
