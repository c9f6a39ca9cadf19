/* SPDX-License-Identifier: MIT */
/* src/gpu/op/pointwise.c -- element by element, and elements from one place to another: one work-item each. Sources
 * have any strides and broadcast; F16 and BF16 are computed in F32, integers and BOOL in 64 bits. */
#include "gpu/gpu.h"

#include "gpu/kernels/pointwise.h"
#include "quant/quant.h"
#include "gpu/kernels/sizes.h"

#include <string.h>

/* ---- layouts ---- */

/* Dimensions that lie behind one another in all of the layouts become one. */
void qn__gpu_walk(qn_walk_sizes *s, const qn_layout *to, const qn_layout *const *src, int n_src)
{
    s->n = qn_layout_numel(to);
    s->rank = 0;
    for (int d = 0; d < to->rank; d++) {
        int64_t stride[3] = {0};
        if (to->dim[d] == 1) continue;
        for (int k = 0; k < n_src; k++) {
            const int from = d - (to->rank - src[k]->rank);
            stride[k] = from < 0 || src[k]->dim[from] == 1 ? 0 : src[k]->stride[from];
        }
        int last = s->rank - 1;
        bool joins = last >= 0;
        for (int k = 0; k < n_src && joins; k++) joins = s->stride[k][last] == stride[k] * to->dim[d];
        if (joins) {
            s->dim[last] *= to->dim[d];
        } else {
            last = s->rank++;
            s->dim[last] = to->dim[d];
        }
        for (int k = 0; k < 3; k++) s->stride[k][last] = stride[k];
    }
    if (s->rank == 0) s->dim[s->rank++] = 1; /* a single element; its strides are 0 */
}

static bool real(qn_dtype dtype) { return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16; }
static bool whole(qn_dtype dtype)
{
    const qn_dtype_class class_ = qn_dtype_get(dtype)->class_;
    return class_ == QN_CLASS_integer || class_ == QN_CLASS_boolean;
}
static int32_t format_of(qn_dtype dtype)
{
    int32_t format = 0;
    (void)qn__gpu_format(dtype, &format);
    return format;
}

/* ---- the rows of pointwise.h ---- */

static const struct {
    bool there, real, whole;
    int32_t what;
} rows[QN_OP_COUNT] = {
#define ROW(name, a) [QN_OP_##name] = {true, true, false, QN_GPU_PW_##name},
    QN_GPU_REAL_ROWS(ROW)
#undef ROW
#define ROW(name, a, b) [QN_OP_##name] = {true, true, true, QN_GPU_PW_##name},
        QN_GPU_NUMBER_ROWS(ROW)
#undef ROW
#define ROW(name, a) [QN_OP_##name] = {true, false, true, QN_GPU_PW_##name},
            QN_GPU_WHOLE_ROWS(ROW)
#undef ROW
};

/* ---- what an operation's attributes say ---- */

static void set_scale(qn_walk_sizes *s, const qn_node *n)
{
    const qn_scale_attrs *a = n->attrs;
    s->p = a->scale;
    s->q = a->bias;
}
static void set_gelu(qn_walk_sizes *s, const qn_node *n) { s->p = (float)((const qn_gelu_attrs *)n->attrs)->tanh; }
static void set_value(qn_walk_sizes *s, const qn_node *n)
{
    const qn_value_attrs *a = n->attrs;
    s->p = (float)a->value;
    s->w = a->whole;
}
static void set_softplus(qn_walk_sizes *s, const qn_node *n)
{
    const qn_softplus_attrs *a = n->attrs;
    s->p = (float)a->beta;
    s->q = (float)a->threshold;
}
static void set_clamp(qn_walk_sizes *s, const qn_node *n)
{
    const qn_clamp_attrs *a = n->attrs;
    s->p = (float)a->min;
    s->q = (float)a->max;
    if (whole(n->dtype)) qn__clamp_bounds(a, n->dtype, &s->w, &s->v);
}
static void set_not(qn_walk_sizes *s, const qn_node *n) { s->w = n->dtype == QN_DTYPE_BOOL ? 1 : -1; }

