/* SPDX-License-Identifier: MIT */
/* src/gpu/cuda_image.c -- the kernels as cmake/gpu.cmake has compiled them: for CUDA machine code of some devices and
 * PTX for the others, or PTX alone; for HIP machine code. */
#include "gpu/cuda.h"

/* A zero behind it ends PTX, which is text. */
#define IMAGE(name, file) \
    __asm__(".pushsection .rodata\n\t.balign 64\n\t.hidden " #name "\n\t.globl " #name "\n" #name \
            ":\n\t.incbin \"" file "\"\n\t.byte 0\n\t.popsection"); \
    extern const unsigned char name[];
#ifdef QN_CUDA_IMAGE
IMAGE(qn__image_of_cuda, QN_CUDA_IMAGE)
#define CUDA_IMAGE qn__image_of_cuda
#else
#define CUDA_IMAGE NULL
#endif
#ifdef QN_HIP_IMAGE
IMAGE(qn__image_of_hip, QN_HIP_IMAGE)
#define HIP_IMAGE qn__image_of_hip
#else
#define HIP_IMAGE NULL
#endif

const void *qn__cuda_image(const qn_cuda_kind *kind) { return kind->hip ? (const void *)HIP_IMAGE : CUDA_IMAGE; }
