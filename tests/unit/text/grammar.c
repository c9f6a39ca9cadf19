/* SPDX-License-Identifier: MIT */
/* tests/unit/text/grammar.c -- grammars: what they accept, held against a backtracking reading of the same text; masks,
 * held against asking for each token alone; what is refused, limits, and failing allocations. */
#include "grammar_rig.h"

#include "base/str.h"
#include "text/utf8.h"

#include <math.h>
#include <time.h>

/* ---- what is accepted ---------------------------------------------------------------------------------- */

/* Each text: + whole, ~ a beginning of one that is not whole, - neither. */
static void accepts(const char *gbnf, const char *const *texts)
{
    qn_grammar *g;
    qn_matcher *m = matcher_of(gbnf, &g);
    for (; *texts; texts++) {
        const char want = **texts, *text = *texts + 1;
        qn_matcher_reset(m);
        const bool begins = qn_matcher_accept_text(m, text, strlen(text), NULL) == QN_OK;
        const char found = !begins ? '-' : qn_matcher_may_end(m) ? '+' : '~';
        if (found != want) fail_msg("%s: \"%s\" is %c, expected %c", gbnf, text, found, want);
    }
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}
#define ACCEPTS(gbnf, ...) accepts(gbnf, (const char *const[]){__VA_ARGS__, NULL})

static void acceptance(void **state)
{
    (void)state;
    ACCEPTS("root ::= \"yes\" | \"no\"", "+yes", "+no", "~ye", "~", "-yess", "-x");
    ACCEPTS("root ::= [a-c]*", "+", "+abcabc", "-d");
    ACCEPTS("root ::= [a-c]+ \"!\"?", "~", "+a", "+ab!", "-!", "-a!!");
    ACCEPTS("root ::= [^\"\\\\]", "+a", "+\303\251", "~\303", "-\"", "-\\", "+\360\237\230\200", "-\377");
    ACCEPTS("root ::= .", "+x", "+\n", "~\342\202", "+\342\202\254", "-\355\240\200");
    /* the first and the last of each length, beside the surrogates, and what lies beyond */
    ACCEPTS("root ::= .", "+\177", "-\301\277", "+\302\200", "+\337\277", "-\340\237\277", "+\340\240\200",
            "+\355\237\277", "-\355\277\277", "+\356\200\200", "+\357\277\277", "-\360\217\277\277",
            "+\360\220\200\200", "+\364\217\277\277", "-\364\220\200\200");
    ACCEPTS("root ::= [\\x41-\\u00e9]", "+A", "+\303\251", "+\302\200", "-\303\252", "-@");
    ACCEPTS("root ::= [\\u0800-\\U0010FFFF-]", "+\340\240\200", "+\364\217\277\277", "+-", "-\364\220", "-\337\277");
    ACCEPTS("root ::= (\"ab\" | \"a\" \"c\")+ # comment\n", "+abac", "~aba", "+ab", "-abb");
    ACCEPTS("root ::= \"a\"{3}", "~aa", "+aaa", "-aaaa");
    ACCEPTS("root ::= \"a\"{2,}", "~a", "+aa", "+aaaaaaaa");
    ACCEPTS("root ::= \"a\"{,2}", "+", "+aa", "-aaa");
    ACCEPTS("root ::= (\"a\" \"b\"?){1,3} \"c\"", "+abaabc", "+aaac", "-aaaa", "-c");
    ACCEPTS("root ::= \"a\"{0} \"b\"", "+b", "-a");
    ACCEPTS("root ::= \"\" | x\nx ::= \"\\n\\t\\\"\\\\\"", "+", "+\n\t\"\\", "~\n");
    ACCEPTS("root ::= list\nlist ::= \"[\" (list (\",\" list)*)? \"]\"", "+[]", "+[[],[[]]]", "~[[", "-[]]", "-[,");
    ACCEPTS("root ::= a\n  | b\na ::=\n  \"x\"\nb ::= \"y\"\n  | \"z\" # end", "+x", "+y", "+z");
    ACCEPTS("root ::= e\ne ::= t ([-+] t)*\nt ::= [0-9]+ | \"(\" e \")\"", "+1+(2-33)", "~1+(", "-1++");
    ACCEPTS("root ::= (x?)* \"!\"\nx ::= \"\" | \"x\"", "+!", "+xx!", "-y");
    ACCEPTS("root ::= right\nright ::= \"a\" right | \"b\"", "+b", "+aaab", "~aaa");
}

