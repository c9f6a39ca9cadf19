/* SPDX-License-Identifier: MIT */
/* src/serve/anthropic.c -- POST /v1/messages and /v1/messages/count_tokens: Anthropic's requests become conversations
 * in OpenAI's form. */
#include "serve/anthropic.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include <stdlib.h>
#include <string.h>

/* ---- content ---- */

static bool unknown(problem *p, const char *path, const char *type, const char *known)
{
    char field[192];
    snprintf(field, sizeof(field), "%.180s.type", path);
    return problem_set(p, 400, field, "\"%.40s\" is none of %s", type ? type : "", known);
}

static bool is_type(const char *type, const char *wanted) { return type && strcmp(type, wanted) == 0; }

static void put_member(text *out, const json_t *block, const char *name, const char *behind)
{
    const json_t *words = json_object_get(block, name);
    if (!json_string_length(words)) return;
    text_put(out, json_string_value(words), json_string_length(words));
    text_puts(out, behind);
}

#define TEXT_BLOCKS "text, document, search_result, tool_reference"
static bool text_of(text *out, const json_t *content, const char *path, problem *p);

/* A document is given as text, or as blocks of it. */
static bool put_document(text *out, const json_t *block, const char *path, problem *p)
{
    char inner[192];
    const json_t *source = json_object_get(block, "source");
    const char *type = json_string_value(json_object_get(source, "type"));
    snprintf(inner, sizeof(inner), "%.170s.source", path);
    put_member(out, block, "title", "\n\n");
    put_member(out, block, "context", "\n\n");
    if (is_type(type, "content")) return text_of(out, json_object_get(source, "content"), inner, p);
    if (!is_type(type, "text")) return unknown(p, inner, type, "text, content");
    put_member(out, source, "data", "");
    return true;
}

/* What of a block is text to a model. */
static bool put_block(text *out, const json_t *block, const char *path, problem *p)
{
    char inner[192];
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *words = json_object_get(block, "text");
    snprintf(inner, sizeof(inner), "%.170s.content", path);
    if (is_type(type, "document")) return put_document(out, block, path, p);
    if (is_type(type, "tool_reference")) {
        put_member(out, block, "tool_name", "");
    } else if (is_type(type, "search_result")) {
        put_member(out, block, "title", "\n");
        put_member(out, block, "source", "\n\n");
        return text_of(out, json_object_get(block, "content"), inner, p);
    } else if (!is_type(type, "text")) {
        return unknown(p, path, type, TEXT_BLOCKS);
    } else if (!json_is_string(words)) {
        return problem_set(p, 400, path, "a block without text");
    } else {
        text_put(out, json_string_value(words), json_string_length(words));
    }
    return true;
}

/* The text of blocks, or of a string, put to a buffer. */
static bool text_of(text *out, const json_t *content, const char *path, problem *p)
{
    const json_t *block;
    char inner[192];
    size_t i;
    if (json_is_string(content)) {
        text_put(out, json_string_value(content), json_string_length(content));
        return true;
    }
    if (!json_is_array(content))
        return problem_set(p, 400, path, "found %s, expected text or a list of blocks",
                           content ? json_type_name(content) : "nothing");
    json_array_foreach(content, i, block)
    {
        snprintf(inner, sizeof(inner), "%.160s[%zu]", path, i);
        if (!put_block(out, block, inner, p)) return false;
    }
    return true;
}

static json_t *taken(text *t)
{
    json_t *value = t->failed ? NULL : json_stringn(t->data ? t->data : "", t->n);
    text_deinit(t);
    return value;
}

/* A header of some clients that differs every turn: the prefix would never hold. */
static bool is_billing(const json_t *block)
{
    static const char header[] = "x-anthropic-billing-header:";
    const char *words = json_string_value(json_object_get(block, "text"));
    return words && strncmp(words, header, sizeof(header) - 1) == 0;
}

