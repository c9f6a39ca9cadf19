/* SPDX-License-Identifier: MIT */
/* tests/unit/text/chat_grammar.c -- answers of a model with random weights that are held to a form: whatever it says,
 * the reader reads the calls that were asked for, in every syntax, with marks as tokens and as text. */
#include "chat_grammar.h"

#include "text/chat/constrain.h"

#include <dirent.h>

#define SCHEMA \
    "{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}, \"required\": [\"x\"], " \
    "\"additionalProperties\": false}"

/* Answers of each kind and template; sanitizers are ten times as slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RUNS = 1, MODEL_RUNS = 0 };
#else
enum { RUNS = 6, MODEL_RUNS = 2 };
#endif

static uint64_t seed = 7;
static uint32_t draw(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % n);
}

/* What the model says: tokens at random among those that can come, now and then the marks that end something. */
static size_t babble(const qn_grammar *g, const qn_tokenizer *tok, int n_marks, const qn_chat_template *t,
                     qn_token *out, size_t max, bool *ended)
{
    static const char *const ends[] = {"\"", "}", "]", "'", ")", "\"}", "{", "0", " "};
    qn_matcher *m;
    qn_error err;
    size_t n = 0;
    if (qn_matcher_create(g, tok, &m, &err) != QN_OK) fail_msg("%s", err.text);
    *ended = false;
    while (n + 600 < max && !*ended) {
        const uint32_t *mask;
        const uint32_t way = draw(10);
        assert_int_equal(qn_matcher_mask(m, &mask, &err), QN_OK);
        if (qn_matcher_may_end(m) && (draw(2) || qn_matcher_must_end(m))) {
            *ended = true;
            break;
        }
        if (way < 4) { /* a text, as far as it can come */
            const qn_mark *mark = &t->found.marks[draw(QN_MARK_COUNT)];
            const char *s = way < 3 ? mark->text : ends[draw(sizeof ends / sizeof *ends)];
            const size_t len = way < 3 ? (size_t)mark->n_text : strlen(s);
            for (size_t i = 0; i < len; i++) {
                const qn_token token = (unsigned char)s[i] + n_marks;
                if (qn_matcher_accept(m, token, NULL) != QN_OK) break;
                out[n++] = token;
            }
            continue;
        }
        const int n_vocab = n_marks + 256, begin = (int)draw((uint32_t)(way < 6 ? n_marks : n_vocab));
        for (int k = 0; k < n_vocab; k++) {
            const qn_token token = begin + k - (begin + k < n_vocab ? 0 : n_vocab);
            if ((mask && !(mask[token / 32] >> token % 32 & 1)) || token == 2) continue;
            assert_int_equal(qn_matcher_accept(m, token, &err), QN_OK);
            out[n++] = token;
            break;
        }
    }
    qn_matcher_destroy(m);
    return n;
}

