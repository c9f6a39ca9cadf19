/* SPDX-License-Identifier: MIT */
/* tests/golden/lens.c -- the lens: what NumPy computes in float64 of a Llama (lens_figures.inc, written by
 * tests/oracle/lens.py), places, heads and patches; and of every decoder of models.def the last layer says what the
 * model says, to the bit, and what heads look at, times the values, is what the engine's attention computed. With
 * --write FILE it only writes the Llama, for that program. */
#include "engine/engine.h"
#include "unit/model/tiny.h"

#include "models.h"
#include <quern/lens.h>
#include <quern/tap.h>

enum {
    N = 6,
    N_LAYER = 2,
    N_HEAD = 4,
    LONG = 20, /* past the windows of models.def */
#ifdef QN_CHECKED
    EVERY = 16,
#else
    EVERY = 1,
#endif
};
static const qn_synth_options llama = {.arch = "llama",
                                       .n_layer = N_LAYER,
                                       .n_embd = 64,
                                       .n_head = N_HEAD,
                                       .n_kv_head = 2,
                                       .n_ff = 96,
                                       .n_vocab = 320,
                                       .n_ctx = 64,
                                       .spread = 0.2f,
                                       .type = "F32",
                                       .seed = 11};
static char path[768];
static qn_token tokens[LONG], other[LONG];
static qn_engine *engine;

static qn_session *begin(qn_engine *e, int batch, int n_logits)
{
    qn_session *s = NULL;
    const qn_session_options o = {
        .n_ctx = 64, .n_batch = batch, .n_logits = n_logits, .kv_type = QN_DTYPE_F32, .kv_type_set = true};
    MUST(qn_session_create(e, &o, &s, err));
    return s;
}

/* ---- against NumPy ---- */

static const struct place {
    int layer, token, top, rank;
    double entropy, p_top, p, rms;
    int channel;
} places[] = {
#define PLACE(...) {__VA_ARGS__},
#define HEAD(layer, head, ...)
#define GRID(value, ...)
#include "lens_figures.inc"
#undef PLACE
#undef HEAD
};
static const struct head {
    int layer, head;
    float rows[N * N];
} heads[] = {
#define PLACE(...)
#define HEAD(...) {__VA_ARGS__},
#include "lens_figures.inc"
#undef HEAD
#undef GRID
};
static const struct grid {
    const char *value;
    int words[2];
    double other, base;
    float grid[N_LAYER * N];
} grids[] = {
#define HEAD(layer, head, ...)
#define GRID(...) {__VA_ARGS__},
#include "lens_figures.inc"
#undef PLACE
#undef HEAD
#undef GRID
};
#define COUNT(x) ((int)(sizeof(x) / sizeof(x)[0]))

static void close_to(double have, double want, double most, const char *what)
{
    if (!(fabs(have - want) <= most)) fail_msg("%s is %.9g, %.9g expected", what, have, want);
}

static void places_are_numpys(void **state)
{
    (void)state;
    for (int batch = 1; batch <= 7; batch += 3) {
        qn_lens *lens = NULL;
        qn_lens_info info;
        qn_session *s = begin(engine, batch, 0);
        MUST(qn_lens_create(s, tokens, N, &(qn_lens_options){.attention = true, .n_top = 3}, &lens, err));
        qn_lens_get_info(lens, &info);
        assert_true(info.n_layer == N_LAYER && info.end_layer == N_LAYER && info.n_tokens == N && info.n_top == 3);
        assert_int_equal(COUNT(places), N_LAYER * N);
        for (int i = 0; i < COUNT(places); i++) {
            const struct place *want = &places[i];
            const qn_lens_place *have = qn_lens_at(lens, want->layer, want->token);
            assert_int_equal(have->top[0].token, want->top);
            assert_true(have->top[0].p >= have->top[1].p && have->top[1].p >= have->top[2].p);
            assert_int_equal(have->rank, want->rank);
            assert_int_equal(have->channel, want->channel);
            close_to((double)have->entropy, want->entropy, 1e-4, "an entropy");
            close_to((double)have->top[0].p, want->p_top, 1e-5, "the most likely word's probability");
            close_to((double)have->p, want->p, 1e-5, "the probability of what came");
            close_to((double)have->rms, want->rms, 1e-4, "a root mean square");
        }
        assert_int_equal(COUNT(heads), N_LAYER * N_HEAD);
        for (int i = 0; i < COUNT(heads); i++) {
            const float *rows = qn_lens_attention(lens, heads[i].layer, heads[i].head);
            for (int k = 0; k < N * N; k++)
                close_to((double)rows[k], (double)heads[i].rows[k], 1e-5, "a head's weight");
        }
        assert_null(qn_lens_attention(lens, 0, N_HEAD));
        assert_null(qn_lens_at(lens, N_LAYER, 0));
        assert_null(qn_lens_at(lens, 0, N));
        assert_null(qn_lens_logits(lens, 0, 0));
        qn_lens_destroy(lens);
        qn_session_destroy(s);
    }
}

