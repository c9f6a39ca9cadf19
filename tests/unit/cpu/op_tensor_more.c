/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_tensor_more.c -- what the figures of op_tensor.c don't reach: matmul over large, odd, strided,
 * empty and integer operands (and the bits of linear), random (the known answer of Random123, ranges, moments),
 * flat_index, index_select and index_add with indices out of range, topk, strided_update, assign, empty tensors and
 * other dtypes. */
#include "rig.h"

#include "unit/graph/builders.h"

#define S(...) qn_shape_of(__VA_ARGS__)

/* ---- matmul ---------------------------------------------------------------------------------- */

typedef struct product {
    int64_t m, n, k;
    /* 0 as it is, 1 transposed, 2 every other column, 3 rows backwards, 4 one row or column stretched */
    int a, b;
    tensor ta, tb;
} product;

static qn_node *strided(rig *r, const tensor *t, int way, int64_t rows, int64_t cols)
{
    qn_node *x = rig_input(r, t);
    qn_layout l = x->layout;
    if (way == 1) return qn__permute(r->g, x, (int[]){1, 0}, 2);
    if (way == 2) OK(qn_layout_slice(&l, 1, 0, INT64_MAX, 2, &l, err));
    if (way == 3) OK(qn_layout_flip(&l, 0, &l, err));
    if (way == 4) OK(qn_layout_expand(&l, &S(rows, cols), &l, err));
    qn_view_attrs v;
    memset(&v, 0, sizeof v);
    v.layout = l;
    return way == 0 ? x : qn__op(r->g, QN_OP_view, &v, &x, 1);
}

static qn_node *build_product(rig *r, void *ctx)
{
    product *p = ctx;
    return qn__matmul(r->g, strided(r, &p->ta, p->a, p->m, p->k), strided(r, &p->tb, p->b, p->k, p->n));
}

static double at(const tensor *t, int way, int64_t rows, int64_t i, int64_t j)
{
    const int64_t cols = t->shape.dim[1];
    const int64_t place = way == 1   ? j * cols + i
                          : way == 2 ? i * cols + 2 * j
                          : way == 3 ? (rows - 1 - i) * cols + j
                          : way == 4 ? j
                                     : i * cols + j;
    return t->dtype == QN_DTYPE_F64 ? ((const double *)t->data)[place] : (double)t->value[place];
}

static void check_product(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const product *p = ctx;
    const bool f64 = p->ta.dtype == QN_DTYPE_F64;
    (void)r;
    assert_int_equal(bytes, (size_t)(p->m * p->n) * (f64 ? 8 : 4));
    for (int64_t e = 0; e < p->m * p->n; e += 1 + p->m * p->n / 3000) {
        double want = 0, size = 0;
        for (int64_t k = 0; k < p->k; k++) {
            const double x = at(&p->ta, p->a, p->m, e / p->n, k) * at(&p->tb, p->b, p->k, k, e % p->n);
            want += x;
            size += fabs(x);
        }
        const double have = f64 ? ((const double *)result)[e] : (double)((const float *)result)[e];
        close_to(have, want, size * (f64 ? 1e-14 : 2e-6) + 1e-30, "product", e);
    }
}

static tensor doubles(qn_shape shape)
{
    tensor t = tensor_new(QN_DTYPE_F64, shape);
    for (int64_t i = 0; i < t.numel; i++) ((double *)t.data)[i] = (double)rng_float() + 1e-9 * (double)rng_float();
    return t;
}

static tensor operand(qn_dtype dtype, int way, int64_t rows, int64_t cols)
{
    const qn_shape shape = way == 1   ? S(cols, rows)
                           : way == 2 ? S(rows, 2 * cols)
                           : way == 4 ? S(1, cols)
                                      : S(rows, cols);
    return dtype == QN_DTYPE_F64 ? doubles(shape) : tensor_random(dtype, shape);
}