static char *read_tokens(const qn_chat_template *t, const qn_tokenizer *tok, const qn_prompt *prompt,
                         const qn_token *ids, size_t n, bool cut)
{
    qn_chat_reader *r;
    const qn_chat_event *e;
    size_t n_events;
    char *json;
    assert_int_equal(qn_chat_reader_create(t, tok, TOOLS, prompt, &r, NULL), QN_OK);
    for (size_t i = 0; i < n; i++) assert_int_equal(qn_chat_reader_token(r, ids[i], &e, &n_events, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_finish(r, cut, &e, &n_events, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_message(r, &json, NULL), QN_OK);
    qn_chat_reader_destroy(r);
    return json;
}

static bool fits(qn_val arguments, const char *name)
{
    if (arguments.type != QN_VAL_dict) return false;
    const qn_val a = qn__member(arguments, "a"), u = qn__member(arguments, "u"), s = qn__member(arguments, "s"),
                 l = qn__member(arguments, "l");
    if (strcmp(name, "now") == 0) return arguments.d->n == 0;
    if (strcmp(name, "say") == 0) {
        const qn_val to = qn__member(arguments, "to");
        return qn__is_str(qn__member(arguments, "text")) &&
               (!qn__given(to) || (to.type == QN_VAL_dict && qn__is_integer(qn__member(to, "n"))));
    }
    if (!(qn__is_integer(a) || a.type == QN_VAL_big) || !(qn__str_is(u, "km") || qn__str_is(u, "mi"))) return false;
    for (uint32_t i = 0; l.type == QN_VAL_list && i < l.l->n; i++)
        if (l.l->items[i].type != QN_VAL_bool) return false;
    return (!qn__given(s) || qn__is_str(s)) && (!qn__given(l) || l.type == QN_VAL_list);
}

typedef struct wish {
    const char *choice;
    bool single;
    const char *schema;
} wish;

/* Whether the message is what was asked for. */
static bool granted(const char *json, const wish *w)
{
    qn_heap h;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    const qn_val v = qn__parse_json(&h, json, strlen(json), true), calls = qn__member(v, "tool_calls"),
                 content = qn__member(v, "content");
    const uint32_t n = calls.type == QN_VAL_list ? calls.l->n : 0;
    const bool forced = strcmp(w->choice, "auto") != 0 && strcmp(w->choice, "none") != 0;
    bool good = h.status == QN_OK && (!forced || (n && !qn__given(content))) && !(w->single && n > 1) &&
                !(strcmp(w->choice, "none") == 0 && n);
    for (uint32_t i = 0; i < n && good; i++) {
        const qn_val f = qn__member(calls.l->items[i], "function"), name = qn__member(f, "name"),
                     text = qn__member(f, "arguments");
        good = qn__is_str(name) && (!forced || strcmp(w->choice, "required") == 0 || qn__str_is(name, w->choice));
        good = good && fits(qn__parse_json(&h, text.s->data, text.s->n, true), name.s->data);
    }
    if (good && w->schema && !n) {
        const qn_val x = qn__is_str(content) ? qn__parse_json(&h, content.s->data, content.s->n, true) : qn__absent();
        const qn_val number = qn__member(x, "x");
        good = h.status == QN_OK && (qn__is_integer(number) || number.type == QN_VAL_big);
    }
    qn__jinja_heap_deinit(&h);
    return good;
}

static int n_ended, n_all;

static void held_with(const char *name, const char *source, int runs)
{
    static const wish wishes[] = {{"required", false, NULL}, {"required", true, NULL}, {"add", false, NULL},
                                  {"say", true, NULL},       {"none", false, SCHEMA},  {"auto", false, SCHEMA},
                                  {"auto", false, NULL},     {"none", false, NULL}};
    enum { MAX = 4000 };
    qn_chat_template *t;
    qn_error err;
    qn_token *ids = malloc(MAX * sizeof *ids);
    if (qn_chat_template_create(source, strlen(source), &t, &err) != QN_OK) fail_msg("%s: %s", name, err.text);
    for (int k = 0; k < 2 * (int)ARRAY_LEN(wishes); k++) {
        const wish *w = &wishes[k / 2];
        int n_marks;
        qn_tokenizer *tok = vocabulary(t, k & 1, &n_marks);
        qn_grammar *g;
        qn_prompt p;
        const qn_chat_constraint c = {.tools = TOOLS,
                                      .tool_choice = w->choice,
                                      .single_call = w->single,
                                      .response_schema = w->schema};
        const qn_chat_options options = {.tools = TOOLS, .now = 1};
        if (qn_chat_render(t, "[{\"role\": \"user\", \"content\": \"UUU\"}]", &options, &p, &err) != QN_OK)
            fail_msg("%s: %s", name, err.text);
        if (qn_chat_grammar_create(t, tok, &p, &c, &g, &err) != QN_OK)
            fail_msg("%s, %s: %s", name, w->choice, err.text);
        assert_true(g || (!w->schema && k / 2 >= 6));
        for (int run = 0; run < runs && g; run++) {
            bool ended;
            const size_t n = babble(g, tok, n_marks, t, ids, MAX, &ended);
            char *json = read_tokens(t, tok, &p, ids, n, !ended);
            n_all++;
            n_ended += ended;
            if (ended && !granted(json, w)) {
                char *text;
                size_t len;
                qn_detokenize(tok, ids, n, &(qn_detokenize_options){.show_special = true}, &text, &len, NULL);
                fail_msg("%s, %s%s, marks as %s: \"%s\"\nwas read as %s", name, w->choice,
                         w->schema ? " with a schema" : "", k & 1 ? "tokens" : "text", text, json);
            }
            qn_free(json);
        }
        qn_grammar_destroy(g);
        qn_prompt_deinit(&p);
        qn_tokenizer_destroy(tok);
    }
    qn_chat_template_destroy(t);
    free(ids);
}

static void held(void **state)
{
    (void)state;
    for (int i = 0; i < READER_TEMPLATES; i++) held_with(reader_templates[i].name, reader_templates[i].source, RUNS);
    assert_true(n_all > 300 * RUNS && n_ended > n_all * 9 / 10);
}

static void held_by_templates_of_models(void **state)
{
    (void)state;
    DIR *dir = opendir(QN_SHARED_DIR "/templates");
    if (!dir) {
        print_message("no ../shared/templates: templates of models are not tried\n");
        skip();
    }
    n_ended = n_all = 0;
    char *source = malloc(1 << 20);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        qn_chat_template *t;
        qn_chat_needs needs;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, QN_SHARED_DIR "/templates/%s", e->d_name);
        FILE *f = fopen(path, "rb");
        source[fread(source, 1, (1 << 20) - 1, f)] = '\0';
        fclose(f);
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        qn_chat_template_needs(t, &needs);
        qn_chat_template_destroy(t);
        if (needs.calls && MODEL_RUNS) held_with(e->d_name, source, MODEL_RUNS);
    }
    free(source);
    closedir(dir);
    assert_true(n_all >= 500 * MODEL_RUNS && n_ended >= n_all * 9 / 10);
}

