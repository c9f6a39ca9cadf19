/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/pagecache.c -- what Linux would read with less memory, of traces that are put together by hand. When
 * used pages stay is worked out here from the lists' rules; bench/memory.sh compares with the kernel itself. */
#define RIG_STEPS 40
#include "unit/trace/rig.h"
#include <time.h>

enum { MIB = 1 << 20, N = 64, UNIT = 64 << 10 };

static qn_trace_kernel play(rig *r, uint64_t block, double mib, uint64_t active)
{
    qn_trace_kernel k;
    assert_true(qn__trace_play_kernel(&r->t, block, (uint64_t)(mib * MIB), active, &k));
    return k;
}

/* N tensors of a MiB, each `every`th is used. */
static void set_up(rig *r, int every)
{
    rig_init(r, N / every, (uint64_t)N * MIB);
    for (int32_t i = 0; i < N / every; i++) rig_put(r, i, (uint64_t)(i * every) * MIB, MIB, false);
}

/* All that is used comes again for each token as soon as a unit is missing: what is read next is what went last. */
static void around_and_around(void **state)
{
    (void)state;
    rig r;
    set_up(&r, 1);
    for (uint64_t block = 0; block <= 8 * MIB; block = block ? 2 * block : UNIT) {
        assert_true(play(&r, block, N, 0).bytes == 0);
        assert_true(play(&r, block, N + 1, 0).bytes == 0);
        for (double room = N / 8.0; room < N; room += N / 8.0) {
            const qn_trace_kernel k = play(&r, block, room, 0);
            if (k.bytes < 0.99 * N * MIB || k.bytes > 1.01 * N * MIB)
                fail_msg("%.1f MiB of %d with room for %.0f, blocks of %llu", k.bytes / MIB, N, room,
                         (unsigned long long)block);
            assert_true(k.jumps <= 2.0 * (double)(block > UNIT ? block : UNIT)); /* from the last to the first */
        }
    }
    assert_true(play(&r, UNIT, 0, 0).bytes == (double)N * MIB);
    rig_deinit(&r);
}

/* T MiB come in the first step, of which a share f is used. By its end (T - room) / (1 - f) units were looked at, since
 * used ones are passed over once. The first of them are looked at for the second time after `room`: where the next step
 * uses them before, they become active and stay. That is from T / (2 - f) on. */
static void slices(void **state)
{
    (void)state;
    for (int every = 4; every <= 16; every *= 2) {
        const double edge = (N - every / 2.0) / (2 - 1.0 / every);
        rig r;
        set_up(&r, every);
        for (double room = 0.3; room < 0.95; room += 0.05) {
            const qn_trace_kernel k = play(&r, (uint64_t)every * MIB, room * N, 0);
            if (room * N > 1.15 * edge ? k.bytes > 0.05 * N * MIB : room * N < 0.85 * edge && k.bytes < 0.8 * N * MIB)
                fail_msg("%.1f MiB of %d, of which 1/%d is used, with room for %.1f; used units stay from %.1f on",
                         k.bytes / MIB, N, every, room * N, edge);
            assert_true(k.jumps <= k.bytes);
            if (k.bytes > 0.8 * N * MIB) assert_true(k.jumps > 0.9 * k.bytes);
        }
        assert_true(play(&r, 0, 1.25 * N / every, 0).bytes == 0); /* nothing comes that is not used */
        rig_deinit(&r);
    }
}

/* Where less is missing than the active list has, what comes back stays, and less is read. */
static void shadows(void **state)
{
    (void)state;
    rig r;
    set_up(&r, 1);
    const double none = play(&r, MIB, N - 5, 0).bytes, few = play(&r, MIB, N - 5, 8 * MIB).bytes,
                 too_few = play(&r, MIB, N - 5, 2 * MIB).bytes;
    if (none < 0.99 * N * MIB || few > 0.7 * N * MIB || too_few < 0.99 * N * MIB)
        fail_msg("%.1f, %.1f, %.1f MiB", none / MIB, few / MIB, too_few / MIB);
    rig_deinit(&r);
}

/* Sizes that no file has take no more time and memory than others. */
static void hostile(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    rig r;
    rig_init(&r, MANY, UINT64_MAX);
    for (int32_t i = 0; i < MANY; i++)
        rig_put(&r, i, i % 3 ? 0 : UINT64_MAX - 2, i % 3 == 2 ? UINT64_MAX / 2 : 1000, i % 2);
    const clock_t start = clock();
    const uint64_t sizes[] = {0, 1, 8 * MIB, UINT64_MAX};
    for (int i = 0; i < 9; i++) {
        qn_trace_kernel k;
        assert_true(qn__trace_play_kernel(&r.t, sizes[i % 4], sizes[(i + 2) / 3], sizes[i / 3], &k));
        assert_true(k.bytes >= 0 && k.jumps >= 0 && k.jumps <= k.bytes);
        if (i == 2) r.file.bytes = 0;
        if (i == 5) r.file.bytes = UINT64_MAX;
    }
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 60) fail_msg("%.1f s", seconds);
    rig_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(around_and_around), cmocka_unit_test(slices),
                                       cmocka_unit_test(shadows), cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
