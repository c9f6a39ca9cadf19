/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/types.cl -- what the dialects of kernels name differently. Kernels are written in what OpenCL C,
 * CUDA, HIP and C have in common; a fused multiply-add is written as one, everything else is rounded as it stands
 * (nvcc -fmad=false, clang -ffp-contract=off). In C, which the tests compile, work-items take turns (dialect.h there).
 *
 * A kernel is KERNEL_3(name, struct of sizes, y, x, w) { .. }: AS(type, y) is where the value y lies, s its sizes, and
 * IN_ROOM(type, r) makes r a pointer to the memory that a group shares. Functions beside kernels begin with DEVICE. */
#if defined(__OPENCL_C_VERSION__)
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define KERNEL              __kernel
#define DEVICE              static inline
#define GLOBAL              __global
#define LOCAL               __local
#define CONSTANT            __constant
#define CONSTANT_AT(type)   __constant type *
#define GROUP               ((int64_t)get_group_id(0))
#define LANE                ((int32_t)get_local_id(0))
#define WIDTH               ((int32_t)get_local_size(0))
#define MEET()              barrier(CLK_LOCAL_MEM_FENCE)
#define MEET_ALL()          barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE) /* what was written anywhere is seen */
#define ROOM                LOCAL ulong2 *room_
#define IN_ROOM(type, name) LOCAL type *name = (LOCAL type *)room_
#define BITS(x)             as_uint(x)
#define FLOAT(bits)         as_float((uint32_t)(bits))
#define ROUND(x)            convert_int_rte(x)
typedef uint4 quad; /* 16 bytes at a multiple of 16: x, y, z, w */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAVE_DOUBLE
#define DOUBLE_SQRT(x) sqrt(x)
#endif

#elif defined(__CUDA__) || defined(__CUDACC__) || defined(__HIP__)
#include <stdint.h>
#define GLOBAL
#define LOCAL
#define ROOM const uint32_t room_bytes_
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#elif !defined(__NVCC__) /* clang without a header of CUDA */
#define __global__     __attribute__((global))
#define __device__     __attribute__((device))
#define __constant__   __attribute__((constant))
#define __shared__     __attribute__((shared))
typedef struct quad {
    uint32_t x, y, z, w;
} __attribute__((aligned(16))) quad;
#define GROUP          ((int64_t)__nvvm_read_ptx_sreg_ctaid_x())
#define LANE           ((int32_t)__nvvm_read_ptx_sreg_tid_x())
#define WIDTH          ((int32_t)__nvvm_read_ptx_sreg_ntid_x())
#define BITS(x)        __builtin_bit_cast(uint32_t, (float)(x))
#define FLOAT(bits)    __builtin_bit_cast(float, (uint32_t)(bits))
#define ROUND(x)       __nvvm_f2i_rn(x)
#define fma(a, b, c)   __nvvm_fma_rn_f(a, b, c)
#define sqrt(x)        __nvvm_sqrt_rn_f(x)
#define fabs(x)        __builtin_fabsf(x)
#endif
#ifndef GROUP
typedef uint4 quad;
#define GROUP        ((int64_t)blockIdx.x)
#define LANE         ((int32_t)threadIdx.x)
#define WIDTH        ((int32_t)blockDim.x)
#define BITS(x)      __float_as_uint(x)
#define FLOAT(bits)  __uint_as_float((uint32_t)(bits))
#define ROUND(x)     __float2int_rn(x)
#define fma(a, b, c) fmaf(a, b, c)
#define sqrt(x)      sqrtf(x) /* rounded correctly, as divisions are: the compilers' default */
#define fabs(x)      fabsf(x)
#endif
#ifdef __NVCC__
#define floor(x) floorf(x)
#define ceil(x)  ceilf(x)
#define trunc(x) truncf(x)
#define rint(x)  rintf(x)
#else
#define floor(x) __builtin_floorf(x)
#define ceil(x)  __builtin_ceilf(x)
#define trunc(x) __builtin_truncf(x)
#define rint(x)  __builtin_rintf(x)
#endif
#undef isnan
#undef isfinite
#define isnan(x)    ((x) != (x))
#define isfinite(x) ((BITS(x) & 0x7f800000) != 0x7f800000)
#define HAVE_DOUBLE
#define DOUBLE_SQRT(x) __builtin_sqrt(x)
#define KERNEL      extern "C" __global__
#define DEVICE      static __device__ inline
#define CONSTANT    static __constant__ const
#define CONSTANT_AT(type) const type *
#define MEET()      __syncthreads()
#define MEET_ALL()  __syncthreads()
#define IN_ROOM(type, name) \
    extern __shared__ uint64_t room_[]; \
    type *name = (type *)room_

