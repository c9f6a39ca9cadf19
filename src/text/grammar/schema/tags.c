/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/tags.c -- alternatives of oneOf that differ in a member such as "kind": told apart by its
 * values, all at once, where pairs would be a million. */
#include "text/grammar/schema/schema.h"

#define MAX_NAMES 8 /* that are tried */

typedef struct tag {
    const qn_val *value; /* NULL: free */
    uint32_t owner;
} tag;

static bool is_required(const qn_schema_shape *s, const qn_vstr *name)
{
    for (int32_t i = 0; i < s->n_required; i++)
        if (qn__str_same(s->required[i], name)) return true;
    return false;
}

/* Texts and integers: what can be compared by its bytes. */
static bool bytes_of(const qn_val *v, const void **bytes, size_t *n)
{
    *bytes = v->type == QN_VAL_str ? (const void *)v->s->data : &v->i;
    *n = v->type == QN_VAL_str ? v->s->n : sizeof v->i;
    return v->type == QN_VAL_str || v->type == QN_VAL_int;
}

/* False where another alternative has that value. */
static bool claim(tag *slots, uint32_t n_slots, const qn_val *v, uint32_t owner)
{
    const void *bytes, *other;
    size_t n, n_other;
    if (!bytes_of(v, &bytes, &n)) return false;
    uint32_t at = (uint32_t)qn__hash(QN_HASH_INIT, bytes, n) & (n_slots - 1);
    for (; slots[at].value; at = (at + 1) & (n_slots - 1)) {
        bytes_of(slots[at].value, &other, &n_other);
        if (slots[at].value->type != v->type || n_other != n || memcmp(other, bytes, n) != 0) continue;
        return slots[at].owner == owner;
    }
    slots[at] = (tag){v, owner};
    return true;
}

static bool name_tells(qn_schema *c, const qn_schema_shapes *const *each, uint32_t n, const qn_vstr *name)
{
    uint32_t n_values = 0, n_slots = 16;
    tag *slots = NULL;
    for (int pass = 0; pass < 2; pass++) { /* counts, then claims */
        for (uint32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < each[i]->n; k++) {
                const qn_schema_shape *s = &each[i]->at[k];
                if (s->type != QN_JSON_object) continue;
                if (s->literal || !is_required(s, name) || !qn__schema_step(c)) return false;
                const qn_schema_shapes *values = qn__probe_set(c, qn__member_set(c, s, name->data, name->n));
                if (!values) return false;
                for (int32_t v = 0; v < values->n; v++) {
                    if (!values->at[v].literal) return false;
                    if (pass && !claim(slots, n_slots, values->at[v].literal, i)) return false;
                }
                n_values += pass ? 0 : (uint32_t)values->n;
            }
        while (n_slots < 2 * n_values) n_slots *= 2;
        if (!pass && !(slots = qn__schema_alloc(c, n_slots, sizeof *slots))) return false;
    }
    return true;
}

bool qn__shapes_tagged(qn_schema *c, const qn_schema_shapes *const *each, uint32_t n)
{
    const qn_schema_shape *first = NULL;
    uint32_t owners[QN_JSON_N_TYPES] = {0}; /* + 1: of values that are no objects, which one alternative has */
    for (uint32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < each[i]->n; k++) {
            const qn_schema_shape *s = &each[i]->at[k];
            if (s->type == QN_JSON_object) {
                if (!first) first = s;
            } else if (owners[s->type] && owners[s->type] != i + 1) {
                return false;
            } else {
                owners[s->type] = i + 1;
            }
        }
    for (int32_t i = 0; first && i < first->n_required && i < MAX_NAMES && qn__schema_going(c); i++)
        if (name_tells(c, each, n, first->required[i])) return true;
    return !first;
}
