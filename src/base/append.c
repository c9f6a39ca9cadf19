/* SPDX-License-Identifier: MIT */
/* src/base/append.c -- see append.h. */
#include "base/append.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/metrics.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

qn_status qn__append_open(const char *path, const void *magic, size_t n, int *fd, qn_error *err)
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
    struct stat st;
    if (fstat(f, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(f, 0) != 0) {
        const int e = errno;
        close(f);
        return qn__fail_open(err, path, "write", e);
    }
    *fd = f;
    return QN_OK;
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
