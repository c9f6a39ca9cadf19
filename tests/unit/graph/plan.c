/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/plan.c -- the memory plan: what is pinned, what is written in place, scratch, places, limits, and
 * how close to the least possible it comes. random.c runs graphs in planned memory. */
#include "common.h"
#include <stdlib.h>

static void place_all(qn_graph *g, int place)
{
    for (int32_t i = 0; i < g->n_nodes; i++) g->nodes[i]->place = place;
}

static qn_plan plan_of(qn_graph *g, uint64_t align)
{
    qn_plan plan;
    OK(qn__graph_finish(g, err));
    OK(qn__plan_make(g, 1, align, &plan, err));
    OK(qn__plan_verify(g, &plan, err));
    for (int32_t i = 0; i < g->n_nodes; i++)
        assert_int_equal(g->nodes[i]->offset % align + g->nodes[i]->scratch_offset % align, 0);
    return plan;
}

/* The least that any plan needs: the largest sum of what is alive at one node, nothing in place. */
static uint64_t alive_at_once(const qn_graph *g)
{
    int64_t *delta = calloc((size_t)g->n_nodes + 2, sizeof *delta),
            *last = calloc((size_t)g->n_nodes + 1, sizeof *last);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        last[i] = n->op == QN_OP_input ? g->n_nodes : i;
        for (int k = 0; k < n->n_src; k++) {
            int64_t *l = &last[n->src[k]->root->id];
            if (*l < i) *l = i;
        }
        if (n->flags & QN_NODE_output) last[n->root->id] = g->n_nodes;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (n->root != n || n->op == QN_OP_param) continue;
        const int64_t bytes = (qn__node_bytes(n) + 63) / 64 * 64;
        delta[n->op == QN_OP_input ? 0 : i] += bytes;
        delta[last[i] + 1 < g->n_nodes ? last[i] + 1 : g->n_nodes] -= bytes;
    }
    int64_t alive = 0, most = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        alive += delta[i];
        if (alive > most) most = alive;
    }
    free(delta);
    free(last);
    return (uint64_t)most;
}

static void test_pinned(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(64)), *unread = qn__input(g, "unread", F32, SHAPE(64));
    qn_node *early = qn__linear(g, x, weight(g, "w", 64, 64), NULL), *y = early;
    qn__output(g, qn__reshape(g, early, qn_shape_of(8, 8))); /* an output that is a view pins what is under it */
    qn_node *late = qn__input(g, "late", F32, SHAPE(64));
    for (int i = 0; i < 10; i++) y = qn__linear(g, y, g->nodes[2], NULL);
    qn__output(g, qn__add(g, y, late));
    place_all(g, 0);
    const qn_plan plan = plan_of(g, 64);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (n->root != n || n->op == QN_OP_param) continue;
        assert_true(n == x || n->offset != x->offset);
        assert_true(n == unread || n->offset != unread->offset);
        assert_true(n == late || n->offset != late->offset);
        assert_true(n == early || n->offset != early->offset);
    }
    assert_int_equal(plan.n_values, 3 + 11 + 1);
    assert_int_equal(plan.bytes[0], 6 * 256); /* four pinned, and two that take turns; the sum goes over its source */
    assert_int_equal(plan.sum_bytes[0], 15 * 256);
    assert_int_equal(plan.n_inplace, 1);
    assert_int_equal(g->nodes[2]->offset, 0); /* params are elsewhere */
    qn__graph_destroy(g);
}

/* Is `n` written over its source 0? */
static bool over_source(const qn_node *n) { return n->offset == n->src[0]->root->offset; }

static void test_in_place(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(4, 64)), *v = qn__input(g, "v", F32, SHAPE(64));
    qn_node *w = weight(g, "w", 64, 64);
