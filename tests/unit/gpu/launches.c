/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/launches.c -- what a device is told, by a stand-in for a driver that computes nothing: launches with
 * the kernels, groups, buffers and offsets of a graph's nodes; and calls that fail, each of them once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sched.h"
#include "gpu/gpu.h"
#include "gpu/kernels/sizes.h"

enum { MAX_LAUNCHES = 64 };

struct qn_gpu_device {
    int n_buffers, n_launches, n_prepared, n_finished;
    int calls, fail_at; /* call number fail_at fails; 0: none does */
    qn_gpu_launch launches[MAX_LAUNCHES];
};
static qn_gpu_device device;

static qn_status called(qn_error *err)
{
    return ++device.calls == device.fail_at ? QN_FAIL(err, unsupported, "stand-in: call %d fails", device.calls)
                                            : QN_OK;
}

static qn_status devices(qn_device *out, int max, int *n, qn_error *err)
{
    (void)err;
    *n = max > 2 ? 2 : max;
    for (int i = 0; i < *n; i++) out[i] = (qn_device){.backend = "standin:0", .name = "stand-in"};
    return QN_OK;
}
static qn_status open_device(int index, qn_gpu_device **out, qn_gpu_device_info *info, qn_error *err)
{
    (void)index;
    QN_TRY(called(err));
    *info = (qn_gpu_device_info){.largest = 1 << 20};
    *out = &device;
    return QN_OK;
}
static void close_device(qn_gpu_device *d) { assert_int_equal(d->n_buffers, 0); }
static qn_status alloc(qn_gpu_device *d, uint64_t bytes, void **memory, qn_error *err)
{
    QN_TRY(called(err));
    *memory = calloc(1, bytes ? bytes : 1);
    d->n_buffers++;
    return QN_OK;
}
static void release(qn_gpu_device *d, void *memory)
{
    d->n_buffers--;
    free(memory);
}
static qn_status write_bytes(qn_gpu_device *d, void *memory, uint64_t offset, const void *src, uint64_t n, bool stays,
                             qn_error *err)
{
    (void)d;
    (void)stays;
    QN_TRY(called(err));
    memcpy((char *)memory + offset, src, n);
    return QN_OK;
}
static qn_status read_bytes(qn_gpu_device *d, void *memory, uint64_t offset, void *dst, uint64_t n, qn_error *err)
{
    (void)d;
    QN_TRY(called(err));
    memcpy(dst, (const char *)memory + offset, n);
    return QN_OK;
}
static qn_status prepare(qn_gpu_device *d, int kernel, qn_error *err)
{
    (void)kernel;
    QN_TRY(called(err));
    d->n_prepared++;
    return QN_OK;
}
static qn_status launch(qn_gpu_device *d, const qn_gpu_launch *l, qn_error *err)
{
    QN_TRY(called(err));
    assert_true(d->n_launches < MAX_LAUNCHES);
    d->launches[d->n_launches++] = *l;
    return QN_OK;
}
static qn_status finish(qn_gpu_device *d, qn_error *err)
{
    d->n_finished++;
    return called(err);
}
static const qn_gpu_driver driver = {.name = "standin",
                                     .devices = devices,
                                     .open = open_device,
                                     .close = close_device,
                                     .alloc = alloc,
                                     .free = release,
                                     .write = write_bytes,
                                     .read = read_bytes,
                                     .prepare = prepare,
                                     .launch = launch,
                                     .finish = finish};
static qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err);
static const qn_backend_type type = {.name = "standin", .open = open_backend, QN_GPU_BACKEND_MEMBERS};
static qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err)
{
    return qn__gpu_open(&type, &driver, options, out, err);
}

/* y = linear(rms_norm(x, w), q) + x, with q in Q4_0: four launches, and one for the columns. */
static qn_status compute(qn_error *err)
{
    qn_backend *be = NULL;
    qn_sched *s = NULL;
    qn_buffer *weights = NULL;
    qn_graph *g = NULL;
    qn_exec *e = NULL;
    float x[3 * 32] = {0}, y[3 * 32];
    qn_status status = type.open(NULL, &be, err);
    if (status == QN_OK) status = qn__sched_create(&be, 1, NULL, &s, err);
    if (status == QN_OK) status = type.buffer_create(be, 128 + 32 * 18, &weights, err);
    if (status == QN_OK) status = type.upload(weights, 0, x, 128, err);
    if (status == QN_OK) status = qn__graph_create(&g, err);
    if (status == QN_OK) {
        const qn_shape row = {1, {32}}, square = {2, {32, 32}}, rows = {2, {3, 32}};
        qn_node *in = qn__input(g, "x", QN_DTYPE_F32, &rows);
        qn_node *w = qn__param(g, "w", QN_DTYPE_F32, &row, weights, 0, 0),
                *q = qn__param(g, "q", QN_DTYPE_Q4_0, &square, weights, 128, 0);
        qn_node *out = qn__add(g, qn__linear(g, qn__rms_norm(g, in, w, 1e-5f), q, NULL), in);
        qn__name(g, out, "y");
        qn__output(g, out);
        status = qn__sched_compile(s, g, "", 0, &e, err);
    }
    if (status == QN_OK) status = qn__exec_set(e, qn__exec_find(e, "x"), x, sizeof x, err);
    if (status == QN_OK) status = qn__exec_run(e, NULL, err);
    if (status == QN_OK) status = qn__exec_get(e, qn__exec_find(e, "y"), y, 0, sizeof y, err);
    qn__sched_destroy(s);
    if (weights) type.buffer_destroy(weights);
    type.close(be);
    return status;
}

