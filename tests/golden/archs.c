/* SPDX-License-Identifier: MIT */
/* tests/golden/archs.c -- the tiny models of shared/archs against an independent engine's exact logits: every file
 * whose architecture is known here, with a cache that rounds nothing, under the limit of its row in archs.json. With
 * names it runs these files only, whatever their architecture. */
#include "unit/model/tiny.h"

#include "model/arch.h"

enum { N = 80 };

/* Files of known architectures that hold what is not computed yet, and are refused as unsupported. */
static const char *const later[] = {"baichuan-alibi"};

static char rows[1 << 16];

static bool read_rows(void)
{
    FILE *file = fopen(QN_SHARED_DIR "/archs/archs.json", "rb");
    const size_t n = file ? fread(rows, 1, sizeof rows - 1, file) : 0;
    if (file) fclose(file);
    assert_true(n < sizeof rows - 1);
    return n > 0;
}

/* The text after `"key": ` in a row, up to a comma, quote or bracket. */
static void field(const char *row, const char *key, char *out, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(row, quoted), *end = strchr(row, '}');
    if (!at || at > end) fail_msg("%s is missing in %.40s", key, row);
    at += strlen(quoted);
    at += strspn(at, " \n\"[");
    snprintf(out, size, "%.*s", (int)strcspn(at, ",\"}\n"), at);
}

static void read_tokens(qn_token *tokens)
{
    FILE *file = fopen(QN_SHARED_DIR "/archs/tokens.json", "rb");
    assert_non_null(file);
    for (int i = 0; i < N; i++) assert_int_equal(fscanf(file, i ? ", %d" : "[%d", &tokens[i]), 1);
    fclose(file);
}

static float *read_npy(const char *name, size_t n)
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

static double nmse(const float *have, const float *want, size_t n)
{
    double num = 0, den = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)have[i] - (double)want[i];
        num += d * d;
        den += (double)want[i] * (double)want[i];
    }
    return num / den;
}

/* All 80 at once, in chunks of 7, or one after another, as sequence 1 of 2; NMSE of the first, and the same bits. */
static bool run_file(const char *name, const char *npy, double limit, const qn_token *tokens, bool say)
{
    char path[512];
    qn_engine *e = NULL;
    qn_engine_info info;
    qn_batch_item items[N];
    snprintf(path, sizeof path, "%s/archs/%s.gguf", QN_SHARED_DIR, name);
    qn_error refusal;
    const qn_status status = qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, &refusal);
    if (status != QN_OK) {
        bool listed = false;
        for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) listed = listed || strcmp(later[i], name) == 0;
        printf("%-24s refused: %s\n", name, refusal.text);
        return listed && status == QN_STATUS_unsupported;
    }
    qn_engine_get_info(e, &info);
    const size_t n = (size_t)N * (size_t)info.n_vocab;
    float *want = read_npy(npy, n), *have = malloc(2 * n * sizeof *have), *again = have + n;
    assert_non_null(have);
    bool same = true;
    static const int batches[] = {N, 7, 1};
    for (int b = 0; b < 3; b++) {
        qn_session *s = NULL;
        float *out = b ? again : have;
        MUST(qn_session_create(e,
                               &(qn_session_options){.n_ctx = 512,
                                                     .n_seq = 2,
                                                     .n_logits = N,
                                                     .kv_type = QN_DTYPE_F32,
                                                     .kv_type_set = true},
                               &s, err));
        for (int i = 0; i < N; i += batches[b]) {
            const int k = N - i < batches[b] ? N - i : batches[b];
            for (int j = 0; j < k; j++) items[j] = (qn_batch_item){tokens[i + j], i + j, b & 1, true};
            MUST(qn_session_decode(s, items, k, err));
            memcpy(out + i * info.n_vocab, qn_session_logits(s, 0), (size_t)(k * info.n_vocab) * sizeof *out);
        }
        qn_session_destroy(s);
        same = same && memcmp(out, have, n * sizeof *out) == 0;
    }
    const double off = nmse(have, want, n);
    const bool good = off <= limit && same;
    if (say || !good)
        printf("%-24s NMSE %.3g, limit %.3g%s%s\n", name, off, limit, good ? "" : " FAILED",
               same ? "" : ", bits differ");
    free(want);
    free(have);
    qn_engine_close(e);
    return good;
}

static const char *only;
static int n_run, n_bad;

static void every_file(void **state)
{
    (void)state;
    qn_token tokens[N];
    read_tokens(tokens);
    for (const char *at = strchr(rows, '{') + 1; (at = strchr(at, '"')) != NULL; at = strchr(at, '}') + 1) {
        char name[64], arch[64], mode[32], limit[32], npy[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "\""), at + 1);
        field(at, "arch", arch, sizeof arch);
        field(at, "mode", mode, sizeof mode);
        field(at, "limit", limit, sizeof limit);
        field(at, "expect", npy, sizeof npy);
        if (only ? strcmp(only, name) != 0 : strcmp(mode, "causal") != 0 || !qn__arch_find(arch)) continue;
        n_run++;
        n_bad += !run_file(name, npy, strtod(limit, NULL), tokens, true);
    }
    printf("%d files, %d of them not right\n", n_run, n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n_run > 0);
}

int main(int argc, char **argv)
{
    if (!read_rows()) {
        printf("skipped: no %s/archs/archs.json\n", QN_SHARED_DIR);
        return 77;
    }
    only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
