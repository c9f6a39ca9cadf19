/* SPDX-License-Identifier: MIT */
/* src/quant/quant.c -- the table of formats and the public way to it. Everything that a caller can get wrong is refused
 * here; the rows' functions work on whole blocks of finite numbers. */
#include "quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

static const qn_quant_row empty_row;

#define ROW_real(name)                     &qn__quant_##name
#define ROW_block(name)                    &qn__quant_##name
#define ROW_integer(name)                  &empty_row
#define ROW_boolean(name)                  &empty_row
#define ROW(name, id, block, bytes, class) [QN_DTYPE_##name] = ROW_##class(name),
static const qn_quant_row *const rows[QN_DTYPE_COUNT] = {QN_DTYPE_ROWS(ROW)};
#undef ROW

const qn_quant_row *qn__quant_get(qn_dtype dtype)
{
    return (unsigned)dtype < QN_DTYPE_COUNT ? rows[dtype] : &empty_row;
}

bool qn_dtype_can_pack(qn_dtype dtype) { return qn__quant_get(dtype)->pack != NULL; }

static qn_status check_length(const qn_dtype_info *info, int64_t n, qn_error *err)
{
    if (n < 0 || n % info->block_elems != 0)
        return QN_FAIL(err, invalid, "%s: a row of %" PRId64 " elements, a multiple of the block of %d expected",
                       info->name, n, info->block_elems);
    if (n / info->block_elems > INT64_MAX / 8 / info->block_bytes || n > INT64_MAX / 8)
        return QN_FAIL(err, invalid, "%s: a row of %" PRId64 " elements is longer than memory", info->name, n);
    return QN_OK;
}

qn_status qn_unpack(qn_dtype dtype, const void *src, float *dst, int64_t n, qn_error *err)
{
    const qn_quant_row *row = qn__quant_get(dtype);
    const qn_dtype_info *info = qn_dtype_get(dtype);

    if (!row->unpack) return QN_FAIL(err, unsupported, "%s does not unpack to float32", info->name);
    QN_TRY(check_length(info, n, err));
    if (n == 0) return QN_OK;
    if (!src || !dst)
        return QN_FAIL(err, invalid, "unpack %s: the %s is NULL", info->name, src ? "destination" : "source");
    row->unpack(src, dst, n);
    return QN_OK;
}

/* Position of the first NaN or infinity, n when there is none. Blocks keep the inner loop free of branches. */
static int64_t find_not_finite(const float *x, int64_t n)
{
    for (int64_t begin = 0; begin < n; begin += 256) {
        const int64_t end = begin + 256 < n ? begin + 256 : n;
        uint32_t worst = 0;

        for (int64_t i = begin; i < end; i++) {
            uint32_t u;
            memcpy(&u, x + i, sizeof u);
            u &= 0x7fffffff;
            worst = u > worst ? u : worst;
        }
        if (worst < 0x7f800000) continue;
        for (int64_t i = begin; i < end; i++)
            if (!isfinite(x[i])) return i;
    }
    return n;
}

static qn_status check_importance(const qn_dtype_info *info, const float *importance, int64_t n, qn_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(importance[i]) || importance[i] < 0)
            return QN_FAIL(err, invalid,
                           "pack %s: the importance of column %" PRId64 " is %g, a finite number >= 0 expected",
                           info->name, i, (double)importance[i]);
    return QN_OK;
}

qn_status qn_pack(qn_dtype dtype, const float *src, void *dst, int64_t n_rows, int64_t n, const float *importance,
                  qn_error *err)
{
    const qn_quant_row *row = qn__quant_get(dtype);
    const qn_dtype_info *info = qn_dtype_get(dtype);

    if (!row->pack) return QN_FAIL(err, unsupported, "%s cannot be packed, only unpacked", info->name);
    QN_TRY(check_length(info, n, err));
    if (n_rows < 0) return QN_FAIL(err, invalid, "pack %s: %" PRId64 " rows, at least 0 expected", info->name, n_rows);
    if (n_rows == 0 || n == 0) return QN_OK;
    if (n_rows > INT64_MAX / 8 / n)
        return QN_FAIL(err, invalid, "pack %s: %" PRId64 " rows of %" PRId64 " are more than memory holds", info->name,
                       n_rows, n);
    if (!src || !dst)
        return QN_FAIL(err, invalid, "pack %s: the %s is NULL", info->name, src ? "destination" : "source");
    if (importance) QN_TRY(check_importance(info, importance, n, err));

    for (int64_t r = 0; r < n_rows; r++) {
        const int64_t bad = find_not_finite(src + r * n, n);

        if (bad < n)
            return QN_FAIL(err, invalid, "pack %s: row %" PRId64 ", column %" PRId64 " is %g, a finite number expected",
                           info->name, r, bad, (double)src[r * n + bad]);
    }
    const int64_t row_bytes = n / info->block_elems * info->block_bytes;
    for (int64_t r = 0; r < n_rows; r++) row->pack(src + r * n, (unsigned char *)dst + r * row_bytes, n, importance);
    return QN_OK;
}
