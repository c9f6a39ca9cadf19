/* SPDX-License-Identifier: MIT */
/* src/base/samples.c -- see samples.h.
 *
 * Three events of a thread write into one ring: a fault when it begins, and the two kinds of faults when they are
 * served, so the time between is what it took. The first also tells when the thread loses its core and gets it back.
 */
#include "base/samples.h"
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define MOST_BYTES  ((size_t)512 << 10) /* with its first page what perf_event_mlock_kb lets a user have a core */
#define LEAST_BYTES ((size_t)16 << 10)

static int event(void *attr)
{
    return (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
}
int (*qn__samples_event)(void *attr) = event;

static const uint64_t events[QN_SAMPLE_EVENTS] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN,
                                                  PERF_COUNT_SW_PAGE_FAULTS_MAJ};
static const qn_sample_kind kinds[QN_SAMPLE_EVENTS] = {QN_SAMPLE_fault, QN_SAMPLE_minor, QN_SAMPLE_major};

/* As large as the kernel lets it be. */
static int map_ring(qn_samples *s)
{
    for (size_t bytes = MOST_BYTES; bytes >= LEAST_BYTES; bytes /= 2) {
        void *p = mmap(NULL, s->page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd[0], 0);
        if (p == MAP_FAILED && errno == EPERM) continue; /* more than this user may lock */
        if (p == MAP_FAILED) return errno;
        s->ring = p;
        s->ring_bytes = bytes;
        return 0;
    }
    return EPERM;
}

static int open_event(qn_samples *s, int i)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = events[i];
    attr.sample_period = 1;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
    attr.sample_id_all = 1;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.context_switch = i == 0;
    s->fd[i] = qn__samples_event(&attr);
    if (s->fd[i] < 0) return errno ? errno : EINVAL;
    if (i > 0 && ioctl(s->fd[i], PERF_EVENT_IOC_SET_OUTPUT, s->fd[0]) != 0) return errno;
    return ioctl(s->fd[i], PERF_EVENT_IOC_ID, &s->id[i]) == 0 ? 0 : errno;
}

int qn__samples_open(qn_samples *s)
{
    const long page = sysconf(_SC_PAGESIZE);
    *s = (qn_samples){.open = true, .fd = {-1, -1, -1}, .page = page > 0 ? (size_t)page : 4096};
    int e = open_event(s, 0);
    if (e == 0) e = map_ring(s);
    for (int i = 1; i < QN_SAMPLE_EVENTS && e == 0; i++) e = open_event(s, i);
    if (e != 0) qn__samples_close(s);
    return e;
}

void qn__samples_close(qn_samples *s)
{
    if (!s->open) return;
    if (s->ring) munmap(s->ring, s->page + s->ring_bytes);
    for (int i = QN_SAMPLE_EVENTS - 1; i >= 0; i--)
        if (s->fd[i] >= 0) close(s->fd[i]);
    *s = (qn_samples){0};
}

/* n bytes that stand at `at` of the ring. */
static void copy_out(const qn_samples *s, uint64_t at, void *to, size_t n)
{
    const uint8_t *data = (const uint8_t *)s->ring + s->page;
    const size_t from = (size_t)(at & (s->ring_bytes - 1)), room = s->ring_bytes - from, first = n < room ? n : room;
    memcpy(to, data + from, first);
    memcpy((uint8_t *)to + first, data, n - first);
}

/* False: nothing that is wanted. */
static bool take(const qn_samples *s, uint64_t at, const struct perf_event_header *h, qn_sample *out)
{
    uint64_t word[4] = {0};
    const size_t n = h->size - sizeof *h;
    copy_out(s, at + sizeof *h, word, n < sizeof word ? n : sizeof word);
    if (h->type == PERF_RECORD_SAMPLE) { /* id, time, address */
        for (int i = 0; i < QN_SAMPLE_EVENTS; i++)
            if (word[0] == s->id[i]) {
                *out = (qn_sample){kinds[i], (int64_t)word[1], word[2]};
                return true;
            }
    } else if (h->type == PERF_RECORD_SWITCH) { /* time, id */
        const bool leaves = (h->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
        *out = (qn_sample){leaves ? QN_SAMPLE_out : QN_SAMPLE_in, (int64_t)word[0], 0};
        return !leaves || (h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
    } else if (h->type == PERF_RECORD_LOST) { /* id, how many, time, id */
        *out = (qn_sample){QN_SAMPLE_lost, (int64_t)word[2], word[1]};
        return true;
    }
    return false;
}

size_t qn__samples_read(qn_samples *s, qn_sample *to, size_t n)
{
    if (!s->open) return 0;
    struct perf_event_mmap_page *page = s->ring;
    const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = page->data_tail;
    size_t got = 0;
    while (tail < head && got < n) {
        struct perf_event_header h;
        copy_out(s, tail, &h, sizeof h);
        if (h.size < sizeof h) break;
        got += take(s, tail, &h, &to[got]);
        tail += h.size;
    }
    __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
    return got;
}

#else

static int event(void *attr)
{
    (void)attr;
    errno = ENOSYS;
    return -1;
}
int (*qn__samples_event)(void *attr) = event;

int qn__samples_open(qn_samples *s)
{
    *s = (qn_samples){0};
    return ENOSYS;
}

void qn__samples_close(qn_samples *s) { *s = (qn_samples){0}; }

size_t qn__samples_read(qn_samples *s, qn_sample *to, size_t n)
{
    (void)s;
    (void)to;
    (void)n;
    return 0;
}

#endif
