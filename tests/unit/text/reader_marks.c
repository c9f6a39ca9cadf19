/* SPDX-License-Identifier: MIT */
/* tests/unit/text/reader_marks.c -- answers in tokens: a mark that the vocabulary has is that token alone; where the
 * prompt leaves off, the reader begins; what a model gets wrong is content. */
#include "../base/failing.h"

#include "reader.h"
#include "vocab_file.h"

#include <stdio.h>

static const char *const pieces[] = {"<unk>",        "<s>",         "</s>",          "<|im_start|>",
                                     "<|im_end|>",   "<think>",     "</think>",      "<tool_call>",
                                     "</tool_call>", "<|channel|>", "<|message|>",   "<|end|>",
                                     "<|start|>",    "<|call|>",    "<|constrain|>", "<|python_tag|>"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

/* The first n pieces as control tokens, then all bytes. */
static qn_tokenizer *vocabulary(int n)
{
    vocab_file f;
    qn_tokenizer *tok;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "llama");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, (uint64_t)n + 256);
    for (int i = 0; i < n; i++) vf_text(&f, pieces[i], strlen(pieces[i]));
    for (int i = 0; i < 256; i++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        vf_text(&f, byte, 6);
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, (uint64_t)n + 256);
    for (int i = 0; i < n + 256; i++) vf_int(&f, i == 0 ? 2 : i >= n ? 6 : i == 5 || i == 7 ? 4 : 3, 4);
    vf_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(vf_open(&f, &tok, NULL), QN_OK);
    return tok;
}

static const char *source_of(const char *name)
{
    for (int i = 0; i < READER_TEMPLATES; i++)
        if (strcmp(reader_templates[i].name, name) == 0) return reader_templates[i].source;
    fail_msg("no template \"%s\"", name);
    return NULL;
}

/* The message that is read of a text in which {..} are control tokens and all else is plain text; the random id of
 * calls is left out. */
static char *message(const char *name, const qn_tokenizer *tok, const char *tools, const char *prompt, const char *text,
                     bool cut)
{
    qn_chat_template *t;
    qn_chat_reader *r;
    const qn_chat_event *e;
    qn_error err;
    size_t n;
    char *json;
    const qn_prompt before = {.text = (char *)prompt, .len = prompt ? strlen(prompt) : 0};
    assert_int_equal(qn_chat_template_create(source_of(name), strlen(source_of(name)), &t, &err), QN_OK);
    assert_int_equal(qn_chat_reader_create(t, tok, tools, prompt ? &before : NULL, &r, &err), QN_OK);
    for (const char *p = text; *p;) {
        const char *close = *p == '{' && p[1] == '<' ? strchr(p, '}') : NULL;
        const size_t len = close ? (size_t)(close - p) - 1 : 1;
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned char)*p);
        const qn_token token = close ? qn_tokenizer_find(tok, p + 1, len) : qn_tokenizer_find(tok, byte, 6);
        if (token < 0) fail_msg("no token for %.*s", (int)len, p);
        assert_int_equal(qn_chat_reader_token(r, token, &e, &n, &err), QN_OK);
        p = close ? close + 1 : p + 1;
    }
    const bool begins = qn_chat_reader_begins_call(r);
    assert_int_equal(qn_chat_reader_finish(r, cut, &e, &n, &err), QN_OK);
    assert_int_equal(qn_chat_reader_message(r, &json, &err), QN_OK);
    if (begins) assert_true(n && e[0].kind == QN_CHAT_content); /* all that is lost where it is left out */
    qn_chat_reader_destroy(r);
    qn_chat_template_destroy(t);
    for (char *id; (id = strstr(json, "\"id\": \""));) memmove(id, id + 19, strlen(id + 19) + 1);
    return json;
}

static void says_with(const char *name, int n_pieces, const char *tools, const char *prompt, const char *text, bool cut,
                      const char *want)
{
    qn_tokenizer *tok = vocabulary(n_pieces);
    char *json = message(name, tok, tools, prompt, text, cut);
    const char *body = json + strlen("{\"role\": \"assistant\", \"content\": ");
    if (strcmp(body, want) != 0) fail_msg("%s: \"%s\"\nwas read as %s\ninstead of  %s", name, text, body, want);
    qn_free(json);
    qn_tokenizer_destroy(tok);
}
static void says(const char *name, const char *text, const char *want)
{
    says_with(name, N_PIECES, READER_TOOLS, NULL, text, false, want);
}