#define FRESH() qn__linear(g, x, w, NULL)
    qn_node *yes[] = {
        qn__silu(g, FRESH()),
        qn__scale(g, FRESH(), 2, 0),
        qn__rms_norm(g, FRESH(), v, 0),
        qn__add(g, FRESH(), v),
        qn__mul(g, FRESH(), FRESH()),
        qn__swiglu(g, FRESH(), x),
        qn__silu(g, qn__reshape(g, FRESH(), qn_shape_of(8, 32))),
        qn__rope(g, qn__reshape(g, FRESH(), qn_shape_of(4, 2, 32)), qn__input(g, "p", I32, SHAPE(4)), NULL,
                 &(qn_rope_attrs){.n_rot = 32, .base = 1e4f, .freq_scale = 1, .attn_factor = 1}),
    };
    /* the last reader may */
    qn_node *twice = FRESH(), *first = qn__silu(g, twice), *second = qn__scale(g, twice, 2, 0);
    qn_node *seen = FRESH(), *view = qn__narrow(g, seen, 0, 0, 1), *over = qn__silu(g, seen),
            *after = qn__silu(g, view);
    qn_node *out = FRESH(), *same = FRESH(), *wide = FRESH(), *part = FRESH(), *transposed = FRESH();
    qn__output(g, out);
    qn_node *no[] = {
        qn__silu(g, x),
        qn__silu(g, v),
        qn__silu(g, out), /* an input, an input, an output */
        first,
        over,                                                      /* others still read the source */
        qn__add(g, same, same),                                    /* both sources are one */
        qn__mul(g, wide, qn__narrow(g, wide, 0, 1, 1)),            /* a row of it is the other source */
        qn__silu(g, qn__narrow(g, part, 0, 0, 2)),                 /* only a part of the memory */
        qn__silu(g, qn__permute(g, transposed, (int[]){1, 0}, 2)), /* in another order */
        qn__linear(g, FRESH(), w, NULL),
        qn__copy(g, FRESH(), F32),                      /* ops that may not */
        qn__add(g, qn__linear(g, v, w, NULL), FRESH()), /* grows by broadcasting */
    };
    qn_node *elsewhere = qn__silu(g, FRESH());
    place_all(g, 0);
    elsewhere->place = 1;
    qn_plan plan;
    OK(qn__plan_make(g, 2, 64, &plan, err));
    OK(qn__plan_verify(g, &plan, err));
    for (size_t i = 0; i < N_OF(yes); i++) assert_true(over_source(yes[i]));
    for (size_t i = 0; i < N_OF(no); i++) assert_false(over_source(no[i]));
    assert_true(over_source(second));
    assert_false(over_source(after));
    assert_int_equal(plan.n_inplace, N_OF(yes) + 1);
    assert_int_equal(plan.bytes[1], 4 * 64 * 4);
    qn__graph_destroy(g);
}

static qn_node *resident(qn_graph *g, const char *name)
{
    return qn__param(g, name, F32, SHAPE(4, 8), NULL, 0, QN_NODE_mutable);
}

