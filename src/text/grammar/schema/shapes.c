/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/shapes.c -- sets of schemas as alternatives of one type each. allOf, anyOf, oneOf and $ref
 * are gone then; members of arrays and objects stay sets of schemas, looked at when they are needed. */
#include "text/grammar/schema/schema.h"

#define MAX_DEPTH       100 /* of $ref, allOf, anyOf and oneOf in each other */
#define MAX_PROBE_DEPTH 8   /* of members looked into to prove that a value cannot be */
#define MAX_PROBES      64  /* sets that are looked at in each other: each takes stack */

/* ---- sets ------------------------------------------------------------------------------------------------ */

static bool is_false(const qn_schema_node *n) { return !n->widened && n->value->type == QN_VAL_bool && !n->value->b; }

static bool says_nothing(const qn_schema_node *n)
{
    return n->widened || (n->value->type == QN_VAL_bool && n->value->b) ||
           (n->value->type == QN_VAL_dict && n->value->d->n == 0);
}

/* What a schema that only refers says is what the other one says. */
static int32_t follow(qn_schema *c, int32_t node)
{
    for (int i = 0; i < MAX_DEPTH && qn__schema_going(c); i++) {
        const qn_schema_node *n = &c->nodes[node];
        const qn_val *ref = n->only_ref && !n->widened ? qn__schema_get(c, node, "$ref") : NULL;
        if (!ref) return node;
        const int32_t target = n->target >= 0 ? n->target : qn__schema_ref(c, node, ref->s);
        if (target < 0) return node;
        c->nodes[node].target = target;
        node = target;
    }
    return node;
}

static uint32_t hash_nodes(const int32_t *nodes, int32_t n)
{
    return (uint32_t)qn__hash(QN_HASH_INIT, nodes, (size_t)n * sizeof *nodes);
}

static bool note_set(qn_schema *c, int32_t set)
{
    if ((uint32_t)c->n_sets * 2 >= c->n_set_slots) {
        const uint32_t n = c->n_set_slots ? 2 * c->n_set_slots : 256;
        int32_t *slots = qn__schema_alloc(c, n, sizeof *slots);
        if (!slots) return false;
        c->set_slots = slots;
        c->n_set_slots = n;
        for (int32_t i = 0; i < set; i++)
            if (!note_set(c, i)) return false;
    }
    uint32_t at = hash_nodes(c->sets[set].nodes, c->sets[set].n) & (c->n_set_slots - 1);
    while (c->set_slots[at]) at = (at + 1) & (c->n_set_slots - 1);
    c->set_slots[at] = set + 1;
    return true;
}

int32_t qn__schema_set(qn_schema *c, const int32_t *nodes, int32_t n)
{
    int32_t *kept = qn__schema_alloc(c, (size_t)n + 1, sizeof *kept), n_kept = 0;
    if (!kept) return -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t node = follow(c, nodes[i]);
        if (says_nothing(&c->nodes[node])) continue;
        if (is_false(&c->nodes[node])) {
            kept[0] = node;
            n_kept = 1;
            break;
        }
        int32_t at = n_kept;
        while (at > 0 && kept[at - 1] > node) at--;
        if (at > 0 && kept[at - 1] == node) continue;
        memmove(kept + at + 1, kept + at, (size_t)(n_kept - at) * sizeof *kept);
        kept[at] = node;
        n_kept++;
    }
    for (uint32_t at = hash_nodes(kept, n_kept) & (c->n_set_slots - 1); c->n_set_slots && c->set_slots[at];
         at = (at + 1) & (c->n_set_slots - 1)) {
        const int32_t s = c->set_slots[at] - 1;
        if (c->sets[s].n == n_kept && memcmp(c->sets[s].nodes, kept, (size_t)n_kept * sizeof *kept) == 0) return s;
    }
    if (c->n_sets >= QN_SCHEMA_MAX_SETS) {
        qn__schema_fail(c, QN_STATUS_limit, "more than %d schemas and combinations of them", QN_SCHEMA_MAX_SETS);
        return -1;
    }
    if (!qn__schema_grow(c, &c->sets, c->n_sets, &c->cap_sets, sizeof *c->sets)) return -1;
    c->sets[c->n_sets] = (qn_schema_set){.nodes = kept, .n = n_kept, .rule = -1};
    c->n_sets++;
    return note_set(c, c->n_sets - 1) ? c->n_sets - 1 : -1;
}

/* ---- lists of shapes ------------------------------------------------------------------------------------- */

