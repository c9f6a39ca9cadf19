/* SPDX-License-Identifier: MIT */
/* The models of shared/golden against their exact logits (made by an independent engine in float32): a second, larger
 * witness beside golden.c's, where it is. */
#include "golden.h"

enum { N_VOCAB = 512 };

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

/* Rounding keys and values costs 1.3e-13, 7.3e-8, 4.4e-6, 5.6e-5, then 2.4e-3, 2.9e-3, 1.2e-2 and 1.6e-2 for Q4_0 in an
 * independent simulation (tests/oracle/golden_sim.py), which has no IQ4_NL: it must be closer than Q4_0 of that
 * simulation. */
static void every_kv_type(void **state)
{
    (void)state;
    static const kv_limit types[] = {
        {QN_DTYPE_F32, 1e-9},    {QN_DTYPE_F16, 1e-7},      {QN_DTYPE_BF16, 5e-6},
        {QN_DTYPE_Q8_0, 6.5e-5}, {QN_DTYPE_Q5_1, 2.8e-3},   {QN_DTYPE_Q5_0, 3.4e-3},
        {QN_DTYPE_Q4_1, 1.4e-2}, {QN_DTYPE_IQ4_NL, 1.6e-2}, {QN_DTYPE_Q4_0, 1.8e-2},
    };
    with_kv_types("llama-gqa-F16", types, sizeof(types) / sizeof(types[0]));
}

int main(void)
{
    static float exact[N_MODELS][N_TOKENS * N_VOCAB];
    for (int m = 0; m < N_MODELS; m++) {
        golden *g = &goldens[n_goldens++];
        *g = (golden){.name = models[m].name,
                      .tokens = tokens,
                      .limit = models[m].limit,
                      .width = N_VOCAB,
                      .want = exact[m],
                      .every_combination = true,
                      .kv_type = QN_DTYPE_F16};
        snprintf(g->path, sizeof(g->path), "%s/golden/%s.gguf", QN_SHARED_DIR, g->name);
        if (!read_exact(g->name, exact[m])) {
            printf("skipped: no %s/golden/%s.logits.npy\n", QN_SHARED_DIR, g->name);
            return 77;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_at_every_level),
        cmocka_unit_test(bit_identical),
        cmocka_unit_test(every_kv_type),
        cmocka_unit_test(split_over_two_backends),
    };
    return cmocka_run_group_tests(tests, NULL, release_goldens);
}
