/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/tensor_ops.c -- operations element by element, reductions, softmax and scans against PyTorch's
 * results, which tests/oracle/tensor_ops.py has written to tensor_ops.txt beside this file (the format is told there):
 * every dtype, broadcasting, strides of 0, below 0 and above 1, empty and large. The bits are the same with 1, 2 and 3
 * threads. */
#include "rig.h"

enum { MAX_ATTRS = 4, MAX_SRC = 3, MAX_VALUES = 64, MAX_WORDS = 256 };

typedef struct source {
    tensor t;
    char view;
    qn_shape shape; /* as the op sees it */
} source;

typedef struct one_case {
    qn_op op;
    double attr[MAX_ATTRS];
    source src[MAX_SRC];
    int n_src;
    qn_dtype dtype;
    qn_shape shape;
    int64_t step;
    int n_values;
    const char *value[MAX_VALUES];
    bool nonzero; /* source 1 holds 1 for 0 */
} one_case;

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t seed, uint64_t i)
{
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) + i * UINT64_C(0xD1B54A32D192ED03);
    z ^= z >> 32;
    z *= UINT64_C(0xD6E8FEB86659FD93);
    return z ^ z >> 32;
}

static double made(char fill, uint64_t seed, int64_t i)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 0.5, 88.75, -104, 2.5, -2.5};
    const uint64_t z = mixed(seed, (uint64_t)i);
#define M(k) ((double)(z % (k)))
    const char *at = strchr("npuijbqhsx", fill);
    assert_non_null(at);
    const double all[] = {
        (M(2049) - 1024) / 256, (M(1023) + 1) / 256, (M(511) - 255) / 256, M(17) - 8,       M(5) + 1, M(2),
        (M(9) - 4) / 2,         (M(127) - 63) / 32,  special[z % 12],      exp2(M(61) - 30)};
    return all[at - "npuijbqhsx"];
#undef M
}

static void put(tensor *t, int64_t i, double v)
{
    char *p = (char *)t->data + i * qn_dtype_get(t->dtype)->block_bytes;
    const float f = (float)v;
    const int64_t whole = isfinite(v) ? (int64_t)v : 0;
    const uint16_t half = t->dtype == QN_DTYPE_F16 ? qn__f32_to_f16(f) : qn__f32_to_bf16(f);
    const uint8_t truth = v != 0;
    if (t->dtype == QN_DTYPE_F32)
        memcpy(p, &f, 4);
    else if (t->dtype == QN_DTYPE_F64)
        memcpy(p, &v, 8);
    else if (t->dtype == QN_DTYPE_F16 || t->dtype == QN_DTYPE_BF16)
        memcpy(p, &half, 2);
    else if (t->dtype == QN_DTYPE_BOOL)
        *p = (char)truth;
    else
        memcpy(p, &whole, (size_t)qn_dtype_get(t->dtype)->block_bytes); /* the low bytes: two's complement */
}

static double get(qn_dtype dtype, const void *data, int64_t i)
{
    const char *p = (const char *)data + i * qn_dtype_get(dtype)->block_bytes;
    float f;
    double d;
    uint16_t h;
    int64_t whole = 0;
    if (dtype == QN_DTYPE_F32) return memcpy(&f, p, 4), (double)f;
    if (dtype == QN_DTYPE_F64) return memcpy(&d, p, 8), d;
    memcpy(&h, p, dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16 ? 2 : 0);
    if (dtype == QN_DTYPE_F16) return (double)qn__f16_to_f32(h);
    if (dtype == QN_DTYPE_BF16) return (double)qn__bf16_to_f32(h);
    const int bytes = qn_dtype_get(dtype)->block_bytes, unsigned_ = dtype == QN_DTYPE_U8 || dtype == QN_DTYPE_BOOL;
    memcpy(&whole, p, (size_t)bytes);
    return (double)(unsigned_ || bytes == 8 ? whole
                                            : (int64_t)((uint64_t)whole << (64 - 8 * bytes)) >> (64 - 8 * bytes));
}

static qn_shape shape_of(char *const *w, int *at)
{
    qn_shape s = {.rank = atoi(w[(*at)++])};
    assert_in_range(s.rank, 0, QN_MAX_RANK);
    for (int i = 0; i < s.rank; i++) s.dim[i] = atoll(w[(*at)++]);
    return s;
}

