/* SPDX-License-Identifier: MIT */
/* tests/golden/archs.c -- the tiny models of shared/archs against an independent engine's exact logits: every file
 * whose architecture is known here, with a cache that rounds nothing, under the limit of its row in archs.json. With
 * names it runs these files only, whatever their architecture. */
#include "archs.h"

#include "model/arch.h"

/* Files of known architectures that hold what is not computed yet, and are refused as unsupported. */
static const char *const later[] = {"baichuan-alibi"};

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
