/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_values.c -- arguments by a tool's schema in each syntax's way of writing them: JSON, Python's
 * literals, Gemma's, marks around keys and values. Properties come in the schema's order, those that need not be there
 * or not. */
#include "text/chat/constrain.h"

#define MAX_DEPTH      12
#define MAX_PROPERTIES 200

/* Keywords that hold in every syntax; strict tools with others are refused where values are not JSON. */
static const char *const held[] = {"type",        "properties", "required",
                                   "items",       "enum",       "const",
                                   "$ref",        "$defs",      "title",
                                   "description", "default",    "definitions",
                                   "$schema",     "$id",        "$comment",
                                   "examples",    "strict",     "additionalProperties"};
/* Those of one type, which a rule of its own holds. */
static const char *const of_text[] = {"pattern", "format", "minLength", "maxLength"};
static const char *const of_number[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
static const char *const of_list[] = {"minItems", "maxItems"};
#define HAS(schema, words) has_word(schema, words, sizeof(words) / sizeof *(words))

static bool has_word(qn_val schema, const char *const *words, size_t n)
{
    for (size_t i = 0; schema.type == QN_VAL_dict && i < n; i++)
        if (qn__dict_find(schema.d, words[i], NULL)) return true;
    return false;
}

static bool is_one_of(qn_val key, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (qn__str_is(key, words[i])) return true;
    return false;
}
#define IS_ONE_OF(key, words) is_one_of(key, words, sizeof(words) / sizeof *(words))

/* typed: a keyword of one type is held. */
static void check_strict(qn_constrain *c, qn_val schema, bool typed)
{
    for (uint32_t i = 0; c->strict && schema.type == QN_VAL_dict && i < schema.d->n; i++) {
        const qn_val key = schema.d->keys[i];
        const bool known = IS_ONE_OF(key, held) ||
                           (typed && (IS_ONE_OF(key, of_text) || IS_ONE_OF(key, of_number) || IS_ONE_OF(key, of_list)));
        if (!known)
            qn__constrain_fail(c, QN_STATUS_unsupported,
                               "\"%.40s\" in a strict tool's schema: this model's syntax of calls cannot hold it",
                               schema.d->keys[i].s->data);
    }
}

/* A schema that stands alone: with the definitions of the whole, and of `type` where that is given. */
static qn_vdict *alone(qn_constrain *c, qn_val schema, const char *type)
{
    static const char *const shared[] = {"$defs", "definitions"};
    qn_heap *h = &c->reader->heap;
    qn_vdict *d = qn__dict_new(h);
    if (schema.type == QN_VAL_bool && d) {
        if (!schema.b) qn__put(h, d, "enum", qn__of_list(qn__list_new(h, QN_LIST_list, 0)));
    } else if (schema.type == QN_VAL_dict && d) {
        for (uint32_t i = 0; i < schema.d->n; i++) qn__dict_set(h, d, schema.d->keys[i], schema.d->values[i]);
        for (size_t i = 0; i < 2; i++) {
            const qn_val defs = qn__member(c->root, shared[i]);
            if (qn__given(defs) && !qn__given(qn__member(schema, shared[i]))) qn__put(h, d, shared[i], defs);
        }
    }
    if (d && type) qn__put(h, d, "type", qn__text_val(h, type));
    if (d && h->status == QN_OK) return d;
    qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    return NULL;
}

/* "jN" */
static bool rule_name(qn_constrain *c, int number, char name[16])
{
    qn_str s = {0};
    qn__str_printf(&s, "j%d", number);
    const bool good = !s.failed && s.len < 16;
    if (good) memcpy(name, s.data, s.len + 1);
    qn__str_deinit(&s);
    if (!good) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    return good;
}

/* A string as it is, in which `without` does not come. */
static int text_rule(qn_constrain *c, qn_val schema, const char *pattern, const char *without, size_t n_without)
{
    const int number = qn__constrain_rule(c);
    char name[16];
    const qn_vdict *d = alone(c, schema, "string");
    char *end = qn__arena_strndup(&c->reader->heap.arena, without ? without : "", n_without);
    if (!end) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    if (!d || !end || !rule_name(c, number, name) || !qn__constraining(c)) return number;
    const qn_val value = qn__of_dict((qn_vdict *)d);
    const qn_status status = qn__grammar_add_text(c->g, name, &value, pattern, end, c->err);
    if (status != QN_OK) c->status = status;
    return number;
}

int qn__json_rule(qn_constrain *c, qn_val schema, bool object)
{
    const int number = qn__constrain_rule(c);
    char name[16];
    qn_vdict *d = alone(c, schema, NULL);
    if (!d || !rule_name(c, number, name)) return number;
    const qn_val value = qn__of_dict(d);
    const qn_schema_options options = {.widen = !c->strict, .object = object};
    const qn_status status = qn__constraining(c) ? qn__grammar_add_schema(c->g, name, &value, &options, c->err) : QN_OK;
    if (status != QN_OK) c->status = status;
    return number;
}

/* ---- literals ------------------------------------------------------------------------------------------------ */

static int value_rule(qn_constrain *c, qn_val schema, int depth);
static int members_rule(qn_constrain *c, qn_val schema, int depth, bool call);

static bool is_python(const qn_constrain *c) { return c->found->syntax->read == qn__read_python; }

static void put_string(qn_constrain *c, const char *s, size_t n)
{
    if (is_python(c)) {
        qn__put_literal(c, "'", 1, false);
        qn_str escaped = {0};
        for (size_t i = 0; i < n; i++) {
            if (!c->found->raw_strings && (s[i] == '\'' || s[i] == '\\')) qn__str_putc(&escaped, '\\');
            qn__str_putc(&escaped, s[i]);
        }
        c->text.failed |= escaped.failed;
        qn__put_literal(c, escaped.data ? escaped.data : "", escaped.len, false);
        qn__str_deinit(&escaped);
        qn__put_literal(c, "'", 1, false);
        return;
    }
    qn__put_mark(c, QN_MARK_quote);
    qn__put_literal(c, s, n, false);
    qn__put_mark(c, QN_MARK_quote);
}

static void put_value(qn_constrain *c, qn_val v)
{
    const bool python = is_python(c);
    if (qn__is_str(v)) {
        put_string(c, v.s->data, v.s->n);
    } else if (v.type == QN_VAL_bool || v.type == QN_VAL_none) {
        PUT(c, "\"%s\" ",
            v.type == QN_VAL_none ? (python ? "None" : "null")
            : python              ? (v.b ? "True" : "False")
                                  : (v.b ? "true" : "false"));
    } else {
        qn_vbuf b = {.h = &c->reader->heap};
        qn__print_json(&b, v, &(qn_json_style){.indent = -1});
        const qn_val text = qn__buf_val(&b);
        if (qn__is_str(text)) qn__put_literal(c, text.s->data, text.s->n, false);
    }
}

/* A string by the rule of a strict tool's keywords; -1: any. */
static void put_string_by(qn_constrain *c, int rule)
{
    const qn_mark *q = &c->found->marks[QN_MARK_quote];
    if (rule >= 0) {
        if (is_python(c)) PUT(c, "\"'\" j%d \"'\" ", rule);
        if (is_python(c)) return;
        qn__put_mark(c, QN_MARK_quote);
        PUT(c, "j%d ", rule);
        qn__put_mark(c, QN_MARK_quote);
        return;
    }
    if (is_python(c)) {
        PUT(c, "\"'\" [^'\\\\\\x00-\\x1f]* \"'\" ");
        return;
    }
    qn__put_mark(c, QN_MARK_quote);
    qn__put_until(c, q->text, (size_t)q->n_text, false);
}

/* Elements in brackets, as many as a strict tool asks for. */
static void put_list(qn_constrain *c, qn_val schema, int element)
{
    const qn_val least = qn__member(schema, "minItems"), most = qn__member(schema, "maxItems");
    int64_t min = c->strict && least.type == QN_VAL_int ? least.i : 0;
    const int64_t max = c->strict && most.type == QN_VAL_int ? most.i : -1;
    if (min < 0) min = 0;
    if (max >= 0 && max < min) qn__constrain_fail(c, QN_STATUS_invalid, "a tool's schema: maxItems is below minItems");
    PUT(c, "\"[\" ");
    if (max != 0) {
        PUT(c, min ? "r%d (\",\" \" \"? r%d){%lld," : "( r%d (\",\" \" \"? r%d){%lld,", element, element,
            (long long)(min ? min - 1 : 0));
        if (max > 0) PUT(c, "%lld", (long long)max - 1);
        PUT(c, min ? "} " : "} )? ");
    }
    PUT(c, "\"]\" ");
}

/* parts: the rules of an object, an element, a text, a number; -1: any text, any number. */
static void put_types(qn_constrain *c, qn_val schema, int types, int depth, const int parts[4])
{
    const bool python = is_python(c);
    bool any = false;
    for (int bit = 1; bit <= QN_TYPE_null; bit <<= 1) {
        if (!(types & bit)) continue;
        if (any) PUT(c, "| ");
        any = true;
        switch (bit) {
        case QN_TYPE_string: put_string_by(c, parts[2]); break;
        case QN_TYPE_number:
            if (parts[3] >= 0)
                PUT(c, "j%d ", parts[3]);
            else
                PUT(c, qn__str_is(qn__member(schema, "type"), "integer") ? "plain-integer " : "plain-number ");
            break;
        case QN_TYPE_boolean: PUT(c, python ? "\"True\" | \"False\" " : "\"true\" | \"false\" "); break;
        case QN_TYPE_object: PUT(c, "r%d ", parts[0]); break;
        case QN_TYPE_array: put_list(c, schema, parts[1]); break;
        default: PUT(c, python ? "\"None\" " : "\"null\" "); break;
        }
    }
    (void)depth;
}

/* A value written as a literal. */
static int value_rule(qn_constrain *c, qn_val schema, int depth)
{
    static const char python_text[] = "^[^'\\\\\\x00-\\x1f]*$", plain_text[] = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]*$";
    schema = qn__schema_resolve(c->root, schema);
    check_strict(c, schema, true);
    const qn_val list = qn__member(schema, "enum");
    qn_val only;
    int types = qn__schema_types(c->root, schema, 0), parts[4] = {0, 0, -1, -1};
    if (depth > MAX_DEPTH) { /* a schema that calls itself */
        if (c->strict)
            qn__constrain_fail(c, QN_STATUS_unsupported, "a strict tool's schema: nested more than %d deep", MAX_DEPTH);
        types = QN_TYPE_string | QN_TYPE_number | QN_TYPE_boolean | QN_TYPE_null;
    }
    if (!types) types = depth > 3 ? QN_TYPE_string | QN_TYPE_number | QN_TYPE_boolean | QN_TYPE_null : QN_TYPE_any;
    const bool fixed =
        list.type == QN_VAL_list || (schema.type == QN_VAL_dict && qn__dict_find(schema.d, "const", NULL));
    if (!fixed && (types & QN_TYPE_object)) parts[0] = members_rule(c, schema, depth + 1, false);
    if (!fixed && (types & QN_TYPE_array)) parts[1] = value_rule(c, qn__member(schema, "items"), depth + 1);
    if (c->strict && !fixed && (types & QN_TYPE_string) && HAS(schema, of_text)) {
        const qn_mark *q = &c->found->marks[QN_MARK_quote];
        const bool python = is_python(c);
        parts[2] = text_rule(c, schema, python ? python_text : plain_text, python ? NULL : q->text,
                             python ? 0 : (size_t)q->n_text);
    }
    if (c->strict && !fixed && (types & QN_TYPE_number) && HAS(schema, of_number)) {
        const bool whole = qn__str_is(qn__member(schema, "type"), "integer");
        const qn_vdict *d = alone(c, schema, whole ? "integer" : "number");
        if (d) parts[3] = qn__json_rule(c, qn__of_dict((qn_vdict *)d), false);
    }
    const int number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", number);
    if (schema.type == QN_VAL_dict && qn__dict_find(schema.d, "const", &only)) {
        put_value(c, only);
    } else if (list.type == QN_VAL_list) {
        for (uint32_t i = 0; i < list.l->n; i++) {
            if (i) PUT(c, "| ");
            put_value(c, list.l->items[i]);
        }
    } else {
        put_types(c, schema, types, depth, parts);
    }
    return number;
}

