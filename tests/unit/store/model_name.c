/* SPDX-License-Identifier: MIT */
/* tests/unit/store/model_name.c -- which names mean which models. */
#include "store/store.h"
#include "unit/base/failing.h"

static void quantizations(void **state)
{
    (void)state;
    static const struct {
        const char *stem, *quant;
    } rows[] = {
        {"Llama-3.2-1B-Instruct-Q4_K_M", "Q4_K_M"},
        {"ggml-model-q4_0", "Q4_0"},
        {"model.IQ4_XS", "IQ4_XS"},
        {"Qwen3-0.6B-UD-Q4_K_XL", "UD-Q4_K_XL"},
        {"UD-Q2_K", "UD-Q2_K"},
        {"MUD-Q2_K", "Q2_K"},
        {"gpt-oss-20b-mxfp4", "MXFP4"},
        {"x-BF16", "BF16"},
        {"F16", "F16"},
        {"model-f32", "F32"},
        {"model", NULL},
        {"Q4", "Q4"},
        {"model-Q4K", NULL},
        {"model-Q44_K", NULL},
        {"model-Q4_K_M-imat", NULL},
        {"", NULL},
        {"-", NULL},
        {"model-Q4_", "Q4_"},
        {"model-Q4_0123456789012345678901234567890123456789", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char quant[32] = "";
        const bool found = qn__quant_of_stem(rows[i].stem, quant);
        if (found != (rows[i].quant != NULL) || (found && strcmp(quant, rows[i].quant) != 0))
            fail_msg("\"%s\" ends with \"%s\"", rows[i].stem, found ? quant : "nothing");
    }
}

static void plain_names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "_x", "llama3.2", "Q4_K_M", "localhost:5000", "A-b.c_d"};
    static const char *const bad[] = {"", ".", "..", "-a", "a/b", "a b", "a\n", "\xff", "a\\b", ":x", "ä"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) assert_true(qn__plain_name(good[i], 80));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(qn__plain_name(bad[i], 80));
    assert_true(qn__plain_name("abc", 3));
    assert_false(qn__plain_name("abcd", 3));
}

static const qn_found ollama = {.model = {.store = QN_STORE_ollama, .name = "llama3.2:1b"},
                                .base = "llama3.2",
                                .tag = "1b",
                                .full = "registry.ollama.ai/library/llama3.2"},
                      latest = {.model = {.store = QN_STORE_ollama, .name = "me/m:latest"},
                                .base = "me/m",
                                .tag = "latest",
                                .full = "registry.ollama.ai/me/m"},
                      other_host = {.model = {.store = QN_STORE_ollama, .name = "hf.co/org/repo:Q8_0"},
                                    .base = "hf.co/org/repo",
                                    .tag = "Q8_0",
                                    .full = "hf.co/org/repo"},
                      hub = {.model = {.store = QN_STORE_huggingface, .name = "Org/Repo-GGUF:Q4_K_M"},
                             .base = "Org/Repo-GGUF",
                             .tag = "Q4_K_M",
                             .stem = "repo-UD.x-Q4_K_M"},
                      studio = {.model = {.store = QN_STORE_lmstudio, .name = "pub/Repo:F16"},
                                .base = "pub/Repo",
                                .tag = "F16",
                                .stem = "repo-F16"},
                      file = {.model = {.store = QN_STORE_folder, .name = "sub/model"},
                              .base = "sub/model",
                              .stem = "model"};

static void fitting(void **state)
{
    (void)state;
    static const struct {
        const qn_found *found;
        const char *name;
        int fits;
    } rows[] = {
        {&ollama, "llama3.2:1b", 2},
        {&ollama, "LLAMA3.2:1B", 2},
        {&ollama, "library/llama3.2:1b", 2},
        {&ollama, "registry.ollama.ai/library/llama3.2:1b", 2},
        {&ollama, "llama3.2", 1}, /* "latest" is meant first */
        {&ollama, "llama3.2:latest", 0},
        {&ollama, "llama3.2:1", 0},
        {&ollama, "llama3.2:", 0},
        {&ollama, "other/llama3.2:1b", 0},
        {&ollama, "hf.co/library/llama3.2:1b", 0},
        {&ollama, "", 0},
        {&ollama, "/", 0},
        {&ollama, ":", 0},
        {&latest, "me/m", 2},
        {&latest, "me/m:latest", 2},
        {&latest, "m", 0},
        {&other_host, "hf.co/org/repo:q8_0", 2},
        {&other_host, "org/repo:q8_0", 0},
        {&hub, "org/repo-gguf:q4_k_m", 2},
        {&hub, "org/repo-gguf", 1},
        {&hub, "hf.co/Org/Repo-GGUF", 1},
        {&hub, "hf.co/Org/Repo-GGUF:Q4_K_M", 2},
        {&hub, "huggingface.co/Org/Repo-GGUF:x-Q4_K_M", 1},
        {&hub, "https://huggingface.co/Org/Repo-GGUF", 0},
        {&hub, "Org/Repo-GGUF:x-Q4_K_M", 1},
        {&hub, "Org/Repo-GGUF:UD", 1},
        {&hub, "Org/Repo-GGUF:Q4_K", 0},
        {&hub, "Org/Repo-GGUF:", 0},
        {&hub, "Org/Repo-GGUF/repo-ud.x-Q4_K_M.gguf", 1},
        {&hub, "Repo-GGUF", 0},
        {&hub, "Org/Repo", 0},
        {&studio, "Repo:F16", 1},
        {&studio, "repo", 1},
        {&studio, "repo-f16", 1},
        {&studio, "repo-f16.gguf", 1},
        {&studio, "pub/repo:f16", 2},
        {&file, "sub/model", 2},
        {&file, "model", 1},
        {&file, "model.gguf", 1},
        {&file, "mode", 0},
        {&file, "sub", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const int fits = qn__name_fits(rows[i].found, rows[i].name);
        if (fits != rows[i].fits) fail_msg("\"%s\" fits %s: %d", rows[i].name, rows[i].found->model.name, fits);
    }
    char huge[5000];
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(qn__name_fits(&ollama, huge), 0);
    assert_int_equal(qn__name_fits(&hub, huge), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantizations), cmocka_unit_test(plain_names),
                                       cmocka_unit_test(fitting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