/* With thinking switched off, an answer held to a schema doesn't begin with thoughts. */
static void without_thoughts(void **state)
{
    (void)state;
    const char *source = reader_templates[0].source;
    qn_chat_template *t;
    int n_marks;
    assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
    qn_tokenizer *tok = vocabulary(t, 0, &n_marks);
    for (int off = 0; off < 2; off++) {
        const qn_chat_constraint c = {.response_schema = SCHEMA, .no_reasoning = off};
        qn_grammar *g;
        qn_matcher *m;
        qn_prompt p;
        assert_int_equal(qn_chat_render(t, "[{\"role\": \"user\", \"content\": \"U\"}]", &(qn_chat_options){0}, &p,
                                        NULL),
                         QN_OK);
        assert_int_equal(qn_chat_grammar_create(t, tok, &p, &c, &g, NULL), QN_OK);
        assert_int_equal(qn_matcher_create(g, tok, &m, NULL), QN_OK);
        assert_int_equal(qn_matcher_accept_text(m, "<think>", 7, NULL), off ? QN_STATUS_invalid : QN_OK);
        qn_matcher_reset(m);
        assert_int_equal(qn_matcher_accept_text(m, "{\"x\":", 5, NULL), QN_OK);
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
        qn_prompt_deinit(&p);
    }
    qn_tokenizer_destroy(tok);
    qn_chat_template_destroy(t);
}

static void refused(const char *name, const qn_chat_constraint *c, qn_status status, const char *words)
{
    qn_chat_template *t;
    qn_grammar *const untouched = (qn_grammar *)(void *)&t, *g = untouched;
    qn_error err = {0};
    const char *source = NULL;
    for (int i = 0; i < READER_TEMPLATES; i++)
        if (strcmp(reader_templates[i].name, name) == 0) source = reader_templates[i].source;
    if (!source) source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
    assert_int_equal(qn_chat_grammar_create(t, NULL, NULL, c, &g, &err), status);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_ptr_equal(g, status == QN_OK ? NULL : untouched);
    qn_chat_template_destroy(t);
}

