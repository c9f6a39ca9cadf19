/* SPDX-License-Identifier: MIT */
/* src/serve/ollama_models.c -- /api/tags, /api/ps, /api/show, /api/version, /api/pull: what there is, in Ollama's
 * words. */
#include "serve/ollama.h"
#include "serve/routes.h"
#include <quern/store.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *details(const model *m)
{
    const qn_model_facts *f = &m->facts;
    char size[32];
    const double n = (double)f->n_params;
    snprintf(size, sizeof(size), n >= 1e9 ? "%.1fB" : "%.1fM", n >= 1e9 ? n * 1e-9 : n * 1e-6);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf", "family", f->arch,
                     "families", f->arch, "parameter_size", size, "quantization_level", f->type);
}

/* A name has a tag there. */
static json_t *tagged(const model *m)
{
    const char *slash = strrchr(m->name, '/');
    return json_sprintf("%s%s", m->name, strchr(slash ? slash : m->name, ':') ? "" : ":latest");
}

static json_t *model_json(const model *m)
{
    char digest[65];
    memset(digest, '0', 64); /* of files that nobody downloaded under one */
    digest[64] = '\0';
    return json_pack("{s:o, s:o, s:o, s:I, s:s, s:o}", "name", tagged(m), "model", tagged(m), "modified_at",
                     ollama_time((int64_t)m->st.st_mtim.tv_sec), "size", (json_int_t)m->bytes_of_file, "digest", digest,
                     "details", details(m));
}

static void add_model(model *m, void *list)
{
    if (!m->why_not[0]) json_array_append_new(list, model_json(m));
}

void serve_ollama_tags(exchange *x)
{
    json_t *list = json_array();
    models_each(x->server, add_model, list);
    exchange_reply_json(x, 200, json_pack("{s:o}", "models", list));
}

/* ---- what is loaded ---- */

static json_t *until(const model *m)
{
    const bool ever = m->keep_ns < 0;
    const int64_t left_ns = m->n_users ? m->keep_ns : m->used_ns + m->keep_ns - now_ns();
    if (m->unload || m->leaving) return ollama_time((int64_t)time(NULL));
    return ever ? json_string("9999-12-31T23:59:59Z") : ollama_time((int64_t)time(NULL) + left_ns / 1000000000);
}

/* Theirs, and beside it what `quern ps` shows. */
static void add_loaded(model *m, void *list)
{
    qn_batcher_stats b = {0};
    if (m->state != MODEL_loaded) return;
    if (m->batcher) qn_batcher_get_stats(m->batcher, &b);
    json_t *o = model_json(m);
    json_object_set_new(o, "size", json_integer((json_int_t)atomic_load(&m->bytes)));
    json_object_update_new(o, json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:f, s:b}", "expires_at", until(m), "size_vram",
                                        0, "context_length", model_n_ctx(m), "streams", b.n_streams, "queued",
                                        b.n_queued, "users", m->n_users, "tokens_per_second",
                                        b.n_streams && b.decode_seconds > 0 ? b.n_streams / b.decode_seconds : 0.0,
                                        "stays", m->keep_ns < 0));
    json_array_append_new(list, o);
}

void serve_ollama_ps(exchange *x)
{
    json_t *list = json_array();
    models_each(x->server, add_loaded, list);
    exchange_reply_json(x, 200, json_pack("{s:o}", "models", list));
}

/* Clients ask whether theirs is new enough: of the version whose interface this is. */
void serve_ollama_version(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "version", "0.13.4")); }

/* ---- one of them ---- */

const char *ollama_name(exchange *x, problem *p)
{
    const char *name = NULL;
    if (!x->json && !(x->json = exchange_parse(x, p))) return NULL;
    const fields f = {x->json, "", p};
    if (!field_string(&f, "model", &name) && !p->status) (void)field_string(&f, "name", &name);
    if (!p->status && (!name || !*name)) field_wrong(&f, "model", "the name of a model");
    return p->status ? NULL : name;
}

