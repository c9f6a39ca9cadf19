/* SPDX-License-Identifier: MIT */
/* bench/tensors.c -- tensor operations of every kind, forward, and forward with gradients, in microseconds, as programs
 * run them: recorded, compiled once, run. bench/tensors.py times the same rows in PyTorch; bench/layers.c has what
 * language models are made of.
 *
 *     bench_tensors [THREADS [PART]]     the best of 30 each; only rows whose name contains PART */
#include "base/thread.h"

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/ops.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32                  QN_DTYPE_F32
#define I64                  QN_DTYPE_I64
#define RANDN(...)           qn_randn(c, qn_shape_of(__VA_ARGS__), F32)
#define BELOW(n, ...)        qn_randint(c, 0, n, qn_shape_of(__VA_ARGS__), I64)
/* clang-format off */
#define POOL(...) &(qn_pool_options){__VA_ARGS__}
#define CONV(...) &(qn_conv_options){__VA_ARGS__}
#define SDPA(...) &(qn_sdpa_options){__VA_ARGS__}
/* clang-format on */

/* Leaves that take a gradient: name, what it is. */
/* clang-format off */
#define LEAVES(LEAF) \
    LEAF(a, RANDN(1024, 1024)) LEAF(b, RANDN(1024, 1024)) LEAF(row, RANDN(1024)) LEAF(col, RANDN(1024, 1)) \
    LEAF(cube, RANDN(64, 128, 128)) \
    LEAF(pos, qn_uniform(c, qn_shape_of(1024, 1024), 0.1, 4, F32)) LEAF(small, RANDN(64, 64)) \
    LEAF(heads, RANDN(8, 256, 8, 64)) \
    LEAF(wide, RANDN(64, 16384)) LEAF(image, RANDN(8, 64, 56, 56)) LEAF(w3, RANDN(64, 64, 3, 3)) \
    LEAF(w1, RANDN(128, 64, 1, 1)) \
    LEAF(wd, RANDN(64, 1, 3, 3)) LEAF(wt, RANDN(64, 32, 4, 4)) LEAF(photo, RANDN(8, 3, 112, 112)) \
    LEAF(wp, RANDN(32, 3, 7, 7)) \
    LEAF(signal, RANDN(8, 128, 1024)) LEAF(ws, RANDN(128, 128, 5)) LEAF(video, RANDN(2, 16, 16, 32, 32)) \
    LEAF(wv, RANDN(32, 16, 3, 3, 3)) \
    LEAF(channel, RANDN(64)) LEAF(q, RANDN(4, 8, 256, 64)) LEAF(k, RANDN(4, 8, 256, 64)) LEAF(v, RANDN(4, 8, 256, 64))
/* clang-format on */
/* And those that don't. */
/* clang-format off */
#define FIXED(LEAF) \
    LEAF(places, BELOW(1024, 1024, 1024)) LEAF(rows, BELOW(1024, 4096)) LEAF(ints, BELOW(1000, 1024, 1024)) \
    LEAF(mask, qn_gt_number(a, 0)) \
    LEAF(half, qn_to(a, QN_DTYPE_BF16)) LEAF(src, RANDN(4096, 1024))
/* clang-format on */
#define DECLARE(name, value) static qn_tensor *name;
static qn_context *c;
LEAVES(DECLARE)
FIXED(DECLARE)

