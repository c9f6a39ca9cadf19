/* SPDX-License-Identifier: MIT */
/* src/base/dir.h -- folders: what lies in them. Nothing is opened but the folder itself, so a FIFO or a device in it
 * cannot make anybody wait. */
#ifndef QN_BASE_DIR_H
#define QN_BASE_DIR_H

#include "base/mem.h"

typedef enum qn_entry_kind {
    QN_ENTRY_file,
    QN_ENTRY_folder,
    QN_ENTRY_absent, /* nothing there; of a link: it leads nowhere */
    QN_ENTRY_loop,   /* a link that leads to itself in the end */
    QN_ENTRY_other   /* a FIFO, a socket, a device, or what may not be looked at */
} qn_entry_kind;

typedef struct qn_entry {
    const char *name;   /* as the file system has it: any bytes but '/' and NUL */
    qn_entry_kind kind; /* of what a link leads to */
    bool link;
    const char *what; /* of other: "a named pipe", "Permission denied" */
    uint64_t bytes;   /* of a file */
    uint64_t device, inode;
} qn_entry;

/* What lies at a path; never fails. */
qn_entry qn__entry_at(const char *path);
/* What lies in a folder, sorted by name, without "." and "..", in the arena; at most `most` entries, *cut says that
 * there are more. io with the system's reason where the folder cannot be read. */
qn_status qn__folder_read(const char *path, size_t most, qn_arena *arena, qn_entry **out, size_t *n, bool *cut,
                          qn_error *err);
/* The path without links and "..", in the arena; NULL where there is none, or no memory for it. */
char *qn__real_path(qn_arena *arena, const char *path);

#endif
