/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/launches.c -- what a device is told, by a stand-in for a driver that computes nothing: launches with
 * the kernels, groups, buffers and offsets of a graph's nodes; and calls that fail, each of them once. */
#include "standin.h"

#include "backend/sched.h"
#include "gpu/kernels/sizes.h"

/* y = linear(rms_norm(x, w), q) + x, with q in Q4_0: two launches; node by node, four. */
static qn_status compute(int n_runs, const qn_run *run, qn_error *err)
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
    for (int i = 0; i < n_runs && status == QN_OK; i++) {
        status = qn__exec_set(e, qn__exec_find(e, "x"), x, sizeof x, err);
        if (status == QN_OK) status = qn__exec_run(e, run, err);
        if (status == QN_OK) status = qn__exec_get(e, qn__exec_find(e, "y"), y, 0, sizeof y, err);
    }
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
    if (compute(1, NULL, &err) != QN_OK) fail_msg("%s", err.text);
    static const int kernels[] = {QN_GPU_rms_norm, QN_GPU_linear_Q4_0};
    assert_int_equal(device.n_launches, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(device.launches[i].kernel, kernels[i]);
    const qn_gpu_launch *norm = &device.launches[0], *product = &device.launches[1];
    assert_int_equal(norm->n_groups, 3);                         /* rows */
    assert_ptr_equal(product->memory[2], norm->memory[2]);       /* both weights are of one buffer */
    assert_int_equal(product->offset[2] - norm->offset[2], 128); /* one behind the other */
    assert_int_equal(norm->offset[3], product->offset[1]);       /* columns: written, then read */
    assert_int_equal(product->offset[12], norm->offset[1]);      /* what is added to */
    assert_int_not_equal(product->offset[11], product->offset[0]);
    assert_int_equal(product->n_groups, 32 / product->width * 3);
    assert_int_equal(((const qn_linear_sizes *)(const void *)product->sizes)->w_bytes[0], 18);
    assert_int_equal(((const qn_rms_sizes *)(const void *)norm->sizes)->block, 32);
}

static bool look(void *ctx, const qn_node *node, bool after)
{
    (void)node;
    *(int *)ctx += after;
    return true;
}

