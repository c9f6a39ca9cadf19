/* SPDX-License-Identifier: MIT */
/* src/text/jinja/objects.c -- methods of lists, dicts, loops and cyclers, and the functions that a template finds. */
#include "text/jinja/rows.h"

#include <time.h>

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }
static qn_val list_or_nothing(qn_vlist *l) { return l ? qn__of_list(l) : nothing(); }

/* ---- dicts ------------------------------------------------------------------------------------ */

qn_val qn__method_dict_get(qn_call *c)
{
    qn_val v;
    if (qn__dict_get(c->self.d, c->args[0], &v)) return v;
    return qn__given(c->args[1]) ? c->args[1] : qn__none();
}

static qn_val view(qn_call *c, qn_list_kind kind)
{
    const qn_vdict *d = c->self.d;
    qn_vlist *l = qn__list_new(c->h, kind, d->n);
    for (uint32_t i = 0; l && i < d->n; i++)
        qn__list_add(c->h, l,
                     kind == QN_LIST_keys     ? d->keys[i]
                     : kind == QN_LIST_values ? d->values[i]
                                              : qn__val_pair(c->h, d->keys[i], d->values[i]));
    return list_or_nothing(l);
}
qn_val qn__method_dict_keys(qn_call *c) { return view(c, QN_LIST_keys); }
qn_val qn__method_dict_values(qn_call *c) { return view(c, QN_LIST_values); }
qn_val qn__method_dict_items(qn_call *c) { return view(c, QN_LIST_items); }

static void add_all(qn_heap *h, qn_vdict *to, const qn_vdict *from)
{
    for (uint32_t i = 0; from && i < from->n; i++) qn__dict_set(h, to, from->keys[i], from->values[i]);
}

qn_val qn__method_dict_copy(qn_call *c)
{
    qn_vdict *d = qn__dict_new(c->h);
    add_all(c->h, d, c->self.d);
    return d ? qn__of_dict(d) : nothing();
}

qn_val qn__method_dict_pop(qn_call *c)
{
    qn_val v;
    if (qn__dict_remove(c->self.d, c->args[0], &v)) return v;
    if (qn__given(c->args[1])) return c->args[1];
    return QN_RAISE(c->h, "pop: the dict has no such key");
}

qn_val qn__method_dict_setdefault(qn_call *c)
{
    qn_val v = qn__given(c->args[1]) ? c->args[1] : qn__none();
    if (!qn__dict_get(c->self.d, c->args[0], &v)) qn__dict_set(c->h, c->self.d, c->args[0], v);
    return v;
}

/* Pairs, or a dict, into d; then the named arguments. */
static void fill(qn_call *c, qn_vdict *d)
{
    for (uint32_t i = 0; i < c->all->n && c->h->status == QN_OK; i++) {
        const qn_val from = c->all->positional[i];
        if (from.type == QN_VAL_dict) {
            add_all(c->h, d, from.d);
            continue;
        }
        const qn_vlist *l = qn__val_iterate(c->h, from);
        for (uint32_t k = 0; l && k < l->n && c->h->status == QN_OK; k++) {
            const qn_vlist *pair = qn__val_iterate(c->h, l->items[k]);
            if (pair && pair->n == 2)
                qn__dict_set(c->h, d, pair->items[0], pair->items[1]);
            else
                QN_RAISE(c->h, "a dict is made of pairs");
        }
    }
    add_all(c->h, d, c->all->named);
}

qn_val qn__method_dict_update(qn_call *c)
{
    fill(c, c->self.d);
    return qn__none();
}

/* ---- lists ------------------------------------------------------------------------------------ */

qn_val qn__method_list_index(qn_call *c)
{
    const int64_t n = c->self.l->n;
    int64_t i = qn__arg_int(c, 1, 0), stop = qn__arg_int(c, 2, n);
    if (i < 0) i = i + n < 0 ? 0 : i + n;
    if (stop < 0) stop += n;
    for (; i < stop && i < n; i++)
        if (qn__heap_equal(c->h, c->self.l->items[i], c->args[0])) return qn__int(i);
    return QN_RAISE(c->h, "the value is not in the list");
}