static bool add_system(json_t *messages, const json_t *system, const char *path, problem *p)
{
    const json_t *block;
    json_t *list = json_array();
    text t = {0};
    size_t i;
    json_array_foreach(system, i, block)
    {
        if (!is_billing(block)) json_array_append(list, (json_t *)block);
    }
    const bool good = text_of(&t, json_is_array(system) ? list : system, path, p);
    json_decref(list);
    if (good && t.n) {
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "system", "content", taken(&t)));
        return true;
    }
    text_deinit(&t);
    return good;
}

static bool add_result(json_t *messages, const json_t *block, const char *path, problem *p)
{
    char inner[192];
    text t = {0};
    const json_t *content = json_object_get(block, "content"), *id = json_object_get(block, "tool_use_id");
    snprintf(inner, sizeof(inner), "%.160s.tool_use_id", path);
    if (!json_is_string(id)) return problem_set(p, 400, inner, "the call's id is missing");
    snprintf(inner, sizeof(inner), "%.160s.content", path);
    if (content && !json_is_null(content) && !text_of(&t, content, inner, p)) {
        text_deinit(&t);
        return false;
    }
    json_array_append_new(messages,
                          json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", taken(&t)));
    return true;
}

static bool add_use(json_t *calls, const json_t *block, const char *path, problem *p)
{
    const json_t *name = json_object_get(block, "name"), *input = json_object_get(block, "input");
    const json_t *id = json_object_get(block, "id");
    char inner[192];
    snprintf(inner, sizeof(inner), "%.160s.name", path);
    if (!json_is_string(name)) return problem_set(p, 400, inner, "the tool's name is missing");
    char *arguments = input ? json_dumps(input, JSON_COMPACT) : strdup("{}");
    json_t *call = json_pack("{s:s, s:{s:O, s:s}}", "type", "function", "function", "name", name, "arguments",
                             arguments ? arguments : "{}");
    if (json_is_string(id)) json_object_set(call, "id", (json_t *)id);
    json_array_append_new(calls, call);
    free(arguments);
    return true;
}

/* One message of theirs is several of OpenAI's: results first, then what is said. */
typedef struct turn {
    text words, thoughts;
    json_t *calls;
} turn;

/* A call that Anthropic's server made and answered itself: of a conversation that was begun there. */
static bool is_of_server(const char *type)
{
    static const char end[] = "_tool_result";
    const size_t n = type ? strlen(type) : 0;
    return is_type(type, "server_tool_use") || (n >= sizeof(end) && strcmp(type + n - (sizeof(end) - 1), end) == 0);
}

static bool add_said(turn *t, const json_t *block, const char *path, exchange *x, problem *p)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *thoughts = json_object_get(block, "thinking");
    if (is_type(type, "text")) return put_block(&t->words, block, path, p);
    if (is_type(type, "tool_use")) return add_use(t->calls, block, path, p);
    if (is_type(type, "thinking") && json_is_string(thoughts))
        text_put(&t->thoughts, json_string_value(thoughts), json_string_length(thoughts));
    else if (is_of_server(type))
        exchange_leaves_out(x, path, type);
    else if (!is_type(type, "redacted_thinking"))
        return unknown(p, path, type, "text, tool_use, thinking, redacted_thinking");
    return true;
}

static bool add_asked(json_t *messages, turn *t, const json_t *block, const char *path, problem *p)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (is_type(type, "tool_result")) return add_result(messages, block, path, p);
    return put_block(&t->words, block, path, p);
}

static bool add_turn(json_t *messages, turn *t, bool user)
{
    const bool calls = json_array_size(t->calls) > 0, thoughts = t->thoughts.n > 0;
    if (user && !t->words.n) return true; /* results alone */
    json_t *m = json_pack("{s:s, s:o}", "role", user ? "user" : "assistant", "content", taken(&t->words));
    if (thoughts) json_object_set_new(m, "reasoning_content", taken(&t->thoughts));
    if (calls) json_object_set(m, "tool_calls", t->calls);
    return json_array_append_new(messages, m) == 0;
}

