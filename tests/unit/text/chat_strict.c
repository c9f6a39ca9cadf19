/* SPDX-License-Identifier: MIT */
/* tests/unit/text/chat_strict.c -- arguments of strict tools where they are not written as JSON: the schemas and values
 * of schema/rows.txt, whose verdicts are jsonschema's, as calls in each syntax as its template writes them. */
#include "chat_grammar.h"

#include <stdlib.h>

#define ROWS QN_TESTS_DIR "/unit/text/schema/rows.txt"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 8 }; /* of the schemas: these are ten times as slow */
#else
enum { EVERY = 1 };
#endif

typedef struct syntax {
    const char *name, *end; /* what ends a turn */
    int least;              /* values that are right and are taken, of a hundred */
    const qn_chat_template *t;
    qn_grammar *g;
    qn_matcher *m;
    int n_schemas, n_refused, n_right, n_taken, n_wrong;
} syntax;

static const char prompt_of[] = "[{\"role\": \"user\", \"content\": \"U\"}]";
static qn_tokenizer *tok;

/* JSON as it is always written; NULL: the text is none. Freed with free. */
static char *canonical(const char *text, size_t n, const char *member)
{
    qn_heap h;
    char *copy = NULL;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    qn_val v = qn__parse_json(&h, text, n, false);
    if (h.status == QN_OK && (!member || (v.type == QN_VAL_dict && qn__dict_find(v.d, member, &v)))) {
        qn_vbuf b = {.h = &h};
        qn__print_json(&b, v, &(qn_json_style){.indent = -1});
        const qn_val out = qn__buf_val(&b);
        if (h.status == QN_OK) copy = strndup(out.s->data, out.s->n);
    }
    qn__jinja_heap_deinit(&h);
    return copy;
}

static qn_prompt render(const qn_chat_template *t, const char *messages, const char *tools, bool turn)
{
    qn_prompt p;
    qn_error err;
    const qn_chat_options options = {.tools = tools, .now = 1, .no_generation_prompt = turn};
    if (qn_chat_render(t, messages, &options, &p, &err) != QN_OK) fail_msg("%s", err.text);
    return p;
}

