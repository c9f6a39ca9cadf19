/* SPDX-License-Identifier: MIT */
/* tests/golden/placement.c -- layers on a device: as many as asked for or as fit, in exactly the memory that was
 * estimated, with the CPU's bits; what a token costs in transfers and launches; what callbacks see there; and what is
 * said where it cannot be. On whatever OpenCL device is here; PoCL is one. */
#include "device.h"
#include "engine/engine.h"
#include "unit/model/tiny.h"

#include <dlfcn.h>

enum { N = 12, MAX_VOCAB = 512 };
static char path[768];
static bool there;
static float want[N * MAX_VOCAB], got[N * MAX_VOCAB];
static int n_vocab;

static qn_token token(int i) { return (i * i * 31 + i * 97 + 1) % 320; }

static qn_engine *open_model(qn_engine_options o)
{
    qn_engine *e = NULL;
    o.n_threads = 1;
    MUST(qn_engine_open(path, &o, &e, err));
    return e;
}

static const qn_session_options small = {.n_ctx = 256, .n_batch = 8};

static qn_session *start(qn_engine *e)
{
    qn_session *s = NULL;
    MUST(qn_session_create(e, &small, &s, err));
    return s;
}

static void decode(qn_session *s, int from, int to, float *out)
{
    for (int i = from; i < to; i++) {
        const qn_token t = token(i);
        MUST(qn_session_feed(s, 0, &t, 1, err));
        if (out) memcpy(out + i * n_vocab, qn_session_logits(s, -1), (size_t)n_vocab * sizeof *out);
    }
}

/* All tokens, one at a time; the logits are the CPU's. */
static void is_right(qn_session *s)
{
    decode(s, 0, N, got);
    for (int i = 0; i < N * n_vocab; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("token %d, logit %d: %g, on the CPU %g", i / n_vocab, i % n_vocab, (double)got[i],
                     (double)want[i]);
}

static uint64_t used(const qn_engine *e, int p) { return e->backends[p]->type->memory(e->backends[p]).used; }

static int n_on_devices(const qn_engine *e, const char *pattern)
{
    int n = 0;
    for (int i = 0; i < e->model->n_weights; i++)
        n += qn__glob_match(pattern, e->model->weights[i].name) && e->backends[e->places[i]]->type->memory;
    return n;
}

/* The output and the last layers; all of it; none. The device holds what was estimated, to the byte. */
static void layers(void **state)
{
    (void)state;
    if (!there) skip();
    static const int asked[] = {0, 1, 2, QN_GPU_LAYERS_ALL, 1000};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        qn_engine *e =
            open_model((qn_engine_options){.devices = "opencl:0", .gpu_layers = asked[i], .gpu_layers_set = true});
        const int n_layer = e->info.n_layer, n = asked[i] < 0 || asked[i] > n_layer ? n_layer : asked[i];
        qn_estimate est;
        qn_engine_info info;
        qn_engine_get_info(e, &info);
        assert_int_equal(info.gpu_layers, n);
        assert_string_equal(qn_engine_backend_name(e, 0), "opencl:0");
        assert_int_equal(n_on_devices(e, "blk.*.attn_k.weight"), n);
        assert_int_equal(n_on_devices(e, "output_norm.weight"), n > 0);
        assert_int_equal(n_on_devices(e, "token_embd.weight"), asked[i] < 0);
        if (n == 1) assert_int_equal(n_on_devices(e, "blk.0.*"), 0);
        assert_int_equal(used(e, 0), qn__weights_bytes(e, 0));
        MUST(qn_engine_estimate(e, &small, &est, err));
        qn_session *s = start(e);
        assert_int_equal(used(e, 0), qn__weights_bytes(e, 0) + est.backend_bytes[0]);
        is_right(s);
        assert_int_equal(used(e, 0), qn__weights_bytes(e, 0) + est.backend_bytes[0]);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* A token costs one transfer up, one launch a run of layers and one transfer down, and nothing is allocated. */
static void costs_on(const char *device, bool split)
{
    static const qn_place_rule middle[] = {{"blk.0.*", 0}, {"blk.0", 0}, {"*", 1}};
    char list[32];
    snprintf(list, sizeof list, "%s,cpu", device);
    qn_metrics begin, a, b;
    qn_engine *e =
        split ? open_model((qn_engine_options){.backends = list, .rules = middle, .n_rules = 3})
              : open_model(
                    (qn_engine_options){.devices = device, .gpu_layers = QN_GPU_LAYERS_ALL, .gpu_layers_set = true});
    qn_metrics_snapshot(&begin);
    qn_session *s = start(e);
    decode(s, 0, 4, NULL);
    qn_metrics_snapshot(&a);
    decode(s, 4, N, NULL);
    qn_metrics_snapshot(&b);
    const uint64_t n = N - 4;
    const bool captures = strncmp(device, "cuda", 4) == 0;
    assert_int_equal(b.sched_created - begin.sched_created, 1);
    assert_int_equal(b.captures - begin.captures, captures); /* there is one shape */
    assert_int_equal(b.allocs - a.allocs, 0);
    assert_int_equal(b.device_allocs - a.device_allocs, 0);
    /* the stream goes to the device and comes back */
    assert_int_equal(b.transfers - a.transfers, split ? 2 * n : 0);
    assert_int_equal(b.transfer_bytes - a.transfer_bytes, split ? 2 * n * 4 * (uint64_t)e->info.n_embd : 0);
    assert_int_equal(b.uploads - a.uploads, split ? 2 * n : n);
    assert_int_equal(b.downloads - a.downloads, n);
    assert_int_equal(b.download_bytes - a.download_bytes, 4 * n * (uint64_t)(split ? e->info.n_embd : n_vocab));
    if (captures)
        assert_int_equal(b.launches - a.launches, n);
    else if (!split) /* ten a layer, and five */
        assert_int_equal(b.launches - a.launches, (10 * 2 + 5) * n);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void costs(void **state)
{
    (void)state;
    if (!there) skip();
    for (int split = 0; split < 2; split++) costs_on("opencl:0", split);
}

/* Where launches are captured: on the stand-in for libcuda.so.1. */
static void costs_of_captures(void **state)
{
    (void)state;
    if (!dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL) || !device_works("cuda")) skip();
    for (int split = 0; split < 2; split++) costs_on("cuda:0", split);
}

/* Of four tokens, all layers on the device. */
static uint64_t launches_of(const char *arch, int n_layer)
{
    enum { TOKENS = 4 };
    char file[768];
    qn_engine *e = NULL;
    qn_metrics a, b;
    snprintf(file, sizeof file, "%s", tiny_path("launches.gguf"));
    MUST(qn_synth(file,
                  &(qn_synth_options){.arch = arch,
                                      .type = "Q8_0",
                                      .seed = 3,
                                      .n_layer = n_layer,
                                      .n_embd = 128,
                                      .n_vocab = 320,
                                      .n_ctx = 256,
                                      .n_head = 4,
                                      .n_kv_head = 2,
                                      .n_embd_head = 32,
                                      .n_ff = 96},
                  NULL, NULL, err));
    const qn_engine_options o = {
        .devices = "opencl:0", .gpu_layers = QN_GPU_LAYERS_ALL, .gpu_layers_set = true, .strict = true, .n_threads = 1};
    MUST(qn_engine_open(file, &o, &e, err));
    qn_session *s = start(e);
    decode(s, 0, 2, NULL);
    qn_metrics_snapshot(&a);
    decode(s, 2, 2 + TOKENS, NULL);
    qn_metrics_snapshot(&b);
    qn_session_destroy(s);
    qn_engine_close(e);
    return b.captures > a.captures ? 0 : (b.launches - a.launches) / TOKENS;
}

/* At most twelve launches a layer; norms of queries and keys are one more, norms before residuals none. */
static void a_layer(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint64_t launches;
    } archs[] = {{"llama", 10}, {"qwen3", 11}, {"gemma2", 10}, {"gemma3", 11}};
    if (!there) skip();
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const uint64_t two = launches_of(archs[i].arch, 2), three = launches_of(archs[i].arch, 3);
        if (three - two != archs[i].launches)
            fail_msg("%s: %llu launches a layer", archs[i].arch, (unsigned long long)(three - two));
    }
}

