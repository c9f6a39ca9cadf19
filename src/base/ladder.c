/* SPDX-License-Identifier: MIT */
/* src/base/ladder.c -- from a set of features to the levels that it runs. */
#include "base/ladder.h"

#include <string.h>

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

/* Measured (bench/mm_gemv.c, weights from memory, one column of 2048 and 5632, GB/s with streams against without): Zen
 * 4 Q4_K 19 to 22 against 10 to 11, Q8_0 20 to 25 against 11 to 12, F16 14 against 12; Sapphire Rapids 20 to 26 against
 * 17 to 18; Zen 5 62 % of the read bandwidth against 82. */
bool qn__x86_many_streams(const char *maker, unsigned signature)
{
    const unsigned base = signature >> 8 & 15, family = base == 15 ? base + (signature >> 20 & 255) : base;
    const unsigned model = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
    if (strcmp(maker, "GenuineIntel") == 0) return true;
    if (strcmp(maker, "AuthenticAMD") != 0 || family != 0x19) return false;
    const unsigned sixteen = model >> 4; /* of family 19h Zen 4 has models 10h to 1Fh, 60h to 7Fh and A0h to AFh */
    return sixteen == 1 || sixteen == 6 || sixteen == 7 || sixteen == 10;
}
