/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/runs.c -- nodes that devices compute as one, against the CPU's bits: norms and gates with the products
 * behind them, products of one x, sums, rotations and writes to caches; and how many launches they are. */
#include "rig.h"

enum { ROWS = 5 };

/* Tries a case, whose launches on OpenCL, where none is captured, are so many. */
static void takes(const one_case *c, int launches)
{
    try(c);
    if (!backends[OPENCL] || each > 1) return;
    size_t bytes = 0;
    qn_dtype dtype;
    free(result_of(c, OPENCL, &bytes, &dtype));
    if (n_launched != launches)
        fail_msg("%s %s variant %d: %d launches, %d expected", c->what, qn_dtype_get(c->dtype)->name, c->variant,
                 n_launched, launches);
}

static int64_t columns_of(qn_dtype d)
{
    const int block = qn_dtype_get(d)->block_elems;
    return block == 1 ? 300 : block == 256 ? 512 : 288;
}

/* variant & 3: so many products of one norm, the last in another format; & 4: no norm; & 8: biases; of one product,
 * & 16: a sum with what the norm is of, from either side. */
static qn_node *build_products(rig *r)
{
    const int v = r->c->variant, n = v & 3;
    const int64_t k = columns_of(r->c->dtype), m = v & 16 ? k : 37;
    qn_node *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), v & 8 ? WILD : PLAIN, 0), *h = x, *y[3];
    if (!(v & 4)) h = qn__rms_norm(r->g, x, param(r, QN_DTYPE_F32, SHAPE(k), PLAIN, 0), 1e-5f);
    for (int i = 0; i < n; i++) {
        qn_node *w = param(r, n > 1 && i == n - 1 ? r->c->other : r->c->dtype, SHAPE(m, k), PLAIN, 0);
        y[i] = qn__linear(r->g, h, w, v & 8 ? input(r, QN_DTYPE_F32, SHAPE(m), PLAIN, 0) : NULL);
    }
    if (n == 1 && v & 16) return v & 8 ? qn__add(r->g, x, y[0]) : qn__add(r->g, y[0], x);
    /* looked at together, once more by a node of its own */
    qn_node *all = y[0];
    for (int i = 1; i < n; i++) all = qn__add(r->g, all, y[i]);
    return all;
}

static void products(void **state)
{
    (void)state;
    static const struct {
        qn_dtype a, b;
    } types[] = {{QN_DTYPE_Q4_0, QN_DTYPE_Q8_0},  {QN_DTYPE_Q8_0, QN_DTYPE_Q8_0}, {QN_DTYPE_Q5_1, QN_DTYPE_MXFP4},
                 {QN_DTYPE_Q4_K, QN_DTYPE_Q6_K},  {QN_DTYPE_Q5_K, QN_DTYPE_Q5_K}, {QN_DTYPE_Q2_K, QN_DTYPE_IQ4_XS},
                 {QN_DTYPE_Q3_K, QN_DTYPE_Q3_K},  {QN_DTYPE_F16, QN_DTYPE_F16},   {QN_DTYPE_BF16, QN_DTYPE_F32},
                 {QN_DTYPE_Q4_1, QN_DTYPE_IQ4_NL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const bool floats = qn_dtype_get(types[i].a)->block_elems == 1;
        const int same = types[i].a == types[i].b;
        one_case c = {"products", build_products, QN_OP_linear, types[i].a, types[i].b, 'c', 0, false};
        for (int v = 1; v < 16; v++) {
            const int n = v & 3;
            if (n == 0) continue;
            c.variant = v;
            /* a norm, or columns unless they are floats; a launch a format; the sums of what comes out */
            const int first = v & 4 ? !floats : 1, kinds = n == 1 ? 1 : n == 2 ? 2 - same : same ? 1 : 2;
            takes(&c, first + kinds + n - 1);
        }
        for (int v = 17; v <= 29; v += 4) {
            if (v & 2) continue;
            c.variant = v;
            takes(&c, (v & 4 ? !floats : 1) + 1);
        }
    }
    assert_int_equal(n_wrong, 0);
}

/* variant & 3: swiglu, gelu of a times b, relu of a, a times b; & 4: parts of a wider value; & 8: with a sum. */
static qn_node *build_gate(rig *r)
{
    const int v = r->c->variant;
    const int64_t k = columns_of(r->c->dtype);
    qn_node *wide = input(r, QN_DTYPE_F32, SHAPE(ROWS, 2 * k), v & 8 ? WILD : PLAIN, 0),
            *a = qn__narrow(r->g, wide, 1, 0, k), *b = qn__narrow(r->g, wide, 1, k, k), *y;
    if (!(v & 4)) {
        a = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0);
        b = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0);
    }
    y = (v & 3) == 0   ? qn__swiglu(r->g, a, b)
        : (v & 3) == 1 ? qn__mul(r->g, qn__gelu(r->g, a, v >> 2 & 1), b)
        : (v & 3) == 2 ? qn__unary(r->g, QN_OP_relu, a)
                       : qn__mul(r->g, a, b);
    y = qn__linear(r->g, y, param(r, r->c->dtype, SHAPE(v & 8 ? k : 19, k), PLAIN, 0), NULL);
    return v & 8 ? qn__add(r->g, y, qn__narrow(r->g, wide, 1, k, k)) : y;
}

