/* SPDX-License-Identifier: MIT */
/* src/engine/pager.h -- a model whose weights take more than the memory that there is for them
 * (qn_engine_options.memory). Nothing is copied and nothing locked: what fits stays in the page cache, the rest is read
 * ahead of its use by a thread of its own and dropped behind it, so that the kernel never has to choose what goes.
 *
 * The policy, which depends on the order of use alone and never on time:
 *  - Files are looked at in blocks (2 MiB, less for small models: qn_pager.block), at offsets that are multiples of it.
 *    A block is used by the nodes that read a weight in it, in the order of the first graph that runs.
 *  - Budget: `memory`, less what the library has allocated (caches, activations, graphs) and a reserve for the rest of
 *    the process; of several engines of a process, its part (pager_share.c). How much of it is kept and how much is a
 *    window for what comes and goes is worked out by base/paging.h, so that a trace can tell before. All fits: nothing
 *    is done.
 *  - Kept: what lies before the tensors; blocks that are used all over a step; weights outside layers, while they
 *    take no more than half of the budget. Of the others, in order of use and by groups, a group when what is kept is
 *    then at most its share of what has been looked at; at the end, from the last on, what there is room for.
 *  - Read: the others, in order of use, around and around, as far as the window goes beyond what has been dropped. A
 *    node that needs a block waits for it. Dropped: what no node from here to the end of the step uses, when the next
 *    node that needs a block begins.
 *  - Rows of a table (embeddings) are read by whoever looks them up, and the table is dropped after QN_PAGING_ROWS.
 *  - Experts: when other weights fit, what is left is divided among the matrices of experts by their size. The first
 *    experts have these places to begin with, and are read when nobody waits for anything else. Another is read when it
 *    is chosen, for all matrices of its layer at once. It stays in the place of the one that was chosen least often if
 *    that was less often than itself, else it is dropped behind. Counts are halved after QN_PAGING_AGE choices for each
 *    expert. */
#ifndef QN_ENGINE_PAGER_H
#define QN_ENGINE_PAGER_H

#include "base/file.h"
#include "base/paging.h"
#include "engine/engine.h"

/* ---- what engine.c and session.c see ---- */

/* An engine's weights are bound, or it is closed: others' parts are other ones, and those that don't compute give back
 * what is beyond them. leave may come without enter. */
void qn__pager_enter(qn_engine *e);
void qn__pager_leave(qn_engine *e);
/* As qn__turns_give, and what another engine that was opened meanwhile is to have is given back. */
void qn__pager_give_turn(qn_engine *e, qn_turn_taker *taker);
/* Of an engine whose weights are bound. */
qn_status qn__pager_create(qn_engine *e, qn_pager **out, qn_error *err);
void qn__pager_destroy(qn_pager *p);
/* Sessions came or went: the budget is another. In nobody's turn. */
void qn__pager_changed(qn_pager *p);
/* Around a run, in its turn; all three take NULL. begin allocates at the first run of a graph alone. */
qn_status qn__pager_begin(qn_pager *p, qn_exec *exec, qn_error *err);
bool qn__pager_works(const qn_pager *p);                               /* else `use` need not be called */
void qn__pager_use(void *pager, const qn_node *node, const void *ids); /* a qn_run.page */
void qn__pager_end(qn_pager *p, int32_t n_tokens);
void qn__pager_get(const qn_pager *p, qn_engine_memory *out);

/* ---- what the pager_*.c files share ---- */

typedef struct qn_page_block {
    int32_t part;
    int32_t first, last; /* nodes that use it; first -1: none */
    int32_t at;          /* in `order`; -1 where it is kept or not used */
    bool top;            /* of a weight outside layers */
    bool kept;
} qn_page_block;

/* An expert that has had a place from the start is read before it is chosen, or when it is. */
enum { QN_PAGE_UNREAD, QN_PAGE_READING, QN_PAGE_READ, QN_PAGE_ASKED };

/* A matrix of experts. */
typedef struct qn_page_experts {
    qn_paging_experts set;
    int32_t part;
    uint64_t offset, bytes; /* of the first expert; of one */
    uint64_t ticket;        /* of the last request */
    _Atomic uint8_t *early; /* [set.n] QN_PAGE_*: ASKED from its first request on, and for those without a place */
} qn_page_experts;

