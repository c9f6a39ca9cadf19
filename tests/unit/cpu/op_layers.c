/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_layers.c -- layer_norm, norm_back, swiglu_back, softmax_back, gelu_back, cumprod_back, rope_table,
 * rope_apply, cross_entropy and cross_entropy_back against sums in double, at every level and thread count, over sizes
 * that take several blocks, tiles and strips. */
#include "rig.h"

#define S(...) qn_shape_of(__VA_ARGS__)

/* ---- norms ----------------------------------------------------------------------------------- */

typedef struct norm_case {
    int64_t rows, n;
    bool centred, strided; /* strided: dy and x are every other row of more */
    int wanted;
    tensor dy, x, w, b;
} norm_case;

static const double EPS = 1e-5;

static qn_node *rows_of(rig *r, const tensor *t, const norm_case *c)
{
    qn_node *x = rig_input(r, t);
    if (!c->strided) return x;
    qn_view_attrs v;
    memset(&v, 0, sizeof v);
    OK(qn_layout_slice(&x->layout, 0, 0, INT64_MAX, 2, &v.layout, err));
    return qn__op(r->g, QN_OP_view, &v, &x, 1);
}

static const float *row_of(const tensor *t, const norm_case *c, int64_t row)
{
    return t->value + row * (c->strided ? 2 : 1) * c->n;
}

static qn_node *build_norm(rig *r, void *ctx)
{
    norm_case *c = ctx;
    return qn__layer_norm(r->g, rows_of(r, &c->x, c), rig_input(r, &c->w), rig_input(r, &c->b), EPS);
}

/* Gives how far rounding of x - mean is blown up. */
static double normal_of(const norm_case *c, int64_t row, double *h, double *scale)
{
    const float *x = row_of(&c->x, c, row);
    double mean = 0, var = 0;
    for (int64_t i = 0; i < c->n && c->centred; i++) mean += (double)x[i] / (double)c->n;
    for (int64_t i = 0; i < c->n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)c->n;
    *scale = 1 / sqrt(var + EPS);
    for (int64_t i = 0; i < c->n; i++) h[i] = ((double)x[i] - mean) * *scale;
    return 1 + fabs(mean) * *scale;
}

static void check_norm(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const norm_case *c = ctx;
    const float *y = result;
    double h[700], scale;
    (void)r;
    assert_int_equal(bytes, (size_t)(c->rows * c->n) * 4);
    for (int64_t row = 0; row < c->rows; row++) {
        const double blown = normal_of(c, row, h, &scale);
        for (int64_t i = 0; i < c->n; i++) {
            const double want = h[i] * (double)c->w.value[i] + (double)c->b.value[i];
            close_to(y[row * c->n + i], want, 2e-6 * blown * (1 + fabs(want)), "layer_norm", row * c->n + i);
        }
    }
}

static qn_node *build_back(rig *r, void *ctx)
{
    norm_case *c = ctx;
    const qn_norm_back_attrs attrs = {.eps = EPS, .centred = c->centred, .wanted = c->wanted};
    return qn__norm_back(r->g, rows_of(r, &c->dy, c), rows_of(r, &c->x, c), rig_input(r, &c->w), &attrs);
}

