/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/rig.h -- one operation on the CPU and on a device with the same data: a case builds its graph, `try`
 * runs it on both and compares all bytes. */
#ifndef QN_TEST_GPU_RIG_H
#define QN_TEST_GPU_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/sched.h"
#include <quern/metrics.h>
#include "gpu/cuda.h"
#include "gpu/gpu.h"
#include "gpu/kernels/pointwise.h"
#include "cpu_of_devices.h"
#include "device.h"
#include "quant/quant.h"

#define OK(call) \
    do { \
        qn_error ok_err_ = {0}; \
        qn_error *err = &ok_err_; \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, ok_err_.text); \
    } while (0)

/* An OpenCL device, and the stand-in for libcuda.so.1 (tests/standin), which has kernels of its own for products. */
enum { CPU, OPENCL, CUDA, N_SIDES, MAX_INPUTS = 8, MAX_PARAMS = 4 };

static qn_backend *backends[N_SIDES];
static qn_sched *scheds[N_SIDES];
static int tried[QN_OP_COUNT][QN_DTYPE_COUNT], n_cases, n_wrong;
static int n_launched;      /* by the last run; a captured one is 1 */
static bool real_cuda;      /* no stand-in */
static int n_met, each = 1; /* every each-th case is tried: QN_SAME_BITS_EACH, for slow devices (tests/gpu) */

/* Under a sanitizer the stand-in only notes what it is told: what is tried then is the host's side. */
#ifdef QN_CHECKED
static const bool computes = false;
#else
static const bool computes = true;
#endif

/* ---- data: the same on both sides ---- */

static uint64_t mixed(uint64_t seed, uint64_t i)
{
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) + i * UINT64_C(0xD1B54A32D192ED03);
    z ^= z >> 32;
    z *= UINT64_C(0xD6E8FEB86659FD93);
    return z ^ z >> 32;
}

/* plain: numbers of layers; wild: any, with those that are none; small: few values, so that there are equal ones;
 * ids: -2 to `most` + 1. */
typedef enum fill { PLAIN, WILD, SMALL, IDS } fill;

static float number(fill f, uint64_t z)
{
    static const float special[] = {NAN,      INFINITY, -INFINITY, 0.0f,  -0.0f,     1,          -1,    0.5f,
                                    88.75f,   -104,     2.5f,      -2.5f, 0x1p-149f, -0x1p-127f, 3e38f, -3e38f,
                                    0x1p-24f, 65519,    -65520,    1e9f,  -3e9f,     0x1p63f,    7,     -3};
    const float in_4 = (float)((double)(z >> 20 & 0xffffff) * 0x1p-21 - 4);
    if (f == SMALL) return (float)((int)(z % 7) - 3) / 2;
    if (f == PLAIN) return in_4;
    if (z % 4 == 0) return special[(z >> 8) % (sizeof special / sizeof *special)];
    return z % 4 == 1 ? ldexpf(in_4, (int)((z >> 8) % 60) - 30) : in_4;
}

static void put(qn_dtype dtype, uint8_t *p, fill f, int64_t most, uint64_t z)
{
    const size_t bytes = (size_t)qn_dtype_get(dtype)->block_bytes;
    const float x = number(f, z);
    int64_t whole = f == IDS     ? (int64_t)(z % (uint64_t)(most + 4)) - 2
                    : f == SMALL ? (int64_t)(z % 5) - 2
                    : z % 3      ? (int64_t)(z >> 8) >> 40
                                 : (int64_t)z;
    const uint16_t half = (uint16_t)(dtype == QN_DTYPE_F16 ? qn__f32_to_f16(x) : qn__f32_to_bf16(x));
    const double wide = (double)x;
    if (dtype == QN_DTYPE_BOOL) whole = (int64_t)(z >> 8 & 1);
    memcpy(p,
           dtype == QN_DTYPE_F32                             ? (const void *)&x
           : dtype == QN_DTYPE_F64                           ? (const void *)&wide
           : dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16 ? (const void *)&half
                                                             : (const void *)&whole,
           bytes);
}

static uint8_t *data_of(qn_dtype dtype, const qn_shape *shape, fill f, int64_t most, uint64_t seed, size_t *bytes)
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    const int64_t n = qn_shape_numel(shape), blocks = n / d->block_elems;
    uint8_t *data = calloc((size_t)blocks + 1, (size_t)d->block_bytes);
    *bytes = (size_t)blocks * (size_t)d->block_bytes;
    if (d->block_elems == 1) {
        for (int64_t i = 0; i < n; i++) put(dtype, data + i * d->block_bytes, f, most, mixed(seed, (uint64_t)i));
        return data;
    }
    /* Any bytes are blocks; scales that are not finite would hide the rest. */
    float *x = calloc((size_t)d->block_elems, sizeof *x);
    for (int64_t b = 0; b < blocks; b++)
        for (uint64_t again = 0, good = 0; !good; again++) {
            for (int i = 0; i < d->block_bytes; i++)
                data[b * d->block_bytes + i] = (uint8_t)mixed(seed + again, (uint64_t)(b * d->block_bytes + i));
            OK(qn_unpack(dtype, data + b * d->block_bytes, x, d->block_elems, err));
            good = 1;
            for (int i = 0; i < d->block_elems; i++) good &= isfinite(x[i]) && fabsf(x[i]) < 1e4f;
        }
    free(x);
    return data;
}

