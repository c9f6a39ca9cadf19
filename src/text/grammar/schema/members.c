/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/members.c -- arrays and objects. */
#include "text/grammar/schema/schema.h"

#define MAX_PATTERNS 6 /* of names: each combination of them has an automaton of its own */

void qn__emit_array(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to)
{
    if (qn__shape_is_free(s)) {
        qn__emit_call(c, from, to, qn__general_rule(c, QN_GENERAL_array));
        return;
    }
    const int64_t prefix = qn__n_prefix(c, s);
    int64_t n = s->max >= 0 ? s->max : prefix > s->min ? prefix : s->min;
    const int32_t begin = qn__emit_state(c), last = qn__emit_state(c);
    int32_t space = begin, here = begin; /* before the white space in front of the next element; behind this one */
    qn__emit_bytes(c, from, begin, '[', '[');
    qn__emit_bytes(c, last, to, ']', ']');
    for (int64_t i = 0; i <= n && qn__schema_going(c) && !c->g->failed; i++) {
        if (i >= s->min) qn__emit_space(c, here, last);
        if (i == n && s->max >= 0) break;
        if (i > 0) {
            space = qn__emit_state(c);
            qn__emit_bytes(c, here, space, ',', ',');
        }
        const int32_t element = qn__emit_state(c);
        const bool again = i == n; /* and so on */
        const int32_t behind = again && i > 0 ? here : qn__emit_state(c);
        qn__emit_space(c, space, element);
        qn__emit_set(c, qn__element_set(c, s, i), element, behind);
        if (again && i == 0) { /* from none to any number */
            const int32_t next = qn__emit_state(c);
            qn__emit_space(c, behind, last);
            qn__emit_bytes(c, behind, next, ',', ',');
            qn__emit_space(c, next, element);
        }
        here = behind;
    }
}

/* ---- objects --------------------------------------------------------------------------------------------------- */

typedef struct members {
    qn_schema *c;
    const qn_schema_shape *s;
    const qn_vstr **names; /* in the order in which the schema has them */
    bool *required;
    int32_t n, cap;
    int32_t *slots; /* of names */
    uint32_t n_slots;
    int32_t patterns[MAX_PATTERNS]; /* as numbers of regexes */
    int n_patterns;
} members;

static int32_t find_name(const members *m, const qn_vstr *name, uint32_t *slot)
{
    *slot = (uint32_t)qn__hash(QN_HASH_INIT, name->data, name->n) & (m->n_slots - 1);
    for (; m->slots[*slot]; *slot = (*slot + 1) & (m->n_slots - 1))
        if (qn__str_same(m->names[m->slots[*slot] - 1], name)) return m->slots[*slot] - 1;
    return -1;
}

static void add_name(members *m, const qn_vstr *name, bool required)
{
    uint32_t slot;
    if (!m->slots) return;
    const int32_t known = find_name(m, name, &slot);
    if (known >= 0) {
        m->required[known] |= required;
        return;
    }
    m->required[m->n] = required;
    m->names[m->n++] = name;
    m->slots[slot] = m->n;
}

