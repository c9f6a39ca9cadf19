/* SPDX-License-Identifier: MIT */
/* src/serve/ollama_models.c -- /api/tags, /api/ps, /api/show, /api/version, /api/pull: what there is, in Ollama's
 * words. */
#include "serve/ollama.h"
#include "serve/routes.h"
#include <quern/store.h>
#include <string.h>

static json_t *details(const server *s)
{
    qn_model_facts facts;
    char size[32];
    qn_model_read_facts(qn_engine_file(s->engine), &facts);
    const double n = (double)s->info.n_params;
    snprintf(size, sizeof(size), n >= 1e9 ? "%.1fB" : "%.1fM", n >= 1e9 ? n * 1e-9 : n * 1e-6);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf", "family", s->info.arch,
                     "families", s->info.arch, "parameter_size", size, "quantization_level", facts.type);
}

/* A name has a tag there. */
static json_t *tagged(const server *s)
{
    return json_sprintf("%s%s", s->o.model, strchr(s->o.model, ':') ? "" : ":latest");
}

static json_t *model_json(const server *s)
{
    char digest[65];
    memset(digest, '0', 64); /* of files that nobody downloaded under one */
    digest[64] = '\0';
    return json_pack("{s:o, s:o, s:o, s:I, s:s, s:o}", "name", tagged(s), "model", tagged(s), "modified_at",
                     ollama_time(s->started_s), "size", (json_int_t)s->info.weight_bytes, "digest", digest, "details",
                     details(s));
}

void serve_ollama_tags(exchange *x)
{
    exchange_reply_json(x, 200, json_pack("{s:[o]}", "models", model_json(x->server)));
}

void serve_ollama_ps(exchange *x)
{
    json_t *model = model_json(x->server);
    json_object_set_new(model, "expires_at", json_string("9999-12-31T23:59:59Z")); /* never unloaded */
    json_object_set_new(model, "size_vram", json_integer(0));
    json_object_set_new(model, "context_length", json_integer(server_n_ctx(x->server)));
    exchange_reply_json(x, 200, json_pack("{s:[o]}", "models", model));
}

void serve_ollama_version(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "version", qn_version())); }

/* The model that a body names, as "model" or "name". */
static bool named(exchange *x, problem *p)
{
    ask q;
    json_t *body = exchange_parse(x, p);
    if (!body) return false;
    if (!json_object_get(body, "model") && json_object_get(body, "name"))
        json_object_set(body, "model", json_object_get(body, "name"));
    const fields f = {body, "", p};
    ask_init(&q, x->server);
    const bool good = ask_model(&q, x->server, &f);
    ask_deinit(&q);
    json_decref(body);
    return good;
}

static json_t *info(const server *s)
{
    json_t *o = json_pack("{s:s, s:I}", "general.architecture", s->info.arch, "general.parameter_count",
                          (json_int_t)s->info.n_params);
    const struct {
        const char *name;
        int32_t value;
    } rows[] = {
        {"context_length", s->info.n_ctx_train},
        {"embedding_length", s->info.n_embd},
        {"block_count", s->info.n_layer},
        {"attention.head_count", s->info.n_head},
        {"attention.head_count_kv", s->info.n_kv_head},
    };
    char key[128];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(key, sizeof(key), "%s.%s", s->info.arch, rows[i].name);
        json_object_set_new(o, key, json_integer(rows[i].value));
    }
    return o;
}

void serve_ollama_show(exchange *x)
{
    problem p = {0};
    const server *s = x->server;
    const char *source = qn_chat_template_source(s->o.tmpl);
    if (!named(x, &p)) {
        exchange_refuse(x, &p);
        return;
    }
    json_t *can = json_pack("[s]", "completion");
    if (s->needs.tools && s->needs.calls) json_array_append_new(can, json_string("tools"));
    if (s->needs.reasoning) json_array_append_new(can, json_string("thinking"));
    exchange_reply_json(x, 200,
                        json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "modelfile", "", "parameters", "",
                                  "template", json_text(source, strlen(source)), "license", "", "details", details(s),
                                  "model_info", info(s), "capabilities", can, "modified_at",
                                  ollama_time(s->started_s)));
}

/* What is here need not be fetched; the rest is not fetched. */
void serve_ollama_pull(exchange *x)
{
    problem p = {0};
    if (named(x, &p))
        exchange_reply_json(x, 200, json_pack("{s:s}", "status", "success"));
    else
        exchange_refuse(x, &p);
}
