/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_linear_experts.c -- products with chosen experts, against double, and against linear to the bit:
 * every weight format that packs, few and many columns an expert, experts that no one chose, places without an expert,
 * rows of tokens and of places, a bias, strided sources. */
#include "rig.h"

#include "base/metrics.h"

typedef struct mix {
    qn_dtype dtype;
    int64_t n, u, e, m, k;
    bool own;      /* x has a row a place, not a row a token */
    bool bias;     /* a row an expert */
    bool strided;  /* x is stored with k in front, ids with u in front, w with rows that do not count */
    bool wide_ids; /* I64 */
    int bad;       /* every bad-th place has no expert; 0: none */
    tensor x, w, ids, b;
} mix;

static int64_t id_at(const mix *c, int64_t i)
{
    const int64_t at = c->strided ? i % c->u * c->n + i / c->u : i;
    return c->wide_ids ? ((const int64_t *)c->ids.data)[at] : ints_of(&c->ids)[at];
}

static void set_id(mix *c, int64_t i, int64_t id)
{
    const int64_t at = c->strided ? i % c->u * c->n + i / c->u : i;
    if (c->wide_ids)
        ((int64_t *)c->ids.data)[at] = id;
    else
        ints_of(&c->ids)[at] = (int32_t)id;
}

static int64_t x_rows(const mix *c) { return c->own ? c->n * c->u : c->n; }
static int64_t skipped(const mix *c) { return c->strided ? 2 : 0; }

static mix filled(mix c)
{
    const int64_t rows = x_rows(&c);
    c.x = tensor_random(QN_DTYPE_F32, c.strided ? qn_shape_of(c.k, rows) : qn_shape_of(rows, c.k));
    c.w = tensor_random(c.dtype, qn_shape_of(c.e, c.m + skipped(&c), c.k));
    c.b = tensor_random(QN_DTYPE_F32, qn_shape_of(c.e, c.m));
    c.ids =
        tensor_new(c.wide_ids ? QN_DTYPE_I64 : QN_DTYPE_I32, c.strided ? qn_shape_of(c.u, c.n) : qn_shape_of(c.n, c.u));
    /* The last expert is rarely chosen, the one before it never. */
    for (int64_t i = 0; i < c.n * c.u; i++) {
        const int64_t id = c.e < 3 ? rng_int(0, c.e - 1) : i % 11 == 10 ? c.e - 1 : rng_int(0, c.e - 3);
        set_id(&c, i, c.bad && i % c.bad == 0 ? (i % 2 ? -1 : c.e) : id);
    }
    return c;
}

static void freed(mix *c)
{
    tensor_free(&c->x);
    tensor_free(&c->w);
    tensor_free(&c->b);
    tensor_free(&c->ids);
}

typedef struct sources {
    qn_node *x, *w, *ids, *b;
} sources;

static sources make(rig *r, const mix *c)
{
    sources s = {rig_input(r, &c->x), rig_param(r, &c->w, 0), rig_input(r, &c->ids), NULL};
    if (c->bias) s.b = rig_param(r, &c->b, 0);
    if (c->strided) {
        s.x = qn__permute(r->g, s.x, (int[]){1, 0}, 2);
        s.ids = qn__permute(r->g, s.ids, (int[]){1, 0}, 2);
        s.w = qn__narrow(r->g, s.w, 1, skipped(c), c->m);
    }
    if (c->own) s.x = qn__reshape(r->g, s.x, qn_shape_of(c->n, c->u, c->k));
    return s;
}

static qn_node *build(rig *r, void *ctx)
{
    const sources s = make(r, ctx);
    return qn__linear_experts(r->g, s.x, s.w, s.ids, s.b);
}

