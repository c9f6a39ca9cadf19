/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv.h -- products with one column or a few (decoding), written once; they read weights as they lie
 * in the file, ROWS rows at a time. On AVX-512, one column reads weights about as fast as memory delivers them; four
 * columns at 80 to 95 % of that, eight at 55 to 85 % (Q2_K and Q3_K, which need the most arithmetic per byte: a half
 * and a third).
 *
 * Layout: a register holds four consecutive weights of ROWS rows; byte k % 4 of row r stands in lane r. Integer
 * sums, scales and the float chain of act.h are then computed with one row per lane, and nothing is ever summed
 * across lanes. 16 bytes of each row are read with 128-bit loads and transposed with two shuffles a register. The
 * sums of weights (for the columns' zero points) would cost as much as the products, so bytes are added first as
 * long as they stay below 256.
 *
 * A level's gemv.h defines FN(name), ROWS, how many columns its kernels take beside those for one (GEMV_KERNELS, in
 * rising order, the last GEMV_COLS_MAX; GEMV_COLS at a time where more are left than that), from how many on a panel
 * is faster (GEMV_PANEL_FROM, _EXACT for Q2_K and Q3_K, _32 for blocks of 32), DOT_MAX (the greatest byte whose
 * products w_dot_8 adds exactly), and over its registers `words` and `reals` the functions w_... and r_... that the
 * files kernel/gemv_*.h use. Then it includes this. */
#ifndef QN_CPU_KERNEL_GEMV_H
#define QN_CPU_KERNEL_GEMV_H

#include "cpu/dispatch.h"
#include "quant/blocks.h"

#include <string.h>

/* Multiplies n blocks of ROWS rows, `step` bytes apart, with the kernel's columns: the columns' first blocks side by
 * side, then their second blocks. y: a register a column, row r in lane r. */
typedef void (*qn_gemv_fn)(const uint8_t *w, size_t step, const void *x, int64_t n, reals *y);

#define QN_GEMV_ROOM(name, cols) cols,
enum { QN_GEMV_ROOMS = sizeof((char[]){1, GEMV_KERNELS(QN_GEMV_ROOM, )}) };

typedef struct qn_gemv_kernel {
    int block;        /* elements */
    size_t act_bytes; /* of a column's block */
    qn_gemv_fn fn[QN_GEMV_ROOMS];
} qn_gemv_kernel;

/* A whole gemv slot: groups columns for the kernels there are, and distributes rows over the lanes. */
void FN(gemv)(const qn_mm_args *a, const qn_gemv_kernel *kernel);

/* Defines mm_NAME from a function gemv_NAME(nc, ...). QN_GEMV_WITH_SINGLE: with a kernel of its own for a single
 * column. */
#define QN_GEMV_COLS(name, cols) \
    static void gemv_##name##_##cols(const uint8_t *w, size_t step, const void *x, int64_t n, reals *y) \
    { \
        gemv_##name(cols, w, step, x, n, y); \
    }
#define QN_GEMV_FN(name, cols)    gemv_##name##_##cols,
#define QN_GEMV(name, block, act) QN_GEMV_COLS(name, 1) QN_GEMV_WITH_SINGLE(name, block, act, gemv_##name##_1)
#define QN_GEMV_WITH_SINGLE(name, block, act, single) \
    GEMV_KERNELS(QN_GEMV_COLS, name) \
    static void mm_##name(const qn_mm_args *a) \
    { \
        const qn_gemv_kernel kernel = {block, sizeof(act), {single, GEMV_KERNELS(QN_GEMV_FN, name)}}; \
        FN(gemv)(a, &kernel); \
    }

/* After panels are set. panel_from counts where this is the one that the machine uses (qn__mm_gemv). */
static inline void gemv_set(qn_kernels *kernels, qn_dtype dtype, qn_mm_fn fn, int panel_from)
{
    qn_mm *mm = &kernels->mm[dtype];
#ifdef MAX_ROW_STRIDE
    mm->gemv_streams = fn;
    if (kernels->many_streams) mm->panel[0].from = panel_from;
#else
    mm->gemv = fn;
    if (!kernels->many_streams) mm->panel[0].from = panel_from;
#endif
}

