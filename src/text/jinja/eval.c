/* SPDX-License-Identifier: MIT */
/* src/text/jinja/eval.c -- expressions. */
#include "base/str.h"
#include "text/jinja/call.h"
#include "text/utf8.h"

#include <math.h>

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

/* ---- names ------------------------------------------------------------------------------------ */

static qn_val look_up(qn_run *r, const qn_jnode *node)
{
    for (const qn_scope *s = r->scope; s; s = s->outer)
        for (int i = s->n - 1; i >= 0; i--)
            if (s->syms[i] == node->sym) return s->values[i];
    const qn_function_row *row = qn__global_find(node->name);
    if (!row) return qn__val_undefined(r->h, "'%s' is undefined", node->name);
    qn_bound *bound = qn__heap_alloc(r->h, sizeof *bound);
    if (!bound) return nothing();
    bound->row = row;
    return (qn_val){.type = QN_VAL_function, .p = bound};
}

void qn__set_var(qn_run *r, int sym, qn_val v)
{
    qn_scope *s = r->scope;
    for (int i = 0; i < s->n; i++)
        if (s->syms[i] == sym) {
            s->values[i] = v;
            return;
        }
    if (s->n == s->cap) {
        const int cap = s->cap ? 2 * s->cap : 8;
        int *syms = qn__heap_alloc(r->h, (size_t)cap * sizeof *syms);
        qn_val *values = qn__heap_alloc(r->h, (size_t)cap * sizeof *values);
        if (!syms || !values) return;
        if (s->n) {
            memcpy(syms, s->syms, (size_t)s->n * sizeof *syms);
            memcpy(values, s->values, (size_t)s->n * sizeof *values);
        }
        s->syms = syms;
        s->values = values;
        s->cap = cap;
    }
    s->syms[s->n] = sym;
    s->values[s->n++] = v;
}

qn_scope *qn__scope_new(qn_run *r, qn_scope *outer)
{
    qn_scope *s = qn__heap_alloc(r->h, sizeof *s);
    if (s) s->outer = outer;
    return s;
}

/* ---- attributes and elements ------------------------------------------------------------------ */

static int64_t loop_length(qn_run *r, qn_loop *l)
{
    qn__loop_reaches(r, l, UINT32_MAX);
    return l->items->n;
}

/* last and nextitem look one element ahead, length and revindex at all of them. */
static qn_val loop_attr(qn_run *r, qn_loop *l, const char *name)
{
    const uint32_t i = l->i;
    if (!strcmp(name, "index")) return qn__int((int64_t)i + 1);
    if (!strcmp(name, "index0")) return qn__int(i);
    if (!strcmp(name, "revindex")) return qn__int(loop_length(r, l) - i);
    if (!strcmp(name, "revindex0")) return qn__int(loop_length(r, l) - i - 1);
    if (!strcmp(name, "first")) return qn__bool(i == 0);
    if (!strcmp(name, "last")) return qn__bool(!qn__loop_reaches(r, l, i + 1));
    if (!strcmp(name, "length")) return qn__int(loop_length(r, l));
    if (!strcmp(name, "depth")) return qn__int(l->depth + 1);
    if (!strcmp(name, "depth0")) return qn__int(l->depth);
    if (!strcmp(name, "previtem"))
        return i ? l->items->items[i - 1] : qn__val_undefined(r->h, "there is no previous item");
    if (!strcmp(name, "nextitem"))
        return qn__loop_reaches(r, l, i + 1) ? l->items->items[i + 1]
                                             : qn__val_undefined(r->h, "there is no next item");
    return qn__val_undefined(r->h, "'loop' has no attribute '%s'", name);
}

static qn_val method(qn_run *r, qn_val self, const char *name)
{
    const qn_function_row *row = qn__method_find(self, name);
    qn_bound *bound = row ? qn__heap_alloc(r->h, sizeof *bound) : NULL;
    if (!bound) return (qn_val){.type = QN_VAL_absent};
    bound->row = row;
    bound->self = self;
    return (qn_val){.type = QN_VAL_function, .p = bound};
}

static qn_val raise_undefined(qn_run *r, qn_val v)
{
    return QN_RAISE(r->h, "%s", v.s ? v.s->data : "an undefined value was used");
}

static qn_val missing(qn_run *r, qn_val object, const char *name)
{
    return qn__val_undefined(r->h, "'%s object' has no attribute '%.80s'", qn__type_name(object), name);
}

