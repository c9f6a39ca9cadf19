/* SPDX-License-Identifier: MIT */
/* tests/unit/array/writes.c -- gradients through writes into parts of tensors, by PyTorch's figures
 * (tests/oracle/inplace_gradients.py), and checkpoints: the same gradients from less memory. */
#include "rig.h"

static qn_tensor *leaf(qn_context *c, qn_shape shape)
{
    qn_tensor *t = qn_view_as(qn_arange(c, 1, 1 + (double)qn_shape_numel(&shape), 1, F32), shape);
    GOOD(c, t);
    return qn_requires_grad_(t, true);
}

/* backward of the sum of 1, 2, 3 .. times y */
static void back(qn_context *c, qn_tensor *y)
{
    GOOD(c, y);
    qn_tensor *w = qn_view_as(qn_arange(c, 1, 1 + (double)qn_numel(y), 1, F32), qn_shape_get(y));
    OK(c, qn_backward(qn_sum(qn_mul(y, w), QN_ALL, false)));
}

static void into_parts(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2, 3)), *y = qn_mul(x, x);
    GOOD(c, qn_fill_(qn_select(y, 0, 0), 1));
    back(c, y);
    EXPECT(qn_grad(x), 0, 0, 0, 32, 50, 72);
    EXPECT(y, 1, 1, 1, 16, 25, 36);

    x = leaf(c, qn_shape_of(2, 3)), y = qn_mul(x, x);
    qn_tensor *z = leaf(c, qn_shape_of(2, 2));
    GOOD(c, qn_mul_(qn_narrow(y, 1, 1, 2), z));
    back(c, y);
    EXPECT(qn_grad(x), 2, 8, 36, 32, 150, 288);
    EXPECT(qn_grad(z), 8, 27, 125, 216);

    x = leaf(c, qn_shape_of(2));
    qn_tensor *b = qn_zeros(c, qn_shape_of(2, 3), F32);
    GOOD(c, qn_copy_(qn_select(b, 1, 1), x));
    assert_true(qn_requires_grad(b) && !qn_is_leaf(b));
    back(c, qn_mul(b, b));
    EXPECT(qn_grad(x), 4, 20);
    context_end(c);
}

static void seen_by_all(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2, 3)), *y = qn_mul(x, x), *v = qn_select(y, 0, 0), *u = qn_transpose(y, 0, 1);
    GOOD(c, qn_sqrt_(v));
    back(c, u);
    EXPECT(qn_grad(x), 1, 3, 5, 16, 40, 72);

    x = leaf(c, qn_shape_of(2, 3)), y = qn_mul(x, x);
    GOOD(c, qn_mul_number_(qn_narrow(y, 0, 0, 1), 3));
    GOOD(c, qn_add_(qn_select(y, 1, 0), qn_select(x, 1, 0)));
    GOOD(c, qn_mul_(qn_select(y, 0, 1), qn_select(x, 0, 1)));
    back(c, y);
    EXPECT(qn_grad(x), 7, 24, 54, 224, 375, 648);

    x = leaf(c, qn_shape_of(2, 3)), y = qn_mul(x, x);
    GOOD(c, qn_mul_number_(qn_view_as(y, qn_shape_of(6)), 3)); /* the whole, through another handle */
    back(c, y);
    EXPECT(qn_grad(x), 6, 24, 54, 96, 150, 216);

    x = leaf(c, qn_shape_of(2, 3)), y = qn_mul(x, x);
    qn_tensor *a = qn_select(y, 0, 1), *two = qn_slice(y, 1, 0, QN_END, 2);
    GOOD(c, qn_mul_number_(a, 2));
    GOOD(c, qn_add_(two, qn_mul(qn_clone(qn_select(a, 0, 0)), qn_select(qn_select(x, 0, 0), 0, 0))));
    GOOD(c, qn_mul_number_(a, 3));
    back(c, y);
    EXPECT(qn_grad(x), 1090, 8, 18, 736, 300, 432);

    y = qn_mul(x, x);
    qn_tensor *d = qn_detach(y);
    GOOD(c, qn_mul_number_(qn_select(y, 0, 0), 2));
    assert_false(qn_requires_grad(d)); /* it shares the values and nothing else */
    EXPECT(d, 2, 8, 18, 16, 25, 36);
    context_end(c);
}

