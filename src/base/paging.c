/* SPDX-License-Identifier: MIT */
/* src/base/paging.c -- see paging.h. */
#include "base/paging.h"

#define BLOCKS 128 /* a model has at least so many */

uint64_t qn__paging_least(uint64_t weights, uint64_t reserve)
{
    return reserve + (weights / 2 < QN_PAGING_WINDOW ? weights / 2 : QN_PAGING_WINDOW);
}

uint64_t qn__paging_block(uint64_t weights)
{
    uint64_t size = QN_PAGING_PAGE;
    while (size < QN_PAGING_BLOCK && size * BLOCKS < weights) size *= 2;
    return size;
}

/* ---- shares ---- */

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Little that is missing is read in small pieces: they take less room, for which less must be read. A block in 22 ms
 * is what a disk of 0.1 GB/s gives. */
static int32_t group_for(const qn_paging *x, uint64_t over)
{
    return over <= x->whole / 64 ? 1 : over <= x->whole / 32 ? QN_PAGING_GROUP / 2 : QN_PAGING_GROUP;
}

/* Twice what a node reads of what comes and goes, in whole groups: one is used while the next is read. What the window
 * takes is read too, so it depends on itself. */
static int32_t window_for(const qn_paging *x, uint64_t over, int32_t group)
{
    const int32_t least = 2 * group, most = 2 * x->greediest + 2 > least ? 2 * x->greediest + 2 : least;
    int32_t window = least;
    for (int i = 0; i < 3; i++) {
        const double read = (double)over + (double)window * (double)x->block, part = read / ((double)x->whole + 1);
        const double node = (part < 1 ? part : 1) * x->greediest / group; /* groups */
        const double wanted = 2.0 * group * (node > (double)(int64_t)node ? (double)(int64_t)node + 1 : node);
        window = wanted > most ? most : wanted < least ? least : (int32_t)wanted;
    }
    return window;
}

qn_paging_share qn__paging_share(const qn_paging *x)
{
    const uint64_t all = x->whole + x->experts + x->tables, spare = less(x->budget, x->rows);
    if (all + all / QN_PAGING_INDEX <= x->budget) return (qn_paging_share){.fits = true, .keep = x->budget};
    if (x->whole + x->experts <= spare) return (qn_paging_share){.keep = spare, .group = QN_PAGING_GROUP};
    qn_paging_share s = {.window_bytes = 2 * x->at_once, .group = QN_PAGING_GROUP};
    if (x->experts == 0 || x->whole + s.window_bytes > spare) {
        const uint64_t over = less(x->whole + s.window_bytes, spare);
        s.group = group_for(x, over);
        s.window = window_for(x, over, s.group);
        s.window_bytes += (uint64_t)s.window * x->block;
    }
    s.keep = less(spare, s.window_bytes);
    return s;
}

uint64_t qn__paging_rows(uint64_t bytes, uint64_t n_rows)
{
    const uint64_t row = n_rows ? bytes / n_rows : bytes;
    const uint64_t most = row < bytes / QN_PAGING_ROWS ? QN_PAGING_ROWS * (row + QN_PAGING_PAGE) : bytes;
    return most < bytes ? most : bytes;
}

uint64_t qn__paging_part(uint64_t room, const uint64_t *others, int n)
{
    uint64_t part = 0;
    for (int round = 0; round <= n; round++) { /* with each the part grows, or it stays */
        uint64_t left = room;
        int among = 1;
        for (int i = 0; i < n; i++) {
            if (others[i] <= part)
                left = less(left, others[i]);
            else
                among++;
        }
        if (left / (uint64_t)among <= part && round > 0) break;
        part = left / (uint64_t)among;
    }
    return part;
}

/* ---- experts ---- */

enum { HERE = 1, GOING = 2, FRESH = 4 };

int32_t qn__paging_slots(uint64_t room, uint64_t every, uint64_t all, int32_t n)
{
    if (room >= every || all == 0) return n;
    const double slots = (double)room * ((double)all / (double)every) / ((double)all / (double)n);
    return slots < (double)n ? (int32_t)slots : n;
}

void qn__paging_fill(qn_paging_experts *x)
{
    x->n_here = x->slots < x->n ? x->slots : x->n;
    for (int32_t i = 0; i < x->n; i++) x->here[i] = i < x->n_here ? HERE | FRESH : 0;
}

void qn__paging_choice_begin(qn_paging_experts *x)
{
    x->stamp++;
    if (x->chosen < (uint64_t)QN_PAGING_AGE * (uint64_t)x->n) return;
    for (int32_t i = 0; i < x->n; i++) x->count[i] /= 2;
    x->chosen = 0;
}

void qn__paging_choice_count(qn_paging_experts *x, int64_t expert)
{
    if (expert < 0 || expert >= x->n) return;
    x->count[expert]++;
    x->chosen++;
    x->seen[expert] = x->stamp;
}

/* The one of those here that was chosen least often and is not of this choice; -1: none. Of several the last, which is
 * the last to be read where nobody has asked for it. */
static int32_t coldest(const qn_paging_experts *x)
{
    int32_t best = -1;
    for (int32_t i = 0; i < x->n; i++)
        if ((x->here[i] & (HERE | GOING)) == HERE && x->seen[i] != x->stamp &&
            (best < 0 || x->count[i] <= x->count[best]))
            best = i;
    return best;
}

/* Room for one that is read now: it goes afterwards where there is none. */
static void admit(qn_paging_experts *x, int32_t id, qn_paging_tell tell, void *ctx)
{
    x->here[id] = HERE;
    if (++x->n_here <= x->slots) return;
    const int32_t out = coldest(x);
    x->n_here--;
    if (out < 0 || x->count[out] >= x->count[id]) {
        x->here[id] = HERE | GOING;
        return;
    }
    x->here[out] = 0;
    tell(ctx, out, true);
}

void qn__paging_choice_end(qn_paging_experts *x, qn_paging_tell tell, void *ctx)
{
    for (int32_t id = 0; id < x->n; id++) {
        if (x->seen[id] != x->stamp) continue;
        if (x->here[id]) {
            x->hits++;
            if (x->here[id] & FRESH) tell(ctx, id, false);
            x->here[id] &= (uint8_t)~FRESH;
            continue;
        }
        x->misses++;
        admit(x, id, tell, ctx);
        tell(ctx, id, false);
    }
}

void qn__paging_settle(qn_paging_experts *x, qn_paging_tell tell, void *ctx)
{
    for (int32_t i = 0; i < x->n; i++) {
        if (!(x->here[i] & GOING)) continue;
        x->here[i] = 0;
        tell(ctx, i, true);
    }
}
