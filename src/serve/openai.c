/* SPDX-License-Identifier: MIT */
/* src/serve/openai.c -- what OpenAI's endpoints share: problems, usage, tools, formats. */
#include "serve/openai.h"
#include <stdlib.h>
#include <string.h>

static json_t *problem_json(const problem *p)
{
    return json_pack("{s:{s:o, s:s, s:o, s:o}}", "error", "message", problem_message(p), "type",
                     problem_openai_type(p->status), "param",
                     *p->field ? json_text(p->field, strlen(p->field)) : json_null(), "code",
                     *p->code ? json_string(p->code) : json_null());
}

void openai_problem(text *out, const problem *p) { text_json(out, problem_json(p)); }

void openai_broken(answers *a, const problem *p) { answers_event_out(a, NULL, problem_json(p)); }

/* Not where something before it was lost: the stream is broken, then. */
void openai_done(answers *a)
{
    if (!text_is_short()) exchange_put(a->x, "data: [DONE]\n\n", 14);
}

json_t *openai_usage(const answers *a)
{
    int n = 0, n_reasoning = 0, n_cached = 0;
    for (int i = 0; i < a->n; i++) {
        n += a->choices[i].n_tokens;
        n_reasoning += a->choices[i].n_reasoning;
        if (i % a->q.n == 0) n_cached += a->choices[i].used.n_cached; /* a prompt is counted once */
    }
    return json_pack("{s:I, s:i, s:I, s:{s:i}, s:{s:i}}", "prompt_tokens", (json_int_t)a->n_prompt, "completion_tokens",
                     n, "total_tokens", (json_int_t)a->n_prompt + n, "prompt_tokens_details", "cached_tokens", n_cached,
                     "completion_tokens_details", "reasoning_tokens", n_reasoning);
}

bool take_json(char **to, const json_t *value, problem *p)
{
    free(*to);
    *to = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return *to || problem_set(p, 503, "", "out of memory");
}

/* ---- tools ---- */

bool openai_has_tool(const ask *q, const char *name, const char *path, problem *p)
{
    const json_t *tool;
    size_t i;
    json_array_foreach(q->tools, i, tool)
    {
        const char *known = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (known && strcmp(known, name) == 0) return true;
    }
    return problem_set(p, 400, path, "there is no tool \"%.60s\"", name);
}

static const char *name_of(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"); /* Responses has none */
    return json_string_value(json_object_get(function ? function : tool, "name"));
}

/* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, or mode and tools beside the type as Responses has
 * it: the model knows of no others. */
static bool allow_tools(ask *q, const fields *f, const json_t *wanted)
{
    const json_t *inside = json_object_get(wanted, "allowed_tools"), *tool, *other;
    const char *base = inside ? "tool_choice.allowed_tools" : "tool_choice";
    const fields of = {inside ? inside : wanted, base, f->p};
    const json_t *tools = field_array(&of, "tools");
    json_t *list = json_array();
    char path[80];
    size_t i, k;
    if (!tools && !f->p->status) field_wrong(&of, "tools", "a list of tools");
    json_array_foreach(tools, i, tool)
    {
        const char *name = name_of(tool);
        snprintf(path, sizeof(path), "%s.tools[%zu]", base, i);
        if (!name || !openai_has_tool(q, name, path, f->p)) {
            problem_set(f->p, 400, path, "the tool's name is missing");
            break;
        }
        json_array_foreach(q->tools, k, other)
        {
            if (strcmp(name, name_of(other)) == 0) json_array_append(list, (json_t *)other);
        }
    }
    json_decref(q->tools);
    q->tools = list;
    q->tool_choice = "auto";
    (void)field_string(&of, "mode", &q->tool_choice);
    if (f->p->status) return false;
    if (strcmp(q->tool_choice, "auto") == 0 || strcmp(q->tool_choice, "required") == 0) return true;
    snprintf(path, sizeof(path), "%s.mode", base);
    return problem_set(f->p, 400, path, "\"%.40s\" is none of auto, required", q->tool_choice);
}

