/* SPDX-License-Identifier: MIT */
/* src/serve/responses.h -- OpenAI's Responses: responses.c reads them, responses_write.c writes them, responses_store.c
 * keeps the last ones, for GET and previous_response_id. */
#ifndef QN_SERVE_RESPONSES_H
#define QN_SERVE_RESPONSES_H

#include "serve/answers.h"

/* ---- the store: bounded in number and bytes, the oldest go first; each belongs to the key that made it ---- */
/* Takes both references: the response, and the conversation with its answer. */
void responses_keep(server *s, const char *key, const char *id, json_t *response, json_t *messages);
/* A deep copy of the response, or of the conversation; NULL where there is none. */
json_t *responses_find(server *s, const char *key, const char *id, bool messages);
/* An item of one of them, by its own id. */
json_t *responses_item(server *s, const char *key, const char *id);
bool responses_drop(server *s, const char *key, const char *id);
void responses_deinit(server *s);

/* ask.own of this dialect: {"request": what is given back of the request, "custom": {NAME: true}, "history": messages
 * without the instructions} */
extern const dialect responses_dialect;

#endif
