/* SPDX-License-Identifier: MIT */
/* src/serve/responses_store.c -- the last responses, as JSON text: GET /v1/responses/ID, DELETE, and what goes on. */
#include "serve/responses.h"
#include "serve/routes.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, MOST_BYTES = 64 << 20 };

struct stored {
    stored *next; /* the older */
    char id[48], key[24];
    char *response, *messages;
    size_t bytes;
};

static void release(stored *r)
{
    free(r->response);
    free(r->messages);
    free(r);
}

/* Under lock: the oldest go until there is room. */
static void trim(server *s)
{
    size_t bytes = 0;
    int n = 0;
    stored **at = &s->responses;
    while (*at && ++n <= MOST && (bytes += (*at)->bytes) <= MOST_BYTES) at = &(*at)->next;
    while (*at) {
        stored *old = *at;
        *at = old->next;
        release(old);
    }
}

void responses_keep(server *s, const char *key, const char *id, json_t *response, json_t *messages)
{
    stored *r = calloc(1, sizeof(*r));
    if (r) {
        snprintf(r->id, sizeof(r->id), "%s", id);
        snprintf(r->key, sizeof(r->key), "%s", key);
        r->response = json_dumps(response, JSON_COMPACT);
        r->messages = json_dumps(messages, JSON_COMPACT);
    }
    json_decref(response);
    json_decref(messages);
    if (!r || !r->response || !r->messages) { /* it cannot be gone on with, which is said then */
        if (r) release(r);
        return;
    }
    r->bytes = strlen(r->response) + strlen(r->messages);
    pthread_mutex_lock(&s->responses_lock);
    r->next = s->responses;
    s->responses = r;
    trim(s);
    pthread_mutex_unlock(&s->responses_lock);
}

/* Under lock. */
static stored **find(server *s, const char *key, const char *id)
{
    stored **at = &s->responses;
    while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->key, key) != 0)) at = &(*at)->next;
    return at;
}

json_t *responses_find(server *s, const char *key, const char *id, bool messages)
{
    json_t *value = NULL;
    pthread_mutex_lock(&s->responses_lock);
    const stored *r = *find(s, key, id);
    if (r) value = json_loads(messages ? r->messages : r->response, JSON_ALLOW_NUL, NULL);
    pthread_mutex_unlock(&s->responses_lock);
    return value;
}

static json_t *item_of(json_t *response, const char *id)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(response, "output"), i, item)
    {
        const char *own = json_string_value(json_object_get(item, "id"));
        if (own && strcmp(own, id) == 0) return json_incref((json_t *)item);
    }
    return NULL;
}

json_t *responses_item(server *s, const char *key, const char *id)
{
    json_t *item = NULL;
    pthread_mutex_lock(&s->responses_lock);
    for (const stored *r = s->responses; r && !item; r = r->next) {
        if (strcmp(r->key, key) != 0 || !strstr(r->response, id)) continue;
        json_t *response = json_loads(r->response, JSON_ALLOW_NUL, NULL);
        item = item_of(response, id);
        json_decref(response);
    }
    pthread_mutex_unlock(&s->responses_lock);
    return item;
}

bool responses_drop(server *s, const char *key, const char *id)
{
    pthread_mutex_lock(&s->responses_lock);
    stored **at = find(s, key, id), *r = *at;
    if (r) *at = r->next;
    pthread_mutex_unlock(&s->responses_lock);
    if (r) release(r);
    return r != NULL;
}

void responses_deinit(server *s)
{
    while (s->responses) {
        stored *r = s->responses;
        s->responses = r->next;
        release(r);
    }
}

/* ---- endpoints ---- */

static void not_here(exchange *x)
{
    problem p = {0};
    problem_set(&p, 404, "response_id", "there is no response \"%.60s\"; the last %d are kept", x->rest, MOST);
    exchange_refuse(x, &p);
}

void serve_get_response(exchange *x)
{
    json_t *response = responses_find(x->server, x->key, x->rest, false);
    if (response)
        exchange_reply_json(x, 200, response);
    else
        not_here(x);
}

/* The answers under way of that id, held; NULL: none. */
static exchange *under_way(server *s, const char *key, const char *id)
{
    exchange *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (exchange *x = s->exchanges; x && !found; x = x->next) {
        pthread_mutex_lock(&x->lock);
        const answers *a = x->answers;
        if (a && strcmp(x->response_id, id) == 0 && strcmp(x->key, key) == 0 && exchange_try_hold(x)) found = x;
        pthread_mutex_unlock(&x->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* POST /v1/responses/ID/cancel: one that is being written ends with what there is, for its client too. */
void serve_cancel_response(exchange *x)
{
    char id[48];
    problem p = {0};
    const size_t n = strcspn(x->rest, "/");
    if (strcmp(x->rest + n, "/cancel") != 0 || n >= sizeof(id)) {
        problem_set(&p, 404, "", "there is no %.200s here", x->path);
        exchange_refuse(x, &p);
        return;
    }
    memcpy(id, x->rest, n);
    id[n] = '\0';
    json_t *response = responses_find(x->server, x->key, id, false); /* kept before its client hears of the end */
    exchange *other = response ? NULL : under_way(x->server, x->key, id);
    const bool stopped = other && answers_stop(other->answers);
    if (other) exchange_release(other);
    if (stopped) {
        exchange_reply_json(x, 200,
                            json_pack("{s:s, s:s, s:s}", "id", id, "object", "response", "status", "cancelled"));
    } else if (response || other) {
        const char *status = json_string_value(json_object_get(response, "status"));
        problem_set(&p, 400, "response_id", "the response is over%s%s", status ? ": its status is " : "",
                    status ? status : "");
        exchange_refuse(x, &p);
    } else {
        problem_set(&p, 404, "response_id", "there is no response \"%.60s\"; the last %d are kept", id, MOST);
        exchange_refuse(x, &p);
    }
    json_decref(response);
}

void serve_delete_response(exchange *x)
{
    if (responses_drop(x->server, x->key, x->rest))
        exchange_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", x->rest, "object", "response", "deleted", true));
    else
        not_here(x);
}
