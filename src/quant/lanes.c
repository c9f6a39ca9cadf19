/* SPDX-License-Identifier: MIT */
/* src/quant/lanes.c -- see lanes.h. The searches sum errors from residuals in units of a code, e = x/s - q, where |e|
 * is at most 1/2 unless clipped: the least-squares refit of s to the codes then loses nothing to cancellation. */
#include "quant/lanes.h"

#include <stddef.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "quant/blocks.h"

#define EACH_LANE(l) for (int l = 0; l < QN_LANES; l++)

/* Largest magnitude that is told apart: no format with a binary16 scale reaches 2^28. Keeps squares and their sums
 * finite. */
#define LARGEST      0x1p40f
/* Magnitudes and scales that count as zero: binary16 ends at 2^-24. Keeps their reciprocals finite. */
#define TINY         0x1p-60f
/* A candidate must be better than this share of the best so far: keeps ties, and noise between ties, with the first. */
#define BETTER       0.999999f
/* What a refit takes from an error is only known to this share of it: no refit is better than a start that was exact.
 */
#define NOISE        1e-6f
/* Rounds of "codes for the scale, scale for the codes" after the best start; a third gains less than 0.1 %. */
#define N_REFITS     2

/* Each is one instruction; gcc finds it in the loop only where the mood takes it. */
static inline qn_lane lane_max(qn_lane a, qn_lane b)
{
#ifdef __SSE__
    return _mm_max_ps(a, b);
#else
    qn_lane r;
    EACH_LANE(l) r[l] = a[l] > b[l] ? a[l] : b[l];
    return r;
#endif
}

static inline qn_lane lane_min(qn_lane a, qn_lane b)
{
#ifdef __SSE__
    return _mm_min_ps(a, b);
#else
    qn_lane r;
    EACH_LANE(l) r[l] = a[l] < b[l] ? a[l] : b[l];
    return r;
#endif
}

static inline qn_lane lane_select(qn_lane_int mask, qn_lane yes, qn_lane no)
{
    return (qn_lane)((mask & (qn_lane_int)yes) | (~mask & (qn_lane_int)no));
}

static inline qn_lane lane_all(float v) { return (qn_lane){v, v, v, v}; }

void qn__lanes_load(qn_lane *x, int n, int n_groups, const float *src)
{
    for (int l = 0; l < QN_LANES; l++)
        for (int i = 0; i < n; i++) x[i][l] = l < n_groups ? src[l * n + i] : 0;
    for (int i = 0; i < n; i++) x[i] = lane_min(lane_max(x[i], lane_all(-LARGEST)), lane_all(LARGEST));
}

static float largest_of(const float *v, int n)
{
    float largest = 0;

    for (int i = 0; i < n; i++) largest = v[i] > largest ? v[i] : largest;
    return largest;
}

