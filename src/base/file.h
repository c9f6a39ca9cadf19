/* SPDX-License-Identifier: MIT */
/* src/base/file.h -- files: read-only mappings, positioned reads, and writers that never leave a half-written file
 * behind. */
#ifndef QN_BASE_FILE_H
#define QN_BASE_FILE_H

#include <quern/base.h>

/* A whole regular file, mapped read-only and private. Opening touches no page. Anything but a regular file is refused
 * with its kind named ("is a directory"). An empty file maps to size 0 and data NULL. */
typedef struct qn_map {
    const uint8_t *data;
    size_t size;
    int fd;     /* kept open for page-cache queries and pread; -1 when closed */
    char *path; /* owned copy */
} qn_map;
qn_status qn__map_open(const char *path, qn_map *out, qn_error *err);
void qn__map_close(qn_map *map);
/* Asks the system to read the range in the background. */
void qn__map_read_ahead(const qn_map *map, size_t offset, size_t size);
/* Reads the pages of the range that are not in memory, and maps them; waits for the disk. A page that cannot be read is
 * left to whoever touches it. */
void qn__map_fetch(const qn_map *map, size_t offset, size_t size);
/* Gives the whole pages of the range back, unless others use them; they are read again when they are touched. */
void qn__map_drop(const qn_map *map, size_t offset, size_t size);
/* How the range is used. whole: all of it, so that the kernel reads and maps 2 MiB at once where it can, and the next
 * with them; alone: likewise, but nothing of what follows; rows: some pages here and there, so that it reads no others.
 */
typedef enum qn_map_use { QN_MAP_whole, QN_MAP_alone, QN_MAP_rows } qn_map_use;
void qn__map_advise(const qn_map *map, size_t offset, size_t size, qn_map_use use);
/* Reads every page of the range once (populate) and calls `progress` (may be NULL) about every 64 MiB; false from it
 * stops. */
qn_status qn__map_populate(const qn_map *map, size_t offset, size_t size,
                           bool (*progress)(void *ctx, size_t done, size_t total), void *ctx, qn_error *err);
qn_status qn__map_lock(const qn_map *map, size_t offset, size_t size, qn_error *err);
/* How many bytes of the range are in memory now; false when the kernel doesn't tell this user. */
bool qn__map_resident(const qn_map *map, size_t offset, size_t size, size_t *out);

/* Writes go to a file without a name (or, where the system has none such, with a temporary one beside the target),
 * which commit puts in the target's place: a full disk or a crash leaves the old file whole, and nothing else. "-" as
 * path writes to standard output. Write errors are sticky and reported by commit. */
typedef struct qn_writer qn_writer;
extern bool qn__writer_names_at_once; /* for tests: as where the system has no files without names */
qn_status qn__writer_open(const char *path, qn_writer **out, qn_error *err);
void qn__writer_put(qn_writer *w, const void *bytes, size_t n);
uint64_t qn__writer_tell(const qn_writer *w);
/* flushes, renames and closes; w is gone on success and failure */
qn_status qn__writer_commit(qn_writer *w, qn_error *err);
void qn__writer_abort(qn_writer *w);        /* removes the temporary file and closes; NULL is fine */
bool qn__writer_failed(const qn_writer *w); /* a write already failed: long jobs may stop early */

/* The whole of a file or of standard input ("-"), NUL-terminated beyond `size`; limit when it is larger than max_bytes.
 * The caller frees with qn_free. */
qn_status qn__read_all(const char *path, size_t max_bytes, char **out, size_t *size, qn_error *err);

#endif
