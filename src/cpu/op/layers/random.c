/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/random.c -- random numbers from Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", 2011): a counter gives four words, so every element is computed independently.
 *
 * The key is the seed, the counter (offset + block, stream, 0). A block makes four elements of up to 32 bits from
 * one word each, or two of 64 bits from two words each. Normal numbers are made in pairs (Box and Muller), from
 * words 0, 1 and 2, 3. An item is RUN elements. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

#include <math.h>

enum { RUN = 1024 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "the result", node, err) &&
           qn__want_dtype(node, "state", node->src[0], QN_DTYPE_I64, err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 2;
    return (qn_layout_numel(&node->layout) + RUN - 1) / RUN;
}

enum { BATCH = 32 }; /* blocks at a time: the compiler makes vectors of them */

/* The words of blocks `block` to block + n - 1, block after block. */
static void philox(uint32_t *words, uint64_t block, int64_t n, uint32_t stream, uint64_t seed)
{
    for (int64_t at = 0; at < n; at += BATCH) {
        uint32_t c[4][BATCH], k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int i = 0; i < BATCH; i++) {
            const uint64_t own = block + (uint64_t)(at + i);
            c[0][i] = (uint32_t)own;
            c[1][i] = (uint32_t)(own >> 32);
            c[2][i] = stream;
            c[3][i] = 0;
        }
        for (int round = 0; round < 10; round++) {
            for (int i = 0; i < BATCH; i++) {
                const uint64_t p0 = UINT64_C(0xd2511f53) * c[0][i], p1 = UINT64_C(0xcd9e8d57) * c[2][i];
                c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
                c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
                c[1][i] = (uint32_t)p1;
                c[3][i] = (uint32_t)p0;
            }
            k0 += 0x9e3779b9; /* the golden ratio */
            k1 += 0xbb67ae85; /* the square root of 3, less 1 */
        }
        for (int64_t i = 0; i < BATCH && at + i < n; i++)
            for (int k = 0; k < 4; k++) words[4 * (at + i) + k] = c[k][i];
    }
}

/* Element i: a word as it is, or two to an element. */
static uint64_t word64(const uint32_t *w, int64_t i) { return (uint64_t)w[2 * i + 1] << 32 | w[2 * i]; }
static double unit24(uint32_t w) { return (double)(w >> 8) * 0x1p-24; }
static double unit53(uint64_t w) { return (double)(w >> 11) * 0x1p-53; }

/* The elements of n words as doubles, or of 2 n, which make n wide ones. n is even. */
static void reals(const qn_random_attrs *a, const uint32_t *w, bool wide, double *x, int64_t n)
{
    for (int64_t i = 0; i < n && wide; i++) x[i] = unit53(word64(w, i));
    for (int64_t i = 0; i < n && !wide; i++) x[i] = (double)(int32_t)(w[i] >> 8) * 0x1p-24;
    if (a->kind == QN_RANDOM_uniform) {
        const double from = a->a, size = a->b - a->a, end = a->b > from ? a->b : INFINITY, last = nextafter(a->b, from);
        for (int64_t i = 0; i < n; i++) {
            const double v = from + size * x[i];
            x[i] = v < end ? v : last; /* rounding must not reach the open end */
        }
    } else if (a->kind == QN_RANDOM_bernoulli) {
        const double chance = a->a, value = a->b;
        for (int64_t i = 0; i < n; i++) x[i] = x[i] < chance ? value : 0;
    } else {
        for (int64_t i = 0; i < n; i += 2) {
            const double tiny = wide ? 0x1p-53 : 0x1p-24;
            /* (0, 1] has a logarithm */
            const double r = sqrt(-2 * log(x[i] + tiny)), angle = 6.283185307179586477 * x[i + 1];
            x[i] = a->a + a->b * (r * cos(angle));
            x[i + 1] = a->a + a->b * (r * sin(angle));
        }
    }
}

