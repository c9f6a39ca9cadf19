/* SPDX-License-Identifier: MIT */
/* src/serve/catalog.c -- the list of models: those that the command line names, or all of the store, and those that
 * were made here (derived.c). Of each file only the header is read, and again only when it has changed. A list that
 * could not be read whole, for want of memory or of the store, is none: the one before it stays. */
#include "serve/exchange.h"
#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

void catalog_free(model *m)
{
    if (!m) return;
    free(m->name);
    free(m->path);
    free(m->system);
    free(m->tmpl_source);
    for (int i = 0; i < m->n_adapters; i++) free(m->adapters[i]);
    free(m->adapters);
    json_decref(m->params);
    free(m);
}

bool catalog_add_adapters(model *m, const char *const *paths, int n)
{
    m->adapters = calloc((size_t)n + 1, sizeof(*m->adapters));
    if (!m->adapters) return false;
    for (; m->n_adapters < n; m->n_adapters++)
        if (!(m->adapters[m->n_adapters] = strdup(paths[m->n_adapters]))) return false;
    return true;
}

/* Numbers and switches as such, text as text; what comes several times is a list. */
static void add_param(void *ctx, const char *name, const char *value)
{
    json_t *params = ctx, *old = json_object_get(params, name);
    json_t *v = json_loadb(value, strlen(value), JSON_DECODE_ANY, NULL);
    if (!json_is_number(v) && !json_is_boolean(v)) {
        json_decref(v);
        v = json_string(value);
    }
    if (!old) {
        json_object_set_new(params, name, v);
        return;
    }
    if (!json_is_array(old)) {
        json_object_set_new(params, name, json_pack("[O]", old));
        old = json_object_get(params, name);
    }
    json_array_append_new(old, v);
}

static bool passed_over(const model *m, qn_status status, const char *what, const qn_error *err)
{
    if (status != QN_OK && status != QN_STATUS_nomem)
        text_log(m->server, "%s: its %s are passed over: %s", m->name, what, err->text);
    return status != QN_STATUS_nomem;
}

static bool read_system(model *m, const qn_store_model *found)
{
    char *system = NULL;
    qn_error err;
    const qn_status status = qn_store_read_system(found, &system, &err);
    const bool good = !system || (m->system = strdup(system));
    qn_free(system);
    return passed_over(m, status, "words for the system", &err) && good;
}

/* What Ollama keeps beside the file. False where memory is short, as below. */
static bool read_own(model *m, const qn_store_model *found)
{
    qn_error err;
    m->bytes_of_file = found->bytes;
    if (found->params) {
        if (!(m->params = json_object())) return false;
        if (!passed_over(m, qn_store_read_params(found, add_param, m->params, &err), "parameters", &err)) return false;
    }
    return (!found->system || read_system(m, found)) &&
           catalog_add_adapters(m, (const char *const *)found->adapters, found->n_adapters);
}

static bool read_header(model *m, const model *before)
{
    qn_gguf *file = NULL;
    qn_error err = {0};
    if (stat(m->path, &m->st) == 0 && !m->bytes_of_file) m->bytes_of_file = (uint64_t)m->st.st_size;
    if (before && !before->why_passes && before->st.st_ino == m->st.st_ino && before->st.st_size == m->st.st_size &&
        before->st.st_mtim.tv_sec == m->st.st_mtim.tv_sec && before->st.st_mtim.tv_nsec == m->st.st_mtim.tv_nsec) {
        m->facts = before->facts;
        memcpy(m->why_not, before->why_not, sizeof(m->why_not));
        return true;
    }
    qn_status status = qn_gguf_open(m->path, NULL, &file, &err);
    if (status == QN_OK) {
        qn_model_read_facts(file, &m->facts);
        status = qn_engine_check(file, &err);
        qn_gguf_close(file);
    }
    if (status != QN_OK) snprintf(m->why_not, sizeof(m->why_not), "%.250s", err.text);
    m->why_passes = status == QN_STATUS_io;
    return status != QN_STATUS_nomem;
}

static const model *by_path(const model *list, const char *path)
{
    while (list && strcmp(list->path, path) != 0) list = list->next;
    return list;
}

model *catalog_new(server *s, const char *name, const char *path, const qn_store_model *found)
{
    model *m = calloc(1, sizeof(*m));
    if (!m) return NULL;
    m->server = s;
    m->end = &m->first;
    m->name = strdup(name);
    m->path = strdup(path);
    bool good = m->name && m->path && (!found || read_own(m, found));
    if (good && found && found->problem)
        snprintf(m->why_not, sizeof(m->why_not), "%.250s", found->problem);
    else if (good)
        good = read_header(m, by_path(s->models, path));
    if (good) return m;
    catalog_free(m);
    return NULL;
}

/* ---- reading ---- */

static void append(model **list, model *m)
{
    while (*list) list = &(*list)->next;
    *list = m;
}

