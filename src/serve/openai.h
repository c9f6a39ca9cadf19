/* SPDX-License-Identifier: MIT */
/* src/serve/openai.h -- what the files of OpenAI's dialect share. */
#ifndef QN_SERVE_OPENAI_H
#define QN_SERVE_OPENAI_H

#include "serve/answers.h"

#define OPENAI_NO_MEMORY \
    "{\"error\":{\"message\":\"out of memory\",\"type\":\"unavailable_error\",\"param\":null,\"code\":null}}"
/* {"error": {"message", "type", "param", "code"}} */
void openai_problem(text *out, const problem *p);
void openai_broken(answers *a, const problem *p);
void openai_done(answers *a); /* the line that ends a stream */
json_t *openai_usage(const answers *a);
/* Tools, tool_choice, parallel_tool_calls. */
bool openai_tools(ask *q, const fields *f);
/* Is a tool of that name among them? */
bool openai_has_tool(const ask *q, const char *name, const char *path, problem *p);
/* {"type": "text" | "json_object" | "json_schema", ..}: the schema into the ask. */
bool openai_format(ask *q, const json_t *format, const char *path, problem *p); /* path: stays */
/* "low" and so on. */
bool openai_effort(ask *q, const char *effort, const char *path, problem *p);
/* How a conversation is rendered: chat_template_kwargs, reasoning_effort, and what it ends with. */
bool openai_chat_shape(ask *q, const fields *f);
/* A call of an answer, as a message has it. */
json_t *openai_call(const tool_call *call);
/* JSON text of a value into malloc'ed memory. */
bool take_json(char **to, const json_t *value, problem *p);

extern const dialect openai_chat_dialect, openai_completions_dialect;

#endif
