/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/verify.c -- what the verifier refuses: graphs damaged by hand, and reads of what an update has
 * changed. */
#include "common.h"

static qn_node *x, *y, *z; /* of the graph that small() made */

static qn_graph *small(void)
{
    qn_graph *g = graph_new();
    x = qn__input(g, "x", F32, SHAPE(4, 3));
    y = qn__name(g, qn__silu(g, x), "y");
    z = qn__add(g, y, qn__reshape(g, x, qn_shape_of(4, 3)));
    OK(qn__graph_verify(g, err));
    return g;
}

static void test_structure(void **state)
{
    (void)state;
    qn_graph *g = small();
    z->id = 9;
    verify_fails(g, "node 3 of the list has the id 9");
    g = small(), g->nodes[1] = z, g->nodes[3] = y, z->id = 1, y->id = 3;
    verify_fails(g, "%1 add comes before its source 0, %3 silu \"y\"");
    g = small(), z->src[0] = z;
    verify_fails(g, "%3 add comes before its source 0, %3 add");
    g = small(), z->n_src = 3, z->src[2] = x;
    verify_fails(g, "%3 add has 3 sources, 2 to 2 expected");
    g = small(), z->src[1] = NULL;
    verify_fails(g, "%3 add: source 1 is missing");
    g = small(), y->src[1] = x;
    verify_fails(g, "%1 silu \"y\" has something past its 1 sources");
    g = small(), z->op = (qn_op)9999;
    verify_fails(g, "%3 has op 9999, which does not exist");
    g = small(), z->attrs = NULL;
    verify_fails(g, "%3 lacks attributes or a name");
    g = small(), z->name = NULL;
    verify_fails(g, "%3 lacks attributes or a name");
    g = small(), y->flags |= QN_NODE_dead;
    verify_fails(g, "%3 add: source 0, %1 silu \"y\", was removed");
    g = small();
    qn_node stranger = *x;
    y->src[0] = &stranger;
    verify_fails(g, "%1 silu \"y\": source 0 is not in the graph");
}

static void test_memory_and_rules(void **state)
{
    (void)state;
    qn_graph *g = small();
    z->root = y;
    verify_fails(g, "%3 add lies in the wrong memory");
    g = small(), g->nodes[2]->root = y;
    verify_fails(g, "%2 view lies in the wrong memory");
    g = small(), y->flags |= QN_NODE_const;
    verify_fails(g, "%1 silu \"y\" is no param, but mutable or const");
    g = small(), y->dtype = QN_DTYPE_F16;
    verify_fails(g, "%1 silu \"y\" is F16 [4,3], its op gives F32 [4,3]");
    g = small(), y->layout.dim[0] = 5;
    verify_fails(g, "%1 silu \"y\" is F32 [5,3], its op gives F32 [4,3]");
    g = small(), x->layout.offset = 1;
    verify_fails(g, "%0 input \"x\" is F32 [4,3], its op gives F32 [4,3]");
    g = small(), y->op = QN_OP_rms_norm, y->attrs = &(qn_norm_attrs){-2};
    verify_fails(g, "%1 rms_norm \"y\": rms_norm: eps is -2, 0 or more expected");
    g = graph_new();
    qn_node *p = qn__param(g, "p", F32, SHAPE(3), NULL, 0, QN_NODE_mutable);
    p->flags |= QN_NODE_const;
    verify_fails(g, "%0 param \"p\" is mutable and const");
    g = graph_new();
    qn__param(g, "p", F32, SHAPE(3), NULL, 0, 0)->flags |= QN_NODE_const;
    verify_fails(g, "%0 param \"p\" is const without its bytes");
}

/* p [8,3] mutable; value [4,3]; rows */
static qn_node *p, *value, *rows;
static qn_graph *resident(void)
{
    qn_graph *g = graph_new();
    p = qn__param(g, "p", F32, SHAPE(8, 3), NULL, 0, QN_NODE_mutable);
    value = qn__input(g, "value", F32, SHAPE(4, 3));
    rows = qn__input(g, "rows", I32, SHAPE(4));
    return g;
}

