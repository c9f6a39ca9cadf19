/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/typed.c -- see typed.h: one set of small functions a dtype, from its row. */
#include "cpu/op/pointwise/typed.h"

#include "cpu/op/ops.h"

/* ---- how two elements combine, by class ------------------------------------------------------ */

/* Integer sums wrap: in unsigned 64-bit, then cut. Which branch it is, is known for a type. */
#define REAL(T)         ((T)0.5f != 0)
#define IS_NAN(T, x)    (REAL(T) && __builtin_isnan((double)(x)))
#define OP_set(T, a, b) ((void)(a), (b))
#define OP_add(T, a, b) (REAL(T) ? (T)((a) + (b)) : (T)((uint64_t)(a) + (uint64_t)(b)))
#define OP_mul(T, a, b) (REAL(T) ? (T)((a) * (b)) : (T)((uint64_t)(a) * (uint64_t)(b)))
#define OP_max(T, a, b) (IS_NAN(T, a) || (a) > (b) ? (a) : (b))
#define OP_min(T, a, b) (IS_NAN(T, a) || (a) < (b) ? (a) : (b))

/* ---- keys ------------------------------------------------------------------------------------ */

static inline uint64_t key_f64(double x)
{
    uint64_t u;
    if (x != x) return UINT64_MAX;
    x += 0.0; /* -0 and 0 are equal */
    memcpy(&u, &x, 8);
    return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}
static inline uint64_t key_f32(float x) { return key_f64((double)x); }
static inline uint64_t key_int(int64_t x) { return (uint64_t)x ^ UINT64_C(1) << 63; }

static inline int64_t whole(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x > -0x1p63 ? (int64_t)x : x <= -0x1p63 ? INT64_MIN : 0;
}

/* ---- a set a dtype --------------------------------------------------------------------------- */