static void test_products(void **state)
{
    (void)state;
    static const int16_t sizes[][3] = {{1, 1, 1},     {1, 64, 300},   {64, 1, 300},   {7, 16, 5},   {48, 64, 256},
                                       {49, 65, 257}, {150, 130, 40}, {25, 128, 260}, {24, 128, 3}, {60, 140, 520},
                                       {5, 0, 3},     {0, 5, 3},      {4, 5, 0},      {289, 17, 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int way = 0; way < 7; way++) {
            static const int8_t ways[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 3}, {3, 2}, {4, 4}};
            const qn_dtype dtype = way % 3 == 2 ? QN_DTYPE_F64 : QN_DTYPE_F32;
            product p = {sizes[i][0], sizes[i][1], sizes[i][2], ways[way][0], ways[way][1], {0}, {0}};
            p.ta = operand(dtype, p.a, p.m, p.k);
            p.tb = operand(dtype, p.b, p.k, p.n);
            for_levels(build_product, &p, check_product);
            tensor_free(&p.ta);
            tensor_free(&p.tb);
        }
}

static qn_node *build_linear(rig *r, void *ctx)
{
    product *p = ctx;
    return qn__linear(r->g, rig_input(r, &p->ta), rig_param(r, &p->tb, 0), NULL);
}

/* x w^T as a product is the linear product to the bit. */
static void test_same_as_linear(void **state)
{
    (void)state;
    product p = {.m = 9, .n = 80, .k = 700, .a = 0, .b = 1};
    p.ta = tensor_random(QN_DTYPE_F32, S(p.m, p.k));
    p.tb = tensor_random(QN_DTYPE_F32, S(p.n, p.k));
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t a_bytes, b_bytes;
        void *a = run_at((qn_cpu_level)level, build_product, &p, &a_bytes),
             *b = run_at((qn_cpu_level)level, build_linear, &p, &b_bytes);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
        free(a);
        free(b);
    }
    tensor_free(&p.ta);
    tensor_free(&p.tb);
}

static qn_node *build_bytes(rig *r, void *ctx)
{
    tensor *t = ctx;
    return qn__addmm(r->g, rig_input(r, &t[2]), rig_input(r, &t[0]), rig_input(r, &t[1]), 3, -2);
}

static void check_bytes(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const tensor *t = ctx;
    (void)r;
    assert_int_equal(bytes, 6 * 70);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 70; j++) {
            int64_t sum = 0;
            for (int k = 0; k < 300; k++)
                sum += ((const int8_t *)t[0].data)[i * 300 + k] * ((const int8_t *)t[1].data)[k * 70 + j];
            assert_int_equal(((const int8_t *)result)[i * 70 + j],
                             (int8_t)(3 * ((const int8_t *)t[2].data)[j] - 2 * sum));
        }
}

static void test_integers_wrap(void **state)
{
    (void)state;
    tensor t[3] = {tensor_new(QN_DTYPE_I8, S(6, 300)), tensor_new(QN_DTYPE_I8, S(300, 70)),
                   tensor_new(QN_DTYPE_I8, S(70))};
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < t[i].numel; k++) ((int8_t *)t[i].data)[k] = (int8_t)rng_int(-128, 127);
    for_levels(build_bytes, t, check_bytes);
    for (int i = 0; i < 3; i++) tensor_free(&t[i]);
}

/* ---- random numbers -------------------------------------------------------------------------- */

typedef struct draw {
    qn_random_kind kind;
    qn_dtype dtype;
    int64_t n;
    double a, b;
    int stream;
    int64_t state[2];
    tensor t;
} draw;

static qn_node *build_draw(rig *r, void *ctx)
{
    draw *d = ctx;
    tensor_free(&d->t); /* of the run before */
    d->t = tensor_new(QN_DTYPE_I64, S(2));
    memcpy(d->t.data, d->state, 16);
    return qn__random(r->g, rig_input(r, &d->t), d->kind, d->dtype, S(d->n), d->a, d->b, d->stream);
}

static void *drawn(draw *d, size_t *bytes)
{
    void *y = run_at(QN_CPU_ref, build_draw, d, bytes);
    tensor_free(&d->t);
    d->t = (tensor){0};
    return y;
}

