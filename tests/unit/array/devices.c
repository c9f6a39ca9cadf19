/* SPDX-License-Identifier: MIT */
/* tests/unit/array/devices.c -- a context over two devices: where tensors lie, how they move, what does not mix, and
 * that values and gradients have the bits that they have on one. */
#include "devices_rig.h"

#include "array/io/dlpack.h"
#include <quern/dlpack.h>
#include <quern/functional.h>
#include <quern/metrics.h>
#include <quern/npy.h>

static qn_tensor *waves(qn_context *c, qn_shape shape, double by)
{
    float x[1024];
    const int64_t n = qn_shape_numel(&shape);
    for (int64_t i = 0; i < n; i++) x[i] = (float)sin(by * (double)(i + 1));
    return f32(c, shape, x);
}

static void there_and_back(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *host = qn_context_device(c, 0), *device = sides[s].device;
        assert_int_equal(qn_context_n_devices(c), 2);
        assert_string_equal(qn_context_device(c, 1), device);
        assert_null(qn_context_device(c, 2));
        assert_null(qn_context_device(c, -1));
        qn_tensor *a = waves(c, qn_shape_of(5, 40), 0.7), *b = waves(c, qn_shape_of(40, 7), 1.3);
        qn_tensor *there_a = qn_to_device(a, device), *there_b = qn_to_device(b, device);
        EXPECT_DEVICE(a, host);
        EXPECT_DEVICE(there_a, device);
        qn_tensor *y = qn_matmul(there_a, there_b);
        EXPECT_DEVICE(y, device);
        EXPECT_SAME(y, qn_matmul(a, b));
        qn_tensor *back = qn_to_device(qn_add(y, y), host); /* of a value that is still pending */
        EXPECT_DEVICE(back, host);
        EXPECT_SAME(back, qn_mul_number(qn_matmul(a, b), 2));
        assert_true(qn_shares_storage(qn_to_device(a, host), a)); /* it is there */
        EXPECT_SAME(qn_to_device(qn_transpose(a, 0, 1), device), qn_transpose(a, 0, 1));
        EXPECT_SAME(qn_transpose(there_a, 0, 1), qn_transpose(a, 0, 1)); /* a view, read where it lies */
        EXPECT(qn_to_device(qn_scalar(c, 2.5, F32), device), 2.5);
        EXPECT(qn_to_device(qn_add_number(qn_scalar(c, 2.5, QN_DTYPE_F64), 1), device), 3.5);
        SHAPE(qn_to_device(qn_zeros(c, qn_shape_of(0, 3), F32), device), 0, 3);
        assert_true(fabs(qn_item(qn_sum(there_a, QN_ALL, false)) - qn_item(qn_sum(a, QN_ALL, false))) == 0);
        char *text = qn_to_string(there_a), *same = qn_to_string(a);
        assert_string_equal(text, same);
        qn_free(text);
        qn_free(same);
        context_end(c);
    }
}

