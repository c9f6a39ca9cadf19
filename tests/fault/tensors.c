/* SPDX-License-Identifier: MIT */
/* tests/fault/tensors.c -- programs with an allocation missing: an error, nothing leaked, and every tensor as it was.
 * One is a training step, the others use every group of functions. */
#include "failing.h"

#include <quern/autograd.h>
#include <quern/dlpack.h>
#include <quern/optim.h>
#include <quern/ops.h>

#include "array/array.h"
#include "array/io/dlpack.h"

typedef struct net {
    qn_context *ctx;
    qn_tensor *x, *w, *b;
} net;

static qn_status build(net *n, qn_error *err)
{
    *n = (net){0};
    qn_status status = qn_context_create(&(qn_context_options){.n_threads = 1}, &n->ctx, err);
    if (status != QN_OK) return status;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    n->x = qn_keep(qn_from_data(n->ctx, x, qn_shape_of(2, 3), QN_DTYPE_F32));
    n->w = qn_keep(qn_requires_grad_(qn_full(n->ctx, qn_shape_of(4, 3), 0.5, QN_DTYPE_F32), true));
    n->b = qn_keep(qn_requires_grad_(qn_zeros(n->ctx, qn_shape_of(4), QN_DTYPE_F32), true));
    if (n->x && n->w && n->b) return QN_OK;
    *err = *qn_context_error(n->ctx);
    return err->status;
}

/* Values of w before the step are w0; the step either happens or does not. */
static qn_status step(net *n, qn_error *err)
{
    qn_context *c = n->ctx;
    qn_context_clear(c);
    qn_status status = qn_scope_begin(c);
    if (status == QN_OK) {
        qn_tensor *y = qn_linear(n->x, n->w, n->b),
                  *z = qn_scaled_dot_product_attention(y, y, y, &(qn_sdpa_options){.is_causal = true});
        qn_tensor *two =
            qn_mul(y,
                   qn_scaled_dot_product_attention(z, y, y, &(qn_sdpa_options){.is_causal = true, .dropout_p = 0.25}));
        qn_tensor *flat = qn_reshape(two, qn_shape_of(1, 8)), *ones = qn_full(c, qn_shape_of(1, 8), 1, QN_DTYPE_F32);
        qn_tensor *loss = qn_linear(flat, ones, NULL);
        status = qn_backward(loss);
        const bool was = qn_set_grad_enabled(c, false);
        if (status == QN_OK && !qn_add_(n->w, qn_mul_number(qn_grad(n->w), 0.0))) status = QN_STATUS_nomem;
        qn_set_grad_enabled(c, was);
        if (status == QN_OK) status = qn_eval(n->w);
        if (status == QN_OK && qn_data(n->w) == NULL) status = QN_STATUS_nomem;
        (void)qn_scope_end(c, NULL);
        qn_zero_grad(n->w);
        qn_zero_grad(n->b);
    }
    if (status != QN_OK) {
        *err = *qn_context_error(c);
        return err->status != QN_OK ? err->status : QN_STATUS_internal;
    }
    return QN_OK;
}

static qn_status whole_life(void *ctx, qn_error *err)
{
    net n;
    (void)ctx;
    qn_status status = build(&n, err);
    if (status == QN_OK) status = step(&n, err);
    qn_context_destroy(n.ctx);
    return status;
}

static void life(void **state)
{
    (void)state;
    fault_sweep("a context and a step", whole_life, NULL, NULL);
}

/* In a context that lives on: after each failure weights are what they were, and a step works. */
static void survivors(void **state)
{
    (void)state;
    for (int all_after = 0; all_after < 2; all_after++) {
        for (long at = 0;; at++) {
            net n;
            qn_error err = {0};
            assert_int_equal(build(&n, &err), QN_OK);
            hook_arm(at, all_after);
            const qn_status status = step(&n, &err);
            const bool through = hook.n <= at;
            hook_arm(-1, false);
            if (status != QN_OK && (status != QN_STATUS_nomem || err.text[0] == '\0'))
                fail_msg("allocation %ld: %s \"%s\"", at, qn_status_name(status), err.text);
            double w[12];
            qn_context_clear(n.ctx);
            assert_int_equal(qn_to_doubles(n.w, w, 12), QN_OK);
            for (int i = 0; i < 12; i++) assert_true(w[i] == 0.5);
            if (step(&n, &err) != QN_OK) fail_msg("allocation %ld, the step after: %s", at, err.text);
            assert_null(qn_grad(n.w));
            qn_context_destroy(n.ctx);
            if (through) break;
        }
    }
}

