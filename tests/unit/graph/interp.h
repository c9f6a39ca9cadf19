/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/interp.h -- evaluates a graph node by node, simply and slowly, so that graphs can be compared bit
 * for bit before and after passes, and with and without a memory plan. Float operations are done in the order of the
 * formulas in ops.def. Leaves get their bytes from their names, so the same leaf of two graphs has the same bytes. */
#ifndef TESTS_GRAPH_INTERP_H
#define TESTS_GRAPH_INTERP_H

#include "common.h"
#include "builders.h"
#include "quant/quant.h"
#include <math.h>
#include <stdlib.h>

typedef struct interp {
    const qn_graph *g;
    uint8_t **memory;               /* by id of a root */
    uint8_t *places[QN_MAX_PLACES]; /* activation buffers when a plan is followed, else NULL */
} interp;

static inline uint64_t interp_mix(uint64_t *s)
{
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- elements ---- */

static inline float interp_load(qn_dtype dtype, const uint8_t *base, int64_t i)
{
    float f;
    uint16_t h;
    if (dtype == QN_DTYPE_BF16) return memcpy(&h, base + 2 * i, 2), qn__bf16_to_f32(h);
    assert_int_equal(dtype, F32);
    return memcpy(&f, base + 4 * i, 4), f;
}

static inline void interp_store(qn_dtype dtype, uint8_t *base, int64_t i, float f)
{
    const uint16_t h = qn__f32_to_bf16(f);
    if (dtype == QN_DTYPE_BF16) {
        memcpy(base + 2 * i, &h, 2);
        return;
    }
    assert_int_equal(dtype, F32);
    memcpy(base + 4 * i, &f, 4);
}

static inline uint8_t *interp_base(const interp *m, const qn_node *n)
{
    return n->root->host != NULL ? (uint8_t *)(uintptr_t)n->root->host : m->memory[n->root->id];
}

/* The element with the flat index i, row-major, of n's value broadcast to `shape`. */
static inline int64_t interp_at(const qn_node *n, const qn_layout *shape, int64_t i)
{
    int64_t at = n->layout.offset;
    for (int d = shape->rank - 1; d >= 0; d--) {
        const int64_t k = i % shape->dim[d];
        const int own = d - (shape->rank - n->layout.rank);
        i /= shape->dim[d];
        if (own >= 0 && n->layout.dim[own] != 1) at += k * n->layout.stride[own];
    }
    return at;
}

static inline float get(const interp *m, const qn_node *n, int64_t i)
{
    return interp_load(n->dtype, interp_base(m, n), interp_at(n, &n->layout, i));
}

static inline int32_t get_int(const interp *m, const qn_node *n, int64_t i)
{
    int32_t v;
    assert_int_equal(n->dtype, I32);
    memcpy(&v, interp_base(m, n) + 4 * interp_at(n, &n->layout, i), 4);
    return v;
}

static inline void set(const interp *m, const qn_node *n, int64_t i, float f)
{
    interp_store(n->dtype, interp_base(m, n), interp_at(n, &n->layout, i), f);
}

static inline int64_t numel(const qn_node *n) { return qn_layout_numel(&n->layout); }
static inline int64_t dim(const qn_node *n, int d) { return n->layout.dim[d < 0 ? d + n->layout.rank : d]; }

/* ---- ops: one function a row of ops.def ---- */

static inline float silu(float x) { return x / (1.0f + expf(-x)); }

static inline void eval_input(const interp *m, const qn_node *n) { (void)m, (void)n; }
static inline void eval_param(const interp *m, const qn_node *n) { (void)m, (void)n; }
static inline void eval_view(const interp *m, const qn_node *n) { (void)m, (void)n; }

static inline void eval_copy(const interp *m, const qn_node *n)
{
    if (n->dtype == I32) {
        for (int64_t i = 0; i < numel(n); i++)
            memcpy(interp_base(m, n) + 4 * i, &(int32_t){get_int(m, n->src[0], i)}, 4);
        return;
    }
    for (int64_t i = 0; i < numel(n); i++) set(m, n, i, get(m, n->src[0], i));
}

static inline void eval_transfer(const interp *m, const qn_node *n) { eval_copy(m, n); }

static inline void eval_get_rows(const interp *m, const qn_node *n)
{
    const int64_t width = dim(n, 1);
    for (int64_t i = 0; i < numel(n); i++)
        set(m, n, i, get(m, n->src[0], get_int(m, n->src[1], i / width) * width + i % width));
}

static inline void eval_linear(const interp *m, const qn_node *n)
{
    const int64_t k = dim(n->src[0], -1), out = dim(n, -1);
    for (int64_t i = 0; i < numel(n); i++) {
        float acc = 0;
        for (int64_t j = 0; j < k; j++) acc += get(m, n->src[0], i / out * k + j) * get(m, n->src[1], i % out * k + j);
        set(m, n, i, n->n_src > 2 ? acc + get(m, n->src[2], i % out) : acc);
    }
}

static inline void eval_rms_norm(const interp *m, const qn_node *n)
{
    const int64_t width = dim(n, -1);
    for (int64_t r = 0; r < numel(n); r += width) {
        float sum = 0;
        for (int64_t j = 0; j < width; j++) sum += get(m, n->src[0], r + j) * get(m, n->src[0], r + j);
        const float s = 1.0f / sqrtf(sum / (float)width + (float)((const qn_norm_attrs *)n->attrs)->eps);
        for (int64_t j = 0; j < width; j++) {
            const float y = get(m, n->src[0], r + j) * s;
            set(m, n, r + j, n->n_src > 1 ? y * get(m, n->src[1], j) : y);
        }
    }
}

static inline void eval_binary(const interp *m, const qn_node *n, bool add)
{
    for (int64_t i = 0; i < numel(n); i++) {
        const float a = interp_load(F32, interp_base(m, n->src[0]), interp_at(n->src[0], &n->layout, i));
        const float b = interp_load(F32, interp_base(m, n->src[1]), interp_at(n->src[1], &n->layout, i));
        set(m, n, i, add ? a + b : a * b);
    }
}

static inline void eval_add(const interp *m, const qn_node *n) { eval_binary(m, n, true); }
static inline void eval_mul(const interp *m, const qn_node *n) { eval_binary(m, n, false); }

static inline void eval_scale(const interp *m, const qn_node *n)
{
    const qn_scale_attrs *a = n->attrs;
    for (int64_t i = 0; i < numel(n); i++) set(m, n, i, a->scale * get(m, n->src[0], i) + a->bias);
}

static inline void eval_silu(const interp *m, const qn_node *n)
{
    for (int64_t i = 0; i < numel(n); i++) set(m, n, i, silu(get(m, n->src[0], i)));
}

static inline void eval_swiglu(const interp *m, const qn_node *n)
{
    for (int64_t i = 0; i < numel(n); i++) set(m, n, i, silu(get(m, n->src[0], i)) * get(m, n->src[1], i));
}

static inline void eval_rope(const interp *m, const qn_node *n)
{
    const qn_rope_attrs *a = n->attrs;
    const int64_t d = dim(n, 2), heads = dim(n, 1);
    const int32_t half = a->n_rot / 2;
    for (int64_t row = 0; row < numel(n); row += d) {
        for (int64_t j = a->n_rot; j < d; j++) set(m, n, row + j, get(m, n->src[0], row + j));
        for (int32_t i = 0; i < half; i++) {
            const float turn = powf(a->base, -2.0f * (float)i / (float)a->n_rot) * a->freq_scale;
            float angle = (float)get_int(m, n->src[1], row / d / heads) * turn;
            if (n->n_src > 2) angle /= get(m, n->src[2], i);
            const int64_t p = row + (a->mode == QN_ROPE_NEOX ? i : 2 * i),
                          q = a->mode == QN_ROPE_NEOX ? p + half : p + 1;
            const float x = get(m, n->src[0], p), y = get(m, n->src[0], q), c = cosf(angle), s = sinf(angle);
            set(m, n, p, x * c - y * s);
            set(m, n, q, x * s + y * c);
        }
    }
}

static inline void eval_set_rows(const interp *m, const qn_node *n)
{
    const int64_t width = dim(n, 1);
    for (int64_t i = 0; i < numel(n->src[1]); i++) {
        const int32_t row = get_int(m, n->src[2], i / width);
        if (row >= 0) set(m, n, row * width + i % width, get(m, n->src[1], i));
    }
}

static inline void eval_slice_update(const interp *m, const qn_node *n)
{
    const qn_slice_attrs *a = n->attrs;
    qn_node part = *n; /* the slice as a view */
    OK(qn_layout_narrow(&n->layout, a->dim, a->start, dim(n->src[1], a->dim), &part.layout, err));
    for (int64_t i = 0; i < numel(&part); i++) {
        const float x = get(m, n->src[1], i);
        set(m, &part, i, a->accumulate ? get(m, &part, i) + x : x);
    }
}

static inline void eval_attention(const interp *m, const qn_node *n)
{
    const qn_node *q = n->src[0], *k = n->src[1], *v = n->src[2];
    const qn_attn_attrs *a = n->attrs;
    const int64_t heads = dim(q, 1), kv = dim(k, 1), d = dim(q, 2), dv = dim(v, 2), capacity = dim(n->src[3], 1);
    for (int64_t i = 0; i < dim(q, 0) * heads; i++) {
        const int64_t row = get_int(m, n->src[4], i / heads * 2), seen = get_int(m, n->src[4], i / heads * 2 + 1);
        const int64_t head = i % heads / (heads / kv);
        float sum = 0, w[64], acc[64] = {0};
        for (int64_t c = 0; c < seen; c++) {
            const int64_t cell = get_int(m, n->src[3], row * capacity + c);
            float s = 0;
            for (int64_t j = 0; j < d; j++) s += get(m, q, i * d + j) * get(m, k, (cell * kv + head) * d + j);
            w[c] = expf(s * a->scale);
            sum += w[c];
            for (int64_t j = 0; j < dv; j++) acc[j] += w[c] * get(m, v, (cell * kv + head) * dv + j);
        }
        for (int64_t j = 0; j < dv; j++) set(m, n, i * dv + j, seen > 0 ? acc[j] / sum : 0);
    }
}

/* The ops that the graphs of these tests are made of; tests/unit/cpu has oracles for all. */
static inline void interp_node(const interp *m, const qn_node *n)
{
    static void (*const evals[QN_OP_COUNT])(const interp *, const qn_node *) = {
        [QN_OP_input] = eval_input,
        [QN_OP_param] = eval_param,
        [QN_OP_view] = eval_view,
        [QN_OP_copy] = eval_copy,
        [QN_OP_transfer] = eval_transfer,
        [QN_OP_get_rows] = eval_get_rows,
        [QN_OP_linear] = eval_linear,
        [QN_OP_rms_norm] = eval_rms_norm,
        [QN_OP_add] = eval_add,
        [QN_OP_mul] = eval_mul,
        [QN_OP_scale] = eval_scale,
        [QN_OP_silu] = eval_silu,
        [QN_OP_swiglu] = eval_swiglu,
        [QN_OP_rope] = eval_rope,
        [QN_OP_set_rows] = eval_set_rows,
        [QN_OP_slice_update] = eval_slice_update,
        [QN_OP_attention] = eval_attention,
    };
    if (evals[n->op] == NULL) fail_msg("%s is not interpreted", qn__op_info(n->op)->name);
    evals[n->op](m, n);
}

/* A fold function for the passes: sources are const params, row-major. */
static inline qn_status interp_fold(void *ctx, const qn_node *n, void *dst, qn_error *err)
{
    (void)err;
    uint8_t *memory[1] = {dst};
    qn_node copy = *n;
    const interp m = {.memory = memory};
    if (ctx != NULL) ++*(int *)ctx;
    for (int k = 0; k < n->n_src; k++) {
        assert_true(n->src[k]->op == QN_OP_param && (n->src[k]->flags & QN_NODE_const) && n->src[k]->host != NULL);
        assert_true(n->src[k]->layout.offset == 0 && qn_layout_is_contiguous(&n->src[k]->layout));
    }
    copy.id = 0;
    copy.root = &copy;
    interp_node(&m, &copy);
    return QN_OK;
}

/* ---- whole graphs ---- */

/* Floats in [-1, 1], zeros of both signs and a denormal among them; ids in [0, 4), from -1 on in names that begin with
 * r. */
static inline void interp_fill(const qn_node *n, uint8_t *p)
{
    static const float odd[] = {0.0f, -0.0f, 1e-40f, 1.0f, -1.0f};
    uint64_t s = 1;
    for (const char *c = n->name; *c != '\0'; c++) s = s * 131 + (uint64_t)*c;
    for (int64_t i = 0; i < numel(n); i++) {
        const uint64_t r = interp_mix(&s);
        if (n->dtype == I32)
            memcpy(p + 4 * i, &(int32_t){n->name[0] == 'r' ? (int32_t)(r % 5) - 1 : (int32_t)(r % 4)}, 4);
        else
            interp_store(n->dtype, p, i,
                         r % 8 == 0 ? odd[(r >> 8) % N_OF(odd)] : (float)((double)(r >> 11) * 0x1p-52 - 1));
    }
}

static inline void interp_close(interp *m)
{
    for (int32_t i = 0; i < m->g->n_nodes; i++) {
        const qn_node *n = m->g->nodes[i];
        if (n->root == n && (n->op == QN_OP_param || m->places[0] == NULL)) free(m->memory[i]);
    }
    for (int i = 0; i < QN_MAX_PLACES; i++) free(m->places[i]);
    free(m->memory);
}

/* With a plan, values lie where it says, the buffers begin with garbage, and every node's scratch is scribbled over. */
static inline interp interp_run(const qn_graph *g, const qn_plan *plan)
{
    interp m = {.g = g, .memory = calloc((size_t)g->n_nodes + 1, sizeof *m.memory)};
    for (int i = 0; plan != NULL && i < plan->n_places; i++) {
        m.places[i] = malloc((size_t)plan->bytes[i] + 1);
        memset(m.places[i], 0xa5, (size_t)plan->bytes[i]);
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (n->root != n || n->host != NULL) continue;
        if (plan == NULL || n->op == QN_OP_param)
            m.memory[i] = malloc((size_t)qn__node_bytes(n) + 1);
        else
            m.memory[i] = m.places[n->place] + n->offset;
        if (n->op == QN_OP_input || n->op == QN_OP_param) interp_fill(n, m.memory[i]);
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (plan != NULL && n->scratch_bytes > 0)
            memset(m.places[n->place] + n->scratch_offset, 0x5c, (size_t)n->scratch_bytes);
        interp_node(&m, n);
        if (plan != NULL && n->scratch_bytes > 0)
            memset(m.places[n->place] + n->scratch_offset, 0xc5, (size_t)n->scratch_bytes);
    }
    return m;
}

/* The values of two nodes are the same bits. */
static inline void interp_same(const interp *a, const qn_node *x, const interp *b, const qn_node *y)
{
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(numel(x), numel(y));
    for (int64_t i = 0; i < numel(x); i++) {
        if (x->dtype == I32) {
            assert_int_equal(get_int(a, x, i), get_int(b, y, i));
            continue;
        }
        const float f = get(a, x, i), h = get(b, y, i);
        uint32_t u, v;
        memcpy(&u, &f, 4);
        memcpy(&v, &h, 4);
        if (u == v || (isnan(f) && isnan(h))) continue;
        fail_msg("%s[%d]: %.9g (%08x) and %.9g (%08x)", x->name, (int)i, (double)f, u, (double)h, v);
    }
}

/* Outputs of `before` are outputs of `after` with the same name, dtype, shape and bits, and resident params end up the
 * same. */
static inline void interp_compare(const interp *before, const interp *after)
{
    for (int32_t i = 0; i < before->g->n_nodes; i++) {
        const qn_node *x = before->g->nodes[i];
        const bool resident = x->op == QN_OP_param && (x->flags & QN_NODE_mutable);
        if (!(x->flags & QN_NODE_output) && !resident) continue;
        const qn_node *y = find_node(after->g, x->name);
        if (y == NULL && resident && !(x->flags & QN_NODE_output)) continue; /* nobody needed it */
        if (y == NULL) fail_msg("output %s is gone", x->name);
        const qn_shape a = qn_node_shape(x), b = qn_node_shape(y);
        assert_true(qn_shape_equal(&a, &b));
        assert_int_equal(x->flags & QN_NODE_output, y->flags & QN_NODE_output);
        interp_same(before, x, after, y);
    }
}

#endif