qn_val qn__get_attr(qn_run *r, qn_val object, const char *name)
{
    qn_val v;
    if (qn__is_undefined(object)) return raise_undefined(r, object);
    if (object.type == QN_VAL_loop) {
        v = method(r, object, name);
        return qn__given(v) ? v : loop_attr(r, object.p, name);
    }
    if (object.type == QN_VAL_namespace) return qn__dict_find(object.d, name, &v) ? v : missing(r, object, name);
    if (object.type == QN_VAL_list && object.l->is_group) { /* of groupby: a tuple whose parts have names */
        if (!strcmp(name, "grouper")) return object.l->items[0];
        if (!strcmp(name, "list")) return object.l->items[1];
    }
    if (object.type == QN_VAL_cycler && !strcmp(name, "current")) {
        const qn_cycler *cycler = object.p;
        return cycler->items->items[cycler->i];
    }
    v = method(r, object, name);
    if (qn__given(v)) return v;
    if (object.type == QN_VAL_dict && qn__dict_find(object.d, name, &v)) return v;
    if (object.type == QN_VAL_macro && !strcmp(name, "name"))
        return qn__text_val(r->h, ((const qn_macro *)object.p)->def->name);
    return missing(r, object, name);
}

qn_val qn__get_item(qn_run *r, qn_val object, qn_val key)
{
    qn_val v;
    if (qn__is_undefined(object)) return raise_undefined(r, object);
    const bool wide = qn__is_str(object) && object.s->n_chars < object.s->n; /* its characters have to be counted */
    const uint64_t reads = qn__is_str(key) ? key.s->n / QN_WORK_BYTES : wide ? object.s->n : 0;
    if (reads && !qn__heap_work(r->h, reads)) return nothing();
    if (object.type == QN_VAL_dict && qn__dict_get(object.d, key, &v)) return v;
    if (qn__is_integer(key)) {
        int64_t i = qn__integer(key);
        if (object.type == QN_VAL_list && object.l->kind != QN_LIST_generator && object.l->kind != QN_LIST_keys &&
            object.l->kind != QN_LIST_values && object.l->kind != QN_LIST_items) {
            if (i < 0) i += object.l->n;
            if (i >= 0 && i < object.l->n) return object.l->items[i];
        }
        if (qn__is_str(object)) {
            const qn_vstr *s = object.s;
            if (i < 0) i += s->n_chars;
            if (i >= 0 && i < s->n_chars)
                return qn__str_part(r->h, s, qn__str_byte(s, (uint32_t)i), qn__str_byte(s, (uint32_t)i + 1));
        }
        return qn__val_undefined(r->h, "'%s object' has no element %lld", qn__type_name(object), (long long)i);
    }
    if (qn__is_str(key)) return qn__get_attr(r, object, key.s->data);
    return qn__val_undefined(r->h, "'%s object' has no such element", qn__type_name(object));
}

static qn_val or_else(qn_val v, qn_val otherwise)
{
    const bool some = qn__given(otherwise) && otherwise.type != QN_VAL_none;
    return some && qn__is_undefined(v) ? otherwise : v;
}

qn_val qn__get_path(qn_run *r, qn_val object, qn_val path, qn_val otherwise)
{
    if (!qn__is_str(path)) return or_else(qn__get_item(r, object, path), otherwise);
    const char *p = path.s->data, *const end = p + path.s->n;
    for (;;) {
        const char *dot = memchr(p, '.', (size_t)(end - p));
        const size_t n = (size_t)((dot ? dot : end) - p);
        const qn_val part = qn__str_val(r->h, p, n, true);
        int64_t i;
        if (qn__run_failed(r)) return nothing();
        object = qn__get_item(r, object, qn__parse_i64(part.s->data, 0, INT64_MAX, &i) ? qn__int(i) : part);
        object = or_else(object, otherwise);
        if (!dot || qn__run_failed(r)) return object;
        p = dot + 1;
    }
}

/* Python's slice.indices for one end. */
static int64_t slice_end(qn_run *r, qn_val v, int64_t n, int64_t otherwise, bool backward)
{
    if (!qn__given(v) || v.type == QN_VAL_none) return otherwise;
    if (!qn__is_integer(v)) {
        QN_RAISE(r->h, "slice indices must be integers, not %s", qn__type_name(v));
        return 0;
    }
    int64_t i = qn__integer(v);
    if (i < 0) {
        i = i < -n ? -n : i;
        i += n;
        if (qn__integer(v) < -n) i = backward ? -1 : 0;
    } else if (i >= n) {
        i = backward ? n - 1 : n;
    }
    return i;
}