static void collect(members *m)
{
    qn_schema *c = m->c;
    const qn_schema_shape *s = m->s;
    size_t most = (size_t)s->n_required + 1;
    for (int32_t i = 0; i < s->n_parts; i++) {
        const qn_val *properties = qn__schema_get(c, s->parts[i], "properties");
        most += properties ? properties->d->n : 0;
    }
    for (m->n_slots = 16; m->n_slots < 2 * most;) m->n_slots *= 2;
    m->names = qn__schema_alloc(c, most, sizeof *m->names);
    m->required = qn__schema_alloc(c, most, sizeof *m->required);
    m->slots = qn__schema_alloc(c, m->n_slots, sizeof *m->slots);
    if (!qn__schema_going(c)) return;
    for (int32_t i = 0; i < s->n_parts; i++) {
        const qn_val *properties = qn__schema_get(c, s->parts[i], "properties");
        const qn_val *patterns = qn__schema_get(c, s->parts[i], "patternProperties");
        for (uint32_t k = 0; properties && k < properties->d->n; k++) add_name(m, properties->d->keys[k].s, false);
        for (uint32_t k = 0; patterns && k < patterns->d->n && qn__schema_going(c); k++) {
            const qn_vstr *text = patterns->d->keys[k].s;
            const int32_t regex = qn__schema_regex(c, s->parts[i], NULL, text->data, text->n);
            int at = 0;
            while (at < m->n_patterns && m->patterns[at] != regex) at++;
            if (at < m->n_patterns) continue;
            if (m->n_patterns == MAX_PATTERNS)
                qn__schema_refuse(c, s->parts[i], QN_STATUS_limit, "more than %d patterns in \"patternProperties\"",
                                  MAX_PATTERNS);
            else
                m->patterns[m->n_patterns++] = regex;
        }
    }
    for (int32_t i = 0; i < s->n_required; i++) add_name(m, s->required[i], true);
}

/* A name that the patterns in `which` find and no other does. */
static int32_t set_of_patterns(members *m, unsigned which)
{
    qn_schema *c = m->c;
    int32_t *nodes = NULL, n = 0, cap = 0;
    for (int32_t i = 0; i < m->s->n_parts && qn__schema_going(c); i++) {
        const int32_t part = m->s->parts[i];
        const qn_val *patterns = qn__schema_get(c, part, "patternProperties"), *more;
        bool said = false;
        for (uint32_t k = 0; patterns && k < patterns->d->n && qn__schema_going(c); k++) {
            const qn_vstr *text = patterns->d->keys[k].s;
            const int32_t regex = qn__schema_regex(c, part, NULL, text->data, text->n);
            int at = 0;
            while (at < m->n_patterns && m->patterns[at] != regex) at++;
            if (!(which >> at & 1) || !qn__schema_grow(c, &nodes, n, &cap, sizeof *nodes)) continue;
            nodes[n++] = qn__schema_node_at(c, &patterns->d->values[k]);
            said = true;
        }
        more = said ? NULL : qn__schema_get(c, part, "additionalProperties");
        if (more && qn__schema_grow(c, &nodes, n, &cap, sizeof *nodes)) nodes[n++] = qn__schema_node_at(c, more);
    }
    return qn__schema_going(c) ? qn__schema_set(c, nodes, n) : -1;
}

static bool is_never(qn_schema *c, int32_t set)
{
    if (set < 0 || c->sets[set].n != 1) return set < 0;
    const qn_schema_node *n = &c->nodes[c->sets[set].nodes[0]];
    return !n->widened && n->value->type == QN_VAL_bool && !n->value->b;
}