/* As many layers as fit under a cap, down to none, and never more memory than that. */
static void fits(void **state)
{
    (void)state;
    if (!there) skip();
    static const uint64_t caps[] = {64 << 10, 300 << 10, 600 << 10, 1 << 20, 64 << 20};
    int least = 1000, most = 0;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        qn_engine *e = open_model((qn_engine_options){.devices = "opencl:0",
                                                      .gpu_layers = QN_GPU_LAYERS_AUTO,
                                                      .gpu_layers_set = true,
                                                      .gpu_session = &small,
                                                      .device_memory = caps[i]});
        qn_session *s = start(e);
        assert_true(used(e, 0) <= caps[i]);
        if (e->info.gpu_layers < least) least = e->info.gpu_layers;
        if (e->info.gpu_layers > most) most = e->info.gpu_layers;
        is_right(s);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    assert_int_equal(least, 0);
    assert_int_equal(most, 2); /* all */
}

static void refused(qn_engine_options o, const char *a, const char *b)
{
    qn_engine *e = NULL;
    qn_error err = {0};
    const qn_status status = qn_engine_open(path, &o, &e, &err);
    if (status == QN_OK) fail_msg("opened; an error with \"%s\" expected", a);
    if (!strstr(err.text, a) || !strstr(err.text, b) || strchr(err.text, '\n')) fail_msg("%s", err.text);
}

