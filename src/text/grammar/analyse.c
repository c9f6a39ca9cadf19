/* SPDX-License-Identifier: MIT */
/* src/text/grammar/analyse.c -- what is found out about a grammar when it is complete, each in time linear in its
 * edges: which rules can be empty, which can end at all (what cannot is cut off, so that every output can be brought
 * to an end), which begin with which (none with itself: left recursion is refused), and which bytes it never tells
 * apart. */
#include "text/grammar/grammar.h"

#include <string.h>

/* Of the states from first_state on and the edges from first_edge on, which lead nowhere else. */
typedef struct analysis {
    qn_grammar *g;
    qn_arena arena;
    int32_t first_state, first_edge;
    int32_t *to_first, *to_next;     /* [n_states], [n_edges] edges by where they lead */
    int32_t *call_first, *call_next; /* [n_rules], [n_edges] calls by rule */
    int32_t *from;                   /* [n_edges] */
    int32_t *begins;                 /* [n_states] the first rule that begins there; -1 */
    int32_t *also;                   /* [n_rules] the next rule that begins at the same state; -1 */
    int32_t *work;                   /* [n_states] */
    bool *good;                      /* [n_states] */
    bool *rule_good;                 /* [n_rules] */
} analysis;

static bool prepare(analysis *a, qn_grammar *g, int32_t first_state, int32_t first_edge)
{
    const size_t rules = (size_t)g->n_rules + 1, states = (size_t)(g->n_states - first_state) + 1;
    const size_t edges = (size_t)(g->n_edges - first_edge) + 1;
    *a = (analysis){.g = g, .first_state = first_state, .first_edge = first_edge};
    qn__arena_init(&a->arena, 0);
    a->to_first = qn__arena_array(&a->arena, states, sizeof *a->to_first);
    a->to_next = qn__arena_array(&a->arena, edges, sizeof *a->to_next);
    a->call_first = qn__arena_array(&a->arena, rules, sizeof *a->call_first);
    a->call_next = qn__arena_array(&a->arena, edges, sizeof *a->call_next);
    a->from = qn__arena_array(&a->arena, edges, sizeof *a->from);
    a->begins = qn__arena_array(&a->arena, states, sizeof *a->begins);
    a->also = qn__arena_array(&a->arena, rules, sizeof *a->also);
    a->work = qn__arena_array(&a->arena, states, sizeof *a->work);
    a->good = qn__arena_array(&a->arena, states, sizeof *a->good);
    a->rule_good = qn__arena_array(&a->arena, rules, sizeof *a->rule_good);
    if (a->arena.failed) return false;
    memset(a->to_first, 0xFF, states * sizeof *a->to_first);
    memset(a->call_first, 0xFF, rules * sizeof *a->call_first);
    memset(a->begins, 0xFF, states * sizeof *a->begins);
    for (int32_t s = first_state; s < g->n_states; s++) {
        for (int32_t e = g->first[s]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            const int32_t to = edge->to - first_state;
            a->from[e - first_edge] = s;
            a->to_next[e - first_edge] = a->to_first[to];
            a->to_first[to] = e;
            if (edge->kind != QN_EDGE_call) continue;
            a->call_next[e - first_edge] = a->call_first[edge->rule];
            a->call_first[edge->rule] = e;
        }
    }
    for (int32_t r = 0; r < g->n_rules; r++) {
        const int32_t begin = g->rules[r].begin - first_state;
        if (begin < 0) continue;
        a->also[r] = a->begins[begin];
        a->begins[begin] = r;
    }
    return true;
}

static bool good(const analysis *a, int32_t state) { return a->good[state - a->first_state]; }

static void mark(analysis *a, int32_t state, int32_t *n)
{
    if (good(a, state)) return;
    a->good[state - a->first_state] = true;
    a->work[(*n)++] = state;
}

