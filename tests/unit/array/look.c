/* SPDX-License-Identifier: MIT */
/* tests/unit/array/look.c -- looking inside a tensor program: the callback sees every node with its true values and may
 * stop a run, of which nothing has then happened; times, printed graphs, plans and passes. */
#include "rig.h"

/* ---- the callback ---- */

typedef struct watcher {
    qn_context *c;
    const qn_node *node;
    int n_before, n_after, stop_at; /* the stop_at-th node, counted from 1, stops the run before (negative: after) it */
    char ops[512];
    float last[64]; /* values of the node computed last */
    int n_last;
} watcher;

static bool watch(void *arg, const qn_node *node, bool after)
{
    watcher *w = arg;
    if (!after) {
        assert_int_equal(w->n_before, w->n_after);
        w->n_before++;
        strcat(strcat(w->ops, qn_node_op_name(node)), " ");
        return w->stop_at != w->n_before;
    }
    w->n_after++;
    w->node = node;
    const qn_shape shape = qn_node_shape(node);
    w->n_last = (int)qn_shape_numel(&shape);
    assert_true(w->n_last <= 64);
    OK(w->c, qn_context_read_node(w->c, node, w->last, (uint64_t)w->n_last * sizeof(float)));
    return w->stop_at != -w->n_after;
}

static void every_node(void **state)
{
    (void)state;
    qn_context *c = context_new();
    watcher w = {.c = c};
    qn_tensor *a = f32(c, qn_shape_of(3), (float[]){1, -2, 3});
    qn_context_set_eval(c, watch, &w);
    qn_tensor *b = qn_exp(qn_relu(a));
    EXPECT(qn_to(b, QN_DTYPE_I64), 2, 1, 20);
    assert_string_equal(w.ops, "relu exp copy ");
    assert_int_equal(w.n_after, 3);
    assert_int_equal(w.n_last, 3); /* whole numbers can be read too */
    assert_true(w.last[0] == 2 && w.last[1] == 1 && w.last[2] == 20);
    w.ops[0] = '\0';
    EXPECT(qn_gt(a, b), 0, 0, 0);
    assert_true(w.last[0] == 0 && w.last[2] == 0);
    qn_context_set_eval(c, NULL, NULL);
    EXPECT(qn_neg(a), -1, 2, -3);
    assert_string_equal(w.ops, "gt ");
    float x[3];
    qn_context_clear(c);
    assert_int_equal(qn_context_read_node(c, w.node, x, sizeof x), QN_STATUS_state);
    assert_non_null(strstr(qn_context_error(c)->text, "inside the callback"));
    qn_context_clear(c);
    context_end(c);
}

static bool look_again(void *arg, const qn_node *node, bool after)
{
    (void)node, (void)after;
    qn_tensor *t = arg;
    assert_true(isnan(qn_item(t)));
    return true;
}

static void not_from_within(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_full(c, QN_SCALAR, 4, F32), *b = qn_sqrt(a);
    qn_context_set_eval(c, look_again, b);
    OK(c, qn_eval(b));
    assert_non_null(strstr(qn_context_error(c)->text, "inside the evaluation callback"));
    qn_context_clear(c);
    EXPECT(b, 2);
    context_end(c);
}

/* ---- stopping: wherever a run is stopped, memory and what is pending are as before ---- */

static void stopped_anywhere(void **state)
{
    (void)state;
    for (int at = -6; at <= 6; at++) {
        qn_context *c = context_new();
        watcher w = {.c = c, .stop_at = at};
        qn_tensor *a = f32(c, qn_shape_of(2, 2), (float[]){1, 2, 3, 4}), *row = qn_select(a, 0, 1);
        const float *memory = qn_data(a);
        qn_mul_number_(row, 10); /* two writes into memory, one through a view, and two new values */
        qn_tensor *sum = qn_sum(a, QN_ALL, false);
        qn_add_number_(a, 1);
        qn_tensor *twice = qn_mul_number(a, 2);
        qn_context_info before, after;
        qn_context_get_info(c, &before);
        qn_context_set_eval(c, watch, &w);
        const qn_status status = qn_eval(twice);
        qn_context_get_info(c, &after);
        if (status == QN_OK) { /* there are not so many nodes, or at is 0 */
            assert_true(at == 0 || (at < 0 ? -at : at) > w.n_after);
        } else {
            assert_int_equal(status, QN_STATUS_cancelled);
            assert_non_null(strstr(qn_context_error(c)->text, "stopped by a callback"));
            qn_context_clear(c);
            assert_memory_equal(memory, ((float[]){1, 2, 3, 4}), 16);
            assert_int_equal(after.n_pending, before.n_pending);
            assert_int_equal(after.n_runs, before.n_runs);
            assert_int_equal(after.live_bytes, before.live_bytes);
            w = (watcher){.c = c};
        }
        EXPECT(sum, 73);
        EXPECT(a, 2, 3, 31, 41);
        EXPECT(twice, 4, 6, 62, 82);
        assert_ptr_equal(qn_data(a), memory);
        context_end(c);
    }
}

