/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/pointwise.c -- see pointwise.h. Where a source or the result is not dense numbers of a
 * kernel's kind, a run of it is converted in this thread's tile before or after the kernel; runs are small enough to
 * stay in L1. */
#include "cpu/op/pointwise/pointwise.h"

#include "cpu/op/pointwise/numbers.h"

/* bytes; a source: numbers, and raw elements of at most half their size */
enum { ROOM = 12 * QN_PW_RUN, ROOM_Y = 8 * QN_PW_RUN };
_Static_assert(QN_PW_MAX_SRC *ROOM + ROOM_Y <= QN_MM_TILE_BYTES, "a tile holds every source and the result");

typedef struct source {
    qn_walk walk;
    uint8_t *room;
    int64_t filled; /* of a constant: number of copies in `room` */
} source;

bool qn__pw_accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels; /* the shape rule has checked everything */
    (void)node;
    (void)err;
    return true;
}

int64_t qn__pw_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 4;
    return (qn_layout_numel(&node->layout) + QN_PW_RUN - 1) / QN_PW_RUN;
}

static const void *fetch(const qn_task *t, source *s, bool raw, int64_t at, int64_t n)
{
    const bool constant = qn__walk_constant(&s->walk);
    if (constant && s->filled >= n) return s->room;
    const void *x = raw ? qn__walk_raw(&s->walk, at, n, s->room) : qn__walk_load(t->kernels, &s->walk, at, n, s->room);
    if (constant && x == s->room) s->filled = n;
    return x;
}

void qn__pw_run(const qn_task *t, const qn_pw *op)
{
    const qn_dtype to = t->dst.dtype;
    const int64_t total = qn_layout_numel(&t->dst.layout), y_bytes = qn_dtype_get(to)->block_bytes;
    const qn_pw_fn fn = op->raw ? op->raw : op->fn[qn__number_of(t->src[0].dtype)];
    const bool direct = op->raw || op->truth || qn__number_is(to);
    uint8_t *tile = (uint8_t *)t->tile;
    source src[QN_PW_MAX_SRC];
    for (int i = 0; i < t->n_src; i++)
        src[i] = (source){qn__walk_stretched(&t->src[i], &t->dst.layout), tile + ROOM_Y + i * ROOM, 0};

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_PW_RUN, n = total - at < QN_PW_RUN ? total - at : QN_PW_RUN;
        const void *x[QN_PW_MAX_SRC] = {0};
        for (int i = 0; i < t->n_src; i++) x[i] = fetch(t, &src[i], op->raw != NULL, at, n);
        uint8_t *y = t->dst.data + at * y_bytes;
        fn(t, direct ? y : tile, x, n);
        if (!direct) qn__narrow_to(t->kernels, to, tile, n, y);
    }
}