static bool add_message(json_t *messages, const json_t *message, const char *path, exchange *x, problem *p)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    char inner[192];
    size_t i;
    snprintf(inner, sizeof(inner), "%s.content", path);
    if (is_type(role, "system")) return add_system(messages, content, inner, p);
    turn t = {.calls = json_array()};
    const bool user = is_type(role, "user");
    snprintf(inner, sizeof(inner), "%s.role", path);
    bool good = user || is_type(role, "assistant") ||
                problem_set(p, 400, inner, "\"%.40s\" is none of user, assistant, system", role ? role : "");
    snprintf(inner, sizeof(inner), "%s.content", path);
    if (good && json_is_string(content)) {
        text_put(&t.words, json_string_value(content), json_string_length(content));
    } else if (good && !json_is_array(content)) {
        good = problem_set(p, 400, inner, "found %s, expected text or a list of blocks",
                           content ? json_type_name(content) : "nothing");
    } else if (good) {
        json_array_foreach(content, i, block)
        {
            snprintf(inner, sizeof(inner), "%.100s.content[%zu]", path, i);
            if (good) good = user ? add_asked(messages, &t, block, inner, p) : add_said(&t, block, inner, x, p);
        }
    }
    if (good && !add_turn(messages, &t, user)) good = problem_set(p, 503, "", "out of memory");
    text_deinit(&t.words);
    text_deinit(&t.thoughts);
    json_decref(t.calls);
    return good;
}

static bool read_messages(ask *q, exchange *x, const fields *f)
{
    const json_t *messages = field_array(f, "messages"), *system = field_get(f, "system"), *message;
    char path[48];
    size_t i;
    if (!messages) return f->p->status ? false : field_wrong(f, "messages", "a list of messages");
    q->messages = json_array();
    if (system && !add_system(q->messages, system, "system", f->p)) return false;
    json_array_foreach(messages, i, message)
    {
        snprintf(path, sizeof(path), "messages[%zu]", i);
        if (!add_message(q->messages, message, path, x, f->p)) return false;
    }
    /* a last turn of the assistant's is the beginning of the answer */
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role && strcmp(role, "assistant") == 0) q->chat.continue_final_message = q->chat.no_generation_prompt = true;
    return true;
}

/* ---- tools ---- */

