/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_tags.c -- arguments as text between marks: keys and values have marks around them, lists and
 * objects are tags within tags or JSON. */
#include "text/chat/constrain_values.h"

#define MAX_DEPTH 12

/* Keywords of a list or an object whose elements or members have tags. */
static const char *const of_tags[] = {"type",  "properties", "required", "additionalProperties",
                                      "items", "minItems",   "maxItems"};

static const qn_mark_id opens[] = {QN_MARK_string_open, QN_MARK_special_open, QN_MARK_other_open};

/* A mark's text with the property's key in it. */
static void put_keyed(qn_constrain *c, qn_mark_id id, size_t from, const char *key, size_t n_key)
{
    static const char word[] = "qn_arg";
    const qn_mark *m = &c->found->marks[id];
    const char *s = m->text, *end = s + m->n_text;
    s += from;
    while (c->found->nested && s < end) {
        const char *hit = s;
        while (hit + sizeof word - 1 <= end && memcmp(hit, word, sizeof word - 1) != 0) hit++;
        if (hit + sizeof word - 1 > end) break;
        qn__put_literal(c, s, (size_t)(hit - s), false);
        qn__put_literal(c, key, n_key, false);
        s = hit + sizeof word - 1;
    }
    if (s < end) qn__put_literal(c, s, (size_t)(end - s), false);
}

/* The part of the marks behind a value that ends a text: its first mark, from `*begin` on. */
static size_t text_end(const qn_constrain *c, int variant, size_t *begin)
{
    const qn_mark *m = &c->found->marks[opens[variant] + 1];
    const size_t n = (size_t)m->n_text;
    *begin = 0;
    while (*begin < n && qn__sym_is_space((unsigned char)m->text[*begin])) ++*begin;
    if (c->found->nested)
        for (size_t i = *begin; i + 6 <= n; i++)
            if (memcmp(m->text + i, "qn_arg", 6) == 0) return i;
    return *begin + qn__mark_atom(m->text + *begin, n - *begin);
}

static int64_t count_of(const qn_constrain *c, qn_val schema, const char *keyword, int64_t otherwise)
{
    const qn_val v = qn__member(schema, keyword);
    return c->strict && qn__is_number(v) ? (int64_t)qn__real(v) : otherwise;
}

/* The end of a group: an element of a list, as many of them as a strict tool asks for. */
static void put_count(qn_constrain *c, qn_val schema)
{
    const int64_t min = count_of(c, schema, "minItems", 0), max = count_of(c, schema, "maxItems", -1);
    if (max >= 0 && max < min) qn__constrain_fail(c, QN_STATUS_invalid, "a tool's schema: maxItems is below minItems");
    PUT(c, "){%lld,", (long long)min);
    if (max >= 0) PUT(c, "%lld", (long long)max);
    PUT(c, "} ");
}

/* Tags within tags: the rule of a value and what ends it, made once for each depth. */
struct qn_constrain_tags {
    const void *schema;
    int depth, rule; /* depth -1: no tags in it, so any */
};

/* By what a schema is known: where it stands, or the one that its $ref leads to stands. */
static const void *known_by(const qn_constrain *c, const qn_val *at)
{
    const qn_val schema = qn__schema_resolve(c->root, qn__said_at(at));
    return qn__only_refers(c, qn__said_at(at)) && schema.type == QN_VAL_dict ? schema.d : (const void *)at;
}

static const qn_constrain_tags *find_tags(const qn_constrain *c, const void *schema, int depth)
{
    for (int32_t i = 0; i < c->n_tags; i++)
        if (c->tags[i].schema == schema && c->tags[i].depth == depth) return &c->tags[i];
    return NULL;
}

static void keep_tags(qn_constrain *c, qn_constrain_tags made)
{
    if (c->n_tags == QN_GRAMMAR_MAX_RULES)
        qn__constrain_fail(c, QN_STATUS_limit, "tools: more than %d values in each other", QN_GRAMMAR_MAX_RULES);
    else if (!qn__arena_room(&c->reader->heap.arena, &c->tags, c->n_tags, &c->cap_tags, sizeof *c->tags))
        qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    else
        c->tags[c->n_tags++] = made;
}

/* The marks that end a value, without the key in that and what follows. */
static qn_slice nested_end(const qn_constrain *c)
{
    size_t begin;
    const size_t close = text_end(c, 0, &begin);
    return (qn_slice){c->found->marks[QN_MARK_string_next].text + begin, close - begin};
}

