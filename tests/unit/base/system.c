/* SPDX-License-Identifier: MIT */
/* tests/unit/base/system.c -- other machines, shown as trees of small files: sockets and siblings, caches, cgroups of
 * both versions, and files that make no sense. */
#include "base/machine.h"
#include "base/thread.h"
#include "files.h"
#include <sched.h>

static int fresh(void **state)
{
    (void)state;
    scratch_make("t_base_system");
    return 0;
}

static int tidy(void **state)
{
    (void)state;
    remove_tree(scratch);
    return 0;
}

static qn_cpu_set set_of(const char *list)
{
    qn_cpu_set s;
    assert_true(qn__cpu_list_parse(list, &s));
    return s;
}

static void cpu_lists(void **state)
{
    (void)state;
    qn_cpu_set s = set_of("0-3,8,10-11\n");
    assert_int_equal(qn__cpu_count(&s), 7);
    static const int in[] = {0, 1, 2, 3, 8, 10, 11}, out[] = {4, 7, 9, 12, 64, 8191};
    for (size_t i = 0; i < ARRAY_LEN(in); i++) assert_true(qn__cpu_has(&s, in[i]));
    for (size_t i = 0; i < ARRAY_LEN(out); i++) assert_false(qn__cpu_has(&s, out[i]));
    s = set_of("63-64");
    assert_int_equal(qn__cpu_count(&s), 2);
    s = set_of("8191-9223372036854775807"); /* ends in bounded time */
    assert_int_equal(qn__cpu_count(&s), 1);
    static const char *const bad[] = {
        "", "\n", "a", "1,", ",1", "3-1", "-1", "1-", "1--2", "1 2", "99999999999999999999", "1\n2"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(qn__cpu_list_parse(bad[i], &s));
    assert_int_equal(qn__cpu_count(&s), 1); /* untouched */
}

static void siblings(int cpu, const char *name, const char *list)
{
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    write_text(path, list);
}

static void cores(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) { /* four cores of two threads, numbered as Intel does: i and i+4 */
        char list[32];
        snprintf(list, sizeof list, "%d,%d\n", i % 4, i % 4 + 4);
        siblings(i, i % 2 != 0 ? "core_cpus_list" : "thread_siblings_list", list);
    }
    qn_cpu_set s = set_of("0-7");
    assert_int_equal(qn__physical_cores(scratch, &s), 4);
    s = set_of("0,4");
    assert_int_equal(qn__physical_cores(scratch, &s), 1);
    s = set_of("4-7"); /* only the second threads: four cores all the same */
    assert_int_equal(qn__physical_cores(scratch, &s), 4);
    s = set_of("0-8"); /* nobody knows 8 */
    assert_int_equal(qn__physical_cores(scratch, &s), 5);
    siblings(0, "thread_siblings_list", "nonsense");
    s = set_of("0");
    assert_int_equal(qn__physical_cores(scratch, &s), 1);
    s = (qn_cpu_set){{0}};
    assert_int_equal(qn__physical_cores(scratch, &s), 1); /* never none */
}

static void cache(int index, const char *level, const char *type, const char *size)
{
    const char *names[] = {"level", "type", "size"}, *texts[] = {level, type, size};
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu3/cache/index%d/%s", index, names[i]);
        if (texts[i] != NULL) write_text(path, texts[i]);
    }
}

static void caches(void **state)
{
    (void)state;
    cache(0, "1\n", "Instruction\n", "64K\n");
    cache(1, "1\n", "Data\n", "48K\n");
    cache(2, "2\n", "Unified\n", "2M\n");
    cache(3, "3\n", "Unified\n", "junk\n");
    assert_true(qn__cache_bytes(scratch, 3, 1) == 48 << 10);
    assert_true(qn__cache_bytes(scratch, 3, 2) == 2 << 20);
    assert_true(qn__cache_bytes(scratch, 3, 3) == 0);
    assert_true(qn__cache_bytes(scratch, 0, 1) == 0);
    cache(3, "3\n", "Unified\n", "9223372036854775807G\n"); /* overflows */
    assert_true(qn__cache_bytes(scratch, 3, 3) == 0);
}