/* The states from which their rule's end can be reached; without bytes, or with them. */
static void reach_ends(analysis *a, bool with_bytes)
{
    const qn_grammar *g = a->g;
    int32_t n = 0;
    memset(a->good, 0, (size_t)(g->n_states - a->first_state) * sizeof *a->good);
    memset(a->rule_good, 0, (size_t)g->n_rules * sizeof *a->rule_good);
    for (int32_t r = 0; r < g->n_rules; r++)
        if (g->rules[r].end >= a->first_state) mark(a, g->rules[r].end, &n);
    while (n > 0) {
        const int32_t at = a->work[--n] - a->first_state;
        for (int32_t e = a->to_first[at]; e >= 0; e = a->to_next[e - a->first_edge]) {
            const qn_edge *edge = &g->edges[e];
            const bool passes = edge->kind == QN_EDGE_empty  ? true
                                : edge->kind == QN_EDGE_call ? a->rule_good[edge->rule]
                                                             : with_bytes;
            if (passes) mark(a, a->from[e - a->first_edge], &n);
        }
        for (int32_t r = a->begins[at]; r >= 0; r = a->also[r]) {
            a->rule_good[r] = true;
            for (int32_t e = a->call_first[r]; e >= 0; e = a->call_next[e - a->first_edge])
                if (good(a, g->edges[e].to)) mark(a, a->from[e - a->first_edge], &n);
        }
    }
}

/* ---- which rules begin with which ---------------------------------------------------------------------- */

/* The rules that are called before any byte; returns their number. */
static int32_t calls_at_begin(analysis *a, int32_t rule, int32_t *seen, int32_t *calls)
{
    const qn_grammar *g = a->g;
    int32_t n = 0, n_calls = 0;
    a->work[n++] = g->rules[rule].begin;
    seen[g->rules[rule].begin] = rule + 1;
    while (n > 0) {
        for (int32_t e = g->first[a->work[--n]]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            const bool call = edge->kind == QN_EDGE_call;
            if (call) calls[n_calls++] = edge->rule;
            if (!(edge->kind == QN_EDGE_empty || (call && g->rules[edge->rule].nullable))) continue;
            if (seen[edge->to] == rule + 1) continue;
            seen[edge->to] = rule + 1;
            a->work[n++] = edge->to;
        }
    }
    return n_calls;
}

/* Depth first; a rule's rank is below those of the rules that it begins with. Returns a rule that comes to itself. */
static int32_t rank_rules(analysis *a, int32_t *const *calls, const int32_t *n_calls, int32_t *path, int32_t *next)
{
    qn_grammar *g = a->g;
    uint8_t *color = qn__arena_array(&a->arena, (size_t)g->n_rules + 1, 1); /* 0 new, 1 open, 2 done */
    int32_t rank = g->n_rules;
    if (!color) return -1;
    for (int32_t r = 0; r < g->n_rules; r++) {
        int32_t n = 0;
        if (color[r]) continue;
        path[n++] = r;
        color[r] = 1;
        while (n > 0) {
            const int32_t at = path[n - 1];
            if (next[at] == n_calls[at]) {
                color[at] = 2;
                g->rules[at].rank = --rank;
                n--;
                continue;
            }
            const int32_t to = calls[at][next[at]++];
            if (color[to] == 1) return to;
            if (color[to] == 0) {
                color[to] = 1;
                path[n++] = to;
            }
        }
    }
    return -1;
}

static int32_t left_recursion(analysis *a)
{
    qn_grammar *g = a->g;
    const size_t rules = (size_t)g->n_rules + 1;
    int32_t *path = qn__arena_array(&a->arena, rules, sizeof *path),
            *next = qn__arena_array(&a->arena, rules, sizeof *next);
    int32_t *n_calls = qn__arena_array(&a->arena, rules, sizeof *n_calls);
    int32_t **calls = qn__arena_array(&a->arena, rules, sizeof *calls);
    int32_t *found = qn__arena_array(&a->arena, (size_t)g->n_edges + 1, sizeof *found);
    int32_t *seen = qn__arena_array(&a->arena, (size_t)g->n_states + 1, sizeof *seen);
    for (int32_t r = 0; r < g->n_rules && !a->arena.failed; r++) {
        n_calls[r] = calls_at_begin(a, r, seen, found);
        calls[r] = qn__arena_array(&a->arena, (size_t)n_calls[r] + 1, sizeof **calls);
        if (calls[r] && n_calls[r]) memcpy(calls[r], found, (size_t)n_calls[r] * sizeof **calls);
    }
    return a->arena.failed ? -1 : rank_rules(a, calls, n_calls, path, next);
}