static void check_back(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const norm_case *c = ctx;
    const float *y = result, *sums = y + (c->wanted & QN_NORM_x ? c->rows * c->n : 0);
    double h[700], v[700], dw[700] = {0}, db[700] = {0}, scale;
    (void)r;
    for (int64_t row = 0; row < c->rows; row++) {
        const float *dy = row_of(&c->dy, c, row);
        double along = 0, level = 0, along_size = 0, level_size = 0;
        const double blown = normal_of(c, row, h, &scale);
        for (int64_t i = 0; i < c->n; i++) {
            v[i] = (double)dy[i] * (double)c->w.value[i];
            along += v[i] * h[i] / (double)c->n;
            along_size += fabs(v[i] * h[i]) / (double)c->n;
            level += c->centred ? v[i] / (double)c->n : 0;
            level_size += c->centred ? fabs(v[i]) / (double)c->n : 0;
            dw[i] += (double)dy[i] * h[i];
            db[i] += (double)dy[i];
        }
        for (int64_t i = 0; i < c->n && c->wanted & QN_NORM_x; i++) {
            const double size = scale * (fabs(v[i]) + fabs(h[i]) * along_size + level_size);
            close_to(y[row * c->n + i], scale * (v[i] - h[i] * along - level), 2e-6 * blown * size, "dx",
                     row * c->n + i);
        }
    }
    const int n_sums = !!(c->wanted & QN_NORM_w) + !!(c->wanted & QN_NORM_b);
    assert_int_equal(bytes, (size_t)((c->wanted & QN_NORM_x ? c->rows * c->n : 0) + n_sums * c->n) * 4);
    for (int64_t i = 0; i < c->n && c->wanted & QN_NORM_w; i++)
        close_to(sums[i], dw[i], 3e-6 * (double)(c->rows + 3), "dw", i);
    if (c->wanted & QN_NORM_w) sums += c->n;
    for (int64_t i = 0; i < c->n && c->wanted & QN_NORM_b; i++)
        close_to(sums[i], db[i], 3e-6 * (double)(c->rows + 3), "db", i);
}

static void test_norms(void **state)
{
    (void)state;
    static const int16_t sizes[][2] = {{1, 1}, {3, 7}, {17, 64}, {70, 300}, {33, 641}, {4200, 3}, {0, 5}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int way = 0; way < 4; way++) {
            norm_case c = {.rows = sizes[i][0], .n = sizes[i][1], .centred = way & 1, .strided = way & 2};
            const int64_t rows = c.strided && c.rows > 0 ? 2 * c.rows - 1 : c.rows;
            c.dy = tensor_random(QN_DTYPE_F32, S(rows, c.n));
            c.x = tensor_random(QN_DTYPE_F32, S(rows, c.n));
            c.w = tensor_random(QN_DTYPE_F32, S(c.n));
            c.b = tensor_random(QN_DTYPE_F32, S(c.n));
            if (c.centred) for_levels(build_norm, &c, check_norm);
            for (c.wanted = 1; c.wanted <= (c.centred ? 7 : 3); c.wanted += c.rows > 100 ? 2 : 1)
                for_levels(build_back, &c, check_back);
            tensor_free(&c.dy);
            tensor_free(&c.x);
            tensor_free(&c.w);
            tensor_free(&c.b);
        }
    }
}

/* ---- swiglu_back ----------------------------------------------------------------------------- */

typedef struct gate_case {
    tensor dy, gate, up;
} gate_case;

static qn_node *build_gate(rig *r, void *ctx)
{
    gate_case *c = ctx;
    qn_node *dy = rig_input(r, &c->dy); /* transposed: any strides will do */
    return qn__swiglu_back(r->g, qn__permute(r->g, dy, (int[]){1, 0}, 2), rig_input(r, &c->gate), rig_input(r, &c->up));
}

static void check_gate(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const gate_case *c = ctx;
    const int64_t rows = c->gate.shape.dim[0], n = c->gate.shape.dim[1], all = rows * n;
    float *y = malloc(bytes + 4);
    const double slack = c->gate.dtype == QN_DTYPE_F32 ? 1e-6 : 1e-2;
    (void)r;
    assert_int_equal(bytes, (size_t)(2 * qn_dtype_row_bytes(c->gate.dtype, all)));
    if (c->gate.dtype == QN_DTYPE_F32)
        memcpy(y, result, bytes);
    else
        y = realloc(y, (size_t)all * 8 + 4);
    OK(qn_unpack(c->gate.dtype, result, y, 2 * all, err));
    for (int64_t e = 0; e < all; e++) {
        const double g = (double)c->gate.value[e], u = (double)c->up.value[e],
                     d = (double)c->dy.value[e % n * rows + e / n];
        const double s = 1 / (1 + exp(-g)), to_gate = d * u * s * (1 + g * (1 - s)), to_up = d * g * s;
        close_to(y[e], to_gate, slack * (fabs(to_gate) + fabs(d * u)), "to gate", e);
        close_to(y[all + e], to_up, slack * (fabs(to_up) + 1e-3), "to up", e);
    }
    free(y);
}

