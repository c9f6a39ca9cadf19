/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/same_bits.c -- every operation that devices have a row for, against the CPU's bits: every dtype, sizes
 * with tails, views and broadcasts, numbers that are none. One process and one device, so that kernels are built once.
 */
#include "rig.h"

/* ---- element by element ---- */

static const qn_dtype plain[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16, QN_DTYPE_I8,  QN_DTYPE_I16,
                                 QN_DTYPE_I32, QN_DTYPE_I64, QN_DTYPE_U8,   QN_DTYPE_BOOL};
enum { N_PLAIN = sizeof plain / sizeof *plain };

#include "train_cases.h"

/* Source i: of the whole shape, a row, a column, one element; attributes that some operation reads otherwise. */
static qn_node *build_pointwise(rig *r)
{
    const one_case *c = r->c;
    static const union {
        double d[8];
        qn_value_attrs value;
    } none = {.d = {0}};
    const qn_shape shapes[][3] = {{SHAPE(5, 3, 134), SHAPE(5, 3, 134), SHAPE(5, 3, 134)},
                                  {SHAPE(5, 3, 134), SHAPE(134), SHAPE(3, 1)},
                                  {SHAPE(1, 7), SHAPE(9, 1), SHAPE(1)}};
    const qn_op_info *info = qn__op_info(c->op);
    const qn_value_attrs value = qn__value(-1.5);
    const qn_clamp_attrs clamp = c->variant & 1 ? (qn_clamp_attrs){200, 1e18} : (qn_clamp_attrs){-1.25, 2.5};
    const qn_gelu_attrs gelu = {c->variant & 1};
    const qn_softplus_attrs softplus = {1.5, 3};
    const qn_scale_attrs scale = {.scale = 1.7f, .bias = -0.3f};
    const void *attrs = c->op == QN_OP_clamp                              ? (const void *)&clamp
                        : c->op == QN_OP_gelu || c->op == QN_OP_gelu_back ? (const void *)&gelu
                        : c->op == QN_OP_softplus                         ? (const void *)&softplus
                        : c->op == QN_OP_scale                            ? (const void *)&scale
                        : info->attrs_bytes == sizeof value               ? (const void *)&value
                                                                          : (const void *)&none;
    qn_node *src[3];
    const int which = c->op == QN_OP_swiglu || c->op == QN_OP_gelu_back ? 0 : c->variant % 3;
    for (int i = 0; i < info->min_src; i++) {
        src[i] = input(r, c->dtype, shapes[which][i], WILD, 0);
        if (which == 0 || i == 0) src[i] = viewed(r, src[i], which == 2 ? 'c' : c->view);
    }
    return qn__op(r->g, c->op, attrs, src, info->min_src);
}

/* 16 bits and a number in F32 */
static qn_node *build_scaled(rig *r)
{
    static const qn_strict_attrs lenient;
    const qn_op_info *info = qn__op_info(r->c->op);
    qn_node *src[] = {viewed(r, input(r, r->c->dtype, SHAPE(5, 3, 134), WILD, 0), r->c->view),
                      input(r, QN_DTYPE_F32, (qn_shape){0}, WILD, 0)};
    return qn__op(r->g, r->c->op, info->attrs_bytes == sizeof lenient ? &lenient : NULL, src, 2);
}

static void numbers_beside_16_bits(void **state)
{
    static const qn_op ops[] = {QN_OP_mul, QN_OP_div, QN_OP_floor_divide, QN_OP_trunc_divide};
    (void)state;
    for (int i = 0; i < 8; i++)
        try(&(one_case){.what = qn__op_info(ops[i / 2])->name,
                        .build = build_scaled,
                        .op = ops[i / 2],
                        .dtype = i % 2 ? QN_DTYPE_BF16 : QN_DTYPE_F16,
                        .view = "ctsf"[i % 4]});
    assert_int_equal(n_wrong, 0);
}

