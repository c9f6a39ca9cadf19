/* SPDX-License-Identifier: MIT */
/* src/array/ops/promote.c -- PyTorch's result types (torch.result_type, and the lattice in its documentation on type
 * promotion): classes rank boolean < integer < real. Tensors with dimensions decide; 0-d ones, and plain numbers after
 * them, only when their class is higher. */
#include "array/array.h"

enum {
    BOOL = QN_DTYPE_BOOL,
    U8 = QN_DTYPE_U8,
    I8 = QN_DTYPE_I8,
    I16 = QN_DTYPE_I16,
    I32 = QN_DTYPE_I32,
    I64 = QN_DTYPE_I64,
    F16 = QN_DTYPE_F16,
    BF16 = QN_DTYPE_BF16,
    F32 = QN_DTYPE_F32,
    F64 = QN_DTYPE_F64
};

#define N QN_DTYPE_BOOL + 1
/* Rows and columns in enum order: F32 F16 BF16 F64 I8 I16 I32 I64 U8 BOOL. */
/* clang-format off */
static const uint8_t table[N][N] = {
    [QN_DTYPE_F32]  = {F32, F32,  F32,  F64, F32,  F32,  F32,  F32,  F32,  F32},
    [QN_DTYPE_F16]  = {F32, F16,  F32,  F64, F16,  F16,  F16,  F16,  F16,  F16},
    [QN_DTYPE_BF16] = {F32, F32,  BF16, F64, BF16, BF16, BF16, BF16, BF16, BF16},
    [QN_DTYPE_F64]  = {F64, F64,  F64,  F64, F64,  F64,  F64,  F64,  F64,  F64},
    [QN_DTYPE_I8]   = {F32, F16,  BF16, F64, I8,   I16,  I32,  I64,  I16,  I8},
    [QN_DTYPE_I16]  = {F32, F16,  BF16, F64, I16,  I16,  I32,  I64,  I16,  I16},
    [QN_DTYPE_I32]  = {F32, F16,  BF16, F64, I32,  I32,  I32,  I64,  I32,  I32},
    [QN_DTYPE_I64]  = {F32, F16,  BF16, F64, I64,  I64,  I64,  I64,  I64,  I64},
    [QN_DTYPE_U8]   = {F32, F16,  BF16, F64, I16,  I16,  I32,  I64,  U8,   U8},
    [QN_DTYPE_BOOL] = {F32, F16,  BF16, F64, I8,   I16,  I32,  I64,  U8,   BOOL},
};
/* clang-format on */

bool qn__promote(qn_dtype a, qn_dtype b, qn_dtype *out)
{
    if ((unsigned)a >= N || (unsigned)b >= N) return false;
    *out = (qn_dtype)table[a][b];
    return true;
}

static int rank_of(qn_dtype d)
{
    static const int8_t rank[] = {[QN_CLASS_boolean] = 1, [QN_CLASS_integer] = 2, [QN_CLASS_real] = 3};
    return rank[qn_dtype_get(d)->class_];
}

bool qn__result_type(const char *op, qn_tensor *const *t, int n, qn_dtype *out)
{
    qn_dtype with_dims = QN_DTYPE_COUNT, zero_d = QN_DTYPE_COUNT;
    for (int i = 0; i < n; i++) {
        const qn_dtype d = of(t[i])->storage->dtype;
        qn_dtype *into = of(t[i])->layout.rank > 0 ? &with_dims : &zero_d;
        if ((unsigned)d >= N) {
            (void)QN_FAIL(qn__err(of(t[i])->ctx), invalid,
                          "%s: source %d is %s, a block format; qn_dequantize makes numbers of it", op, i,
                          qn_dtype_get(d)->name);
            return false;
        }
        *into = *into == QN_DTYPE_COUNT ? d : (qn_dtype)table[*into][d];
    }
    if (with_dims == QN_DTYPE_COUNT)
        *out = zero_d;
    else if (zero_d == QN_DTYPE_COUNT || rank_of(zero_d) <= rank_of(with_dims))
        *out = with_dims;
    else
        *out = (qn_dtype)table[with_dims][zero_d];
    return true;
}

bool qn__can_cast(qn_dtype from, qn_dtype to)
{
    const qn_dtype_class a = qn_dtype_get(from)->class_, b = qn_dtype_get(to)->class_;
    if (b == QN_CLASS_block) return from == to; /* nothing is quantized behind one's back */
    return !(a == QN_CLASS_real && b != QN_CLASS_real) && !(a == QN_CLASS_integer && b == QN_CLASS_boolean);
}

qn_dtype qn__with_number(qn_dtype t, bool is_real)
{
    const qn_dtype_class class = qn_dtype_get(t)->class_;
    if (is_real) return class == QN_CLASS_real ? t : QN_DTYPE_F32;
    return class == QN_CLASS_boolean ? QN_DTYPE_I64 : t;
}
