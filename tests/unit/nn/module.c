/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/module.c -- modules as trees: names, ownership, errors, modes, first values. */
#include "rig.h"

#include <quern/gguf.h>
#include <quern/optim.h>

/* clang-format off */
#define LIVE(c) ({ qn_context_info info_; qn_context_get_info((c), &info_); info_.n_tensors; })
/* clang-format on */

static qn_module *small(qn_context *c)
{
    return qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 2, 8, true), qn_nn_tanh(c), qn_nn_linear(c, 8, 1, false)));
}

typedef struct paths {
    char text[2048];
} paths;

static bool note_tensor(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    paths *p = arg;
    char shape[128];
    const qn_shape s = qn_shape_get(t);
    snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%s%s%s ", path,
             kind == QN_NAMED_buffer ? "!" : "", qn_shape_print(&s, shape, sizeof shape));
    return true;
}

static bool note_module(void *arg, const char *path, qn_module *m)
{
    paths *p = arg;
    snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%s=%s ", path, qn_module_type_of(m)->name);
    return true;
}

static bool count_module(void *arg, const char *path, qn_module *m)
{
    (void)path;
    (void)m;
    return ++*(int *)arg != 1500;
}

/* Every module once, however many there are, until the function says stop. */
static void many_modules(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *children[1000];
    for (int i = 0; i < 1000; i++) children[i] = qn_nn_tanh(c);
    qn_module *m = qn_nn_sequential(c, children, 1000);
    GOOD(c, m);
    int n = 0;
    OK(c, qn_module_each_module(m, count_module, &n));
    assert_int_equal(n, 1001);
    n = 1000;
    OK(c, qn_module_each_module(m, count_module, &n));
    assert_int_equal(n, 1500);
    qn_module_destroy(m);
    context_end(c);
}

static void trees(void **state)
{
    (void)state;
    qn_context *c = context_new();
    const int64_t before = LIVE(c);
    qn_module *m = small(c);
    GOOD(c, m);
    qn_module_add_buffer(m, "seen", qn_zeros(c, QN_SCALAR, QN_DTYPE_I64));
    paths p = {0};
    OK(c, qn_module_each_tensor(m, note_tensor, &p));
    assert_string_equal(p.text, "seen![] 0.weight[8,2] 0.bias[8] 2.weight[1,8] ");
    p = (paths){0};
    OK(c, qn_module_each_module(m, note_module, &p));
    assert_string_equal(p.text, "=Sequential 0=Linear 1=Tanh 2=Linear ");
    assert_int_equal(qn_module_n_elements(m, false), 16 + 8 + 8);
    assert_ptr_equal(qn_module_find(m, "2"), qn_module_child(m, 2));
    assert_ptr_equal(qn_module_find(m, ""), m);
    assert_null(qn_module_find(m, "2."));
    assert_null(qn_module_find(m, "3"));
    assert_null(qn_module_find(m, ".2"));
    assert_null(qn_module_tensor(m, "2"));
    assert_null(qn_module_tensor(m, "2.weights"));
    SHAPE(qn_module_tensor(m, "2.weight"), 1, 8);
    char *text = qn_module_to_string(m);
    assert_string_equal(
        text, "Sequential(\n  (0): Linear(in=2, out=8)\n  (1): Tanh()\n  (2): Linear(in=8, out=1, bias=false)\n)");
    qn_free(text);
    qn_tensor *all[3];
    assert_int_equal(qn_module_parameters(m, all, 3), 3);
    assert_ptr_equal(all[2], qn_module_tensor(m, "2.weight"));
    assert_true(qn_requires_grad(all[0]) && qn_is_leaf(all[0]));

    qn_tensor *x = numbers(c, qn_shape_of(5, 2), 1), *y = qn_module_forward(m, x);
    SHAPE(y, 5, 1);
    OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
    EXPECT(qn_sum(qn_mul_number(qn_grad(all[2]), 0), QN_ALL, false), 0);
    qn_module_zero_grad(m);
    assert_null(qn_grad(all[2]));
    OK(c, qn_module_requires_grad_(qn_module_child(m, 0), false));
    assert_int_equal(qn_module_n_elements(m, true), 8);
    assert_false(qn_requires_grad(all[0]));
    qn_module_train(m, false);
    assert_false(qn_module_is_training(qn_module_child(m, 1)));
    qn_module_destroy(m);
    qn_context_clear(c);
    qn_release(x);
    qn_release(y);
    (void)before;
    context_end(c);
}

