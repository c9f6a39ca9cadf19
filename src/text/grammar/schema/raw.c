/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/raw.c -- strings by a schema as they are, without quotes and escapes: what stands between
 * marks in some models' calls of tools. */
#include "text/grammar/schema/schema.h"

/* What the pattern is found in, too; `not`: what it is not found in. */
static void restrict_to(qn_schema *c, qn_nfa *nfa, const char *pattern, size_t n, bool not )
{
    qn_nfa other;
    qn_error err;
    qn_status status = qn__regex_compile(&c->arena, pattern, n, &other, &err);
    if (status == QN_OK && not ) status = qn__nfa_not(&c->arena, &other, &other, &err);
    if (status == QN_OK) status = qn__nfa_both(&c->arena, nfa, &other, nfa, &err);
    if (status == QN_STATUS_nomem)
        c->status = QN_FAIL(c->err, nomem, "%s", err.text);
    else if (status != QN_OK)
        qn__schema_refuse(c, 0, status, "its lengths and patterns, as text between marks: %s", err.text);
}

/* A text as the pattern for it. */
static void put_quoted(qn_str *pattern, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] && strchr("\\^$.|?*+()[]{}/", text[i])) qn__str_putc(pattern, '\\');
        qn__str_putc(pattern, text[i]);
    }
}

static void leave_out(qn_schema *c, qn_nfa *nfa, const char *text)
{
    qn_str pattern = {0};
    put_quoted(&pattern, text, strlen(text));
    if (pattern.failed)
        c->status = QN_FAIL_NOMEM(c->err, pattern.len);
    else
        restrict_to(c, nfa, pattern.data, pattern.len, true);
    qn__str_deinit(&pattern);
}

static void emit(qn_schema *c, const qn_nfa *nfa, int32_t from, int32_t to)
{
    int32_t *states = qn__schema_alloc(c, (size_t)nfa->n_states + 1, sizeof *states);
    for (int32_t s = 0; states && s < nfa->n_states; s++) states[s] = qn__emit_state(c);
    if (!states || nfa->n_states == 0) return;
    qn__emit_empty(c, from, states[0]);
    for (int32_t s = 0; s < nfa->n_states && !c->g->failed; s++) {
        for (int32_t i = nfa->begin[s]; i < nfa->begin[s + 1] && !c->g->failed; i++)
            qn__grammar_chars(c->g, states[s], states[nfa->edges[i].to], nfa->edges[i].lo, nfa->edges[i].hi);
        if (nfa->accept[s]) qn__emit_empty(c, states[s], to);
    }
}

/* Of one alternative: `nfa` has all its strings. */
static void add_form(qn_schema *c, qn_nfa *nfa, const qn_text_form *form, int32_t begin, int32_t end)
{
    restrict_to(c, nfa, form->pattern, strlen(form->pattern), false);
    if (form->never && qn__schema_going(c)) restrict_to(c, nfa, form->never, strlen(form->never), true);
    if (form->without && *form->without && qn__schema_going(c)) leave_out(c, nfa, form->without);
    if (qn__schema_going(c)) emit(c, nfa, begin, end);
}

/* "^TEXT$" */
static bool exactly(qn_schema *c, const qn_vstr *text, qn_nfa *out)
{
    qn_str pattern = {0};
    qn_error err;
    qn__str_putc(&pattern, '^');
    put_quoted(&pattern, text->data, text->n);
    qn__str_putc(&pattern, '$');
    qn_status status =
        pattern.failed ? QN_STATUS_nomem : qn__regex_compile(&c->arena, pattern.data, pattern.len, out, &err);
    qn__str_deinit(&pattern);
    if (status == QN_STATUS_nomem)
        c->status = QN_FAIL_NOMEM(c->err, (size_t)text->n);
    else if (status != QN_OK)
        qn__schema_refuse(c, 0, status, "a text that is given: %s", err.text);
    return status == QN_OK;
}

qn_status qn__grammar_add_text(qn_grammar *g, const char *name, const qn_val *schema, const qn_text_form *form,
                               bool *empty, qn_error *err)
{
    qn_schema c = {.g = g, .err = err, .object = -1};
    const int32_t rule = qn__grammar_rule(g, name, strlen(name), 0), first_state = g->n_states, first_edge = g->n_edges;
    const int32_t begin = qn__grammar_state(g), end = qn__grammar_state(g);
    bool ends = true;
    qn_nfa nfa;
    if (rule < 0 || end < 0) return qn__grammar_failure(g, err);
    qn__arena_init(&c.arena, 0);
    g->rules[rule].begin = begin;
    g->rules[rule].end = end;
    const int32_t root = qn__schema_read(&c, schema);
    const int32_t set = root >= 0 ? qn__schema_set(&c, &root, 1) : -1;
    const qn_schema_shapes *shapes = set >= 0 ? qn__set_shapes(&c, set) : NULL;
    for (int32_t i = 0; shapes && i < shapes->n && qn__schema_going(&c); i++) {
        const qn_schema_shape *s = &shapes->at[i];
        if (s->type != QN_JSON_string) continue;
        if (s->literal ? exactly(&c, s->literal->s, &nfa) : qn__string_nfa(&c, s, true, &nfa))
            add_form(&c, &nfa, form, begin, end);
    }
    if (c.status == QN_OK) c.status = qn__grammar_failure(g, err);
    if (c.status == QN_OK) c.status = qn__grammar_trim(g, rule, first_state, first_edge, &ends, err);
    if (empty) *empty = !ends;
    if (c.status == QN_OK && !ends && !empty) qn__schema_fail(&c, QN_STATUS_invalid, "no text can satisfy it");
    qn__arena_deinit(&c.arena);
    return c.status;
}