static bool choose_tool(ask *q, const fields *f, const json_t *wanted)
{
    const fields inner = {wanted, "tool_choice", f->p};
    const json_t *function = field_object(&inner, "function");
    const fields of = {function, "tool_choice.function", f->p};
    const char *type = NULL, *name = NULL;
    if (f->p->status) return false;
    (void)field_string(&inner, "type", &type);
    if (type && strcmp(type, "allowed_tools") == 0) return allow_tools(q, f, wanted);
    if (function)
        (void)field_string(&of, "name", &name);
    else
        (void)field_string(&inner, "name", &name); /* as Responses has it */
    if (f->p->status) return false;
    if (type && strcmp(type, "function") != 0)
        return problem_set(f->p, 400, "tool_choice.type", "\"%.40s\" is none of function, allowed_tools", type);
    if (!name) return problem_set(f->p, 400, "tool_choice.function.name", "the tool's name is missing");
    q->tool_choice = name;
    return openai_has_tool(q, name, function ? "tool_choice.function.name" : "tool_choice.name", f->p);
}

bool openai_tools(ask *q, const fields *f)
{
    static const char *const words[] = {"auto", "none", "required"};
    const json_t *tools = field_array(f, "tools"), *wanted = field_get(f, "tool_choice"), *tool;
    bool parallel = true;
    size_t i;
    if (f->p->status) return false;
    json_array_foreach(tools, i, tool)
    {
        char path[48];
        const char *type = json_string_value(json_object_get(tool, "type"));
        snprintf(path, sizeof(path), "tools[%zu].type", i);
        if (type && strcmp(type, "function") != 0)
            return problem_set(f->p, 400, path, "\"%.40s\" is none of function", type);
    }
    if (json_array_size(tools)) q->tools = json_incref((json_t *)tools);
    if (field_bool(f, "parallel_tool_calls", &parallel)) q->single_call = !parallel;
    if (f->p->status || !wanted) return !f->p->status;
    if (json_is_object(wanted)) return choose_tool(q, f, wanted);
    if (!field_string(f, "tool_choice", &q->tool_choice)) return false;
    for (i = 0; i < 3 && strcmp(words[i], q->tool_choice) != 0; i++) {}
    if (i == 3)
        return problem_set(f->p, 400, "tool_choice", "\"%.40s\" is none of auto, none, required", q->tool_choice);
    if (!q->tools && strcmp(q->tool_choice, "required") == 0)
        return problem_set(f->p, 400, "tool_choice", "required, but there are no tools");
    return true;
}

json_t *openai_call(const tool_call *call)
{
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", call->id, "type", "function", "function", "name", call->name,
                     "arguments", json_text(call->arguments.data, call->arguments.n));
}

/* ---- formats ---- */

bool openai_format(ask *q, const json_t *format, const char *path, problem *p)
{
    char inner[96];
    const char *type = NULL;
    const fields f = {format, path, p};
    if (!json_is_object(format))
        return problem_set(p, 400, path, "found %s, expected an object", json_type_name(format));
    if (!field_string(&f, "type", &type)) return p->status ? false : field_wrong(&f, "type", "text");
    const json_t *schema = field_get(&f, "schema");
    if (strcmp(type, "text") == 0) return true;
    if (strcmp(type, "json_object") == 0) { /* llama-server takes a schema here */
        if (schema) return ask_schema(q, schema, path, p);
        free(q->schema);
        q->schema_field = path;
        q->schema = strdup("{\"type\":\"object\"}");
        return q->schema || problem_set(p, 503, "", "out of memory");
    }
    snprintf(inner, sizeof(inner), "%s.type", path);
    if (strcmp(type, "json_schema") != 0)
        return problem_set(p, 400, inner, "\"%.40s\" is none of text, json_object, json_schema", type);
    const json_t *wrapped = field_object(&f, "json_schema");
    if (p->status) return false;
    if (wrapped) schema = json_object_get(wrapped, "schema");
    snprintf(inner, sizeof(inner), "%s.json_schema.schema", path);
    if (!schema) return problem_set(p, 400, inner, "the schema is missing");
    if (!ask_schema(q, schema, path, p)) return false;
    q->schema_loose = json_is_false(json_object_get(wrapped ? wrapped : format, "strict"));
    return true;
}

bool openai_effort(ask *q, const char *effort, const char *path, problem *p)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    enum { N = sizeof(words) / sizeof(words[0]) };
    size_t i = 0;
    while (i < N && strcmp(words[i], effort) != 0) i++;
    if (i == N)
        return problem_set(p, 400, path, "\"%.40s\" is none of none, minimal, low, medium, high, xhigh, max", effort);
    q->chat.thinking = i == 0 ? -1 : 1;
    /* templates know three */
    q->chat.reasoning_effort = i == 0 ? NULL : i < 3 ? "low" : i == 3 ? "medium" : "high";
    return true;
}
