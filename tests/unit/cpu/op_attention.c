/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_attention.c -- attention over scattered cells against a plain softmax in double: GQA, every KV
 * format, odd head sizes, windows, soft caps, sinks, ALiBi, holes in lists, empty and lying spans; and that a query's
 * bits depend on nothing but its own list. */
#include "rig.h"

typedef struct attn_case {
    int64_t n, n_head, n_kv, d, dv, n_cells, n_lists, capacity;
    qn_dtype kt, vt;
    qn_attn_attrs attrs;
    int32_t window; /* entries that a query sees at most; 0: any number */
    bool with_sinks;
    int64_t first, count; /* queries to run */
    double *want;         /* of the oracle, made once a case; of each query and head its dv values, then their bound */
    tensor q, k, v, lists, spans, sinks;
} attn_case;

static qn_node *build(rig *r, void *ctx)
{
    attn_case *c = ctx;
    qn_node *q = rig_input(r, &c->q), *spans = rig_input(r, &c->spans);
    qn_node *k = rig_param(r, &c->k, 0), *v = rig_param(r, &c->v, 0), *lists = rig_input(r, &c->lists);
    if (c->count < c->n) {
        q = qn__narrow(r->g, q, 0, c->first, c->count);
        spans = qn__narrow(r->g, spans, 0, c->first, c->count);
    }
    return qn__attention(r->g,
                         &(qn_attn_sources){.q = q,
                                            .k = k,
                                            .v = v,
                                            .lists = lists,
                                            .spans = spans,
                                            .sinks = c->with_sinks ? rig_param(r, &c->sinks, 0) : NULL},
                         &c->attrs);
}

static int64_t span_size(const attn_case *c) { return c->attrs.alibi > 0 ? 4 : 3; }

/* As the paper has it: of n heads, a power of two, the slopes are a geometric sequence that starts at 2^(-max / n) and
 * ends at 2^-max; of others those of the power of two below, then every other one of twice as many. */
static double slope_of(double max, int64_t n_head, int64_t head)
{
    int64_t n = 1;
    while (2 * n <= n_head) n *= 2;
    return head < n ? pow(2, -max * (double)(head + 1) / (double)n)
                    : pow(2, -max * (double)(2 * (head - n) + 1) / (double)(2 * n));
}

/* One query and head. Returns how far rounding may take the result, relative to the largest value. */
ORACLE static double oracle(const attn_case *c, int64_t query, int64_t head, double *out)
{
    const int32_t *span = ints_of(&c->spans) + query * span_size(c);
    const int64_t kv = head / (c->n_head / c->n_kv);
    int64_t begin = span[1] > 0 ? span[1] : 0, end = span[2] < c->capacity ? span[2] : c->capacity;
    if (span[0] < 0 || span[0] >= c->n_lists || begin >= end) begin = end = 0;
    const int32_t *list = end > 0 ? ints_of(&c->lists) + span[0] * c->capacity : NULL;
    const float *q = c->q.value + (query * c->n_head + head) * c->d;
    /* then rows are rounded to integers, see attention.c */
    const bool ints = c->kt != QN_DTYPE_F32 && c->vt != QN_DTYPE_F32;
    double *score = calloc((size_t)(end + 1), sizeof(double)), max = -INFINITY, sum = 0, reach = 0, step = 0, qq = 0;
    const double half_steps = hypot(1 / 32767.0, 1 / 16384.0);

    for (int64_t i = 0; i < c->d; i++) qq += (double)q[i] * q[i];
    for (int64_t j = begin; j < end; j++) {
        score[j] = -INFINITY;
        if (list[j] < 0 || list[j] >= c->n_cells) continue;
        const float *k = c->k.value + (list[j] * c->n_kv + kv) * c->d;
        double s = 0, size = 0, kk = 0;
        for (int64_t i = 0; i < c->d; i++) {
            const double x = (double)q[i] * k[i];
            s += x;
            size += fabs(x);
            kk += (double)k[i] * k[i];
        }
        score[j] = s * c->attrs.scale;
        if (c->attrs.softcap > 0) score[j] = c->attrs.softcap * tanh(score[j] / c->attrs.softcap);
        if (c->attrs.alibi > 0) {
            const double pos = list[c->n_lists * c->capacity + j], lost = slope_of(c->attrs.alibi, c->n_head, head);
            score[j] -= lost * fabs(pos - span[3]);
            reach = fmax(reach, 4 * FLT_EPSILON * fabs(score[j]));
        }
        reach = fmax(reach, size * fabs((double)c->attrs.scale) * (double)(c->d + 2) * FLT_EPSILON);
        /* half a step in each element, of either sign: four standard deviations of the two together */
        step = fmax(step, 4 * sqrt(qq * kk / 12) * fabs((double)c->attrs.scale) * half_steps);
        max = fmax(max, score[j]);
    }
    if (c->with_sinks) max = fmax(max, c->sinks.value[head]);
    for (int64_t j = begin; j < end; j++)
        if (score[j] > -INFINITY) sum += exp(score[j] - max);
    if (c->with_sinks) sum += exp(c->sinks.value[head] - max);
    for (int64_t i = 0; i < c->dv; i++) out[i] = 0;
    for (int64_t j = begin; j < end && sum > 0; j++) {
        if (score[j] == -INFINITY) continue;
        const float *v = c->v.value + (list[j] * c->n_kv + kv) * c->dv;
        const double weight = exp(score[j] - max) / sum;
        for (int64_t i = 0; i < c->dv; i++) out[i] += weight * v[i];
    }
    free(score);
    return 2 * reach + (double)(end - begin + 16) * FLT_EPSILON + (ints ? step + 2.0 / 8191 : 0);
}

