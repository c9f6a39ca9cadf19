/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sampler_params.c -- defaults, ranges and their messages, order strings, allocation failures. */
#include "sampler_common.h"
#include "text/sampler/sampler.h"
#include "unit/base/failing.h"

/* The text of the error of a create call that must be refused. */
static const char *refusal(const qn_sampler_params *p, int32_t n_vocab)
{
    static qn_error err;
    qn_sampler *s = NULL;

    memset(&err, 0, sizeof err);
    if (qn_sampler_create(p, n_vocab, NULL, &s, &err) != QN_STATUS_invalid)
        fail_msg("accepted, or refused otherwise: %s", err.text);
    assert_null(s);
    assert_int_equal(qn_sampler_create(p, n_vocab, NULL, &s, NULL), QN_STATUS_invalid);
    return err.text;
}

static void accepted(const qn_sampler_params *p) { qn_sampler_destroy(make_sampler(p, 100)); }

static void zero_is_the_default(void **state)
{
    const qn_sampler_params documented = {
        .seed = 7,
        .temperature = 0.8f,
        .dynatemp_exponent = 1,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .min_keep = 1,
        .penalty_last_n = 64,
        .repeat_penalty = 1,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last_n = -1,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
        .order = "edskypmxt",
        .n_history = 4096,
    };
    qn_sampler *zero = make_sampler(&(qn_sampler_params){.seed = 7}, 3000), *said = make_sampler(&documented, 3000),
               *none;
    float logits[3000];

    (void)state;
    assert_memory_equal(&zero->p, &said->p, sizeof zero->p);
    assert_memory_equal(zero->chain, said->chain, sizeof zero->chain);
    assert_int_equal(zero->n_chain, QN_SAMPLER_COUNT);
    for (uint32_t i = 0; i < 50; i++) {
        generate(logits, 3000, i, 3);
        assert_int_equal(sample(zero, logits), sample(said, logits));
    }
    /* no parameters at all are all zero, too */
    assert_int_equal(qn_sampler_create(NULL, 3000, NULL, &none, NULL), QN_OK);
    assert_memory_equal((char *)&none->p + sizeof none->p.seed, (char *)&zero->p + sizeof none->p.seed,
                        sizeof none->p - sizeof none->p.seed);
    qn_sampler_destroy(none);
    qn_sampler_destroy(said);
    qn_sampler_destroy(zero);
}

/* clang-format off */
#define FLOAT_ROW(field, low, high, ...) {#field, offsetof(qn_sampler_params, field), low, high, {__VA_ARGS__}}
/* clang-format on */
#define TINIEST 1.4e-45f
#define MOST    3.4028235e38f
static const struct {
    const char *name;
    size_t offset;
    float low, high, bad[3];
} float_rows[] = {
    FLOAT_ROW(temperature, TINIEST, MOST, -0.5f, -TINIEST),
    FLOAT_ROW(dynatemp_range, TINIEST, MOST, -0.5f),
    FLOAT_ROW(dynatemp_exponent, TINIEST, MOST, -1),
    FLOAT_ROW(top_p, TINIEST, 1, 1.5f, -0.25f, -1),
    FLOAT_ROW(min_p, TINIEST, 1, 1.0000001f, -0.5f, -2),
    FLOAT_ROW(min_p, -1, 1, 2),
    FLOAT_ROW(typical_p, TINIEST, 1, 1.25f, -1),
    FLOAT_ROW(top_n_sigma, TINIEST, MOST, -1),
    FLOAT_ROW(xtc_probability, TINIEST, 1, 1.5f, -0.5f),
    FLOAT_ROW(xtc_threshold, TINIEST, 1, 1.5f, -0.5f),
    FLOAT_ROW(repeat_penalty, TINIEST, MOST, -1),
    FLOAT_ROW(frequency_penalty, -MOST, MOST, INFINITY),
    FLOAT_ROW(presence_penalty, -MOST, MOST, -INFINITY),
    FLOAT_ROW(dry_multiplier, TINIEST, MOST, -0.5f),
    FLOAT_ROW(dry_base, 1, MOST, 0.99f, -1),
    FLOAT_ROW(mirostat_tau, TINIEST, MOST, -1),
    FLOAT_ROW(mirostat_eta, TINIEST, MOST, -0.5f),
};
/* clang-format off */
#define INT_ROW(field, low, high, ...) {#field, offsetof(qn_sampler_params, field), low, high, {__VA_ARGS__}}
/* clang-format on */
static const struct {
    const char *name;
    size_t offset;
    int32_t low, high, bad[3];
} int_rows[] = {
    INT_ROW(top_k, -1, INT32_MAX, -2, INT32_MIN),
    INT_ROW(min_keep, 1, INT32_MAX, -1),
    INT_ROW(penalty_last_n, -2, 1 << 20, -3, (1 << 20) + 1),
    INT_ROW(dry_allowed_length, 1, INT32_MAX, -1),
    INT_ROW(dry_last_n, -1, 1 << 20, -2, (1 << 20) + 1),
    INT_ROW(mirostat, 1, 2, 3, -1),
    INT_ROW(n_history, 1, 1 << 20, -1, (1 << 20) + 1, INT32_MAX),
};

