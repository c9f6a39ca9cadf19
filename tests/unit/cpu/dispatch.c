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

static void test_levels(void **state)
{
    (void)state;
    qn_machine machine;
    qn_machine_get(&machine);
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
        const qn_kernels *kernels = qn__kernels_get((qn_cpu_level)l);
        assert_int_equal(kernels->level, l <= (int)machine.level ? l : (int)machine.level);
#define QN_KERNEL(name, bound, ret, params) assert_non_null(kernels->name);
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
    }
    assert_ptr_equal(qn__kernels_get((qn_cpu_level)99), qn__kernels_get(QN_CPU_LEVEL_COUNT - 1));
    if (machine.level > QN_CPU_ref)
        assert_ptr_not_equal(qn__kernels_get(machine.level)->dot_f32, qn__kernels_get(QN_CPU_ref)->dot_f32);
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
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