static void says_what_to_do(void **state)
{
    (void)state;
    qn_error why = {0};
    refused((qn_engine_options){.devices = "cpu", .gpu_layers_set = true}, "names no device", "quern doctor");
    refused((qn_engine_options){.gpu_layers = -3, .gpu_layers_set = true}, "-3 layers", "auto");
    if (!there) skip();
    refused((qn_engine_options){.devices = "opencl:63"}, "device 63 is not there", "were found");
    refused((qn_engine_options){.devices = "opencl:0",
                                .gpu_layers = QN_GPU_LAYERS_ALL,
                                .gpu_layers_set = true,
                                .device_memory = 100 << 10},
            "opencl:0: the weights placed there take", "--gpu-layers");
    /* the weights fit, this context does not */
    qn_engine *e = open_model(
        (qn_engine_options){.devices = "opencl:0", .gpu_layers = 1, .gpu_layers_set = true, .device_memory = 2 << 20});
    qn_session *s = NULL;
    assert_int_equal(qn_session_create(e, &(qn_session_options){.n_ctx = 1 << 16, .n_batch = 8}, &s, &why),
                     QN_STATUS_limit);
    if (!strstr(why.text, "opencl:0: a context of 65536") || !strstr(why.text, "--gpu-layers"))
        fail_msg("%s", why.text);
    MUST(qn_session_create(e, &small, &s, err));
    is_right(s);
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* ---- looking on ---- */

enum { MOST_SEEN = 512, WIDE = 4096 };
typedef struct seen {
    qn_session *s;
    char name[MOST_SEEN][48];
    uint64_t sum[MOST_SEEN]; /* of a value's bits */
    int n, stop_at;
} seen;

static bool look(void *ctx, const qn_node *node, bool after)
{
    seen *w = ctx;
    static float x[WIDE];
    if (!after) return true;
    const qn_shape shape = qn_node_shape(node);
    const char *name = qn_node_name(node);
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
    if (!name[0] || strchr(name, '@') || n > WIDE || w->n == MOST_SEEN) return true;
    if (qn_session_read_node(w->s, node, x, (uint64_t)n * sizeof *x, NULL) != QN_OK) return true;
    uint64_t sum = 14695981039346656037u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        sum = (sum ^ bits) * 1099511628211u;
    }
    snprintf(w->name[w->n], sizeof w->name[0], "%s", name);
    w->sum[w->n++] = sum;
    return w->n != w->stop_at;
}

/* The values of a step as on the CPU, by name; a callback stops it anywhere, and the step can be done again. */
static void callbacks(void **state)
{
    (void)state;
    if (!there) skip();
    static seen on_cpu, on_device;
    qn_engine *c = open_model((qn_engine_options){0}),
              *d = open_model((qn_engine_options){.devices = "opencl:0", .gpu_layers = 2, .gpu_layers_set = true});
    on_cpu = (seen){.s = start(c)};
    on_device = (seen){.s = start(d)};
    qn_session_set_eval(on_cpu.s, look, &on_cpu);
    qn_session_set_eval(on_device.s, look, &on_device);
    decode(on_cpu.s, 0, 1, NULL);
    decode(on_device.s, 0, 1, NULL);
    int same = 0;
    for (int i = 0; i < on_cpu.n; i++)
        for (int j = 0; j < on_device.n; j++)
            if (strcmp(on_cpu.name[i], on_device.name[j]) == 0) {
                if (on_cpu.sum[i] != on_device.sum[j]) fail_msg("%s differs", on_cpu.name[i]);
                same++;
                break;
            }
    assert_int_equal(same, on_cpu.n);
    assert_true(same > 30);
    const int all = on_device.n;
    for (int stop = 1; stop < all; stop += 7) {
        const qn_token t = token(1);
        on_device.n = 0;
        on_device.stop_at = stop;
        assert_int_equal(qn_session_feed(on_device.s, 0, &t, 1, NULL), QN_STATUS_cancelled);
    }
    qn_session_set_eval(on_device.s, NULL, NULL);
    decode(on_device.s, 1, N, got);
    assert_memory_equal(got + n_vocab, want + n_vocab, (size_t)((N - 1) * n_vocab) * sizeof *got);
    qn_session_destroy(on_cpu.s);
    qn_session_destroy(on_device.s);
    qn_engine_close(c);
    qn_engine_close(d);
}

static int set_up(void **state)
{
    (void)state;
    there = device_works("opencl");
    snprintf(path, sizeof path, "%s", tiny_path("placement.gguf"));
    MUST(qn_synth(path, &(qn_synth_options){.preset = "tiny", .seed = 8, .type = "Q8_0", .spread = 0.1f}, NULL, NULL,
                  err));
    qn_engine *e = open_model((qn_engine_options){0});
    n_vocab = e->info.n_vocab;
    assert_in_range(n_vocab, 1, MAX_VOCAB);
    qn_session *s = start(e);
    decode(s, 0, N, want);
    qn_session_destroy(s);
    qn_engine_close(e);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers),   cmocka_unit_test(costs), cmocka_unit_test(costs_of_captures),
        cmocka_unit_test(a_layer),  cmocka_unit_test(fits),  cmocka_unit_test(says_what_to_do),
        cmocka_unit_test(callbacks)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
