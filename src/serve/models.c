/* SPDX-License-Identifier: MIT */
/* src/serve/models.c -- GET /health, /v1/models, /slots: whether we live, what we have, and what goes on. None of it
 * waits for a step. */
#include "serve/routes.h"
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>

void serve_health(exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

static json_t *model_json(const server *s)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:i, s:i, s:i, s:I, s:I}}", "id", s->o.model, "object", "model",
                     "created", (json_int_t)s->started_s, "owned_by", "quern", "meta", "n_vocab", s->info.n_vocab,
                     "n_ctx_train", s->info.n_ctx_train, "n_embd", s->info.n_embd, "n_params",
                     (json_int_t)s->info.n_params, "size", (json_int_t)s->info.weight_bytes);
}

void serve_models(exchange *x)
{
    exchange_reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(x->server)));
}

void serve_model(exchange *x)
{
    problem p = {0};
    if (strcmp(x->rest, x->server->o.model) == 0) {
        exchange_reply_json(x, 200, model_json(x->server));
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
                     qn_batcher_n_ctx(s->batcher), "n_prompt_tokens", i->usage.n_prompt, "n_prompt_tokens_read",
                     i->usage.n_read, "n_prompt_tokens_cached", i->usage.n_cached, "n_decoded", i->usage.n_generated,
                     "n_set_back", i->usage.n_set_back, "queue_ms", (double)i->usage.queue_ns * 1e-6, "prompt_ms",
                     (double)i->usage.read_ns * 1e-6, "predicted_ms", (double)i->usage.generate_ns * 1e-6);
}

void serve_slots(exchange *x)
{
    enum { MOST = 1024 };
    qn_batch_info *infos = calloc(MOST, sizeof(*infos));
    json_t *list = json_array();
    const int32_t n = infos ? qn_batcher_list(x->server->batcher, infos, MOST) : 0;
    for (int32_t i = 0; i < n && i < MOST; i++) json_array_append_new(list, slot_json(x->server, &infos[i]));
    free(infos);
    exchange_reply_json(x, 200, list);
}
