/* SPDX-License-Identifier: MIT */
/* src/trace/curves.c -- what would be read from disk if there were less memory, by policy: the steps' blocks in the
 * order of use, played back. */
#include "base/error.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

/* BLOCKS of all that is touched. */
enum { BLOCKS = 512, ACCESSES = 1 << 15, PAGE = 4096 };

const char *qn_trace_policy_name(int policy)
{
#define NAME(name, text) #name,
    static const char *const names[] = {QN_TRACE_POLICY_ROWS(NAME)};
#undef NAME
    return policy >= 0 && policy < QN_TRACE_POLICY_COUNT ? names[policy] : "?";
}

/* A block that a step uses, once. */
typedef struct access {
    uint64_t key; /* file and number, then the block's number among those that are used */
    float bytes;  /* of it that are touched, in whole pages */
    int32_t next; /* the block's next use; INT32_MAX: none */
} access;

typedef struct playing {
    QN_TRACE_LIST(access) use;
    QN_TRACE_LIST(int32_t) starts; /* of steps, in use */
    uint64_t block;
    size_t begin; /* of the step at hand */
    bool failed;
    int32_t n_blocks;
} playing;

static bool add(playing *p, uint64_t key, double bytes)
{
    access *last = p->use.n > p->begin ? &p->use.at[p->use.n - 1] : NULL;
    if (!last || last->key != key) {
        last = QN_TRACE_MORE(&p->use);
        p->failed = !last;
        if (!last) return false;
        last->key = key;
    }
    bytes = (double)(((uint64_t)bytes + PAGE - 1) / PAGE * PAGE);
    if ((double)last->bytes + bytes < (double)p->block) bytes += (double)last->bytes;
    last->bytes = (float)(bytes < (double)p->block ? bytes : (double)p->block);
    return true;
}

static bool use(void *ctx, const qn_trace_touch *touch)
{
    playing *p = ctx;
    const uint64_t first = touch->offset / p->block, last = (touch->offset + touch->bytes - 1) / p->block;
    if (last - first > BLOCKS) return true; /* more than all files together have: hostile */
    const double share = touch->touched / (double)touch->bytes;
    for (uint64_t b = first; b <= last; b++) {
        const uint64_t lo = b * p->block > touch->offset ? b * p->block : touch->offset;
        const uint64_t end = touch->offset + touch->bytes, hi = (b + 1) * p->block < end ? (b + 1) * p->block : end;
        if (!add(p, (uint64_t)(uint32_t)touch->file << 40 | (b & ((UINT64_C(1) << 40) - 1)), share * (double)(hi - lo)))
            return false;
    }
    return true;
}

/* ---- which steps, and their blocks ---- */

static uint64_t block_size(const qn_trace *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->spans.n; i++) bytes += t->spans.at[i].end - t->spans.at[i].begin;
    const uint64_t block = (bytes / BLOCKS + PAGE) / PAGE * PAGE;
    return block;
}

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Keys become 0 .. n_blocks-1; each use knows the next one. */
static bool number(playing *p)
{
    const size_t n = p->use.n;
    uint64_t *keys = qn__alloc((n + 1) * sizeof *keys);
    int32_t *next = qn__alloc((n + 1) * sizeof *next);
    const bool ok = keys && next;
    for (size_t i = 0; ok && i < n; i++) keys[i] = p->use.at[i].key;
    size_t kept = 0;
    if (ok && n) qsort(keys, n, sizeof *keys, by_key);
    for (size_t i = 0; ok && i < n; i++)
        if (kept == 0 || keys[i] != keys[kept - 1]) keys[kept++] = keys[i];
    for (size_t i = 0; ok && i < kept; i++) next[i] = INT32_MAX;
    for (size_t i = n; ok && i-- > 0;) {
        access *a = &p->use.at[i];
        a->key = (uint64_t)((uint64_t *)bsearch(&a->key, keys, kept, sizeof *keys, by_key) - keys);
        a->next = next[a->key];
        next[a->key] = (int32_t)i;
    }
    p->n_blocks = (int32_t)kept;
    qn__free(keys);
    qn__free(next);
    return ok;
}

