/* SPDX-License-Identifier: MIT */
/* src/base/resident.h -- how much of a file is in memory, without touching it, and whether the kernel says so. */
#ifndef QN_BASE_RESIDENT_H
#define QN_BASE_RESIDENT_H

#include <quern/base.h>

/* Who said it. mincore tells a user who neither owns a file nor may write it that all of it is there, so then it isn't
 * asked; nor does cachestat tell him, since Linux 6.14. */
typedef enum qn_residency { QN_RESIDENCY_unknown, QN_RESIDENCY_cachestat, QN_RESIDENCY_mincore } qn_residency;
const char *qn__residency_name(int residency); /* "unknown" for all other numbers */

/* A file that is mapped from its beginning. */
typedef struct qn_resident_file {
    int fd;
    const uint8_t *data;
    size_t size;
} qn_resident_file;

/* Which of them would answer for this file: asked once, since that costs more than an answer. */
qn_residency qn__residency_of(const qn_resident_file *f);
/* Pages of each of n stretches of `unit` bytes (whole pages) from `offset` on that are in memory. False when the kernel
 * doesn't say after all. `how` is what qn__residency_of said, not unknown. */
bool qn__resident_pages(const qn_resident_file *f, qn_residency how, size_t offset, size_t unit, size_t n,
                        uint32_t *pages);

/* cachestat(2): the pages of the range that are cached, or -1 and errno. Tests put another in its place. */
extern int64_t (*qn__cachestat)(int fd, uint64_t offset, uint64_t size);

#endif
