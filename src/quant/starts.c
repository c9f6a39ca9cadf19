/* SPDX-License-Identifier: MIT */
/* src/quant/starts.c -- where searches begin. Each list was grown one start at a time, always by the one that took most
 * off the mean error of 1,000 to 4,000 groups of gaussian, Laplace, Student-t (2 degrees of freedom), uniform and
 * outlier-ridden values, each distribution counting alike. The comments tell by how much the best start of a list,
 * before the refits, is worse than the best of all tried (some hundreds); then the same of the list's first alone, the
 * plain rounding of other writers. */
#include "quant/starts.h"

#define STARTS(name, ...) \
    static const qn_start name##_at[] = {__VA_ARGS__}; \
    const qn_starts qn__starts_##name = {(int)(sizeof name##_at / sizeof name##_at[0]), name##_at};

/* 0.1 % above the best; plain rounding 9.3 % */
STARTS(scale_3, {-4, 0}, {3.2f, 0}, {-4.5f, 0}, {-3.7f, 0}, {-4.2f, 0}, {-4.9f, 0}, {2.9f, 0}, {3.4f, 0})
/* 0.4 %; 7.6 % */
STARTS(scale_4, {-8, 0}, {7.2f, 0}, {-8.5f, 0}, {-7.7f, 0}, {6.2f, 0}, {-8.2f, 0}, {-8.8f, 0})
/* 0.3 %; 8.3 % */
STARTS(scale_5, {-16, 0}, {15.1f, 0}, {-16.4f, 0}, {-15.7f, 0}, {14.2f, 0}, {14.8f, 0}, {15.3f, 0}, {-16.7f, 0},
       {13.9f, 0}, {-16.2f, 0})
/* 0.8 %; 19 %. Groups have 16 elements: other phases of the codes against them do more than other widths. */
STARTS(scale_6, {-32, 0}, {31, 0}, {30, 0}, {29, 0}, {28, 0}, {27, 0}, {-32.25f, 0}, {-31.75f, 0}, {26, 0}, {31.25f, 0},
       {30.75f, 0}, {25, 0})
/* 5 %; 21 % */
STARTS(scale_8, {127, 0}, {126, 0}, {124, 0}, {122, 0}, {125, 0}, {120, 0}, {123, 0})
/* 0.2 %; 85 %. Plain rounding suits weights that are ternary already. */
STARTS(trits, {1, 0}, {2.4f, 0}, {1.5f, 0}, {3.6f, 0}, {5.7f, 0}, {2.8f, 0}, {2.1f, 0}, {8.5f, 0})
/* 0.4 %; 12 % */
STARTS(levels, {-127, 0}, {115, 0}, {-135, 0}, {-120, 0}, {-111, 0}, {124, 0}, {110, 0}, {-131, 0}, {-105, 0},
       {-124, 0})
/* 0.3 %; 36 % */
STARTS(affine_2, {3, 0}, {4, 0.47f}, {3.6f, 0.57f}, {3.5f, -0.03f}, {3.7f, 0.47f}, {3.6f, 0.17f}, {2.4f, 0.22f},
       {3.4f, 0.62f}, {3.3f, -0.28f})
/* 1.2 %; 25 % */
STARTS(affine_4, {15, 0}, {15, -0.3f}, {15.3f, 0.45f}, {15.6f, 0.15f}, {15.3f, 0.3f}, {14.4f, 0.15f}, {15, -0.15f},
       {14.1f, 0.15f}, {15.6f, 0.3f}, {15.6f, 0}, {15.9f, 0.6f}, {14.4f, -0.15f})
/* 1 % after the refits, which this one list was grown with; 15 % */
STARTS(affine_5, {31, 0}, {31, 0.4f}, {31, -0.4f}, {29.8f, 0}, {31.6f, 0.6f}, {31.6f, 0.3f}, {29, -1.9f}, {27.9f, -3},
       {30.4f, 0}, {27.3f, -1.9f}, {33.5f, 2.5f}, {32.2f, 0.6f})
