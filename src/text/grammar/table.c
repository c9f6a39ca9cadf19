/* SPDX-License-Identifier: MIT */
/* src/text/grammar/table.c -- running a grammar: frames, items, configurations, and what a byte makes of them. */
#include "text/grammar/table.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS  (1 << 19)
#define MAX_SET    (1 << 15)           /* items of a configuration, returns of a frame */
#define MAX_EFFORT ((int64_t)20000000) /* 0.1 s: edges and items looked at in one call */
#define MAX_COPIED 8                   /* returns that a frame takes over from another */
#define ROW_EDGES  64                  /* with at most so many edges a configuration's whole row is made at once */

/* ---- growing arrays -------------------------------------------------------------------------------- */

static bool room(void *array, int32_t n, int32_t *cap, size_t size)
{
    void *old;
    if (n < *cap) return true;
    const int32_t more = *cap ? 2 * *cap : 64;
    memcpy(&old, array, sizeof old);
    void *p = qn__realloc(old, (size_t)more * size);
    if (!p) return false;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}

static bool fail(qn_table *t, qn_table_failure why)
{
    if (t->failure == QN_FINE) t->failure = why;
    return false;
}
/* Room for one more, or a failure. */
#define ROOM(t, array, n, cap) (room(&(array), n, &(cap), sizeof *(array)) || fail(t, QN_NO_MEMORY))

static size_t store_bytes(const qn_store *s)
{
    return s->row_bytes + (size_t)s->cap_frames * sizeof *s->frames + (size_t)s->cap_returns * sizeof *s->returns +
           (size_t)s->cap_items * sizeof *s->items + (size_t)s->cap_configs * sizeof *s->configs +
           (size_t)s->cap_members * sizeof *s->members +
           ((size_t)s->n_frame_slots + (size_t)s->n_item_slots + (size_t)s->n_config_slots) * sizeof *s->item_slots;
}

static uint32_t hash2(uint32_t a, uint32_t b)
{
    const uint32_t h = (a * 0x9E3779B1u ^ b) * 0x85EBCA6Bu;
    return h ^ h >> 15;
}

/* Twice the slots, all empty; whoever owns them puts the numbers in again. */
static bool more_slots(qn_table *t, int32_t **slots, int32_t *n_slots)
{
    const int32_t n = *n_slots ? 2 * *n_slots : 64;
    int32_t *p = qn__calloc((size_t)n, sizeof *p);
    if (!p) return fail(t, QN_NO_MEMORY);
    qn__free(*slots);
    *slots = p;
    *n_slots = n;
    return true;
}

/* ---- items ----------------------------------------------------------------------------------------- */

static uint32_t item_slot(const qn_store *s, int32_t state, int32_t frame)
{
    return hash2((uint32_t)state, (uint32_t)frame) & (uint32_t)(s->n_item_slots - 1);
}

static int32_t item_of(qn_table *t, int32_t state, int32_t frame)
{
    qn_store *s = &t->s;
    if (s->n_items >= s->n_item_slots) {
        if (!more_slots(t, &s->item_slots, &s->n_item_slots)) return -1;
        for (int32_t i = 0; i < s->n_items; i++) {
            int32_t *slot = &s->item_slots[item_slot(s, s->items[i].state, s->items[i].frame)];
            s->items[i].next = *slot;
            *slot = i + 1;
        }
    }
    const uint32_t at = item_slot(s, state, frame);
    for (int32_t i = s->item_slots[at]; i; i = s->items[i - 1].next)
        if (s->items[i - 1].state == state && s->items[i - 1].frame == frame) return i - 1;
    if (s->n_items >= MAX_ITEMS) return fail(t, QN_TABLE_FULL), -1;
    if (!ROOM(t, s->items, s->n_items, s->cap_items)) return -1;
    s->items[s->n_items] = (qn_item){.state = state, .frame = frame, .next = s->item_slots[at]};
    s->item_slots[at] = s->n_items + 1;
    return s->n_items++;
}

/* ---- frames ---------------------------------------------------------------------------------------- */

