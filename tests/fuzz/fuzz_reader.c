/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_reader.c -- any text as a model's answer, read in the syntax of any of our templates and in any
 * pieces. Byte 0 chooses the template, byte 1 where the text is cut and how it ends, the rest is the text. What is read
 * is the same however it is cut, no output is an error, whole calls have arguments that are a JSON object. */
#include <quern/chat.h>

#include "../unit/text/reader.h"
#include "require.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* READER_TOOLS without what a reader does not look at: reading them was a third of a run. */
static const char tools[] =
    "[{\"function\": {\"name\": \"get_weather\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, "
    "\"n\": {\"type\": \"integer\"}, \"f\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, "
    "\"o\": {\"$ref\": \"#/$defs/o\"}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, "
    "\"$defs\": {\"o\": {\"type\": \"object\"}}}}}, {\"function\": {\"name\": \"add\"}}]";

static qn_chat_template *templates[READER_TEMPLATES];

static const qn_chat_template *template_of(uint8_t byte)
{
    const int i = byte % READER_TEMPLATES;
    if (!templates[i])
        REQUIRE(qn_chat_template_create(reader_templates[i].source, strlen(reader_templates[i].source), &templates[i],
                                        NULL) == QN_OK);
    return templates[i];
}

/* What the events of one reading add up to, in bytes; and which calls are open. */
typedef struct sum {
    size_t content, reasoning, arguments;
    int n_calls;
    bool open;
} sum;

static void add_up(sum *s, const qn_chat_event *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        REQUIRE(e[i].text || !e[i].len);
        switch (e[i].kind) {
        case QN_CHAT_content: s->content += e[i].len; break;
        case QN_CHAT_reasoning: s->reasoning += e[i].len; break;
        case QN_CHAT_call:
            REQUIRE(e[i].call == s->n_calls++ && !s->open && e[i].len);
            s->open = true;
            break;
        case QN_CHAT_arguments:
            REQUIRE(s->open && e[i].call == s->n_calls - 1);
            s->arguments += e[i].len;
            break;
        case QN_CHAT_call_end:
        case QN_CHAT_call_cut:
        case QN_CHAT_no_call:
            REQUIRE(s->open && e[i].call == s->n_calls - 1);
            s->open = false;
            s->n_calls -= e[i].kind == QN_CHAT_no_call;
            break;
        }
    }
}

static char *read_text(const qn_chat_template *t, const char *text, size_t n, size_t step, bool cut, sum *s)
{
    qn_chat_reader *r;
    const qn_chat_event *e;
    size_t n_events;
    char *json;
    qn_error err;
    *s = (sum){0};
    REQUIRE(qn_chat_reader_create(t, NULL, tools, NULL, &r, &err) == QN_OK);
    for (size_t at = 0; at < n; at += step) {
        REQUIRE(qn_chat_reader_text(r, text + at, n - at < step ? n - at : step, &e, &n_events, &err) == QN_OK);
        add_up(s, e, n_events);
    }
    REQUIRE(qn_chat_reader_finish(r, cut, &e, &n_events, &err) == QN_OK);
    add_up(s, e, n_events);
    REQUIRE(!s->open);
    REQUIRE(qn_chat_reader_message(r, &json, &err) == QN_OK);
    qn_chat_reader_destroy(r);
    return json;
}

/* The message is one that a template takes, unless a call in it was cut: its arguments are JSON objects then. */
static void check_message(const char *json)
{
    qn_prompt p;
    if (strstr(json, "\"cut\": true")) return;
    char *messages = malloc(strlen(json) + 64);
    REQUIRE(messages);
    strcpy(messages, "[{\"role\": \"user\", \"content\": \"x\"}, ");
    strcat(strcat(messages, json), "]");
    const qn_status status = qn_chat_render(template_of(0), messages, NULL, &p, NULL);
    REQUIRE(status == QN_OK || status == QN_STATUS_limit);
    if (status == QN_OK) qn_prompt_deinit(&p);
    free(messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sum whole, pieces;
    if (size < 2) return 0;
    const qn_chat_template *t = template_of(data[0]);
    const char *text = (const char *)data + 2;
    const size_t n = size - 2, step = 1 + (data[1] >> 1) % 19;
    const bool cut = data[1] & 1;
    char *a = read_text(t, text, n, n ? n : 1, cut, &whole), *b = read_text(t, text, n, step, cut, &pieces);
    REQUIRE(strcmp(a, b) == 0);
    REQUIRE(whole.n_calls == pieces.n_calls && whole.reasoning == pieces.reasoning && whole.content == pieces.content);
    check_message(a);
    qn_free(a);
    qn_free(b);
    return 0;
}
