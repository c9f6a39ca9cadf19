/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/cuda.c -- the drivers cuda and hip against a stand-in for their libraries (tests/standin), which does
 * what it is told as late as it may, checks every call, and computes with the same kernels: the CPU's bits; every call
 * fails once; libraries that are absent, damaged or too old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/sched.h"
#include "gpu/cuda.h"
#include "gpu/gpu.h"
#include "standin/standin.h"
#include <quern/machine.h>

enum { N_KINDS = 2, ROWS = 3, N = 64, RUNS = 4 };
static const struct {
    const qn_cuda_kind *kind;
    const char *file;
} kinds[N_KINDS] = {{&qn__cuda_kind, "libcuda.so.1"}, {&qn__hip_kind, "libamdhip64.so"}};
static standin *states[N_KINDS];
static int calls_told[N_KINDS]; /* before everything is given back, which has no status */
static void (*resets[N_KINDS])(void);

static int open_libraries(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/standin/%s", QN_BUILD_DIR, kinds[i].file);
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!lib) fail_msg("%s", dlerror());
        standin *(*get)(void) = NULL;
        *(void **)(void *)&get = dlsym(lib, "standin_state");
        *(void **)(void *)&resets[i] = dlsym(lib, "standin_reset");
        states[i] = get();
    }
    return 0;
}

static bool has_kernels(int i)
{
    if (qn__cuda_image(kinds[i].kind)) return true;
    printf("%s: this build has no kernels for it\n", kinds[i].kind->name);
    return false;
}

/* y = linear(rms_norm(x, w), q) + x, with q in Q4_0, RUNS times with other x. */
static qn_status compute(const char *backend, float y[RUNS][ROWS * N], qn_error *err)
{
    qn_backend *be = NULL;
    qn_sched *s = NULL;
    qn_buffer *weights = NULL;
    qn_graph *g = NULL;
    qn_exec *e = NULL;
    int n_open = 0;
    uint8_t w[N * 4 + N * (N / 32) * 18];
    for (int i = 0; i < N; i++) ((float *)(void *)w)[i] = 1 + 0.01f * (float)i;
    for (size_t i = N * 4; i < sizeof(w); i++) w[i] = (uint8_t)(i * 37 % 251);
    for (size_t i = N * 4; i < sizeof(w); i += 18) memcpy(w + i, "\x1f\x2c", 2); /* a scale of 0.06 */
    qn_status status = qn__backends_open(backend, NULL, 1, &be, &n_open, err);
    if (status == QN_OK) status = qn__sched_create(&be, 1, NULL, &s, err);
    if (status == QN_OK) status = be->type->buffer_create(be, sizeof(w), &weights, err);
    if (status == QN_OK) status = be->type->upload(weights, 0, w, sizeof(w), err);
    if (status == QN_OK) status = qn__graph_create(&g, err);
    if (status == QN_OK) {
        const qn_shape row = {1, {N}}, square = {2, {N, N}}, rows = {2, {ROWS, N}};
        qn_node *in = qn__input(g, "x", QN_DTYPE_F32, &rows);
        qn_node *norm = qn__param(g, "w", QN_DTYPE_F32, &row, weights, 0, 0),
                *q = qn__param(g, "q", QN_DTYPE_Q4_0, &square, weights, N * 4, 0);
        qn_node *out = qn__add(g, qn__linear(g, qn__rms_norm(g, in, norm, 1e-5f), q, NULL), in);
        qn__name(g, out, "y");
        qn__output(g, out);
        status = qn__sched_compile(s, g, "", 0, &e, err);
    }
    for (int run = 0; run < RUNS && status == QN_OK; run++) {
        float x[ROWS * N];
        for (int i = 0; i < ROWS * N; i++) x[i] = (float)((i * 29 + run * 7) % 61) / 16 - 2;
        status = qn__exec_set(e, qn__exec_find(e, "x"), x, sizeof x, err);
        if (status == QN_OK) status = qn__exec_run(e, NULL, err);
        if (status == QN_OK) status = qn__exec_get(e, qn__exec_find(e, "y"), y[run], 0, sizeof y[run], err);
    }
    for (int i = 0; i < N_KINDS; i++) calls_told[i] = states[i]->calls;
    qn__sched_destroy(s);
    if (weights) be->type->buffer_destroy(weights);
    if (be) be->type->close(be);
    return status;
}

static void check_rules(const standin *s)
{
    if (s->n_wrong) fail_msg("%d breaches, the first: %s", s->n_wrong, s->wrong);
    assert_int_equal(s->live, 0);
    assert_int_equal(s->live_bytes, 0);
}

