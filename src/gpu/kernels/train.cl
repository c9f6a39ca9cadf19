/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/train.cl -- what training computes beyond a model's steps: gradients of layers, steps of optimizers.
 * Orders of operations are those of cpu/op/layers, cpu/op/reduce and cpu/kernel/layers.h. */

/* ---- sums along a row by 64 work-items, all of which get the result ----
 * All call these, whatever they need of them: n is 0 for a sum that is not asked for. */

/* Sixteen chains, of the first sixteen. */
DEVICE float dot_by_16(LOCAL float *chain, GLOBAL const float *a, GLOBAL const float *b, int64_t n)
{
    float sum = 0, lane[16];
    for (int64_t i = LANE; i < n && LANE < 16; i += 16) sum = fma(a[i], b[i], sum);
    MEET();
    chain[LANE] = sum;
    MEET();
    for (int j = 0; j < 16; j++) lane[j] = chain[j];
    return sum_of_16(lane);
}

DEVICE float all_64(LOCAL float *chain, float sum)
{
    MEET();
    chain[LANE] = sum;
    MEET();
    return sum_of_64(chain);
}

DEVICE float sum_by_64(LOCAL float *chain, GLOBAL const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = LANE; i < n; i += 64) sum += x[i];
    return all_64(chain, sum);
}

/* ---- softmax and log_softmax ---- A group a row. */

KERNEL_3(softmax_back, qn_rows_back_sizes, dx, dy, y)
{
    IN_ROOM(float, chain);
    GLOBAL const float *dy = AS(float, dy) + row_at(&s.dy, GROUP);
    GLOBAL const float *y = AS(float, y) + row_at(&s.x, GROUP);
    GLOBAL float *dx = AS(float, dx) + GROUP * s.n;
    const float plain = sum_by_64(chain, dy, s.is_log ? s.n : 0), along = dot_by_16(chain, dy, y, s.is_log ? 0 : s.n);
    const float sum = s.is_log ? plain : along;
    for (int64_t i = LANE; i < s.n; i += 64)
        dx[i] = fma(1.0f, s.is_log ? dy[i] : dy[i] * y[i], fma(-sum, s.is_log ? exp_of(y[i]) : y[i], 0.0f));
}

/* ---- norms ---- A group a row: the gradient to x, and into `rows` mean and scale of each. */

KERNEL_5(norm_back, qn_rows_back_sizes, dx, dy, x, w, rows)
{
    IN_ROOM(float, chain);
    GLOBAL const float *dy = AS(float, dy) + row_at(&s.dy, GROUP);
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, GROUP);
    GLOBAL const float *w = AS(float, w);
    const int64_t n_centred = s.centred ? s.n : 0;
    float sum = 0;
    const float total = sum_by_64(chain, x, n_centred), mean = s.centred ? total / (float)s.n : 0.0f;
    for (int64_t i = LANE; i < n_centred; i += 64) sum = fma(x[i] - mean, x[i] - mean, sum);
    const float off = all_64(chain, sum), all = dot_by_16(chain, x, x, s.centred ? 0 : s.n);
    const float r = 1.0f / sqrt((s.centred ? off : all) / (float)s.n + s.eps);
    if (LANE == 0) {
        AS(float, rows)[2 * GROUP] = mean;
        AS(float, rows)[2 * GROUP + 1] = r;
    }
    sum = 0;
    for (int64_t i = LANE; i < s.n; i += 64) sum = fma(s.has_weight ? dy[i] * w[i] : dy[i], x[i] - mean, sum);
    const float along = all_64(chain, sum) / (float)s.n * r;
    const float weighed = dot_by_16(chain, dy, w, s.has_weight ? n_centred : 0),
                plain = sum_by_64(chain, dy, s.has_weight ? 0 : n_centred);
    const float level = s.centred ? (s.has_weight ? weighed : plain) / (float)s.n : 0;
    const float q = -(r * r) * along, rest = -(r * level);
    GLOBAL float *dx = AS(float, dx) + GROUP * s.n;
    for (int64_t i = LANE; i < s.n && s.wants_x; i += 64)
        dx[i] = fma(r, s.has_weight ? dy[i] * w[i] : dy[i], fma(q, x[i] - mean, rest));
}