static void gates(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_Q8_0, QN_DTYPE_Q4_K};
    for (int i = 0; i < 2; i++)
        for (int v = 0; v < 16; v++) {
            const one_case c = {"gate", build_gate, QN_OP_linear, types[i], 0, 'c', v, false};
            takes(&c, 2 + (v >> 3)); /* what is added is part of a row: by a launch of its own */
        }
    assert_int_equal(n_wrong, 0);
}

/* x + norm(a), and what takes that: variant & 1: a norm of it; & 2: products of the last; & 4: the sum is looked at, &
 * 8: without weights; & 16: a is part of a wider value, x before it. */
static qn_node *build_post(rig *r)
{
    const int v = r->c->variant;
    const int64_t k = columns_of(r->c->dtype);
    qn_node *a = input(r, QN_DTYPE_F32, v & 16 ? SHAPE(ROWS, 2 * k) : SHAPE(ROWS, k), v & 8 ? WILD : PLAIN, 0),
            *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0),
            *w = v & 8 ? NULL : param(r, QN_DTYPE_F32, SHAPE(k), PLAIN, 0),
            *w1 = v & 8 ? NULL : param(r, QN_DTYPE_F32, SHAPE(k), PLAIN, 0);
    if (v & 16) a = qn__narrow(r->g, a, 1, k, k);
    qn_node *y = qn__rms_norm(r->g, a, w, 1e-5f), *sum = v & 16 ? qn__add(r->g, y, x) : qn__add(r->g, x, y), *z = sum;
    if (v & 1) z = qn__rms_norm(r->g, z, w1, 1e-6f);
    if (v & 2) z = qn__linear(r->g, z, param(r, r->c->dtype, SHAPE(k, k), PLAIN, 0), NULL);
    return v & 4 && z != sum ? qn__mul(r->g, z, qn__add(r->g, sum, y)) : z;
}

static void posts(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_Q8_0, QN_DTYPE_Q4_K, QN_DTYPE_F16};
    for (int i = 0; i < 3; i++)
        for (int v = 0; v < 32; v++) {
            const one_case c = {"post", build_post, QN_OP_rms_norm, types[i], 0, 'c', v, false};
            takes(&c, 1 + (v >> 1 & 1) + (v & 4 && v & 3 ? 2 : 0));
        }
    assert_int_equal(n_wrong, 0);
}

/* Queries and keys are normed, or not, and rotated; keys and values go to their caches. variant & 3: what is looked at:
 * queries, the cache of keys, that of values; & 4: norms; & 8: one write only. */
