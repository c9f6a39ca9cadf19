/* SPDX-License-Identifier: MIT */
/* tests/unit/array/gradient_cases.c -- the gradient of every operation that grads.def names, by value: in F64 against
 * central differences of the operation itself, in F32 against PyTorch's figures. A row without a case fails. */
#include "rig.h"

#include "array/array.h"
#include "grad/grad.h"

typedef struct grad_case {
    qn_op op;
    const char *sources;
    const void *attrs;
} grad_case;

static const grad_case cases[] = {
/* clang-format off */
#define CASE(op, sources, torch, ...) {QN_OP_##op, sources, __VA_ARGS__},
/* clang-format on */
#include "gradient_cases.inc"
#undef CASE
};
enum { N_CASES = sizeof cases / sizeof cases[0], MAX_NUMEL = 100 };

typedef struct figures {
    int at, source, n;
    const double *value;
} figures;
static const figures torch[] = {
/* clang-format off */
#define FIGURES(at, source, ...) {at, source, sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
    (const double[]){__VA_ARGS__}},
/* clang-format on */
#include "gradient_figures.inc"
#undef FIGURES
};

/* ---- sources ---- */

typedef struct source {
    char kind;
    qn_shape shape;
    int64_t below, n;
    double value[MAX_NUMEL]; /* of real ones, exact in F32 */
} source;

static double unit(int64_t k, int s) { return ((double)((k * 37 + s * 11 + 5) % 101) + 0.3) / 101; }

static bool is_real(const source *s) { return strchr("rupgfzko", s->kind) != NULL; }
static bool is_leaf(const source *s) { return is_real(s) && s->kind != 'k'; }

