/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_values.c -- arguments by a tool's schema in each syntax's way of writing them: JSON, Python's
 * literals, Gemma's, marks around keys and values. Properties come in the schema's order, those that need not be there
 * or not. */
#include "text/chat/constrain.h"

#define MAX_DEPTH      12
#define MAX_PROPERTIES 200

/* Keywords that say nothing of a value. */
static const char *const annotations[] = {
    "strict",
#define QN_KEYWORD(name, kind)
#define QN_ANNOTATION(name, kind) #name,
#include "text/grammar/schema/keywords.def"
#undef QN_KEYWORD
};
/* Those of the arguments of a call as a whole. */
static const char *const of_call[] = {"type", "properties", "required", "additionalProperties", "$ref"};
/* .. and of values that are tags within tags. */
static const char *const of_tags[] = {"type", "properties", "required", "additionalProperties",
                                      "$ref", "items",      "minItems", "maxItems"};

static bool is_one_of(qn_val key, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (qn__str_is(key, words[i])) return true;
    return false;
}
#define IS_ONE_OF(key, words) is_one_of(key, words, sizeof(words) / sizeof *(words))

/* A strict tool's schema has no other keywords. */
static void check_strict(qn_constrain *c, qn_val schema, const char *const *words, size_t n)
{
    for (uint32_t i = 0; c->strict && schema.type == QN_VAL_dict && i < schema.d->n; i++) {
        const qn_val key = schema.d->keys[i];
        if (!IS_ONE_OF(key, annotations) && !is_one_of(key, words, n))
            qn__constrain_fail(c, QN_STATUS_unsupported,
                               "\"%.40s\" in a strict tool's schema: this model's syntax of calls cannot hold it",
                               schema.d->keys[i].s->data);
    }
}
#define CHECK_STRICT(c, schema, words) check_strict(c, schema, words, sizeof(words) / sizeof *(words))

