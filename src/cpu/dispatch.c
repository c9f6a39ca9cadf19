/* SPDX-License-Identifier: MIT */
/* src/cpu/dispatch.c -- builds the tables once: each level over its base level. */
#include "cpu/dispatch.h"

#include "base/thread.h"

typedef void (*init_fn)(qn_kernels *kernels);

typedef struct rung {
    qn_cpu_level base;
    init_fn init;
} rung;
#define RUNG(name, base, needs) [QN_CPU_##name] = {QN_CPU_##base, qn__kernels_init_##name},
static const rung rungs[QN_CPU_LEVEL_COUNT] = {QN_CPU_LEVEL_ROWS(RUNG)};
#undef RUNG

static void fill_kv(qn_kernels *kernels)
{
#define KV(dtype, name) \
    kernels->kv[QN_DTYPE_##dtype] = \
        (qn_kv_rows){kernels->gather_##name, kernels->attn_pack_k_##name, kernels->attn_pack_v_##name};
    /* clang-format off */
    KV(F16, f16) KV(BF16, bf16) KV(Q8_0, q8_0)
    /* clang-format on */
#undef KV
}

void qn__kernels_build(qn_kernels tables[QN_CPU_LEVEL_COUNT], unsigned levels, bool many_streams)
{
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
        const bool runs = levels >> l & 1;
        if (l > 0) tables[l] = tables[runs ? (int)rungs[l].base : l - 1];
        if (!runs) continue;
        tables[l].many_streams = many_streams;
        rungs[l].init(&tables[l]);
        fill_kv(&tables[l]);
        tables[l].level = (qn_cpu_level)l;
    }
}

static qn_kernels tables[QN_CPU_LEVEL_COUNT];
static qn_once once;

static void build(void)
{
    qn_machine machine;
    qn_machine_get(&machine);
    qn__kernels_build(tables, machine.levels, machine.many_streams);
}

const qn_kernels *qn__kernels_get(qn_cpu_level level)
{
    qn__once(&once, build);
    return &tables[(unsigned)level < QN_CPU_LEVEL_COUNT ? level : QN_CPU_LEVEL_COUNT - 1];
}
