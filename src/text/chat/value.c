/* SPDX-License-Identifier: MIT */
/* src/text/chat/value.c -- the types that a schema allows, and a value that stands in an answer as plain text. */
#include "text/chat/literal.h"
#include "text/chat/value.h"

#define MAX_DEPTH 8

static int type_named(qn_val name)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"string", QN_TYPE_string},   {"number", QN_TYPE_number}, {"integer", QN_TYPE_number},
                 {"boolean", QN_TYPE_boolean}, {"object", QN_TYPE_object}, {"array", QN_TYPE_array},
                 {"null", QN_TYPE_null}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (qn__str_is(name, types[i].name)) return types[i].type;
    return 0;
}

static int type_of(qn_val v)
{
    switch (v.type) {
    case QN_VAL_str: return QN_TYPE_string;
    case QN_VAL_bool: return QN_TYPE_boolean;
    case QN_VAL_int:
    case QN_VAL_big:
    case QN_VAL_float: return QN_TYPE_number;
    case QN_VAL_dict: return QN_TYPE_object;
    case QN_VAL_list: return QN_TYPE_array;
    default: return QN_TYPE_null;
    }
}

/* "#/$defs/name" and the like. */
static qn_val resolve(qn_val root, qn_val ref)
{
    if (!qn__is_str(ref) || strncmp(ref.s->data, "#/", 2) != 0) return qn__absent();
    qn_val at = root;
    for (const char *p = ref.s->data + 2; at.type == QN_VAL_dict;) {
        char name[128];
        const size_t n = strcspn(p, "/");
        if (n >= sizeof name) return qn__absent();
        memcpy(name, p, n);
        name[n] = '\0';
        at = qn__member(at, name);
        if (!p[n]) return at;
        p += n + 1;
    }
    return qn__absent();
}

qn_val qn__schema_resolve(qn_val root, qn_val schema)
{
    for (int i = 0; i < MAX_DEPTH && qn__given(qn__member(schema, "$ref")); i++)
        schema = resolve(root, qn__member(schema, "$ref"));
    return schema;
}

int qn__schema_types(qn_val root, qn_val schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    int types = 0;
    schema = qn__schema_resolve(root, schema);
    if (schema.type != QN_VAL_dict || depth > MAX_DEPTH) return 0;
    const qn_val type = qn__member(schema, "type"), list = qn__member(schema, "enum");
    qn_val value;
    if (qn__is_str(type)) return type_named(type);
    for (uint32_t i = 0; type.type == QN_VAL_list && i < type.l->n; i++) types |= type_named(type.l->items[i]);
    if (types) return types;
    if (qn__dict_find(schema.d, "const", &value)) return type_of(value);
    for (uint32_t i = 0; list.type == QN_VAL_list && i < list.l->n; i++) types |= type_of(list.l->items[i]);
    for (size_t u = 0; u < 3 && !types; u++) {
        const qn_val of = qn__member(schema, unions[u]);
        for (uint32_t i = 0; of.type == QN_VAL_list && i < of.l->n; i++)
            types |= qn__schema_types(root, of.l->items[i], depth + 1);
    }
    if (!types && qn__given(qn__member(schema, "properties"))) types = QN_TYPE_object;
    if (!types && qn__given(qn__member(schema, "items"))) types = QN_TYPE_array;
    return types;
}

/* ---- values ---------------------------------------------------------------------------------------- */

static void put_text(qn_str *out, const char *text, size_t n)
{
    qn__str_putc(out, '"');
    for (size_t i = 0; i < n; i++) qn__put_escaped(out, (unsigned char)text[i]);
    qn__str_putc(out, '"');
}

/* The text as a literal of that style, all of it. */
static bool literal(qn_str *out, const char *text, size_t n, qn_literal_style style)
{
    qn_literal l;
    size_t used, at = 0;
    qn_literal_result result = QN_LITERAL_more;
    const size_t before = out->len;
    qn__literal_init(&l, style, false);
    while (at < n && result == QN_LITERAL_more) {
        qn_sym w[256];
        size_t m = 0;
        while (m < 256 && at + m < n) {
            w[m] = (unsigned char)text[at + m];
            m++;
        }
        result = qn__literal_read(&l, w, m, at + m == n, &used, out);
        at += used;
        if (!used) break;
    }
    while (at < n && qn__sym_is_space((unsigned char)text[at])) at++;
    if (result == QN_LITERAL_done && at == n) return true;
    if (!out->failed) out->len = before;
    return false;
}

static int type_of_text(const char *json)
{
    switch (*json) {
    case '"': return QN_TYPE_string;
    case '{': return QN_TYPE_object;
    case '[': return QN_TYPE_array;
    case 't':
    case 'f': return QN_TYPE_boolean;
    case 'n': return QN_TYPE_null;
    default: return QN_TYPE_number;
    }
}

void qn__value_json(qn_str *out, const char *text, size_t n, int types)
{
    const size_t before = out->len;
    static const struct {
        int type;
        const char *json;
    } empty[] = {{QN_TYPE_object, "{}"}, {QN_TYPE_array, "[]"}, {QN_TYPE_null, "null"}};
    bool blank = true;
    for (size_t i = 0; i < n; i++) blank &= qn__sym_is_space((unsigned char)text[i]);
    if (blank && types && !(types & QN_TYPE_string))
        for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
            if (types & empty[i].type) {
                qn__str_puts(out, empty[i].json);
                return;
            }
    if (types != QN_TYPE_string && !blank &&
        (literal(out, text, n, QN_LITERAL_json) || literal(out, text, n, QN_LITERAL_python)) && !out->failed) {
        const int type = type_of_text(out->data + before);
        /* where a text may stand, what is in quotes is a text with quotes */
        if (type == QN_TYPE_string ? types && !(types & QN_TYPE_string)
                                   : !types || (types & type) || !(types & QN_TYPE_string))
            return;
        out->len = before;
    }
    put_text(out, text, n);
}