static void ask_oracle(attn_case *c)
{
    double max = 0;
    c->want = malloc((size_t)(c->n * c->n_head * (c->dv + 1)) * sizeof *c->want);
    for (int64_t i = 0; i < c->v.numel; i++) max = fmax(max, fabs((double)c->v.value[i]));
    for (int64_t row = 0; row < c->n * c->n_head; row++) {
        double *want = c->want + row * (c->dv + 1);
        want[c->dv] = oracle(c, row / c->n_head, row % c->n_head, want) * max;
    }
}

static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const attn_case *c = ctx;
    const float *y = result;
    (void)r;
    assert_int_equal(bytes, c->n * c->n_head * c->dv * 4);
    for (int64_t row = 0; row < c->n * c->n_head; row++) {
        const double *want = c->want + row * (c->dv + 1);
        for (int64_t i = 0; i < c->dv; i++)
            close_to(y[row * c->dv + i], want[i], want[c->dv], "attention", row * c->dv + i);
    }
}

static void check_levels(attn_case *c)
{
    ask_oracle(c);
    for_levels(build, c, check);
    free(c->want);
}

static void shuffle(int32_t *x, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = rng_int(0, i);
        const int32_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

static attn_case make(attn_case c)
{
    c.count = c.n;
    if (c.attrs.scale == 0) c.attrs.scale = 1 / sqrtf((float)c.d);
    c.q = tensor_random(QN_DTYPE_F32, qn_shape_of(c.n, c.n_head, c.d));
    c.k = tensor_random(c.kt, qn_shape_of(c.n_cells, c.n_kv, c.d));
    c.v = tensor_random(c.vt, qn_shape_of(c.n_cells, c.n_kv, c.dv));
    const int64_t width = span_size(&c);
    c.lists = tensor_ints(qn_shape_of(c.n_lists * (width - 2), c.capacity), NULL);
    c.spans = tensor_ints(qn_shape_of(c.n, width), NULL);
    c.sinks = tensor_random(QN_DTYPE_F32, qn_shape_of(c.n_head));
    for (int64_t i = 0; i < c.n_head; i++) /* from nothing to nearly all of a row */
        ((float *)c.sinks.data)[i] = c.sinks.value[i] = c.sinks.value[i] * 4 + (float)(i % 3) * 3;
    int32_t *cells = malloc((size_t)(c.n_cells + c.capacity) * 4);
    for (int64_t i = 0; i < c.n_cells; i++) cells[i] = (int32_t)i;
    for (int64_t l = 0; l < c.n_lists; l++) {
        shuffle(cells, c.n_cells);
        for (int64_t i = 0; i < c.capacity; i++) ints_of(&c.lists)[l * c.capacity + i] = cells[i % c.n_cells];
    }
    free(cells);
    for (int64_t i = c.n_lists * c.capacity, pos = 0; i < c.lists.numel; i++) /* in order, with gaps */
        ints_of(&c.lists)[i] = (int32_t)(pos = i % c.capacity ? pos + rng_int(1, 3) : rng_int(0, 9));
    for (int64_t i = 0; i < c.n; i++) { /* blocks of queries of one sequence, each seeing one cell more */
        int32_t *span = ints_of(&c.spans) + width * i;
        span[0] = (int32_t)(i * c.n_lists / c.n);
        span[2] = (int32_t)rng_int(1, c.capacity);
        if (i > 0 && span[-width] == span[0]) span[2] = (int32_t)((span[2 - width] + 1) % (c.capacity + 1));
        span[1] = c.window && span[2] > c.window ? span[2] - c.window : 0;
        if (width == 4) span[3] = (int32_t)rng_int(0, c.capacity); /* before, among and after what it sees */
    }
    return c;
}

static void drop(attn_case *c)
{
    tensor_free(&c->q);
    tensor_free(&c->k);
    tensor_free(&c->v);
    tensor_free(&c->lists);
    tensor_free(&c->spans);
    tensor_free(&c->sinks);
}

/* Batches of 1, and of uneven parts, give the bits of the whole, and every level the bits of the first. */
static void check_splits(attn_case *c)
{
    char *first_level = NULL;
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t bytes;
        const size_t row = (size_t)(c->n_head * c->dv) * 4;
        c->first = 0;
        c->count = c->n;
        char *all = run_at((qn_cpu_level)level, build, c, &bytes);
        for (c->first = 0; c->first < c->n; c->first += c->count) {
            c->count = c->first < 4 ? 1 : c->first < 9 ? 3 : c->n - c->first;
            if (c->first + c->count > c->n) c->count = c->n - c->first;
            char *some = run_at((qn_cpu_level)level, build, c, &bytes);
            assert_memory_equal(some, all + (size_t)c->first * row, bytes);
            free(some);
        }
        if (!first_level) {
            first_level = all;
            continue;
        }
        c->count = c->n;
        assert_memory_equal(all, first_level, (size_t)c->n * row);
        free(all);
    }
    free(first_level);
    c->first = 0;
    c->count = c->n;
}