/* What a node with `paged` needs. */
typedef struct qn_page_use {
    int32_t need, done;       /* blocks of `order`: to be there; that nobody uses from here on */
    qn_page_experts *experts; /* NULL: none */
    const qn_node *ids;       /* root of their numbers */
    struct qn_page_use *next; /* of the same choice */
    bool leads;               /* the first of them */
} qn_page_use;

typedef struct qn_page_request {
    uint64_t offset, bytes;
    int32_t part;
    bool drop;
} qn_page_request;
#define QN_PAGER_RING 4096

struct qn_pager {
    qn_engine *engine;
    qn_arena arena; /* of the plan at hand */
    uint64_t block; /* bytes */
    _Atomic bool stale;
    bool active;                         /* not all fits */
    uint64_t number;                     /* of the plan: graphs are marked by it */
    uint64_t engines;                    /* qn__pager_engines when it was made */
    _Atomic uint64_t opened;             /* qn__pager_opened when what is beyond its part was given back last */
    const qn_map *const *maps;           /* [n_parts] */
    const qn_gguf_tensor *const *tables; /* looked up by rows */
    int32_t n_parts, n_tables, n_rows;
    int32_t *first_block; /* [n_parts + 1] */
    qn_page_block *blocks;
    int32_t n_blocks, n_order, n_keep, window, group;
    int32_t *order, *keep; /* blocks that are read again and again; those that stay */
    qn_page_experts *experts;
    int32_t n_experts;
    qn_page_use *unsettled; /* the last choice: what of it is dropped behind */
    uint64_t base;          /* of this step, in blocks since the plan was made */
    qn_engine_memory stats;
    /* between the one who computes and the thread that reads: counts of blocks of `order`, around and around */
    qn_worker *worker;
    bool running;
    _Atomic uint64_t goal, released, read;
    _Atomic uint64_t pushed, served; /* requests */
    qn_page_request *ring;
    uint64_t dropped, submitted; /* the thread's own */
    int32_t kept, filled;        /* of `keep`; of the experts of all matrices */
    _Atomic int bell, arrived;
    _Atomic bool asleep, waits, stop;
    _Atomic uint64_t read_bytes, dropped_bytes;
};

/* Where a weight of a graph lies in a file; NULL for others. */
const qn_gguf_tensor *qn__pager_tensor(const qn_pager *p, const qn_node *param);
qn_page_experts *qn__pager_experts(const qn_pager *p, const qn_gguf_tensor *t);
uint64_t qn__pager_block_bytes(const qn_pager *p, int32_t block); /* the last of a file is shorter */
/* Makes the plan out of the graph; the thread does not run. */
qn_status qn__pager_plan(qn_pager *p, const qn_graph *g, qn_error *err);
qn_status qn__pager_mark(qn_pager *p, qn_graph *g, qn_error *err);
/* Whether nothing but rows are looked up in this table. */
bool qn__pager_rows_alone(const qn_pager *p, const qn_gguf_tensor *table);
/* ---- pager_share.c ---- */
/* Grows when engines come and go. */
uint64_t qn__pager_engines(void);
uint64_t qn__pager_opened(void); /* the same, when they come */
/* Of the room for the weights of all engines of the process, this one's. */
uint64_t qn__pager_part(const qn_engine *e);
/* In nobody's run, and its turn: at most so many bytes of its files stay in memory, until it runs and makes its plan.
 */
void qn__pager_trim(qn_pager *p, uint64_t bytes);
/* ---- pager_read.c ---- */
qn_status qn__pager_start(qn_pager *p, qn_error *err);
void qn__pager_stop(qn_pager *p);
void qn__pager_ring(qn_pager *p); /* wakes it */
void qn__pager_push(qn_pager *p, bool drop, int32_t part, uint64_t offset, uint64_t bytes);
void qn__pager_wait(qn_pager *p, const _Atomic uint64_t *count, uint64_t least);
/* ---- pager_experts.c ---- */
void qn__pager_choose(qn_pager *p, qn_page_use *use, const qn_node *node, const void *ids);
void qn__pager_settle(qn_pager *p);

#endif