static void made_where_it_is_said(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *host = qn_context_device(c, 0), *device = sides[s].device;
        assert_string_equal(qn_context_backend(c), host);
        qn_manual_seed(c, 3);
        qn_tensor *drawn = qn_rand(c, qn_shape_of(9, 3), F32), *from = qn_eye(c, 3, 4, F32);
        OK(c, qn_set_default_device(c, device));
        assert_string_equal(qn_context_backend(c), device);
        qn_manual_seed(c, 3);
        EXPECT_SAME(qn_rand(c, qn_shape_of(9, 3), F32), drawn);
        EXPECT_DEVICE(qn_rand(c, qn_shape_of(2), F32), device);
        EXPECT_SAME(qn_eye(c, 3, 4, F32), from);
        EXPECT_DEVICE(qn_arange(c, 0, 5, 1, QN_DTYPE_I64), device);
        EXPECT(qn_zeros(c, qn_shape_of(3), QN_DTYPE_F64), 0, 0, 0);
        EXPECT(qn_full(c, qn_shape_of(2), -7, QN_DTYPE_I16), -7, -7);
        EXPECT_DEVICE(qn_ones_like(from), host); /* where that lies which it is like */
        EXPECT_DEVICE(qn_dropout(from, 0.5, true), host);
        OK(c, qn_set_default_device(c, "cpu"));
        EXPECT_DEVICE(qn_zeros(c, qn_shape_of(1), F32), host);
        EXPECT_DEVICE(qn_full_like(qn_to_device(from, device), 2), device);
        float memory[3] = {1, 2, 3};
        OK(c, qn_set_default_device(c, device));
        qn_tensor *blob = qn_from_blob(c, memory, qn_shape_of(3), NULL, F32, NULL, NULL);
        assert_ptr_equal(qn_data(blob), memory); /* memory of the host lies with the host */
        assert_int_equal(qn_set_default_device(c, "warp:1"), QN_STATUS_invalid);
        char want[128];
        snprintf(want, sizeof want, "this context has no device \"warp:1\"; it has %s, %s", host, device);
        assert_non_null(strstr(qn_context_error(c)->text, want));
        REFUSED(c, qn_to_device(blob, "warp\n"), "to_device: this context has no device \"warp\\x0a\"");
        REFUSED(c, qn_to_device(blob, NULL), "the device is NULL");
        assert_int_equal(qn_set_default_device(c, NULL), QN_STATUS_invalid);
        assert_null(qn_to_device(NULL, device));
        assert_null(qn_device_of(NULL));
        qn_context_clear(c);
        context_end(c);
    }
}

static void devices_do_not_mix(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *host = qn_context_device(c, 0), *device = sides[s].device;
        char want[128];
        qn_tensor *a = waves(c, qn_shape_of(4, 4), 0.3), *b = qn_to_device(a, device);
        snprintf(want, sizeof want, "tensor 0 lies on %s and tensor 1 on %s", host, device);
        REFUSED(c, qn_add(a, b), want);
        REFUSED(c, qn_matmul(a, b), want);
        REFUSED(c, qn_add_(a, b), "tensors of one device expected");
        REFUSED(c, qn_cat((qn_tensor *const[]){a, b}, 2, 0), want);
        REFUSED(c, qn_where(qn_gt_number(a, 0), b, a), "where: tensors of one device");
        REFUSED(c, qn_linear(a, b, NULL), want);
        qn_tensor *n = qn_scalar(c, 3, F32);
        EXPECT_SAME(qn_mul(b, n), qn_mul_number(a, 3)); /* a number goes along */
        EXPECT_SAME(qn_add(n, b), qn_add_number(a, 3));
        EXPECT_DEVICE(qn_add(n, b), device);
        if (s > 0) { /* a number of a device does not: between two hosts both do */
            REFUSED(c, qn_mul(a, qn_to_device(n, device)), "tensors of one device expected");
            REFUSED(c, qn_add_(n, qn_sum(b, QN_ALL, false)), "cannot be stored on");
        }
        qn_tensor *copied = qn_zeros(c, qn_shape_of(4, 4), F32);
        GOOD(c, qn_copy_(copied, qn_mul_number(b, 2))); /* copy_ crosses, as PyTorch's */
        EXPECT_DEVICE(copied, host);
        EXPECT_SAME(copied, qn_mul_number(a, 2));
        qn_tensor *row = qn_select(b, 0, 1);
        GOOD(c, qn_copy_(row, qn_select(copied, 0, 2)));
        GOOD(c, qn_fill_(qn_select(b, 0, 3), 8));
        qn_tensor *like = qn_clone(a);
        GOOD(c, qn_copy_(qn_select(like, 0, 1), qn_select(copied, 0, 2)));
        GOOD(c, qn_fill_(qn_select(like, 0, 3), 8));
        EXPECT_SAME(b, like);
        if (s > 0) REFUSED(c, qn_data(b), "qn_to_host copies its values, qn_to_device moves it");
        OK(c, qn_set_data(b, (float[16]){1, 2, 3}, 64));
        EXPECT(qn_narrow(qn_select(b, 0, 0), 0, 0, 4), 1, 2, 3, 0);
        context_end(c);
    }
}

