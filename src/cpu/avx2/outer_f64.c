/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/outer_f64.c -- kernel/outer_f64.h over two registers. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"

typedef struct wide {
    __m256d a, b;
} wide;
static inline wide w_set(double x) { return (wide){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
static inline wide w_load(const double *p) { return (wide){_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
static inline void w_store(double *p, wide x)
{
    _mm256_storeu_pd(p, x.a);
    _mm256_storeu_pd(p + 4, x.b);
}
static inline wide w_add(wide x, wide y) { return (wide){_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b)}; }
static inline wide w_fma(wide x, wide y, wide z)
{
    return (wide){_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b)};
}

#define FN(name) qn__avx2_##name
#include "cpu/kernel/outer_f64.h"
