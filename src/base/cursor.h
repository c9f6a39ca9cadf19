/* SPDX-License-Identifier: MIT */
/* src/base/cursor.h -- reading a hostile byte range. Every get checks the bounds; the first failure is sticky, later
 * gets return 0 and do not move. Positions are from the start of the file, for messages. */
#ifndef QN_BASE_CURSOR_H
#define QN_BASE_CURSOR_H

#include <quern/base.h>

typedef struct qn_cursor {
    const uint8_t *base;
    size_t size, pos;
    bool swap; /* the file has the other byte order than this machine */
    bool failed;
    size_t fail_pos, fail_need; /* where the first failed get stood and how many bytes it wanted */
} qn_cursor;

void qn__cursor_init(qn_cursor *c, const void *base, size_t size);
static inline size_t qn__cursor_left(const qn_cursor *c) { return c->size - c->pos; }
uint32_t qn__get_u32(qn_cursor *c);
uint64_t qn__get_u64(qn_cursor *c);
const uint8_t *qn__get_bytes(qn_cursor *c, uint64_t n); /* borrowed; NULL when they are not there */
bool qn__cursor_skip(qn_cursor *c, uint64_t n);
bool qn__cursor_seek(qn_cursor *c, uint64_t pos);
/* Swaps an array of `count` scalars of 2, 4 or 8 bytes in place. */
void qn__swap_array(void *data, size_t count, size_t elem_bytes);

#endif
