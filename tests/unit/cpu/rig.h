/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/rig.h -- runs a small graph on the CPU backend at every level of this machine and with 1, 2 and 3
 * threads. A test writes one `build` function that makes tensors into inputs and params and returns the node to read,
 * and compares with an oracle in double that it computes from the same tensors. */
#ifndef QN_TEST_RIG_H
#define QN_TEST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sched.h"
#include "base/mem.h"
#include "cpu/dispatch.h"
#include "quant/quant.h"

extern const qn_backend_type qn__backend_cpu;

#define OK(call) \
    do { \
        qn_error ok_err_ = {0}; \
        qn_error *err = &ok_err_; \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, ok_err_.text); \
    } while (0)

/* ---- data ------------------------------------------------------------------------------------ */

typedef struct tensor {
    qn_dtype dtype;
    qn_shape shape;
    int64_t numel;
    size_t bytes;
    void *data;
    float *value; /* what the data stands for; NULL for integers */
} tensor;

static uint64_t rng_state = 88172645463325252u;
static inline uint64_t rng_next(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    return rng_state ^= rng_state << 17;
}
static inline int64_t rng_int(int64_t lo, int64_t hi) { return lo + (int64_t)(rng_next() % (uint64_t)(hi - lo + 1)); }
static inline float rng_float(void) /* roughly normal */
{
    double s = 0;
    for (int i = 0; i < 4; i++) s += (double)(rng_next() >> 11) * 0x1p-53 - 0.5;
    return (float)(s * 1.7);
}

/* Before a function of a test that no thread but its own has to do with: the thread sanitizer would see nothing there,
 * but take most of its time for it. */
#ifdef __SANITIZE_THREAD__
#define ORACLE __attribute__((no_sanitize_thread))
#else
#define ORACLE
#endif

static inline tensor tensor_new(qn_dtype dtype, qn_shape shape)
{
    const int64_t numel = qn_shape_numel(&shape), rows = shape.rank ? shape.dim[shape.rank - 1] : 1;
    tensor t = {dtype, shape, numel, 0, NULL, NULL};
    t.bytes = rows > 0 ? (size_t)(numel / rows * qn_dtype_row_bytes(dtype, rows)) : 0;
    t.data = calloc(1, t.bytes + 1);
    return t;
}
static inline void tensor_free(tensor *t)
{
    if (t->value != t->data) free(t->value);
    free(t->data);
}
/* Random values in any format that packs. */
static inline tensor tensor_random(qn_dtype dtype, qn_shape shape)
{
    tensor t = tensor_new(dtype, shape);
    const int64_t row = shape.rank ? shape.dim[shape.rank - 1] : 1;
    t.value = malloc((size_t)t.numel * 4 + 4);
    for (int64_t i = 0; i < t.numel; i++) t.value[i] = rng_float();
    if (t.numel == 0) return t;
    OK(qn_pack(dtype, t.value, t.data, t.numel / row, row, NULL, err));
    OK(qn_unpack(dtype, t.data, t.value, t.numel, err));
    return t;
}
static inline tensor tensor_ints(qn_shape shape, const int32_t *values)
{
    tensor t = tensor_new(QN_DTYPE_I32, shape);
    if (values) memcpy(t.data, values, t.bytes);
    return t;
}
static inline int32_t *ints_of(const tensor *t) { return t->data; }

/* ---- running --------------------------------------------------------------------------------- */

enum { RIG_MAX = 16 };

typedef struct rig {
    qn_backend *be;
    qn_sched *sched;
    qn_graph *g;
    qn_buffer *buffers[RIG_MAX];
    int n_buffers;
    const tensor *inputs[RIG_MAX];
    char names[RIG_MAX][8];
    int n_inputs;
    const qn_kernels *kernels;
} rig;

static inline void rig_open(rig *r, qn_cpu_level level, int n_threads)
{
    *r = (rig){0};
    OK(qn__backend_cpu.open(&(qn_backend_options){.level = level, .level_set = true, .n_threads = n_threads}, &r->be,
                            err));
    OK(qn__sched_create(&r->be, 1, NULL, &r->sched, err));
    r->kernels = qn__kernels_get(level);
}

