/* SPDX-License-Identifier: MIT */
/* src/text/jinja/filters_seq.c -- filters over lists and dicts. */
#include "text/jinja/rows.h"

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }
static qn_val list_or_nothing(qn_vlist *l) { return l ? qn__of_list(l) : nothing(); }

/* What jinja2 makes a generator; a list where the engine is not strict, because templates ask for its length. */
static qn_list_kind lazy(const qn_call *c) { return c->r->options->strict ? QN_LIST_generator : QN_LIST_list; }

/* ---- one of them -------------------------------------------------------------------------------- */

qn_val qn__filter_default(qn_call *c)
{
    const bool use = qn__is_undefined(c->self) || (qn__arg_bool(c, 1, false) && !qn__val_truth(c->self));
    if (!use) return c->self;
    return qn__given(c->args[0]) ? c->args[0] : qn__text_val(c->h, "");
}

qn_val qn__filter_length(qn_call *c)
{
    const int64_t n = qn__val_length(c->h, c->self);
    return n < 0 ? nothing() : qn__int(n);
}

qn_val qn__filter_first(qn_call *c)
{
    if (c->self.type == QN_VAL_list && c->self.l->kind == QN_LIST_generator && c->self.l->n) {
        qn_vlist *l = c->self.l;
        l->n--;
        return *l->items++;
    }
    const qn_vlist *l = qn__val_iterate(c->h, c->self);
    if (!l) return nothing();
    return l->n ? l->items[0] : qn__val_undefined(c->h, "No first item, sequence was empty.");
}

qn_val qn__filter_last(qn_call *c)
{
    if (c->self.type == QN_VAL_list && c->self.l->kind == QN_LIST_generator)
        return QN_RAISE(c->h, "'generator' object is not reversible");
    const qn_vlist *l = qn__val_iterate(c->h, c->self);
    if (!l) return nothing();
    return l->n ? l->items[l->n - 1] : qn__val_undefined(c->h, "No last item, sequence was empty.");
}

qn_val qn__filter_attr(qn_call *c)
{
    const qn_vstr *name = qn__arg_str(c, 0);
    if (!name) return nothing();
    /* attributes only: a dict has its methods, not its keys */
    if (c->self.type == QN_VAL_dict && !qn__method_find(c->self, name->data))
        return qn__val_undefined(c->h, "'dict object' has no attribute '%.80s'", name->data);
    return qn__get_attr(c->r, c->self, name->data);
}

/* ---- all of them -------------------------------------------------------------------------------- */

static qn_val copied(qn_call *c, qn_list_kind kind, const qn_vlist *from, bool backward)
{
    qn_vlist *l = from ? qn__list_new(c->h, kind, from->n) : NULL;
    for (uint32_t i = 0; l && i < from->n; i++) qn__list_add(c->h, l, from->items[backward ? from->n - 1 - i : i]);
    return list_or_nothing(l);
}

qn_val qn__filter_list(qn_call *c) { return copied(c, QN_LIST_list, qn__val_iterate(c->h, c->self), false); }

qn_val qn__filter_reverse(qn_call *c)
{
    const qn_vlist *l = qn__val_iterate(c->h, c->self);
    if (!qn__is_str(c->self)) return copied(c, lazy(c), l, true);
    qn_vbuf b = {.h = c->h};
    for (uint32_t i = l ? l->n : 0; i > 0; i--) qn__buf_str(&b, l->items[i - 1].s);
    return qn__buf_val(&b);
}

qn_val qn__filter_items(qn_call *c)
{
    qn_call view = {.r = c->r, .h = c->h, .self = c->self};
    if (qn__is_undefined(c->self)) return list_or_nothing(qn__list_new(c->h, lazy(c), 0));
    if (c->self.type != QN_VAL_dict) return QN_RAISE(c->h, "Can only get item pairs from a mapping.");
    const qn_val v = qn__method_dict_items(&view);
    return v.type == QN_VAL_list ? copied(c, lazy(c), v.l, false) : nothing();
}

qn_val qn__filter_join(qn_call *c)
{
    const qn_vlist *l = qn__val_iterate(c->h, c->self);
    const qn_val d = qn__given(c->args[0]) ? qn__to_str(c->h, c->args[0]) : qn__text_val(c->h, "");
    qn_vbuf b = {.h = c->h};
    for (uint32_t i = 0; l && i < l->n && c->h->status == QN_OK; i++) {
        qn_val v = l->items[i];
        if (qn__given(c->args[1]) && c->args[1].type != QN_VAL_none)
            v = qn__get_path(c->r, v, c->args[1], qn__absent());
        v = qn__to_str(c->h, v);
        if (c->h->status != QN_OK) break;
        if (i) qn__buf_str(&b, d.s);
        qn__buf_str(&b, v.s);
    }
    return qn__buf_val(&b);
}

