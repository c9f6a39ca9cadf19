/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/parts.c -- one shape: what two have in common, which values it has, what it says of the
 * members of an object and the elements of an array. */
#include "text/grammar/schema/schema.h"

#include <math.h>

/* ---- patterns ---------------------------------------------------------------------------------------------- */

int32_t qn__schema_regex(qn_schema *c, int32_t node, const char *keyword, const char *text, size_t n)
{
    qn_error err;
    qn_schema_regex made = {.text = text, .n = (uint32_t)n};
    for (int32_t i = 0; i < c->n_regexes; i++)
        if (c->regexes[i].n == n && memcmp(c->regexes[i].text, text, n) == 0) return i;
    if (!qn__schema_grow(c, &c->regexes, c->n_regexes, &c->cap_regexes, sizeof *c->regexes)) return -1;
    const qn_status status = qn__regex_compile(&c->arena, text, n, &made.nfa, &err);
    if (status == QN_STATUS_nomem) c->status = QN_FAIL(c->err, nomem, "%s", err.text);
    if (status != QN_OK) {
        if (keyword)
            qn__schema_refuse_keyword(c, node, keyword, status, "a pattern, %s", err.text);
        else
            qn__schema_refuse(c, node, status, "a pattern, %s", err.text);
        return -1;
    }
    c->regexes[c->n_regexes] = made;
    return c->n_regexes++;
}

bool qn__regex_finds(qn_schema *c, int32_t regex, const char *text, size_t n)
{
    bool nomem;
    if (regex < 0) return false;
    c->steps += (int64_t)n * c->regexes[regex].nfa.n_states / 64;
    const bool found = qn__schema_step(c) && qn__nfa_accepts(&c->regexes[regex].nfa, text, n, &nomem);
    if (qn__schema_going(c) && nomem) c->status = QN_FAIL(c->err, nomem, "out of memory: a JSON schema");
    return found;
}

bool qn__string_nfa(qn_schema *c, const qn_schema_shape *s, bool with_length, qn_nfa *out)
{
    qn_error err;
    qn_nfa next;
    qn_status status = QN_OK;
    bool any = false;
    for (int32_t i = 0; i < s->n_parts && status == QN_OK; i++) {
        if (any) status = qn__nfa_both(&c->arena, out, &c->regexes[s->parts[i]].nfa, out, &err);
        if (!any) *out = c->regexes[s->parts[i]].nfa;
        any = true;
    }
    if (with_length && (s->min > 0 || s->max >= 0 || !any) && status == QN_OK) {
        const char *pattern = s->n_parts == 1 ? c->regexes[s->parts[0]].text : "";
        const bool done = qn__format_within(&c->arena, pattern, s->min, s->max, out, &status, &err);
        if (!done) status = qn__nfa_length(&c->arena, s->min, s->max, &next, &err);
        if (!done && any && status == QN_OK) status = qn__nfa_both(&c->arena, out, &next, out, &err);
        if (!any) *out = next;
    }
    if (status == QN_STATUS_nomem)
        c->status = QN_FAIL(c->err, nomem, "%s", err.text);
    else if (status != QN_OK)
        qn__schema_refuse_keyword(c, s->node, qn__schema_get(c, s->node, "maxLength") ? "maxLength" : "minLength",
                                  status, "lengths and patterns together: %s", err.text);
    return qn__schema_going(c);
}

/* ---- members ------------------------------------------------------------------------------------------------- */

static void add_node(qn_schema *c, int32_t **nodes, int32_t *n, int32_t *cap, const qn_val *at)
{
    if (!at || !qn__schema_grow(c, nodes, *n, cap, sizeof **nodes)) return;
    (*nodes)[*n] = qn__schema_node_at(c, at);
    if ((*nodes)[*n] >= 0) ++*n;
}

int32_t qn__member_set(qn_schema *c, const qn_schema_shape *s, const char *key, size_t n)
{
    int32_t *nodes = NULL, n_nodes = 0, cap = 0;
    for (int32_t i = 0; i < s->n_parts && qn__schema_going(c); i++) {
        const int32_t node = s->parts[i];
        const qn_val *properties = qn__schema_get(c, node, "properties");
        const qn_val *patterns = qn__schema_get(c, node, "patternProperties");
        const qn_val *named = properties ? qn__dict_slot(properties->d, key, n) : NULL;
        bool said = named != NULL;
        add_node(c, &nodes, &n_nodes, &cap, named);
        for (uint32_t k = 0; patterns && k < patterns->d->n && qn__schema_going(c); k++) {
            const qn_vstr *pattern = patterns->d->keys[k].s;
            if (!qn__regex_finds(c, qn__schema_regex(c, node, NULL, pattern->data, pattern->n), key, n)) continue;
            said = true;
            add_node(c, &nodes, &n_nodes, &cap, &patterns->d->values[k]);
        }
        if (!said) add_node(c, &nodes, &n_nodes, &cap, qn__schema_get(c, node, "additionalProperties"));
    }
    return qn__schema_going(c) ? qn__schema_set(c, nodes, n_nodes) : -1;
}

