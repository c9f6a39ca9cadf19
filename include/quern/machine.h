/* SPDX-License-Identifier: MIT */
/* quern/machine.h -- what the machine offers: processor level, cores, caches, memory, and measured peaks. */
#ifndef QUERN_MACHINE_H
#define QUERN_MACHINE_H

#include <quern/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_CPU_LEVEL(name, base, "what it needs"): rungs of the CPU backend, from slow to fast; each includes its base. Each
 * kind of processor has its own ladder on top of `ref`. */
/* clang-format off */
#define QN_X86_LEVEL_ROWS(QN_CPU_LEVEL) \
    QN_CPU_LEVEL(ref,     ref,     "nothing: portable C") \
    QN_CPU_LEVEL(avx2,    ref,     "AVX2, FMA and F16C") \
    QN_CPU_LEVEL(avxvnni, avx2,    "AVX-VNNI: dot products of bytes without AVX-512") \
    QN_CPU_LEVEL(avx512,  avx2,    "AVX-512 F, BW, DQ, VL and VNNI") \
    QN_CPU_LEVEL(amx,     avx512, \
        "AMX: products of matrices of bytes and of bfloat16, and the system's leave to use its tiles")
#define QN_ARM_LEVEL_ROWS(QN_CPU_LEVEL) \
    QN_CPU_LEVEL(ref,     ref,     "nothing: portable C") \
    QN_CPU_LEVEL(neon,    ref,     "Advanced SIMD, which every AArch64 processor has") \
    QN_CPU_LEVEL(dotprod, neon,    "dot products of bytes (ARMv8.4, optional from 8.2)") \
    QN_CPU_LEVEL(i8mm,    dotprod, "products of matrices of bytes (ARMv8.6, optional from 8.2)")
/* clang-format on */
#if defined(__x86_64__)
#define QN_CPU_LEVEL_ROWS QN_X86_LEVEL_ROWS
#elif defined(__aarch64__)
#define QN_CPU_LEVEL_ROWS QN_ARM_LEVEL_ROWS
#else
#define QN_CPU_LEVEL_ROWS(QN_CPU_LEVEL) QN_CPU_LEVEL(ref, ref, "nothing: portable C")
#endif

/* "ref, ..": the names of this processor's ladder. */
#define QN_CPU_LEVEL_LISTED(name, base, needs) ", " #name
#define QN_CPU_LEVEL_NAMES                     (&(QN_CPU_LEVEL_ROWS(QN_CPU_LEVEL_LISTED))[2])

typedef enum qn_cpu_level {
/* clang-format off */
#define QN_CPU_LEVEL_ENUM(name, base, needs) QN_CPU_##name,
    QN_CPU_LEVEL_ROWS(QN_CPU_LEVEL_ENUM)
#undef QN_CPU_LEVEL_ENUM
    QN_CPU_LEVEL_COUNT
    /* clang-format on */
} qn_cpu_level;

typedef struct qn_machine {
    char cpu_name[64];
    char features[128];  /* "avx2 fma f16c avx512f ..." */
    qn_cpu_level level;  /* the best this machine runs */
    unsigned levels;     /* bit l: it runs level l */
    int logical_cpus;    /* online */
    int usable_cpus;     /* by the affinity mask */
    int physical_cores;  /* behind the usable ones */
    double quota_cpus;   /* cgroup limit, 0 when there is none */
    int default_threads; /* what Quern starts unless told */
    /* a thread reads weights fastest as several streams at once: Intel's processors and AMD's Zen 4 (bench/streams.c
     * and bench/mm_gemv.c show yours) */
    bool many_streams;
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* of one instance; 0 unknown */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes;  /* what this process may still take, by machine and cgroup; 0 unknown */
    uint64_t memory_limit_bytes; /* the cgroup's, 0 none */
} qn_machine;

/* On a Linux processor with AMX the first call asks the kernel to let this process use tiles (arch_prctl,
 * ARCH_REQ_XCOMP_PERM): signals of a thread that is just using them then take 8 KiB more of its stack. Where
 * the kernel refuses, `amx` is not among the levels. */
