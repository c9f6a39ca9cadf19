/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_sdpa.c -- sdpa and sdpa_back against an oracle in double that holds whole matrices: sizes around
 * those of blocks, tiles and lanes, shared heads, masks, windows, caps and sinks, sources with strides; at every level,
 * with 1, 2 and 3 threads to the same bits. */
#include "rig.h"

typedef struct one_case {
    int64_t batch, heads, kv_heads, n, m, d, dv;
    qn_sdpa_attrs attrs;
    /* 0 none, 'b' BOOL [batch,1,n,m] with a row of false, 'f' F32 [1,heads,1,m], 'w' F32 [batch,heads,n,m] */
    char mask;
    bool sinks, transposed; /* transposed: q, k and v lie as [batch, rows, heads, size] */
    bool across;            /* k and dy lie with their rows' elements apart */
} one_case;

static const one_case cases[] = {
    {2, 4, 2, 5, 7, 3, 5, {.scale = 0.5}, 0, false, false, false},
    {1, 2, 2, 131, 131, 64, 64, {.scale = 0.125, .causal = 1}, 0, false, true, false},
    {1, 4, 1, 97, 300, 40, 24, {.scale = 0.2}, 'b', false, false, false},
    {2, 2, 1, 49, 257, 16, 48, {.scale = 0.3, .softcap = 1.5}, 'f', true, true, true},
    {1, 2, 1, 200, 150, 33, 17, {.scale = 0.2, .causal = 1, .window = 37}, 0, true, false, false},
    {1, 1, 1, 300, 260, 32, 32, {.scale = 0.2, .causal = 1, .window = 20}, 0, false, false, true},
    {1, 2, 2, 1, 129, 128, 112, {.scale = 0.1}, 'w', false, false, false},
    {1, 1, 1, 3, 2, 600, 700, {.scale = 0.05}, 0, false, false, false}, /* fewer rows fit a block */
    /* parts of several heads, one width in place */
    {1, 4, 2, 250, 70, 32, 20, {.scale = 0.2, .causal = 1}, 0, false, true, false},
    {3, 12, 6, 5, 20, 32, 48, {.scale = 0.2}, 0, false, true, false}, /* heads enough for no parts */
    {1, 1, 1, 4, 0, 8, 8, {.scale = 1}, 0, true, false, false},
    {1, 1, 1, 4, 0, 8, 8, {.scale = 1}, 0, false, false, false},
    {1, 2, 2, 0, 5, 8, 8, {.scale = 1, .causal = 1}, 0, false, false, false},
};

enum { Q, K, V, MASK, SINKS, DY, N_TENSORS };

typedef struct setup {
    const one_case *c;
    tensor t[N_TENSORS];
    qn_dtype dtype;
    bool back, whole;                       /* the gradient; dy of the result and not of its rows */
    double *y, *lse, *dq, *dk, *dv, *delta; /* the oracle's, lying as in the results */
} setup;

static qn_sdpa_sizes sizes_of(const one_case *c)
{
    return (qn_sdpa_sizes){c->batch, c->heads, c->kv_heads, c->n, c->m, c->d, c->dv};
}

/* ---- the oracle ------------------------------------------------------------------------------ */

/* Row r of [batch, heads, rows, size]. */
ORACLE static const float *row4(const tensor *t, int64_t heads, int64_t rows, int64_t size, int64_t b, int64_t h,
                                int64_t r)
{
    return t->value + ((b * heads + h) * rows + r) * size;
}

/* Values are kept as [batch, heads, rows, size] whatever the memory order of the source. */
ORACLE static double score(const setup *s, int64_t b, int64_t h, int64_t i, int64_t j, double *slope)
{
    const one_case *c = s->c;
    const float *q = row4(&s->t[Q], c->heads, c->n, c->d, b, h, i),
                *key = row4(&s->t[K], c->kv_heads, c->m, c->d, b, h / (c->heads / c->kv_heads), j);
    double x = 0;
    for (int64_t k = 0; k < c->d; k++) x += (double)q[k] * (double)key[k];
    x *= c->attrs.scale;
    *slope = 1;
    if (c->attrs.softcap > 0) {
        const double bent = tanh(x / c->attrs.softcap);
        *slope = 1 - bent * bent;
        x = c->attrs.softcap * bent;
    }
    if (c->attrs.causal && (j > i || (c->attrs.window > 0 && j <= i - c->attrs.window))) return -INFINITY;
    if (c->mask == 'b') return ((const uint8_t *)s->t[MASK].data)[(b * c->n + i) * c->m + j] ? x : -INFINITY;
    if (c->mask == 'f') return x + (double)s->t[MASK].value[h * c->m + j];
    if (c->mask == 'w') return x + (double)s->t[MASK].value[((b * c->heads + h) * c->n + i) * c->m + j];
    return x;
}

