/* SPDX-License-Identifier: MIT */
/* tests/golden/devices.c -- the models of models.def on a device: the logits are the CPU's, bit for bit, whatever the
 * batch and the neighbours, with layers on the CPU too, and in every type of cache that the device has kernels for. */
#include "golden.h"
#include "models.h"
#include "device.h"
#include "model/arch.h"

#include <dlfcn.h>

static qn_token tokens[N_TOKENS];

/* NaN counts as NaN. */
static int differences(const golden *g, const float *a, const float *b)
{
    int n = 0;
    for (int i = 0; i < N_TOKENS * g->n_vocab; i++)
        n += memcmp(a + i, b + i, 4) != 0 && !(a[i] != a[i] && b[i] != b[i]);
    return n;
}

static int wrong;

static void compare(golden *g, const char *backends, int batch, bool noise, qn_dtype kv_type, const float *want)
{
    eval(g, backends, 1, batch, noise, kv_type, scratch);
    const int n = differences(g, scratch, want);
    if (n)
        printf("%s on %s, batches of %d%s: %d of %d logits differ\n", g->name, backends, batch,
               noise ? ", neighbours" : "", n, N_TOKENS * g->n_vocab);
    wrong += n != 0;
}

static void the_same_bits(const char *backend, bool half)
{
    char first[32], second[32];
    if (!device_works(backend)) skip();
    snprintf(first, sizeof(first), "%s,cpu", backend);
    snprintf(second, sizeof(second), "cpu,%s", backend);
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        const float *want = alone(g, best_level());
        on_first = true;
        if (!half || (g - goldens) % 2 == 0) compare(g, first, 5, true, g->kv_type, want);
        on_first = false;
        if (!half || (g - goldens) % 2)
            compare(g, (g - goldens) % 4 < 2 ? first : second, N_TOKENS, false, g->kv_type, want);
    }
    assert_int_equal(wrong, 0);
}

static void opencl(void **state)
{
    (void)state;
    the_same_bits("opencl", false);
}

/* One model with a cache of each type that a session takes. */
static void every_cache(void **state)
{
    (void)state;
    static const qn_dtype types[] = {
#define TYPE(name) QN_DTYPE_##name,
        QN_KV_TYPE_ROWS(TYPE)
#undef TYPE
    };
    static float want[N_TOKENS * MAX_VOCAB];
    golden *g = goldens;
    if (!device_works("opencl")) skip();
    while (strcmp(g->name, "llama_F16")) g++;
    on_first = true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        eval(g, "cpu", 1, N_TOKENS, false, types[i], want);
        compare(g, "opencl,cpu", 5, true, types[i], want);
    }
    assert_int_equal(wrong, 0);
}

/* A prefix that two sequences share; then the first five tokens of one go, and its keys are turned. Logits of the last
 * of each. */
static void eval_shifted(golden *g, const char *backends, qn_dtype kv_type, float *out)
{
    enum { FIRST = 20, GONE = 5 };
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_batch_item items[FIRST];
    const qn_engine_options eo = {.backends = backends, .n_threads = 1};
    const qn_session_options so = {
        .n_ctx = 64, .n_batch = FIRST, .n_seq = 2, .n_logits = 2, .kv_type = kv_type, .kv_type_set = true};
    MUST(qn_engine_open(g->path, &eo, &engine, err));
    MUST(qn_session_create(engine, &so, &session, err));
    for (int i = 0; i < FIRST; i++) items[i] = (qn_batch_item){tokens[i], i, 0, false};
    MUST(qn_session_decode(session, items, FIRST, err));
    MUST(qn_session_seq_copy(session, 0, 1, 0, FIRST, err));
    MUST(qn_session_seq_remove(session, 0, 0, GONE, err));
    MUST(qn_session_seq_shift(session, 0, GONE, FIRST, -GONE, err));
    items[0] = (qn_batch_item){tokens[FIRST], FIRST - GONE, 0, true};
    items[1] = (qn_batch_item){tokens[FIRST], FIRST, 1, true};
    MUST(qn_session_decode(session, items, 2, err));
    for (int i = 0; i < 2; i++)
        memcpy(out + i * g->n_vocab, qn_session_logits(session, i), (size_t)g->n_vocab * sizeof *out);
    qn_session_destroy(session);
    qn_engine_close(engine);
}

static void shifted(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_Q8_0, QN_DTYPE_Q4_1};
    static float want[2 * MAX_VOCAB];
    golden *g = goldens;
    if (!device_works("opencl")) skip();
    while (strcmp(g->name, "llama_F16")) g++;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        eval_shifted(g, "cpu", types[i], want);
        eval_shifted(g, "opencl,cpu", types[i], scratch);
        assert_memory_equal(want, scratch, 2 * (size_t)g->n_vocab * sizeof *want);
        assert_memory_not_equal(want, want + g->n_vocab, (size_t)g->n_vocab * sizeof *want);
    }
}

/* On the stand-in for libcuda.so.1, which runs the kernels on the processor: half of what opencl does. */
static void cuda(void **state)
{
    (void)state;
    if (!dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) fail_msg("%s", dlerror());
    the_same_bits("cuda", true);
}

static int write_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * i * 31 + i * 97 + 1) % 320;
    for (int m = 0; m < N_MODELS; m++) {
        golden *g = &goldens[n_goldens++];
        char name[64];
        snprintf(name, sizeof(name), "%s.gguf", models[m].name);
        *g = (golden){.name = models[m].name,
                      .tokens = tokens,
                      .kv_type = models[m].exact ? QN_DTYPE_F32 : QN_DTYPE_F16};
        snprintf(g->path, sizeof(g->path), "%s", tiny_path(name));
        MUST(qn_synth(g->path, &models[m].options, NULL, NULL, err));
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opencl), cmocka_unit_test(every_cache),
                                       cmocka_unit_test(shifted), cmocka_unit_test(cuda)};
    return cmocka_run_group_tests(tests, write_models, release_goldens);
}
