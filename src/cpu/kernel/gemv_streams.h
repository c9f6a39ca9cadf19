/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_streams.h -- the kernels of kernel/gemv.h once more, with rows that stand apart
 * (kernel/gemv_driver.h), for processors that read memory fastest as several streams. A level's mm_gemv_streams.c
 * defines FN(name), includes this and then all of its mm_gemv*.c.
 *
 * On Sapphire Rapids a sequential stream, asked for or not, gives a thread 7 to 9.5 GB/s, eight and more of them at a
 * time 12 to 14: only the prefetch of the second-level cache, which knows a stream by its page, has more lines on their
 * way than the 16 that a core waits for itself. One column of 2048 at AVX-512, two threads, GB/s of weights from
 * memory, neighbours and apart: Q8_0 18.5, 25; Q4_0 18.5, 21; Q4_K 17.4, 23; Q6_K 17.1, 23; F16 16.8, 20;
 * Q3_K 16.5, 18. At AVX2: Q8_0 12, 15.2; Q4_K 11.7, 14.8; Q6_K 11.1, 13.8; F16 11.2, 13.8; Q2_K and Q3_K the same. */
#ifndef QN_CPU_KERNEL_GEMV_STREAMS_H
#define QN_CPU_KERNEL_GEMV_STREAMS_H

#define MAX_ROW_STRIDE 16 /* 8: Q4_K 20.3, Q6_K 17.5 */
/* Bytes of a row. 256, 512, 768, 1024: Q8_0 20.6 26.9 27.7 25.8, Q6_K 23.7 24.3 23.6 22.9, Q3_K 18.1 18.9 17.9 17.5;
 * nothing: Q6_K 18.5 */
#define PREFETCH_BYTES 512

#endif
