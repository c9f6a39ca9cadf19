/* SPDX-License-Identifier: MIT */
/* src/text/jinja/exec.c -- statements, macros, and a rendering as a whole.
 *
 * Scopes: the bodies of for, macro, call, filter, generation, with and block set have one of their own, and a for
 * loop's is new each time round; if has none. A macro sees the scope in which it was defined, as it is when it is
 * called. */
#include "text/jinja/call.h"

#include <time.h>

#define MAX_CALLS 60 /* of macros in macros and loops in loops, each some levels of the C stack */

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

/* ---- assigning -------------------------------------------------------------------------------- */

void qn__var_assign(qn_run *r, const qn_jnode *target, qn_val v)
{
    if (qn__run_failed(r)) return;
    if (target->kind == QN_N_name) {
        qn__set_var(r, target->sym, v);
        return;
    }
    if (target->kind == QN_N_attr) {
        const qn_val ns = qn__jinja_eval(r, target->a);
        if (ns.type != QN_VAL_namespace)
            QN_RAISE(r->h, "cannot assign attribute on non-namespace object");
        else
            qn__dict_set(r->h, ns.d, qn__text_val(r->h, target->name), v);
        return;
    }
    const qn_vlist *l = qn__val_iterate(r->h, v);
    if (!l) return;
    if ((int)l->n != target->n) {
        QN_RAISE(r->h, "%u values to unpack, %d expected", l->n, target->n);
        return;
    }
    for (int i = 0; i < target->n; i++) qn__var_assign(r, target->items[i], l->items[i]);
}

/* What the body writes, as a string; in a scope of its own. A body that break or continue left is not shown, filtered
 * or assigned: whoever asks for it looks at r->jump. */
static qn_val captured(qn_run *r, const qn_jnode *body)
{
    qn_vbuf text = {.h = r->h}, *const out = r->out;
    qn_scope *const scope = r->scope;
    r->out = &text;
    r->scope = qn__scope_new(r, scope);
    if (r->scope) qn__jinja_exec(r, body);
    r->scope = scope;
    r->out = out;
    return qn__buf_val(&text);
}

/* The chain of a filter block; its innermost filter has no source of its own. */
static qn_val filtered(qn_run *r, const qn_jnode *chain, qn_val text)
{
    const qn_val self = chain->a ? filtered(r, chain->a, text) : text;
    if (qn__run_failed(r)) return nothing();
    qn_jnode source = {.kind = QN_N_const, .at = chain->at, .value = self};
    qn_jnode one = *chain;
    one.a = &source;
    return qn__jinja_eval(r, &one);
}

/* ---- loops ------------------------------------------------------------------------------------ */

static bool enter(qn_run *r)
{
    if (++r->depth <= MAX_CALLS) return true;
    qn__heap_fail(r->h, QN_STATUS_limit, "macros or loops call each other more than %d deep", MAX_CALLS);
    return false;
}

/* The condition is asked late, because the body may change what it depends on (a namespace's flag that ends a loop). */
bool qn__loop_reaches(qn_run *r, qn_loop *l, uint32_t i)
{
    if (i < l->items->n || !l->node->d) return i < l->items->n;
    if (l->trying) { /* the two would call each other without end */
        QN_RAISE(r->h, "the condition of a loop asks what the loop's elements are");
        return false;
    }
    if (!enter(r)) return false;
    qn_scope *const scope = r->scope;
    l->trying = true;
    while (i >= l->items->n && l->tried < l->of->n && !qn__run_failed(r)) {
        const qn_val v = l->of->items[l->tried++];
        if (!(r->scope = qn__scope_new(r, l->scope))) break;
        qn__var_assign(r, l->node->target, v);
        if (qn__val_truth(qn__jinja_eval(r, l->node->d))) qn__list_add(r->h, l->items, v);
    }
    l->trying = false;
    r->scope = scope;
    r->depth--;
    return i < l->items->n && !qn__run_failed(r);
}