qn_val qn__filter_sum(qn_call *c)
{
    const qn_vlist *l = qn__val_iterate(c->h, c->self);
    qn_val sum = qn__given(c->args[1]) ? c->args[1] : qn__int(0);
    const bool by = qn__given(c->args[0]) && c->args[0].type != QN_VAL_none;
    for (uint32_t i = 0; l && i < l->n && c->h->status == QN_OK; i++)
        sum = qn__val_binary(c->r, QN_J_add, sum,
                             by ? qn__get_path(c->r, l->items[i], c->args[0], qn__absent()) : l->items[i]);
    return sum;
}

/* ---- map, select, reject ------------------------------------------------------------------------ */

/* The arguments behind the first n. */
static qn_argv behind(const qn_argv *all, uint32_t n)
{
    if (all->n <= n) return (qn_argv){.named = all->named};
    return (qn_argv){.positional = all->positional + n, .n = all->n - n, .named = all->named};
}

/* What is false has no elements, whatever it is; the other arguments aren't looked at then. */
static qn_val none_of(qn_call *c) { return list_or_nothing(qn__list_new(c->h, lazy(c), 0)); }

qn_val qn__filter_map(qn_call *c)
{
    if (!qn__val_truth(c->self)) return none_of(c);
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    qn_vlist *l = from ? qn__list_new(c->h, lazy(c), from->n) : NULL;
    qn_val attribute = qn__absent(), otherwise = qn__absent();
    const qn_filter_row *row = NULL;
    qn_argv rest = {0};
    if (!l) return nothing();
    if (c->all->n == 0) {
        if (!c->all->named || !qn__dict_find(c->all->named, "attribute", &attribute))
            return QN_RAISE(c->h, "map requires a filter argument");
        qn__dict_find(c->all->named, "default", &otherwise);
    } else {
        if (!qn__is_str(c->all->positional[0]) || !(row = qn__filter_find(c->all->positional[0].s->data)))
            return QN_RAISE(c->h, "map: no such filter");
        rest = behind(c->all, 1);
    }
    for (uint32_t i = 0; i < from->n && c->h->status == QN_OK; i++) {
        const qn_val v = from->items[i];
        qn__list_add(c->h, l,
                     row ? qn__apply_filter(c->r, row, v, &rest) : qn__get_path(c->r, v, attribute, otherwise));
    }
    return qn__of_list(l);
}

static qn_val choose(qn_call *c, bool by_attribute, bool wanted)
{
    if (!qn__val_truth(c->self)) return none_of(c);
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    qn_vlist *l = from ? qn__list_new(c->h, lazy(c), 0) : NULL;
    const uint32_t at = by_attribute ? 1 : 0;
    const qn_test_row *row = NULL;
    if (!l) return nothing();
    if (by_attribute && !c->all->n) return QN_RAISE(c->h, "Missing parameter for attribute name");
    if (c->all->n > at) {
        if (!qn__is_str(c->all->positional[at]) || !(row = qn__test_find(c->all->positional[at].s->data)))
            return QN_RAISE(c->h, "select: no such test");
    }
    const qn_argv rest = behind(c->all, at + 1);
    for (uint32_t i = 0; i < from->n && c->h->status == QN_OK; i++) {
        const qn_val one = from->items[i];
        const qn_val v = by_attribute ? qn__get_path(c->r, one, c->all->positional[0], qn__absent()) : one;
        if (c->h->status != QN_OK) break;
        const bool holds = row ? qn__apply_test(c->r, row, v, &rest) : qn__val_truth(v);
        if (holds == wanted) qn__list_add(c->h, l, one);
    }
    return qn__of_list(l);
}
qn_val qn__filter_select(qn_call *c) { return choose(c, false, true); }
qn_val qn__filter_reject(qn_call *c) { return choose(c, false, false); }
qn_val qn__filter_selectattr(qn_call *c) { return choose(c, true, true); }
qn_val qn__filter_rejectattr(qn_call *c) { return choose(c, true, false); }

/* ---- order -------------------------------------------------------------------------------------- */

/* What elements are compared by. */
typedef struct sort_key {
    qn_val attribute;             /* absent or None: the element itself */
    qn_val otherwise;             /* where that is undefined; absent or None: nothing is */
    bool case_sensitive, several; /* "a,b.c" are several attributes, one after the other */
} sort_key;

static qn_val attribute_of(qn_call *c, qn_val v, const sort_key *by)
{
    return qn__given(by->attribute) && by->attribute.type != QN_VAL_none
               ? qn__get_path(c->r, v, by->attribute, by->otherwise)
               : v;
}