/* ---- a graph on one side ---- */

typedef struct rig {
    int side;
    uint64_t seed;
    qn_graph *g;
    uint8_t *input[MAX_INPUTS], *param[MAX_PARAMS];
    size_t input_bytes[MAX_INPUTS], param_bytes[MAX_PARAMS];
    qn_buffer *buffer[MAX_PARAMS];
    int n_inputs, n_params;
    int watched; /* the param whose bytes are compared, instead of the result's; -1: none */
    const struct one_case *c;
} rig;

#define SHAPE(...) ((qn_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

static qn_node *input(rig *r, qn_dtype dtype, qn_shape shape, fill f, int64_t most)
{
    assert_true(r->n_inputs < MAX_INPUTS);
    const int i = r->n_inputs++;
    char name[8];
    r->input[i] = data_of(dtype, &shape, f, most, r->seed + (uint64_t)i, &r->input_bytes[i]);
    snprintf(name, sizeof name, "in%d", i);
    return qn__input(r->g, name, dtype, &shape);
}

static qn_node *param(rig *r, qn_dtype dtype, qn_shape shape, fill f, uint32_t flags)
{
    assert_true(r->n_params < MAX_PARAMS);
    const int i = r->n_params++;
    qn_backend *be = backends[r->side];
    r->param[i] = data_of(dtype, &shape, f, 0, r->seed + 100 + (uint64_t)i, &r->param_bytes[i]);
    OK(be->type->buffer_create(be, r->param_bytes[i] + 1, &r->buffer[i], err));
    OK(be->type->upload(r->buffer[i], 0, r->param[i], r->param_bytes[i], err));
    if (flags & QN_NODE_mutable) r->watched = i;
    return qn__param(r->g, "p", dtype, &shape, r->buffer[i], 0, flags);
}

static inline qn_node *viewed(rig *r, qn_node *x, char how)
{
    qn_view_attrs v = {.layout = x->layout};
    qn_layout *l = &v.layout;
    const int last = l->rank - 1;
    if (how == 't' && last > 0) OK(qn_layout_transpose(l, last, last - 1, l, err));
    if (how == 's' && last >= 0) OK(qn_layout_slice(l, last, 1, INT64_MAX, 2, l, err));
    for (int i = 0; how == 'f' && i <= last; i++) OK(qn_layout_flip(l, i, l, err));
    if (how == 'r' && last > 0) OK(qn_layout_narrow(l, last, 1, l->dim[last] - 3, l, err)); /* dense rows with gaps */
    return how == 'c' ? x : qn__op(r->g, QN_OP_view, &v, &x, 1);
}

typedef struct one_case {
    const char *what;
    qn_node *(*build)(rig *r);
    qn_op op;
    qn_dtype dtype, other;
    char view;
    int variant;
    bool may_refuse; /* the rule or the CPU may not know this dtype */
} one_case;

static bool same_value(qn_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    float x, y;
    if (memcmp(a, b, (size_t)d->block_bytes) == 0) return true;
    if (d->class_ != QN_CLASS_real || dtype == QN_DTYPE_F64) return false;
    OK(qn_unpack(dtype, a, &x, 1, err));
    OK(qn_unpack(dtype, b, &y, 1, err));
    return isnan(x) && isnan(y);
}

/* The bytes, in *bytes of memory of the caller's; NULL: refused, where that is allowed. */
static uint8_t *result_of(const one_case *c, int side, size_t *bytes, qn_dtype *dtype)
{
    rig r = {.side = side, .seed = 7 + 1000 * (uint64_t)c->op + (uint64_t)c->variant, .watched = -1, .c = c};
    qn_exec *e = NULL;
    qn_error why = {0};
    uint8_t *y = NULL;
    OK(qn__graph_create(&r.g, err));
    qn_node *n = c->build(&r);
    qn_backend *be = backends[side];
    bool good = n && qn__graph_finish(r.g, &why) == QN_OK;
    for (const qn_node *user = n; good && user == n; user = NULL) good = be->type->accepts(be, n, &why);
    if (!good && !c->may_refuse) fail_msg("%s %s on %s: %s", c->what, qn_dtype_get(c->dtype)->name, be->name, why.text);
    if (good) {
        char name[16];
        *dtype = n->dtype;
        qn__name(r.g, n, "y");
        qn__output(r.g, n);
        OK(qn__sched_compile(scheds[side], r.g, "", 0, &e, err));
        for (int i = 0; i < r.n_inputs; i++) {
            snprintf(name, sizeof name, "in%d", i);
            const qn_node *in = qn__exec_find(e, name);
            if (in) OK(qn__exec_set(e, in, r.input[i], r.input_bytes[i], err));
        }
        qn_metrics before, after;
        qn_metrics_snapshot(&before);
        OK(qn__exec_run(e, NULL, err));
        qn_metrics_snapshot(&after);
        n_launched = (int)(after.launches - before.launches);
        if (r.watched >= 0) {
            *bytes = r.param_bytes[r.watched];
            y = malloc(*bytes + 1);
            OK(be->type->download(r.buffer[r.watched], 0, y, *bytes, err));
        } else {
            const qn_node *out = qn__exec_find(e, "y");
            *bytes = (size_t)(qn_layout_numel(&out->layout) * qn_dtype_get(out->dtype)->block_bytes);
            y = malloc(*bytes + 1);
            OK(qn__exec_get(e, out, y, 0, *bytes, err));
        }
    } else {
        qn__graph_destroy(r.g);
    }
    for (int i = 0; i < r.n_inputs; i++) free(r.input[i]);
    for (int i = 0; i < r.n_params; i++) {
        be->type->buffer_destroy(r.buffer[i]);
        free(r.param[i]);
    }
    return y;
}

