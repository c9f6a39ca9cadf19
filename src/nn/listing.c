/* SPDX-License-Identifier: MIT */
/* src/nn/listing.c -- what is in a tree of modules: found by path, listed, counted, printed. */
#include "nn/module.h"
#include "base/str.h"

#include <string.h>

/* ---- by path ---- */

static const qn_child *child_named(const qn_module *m, const char *name, size_t n)
{
    for (int i = 0; i < m->n_children; i++) {
        if (strncmp(m->children[i].name, name, n) == 0 && m->children[i].name[n] == '\0') return &m->children[i];
    }
    return NULL;
}

qn_module *qn_module_find(const qn_module *m, const char *path)
{
    while (m != NULL && *path != '\0') {
        const size_t n = strcspn(path, ".");
        const qn_child *child = child_named(m, path, n);
        m = child != NULL ? child->module : NULL;
        path += n;
        if (*path == '.' && *++path == '\0') return NULL;
    }
    return (qn_module *)m;
}

qn_named *qn__slot_find(const qn_module *m, const char *path)
{
    for (const char *dot; m != NULL && (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        const qn_child *child = child_named(m, path, (size_t)(dot - path));
        m = child != NULL ? child->module : NULL;
    }
    for (int i = 0; m != NULL && i < m->n_tensors; i++) {
        if (strcmp(m->tensors[i].name, path) == 0) return &m->tensors[i];
    }
    return NULL;
}

qn_tensor *qn_module_tensor(const qn_module *m, const char *path)
{
    const qn_named *slot = m != NULL ? qn__slot_find(m, path) : NULL;
    return slot != NULL ? slot->tensor : NULL;
}

qn_context *qn_module_context(const qn_module *m) { return m != NULL ? m->ctx : NULL; }
const qn_module_type *qn_module_type_of(const qn_module *m) { return m->type; }
void *qn_module_state(const qn_module *m) { return m != NULL ? m->state : NULL; }
int qn_module_n_children(const qn_module *m) { return m != NULL ? m->n_children : 0; }

qn_module *qn_module_child(const qn_module *m, int i)
{
    return m != NULL && i >= 0 && i < m->n_children ? m->children[i].module : NULL;
}

/* ---- listing ---- */

static int64_t first_of(const qn_listing *l, const qn_tensor *t)
{
    int64_t i = 0;
    while (i < l->n && l->items[i].slot->tensor != t) i++;
    return i;
}

static qn_status grow(qn_listing *l, qn_error *err)
{
    if (l->n < l->cap) return QN_OK;
    const int64_t cap = l->cap > 0 ? 2 * l->cap : 64;
    qn_listed *items = qn__realloc(l->items, (size_t)cap * sizeof *items);
    if (items == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *items);
    l->items = items;
    l->cap = cap;
    return QN_OK;
}

static qn_status list(qn_module *m, const char *path, qn_listing *l, qn_error *err)
{
    const char *dot = *path != '\0' ? "." : "";
    for (int i = 0; i < m->n_tensors; i++) {
        QN_TRY(grow(l, err));
        qn_named *slot = &m->tensors[i];
        const char *name = qn__arena_printf(&l->arena, "%s%s%s", path, dot, slot->name);
        if (name == NULL) return QN_FAIL_NOMEM(err, strlen(path) + strlen(slot->name) + 2);
        l->items[l->n] = (qn_listed){name, slot, first_of(l, slot->tensor)};
        l->n++;
    }
    for (int i = 0; i < m->n_children; i++) {
        const char *name = qn__arena_printf(&l->arena, "%s%s%s", path, dot, m->children[i].name);
        if (name == NULL) return QN_FAIL_NOMEM(err, strlen(path) + strlen(m->children[i].name) + 2);
        QN_TRY(list(m->children[i].module, name, l, err));
    }
    return QN_OK;
}

qn_status qn__listing_init(qn_module *m, qn_listing *out, qn_error *err)
{
    *out = (qn_listing){0};
    qn__arena_init(&out->arena, 0);
    return list(m, "", out, err);
}

void qn__listing_deinit(qn_listing *l)
{
    qn__arena_deinit(&l->arena);
    qn__free(l->items);
}

qn_status qn_module_each_tensor(qn_module *m, qn_named_fn fn, void *arg)
{
    if (m == NULL) return QN_STATUS_invalid;
    qn_listing l;
    const qn_status status = qn__listing_init(m, &l, qn__err(m->ctx));
    bool more = status == QN_OK;
    for (int64_t i = 0; more && i < l.n; i++) {
        const qn_listed *item = &l.items[i];
        if (item->first == i) more = fn(arg, item->path, item->slot->tensor, item->slot->kind);
    }
    qn__listing_deinit(&l);
    return status;
}

/* Modules already shown, in a list that only grows. */
typedef struct shown {
    qn_arena arena;
    const qn_module **seen;
    int64_t n, cap;
    qn_module_fn fn;
    void *arg;
    bool stopped;
} shown;

static qn_status show(qn_module *m, const char *path, shown *s, qn_error *err)
{
    for (int64_t i = 0; i < s->n; i++) {
        if (s->seen[i] == m) return QN_OK;
    }
    if (s->n == s->cap) {
        const int64_t cap = s->cap > 0 ? 2 * s->cap : 64;
        const qn_module **seen = qn__realloc(s->seen, (size_t)cap * sizeof *seen);
        if (seen == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *seen);
        s->seen = seen;
        s->cap = cap;
    }
    s->seen[s->n++] = m;
    s->stopped = !s->fn(s->arg, path, m);
    for (int i = 0; !s->stopped && i < m->n_children; i++) {
        const char *name = qn__arena_printf(&s->arena, "%s%s%s", path, *path != '\0' ? "." : "", m->children[i].name);
        if (name == NULL) return QN_FAIL_NOMEM(err, strlen(path) + strlen(m->children[i].name) + 2);
        QN_TRY(show(m->children[i].module, name, s, err));
    }
    return QN_OK;
}

qn_status qn_module_each_module(qn_module *m, qn_module_fn fn, void *arg)
{
    if (m == NULL) return QN_STATUS_invalid;
    shown s = {.fn = fn, .arg = arg};
    qn__arena_init(&s.arena, 0);
    const qn_status status = show(m, "", &s, qn__err(m->ctx));
    qn__arena_deinit(&s.arena);
    qn__free(s.seen);
    return status;
}

/* ---- counting ---- */

typedef struct gathered {
    qn_tensor **out;
    int64_t capacity, n, elements;
    bool trainable_only;
} gathered;

static bool gather(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    gathered *g = arg;
    (void)path;
    if (kind != QN_NAMED_parameter || (g->trainable_only && !qn_requires_grad(t))) return true;
    if (g->n < g->capacity) g->out[g->n] = t;
    g->n++;
    g->elements += qn_numel(t);
    return true;
}

int64_t qn_module_parameters(qn_module *m, qn_tensor **out, int64_t capacity)
{
    gathered g = {.out = out, .capacity = capacity};
    return qn_module_each_tensor(m, gather, &g) == QN_OK ? g.n : -1;
}

int64_t qn_module_n_elements(qn_module *m, bool trainable_only)
{
    gathered g = {.trainable_only = trainable_only};
    return qn_module_each_tensor(m, gather, &g) == QN_OK ? g.elements : -1;
}

/* ---- text ---- */

static void print(const qn_module *m, int depth, qn_str *s)
{
    char words[256] = "";
    if (m->type->describe != NULL) m->type->describe(m, words, sizeof words);
    qn__str_printf(s, "%s(%s", m->type->name, words);
    for (int i = 0; i < m->n_children; i++) {
        qn__str_printf(s, "\n%*s(%s): ", 2 * depth + 2, "", m->children[i].name);
        print(m->children[i].module, depth + 1, s);
    }
    if (m->n_children > 0) qn__str_printf(s, "\n%*s", 2 * depth, "");
    qn__str_putc(s, ')');
}

char *qn_module_to_string(qn_module *m)
{
    if (m == NULL) return NULL;
    qn_str s = {0};
    print(m, 0, &s);
    const size_t n = s.len;
    char *text = qn__str_take(&s, NULL);
    if (text == NULL) (void)QN_FAIL_NOMEM(qn__err(m->ctx), n + 1);
    return text;
}