/* The last steps of the phase, in order of time. */
static bool gather(const qn_trace *t, int phase, playing *p, qn_trace_curves *out)
{
    size_t per_step = 1, first = t->steps.n, n = 0;
    playing probe = {.block = p->block};
    for (size_t i = t->steps.n; i-- > 0 && n * per_step < ACCESSES;) {
        if (phase >= 0 && t->steps.at[i].phase != phase) continue;
        if (n == 0) {
            qn_trace_touches(&t->steps.at[i], use, &probe);
            per_step = probe.use.n + 1;
        }
        first = i;
        n++;
    }
    qn__free(probe.use.at);
    if (probe.failed) return false;
    for (size_t i = first; i < t->steps.n && !p->failed && p->use.n < 4 * ACCESSES; i++) {
        const qn_trace_step *s = &t->steps.at[i];
        if (phase >= 0 && s->phase != phase) continue;
        int32_t *start = QN_TRACE_MORE(&p->starts);
        if (!start) return false;
        *start = (int32_t)p->use.n;
        p->begin = p->use.n;
        qn_trace_touches(s, use, p);
        if (p->starts.n > 1) out->n_tokens += s->n_tokens;
    }
    out->n_steps = p->starts.n > 1 ? (int64_t)p->starts.n - 1 : 0;
    return !p->failed && number(p);
}

/* ---- policies: bytes read with room for so many blocks ---- */

/* A heap of the blocks that are kept: the one that goes first has the least rank. */
typedef struct heap {
    int32_t *at, *where; /* blocks; where a block stands, -1: it isn't kept */
    uint64_t *rank;      /* by block */
    int32_t n;
} heap;

static void place(heap *h, int32_t i, int32_t block)
{
    h->at[i] = block;
    h->where[block] = i;
}

static void sift(heap *h, int32_t i)
{
    const int32_t block = h->at[i];
    for (; i > 0 && h->rank[h->at[(i - 1) / 2]] > h->rank[block]; i = (i - 1) / 2) place(h, i, h->at[(i - 1) / 2]);
    for (int32_t k; (k = 2 * i + 1) < h->n; i = k) {
        if (k + 1 < h->n && h->rank[h->at[k + 1]] < h->rank[h->at[k]]) k++;
        if (h->rank[h->at[k]] >= h->rank[block]) break;
        place(h, i, h->at[k]);
    }
    place(h, i, block);
}

static void push(heap *h, int32_t block)
{
    place(h, h->n++, block);
    sift(h, h->n - 1);
}

static void pop(heap *h)
{
    h->where[h->at[0]] = -1;
    const int32_t last = h->at[--h->n];
    if (h->n > 0) {
        place(h, 0, last);
        sift(h, 0);
    }
}

/* What stands first goes first. Ranks of a use: */
static uint64_t rank_lru(const access *a, uint64_t time, uint64_t count)
{
    (void)a;
    (void)count;
    return time;
}
static uint64_t rank_lfu(const access *a, uint64_t time, uint64_t count)
{
    (void)a;
    return count << 32 | time;
}
static uint64_t rank_optimal(const access *a, uint64_t time, uint64_t count)
{
    (void)time;
    (void)count;
    return UINT64_MAX - (uint64_t)(uint32_t)a->next;
}
static uint64_t (*const ranks[QN_TRACE_POLICY_COUNT])(const access *, uint64_t, uint64_t) = {
    [QN_TRACE_POLICY_lru] = rank_lru, [QN_TRACE_POLICY_lfu] = rank_lfu, [QN_TRACE_POLICY_optimal] = rank_optimal};