static void try_case(attn_case proto)
{
    attn_case c = make(proto);
    check_levels(&c);
    check_splits(&c);
    drop(&c);
}

#define KV_F32 .kt = QN_DTYPE_F32, .vt = QN_DTYPE_F32

static void test_shapes(void **state)
{
    (void)state;
    try_case((
        attn_case){.n = 1, .n_head = 1, .n_kv = 1, .d = 1, .dv = 1, .n_cells = 1, .n_lists = 1, .capacity = 1, KV_F32});
    try_case((attn_case){
        .n = 1, .n_head = 8, .n_kv = 2, .d = 64, .dv = 64, .n_cells = 300, .n_lists = 1, .capacity = 257, KV_F32});
    try_case((attn_case){
        .n = 11, .n_head = 4, .n_kv = 4, .d = 33, .dv = 17, .n_cells = 130, .n_lists = 3, .capacity = 70, KV_F32});
    try_case((attn_case){
        .n = 70, .n_head = 6, .n_kv = 2, .d = 16, .dv = 48, .n_cells = 200, .n_lists = 2, .capacity = 129, KV_F32});
    try_case((attn_case){
        .n = 5, .n_head = 71, .n_kv = 1, .d = 8, .dv = 8, .n_cells = 90, .n_lists = 2, .capacity = 65, KV_F32});
    /* Lists of several tiles: alone, a query's tiles are shared out over threads; in the whole batch they are not. */
    try_case((attn_case){
        .n = 40, .n_head = 32, .n_kv = 16, .d = 16, .dv = 16, .n_cells = 900, .n_lists = 2, .capacity = 1100, KV_F32});
    try_case((attn_case){
        .n = 7, .n_head = 9, .n_kv = 3, .d = 20, .dv = 12, .n_cells = 1600, .n_lists = 3, .capacity = 1500, KV_F32});
    try_case((attn_case){
        .n = 12, .n_head = 26, .n_kv = 2, .d = 40, .dv = 300, .n_cells = 700, .n_lists = 1, .capacity = 700, KV_F32});
    try_case((attn_case){
        .n = 3, .n_head = 130, .n_kv = 1, .d = 5, .dv = 3, .n_cells = 64, .n_lists = 1, .capacity = 64, KV_F32});
    try_case((
        attn_case){.n = 0, .n_head = 2, .n_kv = 1, .d = 4, .dv = 4, .n_cells = 4, .n_lists = 1, .capacity = 4, KV_F32});
}

