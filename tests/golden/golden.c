/* SPDX-License-Identifier: MIT */
/* The models of shared/golden against their exact logits (made by an independent engine in float32): NMSE at every CPU
 * level under the table's reference error; bit-identical for 1, 2 and 3 threads and for batches of 1, 5 and 32, alone
 * and beside neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <quern/engine.h>
#include <quern/machine.h>

#include "cpu/dispatch.h"

enum { N_TOKENS = 32, N_VOCAB = 512 };

/* Reference errors from the table beside the models; for 16-bit weights the tighter of the table and 5e-6. */
static const struct {
    const char *name;
    double limit;
} models[] = {
    {"llama-gqa-BF16", 5.0e-6},   {"llama-gqa-F16", 3.5e-7},  {"llama-gqa-IQ4_NL", 3.8e-4},
    {"llama-gqa-IQ4_XS", 7.7e-4}, {"llama-gqa-Q2_K", 8.2e-4}, {"llama-gqa-Q3_K_M", 8.6e-4},
    {"llama-gqa-Q4_0", 3.5e-4},   {"llama-gqa-Q4_1", 3.4e-4}, {"llama-gqa-Q4_K_M", 7.9e-4},
    {"llama-gqa-Q5_0", 3.6e-4},   {"llama-gqa-Q5_1", 3.7e-4}, {"llama-gqa-Q5_K_M", 7.3e-4},
    {"llama-gqa-Q6_K", 7.2e-4},   {"llama-gqa-Q8_0", 3.2e-4}, {"llama3-tied-f16", 3.2e-7},
    {"qwen2-gqa-f16", 3.1e-7},    {"qwen3-gqa-f16", 2.6e-7},
};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

static const qn_token tokens[N_TOKENS] = {1, 317, 44,  501, 23,  260, 111, 7,   90,  433, 12, 388, 276, 305, 499, 31,
                                          2, 77,  150, 203, 480, 66,  19,  350, 401, 409, 58, 222, 137, 264, 99,  410};

static float logits[N_TOKENS * N_VOCAB];

static void must(qn_status status, const qn_error *err)
{
    if (status != QN_OK) fail_msg("%s (%s)", err->text, qn_status_name(status));
}

static bool read_exact(const char *name, float *out)
{
    char path[512], magic[10];
    snprintf(path, sizeof(path), "%s/golden/%s.logits.npy", QN_SHARED_DIR, name);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    const bool ok = fread(magic, 1, 10, file) == 10 &&
                    fseek(file, 10 + (unsigned char)magic[8] + 256 * (unsigned char)magic[9], SEEK_SET) == 0 &&
                    fread(out, sizeof(float), N_TOKENS * N_VOCAB, file) == N_TOKENS * N_VOCAB;
    fclose(file);
    return ok;
}

/* Logits of all tokens in batches of `batch`; with `noise`, other sequences are computed in the same batches. */
static void eval(const char *name, const char *backends, int threads, int batch, bool noise, qn_dtype kv_type,
                 float *out)
{
    char path[512];
    qn_error err;
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_batch_item items[3 * N_TOKENS];
    const qn_place_rule rules[] = {{"blk.1.*", 1}, {"output*", 1}};
    const bool two = strchr(backends, ',') != NULL;
    const qn_engine_options eo = {
        .backends = backends, .n_threads = threads, .rules = rules, .n_rules = two ? 2 : 0, .strict = true};
    const qn_session_options so = {.n_ctx = 256,
                                   .n_batch = 3 * N_TOKENS,
                                   .n_seq = 3,
                                   .n_logits = 3 * N_TOKENS,
                                   .kv_type = kv_type,
                                   .kv_type_set = true};
    snprintf(path, sizeof(path), "%s/golden/%s.gguf", QN_SHARED_DIR, name);
    must(qn_engine_open(path, &eo, &engine, &err), &err);
    must(qn_session_create(engine, &so, &session, &err), &err);
    for (int i = 0; i < N_TOKENS; i += batch) {
        int n = 0;
        for (int j = i; j < i + batch && j < N_TOKENS; j++) {
            if (noise) items[n++] = (qn_batch_item){tokens[N_TOKENS - 1 - j], j, 1, false};
            items[n++] = (qn_batch_item){tokens[j], j, 0, true};
            if (noise && j % 2) items[n++] = (qn_batch_item){(j * 37) % N_VOCAB, j, 2, false};
        }
        must(qn_session_decode(session, items, n, &err), &err);
        memcpy(out + (size_t)i * N_VOCAB, qn_session_logits(session, 0),
               (size_t)qn_session_n_logits(session) * N_VOCAB * sizeof(float));
    }
    qn_session_destroy(session);
    qn_engine_close(engine);
}

static double nmse(const float *a, const float *b)
{
    double num = 0, den = 0;
    for (int i = 0; i < N_TOKENS * N_VOCAB; i++) {
        num += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        den += (double)b[i] * b[i];
    }
    return num / den;
}

static const char *const levels[] = {
#define LEVEL(name, base, needs) "cpu:" #name,
    QN_CPU_LEVEL_ROWS(LEVEL)
#undef LEVEL
};

static int n_levels(void)
{
    qn_machine machine;
    qn_machine_get(&machine);
    return (int)machine.level + 1;
}

/* Every combination of threads and batch where that is quick: not at the level without vectors, not under a sanitizer.
 */
static bool full(int level)
{
#ifdef QN_CHECKED
    (void)level;
    return false;
#else
    return level > 0;
#endif
}