#define F(name, arguments) \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"arguments\": \"" arguments "\"}}"

static void tokens_decide(void **state)
{
    (void)state;
    static const char about[] =
        "{<think>}The mark </think> ends it.{</think>}I write <think> and <tool_call>{\"name\": \"add\"}.";
    says("hermes", about,
         "\"I write <think> and <tool_call>{\\\"name\\\": \\\"add\\\"}.\", \"reasoning_content\": \"The mark </think> "
         "ends it.\"}");
    says("hermes", "{<tool_call>}{\"name\": \"add\", \"arguments\": {\"a\": 1}}{</tool_call>}",
         "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
    says("hermes", "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>",
         "\"<tool_call>{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {\\\"a\\\": 1}}</tool_call>\"}");
    /* the text of a mark within a string, and the mark itself there */
    says("hermes",
         "{<tool_call>}{\"name\": \"add\", \"arguments\": {\"a\": \"</tool_call>{</tool_call>}\"}}{</tool_call>}",
         "null, \"tool_calls\": [" F("add", "{\\\"a\\\": \\\"</tool_call></tool_call>\\\"}") "]}");
    says("parameters",
         "{<tool_call>}\n<function=get_weather>\n<parameter=s>\n</tool_call> "
         "</function>\n</parameter>\n</function>\n{</tool_call>}ok",
         "\"ok\", \"tool_calls\": [" F("get_weather", "{\\\"s\\\": \\\"</tool_call> </function>\\\"}") "]}");
    /* a vocabulary without these tokens has them as text */
    says_with("hermes", 5, READER_TOOLS, NULL,
              "<think>So</think>\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>", false,
              "null, \"reasoning_content\": \"So\", \"tool_calls\": [" F("add", "{}") "]}");
    /* but reasoning begins a turn, or it is text */
    says_with("hermes", 5, READER_TOOLS, NULL, "I <think>so</think>.", false, "\"I <think>so</think>.\"}");
    /* other control tokens are shown; what ends a generation is not */
    says("hermes", "a{<|im_start|>}b{<|im_end|>}", "\"a<|im_start|>b\"}");
    /* nothing is a call where there are no tools */
    says_with("hermes", N_PIECES, NULL, NULL, "{<tool_call>}{\"name\": \"add\", \"arguments\": {}}{</tool_call>}",
              false, "\"<tool_call>{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {}}</tool_call>\"}");
}

static void where_the_prompt_ends(void **state)
{
    (void)state;
    static const char head[] = "<|im_start|>user\nhi <think> there<|im_end|>\n<|im_start|>assistant\n";
    static const char *const begun[] = {"<think>", "<think>\n", "<think>\nI know:", NULL};
    char prompt[256];
    says_with("hermes", N_PIECES, READER_TOOLS, head, "yes", false, "\"yes\"}");
    for (int i = 0; begun[i]; i++) {
        snprintf(prompt, sizeof prompt, "%s%s", head, begun[i]);
        says_with("hermes", N_PIECES, READER_TOOLS, prompt, "so{</think>}\n\nyes", false,
                  "\"yes\", \"reasoning_content\": \"so\"}");
    }
    snprintf(prompt, sizeof prompt, "%s<think>\n\n</think>\n\n", head);
    says_with("hermes", N_PIECES, READER_TOOLS, prompt, "yes", false, "\"yes\"}");
    says_with("hermes", N_PIECES, READER_TOOLS, prompt, "{<think>}so{</think>}yes", false,
              "\"yes\", \"reasoning_content\": \"so\"}");
    says_with("recipients", 5, READER_TOOLS, "<|head|>user<|/head|>\n\nx<|eot|><|head|>assistant<|/head|>\n\n>>>",
              "add\n{\"a\": 2}", false, "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 2}") "]}");
    says_with("recipients", 5, READER_TOOLS, "<|head|>user<|/head|>\n\nx<|eot|><|head|>assistant<|/head|>\n\n>>>",
              "all\nHello >>> you", false, "\"Hello >>> you\"}");
}

