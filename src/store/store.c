/* SPDX-License-Identifier: MIT */
/* src/store/store.c -- opening, listing and asking a store. */
#include "store/store.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    qn_status (*scan)(qn_scan *s);
} rows[] = {
#define QN_STORE_ROW(name, text) {#name, qn__scan_##name},
    QN_STORE_ROWS(QN_STORE_ROW)
#undef QN_STORE_ROW
};

const char *qn_store_kind_name(qn_store_kind kind)
{
    return kind >= 0 && kind < QN_STORE_COUNT ? rows[kind].name : "unknown";
}

/* ---- filling ---- */

qn_status qn__store_add(qn_scan *s, const qn_found *f)
{
    qn_store *store = s->store;
    if (store->n == QN_STORE_MAX_MODELS) return QN_OK;
    if (store->n == store->cap) {
        const size_t cap = store->cap ? store->cap * 2 : 64;
        qn_found *more = qn__arena_array(s->arena, cap, sizeof *more);
        if (!more) return QN_FAIL_NOMEM(s->err, cap * sizeof *more);
        if (store->n) memcpy(more, store->models, store->n * sizeof *more);
        store->models = more;
        store->cap = cap;
    }
    if (!f->model.name || !f->model.path || !f->base) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    qn_found *own = &store->models[store->n++];
    *own = *f;
    own->model.store = s->kind;
    own->rank = s->rank;
    return QN_OK;
}

qn_status qn__store_add_problem(qn_scan *s, const char *name, const char *path, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    char *quoted = qn__store_quote(s, name), *problem = qn__arena_strdup(s->arena, text);
    if (!problem) return QN_FAIL_NOMEM(s->err, sizeof text);
    return qn__store_add(
        s, &(qn_found){.model = {.name = quoted, .path = qn__arena_strdup(s->arena, path), .problem = problem},
                       .base = quoted});
}

char *qn__store_text(qn_scan *s, const char *fmt, ...)
{
    char text[8192]; /* two paths, which the system bounds at 4096 each */
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    return qn__arena_strdup(s->arena, text);
}

char *qn__store_path(qn_scan *s, const char *folder, const char *name)
{
    return qn__arena_printf(s->arena, "%s/%s", folder, name);
}

char *qn__store_quote(qn_scan *s, const char *name)
{
    char text[600];
    return qn__arena_strdup(s->arena, qn__str_quote(text, sizeof text, name, strlen(name)));
}

qn_status qn__store_add_file(qn_scan *s, const qn_gguf_seen *file, const char *base, bool quant)
{
    char tag[32];
    qn_found f = {
        .model = {.path = file->path, .bytes = file->bytes, .n_parts = file->n_parts, .problem = file->problem},
        .base = qn__store_quote(s, base),
        .stem = qn__store_quote(s, file->stem),
        .device = file->device,
        .inode = file->inode};
    f.model.name = f.base;
    if (quant) {
        f.tag = qn__quant_of_stem(file->stem, tag) ? qn__arena_strdup(s->arena, tag) : f.stem;
        f.model.name = qn__store_text(s, "%s:%s", f.base ? f.base : "", f.tag ? f.tag : "");
    }
    return qn__store_add(s, &f);
}

static int by_store_and_name(const void *a, const void *b)
{
    const qn_found *x = a, *y = b;
    if (x->model.store != y->model.store) return x->model.store < y->model.store ? -1 : 1;
    const int order = strcasecmp(x->model.name, y->model.name);
    if (order) return order;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : strcmp(x->model.path, y->model.path);
}

/* Two files of a repository may end with the same quantization: then their whole names tell them apart. */
static qn_status tell_apart(qn_store *store, qn_error *err)
{
    qn_found *m = store->models;
    for (size_t i = 0, end; i < store->n; i = end) {
        for (end = i + 1; end < store->n && m[end].model.store == m[i].model.store && m[end].rank == m[i].rank &&
                          strcasecmp(m[end].model.name, m[i].model.name) == 0;)
            end++;
        for (size_t k = i; end - i > 1 && k < end; k++) {
            if (!m[k].stem || !m[k].tag) continue;
            m[k].tag = m[k].stem;
            m[k].model.name = qn__arena_printf(&store->arena, "%s:%s", m[k].base, m[k].stem);
            if (!m[k].model.name) return QN_FAIL(err, nomem, "out of memory: names of models");
        }
    }
    return QN_OK;
}