/* Strings in lower case unless case counts. */
static qn_val folded(qn_call *c, qn_val v, bool case_sensitive)
{
    return qn__is_str(v) && !case_sensitive ? qn__change_case(c->h, v.s, QN_CASE_lower) : v;
}

static qn_val key_of(qn_call *c, qn_val v, const sort_key *by)
{
    const qn_val attribute = by->attribute;
    if (!by->several || !qn__is_str(attribute) || !memchr(attribute.s->data, ',', attribute.s->n))
        return folded(c, attribute_of(c, v, by), by->case_sensitive);
    sort_key part = *by;
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, 0);
    for (uint32_t at = 0; l && at <= attribute.s->n && c->h->status == QN_OK;) {
        const char *comma = memchr(attribute.s->data + at, ',', attribute.s->n - at);
        const uint32_t end = comma ? (uint32_t)(comma - attribute.s->data) : attribute.s->n;
        part.attribute = qn__str_part(c->h, attribute.s, at, end);
        qn__list_add(c->h, l, folded(c, attribute_of(c, v, &part), by->case_sensitive));
        at = end + 1;
    }
    return list_or_nothing(l);
}

/* A merge sort. */
void qn__val_sort(qn_heap *h, qn_val *keys, qn_val *values, qn_val *spare, uint32_t n, bool reverse,
                  qn_order_fn order_of)
{
    if (n < 2 || h->status != QN_OK) return;
    const uint32_t half = n / 2;
    qn__val_sort(h, keys, values, spare, half, reverse, order_of);
    qn__val_sort(h, keys + half, values + half, spare, n - half, reverse, order_of);
    qn_val *k = spare, *v = spare + n;
    for (uint32_t i = 0, j = half, o = 0; o < n && h->status == QN_OK; o++) {
        bool second = i == half;
        if (i < half && j < n) {
            const int order = order_of(h, keys[j], keys[i]);
            second = reverse ? order > 0 : order < 0;
        }
        const uint32_t from = second ? j++ : i++;
        k[o] = keys[from];
        v[o] = values[from];
    }
    memcpy(keys, k, n * sizeof *keys);
    memcpy(values, v, n * sizeof *values);
}

static qn_vlist *sorted(qn_call *c, const qn_vlist *from, const sort_key *by, bool reverse)
{
    const uint32_t n = from ? from->n : 0;
    qn_vlist *l = from ? qn__list_new(c->h, QN_LIST_list, n + 1) : NULL;
    qn_val *keys = l ? qn__heap_alloc(c->h, (3 * (size_t)n + 1) * sizeof *keys) : NULL;
    if (!keys) return NULL;
    /* of a loop, an attribute asks its condition, which may make the list longer or shorter */
    for (uint32_t i = 0; i < n && i < from->n && c->h->status == QN_OK; i++) {
        const qn_val v = from->items[i];
        keys[i] = key_of(c, v, by);
        qn__list_add(c->h, l, v);
    }
    if (c->h->status != QN_OK) return NULL;
    qn__val_sort(c->h, keys, l->items, keys + n, l->n, reverse, qn__val_compare);
    return l;
}

qn_val qn__filter_sort(qn_call *c)
{
    const sort_key by = {c->args[2], qn__absent(), qn__arg_bool(c, 1, false), .several = true};
    return list_or_nothing(sorted(c, qn__val_iterate(c->h, c->self), &by, qn__arg_bool(c, 0, false)));
}

qn_val qn__filter_dictsort(qn_call *c)
{
    int64_t by = 0;
    if (c->self.type != QN_VAL_dict) return QN_RAISE(c->h, "dictsort needs a dict, not %s", qn__type_name(c->self));
    if (qn__given(c->args[1])) {
        if (!qn__str_is(c->args[1], "key") && !qn__str_is(c->args[1], "value"))
            return QN_RAISE(c->h, "You can only sort by either \"key\" or \"value\"");
        by = qn__str_is(c->args[1], "value");
    }
    qn_call view = {.r = c->r, .h = c->h, .self = c->self};
    const qn_val items = qn__method_dict_items(&view);
    if (items.type != QN_VAL_list) return nothing();
    const sort_key key = {qn__int(by), qn__absent(), qn__arg_bool(c, 0, false), .several = false};
    return list_or_nothing(sorted(c, items.l, &key, qn__arg_bool(c, 2, false)));
}