static void test_reads_through_updates(void **state)
{
    (void)state;
    qn_graph *g = resident(); /* before, and after through the result, and through views of it */
    qn_node *before = qn__get_rows(g, p, rows);
    qn_node *u = qn__set_rows(g, p, value, rows);
    qn__add(g, before, qn__get_rows(g, qn__reshape(g, u, qn_shape_of(8, 3)), rows));
    u = qn__slice_update(g, u, value, 0, 2, true);
    qn__output(g, qn__silu(g, qn__permute(g, qn__narrow(g, u, 1, 0, 2), (int[]){1, 0}, 2)));
    qn__output(g, u);
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);

    g = resident();
    qn__set_rows(g, p, value, rows);
    qn__silu(g, p);
    verify_fails(
        g, "%4 silu reads %0 param \"p\" as it was before %3 set_rows; read the update's result, or read earlier");

    g = resident(); /* a view made before, read after */
    qn_node *view = qn__narrow(g, p, 0, 1, 2);
    qn__set_rows(g, p, value, rows);
    qn__silu(g, view);
    verify_fails(
        g, "%5 silu reads %0 param \"p\" as it was before %4 set_rows; read the update's result, or read earlier");

    g = resident(); /* an update over another's result is the latest */
    qn_node *first = qn__set_rows(g, p, value, rows);
    qn__set_rows(g, first, value, rows);
    qn__silu(g, first);
    verify_fails(
        g, "%5 silu reads %0 param \"p\" as it was before %4 set_rows; read the update's result, or read earlier");

    g = resident(); /* two updates of the same version: the second would lose the order */
    qn__set_rows(g, p, value, rows);
    qn__set_rows(g, p, value, rows);
    verify_fails(
        g, "%4 set_rows reads %0 param \"p\" as it was before %3 set_rows; read the update's result, or read earlier");

    g = resident(); /* downloaded after the run */
    qn__output(g, p);
    qn__set_rows(g, p, value, rows);
    verify_fails(g, "output %0 param \"p\" is changed by the later %3 set_rows");
}

static void test_parts_of_one_tensor(void **state)
{
    (void)state;
    qn_graph *g = resident(); /* halves that don't touch are independent */
    qn_node *low = qn__narrow(g, p, 0, 0, 4), *high = qn__narrow(g, p, 0, 4, 4);
    qn_node *u = qn__set_rows(g, low, value, rows);
    qn_node *v = qn__set_rows(g, high, value, rows);
    qn__add(g, u, v);
    OK(qn__graph_verify(g, err));
    qn__silu(g, p);
    verify_fails(
        g, "%8 silu reads %0 param \"p\" as it was before %6 set_rows; read the update's result, or read earlier");

    g = resident();
    qn__slice_update(g, p, qn__narrow(g, p, 0, 0, 4), 0, 2, false);
    verify_fails(g, "%4 slice_update reads the memory that it writes through source 1; copy that first");

    g = resident();
    qn__slice_update(g, p, qn__copy(g, qn__narrow(g, p, 0, 0, 4), F32), 0, 2, false);
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);
}

static void test_params_over_one_memory(void **state)
{
    (void)state;
    char buffer, another;
    qn_graph *g = graph_new();
    qn__param(g, "a", F32, SHAPE(4), &buffer, 16, 0);
    qn__param(g, "b", F32, SHAPE(8), &buffer, 0, 0); /* two readers of the same weight are fine */
    qn__param(g, "c", F32, SHAPE(4), &buffer, 32, QN_NODE_mutable);
    qn__param(g, "d", F32, SHAPE(4), &another, 32, QN_NODE_mutable);
    qn__param(g, "e", F32, SHAPE(4), NULL, 32, QN_NODE_mutable);
    OK(qn__graph_verify(g, err));
    qn__param(g, "f", F32, SHAPE(2), &buffer, 44, 0);
    verify_fails(g, "%2 param \"c\" and %5 param \"f\" are params over the same memory, and one is mutable");
    g = graph_new();
    qn__param(g, "a", F32, SHAPE(100), &buffer, 0, 0);
    qn__param(g, "b", F32, SHAPE(2), &buffer, 8, 0);
    qn__param(g, "c", F32, SHAPE(2), &buffer, 396, QN_NODE_mutable);
    verify_fails(g, "%0 param \"a\" and %2 param \"c\" are params over the same memory, and one is mutable");
    g = graph_new();
    qn__param(g, "a", F32, SHAPE(100), &buffer, UINT64_MAX - 8, QN_NODE_mutable);
    verify_fails(g, "%0 param \"a\" lies at 18446744073709551607, beyond any buffer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_memory_and_rules),
        cmocka_unit_test(test_reads_through_updates),
        cmocka_unit_test(test_parts_of_one_tensor),
        cmocka_unit_test(test_params_over_one_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
