/* SPDX-License-Identifier: MIT */
/* src/store/scan_ollama.c -- Ollama's models:
 *
 *     manifests/HOST/NAMESPACE/NAME/TAG      a manifest: which blobs make the model
 *     manifest-v2/HOST/NAMESPACE/NAME/TAG    newer: a link to a manifest among the blobs, or a copy of it
 *     blobs/sha256-HASH                      a GGUF file, an adapter, a system prompt, options; -partial beside it
 *                                            while it is downloaded */
#include "store/store.h"
#include <string.h>
#include <strings.h>

enum { HOST, SPACE, NAME, TAG, LEVELS };

typedef struct place {
    const char *root;   /* with blobs in it */
    const char *inside; /* the same without links */
    const char *part[LEVELS];
} place;

/* ---- blobs ---- */

/* The path of a layer's blob; *problem says why it cannot be used. */
static const char *blob(qn_scan *s, const place *p, const qn_layer *layer, qn_entry *e, const char **problem)
{
    *e = (qn_entry){.kind = QN_ENTRY_absent};
    if (!layer->hash[0]) {
        *problem = "its digest is not sha256 with 64 hexadecimal digits";
        return p->root;
    }
    char *path = qn__store_text(s, "%s/blobs/sha256-%s", p->root, layer->hash);
    if (!path) return NULL;
    *e = qn__entry_at(path);
    if (e->kind == QN_ENTRY_absent && !e->link) { /* as it was named at first */
        char *old = qn__store_text(s, "%s/blobs/sha256:%s", p->root, layer->hash);
        const qn_entry other = old ? qn__entry_at(old) : *e;
        if (other.kind == QN_ENTRY_file) {
            *e = other;
            return old;
        }
    }
    if (e->kind == QN_ENTRY_absent) {
        const char *partial = e->link ? NULL : qn__store_text(s, "%s-partial", path);
        *problem = e->link                                                  ? "a link to a file that is not there"
                   : partial && qn__entry_at(partial).kind == QN_ENTRY_file ? "half-downloaded"
                                                                            : "its file is not there";
    } else if (e->kind == QN_ENTRY_loop) {
        *problem = "a link that leads back to itself";
    } else if (e->kind != QN_ENTRY_file) {
        *problem = qn__store_text(s, "not a file but %s", e->kind == QN_ENTRY_folder ? "a folder" : e->what);
    } else if (e->bytes < layer->bytes) {
        *problem = qn__store_text(s, "half-downloaded: %llu bytes of %llu", (unsigned long long)e->bytes,
                                  (unsigned long long)layer->bytes);
    } else if (layer->bytes && e->bytes > layer->bytes) {
        *problem = qn__store_text(s, "damaged: %llu bytes, its manifest says %llu", (unsigned long long)e->bytes,
                                  (unsigned long long)layer->bytes);
    }
    return path;
}

/* ---- a manifest ---- */

static qn_status fill_model(qn_scan *s, const place *p, const qn_manifest *m, qn_found *f)
{
    size_t n_models = 0, n_tensors = 0, n_adapters = 0;
    const char **adapters = qn__arena_array(s->arena, m->n + 1, sizeof *adapters);
    if (!adapters) return QN_FAIL(s->err, nomem, "out of memory: layers of a model");
    for (size_t i = 0; i < m->n; i++) {
        const qn_layer *layer = &m->layers[i];
        qn_entry e;
        const char *problem = NULL, *path = NULL;
        const bool model = strcmp(layer->type, "model") == 0, adapter = strcmp(layer->type, "adapter") == 0,
                   system = strcmp(layer->type, "system") == 0, params = strcmp(layer->type, "params") == 0;
        n_tensors += strcmp(layer->type, "tensor") == 0;
        if (!model && !adapter && !system && !params) continue;
        path = blob(s, p, layer, &e, &problem);
        if (!path) return QN_FAIL(s->err, nomem, "out of memory: paths of layers");
        if (problem && !f->model.problem)
            f->model.problem = model ? problem : qn__store_text(s, "its %s: %s", layer->type, problem);
        if (adapter) adapters[n_adapters++] = path;
        if (system) f->model.system = path;
        if (params) f->model.params = path;
        if (!model || n_models++) continue;
        f->model.path = path;
        f->model.bytes = e.bytes;
        f->device = e.device;
        f->inode = e.inode;
    }
    f->model.adapters = adapters;
    f->model.n_adapters = (int)n_adapters;
    f->model.n_parts = 1;
    if (!f->model.problem && n_models > 1)
        f->model.problem = qn__store_text(s, "in %zu files, whose order its manifest does not tell", n_models);
    if (!f->model.problem && n_models == 0)
        f->model.problem = n_tensors ? "stored as safetensors, not as a GGUF file" : "its manifest names no model";
    return QN_OK;
}

/* "registry.ollama.ai" and, in manifest-v2, "ollama.com" are the same host. */
static bool default_host(const char *host)
{
    return strcasecmp(host, QN_OLLAMA_HOST) == 0 || strcasecmp(host, "ollama.com") == 0;
}

