/* SPDX-License-Identifier: MIT */
/* src/base/poison.h -- marking memory that nobody may touch, in checked builds: filled with a telling byte, and shown
 * to AddressSanitizer where that is on. In Release all of it is nothing. */
#ifndef QN_BASE_POISON_H
#define QN_BASE_POISON_H

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define QN_HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QN_HAVE_ASAN 1
#endif
#endif

#define QN_POISON_BYTE 0xDB

#ifdef QN_HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define QN_HIDE(p, n) __asan_poison_memory_region((p), (n))
#define QN_SHOW(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define QN_HIDE(p, n) ((void)(p), (void)(n))
#define QN_SHOW(p, n) ((void)(p), (void)(n))
#endif

/* The memory must be shown at the time. */
static inline void qn__poison(void *p, size_t n)
{
#ifdef QN_CHECKED
    memset(p, QN_POISON_BYTE, n);
#endif
    QN_HIDE(p, n);
}

#endif
