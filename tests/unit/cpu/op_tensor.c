/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_tensor.c -- matmul, gather scatter index_select index_add, tri, empty strided_update (cat, stack,
 * repeat, roll), argsort topk, pad pad_index, conv conv_input conv_weight, pool pool_back, upsample upsample_back,
 * embedding_bag embedding_bag_back against PyTorch's figures (tests/oracle/tensor_index_conv.py), in F32, F64 and F16,
 * at every level, with 1, 2 and 3 threads to the same bits. */
#include "rig.h"

#include "unit/graph/builders.h"

/* ---- inputs from the formula of the oracle --------------------------------------------------- */

static tensor pool[64];
static int n_pool;
static qn_dtype real_dtype = QN_DTYPE_F32;

static void pool_clear(void)
{
    while (n_pool > 0) tensor_free(&pool[--n_pool]);
}

static int64_t number(int64_t i, int64_t seed) { return i * 7919 + seed * 104729 + i * i % 131 * 31; }

static tensor *pool_take(qn_dtype dtype, qn_shape shape)
{
    assert_true(n_pool < 64);
    pool[n_pool] = tensor_new(dtype, shape);
    return &pool[n_pool++];
}

static tensor *reals(qn_dtype dtype, int seed, qn_shape shape)
{
    tensor *t = pool_take(dtype, shape);
    for (int64_t i = 0; i < t->numel; i++) {
        const double x = (double)(number(i, seed) % 257) / 64 - 2;
        const float f = (float)x;
        if (dtype == QN_DTYPE_F64)
            ((double *)t->data)[i] = x;
        else
            OK(qn_pack(dtype, &f, (char *)t->data + i * qn_dtype_get(dtype)->block_bytes, 1, 1, NULL, err));
    }
    return t;
}

static tensor *wholes(qn_dtype dtype, int seed, int64_t lo, int64_t hi, qn_shape shape)
{
    tensor *t = pool_take(dtype, shape);
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t x = lo + number(i, seed) % (hi - lo);
        if (dtype == QN_DTYPE_I64)
            ((int64_t *)t->data)[i] = x;
        else
            ((int32_t *)t->data)[i] = (int32_t)x;
    }
    return t;
}

static tensor *listed(int n, const int64_t *values)
{
    tensor *t = pool_take(QN_DTYPE_I64, qn_shape_of(n));
    memcpy(t->data, values, (size_t)n * 8);
    return t;
}

#define S(...)                 qn_shape_of(__VA_ARGS__)
#define R(seed, ...)           rig_input(r, reals(real_dtype, seed, S(__VA_ARGS__)))
#define I(seed, lo, hi, ...)   rig_input(r, wholes(QN_DTYPE_I64, seed, lo, hi, S(__VA_ARGS__)))
#define I32(seed, lo, hi, ...) rig_input(r, wholes(QN_DTYPE_I32, seed, lo, hi, S(__VA_ARGS__)))
/* clang-format off */
#define L(...)                 rig_input(r, listed((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), \
    (int64_t[]){__VA_ARGS__}))
#define T(x, ...)              qn__permute(r->g, x, (int[]){__VA_ARGS__}, \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))
/* clang-format on */

/* ---- attributes of the cases ----------------------------------------------------------------- */

typedef qn_conv_attrs C;
typedef qn_pool_attrs P;
typedef qn_upsample_attrs U;
typedef qn_bag_attrs B;
#define CONV1  .stride = {2}, .padding = {1}, .dilation = {1}, .n_spatial = 1, .groups = 1
#define CONV2  .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .n_spatial = 2, .groups = 2
#define CONV2S .stride = {3, 3}, .padding = {1, 1}, .dilation = {1, 1}, .n_spatial = 2, .groups = 1
#define CONV2K .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .n_spatial = 2, .groups = 1
#define CONV3  .stride = {1, 2, 2}, .padding = {1, 0, 1}, .dilation = {1, 1, 1}, .n_spatial = 3, .groups = 1
#define CONVD  .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .n_spatial = 2, .groups = 3
#define MAX2 \
    .kind = QN_POOL_max, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .n_spatial = 2