qn_val qn__get_slice(qn_run *r, qn_val object, qn_val start, qn_val stop, qn_val step)
{
    if (qn__is_undefined(object)) return raise_undefined(r, object);
    const bool text = qn__is_str(object);
    if (text && object.s->n_chars < object.s->n && !qn__heap_work(r->h, object.s->n)) return nothing();
    if (!text && (object.type != QN_VAL_list || (object.l->kind > QN_LIST_tuple && object.l->kind != QN_LIST_range)))
        return qn__val_undefined(r->h, "'%s object' cannot be sliced", qn__type_name(object));
    if (qn__given(step) && step.type != QN_VAL_none && !qn__is_integer(step))
        return QN_RAISE(r->h, "slice indices must be integers, not %s", qn__type_name(step));
    const int64_t by = qn__is_integer(step) ? qn__integer(step) : 1;
    if (by == 0) return QN_RAISE(r->h, "slice step cannot be zero");
    const int64_t n = text ? object.s->n_chars : object.l->n;
    const int64_t from = slice_end(r, start, n, by > 0 ? 0 : n - 1, by < 0);
    const int64_t to = slice_end(r, stop, n, by > 0 ? n : -1, by < 0);
    if (qn__run_failed(r)) return nothing();
    if (text && by == 1)
        return from >= to ? qn__str_val(r->h, "", 0, true)
                          : qn__str_part(r->h, object.s, qn__str_byte(object.s, (uint32_t)from),
                                         qn__str_byte(object.s, (uint32_t)to));
    const qn_vlist *all = text ? qn__val_iterate(r->h, object) : object.l;
    qn_vlist *l = qn__list_new(r->h, text ? QN_LIST_list : object.l->kind, 0);
    if (!all || !l) return nothing();
    const int64_t stride = by > n ? n + 1 : by < -n ? -n - 1 : by;
    for (int64_t i = from; by > 0 ? i < to : i > to; i += stride) qn__list_add(r->h, l, all->items[i]);
    if (l->kind == QN_LIST_range) {
        l->start = all->start + from * all->step;
        l->stop = all->start + to * all->step;
        l->step = all->step * stride;
    }
    if (!text) return qn__of_list(l);
    qn_vbuf b = {.h = r->h};
    for (uint32_t i = 0; i < l->n; i++) qn__buf_str(&b, l->items[i].s);
    return qn__buf_val(&b);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static qn_argv evaluate_args(qn_run *r, const qn_args *args)
{
    qn_argv v = {0};
    if (!args) return v;
    qn_vlist *l = qn__list_new(r->h, QN_LIST_list, (uint32_t)args->n_positional + 1);
    for (int i = 0; i < args->n_positional && !qn__run_failed(r); i++)
        qn__list_add(r->h, l, qn__jinja_eval(r, args->positional[i]));
    if (args->star && !qn__run_failed(r)) {
        const qn_vlist *more = qn__val_iterate(r->h, qn__jinja_eval(r, args->star));
        for (uint32_t i = 0; more && i < more->n; i++) qn__list_add(r->h, l, more->items[i]);
    }
    if (args->n_named || args->star_star) v.named = qn__dict_new(r->h);
    for (int i = 0; i < args->n_named && !qn__run_failed(r); i++)
        qn__dict_set(r->h, v.named, qn__text_val(r->h, args->names[i]), qn__jinja_eval(r, args->named[i]));
    if (args->star_star && !qn__run_failed(r)) {
        const qn_val more = qn__jinja_eval(r, args->star_star);
        if (more.type != QN_VAL_dict) QN_RAISE(r->h, "the argument behind ** is a %s, not a dict", qn__type_name(more));
        for (uint32_t i = 0; more.type == QN_VAL_dict && i < more.d->n; i++)
            qn__dict_set(r->h, v.named, more.d->keys[i], more.d->values[i]);
    }
    if (l) {
        v.positional = l->items;
        v.n = l->n;
    }
    return v;
}

static qn_val eval_call(qn_run *r, const qn_jnode *node)
{
    const qn_jnode *f = node->a;
    if (f->kind == QN_N_attr) { /* a method, without making it a value */
        const qn_val self = qn__jinja_eval(r, f->a);
        if (qn__run_failed(r)) return nothing();
        const qn_function_row *row = qn__is_undefined(self) ? NULL : qn__method_find(self, f->name);
        const qn_val what = row ? nothing() : qn__get_attr(r, self, f->name);
        if (qn__run_failed(r)) return nothing();
        const qn_argv argv = evaluate_args(r, node->args);
        r->at = node->at;
        if (qn__run_failed(r)) return nothing();
        return row ? qn__call_row(r, row, self, &argv) : qn__jinja_call(r, what, &argv);
    }
    const qn_val what = qn__jinja_eval(r, f);
    if (qn__run_failed(r)) return nothing();
    const qn_argv argv = evaluate_args(r, node->args);
    r->at = node->at;
    return qn__run_failed(r) ? nothing() : qn__jinja_call(r, what, &argv);
}

/* ---- operators -------------------------------------------------------------------------------- */

qn_val qn__val_concat(qn_heap *h, qn_val a, qn_val b)
{
    const bool markup = a.s->markup || b.s->markup;
    if (markup && !a.s->markup) a = qn__html_escape(h, a.s);
    if (markup && !b.s->markup) b = qn__html_escape(h, b.s);
    if (h->status != QN_OK) return nothing();
    qn_vbuf buf = {.h = h};
    qn__buf_go_on(&buf, a.s);
    qn__buf_str(&buf, b.s);
    const qn_val v = qn__buf_joined(&buf);
    if (markup && qn__is_str(v)) ((qn_vstr *)v.s)->markup = true;
    return v;
}

static qn_val unsupported(qn_run *r, const char *op, qn_val a, qn_val b)
{
    if (qn__is_undefined(a)) return raise_undefined(r, a);
    if (qn__is_undefined(b)) return raise_undefined(r, b);
    return QN_RAISE(r->h, "unsupported operand types for %s: '%s' and '%s'", op, qn__type_name(a), qn__type_name(b));
}

static qn_val repeat(qn_run *r, qn_val v, int64_t times)
{
    const uint64_t bytes = qn__is_str(v) ? v.s->n : v.l->n * sizeof *v.l->items;
    if (bytes && times > 0 && (uint64_t)times > r->h->max_bytes / bytes)
        return qn__heap_fail(r->h, QN_STATUS_limit, "the template needs more than %zu MiB", r->h->max_bytes >> 20);
    if (qn__is_str(v)) {
        qn_vbuf b = {.h = r->h};
        qn__buf_repeat(&b, v.s, times);
        return qn__buf_val(&b);
    }
    qn_vlist *l = qn__list_new(r->h, v.l->kind, 0);
    for (int64_t i = 0; i < times && v.l->n && !qn__run_failed(r); i++)
        for (uint32_t k = 0; k < v.l->n; k++) qn__list_add(r->h, l, v.l->items[k]);
    return l ? qn__of_list(l) : nothing();
}

static int64_t floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static qn_val integer_op(qn_run *r, int op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool over = false;
    if ((op == QN_J_div || op == QN_J_floordiv || op == QN_J_mod) && b == 0)
        return QN_RAISE(r->h, op == QN_J_div ? "division by zero" : "integer division or modulo by zero");
    switch (op) {
    case QN_J_add: over = __builtin_add_overflow(a, b, &v); break;
    case QN_J_sub: over = __builtin_sub_overflow(a, b, &v); break;
    case QN_J_mul: over = __builtin_mul_overflow(a, b, &v); break;
    case QN_J_div: return qn__float((double)a / (double)b);
    case QN_J_floordiv:
        over = a == INT64_MIN && b == -1;
        v = over ? 0 : floor_div(a, b);
        break;
    case QN_J_mod: v = b == -1 ? 0 : a - floor_div(a, b) * b; break;
    default: /* power */
        if (b < 0) {
            if (a == 0) return QN_RAISE(r->h, "0.0 cannot be raised to a negative power");
            return qn__float(pow((double)a, (double)b));
        }
        v = 1;
        for (int64_t base = a; b && !over; b >>= 1) {
            if (b & 1) over = __builtin_mul_overflow(v, base, &v);
            if (b > 1 && !over) over = __builtin_mul_overflow(base, base, &base);
        }
    }
    return over ? QN_RAISE(r->h, "an integer beyond 64 bits") : qn__int(v);
}

static qn_val real_op(qn_run *r, int op, double a, double b)
{
    if ((op == QN_J_div || op == QN_J_floordiv || op == QN_J_mod) && b == 0)
        return QN_RAISE(r->h, op == QN_J_mod ? "float modulo" : "float division by zero");
    double m;
    switch (op) {
    case QN_J_add: return qn__float(a + b);
    case QN_J_sub: return qn__float(a - b);
    case QN_J_mul: return qn__float(a * b);
    case QN_J_div: return qn__float(a / b);
    case QN_J_floordiv: return qn__float(floor(a / b));
    case QN_J_mod: m = fmod(a, b); return qn__float(m != 0 && (m < 0) != (b < 0) ? m + b : m);
    default:
        if (a == 0 && b < 0) return QN_RAISE(r->h, "0.0 cannot be raised to a negative power");
        m = pow(a, b);
        return isnan(m) && !isnan(a) && !isnan(b) ? QN_RAISE(r->h, "a complex number") : qn__float(m);
    }
}

qn_val qn__val_binary(qn_run *r, int op, qn_val a, qn_val b)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (qn__is_integer(a) && qn__is_integer(b)) return integer_op(r, op, qn__integer(a), qn__integer(b));
    if (qn__is_number(a) && qn__is_number(b)) return real_op(r, op, qn__real(a), qn__real(b));
    if (op == QN_J_add && qn__is_str(a) && qn__is_str(b)) return qn__val_concat(r->h, a, b);
    const bool lists = a.type == QN_VAL_list && a.l->kind <= QN_LIST_tuple;
    if (op == QN_J_add && lists && b.type == QN_VAL_list && b.l->kind == a.l->kind) {
        qn_vlist *l = qn__list_new(r->h, a.l->kind, a.l->n + b.l->n + 1);
        for (uint32_t i = 0; i < a.l->n; i++) qn__list_add(r->h, l, a.l->items[i]);
        for (uint32_t i = 0; i < b.l->n; i++) qn__list_add(r->h, l, b.l->items[i]);
        return l ? qn__of_list(l) : nothing();
    }
    if (op == QN_J_mul && (qn__is_str(a) || lists) && qn__is_integer(b)) return repeat(r, a, qn__integer(b));
    if (op == QN_J_mul && qn__is_integer(a) && (qn__is_str(b) || (b.type == QN_VAL_list && b.l->kind <= QN_LIST_tuple)))
        return repeat(r, b, qn__integer(a));
    if (op == QN_J_mod && qn__is_str(a)) return qn__str_percent(r, a.s, b);
    return unsupported(r, names[op], a, b);
}