static void test_formats(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_F16,  QN_DTYPE_BF16,   QN_DTYPE_Q8_0, QN_DTYPE_Q4_0,
                                      QN_DTYPE_Q5_1, QN_DTYPE_IQ4_NL, QN_DTYPE_Q6_K};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        const int64_t d = qn_dtype_get(dtypes[i])->block_elems > 32 ? 256 : 64;
        try_case((attn_case){.n = 9,
                             .n_head = 6,
                             .n_kv = 2,
                             .d = d,
                             .dv = d,
                             .n_cells = 160,
                             .n_lists = 2,
                             .capacity = 130,
                             .kt = dtypes[i],
                             .vt = dtypes[i]});
        try_case((attn_case){.n = 3,
                             .n_head = 2,
                             .n_kv = 1,
                             .d = d,
                             .dv = 40,
                             .n_cells = 70,
                             .n_lists = 1,
                             .capacity = 70,
                             .kt = dtypes[i],
                             .vt = QN_DTYPE_F16});
    }
    /* Heads longer than a slice of 256. */
    try_case((attn_case){.n = 4,
                         .n_head = 2,
                         .n_kv = 1,
                         .d = 576,
                         .dv = 512,
                         .n_cells = 150,
                         .n_lists = 1,
                         .capacity = 150,
                         .kt = QN_DTYPE_F16,
                         .vt = QN_DTYPE_F16});
    try_case((attn_case){.n = 2,
                         .n_head = 1,
                         .n_kv = 1,
                         .d = 7000,
                         .dv = 6500,
                         .n_cells = 9,
                         .n_lists = 1,
                         .capacity = 9,
                         .kt = QN_DTYPE_F16,
                         .vt = QN_DTYPE_BF16});
}

/* What both caches in less than floats change: other head sizes, groups of rows that share what is unpacked, windows,
 * caps, holes. */