static void compare(const one_case *c, int side, const uint8_t *want, size_t bytes, qn_dtype dtype)
{
    size_t device_bytes = 0;
    qn_dtype device_dtype = dtype;
    uint8_t *have = result_of(c, side, &device_bytes, &device_dtype);
    if (!have) return;
    assert_int_equal(bytes, device_bytes);
    const size_t step = (size_t)qn_dtype_get(dtype)->block_bytes;
    size_t first = bytes;
    for (size_t i = 0; i < bytes && first == bytes && computes; i += step)
        if (!same_value(dtype, want + i, have + i)) first = i;
    if (first < bytes) {
        uint64_t a = 0, b = 0;
        memcpy(&a, want + first, step < 8 ? step : 8);
        memcpy(&b, have + first, step < 8 ? step : 8);
        print_message("%s %s %s view %c variant %d: element %zu of %zu is %llx on %s, %llx on the CPU\n", c->what,
                      qn_dtype_get(c->dtype)->name, qn_dtype_get(c->other)->name, c->view, c->variant, first / step,
                      bytes / step, (unsigned long long)b, backends[side]->name, (unsigned long long)a);
        n_wrong++;
    }
    free(have);
    tried[c->op][c->dtype]++;
    n_cases++;
}

static inline bool is_product(qn_op op) { return op == QN_OP_linear || op == QN_OP_linear_experts; }

/* A case of each operation, for dtypes that no other is for. */
static one_case first_of[QN_OP_COUNT];

static void try(const one_case *c)
{
    size_t bytes = 0;
    qn_dtype dtype = QN_DTYPE_F32;
    if (!first_of[c->op].build) first_of[c->op] = *c;
    if (n_met++ % each) return;
    uint8_t *want = result_of(c, CPU, &bytes, &dtype);
    for (int side = OPENCL; side < N_SIDES && want; side++)
        if (backends[side] && (side != CUDA || n_met % 4 == 0 || is_product(c->op) || !backends[OPENCL] || real_cuda))
            compare(c, side, want, bytes, dtype); /* the stand-in is slow; products it has kernels of its own for */
    free(want);
}

/* ---- the sides ---- */

/* The program that asks for libcuda.so.1 next gets the stand-in; with QN_TEST_CUDA=real the device that is there. */
static bool cuda_there(void)
{
    const char *which = getenv("QN_TEST_CUDA");
    real_cuda = which && strcmp(which, "real") == 0;
    if (real_cuda) return device_works("cuda");
    return qn__cuda_image(&qn__cuda_kind) && dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

/* One process and one device for all tests. */
static int run_on_all_sides(const struct CMUnitTest *tests, size_t n_tests)
{
    const char *const names[N_SIDES] = {cpu_of_devices(), "opencl", "cuda"};
    const char *some = getenv("QN_SAME_BITS_EACH");
    if (some && atoi(some) > 0) each = atoi(some);
    const bool there[N_SIDES] = {true, device_works("opencl"), (!some || getenv("QN_TEST_CUDA")) && cuda_there()};
    if (!there[OPENCL] && !there[CUDA]) {
        printf("no OpenCL device that works here, no kernels for the stand-in: nothing is tried\n");
        return 77;
    }
    for (int i = 0; i < N_SIDES; i++) {
        int n = 0;
        if (!there[i]) continue;
        OK(qn__backends_open(names[i], &(qn_backend_options){.n_threads = 1}, 1, &backends[i], &n, err));
        OK(qn__sched_create(&backends[i], 1,
                            &(qn_sched_options){.passes_off = (1u << QN_PASS_COUNT) - 1, .no_cache = true}, &scheds[i],
                            err));
    }
    const int failed = _cmocka_run_group_tests("same bits", tests, n_tests, NULL, NULL);
    for (int i = 0; i < N_SIDES; i++) {
        if (!backends[i]) continue;
        qn__sched_destroy(scheds[i]);
        backends[i]->type->close(backends[i]);
    }
    return failed;
}

#endif
