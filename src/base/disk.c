/* SPDX-License-Identifier: MIT */
/* src/base/disk.c -- how fast a file is read in the ways in which weights are: ahead of their use by a thread that
 * drops them behind it, by page faults in their order and out of it, in pieces here and there. What is read is dropped
 * before, and behind, because memory that is too small has to drop as much as it reads. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paging.h"
#include "base/str.h"
#include "base/trace.h"
#include <fcntl.h>
#include <quern/machine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LEAST     ((size_t)32 << 20)  /* bytes of a file: less tells nothing */
#define MOST      ((size_t)256 << 20) /* bytes that are read each way at a time, */
#define MOST_NS   1500000000 /* again and again for so long: a disk that others use is fast now and slow then */
#define PIECE     ((size_t)(QN_PAGING_GROUP * QN_PAGING_BLOCK))
#define PASSES    16 /* at most */
#define SCATTERED ((size_t)256 << 10)
#define AT_ONCE   16

typedef struct span {
    size_t bytes;
    int64_t ns, cpu_ns;
} span;

static int64_t cpu_ns(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static span begin(void) { return (span){.ns = qn__now_ns(), .cpu_ns = cpu_ns()}; }
static span end(span s, size_t bytes) { return (span){bytes, qn__now_ns() - s.ns, cpu_ns() - s.cpu_ns}; }
static bool goes_on(span s) { return qn__now_ns() - s.ns < MOST_NS; }
static void sum_up(span *sum, span s)
{
    sum->bytes += s.bytes;
    sum->ns += s.ns;
    sum->cpu_ns += s.cpu_ns;
}
static double gb_s(span s) { return s.ns > 0 ? (double)s.bytes / (double)s.ns : 0; }

/* As the thread of an engine reads. */
static span read_ahead(const qn_map *map, size_t from, size_t bytes)
{
    size_t done = 0;
    qn__map_advise(map, from, bytes, QN_MAP_whole);
    const span s = begin();
    for (; done + PIECE <= bytes && goes_on(s); done += PIECE) {
        qn__map_fetch(map, from + done, PIECE);
        if (done >= PIECE) qn__map_drop(map, from + done - PIECE, PIECE);
    }
    return end(s, done);
}

/* As nodes read what is not there. */
static span read_by_faults(const qn_map *map, size_t from, size_t bytes)
{
    const volatile uint8_t *p = map->data + from;
    size_t done = 0;
    const span s = begin();
    for (; done < bytes && goes_on(s); done += PIECE) {
        for (size_t i = done; i < done + PIECE && i < bytes; i += QN_PAGING_PAGE) (void)p[i];
        if (done >= 2 * PIECE) qn__map_drop(map, from + done - 2 * PIECE, PIECE); /* what is read ahead lies before */
    }
    return end(s, done < bytes ? done : bytes);
}

static size_t common_factor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

size_t qn__disk_step(size_t n)
{
    size_t step = n / 3 * 2 + 1;
    while (common_factor(step, n) != 1) step++; /* one piece twice would be read from memory */
    return step;
}

/* As nodes read slices that are not there, each with what the kernel reads around it. */
static span read_around(const qn_map *map, size_t from, size_t bytes)
{
    const volatile uint8_t *p = map->data + from;
    const uint64_t block = qn_disk_read_ahead(map->path);
    const size_t piece = block >= SCATTERED && block <= bytes / 4 ? block : SCATTERED, n = bytes / piece,
                 step = qn__disk_step(n);
    size_t done = 0, at = 0;
    const span s = begin();
    for (size_t k = 0; k < n && goes_on(s); k++, at = (at + step) % n, done += piece) {
        (void)p[at * piece + piece / 2];
        qn__map_drop(map, from + at * piece, piece);
    }
    return end(s, done);
}

/* As experts are read. */
static span read_scattered(const qn_map *map, size_t from, size_t bytes)
{
    const size_t n = bytes / SCATTERED, step = qn__disk_step(n);
    size_t done = 0, at = 0, pieces[AT_ONCE];
    const span s = begin();
    for (size_t k = 0; k + AT_ONCE <= n / 2 && done < MOST / 4 && goes_on(s); k += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++, at = (at + step) % n) {
            pieces[i] = from + at * SCATTERED;
            qn__map_read_ahead(map, pieces[i], SCATTERED);
        }
        for (int i = 0; i < AT_ONCE; i++) qn__map_fetch(map, pieces[i], SCATTERED);
        done += AT_ONCE * SCATTERED;
    }
    return end(s, done);
}

/* A mapping of its own, whose advice nothing else has. */
static qn_status way(const char *path, span (*read)(const qn_map *, size_t, size_t), span *out, qn_error *err)
{
    qn_map map;
    QN_TRY(qn__map_open(path, &map, err));
    const size_t bytes = (map.size < MOST ? map.size : MOST) / PIECE * PIECE;
    if (map.size < LEAST) {
        qn__map_close(&map);
        return QN_FAIL(err, invalid, "'%s' is too small to measure a disk with: at least %zu MiB are", path,
                       LEAST >> 20);
    }
    size_t from = 0;
    do {
        qn__map_drop(&map, from, bytes);
        sum_up(out, read(&map, from, bytes));
        qn__map_drop(&map, from, bytes);
        from = map.size - from >= 2 * bytes ? from + bytes : 0;
    } while (out->ns < MOST_NS && out->bytes < PASSES * bytes);
    qn__map_close(&map);
    return QN_OK;
}

static uint64_t kib_in(const char *path)
{
    char text[32] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Of the device that the file is on, or of the file system's own. */
uint64_t qn_disk_read_ahead(const char *path)
{
    struct stat st;
    char name[96];
    if (stat(path, &st) != 0) return 0;
    const unsigned a = major(st.st_dev), b = minor(st.st_dev);
    snprintf(name, sizeof name, "/sys/class/bdi/%u:%u/read_ahead_kb", a, b);
    uint64_t kib = kib_in(name);
    for (int up = 0; up < 2 && kib == 0; up++) { /* a partition has its disk's */
        snprintf(name, sizeof name, "/sys/dev/block/%u:%u/%squeue/read_ahead_kb", a, b, up ? "../" : "");
        kib = kib_in(name);
    }
    return kib << 10;
}

qn_status qn_disk_measure(const char *path, qn_disk_rates *out, qn_error *err)
{
    span ahead = {0}, faults = {0}, around = {0}, scattered = {0};
    *out = (qn_disk_rates){0};
    QN_TRY(way(path, read_ahead, &ahead, err));
    QN_TRY(way(path, read_by_faults, &faults, err));
    QN_TRY(way(path, read_around, &around, err));
    QN_TRY(way(path, read_scattered, &scattered, err));
    *out = (qn_disk_rates){.ahead_gb_s = gb_s(ahead),
                           .ahead_cpu_s_gb = ahead.bytes ? (double)ahead.cpu_ns / (double)ahead.bytes : 0,
                           .fault_gb_s = gb_s(faults),
                           .around_gb_s = gb_s(around),
                           .scattered_gb_s = gb_s(scattered),
                           .read_ahead_bytes = qn_disk_read_ahead(path)};
    return QN_OK;
}
