/* SPDX-License-Identifier: MIT */
/* src/serve/models.c -- GET /health, /v1/models, /slots, /props, /metrics: whether we live, what we have, and what goes
 * on. None of it waits for a step. */
#include "serve/routes.h"
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

void serve_health(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

/* What its file says, and where it is loaded, what it is; under models_lock. */
static json_t *model_json(const model *m)
{
    static const char *const states[] = {
        [MODEL_unloaded] = "unloaded",
        [MODEL_loading] = "loading",
        [MODEL_loaded] = "loaded",
        [MODEL_unloading] = "unloaded",
    };
    const bool loaded = m->state == MODEL_loaded;
    const qn_model_facts *f = &m->facts;
    const qn_engine_info *i = &m->info;
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:s}, s:{s:I, s:I, s:I, s:I, s:I}}", "id", m->name, "object", "model",
                     "created", (json_int_t)m->server->started_s, "owned_by", "quern", "status", "value",
                     states[m->state], "meta", "n_vocab", (json_int_t)(loaded ? i->n_vocab : (int64_t)f->n_vocab),
                     "n_ctx_train", (json_int_t)(loaded ? i->n_ctx_train : (int64_t)f->n_ctx_train), "n_embd",
                     (json_int_t)(loaded ? i->n_embd : (int64_t)f->n_embd), "n_params",
                     (json_int_t)(loaded ? i->n_params : f->n_params), "size",
                     (json_int_t)(loaded ? i->weight_bytes : m->bytes_of_file));
}

/* Anthropic's clients say who they are. */
static json_t *anthropic_model(const model *m)
{
    char when[32];
    const time_t started = (time_t)m->server->started_s;
    struct tm day;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&started, &day));
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "model", "id", m->name, "display_name", m->name, "created_at",
                     when, "lifecycle", "active");
}

/* Of the model, or with adapter i of --lora. */
static json_t *entry(const model *m, bool anthropic, int i)
{
    const char *name;
    json_t *o = anthropic ? anthropic_model(m) : model_json(m);
    if (i < 0) return o;
    const size_t n = catalog_adapter(m->server, i, &name);
    json_object_set_new(o, "id", json_sprintf("%s:%.*s", m->name, (int)n, name));
    if (anthropic)
        json_object_set(o, "display_name", json_object_get(o, "id"));
    else
        json_object_set_new(o, "parent", json_string(m->name));
    return o;
}

typedef struct listing {
    json_t *list;
    bool anthropic;
} listing;

static void add_model(model *m, void *ctx)
{
    const listing *to = ctx;
    for (int i = -1; i < m->server->o.n_loras && !m->why_not[0]; i++)
        json_array_append_new(to->list, entry(m, to->anthropic, i));
}