bool qn__val_compare_op(qn_run *r, int op, qn_val a, qn_val b)
{
    switch (op) {
    case QN_J_eq: return qn__heap_equal(r->h, a, b);
    case QN_J_ne: return !qn__heap_equal(r->h, a, b);
    case QN_J_in: return qn__val_contains(r->h, b, a);
    case QN_J_not_in: return !qn__val_contains(r->h, b, a);
    default: break;
    }
    if (qn__is_undefined(a) || qn__is_undefined(b)) {
        raise_undefined(r, qn__is_undefined(a) ? a : b);
        return false;
    }
    if (qn__is_number(a) && qn__is_number(b) && (isnan(qn__real(a)) || isnan(qn__real(b)))) return false;
    const int c = qn__val_compare(r->h, a, b);
    return op == QN_J_lt ? c < 0 : op == QN_J_le ? c <= 0 : op == QN_J_gt ? c > 0 : c >= 0;
}

static qn_val eval_compare(qn_run *r, const qn_jnode *node)
{
    qn_val left = qn__jinja_eval(r, node->a);
    for (int i = 0; i < node->n && !qn__run_failed(r); i++) {
        const qn_val right = qn__jinja_eval(r, node->items[i]);
        if (qn__run_failed(r)) break;
        r->at = node->at;
        if (!qn__val_compare_op(r, node->ops[i], left, right)) return qn__bool(false);
        left = right;
    }
    return qn__bool(true);
}

