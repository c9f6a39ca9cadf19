/* SPDX-License-Identifier: MIT */
/* src/quant/super.c -- see super.h. Sub-blocks are fitted on their own first (lanes.h); then d, or d and dmin, are
 * chosen so that rounding the scales costs least, every element gets the code that is nearest under what is stored, the
 * scales' neighbours are tried, and d and dmin are fitted again to all codes. The least error seen wins: no step makes
 * it worse. */
#include "quant/super.h"

#include "quant/quant.h"

#define EACH_LANE(l) for (int l = 0; l < QN_LANES; l++)
#define MAX_QUADS    4 /* 16 sub-blocks, four side by side */

/* Places for the largest scale, at the largest code and under it by this share of it or, where one scale is like the
 * other, by whole codes: one of the places suits the rounding. */
#define N_PLACES     12
#define PLACE_STEP   0.012f
/* Fits of d and dmin to all codes. */
#define N_REFITS     2
/* An error under this share of the energy is the scales' rounding, not the elements'; then other codes for the largest
 * element are tried as well. */
#define EXACT        0x1p-18f
#define N_ENDS       8

typedef struct super {
    int n_quads;
    qn_lanes quad[MAX_QUADS];
    qn_lane x[QN_SUPER_ELEMS / QN_LANES], w[QN_SUPER_ELEMS / QN_LANES];
} super;

/* What is stored, and what it leaves. */
typedef struct choice {
    float d, dmin, err;
    qn_lane scale[MAX_QUADS], min[MAX_QUADS]; /* codes */
    qn_residuals r[MAX_QUADS];
    qn_lane q[QN_SUPER_ELEMS / QN_LANES];
} choice;

static float sum(qn_lane v) { return (v[0] + v[1]) + (v[2] + v[3]); }

/* The nearest finite binary16. */
static float half(float f) { return qn__f16_to_f32(qn__f32_to_f16(f > 65504 ? 65504 : f < -65504 ? -65504 : f)); }

static inline qn_lane round_code(qn_lane v, float lo, float hi)
{
    qn_lane r;

    EACH_LANE(l)
    {
        const float t = v[l] > lo ? v[l] : lo;
        r[l] = ((t < hi ? t : hi) + 12582912.0f) - 12582912.0f; /* as in lanes.c */
    }
    return r;
}

/* ---- scales to codes ------------------------------------------------------------------------- */

/* Codes for v under unit, and what the rounding costs. A unit of 0 leaves code 0. */
static float round_all(int n_quads, const qn_lane *v, const qn_lane *cost, float unit, float lo, float hi,
                       qn_lane *codes)
{
    const float inv = unit != 0 ? 1 / unit : 0;
    qn_lane total = {0};

    for (int k = 0; k < n_quads; k++) {
        codes[k] = round_code(v[k] * inv, lo, hi);
        const qn_lane e = v[k] - unit * codes[k];
        total += cost[k] * e * e;
    }
    return sum(total);
}

/* The binary16 unit whose multiples by codes in [lo, hi] are cheapest for v, whose value farthest from 0 lands on the
 * end of the range that is farther from 0, or inside by places `step` apart. */
