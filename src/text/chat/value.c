/* SPDX-License-Identifier: MIT */
/* src/text/chat/value.c -- the types that a schema allows, and a value that stands in an answer as plain text. */
#include "text/chat/literal.h"
#include "text/chat/value.h"
#include "text/grammar/grammar.h"

#define MAX_DEPTH 8
#define MAX_LOOKS 2000 /* at schemas: what refers to itself several times is looked at again and again */

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

qn_val qn__schema_follow(qn_val root, qn_val schema)
{
    char part[256];
    const qn_val ref = qn__member(schema, "$ref");
    if (!qn__is_str(ref) || ref.s->n > sizeof part) return qn__absent();
    const qn_val *at = qn__schema_pointer(&root, ref.s->data, ref.s->n, part);
    return at && at->type != QN_VAL_none ? *at : qn__absent();
}

qn_val qn__schema_resolve(qn_val root, qn_val schema)
{
    for (int i = 0; i < QN_VALUE_MAX_REFS && qn__given(qn__member(schema, "$ref")); i++)
        schema = qn__schema_follow(root, schema);
    return schema;
}

qn_val qn__schema_property(qn_val schema, const char *key, size_t n)
{
    const qn_val properties = qn__member(schema, "properties");
    const qn_val *said = properties.type == QN_VAL_dict ? qn__dict_slot(properties.d, key, n) : NULL;
    return said ? *said : qn__member(schema, "additionalProperties");
}

static int types_of(qn_val root, qn_val schema, int depth, int *left)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    int types = 0;
    schema = qn__schema_resolve(root, schema);
    if (schema.type != QN_VAL_dict || depth > MAX_DEPTH || --*left < 0) return 0;
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
            types |= types_of(root, of.l->items[i], depth + 1, left);
    }
    if (!types && qn__given(qn__member(schema, "properties"))) types = QN_TYPE_object;
    if (!types && qn__given(qn__member(schema, "items"))) types = QN_TYPE_array;
    return types;
}

int qn__schema_types(qn_val root, qn_val schema)
{
    int left = MAX_LOOKS;
    return types_of(root, schema, 0, &left);
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
