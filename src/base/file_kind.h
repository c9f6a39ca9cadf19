/* SPDX-License-Identifier: MIT */
/* src/base/file_kind.h -- what map.c and file.c share: opening with retries, and words for messages about files. */
#ifndef QN_BASE_FILE_KIND_H
#define QN_BASE_FILE_KIND_H

#include <quern/base.h>
#include <sys/stat.h>

#define QN_PATH_QUOTED 320 /* of an error's 512 bytes: a path may be 4096 long, its reason must still fit */

const char *qn__path_quote(char buf[QN_PATH_QUOTED], const char *path); /* returns buf */
const char *qn__file_kind(mode_t mode);                                 /* "a directory" */
int qn__open_retry(const char *path, int flags, mode_t mode);           /* open that survives signals */
/* "cannot VERB 'path': reason"; `e` is the errno. Names the kind where open's own reason would puzzle (a socket). */
qn_status qn__fail_open(qn_error *err, const char *path, const char *verb, int e);

#endif