/* Steps are constants in the common case, so that the loop is vectorised. */
#define COMBINE(dtype, S, T, to, from, mode) \
    static void combine_##dtype##_##mode(void *y_, int64_t y_step, const void *x_, int64_t x_step, int64_t n) \
    { \
        S *restrict y = y_; \
        const S *restrict x = x_; \
        if (y_step == 1 && x_step == 1) \
            for (int64_t i = 0; i < n; i++) { \
                const T a = to(y[i]), b = to(x[i]); \
                y[i] = from(OP_##mode(T, a, b)); \
            } \
        else \
            for (int64_t i = 0; i < n; i++) { \
                const T a = to(y[i * y_step]), b = to(x[i * x_step]); \
                y[i * y_step] = from(OP_##mode(T, a, b)); \
            } \
    } \
    static void scatter_##dtype##_##mode(void *y_, const int64_t *at, const void *x_, int64_t x_step, int64_t n) \
    { \
        S *y = y_; \
        const S *x = x_; \
        for (int64_t i = 0; i < n; i++) { \
            if (at[i] < 0) continue; \
            const T a = to(y[at[i]]), b = to(x[i * x_step]); \
            y[at[i]] = from(OP_##mode(T, a, b)); \
        } \
    }

#define SET(dtype, S, T, to, from, key) \
    COMBINE(dtype, S, T, to, from, set) \
    COMBINE(dtype, S, T, to, from, add) \
    COMBINE(dtype, S, T, to, from, mul) \
    COMBINE(dtype, S, T, to, from, max) \
    COMBINE(dtype, S, T, to, from, min) \
    static void keys_##dtype(uint64_t *k, const void *x_, int64_t x_step, int64_t n) \
    { \
        const S *x = x_; \
        for (int64_t i = 0; i < n; i++) k[i] = key(to(x[i * x_step])); \
    } \
    static void widen_##dtype(int64_t *y, const void *x_, int64_t x_step, int64_t n) \
    { \
        const S *x = x_; \
        for (int64_t i = 0; i < n; i++) y[i] = (int64_t)to(x[i * x_step]); \
    } \
    static void narrow_##dtype(void *y_, const int64_t *x, int64_t n) \
    { \
        S *y = y_; \
        for (int64_t i = 0; i < n; i++) y[i] = from((T)x[i]); \
    }
#define PUT(dtype, S, T, to, from, key) \
    static void put_##dtype(void *y, double value) { *(S *)y = from(REAL(T) ? (T)value : (T)whole(value)); }

QN_TYPED_ROWS(SET)
QN_TYPED_ROWS(PUT)

/* Booleans are bytes of 0 and 1: or, and. */
#undef OP_add
#undef OP_mul
#undef OP_max
#undef OP_min
#define OP_add(T, a, b) (T)((a) | (b))
#define OP_mul(T, a, b) (T)((a) & (b))
#define OP_max(T, a, b) (T)((a) | (b))
#define OP_min(T, a, b) (T)((a) & (b))
#define TRUTH(x)        ((x) != 0)
SET(BOOL, uint8_t, uint8_t, TRUTH, QN_SAME, key_int)
static void put_BOOL(void *y, double value) { *(uint8_t *)y = value != 0; }

#define ROW(dtype, S, T, to, from, key) \
    [QN_DTYPE_##dtype] = { \
        .combine = {combine_##dtype##_set, combine_##dtype##_add, combine_##dtype##_mul, combine_##dtype##_max, \
                    combine_##dtype##_min}, \
        .scatter = {scatter_##dtype##_set, scatter_##dtype##_add, scatter_##dtype##_mul, scatter_##dtype##_max, \
                    scatter_##dtype##_min}, \
        .keys = keys_##dtype, \
        .widen = widen_##dtype, \
        .narrow = narrow_##dtype, \
        .put = put_##dtype, \
    },
static const qn_typed table[QN_DTYPE_COUNT] = {QN_TYPED_ROWS(ROW) ROW(BOOL, uint8_t, uint8_t, TRUTH, QN_SAME, key_int)};

const qn_typed *qn__typed(qn_dtype dtype) { return &table[dtype]; }

/* ---- moving ---------------------------------------------------------------------------------- */

#define MOVE(T) \
    do { \
        T *b = y; \
        const T *a = x; \
        for (int64_t i = 0; i < n; i++) b[i * y_step] = a[i * x_step]; \
    } while (0)

void qn__move(int64_t elem_bytes, void *y, int64_t y_step, const void *x, int64_t x_step, int64_t n)
{
    if (n <= 0) return;
    if ((y_step == 1 && x_step == 1) || n == 1)
        memcpy(y, x, (size_t)(n * elem_bytes));
    else if (elem_bytes == 4)
        MOVE(uint32_t);
    else if (elem_bytes == 8)
        MOVE(uint64_t);
    else if (elem_bytes == 2)
        MOVE(uint16_t);
    else
        MOVE(uint8_t);
}

#define PICK(T) \
    do { \
        T *b = y; \
        const T *a = x; \
        for (int64_t i = 0; i < n; i++) b[i] = at[i] < 0 ? 0 : a[at[i]]; \
    } while (0)

void qn__pick(int64_t elem_bytes, void *y, const void *x, const int64_t *at, int64_t n)
{
    if (elem_bytes == 4)
        PICK(uint32_t);
    else if (elem_bytes == 8)
        PICK(uint64_t);
    else if (elem_bytes == 2)
        PICK(uint16_t);
    else
        PICK(uint8_t);
}

void qn__report_indices(const qn_task *t, int32_t strict, int dim, const qn_view *ids, int64_t start, int64_t step,
                        int64_t n, int64_t size)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = qn__index_at(ids, start + i * step);
        if (id < 0 || id >= size) qn__bad_index(t, strict, dim, id, size);
    }
}

int64_t qn__copied_rows(const qn_node *node, int64_t *chunk)
{
    *chunk = qn__chunk_of(16384, qn__row_size(&node->layout));
    return qn_layout_numel(&node->layout) > 0 ? qn__row_count(&node->layout) : 0;
}

void qn__copy_rows(const qn_task *t)
{
    const int64_t n = qn__row_size(&t->dst.layout), bytes = qn__elem_bytes(t->dst.dtype);
    if (t->dst.data == t->src[0].data && qn_layout_is_contiguous(&t->src[0].layout)) return;
    for (int64_t r = t->begin; r < t->end; r++)
        qn__move(bytes, qn__row_at(&t->dst, r), 1, qn__row_at(&t->src[0], r), qn__row_step(&t->src[0].layout), n);
}

void qn__row_coords(const qn_layout *l, int64_t row, int64_t at[QN_MAX_RANK])
{
    for (int i = l->rank - 2; i >= 0; i--) {
        at[i] = row % l->dim[i];
        row /= l->dim[i];
    }
}

bool qn__want_plain(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (table[n->dtype].put) return true;
    QN_FAIL(err, unsupported, "%s: %s is %s, not a block format expected", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}

bool qn__want_real(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (qn_dtype_get(n->dtype)->class_ == QN_CLASS_real) return true;
    QN_FAIL(err, unsupported, "%s: %s is %s, a real type expected", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}
