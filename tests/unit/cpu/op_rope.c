/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_rope.c -- rotation in both layouts, partly rotated heads, frequency factors, YaRN, sections,
 * positions up to 10^6. The oracle computes in long double, and its YaRN is written from the paper's formulas (Peng et
 * al. 2023, eq. 17 to 23), with the wavelength rather than the pair number where the paper does so. */
#include "rig.h"
#include "rope_figures.h"

typedef struct rope_case {
    qn_rope_attrs attrs;
    int64_t n, heads, d;
    bool factors, transposed;
    bool by_table;        /* rope_table and rope_apply in place of rope */
    int64_t first, count; /* tokens to run */
    tensor x, pos, f;
} rope_case;

static qn_node *build(rig *r, void *ctx)
{
    rope_case *c = ctx;
    qn_node *x = rig_input(r, &c->x), *pos = rig_input(r, &c->pos);
    if (c->transposed) x = qn__permute(r->g, x, (int[]){1, 0, 2}, 3);
    if (c->count < c->n) {
        x = qn__narrow(r->g, x, 0, c->first, c->count);
        pos = qn__narrow(r->g, pos, 0, c->first, c->count);
    }
    qn_node *factors = c->factors ? rig_param(r, &c->f, 0) : NULL;
    if (!c->by_table) return qn__rope(r->g, x, pos, factors, &c->attrs);
    qn_node *table = qn__rope_table(r->g, pos, factors, &(qn_rope_table_attrs){c->attrs, QN_DTYPE_F32});
    return qn__rope_apply(r->g, x, table, &(qn_rope_apply_attrs){.mode = c->attrs.mode, .n_rot = c->attrs.n_rot});
}

/* The number of token's position that pair i rotates by. */
static int32_t position_of(const rope_case *c, int64_t token, int64_t i)
{
    const int32_t *s = c->attrs.sections, sum = s[0] + s[1] + s[2] + s[3];
    int axis[256];
    if (sum == 0) return ints_of(&c->pos)[token];
    for (int k = 0, at = 0; k < 4; k++)
        for (int j = 0; j < s[k]; j++) axis[at++] = k;
    if (c->attrs.interleaved) {
        for (int j = 0; j < sum; j++) axis[j] = 3;
        for (int k = 0; k < 3; k++)
            for (int j = k; j < sum && j < 3 * s[k]; j += 3) axis[j] = k;
    }
    if (c->attrs.of_text) return axis[i % sum] == 3 ? 0 : ints_of(&c->pos)[token];
    return ints_of(&c->pos)[token * 4 + axis[i % sum]];
}

/* cos and sin of pair i at a position, times the magnitude scale. */
static void rotation_of(const rope_case *c, int64_t i, int32_t pos, long double *cosine, long double *sine)
{
    const qn_rope_attrs *a = &c->attrs;
    const long double pi = 3.14159265358979323846264338327950288L;
    const long double plain = powl(a->base, -2.0L * i / a->n_rot);
    long double freq = plain / (c->factors ? c->f.value[i] : 1.0L), scale = a->attn_factor;
    const long double stretched = freq * a->freq_scale;
    if (a->ext_factor != 0) {
        /* The pair whose wavelength fits `turns` times into the training context, as a fractional pair number. */
        const long double fast = (a->n_rot / 2.0L) * logl(a->n_ctx_orig / (a->beta_fast * 2 * pi)) / logl(a->base);
        const long double slow = (a->n_rot / 2.0L) * logl(a->n_ctx_orig / (a->beta_slow * 2 * pi)) / logl(a->base);
        long double low = a->exact_bounds ? fast : floorl(fast), high = a->exact_bounds ? slow : ceill(slow);
        if (low < 0) low = 0;
        if (high > a->n_rot - 1) high = a->n_rot - 1;
        long double gamma = 1 - (i - low) / (high - low > 0.001L ? high - low : 0.001L);
        gamma = gamma < 0 ? 0 : gamma > 1 ? 1 : gamma;
        gamma *= a->ext_factor;
        freq = stretched * (1 - gamma) + freq * gamma;
        scale *= 1 + 0.1L * logl(1.0L / a->freq_scale);
    } else {
        freq = stretched;
    }
    *cosine = cosl(pos * freq) * scale;
    *sine = sinl(pos * freq) * scale;
}