static void pointwise(void **state)
{
    static const qn_op ops[] = {
#define ROW(name, ...) QN_OP_##name,
        QN_GPU_REAL_ROWS(ROW) QN_GPU_NUMBER_ROWS(ROW) QN_GPU_WHOLE_ROWS(ROW)
#undef ROW
    };
    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int d = 0; d < N_PLAIN; d++)
            for (int v = 0; v < (d == 0 ? 4 : 2); v++) { /* floats in every view, others in one after another */
                const int variant = d == 0 ? v : (int)o + d + v;
                try(&(one_case){.what = qn__op_info(ops[o])->name,
                                .build = build_pointwise,
                                .op = ops[o],
                                .dtype = plain[d],
                                .view = "ctsf"[variant % 4],
                                .variant = variant,
                                .may_refuse = true});
            }
    assert_int_equal(n_wrong, 0);
}

/* ---- from one place to another ---- */

static qn_node *build_copy(rig *r)
{
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(3, 5, 70), WILD, 0), r->c->view);
    return qn__op(r->g, QN_OP_copy, &(qn_copy_attrs){.dtype = (int32_t)r->c->other}, &x, 1);
}

static qn_node *build_where(rig *r)
{
    qn_node *src[] = {input(r, QN_DTYPE_BOOL, SHAPE(5, 1, 70), WILD, 0),
                      viewed(r, input(r, r->c->dtype, SHAPE(5, 3, 70), WILD, 0),
                             r->c->view == 's'   ? 'f'
                             : r->c->view == 't' ? 'c'
                                                 : r->c->view),
                      input(r, r->c->dtype, SHAPE(70), WILD, 0)};
    return qn__op(r->g, QN_OP_where, NULL, src, 3);
}

static qn_node *build_masked_fill(rig *r)
{
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(5, 70, 70), WILD, 0), r->c->view == 's' ? 'f' : r->c->view);
    return qn__masked_fill(r->g, x, input(r, QN_DTYPE_BOOL, SHAPE(70), WILD, 0), qn__value(-2.5));
}

static qn_node *build_full(rig *r)
{
    const qn_shape shape = SHAPE(3, 67);
    return qn__full(r->g, r->c->dtype, &shape, qn__value(r->c->variant ? -7 : 0.3));
}

static qn_node *build_gather(rig *r)
{
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(6, 8, 8), WILD, 0), r->c->view == 's' ? 'f' : r->c->view);
    const int dim = r->c->variant % 3;
    qn_shape shape = SHAPE(4, 7, 5);
    qn_node *src[] = {x, input(r, r->c->other, shape, IDS, 7)};
    return qn__op(r->g, QN_OP_gather, &(qn_index_attrs){.dim = dim}, src, 2);
}

static qn_node *build_index_select(rig *r)
{
    qn_node *src[] = {viewed(r, input(r, r->c->dtype, SHAPE(6, 8, 8), WILD, 0), r->c->view == 's' ? 'f' : r->c->view),
                      input(r, r->c->other, SHAPE(11), IDS, 7)};
    return qn__op(r->g, QN_OP_index_select, &(qn_index_attrs){.dim = r->c->variant % 3}, src, 2);
}

static qn_node *build_scatter(rig *r)
{
    const int v = r->c->variant;
    const qn_index_attrs a = {.dim = v % 3, .mode = v % QN_COMBINE_COUNT};
    const fill f = v % 2 ? WILD : SMALL;
    qn_node *src[] = {input(r, r->c->dtype, SHAPE(6, 8, 8), f, 0),
                      input(r, r->c->other, r->c->op == QN_OP_scatter ? SHAPE(4, 7, 5) : SHAPE(7), IDS, 7), NULL};
    qn_shape shape = r->c->op == QN_OP_scatter ? SHAPE(5, 7, 6) : SHAPE(6, 8, 8);
    if (r->c->op == QN_OP_index_add) shape.dim[a.dim] = 7;
    src[2] = input(r, r->c->dtype, shape, f, 0);
    return qn__op(r->g, r->c->op, &a, src, 3);
}

static qn_node *build_arange(rig *r)
{
    return qn__arange(r->g, r->c->dtype, 131, qn__value(r->c->variant - 60), qn__value(r->c->variant % 2 ? 3 : -1));
}

