/* SPDX-License-Identifier: MIT */
/* tests/unit/text/chat_grammar_calls.c -- which answers a grammar takes: calls that begin with no mark or with a
 * header, and what strict tools ask of values that are not written as JSON. */
#include "chat_grammar.h"

/* What a strict tool asks of texts, numbers and lists holds where they are not written as JSON, too. */
static void strict_where_values_are_no_json(void **state)
{
    (void)state;
    static const char word[] = TOOL_OF("{\"type\": \"string\", \"pattern\": \"^[a-z]{2}\", \"maxLength\": 5}");
    static const char any[] = TOOL_OF("{\"type\": \"string\", \"minLength\": 2}");
    static const char list[] = TOOL_OF(
        "{\"type\": \"array\", \"items\": {\"type\": \"integer\", \"minimum\": 3}, \"minItems\": 2, \"maxItems\": 3}");
    static const char nothing[] = TOOL_OF("{\"type\": \"array\", \"items\": {}, \"maxItems\": 0}");
    static const char or_null[] =
        TOOL_OF("{\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}, {\"type\": \"null\"}]}");
    static const char or_number[] = TOOL_OF("{\"type\": [\"string\", \"integer\"], \"minimum\": 5, \"maxLength\": 3}");
    static const char or_list[] = TOOL_OF("{\"oneOf\": [{\"const\": \"all\"}, {\"type\": \"array\", \"items\": "
                                          "{\"type\": \"integer\"}, \"minItems\": 1}]}");
    static const char units[] = TOOL_OF("{\"type\": \"string\", \"enum\": [\"km\", \"sea miles\"]}");
    static const char member[] =
        TOOL_OF("{\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"string\", \"pattern\": \"^x\"}, "
                "\"l\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"minItems\": 1}}, "
                "\"required\": [\"k\"], \"additionalProperties\": false}");
    static const struct {
        const char *name, *tools, *before, *after;
        const char *good[4], *bad[5];
    } rows[] = {
        {"parameters",
         word,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"ab", "ab\n12", "ab'\\x"},
         {"a", "abcdef", "AB", "1ab", "ab "}},
        {"parameters",
         any,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"xy", "x</p>", "\303\251y"},
         {"", "x", "x</parameter>y", "\303\251"}},
        {"python",
         word,
         "<|calls|>[f(a='",
         "')]<|/calls|>",
         {"ab", "ab12", "ab\\n", "ab\n"},
         {"a", "abcdef", "ab'", "ab\\\\12"}},
        {"python",
         list,
         "<|calls|>[f(a=[",
         "])]<|/calls|>",
         {"3, 4", "3, 40, 5"},
         {"", "3", "3, 2", "3, 4, 5, 6", "3, 'x'"}},
        {"python", nothing, "<|calls|>[f(a=[", "])]<|/calls|>", {""}, {"3"}},
        {"parameters",
         or_null,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"ab", "null"},
         {"", "AB", "None", "12", "\"ab\""}},
        {"parameters",
         or_number,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"7", "abc", "4x", "nul"},
         {"4", "abcd", "4.5", "3", "06000"}},
        {"parameters",
         or_list,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"all", "[1, 2]"},
         {"[]", "[\"a\"]", "some", "[1", ""}},
        {"parameters",
         units,
         "<tool_call>\n<function=f>\n<parameter=a>\n",
         "\n</parameter>\n</function>\n</tool_call>",
         {"km", "sea miles"},
         {"kmx", "k", "", "mi", "km "}},
        {"python", or_number, "<|calls|>[f(a=", ")]<|/calls|>", {"7", "'abc'"}, {"4", "'abcd'", "abc", "7.5"}},
        {"python",
         member,
         "<|calls|>[f(a=",
         ")]<|/calls|>",
         {"{'k': 'xy'}", "{'k': 'x', 'l': [True, False]}"},
         {"{'k': 'y'}", "{'l': [True]}", "{\"k\": \"x\"}", "{'k': 'x', 'l': []}", "{'k': 'x', 'l': [true]}"}},
        {"literals",
         any,
         "<|calls|>[f(a='",
         "')]<|/calls|>",
         {"a\\n", "it\\'s", "\\\\ "},
         {"a", "\\n", "a\\x", "it's"}},
        {"loose",
         member,
         "<|tool_call>call:f{a:",
         "}<tool_call|>",
         {"{k:<|\"|>xy<|\"|>}", "{k:<|\"|>x<|\"|>,l:[true]}"},
         {"{k:<|\"|>y<|\"|>}", "{l:[true]}", "{k:x}", "{k:<|\"|>x<|\"|>,l:[]}", "{\"k\":<|\"|>x<|\"|>}"}},
        {"nested",
         member,
         "]~[<calls>\n]~[<invoke name=\"f\">]~[<a>",
         "]~[</a>]~[</invoke>\n]~[</calls>",
         {"]~[<k>xy]~[</k>", "]~[<k>x]~[</k>]~[<l>]~[<item>true]~[</item>]~[</l>"},
         {"]~[<k>y]~[</k>", "]~[<l>]~[<item>true]~[</item>]~[</l>", "]~[<k>x]~[</k>]~[<l>]~[</l>", "x"}},
    };
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        qn_chat_template *t;
        int n_marks, i = 0;
        while (strcmp(reader_templates[i].name, rows[k].name) != 0) i++;
        const char *source = reader_templates[i].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        qn_tokenizer *tok = vocabulary(t, false, &n_marks);
        const qn_chat_constraint c = {.tools = rows[k].tools, .tool_choice = "required"};
        for (int bad = 0; bad < 2; bad++)
            for (int j = 0; j < (bad ? 5 : 4) && (bad ? rows[k].bad[j] : rows[k].good[j]); j++) {
                char text[256];
                snprintf(text, sizeof text, "%s%s%s", rows[k].before, bad ? rows[k].bad[j] : rows[k].good[j],
                         rows[k].after);
                if (takes(t, tok, "<|im_start|>assistant\n", &c, text) == bad) fail_msg("%s: %s", rows[k].name, text);
            }
        qn_tokenizer_destroy(tok);
        qn_chat_template_destroy(t);
    }
}

