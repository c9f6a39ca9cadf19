/* SPDX-License-Identifier: MIT */
/* tests/unit/text/schema.c -- JSON schemas as grammars: which texts they take (schema/rows.txt), what is refused and
 * where, rules beside those of GBNF, limits, failing allocations. */
#include "../base/failing.h"

#include "base/str.h"
#include "text/grammar/grammar.h"
#include "text/jinja/value.h"
#include "vocab_file.h"

#include <quern/grammar.h>
#include <stdio.h>
#include <time.h>

#define ROWS QN_TESTS_DIR "/unit/text/schema/rows.txt"

static qn_tokenizer *tok; /* bytes */

static int make_tokenizer(void **state)
{
    (void)state;
    vocab_file f;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "llama");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, 259);
    vf_text(&f, "<unk>", 5);
    vf_text(&f, "<s>", 3);
    vf_text(&f, "</s>", 4);
    for (int i = 0; i < 256; i++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        vf_text(&f, byte, 6);
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, 259);
    for (int i = 0; i < 259; i++) vf_int(&f, i == 0 ? 2 : i < 3 ? 3 : 6, 4);
    qn_error err;
    if (vf_open(&f, &tok, &err) == QN_OK) return 0;
    print_message("%s\n", err.text);
    return -1;
}

static int free_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_destroy(tok);
    return 0;
}

/* Whether the text is a whole output. */
static bool takes(qn_matcher *m, const char *text)
{
    qn_matcher_reset(m);
    return qn_matcher_accept_text(m, text, strlen(text), NULL) == QN_OK && qn_matcher_may_end(m);
}

/* ---- the rows ------------------------------------------------------------------------------------------------ */

typedef struct rows {
    qn_grammar *g;
    qn_matcher *m;
    qn_status status;
    qn_error err;
    int32_t n_widened; /* lines seen of them */
    int n_schemas, n_texts;
} rows;

static void close_schema(rows *r, int line)
{
    if (r->g && r->n_widened != qn_grammar_n_widened(r->g))
        fail_msg("before line %d: widened too: %s", line, qn_grammar_widened(r->g, r->n_widened));
    qn_matcher_destroy(r->m);
    qn_grammar_destroy(r->g);
    r->m = NULL;
    r->g = NULL;
    r->n_widened = 0;
}

static void open_schema(rows *r, const char *line, int number)
{
    qn_schema_options o = {0};
    line++;
    if (*line == '(')
        for (line++; *line != ')'; line++) {
            o.widen |= *line == 'w';
            o.object |= *line == 'o';
            o.whole_fractions |= *line == 'f';
        }
    close_schema(r, number);
    r->status = qn_grammar_create_schema(strchr(line, ' ') + 1, &o, &r->g, &r->err);
    if (r->status == QN_OK && qn_matcher_create(r->g, tok, &r->m, &r->err) != QN_OK)
        fail_msg("line %d: %s", number, r->err.text);
    r->n_schemas++;
}

static void check_line(rows *r, char *line, int number)
{
    const char *text = line[0] && line[1] ? line + 2 : "";
    if (*line == 's') {
        open_schema(r, line, number);
    } else if (*line == '!') {
        char want[600];
        if (r->status) assert_int_equal(r->err.status, r->status);
        snprintf(want, sizeof want, "%s %s", qn_status_name(r->status), r->status ? r->err.text : "");
        if (strcmp(want, text) != 0) fail_msg("line %d: %s", number, want);
    } else if (*line == 'w') {
        const char *note = r->g ? qn_grammar_widened(r->g, r->n_widened++) : NULL;
        if (!note || strcmp(note, text) != 0) fail_msg("line %d: widened \"%s\"", number, note ? note : "");
    } else if (*line == '+' || *line == '-') {
        if (!r->m) fail_msg("line %d: the schema was refused: %s", number, r->err.text);
        if (takes(r->m, text) != (*line == '+'))
            fail_msg("line %d: %s is %s", number, text, *line == '+' ? "refused" : "taken");
        r->n_texts++;
    } else if (*line && *line != '#') {
        fail_msg("line %d: what is this?", number);
    }
}

static void verdicts(void **state)
{
    (void)state;
    static char line[1 << 16];
    rows r = {0};
    int number = 0;
    FILE *f = fopen(ROWS, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        check_line(&r, line, ++number);
    }
    fclose(f);
    close_schema(&r, number);
    assert_true(r.n_schemas > 5 && r.n_texts > 20);
}

/* ---- white space --------------------------------------------------------------------------------------------- */

