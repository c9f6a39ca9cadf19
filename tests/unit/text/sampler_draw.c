/* SPDX-License-Identifier: MIT */
/* tests/unit/text/sampler_draw.c -- the random stream, the distribution of draws, the arithmetic beneath, what survives
 * from call to call, and logits that make no sense. */
#include "sampler_common.h"
#include "shorter.h"
#include "text/sampler/sampler.h"

/* The first outputs that the generator's authors' code gives for the state {1, 2, 3, 4}, and splitmix64's for 1234567.
 */
static void stream(void **state)
{
    static const uint64_t want[] = {11520,
                                    0,
                                    1509978240,
                                    UINT64_C(1215971899390074240),
                                    UINT64_C(1216172134540287360),
                                    UINT64_C(607988272756665600),
                                    UINT64_C(16172922978634559625),
                                    UINT64_C(8476171486693032832),
                                    UINT64_C(10595114339597558777),
                                    UINT64_C(2904607092377533576)};
    static const uint64_t seeds[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431)};
    qn_rng rng = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_int_equal(qn__rng_next(&rng), want[i]);
    qn__rng_seed(&rng, 1234567);
    assert_memory_equal(rng.s, seeds, sizeof seeds);
    for (int i = 0; i < 100000; i++) {
        const double u = qn__rng_unit(&rng);
        assert_true(u >= 0 && u < 1);
    }
}

static void arithmetic(void **state)
{
    (void)state;
    for (double x = -700; x <= 700; x += 0.0371) {
        assert_true(fabs(qn__exp(x) / exp(x) - 1) < 3e-10);
        assert_true(qn__weight(x) == (x > QN_EXP_LOWEST ? qn__exp(x) : 0));
    }
    assert_true(qn__exp(0) == 1);
    assert_true(qn__weight(-INFINITY) == 0 && qn__weight(-1e300) == 0 && qn__weight(-0.0) == 1);
    for (double x = 1e-300; x < 1e300; x *= 1.0371)
        assert_true(fabs(qn__log(x) - log(x)) <= 4e-16 * fabs(log(x)) + 1e-17);
    for (double x = 0.5; x < 2; x += 1e-4) assert_true(fabs(qn__log(x) - log(x)) <= 4e-16);
    assert_true(qn__log(1) == 0);
    assert_true(fabs(qn__pow(1.75, 12.5) / pow(1.75, 12.5) - 1) < 1e-9);
    assert_true(qn__pow(0, 3) == 0 && isfinite(qn__pow(1e30, 1e30)));
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorting and selecting keys, against qsort, over sizes on both sides of every threshold and few to many distinct
 * logits. */
static void keys(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 47, 48, 49, 100, 255, 256, 257, 3000, 70000};
    enum { MOST = 70000 };
    uint64_t *want = malloc(4 * MOST * sizeof *want), *got = want + MOST, *scratch = got + MOST, *in = scratch + MOST;
    qn_rng rng;

    (void)state;
    qn__rng_seed(&rng, 3);
    for (int kind = 0; kind < 4; kind++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            const size_t n = sizes[z];
            for (size_t i = 0; i < n; i++) {
                const double u = qn__rng_unit(&rng) - 0.5;
                const float kinds[] = {(float)u * 30, (float)(int)(u * 10), 1.5f, (float)u * 3e38f},
                            logit = kinds[kind];
                in[i] = qn__key(logit + 0.0f, (uint32_t)i);
                assert_true(qn__key_logit(in[i]) == logit && qn__key_id(in[i]) == i);
            }
            memcpy(want, in, n * sizeof *in);
            qsort(want, n, sizeof *want, by_value);
            for (int by_id = 0; by_id < 2; by_id++) {
                memcpy(got, in, n * sizeof *in);
                if (!by_id) /* any order will do */
                    for (size_t i = n; i > 1; i--) {
                        const size_t j = (size_t)(qn__rng_unit(&rng) * (double)i);
                        const uint64_t t = got[i - 1];
                        got[i - 1] = got[j];
                        got[j] = t;
                    }
                memcpy(scratch, got, n * sizeof *got);
                const size_t k = 1 + (size_t)(qn__rng_unit(&rng) * (double)n);
                qn__keys_select(scratch, n, k);
                qsort(scratch, k, sizeof *scratch, by_value);
                assert_memory_equal(scratch, want, k * sizeof *want);
                qn__keys_sort(got, scratch, n, by_id ? 32 : 0);
                assert_memory_equal(got, want, n * sizeof *want);
            }
        }
    assert_true(qn__key(2.0f, 9) < qn__key(1.0f, 0) && qn__key(1.0f, 0) < qn__key(0.0f, 0));
    assert_true(qn__key(0.0f, 0) < qn__key(-1e-45f, 0) && qn__key(-1.0f, 3) < qn__key(-1.0f, 4));
    free(want);
}

