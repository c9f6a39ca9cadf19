/* SPDX-License-Identifier: MIT */
/* src/base/file.c -- writers and whole-file reads. A writer's target is untouched until commit renames the finished
 * temporary file over it; only a target that is no regular file (a device, a pipe, standard output) is written in
 * place. The first error number is kept and everything after it is dropped. */
#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10) /* past this a larger write gains nothing on a local disk */
#define READ_STEP    ((size_t)64 << 10)

const char *qn__path_quote(char buf[QN_PATH_QUOTED], const char *path)
{
    return qn__str_quote(buf, QN_PATH_QUOTED, path, strlen(path));
}

const char *qn__file_kind(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a named pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISREG(mode)  ? "a regular file"
                            : "not a file";
}

int qn__open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do fd = open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

qn_status qn__fail_open(qn_error *err, const char *path, const char *verb, int e)
{
    struct stat st;
    char quoted[QN_PATH_QUOTED];
    qn__path_quote(quoted, path);
    if (path[0] == '\0') return QN_FAIL(err, invalid, "cannot %s a file with an empty name", verb);
    if (e == ENXIO && stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return QN_FAIL(err, invalid, "'%s' is %s, a regular file was expected", quoted, qn__file_kind(st.st_mode));
    }
    return QN_FAIL(err, io, "cannot %s '%s': %s", verb, quoted, strerror(e));
}

/* ---- writer ---- */

struct qn_writer {
    int fd;
    int error; /* errno of the first failure, 0 while all is well */
    bool owns_fd;
    char *path;          /* as the caller named it, for messages */
    char *target, *temp; /* NULL when written in place */
    bool named;          /* there is a file named `temp` */
    uint64_t put;
    size_t n_buffered;
    char buffer[BUFFER_BYTES];
};

static void writer_free(qn_writer *w)
{
    qn__free(w->path);
    qn__free(w->target);
    qn__free(w->temp);
    qn__free(w);
}

bool qn__writer_names_at_once;

/* Bytes of a path up to its last part. */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

enum { TEMP_NAME = 64 };

/* Gives the file a name that nobody uses beside the target: same directory, hence same file system, hence an atomic
 * rename. Makes it where there is none yet. False: errno. */
static bool name_temp(qn_writer *w)
{
    static _Atomic unsigned serial;
    const size_t dir = folder_of(w->target);
    char open_file[64];
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", w->fd);
    for (int attempt = 0; attempt < 100 && !w->named; attempt++) {
        const unsigned n = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
        snprintf(w->temp + dir, TEMP_NAME, ".quern-%ld-%u-%08llx.tmp", (long)getpid(), n,
                 (unsigned long long)(qn__now_ns() & 0xffffffff));
        if (w->fd >= 0) {
            w->named = linkat(AT_FDCWD, open_file, AT_FDCWD, w->temp, AT_SYMLINK_FOLLOW) == 0;
        } else {
            w->fd = qn__open_retry(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            w->named = w->fd >= 0;
        }
        if (!w->named && errno != EEXIST) break;
    }
    return w->named;
}

/* Until it is whole the file has no name, so that nothing is left of it when the process is killed; file systems that
 * know no such files, or systems without /proc, give it one at once. */
static qn_status open_temp(qn_writer *w, mode_t mode, bool existed, qn_error *err)
{
    const size_t dir = folder_of(w->target), size = dir + TEMP_NAME;
    w->temp = qn__alloc(size);
    if (w->temp == NULL) return QN_FAIL_NOMEM(err, size);
    memcpy(w->temp, w->target, dir);
    strcpy(w->temp + dir, ".");
    if (!qn__writer_names_at_once && access("/proc/self/fd", X_OK) == 0)
        w->fd = qn__open_retry(w->temp, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (w->fd < 0 && !name_temp(w)) return qn__fail_open(err, w->path, "write", errno);
    w->owns_fd = true;
    if (existed) (void)!fchmod(w->fd, mode & 0777); /* a refusal (another owner's file) leaves the default mode */
    return QN_OK;
}

/* A symbolic link stays one: what it points to is replaced. */
static char *resolve(const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real) != NULL) return qn__strdup(real);
    return qn__strdup(path);
}

static qn_status writer_start(qn_writer *w, const char *path, qn_error *err)
{
    struct stat st;
    char quoted[QN_PATH_QUOTED];
    if (strcmp(path, "-") == 0) {
        w->fd = STDOUT_FILENO;
        return QN_OK;
    }
    if (path[0] == '\0') return QN_FAIL(err, invalid, "cannot write a file with an empty name");
    const bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        return QN_FAIL(err, invalid, "'%s' is a directory, a file name was expected", qn__path_quote(quoted, path));
    }
    if (exists && !S_ISREG(st.st_mode)) {
        w->fd = qn__open_retry(path, O_WRONLY | O_CLOEXEC | O_NOCTTY, 0);
        if (w->fd < 0) return qn__fail_open(err, path, "write", errno);
        w->owns_fd = true;
        return QN_OK;
    }
    /* Renaming needs no leave to write the old file, but whoever made it read-only meant something by it. */
    if (exists && access(path, W_OK) != 0) return qn__fail_open(err, path, "write", errno);
    w->target = resolve(path);
    if (w->target == NULL) return QN_FAIL_NOMEM(err, strlen(path) + 1);
    return open_temp(w, exists ? st.st_mode : 0, exists, err);
}