/* A tool whose parameters are these. */
#define TOOL_BY(strict, parameters) \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": " strict ", \"parameters\": " parameters \
    "}}]"
#define LETTERS "{\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}"

typedef struct call_row {
    const char *name, *tools, *before, *after;
    const char *good[6], *bad[6];
} call_row;

static void try_rows(const call_row *rows, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const call_row *r = &rows[k];
        qn_chat_template *t;
        int n_marks, i = 0;
        while (strcmp(reader_templates[i].name, r->name) != 0) i++;
        const char *source = reader_templates[i].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        qn_tokenizer *tok = vocabulary(t, false, &n_marks);
        const qn_chat_constraint c = {.tools = r->tools, .tool_choice = "required"};
        for (int bad = 0; bad < 2; bad++)
            for (int j = 0; j < 6 && (bad ? r->bad[j] : r->good[j]); j++) {
                char text[600];
                snprintf(text, sizeof text, "%s%s%s", r->before, bad ? r->bad[j] : r->good[j], r->after);
                if (takes(t, tok, "<|im_start|>assistant\n", &c, text) == bad)
                    fail_msg("row %zu, %s: %s", k, r->name, text);
            }
        qn_tokenizer_destroy(tok);
        qn_chat_template_destroy(t);
    }
}

#define PARAMETERS    "<tool_call>\n<function=f>\n", "</function>\n</tool_call>"
#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define PYTHON        "<|calls|>[f(", ")]<|/calls|>"
#define LOOSE         "<|tool_call>call:f{", "}<tool_call|>"
#define L(text)       "<|\"|>" text "<|\"|>"
#define NESTED        "]~[<calls>\n]~[<invoke name=\"f\">", "]~[</invoke>\n]~[</calls>"
#define N(key, value) "]~[<" key ">" value "]~[</" key ">"

