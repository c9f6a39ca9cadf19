/* SPDX-License-Identifier: MIT */
/* tests/golden/devices.c -- the models of models.def on a device: the logits are the CPU's, bit for bit, in batches of
 * 1, 5 and 48, in four sequences of which two share a prefix, after shifts, with half the layers on the CPU, in both
 * orders, and in every type of cache. All of it is strict: nothing may go elsewhere.
 *
 * What does not depend on the model goes round: one model's batches are of 1, the next one's of 5. With
 * QN_DEVICES_ALL=1 every model is tried in every way (tests/gpu/models.sh). */
#include "golden.h"
#include "models.h"
#include "cpu_of_devices.h"
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
static bool all; /* every combination */

/* One text at once, alone: what others are compared with. */
static const float *on_cpu(golden *g)
{
    float **row = &g->alone[0];
    if (!*row) {
        *row = calloc(N_TOKENS * MAX_VOCAB, sizeof **row);
        assert_non_null(*row);
        eval(g, cpu_of_devices(), 1, N_TOKENS, false, g->kv_type, *row);
    }
    return *row;
}

static void compare(golden *g, const char *backends, int batch, bool noise, qn_dtype kv_type, const float *want)
{
    eval(g, backends, 1, batch, noise, kv_type, scratch);
    const int n = differences(g, scratch, want);
    if (n)
        printf("%s on %s, batches of %d%s: %d of %d logits differ\n", g->name, backends, batch,
               noise ? ", neighbours" : "", n, N_TOKENS * g->n_vocab);
    wrong += n != 0;
}

/* A list of two, the device first or second. */
static const char *both(const char *device, bool first)
{
    static char list[64];
    snprintf(list, sizeof(list), "%s,%s", first ? device : cpu_of_devices(), first ? cpu_of_devices() : device);
    return list;
}

/* Four sequences in chunks of so many tokens: the first is the text; the second shares its first tokens with it, in
 * memory too; the others come later. false: this model reads no text from left to right. */
enum { SHARED = 8, CROWD = 4, MOST_CROWD = CROWD * N_TOKENS };
static bool eval_crowd(golden *g, const char *backends, int chunk, qn_dtype kv_type, float *out)
{
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_engine_info info;
    qn_batch_item items[MOST_CROWD];
    const qn_engine_options eo = {.backends = backends, .n_threads = 1, .strict = true};
    const qn_session_options so = {
        .n_ctx = 256, .n_batch = 48, .n_seq = CROWD, .n_logits = 48, .kv_type = kv_type, .kv_type_set = true};
    int n = 0, done = 0;
    MUST(qn_engine_open(g->path, &eo, &engine, err));
    qn_engine_get_info(engine, &info);
    const bool reads = !info.encoder && !engine->model->sees_ahead && !pools(qn_engine_file(engine), info.arch);
    if (!reads) {
        qn_engine_close(engine);
        return false;
    }
    MUST(qn_session_create(engine, &so, &session, err));
    for (int j = 0; j < N_TOKENS; j++) {
        items[n++] = (qn_batch_item){g->tokens[j], j, 0, true};
        if (j < SHARED) continue;
        items[n++] = (qn_batch_item){g->tokens[N_TOKENS - 1 - j], j, 1, false};
        items[n++] = (qn_batch_item){(j * 37) % info.n_vocab, j - SHARED, 2, false};
        items[n++] = (qn_batch_item){(j * 53 + 5) % info.n_vocab, j - SHARED, 3, false};
    }
    for (int at = 0, len; at < n; at += len) {
        const int end = at < SHARED ? SHARED : n;
        len = end - at < chunk ? end - at : chunk;
        MUST(qn_session_decode(session, items + at, len, err));
        const int n_logits = qn_session_n_logits(session);
        memcpy(out + (size_t)done * (size_t)info.n_vocab, qn_session_logits(session, 0),
               (size_t)n_logits * (size_t)info.n_vocab * sizeof(float));
        done += n_logits;
        if (at + len == SHARED) MUST(qn_session_seq_copy(session, 0, 1, 0, SHARED, err));
    }
    assert_int_equal(done, N_TOKENS);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return true;
}

static void crowd(golden *g, const char *backends, int chunk, const float *want)
{
    if (!eval_crowd(g, backends, chunk, g->kv_type, scratch)) {
        compare(g, backends, 5, true, g->kv_type, want);
        return;
    }
    const int n = differences(g, scratch, want);
    if (n)
        printf("%s on %s, four sequences %d at a time: %d of %d logits differ\n", g->name, backends, chunk, n,
               N_TOKENS * g->n_vocab);
    wrong += n != 0;
}

static void the_same_bits(const char *backend, bool half)
{
    static const int chunks[] = {5, 48, 1};
    if (!device_works(backend)) skip();
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        const int i = (int)(g - goldens);
        const float *want = on_cpu(g);
        for (int c = 0; c < 3; c++)
            if (all || (c == i / 2 % 3 && (!half || i % 2 == 0))) crowd(g, both(backend, true), chunks[c], want);
        for (int order = 0; order < 2; order++) {
            on_first = false;
            if (all || (order == (i % 4 < 2) && (!half || i % 2)))
                compare(g, both(backend, order), N_TOKENS, false, g->kv_type, want);
        }
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
        eval(g, cpu_of_devices(), 1, N_TOKENS, false, types[i], want);
        compare(g, both("opencl", true), 5, true, types[i], want);
    }
    assert_int_equal(wrong, 0);
}