static source source_of(char *const *w, int *at, bool nonzero)
{
    source s = {0};
    qn_dtype dtype;
    assert_true(qn_dtype_find(w[*at], &dtype));
    const char fill = w[*at + 1][0];
    const uint64_t seed = strtoull(w[*at + 2], NULL, 10);
    s.view = w[*at + 3][0];
    *at += 4;
    s.shape = shape_of(w, at);
    qn_shape stored = s.shape;
    const int last = stored.rank - 1;
    if (s.view == 't') stored.dim[last] = s.shape.dim[last - 1], stored.dim[last - 1] = s.shape.dim[last];
    if (s.view == 's' && last >= 0) stored.dim[last] *= 2;
    for (int i = 0; s.view == 'e' && i <= last; i++) stored.dim[i] = 1;
    s.t = tensor_new(dtype, stored);
    for (int64_t i = 0; i < s.t.numel; i++) {
        const double v = made(fill, seed, i);
        put(&s.t, i, nonzero && v == 0 ? 1 : v);
    }
    return s;
}

static one_case case_of(char *line)
{
    char *w[MAX_WORDS];
    int n = 0, at = 0;
    for (char *p = strtok(line, " \n"); p; p = strtok(NULL, " \n")) {
        assert_true(n < MAX_WORDS);
        w[n++] = p;
    }
    one_case c = {.op = QN_OP_COUNT};
    for (int i = 0; i < QN_OP_COUNT; i++)
        if (strcmp(qn__op_info((qn_op)i)->name, w[at]) == 0) c.op = (qn_op)i;
    if (c.op == QN_OP_COUNT) fail_msg("no op %s", w[at]);
    const int n_attrs = atoi(w[++at]);
    assert_in_range(n_attrs, 0, MAX_ATTRS);
    at++;
    for (int i = 0; i < n_attrs; i++, at++) {
        if (strcmp(w[at], "nonzero") == 0)
            c.nonzero = true;
        else
            c.attr[i] = strtod(w[at], NULL);
    }
    c.n_src = atoi(w[at++]);
    assert_in_range(c.n_src, 0, MAX_SRC);
    for (int i = 0; i < c.n_src; i++) c.src[i] = source_of(w, &at, c.nonzero && i == 1);
    assert_true(qn_dtype_find(w[at++], &c.dtype));
    c.shape = shape_of(w, &at);
    c.step = atoll(w[at++]);
    c.n_values = atoi(w[at++]);
    assert_true(c.n_values <= MAX_VALUES && at + c.n_values == n);
    for (int i = 0; i < c.n_values; i++) c.value[i] = w[at + i];
    return c;
}

/* ---- running --------------------------------------------------------------------------------- */

static qn_node *seen(rig *r, const source *s)
{
    qn_node *x = rig_input(r, &s->t);
    qn_view_attrs view = {.layout = x->layout};
    qn_layout *l = &view.layout;
    const int rank = l->rank;
    if (s->view == 't') OK(qn_layout_transpose(l, rank - 1, rank - 2, l, err));
    if (s->view == 's' && rank > 0) OK(qn_layout_slice(l, rank - 1, 0, INT64_MAX, 2, l, err));
    for (int i = 0; s->view == 'f' && i < rank; i++) OK(qn_layout_flip(l, i, l, err));
    if (s->view == 'e') OK(qn_layout_expand(l, &s->shape, l, err));
    return s->view == 'c' ? x : qn__op(r->g, QN_OP_view, &view, &x, 1);
}

static qn_node *build(rig *r, void *ctx)
{
    const one_case *c = ctx;
    qn_node *src[MAX_SRC];
    for (int i = 0; i < c->n_src; i++) src[i] = seen(r, &c->src[i]);
    const qn_value_attrs value = qn__value(c->attr[0]);
    if (qn__op_info(c->op)->rule == qn__op_info(QN_OP_softmax)->rule ||
        qn__op_info(c->op)->rule == qn__op_info(QN_OP_cumsum)->rule)
        return qn__along(r->g, c->op, src[0], (int)c->attr[0]);
    if (c->op >= QN_OP_sum && c->op <= QN_OP_count_nonzero) {
        const qn_reduce_attrs reduce = {(uint32_t)(int64_t)c->attr[0], (int32_t)c->attr[1], c->attr[2]};
        return qn__op(r->g, c->op, &reduce, src, 1);
    }
    if (c->op == QN_OP_gelu) return qn__gelu(r->g, src[0], c->attr[0] != 0);
    if (c->op == QN_OP_softplus) return qn__softplus(r->g, src[0], c->attr[0], c->attr[1]);
    if (c->op == QN_OP_clamp) return qn__clamp(r->g, src[0], c->attr[0], c->attr[1]);
    if (c->op == QN_OP_copy) return qn__copy(r->g, src[0], c->dtype);
    if (qn__op_info(c->op)->attrs_bytes == sizeof value) return qn__op(r->g, c->op, &value, src, c->n_src);
    return qn__op(r->g, c->op, NULL, src, c->n_src);
}