/* Somebody looks on: nodes are launched one by one. */
static void launched_singly(void **state)
{
    (void)state;
    qn_error err = {0};
    int n_seen = 0;
    device = (qn_gpu_device){0};
    if (compute(1, &(qn_run){.eval = look, .eval_ctx = &n_seen}, &err) != QN_OK) fail_msg("%s", err.text);
    static const int kernels[] = {QN_GPU_rms_norm, QN_GPU_quantize_32, QN_GPU_linear_Q4_0, QN_GPU_pointwise_real};
    assert_int_equal(n_seen, 3);
    assert_int_equal(device.n_launches, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(device.launches[i].kernel, kernels[i]);
    const qn_gpu_launch *columns = &device.launches[1], *product = &device.launches[2], *sum = &device.launches[3];
    assert_int_equal(columns->offset[0], product->offset[1]); /* scratch: written, then read */
    assert_int_equal(((const qn_walk_sizes *)(const void *)sum->sizes)->n, 96);
    assert_int_equal(sum->offset[1], product->offset[0]);
}

/* Inputs go up in one transfer a run, launches are captured once where that can be, and nothing waits but the result.
 */
static void little_is_called(void **state)
{
    (void)state;
    for (int captures = 0; captures < 2; captures++) {
        qn_error err = {0};
        device = (qn_gpu_device){.captures = captures};
        if (compute(1, NULL, &err) != QN_OK) fail_msg("%s", err.text);
        const qn_gpu_device once = device;
        device = (qn_gpu_device){.captures = captures};
        if (compute(5, NULL, &err) != QN_OK) fail_msg("%s", err.text);
        assert_int_equal(once.n_sent, 1);
        assert_int_equal(device.n_sent, 5);
        assert_int_equal(device.n_writes, once.n_writes); /* the weights */
        assert_int_equal(device.n_reads, 5);
        assert_int_equal(device.n_launches, captures ? 2 : 5 * 2);
        assert_int_equal(device.n_captured, captures);
        assert_int_equal(device.n_replayed, captures ? 5 : 0);
        assert_int_equal(device.n_finished, once.n_finished); /* when things go */
    }
}

/* Whatever call fails, its status comes back and nothing is left behind. */
static void each_call_fails_once(void **state)
{
    (void)state;
    static const qn_status ways[] = {QN_OK, QN_STATUS_lost};
    for (int captures = 0; captures < 2; captures++) {
        device = (qn_gpu_device){.captures = captures};
        assert_int_equal(compute(2, NULL, NULL), QN_OK);
        const int n = device.calls, n_finished = device.n_finished;
        assert_true(n > 20 && n_finished > 0);
        for (int i = 1; i <= 2 * n; i++) {
            qn_error err = {0};
            device = (qn_gpu_device){.captures = captures, .fail_at = (i + 1) / 2, .how = ways[i % 2]};
            const qn_status status = compute(2, NULL, &err);
            assert_int_equal(alive(), 0);
            if (status == QN_OK && device.calls - device.fail_at < n_finished) continue; /* while all is given back */
            if (status == QN_OK) fail_msg("call %d of %d failed, nobody said so", device.fail_at, n);
            assert_non_null(strstr(err.text, "fails"));
            assert_int_equal(status == QN_STATUS_lost, i % 2);
        }
    }
}

/* A device that is gone stays gone: nothing is asked of it any more. */
static void gone(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_backend *be = NULL;
    qn_buffer *b = NULL;
    char c = 0;
    device = (qn_gpu_device){0};
    assert_int_equal(type.open(NULL, &be, &err), QN_OK);
    assert_int_equal(type.buffer_create(be, 8, &b, &err), QN_OK);
    device.fail_at = device.calls + 1;
    device.how = QN_STATUS_lost;
    assert_int_equal(type.upload(b, 0, &c, 1, NULL), QN_STATUS_lost);
    const int calls = device.calls;
    qn_buffer *other = NULL;
    assert_int_equal(type.download(b, 0, &c, 1, &err), QN_STATUS_lost);
    assert_non_null(strstr(err.text, "open the model again"));
    assert_int_equal(type.sync(be, &err), QN_STATUS_lost);
    assert_int_equal(type.buffer_create(be, 8, &other, &err), QN_STATUS_lost);
    assert_null(other);
    assert_int_equal(device.calls, calls);
    type.buffer_destroy(b);
    type.close(be);
}

/* A limit counts what was asked for, to the byte; what the device has no room for is said with what to do. */
static void memory(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_backend *be = NULL;
    qn_buffer *b[2] = {0};
    device = (qn_gpu_device){0};
    assert_int_equal(type.open(&(qn_backend_options){.memory_limit = 1000}, &be, &err), QN_OK);
    assert_int_equal(type.memory(be).left, 1000);
    assert_int_equal(type.buffer_create(be, 999, &b[0], &err), QN_OK);
    assert_int_equal(type.memory(be).used, 999);
    assert_int_equal(type.buffer_create(be, 2, &b[1], &err), QN_STATUS_nomem);
    assert_non_null(strstr(err.text, "--gpu-layers"));
    assert_int_equal(type.buffer_create(be, 1, &b[1], &err), QN_OK);
    assert_int_equal(type.memory(be).left, 0);
    for (int i = 0; i < 2; i++) type.buffer_destroy(b[i]);
    assert_int_equal(type.memory(be).used, 0);
    device.fail_at = device.calls + 1;
    device.how = QN_STATUS_nomem;
    assert_int_equal(type.buffer_create(be, 10, &b[0], &err), QN_STATUS_nomem);
    assert_non_null(strstr(err.text, "--gpu-layers"));
    type.close(be);

    device = (qn_gpu_device){.free = 700};
    assert_int_equal(type.open(&(qn_backend_options){.memory_limit = 1000}, &be, &err), QN_OK);
    assert_int_equal(type.memory(be).left, 700);
    type.close(be);
}

/* Within one backend bytes are copied by the device, in order; what crosses goes through the host. */
static void copies(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_backend *be = NULL, *other = NULL;
    qn_buffer *a = NULL, *b = NULL, *c = NULL;
    char back[4] = "";
    device = (qn_gpu_device){0};
    assert_int_equal(type.open(NULL, &be, &err), QN_OK);
    assert_int_equal(type.open(&(qn_backend_options){.which = "1"}, &other, &err), QN_OK);
    assert_int_equal(type.buffer_create(be, 8, &a, &err), QN_OK);
    assert_int_equal(type.buffer_create(be, 8, &b, &err), QN_OK);
    assert_int_equal(type.buffer_create(other, 8, &c, &err), QN_OK);
    assert_int_equal(type.upload(a, 4, "abc", 4, &err), QN_OK);
    assert_int_equal(type.copy(b, 1, a, 4, 4, &err), QN_OK);
    assert_int_equal(type.download(b, 1, back, 4, &err), QN_OK);
    assert_string_equal(back, "abc");
    assert_int_equal(type.copy(b, 5, a, 4, 4, &err), QN_STATUS_invalid);
    assert_int_equal(type.copy(b, 4, a, 5, 4, &err), QN_STATUS_invalid);
    assert_int_equal(type.copy(c, 0, a, 0, 4, &err), QN_STATUS_unsupported);
    qn_event *e = NULL;
    assert_int_equal(type.event_create(be, &e, &err), QN_OK);
    assert_int_equal(type.event_record(e, &err), QN_OK);
    assert_int_equal(type.event_wait(e, &err), QN_OK);
    type.event_destroy(e);
    type.buffer_destroy(a);
    type.buffer_destroy(b);
    type.buffer_destroy(c);
    type.close(be);
    type.close(other);
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

/* What is computed in 64-bit floats is refused by a device that has none, and nothing else. */
static void doubles(void **state)
{
    (void)state;
    for (int has = 0; has < 2; has++) {
        qn_backend *be = NULL;
        qn_graph *g = NULL;
        qn_error err = {0};
        device = (qn_gpu_device){.doubles = has};
        assert_int_equal(type.open(NULL, &be, &err), QN_OK);
        assert_int_equal(qn__graph_create(&g, &err), QN_OK);
        const qn_reduce_attrs last = {.dims = 2};
        qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &(qn_shape){2, {3, 32}});
        qn_node *sum = qn__op(g, QN_OP_sum, &last, &x, 1), *var = qn__op(g, QN_OP_var, &last, &x, 1);
        assert_true(sum && var && type.accepts(be, sum, &err));
        assert_int_equal(type.accepts(be, var, &err), has);
        if (!has) assert_string_equal(err.text, "var is computed in 64-bit floats, which standin:0 lacks");
        qn__graph_destroy(g);
        type.close(be);
    }
}

/* Rows without elements have results all the same, which no launch would write. */
static void nothing_to_sum(void **state)
{
    (void)state;
    qn_backend *be = NULL;
    qn_error err = {0};
    device = (qn_gpu_device){0};
    assert_int_equal(type.open(NULL, &be, &err), QN_OK);
    for (int64_t k = 0; k <= 32; k += 32) {
        qn_graph *g = NULL;
        assert_int_equal(qn__graph_create(&g, &err), QN_OK);
        qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &(qn_shape){2, {3, k}}),
                *w = qn__input(g, "w", QN_DTYPE_Q4_0, &(qn_shape){2, {5, k}}),
                *experts = qn__input(g, "experts", QN_DTYPE_F32, &(qn_shape){3, {4, 5, k}}),
                *ids = qn__input(g, "ids", QN_DTYPE_I32, &(qn_shape){2, {3, 2}}),
                *bias = qn__input(g, "bias", QN_DTYPE_F32, &(qn_shape){1, {5}});
        const qn_node *y = qn__linear(g, x, w, bias), *mixed = qn__linear_experts(g, x, experts, ids, NULL);
        assert_int_equal(qn__graph_finish(g, &err), QN_OK);
        assert_int_equal(type.accepts(be, y, &err), k > 0);
        if (k == 0) assert_string_equal(err.text, "linear: no kernel of rows without elements");
        assert_int_equal(type.accepts(be, mixed, &err), k > 0);
        if (k == 0) assert_string_equal(err.text, "linear_experts: no kernel of rows without elements");
        qn__graph_destroy(g);
    }
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
    qn_rows two;
    int64_t n = 0;
    assert_true(qn__gpu_rows_at(&cut, &two, &n));
    assert_int_equal(n, 6);
    assert_int_equal(two.inner * 1000 + two.stride * 100 + two.outer, 3 * 1000 + 8 * 100 + 40);
    assert_int_equal(qn_layout_permute(&l, (const int[]){0, 2, 1}, 3, &cut, NULL), QN_OK);
    assert_false(qn__gpu_rows_of(&cut, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(launched),
                                       cmocka_unit_test(launched_singly),
                                       cmocka_unit_test(little_is_called),
                                       cmocka_unit_test(each_call_fails_once),
                                       cmocka_unit_test(gone),
                                       cmocka_unit_test(memory),
                                       cmocka_unit_test(copies),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(doubles),
                                       cmocka_unit_test(nothing_to_sum),
                                       cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