static void (*const set[QN_OP_COUNT])(qn_walk_sizes *s, const qn_node *n) = {
    [QN_OP_scale] = set_scale,     [QN_OP_gelu] = set_gelu,         [QN_OP_gelu_back] = set_gelu,
    [QN_OP_elu] = set_value,       [QN_OP_leaky_relu] = set_value,  [QN_OP_addcmul] = set_value,
    [QN_OP_addcdiv] = set_value,   [QN_OP_softplus] = set_softplus, [QN_OP_clamp] = set_clamp,
    [QN_OP_bitwise_not] = set_not,
};

/* Division of integers by 0 ends the run of a strict node, which no kernel can. */
static bool is_strict(const qn_node *n)
{
    const bool may =
        n->op == QN_OP_floor_divide || n->op == QN_OP_trunc_divide || n->op == QN_OP_remainder || n->op == QN_OP_fmod;
    return may && whole(n->dtype) && ((const qn_strict_attrs *)n->attrs)->strict != QN_STRICT_not;
}

static bool accepts(const qn_node *n, qn_error *err)
{
    const qn_dtype x = n->src[0]->dtype;
    bool good = (real(x) && rows[n->op].real) || (whole(x) && rows[n->op].whole);
    for (int i = 1; i < n->n_src; i++) good = good && (real(x) ? real(n->src[i]->dtype) : whole(n->src[i]->dtype));
    good = good && (real(n->dtype) || whole(n->dtype)) && (n->dtype == QN_DTYPE_BOOL || real(n->dtype) == real(x));
    if (!good || is_strict(n))
        QN_FAIL(err, unsupported, "%s: no kernel of %s%s", qn_node_op_name(n), qn_dtype_get(x)->name,
                good ? " that tells of a division by 0" : "");
    return good && !is_strict(n);
}

static void launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *src[3];
    const qn_layout *layouts[3];
    qn_walk_sizes s = {.what = rows[n->op].what, .to = format_of(n->dtype)};
    for (int i = 0; i < 3; i++) {
        src[i] = n->src[i < n->n_src ? i : 0];
        layouts[i] = &src[i]->layout;
        s.format[i] = format_of(src[i]->dtype);
    }
    qn__gpu_walk(&s, &n->layout, layouts, 3);
    if (set[n->op]) set[n->op](&s, n);
    const qn_gpu_kernel kernel = real(src[0]->dtype) ? QN_GPU_pointwise_real : QN_GPU_pointwise_whole;
    QN_GPU_LAUNCH(b, kernel, qn__gpu_groups(kernel, s.n), s, QN_GPU_OF(n), QN_GPU_OF(src[0]), QN_GPU_OF(src[1]),
                  QN_GPU_OF(src[2]));
}

#define ROW(name, ...) const qn_gpu_op qn__gpu_op_##name = {accepts, NULL, launch};
QN_GPU_REAL_ROWS(ROW)
QN_GPU_NUMBER_ROWS(ROW)
QN_GPU_WHOLE_ROWS(ROW)
#undef ROW

/* ---- what gates, on its way to a product ---- */

/* What the kernel knows of (gate_of in kernels/layers.cl), of floats of one shape, in dense rows. */
bool qn__gpu_gates(const qn_node *n)
{
    static const bool known[QN_OP_COUNT] = {
        [QN_OP_swiglu] = true, [QN_OP_mul] = true, [QN_OP_silu] = true, [QN_OP_gelu] = true, [QN_OP_relu] = true};
    qn_rows at;
    int64_t count;
    const qn_shape shape = qn_layout_shape(&n->layout);
    if (!known[n->op] || n->dtype != QN_DTYPE_F32 || n->layout.rank == 0) return false;
    for (int i = 0; i < n->n_src; i++) {
        const qn_shape of = qn_layout_shape(&n->src[i]->layout);
        if (n->src[i]->dtype != QN_DTYPE_F32 || !qn_shape_equal(&of, &shape) ||
            !qn__gpu_rows_at(&n->src[i]->layout, &at, &count))
            return false;
    }
    return true;
}