/* Pearson's statistic of `rounds` draws against the candidates' own probabilities, which the vectors have checked; bins
 * of less than ten expected draws are put together. Returns it in standard deviations above its mean. */
static double chi_square(qn_sampler *s, const float *logits, int rounds)
{
    size_t n;
    sample(s, logits);
    const qn_candidate *c = qn_sampler_candidates(s, &n);
    const size_t n_vocab = (size_t)s->cands->n_vocab;
    double *p = calloc(n_vocab, sizeof *p), sum = 0, rest_p = 0;
    int *count = calloc(n_vocab, sizeof *count), bins = 0, rest = 0;

    for (size_t i = 0; i < n; i++) p[c[i].token] = (double)c[i].p;
    for (int i = 0; i < rounds; i++) count[sample(s, logits)]++;
    for (size_t i = 0; i < n_vocab; i++) {
        const double want = p[i] * rounds;
        if (want >= 10) {
            sum += (count[i] - want) * (count[i] - want) / want;
            bins++;
        } else {
            rest += count[i];
            rest_p += p[i];
            if (p[i] == 0) assert_int_equal(count[i], 0);
        }
    }
    if (rest_p * rounds >= 10) {
        sum += (rest - rest_p * rounds) * (rest - rest_p * rounds) / (rest_p * rounds);
        bins++;
    }
    free(p);
    free(count);
    assert_true(bins >= 5);
    return (sum - (bins - 1)) / sqrt(2.0 * (bins - 1));
}

/* Fixed seeds, so no chance is involved; 4 deviations would come once in some thousand seeds. */
static void distribution(void **state)
{
    static const struct {
        qn_sampler_params p;
        int n_vocab;
        float scale;
        int rounds;
    } rows[] = {
        {{.seed = 11, NO_TRUNCATION, .temperature = 1}, 10, 1, 200000},
        {{.seed = 12, NO_TRUNCATION, .temperature = 1.5f}, 5000, 1.5f, 40000}, /* dense, many blocks */
        {{.seed = 13}, 1000, 2, 50000},
        {{.seed = 14, .top_k = 200, .top_p = 0.99f, .temperature = 2}, 3000, 2, 50000},
        {{.seed = 15, .mirostat = 2, .mirostat_tau = 3}, 500, 2, 50000}, /* mu stays: nothing is accepted */
        {{.seed = 16, .mirostat = 1, .mirostat_tau = 3}, 500, 2, 50000},
    };
    float logits[5000];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_sampler *s = make_sampler(&rows[i].p, rows[i].n_vocab);
        generate(logits, rows[i].n_vocab, 5, rows[i].scale);
        const double deviations = chi_square(s, logits, rows[i].rounds / SHORTER);
        if (!(deviations < 4 && deviations > -4)) fail_msg("row %zu: %g standard deviations", i, deviations);
        qn_sampler_destroy(s);
    }
}

/* XTC fires as often as it should: with two equal tokens far above the rest, it removes the lower id. */
static void xtc_chance(void **state)
{
    const float logits[] = {10, 10, -20, -20};
    qn_sampler *s =
        make_sampler(&(qn_sampler_params){.seed = 5, NO_TRUNCATION, .xtc_probability = 0.3f, .temperature = 1}, 4);
    int fired = 0, first = 0;
    const int rounds = 100000;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        size_t n;
        first += sample(s, logits) == 0;
        qn_sampler_candidates(s, &n);
        fired += n == 3;
    }
    assert_true(fabs(fired - 0.3 * rounds) < 4 * sqrt(0.3 * 0.7 * rounds));
    assert_true(fabs(first - 0.35 * rounds) < 4 * sqrt(0.35 * 0.65 * rounds));
    qn_sampler_destroy(s);
}

