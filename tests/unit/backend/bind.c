/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/bind.c -- memory bound to params and outputs between runs, by backends that read addresses at
 * every run and by those that keep what they compiled until they are told. */
#include "pair.h"

static void rebinding(void)
{
    A.base.type = &fake_rebinding_type;
    B.base.type = &fake_rebinding_type;
}

/* y = (x + w) + 10, where y is bound too; w and y lie on A, the last step runs there, the first on B. */
typedef struct bound {
    qn_graph *g;
    qn_node *w, *y;
    qn_exec *e;
} bound;

static bound bound_graph(qn_buffer *w, qn_buffer *y)
{
    bound b = {.g = new_graph()};
    on(b.g, 0);
    qn_node *x = input(b.g, "x", 3);
    b.w = qn__param(b.g, "w", QN_DTYPE_F32, &qn_shape_of(3), w, 0, 0);
    on(b.g, 1);
    qn_node *sum = qn__add(b.g, x, b.w);
    on(b.g, 0);
    b.y = shift(b.g, sum, 10);
    b.y->flags |= QN_NODE_bound;
    b.y->buffer = y;
    out(b.g, b.y, "y");
    b.e = compile(b.g);
    return b;
}

static void expect_in(qn_buffer *buffer, uint64_t offset, const float *want, int64_t n)
{
    float y[16];
    OK(fake_download(buffer, offset, y, (uint64_t)n * 4, err));
    for (int64_t i = 0; i < n; i++) assert_true(y[i] == want[i]);
}

static void test_next_run_uses_what_is_bound(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        if (keeps) rebinding();
        reopen(NULL);
        const float w1[3] = {1, 2, 3}, w2[6] = {0, 0, 0, 4, 5, 6}, x[3] = {100, 200, 300}, zero[8] = {0};
        qn_buffer *one = buffer_of(&A, w1, 3), *two = buffer_of(&A, w2, 6), *y1 = buffer_of(&A, zero, 3),
                  *y2 = buffer_of(&A, zero, 8);
        bound b = bound_graph(one, y1);
        set(b.e, "x", x, 3);
        OK(qn__exec_run(b.e, NULL, err));
        expect_in(y1, 0, (const float[]){111, 212, 313}, 3);

        OK(qn__exec_bind(b.e, b.w, two, 12, err));
        OK(qn__exec_run(b.e, NULL, err));
        expect_in(y1, 0, (const float[]){114, 215, 316}, 3);
        OK(qn__exec_bind(b.e, b.y, y2, 16, err));
        const int rebinds = A.n_rebinds + B.n_rebinds;
        OK(qn__exec_run(b.e, NULL, err));
        assert_int_equal(A.n_rebinds + B.n_rebinds > rebinds, keeps);
        expect_in(y2, 0, (const float[]){0, 0, 0, 0, 114, 215, 316, 0}, 8);
        expect(b.e, "y", (const float[]){114, 215, 316}, 3);

        const int told = A.n_rebinds + B.n_rebinds, compiled = A.n_compiled + B.n_compiled;
        OK(qn__exec_bind(b.e, b.y, y2, 16, err)); /* as it is: nothing to tell */
        OK(qn__exec_run(b.e, NULL, err));
        OK(qn__exec_run(b.e, NULL, err));
        assert_int_equal(A.n_rebinds + B.n_rebinds, told);
        assert_int_equal(A.n_compiled + B.n_compiled, compiled);

        OK(qn__exec_bind(b.e, b.w, NULL, 0, err));
        fake_buffer_destroy(two);
        OK(qn__exec_bind(b.e, b.w, one, 0, err));
        OK(qn__exec_run(b.e, NULL, err));
        expect(b.e, "y", (const float[]){111, 212, 313}, 3);
        fake_buffer_destroy(one);
        fake_buffer_destroy(y1);
        fake_buffer_destroy(y2);
    }
}

/* B refuses what is bound there: A computes it, B gets it, and who reads it or a view of it on A reads A's. */
static void test_bound_where_it_is_refused(void **state)
{
    (void)state;
    B.refuses[QN_OP_scale] = true;
    const float x[6] = {1, 2, 3, 4, 5, 6}, zero[6] = {0};
    for (int how = 0; how < 4; how++) {
        qn_buffer *home = buffer_of(&B, zero, 6);
        qn_graph *g = new_graph();
        on(g, 1);
        qn_node *y = shift(g, qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(2, 3)), 10);
        y->flags |= QN_NODE_bound;
        y->buffer = home;
        out(g, y, "y");
        qn_node *seen = how == 0   ? y
                        : how == 1 ? qn__permute(g, y, (const int[]){1, 0}, 2)
                        : how == 2 ? qn__narrow(g, y, 0, 1, 1)
                                   : qn__narrow(g, qn__reshape(g, y, qn_shape_of(6)), 0, 1, 2);
        on(g, 0);
        out(g, qn__add(g, seen, seen), "z");
        qn_node *all = shift(g, qn__reshape(g, y, qn_shape_of(6)), 100);
        out(g, all, "all");
        on(g, 1); /* B reads its own */
        out(g, qn__add(g, seen, seen), "z of b");
        qn_exec *e = compile(g);
        assert_int_equal(place_of(e, "z"), 0);
        assert_int_equal(place_of(e, "z of b"), 1);
        assert_int_equal(qn__exec_n_transfers(e), 1);
        const float want[4][6] = {{22, 24, 26, 28, 30, 32}, {22, 28, 24, 30, 26, 32}, {28, 30, 32}, {24, 26}};
        const int n[] = {6, 6, 3, 2};
        for (int run = 0; run < 2; run++) {
            set(e, "x", x, 6);
            OK(qn__exec_run(e, NULL, err));
            expect(e, "z", want[how], n[how]);
            expect(e, "z of b", want[how], n[how]);
            expect(e, "all", (const float[]){111, 112, 113, 114, 115, 116}, 6);
            expect_in(home, 0, (const float[]){11, 12, 13, 14, 15, 16}, 6);
        }
        qn__sched_destroy(sched);
        open_with(NULL);
        fake_buffer_destroy(home);
    }
}