#define TOOL(strict, keyword) \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": " strict ", \"parameters\": {\"type\": " \
    "\"object\", \"properties\": {\"a\": {\"type\": \"string\", " keyword "}}}}}]"

#define REQUIRING(strict, pattern) \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": " strict ", \"parameters\": {\"type\": " \
    "\"object\", \"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"" pattern \
    "\"}}, \"required\": [\"a\"]}}}]"
#define PARAMETERS(keywords) \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {" keywords "}}}]"

/* What of a schema for content cannot be held is no error where that is asked for; the rest holds. */
static void loose_responses(void **state)
{
    (void)state;
    int n_marks;
    qn_chat_template *t;
    const reader_template *from = reader_templates;
    assert_int_equal(qn_chat_template_create(from->source, strlen(from->source), &t, NULL), QN_OK);
    qn_tokenizer *tok = vocabulary(t, false, &n_marks);
    static const char begun[] = "<|im_start|>assistant\n",
                      schema[] = "{\"type\": \"integer\", \"not\": {\"const\": 1}}";
    refused(from->name, &(qn_chat_constraint){.response_schema = schema}, QN_STATUS_unsupported, "\"not\"");
    const qn_chat_constraint loose = {.response_schema = schema, .loose_response = true};
    assert_true(takes(t, tok, begun, &loose, "1"));
    assert_false(takes(t, tok, begun, &loose, "\"x\""));
    qn_tokenizer_destroy(tok);
    qn_chat_template_destroy(t);
}

