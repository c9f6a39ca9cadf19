/* SPDX-License-Identifier: MIT */
/* src/quant/element.c -- one element as a number, for whoever looks at values one by one. */
#include "quant/element.h"

#include <math.h>
#include <string.h>

static double load_integer(const char *p, size_t bytes, bool is_unsigned, int64_t *out)
{
    int64_t i = 0;
    memcpy(&i, p, bytes); /* little-endian: the low bytes come first */
    if (bytes < 8 && !is_unsigned && (i >> (bytes * 8 - 1) & 1)) i -= INT64_C(1) << bytes * 8;
    *out = i;
    return (double)i;
}

double qn__element(qn_dtype dtype, const char *host, int64_t at, int64_t *whole)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    const char *p = host + at * info->block_bytes;
    if (info->class_ != QN_CLASS_real)
        return load_integer(p, (size_t)info->block_bytes, dtype == QN_DTYPE_U8 || dtype == QN_DTYPE_BOOL, whole);
    double d;
    float f;
    if (dtype == QN_DTYPE_F64)
        memcpy(&d, p, sizeof d);
    else
        (void)qn_unpack(dtype, p, &f, 1, NULL), d = (double)f;
    *whole = d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : isnan(d) ? 0 : d < 0 ? INT64_MIN : INT64_MAX;
    return d;
}
