/* SPDX-License-Identifier: MIT */
/* src/gpu/cuda.h -- CUDA's driver and HIP as tables of functions of a library that is opened at run time: neither
 * header, nor any other of their libraries, is needed to build or to start. */
#ifndef QN_GPU_CUDA_H
#define QN_GPU_CUDA_H

#include "base/error.h"

/* What differs between the two, beside the names of functions. */
typedef struct qn_cuda_kind {
    const char *name;      /* of the backend and of its kernels' image */
    const char *files[5];  /* names of the library, newest first; NULL after the last */
    const char *install;   /* what to install where it is not there */
    const char *older;     /* what it is where a function is missing */
    const char *compilers; /* what would have made its kernels */
    int integrated;        /* the attribute's number */
    int major;             /* that of the compute capability; 0: there is none, nor instructions for matrices */
    bool hip;              /* of the two names of a call the second */
} qn_cuda_kind;
extern const qn_cuda_kind qn__cuda_kind, qn__hip_kind;

typedef struct qn_cuda_calls {
#define QN_CUDA_CALL(member, cuda_name, hip_name, parameters) int(*member) parameters;
#include "gpu/cuda_calls.def"
#undef QN_CUDA_CALL
} qn_cuda_calls;

/* Opens for good the first of `files` (names that the loader searches for, or paths; NULL after the last) that is
 * there. Fails with one line, status unsupported, where none is, or that one is damaged or lacks a function. */
qn_status qn__cuda_load(const qn_cuda_kind *kind, const char *const *files, qn_cuda_calls *out, qn_error *err);

/* A result of a call as a status: 0 is OK. `call` is told beside what it means and what to do. */
qn_status qn__cuda_check(const qn_cuda_kind *kind, int code, const char *call, qn_error *err);

/* The kernels of kernels.def as the build has compiled them for `kind`; NULL: it found no compiler for them. */
const void *qn__cuda_image(const qn_cuda_kind *kind);

#endif
