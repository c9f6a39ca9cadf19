/* SPDX-License-Identifier: MIT */
/* tests/unit/base/failing.h -- cmocka, and an allocator hook that fails the N-th allocation, or what exceeds a limit,
 * and keeps its own books, so that a leak, a wrong size or a wrong alignment shows without any sanitizer. */
#ifndef QN_TEST_FAILING_H
#define QN_TEST_FAILING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <quern/base.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct {
    _Atomic long countdown; /* the allocation that takes it to 0 fails; negative: none fails */
    _Atomic long n_alloc, n_release, n_failed;
    _Atomic long long bytes;
    _Atomic long long limit; /* of bytes: an allocation that would exceed it fails; 0: none */
} books;

static inline void *books_alloc(void *ctx, size_t size, size_t align)
{
    assert_ptr_equal(ctx, &books);
    assert_true(align >= 16 && (align & (align - 1)) == 0);
    if (atomic_fetch_sub(&books.countdown, 1) == 0) {
        books.n_failed++;
        return NULL;
    }
    if (books.limit > 0 && books.bytes + (long long)size > books.limit) {
        books.n_failed++;
        return NULL;
    }
    void *p = NULL;
    if (posix_memalign(&p, align, size) != 0) return NULL;
    memset(p, 0xA5, size); /* whoever relies on fresh memory being zero finds out here */
    books.n_alloc++;
    books.bytes += (long long)size;
    return p;
}

static inline void books_release(void *ctx, void *ptr, size_t size)
{
    assert_ptr_equal(ctx, &books);
    memset(ptr, 0x5A, size); /* a size too large is caught by AddressSanitizer here */
    books.n_release++;
    books.bytes -= (long long)size;
    free(ptr);
}

/* Installs the hook; `fail_at` 0 fails the very first allocation, a negative number none. */
static inline void books_open(long fail_at)
{
    books.countdown = fail_at;
    books.n_alloc = books.n_release = books.n_failed = 0;
    books.bytes = books.limit = 0;
    qn_set_allocator(&(qn_allocator){books_alloc, books_release, &books});
}

/* Back to the default; everything must have been given back. */
static inline void books_close(void)
{
    qn_set_allocator(NULL);
    assert_int_equal(books.n_alloc, books.n_release);
    assert_true(books.bytes == 0);
}

#endif
