/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/mma.cl -- products of int8 as instructions: four at once (dp4a), and by a warp's 32 work-items a
 * matrix's (the layout of mma.sync.m16n8k32 and .m16n8k16). Elsewhere the same is computed step by step, through memory
 * that the group shares, so that what is built on it can be tested anywhere.
 *
 * Of lane l, g = l / 4 and t = l % 4. Registers hold four bytes each: a[0] has row g, columns 4t to 4t + 3 of A
 * [16, 32], a[1] the same of row g + 8, a[2] and a[3] those of columns 16 on; b[0] has rows 4t to 4t + 3 of column g of
 * B [32, 8], b[1] those of rows 16 on. c[0] and c[1] are columns 2t and 2t + 1 of row g of C [16, 8], c[2] and c[3] of
 * row g + 8. A group is one warp. */

#if defined(__CUDA__) || defined(__CUDACC__)
DEVICE int dot4(uint32_t a, uint32_t b, int c)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}
#else
DEVICE int dot4(uint32_t a, uint32_t b, int c)
{
    for (int i = 0; i < 32; i += 8) c += (int8_t)(a >> i & 255) * (int8_t)(b >> i & 255);
    return c;
}
#endif

typedef struct mma_room {
    uint32_t a[4][32], b[2][32];
} mma_room;

#if (defined(__CUDA__) || defined(__CUDACC__)) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
DEVICE void mma_32(LOCAL mma_room *r, int *c, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_16(LOCAL mma_room *r, int *c, const uint32_t *a, uint32_t b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
#else
DEVICE void mma_step(LOCAL mma_room *r, int *c, int a, int b)
{
    const int g = LANE / 4, t = LANE % 4;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            c[i] = dot4(r->a[a + i / 2][4 * g + k], r->b[b][4 * (2 * t + i % 2) + k], c[i]);
}
DEVICE void mma_32(LOCAL mma_room *r, int *c, const uint32_t *a, const uint32_t *b)
{
    MEET(); /* the room is free */
    for (int i = 0; i < 4; i++) r->a[i][LANE] = a[i];
    for (int i = 0; i < 2; i++) r->b[i][LANE] = b[i];
    MEET();
    mma_step(r, c, 0, 0);
    mma_step(r, c, 2, 1);
}
DEVICE void mma_16(LOCAL mma_room *r, int *c, const uint32_t *a, uint32_t b)
{
    MEET();
    for (int i = 0; i < 2; i++) r->a[i][LANE] = a[i];
    r->b[0][LANE] = b;
    MEET();
    mma_step(r, c, 0, 0);
}
#endif