#define MAX1 .kind = QN_POOL_max, .kernel = {3}, .stride = {2}, .dilation = {2}, .n_spatial = 1, .ceil_mode = 1
#define MAX3 .kind = QN_POOL_max, .kernel = {2, 2, 2}, .stride = {2, 2, 2}, .dilation = {1, 1, 1}, .n_spatial = 3
#define AVG2 \
    .kind = QN_POOL_avg, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .n_spatial = 2
#define AVG1 .kind = QN_POOL_avg, .kernel = {4}, .stride = {3}, .dilation = {1}, .n_spatial = 1
#define AVG3 \
    .kind = QN_POOL_avg, .kernel = {2, 1, 3}, .stride = {1, 2, 2}, .padding = {1, 0, 1}, .dilation = {1, 1, 1}, \
    .n_spatial = 3, .divisor = 5
#define ADAPT         .kind = QN_POOL_avg, .adaptive = 1, .n_spatial = 2
#define ADAPTMAX      .kind = QN_POOL_max, .adaptive = 1, .n_spatial = 1
#define PB(y, x, ...) qn__pool_back(r->g, y, x, &(P){__VA_ARGS__})
#define UP(x, ...)    qn__upsample(r->g, x, &(U){__VA_ARGS__})
#define UB(y, ...)    qn__upsample_back(r->g, y, &(U){__VA_ARGS__})
#define NEAR          .mode = QN_UPSAMPLE_nearest
#define LIN           .mode = QN_UPSAMPLE_linear
#define BAG(w, ...)   qn__embedding_bag(r->g, R(1, 6, 5), I(5, 0, 6, 11), L(0, 3, 3, 8), w, &(B){__VA_ARGS__})
#define BAGB(w, t, ...) \
    qn__embedding_bag_back(r->g, R(99, 4, 5), I(5, 0, 6, 11), L(0, 3, 3, 8), w, t, &(B){.n_rows = 6, __VA_ARGS__})

static qn_node *sorted_places(rig *r, qn_node *x, int dim, bool down) { return qn__argsort(r->g, x, dim, down); }

/* ---- the cases: CASE(name of the figures, node) ---------------------------------------------- */

