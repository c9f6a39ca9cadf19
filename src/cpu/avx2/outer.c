/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/outer.c -- outer_f32: 12 of the 16 registers are accumulators; two registers are sixteen lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"

#define FN(name)      qn__avx2_##name
#define OUTER_VECTORS 1
#define OUTER_STRIPS
/* Keeps operands in place: compilers would overwrite some and copy what they still need (6 % of the instructions). */
#define OUTER_ADD(acc, x, v) \
    do { \
        lanes *to_ = &(acc); \
        __asm__("vfmadd231ps %2, %1, %0" : "+x"(to_->a) : "x"((x).a), "x"((v).a)); \
        __asm__("vfmadd231ps %2, %1, %0" : "+x"(to_->b) : "x"((x).b), "x"((v).b)); \
    } while (0)
/* With a_out hidden, one register gives all addresses; otherwise each unrolled step would have its own, or one in
 * memory. */
#define OUTER_HIDE(x)       __asm__("" : "+r"(x))
/* SHAPE(vectors of lanes, outputs), largest first */
#define OUTER_SHAPES(SHAPE) SHAPE(1, 6) SHAPE(1, 5) SHAPE(1, 4) SHAPE(1, 3) SHAPE(1, 2) SHAPE(1, 1)
#include "cpu/kernel/outer.h"