/* ---- properties in order ------------------------------------------------------------------------------------ */

typedef struct property {
    qn_val key, schema;
    bool required;
    int value;   /* its rule */
    int variant; /* tagged: 0 text, 1 text with special characters, 2 other */
} property;

static int properties_of(qn_constrain *c, qn_val schema, property *out)
{
    const qn_val properties = qn__member(schema, "properties"), required = qn__member(schema, "required");
    int n = 0;
    if (properties.type != QN_VAL_dict) return 0;
    if (properties.d->n > MAX_PROPERTIES) {
        qn__constrain_fail(c, QN_STATUS_limit, "a tool's schema: more than %d properties", MAX_PROPERTIES);
        return 0;
    }
    for (uint32_t i = 0; i < properties.d->n; i++, n++) {
        out[n] = (property){.key = properties.d->keys[i], .schema = properties.d->values[i]};
        for (uint32_t k = 0; required.type == QN_VAL_list && k < required.l->n; k++)
            out[n].required |= qn__val_equal(required.l->items[k], out[n].key);
    }
    return n;
}

static bool none_required(const property *p, int from, int n)
{
    for (int i = from; i < n; i++)
        if (p[i].required) return false;
    return true;
}

/* {..} or the parentheses of a call. */
static int members_rule(qn_constrain *c, qn_val schema, int depth, bool call)
{
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    const int n = p ? properties_of(c, schema, p) : 0;
    const char *open = call && is_python(c) ? "(" : "{", *close = call && is_python(c) ? ")" : "}";
    const bool python = is_python(c);
    for (int i = 0; i < n && qn__constraining(c); i++) p[i].value = value_rule(c, p[i].schema, depth + 1);
    /* rest[i]: what may come after one of the properties before i */
    const int rest = c->n_rules;
    c->n_rules += n + 2;
    for (int k = 0; k <= n + 1 && qn__constraining(c); k++) {
        const bool first = k == n + 1;
        bool any = false;
        PUT(c, "\nr%d ::= ", rest + k);
        if (first) PUT(c, "\"%s\" ( ", open);
        for (int i = first ? 0 : k; i < n; i++) {
            if (any) PUT(c, "| ");
            any = true;
            if (!first) PUT(c, python ? "\", \" " : "\",\" ");
            if (python && !call) put_string(c, p[i].key.s->data, p[i].key.s->n);
            if (!python || call) qn__put_literal(c, p[i].key.s->data, p[i].key.s->n, false);
            PUT(c,
                call && python ? "\"=\" r%d r%d "
                : python       ? "\": \" r%d r%d "
                               : "\":\" r%d r%d ",
                p[i].value, rest + i + 1);
            if (p[i].required) break;
        }
        if (none_required(p, first ? 0 : k, n)) PUT(c, any ? "| \"\" " : "\"\" ");
        if (first) PUT(c, ") \"%s\" ", close);
    }
    return rest + n + 1;
}