qn_val qn__filter_unique(qn_call *c)
{
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    qn_vlist *l = from ? qn__list_new(c->h, lazy(c), 0) : NULL;
    qn_vdict *seen = qn__dict_new(c->h);
    const sort_key by = {c->args[1], qn__absent(), qn__arg_bool(c, 0, false), .several = false};
    if (!l || !seen) return nothing();
    for (uint32_t i = 0; i < from->n && c->h->status == QN_OK; i++) {
        const qn_val key = key_of(c, from->items[i], &by);
        if (qn__dict_get(seen, key, NULL)) continue;
        qn__dict_set(c->h, seen, key, qn__none());
        qn__list_add(c->h, l, from->items[i]);
    }
    return qn__of_list(l);
}

static qn_val extreme(qn_call *c, int sign)
{
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    if (!from) return nothing();
    if (!from->n) return qn__val_undefined(c->h, "No aggregated item, sequence was empty.");
    uint32_t best = 0;
    const sort_key by = {c->args[1], qn__absent(), qn__arg_bool(c, 0, false), .several = false};
    qn_val best_key = key_of(c, from->items[0], &by);
    for (uint32_t i = 1; i < from->n && c->h->status == QN_OK; i++) {
        const qn_val key = key_of(c, from->items[i], &by);
        if (c->h->status != QN_OK || sign * qn__val_compare(c->h, key, best_key) <= 0) continue;
        best = i;
        best_key = key;
    }
    return from->items[best];
}
qn_val qn__filter_min(qn_call *c) { return extreme(c, -1); }
qn_val qn__filter_max(qn_call *c) { return extreme(c, 1); }

qn_val qn__filter_groupby(qn_call *c)
{
    const sort_key by = {c->args[0], c->args[1], qn__arg_bool(c, 2, false), .several = false};
    const qn_vlist *all = sorted(c, qn__val_iterate(c->h, c->self), &by, false);
    qn_vlist *groups = all ? qn__list_new(c->h, QN_LIST_list, 0) : NULL, *members = NULL;
    qn_val last = qn__absent();
    for (uint32_t i = 0; groups && i < all->n && c->h->status == QN_OK; i++) {
        const qn_val shown = attribute_of(c, all->items[i], &by), key = folded(c, shown, by.case_sensitive);
        if (!members || !qn__heap_equal(c->h, key, last)) {
            if (!(members = qn__list_new(c->h, QN_LIST_list, 0))) break;
            const qn_val group = qn__val_pair(c->h, shown, qn__of_list(members));
            if (c->h->status == QN_OK) group.l->is_group = true;
            qn__list_add(c->h, groups, group);
        }
        qn__list_add(c->h, members, all->items[i]);
        last = key;
    }
    return list_or_nothing(groups);
}

/* ---- parts -------------------------------------------------------------------------------------- */

qn_val qn__filter_batch(qn_call *c)
{
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    const int64_t size = qn__arg_int(c, 0, 1);
    qn_vlist *all = qn__list_new(c->h, lazy(c), 0), *part = NULL;
    if (!from || !all) return nothing();
    if (size < 1) return QN_RAISE(c->h, "batch: a line count of at least 1 is needed");
    for (uint32_t i = 0; i < from->n && c->h->status == QN_OK; i++) {
        if (i % (uint64_t)size == 0) {
            if (!(part = qn__list_new(c->h, QN_LIST_list, 0))) return nothing();
            qn__list_add(c->h, all, qn__of_list(part));
        }
        qn__list_add(c->h, part, from->items[i]);
    }
    const bool fills = qn__given(c->args[1]) && c->args[1].type != QN_VAL_none;
    while (part && fills && part->n < (uint64_t)size && c->h->status == QN_OK) qn__list_add(c->h, part, c->args[1]);
    return qn__of_list(all);
}

qn_val qn__filter_slice(qn_call *c)
{
    const qn_vlist *from = qn__val_iterate(c->h, c->self);
    const int64_t n = qn__arg_int(c, 0, 1);
    qn_vlist *all = qn__list_new(c->h, lazy(c), 0);
    if (!from || !all) return nothing();
    if (n < 1 || n > 100000) return QN_RAISE(c->h, "slice: 1 to 100000 slices are possible");
    const int64_t each = from->n / n, more = from->n % n;
    const bool fills = qn__given(c->args[1]) && c->args[1].type != QN_VAL_none;
    uint32_t at = 0;
    for (int64_t i = 0; i < n && c->h->status == QN_OK; i++) {
        qn_vlist *part = qn__list_new(c->h, QN_LIST_list, 0);
        for (int64_t k = 0; part && k < each + (i < more); k++) qn__list_add(c->h, part, from->items[at++]);
        if (part && fills && i >= more) qn__list_add(c->h, part, c->args[1]);
        if (part) qn__list_add(c->h, all, qn__of_list(part));
    }
    return qn__of_list(all);
}
