/* SPDX-License-Identifier: MIT */
/* src/base/fpenv.h -- the processor's floating-point state. Bits of results must not hang on what a host program has
 * set for itself: rounding to nearest, subnormal numbers kept, no traps. */
#ifndef QN_BASE_FPENV_H
#define QN_BASE_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
/* The state that was; what it is from now on is the default. */
static inline uint64_t qn__fp_begin(void)
{
    const unsigned was = _mm_getcsr();
    if ((was & ~0x3fu) != 0x1f80) _mm_setcsr(0x1f80); /* but for the flags of what happened */
    return was;
}
static inline void qn__fp_end(uint64_t was)
{
    if (((unsigned)was & ~0x3fu) != 0x1f80) _mm_setcsr((unsigned)was);
}
#elif defined(__aarch64__)
static inline uint64_t qn__fp_begin(void)
{
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    if (was) __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0) : "memory");
    return was;
}
static inline void qn__fp_end(uint64_t was)
{
    if (was) __asm__ volatile("msr fpcr, %0" ::"r"(was) : "memory");
}
#else
static inline uint64_t qn__fp_begin(void) { return 0; }
static inline void qn__fp_end(uint64_t was) { (void)was; }
#endif

#endif