/* Every row times every expert: [rows, m] of expert 0, then of expert 1 .. */
static qn_node *build_all(rig *r, void *ctx)
{
    const mix *c = ctx;
    const sources s = make(r, ctx);
    qn_node *y[16];
    assert_true(c->e <= 16);
    for (int64_t e = 0; e < c->e; e++) {
        qn_node *w = qn__reshape(r->g, qn__narrow(r->g, s.w, 0, e, 1), qn_shape_of(c->m, c->k));
        qn_node *b = s.b ? qn__reshape(r->g, qn__narrow(r->g, s.b, 0, e, 1), qn_shape_of(c->m)) : NULL;
        qn_node *x = c->own ? qn__reshape(r->g, s.x, qn_shape_of(x_rows(c), c->k)) : s.x;
        y[e] = qn__linear(r->g, x, w, b);
    }
    return qn__cat(r->g, y, (int)c->e, 0);
}

/* What quantizing a column may cost: a step of its block for each weight. */
static double *steps_of(const mix *c, const qn_kernels *kernels)
{
    const int64_t block = kernels->mm[c->dtype].act == QN_ACT_256 ? 256 : 32, rows = x_rows(c), n = c->k / block;
    double *steps = calloc((size_t)(rows * c->k + 1), sizeof *steps);
    for (int64_t i = 0; i < rows * n; i++) {
        double lo = 0, hi = 0;
        for (int64_t k = i % n * block; k < (i % n + 1) * block; k++) {
            const double x = c->x.value[c->strided ? k * rows + i / n : i / n * c->k + k];
            lo = fmin(lo, x);
            hi = fmax(hi, x);
        }
        for (int64_t k = i % n * block; k < (i % n + 1) * block; k++) steps[i / n * c->k + k] = (hi - lo) / 254;
    }
    return steps;
}

static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const mix *c = ctx;
    const float *y = result;
    const qn_act_kind act = r->kernels->mm[c->dtype].act;
    const bool quantized = act == QN_ACT_32 || act == QN_ACT_256;
    double *steps = quantized ? steps_of(c, r->kernels) : NULL;
    assert_int_equal(bytes, c->n * c->u * c->m * 4);
    for (int64_t i = 0; i < c->n * c->u; i++) {
        const int64_t id = id_at(c, i), row = c->own ? i : i / c->u;
        for (int64_t o = 0; o < c->m; o++) {
            if (id < 0 || id >= c->e) {
                assert_true(y[i * c->m + o] == 0);
                continue;
            }
            double want = c->bias ? c->b.value[id * c->m + o] : 0, size = fabs(want), bound = 0;
            for (int64_t k = 0; k < c->k; k++) {
                const double w = c->w.value[(id * (c->m + skipped(c)) + skipped(c) + o) * c->k + k],
                             x = c->x.value[c->strided ? k * x_rows(c) + row : row * c->k + k];
                want += w * x;
                size += fabs(w * x);
                if (quantized) bound += fabs(w) * steps[row * c->k + k] * 0.6;
                if (act == QN_ACT_bf16) bound += fabs(w * x) * 0x1p-17; /* act.h */
                if (act == QN_ACT_512) bound += fabs(w * x) * (0x1p-17 + 0x1p-15);
            }
            close_to(y[i * c->m + o], want, bound + (double)(c->k + 2) * FLT_EPSILON * size,
                     qn_dtype_get(c->dtype)->name, i * c->m + o);
        }
    }
    free(steps);
}

static void same_as_linear(mix *c)
{
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t bytes;
        const int64_t m = c->m;
        float *y = run_at((qn_cpu_level)level, build, c, &bytes),
              *all = run_at((qn_cpu_level)level, build_all, c, &bytes);
        for (int64_t i = 0; i < c->n * c->u; i++) {
            const int64_t id = id_at(c, i), row = c->own ? i : i / c->u;
            if (id < 0 || id >= c->e) continue;
            assert_memory_equal(y + i * m, all + (id * x_rows(c) + row) * m, (size_t)m * 4);
        }
        free(y);
        free(all);
    }
}