static float fit_unit(int n_quads, const qn_lane *v, const qn_lane *cost, float lo, float hi, float step,
                      qn_lane *codes)
{
    const float end = -lo > hi ? lo : hi;
    float ext = 0, best = 0, best_cost = 0;

    for (int k = 0; k < n_quads; k++) EACH_LANE(l) if (v[k][l] * v[k][l] > ext * ext) ext = v[k][l];
    for (int p = 0; p < N_PLACES; p++) {
        const float unit = half(ext / (end * (1 - step * (float)p)));
        const float c = round_all(n_quads, v, cost, unit, lo, hi, codes);

        if (p > 0 && !(c < best_cost)) continue;
        best = unit;
        best_cost = c;
    }
    round_all(n_quads, v, cost, best, lo, hi, codes);
    return best;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Gives every element its code under c's d, dmin, scale and min, and c its error. */
static void settle(const super *s, const qn_super_spec *spec, choice *c)
{
    qn_lane err = {0};

    for (int k = 0; k < s->n_quads; k++) {
        const qn_lane scale = c->d * c->scale[k], offset = -c->dmin * c->min[k];
        c->r[k] = qn__lanes_residuals(&s->quad[k], spec->codes, scale, offset, c->q + k * spec->sub);
        err += c->r[k].ee;
    }
    c->err = sum(err);
}

static void keep_better(choice *best, const choice *c)
{
    if (c->err < best->err) *best = *c;
}

static inline void select_lane(qn_lane *to, qn_lane from, qn_lane_int mask)
{
    *to = (qn_lane)((mask & (qn_lane_int)from) | (~mask & (qn_lane_int)*to));
}

/* Takes over those sub-blocks in which t, of the same d and dmin, leaves less. */
static void merge_better(const super *s, choice *c, const choice *t)
{
    qn_lane err = {0};

    for (int k = 0; k < s->n_quads; k++) {
        const int n = s->quad[k].n, at = k * n;
        const qn_lane_int better = t->r[k].ee < c->r[k].ee;

        select_lane(&c->scale[k], t->scale[k], better);
        select_lane(&c->min[k], t->min[k], better);
        select_lane(&c->r[k].ee, t->r[k].ee, better);
        select_lane(&c->r[k].e, t->r[k].e, better);
        select_lane(&c->r[k].eq, t->r[k].eq, better);
        select_lane(&c->r[k].q, t->r[k].q, better);
        select_lane(&c->r[k].qq, t->r[k].qq, better);
        for (int i = at; i < at + n; i++) select_lane(&c->q[i], t->q[i], better);
        err += c->r[k].ee;
    }
    c->err = sum(err);
}

/* Tries every scale one code higher, one lower, and as it is with the minimum that suits it best. What rounding a scale
 * costs is only known for codes that stay: a scale that was rounded down clips, one that was rounded up does not. */
static void try_neighbours(const super *s, const qn_super_spec *spec, choice *c)
{
    static const float steps[] = {1, -1, 0};
    choice t = *c;

    for (int i = 0; i < (spec->affine ? 3 : 2); i++) {
        for (int k = 0; k < s->n_quads; k++) {
            t.scale[k] = round_code(c->scale[k] + steps[i], spec->scale_lo, spec->scale_hi);
            if (c->dmin == 0) continue;
            const qn_lane moved = c->d * (t.scale[k] - c->scale[k]);
            const qn_lane min = c->dmin * c->min[k] + (c->r[k].q * moved - c->r[k].e) / c->r[k].w;
            t.min[k] = round_code(min / c->dmin, 0, spec->scale_hi);
        }
        settle(s, spec, &t);
        merge_better(s, c, &t);
    }
}

static bool is_exact(const super *s, const choice *c)
{
    qn_lane energy = {0};

    for (int k = 0; k < s->n_quads; k++)
        for (int i = 0; i < s->quad[k].n; i++) energy += s->quad[k].w[i] * s->quad[k].x[i] * s->quad[k].x[i];
    return c->err < EXACT * sum(energy) && c->err > 0;
}

/* ---- y = d scale q --------------------------------------------------------------------------- */

static void choose_scaled(const super *s, const qn_super_spec *spec, const qn_lane *wanted, float step, choice *c)
{
    qn_lane cost[MAX_QUADS];

    for (int k = 0; k < s->n_quads; k++)
        cost[k] = qn__lanes_residuals(&s->quad[k], spec->codes, wanted[k], (qn_lane){0}, NULL).qq;
    c->d = fit_unit(s->n_quads, wanted, cost, spec->scale_lo, spec->scale_hi, step, c->scale);
    settle(s, spec, c);
}

/* d that fits c's codes best. */
static float refit_d(const super *s, const choice *c)
{
    qn_lane a = {0}, b = {0};

    for (int k = 0; k < s->n_quads; k++) {
        a += c->scale[k] * c->scale[k] * c->r[k].qq;
        b += c->scale[k] * c->r[k].eq;
    }
    return sum(a) > 0 ? half(c->d + sum(b) / sum(a)) : c->d;
}

static void fit_scaled(const super *s, const qn_super_spec *spec, choice *best)
{
    qn_lane wanted[MAX_QUADS];
    choice c = {0};

    for (int k = 0; k < s->n_quads; k++) wanted[k] = qn__lanes_fit_scale(&s->quad[k], spec->codes, spec->starts);
    choose_scaled(s, spec, wanted, PLACE_STEP, &c);
    try_neighbours(s, spec, &c);
    *best = c;
    for (int i = 0; i < N_REFITS; i++) {
        c.d = refit_d(s, &c);
        settle(s, spec, &c);
        keep_better(best, &c);
    }
    for (int j = 0; j < N_ENDS && is_exact(s, best); j++) {
        const float code = qn__code_from_end(spec->codes, j);
        for (int k = 0; k < s->n_quads; k++) wanted[k] = qn__lanes_plain_scale(&s->quad[k], spec->codes, code);
        choose_scaled(s, spec, wanted, -1 / spec->scale_lo, &c);
        keep_better(best, &c);
    }
}

/* ---- y = d scale q - dmin min ---------------------------------------------------------------- */

/* Chooses scales for those wanted, then minima for these scales: where a scale was rounded up the minimum makes up for
 * it. */
static void choose_affine(const super *s, const qn_super_spec *spec, const qn_lane *scale, const qn_lane *offset,
                          float step, choice *c)
{
    qn_residuals r[MAX_QUADS];
    qn_lane cost[MAX_QUADS], min[MAX_QUADS];

    for (int k = 0; k < s->n_quads; k++) {
        r[k] = qn__lanes_residuals(&s->quad[k], spec->codes, scale[k], offset[k], NULL);
        cost[k] = r[k].qq - r[k].q * r[k].q / r[k].w;
        EACH_LANE(l) if (offset[k][l] == 0 || cost[k][l] < 0.01f * r[k].qq[l]) cost[k][l] = r[k].qq[l];
    }
    c->d = fit_unit(s->n_quads, scale, cost, 0, spec->scale_hi, step, c->scale);
    for (int k = 0; k < s->n_quads; k++) {
        min[k] = r[k].q / r[k].w * (c->d * c->scale[k] - scale[k]) - offset[k];
        EACH_LANE(l) min[k][l] = min[k][l] > 0 ? min[k][l] : 0;
        cost[k] = r[k].w;
    }
    c->dmin = fit_unit(s->n_quads, min, cost, 0, spec->scale_hi, step, c->min);
    settle(s, spec, c);
}

/* d and dmin that fit c's codes best, together; false when the codes don't tell them apart. */
static bool refit_both(const super *s, const choice *c, float *d, float *dmin)
{
    qn_lane aa = {0}, ab = {0}, bb = {0}, ea = {0}, eb = {0};

    for (int k = 0; k < s->n_quads; k++) {
        const qn_lane scale = c->scale[k], min = -c->min[k];
        aa += scale * scale * c->r[k].qq;
        ab += scale * min * c->r[k].q;
        bb += min * min * c->r[k].w;
        ea += scale * c->r[k].eq;
        eb += min * c->r[k].e;
    }
    const float det = sum(aa) * sum(bb) - sum(ab) * sum(ab);
    if (!(det > 1e-4f * sum(aa) * sum(bb))) return false;
    *d = half(c->d + (sum(ea) * sum(bb) - sum(eb) * sum(ab)) / det);
    *dmin = half(c->dmin + (sum(eb) * sum(aa) - sum(ea) * sum(ab)) / det);
    return true;
}

/* Keeps c and its refits where they are the best so far. */
static void refine_affine(const super *s, const qn_super_spec *spec, choice *c, choice *best)
{
    keep_better(best, c);
    for (int i = 0; i < N_REFITS; i++) {
        float d, dmin;
        if (!refit_both(s, c, &d, &dmin)) break;
        c->d = d;
        c->dmin = dmin;
        settle(s, spec, c);
        keep_better(best, c);
    }
}

static void fit_affine(const super *s, const qn_super_spec *spec, choice *best)
{
    qn_lane scale[MAX_QUADS], offset[MAX_QUADS];
    choice c = {0};

    for (int k = 0; k < s->n_quads; k++)
        scale[k] = qn__lanes_fit_affine(&s->quad[k], spec->codes, true, spec->starts, &offset[k]);
    choose_affine(s, spec, scale, offset, PLACE_STEP, &c);
    try_neighbours(s, spec, &c);
    *best = c;
    refine_affine(s, spec, &c, best);
    for (int j = 0; j < N_ENDS && spec->codes.hi - (float)j > 0 && is_exact(s, best); j++) {
        for (int k = 0; k < s->n_quads; k++)
            scale[k] = qn__lanes_plain_affine(&s->quad[k], true, spec->codes.hi - (float)j, &offset[k]);
        choose_affine(s, spec, scale, offset, 1 / spec->scale_hi, &c);
        refine_affine(s, spec, &c, best);
    }
}

/* ---- all blocks of a row --------------------------------------------------------------------- */

static void load(super *s, int n, const float *x, const float *importance)
{
    s->n_quads = QN_SUPER_ELEMS / QN_LANES / n;
    for (int k = 0; k < s->n_quads; k++) {
        s->quad[k] = (qn_lanes){n, s->x + k * n, s->w + k * n};
        qn__lanes_load(s->x + k * n, n, QN_LANES, x + k * n * QN_LANES);
    }
    qn__lanes_load_importance(s->w, n, QN_SUPER_ELEMS / n, importance, true);
}

static void emit(const super *s, const choice *c, qn_super_packed *out)
{
    const int n = s->quad[0].n;

    out->d = qn__f32_to_f16(c->d);
    out->dmin = qn__f32_to_f16(c->dmin);
    for (int k = 0; k < s->n_quads; k++) {
        EACH_LANE(l)
        {
            out->scale[QN_LANES * k + l] = (int8_t)c->scale[k][l];
            out->min[QN_LANES * k + l] = (int8_t)c->min[k][l];
            for (int i = 0; i < n; i++) out->q[(QN_LANES * k + l) * n + i] = (int8_t)c->q[k * n + i][l];
        }
    }
}

void qn__super_pack(const qn_super_spec *spec, const float *src, void *dst, int64_t n, const float *importance)
{
    unsigned char *block = dst;
    qn_super_packed packed;
    choice best;
    super s;

    for (int64_t i = 0; i < n; i += QN_SUPER_ELEMS, block += spec->block_bytes) {
        load(&s, spec->sub, src + i, importance ? importance + i : NULL);
        if (spec->affine)
            fit_affine(&s, spec, &best);
        else
            fit_scaled(&s, spec, &best);
        emit(&s, &best, &packed);
        spec->put(block, &packed);
    }
}