/* Logits of model m, all tokens at once, one thread, at level l: computed when first asked for. */
static const float *alone(int m, int l)
{
    static float kept[N_MODELS][sizeof(levels) / sizeof(levels[0])][N_TOKENS * N_VOCAB];
    static bool have[N_MODELS][sizeof(levels) / sizeof(levels[0])];
    if (!have[m][l]) eval(models[m].name, levels[l], 1, N_TOKENS, false, QN_DTYPE_F16, kept[m][l]);
    have[m][l] = true;
    return kept[m][l];
}

static void error_at_every_level(void **state)
{
    (void)state;
    static float exact[N_TOKENS * N_VOCAB];
    int over = 0;
    for (int m = 0; m < N_MODELS; m++) {
        if (!read_exact(models[m].name, exact)) fail_msg("cannot read the logits of %s", models[m].name);
        for (int l = 0; l < n_levels(); l++) {
            const double e = nmse(alone(m, l), exact);
            printf("%-18s %-11s NMSE %.3g, limit %.3g\n", models[m].name, levels[l], e, models[m].limit);
            over += !(e <= models[m].limit);
        }
    }
    assert_int_equal(over, 0);
}

static void bit_identical(void **state)
{
    (void)state;
    static float other[N_TOKENS * N_VOCAB];
    static const int batches[] = {1, 5, 32};
    for (int m = 0; m < N_MODELS; m++) {
        for (int l = 0; l < n_levels(); l++) {
            for (int t = 1; t <= 3; t++) {
                for (int b = 0; b < 3; b++) {
                    if (!full(l) && b != t % 3) continue; /* each thread count and each batch once */
                    eval(models[m].name, levels[l], t, batches[b], t != 1, QN_DTYPE_F16, other);
                    if (memcmp(alone(m, l), other, sizeof(other)) != 0)
                        fail_msg("%s %s differs with %d threads, batch %d", models[m].name, levels[l], t, batches[b]);
                }
            }
        }
    }
}

/* Rounding keys and values costs 1.3e-13, 7.3e-8, 4.4e-6, 5.6e-5, then 2.4e-3, 2.9e-3, 1.2e-2 and 1.6e-2 for Q4_0 in an
 * independent simulation (tests/oracle/golden_sim.py), which has no IQ4_NL: it must be closer than Q4_0 of that
 * simulation. */
static void every_kv_type(void **state)
{
    (void)state;
    static float exact[N_TOKENS * N_VOCAB], other[N_TOKENS * N_VOCAB];
    static const struct {
        qn_dtype type;
        double limit;
    } types[] = {
        {QN_DTYPE_F32, 1e-9},    {QN_DTYPE_F16, 1e-7},      {QN_DTYPE_BF16, 5e-6},
        {QN_DTYPE_Q8_0, 6.5e-5}, {QN_DTYPE_Q5_1, 2.8e-3},   {QN_DTYPE_Q5_0, 3.4e-3},
        {QN_DTYPE_Q4_1, 1.4e-2}, {QN_DTYPE_IQ4_NL, 1.6e-2}, {QN_DTYPE_Q4_0, 1.8e-2},
    };
    assert_true(read_exact("llama-gqa-F16", exact));
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        eval("llama-gqa-F16", "cpu", 1, N_TOKENS, false, types[k].type, logits);
        printf("KV %-5s NMSE %.3g\n", qn_dtype_get(types[k].type)->name, nmse(logits, exact));
        assert_true(nmse(logits, exact) <= types[k].limit);
        eval("llama-gqa-F16", "cpu", 2, 5, true, types[k].type, other);
        assert_memory_equal(logits, other, sizeof(logits));
    }
}

/* The highest level that multiplies this model's weights as `ref` does, to the bit: with F16 and BF16 not every one
 * does (cpu/dispatch.h). */
static int like_ref(int m)
{
    const qn_dtype dtype = strstr(models[m].name, "BF16") ? QN_DTYPE_BF16
                           : strstr(models[m].name, "16") ? QN_DTYPE_F16
                                                          : QN_DTYPE_F32;
    int l = n_levels() - 1;
    while (qn__kernels_get((qn_cpu_level)l)->mm[dtype].act != qn__kernels_get(QN_CPU_ref)->mm[dtype].act) l--;
    return l;
}

/* Half the model on each of two backends that may not read each other's buffers: the very bits of one. */
static void split_over_two_backends(void **state)
{
    (void)state;
    static float other[N_TOKENS * N_VOCAB];
    for (int m = 0; m < N_MODELS; m++) {
        const float *whole = alone(m, like_ref(m));
        char backends[40];
        snprintf(backends, sizeof backends, "%s,cpu:ref", levels[like_ref(m)]);
        eval(models[m].name, backends, 1, N_TOKENS, false, QN_DTYPE_F16, other);
        if (memcmp(whole, other, sizeof(other)) != 0)
            fail_msg("%s differs when split, NMSE %g", models[m].name, nmse(other, whole));
        eval(models[m].name, backends, 2, 5, true, QN_DTYPE_F16, other);
        assert_memory_equal(whole, other, sizeof(other));
    }
}

int main(void)
{
    if (!read_exact(models[0].name, logits)) {
        printf("skipped: no models in %s/golden\n", QN_SHARED_DIR);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_at_every_level),
        cmocka_unit_test(bit_identical),
        cmocka_unit_test(every_kv_type),
        cmocka_unit_test(split_over_two_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