void qn__gpu_gate(qn_gpu_builder *b, const qn_node *gate, const qn_node *times, const qn_node *first)
{
    const qn_node *x = gate->src[0], *y = gate->src[gate->n_src - 1], *z = times ? times : gate,
                  *c = !times                  ? x
                       : times->src[0] == gate ? times->src[1]
                                               : times->src[0];
    qn_gate_sizes s = {.k = gate->layout.dim[gate->layout.rank - 1],
                       .what = rows[gate->op].what,
                       .has_c = times != NULL,
                       .block = qn__gpu_column_block(first)};
    qn_walk_sizes attrs = {0};
    int64_t n = 0;
    if (set[gate->op]) set[gate->op](&attrs, gate);
    s.p = attrs.p;
    if (qn__gpu_rows_at(&x->layout, &s.a, &n) && qn__gpu_rows_at(&y->layout, &s.b, &n) &&
        qn__gpu_rows_at(&c->layout, &s.c, &n))
        QN_GPU_LAUNCH(b, QN_GPU_gate, n * ((s.k + 255) / 256), s, QN_GPU_OF(gate), QN_GPU_OF(x), QN_GPU_OF(y),
                      QN_GPU_OF(z), QN_GPU_OF(c), QN_GPU_SCRATCH(0));
}

/* ---- copies ---- */

static bool plain(qn_dtype dtype) { return qn_dtype_get(dtype)->block_elems == 1; }

static bool want_plain(const qn_node *user, const qn_node *x, qn_error *err)
{
    if (plain(x->dtype)) return true;
    QN_FAIL(err, unsupported, "%s: no kernel moves %s", qn_node_op_name(user), qn_dtype_get(x->dtype)->name);
    return false;
}

static bool copy_accepts(const qn_node *n, qn_error *err)
{
    const qn_dtype from = n->src[0]->dtype, to = n->dtype;
    if (from == to && (plain(to) || qn_layout_is_contiguous(&n->src[0]->layout))) return true;
    if ((real(from) || whole(from)) && (real(to) || whole(to))) return true;
    QN_FAIL(err, unsupported, "copy: no kernel from %s to %s", qn_dtype_get(from)->name, qn_dtype_get(to)->name);
    return false;
}

void qn__gpu_move(qn_gpu_builder *b, const qn_node *y, const qn_layout *to, const qn_node *x)
{
    qn_walk_sizes s = {.what = qn_dtype_get(x->dtype)->block_bytes};
    const qn_layout *const layouts[] = {&x->layout, to};
    qn__gpu_walk(&s, &x->layout, layouts, 2);
    QN_GPU_LAUNCH(b, QN_GPU_move, qn__gpu_groups(QN_GPU_move, s.n), s,
                  QN_GPU_AT(y, (to->offset - y->layout.offset) * s.what), QN_GPU_OF(x));
}

/* Blocks that lie behind one another, as bytes. */
static void move_blocks(qn_gpu_builder *b, const qn_node *y, const qn_node *x)
{
    const qn_walk_sizes bytes = {
        .n = qn__node_bytes(x), .rank = 1, .dim = {qn__node_bytes(x)}, .stride = {{1}, {1}}, .what = 1};
    QN_GPU_LAUNCH(b, QN_GPU_move, qn__gpu_groups(QN_GPU_move, bytes.n), bytes, QN_GPU_OF(y), QN_GPU_OF(x));
}

