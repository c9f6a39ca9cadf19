/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/init.c -- the first level: fills every slot of the dispatch table. */
#include "cpu/ref/ref.h"

void qn__kernels_init_ref(qn_kernels *kernels)
{
    *kernels = (qn_kernels){.level = QN_CPU_ref, .outer_lanes = 64, .many_streams = kernels->many_streams};
#define QN_KERNEL(name, bound, ret, params) kernels->name = qn__ref_##name;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
    for (int t = 0; t < QN_DTYPE_COUNT; t++) kernels->unpack[t] = qn__quant_get((qn_dtype)t)->unpack;
    qn__ref_mm_init(kernels);
}