/* Where in the marks between two values the key of the second one begins; more than there is: they have no such form.
 */
static size_t next_key(const qn_constrain *c)
{
    const qn_slice end = nested_end(c);
    return (size_t)(end.s + end.n - c->found->marks[QN_MARK_string_next].text) + 6 +
           (size_t)c->found->marks[QN_MARK_string_open].n_text;
}

/* The rule of a value that is JSON. */
static int json_between_tags(qn_constrain *c, const qn_val *at)
{
    const qn_slice end = nested_end(c);
    const int json = qn__json_rule(c, at), number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= j%d ", number, json);
    qn__put_literal(c, end.s, end.n, false);
    return number;
}

static int nested_rule(qn_constrain *c, const qn_val *at, int depth);

/* A list or an object, whose elements or members have tags. */
static int group_rule(qn_constrain *c, qn_val schema, bool list, int depth)
{
    const qn_mark *next = &c->found->marks[QN_MARK_string_next], *named = &c->found->marks[QN_MARK_string_open];
    const qn_slice end = nested_end(c);
    const size_t behind = next_key(c);
    static const qn_vstr item = {.data = "item", .n = 4, .n_chars = 4};
    qn_property element = {.key = {.type = QN_VAL_str, .s = &item}, .at = qn__place_of(schema, "items")};
    int n = 1;
    qn_property *p = list ? &element : qn__properties_of(c, schema, &n);
    QN_CHECK_STRICT(c, schema, of_tags);
    for (int i = 0; p && i < n && qn__constraining(c); i++) p[i].value = nested_rule(c, p[i].at, depth + 1);
    const int number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", number);
    for (int i = 0; p && i < n && qn__constraining(c); i++) {
        const qn_vstr *key = p[i].key.s;
        PUT(c, "( ");
        qn__put_literal(c, next->text + behind, (size_t)next->n_text - behind, false);
        qn__put_literal(c, key->data, key->n, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        PUT(c, "r%d ", p[i].value);
        qn__put_literal(c, key->data, key->n, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        if (list)
            put_count(c, schema);
        else
            PUT(c, p[i].required ? ") " : ")? ");
    }
    qn__put_literal(c, end.s, end.n, false);
    return number;
}

/* A text, or what is read out of one. */
static int scalar_rule(qn_constrain *c, const qn_val *at, int types)
{
    const bool by_rule = c->strict && !qn__any_text_does(c, at);
    const qn_slice end = nested_end(c);
    const int number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", number);
    if (by_rule) qn__put_text_or_other(c, at, types, false, end.s, end.n);
    if (by_rule && (!types || (types & (QN_TYPE_object | QN_TYPE_array))))
        qn__constrain_fail(
            c, QN_STATUS_unsupported,
            "a strict tool's schema: a list or object that may be something else; this model's syntax of "
            "calls cannot hold it");
    if (by_rule)
        qn__put_literal(c, end.s, end.n, false);
    else
        qn__put_until(c, end.s, end.n, false);
    return number;
}

/* An object that may have any members and names none. */
static bool names_no_key(qn_val schema)
{
    const qn_val properties = qn__member(schema, "properties"), required = qn__member(schema, "required"),
                 others = qn__member(schema, "additionalProperties");
    return !(properties.type == QN_VAL_dict && properties.d->n) && !(required.type == QN_VAL_list && required.l->n) &&
           !(others.type == QN_VAL_bool && !others.b);
}

/* A value among tags within tags. A list or an object is JSON where it would be deeper than the reader goes; so is one
 * whose keys nobody knows. */
static int nested_rule(qn_constrain *c, const qn_val *at, int depth)
{
    const int types = qn__schema_types(c->root, qn__said_at(at));
    const bool group = types == QN_TYPE_object || types == QN_TYPE_array;
    const bool tags = group &&
                      !(types == QN_TYPE_object && names_no_key(qn__schema_resolve(c->root, qn__said_at(at)))) &&
                      depth < MAX_DEPTH && (!c->strict || qn__only_refers(c, qn__said_at(at))) &&
                      next_key(c) <= (size_t)c->found->marks[QN_MARK_string_next].n_text;
    const bool json = group || (types && !(types & (QN_TYPE_string | QN_TYPE_object | QN_TYPE_array)));
    const qn_constrain_tags *known = find_tags(c, known_by(c, at), tags ? depth : -1);
    if (known) return known->rule;
    const int number = tags   ? group_rule(c, qn__schema_resolve(c->root, *at), types == QN_TYPE_array, depth)
                       : json ? json_between_tags(c, at)
                              : scalar_rule(c, at, types);
    keep_tags(c, (qn_constrain_tags){known_by(c, at), tags ? depth : -1, number});
    return number;
}

/* One of the values that a schema names, as text. */
static void put_one_of(qn_constrain *c, qn_val list)
{
    PUT(c, "( ");
    for (uint32_t i = 0; i < list.l->n; i++) {
        const qn_val v = qn__to_str(&c->reader->heap, list.l->items[i]);
        if (i) PUT(c, "| ");
        if (qn__is_str(v)) qn__put_literal(c, v.s->data, v.s->n, false);
        if (qn__is_str(v) && !v.s->n) PUT(c, "\"\" ");
    }
    PUT(c, ") ");
}

/* The value and what ends it; the rule that is called, and how much of the marks behind it is part of it. */
static void tagged_value(qn_constrain *c, qn_property *p)
{
    const qn_val schema = qn__schema_resolve(c->root, qn__said_at(p->at)), list = qn__member(schema, "enum");
    const int types = qn__schema_types(c->root, qn__said_at(p->at));
    const bool text = !types || (types & QN_TYPE_string);
    const bool by_rule = c->strict && text && !qn__any_text_does(c, p->at),
               named = !by_rule && list.type == QN_VAL_list && list.l->n;
    size_t begin;
    /* a text could begin as the form for special characters does: that form holds any */
    const bool special = text && !named && c->found->marks[QN_MARK_special_open].n;
    p->variant = !text && c->found->typed ? 2 : special;
    const size_t end = text_end(c, p->variant, &begin);
    const qn_mark *m = &c->found->marks[opens[p->variant] + 1];
    if (c->found->nested && (types == QN_TYPE_object || types == QN_TYPE_array || by_rule)) {
        p->value = nested_rule(c, p->at, 0);
        return;
    }
    const int json = text ? 0 : qn__json_rule(c, p->at);
    p->value = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", p->value);
    if (!text)
        PUT(c, "j%d ", json);
    else if (by_rule)
        qn__put_text_or_other(c, p->at, types, c->found->typed, m->text + begin, end - begin);
    else if (named)
        put_one_of(c, list);
    else
        qn__put_until(c, m->text + begin, end - begin, false);
    if (!text || by_rule || named) qn__put_literal(c, m->text, end, false);
}

int qn__tagged_rule(qn_constrain *c, qn_val schema)
{
    int n;
    qn_property *p = qn__properties_of(c, schema, &n);
    size_t begin;
    c->tags = NULL;
    c->n_tags = c->cap_tags = 0;
    for (int i = 0; p && i < n && qn__constraining(c); i++) tagged_value(c, &p[i]);
    /* rest[k]: behind the value of property k */
    const int rest = c->n_rules;
    c->n_rules += n + 1;
    for (int k = 0; k <= n && qn__constraining(c); k++) {
        const bool first = k == n;
        const int variant = first ? 0 : p[k].variant;
        const size_t used = first ? 0 : text_end(c, variant, &begin);
        bool any = false;
        PUT(c, "\nr%d ::= ", rest + k);
        for (int i = first ? 0 : k + 1; i < n; i++) {
            if (any) PUT(c, "| ");
            any = true;
            if (first)
                qn__put_mark(c, QN_MARK_first_key);
            else
                put_keyed(c, opens[variant] + 1, used, p[k].key.s->data, p[k].key.s->n);
            qn__put_literal(c, p[i].key.s->data, p[i].key.s->n, false);
            qn__put_mark(c, opens[p[i].variant]);
            PUT(c, "r%d r%d ", p[i].value, rest + i);
            if (p[i].required) break;
        }
        if (!qn__none_required(p, first ? 0 : k + 1, n)) continue;
        if (any) PUT(c, "| ");
        if (first)
            qn__put_mark(c, QN_MARK_no_keys);
        else
            put_keyed(c, opens[variant] + 2, used, p[k].key.s->data, p[k].key.s->n);
    }
    return rest + n;
}
