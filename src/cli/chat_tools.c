/* SPDX-License-Identifier: MIT */
/* src/cli/chat_tools.c -- calls of tools: a person gives their results, or a program reads them as lines of JSON. */
#include "cli/chat.h"
#include <jansson.h>
#include <string.h>

/* The last message; released with json_decref. NULL without memory. */
static json_t *last_message(const chat *c)
{
    const size_t n = qn_messages_count(c->messages);
    return n ? json_loads(qn_messages_get(c->messages, n - 1), JSON_ALLOW_NUL, NULL) : NULL;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int chat_ask_results(chat *c, bool *given)
{
    json_t *message = last_message(c), *calls = json_object_get(message, "tool_calls"), *call;
    const size_t before = qn_messages_count(c->messages);
    size_t i;
    int status = message ? CLI_OK : cli_no_memory("out of memory");
    qn_error err;
    *given = true;
    json_array_foreach(calls, i, call)
    {
        char prompt[64];
        const char *text, *id = json_string_value(json_object_get(call, "id"));
        snprintf(prompt, sizeof(prompt), "%.40s = ", text_at(json_object_get(call, "function"), "name"));
        for (char *p = prompt; *p; p++) /* a name is the model's */
            if ((unsigned char)*p < 0x20 || *p == 0x7f || (unsigned char)*p >= 0x80) *p = '?';
        const chat_typed typed = chat_input_message(c->input, prompt, &text);
        if (typed != CHAT_TYPED_text) {
            qn_messages_truncate(c->messages, before);
            *given = false;
            break;
        }
        if (qn_messages_add_result(c->messages, id, text, &err) != QN_OK) {
            status = cli_fail_error(&err);
            break;
        }
    }
    json_decref(message);
    return status;
}

int chat_print_calls(const chat *c)
{
    json_t *message = last_message(c), *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;
    int status = message ? CLI_OK : cli_no_memory("out of memory");
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        json_t *arguments = json_loads(text_at(function, "arguments"), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        json_t *line = json_pack("{s:O, s:o?}", "name", json_object_get(function, "name"), "arguments", arguments);
        if (!line || json_dumpf(line, stdout, JSON_COMPACT) != 0) status = CLI_FAILED;
        putchar('\n');
        json_decref(line);
    }
    json_decref(message);
    const int flushed = cli_finish_output();
    return status == CLI_OK ? flushed : status;
}
