/* SPDX-License-Identifier: MIT */
/* tests/golden/archs.c -- the tiny models of shared/archs against an independent engine's exact logits: every file
 * whose architecture is known here, with a cache that rounds nothing, under the limit of its row in archs.json; with
 * the default one, where no experts may be chosen otherwise, under twice what that costs the other engine. The bits are
 * those of any way to compute it. With a name it runs this file only, whatever its architecture. */
#include "archs.h"

#include "engine/engine.h"
#include "model/arch.h"

/* GroveMoE's small experts take what their neighbours take in the authors' code, which counts; that engine gives them
 * what those made. Golden models have the authors' figures. */
static const char *const by_authors[] = {"grovemoe"};

/* The engine that made these logits does not read the file's epsilon for them and takes 0: with that they agree to
 * 1e-12, with the file's, which counts, to 2.6e-6. They are compared with a copy whose epsilon is 0. */
static const char *const without_eps[] = {"qwen2vl"};

static void copy_without_eps(const char *from, const char *to)
{
    static const char key[] = "attention.layer_norm_rms_epsilon";
    static char bytes[4 << 20];
    FILE *file = fopen(from, "rb");
    const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    assert_true(file && n > 0 && n < sizeof bytes && fclose(file) == 0);
    char *at = memmem(bytes, n, key, strlen(key));
    assert_non_null(at);
    memset(at + strlen(key) + 4, 0, 4); /* after the value's type */
    assert_non_null(file = fopen(to, "wb"));
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Positions first .. first + n - 1 of a sequence: are the logits those of `want`? */
static bool same_bits(qn_session *s, int seq, const qn_token *tokens, int first, int n, int n_vocab, const float *want)
{
    qn_batch_item items[N];
    for (int i = 0; i < n; i++) items[i] = (qn_batch_item){tokens[first + i], first + i, seq, true};
    MUST(qn_session_decode(s, items, n, err));
    const size_t row = (size_t)n_vocab;
    return memcmp(qn_session_logits(s, 0), want + (size_t)first * row, (size_t)n * row * sizeof *want) == 0;
}

static qn_session *remembering(qn_engine *e, int n_batch)
{
    qn_session *s = NULL;
    const qn_session_options o = {
        .n_ctx = 512, .n_seq = 2, .n_batch = n_batch, .n_logits = N, .kv_type = QN_DTYPE_F32, .kv_type_set = true};
    MUST(qn_session_create(e, &o, &s, err));
    return s;
}

/* Saved after half and restored in a session that forgets more; copied after half, while the other goes on elsewhere;
 * the last 20 removed and computed again: the same bits each time. */
static bool remembers(qn_engine *e, const qn_token *tokens, int n_vocab, const float *want)
{
    const char *path = tiny_path("half.state");
    const int half = N / 2;
    qn_session *s = remembering(e, half), *r = remembering(e, 1);
    bool same = same_bits(s, 0, tokens, 0, half, n_vocab, want);
    MUST(qn_session_save(s, path, err));
    MUST(qn_session_restore(r, path, err));
    MUST(qn_session_seq_copy(s, 0, 1, 0, -1, err));
    for (int i = half; i < N; i++) MUST(qn_session_feed(s, 0, &tokens[N - 1 - i], 1, err));
    same = same_bits(s, 1, tokens, half, N - half, n_vocab, want) && same;
    same = same_bits(r, 0, tokens, half, N - half, n_vocab, want) && same;
    for (int k = 0; k < 2; k++) {
        qn_session *last = k ? r : s;
        MUST(qn_session_seq_remove(last, !k, N - 20, -1, err));
        same = same_bits(last, !k, tokens, N - 20, 20, n_vocab, want) && same;
    }
    qn_session_destroy(s);
    qn_session_destroy(r);
    return same;
}

static bool has_experts(const qn_engine *e, const char *arch)
{
    char key[128];
    snprintf(key, sizeof key, "%s.expert_count", arch);
    return qn_gguf_kv_find(qn_engine_file(e), key) != NULL;
}

/* With the default cache, which rounds keys and values to 16 bits. */
static double rounded_error(qn_engine *e, const qn_token *tokens, int n_vocab, const float *want)
{
    qn_session *s = NULL;
    qn_batch_item items[N];
    MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 512, .n_logits = N}, &s, err));
    for (int i = 0; i < N; i++) items[i] = (qn_batch_item){tokens[i], i, 0, true};
    MUST(qn_session_decode(s, items, N, err));
    const double off = nmse(qn_session_logits(s, 0), want, (size_t)N * (size_t)n_vocab);
    qn_session_destroy(s);
    return off;
}

/* One way to compute all 80: logits to out [N, n_vocab]. With `beside` two other sequences are in the same batches. */
typedef struct way {
    int level, threads, batch;
    bool beside, no_plan_cache;
} way;

static bool computes(const char *path, const way *w, const qn_token *tokens, const float *want, float *out)
{
    char backend[32];
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_batch_item items[3 * N];
    snprintf(backend, sizeof backend, "cpu:%s", qn_cpu_level_name((qn_cpu_level)w->level));
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = w->threads, .backends = backend}, &e, err));
    const size_t row = e->model->hp.n_vocab;
    const int batch = e->model->sees_ahead ? N : w->batch; /* a text is computed at once */
    MUST(qn_session_create(e,
                           &(qn_session_options){.n_ctx = 512,
                                                 .n_seq = 3,
                                                 .n_batch = 3 * batch,
                                                 .n_logits = N,
                                                 .kv_type = QN_DTYPE_F32,
                                                 .kv_type_set = true,
                                                 .no_plan_cache = w->no_plan_cache},
                           &s, err));
    for (int i = 0; i < N; i += batch) {
        int n = 0;
        for (int j = i; j < i + batch && j < N; j++) {
            if (w->beside) items[n++] = (qn_batch_item){tokens[N - 1 - j], j, 0, false};
            items[n++] = (qn_batch_item){tokens[j], j, 1, true};
            if (w->beside && j % 2) items[n++] = (qn_batch_item){tokens[j * 37 % N], j, 2, false};
        }
        MUST(qn_session_decode(s, items, n, err));
        memcpy(out + (size_t)i * row, qn_session_logits(s, 0), (size_t)qn_session_n_logits(s) * row * sizeof *out);
    }
    qn_session_destroy(s);
    qn_engine_close(e);
    return !want || memcmp(out, want, (size_t)N * row * sizeof *out) == 0;
}