static inline void rig_reset(rig *r)
{
    for (int i = 0; i < r->n_buffers; i++) qn__backend_cpu.buffer_destroy(r->buffers[i]);
    r->n_buffers = r->n_inputs = 0;
}

static inline void rig_close(rig *r)
{
    qn__sched_destroy(r->sched);
    rig_reset(r);
    qn__backend_cpu.close(r->be);
}

static inline qn_node *rig_input(rig *r, const tensor *t)
{
    assert_true(r->n_inputs < RIG_MAX);
    const int i = r->n_inputs++;
    r->inputs[i] = t;
    snprintf(r->names[i], sizeof(r->names[i]), "in%d", i);
    return qn__input(r->g, r->names[i], t->dtype, &t->shape);
}

static inline qn_node *rig_param(rig *r, const tensor *t, uint32_t flags)
{
    assert_true(r->n_buffers < RIG_MAX);
    qn_buffer **buffer = &r->buffers[r->n_buffers++];
    OK(qn__backend_cpu.buffer_create(r->be, t->bytes + 1, buffer, err));
    OK(qn__backend_cpu.upload(*buffer, 0, t->data, t->bytes, err));
    return qn__param(r->g, "param", t->dtype, &t->shape, *buffer, 0, flags);
}

typedef qn_node *(*build_fn)(rig *r, void *ctx);

/* Builds, compiles, runs; gives the bytes of the node that `build` returned. */
static inline void *rig_run(rig *r, build_fn build, void *ctx, size_t *bytes)
{
    qn_exec *e;
    rig_reset(r);
    OK(qn__graph_create(&r->g, err));
    qn_node *out = build(r, ctx);
    qn__output(r->g, qn__name(r->g, out, "result"));
    OK(qn__sched_compile(r->sched, r->g, NULL, 0, &e, err));
    for (int i = 0; i < r->n_inputs; i++) {
        const qn_node *in = qn__exec_find(e, r->names[i]);
        if (in) OK(qn__exec_set(e, in, r->inputs[i]->data, r->inputs[i]->bytes, err));
    }
    OK(qn__exec_run(e, NULL, err));
    const qn_node *result = qn__exec_find(e, "result");
    assert_non_null(result);
    *bytes = (size_t)qn__node_bytes(result);
    void *data = malloc(*bytes + 1);
    OK(qn__exec_get(e, result, data, 0, *bytes, err));
    return data;
}

/* Is the level there, or would it repeat the one below? The thread sanitizer looks at drivers, which are the same at
 * every level: it gets the fastest one. */
static inline bool level_exists(qn_cpu_level level)
{
#ifdef __SANITIZE_THREAD__
    if (level != qn__kernels_get(QN_CPU_LEVEL_COUNT - 1)->level) return false;
#endif
    return qn__kernels_get(level)->level == level;
}

#ifdef __SANITIZE_THREAD__ /* sees nothing in one */
enum { FEWEST_THREADS = 2 };
#else
enum { FEWEST_THREADS = 1 };
#endif

/* Calls `check` with the result at every level; the bits must not depend on the thread count. */
static inline void for_levels(build_fn build, void *ctx,
                              void (*check)(const rig *r, const void *result, size_t bytes, void *ctx))
{
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        void *first = NULL;
        for (int threads = FEWEST_THREADS; threads <= 3; threads++) {
            rig r;
            size_t bytes;
            rig_open(&r, (qn_cpu_level)level, threads);
            void *result = rig_run(&r, build, ctx, &bytes);
            if (!first) {
                check(&r, result, bytes, ctx);
                first = result;
            } else {
                assert_memory_equal(first, result, bytes);
                free(result);
            }
            rig_close(&r);
        }
        free(first);
    }
}

/* One level, two threads: for comparing batches. */
static inline void *run_at(qn_cpu_level level, build_fn build, void *ctx, size_t *bytes)
{
    rig r;
    rig_open(&r, level, 2);
    void *result = rig_run(&r, build, ctx, bytes);
    rig_close(&r);
    return result;
}

static inline void close_to(double have, double want, double bound, const char *what, int64_t i)
{
    if (fabs(have - want) <= bound || (isnan(have) && isnan(want)) || have == want) return;
    fail_msg("%s, element %lld: %.9g, %.9g expected, bound %.3g", what, (long long)i, have, want, bound);
}

#endif