/* Name, are there gradients, what is run. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(add, 1, qn_add(a, b)) ROW(add_row, 1, qn_add(a, row)) ROW(mul_column, 1, qn_mul(a, col)) \
    ROW(add_number, 1, qn_add_number(a, 2.5)) \
    ROW(add_transposed, 1, qn_add(a, qn_transpose(b, 0, 1))) ROW(div, 1, qn_div(a, pos)) \
    ROW(add_bf16, 0, qn_add(half, half)) \
    ROW(add_ints, 0, qn_add(ints, places)) ROW(lt, 0, qn_lt(a, b)) ROW(where, 1, qn_where(mask, a, b)) \
    ROW(masked_fill, 1, qn_masked_fill(a, mask, 0.5)) ROW(clamp, 1, qn_clamp(a, -1, 1)) \
    ROW(maximum, 1, qn_maximum(a, b)) \
    ROW(addcmul, 1, qn_addcmul(a, b, pos, 0.5)) ROW(lerp, 1, qn_lerp_number(a, b, 0.3)) \
    ROW(relu, 1, qn_relu(a)) ROW(leaky_relu, 1, qn_leaky_relu(a, 0.1)) ROW(elu, 1, qn_elu(a, 1)) \
    ROW(softplus, 1, qn_softplus(a, 1, 20)) \
    ROW(exp, 1, qn_exp(a)) ROW(log, 1, qn_log(pos)) ROW(sqrt, 1, qn_sqrt(pos)) ROW(rsqrt, 1, qn_rsqrt(pos)) \
    ROW(sigmoid, 1, qn_sigmoid(a)) ROW(tanh, 1, qn_tanh(a)) ROW(erf, 1, qn_erf(a)) ROW(sin, 1, qn_sin(a)) \
    ROW(cos, 1, qn_cos(a)) \
    ROW(tan, 1, qn_tan(a)) ROW(atan, 1, qn_atan(a)) ROW(sinh, 1, qn_sinh(a)) ROW(expm1, 1, qn_expm1(a)) \
    ROW(log1p, 1, qn_log1p(pos)) \
    ROW(log2, 1, qn_log2(pos)) ROW(pow, 1, qn_pow(pos, b)) ROW(pow_number, 1, qn_pow_number(pos, 2.5)) \
    ROW(square, 1, qn_square(a)) \
    ROW(pow_3, 1, qn_pow_number(a, 3)) ROW(floor, 0, qn_floor(a)) ROW(round, 0, qn_round(a)) ROW(abs, 1, qn_abs(a)) \
    ROW(atan2, 1, qn_atan2(a, b)) ROW(remainder, 0, qn_remainder_number(a, 0.7)) \
    ROW(to_bf16, 0, qn_to(a, QN_DTYPE_BF16)) \
    ROW(to_f32, 0, qn_to(half, F32)) ROW(ints_to_f32, 0, qn_to(ints, F32)) ROW(to_f64, 0, qn_to(a, QN_DTYPE_F64)) \
    ROW(sum_all, 1, qn_sum(a, QN_ALL, false)) ROW(sum_columns, 1, qn_sum(a, QN_DIMS(0), false)) \
    ROW(sum_rows, 1, qn_sum(a, QN_DIMS(1), false)) \
    ROW(sum_middle, 1, qn_sum(cube, QN_DIMS(1), false)) ROW(mean_rows, 1, qn_mean(a, QN_DIMS(1), false)) \
    ROW(var_rows, 1, qn_var(a, QN_DIMS(1), 1, false)) ROW(var_columns, 1, qn_var(a, QN_DIMS(0), 1, false)) \
    ROW(sum_ints, 0, qn_sum(ints, QN_ALL, false)) \
    ROW(prod_rows, 1, qn_prod(pos, QN_DIMS(1), false)) ROW(norm_all, 1, qn_norm(a, 2, QN_ALL, false)) \
    ROW(norm_rows, 1, qn_norm(a, 2, QN_DIMS(1), false)) \
    ROW(logsumexp, 1, qn_logsumexp(a, QN_DIMS(1), false)) \
    ROW(logsumexp_columns, 1, qn_logsumexp(a, QN_DIMS(0), false)) \
    ROW(amax_rows, 1, qn_amax(a, QN_DIMS(1), false)) ROW(amax_columns, 1, qn_amax(a, QN_DIMS(0), false)) \
    ROW(max_rows, 1, qn_max(a, 1, false, NULL)) \
    ROW(argmax_rows, 0, qn_argmax(a, 1, false)) ROW(argmax_columns, 0, qn_argmax(a, 0, false)) \
    ROW(argmax_all, 0, qn_argmax(a, QN_FLAT, false)) \
    ROW(any_rows, 0, qn_any(mask, QN_DIMS(1), false)) ROW(count_nonzero, 0, qn_count_nonzero(mask, QN_ALL, false)) \
    ROW(softmax_rows, 1, qn_softmax(a, 1)) ROW(softmax_columns, 1, qn_softmax(a, 0)) \
    ROW(softmax_middle, 1, qn_softmax(cube, 1)) \
    ROW(log_softmax, 1, qn_log_softmax(a, 1)) ROW(log_softmax_middle, 1, qn_log_softmax(cube, 1)) \
    ROW(softmax_wide, 1, qn_softmax(wide, 1)) \
    ROW(cumsum_rows, 1, qn_cumsum(a, 1)) ROW(cumsum_columns, 1, qn_cumsum(a, 0)) \
    ROW(cumprod_rows, 1, qn_cumprod(pos, 1)) \
    ROW(sort_rows, 1, qn_sort(a, 1, false, NULL)) ROW(sort_columns, 1, qn_sort(a, 0, false, NULL)) \
    ROW(argsort_ints, 0, qn_argsort(ints, 1, false)) \
    ROW(topk_8, 1, qn_topk(a, 8, 1, true, NULL)) ROW(topk_40_wide, 1, qn_topk(wide, 40, 1, true, NULL)) \
    ROW(contiguous_transposed, 1, qn_contiguous(qn_transpose(a, 0, 1))) \
    ROW(contiguous_heads, 1, qn_contiguous(qn_transpose(heads, 1, 2))) \
    ROW(clone, 1, qn_clone(a)) ROW(cat_rows, 1, qn_cat((qn_tensor *[]){a, b}, 2, 0)) \
    ROW(cat_columns, 1, qn_cat((qn_tensor *[]){a, b}, 2, 1)) \
    ROW(stack_last, 1, qn_stack((qn_tensor *[]){a, b}, 2, -1)) ROW(flip, 1, qn_flip(a, QN_DIMS(1))) \
    ROW(roll, 1, qn_roll(a, 3, 1)) \
    ROW(tril, 1, qn_tril(a, 0)) ROW(repeat, 1, qn_repeat(small, qn_shape_of(16, 16))) \
    ROW(pad_reflect, 1, qn_pad(image, (int64_t[]){1, 1, 1, 1}, 4, "reflect", 0)) \
    ROW(pad_zeros, 1, qn_pad(image, (int64_t[]){1, 1, 1, 1}, 4, NULL, 0)) \
    ROW(slice_step, 1, qn_contiguous(qn_slice(a, 1, 0, 1024, 2))) \
    ROW(gather_rows, 1, qn_gather(a, 1, places)) ROW(gather_columns, 1, qn_gather(a, 0, places)) \
    ROW(scatter, 1, qn_scatter(a, 1, places, b)) \
    ROW(scatter_add, 1, qn_scatter_add(a, 1, places, b)) ROW(scatter_add_columns, 1, qn_scatter_add(a, 0, places, b)) \
    ROW(index_select_rows, 1, qn_index_select(a, 0, rows)) ROW(index_select_columns, 1, qn_index_select(a, 1, rows)) \
    ROW(index_add, 1, qn_index_add(a, 0, rows, src, 1)) \
    ROW(index_put, 1, qn_index_put(a, (qn_tensor *[]){rows}, 1, src, true)) \
    ROW(embedding, 1, qn_embedding(a, rows)) \
    ROW(embedding_bag, 1, qn_embedding_bag(a, qn_reshape(rows, qn_shape_of(256, 16)), NULL)) \
    ROW(matmul, 1, qn_matmul(a, b)) ROW(matmul_transposed, 1, qn_matmul(qn_transpose(a, 0, 1), b)) \
    ROW(bmm, 1, qn_bmm(cube, qn_transpose(cube, 1, 2))) \
    ROW(matvec, 1, qn_matmul(a, row)) ROW(addmm, 1, qn_addmm(row, a, b, 1, 1)) ROW(linear, 1, qn_linear(a, b, row)) \
    ROW(layer_norm, 1, qn_layer_norm(a, 1, row, row, 1e-5)) \
    ROW(group_norm, 1, qn_group_norm(image, 8, channel, channel, 1e-5)) \
    ROW(conv2d_3x3, 1, qn_conv2d(image, w3, channel, CONV(.padding = {1, 1}))) \
    ROW(conv2d_1x1, 1, qn_conv2d(image, w1, NULL, NULL)) \
    ROW(conv2d_depthwise, 1, qn_conv2d(image, wd, NULL, CONV(.padding = {1, 1}, .groups = 64))) \
    ROW(conv2d_7x7_by_2, 1, qn_conv2d(photo, wp, NULL, CONV(.padding = {3, 3}, .stride = {2, 2}))) \
    ROW(conv_transpose2d, 1, qn_conv_transpose2d(image, wt, NULL, CONV(.stride = {2, 2}, .padding = {1, 1}))) \
    ROW(conv1d, 1, qn_conv1d(signal, ws, NULL, CONV(.padding = {2}))) \
    ROW(conv3d, 1, qn_conv3d(video, wv, NULL, CONV(.padding = {1, 1, 1}))) \
    ROW(max_pool2d, 1, qn_max_pool2d(image, POOL(.kernel = {2, 2}))) \
    ROW(max_pool2d_3, 1, qn_max_pool2d(image, POOL(.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}))) \
    ROW(avg_pool2d, 1, qn_avg_pool2d(image, POOL(.kernel = {2, 2}))) \
    ROW(max_pool1d, 1, qn_max_pool1d(signal, POOL(.kernel = {2}))) \
    ROW(avg_pool3d, 1, qn_avg_pool3d(video, POOL(.kernel = {2, 2, 2}))) \
    ROW(adaptive_avg_pool, 1, qn_adaptive_avg_pool(image, qn_shape_of(7, 7))) \
    ROW(upsample_nearest, 1, qn_interpolate(image, qn_shape_of(112, 112), NULL, false)) \
    ROW(upsample_bilinear, 1, qn_interpolate(image, qn_shape_of(112, 112), "bilinear", false)) \
    ROW(sdpa, 1, qn_scaled_dot_product_attention(q, k, v, NULL)) \
    ROW(sdpa_causal, 1, qn_scaled_dot_product_attention(q, k, v, SDPA(.is_causal = true))) \
    ROW(bce_with_logits, 1, qn_binary_cross_entropy_with_logits(a, b, NULL, NULL, QN_REDUCTION_MEAN)) \
    ROW(smooth_l1, 1, qn_smooth_l1_loss(a, b, 1, QN_REDUCTION_MEAN)) \
    ROW(kl_div, 1, qn_kl_div(a, pos, false, QN_REDUCTION_SUM)) \
    ROW(rand, 0, qn_rand(c, qn_shape_of(1024, 1024), F32)) ROW(randn, 0, RANDN(1024, 1024)) \
    ROW(randint, 0, BELOW(1000, 1024, 1024)) \
    ROW(dropout, 1, qn_dropout(a, 0.1, true)) ROW(zeros, 0, qn_zeros(c, qn_shape_of(1024, 1024), F32)) \
    ROW(ones, 0, qn_ones(c, qn_shape_of(1024, 1024), F32)) \
    ROW(arange, 0, qn_arange(c, 0, 1 << 20, 1, F32)) ROW(small_add, 1, qn_add(small, small))
/* clang-format on */