/* Two layers, on one device or on two: the loss, and gradients of both weights and of the input. */
static void two_layers(qn_context *c, const char *first, const char *second, qn_tensor *out[4])
{
    OK(c, qn_scope_begin(c));
    qn_tensor *x = qn_requires_grad_(waves(c, qn_shape_of(6, 32), 0.9), true);
    qn_tensor *w[2] = {qn_to_device(waves(c, qn_shape_of(16, 32), 0.11), first),
                       qn_to_device(waves(c, qn_shape_of(3, 16), 0.23), second)};
    for (int i = 0; i < 2; i++) GOOD(c, qn_requires_grad_(w[i], true));
    qn_tensor *h = qn_silu(qn_linear(qn_to_device(x, first), w[0], NULL));
    qn_tensor *y = qn_softmax(qn_linear(qn_to_device(h, second), w[1], NULL), -1);
    out[0] = qn_keep(qn_mean(qn_square(y), QN_ALL, false));
    OK(c, qn_backward(out[0]));
    EXPECT_DEVICE(qn_grad(x), qn_device_of(x));
    EXPECT_DEVICE(qn_grad(w[0]), qn_device_of(w[0]));
    EXPECT_DEVICE(qn_grad(w[1]), qn_device_of(w[1]));
    out[1] = qn_keep(qn_clone(qn_grad(x)));
    out[2] = qn_keep(qn_clone(qn_grad(w[0])));
    out[3] = qn_keep(qn_clone(qn_grad(w[1])));
    (void)qn_scope_end(c, NULL);
}

static void gradients_go_back_the_same_way(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        for (int order = 0; order < 3; order++) {
            qn_context *c = context_over(sides[s].list);
            const char *host = qn_context_device(c, 0), *device = sides[s].device;
            qn_tensor *want[4], *have[4];
            two_layers(c, host, host, want);
            two_layers(c, order == 0 ? host : device, order == 1 ? host : device, have);
            for (int i = 0; i < 4; i++) EXPECT_SAME(have[i], want[i]);
            context_end(c);
        }
    }
}

/* x times numbers that are made where things are made. */
static qn_tensor *scaled_by_new(void *arg, qn_tensor *const *inputs, int n)
{
    qn_context *c = arg;
    (void)n;
    return qn_mul(qn_square(inputs[0]), qn_arange(c, 0, (double)qn_numel(inputs[0]), 1, F32));
}

static void checkpoints_are_recorded_again_where_they_were(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *host = qn_context_device(c, 0);
        qn_tensor *grads[2];
        for (int i = 0; i < 2; i++) {
            const char *device = i == 0 ? host : sides[s].device;
            qn_tensor *x = qn_requires_grad_(qn_to_device(waves(c, qn_shape_of(8), 0.7), device), true);
            OK(c, qn_set_default_device(c, device));
            qn_tensor *y = qn_checkpoint(scaled_by_new, c, &x, 1);
            EXPECT_DEVICE(y, device);
            OK(c, qn_set_default_device(c, host));
            OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
            assert_string_equal(qn_context_backend(c), host);
            grads[i] = qn_grad(x);
            EXPECT_DEVICE(grads[i], device);
        }
        EXPECT_SAME(grads[1], grads[0]);
        context_end(c);
    }
}

/* The third step compiles nothing and takes no memory. */
static void a_step_over_two_devices_repeats_itself(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_metrics before, after;
        for (int step = 0; step < 4; step++) {
            qn_tensor *out[4];
            if (step == 3) qn_metrics_snapshot(&before);
            two_layers(c, qn_context_device(c, 0), sides[s].device, out);
            OK(c, qn_eval_all(c));
            for (int i = 0; i < 4; i++) qn_release(out[i]);
        }
        qn_metrics_snapshot(&after);
        assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
        assert_int_equal(after.device_allocs, before.device_allocs);
        context_end(c);
    }
}

