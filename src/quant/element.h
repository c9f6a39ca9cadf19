/* SPDX-License-Identifier: MIT */
/* src/quant/element.h -- one element of a dtype that is no block format, as a number. */
#ifndef QN_QUANT_ELEMENT_H
#define QN_QUANT_ELEMENT_H

#include <quern/tensor.h>

/* Element `at` of memory that begins at `host`; the same as a whole number, cut towards 0, goes to *whole. */
double qn__element(qn_dtype dtype, const char *host, int64_t at, int64_t *whole);

#endif