/* The value that a storage gets before it has memory may have another shape than its tensors. */
static void through_a_view_of_another_shape_first(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *b = qn_mul_number(qn_ones(c, qn_shape_of(2, 3), F32), 2);
    GOOD(c, qn_add_number_(qn_view_as(b, qn_shape_of(6)), 1));
    GOOD(c, qn_mul_number_(qn_select(b, 0, 0), 3));
    EXPECT(b, 9, 9, 9, 3, 3, 3);

    b = qn_ones(c, qn_shape_of(1, 2, 3), F32); /* a batch of one */
    GOOD(c, qn_zero_(qn_select(b, 0, 0)));
    GOOD(c, qn_fill_(qn_select(qn_select(b, 0, 0), 0, 1), 1));
    EXPECT(b, 0, 0, 0, 1, 1, 1);

    b = qn_mul_number(qn_ones(c, qn_shape_of(2, 3), F32), 2); /* a write that the kernel makes */
    GOOD(c, qn_add_number_(qn_view_as(b, qn_shape_of(6)), 1));
    GOOD(c, qn_index_add_(b, 0, qn_from_data(c, (int64_t[]){1}, qn_shape_of(1), QN_DTYPE_I64),
                          qn_ones(c, qn_shape_of(1, 3), F32), 1));
    EXPECT(b, 3, 3, 3, 4, 4, 4);

    qn_tensor *x = leaf(c, qn_shape_of(2, 3)), *y = qn_mul(x, x);
    GOOD(c, qn_mul_number_(qn_view_as(y, qn_shape_of(3, 2)), 2));
    GOOD(c, qn_mul_number_(qn_select(y, 0, 0), 3));
    back(c, y);
    EXPECT(qn_grad(x), 12, 48, 108, 64, 100, 144);
    EXPECT(y, 6, 24, 54, 32, 50, 72);
    context_end(c);
}

/* What is behind the end has no elements, and no place. */
static void of_nothing_behind_the_end(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_ones(c, qn_shape_of(4, 64), F32), *v = qn_slice(qn_slice(x, 0, 4, 4, 1), 1, 2, 4, 1);
    OK(c, qn_eval(x));
    SHAPE(v, 0, 2);
    GOOD(c, qn_add_number_(v, 1));
    OK(c, qn_eval(x));
    GOOD(c, qn_exp_(v));
    GOOD(c, qn_zero_(v));
    assert_true(qn_item(qn_sum(x, QN_ALL, false)) == 256);

    x = qn_zeros(c, qn_shape_of(2, 0, 100), F32);
    GOOD(c, qn_add_number_(qn_select(x, 0, 1), 1));
    OK(c, qn_eval(x));

    x = qn_ones(c, qn_shape_of(4, 64), F32); /* that has no memory yet */
    GOOD(c, qn_mul_number_(qn_slice(qn_slice(x, 0, 4, 4, 1), 1, 2, 4, 1), 2));
    GOOD(c, qn_add_(qn_slice(x, 0, 4, 4, 1), qn_slice(x, 0, 3, 3, 1)));
    assert_true(qn_item(qn_sum(x, QN_ALL, false)) == 256);
    context_end(c);
}

static void refused(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2, 3)), *y = qn_mul(x, x), *z = qn_mul(y, y);
    REFUSED(c, qn_mul_number_(qn_select(x, 0, 0), 2), "view of a leaf");
    GOOD(c, qn_mul_number_(qn_select(y, 0, 0), 2));
    assert_int_equal(qn_backward(qn_sum(z, QN_ALL, false)), QN_STATUS_state); /* z needs y as it was */
    assert_non_null(strstr(qn_context_error(c)->text, "changed in place"));
    qn_context_clear(c);
    REFUSED(c, qn_mul_(qn_select(qn_detach(y), 0, 0), x = leaf(c, qn_shape_of(3))), "cannot carry a gradient");
    const bool was = qn_set_grad_enabled(c, false);
    GOOD(c, qn_mul_number_(qn_select(x, 0, 0), 2)); /* nothing is noted now */
    qn_set_grad_enabled(c, was);
    EXPECT(x, 2, 2, 3);
    context_end(c);
}

