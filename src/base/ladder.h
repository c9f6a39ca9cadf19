/* SPDX-License-Identifier: MIT */
/* src/base/ladder.h -- which levels of the CPU backend a set of processor features runs, and what a processor's name
 * says beside them. Both kinds of processor are known on either, so that a test can ask about machines that it does not
 * run on. */
#ifndef QN_BASE_LADDER_H
#define QN_BASE_LADDER_H

#include <quern/machine.h>

/* The bit of each feature in a set: QN_X86_HAS_avx2, QN_ARM_HAS_asimd .. */
enum {
#define QN_X86_FEATURE(name, leaf, subleaf, reg, bit, state, level) QN_X86_HAS_##name,
#include "base/cpu_features.def"
    QN_X86_FEATURE_COUNT
};
enum {
#define QN_ARM_FEATURE(name, word, bit, level) QN_ARM_HAS_##name,
#include "base/cpu_features.def"
    QN_ARM_FEATURE_COUNT
};

/* Each kind's levels. Of the kind that this library is built for they are qn_cpu_level. */
/* clang-format off */
enum {
#define QN_LEVEL(name, base, needs) QN_X86_##name,
    QN_X86_LEVEL_ROWS(QN_LEVEL)
#undef QN_LEVEL
    QN_X86_LEVEL_COUNT
};
enum {
#define QN_LEVEL(name, base, needs) QN_ARM_##name,
    QN_ARM_LEVEL_ROWS(QN_LEVEL)
#undef QN_LEVEL
    QN_ARM_LEVEL_COUNT
};
/* clang-format on */

/* Bit l: level l runs. A level runs where its own features are there and its base runs, so a rung may be missing below
 * one that is there: Ice Lake has avx512 and no avxvnni. */
unsigned qn__x86_levels(uint64_t features);
unsigned qn__arm_levels(uint64_t features);

/* qn_machine.many_streams of a processor of x86. maker: the twelve letters of CPUID leaf 0; signature: EAX of leaf 1.
 */
bool qn__x86_many_streams(const char *maker, unsigned signature);

#endif