qn_val qn__method_list_count(qn_call *c)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < c->self.l->n; i++) n += qn__heap_equal(c->h, c->self.l->items[i], c->args[0]);
    return qn__int(n);
}

qn_val qn__method_list_copy(qn_call *c)
{
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, c->self.l->n);
    for (uint32_t i = 0; l && i < c->self.l->n; i++) qn__list_add(c->h, l, c->self.l->items[i]);
    return list_or_nothing(l);
}

qn_val qn__method_list_append(qn_call *c)
{
    qn__list_add(c->h, c->self.l, c->args[0]);
    return qn__none();
}

qn_val qn__method_list_clear(qn_call *c)
{
    c->self.l->n = 0;
    return qn__none();
}

qn_val qn__method_list_extend(qn_call *c)
{
    const qn_vlist *more = qn__val_iterate(c->h, c->args[0]);
    const uint32_t n = more ? more->n : 0;
    for (uint32_t i = 0; i < n && c->h->status == QN_OK; i++) qn__list_add(c->h, c->self.l, more->items[i]);
    return qn__none();
}

qn_val qn__method_list_insert(qn_call *c)
{
    qn_vlist *l = c->self.l;
    int64_t i = qn__arg_int(c, 0, 0);
    if (i < 0) i = i + l->n < 0 ? 0 : i + l->n;
    if (i > l->n) i = l->n;
    qn__list_add(c->h, l, c->args[1]);
    if (!qn__heap_work(c->h, (l->n - (uint64_t)i) / 8) || c->h->status != QN_OK) return nothing();
    memmove(l->items + i + 1, l->items + i, (l->n - 1 - (size_t)i) * sizeof *l->items);
    l->items[i] = c->args[1];
    return qn__none();
}

static qn_val take_out(qn_heap *h, qn_vlist *l, int64_t i)
{
    const qn_val v = l->items[i];
    l->n--;
    qn__heap_work(h, (l->n - (uint64_t)i) / 8);
    memmove(l->items + i, l->items + i + 1, (l->n - (size_t)i) * sizeof *l->items);
    return v;
}

qn_val qn__method_list_pop(qn_call *c)
{
    int64_t i = qn__arg_int(c, 0, -1);
    if (i < 0) i += c->self.l->n;
    if (i < 0 || i >= c->self.l->n) return QN_RAISE(c->h, "pop index out of range");
    return take_out(c->h, c->self.l, i);
}

qn_val qn__method_list_remove(qn_call *c)
{
    for (uint32_t i = 0; i < c->self.l->n; i++)
        if (qn__heap_equal(c->h, c->self.l->items[i], c->args[0])) return take_out(c->h, c->self.l, i), qn__none();
    return QN_RAISE(c->h, "list.remove(x): x not in list");
}