/* Surprise settles near tau, which is what mirostat is for. */
static void mirostat_settles(void **state)
{
    float logits[4000];

    (void)state;
    for (int version = 1; version <= 2; version++)
        for (int tau = 2; tau <= 5; tau++) {
            qn_sampler *s = make_sampler(
                &(qn_sampler_params){.seed = 9, .mirostat = version, .mirostat_tau = (float)tau, .temperature = 1},
                4000);
            double sum = 0;
            for (uint32_t i = 0; i < 1200; i++) {
                size_t n;
                generate(logits, 4000, i, 1.5f);
                const qn_token token = sample(s, logits);
                const qn_candidate *c = qn_sampler_candidates(s, &n);
                while (c->token != token) c++;
                if (i >= 200) sum -= log2((double)c->p) / 1000;
                qn_sampler_accept(s, token);
            }
            if (fabs(sum - tau) > 0.25) fail_msg("mirostat %d, tau %d: mean surprise %g", version, tau, sum);
            qn_sampler_destroy(s);
        }
}

static void mirostat_learns_from_its_own_choice_only(void **state)
{
    const float logits[] = {1, 2, 3, 2.5f};
    qn_sampler *s = make_sampler(&(qn_sampler_params){.seed = 9, .mirostat = 2}, 4);

    (void)state;
    qn_sampler_accept(s, 1); /* a prompt token */
    assert_true(s->mu == 10);
    const qn_token token = sample(s, logits);
    assert_true(s->mu == 10);
    qn_sampler_accept(s, (token + 1) % 4); /* the caller took another */
    assert_true(s->mu == 10);
    qn_sampler_accept(s, token);
    assert_true(s->mu == 10);
    qn_sampler_accept(s, sample(s, logits));
    assert_true(s->mu != 10);
    qn_sampler_reset(s);
    assert_true(s->mu == 10);
    qn_sampler_destroy(s);
}

static void seeds(void **state)
{
    float logits[200];
    qn_token first[40];
    qn_sampler *a = make_sampler(NULL, 200), *b = make_sampler(NULL, 200);

    (void)state;
    generate(logits, 200, 1, 1);
    assert_true(qn_sampler_seed(a) != 0 && qn_sampler_seed(a) != qn_sampler_seed(b));
    for (int i = 0; i < 40; i++) first[i] = sample(a, logits);
    qn_sampler *again = make_sampler(&(qn_sampler_params){.seed = qn_sampler_seed(a)}, 200);
    assert_true(qn_sampler_seed(again) == qn_sampler_seed(a));
    for (int i = 0; i < 40; i++) assert_int_equal(sample(again, logits), first[i]);
    qn_sampler_destroy(a);
    qn_sampler_destroy(b);
    qn_sampler_destroy(again);
    qn_sampler_destroy(NULL);
}

static void refused(qn_sampler *s, const float *logits, const char *what)
{
    qn_error err = {0};
    qn_token token = 77;
    size_t n = 1;
    const qn_rng before = s->rng;

    assert_int_equal(qn_sampler_sample(s, logits, &token, &err), QN_STATUS_invalid);
    assert_int_equal(token, 77);
    assert_non_null(strstr(err.text, what));
    assert_null(qn_sampler_candidates(s, &n));
    assert_int_equal(n, 0);
    assert_memory_equal(&before, &s->rng, sizeof before); /* a failed call takes nothing from the stream */
}

static void nothing_to_choose_from(void **state)
{
    static const qn_sampler_params rows[] = {
        {.seed = 1}, {.greedy = true}, {.mirostat = 1}, {.mirostat = 2}, {NO_TRUNCATION}};
    qn_logit_bias ban[100];
    float none[100], nan[100], fine[100];
    size_t n = 1;

    (void)state;
    for (int i = 0; i < 100; i++) {
        ban[i] = (qn_logit_bias){i, -INFINITY};
        none[i] = -INFINITY;
        nan[i] = i % 2 ? NAN : -INFINITY;
        fine[i] = (float)i;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_sampler *s = make_sampler(&rows[i], 100);
        assert_null(qn_sampler_candidates(s, &n)); /* before the first call */
        assert_int_equal(n, 0);
        refused(s, none, "100 logits");
        sample(s, fine);
        assert_non_null(qn_sampler_candidates(s, &n));
        refused(s, nan, "at least one finite expected");
        refused(s, NULL, "logits is NULL");
        assert_int_equal(qn_sampler_sample(s, fine, NULL, NULL), QN_STATUS_invalid);
        sample(s, fine);
        qn_sampler_destroy(s);
    }
    qn_sampler *s = make_sampler(&(qn_sampler_params){.seed = 1, .logit_bias = ban, .n_logit_bias = 100}, 100);
    refused(s, fine, "banned");
    qn_sampler_destroy(s);
}