static void what_cannot_be_held(void **state)
{
    (void)state;
    refused("hermes", &(qn_chat_constraint){.tool_choice = "required"}, QN_STATUS_invalid, "there are no tools");
    refused("hermes", &(qn_chat_constraint){.tools = TOOLS, .tool_choice = "sub"}, QN_STATUS_invalid,
            "no tool \"sub\"");
    refused("none", &(qn_chat_constraint){.tools = TOOLS, .tool_choice = "required"}, QN_STATUS_unsupported,
            "not found");
    refused("none", &(qn_chat_constraint){.tools = TOOLS}, QN_OK, "");
    refused("bare", &(qn_chat_constraint){0}, QN_OK, "");
    refused("hermes", &(qn_chat_constraint){0}, QN_OK, "");
    refused("hermes", &(qn_chat_constraint){.response_schema = "{"}, QN_STATUS_format, "no JSON");
    refused("hermes", &(qn_chat_constraint){.response_schema = "{\"not\": {}}"}, QN_STATUS_unsupported, "\"not\"");
    refused("hermes", &(qn_chat_constraint){.tools = TOOL("true", "\"not\": {}"), .tool_choice = "required"},
            QN_STATUS_unsupported, "\"not\"");
    refused("parameters", &(qn_chat_constraint){.tools = TOOL("true", "\"not\": {}"), .tool_choice = "required"},
            QN_STATUS_unsupported, "\"not\"");
    refused("python", &(qn_chat_constraint){.tools = TOOL("true", "\"not\": {}"), .tool_choice = "required"},
            QN_STATUS_unsupported, "\"not\"");
    refused("loose", &(qn_chat_constraint){.tools = TOOL("true", "\"not\": {}"), .tool_choice = "required"},
            QN_STATUS_unsupported, "\"not\"");
    refused("nested",
            &(qn_chat_constraint){.tools = TOOL_OF("{\"type\": \"object\", \"properties\": {\"c\": {}}, "
                                                   "\"patternProperties\": {\"b\": {}}}"),
                                  .tool_choice = "required"},
            QN_STATUS_unsupported, "\"patternProperties\"");
    refused("nested",
            &(qn_chat_constraint){.tools = TOOL_OF("{\"anyOf\": [{\"type\": \"object\"}, {\"type\": \"string\"}]}"),
                                  .tool_choice = "required"},
            QN_STATUS_unsupported, "may be something else");
    refused("parameters",
            &(qn_chat_constraint){.tools = TOOL("true", "\"pattern\": \"(?=x)\""), .tool_choice = "required"},
            QN_STATUS_unsupported, "look");
    refused("python", &(qn_chat_constraint){.tools = REQUIRING("true", "^'$"), .tool_choice = "required"},
            QN_STATUS_invalid, "\"a\": no value can satisfy it");
    static const char *const by_syntax[] = {"parameters", "python", "loose", "nested"};
    for (size_t i = 0; i < sizeof by_syntax / sizeof *by_syntax; i++) {
        refused(by_syntax[i],
                &(qn_chat_constraint){.tools = TOOL("true", "\"$ref\": \"#/$defs/x\""), .tool_choice = "required"},
                QN_STATUS_format, "\"$ref\"");
        refused(by_syntax[i],
                &(qn_chat_constraint){.tools = PARAMETERS("\"$ref\": \"#/$defs/x\""), .tool_choice = "required"},
                QN_STATUS_format, "\"$ref\"");
        refused(by_syntax[i],
                &(qn_chat_constraint){.tools = PARAMETERS("\"$ref\": \"#/$defs/x\", \"minProperties\": 1, \"$defs\": "
                                                          "{\"x\": {}}"),
                                      .tool_choice = "required"},
                QN_STATUS_unsupported, "\"minProperties\"");
        refused(by_syntax[i],
                &(qn_chat_constraint){.tools = PARAMETERS("\"$ref\": \"#/$defs/x\", \"required\": [\"y\"], \"$defs\": "
                                                          "{\"x\": {}}"),
                                      .tool_choice = "required"},
                QN_STATUS_unsupported, "\"required\"");
        refused(by_syntax[i],
                &(qn_chat_constraint){.tools = PARAMETERS("\"required\": [\"y\"], \"additionalProperties\": false"),
                                      .tool_choice = "required"},
                QN_STATUS_invalid, "\"y\" is required");
    }
    refused("parameters",
            &(qn_chat_constraint){.tools = TOOL("true", "\"pattern\": \"^ $\""), .tool_choice = "required"},
            QN_STATUS_invalid, "no text can satisfy");
    refused("hermes", &(qn_chat_constraint){.tools = "[1]"}, QN_STATUS_invalid, "tools[0]");
    /* not strict: widened, and said */
    qn_chat_template *t;
    qn_grammar *g;
    assert_int_equal(qn_chat_template_create(reader_templates[0].source, strlen(reader_templates[0].source), &t, NULL),
                     QN_OK);
    const qn_chat_constraint c = {.tools = TOOL("false", "\"not\": {}"), .tool_choice = "required"};
    assert_int_equal(qn_chat_grammar_create(t, NULL, NULL, &c, &g, NULL), QN_OK);
    assert_int_equal(qn_grammar_n_widened(g), 1);
    assert_non_null(strstr(qn_grammar_widened(g, 0), "\"not\""));
    qn_grammar_destroy(g);
    qn_chat_template_destroy(t);
}