static void run_loop(qn_run *r, const qn_jnode *node, qn_val over, int depth)
{
    qn_vlist *of = qn__run_failed(r) ? NULL : qn__val_iterate(r->h, over);
    qn_vlist *items = of && node->d ? qn__list_new(r->h, QN_LIST_list, 0) : of;
    if (!items) return;
    qn_scope *const outer = r->scope;
    qn_loop *loop = qn__heap_alloc(r->h, sizeof *loop);
    if (!loop || !enter(r)) return;
    *loop = (qn_loop){.items = items, .of = of, .depth = depth, .node = node, .scope = outer};
    loop->changed = qn__absent();
    bool through = false;
    for (uint32_t i = 0; qn__loop_reaches(r, loop, i) && !qn__run_failed(r); i++) {
        loop->i = i;
        if (!(r->scope = qn__scope_new(r, outer))) break;
        qn__set_var(r, QN_SYM_loop, (qn_val){.type = QN_VAL_loop, .p = loop});
        qn__var_assign(r, node->target, items->items[i]);
        qn__jinja_exec(r, node->b);
        const bool stop = r->jump == QN_BREAK;
        through |= r->jump == QN_GO_ON;
        r->jump = QN_GO_ON;
        if (stop) break;
    }
    r->scope = outer;
    r->depth--;
    /* else runs when no time round came to the end of the body, as in jinja2 */
    if (!through && node->c && !qn__run_failed(r)) {
        r->scope = qn__scope_new(r, outer);
        if (r->scope) qn__jinja_exec(r, node->c);
        r->scope = outer;
    }
}

qn_val qn__call_loop(qn_run *r, const qn_loop *outer, qn_val over)
{
    if (!outer->node->flag) return QN_RAISE(r->h, "the loop is not recursive");
    qn_vbuf text = {.h = r->h}, *const out = r->out;
    qn_scope *const scope = r->scope;
    r->out = &text;
    r->scope = outer->scope;
    run_loop(r, outer->node, over, outer->depth + 1);
    r->scope = scope;
    r->out = out;
    return qn__buf_val(&text);
}

/* ---- macros ----------------------------------------------------------------------------------- */

qn_val qn__call_macro(qn_run *r, const qn_macro *m, const qn_argv *argv, qn_val caller)
{
    const qn_macro_def *def = m->def;
    qn_scope *const scope = r->scope;
    qn_vlist *rest = qn__list_new(r->h, QN_LIST_tuple, 0);
    qn_vdict *others = qn__dict_new(r->h);
    if (!rest || !others || !enter(r)) return nothing();
    if ((int64_t)argv->n > def->n_params && !def->takes_varargs)
        return QN_RAISE(r->h, "macro '%s' takes not more than %d argument(s)", def->name, def->n_params);
    for (uint32_t i = (uint32_t)def->n_params; i < argv->n; i++) qn__list_add(r->h, rest, argv->positional[i]);
    bool explicit_caller = false;
    for (uint32_t i = 0; argv->named && i < argv->named->n; i++) {
        const qn_val key = argv->named->keys[i];
        int p = 0;
        while (p < def->n_params && !qn__str_is(key, r->j->names[def->params[p]])) p++;
        if (p < def->n_params && (uint32_t)p >= argv->n) continue;
        if (p < def->n_params) return QN_RAISE(r->h, "macro '%s' got '%s' twice", def->name, key.s->data);
        if (qn__str_is(key, "caller")) {
            caller = argv->named->values[i];
            explicit_caller = true;
        } else if (def->takes_kwargs) {
            qn__dict_set(r->h, others, key, argv->named->values[i]);
        } else {
            return QN_RAISE(r->h, "macro '%s' takes no keyword argument '%.60s'", def->name,
                            qn__is_str(key) ? key.s->data : "");
        }
    }
    if ((qn__given(caller) || explicit_caller) && !def->takes_caller)
        return QN_RAISE(r->h, "macro '%s' was invoked with two values for the special caller argument or takes none",
                        def->name);
    if (!(r->scope = qn__scope_new(r, m->scope))) return nothing();
    for (int i = 0; i < def->n_params && !qn__run_failed(r); i++) {
        const char *name = r->j->names[def->params[i]];
        qn_val v;
        const int with_default = i - (def->n_params - def->n_defaults);
        if ((uint32_t)i < argv->n)
            v = argv->positional[i];
        else if (argv->named && qn__dict_find(argv->named, name, &v))
            ;
        else if (with_default >= 0)
            v = qn__jinja_eval(r, def->defaults[with_default]);
        else
            v = qn__val_undefined(r->h, "parameter '%s' was not provided", name);
        qn__set_var(r, def->params[i], v);
    }
    if (def->takes_caller)
        qn__set_var(r, QN_SYM_caller, qn__given(caller) ? caller : qn__val_undefined(r->h, "No caller defined"));
    if (def->takes_varargs) qn__set_var(r, QN_SYM_varargs, qn__of_list(rest));
    if (def->takes_kwargs) qn__set_var(r, QN_SYM_kwargs, qn__of_dict(others));
    qn_vbuf text = {.h = r->h}, *const out = r->out;
    r->out = &text;
    qn__jinja_exec(r, def->body);
    r->out = out;
    r->scope = scope;
    r->depth--;
    return qn__buf_val(&text);
}