static qn_val eval_unary(qn_run *r, const qn_jnode *node)
{
    const qn_val v = qn__jinja_eval(r, node->a);
    if (node->op == QN_J_not) return qn__bool(!qn__val_truth(v));
    if (qn__run_failed(r)) return nothing();
    if (qn__is_undefined(v)) return raise_undefined(r, v);
    if (!qn__is_number(v)) return QN_RAISE(r->h, "bad operand type for unary sign: '%s'", qn__type_name(v));
    if (node->op == QN_J_pos) return qn__is_integer(v) ? qn__int(qn__integer(v)) : v;
    return qn__is_integer(v) ? integer_op(r, QN_J_sub, 0, qn__integer(v)) : qn__float(-v.f);
}

static qn_val eval_concat(qn_run *r, const qn_jnode *node)
{
    qn_vbuf b = {.h = r->h};
    qn_val *parts = qn__heap_alloc(r->h, (size_t)node->n * sizeof *parts);
    /* all of them first: they may be joined, too, or change each other */
    for (int i = 0; i < node->n && !qn__run_failed(r); i++) parts[i] = qn__jinja_eval(r, node->items[i]);
    if (qn__run_failed(r)) return nothing();
    if (qn__is_str(parts[0]))
        qn__buf_go_on(&b, parts[0].s);
    else
        qn__val_print(&b, parts[0], false);
    for (int i = 1; i < node->n; i++) qn__val_print(&b, parts[i], false);
    return qn__buf_joined(&b);
}

