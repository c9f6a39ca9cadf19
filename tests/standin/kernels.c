/* SPDX-License-Identifier: MIT */
/* tests/standin/kernels.c -- the kernels of src/gpu/kernels, compiled as C. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include QN_KERNELS_FILE

#include "kernels.h"

#ifdef STANDIN_COMPUTES_NOT
#define RUN(name) NULL
#else
#define RUN(name) name##_kernel
#endif
#define QN_GPU_KERNEL(name, width, room) {#name, RUN(name), &name##_sizes, &name##_values, width, room},
const standin_kernel standin_kernels[] = {
#include "gpu/kernels.def"
    {0}};
#undef QN_GPU_KERNEL
