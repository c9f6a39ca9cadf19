/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/program.c -- products that stand side by side and read one source prepare it once; each still gives,
 * bit for bit, what it gives when it stands alone. */
#include "rig.h"

#include "base/metrics.h"

enum { WEIGHTS = 5, ROWS = 24, K = 512 };

typedef struct row_of {
    tensor x, w[WEIGHTS];
    int read;    /* the product whose result is looked at */
    bool alone;  /* no other product is built */
    bool breaks; /* something else stands between the products */
} row_of;

static qn_node *build(rig *r, void *ctx)
{
    row_of *c = ctx;
    qn_node *x = rig_input(r, &c->x), *y[WEIGHTS] = {NULL};
    for (int i = 0; i < WEIGHTS; i++) {
        if (c->alone && i != c->read) continue;
        y[i] = qn__linear(r->g, x, rig_param(r, &c->w[i], 0), NULL);
        if (c->breaks) y[i] = qn__silu(r->g, y[i]);
        if (i != c->read) qn__output(r->g, y[i]);
    }
    return y[c->read];
}

static void *run_counted(qn_cpu_level level, row_of *c, size_t *bytes, uint64_t want_shared)
{
    const uint64_t before = QN_METRIC_READ(inputs_shared);
    void *result = run_at(level, build, c, bytes);
    assert_int_equal(QN_METRIC_READ(inputs_shared) - before, want_shared);
    return result;
}

static void check(qn_cpu_level level, row_of *c, uint64_t want_shared)
{
    size_t one_bytes, bytes;
    for (c->read = 0; c->read < WEIGHTS; c->read++) {
        c->alone = true;
        c->breaks = false;
        void *one = run_counted(level, c, &one_bytes, 0);
        c->alone = false;
        void *beside = run_counted(level, c, &bytes, want_shared);
        assert_int_equal(bytes, one_bytes);
        assert_memory_equal(beside, one, bytes);
        c->breaks = true;
        free(run_counted(level, c, &bytes, 0));
        free(beside);
        free(one);
    }
}

/* Formats in one row, and how many of them find their input prepared. */
static void try_row(const qn_dtype *formats, int64_t cols, uint64_t want_shared)
{
    row_of c = {.x = tensor_random(QN_DTYPE_F32, qn_shape_of(cols, K))};
    for (int i = 0; i < WEIGHTS; i++) c.w[i] = tensor_random(formats[i], qn_shape_of(ROWS, K));
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++)
        if (level_exists((qn_cpu_level)level)) check((qn_cpu_level)level, &c, want_shared);
    for (int i = 0; i < WEIGHTS; i++) tensor_free(&c.w[i]);
    tensor_free(&c.x);
}

static void test_neighbours_share(void **state)
{
    (void)state;
    static const qn_dtype same[] = {QN_DTYPE_Q4_K, QN_DTYPE_Q4_K, QN_DTYPE_Q6_K, QN_DTYPE_Q4_K, QN_DTYPE_Q5_K};
    static const qn_dtype small[] = {QN_DTYPE_Q8_0, QN_DTYPE_Q4_0, QN_DTYPE_Q5_1, QN_DTYPE_IQ4_NL, QN_DTYPE_Q8_0};
    static const qn_dtype mixed[] = {QN_DTYPE_Q4_K, QN_DTYPE_Q6_K, QN_DTYPE_Q8_0, QN_DTYPE_Q8_0, QN_DTYPE_F32};
    for (int64_t cols = 1; cols <= 40; cols = cols * 3 + 1) {
        try_row(same, cols, WEIGHTS - 1);
        try_row(small, cols, WEIGHTS - 1);
        try_row(mixed, cols, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neighbours_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
