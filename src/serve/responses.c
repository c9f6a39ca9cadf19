/* SPDX-License-Identifier: MIT */
/* src/serve/responses.c -- POST /v1/responses and /v1/responses/input_tokens: items become a conversation. */
#include "serve/responses.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include <stdlib.h>
#include <string.h>

/* ---- items ---- */

static bool text_parts(text *out, const json_t *content, const char *path, problem *p)
{
    static const char *const known[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text"};
    const json_t *part;
    char inner[160];
    size_t i, k;
    if (json_is_string(content)) {
        text_put(out, json_string_value(content), json_string_length(content));
        return true;
    }
    if (!json_is_array(content))
        return problem_set(p, 400, path, "found %s, expected text or a list of parts",
                           content ? json_type_name(content) : "nothing");
    json_array_foreach(content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");
        for (k = 0; type && k < 5 && strcmp(known[k], type) != 0; k++) {}
        snprintf(inner, sizeof(inner), "%.120s[%zu].type", path, i);
        if (!type || k == 5)
            return problem_set(p, 400, inner, "\"%.40s\"; this model reads text alone", type ? type : "");
        if (json_is_string(words)) text_put(out, json_string_value(words), json_string_length(words));
    }
    return true;
}

static json_t *taken(text *t)
{
    json_t *value = t->failed ? NULL : json_stringn(t->data ? t->data : "", t->n);
    text_deinit(t);
    return value;
}

/* The turn of the assistant's that items of one belong to: the last message, or a new one. */
static json_t *assistant(json_t *messages)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role && strcmp(role, "assistant") == 0) return last;
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    return json_array_get(messages, json_array_size(messages) - 1);
}

static bool add_message(json_t *messages, const json_t *item, const char *path, problem *p)
{
    char inner[96];
    text t = {0};
    const json_t *role = json_object_get(item, "role");
    snprintf(inner, sizeof(inner), "%s.content", path);
    if (!text_parts(&t, json_object_get(item, "content"), inner, p)) {
        text_deinit(&t);
        return false;
    }
    snprintf(inner, sizeof(inner), "%s.role", path);
    if (!json_is_string(role)) {
        text_deinit(&t);
        return problem_set(p, 400, inner, "the role is missing");
    }
    json_t *turn = NULL;
    if (strcmp(json_string_value(role), "assistant") == 0) turn = assistant(messages);
    if (turn && !json_string_length(json_object_get(turn, "content")))
        return json_object_set_new(turn, "content", taken(&t)) == 0 || problem_set(p, 503, "", "out of memory");
    return json_array_append_new(messages, json_pack("{s:O, s:o}", "role", role, "content", taken(&t))) == 0 ||
           problem_set(p, 503, "", "out of memory");
}

/* A custom tool is a function of one text here. */
static bool add_call(json_t *messages, const json_t *item, bool custom, const char *path, problem *p)
{
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    const json_t *arguments = json_object_get(item, custom ? "input" : "arguments");
    char *wrapped = NULL;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return problem_set(p, 400, path, "a call needs call_id, name and %s", custom ? "input" : "arguments");
    if (custom) {
        json_t *o = json_pack("{s:O}", "input", arguments);
        wrapped = o ? json_dumps(o, JSON_COMPACT) : NULL;
        json_decref(o);
    }
    json_t *turn = assistant(messages), *calls = json_object_get(turn, "tool_calls");
    if (!calls) {
        json_object_set_new(turn, "tool_calls", json_array());
        calls = json_object_get(turn, "tool_calls");
    }
    json_array_append_new(calls,
                          json_pack("{s:O, s:s, s:{s:O, s:s}}", "id", id, "type", "function", "function", "name", name,
                                    "arguments", custom ? (wrapped ? wrapped : "{}") : json_string_value(arguments)));
    free(wrapped);
    return true;
}

static bool add_output(json_t *messages, const json_t *item, const char *path, problem *p)
{
    char inner[96];
    text t = {0};
    const json_t *id = json_object_get(item, "call_id");
    snprintf(inner, sizeof(inner), "%s.output", path);
    if (!json_is_string(id)) return problem_set(p, 400, path, "the call's call_id is missing");
    if (!text_parts(&t, json_object_get(item, "output"), inner, p)) {
        text_deinit(&t);
        return false;
    }
    json_array_append_new(messages,
                          json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", taken(&t)));
    return true;
}

static bool add_reasoning(json_t *messages, const json_t *item, const char *path, problem *p)
{
    text t = {0};
    const json_t *content = json_object_get(item, "content");
    if (!json_is_array(content)) content = json_object_get(item, "summary");
    if (json_is_array(content) && !text_parts(&t, content, path, p)) {
        text_deinit(&t);
        return false;
    }
    if (t.n)
        json_array_append_new(messages, json_pack("{s:s, s:s, s:o}", "role", "assistant", "content", "",
                                                  "reasoning_content", taken(&t)));
    text_deinit(&t);
    return true;
}

static bool add_item(json_t *messages, const json_t *item, const char *path, problem *p)
{
    char inner[64];
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!json_is_object(item)) return problem_set(p, 400, path, "found %s, expected an item", json_type_name(item));
    if (!type || strcmp(type, "message") == 0) return add_message(messages, item, path, p);
    if (strcmp(type, "function_call") == 0) return add_call(messages, item, false, path, p);
    if (strcmp(type, "custom_tool_call") == 0) return add_call(messages, item, true, path, p);
    if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0)
        return add_output(messages, item, path, p);
    if (strcmp(type, "reasoning") == 0) return add_reasoning(messages, item, path, p);
    snprintf(inner, sizeof(inner), "%s.type", path);
    return problem_set(
        p, 400, inner,
        "\"%.40s\" is none of message, reasoning, function_call, function_call_output, custom_tool_call, "
        "custom_tool_call_output, item_reference",
        type);
}