/* Everything that a module held is gone with it. */
static void ends(void **state)
{
    (void)state;
    qn_context *c = context_new();
    OK(c, qn_scope_begin(c));
    qn_module *m = small(c), *part = qn_module_retain(qn_module_child(m, 0));
    (void)qn_scope_end(c, NULL);
    OK(c, qn_scope_begin(c));
    qn_module_destroy(m);
    assert_int_equal(LIVE(c), 2); /* of the part that is still held */
    qn_tensor *y = qn_module_forward(part, qn_ones(c, qn_shape_of(2), F32));
    SHAPE(y, 8);
    (void)qn_scope_end(c, NULL);
    qn_module_destroy(part);
    assert_int_equal(LIVE(c), 0);
    qn_module_destroy(NULL);
    context_end(c);
}

static void tied(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *a = qn_nn_linear(c, 3, 3, false), *b = qn_nn_linear(c, 3, 3, false);
    qn_module *m = qn_nn_sequential(c, QN_MODULES(a, b));
    OK(c, qn_module_set_tensor(m, "1.weight", qn_module_tensor(m, "0.weight")));
    assert_ptr_equal(qn_module_tensor(m, "1.weight"), qn_module_tensor(m, "0.weight"));
    assert_int_equal(qn_module_n_elements(m, false), 9);
    paths p = {0};
    OK(c, qn_module_each_tensor(m, note_tensor, &p));
    assert_string_equal(p.text, "0.weight[3,3] ");
    OK(c, qn_module_to(m, QN_DTYPE_F64));
    assert_int_equal(qn_dtype_of(qn_module_tensor(m, "1.weight")), QN_DTYPE_F64);
    assert_ptr_equal(qn_module_tensor(m, "1.weight"), qn_module_tensor(m, "0.weight"));
    /* x w w: the gradient of the one weight has both parts */
    GOOD(c, qn_init_eye_(qn_module_tensor(m, "0.weight")));
    OK(c, qn_backward(qn_sum(qn_module_forward(m, qn_ones(c, qn_shape_of(1, 3), QN_DTYPE_F64)), QN_ALL, false)));
    EXPECT(qn_grad(qn_module_tensor(m, "0.weight")), 2, 2, 2, 2, 2, 2, 2, 2, 2);
    qn_module_destroy(m);
    context_end(c);
}

static void modes(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *m = small(c);
    qn_tensor *w = qn_module_tensor(m, "0.weight"), *was = qn_clone(qn_detach(w)),
              *x = qn_ones(c, qn_shape_of(1, 2), F32);
    OK(c, qn_module_requires_grad_(qn_module_child(m, 2), false));
    OK(c, qn_module_to(m, QN_DTYPE_BF16));
    assert_ptr_equal(qn_module_tensor(m, "0.weight"), w);
    assert_true(qn_requires_grad(w) && qn_dtype_of(w) == QN_DTYPE_BF16);
    assert_false(qn_requires_grad(qn_module_tensor(m, "2.weight")));
    assert_true(same_values(w, qn_to(was, QN_DTYPE_BF16)));
    OK(c, qn_module_to(m, F32));
    GOOD(c, qn_module_forward(m, x));
    qn_context_clear(c);
    assert_int_equal(qn_module_to(m, QN_DTYPE_I32), QN_STATUS_invalid);
    assert_non_null(strstr(qn_context_error(c)->text, "not to I32"));
    qn_context_clear(c);

    qn_module *d = qn_nn_dropout(c, 0.5);
    qn_tensor *ones = qn_ones(c, qn_shape_of(1000), F32);
    const double kept = qn_item(qn_sum(qn_ne_number(qn_module_forward(d, ones), 0), QN_ALL, false));
    assert_true(kept > 420 && kept < 580);
    qn_module_train(d, false);
    assert_true(same_values(qn_module_forward(d, ones), ones));
    qn_module_destroy(d);
    qn_module_destroy(m);
    context_end(c);
}