void FN(gemv_32_init)(qn_kernels *kernels);
void FN(gemv_256_init)(qn_kernels *kernels);
void FN(gemv_float_init)(qn_kernels *kernels);
void FN(mm_gemv_init)(qn_kernels *kernels);

/* Compilers would keep a pointer for each row, most of them in memory. With w and step hidden, six registers are
 * enough for all addresses. */
#define HIDE(x) __asm__("" : "+r"(x))

INLINE const uint8_t *row_at(const uint8_t *w, size_t step, int r)
{
    return w + (size_t)(r % 4) * step + (size_t)(r / 4) * (4 * step);
}

/* Prefetches part `part` of `parts` of what the next rows need: ROWS times `bytes`, from `ahead` on. Rows of a
 * kernel are neighbours in memory, so this is one sequential stream, which hardware prefetchers follow. A few lines
 * at a time, between instructions that leave the memory ports free, are faster than all at once. The empty asm makes
 * what follows depend on x and `ahead`; otherwise compilers would move all prefetches to the front.
 *     Zen 5, 2 threads, Q6_K, 2048 columns, share of the read bandwidth:
 *     evenly 82 %, all at once 53 %, a stream for each row, 512 bytes ahead, 62 %
 * With PREFETCH_BYTES (gemv_streams.h) each row is a stream of its own, prefetched so many bytes ahead. */
#ifdef PREFETCH_BYTES
#define PREFETCH_ROWS(x, ahead, part, parts, bytes, from, rows) \
    do { \
        UNROLL \
        for (int i_ = (part) * (rows) / (parts); i_ < ((part) + 1) * (rows) / (parts); i_++) UNROLL \
        for (int at_ = 0; at_ < (int)(bytes); at_ += 64) \
            _mm_prefetch((const char *)row_at(from, step, i_) + PREFETCH_BYTES + at_, _MM_HINT_T0); \
        __asm__ volatile("" : "+r"(x), "+r"(ahead)); \
    } while (0)
#define PREFETCH(x, ahead, part, parts, bytes) PREFETCH_ROWS(x, ahead, part, parts, bytes, w, ROWS)
/* Several blocks lie in one line of memory: block b prefetches for a part of the rows. */
#define PREFETCH_SMALL(x, ahead, part, parts, bytes, b) \
    do { \
        enum { PARTS_ = (bytes) <= 20 ? 4 : 2 }; \
        const uint8_t *from_ = w + (size_t)((b) % PARTS_) * (ROWS / PARTS_) * step; \
        PREFETCH_ROWS(x, ahead, part, parts, bytes, from_, ROWS / PARTS_); \
    } while (0)
#else
#define PREFETCH_SMALL(x, ahead, part, parts, bytes, b) PREFETCH(x, ahead, part, parts, bytes)
#define PREFETCH(x, ahead, part, parts, bytes) \
    do { \
        const int lines_ = (ROWS * (int)(bytes) + 63) / 64; \
        UNROLL \
        for (int i_ = (part)*lines_ / (parts); i_ < ((part) + 1) * lines_ / (parts); i_++) \
            _mm_prefetch((const char *)(ahead) + 64 * i_, _MM_HINT_T0); \
        __asm__ volatile("" : "+r"(x), "+r"(ahead)); \
    } while (0)
#endif

/* Copies one field of all rows with scalar moves, which leave the vector ports free. Without the asm, compilers
 * would collect the values in vector registers, which costs more than the rest of a block of 32. */
#define COPY_ROWS(type) \
    INLINE void copy_##type(const uint8_t *w, size_t step, type to[ROWS]) \
    { \
        UNROLL \
        for (int r = 0; r < ROWS; r++) { \
            memcpy(&to[r], row_at(w, step, r), sizeof(type)); \
            __asm__ volatile("" : "+m"(to[r])); \
        } \
    }
/* clang-format off */
COPY_ROWS(uint8_t)
COPY_ROWS(uint16_t)
COPY_ROWS(uint32_t)
/* clang-format on */

/* Keeps an array in memory: compilers would rather shuffle its parts out of registers again, two or three
 * instructions for a broadcast that a load does for free. */
#define STAYS(array) __asm__("" : "+m"(array))

INLINE words all_4(const void *p) /* the same four bytes in every lane: a broadcast from memory */
{
    int32_t v;
    memcpy(&v, p, 4);
    return w_set(v);
}