int64_t qn__n_prefix(const qn_schema *c, const qn_schema_shape *s)
{
    int64_t most = 0;
    for (int32_t i = 0; i < s->n_parts; i++) {
        const qn_val *prefix = qn__schema_get(c, s->parts[i], "prefixItems");
        if (prefix && prefix->l->n > most) most = prefix->l->n;
    }
    return most;
}

int32_t qn__element_set(qn_schema *c, const qn_schema_shape *s, int64_t index)
{
    int32_t *nodes = NULL, n_nodes = 0, cap = 0;
    for (int32_t i = 0; i < s->n_parts && qn__schema_going(c); i++) {
        const qn_val *prefix = qn__schema_get(c, s->parts[i], "prefixItems");
        const bool own = prefix && index < prefix->l->n;
        add_node(c, &nodes, &n_nodes, &cap, own ? &prefix->l->items[index] : qn__schema_get(c, s->parts[i], "items"));
    }
    return qn__schema_going(c) ? qn__schema_set(c, nodes, n_nodes) : -1;
}

/* ---- what two have in common ---------------------------------------------------------------------------------- */

static const qn_bound *tighter(const qn_bound *a, const qn_bound *b, int sign)
{
    if (!a || !b) return a ? a : b;
    const int order = sign * qn__decimal_compare(&a->at, &b->at);
    return order > 0 || (order == 0 && a->exclusive) ? a : b;
}

static void join_parts(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, qn_schema_shape *out)
{
    const qn_schema_shape *one = a->n_parts ? a : b;
    out->parts = one->parts;
    out->n_parts = one->n_parts;
    if (!a->n_parts || !b->n_parts || a->parts == b->parts) return;
    int32_t *parts = qn__schema_alloc(c, (size_t)a->n_parts + (size_t)b->n_parts, sizeof *parts), n = a->n_parts;
    if (!parts) return;
    memcpy(parts, a->parts, (size_t)n * sizeof *parts);
    for (int32_t i = 0; i < b->n_parts; i++) {
        bool known = false;
        for (int32_t k = 0; k < a->n_parts && !known; k++) known = a->parts[k] == b->parts[i];
        if (!known) parts[n++] = b->parts[i];
        c->steps += a->n_parts / 16;
    }
    out->parts = parts;
    out->n_parts = n;
}

static void join_required(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, qn_schema_shape *out)
{
    const qn_schema_shape *one = a->n_required ? a : b;
    out->required = one->required;
    out->n_required = one->n_required;
    if (!a->n_required || !b->n_required || a->required == b->required) return;
    const qn_vstr **names = qn__schema_alloc(c, (size_t)a->n_required + (size_t)b->n_required, sizeof *names);
    int32_t n = a->n_required;
    if (!names) return;
    memcpy(names, a->required, (size_t)n * sizeof *names);
    for (int32_t i = 0; i < b->n_required; i++) {
        bool known = false;
        for (int32_t k = 0; k < a->n_required && !known; k++) known = qn__str_same(a->required[k], b->required[i]);
        if (!known) names[n++] = b->required[i];
        c->steps += a->n_required / 16;
    }
    out->required = names;
    out->n_required = n;
}

bool qn__shape_both(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, qn_schema_shape *out)
{
    if (a->type != b->type) return false;
    if (a->literal || b->literal) {
        const qn_schema_shape *literal = a->literal ? a : b, *other = a->literal ? b : a;
        *out = *literal;
        return qn__shape_accepts(c, other, literal->literal);
    }
    *out = *a;
    out->integer = a->integer || b->integer;
    out->lo = tighter(a->lo, b->lo, 1);
    out->hi = tighter(a->hi, b->hi, -1);
    if (b->min > out->min) out->min = b->min;
    if (b->max >= 0 && (out->max < 0 || b->max < out->max)) out->max = b->max;
    join_parts(c, a, b, out);
    join_required(c, a, b, out);
    return out->max < 0 || out->min <= out->max;
}

bool qn__shape_apart(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, int depth)
{
    qn_schema_shape both;
    if (a->literal || b->literal || (a->type != QN_JSON_array && a->type != QN_JSON_object))
        return !qn__shape_both(c, a, b, &both) || qn__shape_is_empty(c, &both, depth);
    /* a member that both must have, or one that the other forbids */
    for (int side = 0; side < 2 && a->type == QN_JSON_object; side++) {
        const qn_schema_shape *s = side ? b : a;
        for (int32_t i = 0; i < s->n_required && qn__schema_step(c); i++) {
            const char *name = s->required[i]->data;
            const uint32_t n = s->required[i]->n;
            if (qn__sets_apart(c, qn__member_set(c, a, name, n), qn__member_set(c, b, name, n), depth - 1)) return true;
        }
    }
    if (a->type == QN_JSON_object) return qn__shape_is_empty(c, a, depth) || qn__shape_is_empty(c, b, depth);
    const int64_t min = a->min > b->min ? a->min : b->min, prefix = qn__n_prefix(c, a), other = qn__n_prefix(c, b);
    if ((a->max >= 0 && a->max < min) || (b->max >= 0 && b->max < min)) return true;
    for (int64_t i = 0; i < min && i <= (prefix > other ? prefix : other) && qn__schema_step(c); i++)
        if (qn__sets_apart(c, qn__element_set(c, a, i), qn__element_set(c, b, i), depth - 1)) return true;
    return false;
}