/* The next word of `text` as source i. */
static const char *read_source(const char *text, int i, source *s)
{
    static const struct {
        char kind;
        double low, width;
    } ranges[] = {{'r', -2, 4},  {'f', -2, 4},  {'u', -1, 2},   {'p', 0.3, 2},
                  {'g', 1.2, 2}, {'k', 0.3, 2}, {'o', 0.1, 0.8}};
    char *end;
    *s = (source){.kind = *text++};
    while (*text >= '0' && *text <= '9') {
        s->shape.dim[s->shape.rank++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    if (*text == ':') {
        s->below = strtoll(text + 1, &end, 10);
        text = end;
    }
    s->n = qn_shape_numel(&s->shape);
    assert_true(s->n <= MAX_NUMEL);
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        for (int64_t k = 0; k < s->n && ranges[r].kind == s->kind; k++)
            s->value[k] = (double)(float)(ranges[r].low + ranges[r].width * unit(k, i));
    }
    for (int64_t k = 0; k < s->n && s->kind == 'z'; k++) s->value[k] = (double)((k * 5 + i) % 3 - 1);
    return *text == ' ' ? text + 1 : text;
}

static qn_tensor *real_tensor(qn_context *c, const source *s, qn_dtype dtype)
{
    float narrow[MAX_NUMEL];
    for (int64_t k = 0; k < s->n; k++) narrow[k] = (float)s->value[k];
    if (s->kind == 'f' || dtype == F32) return qn_from_data(c, narrow, s->shape, F32);
    return qn_from_data(c, s->value, s->shape, dtype);
}

static qn_tensor *whole_tensor(qn_context *c, const source *s, int i)
{
    uint8_t mask[MAX_NUMEL];
    int32_t narrow[MAX_NUMEL];
    int64_t wide[MAX_NUMEL];
    for (int64_t k = 0; k < s->n; k++) {
        mask[k] = (k * 5 + i) % 3 == 0;
        wide[k] = s->kind == 'C'   ? k * s->below
                  : s->kind == 'P' ? k * 3 + 1
                  : s->below > 0   ? (k * 7 + i * 3 + 1) % s->below
                                   : 0;
        narrow[k] = (int32_t)wide[k];
    }
    if (s->kind == 'm') return qn_from_data(c, mask, s->shape, QN_DTYPE_BOOL);
    if (s->kind == 'I' || s->kind == 'P') return qn_from_data(c, narrow, s->shape, QN_DTYPE_I32);
    return qn_from_data(c, wide, s->shape, QN_DTYPE_I64);
}

/* ---- one case ---- */

typedef struct run {
    qn_context *c;
    const grad_case *of;
    qn_dtype dtype;
    int n_src;
    source src[QN_MAX_SRC];
} run;

static run run_of(qn_context *c, const grad_case *of, qn_dtype dtype)
{
    run r = {.c = c, .of = of, .dtype = dtype};
    for (const char *at = of->sources; *at != '\0'; r.n_src++) at = read_source(at, r.n_src, &r.src[r.n_src]);
    return r;
}

static qn_tensor *forward(run *r, qn_tensor **leaves)
{
    qn_tensor *in[QN_MAX_SRC];
    for (int i = 0; i < r->n_src; i++) {
        in[i] = is_real(&r->src[i]) ? real_tensor(r->c, &r->src[i], r->dtype) : whole_tensor(r->c, &r->src[i], i);
        GOOD(r->c, in[i]);
        if (leaves == NULL) continue;
        leaves[i] = in[i];
        if (is_leaf(&r->src[i])) GOOD(r->c, qn_requires_grad_(in[i], true));
    }
    qn_tensor *y = qn__apply(r->of->op, r->of->attrs, in, r->n_src);
    if (y == NULL) fail_msg("%s of %s: %s", qn__op_info(r->of->op)->name, r->of->sources, qn_context_error(r->c)->text);
    return y;
}

static double weight(int64_t k) { return (double)(float)(-2 + 4 * unit(k, 9)); }

/* The sum of the result, weighed. */
static double weighed(run *r)
{
    double y[MAX_NUMEL], sum = 0;
    OK(r->c, qn_scope_begin(r->c));
    qn_tensor *t = forward(r, NULL);
    const int64_t n = qn_numel(t);
    assert_true(n <= MAX_NUMEL);
    OK(r->c, qn_to_doubles(t, y, n));
    for (int64_t k = 0; k < n; k++) sum += y[k] * weight(k);
    qn_scope_end(r->c, NULL);
    return sum;
}

static void gradients(run *r, qn_tensor **leaves)
{
    qn_tensor *y = forward(r, leaves);
    source dy = {.kind = of(y)->storage->dtype == F32 ? 'f' : 'r', .shape = qn_shape_get(y), .n = qn_numel(y)};
    for (int64_t k = 0; k < dy.n; k++) dy.value[k] = weight(k);
    const qn_status status = qn_backward_with(y, real_tensor(r->c, &dy, of(y)->storage->dtype), false);
    if (status != QN_OK)
        fail_msg("%s of %s: %s", qn__op_info(r->of->op)->name, r->of->sources, qn_context_error(r->c)->text);
}

static int look_at(run *r, int i, qn_tensor *leaf, const double *want, double bound, const char *against)
{
    double have[MAX_NUMEL], most = 1e-3;
    qn_tensor *grad = qn_grad(leaf);
    if (grad == NULL) fail_msg("%s of %s: source %d got no gradient", qn__op_info(r->of->op)->name, r->of->sources, i);
    const qn_shape shape = qn_shape_get(grad);
    assert_true(qn_shape_equal(&shape, &r->src[i].shape));
    OK(r->c, qn_to_doubles(grad, have, r->src[i].n));
    for (int64_t k = 0; k < r->src[i].n; k++) most = fmax(most, fabs(want[k]));
    for (int64_t k = 0; k < r->src[i].n; k++) {
        if (fabs(have[k] - want[k]) <= bound * most) continue;
        print_error("%s of \"%s\": the gradient of source %d, element %lld, is %.9g, %.9g by %s\n",
                    qn__op_info(r->of->op)->name, r->of->sources, i, (long long)k, have[k], want[k], against);
        return 1;
    }
    return 0;
}

/* Central differences. Operations in F32 only are stepped wide: what is left of the result's rounding is below the
 * bound. */
static void by_differences(void **state)
{
    (void)state;
    qn_context *c = context_new();
    int wrong = 0;
    for (int at = 0; at < N_CASES; at++) {
        qn_tensor *leaves[QN_MAX_SRC];
        OK(c, qn_scope_begin(c));
        run r = run_of(c, &cases[at], QN_DTYPE_F64);
        gradients(&r, leaves);
        for (int i = 0; i < r.n_src; i++) {
            double want[MAX_NUMEL];
            if (!is_leaf(&r.src[i]) || strchr(r.of->sources, 'z') != NULL) continue;
            const bool narrow = r.src[i].kind == 'f';
            const double h = narrow ? 0x1p-6 : 0x1p-17;
            for (int64_t k = 0; k < r.src[i].n; k++) {
                const double x = r.src[i].value[k];
                r.src[i].value[k] = x + h;
                const double above = weighed(&r);
                r.src[i].value[k] = x - h;
                want[k] = (above - weighed(&r)) / (2 * h);
                r.src[i].value[k] = x;
            }
            wrong += look_at(&r, i, leaves[i], want, narrow ? 2e-3 : 1e-7, "differences");
        }
        qn_scope_end(c, NULL);
    }
    assert_int_equal(wrong, 0);
    context_end(c);
}

static void by_pytorch(void **state)
{
    (void)state;
    qn_context *c = context_new();
    int wrong = 0;
    size_t f = 0;
    for (int at = 0; at < N_CASES; at++) {
        qn_tensor *leaves[QN_MAX_SRC];
        OK(c, qn_scope_begin(c));
        run r = run_of(c, &cases[at], F32);
        gradients(&r, leaves);
        for (int i = 0; i < r.n_src; i++) {
            if (!is_leaf(&r.src[i])) continue;
            assert_true(f < sizeof torch / sizeof torch[0] && torch[f].at == at && torch[f].source == i &&
                        torch[f].n == r.src[i].n);
            wrong += look_at(&r, i, leaves[i], torch[f].value, 1e-5, "PyTorch");
            f++;
        }
        qn_scope_end(c, NULL);
    }
    assert_int_equal(f, sizeof torch / sizeof torch[0]);
    assert_int_equal(wrong, 0);
    context_end(c);
}

static void every_row_has_a_case(void **state)
{
    (void)state;
    static const qn_op rows[] = {
#define QN_GRAD(op, a, b, others) QN_OP_##op,
#include "grad/grads.def"
#undef QN_GRAD
    };
    int missing = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool found = false;
        for (int at = 0; at < N_CASES && !found; at++) found = cases[at].op == rows[i];
        if (!found) print_error("grads.def: %s has no case\n", qn__op_info(rows[i])->name);
        missing += !found;
    }
    assert_int_equal(missing, 0);
}

static void combining_otherwise_is_refused(void **state)
{
    (void)state;
    qn_context *c = context_new();
    const grad_case of = {QN_OP_scatter, "r4,3 L2,3:4 r2,3", &(qn_index_attrs){.dim = 0, .mode = QN_COMBINE_max}};
    qn_tensor *leaves[QN_MAX_SRC];
    run r = run_of(c, &of, F32);
    qn_tensor *y = forward(&r, leaves);
    assert_int_equal(qn_backward_with(y, qn_ones(c, qn_shape_of(4, 3), F32), false), QN_STATUS_unsupported);
    assert_non_null(strstr(qn_context_error(c)->text, "gradient of scatter: mode max"));
    assert_null(qn_grad(leaves[0]));
    qn_context_clear(c);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_case),
        cmocka_unit_test(by_differences),
        cmocka_unit_test(by_pytorch),
        cmocka_unit_test(combining_otherwise_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