static qn_tensor *two_forward(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    qn_tensor *h = qn_mul(x[0], qn_module_tensor(m, "gain"));
    return x[1] != NULL ? qn_add(h, x[1]) : h;
}
static int n_destroyed;
static void two_destroy(qn_module *m) { n_destroyed += *(int *)qn_module_state(m); }
static const qn_module_type two = {.name = "Two",
                                   .forward = two_forward,
                                   .destroy = two_destroy,
                                   .state_bytes = sizeof(int),
                                   .min_inputs = 1,
                                   .max_inputs = 2};
static qn_tensor *nothing_forward(qn_module *m, qn_tensor *const *x, int n) { return (void)m, (void)x, (void)n, NULL; }
static const qn_module_type nothing = {.name = "Nothing", .forward = nothing_forward};
static qn_tensor *pass_forward(qn_module *m, qn_tensor *const *x, int n) { return (void)m, (void)n, x[0]; }
static const qn_module_type pass = {.name = "Pass", .forward = pass_forward};

static void own_types(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *m = qn_module_create(c, &two);
    GOOD(c, m);
    *(int *)qn_module_state(m) = 7;
    GOOD(c, qn_module_add_parameter(m, "gain", qn_full(c, qn_shape_of(2), 3, F32)));
    m = qn_module_ready(m);
    GOOD(c, m);
    qn_tensor *x = qn_ones(c, qn_shape_of(2), F32), *y = qn_full(c, qn_shape_of(2), 0.5, F32);
    EXPECT(qn_module_forward(m, x), 3, 3) /* the second input is optional */;
    EXPECT(qn_module_forward_n(m, (qn_tensor *[]){x, y}, 2), 3.5, 3.5);
    assert_null(qn_module_forward_n(m, (qn_tensor *[]){NULL, y}, 2));
    assert_int_equal(qn_context_error(c)->status, QN_OK); /* NULL is passed on: who made it has told */
    REFUSED(c, qn_module_forward_n(m, (qn_tensor *[]){x, y, y}, 3), "module Two: 3 inputs, 1 to 2 expected");
    REFUSED(c, qn_module_forward(m, qn_ones(c, qn_shape_of(3), F32)), "module Two: mul: ");

    /* what passes an input on gives a handle of its own */
    qn_module *through = qn_module_create(c, &pass);
    qn_tensor *same = qn_module_forward(through, x);
    GOOD(c, same);
    assert_ptr_not_equal(same, x);
    qn_release(same);
    EXPECT(x, 1, 1);
    qn_module_destroy(through);

    /* the path of the innermost module is named, once */
    qn_module *deep =
        qn_nn_sequential(c,
                         QN_MODULES(qn_nn_identity(c),
                                    qn_nn_sequential(c, QN_MODULES(qn_module_retain(m), qn_nn_linear(c, 5, 1, true)))));
    REFUSED(c, qn_module_forward(deep, x), "module 1.1 Linear: linear: ");
    qn_module_destroy(deep);
    deep = qn_nn_sequential(c, QN_MODULES(qn_module_create(c, &nothing), qn_nn_relu(c)));
    REFUSED(c, qn_module_forward(deep, x), "module 0 Nothing: forward gave neither");
    qn_module_destroy(deep);
    assert_int_equal(n_destroyed, 0);
    qn_module_destroy(m);
    assert_int_equal(n_destroyed, 7);
    context_end(c);
}