/* ---- a program for each group of functions; sources are a [4,6], b [6], i [3] of I64, w [4,6] that requires a
 * gradient ---- */

typedef struct things {
    qn_context *c;
    qn_tensor *a, *b, *i, *w;
} things;

typedef qn_tensor *(*group_fn)(const things *t);

static qn_tensor *g_pointwise(const things *t)
{
    qn_tensor *x = qn_where(qn_gt(t->a, t->b), qn_exp(qn_neg(t->a)), qn_add_number(t->b, 0.5)),
              *out = qn_empty(t->c, qn_shape_of(4, 6), QN_DTYPE_F32);
    qn_tensor *y = qn_clamp(qn_gelu(x, false), -1, 1), *z = qn_add_out(out, y, qn_masked_fill(x, qn_isnan(x), 0));
    return qn_mul_number_(qn_lerp_number(z, qn_to(qn_to(x, QN_DTYPE_F16), QN_DTYPE_F32), 0.3), 2);
}

static qn_tensor *g_reductions(const things *t)
{
    qn_tensor *at = NULL, *most = qn_max(t->a, 1, true, &at), *order = NULL, *sorted = qn_sort(t->a, 0, true, &order);
    qn_tensor *s = qn_add(qn_var(t->a, QN_DIMS(0), 1, true), qn_norm(t->a, 2, QN_DIMS(0), true)),
              *m = qn_mul(qn_softmax(t->a, 0), qn_cumsum(t->a, 1));
    return qn_add(qn_add(most, sorted), qn_add(s, qn_add(m, qn_topk(t->a, 1, 1, true, NULL))));
}

static qn_tensor *g_products(const things *t)
{
    qn_tensor *p = qn_matmul(t->a, qn_transpose(t->a, 0, 1)), *q = qn_addmm(p, t->a, qn_transpose(t->w, 0, 1), 0.5, 2);
    return qn_add(qn_linear(q, p, NULL), qn_bmm(qn_unsqueeze(p, 0), qn_unsqueeze(q, 0)));
}

static qn_tensor *g_indexing(const things *t)
{
    qn_tensor *rows = qn_index_select(t->a, 0, t->i), *e = qn_embedding(t->w, t->i),
              *picked = qn_index(t->a, (qn_tensor *[]){t->i, t->i}, 2);
    qn_tensor *put = qn_index_put(t->a, (qn_tensor *[]){t->i}, 1, t->b, true),
              *bag = qn_embedding_bag(t->w, qn_unsqueeze(t->i, 1), NULL);
    qn_tensor *s = qn_scatter_add(t->a, 0, qn_expand(qn_unsqueeze(t->i, 1), qn_shape_of(3, 6)), rows);
    return qn_add(qn_add(qn_sum(qn_add(rows, qn_add(e, bag)), QN_ALL, false), qn_sum(picked, QN_ALL, false)),
                  qn_add(put, s));
}

static qn_tensor *g_joining(const things *t)
{
    qn_tensor *room[5] = {t->w}, **parts = room + 1; /* nothing but its own parts is given back by a split that fails */
    const int n = qn_split(t->a, 2, 1, parts, 4);
    qn_tensor *c = n > 0 ? qn_cat(parts, n, 0) : NULL, *s = qn_stack((qn_tensor *[]){t->a, t->w}, 2, 0),
              *r = qn_roll(qn_flip(t->a, QN_DIMS(0)), 1, 1);
    qn_tensor *p = qn_pad(qn_tril(t->a, 0), (int64_t[]){1, 1}, 2, "reflect", 0);
    return qn_add(qn_add(qn_sum(c, QN_ALL, false), qn_sum(s, QN_ALL, false)),
                  qn_add(qn_sum(p, QN_ALL, false), qn_repeat(r, qn_shape_of(2, 1))));
}

