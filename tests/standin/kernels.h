/* SPDX-License-Identifier: MIT */
/* tests/standin/kernels.h -- kernels by name, and running a group of one. */
#ifndef QN_TESTS_STANDIN_KERNELS_H
#define QN_TESTS_STANDIN_KERNELS_H

#include <stdint.h>

typedef struct standin_kernel {
    const char *name;
    void (*run)(void **arguments); /* one work-item; NULL with STANDIN_COMPUTES_NOT */
    const int *sizes, *values;     /* bytes of its struct; pairs of address and offset before it */
    uint32_t width, room;
} standin_kernel;
extern const standin_kernel standin_kernels[]; /* NULL name after the last */

/* Every work-item of every group. Returns what is wrong with it, NULL: nothing. */
const char *standin_run(const standin_kernel *kernel, uint32_t n_groups, uint32_t width, uint32_t room,
                        void **arguments);

#endif