static void test_known_answer(void **state)
{
    (void)state;
    size_t bytes;
    draw d = {.kind = QN_RANDOM_bits, .dtype = QN_DTYPE_I32, .n = 4};
    uint32_t *y = drawn(&d, &bytes);
    /* kat_vectors of Random123 */
    assert_memory_equal(y, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
    free(y);
    d.dtype = QN_DTYPE_I64;
    d.n = 2;
    y = drawn(&d, &bytes);
    assert_memory_equal(y, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
    free(y);
}

static void test_streams(void **state)
{
    (void)state;
    size_t bytes;
    draw d = {.kind = QN_RANDOM_bits, .dtype = QN_DTYPE_I32, .n = 4000, .state = {7, 100}};
    int32_t *first = drawn(&d, &bytes);
    d.state[1] = 600; /* 500 blocks of four later */
    int32_t *later = drawn(&d, &bytes);
    assert_memory_equal(first + 2000, later, 2000 * 4);
    int equal = 0;
    for (int what = 0; what < 2; what++) {
        if (what == 0)
            d.stream = 1;
        else
            d.state[0] = 8;
        int32_t *other = drawn(&d, &bytes);
        for (int i = 0; i < 4000; i++) equal += other[i] == later[i];
        free(other);
    }
    assert_true(equal < 3);
    free(first);
    free(later);
}

static double value_of(const void *y, qn_dtype dtype, int64_t i)
{
    float f = 0;
    if (dtype == QN_DTYPE_F64) return ((const double *)y)[i];
    if (dtype == QN_DTYPE_I64) return (double)((const int64_t *)y)[i];
    if (dtype == QN_DTYPE_BOOL) return ((const uint8_t *)y)[i];
    OK(qn_unpack(dtype, (const char *)y + i * qn_dtype_get(dtype)->block_bytes, &f, 1, err));
    return f;
}

static void test_moments(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { qn_random_kind kind; qn_dtype dtype; double a, b, lo, hi, mean, deviation; } cases[] = {
        {QN_RANDOM_uniform, QN_DTYPE_F32, -1, 3, -1, 3, 1, 1.1547005},
        {QN_RANDOM_uniform, QN_DTYPE_F64, 0, 1, 0, 1, 0.5, 0.28867513},
        {QN_RANDOM_uniform, QN_DTYPE_F16, 0, 1, 0, 1, 0.5, 0.28867513},
        {QN_RANDOM_normal, QN_DTYPE_F32, 2, 0.5, -1e9, 1e9, 2, 0.5},
        {QN_RANDOM_normal, QN_DTYPE_F64, 0, 1, -1e9, 1e9, 0, 1},
        {QN_RANDOM_normal, QN_DTYPE_BF16, 0, 1, -1e9, 1e9, 0, 1},
        {QN_RANDOM_integer, QN_DTYPE_I64, -3, 7, -3, 7, 1.5, 2.8722813},
        {QN_RANDOM_integer, QN_DTYPE_F32, 0, 10, 0, 10, 4.5, 2.8722813},
        {QN_RANDOM_bernoulli, QN_DTYPE_F32, 0.25, 4, 0, 5, 1, 1.7320508},
        {QN_RANDOM_bernoulli, QN_DTYPE_BOOL, 0.5, 1, 0, 2, 0.5, 0.5},
    };
    /* clang-format on */
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        enum { N = 100003 };
        size_t bytes;
        draw d = {
            .kind = cases[c].kind, .dtype = cases[c].dtype, .n = N, .a = cases[c].a, .b = cases[c].b, .state = {42, 0}};
        void *y = drawn(&d, &bytes);
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < N; i++) {
            const double x = value_of(y, d.dtype, i);
            if (!(x >= cases[c].lo && x < cases[c].hi)) fail_msg("case %zu: %g", c, x);
            sum += x;
            squares += (x - cases[c].mean) * (x - cases[c].mean);
        }
        close_to(sum / N, cases[c].mean, 5 * cases[c].deviation / sqrt(N), "mean", (int64_t)c);
        close_to(sqrt(squares / N), cases[c].deviation, 0.02 * cases[c].deviation, "deviation", (int64_t)c);
        free(y);
    }
}

static void check_size(const rig *r, const void *result, size_t bytes, void *ctx)
{
    (void)r;
    (void)result;
    assert_int_equal(bytes, (size_t)((const draw *)ctx)->n * 4);
}

static void test_random_threads(void **state)
{
    (void)state;
    draw d = {.kind = QN_RANDOM_normal, .dtype = QN_DTYPE_F32, .n = 20001, .b = 1, .state = {3, 5}};
    for_levels(build_draw, &d, check_size); /* the bits must not depend on the thread count */
    tensor_free(&d.t);
}

/* ---- indices --------------------------------------------------------------------------------- */

static tensor longs(int n, const int64_t *v)
{
    tensor t = tensor_new(QN_DTYPE_I64, S(n));
    memcpy(t.data, v, (size_t)n * 8);
    return t;
}

