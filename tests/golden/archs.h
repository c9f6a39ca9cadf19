/* SPDX-License-Identifier: MIT */
/* tests/golden/archs.h -- reading shared/archs: the rows of archs.json, tokens, arrays. */
#ifndef QN_TEST_GOLDEN_ARCHS_H
#define QN_TEST_GOLDEN_ARCHS_H

#include "unit/model/tiny.h"

enum { N = 80 };

static char rows[1 << 16];

static inline bool read_rows(void)
{
    FILE *file = fopen(QN_SHARED_DIR "/archs/archs.json", "rb");
    const size_t n = file ? fread(rows, 1, sizeof rows - 1, file) : 0;
    if (file) fclose(file);
    assert_true(n < sizeof rows - 1);
    return n > 0;
}

/* The text after `"key": ` in a row, up to a comma, quote or bracket. */
static inline void field(const char *row, const char *key, char *out, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(row, quoted), *end = strchr(row, '}');
    if (!at || at > end) fail_msg("%s is missing in %.40s", key, row);
    at += strlen(quoted);
    at += strspn(at, " \n\"[");
    snprintf(out, size, "%.*s", (int)strcspn(at, ",\"}\n"), at);
}

static inline void read_tokens(qn_token *tokens)
{
    FILE *file = fopen(QN_SHARED_DIR "/archs/tokens.json", "rb");
    assert_non_null(file);
    for (int i = 0; i < N; i++) assert_int_equal(fscanf(file, i ? ", %d" : "[%d", &tokens[i]), 1);
    fclose(file);
}

static inline float *read_npy(const char *name, size_t n)
{
    char path[512], magic[10];
    snprintf(path, sizeof path, "%s/archs/%s", QN_SHARED_DIR, name);
    FILE *file = fopen(path, "rb");
    float *out = malloc(n * sizeof *out);
    assert_true(file && out && fread(magic, 1, 10, file) == 10);
    assert_int_equal(fseek(file, 10 + (unsigned char)magic[8] + 256 * (unsigned char)magic[9], SEEK_SET), 0);
    assert_int_equal(fread(out, sizeof *out, n, file), n);
    fclose(file);
    return out;
}

static inline double nmse(const float *have, const float *want, size_t n)
{
    double num = 0, den = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)have[i] - (double)want[i];
        num += d * d;
        den += (double)want[i] * (double)want[i];
    }
    return num / den;
}

#endif