/* A number below `span` from 64 bits: the high half of their product; each chance is off by less than 2^-11 of
 * itself. */
static int64_t below(uint64_t word, uint64_t span)
{
    return (int64_t)(uint64_t)(((unsigned __int128)word * span) >> 64);
}

static void ints(const qn_random_attrs *a, const uint32_t *w, bool wide, int64_t *x, int64_t n)
{
    const uint64_t span = (uint64_t)((int64_t)a->b - (int64_t)a->a);
    for (int64_t i = 0; i < n; i++) {
        if (a->kind == QN_RANDOM_bits)
            x[i] = wide ? (int64_t)word64(w, i) : (int64_t)w[i];
        else if (a->kind == QN_RANDOM_bernoulli)
            x[i] = (wide ? unit53(word64(w, i)) : unit24(w[i])) < a->a ? (int64_t)a->b : 0;
        else
            x[i] = (int64_t)a->a + below(wide ? word64(w, i) : (uint64_t)w[i] << 32, span);
    }
}

/* Narrowing may round up to b: then the result is a. */
static void store_f32(const qn_random_attrs *a, float *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
    if (a->kind != QN_RANDOM_uniform || a->a >= a->b) return;
    const float least = (float)a->a;
    for (int64_t i = 0; i < n; i++) y[i] = (double)y[i] >= a->b ? least : y[i];
}

static void store(const qn_task *t, int64_t at, const double *x, const int64_t *whole, int64_t n)
{
    const qn_dtype d = t->dst.dtype;
    uint8_t *y = qn__elem_at(&t->dst, at);
    if (whole && qn_dtype_get(d)->class_ != QN_CLASS_real) {
        qn__typed(d)->narrow(y, whole, n);
        return;
    }
    if (!whole && d == QN_DTYPE_F32) {
        store_f32(t->attrs, (float *)(void *)y, x, n);
        return;
    }
    const int64_t bytes = qn__elem_bytes(d);
    const qn_random_attrs *a = t->attrs;
    for (int64_t i = 0; i < n; i++) qn__typed(d)->put(y + i * bytes, whole ? (double)whole[i] : x[i]);
    if (a->kind != QN_RANDOM_uniform || d == QN_DTYPE_F64 || a->a >= a->b) return;
    for (int64_t i = 0; i < n; i++) { /* narrowing may round up to b: then the result is a */
        float f;
        qn__row_load(t->kernels, d, y + i * bytes, 1, 0, 1, &f);
        if ((double)f >= a->b) qn__typed(d)->put(y + i * bytes, a->a);
    }
}

static void run(const qn_task *t)
{
    const qn_random_attrs *a = t->attrs;
    const int64_t total = qn_layout_numel(&t->dst.layout), step = t->src[0].layout.stride[0];
    const uint64_t seed = (uint64_t)qn__index_at(&t->src[0], 0), offset = (uint64_t)qn__index_at(&t->src[0], step);
    const qn_dtype_class class = qn_dtype_get(t->dst.dtype)->class_;
    const bool wide = qn__elem_bytes(t->dst.dtype) == 8;
    const bool as_ints = class != QN_CLASS_real || a->kind == QN_RANDOM_integer;
    const int64_t each = wide ? 2 : 4;

    for (int64_t item = t->begin; item < t->end; item++) {
        uint32_t words[2 * RUN];
        double x[RUN];
        int64_t whole[RUN];
        const int64_t at = item * RUN, n = total - at < RUN ? total - at : RUN, blocks = (n + each - 1) / each;
        philox(words, offset + (uint64_t)(at / each), blocks, (uint32_t)a->stream, seed);
        if (as_ints)
            ints(a, words, wide, whole, n);
        else
            reals(a, words, wide, x, blocks * each);
        store(t, at, x, as_ints ? whole : NULL, n);
    }
}

const qn_cpu_op qn__cpu_op_random = {QN_OP_random, accepts, NULL, 1, items, run};
