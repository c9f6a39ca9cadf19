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
        {"python", word, "<|calls|>[f(a='", "')]<|/calls|>", {"ab", "ab12"}, {"a", "abcdef", "ab'", "ab\\n"}},
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
        cmocka_unit_test(calls_without_a_mark),
        cmocka_unit_test(calls_in_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
