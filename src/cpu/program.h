/* SPDX-License-Identifier: MIT */
/* src/cpu/program.h -- the CPU backend's own structs. */
#ifndef QN_CPU_PROGRAM_H
#define QN_CPU_PROGRAM_H

#include "cpu/op/driver.h"

#define QN_CPU_MAX_PHASES 3

typedef struct qn_cpu {
    qn_backend base;
    const qn_kernels *kernels;
    qn_pool_user *pool;
    int n_threads;
    uint8_t *tiles; /* [n_threads, QN_MM_TILE_BYTES + QN_TASK_SIDE_BYTES] */
} qn_cpu;

extern const qn_backend_type qn__backend_cpu;

qn_status qn__cpu_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err);
void qn__cpu_rebind(qn_program *program, const qn_buffer *activations);
void qn__cpu_resize(qn_program *program);
void qn__cpu_program_destroy(qn_program *program);
bool qn__cpu_is_shared(const qn_program *program, int32_t i);
qn_status qn__cpu_run(qn_program *program, const qn_run *run, qn_error *err);

#endif
