/* SPDX-License-Identifier: MIT */
/* tests/unit/text/table.c -- running grammars that are ambiguous, endless or hostile, and tables: what they share, how
 * they start anew, and what they cost. Every answer comes within 0.1 s (10 with sanitizers) and 64 MB. */
#include "base/str.h"
#include "text/grammar/match.h"

#include "grammar_rig.h"

#include <time.h>

static double seconds(clock_t since) { return (double)(clock() - since) / CLOCKS_PER_SEC; }

/* ---- ambiguity ------------------------------------------------------------------------------------------------ */

/* Grammars that read a text in exponentially many ways; + whole, ~ a beginning. */
static void ambiguous(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *again;
        int n;
        const char *rest;
        char want;
    } rows[] = {
        {"root ::= \"(\" root \")\" | \"(\" root \"]\" | \"\"", "(", 60, "])])])", '~'},
        {"root ::= x x x x x x x x x x x x\nx ::= \"a\"*", "a", 300, "", '+'},
        {"root ::= \"a\" root \"a\" | \"a\" root | \"a\"", "a", 60, "", '+'},
        {"root ::= a | b\na ::= \"x\" root \"y\"?\nb ::= \"x\" root \"z\"? | \"x\"", "x", 60, "yzyzyz", '+'},
        {"root ::= (\"a\" | \"a\" \"a\" | \"aaa\")* \"b\"", "a", 200, "b", '+'},
        {"root ::= (\"a\"? ){200} \"a\"{200}", "a", 300, "", '+'},
        {"root ::= ((((\"a\"*)*)*)*)* \"b\"", "a", 300, "b", '+'},
        {"root ::= e\ne ::= t (\"+\" e)? | t (\"+\" e \"+\" t)?\nt ::= \"1\" | \"(\" e \")\" | \"(\" e \")\" \"!\"?",
         "(1+", 50, "1))", '~'},
        {"root ::= (a | b)* \"!\"\na ::= \"x\" (a | b)* \"y\"\nb ::= \"x\" (b | a)* \"z\"", "xx", 30, "yzyz", '~'},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        qn_grammar *g;
        qn_matcher *m = matcher_of(rows[i].gbnf, &g);
        const clock_t begin = clock();
        qn_status status = QN_OK;
        const uint32_t *mask;
        for (int k = 0; k < rows[i].n && status == QN_OK; k++)
            status = qn_matcher_accept_text(m, rows[i].again, strlen(rows[i].again), NULL);
        if (status == QN_OK) status = qn_matcher_accept_text(m, rows[i].rest, strlen(rows[i].rest), NULL);
        assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
        const char got = status != QN_OK ? '-' : qn_matcher_may_end(m) ? '+' : '~';
        if (got != rows[i].want) fail_msg("%s: %c, expected %c", rows[i].gbnf, got, rows[i].want);
        assert_true(seconds(begin) < 10);
        assert_true(qn__table_bytes(m->table) < (size_t)32 << 20);
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
    }
}

