/* SPDX-License-Identifier: MIT */
/* quern/messages.h -- a conversation as it grows: a list of messages, each a JSON object as OpenAI's clients have them.
 *
 *     qn_messages *m; char *json;
 *     qn_messages_create(&m, &err);
 *     qn_messages_add(m, "system", "You are brief.", &err);
 *     qn_messages_add(m, "user", "What is the time?", &err);
 *     qn_messages_json(m, 0, &json, &err);               // for qn_chat_render
 *     qn_messages_add_json(m, answer, &err);             // what a reader made of the model's tokens
 *     qn_messages_add_result(m, call_id, "12:30", &err); // of a tool that it called
 *
 * A list is used by one thread at a time. What fails leaves it as it was. */
#ifndef QUERN_MESSAGES_H
#define QUERN_MESSAGES_H

#include <quern/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_messages qn_messages;

QN_API qn_status qn_messages_create(qn_messages **out, qn_error *err);
QN_API void qn_messages_destroy(qn_messages *m);

/* {"role": role, "content": text}. Bytes that are no UTF-8 become U+FFFD. */
QN_API qn_status qn_messages_add(qn_messages *m, const char *role, const char *text, qn_error *err);
/* {"role": "tool", "tool_call_id": id, "content": text}: what a tool gave. id NULL: without one. */
QN_API qn_status qn_messages_add_result(qn_messages *m, const char *id, const char *text, qn_error *err);
/* One message, or an array of them, all or none: hostile until checked. invalid with the place, "messages[2].role: ..".
 * Members that no template knows are kept. */
QN_API qn_status qn_messages_add_json(qn_messages *m, const char *json, qn_error *err);
/* Puts one message in the place of the i-th. */
QN_API qn_status qn_messages_set(qn_messages *m, size_t i, const char *role, const char *text, qn_error *err);
QN_API void qn_messages_truncate(qn_messages *m, size_t n); /* keeps the first n */

QN_API size_t qn_messages_count(const qn_messages *m);
/* Both borrowed until the list changes; NULL past the end. */
QN_API const char *qn_messages_role(const qn_messages *m, size_t i);
QN_API const char *qn_messages_get(const qn_messages *m, size_t i); /* one message's JSON, a line */
/* The list as a JSON array, without the messages before `first` that don't belong to the system turns at its beginning:
 * how the oldest turns are left out of what a model reads. *out is freed with qn_free. */
QN_API qn_status qn_messages_json(const qn_messages *m, size_t first, char **out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
