/* SPDX-License-Identifier: MIT */
/* src/base/grow.h -- files that grow while something runs: each write is done when it returns, and what is there is
 * whole after every one. */
#ifndef QN_BASE_GROW_H
#define QN_BASE_GROW_H

#include <quern/base.h>

/* Makes the file, or empties it (fresh), or goes on with it. */
qn_status qn__grow_open(const char *path, bool fresh, int *fd, qn_error *err);
/* n bytes that belong at `at`. */
typedef struct qn_grow_part {
    uint64_t at;
    const void *bytes;
    size_t n;
} qn_grow_part;
/* One after the other, until one fails. */
qn_status qn__grow_write(int fd, const char *path, const qn_grow_part *parts, int n, qn_error *err);
/* The first n bytes of a file that has them, as memory: who reads the file sees a store there, which takes no system
 * call. NULL where they have to be written: where a store could find no room (it would raise SIGBUS), or nothing is
 * mapped. */
void *qn__grow_map(int fd, size_t n);
void qn__grow_unmap(void *p, size_t n); /* NULL is nothing */
qn_status qn__grow_close(int fd, const char *path, qn_error *err);
/* A folder, unless it is there; the one that it lies in must be. */
qn_status qn__folder_make(const char *path, qn_error *err);

#endif
