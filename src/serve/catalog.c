/* SPDX-License-Identifier: MIT */
/* src/serve/catalog.c -- the list of models: those that the command line names, or all of the store, and those that
 * were made here (derived.c). Of each file only the header is read, and again only when it has changed. */
#include "serve/exchange.h"
#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

static void free_model(model *m)
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

/* Numbers and switches as such, text as text; what comes several times is a list. */
static void add_param(void *ctx, const char *name, const char *value)
{
    json_t *params = ctx, *v = json_loads(value, JSON_DECODE_ANY, NULL), *old = json_object_get(params, name);
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

/* What Ollama keeps beside the file. */
static void read_own(model *m, const qn_store_model *found)
{
    char *system = NULL;
    qn_error err;
    m->bytes_of_file = found->bytes;
    if (found->params && (m->params = json_object()) &&
        qn_store_read_params(found, add_param, m->params, &err) != QN_OK)
        text_log(m->server, "%s: its parameters are passed over: %s", m->name, err.text);
    if (found->system && qn_store_read_system(found, &system, &err) == QN_OK && system) m->system = strdup(system);
    qn_free(system);
    m->adapters = calloc((size_t)found->n_adapters + 1, sizeof(*m->adapters));
    for (int i = 0; m->adapters && i < found->n_adapters; i++)
        if ((m->adapters[m->n_adapters] = strdup(found->adapters[i]))) m->n_adapters++;
}

static void read_header(model *m, const model *before)
{
    qn_gguf *file = NULL;
    qn_error err = {0};
    if (stat(m->path, &m->st) == 0 && !m->bytes_of_file) m->bytes_of_file = (uint64_t)m->st.st_size;
    if (before && before->st.st_ino == m->st.st_ino && before->st.st_size == m->st.st_size &&
        before->st.st_mtim.tv_sec == m->st.st_mtim.tv_sec && before->st.st_mtim.tv_nsec == m->st.st_mtim.tv_nsec) {
        m->facts = before->facts;
        memcpy(m->why_not, before->why_not, sizeof(m->why_not));
        return;
    }
    qn_status status = qn_gguf_open(m->path, NULL, &file, &err);
    if (status == QN_OK) {
        qn_model_read_facts(file, &m->facts);
        status = qn_engine_check(file, &err);
        qn_gguf_close(file);
    }
    if (status != QN_OK) snprintf(m->why_not, sizeof(m->why_not), "%.250s", err.text);
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
    if (!m->name || !m->path) {
        free_model(m);
        return NULL;
    }
    if (found) read_own(m, found);
    if (found && found->problem)
        snprintf(m->why_not, sizeof(m->why_not), "%.250s", found->problem);
    else
        read_header(m, by_path(s->models, path));
    return m;
}

/* ---- reading ---- */

static void append(model **list, model *m)
{
    while (*list) list = &(*list)->next;
    *list = m;
}

static bool add_named(server *s, model **list, qn_error *err)
{
    for (int i = 0; i < s->o.n_models; i++) {
        const serve_named *o = &s->o.models[i];
        model *m = catalog_new(s, o->name, o->path, o->found);
        if (!m) {
            *err = (qn_error){.status = QN_STATUS_nomem, .text = "out of memory"};
            return false;
        }
        append(list, m);
    }
    return true;
}

static bool add_store(server *s, model **list, qn_error *err)
{
    qn_store *store = s->o.open_store(s->o.ctx, err);
    if (!store) return false;
    for (size_t i = 0; i < qn_store_n_models(store); i++) {
        const qn_store_model *found = qn_store_get(store, i);
        model *m = catalog_new(s, found->name, found->path, found);
        if (m && strcmp(m->facts.kind, "adapter") == 0)
            free_model(m);
        else if (m)
            append(list, m);
    }
    pthread_mutex_lock(&s->models_lock);
    qn_store *old = s->store;
    s->store = store;
    pthread_mutex_unlock(&s->models_lock);
    qn_store_close(old);
    return true;
}

static bool read_list(server *s, model **list, qn_error *err)
{
    if (!(s->o.n_models ? add_named(s, list, err) : add_store(s, list, err))) return false;
    derived_add(s, list);
    return true;
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
            free_model(found);
            found = before;
            found->next = NULL;
        } else if (before) {
            found->past = before->past;
            free_model(before);
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
            free_model(old);
        }
    }
}

void catalog_refresh(server *s)
{
    qn_error err = {0};
    model *list = NULL;
    pthread_mutex_lock(&s->catalog_lock); /* one at a time */
    const bool good = read_list(s, &list, &err);
    pthread_mutex_lock(&s->models_lock);
    if (good) merge(s, list);
    s->refreshed_ns = now_ns();
    pthread_mutex_unlock(&s->models_lock);
    if (!good) {
        text_log(s, "the list of models stays as it was: %s", err.text);
        while (list) {
            model *next = list->next;
            free_model(list);
            list = next;
        }
    }
    pthread_mutex_unlock(&s->catalog_lock);
    pthread_cond_signal(&s->models_changed); /* what is gone is unloaded */
}

bool catalog_start(server *s, qn_error *err)
{
    const bool good = read_list(s, &s->models, err);
    s->refreshed_ns = now_ns();
    return good;
}

void catalog_deinit(server *s)
{
    while (s->models) {
        model *m = s->models;
        s->models = m->next;
        model_unload(m);
        free_model(m);
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
    if (status == QN_STATUS_invalid) problem_set(p, 400, "model", "%s", err.text);
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

static model *only_one(server *s)
{
    model *one = NULL;
    for (model *m = s->models; m; m = m->next) {
        if (m->gone) continue;
        if (one) return NULL;
        one = m;
    }
    return one;
}

model *catalog_find(server *s, const char *name, problem *p)
{
    char names[512];
    size_t n = name ? strlen(name) : 0;
    if (n > 7 && strcmp(name + n - 7, ":latest") == 0) n -= 7;
    model *m = n ? by_name(s, name, strlen(name)) : only_one(s);
    if (n && !m) m = by_name(s, name, n);
    if (n && !m) m = by_other_name(s, name, n);
    if (n && !m) m = by_store(s, name, p);
    if (m && !m->why_not[0]) return m;
    if (p->status) return NULL;
    list_names(s, names, sizeof(names));
    if (m) {
        problem_set(p, 400, "model", "%s cannot be used: %s", m->name, m->why_not);
    } else if (!n) {
        problem_set(p, 400, "model", "which model? There are %s", names);
    } else {
        snprintf(p->code, sizeof(p->code), "model_not_found");
        problem_set(p, 404, "model", "the model \"%.120s\" is not here; there is %s", name, names);
    }
    return NULL;
}