static void computes(void **state)
{
    (void)state;
    float want[RUNS][ROWS * N], got[RUNS][ROWS * N];
    qn_error err = {0};
    if (compute("cpu", want, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 0; i < N_KINDS; i++) {
        if (!has_kernels(i)) continue;
        resets[i]();
        if (compute(kinds[i].kind->name, got, &err) != QN_OK) fail_msg("%s", err.text);
        check_rules(states[i]);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(QN_CHECKED)
        assert_memory_equal(got, want, sizeof(want));
#endif
        assert_int_equal(states[i]->captures, 1); /* a shape is captured once, and a run is one launch */
        assert_int_equal(states[i]->replays, RUNS);
        assert_int_equal(states[i]->tiles, !kinds[i].kind->hip); /* three columns */
        assert_int_equal(states[i]->rows, kinds[i].kind->hip);
        assert_int_equal(states[i]->reads, RUNS);
        assert_int_equal(states[i]->captures, 1); /* a shape is captured once, and a run is one launch */
        assert_int_equal(states[i]->replays, RUNS);
    }
}

/* Whatever call fails, its status comes back and nothing is left behind. */
static void each_call_fails_once(void **state)
{
    (void)state;
    static const struct {
        int code;
        qn_status status;
    } codes[] = {{719, QN_STATUS_lost}, {2, QN_STATUS_nomem}, {999, QN_STATUS_unsupported}};
    float y[RUNS][ROWS * N];
    for (int k = 0; k < N_KINDS; k++) {
        if (!has_kernels(k)) continue;
        resets[k]();
        assert_int_equal(compute(kinds[k].kind->name, y, NULL), QN_OK);
        const int n = states[k]->calls, told = calls_told[k];
        assert_true(told > 30);
        for (int i = 1; i <= 3 * n; i++) {
            qn_error err = {0};
            resets[k]();
            states[k]->fail_at = (i + 2) / 3;
            states[k]->fail_code = codes[i % 3].code;
            const qn_status status = compute(kinds[k].kind->name, y, &err);
            if (status != codes[i % 3].status && (status != QN_OK || (i + 2) / 3 <= told))
                fail_msg("call %d of %d: status %d: %s", (i + 2) / 3, n, status, err.text);
            if (status != QN_OK) assert_non_null(strstr(err.text, kinds[k].kind->name));
            assert_null(strchr(err.text, '\n'));
            check_rules(states[k]);
        }
    }
}

static void too_little_memory(void **state)
{
    (void)state;
    float y[RUNS][ROWS * N];
    for (int k = 0; k < N_KINDS; k++) {
        if (!has_kernels(k)) continue;
        qn_error err = {0};
        resets[k]();
        states[k]->memory_bytes = 1000;
        assert_int_equal(compute(kinds[k].kind->name, y, &err), QN_STATUS_nomem);
        check_rules(states[k]);
        resets[k]();
        states[k]->devices = 0;
        assert_int_equal(compute(kinds[k].kind->name, y, &err), QN_STATUS_unsupported);
        assert_non_null(strstr(err.text, "device 0 is not there"));
        resets[k]();
        states[k]->fail_at = 1;
        states[k]->fail_code = 101; /* of init: HIP's way to say that there is no device */
        assert_int_equal(compute(kinds[k].kind->name, y, &err), QN_STATUS_unsupported);
        assert_non_null(strstr(err.text, "device 0 is not there"));
    }
}

/* Each device has a context of its own, and what was made in one is refused in the other. */
static void two_devices(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        char path[512], bytes[16] = "";
        qn_cuda_calls call;
        qn_error err = {0};
        int id[2];
        void *context[2], *stream[2], *event = NULL;
        uint64_t at = 0;
        snprintf(path, sizeof(path), "%s/standin/%s", QN_BUILD_DIR, kinds[k].file);
        if (qn__cuda_load(kinds[k].kind, (const char *const[]){path, NULL}, &call, &err) != QN_OK)
            fail_msg("%s", err.text);
        resets[k]();
        states[k]->devices = 2;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(call.device_get(&id[i], i), 0);
            assert_int_equal(call.context_retain(&context[i], id[i]), 0);
            assert_int_equal(call.context_set(context[i]), 0);
            assert_int_equal(call.stream_create(&stream[i], 1), 0);
        }
        assert_ptr_not_equal(context[0], context[1]);
        assert_int_equal(call.context_set(context[0]), 0);
        assert_int_equal(call.alloc(&at, 16), 0);
        assert_int_equal(call.write(at, bytes, 16, stream[0]), 0);
        assert_int_equal(call.event_create(&event, 2), 0);
        assert_int_equal(call.event_record(event, stream[0]), 0);
        assert_int_equal(call.context_set(context[1]), 0);
        assert_int_equal(call.stream_wait(stream[1], event, 0), 0); /* that may be */
        assert_int_equal(states[k]->n_wrong, 0);
        assert_int_not_equal(call.write(at, bytes, 16, stream[1]), 0);
        assert_non_null(strstr(states[k]->wrong, "memory of device 0 is used by device 1"));
        assert_int_not_equal(call.read(bytes, at, 16, stream[1]), 0);
        assert_int_not_equal(call.copy(at, at, 16, stream[1]), 0);
        assert_int_not_equal(call.stream_sync(stream[0]), 0);
        assert_int_not_equal(call.event_record(event, stream[1]), 0);
        assert_int_not_equal(call.release(at), 0);
        assert_int_equal(states[k]->n_wrong, 6);
        resets[k]();
        (void)call.stream_destroy(stream[1]);
        (void)call.context_set(context[0]);
        (void)call.event_destroy(event);
        (void)call.release(at);
        (void)call.stream_destroy(stream[0]);
        for (int i = 0; i < 2; i++) (void)call.context_release(id[i]);
        check_rules(states[k]);
    }
}