/* A $ref in a property is to the whole of the parameters; what stands beside it holds, too. */
static void references(void **state)
{
    (void)state;
    static const char other[] =
        TOOL_BY("true",
                "{\"properties\": {\"a\": {\"$ref\": \"#/properties/b\"}, \"b\": " LETTERS "}, \"required\": [\"a\"]}");
    static const char beside[] =
        TOOL_BY("true", "{\"properties\": {\"a\": {\"$ref\": \"#/$defs/w\", \"maxLength\": 2}}, \"$defs\": {\"w\": "
                        "{\"type\": \"string\"}}, \"required\": [\"a\"]}");
    static const char whole[] = TOOL_BY("true", "{\"$ref\": \"#/$defs/~0~1\", \"$defs\": {\"~/\": {\"properties\": "
                                                "{\"a\": " LETTERS "}, \"required\": [\"a\"]}}}");
    static const char again[] =
        TOOL_BY("true", "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"l\": {\"$ref\": "
                        "\"#\"}, \"r\": {\"$ref\": \"#\"}}, \"required\": [\"a\"], \"additionalProperties\": false}");
    static const char list[] =
        TOOL_BY("true", "{\"type\": \"object\", \"readOnly\": true, \"properties\": {\"a\": {\"$ref\": \"#/$defs/l\"}, "
                        "\"b\": {\"$ref\": \"#/$defs/l\", \"maxItems\": 1}}, \"$defs\": {\"l\": {\"type\": \"array\", "
                        "\"minItems\": 1.0, \"maxItems\": 2.0, \"items\": {\"type\": \"integer\"}}}}");
    static const call_row rows[] = {
        {"parameters", other, PARAMETERS, {P("a", "xy")}, {P("a", "1"), P("a", "X"), P("b", "xy")}},
        {"python", other, PYTHON, {"a='xy'"}, {"a='1'", "a=1"}},
        {"loose", other, LOOSE, {"a:" L("xy")}, {"a:" L("1"), "a:1"}},
        {"nested", other, NESTED, {N("a", "xy")}, {N("a", "1")}},
        {"parameters", beside, PARAMETERS, {P("a", "xy"), P("a", "")}, {P("a", "xyz")}},
        {"python", beside, PYTHON, {"a='xy'"}, {"a='xyz'"}},
        {"nested", beside, NESTED, {N("a", "xy")}, {N("a", "xyz")}},
        {"parameters", whole, PARAMETERS, {P("a", "xy")}, {P("a", "X"), ""}},
        {"python", whole, PYTHON, {"a='xy'"}, {"a='X'", ""}},
        {"parameters",
         again,
         PARAMETERS,
         {P("a", "1"), P("a", "1") P("l", "{\"a\": 2, \"r\": {\"a\": 3}}")},
         {P("a", "1") P("l", "{\"r\": {\"a\": 3}}"), P("a", "x")}},
        {"python", again, PYTHON, {"a=1, l={'a': 2, 'l': {'a': 3}}"}, {"a=1, l={'a': 2, 'l': {'a': 'x'}}", "a='x'"}},
        {"nested",
         again,
         NESTED,
         {N("a", "1"), N("a", "1") N("l", N("a", "2")) N("r", N("a", "3") N("r", N("a", "4")))},
         {N("a", "1") N("l", ""), N("a", "1") N("l", N("a", "x")), N("a", "1") N("r", N("r", N("a", "4")))}},
        {"nested",
         list,
         NESTED,
         {N("a", N("item", "1") N("item", "2")), N("b", "[1]")},
         {N("a", ""), N("a", N("item", "1") N("item", "2") N("item", "3")), N("b", "[1, 2]"), N("b", "[]")}},
    };
    try_rows(rows, ARRAY_LEN(rows));
}

/* What is required is asked for, whether properties name it or not. */
static void required_names(void **state)
{
    (void)state;
    static const char others[] =
        TOOL_BY("true", "{\"properties\": {\"a\": {}}, \"required\": [\"n\", \"a\", \"n\"], \"additionalProperties\": "
                        "{\"type\": \"integer\"}}");
    static const char any[] = TOOL_BY("false", "{\"required\": [\"n\"]}");
    static const char never[] = TOOL_BY("false", "{\"required\": [\"n\"], \"additionalProperties\": false}");
    static const char open[] =
        TOOL_BY("true",
                "{\"properties\": {\"o\": {\"type\": \"object\"}, \"l\": {\"type\": \"array\", \"items\": "
                "{\"type\": \"object\"}}, \"e\": {\"type\": \"object\", \"additionalProperties\": false}, \"p\": "
                "{\"type\": \"object\", \"patternProperties\": {\"^b$\": {\"type\": \"integer\"}}}}}");
    static const call_row rows[] = {
        {"parameters", others, PARAMETERS, {P("a", "x") P("n", "1")}, {P("a", "x"), P("a", "x") P("n", "y")}},
        {"python", others, PYTHON, {"a=True, n=1"}, {"a=True", "a=True, n='y'"}},
        {"nested", others, NESTED, {N("a", "x") N("n", "1")}, {N("a", "x"), N("a", "x") N("n", "y")}},
        {"parameters", any, PARAMETERS, {P("n", "x")}, {""}},
        {"loose", any, LOOSE, {"n:" L("x"), "n:1"}, {""}},
        {"python", never, PYTHON, {""}, {"n=1"}},
        {"nested", /* no key is known that could have a tag */
         open,
         NESTED,
         {N("o", "{\"a\": 1}"), N("o", "{}"), N("l", N("item", "{\"a\": [1]}") N("item", "{}")), N("e", ""),
          N("p", "{\"b\": 1}")},
         {N("o", "x"), N("p", "{\"b\": true}"), N("l", N("item", "1")), N("e", "{\"a\": 1}")}},
    };
    try_rows(rows, ARRAY_LEN(rows));
}

