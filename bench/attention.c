/* SPDX-License-Identifier: MIT */
/* bench/attention.c -- bench_attention [threads [level [shape [queries]]]]: what one layer's attention costs, in the
 * shape of a 1.1 B Llama (32 heads, 4 KV heads, head size 64), of an 8 B one (32, 8, 128) and of gemma-3-1b's full
 * layers (4, 1, 256), by depth, number of queries and format of the cache. The last query sees the whole depth, every
 * other one cell less than the next; cells lie in order. As in a model there are so many layers that no cache holds
 * their K and V. Medians of several runs, with the arithmetic (4 d operations a query, head and cell) and the bytes of
 * K and V that one pass reads as rates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sched.h"
#include "base/thread.h"
#include "cpu/dispatch.h"
#include <quern/machine.h>

extern const qn_backend_type qn__backend_cpu;

enum { LAYERS = 32 };
static const size_t all_bytes = 96u << 20; /* what all layers hold, about */

typedef struct shape {
    const char *name;
    int64_t n_head, n_kv, d;
} shape;

static void must(qn_status status, const qn_error *err)
{
    if (status == QN_OK) return;
    fprintf(stderr, "bench_attention: %s\n", err->text);
    exit(1);
}
#define OK(call) \
    do { \
        qn_error e_ = {0}, *err = &e_; \
        must(call, err); \
    } while (0)

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A cache whose bytes are legal in every format: small numbers with a scale of 1 or so. */
static void fill(uint8_t *data, size_t bytes, qn_dtype dtype)
{
    float row[256];
    uint8_t packed[1024];
    uint32_t seed = 1;
    for (int i = 0; i < 256; i++) row[i] = (float)((seed = seed * 1664525 + 1013904223) >> 20) / 4096.0f - 0.5f;
    const size_t n = (size_t)qn_dtype_row_bytes(dtype, 256);
    qn_kernels const *kernels = qn__kernels_get(QN_CPU_ref);
    if (dtype == QN_DTYPE_F16)
        kernels->f32_to_f16((uint16_t *)(void *)packed, row, 256);
    else if (dtype == QN_DTYPE_BF16)
        kernels->f32_to_bf16((uint16_t *)(void *)packed, row, 256);
    else if (dtype == QN_DTYPE_Q8_0)
        kernels->f32_to_q8_0(packed, row, 256);
    else
        memcpy(packed, row, n);
    for (size_t at = 0; at < bytes; at += n) memcpy(data + at, packed, bytes - at < n ? bytes - at : n);
}

static qn_buffer *buffer_of(qn_backend *be, size_t bytes, qn_dtype dtype)
{
    qn_buffer *buffer;
    OK(qn__backend_cpu.buffer_create(be, bytes, &buffer, err));
    fill(buffer->host, bytes, dtype);
    return buffer;
}

