/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/nodes.c -- every schema of a document, found by its keywords; what is no schema, or has a
 * keyword that is not known, is refused wherever it stands. */
#include "text/grammar/schema/schema.h"

#include <math.h>

/* ---- finding nodes ----------------------------------------------------------------------------------- */

static uint32_t slot_of(const qn_schema *c, const qn_val *value)
{
    return (uint32_t)((uintptr_t)value / sizeof(qn_val) * 0x9E3779B1u >> 7) & (c->n_node_slots - 1);
}

int32_t qn__schema_node_at(const qn_schema *c, const qn_val *value)
{
    if (!c->n_node_slots) return -1;
    for (uint32_t at = slot_of(c, value); c->node_slots[at]; at = (at + 1) & (c->n_node_slots - 1))
        if (c->nodes[c->node_slots[at] - 1].value == value) return c->node_slots[at] - 1;
    return -1;
}

static bool note_slot(qn_schema *c, int32_t node)
{
    if ((uint32_t)c->n_nodes * 2 >= c->n_node_slots) {
        const uint32_t n = c->n_node_slots ? 2 * c->n_node_slots : 256;
        int32_t *slots = qn__schema_alloc(c, n, sizeof *slots);
        if (!slots) return false;
        c->node_slots = slots;
        c->n_node_slots = n;
        for (int32_t i = 0; i < node; i++)
            if (!note_slot(c, i)) return false;
    }
    uint32_t at = slot_of(c, c->nodes[node].value);
    while (c->node_slots[at]) at = (at + 1) & (c->n_node_slots - 1);
    c->node_slots[at] = node + 1;
    return true;
}

static int32_t new_node(qn_schema *c, qn_schema_node node)
{
    if (c->n_nodes >= QN_SCHEMA_MAX_NODES)
        qn__schema_fail(c, QN_STATUS_limit, "it has more than %d schemas in it", QN_SCHEMA_MAX_NODES);
    if (c->status != QN_OK || !qn__schema_grow(c, &c->nodes, c->n_nodes, &c->cap_nodes, sizeof *c->nodes)) return -1;
    const int32_t id = c->n_nodes;
    c->nodes[id] = node;
    c->n_nodes++;
    return note_slot(c, id) ? id : -1;
}

uint8_t qn__schema_left_out(const char *keyword)
{
    static const char *const words[] = {"format", "pattern", "minLength", "maxLength", "minItems", "maxItems"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], keyword) == 0) return (uint8_t)(1 << i);
    return 0;
}

const qn_val *qn__schema_get(const qn_schema *c, int32_t node, const char *keyword)
{
    const qn_schema_node *n = &c->nodes[node];
    if (n->widened || n->value->type != QN_VAL_dict) return NULL;
    if (n->left_out && n->left_out & qn__schema_left_out(keyword)) return NULL;
    return qn__dict_slot(n->value->d, keyword, strlen(keyword));
}

/* ---- what a keyword's value has to be ------------------------------------------------------------------- */

typedef struct visit {
    int32_t node;
    const char *keyword;
    const qn_val *value;
} visit;

static void read_node(qn_schema *c, const qn_val *value, int32_t parent, const char *keyword, const qn_vstr *key,
                      int32_t index);

static void expected(qn_schema *c, const visit *v, const char *what)
{
    qn__schema_refuse(c, v->node, QN_STATUS_format, "\"%s\" is not %s", v->keyword, what);
}

static void check_any(qn_schema *c, const visit *v) { (void)c, (void)v; }

static void check_unheld(qn_schema *c, const visit *v)
{
    qn__schema_refuse_keyword(c, v->node, v->keyword, QN_STATUS_unsupported, "\"%s\" is not supported", v->keyword);
}

/* A dialect of somebody's own may mean anything by a keyword. */
static void check_dialect(qn_schema *c, const visit *v)
{
    static const char *const known[] = {"http://json-schema.org/", "https://json-schema.org/"};
    for (size_t i = 0; i < sizeof known / sizeof *known && qn__is_str(*v->value); i++)
        if (strncmp(v->value->s->data, known[i], strlen(known[i])) == 0) return;
    qn__schema_refuse(c, v->node, QN_STATUS_unsupported, "\"$schema\" is not one of json-schema.org");
}

static void check_list(qn_schema *c, const visit *v)
{
    if (v->value->type != QN_VAL_list) expected(c, v, "an array");
}

qn_json_type qn__json_type(qn_val v)
{
    switch (v.type) {
    case QN_VAL_none: return QN_JSON_null;
    case QN_VAL_bool: return QN_JSON_boolean;
    case QN_VAL_str: return QN_JSON_string;
    case QN_VAL_list: return QN_JSON_array;
    case QN_VAL_dict: return QN_JSON_object;
    default: return QN_JSON_number;
    }
}