/* Keys that are no names, and texts in which nothing is escaped. */
static void keys_and_texts(void **state)
{
    (void)state;
    static const char keys[] =
        TOOL_BY("true",
                "{\"properties\": {\"o\": {\"type\": \"object\", \"properties\": {\"gr\303\266\303\237e\": {\"type\": "
                "\"integer\"}, \"a b\": {\"type\": \"integer\"}}, \"additionalProperties\": {\"type\": \"null\"}}, "
                "\"x y\": {\"type\": \"integer\"}}}");
    static const char given[] =
        TOOL_BY("true",
                "{\"properties\": {\"a\": {\"enum\": [\"it's\", \"C:\\\\d\\\\\", \"l\\nm\", \"x', y\", \"x', y=1\", "
                "\"\\\\'\", 7]}, \"never\": {\"enum\": [\"x', y=1\"]}, \"two words\": {}}}");
    static const char lax[] =
        TOOL_BY("false", "{\"properties\": {\"a\": {\"enum\": [\"', y=1\"]}, \"b\": {\"enum\": [\"', y=1\"]}, \"l\": "
                         "{\"items\": {\"const\": \"it's\"}}}, \"required\": [\"b\"]}");
    static const call_row rows[] = {
        {"loose",
         keys,
         LOOSE,
         {"o:{gr\303\266\303\237e:1," L("a b") ":2}", "o:{\303\274:null}", "o:{}," L("x y") ":3"},
         {"o:{a b:2}", "o:{" L("a b") ":null}", "o:{},x y:3"}},
        {"python",
         given,
         PYTHON,
         {"a='it's'", "a='C:\\d\\'", "a='l\nm'", "a='x', y'", "a=7", ""},
         {"a='x', y=1'", "a='\\''", "a='its'", "never='x', y=1'", "two words=1", "a='C:\\\\d\\\\'"}},
        {"python", lax, PYTHON, {"b='z', l=['it\\'s']", "b=1"}, {"", "a='', y=1', b=1", "b=1, l=['it's']"}},
    };
    try_rows(rows, ARRAY_LEN(rows));
    /* the reader takes them for what they are */
    static const struct {
        const char *name, *text, *want;
    } read[] = {
        {"python", "<|calls|>[f(a='it's')]<|/calls|>", "{\"a\": \"it's\"}"},
        {"python", "<|calls|>[f(a='C:\\d\\')]<|/calls|>", "{\"a\": \"C:\\\\d\\\\\"}"},
        {"python", "<|calls|>[f(a='x', y')]<|/calls|>", "{\"a\": \"x', y\"}"},
        {"loose", "<|tool_call>call:f{o:{gr\303\266\303\237e:1," L("a b") ":2}," L("x y") ":3}<tool_call|>",
         "{\"o\": {\"gr\303\266\303\237e\": 1, \"a b\": 2}, \"x y\": 3}"},
    };
    for (size_t k = 0; k < ARRAY_LEN(read); k++) {
        qn_chat_template *t;
        qn_chat_reader *r;
        const qn_chat_event *e;
        size_t n;
        char *json;
        int i = 0;
        while (strcmp(reader_templates[i].name, read[k].name) != 0) i++;
        const char *source = reader_templates[i].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        assert_int_equal(qn_chat_reader_create(t, NULL, keys, NULL, &r, NULL), QN_OK);
        assert_int_equal(qn_chat_reader_text(r, read[k].text, strlen(read[k].text), &e, &n, NULL), QN_OK);
        assert_int_equal(qn_chat_reader_finish(r, false, &e, &n, NULL), QN_OK);
        assert_int_equal(qn_chat_reader_message(r, &json, NULL), QN_OK);
        qn_heap h;
        qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
        const qn_val calls = qn__member(qn__parse_json(&h, json, strlen(json), false), "tool_calls");
        if (calls.type != QN_VAL_list) fail_msg("%s", json);
        const qn_val got = qn__member(qn__member(calls.l->items[0], "function"), "arguments");
        assert_string_equal(got.s->data, read[k].want);
        qn__jinja_heap_deinit(&h);
        qn_free(json);
        qn_chat_reader_destroy(r);
        qn_chat_template_destroy(t);
    }
}

