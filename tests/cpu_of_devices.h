/* SPDX-License-Identifier: MIT */
/* tests/cpu_of_devices.h -- the CPU that devices are compared with: the best level that multiplies weights in F16 and
 * BF16 as `ref` does, to the bit. `amx` does not (cpu/dispatch.h). */
#ifndef QN_TEST_CPU_OF_DEVICES_H
#define QN_TEST_CPU_OF_DEVICES_H

#include "cpu/dispatch.h"

#include <quern/machine.h>

static inline const char *cpu_of_devices(void)
{
    static const char *const names[] = {
#define LEVEL(name, base, needs) "cpu:" #name,
        QN_CPU_LEVEL_ROWS(LEVEL)
#undef LEVEL
    };
    static int level = -1; /* found out once */
    if (level >= 0) return names[level];
    qn_machine machine;
    qn_machine_get(&machine);
    const qn_kernels *ref = qn__kernels_get(QN_CPU_ref);
    level = (int)machine.level;
    for (; level > 0; level--) {
        const qn_kernels *k = machine.levels >> level & 1 ? qn__kernels_get((qn_cpu_level)level) : NULL;
        if (k && k->mm[QN_DTYPE_F16].act == ref->mm[QN_DTYPE_F16].act &&
            k->mm[QN_DTYPE_BF16].act == ref->mm[QN_DTYPE_BF16].act)
            break;
    }
    return names[level];
}

#endif
