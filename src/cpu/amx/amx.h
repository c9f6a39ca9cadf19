/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/amx.h -- what the files of this level share. A tile is 16 rows of 64 bytes. QN_TILE_DOT adds the
 * products of A[m][k] and B[k / 4][4 n + k % 4], 64 k at a time, to 16 x 16 sums C[m][n] of int32: B is a panel of
 * avx512/mm_panel.h unchanged, A is columns of bytes. QN_TILE_DOT_BF16 does the same with floats and pairs of
 * bfloat16 (act.h).
 *
 * The instructions are written in assembly because compilers' intrinsics don't say which memory they touch. Tiles 0
 * to 3 are sums, 4 is A, the others B. A thread that has configured tiles releases them before it returns: until
 * then a context switch saves 8 KiB more. */
#ifndef QN_CPU_AMX_AMX_H
#define QN_CPU_AMX_AMX_H

#include "cpu/dispatch.h"

#include <stddef.h>
#include <string.h>

#define QN_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::: "memory")
#define QN_TILE_LOAD(tile, p, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(p), "r"((size_t)(stride)) : "memory")
#define QN_TILE_STORE(tile, p, stride) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(p), "r"((size_t)(stride)) : "memory")
#define QN_TILE_DOT(c, a, b) \
    __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory") /* both signed */
#define QN_TILE_DOT_U(c, a, b) \
    __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory") /* B unsigned */
#define QN_TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")
#define QN_TILE_RELEASE()         __asm__ volatile("tilerelease" ::: "memory")

/* Tile i has rows[i] rows of row_bytes[i] bytes. */
static inline void qn__tile_shapes(const uint8_t rows[8], const uint8_t row_bytes[8])
{
    struct {
        uint8_t palette, start_row, none[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = row_bytes[i];
        config.rows[i] = rows[i];
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

/* Configures tiles 0 to 3 and A with this many rows; B, and rows of all tiles, are full (64 bytes). */
static inline void qn__tile_config(int a_rows)
{
    const uint8_t n = (uint8_t)a_rows;
    qn__tile_shapes((const uint8_t[]){n, n, n, n, n, 16, 16, 16}, (const uint8_t[]){64, 64, 64, 64, 64, 64, 64, 64});
}

/* Tiles 4 and 5 are A; rows of B and of sums have n bytes. */
static inline void qn__tile_config_narrow(int n_bytes)
{
    const uint8_t n = (uint8_t)n_bytes;
    qn__tile_shapes((const uint8_t[]){16, 16, 16, 16, 16, 16, 16, 16}, (const uint8_t[]){n, n, n, n, 64, 64, n, n});
}

/* Runs a product, `cols_max` columns and `rows` rows at a time. */
typedef void (*qn_amx_rows_fn)(const qn_mm_args *a, const void *format, int32_t first_row, int32_t first_col,
                               int32_t n_cols);
static inline void qn__amx_mm(const qn_mm_args *a, const void *format, qn_amx_rows_fn some_rows, int32_t rows,
                              int64_t cols_max)
{
    for (int32_t c = 0; a->k == 0 && c < a->cols; c++) memset(a->y + c * a->y_stride, 0, (size_t)a->rows * 4);
    if (a->k == 0) return;
    qn__tile_config(16);
    for (int64_t c = 0; c < a->cols; c += cols_max) {
        const int64_t n_cols = a->cols - c < cols_max ? a->cols - c : cols_max;
        for (int64_t r = 0; r < a->rows; r += rows) some_rows(a, format, (int32_t)r, (int32_t)c, (int32_t)n_cols);
    }
    QN_TILE_RELEASE();
}

void qn__amx_split_act_bf16(qn_act_bf16 *y, const float *x, int64_t n);
void qn__amx_split_act512(qn_act512 *y, const float *x, int64_t n);
void qn__amx_attn_pack_k_f16(int16_t *y, float *scale, const void *base, int64_t cell_bytes, const int32_t *cell,
                             int64_t n_cells, int64_t n);
void qn__amx_attn_pack_v_f16(int16_t *y, float *log_scale, float *weight, const void *base, int64_t cell_bytes,
                             const int32_t *cell, int64_t n_cells, int64_t n);
void qn__amx_attn_init(qn_kernels *kernels);
void qn__amx_mm_bf16_init(qn_kernels *kernels);
void qn__amx_mm_f16_init(qn_kernels *kernels);
void qn__amx_mm_panel_init(qn_kernels *kernels);
void qn__amx_mm_panel_32_init(qn_kernels *kernels);
int64_t qn__amx_probe_int8(int64_t n);
int64_t qn__amx_probe_bf16(int64_t n);

#endif