static void test_integers(void **state)
{
    (void)state;
    static const int16_t sizes[] = {1, 33, 64, 80, 96, 128, 192, 256, 300};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int64_t n = 1; n <= 21; n += 10)
            try_case((attn_case){.n = n,
                                 .n_head = 6,
                                 .n_kv = 1,
                                 .d = sizes[i],
                                 .dv = sizes[(i + n) % 9],
                                 .n_cells = 290,
                                 .n_lists = 1,
                                 .capacity = 280,
                                 .kt = i % 2 ? QN_DTYPE_BF16 : QN_DTYPE_F16,
                                 .vt = QN_DTYPE_F16});
    try_case((attn_case){.n = 140,
                         .n_head = 32,
                         .n_kv = 4,
                         .d = 32,
                         .dv = 32,
                         .n_cells = 420,
                         .n_lists = 3,
                         .capacity = 400,
                         .kt = QN_DTYPE_Q8_0,
                         .vt = QN_DTYPE_Q8_0});
    try_case((attn_case){.n = 3,
                         .n_head = 130,
                         .n_kv = 1,
                         .d = 16,
                         .dv = 24,
                         .n_cells = 64,
                         .n_lists = 1,
                         .capacity = 64,
                         .kt = QN_DTYPE_F16,
                         .vt = QN_DTYPE_F16});
    /* several KV heads an item: not all at once, as many as there is room for, with lists of their own */
    try_case((attn_case){.n = 1,
                         .n_head = 10,
                         .n_kv = 5,
                         .d = 64,
                         .dv = 32,
                         .n_cells = 1300,
                         .n_lists = 1,
                         .capacity = 1200,
                         .kt = QN_DTYPE_Q8_0,
                         .vt = QN_DTYPE_F16});
    try_case((attn_case){.n = 1,
                         .n_head = 7,
                         .n_kv = 7,
                         .d = 256,
                         .dv = 256,
                         .n_cells = 900,
                         .n_lists = 1,
                         .capacity = 900,
                         .kt = QN_DTYPE_F16,
                         .vt = QN_DTYPE_F16});
    try_case((attn_case){.n = 4,
                         .n_head = 14,
                         .n_kv = 7,
                         .d = 96,
                         .dv = 64,
                         .n_cells = 1000,
                         .n_lists = 3,
                         .capacity = 900,
                         .kt = QN_DTYPE_BF16,
                         .vt = QN_DTYPE_Q8_0});
    for (int32_t window = 1; window <= 400; window += 57) {
        attn_case c = {.n = 40,
                       .n_head = 16,
                       .n_kv = 8,
                       .d = 32,
                       .dv = 32,
                       .n_cells = 620,
                       .n_lists = 2,
                       .capacity = 620,
                       .kt = QN_DTYPE_F16,
                       .vt = QN_DTYPE_Q8_0,
                       .window = window,
                       .attrs = {.softcap = window % 2 ? 2.5f : 0}};
        try_case(c);
        c.n = 2;
        try_case(c);
    }
    attn_case c = make((attn_case){.n = 8,
                                   .n_head = 4,
                                   .n_kv = 2,
                                   .d = 24,
                                   .dv = 24,
                                   .n_cells = 150,
                                   .n_lists = 2,
                                   .capacity = 200,
                                   .kt = QN_DTYPE_F16,
                                   .vt = QN_DTYPE_F16});
    for (int64_t i = 0; i < c.lists.numel; i++)
        if (rng_int(0, 3) == 0 || (i >= 64 && i < 128)) ints_of(&c.lists)[i] = i % 2 ? -1 : INT32_MAX;
    check_levels(&c);
    check_splits(&c);
    drop(&c);
}

/* A row of K or V that holds no number makes the queries that see it no number, as a whole, and no others. */
static void test_no_numbers(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int64_t n = 6; n <= 30; n += 24) { /* few rows, and many */
            attn_case c = make((attn_case){.n = n,
                                           .n_head = 1,
                                           .n_kv = 1,
                                           .d = 32,
                                           .dv = 32,
                                           .n_cells = 200,
                                           .n_lists = 1,
                                           .capacity = 200,
                                           .kt = QN_DTYPE_F16,
                                           .vt = QN_DTYPE_F16});
            for (int64_t i = 0; i < n; i++) ints_of(&c.spans)[3 * i + 2] = (int32_t)(137 + i);
            tensor *bad = which ? &c.v : &c.k;
            ((uint16_t *)bad->data)[ints_of(&c.lists)[139] * 32 + 7] = 0x7e00; /* NaN, seen by queries from 3 on */
            for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
                if (!level_exists((qn_cpu_level)level)) continue;
                size_t bytes;
                float *y = run_at((qn_cpu_level)level, build, &c, &bytes);
                for (int64_t i = 0; i < n * 32; i++) assert_int_equal(isnan(y[i]) != 0, i / 32 >= 3);
                free(y);
            }
            drop(&c);
        }
}

static void test_window_and_cap(void **state)
{
    (void)state;
    static const int32_t windows[] = {1, 2, 63, 255, 256, 257, 400};
    for (int i = 0; i < 7; i++) {
        attn_case c = {
            .n = 12, .n_head = 4, .n_kv = 2, .d = 32, .dv = 32, .n_cells = 620, .n_lists = 2, .capacity = 620, KV_F32};
        c.window = windows[i];
        if (i & 1) c.attrs.softcap = 2.5f;
        c.attrs.scale = i & 2 ? 1.0f : 0;
        try_case(c);
    }
}

/* Few queries and many, lists of one tile and of several, shared out or not, values in slices, in floats and integers:
 * a sink takes part in each softmax once. One above all scores takes nearly all of it; a query that sees nothing gives
 * zeros. */