static qn_tensor *g_windows(const things *t)
{
    qn_tensor *x = qn_view_as(qn_contiguous(t->a), qn_shape_of(1, 2, 3, 4)),
              *k = qn_view_as(qn_contiguous(t->w), qn_shape_of(2, 2, 2, 3));
    qn_tensor *y = qn_conv2d(x, k, NULL, &(qn_conv_options){.padding = {1, 1}}),
              *p = qn_max_pool2d(y, &(qn_pool_options){.kernel = {2, 2}});
    return qn_interpolate(qn_adaptive_avg_pool(p, qn_shape_of(2, 2)), qn_shape_of(3, 3), "bilinear", true);
}

static qn_tensor *g_random(const things *t)
{
    qn_tensor *n = qn_dropout(qn_randn(t->c, qn_shape_of(4, 6), QN_DTYPE_F32), 0.3, true),
              *p = qn_to(qn_randperm(t->c, 6), QN_DTYPE_F32);
    return qn_add(qn_add(n, p), qn_bernoulli(qn_uniform(t->c, qn_shape_of(6), 0, 1, QN_DTYPE_F32)));
}

/* Both sources are converted; the second conversion may fail alone. */
static qn_tensor *g_conversions(const things *t)
{
    return qn_add(qn_to(qn_sum(qn_mul(qn_to(t->a, QN_DTYPE_F16), qn_to(t->b, QN_DTYPE_BF16)), QN_ALL, false),
                        QN_DTYPE_F64),
                  qn_to(t->i, QN_DTYPE_I32));
}

static qn_tensor *g_creation(const things *t)
{
    qn_tensor *e = qn_eye(t->c, 4, 6, QN_DTYPE_F32), *l = qn_linspace(t->c, 0, 1, 6, QN_DTYPE_F32),
              *s = qn_full_like(e, 3);
    char *text = qn_to_string(t->a);
    qn_free(text);
    return text == NULL ? NULL : qn_add(qn_add(e, l), qn_add(s, qn_arange(t->c, 0, 6, 1, QN_DTYPE_F32)));
}

static qn_tensor *g_outside(const things *t)
{
    const char *path = QN_BUILD_DIR "/t_fault_tensors.npy";
    struct DLManagedTensorVersioned *m = qn_to_dlpack_versioned(t->a);
    qn_tensor *shared = m != NULL ? qn_from_dlpack_versioned(t->c, m) : NULL;
    if (m != NULL && shared == NULL) m->deleter(m);
    if (shared == NULL || qn_save_npy(qn_transpose(shared, 0, 1), path) != QN_OK) return NULL;
    return qn_add(qn_transpose(qn_load_npy(t->c, path), 0, 1), qn_to_context(shared, t->c));
}

static qn_tensor *g_gradients(const things *t)
{
    qn_tensor *h = qn_softmax(qn_matmul(t->w, qn_transpose(t->a, 0, 1)), 1), *e = qn_embedding(t->w, t->i);
    qn_tensor *loss = qn_add(qn_sum(qn_mul(h, h), QN_ALL, false), qn_mean(qn_silu(qn_mul(e, t->b)), QN_ALL, false));
    if (loss == NULL || qn_backward(loss) != QN_OK) return NULL;
    return qn_add(qn_grad(t->w), qn_detach(loss));
}

static qn_tensor *g_out(const things *t)
{
    qn_tensor *square = qn_zeros(t->c, qn_shape_of(4, 4), QN_DTYPE_F32),
              *most = qn_zeros(t->c, qn_shape_of(4), QN_DTYPE_F32), *at = qn_zeros(t->c, qn_shape_of(4), QN_DTYPE_I64),
              *all = qn_zeros(t->c, qn_shape_of(8, 4), QN_DTYPE_F32);
    qn_tensor *y = qn_softmax_out(square, qn_matmul_out(square, t->a, qn_transpose(t->w, 0, 1)), 1);
    qn_tensor *m = qn_max_out(most, at, y, 0, false);
    return qn_add(qn_cat_out(all, (qn_tensor *[]){y, y}, 2, 0), m);
}

