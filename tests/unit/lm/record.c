/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/record.c -- the tensor operations of every architecture: a mask that says what the sights say changes
 * no bit, a token does not see what comes after it, and a cache of what came before gives the same logits as all at
 * once. What the numbers are is under test in tests/golden/module.c and tests/unit/engine/lora.c. */
#include "lm/record.h"
#include "unit/model/tiny.h"

#include <quern/autograd.h>

enum { N = 12, VOCAB = 300, TURN = 8 };

typedef struct rig {
    qn_context *c;
    qn_gguf *file;
    qn_model *m;
    qn_tensor **w;
} rig;

static void need(qn_context *c, const void *p)
{
    if (!p) fail_msg("%s", qn_context_error(c)->text);
}

static qn_tensor *weight(void *host, const qn_weight *w) { return ((rig *)host)->w[w->index]; }
static const qn_lm_host host = {.weight = weight};

/* Where layers may have a window they get one. */
static const char *arch_of_file;
static void a_window(qn_gguf_writer *w)
{
    const qn_arch *arch = qn__arch_find(arch_of_file);
    for (int i = 0; i < arch->n_hparams; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", arch->name, arch->hparams[i].key);
        if (strcmp(arch->hparams[i].key, "attention.sliding_window") == 0) qn_gguf_write_u32(w, key, 4);
    }
}

static rig rig_new(const char *arch)
{
    rig r = {0};
    arch_of_file = arch;
    const char *path = tiny_path("record.gguf");
    MUST(tiny_write(path, &(tiny){.arch = arch, .seed = 5, .extra = a_window}, err));
    MUST(qn_gguf_open(path, NULL, &r.file, err));
    MUST(qn__model_load(r.file, 0, &r.m, err));
    MUST(qn_context_create(&(qn_context_options){.n_threads = 1}, &r.c, err));
    qn_set_grad_enabled(r.c, false);
    r.w = calloc((size_t)r.m->n_weights, sizeof *r.w);
    for (int i = 0; i < r.m->n_weights; i++) {
        const qn_weight *w = &r.m->weights[i];
        r.w[i] = qn_from_data(r.c, w->tensor->data, w->shape, w->dtype);
        need(r.c, r.w[i]);
    }
    return r;
}

static void rig_end(rig *r)
{
    qn_context_destroy(r->c);
    qn__model_free(r->m);
    qn_gguf_close(r->file);
    free(r->w);
}

/* Logits of tokens [first, first + n), of which those from `other` on are others. */
static void logits(rig *r, int first, int n, int other, qn_tensor *sees, qn_kv_cache *kv, float *out)
{
    int32_t ids[N];
    for (int i = 0; i < n; i++) ids[i] = ((first + i) * 37 + (first + i >= other) * 11 + 5) % VOCAB;
    need(r->c, qn_scope_begin(r->c) == QN_OK ? r : NULL);
    qn_lm_pass p = {.type = &host,
                    .host = r,
                    .model = r->m,
                    .ids = qn_from_data(r->c, ids, qn_shape_of(1, n), QN_DTYPE_I32),
                    .sees = sees,
                    .cache = kv,
                    .n_ctx = 64};
    if (kv) need(r->c, qn__kv_begin(kv, n) ? kv : NULL);
    qn_stream s = qn__forward_begin(&qn__lm_recorder, &p, r->m);
    for (int i = 0; i < (int)r->m->hp.n_layer; i++) s.x = qn__forward_layer(&qn__lm_recorder, &p, r->m, i, &s);
    qn_tensor *y = qn__lm_tensor(qn__forward_logits(&qn__lm_recorder, &p, r->m, s.x));
    need(r->c, y);
    assert_int_equal(qn_to_host(y, out, (size_t)n * VOCAB * sizeof *out), QN_OK);
    if (kv) qn__kv_end(kv, true);
    (void)qn_scope_end(r->c, NULL);
}

static double farthest(const float *a, const float *b, int n)
{
    double off = 0;
    for (int i = 0; i < n * VOCAB; i++) off = fmax(off, fabs((double)a[i] - (double)b[i]));
    return off;
}

