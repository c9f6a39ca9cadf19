/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_values.c -- arguments by a tool's schema in each syntax's way of writing them: JSON, Python's
 * literals or Gemma's; marks around keys and values are constrain_tags.c. Properties come in the schema's order, those
 * that need not be there or not. */
#include "text/chat/constrain_values.h"

#define MAX_PROPERTIES 200

/* Keywords that say nothing of a value. */
static const char *const annotations[] = {
    "strict",
#define QN_KEYWORD(name, kind)
#define QN_ANNOTATION(name, kind) #name,
#include "text/grammar/schema/keywords.def"
#undef QN_KEYWORD
};
/* Those of the arguments of a call as a whole, and of a schema that refers to what says them. */
static const char *const of_call[] = {"type", "properties", "required", "additionalProperties"};
static const char *const beside_ref[] = {"$ref", "type", "properties"};

static bool is_one_of(qn_val key, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (qn__str_is(key, words[i])) return true;
    return false;
}
#define IS_ONE_OF(key, words) is_one_of(key, words, sizeof(words) / sizeof *(words))

void qn__check_strict(qn_constrain *c, qn_val schema, const char *const *words, size_t n)
{
    for (uint32_t i = 0; c->strict && schema.type == QN_VAL_dict && i < schema.d->n; i++) {
        const qn_val key = schema.d->keys[i];
        if (!IS_ONE_OF(key, annotations) && !is_one_of(key, words, n))
            qn__constrain_fail(c, QN_STATUS_unsupported,
                               "\"%.40s\" in a strict tool's schema: this model's syntax of calls cannot hold it",
                               schema.d->keys[i].s->data);
    }
}

const qn_val *qn__place_of(qn_val schema, const char *keyword)
{
    return schema.type == QN_VAL_dict ? qn__dict_slot(schema.d, keyword, strlen(keyword)) : NULL;
}

bool qn__only_refers(const qn_constrain *c, qn_val schema)
{
    for (int i = 0; qn__given(qn__member(schema, "$ref")); i++) {
        for (uint32_t k = 0; k < schema.d->n; k++)
            if (!IS_ONE_OF(schema.d->keys[k], annotations) && !qn__str_is(schema.d->keys[k], "$ref")) return false;
        schema = qn__schema_follow(c->root, schema);
        if (i == QN_VALUE_MAX_REFS || !qn__given(schema)) return false;
    }
    return true;
}

bool qn__any_text_does(const qn_constrain *c, const qn_val *at)
{
    const qn_val schema = qn__schema_resolve(c->root, qn__said_at(at));
    if (!qn__only_refers(c, qn__said_at(at))) return false;
    for (uint32_t i = 0; schema.type == QN_VAL_dict && i < schema.d->n; i++) {
        const qn_val key = schema.d->keys[i], v = schema.d->values[i];
        if (!IS_ONE_OF(key, annotations) && !qn__str_is(key, "type")) return false;
        for (uint32_t k = 0; qn__str_is(key, "type") && v.type == QN_VAL_list && k < v.l->n; k++)
            if (qn__str_is(v.l->items[k], "integer")) return false;
    }
    return schema.type != QN_VAL_bool || schema.b;
}

/* ---- rules by a schema --------------------------------------------------------------------------------------- */

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

/* The values of a schema, or strings of a form; *empty: there is none, and the rule must not be called. */
static int add_rule(qn_constrain *c, const qn_val *at, bool others, const qn_text_form *form, bool *empty)
{
    const int number = qn__constrain_rule(c);
    char name[16];
    *empty = true;
    if (!rule_name(c, number, name) || !qn__constraining(c)) return number;
    const qn_status status =
        form ? qn__schema_texts(c->schema, name, at, form, empty) : qn__schema_rule(c->schema, name, at, others, empty);
    if (status != QN_OK) c->status = status;
    return number;
}

