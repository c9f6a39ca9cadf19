/* SPDX-License-Identifier: MIT */
/* src/quant/lanes.h -- the search for scales, four groups of elements at a time.
 *
 * A group is what shares one scale: a block, or a sub-block of a super-block. Four groups lie side by side, element i
 * of each in one vector x[i], so that no sum crosses lanes: the loops are vector code on any machine, and a result
 * depends on nothing but its own group. Every search minimises sum w (x - y)^2 over the codes and the scale at once. */
#ifndef QN_QUANT_LANES_H
#define QN_QUANT_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define QN_LANES 4
typedef float qn_lane __attribute__((vector_size(4 * QN_LANES)));
typedef int32_t qn_lane_int __attribute__((vector_size(4 * QN_LANES)));

typedef struct qn_lanes {
    int n;            /* elements a group */
    const qn_lane *x; /* [n] */
    const qn_lane *w; /* [n], from 1e-6, so that a column of importance 0 still gets a sane value, to 1 */
} qn_lanes;

/* Turns n_groups (1 to 4) groups of n consecutive elements into vectors; lanes left over are zeros. */
void qn__lanes_load(qn_lane *x, int n, int n_groups, const float *src);
/* The same for the importance of any number of groups, four after four, scaled so that the largest becomes 1: the
 * largest of its group or, with `joint`, because the groups share a super-block, of all. Where that is 0, or importance
 * NULL, all are 1. */
void qn__lanes_load_importance(qn_lane *w, int n, int n_groups, const float *importance, bool joint);

/* What a code may be: an integer from lo to hi, one of the sixteen numbers of IQ4, or one of the fifteen of FP4. */
typedef enum qn_code_kind { QN_CODE_integer, QN_CODE_iq4, QN_CODE_fp4 } qn_code_kind;
typedef struct qn_codes {
    float lo, hi;
    qn_code_kind kind;
} qn_codes;

/* Where a search begins: the smallest value (affine) or 0 (scale) is put at code `shift`, and the largest value or
 * magnitude `codes` above it. The first is the usual one: ties go to it. Lists and how they were found: starts.c. */
typedef struct qn_start {
    float codes, shift;
} qn_start;

typedef struct qn_starts {
    int n;
    const qn_start *at;
} qn_starts;

/* y = s q. A group of zeros gets scale 0. Not for FP4, whose few scales its packers try one by one. */
qn_lane qn__lanes_fit_scale(const qn_lanes *a, qn_codes codes, const qn_starts *starts);

/* y = s q + o with q in [0, codes.hi]; with `below`, o <= 0. A group whose values are all alike gets scale 0. */
qn_lane qn__lanes_fit_affine(const qn_lanes *a, qn_codes codes, bool below, const qn_starts *starts, qn_lane *o);

/* Code number j from the end of the range that is farther from 0; the upper one when they are alike. */
float qn__code_from_end(qn_codes codes, int j);

/* Without search: the s that puts the largest magnitude at `code`; s and o that put the smallest value at 0, the
 * largest at it. */
qn_lane qn__lanes_plain_scale(const qn_lanes *a, qn_codes codes, float code);
qn_lane qn__lanes_plain_affine(const qn_lanes *a, bool below, float code, qn_lane *o);

/* Sums over one group, of w times what the name says: e = x - s q - o is the residual. */
typedef struct qn_residuals {
    qn_lane ee, e, eq, q, qq, w;
} qn_residuals;
/* Takes for every element the code nearest to (x - o) / s, 0 where s is 0 or tiny. q is written unless NULL. */
qn_residuals qn__lanes_residuals(const qn_lanes *a, qn_codes codes, qn_lane s, qn_lane o, qn_lane *q);

#endif
