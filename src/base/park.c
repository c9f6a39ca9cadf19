/* SPDX-License-Identifier: MIT */
/* src/base/park.c -- see park.h. QN_NO_FUTEX forces the portable form on Linux, so that it can be tested there. */
#include "base/park.h"

#if defined(__linux__) && !defined(QN_NO_FUTEX)

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic int) == 4, "a futex is a 32-bit word");

void qn__park(_Atomic int *word, int old) { syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0); }

void qn__unpark_all(_Atomic int *word) { syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

#else

#include <pthread.h>
#include <stdint.h>

/* The word is read under the bucket's mutex and every waker takes that mutex after its change: no wake-up is lost.
 * Words that share a bucket wake each other in vain, which is allowed. */
static struct bucket {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
} buckets[8] = {
/* clang-format off */
#define BUCKET {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER}
    /* clang-format on */
    BUCKET, BUCKET, BUCKET, BUCKET, BUCKET, BUCKET, BUCKET, BUCKET,
#undef BUCKET
};

static struct bucket *bucket_of(_Atomic int *word) { return &buckets[((uintptr_t)word >> 6) % 8]; }

void qn__park(_Atomic int *word, int old)
{
    struct bucket *b = bucket_of(word);
    pthread_mutex_lock(&b->mutex);
    if (atomic_load_explicit(word, memory_order_seq_cst) == old) pthread_cond_wait(&b->cond, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

void qn__unpark_all(_Atomic int *word)
{
    struct bucket *b = bucket_of(word);
    pthread_mutex_lock(&b->mutex);
    pthread_cond_broadcast(&b->cond);
    pthread_mutex_unlock(&b->mutex);
}

#endif