/* As a Modelfile has them: "temperature 0.6", a line each. */
static json_t *params_text(const model *m)
{
    const char *name;
    const json_t *value;
    text t = {0};
    json_object_foreach(m->params, name, value)
    {
        const size_t n = json_is_array(value) ? json_array_size(value) : 1;
        for (size_t i = 0; i < n; i++) {
            text_printf(&t, "%s%s ", t.n ? "\n" : "", name);
            text_json(&t, json_incref(json_is_array(value) ? json_array_get(value, i) : (json_t *)value));
        }
    }
    json_t *made = json_text(t.data, t.n);
    text_deinit(&t);
    return made;
}

static json_t *info(const model *m)
{
    const qn_model_facts *f = &m->facts;
    json_t *o =
        json_pack("{s:s, s:I}", "general.architecture", f->arch, "general.parameter_count", (json_int_t)f->n_params);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"context_length",
         (uint64_t)model_served_ctx(m)}, /* clients ask for all of it: more than there is is refused */
        {"embedding_length", f->n_embd},
        {"block_count", f->n_layer},
        {"attention.head_count", f->n_head},
        {"attention.head_count_kv", f->n_kv_head},
    };
    char key[128];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(key, sizeof(key), "%s.%s", f->arch, rows[i].name);
        json_object_set_new(o, key, json_integer((json_int_t)rows[i].value));
    }
    return o;
}

static void problem_of_file(problem *p, const qn_error *err)
{
    problem_set(p, err->status == QN_STATUS_nomem ? 503 : 500, "model", "%s", err->text);
}

/* The file is opened for its template alone: nothing is loaded. */
void serve_ollama_show(exchange *x)
{
    server *s = x->server;
    problem p = {0};
    qn_error err;
    qn_gguf *file = NULL;
    qn_chat_template *t = NULL;
    qn_chat_needs needs = {0};
    json_t *reply = NULL;
    int adapter; /* what it is called with one is told of the model */
    const char *name = ollama_name(x, &p);
    pthread_mutex_lock(&s->models_lock);
    const model *m = name ? catalog_find(s, name, &adapter, &p) : NULL;
    const bool own = m && m->tmpl_source;
    char *path = m ? strdup(m->path) : NULL, *source = own ? strdup(m->tmpl_source) : NULL;
    if (m)
        reply = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:s}", "modelfile", "", "parameters", params_text(m),
                          "license", m->facts.license, "details", details(m), "model_info", info(m), "modified_at",
                          ollama_time((int64_t)m->st.st_mtim.tv_sec), "system", m->system ? m->system : "");
    const bool here = m != NULL;
    pthread_mutex_unlock(&s->models_lock); /* it may be another list from here on */
    if (here && (!path || (own && !source))) problem_set(&p, 503, "", "out of memory");
    if (!p.status && path &&
        (source ? qn_chat_template_create(source, strlen(source), &t, &err) : qn_gguf_open(path, NULL, &file, &err)) !=
            QN_OK)
        problem_of_file(&p, &err);
    if (file && qn_chat_template_load(file, NULL, &t, &err) != QN_OK) problem_of_file(&p, &err);
    if (t) qn_chat_template_needs(t, &needs);
    json_t *can = json_pack("[s]", "completion");
    if (needs.tools && needs.calls) json_array_append_new(can, json_string("tools"));
    if (needs.reasoning) json_array_append_new(can, json_string("thinking"));
    const char *words = t ? qn_chat_template_source(t) : "";
    json_object_set_new(reply, "capabilities", can);
    json_object_set_new(reply, "template", json_text(words, strlen(words)));
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_json(x, 200, json_incref(reply));
    json_decref(reply);
    qn_chat_template_destroy(t);
    qn_gguf_close(file);
    free(path);
    free(source);
}

/* What is here need not be fetched; the rest is not fetched. */
void serve_ollama_pull(exchange *x)
{
    problem p = {0};
    int adapter;
    const char *name = ollama_name(x, &p);
    pthread_mutex_lock(&x->server->models_lock);
    if (name) (void)catalog_find(x->server, name, &adapter, &p);
    pthread_mutex_unlock(&x->server->models_lock);
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_json(x, 200, json_pack("{s:s}", "status", "success"));
}