/* Hundreds of texts that are given share one look at what a text may be. */
static void many_texts(void **state)
{
    (void)state;
    char *tools = NULL;
    size_t n;
    FILE *f = open_memstream(&tools, &n);
    fputs(
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {\"properties\": "
        "{\"a\": {\"enum\": [null",
        f);
    for (int i = 0; i < 600; i++) fprintf(f, ", \"value number %d of many\"", i);
    fputs("]}}}}}]", f);
    fclose(f);
    const call_row rows[] = {{"parameters",
                              tools,
                              PARAMETERS,
                              {P("a", "value number 0 of many"), P("a", "value number 599 of many"), P("a", "null")},
                              {P("a", "value number 600 of many"), P("a", "value number"), P("a", "None")}}};
    try_rows(rows, 1);
    free(tools);
}

/* With two members that lead back to the whole, rules for each way there would be thousands. */
static void deep_tags(void **state)
{
    (void)state;
    static const char tree[] =
        TOOL_BY("false",
                "{\"properties\": {\"t\": {\"$ref\": \"#/$defs/t\"}}, \"$defs\": {\"t\": {\"type\": \"object\", "
                "\"properties\": {\"l\": {\"$ref\": \"#/$defs/t\"}, \"r\": {\"$ref\": \"#/$defs/t\"}, \"v\": "
                "{\"type\": \"integer\"}}}}}");
    char deep[600] = "", json[700];
    for (int i = 0; i < 12; i++) strcat(deep, "]~[<r>");
    strcat(deep, "{\"l\": {\"v\": 1}}");
    for (int i = 0; i < 12; i++) strcat(deep, "]~[</r>");
    snprintf(json, sizeof json, "]~[<t>%s]~[</t>", deep);
    const call_row rows[] = {
        {"nested", tree, NESTED, {N("t", N("l", N("v", "1")) N("r", N("v", "2"))), json}, {N("t", N("v", "x"))}}};
    try_rows(rows, 1);
}

/* No mark tells a call of a template like Llama 3's; its beginning does. */
static void calls_without_a_mark(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool with_auto, with_none;
    } rows[] = {
        {"hello {\"name\": \"now\", \"parameters\": {}}", true, true},
        {"", true, true},
        {"{\"x\": 1}", true, true},
        {"[1, {\"name\": \"now\"}]", true, true},
        {"{\"name\": \"Bob\", \"parameters\": 3}", true, true},
        {"{\"name\": \"nowhere\"}", true, true},
        {"{\"names\": \"now\"}", true, true},
        {"{\"type\": \"car\"}", true, true},
        {"{\"name\": \"now\", \"parameters\": {}}", true, false},
        {"{\"name\": \"add\", \"parameters\": {\"a\": 1, \"u\": \"km\"}}", true, false},
        {"{\"name\": \"add\", \"parameters\": {\"a\": \"x\"}}", false, false},
        {"{\"name\": \"now\", \"x\": 1}", false, false},
        {" {\n \"name\" : \"now\"}", false, false},
        {"[ {\"name\": \"now\"}]", false, false},
        {"{\"parameters\": {}, \"name\": \"now\"}", false, false},
        {"{\"type\": \"function\", \"name\": \"now\"}", false, false},
        {"<|python_tag|>{\"name\": \"now\", \"x\": 1}", false, false},
        {"<|python>", true, true},
    };
    qn_chat_template *t;
    int n_marks, i = 0;
    while (strcmp(reader_templates[i].name, "bare") != 0) i++;
    assert_int_equal(qn_chat_template_create(reader_templates[i].source, strlen(reader_templates[i].source), &t, NULL),
                     QN_OK);
    qn_tokenizer *tok = vocabulary(t, false, &n_marks);
    static const char begun[] = "<|head|>assistant<|/head|>\n\n";
    for (size_t k = 0; k < ARRAY_LEN(rows); k++)
        for (int none = 0; none < 2; none++) {
            const qn_chat_constraint c = {.tools = TOOLS, .tool_choice = none ? "none" : "auto"};
            if (takes(t, tok, begun, &c, rows[k].text) != (none ? rows[k].with_none : rows[k].with_auto))
                fail_msg("%s: %s", c.tool_choice, rows[k].text);
        }
    qn_tokenizer_destroy(tok);
    qn_chat_template_destroy(t);
}

/* A recipient in a header makes a message a call: of a tool that there is, by its schema; with none there is no
 * recipient. The forms that a call has are those that llama.cpp's tests/test-chat.cpp expects calls of. */
