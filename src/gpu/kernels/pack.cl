/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/pack.cl -- blocks of caches: the search for a block's scale (and minimum), operation for operation
 * that of quant/lanes.c and quant/plain.c, whose comments say why. A work-item a block of 32. */

#define PACK_LARGEST 0x1p40f
#define PACK_TINY    0x1p-60f
#define PACK_BETTER  0.999999f
#define PACK_NOISE   1e-6f
#define PACK_REFITS  2
#define PACK_EXACT   0x1p-18f
#define PACK_COARSE  0x1p-14f
#define PACK_LSB     0x1p-24f
#define PACK_ENDS    8

DEVICE float lower(float x, float y) { return x < y ? x : y; }

/* The format at hand: its codes, and where searches begin. */
typedef struct pack_spec {
    float lo, hi;
    bool affine, levels; /* levels: those of IQ4 */
    CONSTANT_AT(qn_start) starts;
    int n_starts;
} pack_spec;

DEVICE float pack_code(float t, const pack_spec *p)
{
    t = lower(higher(t, p->lo), p->hi);
    if (!p->levels) return (t + 12582912.0f) - 12582912.0f;
    const int k = (int)(2 * (t + 127));
    int index = 0;
    for (int j = 0; j < 15; j++) index += k >= iq4_values[j] + iq4_values[j + 1] + 254;
    return (float)iq4_values[index];
}

typedef struct pack_sums {
    float ee, eq, qq;
} pack_sums;

/* Residuals with the nearest codes, which go to q. */
DEVICE pack_sums pack_residuals(const float *x, const pack_spec *p, float s, float o, float *q)
{
    const float inv = s > PACK_TINY || s < -PACK_TINY ? 1 / s : 0;
    pack_sums r = {0, 0, 0};
    for (int i = 0; i < 32; i++) {
        const float v = x[i] - o, k = pack_code(v * inv, p), e = v - s * k;
        q[i] = k;
        r.ee += e * e;
        r.eq += e * k;
        r.qq += k * k;
    }
    return r;
}

typedef struct pack_fit {
    float s, o, err;
} pack_fit;

DEVICE pack_fit pack_scale_pass(const float *x, const pack_spec *p, float inv)
{
    float ee = 0, eq = 0, qq = 0;
    for (int i = 0; i < 32; i++) {
        const float t = x[i] * inv, q = pack_code(t, p), e = t - q;
        ee += e * e;
        eq += q * e;
        qq += q * q;
    }
    const float unit = 1 / inv, fitted = eq / higher(qq, PACK_TINY);
    pack_fit f = {unit * (1 + fitted), 0, higher(ee - fitted * eq, PACK_NOISE * ee) * unit * unit};
    return f;
}

DEVICE pack_fit pack_affine_pass(const float *x, const pack_spec *p, float inv, float o)
{
    const float sw = 32;
    float se = 0, ee = 0, eq = 0, sq = 0, qq = 0;
    for (int i = 0; i < 32; i++) {
        const float t = (x[i] - o) * inv, q = pack_code(t, p), e = t - q;
        ee += e * e;
        se += e;
        eq += e * q;
        sq += q;
        qq += q * q;
    }
    const float unit = 1 / inv, det = sw * qq - sq * sq;
    const bool solvable = det > 1e-4f * sw * qq;
    const float slope = solvable ? (sw * eq - sq * se) / det : 0;
    const float shift = solvable ? (qq * se - sq * eq) / det : se / sw;
    const float err = ee - slope * eq - shift * se;
    pack_fit f = {unit * (1 + slope), o + shift * unit, higher(err, PACK_NOISE * ee) * unit * unit};
    return f;
}

DEVICE void pack_keep(pack_fit *best, pack_fit f)
{
    if (f.err < best->err * PACK_BETTER) *best = f;
}

/* What was chosen. */
typedef struct pack_choice {
    float s, o, err, q[32];
} pack_choice;

DEVICE float pack_half(float v) { return half_to_float(float_to_half(v > 65504 ? 65504 : v < -65504 ? -65504 : v)); }

DEVICE pack_sums pack_settle(const float *x, const pack_spec *p, float s, float o, pack_choice *c)
{
    c->s = pack_half(s);
    c->o = p->affine ? pack_half(o) : 0;
    const pack_sums r = pack_residuals(x, p, c->s, c->o, c->q);
    c->err = r.ee;
    return r;
}

DEVICE void pack_try(const float *x, const pack_spec *p, float s, float o, pack_choice *best)
{
    pack_choice c;
    pack_settle(x, p, s, o, &c);
    if (c.err < best->err) *best = c;
}

DEVICE bool pack_rounding_matters(const pack_choice *c, float qq)
{
    return (c->s < PACK_COARSE && c->s > -PACK_COARSE && c->err > 0) || c->err < PACK_EXACT * c->s * c->s * qq;
}