static bool same_parts(const qn_schema_shape *a, const qn_schema_shape *b)
{
    return a->n_parts == b->n_parts &&
           (a->n_parts == 0 || memcmp(a->parts, b->parts, (size_t)a->n_parts * sizeof *a->parts) == 0);
}

static bool same_required(const qn_schema_shape *a, const qn_schema_shape *b)
{
    if (a->n_required != b->n_required) return false;
    for (int32_t i = 0; i < a->n_required; i++)
        if (!qn__str_same(a->required[i], b->required[i])) return false;
    return true;
}

static bool same_shape(const qn_schema_shape *a, const qn_schema_shape *b)
{
    return a->type == b->type && !a->literal && !b->literal && a->integer == b->integer && a->lo == b->lo &&
           a->hi == b->hi && a->min == b->min && a->max == b->max && same_parts(a, b) && same_required(a, b);
}

bool qn__shape_is_free(const qn_schema_shape *s)
{
    return !s->literal && !s->integer && !s->lo && !s->hi && s->min == 0 && s->max < 0 && s->n_parts == 0 &&
           s->n_required == 0;
}

static void add_shape(qn_schema *c, qn_schema_shapes *all, const qn_schema_shape *s)
{
    enum { COMPARED = 64 };
    if (s->max >= 0 && s->min > s->max) return;
    for (int32_t i = 0; i < all->n && i < COMPARED; i++)
        if (same_shape(&all->at[i], s) || (all->at[i].type == s->type && qn__shape_is_free(&all->at[i]))) return;
    if (all->n >= QN_SCHEMA_MAX_SHAPES)
        qn__schema_fail(c, QN_STATUS_limit, "more than %d alternatives for a value", QN_SCHEMA_MAX_SHAPES);
    if (!qn__schema_step(c) || !qn__schema_grow(c, &all->at, all->n, &all->cap, sizeof *all->at)) return;
    all->at[all->n++] = *s;
}

/* An empty list with room for so many. Most schemas are one shape, of thousands in a large document. */
static qn_schema_shapes *new_shapes(qn_schema *c, int32_t room)
{
    enum { MOST = 16 };
    qn_schema_shapes *all = qn__schema_alloc(c, 1, sizeof *all);
    if (!all || room < 1) return all;
    if (room > MOST) room = MOST;
    all->at = qn__schema_alloc(c, (size_t)room, sizeof *all->at);
    all->cap = all->at ? room : 0;
    return all->at ? all : NULL;
}

static int32_t n_same_type(const qn_schema_shapes *a, const qn_schema_shapes *b)
{
    enum { MOST = 16 };
    int32_t n = 0;
    for (int32_t i = 0; i < a->n && i < MOST; i++)
        for (int32_t k = 0; k < b->n && k < MOST; k++) n += a->at[i].type == b->at[k].type;
    return n;
}

/* Before a shape is compared with n others, of which those of another type are not counted one by one. */
static bool compare_with(qn_schema *c, int32_t n)
{
    c->steps += n / 16;
    return qn__schema_step(c);
}

static qn_schema_shapes *all_of(qn_schema *c, const qn_schema_shapes *a, const qn_schema_shapes *b)
{
    qn_schema_shapes *both = new_shapes(c, n_same_type(a, b));
    for (int32_t i = 0; both && i < a->n && compare_with(c, b->n); i++)
        for (int32_t k = 0; k < b->n; k++) {
            qn_schema_shape s;
            if (a->at[i].type != b->at[k].type) continue;
            if (!qn__schema_step(c)) return NULL;
            if (qn__shape_both(c, &a->at[i], &b->at[k], &s)) add_shape(c, both, &s);
        }
    return qn__schema_going(c) ? both : NULL;
}

/* ---- what a node says by itself ----------------------------------------------------------------------------- */

static void says_bound(qn_schema *c, int32_t node, const char *keyword, bool lower, bool exclusive, qn_schema_shape *s)
{
    const qn_val *v = qn__schema_get(c, node, keyword);
    qn_bound *b = v ? qn__schema_alloc(c, 1, sizeof *b) : NULL;
    if (!b || !qn__decimal_of(c, *v, &b->at)) return;
    b->exclusive = exclusive;
    qn_schema_shape with = {.type = QN_JSON_number, .max = -1, .lo = lower ? b : NULL, .hi = lower ? NULL : b}, both;
    if (qn__shape_both(c, s, &with, &both)) *s = both;
}

static int64_t says_count(const qn_schema *c, int32_t node, const char *keyword, int64_t otherwise)
{
    const qn_val *v = qn__schema_get(c, node, keyword);
    return v ? (int64_t)qn__real(*v) : otherwise;
}