static void calls_in_headers(void **state)
{
    (void)state;
#define JSON_HEADER "<|channel|>commentary to=functions.now <|constrain|>json<|message|>"
    static const struct {
        const char *text;
        bool with_auto, with_none;
    } rows[] = {
        {"<|channel|>final<|message|>Hello.", true, true},
        {"<|channel|>final<|message|>Hello.<|end|>", true, true},
        {"<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>Hello.", true, true},
        {"<|channel|>final<|message|>it is to=functions.now<|channel|>", true, true}, /* a text about it */
        {"<|channel|>analysis<|message|>", true, true},
        {"Hello.", false, false},
        {"<|message|>Hello.", false, false},
        {"<|channel|>final<|message|>Hello.<|end|>Hello.", false, false},
        {"<|channel|>final<|message|>Hello.<|end|><|start|>user<|message|>Hi.", false, false},
        {JSON_HEADER "{}<|call|>", true, false},
        {"<|channel|>commentary to=functions.now<|message|>{}<|call|>", true, false},
        {" to=functions.now<|channel|>commentary json<|message|>{}<|call|>", true, false},
        {" to=functions.now<|channel|>analysis<|message|>{}<|call|>", true, false},
        {" to=functions.now<|channel|>analysis <|constrain|>json<|message|>{}<|call|>", true, false},
        {"<|channel|>analysis to=functions.now<|message|>{}<|call|>", true, false},
        {"<|channel|>final <|constrain|>json<|message|>{}", true, true},
        {"<|channel|>analysis<|message|>So.<|end|><|start|>assistant" JSON_HEADER "{}<|call|>", true, false},
        {"<|channel|>commentary to=functions.add<|message|>{\"a\": 1, \"u\": \"km\"}<|call|>", true, false},
        {"<|channel|>commentary to=functions.add<|message|>{\"a\": \"x\"}<|call|>", false, false},
        {JSON_HEADER "{}", false, false},
        {JSON_HEADER "now<|call|>", false, false},
        {"<|channel|>commentary to=functions.nowhere<|message|>{}<|call|>", false, false},
        {"<|channel|>commentary to=browser.search<|message|>{}<|call|>", false, false},
        {"<|channel|>commentary to=functions.now to=functions.add<|message|>{}<|call|>", false, false},
    };
#undef JSON_HEADER
    qn_chat_template *t;
    int n_marks, i = 0;
    while (strcmp(reader_templates[i].name, "channels") != 0) i++;
    assert_int_equal(qn_chat_template_create(reader_templates[i].source, strlen(reader_templates[i].source), &t, NULL),
                     QN_OK);
    qn_tokenizer *tok = vocabulary(t, false, &n_marks);
    for (size_t k = 0; k < ARRAY_LEN(rows); k++)
        for (int none = 0; none < 2; none++) {
            const qn_chat_constraint c = {.tools = TOOLS, .tool_choice = none ? "none" : "auto"};
            if (takes(t, tok, "<|start|>assistant", &c, rows[k].text) != (none ? rows[k].with_none : rows[k].with_auto))
                fail_msg("%s: %s", c.tool_choice, rows[k].text);
        }
    /* a message that is to be continued, and a header that the prompt begins */
    const qn_chat_constraint none = {.tools = TOOLS, .tool_choice = "none"}, autos = {.tools = TOOLS};
    static const char within[] = "<|start|>assistant<|channel|>final<|message|>Hel",
                      header[] = "<|start|>assistant<|channel|>";
    static const char more[] =
        "lo.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}<|call|>";
    assert_true(takes(t, tok, within, &none, "lo."));
    assert_true(takes(t, tok, within, &autos, more));
    assert_false(takes(t, tok, within, &none, more));
    assert_true(takes(t, tok, header, &none, "final<|message|>Hello."));
    assert_true(takes(t, tok, header, &autos, "commentary to=functions.now<|message|>{}<|call|>"));
    assert_false(takes(t, tok, header, &none, "commentary to=functions.now<|message|>{}<|call|>"));
    qn_tokenizer_destroy(tok);
    qn_chat_template_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_where_values_are_no_json),
        cmocka_unit_test(references),
        cmocka_unit_test(required_names),
        cmocka_unit_test(keys_and_texts),
        cmocka_unit_test(many_texts),
        cmocka_unit_test(deep_tags),
        cmocka_unit_test(calls_without_a_mark),
        cmocka_unit_test(calls_in_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