/* Vectors of batches: broadcast, transposed, several slices; a sum behind it. */
static qn_node *build_matmul(rig *r)
{
    const int v = r->c->variant;
    const qn_matmul_attrs a = {v % 2 && r->c->dtype <= QN_DTYPE_BF16 ? 0.7 : 1,
                               v & 4 && r->c->dtype <= QN_DTYPE_BF16 ? 1.3 : 0};
    const bool adds = v % 3 == 1 && r->c->dtype <= QN_DTYPE_BF16;
    const int64_t k = v % 4 == 0 ? 600 : 19;
    qn_node *src[] = {viewed(r,
                             v & 1 ? input(r, r->c->dtype, SHAPE(3, 1, k, 5), PLAIN, 0)
                                   : input(r, r->c->dtype, SHAPE(3, 1, 5, k), PLAIN, 0),
                             v & 1 ? 't' : 'c'),
                      viewed(r,
                             v & 2 ? input(r, r->c->dtype, SHAPE(2, 7, k), PLAIN, 0)
                                   : input(r, r->c->dtype, SHAPE(2, k, 7), PLAIN, 0),
                             v & 2 ? 't' : 'c'),
                      adds ? input(r, r->c->dtype, SHAPE(5, 1), PLAIN, 0) : NULL};
    return qn__op(r->g, QN_OP_matmul, &a, src, adds ? 3 : 2);
}

static qn_node *build_strided(rig *r)
{
    qn_node *y = input(r, r->c->dtype, SHAPE(4, 9, 10), WILD, 0);
    qn_layout part;
    OK(qn_layout_slice(&y->layout, 2, r->c->variant % 2, INT64_MAX, 2, &part, err));
    OK(qn_layout_narrow(&part, 1, 2, 5, &part, err));
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(4, 5, 5), WILD, 0), r->c->view == 's' ? 'f' : r->c->view);
    return qn__strided_update(r->g, y, x, &part, QN_COMBINE_set);
}

static qn_node *build_cat(rig *r) /* strided_update into empty */
{
    qn_node *x[] = {input(r, r->c->dtype, SHAPE(4, 3, 10), WILD, 0), input(r, r->c->dtype, SHAPE(4, 5, 10), WILD, 0)};
    return qn__cat(r->g, x, 2, 1);
}

static qn_node *build_empty(rig *r) /* all of it is written by another */
{
    qn_layout all;
    const qn_shape shape = SHAPE(4, 10);
    OK(qn_layout_contiguous(&shape, &all, err));
    return qn__strided_update(r->g, qn__empty(r->g, r->c->dtype, shape), input(r, r->c->dtype, shape, WILD, 0), &all,
                              QN_COMBINE_set);
}

static qn_node *build_assign(rig *r)
{
    qn_node *p = param(r, r->c->dtype, SHAPE(4, 9, 10), WILD, QN_NODE_mutable);
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(4, 5, 5), WILD, 0), r->c->view == 's' ? 'f' : r->c->view);
    return qn__assign(r->g, viewed(r, qn__narrow(r->g, p, 1, 2, 5), 's'), x);
}

static qn_node *build_slice_update(rig *r)
{
    qn_node *p = param(r, r->c->dtype, SHAPE(4, 9, 10), WILD, QN_NODE_mutable);
    const int dim = r->c->variant % 3;
    qn_shape shape = SHAPE(4, 9, 10);
    shape.dim[dim] = 3;
    return qn__slice_update(r->g, p, input(r, r->c->dtype, shape, WILD, 0), dim, 1, false);
}

