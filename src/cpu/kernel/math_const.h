/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/math_const.h -- constants of functions (backend/numbers/math.h), and what no level has of its own. */
#ifndef QN_CPU_KERNEL_MATH_CONST_H
#define QN_CPU_KERNEL_MATH_CONST_H

#include "backend/numbers/math.h"

/* The C library's, in double (ref/math.c): of far, infinite and NaN angles. */
float qn__far_sin(float x);
float qn__far_cos(float x);
float qn__far_tan(float x);

#endif