static void free_list(model *list)
{
    while (list) {
        model *next = list->next;
        catalog_free(list);
        list = next;
    }
}

static bool add_named(server *s, model **list)
{
    for (int i = 0; i < s->o.n_models; i++) {
        const serve_named *o = &s->o.models[i];
        model *m = catalog_new(s, o->name, o->path, o->found);
        if (!m) return false;
        append(list, m);
    }
    return true;
}

static bool add_store(server *s, model **list, const qn_store *store)
{
    for (size_t i = 0; i < qn_store_n_models(store); i++) {
        const qn_store_model *found = qn_store_get(store, i);
        model *m = catalog_new(s, found->name, found->path, found);
        if (!m) return false;
        if (strcmp(m->facts.kind, "adapter") == 0)
            catalog_free(m);
        else
            append(list, m);
    }
    return true;
}

/* All of it, or nothing. The store is the caller's, NULL where models are named. */
static bool read_list(server *s, model **list, qn_store **store, qn_error *err)
{
    *list = NULL;
    *store = NULL;
    (void)text_was_short();
    if (!s->o.n_models && !(*store = s->o.open_store(s->o.ctx, err))) return false;
    const bool good = (s->o.n_models ? add_named(s, list) : add_store(s, list, *store)) && derived_add(s, list);
    if (!text_was_short() && good) return true;
    *err = (qn_error){.status = QN_STATUS_nomem, .text = "out of memory or of open files"};
    free_list(*list);
    qn_store_close(*store);
    return false;
}

static bool same(const model *a, const model *b) { return strcmp(a->name, b->name) == 0; }

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* One that is made anew under its name is another one. */
static bool goes_on(const model *before, const model *now)
{
    return !before->derived ||
           (same_text(before->path, now->path) && same_text(before->system, now->system) &&
            same_text(before->tmpl_source, now->tmpl_source) && json_equal(before->params, now->params));
}

/* Under models_lock: a model that somebody has, or that is loaded, goes on as it is. */
static bool in_use(const model *m) { return m->state != MODEL_unloaded || m->n_users || m->first || m->wanted; }

/* Under models_lock. The new entry's description moves into the old one, or the old one goes, or stays for a while. */
static void merge(server *s, model *found)
{
    model *old = s->models, *next;
    s->models = NULL;
    for (; found; found = next) {
        next = found->next;
        found->next = NULL;
        model **at = &old;
        while (*at && ((*at)->gone || !same(*at, found))) at = &(*at)->next;
        model *before = *at;
        if (before && in_use(before) && !goes_on(before, found)) before = NULL; /* it is left to end */
        if (before) *at = before->next;
        if (before && in_use(before)) {
            catalog_free(found);
            found = before;
            found->next = NULL;
        } else if (before) {
            found->past = before->past;
            found->first_token = before->first_token; /* nobody is left who would add to them */
            found->between = before->between;
            found->queue = before->queue;
            catalog_free(before);
        }
        append(&s->models, found);
    }
    for (; old; old = next) {
        next = old->next;
        old->next = NULL;
        if (in_use(old)) {
            old->gone = true;
            append(&s->models, old);
        } else {
            catalog_free(old);
        }
    }
}

bool catalog_refresh(server *s, problem *p)
{
    qn_error err = {0};
    model *list;
    qn_store *store;
    pthread_mutex_lock(&s->catalog_lock); /* one at a time */
    const bool good = read_list(s, &list, &store, &err);
    pthread_mutex_lock(&s->models_lock);
    qn_store *old = NULL;
    if (good) {
        merge(s, list);
        old = s->store;
        s->store = store;
    }
    s->stale = !good;
    s->refreshed_ns = now_ns();
    pthread_mutex_unlock(&s->models_lock);
    pthread_mutex_unlock(&s->catalog_lock);
    qn_store_close(old);
    pthread_cond_signal(&s->models_changed); /* what is gone is unloaded */
    if (good) return true;
    text_log(s, "the list of models stays as it was: %s", err.text);
    return problem_set(p, 503, "", "the list of models cannot be read anew: %s", err.text);
}

bool catalog_start(server *s, qn_error *err)
{
    const bool good = read_list(s, &s->models, &s->store, err);
    if (!good) s->models = NULL, s->store = NULL;
    s->refreshed_ns = now_ns();
    return good;
}

bool catalog_is_old(const server *s)
{
    enum { AGAIN_S = 5, STALE_S = 1 };
    if (s->o.n_models && !s->stale) return false;
    return now_ns() - s->refreshed_ns > (int64_t)(s->stale ? STALE_S : AGAIN_S) * 1000000000;
}

void catalog_deinit(server *s)
{
    while (s->models) {
        model *m = s->models;
        s->models = m->next;
        model_unload(m);
        catalog_free(m);
    }
    qn_store_close(s->store);
    s->store = NULL;
}

