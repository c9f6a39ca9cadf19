/* SPDX-License-Identifier: MIT */
/* src/quant/plain.c -- see plain.h. What the search finds is rounded to binary16, and every element gets the code that
 * is nearest under the rounded numbers. Where that rounding is much of the error, other scales are tried as well. */
#include "quant/plain.h"

#include "quant/quant.h"

#define EACH_LANE(l) for (int l = 0; l < QN_LANES; l++)

/* An error under this share of the energy is the scale's rounding (2^-12 of it at most), not the codes'. */
#define EXACT        0x1p-18f
/* Scales under this are subnormal in binary16 and lose bits; LSB is what they are multiples of. */
#define COARSE       0x1p-14f
#define LSB          0x1p-24f
/* Other codes for the largest magnitude that are tried when the scale's rounding matters. */
#define N_ENDS       8

typedef struct choice {
    qn_lane s, o, err;
    qn_lane q[QN_PLAIN_MAX];
    qn_residuals r;
} choice;

/* The nearest finite binary16. */
static qn_lane half(qn_lane v)
{
    qn_lane r;

    EACH_LANE(l) r[l] = qn__f16_to_f32(qn__f32_to_f16(v[l] > 65504 ? 65504 : v[l] < -65504 ? -65504 : v[l]));
    return r;
}

static void settle(const qn_lanes *a, const qn_plain_spec *spec, qn_lane s, qn_lane o, choice *c)
{
    c->s = half(s);
    c->o = spec->affine ? half(o) : (qn_lane){0};
    c->r = qn__lanes_residuals(a, spec->codes, c->s, c->o, c->q);
    c->err = c->r.ee;
}

/* In lanes where `allowed` is set. */
static void try_scale(const qn_lanes *a, const qn_plain_spec *spec, qn_lane_int allowed, qn_lane s, qn_lane o,
                      choice *best)
{
    choice c;

    settle(a, spec, s, o, &c);
    EACH_LANE(l)
    {
        if (!allowed[l] || !(c.err[l] < best->err[l])) continue;
        best->s[l] = c.s[l];
        best->o[l] = c.o[l];
        best->err[l] = c.err[l];
        for (int i = 0; i < a->n; i++) best->q[i][l] = c.q[i][l];
    }
}

/* The lanes in which it is; *any tells whether there is one. */
static qn_lane_int scale_rounding_matters(const choice *c, bool *any)
{
    const qn_lane_int coarse = (c->s < COARSE) & (c->s > -COARSE) & (c->err > 0);
    const qn_lane_int matters = coarse | (c->err < EXACT * c->s * c->s * c->r.qq);

    *any = matters[0] | matters[1] | matters[2] | matters[3];
    return matters;
}

static void fit_scaled(const qn_lanes *a, const qn_plain_spec *spec, choice *best)
{
    const qn_lane none = {0};
    bool any;

    settle(a, spec, qn__lanes_fit_scale(a, spec->codes, spec->starts), none, best);
    const qn_lane_int where = scale_rounding_matters(best, &any);
    if (!any) return;
    try_scale(a, spec, where, best->s + LSB, none, best);
    try_scale(a, spec, where, best->s - LSB, none, best);
    for (int j = 0; j < N_ENDS; j++) {
        const float code = qn__code_from_end(spec->codes, j);
        if (code != 0) try_scale(a, spec, where, qn__lanes_plain_scale(a, spec->codes, code), none, best);
    }
}

static void fit_affine(const qn_lanes *a, const qn_plain_spec *spec, choice *best)
{
    const qn_lane_int everywhere = {-1, -1, -1, -1};
    qn_lane o, s = qn__lanes_fit_affine(a, spec->codes, false, spec->starts, &o);
    bool any;

    /* Rounding m moves the whole block: the scale may make up for it. */
    settle(a, spec, s, o, best);
    s = best->s;
    EACH_LANE(l) if (best->r.qq[l] > 0) s[l] += best->r.eq[l] / best->r.qq[l];
    try_scale(a, spec, everywhere, s, o, best);
    s = qn__lanes_plain_affine(a, false, spec->starts->at[0].codes, &o);
    try_scale(a, spec, everywhere, s, o, best);
    const qn_lane_int where = scale_rounding_matters(best, &any);
    if (!any) return;
    try_scale(a, spec, where, best->s + LSB, best->o, best);
    try_scale(a, spec, where, best->s + LSB, best->o - LSB, best);
    try_scale(a, spec, where, best->s, best->o - LSB, best);
}

void qn__plain_pack(const qn_plain_spec *spec, const float *src, void *dst, int64_t n, const float *importance)
{
    const int64_t n_blocks = n / spec->n;
    unsigned char *block = dst;
    qn_lane x[QN_PLAIN_MAX], w[QN_PLAIN_MAX];
    const qn_lanes a = {spec->n, x, w};
    int8_t q[QN_PLAIN_MAX];
    choice best;

    for (int64_t first = 0; first < n_blocks; first += QN_LANES) {
        const int count = n_blocks - first < QN_LANES ? (int)(n_blocks - first) : QN_LANES;

        qn__lanes_load(x, spec->n, count, src + first * spec->n);
        qn__lanes_load_importance(w, spec->n, count, importance ? importance + first * spec->n : NULL, false);
        if (spec->affine)
            fit_affine(&a, spec, &best);
        else
            fit_scaled(&a, spec, &best);
        for (int l = 0; l < count; l++, block += spec->block_bytes) {
            for (int i = 0; i < spec->n; i++) q[i] = (int8_t)best.q[i][l];
            spec->put(block, qn__f32_to_f16(best.s[l]), qn__f32_to_f16(best.o[l]), q);
        }
    }
}
