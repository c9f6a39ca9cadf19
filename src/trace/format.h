/* SPDX-License-Identifier: MIT */
/* src/trace/format.h -- the file of a recording, as docs/FORMATS.md describes it: a header, then blocks, each with its
 * length and its checksums, so that a file that ends anywhere can be read up to there. All numbers little endian. */
#ifndef QN_TRACE_FORMAT_H
#define QN_TRACE_FORMAT_H

#include "base/trace.h"

#define QN_TRACE_MAGIC       "QNTRACE\n"
#define QN_TRACE_VERSION     1u
#define QN_TRACE_ORDER       0x01020304u
#define QN_TRACE_FILE_BYTES  16 /* magic, version, order */

#define QN_TRACE_BLOCK_MAGIC UINT32_C(0x4b4c4251) /* "QBLK" */
#define QN_TRACE_BLOCK_BYTES 40
#define QN_TRACE_END_ROOM    512 /* for the last blocks of a file that is limited */

/* Numbers in files: append only. */
typedef enum qn_trace_block_kind {
    QN_TRACE_BLOCK_notes = 1,
    QN_TRACE_BLOCK_file,
    QN_TRACE_BLOCK_plan,
    QN_TRACE_BLOCK_steps,
    QN_TRACE_BLOCK_events,
    QN_TRACE_BLOCK_marks,
    QN_TRACE_BLOCK_clock,
    QN_TRACE_BLOCK_end,
    QN_TRACE_BLOCK_usage,
    QN_TRACE_BLOCK_choices,
    QN_TRACE_BLOCK_gates,
    QN_TRACE_BLOCK_hashes,
    QN_TRACE_BLOCK_samples,
    QN_TRACE_BLOCK_residency,
    QN_TRACE_BLOCK_counts,
    QN_TRACE_BLOCK_values,
    QN_TRACE_BLOCK_KINDS
} qn_trace_block_kind;

typedef struct qn_trace_block {
    uint16_t kind, method; /* method: 0 as it is, 1 a zlib stream */
    uint32_t lane;         /* of events and marks */
    uint32_t count;        /* rows */
    uint32_t raw_bytes, packed_bytes;
    uint64_t dropped; /* records that the lane has lost so far; of other blocks 0 */
    uint32_t payload_crc;
} qn_trace_block;

/* A block is never packed better than this: who reads knows how much memory a file can ask for. */
#define QN_TRACE_MAX_RATIO 32u
#define QN_TRACE_MAX_ROWS  16384u /* of a block of events */

/* Columns of a block of events, in this order, each behind the other with its length before: kind (a byte a row), id
 * (signed difference to the row before), gap (signed: begin - end of the row before, of the lane), duration, waiting.
 */
enum { QN_TRACE_COLUMNS = 5 };

/* Rows of samples: what they are. */
enum { QN_TRACE_ROW_minor, QN_TRACE_ROW_major, QN_TRACE_ROW_preempted, QN_TRACE_ROW_lost, QN_TRACE_ROW_KINDS };

/* ---- pack.c ---- */
typedef struct qn_trace_packer qn_trace_packer;
qn_status qn__trace_packer_create(qn_trace_packer **out, qn_error *err);
void qn__trace_packer_destroy(qn_trace_packer *p);
/* The block's header and payload, appended to `out`. Of the payload the first bytes alone are made smaller, which takes
 * a fifth of the time where the others are times; n_first of `bytes`: all are. False: no memory. */
bool qn__trace_pack(qn_trace_packer *p, qn_trace_block *block, const void *raw, size_t bytes, size_t n_first,
                    qn_str *out);
void qn__trace_pack_file_header(qn_str *out);

/* ---- unpack.c ---- */
/* What stands at `at`, with its checksums compared. NULL: it is whole; else what is missing or wrong. */
const char *qn__trace_block_at(const uint8_t *file, uint64_t size, uint64_t at, qn_trace_block *out);
/* The raw bytes, into `to` of block->raw_bytes bytes. False: they are wrong, or *nomem. */
bool qn__trace_unpack(const qn_trace_block *block, const uint8_t *payload, uint8_t *to, bool *nomem);

/* Reading packed numbers; sticky like qn_cursor. */
typedef struct qn_trace_cursor {
    const uint8_t *p, *end;
    bool failed;
} qn_trace_cursor;
uint64_t qn__trace_get(qn_trace_cursor *c);
int64_t qn__trace_get_signed(qn_trace_cursor *c);
/* At most `max`, or it has failed. */
uint64_t qn__trace_get_up_to(qn_trace_cursor *c, uint64_t max);
/* Borrowed; *n its length. */
const char *qn__trace_get_text(qn_trace_cursor *c, size_t *n);

#endif