static void white_space(void **state)
{
    (void)state;
    static const char *const texts[] = {"+{\"a\":[1,2]}",
                                        "+{\"a\": [1, 2]}",
                                        "+{ \"a\": [ 1, 2 ] }",
                                        "+{\n  \"a\": [\n    1,\n    2\n  ]\n}",
                                        "+{\n\t\"a\": [\n\t\t1,\n\t\t2\n\t]\n}",
                                        "-{\"a\" :[1,2]}",
                                        "-{\"a\":[1 ,2]}",
                                        "-{  \"a\":[1,2]}",
                                        "-{\n\n\"a\":[1,2]}",
                                        "- {\"a\":[1,2]}",
                                        "-{\"a\":[1,2]}\n"};
    qn_grammar *g;
    qn_matcher *m;
    assert_int_equal(qn_grammar_create_schema("{\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}}}", NULL, &g,
                                              NULL),
                     QN_OK);
    assert_int_equal(qn_matcher_create(g, tok, &m, NULL), QN_OK);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (takes(m, texts[i] + 1) != (texts[i][0] == '+')) fail_msg("%s", texts[i]);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* ---- beside GBNF ---------------------------------------------------------------------------------------------- */

static void beside_gbnf(void **state)
{
    (void)state;
    static const char *const schemas[] = {"{\"type\":\"integer\"}",
                                          "{\"type\":\"array\",\"items\":{\"enum\":[\"x\"]}}"};
    qn_error err;
    qn_matcher *m;
    qn_grammar *g = qn__grammar_new(&err);
    assert_non_null(g);
    assert_int_equal(qn__grammar_add_gbnf(g, "root ::= \"f(\" args-0 \")\" | \"g(\" args-1 \",\" args-0 \")\"", &err),
                     QN_OK);
    for (int i = 0; i < 2; i++) {
        qn_heap h = {.max_bytes = 1 << 20, .max_work = 1 << 20, .err = &err};
        qn__arena_init(&h.arena, 0);
        const qn_val schema = qn__parse_json(&h, schemas[i], strlen(schemas[i]), false);
        char name[16];
        snprintf(name, sizeof name, "args-%d", i);
        assert_int_equal(qn__grammar_add_schema(g, name, &schema, NULL, NULL, NULL, &err), QN_OK);
        assert_int_equal(qn__grammar_add_schema(g, name, &schema, NULL, NULL, NULL, &err), QN_STATUS_invalid);
        qn__arena_deinit(&h.arena);
    }
    assert_int_equal(qn__grammar_complete(g, "root", NULL, &err), QN_OK);
    assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_OK);
    assert_true(takes(m, "f(12)"));
    assert_true(takes(m, "g([\"x\", \"x\"],-7)"));
    assert_false(takes(m, "f(\"x\")"));
    assert_false(takes(m, "g(1,2)"));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* ---- limits -------------------------------------------------------------------------------------------------- */

typedef struct hostile {
    const char *before, *part; /* part many times between before and after; %d of it is the number */
    int n;
    const char *after;
    qn_status status;
    const char *says;
} hostile;

static void limits(void **state)
{
    (void)state;
    static const hostile cases[] = {
        {"{\"pattern\":\"", "(", 60000, "\"}", QN_STATUS_limit, "character 101: groups nested more than 100 deep"},
        {"{\"pattern\":\"", "(a)", 20000, "\"}", QN_OK, NULL},
        {"{\"type\":[\"null\",\"nul\"]}", "", 0, "", QN_STATUS_format, "#: \"type\" is not a type of JSON"},
        {"{\"pattern\":\"^+", "", 0, "\"}", QN_STATUS_format, "character 2: ^ cannot be repeated"},
        {"{\"pattern\":\"a{1000000}", "", 0, "\"}", QN_STATUS_limit, "more than 100000 states"},
        {"{\"properties\":{\"a\":{\"items\":{\"const\":1},\"minItems\":3,\"maxItems\":99999}}}", "", 0, "",
         QN_STATUS_limit, "#/properties/a: maxItems: the grammar has more than 200000 states"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^(ab){1,90000}$\"}}}", "", 0, "", QN_STATUS_limit,
         "#/properties/a"},
        {"{\"pattern\":\"a{1000001}", "", 0, "\"}", QN_STATUS_limit, "more than 1000000 repetitions"},
        {"{\"pattern\":\"((((a{100}){100}){100}){100})", "", 0, "\"}", QN_STATUS_limit, "more than 100000 states"},
        {"{\"pattern\":\"((){1000}){100000}", "", 0, "\"}", QN_STATUS_limit, "more than 100000 states"},
        {"{\"pattern\":\"((((a+)+)+)+)+b", "", 0, "\"}", QN_OK, NULL},
        {"{\"pattern\":\"^(a|b)*a(a|b){30}$", "", 0, "\"}", QN_OK, NULL},
        {"{\"pattern\":\"", "a?", 5000, "\"}", QN_STATUS_limit, "200000 edges"},
        {"{\"pattern\":\"^(a|b)*a(a|b){300}$\",\"maxLength\":60000", "", 0, "}", QN_STATUS_limit,
         "lengths and patterns"},
        {"{\"patternProperties\":{\"^(a|b)*a(a|b){30}$\":{}},\"additionalProperties\":false", "", 0, "}", QN_OK, NULL},
        {"{\"patternProperties\":{\"^(a|b)*a(a|b){30}$\":{}},\"additionalProperties\":{\"type\":\"null\"}", "", 0, "}",
         QN_STATUS_limit, "names of other properties"},
        {"{\"maxLength\":1000000", "", 0, "}", QN_STATUS_limit, "\"maxLength\" is more than 100000"},
        {"{\"minItems\":100000", "", 0, "}", QN_STATUS_limit, "200000 states"},
        {"{\"maximum\":", "9", 20000, "}", QN_STATUS_limit, "\"maximum\" has more than 10000 digits"},
        {"", "{\"items\":", 150, "{}", QN_STATUS_format, "the text ends"},
        {"", "{\"items\":", 100000, "", QN_STATUS_format, "nested more than 200 deep"},
        {"", " ", 1100000, "{}", QN_STATUS_limit, "at most 1048576"},
        {"{\"examples\":[", "{},", 340000, "1]}", QN_STATUS_limit, "more than 24 MiB"},
        {"{\"anyOf\":[", "{},", 25000, "{}]}", QN_STATUS_limit, "more than 20000 schemas"},
        {"{\"allOf\":[", "{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]},{\"required\":[\"c%d\"]}]},",
         12, "{}]}", QN_STATUS_limit, "more than 20000 alternatives"},
        {"{\"$ref\":\"#/$defs/0\",\"$defs\":{\"0\":{\"allOf\":[{\"$ref\":\"#\"}]}}}", "", 0, "", QN_STATUS_format,
         "leads back to itself"},
        {"{\"properties\":{\"p\":{}", ",\"p%d\":{\"type\":\"integer\"}", 5000, "}}", QN_OK, NULL},
        {"{\"enum\":[0", ",\"w%d\"", 15000, "]}", QN_OK, NULL},
        {"{\"properties\":{\"p\":{}", ",\"p%d\":{\"type\":\"integer\"}", 19000, "}}", QN_STATUS_limit, "200000 states"},
        {"{\"oneOf\":[{}", ",{\"required\":[\"k\"],\"properties\":{\"k\":{\"const\":%d}}}", 1000, "]}",
         QN_STATUS_unsupported, "a value may satisfy both 0 and"},
        {"{\"oneOf\":[{\"type\":\"null\"}",
         ",{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"const\":%d}}}", 1000, "]}", QN_OK, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const hostile *h = &cases[i];
        qn_str text = {0};
        qn_grammar *g = NULL;
        qn_error err;
        qn_metrics metrics;
        qn__str_puts(&text, h->before);
        for (int k = 0; k < h->n; k++) {
            char part[200];
            size_t n = 0;
            for (const char *p = h->part; *p; p++) {
                if (p[0] == '%')
                    n += (size_t)snprintf(part + n, sizeof part - n, "%d", k), p++;
                else
                    part[n++] = *p;
            }
            qn__str_append(&text, part, n);
        }
        qn__str_puts(&text, h->after);
        assert_false(text.failed);
        qn_metrics_reset();
        qn_metrics_snapshot(&metrics);
        const uint64_t before = metrics.live_bytes;
        const clock_t begin = clock();
        const qn_status status = qn_grammar_create_schema(text.data, NULL, &g, &err);
        const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        qn_metrics_snapshot(&metrics);
        if (status != h->status || (status != QN_OK && !strstr(err.text, h->says)))
            fail_msg("case %zu: %s: %s", i, qn_status_name(status), status ? err.text : "");
        assert_true(metrics.peak_bytes - before < (uint64_t)64 << 20);
        assert_true(seconds < 2); /* 0.1 on an idle machine, sanitizers aside */
        qn_grammar_destroy(g);
        qn__str_deinit(&text);
    }
}

/* Alternatives of other types are not combined one by one, but comparing them takes time: 2 thousand million here. */
static void comparisons_are_counted(void **state)
{
    (void)state;
    qn_str text = {0};
    qn_grammar *g = NULL;
    qn_error err;
    qn__str_puts(&text, "{\"enum\":[\"\"");
    for (int i = 1; i < 20000; i++) qn__str_printf(&text, ",\"w%d\"", i);
    qn__str_puts(&text, "],\"anyOf\":[{\"type\":\"string\"}");
    for (int i = 0; i < 6000; i++) qn__str_puts(&text, ",{\"enum\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}");
    qn__str_puts(&text, "]}");
    assert_false(text.failed);
    assert_int_equal(qn_grammar_create_schema(text.data, NULL, &g, &err), QN_STATUS_limit);
    assert_non_null(strstr(err.text, "too many combinations"));
    qn__str_deinit(&text);
}

/* Formats whose length is bounded: what comes has it, and most of what has it comes. */
static void long_formats(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *begin, *end;
        int most, more; /* characters between the two that are taken, and that are not */
    } cases[] = {
        {"{\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083,\"type\":\"string\"}", "https://example.com/", "",
         1700, 2064},
        {"{\"format\":\"uri\",\"maxLength\":2083,\"type\":\"string\"}", "http://u@[::1]:80/%20?q=", "#f", 1700, 2058},
        {"{\"format\":\"uri\",\"maxLength\":2083,\"type\":\"string\"}", "urn:", "", 500, 2080},
        {"{\"format\":\"uri\",\"maxLength\":120,\"type\":\"string\"}", "http://a.example/", "?b", 40, 102},
        {"{\"format\":\"email\",\"minLength\":3,\"maxLength\":254,\"type\":\"string\"}", "a@b.", ".c", 63, 64},
        {"{\"format\":\"email\",\"maxLength\":254,\"type\":\"string\"}", "a", "@b.c", 63, 250},
    };
    char text[3000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_grammar *g;
        qn_matcher *m;
        qn_error err;
        if (qn_grammar_create_schema(cases[i].schema, NULL, &g, &err) != QN_OK) fail_msg("%s", err.text);
        assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_OK);
        for (int k = 0; k < 3; k++) {
            const int n = k == 0 ? 1 : k == 1 ? cases[i].most : cases[i].more;
            int at = snprintf(text, sizeof text, "\"%s", cases[i].begin);
            memset(text + at, 'x', (size_t)n);
            snprintf(text + at + n, sizeof text - (size_t)(at + n), "%s\"", cases[i].end);
            if (takes(m, text) != (k < 2)) fail_msg("%s: %d characters", cases[i].schema, n);
        }
        assert_false(takes(m, "\"\"") || takes(m, "\"x\"") || takes(m, "\"http://a b\"") || takes(m, "\"@b\""));
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
    }
}