/* Under a sanitizer one way besides. */
#ifdef QN_CHECKED
enum { FIRST_WAY = 2, N_WAYS = 3 };
#else
enum { FIRST_WAY = 0, N_WAYS = 3 + QN_CPU_LEVEL_COUNT };
#endif

/* 1, 2 and 3 threads, batches of 1, 7 and 80, alone and beside others, with kept plans and without, at every level: the
 * same bits. */
static bool same_ways(const char *name, const char *path, const qn_machine *machine, const qn_token *tokens,
                      const float *want, float *out)
{
    const int best = (int)machine->level;
    const way ways[] = {{best, 1, 1, false, false}, {best, 2, N, true, false}, {best, 3, 7, true, true}};
    bool same = true;
    for (int k = FIRST_WAY; k < N_WAYS; k++) {
        const int level = k - 3;
        const way w = k < 3 ? ways[k] : (way){level, 1, N, level % 2, false};
        if (k >= 3 && (level == best || !(machine->levels >> level & 1))) continue;
        if (computes(path, &w, tokens, want, out)) continue;
        printf("%-24s FAILED: bits differ at %s, %d threads, batches of %d%s%s\n", name,
               qn_cpu_level_name((qn_cpu_level)w.level), w.threads, w.batch, w.beside ? ", beside others" : "",
               w.no_plan_cache ? ", no plans kept" : "");
        same = false;
    }
    return same;
}

static bool listed(const char *name, const char *const *list, size_t n)
{
    bool is = false;
    for (size_t i = 0; i < n; i++) is = is || strcmp(name, list[i]) == 0;
    return is;
}
#define LISTED(name, list) listed(name, list, sizeof list / sizeof list[0])

/* NMSE of all 80 at once, and the same bits of every way. */
static bool run_file(const char *name, const char *npy, double limit, double rounded, const qn_token *tokens,
                     const qn_machine *machine)
{
    char path[512];
    qn_engine *e = NULL;
    qn_engine_info info;
    qn_error refusal;
    snprintf(path, sizeof path, "%s/archs/%s.gguf", QN_SHARED_DIR, name);
    if (LISTED(name, without_eps)) {
        copy_without_eps(path, tiny_path("no-eps.gguf"));
        snprintf(path, sizeof path, "%s", tiny_path("no-eps.gguf"));
    }
    if (qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, &refusal) != QN_OK) {
        printf("%-24s FAILED: refused: %s\n", name, refusal.text);
        return false;
    }
    qn_engine_get_info(e, &info);
    const size_t n = (size_t)N * (size_t)info.n_vocab;
    float *want = read_npy(npy, n), *have = malloc(2 * n * sizeof *have);
    assert_non_null(have);
    (void)computes(path, &(way){(int)machine->level, 1, N, false, false}, tokens, NULL, have);
    bool good = same_ways(name, path, machine, tokens, have, have + n);
    if (!e->model->sees_ahead && !remembers(e, tokens, info.n_vocab, have)) {
        printf("%-24s FAILED: bits differ after saving, copying or removing\n", name);
        good = false;
    }
    const bool apart = LISTED(name, by_authors);
    const double off_16 =
        apart || rounded == 0 || has_experts(e, info.arch) ? 0 : rounded_error(e, tokens, info.n_vocab, want);
    if (off_16 > 2 * rounded) {
        printf("%-24s FAILED: NMSE %.3g with the default cache, %.3g elsewhere\n", name, off_16, rounded);
        good = false;
    }
    const double off = nmse(have, want, n);
    good = good && (apart || off <= limit);
    printf("%-24s NMSE %.3g, limit %.3g%s%s\n", name, off, limit, apart ? ", which is of another definition" : "",
           good ? "" : " FAILED");
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
    qn_machine machine;
    qn_machine_get(&machine);
    read_tokens(tokens);
    for (const char *at = strchr(rows, '{') + 1; (at = strchr(at, '"')) != NULL; at = strchr(at, '}') + 1) {
        char name[64], arch[64], mode[32], limit[32], npy[128], rounded[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "\""), at + 1);
        field(at, "arch", arch, sizeof arch);
        field(at, "mode", mode, sizeof mode);
        field(at, "limit", limit, sizeof limit);
        field(at, "expect", npy, sizeof npy);
        if (only ? strcmp(only, name) != 0
                 : (strcmp(mode, "causal") != 0 && strcmp(mode, "diffusion") != 0) || !qn__arch_find(arch))
            continue;
        const char *known = strstr(at, "\"f16_cache_error\""); /* not of quantized experts */
        snprintf(rounded, sizeof rounded, "0");
        if (known && known < strchr(at, '}')) field(at, "f16_cache_error", rounded, sizeof rounded);
        n_run++;
        n_bad += !run_file(name, npy, strtod(limit, NULL), strtod(rounded, NULL), tokens, &machine);
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