static void test_formats(void **state)
{
    (void)state;
    for (int t = 0; t < QN_DTYPE_COUNT; t++) {
        const qn_dtype_info *d = qn_dtype_get((qn_dtype)t);
        if (!qn_dtype_can_pack((qn_dtype)t) || (d->class_ != QN_CLASS_real && d->class_ != QN_CLASS_block)) continue;
        if (!qn__kernels_get(QN_CPU_ref)->mm[t].gemv) continue;
        const int64_t k = d->block_elems == 1 ? 77 : d->block_elems == 32 ? 96 : 256;
        const mix shapes[] = {
            {.dtype = (qn_dtype)t, .n = 1, .u = 3, .e = 4, .m = 19, .k = k, .bias = true},
            {.dtype = (qn_dtype)t, .n = 5, .u = 2, .e = 7, .m = 9, .k = k, .own = true},
            {.dtype = (qn_dtype)t, .n = 41, .u = 2, .e = 3, .m = 35, .k = k, .bias = true, .bad = 9},
        };
        for (int i = 0; i < 3; i++) {
            mix c = filled(shapes[i]);
            for_levels(build, &c, check);
            same_as_linear(&c);
            freed(&c);
        }
    }
}

static void test_shapes(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_BF16, QN_DTYPE_Q8_0};
    for (int i = 0; i < 3; i++) {
        const mix shapes[] = {
            /* several tiles of rows and parts of a column */
            {.dtype = dtypes[i], .n = 1, .u = 2, .e = 3, .m = 200, .k = 2080, .bias = true},
            {.dtype = dtypes[i], .n = 3, .u = 1, .e = 1, .m = 1100, .k = 64},
            /* more columns than a tile's results have room for */
            {.dtype = dtypes[i], .n = 700, .u = 1, .e = 2, .m = 33, .k = 32, .bias = true},
            {.dtype = dtypes[i], .n = 6, .u = 3, .e = 5, .m = 17, .k = 96, .strided = true, .wide_ids = true},
            {.dtype = dtypes[i], .n = 30, .u = 3, .e = 4, .m = 17, .k = 96, .strided = true, .bad = 5},
            {.dtype = dtypes[i], .n = 1, .u = 2, .e = 5, .m = 17, .k = 96, .strided = true, .bias = true},
            {.dtype = dtypes[i], .n = 4, .u = 2, .e = 5, .m = 17, .k = 32, .bad = 1}, /* no place has an expert */
            {.dtype = dtypes[i], .n = 0, .u = 2, .e = 5, .m = 17, .k = 32},
            {.dtype = dtypes[i], .n = 2, .u = 0, .e = 5, .m = 17, .k = 32},
            {.dtype = dtypes[i], .n = 2, .u = 2, .e = 5, .m = 0, .k = 32},
            {.dtype = dtypes[i], .n = 2, .u = 2, .e = 5, .m = 3, .k = i < 2 ? 0 : 32, .bias = true},
        };
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            mix c = filled(shapes[s]);
            for_levels(build, &c, check);
            freed(&c);
        }
    }
}

/* Heads that have a matrix each: place j has expert j, for every row. */
static void test_heads(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 40; n += 39) {
        mix c = filled((mix){.dtype = QN_DTYPE_Q8_0, .n = n, .u = 6, .e = 6, .m = 40, .k = 64, .own = true});
        for (int64_t i = 0; i < n * c.u; i++) set_id(&c, i, i % c.u);
        for_levels(build, &c, check);
        same_as_linear(&c);
        freed(&c);
    }
}

/* Two products of one x: the second takes what the first one sorted and converted. */
static qn_node *build_two(rig *r, void *ctx)
{
    const mix *c = ctx;
    const sources s = make(r, ctx);
    qn_node *a = qn__linear_experts(r->g, s.x, s.w, s.ids, NULL),
            *b = qn__linear_experts(r->g, s.x, rig_param(r, &c->w, 0), s.ids, s.b);
    return qn__cat(r->g, (qn_node *[]){a, b}, 2, 0);
}