static qn_val make_macro(qn_run *r, const qn_macro_def *def)
{
    qn_macro *m = qn__heap_alloc(r->h, sizeof *m);
    if (!m) return nothing();
    *m = (qn_macro){def, r->scope};
    return (qn_val){.type = QN_VAL_macro, .p = m};
}

static void call_block(qn_run *r, const qn_jnode *node)
{
    /* The call gets one keyword argument more. */
    qn_jnode value = {.kind = QN_N_const, .at = node->at, .value = make_macro(r, node->macro)};
    const qn_args *given = node->a->args;
    const int n = given->n_named;
    const char **names = qn__heap_alloc(r->h, (size_t)(n + 1) * sizeof *names);
    qn_jnode **named = qn__heap_alloc(r->h, (size_t)(n + 1) * sizeof *named);
    if (!names || !named) return;
    for (int i = 0; i < n; i++) {
        names[i] = given->names[i];
        named[i] = given->named[i];
    }
    names[n] = "caller";
    named[n] = &value;
    qn_args args = *given;
    args.names = names;
    args.named = named;
    args.n_named = n + 1;
    qn_jnode call = *node->a;
    call.args = &args;
    qn__val_print(r->out, qn__to_str(r->h, qn__jinja_eval(r, &call)), false);
}

/* ---- statements ------------------------------------------------------------------------------- */

static void exec_with(qn_run *r, const qn_jnode *node)
{
    qn_scope *const outer = r->scope, *inner = qn__scope_new(r, outer);
    for (int i = 0; inner && i < node->n && !qn__run_failed(r); i += 2) {
        const qn_val v = qn__jinja_eval(r, node->items[i + 1]); /* in the scope outside */
        r->scope = inner;
        qn__var_assign(r, node->items[i], v);
        r->scope = outer;
    }
    r->scope = inner;
    if (inner) qn__jinja_exec(r, node->b);
    r->scope = outer;
}

static void note_generated(qn_run *r, uint32_t begin, uint32_t end)
{
    qn_jinja_spans *s = r->options->generated;
    if (!s || r->out != r->whole) {
        if (s) s->hidden = true;
        return;
    }
    if (s->n == s->cap) {
        const uint32_t cap = s->cap ? 2 * s->cap : 8;
        void *more = qn__heap_alloc(r->h, cap * sizeof *s->item);
        if (!more) return;
        if (s->n) memcpy(more, s->item, s->n * sizeof *s->item);
        s->item = more;
        s->cap = cap;
    }
    s->item[s->n].begin = begin;
    s->item[s->n++].end = end;
}

static void exec_generation(qn_run *r, const qn_jnode *node)
{
    const uint32_t begin = r->out->n;
    const qn_val v = captured(r, node->b);
    if (qn__run_failed(r)) return;
    qn__val_print(r->out, v, false);
    note_generated(r, begin, r->out->n);
}