#define RUN(name, back, y) \
    static qn_tensor *run_##name(void) { return y; }
ROWS(RUN)
/* clang-format off */
#define ENTRY(name, back, y) {#name, back, run_##name},
/* clang-format on */
static const struct {
    const char *name;
    bool back;
    qn_tensor *(*run)(void);
} table[] = {ROWS(ENTRY)};

static void check(bool good)
{
    if (good) return;
    fprintf(stderr, "bench_tensors: %s\n", qn_context_error(c)->text);
    exit(1);
}

static void clear(void)
{
#define CLEAR(name, value) qn_zero_grad(name);
    LEAVES(CLEAR)
}

static double measure(qn_tensor *(*run)(void), qn_tensor *dy)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 30; i++) {
        const int64_t begin = qn__now_ns();
        check(qn_scope_begin(c) == QN_OK);
        const bool was = qn_set_grad_enabled(c, dy != NULL);
        qn_tensor *y = run();
        if (dy) check(y != NULL && qn_backward_with(y, dy, false) == QN_OK);
        if (dy) qn_release(y);
        check(qn_eval_all(c) == QN_OK);
        (void)qn_set_grad_enabled(c, was);
        (void)qn_scope_end(c, NULL);
        const int64_t spent = qn__now_ns() - begin;
        if (spent < best) best = spent;
        clear();
    }
    return (double)best * 1e-3;
}

