/* SPDX-License-Identifier: MIT */
/* src/base/dir.c -- folders. Kinds and sizes come from stat, because file systems need not fill in d_type. */
#include "base/dir.h"
#include "base/error.h"
#include "base/file_kind.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static qn_entry entry_at(int folder, const char *path)
{
    struct stat st;
    qn_entry e = {.name = path, .kind = QN_ENTRY_absent};
    if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT && errno != ENOTDIR) e.kind = QN_ENTRY_other, e.what = strerror(errno);
        return e;
    }
    e.link = S_ISLNK(st.st_mode);
    if (e.link && fstatat(folder, path, &st, 0) != 0) {
        if (errno == ELOOP) e.kind = QN_ENTRY_loop;
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return e;
        e.kind = QN_ENTRY_other;
        e.what = strerror(errno);
        return e;
    }
    e.kind = S_ISREG(st.st_mode) ? QN_ENTRY_file : S_ISDIR(st.st_mode) ? QN_ENTRY_folder : QN_ENTRY_other;
    if (e.kind == QN_ENTRY_other) e.what = qn__file_kind(st.st_mode);
    if (e.kind == QN_ENTRY_file) e.bytes = (uint64_t)st.st_size;
    e.device = (uint64_t)st.st_dev;
    e.inode = (uint64_t)st.st_ino;
    return e;
}

qn_entry qn__entry_at(const char *path) { return entry_at(AT_FDCWD, path); }

static int by_name(const void *a, const void *b)
{
    const qn_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* A list that grows in an arena: what it outgrew stays until the arena ends, less than the list itself. */
static bool grow(qn_arena *arena, qn_entry **list, size_t n, size_t *cap)
{
    if (n < *cap) return true;
    const size_t more = *cap ? *cap * 2 : 32;
    qn_entry *bigger = qn__arena_array(arena, more, sizeof *bigger);
    if (!bigger) return false;
    if (n) memcpy(bigger, *list, n * sizeof *bigger);
    *list = bigger;
    *cap = more;
    return true;
}

static qn_status read_entries(DIR *dir, size_t most, qn_arena *arena, qn_entry **out, size_t *n, bool *cut,
                              qn_error *err)
{
    qn_entry *list = NULL;
    size_t cap = 0;
    struct dirent *d;
    while (errno = 0, (d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        *cut = *n == most;
        if (*cut) break;
        const char *name = qn__arena_strdup(arena, d->d_name);
        if (!name || !grow(arena, &list, *n, &cap)) return QN_FAIL_NOMEM(err, sizeof *list);
        list[*n] = entry_at(dirfd(dir), name);
        (*n)++;
    }
    if (*n) qsort(list, *n, sizeof *list, by_name);
    *out = list;
    return QN_OK;
}

qn_status qn__folder_read(const char *path, size_t most, qn_arena *arena, qn_entry **out, size_t *n, bool *cut,
                          qn_error *err)
{
    /* O_DIRECTORY: a FIFO in a folder's place is refused and not waited for. */
    const int fd = qn__open_retry(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return qn__fail_open(err, path, "read", errno);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return QN_FAIL(err, nomem, "out of memory while reading a folder");
    }
    *out = NULL;
    *n = 0;
    *cut = false;
    const qn_status status = read_entries(dir, most, arena, out, n, cut, err);
    closedir(dir);
    return status;
}

char *qn__real_path(qn_arena *arena, const char *path)
{
    char real[PATH_MAX];
    return realpath(path, real) ? qn__arena_strdup(arena, real) : NULL;
}