/* clang-format off */
#define CASES(CASE) \
    CASE(matmul_2d, qn__matmul(r->g, R(1, 5, 7), R(2, 7, 19))) \
    CASE(matmul_nt, qn__matmul(r->g, R(1, 5, 7), T(R(2, 19, 7), 1, 0))) \
    CASE(matmul_tn, qn__matmul(r->g, T(R(1, 7, 5), 1, 0), R(2, 7, 19))) \
    CASE(matmul_batch, qn__matmul(r->g, R(1, 2, 1, 3, 4), R(2, 3, 4, 5))) \
    CASE(matmul_1d, qn__matmul(r->g, R(1, 6), R(2, 3, 6, 4))) \
    CASE(matmul_d1, qn__matmul(r->g, R(1, 3, 5, 6), R(2, 6))) \
    CASE(addmm, qn__addmm(r->g, R(3, 9), R(1, 4, 6), R(2, 6, 9), 0.5, -2)) \
    CASE(gather0, qn__gather(r->g, R(1, 5, 4, 3), 0, I(2, 0, 5, 2, 4, 3))) \
    CASE(gather1, qn__gather(r->g, R(1, 5, 4, 3), 1, I32(2, 0, 4, 5, 6, 2))) \
    CASE(gather2, qn__gather(r->g, R(1, 5, 4, 3), -1, I(2, 0, 3, 4, 4, 5))) \
    CASE(scatter_add1, qn__scatter(r->g, R(1, 3, 5, 4), 1, I(2, 0, 5, 3, 7, 4), R(3, 3, 7, 4), QN_COMBINE_add)) \
    CASE(scatter_add2, qn__scatter(r->g, R(1, 3, 5), 1, I(2, 0, 5, 2, 9), R(3, 3, 10), QN_COMBINE_add)) \
    CASE(scatter_max0, qn__scatter(r->g, R(1, 4, 3), 0, I32(2, 0, 4, 6, 3), R(3, 6, 3), QN_COMBINE_max)) \
    CASE(scatter_mul0, qn__scatter(r->g, R(1, 4, 3), 0, I(2, 0, 4, 6, 3), R(3, 6, 3), QN_COMBINE_mul)) \
    CASE(index_select0, qn__index_select(r->g, R(1, 5, 3), 0, I(2, 0, 5, 7))) \
    CASE(index_select1, qn__index_select(r->g, R(1, 2, 5, 3), 1, I32(2, 0, 5, 7))) \
    CASE(index_select2, qn__index_select(r->g, R(1, 2, 3, 5), 2, I(2, 0, 5, 7))) \
    CASE(index_add0, qn__index_add(r->g, R(1, 5, 3), 0, I(2, 0, 5, 7), R(3, 7, 3), QN_COMBINE_add)) \
    CASE(index_add1, qn__index_add(r->g, R(1, 2, 5), 1, I32(2, 0, 5, 7), R(3, 2, 7), QN_COMBINE_add)) \
    CASE(index_copy, qn__index_add(r->g, R(1, 5, 3), 0, L(3, 0, 4), R(3, 3, 3), QN_COMBINE_set)) \
    CASE(tril, qn__tri(r->g, R(1, 2, 4, 5), 1, false)) \
    CASE(triu, qn__tri(r->g, R(1, 5, 4), -1, true)) \
    CASE(diagonal, qn__copy(r->g, qn__diagonal(r->g, R(1, 3, 4, 5), 1, 0, 2), real_dtype)) \
    CASE(cat, cat_case(r)) \
    CASE(stack, qn__stack(r->g, ((qn_node *[]){R(1, 2, 3), R(2, 2, 3), R(3, 2, 3)}), 3, -1)) \
    CASE(repeat, qn__repeat(r->g, R(1, 2, 3), (int64_t[]){2, 3, 2}, 3)) \
    CASE(roll, qn__roll(r->g, R(1, 3, 7), -2, 1)) \
    CASE(sort, sorted_places(r, R(1, 3, 40), 1, false)) \
    CASE(sort_down, sorted_places(r, R(1, 30, 3), 0, true)) \
    CASE(pad, qn__pad(r->g, R(1, 2, 3, 4), (int64_t[]){0, -1, 1}, (int64_t[]){0, 1, 2}, 7)) \
    CASE(pad_reflect, pad_case(r, R(1, 1, 2, 4, 5), (int64_t[]){0, 0, 1, 2}, (int64_t[]){0, 0, 2, 3}, \
        QN_PAD_reflect)) \
    CASE(pad_replicate, pad_case(r, R(1, 1, 2, 3), (int64_t[]){0, 0, 2}, (int64_t[]){0, 0, 3}, \
        QN_PAD_replicate)) \
    CASE(pad_circular, pad_case(r, R(1, 1, 2, 3), (int64_t[]){0, 0, 2}, (int64_t[]){0, 0, 3}, QN_PAD_circular)) \
    CASE(conv1, qn__conv(r->g, R(1, 2, 3, 11), R(2, 4, 3, 4), R(3, 4), &(C){CONV1})) \
    CASE(conv1_d0, qn__conv_input(r->g, R(99, 2, 4, 5), R(2, 4, 3, 4), NULL, &(C){CONV1, .size = {11}})) \
    CASE(conv1_d1, qn__conv_weight(r->g, R(1, 2, 3, 11), R(99, 2, 4, 5), &(C){CONV1, .size = {4}})) \
    CASE(conv2, qn__conv(r->g, R(1, 2, 4, 7, 8), R(2, 6, 2, 3, 2), R(3, 6), &(C){CONV2})) \
    CASE(conv2_d0, qn__conv_input(r->g, R(99, 2, 6, 4, 10), R(2, 6, 2, 3, 2), NULL, &(C){CONV2, .size = {7, 8}})) \
    CASE(conv2_d1, qn__conv_weight(r->g, R(1, 2, 4, 7, 8), R(99, 2, 6, 4, 10), &(C){CONV2, .size = {3, 2}})) \
    CASE(conv2s, qn__conv(r->g, R(1, 1, 2, 10, 8), R(2, 3, 2, 2, 2), NULL, &(C){CONV2S})) \
    CASE(conv2s_d0, qn__conv_input(r->g, R(99, 1, 3, 4, 3), R(2, 3, 2, 2, 2), NULL, &(C){CONV2S, .size = {10, 8}})) \
    CASE(conv2s_d1, qn__conv_weight(r->g, R(1, 1, 2, 10, 8), R(99, 1, 3, 4, 3), &(C){CONV2S, .size = {2, 2}})) \
    CASE(conv2k, qn__conv(r->g, R(1, 2, 3, 6, 6), R(2, 5, 3, 3, 3), NULL, &(C){CONV2K})) \
    CASE(conv2k_d0, qn__conv_input(r->g, R(99, 2, 5, 6, 6), R(2, 5, 3, 3, 3), NULL, &(C){CONV2K, .size = {6, 6}})) \
    CASE(conv2k_d1, qn__conv_weight(r->g, R(1, 2, 3, 6, 6), R(99, 2, 5, 6, 6), &(C){CONV2K, .size = {3, 3}})) \
    CASE(conv3, qn__conv(r->g, R(1, 1, 2, 4, 5, 6), R(2, 3, 2, 2, 3, 2), NULL, &(C){CONV3})) \
    CASE(conv3_d0, qn__conv_input(r->g, R(99, 1, 3, 5, 2, 4), R(2, 3, 2, 2, 3, 2), NULL, &(C){CONV3, .size = {4, 5, \
        6}})) \
    CASE(conv3_d1, qn__conv_weight(r->g, R(1, 1, 2, 4, 5, 6), R(99, 1, 3, 5, 2, 4), &(C){CONV3, .size = {2, 3, 2}})) \
    CASE(convd, qn__conv(r->g, R(1, 1, 3, 5, 5), R(2, 3, 1, 3, 3), NULL, &(C){CONVD})) \
    CASE(convd_d0, qn__conv_input(r->g, R(99, 1, 3, 5, 5), R(2, 3, 1, 3, 3), NULL, &(C){CONVD, .size = {5, 5}})) \
    CASE(convd_d1, qn__conv_weight(r->g, R(1, 1, 3, 5, 5), R(99, 1, 3, 5, 5), &(C){CONVD, .size = {3, 3}})) \
    CASE(convt1, qn__conv_input(r->g, R(1, 2, 4, 5), R(2, 4, 3, 4), R(3, 3), &(C){.stride = {3}, .padding = {1}, \
        .dilation = {1}, \
                                .size = {16}, .n_spatial = 1, .groups = 1})) \
    CASE(convt2, qn__conv_input(r->g, R(1, 1, 4, 3, 4), R(2, 4, 2, 3, 2), R(3, 4), &(C){.stride = {2, 2}, \
        .padding = {1, 1}, \
                                .dilation = {2, 2}, .size = {7, 7}, .n_spatial = 2, .groups = 2})) \
    CASE(max2, qn__pool(r->g, R(1, 2, 2, 7, 8), &(P){MAX2})) \
    CASE(max2_d0, PB(R(99, 2, 2, 4, 4), R(1, 2, 2, 7, 8), MAX2, .size = {7, 8})) \
    CASE(max1, qn__pool(r->g, R(1, 2, 2, 12), &(P){MAX1})) \
    CASE(max1_d0, PB(R(99, 2, 2, 5), R(1, 2, 2, 12), MAX1, .size = {12})) \
    CASE(max3, qn__pool(r->g, R(1, 1, 2, 4, 5, 4), &(P){MAX3})) \
    CASE(max3_d0, PB(R(99, 1, 2, 2, 2, 2), R(1, 1, 2, 4, 5, 4), MAX3, .size = {4, 5, 4})) \
    CASE(max2_places, qn__pool(r->g, R(1, 2, 2, 7, 8), &(P){.kind = QN_POOL_argmax, .kernel = {3, 3}, .stride = {2, \
        2}, .padding = {1, 1}, \
                               .dilation = {1, 1}, .n_spatial = 2})) \
    CASE(avg2, qn__pool(r->g, R(1, 2, 2, 7, 8), &(P){AVG2, .count_include_pad = 1})) \
    CASE(avg2_d0, PB(R(99, 2, 2, 4, 4), NULL, AVG2, .count_include_pad = 1, .size = {7, 8})) \
    CASE(avg2n, qn__pool(r->g, R(1, 1, 2, 6, 8), &(P){AVG2, .ceil_mode = 1})) \
    CASE(avg2n_d0, PB(R(99, 1, 2, 4, 5), NULL, AVG2, .ceil_mode = 1, .size = {6, 8})) \
    CASE(avg2c, qn__pool(r->g, R(1, 1, 2, 6, 8), &(P){AVG2, .ceil_mode = 1, .count_include_pad = 1})) \
    CASE(avg2c_d0, PB(R(99, 1, 2, 4, 5), NULL, AVG2, .ceil_mode = 1, .count_include_pad = 1, .size = {6, 8})) \
    CASE(avg1, qn__pool(r->g, R(1, 2, 2, 11), &(P){AVG1, .count_include_pad = 1})) \
    CASE(avg1_d0, PB(R(99, 2, 2, 3), NULL, AVG1, .count_include_pad = 1, .size = {11})) \
    CASE(avg3, qn__pool(r->g, R(1, 1, 2, 3, 4, 5), &(P){AVG3})) \
    CASE(avg3_d0, PB(R(99, 1, 2, 4, 2, 3), NULL, AVG3, .size = {3, 4, 5})) \
    CASE(adaptive2, qn__pool(r->g, R(1, 2, 2, 7, 8), &(P){ADAPT, .size = {3, 5}})) \
    CASE(adaptive2_d0, PB(R(99, 2, 2, 3, 5), NULL, ADAPT, .size = {7, 8})) \
    CASE(adaptivemax, qn__pool(r->g, R(1, 2, 2, 11), &(P){ADAPTMAX, .size = {4}})) \
    CASE(adaptivemax_d0, PB(R(99, 2, 2, 4), R(1, 2, 2, 11), ADAPTMAX, .size = {11})) \
    CASE(near2, UP(R(1, 1, 2, 3, 4), NEAR, .size = {7, 5}, .n_spatial = 2)) \
    CASE(near2_d0, UB(R(99, 1, 2, 7, 5), NEAR, .size = {3, 4}, .n_spatial = 2)) \
    CASE(lin1, UP(R(1, 2, 2, 4), LIN, .size = {11}, .n_spatial = 1)) \
    CASE(lin1_d0, UB(R(99, 2, 2, 11), LIN, .size = {4}, .n_spatial = 1)) \
    CASE(bi, UP(R(1, 1, 2, 3, 5), LIN, .size = {7, 3}, .n_spatial = 2)) \
    CASE(bi_d0, UB(R(99, 1, 2, 7, 3), LIN, .size = {3, 5}, .n_spatial = 2)) \
    CASE(bia, UP(R(1, 1, 2, 3, 5), LIN, .size = {7, 9}, .n_spatial = 2, .align_corners = 1)) \
    CASE(bia_d0, UB(R(99, 1, 2, 7, 9), LIN, .size = {3, 5}, .n_spatial = 2, .align_corners = 1)) \
    CASE(bis, UP(R(1, 1, 2, 3, 5), LIN, .size = {5, 11}, .scale = {1.7, 2.3}, .n_spatial = 2)) \
    CASE(bis_d0, UB(R(99, 1, 2, 5, 11), LIN, .size = {3, 5}, .scale = {1.7, 2.3}, .n_spatial = 2)) \
    CASE(tri, UP(R(1, 1, 2, 2, 3, 4), LIN, .size = {4, 5, 3}, .n_spatial = 3)) \
    CASE(tri_d0, UB(R(99, 1, 2, 4, 5, 3), LIN, .size = {2, 3, 4}, .n_spatial = 3)) \
    CASE(bag_sum, BAG(NULL, .mode = QN_BAG_sum, .padding_idx = -1)) \
    CASE(bag_sum_d0, BAGB(NULL, NULL, .mode = QN_BAG_sum, .padding_idx = -1)) \
    CASE(bag_mean, BAG(NULL, .mode = QN_BAG_mean, .padding_idx = 2)) \
    CASE(bag_mean_d0, BAGB(NULL, NULL, .mode = QN_BAG_mean, .padding_idx = 2)) \
    CASE(bag_max, BAG(NULL, .mode = QN_BAG_max, .padding_idx = -1)) \
    CASE(bag_max_d0, BAGB(NULL, R(1, 6, 5), .mode = QN_BAG_max, .padding_idx = -1)) \
    CASE(bag_weighted, BAG(R(7, 11), .mode = QN_BAG_sum, .padding_idx = -1)) \
    CASE(bag_weighted_d0, BAGB(R(7, 11), NULL, .mode = QN_BAG_sum, .padding_idx = -1))
