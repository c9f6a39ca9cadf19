/* SPDX-License-Identifier: MIT */
/* Rates of a disk: those of a file that is large enough are there; how fast a disk is says nothing about right or
 * wrong. */
#include "files.h"
#include "base/paging.h"
#include <quern/machine.h>

static void rates(void **state)
{
    (void)state;
    scratch_make("disk");
    qn_disk_rates r;
    qn_error err;
    const char *path = in_scratch("holes");
    const int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && ftruncate(fd, (40 << 20) + 5) == 0);
    assert_int_equal(qn_disk_measure(path, &r, &err), QN_OK);
    assert_true(r.ahead_gb_s > 0 && r.fault_gb_s > 0 && r.scattered_gb_s > 0);
    assert_true(r.ahead_cpu_s_gb >= 0 && r.ahead_cpu_s_gb < 1000);
    assert_true(r.read_ahead_bytes % 1024 == 0);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(qn_disk_measure(path, &r, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "32 MiB"));
    assert_true(r.ahead_gb_s == 0 && r.fault_gb_s == 0);
    assert_int_equal(qn_disk_measure(in_scratch("none"), &r, &err), QN_STATUS_io);
    close(fd);
    remove_tree(scratch);
}

/* What was read once is in memory, and would count as read again at once. */
static void no_piece_twice(void **state)
{
    (void)state;
    static bool seen[1100];
    for (size_t n = 1; n <= 1100; n++) {
        const size_t step = qn__disk_step(n);
        memset(seen, 0, sizeof seen);
        for (size_t i = 0, at = 0; i < n; i++, at = (at + step) % n) {
            if (seen[at]) fail_msg("of %zu pieces number %zu comes again after %zu", n, at, i);
            seen[at] = true;
        }
        assert_true(n < 16 || (step > n / 2 && step < n - 2)); /* not the next one */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates), cmocka_unit_test(no_piece_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
