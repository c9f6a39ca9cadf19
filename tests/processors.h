/* SPDX-License-Identifier: MIT */
/* tests/processors.h -- real processors: their features, as base/cpu_features.def names them, and the levels that they
 * run. Levels are a line only on paper: where a rung is missing is the point of this table. */
#ifndef QN_TESTS_PROCESSORS_H
#define QN_TESTS_PROCESSORS_H

#include "base/ladder.h"

#define X(name) (UINT64_C(1) << QN_X86_HAS_##name)
#define A(name) (UINT64_C(1) << QN_ARM_HAS_##name)
#define HASWELL (X(avx) | X(fma) | X(f16c) | X(bmi2) | X(avx2))
#define SKX     (HASWELL | X(avx512f) | X(avx512bw) | X(avx512dq) | X(avx512vl))
#define ICL     (SKX | X(avx512vnni))
#define AMX     (X(amx_tile) | X(amx_int8) | X(amx_bf16))
#define SPR     (ICL | X(avxvnni) | X(avx512bf16) | X(avx512fp16) | AMX)
#define N1      (A(asimd) | A(fphp) | A(asimdhp) | A(asimddp))

typedef struct processor {
    const char *name;
    uint64_t features;
    const char *levels; /* all that it runs */
} processor;

/* clang-format off */
static const processor x86_processors[] = {
    {"Nehalem",                       0,                                               "ref"},
    {"Sandy Bridge",                  X(avx),                                          "ref"},
    {"Piledriver",                    X(avx) | X(fma) | X(f16c),                       "ref"},
    {"Haswell, Skylake",              HASWELL,                                         "ref avx2"},
    {"Zen, Zen 2, Zen 3",             HASWELL,                                         "ref avx2"},
    {"Knights Landing",               HASWELL | X(avx512f),                            "ref avx2"},
    {"Skylake-SP",                    SKX,                                             "ref avx2"},
    {"Cascade Lake",                  ICL,                                             "ref avx2 avx512"},
    {"Cooper Lake",                   ICL | X(avx512bf16),                             "ref avx2 avx512"},
    {"Ice Lake, Tiger Lake",          ICL,                                             "ref avx2 avx512"},
    {"Alder Lake, Arrow Lake, N100",  HASWELL | X(avxvnni),                            "ref avx2 avxvnni"},
    {"Zen 4",                         ICL | X(avx512bf16),                             "ref avx2 avx512"},
    {"Zen 5",                         ICL | X(avx512bf16) | X(avxvnni),                "ref avx2 avxvnni avx512"},
    {"Sapphire Rapids",               SPR,                                             "ref avx2 avxvnni avx512 amx"},
    {"Sapphire Rapids, no tiles",     SPR & ~AMX,                                      "ref avx2 avxvnni avx512"},
    {"Sapphire Rapids, no zmm",       HASWELL | X(avxvnni),                            "ref avx2 avxvnni"},
    {"tiles without AVX-512",         HASWELL | X(avx512bf16) | X(avx512fp16) | AMX,   "ref avx2"},
};
static const processor arm_processors[] = {
    {"no Advanced SIMD",              A(fphp),                                         "ref"},
    {"Cortex-A53, A72, ThunderX2",    A(asimd),                                        "ref neon"},
    {"A64FX",                         A(asimd) | A(fphp) | A(asimdhp) | A(sve),        "ref neon"},
    {"Cortex-A76, Neoverse N1",       N1,                                              "ref neon dotprod"},
    {"Apple M1",                      N1,                                              "ref neon dotprod"},
    {"Apple M2",                      N1 | A(i8mm) | A(bf16),                          "ref neon dotprod i8mm"},
    {"Neoverse V1",                   N1 | A(sve) | A(i8mm) | A(bf16),                 "ref neon dotprod i8mm"},
    {"Neoverse N2, V2",               N1 | A(sve) | A(sve2) | A(i8mm) | A(bf16),       "ref neon dotprod i8mm"},
    {"i8mm without dotprod",          A(asimd) | A(i8mm),                              "ref neon"},
};
/* clang-format on */

#endif
