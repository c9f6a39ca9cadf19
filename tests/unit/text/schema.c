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
        qn_heap h = {.max_bytes = 1 << 20, .err = &err};
        qn__arena_init(&h.arena, 0);
        const qn_val schema = qn__parse_json(&h, schemas[i], strlen(schemas[i]), false);
        char name[16];
        snprintf(name, sizeof name, "args-%d", i);
        assert_int_equal(qn__grammar_add_schema(g, name, &schema, NULL, &err), QN_OK);
        assert_int_equal(qn__grammar_add_schema(g, name, &schema, NULL, &err), QN_STATUS_invalid);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(white_space),
        cmocka_unit_test(beside_gbnf),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