static bool go_on(void *arg, const qn_node *node, bool after)
{
    (void)node, (void)after;
    ++*(int *)arg;
    return true;
}

static qn_tensor *g_looking(const things *t)
{
    int n = 0;
    char *text[5] = {NULL};
    qn_tensor *y = qn_clone(t->a);
    bool good = y != NULL && qn_eval(y) == QN_OK;
    qn_context_set_eval(t->c, go_on, &n);
    qn_context_set_timing(t->c, true);
    good = good && qn_add_(qn_mul_number_(y, 3), t->b) != NULL &&
           qn_context_print_graph(t->c, QN_NEXT_RUN, QN_GRAPH_svg, &text[0]) == QN_OK &&
           qn_context_print_plan(t->c, QN_NEXT_RUN, &text[1]) == QN_OK &&
           qn_context_print_passes(t->c, QN_NEXT_RUN, &text[2]) == QN_OK && qn_eval(y) == QN_OK && n >= 4 &&
           qn_context_print_graph(t->c, QN_LAST_RUN, QN_GRAPH_text, &text[3]) == QN_OK &&
           qn_context_print_plan(t->c, QN_LAST_RUN, &text[4]) == QN_OK;
    qn_context_set_eval(t->c, NULL, NULL);
    qn_context_set_timing(t->c, false);
    for (int i = 0; i < 5; i++) qn_free(text[i]);
    return good ? y : NULL;
}

static const struct {
    const char *name;
    group_fn fn;
} groups[] = {
    {"pointwise", g_pointwise},
    {"reductions", g_reductions},
    {"products", g_products},
    {"indexing", g_indexing},
    {"joining", g_joining},
    {"conversions", g_conversions},
    {"windows", g_windows},
    {"random", g_random},
    {"creation", g_creation},
    {"outside", g_outside},
    {"gradients", g_gradients},
    {"looking", g_looking},
    {"out", g_out},
};

static float source_at(int seed, int k) { return (float)((k * 7 + seed * 5) % 11) / 4 - 1; }

static bool things_make(things *t)
{
    float v[24];
    *t = (things){0};
    if (qn_context_create(&(qn_context_options){.n_threads = 1}, &t->c, NULL) != QN_OK) return false;
    for (int s = 0; s < 3; s++) {
        for (int k = 0; k < 24; k++) v[k] = source_at(s, k);
        qn_tensor **to = s == 0 ? &t->a : s == 1 ? &t->b : &t->w;
        *to = qn_keep(qn_from_data(t->c, v, s == 1 ? qn_shape_of(6) : qn_shape_of(4, 6), QN_DTYPE_F32));
    }
    t->i = qn_keep(qn_from_data(t->c, (int64_t[]){2, 0, 3}, qn_shape_of(3), QN_DTYPE_I64));
    return t->a && t->b && t->i && qn_requires_grad_(t->w, true) != NULL;
}

/* Computed to the end, or an error. */
static qn_status run_group(const things *t, group_fn fn, double *sum)
{
    if (qn_scope_begin(t->c) != QN_OK) return qn_context_error(t->c)->status;
    qn_tensor *y = fn(t), *flat = y != NULL ? qn_sum(qn_detach(y), QN_ALL, false) : NULL;
    qn_status status = flat != NULL ? qn_to_doubles(flat, sum, 1) : qn_context_error(t->c)->status;
    if (status == QN_OK) status = qn_context_error(t->c)->status; /* nothing on the way failed in silence */
    (void)qn_scope_end(t->c, NULL);
    qn_zero_grad(t->w);
    return status;
}

