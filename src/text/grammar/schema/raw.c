/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/raw.c -- strings by a schema as they are, without quotes and escapes: what stands between
 * marks in some models' calls of tools. */
#include "text/grammar/schema/schema.h"

/* What went wrong with an automaton, of a schema's lengths and patterns and the form of texts. */
static bool worked(qn_schema *c, int32_t node, qn_status status, const qn_error *err)
{
    if (status == QN_STATUS_nomem)
        c->status = QN_FAIL(c->err, nomem, "%s", err->text);
    else if (status != QN_OK)
        qn__schema_refuse(c, node, status, "its lengths and patterns, as text between marks: %s", err->text);
    return qn__schema_going(c);
}

/* What the pattern is found in, too; `not`: what it is not found in. */
static bool restrict_to(qn_schema *c, qn_nfa *nfa, const char *pattern, size_t n, bool not )
{
    qn_nfa other;
    qn_error err;
    qn_status status = qn__regex_compile(&c->arena, pattern, n, &other, &err);
    if (status == QN_OK && not ) status = qn__nfa_not(&c->arena, &other, &other, &err);
    if (status == QN_OK) status = qn__nfa_both(&c->arena, nfa, &other, nfa, &err);
    return worked(c, 0, status, &err);
}

static bool leave_out(qn_schema *c, qn_nfa *nfa, const char *text)
{
    qn_str pattern = {0};
    for (const char *p = text; *p; p++) {
        if (strchr("\\^$.|?*+()[]{}/", *p)) qn__str_putc(&pattern, '\\');
        qn__str_putc(&pattern, *p);
    }
    if (pattern.failed) c->status = QN_FAIL_NOMEM(c->err, pattern.len);
    const bool good = !pattern.failed && restrict_to(c, nfa, pattern.data, pattern.len, true);
    qn__str_deinit(&pattern);
    return good;
}

/* All strings of a form. */
static bool form_nfa(qn_schema *c, const qn_text_form *form, qn_nfa *out)
{
    qn_error err;
    const qn_status status = qn__regex_compile(&c->arena, form->pattern, strlen(form->pattern), out, &err);
    if (!worked(c, 0, status, &err)) return false;
    if (form->never && !restrict_to(c, out, form->never, strlen(form->never), true)) return false;
    return !form->without || !*form->without || leave_out(c, out, form->without);
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

/* Whether a text that is given may stand as it is. */
static bool has_form(qn_schema *c, const qn_text_form *form, const qn_nfa *all, const qn_vstr *text)
{
    bool nomem = false;
    c->steps += (int64_t)text->n * all->n_states / 64;
    if (!qn__schema_step(c)) return false;
    bool good = qn__nfa_accepts(all, text->data, text->n, &nomem);
    if (!good && !nomem && form->reads) good = form->reads(text->data, text->n, &nomem);
    if (nomem) c->status = QN_FAIL_NOMEM(c->err, (size_t)text->n);
    return good && !nomem;
}

void qn__emit_texts(qn_schema *c, int32_t set, const qn_text_form *form, int32_t from, int32_t to)
{
    static const qn_dialect as_is = {.quote = "", .never = "", .escapes = "", .lines = true, .token = QN_TOKEN_NONE};
    const qn_schema_shapes *shapes = qn__set_shapes(c, set);
    const qn_val **literals = shapes ? qn__schema_alloc(c, (size_t)shapes->n + 1, sizeof *literals) : NULL;
    int32_t n_literals = 0;
    qn_nfa all, nfa;
    qn_error err;
    if (!literals || !form_nfa(c, form, &all)) return;
    for (int32_t i = 0; i < shapes->n && qn__schema_going(c); i++) {
        const qn_schema_shape *s = &shapes->at[i];
        if (s->type != QN_JSON_string) continue;
        if (s->literal) {
            if (has_form(c, form, &all, s->literal->s)) literals[n_literals++] = s->literal;
        } else if (qn__shape_is_free(s)) {
            emit(c, &all, from, to);
        } else if (qn__string_nfa(c, s, true, &nfa) &&
                   worked(c, s->node, qn__nfa_both(&c->arena, &nfa, &all, &nfa, &err), &err)) {
            emit(c, &nfa, from, to);
        }
    }
    c->dialect = &as_is;
    if (qn__schema_going(c)) qn__emit_literals(c, literals, n_literals, from, to);
}