static void with_cache(rig *r, const float *whole)
{
    static float parts[N * VOCAB];
    qn_kv_shape layers[8];
    assert_in_range(r->m->hp.n_layer, 1, 8);
    for (uint32_t i = 0; i < r->m->hp.n_layer; i++)
        layers[i] = (qn_kv_shape){r->m->layers[i].hp.n_kv_head, r->m->layers[i].hp.d_k, r->m->layers[i].hp.d_v};
    qn_kv_cache *kv =
        qn__kv_cache_of(r->c, &(qn_kv_options){.n_layers = r->m->hp.n_layer, .batch = 1, .capacity = N}, layers);
    need(r->c, kv);
    for (int at = 0, n; at < N; at += n) {
        n = at == 0 ? TURN : 2;
        logits(r, at, n, N, NULL, kv, parts + at * VOCAB);
    }
    const double off = farthest(parts, whole, N);
    if (!(off < 1e-4)) fail_msg("%s: a cache moves logits by %g", r->m->arch->name, off);
    qn_kv_cache_destroy(kv);
}

static void every_architecture(void **state)
{
    (void)state;
    static float whole[N * VOCAB], masked[N * VOCAB], changed[N * VOCAB];
    for (int a = 0; a < TINY_N_ARCHS; a++) {
        rig r = rig_new(tiny_archs[a]);
        if (r.m->sees_ahead || r.m->hp.n_expert) { /* mixtures are not recorded */
            rig_end(&r);
            continue;
        }
        qn_tensor *back = qn_tril(qn_ones(r.c, qn_shape_of(1, 1, N, N), QN_DTYPE_BOOL), 0);
        need(r.c, back);
        logits(&r, 0, N, N, NULL, NULL, whole);
        logits(&r, 0, N, N, back, NULL, masked);
        if (memcmp(whole, masked, sizeof whole) != 0) fail_msg("%s: a mask moves logits", tiny_archs[a]);
        logits(&r, 0, N, TURN, NULL, NULL, changed);
        if (memcmp(whole, changed, TURN * VOCAB * sizeof *whole) != 0)
            fail_msg("%s: a token sees what comes after it", tiny_archs[a]);
        assert_true(farthest(whole + TURN * VOCAB, changed + TURN * VOCAB, N - TURN) > 1e-3);
        with_cache(&r, whole);
        rig_end(&r);
    }
}

/* Each kind of sight, against a mask of what qn__sight_range says. */
static void sights(void **state)
{
    (void)state;
    static float by_sight[N * VOCAB], by_mask[N * VOCAB];
    static const qn_sight kinds[] = {
        {QN_SIGHT_all, 0},  {QN_SIGHT_window, 3},      {QN_SIGHT_window, 1},      {QN_SIGHT_chunk, 5},
        {QN_SIGHT_both, 0}, {QN_SIGHT_both_window, 2}, {QN_SIGHT_both_window, 0},
    };
    rig r = rig_new("llama");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint8_t sees[N * N] = {0};
        for (int i = 0; i < N; i++) {
            int32_t first, end;
            qn__sight_range(&kinds[k], i, &first, &end);
            for (int j = first; j < end && j < N; j++) sees[i * N + j] = 1;
        }
        qn_tensor *mask = qn_from_data(r.c, sees, qn_shape_of(1, 1, N, N), QN_DTYPE_BOOL);
        need(r.c, mask);
        for (uint32_t i = 0; i < r.m->hp.n_layer; i++)
            r.m->layers[i].spec.attn.sight = (qn_sight){.kind = QN_SIGHT_both};
        logits(&r, 0, N, N, mask, NULL, by_mask);
        for (uint32_t i = 0; i < r.m->hp.n_layer; i++) r.m->layers[i].spec.attn.sight = kinds[k];
        logits(&r, 0, N, N, NULL, NULL, by_sight);
        if (memcmp(by_sight, by_mask, sizeof by_mask) != 0) fail_msg("sight %zu: another than its range", k);
        if (!qn__sees_ahead(&kinds[k])) with_cache(&r, by_sight);
    }
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture), cmocka_unit_test(sights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