/* clang-format on */

static qn_node *cat_case(rig *r)
{
    qn_node *x = R(1, 2, 3);
    qn_node *y = qn__cat(r->g, (qn_node *[]){x, R(2, 2, 1), R(3, 2, 4), x}, 4, 1);
    const qn_node *first = y; /* the parts go, one by one, into memory that nothing has written */
    while (first->op == QN_OP_strided_update) first = first->src[0];
    assert_int_equal(first->op, QN_OP_empty);
    return y;
}

static qn_node *pad_case(rig *r, qn_node *x, const int64_t *before, const int64_t *after, qn_pad_mode mode)
{
    qn_node *y = qn__pad_like(r->g, x, before, after, mode);
    assert_int_equal(y->op, QN_OP_index_select);
    assert_int_equal(y->src[1]->op, QN_OP_pad_index);
    return y;
}

#define CASE(name, node) \
    static qn_node *build_##name(rig *r, void *ctx) \
    { \
        (void)ctx; \
        pool_clear(); \
        return node; \
    }
CASES(CASE)
#undef CASE

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct figures {
    const char *name;
    int64_t n;
    const double *value;
} figures;
#define FIGURES(name, n, ...) \
    static const double figures_##name[] = {__VA_ARGS__}; \
    enum { n_##name = n };
#include "op_tensor_figures.inc"
#undef FIGURES

static void check(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const figures *f = ctx;
    (void)r;
    const bool places = bytes == (size_t)f->n * 8 && real_dtype != QN_DTYPE_F64;
    const qn_dtype dtype = places ? QN_DTYPE_I64 : real_dtype;
    const int64_t each = qn_dtype_get(dtype)->block_bytes;
    if (bytes != (size_t)(f->n * each))
        fail_msg("%s: %zu bytes, %lld expected", f->name, bytes, (long long)(f->n * each));
    for (int64_t i = 0; i < f->n; i++) {
        double have, tolerance = 0;
        const char *p = (const char *)result + i * each;
        float one = 0;
        const bool whole = strncmp(f->name, "sort", 4) == 0 || strcmp(f->name, "max2_places") == 0;
        if (whole) {
            int64_t place;
            memcpy(&place, p, 8);
            have = (double)place;
        } else if (dtype == QN_DTYPE_F64) {
            memcpy(&have, p, 8);
            tolerance = 1e-10 * (1 + fabs(f->value[i]));
        } else {
            OK(qn_unpack(dtype, p, &one, 1, err));
            have = one;
            tolerance = (dtype == QN_DTYPE_F32 ? 3e-6 : 2e-3) * (1 + fabs(f->value[i]));
        }
        close_to(have, f->value[i], tolerance, f->name, i);
    }
}

static void run_all(qn_dtype dtype)
{
    real_dtype = dtype;
#define CASE(name, node) \
    do { \
        figures f = {#name, n_##name, figures_##name}; \
        for_levels(build_##name, &f, check); \
    } while (0);
    CASES(CASE)
#undef CASE
    pool_clear();
}

static void test_f32(void **state)
{
    (void)state;
    run_all(QN_DTYPE_F32);
}
static void test_f64(void **state)
{
    (void)state;
    run_all(QN_DTYPE_F64);
}
static void test_f16(void **state)
{
    (void)state;
    run_all(QN_DTYPE_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64),
                                       cmocka_unit_test(test_f16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