static void test_sinks(void **state)
{
    (void)state;
    static const int16_t shapes[][6] = {/* n, heads, kv heads, d, dv, capacity */
                                        {1, 4, 2, 16, 16, 100},  {9, 6, 2, 24, 40, 130},  {1, 16, 16, 16, 16, 700},
                                        {40, 8, 8, 16, 16, 300}, {3, 6, 3, 32, 300, 290}, {70, 4, 1, 64, 64, 260}};
    for (int i = 0; i < 12; i++) {
        const int16_t *s = shapes[i / 2];
        const qn_dtype type = i % 2 ? QN_DTYPE_F16 : QN_DTYPE_F32;
        attn_case c = make((attn_case){.n = s[0],
                                       .n_head = s[1],
                                       .n_kv = s[2],
                                       .d = s[3],
                                       .dv = s[4],
                                       .n_cells = 800,
                                       .n_lists = 1 + i % 2,
                                       .capacity = s[5],
                                       .kt = type,
                                       .vt = type,
                                       .window = i % 4 ? 0 : 40,
                                       .attrs = {.softcap = i % 3 ? 0 : 3},
                                       .with_sinks = true});
        ((float *)c.sinks.data)[0] = c.sinks.value[0] = i % 5 ? 60 : -INFINITY;
        if (c.n > 1) ints_of(&c.spans)[5] = 0;
        check_levels(&c);
        check_splits(&c);
        drop(&c);
    }
}

/* Few rows and many, groups of rows, several KV heads an item, values in slices, holes: of each score as much as the
 * distance of positions and the head's slope say, also where heads are no power of two. */
static void test_alibi(void **state)
{
    (void)state;
    static const int16_t shapes[][6] = {/* n, heads, kv heads, d, dv, capacity */
                                        {1, 4, 2, 16, 16, 100},  {9, 6, 2, 24, 40, 130},  {1, 12, 12, 16, 16, 700},
                                        {40, 8, 8, 16, 16, 300}, {3, 6, 3, 32, 300, 290}, {70, 7, 1, 64, 64, 260}};
    for (int i = 0; i < 12; i++) {
        const int16_t *s = shapes[i / 2];
        const qn_dtype type = i % 2 ? QN_DTYPE_F16 : QN_DTYPE_F32;
        attn_case c = make((attn_case){.n = s[0],
                                       .n_head = s[1],
                                       .n_kv = s[2],
                                       .d = s[3],
                                       .dv = s[4],
                                       .n_cells = 800,
                                       .n_lists = 1 + i % 2,
                                       .capacity = s[5],
                                       .kt = type,
                                       .vt = type,
                                       .window = i % 4 ? 0 : 40,
                                       .attrs = {.softcap = i % 3 ? 0 : 3, .alibi = i % 4 ? 8 : 5},
                                       .with_sinks = i % 5 == 0});
        for (int64_t j = 0; j < c.n_lists * c.capacity; j += 7) ints_of(&c.lists)[j] = j % 2 ? -1 : 800;
        check_levels(&c);
        check_splits(&c);
        drop(&c);
    }
}

/* A position far away, as no session has it, is a distance like any other. */
static void test_far_positions(void **state)
{
    (void)state;
    attn_case c = make((attn_case){.n = 2,
                                   .n_head = 2,
                                   .n_kv = 1,
                                   .d = 16,
                                   .dv = 16,
                                   .n_cells = 60,
                                   .n_lists = 1,
                                   .capacity = 50,
                                   KV_F32,
                                   .attrs = {.alibi = 8}});
    for (int64_t j = 0; j < 50; j++) ints_of(&c.lists)[50 + j] = INT32_MAX - 60 + (int32_t)j;
    ints_of(&c.spans)[3] = INT32_MAX - 20;
    ints_of(&c.spans)[7] = 0; /* from there one cell is as far as the next, within a float */
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t bytes;
        double want[16];
        float *y = run_at((qn_cpu_level)level, build, &c, &bytes);
        const double bound = oracle(&c, 0, 1, want) * 4;
        for (int64_t i = 0; i < 16; i++) close_to(y[16 + i], want[i], bound, "attention", i);
        for (int64_t i = 32; i < 64; i++) assert_true(isfinite(y[i]));
        free(y);
    }
    drop(&c);
}