static void what_has_no_kernel_comes_back(void **state)
{
    (void)state;
    for (int s = 1; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list), *strict = NULL;
        qn_tensor *a = qn_abs(waves(c, qn_shape_of(3, 5), 0.4)), *b = qn_to_device(a, sides[s].device);
        assert_int_equal(fallbacks(c), 0);
        qn_tensor *y = qn_logsumexp(b, (int[]){1}, 1, false), *z = qn_cumsum(qn_add(b, b), 1);
        EXPECT_DEVICE(y, sides[s].device);
        EXPECT_SAME(y, qn_logsumexp(a, (int[]){1}, 1, false));
        EXPECT_SAME(qn_mul_number(z, 0.5), qn_cumsum(a, 1));
        assert_int_equal(fallbacks(c), 2);
        qn_tensor *kept = qn_cumsum(b, 1), *seen = qn_cumsum(a, 1); /* views of what fell back, while it is pending */
        EXPECT_SAME(qn_logsumexp(qn_transpose(kept, 0, 1), (int[]){1}, 1, false),
                    qn_logsumexp(qn_transpose(seen, 0, 1), (int[]){1}, 1, false));
        EXPECT_SAME(kept, seen);
        kept = qn_cumsum(qn_add(b, b), 1);
        EXPECT_SAME(qn_to_device(qn_reshape(kept, qn_shape_of(15)), "cpu"),
                    qn_reshape(qn_add(seen, seen), qn_shape_of(15)));
        EXPECT_SAME(kept, qn_add(seen, seen));
        context_end(c);
        qn_error err = {0};
        const qn_context_options options = {.backend = sides[s].list, .n_threads = 1, .strict = true};
        if (qn_context_create(&options, &strict, &err) != QN_OK) fail_msg("%s", err.text);
        b = qn_to_device(waves(strict, qn_shape_of(3, 5), 0.4), sides[s].device);
        REFUSED(strict, qn_cumsum(b, 1), "a strict context computes nowhere else");
        EXPECT_SAME(qn_neg(b), qn_neg(waves(strict, qn_shape_of(3, 5), 0.4)));
        assert_int_equal(fallbacks(strict), 0);
        context_end(strict);
        strict = NULL;
        if (qn_context_create(&(qn_context_options){.backend = sides[s].device}, &strict, &err) != QN_OK)
            fail_msg("%s", err.text); /* alone, it has nobody to ask */
        REFUSED(strict, qn_cumsum(qn_ones(strict, qn_shape_of(2), F32), 0), "no kernel for cumsum");
        EXPECT(qn_add_number(qn_ones(strict, qn_shape_of(2), F32), 1), 2, 2);
        context_end(strict);
    }
}

/* A value that is kept, and lies on the device, though the host computed it: who computes beside it sees it there, the
 * whole of it or a part, before it has come home. */
static void what_came_back_is_read_where_it_was_computed(void **state)
{
    (void)state;
    for (int s = 1; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *host = qn_context_device(c, 0), *device = sides[s].device;
        qn_tensor *a = waves(c, qn_shape_of(6, 8), 0.4), *b = qn_to_device(a, device);
        qn_tensor *ids = qn_from_data(c, (int32_t[]){3, 1, 5, 0}, qn_shape_of(2, 2), QN_DTYPE_I32);
        qn_tensor *rows = qn_embedding(b, qn_to_device(ids, device)), *sums = qn_cumsum(b, 1);
        qn_tensor *seen[] = {qn_to_device(rows, host), qn_to_device(qn_transpose(sums, 0, 1), host),
                             qn_to_device(qn_narrow(sums, 0, 2, 3), host), qn_cumsum(qn_select(sums, 0, 4), 0),
                             qn_to_device(sums, host)};
        OK(c, qn_eval_all(c));
        qn_tensor *want = qn_cumsum(a, 1);
        EXPECT_SAME(seen[0], qn_embedding(a, ids));
        EXPECT_SAME(seen[1], qn_transpose(want, 0, 1));
        EXPECT_SAME(seen[2], qn_narrow(want, 0, 2, 3));
        EXPECT_SAME(seen[3], qn_cumsum(qn_select(want, 0, 4), 0));
        EXPECT_SAME(seen[4], want);
        EXPECT_DEVICE(rows, device);
        EXPECT_SAME(rows, qn_embedding(a, ids));
        EXPECT_SAME(sums, want);
        context_end(c);
    }
}

