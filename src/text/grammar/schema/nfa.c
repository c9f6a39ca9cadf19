/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/nfa.c -- automata without empty edges: made, brought in order, combined. */
#include "text/grammar/schema/regex.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANGES 20000

/* ---- ranges -------------------------------------------------------------------------------------------- */

bool qn__ranges_add(qn_arena *arena, qn_cp_ranges *r, uint32_t lo, uint32_t hi)
{
    if (r->n >= MAX_RANGES) return false;
    if (!qn__arena_room(arena, &r->at, r->n, &r->cap, sizeof *r->at)) return false;
    r->at[r->n][0] = lo;
    r->at[r->n++][1] = hi;
    return true;
}

static int by_begin(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

void qn__ranges_order(qn_cp_ranges *r)
{
    int32_t n = 0;
    if (r->n < 2) return;
    qsort(r->at, (size_t)r->n, sizeof *r->at, by_begin);
    for (int32_t i = 1; i < r->n; i++) {
        if (r->at[i][0] <= r->at[n][1] + 1) {
            if (r->at[i][1] > r->at[n][1]) r->at[n][1] = r->at[i][1];
        } else {
            n++;
            memcpy(r->at[n], r->at[i], sizeof r->at[n]);
        }
    }
    r->n = n + 1;
}

bool qn__ranges_negate(qn_arena *arena, qn_cp_ranges *r)
{
    qn_cp_ranges others = {0};
    uint32_t next = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (r->at[i][0] > next && !qn__ranges_add(arena, &others, next, r->at[i][0] - 1)) return false;
        next = r->at[i][1] + 1;
    }
    if (next <= QN_MAX_CP && !qn__ranges_add(arena, &others, next, QN_MAX_CP)) return false;
    *r = others;
    return true;
}

/* ---- making one ------------------------------------------------------------------------------------------ */

static bool grow(qn_nfa_builder *b, void *array, int32_t n, int32_t *cap, size_t size, int32_t most)
{
    if (b->too_many || b->nomem) return false;
    if (n >= most) return b->too_many = true, false;
    b->nomem = !qn__arena_room(b->arena, array, n, cap, size);
    return !b->nomem;
}

int32_t qn__nfa_add_state(qn_nfa_builder *b, bool accept)
{
    if (!grow(b, &b->accept, b->n_states, &b->cap_states, 1, QN_NFA_MAX_STATES)) return -1;
    b->accept[b->n_states] = accept;
    return b->n_states++;
}

void qn__nfa_add_edge(qn_nfa_builder *b, int32_t from, int32_t to, uint32_t lo, uint32_t hi)
{
    if (from < 0 || to < 0) return;
    if (!grow(b, &b->edges, b->n_edges, &b->cap_edges, sizeof *b->edges, QN_NFA_MAX_EDGES)) return;
    b->edges[b->n_edges].from = from;
    b->edges[b->n_edges++].e = (qn_nfa_edge){lo, hi, to};
}