void qn__jinja_exec(qn_run *r, const qn_jnode *node)
{
    qn_val v;
    if (qn__run_failed(r) || r->jump != QN_GO_ON) return;
    if (--r->steps < 0) {
        qn__heap_fail(r->h, QN_STATUS_limit, "the template takes too many steps");
        return;
    }
    r->at = node->at;
    switch (node->kind) {
    case QN_N_text: qn__buf_str(r->out, node->value.s); break;
    case QN_N_output:
        v = qn__jinja_eval(r, node->a);
        if (!qn__run_failed(r)) qn__val_print(r->out, v, false);
        break;
    case QN_N_block:
        for (int i = 0; i < node->n && !qn__run_failed(r) && r->jump == QN_GO_ON; i++)
            qn__jinja_exec(r, node->items[i]);
        break;
    case QN_N_if:
        if (qn__val_truth(qn__jinja_eval(r, node->a)))
            qn__jinja_exec(r, node->b);
        else if (node->c)
            qn__jinja_exec(r, node->c);
        break;
    case QN_N_for: run_loop(r, node, qn__jinja_eval(r, node->a), 0); break;
    case QN_N_set: qn__var_assign(r, node->target, qn__jinja_eval(r, node->a)); break;
    case QN_N_set_block:
        v = captured(r, node->b);
        if (r->jump != QN_GO_ON) break;
        if (node->a) v = filtered(r, node->a, v);
        qn__var_assign(r, node->target, v);
        break;
    case QN_N_macro: qn__set_var(r, node->sym, make_macro(r, node->macro)); break;
    case QN_N_call_block: call_block(r, node); break;
    case QN_N_filter_block:
        v = captured(r, node->b);
        if (r->jump != QN_GO_ON) break;
        v = filtered(r, node->a, v);
        if (!qn__run_failed(r)) qn__val_print(r->out, v, false);
        break;
    case QN_N_scope: exec_generation(r, node); break;
    case QN_N_with: exec_with(r, node); break;
    case QN_N_break: r->jump = QN_BREAK; break;
    case QN_N_continue: r->jump = QN_CONTINUE; break;
    default: qn__jinja_eval(r, node);
    }
}

/* ---- a rendering ------------------------------------------------------------------------------ */

static int64_t max_steps(const qn_jinja_options *options)
{
    return options->max_steps ? options->max_steps : 10 * 1000 * 1000;
}

void qn__jinja_heap_init(qn_heap *h, const qn_jinja_options *options, qn_error *err)
{
    *h = (qn_heap){.max_bytes = options->max_bytes ? options->max_bytes : QN_JINJA_MAX_BYTES,
                   .max_work = 2 * (uint64_t)max_steps(options),
                   .err = err};
    qn__arena_init(&h->arena, 64 << 10);
}

void qn__jinja_heap_deinit(qn_heap *h) { qn__arena_deinit(&h->arena); }

qn_val qn__jinja_render(const qn_jinja *j, qn_heap *h, const qn_vdict *variables, const qn_jinja_options *options)
{
    qn_vbuf out = {.h = h};
    qn_run r = {.j = j, .h = h, .options = options, .out = &out, .whole = &out};
    r.steps = max_steps(options);
    if (h->status != QN_OK || !(r.scope = qn__scope_new(&r, NULL))) return nothing();
    for (uint32_t i = 0; i < variables->n; i++) {
        const int sym = qn__is_str(variables->keys[i]) ? qn__jinja_find_symbol(j, variables->keys[i].s->data) : -1;
        if (sym >= 0) qn__set_var(&r, sym, variables->values[i]);
    }
    qn__jinja_exec(&r, j->root);
    const qn_val v = qn__buf_val(&out);
    if (h->status == QN_STATUS_invalid) {
        int line, column;
        qn__jinja_place(j, r.at, &line, &column);
        qn__prefix(h->err, h->status, "template, line %d", line);
    }
    return v;
}