#else
#include "dialect.h"
#define HAVE_DOUBLE
#define DOUBLE_SQRT(x) __builtin_sqrt(x)
#endif

/* Before a loop over arrays that must stay in registers. */
#if defined(__CUDA__) || defined(__CUDACC__) || defined(__HIP__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

/* A value of the program: its buffer, and where in it. */
#define VALUE(name)    GLOBAL uint8_t *name##_buffer, const uint64_t name##_offset
#define AS(type, name) ((GLOBAL type *)(name##_buffer + name##_offset))

#ifndef KERNEL_OF
#define KERNEL_OF(name, n, sizes, parameters) KERNEL void name parameters
#endif
#define KERNEL_2(name, sizes, a, b)    KERNEL_OF(name, 2, sizes, (VALUE(a), VALUE(b), const sizes s, ROOM))
#define KERNEL_3(name, sizes, a, b, c) KERNEL_OF(name, 3, sizes, (VALUE(a), VALUE(b), VALUE(c), const sizes s, ROOM))
#define KERNEL_4(name, sizes, a, b, c, d) \
    KERNEL_OF(name, 4, sizes, (VALUE(a), VALUE(b), VALUE(c), VALUE(d), const sizes s, ROOM))
#define KERNEL_5(name, sizes, a, b, c, d, e) \
    KERNEL_OF(name, 5, sizes, (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), const sizes s, ROOM))
#define KERNEL_6(name, sizes, a, b, c, d, e, f) \
    KERNEL_OF(name, 6, sizes, (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), const sizes s, ROOM))
#define KERNEL_7(name, sizes, a, b, c, d, e, f, g) \
    KERNEL_OF(name, 7, sizes, \
              (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), VALUE(g), const sizes s, ROOM))
#define KERNEL_8(name, sizes, a, b, c, d, e, f, g, h) \
    KERNEL_OF(name, 8, sizes, \
              (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), VALUE(g), VALUE(h), const sizes s, ROOM))
#define KERNEL_9(name, sizes, a, b, c, d, e, f, g, h, i) \
    KERNEL_OF(name, 9, sizes, \
              (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), VALUE(g), VALUE(h), VALUE(i), \
               const sizes s, ROOM))
#define KERNEL_10(name, sizes, a, b, c, d, e, f, g, h, i, j) \
    KERNEL_OF(name, 10, sizes, \
              (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), VALUE(g), VALUE(h), VALUE(i), VALUE(j), \
               const sizes s, ROOM))
#define KERNEL_13(name, sizes, a, b, c, d, e, f, g, h, i, j, k, l, m) \
    KERNEL_OF(name, 13, sizes, \
              (VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(e), VALUE(f), VALUE(g), VALUE(h), VALUE(i), VALUE(j), \
               VALUE(k), VALUE(l), VALUE(m), const sizes s, ROOM))

/* Which of its launch's jobs a group is of, and which of that job's groups it is. Numbers of a job are chosen, not
 * indexed: an index that is not known would bring the sizes into local memory. */
#define JOB() \
    int64_t group_ = GROUP; \
    int job_ = 0; \
    if (s.n_jobs > 1 && group_ >= s.groups[0]) { \
        group_ -= s.groups[0]; \
        job_ = 1; \
        if (s.n_jobs > 2 && group_ >= s.groups[1]) { \
            group_ -= s.groups[1]; \
            job_ = 2; \
        } \
    }
#define OF_JOB(field)         (job_ == 0 ? s.field[0] : job_ == 1 ? s.field[1] : s.field[2])
#define AS_JOB(type, a, b, c) (job_ == 0 ? AS(type, a) : job_ == 1 ? AS(type, b) : AS(type, c))

#define NO_NUMBER FLOAT(0x7fc00000)
#define INFINITE  FLOAT(0x7f800000)
#define LARGEST   FLOAT(0x7f7fffff)
