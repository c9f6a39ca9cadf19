/* SPDX-License-Identifier: MIT */
/* tests/golden/adapters.c -- adapters on devices, and layers on several of them: the logits are the CPU's, bit for bit.
 * Two OpenCL devices are PoCL's twice; of CUDA there is the stand-in's two, and one beside an OpenCL device. */
#include "cpu_of_devices.h"
#include "device.h"
#include "standin/standin.h"
#include "unit/engine/adapter.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { N = 9, LAYERS = 4 };
static bool opencl_there, cuda_there;
static const char *path;
static qn_token tokens[N];

/* The last of N tokens: of the model, and under two adapters in turn. */
typedef struct rows {
    rig_row plain, one, both;
} rows;

static rows logits_of(qn_engine *e)
{
    static char files[2][768];
    qn_lora_use use[2] = {{.scale = 0.75f}, {.scale = -0.5f}};
    if (!files[0][0])
        for (int i = 0; i < 2; i++) {
            const adapter o = {.path = path,
                               .alpha = i ? 0 : 6,
                               .seed = (uint32_t)i + 1,
                               .rank = i ? 3 : 0,
                               .only = i ? "ffn_" : NULL,
                               .type = i ? QN_DTYPE_F16 : QN_DTYPE_F32};
            snprintf(files[i], sizeof(files[i]), "%s", adapter_write(&o));
        }
    for (int i = 0; i < 2; i++) {
        qn_lora *l = NULL;
        MUST(qn_lora_open(e, files[i], &l, err));
        use[i].lora = l;
    }
    return (rows){rig_fresh(e, (qn_session_options){0}, tokens, N),
                  rig_fresh(e, (qn_session_options){.loras = use, .n_loras = 1}, tokens, N),
                  rig_fresh(e, (qn_session_options){.loras = use, .n_loras = 2}, tokens, N)};
}

static rows want;

static qn_engine *open_with(qn_engine_options o)
{
    qn_engine *e = NULL;
    o.n_threads = 1;
    o.backends = cpu_of_devices();
    MUST(qn_engine_open(path, &o, &e, err));
    return e;
}

static void is_right(qn_engine_options o, int n_backends)
{
    qn_engine *e = open_with(o);
    qn_engine_info info;
    qn_engine_get_info(e, &info);
    assert_int_equal(info.n_backends, n_backends);
    const rows got = logits_of(e);
    SAME(got.plain, want.plain);
    SAME(got.one, want.one);
    SAME(got.both, want.both);
    qn_engine_close(e);
}

static void adapters(void **state)
{
    (void)state;
    if (!opencl_there) skip();
    is_right((qn_engine_options){.devices = "opencl:0", .gpu_layers = QN_GPU_LAYERS_ALL, .gpu_layers_set = true}, 2);
    is_right((qn_engine_options){.devices = "opencl:0", .gpu_layers = 2, .gpu_layers_set = true}, 2);
}

/* Each has some of the layers, and what crosses goes by the host. */
static void share(const char *devices, int n)
{
    const qn_engine_options o = {.devices = devices,
                                 .gpu_layers = QN_GPU_LAYERS_ALL,
                                 .gpu_layers_set = true,
                                 .device_memory = 64 << 20}; /* of each as much, so that each gets as many layers */
    qn_engine *e = open_with(o);
    qn_metrics a, b;
    qn_session *s = rig_session(e, (qn_session_options){0});
    rig_feed(s, 0, tokens, 1);
    qn_metrics_snapshot(&a);
    rig_feed(s, 0, tokens + 1, 1);
    qn_metrics_snapshot(&b);
    assert_int_equal(b.transfers - a.transfers, n - 1);
    assert_int_equal(b.allocs - a.allocs, 0);
    assert_int_equal(b.device_allocs - a.device_allocs, 0);
    qn_session_destroy(s);
    qn_engine_close(e);
    is_right(o, n + 1);
}

static void two_of_opencl(void **state)
{
    (void)state;
    qn_device found[8];
    int n = 0, all = opencl_there ? qn_devices_get(found, 8, NULL) : 0;
    for (int i = 0; i < all; i++) n += strncmp(found[i].backend, "opencl:", 7) == 0;
    if (n < 2) skip();
    share("opencl:0,opencl:1", 2);
}

static void two_of_cuda(void **state)
{
    (void)state;
    if (!cuda_there) skip();
    share("cuda:0,cuda:1", 2);
}

static void one_of_each(void **state)
{
    (void)state;
    if (!cuda_there || !opencl_there) skip();
    share("opencl:0,cuda:1", 2);
    share("cuda:0,opencl:0,cuda:1", 3);
}

static int set_up(void **state)
{
    (void)state;
    path = tiny_path("base.gguf");
    MUST(
        tiny_write(path,
                   &(tiny){.n_layer = LAYERS, .n_embd = 64, .n_head = 4, .head = 32, .n_ff = 96, .type = QN_DTYPE_Q4_0},
                   err));
    rig_story(3, tokens, N);
    qn_engine *e = open_with((qn_engine_options){0});
    want = logits_of(e);
    DIFFERENT(want.plain, want.one);
    DIFFERENT(want.one, want.both);
    qn_engine_close(e);
    return 0;
}

/* The program that asks for libcuda.so.1 next gets this one. */
static bool open_standin(void)
{
    standin *(*get)(void) = NULL;
    void *lib = dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib) *(void **)(void *)&get = dlsym(lib, "standin_state");
    if (get) get()->devices = 2;
#ifdef QN_CHECKED
    return false; /* it only notes what it is told */
#else
    return get && device_works("cuda");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adapters), cmocka_unit_test(two_of_opencl),
                                       cmocka_unit_test(two_of_cuda), cmocka_unit_test(one_of_each)};
    (void)setenv("POCL_DEVICES", "pthread pthread", 0);
    opencl_there = device_works("opencl");
    cuda_there = open_standin();
    return cmocka_run_group_tests(tests, set_up, NULL);
}
