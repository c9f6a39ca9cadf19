/* SPDX-License-Identifier: MIT */
/* Perplexity and what is compared beside it: against the same sums formed here from a session's logits, whatever the
 * batch, the threads and the room for rows; files of log-probabilities, whole and damaged. What llama-perplexity says
 * of two models is in tests/e2e/perplexity.sh. */
#include "rig.h"
#include "base/file.h"
#include <quern/perplexity.h>
#include <unistd.h>

enum { TEXT = 100, CTX = 24, CHUNKS = 4, ROWS = 11 }; /* 24 tokens: rows 12 to 22 count */

static qn_engine *engine, *other;
static qn_token text[TEXT];

static int open_both(void **state)
{
    (void)state;
    engine = rig_open(&(tiny){.arch = "qwen3"}, NULL);
    other = rig_open(&(tiny){.arch = "llama"}, NULL);
    rig_story(3, text, TEXT);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    qn_engine_close(engine);
    qn_engine_close(other);
    return 0;
}

static qn_session *make(qn_engine *e, int n_batch, int n_logits)
{
    return rig_session(e, (qn_session_options){.n_ctx = CTX, .n_batch = n_batch, .n_logits = n_logits});
}

/* ---- the same in another way ---- */

/* ln of the probabilities behind each row that counts, by one token at a time. */
static void probabilities(qn_engine *e, double (*out)[RIG_VOCAB])
{
    qn_session *s = make(e, 1, 1);
    const qn_tokenizer *tok = qn_engine_tokenizer(e);
    for (int c = 0; c < CHUNKS; c++) {
        for (int i = 0; i < CTX - 1; i++) {
            const qn_token t = i == 0 && qn_tokenizer_add_bos(tok) ? qn_tokenizer_bos(tok) : text[c * CTX + i];
            rig_feed(s, 0, &t, 1);
            if (i < CTX / 2) continue;
            double sum = 0, *row = out[c * ROWS + i - CTX / 2];
            const float *x = qn_session_logits(s, 0);
            for (int k = 0; k < RIG_VOCAB; k++) sum += exp((double)x[k]);
            for (int k = 0; k < RIG_VOCAB; k++) row[k] = (double)x[k] - log(sum);
        }
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    }
    qn_session_destroy(s);
}

static double ln_p[CHUNKS * ROWS][RIG_VOCAB], ln_q[CHUNKS * ROWS][RIG_VOCAB];

static qn_token next_of(int row) { return text[row / ROWS * CTX + CTX / 2 + row % ROWS + 1]; }

static double kld_of(int row)
{
    double sum = 0;
    for (int k = 0; k < RIG_VOCAB; k++) sum += exp(ln_q[row][k]) * (ln_q[row][k] - ln_p[row][k]);
    return sum;
}

static int top_of(const double *row)
{
    int top = 0;
    for (int k = 1; k < RIG_VOCAB; k++)
        if (row[k] > row[top]) top = k;
    return top;
}