#ifndef OWN_FRONT
/* The same for a field that at least 16 bytes of the block follow. */
#define front_uint8_t  copy_uint8_t
#define front_uint16_t copy_uint16_t
#define front_uint32_t copy_uint32_t
#endif

/* Kernels whose weights exceed DOT_MAX multiply u - 128 instead: what u has in excess of the weight is reduced by as
 * much. */
#define SHIFT(max) ((max) > DOT_MAX ? 128 : 0)

/* The quants of ROWS rows, 16 bytes of each, in four registers: dword i of all rows in register i, or as a level
 * with OWN_DOTS prefers. Only the functions up to the #endif depend on it. */
#ifndef OWN_DOTS
INLINE void load_quants(const uint8_t *w, size_t step, words out[4]) { load_16(w, step, out); }

/* s[c] += sum of (u - SHIFT(max)) q over 4 n elements; column c's q are c * stride bytes after those of column 0 */
INLINE void dots_n(const int nc, words *s, const words *u, const int8_t *q, size_t stride, int n, int max)
{
    (void)max;
    if (nc > 1 || n < 8) {
        UNROLL
        for (int i = 0; i < n; i++) UNROLL
        for (int c = 0; c < nc; c++) s[c] = w_dot_8(s[c], u[i], all_4(q + (size_t)c * stride + 4 * i));
        return;
    }
    words other = w_zero(); /* two chains: in blocks of 32 the latency of eight in a row costs 10 % */
    UNROLL
    for (int i = 0; i < n; i += 2) {
        s[0] = w_dot_8(s[0], u[i], all_4(q + 4 * i));
        other = w_dot_8(other, u[i + 1], all_4(q + 4 * i + 4));
    }
    s[0] = w_add_32(s[0], other);
}

/* start + by * sum of u over 4 n elements, each at most `max`; by: in each byte of a lane, signed */
INLINE words sum_by(words start, const words *u, int n, int max, words by)
{
    const int group = 255 / max < n ? 255 / max : n;
    UNROLL
    for (int i = 0; i < n; i += group) {
        words bytes = u[i];
        UNROLL
        for (int j = 1; j < group; j++)
            if (i + j < n) bytes = w_add_8(bytes, u[i + j]);
        start = w_dot_8(start, bytes, by);
    }
    return start;
}
INLINE words sum_n(words start, const words *u, int n, int max) { return sum_by(start, u, n, max, w_bytes(1)); }

/* The same, summed separately from `start` where it takes several steps: their latency would show in super-blocks. */
INLINE words sum_scaled(words start, const words *u, int n, int max, words scale)
{
    return max * n <= 255 ? sum_by(start, u, n, max, scale) : w_add_32(start, sum_by(w_zero(), u, n, max, scale));
}

/* One row per lane: four bytes whose sum is that of u over 16 elements. */
INLINE words add_bytes(const words u[4]) { return w_add_8(w_add_8(u[0], u[1]), w_add_8(u[2], u[3])); }

/* Puts bit 4 i + j of a row's 32 above the nibble in byte j of u[i]. */
INLINE void add_fifth(words bits, words u[8])
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        const words at = w_fours(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
        const words byte = w_shuffle(bits, w_add_8(at, w_bytes((char)(i / 2))));
        u[i] = w_or_where(u[i], byte, w_set(i % 2 ? (int)0x80402010 : 0x08040201), w_bytes(16));
    }
}

/* In each byte: the lowest n_low bits of p, above them n_high bits of h, which are already in place. */
INLINE words join_bits(words p, int n_low, words h, int n_high)
{
    const words low = w_bytes((char)((1 << n_low) - 1));
    return w_and(w_select(low, p, h), w_bytes((char)((1 << (n_low + n_high)) - 1)));
}
#endif

INLINE words low_nibbles(words x) { return w_and(x, w_bytes(15)); }
INLINE words high_nibbles(words x) { return low_nibbles(w_shr_16(x, 4)); }
INLINE words table_16(const int8_t values[16], int off) /* value + off, in each 128 bits */
{
    const __m128i v = _mm_loadu_si128((const void *)values);
    return w_fours(_mm_add_epi8(v, _mm_set1_epi8((char)off)));
}

#endif
