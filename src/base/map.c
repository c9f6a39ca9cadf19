/* SPDX-License-Identifier: MIT */
/* src/base/map.c -- read-only mappings of regular files. `path` says whether a map is open; a zeroed or closed map has
 * none. A file that somebody truncates while it is mapped cannot be guarded against here: touching the lost pages is a
 * SIGBUS. */
#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/resident.h"
#include "base/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define POPULATE_STEP ((size_t)64 << 20)
#define AHEAD_STEP    ((size_t)128 << 10) /* the usual read-ahead */

static size_t page_bytes(void)
{
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

qn_status qn__map_open(const char *path, qn_map *out, qn_error *err)
{
    struct stat st;
    char quoted[QN_PATH_QUOTED];
    /* Without O_NONBLOCK a FIFO would wait here for a writer that may never come. */
    const int fd = qn__open_retry(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return qn__fail_open(err, path, "read", errno);
    if (fstat(fd, &st) != 0) {
        const int e = errno;
        close(fd);
        return QN_FAIL(err, io, "cannot examine '%s': %s", qn__path_quote(quoted, path), strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return QN_FAIL(err, invalid, "'%s' is %s, a regular file was expected", qn__path_quote(quoted, path),
                       qn__file_kind(st.st_mode));
    }
    if ((uintmax_t)st.st_size > PTRDIFF_MAX) {
        close(fd);
        return QN_FAIL(err, limit, "'%s' has %lld bytes, more than this machine can map", qn__path_quote(quoted, path),
                       (long long)st.st_size);
    }
    qn_map map = {.size = (size_t)st.st_size, .fd = fd, .path = qn__strdup(path)};
    if (map.path == NULL) {
        close(fd);
        return QN_FAIL_NOMEM(err, strlen(path) + 1);
    }
    if (map.size > 0) {
        void *p = mmap(NULL, map.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            const int e = errno;
            close(fd);
            qn__free(map.path);
            return QN_FAIL(err, io, "cannot map the %zu bytes of '%s': %s", map.size, qn__path_quote(quoted, path),
                           strerror(e));
        }
        map.data = p;
    }
    QN_GAUGE_ADD(mapped_bytes, map.size);
    qn__trace_map_added(map.data, map.size, map.path, map.fd);
    *out = map;
    return QN_OK;
}

void qn__map_close(qn_map *map)
{
    if (map == NULL || map->path == NULL) return;
    qn__trace_map_removed(map->data);
    if (map->size > 0) munmap((void *)(uintptr_t)map->data, map->size);
    close(map->fd);
    QN_GAUGE_SUB(mapped_bytes, map->size);
    qn__free(map->path);
    *map = (qn_map){.fd = -1};
}

/* The range cut to the file and widened downwards to a page boundary; false when nothing is left. */
static bool clip(const qn_map *map, size_t *offset, size_t *size)
{
    if (map->size == 0 || *offset >= map->size || *size == 0) return false;
    if (*size > map->size - *offset) *size = map->size - *offset;
    const size_t skew = *offset % page_bytes();
    *offset -= skew;
    *size += skew;
    return true;
}

static void *at(const qn_map *map, size_t offset) { return (void *)(uintptr_t)(map->data + offset); }

/* In pieces: of a request the kernel reads no more than the larger of the disk's read-ahead and its largest transfer.
 */
void qn__map_read_ahead(const qn_map *map, size_t offset, size_t size)
{
    if (!clip(map, &offset, &size)) return;
    for (size_t done = 0; done < size; done += AHEAD_STEP) {
        const size_t step = size - done < AHEAD_STEP ? size - done : AHEAD_STEP;
        madvise(at(map, offset + done), step, MADV_WILLNEED); /* advice: failure changes nothing */
    }
}

/* One byte of every page. The system's own form is faster and reports a damaged disk instead of raising SIGBUS. */
static int populate(const qn_map *map, size_t offset, size_t size)
{
#ifdef MADV_POPULATE_READ
    while (madvise(at(map, offset), size, MADV_POPULATE_READ) != 0) {
        if (errno == EFAULT || errno == EIO) return errno;
        if (errno != EINTR && errno != EAGAIN) goto by_hand; /* an older kernel */
    }
    return 0;
by_hand:;
#endif
    const volatile uint8_t *p = map->data;
    const size_t page = page_bytes();
    for (size_t i = offset; i < offset + size; i += page) (void)p[i];
    return 0;
}

void qn__map_fetch(const qn_map *map, size_t offset, size_t size)
{
    if (clip(map, &offset, &size)) (void)populate(map, offset, size);
}

/* A page that is mapped stays in the cache whatever it is told, so it is unmapped first. */
void qn__map_drop(const qn_map *map, size_t offset, size_t size)
{
    const size_t page = page_bytes();
    if (map->size == 0 || offset >= map->size) return;
    size_t end = size < map->size - offset ? offset + size : map->size;
    offset = (offset + page - 1) / page * page;
    if (end < map->size) end = end / page * page;
    if (offset >= end) return;
    madvise(at(map, offset), end - offset, MADV_DONTNEED);
    (void)posix_fadvise(map->fd, (off_t)offset, (off_t)(end - offset), POSIX_FADV_DONTNEED);
}

/* Since Linux 5.18 a huge page that is missing is read by itself where nothing shall be read ahead; before, one small
 * page at a time was. */
static bool reads_huge_alone(void)
{
    struct utsname u;
    unsigned a = 0, b = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &a, &b) == 2 && (a > 5 || (a == 5 && b >= 18));
}

void qn__map_advise(const qn_map *map, size_t offset, size_t size, qn_map_use use)
{
    if (!clip(map, &offset, &size)) return;
#ifdef MADV_HUGEPAGE
    const bool huge = use != QN_MAP_rows && madvise(at(map, offset), size, MADV_HUGEPAGE) == 0;
#else
    const bool huge = false;
#endif
    if (use == QN_MAP_rows || (use == QN_MAP_alone && huge && reads_huge_alone()))
        madvise(at(map, offset), size, MADV_RANDOM);
}

qn_status qn__map_populate(const qn_map *map, size_t offset, size_t size,
                           bool (*progress)(void *ctx, size_t done, size_t total), void *ctx, qn_error *err)
{
    if (!clip(map, &offset, &size)) return QN_OK;
    char quoted[QN_PATH_QUOTED];
    for (size_t done = 0; done < size;) {
        const size_t step = size - done < POPULATE_STEP ? size - done : POPULATE_STEP;
        const int64_t start = qn__now_ns();
        const int e = populate(map, offset + done, step);
        if (e != 0) {
            return QN_FAIL(err, io, "cannot read '%s' at offset %zu: %s", qn__path_quote(quoted, map->path),
                           offset + done, strerror(e));
        }
        done += step;
        QN_COUNT(populated_bytes, step);
        QN_COUNT(populate_ns, qn__now_ns() - start);
        if (progress != NULL && !progress(ctx, done, size)) {
            return QN_FAIL(err, cancelled, "reading '%s' was stopped after %zu of %zu bytes",
                           qn__path_quote(quoted, map->path), done, size);
        }
    }
    return QN_OK;
}

qn_status qn__map_lock(const qn_map *map, size_t offset, size_t size, qn_error *err)
{
    if (!clip(map, &offset, &size) || mlock(at(map, offset), size) == 0) return QN_OK;
    const int e = errno;
    char quoted[QN_PATH_QUOTED];
    return QN_FAIL(err, io, "cannot lock %zu bytes of '%s' in memory: %s%s", size, qn__path_quote(quoted, map->path),
                   strerror(e), e == ENOMEM || e == EPERM || e == EAGAIN ? " (the limit is shown by 'ulimit -l')" : "");
}

bool qn__map_resident(const qn_map *map, size_t offset, size_t size, size_t *out)
{
    *out = 0;
    if (map->size == 0 || offset >= map->size || size == 0) return true;
    const qn_resident_file f = {map->fd, map->data, map->size};
    const qn_residency how = qn__residency_of(&f);
    if (how == QN_RESIDENCY_unknown) return false;
    const size_t page = page_bytes(), end = size < map->size - offset ? offset + size : map->size;
    for (size_t at = offset; at < end;) { /* a part of a page, whole pages, a part of one */
        const size_t skew = at % page, from = at - skew, left = end - from;
        const size_t n = left < page ? left : skew > 0 ? page : left - left % page;
        uint32_t pages;
        if (!qn__resident_pages(&f, how, from, n < page ? page : n, 1, &pages)) return false;
        const size_t found = (size_t)pages * page;
        *out += (found < n ? found : n) - (found > 0 ? skew : 0);
        at = from + n;
    }
    return true;
}