static void check_number(qn_schema *c, const visit *v)
{
    if (qn__json_type(*v->value) != QN_JSON_number || (v->value->type == QN_VAL_float && !isfinite(v->value->f)))
        expected(c, v, "a number");
    else if (v->value->type == QN_VAL_big && v->value->s->n > QN_SCHEMA_MAX_DIGITS)
        qn__schema_refuse(c, v->node, QN_STATUS_limit, "\"%s\" has more than %d digits", v->keyword,
                          QN_SCHEMA_MAX_DIGITS);
}

static void check_count(qn_schema *c, const visit *v)
{
    const qn_val n = *v->value;
    if (n.type == QN_VAL_big || (qn__is_number(n) && qn__real(n) > QN_SCHEMA_MAX_COUNT))
        qn__schema_refuse_keyword(c, v->node, v->keyword, QN_STATUS_limit, "\"%s\" is more than %d", v->keyword,
                                  QN_SCHEMA_MAX_COUNT);
    else if (n.type != QN_VAL_int && !(n.type == QN_VAL_float && n.f == floor(n.f)))
        expected(c, v, "an integer");
    else if (qn__real(n) < 0)
        expected(c, v, "0 or more");
}

static bool is_type_name(qn_val v)
{
    static const char *const names[] = {"null", "boolean", "number", "integer", "string", "array", "object"};
    for (size_t i = 0; qn__is_str(v) && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], v.s->data) == 0) return true;
    return false;
}

static void check_type(qn_schema *c, const visit *v)
{
    bool good = is_type_name(*v->value);
    if (v->value->type == QN_VAL_list) {
        good = true;
        for (uint32_t i = 0; i < v->value->l->n; i++) good = good && is_type_name(v->value->l->items[i]);
    }
    if (!good) expected(c, v, "a type of JSON or a list of them");
}

static void check_names(qn_schema *c, const visit *v)
{
    bool good = v->value->type == QN_VAL_list;
    for (uint32_t i = 0; good && i < v->value->l->n; i++) good = qn__is_str(v->value->l->items[i]);
    if (!good) expected(c, v, "a list of names");
}

static void check_pattern(qn_schema *c, const visit *v)
{
    if (!qn__is_str(*v->value))
        expected(c, v, "a pattern");
    else
        qn__schema_regex(c, v->node, v->keyword, v->value->s->data, v->value->s->n);
}

/* Whether the node has a "type", and a text is not of it. */
static bool takes_no_text(const qn_schema *c, int32_t node)
{
    const qn_val *types = qn__dict_slot(c->nodes[node].value->d, "type", 4);
    if (!types || types->type != QN_VAL_list) return types && is_type_name(*types) && !qn__str_is(*types, "string");
    for (uint32_t i = 0; i < types->l->n; i++)
        if (!is_type_name(types->l->items[i]) || qn__str_is(types->l->items[i], "string")) return false;
    return true;
}

/* Formats that we know are of texts; of other values any may be said (OpenAPI's int32, double ..). */
static void check_format(qn_schema *c, const visit *v)
{
    char quoted[60];
    if (!qn__is_str(*v->value))
        expected(c, v, "the name of a format");
    else if (!qn__format_pattern(v->value->s) && !takes_no_text(c, v->node))
        qn__schema_refuse_keyword(c, v->node, v->keyword, QN_STATUS_unsupported, "\"format\": \"%s\" is not supported",
                                  qn__str_quote(quoted, sizeof quoted, v->value->s->data, v->value->s->n));
}

static void check_ref(qn_schema *c, const visit *v)
{
    if (!qn__is_str(*v->value)) expected(c, v, "a reference");
}

static void check_schema(qn_schema *c, const visit *v) { read_node(c, v->value, v->node, v->keyword, NULL, -1); }

static void check_schemas(qn_schema *c, const visit *v)
{
    if (v->value->type != QN_VAL_dict) {
        expected(c, v, "an object of schemas");
        return;
    }
    const qn_vdict *d = v->value->d;
    for (uint32_t i = 0; i < d->n && c->status == QN_OK; i++)
        read_node(c, &d->values[i], v->node, v->keyword, d->keys[i].s, -1);
}

static void check_patterns(qn_schema *c, const visit *v)
{
    check_schemas(c, v);
    for (uint32_t i = 0; v->value->type == QN_VAL_dict && i < v->value->d->n && c->status == QN_OK; i++)
        qn__schema_regex(c, v->node, NULL, v->value->d->keys[i].s->data, v->value->d->keys[i].s->n);
}

static void check_schema_list(qn_schema *c, const visit *v)
{
    if (v->value->type != QN_VAL_list || v->value->l->n == 0) {
        expected(c, v, "a list of schemas");
        return;
    }
    for (uint32_t i = 0; i < v->value->l->n && c->status == QN_OK; i++)
        read_node(c, &v->value->l->items[i], v->node, v->keyword, NULL, (int32_t)i);
}

