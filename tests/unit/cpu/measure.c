/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/measure.c -- qn_machine_measure: plausible figures at every level, refusals, failing allocations,
 * nothing left behind. That the probes do the work they count is checked in tests/check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include <quern/machine.h>

static void test_figures(void **state)
{
    (void)state;
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
        qn_machine_peaks p = {0};
        const int64_t begin = qn__now_ns();
        assert_int_equal(qn_machine_measure((qn_cpu_level)l, 2, 0.06, &p, NULL), QN_OK);
        assert_true(qn__now_ns() - begin >= 60 * 1000 * 1000);
        assert_int_equal(p.threads, 2);
        assert_true(p.read_gb_s > 0.01 && p.read_gb_s < 1e5); /* a valgrind run is slow, no machine is faster */
        assert_true(p.int8_gops > 0.01 && p.int8_gops < 1e6);
        assert_true(p.f32_gflops > 0.01 && p.f32_gflops < 1e6);
        assert_true(p.bf16_gflops > 0.01 && p.bf16_gflops < 1e6);
        double gflops = 0;
        assert_int_equal(qn_machine_measure_f32((qn_cpu_level)l, 2, 0.02, &gflops, NULL), QN_OK);
        assert_true(gflops > p.f32_gflops / 20 && gflops < p.f32_gflops * 20); /* others run here, too */
    }
}

static void test_defaults(void **state)
{
    (void)state;
    qn_machine machine;
    qn_machine_peaks p;
    qn_machine_get(&machine);
    assert_int_equal(qn_machine_measure(QN_CPU_ref, 0, 0.01, &p, NULL), QN_OK);
    assert_int_equal(p.threads, machine.default_threads);
}

static void test_refusals(void **state)
{
    (void)state;
    qn_machine_peaks p = {.threads = 77};
    qn_error error;
    assert_int_equal(qn_machine_measure(QN_CPU_LEVEL_COUNT, 1, 0.01, &p, &error), QN_STATUS_invalid);
    assert_int_equal(qn_machine_measure(QN_CPU_ref, -1, 0.01, &p, &error), QN_STATUS_invalid);
    assert_int_equal(qn_machine_measure(QN_CPU_ref, QN_MAX_THREADS + 1, 0.01, &p, &error), QN_STATUS_invalid);
    assert_int_equal(qn_machine_measure(QN_CPU_ref, 1, -1, &p, &error), QN_STATUS_invalid);
    assert_int_equal(qn_machine_measure(QN_CPU_ref, 1, strtod("nan", NULL), &p, &error), QN_STATUS_invalid);
    assert_int_equal(p.threads, 77);
    assert_non_null(strstr(error.text, "seconds"));
    double gflops = 77;
    assert_int_equal(qn_machine_measure_f32(QN_CPU_ref, QN_MAX_THREADS + 1, 0.01, &gflops, &error), QN_STATUS_invalid);
    assert_true(gflops == 77);
}

static int allocations_left, live;

static void *failing_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    if (allocations_left-- <= 0) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, align, size)) return NULL;
    live++;
    return p;
}

static void failing_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    (void)size;
    live -= ptr != NULL;
    free(ptr);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    const qn_allocator failing = {failing_alloc, failing_release, NULL};
    qn_machine_peaks p;
    double gflops;
    qn_set_allocator(&failing);
    for (int one = 0; one < 2; one++) {
        qn_status status = QN_STATUS_nomem;
        for (int n = 0; status != QN_OK; n++) {
            assert_true(n < 100);
            allocations_left = n;
            status = one ? qn_machine_measure_f32(QN_CPU_ref, 2, 0.001, &gflops, NULL)
                         : qn_machine_measure(QN_CPU_ref, 2, 0.001, &p, NULL);
            assert_true(status == QN_OK || status == QN_STATUS_nomem);
            assert_int_equal(live, 0);
        }
    }
    qn_set_allocator(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