static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const rope_case *c = ctx;
    const float *y = result;
    const int64_t half = c->attrs.n_rot / 2;
    (void)r;
    assert_int_equal(bytes, c->n * c->heads * c->d * 4);
    for (int64_t row = 0; row < c->n * c->heads; row++) {
        const int64_t token = row / c->heads, head = row % c->heads;
        const float *x = c->x.value + (c->transposed ? head * c->n + token : row) * c->d;
        for (int64_t i = 0; i < half; i++) {
            const int64_t p = c->attrs.mode == QN_ROPE_NEOX ? i : 2 * i,
                          q = c->attrs.mode == QN_ROPE_NEOX ? i + half : 2 * i + 1;
            long double cosine, sine;
            rotation_of(c, i, position_of(c, token, i), &cosine, &sine);
            const double bound =
                3e-7 * (fabs((double)x[p]) + fabs((double)x[q])) * fabs((double)c->attrs.attn_factor) * 1.5;
            close_to(y[row * c->d + p], (double)(x[p] * cosine - x[q] * sine), bound, "first of a pair",
                     row * c->d + p);
            close_to(y[row * c->d + q], (double)(x[p] * sine + x[q] * cosine), bound, "second of a pair",
                     row * c->d + q);
        }
        assert_memory_equal(y + row * c->d + c->attrs.n_rot, x + c->attrs.n_rot, (size_t)(c->d - c->attrs.n_rot) * 4);
    }
}

static void try_case(rope_case c, const int32_t *pos)
{
    c.count = c.n;
    c.x = tensor_random(QN_DTYPE_F32, c.transposed ? qn_shape_of(c.heads, c.n, c.d) : qn_shape_of(c.n, c.heads, c.d));
    c.pos = tensor_ints(qn__rope_numbers(&c.attrs) > 1 ? qn_shape_of(c.n, 4) : qn_shape_of(c.n), pos);
    c.f = tensor_random(QN_DTYPE_F32, qn_shape_of(c.attrs.n_rot / 2));
    for (int64_t i = 0; i < c.f.numel; i++) ((float *)c.f.data)[i] = c.f.value[i] = 1 + fabsf(c.f.value[i]) * 8;
    for_levels(build, &c, check);

    size_t all_bytes, bytes; /* a token's bits don't depend on its neighbours */
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        c.count = c.n;
        char *all = run_at((qn_cpu_level)level, build, &c, &all_bytes);
        c.count = 1;
        for (c.first = 0; c.first < c.n; c.first++) {
            char *one = run_at((qn_cpu_level)level, build, &c, &bytes);
            assert_memory_equal(one, all + (size_t)c.first * bytes, bytes);
            free(one);
        }
        free(all);
    }
    tensor_free(&c.x);
    tensor_free(&c.pos);
    tensor_free(&c.f);
}

static const int32_t positions[] = {0, 1, 2, 77, 4095, 131071, 1000000, 999999, 5};
enum { N = sizeof(positions) / sizeof(positions[0]) };

static void test_plain(void **state)
{
    (void)state;
    for (int mode = QN_ROPE_NORM; mode <= QN_ROPE_NEOX; mode++) {
        const qn_rope_attrs a = {.mode = mode,
                                 .n_rot = 64,
                                 .base = 10000,
                                 .freq_scale = 1,
                                 .attn_factor = 1,
                                 .beta_fast = 32,
                                 .beta_slow = 1};
        rope_case c = {.attrs = a, .n = N, .heads = 3, .d = 64};
        try_case(c, positions);
        c.attrs.n_rot = 22;
        c.transposed = true;
        try_case(c, positions);
        c.attrs.n_rot = 2;
        c.attrs.base = 1000000;
        c.d = 3;
        try_case(c, positions);
        c = (rope_case){.attrs = a, .n = N, .heads = 1, .d = 80, .factors = true};
        c.attrs.base = 500000;
        c.attrs.freq_scale = 0.25f;
        try_case(c, positions);
    }
}

