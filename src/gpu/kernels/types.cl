/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/types.cl -- what the dialects of kernels name differently. Kernels are written in what OpenCL C,
 * CUDA and HIP have in common; a fused multiply-add is written as one, everything else is rounded as it stands. */
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define KERNEL         __kernel
#define GLOBAL         __global
#define LOCAL          __local
#define CONSTANT       __constant
#define GROUP          ((int64_t)get_group_id(0))
#define LANE           ((int32_t)get_local_id(0))
#define WIDTH          ((int32_t)get_local_size(0))
#define MEET()         barrier(CLK_LOCAL_MEM_FENCE)
/* A value of the program: its buffer, and where in it. */
#define VALUE(name)    GLOBAL uint8_t *name##_buffer, const uint64_t name##_offset
#define AS(type, name) ((GLOBAL type *)(name##_buffer + name##_offset))
#define BITS(x)        as_uint(x)
#define FLOAT(bits)    as_float((uint32_t)(bits))
#define ROUND(x)       convert_int_rte(x)

#define NO_NUMBER      FLOAT(0x7fc00000)
#define INFINITE       FLOAT(0x7f800000)