qn_status qn__writer_open(const char *path, qn_writer **out, qn_error *err)
{
    qn_writer *w = qn__alloc(sizeof *w);
    if (w == NULL) return QN_FAIL_NOMEM(err, sizeof *w);
    w->fd = -1;
    w->error = 0;
    w->owns_fd = w->named = false;
    w->target = w->temp = NULL;
    w->put = 0;
    w->n_buffered = 0;
    w->path = qn__strdup(path);
    const qn_status status = w->path != NULL ? writer_start(w, path, err) : QN_FAIL_NOMEM(err, strlen(path) + 1);
    if (status != QN_OK) {
        writer_free(w);
        return status;
    }
    *out = w;
    return QN_OK;
}

static void write_out(qn_writer *w, const char *p, size_t n)
{
    while (n > 0 && w->error == 0) {
        const int64_t start = qn__now_ns();
        const ssize_t got = write(w->fd, p, n < INT_MAX ? n : INT_MAX);
        if (got > 0) {
            QN_COUNT(written_bytes, got);
            QN_COUNT(write_ns, qn__now_ns() - start);
            p += got;
            n -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            w->error = got == 0 ? EIO : errno;
        }
    }
}

static void flush(qn_writer *w)
{
    write_out(w, w->buffer, w->n_buffered);
    w->n_buffered = 0;
}

void qn__writer_put(qn_writer *w, const void *bytes, size_t n)
{
    w->put += n;
    if (w->error != 0 || n == 0) return;
    if (n > BUFFER_BYTES - w->n_buffered) flush(w);
    if (n >= BUFFER_BYTES) {
        write_out(w, bytes, n);
        return;
    }
    memcpy(w->buffer + w->n_buffered, bytes, n);
    w->n_buffered += n;
}

uint64_t qn__writer_tell(const qn_writer *w) { return w->put; }
bool qn__writer_failed(const qn_writer *w) { return w->error != 0; }

qn_status qn__writer_commit(qn_writer *w, qn_error *err)
{
    flush(w);
    if (w->error == 0 && w->temp != NULL && !w->named && !name_temp(w)) w->error = errno;
    if (w->owns_fd && close(w->fd) != 0 && w->error == 0 && errno != EINTR) w->error = errno;
    w->owns_fd = false;
    if (w->error == 0 && w->temp != NULL && rename(w->temp, w->target) != 0) w->error = errno;
    qn_status status = QN_OK;
    if (w->error != 0) {
        char quoted[QN_PATH_QUOTED];
        const bool out = strcmp(w->path, "-") == 0;
        const char *name = out ? "standard output" : qn__path_quote(quoted, w->path), *mark = out ? "" : "'";
        status = QN_FAIL(err, io, "cannot write %s%s%s: %s", mark, name, mark, strerror(w->error));
    }
    if (status == QN_OK) w->named = false;
    qn__writer_abort(w);
    return status;
}

void qn__writer_abort(qn_writer *w)
{
    if (w == NULL) return;
    if (w->owns_fd) close(w->fd);
    if (w->named) unlink(w->temp);
    writer_free(w);
}

/* ---- reading a whole file ---- */

static qn_status too_long(const char *name, size_t max_bytes, qn_error *err)
{
    return QN_FAIL(err, limit, "%s has more than %zu bytes, the most that is read here", name, max_bytes);
}

static qn_status read_fd(int fd, const char *name, size_t max_bytes, size_t expected, qn_str *s, qn_error *err)
{
    if (!qn__str_reserve(s, expected)) return QN_FAIL_NOMEM(err, expected);
    for (;;) {
        size_t room = s->cap - s->len;
        if (room == 0) {
            if (s->len > max_bytes) return too_long(name, max_bytes, err);
            if (!qn__str_reserve(s, s->len + READ_STEP)) return QN_FAIL_NOMEM(err, s->len + READ_STEP);
            room = s->cap - s->len;
        }
        const int64_t start = qn__now_ns();
        const ssize_t got = read(fd, s->data + s->len, room < INT_MAX ? room : INT_MAX);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return QN_FAIL(err, io, "cannot read %s: %s", name, strerror(errno));
        if (got == 0) break;
        s->len += (size_t)got;
        QN_COUNT(read_bytes, got);
        QN_COUNT(read_ns, qn__now_ns() - start);
        if (s->len > max_bytes) return too_long(name, max_bytes, err);
    }
    s->data[s->len] = '\0';
    return QN_OK;
}

qn_status qn__read_all(const char *path, size_t max_bytes, char **out, size_t *size, qn_error *err)
{
    char name[QN_PATH_QUOTED + 2] = "standard input", quoted[QN_PATH_QUOTED];
    const bool is_stdin = strcmp(path, "-") == 0;
    int fd = STDIN_FILENO;
    if (!is_stdin) {
        snprintf(name, sizeof name, "'%s'", qn__path_quote(quoted, path));
        fd = qn__open_retry(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
        if (fd < 0) return qn__fail_open(err, path, "read", errno);
    }
    struct stat st;
    qn_str s = {0};
    qn_status status = QN_OK;
    size_t expected = 1024;
    if (fstat(fd, &st) == 0) {
        if (S_ISDIR(st.st_mode)) status = QN_FAIL(err, invalid, "%s is a directory, a file was expected", name);
        if (S_ISREG(st.st_mode) && st.st_size > 0) {
            if ((uintmax_t)st.st_size > max_bytes)
                status = too_long(name, max_bytes, err);
            else
                expected = (size_t)st.st_size + 1; /* one more, so that the end is seen without growing */
        }
    }
    if (status == QN_OK) status = read_fd(fd, name, max_bytes, expected, &s, err);
    if (!is_stdin) close(fd);
    char *data = status == QN_OK ? qn__str_take(&s, size) : NULL;
    if (data == NULL) {
        qn__str_deinit(&s);
        return status != QN_OK ? status : QN_FAIL_NOMEM(err, 1);
    }
    *out = data;
    return QN_OK;
}