/* A step of training stopped in the middle and looked at again gives the bits of one that was not. */
static void stopped_training(void **state)
{
    (void)state;
    float p_after[4][8];
    for (int stop = 0; stop < 4; stop++) {
        qn_context *c = context_new();
        watcher w = {.c = c, .stop_at = stop * 4};
        qn_tensor *x = qn_randn(c, qn_shape_of(4, 2), F32), *p = qn_full(c, qn_shape_of(4, 2), 0.5, F32),
                  *momentum = qn_ones(c, qn_shape_of(4, 2), F32);
        OK(c, qn_eval_all(c));
        qn_requires_grad_(p, true);
        OK(c, qn_backward(qn_sum(qn_square(qn_sub(qn_mul(p, x), x)), QN_ALL, false)));
        qn_set_grad_enabled(c, false);
        GOOD(c, qn_add_(qn_mul_number_(momentum, 0.9), qn_grad(p)));
        GOOD(c, qn_sub_(p, qn_mul_number(momentum, 0.1)));
        qn_context_set_eval(c, watch, &w);
        if (stop > 0) {
            assert_int_equal(qn_eval(p), QN_STATUS_cancelled);
            qn_context_clear(c);
            w = (watcher){.c = c};
        }
        OK(c, qn_to_host(p, p_after[stop], sizeof p_after[stop]));
        assert_true(p_after[0][0] != 0.5f);
        assert_memory_equal(p_after[0], p_after[stop], sizeof p_after[0]);
        context_end(c);
    }
}

/* ---- times, graphs, plans, passes ---- */

static int occurrences(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word)) n++;
    return n;
}

#define TEXT_OF(c, call) \
    do { \
        qn_free(text); \
        text = NULL; \
        OK(c, call); \
    } while (0)

/* silu(x) * x, of which nothing but the result is seen. */
static qn_tensor *gated(qn_context *c, qn_tensor *x)
{
    OK(c, qn_scope_begin(c));
    return qn_scope_end(c, qn_mul(qn_silu(x), x));
}

/* f of that, likewise. */
static qn_tensor *of_gated(qn_context *c, qn_tensor *(*f)(qn_tensor *), qn_tensor *x)
{
    OK(c, qn_scope_begin(c));
    return qn_scope_end(c, f(gated(c, x)));
}

static void printed(void **state)
{
    (void)state;
    qn_context *c = context_new();
    char *text = NULL;
    qn_context_info before, after;
    qn_pass_stats stats[QN_PASS_COUNT];
    qn_tensor *x = qn_ones(c, qn_shape_of(2, 3), F32);
    OK(c, qn_eval(x));
    qn_tensor *y = of_gated(c, qn_relu, x), *z = of_gated(c, qn_neg, x);
    qn_context_get_info(c, &before);
    /* two products that are one, and silu and mul that are swiglu */
    TEXT_OF(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_text, &text));
    assert_int_equal(occurrences(text, " swiglu("), 1);
    assert_int_equal(occurrences(text, " relu(") + occurrences(text, " neg("), 2);
    assert_int_equal(occurrences(text, " output\n"), 2);
    assert_non_null(strstr(text, qn_context_backend(c)));
    assert_null(strstr(text, " us\n"));
    TEXT_OF(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_dot, &text));
    assert_int_equal(strncmp(text, "digraph", 7), 0);
    TEXT_OF(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_svg, &text));
    assert_non_null(strstr(text, "</svg>"));
    TEXT_OF(c, qn_context_print_plan(c, QN_NEXT_RUN, &text));
    assert_non_null(strstr(text, "split 0: cpu"));
    TEXT_OF(c, qn_context_print_passes(c, QN_NEXT_RUN, &text));
    assert_int_equal(occurrences(text, "\n"), 1 + QN_PASS_COUNT);
    OK(c, qn_context_get_passes(c, QN_NEXT_RUN, stats));
    assert_true(stats[QN_PASS_cse].nodes_before - stats[QN_PASS_cse].nodes_after >= 2);
    assert_int_equal(stats[QN_PASS_fuse].changed, 1);
    qn_context_get_info(c, &after);
    assert_memory_equal(&before, &after, sizeof before); /* printing computes nothing */

    qn_context_set_timing(c, true);
    EXPECT(qn_sum(qn_add(y, z), QN_ALL, false), 0);
    TEXT_OF(c, qn_context_print_graph(c, QN_LAST_RUN, QN_GRAPH_text, &text));
    assert_int_equal(occurrences(text, " swiglu("), 1);
    assert_int_equal(occurrences(text, " us\n"), occurrences(text, "\n") - 1);
    TEXT_OF(c, qn_context_print_plan(c, QN_LAST_RUN, &text));
    assert_non_null(strstr(text, "swiglu"));
    TEXT_OF(c, qn_context_print_passes(c, QN_LAST_RUN, &text));
    assert_int_equal(occurrences(text, "+1 swiglu"), 1);
    qn_context_set_timing(c, false);
    EXPECT(qn_sum(qn_add(y, z), QN_ALL, false), 0);
    qn_context_get_info(c, &after);
    assert_true(after.activation_bytes > 0);
    TEXT_OF(c, qn_context_print_graph(c, QN_LAST_RUN, QN_GRAPH_text, &text));
    assert_null(strstr(text, " us\n"));
    qn_free(text);
    context_end(c);
}