static void moves(void **state)
{
    static const struct {
        const char *what;
        qn_op op;
        qn_node *(*build)(rig *r);
        bool in_part; /* some attributes have no kernel with BOOL or F64 */
    } rows[] = {{"where", QN_OP_where, build_where, false},
                {"masked_fill", QN_OP_masked_fill, build_masked_fill, false},
                {"full", QN_OP_full, build_full, false},
                {"gather", QN_OP_gather, build_gather, false},
                {"index_select", QN_OP_index_select, build_index_select, false},
                {"scatter", QN_OP_scatter, build_scatter, true},
                {"index_add", QN_OP_index_add, build_scatter, true},
                {"arange", QN_OP_arange, build_arange, true},
                {"matmul", QN_OP_matmul, build_matmul, true},
                {"strided_update", QN_OP_strided_update, build_strided, false},
                {"cat", QN_OP_strided_update, build_cat, false},
                {"empty", QN_OP_empty, build_empty, false},
                {"assign", QN_OP_assign, build_assign, false},
                {"slice_update", QN_OP_slice_update, build_slice_update, false}};
    (void)state;
    for (int a = 0; a < N_PLAIN; a++)
        for (int b = 0; b < N_PLAIN; b++)
            try(&(one_case){.what = "copy",
                            .build = build_copy,
                            .op = QN_OP_copy,
                            .dtype = plain[a],
                            .other = plain[b],
                            .view = "ctsf"[(a + b) % 4],
                            .variant = a});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int v = 0; v < N_PLAIN + 3; v++)
            try(&(one_case){.what = rows[i].what,
                            .build = rows[i].build,
                            .op = rows[i].op,
                            .dtype = v < N_PLAIN    ? plain[v]
                                     : v == N_PLAIN ? QN_DTYPE_F64
                                                    : QN_DTYPE_F32,
                            .other = v % 2 ? QN_DTYPE_I32 : QN_DTYPE_I64,
                            .view = "ctsf"[v % 4],
                            .variant = v,
                            .may_refuse = rows[i].in_part && v >= N_PLAIN - 1});
    assert_int_equal(n_wrong, 0);
}

/* ---- along lines ---- */

static const int64_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 300, 2048};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static qn_node *line_source(rig *r)
{
    const int64_t n = lengths[r->c->variant % N_LENGTHS];
    const fill f = r->c->variant / N_LENGTHS == 0 ? PLAIN : r->c->variant / N_LENGTHS == 1 ? SMALL : WILD;
    qn_node *x = input(r, r->c->dtype, r->c->view == 't' ? SHAPE(2, n, 3) : SHAPE(2, 3, n), f, 0);
    return viewed(r, x, r->c->view == 's' ? 'f' : r->c->view);
}

static qn_node *build_along(rig *r) { return qn__along(r->g, r->c->op, line_source(r), r->c->view == 'f' ? 1 : 2); }

static qn_node *build_sort(rig *r)
{
    qn_node *x = line_source(r);
    const int64_t n = lengths[r->c->variant % N_LENGTHS];
    const int64_t k = n < 4 ? n : r->c->variant % 2 ? 4 : n / 2;
    const qn_sort_attrs a = {.k = r->c->op == QN_OP_topk ? k : 0, .dim = 2, .descending = r->c->variant % 2};
    return qn__op(r->g, r->c->op, &a, &x, 1);
}

static qn_node *build_reduce(rig *r)
{
    static const uint32_t dims[] = {4, 1, 5, 6, 7};
    qn_node *x = line_source(r);
    const int64_t n = qn_layout_numel(&x->layout);
    const bool sums = r->c->op == QN_OP_sum || r->c->op == QN_OP_mean || r->c->op == QN_OP_var || r->c->op == QN_OP_std;
    const qn_reduce_attrs a = {.dims = n > 2048 && sums ? 4 : dims[r->c->variant % 5],
                               .keep = r->c->variant % 2,
                               .value = r->c->op == QN_OP_var || r->c->op == QN_OP_std ? r->c->variant % 2 : 0};
    return qn__op(r->g, r->c->op, &a, &x, 1);
}