ORACLE static void oracle_row(setup *s, const qn_sdpa_parts *p, int64_t b, int64_t h, int64_t i, double *e,
                              double *slope)
{
    const one_case *c = s->c;
    const int64_t g = h / (c->heads / c->kv_heads), at = (b * c->heads + h) * c->n + i;
    double *y = s->y + b * p->y.stride[0] + h * p->y.stride[1] + i * p->y.stride[2];
    double *dq = s->dq + b * p->dq.stride[0] + h * p->dq.stride[1] + i * p->dq.stride[2], sum = 0;
    const double sink = c->sinks ? (double)s->t[SINKS].value[h] : -INFINITY;
    double max = sink;
    for (int64_t j = 0; j < c->m; j++) max = fmax(max, e[j] = score(s, b, h, i, j, &slope[j]));
    if (max > -INFINITY) {
        for (int64_t j = 0; j < c->m; j++) sum += exp(e[j] - max);
        sum += exp(sink - max);
    }
    s->lse[at] = sum > 0 ? max + log(sum) : INFINITY;
    for (int64_t j = 0; j < c->m; j++) {
        const float *v = row4(&s->t[V], c->kv_heads, c->m, c->dv, b, g, j);
        e[j] = exp(e[j] - s->lse[at]);
        for (int64_t k = 0; k < c->dv; k++) y[k] += e[j] * (double)v[k];
    }
    if (!s->back) return;
    double delta = s->whole ? -(double)s->t[DY].value[p->lse.offset + at] : 0;
    const float *dy = s->whole ? s->t[DY].value + (y - s->y) : row4(&s->t[DY], c->heads, c->n, c->dv, b, h, i);
    const float *q = row4(&s->t[Q], c->heads, c->n, c->d, b, h, i);
    for (int64_t k = 0; k < c->dv; k++) delta += (double)dy[k] * y[k];
    s->delta[at] = delta;
    for (int64_t j = 0; j < c->m; j++) {
        double *dk = s->dk + b * p->dk.stride[0] + g * p->dk.stride[1] + j * p->dk.stride[2], ds = 0;
        double *dv = s->dv + b * p->dv.stride[0] + g * p->dv.stride[1] + j * p->dv.stride[2];
        const float *v = row4(&s->t[V], c->kv_heads, c->m, c->dv, b, g, j),
                    *key = row4(&s->t[K], c->kv_heads, c->m, c->d, b, g, j);
        for (int64_t k = 0; k < c->dv; k++) {
            ds += (double)dy[k] * (double)v[k];
            dv[k] += e[j] * (double)dy[k];
        }
        ds = e[j] * (ds - delta) * slope[j] * c->attrs.scale;
        for (int64_t k = 0; k < c->d; k++) {
            dq[k] += ds * (double)key[k];
            dk[k] += ds * (double)q[k];
        }
    }
}

static void oracle(setup *s)
{
    const one_case *c = s->c;
    const qn_sdpa_sizes z = sizes_of(c);
    const qn_sdpa_parts p = qn__sdpa_parts(&z);
    double *e = calloc((size_t)c->m + 1, 16);
    s->y = calloc((size_t)p.forward + 1, 8);
    s->lse = s->y + p.lse.offset;
    s->dq = calloc((size_t)p.back + 1, 8);
    s->dk = s->dq + p.dk.offset;
    s->dv = s->dq + p.dv.offset;
    s->delta = s->dq + p.delta.offset;
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < c->n; i++) oracle_row(s, &p, b, h, i, e, e + c->m);
    free(e);
}

/* ---- running --------------------------------------------------------------------------------- */

/* An input whose memory is in another order than its values: order[i] is the value's dimension that memory's dimension
 * i is. */
static qn_node *ordered(rig *r, setup *s, int which, const int *order)
{
    static tensor transposed[N_TENSORS];
    const tensor *t = &s->t[which];
    int64_t dim[4], stride[4], back[4];
    int undo[4];
    for (int i = 3, n = 1; i >= 0; n *= (int)t->shape.dim[i], i--) stride[i] = n;
    for (int i = 0; i < 4; i++) {
        dim[i] = t->shape.dim[order[i]];
        back[i] = stride[order[i]];
        undo[order[i]] = i;
    }
    tensor_free(&transposed[which]);
    transposed[which] = tensor_new(s->dtype, qn_shape_of(dim[0], dim[1], dim[2], dim[3]));
    for (int64_t k = 0; k < t->numel; k++) {
        const int64_t at[] = {k / (dim[1] * dim[2] * dim[3]), k / (dim[2] * dim[3]) % dim[1], k / dim[3] % dim[2],
                              k % dim[3]};
        const float x = t->value[at[0] * back[0] + at[1] * back[1] + at[2] * back[2] + at[3] * back[3]];
        if (s->dtype == QN_DTYPE_F64)
            ((double *)transposed[which].data)[k] = (double)x;
        else
            ((float *)transposed[which].data)[k] = x;
    }
    return qn__permute(r->g, rig_input(r, &transposed[which]), undo, 4);
}

/* F32 values as they are, or a copy in F64. */
static qn_node *plain(rig *r, setup *s, int which)
{
    qn_node *x = rig_input(r, &s->t[which]);
    return s->t[which].dtype != QN_DTYPE_F32 ? x : qn__copy(r->g, x, s->dtype);
}