static void says_regex(qn_schema *c, int32_t node, const char *text, size_t n, qn_schema_shape *s)
{
    int32_t *parts = qn__schema_alloc(c, (size_t)s->n_parts + 1, sizeof *parts);
    const int32_t regex = qn__schema_regex(c, node, NULL, text, n);
    if (!parts || regex < 0) return;
    for (int32_t i = 0; i < s->n_parts; i++) parts[i] = s->parts[i];
    parts[s->n_parts++] = regex;
    s->parts = parts;
}

static void says_parts(qn_schema *c, int32_t node, qn_schema_shape *s)
{
    int32_t *parts = qn__schema_alloc(c, 1, sizeof *parts);
    if (!parts) return;
    parts[0] = node;
    s->parts = parts;
    s->n_parts = 1;
}

static void says_required(qn_schema *c, int32_t node, qn_schema_shape *s)
{
    const qn_val *names = qn__schema_get(c, node, "required");
    if (!names || names->l->n == 0) return;
    const qn_vstr **kept = qn__schema_alloc(c, names->l->n, sizeof *kept);
    uint32_t n_slots = 16;
    while (n_slots < 2 * names->l->n) n_slots *= 2;
    int32_t *slots = qn__schema_alloc(c, n_slots, sizeof *slots);
    for (uint32_t i = 0; kept && slots && i < names->l->n; i++) {
        const qn_vstr *name = names->l->items[i].s;
        uint32_t at = (uint32_t)qn__hash(QN_HASH_INIT, name->data, name->n) & (n_slots - 1);
        while (slots[at] && !qn__str_same(kept[slots[at] - 1], name)) at = (at + 1) & (n_slots - 1);
        if (slots[at]) continue;
        kept[s->n_required++] = name;
        slots[at] = s->n_required;
    }
    s->required = kept;
}

static bool is_one_of(const qn_val *types, const char *name)
{
    if (!types) return true;
    if (qn__is_str(*types)) return qn__str_is(*types, name);
    for (uint32_t i = 0; i < types->l->n; i++)
        if (qn__str_is(types->l->items[i], name)) return true;
    return false;
}

static qn_schema_shape says_of(qn_schema *c, int32_t node, qn_json_type type, bool integer)
{
    qn_schema_shape s = {.type = type, .max = -1, .integer = integer, .node = node};
    const qn_val *v;
    switch (type) {
    case QN_JSON_number:
        says_bound(c, node, "minimum", true, false, &s);
        says_bound(c, node, "exclusiveMinimum", true, true, &s);
        says_bound(c, node, "maximum", false, false, &s);
        says_bound(c, node, "exclusiveMaximum", false, true, &s);
        break;
    case QN_JSON_string:
        s.min = says_count(c, node, "minLength", 0);
        s.max = says_count(c, node, "maxLength", -1);
        if ((v = qn__schema_get(c, node, "pattern"))) says_regex(c, node, v->s->data, v->s->n, &s);
        if ((v = qn__schema_get(c, node, "format"))) {
            const char *pattern = qn__format_pattern(v->s);
            says_regex(c, node, pattern, strlen(pattern), &s);
        }
        break;
    case QN_JSON_array:
        s.min = says_count(c, node, "minItems", 0);
        s.max = says_count(c, node, "maxItems", -1);
        if (qn__schema_get(c, node, "items") || qn__schema_get(c, node, "prefixItems")) says_parts(c, node, &s);
        break;
    case QN_JSON_object:
        if (qn__schema_get(c, node, "properties") || qn__schema_get(c, node, "patternProperties") ||
            qn__schema_get(c, node, "additionalProperties"))
            says_parts(c, node, &s);
        says_required(c, node, &s);
        break;
    default: break;
    }
    return s;
}

/* enum and const: of these values, those that the rest of the node takes. */
static qn_schema_shapes *only_values(qn_schema *c, const qn_schema_shapes *base, const qn_val *values, uint32_t n)
{
    qn_schema_shapes *kept = new_shapes(c, n < 16 ? (int32_t)n : 16);
    for (uint32_t i = 0; kept && i < n; i++) {
        const qn_schema_shape literal = {.type = qn__json_type(values[i]), .literal = &values[i], .max = -1};
        bool accepted = false;
        for (int32_t k = 0; k < base->n && !accepted && qn__schema_step(c); k++)
            accepted = qn__shape_accepts(c, &base->at[k], &values[i]);
        if (accepted) add_shape(c, kept, &literal);
    }
    return kept;
}