/* Members whose names the schema does not have. */
static void emit_others(members *m, int32_t from, int32_t to)
{
    qn_schema *c = m->c;
    qn_error err;
    qn_nfa other, missed[MAX_PATTERNS];
    const char **names = qn__schema_alloc(c, (size_t)m->n + 1, sizeof *names);
    uint32_t *lengths = qn__schema_alloc(c, (size_t)m->n + 1, sizeof *lengths);
    qn_status status = QN_OK;
    if (!names || !lengths) return;
    for (int32_t i = 0; i < m->n; i++) {
        names[i] = m->names[i]->data;
        lengths[i] = m->names[i]->n;
    }
    static const char bare_name[] = "^[A-Za-z_\\u0080-\\u{10FFFF}][A-Za-z0-9_.\\u0080-\\u{10FFFF}-]*$";
    const bool bare = c->dialect && c->dialect->bare_keys;
    const bool free_name = m->n == 0 && m->n_patterns == 0 && !bare;
    if (!free_name) status = qn__nfa_other_than(&c->arena, names, lengths, m->n, &other, &err);
    bool has_missed[MAX_PATTERNS] = {false};
    if (bare && status == QN_OK) {
        qn_nfa name;
        status = qn__regex_compile(&c->arena, bare_name, sizeof bare_name - 1, &name, &err);
        if (status == QN_OK) status = qn__nfa_both(&c->arena, &other, &name, &other, &err);
    }
    for (unsigned which = 0; which < 1u << m->n_patterns && status == QN_OK && qn__schema_going(c); which++) {
        const int32_t set = set_of_patterns(m, which);
        if (is_never(c, set)) continue;
        qn_nfa name = {0};
        if (!free_name) name = other;
        for (int i = 0; i < m->n_patterns && status == QN_OK; i++) {
            const qn_nfa *finds = &c->regexes[m->patterns[i]].nfa;
            const bool hit = which >> i & 1;
            if (!hit && !has_missed[i]) status = qn__nfa_not(&c->arena, finds, &missed[i], &err);
            has_missed[i] |= !hit;
            if (status == QN_OK) status = qn__nfa_both(&c->arena, &name, hit ? finds : &missed[i], &name, &err);
        }
        if (status != QN_OK || (!free_name && name.n_states == 0)) continue;
        const int32_t colon = qn__emit_state(c), space = qn__emit_state(c), value = qn__emit_state(c);
        if (free_name)
            qn__emit_call(c, from, colon, qn__general_rule(c, QN_GENERAL_string));
        else
            qn__emit_nfa(c, &name, !bare, from, colon);
        qn__emit_bytes(c, colon, space, ':', ':');
        qn__emit_space(c, space, value);
        qn__emit_set(c, set, value, to);
    }
    if (status == QN_STATUS_nomem)
        c->status = QN_FAIL(c->err, nomem, "%s", err.text);
    else if (status != QN_OK)
        qn__schema_refuse(c, m->s->parts[0], status, "names of other properties: %s", err.text);
}

/* C[i]: a member with name i or a later one may begin. B[i]: behind one, i is the next. The end comes where no required
 * one is left. */
void qn__emit_object(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to)
{
    members m = {.c = c, .s = s};
    if (qn__shape_is_free(s)) {
        qn__emit_call(c, from, to, qn__general_rule(c, QN_GENERAL_object));
        return;
    }
    collect(&m);
    int32_t *may_begin = qn__schema_alloc(c, (size_t)m.n + 1, sizeof *may_begin);
    if (!may_begin) return;
    int32_t last_required = -1;
    for (int32_t i = 0; i < m.n; i++)
        if (m.required[i]) last_required = i;
    const int32_t begin = qn__emit_state(c), close = qn__emit_state(c);
    qn__emit_bytes(c, from, begin, '{', '{');
    qn__emit_bytes(c, close, to, '}', '}');
    for (int32_t i = 0; i <= m.n; i++) may_begin[i] = qn__emit_state(c);
    qn__emit_space(c, begin, may_begin[0]);
    if (last_required < 0) qn__emit_space(c, begin, close);
    for (int32_t i = 0; i <= m.n && qn__schema_going(c) && !c->g->failed; i++) {
        const bool others = i == m.n;
        const int32_t behind = qn__emit_state(c), comma = qn__emit_state(c);
        const int32_t next = others ? i : i + 1;
        if (others) {
            emit_others(&m, may_begin[i], behind);
        } else {
            const int32_t set = qn__member_set(c, s, m.names[i]->data, m.names[i]->n);
            const int32_t colon = qn__emit_state(c), space = qn__emit_state(c), value = qn__emit_state(c);
            if (!is_never(c, set)) {
                qn__emit_key(c, m.names[i]->data, m.names[i]->n, may_begin[i], colon);
                qn__emit_bytes(c, colon, space, ':', ':');
                qn__emit_space(c, space, value);
                qn__emit_set(c, set, value, behind);
            }
            if (!m.required[i]) qn__emit_empty(c, may_begin[i], may_begin[next]);
        }
        qn__emit_bytes(c, behind, comma, ',', ',');
        qn__emit_space(c, comma, may_begin[next]);
        if (last_required < next) qn__emit_space(c, behind, close);
    }
}