static void test_gates(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_BF16};
    for (int i = 0; i < 4; i++) {
        const int64_t rows = i < 2 ? 37 : 1, n = i < 2 ? 211 : 5;
        gate_case c = {tensor_random(dtypes[i % 2], S(n, rows)), tensor_random(dtypes[i % 2], S(rows, n)),
                       tensor_random(dtypes[i % 2], S(rows, n))};
        for_levels(build_gate, &c, check_gate);
        tensor_free(&c.dy);
        tensor_free(&c.gate);
        tensor_free(&c.up);
    }
}

/* ---- softmax_back and gelu_back: two sources, one result ------------------------------------- */

typedef struct slope_case {
    int64_t rows, n;
    qn_op op;
    int32_t which; /* log, or tanh */
    tensor dy, x;
} slope_case;

static qn_node *build_slope(rig *r, void *ctx)
{
    slope_case *c = ctx;
    return qn__op(r->g, c->op, &c->which, (qn_node *[]){rig_input(r, &c->dy), rig_input(r, &c->x)}, 2);
}

static double gelu_slope(double x, bool by_tanh)
{
    const double k = sqrt(2 / acos(-1)), h = tanh(k * (x + 0.044715 * x * x * x));
    if (by_tanh) return 0.5 * (1 + h) + 0.5 * x * (1 - h * h) * k * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-0.5 * x * x) / sqrt(2 * acos(-1));
}

static void check_slope(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const slope_case *c = ctx;
    const float *y = result;
    (void)r;
    assert_int_equal(bytes, (size_t)(c->rows * c->n) * 4);
    for (int64_t row = 0; row < c->rows; row++) {
        const float *dy = c->dy.value + row * c->n, *x = c->x.value + row * c->n;
        double sum = 0, size = 0;
        for (int64_t i = 0; i < c->n; i++) {
            const double part = (double)dy[i] * (c->which ? 1 : (double)x[i]);
            sum += part;
            size += fabs(part);
        }
        for (int64_t i = 0; i < c->n; i++) {
            const double d = (double)dy[i], v = (double)x[i], e = exp(v),
                         bound = 1e-6 * (fabs(d) + size * (c->which ? e : fabs(v)) + fabs(d * v));
            if (c->op == QN_OP_gelu_back)
                close_to(y[row * c->n + i], d * gelu_slope(v, c->which), 1e-6 * fabs(d), "gelu_back", i);
            else
                close_to(y[row * c->n + i], c->which ? d - e * sum : v * (d - sum), bound, "softmax_back", i);
        }
    }
}

/* Sums of products, each made anew. */
static void check_cumprod(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const slope_case *c = ctx;
    const float *y = result;
    (void)r;
    assert_int_equal(bytes, (size_t)(c->rows * c->n) * 4);
    for (int64_t at = 0; at < c->rows * c->n; at++) {
        const float *dy = c->dy.value + at / c->n * c->n, *x = c->x.value + at / c->n * c->n;
        double sum = 0, size = 0;
        for (int64_t i = at % c->n; i < c->n; i++) {
            double part = (double)dy[i];
            for (int64_t j = 0; j <= i; j++) part *= j == at % c->n ? 1 : (double)x[j];
            sum += part;
            size += fabs(part);
        }
        close_to(y[at], sum, 3e-7 * size, "cumprod_back", at);
    }
}