static qn_val eval_items(qn_run *r, const qn_jnode *node)
{
    if (node->kind != QN_N_dict) {
        qn_vlist *l = qn__list_new(r->h, node->kind == QN_N_list ? QN_LIST_list : QN_LIST_tuple, (uint32_t)node->n);
        for (int i = 0; i < node->n && !qn__run_failed(r); i++)
            qn__list_add(r->h, l, qn__jinja_eval(r, node->items[i]));
        return l ? qn__of_list(l) : nothing();
    }
    qn_vdict *d = qn__dict_new(r->h);
    for (int i = 0; i < node->n && !qn__run_failed(r); i += 2) {
        const qn_val key = qn__jinja_eval(r, node->items[i]);
        qn__dict_set(r->h, d, key, qn__jinja_eval(r, node->items[i + 1]));
    }
    return d ? qn__of_dict(d) : nothing();
}

static qn_val or_absent(qn_run *r, const qn_jnode *node) { return node ? qn__jinja_eval(r, node) : qn__absent(); }

qn_val qn__jinja_eval(qn_run *r, const qn_jnode *node)
{
    qn_val a, b;
    if (qn__run_failed(r)) return nothing();
    if (--r->steps < 0) return qn__heap_fail(r->h, QN_STATUS_limit, "the template takes too many steps");
    r->at = node->at;
    switch (node->kind) {
    case QN_N_const: return node->value;
    case QN_N_name: return look_up(r, node);
    case QN_N_list:
    case QN_N_tuple:
    case QN_N_dict: return eval_items(r, node);
    case QN_N_attr:
        a = qn__jinja_eval(r, node->a);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__get_attr(r, a, node->name);
    case QN_N_item:
        a = qn__jinja_eval(r, node->a);
        b = qn__jinja_eval(r, node->b);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__get_item(r, a, b);
    case QN_N_slice: {
        a = qn__jinja_eval(r, node->a);
        const qn_val start = or_absent(r, node->items[0]), stop = or_absent(r, node->items[1]);
        const qn_val step = or_absent(r, node->items[2]);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__get_slice(r, a, start, stop, step);
    }
    case QN_N_call: return eval_call(r, node);
    case QN_N_filter: {
        a = qn__jinja_eval(r, node->a);
        const qn_argv argv = evaluate_args(r, node->args);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__apply_filter(r, node->filter, a, &argv);
    }
    case QN_N_test: {
        a = qn__jinja_eval(r, node->a);
        const qn_argv argv = evaluate_args(r, node->args);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__bool(qn__apply_test(r, node->test, a, &argv));
    }
    case QN_N_unary: return eval_unary(r, node);
    case QN_N_binary:
        a = qn__jinja_eval(r, node->a);
        b = qn__jinja_eval(r, node->b);
        r->at = node->at;
        return qn__run_failed(r) ? nothing() : qn__val_binary(r, node->op, a, b);
    case QN_N_compare: return eval_compare(r, node);
    case QN_N_and: a = qn__jinja_eval(r, node->a); return qn__val_truth(a) ? qn__jinja_eval(r, node->b) : a;
    case QN_N_or: a = qn__jinja_eval(r, node->a); return qn__val_truth(a) ? a : qn__jinja_eval(r, node->b);
    case QN_N_concat: return eval_concat(r, node);
    case QN_N_cond:
        if (qn__val_truth(qn__jinja_eval(r, node->b))) return qn__jinja_eval(r, node->a);
        if (node->c) return qn__jinja_eval(r, node->c);
        return qn__val_undefined(r->h, "the inline if-expression evaluated to false and no else section was defined");
    default: return QN_RAISE(r->h, "not an expression");
    }
}