/* A work-item an element of w: blocks of rows, each added up, are added in order. */
KERNEL_4(norm_sums, qn_rows_back_sizes, y, dy, x, rows)
{
    const int64_t i = GROUP * WIDTH + LANE;
    if (i >= s.n) return;
    float dw = 0, db = 0;
    for (int64_t first = 0; first < s.n_rows; first += s.block) {
        float part_w = 0, part_b = 0;
        for (int64_t r = first; r < first + s.block && r < s.n_rows; r++) {
            const float dy = AS(float, dy)[row_at(&s.dy, r) + i], x = AS(float, x)[row_at(&s.x, r) + i];
            part_b = part_b + dy;
            part_w = fma(dy, (x - AS(float, rows)[2 * r]) * AS(float, rows)[2 * r + 1], part_w);
        }
        dw = dw + part_w;
        db = db + part_b;
    }
    if (s.wants_w) AS(float, y)[i] = dw;
    if (s.wants_b) AS(float, y)[(s.wants_w ? s.n : 0) + i] = db;
}

/* ---- gates ---- */

/* For the gate, and behind it for the other factor. */
KERNEL_4(swiglu_back, qn_walk_sizes, y, dy, gate, up)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    const float d = real_at(AS(uint8_t, dy), s.format[0], at[0]), g = real_at(AS(uint8_t, gate), s.format[1], at[1]),
                u = real_at(AS(uint8_t, up), s.format[2], at[2]);
    const float e = exp_of(0 - g), share = 1 / (1 + e);
    const float slope = share * fma(g, (LARGEST < e ? LARGEST : e) * share, 1.0f);
    put_real(AS(uint8_t, y), s.to, i, d * u * slope);
    put_real(AS(uint8_t, y), s.to, s.n + i, d * (g * share));
}

/* ---- parts, and what is around ---- */

/* Columns j of row i with j - i on one side of w. */
KERNEL_2(tri, qn_walk_sizes, y, x)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    const int64_t columns = s.v & 0x7fffffff, rows = s.v >> 31, off = i % columns - i / columns % rows;
    const bool stays = s.choice ? off >= s.w : off <= s.w;
    put_raw(AS(uint8_t, y), s.what, i, stays ? raw_at(AS(uint8_t, x), s.what, at[0]) : 0);
}

KERNEL_2(pad, qn_pad_sizes, y, x)
{
    const int64_t to = GROUP * WIDTH + LANE;
    int64_t i = to, from = 0;
    bool inside = true;
    if (to >= s.n) return;
    for (int32_t d = s.rank - 1; d >= 0; d--) {
        const int64_t at = i % s.dim[d] - s.before[d];
        i /= s.dim[d];
        inside = inside && at >= 0 && at < s.size[d];
        from += at * s.stride[d];
    }
    put_raw(AS(uint8_t, y), s.bytes, to, inside ? raw_at(AS(uint8_t, x), s.bytes, from) : (uint64_t)s.value);
}

/* ---- in double ---- */

#ifdef HAVE_DOUBLE
/* A group a block of 4096 elements, in sixteen chains. */
KERNEL_2(squares, qn_walk_sizes, y, x)
{
    IN_ROOM(double, chain);
    const int64_t first = GROUP * 4096, end = first + 4096 < s.n ? first + 4096 : s.n;
    double sum = 0;
    for (int64_t i = first + LANE; i < end; i += 16) {
        int64_t at[3];
        walk(&s, i, at);
        const double v = (double)real_at(AS(uint8_t, x), s.format[0], at[0]);
        sum += v * v; /* the square is exact */
    }
    chain[LANE] = sum;
    MEET();
    if (LANE > 0) return;
    for (int half_n = 8; half_n > 0; half_n /= 2)
        for (int j = 0; j < half_n; j++) chain[j] += chain[j + half_n];
    AS(double, y)[GROUP] = chain[0];
}

