/* SPDX-License-Identifier: MIT */
/* src/base/grow.c -- positioned writes, with retries; a part that is written again and again as memory. */
#include "base/grow.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/metrics.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

qn_status qn__grow_open(const char *path, bool fresh, int *fd, qn_error *err)
{
    *fd = qn__open_retry(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | (fresh ? O_TRUNC : 0), 0666);
    return *fd >= 0 ? QN_OK : qn__fail_open(err, path, "write", errno);
}

static qn_status fail(const char *path, int e, qn_error *err)
{
    char quoted[QN_PATH_QUOTED];
    return QN_FAIL(err, io, "cannot write '%s': %s", qn__path_quote(quoted, path), strerror(e));
}

static qn_status put(int fd, const char *path, const qn_grow_part *part, qn_error *err)
{
    const char *p = part->bytes;
    uint64_t at = part->at;
    for (size_t left = part->n; left > 0;) {
        const ssize_t got = pwrite(fd, p, left < INT_MAX ? left : INT_MAX, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail(path, got == 0 ? EIO : errno, err);
        QN_COUNT(written_bytes, got);
        p += got;
        left -= (size_t)got;
        at += (uint64_t)got;
    }
    return QN_OK;
}

qn_status qn__grow_write(int fd, const char *path, const qn_grow_part *parts, int n, qn_error *err)
{
    const int64_t start = qn__now_ns();
    qn_status status = QN_OK;
    for (int i = 0; i < n && status == QN_OK; i++) status = put(fd, path, &parts[i], err);
    QN_COUNT(write_ns, qn__now_ns() - start);
    return status;
}

/* File systems that keep a block where it is once it is there. Others write a copy, for which a full disk has no room;
 * of that a write reports, and a store raises SIGBUS. */
static bool stays_in_place(int fd)
{
#ifdef __linux__
    enum { EXT = 0xef53, XFS = 0x58465342, TMPFS = 0x01021994 };
    struct stat st;
    struct statfs fs;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 &&
           (fs.f_type == EXT || fs.f_type == XFS || fs.f_type == TMPFS);
#else
    (void)fd;
    return false;
#endif
}

void *qn__grow_map(int fd, size_t n)
{
    if (!stays_in_place(fd)) return NULL;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void qn__grow_unmap(void *p, size_t n)
{
    if (p) (void)munmap(p, n);
}

qn_status qn__grow_close(int fd, const char *path, qn_error *err)
{
    return close(fd) == 0 || errno == EINTR ? QN_OK : fail(path, errno, err);
}

qn_status qn__folder_make(const char *path, qn_error *err)
{
    struct stat st;
    char quoted[QN_PATH_QUOTED];
    if (mkdir(path, 0777) == 0) return QN_OK;
    const int e = errno;
    if (e == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return QN_OK;
    return QN_FAIL(err, io, "cannot make the folder '%s': %s", qn__path_quote(quoted, path), strerror(e));
}