/* A value that is only assigned to resident memory is computed there. */
static void test_lent(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(4, 8)), *p[9];
    for (int i = 0; i < 9; i++) p[i] = resident(g, "p");
    qn_node *whole = qn__add(g, p[0], x), *after = qn__assign(g, p[0], whole);
    qn_node *again = qn__mul(g, after, x), *rows = qn__narrow(g, qn__assign(g, after, again), 0, 1, 2);
    qn_node *part = qn__scale(g, rows, 2, 0); /* of the memory as it is by now */
    qn__assign(g, rows, part);
    qn_node *other = qn__copy(g, x, F32); /* reads nothing of the memory: any op may */
    qn__assign(g, p[1], other);
    qn_node *yes[] = {whole, again, part, other};

    qn_node *same = qn__add(g, p[2], p[2]); /* the memory is two sources */
    qn__assign(g, p[2], same);
    qn_node *shifted = qn__silu(g, qn__narrow(g, p[3], 0, 0, 2)); /* other rows than it writes, and one of them */
    qn__assign(g, qn__narrow(g, p[3], 0, 1, 2), shifted);
    qn_node *read = qn__silu(g, x); /* somebody else reads it */
    qn__assign(g, p[4], read);
    qn__output(g, qn__silu(g, read));
    qn_node *before = qn__silu(g, p[5]), *between = qn__silu(g, p[5]); /* the memory is read in between */
    qn__assign(g, p[5], before);
    qn__output(g, between);
    qn_node *turned = qn__silu(g, qn__permute(g, x, (int[]){1, 0}, 2)); /* lies in another order */
    qn__assign(g, qn__permute(g, p[6], (int[]){1, 0}, 2), turned);
    const qn_index_attrs strict = {.dim = 0, .strict = QN_STRICT_gather};
    qn_node *ids = qn__input(g, "ids", QN_DTYPE_I64, SHAPE(4, 8)); /* may end the run */
    qn_node *picked = qn__op(g, QN_OP_gather, &strict, (qn_node *[]){x, ids}, 2);
    qn__assign(g, p[7], picked);
    qn_node *out = qn__silu(g, x);
    qn__output(g, out);
    qn__assign(g, p[8], out);
    qn_node *no[] = {same, shifted, read, before, turned, picked, out};

    place_all(g, 0);
    qn_plan plan;
    OK(qn__graph_finish(g, err));
    OK(qn__plan_make(g, 1, 64, &plan, err));
    OK(qn__plan_verify(g, &plan, err));
    for (size_t i = 0; i < N_OF(yes); i++) assert_ptr_equal(yes[i]->lender, i < 3 ? p[0] : p[1]);
    for (size_t i = 0; i < N_OF(no); i++) assert_null(no[i]->lender);
    assert_int_equal(part->offset, 8 * 4);
    assert_int_equal(whole->offset + again->offset + other->offset, 0);

    /* and the check sees one that should not have been */
    part->offset = 0;
    assert_int_equal(qn__plan_verify(g, &plan, NULL), QN_STATUS_internal);
    part->offset = 8 * 4;
    OK(qn__plan_verify(g, &plan, err));
    before->lender = p[5];
    assert_int_equal(qn__plan_verify(g, &plan, NULL), QN_STATUS_internal);
    qn__graph_destroy(g);
}

static void test_scratch_and_places(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(64)), *w = weight(g, "w", 64, 64);
    qn_node *p = qn__param(g, "p", F32, SHAPE(64, 64), NULL, 0, QN_NODE_mutable);
    qn_node *a = qn__linear(g, x, w, NULL), *b = qn__linear(g, a, w, NULL);
    qn_node *u = qn__slice_update(g, p, qn__reshape(g, b, qn_shape_of(1, 64)), 0, 3, false);
    qn_node *y = qn__linear(g, b, u, NULL);
    qn__output(g, y);
    place_all(g, 0);
    a->scratch_bytes = 1000, u->scratch_bytes = 10, y->scratch_bytes = 300;
    b->place = 1;
    qn_plan plan;
    OK(qn__plan_make(g, 2, 256, &plan, err));
    OK(qn__plan_verify(g, &plan, err));
    assert_int_equal(a->scratch_offset % 256, 0);
    assert_true(a->scratch_offset >= 512 || a->scratch_offset + 1000 <= a->offset);
    assert_int_equal(plan.bytes[0], 2 * 256 + 1024);
    assert_int_equal(plan.sum_bytes[0], 3 * 256 + 1024 + 256 + 512);
    assert_int_equal(plan.bytes[1], 256);
    assert_int_equal(u->offset, 0);
    assert_int_equal(plan.n_values, 4);

    y->place = 2;
    qn_error e = {0};
    assert_int_equal(qn__plan_make(g, 2, 256, &plan, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "%7 linear has place 2, 0 to 1 expected");
    y->place = -1;
    assert_int_equal(qn__plan_make(g, 2, 256, &plan, &e), QN_STATUS_invalid);
    qn__graph_destroy(g);
}