static void near(double have, double want, double tolerance, int line)
{
    if (!(fabs(have - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("line %d: %.12g, not %.12g", line, have, want);
}
#define NEAR(have, want) near((have), (want), 1e-6, __LINE__)

/* Mean and standard error in two passes. */
static qn_measured mean_of(const double *x, int n)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (qn_measured){mean, sqrt(squares / n / (n - 1))};
}
#define NEAR_MEAN(have, values) \
    do { \
        const qn_measured want_ = mean_of((values), N); \
        NEAR((have).value, want_.value); \
        NEAR((have).error, want_.error); \
    } while (0)

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { N = CHUNKS * ROWS };

static void as_computed_here(void **state)
{
    (void)state;
    double nll[N], base[N], ratio[N], kld[N], p[N], p2[N], same[N];
    qn_session *s = make(engine, 8, 5), *b = make(other, 7, 3);
    qn_perplexity_result r;
    probabilities(engine, ln_p);
    probabilities(other, ln_q);
    for (int i = 0; i < N; i++) {
        nll[i] = -ln_p[i][next_of(i)];
        base[i] = -ln_q[i][next_of(i)];
        ratio[i] = nll[i] - base[i];
        kld[i] = kld_of(i);
        p[i] = exp(-nll[i]) - exp(-base[i]);
        p2[i] = p[i] * p[i];
        same[i] = top_of(ln_p[i]) == top_of(ln_q[i]);
    }
    MUST(qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .base = b}, &r, err));
    assert_int_equal(r.n_chunks, CHUNKS);
    assert_int_equal(r.n_chunks_done, CHUNKS);
    assert_int_equal(r.n_tokens, N);
    assert_true(r.compared);
    NEAR_MEAN(r.nll, nll);
    NEAR_MEAN(r.base_nll, base);
    NEAR_MEAN(r.ln_ratio, ratio);
    NEAR_MEAN(r.kld, kld);
    NEAR_MEAN(r.p_difference, p);
    NEAR_MEAN(r.same_top, same);
    NEAR(r.ppl.value, exp(mean_of(nll, N).value));
    NEAR(r.ppl.error, exp(mean_of(nll, N).value) * mean_of(nll, N).error);
    NEAR(r.base_ppl.value, exp(mean_of(base, N).value));
    NEAR(r.ratio.value, r.ppl.value / r.base_ppl.value);
    NEAR(r.difference.value, r.ppl.value - r.base_ppl.value);
    NEAR(r.p_rms.value, sqrt(mean_of(p2, N).value));
    NEAR(r.p_rms.error, mean_of(p2, N).error / 2 / sqrt(mean_of(p2, N).value));
    /* var(a - b) = var a + var b - 2 cov */
    const double a2 = mean_of(nll, N).error, b2 = mean_of(base, N).error, d2 = mean_of(ratio, N).error;
    NEAR(r.correlation, (a2 * a2 + b2 * b2 - d2 * d2) / (2 * a2 * b2));
    qsort(kld, N, sizeof *kld, ascending);
    qsort(p, N, sizeof *p, ascending);
    NEAR(r.kld_at[QN_QUANTILE_min], kld[0]);
    NEAR(r.kld_at[QN_QUANTILE_max], kld[N - 1]);
    NEAR(r.kld_at[QN_QUANTILE_median], (kld[21] + kld[22]) / 2);           /* of 44: 0.5 * 43 = 21.5 */
    NEAR(r.p_difference_at[QN_QUANTILE_p25], 0.25 * p[10] + 0.75 * p[11]); /* 10.75 */
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    assert_int_equal(qn_session_seq_len(b, 0), 0);
    qn_session_destroy(s);
    qn_session_destroy(b);
}

/* To the bit: batches, room for rows, threads; and a model beside itself differs in nothing. */
static void whatever_the_batch(void **state)
{
    (void)state;
    qn_perplexity_result first, r;
    for (int k = 0; k < 6; k++) {
        static const struct {
            int n_batch, n_logits, threads;
        } of[] = {{24, 24, 1}, {24, 11, 2}, {24, 1, 3}, {5, 5, 2}, {1, 1, 1}, {13, 2, 3}};
        qn_engine *e = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = of[k].threads});
        qn_session *s = make(e, of[k].n_batch, of[k].n_logits), *same = make(e, 9, 4);
        MUST(qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .base = same}, &r, err));
        assert_true(r.kld.value == 0 && r.same_top.value == 1 && r.p_rms.value == 0 && r.ratio.value == 1);
        assert_true(r.kld_at[QN_QUANTILE_max] == 0 && fabs(r.correlation - 1) < 1e-9);
        if (!k) first = r;
        assert_memory_equal(&r, &first, sizeof r);
        qn_session_destroy(s);
        qn_session_destroy(same);
        qn_engine_close(e);
    }
}

typedef struct watch {
    int n, stop_at;
    qn_perplexity_result last;
} watch;

