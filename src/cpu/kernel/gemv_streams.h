/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_streams.h -- the kernels of gemv.h a second time, for processors that read memory fastest as
 * several streams: the rows of a kernel have a stride (gemv_driver.h). A level's mm_gemv_streams*.c define FN(name),
 * include this and then all of its mm_gemv*.c between them.
 *
 * On Sapphire Rapids a sequential stream gives a thread 7 to 9.5 GB/s, prefetched or not, and eight or more streams
 * 12 to 14: the second-level cache's prefetcher, which tracks streams by page, keeps more lines in flight than the
 * 16 that a core waits for itself. One column of 2048, two threads, GB/s of weights from memory:
 *     AVX-512    Q8_0   Q4_0   Q4_K   Q6_K   F16    Q3_K      AVX2   Q8_0   Q4_K   Q6_K   F16    (Q2_K, Q3_K: equal)
 *     gemv       18.5   18.5   17.4   17.1   16.8   16.5             12     11.7   11.1   11.2
 *     streams    25     21     23     23     20     18               15.2   14.8   13.8   13.8 */
#ifndef QN_CPU_KERNEL_GEMV_STREAMS_H
#define QN_CPU_KERNEL_GEMV_STREAMS_H

#define MAX_ROW_STRIDE 16 /* rows; with 8: Q4_K 20.3 GB/s, Q6_K 17.5 */
/* Prefetch distance in bytes of a row. With 256, 512, 768, 1024: Q8_0 20.6, 26.9, 27.7, 25.8 GB/s; Q6_K 23.7, 24.3,
 * 23.6, 22.9; Q3_K 18.1, 18.9, 17.9, 17.5. Without: Q6_K 18.5. */
#define PREFETCH_BYTES 512

#endif