/* Rates of a device, as doctor shows them. */
static void measures(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        if (!has_kernels(k)) continue;
        qn_device_peaks peaks;
        qn_error err = {0};
        resets[k]();
        states[k]->memory_bytes = 64 << 20;
        if (qn_device_measure(kinds[k].kind->name, 1e-6, &peaks, &err) != QN_OK) fail_msg("%s", err.text);
        assert_true(peaks.copy_gb_s > 0 && peaks.up_gb_s > 0 && peaks.down_gb_s > 0);
        assert_true(peaks.int8_gops > 0 && peaks.f16_gflops > 0);
        check_rules(states[k]);
        for (int i = 1; i < 60; i += 7) {
            resets[k]();
            states[k]->memory_bytes = 64 << 20;
            states[k]->fail_at = i;
            assert_int_equal(qn_device_measure(kinds[k].kind->name, 1e-6, &peaks, &err), QN_STATUS_lost);
            check_rules(states[k]);
        }
    }
}

static void loads(const qn_cuda_kind *kind, const char *file, const char *says)
{
    qn_cuda_calls calls;
    qn_error err = {0};
    assert_int_equal(qn__cuda_load(kind, (const char *const[]){file, NULL}, &calls, &err), QN_STATUS_unsupported);
    if (!strstr(err.text, says) || strchr(err.text, '\n')) fail_msg("\"%s\", without \"%s\"", err.text, says);
}

/* One line says what is wrong with the library, and what to do. */
static void libraries(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof(path), "%s/standin/cut.so", QN_BUILD_DIR);
    for (int i = 0; i < N_KINDS; i++) {
        char whole[512];
        unsigned char bytes[4096];
        loads(kinds[i].kind, "/no/such/folder/library.so", kinds[i].kind->install);
        loads(kinds[i].kind, "libm.so.6", kinds[i].kind->older);
        snprintf(whole, sizeof(whole), "%s/standin/%s", QN_BUILD_DIR, kinds[i].file);
        FILE *in = fopen(whole, "rb");
        assert_non_null(in);
        assert_int_equal(fread(bytes, 1, sizeof(bytes), in), sizeof(bytes));
        fclose(in);
        static const size_t cuts[] = {0, 10, 63, 64, 100, 4096};
        for (size_t c = 0; c < sizeof(cuts) / sizeof(*cuts); c++) {
            FILE *out = fopen(path, "wb");
            assert_non_null(out);
            assert_int_equal(fwrite(bytes, 1, cuts[c], out), cuts[c]);
            fclose(out);
            loads(kinds[i].kind, path, "can't be loaded; install it again");
        }
        unlink(path);
        qn_cuda_calls calls;
        qn_error err = {0};
        if (qn__cuda_load(kinds[i].kind, (const char *const[]){"/no/such.so", whole, NULL}, &calls, &err) != QN_OK)
            fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(computes),          cmocka_unit_test(each_call_fails_once),
                                       cmocka_unit_test(too_little_memory), cmocka_unit_test(two_devices),
                                       cmocka_unit_test(measures),          cmocka_unit_test(libraries)};
    return cmocka_run_group_tests(tests, open_libraries, NULL);
}