static void what_is_wrong_is_content(void **state)
{
    (void)state;
    says("hermes", "{<tool_call>}{\"name\": \"add\", \"arguments\": {\"a\" 1}}{</tool_call>}x",
         "\"<tool_call>{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {\\\"a\\\" 1}}</tool_call>x\"}");
    says("hermes", "{<tool_call>}hello", "\"<tool_call>hello\"}");
    says("hermes", "a {<tool_call>}{\"name\": \"add\", \"arguments\": {\"a\": 1",
         "\"a <tool_call>{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {\\\"a\\\": 1\"}");
    says_with("hermes", N_PIECES, READER_TOOLS, NULL, "{<tool_call>}{\"name\": \"add\", \"arguments\": {\"a\": 1", true,
              "null, \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", \"arguments\": "
              "\"{\\\"a\\\": 1\"}, \"cut\": true}]}");
    says_with("hermes", N_PIECES, READER_TOOLS, NULL, "{<tool_call>}{\"na", true, "\"<tool_call>{\\\"na\"}");
    /* a bad call after a good one, and a good one after a bad one */
    says("hermes",
         "{<tool_call>}{\"name\": \"add\"}{</tool_call>}{<tool_call>}[1]{<tool_call>}{\"arguments\": {}, \"name\": "
         "\"add\"}{</tool_call>}",
         "\"<tool_call>[1]\", \"tool_calls\": [" F("add", "{}") ", " F("add", "{}") "]}");
    /* arguments before the name, as text, as null; a list where one call is expected; other members */
    says("hermes",
         "{<tool_call>}[{\"arguments\": \"{\\\"a\\\": 1}\", \"x\": [{}], \"name\": \"add\"}, {\"name\": \"add\", "
         "\"parameters\": null}]{</tool_call>}",
         "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") ", " F("add", "{}") "]}");
    says("hermes", "{<tool_call>}{\"name\": \"add\", \"arguments\": nu ll}{</tool_call>}",
         "\"<tool_call>{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": nu ll}</tool_call>\"}");
    /* newlines and tabs within a string */
    says("hermes", "{<tool_call>}{\"name\": \"get_weather\", \"arguments\": {\"s\": \"a\n\tb\"}}{</tool_call>}",
         "null, \"tool_calls\": [" F("get_weather", "{\\\"s\\\": \\\"a\\\\n\\\\tb\\\"}") "]}");
    /* bare JSON that is no call, and one that is */
    says_with("bare", 5, READER_TOOLS, NULL, "{\"name\": \"Bob\", \"parameters\": {}}", false,
              "\"{\\\"name\\\": \\\"Bob\\\", \\\"parameters\\\": {}}\"}");
    says_with("bare", 5, READER_TOOLS, NULL, "{\"x\": 1}", false, "\"{\\\"x\\\": 1}\"}");
    says_with("bare", 5, READER_TOOLS, NULL, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}", false,
              "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
    says_with("bare", 5, READER_TOOLS, NULL, "Use {\"name\": \"add\", \"parameters\": {}}", false,
              "\"Use {\\\"name\\\": \\\"add\\\", \\\"parameters\\\": {}}\"}");
    /* a token that there is not */
    qn_chat_template *t;
    qn_chat_reader *r;
    const qn_chat_event *e;
    size_t n;
    qn_tokenizer *tok = vocabulary(5);
    assert_int_equal(qn_chat_template_create(source_of("hermes"), strlen(source_of("hermes")), &t, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_create(t, tok, NULL, NULL, &r, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_token(r, 5 + 256, &e, &n, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_chat_reader_token(r, -1, &e, &n, NULL), QN_STATUS_invalid);
    qn_chat_reader_destroy(r);
    assert_int_equal(qn_chat_reader_create(t, NULL, "{", NULL, &r, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_chat_reader_create(t, NULL, NULL, NULL, &r, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_token(r, 1, &e, &n, NULL), QN_STATUS_invalid);
    /* bytes that are no UTF-8, cut anywhere */
    assert_int_equal(qn_chat_reader_text(r, "a\xC3", 2, &e, &n, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_text(r, "\xA9\xFF", 2, &e, &n, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_text(r, "\0\xE2\x82", 3, &e, &n, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_finish(r, false, &e, &n, NULL), QN_OK);
    char *json;
    assert_int_equal(qn_chat_reader_message(r, &json, NULL), QN_OK);
    assert_string_equal(json, "{\"role\": \"assistant\", \"content\": \"a\xC3\xA9\xEF\xBF\xBD\\u0000\xEF\xBF\xBD\"}");
    qn_free(json);
    qn_chat_reader_destroy(r);
    qn_chat_template_destroy(t);
    qn_tokenizer_destroy(tok);
}

#define CHANNEL(name) "{<|channel|>}" name "{<|message|>}"

/* What a schema says of arguments where it refers to another, and of those that it does not name. */
static void values_by_a_reference(void **state)
{
    (void)state;
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"$ref\": \"#/$defs/p\", "
        "\"$defs\": "
        "{\"p\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": "
        "\"integer\"}}, \"additionalProperties\": {\"type\": \"string\"}}}}}}]";
    says_with("parameters", N_PIECES, tools, NULL,
              "{<tool_call>}\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=i>\n12\n</parameter>\n"
              "<parameter=o>\n12\n</parameter>\n</function>\n{</tool_call>}",
              false,
              "null, \"tool_calls\": [" F("f", "{\\\"s\\\": \\\"12\\\", \\\"i\\\": 12, \\\"o\\\": \\\"12\\\"}") "]}");
}

/* The brackets of a call are no letters: an argument may begin with any. */
static void names_of_arguments(void **state)
{
    (void)state;
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", "
        "\"properties\": {\"city\": {\"type\": \"string\"}, \"c\": {\"type\": \"integer\"}}}}}]";
    says_with("python", 5, tools, NULL, "<|calls|>[add(city='Oslo', c=1), add(c=2)]<|/calls|>", false,
              "null, \"tool_calls\": [" F("add",
                                          "{\\\"city\\\": \\\"Oslo\\\", \\\"c\\\": 1}") ", " F("add",
                                                                                               "{\\\"c\\\": 2}") "]}");
    says_with("python", 5, tools, NULL, "<|calls|>[add(d=[1, 2c, c=3)]<|/calls|>", false,
              "\"<|calls|>[add(d=[1, 2c, c=3)]<|/calls|>\"}");
}

/* Llama 3 puts a tag before calls that have no mark, and a semicolon between them. */
static void calls_without_a_mark(void **state)
{
    (void)state;
    static const char one[] = "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}";
    static const char two[] = "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") ", " F("add", "{}") "]}";
#define ADD      "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"
#define ADD_NONE "{\"name\": \"add\", \"parameters\": {}}"
    says("bare", "{<|python_tag|>}" ADD, one);
    says("bare", "<|python_tag|>\n" ADD, one);
    says("bare", "<|python_tag|>" ADD "; " ADD_NONE, two);
    says("bare", ADD " ;" ADD_NONE, two);
    says("bare", "<|python_tag|>print(1)", "\"<|python_tag|>print(1)\"}");
    says("bare", "<|python_tag|>{\"name\": 1}", "\"<|python_tag|>{\\\"name\\\": 1}\"}");
    says("bare", "<|pyt", "\"<|pyt\"}");
    says("bare", "<|python_tag|> ", "\"<|python_tag|> \"}");
    says("bare", ADD "; done", "\"; done\", \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
    says("bare", ADD ";", "\";\", \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
    says("bare", ADD "; {}", "\"; {}\", \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
#undef ADD_NONE
#undef ADD
}

/* A section that the template closes behind a second call only is closed by a model behind one, too. */
static void closed_behind_two(void **state)
{
    (void)state;
    static const char one[] = "<|calls|><|call|>add<|sep|>{}<|/call|>";
    char text[200];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s%s", one, i == 0 ? "" : i == 1 ? "<|/calls|>" : "\n<|/calls|>");
        says_with("closed behind two", 5, READER_TOOLS, NULL, text, false,
                  "null, \"tool_calls\": [" F("add", "{}") "]}");
    }
}

/* Of tags within tags one may have the name of that around it. */
static void tags_of_the_same_name(void **state)
{
    (void)state;
#define INVOKE(arguments) "]~[<calls>\n]~[<invoke name=\"get_weather\">" arguments "]~[</invoke>\n]~[</calls>"
    says_with("nested", 5, READER_TOOLS, NULL, INVOKE("]~[<o>]~[<o>1]~[</o>]~[</o>]~[<n>2]~[</n>"), false,
              "null, \"tool_calls\": [" F("get_weather", "{\\\"o\\\": {\\\"o\\\": 1}, \\\"n\\\": 2}") "]}");
    says_with("nested", 5, READER_TOOLS, NULL,
              INVOKE("]~[<o>]~[<x>1]~[</x>]~[<o>]~[<o>2]~[</o>]~[<e>3]~[</e>]~[</o>]~[</o>"), false,
              "null, \"tool_calls\": [" F("get_weather",
                                          "{\\\"o\\\": {\\\"x\\\": 1, \\\"o\\\": {\\\"o\\\": 2, \\\"e\\\": "
                                          "3}}}") "]}");
    /* in a text it is text */
    says_with("nested", 5, READER_TOOLS, NULL, INVOKE("]~[<s>]~[<s>1]~[</s>"), false,
              "null, \"tool_calls\": [" F("get_weather", "{\\\"s\\\": \\\"]~[<s>1\\\"}") "]}");
#undef INVOKE
}

/* Ids that have to be nine letters and digits are told from what stands around them. */
static void ids_of_nine(void **state)
{
    (void)state;
    says_with("nine letters", 5, READER_TOOLS, NULL, "[CALLS]add[ID]a1B2c3D4e[ARGS]{\"a\": 1}", false,
              "null, \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}");
}

static void headers(void **state)
{
    (void)state;
    static const char call[] =
        "null, \"reasoning_content\": \"I think.\", \"tool_calls\": [" F("add", "{\\\"a\\\": 1}") "]}";
    says("channels", CHANNEL("analysis") "I think.{<|end|>}{<|start|>}assistant" CHANNEL("final") "Hello.",
         "\"Hello.\", \"reasoning_content\": \"I think.\"}");
    says("channels",
         CHANNEL("analysis") "I think.{<|end|>}{<|start|>}assistant{<|channel|>}commentary to=functions.add "
                             "{<|constrain|>}json{<|message|>}{\"a\": 1}{<|call|>}",
         call);
    says("channels",
         CHANNEL("analysis") "I think.{<|end|>}{<|start|>}assistant to=functions.add{<|channel|>}commentary "
                             "json{<|message|>}{\"a\": 1}{<|call|>}",
         call);
    says("channels",
         CHANNEL("commentary") "First I add.{<|end|>}{<|start|>}assistant{<|channel|>}commentary "
                               "to=functions.add{<|message|>}{}{<|call|>}",
         "\"First I add.\", \"tool_calls\": [" F("add", "{}") "]}");
    /* no header, half a header, one that says nothing, one without end, arguments that are none */
    says("channels", "Hello.", "\"Hello.\"}");
    says("channels", "{<|channel|>}final", "\"<|channel|>final\"}");
    says("channels", "{<|channel|>}final{<|end|>}x", "\"<|channel|>final<|end|>x\"}");
    says("channels", "{<|message|>}Hello.", "\"<|message|>Hello.\"}");
    says("channels", CHANNEL("commentary to=functions.add") "2 + 2",
         "\"<|channel|>commentary to=functions.add<|message|>2 + 2\"}");
    says("channels", CHANNEL("commentary to=browser.search") "{}",
         "\"<|channel|>commentary to=browser.search<|message|>{}\"}");
    says("channels", CHANNEL("final") "a{<|start|>}b", "\"a<|start|>b\"}");
}

static void made_under_want(void **state)
{
    (void)state;
    qn_chat_template *t;
    qn_chat_reader *r;
    static const char text[] =
        "<think>so</think><tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [1, \"x\"]}}</tool_call><tool_call>x";
    const char *source = source_of("hermes");
    long n_failed = 0;
    for (long at = 0;; at++) {
        const qn_chat_event *e;
        size_t n;
        char *json = NULL;
        books_open(at);
        qn_status status = qn_chat_template_create(source, strlen(source), &t, NULL);
        if (status == QN_OK) {
            status = qn_chat_reader_create(t, NULL, READER_TOOLS, NULL, &r, NULL);
            if (status == QN_OK) {
                status = qn_chat_reader_text(r, text, strlen(text), &e, &n, NULL);
                if (status == QN_OK) status = qn_chat_reader_finish(r, false, &e, &n, NULL);
                if (status == QN_OK) status = qn_chat_reader_message(r, &json, NULL);
                qn_free(json);
                qn_chat_reader_destroy(r);
            }
            qn_chat_template_destroy(t);
        }
        const bool failed = books.n_failed;
        books_close();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            break;
        }
        if (status != QN_OK) assert_int_equal(status, QN_STATUS_nomem);
        n_failed++;
    }
    assert_true(n_failed > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_decide),
        cmocka_unit_test(where_the_prompt_ends),
        cmocka_unit_test(what_is_wrong_is_content),
        cmocka_unit_test(values_by_a_reference),
        cmocka_unit_test(names_of_arguments),
        cmocka_unit_test(calls_without_a_mark),
        cmocka_unit_test(closed_behind_two),
        cmocka_unit_test(tags_of_the_same_name),
        cmocka_unit_test(ids_of_nine),
        cmocka_unit_test(headers),
        cmocka_unit_test(made_under_want),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