DEVICE void pack_scaled(const float *x, const pack_spec *p, pack_choice *best)
{
    float lowest = 0, highest = 0;
    for (int i = 0; i < 32; i++) {
        lowest = lower(x[i], lowest);
        highest = higher(x[i], highest);
    }
    const float ext = p->lo == -p->hi ? higher(highest, -lowest) : highest > -lowest ? highest : lowest;
    const bool zero = ext < PACK_TINY && ext > -PACK_TINY;
    pack_fit fit = {0, 0, 0x1p126f};
    for (int k = 0; k < p->n_starts + PACK_REFITS; k++)
        pack_keep(&fit, pack_scale_pass(x, p, zero ? 1 : k < p->n_starts ? p->starts[k].codes / ext : 1 / fit.s));
    const pack_sums r = pack_settle(x, p, zero ? 0 : fit.s, 0, best);
    if (!pack_rounding_matters(best, r.qq)) return;
    pack_try(x, p, best->s + PACK_LSB, 0, best);
    pack_try(x, p, best->s - PACK_LSB, 0, best);
    for (int j = 0; j < PACK_ENDS; j++) {
        const float code = p->levels ? (float)iq4_values[j] : -p->lo > p->hi ? p->lo + (float)j : p->hi - (float)j;
        if (code != 0) pack_try(x, p, ext / code, 0, best);
    }
}

DEVICE void pack_affine(const float *x, const pack_spec *p, pack_choice *best)
{
    float lowest = x[0], highest = x[0];
    for (int i = 0; i < 32; i++) {
        lowest = lower(x[i], lowest);
        highest = higher(x[i], highest);
    }
    const float width = highest - lowest;
    const bool flat = width < PACK_TINY;
    pack_fit fit = {0, 0, 0x1p126f};
    for (int k = 0; k < p->n_starts + PACK_REFITS; k++) {
        const bool start = k < p->n_starts;
        const float inv = flat ? 1 : start ? p->starts[k].codes / width : 1 / fit.s;
        pack_keep(&fit, pack_affine_pass(x, p, inv, start ? lowest - p->starts[k].shift / inv : fit.o));
    }
    const float o = flat ? lowest : fit.o;
    float s = flat || fit.s < PACK_TINY ? 0 : fit.s;
    const pack_sums r = pack_settle(x, p, s, o, best);
    s = best->s;
    if (r.qq > 0) s += r.eq / r.qq;
    pack_try(x, p, s, o, best);
    pack_try(x, p, width / p->starts[0].codes, lowest, best);
    if (!pack_rounding_matters(best, r.qq)) return;
    pack_try(x, p, best->s + PACK_LSB, best->o, best);
    pack_try(x, p, best->s + PACK_LSB, best->o - PACK_LSB, best);
    pack_try(x, p, best->s, best->o - PACK_LSB, best);
}

/* The integer that the format stores for a code. */
DEVICE uint32_t pack_stored(const pack_spec *p, float q)
{
    if (!p->levels) return (uint32_t)((int)q - (int)p->lo);
    uint32_t index = 0;
    for (int k = 1; k < 16; k++) index += (int)q >= iq4_values[k];
    return index;
}

#define PACK_SPEC(name, least, most, has_min, has_levels, list) \
    if (format == QN_GPU_##name) { \
        p.lo = least; \
        p.hi = most; \
        p.affine = has_min; \
        p.levels = has_levels; \
        p.starts = qn__starts_##list; \
        p.n_starts = (int)(sizeof(qn__starts_##list) / sizeof(qn_start)); \
    }

/* Elements that are not finite count as 0. */
DEVICE void pack_block(GLOBAL const float *from, int32_t format, GLOBAL uint8_t *to)
{
    const bool fifth_bits = format == QN_GPU_Q5_0 || format == QN_GPU_Q5_1;
    pack_spec p = {0};
    PACK_SPEC(IQ4_NL, -127, 113, false, true, levels)
    PACK_SPEC(Q4_0, -8, 7, false, false, scale_4)
    PACK_SPEC(Q4_1, 0, 15, true, false, affine_4)
    PACK_SPEC(Q5_0, -16, 15, false, false, scale_5)
    PACK_SPEC(Q5_1, 0, 31, true, false, affine_5)
    pack_choice best;
    float x[32];
    for (int i = 0; i < 32; i++) x[i] = lower(higher(isfinite(from[i]) ? from[i] : 0, -PACK_LARGEST), PACK_LARGEST);
    if (p.affine)
        pack_affine(x, &p, &best);
    else
        pack_scaled(x, &p, &best);
    const uint16_t d = float_to_half(best.s), m = float_to_half(best.o);
    uint32_t high = 0;
    *to++ = (uint8_t)d;
    *to++ = (uint8_t)(d >> 8);
    if (p.affine) {
        *to++ = (uint8_t)m;
        *to++ = (uint8_t)(m >> 8);
    }
    for (int i = 0; i < 32; i++) high |= (pack_stored(&p, best.q[i]) >> 4 & 1) << i;
    for (int i = 0; i < 4 && fifth_bits; i++) *to++ = (uint8_t)(high >> 8 * i);
    for (int i = 0; i < 16; i++)
        *to++ = (uint8_t)((pack_stored(&p, best.q[i]) & 15) | (pack_stored(&p, best.q[i + 16]) & 15) << 4);
}