static void lines(void **state)
{
    static const struct {
        qn_op op;
        qn_node *(*build)(rig *r);
        int n_dtypes;
    } rows[] = {{QN_OP_softmax, build_along, 3},       {QN_OP_topk, build_sort, N_PLAIN},
                {QN_OP_argsort, build_sort, N_PLAIN},  {QN_OP_sum, build_reduce, N_PLAIN},
                {QN_OP_mean, build_reduce, 3},         {QN_OP_amax, build_reduce, N_PLAIN},
                {QN_OP_amin, build_reduce, N_PLAIN},   {QN_OP_argmax, build_reduce, N_PLAIN},
                {QN_OP_argmin, build_reduce, N_PLAIN}, {QN_OP_any, build_reduce, N_PLAIN},
                {QN_OP_all, build_reduce, N_PLAIN},    {QN_OP_count_nonzero, build_reduce, N_PLAIN},
                {QN_OP_var, build_reduce, 3},          {QN_OP_std, build_reduce, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int d = 0; d < rows[i].n_dtypes; d++)
            for (int v = 0; v < (d == 0 ? 3 * N_LENGTHS : 4); v++) {
                const int variant = d == 0 ? v : 7 * v + d + (int)i;
                try(&(one_case){.what = qn__op_info(rows[i].op)->name,
                                .build = rows[i].build,
                                .op = rows[i].op,
                                .dtype = plain[d],
                                .view = "ctsf"[variant % 4],
                                .variant = variant});
            }
    for (int d = 3; d < N_PLAIN; d++) /* products of floats are in double */
        try(&(one_case){
            .what = "prod", .build = build_reduce, .op = QN_OP_prod, .dtype = plain[d], .view = 'c', .variant = d});
    assert_int_equal(n_wrong, 0);
}

/* ---- layers ---- */

static const qn_dtype stored[] = {
#define ROW(name) QN_DTYPE_##name,
    QN_GPU_FORMAT_ROWS(ROW)
#undef ROW
};

static bool is_weight(qn_dtype d)
{
    const qn_dtype_class c = qn_dtype_get(d)->class_;
    return d != QN_DTYPE_F64 && (c == QN_CLASS_real || c == QN_CLASS_block);
}

/* 1 to 300 elements; rows with gaps between them, and between groups of them. */
static qn_node *build_norm(rig *r)
{
    const int64_t n = lengths[r->c->variant % (N_LENGTHS - 1)] + 3;
    qn_node *src[] = {viewed(r, input(r, QN_DTYPE_F32, SHAPE(3, 4, n), r->c->variant > 20 ? WILD : PLAIN, 0),
                             r->c->view),
                      NULL, NULL};
    const qn_shape row = {1, {src[0]->layout.dim[2]}};
    const int n_src = 1 + r->c->variant % (r->c->op == QN_OP_layer_norm ? 3 : 2);
    if (r->c->variant % 2) src[0] = qn__narrow(r->g, src[0], 1, 1, 2);
    for (int i = 1; i < n_src; i++) src[i] = param(r, QN_DTYPE_F32, row, PLAIN, 0);
    const qn_norm_attrs rms = {.eps = 1e-5f};
    const qn_layer_norm_attrs layer = {1e-5};
    return qn__op(r->g, r->c->op, r->c->op == QN_OP_rms_norm ? (const void *)&rms : (const void *)&layer, src, n_src);
}

static qn_node *build_rope(rig *r)
{
    const int v = r->c->variant;
    const qn_rope_apply_attrs a = {.mode = v & 1 ? QN_ROPE_NEOX : QN_ROPE_NORM,
                                   .n_rot = v & 2 ? 16 : 10,
                                   .heads_first = v >> 2 & 1,
                                   .back = v >> 3 & 1};
    qn_node *x = viewed(r, input(r, QN_DTYPE_F32, SHAPE(5, 3, 19), PLAIN, 0), 'r');
    if (v & 16) x = qn__narrow(r->g, input(r, QN_DTYPE_F32, SHAPE(5, 4, 16), PLAIN, 0), 1, 1, 3);
    qn_node *src[] = {x, input(r, QN_DTYPE_F32, SHAPE(a.heads_first ? 3 : 5, a.n_rot), PLAIN, 0)};
    return qn__op(r->g, QN_OP_rope_apply, &a, src, 2);
}

static qn_node *build_get_rows(rig *r)
{
    qn_node *table = param(r, r->c->dtype, SHAPE(9, 512), PLAIN, 0);
    return qn__get_rows(r->g, table, input(r, r->c->other, SHAPE(13), IDS, 8));
}

static qn_node *build_set_rows(rig *r)
{
    qn_node *dst = param(r, r->c->dtype, SHAPE(9, 96), PLAIN, QN_NODE_mutable);
    qn_node *x = viewed(r,
                        input(r, QN_DTYPE_F32, SHAPE(13, 99),
                              r->c->variant == 1 ? WILD
                              : r->c->variant    ? SMALL
                                                 : PLAIN,
                              0),
                        'r');
    return qn__set_rows(r->g, dst, x, input(r, r->c->other, SHAPE(13), IDS, 8));
}

static qn_node *build_linear(rig *r)
{
    const int block = qn_dtype_get(r->c->dtype)->block_elems, v = r->c->variant;
    const int64_t k = block == 1 ? 300 : block * (block == 256 ? 2 : 5), m = v & 1 ? 37 : 16;
    qn_node *x = v & 2 ? viewed(r, input(r, QN_DTYPE_F32, SHAPE(3, k + 3), PLAIN, 0), 'r')
                       : input(r, QN_DTYPE_F32, SHAPE(2, 3, k), v & 4 ? WILD : PLAIN, 0);
    qn_node *w = param(r, r->c->dtype, SHAPE(m, k), PLAIN, 0);
    return qn__linear(r->g, x, w, v & 1 ? param(r, QN_DTYPE_F32, SHAPE(m), PLAIN, 0) : NULL);
}

static qn_node *build_experts(rig *r)
{
    const int block = qn_dtype_get(r->c->dtype)->block_elems, v = r->c->variant;
    const int64_t k = block == 1 ? 300 : block * (block == 256 ? 1 : 3), m = 19, e = 5, u = 2, n = 4;
    qn_node *x = input(r, QN_DTYPE_F32, v & 1 ? SHAPE(n, k) : SHAPE(n, u, k), PLAIN, 0);
    qn_node *w = param(r, r->c->dtype, SHAPE(e, m, k), PLAIN, 0);
    qn_node *ids = input(r, r->c->other, SHAPE(n, u), IDS, e - 1);
    return qn__linear_experts(r->g, x, w, ids, v & 2 ? param(r, QN_DTYPE_F32, SHAPE(e, m), PLAIN, 0) : NULL);
}

/* Two lists of which one has holes, spans that reach beyond them, three cells to a head; several tiles. */
static qn_node *build_attention(rig *r)
{
    enum { CELLS = 300, CAPACITY = 290, QUERIES = 4, HEADS = 4, KV = 2 };
    const int v = r->c->variant,
              block = qn_dtype_get(r->c->dtype)->block_elems * qn_dtype_get(r->c->other)->block_elems;
    const int64_t d = block > 1 ? 64 : v & 8 ? 300 : 40, dv = block > 1 ? 32 : v & 8 ? 260 : 24;
    const bool alibi = v & 1, capped = v & 2, sinks = v & 4;
    const qn_attn_attrs a = {.scale = 0.2f, .softcap = capped ? 3 : 0, .alibi = alibi ? 8 : 0};
    qn_attn_sources s = {.q = input(r, QN_DTYPE_F32, SHAPE(QUERIES, HEADS, d), PLAIN, 0),
                         .k = param(r, r->c->dtype, SHAPE(CELLS, KV, d), PLAIN, 0),
                         .v = param(r, r->c->other, SHAPE(CELLS, KV, dv), PLAIN, 0)};
    s.lists = input(r, QN_DTYPE_I32, SHAPE(alibi ? 4 : 2, CAPACITY), IDS, CELLS - 1);
    const int spans = r->n_inputs;
    s.spans = input(r, QN_DTYPE_I32, SHAPE(QUERIES, alibi ? 4 : 3), IDS, 1);
    s.sinks = sinks ? input(r, QN_DTYPE_F32, SHAPE(HEADS), PLAIN, 0) : NULL;
    static const int32_t some[QUERIES][4] = {{0, 0, 7, 40}, {1, 3, 290, 8}, {0, 131, 140, 2}, {1, -5, 999, 100}};
    int32_t *to = (int32_t *)(void *)r->input[spans];
    for (int i = 0; i < QUERIES; i++) memcpy(to + i * (alibi ? 4 : 3), some[i], alibi ? 16 : 12);
    if (v & 16) to[0] = 9; /* no such list */
    return qn__attention(r->g, &s, &a);
}

static void layers(void **state)
{
    (void)state;
    for (int v = 0; v < 30; v++) {
        try(&(one_case){"rms_norm", build_norm, QN_OP_rms_norm, QN_DTYPE_F32, 0, v % 3 ? 'r' : 'c', v, false});
        try(&(one_case){"layer_norm", build_norm, QN_OP_layer_norm, QN_DTYPE_F32, 0, v % 3 ? 'r' : 'c', v, false});
        try(&(one_case){"rope_apply", build_rope, QN_OP_rope_apply, QN_DTYPE_F32, 0, 'c', v, false});
    }
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        if (!is_weight(stored[i])) continue;
        const qn_dtype id = i % 2 ? QN_DTYPE_I32 : QN_DTYPE_I64;
        try(&(one_case){"get_rows", build_get_rows, QN_OP_get_rows, stored[i], QN_DTYPE_I32, 'c', (int)i, false});
        for (int v = 0; v < 3; v++)
            try(&(one_case){"linear", build_linear, QN_OP_linear, stored[i], 0, 'c', v + (int)i, false});
        for (int v = 0; v < 2; v++)
            try(&(one_case){"linear_experts", build_experts, QN_OP_linear_experts, stored[i], id, 'c', v + (int)i,
                            false});
    }
    static const qn_dtype caches[] = {QN_DTYPE_F32,  QN_DTYPE_F16,  QN_DTYPE_BF16, QN_DTYPE_Q8_0,  QN_DTYPE_Q4_0,
                                      QN_DTYPE_Q4_1, QN_DTYPE_Q5_0, QN_DTYPE_Q5_1, QN_DTYPE_IQ4_NL};
    for (int i = 0; i < 9; i++)
        for (int v = 0; v < 3; v++) {
            try(&(one_case){"attention", build_attention, QN_OP_attention, caches[i], caches[v ? i : (i + 4) % 9], 'c',
                            11 * v + 3 * i, false});
            try(&(one_case){"set_rows", build_set_rows, QN_OP_set_rows, caches[i], QN_DTYPE_I32, 'c', v, false});
        }
    assert_int_equal(n_wrong, 0);
}