/* Storages whose gradient keeps them end all the same, in a loop that allocates nothing. */
static void no_cycles(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(4, 4));
    qn_context_info before = {0}, after;
    for (int i = 0; i < 8; i++) {
        OK(c, qn_scope_begin(c));
        qn_tensor *y = qn_mul(x, x);
        GOOD(c, qn_neg_(qn_narrow(y, 1, 0, 2)));
        GOOD(c, qn_exp_(qn_select(y, 0, 1))); /* keeps its result: y's own storage */
        qn_tensor *s = qn_sum(y, QN_ALL, false);
        if (i % 2 == 0) OK(c, qn_backward(s));
        GOOD(c, qn_data(s));
        (void)qn_scope_end(c, NULL);
        qn_zero_grad(x);
        OK(c, qn_eval_all(c));
        qn_context_get_info(c, &after);
        if (i == 2) before = after;
    }
    assert_int_equal(after.n_storages, before.n_storages);
    assert_int_equal(after.n_tensors, before.n_tensors);
    assert_true(after.live_bytes == before.live_bytes);
    context_end(c);
}

/* ---- checkpoints ---- */

enum { LAYERS = 24, SIZE = 64, ROWS = 1536 };

typedef struct net {
    qn_tensor *w[LAYERS];
    int layer;
    double p; /* of dropout */
} net;
typedef struct layer {
    net *n;
    int i;
} layer;

static qn_tensor *forward(void *arg, qn_tensor *const *x, int n)
{
    const layer *l = arg;
    (void)n;
    qn_tensor *h = x[0];
    /* much that backward would keep */
    for (int k = 0; k < 4; k++) h = qn_tanh(qn_add(qn_matmul(h, l->n->w[l->i]), x[0]));
    return qn_dropout(h, l->n->p, l->n->p > 0);
}

/* Gradients of all layers; how many bytes were out at most. */
static uint64_t train_once(bool with_checkpoints, double p, float *grads, float *loss)
{
    qn_context *c = context_new();
    net n = {.p = p};
    layer layers[LAYERS];
    qn_manual_seed(c, 7);
    for (int i = 0; i < LAYERS; i++) {
        n.w[i] = qn_requires_grad_(qn_mul_number(qn_randn(c, qn_shape_of(SIZE, SIZE), F32), 0.1), true);
        layers[i] = (layer){&n, i};
    }
    qn_tensor *x = qn_randn(c, qn_shape_of(ROWS, SIZE), F32);
    OK(c, qn_eval_all(c));
    qn_metrics_reset();
    qn_metrics m;
    OK(c, qn_scope_begin(c));
    qn_tensor *h = qn_requires_grad_(qn_clone(x), true);
    for (int i = 0; i < LAYERS; i++)
        h = with_checkpoints ? qn_checkpoint(forward, &layers[i], &h, 1) : forward(&layers[i], &h, 1);
    qn_tensor *y = qn_keep(qn_mean(qn_square(h), QN_ALL, false));
    GOOD(c, y);
    OK(c, qn_backward(y));
    (void)qn_scope_end(c, NULL);
    *loss = (float)qn_item(y);
    qn_metrics_snapshot(&m);
    for (int i = 0; i < LAYERS; i++)
        OK(c, qn_to_host(qn_grad(n.w[i]), grads + i * SIZE * SIZE, SIZE * SIZE * sizeof *grads));
    const double next = qn_item(qn_rand(c, QN_SCALAR, QN_DTYPE_F64));
    *loss += (float)next; /* draws after it are not disturbed either */
    context_end(c);
    return m.peak_bytes;
}

static void checkpoints(void **state)
{
    (void)state;
    const size_t bytes = (size_t)LAYERS * SIZE * SIZE * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), loss_a, loss_b;
    for (int dropping = 0; dropping < 2; dropping++) {
        const uint64_t all = train_once(false, dropping * 0.2, a, &loss_a),
                       few = train_once(true, dropping * 0.2, b, &loss_b);
        printf("peak: %.1f MB kept, %.1f MB recomputed\n", (double)all / 1e6, (double)few / 1e6);
        assert_true(few * 2 < all);
        assert_true(loss_a == loss_b);
        assert_memory_equal(a, b, bytes);
    }
    free(a);
    free(b);
}

static qn_tensor *grows(void *arg, qn_tensor *const *x, int n)
{
    int *calls = arg;
    return n == 1 && ++*calls == 2 ? qn_cat((qn_tensor *[]){x[0], x[0]}, 2, 0) : qn_square(x[0]);
}

