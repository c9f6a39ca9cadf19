/* SPDX-License-Identifier: MIT */
/* src/base/append.c -- see append.h. */
#include "base/append.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Empty, or no regular file, or it begins so. */
static bool may_overwrite(int fd, const void *magic, size_t n)
{
    char head[64];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return true;
    return n <= sizeof head && pread(fd, head, n, 0) == (ssize_t)n && memcmp(head, magic, n) == 0;
}

/* As it stands, not emptied. */
static qn_status open_checked(const char *path, const void *magic, size_t n, int *fd, qn_error *err)
{
    char quoted[QN_PATH_QUOTED];
    const int flags = O_CREAT | O_CLOEXEC | O_NONBLOCK;
    int f = qn__open_retry(path, O_RDWR | flags, 0666);
    const bool readable = f >= 0;
    if (f < 0) f = qn__open_retry(path, O_WRONLY | flags, 0666); /* a pipe, a terminal */
    if (f < 0) return qn__fail_open(err, path, "write", errno);
    if (readable && !may_overwrite(f, magic, n)) {
        close(f);
        return QN_FAIL(err, invalid, "'%s' is there already and is another kind of file; it is left as it is",
                       qn__path_quote(quoted, path));
    }
    *fd = f;
    return QN_OK;
}

static qn_status empty(int f, const char *path, qn_error *err)
{
    struct stat st;
    if (fstat(f, &st) != 0 || !S_ISREG(st.st_mode) || ftruncate(f, 0) == 0) return QN_OK;
    const int e = errno;
    close(f);
    return qn__fail_open(err, path, "write", e);
}

qn_status qn__append_open(const char *path, const void *magic, size_t n, int *fd, qn_error *err)
{
    QN_TRY(open_checked(path, magic, n, fd, err));
    return empty(*fd, path, err);
}

/* A link stays one: its target is what is replaced. */
static const char *real_path(const char *path, char real[PATH_MAX]) { return realpath(path, real) ? real : path; }

/* A new file in the folder of `path`, or -1. */
static int open_temp(const char *path, mode_t mode, char **temp)
{
    char real[PATH_MAX];
    const char *target = real_path(path, real), *slash = strrchr(target, '/');
    const size_t dir = slash ? (size_t)(slash - target) + 1 : 0, size = dir + 64;
    *temp = qn__alloc(size);
    if (!*temp) return -1;
    memcpy(*temp, target, dir);
    snprintf(*temp + dir, size - dir, ".quern-%ld-%08llx.tmp", (long)getpid(),
             (unsigned long long)(qn__now_ns() & 0xffffffff));
    const int fd = qn__open_retry(*temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) (void)!fchmod(fd, mode & 0777);
    return fd;
}

qn_status qn__append_open_beside(const char *path, const void *magic, size_t n, int *fd, char **temp, qn_error *err)
{
    struct stat st;
    *temp = NULL;
    QN_TRY(open_checked(path, magic, n, fd, err));
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        const int beside = open_temp(path, st.st_mode, temp);
        if (beside >= 0) {
            close(*fd);
            *fd = beside;
            return QN_OK;
        }
        qn__free(*temp);
        *temp = NULL;
    }
    return empty(*fd, path, err);
}

bool qn__append_replace(const char *temp, const char *path)
{
    char real[PATH_MAX];
    return rename(temp, real_path(path, real)) == 0;
}

/* A pipe that is full is waited for, but not for ever: nobody may be reading. */
static bool wait_for_room(int fd)
{
    enum { PATIENCE_MS = 10000 };
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    const int n = poll(&p, 1, PATIENCE_MS);
    if (n == 0) errno = ETIMEDOUT;
    return n > 0 || (n < 0 && errno == EINTR);
}

bool qn__append_put(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        const int64_t start = qn__now_ns();
        const ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && wait_for_room(fd)) continue;
        if (k <= 0) return false;
        QN_COUNT(written_bytes, k);
        QN_COUNT(write_ns, qn__now_ns() - start);
        p += k;
        n -= (size_t)k;
    }
    return true;
}

bool qn__append_close(int fd) { return close(fd) == 0; }

int qn__read_small(const char *path, char *to, size_t size)
{
    const int fd = qn__open_retry(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    const ssize_t n = read(fd, to, size - 1);
    close(fd);
    to[n > 0 ? n : 0] = '\0';
    return (int)n;
}