static qn_node *build(rig *r, void *ctx)
{
    setup *s = ctx;
    const one_case *c = s->c;
    const int straight[] = {0, 1, 2, 3}, rows_first[] = {0, 2, 1, 3}, apart[] = {0, 3, 1, 2};
    const int *order = c->transposed ? rows_first : straight;
    qn_node *q = ordered(r, s, Q, order), *k = ordered(r, s, K, c->across ? apart : order),
            *v = ordered(r, s, V, order);
    qn_node *mask = c->mask ? plain(r, s, MASK) : NULL,
            *y = qn__sdpa(r->g, q, k, v, mask, c->sinks ? plain(r, s, SINKS) : NULL, &c->attrs);
    if (!s->back) return y;
    qn_node *dy = s->whole ? plain(r, s, DY) : ordered(r, s, DY, c->across ? apart : order);
    return qn__sdpa_back(r->g, q, k, v, y, dy, mask, &c->attrs);
}

static void compare(const rig *r, const void *result, size_t bytes, void *ctx)
{
    (void)r;
    setup *s = ctx;
    const double *want = s->back ? s->dq : s->y;
    const int64_t n = (int64_t)bytes / (s->dtype == QN_DTYPE_F64 ? 8 : 4);
    double most = 1e-3;
    for (int64_t i = 0; i < n; i++) most = fmax(most, isfinite(want[i]) ? fabs(want[i]) : 0);
    for (int64_t i = 0; i < n; i++) {
        const double have = s->dtype == QN_DTYPE_F64 ? ((const double *)result)[i] : (double)((const float *)result)[i];
        close_to(have, want[i], most * (s->dtype == QN_DTYPE_F64 ? 1e-13 : 3e-6), s->back ? "sdpa_back" : "sdpa", i);
    }
}

static void fill(setup *s)
{
    const one_case *c = s->c;
    const qn_sdpa_sizes z = sizes_of(c);
    const qn_sdpa_parts p = qn__sdpa_parts(&z);
    s->t[Q] = tensor_random(QN_DTYPE_F32, qn_shape_of(c->batch, c->heads, c->n, c->d));
    s->t[K] = tensor_random(QN_DTYPE_F32, qn_shape_of(c->batch, c->kv_heads, c->m, c->d));
    s->t[V] = tensor_random(QN_DTYPE_F32, qn_shape_of(c->batch, c->kv_heads, c->m, c->dv));
    s->t[SINKS] = tensor_random(QN_DTYPE_F32, qn_shape_of(c->heads));
    s->t[DY] = s->whole ? tensor_random(QN_DTYPE_F32, qn_shape_of(p.forward))
                        : tensor_random(QN_DTYPE_F32, qn_shape_of(c->batch, c->heads, c->n, c->dv));
    if (c->mask == 'b') {
        s->t[MASK] = tensor_new(QN_DTYPE_BOOL, qn_shape_of(c->batch, 1, c->n, c->m));
        for (int64_t i = 0; i < s->t[MASK].numel; i++)
            ((uint8_t *)s->t[MASK].data)[i] = i / c->m != 3 && rng_int(0, 2) > 0;
    } else if (c->mask) {
        s->t[MASK] = tensor_random(QN_DTYPE_F32, c->mask == 'f' ? qn_shape_of(1, c->heads, 1, c->m)
                                                                : qn_shape_of(c->batch, c->heads, c->n, c->m));
        for (int64_t i = 0; i < s->t[MASK].numel; i += 5)
            ((float *)s->t[MASK].data)[i] = s->t[MASK].value[i] = -INFINITY;
    }
}

/* F64 has no levels: it is looked at once. */
static void once(setup *s)
{
    size_t bytes;
    void *result = run_at((qn_cpu_level)0, build, s, &bytes);
    compare(NULL, result, bytes, s);
    free(result);
}

static void check(bool back, bool whole, qn_dtype dtype, size_t step)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i += step) {
        setup s = {.c = &cases[i], .dtype = dtype, .back = back, .whole = whole};
        fill(&s);
        oracle(&s);
        if (dtype == QN_DTYPE_F64)
            once(&s);
        else
            for_levels(build, &s, compare);
        for (int k = 0; k < N_TENSORS; k++) tensor_free(&s.t[k]);
        free(s.y);
        free(s.dq);
    }
}

static void test_forward(void **state)
{
    (void)state;
    check(false, false, QN_DTYPE_F32, 1);
}

static void test_back(void **state)
{
    (void)state;
    check(true, false, QN_DTYPE_F32, 1);
}

static void test_back_of_all(void **state)
{
    (void)state;
    check(true, true, QN_DTYPE_F32, 3);
}

static void test_double(void **state)
{
    (void)state;
    check(false, false, QN_DTYPE_F64, 1);
    check(true, true, QN_DTYPE_F64, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_back_of_all),
        cmocka_unit_test(test_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