qn_val qn__method_list_reverse(qn_call *c)
{
    qn_vlist *l = c->self.l;
    for (uint32_t i = 0; i < l->n / 2; i++) {
        const qn_val v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
    return qn__none();
}

/* ---- loops, cyclers, joiners ------------------------------------------------------------------- */

static qn_val as_tuple(qn_call *c)
{
    qn_vlist *l = qn__list_new(c->h, QN_LIST_tuple, c->all->n);
    for (uint32_t i = 0; l && i < c->all->n; i++) qn__list_add(c->h, l, c->all->positional[i]);
    return list_or_nothing(l);
}

qn_val qn__method_loop_cycle(qn_call *c)
{
    const qn_loop *loop = c->self.p;
    return c->all->n ? c->all->positional[loop->i % c->all->n] : QN_RAISE(c->h, "no items for cycling given");
}

qn_val qn__method_loop_changed(qn_call *c)
{
    qn_loop *loop = c->self.p;
    const qn_val now = as_tuple(c);
    const bool same = qn__given(loop->changed) && qn__heap_equal(c->h, loop->changed, now);
    loop->changed = now;
    return qn__bool(!same);
}

qn_val qn__function_cycler(qn_call *c)
{
    qn_cycler *cycler = qn__heap_alloc(c->h, sizeof *cycler);
    const qn_val items = as_tuple(c);
    if (!cycler || c->h->status != QN_OK) return nothing();
    if (!c->all->n) return QN_RAISE(c->h, "at least one item has to be provided");
    cycler->items = items.l;
    return (qn_val){.type = QN_VAL_cycler, .p = cycler};
}

qn_val qn__method_cycler_next(qn_call *c)
{
    qn_cycler *cycler = c->self.p;
    const qn_val v = cycler->items->items[cycler->i];
    cycler->i = (cycler->i + 1) % cycler->items->n;
    return v;
}

qn_val qn__method_cycler_reset(qn_call *c)
{
    ((qn_cycler *)c->self.p)->i = 0;
    return qn__none();
}

qn_val qn__function_joiner(qn_call *c)
{
    qn_joiner *joiner = qn__heap_alloc(c->h, sizeof *joiner);
    if (!joiner) return nothing();
    joiner->separator = qn__given(c->args[0]) ? c->args[0] : qn__text_val(c->h, ", ");
    return (qn_val){.type = QN_VAL_joiner, .p = joiner};
}

/* ---- functions -------------------------------------------------------------------------------- */

#define MAX_RANGE 100000 /* as jinja2's sandbox */

qn_val qn__function_range(qn_call *c)
{
    const bool one = !qn__given(c->args[1]);
    const int64_t start = one ? 0 : qn__arg_int(c, 0, 0), stop = qn__arg_int(c, one ? 0 : 1, 0);
    const int64_t step = qn__arg_int(c, 2, 1);
    if (c->h->status != QN_OK) return nothing();
    if (step == 0) return QN_RAISE(c->h, "range() arg 3 must not be zero");
    const __int128 span = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    const __int128 by = step > 0 ? step : -(__int128)step, n = span > 0 ? (span + by - 1) / by : 0;
    if (n > MAX_RANGE) return QN_RAISE(c->h, "range too big: at most %d elements", MAX_RANGE);
    qn_vlist *l = qn__list_new(c->h, QN_LIST_range, (uint32_t)n);
    if (!l) return nothing();
    l->start = start;
    l->stop = stop;
    l->step = step;
    for (int64_t i = 0; i < (int64_t)n; i++) qn__list_add(c->h, l, qn__int(start + i * step));
    return qn__of_list(l);
}

qn_val qn__function_dict(qn_call *c)
{
    qn_vdict *d = qn__dict_new(c->h);
    fill(c, d);
    return d ? qn__of_dict(d) : nothing();
}

qn_val qn__function_namespace(qn_call *c)
{
    qn_val v = qn__function_dict(c);
    if (v.type == QN_VAL_dict) v.type = QN_VAL_namespace;
    return v;
}

qn_val qn__function_raise_exception(qn_call *c)
{
    const qn_val text = qn__to_str(c->h, c->args[0]);
    if (c->h->status != QN_OK) return nothing();
    return qn__heap_fail(c->h, QN_STATUS_cancelled, "%s", text.s->data);
}

qn_val qn__function_strftime_now(qn_call *c)
{
    char text[512];
    struct tm tm;
    const qn_vstr *format = qn__arg_str(c, 0);
    const int64_t now = c->r->options->now;
    const time_t t = now ? (time_t)now : time(NULL);
    if (!format || !(now ? gmtime_r(&t, &tm) : localtime_r(&t, &tm))) return nothing();
    if (format->n > 200) return QN_RAISE(c->h, "strftime_now: a format of more than 200 bytes");
    text[0] = '\0';
    const size_t n = strftime(text, sizeof text, format->data, &tm);
    return qn__str_val(c->h, text, n, format->trust == QN_TRUST_all);
}