/* ---- and nothing else ---- */

/* With every dtype of single elements that a row takes: what the cases above leave out is tried like the first of them.
 * Blocks are of products, caches and tables, whose cases have all of them. */
static void every_dtype(void **state)
{
    (void)state;
    for (int op = 0; op < QN_OP_COUNT; op++)
        for (int d = 0; d < QN_DTYPE_COUNT; d++) {
            one_case c = first_of[op];
            if (!c.build || tried[op][d] || qn_dtype_get((qn_dtype)d)->block_elems > 1) continue;
            c.dtype = (qn_dtype)d;
            c.view = 'c';
            c.may_refuse = true;
            try(&c);
        }
    assert_int_equal(n_wrong, 0);
}

static void every_row_was_tried(void **state)
{
    (void)state;
    for (int op = 0; op < QN_OP_COUNT && each == 1; op++) {
        int n = 0;
        for (int d = 0; d < QN_DTYPE_COUNT; d++) n += tried[op][d];
        if (qn__gpu_op((qn_op)op) && !n) fail_msg("%s has a row and no case", qn__op_info((qn_op)op)->name);
    }
    for (size_t i = 0; i < sizeof stored / sizeof *stored && each == 1; i++)
        if (is_weight(stored[i])) assert_true(tried[QN_OP_linear][stored[i]] && tried[QN_OP_get_rows][stored[i]]);
    print_message("%d cases\n", n_cases);
}

/* Products of few columns, and those of many, which multiply matrices by an instruction that the stand-in emulates. */
static void kernels_of_warps(void **state)
{
    (void)state;
    void *lib = backends[CUDA] && !real_cuda && each == 1
                    ? dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL)
                    : NULL;
    if (!lib) skip();
    int (*launched)(const char *name) = NULL;
    *(void **)(void *)&launched = dlsym(lib, "standin_launched");
    for (int k = 0; k < QN_GPU_KERNEL_COUNT; k++) {
        const char *name = qn__gpu_kernel_name(k);
        const bool own = strncmp(name, "rows_", 5) == 0 || strncmp(name, "tile_", 5) == 0;
        if (own && !launched(name)) fail_msg("%s was not launched", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointwise),
                                       cmocka_unit_test(numbers_beside_16_bits),
                                       cmocka_unit_test(moves),
                                       cmocka_unit_test(lines),
                                       cmocka_unit_test(layers),
                                       cmocka_unit_test(training),
                                       cmocka_unit_test(every_dtype),
                                       cmocka_unit_test(kernels_of_warps),
                                       cmocka_unit_test(every_row_was_tried)};
    return run_on_all_sides(tests, sizeof tests / sizeof *tests);
}