static void copy_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *x = n->src[0];
    if (n->dtype == x->dtype && plain(x->dtype)) {
        qn__gpu_move(b, n, &n->layout, x);
        return;
    }
    if (n->dtype == x->dtype) {
        move_blocks(b, n, x);
        return;
    }
    qn_walk_sizes s = {.format = {format_of(x->dtype)}, .to = format_of(n->dtype)};
    const qn_layout *const layouts[] = {&x->layout};
    qn__gpu_walk(&s, &n->layout, layouts, 1);
    QN_GPU_LAUNCH(b, QN_GPU_convert, qn__gpu_groups(QN_GPU_convert, s.n), s, QN_GPU_OF(n), QN_GPU_OF(x));
}

const qn_gpu_op qn__gpu_op_copy = {copy_accepts, NULL, copy_launch};

/* ---- writing into parts ---- */

static bool strided_accepts(const qn_node *n, qn_error *err)
{
    const qn_strided_attrs *a = n->attrs;
    if (a->mode != QN_COMBINE_set) {
        QN_FAIL(err, unsupported, "strided_update: no kernel that combines");
        return false;
    }
    return want_plain(n, n->src[1], err);
}

static void strided_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_strided_attrs *a = n->attrs;
    const bool covers = qn_layout_numel(&a->layout) == qn_layout_numel(&n->layout);
    if (!covers && n->src[0]->op != QN_OP_empty) qn__gpu_move(b, n, &n->layout, n->src[0]);
    qn__gpu_move(b, n, &a->layout, n->src[1]);
}

const qn_gpu_op qn__gpu_op_strided_update = {strided_accepts, NULL, strided_launch};

static bool assign_accepts(const qn_node *n, qn_error *err)
{
    (void)n, (void)err; /* bytes are moved, whatever they are */
    return true;
}
static void assign_launch(qn_gpu_builder *b, const qn_node *n)
{
    if (plain(n->dtype))
        qn__gpu_move(b, n->src[0], &n->src[0]->layout, n->src[1]);
    else
        move_blocks(b, n->src[0], n->src[1]);
}
const qn_gpu_op qn__gpu_op_assign = {assign_accepts, NULL, assign_launch};

static bool slice_accepts(const qn_node *n, qn_error *err)
{
    const qn_slice_attrs *a = n->attrs;
    if (a->accumulate || n->src[0]->dtype != n->src[1]->dtype) {
        QN_FAIL(err, unsupported, "slice_update: no kernel that %s", a->accumulate ? "adds" : "converts");
        return false;
    }
    return want_plain(n, n->src[1], err);
}

static void slice_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_slice_attrs *a = n->attrs;
    qn_layout to = n->src[0]->layout;
    to.offset += a->start * to.stride[a->dim];
    to.dim[a->dim] = n->src[1]->layout.dim[a->dim];
    qn__gpu_move(b, n->src[0], &to, n->src[1]);
}

const qn_gpu_op qn__gpu_op_slice_update = {slice_accepts, NULL, slice_launch};

static bool empty_accepts(const qn_node *n, qn_error *err)
{
    (void)n;
    (void)err;
    return true;
}
static void empty_launch(qn_gpu_builder *b, const qn_node *n)
{
    (void)b;
    (void)n;
}
const qn_gpu_op qn__gpu_op_empty = {empty_accepts, NULL, empty_launch};

/* ---- choices ---- */

static bool choose_accepts(const qn_node *n, qn_error *err) { return want_plain(n, n, err); }

/* The bytes of one element of a number of attributes. */
static int64_t element_bits(qn_dtype dtype, double value, int64_t as_whole)
{
    const float f = (float)value;
    uint32_t u = 0;
    int64_t bits = as_whole;
    if (dtype == QN_DTYPE_BOOL) return value != 0 || as_whole != 0;
    if (dtype == QN_DTYPE_F64) memcpy(&bits, &value, 8);
    if (!real(dtype)) return bits;
    memcpy(&u, &f, 4);
    return dtype == QN_DTYPE_F16 ? qn__f32_to_f16(f) : dtype == QN_DTYPE_BF16 ? qn__f32_to_bf16(f) : (int64_t)u;
}