void serve_models(exchange *x)
{
    json_t *list = json_array();
    models_each(x->server, add_model, &(listing){list, x->anthropic});
    if (!x->anthropic) {
        exchange_reply_json(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
        return;
    }
    const json_t *first = json_array_get(list, 0), *last = json_array_get(list, json_array_size(list) - 1);
    exchange_reply_json(x, 200,
                        json_pack("{s:o, s:b, s:O?, s:O?}", "data", list, "has_more", false, "first_id",
                                  json_object_get(first, "id"), "last_id", json_object_get(last, "id")));
}

void serve_model(exchange *x)
{
    problem p = {0};
    int adapter;
    json_t *reply = NULL;
    pthread_mutex_lock(&x->server->models_lock);
    const model *m = catalog_find(x->server, x->rest, &adapter, &p);
    if (m) reply = entry(m, x->anthropic, adapter - 1);
    pthread_mutex_unlock(&x->server->models_lock);
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_json(x, 200, reply);
}

/* The answer comes when it is loaded. */
void serve_load(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:b}", "success", true)); }

/* What it is asked to do, it does when nobody holds the model. */
void serve_unload(exchange *x)
{
    problem p = {0};
    const char *name = NULL;
    json_t *body = exchange_parse(x, &p);
    const fields f = {body, "", &p};
    if (body && !field_string(&f, "model", &name) && !p.status) field_wrong(&f, "model", "the name of a model");
    pthread_mutex_lock(&x->server->models_lock);
    int adapter;
    model *m = p.status ? NULL : catalog_find(x->server, name, &adapter, &p);
    if (m && m->state != MODEL_loaded && m->state != MODEL_loading)
        problem_set(&p, 400, "model", "%s is not loaded", m->name);
    else if (m)
        loader_unload(m);
    pthread_mutex_unlock(&x->server->models_lock);
    json_decref(body);
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_json(x, 200, json_pack("{s:b}", "success", true));
}

/* ---- what goes on ---- */

static json_t *slot_json(const model *m, const qn_batch_info *i)
{
    static const char *const states[] = {
        [QN_BATCH_queued] = "queued",
        [QN_BATCH_reading] = "reading",
        [QN_BATCH_generating] = "generating",
        [QN_BATCH_paused] = "paused",
    };
    return json_pack("{s:i, s:I, s:s, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "id", i->stream,
                     "id_task", (json_int_t)i->id, "model", m->name, "is_processing", i->stream >= 0, "state",
                     states[i->state], "n_ctx", model_n_ctx(m), "n_prompt_tokens", i->usage.n_prompt,
                     "n_prompt_tokens_read", i->usage.n_read, "n_prompt_tokens_cached", i->usage.n_cached, "n_decoded",
                     i->usage.n_generated, "n_left_out", i->usage.n_left_out, "n_set_back", i->usage.n_set_back,
                     "queue_ms", (double)i->usage.queue_ns * 1e-6, "prompt_ms", (double)i->usage.read_ns * 1e-6,
                     "predicted_ms", (double)i->usage.generate_ns * 1e-6);
}

typedef struct slots {
    const model *only; /* NULL: of all */
    json_t *list;
} slots;

static void add_slots(model *m, void *ctx)
{
    enum { MOST = 1024 };
    const slots *to = ctx;
    if (m->state != MODEL_loaded || !m->batcher || (to->only && to->only != m)) return;
    qn_batch_info *infos = calloc(MOST, sizeof(*infos));
    if (!infos) text_lost();
    const int32_t n = infos ? qn_batcher_list(m->batcher, infos, MOST) : 0;
    for (int32_t i = 0; i < n && i < MOST; i++) json_array_append_new(to->list, slot_json(m, &infos[i]));
    free(infos);
}

void serve_slots(exchange *x)
{
    slots to = {NULL, json_array()};
    problem p = {0};
    int adapter;
    pthread_mutex_lock(&x->server->models_lock);
    if (x->query_model) to.only = catalog_find(x->server, x->query_model, &adapter, &p);
    pthread_mutex_unlock(&x->server->models_lock);
    if (!p.status) models_each(x->server, add_slots, &to);
    if (!p.status) {
        exchange_reply_json(x, 200, to.list);
        return;
    }
    json_decref(to.list);
    exchange_refuse(x, &p);
}

static json_t *piece_json(const model *m, qn_token id)
{
    size_t n = 0;
    const char *name = id == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(m->tok, id, &n);
    return json_text(name, name ? n : 0);
}

void serve_props(exchange *x)
{
    const model *m = x->model;
    const char *source = qn_chat_template_source(m->tmpl);
    exchange_reply_json(x, 200,
                        json_pack("{s:{s:i}, s:i, s:s, s:o, s:o, s:o, s:o, s:{s:b, s:b, s:b, s:b}, s:{s:b, s:b}, s:s}",
                                  "default_generation_settings", "n_ctx", model_n_ctx(m), "total_slots",
                                  m->batcher ? qn_batcher_n_parallel(m->batcher) : 0, "model_alias", m->name,
                                  "model_path", json_text(m->path, strlen(m->path)), "chat_template",
                                  json_text(source, strlen(source)), "bos_token",
                                  piece_json(m, qn_tokenizer_bos(m->tok)), "eos_token",
                                  piece_json(m, qn_tokenizer_eos(m->tok)), "chat_template_caps", "supports_tools",
                                  m->needs.tools, "supports_tool_calls", m->needs.calls, "supports_parallel_tool_calls",
                                  m->needs.several_calls, "supports_system_role", m->needs.system, "modalities",
                                  "vision", false, "audio", false, "build_info", qn_version()));
}