/* JSON, and random texts near it, beside a reader of JSON. */
static const char json_gbnf[] = "root ::= value\n"
                                "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
                                "object ::= \"{\" ws (pair (ws \",\" ws pair)*)? ws \"}\"\n"
                                "pair ::= string ws \":\" ws value\n"
                                "array ::= \"[\" ws (value (ws \",\" ws value)*)? ws \"]\"\n"
                                "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n"
                                "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)?\n"
                                "ws ::= \" \"{0,2}\n";

static const char *json_value(const char *p);
static const char *json_space(const char *p)
{
    for (int i = 0; i < 2 && p && *p == ' '; i++) p++;
    return p;
}
static const char *json_string(const char *p)
{
    if (*p++ != '"') return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20) return NULL;
        if (*p == '\\' && (!*++p || !strchr("\"\\/bfnrt", *p))) return NULL;
    }
    return p + 1;
}
static const char *json_list(const char *p, char close, bool pairs)
{
    p = json_space(p + 1);
    if (*p == close) return p + 1;
    /* white space before the bracket belongs to either place */
    const char *q = json_space(p);
    if (*q == close) return q + 1;
    for (;;) {
        if (pairs) {
            p = json_string(p);
            p = json_space(p);
            if (!p || *p++ != ':') return NULL;
            p = json_space(p);
        }
        p = json_space(json_value(p));
        if (!p) return NULL;
        if (*p == close) return p + 1;
        if (*p++ != ',') return NULL;
        p = json_space(p);
    }
}
static const char *json_value(const char *p)
{
    static const char *const names[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (strncmp(p, names[i], strlen(names[i])) == 0) return p + strlen(names[i]);
    if (*p == '{' || *p == '[') return json_list(p, *p == '{' ? '}' : ']', *p == '{');
    if (*p == '"') return json_string(p);
    if (*p == '-') p++;
    if (*p == '0')
        p++;
    else if (*p >= '1' && *p <= '9')
        while (*p >= '0' && *p <= '9') p++;
    else
        return NULL;
    if (*p != '.') return p;
    if (*++p < '0' || *p > '9') return NULL;
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

static uint32_t random_next(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*x >> 33);
}

/* What repeats a symbol may be repeated itself. */
static void repetitions_of_repetitions(void **state)
{
    (void)state;
    ACCEPTS("root ::= \"a\"?* \"b\"", "+b", "+ab", "+aaab", "~a", "-c");
    ACCEPTS("root ::= \"a\"{2}{3}", "+aaaaaa", "~aaaaa", "-aaaaaaa", "~aa", "~");
    ACCEPTS("root ::= [ab]{2} + ? \"c\"", "+c", "+abc", "+abbac", "-ac", "-abac");
    ACCEPTS("root ::= (\"a\" {2,3}\n{2}) \"b\"{0}*", "+aaaa", "+aaaaa", "+aaaaaa", "~aaa", "-aaaaaaa", "-aaaab");
    ACCEPTS("root ::= x{0,2}{2}+ \"!\"\nx ::= \"a\" | \"bc\"", "+!", "+abca!", "+bcbcbcbcbc!", "-b!", "~a");
}

static void random_json(void **state)
{
    (void)state;
    static const char *const parts[] = {"{", "}", "[", "]",  ",", ":",    "\"a\"", "\"",
                                        "1", "0", "-", ".5", " ", "true", "null",  "x"};
    qn_grammar *g;
    qn_matcher *m = matcher_of(json_gbnf, &g);
    uint64_t seed = 7;
    int whole = 0;
    for (int i = 0; i < 60000; i++) {
        char text[64] = "";
        const int n = 1 + (int)(random_next(&seed) % 7);
        for (int k = 0; k < n; k++) strcat(text, parts[random_next(&seed) % ARRAY_LEN(parts)]);
        const char *end = json_value(text);
        const bool want = end && !*end;
        qn_matcher_reset(m);
        const bool got = qn_matcher_accept_text(m, text, strlen(text), NULL) == QN_OK && qn_matcher_may_end(m);
        if (got != want) fail_msg("\"%s\": %d, a reader of JSON says %d", text, got, want);
        whole += want;
    }
    assert_true(whole > 300);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

/* Walks at random; at each place the mask is what accepting each token alone says. */
static void masks_are_exact(void **state)
{
    (void)state;
    static const char *const grammars[] = {json_gbnf, "root ::= (\"ab\" | \"abc\" | [\\u00e0-\\u00ff])* \"yes\"?",
                                           "root ::= \"[[\" root \"]]\" | \"no\" | \"null\"{1,3}"};
    uint64_t seed = 3;
    int n_masks = 0;
    for (size_t i = 0; i < ARRAY_LEN(grammars); i++) {
        qn_grammar *g;
        qn_matcher *m = matcher_of(grammars[i], &g);
        for (int walk = 0; walk < 12; walk++) {
            char said[512] = "";
            qn_matcher_reset(m);
            for (int step = 0; step < 25; step++) {
                const uint32_t *mask;
                qn_token allowed[300];
                int n = 0;
                assert_int_equal(qn_matcher_mask(m, &mask, NULL), QN_OK);
                uint32_t copy[16];
                memcpy(copy, mask, (size_t)(N_WORDS + 256 + 31) / 32 * 4);
                for (qn_token t = 0; t < N_WORDS + 256; t++) {
                    /* from the same place: what was said, then the token */
                    const bool may = qn_matcher_accept(m, t, NULL) == QN_OK;
                    if (may) {
                        qn_matcher_reset(m);
                        assert_int_equal(qn_matcher_accept_text(m, said, strlen(said), NULL), QN_OK);
                    }
                    if (may != bit(copy, t))
                        fail_msg("after \"%s\", token %d: %d, mask %d", said, t, may, bit(copy, t));
                    if (may && !qn_tokenizer_is_eog(tok, t)) allowed[n++] = t;
                }
                n_masks++;
                assert_int_equal(n == 0, qn_matcher_must_end(m));
                if (n == 0) break;
                const qn_token t = allowed[random_next(&seed) % (uint32_t)n];
                assert_int_equal(qn_matcher_accept(m, t, NULL), QN_OK);
                size_t len;
                char *text;
                assert_int_equal(qn_detokenize(tok, &t, 1, &(qn_detokenize_options){.keep_prefix = true}, &text, &len,
                                               NULL),
                                 QN_OK);
                if (strlen(said) + len > 400 || strlen(text) != len) {
                    qn_free(text);
                    break;
                }
                strcat(said, text);
                qn_free(text);
            }
        }
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
    }
    assert_true(n_masks > 200);
}

static void impossible_tokens(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    qn_matcher *m = matcher_of("root ::= \"yes\"", &g);
    assert_int_equal(qn_matcher_accept(m, 21, &err), QN_STATUS_invalid); /* no */
    assert_non_null(strstr(err.text, "byte 0"));
    assert_int_equal(qn_matcher_accept(m, 3, &err), QN_STATUS_invalid); /* a control token */
    assert_int_equal(qn_matcher_accept(m, 2, &err), QN_STATUS_invalid); /* the end, too early */
    assert_int_equal(qn_matcher_accept(m, -1, &err), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept(m, 1 << 20, &err), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept(m, 20, &err), QN_OK); /* nothing had changed */
    assert_true(qn_matcher_may_end(m) && qn_matcher_must_end(m));
    assert_int_equal(qn_matcher_accept(m, 2, &err), QN_OK);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

/* A sampler under a mask takes the best of what is allowed, and says when nothing is. */
static void sampling(void **state)
{
    (void)state;
    float logits[100];
    uint32_t mask[4] = {0};
    qn_sampler *s;
    qn_token id;
    qn_error err;
    for (int i = 0; i < 100; i++) logits[i] = (float)i;
    assert_int_equal(qn_sampler_create(&(qn_sampler_params){.greedy = true}, 100, NULL, &s, NULL), QN_OK);
    for (int t = 0; t < 100; t += 9) {
        memset(mask, 0, sizeof mask);
        mask[t / 32] |= 1u << t % 32;
        mask[0] |= 1;
        assert_int_equal(qn_sampler_sample_masked(s, logits, mask, &id, NULL), QN_OK);
        assert_int_equal(id, t);
    }
    assert_int_equal(qn_sampler_sample_masked(s, logits, NULL, &id, NULL), QN_OK);
    assert_int_equal(id, 99);
    memset(mask, 0, sizeof mask);
    assert_int_equal(qn_sampler_sample_masked(s, logits, mask, &id, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "masked"));
    qn_sampler_destroy(s);
}

/* Masks of every kind over a vocabulary of many blocks and an end: what is drawn is what is drawn where the others have
 * no chance. */
static void sampling_many(void **state)
{
    (void)state;
    enum { N = 64 * 9 + 37 };
    static float logits[N], alone[N];
    uint32_t mask[N / 32 + 1];
    uint64_t seed = 9;
    for (int round = 0; round < 200; round++) {
        qn_sampler *a, *b;
        qn_token got, want;
        const qn_sampler_params params = {.seed = 5 + (uint64_t)round,
                                          .greedy = round % 3 == 0,
                                          .top_k = round % 2 ? 40 : -1};
        for (int w = 0; w <= N / 32; w++) {
            const uint32_t r = random_next(&seed) << 1 ^ random_next(&seed);
            mask[w] = round % 5 == 0   ? r
                      : round % 5 == 1 ? r & random_next(&seed) & random_next(&seed)
                      : round % 5 == 2 ? ~0u
                      : r % 3          ? 0
                                       : ~0u;
        }
        mask[round % 9] |= 1u << round % 32;
        for (int i = 0; i < N; i++) {
            logits[i] = (float)(random_next(&seed) % 1000) * 0.01f;
            if (i % 97 == 5) logits[i] = round % 2 ? NAN : INFINITY;
            alone[i] = bit(mask, i) ? logits[i] : -INFINITY;
        }
        assert_int_equal(qn_sampler_create(&params, N, NULL, &a, NULL), QN_OK);
        assert_int_equal(qn_sampler_create(&params, N, NULL, &b, NULL), QN_OK);
        assert_int_equal(qn_sampler_sample_masked(a, logits, mask, &got, NULL), QN_OK);
        assert_int_equal(qn_sampler_sample(b, alone, &want, NULL), QN_OK);
        assert_int_equal(got, want);
        assert_true(bit(mask, got));
        qn_sampler_destroy(a);
        qn_sampler_destroy(b);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------- */

static void refuses(const char *gbnf, qn_status status, const char *words_of_it)
{
    qn_grammar *g;
    qn_error err = {0};
    const clock_t begin = clock();
    assert_int_equal(qn_grammar_create(gbnf, NULL, &g, &err), status);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 10); /* a tenth of a second without sanitizers */
    if (!strstr(err.text, words_of_it)) fail_msg("%.60s: \"%s\" lacks \"%s\"", gbnf, err.text, words_of_it);
}

static char *repeated(const char *begin, const char *middle, size_t n, const char *end)
{
    qn_str s = {0};
    qn__str_puts(&s, begin);
    for (size_t i = 0; i < n; i++) qn__str_puts(&s, middle);
    qn__str_puts(&s, end);
    return qn__str_take(&s, NULL);
}

static void refusals(void **state)
{
    (void)state;
    refuses("", QN_STATUS_format, "no rule \"root\"");
    refuses("a ::= \"x\"", QN_STATUS_format, "no rule \"root\"");
    refuses("root ::= x", QN_STATUS_format, "line 1, column 10: rule \"x\" is not defined");
    refuses("root ::= \"a", QN_STATUS_format, "does not end");
    refuses("root ::= [a", QN_STATUS_format, "does not end");
    refuses("root ::= (\"a\"", QN_STATUS_format, "does not end");
    refuses("root ::= \"a\")", QN_STATUS_format, "found ')'");
    refuses("root ::= ^+", QN_STATUS_format, "found '^'");
    refuses("root ::= *", QN_STATUS_format, "found '*'");
    refuses("root ::= \"\\q\"", QN_STATUS_format, "escape");
    refuses("root ::= [\\uD800]", QN_STATUS_format, "no character");
    refuses("root ::= [z-a]", QN_STATUS_format, "ends before it begins");
    refuses("root ::= \"a\"{3,1}", QN_STATUS_format, "at most 1 of at least 3");
    refuses("root ::= \"a\"{1000000}", QN_STATUS_format, "repetitions");
    refuses("root ::= \"a\"{99999} \"b\"{99999} \"c\"{99999}", QN_STATUS_limit, "states");
    refuses("root ::= (((\"a\"{999}){999}){999}){999}", QN_STATUS_limit, "states");
    refuses("root ::= \"a\"{999}{999}{999}{999}", QN_STATUS_limit, "states");
    char *stars = repeated("root ::= \"a\"", "*", 60000, "");
    refuses(stars, QN_STATUS_limit, "states");
    qn_free(stars);
    refuses("root ::= \"a\"\nroot ::= \"b\"", QN_STATUS_format, "line 2, column 1: rule \"root\" is defined twice");
    refuses("root ::= root \"a\" | \"b\"", QN_STATUS_format, "begins with itself");
    refuses("root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a", QN_STATUS_format, "begins with itself");
    refuses("root ::= \"\\xff\377\"", QN_STATUS_format, "UTF-8");
    refuses("root", QN_STATUS_format, "expected a rule");
    refuses("root ::= <a", QN_STATUS_format, "column 10: this token does not end");
    refuses("root ::= <>", QN_STATUS_format, "without a name");
    refuses("root ::= <[x]>", QN_STATUS_format, "number");
    refuses("root ::= <[99999999999]>", QN_STATUS_format, "number");
    refuses("root ::= !a", QN_STATUS_format, "expected a token");
    char *deep = repeated("root ::= ", "(", 60000, "");
    refuses(deep, QN_STATUS_format, "nested");
    qn_free(deep);
    char *many = repeated("root ::= \"a\"\n", "", 0, "");
    qn_str s = {0};
    qn__str_puts(&s, many);
    for (int i = 0; i < 5000; i++) qn__str_printf(&s, "r%d ::= r%d?\n", i, i + 1);
    char *rules = qn__str_take(&s, NULL);
    refuses(rules, QN_STATUS_limit, "rules");
    qn_free(rules);
    qn_free(many);
}

static bool takes(qn_matcher *m, uint32_t cp)
{
    char text[4];
    qn_error err;
    qn_matcher_reset(m);
    return qn_matcher_accept_text(m, text, (size_t)qn__utf8_encode(cp, text), &err) == QN_OK;
}

/* Every other character from U+4E00 on, the last one first: 3000 ranges, and some that overlap. */
static void large_sets(void **state)
{
    (void)state;
    for (int negated = 0; negated < 2; negated++) {
        qn_str s = {0};
        qn_grammar *g;
        qn__str_printf(&s, "root ::= [%s", negated ? "^" : "");
        for (uint32_t cp = 0x4E00 + 6000 - 2; cp >= 0x4E00; cp -= 2) qn__str_printf(&s, "\\u%04X", cp);
        qn__str_puts(&s, "\\u4E00-\\u4E00c-eb-da]");
        char *source = qn__str_take(&s, NULL);
        qn_matcher *m = matcher_of(source, &g);
        for (uint32_t cp = 0x4DF8; cp < 0x4E00 + 6008; cp++)
            assert_int_equal(takes(m, cp), (cp >= 0x4E00 && cp < 0x4E00 + 6000 && cp % 2 == 0) != negated);
        for (uint32_t cp = 'A'; cp <= 'z'; cp++) assert_int_equal(takes(m, cp), (cp >= 'a' && cp <= 'e') != negated);
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
        qn_free(source);
    }
    char *again = repeated("root ::= [", "zyx", 300000, "]{100000}");
    refuses(again, QN_STATUS_limit, "repetitions");
    qn_free(again);
}

/* Long outputs, deep ones, and more places than the tables hold. */
static void long_outputs(void **state)
{
    (void)state;
    qn_grammar *g;
    qn_error err;
    qn_matcher *m = matcher_of("root ::= \"[\" root \"]\" | \"\"", &g);
    for (int i = 0; i < 9000; i++) assert_int_equal(qn_matcher_accept_text(m, "[", 1, &err), QN_OK);
    for (int i = 0; i < 9000; i++) assert_int_equal(qn_matcher_accept_text(m, "]", 1, &err), QN_OK);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_reset(m);
    qn_status status = QN_OK;
    for (int i = 0; i < 20000 && status == QN_OK; i++) status = qn_matcher_accept_text(m, "[", 1, &err);
    assert_int_equal(status, QN_STATUS_limit);
    assert_non_null(strstr(err.text, "deep"));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    /* every state of a long chain is another: the tables are emptied on the way, and the place is kept */
    m = matcher_of("root ::= [ab]{40000} \"!\"", &g);
    for (int i = 0; i < 40000; i++) {
        const uint32_t *mask;
        assert_int_equal(qn_matcher_accept_text(m, i % 3 ? "a" : "b", 1, &err), QN_OK);
        if (i % 1000 == 0) assert_int_equal(qn_matcher_mask(m, &mask, &err), QN_OK);
    }
    assert_int_equal(qn_matcher_accept_text(m, "a", 1, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_matcher_accept_text(m, "!", 1, NULL), QN_OK);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
}

static void failing_allocations(void **state)
{
    (void)state;
    qn_tokenizer_destroy(tok); /* made by the hook's books below, so that each frees its own */
    tok = NULL;
    for (long at = 0;; at++) {
        qn_grammar *g = NULL;
        qn_matcher *m = NULL;
        const uint32_t *mask;
        qn_error err;
        books_open(-1);
        assert_int_equal(make_tokenizer(NULL), 0);
        books.countdown = at;
        qn_status status = qn_grammar_create(json_gbnf, NULL, &g, &err);
        if (status == QN_OK) status = qn_matcher_create(g, tok, &m, &err);
        const qn_grammar_trigger triggers[] = {{.text = "ab", .after = true}, {.text = "{"}};
        if (status == QN_OK) status = qn_matcher_set_lazy(m, &(qn_lazy_options){triggers, 2, true}, &err);
        for (const char *p = "a{\"a\": [1, true, {\"b\": []}]}"; *p && status == QN_OK; p++) {
            status = qn_matcher_accept_text(m, p, 1, &err);
            if (status == QN_OK) status = qn_matcher_mask(m, &mask, &err);
        }
        const bool failed = books.n_failed > 0;
        qn_matcher_destroy(m);
        qn_grammar_destroy(g);
        books.countdown = -1;
        qn_tokenizer_destroy(tok);
        tok = NULL;
        assert_int_equal(books.bytes, 0);
        qn_set_allocator(NULL);
        assert_int_equal(status, failed ? QN_STATUS_nomem : QN_OK);
        if (!failed) {
            assert_true(at > 30);
            break;
        }
    }
    make_tokenizer(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acceptance),        cmocka_unit_test(repetitions_of_repetitions),
        cmocka_unit_test(random_json),       cmocka_unit_test(masks_are_exact),
        cmocka_unit_test(impossible_tokens),

        cmocka_unit_test(sampling),          cmocka_unit_test(sampling_many),
        cmocka_unit_test(refusals),          cmocka_unit_test(large_sets),
        cmocka_unit_test(long_outputs),      cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
