/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sampler.c -- what each link leaves, and which tokens are drawn, against the figures of
 * tests/oracle/sampler.py: a program that shares no code with the library and computes from the definitions in double
 * precision. */
#include "sampler_common.h"
#include "text/sampler/sampler.h"

typedef struct vector_case {
    const char *name;
    qn_sampler_params p;
    int32_t n_vocab;
    const float *logits; /* NULL: generated */
    uint32_t gen_seed;
    float gen_scale;
    int n_history;
    const qn_token *history;
    const qn_token *breakers; /* length, tokens; length, tokens; ... 0 */
    size_t n_left;            /* candidates in all */
    int64_t id_sum;           /* of their ids */
    size_t n_shown;           /* the first of them, most likely first */
    const qn_token *ids;
    const double *p_want;
} vector_case;

typedef struct trace_case {
    const char *name;
    qn_sampler_params p;
    int32_t n_vocab;
    uint32_t gen_seed; /* plus the step */
    float gen_scale;
    int n_prompt;
    const qn_token *prompt;
    int n_ids;
    const qn_token *ids;
} trace_case;

#include "sampler_vectors.inc"
#define N_CASES (sizeof vector_cases / sizeof *vector_cases)

static void add_breakers(qn_sampler *s, const qn_token *list)
{
    for (; list && *list > 0; list += 1 + *list)
        assert_int_equal(qn__dry_add_breaker(s->dry.table, list[1], list + 2, (size_t)*list - 1, NULL), QN_OK);
}

/* Each token once, most likely first, ties by id, probabilities that add up to 1. */
static void check_order(const vector_case *v, const qn_candidate *c, size_t n)
{
    char *seen = calloc(1, (size_t)v->n_vocab);
    double sum = 0;
    int64_t id_sum = 0;

    for (size_t i = 0; i < n; i++) {
        assert_in_range(c[i].token, 0, v->n_vocab - 1);
        assert_false(seen[c[i].token]);
        seen[c[i].token] = 1;
        sum += (double)c[i].p;
        id_sum += c[i].token;
        if (i == 0) continue;
        assert_true(c[i].logit <= c[i - 1].logit && c[i].p <= c[i - 1].p);
        if (c[i].p > 0 && c[i].logit == c[i - 1].logit) assert_true(c[i].token > c[i - 1].token || c[i].p < c[i - 1].p);
    }
    free(seen);
    if (fabs(sum - 1) > 1e-5) fail_msg("%s: probabilities add up to %.9g", v->name, sum);
    assert_int_equal(id_sum, v->id_sum);
}

static void check_case(const vector_case *v)
{
    qn_sampler *s = make_sampler(&v->p, v->n_vocab);
    float *logits = malloc(2 * sizeof *logits * (size_t)v->n_vocab), *copy = logits + v->n_vocab;
    size_t n;

    if (v->logits)
        memcpy(logits, v->logits, sizeof *logits * (size_t)v->n_vocab);
    else
        generate(logits, v->n_vocab, v->gen_seed, v->gen_scale);
    memcpy(copy, logits, sizeof *logits * (size_t)v->n_vocab);
    add_breakers(s, v->breakers);
    for (int i = 0; i < v->n_history; i++) qn_sampler_accept(s, v->history[i]);

    const qn_token token = sample(s, logits);
    assert_memory_equal(logits, copy, sizeof *logits * (size_t)v->n_vocab);
    const qn_candidate *c = qn_sampler_candidates(s, &n);
    bool drawn = false;
    for (size_t i = 0; i < n; i++) drawn |= c[i].token == token && c[i].p > 0;
    if (!drawn) fail_msg("%s: drew %d, which is no candidate", v->name, token);
    if (n != v->n_left) fail_msg("%s: %zu candidates, %zu expected", v->name, n, v->n_left);
    for (size_t i = 0; i < v->n_shown; i++) {
        const double want = v->p_want[i];
        if (c[i].token != v->ids[i] || fabs((double)c[i].p - want) > 1e-5 * want + 1e-37)
            fail_msg("%s: candidate %zu is %d with %.9g, %d with %.9g expected", v->name, i, c[i].token, (double)c[i].p,
                     v->ids[i], want);
    }
    check_order(v, c, n);
    free(logits);
    qn_sampler_destroy(s);
}

/* A row's own vectors are those whose name starts with its letter; a new row without any fails. */
static void check_link(char letter)
{
    int n = 0;

    for (size_t i = 0; i < N_CASES; i++) {
        if (vector_cases[i].name[0] != letter || vector_cases[i].name[1] != ':') continue;
        check_case(&vector_cases[i]);
        n++;
    }
    assert_true(n >= 10);
}
#define LINK_TEST(name, letter, text) \
    static void link_##name(void **state) \
    { \
        (void)state; \
        check_link(letter); \
    }
QN_SAMPLER_ROWS(LINK_TEST)

static void other_vectors(void **state)
{
    int n = 0;

    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        if (vector_cases[i].name[1] == ':' && strchr("edskypmxt", vector_cases[i].name[0])) continue;
        check_case(&vector_cases[i]);
        n++;
    }
    assert_true(n >= 100);
}

/* The ids of whole runs: the stream, the draw, and what carries over from token to token. */
static void traces(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof trace_cases / sizeof *trace_cases; t++) {
        const trace_case *tc = &trace_cases[t];
        qn_sampler *s = make_sampler(&tc->p, tc->n_vocab);
        float *logits = malloc(sizeof *logits * (size_t)tc->n_vocab);

        for (int again = 0; again < 2; again++) { /* a reset sampler begins anew */
            for (int i = 0; i < tc->n_prompt; i++) qn_sampler_accept(s, tc->prompt[i]);
            for (int i = 0; i < tc->n_ids; i++) {
                generate(logits, tc->n_vocab, tc->gen_seed + (uint32_t)i, tc->gen_scale);
                const qn_token token = sample(s, logits);
                if (token != tc->ids[i]) fail_msg("%s: step %d drew %d, %d expected", tc->name, i, token, tc->ids[i]);
                if (i % 3 == 0) qn_sampler_candidates(s, &(size_t){0}); /* looking changes nothing */
                qn_sampler_accept(s, token);
            }
            qn_sampler_reset(s);
        }
        free(logits);
        qn_sampler_destroy(s);
    }
}

int main(void)
{
#define LINK_ROW(name, letter, text) cmocka_unit_test(link_##name),
    const struct CMUnitTest tests[] = {
        QN_SAMPLER_ROWS(LINK_ROW) cmocka_unit_test(other_vectors),
        cmocka_unit_test(traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
