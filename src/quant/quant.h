/* SPDX-License-Identifier: MIT */
/* src/quant/quant.h -- block formats: one row a dtype, one file a format family. Rows come from QN_DTYPE_ROWS, so a
 * dtype of class real or block without an unpack function does not link. */
#ifndef QN_QUANT_H
#define QN_QUANT_H

#include <quern/tensor.h>

/* n is a multiple of the block; src may be unaligned; no error is possible. */
typedef void (*qn_unpack_fn)(const void *src, float *dst, int64_t n);
/* One row; importance may be NULL. Input is finite (checked by qn_pack). */
typedef void (*qn_pack_fn)(const float *src, void *dst, int64_t n, const float *importance);

typedef struct qn_quant_row {
    qn_unpack_fn unpack; /* NULL for integer and boolean dtypes */
    qn_pack_fn pack;     /* NULL when the format only unpacks */
    bool packs_fast;     /* in about the time of a copy: for state too; others search for scales and are for files */
} qn_quant_row;
/* Never NULL: a dtype that is out of range, integer or boolean gives an empty row. */
const qn_quant_row *qn__quant_get(qn_dtype dtype);

#define QN_QUANT_EXTERN_real(name)  extern const qn_quant_row qn__quant_##name;
#define QN_QUANT_EXTERN_block(name) extern const qn_quant_row qn__quant_##name;
#define QN_QUANT_EXTERN_integer(name)
#define QN_QUANT_EXTERN_boolean(name)
#define QN_QUANT_EXTERN(name, id, block, bytes, class) QN_QUANT_EXTERN_##class(name)
QN_DTYPE_ROWS(QN_QUANT_EXTERN)
#undef QN_QUANT_EXTERN

/* IEEE binary16 and bfloat16, round to nearest even, NaN kept quiet. */
float qn__f16_to_f32(uint16_t h);
uint16_t qn__f32_to_f16(float f);
float qn__bf16_to_f32(uint16_t h);
uint16_t qn__f32_to_bf16(float f);

#endif