static int by_target(const void *x, const void *y)
{
    const qn_nfa_edge *a = x, *b = y;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

static int by_chars(const void *x, const void *y)
{
    const qn_nfa_edge *a = x, *b = y;
    if (a->lo != b->lo) return a->lo < b->lo ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

/* Joins what lies side by side and leads to the same state. Returns how many edges are left. */
static int32_t join_edges(qn_nfa_edge *e, int32_t n)
{
    int32_t kept = 0;
    if (n < 2) return n;
    qsort(e, (size_t)n, sizeof *e, by_target);
    for (int32_t i = 1; i < n; i++) {
        if (e[i].to == e[kept].to && e[i].lo <= e[kept].hi + 1) {
            if (e[i].hi > e[kept].hi) e[kept].hi = e[i].hi;
        } else {
            e[++kept] = e[i];
        }
    }
    qsort(e, (size_t)kept + 1, sizeof *e, by_chars);
    return kept + 1;
}

/* Marks the states from which an accepting one is reached. */
static bool mark_useful(const qn_nfa_builder *b, uint8_t *useful)
{
    const size_t n = (size_t)b->n_states;
    int32_t *first = qn__arena_array(b->arena, n + 1, sizeof *first), *stack;
    int32_t *next = qn__arena_array(b->arena, (size_t)b->n_edges + 1, sizeof *next), n_stack = 0;
    stack = qn__arena_array(b->arena, n + 1, sizeof *stack);
    if (!first || !next || !stack) return false;
    for (int32_t i = 0; i < b->n_edges; i++) {
        next[i] = first[b->edges[i].e.to];
        first[b->edges[i].e.to] = i + 1;
    }
    for (int32_t s = 0; s < b->n_states; s++)
        if (b->accept[s]) useful[stack[n_stack++] = s] = 1;
    while (n_stack > 0) {
        const int32_t s = stack[--n_stack];
        for (int32_t i = first[s]; i; i = next[i - 1]) {
            const int32_t from = b->edges[i - 1].from;
            if (!useful[from]) useful[stack[n_stack++] = from] = 1;
        }
    }
    return true;
}

qn_status qn__nfa_finish(qn_nfa_builder *b, qn_nfa *out, qn_error *err)
{
    const size_t n = (size_t)b->n_states;
    if (b->too_many) return QN_FAIL(err, limit, "more than %d states or %d edges", QN_NFA_MAX_STATES, QN_NFA_MAX_EDGES);
    uint8_t *useful = b->nomem ? NULL : qn__arena_array(b->arena, n + 1, 1);
    int32_t *count = useful ? qn__arena_array(b->arena, n + 2, sizeof *count) : NULL;
    int32_t *number = count ? qn__arena_array(b->arena, n + 1, sizeof *number) : NULL;
    qn_nfa_edge *edges = number ? qn__arena_array(b->arena, (size_t)b->n_edges + 1, sizeof *edges) : NULL;
    if (!edges || !mark_useful(b, useful))
        return QN_FAIL(err, nomem, "out of memory: %d states of a pattern", b->n_states);
    if (b->n_states == 0 || !useful[0]) {
        *out = (qn_nfa){0};
        return QN_OK;
    }
    int32_t n_useful = 0;
    for (int32_t s = 0; s < b->n_states; s++)
        if (useful[s]) number[s] = n_useful++;
    /* edges in order of their states, by counting */
    for (int32_t i = 0; i < b->n_edges; i++)
        if (useful[b->edges[i].e.to]) count[number[b->edges[i].from] + 1]++;
    for (int32_t s = 0; s < n_useful; s++) count[s + 1] += count[s];
    for (int32_t i = 0; i < b->n_edges; i++) {
        qn_nfa_edge e = b->edges[i].e;
        if (!useful[e.to]) continue;
        e.to = number[e.to];
        edges[count[number[b->edges[i].from]]++] = e;
    }
    /* count[s] is now where the edges of s end */
    int32_t at = 0, kept = 0;
    for (int32_t s = 0; s < n_useful; s++) {
        const int32_t end = count[s], left = join_edges(edges + at, end - at);
        memmove(edges + kept, edges + at, (size_t)left * sizeof *edges);
        count[s] = kept;
        kept += left;
        at = end;
    }
    count[n_useful] = kept;
    for (int32_t s = 0; s < b->n_states; s++)
        if (useful[s]) b->accept[number[s]] = b->accept[s];
    *out = (qn_nfa){.n_states = n_useful, .begin = count, .edges = edges, .accept = b->accept};
    return QN_OK;
}

qn_status qn__nfa_length(qn_arena *arena, int64_t min, int64_t max, qn_nfa *out, qn_error *err)
{
    qn_nfa_builder b = {.arena = arena};
    const int64_t n = max < 0 ? min : max;
    if (max >= 0 && max < min) return *out = (qn_nfa){0}, QN_OK;
    for (int64_t i = 0; i <= n && !b.too_many && !b.nomem; i++) {
        qn__nfa_add_state(&b, i >= min);
        if (i > 0) qn__nfa_add_edge(&b, (int32_t)i - 1, (int32_t)i, 0, QN_MAX_CP);
    }
    if (max < 0) qn__nfa_add_edge(&b, (int32_t)n, (int32_t)n, 0, QN_MAX_CP);
    return qn__nfa_finish(&b, out, err);
}

qn_status qn__nfa_other_than(qn_arena *arena, const char *const *texts, const uint32_t *n_bytes, int32_t n, qn_nfa *out,
                             qn_error *err)
{
    /* a trie, whose missing branches lead to `rest`; then: are what branches have been met, by state */
    typedef struct branch {
        uint32_t cp;
        int32_t to, next; /* next + 1 */
    } branch;
    size_t total = 0;
    for (int32_t i = 0; i < n; i++) total += n_bytes[i];
    qn_nfa_builder b = {.arena = arena};
    branch *branches = qn__arena_array(arena, total + 1, sizeof *branches);
    int32_t *first = qn__arena_array(arena, total + 3, sizeof *first), n_branches = 0;
    if (!branches || !first) return QN_FAIL(err, nomem, "out of memory: %d names", n);
    qn__nfa_add_state(&b, true);
    const int32_t rest = qn__nfa_add_state(&b, true);
    qn__nfa_add_edge(&b, rest, rest, 0, QN_MAX_CP);
    for (int32_t i = 0; i < n && !b.too_many && !b.nomem; i++) {
        int32_t at = 0;
        for (uint32_t k = 0; k < n_bytes[i] && at >= 0;) {
            uint32_t cp;
            int32_t hit;
            k += (uint32_t)qn__utf8_decode(texts[i] + k, n_bytes[i] - k, &cp);
            for (hit = first[at]; hit && branches[hit - 1].cp != cp; hit = branches[hit - 1].next) {}
            if (!hit) {
                branches[n_branches] = (branch){cp, qn__nfa_add_state(&b, true), first[at]};
                hit = first[at] = ++n_branches;
            }
            at = branches[hit - 1].to;
        }
        if (at >= 0 && b.accept) b.accept[at] = 0;
    }
    for (int32_t s = 0; s < b.n_states && !b.too_many && !b.nomem; s++) {
        qn_cp_ranges r = {0};
        if (s == rest) continue;
        for (int32_t i = first[s]; i; i = branches[i - 1].next) {
            const uint32_t cp = branches[i - 1].cp;
            qn__nfa_add_edge(&b, s, branches[i - 1].to, cp, cp);
            if (!qn__ranges_add(arena, &r, cp, cp)) b.too_many = true;
        }
        qn__ranges_order(&r);
        if (!qn__ranges_negate(arena, &r)) b.nomem = true;
        for (int32_t i = 0; i < r.n; i++) qn__nfa_add_edge(&b, s, rest, r.at[i][0], r.at[i][1]);
    }
    return qn__nfa_finish(&b, out, err);
}

/* ---- combining ------------------------------------------------------------------------------------------- */

typedef struct pair_slots {
    int32_t (*pairs)[2]; /* of states, by state of the result */
    int32_t *slots;      /* state + 1 */
    uint32_t n_slots;
    int32_t cap;
} pair_slots;

static uint32_t hash2(uint32_t a, uint32_t b) { return ((a * 0x9E3779B1u ^ b) * 0x85EBCA6Bu) >> 7; }

static int32_t pair_state(pair_slots *p, qn_nfa_builder *b, int32_t x, int32_t y, bool accept)
{
    if ((uint32_t)b->n_states * 2 >= p->n_slots) {
        const uint32_t n = p->n_slots ? 4 * p->n_slots : 256;
        int32_t *slots = qn__arena_array(b->arena, n, sizeof *slots);
        int32_t(*pairs)[2] = qn__arena_array(b->arena, n / 2 + 1, sizeof *pairs);
        if (!slots || !pairs) return b->nomem = true, -1;
        if (b->n_states) memcpy(pairs, p->pairs, (size_t)b->n_states * sizeof *pairs);
        for (int32_t s = 0; s < b->n_states; s++) {
            uint32_t at = hash2((uint32_t)pairs[s][0], (uint32_t)pairs[s][1]) & (n - 1);
            while (slots[at]) at = (at + 1) & (n - 1);
            slots[at] = s + 1;
        }
        *p = (pair_slots){pairs, slots, n, 0};
    }
    uint32_t at = hash2((uint32_t)x, (uint32_t)y) & (p->n_slots - 1);
    for (; p->slots[at]; at = (at + 1) & (p->n_slots - 1)) {
        const int32_t s = p->slots[at] - 1;
        if (p->pairs[s][0] == x && p->pairs[s][1] == y) return s;
    }
    const int32_t s = qn__nfa_add_state(b, accept);
    if (s < 0) return -1;
    p->pairs[s][0] = x;
    p->pairs[s][1] = y;
    p->slots[at] = s + 1;
    return s;
}

qn_status qn__nfa_both(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err)
{
    qn_nfa_builder made = {.arena = arena};
    pair_slots known = {0};
    int64_t steps = 0;
    if (a->n_states == 0 || b->n_states == 0) return *out = (qn_nfa){0}, QN_OK;
    pair_state(&known, &made, 0, 0, a->accept[0] && b->accept[0]);
    for (int32_t s = 0; s < made.n_states && !made.too_many && !made.nomem; s++) {
        const int32_t x = known.pairs[s][0], y = known.pairs[s][1];
        for (int32_t i = a->begin[x]; i < a->begin[x + 1]; i++)
            for (int32_t k = b->begin[y]; k < b->begin[y + 1]; k++) {
                const qn_nfa_edge *e = &a->edges[i], *f = &b->edges[k];
                const uint32_t lo = e->lo > f->lo ? e->lo : f->lo, hi = e->hi < f->hi ? e->hi : f->hi;
                if (f->lo > e->hi) break;
                if (++steps > 20 * QN_NFA_MAX_EDGES) made.too_many = true;
                if (lo > hi || made.too_many) continue;
                qn__nfa_add_edge(&made, s,
                                 pair_state(&known, &made, e->to, f->to, a->accept[e->to] && b->accept[f->to]), lo, hi);
            }
    }
    return qn__nfa_finish(&made, out, err);
}

/* The states and edges of `a`, from state `base` on. */
static void add_all(qn_nfa_builder *b, const qn_nfa *a, int32_t base)
{
    for (int32_t s = 0; s < a->n_states; s++) qn__nfa_add_state(b, a->accept[s]);
    for (int32_t s = 0; s < a->n_states; s++)
        for (int32_t i = a->begin[s]; i < a->begin[s + 1]; i++)
            qn__nfa_add_edge(b, base + s, base + a->edges[i].to, a->edges[i].lo, a->edges[i].hi);
}

/* `from` goes on as the first state of `a` does. */
static void add_first(qn_nfa_builder *b, int32_t from, const qn_nfa *a, int32_t base)
{
    for (int32_t i = a->begin[0]; i < a->begin[1]; i++)
        qn__nfa_add_edge(b, from, base + a->edges[i].to, a->edges[i].lo, a->edges[i].hi);
}

qn_status qn__nfa_then(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err)
{
    qn_nfa_builder made = {.arena = arena};
    if (a->n_states == 0 || b->n_states == 0) return *out = (qn_nfa){0}, QN_OK;
    add_all(&made, a, 0);
    add_all(&made, b, a->n_states);
    for (int32_t s = 0; s < a->n_states && !made.too_many && !made.nomem; s++) {
        if (!a->accept[s]) continue;
        made.accept[s] = b->accept[0];
        add_first(&made, s, b, a->n_states);
    }
    return qn__nfa_finish(&made, out, err);
}

qn_status qn__nfa_either(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err)
{
    qn_nfa_builder made = {.arena = arena};
    if (a->n_states == 0 || b->n_states == 0) return *out = a->n_states ? *a : *b, QN_OK;
    qn__nfa_add_state(&made, a->accept[0] || b->accept[0]);
    add_all(&made, a, 1);
    add_all(&made, b, 1 + a->n_states);
    add_first(&made, 0, a, 1);
    add_first(&made, 0, b, 1 + a->n_states);
    return qn__nfa_finish(&made, out, err);
}

static bool goes_on_alike(const qn_nfa *a, int32_t x, int32_t y)
{
    const int32_t n = a->begin[x + 1] - a->begin[x];
    return a->accept[x] == a->accept[y] && n == a->begin[y + 1] - a->begin[y] &&
           (n == 0 || memcmp(a->edges + a->begin[x], a->edges + a->begin[y], (size_t)n * sizeof *a->edges) == 0);
}

/* For each state the first that goes on alike; how many are others. */
static int32_t find_alike(const qn_nfa *a, int32_t *first, int32_t *slots, uint32_t n_slots)
{
    int32_t n_alike = 0;
    memset(slots, 0, n_slots * sizeof *slots);
    for (int32_t s = 0; s < a->n_states; s++) {
        const size_t n = (size_t)(a->begin[s + 1] - a->begin[s]);
        uint32_t at =
            (uint32_t)qn__hash(QN_HASH_INIT + a->accept[s], n ? a->edges + a->begin[s] : NULL, n * sizeof *a->edges) &
            (n_slots - 1);
        while (slots[at] && !goes_on_alike(a, slots[at] - 1, s)) at = (at + 1) & (n_slots - 1);
        if (!slots[at]) slots[at] = s + 1;
        first[s] = slots[at] - 1;
        n_alike += first[s] != s;
    }
    return n_alike;
}

qn_status qn__nfa_reduce(qn_arena *arena, qn_nfa *a, qn_error *err)
{
    uint32_t n_slots = 16;
    while (n_slots < 2 * (uint32_t)a->n_states) n_slots *= 2;
    int32_t *first = qn__arena_array(arena, (size_t)a->n_states + 1, sizeof *first);
    int32_t *slots = qn__arena_array(arena, n_slots, sizeof *slots);
    if (!first || !slots) return QN_FAIL(err, nomem, "out of memory: %d states of a pattern", a->n_states);
    while (a->n_states && find_alike(a, first, slots, n_slots)) {
        qn_nfa_builder made = {.arena = arena};
        for (int32_t s = 0; s < a->n_states; s++) qn__nfa_add_state(&made, a->accept[s] && first[s] == s);
        for (int32_t s = 0; s < a->n_states; s++)
            for (int32_t i = a->begin[s]; first[s] == s && i < a->begin[s + 1]; i++)
                qn__nfa_add_edge(&made, s, first[a->edges[i].to], a->edges[i].lo, a->edges[i].hi);
        QN_TRY(qn__nfa_finish(&made, a, err));
    }
    return QN_OK;
}

/* Sets of states, for what is not accepted. */
typedef struct subsets {
    int32_t *members;
    int32_t n_members, cap_members;
    int32_t begin[QN_NFA_MAX_SUBSETS + 1];
    uint32_t hash[QN_NFA_MAX_SUBSETS];
    int32_t *work; /* [n_states] the set being made, ascending */
    int32_t n_work;
    int32_t *seen; /* [n_states] */
    int32_t stamp;
    int64_t steps;
} subsets;

static int by_number(const void *x, const void *y)
{
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static int32_t subset_state(subsets *t, qn_nfa_builder *b, const qn_nfa *a)
{
    uint32_t hash = 1;
    bool accept = true;
    qsort(t->work, (size_t)t->n_work, sizeof *t->work, by_number);
    for (int32_t i = 0; i < t->n_work; i++) {
        hash = hash2(hash, (uint32_t)t->work[i]) + (hash << 5);
        accept = accept && !a->accept[t->work[i]];
    }
    for (int32_t s = 0; s < b->n_states; s++)
        if (t->hash[s] == hash && t->begin[s + 1] - t->begin[s] == t->n_work &&
            (t->n_work == 0 || memcmp(t->members + t->begin[s], t->work, (size_t)t->n_work * sizeof *t->work) == 0))
            return s;
    if (b->n_states == QN_NFA_MAX_SUBSETS) b->too_many = true;
    while (!b->too_many && !b->nomem && t->cap_members < t->n_members + t->n_work) {
        const int32_t cap = t->cap_members ? 2 * t->cap_members : 256;
        int32_t *more = qn__arena_array(b->arena, (size_t)cap, sizeof *more);
        if (!more)
            b->nomem = true;
        else if (t->n_members)
            memcpy(more, t->members, (size_t)t->n_members * sizeof *more);
        if (cap > QN_NFA_MAX_EDGES) b->too_many = true;
        if (more) t->members = more, t->cap_members = cap;
    }
    const int32_t s = qn__nfa_add_state(b, accept);
    if (s < 0) return -1;
    if (t->n_work) memcpy(t->members + t->n_members, t->work, (size_t)t->n_work * sizeof *t->work);
    t->hash[s] = hash;
    t->begin[s] = t->n_members;
    t->n_members += t->n_work;
    t->begin[s + 1] = t->n_members;
    return s;
}

qn_status qn__nfa_not(qn_arena *arena, const qn_nfa *a, qn_nfa *out, qn_error *err)
{
    qn_nfa_builder made = {.arena = arena};
    subsets *t = qn__arena_alloc(arena, sizeof *t);
    if (t) t->work = qn__arena_array(arena, (size_t)a->n_states + 1, sizeof *t->work);
    if (t) t->seen = qn__arena_array(arena, (size_t)a->n_states + 1, sizeof *t->seen);
    if (!t || !t->work || !t->seen) return QN_FAIL(err, nomem, "out of memory: a pattern of %d states", a->n_states);
    if (a->n_states > 0) t->work[t->n_work++] = 0;
    subset_state(t, &made, a);
    for (int32_t s = 0; s < made.n_states && !made.too_many && !made.nomem; s++) {
        for (uint32_t lo = 0; lo <= QN_MAX_CP && !made.too_many && !made.nomem;) {
            uint32_t hi = QN_MAX_CP; /* up to here all characters are alike */
            t->n_work = 0;
            t->stamp++;
            for (int32_t m = t->begin[s]; m < t->begin[s + 1]; m++) {
                const int32_t x = t->members[m];
                for (int32_t i = a->begin[x]; i < a->begin[x + 1]; i++) {
                    const qn_nfa_edge *e = &a->edges[i];
                    if (++t->steps > 20 * QN_NFA_MAX_EDGES) made.too_many = true;
                    if (e->lo > lo) {
                        if (e->lo - 1 < hi) hi = e->lo - 1;
                        break;
                    }
                    if (e->hi < lo) continue;
                    if (e->hi < hi) hi = e->hi;
                    if (t->seen[e->to] != t->stamp) t->work[t->n_work++] = e->to;
                    t->seen[e->to] = t->stamp;
                }
            }
            qn__nfa_add_edge(&made, s, subset_state(t, &made, a), lo, hi);
            lo = hi + 1;
        }
    }
    return qn__nfa_finish(&made, out, err);
}

bool qn__nfa_accepts(const qn_nfa *a, const char *text, size_t n, bool *nomem)
{
    bool found = false;
    *nomem = false;
    if (a->n_states == 0) return false;
    const size_t words = ((size_t)a->n_states + 63) / 64;
    uint64_t *at = qn__calloc(2 * words, sizeof *at), *now = at;
    if (!at) return *nomem = true, false;
    uint64_t *next = at + words;
    now[0] = 1;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += (size_t)qn__utf8_decode(text + i, n - i, &cp);
        memset(next, 0, words * sizeof *next);
        for (int32_t s = 0; s < a->n_states; s++) {
            if (!now[s / 64]) {
                s |= 63;
                continue;
            }
            if (!(now[s / 64] >> s % 64 & 1)) continue;
            for (int32_t k = a->begin[s]; k < a->begin[s + 1] && a->edges[k].lo <= cp; k++)
                if (cp <= a->edges[k].hi) next[a->edges[k].to / 64] |= UINT64_C(1) << a->edges[k].to % 64;
        }
        uint64_t *swap = now;
        now = next;
        next = swap;
    }
    for (int32_t s = 0; s < a->n_states; s++) found |= (now[s / 64] >> s % 64 & 1) && a->accept[s];
    qn__free(at);
    return found;
}