static void patches_are_numpys(void **state)
{
    (void)state;
    assert_int_equal(COUNT(grids), 2);
    for (int i = 0; i < COUNT(grids); i++) {
        qn_lens_grid *g = NULL;
        qn_session *s = begin(engine, 4, 0);
        MUST(qn_lens_patch(s, tokens, other, N, &(qn_lens_patch_options){.value = grids[i].value}, &g, err));
        assert_true(g->words[0] == grids[i].words[0] && g->words[1] == grids[i].words[1]);
        close_to((double)g->other, grids[i].other, 1e-4, "the other text's difference");
        close_to((double)g->base, grids[i].base, 1e-4, "this text's difference");
        for (int k = 0; k < N_LAYER * N; k++)
            close_to((double)g->difference[k], (double)grids[i].grid[k], 1e-4, "a patched text's difference");
        assert_true(g->there[0] && g->there[1]);
        assert_int_equal(qn_session_seq_len(s, 0), 0);
        qn_lens_grid_destroy(g);
        /* With its own values nothing changes, to the bit; the words are then the caller's. */
        const qn_lens_patch_options own = {.value = grids[i].value, .has_words = true, .words = {5, 7}};
        MUST(qn_lens_patch(s, tokens, tokens, N, &own, &g, err));
        assert_true(g->words[0] == 5 && g->words[1] == 7);
        for (int k = 0; k < N_LAYER * N; k++) assert_memory_equal(&g->difference[k], &g->base, sizeof(float));
        qn_lens_grid_destroy(g);
        qn_session_destroy(s);
    }
}

/* ---- every decoder ---- */

static void check_model(const char *name, qn_engine *e, double *worst)
{
    qn_engine_info info;
    qn_lens *lens = NULL;
    qn_batch_item items[LONG];
    qn_engine_get_info(e, &info);
    qn_session *s = begin(e, info.both_ways ? LONG : 16, LONG), *plain = begin(e, info.both_ways ? LONG : 7, LONG);
    MUST(qn_lens_create(s, tokens, LONG, &(qn_lens_options){.attention = true, .logits = true}, &lens, err));
    for (int i = 0; i < LONG; i++) items[i] = (qn_batch_item){tokens[i], i, 0, true};
    MUST(qn_session_decode(plain, items, LONG, err));
    for (int i = 0; i < LONG; i++)
        if (memcmp(qn_lens_logits(lens, info.n_layer - 1, i), qn_session_logits(plain, i),
                   (size_t)info.n_vocab * sizeof(float)) != 0)
            fail_msg("%s: the last layer's logits at token %d are not the model's", name, i);
    for (int l = 0; l < info.n_layer; l++) {
        const int n_head = qn_lens_n_heads(lens, l);
        const double off = qn_lens_attention_error(lens, l);
        if (n_head < 1) fail_msg("%s: layer %d has no attention", name, l);
        if (!(off < 1e-8)) fail_msg("%s: layer %d, weights times values are off by %g (NMSE)", name, l, off);
        if (off > *worst) *worst = off;
        const bool sinks = e->model->layers[l].attn_sinks != NULL;
        for (int h = 0; h < n_head; h++) {
            for (int q = 0; q < LONG; q++) {
                double sum = 0;
                for (int k = 0; k < LONG; k++) {
                    const float w = qn_lens_attention(lens, l, h)[q * LONG + k];
                    assert_true(w >= 0 && (k <= q || w == 0 || info.both_ways));
                    sum += (double)w;
                }
                if (!(sinks ? sum > 0 && sum < 1 + 1e-5 : fabs(sum - 1) < 1e-5))
                    fail_msg("%s: layer %d, head %d: a token's weights add up to %g", name, l, h, sum);
            }
        }
    }
    qn_lens_destroy(lens);
    qn_session_destroy(plain);
    qn_session_destroy(s);
}