static qn_tensor *looks(void *arg, qn_tensor *const *x, int n)
{
    (void)arg, (void)n;
    return qn_mul_number(x[0], isnan(qn_item(qn_sum(x[0], QN_ALL, false))) ? 2 : 3);
}

static qn_tensor *inner(void *arg, qn_tensor *const *x, int n) { return qn_mul(qn_square(x[0]), n == 2 ? x[1] : arg); }

static qn_tensor *outer(void *arg, qn_tensor *const *x, int n)
{
    qn_tensor *y = qn_checkpoint(inner, arg, x, n);
    return qn_add(qn_checkpoint(inner, arg, &y, 1), x[0]);
}

static void checkpoints_at_the_edges(void **state)
{
    (void)state;
    qn_context *c = context_new();
    int calls = 0;
    qn_tensor *x = leaf(c, qn_shape_of(3)), *w = leaf(c, qn_shape_of(3)), *y = qn_checkpoint(grows, &calls, &x, 1);
    assert_int_equal(qn_backward(qn_sum(y, QN_ALL, false)), QN_STATUS_state);
    assert_non_null(strstr(qn_context_error(c)->text, "called again, F32 [6]"));
    assert_null(qn_grad(x));
    qn_context_clear(c);
    y = qn_checkpoint(looks, NULL, &x, 1);
    GOOD(c, y);
    assert_int_equal(qn_backward(qn_sum(y, QN_ALL, false)), QN_STATUS_state);
    qn_context_clear(c);
    EXPECT(y, 3, 6, 9);
    /* one within another, a parameter from outside: y = x^2 w, then y^2 w + x; two inputs */
    y = qn_checkpoint(outer, w, (qn_tensor *[]){x, w}, 2);
    back(c, y);
    EXPECT(y, 1 + 1, 128 + 2, 2187 + 3); /* x^4 w^3 + x */
    EXPECT(qn_grad(x), 1 * (4 + 1), 2 * (4 * 8 * 8 + 1), 3 * (4 * 27 * 27 + 1));
    EXPECT(qn_grad(w), 3, 2 * (16 * 3 * 4), 3 * (81 * 3 * 9));
    /* without gradients it is a call */
    const bool was = qn_set_grad_enabled(c, false);
    assert_false(qn_requires_grad(qn_checkpoint(inner, w, &x, 1)));
    qn_set_grad_enabled(c, was);
    context_end(c);
}

static qn_tensor *times(void *arg, qn_tensor *const *x, int n) { return n == 1 ? qn_mul(x[0], arg) : NULL; }

/* As in PyTorch's reentrant checkpoints: what the function leads to when it is called again has a gradient. */
static void checkpoints_of_what_is_unfrozen_later(void **state)
{
    (void)state;
    qn_context *c = context_new();
    int calls = 0;
    qn_tensor *x = leaf(c, qn_shape_of(3)), *w = qn_from_data(c, (float[]){4, 5, 6}, qn_shape_of(3), F32);
    qn_tensor *loss = qn_sum(qn_checkpoint(times, w, &x, 1), QN_ALL, false),
              *last = qn_sum(qn_checkpoint(times, w, (qn_tensor *[]){qn_checkpoint(grows, &calls, &x, 1)}, 1), QN_ALL,
                             false);
    GOOD(c, qn_requires_grad_(w, true));
    OK(c, qn_backward_with(loss, NULL, true));
    EXPECT(qn_grad(w), 1, 2, 3);
    EXPECT(qn_grad(x), 4, 5, 6);
    OK(c, qn_backward(loss)); /* adds to what is there */
    EXPECT(qn_grad(w), 2, 4, 6);
    EXPECT(qn_grad(x), 8, 10, 12);
    /* one that fails after it has come there leaves nothing behind */
    assert_int_equal(qn_backward(last), QN_STATUS_state);
    qn_context_clear(c);
    EXPECT(qn_grad(w), 2, 4, 6);
    OK(c, qn_backward(qn_sum(qn_mul(w, x), QN_ALL, false)));
    EXPECT(qn_grad(w), 3, 6, 9);
    EXPECT(qn_grad(x), 12, 15, 18);
    context_end(c);
}

/* ---- slices: one node, whatever the type of what is written to ---- */

static int occurrences(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word)) n++;
    return n;
}

