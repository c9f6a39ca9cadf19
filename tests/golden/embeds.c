/* SPDX-License-Identifier: MIT */
/* tests/golden/embeds.c -- the embedding models of shared/archs against an independent engine's: hidden states of every
 * token, and what each kind of pooling makes of them, with a cache that rounds nothing, under the limit of the file's
 * row in archs.json; the same bits with 1, 2 and 3 threads, alone and in a batch, at every level. With a name it runs
 * this file only, whatever its architecture. */
#include "archs.h"

#include "model/arch.h"

/* Three texts: the one that counts is the last, the second or the first of them. */
static void embed(const char *path, const char *backends, int threads, qn_pooling pooling, const qn_token *tokens,
                  int at, size_t n, float *out)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_engine_info info;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = threads, .backends = backends}, &e, err));
    qn_engine_get_info(e, &info);
    const qn_session_options options = {.n_ctx = 512,
                                        .n_batch = at == 1 ? N : 300,
                                        .n_seq = 3,
                                        .embeddings = true,
                                        .kv_type = QN_DTYPE_F32,
                                        .kv_type_set = true};
    qn_embedding_text texts[3] = {{tokens + 20, 41}, {tokens + 3, 7}, {tokens + 11, 60}};
    float *all = calloc((size_t)(3 * N + 3) * (size_t)info.n_embd, sizeof *all);
    size_t before = 0;
    texts[at] = (qn_embedding_text){tokens, N};
    const size_t width = n / (pooling == QN_POOLING_none ? (size_t)N : 1);
    for (int t = 0; t < at; t++) before += pooling == QN_POOLING_none ? (size_t)texts[t].n_tokens * width : width;
    MUST(qn_session_create(e, &options, &s, err));
    MUST(qn_session_embeddings(s, texts, 3, &(qn_embedding_options){.pooling = pooling}, all, err));
    assert_int_equal(qn_session_free_cells(s), 512);
    memcpy(out, all + before, n * sizeof *out);
    free(all);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static const char *only;
static qn_machine machine;
#ifdef QN_CHECKED
enum { N_LEVELS = 0 }; /* under a sanitizer the best alone */
#else
enum { N_LEVELS = QN_CPU_LEVEL_COUNT };
#endif
static int n_run, n_bad;

static void one(const char *name, qn_pooling pooling, const char *npy, size_t n, double limit, const qn_token *tokens)
{
    char path[512];
    snprintf(path, sizeof path, "%s/archs/%s.gguf", QN_SHARED_DIR, name);
    float *want = read_npy(npy, n), *have = malloc(2 * n * sizeof *have);
    assert_non_null(have);
    embed(path, NULL, 1, pooling, tokens, 0, n, have);
    bool same = true;
    for (int t = 2; t <= 3; t++) {
        embed(path, NULL, t, pooling, tokens, t - 1, n, have + n);
        same = same && memcmp(have, have + n, n * sizeof *have) == 0;
    }
    for (int l = 0; l < N_LEVELS && pooling == QN_POOLING_none; l++) {
        char backend[32];
        if (!(machine.levels >> l & 1)) continue;
        snprintf(backend, sizeof backend, "cpu:%s", qn_cpu_level_name((qn_cpu_level)l));
        embed(path, backend, 1, pooling, tokens, 0, n, have + n);
        same = same && memcmp(have, have + n, n * sizeof *have) == 0;
    }
    const double off = nmse(have, want, n);
    const bool good = off <= limit && same;
    printf("%-24s %-6s NMSE %.3g, limit %.3g%s%s\n", name, qn_pooling_name(pooling), off, limit, good ? "" : " FAILED",
           same ? "" : ", bits differ");
    n_run++;
    n_bad += !good;
    free(want);
    free(have);
}

static void every_file(void **state)
{
    (void)state;
    qn_token tokens[N];
    read_tokens(tokens);
    for (const char *at = strchr(rows, '{') + 1; (at = strchr(at, '"')) != NULL; at = strchr(at, '}') + 1) {
        char name[64], arch[64], mode[32], limit[32], path[512];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "\""), at + 1);
        field(at, "arch", arch, sizeof arch);
        field(at, "mode", mode, sizeof mode);
        field(at, "limit", limit, sizeof limit);
        if (strcmp(mode, "encode") != 0 && strcmp(mode, "embed") != 0) continue;
        if (only ? strcmp(only, name) != 0 : !qn__arch_find(arch)) continue;
        qn_engine *e = NULL;
        qn_engine_info info;
        snprintf(path, sizeof path, "%s/archs/%s.gguf", QN_SHARED_DIR, name);
        MUST(qn_engine_open(path, NULL, &e, err));
        qn_engine_get_info(e, &info);
        qn_engine_close(e);
        for (int p = QN_POOLING_none; p <= QN_POOLING_rank; p++) {
            char npy[96];
            const int number = p - QN_POOLING_none;
            if (p == QN_POOLING_none)
                snprintf(npy, sizeof npy, "%s.embd.npy", name);
            else
                snprintf(npy, sizeof npy, "%s.pool%d.npy", name, number);
            const char *listed = strstr(at, npy), *end = strchr(at, '}');
            assert_true(p == QN_POOLING_rank || (listed && listed < end));
            assert_int_equal(p == QN_POOLING_rank && listed && listed < end, p == QN_POOLING_rank && info.n_label > 0);
            if (p == QN_POOLING_rank && !info.n_label) continue;
            const int32_t width = p == QN_POOLING_rank ? info.n_label : info.n_embd;
            one(name, (qn_pooling)p, npy, (size_t)(p == QN_POOLING_none ? N : 1) * (size_t)width, strtod(limit, NULL),
                tokens);
        }
    }
    printf("%d arrays, %d of them not right\n", n_run, n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n_run > 0);
}

int main(int argc, char **argv)
{
    if (!read_rows()) {
        printf("skipped: no %s/archs/archs.json\n", QN_SHARED_DIR);
        return 77;
    }
    qn_machine_get(&machine);
    only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