/* Any text does for it: what is read as something else is that rightly. */
static bool any_text_does(qn_val schema)
{
    for (uint32_t i = 0; schema.type == QN_VAL_dict && i < schema.d->n; i++) {
        const qn_val key = schema.d->keys[i], v = schema.d->values[i];
        if (!IS_ONE_OF(key, annotations) && !qn__str_is(key, "type")) return false;
        for (uint32_t k = 0; qn__str_is(key, "type") && v.type == QN_VAL_list && k < v.l->n; k++)
            if (qn__str_is(v.l->items[k], "integer")) return false;
    }
    return schema.type != QN_VAL_bool || schema.b;
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

static int add_schema(qn_constrain *c, qn_vdict *d, bool object, const qn_dialect *dialect, bool *empty)
{
    const int number = qn__constrain_rule(c);
    char name[16];
    if (!d || !rule_name(c, number, name)) return number;
    const qn_val value = qn__of_dict(d);
    const qn_schema_options options = {.widen = !c->strict, .object = object};
    const qn_status status =
        qn__constraining(c) ? qn__grammar_add_schema(c->g, name, &value, &options, dialect, empty, c->err) : QN_OK;
    if (status != QN_OK) c->status = status;
    return number;
}

int qn__json_rule(qn_constrain *c, qn_val schema, bool object)
{
    return add_schema(c, alone(c, schema, NULL), object, NULL, NULL);
}

/* ---- texts between marks ------------------------------------------------------------------------------------- */

/* A text as the reader takes it: white space around it may belong to the marks. */
static const char between_tags[] = "^(?:[^\\x00-\\x20](?:[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]*[^\\x00-\\x20])?)?$";

/* What is read as a value of another type, where one may stand. */
static const char *not_a_text(qn_constrain *c, int types)
{
    static const struct {
        int type;
        const char *pattern;
    } rows[] = {{QN_TYPE_null, "|null|None"},
                {QN_TYPE_boolean, "|true|false|True|False"},
                {QN_TYPE_number, "|-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"},
                {QN_TYPE_array, "|[\\[(][^]*"},
                {QN_TYPE_object, "|\\{[^]*"}};
    qn_str s = {0};
    if (!(types & ~QN_TYPE_string)) return NULL;
    qn__str_puts(&s, "^(?:");
    for (size_t i = 0, n = 0; i < sizeof rows / sizeof *rows; i++)
        if (types & rows[i].type) qn__str_puts(&s, rows[i].pattern + (n++ == 0));
    qn__str_puts(&s, ")$");
    const char *kept = s.failed ? NULL : qn__arena_strndup(&c->reader->heap.arena, s.data, s.len);
    qn__str_deinit(&s);
    if (!kept) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    return kept;
}

/* The strings that satisfy a schema, as they are; types: what else is read in their place. */
static int text_rule(qn_constrain *c, qn_val schema, int types, const char *without, size_t n_without, bool *empty)
{
    const int number = qn__constrain_rule(c);
    char name[16];
    const qn_vdict *d = alone(c, schema, "string");
    const char *end = qn__arena_strndup(&c->reader->heap.arena, without, n_without);
    const qn_text_form form = {between_tags, not_a_text(c, types), end};
    if (!end) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    if (!d || !rule_name(c, number, name) || !qn__constraining(c)) return number;
    const qn_val value = qn__of_dict((qn_vdict *)d);
    const qn_status status = qn__grammar_add_text(c->g, name, &value, &form, empty, c->err);
    if (status != QN_OK) c->status = status;
    return number;
}

/* The values of a schema that are no strings, as JSON. */
static int other_rule(qn_constrain *c, qn_val schema, bool *empty)
{
    static const char *const all[] = {"null", "boolean", "number", "array", "object"};
    qn_heap *h = &c->reader->heap;
    const qn_val said = qn__member(schema, "type");
    qn_vdict *d = alone(c, schema, NULL);
    qn_vlist *types = qn__list_new(h, QN_LIST_list, 0);
    for (uint32_t i = 0; types && said.type == QN_VAL_list && i < said.l->n; i++)
        if (!qn__str_is(said.l->items[i], "string")) qn__list_add(h, types, said.l->items[i]);
    for (size_t i = 0; types && !qn__given(said) && i < sizeof all / sizeof *all; i++)
        qn__list_add(h, types, qn__text_val(h, all[i]));
    if (!d || !types) return 0;
    *empty = types->n == 0;
    if (*empty) return 0;
    qn__put(h, d, "type", qn__of_list(types));
    return add_schema(c, d, false, NULL, empty);
}

/* A strict tool's value where texts stand as they are: "( jN | jM ) ". only_text: nothing else may stand there. */
static void put_text_or_other(qn_constrain *c, qn_val schema, int types, bool only_text, const char *end, size_t n)
{
    bool no_text = true, no_other = true;
    int other = 0;
    const int read_as = only_text ? QN_TYPE_string : types ? types : QN_TYPE_any;
    const int text = text_rule(c, schema, read_as, end, n, &no_text);
    if (!only_text && (read_as & ~QN_TYPE_string)) other = other_rule(c, schema, &no_other);
    if (!qn__constraining(c)) return;
    if (no_text && no_other)
        qn__constrain_fail(c, QN_STATUS_invalid, "a strict tool's schema: no text can satisfy what it asks of a value");
    if (!no_text && !no_other)
        PUT(c, "( j%d | j%d ) ", text, other);
    else
        PUT(c, "j%d ", no_text ? other : text);
}

/* ---- literals ------------------------------------------------------------------------------------------------ */

static bool is_python(const qn_constrain *c) { return c->found->syntax->read == qn__read_python; }

/* A value written as a literal. */
static int value_rule(qn_constrain *c, qn_val schema)
{
    const qn_mark *q = &c->found->marks[QN_MARK_quote];
    static const char escapes[] = "''\\\\\nn\rr\tt";
    char *quote = qn__arena_strndup(&c->reader->heap.arena, q->text ? q->text : "", (size_t)q->n_text);
    if (!quote) {
        qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
        return 0;
    }
    const char first[2] = {quote[0]};
    qn_dialect d = {.null = "null", .yes = "true", .no = "false", .quote = quote, .escapes = ""};
    d.token = qn__mark_token(c, quote, (size_t)q->n_text);
    d.never = d.token == QN_TOKEN_NONE ? first : "";
    d.bare_keys = d.lines = true;
    if (is_python(c))
        d = (qn_dialect){.null = "None",
                         .yes = "True",
                         .no = "False",
                         .quote = "'",
                         .token = QN_TOKEN_NONE,
                         .never = "'\\",
                         .escapes = c->found->raw_strings ? "" : escapes};
    return add_schema(c, alone(c, qn__schema_resolve(c->root, schema), NULL), false, &d, NULL);
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

/* The arguments of a call: {k:v} or (k=v). */
static int members_rule(qn_constrain *c, qn_val schema)
{
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    const int n = p ? properties_of(c, schema, p) : 0;
    const bool python = is_python(c);
    for (int i = 0; i < n && qn__constraining(c); i++) p[i].value = value_rule(c, p[i].schema);
    /* rest[i]: what may come after one of the properties before i */
    const int rest = c->n_rules;
    c->n_rules += n + 2;
    for (int k = 0; k <= n + 1 && qn__constraining(c); k++) {
        const bool first = k == n + 1;
        bool any = false;
        PUT(c, "\nr%d ::= ", rest + k);
        if (first) PUT(c, "\"%s\" ( ", python ? "(" : "{");
        for (int i = first ? 0 : k; i < n; i++) {
            if (any) PUT(c, "| ");
            any = true;
            if (!first) PUT(c, python ? "\", \" " : "\",\" ");
            qn__put_literal(c, p[i].key.s->data, p[i].key.s->n, false);
            PUT(c, python ? "\"=\" j%d r%d " : "\":\" j%d r%d ", p[i].value, rest + i + 1);
            if (p[i].required) break;
        }
        if (none_required(p, first ? 0 : k, n)) PUT(c, any ? "| \"\" " : "\"\" ");
        if (first) PUT(c, ") \"%s\" ", python ? ")" : "}");
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

/* The end of a group: an element of a list, as many of them as a strict tool asks for. */
static void put_count(qn_constrain *c, qn_val schema)
{
    const qn_val least = qn__member(schema, "minItems"), most = qn__member(schema, "maxItems");
    const int64_t min = c->strict && least.type == QN_VAL_int && least.i > 0 ? least.i : 0;
    const int64_t max = c->strict && most.type == QN_VAL_int ? most.i : -1;
    if (max >= 0 && max < min) qn__constrain_fail(c, QN_STATUS_invalid, "a tool's schema: maxItems is below minItems");
    PUT(c, "){%lld,", (long long)min);
    if (max >= 0) PUT(c, "%lld", (long long)max);
    PUT(c, "} ");
}

/* Nested values: tags within tags. */
static int nested_rule(qn_constrain *c, qn_val schema, int depth)
{
    schema = qn__schema_resolve(c->root, schema);
    const int types = qn__schema_types(c->root, schema), tags = QN_TYPE_object | QN_TYPE_array;
    const bool all_tags = types == QN_TYPE_object || types == QN_TYPE_array;
    const bool by_rule = c->strict && !all_tags && !any_text_does(schema);
    const qn_mark *next = &c->found->marks[QN_MARK_string_next], *named = &c->found->marks[QN_MARK_string_open];
    size_t begin;
    const size_t close = text_end(c, 0, &begin), behind = close + 6 + (size_t)named->n_text;
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    int n = 0, item = 0;
    if (!p || behind > (size_t)next->n_text || depth > MAX_DEPTH) return qn__json_rule(c, schema, false);
    if (all_tags) CHECK_STRICT(c, schema, of_tags);
    if (by_rule && (!types || (types & tags)))
        qn__constrain_fail(
            c, QN_STATUS_unsupported,
            "a strict tool's schema: a list or object that may be something else; this model's syntax of "
            "calls cannot hold it");
    if (types == QN_TYPE_object) n = properties_of(c, schema, p);
    for (int i = 0; i < n && qn__constraining(c); i++) p[i].value = nested_rule(c, p[i].schema, depth + 1);
    if (types == QN_TYPE_array) item = nested_rule(c, qn__member(schema, "items"), depth + 1);
    const bool json = types && !(types & (tags | QN_TYPE_string));
    const int scalar = json ? qn__json_rule(c, schema, false) : 0, number = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", number); /* the value and what ends it, without the key in that and what follows */
    if (by_rule && !json) put_text_or_other(c, schema, types, false, next->text + begin, close - begin);
    for (int i = 0; i <= (types == QN_TYPE_array ? 0 : n - 1); i++) {
        const char *key = n ? p[i].key.s->data : "item";
        const size_t n_key = n ? p[i].key.s->n : 4;
        PUT(c, "( ");
        qn__put_literal(c, next->text + behind, (size_t)next->n_text - behind, false);
        qn__put_literal(c, key, n_key, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        PUT(c, "r%d ", n ? p[i].value : item);
        qn__put_literal(c, key, n_key, false);
        qn__put_literal(c, named->text, (size_t)named->n_text, false);
        if (n)
            PUT(c, p[i].required ? ") " : ")? ");
        else
            put_count(c, schema);
    }
    if (json) PUT(c, "j%d ", scalar);
    if (json || all_tags || by_rule)
        qn__put_literal(c, next->text + begin, close - begin, false);
    else
        qn__put_until(c, next->text + begin, close - begin, false);
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
static void tagged_value(qn_constrain *c, property *p)
{
    const qn_val schema = qn__schema_resolve(c->root, p->schema), list = qn__member(schema, "enum");
    const int types = qn__schema_types(c->root, schema);
    const bool text = !types || (types & QN_TYPE_string);
    const bool by_rule = c->strict && text && !any_text_does(schema), named = !by_rule && list.type == QN_VAL_list;
    size_t begin;
    /* a text could begin as the form for special characters does: that form holds any */
    const bool special = text && !named && c->found->marks[QN_MARK_special_open].n;
    p->variant = !text && c->found->typed ? 2 : special;
    const size_t end = text_end(c, p->variant, &begin);
    const qn_mark *m = &c->found->marks[opens[p->variant] + 1];
    if (c->found->nested && (types == QN_TYPE_object || types == QN_TYPE_array || by_rule)) {
        p->value = nested_rule(c, schema, 0);
        return;
    }
    const int json = text ? 0 : qn__json_rule(c, schema, false);
    p->value = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", p->value);
    if (!text)
        PUT(c, "j%d ", json);
    else if (by_rule)
        put_text_or_other(c, schema, types, c->found->typed, m->text + begin, end - begin);
    else if (named)
        put_one_of(c, list);
    else
        qn__put_until(c, m->text + begin, end - begin, false);
    if (!text || by_rule || named) qn__put_literal(c, m->text, end, false);
}

static int tagged_rule(qn_constrain *c, qn_val schema)
{
    property *p = qn__heap_alloc(&c->reader->heap, MAX_PROPERTIES * sizeof *p);
    const int n = p ? properties_of(c, schema, p) : 0;
    size_t begin;
    for (int i = 0; i < n && qn__constraining(c); i++) tagged_value(c, &p[i]);
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
    CHECK_STRICT(c, parameters, of_call);
    return c->found->syntax->read == qn__read_tagged ? tagged_rule(c, parameters) : members_rule(c, parameters);
}