void models_each(server *s, void (*fn)(model *m, void *ctx), void *ctx)
{
    pthread_mutex_lock(&s->models_lock);
    for (model *m = s->models; m; m = m->next)
        if (!m->gone) fn(m, ctx);
    pthread_mutex_unlock(&s->models_lock);
}

/* ---- finding ---- */

static bool is_name(const char *given, size_t n, const char *name)
{
    const size_t len = strlen(name);
    if (len == n && strncmp(given, name, n) == 0) return true;
    return len == n + 5 && strncmp(given, name, n) == 0 && strcmp(name + n, ".gguf") == 0;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static model *by_name(server *s, const char *name, size_t n)
{
    for (model *m = s->models; m; m = m->next)
        if (!m->gone && strlen(m->name) == n && strncmp(name, m->name, n) == 0) return m;
    return NULL;
}

/* By the file's name or path, or what the file calls its model: where one is meant. */
static model *by_other_name(server *s, const char *name, size_t n)
{
    model *one = NULL;
    for (model *m = s->models; m; m = m->next) {
        if (m->gone || m->derived ||
            !(is_name(name, n, m->name) || is_name(name, n, file_name(m->path)) || is_name(name, n, m->path) ||
              (m->facts.name[0] && is_name(name, n, m->facts.name))))
            continue;
        if (one) return NULL;
        one = m;
    }
    return one;
}

/* As `quern list` shows them, with parts left out. */
static model *by_store(server *s, const char *name, problem *p)
{
    const qn_store_model *found;
    qn_error err;
    if (!s->store) return NULL;
    const qn_status status = qn_store_find(s->store, name, &found, &err);
    if (status == QN_OK) return by_name(s, found->name, strlen(found->name));
    if (status == QN_STATUS_invalid || status == QN_STATUS_nomem) problem_error(p, "model", &err);
    return NULL;
}

/* "a, b, c and 5 more" */
static void list_names(const server *s, char *out, size_t size)
{
    size_t at = 0;
    int more = 0;
    *out = '\0';
    for (const model *m = s->models; m; m = m->next) {
        if (m->gone || m->why_not[0]) continue;
        const size_t n = strlen(m->name) + (at ? 2 : 0);
        if (at + n + 24 > size)
            more++;
        else
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", m->name);
    }
    if (more) snprintf(out + at, size - at, " and %d more", more);
    if (!*out) snprintf(out, size, "none");
}

/* What is meant where no name is given; models that were made of another one do not stand in its way. */
static model *only_one(server *s)
{
    model *one = NULL;
    for (model *m = s->models; m; m = m->next) {
        if (m->gone || m->derived) continue;
        if (one) return NULL;
        one = m;
    }
    return one;
}

size_t catalog_adapter(const server *s, int i, const char **out)
{
    *out = file_name(s->o.loras[i].path);
    const size_t n = strlen(*out);
    return n > 5 && strcmp(*out + n - 5, ".gguf") == 0 ? n - 5 : n;
}

/* "MODEL:ADAPTER" */
static model *with_adapter(server *s, const char *name, int *adapter)
{
    const char *colon = strrchr(name, ':'), *known;
    model *m = NULL;
    for (int i = 0; colon && i < s->o.n_loras && !m; i++) {
        const size_t n = catalog_adapter(s, i, &known);
        if (strlen(colon + 1) != n || strncmp(colon + 1, known, n) != 0) continue;
        m = by_name(s, name, (size_t)(colon - name));
        if (!m) m = by_other_name(s, name, (size_t)(colon - name));
        if (m) *adapter = i + 1;
    }
    return m;
}

model *catalog_find(server *s, const char *name, int *adapter, problem *p)
{
    char names[512];
    size_t n = name ? strlen(name) : 0;
    if (adapter) *adapter = 0;
    if (n > 7 && strcmp(name + n - 7, ":latest") == 0) n -= 7;
    model *m = n ? by_name(s, name, strlen(name)) : only_one(s);
    if (n && !m) m = by_name(s, name, n);
    if (n && !m) m = by_other_name(s, name, n);
    if (n && !m && adapter) m = with_adapter(s, name, adapter);
    if (n && !m) m = by_store(s, name, p);
    if (m && !m->why_not[0]) return m;
    if (p->status) return NULL;
    list_names(s, names, sizeof(names));
    if (m) {
        problem_set(p, 400, "model", "%s cannot be used: %s", m->name, m->why_not);
    } else if (!n) {
        problem_set(p, 400, "model", "which model? There are %s", names);
    } else if (s->stale) {
        problem_set(p, 503, "model",
                    "the list of models could not be read anew; the old one, without \"%.120s\", has %s", name, names);
    } else {
        snprintf(p->code, sizeof(p->code), "model_not_found");
        problem_set(p, 404, "model", "the model \"%.120s\" is not here; there is %s", name, names);
    }
    return NULL;
}