static void check_source(const qn_tensor *x, int seed, const char *what, long at)
{
    double v[24];
    const int n = (int)qn_numel(x);
    assert_int_equal(qn_to_doubles((qn_tensor *)(uintptr_t)x, v, n), QN_OK);
    for (int k = 0; k < n; k++) {
        if (v[k] != (double)source_at(seed, k)) fail_msg("%s, allocation %ld: a source has changed", what, at);
    }
}

static void every_group(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        double want = 0;
        long n_failed = 0;
        for (int all_after = 0; all_after < 2; all_after++) {
            for (long at = -1;; at++) { /* -1: without failure, for the value */
                things t;
                double sum = 0;
                const long before = hook.live;
                assert_true(things_make(&t));
                hook_arm(at, all_after);
                const qn_status status = run_group(&t, groups[g].fn, &sum);
                const bool through = at >= 0 && hook.n <= at;
                hook_arm(-1, false);
                const qn_error *err = qn_context_error(t.c);
                if (at < 0 || through) {
                    if (status != QN_OK) fail_msg("%s: %s", groups[g].name, err->text);
                    if (at < 0) want = sum;
                }
                if (status == QN_OK && sum != want)
                    fail_msg("%s, allocation %ld: %.17g, %.17g expected", groups[g].name, at, sum, want);
                if (status != QN_OK && (status != QN_STATUS_nomem || err->text[0] == '\0'))
                    fail_msg("%s, allocation %ld: %s, \"%s\"", groups[g].name, at, qn_status_name(status), err->text);
                n_failed += status != QN_OK;
                qn_context_clear(t.c);
                check_source(t.a, 0, groups[g].name, at);
                check_source(t.b, 1, groups[g].name, at);
                check_source(qn_detach(t.w), 2, groups[g].name, at);
                qn_manual_seed(t.c, 0);
                if (run_group(&t, groups[g].fn, &sum) != QN_OK || sum != want)
                    fail_msg("%s after allocation %ld: %.17g, %.17g expected: %s", groups[g].name, at, sum, want,
                             qn_context_error(t.c)->text);
                qn_context_destroy(t.c);
                if (hook.live != before)
                    fail_msg("%s, allocation %ld: %ld blocks leaked", groups[g].name, at, (long)hook.live - before);
                if (through) break;
            }
        }
        if (n_failed < 4) fail_msg("%s: only %ld failures", groups[g].name, n_failed);
    }
    unlink(QN_BUILD_DIR "/t_fault_tensors.npy");
}

/* Packed, read as a table, multiplied with, and gone back through. */
static qn_status packed_life(void *arg, qn_error *err)
{
    qn_context *c = NULL;
    (void)arg;
    qn_status status = qn_context_create(&(qn_context_options){.n_threads = 1}, &c, err);
    if (status != QN_OK) return status;
    qn_tensor *half = qn_ones(c, qn_shape_of(3, 32), QN_DTYPE_F16),
              *q = qn_quantize(half, QN_DTYPE_Q4_0, qn_ones(c, qn_shape_of(32), QN_DTYPE_F32));
    qn_tensor *x = qn_requires_grad_(qn_embedding(q, qn_zeros(c, qn_shape_of(2), QN_DTYPE_I64)), true),
              *y = qn_linear(x, q, NULL);
    status = y ? qn_backward_with(y, qn_ones(c, qn_shape_of(2, 3), QN_DTYPE_F32), false) : QN_STATUS_nomem;
    double dx[64];
    if (status == QN_OK) status = qn_to_doubles(qn_grad(x), dx, 64);
    if (status == QN_OK && dx[63] != 3) fail_msg("the gradient is %g", dx[63]);
    char *text = status == QN_OK ? qn_to_string(q) : NULL;
    if (status == QN_OK && !text) status = QN_STATUS_nomem;
    qn_free(text);
    if (status != QN_OK) { /* the first failure; those after it follow from a NULL */
        *err = *qn_context_error(c);
        status = err->status;
    }
    qn_context_destroy(c);
    return status;
}

static void packed(void **state)
{
    (void)state;
    fault_sweep("block formats", packed_life, NULL, NULL);
}

/* ---- an optimizer, a write into a part, a checkpoint ---- */