static void slices(void **state)
{
    (void)state;
    qn_context *c = context_new();
    char *text = NULL;
    qn_tensor *half = qn_zeros(c, qn_shape_of(3, 32), QN_DTYPE_F16), *row = qn_full(c, qn_shape_of(1, 32), 1.5, F32),
              *packed = qn_quantize(qn_zeros(c, qn_shape_of(3, 64), F32), QN_DTYPE_Q8_0, NULL),
              *block = qn_full(c, qn_shape_of(3, 32), 127, F32);
    OK(c, qn_eval_all(c));
    void *at = qn_data(half), *packed_at = qn_data(packed);
    assert_ptr_equal(qn_slice_update_(half, 0, 1, row, false), half);
    assert_ptr_equal(qn_slice_update_(half, 0, 1, row, true), half);
    assert_ptr_equal(qn_slice_update_(packed, -1, 32, block, false), packed);
    OK(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_text, &text));
    assert_int_equal(occurrences(text, " slice_update("), 3);
    assert_int_equal(occurrences(text, "\n"), 1 + 3 + 4); /* beside them params alone */
    qn_free(text);
    OK(c, qn_eval(half));
    assert_ptr_equal(qn_data(half), at);
    assert_ptr_equal(qn_data(packed), packed_at);
    EXPECT(qn_sum(half, QN_DIMS(1), false), 0, 96, 0);
    EXPECT(qn_sum(qn_dequantize(packed), QN_DIMS(1), false), 127 * 32, 127 * 32, 127 * 32);
    EXPECT(qn_sum(qn_narrow(qn_dequantize(packed), 1, 0, 32), QN_DIMS(1), false), 0, 0, 0);
    REFUSED(c, qn_slice_update_(packed, 1, 16, block, false), "don't divide into blocks of 32");
    REFUSED(c, qn_slice_update_(packed, 0, 0, block, false), "slice_update: x is [3,32], [3,64] expected");
    REFUSED(c, qn_slice_update_(half, 0, 3, row, false), "slice_update: x [1,32] from 3 on leaves dimension 0");
    REFUSED(c, qn_slice_update_(half, 2, 0, row, false), "slice_update: dimension 2 of [3,32] does not exist");
    REFUSED(c, qn_slice_update_(qn_requires_grad_(block, true), 0, 0, block, false), "slice_update: a leaf");
    context_end(c);
}

/* As qn_narrow takes it, by one node or by several. */
static void slices_from_the_end(void **state)
{
    (void)state;
    qn_context *c = context_new();
    static const qn_dtype dtypes[] = {F32, QN_DTYPE_F16, QN_DTYPE_F64, QN_DTYPE_I64};
    for (int d = 0; d < 4; d++) {
        qn_tensor *t = qn_zeros(c, qn_shape_of(4), dtypes[d]), *one = qn_ones(c, qn_shape_of(1), F32);
        GOOD(c, qn_slice_update_(t, 0, -1, one, false));
        GOOD(c, qn_slice_update_(t, -1, -4, qn_mul_number(one, 2), false));
        GOOD(c, qn_slice_update_(t, 0, -1, qn_to(one, dtypes[d]), true));
        EXPECT(t, 2, 0, 0, 2);
        qn_context_clear(c);
        assert_null(qn_slice_update_(t, 0, -5, one, false));
        assert_null(qn_slice_update_(t, 0, -1, qn_ones(c, qn_shape_of(2), F32), false));
        qn_context_clear(c);
    }
    qn_tensor *packed = qn_quantize(qn_zeros(c, qn_shape_of(1, 64), F32), QN_DTYPE_Q8_0, NULL);
    GOOD(c, qn_slice_update_(packed, 1, -32, qn_full(c, qn_shape_of(1, 32), 127, F32), false));
    EXPECT(qn_sum(qn_reshape(qn_dequantize(packed), qn_shape_of(2, 32)), QN_DIMS(1), false), 0, 127 * 32);
    context_end(c);
}

