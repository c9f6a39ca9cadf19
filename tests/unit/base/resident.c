/* SPDX-License-Identifier: MIT */
/* tests/unit/base/resident.c -- what of a file is in memory: both of the kernel's answers agree; to whoever neither
 * owns a file nor may write it, where mincore would say "all of it", it is unknown. */
#include "base/file.h"
#include "base/resident.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, N = 64 };
static char path[64];

static int64_t forbidden(int fd, uint64_t offset, uint64_t size)
{
    (void)fd;
    (void)offset;
    (void)size;
    errno = EPERM;
    return -1;
}

/* Where pages are not what they are on most machines, units still are. */
static int make_file(void **state)
{
    (void)state;
    static char bytes[N * PAGE];
    memset(bytes, 7, sizeof bytes);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(bytes, 1, sizeof bytes, f) == sizeof bytes && fflush(f) == 0 && fsync(fileno(f)) == 0);
    fclose(f);
    return 0;
}

static void both_agree(void **state)
{
    (void)state;
    qn_map map;
    uint32_t by_stat[8], by_core[8];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), unit = N * PAGE / 8;
    assert_int_equal(qn__map_open(path, &map, NULL), QN_OK);
    const qn_resident_file f = {map.fd, map.data, map.size};
    assert_true(qn__residency_of(&f) != QN_RESIDENCY_unknown);
    assert_int_equal(qn__map_populate(&map, 0, map.size, NULL, NULL, NULL), QN_OK);
    /* The last half is dropped, as far as the file system lets it be: whatever is left, both say the same. */
    madvise((void *)(uintptr_t)(map.data + map.size / 2), map.size / 2, MADV_DONTNEED);
    (void)posix_fadvise(map.fd, (off_t)(map.size / 2), (off_t)(map.size / 2), POSIX_FADV_DONTNEED);
    assert_true(qn__resident_pages(&f, QN_RESIDENCY_mincore, 0, unit, 8, by_core));
    for (int i = 0; i < 4; i++) assert_int_equal(by_core[i], unit / page);
    if (qn__residency_of(&f) == QN_RESIDENCY_cachestat) {
        assert_true(qn__resident_pages(&f, QN_RESIDENCY_cachestat, 0, unit, 8, by_stat));
        assert_memory_equal(by_stat, by_core, sizeof by_stat);
    }
    size_t said, sum = 0;
    for (int i = 0; i < 8; i++) sum += by_core[i] * page;
    assert_true(qn__map_resident(&map, 0, map.size, &said));
    assert_int_equal(said, sum);
    /* behind the end there is nothing */
    assert_true(qn__resident_pages(&f, QN_RESIDENCY_mincore, map.size, unit, 1, by_core));
    assert_int_equal(by_core[0], 0);
    qn__map_close(&map);
}

/* By whom somebody else's file is looked at; what he finds is the status. */
static int look_as_another(bool forbid)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        qn_map map;
        size_t bytes;
        if (forbid) qn__cachestat = forbidden;
        if (geteuid() == 0 && setuid(65534) != 0) _exit(90);
        if (qn__map_open(geteuid() == 65534 ? path : "/etc/passwd", &map, NULL) != QN_OK) _exit(91);
        const qn_resident_file f = {map.fd, map.data, map.size};
        const qn_residency how = qn__residency_of(&f);
        if (qn__map_resident(&map, 0, map.size, &bytes) != (how != QN_RESIDENCY_unknown)) _exit(92);
        _exit((int)how);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void unknown_of_anothers_file(void **state)
{
    (void)state;
    if (geteuid() != 0 && access("/etc/passwd", W_OK) == 0) skip();
    const int alone = look_as_another(true);
    if (alone == 91) {
        print_message("skipped: another user can't open a file in this folder\n");
        skip();
    }
    assert_int_equal(alone, QN_RESIDENCY_unknown);
    const int with = look_as_another(false);
    assert_true(with == QN_RESIDENCY_unknown ||
                with == QN_RESIDENCY_cachestat); /* before Linux 6.14 it says the truth */
}

static void mincore_where_cachestat_is_forbidden(void **state)
{
    (void)state;
    qn_map map;
    size_t bytes;
    int64_t (*by_kernel)(int, uint64_t, uint64_t) = qn__cachestat;
    qn__cachestat = forbidden;
    assert_int_equal(qn__map_open(path, &map, NULL), QN_OK);
    const qn_resident_file f = {map.fd, map.data, map.size};
    assert_int_equal(qn__residency_of(&f), QN_RESIDENCY_mincore); /* the file is ours */
    assert_int_equal(qn__map_populate(&map, 0, map.size, NULL, NULL, NULL), QN_OK);
    assert_true(qn__map_resident(&map, 100, 1000, &bytes));
    assert_int_equal(bytes, 1000);
    assert_true(qn__map_resident(&map, 4000, 10000, &bytes));
    assert_int_equal(bytes, 10000);
    uint32_t pages;
    assert_false(qn__resident_pages(&f, QN_RESIDENCY_cachestat, 0, N * PAGE, 1, &pages));
    qn__map_close(&map);
    qn__cachestat = by_kernel;
    assert_string_equal(qn__residency_name(QN_RESIDENCY_mincore), "mincore");
    assert_string_equal(qn__residency_name(77), "unknown");
}

int main(void)
{
    snprintf(path, sizeof path, "resident-%ld", (long)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_agree), cmocka_unit_test(unknown_of_anothers_file),
                                       cmocka_unit_test(mincore_where_cachestat_is_forbidden)};
    const int failed = cmocka_run_group_tests(tests, make_file, NULL);
    remove(path);
    return failed;
}
