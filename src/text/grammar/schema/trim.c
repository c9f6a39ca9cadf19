/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/trim.c -- takes away what leads to no end: members that no value satisfies, recursion
 * without a way out. Without it an output could come to a place where nothing can follow. */
#include "text/grammar/schema/schema.h"

typedef struct search {
    const qn_grammar *g;
    int32_t first;              /* the first state */
    uint8_t *good;              /* [n] whether the end of the rule can be reached */
    int32_t *into;              /* [n] edges that lead there, + 1 */
    int32_t *next;              /* [n_edges] of the same list */
    int32_t *calls, *next_call; /* by rule */
    int32_t *from;              /* [n_edges] */
    int32_t *stack, n_stack;
} search;

static void reach(search *s, int32_t state)
{
    if (s->good[state - s->first]) return;
    s->good[state - s->first] = 1;
    s->stack[s->n_stack++] = state;
}

static bool good(const search *s, int32_t state) { return s->good[state - s->first]; }

static void try_edge(search *s, int32_t e, int32_t first_edge)
{
    const qn_edge *edge = &s->g->edges[e];
    if (!good(s, edge->to)) return;
    if (edge->kind == QN_EDGE_call && !good(s, s->g->rules[edge->rule].begin)) return;
    reach(s, s->from[e - first_edge]);
}

void qn__emit_trim(qn_schema *c, int32_t rule, int32_t first_state, int32_t first_edge)
{
    qn_grammar *g = c->g;
    const size_t n = (size_t)(g->n_states - first_state) + 1, n_edges = (size_t)(g->n_edges - first_edge) + 1;
    search s = {.g = g,
                .first = first_state,
                .good = qn__arena_array(&c->arena, n, 1),
                .into = qn__arena_array(&c->arena, n, sizeof *s.into),
                .next = qn__arena_array(&c->arena, n_edges, sizeof *s.next),
                .calls = qn__arena_array(&c->arena, n, sizeof *s.calls),
                .next_call = qn__arena_array(&c->arena, n_edges, sizeof *s.next_call),
                .from = qn__arena_array(&c->arena, n_edges, sizeof *s.from),
                .stack = qn__arena_array(&c->arena, n, sizeof *s.stack)};
    if (!s.good || !s.into || !s.next || !s.calls || !s.next_call || !s.from || !s.stack) {
        c->status = QN_FAIL(c->err, nomem, "out of memory: a JSON schema");
        return;
    }
    for (int32_t state = first_state; state < g->n_states; state++)
        for (int32_t e = g->first[state]; e >= 0; e = g->edges[e].next) {
            const int32_t k = e - first_edge, to = g->edges[e].to - first_state;
            s.from[k] = state;
            s.next[k] = s.into[to];
            s.into[to] = e + 1;
            if (g->edges[e].kind != QN_EDGE_call) continue;
            const int32_t begin = g->rules[g->edges[e].rule].begin - first_state;
            s.next_call[k] = s.calls[begin];
            s.calls[begin] = e + 1;
        }
    for (int32_t r = 0; r < g->n_rules; r++)
        if (g->rules[r].end >= first_state) reach(&s, g->rules[r].end);
    while (s.n_stack > 0) {
        const int32_t at = s.stack[--s.n_stack] - first_state;
        for (int32_t e = s.into[at]; e; e = s.next[e - 1 - first_edge]) try_edge(&s, e - 1, first_edge);
        for (int32_t e = s.calls[at]; e; e = s.next_call[e - 1 - first_edge]) try_edge(&s, e - 1, first_edge);
    }
    for (int32_t state = first_state; state < g->n_states; state++) {
        int32_t *link = &g->first[state];
        while (*link >= 0) {
            const qn_edge *edge = &g->edges[*link];
            const bool kept =
                good(&s, edge->to) && (edge->kind != QN_EDGE_call || good(&s, g->rules[edge->rule].begin));
            if (kept)
                link = &g->edges[*link].next;
            else
                *link = edge->next;
        }
    }
    if (!good(&s, g->rules[rule].begin)) qn__schema_fail(c, QN_STATUS_invalid, "no value can satisfy it");
}