static int by_return(const void *x, const void *y)
{
    const qn_return *a = x, *b = y;
    return a->state != b->state ? (a->state > b->state) - (a->state < b->state)
                                : (a->frame > b->frame) - (a->frame < b->frame);
}

static bool found_return(qn_table *t, int32_t state, int32_t frame)
{
    if (t->n_found >= MAX_SET) return fail(t, QN_TOO_MUCH);
    if (!ROOM(t, t->found, t->n_found, t->cap_found)) return false;
    t->found[t->n_found++] = (qn_return){state, frame};
    return true;
}

/* The frame that t->found is. */
static int32_t frame_of_found(qn_table *t)
{
    qn_store *s = &t->s;
    int32_t n = 0, depth = 0;
    uint32_t hash = 0;
    if (t->n_found > 1) qsort(t->found, (size_t)t->n_found, sizeof *t->found, by_return);
    for (int32_t i = 0; i < t->n_found; i++)
        if (i == 0 || by_return(&t->found[n - 1], &t->found[i]) != 0) t->found[n++] = t->found[i];
    for (int32_t i = 0; i < n; i++) {
        hash = hash2(hash + (uint32_t)t->found[i].state, (uint32_t)t->found[i].frame);
        if (t->found[i].frame < 0) continue;
        const int32_t d = s->frames[t->found[i].frame].depth + 1;
        if (d > depth) depth = d;
    }
    if (depth > QN_GRAMMAR_MAX_DEPTH) return fail(t, QN_TOO_DEEP), -1;
    if (s->n_frames >= s->n_frame_slots) {
        if (!more_slots(t, &s->frame_slots, &s->n_frame_slots)) return -1;
        for (int32_t i = 0; i < s->n_frames; i++) {
            int32_t *slot = &s->frame_slots[s->frames[i].hash & (uint32_t)(s->n_frame_slots - 1)];
            s->frames[i].next = *slot;
            *slot = i + 1;
        }
    }
    int32_t *slot = &s->frame_slots[hash & (uint32_t)(s->n_frame_slots - 1)];
    for (int32_t i = *slot; i; i = s->frames[i - 1].next) {
        const qn_frame *f = &s->frames[i - 1];
        if (f->hash == hash && f->n == n && memcmp(s->returns + f->begin, t->found, (size_t)n * sizeof *t->found) == 0)
            return i - 1;
    }
    while (s->cap_returns < s->n_returns + n)
        if (!ROOM(t, s->returns, s->cap_returns, s->cap_returns)) return -1;
    if (!ROOM(t, s->frames, s->n_frames, s->cap_frames)) return -1;
    memcpy(s->returns + s->n_returns, t->found, (size_t)n * sizeof *t->found);
    s->frames[s->n_frames] = (qn_frame){.begin = s->n_returns, .n = n, .depth = depth, .hash = hash, .next = *slot};
    s->n_returns += n;
    *slot = s->n_frames + 1;
    return s->n_frames++;
}

/* ---- closures: everything that can be reached without a byte -------------------------------------------- */

static void push(qn_table *t, int32_t state, int32_t frame)
{
    const int32_t item = item_of(t, state, frame);
    if (item < 0 || t->s.items[item].stamp == t->stamp) return;
    t->s.items[item].stamp = t->stamp;
    if (ROOM(t, t->work, t->n_work, t->cap_work)) t->work[t->n_work++] = item;
}

/* A rule is called; it is entered when all its callers are known. */
static void call(qn_table *t, const qn_edge *edge, int32_t frame)
{
    const qn_rule *rule = &t->grammar->rules[edge->rule];
    if (!ROOM(t, t->calls, t->n_calls, t->cap_calls)) return;
    t->calls[t->n_calls] =
        (qn_call){.state = edge->lo ? QN_TAIL : edge->to, .frame = frame, .next = t->call_of[edge->rule]};
    t->call_of[edge->rule] = ++t->n_calls;
    t->open_ranks[rule->rank / 64] |= UINT64_C(1) << rule->rank % 64;
    if (rule->nullable) push(t, edge->to, frame);
}