static void check_message(const char *text, const char *name, const char *value)
{
    if (!strstr(text, name) || !strstr(text, value) || !strstr(text, "expected"))
        fail_msg("\"%s\" should name %s, %s and what was expected", text, name, value);
}

static void ranges(void **state)
{
    char value[32];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(float_rows); i++) {
        const float ends[] = {float_rows[i].low, float_rows[i].high};
        for (int j = 0; j < 2; j++) {
            qn_sampler_params p = {0};
            memcpy((char *)&p + float_rows[i].offset, &ends[j], sizeof ends[j]);
            accepted(&p);
        }
        for (int j = 0; j < 5; j++) {
            const float bad = j < 3 ? float_rows[i].bad[j] : j == 3 ? NAN : -INFINITY;
            qn_sampler_params p = {0};
            if (bad == 0) continue;
            memcpy((char *)&p + float_rows[i].offset, &bad, sizeof bad);
            snprintf(value, sizeof value, "is %g,", (double)bad);
            check_message(refusal(&p, 100), float_rows[i].name, value);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(int_rows); i++) {
        const int32_t ends[] = {int_rows[i].low, int_rows[i].high};
        for (int j = 0; j < 2; j++) {
            qn_sampler_params p = {0};
            memcpy((char *)&p + int_rows[i].offset, &ends[j], sizeof ends[j]);
            accepted(&p);
        }
        for (int j = 0; j < 3 && int_rows[i].bad[j] != 0; j++) {
            qn_sampler_params p = {0};
            memcpy((char *)&p + int_rows[i].offset, &int_rows[i].bad[j], sizeof *int_rows[i].bad);
            snprintf(value, sizeof value, "is %d,", int_rows[i].bad[j]);
            check_message(refusal(&p, 100), int_rows[i].name, value);
        }
    }
}

static void sizes(void **state)
{
    (void)state;
    check_message(refusal(NULL, 0), "n_vocab", "is 0,");
    check_message(refusal(NULL, -1), "n_vocab", "is -1,");
    check_message(refusal(NULL, INT32_MAX), "n_vocab", "is 2147483647,");
    check_message(refusal(&(qn_sampler_params){.penalty_last_n = 200, .n_history = 100}, 10), "penalty_last_n",
                  "is 200,");
    check_message(refusal(&(qn_sampler_params){.dry_last_n = 101, .n_history = 100}, 10), "dry_last_n", "is 101,");
    accepted(&(qn_sampler_params){.penalty_last_n = 100, .dry_last_n = 100, .n_history = 100});
    accepted(&(qn_sampler_params){.n_history = 5});       /* a default window gives way */
    accepted(&(qn_sampler_params){.dry_last_n = 100000}); /* a default history gives way */

    qn_sampler *s = make_sampler(&(qn_sampler_params){.presence_penalty = 1, .penalty_last_n = 10000}, 10);
    assert_int_equal(s->p.n_history, 10000);
    qn_sampler_destroy(s);
    s = make_sampler(&(qn_sampler_params){.presence_penalty = 1, .penalty_last_n = -1}, 10);
    assert_int_equal(s->counts.window, 4096);
    qn_sampler_destroy(s);
}