/* Blocks whose value is still to be computed, and whole ones over others. */
static void slices_of_pending_blocks(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int rank = 1; rank <= 2; rank++) {
        const qn_shape shape = rank == 1 ? qn_shape_of(64) : qn_shape_of(3, 64),
                       half = rank == 1 ? qn_shape_of(32) : qn_shape_of(3, 32);
        qn_tensor *packed = qn_quantize(qn_full(c, shape, 254, F32), QN_DTYPE_Q8_0, NULL),
                  *block = qn_full(c, half, 127, F32);
        qn_context_info before, after;
        OK(c, qn_eval_all(c));
        qn_context_get_info(c, &before);
        OK(c, qn_scope_begin(c));
        qn_tensor *p = qn_clone(packed), *was = qn_clone(p);
        assert_ptr_equal(qn_slice_update_(p, -1, 32, block, false), p);
        REFUSED(c, qn_slice_update_(was, -1, 16, block, false), "don't divide into blocks of 32");
        const int64_t rows = qn_numel(p) / 64;
        assert_true(qn_item(qn_sum(qn_dequantize(p), QN_ALL, false)) == (double)(rows * 32 * (254 + 127)));
        assert_true(qn_item(qn_sum(qn_dequantize(was), QN_ALL, false)) == (double)(rows * 64 * 254));
        const void *at = qn_data(was);
        GOOD(c, qn_copy_(was, p));
        assert_ptr_equal(qn_data(was), at);
        assert_memory_equal(at, qn_data(p), (size_t)(rows * 2 * 34));
        (void)qn_scope_end(c, NULL);
        qn_context_get_info(c, &after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
    qn_tensor *rows = qn_quantize(qn_full(c, qn_shape_of(4, 64), 127, F32), QN_DTYPE_Q8_0, NULL), *one = qn_clone(rows);
    OK(c, qn_eval_all(c));
    GOOD(c, qn_copy_(qn_narrow(rows, 0, 1, 2), qn_quantize(qn_zeros(c, qn_shape_of(2, 64), F32), QN_DTYPE_Q8_0, NULL)));
    EXPECT(qn_sum(qn_dequantize(rows), QN_DIMS(1), false), 64 * 127, 0, 0, 64 * 127);
    REFUSED(c, qn_copy_(qn_narrow(rows, 1, 32, 32), qn_narrow(one, 1, 32, 32)),
            "assign: blocks of Q8_0 are moved in one piece");
    context_end(c);
}

/* What is written carries its gradient, and what is written over loses its own. */
static void slices_with_gradients(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_requires_grad_(qn_ones(c, qn_shape_of(3), F32), true),
              *y = qn_requires_grad_(qn_ones(c, qn_shape_of(1), F32), true);
    for (int add = 0; add < 2; add++) {
        qn_tensor *z = qn_mul_number(x, 2);
        GOOD(c, qn_slice_update_(z, 0, 1, qn_mul_number(y, 5), add));
        OK(c, qn_backward(qn_sum(qn_mul(z, qn_arange(c, 1, 4, 1, F32)), QN_ALL, false)));
        EXPECT(qn_grad(x), 2, add ? 4 : 0, 6);
        EXPECT(qn_grad(y), 10);
        qn_zero_grad(x);
        qn_zero_grad(y);
    }
    context_end(c);
}

/* What no finite number is has PyTorch's bits in 16-bit types. */
static void not_finite_in_16_bits(void **state)
{
    (void)state;
    static const struct {
        double value;
        uint16_t f16, bf16;
    } rows[] = {{NAN, 0x7e00, 0x7fc0}, {INFINITY, 0x7c00, 0x7f80}, {-INFINITY, 0xfc00, 0xff80}};
    qn_context *c = context_new();
    for (int i = 0; i < 3; i++) {
        qn_tensor *half = qn_full(c, qn_shape_of(2), rows[i].value, QN_DTYPE_F16),
                  *brain = qn_full(c, qn_shape_of(2), rows[i].value, QN_DTYPE_BF16);
        assert_int_equal(((const uint16_t *)qn_data(half))[1], rows[i].f16);
        assert_int_equal(((const uint16_t *)qn_data(brain))[1], rows[i].bf16);
    }
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_finite_in_16_bits),
        cmocka_unit_test(into_parts),
        cmocka_unit_test(seen_by_all),
        cmocka_unit_test(through_a_view_of_another_shape_first),
        cmocka_unit_test(of_nothing_behind_the_end),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_cycles),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(checkpoints_at_the_edges),
        cmocka_unit_test(checkpoints_of_what_is_unfrozen_later),
        cmocka_unit_test(slices),
        cmocka_unit_test(slices_from_the_end),
        cmocka_unit_test(slices_of_pending_blocks),
        cmocka_unit_test(slices_with_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