static qn_node *build_heads(rig *r)
{
    enum { HEADS = 4, KV = 2, D = 32, CELLS = 11 };
    const int v = r->c->variant, look = v & 3;
    const qn_rope_apply_attrs a = {.mode = v & 4 ? QN_ROPE_NEOX : QN_ROPE_NORM, .n_rot = v & 8 ? D : 20};
    qn_node *q = input(r, QN_DTYPE_F32, SHAPE(ROWS, HEADS, D), PLAIN, 0),
            *k = input(r, QN_DTYPE_F32, SHAPE(ROWS, KV, D), PLAIN, 0),
            *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, KV * D), PLAIN, 0),
            *table = input(r, QN_DTYPE_F32, SHAPE(ROWS, a.n_rot), PLAIN, 0);
    qn_node *rows = input(r, QN_DTYPE_I32, SHAPE(ROWS), IDS, CELLS - 1), *cache[2];
    if (v & 4) {
        qn_node *w = param(r, QN_DTYPE_F32, SHAPE(D), PLAIN, 0);
        q = qn__rms_norm(r->g, q, w, 1e-6f);
        q = qn__op(r->g, QN_OP_rope_apply, &a, (qn_node *[]){q, table}, 2);
        k = qn__rms_norm(r->g, k, w, 1e-6f);
    } else {
        q = qn__op(r->g, QN_OP_rope_apply, &a, (qn_node *[]){q, table}, 2);
    }
    k = qn__op(r->g, QN_OP_rope_apply, &a, (qn_node *[]){k, table}, 2);
    for (int i = 0; i < 2; i++) /* the last one made is looked at */
        cache[look == 2 ? i : 1 - i] = param(r, r->c->dtype, SHAPE(CELLS, KV * D), PLAIN, QN_NODE_mutable);
    if (look == 0) r->watched = -1;
    qn_node *to_k = qn__set_rows(r->g, cache[0], qn__reshape(r->g, k, qn_shape_of(ROWS, KV * D)), rows),
            *to_v = v & 8 && look != 2 ? NULL : qn__set_rows(r->g, cache[1], x, rows);
    return look == 0 ? q : look == 1 ? to_k : to_v;
}

static void heads(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16, QN_DTYPE_Q8_0, QN_DTYPE_Q4_0};
    for (int i = 0; i < 5; i++)
        for (int v = 0; v < 16; v++) {
            const one_case c = {"heads", build_heads, QN_OP_rope_apply, types[i], 0, 'c', v, false};
            if ((v & 3) == 3) continue;
            const int norms = v & 4 ? 1 : 0, one_write = v & 8 && (v & 3) != 2;
            takes(&c, norms + 1 + one_write);
        }
    assert_int_equal(n_wrong, 0);
}

/* The first row, as rows of n, or as a vector. */
static qn_node *first_row(rig *r, qn_node *x, int64_t n)
{
    qn_node *row = qn__narrow(r->g, x, 0, 0, 1);
    const int64_t k = x->layout.dim[x->layout.rank - 1];
    return n ? qn__expand(r->g, row, qn_shape_of(n, k)) : qn__reshape(r->g, row, qn_shape_of(k));
}

/* Of one x, but the second reads what the first computes: variant 0: as its weight; 1: as its bias; 2: as its bias,
 * behind a norm. */
static qn_node *build_product_of_product(rig *r)
{
    const int v = r->c->variant;
    const int64_t k = columns_of(r->c->dtype);
    qn_node *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0);
    if (v == 2) x = qn__rms_norm(r->g, x, NULL, 1e-5f);
    qn_node *y = qn__linear(r->g, x, param(r, r->c->dtype, SHAPE(k, k), PLAIN, 0), NULL);
    if (v == 0) return qn__linear(r->g, x, y, NULL);
    return qn__linear(r->g, x, param(r, r->c->dtype, SHAPE(k, k), PLAIN, 0), first_row(r, y, 0));
}

/* The gate's value times a row of it; & 1: from the other side. */
static qn_node *build_gate_of_gate(rig *r)
{
    const int64_t k = columns_of(r->c->dtype);
    qn_node *a = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0),
            *b = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0), *y = qn__swiglu(r->g, a, b),
            *row = first_row(r, y, ROWS);
    y = r->c->variant & 1 ? qn__mul(r->g, row, y) : qn__mul(r->g, y, row);
    return qn__linear(r->g, y, param(r, r->c->dtype, SHAPE(19, k), PLAIN, 0), NULL);
}

