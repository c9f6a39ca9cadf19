/* SPDX-License-Identifier: MIT */
/* tests/unit/base/ladder.c -- which levels real processors run, of both kinds and on either. */
#include "processors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ROW(name, base, needs) #name,
static const char *const x86_names[] = {QN_X86_LEVEL_ROWS(ROW)}, *const arm_names[] = {QN_ARM_LEVEL_ROWS(ROW)};
#undef ROW

static void expect(const processor *p, unsigned levels, const char *const *names, int n_names)
{
    char text[128] = "";
    for (int l = 0; l < 32; l++) {
        if (!(levels >> l & 1)) continue;
        assert_true(l < n_names);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", names[l]);
    }
    if (strcmp(text, p->levels) != 0) fail_msg("%s runs \"%s\", \"%s\" expected", p->name, text, p->levels);
}

static void test_x86(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof x86_processors / sizeof *x86_processors; i++)
        expect(&x86_processors[i], qn__x86_levels(x86_processors[i].features), x86_names, QN_X86_LEVEL_COUNT);
}

static void test_arm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof arm_processors / sizeof *arm_processors; i++)
        expect(&arm_processors[i], qn__arm_levels(arm_processors[i].features), arm_names, QN_ARM_LEVEL_COUNT);
}

/* A level needs each of its features: without any one of them neither it nor what stands on it runs. */
static void test_each_feature(void **state)
{
    (void)state;
    const uint64_t x86 = SPR, arm = N1 | A(i8mm);
#define QN_X86_FEATURE(name, leaf, subleaf, reg, bit, state_, level) \
    assert_int_equal(qn__x86_levels(x86 & ~X(name)) >> QN_X86_##level & 1, QN_X86_##level == QN_X86_ref);
#include "base/cpu_features.def"
#define QN_ARM_FEATURE(name, word, bit, level) \
    assert_int_equal(qn__arm_levels(arm & ~A(name)) >> QN_ARM_##level & 1, QN_ARM_##level == QN_ARM_ref);
#include "base/cpu_features.def"
}

static void processors_that_read_streams(void **state)
{
    (void)state;
    static const struct {
        const char *maker;
        unsigned signature;
        bool streams;
    } rows[] = {
        {"GenuineIntel", 0x806f8, true},   /* Sapphire Rapids */
        {"GenuineIntel", 0x306c3, true},   /* Haswell */
        {"AuthenticAMD", 0xa10f11, true},  /* Genoa */
        {"AuthenticAMD", 0xa60f12, true},  /* Raphael */
        {"AuthenticAMD", 0xa70f41, true},  /* Phoenix */
        {"AuthenticAMD", 0xaa0f02, true},  /* Bergamo */
        {"AuthenticAMD", 0xa00f11, false}, /* Milan */
        {"AuthenticAMD", 0xa20f12, false}, /* Vermeer */
        {"AuthenticAMD", 0xa40f41, false}, /* Rembrandt */
        {"AuthenticAMD", 0xa50f00, false}, /* Cezanne */
        {"AuthenticAMD", 0xb00f21, false}, /* Turin */
        {"AuthenticAMD", 0xb40f40, false}, /* Granite Ridge */
        {"AuthenticAMD", 0x830f10, false}, /* Rome */
        {"CentaurHauls", 0xa10f11, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(qn__x86_many_streams(rows[i].maker, rows[i].signature), rows[i].streams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x86),
        cmocka_unit_test(test_arm),
        cmocka_unit_test(test_each_feature),
        cmocka_unit_test(processors_that_read_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