/* What the reader makes of `a` in the call; NULL: no call. */
static char *read_back(const qn_chat_template *t, const char *tools, const char *text, size_t n)
{
    qn_chat_reader *r;
    const qn_chat_event *e;
    size_t n_events;
    char *json, *found = NULL;
    assert_int_equal(qn_chat_reader_create(t, NULL, tools, NULL, &r, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_text(r, text, n, &e, &n_events, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_finish(r, false, &e, &n_events, NULL), QN_OK);
    assert_int_equal(qn_chat_reader_message(r, &json, NULL), QN_OK);
    qn_chat_reader_destroy(r);
    qn_heap h;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    const qn_val calls = qn__member(qn__parse_json(&h, json, strlen(json), false), "tool_calls");
    if (calls.type == QN_VAL_list && calls.l->n == 1) {
        const qn_val a = qn__member(qn__member(calls.l->items[0], "function"), "arguments");
        found = canonical(a.s->data, a.s->n, "a");
    }
    qn__jinja_heap_deinit(&h);
    qn_free(json);
    return found;
}

static void try_value(syntax *s, const char *tools, const char *value, bool right, int line)
{
    char *messages = NULL, *want = canonical(value, strlen(value), NULL);
    if (!want) return;
    if (asprintf(&messages,
                 "[{\"role\": \"user\", \"content\": \"U\"}, {\"role\": \"assistant\", \"content\": \"\", "
                 "\"tool_calls\": [{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
                 "\"arguments\": {\"a\": %s}}}]}]",
                 value) < 0)
        fail();
    qn_prompt before = render(s->t, prompt_of, tools, false), whole = render(s->t, messages, tools, true);
    const size_t end = strlen(s->end);
    assert_true(whole.len > before.len + end && memcmp(whole.text, before.text, before.len) == 0);
    assert_memory_equal(whole.text + whole.len - end, s->end, end);
    const size_t lead = strspn(whole.text + before.len, "\n"); /* a forced call begins with its mark */
    const char *text = whole.text + before.len + lead;
    const size_t n = whole.len - end - before.len - lead;
    char *got = read_back(s->t, tools, text, n);
    if (got && strcmp(got, want) == 0) { /* or it was written as something else */
        qn_matcher_reset(s->m);
        const bool taken = qn_matcher_accept_text(s->m, text, n, NULL) == QN_OK && qn_matcher_may_end(s->m);
        if (taken && !right) fail_msg("line %d, %s: %.*s is taken", line, s->name, (int)n, text);
        s->n_right += right;
        s->n_wrong += !right;
        s->n_taken += taken;
    }
    free(got);
    free(want);
    free(messages);
    qn_prompt_deinit(&before);
    qn_prompt_deinit(&whole);
}

/* The schema as it has to be at #/properties/a, where its $refs are to itself. Freed with free. */
static char *as_property(const char *schema)
{
    static const char ref[] = "\"$ref\": \"#", to[] = "/properties/a";
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    for (const char *next; (next = strstr(schema, ref)); schema = next + sizeof ref - 1)
        fprintf(f, "%.*s%s%s", (int)(next - schema), schema, ref, to);
    fputs(schema, f);
    fclose(f);
    return out;
}

static void close_schema(syntax *s)
{
    qn_matcher_destroy(s->m);
    qn_grammar_destroy(s->g);
    s->m = NULL;
    s->g = NULL;
}

static void open_schema(syntax *s, const char *tools, int line)
{
    qn_error err = {0};
    qn_prompt p = render(s->t, prompt_of, tools, false);
    const qn_chat_constraint c = {.tools = tools, .tool_choice = "required"};
    const qn_status status = qn_chat_grammar_create(s->t, tok, &p, &c, &s->g, &err);
    s->n_schemas++;
    if (status != QN_OK) { /* by name */
        s->g = NULL;
        s->n_refused++;
        if (!err.text[0] || strchr(err.text, '\n') || status == QN_STATUS_nomem)
            fail_msg("line %d, %s: \"%s\"", line, s->name, err.text);
    } else {
        assert_int_equal(qn_grammar_n_widened(s->g), 0);
        assert_int_equal(qn_matcher_create(s->g, tok, &s->m, NULL), QN_OK);
    }
    qn_prompt_deinit(&p);
}

/* Values that are wrong are never taken; of those that are right so many that a model is not kept from saying them. */
static void values_of_strict_tools(void **state)
{
    (void)state;
    static syntax all[] = {{.name = "parameters", .end = "<|im_end|>\n", .least = 95},
                           {.name = "invoke", .end = "<|im_end|>\n", .least = 95},
                           {.name = "typed", .end = "<|im_end|>\n", .least = 85},
                           {.name = "cdata", .end = "<|im_end|>\n", .least = 55},
                           {.name = "nested", .end = "<|im_end|>\n", .least = 80},
                           {.name = "python", .end = "<|im_end|>\n", .least = 80},
                           {.name = "literals", .end = "<|im_end|>\n", .least = 95},
                           {.name = "loose", .end = "<turn|>\n", .least = 80}};
    /* "typed": what may be a text or something else is a text; "cdata": texts have the form for special characters,
     * which the template gives only to those that need it */
    char line[4096], *tools = NULL;
    int number = 0, n = 0, n_marks;
    bool open = false, of_writing = false;
    FILE *f = fopen(ROWS, "r");
    assert_non_null(f);
    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
        qn_chat_template *t;
        int i = 0;
        while (strcmp(reader_templates[i].name, all[k].name) != 0) i++;
        const char *source = reader_templates[i].source;
        assert_int_equal(qn_chat_template_create(source, strlen(source), &t, NULL), QN_OK);
        if (!tok) tok = vocabulary(t, false, &n_marks);
        all[k].t = t;
    }
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        number++;
        if (*line == 's') {
            for (size_t k = 0; k < ARRAY_LEN(all); k++) close_schema(&all[k]);
            free(tools);
            tools = NULL;
            open = strncmp(line, "s ", 2) == 0 && !strstr(line, "$id") && n++ % EVERY == 0; /* a $ref is to that */
            of_writing = false;
            char *property = as_property(line + 1);
            if (open && asprintf(&tools,
                                 "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, "
                                 "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": %s}, \"required\": "
                                 "[\"a\"], \"additionalProperties\": false}}}]",
                                 property) < 0)
                fail();
            free(property);
            char *good = open ? canonical(tools, strlen(tools), NULL) : NULL;
            open = good;
            free(good);
            for (size_t k = 0; k < ARRAY_LEN(all) && open; k++) open_schema(&all[k], tools, number);
        } else if (open && (*line == '+' || *line == '-') && line[1]) {
            for (size_t k = 0; k < ARRAY_LEN(all) && !of_writing; k++)
                if (all[k].g) try_value(&all[k], tools, line + 2, *line == '+', number);
            of_writing = false;
        } else if (strncmp(line, "#!", 2) == 0) {
            of_writing = true;
        }
    }
    fclose(f);
    free(tools);
    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
        const syntax *s = &all[k];
        close_schema(&all[k]);
        print_message("%s: %d schemas, %d refused; of %d right values %d taken, of %d wrong ones none\n", s->name,
                      s->n_schemas, s->n_refused, s->n_right, s->n_taken, s->n_wrong);
        assert_true(s->n_right > 100 / EVERY && s->n_wrong > 40 / EVERY);
        if (s->n_taken * 100 < s->n_right * s->least) fail_msg("%s: too few are taken", s->name);
        qn_chat_template_destroy((qn_chat_template *)s->t);
    }
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_strict_tools)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