bool qn__shape_is_empty(qn_schema *c, const qn_schema_shape *s, int depth)
{
    if (s->literal || !qn__schema_step(c)) return false;
    if (s->max >= 0 && s->min > s->max) return true;
    if (s->type == QN_JSON_number) return qn__number_is_empty(c, s);
    if (s->type == QN_JSON_string && s->n_parts > 0) {
        qn_nfa nfa;
        return qn__string_nfa(c, s, true, &nfa) && nfa.n_states == 0;
    }
    if (s->type == QN_JSON_object)
        for (int32_t i = 0; i < s->n_required; i++)
            if (qn__set_is_empty(c, qn__member_set(c, s, s->required[i]->data, s->required[i]->n), depth)) return true;
    const int64_t prefix = s->type == QN_JSON_array ? qn__n_prefix(c, s) : 0;
    for (int64_t i = 0; s->type == QN_JSON_array && i < s->min && i <= prefix; i++)
        if (qn__set_is_empty(c, qn__element_set(c, s, i), depth)) return true;
    return false;
}

/* ---- which values it has ------------------------------------------------------------------------------------------
 */

bool qn__is_whole(qn_val v) { return v.type != QN_VAL_float || (isfinite(v.f) && v.f == floor(v.f)); }

static bool same_value(qn_schema *c, const qn_val *a, const qn_val *b)
{
    const qn_json_type type = qn__json_type(*a);
    qn_decimal x, y;
    if (type != qn__json_type(*b) || !qn__schema_step(c)) return false;
    switch (type) {
    case QN_JSON_null: return true;
    case QN_JSON_boolean: return a->b == b->b;
    case QN_JSON_number:
        return qn__decimal_of(c, *a, &x) && qn__decimal_of(c, *b, &y) && qn__decimal_compare(&x, &y) == 0;
    case QN_JSON_string: return qn__str_same(a->s, b->s);
    case QN_JSON_array:
        if (a->l->n != b->l->n) return false;
        for (uint32_t i = 0; i < a->l->n; i++)
            if (!same_value(c, &a->l->items[i], &b->l->items[i])) return false;
        return true;
    default: break;
    }
    if (a->d->n != b->d->n) return false;
    for (uint32_t i = 0; i < a->d->n; i++) {
        const qn_val *other = qn__dict_slot(b->d, a->d->keys[i].s->data, a->d->keys[i].s->n);
        if (!other || !same_value(c, &a->d->values[i], other)) return false;
    }
    return true;
}

static bool accepts_number(qn_schema *c, const qn_schema_shape *s, const qn_val *v)
{
    qn_decimal n;
    if ((s->integer && !qn__is_whole(*v)) || !qn__decimal_of(c, *v, &n)) return false;
    const int lo = s->lo ? qn__decimal_compare(&n, &s->lo->at) : 1,
              hi = s->hi ? qn__decimal_compare(&n, &s->hi->at) : -1;
    return lo >= (s->lo && s->lo->exclusive) && hi <= -(s->hi && s->hi->exclusive);
}

static bool in_range(const qn_schema_shape *s, int64_t n) { return n >= s->min && (s->max < 0 || n <= s->max); }

bool qn__shape_accepts(qn_schema *c, const qn_schema_shape *s, const qn_val *v)
{
    if (qn__json_type(*v) != s->type || !qn__schema_step(c)) return false;
    if (s->literal) return same_value(c, s->literal, v);
    switch (s->type) {
    case QN_JSON_number: return accepts_number(c, s, v);
    case QN_JSON_string:
        for (int32_t i = 0; i < s->n_parts; i++)
            if (!qn__regex_finds(c, s->parts[i], v->s->data, v->s->n)) return false;
        return in_range(s, v->s->n_chars);
    case QN_JSON_array:
        for (uint32_t i = 0; i < v->l->n; i++)
            if (!qn__set_accepts(c, qn__element_set(c, s, i), &v->l->items[i])) return false;
        return in_range(s, v->l->n);
    case QN_JSON_object:
        for (int32_t i = 0; i < s->n_required; i++)
            if (!qn__dict_slot(v->d, s->required[i]->data, s->required[i]->n)) return false;
        for (uint32_t i = 0; i < v->d->n; i++) {
            const qn_vstr *key = v->d->keys[i].s;
            if (!qn__set_accepts(c, qn__member_set(c, s, key->data, key->n), &v->d->values[i])) return false;
        }
        return true;
    default: return true;
    }
}
