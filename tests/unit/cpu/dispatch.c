/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/dispatch.c -- the dispatch tables: whole at every level, rung over rung, one and the same for every
 * thread. What the slots compute is the business of tests/check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "cpu/dispatch.h"
#include "processors.h"

/* First in the program: threads race for the one that builds. */
static void get_all(void *ctx, int member, int n_members)
{
    const qn_kernels **seen = ctx;
    (void)n_members;
    seen[member] = qn__kernels_get(QN_CPU_LEVEL_COUNT - 1);
}

static void test_threads(void **state)
{
    (void)state;
    const qn_kernels *seen[8] = {0};
    qn_team *team;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 8}, &team, NULL), QN_OK);
    qn__team_run(team, get_all, seen);
    qn__team_destroy(team);
    for (int i = 0; i < 8; i++) {
        assert_ptr_equal(seen[i], seen[0]);
        assert_non_null(seen[i]->dot_f32);
    }
}

/* The tables of a machine with these levels: each slot is filled; a level that runs is the one that the machine at hand
 * has, a missing one is the best below it. */
static void check_tables(const qn_kernels *tables, unsigned levels, bool many_streams)
{
    int best = 0;
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
        if (levels >> l & 1) best = l;
        const qn_kernels *mine = &tables[l], *here = qn__kernels_get((qn_cpu_level)best);
        assert_int_equal(mine->level, best);
        assert_int_equal(mine->many_streams, many_streams);
#define QN_KERNEL(name, bound, ret, params) \
    assert_non_null(mine->name); \
    assert_ptr_equal(mine->name, here->name);
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
        assert_int_equal(mine->outer_lanes, here->outer_lanes);
        for (int d = 0; d < QN_DTYPE_COUNT; d++) {
            assert_ptr_equal(mine->mm[d].gemv, here->mm[d].gemv);
            assert_ptr_equal(mine->mm[d].gemv_streams, here->mm[d].gemv_streams);
            for (int i = 0; i < QN_MM_PANELS; i++) assert_ptr_equal(mine->mm[d].panel[i].fn, here->mm[d].panel[i].fn);
            assert_int_equal(mine->mm[d].act, here->mm[d].act);
            assert_ptr_equal(mine->unpack[d], here->unpack[d]);
            assert_ptr_equal(mine->kv[d].gather, here->kv[d].gather);
        }
    }
}

static void test_levels(void **state)
{
    (void)state;
    qn_machine machine;
    qn_machine_get(&machine);
    qn_kernels tables[QN_CPU_LEVEL_COUNT];
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) tables[l] = *qn__kernels_get((qn_cpu_level)l);
    check_tables(tables, machine.levels, machine.many_streams);
    assert_int_equal(qn__kernels_get(QN_CPU_LEVEL_COUNT - 1)->level, machine.level);
    assert_ptr_equal(qn__kernels_get((qn_cpu_level)99), qn__kernels_get(QN_CPU_LEVEL_COUNT - 1));
    if (machine.level > QN_CPU_ref)
        assert_ptr_not_equal(qn__kernels_get(machine.level)->dot_f32, qn__kernels_get(QN_CPU_ref)->dot_f32);
}

/* The ladders of real processors, as far as this one can climb them. */
static void test_processors(void **state)
{
    (void)state;
    qn_machine machine;
    qn_machine_get(&machine);
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
    const processor *all = x86_processors;
    const size_t n = sizeof x86_processors / sizeof *x86_processors;
    unsigned (*levels_of)(uint64_t) = qn__x86_levels;
#else
    const processor *all = arm_processors;
    const size_t n = sizeof arm_processors / sizeof *arm_processors;
    unsigned (*levels_of)(uint64_t) = qn__arm_levels;
#endif
    for (size_t i = 0; i < n; i++) {
        qn_kernels tables[QN_CPU_LEVEL_COUNT] = {0};
        const unsigned levels = levels_of(all[i].features) & machine.levels;
        qn__kernels_build(tables, levels, i % 2 == 0);
        check_tables(tables, levels, i % 2 == 0);
    }
#endif
}

/* Every format that unpacks has a product, nothing else has; columns of a format have one form at all levels, so that a
 * program compiled for one level can be compared with another's. */
static void test_products(void **state)
{
    (void)state;
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const bool weights = qn__quant_get((qn_dtype)d)->unpack != NULL;
        for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
            const qn_kernels *kernels = qn__kernels_get((qn_cpu_level)l);
            assert_int_equal(kernels->mm[d].gemv != NULL, weights);
            assert_int_equal(kernels->unpack[d] != NULL, weights);
            if (kernels->mm[d].act != QN_ACT_bf16 && kernels->mm[d].act != QN_ACT_512)
                assert_int_equal(kernels->mm[d].act, qn__kernels_get(QN_CPU_ref)->mm[d].act);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
