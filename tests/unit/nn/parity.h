/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/parity.h -- modules against PyTorch's: results and all gradients, in F64 and in F32, from the same
 * weights. Who includes it names the cases and their figures, and has what the cases call. */
typedef struct figures {
    const char *name, *what;
    int64_t n;
    const double *values;
} figures;
#define FIGURES(case, what, ...) \
    {#case, what, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__}},
static const figures rows[] = {
#include PARITY_FIGURES
};

typedef struct parity_case {
    const char *name, *inputs;
    qn_module *(*make)(qn_context *c);
} parity_case;
#define CASE(name, inputs, make) \
    static qn_module *make_##name(qn_context *c) { return make; }
#include PARITY_CASES
#undef CASE
/* clang-format off */
#define CASE(name, inputs, make) {#name, inputs, make_##name},
/* clang-format on */
static const parity_case cases[] = {
#include PARITY_CASES
};

/* The input that a word describes; a leaf when it is real. */
static qn_tensor *input(qn_context *c, const char *word, int s, qn_dtype dtype)
{
    qn_shape shape = {0};
    char *at = (char *)word + 1;
    if (*word == '-') return NULL;
    for (;; at++) {
        shape.dim[shape.rank++] = strtol(at, &at, 10);
        if (*at != ',') break;
    }
    if (*word == 'r') return qn_requires_grad_(qn_to(numbers(c, shape, s), dtype), true);
    const int64_t n = qn_shape_numel(&shape), below = *at == ':' ? strtol(at + 1, NULL, 10) : 0;
    qn_tensor *t = qn_empty(c, shape, *word == 'm' ? QN_DTYPE_BOOL : QN_DTYPE_I64);
    GOOD(c, t);
    void *data = qn_data(t);
    for (int64_t k = 0; k < n; k++) {
        if (*word == 'm')
            ((bool *)data)[k] = (k * 5 + s) % 3 != 0;
        else
            ((int64_t *)data)[k] = (k * 7 + s * 3 + 1) % below;
    }
    return t;
}

typedef struct comparison {
    const parity_case *c;
    qn_dtype dtype;
    int n_params, n_compared;
    double worst;
} comparison;

static void compare(comparison *p, const char *what, qn_tensor *t)
{
    const figures *f = rows;
    const double bound = p->dtype == F32 ? 3e-6 : 1e-10; /* of the largest figure or 1; figures have 11 digits */
    double largest = 0;
    while (f < rows + sizeof rows / sizeof *rows && (strcmp(f->name, p->c->name) != 0 || strcmp(f->what, what) != 0))
        f++;
    if (f == rows + sizeof rows / sizeof *rows) fail_msg("%s: no figures of %s", p->c->name, what);
    if (t == NULL || qn_numel(t) != f->n)
        fail_msg("%s: %s: %s", p->c->name, what, t == NULL ? "is not there" : "another shape");
    double *x = malloc((size_t)f->n * sizeof *x);
    OK(qn_context_of(t), qn_to_doubles(t, x, f->n));
    for (int64_t i = 0; i < f->n; i++) largest = fmax(largest, fabs(f->values[i]));
    for (int64_t i = 0; i < f->n; i++) {
        const double off = fabs(x[i] - f->values[i]) / fmax(largest, 1);
        if (!(off <= bound))
            fail_msg("%s: element %lld of %s is %.12g, %.12g expected", p->c->name, (long long)i, what, x[i],
                     f->values[i]);
        p->worst = fmax(p->worst, off);
    }
    free(x);
    p->n_compared++;
}

static bool give_values(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    comparison *p = arg;
    (void)path, (void)kind;
    const bool was = qn_set_grad_enabled(qn_context_of(t), false);
    GOOD(qn_context_of(t), qn_copy_(t, numbers(qn_context_of(t), qn_shape_get(t), ++p->n_params)));
    qn_set_grad_enabled(qn_context_of(t), was);
    return true;
}

static bool compare_gradient(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    (void)kind;
    compare(arg, path, qn_grad(t));
    return true;
}

static int figures_of(const char *name)
{
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) n += strcmp(rows[i].name, name) == 0;
    return n;
}

static void one(const parity_case *which, qn_dtype dtype, double *worst)
{
    qn_context *c = context_new();
    comparison p = {.c = which, .dtype = dtype};
    qn_tensor *x[4] = {0};
    int n = 0;
    qn_module *m = which->make(c);
    GOOD(c, m);
    OK(c, qn_module_each_tensor(m, give_values, &p));
    OK(c, qn_module_to(m, dtype));
    for (const char *at = which->inputs; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
        x[n] = input(c, at, 50 + n, dtype), n++;
    qn_tensor *y = qn_module_forward_n(m, x, n);
    GOOD(c, y);
    compare(&p, "y", y);
    OK(c, qn_backward(qn_sum(qn_mul(y, numbers(c, qn_shape_get(y), 99)), QN_ALL, false)));
    OK(c, qn_module_each_tensor(m, compare_gradient, &p));
    for (int i = 0; i < n; i++) {
        char name[] = {'x', (char)('0' + i), '\0'};
        if (x[i] != NULL && qn_requires_grad(x[i])) compare(&p, name, qn_grad(x[i]));
    }
    assert_int_equal(p.n_compared, figures_of(which->name));
    *worst = fmax(*worst, p.worst);
    qn_module_destroy(m);
    context_end(c);
}

static void in_doubles(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) one(&cases[i], QN_DTYPE_F64, &worst);
    printf("%zu modules, farthest off %g\n", sizeof cases / sizeof *cases, worst);
}

static void in_floats(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) one(&cases[i], F32, &worst);
    printf("farthest off %g\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_doubles), cmocka_unit_test(in_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