static void test_cumprod_back(void **state)
{
    (void)state;
    static const int16_t sizes[][2] = {{1, 1}, {5, 9}, {40, 70}, {3, 0}};
    for (int i = 0; i < 4; i++) {
        slope_case c = {.rows = sizes[i][0], .n = sizes[i][1], .op = QN_OP_cumprod_back};
        c.dy = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
        c.x = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
        /* one in a row, and two */
        for (int at = 12; i == 1 && at < 24; at += 5) ((float *)c.x.data)[at] = c.x.value[at] = 0;
        for_levels(build_slope, &c, check_cumprod);
        tensor_free(&c.dy);
        tensor_free(&c.x);
    }
}

static void test_slopes(void **state)
{
    (void)state;
    static const int16_t sizes[][2] = {{1, 1}, {37, 70}, {3, 9001}, {0, 4}};
    for (int i = 0; i < 16; i++) {
        slope_case c = {.rows = sizes[i / 4][0],
                        .n = sizes[i / 4][1],
                        .op = i & 1 ? QN_OP_gelu_back : QN_OP_softmax_back,
                        .which = i >> 1 & 1};
        c.dy = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
        c.x = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
        for_levels(build_slope, &c, check_slope);
        tensor_free(&c.dy);
        tensor_free(&c.x);
    }
}

/* ---- rotation: the bits of rope; and back again ---------------------------------------------- */

typedef struct rotation {
    qn_rope_attrs rope;
    bool heads_first, back;
    int64_t n, heads, d;
    tensor x, pos;
} rotation;

static qn_node *build_rope(rig *r, void *ctx)
{
    rotation *c = ctx;
    return qn__rope(r->g, rig_input(r, &c->x), rig_input(r, &c->pos), NULL, &c->rope);
}

static qn_node *build_rope_apply(rig *r, void *ctx)
{
    rotation *c = ctx;
    const qn_rope_table_attrs of_table = {.rope = c->rope, .dtype = QN_DTYPE_F32};
    qn_rope_apply_attrs attrs = {.mode = c->rope.mode, .n_rot = c->rope.n_rot, .heads_first = c->heads_first};
    qn_node *table = qn__rope_table(r->g, rig_input(r, &c->pos), NULL, &of_table), *x = rig_input(r, &c->x);
    const int swap[] = {1, 0, 2};
    if (c->heads_first) x = qn__permute(r->g, x, swap, 3);
    qn_node *y = qn__rope_apply(r->g, x, table, &attrs);
    attrs.back = c->back;
    if (c->back) y = qn__rope_apply(r->g, y, table, &attrs);
    return c->heads_first ? qn__copy(r->g, qn__permute(r->g, y, swap, 3), QN_DTYPE_F32) : y;
}

static void check_rope_apply(const rig *r, const void *result, size_t bytes, void *ctx)
{
    rotation *c = ctx;
    if (c->back) {
        for (int64_t i = 0; i < c->x.numel; i++)
            close_to(((const float *)result)[i], c->x.value[i], 1e-6 * (1 + fabs((double)c->x.value[i])),
                     "there and back", i);
        return;
    }
    size_t want_bytes;
    void *want = run_at(r->kernels->level, build_rope, c, &want_bytes);
    assert_int_equal(bytes, want_bytes);
    assert_memory_equal(result, want, bytes);
    free(want);
}

static void test_rope_apply(void **state)
{
    (void)state;
    for (int way = 0; way < 16; way++) {
        rotation c = {.n = 19, .heads = 3, .d = 38, .heads_first = way & 1, .back = way & 2};
        c.rope = (qn_rope_attrs){.mode = way & 4 ? QN_ROPE_NEOX : QN_ROPE_NORM,
                                 .n_rot = way & 8 ? 38 : 20,
                                 .base = 500,
                                 .freq_scale = 1,
                                 .attn_factor = 1,
                                 .beta_fast = 32,
                                 .beta_slow = 1};
        c.x = tensor_random(QN_DTYPE_F32, S(c.n, c.heads, c.d));
        c.pos = tensor_ints(S(c.n), NULL);
        for (int64_t i = 0; i < c.n; i++) ints_of(&c.pos)[i] = (int32_t)(i * i * 31);
        for_levels(build_rope_apply, &c, check_rope_apply);
        tensor_free(&c.x);
        tensor_free(&c.pos);
    }
}