static qn_node *build_flat(rig *r, void *ctx)
{
    tensor *t = ctx;
    qn_node *a = qn__reshape(r->g, rig_input(r, &t[0]), S(3, 1)), *b = rig_input(r, &t[1]);
    return qn__flat_index(r->g, (qn_node *[]){a, b}, (int64_t[]){4, 5}, 2);
}

static void check_flat(const rig *r, const void *result, size_t bytes, void *ctx)
{
    (void)r;
    (void)ctx;
    static const int64_t want[] = {0, 4, -1, 15, 19, -1, -1, -1, -1};
    assert_int_equal(bytes, sizeof want);
    assert_memory_equal(result, want, sizeof want);
}

static void test_flat_index(void **state)
{
    (void)state;
    tensor t[2] = {longs(3, (int64_t[]){0, -1, 4}), longs(3, (int64_t[]){0, -1, -6})};
    for_levels(build_flat, t, check_flat);
    tensor_free(&t[0]);
    tensor_free(&t[1]);
}

static qn_node *build_outside(rig *r, void *ctx)
{
    tensor *t = ctx;
    qn_node *y = qn__index_select(r->g, rig_input(r, &t[0]), 0, rig_input(r, &t[1]));
    return qn__index_add(r->g, y, 0, rig_input(r, &t[1]), y, QN_COMBINE_add);
}

/* x = 1 2 3; ids 2 -1 3 2: picked 3 0 0 3; then places 2 and 2 get 3 and 3 more, the others nothing. */
static void check_outside(const rig *r, const void *result, size_t bytes, void *ctx)
{
    (void)r;
    (void)ctx;
    assert_int_equal(bytes, 16);
    assert_memory_equal(result, ((int32_t[]){3, 0, 6, 3}), 16);
}

static void test_out_of_range(void **state)
{
    (void)state;
    tensor t[2] = {tensor_ints(S(3), (int32_t[]){1, 2, 3}), longs(4, (int64_t[]){2, -1, 3, 2})};
    for_levels(build_outside, t, check_outside);
    tensor_free(&t[0]);
    tensor_free(&t[1]);
}

/* Not strict: numbers come out whatever goes in. What a strict node does about them, tests/unit/array/faults.c shows.
 */
static qn_node *build_ranges(rig *r, void *ctx)
{
    tensor *t = ctx;
    const qn_range_attrs attrs = {.min = 0, .max = 1, .strict = QN_STRICT_bernoulli};
    qn_node *a = rig_input(r, &t[0]), *p = qn__op(r->g, QN_OP_expect_range, &attrs, &a, 1);
    return qn__binary(r->g, QN_OP_binary_cross_entropy, p, rig_input(r, &t[1]));
}

static void check_ranges(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const tensor *t = ctx;
    const float *y = result, *a = t[0].data, *b = t[1].data;
    (void)r;
    assert_int_equal(bytes, 4 * 1000);
    for (int i = 0; i < 1000; i++) {
        const double p = (double)a[i], q = (double)b[i];
        const double want = -(q * fmax(log(p), -100) + (1 - q) * fmax(log(1 - p), -100));
        assert_true(fabs((double)y[i] - want) <= 4e-6 * fmax(1, fabs(want)));
    }
}

static void test_ranges(void **state)
{
    (void)state;
    tensor t[2] = {tensor_new(QN_DTYPE_F32, S(1000)), tensor_new(QN_DTYPE_F32, S(1000))};
    for (int i = 0; i < 1000; i++) {
        ((float *)t[0].data)[i] = (float)(i * 617 % 1001) / 1000; /* 0 and 1 among them */
        ((float *)t[1].data)[i] = (float)(i * 211 % 997) / 996;
    }
    for_levels(build_ranges, t, check_ranges);
    tensor_free(&t[0]);
    tensor_free(&t[1]);
}

typedef struct ranking {
    int64_t n, k;
    bool largest;
    tensor x;
} ranking;

static qn_node *build_topk(rig *r, void *ctx)
{
    ranking *c = ctx;
    return c->k < 0 ? qn__argsort(r->g, rig_input(r, &c->x), 1, c->largest)
                    : qn__topk(r->g, rig_input(r, &c->x), c->k, 1, c->largest);
}

static bool before(const ranking *c, const float *x, int64_t a, int64_t b)
{
    const float u = c->largest ? x[a] : x[b], v = c->largest ? x[b] : x[a];
    const bool same = u == v || (isnan(u) && isnan(v));
    return same ? a < b : isnan(u) || u > v;
}