int main(int argc, char **argv)
{
    qn_error err = {0};
    const qn_context_options options = {.n_threads = argc > 1 ? atoi(argv[1]) : 0};
    if (qn_context_create(&options, &c, &err) != QN_OK) {
        fprintf(stderr, "bench_tensors: %s\n", err.text);
        return 1;
    }
#define MAKE(name, value)      name = qn_keep(value);
#define MAKE_LEAF(name, value) name = qn_keep(qn_requires_grad_(value, true));
    LEAVES(MAKE_LEAF)
    const bool was = qn_set_grad_enabled(c, false);
    FIXED(MAKE)
    (void)qn_set_grad_enabled(c, was);
    check(qn_eval_all(c) == QN_OK);
    printf("%-22s %10s %10s\n", "us", "forward", "both");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (argc > 2 && !strstr(table[i].name, argv[2])) continue;
        qn_tensor *y = table[i].run(), *dy = y && table[i].back ? qn_keep(qn_randn(c, qn_shape_get(y), F32)) : NULL;
        check(y != NULL && qn_eval_all(c) == QN_OK);
        qn_release(y);
        printf("%-22s %10.0f", table[i].name, measure(table[i].run, NULL));
        if (dy) printf(" %10.0f", measure(table[i].run, dy));
        printf("\n");
        qn_release(dy);
    }
    qn_context_destroy(c);
    return 0;
}
