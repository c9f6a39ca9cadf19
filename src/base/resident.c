/* SPDX-License-Identifier: MIT */
/* src/base/resident.c -- see resident.h. cachestat counts whole ranges in the kernel, some 10 ns a page; mincore writes
 * a byte a page, 46 to 100 ns each. */
#include "base/resident.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHESTAT 451 /* the same number on all architectures; C libraries of 2023 don't know it */

static int64_t cachestat_of_kernel(int fd, uint64_t offset, uint64_t size)
{
#ifdef __linux__
    uint64_t range[2] = {offset, size}, count[5] = {0}; /* cached, dirty, written back, evicted, evicted lately */
    return syscall(CACHESTAT, fd, range, count, 0u) == 0 ? (int64_t)count[0] : -1;
#else
    errno = ENOSYS;
    return -1;
#endif
}
int64_t (*qn__cachestat)(int fd, uint64_t offset, uint64_t size) = cachestat_of_kernel;

const char *qn__residency_name(int residency)
{
    return residency == QN_RESIDENCY_cachestat ? "cachestat"
           : residency == QN_RESIDENCY_mincore ? "mincore"
                                               : "unknown";
}

/* The kernel's own rule for mincore. */
static bool mincore_is_true(int fd)
{
    struct stat st;
    char path[64];
    if (fstat(fd, &st) != 0) return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return st.st_uid == geteuid() || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

qn_residency qn__residency_of(const qn_resident_file *f)
{
    if (qn__cachestat(f->fd, 0, 1) >= 0) return QN_RESIDENCY_cachestat;
    return f->data && mincore_is_true(f->fd) ? QN_RESIDENCY_mincore : QN_RESIDENCY_unknown;
}

static bool count_mincore(const qn_resident_file *f, size_t offset, size_t size, size_t page, uint32_t *pages)
{
    unsigned char in[1024];
    *pages = 0;
    for (size_t at = offset; at < offset + size; at += sizeof in * page) {
        const size_t left = offset + size - at, n = left < sizeof in * page ? left : sizeof in * page;
        if (mincore((void *)(uintptr_t)(f->data + at), n, in) != 0) return false;
        for (size_t i = 0; i * page < n; i++) *pages += in[i] & 1;
    }
    return true;
}

bool qn__resident_pages(const qn_resident_file *f, qn_residency how, size_t offset, size_t unit, size_t n,
                        uint32_t *pages)
{
    const long asked = sysconf(_SC_PAGESIZE);
    const size_t page = asked > 0 ? (size_t)asked : 4096;
    for (size_t i = 0; i < n; i++) {
        const size_t from = offset + i * unit;
        pages[i] = 0;
        if (from >= f->size) continue;
        const size_t size = f->size - from < unit ? f->size - from : unit;
        if (how == QN_RESIDENCY_mincore) {
            if (!count_mincore(f, from, size, page, &pages[i])) return false;
        } else {
            const int64_t found = qn__cachestat(f->fd, from, size);
            if (found < 0) return false;
            pages[i] = (uint32_t)found;
        }
    }
    return true;
}