/* ---- cross entropy --------------------------------------------------------------------------- */

typedef struct loss_case {
    qn_cross_entropy_attrs attrs;
    int64_t rows, n;
    bool weighed, keeps_logits;
    tensor x, ids, w, dy;
} loss_case;

static int64_t n_losses(const loss_case *c) { return c->attrs.reduction == QN_LOSSES_none ? c->rows : 1; }

static qn_node *build_loss(rig *r, void *ctx)
{
    loss_case *c = ctx;
    return qn__cross_entropy(r->g, rig_input(r, &c->x), rig_input(r, &c->ids), c->weighed ? rig_input(r, &c->w) : NULL,
                             &c->attrs);
}

static qn_node *build_loss_back(rig *r, void *ctx)
{
    loss_case *c = ctx;
    qn_node *x = rig_input(r, &c->x), *ids = rig_input(r, &c->ids), *w = c->weighed ? rig_input(r, &c->w) : NULL;
    /* a value of the graph's own, which the gradient may overwrite */
    if (!c->keeps_logits) x = qn__scale(r->g, x, 1.0f, 0.0f);
    return qn__cross_entropy_back(r->g, x, ids, qn__cross_entropy(r->g, x, ids, w, &c->attrs), rig_input(r, &c->dy), w,
                                  &c->attrs);
}

static double class_weight(const loss_case *c, int64_t id) { return c->weighed ? (double)c->w.value[id] : 1; }

/* The row's sum, its target's weight (0 for none), and what its loss is to be multiplied by. */
static double row_sum(const loss_case *c, int64_t row, double *weight, double *share)
{
    const float *x = c->x.value + row * c->n;
    double high = -INFINITY, sum = 0, total = 0;
    for (int64_t i = 0; i < c->n; i++) high = fmax(high, (double)x[i]);
    for (int64_t i = 0; i < c->n; i++) sum += exp((double)x[i] - high);
    for (int64_t r = 0; r < c->rows; r++)
        total += ints_of(&c->ids)[r] == c->attrs.ignore ? 0 : class_weight(c, ints_of(&c->ids)[r]);
    *weight = ints_of(&c->ids)[row] == c->attrs.ignore ? 0 : class_weight(c, ints_of(&c->ids)[row]);
    *share = *weight == 0 ? 0 : c->attrs.reduction == QN_LOSSES_mean ? 1 / total : 1;
    return high + log(sum);
}

static double target(const loss_case *c, int64_t row, int64_t i)
{
    const double own = i == ints_of(&c->ids)[row] ? (1 - c->attrs.smoothing) * class_weight(c, i) : 0;
    return own + c->attrs.smoothing / (double)c->n * class_weight(c, i);
}

static void check_loss(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const loss_case *c = ctx;
    const float *y = result;
    double sum = 0;
    (void)r;
    assert_int_equal(bytes, (size_t)(n_losses(c) + c->rows) * 4);
    for (int64_t row = 0; row < c->rows; row++) {
        double weight, share, loss = 0;
        const double lse = row_sum(c, row, &weight, &share);
        for (int64_t i = 0; i < c->n; i++)
            loss -= target(c, row, i) * ((double)c->x.value[row * c->n + i] - lse) * share;
        close_to(y[n_losses(c) + row], lse, 1e-6 * (1 + fabs(lse)), "lse", row);
        if (c->attrs.reduction == QN_LOSSES_none) close_to(y[row], loss, 1e-6 * (1 + fabs(loss)), "loss", row);
        sum += loss;
    }
    if (c->attrs.reduction != QN_LOSSES_none) close_to(y[0], sum, 1e-6 * (1 + fabs(sum)), "loss", 0);
}

