/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/thompson.c -- trees of patterns to automata: first with empty edges (Thompson's way), then
 * without. What stands on the way of an empty edge is a state and whether a character was read before it, which ^ asks
 * for, and whether none may be read any more, which $ says. */
#include "text/grammar/schema/regex.h"

#include <string.h>

enum { EDGE_empty, EDGE_begin, EDGE_end, EDGE_chars };
enum { READ = 1, ENDED = 2, N_FLAGS = 4 };

#define MAX_STEPS 4000000 /* along empty edges: tens of milliseconds */

typedef struct edge {
    int32_t to, next;
    uint8_t kind;
    uint32_t lo, hi;
} edge;

typedef struct build {
    qn_arena *arena;
    int32_t *first;
    edge *edges;
    int32_t n_states, cap_states, n_edges, cap_edges;
    bool too_many, nomem;
} build;

static bool grow(build *b, void *array, int32_t n, int32_t *cap, size_t size, int32_t most)
{
    if (b->too_many || b->nomem) return false;
    if (n >= most) return b->too_many = true, false;
    b->nomem = !qn__arena_room(b->arena, array, n, cap, size);
    return !b->nomem;
}

static int32_t state(build *b)
{
    if (!grow(b, &b->first, b->n_states, &b->cap_states, sizeof *b->first, QN_NFA_MAX_STATES)) return -1;
    b->first[b->n_states] = -1;
    return b->n_states++;
}

static void add(build *b, int32_t from, edge e)
{
    if (from < 0 || e.to < 0) return;
    if (!grow(b, &b->edges, b->n_edges, &b->cap_edges, sizeof *b->edges, QN_NFA_MAX_EDGES)) return;
    e.next = b->first[from];
    b->first[from] = b->n_edges;
    b->edges[b->n_edges++] = e;
}
static void empty(build *b, int32_t from, int32_t to) { add(b, from, (edge){.to = to}); }

static void compile(build *b, const qn_rx *rx, int32_t from, int32_t to);

static void repeat(build *b, const qn_rx *rx, int32_t from, int32_t to)
{
    int32_t here = from, done = 0;
    for (; done < rx->min && !b->too_many && !b->nomem; done++) {
        const int32_t next = state(b);
        compile(b, rx->child, here, next);
        here = next;
    }
    if (rx->max < 0) {
        const int32_t loop = state(b), back = state(b);
        empty(b, here, loop);
        compile(b, rx->child, loop, back);
        empty(b, back, loop);
        empty(b, loop, to);
        return;
    }
    empty(b, here, to);
    for (; done < rx->max && !b->too_many && !b->nomem; done++) {
        const int32_t next = state(b);
        compile(b, rx->child, here, next);
        empty(b, next, to);
        here = next;
    }
}

static void compile(build *b, const qn_rx *rx, int32_t from, int32_t to)
{
    if (b->too_many || b->nomem) return;
    switch (rx->kind) {
    case QN_RX_empty: empty(b, from, to); return;
    case QN_RX_begin: add(b, from, (edge){.to = to, .kind = EDGE_begin}); return;
    case QN_RX_end: add(b, from, (edge){.to = to, .kind = EDGE_end}); return;
    case QN_RX_repeat: repeat(b, rx, from, to); return;
    case QN_RX_chars:
        for (int32_t i = 0; i < rx->chars.n; i++)
            add(b, from, (edge){.to = to, .kind = EDGE_chars, .lo = rx->chars.at[i][0], .hi = rx->chars.at[i][1]});
        return;
    case QN_RX_any_of:
        for (const qn_rx *part = rx->child; part; part = part->next) compile(b, part, from, to);
        return;
    case QN_RX_all: break;
    }
    int32_t here = from;
    for (const qn_rx *part = rx->child; part; part = part->next) {
        const int32_t next = part->next ? state(b) : to;
        compile(b, part, here, next);
        here = next;
    }
    if (!rx->child) empty(b, from, to);
}

/* ---- without empty edges ------------------------------------------------------------------------------- */

typedef struct walk {
    build *b;
    int32_t end;    /* the accepting state */
    int32_t *stack; /* [n_states * N_FLAGS] */
    int32_t *seen;  /* [n_states * N_FLAGS] the closure that came here last */
    int32_t *known; /* [n_states * N_FLAGS] state of the result + 1 */
    int32_t *queue; /* states of the result: what they stand for */
    int32_t n_queue, stamp;
    int64_t steps;
} walk;

static int32_t result_state(walk *w, qn_nfa_builder *out, int32_t at)
{
    if (!w->known[at]) {
        const int32_t made = qn__nfa_add_state(out, false);
        if (made < 0) return -1;
        w->known[at] = made + 1;
        w->queue[w->n_queue++] = at;
    }
    return w->known[at] - 1;
}

/* Everything that state `id` of the result can do: what lies behind empty edges. */
static void close_state(walk *w, qn_nfa_builder *out, int32_t id)
{
    int32_t n = 0;
    w->stamp++;
    w->stack[n++] = w->queue[id];
    w->seen[w->queue[id]] = w->stamp;
    while (n > 0 && !out->too_many && !out->nomem) {
        const int32_t at = w->stack[--n], flags = at % N_FLAGS;
        if (at / N_FLAGS == w->end) out->accept[id] = 1;
        for (int32_t i = w->b->first[at / N_FLAGS]; i >= 0; i = w->b->edges[i].next) {
            const edge *e = &w->b->edges[i];
            if (++w->steps > MAX_STEPS) out->too_many = true;
            int32_t then = flags;
            if (e->kind == EDGE_chars) {
                if (!(flags & ENDED))
                    qn__nfa_add_edge(out, id, result_state(w, out, e->to * N_FLAGS + READ), e->lo, e->hi);
                continue;
            }
            if (e->kind == EDGE_begin && (flags & READ)) continue;
            if (e->kind == EDGE_end) then |= ENDED;
            if (w->seen[e->to * N_FLAGS + then] == w->stamp) continue;
            w->seen[e->to * N_FLAGS + then] = w->stamp;
            w->stack[n++] = e->to * N_FLAGS + then;
        }
    }
}

qn_status qn__rx_to_nfa(qn_arena *arena, const qn_rx *rx, qn_nfa *out, qn_error *err)
{
    build b = {.arena = arena};
    qn_nfa_builder made = {.arena = arena};
    const int32_t begin = state(&b), first = state(&b), last = state(&b);
    /* found anywhere: any characters before and behind it */
    add(&b, begin, (edge){.to = begin, .kind = EDGE_chars, .hi = QN_MAX_CP});
    empty(&b, begin, first);
    compile(&b, rx, first, last);
    add(&b, last, (edge){.to = last, .kind = EDGE_chars, .hi = QN_MAX_CP});
    if (b.too_many) return QN_FAIL(err, limit, "the pattern has more than %d states", QN_NFA_MAX_STATES);
    const size_t n = (size_t)b.n_states * N_FLAGS + 1;
    walk w = {.b = &b,
              .end = last,
              .stack = qn__arena_array(arena, n, sizeof *w.stack),
              .seen = qn__arena_array(arena, n, sizeof *w.seen),
              .known = qn__arena_array(arena, n, sizeof *w.known),
              .queue = qn__arena_array(arena, n, sizeof *w.queue)};
    if (b.nomem || !w.stack || !w.seen || !w.known || !w.queue)
        return QN_FAIL(err, nomem, "out of memory: a pattern of %d states", b.n_states);
    result_state(&w, &made, begin * N_FLAGS);
    for (int32_t i = 0; i < w.n_queue && !made.too_many && !made.nomem; i++) close_state(&w, &made, i);
    return qn__nfa_finish(&made, out, err);
}
