/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr.c -- builds the tables, rung over rung, once. A level that this processor lacks is the best level it has. */
#include "cpu/ukr.h"

#include "base/thread.h"

typedef void (*init_fn)(qn_ukr *ukr);

#define RUNG(name, needs) [QN_CPU_##name] = qn__ukr_init_##name,
static const init_fn rungs[QN_CPU_LEVEL_COUNT] = {QN_CPU_LEVEL_ROWS(RUNG)};
#undef RUNG

static qn_ukr tables[QN_CPU_LEVEL_COUNT];
static qn_once once;

static void build(void)
{
    qn_machine machine;
    qn_machine_get(&machine);
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
        if (l > 0) tables[l] = tables[l - 1];
        if (l > (int)machine.level) continue;
        rungs[l](&tables[l]);
        tables[l].level = (qn_cpu_level)l;
    }
}

const qn_ukr *qn__ukr_get(qn_cpu_level level)
{
    qn__once(&once, build);
    return &tables[(unsigned)level < QN_CPU_LEVEL_COUNT ? level : QN_CPU_LEVEL_COUNT - 1];
}
