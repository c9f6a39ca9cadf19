/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/strings.c -- strings between quotes: automata over code points as automata over the bytes
 * that JSON writes for them; and values that are given literally. */
#include "text/grammar/schema/schema.h"
#include "text/utf8.h"

#include <stdlib.h>

void qn__emit_quote(qn_schema *c, int32_t from, int32_t to)
{
    const qn_dialect *d = c->dialect;
    if (!d || d->token == QN_TOKEN_NONE) {
        if (d && !*d->quote)
            qn__emit_empty(c, from, to);
        else
            qn__emit_word(c, from, to, d ? d->quote : "\"");
        return;
    }
    const int32_t token = qn__grammar_token(c->g, NULL, 0, d->token);
    if (token >= 0) qn__grammar_edge(c->g, from, (qn_edge){.kind = QN_EDGE_token, .to = to, .rule = token});
}

void qn__emit_null(qn_schema *c, int32_t from, int32_t to)
{
    qn__emit_word(c, from, to, c->dialect ? c->dialect->null : "null");
}

void qn__emit_bool(qn_schema *c, bool b, int32_t from, int32_t to)
{
    const qn_dialect *d = c->dialect;
    qn__emit_word(c, from, to, b ? (d ? d->yes : "true") : (d ? d->no : "false"));
}

bool qn__is_bare_key(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)text[i], letter = byte | 0x20;
        const bool good = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' ||
                          byte == '-' || byte == '.' || byte >= 0x80;
        if (!good) return false;
    }
    return n > 0;
}

void qn__emit_key(qn_schema *c, const char *text, size_t n, int32_t from, int32_t to)
{
    if (!c->dialect || !c->dialect->bare_keys || !qn__is_bare_key(text, n)) {
        qn__emit_text(c, text, n, from, to);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t next = i + 1 < n ? qn__emit_state(c) : to;
        qn__emit_bytes(c, from, next, (uint8_t)text[i], (uint8_t)text[i]);
        from = next;
    }
}

void qn__emit_text(qn_schema *c, const char *text, size_t n, int32_t from, int32_t to)
{
    int32_t here = qn__emit_state(c);
    qn__emit_quote(c, from, here);
    for (size_t i = 0; i < n && !c->g->failed;) {
        uint32_t cp;
        const int32_t next = qn__emit_state(c);
        i += (size_t)qn__utf8_decode(text + i, n - i, &cp);
        qn__emit_char(c, here, next, cp);
        here = next;
    }
    qn__emit_quote(c, here, to);
}