/* One finite token among nonsense is what every configuration must find, wherever it is. */
static void one_left(void **state)
{
    static const qn_sampler_params rows[] = {
        {.seed = 1},
        {.greedy = true},
        {.mirostat = 1},
        {.mirostat = 2},
        {NO_TRUNCATION},
        {.typical_p = 0.1f, .top_n_sigma = 0.5f, .xtc_probability = 1, .dynatemp_range = 1, .min_keep = 5},
        {NO_TRUNCATION, .typical_p = 0.1f, .xtc_probability = 1, .dynatemp_range = 2, .order = "xyt"},
    };
    float logits[150];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int32_t at = 0; at < 150; at += 7) {
            qn_sampler *s = make_sampler(&rows[i], 150);
            for (int j = 0; j < 150; j++) logits[j] = j % 3 ? NAN : -INFINITY;
            logits[at] = at % 2 ? -3e38f : INFINITY;
            assert_int_equal(sample(s, logits), at);
            const qn_candidate *c = qn_sampler_candidates(s, &n);
            assert_int_equal(n, 1);
            assert_true(c->token == at && c->p == 1 && isfinite(c->logit));
            qn_sampler_destroy(s);
        }
}

/* Logits at the ends of float's range, in every configuration: no NaN comes out, and probabilities add up. */
static void extremes(void **state)
{
    static const char *const orders[] = {"edskypmxt", "tdeyskpmx", "xtype", "t", "yk", "spt", ""};
    static const float values[] = {3.4028235e38f, -3.4028235e38f, 1e-45f, -1e-45f, 0, -0.0f, INFINITY, 88, -88, 1e30f};
    static const float temperatures[] = {1e-45f, 1e-20f, 1, 3e38f};
    qn_rng rng;
    float logits[130];

    (void)state;
    qn__rng_seed(&rng, 8);
    for (int round = 0; round < 400; round++) {
        const qn_sampler_params p = {
            .seed = 1,
            .order = orders[round % 7],
            .temperature = temperatures[round % 4],
            .mirostat = round % 5 == 4 ? 1 + round % 2 : 0,
            .typical_p = 0.7f,
            .top_n_sigma = 2,
            .xtc_probability = 0.5f,
            .dynatemp_range = round % 3 ? 0 : 3e38f,
            .repeat_penalty = round % 2 ? 3e38f : 1e-45f,
            .frequency_penalty = round % 6 ? 1 : -3e38f,
            .dry_multiplier = 3e38f,
            .dry_base = 3e38f,
            .dynatemp_exponent = round % 9 ? 1 : 1e-45f,
            .top_k = 1 + round % 50,
        };
        qn_sampler *s = make_sampler(&p, 130);
        for (int step = 0; step < 6; step++) {
            size_t n;
            double sum = 0;
            for (int i = 0; i < 130; i++) logits[i] = values[(size_t)(qn__rng_unit(&rng) * (round % 10 + 1))];
            const qn_token token = sample(s, logits);
            const qn_candidate *c = qn_sampler_candidates(s, &n);
            assert_in_range(n, 1, 130);
            for (size_t i = 0; i < n; i++) {
                assert_true(isfinite(c[i].logit) && c[i].p >= 0 && c[i].p <= 1);
                sum += (double)c[i].p;
            }
            assert_true(fabs(sum - 1) < 1e-5);
            qn_sampler_accept(s, token);
            qn_sampler_accept(s, step % 2);
        }
        qn_sampler_destroy(s);
    }
}