static void refusals(void **state)
{
    (void)state;
    qn_context *c = context_new(), *other = context_new();
    qn_module *m = qn_module_create(c, &two);
    REFUSED(c, qn_module_add_parameter(m, "a.b", qn_ones(c, qn_shape_of(1), F32)),
            "parameter \"a.b\": the name has a dot");
    REFUSED(c, qn_module_add_parameter(m, "", qn_ones(c, qn_shape_of(1), F32)), "the name is empty");
    REFUSED(c, qn_module_add_parameter(m, "i", qn_ones(c, qn_shape_of(1), QN_DTYPE_I32)),
            "the parameter \"i\" is I32, a real dtype");
    REFUSED(c, qn_module_add_parameter(m, "o", qn_ones(other, qn_shape_of(1), F32)), "belongs to another context");
    GOOD(c, qn_module_add_parameter(m, "gain", qn_ones(c, qn_shape_of(1), F32)));
    REFUSED(c, qn_module_add_buffer(m, "gain", qn_ones(c, qn_shape_of(1), F32)), "there is a tensor of that name");
    REFUSED(c, qn_module_add_module(m, "gain", qn_nn_relu(c)), "there is a tensor of that name");
    REFUSED(c, qn_module_add_module(m, "me", qn_module_retain(m)), "holds the module that it is added to");
    REFUSED(c, qn_module_add_module(m, "x", qn_nn_relu(other)), "belongs to another context");
    qn_tensor *leaf = qn_requires_grad_(qn_ones(c, qn_shape_of(1), F32), true);
    REFUSED(c, qn_module_add_parameter(m, "made", qn_add(leaf, leaf)), "computed from a leaf");
    REFUSED(c, qn_module_forward(m, leaf), "something could not be added");
    assert_null(qn_module_ready(m));
    assert_int_equal(qn_context_error(c)->status, QN_OK);
    REFUSED(c, qn_nn_sequential(c, QN_MODULES(qn_nn_relu(c), qn_nn_linear(c, 0, 3, true))), "Linear: size 0 is 0");
    REFUSED(c, qn_nn_embedding(c, 3, 2, 3), "padding index 3 of 3 rows");
    REFUSED(c, qn_nn_conv2d(c, 3, 4, 2, 2, true, &(qn_conv_options){.groups = 2}), "do not divide into 2 groups");
    REFUSED(c, qn_nn_dropout(c, 1.5), "p is 1.5");
    REFUSED(c, qn_nn_dropout(c, -0.5), "p is -0.5");
    m = qn_nn_module_list(c, QN_MODULES(qn_nn_relu(c)));
    REFUSED(c, qn_module_forward(m, leaf), "a list computes nothing");
    assert_int_equal(qn_module_set_tensor(m, "0.weight", leaf), QN_STATUS_invalid);
    assert_non_null(strstr(qn_context_error(c)->text, "there is no tensor \"0.weight\""));
    qn_context_clear(c);
    qn_module_destroy(m);
    context_end(other);
    context_end(c);
}

static void padding(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *m = qn_nn_embedding(c, 4, 2, 1);
    qn_tensor *w = qn_module_tensor(m, "weight");
    EXPECT(qn_select(qn_detach(w), 0, 1), 0, 0);
    qn_tensor *at = qn_from_data(c, (int64_t[]){0, 1, 3, 3}, qn_shape_of(2, 2), QN_DTYPE_I64),
              *y = qn_module_forward(m, at);
    SHAPE(y, 2, 2, 2);
    OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
    EXPECT(qn_grad(w), 1, 1, 0, 0, 0, 0, 2, 2);
    qn_module_destroy(m);
    context_end(c);
}

/* ---- first values ---- */

static void moments(qn_tensor *t, double *mean, double *deviation, double *least, double *most)
{
    const int64_t n = qn_numel(t);
    double *x = malloc((size_t)n * sizeof *x), sum = 0, square = 0;
    assert_int_equal(qn_to_doubles(t, x, n), QN_OK);
    *least = *most = x[0];
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        square += x[i] * x[i];
        *least = fmin(*least, x[i]);
        *most = fmax(*most, x[i]);
    }
    *mean = sum / (double)n;
    *deviation = sqrt(square / (double)n - *mean * *mean);
    free(x);
}

/* Uniform within +-bound, and filling it. */
static void expect_uniform(qn_tensor *t, double bound)
{
    double mean, deviation, least, most;
    assert_non_null(t);
    moments(t, &mean, &deviation, &least, &most);
    assert_true(least >= -bound && most <= bound && least < -0.98 * bound && most > 0.98 * bound);
    assert_true(fabs(mean) < 0.05 * bound && fabs(deviation - bound / sqrt(3)) < 0.03 * bound);
}

static void expect_normal(qn_tensor *t, double want)
{
    double mean, deviation, least, most;
    assert_non_null(t);
    moments(t, &mean, &deviation, &least, &most);
    assert_true(fabs(mean) < 0.05 * want && fabs(deviation - want) < 0.04 * want && most > 2.5 * want &&
                least < -2.5 * want);
}