static void check_topk(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const ranking *c = ctx;
    const int64_t k = c->k < 0 ? c->n : c->k;
    (void)r;
    assert_int_equal(bytes, 3 * k * 8);
    for (int row = 0; row < 3; row++) {
        const float *x = (const float *)c->x.data + row * c->n;
        const int64_t *y = (const int64_t *)result + row * k;
        for (int64_t i = 0; i + 1 < k; i++) assert_true(before(c, x, y[i], y[i + 1]));
        if (k == 0) continue;
        int64_t better = 0; /* than the last: just the others */
        for (int64_t i = 0; i < c->n; i++) better += before(c, x, i, y[k - 1]);
        assert_int_equal(better, k - 1);
    }
}

static void test_order(void **state)
{
    (void)state;
    static const int32_t cases[][2] = {{1, 1},     {50, 0},    {50, 3},    {50, 50},     {50, -1},
                                       {3000, 40}, {3000, -1}, {9000, -1}, {9000, 5000}, {9000, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ranking c = {.n = cases[i][0],
                     .k = cases[i][1],
                     .largest = i % 2,
                     .x = tensor_new(QN_DTYPE_F32, S(3, cases[i][0]))};
        for (int64_t e = 0; e < c.x.numel; e++)
            ((float *)c.x.data)[e] = e % 41 == 7 ? NAN : e % 43 == 5 ? -INFINITY : (float)rng_int(-300, 300) * 0.5f;
        for_levels(build_topk, &c, check_topk);
        tensor_free(&c.x);
    }
}

/* ---- writes into parts ----------------------------------------------------------------------- */

/* Writes through the view dst[1:6:2, ::-1] of a [6,5] tensor. */
static qn_layout part_of(const qn_layout *whole)
{
    qn_layout l = *whole;
    OK(qn_layout_slice(&l, 0, 1, 6, 2, &l, err));
    OK(qn_layout_flip(&l, 1, &l, err));
    return l;
}

typedef struct write {
    tensor dst, x;
    bool keeps;
    qn_combine mode;
} write;

static qn_node *build_write(rig *r, void *ctx)
{
    write *c = ctx;
    qn_node *dst = rig_input(r, &c->dst), *x = rig_input(r, &c->x);
    const qn_layout part = part_of(&dst->layout);
    /* written over, unless somebody still reads it */
    qn_node *old = qn__copy(r->g, qn__narrow(r->g, dst, 0, 0, 6), QN_DTYPE_I32);
    qn_node *y = qn__strided_update(r->g, old, x, &part, c->mode);
    return c->keeps ? qn__strided_update(r->g, y, old, &dst->layout, QN_COMBINE_add) : y;
}

static void check_write(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const write *c = ctx;
    const int32_t *old = c->dst.data, *x = c->x.data, *y = result;
    (void)r;
    assert_int_equal(bytes, 30 * 4);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++) {
            const bool in = i % 2 == 1;
            int32_t want = old[i * 5 + j];
            if (in) want = x[i / 2 * 5 + 4 - j] + (c->mode == QN_COMBINE_add ? want : 0);
            assert_int_equal(y[i * 5 + j], want + (c->keeps ? old[i * 5 + j] : 0));
        }
}

static void test_strided_update(void **state)
{
    (void)state;
    write c = {.dst = tensor_ints(S(6, 5), NULL), .x = tensor_ints(S(3, 5), NULL)};
    for (int i = 0; i < 30; i++) ints_of(&c.dst)[i] = 100 + i;
    for (int i = 0; i < 15; i++) ints_of(&c.x)[i] = -i;
    for (int i = 0; i < 4; i++) {
        c.keeps = i & 1;
        c.mode = i & 2 ? QN_COMBINE_add : QN_COMBINE_set;
        for_levels(build_write, &c, check_write);
    }
    tensor_free(&c.dst);
    tensor_free(&c.x);
}

/* ---- nothing at all -------------------------------------------------------------------------- */

