/* SPDX-License-Identifier: MIT */
/* bench/gemm.c -- products of float32 matrices as training does them: Gflop/s and the share of what fused multiply-adds
 * reach at best on this machine (probe_f32), for A B, A B^T, A^T B, and A B^T as `linear` computes it, each alone on 1
 * thread and on all.
 *
 *     bench_gemm [level] [threads] [m n k]     avx512; one table for one thread, one for all */
#include "backend/sched.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const qn_backend_type qn__backend_cpu;

typedef struct shape {
    const char *what;
    int64_t batch, m, n, k;
} shape;
/* clang-format off */
static const shape shapes[] = {
    {"square", 1, 64, 64, 64},        {"square", 1, 128, 128, 128},     {"square", 1, 256, 256, 256},
    {"square", 1, 512, 512, 512},
    {"square", 1, 1024, 1024, 1024},  {"square", 1, 2048, 2048, 2048},  {"up", 1, 2048, 1024, 256},
    {"down", 1, 2048, 256, 1024},
    {"logits", 1, 2048, 4096, 256},   {"weight", 1, 256, 1024, 2048},   {"scores", 64, 64, 64, 32},
    {"scores", 32, 256, 256, 64},
    {"q", 1, 2048, 256, 256},         {"gate", 1, 2048, 768, 256},      {"weight", 1, 768, 256, 2048},
    {"values", 32, 256, 64, 256},     {"odd", 1, 509, 509, 509},        {"thin", 1, 4096, 16, 4096},
    {"row", 1, 1, 4096, 4096},
};
/* clang-format on */

static double peak; /* of one thread */

static double probe(const qn_kernels *kernels)
{
    double best = 0;
    for (int i = 0; i < 8; i++) {
        const int64_t start = qn__now_ns();
        const int64_t done = kernels->probe_f32(INT64_C(1) << 28);
        const double gflops = 2.0 * (double)done / (double)(qn__now_ns() - start);
        if (gflops > best) best = gflops;
    }
    return best;
}

static void die(const qn_error *err)
{
    fprintf(stderr, "bench_gemm: %s\n", err->text);
    exit(1);
}

/* A matrix [batch, rows, cols], or its transpose seen as that. */
static qn_node *operand(qn_graph *g, const char *name, int64_t batch, int64_t rows, int64_t cols, bool transposed)
{
    if (!transposed) return qn__input(g, name, QN_DTYPE_F32, &qn_shape_of(batch, rows, cols));
    return qn__permute(g, qn__input(g, name, QN_DTYPE_F32, &qn_shape_of(batch, cols, rows)), (int[]){0, 2, 1}, 3);
}

static qn_node *by_linear(qn_graph *g, const shape *s)
{
    qn_node *a = qn__input(g, "a", QN_DTYPE_F32, &qn_shape_of(s->m, s->k));
    return qn__linear(g, a, qn__input(g, "b", QN_DTYPE_F32, &qn_shape_of(s->n, s->k)), NULL);
}

static double measure(qn_sched *sched, const shape *s, bool transpose_a, bool transpose_b, bool linear)
{
    qn_error err = {0};
    qn_graph *g;
    qn_exec *e;
    if (qn__graph_create(&g, &err) != QN_OK) die(&err);
    if (linear)
        qn__output(g, by_linear(g, s));
    else
        qn__output(g, qn__matmul(g, operand(g, "a", s->batch, s->m, s->k, transpose_a),
                                 operand(g, "b", s->batch, s->k, s->n, transpose_b)));
    if (qn__sched_compile(sched, g, NULL, 0, &e, &err) != QN_OK) die(&err);
    const char *const names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        const qn_node *in = qn__exec_find(e, names[i]);
        const size_t n = (size_t)qn__node_bytes(in) / 4;
        float *data = malloc(n * 4);
        for (size_t k = 0; k < n; k++) data[k] = (float)(k % 97) * 0.01f - 0.5f;
        if (qn__exec_set(e, in, data, n * 4, &err) != QN_OK) die(&err);
        free(data);
    }
    double best = 1e30;
    const double flop = 2.0 * (double)s->batch * (double)s->m * (double)s->n * (double)s->k;
    const int rounds = flop > 1e9 ? 5 : flop > 1e8 ? 20 : 100;
    for (int i = 0; i < rounds; i++) {
        const int64_t start = qn__now_ns();
        if (qn__exec_run(e, NULL, &err) != QN_OK) die(&err);
        const double ns = (double)(qn__now_ns() - start);
        if (ns < best) best = ns;
    }
    return flop / best;
}

static void table(qn_cpu_level level, int threads, const shape *list, int n)
{
    qn_error err = {0};
    qn_backend *be;
    qn_sched *sched;
    if (qn__backend_cpu.open(&(qn_backend_options){.level = level, .level_set = true, .n_threads = threads}, &be,
                             &err) != QN_OK)
        die(&err);
    if (qn__sched_create(&be, 1, NULL, &sched, &err) != QN_OK) die(&err);
    printf("%s, %d thread%s, peak %.0f Gflop/s a thread\n%-8s %22s %18s %18s %18s %18s\n", qn_cpu_level_name(level),
           threads, threads == 1 ? "" : "s", peak, "", "batch m n k", "A B", "A B^T", "A^T B", "linear");
    for (int i = 0; i < n; i++) {
        printf("%-8s %4lld %5lld %5lld %5lld", list[i].what, (long long)list[i].batch, (long long)list[i].m,
               (long long)list[i].n, (long long)list[i].k);
        for (int way = 0; way < (list[i].batch == 1 ? 4 : 3); way++) {
            const double gflops = measure(sched, &list[i], way == 2, way == 1, way == 3);
            printf("   %7.1f  %5.1f %%", gflops, 100 * gflops / (peak * threads));
        }
        printf("\n");
    }
    qn__sched_destroy(sched);
    qn__backend_cpu.close(be);
}

int main(int argc, char **argv)
{
    qn_cpu_level level = QN_CPU_LEVEL_COUNT - 1;
    if (argc > 1 && !qn_cpu_level_find(argv[1], &level)) return 2;
    level = qn__kernels_get(level)->level;
    peak = probe(qn__kernels_get(level));
    const shape own = {"given", 1, argc > 5 ? atoll(argv[3]) : 0, argc > 5 ? atoll(argv[4]) : 0,
                       argc > 5 ? atoll(argv[5]) : 0};
    const shape *list = argc > 5 ? &own : shapes;
    const int n = argc > 5 ? 1 : (int)(sizeof shapes / sizeof shapes[0]), only = argc > 2 ? atoi(argv[2]) : 0;
    if (only != 0) {
        table(level, only, list, n);
        return 0;
    }
    table(level, 1, list, n);
    if (qn__default_threads() > 1) table(level, qn__default_threads(), list, n);
    return 0;
}