static void every_decoder(void **state)
{
    (void)state;
    double worst = 0;
    int n = 0;
    for (int m = 0; m < N_MODELS; m += EVERY) {
        qn_engine *e = NULL;
        qn_engine_info info;
        MUST(qn_synth(tiny_path("model.gguf"), &models[m].options, NULL, NULL, err));
        MUST(qn_engine_open(tiny_path("model.gguf"), &(qn_engine_options){.n_threads = 1}, &e, err));
        qn_engine_get_info(e, &info);
        if (info.encoder) {
            qn_session *s = NULL;
            qn_lens *lens = NULL;
            MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 32, .embeddings = true}, &s, err));
            REFUSED(unsupported, qn_lens_create(s, tokens, 3, NULL, &lens, err), "needs logits");
            qn_session_destroy(s);
        } else {
            check_model(models[m].name, e, &worst);
            n++;
        }
        qn_engine_close(e);
    }
    printf("%d decoders; weights times values, NMSE at worst %.3g\n", n, worst);
    assert_true(n > 3);
}

/* ---- on two backends, beside taps, and what is refused ---- */

static void splits(void **state)
{
    (void)state;
    qn_engine *e = NULL;
    qn_lens *lens[2] = {NULL, NULL};
    const qn_place_rule rules[] = {{"blk.1.*", 1}, {"output*", 1}};
    const qn_engine_options options = {.backends = "cpu:ref,cpu:ref", .n_threads = 1, .rules = rules, .n_rules = 2};
    MUST(qn_engine_open(path, &options, &e, err));
    for (int i = 0; i < 2; i++) {
        qn_session *s = begin(i ? e : engine, 8, 0);
        MUST(qn_lens_create(s, tokens, N, &(qn_lens_options){.logits = true, .attention = true}, &lens[i], err));
        qn_session_destroy(s);
    }
    for (int l = 0; l < N_LAYER; l++)
        for (int i = 0; i < N; i++)
            assert_memory_equal(qn_lens_logits(lens[0], l, i), qn_lens_logits(lens[1], l, i), 320 * sizeof(float));
    for (int i = 0; i < 2; i++) qn_lens_destroy(lens[i]);
    qn_engine_close(e);
}

/* What a cache of 16 bits rounds is in the keys; attention itself is then in integers. */
static void rounded_caches(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F16, QN_DTYPE_BF16};
    for (int i = 0; i < COUNT(types); i++) {
        qn_session *s = NULL;
        qn_lens *lens = NULL;
        const qn_session_options o = {.n_ctx = 64, .n_batch = 8, .kv_type = types[i], .kv_type_set = true};
        MUST(qn_session_create(engine, &o, &s, err));
        MUST(qn_lens_create(s, tokens, LONG, &(qn_lens_options){.attention = true}, &lens, err));
        for (int l = 0; l < N_LAYER; l++) {
            const double off = qn_lens_attention_error(lens, l);
            if (!(off < 1e-7)) fail_msg("a cache of %s, layer %d: off by %g", qn_dtype_get(types[i])->name, l, off);
        }
        qn_lens_destroy(lens);
        qn_session_destroy(s);
    }
}

static qn_status count(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)err;
    *(int64_t *)ctx += v->n_rows;
    return QN_OK;
}