static qn_node *build_nothing(rig *r, void *ctx)
{
    tensor *t = ctx; /* [0,3], [0,3] of I64, [2,0] */
    qn_node *x = rig_input(r, &t[0]), *ids = rig_input(r, &t[1]), *z = rig_input(r, &t[2]);
    qn_node *parts[] = {qn__gather(r->g, x, 1, ids), qn__scatter(r->g, x, 0, ids, x, QN_COMBINE_add),
                        qn__tri(r->g, x, 0, false), qn__repeat(r->g, x, (int64_t[]){3, 2}, 2)};
    qn_node *y = qn__cat(r->g, (qn_node *[]){parts[0], parts[1], parts[2]}, 3, 0);
    y = qn__cat(r->g, (qn_node *[]){y, parts[3]->layout.dim[1] == 6 ? qn__narrow(r->g, parts[3], 1, 0, 3) : y}, 2, 0);
    qn_node *zeros = qn__matmul(r->g, z, qn__permute(r->g, z, (int[]){1, 0}, 2)); /* [2,2], sums of nothing */
    qn_node *padded = qn__pad(r->g, y, (int64_t[]){1, 0}, (int64_t[]){1, 0}, 5);  /* [2,3] */
    qn__output(r->g, qn__argsort(r->g, z, 1, false));
    return qn__matmul(r->g, zeros, padded);
}

static void check_nothing_at_all(const rig *r, const void *result, size_t bytes, void *ctx)
{
    (void)r;
    (void)ctx;
    assert_int_equal(bytes, 24);
    for (int i = 0; i < 6; i++) assert_true(((const float *)result)[i] == 0);
}

static void test_empty(void **state)
{
    (void)state;
    tensor t[3] = {tensor_new(QN_DTYPE_F32, S(0, 3)), tensor_new(QN_DTYPE_I64, S(0, 3)),
                   tensor_new(QN_DTYPE_F32, S(2, 0))};
    for_levels(build_nothing, t, check_nothing_at_all);
    for (int i = 0; i < 3; i++) tensor_free(&t[i]);
}

static qn_node *build_scalar(rig *r, void *ctx)
{
    tensor *t = ctx;
    qn_node *x = rig_input(r, &t[0]), *ids = qn__argsort(r->g, x, 0, false);
    return qn__scatter(r->g, x, -1, ids, qn__gather(r->g, x, 0, ids), QN_COMBINE_add);
}

static void check_scalar(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const tensor *t = ctx;
    (void)r;
    assert_int_equal(bytes, 4);
    assert_true(*(const float *)result == 2 * t->value[0]);
}

static void test_scalar(void **state)
{
    (void)state;
    tensor t = tensor_random(QN_DTYPE_F32, (qn_shape){0});
    for_levels(build_scalar, &t, check_scalar);
    tensor_free(&t);
}

/* assign: writes through any view of a resident tensor; what it shows afterwards is read back through the param. */
static void test_assign(void **state)
{
    (void)state;
    write c = {.dst = tensor_ints(S(6, 5), NULL), .x = tensor_ints(S(3, 5), NULL)};
    for (int i = 0; i < 30; i++) ints_of(&c.dst)[i] = 100 + i;
    for (int i = 0; i < 15; i++) ints_of(&c.x)[i] = -i;
    for (int threads = 1; threads <= 3; threads++) {
        rig r;
        qn_exec *e;
        rig_open(&r, QN_CPU_ref, threads);
        OK(qn__graph_create(&r.g, err));
        qn_node *dst = rig_param(&r, &c.dst, QN_NODE_mutable), *x = rig_input(&r, &c.x);
        qn_view_attrs v;
        memset(&v, 0, sizeof v);
        v.layout = part_of(&dst->layout);
        qn__output(r.g, qn__name(r.g, qn__assign(r.g, qn__op(r.g, QN_OP_view, &v, &dst, 1), x), "result"));
        OK(qn__sched_compile(r.sched, r.g, NULL, 0, &e, err));
        OK(qn__exec_set(e, qn__exec_find(e, r.names[0]), c.x.data, c.x.bytes, err));
        OK(qn__exec_run(e, NULL, err));
        int32_t y[30];
        OK(qn__backend_cpu.download(r.buffers[0], 0, y, sizeof y, err));
        check_write(&r, y, sizeof y, &c);
        rig_close(&r);
    }
    tensor_free(&c.dst);
    tensor_free(&c.x);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),       cmocka_unit_test(test_same_as_linear),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_known_answer),   cmocka_unit_test(test_streams),        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_random_threads), cmocka_unit_test(test_flat_index),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_order),          cmocka_unit_test(test_strided_update), cmocka_unit_test(test_assign),
        cmocka_unit_test(test_empty),          cmocka_unit_test(test_scalar),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