static void test_limits(void **state)
{
    (void)state;
    qn_plan plan;
    qn_error e = {0};
    qn_graph *g = graph_new();
    char name[16];
    for (int i = 0; i < 3; i++) { /* each half of what can be counted */
        snprintf(name, sizeof name, "x%d", i);
        qn__input(g, name, F32, SHAPE(INT64_C(1) << 60));
    }
    place_all(g, 0);
    assert_int_equal(qn__plan_make(g, 1, 64, &plan, &e), QN_STATUS_limit);
    assert_string_equal(e.text, "the values of place 0, up to %1 input \"x1\", take more than 2^63 bytes");
    qn__graph_destroy(g);

    g = graph_new();
    qn_node *y = qn__silu(g, qn__input(g, "x", F32, SHAPE(4)));
    place_all(g, 0);
    y->scratch_bytes = UINT64_MAX;
    assert_int_equal(qn__plan_make(g, 1, 64, &plan, &e), QN_STATUS_limit);
    assert_string_equal(e.text, "%1 silu takes more than 2^63 bytes");
    y->scratch_bytes = 0;
    assert_int_equal(qn__plan_make(g, 1, 48, &plan, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "alignment 48, a power of two up to 2^32 expected");
    assert_int_equal(qn__plan_make(g, 1, 0, &plan, &e), QN_STATUS_invalid);
    assert_int_equal(qn__plan_make(g, 0, 64, &plan, &e), QN_STATUS_invalid);
    assert_int_equal(qn__plan_make(g, QN_MAX_PLACES + 1, 64, &plan, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "9 places, 1 to 8 expected");
    qn__graph_destroy(g);

    g = graph_new(); /* nothing, and values of nothing */
    plan = plan_of(g, 64);
    assert_int_equal(plan.bytes[0], 0);
    qn__output(g, qn__silu(g, qn__input(g, "x", F32, SHAPE(0, 5))));
    place_all(g, 0);
    plan = plan_of(g, 64);
    assert_int_equal(plan.bytes[0], 0);
    assert_int_equal(plan.n_values, 2);
    qn__graph_destroy(g);
}

/* The verifier has eyes of its own: it sees any one value that is moved onto another. */
static void test_verifier_sees(void **state)
{
    (void)state;
    const decoder_shape s = {2, 7, 64, 4, 2, 16, 96, 500, 128};
    qn_graph *g = graph_new();
    decoder_build(g, &s);
    place_all(g, 0);
    for (int32_t i = 0; i < g->n_nodes; i += 3) g->nodes[i]->scratch_bytes = (uint64_t)i * 7;
    const qn_plan plan = plan_of(g, 64);
    qn_error e = {0};
    int moved = 0;
    for (int32_t i = 0; i + 1 < g->n_nodes; i++) { /* the result onto a source that is not a leaf */
        qn_node *n = g->nodes[i], *source = NULL;
        for (int k = 0; k < n->n_src; k++) {
            if (n->src[k]->root->op != QN_OP_param) source = n->src[k]->root;
        }
        if (n->root != n || source == NULL || n->offset == source->offset) continue;
        const uint64_t was = n->offset;
        n->offset = source->offset;
        if (qn__op_info(n->op)->inplace && qn__plan_verify(g, &plan, NULL) == QN_OK) { /* it would have been allowed */
            n->offset = was;
            continue;
        }
        assert_int_equal(qn__plan_verify(g, &plan, &e), QN_STATUS_internal);
        assert_non_null(strstr(e.text, "are alive at once"));
        n->offset = was;
        moved++;
    }
    assert_true(moved > 30);
    qn_node *y = find_node(g, "logits");
    y->offset = plan.bytes[0];
    assert_int_equal(qn__plan_verify(g, &plan, &e), QN_STATUS_internal);
    assert_non_null(strstr(e.text, "the buffer at"));
    qn__graph_destroy(g);
}

static void test_decoder(void **state)
{
    (void)state;
    static const decoder_shape shapes[] = {
        {32, 1, 4096, 32, 8, 128, 14336, 128256, 4096},
        {32, 512, 4096, 32, 8, 128, 14336, 128256, 4096},
        {22, 64, 2048, 32, 4, 64, 5632, 32000, 2048},
        {24, 32, 896, 14, 2, 64, 4864, 151936, 4096},
    };
    for (size_t i = 0; i < N_OF(shapes); i++) {
        qn_graph *g = graph_new();
        decoder_build(g, &shapes[i]);
        OK(qn__graph_finish(g, err));
        OK(qn__graph_optimize(g, NULL, NULL, err));
        place_all(g, 0);
        const qn_plan plan = plan_of(g, 64);
        const uint64_t least = alive_at_once(g);
        const double peak = (double)plan.bytes[0];
        print_message(
            "%d layers, %d tokens: peak %.2f MiB, %.3f of the most alive at once, %.4f of the sum; %d of %d in place\n",
            shapes[i].n_layer, shapes[i].n_tokens, peak / 1048576, peak / (double)least,
            peak / (double)plan.sum_bytes[0], plan.n_inplace, plan.n_values);
        assert_true(plan.bytes[0] * 100 <= least * 105);
        assert_true(plan.bytes[0] * 4 < plan.sum_bytes[0]);
        qn__graph_destroy(g);
    }
}

/* Many values of many sizes that die in any order. */
static void test_many_sizes(void **state)
{
    (void)state;
    uint32_t seed = 12345;
    double worst = 0, total = 0;
    for (int round = 0; round < 20; round++) {
        qn_graph *g = graph_new();
        qn_node *w[8], *recent[16];
        char name[16];
        for (int i = 0; i < 8; i++) snprintf(name, sizeof name, "w%d", i), w[i] = weight(g, name, 4 << i, 64);
        for (int i = 0; i < 16; i++) {
            snprintf(name, sizeof name, "i%d", i);
            recent[i] = qn__get_rows(g, w[0], qn__input(g, name, I32, SHAPE(1 + i)));
        }
        for (int i = 0; i < 400; i++) {
            seed = seed * 1664525u + 1013904223u;
            qn_node *x = recent[seed >> 28]; /* [.., 64] always: what is narrower is only read */
            qn_node *y = qn__linear(g, x, w[seed >> 10 & 7], NULL);
            recent[seed >> 20 & 15] = qn__linear(g, x, qn__reshape(g, w[4], qn_shape_of(64, 64)), NULL);
            if (seed >> 5 & 1) qn__silu(g, y);
        }
        for (int i = 0; i < 16; i++) qn__output(g, recent[i]);
        place_all(g, 0);
        const qn_plan plan = plan_of(g, 64);
        const double over = (double)plan.bytes[0] / (double)alive_at_once(g);
        assert_true(plan.bytes[0] < plan.sum_bytes[0] / 4);
        if (over > worst) worst = over;
        total += over / 20;
        qn__graph_destroy(g);
    }
    print_message("20 graphs of 400 values that die in any order: %.3f of the most alive at once, %.3f at worst\n",
                  total, worst);
    assert_true(worst < 1.3);
}

static void test_print(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(64));
    qn_node *a = qn__name(g, qn__linear(g, x, weight(g, "w", 512, 64), NULL), "up\n");
    a->scratch_bytes = 100;
    qn__output(g, qn__silu(g, a));
    place_all(g, 0);
    const qn_plan plan = plan_of(g, 64);
    qn_str s = {0};
    OK(qn__plan_print(g, &plan, &s, err));
    assert_string_equal(s.data, "place 0: 2.4 KiB, without reuse 4.4 KiB\n"
                                "3 values, 1 of them in place\n"
                                "place       offset        bytes   from     to  value\n"
                                "    0            0          256  start    end  %0 input \"x\"\n"
                                "    0          256         2048      2      3  %2 linear \"up\\x0a\"\n"
                                "    0         2304          100      2      2  scratch of %2 linear \"up\\x0a\"\n"
                                "    0          256         2048      3    end  %3 silu\n");
    qn__str_deinit(&s);
    qn__graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),  cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_lent),    cmocka_unit_test(test_scratch_and_places),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_verifier_sees),
        cmocka_unit_test(test_decoder), cmocka_unit_test(test_many_sizes),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
