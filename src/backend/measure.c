/* SPDX-License-Identifier: MIT */
/* src/backend/measure.c -- how fast a device copies and multiplies, by the functions that models use it by. */
#include "backend/sched.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { SLICES = 5, MOST_COPIED = 256 << 20, LEAST_COPIED = 1 << 20, COLUMNS = 512, LARGEST = 8192 };

typedef struct bench {
    qn_backend *be;
    qn_buffer *from, *to; /* of `bytes` */
    uint64_t bytes;
    void *host;
    bool pinned;
    qn_exec *exec;
} bench;

typedef qn_status (*measured)(bench *b, qn_error *err);

/* Calls of `work` a second, when it is called over and over for `seconds`. */
static qn_status rate(bench *b, measured work, double seconds, double *out, qn_error *err)
{
    QN_TRY(work(b, err)); /* what the first call does beside */
    QN_TRY(qn__backend_sync(b->be, err));
    for (int64_t n = 1;; n *= 2) {
        const int64_t start = qn__now_ns();
        for (int64_t i = 0; i < n; i++) QN_TRY(work(b, err));
        QN_TRY(qn__backend_sync(b->be, err));
        const double took = 1e-9 * (double)(qn__now_ns() - start);
        if (took > 0) *out = (double)n / took;
        if (took >= seconds / 2 || n > 1 << 20) return QN_OK;
    }
}

static qn_status copy(bench *b, qn_error *err) { return b->be->type->copy(b->to, 0, b->from, 0, b->bytes, err); }

static qn_status up(bench *b, qn_error *err)
{
    return b->pinned ? b->be->type->send(b->to, 0, b->host, b->bytes, err)
                     : b->be->type->upload(b->to, 0, b->host, b->bytes, err);
}

static qn_status down(bench *b, qn_error *err) { return b->be->type->download(b->to, 0, b->host, b->bytes, err); }

static qn_status multiply(bench *b, qn_error *err) { return qn__exec_run(b->exec, NULL, err); }

static void close_transfers(bench *b)
{
    const qn_backend_type *type = b->be->type;
    (void)qn__backend_sync(b->be, NULL);
    if (b->pinned)
        type->host_free(b->be, b->host);
    else
        qn__free(b->host);
    if (b->from) type->buffer_destroy(b->from);
    if (b->to) type->buffer_destroy(b->to);
    *b = (bench){.be = b->be};
}

static qn_status open_transfers(bench *b, uint64_t memory_bytes, qn_error *err)
{
    const qn_backend_type *type = b->be->type;
    b->bytes = memory_bytes / 32 < MOST_COPIED ? memory_bytes / 32 : MOST_COPIED;
    if (b->bytes < LEAST_COPIED) b->bytes = LEAST_COPIED;
    QN_TRY(type->buffer_create(b->be, b->bytes, &b->from, err));
    QN_TRY(type->buffer_create(b->be, b->bytes, &b->to, err));
    if (type->host_alloc && type->send) {
        QN_TRY(type->host_alloc(b->be, b->bytes, &b->host, err));
        b->pinned = true;
    } else if (!(b->host = qn__alloc(b->bytes))) {
        return QN_FAIL_NOMEM(err, b->bytes);
    }
    memset(b->host, 1, b->bytes);
    return type->upload(b->from, 0, b->host, b->bytes, err);
}

static qn_status measure_transfers(bench *b, double seconds, qn_device_peaks *out, qn_error *err)
{
    double calls = 0;
    if (b->be->type->copy) {
        QN_TRY(rate(b, copy, seconds, &calls, err));
        out->copy_gb_s = 2e-9 * calls * (double)b->bytes;
    }
    QN_TRY(rate(b, up, seconds, &calls, err));
    out->up_gb_s = 1e-9 * calls * (double)b->bytes;
    QN_TRY(rate(b, down, seconds, &calls, err));
    out->down_gb_s = 1e-9 * calls * (double)b->bytes;
    return QN_OK;
}

/* Of [columns, n] by [n, n]. */
static qn_status product(bench *b, qn_sched *s, qn_buffer *memory, qn_dtype dtype, int64_t n, int64_t columns,
                         double seconds, double *calls, qn_error *err)
{
    const uint64_t x_bytes = (uint64_t)(columns * n) * sizeof(float);
    const qn_shape x_shape = {2, {columns, n}}, w_shape = {2, {n, n}};
    qn_graph *g = NULL;
    QN_TRY(qn__graph_create(&g, err));
    qn_node *x = qn__param(g, "x", QN_DTYPE_F32, &x_shape, memory, 0, 0),
            *w = qn__param(g, "w", dtype, &w_shape, memory, x_bytes, 0);
    qn__output(g, qn__linear(g, x, w, NULL));
    QN_TRY(qn__sched_compile(s, g, "", 0, &b->exec, err));
    return rate(b, multiply, seconds, calls, err);
}

/* Sizes grow for as long as that takes less than the time there is: a small device gets a small product. */
static qn_status measure_products(bench *b, uint64_t memory_bytes, qn_dtype dtype, double seconds, double *out,
                                  qn_error *err)
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    for (int64_t n = 256; n <= LARGEST; n *= 2) {
        const int64_t columns = n < COLUMNS ? n : COLUMNS;
        const uint64_t bytes =
            (uint64_t)(columns * n) * sizeof(float) + (uint64_t)(n * n / d->block_elems * d->block_bytes);
        if (n > 256 && bytes > memory_bytes / 16) return QN_OK;
        qn_sched *s = NULL;
        qn_buffer *memory = NULL;
        double calls = 0;
        QN_TRY(b->be->type->buffer_create(b->be, bytes, &memory, err));
        void *ones = qn__alloc(bytes);
        qn_status status = ones ? QN_OK : QN_FAIL_NOMEM(err, bytes);
        if (ones) memset(ones, 0x2c, bytes); /* a small number in every format */
        if (status == QN_OK) status = b->be->type->upload(memory, 0, ones, bytes, err);
        qn__free(ones);
        if (status == QN_OK) status = qn__sched_create(&b->be, 1, &(qn_sched_options){.strict = true}, &s, err);
        if (status == QN_OK) status = product(b, s, memory, dtype, n, columns, seconds / 4, &calls, err);
        qn__sched_destroy(s);
        (void)qn__backend_sync(b->be, NULL);
        b->be->type->buffer_destroy(memory);
        QN_TRY(status);
        const double ops = 2e-9 * (double)n * (double)n * (double)columns * calls;
        if (ops > *out) *out = ops;
        if (calls * seconds < 16) return QN_OK; /* the next one takes four to eight times as long */
    }
    return QN_OK;
}

qn_status qn_device_measure(const char *backend, double seconds, qn_device_peaks *out, qn_error *err)
{
    bench b = {0};
    int n = 0;
    const double slice = (seconds > 0 ? seconds : 1.0) / SLICES;
    *out = (qn_device_peaks){0};
    qn_status status = qn__backends_open(backend, 0, 1, &b.be, &n, err);
    if (status != QN_OK) return status;
    const uint64_t left = b.be->type->memory ? b.be->type->memory(b.be).left : 0, memory = left ? left : 1ull << 30;
    status = open_transfers(&b, memory, err);
    if (status == QN_OK) status = measure_transfers(&b, slice, out, err);
    close_transfers(&b);
    if (status == QN_OK) status = measure_products(&b, memory, QN_DTYPE_Q8_0, slice, &out->int8_gops, err);
    if (status == QN_OK) status = measure_products(&b, memory, QN_DTYPE_F16, slice, &out->f16_gflops, err);
    b.be->type->close(b.be);
    return status;
}