static void meminfo(void **state)
{
    (void)state;
    write_text("proc/meminfo",
               "MemTotal:       16314532 kB\nMemFree:         1 kB\nMemAvailable:   12 kB\nBad: x kB\n");
    assert_true(qn__meminfo_bytes(scratch, "MemTotal") == UINT64_C(16314532) * 1024);
    assert_true(qn__meminfo_bytes(scratch, "MemAvailable") == 12288);
    assert_true(qn__meminfo_bytes(scratch, "Mem") == 0); /* a whole key or none */
    assert_true(qn__meminfo_bytes(scratch, "Bad") == 0);
    assert_true(qn__meminfo_bytes(scratch, "Absent") == 0);
    assert_true(qn__meminfo_bytes(in_scratch("nowhere"), "MemTotal") == 0);
}

static void check_limits(double want_cpus, uint64_t want_bytes)
{
    double cpus = -1;
    uint64_t bytes = 99;
    qn__cgroup_limits(scratch, &cpus, &bytes);
    assert_true(cpus == want_cpus);
    assert_true(bytes == want_bytes);
}

static void cgroup_v2(void **state)
{
    (void)state;
    check_limits(0, 0); /* a system without any */
    write_text("proc/self/cgroup", "0::/user.slice/app.scope\n");
    check_limits(0, 0);
    write_text("sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n");
    write_text("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
    check_limits(0, 0);
    write_text("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"); /* a parent binds too */
    write_text("sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
    check_limits(1.5, 1 << 30);
    write_text("sys/fs/cgroup/user.slice/app.scope/cpu.max", "400000 100000\n"); /* looser than the parent */
    write_text("sys/fs/cgroup/user.slice/app.scope/memory.max", "4096\n");       /* tighter */
    check_limits(1.5, 4096);
    write_text("sys/fs/cgroup/user.slice/cpu.max", "0 0\n");
    check_limits(4, 4096);
    write_text("sys/fs/cgroup/user.slice/app.scope/cpu.max", "\xff\xff nonsense");
    check_limits(0, 4096);
}

static void cgroup_v2_container(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "0::/\n");
    write_text("sys/fs/cgroup/cpu.max", "50000 100000\n");
    write_text("sys/fs/cgroup/memory.max", "268435456\n");
    check_limits(0.5, 268435456);
}

static void cgroup_v1(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "12:cpuset:/\n9:memory:/docker/abc\n5:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n"
                                   "rubbish\n::\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    check_limits(0, 0);
    /* the container's root: the path is the host's */
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    check_limits(2.5, UINT64_C(1) << 31);
    write_text("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1000000\n");
    check_limits(2.5, 1000000);
}

/* Where a controller is mounted differs from system to system. */
static void cgroup_v1_mounts(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "5:cpuacct,cpu:/a/b\n0::/c\n");
    write_text("sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_quota_us", "300000\n");
    write_text("sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_period_us", "100000\n");
    check_limits(3, 0);
    write_text("sys/fs/cgroup/unified/c/memory.max", "5000000\n"); /* v2 beside v1 */
    check_limits(3, 5000000);
    write_text("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "125000\n");
    write_text("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "50000\n");
    check_limits(2.5, 5000000);
}

#define GIB (UINT64_C(1) << 30)

/* Free is what the machine has, or what the tightest group has left; cached files count as free. */
static void memory_free(void **state)
{
    (void)state;
    assert_true(qn__memory_free(scratch) == UINT64_MAX); /* nothing is known */
    write_text("proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\n");
    assert_true(qn__memory_free(scratch) == 32 * GIB);
    write_text("proc/self/cgroup", "0::/user/app\n");
    write_text("sys/fs/cgroup/user/app/memory.max", "max\n");
    write_text("sys/fs/cgroup/user/app/memory.current", "5368709120\n");
    assert_true(qn__memory_free(scratch) == 32 * GIB);
    write_text("sys/fs/cgroup/user/memory.max", "8589934592\n"); /* 8 GiB for the parent, of which 5 are used */
    write_text("sys/fs/cgroup/user/memory.current", "5368709120\n");
    assert_true(qn__memory_free(scratch) == 3 * GIB);
    write_text("sys/fs/cgroup/user/memory.stat", "anon 1\nfile 7\ninactive_file 1073741824\nactive_file 1073741824\n"
                                                 "xinactive_file 9\n");
    assert_true(qn__memory_free(scratch) == 5 * GIB);                /* 2 of them are cached files */
    write_text("sys/fs/cgroup/user/app/memory.max", "6442450944\n"); /* tighter: 6 GiB, 5 used */
    assert_true(qn__memory_free(scratch) == 1 * GIB);
    write_text("sys/fs/cgroup/user/app/memory.current", "7000000000\n");
    assert_true(qn__memory_free(scratch) == 0);
    write_text("proc/self/cgroup", "4:memory:/a/b\n"); /* version 1 */
    assert_true(qn__memory_free(scratch) == 32 * GIB);
    write_text("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296\n");
    write_text("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3221225472\n");
    write_text("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 99\ntotal_inactive_file 1073741824\n");
    assert_true(qn__memory_free(scratch) == 2 * GIB);
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "9000000000000\n");
    assert_true(qn__memory_free(scratch) == 2 * GIB);
}

/* "cpuset" and "cpuacct" alone are not the cpu controller. */
static void cgroup_v1_words(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "5:cpuset,cpuacct:/\n");
    write_text("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    write_text("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check_limits(0, 0);
    write_text("proc/self/cgroup", "5:cpuset,cpu:/");
    check_limits(1, 0);
}

static void cgroup_long_path(void **state)
{
    (void)state;
    static char line[9000];
    memset(line, 'a', sizeof line - 1);
    memcpy(line, "0::/", 4);
    write_text("proc/self/cgroup", line);
    write_text("sys/fs/cgroup/cpu.max", "50000 100000\n");
    check_limits(0, 0); /* no such path can exist; nothing overruns */
    for (size_t i = 5; i < sizeof line - 1; i += 2) line[i] = '/';
    line[2000] = '\0';
    write_text("proc/self/cgroup", line);
    check_limits(0.5, 0); /* a deep one ends at the root */
}

static void this_machine(void **state)
{
    (void)state;
    qn_cpu_set cpus;
    qn__affinity_get(&cpus);
    const int n = qn__cpu_count(&cpus);
    write_text("proc/self/cgroup", "0::/\n");
    assert_int_equal(qn__cpus_at_once(scratch), n); /* no quota */
    write_text("sys/fs/cgroup/cpu.max", "20000 100000\n");
    assert_int_equal(qn__cpus_at_once(scratch), 1); /* a part of a CPU is one */
    write_text("sys/fs/cgroup/cpu.max", "110000 100000\n");
    assert_int_equal(qn__cpus_at_once(scratch), n < 2 ? n : 2); /* and one and a part are two */
    write_text("sys/fs/cgroup/cpu.max", "99900000 100000\n");
    assert_int_equal(qn__cpus_at_once(scratch), n < 999 ? n : 999);
    assert_true(n >= 1 && n <= sysconf(_SC_NPROCESSORS_CONF));
    assert_true(qn__cpus_at_once("") >= 1 && qn__cpus_at_once("") <= n);
    const int threads = qn__default_threads();
    assert_true(threads >= 1 && threads <= qn__cpus_at_once("") && threads <= QN_MAX_THREADS);

    cpu_set_t one, old; /* bound to one CPU there is one thread to start */
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    CPU_ZERO(&one);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) last = CPU_ISSET(i, &old) ? i : last;
    CPU_SET(last, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) skip();
    qn__affinity_get(&cpus);
    const int bound = qn__default_threads();
    sched_setaffinity(0, sizeof old, &old);
    assert_int_equal(qn__cpu_count(&cpus), 1);
    assert_true(qn__cpu_has(&cpus, last));
    assert_int_equal(bound, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, tidy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cpu_lists),       TEST(cores),
        TEST(caches),          TEST(meminfo),
        TEST(cgroup_v2),       TEST(cgroup_v2_container),
        TEST(cgroup_v1),       TEST(cgroup_v1_mounts),
        TEST(cgroup_v1_words), TEST(cgroup_long_path),
        TEST(memory_free),     TEST(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