QN_API void qn_machine_get(qn_machine *out);
QN_API const char *qn_cpu_level_name(qn_cpu_level level);
QN_API bool qn_cpu_level_find(const char *name, qn_cpu_level *out);

typedef struct qn_machine_peaks {
    int threads;
    /* reads of a buffer far larger than the caches, in one stream or in eight, the better; 1 GB = 1e9 bytes */
    double read_gb_s;
    double int8_gops;   /* 8-bit multiply-adds at the level, counted as 2 operations each */
    double f32_gflops;  /* fused multiply-adds, 2 operations each */
    double bf16_gflops; /* the same with weights of BF16: more where the level has products of bfloat16 */
} qn_machine_peaks;

/* Measures for about `seconds` in all (0 means 1.0) with `threads` (0: default) at `level`. */
QN_API qn_status qn_machine_measure(qn_cpu_level level, int threads, double seconds, qn_machine_peaks *out,
                                    qn_error *err);
/* Only f32_gflops, which takes no memory; *gflops is set on success. */
QN_API qn_status qn_machine_measure_f32(qn_cpu_level level, int threads, double seconds, double *gflops, qn_error *err);

/* How fast a file is read; 1 GB = 1e9 bytes. */
typedef struct qn_disk_rates {
    double ahead_gb_s;         /* pieces of 8 MiB, dropped behind, by one thread: as qn_engine_options.memory reads */
    double ahead_cpu_s_gb;     /* processor time of that thread, seconds a GB */
    double fault_gb_s;         /* one thread touches mapped pages in their order, dropped behind */
    double around_gb_s;        /* a page here and there, each with read_ahead_bytes around it, dropped behind */
    double scattered_gb_s;     /* pieces of 256 KiB here and there, 16 asked for at once: as it reads experts */
    uint64_t read_ahead_bytes; /* that the kernel reads for a page that is missing; 0: not known */
} qn_disk_rates;
/* Reads a regular file in each of these ways for 1.5 s at most, 256 MiB at a time, and gives the pages back: what of
 * them was in memory, and nobody has mapped, has to be read again. invalid: the file is smaller than 32 MiB. */
QN_API qn_status qn_disk_measure(const char *path, qn_disk_rates *out, qn_error *err);
/* Only read_ahead_bytes, which takes no reading; 0, too, where there is no such file. */
QN_API uint64_t qn_disk_read_ahead(const char *path);

/* ---- devices beside the processor ---- */

typedef struct qn_device {
    char backend[40];      /* as a list of backends names it: "opencl:0" */
    char name[64];         /* its maker's name for it */
    uint64_t memory_bytes; /* of its own, or the host's that it may use */
    bool integrated;       /* its memory is the host's */
    bool processor;        /* it is this machine's processor, behind a library for devices */
    bool same_bits;        /* its numbers are rounded as the CPU's: results are the same to the bit */
} qn_device;

/* Writes the devices that this build can compute on and finds now, at most `max`; returns how many it wrote. why (may
 * be NULL): where libraries of devices are not there or too old, a line about them, status unsupported; else status OK.
 * Opens drivers' libraries, which may take a second the first time. */
QN_API int qn_devices_get(qn_device *out, int max, qn_error *why);

typedef struct qn_device_peaks {
    double copy_gb_s;  /* read and written within its memory, both counted; 0: it does not copy by itself */
    double up_gb_s;    /* from memory of the host's that transfers don't copy first, where there is such */
    double down_gb_s;  /* to the host */
    double int8_gops;  /* multiply-adds of a prompt's products with weights in Q8_0, counted as 2 operations each */
    double f16_gflops; /* the same with weights in F16 */
} qn_device_peaks;

/* Opens the device that a list of backends would name `backend` ("cuda:0"), measures for about `seconds` (0 means 1.0;
 * compiling its kernels comes on top) and closes it. Takes up to 600 MB of its memory, an eighth of it at most. */
QN_API qn_status qn_device_measure(const char *backend, double seconds, qn_device_peaks *out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