static int by_target(const void *x, const void *y)
{
    const qn_nfa_edge *a = x, *b = y;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

void qn__emit_nfa(qn_schema *c, const qn_nfa *nfa, bool quotes, int32_t from, int32_t to)
{
    int32_t *states = qn__schema_alloc(c, (size_t)nfa->n_states + 1, sizeof *states), most = 0;
    if (!states || nfa->n_states == 0) return;
    for (int32_t s = 0; s < nfa->n_states; s++) {
        states[s] = qn__emit_state(c);
        if (nfa->begin[s + 1] - nfa->begin[s] > most) most = nfa->begin[s + 1] - nfa->begin[s];
    }
    qn_nfa_edge *edges = qn__schema_alloc(c, (size_t)most + 1, sizeof *edges);
    qn_cp_ranges set = {.at = qn__schema_alloc(c, (size_t)most + 1, sizeof *set.at), .cap = most + 1};
    if (quotes)
        qn__emit_quote(c, from, states[0]);
    else
        qn__emit_empty(c, from, states[0]);
    for (int32_t s = 0; s < nfa->n_states && qn__schema_going(c) && !c->g->failed; s++) {
        const int32_t n = nfa->begin[s + 1] - nfa->begin[s];
        if (n) memcpy(edges, nfa->edges + nfa->begin[s], (size_t)n * sizeof *edges);
        if (n) qsort(edges, (size_t)n, sizeof *edges, by_target);
        for (int32_t i = 0; i < n;) {
            const int32_t next = edges[i].to;
            for (set.n = 0; i < n && edges[i].to == next; i++, set.n++) {
                set.at[set.n][0] = edges[i].lo;
                set.at[set.n][1] = edges[i].hi;
            }
            qn__emit_chars(c, states[s], states[next], &set);
        }
        if (nfa->accept[s] && quotes) qn__emit_quote(c, states[s], to);
        if (nfa->accept[s] && !quotes) qn__emit_empty(c, states[s], to);
    }
}

void qn__emit_string(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to)
{
    qn_nfa nfa;
    if (qn__shape_is_free(s)) {
        qn__emit_call(c, from, to, qn__general_rule(c, QN_GENERAL_string));
        return;
    }
    if (s->n_parts > 0) {
        if (qn__string_nfa(c, s, true, &nfa)) qn__emit_nfa(c, &nfa, true, from, to);
        return;
    }
    /* a length alone: any character so many times */
    const int32_t any = qn__general_rule(c, QN_GENERAL_char);
    int32_t here = qn__emit_state(c);
    qn__emit_quote(c, from, here);
    for (int64_t i = 0; i < (s->max < 0 ? s->min : s->max) && !c->g->failed; i++) {
        const int32_t next = qn__emit_state(c);
        if (i >= s->min) qn__emit_quote(c, here, to);
        qn__emit_call(c, here, next, any);
        here = next;
    }
    if (s->max < 0) qn__emit_call(c, here, here, any);
    qn__emit_quote(c, here, to);
}

/* ---- literally --------------------------------------------------------------------------------------------------- */

static void emit_members(qn_schema *c, const qn_val *v, int32_t from, int32_t to)
{
    const bool object = v->type == QN_VAL_dict;
    const uint32_t n = object ? v->d->n : v->l->n;
    int32_t here = qn__emit_state(c);
    qn__emit_bytes(c, from, here, object ? '{' : '[', object ? '{' : '[');
    for (uint32_t i = 0; i < n && !c->g->failed; i++) {
        const int32_t member = qn__emit_state(c), behind = qn__emit_state(c);
        int32_t value = member;
        qn__emit_space(c, here, member);
        if (object) {
            const int32_t colon = qn__emit_state(c), space = qn__emit_state(c);
            value = qn__emit_state(c);
            qn__emit_key(c, v->d->keys[i].s->data, v->d->keys[i].s->n, member, colon);
            qn__emit_bytes(c, colon, space, ':', ':');
            qn__emit_space(c, space, value);
        }
        qn__emit_value(c, object ? &v->d->values[i] : &v->l->items[i], value, behind);
        here = qn__emit_state(c);
        if (i + 1 < n)
            qn__emit_bytes(c, behind, here, ',', ',');
        else
            qn__emit_empty(c, behind, here);
    }
    const int32_t last = qn__emit_state(c);
    qn__emit_space(c, here, last);
    qn__emit_bytes(c, last, to, object ? '}' : ']', object ? '}' : ']');
}

/* A number as this text, the fraction of a whole one as options say. */
static void emit_number(qn_schema *c, const qn_val *v, int32_t from, int32_t to)
{
    qn_decimal d;
    if (!qn__decimal_of(c, *v, &d)) return;
    const qn_bound bound = {d, false};
    const qn_schema_shape s = {
        .type = QN_JSON_number, .integer = qn__is_whole(*v), .lo = &bound, .hi = &bound, .max = -1};
    qn__emit_number(c, &s, from, to);
}

void qn__emit_value(qn_schema *c, const qn_val *v, int32_t from, int32_t to)
{
    switch (qn__json_type(*v)) {
    case QN_JSON_null: qn__emit_null(c, from, to); break;
    case QN_JSON_boolean: qn__emit_bool(c, v->b, from, to); break;
    case QN_JSON_number: emit_number(c, v, from, to); break;
    case QN_JSON_string: qn__emit_text(c, v->s->data, v->s->n, from, to); break;
    default: emit_members(c, v, from, to); break;
    }
}

static int by_text(const void *x, const void *y)
{
    const qn_vstr *a = (*(const qn_val *const *)x)->s, *b = (*(const qn_val *const *)y)->s;
    const int order = memcmp(a->data, b->data, a->n < b->n ? a->n : b->n);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* Strings share their beginnings: with thousands of names the first character already tells most of them apart. */
void qn__emit_literals(qn_schema *c, const qn_val **values, int32_t n, int32_t from, int32_t to)
{
    int32_t n_texts = 0;
    uint32_t longest = 0;
    for (int32_t i = 0; i < n && qn__schema_going(c); i++) {
        if (values[i]->type != QN_VAL_str) {
            qn__emit_value(c, values[i], from, to);
            continue;
        }
        if (values[i]->s->n > longest) longest = values[i]->s->n;
        values[n_texts++] = values[i];
    }
    int32_t *path = qn__schema_alloc(c, (size_t)longest + 2, sizeof *path); /* the state behind so many bytes, or -1 */
    if (!path || n_texts == 0) return;
    qsort(values, (size_t)n_texts, sizeof *values, by_text);
    path[0] = qn__emit_state(c);
    qn__emit_quote(c, from, path[0]);
    const qn_vstr *last = NULL;
    for (int32_t i = 0; i < n_texts && !c->g->failed; i++) {
        const qn_vstr *s = values[i]->s;
        uint32_t at = 0;
        if (last && qn__str_same(last, s)) continue;
        while (last && at < last->n && at < s->n && last->data[at] == s->data[at]) at++;
        while (path[at] < 0) at--; /* back to where a character begins */
        while (at < s->n && !c->g->failed) {
            uint32_t cp;
            const uint32_t len = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
            for (uint32_t k = 1; k < len; k++) path[at + k] = -1;
            path[at + len] = qn__emit_state(c);
            qn__emit_char(c, path[at], path[at + len], cp);
            at += len;
        }
        qn__emit_quote(c, path[s->n], to);
        last = s;
    }
}
