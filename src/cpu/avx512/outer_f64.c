/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/outer_f64.c -- kernel/outer_f64.h over one register. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"

typedef __m512d wide;
static inline wide w_set(double x) { return _mm512_set1_pd(x); }
static inline wide w_load(const double *p) { return _mm512_loadu_pd(p); }
static inline void w_store(double *p, wide x) { _mm512_storeu_pd(p, x); }
static inline wide w_add(wide a, wide b) { return _mm512_add_pd(a, b); }
static inline wide w_fma(wide a, wide b, wide c) { return _mm512_fmadd_pd(a, b, c); }

#define FN(name) qn__avx512_##name
#include "cpu/kernel/outer_f64.h"
