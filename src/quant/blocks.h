/* SPDX-License-Identifier: MIT */
/* src/quant/blocks.h -- how the block formats lie in memory: one struct a block dtype, named after its row. All are
 * packed, so that a pointer to one needs no alignment; all fields are little-endian, as in a GGUF file. `d`, `dmin` and
 * `m` are binary16.
 *
 * Sizes and fields: the ggml type table, which the GGUF specification refers to. */
#ifndef QN_QUANT_BLOCKS_H
#define QN_QUANT_BLOCKS_H

#include <quern/tensor.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blocks are read in place and little-endian"
#endif

#define QN_BLOCK(name) typedef struct __attribute__((packed)) qn_block_##name

/* ---- one scale for 32 elements; element j and j + 16 share a byte of qs, the lower one in the low nibble --- */

QN_BLOCK(Q4_0)
{
    uint16_t d;
    uint8_t qs[16];
}
qn_block_Q4_0; /* d (q - 8) */
QN_BLOCK(Q4_1)
{
    uint16_t d, m;
    uint8_t qs[16];
}
qn_block_Q4_1; /* d q + m */
/* d (q - 16), bit j of qh tops q[j] */
QN_BLOCK(Q5_0)
{
    uint16_t d;
    uint32_t qh;
    uint8_t qs[16];
}
qn_block_Q5_0;
QN_BLOCK(Q5_1)
{
    uint16_t d, m;
    uint32_t qh;
    uint8_t qs[16];
}
qn_block_Q5_1; /* d q + m */
QN_BLOCK(Q8_0)
{
    uint16_t d;
    int8_t qs[32];
}
qn_block_Q8_0; /* d q */
QN_BLOCK(IQ4_NL)
{
    uint16_t d;
    uint8_t qs[16];
}
qn_block_IQ4_NL; /* d qn__iq4_values[q] */
/* 2^(e-128) qn__fp4_values[q] */
QN_BLOCK(MXFP4)
{
    uint8_t e;
    uint8_t qs[16];
}
qn_block_MXFP4;

/* ---- four scales for 64 elements ------------------------------------------------------------- */

/* d: UE4M3, one for 16 elements */
QN_BLOCK(NVFP4)
{
    uint8_t d[4];
    uint8_t qs[32];
}
qn_block_NVFP4;

/* ---- super-blocks of 256 elements: sub-blocks have integer scales (and minima) that d (and dmin) multiply --- */

/* d (sc & 15) q - dmin (sc >> 4) */
QN_BLOCK(Q2_K)
{
    uint8_t scales[16], qs[64];
    uint16_t d, dmin;
}
qn_block_Q2_K;
QN_BLOCK(Q3_K)
{
    uint8_t hmask[32], qs[64], scales[12];
    uint16_t d;
}
qn_block_Q3_K; /* d (sc - 32) (q - 4) */
QN_BLOCK(Q4_K)
{
    uint16_t d, dmin;
    uint8_t scales[12], qs[128];
}
qn_block_Q4_K; /* d sc q - dmin m */
QN_BLOCK(Q5_K)
{
    uint16_t d, dmin;
    uint8_t scales[12], qh[32], qs[128];
}
qn_block_Q5_K; /* d sc q - dmin m */
QN_BLOCK(Q6_K)
{
    uint8_t ql[128], qh[64];
    int8_t scales[16];
    uint16_t d;
}
qn_block_Q6_K; /* d sc (q - 32) */
/* d (sc - 32) qn__iq4_values[q] */
QN_BLOCK(IQ4_XS)
{
    uint16_t d, scales_h;
    uint8_t scales_l[4], qs[128];
}
qn_block_IQ4_XS;
/* d (q - 1), 5 trits to a byte */
QN_BLOCK(TQ1_0)
{
    uint8_t qs[48], qh[4];
    uint16_t d;
}
qn_block_TQ1_0;
QN_BLOCK(TQ2_0)
{
    uint8_t qs[64];
    uint16_t d;
}
qn_block_TQ2_0; /* d (q - 1) */

/* ---- super-blocks that index a grid of vectors (iq_grids.h) ---------------------------------- */

QN_BLOCK(IQ2_XXS) { uint16_t d, qs[32]; }
qn_block_IQ2_XXS;
QN_BLOCK(IQ2_XS)
{
    uint16_t d, qs[32];
    uint8_t scales[8];
}
qn_block_IQ2_XS;
QN_BLOCK(IQ2_S)
{
    uint16_t d;
    uint8_t qs[32], signs[32], qh[8], scales[8];
}
qn_block_IQ2_S;
QN_BLOCK(IQ3_XXS)
{
    uint16_t d;
    uint8_t qs[64];
    uint32_t scales_signs[8];
}
qn_block_IQ3_XXS;
QN_BLOCK(IQ3_S)
{
    uint16_t d;
    uint8_t qs[64], qh[8], signs[32], scales[4];
}
qn_block_IQ3_S;
QN_BLOCK(IQ1_S)
{
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
}
qn_block_IQ1_S;
QN_BLOCK(IQ1_M)
{
    uint8_t qs[32], qh[16];
    uint16_t scales[4];
}
qn_block_IQ1_M;

#define QN_BLOCK_SIZE_real(name, bytes)
#define QN_BLOCK_SIZE_integer(name, bytes)
#define QN_BLOCK_SIZE_boolean(name, bytes)
#define QN_BLOCK_SIZE_block(name, bytes) \
    _Static_assert(sizeof(qn_block_##name) == (bytes), "a " #name " block has " #bytes " bytes");
#define QN_BLOCK_SIZE(name, id, block, bytes, class) QN_BLOCK_SIZE_##class(name, bytes)
QN_DTYPE_ROWS(QN_BLOCK_SIZE)
#undef QN_BLOCK_SIZE

/* The sixteen levels of IQ4_NL and IQ4_XS, and twice the values of E2M1 (MXFP4, NVFP4). */
extern const int8_t qn__iq4_values[16];
extern const int8_t qn__fp4_values[16];
/* Half of 2^(e-127) and half of an unsigned E4M3 number: they multiply qn__fp4_values. */
float qn__e8m0_half(uint8_t e);
float qn__ue4m3_half(uint8_t x);
/* Scale and minimum of sub-block j (0 to 7) of Q4_K and Q5_K, 6 bits each. */
void qn__k4_scale_min(const uint8_t scales[12], int j, int *scale, int *min);
/* Scale of sub-block j (0 to 15) of Q3_K, -32 to 31, and of sub-block j (0 to 7) of IQ4_XS, -32 to 31. */
int qn__q3_k_scale(const uint8_t scales[12], int j);
int qn__iq4_xs_scale(const qn_block_IQ4_XS *b, int j);

#endif