/* Rounding of the dtype, and a little more where functions are composed of others. */
static double bound_of(qn_dtype dtype, double want)
{
    static const double relative[QN_DTYPE_COUNT] = {
        [QN_DTYPE_F32] = 2e-6, [QN_DTYPE_F64] = 1e-12, [QN_DTYPE_F16] = 0x1p-9, [QN_DTYPE_BF16] = 0x1p-7};
    static const double absolute[QN_DTYPE_COUNT] = {
        [QN_DTYPE_F32] = 1e-6, [QN_DTYPE_F64] = 1e-11, [QN_DTYPE_F16] = 1e-3, [QN_DTYPE_BF16] = 1e-3};
    return isfinite(want) ? relative[dtype] * fabs(want) + absolute[dtype] : 0;
}

static int n_wrong; /* all are shown before the test fails */

static void compare(const one_case *c, const void *result, size_t bytes, int line, qn_cpu_level level)
{
    char what[96];
    snprintf(what, sizeof what, "line %d, %s, level %s", line, qn__op_info(c->op)->name, qn_cpu_level_name(level));
    const int64_t n = qn_shape_numel(&c->shape);
    if ((int64_t)bytes != n * qn_dtype_get(c->dtype)->block_bytes) fail_msg("%s: %zu bytes", what, bytes);
    for (int i = 0; i < c->n_values; i++) {
        const double want = strtod(c->value[i], NULL), have = get(c->dtype, result, i * c->step);
        if (have == want || (isnan(have) && isnan(want)) || fabs(have - want) <= bound_of(c->dtype, want)) continue;
        print_message("%s, element %lld: %.17g, %s expected\n", what, (long long)(i * c->step), have, c->value[i]);
        n_wrong++;
        return;
    }
}

typedef struct run {
    qn_cpu_level level;
    int threads;
} run;

static void test_like_pytorch(void **state)
{
    (void)state;
    const qn_cpu_level best = qn__kernels_get(QN_CPU_LEVEL_COUNT - 1)->level;
    const run runs[] = {{QN_CPU_ref, 1}, {best, 1}, {best, 2}, {best, 3}};
    enum { N_RUNS = sizeof runs / sizeof runs[0] };
    FILE *file = fopen(QN_TESTS_DIR "/unit/cpu/tensor_ops.txt", "r");
    assert_non_null(file);
    rig r[N_RUNS];
    for (int i = 0; i < N_RUNS; i++) rig_open(&r[i], runs[i].level, runs[i].threads);
    static char line[16384];
    int n = 0;
    for (; fgets(line, sizeof line, file); n++) {
        one_case c = case_of(line);
        void *first = NULL;
        for (int i = 0; i < N_RUNS; i++) {
            size_t bytes;
            void *result = rig_run(&r[i], build, &c, &bytes);
            if (runs[i].threads == 1) {
                compare(&c, result, bytes, n + 1, runs[i].level);
                free(first);
                first = result;
                continue;
            }
            if (memcmp(first, result, bytes) != 0)
                fail_msg("line %d: other bits with %d threads", n + 1, runs[i].threads);
            free(result);
        }
        free(first);
        for (int i = 0; i < c.n_src; i++) tensor_free(&c.src[i].t);
        if (n % 200 == 199) /* compiled graphs are kept by the scheduler: let go of them now and then */
            for (int i = 0; i < N_RUNS; i++) {
                rig_close(&r[i]);
                rig_open(&r[i], runs[i].level, runs[i].threads);
            }
    }
    fclose(file);
    for (int i = 0; i < N_RUNS; i++) rig_close(&r[i]);
    assert_true(n > 2000);
    assert_int_equal(n_wrong, 0);
}

