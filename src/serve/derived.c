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
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024, MOST_BYTES = 4 << 20, NAME_BYTES = 128 };

/* ---- files ---- */

static bool is_file_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Letters as they are, the rest as %XX: no name leads out of the folder. False where no file can be called so. */
static bool path_of(const server *s, const char *name, const char *ending, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/", s->o.models_store);
    const int begin = n;
    for (; *name && n > 0 && (size_t)n + 4 < size; name++)
        n += snprintf(out + n, size - (size_t)n, is_file_char(*name) ? "%c" : "%%%02X", (unsigned char)*name);
    if ((size_t)(n - begin) + strlen(ending) > NAME_MAX) return false;
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

/* Of the process: who counts the files and adds one. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static bool is_description(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

/* One more could not be read. */
static bool is_full(const server *s)
{
    int n = 0;
    const struct dirent *e;
    DIR *folder = opendir(s->o.models_store);
    while (folder && (e = readdir(folder))) n += is_description(e->d_name);
    if (folder) closedir(folder);
    return n >= MOST;
}

/* A name that no other program has, which may share the folder. */
static int open_part(const server *s, char *path, size_t size)
{
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < 1000 && fd < 0 && errno == EEXIST; i++) {
        snprintf(path, size, "%s/%ld-%d.part", s->o.models_store, (long)getpid(), i);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return fd;
}

/* By way of another file, so that nobody sees half of it. */
static bool replace_file(const server *s, const char *path, const char *words, size_t n)
{
    char part[4096];
    const int fd = open_part(s, part, sizeof(part));
    if (fd < 0) return false;
    errno = ENOSPC; /* where it is written in part */
    bool good = write(fd, words, n) == (ssize_t)n && fsync(fd) == 0;
    good = close(fd) == 0 && good && rename(part, path) == 0;
    const int why = errno;
    if (!good) unlink(part);
    errno = why;
    return good;
}

/* Where one is replaced, there are no more than before. */
static bool keep_file(const server *s, const char *path, const char *words, size_t n, problem *p)
{
    const bool folder = make_folder(s->o.models_store);
    if (folder && access(path, F_OK) != 0 && is_full(s))
        return problem_set(p, 400, "", "there are %d models that were made here, which is the most (/api/delete)",
                           MOST);
    if (folder && replace_file(s, path, words, n)) return true;
    return problem_set(p, 500, "", "the model cannot be kept in %.200s: %s", s->o.models_store, strerror(errno));
}

/* What could not be read again is refused. */
static bool write_file(const server *s, const char *name, const json_t *value, problem *p)
{
    char path[4096];
    char *words = json_dumps(value, JSON_INDENT(1));
    const size_t n = words ? strlen(words) : 0;
    json_t *again = words && n <= MOST_BYTES ? json_loadb(words, n, 0, NULL) : NULL;
    json_decref(again);
    if (!words || text_is_short())
        problem_set(p, 503, "", "out of memory");
    else if (n > MOST_BYTES)
        problem_set(p, 413, "", "the model's description has %zu bytes; %d are kept", n, MOST_BYTES);
    else if (!again)
        problem_set(p, 400, "parameters", "a NUL character");
    else if (!path_of(s, name, ".json", path, sizeof(path)))
        problem_set(p, 400, "model", "the name is too long: what is no letter, digit, _ or - counts three times");
    else {
        pthread_mutex_lock(&writing);
        (void)keep_file(s, path, words, n, p);
        pthread_mutex_unlock(&writing);
    }
    free(words);
    return p->status == 0;
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
        if (!is_description(e->d_name)) continue;
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

/* What is made of what: read before any lock is taken, since a body and a template take their time. */
typedef struct making {
    const char *from, *field; /* field: of the name */
    char name[NAME_BYTES];
} making;

/* A name as Ollama's are, without ":latest". */
static bool check_name(const char *name, making *to, problem *p)
{
    const size_t n = strlen(name);
    const bool latest = n > 7 && strcmp(name + n - 7, ":latest") == 0;
    const size_t len = latest ? n - 7 : n;
    if (!len || len >= NAME_BYTES || name[0] == '.' || name[0] == '/' || strstr(name, "..") ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-") != n)
        return problem_set(p, 400, to->field, "\"%.64s\" is no name for a model: letters, digits and ._:/- are", name);
    memcpy(to->name, name, len);
    to->name[len] = '\0';
    return true;
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

/* What is the new one's own, checked. */
static bool check_own(const fields *f, problem *p)
{
    const char *source = NULL, *system = NULL;
    qn_chat_template *t = NULL;
    qn_error err;
    (void)field_object(f, "parameters");
    (void)field_string(f, "system", &system);
    if (field_string(f, "template", &source) && !p->status && *source) {
        if (qn_chat_template_create(source, strlen(source), &t, &err) != QN_OK)
            return problem_set(p, 400, "template", "%s", err.text);
        qn_chat_template_destroy(t);
    }
    return p->status == 0;
}

static void add_own(json_t *o, const json_t *body)
{
    json_t *params = json_object_get(body, "parameters"), *system = json_object_get(body, "system"),
           *source = json_object_get(body, "template");
    if (json_is_object(params)) json_object_update(json_object_get(o, "parameters"), params);
    if (json_is_string(system)) json_object_set(o, "system", system);
    if (json_string_length(source)) json_object_set(o, "template", source);
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

static bool read_create(const fields *f, making *to, problem *p)
{
    const char *name = NULL, *key;
    const json_t *value;
    json_object_foreach((json_t *)f->object, key, value)
    {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0) i++;
        if (i == sizeof(known) / sizeof(known[0]) && !json_is_null(value))
            return problem_set(p, 400, key, "models are made here of \"from\", parameters, system and template alone");
    }
    *to = (making){.field = "model"};
    if (!field_string(f, "model", &name) && !p->status) (void)field_string(f, "name", &name);
    if (!p->status && !name) field_wrong(f, "model", "the name of the new model");
    if (!p->status && !field_string(f, "from", &to->from) && !p->status) field_wrong(f, "from", "the name of a model");
    return !p->status && check_name(name, to, p) && check_own(f, p);
}

static bool read_copy(const fields *f, making *to, problem *p)
{
    const char *name = NULL;
    *to = (making){.field = "destination"};
    if (!field_string(f, "source", &to->from) && !p->status) field_wrong(f, "source", "the name of a model");
    if (!p->status && !field_string(f, "destination", &name) && !p->status)
        field_wrong(f, "destination", "the name of the copy");
    return !p->status && check_name(name, to, p);
}

/* Under models_lock. No other program's model has that name. */
static json_t *describe(server *s, const making *to, problem *p)
{
    const model *before = find(s->models, to->name), *from = NULL;
    if (before && !before->derived && !before->gone)
        problem_set(p, 400, to->field, "%s is there, and was not made here", to->name);
    else
        from = catalog_find(s, to->from, NULL, p);
    return from ? description(s, to->name, from) : NULL;
}

static void done(exchange *x, const problem *p)
{
    if (p->status)
        exchange_refuse(x, p);
    else
        exchange_reply_json(x, 200, json_pack("{s:s}", "status", "success"));
}

static void keep(exchange *x, bool (*reads)(const fields *f, making *to, problem *p))
{
    server *s = x->server;
    problem p = {0};
    making to;
    json_t *body = exchange_parse(x, &p), *o = NULL;
    const fields f = {body, "", &p};
    if (body && !s->o.models_store) problem_set(&p, 501, "", "this server has no folder to keep models in");
    if (!p.status && reads(&f, &to, &p)) {
        pthread_mutex_lock(&s->models_lock);
        o = describe(s, &to, &p);
        pthread_mutex_unlock(&s->models_lock);
    }
    if (o && reads == read_create) {
        add_own(o, body);
        (void)check_params(json_object_get(o, "parameters"), &p);
    }
    if (text_was_short()) problem_set(&p, 503, "", "out of memory"); /* it may lack a member */
    if (o && !p.status && write_file(s, word(o, "name"), o, &p)) (void)catalog_refresh(s, &p);
    json_decref(o);
    json_decref(body);
    done(x, &p);
}

void serve_ollama_create(exchange *x) { keep(x, read_create); }
void serve_ollama_copy(exchange *x) { keep(x, read_copy); }

void serve_ollama_delete(exchange *x)
{
    server *s = x->server;
    problem p = {0};
    char path[4096] = "";
    const char *name = ollama_name(x, &p);
    pthread_mutex_lock(&s->models_lock);
    const model *m = name ? catalog_find(s, name, NULL, &p) : NULL;
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
