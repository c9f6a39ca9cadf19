/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/regex.h -- sets of strings as automata over code points: patterns of ECMA-262 as far as they
 * are regular, lengths, and what of them is common or not among them. */
#ifndef QN_TEXT_GRAMMAR_SCHEMA_REGEX_H
#define QN_TEXT_GRAMMAR_SCHEMA_REGEX_H

#include "base/error.h"
#include "base/mem.h"

#define QN_MAX_CP           0x10FFFFu
#define QN_NFA_MAX_STATES   100000
#define QN_NFA_MAX_EDGES    200000
#define QN_NFA_MAX_SUBSETS  4000 /* states of what is not among a set */
#define QN_REGEX_MAX_NESTED 100

typedef struct qn_nfa_edge {
    uint32_t lo, hi; /* code points */
    int32_t to;
} qn_nfa_edge;

/* Begins in state 0. An automaton without states has no string. */
typedef struct qn_nfa {
    int32_t n_states;
    int32_t *begin;     /* [n_states + 1] of edges */
    qn_nfa_edge *edges; /* of a state ascending by lo, then to */
    uint8_t *accept;    /* [n_states] */
} qn_nfa;

/* All of these allocate in an arena; what they return lives there. limit beyond the bounds above. */

/* The strings in which the pattern is found: anywhere, but for its ^ and $. format with the character's number for
 * what is no pattern, unsupported for what is not regular (look-around, back-references) or not known. */
qn_status qn__regex_compile(qn_arena *arena, const char *pattern, size_t n, qn_nfa *out, qn_error *err);
/* max < 0: any number of characters. */
qn_status qn__nfa_length(qn_arena *arena, int64_t min, int64_t max, qn_nfa *out, qn_error *err);
/* None of these strings. */
qn_status qn__nfa_other_than(qn_arena *arena, const char *const *texts, const uint32_t *n_bytes, int32_t n, qn_nfa *out,
                             qn_error *err);
qn_status qn__nfa_both(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err);
/* Without states that go on as others do. */
qn_status qn__nfa_reduce(qn_arena *arena, qn_nfa *a, qn_error *err);
/* One of a, then one of b; one of a or of b. */
qn_status qn__nfa_then(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err);
qn_status qn__nfa_either(qn_arena *arena, const qn_nfa *a, const qn_nfa *b, qn_nfa *out, qn_error *err);
qn_status qn__nfa_not(qn_arena *arena, const qn_nfa *a, qn_nfa *out, qn_error *err);
/* Whether it takes a text of UTF-8; false for want of memory too, *nomem then. */
bool qn__nfa_accepts(const qn_nfa *a, const char *text, size_t n, bool *nomem);

/* Sets of code points as ranges; [n][2], ascending and apart once put in order. */
typedef struct qn_cp_ranges {
    uint32_t (*at)[2];
    int32_t n, cap;
} qn_cp_ranges;
bool qn__ranges_add(qn_arena *arena, qn_cp_ranges *r, uint32_t lo, uint32_t hi); /* false: no memory, or too many */
void qn__ranges_order(qn_cp_ranges *r);
bool qn__ranges_negate(qn_arena *arena, qn_cp_ranges *r);

/* ---- between regex.c, thompson.c and nfa.c ------------------------------------------------------------- */

typedef enum qn_rx_kind {
    QN_RX_empty,
    QN_RX_chars,
    QN_RX_all,
    QN_RX_any_of,
    QN_RX_repeat,
    QN_RX_begin,
    QN_RX_end
} qn_rx_kind;

/* A pattern as a tree. */
typedef struct qn_rx qn_rx;
struct qn_rx {
    qn_rx_kind kind;
    qn_cp_ranges chars;
    int32_t min, max;    /* repeat; max -1: no end */
    qn_rx *child, *last; /* first and last part */
    qn_rx *next;         /* of the same parent */
};
qn_status qn__rx_to_nfa(qn_arena *arena, const qn_rx *rx, qn_nfa *out, qn_error *err);

/* An automaton being made: edges in any order of states. */
typedef struct qn_nfa_builder {
    qn_arena *arena;
    int32_t n_states, cap_states;
    uint8_t *accept;
    struct {
        int32_t from;
        qn_nfa_edge e;
    } * edges;
    int32_t n_edges, cap_edges;
    bool too_many, nomem;
} qn_nfa_builder;
int32_t qn__nfa_add_state(qn_nfa_builder *b, bool accept); /* -1 after a failure */
void qn__nfa_add_edge(qn_nfa_builder *b, int32_t from, int32_t to, uint32_t lo, uint32_t hi);
/* In order, without states that lead nowhere. */
qn_status qn__nfa_finish(qn_nfa_builder *b, qn_nfa *out, qn_error *err);

#endif
