/* SPDX-License-Identifier: MIT */
/* bench/sdpa.c -- attention over whole tensors as training has it: milliseconds and Gflop/s forward and backward, q, k
 * and v lying as [batch, n, heads, d]. Counted are the products that a causal row needs: 2 forward, 5 backward.
 *
 *     bench_sdpa [level] [threads]             the best level; all threads */
#include "backend/sched.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>

extern const qn_backend_type qn__backend_cpu;

typedef struct shape {
    int64_t batch, heads, kv_heads, n, d;
} shape;
static const shape shapes[] = {{8, 8, 8, 256, 32},  {8, 4, 4, 256, 64},   {8, 8, 2, 256, 32},
                               {2, 8, 8, 1024, 64}, {1, 8, 2, 2048, 128}, {1, 4, 1, 4096, 64}};

static void die(const qn_error *err)
{
    fprintf(stderr, "bench_sdpa: %s\n", err->text);
    exit(1);
}

static qn_node *operand(qn_graph *g, const char *name, int64_t batch, int64_t heads, int64_t n, int64_t d)
{
    return qn__permute(g, qn__input(g, name, QN_DTYPE_F32, &qn_shape_of(batch, n, heads, d)), (int[]){0, 2, 1, 3}, 4);
}

static double measure(qn_sched *sched, const shape *s, bool back)
{
    qn_error err = {0};
    qn_graph *g;
    qn_exec *e;
    if (qn__graph_create(&g, &err) != QN_OK) die(&err);
    const qn_sdpa_attrs attrs = {.scale = 0.125, .causal = 1};
    qn_node *q = operand(g, "q", s->batch, s->heads, s->n, s->d),
            *k = operand(g, "k", s->batch, s->kv_heads, s->n, s->d);
    qn_node *v = operand(g, "v", s->batch, s->kv_heads, s->n, s->d), *y = qn__sdpa(g, q, k, v, NULL, NULL, &attrs);
    if (back) {
        qn_node *result = qn__input(g, "y", QN_DTYPE_F32, &qn_shape_of(y->layout.dim[0]));
        y = qn__sdpa_back(g, q, k, v, result, operand(g, "dy", s->batch, s->heads, s->n, s->d), NULL, &attrs);
    }
    qn__output(g, y);
    if (qn__sched_compile(sched, g, NULL, 0, &e, &err) != QN_OK) die(&err);
    static const char *const names[] = {"q", "k", "v", "y", "dy"};
    for (int i = 0; i < (back ? 5 : 3); i++) {
        const qn_node *in = qn__exec_find(e, names[i]);
        const size_t n = (size_t)qn__node_bytes(in) / 4;
        float *data = malloc(n * 4);
        for (size_t c = 0; c < n; c++) data[c] = (float)(c % 97) * 0.01f - 0.5f;
        if (qn__exec_set(e, in, data, n * 4, &err) != QN_OK) die(&err);
        free(data);
    }
    double best = 1e30;
    for (int i = 0; i < 12; i++) {
        const int64_t start = qn__now_ns();
        if (qn__exec_run(e, NULL, &err) != QN_OK) die(&err);
        const double ns = (double)(qn__now_ns() - start);
        if (ns < best) best = ns;
    }
    return best;
}

int main(int argc, char **argv)
{
    qn_error err = {0};
    qn_cpu_level level = QN_CPU_LEVEL_COUNT - 1;
    if (argc > 1 && !qn_cpu_level_find(argv[1], &level)) return 2;
    level = qn__kernels_get(level)->level;
    const int threads = argc > 2 ? atoi(argv[2]) : qn__default_threads();
    qn_backend *be;
    qn_sched *sched;
    if (qn__backend_cpu.open(&(qn_backend_options){.level = level, .level_set = true, .n_threads = threads}, &be,
                             &err) != QN_OK)
        die(&err);
    if (qn__sched_create(&be, 1, NULL, &sched, &err) != QN_OK) die(&err);
    printf("%s, %d threads\nbatch heads kv    n    d        forward             backward\n", qn_cpu_level_name(level),
           threads);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        const double flop = (double)(s->batch * s->heads * s->n * (s->n + 1) * s->d);
        const double forward = measure(sched, s, false), back = measure(sched, s, true);
        printf("%5d %5d %2d %4d %4d %7.2f ms %6.1f    %7.2f ms %6.1f\n", (int)s->batch, (int)s->heads, (int)s->kv_heads,
               (int)s->n, (int)s->d, forward * 1e-6, 2 * flop / forward, back * 1e-6, 5 * flop / back);
    }
    qn__sched_destroy(sched);
    qn__backend_cpu.close(be);
    return 0;
}