/* ---- marks around keys and values ------------------------------------------------------------------------------ */

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

/* Nested values: tags within tags. */
static int nested_rule(qn_constrain *c, qn_val schema, int depth)
{
    schema = qn__schema_resolve(c->root, schema);
    const int types = qn__schema_types(c->root, schema, 0);
    if (!types || (types & QN_TYPE_string)) check_strict(c, schema, false);
    const qn_mark *next = &c->found->marks[QN_MARK_string_next], *named = &c->found->marks[QN_MARK_string_open];
    size_t begin;
    const size_t close = text_end(c, 0, &begin), behind = close + 6 + (size_t)named->n_text;
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    int n = 0, item = 0;
    if (!p || behind > (size_t)next->n_text || depth > MAX_DEPTH) return qn__json_rule(c, schema, false);
    if (types == QN_TYPE_object) n = properties_of(c, schema, p);
    for (int i = 0; i < n && qn__constraining(c); i++) p[i].value = nested_rule(c, p[i].schema, depth + 1);
    if (types == QN_TYPE_array) item = nested_rule(c, qn__member(schema, "items"), depth + 1);
    const bool json = types && !(types & (QN_TYPE_object | QN_TYPE_array | QN_TYPE_string));
    const int scalar = json ? qn__json_rule(c, schema, false) : 0, number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", number); /* the value and what ends it, without the key in that and what follows */
    for (int i = 0; i <= (types == QN_TYPE_array ? 0 : n - 1); i++) {
        const char *key = n ? p[i].key.s->data : "item";
        const size_t n_key = n ? p[i].key.s->n : 4;
        PUT(c, n && p[i].required ? "( " : "( ");
        qn__put_literal(c, next->text + behind, (size_t)next->n_text - behind, false);
        qn__put_literal(c, key, n_key, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        PUT(c, "r%d ", n ? p[i].value : item);
        qn__put_literal(c, key, n_key, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        PUT(c, n ? p[i].required ? ") " : ")? " : ")* ");
    }
    if (json) PUT(c, "j%d ", scalar);
    if (json || types == QN_TYPE_object || types == QN_TYPE_array)
        qn__put_literal(c, next->text + begin, close - begin, false);
    else
        qn__put_until(c, next->text + begin, close - begin, false);
    return number;
}

/* The value and what ends it; the rule that is called, and how much of the marks behind it is part of it. */
static void tagged_value(qn_constrain *c, property *p, int depth)
{
    const qn_val schema = qn__schema_resolve(c->root, p->schema), list = qn__member(schema, "enum");
    const int types = qn__schema_types(c->root, schema, 0);
    const bool text = !types || (types & QN_TYPE_string);
    size_t begin;
    (void)depth;
    /* a text could begin as the form for special characters does: that form holds any */
    const bool special = text && list.type != QN_VAL_list && c->found->marks[QN_MARK_special_open].n;
    p->variant = !text && c->found->typed ? 2 : special;
    const size_t end = text_end(c, p->variant, &begin);
    const qn_mark *m = &c->found->marks[opens[p->variant] + 1];
    static const char between_tags[] = "^(?:[^\\x00-\\x20](?:[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]*[^\\x00-\\x20])?)?$";
    const bool by_rule = c->strict && text && list.type != QN_VAL_list && HAS(schema, of_text);
    if (text) check_strict(c, schema, true);
    if (c->found->nested && (types == QN_TYPE_object || types == QN_TYPE_array)) {
        p->value = nested_rule(c, schema, 0);
        return;
    }
    const int json = by_rule ? text_rule(c, schema, between_tags, m->text + begin, end - begin)
                     : text  ? 0
                             : qn__json_rule(c, schema, false);
    p->value = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", p->value);
    if (!text || by_rule) {
        PUT(c, "j%d ", json);
        qn__put_literal(c, m->text, end, false);
    } else if (list.type == QN_VAL_list) {
        PUT(c, "( ");
        for (uint32_t i = 0; i < list.l->n; i++) {
            const qn_val v = qn__to_str(&c->reader->heap, list.l->items[i]);
            if (i) PUT(c, "| ");
            if (qn__is_str(v)) qn__put_literal(c, v.s->data, v.s->n, false);
            if (qn__is_str(v) && !v.s->n) PUT(c, "\"\" ");
        }
        PUT(c, ") ");
        qn__put_literal(c, m->text, end, false);
    } else {
        qn__put_until(c, m->text + begin, end - begin, false);
    }
}

static int tagged_rule(qn_constrain *c, qn_val schema)
{
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    const int n = p ? properties_of(c, schema, p) : 0;
    size_t begin;
    for (int i = 0; i < n && qn__constraining(c); i++) tagged_value(c, &p[i], 0);
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
        if (!none_required(p, first ? 0 : k + 1, n)) continue;
        if (any) PUT(c, "| ");
        if (first)
            qn__put_mark(c, QN_MARK_no_keys);
        else
            put_keyed(c, opens[variant] + 2, used, p[k].key.s->data, p[k].key.s->n);
    }
    return rest + n;
}

int qn__arguments_rule(qn_constrain *c, qn_val parameters)
{
    c->root = parameters;
    parameters = qn__schema_resolve(parameters, parameters);
    check_strict(c, c->found->syntax->read == qn__read_json ? qn__absent() : parameters, false);
    if (c->found->syntax->read == qn__read_tagged) return tagged_rule(c, parameters);
    return members_rule(c, parameters, 0, true);
}