static qn_tensor *square_of(void *arg, qn_tensor *const *x, int n)
{
    (void)arg, (void)n;
    return qn_square(x[0]);
}

static qn_status gradients_of(net *n, qn_error *err)
{
    qn_context *c = n->ctx;
    qn_status status = qn_scope_begin(c);
    if (status == QN_OK) {
        qn_tensor *y = qn_linear(n->x, n->w, n->b), *z = qn_checkpoint(square_of, NULL, &y, 1);
        if (z != NULL) (void)qn_mul_number_(qn_select(z, 0, 0), 2);
        qn_tensor *loss = qn_mean(z, QN_ALL, false);
        status = loss != NULL ? qn_backward(loss) : QN_STATUS_nomem;
        (void)qn_scope_end(c, NULL);
    }
    if (status == QN_OK) return QN_OK;
    *err = *qn_context_error(c);
    return err->status != QN_OK ? err->status : QN_STATUS_internal;
}

/* A step happens for all parameters or for none. */
static qn_status optimizer_life(void *ctx, qn_error *err)
{
    net n;
    qn_optimizer *o = NULL;
    double w[12], b[4];
    (void)ctx;
    qn_status status = build(&n, err);
    if (status == QN_OK)
        status = qn_adamw_create(&(qn_adam_options){.lr = 0.125}, (qn_tensor *[]){n.w, n.b}, 2, &o, err);
    if (status == QN_OK) status = gradients_of(&n, err);
    if (status == QN_OK && (qn_optimizer_clip(o, 1) == NULL || qn_optimizer_step(o) != QN_OK)) {
        *err = *qn_context_error(n.ctx);
        status = err->status;
    }
    if (status == QN_OK && (qn_to_doubles(n.w, w, 12) != QN_OK || qn_to_doubles(n.b, b, 4) != QN_OK)) {
        *err = *qn_context_error(n.ctx);
        status = err->status;
    }
    if (status == QN_OK) assert_true(w[0] < 0.5 && b[0] < 0);
    qn_optimizer_destroy(o);
    qn_context_destroy(n.ctx);
    return status;
}

static void optimizers(void **state)
{
    (void)state;
    fault_sweep("an optimizer and a step", optimizer_life, NULL, NULL);
}

/* Gradients are computed, so the step runs when it is called: one that fails has not happened, and the next one is the
 * first. */
static void steps_that_run(void **state)
{
    (void)state;
    double want[16];
    for (long at = -1;; at++) {
        net n;
        qn_error err = {0};
        qn_optimizer *o = NULL;
        double have[16];
        assert_int_equal(build(&n, &err), QN_OK);
        assert_int_equal(qn_adamw_create(&(qn_adam_options){.lr = 0.125}, (qn_tensor *[]){n.w, n.b}, 2, &o, &err),
                         QN_OK);
        assert_int_equal(gradients_of(&n, &err), QN_OK);
        assert_true(qn_item(qn_optimizer_clip(o, 1)) > 0);
        hook_arm(at, false);
        const qn_status status = qn_optimizer_step(o);
        const bool through = at >= 0 && hook.n <= at;
        hook_arm(-1, false);
        if (status != QN_OK) {
            assert_int_equal(status, QN_STATUS_nomem);
            assert_int_equal(qn_optimizer_n_steps(o), 0);
            qn_context_clear(n.ctx);
            assert_int_equal(qn_to_doubles(n.w, have, 12), QN_OK);
            for (int i = 0; i < 12; i++) assert_true(have[i] == 0.5);
            assert_int_equal(qn_optimizer_step(o), QN_OK);
        }
        assert_int_equal(qn_optimizer_n_steps(o), 1);
        assert_int_equal(qn_to_doubles(n.w, have, 12), QN_OK);
        assert_int_equal(qn_to_doubles(n.b, have + 12, 4), QN_OK);
        if (at < 0) memcpy(want, have, sizeof want);
        assert_memory_equal(want, have, sizeof want);
        qn_optimizer_destroy(o);
        qn_context_destroy(n.ctx);
        if (through) break;
    }
    assert_true(want[0] < 0.5 && want[12] < 0);
}