/* The s.n blocks' sums after a sum so far, one after the other. */
KERNEL_3(squares_sum, qn_walk_sizes, y, blocks, carry)
{
    if (GROUP > 0 || LANE > 0) return;
    double sum = s.choice ? AS(double, carry)[0] : 0;
    for (int64_t i = 0; i < s.n; i++) sum += AS(double, blocks)[i];
    AS(double, y)[0] = sum;
}

/* Steps of optimizers, element by element: numbers as in graph/ops/optim.h. g is what they take of the gradient. */
#define NUMBER(which) ((float)AS(double, numbers)[QN_GPU_OPTIM_##which])
#define FACTOR        ((float)(AS(double, numbers)[QN_GPU_OPTIM_sign] * AS(double, factor)[0]))

KERNEL_5(sgd_momentum, qn_optim_sizes, b, x, numbers, factor, from)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.g.n) return;
    walk(&s.g, i, at);
    GLOBAL float *b = AS(float, b);
    const float x = real_at(AS(uint8_t, x), s.g.format[0], at[0]),
                factor = FACTOR;
    const float g = s.has_from ? factor * x + NUMBER(decay) * AS(float, from)[i] : factor * x;
    b[i] = NUMBER(sgd_momentum) * b[i] + NUMBER(sgd_share) * g;
}

/* mode: 0 the gradient, 1 the buffer as it is, 2 the gradient and the buffer */
KERNEL_5(sgd_step, qn_optim_sizes, p, x, numbers, factor, from)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.g.n) return;
    walk(&s.g, i, at);
    GLOBAL float *p = AS(float, p);
    const float x = real_at(AS(uint8_t, x), s.g.format[0], at[0]), rate = NUMBER(sgd_rate),
                factor = FACTOR;
    float g = x;
    if (s.mode != 1) g = factor * x + NUMBER(decay) * p[i];
    if (s.mode == 2) g = g + NUMBER(sgd_momentum) * AS(float, from)[i];
    p[i] = p[i] - rate * g;
}

/* Rows of the state: m, v, and with three the greatest v. */
KERNEL_5(adam_moments, qn_optim_sizes, state, x, numbers, factor, from)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.g.n) return;
    walk(&s.g, i, at);
    GLOBAL float *m = AS(float, state), *v = m + s.g.n, *top = v + s.g.n;
    const float x = real_at(AS(uint8_t, x), s.g.format[0], at[0]),
                factor = FACTOR,
                one_beta1 = (float)(1 - AS(double, numbers)[QN_GPU_OPTIM_adam_beta1]),
                one_beta2 = (float)(1 - AS(double, numbers)[QN_GPU_OPTIM_adam_beta2]);
    const float g = s.has_from ? factor * x + NUMBER(decay) * AS(float, from)[i] : factor * x;
    m[i] = m[i] + one_beta1 * (g - m[i]);
    v[i] = NUMBER(adam_beta2) * v[i] + one_beta2 * g * g;
    if (s.rows == 3 && !(top[i] >= v[i] || isnan(top[i]))) top[i] = v[i];
}

KERNEL_3(adam_step, qn_optim_sizes, p, state, numbers)
{
    const int64_t i = GROUP * WIDTH + LANE;
    if (i >= s.g.n) return;
    GLOBAL float *p = AS(float, p);
    const float m = AS(float, state)[i], v = AS(float, state)[(s.rows - 1) * s.g.n + i];
    p[i] = NUMBER(adam_keep) * p[i] - NUMBER(adam_rate) * m / (sqrt(v) / NUMBER(adam_root) + NUMBER(adam_eps));
}
#endif