static void first_values(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *t = qn_requires_grad_(qn_zeros(c, qn_shape_of(60, 10, 5), F32), true); /* fan in 50, out 300 */
    expect_uniform(qn_init_uniform_(t, -3, 3), 3);
    expect_normal(qn_init_normal_(t, 0, 2), 2);
    expect_uniform(qn_init_xavier_uniform_(t, 0), sqrt(6.0 / 350));
    expect_normal(qn_init_xavier_normal_(t, 5.0 / 3), 5.0 / 3 * sqrt(2.0 / 350));
    expect_uniform(qn_init_kaiming_uniform_(t, sqrt(5), false, NULL), 1 / sqrt(50));
    expect_uniform(qn_init_kaiming_uniform_(t, 0, true, "relu"), sqrt(6.0 / 300));
    expect_normal(qn_init_kaiming_normal_(t, 0.5, false, "leaky_relu"), sqrt(2 / 1.25 / 50));
    expect_normal(qn_init_kaiming_normal_(t, 0, false, "selu"), 0.75 / sqrt(50));
    assert_true(qn_requires_grad(t) && qn_is_leaf(t));
    qn_module *m = qn_nn_conv1d(c, 8, 64, 5, true, &(qn_conv_options){.groups = 2});
    expect_uniform(qn_module_tensor(m, "weight"), 1 / sqrt(20));
    qn_module_destroy(m);
    m = qn_nn_linear(c, 50, 2000, true);
    expect_uniform(qn_module_tensor(m, "bias"), 1 / sqrt(50));
    qn_module_destroy(m);
    m = qn_nn_embedding(c, 300, 20, -1);
    expect_normal(qn_module_tensor(m, "weight"), 1);
    qn_module_destroy(m);

    double mean, deviation, least, most;
    GOOD(c, qn_init_trunc_normal_(t, 0, 1, -2, 2));
    moments(t, &mean, &deviation, &least, &most);
    /* the deviation of a normal cut at 2 is 0.8796 */
    assert_true(least >= -2 && most <= 2 && most > 1.9 && least < -1.9 && fabs(mean) < 0.07 &&
                fabs(deviation - 0.8796) < 0.03);
    GOOD(c, qn_init_trunc_normal_(t, 1, 0.5, 2, 100)); /* the upper tail: mean 1 + 0.5 * phi(2) / (1 - Phi(2)) */
    moments(t, &mean, &deviation, &least, &most);
    assert_true(least >= 2 && fabs(mean - (1 + 0.5 * 2.3732)) < 0.03);

    EXPECT(qn_init_ones_(qn_zeros(c, qn_shape_of(3), F32)), 1, 1, 1);
    EXPECT(qn_init_eye_(qn_ones(c, qn_shape_of(2, 3), F32)), 1, 0, 0, 0, 1, 0);
    EXPECT(qn_init_constant_(qn_ones(c, qn_shape_of(2), F32), 2.5), 2.5, 2.5);
    const qn_shape shapes[] = {qn_shape_of(7, 12), qn_shape_of(12, 7), qn_shape_of(5, 5), qn_shape_of(3, 2, 2)};
    for (int i = 0; i < 4; i++) {
        qn_tensor *q = qn_init_orthogonal_(qn_zeros(c, shapes[i], QN_DTYPE_F64), 2);
        GOOD(c, q);
        q = qn_flatten(q, 1, -1);
        const int64_t rows = qn_dim(q, 0), columns = qn_dim(q, 1), n = rows < columns ? rows : columns;
        qn_tensor *other = qn_transpose(q, 0, 1), *square = rows <= columns ? qn_matmul(q, other) : qn_matmul(other, q);
        qn_tensor *off = qn_sub(square, qn_mul_number(qn_eye(c, n, n, QN_DTYPE_F64), 4));
        assert_true(qn_item(qn_amax(qn_abs(off), QN_ALL, false)) < 1e-14);
    }
    REFUSED(c, qn_init_xavier_uniform_(qn_ones(c, qn_shape_of(3), F32), 0),
            "init_xavier_uniform: [3], at least 2 dimensions");
    REFUSED(c, qn_init_kaiming_uniform_(t, 0, false, "mish"), "nonlinearity \"mish\" is not known");
    REFUSED(c, qn_init_normal_(qn_ones(c, qn_shape_of(3), QN_DTYPE_I32), 0, 1), "a tensor of I32");
    REFUSED(c, qn_init_trunc_normal_(t, 0, 1, 2, 2), "deviation 1, from 2 to 2");
    REFUSED(c, qn_init_eye_(t), "3 dimensions, 2 expected");
    double gain;
    assert_true(qn_init_gain("tanh", 0, &gain) && gain == 5.0 / 3);
    assert_false(qn_init_gain("?", 0, &gain));
    context_end(c);
}

