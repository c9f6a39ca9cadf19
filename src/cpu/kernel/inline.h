/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/inline.h -- INLINE, for kernels made of many small functions whose shifts and counts must become
 * constants; UNROLL_24 is UNROLL for more iterations. Include it after a level's lanes.h. */
#ifndef QN_CPU_KERNEL_INLINE_H
#define QN_CPU_KERNEL_INLINE_H

/* Everything is unrolled and inlined into its kernel, so that column counts and shifts are constants. A sanitized
 * build keeps loops and calls: with a check at each access, one file would take minutes to compile. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef UNROLL
#define UNROLL
#define UNROLL_24
#define INLINE __attribute__((unused)) static
#else
#ifdef __clang__
#define UNROLL_24 _Pragma("clang loop unroll(full)") /* "unroll" alone comes too late for registers */
#else
#define UNROLL_24 _Pragma("GCC unroll 24")
#endif
#define INLINE static inline __attribute__((always_inline))
#endif

#endif