/* Of a tool that is not strict the place that takes too many states becomes any value; the others stay. */
static void what_is_too_large_widens(void **state)
{
    (void)state;
    static const char schema[] = "{\"properties\":{\"big\":{\"items\":{\"const\":1},\"maxItems\":90000},"
                                 "\"few\":{\"const\":2}},\"required\":[\"big\",\"few\"],\"type\":\"object\"}";
    qn_grammar *g;
    qn_matcher *m;
    qn_error err;
    assert_int_equal(qn_grammar_create_schema(schema, &(qn_schema_options){.widen = true}, &g, &err), QN_OK);
    assert_int_equal(qn_grammar_n_widened(g), 1);
    assert_string_equal(qn_grammar_widened(g, 0),
                        "#/properties/big: maxItems: the grammar has more than 200000 states");
    assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_OK);
    assert_true(takes(m, "{\"big\": [3], \"few\": 2}"));
    assert_false(takes(m, "{\"big\": [1], \"few\": 3}"));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* ---- failing allocations -------------------------------------------------------------------------------------- */

static void failing_allocations(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"$ref\":\"#/$defs/"
        "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\",\"minimum\":3,"
        "\"maximum\":90},\"n\":{\"$ref\":\"#/$defs/"
        "n\"},\"s\":{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":5}},"
        "\"required\":[\"v\"],\"patternProperties\":{\"^x\":{\"enum\":[1,\"a\",[true]]}},\"additionalProperties\":{"
        "\"not\":{}}}}}",
        "{\"oneOf\":[{\"required\":[\"k\"],\"properties\":{\"k\":{\"const\":\"a\"}}},{\"type\":\"array\","
        "\"prefixItems\":[{}],"
        "\"items\":{\"format\":\"date\"}}],\"type\":[\"object\",\"array\"]}"};
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
        for (long at = 0;; at++) {
            qn_grammar *g = NULL;
            qn_error err;
            books_open(at);
            const qn_status status =
                qn_grammar_create_schema(schemas[i], &(qn_schema_options){.widen = true}, &g, &err);
            const bool failed = books.n_failed > 0;
            qn_grammar_destroy(g);
            books_close();
            if (status != (failed ? QN_STATUS_nomem : QN_OK)) fail_msg("allocation %ld: %s", at, err.text);
            if (!failed) {
                assert_true(at >= 4);
                break;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(white_space),
        cmocka_unit_test(beside_gbnf),
        cmocka_unit_test(limits),
        cmocka_unit_test(comparisons_are_counted),
        cmocka_unit_test(long_formats),
        cmocka_unit_test(what_is_too_large_widens),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