static void test_yarn(void **state)
{
    (void)state;
    for (int mode = QN_ROPE_NORM; mode <= QN_ROPE_NEOX; mode++) {
        rope_case c = {.attrs = {.mode = mode,
                                 .n_rot = 128,
                                 .base = 10000,
                                 .freq_scale = 1.0f / 16,
                                 .ext_factor = 1,
                                 .attn_factor = 1,
                                 .beta_fast = 32,
                                 .beta_slow = 1,
                                 .n_ctx_orig = 4096},
                       .n = N,
                       .heads = 2,
                       .d = 128};
        try_case(c, positions);
        c.attrs.exact_bounds = 1;
        try_case(c, positions);
        c.attrs.n_ctx_orig = 32768;
        c.attrs.base = 1000000;
        c.attrs.attn_factor = 0.7f;
        c.attrs.ext_factor = 0.5f;
        c.factors = true;
        try_case(c, positions);
    }
}

/* Sections of all pairs, of some twice over, interleaved with and without a rest for the fourth number. */
static void test_sections(void **state)
{
    (void)state;
    static const int32_t sections[][4] = {
        {16, 24, 24, 0}, {3, 5, 2, 1}, {24, 20, 20, 0}, {24, 20, 10, 0}, {1, 0, 0, 0}};
    int32_t pos[N * 4];
    for (int i = 0; i < 4 * N; i++) pos[i] = positions[i % N] / (1 + i % 4) + i;
    for (int i = 0; i < 20; i++) {
        rope_case c = {.attrs = {.mode = QN_ROPE_NEOX,
                                 .n_rot = 128,
                                 .base = 1000000,
                                 .freq_scale = 1,
                                 .attn_factor = 1,
                                 .interleaved = i / 2 % 2},
                       .n = N,
                       .heads = 2,
                       .d = 136,
                       .by_table = i % 2};
        memcpy(c.attrs.sections, sections[i / 4], sizeof sections[0]);
        try_case(c, pos);
        c.attrs.of_text = 1;
        try_case(c, positions);
    }
}

/* The reference engine's own cosines and sines, read off pairs (1, 0). It computes in float, so the angle may be off by
 * its rounding. */
static void test_reference_figures(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof(rope_figures) / sizeof(rope_figures[0]); f++) {
        const int n_rot = rope_figures[f].attrs.n_rot;
        rope_case c = {.attrs = rope_figures[f].attrs,
                       .n = 1,
                       .count = 1,
                       .heads = 1,
                       .d = n_rot,
                       .factors = rope_figures[f].factors};
        c.x = tensor_new(QN_DTYPE_F32, qn_shape_of(1, 1, n_rot));
        c.f = tensor_new(QN_DTYPE_F32, qn_shape_of(n_rot / 2));
        c.pos = tensor_ints(qn_shape_of(1), &rope_figures[f].pos);
        for (int i = 0; i < n_rot / 2; i++) {
            ((float *)c.x.data)[2 * i] = 1;
            ((float *)c.f.data)[i] = 1 + (float)i / 4;
        }
        size_t bytes;
        float *y = run_at(QN_CPU_ref, build, &c, &bytes);
        for (int i = 0; i < n_rot; i++)
            close_to(y[i], rope_figures[f].cos_sin[i], 4e-7 * (rope_figures[f].pos + 1), "figure", i);
        free(y);
        tensor_free(&c.x);
        tensor_free(&c.f);
        tensor_free(&c.pos);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_yarn),
                                       cmocka_unit_test(test_sections), cmocka_unit_test(test_reference_figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