/* ---- ends, dead ends, bytes ---------------------------------------------------------------------------- */

/* Cuts edges from which no end can be reached. */
static void prune(analysis *a)
{
    qn_grammar *g = a->g;
    for (int32_t s = a->first_state; s < g->n_states; s++) {
        int32_t *at = &g->first[s];
        while (*at >= 0) {
            const qn_edge *edge = &g->edges[*at];
            if (good(a, edge->to) && (edge->kind != QN_EDGE_call || a->rule_good[edge->rule]))
                at = &g->edges[*at].next;
            else
                *at = edge->next;
        }
    }
}

/* Marks ends of rules, and calls behind which nothing comes. */
static void mark_ends(qn_grammar *g)
{
    for (int32_t r = 0; r < g->n_rules; r++) g->is_end[g->rules[r].end] = 1;
    for (int32_t e = 0; e < g->n_edges; e++) {
        if (g->edges[e].kind != QN_EDGE_call) continue;
        int32_t at = g->edges[e].to;
        for (int i = 0; i < 8 && !g->is_end[at]; i++) { /* a chain of empty edges */
            const int32_t only = g->first[at];
            if (only < 0 || g->edges[only].next >= 0 || g->edges[only].kind != QN_EDGE_empty) break;
            at = g->edges[only].to;
        }
        g->edges[e].lo = g->is_end[at];
    }
}

/* Bytes between two borders of edges are one class. */
static void find_classes(qn_grammar *g)
{
    bool border[257] = {false};
    for (int32_t e = 0; e < g->n_edges; e++) {
        if (g->edges[e].kind != QN_EDGE_bytes) continue;
        border[g->edges[e].lo] = border[g->edges[e].hi + 1] = true;
    }
    int n = 0;
    for (int b = 0; b < 256; b++) {
        n += b > 0 && border[b];
        g->class_of[b] = (uint8_t)n;
    }
    g->n_classes = n + 1;
}

qn_status qn__grammar_trim(qn_grammar *g, int32_t rule, int32_t first_state, int32_t first_edge, bool *ends,
                           qn_error *err)
{
    analysis a;
    const bool ok = prepare(&a, g, first_state, first_edge);
    if (ok) {
        reach_ends(&a, true);
        prune(&a);
        *ends = a.rule_good[rule];
    }
    qn__arena_deinit(&a.arena);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory: a grammar of %d states", g->n_states);
}

qn_status qn__grammar_analyse(qn_grammar *g, int32_t *left_recursive, qn_error *err)
{
    analysis a;
    qn_status status = QN_OK;
    bool ends = false;
    *left_recursive = -1;
    g->is_end = qn__arena_array(&g->arena, (size_t)g->n_states + 1, 1);
    bool ok = prepare(&a, g, 0, 0) && g->is_end;
    if (ok) {
        reach_ends(&a, false);
        for (int32_t r = 0; r < g->n_rules; r++) g->rules[r].nullable = a.rule_good[r];
        *left_recursive = left_recursion(&a);
        ok = !a.arena.failed;
    }
    if (ok && *left_recursive < 0) {
        reach_ends(&a, true);
        ends = a.rule_good[g->root];
        prune(&a);
        mark_ends(g);
        find_classes(g);
    }
    qn__arena_deinit(&a.arena);
    if (!ok)
        status = QN_FAIL(err, nomem, "out of memory: a grammar of %d states", g->n_states);
    else if (*left_recursive < 0 && !ends)
        status = QN_FAIL(err, format, "grammar: nothing at all can be said by rule \"%.60s\": it never ends",
                         g->rules[g->root].name);
    return status;
}