/* Large scores: a tile that raises the maximum by far must wipe out what came before, without overflow. */
static void test_rising_scores(void **state)
{
    (void)state;
    attn_case c = make((attn_case){.n = 2,
                                   .n_head = 2,
                                   .n_kv = 1,
                                   .d = 4,
                                   .dv = 4,
                                   .n_cells = 1024,
                                   .n_lists = 1,
                                   .capacity = 1024,
                                   KV_F32,
                                   .attrs = {.scale = 1}});
    for (int64_t i = 0; i < c.k.numel; i++)
        ((float *)c.k.data)[i] = c.k.value[i] = (float)ints_of(&c.lists)[i / 4] / 1024.0f;
    for (int64_t i = 0; i < c.q.numel; i++)
        ((float *)c.q.data)[i] = c.q.value[i] = i < c.q.numel / 2 ? 100.0f : -100.0f;
    ints_of(&c.spans)[2] = ints_of(&c.spans)[5] = 1024;
    check_levels(&c);
    drop(&c);
}

/* Cells that do not exist count as absent; empty and lying spans give zeros, or the list's end. */
static void test_hostile_lists(void **state)
{
    (void)state;
    attn_case c = make((attn_case){
        .n = 8, .n_head = 4, .n_kv = 2, .d = 24, .dv = 24, .n_cells = 150, .n_lists = 2, .capacity = 200, KV_F32});
    static const int32_t bad[] = {-1, 150, INT32_MAX, INT32_MIN};
    for (int64_t i = 0; i < c.lists.numel; i++)
        if (rng_int(0, 3) == 0 || (i >= 64 && i < 128)) ints_of(&c.lists)[i] = bad[rng_int(0, 3)];
    static const int32_t spans[] = {0,  0, 200, 1, -3, INT32_MAX, 0, 0,         0,         0, INT32_MIN, -5,
                                    -1, 0, 9,   2, 0,  9,         1, INT32_MAX, INT32_MAX, 1, 90,        130};
    memcpy(c.spans.data, spans, sizeof(spans));
    check_levels(&c);
    check_splits(&c);
    for (int64_t i = 0; i < c.lists.numel; i++) ints_of(&c.lists)[i] = -1; /* nothing at all */
    check_levels(&c);
    drop(&c);
}

/* Where cells lie does not matter, only what they hold and their order in the list. */
static void test_cells_may_move(void **state)
{
    (void)state;
    attn_case a = make((attn_case){.n = 6,
                                   .n_head = 4,
                                   .n_kv = 2,
                                   .d = 32,
                                   .dv = 32,
                                   .n_cells = 100,
                                   .n_lists = 1,
                                   .capacity = 100,
                                   .kt = QN_DTYPE_F16,
                                   .vt = QN_DTYPE_Q8_0});
    attn_case b = a;
    b.k = tensor_new(a.kt, a.k.shape);
    b.v = tensor_new(a.vt, a.v.shape);
    b.lists = tensor_ints(a.lists.shape, a.lists.data);
    const size_t k_row = a.k.bytes / 100, v_row = a.v.bytes / 100;
    for (size_t i = 0; i < 100; i++) {
        const size_t from = (size_t)ints_of(&a.lists)[i];
        memcpy((char *)b.k.data + i * k_row, (char *)a.k.data + from * k_row, k_row);
        memcpy((char *)b.v.data + i * v_row, (char *)a.v.data + from * v_row, v_row);
        ints_of(&b.lists)[i] = (int32_t)i;
    }
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        if (!level_exists((qn_cpu_level)level)) continue;
        size_t bytes;
        void *x = run_at((qn_cpu_level)level, build, &a, &bytes), *y = run_at((qn_cpu_level)level, build, &b, &bytes);
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
    tensor_free(&b.k);
    tensor_free(&b.v);
    tensor_free(&b.lists);
    drop(&a);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_window_and_cap),
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_rising_scores), cmocka_unit_test(test_hostile_lists),
        cmocka_unit_test(test_cells_may_move), cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_alibi),         cmocka_unit_test(test_far_positions),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