static void reasoning_stays_free(void **state)
{
    (void)state;
    qn_chat_template *t;
    int n_marks;
    assert_int_equal(qn_chat_template_create(reader_templates[0].source, strlen(reader_templates[0].source), &t, NULL),
                     QN_OK);
    qn_tokenizer *tok = vocabulary(t, false, &n_marks);
    static const char begun[] = "<|im_start|>assistant\n", within[] = "<|im_start|>assistant\n<think>\n",
                      past[] = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    const qn_chat_constraint schema = {.response_schema = SCHEMA};
    const qn_chat_constraint call = {.tools = TOOLS, .tool_choice = "now"};
    const qn_chat_constraint autos = {.tools = TOOLS};
    assert_true(takes(t, tok, begun, &schema, "{\"x\": 1}"));
    assert_true(takes(t, tok, begun, &schema, "<think>\n{\"x\": \n</think>\n\n{\"x\": 1}"));
    assert_false(takes(t, tok, begun, &schema, "<think>\n{\"x\": \n</think>\n\n{\"x\": true}"));
    assert_true(takes(t, tok, within, &schema, "so\n</think>\n\n{\"x\": 1}"));
    assert_false(takes(t, tok, within, &schema, "{\"x\": 1}"));
    assert_true(takes(t, tok, past, &schema, "{\"x\": 1}"));
    assert_false(takes(t, tok, past, &schema, "<think>\nno"));
    static const char now[] = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    char text[512];
    assert_true(takes(t, tok, begun, &call, now));
    snprintf(text, sizeof text, "a <tool_call>\n</think>\n\n%s", now);
    assert_true(takes(t, tok, within, &call, text));
    assert_false(takes(t, tok, begun, &call, "hello"));
    /* auto: free until a call's mark comes, then a call */
    assert_true(takes(t, tok, begun, &autos, "hello < tool_call>"));
    snprintf(text, sizeof text, "hello\n%s%s", now, now);
    assert_true(takes(t, tok, begun, &autos, text));
    assert_false(takes(t, tok, begun, &autos, "hello <tool_call> x"));
    assert_false(takes(t, tok, begun, &(qn_chat_constraint){.tools = TOOLS, .tool_choice = "none"}, now));
    qn_tokenizer_destroy(tok);
    qn_chat_template_destroy(t);
}

/* Where values find no room, what was to be made of them is not left out. */
static void no_room_for_values(void **state)
{
    (void)state;
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": "
        "{\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}}}]";
    static const char *const names[] = {"parameters", "python", "loose"};
    for (size_t i = 0; i < 2 * (sizeof names / sizeof *names); i++) {
        qn_chat_template *t;
        qn_error err = {0};
        int at = 0;
        while (strcmp(reader_templates[at].name, names[i / 2]) != 0) at++;
        const char *source = reader_templates[at].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        qn_constrain c = {.found = &t->found, .err = &err, .g = qn__grammar_new(NULL)};
        assert_int_equal(qn_chat_reader_create(t, NULL, tools, NULL, &c.reader, NULL), QN_OK);
        c.root = qn__member(qn__member(c.reader->tools.l->items[0], "function"), "parameters");
        assert_int_equal(qn__schema_open(c.g, &c.root, NULL, NULL, &c.schema, &err), QN_OK);
        c.reader->heap.max_bytes = c.reader->heap.arena.used_bytes;
        if (i & 1)
            qn__put_without(&c, (qn_slice){"abc", 3}, (qn_slice){"xyz", 3});
        else
            qn__arguments_rule(&c);
        assert_int_equal(c.status, QN_STATUS_limit);
        assert_non_null(strstr(err.text, "MiB"));
        qn__str_deinit(&c.text);
        qn__schema_close(c.schema);
        qn_chat_reader_destroy(c.reader);
        qn_grammar_destroy(c.g);
        qn_chat_template_destroy(t);
    }
}

static void made_under_want(void **state)
{
    (void)state;
    for (int i = 0; i < READER_TEMPLATES; i += 5) {
        qn_chat_template *t;
        const char *source = reader_templates[i].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        const qn_chat_constraint c = {.tools = TOOLS, .tool_choice = "required"};
        for (long at = 0;; at += 1 + at / 20) {
            qn_grammar *g = NULL;
            books_open(at);
            const qn_status status = qn_chat_grammar_create(t, NULL, NULL, &c, &g, NULL);
            if (status == QN_OK) qn_grammar_destroy(g);
            const bool failed = books.n_failed;
            books_close();
            if (!failed) {
                assert_int_equal(status, QN_OK);
                break;
            }
            assert_true(status == QN_STATUS_nomem || (status == QN_OK && g)); /* some is asked for again, less */
        }
        qn_chat_template_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held),
        cmocka_unit_test(without_thoughts),
        cmocka_unit_test(held_by_templates_of_models),
        cmocka_unit_test(what_cannot_be_held),
        cmocka_unit_test(loose_responses),
        cmocka_unit_test(reasoning_stays_free),
        cmocka_unit_test(no_room_for_values),
        cmocka_unit_test(made_under_want),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