static qn_status add_model(qn_scan *s, const place *p, const char *path, const qn_entry *e)
{
    const bool own = default_host(p->part[HOST]), library = own && strcasecmp(p->part[SPACE], "library") == 0;
    char *full = qn__store_text(s, "%s/%s/%s", own ? QN_OLLAMA_HOST : p->part[HOST], p->part[SPACE], p->part[NAME]);
    if (!full) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    const char *base = library ? p->part[NAME] : own ? full + sizeof QN_OLLAMA_HOST : full;
    qn_found f = {.base = base, .tag = p->part[TAG], .full = full};
    f.model.path = path;
    f.model.name = qn__store_text(s, "%s:%s", base, p->part[TAG]);
    if (e->kind == QN_ENTRY_file && e->link) {
        const char *real = qn__real_path(s->arena, path);
        const size_t n = strlen(p->inside);
        if (!real || strncmp(real, p->inside, n) != 0 || real[n] != '/')
            f.model.problem = "its manifest is a link that leads out of the store";
    } else if (e->kind != QN_ENTRY_file) {
        f.model.problem = e->kind == QN_ENTRY_absent   ? "its manifest is a link to a file that is not there"
                          : e->kind == QN_ENTRY_loop   ? "its manifest is a link that leads back to itself"
                          : e->kind == QN_ENTRY_folder ? "a folder where its manifest should be"
                                                       : qn__store_text(s, "its manifest is %s", e->what);
    }
    if (f.model.problem) return qn__store_add(s, &f);
    char *text;
    size_t n;
    qn_manifest m;
    qn_error why;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = qn__store_read(path, QN_MANIFEST_BYTES, &s->scratch, &text, &n, &why);
    if (status == QN_OK) status = qn__manifest_parse(text, n, "", &s->scratch, &m, &why);
    if (status == QN_STATUS_nomem) return QN_FAIL(s->err, nomem, "%s", why.text);
    if (status != QN_OK) f.model.problem = qn__store_text(s, "its manifest: %s", why.text);
    status = status == QN_OK ? fill_model(s, p, &m, &f) : QN_OK;
    qn__arena_reset(&s->scratch, mark);
    return status == QN_OK ? qn__store_add(s, &f) : status;
}

/* ---- folders ---- */

static qn_status scan_level(qn_scan *s, place *p, const char *folder, int level);

static qn_status visit(qn_scan *s, place *p, const char *folder, const qn_entry *e, int level)
{
    const char *path = qn__store_path(s, folder, e->name), *name = qn__arena_strdup(s->arena, e->name);
    if (!path || !name) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    if (e->name[0] == '.' || (level < TAG && e->kind == QN_ENTRY_file)) return QN_OK; /* .DS_Store and the like */
    if (!qn__plain_name(name, level == HOST ? 350 : 80))
        return qn__store_add_problem(s, name, path, "this is no name of a model");
    p->part[level] = name;
    if (level == TAG) return add_model(s, p, path, e);
    if (e->link || e->kind != QN_ENTRY_folder)
        return qn__store_add_problem(s, name, path, "%s",
                                     e->link ? "a link to a folder, which is not followed" : e->what);
    return scan_level(s, p, path, level + 1);
}

static qn_status scan_level(qn_scan *s, place *p, const char *folder, int level)
{
    qn_entry *list;
    size_t n;
    bool cut;
    qn_error why;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = qn__folder_read(folder, QN_STORE_MAX_ENTRIES, &s->scratch, &list, &n, &cut, &why);
    if (status == QN_STATUS_nomem) return QN_FAIL(s->err, nomem, "%s", why.text);
    if (status != QN_OK) return qn__store_add_problem(s, folder, folder, "%s", why.text);
    for (size_t i = 0; i < n && status == QN_OK; i++) status = visit(s, p, folder, &list[i], level);
    qn__arena_reset(&s->scratch, mark);
    return status;
}

static qn_status scan_root(qn_scan *s, const char *root)
{
    static const char *const lists[] = {"manifest-v2", "manifests"};
    place p = {.root = root, .inside = root ? qn__real_path(s->arena, root) : NULL};
    for (size_t i = 0; i < sizeof lists / sizeof *lists && p.inside; i++, s->rank++) {
        const char *folder = qn__store_path(s, root, lists[i]);
        if (!folder) return QN_FAIL(s->err, nomem, "out of memory: paths of models");
        if (qn__entry_at(folder).kind != QN_ENTRY_absent) QN_TRY(scan_level(s, &p, folder, HOST));
    }
    return QN_OK;
}

qn_status qn__scan_ollama(qn_scan *s)
{
    const qn_store_places *p = s->places;
    QN_TRY(scan_root(s, p->ollama_models));
    if (p->home) QN_TRY(scan_root(s, qn__store_path(s, p->home, ".ollama/models")));
    return scan_root(s, p->ollama_system);
}