static bool look(void *ctx, const qn_perplexity_result *r)
{
    watch *w = ctx;
    w->last = *r;
    return ++w->n != w->stop_at;
}

static void chunk_by_chunk(void **state)
{
    (void)state;
    qn_session *s = make(engine, 24, 11);
    qn_perplexity_result r, two;
    watch w = {0};
    const qn_perplexity_options all = {.n_ctx = CTX, .each = look, .ctx = &w};
    MUST(qn_perplexity(s, text, TEXT, &all, &r, err));
    assert_int_equal(w.n, CHUNKS);
    assert_memory_equal(&w.last, &r, sizeof r);
    w = (watch){.stop_at = 2};
    REFUSED(cancelled, qn_perplexity(s, text, TEXT, &all, &r, err), "2 chunks");
    MUST(qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .n_chunks = 2}, &two, err));
    assert_true(w.last.ppl.value == two.ppl.value && two.n_tokens == 2 * ROWS);
    qn_session_stop(s, true);
    REFUSED(cancelled, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX}, &r, err), "");
    qn_session_stop(s, false);
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    qn_session_destroy(s);
}

/* ---- files ---- */

static const char *saved(void)
{
    const char *path = tiny_path("base.kld");
    qn_session *s = make(other, 24, 11);
    qn_perplexity_result r;
    MUST(qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .save = path}, &r, err));
    assert_false(r.compared);
    qn_session_destroy(s);
    return path;
}

static void by_way_of_a_file(void **state)
{
    (void)state;
    const char *path = saved();
    qn_session *s = make(engine, 24, 11), *b = make(other, 24, 11);
    qn_perplexity_result beside, r, one;
    qn_perplexity_file_info info;
    MUST(qn_perplexity_file_get_info(path, &info, err));
    assert_true(info.n_ctx == CTX && info.n_chunks == CHUNKS && info.n_vocab == RIG_VOCAB);
    MUST(qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .base = b}, &beside, err));
    MUST(qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path}, &r, err));
    assert_true(r.ppl.value == beside.ppl.value && r.n_tokens == N);
    near(r.kld.value, beside.kld.value, 1e-4, __LINE__); /* steps of ln p are 1/4096 and less */
    near(r.base_ppl.value, beside.base_ppl.value, 1e-3, __LINE__);
    assert_true(r.same_top.value == beside.same_top.value);
    MUST(qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path, .n_chunks = 1}, &one, err));
    assert_int_equal(one.n_tokens, ROWS);
    MUST(qn_perplexity(b, NULL, 0, &(qn_perplexity_options){.file = path, .n_ctx = CTX}, &r, err));
    assert_true(fabs(r.kld.value) < 1e-6 && r.same_top.value == 1);
    REFUSED(invalid, qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path, .n_ctx = 12}, &r, err), "12",
            "24");
    REFUSED(invalid, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.file = path}, &r, err), "tokens are in");
    REFUSED(invalid, qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path, .base = b}, &r, err), "both");
    qn_session_destroy(s);
    qn_session_destroy(b);
    unlink(path);
}