/* ---- without sources, and over the memory of a source ---------------------------------------- */

typedef struct made_case {
    qn_dtype dtype;
    bool range;
    double a, b;
    int64_t n;
} made_case;

static qn_node *build_made(rig *r, void *ctx)
{
    const made_case *c = ctx;
    const qn_value_attrs a = qn__value(c->a), b = qn__value(c->b);
    return c->range ? qn__arange(r->g, c->dtype, c->n, a, b) : qn__full(r->g, c->dtype, &qn_shape_of(c->n, 1), a);
}

static void check_made(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const made_case *c = ctx;
    (void)r;
    assert_int_equal(bytes, c->n * qn_dtype_get(c->dtype)->block_bytes);
    for (int64_t i = 0; i < c->n; i++) {
        const double want = c->dtype == QN_DTYPE_BOOL ? c->a != 0 : c->range ? c->a + (double)i * c->b : c->a;
        close_to(get(c->dtype, result, i), want, c->dtype == QN_DTYPE_F32 ? 6e-8 * fabs(want) : 0, "made", i);
    }
}

static void test_made(void **state)
{
    (void)state;
    /* clang-format off */
    const made_case cases[] = {
        {QN_DTYPE_F32, false, 0.1, 0, 5000}, {QN_DTYPE_F64, false, 0.1, 0, 3},   {QN_DTYPE_F16, false, -1.5, 0, 2049},
        {QN_DTYPE_BOOL, false, 0.5, 0, 7},   {QN_DTYPE_I8, false, -3, 0, 4097},  {QN_DTYPE_I64, false, 0x1p53, 0, 1},
        {QN_DTYPE_I32, true, -5, 3, 5000},   {QN_DTYPE_I64, true, 10, -7, 2049}, {QN_DTYPE_F32, true, 0.5, 0.25, 6000},
        {QN_DTYPE_F64, true, 1, -0.1, 33},   {QN_DTYPE_F16, true, 0, 0.5, 40},   {QN_DTYPE_F32, true, 0, 1, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_case c = cases[i];
        for_levels(build_made, &c, check_made);
    }
}

typedef struct chain {
    qn_dtype dtype;
    tensor x;
} chain;

/* Each result may take the memory of the one before. */
static qn_node *build_chain(rig *r, void *ctx)
{
    const chain *c = ctx;
    qn_node *x = rig_input(r, &c->x),
            *y = qn__binary(r->g, QN_OP_sub, x, qn__reduce(r->g, QN_OP_amax, x, NULL, 0, false, 0));
    y = qn__unary(r->g, QN_OP_abs, qn__unary(r->g, QN_OP_neg, y));
    y = qn__add(r->g, y, qn__full(r->g, c->dtype, &(qn_shape){0}, qn__value(2)));
    y = qn__along(r->g, QN_OP_cumsum, qn__clamp(r->g, y, 2, 5), 0);
    return qn__unary(r->g, QN_OP_square, y);
}

static void check_chain(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const chain *c = ctx;
    double max = -INFINITY, sum = 0;
    (void)r, (void)bytes;
    for (int64_t i = 0; i < c->x.numel; i++) max = fmax(max, get(c->dtype, c->x.data, i));
    const qn_dtype to = c->dtype == QN_DTYPE_I16 ? QN_DTYPE_I64 : c->dtype;
    for (int64_t i = 0; i < c->x.numel; i++) {
        sum += fmin(fmax(fabs(get(c->dtype, c->x.data, i) - max) + 2, 2), 5);
        close_to(get(to, result, i), sum * sum, 0, "chain", i); /* whole numbers, exact in all */
    }
}

static void test_chain(void **state)
{
    (void)state;
    const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_F64, QN_DTYPE_I16, QN_DTYPE_F16};
    for (int k = 0; k < 4; k++) {
        chain c = {.dtype = dtypes[k]};
        c.x = tensor_new(c.dtype, qn_shape_of(k < 3 ? 700 : 8));
        for (int64_t i = 0; i < c.x.numel; i++) put(&c.x, i, made('i', 7, i));
        for_levels(build_chain, &c, check_chain);
        tensor_free(&c.x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_like_pytorch), cmocka_unit_test(test_made),
                                       cmocka_unit_test(test_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