static void launched(void **state)
{
    (void)state;
    qn_error err = {0};
    device = (qn_gpu_device){0};
    if (compute(&err) != QN_OK) fail_msg("%s", err.text);
    static const int kernels[] = {QN_GPU_rms_norm, QN_GPU_quantize_32, QN_GPU_linear_Q4_0, QN_GPU_pointwise};
    assert_int_equal(device.n_launches, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(device.launches[i].kernel, kernels[i]);
    const qn_gpu_launch *norm = &device.launches[0], *columns = &device.launches[1], *product = &device.launches[2],
                        *sum = &device.launches[3];
    assert_int_equal(norm->n_groups, 3);                         /* rows */
    assert_ptr_equal(product->memory[2], norm->memory[2]);       /* both weights are of one buffer */
    assert_int_equal(product->offset[2] - norm->offset[2], 128); /* one behind the other */
    assert_int_equal(columns->offset[0], product->offset[1]);    /* scratch: written, then read */
    assert_int_equal(product->n_groups, 32 / product->width * 3);
    assert_int_equal(((const qn_linear_sizes *)(const void *)product->sizes)->w_bytes, 18);
    assert_int_equal(((const qn_pointwise_sizes *)(const void *)sum->sizes)->n, 96);
    assert_int_equal(sum->offset[1], product->offset[0]);
    assert_int_equal(device.n_buffers, 0);
}

/* Whatever call fails, its status comes back and nothing is left behind. */
static void each_call_fails_once(void **state)
{
    (void)state;
    device = (qn_gpu_device){0};
    assert_int_equal(compute(NULL), QN_OK);
    const int n = device.calls;
    assert_true(n > 10);
    for (int i = 1; i <= n; i++) {
        qn_error err = {0};
        device = (qn_gpu_device){.fail_at = i};
        const qn_status status = compute(&err);
        if (status == QN_OK) fail_msg("call %d of %d failed, nobody said so", i, n);
        assert_non_null(strstr(err.text, "fails"));
        assert_int_equal(device.n_buffers, 0);
    }
}

static void refused(void **state)
{
    (void)state;
    static const char *const which[] = {"2", "x", "-1", "1x", "99999999999999999999"};
    device = (qn_gpu_device){0};
    for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
        qn_backend *be = NULL;
        qn_error err = {0};
        assert_int_not_equal(type.open(&(qn_backend_options){.which = which[i]}, &be, &err), QN_OK);
        assert_non_null(strstr(err.text, "standin"));
        assert_null(be);
    }
    qn_backend *be = NULL;
    qn_buffer *b = NULL;
    qn_error err = {0};
    assert_int_equal(type.open(&(qn_backend_options){.which = "1"}, &be, &err), QN_OK);
    assert_string_equal(be->name, "standin:1");
    assert_int_equal(type.buffer_create(be, (1 << 20) + 1, &b, &err), QN_STATUS_nomem);
    assert_int_equal(type.buffer_create(be, 8, &b, &err), QN_OK);
    assert_int_equal(type.upload(b, 4, "12345", 5, &err), QN_STATUS_invalid);
    assert_int_equal(type.download(b, UINT64_MAX, &err, 2, &err), QN_STATUS_invalid);
    type.buffer_destroy(b);
    type.close(be);
}

static void rows(void **state)
{
    (void)state;
    qn_gpu_rows r;
    qn_layout l;
    assert_int_equal(qn_layout_contiguous(&(qn_shape){3, {2, 5, 8}}, &l, NULL), QN_OK);
    assert_true(qn__gpu_rows_of(&l, &r));
    assert_int_equal(r.n * 1000 + r.size * 100 + r.stride, 10 * 1000 + 8 * 100 + 8);
    qn_layout cut = l;
    assert_int_equal(qn_layout_narrow(&l, 2, 1, 3, &cut, NULL), QN_OK);
    assert_true(qn__gpu_rows_of(&cut, &r) && r.size == 3 && r.stride == 8);
    assert_int_equal(qn_layout_narrow(&l, 1, 1, 3, &cut, NULL),
                     QN_OK); /* a gap between the first and the second three */
    assert_false(qn__gpu_rows_of(&cut, &r));
    assert_int_equal(qn_layout_permute(&l, (const int[]){0, 2, 1}, 3, &cut, NULL), QN_OK);
    assert_false(qn__gpu_rows_of(&cut, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(launched), cmocka_unit_test(each_call_fails_once),
                                       cmocka_unit_test(refused), cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