static void put(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void damaged_files(void **state)
{
    (void)state;
    enum { TOKENS = 20, FIRST_ROW = TOKENS + 4 * CTX * CHUNKS, ROW = 8 + 2 * RIG_VOCAB };
    const char *path = saved();
    char *whole = NULL, *copy;
    size_t size = 0;
    qn_perplexity_result r;
    qn_perplexity_file_info info;
    qn_session *s = make(engine, 24, 11);
    MUST(qn__read_all(path, 1 << 20, &whole, &size, err));
    assert_int_equal(size, FIRST_ROW + CHUNKS * ROWS * ROW);
    copy = malloc(size + 1);
    assert_non_null(copy);
    for (size_t n = 0; n < size; n += n < FIRST_ROW + 20 ? 1 : 997) { /* every end of the header, some of the rows */
        put(path, whole, n);
        REFUSED(format, qn_perplexity_file_get_info(path, &info, err), path);
    }
    memcpy(copy, whole, size);
    copy[size] = 0;
    put(path, copy, size + 1);
    REFUSED(format, qn_perplexity_file_get_info(path, &info, err), "1 bytes follow");
    static const struct {
        int at;
        uint32_t value;
        const char *word;
    } bad[] = {{0, 0, "begin with"},
               {8, 3, "can't be"},
               {8, UINT32_MAX, "can't be"},
               {8, INT32_MAX, "to its end"},
               {12, 0, "can't be"},
               {12, INT32_MAX, "to its end"},
               {16, 0, "can't be"},
               {16, INT32_MAX, "to its end"},
               {TOKENS, RIG_VOCAB, "token 0 is 300"},
               {TOKENS + 8, UINT32_MAX, "token 2 is -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(copy, whole, size);
        for (int k = 0; k < 4; k++) copy[bad[i].at + k] = (char)(bad[i].value >> (8 * k));
        put(path, copy, size);
        REFUSED(format, qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path}, &r, err), bad[i].word);
    }
    memcpy(copy, whole, FIRST_ROW);
    memset(copy + FIRST_ROW, 0xff, size - FIRST_ROW); /* NaN for every scale: numbers that are none, and no more */
    put(path, copy, size);
    MUST(qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = path}, &r, err));
    assert_true(isnan(r.base_ppl.value) && isfinite(r.ppl.value));
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    qn_session_destroy(s);
    qn_free(whole);
    free(copy);
    unlink(path);
}

/* Of another vocabulary; written where nothing can be. */
static void refused(void **state)
{
    (void)state;
    qn_perplexity_result r;
    qn_session *s = make(engine, 24, 11), *b = make(other, 24, 11);
    qn_token bad[CTX];
    rig_story(3, bad, CTX);
    bad[5] = RIG_VOCAB;
    REFUSED(invalid, qn_perplexity(s, text, CTX - 1, &(qn_perplexity_options){.n_ctx = CTX}, &r, err), "23", "24");
    REFUSED(invalid, qn_perplexity(s, bad, CTX, &(qn_perplexity_options){.n_ctx = CTX}, &r, err), "300");
    REFUSED(invalid, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = 3}, &r, err), "3");
    REFUSED(invalid, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_chunks = -1}, &r, err), "-1");
    REFUSED(invalid, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .base = s}, &r, err),
            "itself");
    REFUSED(invalid, qn_perplexity(s, NULL, 0, NULL, &r, err), "no tokens");
    REFUSED(invalid, qn_perplexity(s, text, TEXT, NULL, &r, err), "100", "512");
    REFUSED(limit, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = 26}, &r, err), "26", "24");
    rig_feed(b, 0, text, 2);
    REFUSED(state, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .base = b}, &r, err), "base");
    assert_int_equal(qn_session_seq_len(b, 0), 2);
    REFUSED(io, qn_perplexity(s, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX, .save = "/nowhere/x"}, &r, err),
            "/nowhere/x");
    REFUSED(io, qn_perplexity(s, NULL, 0, &(qn_perplexity_options){.file = "/nowhere/x"}, &r, err), "/nowhere/x");
    qn_engine *encoder = rig_open(&(tiny){.arch = "bert"}, NULL);
    qn_session *e = rig_session(encoder, (qn_session_options){.embeddings = true});
    REFUSED(unsupported, qn_perplexity(e, text, TEXT, &(qn_perplexity_options){.n_ctx = CTX}, &r, err), "logits");
    qn_session_destroy(e);
    qn_engine_close(encoder);
    qn_session_destroy(s);
    qn_session_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_computed_here), cmocka_unit_test(whatever_the_batch),
                                       cmocka_unit_test(chunk_by_chunk),   cmocka_unit_test(by_way_of_a_file),
                                       cmocka_unit_test(damaged_files),    cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, open_both, close_both);
}
