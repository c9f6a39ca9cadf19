/* SPDX-License-Identifier: MIT */
/* tests/unit/text/reader.h -- templates of our own, one for each way to write calls, and the turns that are rendered
 * with them and read back. Shared with tests/fuzz/fuzz_reader.c, so nothing here knows cmocka. */
#ifndef QN_TEST_READER_H
#define QN_TEST_READER_H

#include <quern/chat.h>

#define READER_TOOLS \
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"The weather.\", " \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"t\": {\"type\": " \
    "\"string\"}, \"n\": {\"type\": \"integer\"}, \"f\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, " \
    "\"o\": {\"$ref\": \"#/$defs/o\"}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, " \
    "\"$defs\": {\"o\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"array\", \"items\": {\"type\": " \
    "[\"integer\", \"object\"], \"properties\": {\"x\": {\"type\": \"string\"}}}}, \"e\": {\"type\": \"object\"}, " \
    "\"deep\": {\"type\": \"object\", \"properties\": {\"er\": {\"type\": \"array\", \"items\": {\"type\": " \
    "\"string\"}}" \
    "}}}}}}}}, " \
    "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"Adds.\", \"parameters\": " \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}}}}}]"

/* Arguments of get_weather: quotes, newlines, tags, nested and empty values. */
static const char *const reader_shapes[] = {
    "{\"s\": \"Paris\", \"n\": 3}",
    "{}",
    "{\"s\": \"He said \\\"hi\\\" and 'bye', it's (so).\"}",
    "{\"s\": \"line one\\nline two\\n\", \"t\": \"\\n  indented\\n\\n\"}",
    "{\"s\": \"<b>bold</b> </think> &amp; <x y=\\\"z\\\"/> [INST] {{ m }}\", \"t\": \"<\"}",
    "{\"s\": \"\", \"t\": \" \"}",
    "{\"n\": -3, \"f\": 2.5, \"b\": true, \"s\": \"42\", \"t\": \"false\"}",
    "{\"o\": {\"k\": [1, 2, {\"x\": \"y\"}], \"e\": {}}, \"l\": []}",
    "{\"s\": \"\\u00fcn\\u00ef \\u65e5\\u672c \\ud83d\\ude00\", \"t\": \"C:\\\\dir\\\\new\\t{\\\"a\\\": 1}, [1, 2], "
    "f(x=1)\"}",
    "{\"l\": [\"a\", \"b\\\"c'd\", \"e\\nf\", \"\"], \"o\": {\"deep\": {\"er\": [\"x, y\", \"]}\"]}}}",
};
enum { READER_SHAPES = sizeof reader_shapes / sizeof *reader_shapes };

/* What a template has before and behind the part that differs: ChatML with reasoning, calls in CALLS. */
#define READER_CHATML(CALLS) \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n" \
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}" CALLS \
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}" \
    "{% if 0 %}{{ tools|tojson }}{% endif %}{% if tools and messages[0].role != 'assistant' %}{% endif %}"
#define READER_EACH(CALL) "{% for c in m.tool_calls %}{% set f = c.function %}" CALL "{% endfor %}"

typedef struct reader_template {
    const char *name, *syntax, *source;
} reader_template;

static const reader_template reader_templates[] = {
    {"hermes", "json",
     READER_CHATML(READER_EACH(
         "\n<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments|tojson }}}\n</tool_call>"))},
};
enum { READER_TEMPLATES = sizeof reader_templates / sizeof *reader_templates };

#endif