static void one(qn_backend *be, const shape *s, int64_t depth, int64_t n, qn_dtype dtype, int runs)
{
    qn_sched *sched;
    qn_graph *g;
    qn_exec *e;
    const int64_t cells = depth;
    const size_t kv_bytes = (size_t)(cells * s->n_kv) * (size_t)qn_dtype_row_bytes(dtype, s->d);
    const int layers = n > 16 || all_bytes / kv_bytes < 4  ? 1
                       : all_bytes / kv_bytes / 2 > LAYERS ? LAYERS
                                                           : (int)(all_bytes / kv_bytes / 2);
    qn_buffer *kb[LAYERS], *vb[LAYERS];
    float *q = malloc((size_t)(n * s->n_head * s->d) * 4);
    int32_t *list = malloc((size_t)cells * 4), *spans = malloc((size_t)n * 12);
    double ns[64];

    fill((uint8_t *)q, (size_t)(n * s->n_head * s->d) * 4, QN_DTYPE_F32);
    for (int64_t i = 0; i < cells; i++) list[i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) {
        spans[3 * i] = spans[3 * i + 1] = 0;
        spans[3 * i + 2] = (int32_t)(depth - n + 1 + i);
    }
    OK(qn__sched_create(&be, 1, NULL, &sched, err));
    OK(qn__graph_create(&g, err));
    const qn_shape q_shape = qn_shape_of(n, s->n_head, s->d), kv_shape = qn_shape_of(cells, s->n_kv, s->d);
    const qn_shape list_shape = qn_shape_of(1, cells), span_shape = qn_shape_of(n, 3);
    qn_node *qn = qn__input(g, "q", QN_DTYPE_F32, &q_shape), *ln = qn__input(g, "list", QN_DTYPE_I32, &list_shape);
    qn_node *sn = qn__input(g, "spans", QN_DTYPE_I32, &span_shape);
    for (int i = 0; i < layers; i++) {
        kb[i] = buffer_of(be, kv_bytes, dtype);
        vb[i] = buffer_of(be, kv_bytes, dtype);
        qn_node *k = qn__param(g, "k", dtype, &kv_shape, kb[i], 0, 0),
                *v = qn__param(g, "v", dtype, &kv_shape, vb[i], 0, 0);
        qn_node *y = qn__attention(g, &(qn_attn_sources){.q = qn, .k = k, .v = v, .lists = ln, .spans = sn},
                                   &(qn_attn_attrs){.scale = 0.125f});
        qn__output(g, y);
    }
    OK(qn__sched_compile(sched, g, NULL, 0, &e, err));
    OK(qn__exec_set(e, qn__exec_find(e, "q"), q, (size_t)(n * s->n_head * s->d) * 4, err));
    OK(qn__exec_set(e, qn__exec_find(e, "list"), list, (size_t)cells * 4, err));
    OK(qn__exec_set(e, qn__exec_find(e, "spans"), spans, (size_t)n * 12, err));
    for (int i = -1; i < runs; i++) {
        const int64_t begin = qn__now_ns();
        OK(qn__exec_run(e, NULL, err));
        if (i >= 0) ns[i] = (double)(qn__now_ns() - begin) / layers;
    }
    qsort(ns, (size_t)runs, sizeof(ns[0]), by_value);
    const double seen = (double)n * ((double)depth - (double)(n - 1) / 2), median = ns[runs / 2];
    printf("%-6s %-5s depth %5lld, %4lld queries: %9.1f us, %6.1f Gflop/s, %5.1f GB/s\n", s->name,
           qn_dtype_get(dtype)->name, (long long)depth, (long long)n, median / 1e3,
           4.0 * (double)(s->d * s->n_head) * seen / median, 2 * (double)kv_bytes / median);
    fflush(stdout);
    qn__sched_destroy(sched);
    for (int i = 0; i < layers; i++) {
        qn__backend_cpu.buffer_destroy(kb[i]);
        qn__backend_cpu.buffer_destroy(vb[i]);
    }
    free(q);
    free(list);
    free(spans);
}

int main(int argc, char **argv)
{
    static const shape shapes[] = {{"1.1B", 32, 4, 64}, {"8B", 32, 8, 128}, {"mha", 16, 16, 64}, {"gemma", 4, 1, 256}};
    static const qn_dtype dtypes[] = {QN_DTYPE_F16, QN_DTYPE_Q8_0};
    static const int64_t sizes[][2] = {{256, 1},  {2048, 1},  {8192, 1},  {32768, 1}, {2048, 2},  {2048, 4},
                                       {2048, 8}, {2048, 16}, {2048, 33}, {2048, 63}, {512, 512}, {2560, 512}};
    qn_cpu_level level = QN_CPU_LEVEL_COUNT - 1;
    qn_backend *be;
    if (argc > 2 && !qn_cpu_level_find(argv[2], &level)) return 2;
    OK(qn__backend_cpu.open(
        &(qn_backend_options){.n_threads = argc > 1 ? atoi(argv[1]) : 0, .level = level, .level_set = true}, &be, err));
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        if (argc > 3 && strcmp(argv[3], "all") != 0 && strcmp(argv[3], shapes[s].name) != 0) continue;
        for (size_t t = 0; t < 2; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                if (argc <= 4 || sizes[i][1] == atoi(argv[4]))
                    one(be, &shapes[s], sizes[i][0], sizes[i][1], dtypes[t], sizes[i][1] > 16 ? 5 : 15);
    }
    qn__backend_cpu.close(be);
    return 0;
}
