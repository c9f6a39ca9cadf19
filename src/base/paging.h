/* SPDX-License-Identifier: MIT */
/* src/base/paging.h -- how memory that is too small for a model's weights is shared out, as arithmetic alone: what the
 * engine does (engine/pager.h) and what a trace says that it would do (trace/paging.c) is one sum. All sizes in bytes.
 */
#ifndef QN_BASE_PAGING_H
#define QN_BASE_PAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Beside what the library allocates: program, libraries, stacks, page tables; measured 10 to 17 MiB. */
#define QN_PAGING_RESERVE ((uint64_t)24 << 20)
/* Of it what is not there yet when a model is opened: what was free then (QN_MEMORY_AUTO) is less what is. */
#define QN_PAGING_LATER   ((uint64_t)12 << 20)
/* For reading weights at the least. */
#define QN_PAGING_WINDOW  ((uint64_t)16 << 20)
#define QN_PAGING_BLOCK   ((uint64_t)2 << 20) /* at most: what the kernel maps at once */
#define QN_PAGING_GROUP   4                   /* blocks: 8 MiB are read at 2.9 GB/s, one at 0.9 */
#define QN_PAGING_ROWS    512                 /* looked up in tables until they are dropped */
#define QN_PAGING_PAGE    4096
#define QN_PAGING_INDEX   256 /* page tables, and the page cache's own index: 16 bytes for each small page */
#define QN_PAGING_AGE     64

/* Of blocks, for so many bytes of weights: small enough that a small model has enough of them, large enough that the
 * disk is read well. */
uint64_t qn__paging_block(uint64_t weights);
/* What an engine needs beside what it allocates: the reserve, and a window for weights. */
uint64_t qn__paging_least(uint64_t weights, uint64_t reserve);

/* ---- shares ---- */

typedef struct qn_paging {
    uint64_t budget;           /* for weights */
    uint64_t block, whole;     /* of one; of all that a step uses */
    uint64_t tables, rows;     /* looked up by rows alone: all of them; QN_PAGING_ROWS rows */
    uint64_t experts, at_once; /* all of them; of a layer's choice for one token */
    int32_t greediest;         /* blocks that a node in a layer reads */
} qn_paging;

typedef struct qn_paging_share {
    bool fits;             /* all of it: nothing need be done */
    uint64_t keep;         /* for blocks that stay; experts get what they leave */
    uint64_t window_bytes; /* for what comes and goes */
    int32_t window;        /* of it blocks that are read ahead; 0: all blocks stay */
    int32_t group;         /* neighbours in the order of use that stay, or are read, together */
} qn_paging_share;

qn_paging_share qn__paging_share(const qn_paging *x);
/* Of a table. */
uint64_t qn__paging_rows(uint64_t bytes, uint64_t n_rows);
/* What one gets of a room that n others want so much of: equal parts, and what they don't need of theirs. */
uint64_t qn__paging_part(uint64_t room, const uint64_t *others, int n);

/* ---- experts of a matrix ---- */

typedef struct qn_paging_experts {
    int32_t n, slots; /* experts; that may stay */
    int32_t n_here, stamp;
    uint64_t chosen; /* since counts were halved */
    uint32_t *count; /* [n] */
    int32_t *seen;   /* [n] stamp of the last choice */
    uint8_t *here;   /* [n] whether; whether it goes when it is dropped behind; whether nobody has asked for it yet */
    uint64_t hits, misses;
} qn_paging_experts;

/* How many of n, which take `all`, may stay in a room that all matrices of `every` bytes share by their size. */
int32_t qn__paging_slots(uint64_t room, uint64_t every, uint64_t all, int32_t n);
/* Before the first choice: the first of them have the places. Who reads them before they are chosen saves the wait. */
void qn__paging_fill(qn_paging_experts *x);
/* A choice: begin, count each number of each token (others than 0 .. n-1 are left out), end. `end` tells which are
 * read, and which give their place up to one of them. One that has had a place from the start is told when it is chosen
 * first, and counts as a hit. */
typedef void (*qn_paging_tell)(void *ctx, int32_t expert, bool drop);
void qn__paging_choice_begin(qn_paging_experts *x);
void qn__paging_choice_count(qn_paging_experts *x, int64_t expert);
void qn__paging_choice_end(qn_paging_experts *x, qn_paging_tell tell, void *ctx);
/* When the choice has been computed: those that found no place go. */
void qn__paging_settle(qn_paging_experts *x, qn_paging_tell tell, void *ctx);

/* ---- measuring a disk ---- */

/* From one of n pieces of a file to the next, here and there: all of them come before one comes again. */
size_t qn__disk_step(size_t n);

#endif
