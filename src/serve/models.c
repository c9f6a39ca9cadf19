/* SPDX-License-Identifier: MIT */
/* src/serve/models.c -- GET /health, /v1/models, /slots, /props, /metrics: whether we live, what we have, and what goes
 * on. None of it waits for a step. */
#include "serve/routes.h"
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

void serve_health(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

static json_t *model_json(const server *s)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:i, s:i, s:i, s:I, s:I}}", "id", s->o.model, "object", "model",
                     "created", (json_int_t)s->started_s, "owned_by", "quern", "meta", "n_vocab", s->info.n_vocab,
                     "n_ctx_train", s->info.n_ctx_train, "n_embd", s->info.n_embd, "n_params",
                     (json_int_t)s->info.n_params, "size", (json_int_t)s->info.weight_bytes);
}

/* Anthropic's clients say who they are. */
static json_t *anthropic_model(const server *s)
{
    char when[32];
    const time_t started = (time_t)s->started_s;
    struct tm day;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&started, &day));
    return json_pack("{s:s, s:s, s:s, s:s}", "type", "model", "id", s->o.model, "display_name", s->o.model,
                     "created_at", when);
}

void serve_models(exchange *x)
{
    const server *s = x->server;
    if (x->anthropic) {
        exchange_reply_json(x, 200,
                            json_pack("{s:[o], s:b, s:s, s:s}", "data", anthropic_model(s), "has_more", false,
                                      "first_id", s->o.model, "last_id", s->o.model));
        return;
    }
    exchange_reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(x->server)));
}

void serve_model(exchange *x)
{
    problem p = {0};
    if (strcmp(x->rest, x->server->o.model) == 0) {
        exchange_reply_json(x, 200, x->anthropic ? anthropic_model(x->server) : model_json(x->server));
        return;
    }
    snprintf(p.code, sizeof(p.code), "model_not_found");
    problem_set(&p, 404, "model", "the model \"%.120s\" is not here; there is %s", x->rest, x->server->o.model);
    exchange_refuse(x, &p);
}

/* ---- what goes on ---- */

static json_t *slot_json(const server *s, const qn_batch_info *i)
{
    static const char *const states[] = {
        [QN_BATCH_queued] = "queued",
        [QN_BATCH_reading] = "reading",
        [QN_BATCH_generating] = "generating",
        [QN_BATCH_paused] = "paused",
    };
    return json_pack("{s:i, s:I, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "id", i->stream, "id_task",
                     (json_int_t)i->id, "is_processing", i->stream >= 0, "state", states[i->state], "n_ctx",
                     server_n_ctx(s), "n_prompt_tokens", i->usage.n_prompt, "n_prompt_tokens_read", i->usage.n_read,
                     "n_prompt_tokens_cached", i->usage.n_cached, "n_decoded", i->usage.n_generated, "n_set_back",
                     i->usage.n_set_back, "queue_ms", (double)i->usage.queue_ns * 1e-6, "prompt_ms",
                     (double)i->usage.read_ns * 1e-6, "predicted_ms", (double)i->usage.generate_ns * 1e-6);
}

void serve_slots(exchange *x)
{
    enum { MOST = 1024 };
    qn_batch_info *infos = calloc(MOST, sizeof(*infos));
    json_t *list = json_array();
    const int32_t n = infos && x->server->batcher ? qn_batcher_list(x->server->batcher, infos, MOST) : 0;
    for (int32_t i = 0; i < n && i < MOST; i++) json_array_append_new(list, slot_json(x->server, &infos[i]));
    free(infos);
    exchange_reply_json(x, 200, list);
}

static json_t *piece_json(const server *s, qn_token id)
{
    size_t n = 0;
    const char *name = id == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(s->tok, id, &n);
    return json_text(name, name ? n : 0);
}

void serve_props(exchange *x)
{
    const server *s = x->server;
    const char *source = qn_chat_template_source(s->o.tmpl);
    exchange_reply_json(x, 200,
                        json_pack("{s:{s:i}, s:i, s:s, s:o, s:o, s:o, s:o, s:{s:b, s:b, s:b, s:b}, s:{s:b, s:b}, s:s}",
                                  "default_generation_settings", "n_ctx", server_n_ctx(s), "total_slots",
                                  s->batcher ? qn_batcher_n_parallel(s->batcher) : 0, "model_alias", s->o.model,
                                  "model_path", json_text(s->o.path, strlen(s->o.path)), "chat_template",
                                  json_text(source, strlen(source)), "bos_token",
                                  piece_json(s, qn_tokenizer_bos(s->tok)), "eos_token",
                                  piece_json(s, qn_tokenizer_eos(s->tok)), "chat_template_caps", "supports_tools",
                                  s->needs.tools, "supports_tool_calls", s->needs.calls, "supports_parallel_tool_calls",
                                  s->needs.several_calls, "supports_system_role", s->needs.system, "modalities",
                                  "vision", false, "audio", false, "build_info", qn_version()));
}

static void metric(text *t, const char *name, const char *kind, const char *help, double value)
{
    text_printf(t, "# HELP quern_%s %s\n# TYPE quern_%s %s\nquern_%s %.17g\n", name, help, name, kind, name, value);
}

void serve_metrics(exchange *x)
{
    server *s = x->server;
    qn_batcher_stats b = {0};
    text t = {0};
    if (s->batcher) qn_batcher_get_stats(s->batcher, &b);
    pthread_mutex_lock(&s->lock);
    const double n_exchanges = (double)s->n_exchanges;
    pthread_mutex_unlock(&s->lock);
#define COUNTER(field, help) metric(&t, #field "_total", "counter", help, (double)b.field);
#define GAUGE(field, help)   metric(&t, #field, "gauge", help, (double)b.field);
    metric(&t, "http_requests_total", "counter", "HTTP requests", (double)atomic_load(&s->n_served));
    metric(&t, "http_requests", "gauge", "HTTP requests under way", n_exchanges);
    COUNTER(n_requests, "answers asked of the model")
    COUNTER(n_ended, "of these, answers that ended, in whatever way")
    COUNTER(tokens_read, "tokens of prompts that were computed")
    COUNTER(tokens_reused, "tokens of prompts that were found in the cache")
    COUNTER(tokens_read_again, "tokens computed again after a stream was set back")
    COUNTER(tokens_generated, "tokens written")
    COUNTER(n_steps, "steps of the executor")
    COUNTER(n_set_backs, "times that a stream gave its cells back")
    COUNTER(n_evictions, "kept sequences given up for room")
    COUNTER(busy_seconds, "seconds spent in steps")
    GAUGE(n_streams, "answers being written")
    GAUGE(n_queued, "answers that wait for a stream")
    GAUGE(n_paused, "answers that wait for a slow reader")
    GAUGE(n_cells, "cells of the context")
    GAUGE(n_free_cells, "of these, cells that nothing holds")
    GAUGE(n_cached, "sequences kept")
    GAUGE(n_cached_tokens, "their tokens")
    GAUGE(decode_seconds, "what a step without prompts takes, moving average")
#undef COUNTER
#undef GAUGE
    exchange_reply_type(x, 200, "text/plain; version=0.0.4", &t);
}
