/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_store.c -- the bytes as a manifest of Ollama's, as a model's options, and, split at a zero, as a name
 * that was typed and the name of a file. Broken promises trap; leaks and bad accesses are the sanitizers' business. */
#include "require.h"
#include "store/store.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status == QN_STATUS_format || status == QN_STATUS_limit);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n'));
}

static void as_manifest(const char *text, size_t n)
{
    qn_arena arena;
    qn_manifest m;
    qn_error err;
    qn__arena_init(&arena, 0);
    const qn_status status = qn__manifest_parse(text, n, "", &arena, &m, &err);
    if (status != QN_OK) check_error(status, &err);
    for (size_t i = 0; status == QN_OK && i < m.n; i++) {
        const char *hash = m.layers[i].hash;
        REQUIRE(m.layers[i].type && (!*hash || strspn(hash, "0123456789abcdef") == 64));
        REQUIRE(strlen(hash) <= 64);
    }
    REQUIRE(arena.used_bytes <= 64 * n + 4096); /* a small file takes little memory */
    qn__arena_deinit(&arena);
}

static void use_param(void *ctx, const char *name, const char *value)
{
    *(size_t *)ctx += strlen(name) + strlen(value);
}

static void as_params(const char *text, size_t n)
{
    size_t used = 0;
    qn_error err;
    const qn_status status = qn__params_parse(text, n, use_param, &used, &err);
    if (status != QN_OK) check_error(status, &err);
}

static void as_names(const char *text, size_t n)
{
    char *copy = calloc(n + 2, 1), quant[32], quoted[600];
    if (!copy) return;
    if (n) memcpy(copy, text, n);
    const char *stem = copy + strlen(copy) + 1 <= copy + n ? copy + strlen(copy) + 1 : copy;
    qn__str_quote(quoted, sizeof quoted, stem, strlen(stem));
    const bool has_quant = qn__quant_of_stem(quoted, quant);
    REQUIRE(!has_quant || (*quant && strlen(quant) < sizeof quant));
    const qn_found file = {.model = {.store = QN_STORE_lmstudio, .name = "p/r:Q4_0"},
                           .base = "p/r",
                           .tag = has_quant ? quant : NULL,
                           .stem = quoted},
                   ollama = {.model = {.store = QN_STORE_ollama, .name = "r:b"},
                             .base = "r",
                             .tag = "b",
                             .full = QN_OLLAMA_HOST "/library/r"};
    REQUIRE(qn__name_fits(&file, copy) >= 0 && qn__name_fits(&ollama, copy) >= 0);
    REQUIRE(qn__name_fits(&file, quoted) > 0 || strpbrk(quoted, ":/") || strlen(quoted) < 6 || strlen(quoted) > 500);
    REQUIRE(!qn__plain_name(copy, 80) || (!strchr(copy, '/') && copy[0] != '.'));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_manifest((const char *)data, size);
    as_params((const char *)data, size);
    as_names((const char *)data, size);
    return 0;
}