static qn_status fill(qn_store *store, const qn_store_places *places, qn_error *err)
{
    qn_scan s = {.store = store, .arena = &store->arena, .places = places, .err = err};
    qn_status status = QN_OK;
    qn__arena_init(&s.scratch, 0);
    for (int i = 0; i < QN_STORE_COUNT && status == QN_OK; i++) {
        s.kind = (qn_store_kind)i;
        s.rank = 0;
        status = rows[i].scan(&s);
    }
    const bool failed = s.scratch.failed || store->arena.failed;
    qn__arena_deinit(&s.scratch);
    QN_TRY(status);
    if (failed) return QN_FAIL(err, nomem, "out of memory while looking for models");
    if (store->n) qsort(store->models, store->n, sizeof *store->models, by_store_and_name);
    QN_TRY(tell_apart(store, err));
    if (store->n) qsort(store->models, store->n, sizeof *store->models, by_store_and_name);
    return QN_OK;
}

qn_status qn_store_open(const qn_store_places *places, qn_store **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_store *store = qn__arena_alloc(&arena, sizeof *store);
    if (!store) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *store);
    }
    store->arena = arena;
    const qn_status status = fill(store, places, err);
    if (status == QN_OK)
        *out = store;
    else
        qn_store_close(store);
    return status;
}

void qn_store_close(qn_store *store)
{
    if (!store) return;
    qn_arena arena = store->arena; /* the store lies inside it */
    qn__arena_deinit(&arena);
}

size_t qn_store_n_models(const qn_store *store) { return store->n; }

const qn_store_model *qn_store_get(const qn_store *store, size_t index)
{
    return index < store->n ? &store->models[index].model : NULL;
}

/* ---- asking ---- */

/* The same model again: the same file, or the same name in a place that comes later. */
static bool hidden_by(const qn_found *a, const qn_found *b)
{
    if (a->inode && a->inode == b->inode && a->device == b->device && a->model.n_adapters == b->model.n_adapters)
        return true;
    return a->model.store == b->model.store && a->rank != b->rank && strcasecmp(a->model.name, b->model.name) == 0;
}

static void name_candidate(qn_str *list, const qn_found *f, int n, bool by_path)
{
    if (n >= 8) return;
    qn__str_puts(list, n ? ", " : "");
    if (by_path)
        qn__str_puts(list, f->model.path);
    else
        qn__str_printf(list, "%s", f->model.name);
}

static qn_status several(const qn_store *store, const char *name, int fit, qn_error *err)
{
    qn_str list = {0};
    const qn_found *first = NULL;
    bool alike = true;
    int n = 0;
    char quoted[128];
    for (size_t i = 0; i < store->n; i++) {
        const qn_found *f = &store->models[i];
        if (f->model.problem || qn__name_fits(f, name) != fit) continue;
        if (!first) first = f;
        alike = alike && strcasecmp(f->model.name, first->model.name) == 0;
    }
    for (size_t i = 0; i < store->n; i++) {
        const qn_found *f = &store->models[i];
        if (f->model.problem || qn__name_fits(f, name) != fit) continue;
        name_candidate(&list, f, n++, alike);
    }
    qn__str_quote(quoted, sizeof quoted, name, strlen(name));
    const qn_status status =
        list.failed ? QN_FAIL(err, nomem, "out of memory: candidates")
                    : QN_FAIL(err, invalid, "\"%s\" may be %.300s%s", quoted, list.data, n > 8 ? " and others" : "");
    qn__str_deinit(&list);
    return status;
}

/* What a name means, of the entries that it fits best. */
typedef struct meaning {
    const qn_found *best, *bad; /* the first that can be used, and the first that can't */
    int fit;
    bool clash;
} meaning;

static meaning means(const qn_store *store, const char *name, int most)
{
    meaning m = {0};
    for (size_t i = 0; i < store->n; i++) {
        const qn_found *f = &store->models[i];
        const int fits = qn__name_fits(f, name);
        if (fits == 0 || fits < m.fit || fits > most) continue;
        if (fits > m.fit) m = (meaning){.fit = fits};
        if (f->model.problem) {
            if (!m.bad) m.bad = f;
        } else if (!m.best) {
            m.best = f;
        } else if (!hidden_by(f, m.best)) {
            m.clash = true;
        }
    }
    return m;
}

qn_status qn_store_find(const qn_store *store, const char *name, const qn_store_model **out, qn_error *err)
{
    char quoted[128];
    meaning m = means(store, name, INT_MAX);
    if (m.bad && !m.best && m.fit > 1) { /* half a download bears its repository's name: what is whole there is meant */
        const meaning others = means(store, name, m.fit - 1);
        if (others.best && others.best->model.store == m.bad->model.store &&
            strcasecmp(others.best->base, m.bad->base) == 0)
            m = others;
    }
    const qn_found *best = m.best, *bad = m.bad;
    qn__str_quote(quoted, sizeof quoted, name, strlen(name));
    if (m.clash) return several(store, name, m.fit, err);
    if (best) {
        *out = &best->model;
        return QN_OK;
    }
    if (bad)
        return QN_FAIL(err, io, "\"%s\" cannot be used: %s (%s)", bad->model.name, bad->model.problem,
                       qn_store_kind_name(bad->model.store));
    return QN_FAIL(err, state, "no model is called \"%s\"", quoted);
}
