/* SPDX-License-Identifier: MIT */
/* src/text/grammar/build.c -- states and edges, and characters as bytes. */
#include "text/grammar/grammar.h"
#include "text/utf8.h"

#include <string.h>

static bool grow(qn_grammar *g, void *array, int32_t n, int32_t *cap, size_t size)
{
    if (!g->failed && !qn__arena_room(&g->arena, array, n, cap, size)) g->failed = true;
    return !g->failed;
}

qn_grammar *qn__grammar_new(qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_grammar *g = qn__arena_alloc(&arena, sizeof *g);
    if (g) {
        g->arena = arena;
        qn__mutex_init(&g->tables.mutex);
        return g;
    }
    qn__arena_deinit(&arena);
    QN_FAIL_NOMEM(err, sizeof *g);
    return NULL;
}

void qn_grammar_destroy(qn_grammar *g)
{
    if (!g) return;
    qn__grammar_drop_tables(g);
    qn__mutex_deinit(&g->tables.mutex);
    qn_arena arena = g->arena;
    qn__arena_deinit(&arena);
}

qn_status qn__grammar_failure(const qn_grammar *g, qn_error *err)
{
    if (!g->failed) return QN_OK;
    if (g->n_states >= QN_GRAMMAR_MAX_STATES)
        return QN_FAIL(err, limit, "the grammar has more than %d states: repetitions are too many",
                       QN_GRAMMAR_MAX_STATES);
    if (g->n_rules >= QN_GRAMMAR_MAX_RULES)
        return QN_FAIL(err, limit, "the grammar has more than %d rules", QN_GRAMMAR_MAX_RULES - 1);
    if (g->n_tokens >= QN_GRAMMAR_MAX_TOKENS)
        return QN_FAIL(err, limit, "the grammar names %d tokens or more", QN_GRAMMAR_MAX_TOKENS);
    return QN_FAIL(err, nomem, "out of memory: a grammar of %d states", g->n_states);
}

int32_t qn__grammar_state(qn_grammar *g)
{
    if (g->n_states >= QN_GRAMMAR_MAX_STATES) g->failed = true;
    if (!grow(g, &g->first, g->n_states, &g->cap_states, sizeof *g->first)) return -1;
    g->first[g->n_states] = -1;
    return g->n_states++;
}

void qn__grammar_edge(qn_grammar *g, int32_t from, qn_edge edge)
{
    if (from < 0 || edge.to < 0 || !grow(g, &g->edges, g->n_edges, &g->cap_edges, sizeof *g->edges)) return;
    edge.next = g->first[from];
    g->first[from] = g->n_edges;
    g->edges[g->n_edges++] = edge;
}

static uint32_t hash_of(const char *name, size_t n) { return (uint32_t)qn__hash(QN_HASH_INIT, name, n); }

int32_t qn__grammar_new_rule(qn_grammar *g, const char *name, size_t n, uint32_t at)
{
    if (g->n_rules == QN_GRAMMAR_MAX_RULES) g->failed = true;
    if (!grow(g, &g->rules, g->n_rules, &g->cap_rules, sizeof *g->rules)) return -1;
    char *copy = qn__arena_strndup(&g->arena, name, n);
    if (!copy) {
        g->failed = true;
        return -1;
    }
    g->rules[g->n_rules] = (qn_rule){.name = copy, .hash = hash_of(name, n), .at = at, .begin = -1, .end = -1};
    return g->n_rules++;
}

int32_t qn__grammar_rule(qn_grammar *g, const char *name, size_t n, uint32_t at)
{
    const uint32_t hash = hash_of(name, n);
    for (int32_t i = 0; i < g->n_rules; i++)
        if (g->rules[i].hash == hash && strlen(g->rules[i].name) == n && memcmp(g->rules[i].name, name, n) == 0)
            return i;
    return qn__grammar_new_rule(g, name, n, at);
}

int32_t qn__grammar_token(qn_grammar *g, const char *name, size_t n, qn_token id)
{
    for (int32_t i = 0; i < g->n_tokens; i++) {
        const qn_grammar_token *t = &g->tokens[i];
        if (name ? t->name && strlen(t->name) == n && memcmp(t->name, name, n) == 0 : !t->name && t->id == id) return i;
    }
    if (g->n_tokens == QN_GRAMMAR_MAX_TOKENS) g->failed = true;
    if (!grow(g, &g->tokens, g->n_tokens, &g->cap_tokens, sizeof *g->tokens)) return -1;
    const char *copy = name ? qn__arena_strndup(&g->arena, name, n) : NULL;
    if (name && !copy) {
        g->failed = true;
        return -1;
    }
    g->tokens[g->n_tokens] = (qn_grammar_token){.name = copy, .id = id};
    return g->n_tokens++;
}

/* ---- characters ---------------------------------------------------------------------------------- */

static void byte_edge(qn_grammar *g, int32_t from, int32_t to, uint8_t lo, uint8_t hi)
{
    qn__grammar_edge(g, from, (qn_edge){.kind = QN_EDGE_bytes, .lo = lo, .hi = hi, .to = to});
}

/* Sequences of n bytes between a and b, where all but the first have 6 free bits. */
static void sequences(qn_grammar *g, int32_t from, int32_t to, const uint8_t *a, const uint8_t *b, int n)
{
    if (n == 1) {
        byte_edge(g, from, to, a[0], b[0]);
        return;
    }
    static const uint8_t low[3] = {0x80, 0x80, 0x80}, high[3] = {0xBF, 0xBF, 0xBF};
    const bool starts = memcmp(a + 1, low, (size_t)n - 1) == 0, ends = memcmp(b + 1, high, (size_t)n - 1) == 0;
    if (a[0] == b[0]) {
        const int32_t mid = qn__grammar_state(g);
        byte_edge(g, from, mid, a[0], a[0]);
        sequences(g, mid, to, a + 1, b + 1, n - 1);
        return;
    }
    const uint8_t lo = starts ? a[0] : a[0] + 1, hi = ends ? b[0] : b[0] - 1;
    if (!starts) {
        const int32_t mid = qn__grammar_state(g);
        byte_edge(g, from, mid, a[0], a[0]);
        sequences(g, mid, to, a + 1, high, n - 1);
    }
    if (lo <= hi) {
        const int32_t mid = qn__grammar_state(g);
        byte_edge(g, from, mid, lo, hi);
        sequences(g, mid, to, low, high, n - 1);
    }
    if (!ends) {
        const int32_t mid = qn__grammar_state(g);
        byte_edge(g, from, mid, b[0], b[0]);
        sequences(g, mid, to, low, b + 1, n - 1);
    }
}

void qn__grammar_chars(qn_grammar *g, int32_t from, int32_t to, uint32_t lo, uint32_t hi)
{
    /* each length of UTF-8, without the surrogates */
    static const uint32_t parts[][2] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t a = lo > parts[i][0] ? lo : parts[i][0], b = hi < parts[i][1] ? hi : parts[i][1];
        char first[4], last[4];
        if (a > b) continue;
        const int n = qn__utf8_encode(a, first);
        qn__utf8_encode(b, last);
        sequences(g, from, to, (const uint8_t *)first, (const uint8_t *)last, n);
    }
}