static double play(const playing *p, heap *h, uint32_t *counts, qn_trace_policy policy, int32_t room)
{
    double read = 0;
    const size_t counted = p->starts.n > 1 ? (size_t)p->starts.at[1] : p->use.n;
    h->n = 0;
    for (int32_t i = 0; i < p->n_blocks; i++) h->where[i] = -1;
    memset(counts, 0, (size_t)p->n_blocks * sizeof *counts);
    for (size_t i = 0; i < p->use.n; i++) {
        const access *a = &p->use.at[i];
        const int32_t block = (int32_t)a->key;
        const uint64_t rank = ranks[policy](a, i, ++counts[block]);
        if (h->where[block] >= 0) {
            h->rank[block] = rank;
            sift(h, h->where[block]);
            continue;
        }
        if (i >= counted) read += (double)a->bytes;
        if (policy == QN_TRACE_POLICY_optimal && h->n == room && (room == 0 || rank < h->rank[h->at[0]])) continue;
        if (room == 0) continue;
        if (h->n == room) pop(h);
        h->rank[block] = rank;
        push(h, block);
    }
    return read;
}

/* Blocks in the order of their first use; the first `room` of them are always there. */
static double play_keep_first(const playing *p, const int32_t *order, int32_t room)
{
    double read = 0;
    for (size_t i = p->starts.n > 1 ? (size_t)p->starts.at[1] : p->use.n; i < p->use.n; i++)
        if (order[p->use.at[i].key] >= room) read += (double)p->use.at[i].bytes;
    return read;
}

static bool play_all(const playing *p, qn_trace_curves *out)
{
    const size_t n = (size_t)p->n_blocks + 1;
    heap h = {qn__alloc(n * 4), qn__alloc(n * 4), qn__alloc(n * 8), 0};
    uint32_t *counts = qn__alloc(n * sizeof *counts);
    int32_t *order = qn__alloc(n * sizeof *order), next = 0;
    const bool ok = h.at && h.where && h.rank && counts && order;
    if (ok) memset(order, -1, n * sizeof *order);
    for (size_t i = 0; ok && i < p->use.n; i++)
        if (order[p->use.at[i].key] < 0) order[p->use.at[i].key] = next++;
    for (int k = 0; ok && k < QN_TRACE_CURVE_POINTS; k++) {
        const int32_t room = (int32_t)((int64_t)p->n_blocks * k / (QN_TRACE_CURVE_POINTS - 1));
        out->memory[k] = (uint64_t)room * p->block;
        for (int policy = 0; policy < QN_TRACE_POLICY_COUNT; policy++)
            out->read[policy][k] =
                ranks[policy] ? play(p, &h, counts, (qn_trace_policy)policy, room) : play_keep_first(p, order, room);
    }
    qn__free(h.at);
    qn__free(h.where);
    qn__free(h.rank);
    qn__free(counts);
    qn__free(order);
    return ok;
}

qn_status qn_trace_get_curves(qn_trace *t, int phase, qn_trace_curves *out, qn_error *err)
{
    *out = (qn_trace_curves){0};
    bool ok = qn__trace_find_spans(t);
    playing p = {.block = ok ? block_size(t) : PAGE};
    ok = ok && gather(t, phase, &p, out);
    out->block_bytes = p.block;
    if (ok && out->n_steps > 0) {
        out->used_bytes = (uint64_t)p.n_blocks * p.block;
        for (size_t i = (size_t)p.starts.at[1]; i < p.use.n; i++) out->touched += (double)p.use.at[i].bytes;
        ok = play_all(&p, out);
    }
    qn__free(p.use.at);
    qn__free(p.starts.at);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory for the curves of a trace");
}

double qn_trace_curve_at(const qn_trace_curves *c, qn_trace_policy policy, double memory)
{
    const double *read = c->read[policy];
    int k = 0;
    while (k < QN_TRACE_CURVE_POINTS - 1 && (double)c->memory[k + 1] <= memory) k++;
    if (k == QN_TRACE_CURVE_POINTS - 1) return read[k];
    const double lo = (double)c->memory[k], hi = (double)c->memory[k + 1];
    return hi > lo && memory > lo ? read[k] + (read[k + 1] - read[k]) * (memory - lo) / (hi - lo) : read[k];
}