/* A second backward adds to gradients that nobody has looked at yet and makes others: one that fails leaves every
 * parameter's as it was. */
static void added_or_not(void **state)
{
    const bool only_w = *state != NULL; /* which of the two has a gradient before */
    for (long at = 0;; at++) {
        net n;
        qn_error err = {0};
        double w[12], b[4];
        assert_int_equal(build(&n, &err), QN_OK);
        qn_tensor *first = qn_sum(only_w ? n.w : n.b, QN_ALL, false),
                  *second = qn_sum(qn_linear(n.x, n.w, n.b), QN_ALL, false);
        assert_int_equal(qn_backward(first), QN_OK);
        hook_arm(0, true);
        while (qn__arena_alloc(&n.ctx->objects, 16)) {} /* the next new gradient needs memory */
        n.ctx->objects.failed = false;
        hook_arm(at, false);
        const qn_status status = qn_backward(second);
        const bool through = hook.n <= at;
        hook_arm(-1, false);
        if (status != QN_OK) {
            assert_int_equal(status, QN_STATUS_nomem);
            assert_null(qn_grad(only_w ? n.b : n.w));
        }
        qn_context_clear(n.ctx);
        if (status == QN_OK || only_w) {
            assert_int_equal(qn_to_doubles(qn_grad(n.w), w, 12), QN_OK);
            for (int i = 0; i < 12; i++) assert_true(w[i] == (status == QN_OK ? 5 + 2 * (i % 3) : 0) + only_w);
        }
        if (status == QN_OK || !only_w) {
            assert_int_equal(qn_to_doubles(qn_grad(n.b), b, 4), QN_OK);
            for (int i = 0; i < 4; i++) assert_true(b[i] == (status == QN_OK ? 2 : 0) + !only_w);
        }
        qn_context_destroy(n.ctx);
        if (!through) continue;
        assert_int_equal(status, QN_OK);
        break;
    }
}

/* A call that needed several conversions and could not make the last gives back those before it. Room is what lies
 * free in the arena of handles. */
static void conversions_given_back(void **state)
{
    (void)state;
    int n_failed = 0;
    for (size_t room = 0; room < 1024; room += 64)
        for (long at = 0;; at++) {
            net n;
            qn_error err = {0};
            qn_context_info before, after;
            assert_int_equal(build(&n, &err), QN_OK);
            qn_tensor *a = qn_ones(n.ctx, qn_shape_of(2), QN_DTYPE_I32),
                      *b = qn_ones(n.ctx, qn_shape_of(2), QN_DTYPE_I64);
            assert_true(a && b);
            qn_arena_mark marks[64]; /* of the last kilobyte */
            size_t n_marks = 0;
            hook_arm(0, true);
            do marks[n_marks++ % 64] = qn__arena_get_mark(&n.ctx->objects);
            while (qn__arena_alloc(&n.ctx->objects, 16));
            n.ctx->objects.failed = false;
            if (room > 0) qn__arena_reset(&n.ctx->objects, marks[(n_marks - 1 - room / 16) % 64]);
            qn_context_get_info(n.ctx, &before);
            hook_arm(at, false);
            qn_tensor *y = qn_div(a, b);
            const bool through = hook.n <= at;
            hook_arm(-1, false);
            qn_context_get_info(n.ctx, &after);
            assert_int_equal(after.n_tensors, before.n_tensors + (y != NULL));
            n_failed += y == NULL;
            qn_context_destroy(n.ctx);
            if (through) break;
        }
    assert_true(n_failed > 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(life),
                                       cmocka_unit_test(survivors),
                                       cmocka_unit_test(every_group),
                                       cmocka_unit_test(packed),
                                       cmocka_unit_test(conversions_given_back),
                                       cmocka_unit_test(optimizers),
                                       cmocka_unit_test(steps_that_run),
                                       cmocka_unit_test(added_or_not),
                                       cmocka_unit_test_prestate(added_or_not, "w")};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
