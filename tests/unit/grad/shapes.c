/* SPDX-License-Identifier: MIT */
/* tests/unit/grad/shapes.c -- gradients as graphs: of the shape and dtype of what they are gradients of, only where
 * wanted, and sound by the verifier. Their numbers are looked at in tests/unit/array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "grad/grad.h"

static qn_graph *g;

static qn_node *in(qn_shape shape, qn_dtype dtype) { return qn__input(g, "x", dtype, &shape); }

/* The gradients of node y to those of its sources that `wanted` names. */
static qn_grad_task gradients(qn_node *y, uint32_t wanted)
{
    const qn_grad_row *row = qn__grad_row(y->op);
    assert_non_null(row->fn);
    qn_grad_task t = {
        .g = g, .op = y->op, .attrs = y->attrs, .n_src = y->n_src, .y_shape = qn_layout_shape(&y->layout)};
    uint32_t keeps = 0;
    t.dy = in(t.y_shape, y->dtype);
    for (int i = 0; i < y->n_src; i++) {
        t.wanted[i] = wanted >> i & 1;
        if (t.wanted[i]) keeps |= row->keeps[i < 2 ? i : 2];
    }
    for (int i = 0; i < y->n_src; i++) {
        t.shape[i] = qn_layout_shape(&y->src[i]->layout);
        t.dtype[i] = y->src[i]->dtype;
        if (keeps >> i & 1) t.src[i] = y->src[i];
    }
    if (keeps & QN_KEEP_y) t.y = y;
    row->fn(&t);
    qn_error err = {0};
    if (qn__graph_finish(g, &err) != QN_OK || qn__graph_verify(g, &err) != QN_OK)
        fail_msg("%s: %s", qn_node_op_name(y), err.text);
    for (int i = 0; i < y->n_src; i++) {
        if (!t.wanted[i]) {
            assert_null(t.dx[i]);
            continue;
        }
        assert_non_null(t.dx[i]);
        const qn_shape have = qn_layout_shape(&t.dx[i]->layout);
        assert_true(qn_shape_equal(&have, &t.shape[i]));
        assert_int_equal(t.dx[i]->dtype, t.dtype[i]);
    }
    return t;
}

static int begin(void **state)
{
    (void)state;
    return qn__graph_create(&g, NULL);
}

static int end(void **state)
{
    (void)state;
    qn__graph_destroy(g);
    return 0;
}

static void broadcast_sources(void **state)
{
    (void)state;
    for (uint32_t wanted = 0; wanted < 4; wanted++) {
        gradients(qn__add(g, in(qn_shape_of(2, 1, 4), QN_DTYPE_F32), in(qn_shape_of(3, 1), QN_DTYPE_F32)), wanted);
        gradients(qn__mul(g, in((qn_shape){0}, QN_DTYPE_F32), in(qn_shape_of(3, 5), QN_DTYPE_F32)), wanted);
    }
}

static void products(void **state)
{
    (void)state;
    for (uint32_t wanted = 0; wanted < 8; wanted++) {
        qn_node *y = qn__linear(g, in(qn_shape_of(2, 3, 8), QN_DTYPE_F32), in(qn_shape_of(5, 8), QN_DTYPE_F32),
                                in(qn_shape_of(5), QN_DTYPE_F32));
        gradients(y, wanted);
    }
    qn_node *packed = qn__linear(g, in(qn_shape_of(3, 32), QN_DTYPE_F32), in(qn_shape_of(5, 32), QN_DTYPE_Q8_0), NULL);
    gradients(packed, 1); /* a packed weight takes no gradient, but lets one through */
}

static void views_and_copies(void **state)
{
    (void)state;
    qn_node *x = in(qn_shape_of(4, 6), QN_DTYPE_F32);
    gradients(qn__permute(g, x, (int[]){1, 0}, 2), 1);
    gradients(qn__narrow(g, x, 1, 2, 3), 1);
    gradients(qn__reshape(g, x, qn_shape_of(3, 8)), 1);
    gradients(qn__copy(g, x, QN_DTYPE_F16), 1);
    gradients(qn__scale(g, x, 2.0f, 1.0f), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broadcast_sources, begin, end),
        cmocka_unit_test_setup_teardown(products, begin, end),
        cmocka_unit_test_setup_teardown(views_and_copies, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