/* A prefix that two sequences share; then the first five tokens of one go, and its keys are turned. Logits of the last
 * of each. false: this model has no such cache, or forgets, or its positions can't be moved. */
static bool eval_shifted(golden *g, const char *backends, qn_dtype kv_type, float *out)
{
    enum { FIRST = 20, GONE = 5 };
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_engine_info info;
    qn_batch_item items[FIRST];
    qn_error why = {0};
    const qn_engine_options eo = {.backends = backends, .n_threads = 1, .strict = true};
    const qn_session_options so = {
        .n_ctx = 64, .n_batch = FIRST, .n_seq = 2, .n_logits = 2, .kv_type = kv_type, .kv_type_set = true};
    MUST(qn_engine_open(g->path, &eo, &engine, err));
    qn_engine_get_info(engine, &info);
    bool can = !info.encoder && !engine->model->sees_ahead && !pools(qn_engine_file(engine), info.arch) &&
               qn_session_create(engine, &so, &session, NULL) == QN_OK;
    if (can) {
        for (int i = 0; i < FIRST; i++) items[i] = (qn_batch_item){tokens[i], i, 0, false};
        MUST(qn_session_decode(session, items, FIRST, err));
        MUST(qn_session_seq_copy(session, 0, 1, 0, FIRST, err));
        can = qn_session_seq_remove(session, 0, 0, GONE, NULL) == QN_OK &&
              qn_session_seq_shift(session, 0, GONE, FIRST, -GONE, &why) == QN_OK;
        if (!can && strcmp(backends, cpu_of_devices()) != 0) printf("%s: %s\n", g->name, why.text);
    }
    if (can) {
        items[0] = (qn_batch_item){tokens[FIRST], FIRST - GONE, 0, true};
        items[1] = (qn_batch_item){tokens[FIRST], FIRST, 1, true};
        MUST(qn_session_decode(session, items, 2, err));
        for (int i = 0; i < 2; i++)
            memcpy(out + i * info.n_vocab, qn_session_logits(session, i), (size_t)info.n_vocab * sizeof *out);
    }
    qn_session_destroy(session);
    qn_engine_close(engine);
    return can;
}

static void shift(golden *g, qn_dtype kv_type, int *n_shifted)
{
    static float want[2 * MAX_VOCAB];
    if (!eval_shifted(g, cpu_of_devices(), kv_type, want)) {
        if (eval_shifted(g, both("opencl", true), kv_type, scratch))
            fail_msg("%s, cache of %s: on the device it can be shifted", g->name, qn_dtype_get(kv_type)->name);
        return;
    }
    assert_true(eval_shifted(g, both("opencl", true), kv_type, scratch));
    int n = 0;
    for (int i = 0; i < 2 * g->n_vocab; i++)
        n += memcmp(want + i, scratch + i, 4) != 0 && !(want[i] != want[i] && scratch[i] != scratch[i]);
    if (n)
        printf("%s, cache of %s, shifted: %d of %d logits differ\n", g->name, qn_dtype_get(kv_type)->name, n,
               2 * g->n_vocab);
    wrong += n != 0;
    ++*n_shifted;
}

/* Every model in some type of cache, and in each some models. */
static void shifted(void **state)
{
    (void)state;
    static const qn_dtype types[] = {
#define TYPE(name) QN_DTYPE_##name,
        QN_KV_TYPE_ROWS(TYPE)
#undef TYPE
    };
    enum { N_TYPES = sizeof types / sizeof *types };
    int n_shifted[N_TYPES] = {0};
    if (!device_works("opencl")) skip();
    for (golden *g = goldens; g < goldens + n_goldens; g++)
        for (int t = 0; t < N_TYPES; t++) {
            const bool llama = strcmp(g->name, "llama_F16") == 0;
            if (all || llama || t == (g - goldens) % N_TYPES) shift(g, types[t], &n_shifted[t]);
        }
    for (int t = 0; t < N_TYPES; t++) assert_true(n_shifted[t] > 3);
    assert_int_equal(wrong, 0);
}

/* On the stand-in for libcuda.so.1, which runs the kernels on the processor: half of what opencl does. With
 * QN_TEST_CUDA=real all of it, on the device that is there. */
static void cuda(void **state)
{
    (void)state;
    const char *which = getenv("QN_TEST_CUDA");
    const bool real = which && strcmp(which, "real") == 0;
    qn_backend *open = NULL; /* what a driver sets up for a process stays while somebody has it: seconds a model */
    int n = 0;
    if (!real && !dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) fail_msg("%s", dlerror());
    if (real && device_works("cuda")) MUST(qn__backends_open("cuda", NULL, 1, &open, &n, err));
    the_same_bits("cuda", !real);
    if (open) open->type->close(open);
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
    all = getenv("QN_DEVICES_ALL") != NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(opencl), cmocka_unit_test(every_cache),
                                       cmocka_unit_test(shifted), cmocka_unit_test(cuda)};
    return cmocka_run_group_tests(tests, write_models, release_goldens);
}