/* One that an earlier response gave. */
static bool add_reference(json_t *messages, const json_t *item, exchange *x, const char *path, problem *p)
{
    char inner[64];
    const char *id = json_string_value(json_object_get(item, "id"));
    snprintf(inner, sizeof(inner), "%s.id", path);
    if (!id || !*id) return problem_set(p, 400, inner, "the item's id is missing");
    json_t *found = responses_item(x->server, x->key, id);
    if (!found) return problem_set(p, 404, inner, "no response that is kept has an item \"%.60s\"", id);
    const bool good = add_item(messages, found, path, p);
    json_decref(found);
    return good;
}

static bool read_input(ask *q, exchange *x, const fields *f)
{
    const json_t *input = field_get(f, "input"), *item;
    const char *previous = NULL, *instructions = NULL;
    char path[32];
    size_t i;
    json_t *messages = NULL;
    if (field_string(f, "previous_response_id", &previous)) {
        messages = responses_find(x->server, x->key, previous, true);
        if (!messages)
            return problem_set(f->p, 404, "previous_response_id", "there is no response \"%.60s\"", previous);
    }
    if (!messages) messages = json_array();
    if (f->p->status) {
        json_decref(messages);
        return false;
    }
    if (json_is_string(input)) {
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    } else if (json_is_array(input)) {
        json_array_foreach(input, i, item)
        {
            snprintf(path, sizeof(path), "input[%zu]", i);
            const char *type = json_string_value(json_object_get(item, "type"));
            const bool refers = type && strcmp(type, "item_reference") == 0;
            if (!(refers ? add_reference(messages, item, x, path, f->p) : add_item(messages, item, path, f->p))) break;
        }
    } else {
        field_wrong(f, "input", "text or a list of items");
    }
    json_object_set_new(q->own, "history", messages);
    q->prompt_field = "input";
    q->messages = json_array();
    if (field_string(f, "instructions", &instructions))
        json_array_append_new(q->messages, json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    json_array_extend(q->messages, messages);
    return f->p->status == 0;
}

/* ---- tools ---- */

static json_t *function_of(const json_t *tool, bool custom)
{
    const json_t *description = json_object_get(tool, "description"), *strict = json_object_get(tool, "strict");
    json_t *function = json_pack("{s:O}", "name", json_object_get(tool, "name"));
    if (json_is_string(description)) json_object_set(function, "description", (json_t *)description);
    if (custom) {
        json_object_set_new(function, "parameters",
                            json_pack("{s:s, s:{s:{s:s}}, s:[s], s:b}", "type", "object", "properties", "input", "type",
                                      "string", "required", "input", "additionalProperties", false));
    } else {
        if (json_object_get(tool, "parameters"))
            json_object_set(function, "parameters", json_object_get(tool, "parameters"));
        if (json_is_boolean(strict)) json_object_set(function, "strict", (json_t *)strict);
    }
    return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

static bool read_tools(ask *q, exchange *x, const fields *f)
{
    const json_t *tools = field_array(f, "tools"), *tool, *wanted = field_get(f, "tool_choice");
    json_t *list = json_array(), *custom = json_object();
    char path[48];
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type")),
                   *name = json_string_value(json_object_get(tool, "name"));
        const bool is_custom = type && strcmp(type, "custom") == 0;
        snprintf(path, sizeof(path), "tools[%zu]", i);
        if (!type) {
            problem_set(f->p, 400, path, "a tool without a type");
        } else if (!is_custom && strcmp(type, "function") != 0) {
            exchange_leaves_out(x, path, type); /* the service's own */
        } else if (!name) {
            problem_set(f->p, 400, path, "a tool without a name");
        } else {
            json_array_append_new(list, function_of(tool, is_custom));
            if (is_custom) json_object_set_new(custom, name, json_true());
        }
    }
    json_object_set_new(q->own, "custom", custom);
    json_t *as_chat = json_pack("{s:o}", "tools", list);
    if (wanted) json_object_set(as_chat, "tool_choice", (json_t *)wanted);
    json_object_set_new(q->own, "as_chat", as_chat); /* borrowed from until the end */
    const fields of = {as_chat, "", f->p};
    bool parallel = true;
    if (json_is_object(wanted) && json_is_string(json_object_get(wanted, "name"))) {
        q->tool_choice = json_string_value(json_object_get(wanted, "name"));
        json_object_del(as_chat, "tool_choice");
    }
    if (f->p->status) return false;
    const char *forced = q->tool_choice;
    if (!openai_tools(q, &of)) return false;
    if (forced && !openai_has_tool(q, forced, "tool_choice.name", f->p)) return false;
    if (forced) q->tool_choice = forced;
    if (field_bool(f, "parallel_tool_calls", &parallel)) q->single_call = !parallel;
    return f->p->status == 0;
}

/* ---- the rest ---- */

/* OpenAI's bounds: it comes back with each event that shows the response. */
static bool check_metadata(const fields *f)
{
    enum { PAIRS = 16, KEY = 64, VALUE = 512 };
    const json_t *o = field_object(f, "metadata"), *value;
    const char *key;
    if (json_object_size(o) > PAIRS)
        return problem_set(f->p, 400, "metadata", "%zu pairs; %d are possible", json_object_size(o), PAIRS);
    json_object_foreach((json_t *)o, key, value)
    {
        if (strlen(key) > KEY || !json_is_string(value) || json_string_length(value) > 4 * VALUE)
            return problem_set(f->p, 400, "metadata", "keys are texts of up to %d bytes, values of up to %d characters",
                               KEY, VALUE);
    }
    return f->p->status == 0;
}

static bool read_rest(ask *q, const fields *f)
{
    const json_t *format = field_object(f, "text"), *reasoning = field_object(f, "reasoning"), *word;
    const fields of = {reasoning, "reasoning", f->p};
    const char *effort;
    bool background = false;
    int64_t n;
    size_t i;
    if (field_integer(f, "max_output_tokens", 1, INT32_MAX, &n)) q->max_tokens = (int)n;
    (void)field_bool(f, "stream", &q->stream);
    if (!check_metadata(f)) return false;
    if (field_bool(f, "background", &background) && background)
        return problem_set(f->p, 400, "background", "this server answers while the client waits");
    if (reasoning && field_string(&of, "effort", &effort) && !openai_effort(q, effort, "reasoning.effort", f->p))
        return false;
    json_array_foreach(field_array(f, "include"), i, word)
    {
        if (json_is_string(word) && strcmp(json_string_value(word), "message.output_text.logprobs") == 0)
            q->logprobs = true;
    }
    if (field_integer(f, "top_logprobs", 0, QN_BATCH_MAX_TOP, &n)) q->n_top = (int)n;
    const fields of_text = {format, "text", f->p};
    if (format) format = field_get(&of_text, "format");
    return f->p->status == 0 && (!format || openai_format(q, format, "text.format", f->p));
}

/* What is given back as it was. */
static void note_request(ask *q)
{
    static const char *const names[] = {"instructions",
                                        "max_output_tokens",
                                        "metadata",
                                        "parallel_tool_calls",
                                        "previous_response_id",
                                        "reasoning",
                                        "store",
                                        "temperature",
                                        "text",
                                        "tool_choice",
                                        "tools",
                                        "top_p",
                                        "truncation",
                                        "user"};
    json_t *o =
        json_pack("{s:n, s:n, s:{}, s:b, s:n, s:{s:n, s:n}, s:b, s:n, s:{s:{s:s}}, s:s, s:[], s:n, s:s, s:n}",
                  "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", true, "previous_response_id",
                  "reasoning", "effort", "summary", "store", true, "temperature", "text", "format", "type", "text",
                  "tool_choice", "auto", "tools", "top_p", "truncation", "disabled", "user");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(q->body, names[i]);
        if (value && !json_is_null(value)) json_object_set(o, names[i], (json_t *)value);
    }
    json_object_set_new(q->own, "request", o);
}

static bool read_ask(ask *q, exchange *x, problem *p)
{
    q->body = exchange_parse(x, p);
    q->own = json_object();
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    note_request(q);
    return read_input(q, x, &f) && read_tools(q, x, &f) && read_rest(q, &f) && ask_sampling(q, &f);
}

void serve_responses(exchange *x) { ask_serve(x, read_ask); }

void serve_response_tokens(exchange *x)
{
    ask q;
    problem p = {0};
    qn_prompt prompt = {0};
    ask_init(&q, x);
    if (read_ask(&q, x, &p) && ask_prompt(&q, x->model, &prompt, &p))
        exchange_reply_json(x, 200,
                            json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens",
                                      (json_int_t)q.prompts[0].n));
    else
        exchange_refuse(x, &p);
    qn_prompt_deinit(&prompt);
    ask_deinit(&q);
}
