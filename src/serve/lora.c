/* SPDX-License-Identifier: MIT */
/* src/serve/lora.c -- a model's adapters: by how much each acts, for requests that do not say and for one that does.
 * Their numbers are those of GET /lora-adapters: the model's own first, then those of --lora. */
#include "serve/answers.h"
#include "serve/routes.h"
#include <string.h>

enum { MOST_SCALE = 1000000 };

void ask_loras_init(ask *q, const exchange *x)
{
    model *m = x->model;
    pthread_mutex_lock(&m->server->models_lock);
    q->n_loras = m->n_loras;
    memcpy(q->loras, m->loras, sizeof(q->loras));
    pthread_mutex_unlock(&m->server->models_lock);
    const int named = m->n_adapters + x->adapter - 1;
    const float own = x->adapter ? m->server->o.loras[x->adapter - 1].scale : 0;
    for (int i = m->n_adapters; i < q->n_loras && x->adapter; i++) /* that one alone, beside the model's own */
        q->loras[i].scale = i != named ? 0 : own != 0 ? own : 1;   /* 0: of --lora-init-without-apply */
}

static bool read_one(const json_t *entry, const char *path, const model *m, float *scale, problem *p)
{
    int64_t id = 0;
    double s = 0;
    const fields f = {entry, path, p};
    if (!json_is_object(entry))
        return problem_set(p, 400, path, "found %s, expected an object of id and scale", json_type_name(entry));
    if (!field_integer(&f, "id", 0, INT32_MAX, &id)) return p->status ? false : field_wrong(&f, "id", "a number");
    if (!field_number(&f, "scale", -MOST_SCALE, MOST_SCALE, &s))
        return p->status ? false : field_wrong(&f, "scale", "a number");
    if (id < m->n_loras) {
        scale[id] = (float)s;
        return true;
    }
    char at[sizeof(p->field)];
    return problem_set(p, 400, field_path(&f, "id", at, sizeof(at)), "%s has %d adapters; there is no number %d",
                       m->name, m->n_loras, (int)id);
}

/* Those that are not in the list don't act. */
static bool read_list(const json_t *list, const char *path, const model *m, float *scale, problem *p)
{
    char at[64];
    for (int i = 0; i < QN_MAX_LORAS; i++) scale[i] = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(at, sizeof(at), "%s[%zu]", path, i);
        if (!read_one(json_array_get(list, i), at, m, scale, p)) return false;
    }
    return true;
}

bool ask_loras(ask *q, const model *m, const fields *f)
{
    float scale[QN_MAX_LORAS];
    const json_t *list = field_array(f, "lora");
    if (!json_array_size(list)) return !f->p->status;
    if (!read_list(list, "lora", m, scale, f->p)) return false;
    for (int i = 0; i < q->n_loras; i++) q->loras[i].scale = scale[i];
    return true;
}

/* ---- /lora-adapters ---- */

void serve_loras(exchange *x)
{
    model *m = x->model;
    json_t *list = json_array();
    pthread_mutex_lock(&m->server->models_lock);
    for (int i = 0; i < m->n_loras; i++) {
        const char *path = model_lora_path(m, i);
        json_array_append_new(list, json_pack("{s:i, s:o, s:f}", "id", i, "path", json_text(path, strlen(path)),
                                              "scale", (double)m->loras[i].scale));
    }
    pthread_mutex_unlock(&m->server->models_lock);
    exchange_reply_json(x, 200, list);
}

void serve_set_loras(exchange *x)
{
    problem p = {0};
    float scale[QN_MAX_LORAS];
    model *m = x->model;
    json_t *list = exchange_parse_list(x, &p);
    if (list && read_list(list, "", m, scale, &p)) {
        pthread_mutex_lock(&m->server->models_lock);
        for (int i = 0; i < m->n_loras; i++) m->loras[i].scale = scale[i];
        pthread_mutex_unlock(&m->server->models_lock);
        exchange_reply_json(x, 200, json_pack("{s:b}", "success", true));
    }
    json_decref(list);
    if (p.status) exchange_refuse(x, &p);
}
