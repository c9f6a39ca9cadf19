/* SPDX-License-Identifier: MIT */
/* src/format/gguf_native.c -- swapping tensor data between byte orders.
 *
 * Of a block format only the fields that are loaded as 16- or 32-bit numbers are swapped; nibbles, packed 6-bit scales
 * and other byte-wise fields lie alike in both orders. Which fields those are follows what the format's reference
 * decoder loads as a whole number (docs/FORMATS.md has the table). */
#include "format/native.h"
#include "format/gguf_file.h"
#include <string.h>

typedef struct swap_run {
    uint16_t start; /* first field, from the start of the block */
    uint8_t width;  /* bytes of a field; 0 ends the list */
    uint8_t count;
    uint8_t stride; /* from field to field; 0: they touch */
} swap_run;
typedef struct swap_row {
    swap_run run[2];
} swap_row;

/* One line a dtype of QN_DTYPE_ROWS: a new row without one does not compile. */
/* clang-format off */
#define NOTHING      {{{0, 0, 0, 0}}}
#define FIELD(s, w)  {{{s, w, 1, 0}}}
/* clang-format on */
#define SWAP_F32    FIELD(0, 4)
#define SWAP_F16    FIELD(0, 2)
#define SWAP_BF16   FIELD(0, 2)
#define SWAP_F64    FIELD(0, 8)
#define SWAP_I8     NOTHING
#define SWAP_I16    FIELD(0, 2)
#define SWAP_I32    FIELD(0, 4)
#define SWAP_I64    FIELD(0, 8)
#define SWAP_U8     NOTHING
#define SWAP_BOOL   NOTHING
#define SWAP_Q4_0   FIELD(0, 2) /* d */
/* clang-format off */
#define SWAP_Q4_1    {{{0, 2, 2, 0}}}                 /* d, m */
#define SWAP_Q5_0    {{{0, 2, 1, 0}, {2, 4, 1, 0}}}   /* d; qh is one 32-bit mask */
#define SWAP_Q5_1    {{{0, 2, 2, 0}, {4, 4, 1, 0}}}   /* d, m; qh */
/* clang-format on */
#define SWAP_Q8_0   FIELD(0, 2) /* d */
/* clang-format off */
#define SWAP_Q2_K    {{{80, 2, 2, 0}}}                /* d, dmin, after scales[16] and qs[64] */
/* clang-format on */
#define SWAP_Q3_K   FIELD(108, 2) /* d, last */
/* clang-format off */
#define SWAP_Q4_K    {{{0, 2, 2, 0}}}                 /* d, dmin */
#define SWAP_Q5_K    {{{0, 2, 2, 0}}}                 /* d, dmin */
/* clang-format on */
#define SWAP_Q6_K   FIELD(208, 2) /* d, last */
/* clang-format off */
#define SWAP_IQ2_XXS {{{0, 2, 1, 0}, {6, 4, 8, 8}}}   /* d; in each 8 bytes of qs the second four are signs and scale */
#define SWAP_IQ2_XS  {{{0, 2, 33, 0}}}                /* d, qs[32] of grid index and signs */
#define SWAP_IQ3_XXS {{{0, 2, 1, 0}, {66, 4, 8, 0}}}  /* d; signs and scales, after qs[64] */
#define SWAP_IQ1_S   {{{0, 2, 1, 0}, {34, 2, 8, 0}}}  /* d; qh[8], after qs[32] */
/* clang-format on */
#define SWAP_IQ4_NL FIELD(0, 2) /* d */
#define SWAP_IQ3_S  FIELD(0, 2) /* d */
#define SWAP_IQ2_S  FIELD(0, 2) /* d */
/* clang-format off */
#define SWAP_IQ4_XS  {{{0, 2, 2, 0}}}                 /* d, scales_h */
#define SWAP_IQ1_M   {{{48, 2, 4, 0}}}                /* scales[4], which also hold d */
/* clang-format on */
#define SWAP_TQ1_0  FIELD(52, 2) /* d, last */
#define SWAP_TQ2_0  FIELD(64, 2) /* d, last */
#define SWAP_MXFP4  NOTHING
#define SWAP_NVFP4  NOTHING
static const swap_row rows[QN_DTYPE_COUNT] = {
#define SWAP_ROW(name, id, block, bytes, class) [QN_DTYPE_##name] = SWAP_##name,
    QN_DTYPE_ROWS(SWAP_ROW)
#undef SWAP_ROW
};

static void reverse(uint8_t *p, size_t width)
{
    for (size_t i = 0; i < width / 2; i++) {
        const uint8_t tmp = p[i];
        p[i] = p[width - 1 - i];
        p[width - 1 - i] = tmp;
    }
}

void qn__swap_blocks(qn_dtype dtype, void *data, size_t n_blocks)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    const swap_row *row = &rows[dtype];
    if (row->run[0].width == info->block_bytes) { /* plain numbers */
        qn__swap_array(data, n_blocks, (size_t)info->block_bytes);
        return;
    }
    uint8_t *block = data;
    for (size_t i = 0; i < n_blocks; i++, block += info->block_bytes) {
        for (size_t k = 0; k < 2 && row->run[k].width != 0; k++) {
            const swap_run *run = &row->run[k];
            const size_t stride = run->stride ? run->stride : run->width;
            for (size_t f = 0; f < run->count; f++) reverse(block + run->start + f * stride, run->width);
        }
    }
}

bool qn__gguf_is_native(const qn_gguf *file) { return !file->parts[0].swap; }

qn_status qn__gguf_tensor_native(const qn_gguf *file, const qn_gguf_tensor *tensor, void *dst, qn_error *err)
{
    const qn_gguf_part *part = &file->parts[tensor->part];
    if (!tensor->data) {
        char subject[QN_GGUF_SUBJECT_BYTES];
        qn__gguf_subject(subject, "tensor", tensor->name, strlen(tensor->name));
        return QN_GGUF_BAD(err, format, part->label, subject, tensor->file_offset,
                           "found the file to end at %llu, expected %llu "
                           "bytes of data",
                           (unsigned long long)part->size, (unsigned long long)tensor->size_bytes);
    }
    memcpy(dst, tensor->data, tensor->size_bytes);
    if (part->swap)
        qn__swap_blocks(tensor->dtype, dst, tensor->size_bytes / (size_t)qn_dtype_get(tensor->dtype)->block_bytes);
    return QN_OK;
}