/* The norm of x + norm(a) is scaled by a row of that sum; & 1: of norm(a). */
static qn_node *build_post_of_post(rig *r)
{
    const int64_t k = columns_of(r->c->dtype);
    qn_node *a = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0),
            *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, k), PLAIN, 0), *y = qn__rms_norm(r->g, a, NULL, 1e-5f),
            *sum = qn__add(r->g, x, y);
    return qn__rms_norm(r->g, sum, first_row(r, r->c->variant & 1 ? y : sum, 0), 1e-6f);
}

/* What one write reads another one changes: variant 0: the write before it; 1, 2: the rotation of queries, of keys,
 * from where keys are written; 3, 4: from where values are. */
static qn_node *build_read_then_written(rig *r)
{
    enum { KV = 2, D = 32, CELLS = 11 };
    const int v = r->c->variant;
    qn_node *cache[2], *x = input(r, QN_DTYPE_F32, SHAPE(ROWS, KV * D), PLAIN, 0),
                       *rows = input(r, QN_DTYPE_I32, SHAPE(ROWS), IDS, CELLS - 1);
    for (int i = 0; i < 2; i++) cache[i] = param(r, QN_DTYPE_F32, SHAPE(CELLS, KV * D), PLAIN, QN_NODE_mutable);
    if (v == 0) {
        qn_node *first = qn__set_rows(r->g, cache[1], qn__narrow(r->g, cache[0], 0, 0, ROWS), rows);
        (void)qn__set_rows(r->g, cache[0], x, rows);
        return first;
    }
    const qn_rope_apply_attrs a = {.mode = QN_ROPE_NORM, .n_rot = D};
    qn_node *table = input(r, QN_DTYPE_F32, SHAPE(ROWS, D), PLAIN, 0),
            *old = qn__reshape(r->g, qn__narrow(r->g, cache[v > 2], 0, 0, ROWS), qn_shape_of(ROWS, KV, D)),
            *other = input(r, QN_DTYPE_F32, SHAPE(ROWS, KV, D), PLAIN, 0);
    r->watched = v & 1 ? -1 : 0;
    qn_node *q = qn__op(r->g, QN_OP_rope_apply, &a, (qn_node *[]){v & 1 ? old : other, table}, 2),
            *k = qn__op(r->g, QN_OP_rope_apply, &a, (qn_node *[]){v & 1 ? other : old, table}, 2),
            *to_k = qn__set_rows(r->g, cache[0], qn__reshape(r->g, k, qn_shape_of(ROWS, KV * D)), rows);
    (void)qn__set_rows(r->g, cache[1], x, rows);
    return v & 1 ? q : to_k;
}

/* What depends on each other is not in one launch. */
static void dependent(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_Q8_0};
    for (int i = 0; i < 2; i++) {
        one_case c = {"product of product", build_product_of_product, QN_OP_linear, types[i], 0, 'c', 0, false};
        for (int v = i; v < 3; v++) {
            c.variant = v;
            takes(&c, 2 + 2 * i + (v == 2 && !i)); /* a norm has its columns with it */
        }
    }
    for (int v = 0; v < 2; v++) {
        takes(&(one_case){"gate of gate", build_gate_of_gate, QN_OP_linear, QN_DTYPE_Q8_0, 0, 'c', v, false}, 3);
        takes(&(one_case){"post of post", build_post_of_post, QN_OP_rms_norm, QN_DTYPE_F32, 0, 'c', v, false}, 2);
    }
    for (int v = 0; v < 5; v++)
        takes(&(one_case){"read, then written", build_read_then_written, QN_OP_set_rows, QN_DTYPE_F32, 0, 'c', v,
                          false},
              2);
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(gates), cmocka_unit_test(posts),
                                       cmocka_unit_test(heads), cmocka_unit_test(dependent)};
    return run_on_all_sides(tests, sizeof tests / sizeof *tests);
}
