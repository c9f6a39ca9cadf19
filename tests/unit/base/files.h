/* SPDX-License-Identifier: MIT */
/* tests/unit/base/files.h -- a scratch directory under the build folder and small file helpers for tests. */
#ifndef QN_TEST_FILES_H
#define QN_TEST_FILES_H

#include "failing.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[512]; /* "…/NAME.tmp", made empty by scratch_make */

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static inline void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static inline void scratch_make(const char *name)
{
    snprintf(scratch, sizeof scratch, "%s/%s.tmp", QN_BUILD_DIR, name);
    remove_tree(scratch);
    assert_int_equal(mkdir(scratch, 0777), 0);
}

/* The name of a file in the scratch directory; four may be in use at one time. */
static inline const char *in_scratch(const char *name)
{
    static char buf[4][1024];
    static int turn;
    char *p = buf[turn = (turn + 1) % 4];
    snprintf(p, sizeof buf[0], "%s/%s", scratch, name);
    return p;
}

/* Makes the directories in between, too. */
static inline const char *write_file(const char *name, const void *bytes, size_t n)
{
    const char *path = in_scratch(name);
    char dir[1024];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *p = dir + strlen(scratch) + 1; *p != '\0'; p++) {
        if (*p != '/') continue;
        *p = '\0';
        mkdir(dir, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

static inline void check_content(const char *path, const char *want)
{
    char got[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    got[n] = '\0';
    assert_string_equal(got, want);
}

static inline int count_entries(void)
{
    DIR *d = opendir(scratch);
    int n = -2; /* "." and ".." */
    assert_non_null(d);
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

static inline int count_open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

#endif