int qn__json_rule(qn_constrain *c, const qn_val *at)
{
    bool empty;
    const int number = add_rule(c, at, false, NULL, &empty);
    if (!empty || !qn__constraining(c)) return number;
    if (c->strict || at == &c->root) qn__constrain_fail(c, QN_STATUS_invalid, "schema: no value can satisfy it");
    return add_rule(c, NULL, false, NULL, &empty);
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
static int text_rule(qn_constrain *c, const qn_val *at, int types, const char *without, size_t n_without, bool *empty)
{
    const char *end = qn__arena_strndup(&c->reader->heap.arena, without, n_without);
    const qn_text_form form = {.pattern = between_tags, .never = not_a_text(c, types), .without = end};
    if (!end) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    return add_rule(c, at, false, &form, empty);
}

void qn__put_text_or_other(qn_constrain *c, const qn_val *at, int types, bool only_text, const char *end, size_t n)
{
    bool no_text, no_other = true;
    int other = 0;
    const int read_as = only_text ? QN_TYPE_string : types ? types : QN_TYPE_any;
    const int text = text_rule(c, at, read_as, end, n, &no_text);
    if (read_as & ~QN_TYPE_string) other = add_rule(c, at, true, NULL, &no_other);
    if (!qn__constraining(c)) return;
    if (no_text && no_other)
        qn__constrain_fail(c, QN_STATUS_invalid, "a strict tool's schema: no text can satisfy what it asks of a value");
    if (!no_text && !no_other)
        PUT(c, "( j%d | j%d ) ", text, other);
    else
        PUT(c, "j%d ", no_text ? other : text);
}

/* ---- properties in order ------------------------------------------------------------------------------------ */

/* Of the names that are required and have no property of their own, the next one. */
static bool add_required(qn_constrain *c, qn_val schema, qn_val name, qn_property *p, int *n, int n_named)
{
    for (int i = n_named; i < *n; i++)
        if (qn__val_equal(p[i].key, name)) return true;
    const qn_val *others = qn__place_of(schema, "additionalProperties");
    if (others && others->type == QN_VAL_bool && !others->b) {
        if (c->strict)
            qn__constrain_fail(c, QN_STATUS_invalid,
                               "a strict tool's schema: \"%.40s\" is required, and additionalProperties forbids it",
                               name.s->data);
        return true; /* of another tool: no call could be made at all */
    }
    if (*n == MAX_PROPERTIES) return false;
    p[(*n)++] = (qn_property){.key = name, .at = others, .required = true};
    return true;
}

qn_property *qn__properties_of(qn_constrain *c, qn_val schema, int *n)
{
    const qn_val properties = qn__member(schema, "properties"), required = qn__member(schema, "required");
    const uint32_t n_named = properties.type == QN_VAL_dict ? properties.d->n : 0,
                   n_required = required.type == QN_VAL_list ? required.l->n : 0;
    bool room = n_named <= MAX_PROPERTIES;
    *n = 0;
    const uint32_t most = n_required < MAX_PROPERTIES ? n_named + n_required : n_named + MAX_PROPERTIES;
    qn_property *p = room ? qn__heap_alloc(&c->reader->heap, (most + 1) * sizeof *p) : NULL;
    for (uint32_t i = 0; p && i < n_named; i++)
        p[(*n)++] = (qn_property){.key = properties.d->keys[i], .at = &properties.d->values[i]};
    for (uint32_t i = 0; p && room && i < n_required && qn__constraining(c); i++) {
        const qn_val name = required.l->items[i];
        if (!qn__is_str(name)) continue;
        const qn_val *named = n_named ? qn__dict_slot(properties.d, name.s->data, name.s->n) : NULL;
        if (named)
            p[named - properties.d->values].required = true;
        else
            room = add_required(c, schema, name, p, n, (int)n_named);
    }
    if (!room) qn__constrain_fail(c, QN_STATUS_limit, "a tool's schema: more than %d properties", MAX_PROPERTIES);
    return qn__constrain_heap(c) ? p : NULL;
}

bool qn__none_required(const qn_property *p, int from, int n)
{
    for (int i = from; i < n; i++)
        if (p[i].required) return false;
    return true;
}

/* ---- literals ------------------------------------------------------------------------------------------------ */

static bool is_python(const qn_constrain *c) { return c->found->syntax->read == qn__read_python; }

bool qn__arguments_dialect(qn_constrain *c, qn_dialect *out)
{
    const qn_mark *q = &c->found->marks[QN_MARK_quote];
    const size_t n = q->text ? (size_t)q->n_text : 0;
    if (c->found->syntax->read == qn__read_tagged) return false;
    *out = (qn_dialect){.null = "None",
                        .yes = "True",
                        .no = "False",
                        .quote = "'",
                        .token = QN_TOKEN_NONE,
                        .never = "'\\",
                        .escapes = "''\\\\\nn\rr\tt"};
    if (is_python(c)) return true;
    const char *quote = qn__arena_strndup(&c->reader->heap.arena, n ? q->text : "", n);
    const char *first = qn__arena_strndup(&c->reader->heap.arena, n ? q->text : "", n ? 1 : 0);
    if (!quote || !first) {
        qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
        return false;
    }
    *out = (qn_dialect){.null = "null",
                        .yes = "true",
                        .no = "false",
                        .quote = quote,
                        .token = qn__mark_token(c, quote, n),
                        .never = "",
                        .escapes = "",
                        .lines = true,
                        .bare_keys = true};
    if (out->token == QN_TOKEN_NONE) out->never = first;
    return true;
}

/* Whether the reader takes a text between quotes for itself where nothing is escaped. */
static bool reads_as_it_is(const char *text, size_t n, bool *nomem)
{
    static const char before[] = "(a='", after[] = "')]";
    qn_literal l;
    qn_str want = {0}, got = {0};
    size_t m = 0, used;
    qn_sym *w = qn__alloc((n + sizeof before + sizeof after) * sizeof *w);
    for (const char *p = before; w && *p; p++) w[m++] = (unsigned char)*p;
    for (size_t i = 0; w && i < n; i++) w[m++] = (unsigned char)text[i];
    for (const char *p = after; w && *p; p++) w[m++] = (unsigned char)*p;
    qn__str_puts(&want, "{\"a\": \"");
    for (size_t i = 0; i < n; i++) qn__put_escaped(&want, (unsigned char)text[i]);
    qn__str_puts(&want, "\"}");
    qn__literal_init(&l, QN_LITERAL_python, true);
    l.raw_strings = true;
    const bool done = w && qn__literal_read(&l, w, m, true, &used, &got) == QN_LITERAL_done;
    *nomem = !w || want.failed || got.failed;
    const bool good = done && !*nomem && want.len == got.len && memcmp(want.data, got.data, want.len) == 0;
    qn__free(w);
    qn__str_deinit(&want);
    qn__str_deinit(&got);
    return good;
}

/* The value of an argument; false: none can be written. Where nothing in it is escaped a text is one between quotes. */
static bool value_rule(qn_constrain *c, qn_property *p, const qn_val *at)
{
    static const qn_text_form raw = {.pattern = "^[^'\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]*$", .reads = reads_as_it_is};
    const bool raw_strings = is_python(c) && c->found->raw_strings;
    bool no_text = true, no_other;
    const int text = raw_strings ? add_rule(c, at, false, &raw, &no_text) : 0;
    const int other = add_rule(c, at, raw_strings, NULL, &no_other);
    p->value = qn__constrain_rule(c);
    if ((no_text && no_other) || !qn__constraining(c)) return false;
    PUT(c, "\nr%d ::= ", p->value);
    if (!no_text) PUT(c, "\"'\" j%d \"'\" ", text);
    if (!no_other) PUT(c, no_text ? "j%d " : "| j%d ", other);
    return true;
}

/* A property that cannot be said is left out; one that a strict tool requires is an error. */
static bool can_be_said(qn_constrain *c, qn_property *p)
{
    const bool key = !is_python(c) || qn__is_bare_key(p->key.s->data, p->key.s->n);
    if (key && value_rule(c, p, p->at)) return true;
    if (p->required && c->strict)
        qn__constrain_fail(c, QN_STATUS_invalid, "a strict tool's schema, \"%.40s\": no value can satisfy it",
                           p->key.s->data);
    return key && p->required && value_rule(c, p, NULL);
}

/* A key of the arguments; other than the model's template writes it where the reader could not tell its end. */
static void put_key(qn_constrain *c, qn_val key)
{
    const qn_mark *q = &c->found->marks[QN_MARK_quote];
    const bool quotes = !is_python(c) && !qn__is_bare_key(key.s->data, key.s->n);
    if (quotes) qn__put_literal(c, q->text, (size_t)q->n_text, false);
    qn__put_literal(c, key.s->data, key.s->n, false);
    if (quotes) qn__put_literal(c, q->text, (size_t)q->n_text, false);
}

/* The arguments of a call: {k:v} or (k=v). */
static int members_rule(qn_constrain *c, qn_val schema)
{
    int n_all, n = 0;
    qn_property *p = qn__properties_of(c, schema, &n_all);
    const bool python = is_python(c);
    for (int i = 0; p && i < n_all && qn__constraining(c); i++)
        if (can_be_said(c, &p[i])) p[n++] = p[i];
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
            put_key(c, p[i].key);
            PUT(c, python ? "\"=\" r%d r%d " : "\":\" r%d r%d ", p[i].value, rest + i + 1);
            if (p[i].required) break;
        }
        if (qn__none_required(p, first ? 0 : k, n)) PUT(c, any ? "| \"\" " : "\"\" ");
        if (first) PUT(c, ") \"%s\" ", python ? ")" : "}");
    }
    return rest + n + 1;
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

int qn__arguments_rule(qn_constrain *c)
{
    qn_val schema = c->root;
    for (int i = 0; i < QN_VALUE_MAX_REFS && qn__given(qn__member(schema, "$ref")); i++) {
        const qn_val ref = qn__member(schema, "$ref"), properties = qn__member(schema, "properties");
        const bool none = properties.type == QN_VAL_dict && !properties.d->n; /* which any tool is given */
        qn__check_strict(c, schema, beside_ref, none ? 3 : 2);
        schema = qn__schema_follow(c->root, schema);
        if (!qn__given(schema) && c->strict)
            qn__constrain_fail(c, QN_STATUS_format, "a strict tool's schema: \"$ref\" leads nowhere: \"%.60s\"",
                               qn__is_str(ref) ? ref.s->data : "");
    }
    QN_CHECK_STRICT(c, schema, of_call);
    return c->found->syntax->read == qn__read_tagged ? qn__tagged_rule(c, schema) : members_rule(c, schema);
}