static bool read_tools(ask *q, exchange *x, const fields *f)
{
    const json_t *tools = field_array(f, "tools"), *tool;
    char path[48];
    size_t i;
    if (json_array_size(tools) && !(q->tools = json_array())) return problem_set(f->p, 503, "", "out of memory");
    json_array_foreach(tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        const json_t *name = json_object_get(tool, "name"), *schema = json_object_get(tool, "input_schema");
        const json_t *description = json_object_get(tool, "description"), *strict = json_object_get(tool, "strict");
        snprintf(path, sizeof(path), "tools[%zu]", i);
        if (type && strcmp(type, "custom") != 0) {
            exchange_leaves_out(x, path, type);
            continue;
        }
        if (!json_is_string(name)) return problem_set(f->p, 400, path, "a tool without a name");
        json_t *function = json_pack("{s:O}", "name", name);
        if (json_is_string(description)) json_object_set(function, "description", (json_t *)description);
        if (schema) json_object_set(function, "parameters", (json_t *)schema);
        if (strict) json_object_set(function, "strict", (json_t *)strict);
        json_array_append_new(q->tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    if (q->tools && !json_array_size(q->tools)) {
        json_decref(q->tools); /* all were left out */
        q->tools = NULL;
    }
    return f->p->status == 0;
}

static bool read_choice(ask *q, const fields *f)
{
    const json_t *wanted = field_object(f, "tool_choice");
    const fields of = {wanted, "tool_choice", f->p};
    const char *type = NULL;
    if (!wanted) return f->p->status == 0;
    if (!field_string(&of, "type", &type)) return f->p->status ? false : field_wrong(&of, "type", "text");
    (void)field_bool(&of, "disable_parallel_tool_use", &q->single_call);
    if (strcmp(type, "any") == 0)
        q->tool_choice = "required";
    else if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        q->tool_choice = type;
    else if (strcmp(type, "tool") != 0)
        return unknown(f->p, "tool_choice", type, "auto, any, tool, none");
    else if (!field_string(&of, "name", &q->tool_choice))
        return f->p->status ? false : field_wrong(&of, "name", "the tool's name");
    if (!q->tools && strcmp(type, "auto") != 0 && strcmp(type, "none") != 0)
        return problem_set(f->p, 400, "tool_choice", "%s, but there are no tools", type);
    if (f->p->status) return false;
    return strcmp(type, "tool") != 0 || openai_has_tool(q, q->tool_choice, "tool_choice.name", f->p);
}

/* ---- the rest ---- */

static bool read_thinking(ask *q, const fields *f)
{
    const json_t *thinking = field_object(f, "thinking");
    const fields of = {thinking, "thinking", f->p};
    const char *type = NULL;
    int64_t budget;
    q->chat.thinking = -1; /* who does not ask for thoughts gets none */
    if (!thinking) return f->p->status == 0;
    if (!field_string(&of, "type", &type)) return f->p->status ? false : field_wrong(&of, "type", "text");
    if (is_type(type, "enabled") || is_type(type, "adaptive") || is_type(type, "between_tools"))
        q->chat.thinking = 1;
    else if (strcmp(type, "disabled") != 0)
        return unknown(f->p, "thinking", type, "enabled, adaptive, between_tools, disabled");
    if (field_integer(&of, "budget_tokens", 1024, INT32_MAX, &budget)) q->budget = (int)budget;
    return f->p->status == 0;
}

/* How much is thought, where something is: whether, "thinking" alone says. */
static bool read_effort(ask *q, const fields *config)
{
    const char *effort;
    const int thinking = q->chat.thinking;
    if (!field_string(config, "effort", &effort)) return config->p->status == 0;
    const bool good = openai_effort(q, effort, "output_config.effort", config->p);
    q->chat.thinking = thinking;
    return good;
}

static bool read_output(ask *q, const fields *f)
{
    const json_t *config = field_object(f, "output_config"), *format = field_object(f, "output_format");
    const fields of = {config, "output_config", f->p};
    const char *field = config && field_get(&of, "format") ? "output_config.format" : "output_format";
    if (f->p->status || (config && !read_effort(q, &of))) return false;
    if (config && field_get(&of, "format")) format = field_object(&of, "format");
    if (!format || f->p->status) return f->p->status == 0;
    const json_t *schema = json_object_get(format, "schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || strcmp(type, "json_schema") != 0) return unknown(f->p, field, type, "json_schema");
    const fields inner = {format, field, f->p};
    if (!schema) return field_wrong(&inner, "schema", "a schema");
    return ask_schema(q, schema, field, f->p);
}

static bool read_ask(ask *q, exchange *x, bool whole, problem *p)
{
    int64_t n = 0;
    q->body = exchange_parse(x, p);
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    if (!read_thinking(q, &f) || !read_messages(q, x, &f) || !read_tools(q, x, &f) || !read_choice(q, &f) ||
        !read_output(q, &f))
        return false;
    if (!whole) return true;
    if (!field_integer(&f, "max_tokens", 0, INT32_MAX, &n) && !p->status)
        return field_wrong(&f, "max_tokens", "how many tokens may be written");
    ask_most(q, n);
    (void)field_bool(&f, "stream", &q->stream);
    return !p->status && ask_sampling(q, &f) && ask_stops(q, &f, "stop_sequences");
}

void serve_messages(exchange *x)
{
    ask q;
    problem p = {0};
    ask_init(&q, x);
    (void)read_ask(&q, x, true, &p);
    ask_start(x, &q, &p);
}

void serve_count_tokens(exchange *x)
{
    ask q;
    problem p = {0};
    qn_prompt prompt = {0};
    ask_init(&q, x);
    if (read_ask(&q, x, false, &p) && ask_prompt(&q, x->model, &prompt, &p))
        exchange_reply_json(x, 200, json_pack("{s:I}", "input_tokens", (json_int_t)q.prompts[0].n));
    else
        exchange_refuse(x, &p);
    qn_prompt_deinit(&prompt);
    ask_deinit(&q);
}