/* What one frame for several callers gives, held against reading the same brackets one by one. */
static void merged_callers(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_matcher *m =
        matcher_of("root ::= \"(\" root \")\" | \"(\" root \"]\" | \"[\" root \"]\" | \"[\" root \")\" \"!\" | \"\"",
                   &g);
    uint64_t x = 11;
    for (int round = 0; round < 3000; round++) {
        char text[40], open[40];
        int n = 0, depth = 0;
        bool wrong = false, bang = false;
        while (n < 12 && !wrong) {
            static const char all[] = "(([[)]!";
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const char c = all[(x >> 33) % 7];
            const bool closing = c == ')' || c == ']';
            if (bang)
                wrong = c != '!';
            else if (closing)
                wrong = depth == 0;
            else if (c == '!' || (n > 0 && text[n - 1] != '(' && text[n - 1] != '['))
                wrong = true;
            if (!wrong && closing)
                bang = open[--depth] == '[' && c == ')';
            else if (!wrong && c == '!')
                bang = false;
            else if (!wrong)
                open[depth++] = c;
            text[n++] = c;
        }
        qn_matcher_reset(m);
        const int good = n - wrong;
        if (qn_matcher_accept_text(m, text, (size_t)good, NULL) != QN_OK) fail_msg("%.*s was refused", good, text);
        if (wrong && qn_matcher_accept_text(m, text + good, 1, NULL) == QN_OK) fail_msg("%.*s was accepted", n, text);
        assert_int_equal(qn_matcher_may_end(m), depth == 0 && !bang);
    }
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* ---- what is cut off ------------------------------------------------------------------------------------------ */

static void dead_ends(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    const uint32_t *mask;
    static const char *const endless[] = {"root ::= \"a\" root", "root ::= a | b\na ::= \"x\" b\nb ::= \"y\" a",
                                          "root ::= [^\\x00-\\U0010FFFF]"};
    for (size_t i = 0; i < ARRAY_LEN(endless); i++) {
        assert_int_equal(qn_grammar_create(endless[i], NULL, &g, &err), QN_STATUS_format);
        assert_non_null(strstr(err.text, "never ends"));
    }
    /* what can be said can be brought to an end: after "a" nothing could follow */
    qn_matcher *m = matcher_of("root ::= \"a\" never | \"b\" (\"c\" never | \"d\")\nnever ::= \"x\" never", &g);
    assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
    assert_true(bit(mask, N_WORDS + 'b') && !bit(mask, N_WORDS + 'a'));
    assert_int_equal(qn_matcher_accept_text(m, "b", 1, NULL), QN_OK);
    assert_int_equal(qn_matcher_accept_text(m, "c", 1, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept_text(m, "d", 1, NULL), QN_OK);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

static void left_recursion(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "root ::= root \"a\" | \"b\"",
        "root ::= a\na ::= b \"x\"\nb ::= c?\nc ::= d* a\nd ::= \"d\"",
        "root ::= e e root \"x\" | \"y\"\ne ::= \"\" | \"e\"",
        "root ::= (root | \"a\")+",
        "root ::= \"x\" tail\ntail ::= (\"\" | \" \") more\nmore ::= opt opt tail\nopt ::= \"o\"?",
        "root ::= \"a\"\nunused ::= unused",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        qn_grammar *g;
        qn_error err;
        assert_int_equal(qn_grammar_create(rows[i], NULL, &g, &err), QN_STATUS_format);
        if (!strstr(err.text, "begins with itself")) fail_msg("%s: %s", rows[i], err.text);
    }
}

/* ---- cost ----------------------------------------------------------------------------------------------------- */

/* In `part` @ is the number of a part, $ that of the next. */
static char *made(const char *begin, const char *part, int n, const char *end)
{
    qn_str s = {0};
    qn__str_puts(&s, begin);
    for (int i = 0; i < n; i++)
        for (const char *p = part; *p; p++) {
            if (*p == '@' || *p == '$')
                qn__str_printf(&s, "%d", i + (*p == '$'));
            else
                qn__str_putc(&s, *p);
        }
    qn__str_puts(&s, end);
    return qn__str_take(&s, NULL);
}

/* Grammars at the limits of what is taken: compiled, a first mask, a text, within bounds of time and memory; a limit
 * may be the answer. */
static void hostile(void **state)
{
    (void)state;
    struct {
        char *gbnf;
        const char *text;
    } rows[] = {
        {made("root ::= ", "\"a\"? ", 20000, ""), "aaaaaaaaaaaaaaaaaaaa"},
        {made("root ::= ", "(\"a\" \"b\"?)* ", 8000, ""), "abaabaababaab"},
        {made("root ::= r0\n", "r@\n", 0, "r0 ::= \"x\"\n"), "x"},
        {made("root ::= r0\n", "r@ ::= r$? r$? \"a\"?\n", 4000, "r4000 ::= \"z\""), "aaaazz"},
        {made("root ::= r0\n", "r@ ::= \"(\" r$ \")\" | r$\n", 4000, "r4000 ::= \"z\""), "((((((z))"},
        {made("root ::= (a | b)* a ", "(a | b) ", 24, "\na ::= \"a\"\nb ::= \"b\""), "abbabababbabbbabaabbab"},
        {made("root ::= w+\nw ::= \"\"", " | \"word@\"", 15000, ""), "word17word199word3"},
        {made("root ::= ", "[a-z]{1000} | ", 100, "\"x\""), "abcdefgh"},
        {made("root ::= [^\\x00]{12000} \"!\"", "", 0, ""), "some text"},
        {made("root ::= \"a\"{40000} | ([a-z]{2}){15000} | ([ab]{3}){8000}", "", 0, ""), "aaaaaabaa"},
    };
    free_tokenizer(NULL); /* each row has its own, in the books */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        qn_grammar *g = NULL;
        qn_matcher *m = NULL;
        qn_error err;
        const uint32_t *mask;
        books_open(-1);
        make_tokenizer(NULL);
        const clock_t begin = clock();
        qn_status status = qn_grammar_create(rows[i].gbnf, NULL, &g, &err);
        if (status == QN_OK) status = qn_matcher_create(g, tok, &m, &err);
        for (const char *p = rows[i].text; *p && status == QN_OK; p++) {
            status = qn_matcher_mask(m, &mask, &err);
            if (status == QN_OK) status = qn_matcher_accept_text(m, p, 1, &err);
        }
        if (status != QN_OK && status != QN_STATUS_limit) fail_msg("%.60s: %s", rows[i].gbnf, err.text);
        if (seconds(begin) > 10) fail_msg("%.60s: %g s", rows[i].gbnf, seconds(begin));
        if (books.bytes > 64 << 20) fail_msg("%.60s: %lld bytes", rows[i].gbnf, (long long)books.bytes);
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
        free_tokenizer(NULL);
        assert_int_equal(books.bytes, 0);
        qn_set_allocator(NULL);
        qn_free(rows[i].gbnf);
    }
    tok = NULL;
    make_tokenizer(NULL);
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static void sharing(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_matcher *a = matcher_of("root ::= [a-z]* \"!\"", &g), *b;
    const uint32_t *mask_a, *mask_b;
    assert_int_equal(qn_matcher_accept_text(a, "ab", 2, NULL), QN_OK);
    assert_int_equal(qn_matcher_mask(a, &mask_a, NULL), QN_OK);
    const size_t bytes = qn__table_bytes(a->table);
    assert_int_equal(qn_matcher_create(g, tok, &b, NULL), QN_OK);
    assert_ptr_equal(a->table, b->table);
    assert_int_equal(qn_matcher_accept_text(b, "xyz", 3, NULL), QN_OK);
    assert_int_equal(qn_matcher_mask(b, &mask_b, NULL), QN_OK);
    assert_ptr_equal(mask_a, mask_b); /* the same place, the same mask */
    assert_int_equal(qn__table_bytes(a->table), bytes);
    const qn_table *table = a->table;
    qn_matcher_destroy(a);
    qn_matcher_destroy(b);
    assert_int_equal(qn_matcher_create(g, tok, &a, NULL), QN_OK); /* kept between outputs */
    assert_ptr_equal(a->table, table);
    /* another vocabulary is another table; of those nobody uses two are kept */
    qn_tokenizer *mine = tok;
    for (int i = 0; i < 6; i++) {
        make_tokenizer(NULL);
        assert_int_equal(qn_matcher_create(g, tok, &b, NULL), QN_OK);
        assert_ptr_not_equal(b->table, table);
        qn_matcher_destroy(b);
        free_tokenizer(NULL);
    }
    tok = mine;
    int n = 0;
    for (const qn_table *t = g->tables.first; t; t = t->next) n++;
    assert_int_equal(n, 3);
    qn_matcher_destroy(a);
    qn_grammar_destroy(g);
}

/* A table starts anew: matchers stand where they stood, and a mask that was lent stays. */
static void starting_anew(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_matcher *m[4];
    static const char *const said[] = {"", "[[", "[[]", "[\"ab"};
    const uint32_t *mask[4], *again;
    uint32_t copy[4][(N_WORDS + 256) / 32 + 1];
    m[0] = matcher_of("root ::= item\nitem ::= \"[\" (item (\",\" item)*)? \"]\" | \"\\\"\" [a-z]* \"\\\"\"", &g);
    for (int i = 1; i < 4; i++) assert_int_equal(qn_matcher_create(g, tok, &m[i], NULL), QN_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(qn_matcher_accept_text(m[i], said[i], strlen(said[i]), NULL), QN_OK);
        assert_int_equal(qn_matcher_mask(m[i], &mask[i], NULL), QN_OK);
        memcpy(copy[i], mask[i], sizeof copy[i]);
    }
    for (int i = 0; i < 500; i++) assert_int_equal(qn_matcher_accept_text(m[0], "[", 1, NULL), QN_OK);
    const size_t bytes = qn__table_bytes(m[0]->table);
    qn_matcher_reset(m[0]);
    int32_t also = m[2]->config;
    assert_true(qn__table_collect(m[0]->table, &also, 1));
    assert_int_equal(also, m[2]->config);
    assert_true(qn__table_bytes(m[0]->table) < bytes / 4);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(copy[i], mask[i], sizeof copy[i]);
        assert_int_equal(qn_matcher_mask(m[i], &again, NULL), QN_OK);
        assert_ptr_equal(mask[i], again);
    }
    assert_int_equal(qn_matcher_accept_text(m[1], "\"a\"],[]]", 8, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m[1]));
    assert_int_equal(qn_matcher_accept_text(m[2], "]", 1, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m[2]));
    assert_int_equal(qn_matcher_accept_text(m[3], "c\"]", 3, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m[3]));
    for (int i = 0; i < 4; i++) qn_matcher_destroy(m[i]);
    qn_grammar_destroy(g);
}

/* More places than a table holds: it starts anew on the way, and again. */
static void full_tables(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    qn_matcher *m = matcher_of("root ::= [ab]{60000} \"!\"", &g);
    size_t most = 0;
    for (int i = 0; i < 60000; i++) {
        assert_int_equal(qn_matcher_accept_text(m, i % 3 ? "a" : "b", 1, &err), QN_OK);
        const size_t bytes = qn__table_bytes(m->table);
        if (bytes > most) most = bytes;
    }
    assert_true(most < QN_TABLE_FULL_BYTES + (1 << 20));
    assert_int_equal(qn_matcher_accept_text(m, "a", 1, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept_text(m, "!", 1, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    /* all in one call */
    char *text = malloc(60001);
    assert_non_null(text);
    memset(text, 'a', 60000);
    text[60000] = '!';
    qn_matcher_reset(m);
    assert_int_equal(qn_matcher_accept_text(m, text, 60001, &err), QN_OK);
    assert_true(qn_matcher_must_end(m));
    free(text);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* With the table full at every step, in the middle of masks and tokens: what comes out is the same. */
static void full_at_every_step(void **state)
{
    (void)state;
    qn_grammar *g, *h;
    static const char gbnf[] = "root ::= (\"x\" | [a-z]{3,9} | \"{\" root \"}\" | <|x|>)* \"yes\"";
    qn_matcher *m = matcher_of(gbnf, &g), *n = matcher_of(gbnf, &h);
    uint64_t x = 5;
    for (int i = 0; i < 60; i++) {
        const uint32_t *a, *b;
        assert_true(qn__table_collect(m->table, NULL, 0));
        m->table->full_bytes = qn__table_bytes(m->table) + 1500;
        assert_int_equal(qn_matcher_mask(m, &a, NULL), QN_OK);
        assert_int_equal(qn_matcher_mask(n, &b, NULL), QN_OK);
        assert_memory_equal(a, b, (N_WORDS + 256) / 32 * 4);
        qn_token t;
        do {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            t = (qn_token)((x >> 33) % (N_WORDS + 256));
        } while (!bit(a, t) || qn_tokenizer_is_eog(tok, t));
        assert_int_equal(qn_matcher_accept(m, t, NULL), QN_OK);
        assert_int_equal(qn_matcher_accept(n, t, NULL), QN_OK);
        if (qn_matcher_must_end(m)) break;
    }
    qn_matcher_destroy(m);
    qn_matcher_destroy(n);
    qn_grammar_destroy(g);
    qn_grammar_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ambiguous),      cmocka_unit_test(merged_callers), cmocka_unit_test(dead_ends),
        cmocka_unit_test(left_recursion), cmocka_unit_test(hostile),        cmocka_unit_test(sharing),
        cmocka_unit_test(starting_anew),  cmocka_unit_test(full_tables),    cmocka_unit_test(full_at_every_step),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