static void check_loss_back(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const loss_case *c = ctx;
    const float *y = result;
    (void)r;
    assert_int_equal(bytes, (size_t)(c->rows * c->n) * 4);
    for (int64_t row = 0; row < c->rows; row++) {
        double weight, share, all = 0;
        const double lse = row_sum(c, row, &weight, &share), to_lse = (double)c->dy.value[n_losses(c) + row];
        const double dy = (double)c->dy.value[c->attrs.reduction == QN_LOSSES_none ? row : 0] * share;
        for (int64_t i = 0; i < c->n; i++) all += target(c, row, i);
        for (int64_t i = 0; i < c->n; i++) {
            const double p = exp((double)c->x.value[row * c->n + i] - lse),
                         want = (dy * all + to_lse) * p - dy * target(c, row, i);
            close_to(y[row * c->n + i], want,
                     2e-6 * (fabs((dy * all + to_lse) * p) + fabs(dy * target(c, row, i)) + 1e-6), "dlogits",
                     row * c->n + i);
        }
    }
}

static void test_losses(void **state)
{
    (void)state;
    static const int16_t sizes[][2] = {{1, 1}, {5, 7}, {23, 300}, {3, 9001}};
    for (int i = 0; i < 48; i++) {
        loss_case c = {.rows = sizes[i % 4][0], .n = sizes[i % 4][1], .weighed = i / 4 % 2, .keeps_logits = i % 2};
        c.attrs = (qn_cross_entropy_attrs){.ignore = 2, .smoothing = i / 8 % 2 * 0.1, .reduction = i / 16};
        c.x = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
        c.w = tensor_random(QN_DTYPE_F32, S(c.n));
        c.ids = tensor_ints(S(c.rows), NULL);
        c.dy = tensor_random(QN_DTYPE_F32, S(n_losses(&c) + c.rows));
        for (int64_t k = 0; k < c.n; k++) c.w.value[k] = ((float *)c.w.data)[k] = fabsf(c.w.value[k]) + 0.1f;
        for (int64_t k = 0; k < c.rows; k++) ints_of(&c.ids)[k] = (int32_t)(k % 4 == 3 ? 2 : rng_int(0, c.n - 1));
        if (ints_of(&c.ids)[0] == c.attrs.ignore) ints_of(&c.ids)[0] = 0; /* the mean of no row is NaN */
        for_levels(build_loss, &c, check_loss);
        for_levels(build_loss_back, &c, check_loss_back);
        tensor_free(&c.x);
        tensor_free(&c.w);
        tensor_free(&c.ids);
        tensor_free(&c.dy);
    }
}

/* A target that is no class: NaN, and only that row's gradient. An ignored row: zeros, whatever its logits. */
static void check_odd(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const loss_case *c = ctx;
    const float *y = result;
    (void)r, (void)bytes;
    for (int64_t i = 0; i < c->n; i++) {
        assert_true(isfinite(y[i]));
        assert_true(isnan(y[c->n + i]));
        assert_true(y[2 * c->n + i] == 0);
    }
}

static void test_odd_targets(void **state)
{
    (void)state;
    loss_case c = {.rows = 3,
                   .n = 40,
                   .keeps_logits = true,
                   .attrs = {.ignore = -100, .smoothing = 0.1, .reduction = QN_LOSSES_none}};
    c.x = tensor_random(QN_DTYPE_F32, S(c.rows, c.n));
    ((float *)c.x.data)[2 * c.n + 1] = NAN;
    c.ids = tensor_ints(S(c.rows), (int32_t[]){39, 40, -100});
    c.dy = tensor_random(QN_DTYPE_F32, S(2 * c.rows));
    for (int64_t i = c.rows; i < 2 * c.rows; i++) ((float *)c.dy.data)[i] = 0;
    for_levels(build_loss_back, &c, check_odd);
    tensor_free(&c.x);
    tensor_free(&c.ids);
    tensor_free(&c.dy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),        cmocka_unit_test(test_gates),      cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_cumprod_back), cmocka_unit_test(test_rope_apply), cmocka_unit_test(test_losses),
        cmocka_unit_test(test_odd_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