static qn_schema_shapes *says_itself(qn_schema *c, int32_t node)
{
    static const char *const names[QN_JSON_N_TYPES] = {"null", "boolean", "number", "string", "array", "object"};
    const qn_val *types = qn__schema_get(c, node, "type"), *v;
    qn_schema_shapes *base = new_shapes(c, types && qn__is_str(*types) ? 1 : QN_JSON_N_TYPES);
    for (int type = 0; base && type < QN_JSON_N_TYPES; type++) {
        const bool integer = type == QN_JSON_number && !is_one_of(types, "number") && is_one_of(types, "integer");
        if (!integer && !is_one_of(types, names[type])) continue;
        const qn_schema_shape s = says_of(c, node, (qn_json_type)type, integer);
        add_shape(c, base, &s);
    }
    if (base && (v = qn__schema_get(c, node, "enum"))) base = only_values(c, base, v->l->items, v->l->n);
    if (base && (v = qn__schema_get(c, node, "const"))) base = only_values(c, base, v, 1);
    return base;
}

/* ---- several at once -------------------------------------------------------------------------------------------- */

static const qn_schema_shapes *node_shapes(qn_schema *c, int32_t node, int depth);

static qn_schema_shapes *any_of(qn_schema *c, const qn_schema_shapes *base, const qn_val *list, int depth)
{
    qn_schema_shapes *any = qn__schema_alloc(c, 1, sizeof *any);
    for (uint32_t i = 0; any && i < list->l->n && qn__schema_going(c); i++) {
        const qn_schema_shapes *one = node_shapes(c, qn__schema_node_at(c, &list->l->items[i]), depth);
        const qn_schema_shapes *both = one ? all_of(c, base, one) : NULL;
        for (int32_t k = 0; both && k < both->n; k++) add_shape(c, any, &both->at[k]);
    }
    return any;
}

static qn_schema_shapes *one_of(qn_schema *c, int32_t node, const qn_schema_shapes *base, const qn_val *list, int depth)
{
    qn_schema_shapes *any = qn__schema_alloc(c, 1, sizeof *any);
    const qn_schema_shapes **each = qn__schema_alloc(c, list->l->n, sizeof *each);
    for (uint32_t i = 0; any && each && i < list->l->n && qn__schema_going(c); i++) {
        const qn_schema_shapes *one = node_shapes(c, qn__schema_node_at(c, &list->l->items[i]), depth);
        each[i] = one ? all_of(c, base, one) : NULL;
    }
    if (!any || !each || !qn__schema_going(c)) return any;
    const bool tagged = qn__shapes_tagged(c, each, list->l->n);
    for (uint32_t i = 0; i < list->l->n && qn__schema_going(c); i++) {
        for (uint32_t k = 0; !tagged && each[i] && k < i; k++)
            if (!qn__shapes_apart(c, each[k], each[i], MAX_PROBE_DEPTH) && qn__schema_going(c))
                qn__schema_refuse(c, node, QN_STATUS_unsupported,
                                  "\"oneOf\": a value may satisfy both %u and %u; use anyOf, or a const that differs",
                                  k, i);
        for (int32_t k = 0; each[i] && k < each[i]->n; k++) add_shape(c, any, &each[i]->at[k]);
    }
    return any;
}

/* A node that is asked for while its own shapes are being made. */
static void leads_back(qn_schema *c, const qn_schema_node *n, int32_t node)
{
    if (n->probing < c->probing)
        c->circular = n->probing + 1;
    else if (n->state == 3)
        qn__schema_refuse(c, node, QN_STATUS_unsupported, "\"enum\" or \"const\" of values that it describes itself");
    else
        qn__schema_refuse(c, node, QN_STATUS_format, "\"$ref\" leads back to itself and says nothing on the way");
}