static void choose_launch(qn_gpu_builder *b, const qn_node *n, qn_gpu_choice choice, const qn_node *cond,
                          const qn_node *x, const qn_node *z)
{
    qn_walk_sizes s = {.what = qn_dtype_get(n->dtype)->block_bytes, .choice = choice};
    const qn_layout *const layouts[] = {&cond->layout, &x->layout, &z->layout};
    qn__gpu_walk(&s, &n->layout, layouts, 3);
    if (choice == QN_GPU_MASKED) {
        const qn_value_attrs *a = n->attrs;
        s.w = element_bits(n->dtype, a->value, a->whole);
    } else if (choice == QN_GPU_FULL) {
        const qn_full_attrs *a = n->attrs;
        s.w = element_bits(n->dtype, a->value, a->whole);
    }
    QN_GPU_LAUNCH(b, QN_GPU_choose, qn__gpu_groups(QN_GPU_choose, s.n), s, QN_GPU_OF(n), QN_GPU_OF(cond), QN_GPU_OF(x),
                  QN_GPU_OF(z));
}

static void where_launch(qn_gpu_builder *b, const qn_node *n)
{
    choose_launch(b, n, QN_GPU_WHERE, n->src[0], n->src[1], n->src[2]);
}
static void masked_launch(qn_gpu_builder *b, const qn_node *n)
{
    choose_launch(b, n, QN_GPU_MASKED, n->src[1], n->src[0], n->src[0]);
}
static void full_launch(qn_gpu_builder *b, const qn_node *n) { choose_launch(b, n, QN_GPU_FULL, n, n, n); }

const qn_gpu_op qn__gpu_op_where = {choose_accepts, NULL, where_launch};
const qn_gpu_op qn__gpu_op_masked_fill = {choose_accepts, NULL, masked_launch};
const qn_gpu_op qn__gpu_op_full = {choose_accepts, NULL, full_launch};

/* ---- elements by index ---- */

static bool gather_accepts(const qn_node *n, qn_error *err)
{
    if (((const qn_index_attrs *)n->attrs)->strict != QN_STRICT_not) {
        QN_FAIL(err, unsupported, "%s: no kernel that tells of a bad index", qn_node_op_name(n));
        return false;
    }
    return want_plain(n, n->src[0], err);
}

/* x and ids as layouts of the result's shape, where dimension dim of x is a step of 0. */
static void gather_launch(qn_gpu_builder *b, const qn_node *n)
{
    const int dim = ((const qn_index_attrs *)n->attrs)->dim;
    const qn_node *x = n->src[0], *ids = n->src[1];
    qn_layout at = n->layout, id = n->layout;
    qn_walk_sizes s = {.what = qn_dtype_get(n->dtype)->block_bytes, .format = {0, format_of(ids->dtype)}};
    for (int i = 0; i < at.rank; i++) {
        at.stride[i] = i == dim || x->layout.rank == 0 ? 0 : x->layout.stride[i];
        if (n->op == QN_OP_gather)
            id.stride[i] = ids->layout.stride[i];
        else
            id.stride[i] = i == dim && ids->layout.rank > 0 ? ids->layout.stride[0] : 0;
    }
    s.w = x->layout.rank ? x->layout.dim[dim] : 1;
    s.v = x->layout.rank ? x->layout.stride[dim] : 0;
    const qn_layout *const layouts[] = {&at, &id};
    qn__gpu_walk(&s, &n->layout, layouts, 2);
    QN_GPU_LAUNCH(b, QN_GPU_gather, qn__gpu_groups(QN_GPU_gather, s.n), s, QN_GPU_OF(n), QN_GPU_OF(x), QN_GPU_OF(ids));
}

const qn_gpu_op qn__gpu_op_gather = {gather_accepts, NULL, gather_launch};
const qn_gpu_op qn__gpu_op_index_select = {gather_accepts, NULL, gather_launch};