/* Also where the operation gives it a dimension. */
static void numbers_of_the_host_go_along(void **state)
{
    (void)state;
    for (int s = 1; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const char *device = sides[s].device;
        qn_tensor *a = waves(c, qn_shape_of(5, 4), 0.3), *x = qn_to_device(a, device);
        qn_tensor *three = qn_scalar(c, 3, QN_DTYPE_I64), *five = qn_scalar(c, 5, F32);
        qn_tensor *list = qn_from_data(c, (int64_t[]){4, 1}, qn_shape_of(2), QN_DTYPE_I64);
        qn_tensor *listed = qn_to_device(list, device);
        qn_tensor *here = qn_clone(a), *over = qn_clone(x);
        GOOD(c, qn_index_put_(here, &list, 1, five, false));
        GOOD(c, qn_index_put_(over, &listed, 1, five, false));
        EXPECT_SAME(over, here);
        EXPECT_SAME(qn_index_put(x, &three, 1, five, true), qn_index_put(a, &three, 1, five, true));
        EXPECT_SAME(qn_index(x, (qn_tensor *const[]){three, three}, 2),
                    qn_index(a, (qn_tensor *const[]){three, three}, 2));
        EXPECT_SAME(qn_index(x, (qn_tensor *const[]){listed, three}, 2),
                    qn_index(a, (qn_tensor *const[]){list, three}, 2));
        EXPECT_SAME(qn_embedding(x, three), qn_embedding(a, three));
        qn_tensor *row = qn_log_softmax(qn_select(a, 0, 1), 0), *far = qn_to_device(row, device);
        EXPECT_SAME(qn_cross_entropy(far, three, NULL), qn_cross_entropy(row, three, NULL));
        EXPECT_SAME(qn_nll_loss(far, three, NULL), qn_nll_loss(row, three, NULL));
        EXPECT_DEVICE(qn_nll_loss(far, three, NULL), device);
        EXPECT_SAME(qn_masked_fill(five, qn_gt_number(x, 0), 2), qn_masked_fill(five, qn_gt_number(a, 0), 2));
        /* others do not */
        REFUSED(c, qn_embedding(x, list), "tensors of one device expected");
        qn_context *other = context_new();
        qn_tensor *foreign = qn_scalar(other, 3, QN_DTYPE_I64);
        REFUSED(c, qn_embedding(x, foreign), "belongs to context");
        REFUSED(c, qn_index(x, &foreign, 1), "belongs to context");
        context_end(other);
        REFUSED(c, qn_cross_entropy(x, qn_zeros(c, qn_shape_of(5), QN_DTYPE_I64), NULL), "tensors of one device");
        context_end(c);
    }
}

static void slices_are_written_where_they_lie(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        for (int k = 0; k < 4; k++) { /* adds or not, converts or not */
            qn_tensor *x = qn_to(waves(c, qn_shape_of(6, 8), 0.4), k & 1 ? QN_DTYPE_F16 : F32);
            qn_tensor *part = waves(c, qn_shape_of(2, 8), 0.9), *y = qn_clone(qn_to_device(x, sides[s].device));
            GOOD(c, qn_slice_update_(x, 0, 3, part, k >= 2));
            GOOD(c, qn_slice_update_(y, 0, 3, qn_to_device(part, sides[s].device), k >= 2));
            EXPECT_DEVICE(y, sides[s].device);
            EXPECT_SAME(y, x);
        }
        assert_int_equal(fallbacks(c), 0);
        context_end(c);
    }
}

