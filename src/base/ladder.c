/* SPDX-License-Identifier: MIT */
/* src/base/ladder.c -- from a set of features to the levels that it runs. */
#include "base/ladder.h"

static unsigned levels_of(uint64_t features, const uint64_t *needs, const int *base, int n_levels)
{
    unsigned levels = 1u; /* ref */
    for (int l = 1; l < n_levels; l++)
        if ((needs[l] & ~features) == 0 && levels >> base[l] & 1) levels |= 1u << l;
    return levels;
}

unsigned qn__x86_levels(uint64_t features)
{
#define BASE(name, base, needs) QN_X86_##base,
    static const int base[] = {QN_X86_LEVEL_ROWS(BASE)};
#undef BASE
    uint64_t needs[QN_X86_LEVEL_COUNT] = {0};
#define QN_X86_FEATURE(name, leaf, subleaf, reg, bit, state, level) \
    needs[QN_X86_##level] |= UINT64_C(1) << QN_X86_HAS_##name;
#include "base/cpu_features.def"
    return levels_of(features, needs, base, QN_X86_LEVEL_COUNT);
}

unsigned qn__arm_levels(uint64_t features)
{
#define BASE(name, base, needs) QN_ARM_##base,
    static const int base[] = {QN_ARM_LEVEL_ROWS(BASE)};
#undef BASE
    uint64_t needs[QN_ARM_LEVEL_COUNT] = {0};
#define QN_ARM_FEATURE(name, word, bit, level) needs[QN_ARM_##level] |= UINT64_C(1) << QN_ARM_HAS_##name;
#include "base/cpu_features.def"
    return levels_of(features, needs, base, QN_ARM_LEVEL_COUNT);
}