static void nothing_ran(void **state)
{
    (void)state;
    qn_context *c = context_new();
    char *text = NULL;
    qn_pass_stats stats[QN_PASS_COUNT];
    for (int what = 0; what < 4; what++) {
        const qn_status status = what == 0   ? qn_context_print_graph(c, QN_LAST_RUN, QN_GRAPH_text, &text)
                                 : what == 1 ? qn_context_print_plan(c, QN_LAST_RUN, &text)
                                 : what == 2 ? qn_context_print_passes(c, QN_LAST_RUN, &text)
                                             : qn_context_get_passes(c, QN_LAST_RUN, stats);
        assert_int_equal(status, QN_STATUS_state);
        assert_null(text);
        qn_context_clear(c);
    }
    /* no context, no room */
    assert_int_equal(qn_context_print_graph(NULL, QN_NEXT_RUN, QN_GRAPH_text, &text), QN_STATUS_invalid);
    assert_int_equal(qn_context_print_plan(NULL, QN_NEXT_RUN, &text), QN_STATUS_invalid);
    assert_int_equal(qn_context_print_passes(c, QN_NEXT_RUN, NULL), QN_STATUS_invalid);
    assert_non_null(strstr(qn_context_error(c)->text, "context_print_passes: the result is NULL"));
    assert_int_equal(qn_context_get_passes(c, QN_NEXT_RUN, NULL), QN_STATUS_invalid);
    assert_int_equal(qn_context_read_node(NULL, NULL, NULL, 0), QN_STATUS_invalid);
    assert_int_equal(qn_context_read_node(c, NULL, NULL, 0), QN_STATUS_invalid);
    qn_context_set_eval(NULL, watch, NULL);
    qn_context_set_timing(NULL, true);
    assert_null(text);
    qn_context_clear(c);
    OK(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_text, &text)); /* nothing is pending */
    assert_non_null(strstr(text, ": 0 nodes"));
    qn_free(text);
    context_end(c);
}

/* The graph of the last run is never one that was thrown away. */
static void many_graphs(void **state)
{
    (void)state;
    qn_context *c = NULL;
    char *text = NULL, shape[32];
    assert_int_equal(qn_context_create(&(qn_context_options){.plan_cache = 2}, &c, NULL), QN_OK);
    qn_context_set_timing(c, true);
    for (int i = 0; i < 24; i++) {
        const int n = 1 + i * 5 % 7;
        qn_tensor *x = qn_full(c, qn_shape_of(n), 2, F32);
        assert_true(qn_item(qn_sum(qn_exp(x), QN_ALL, false)) > 7 * n);
        TEXT_OF(c, qn_context_print_graph(c, QN_LAST_RUN, QN_GRAPH_text, &text));
        snprintf(shape, sizeof shape, "F32 [%d]", n);
        assert_non_null(strstr(text, shape));
    }
    qn_free(text);
    context_end(c);
}

static void passes_off(void **state)
{
    (void)state;
    float bits[2 + QN_PASS_COUNT][6];
    qn_error err;
    qn_context *c = NULL;
    for (int off = 0; off < 2 + QN_PASS_COUNT; off++) {
        const uint32_t all = (1u << QN_PASS_COUNT) - 1, which = off < QN_PASS_COUNT ? 1u << off : off & 1 ? all : 0;
        assert_int_equal(qn_context_create(&(qn_context_options){.passes_off = which}, &c, &err), QN_OK);
        qn_pass_stats stats[QN_PASS_COUNT];
        qn_tensor *x = qn_randn(c, qn_shape_of(2, 3), F32),
                  *y = qn_add(of_gated(c, qn_relu, x), of_gated(c, qn_neg, x));
        OK(c, qn_to_host(y, bits[off], sizeof bits[off]));
        assert_memory_equal(bits[0], bits[off], sizeof bits[0]);
        OK(c, qn_context_get_passes(c, QN_LAST_RUN, stats));
        for (int i = 0; i < QN_PASS_COUNT; i++)
            if (which >> i & 1) assert_true(stats[i].changed == 0 && stats[i].nodes_before == stats[i].nodes_after);
        if (which == 0) assert_true(stats[QN_PASS_fuse].changed == 1 && stats[QN_PASS_cse].changed >= 2);
        context_end(c);
    }
    assert_int_equal(qn_context_create(&(qn_context_options){.passes_off = QN_PASS_BIT(COUNT)}, &c, &err),
                     QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "passes_off"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node),       cmocka_unit_test(not_from_within), cmocka_unit_test(stopped_anywhere),
        cmocka_unit_test(stopped_training), cmocka_unit_test(printed),         cmocka_unit_test(nothing_ran),
        cmocka_unit_test(many_graphs),      cmocka_unit_test(passes_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