static void files_and_blocks(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, QN_BUILD_DIR "/t_array_devices_%d.npy", (int)getpid());
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_tensor *a = waves(c, qn_shape_of(4, 32), 0.3), *b = qn_to_device(a, sides[s].device);
        OK(c, qn_save_npy(qn_transpose(b, 0, 1), path));
        OK(c, qn_set_default_device(c, sides[s].device));
        qn_tensor *read = qn_load_npy(c, path);
        EXPECT_DEVICE(read, sides[s].device);
        EXPECT_SAME(read, qn_transpose(a, 0, 1));
        qn_tensor *q = qn_quantize(b, QN_DTYPE_Q8_0, NULL), *here = qn_quantize(a, QN_DTYPE_Q8_0, NULL);
        EXPECT_DEVICE(q, sides[s].device);
        EXPECT_SAME(q, here);
        EXPECT_SAME(qn_to_device(here, sides[s].device), here);
        EXPECT_SAME(qn_dequantize(q), qn_dequantize(here));
        qn_tensor *p = qn_clone(q), *p_here = qn_clone(here), *row = waves(c, qn_shape_of(1, 32), 0.7);
        GOOD(c, qn_slice_update_(p, 0, 2, row, false));
        GOOD(c, qn_slice_update_(p_here, 0, 2, qn_to_device(row, "cpu"), false));
        EXPECT_DEVICE(p, sides[s].device);
        EXPECT_SAME(p, p_here);
        GOOD(c, qn_copy_(qn_narrow(p, 0, 1, 2), qn_narrow(q, 0, 0, 2)));
        GOOD(c, qn_copy_(qn_narrow(p_here, 0, 1, 2), qn_narrow(here, 0, 0, 2)));
        EXPECT_SAME(p, p_here);
        qn_tensor *x = waves(c, qn_shape_of(2, 32), 0.5);
        EXPECT_SAME(qn_linear(x, q, NULL), qn_linear(qn_to_device(x, "cpu"), here, NULL));
        context_end(c);
    }
    (void)remove(path);
}

static void device_memory_of_others(void **state)
{
    (void)state;
    for (int s = 1; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_tensor *a = waves(c, qn_shape_of(3, 4), 0.4), *b = qn_to_device(a, sides[s].device);
        struct DLManagedTensor *m = qn_to_dlpack(qn_narrow(b, 0, 1, 2));
        GOOD(c, m);
        assert_int_equal(m->dl_tensor.device.type, s == 1 ? 4 : 2);
        assert_int_equal(m->dl_tensor.device.id, 0);
        assert_int_equal(m->dl_tensor.byte_offset, s == 1 ? 16 : 0); /* a cl_mem has no address to count from */
        qn_tensor *again = qn_from_dlpack(c, m);
        EXPECT_DEVICE(again, sides[s].device);
        EXPECT_SAME(again, qn_narrow(a, 0, 1, 2));
        GOOD(c, qn_mul_number_(again, 2)); /* one memory */
        OK(c, qn_eval(again));
        EXPECT_SAME(qn_narrow(b, 0, 1, 2), qn_mul_number(qn_narrow(a, 0, 1, 2), 2));
        EXPECT_SAME(qn_narrow(b, 0, 0, 1), qn_narrow(a, 0, 0, 1));
        int64_t shape = 2;
        struct DLManagedTensor foreign = {.dl_tensor = {.data = (void *)(uintptr_t)64,
                                                        .device = {2, 7},
                                                        .ndim = 1,
                                                        .dtype = {QN_DL_FLOAT, 32, 1},
                                                        .shape = &shape}};
        REFUSED(c, qn_from_dlpack(c, &foreign), "CUDA device 7, which this context does not have");
        foreign.dl_tensor.device.type = 99;
        REFUSED(c, qn_from_dlpack(c, &foreign), "device type 99 has no backend here");
        foreign.dl_tensor.device.type = 0; /* what a tensor has that nobody filled in */
        REFUSED(c, qn_from_dlpack(c, &foreign), "device type 0 has no backend here");
        foreign.dl_tensor.device.type = s == 1 ? 4 : 2;
        foreign.dl_tensor.device.id = 0;
        foreign.dl_tensor.data = NULL;
        REFUSED(c, qn_from_dlpack(c, &foreign), "no memory");
        context_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back),
                                       cmocka_unit_test(made_where_it_is_said),
                                       cmocka_unit_test(devices_do_not_mix),
                                       cmocka_unit_test(gradients_go_back_the_same_way),
                                       cmocka_unit_test(checkpoints_are_recorded_again_where_they_were),
                                       cmocka_unit_test(a_step_over_two_devices_repeats_itself),
                                       cmocka_unit_test(what_has_no_kernel_comes_back),
                                       cmocka_unit_test(what_came_back_is_read_where_it_was_computed),
                                       cmocka_unit_test(numbers_of_the_host_go_along),
                                       cmocka_unit_test(slices_are_written_where_they_lie),
                                       cmocka_unit_test(files_and_blocks),
                                       cmocka_unit_test(device_memory_of_others)};
    find_sides();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