static const qn_schema_shapes *node_shapes(qn_schema *c, int32_t node, int depth)
{
    static const qn_val yes = {.type = QN_VAL_bool, .b = true};
    const qn_val *v;
    if (node < 0 || !qn__schema_going(c)) return NULL;
    if (c->nodes[node].state == 2) return c->nodes[node].shapes;
    if (!c->nodes[node].widened && c->nodes[node].state) return leads_back(c, &c->nodes[node], node), NULL;
    if (!c->nodes[node].widened && depth > MAX_DEPTH) {
        qn__schema_refuse(c, node, QN_STATUS_limit, "references, anyOf, oneOf and allOf in each other too deep");
        return NULL;
    }
    const qn_val *value = c->nodes[node].widened ? &yes : c->nodes[node].value;
    c->nodes[node].probing = c->probing;
    c->nodes[node].state = 3;
    qn_schema_shapes *shapes =
        value->type == QN_VAL_bool && !value->b ? qn__schema_alloc(c, 1, sizeof *shapes) : says_itself(c, node);
    c->nodes[node].state = 1;
    if (shapes && (v = qn__schema_get(c, node, "$ref"))) {
        const qn_schema_shapes *there = node_shapes(c, qn__schema_ref(c, node, v->s), depth + 1);
        shapes = there ? all_of(c, shapes, there) : NULL;
    }
    v = shapes ? qn__schema_get(c, node, "allOf") : NULL;
    for (uint32_t i = 0; v && shapes && i < v->l->n; i++) {
        const qn_schema_shapes *one = node_shapes(c, qn__schema_node_at(c, &v->l->items[i]), depth + 1);
        shapes = one ? all_of(c, shapes, one) : NULL;
    }
    if (shapes && (v = qn__schema_get(c, node, "anyOf"))) shapes = any_of(c, shapes, v, depth + 1);
    if (shapes && (v = qn__schema_get(c, node, "oneOf"))) shapes = one_of(c, node, shapes, v, depth + 1);
    const bool good = shapes && qn__schema_going(c);
    c->nodes[node].shapes = good ? shapes : NULL;
    c->nodes[node].state = good ? 2 : 0;
    return c->nodes[node].shapes;
}

const qn_schema_shapes *qn__set_shapes(qn_schema *c, int32_t set)
{
    if (set < 0 || !qn__schema_going(c)) return NULL;
    if (c->sets[set].shapes) return c->sets[set].shapes;
    const bool any_value = c->sets[set].n == 0;
    qn_schema_shapes *shapes = new_shapes(c, any_value ? QN_JSON_N_TYPES : 0);
    if (!shapes) return NULL;
    for (int type = 0; any_value && type < QN_JSON_N_TYPES; type++) {
        const qn_schema_shape any = {.type = (qn_json_type)type, .max = -1};
        add_shape(c, shapes, &any);
    }
    for (int32_t i = 0; shapes && i < c->sets[set].n; i++) {
        const qn_schema_shapes *one = node_shapes(c, c->sets[set].nodes[i], 0);
        shapes = !one ? NULL : i == 0 ? (qn_schema_shapes *)one : all_of(c, shapes, one);
    }
    if (!qn__schema_going(c)) return NULL;
    return c->sets[set].shapes = shapes;
}

const qn_schema_shapes *qn__probe_set(qn_schema *c, int32_t set)
{
    if (set < 0 || c->probing == MAX_PROBES) return NULL;
    const int32_t probe = ++c->probing;
    const qn_schema_shapes *shapes = qn__set_shapes(c, set);
    c->probing = probe - 1;
    if (c->circular == probe) c->circular = 0; /* what is around it does not depend on what is being made */
    return shapes;
}

/* ---- emptiness --------------------------------------------------------------------------------------------------- */

bool qn__set_is_empty(qn_schema *c, int32_t set, int depth)
{
    bool empty = true;
    if (set < 0 || depth <= 0 || c->sets[set].probing) return false;
    if (c->sets[set].empty) return c->sets[set].empty == 1;
    c->sets[set].probing = true;
    const qn_schema_shapes *shapes = qn__probe_set(c, set);
    for (int32_t i = 0; shapes && i < shapes->n && empty; i++) empty = qn__shape_is_empty(c, &shapes->at[i], depth - 1);
    c->sets[set].probing = false;
    if (!shapes) return false;
    if (empty || depth == MAX_PROBE_DEPTH) c->sets[set].empty = empty ? 1 : 2;
    return empty;
}

bool qn__sets_apart(qn_schema *c, int32_t a, int32_t b, int depth)
{
    const qn_schema_shapes *x = depth > 0 && a != b ? qn__probe_set(c, a) : NULL, *y = x ? qn__probe_set(c, b) : NULL;
    return y && qn__shapes_apart(c, x, y, depth);
}

bool qn__shapes_apart(qn_schema *c, const qn_schema_shapes *a, const qn_schema_shapes *b, int depth)
{
    for (int32_t i = 0; i < a->n; i++) {
        if (!compare_with(c, b->n)) return false;
        for (int32_t k = 0; k < b->n; k++) {
            if (a->at[i].type != b->at[k].type) continue;
            if (!qn__schema_step(c) || !qn__shape_apart(c, &a->at[i], &b->at[k], depth)) return false;
        }
    }
    return true;
}

bool qn__set_accepts(qn_schema *c, int32_t set, const qn_val *value)
{
    const qn_schema_shapes *shapes = qn__set_shapes(c, set);
    for (int32_t i = 0; shapes && i < shapes->n && qn__schema_step(c); i++)
        if (qn__shape_accepts(c, &shapes->at[i], value)) return true;
    return false;
}
