/* SPDX-License-Identifier: MIT */
/* src/serve/derived.c -- POST /api/create, /api/copy, DELETE /api/delete: models made of another one's file with
 * parameters, a system prompt or a template of their own. Each is a file of JSON in a folder of ours, {"name", "from",
 * "parameters", "system", "template"}; the weights stay where they are. What nobody made here is never deleted. */
#include "serve/exchange.h"
#include "serve/ollama.h"
#include "serve/routes.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024, MOST_BYTES = 4 << 20, NAME_BYTES = 128 };

/* ---- files ---- */

static bool is_file_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Letters as they are, the rest as %XX: no name leads out of the folder. */
static bool path_of(const server *s, const char *name, const char *ending, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/", s->o.models_store);
    for (; *name && n > 0 && (size_t)n + 4 < size; name++)
        n += snprintf(out + n, size - (size_t)n, is_file_char(*name) ? "%c" : "%%%02X", (unsigned char)*name);
    return n > 0 && (size_t)n + strlen(ending) < size && snprintf(out + n, size - (size_t)n, "%s", ending) > 0;
}

static bool make_folder(const char *path)
{
    char part[4096];
    for (const char *at = path; (at = strchr(at + 1, '/'));) {
        snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return false;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* By way of another file, so that nobody sees half of it. */
static bool write_file(const server *s, const char *name, const json_t *value, problem *p)
{
    char path[4096], part[4096];
    char *words = json_dumps(value, JSON_INDENT(1));
    const size_t n = words ? strlen(words) : 0;
    bool good = words && make_folder(s->o.models_store) && path_of(s, name, ".json", path, sizeof(path)) &&
                path_of(s, name, ".part", part, sizeof(part));
    const int fd = good ? open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    good = fd >= 0 && write(fd, words, n) == (ssize_t)n && fsync(fd) == 0;
    if (fd >= 0) good = close(fd) == 0 && good;
    good = good && rename(part, path) == 0;
    const int why = errno;
    free(words);
    return good || problem_set(p, 500, "", "the model cannot be kept in %.200s: %s", s->o.models_store, strerror(why));
}

/* Where memory is short, text_was_short tells. */
static json_t *read_file(const char *path)
{
    struct stat st;
    text t = {0};
    char part[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    for (ssize_t n; good && (n = read(fd, part, sizeof(part))) != 0;) {
        good = n > 0 && t.n + (size_t)n <= MOST_BYTES;
        if (good) text_put(&t, part, (size_t)n);
        good = good && !t.failed;
    }
    json_t *value = good && t.n ? json_loadb(t.data, t.n, 0, NULL) : NULL;
    text_deinit(&t);
    if (fd >= 0) close(fd);
    return value;
}

/* ---- in the list ---- */

static const char *word(const json_t *o, const char *name) { return json_string_value(json_object_get(o, name)); }

static model *find(model *list, const char *name)
{
    while (list && strcmp(list->name, name) != 0) list = list->next;
    return list;
}

static bool copy_or(char **out, const char *own, const char *base)
{
    if (!own) own = base;
    return !own || (*out = strdup(own));
}

/* The base's file, adapters and defaults, with what is its own before them. NULL when out of memory. */
static model *derive(server *s, const model *base, const json_t *o)
{
    const json_t *own = json_object_get(o, "parameters");
    model *m = catalog_new(s, word(o, "name"), base->path, NULL);
    if (!m) return NULL;
    m->derived = true;
    m->facts = base->facts;
    m->bytes_of_file = base->bytes_of_file;
    m->params = base->params ? json_copy(base->params) : json_object();
    if (m->params && (!json_is_object(own) || json_object_update(m->params, (json_t *)own) == 0) &&
        copy_or(&m->system, word(o, "system"), base->system) &&
        copy_or(&m->tmpl_source, word(o, "template"), base->tmpl_source) &&
        catalog_add_adapters(m, (const char *const *)base->adapters, base->n_adapters))
        return m;
    catalog_free(m);
    return NULL;
}

/* What could not be opened may be, later. */
static bool passes(int error) { return error == ENOMEM || error == EMFILE || error == ENFILE; }

bool derived_add(server *s, model **list)
{
    bool good = true;
    DIR *folder = s->o.models_store ? opendir(s->o.models_store) : NULL;
    const struct dirent *e;
    char path[4096];
    if (!folder) return !s->o.models_store || !passes(errno);
    for (int n = 0; good && n < MOST && (e = readdir(folder));) {
        const size_t len = strlen(e->d_name);
        if (len < 6 || strcmp(e->d_name + len - 5, ".json") != 0) continue;
        n++;
        snprintf(path, sizeof(path), "%s/%s", s->o.models_store, e->d_name);
        errno = 0;
        json_t *o = read_file(path);
        good = o || !passes(errno);
        const char *name = word(o, "name"), *from = word(o, "from");
        const model *base = name && from ? find(*list, from) : NULL;
        if (base && !base->why_not[0] && !find(*list, name)) {
            model **at = list;
            while (*at) at = &(*at)->next;
            good = (*at = derive(s, base, o)) != NULL;
        }
        json_decref(o);
    }
    closedir(folder);
    return good;
}

/* ---- requests ---- */

static const char *const known[] = {"model", "name", "from", "parameters", "system", "template", "stream", "license"};

/* A name as Ollama's are, without ":latest", that no other program's model has. Under models_lock. */
static bool check_name(server *s, const char *name, const char *field, char *out, problem *p)
{
    const size_t n = strlen(name);
    const bool latest = n > 7 && strcmp(name + n - 7, ":latest") == 0;
    const size_t len = latest ? n - 7 : n;
    if (!len || len >= NAME_BYTES || name[0] == '.' || name[0] == '/' || strstr(name, "..") ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-") != n)
        return problem_set(p, 400, field, "\"%.64s\" is no name for a model: letters, digits and ._:/- are", name);
    memcpy(out, name, len);
    out[len] = '\0';
    const model *m = find(s->models, out);
    return !m || m->derived || m->gone || problem_set(p, 400, field, "%s is there, and was not made here", out);
}

/* Where another one begins: its base, so that chains don't grow, and what it adds. Under models_lock. */
static json_t *description(const server *s, const char *name, const model *from)
{
    const model *base = s->models;
    while (from->derived && base && (base->derived || strcmp(base->path, from->path) != 0)) base = base->next;
    json_t *o = json_pack("{s:s, s:s, s:o}", "name", name, "from", from->derived && base ? base->name : from->name,
                          "parameters", from->derived && from->params ? json_deep_copy(from->params) : json_object());
    if (from->derived && from->system) json_object_set_new(o, "system", json_string(from->system));
    if (from->derived && from->tmpl_source) json_object_set_new(o, "template", json_string(from->tmpl_source));
    return o;
}

static bool add_own(json_t *o, const fields *f, problem *p)
{
    const char *system = NULL, *source = NULL;
    const json_t *params = field_object(f, "parameters");
    qn_chat_template *t = NULL;
    qn_error err;
    if (params) json_object_update(json_object_get(o, "parameters"), (json_t *)params);
    if (field_string(f, "system", &system) && !p->status)
        json_object_set(o, "system", json_object_get(f->object, "system"));
    if (field_string(f, "template", &source) && !p->status && *source) {
        if (qn_chat_template_create(source, strlen(source), &t, &err) != QN_OK)
            return problem_set(p, 400, "template", "%s", err.text);
        qn_chat_template_destroy(t);
        json_object_set(o, "template", json_object_get(f->object, "template"));
    }
    return p->status == 0;
}

static bool check_params(const json_t *params, problem *p)
{
    const char *name;
    const json_t *value;
    ask q = {0};
    const fields f = {params, "parameters", p};
    json_object_foreach((json_t *)params, name, value)
    {
        char field[96];
        if (!json_is_object(value)) continue;
        snprintf(field, sizeof(field), "parameters.%.60s", name);
        return problem_set(p, 400, field, "found an object, expected a number or text");
    }
    return ask_sampling(&q, &f) && ask_stops(&q, &f, "stop");
}

/* Under models_lock. */
static json_t *make(exchange *x, const fields *f, problem *p)
{
    const char *name = NULL, *from = NULL, *key;
    char clean[NAME_BYTES];
    const json_t *value;
    json_object_foreach((json_t *)f->object, key, value)
    {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0) i++;
        if (i == sizeof(known) / sizeof(known[0]) && !json_is_null(value)) {
            problem_set(p, 400, key, "models are made here of \"from\", parameters, system and template alone");
            return NULL;
        }
    }
    if (!field_string(f, "model", &name) && !p->status) (void)field_string(f, "name", &name);
    if (!p->status && !name) field_wrong(f, "model", "the name of the new model");
    if (!p->status && !field_string(f, "from", &from) && !p->status) field_wrong(f, "from", "the name of a model");
    if (p->status || !check_name(x->server, name, "model", clean, p)) return NULL;
    const model *base = catalog_find(x->server, from, NULL, p);
    if (!base) return NULL;
    json_t *o = description(x->server, clean, base);
    if (add_own(o, f, p) && check_params(json_object_get(o, "parameters"), p)) return o;
    json_decref(o);
    return NULL;
}

static json_t *make_copy(exchange *x, const fields *f, problem *p)
{
    const char *source = NULL, *destination = NULL;
    char clean[NAME_BYTES];
    if (!field_string(f, "source", &source) && !p->status) field_wrong(f, "source", "the name of a model");
    if (!p->status && !field_string(f, "destination", &destination) && !p->status)
        field_wrong(f, "destination", "the name of the copy");
    const model *from = p->status ? NULL : catalog_find(x->server, source, NULL, p);
    return from && check_name(x->server, destination, "destination", clean, p) ? description(x->server, clean, from)
                                                                               : NULL;
}

static void done(exchange *x, const problem *p)
{
    if (p->status)
        exchange_refuse(x, p);
    else
        exchange_reply_json(x, 200, json_pack("{s:s}", "status", "success"));
}

static void keep(exchange *x, json_t *(*describe)(exchange *x, const fields *f, problem *p))
{
    server *s = x->server;
    problem p = {0};
    json_t *body = exchange_parse(x, &p), *o = NULL;
    const fields f = {body, "", &p};
    if (body && !s->o.models_store) problem_set(&p, 501, "", "this server has no folder to keep models in");
    if (!p.status) {
        pthread_mutex_lock(&s->models_lock);
        o = describe(x, &f, &p);
        pthread_mutex_unlock(&s->models_lock);
    }
    if (text_was_short()) problem_set(&p, 503, "", "out of memory"); /* it may lack a member */
    if (o && !p.status && write_file(s, word(o, "name"), o, &p)) (void)catalog_refresh(s, &p);
    json_decref(o);
    json_decref(body);
    done(x, &p);
}

void serve_ollama_create(exchange *x) { keep(x, make); }
void serve_ollama_copy(exchange *x) { keep(x, make_copy); }

void serve_ollama_delete(exchange *x)
{
    server *s = x->server;
    problem p = {0};
    char path[4096] = "";
    pthread_mutex_lock(&s->models_lock);
    const model *m = ollama_named(x, NULL, &p);
    if (m && !m->derived)
        problem_set(&p, 400, "model", "%s was not made here; what /api/create and /api/copy made can be deleted",
                    m->name);
    else if (m && !path_of(s, m->name, ".json", path, sizeof(path)))
        problem_set(&p, 500, "model", "its name is too long");
    pthread_mutex_unlock(&s->models_lock);
    if (*path && !p.status && unlink(path) != 0 && errno != ENOENT) /* as when the list was not read anew since */
        problem_set(&p, 500, "", "%.200s: %s", path, strerror(errno));
    if (!p.status) (void)catalog_refresh(s, &p);
    done(x, &p);
}
