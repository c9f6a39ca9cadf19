/* SPDX-License-Identifier: MIT */
/* bench/sampler.c -- what a sampled token costs: median microseconds of one qn_sampler_sample and qn_sampler_accept,
 * for two vocabulary sizes and a row of configurations. Logits look like a language model's: a wide bell, a few tokens
 * far above. */
#include <quern/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS   301
#define NO_TOP_K .top_k = -1
#define NO_TOP_P .top_p = 1
#define NO_MIN_P .min_p = -1
#define NONE     NO_TOP_K, NO_TOP_P, NO_MIN_P

/* clang-format off */
static const struct { const char *name; bool with_candidates; qn_sampler_params p; } configs[] = {
    {"greedy",                         false, {.greedy = true}},
    {"default",                        false, {0}},
    {"default, candidates read",       true,  {0}},
    {"default, penalties, DRY",        false, {.repeat_penalty = 1.1f, .dry_multiplier = 0.8f}},
    {"temperature only",               false, {NONE}},
    {"temperature, candidates read",   true,  {NONE}},
    {"dynamic temperature only",       false, {NONE, .dynatemp_range = 0.5f}},
    {"top_k 1000",                     false, {.top_k = 1000, NO_TOP_P, NO_MIN_P}},
    {"top_p 0.95 only",                false, {NO_TOP_K, .top_p = 0.95f, NO_MIN_P}},
    {"top_p 0.9999 only",              false, {NO_TOP_K, .top_p = 0.9999f, NO_MIN_P}},
    {"min_p 0.05 only",                false, {NO_TOP_K, NO_TOP_P, .min_p = 0.05f}},
    {"typical_p 0.9 only",             false, {NONE, .typical_p = 0.9f}},
    {"top_n_sigma 1 only",             false, {NONE, .top_n_sigma = 1}},
    {"xtc only",                       false, {NONE, .xtc_probability = 0.5f}},
    {"mirostat 1",                     false, {.mirostat = 1}},
    {"mirostat 2",                     false, {.mirostat = 2}},
};
/* clang-format on */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sum of four uniform numbers, widened, and every thousandth token pushed up. */
static void fill(float *logits, int n, uint64_t *state)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) {
            *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(*state >> 40) * 0x1p-24;
        }
        logits[i] = (float)((sum - 2) * 6 + ((*state >> 20) % 1000 == 0 ? 8 : 0));
    }
}

static int measure(size_t config, int n_vocab, const float *logits)
{
    qn_sampler_params p = configs[config].p;
    qn_sampler *s;
    qn_error err;
    double took[ROUNDS];

    p.seed = 1;
    if (qn_sampler_create(&p, n_vocab, NULL, &s, &err) != QN_OK) {
        fprintf(stderr, "%s: %s\n", configs[config].name, err.text);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        const double start = now_us();
        qn_token token;
        size_t n;
        if (qn_sampler_sample(s, logits + (i % 4) * n_vocab, &token, &err) != QN_OK) return 1;
        if (configs[config].with_candidates) qn_sampler_candidates(s, &n);
        qn_sampler_accept(s, token);
        took[i] = now_us() - start;
    }
    qn_sampler_destroy(s);
    qsort(took, ROUNDS, sizeof *took, by_value);
    printf("%-32s %8d %10.1f\n", configs[config].name, n_vocab, took[ROUNDS / 2]);
    return 0;
}

int main(void)
{
    static const int sizes[] = {32000, 250000};
    uint64_t state = 1;

    printf("%-32s %8s %10s\n", "configuration", "tokens", "median us");
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++) {
        /* four vectors in turn: caches shall not be too kind */
        float *logits = malloc(4 * (size_t)sizes[v] * sizeof *logits);
        if (!logits) return 1;
        fill(logits, 4 * sizes[v], &state);
        for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
            if (measure(c, sizes[v], logits) != 0) return 1;
        free(logits);
    }
    return 0;
}
