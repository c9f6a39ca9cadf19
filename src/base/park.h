/* SPDX-License-Identifier: MIT */
/* src/base/park.h -- sleeping until a word changes. Linux: a futex. Elsewhere: condition variables shared by address.
 * Only park.c knows which; the atomics at the call sites carry all the ordering. */
#ifndef QN_BASE_PARK_H
#define QN_BASE_PARK_H

#include <stdatomic.h>

/* Returns when *word may differ from old; spurious returns are allowed, so callers loop. */
void qn__park(_Atomic int *word, int old);
/* Wakes all who are parked on word; call it after the change. */
void qn__unpark_all(_Atomic int *word);

/* Tells the core that this is a spin loop. */
static inline void qn__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