/* A tap of the caller's acts before the lens looks, and stays. */
static void beside_taps(void **state)
{
    (void)state;
    qn_session *s = begin(engine, 8, 0);
    qn_lens *lens = NULL;
    int64_t rows = 0;
    MUST(qn_session_tap(s, "ffn_res-0@2=zero", err));
    MUST(qn_session_tap_fn(s, "ffn_res-0", false, count, &rows, err));
    MUST(qn_lens_create(s, tokens, N, &(qn_lens_options){.end_layer = 1}, &lens, err));
    assert_true(qn_lens_at(lens, 0, 2)->rms == 0 && qn_lens_at(lens, 0, 1)->rms > 0);
    assert_null(qn_lens_at(lens, 1, 0));
    assert_int_equal(rows, N);
    qn_lens_destroy(lens);
    REFUSED(state, qn_lens_create(s, tokens, N, NULL, &lens, err), "not empty");
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    MUST(qn_session_feed(s, 0, tokens, N, err));
    assert_int_equal(rows, 2 * N);
    qn_session_destroy(s);
}

static bool stop(void *ctx, uint64_t done, uint64_t total)
{
    (void)total;
    *(uint64_t *)ctx = done;
    return false;
}

static void refuses(void **state)
{
    (void)state;
    qn_session *s = begin(engine, 8, 0);
    qn_lens *lens = NULL;
    qn_lens_grid *g = NULL;
    uint64_t done = 0;
    const qn_token wrong[2] = {1, 320};
    REFUSED(invalid, qn_lens_create(s, tokens, 0, NULL, &lens, err), "no tokens");
    REFUSED(invalid, qn_lens_create(s, wrong, 2, NULL, &lens, err), "320");
    REFUSED(invalid, qn_lens_create(s, tokens, 2, &(qn_lens_options){.first_layer = 2}, &lens, err), "0 to 1");
    REFUSED(invalid, qn_lens_create(s, tokens, 2, &(qn_lens_options){.end_layer = 3}, &lens, err), "0 to 1");
    REFUSED(invalid, qn_lens_create(s, tokens, 2, &(qn_lens_options){.n_top = 65}, &lens, err), "1 to 64");
    REFUSED(cancelled,
            qn_lens_create(s, tokens, 2, &(qn_lens_options){.progress = stop, .progress_ctx = &done}, &lens, err),
            "cancelled");
    assert_true(done > 0);
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    REFUSED(invalid, qn_lens_patch(s, tokens, tokens, N, NULL, &g, err), "which two words");
    REFUSED(invalid, qn_lens_patch(s, tokens, other, N, &(qn_lens_patch_options){.value = "fnn_out"}, &g, err),
            "close are");
    REFUSED(cancelled,
            qn_lens_patch(s, tokens, other, N, &(qn_lens_patch_options){.progress = stop, .progress_ctx = &done}, &g,
                          err),
            "cancelled");
    MUST(qn_session_feed(s, 0, tokens, 2, err));
    REFUSED(state, qn_lens_patch(s, tokens, other, N, NULL, &g, err), "not empty");
    qn_session_destroy(s);
}

int main(int argc, char **argv)
{
    const bool write = argc == 3 && strcmp(argv[1], "--write") == 0;
    for (int i = 0; i < LONG; i++) tokens[i] = (i * i * 31 + i * 97 + 1) % 320;
    for (int i = 0; i < LONG; i++) other[i] = (tokens[i] * 7 + 3) % 320;
    snprintf(path, sizeof path, "%s", write ? argv[2] : tiny_path("llama.gguf"));
    MUST(qn_synth(path, &llama, NULL, NULL, err));
    if (write) return 0;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 2}, &engine, err));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_numpys),
        cmocka_unit_test(patches_are_numpys),
        cmocka_unit_test(every_decoder),
        cmocka_unit_test(rounded_caches),
        cmocka_unit_test(splits),
        cmocka_unit_test(beside_taps),
        cmocka_unit_test(refuses),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_engine_close(engine);
    return failed;
}