/* A context may go first: what it leaves behind says so, and ends. */
static void a_context_that_went_first(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *net = qn_nn_linear(c, 2, 2, true);
    qn_optimizer *o = NULL;
    qn_tensor *params[2], *x = qn_ones(c, qn_shape_of(1, 2), F32);
    assert_int_equal(qn_module_parameters(net, params, 2), 2);
    OK(c, qn_sgd_create(NULL, params, 2, &o, NULL));
    qn_kv_cache *kv =
        qn_kv_cache_create(c, &(qn_kv_options){.n_layers = 1, .batch = 1, .heads = 1, .capacity = 4, .head_dim = 2});
    assert_non_null(kv);
    OK(c, qn_backward(qn_sum(qn_module_forward(net, x), QN_ALL, false)));
    qn_context_destroy(c); /* the three hold it: it can still be asked */
    qn_context_clear(c);
    assert_null(qn_module_forward(net, x));
    assert_non_null(strstr(qn_context_error(c)->text, "this tensor is over"));
    qn_context_clear(c);
    assert_null(qn_zeros(c, qn_shape_of(2), F32));
    assert_string_equal(qn_context_error(c)->text, "this context was destroyed");
    qn_context_clear(c);
    assert_null(qn_nn_linear(c, 2, 2, true));
    assert_true(qn_optimizer_step(o) != QN_OK);
    qn_context_destroy(c); /* once more: nothing */
    qn_optimizer_destroy(o);
    qn_kv_cache_destroy(kv);
    qn_module_destroy(net);
}

static qn_tensor *times(void *arg, qn_tensor *x) { return qn_mul_number(x, *(double *)arg); }

/* Both containers grow; a function is a module like any other. */
static void growing(void **state)
{
    (void)state;
    qn_context *c = context_new();
    double factor = 3;
    qn_module *s = qn_nn_sequential(c, NULL, 0), *l = qn_nn_module_list(c, NULL, 0);
    GOOD(c, s);
    GOOD(c, l);
    qn_module *f = qn_module_append(s, qn_nn_function(c, "times", times, &factor));
    GOOD(c, f);
    GOOD(c, qn_module_append(s, qn_nn_relu(c)));
    assert_int_equal(qn_module_n_children(s), 2);
    assert_ptr_equal(qn_module_child(s, 0), f);
    assert_ptr_equal(qn_module_find(s, "0"), f);
    assert_string_equal(qn_module_type_of(f)->name, "Function");
    qn_tensor *x = f32(c, qn_shape_of(2), (const float[]){1, -2});
    EXPECT(qn_module_forward(s, x), 3, 0);
    factor = -1;
    EXPECT(qn_module_forward(s, x), 0, 2);
    assert_int_equal(qn_module_n_children(l), 0);
    assert_null(qn_module_child(l, 0));
    GOOD(c, qn_module_append(l, qn_nn_linear(c, 2, 1, false)));
    assert_int_equal(qn_module_n_children(l), 1);
    assert_non_null(qn_module_tensor(l, "0.weight"));
    assert_null(qn_module_forward(l, x)); /* no forward of its own */
    qn_context_clear(c);
    qn_module_destroy(s);
    qn_module_destroy(l);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(ends),
        cmocka_unit_test(tied),
        cmocka_unit_test(modes),
        cmocka_unit_test(own_types),
        cmocka_unit_test(refusals),
        cmocka_unit_test(padding),
        cmocka_unit_test(first_values),
        cmocka_unit_test(many_modules),
        cmocka_unit_test(growing),
        cmocka_unit_test(a_context_that_went_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
