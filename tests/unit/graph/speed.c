/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/speed.c -- a new batch shape costs a build, the passes and a plan: that must stay far below the time of
 * a token, and grow with the graph, not with its square. Times are the best of several; the limit holds in optimized
 * builds without checks. */
#include "common.h"
#include "base/thread.h"

#if defined(__OPTIMIZE__) && !defined(QN_CHECKED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MAY_JUDGE true
#else
#define MAY_JUDGE false
#endif

static int64_t times[4]; /* build, optimize, plan, all: the best so far */

static void keep_best(int i, int64_t ns)
{
    if (times[i] == 0 || ns < times[i]) times[i] = ns;
}

static int32_t once(const decoder_shape *s)
{
    qn_plan plan;
    const int64_t t0 = qn__now_ns();
    qn_graph *g = graph_new();
    decoder_build(g, s);
    OK(qn__graph_finish(g, err));
    const int32_t n = g->n_nodes;
    const int64_t t1 = qn__now_ns();
    OK(qn__graph_optimize(g, NULL, NULL, err));
    const int64_t t2 = qn__now_ns();
    for (int32_t i = 0; i < g->n_nodes; i++) g->nodes[i]->place = 0;
    OK(qn__plan_make(g, 1, 64, &plan, err));
    const int64_t t3 = qn__now_ns();
    qn__graph_destroy(g);
    keep_best(0, t1 - t0), keep_best(1, t2 - t1), keep_best(2, t3 - t2), keep_best(3, t3 - t0);
    return n;
}

static void test_decoder_is_quick(void **state)
{
    (void)state;
    const decoder_shape s = {32, 1, 4096, 32, 8, 128, 14336, 128256, 4096};
    int32_t n = 0;
    memset(times, 0, sizeof times);
    for (int i = 0; i < 20; i++) n = once(&s);
    print_message("%d nodes: build %.2f ms, optimize %.2f ms, plan %.2f ms, all %.2f ms\n", n, (double)times[0] * 1e-6,
                  (double)times[1] * 1e-6, (double)times[2] * 1e-6, (double)times[3] * 1e-6);
    assert_true(n > 1000);
    if (MAY_JUDGE) assert_true(times[3] < 5000000);
}

static void test_grows_with_the_graph(void **state)
{
    (void)state;
    int64_t small = 0, large = 0;
    for (int i = 0; i < 3; i++) {
        memset(times, 0, sizeof times);
        for (int k = 0; k < 3; k++) once(&(decoder_shape){64, 1, 64, 4, 2, 16, 96, 500, 128});
        if (small == 0 || times[3] < small) small = times[3];
        memset(times, 0, sizeof times);
        once(&(decoder_shape){1024, 1, 64, 4, 2, 16, 96, 500, 128});
        if (large == 0 || times[3] < large) large = times[3];
    }
    print_message("16 times the layers: %.1f times the time (%.1f ms)\n", (double)large / (double)small, (double)large * 1e-6);
    if (MAY_JUDGE) assert_true(large < small * 16 * 4); /* a square would be 256 times; caches account for the rest */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decoder_is_quick), cmocka_unit_test(test_grows_with_the_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