static const struct {
    const char *name;
    void (*check)(qn_schema *c, const visit *v);
    bool annotation;
} keywords[] = {
#define QN_KEYWORD(name, kind)    {#name, check_##kind, false},
#define QN_ANNOTATION(name, kind) {#name, check_##kind, true},
#include "text/grammar/schema/keywords.def"
#undef QN_KEYWORD
};

static void read_node(qn_schema *c, const qn_val *value, int32_t parent, const char *keyword, const qn_vstr *key,
                      int32_t index)
{
    const int32_t base = parent < 0 ? 0 : c->nodes[parent].base;
    const int32_t id = new_node(c, (qn_schema_node){.value = value,
                                                    .parent = parent,
                                                    .keyword = keyword,
                                                    .key = key,
                                                    .index = index,
                                                    .base = base,
                                                    .only_ref = true,
                                                    .target = -1});
    if (id < 0 || value->type == QN_VAL_bool) return;
    if (value->type != QN_VAL_dict) {
        qn__schema_refuse(c, id, QN_STATUS_format, "this is no schema: neither an object nor true or false");
        return;
    }
    const qn_val *name = qn__dict_slot(value->d, "$id", 3);
    if (name && qn__is_str(*name)) c->nodes[id].base = id;
    for (uint32_t i = 0; i < value->d->n && c->status == QN_OK; i++) {
        const qn_vstr *word = value->d->keys[i].s;
        size_t k = 0;
        while (k < sizeof keywords / sizeof *keywords &&
               !(strlen(keywords[k].name) == word->n && memcmp(keywords[k].name, word->data, word->n) == 0))
            k++;
        if (k < sizeof keywords / sizeof *keywords) {
            if (!keywords[k].annotation && keywords[k].check != check_ref) c->nodes[id].only_ref = false;
            keywords[k].check(c, &(visit){id, keywords[k].name, &value->d->values[i]});
        } else {
            char quoted[60];
            qn__schema_refuse(c, id, QN_STATUS_unsupported, "\"%s\" is not supported",
                              qn__str_quote(quoted, sizeof quoted, word->data, word->n));
        }
    }
}

int32_t qn__schema_read(qn_schema *c, const qn_val *root)
{
    const int32_t id = c->n_nodes;
    read_node(c, root, -1, NULL, NULL, -1);
    return c->status == QN_OK ? id : -1;
}

/* ---- references -------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    const char l = c | 0x20;
    return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

/* The next part of a JSON pointer in the fragment of a URI, behind its slash; -1 for a wrong escape. */
static int32_t next_part(const char **at, char *out)
{
    const char *p = *at;
    int32_t n = 0;
    while (*p && *p != '/') {
        char byte = *p++;
        if (byte == '%') {
            if (hex_digit(p[0]) < 0 || hex_digit(p[1]) < 0) return -1;
            byte = (char)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
            p += 2;
        }
        if (byte == '~') {
            if (*p != '0' && *p != '1') return -1;
            byte = *p++ == '0' ? '~' : '/';
        }
        out[n++] = byte;
    }
    *at = p;
    return n;
}

const qn_val *qn__schema_pointer(const qn_val *from, const char *pointer, size_t n, char *part)
{
    const char *p = pointer;
    if (*p != '#' || (p[1] && p[1] != '/') || strlen(p) < n) return NULL;
    for (p++; *p == '/' && from;) {
        p++;
        const int32_t len = next_part(&p, part);
        const qn_val *next = NULL;
        if (len >= 0 && from->type == QN_VAL_dict) next = qn__dict_slot(from->d, part, (size_t)len);
        if (len > 0 && len < 9 && from->type == QN_VAL_list) {
            uint32_t index = 0;
            bool digits = part[0] != '0' || len == 1;
            for (int32_t i = 0; i < len; i++) {
                digits = digits && part[i] >= '0' && part[i] <= '9';
                index = 10 * index + (uint32_t)(part[i] - '0');
            }
            if (digits && index < from->l->n) next = &from->l->items[index];
        }
        from = next;
    }
    return from;
}

int32_t qn__schema_ref(qn_schema *c, int32_t node, const qn_vstr *ref)
{
    char quoted[100];
    char *part = qn__schema_alloc(c, ref->n + 1, 1);
    if (!part) return -1;
    qn__str_quote(quoted, sizeof quoted, ref->data, ref->n);
    if (ref->data[0] != '#' || (ref->data[1] && ref->data[1] != '/') || strlen(ref->data) < ref->n) {
        qn__schema_refuse(c, node, QN_STATUS_unsupported,
                          "\"$ref\": \"%s\" is not supported; it has to begin with \"#/\" and stay in the schema",
                          quoted);
        return -1;
    }
    const qn_val *at = qn__schema_pointer(c->nodes[c->nodes[node].base].value, ref->data, ref->n, part);
    const int32_t found = at ? qn__schema_node_at(c, at) : -1;
    if (found < 0) qn__schema_refuse(c, node, QN_STATUS_format, "\"$ref\": there is no schema at \"%s\"", quoted);
    return found;
}