/* Counts kept token by token, against counting the window anew; ids out of range are not tokens. */
static void history_window(void **state)
{
    enum { N = 40, STEPS = 3000 };
    static const int32_t windows[] = {1, 2, 7, 64, 1000};
    static qn_token past[STEPS];
    qn_rng rng;

    (void)state;
    qn__rng_seed(&rng, 4);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        qn_sampler *s = make_sampler(&(qn_sampler_params){.presence_penalty = 1,
                                                          .penalty_last_n = windows[w],
                                                          .dry_multiplier = 1,
                                                          .n_history = 1000},
                                     N);
        for (int i = 0; i < STEPS; i++) {
            int count[N] = {0}, distinct = 0;
            past[i] = (qn_token)(qn__rng_unit(&rng) * N);
            qn_sampler_accept(s, past[i]);
            qn_sampler_accept(s, i % 2 ? -1 - i : N + i);
            for (int j = i; j >= 0 && j > i - windows[w]; j--) count[past[j]]++;
            for (int t = 0; t < N; t++) distinct += count[t] > 0;
            assert_memory_equal(s->counts.count, count, sizeof count);
            assert_int_equal(s->counts.n_active, distinct);
            const int32_t n = i + 1 < 1000 ? i + 1 : 1000;
            assert_int_equal(s->history.n, n);
            assert_memory_equal(qn__history_last(&s->history, n), past + i + 1 - n, (size_t)n * sizeof *past);
        }
        qn_sampler_reset(s);
        assert_int_equal(s->history.n, 0);
        for (int t = 0; t < N; t++) assert_int_equal(s->counts.count[t], 0);
        qn_sampler_destroy(s);
    }
}

/* Samplers that share a scratch draw what they draw alone; what is left in it is of the last one. */
static void shared_scratch(void **state)
{
    enum { N = 5000, SAMPLERS = 6 };
    static float logits[N];
    qn_sampler *alone[SAMPLERS], *sharing[SAMPLERS];
    qn_sampler_scratch *scratch;
    qn_metrics before, after;
    qn_error err;
    (void)state;
    assert_int_equal(qn_sampler_scratch_create(N, &scratch, NULL), QN_OK);
    for (int i = 0; i < SAMPLERS; i++) {
        qn_sampler_params p = {.seed = 5 + (uint64_t)i, .mirostat = i % 3, .repeat_penalty = i > 3 ? 1.3f : 1};
        assert_int_equal(qn_sampler_create(&p, N, NULL, &alone[i], NULL), QN_OK);
        p.scratch = scratch;
        qn_metrics_snapshot(&before);
        assert_int_equal(qn_sampler_create(&p, N, NULL, &sharing[i], NULL), QN_OK);
        qn_metrics_snapshot(&after);
        if (i <= 3)
            assert_true(after.live_bytes - before.live_bytes < 100000); /* the history; alone 28 bytes a token more */
    }
    qn_rng rng;
    qn__rng_seed(&rng, 3);
    for (int step = 0; step < 30; step++) {
        for (int k = 0; k < N; k++) logits[k] = (float)(8 * qn__rng_unit(&rng));
        for (int i = 0; i < SAMPLERS; i++) {
            qn_token a, b;
            size_t n = 0;
            assert_int_equal(qn_sampler_sample(alone[i], logits, &a, NULL), QN_OK);
            assert_int_equal(qn_sampler_sample(sharing[i], logits, &b, NULL), QN_OK);
            assert_int_equal(a, b);
            qn_sampler_accept(alone[i], a);
            qn_sampler_accept(sharing[i], b);
            assert_non_null(qn_sampler_candidates(sharing[i], &n));
            if (i) assert_null(qn_sampler_candidates(sharing[i - 1], &n));
            assert_non_null(qn_sampler_candidates(alone[i], &n));
        }
    }
    qn_sampler *other;
    assert_int_equal(qn_sampler_create(&(qn_sampler_params){.scratch = scratch}, N + 1, NULL, &other, &err),
                     QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "scratch"));
    assert_int_equal(qn_sampler_scratch_create(0, &scratch, &err), QN_STATUS_invalid);
    for (int i = 0; i < SAMPLERS; i++) {
        qn_sampler_destroy(alone[i]);
        qn_sampler_destroy(sharing[i]);
    }
    qn_sampler_scratch_destroy(scratch);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream),           cmocka_unit_test(arithmetic), cmocka_unit_test(keys),
        cmocka_unit_test(distribution),     cmocka_unit_test(xtc_chance), cmocka_unit_test(mirostat_settles),
        cmocka_unit_test(mirostat_learns_from_its_own_choice_only),       cmocka_unit_test(seeds),
        cmocka_unit_test(nothing_to_choose_from), cmocka_unit_test(one_left), cmocka_unit_test(extremes),
        cmocka_unit_test(history_window),   cmocka_unit_test(shared_scratch),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