static void drain(qn_table *t)
{
    const qn_grammar *g = t->grammar;
    while (t->n_work > 0 && t->failure == QN_FINE) {
        const int32_t id = t->work[--t->n_work];
        const int32_t state = t->s.items[id].state, frame = t->s.items[id].frame;
        bool reads = false;
        t->effort++;
        if (g->is_end[state]) {
            const qn_frame f = t->s.frames[frame];
            t->effort += f.n;
            for (int32_t i = f.begin; i < f.begin + f.n; i++) {
                const qn_return to = t->s.returns[i];
                if (to.state == QN_OUTPUT_END)
                    t->may_end = true;
                else
                    push(t, to.state, to.frame);
            }
            continue;
        }
        for (int32_t e = g->first[state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            t->effort++;
            if (edge->kind == QN_EDGE_empty)
                push(t, edge->to, frame);
            else if (edge->kind == QN_EDGE_call)
                call(t, edge, frame);
            else
                reads = true;
        }
        if (t->effort > MAX_EFFORT || (reads && t->n_set >= MAX_SET)) fail(t, QN_TOO_MUCH);
        if (reads && ROOM(t, t->set, t->n_set, t->cap_set)) t->set[t->n_set++] = id;
    }
}

/* What the callers of a rule want to go on with, as one frame. A caller that goes on with nothing of its own passes its
 * frame on: so right recursion does not nest. */
static int32_t frame_of_calls(qn_table *t, int32_t rule)
{
    const qn_store *s = &t->s;
    const qn_call *first = &t->calls[t->call_of[rule] - 1];
    int32_t c = t->call_of[rule];
    while (c && t->calls[c - 1].state == QN_TAIL && t->calls[c - 1].frame == first->frame) c = t->calls[c - 1].next;
    if (!c) return first->frame;
    t->n_found = 0;
    for (c = t->call_of[rule]; c; c = t->calls[c - 1].next) {
        const qn_call from = t->calls[c - 1];
        const qn_frame f = s->frames[from.frame];
        if (from.state != QN_TAIL) {
            if (!found_return(t, from.state, from.frame)) return -1;
            continue;
        }
        if (f.n > MAX_COPIED) { /* the end of a rule, any rule, goes on with what the frame says */
            if (!found_return(t, t->grammar->rules[0].end, from.frame)) return -1;
            continue;
        }
        for (int32_t i = f.begin; i < f.begin + f.n; i++)
            if (!found_return(t, s->returns[i].state, s->returns[i].frame)) return -1;
    }
    return frame_of_found(t);
}

static void enter(qn_table *t, int32_t rule)
{
    const int32_t frame = frame_of_calls(t, rule);
    t->call_of[rule] = 0;
    if (frame >= 0) push(t, t->grammar->rules[rule].begin, frame);
}

static void begin_set(qn_table *t)
{
    t->stamp++;
    t->n_set = t->n_work = t->n_calls = 0;
    t->may_end = false;
}

/* Rules are entered in order of rank: whoever calls a rule here has a lower one, or was drained before. */
static void close_set(qn_table *t)
{
    const int32_t n_rules = t->grammar->n_rules;
    drain(t);
    for (int32_t w = 0; w <= n_rules / 64 && t->n_calls; w++) {
        while (t->open_ranks[w] && t->failure == QN_FINE) {
            const int bit = __builtin_ctzll(t->open_ranks[w]);
            t->open_ranks[w] &= t->open_ranks[w] - 1;
            enter(t, t->rule_of_rank[64 * w + bit]);
            drain(t);
        }
    }
    if (t->failure == QN_FINE) return;
    memset(t->open_ranks, 0, ((size_t)n_rules / 64 + 1) * sizeof *t->open_ranks);
    memset(t->call_of, 0, (size_t)n_rules * sizeof *t->call_of);
}

/* ---- configurations ---------------------------------------------------------------------------------- */

static void sort_set(int32_t *a, int32_t n)
{
    for (int32_t gap = n / 2; gap > 0; gap /= 2) /* Shell's: sets are small */
        for (int32_t i = gap; i < n; i++) {
            const int32_t v = a[i];
            int32_t k = i;
            for (; k >= gap && a[k - gap] > v; k -= gap) a[k] = a[k - gap];
            a[k] = v;
        }
}

/* The configuration that t->set is; QN_DEAD when it is empty and cannot end, QN_UNKNOWN after a failure. */
static int32_t config_of_set(qn_table *t)
{
    qn_store *s = &t->s;
    if (t->failure != QN_FINE) return QN_UNKNOWN;
    if (t->n_set == 0 && !t->may_end) return QN_DEAD;
    sort_set(t->set, t->n_set);
    uint32_t hash = t->may_end;
    for (int32_t i = 0; i < t->n_set; i++) hash = hash2(hash, (uint32_t)t->set[i]);
    if (s->n_configs >= s->n_config_slots) {
        if (!more_slots(t, &s->config_slots, &s->n_config_slots)) return QN_UNKNOWN;
        for (int32_t i = 0; i < s->n_configs; i++) {
            int32_t *slot = &s->config_slots[s->configs[i].hash & (uint32_t)(s->n_config_slots - 1)];
            s->configs[i].next = *slot;
            *slot = i + 1;
        }
    }
    int32_t *slot = &s->config_slots[hash & (uint32_t)(s->n_config_slots - 1)];
    for (int32_t i = *slot; i; i = s->configs[i - 1].next) {
        const qn_config *c = &s->configs[i - 1];
        if (c->hash == hash && c->n == t->n_set && c->may_end == t->may_end &&
            (c->n == 0 || memcmp(s->members + c->begin, t->set, (size_t)c->n * sizeof *t->set) == 0))
            return i - 1;
    }
    if (store_bytes(s) > t->full_bytes + t->kept_bytes) return fail(t, QN_TABLE_FULL), QN_UNKNOWN;
    while (s->cap_members < s->n_members + t->n_set)
        if (!ROOM(t, s->members, s->cap_members, s->cap_members)) return QN_UNKNOWN;
    if (!ROOM(t, s->configs, s->n_configs, s->cap_configs)) return QN_UNKNOWN;
    if (t->n_set) memcpy(s->members + s->n_members, t->set, (size_t)t->n_set * sizeof *t->set);
    s->configs[s->n_configs] = (qn_config){
        .begin = s->n_members, .n = t->n_set, .hash = hash, .wide = QN_UNKNOWN, .may_end = t->may_end, .next = *slot};
    s->n_members += t->n_set;
    *slot = s->n_configs + 1;
    return s->n_configs++;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* With few edges: which of them each class of bytes takes decides where it leads. */
static void fill_row(qn_table *t, int32_t config, int32_t *to)
{
    const qn_grammar *g = t->grammar;
    const qn_config c = t->s.configs[config];
    uint64_t taken[256] = {0};
    int32_t target[ROW_EDGES], frame[ROW_EDGES];
    int n = 0;
    for (int32_t i = 0; i < c.n; i++) {
        const qn_item item = t->s.items[t->s.members[c.begin + i]];
        for (int32_t e = g->first[item.state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            if (edge->kind != QN_EDGE_bytes) continue;
            if (n == ROW_EDGES) return;
            for (int k = g->class_of[edge->lo]; k <= g->class_of[edge->hi]; k++) taken[k] |= UINT64_C(1) << n;
            target[n] = edge->to;
            frame[n++] = item.frame;
        }
    }
    for (int k = 0; k < g->n_classes; k++) {
        int same = 0;
        if (!taken[k]) to[k] = QN_DEAD;
        if (!taken[k]) continue;
        while (taken[same] != taken[k]) same++;
        if (same == k) {
            begin_set(t);
            for (uint64_t bits = taken[k]; bits; bits &= bits - 1) {
                const int e = __builtin_ctzll(bits);
                push(t, target[e], frame[e]);
            }
            close_set(t);
            to[k] = config_of_set(t);
            if (t->failure != QN_FINE) break; /* said when that byte is asked for */
        } else {
            to[k] = to[same];
        }
    }
    if (t->failure == QN_TOO_DEEP || t->failure == QN_TOO_MUCH) t->failure = QN_FINE;
}

int32_t qn__table_step_new(qn_table *t, int32_t config, int class)
{
    const qn_grammar *g = t->grammar;
    int32_t *to = t->s.configs[config].to;
    if (!to) {
        to = qn__alloc((size_t)g->n_classes * sizeof *to);
        if (!to) return fail(t, QN_NO_MEMORY), QN_UNKNOWN;
        for (int i = 0; i < g->n_classes; i++) to[i] = QN_UNKNOWN;
        t->s.configs[config].to = to;
        t->s.row_bytes += (size_t)g->n_classes * sizeof *to;
        fill_row(t, config, to);
        if (to[class] != QN_UNKNOWN || t->failure != QN_FINE) return to[class];
    }
    begin_set(t);
    const qn_config c = t->s.configs[config];
    for (int32_t i = 0; i < c.n && t->failure == QN_FINE; i++) {
        const qn_item item = t->s.items[t->s.members[c.begin + i]];
        for (int32_t e = g->first[item.state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            t->effort++;
            if (edge->kind == QN_EDGE_bytes && class >= g->class_of[edge->lo] && class <= g->class_of[edge->hi])
                push(t, edge->to, item.frame);
        }
    }
    close_set(t);
    return to[class] = config_of_set(t);
}

int32_t qn__table_step_token(qn_table *t, int32_t config, qn_token token, bool is_eog)
{
    const qn_grammar *g = t->grammar;
    const qn_config c = t->s.configs[config];
    if (!g->n_tokens) return QN_DEAD;
    begin_set(t);
    for (int32_t i = 0; i < c.n && t->failure == QN_FINE; i++) {
        const qn_item item = t->s.items[t->s.members[c.begin + i]];
        for (int32_t e = g->first[item.state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            const bool is = edge->kind == QN_EDGE_token, is_not = edge->kind == QN_EDGE_not_token;
            if ((is || (is_not && !is_eog)) && is == (t->tokens[edge->rule] == token)) push(t, edge->to, item.frame);
        }
    }
    close_set(t);
    return config_of_set(t);
}

/* Where bytes lo to hi all lead. */
static int32_t step_range(qn_table *t, int32_t config, int lo, int hi)
{
    const qn_grammar *g = t->grammar;
    int32_t to = QN_UNKNOWN;
    for (int k = g->class_of[lo]; k <= g->class_of[hi] && config >= 0; k++) {
        const int32_t *row = t->s.configs[config].to;
        const int32_t next = row && row[k] != QN_UNKNOWN ? row[k] : qn__table_step_new(t, config, k);
        if (next == QN_UNKNOWN || (to != QN_UNKNOWN && to != next)) return next == QN_UNKNOWN ? next : QN_MIXED;
        to = next;
    }
    return config < 0 ? config : to;
}

int32_t qn__table_step_wide(qn_table *t, int32_t config)
{
    /* the well-formed sequences of UTF-8 */
    static const uint8_t forms[][4][2] = {{{0xC2, 0xDF}, {0x80, 0xBF}},
                                          {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
                                          {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
                                          {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
                                          {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                          {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                          {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                          {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}};
    if (t->s.configs[config].wide != QN_UNKNOWN) return t->s.configs[config].wide;
    int32_t all = QN_UNKNOWN;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && all != QN_MIXED; i++) {
        int32_t at = config;
        for (int k = 0; k < 4 && forms[i][k][1]; k++) at = step_range(t, at, forms[i][k][0], forms[i][k][1]);
        if (at == QN_UNKNOWN) return QN_UNKNOWN;
        all = all == QN_UNKNOWN || all == at ? at : QN_MIXED;
    }
    return t->s.configs[config].wide = all;
}

int32_t qn__table_unite(qn_table *t, int32_t a, int32_t b)
{
    if (a < 0 || b < 0 || a == b) return a < 0 ? b : a;
    begin_set(t);
    for (int k = 0; k < 2; k++) {
        const qn_config c = t->s.configs[k ? b : a];
        t->may_end |= c.may_end;
        for (int32_t i = c.begin; i < c.begin + c.n; i++) {
            const int32_t item = t->s.members[i];
            if (t->s.items[item].stamp == t->stamp) continue;
            t->s.items[item].stamp = t->stamp;
            if (!ROOM(t, t->set, t->n_set, t->cap_set)) return QN_UNKNOWN;
            t->set[t->n_set++] = item;
        }
    }
    return config_of_set(t);
}

/* ---- starting anew ------------------------------------------------------------------------------------- */

static bool to_beginning(qn_table *t)
{
    t->n_found = 0;
    const int32_t bottom = found_return(t, QN_OUTPUT_END, -1) ? frame_of_found(t) : -1;
    if (bottom < 0) return false;
    begin_set(t);
    push(t, t->grammar->rules[t->grammar->root].begin, bottom);
    close_set(t);
    t->start = config_of_set(t);
    return t->start >= 0;
}

/* Frames that these configurations need, from `old`; kept[i] is the new number of frame i. Frames refer to lower
 * numbers only. */
static bool keep_frames(qn_table *t, const qn_store *old, const int32_t *configs, int32_t n, int32_t *kept)
{
    enum { NEEDED = -2 };
    memset(kept, 0xFF, (size_t)old->n_frames * sizeof *kept);
    for (int32_t i = 0; i < n; i++) {
        const qn_config *c = &old->configs[configs[i]];
        for (int32_t k = 0; k < c->n; k++) kept[old->items[old->members[c->begin + k]].frame] = NEEDED;
    }
    for (int32_t i = old->n_frames - 1; i >= 0; i--) {
        const qn_frame *f = &old->frames[i];
        for (int32_t k = 0; kept[i] == NEEDED && k < f->n; k++)
            if (old->returns[f->begin + k].frame >= 0) kept[old->returns[f->begin + k].frame] = NEEDED;
    }
    for (int32_t i = 0; i < old->n_frames; i++) {
        const qn_frame *f = &old->frames[i];
        if (kept[i] != NEEDED) continue;
        t->n_found = 0;
        for (int32_t k = 0; k < f->n; k++) {
            const qn_return r = old->returns[f->begin + k];
            if (!found_return(t, r.state, r.frame < 0 ? -1 : kept[r.frame])) return false;
        }
        if ((kept[i] = frame_of_found(t)) < 0) return false;
    }
    return true;
}

bool qn__table_keep(qn_table *t, qn_store *old, int32_t *configs, int32_t n)
{
    int32_t *kept = old ? qn__alloc(((size_t)old->n_frames + 1) * sizeof *kept) : NULL;
    bool ok = to_beginning(t);
    if (!old) return ok;
    ok = ok && (kept || fail(t, QN_NO_MEMORY)) && keep_frames(t, old, configs, n, kept);
    for (int32_t i = 0; i < n && ok; i++) {
        const qn_config *c = &old->configs[configs[i]];
        begin_set(t);
        t->may_end = c->may_end;
        for (int32_t k = 0; k < c->n && ok; k++) {
            const qn_item item = old->items[old->members[c->begin + k]];
            const int32_t now = item_of(t, item.state, kept[item.frame]);
            ok = now >= 0 && ROOM(t, t->set, t->n_set, t->cap_set);
            if (ok) t->set[t->n_set++] = now;
        }
        configs[i] = ok ? config_of_set(t) : QN_UNKNOWN;
        ok = configs[i] >= 0;
    }
    qn__free(kept);
    return ok;
}

size_t qn__table_bytes(const qn_table *t) { return store_bytes(&t->s); }

bool qn__table_names(const qn_table *t, qn_token token)
{
    for (int32_t i = 0; i < t->grammar->n_tokens; i++)
        if (t->tokens[i] == token) return true;
    return false;
}