void qn__lanes_load_importance(qn_lane *w, int n, int n_groups, const float *importance, bool joint)
{
    const float of_all = joint && importance ? largest_of(importance, n * n_groups) : 0;

    for (int i = 0; i < (n_groups + QN_LANES - 1) / QN_LANES * n; i++) w[i] = lane_all(1);
    for (int g = 0; importance && g < n_groups; g++) {
        const float *from = importance + g * n;
        const float largest = joint ? of_all : largest_of(from, n);

        if (largest == 0) continue;
        for (int i = 0; i < n; i++) w[g / QN_LANES * n + i][g % QN_LANES] = from[i] / largest * (1 - 1e-6f) + 1e-6f;
    }
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* The level of IQ4 that is nearest to k/2 - 127: midpoints of levels are whole or half numbers. */
static const int8_t nearest_level[481] = {
    [0 ... 22] = -127,   [23 ... 66] = -104,  [67 ... 105] = -83,  [106 ... 139] = -65,
    [140 ... 169] = -49, [170 ... 196] = -35, [197 ... 221] = -22, [222 ... 244] = -10,
    [245 ... 267] = 1,   [268 ... 291] = 13,  [292 ... 316] = 25,  [317 ... 344] = 38,
    [345 ... 375] = 53,  [376 ... 411] = 69,  [412 ... 455] = 89,  [456 ... 480] = 113,
};

static inline qn_lane level_of(qn_lane t)
{
    const qn_lane_int k = __builtin_convertvector(2 * (t + 127), qn_lane_int);
    qn_lane r;
    EACH_LANE(l) r[l] = nearest_level[k[l]];
    return r;
}

/* Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even, for |t| < 2^22. */
static inline qn_lane round_lane(qn_lane t) { return (t + 12582912.0f) - 12582912.0f; }

/* 0 to 4 in steps of 1, to 8 in steps of 2, to 12 in steps of 4, and the same below 0. */
static inline qn_lane fp4_of(qn_lane t)
{
    const qn_lane a = lane_max(t, -t);
    const qn_lane step = lane_select(a < 4, lane_all(1), lane_select(a < 8, lane_all(2), lane_all(4)));
    return round_lane(t / step) * step;
}

/* The kind is a constant where this is inlined: the loops are free of the question. */
static inline qn_lane code_of(qn_lane t, qn_codes codes, qn_code_kind kind)
{
    t = lane_min(lane_max(t, lane_all(codes.lo)), lane_all(codes.hi));
    return kind == QN_CODE_iq4 ? level_of(t) : kind == QN_CODE_fp4 ? fp4_of(t) : round_lane(t);
}

static inline qn_residuals residuals(const qn_lanes *a, qn_codes codes, qn_code_kind kind, qn_lane s, qn_lane o,
                                     qn_lane *q)
{
    const qn_lane inv = lane_select((s > TINY) | (s < -TINY), 1 / s, lane_all(0));
    qn_residuals r = {0};

    for (int i = 0; i < a->n; i++) {
        const qn_lane x = a->x[i] - o, k = code_of(x * inv, codes, kind), e = x - s * k, w = a->w[i];
        if (q) q[i] = k;
        r.ee += w * e * e;
        r.e += w * e;
        r.eq += w * e * k;
        r.q += w * k;
        r.qq += w * k * k;
        r.w += w;
    }
    return r;
}

qn_residuals qn__lanes_residuals(const qn_lanes *a, qn_codes codes, qn_lane s, qn_lane o, qn_lane *q)
{
    if (codes.kind == QN_CODE_iq4) return residuals(a, codes, QN_CODE_iq4, s, o, q);
    if (codes.kind == QN_CODE_fp4) return residuals(a, codes, QN_CODE_fp4, s, o, q);
    return residuals(a, codes, QN_CODE_integer, s, o, q);
}

/* ---- searches -------------------------------------------------------------------------------- */

typedef struct fit {
    qn_lane s, o, err;
} fit;

static inline void keep_better(fit *best, fit f)
{
    const qn_lane_int better = f.err < best->err * BETTER;

    best->s = lane_select(better, f.s, best->s);
    best->o = lane_select(better, f.o, best->o);
    best->err = lane_select(better, f.err, best->err);
}

/* With codes taken at inv = 1/s: the refitted scale, and the error that it leaves. */
static inline fit scale_pass(const qn_lanes *a, qn_codes codes, qn_code_kind kind, qn_lane inv)
{
    qn_lane ee = {0}, eq = {0}, qq = {0};

    for (int i = 0; i < a->n; i++) {
        const qn_lane t = a->x[i] * inv, q = code_of(t, codes, kind), e = t - q, wq = a->w[i] * q;
        ee += a->w[i] * e * e;
        eq += wq * e;
        qq += wq * q;
    }
    const qn_lane unit = 1 / inv, fitted = eq / lane_max(qq, lane_all(TINY));
    return (fit){.s = unit * (1 + fitted), .err = lane_max(ee - fitted * eq, NOISE * ee) * unit * unit};
}

typedef struct range {
    qn_lane lowest, highest;
} range;

/* Of the group and, to begin with, what is given. */
static inline range find_range(const qn_lanes *a, qn_lane lowest, qn_lane highest)
{
    for (int i = 0; i < a->n; i++) {
        lowest = lane_min(a->x[i], lowest);
        highest = lane_max(a->x[i], highest);
    }
    return (range){lowest, highest};
}

/* The value farthest from 0; where codes are symmetric its magnitude, so that scales are positive. */
static inline qn_lane find_extreme(const qn_lanes *a, qn_codes codes)
{
    const range r = find_range(a, lane_all(0), lane_all(0));

    if (codes.lo == -codes.hi) return lane_max(r.highest, -r.lowest);
    return lane_select(r.highest > -r.lowest, r.highest, r.lowest);
}

float qn__code_from_end(qn_codes codes, int j)
{
    if (codes.kind == QN_CODE_iq4) return qn__iq4_values[j];
    return -codes.lo > codes.hi ? codes.lo + (float)j : codes.hi - (float)j;
}

qn_lane qn__lanes_plain_scale(const qn_lanes *a, qn_codes codes, float code) { return find_extreme(a, codes) / code; }

/* Where codes of an affine group begin and end: at 0, if that is as far as the offset may go. */
static inline range find_affine_range(const qn_lanes *a, bool below)
{
    return find_range(a, below ? lane_min(a->x[0], lane_all(0)) : a->x[0], a->x[0]);
}

qn_lane qn__lanes_plain_affine(const qn_lanes *a, bool below, float code, qn_lane *o)
{
    const range r = find_affine_range(a, below);

    *o = r.lowest;
    return (r.highest - r.lowest) / code;
}

qn_lane qn__lanes_fit_scale(const qn_lanes *a, qn_codes codes, const qn_starts *starts)
{
    fit best = {.err = lane_all(0x1p126f)};
    const qn_lane ext = find_extreme(a, codes);
    const qn_lane_int zero = (ext < TINY) & (ext > -TINY);

    for (int k = 0; k < starts->n + N_REFITS; k++) {
        const qn_lane inv = lane_select(zero, lane_all(1), k < starts->n ? starts->at[k].codes / ext : 1 / best.s);
        if (codes.kind == QN_CODE_iq4)
            keep_better(&best, scale_pass(a, codes, QN_CODE_iq4, inv));
        else
            keep_better(&best, scale_pass(a, codes, QN_CODE_integer, inv));
    }
    return lane_select(zero, lane_all(0), best.s);
}

/* With codes taken at (x - o) * inv: the least-squares s and o for them. Where `below` forbids an o above 0, it becomes
 * 0. */
static inline fit affine_pass(const qn_lanes *a, qn_codes codes, qn_lane inv, qn_lane o, qn_lane sw, bool below)
{
    const qn_code_kind kind = QN_CODE_integer; /* no format has uneven codes and a minimum */
    qn_lane se = {0}, ee = {0}, eq = {0}, sq = {0}, qq = {0};

    for (int i = 0; i < a->n; i++) {
        const qn_lane t = (a->x[i] - o) * inv, q = code_of(t, codes, kind), e = t - q, we = a->w[i] * e,
                      wq = a->w[i] * q;
        ee += we * e;
        se += we;
        eq += we * q;
        sq += wq;
        qq += wq * q;
    }
    const qn_lane unit = 1 / inv, det = sw * qq - sq * sq;
    /* det is known to 1e-6 of that; codes that are all alike give 0 */
    const qn_lane_int solvable = det > 1e-4f * sw * qq;
    qn_lane slope = lane_select(solvable, (sw * eq - sq * se) / det, lane_all(0));
    qn_lane shift = lane_select(solvable, (qq * se - sq * eq) / det, se / sw);
    qn_lane err = ee - slope * eq - shift * se;

    if (below) {
        const qn_lane_int above = o + shift * unit > 0;
        const qn_lane bound = -o * inv, slope0 = (eq - bound * sq) / lane_max(qq, lane_all(TINY));
        err = lane_select(above, ee - 2 * bound * se + bound * bound * sw - slope0 * (eq - bound * sq), err);
        slope = lane_select(above, slope0, slope);
        shift = lane_select(above, bound, shift);
    }
    return (fit){.s = unit * (1 + slope), .o = o + shift * unit, .err = lane_max(err, NOISE * ee) * unit * unit};
}

qn_lane qn__lanes_fit_affine(const qn_lanes *a, qn_codes codes, bool below, const qn_starts *starts, qn_lane *o)
{
    fit best = {.err = lane_all(0x1p126f)};
    const range r = find_affine_range(a, below);
    const qn_lane width = r.highest - r.lowest;
    const qn_lane_int flat = width < TINY;
    qn_lane sw = {0};

    for (int i = 0; i < a->n; i++) sw += a->w[i];

    for (int k = 0; k < starts->n + N_REFITS; k++) {
        const bool start = k < starts->n;
        const qn_lane inv = lane_select(flat, lane_all(1), start ? starts->at[k].codes / width : 1 / best.s);
        const qn_lane base = start ? r.lowest - starts->at[k].shift / inv : best.o;
        keep_better(&best, affine_pass(a, codes, inv, base, sw, below));
    }
    *o = lane_select(flat, r.lowest, below ? lane_min(best.o, lane_all(0)) : best.o);
    return lane_select(flat | (best.s < TINY), lane_all(0), best.s);
}
