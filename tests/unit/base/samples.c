/* SPDX-License-Identifier: MIT */
/* tests/unit/base/samples.c -- every fault of a thread is told with its address and when it was served; what finds no
 * room is counted; where the kernel refuses any of the events, errno is told and nothing stays open. */
#include "base/samples.h"
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 40 };
static int (*by_kernel)(void *attr);
static int n_calls, fail_at, with;

static int failing(void *attr)
{
    if (n_calls++ != fail_at) return by_kernel(attr);
    errno = with;
    return -1;
}

static int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void need_samples(qn_samples *s)
{
    const int e = qn__samples_open(s);
    if (e == 0) return;
    print_message("skipped: perf_event_open says \"%s\"\n", strerror(e));
    skip();
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static volatile uint8_t *fresh(size_t page)
{
    uint8_t *p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    madvise(p, PAGES * page, MADV_NOHUGEPAGE);
    return p;
}

static void tells_every_fault(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    qn_samples s;
    qn_sample got[1024];
    volatile uint8_t *p = fresh(page);
    need_samples(&s);
    const int64_t begin = now_ns();
    for (size_t i = 0; i < PAGES; i++) p[i * page + 7] = 1;
    const int64_t end = now_ns();
    size_t n = 0, in = 0;
    for (size_t k; n < 1000 && (k = qn__samples_read(&s, got + n, 13)) > 0;) n += k;
    for (size_t i = 0; i < n; i++) {
        const uint64_t at = got[i].at - (uint64_t)(uintptr_t)p;
        if (got[i].kind != QN_SAMPLE_fault || at >= PAGES * page) continue;
        assert_int_equal(at, in * page + 7);
        assert_true(got[i].ns >= begin && got[i].ns <= end);
        size_t k = i + 1; /* a lost core may be told between */
        while (k < n && got[k].kind > QN_SAMPLE_major) k++;
        assert_true(k < n && got[k].kind == QN_SAMPLE_minor && got[k].at == got[i].at && got[k].ns >= got[i].ns);
        in++;
    }
    assert_int_equal(in, PAGES);
    /* What was read is gone. The checks above may have faulted elsewhere, or lost their core. */
    n = qn__samples_read(&s, got, 1000);
    for (size_t i = 0; i < n; i++)
        assert_true(got[i].kind > QN_SAMPLE_major || got[i].at - (uint64_t)(uintptr_t)p >= PAGES * page);
    munmap((void *)(uintptr_t)p, PAGES * page);
    qn__samples_close(&s);
    assert_int_equal(qn__samples_read(&s, got, 13), 0);
    qn__samples_close(&s);
}

static void counts_what_finds_no_room(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    qn_samples s;
    qn_sample got[512];
    volatile uint8_t *p = fresh(page);
    uint64_t told = 0, lost = 0;
    enum { N = 12000 };
    need_samples(&s);
    for (int i = 0; i < N; i++) {
        madvise((void *)(uintptr_t)p, page, MADV_DONTNEED);
        *p = 1;
    }
    for (int round = 0; round < 2; round++) {
        for (size_t n; (n = qn__samples_read(&s, got, 512)) > 0;)
            for (size_t i = 0; i < n; i++) {
                if (got[i].kind == QN_SAMPLE_lost) lost += got[i].at;
                told += got[i].kind <= QN_SAMPLE_major && got[i].at == (uintptr_t)p;
            }
        p[page] = 1; /* the kernel says how many were lost when there is room again */
    }
    assert_true(told > 100 && lost > 0);
    assert_true(told + lost >= 2 * N);
    munmap((void *)(uintptr_t)p, PAGES * page);
    qn__samples_close(&s);
}

static void refusals(void **state)
{
    (void)state;
    const int before = count_fds();
    static const int codes[] = {EACCES, ENOSYS, EMFILE};
    by_kernel = qn__samples_event;
    qn__samples_event = failing;
    for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++)
        for (fail_at = 0; fail_at < QN_SAMPLE_EVENTS; fail_at++) {
            qn_samples s;
            n_calls = 0;
            with = codes[c];
            const int e = qn__samples_open(&s);
            assert_true(e == codes[c] || (n_calls <= fail_at && e != 0)); /* the kernel's own refusal comes first */
            assert_false(s.open);
            assert_int_equal(count_fds(), before);
        }
    qn__samples_event = by_kernel;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_every_fault), cmocka_unit_test(counts_what_finds_no_room),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