static void order_strings(void **state)
{
    (void)state;
    check_message(refusal(&(qn_sampler_params){.order = "ktz"}, 10), "order", "\"z\"");
    check_message(refusal(&(qn_sampler_params){.order = "ktk"}, 10), "order", "\"k\" twice");
    check_message(refusal(&(qn_sampler_params){.order = "k;\x01"}, 10), "order", "\";\"");
    check_message(refusal(&(qn_sampler_params){.order = "\x01"}, 10), "order", "edskypmxt");

    qn_sampler *s = make_sampler(&(qn_sampler_params){.order = "tpk"}, 10);
    assert_int_equal(s->n_chain, 3);
    assert_int_equal(s->chain[0], QN_SAMPLER_temperature);
    assert_int_equal(s->chain[1], QN_SAMPLER_top_p);
    assert_int_equal(s->chain[2], QN_SAMPLER_top_k);
    qn_sampler_destroy(s);
    s = make_sampler(&(qn_sampler_params){.order = ""}, 10);
    assert_int_equal(s->n_chain, 0);
    qn_sampler_destroy(s);
}

static void letters_of_names(void **state)
{
    static const struct {
        const char *name;
        char letter;
    } rows[] = {
#define ROW(name, letter, text) {#name, letter},
        QN_SAMPLER_ROWS(ROW)
#undef ROW
            {"top-k", 'k'},
        {"typ_p", 'y'},
        {"nucleus", 'p'},
        {"temp", 't'},
        {"m", 'm'},
        {"", 0},
        {"z", 0},
        {"top_kk", 0},
        {"a name that is much longer than any", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(qn_sampler_letter(rows[i].name, strlen(rows[i].name)), rows[i].letter);
    assert_int_equal(qn_sampler_letter("top_kk", 5), 'k');
    assert_int_equal(qn_sampler_letter("\0", 1), 0);
}

static void bias_entries(void **state)
{
    const qn_logit_bias high[] = {{3, 1}, {10, 1}}, low[] = {{-1, 1}}, nan[] = {{1, NAN}}, inf[] = {{1, INFINITY}};

    (void)state;
    check_message(refusal(&(qn_sampler_params){.logit_bias = high, .n_logit_bias = 2}, 10), "logit_bias[1].token",
                  "is 10,");
    check_message(refusal(&(qn_sampler_params){.logit_bias = low, .n_logit_bias = 1}, 10), "logit_bias[0].token",
                  "is -1,");
    check_message(refusal(&(qn_sampler_params){.logit_bias = nan, .n_logit_bias = 1}, 10), "logit_bias[0].bias", "nan");
    check_message(refusal(&(qn_sampler_params){.logit_bias = inf, .n_logit_bias = 1}, 10), "logit_bias[0].bias",
                  "is inf,");
    check_message(refusal(&(qn_sampler_params){.logit_bias = high, .n_logit_bias = -2}, 10), "n_logit_bias", "is -2,");
    check_message(refusal(&(qn_sampler_params){.logit_bias = high, .n_logit_bias = 11}, 10), "n_logit_bias", "is 11,");
    check_message(refusal(&(qn_sampler_params){.n_logit_bias = 1}, 10), "logit_bias", "NULL");

    /* copied: what the caller does afterwards does not matter */
    qn_logit_bias mine = {2, -INFINITY};
    const float logits[] = {0, 1, 5};
    qn_sampler *s = make_sampler(&(qn_sampler_params){.greedy = true, .logit_bias = &mine, .n_logit_bias = 1}, 3);
    mine = (qn_logit_bias){1, -INFINITY};
    assert_int_equal(sample(s, logits), 1);
    qn_sampler_destroy(s);
}

static void breaker_strings(void **state)
{
    const char *many[300] = {NULL};
    const char *const empty[] = {"a", "", NULL}, *const none[] = {NULL};
    const char *const long_one[] = {"0123456789012345678901234567890123456789",
                                    "01234567890123456789012345678901234567890", NULL};

    (void)state;
    for (int i = 0; i < 299; i++) many[i] = "x";
    check_message(refusal(&(qn_sampler_params){.dry_breakers = empty}, 10), "dry_breakers[1]", "0 bytes");
    check_message(refusal(&(qn_sampler_params){.dry_breakers = long_one}, 10), "dry_breakers[1]", "1 to 40");
    check_message(refusal(&(qn_sampler_params){.dry_breakers = many}, 10), "dry_breakers", "256");
    accepted(&(qn_sampler_params){.dry_breakers = none, .dry_multiplier = 1});
}

static const qn_logit_bias two[] = {{1, 1}, {5, -2}};
static const qn_sampler_params everything[] = {
    {0},
    {.greedy = true},
    {NO_TRUNCATION},
    {.repeat_penalty = 1.2f,
     .frequency_penalty = 0.1f,
     .dry_multiplier = 1,
     .typical_p = 0.9f,
     .top_n_sigma = 3,
     .xtc_probability = 0.7f,
     .dynatemp_range = 0.3f,
     .min_keep = 2,
     .logit_bias = two,
     .n_logit_bias = 2},
    {.mirostat = 1, .presence_penalty = 0.5f},
    {.mirostat = 2, .dynatemp_range = 0.3f},
    {.order = "tymskpxde", .typical_p = 0.8f, .dry_multiplier = 1, .repeat_penalty = 1.1f, .xtc_probability = 1},
    {NO_TRUNCATION, .order = "yt", .typical_p = 0.5f},
    {.top_k = -1, .min_p = -1, .top_p = 0.9999f},
};

static void no_allocation_after_create(void **state)
{
    enum { N = 20000 };
    float *logits = malloc(N * sizeof *logits);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(everything); i++) {
        books_open(-1);
        qn_sampler *s = make_sampler(&everything[i], N);
        const long before = books.n_alloc;
        assert_true(before > 0);
        for (uint32_t step = 0; step < 30; step++) {
            size_t n;
            generate(logits, N, step, step % 2 ? 1 : 6);
            const qn_token token = sample(s, logits);
            qn_sampler_candidates(s, &n);
            qn_sampler_accept(s, token);
        }
        qn_sampler_reset(s);
        assert_int_equal(books.n_alloc, before);
        assert_int_equal(books.n_release, 0);
        qn_sampler_destroy(s);
        books_close();
    }
    free(logits);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(everything); i++) {
        long at = 0;
        for (bool done = false; !done; at++) {
            qn_error err = {0};
            qn_sampler *s = NULL;
            books_open(at);
            const qn_status status = qn_sampler_create(&everything[i], 500, NULL, &s, &err);
            done = status == QN_OK;
            if (done) {
                assert_int_equal(books.n_failed, 0);
            } else {
                assert_int_equal(status, QN_STATUS_nomem);
                assert_null(s);
                assert_non_null(strstr(err.text, "out of memory"));
            }
            qn_sampler_destroy(s);
            books_close();
        }
        assert_true(at > 1);
    }
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_is_the_default), cmocka_unit_test(ranges),          cmocka_unit_test(sizes),
        cmocka_unit_test(order_strings),
        cmocka_unit_test(letters_of_names), cmocka_unit_test(bias_entries),    cmocka_unit_test(breaker_strings),
        cmocka_unit_test(no_allocation_after_create), cmocka_unit_test(every_allocation_may_fail),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
