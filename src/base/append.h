/* SPDX-License-Identifier: MIT */
/* src/base/append.h -- a file that grows as it is written, for what must be there if the process is killed. Writes go
 * straight to the system; a failed one is for good, and what was written before it stays. */
#ifndef QN_BASE_APPEND_H
#define QN_BASE_APPEND_H

#include <quern/base.h>

/* The file is made anew; a regular file that is there must be empty or begin with these bytes, so that nothing else is
 * overwritten by mistake (invalid). io when it can't be made. *fd is closed with qn__append_close. */
qn_status qn__append_open(const char *path, const void *magic, size_t n, int *fd, qn_error *err);
/* Likewise, but a regular file that is there with something in it stays as it is: *temp is then the name of the new
 * file, beside it, for qn__append_replace; freed with qn__free. NULL: the file is written in place, also where none can
 * be made beside it. */
qn_status qn__append_open_beside(const char *path, const void *magic, size_t n, int *fd, char **temp, qn_error *err);
/* The file at `path` (what a link there points to) is the new one from now on; false: it isn't, errno says why. */
bool qn__append_replace(const char *temp, const char *path);
/* All of it, or false with errno set; a pipe that nobody reads for 10 seconds is one that failed. */
bool qn__append_put(int fd, const void *bytes, size_t n);
/* A file of the system's that is read from the beginning each time: its first bytes, terminated; -1 when it can't be.
 */
int qn__read_small(const char *path, char *to, size_t size);
bool qn__append_close(int fd); /* false: the system reports that something written was lost */

#endif