static void test_bind_checks(void **state)
{
    (void)state;
    const float w[3] = {1, 2, 3};
    qn_buffer *mine = buffer_of(&A, w, 3), *large = buffer_of(&A, NULL, 4), *elsewhere = buffer_of(&B, w, 3),
              *y = buffer_of(&A, w, 3);
    bound b = bound_graph(mine, y), other = {0};
    qn_error error;
    assert_int_equal(qn__exec_bind(b.e, b.w, elsewhere, 0, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "\"w\" lies on fake:a, the buffer on fake:b"));
    assert_int_equal(qn__exec_bind(b.e, b.w, large, 5, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "12 bytes at 5 of a buffer of 16"));
    assert_int_equal(qn__exec_bind(b.e, b.w, large, 17, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_bind(b.e, b.w, large, UINT64_MAX - 4, &error), QN_STATUS_invalid);
    qn_node *x = (qn_node *)(uintptr_t)qn__exec_find(b.e, "x");
    assert_int_equal(qn__exec_bind(b.e, x, large, 0, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "neither"));
    OK(qn__exec_bind(b.e, b.w, large, 4, err)); /* the last place where it fits */
    large->read_only = true;
    OK(qn__exec_bind(b.e, b.w, large, 0, err)); /* is read only */
    assert_int_equal(qn__exec_bind(b.e, b.y, large, 0, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "read-only"));

    OK(qn__exec_run(b.e, NULL, err));
    OK(qn__exec_bind(b.e, b.w, large, 0, err)); /* changes nothing */
    OK(qn__exec_bind(b.e, b.w, mine, 0, err));

    other = bound_graph(mine, y); /* the first exec is gone, or else its nodes would be another graph's */
    qn_exec *kept;
    OK(qn__sched_compile(sched, chain(3), "k", 1, &kept, err));
    assert_int_equal(qn__exec_bind(kept, other.w, large, 0, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "another graph"));
    other.w->flags |= QN_NODE_dead;
    OK(qn__exec_bind(other.e, other.w, elsewhere, 0, err)); /* nothing reads it, so nothing is asked of it */
    fake_buffer_destroy(mine);
    fake_buffer_destroy(large);
    fake_buffer_destroy(elsewhere);
    fake_buffer_destroy(y);
}

/* Larger activations: programs that can be told where they lie are told, and not compiled again. */
static void test_growing_rebinds(void **state)
{
    (void)state;
    rebinding();
    reopen(NULL);
    const float x[3] = {1, 2, 3}, want[3] = {112, 113, 114};
    qn_exec *small, *large;
    OK(qn__sched_compile(sched, chain(3), "s", 1, &small, err));
    OK(qn__sched_compile(sched, chain(60), "l", 1, &large, err));
    const int compiled = A.n_compiled + B.n_compiled;
    assert_int_equal(A.n_buffers, 2);
    assert_ptr_equal(qn__sched_find(sched, "s", 1), small);
    assert_int_equal(A.n_compiled + B.n_compiled, compiled);
    assert_int_equal(A.n_rebinds + B.n_rebinds, 3); /* three segments */
    assert_int_equal(A.n_buffers, 1);
    assert_int_equal(B.n_buffers, 1);
    set(small, "x", x, 3);
    OK(qn__exec_run(small, NULL, err));
    expect(small, "y", want, 3);
    assert_ptr_equal(qn__sched_find(sched, "s", 1), small);
    assert_int_equal(A.n_rebinds + B.n_rebinds, 3);
}

/* One backend that can be told and one that cannot: all is compiled again. */
static void test_growing_with_both_kinds(void **state)
{
    (void)state;
    B.base.type = &fake_rebinding_type;
    reopen(NULL);
    const float x[3] = {1, 2, 3}, want[3] = {112, 113, 114};
    qn_exec *small, *large;
    OK(qn__sched_compile(sched, chain(3), "s", 1, &small, err));
    OK(qn__sched_compile(sched, chain(60), "l", 1, &large, err));
    const int compiled = A.n_compiled + B.n_compiled;
    assert_ptr_equal(qn__sched_find(sched, "s", 1), small);
    assert_int_equal(A.n_compiled + B.n_compiled, compiled + 3);
    assert_int_equal(A.n_buffers + B.n_buffers, 2);
    set(small, "x", x, 3);
    OK(qn__exec_run(small, NULL, err));
    expect(small, "y", want, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_next_run_uses_what_is_bound),
        T(test_bound_where_it_is_refused),
        T(test_bind_checks),
        T(test_growing_rebinds),
        T(test_growing_with_both_kinds),
    };
    RUN_AT_EVERY_PACE(tests);
}
