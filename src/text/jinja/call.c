/* SPDX-License-Identifier: MIT */
/* src/text/jinja/call.c -- finding what is called by name, and sorting arguments into parameters. */
#include "text/jinja/call.h"
#include "text/jinja/rows.h"

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

static const qn_filter_row filters[] = {
#define QN_FILTER(name, fn, required, params) {#name, qn__filter_##fn, required, params},
#include "text/jinja/filters.def"
#undef QN_FILTER
};

static const qn_test_row tests[] = {
#define QN_TEST(name, fn, required, params) {name, qn__test_##fn, required, params},
#include "text/jinja/tests.def"
#undef QN_TEST
};

static const struct {
    qn_val_type of;
    qn_function_row row;
} methods[] = {
#define QN_METHOD(of, name, required, params, changes) \
    {QN_VAL_##of, {#name, qn__method_##of##_##name, required, params, changes}},
#include "text/jinja/methods.def"
#undef QN_METHOD
};

static const qn_function_row functions[] = {
#define QN_FUNCTION(name, required, params) {#name, qn__function_##name, required, params, false},
#include "text/jinja/functions.def"
#undef QN_FUNCTION
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

const qn_filter_row *qn__filter_find(const char *name)
{
    for (size_t i = 0; i < COUNT(filters); i++)
        if (strcmp(filters[i].name, name) == 0) return &filters[i];
    return NULL;
}

const qn_test_row *qn__test_find(const char *name)
{
    for (size_t i = 0; i < COUNT(tests); i++)
        if (strcmp(tests[i].name, name) == 0) return &tests[i];
    return NULL;
}

/* Tuples and ranges have fewer methods than lists, generators and views of dicts none of theirs. */
static bool has_method(qn_val self, const qn_function_row *row)
{
    if (self.type != QN_VAL_list || self.l->kind == QN_LIST_list) return true;
    const bool counts = strcmp(row->name, "index") == 0 || strcmp(row->name, "count") == 0;
    return counts && (self.l->kind == QN_LIST_tuple || self.l->kind == QN_LIST_range);
}

const qn_function_row *qn__method_find(qn_val self, const char *name)
{
    for (size_t i = 0; i < COUNT(methods); i++)
        if (methods[i].of == self.type && strcmp(methods[i].row.name, name) == 0)
            return has_method(self, &methods[i].row) ? &methods[i].row : NULL;
    return NULL;
}

const qn_function_row *qn__global_find(const char *name)
{
    for (size_t i = 0; i < COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    return NULL;
}

/* The index of a parameter by name; n when there is none; `variadic` says whether the list ends with a star. */
static uint32_t parameter(const char *params, qn_val name, uint32_t *n, bool *variadic)
{
    uint32_t i = 0, found = UINT32_MAX;
    *variadic = false;
    for (const char *p = params; *p;) {
        const size_t len = strcspn(p, " ");
        if (len == 1 && *p == '*')
            *variadic = true;
        else if (qn__is_str(name) && name.s->n == len && memcmp(name.s->data, p, len) == 0)
            found = i;
        if (!*variadic) i++;
        p += len;
        p += *p == ' ';
    }
    *n = i;
    return found;
}

static bool bind(qn_call *c, const char *name, const char *params, int required, const qn_argv *argv)
{
    uint32_t n;
    bool variadic;
    if (*params == '/') {
        params += strspn(params, "/ ");
        if (argv->named && argv->named->n) {
            QN_RAISE(c->h, "%s() takes no keyword arguments", name);
            return false;
        }
    }
    parameter(params, nothing(), &n, &variadic);
    for (int i = 0; i < QN_MAX_PARAMS; i++) c->args[i] = qn__absent();
    if (argv->n > n && !variadic) {
        QN_RAISE(c->h, "%s() takes %u arguments, %u were given", name, n, argv->n);
        return false;
    }
    for (uint32_t i = 0; i < argv->n && i < n; i++) c->args[i] = argv->positional[i];
    for (uint32_t k = 0; argv->named && k < argv->named->n; k++) {
        const uint32_t i = parameter(params, argv->named->keys[k], &n, &variadic);
        if (i == UINT32_MAX && variadic) continue;
        if (i == UINT32_MAX || i < argv->n) {
            const qn_val key = argv->named->keys[k];
            QN_RAISE(c->h, i == UINT32_MAX ? "%s() has no argument '%.60s'" : "%s() got argument '%.60s' twice", name,
                     qn__is_str(key) ? key.s->data : "");
            return false;
        }
        c->args[i] = argv->named->values[k];
    }
    for (int i = 0; i < required && i < (int)n; i++)
        if (!qn__given(c->args[i])) {
            QN_RAISE(c->h, "%s() lacks an argument: %s", name, params);
            return false;
        }
    if (n == 0 && (uint32_t)required > argv->n) {
        QN_RAISE(c->h, "%s() needs %d arguments", name, required);
        return false;
    }
    return true;
}

/* Functions that read a text read all of it, mostly. */
static uint64_t reads(qn_val v) { return qn__is_str(v) ? v.s->n / (2 * QN_WORK_BYTES) : 0; }

static qn_val invoke(qn_run *r, qn_call_fn fn, const char *name, const char *params, int required, qn_val self,
                     const qn_argv *argv, const void *row)
{
    qn_call c = {.r = r, .h = r->h, .self = self, .all = argv, .row = row};
    uint64_t n = 4 + reads(self);
    for (uint32_t i = 0; i < argv->n; i++) n += reads(argv->positional[i]);
    return qn__heap_work(r->h, n) && bind(&c, name, params, required, argv) ? fn(&c) : nothing();
}

qn_val qn__apply_filter(qn_run *r, const qn_filter_row *row, qn_val self, const qn_argv *argv)
{
    return invoke(r, row->fn, row->name, row->params, row->required, self, argv, row);
}

bool qn__apply_test(qn_run *r, const qn_test_row *row, qn_val self, const qn_argv *argv)
{
    return qn__val_truth(invoke(r, row->fn, row->name, row->params, row->required, self, argv, row));
}

qn_val qn__call_row(qn_run *r, const qn_function_row *row, qn_val self, const qn_argv *argv)
{
    if (row->changes && r->options->strict)
        return QN_RAISE(r->h, "access to attribute '%s' of '%s' object is unsafe.", row->name, qn__type_name(self));
    return invoke(r, row->fn, row->name, row->params, row->required, self, argv, row);
}

qn_val qn__jinja_call(qn_run *r, qn_val what, const qn_argv *argv)
{
    switch (what.type) {
    case QN_VAL_function: {
        const qn_bound *f = what.p;
        return qn__call_row(r, f->row, f->self, argv);
    }
    case QN_VAL_macro: return qn__call_macro(r, what.p, argv, qn__absent());
    case QN_VAL_loop:
        if (argv->n != 1) return QN_RAISE(r->h, "loop() takes what it walks over");
        return qn__call_loop(r, what.p, argv->positional[0]);
    case QN_VAL_joiner: {
        qn_joiner *j = what.p;
        const bool used = j->used;
        j->used = true;
        return used ? j->separator : qn__text_val(r->h, "");
    }
    case QN_VAL_undefined: return QN_RAISE(r->h, "%s", what.s ? what.s->data : "an undefined value was called");
    default: return QN_RAISE(r->h, "'%s' object is not callable", qn__type_name(what));
    }
}

int64_t qn__arg_int(qn_call *c, int i, int64_t otherwise)
{
    if (!qn__given(c->args[i]) || c->args[i].type == QN_VAL_none) return otherwise;
    if (!qn__is_integer(c->args[i])) {
        QN_RAISE(c->h, "'%s' object cannot be interpreted as an integer", qn__type_name(c->args[i]));
        return otherwise;
    }
    return qn__integer(c->args[i]);
}

bool qn__arg_bool(const qn_call *c, int i, bool otherwise)
{
    return qn__given(c->args[i]) ? qn__val_truth(c->args[i]) : otherwise;
}

const qn_vstr *qn__arg_str(qn_call *c, int i)
{
    if (!qn__given(c->args[i])) return NULL;
    if (qn__is_str(c->args[i])) return c->args[i].s;
    QN_RAISE(c->h, "a string is needed, not %s", qn__type_name(c->args[i]));
    return NULL;
}