static void test_shared(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 50; n += 49) {
        mix c = filled((mix){.dtype = QN_DTYPE_Q4_0, .n = n, .u = 2, .e = 4, .m = 24, .k = 64, .bad = 7});
        size_t bytes;
        const uint64_t before = QN_METRIC_READ(inputs_shared);
        char *one = run_at(QN_CPU_ref, build, &c, &bytes), *two = run_at(QN_CPU_ref, build_two, &c, &bytes);
        assert_true(QN_METRIC_READ(inputs_shared) == before + 1);
        assert_memory_equal(one, two, bytes / 2);
        assert_memory_equal(one, two + bytes / 2, bytes / 2);
        free(one);
        free(two);
        freed(&c);
    }
}

static qn_node *strict(rig *r, void *ctx)
{
    const sources s = make(r, ctx);
    return qn__op(r->g, QN_OP_linear_experts, &(qn_strict_attrs){QN_STRICT_self}, (qn_node *[]){s.x, s.w, s.ids}, 3);
}

static void test_out_of_range(void **state)
{
    (void)state;
    mix c = filled((mix){.dtype = QN_DTYPE_F32, .n = 6, .u = 2, .e = 4, .m = 8, .k = 16});
    set_id(&c, 5, 77);
    set_id(&c, 9, -3);
    for (int threads = 1; threads <= 2; threads++) {
        rig r;
        qn_exec *e;
        qn_error found = {0};
        rig_open(&r, QN_CPU_ref, threads);
        OK(qn__graph_create(&r.g, err));
        qn__output(r.g, strict(&r, &c));
        OK(qn__sched_compile(r.sched, r.g, NULL, 0, &e, err));
        for (int i = 0; i < r.n_inputs; i++)
            OK(qn__exec_set(e, qn__exec_find(e, r.names[i]), r.inputs[i]->data, r.inputs[i]->bytes, err));
        assert_int_equal(qn__exec_run(e, NULL, &found), QN_STATUS_invalid);
        assert_non_null(strstr(found.text, "linear_experts: index -3 is out of range for dimension 0 of size 4"));
        rig_close(&r);
    }
    freed(&c);
}

static void refused(qn_dtype x_type, qn_shape x, qn_shape w, qn_shape ids, qn_shape b, const char *why)
{
    qn_graph *g;
    qn_error found = {0};
    OK(qn__graph_create(&g, err));
    qn__linear_experts(g, qn__input(g, "x", x_type, &x), qn__input(g, "w", QN_DTYPE_F32, &w),
                       qn__input(g, "ids", QN_DTYPE_I32, &ids), b.rank ? qn__input(g, "b", QN_DTYPE_F32, &b) : NULL);
    assert_int_equal(qn__graph_finish(g, &found), QN_STATUS_invalid);
    if (!strstr(found.text, why)) fail_msg("\"%s\" does not say \"%s\"", found.text, why);
    qn__graph_destroy(g);
}

static void test_refusals(void **state)
{
    (void)state;
    const qn_shape x = qn_shape_of(3, 8), w = qn_shape_of(4, 5, 8), ids = qn_shape_of(3, 2), none = {0};
    refused(QN_DTYPE_F16, x, w, ids, none, "x is F16, F32 expected");
    refused(QN_DTYPE_F32, qn_shape_of(8), w, ids, none, "x is [8], 2 to 3 dimensions expected");
    refused(QN_DTYPE_F32, x, qn_shape_of(5, 8), ids, none, "w is [5,8], 3 dimensions expected");
    refused(QN_DTYPE_F32, x, w, qn_shape_of(3), none, "ids is [3], 2 dimensions expected");
    refused(QN_DTYPE_F32, x, qn_shape_of(0, 5, 8), ids, none, "at least 1 expert expected");
    refused(QN_DTYPE_F32, x, qn_shape_of(4, 5, 9), ids, none, "inner sizes 8 and 9 differ");
    refused(QN_DTYPE_F32, qn_shape_of(2, 8), w, ids, none, "x is [2,8], a row for each of ids [3,2]");
    refused(QN_DTYPE_F32, qn_shape_of(3, 3, 8), w, ids, none, "x is [3,3,8], a row for each of ids [3,2]");
    refused(QN_DTYPE_F32, x, w, ids, qn_shape_of(4, 6), "bias is [4,6], [4,5] expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats),      cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_heads),        cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
