/* SPDX-License-Identifier: MIT */
/* bench/pointwise.c -- how fast operations element by element and reductions run as graphs of one node: bench_pointwise
 * [THREADS]. GB/s counts what is read and written once. */
#include "backend/sched.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>

extern const qn_backend_type qn__backend_cpu;

typedef struct row {
    const char *name;
    qn_op op;
    int64_t rows, cols;
    int n_src;
    bool row_vector; /* source 1 is one row */
    int dim;         /* of reductions and scans */
} row;

/* clang-format off */
static const row table[] = {
    {"add 1M", QN_OP_add, 1024, 1024, 2, false, 0},         {"add 4k x 256 + row", QN_OP_add, 4096, 256, 2, true, 0},
    {"div 1M", QN_OP_div, 1024, 1024, 2, false, 0},         {"lt 1M", QN_OP_lt, 1024, 1024, 2, false, 0},
    {"exp 1M", QN_OP_exp, 1024, 1024, 1, false, 0},         {"log 1M", QN_OP_log, 1024, 1024, 1, false, 0},
    {"tanh 1M", QN_OP_tanh, 1024, 1024, 1, false, 0},       {"gelu 1M", QN_OP_gelu, 1024, 1024, 1, false, 0},
    {"sigmoid 1M", QN_OP_sigmoid, 1024, 1024, 1, false, 0}, {"relu 1M", QN_OP_relu, 1024, 1024, 1, false, 0},
    {"sin 1M", QN_OP_sin, 1024, 1024, 1, false, 0},         {"sum rows", QN_OP_sum, 4096, 256, 1, false, 2},
    {"sum columns", QN_OP_sum, 4096, 256, 1, false, 1},     {"sum all", QN_OP_sum, 4096, 256, 1, false, 3},
    {"var rows", QN_OP_var, 4096, 256, 1, false, 2},        {"amax columns", QN_OP_amax, 4096, 256, 1, false, 1},
    {"argmax rows", QN_OP_argmax, 4096, 256, 1, false, 2},  {"softmax rows", QN_OP_softmax, 4096, 256, 1, false, 1},
    {"log_softmax rows", QN_OP_log_softmax, 256, 4096, 1, false, 1},
    {"cumsum rows", QN_OP_cumsum, 4096, 256, 1, false, 1},
    {"softmax columns", QN_OP_softmax, 256, 4096, 1, false, 0},
};
/* clang-format on */

static int fail(const qn_error *err)
{
    fprintf(stderr, "bench_pointwise: %s\n", err->text);
    return 1;
}

static qn_node *node_of(qn_graph *g, const row *r, qn_node *const *src)
{
    if (r->op == QN_OP_gelu) return qn__gelu(g, src[0], false);
    if (r->op == QN_OP_softmax || r->op == QN_OP_log_softmax || r->op == QN_OP_cumsum)
        return qn__along(g, r->op, src[0], r->dim);
    if (r->dim == 0) return qn__op(g, r->op, NULL, src, r->n_src);
    return qn__op(g, r->op, &(qn_reduce_attrs){(uint32_t)r->dim, 0, 0}, src, 1);
}

static qn_status measure(qn_sched *sched, const row *r, const float *data, qn_error *err)
{
    qn_graph *g;
    qn_exec *e;
    const qn_shape shapes[2] = {qn_shape_of(r->rows, r->cols),
                                r->row_vector ? qn_shape_of(r->cols) : qn_shape_of(r->rows, r->cols)};
    qn_node *src[2];
    QN_TRY(qn__graph_create(&g, err));
    for (int i = 0; i < r->n_src; i++) src[i] = qn__input(g, i ? "b" : "a", QN_DTYPE_F32, &shapes[i]);
    qn_node *y = node_of(g, r, src);
    qn__output(g, qn__name(g, y, "y"));
    const double bytes = 4.0 * (double)(qn_shape_numel(&shapes[0]) + (r->n_src > 1 ? qn_shape_numel(&shapes[1]) : 0)) +
                         (double)qn__node_bytes(y);
    QN_TRY(qn__sched_compile(sched, g, NULL, 0, &e, err));
    for (int i = 0; i < r->n_src; i++)
        QN_TRY(qn__exec_set(e, qn__exec_find(e, i ? "b" : "a"), data, (uint64_t)(4 * qn_shape_numel(&shapes[i])), err));
    int64_t best = INT64_MAX;
    for (int i = 0; i < 30; i++) {
        const int64_t begin = qn__now_ns();
        QN_TRY(qn__exec_run(e, NULL, err));
        const int64_t spent = qn__now_ns() - begin;
        best = spent < best ? spent : best;
    }
    printf("%-22s %9.1f us  %7.2f GB/s\n", r->name, (double)best * 1e-3, bytes / (double)best);
    return QN_OK;
}

int main(int argc, char **argv)
{
    enum { N = 1 << 20 };
    qn_error err = {0};
    qn_backend *be;
    qn_sched *sched;
    float *data = malloc(N * sizeof *data);
    if (!data) return 1;
    for (int i = 0; i < N; i++) data[i] = (float)((i * 2654435761u >> 8) % 8001) / 1000.0f - 3.9f;
    const qn_backend_options options = {.n_threads = argc > 1 ? atoi(argv[1]) : 1};
    if (qn__backend_cpu.open(&options, &be, &err) != QN_OK) return fail(&err);
    if (qn__sched_create(&be, 1, NULL, &sched, &err) != QN_OK) return fail(&err);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (measure(sched, &table[i], data, &err) != QN_OK) return fail(&err);
    qn__sched_destroy(sched);
    qn__backend_cpu.close(be);
    free(data);
    return 0;
}
