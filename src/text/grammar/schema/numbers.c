/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/numbers.c -- numbers between bounds as digits, to any length. A number is compared with a
 * bound as it is read: first by how many digits stand before the point, then digit by digit, with two flags: so far
 * equal to the lower bound, so far equal to the upper one. */
#include "text/grammar/schema/schema.h"

#include <math.h>

/* ---- decimals -------------------------------------------------------------------------------------------- */

/* digits: without a sign or point. */
static qn_decimal decimal(const char *digits, int32_t n, int32_t point, bool negative)
{
    while (n > 0 && *digits == '0') digits++, n--, point--;
    while (n > 0 && digits[n - 1] == '0') n--;
    return (qn_decimal){digits, n, n ? point : 0, negative && n > 0};
}

bool qn__decimal_of(qn_schema *c, qn_val number, qn_decimal *out)
{
    char text[40], *end = text;
    const char *p = text;
    size_t n;
    if (number.type == QN_VAL_big) {
        p = number.s->data;
        n = number.s->n;
    } else if (number.type == QN_VAL_float) {
        if (!isfinite(number.f)) return false;
        n = (size_t)qn__print_float(text, number.f);
    } else {
        uint64_t rest = number.i < 0 ? 0 - (uint64_t)number.i : (uint64_t)number.i;
        end = text + sizeof text;
        do *--end = (char)('0' + rest % 10);
        while (rest /= 10);
        if (number.i < 0) *--end = '-';
        p = end;
        n = (size_t)(text + sizeof text - end);
    }
    char *digits = qn__schema_alloc(c, n + 1, 1);
    int32_t n_digits = 0, point = -1;
    int64_t exponent = 0;
    const bool negative = *p == '-';
    if (!digits) return false;
    for (size_t i = negative; i < n; i++) {
        if (p[i] == '.') {
            point = n_digits;
        } else if ((p[i] | 0x20) == 'e') {
            char power[16] = "";
            const size_t from = i + 1 + (p[i + 1] == '+');
            for (size_t k = from; k < n && k - from < sizeof power - 1; k++) power[k - from] = p[k];
            if (!qn__parse_i64(power, -1000, 1000, &exponent)) return false;
            break;
        } else {
            digits[n_digits++] = p[i];
        }
    }
    if (point < 0) point = n_digits;
    *out = decimal(digits, n_digits, point + (int32_t)exponent, negative);
    return true;
}

static int compare_size(const qn_decimal *a, const qn_decimal *b)
{
    if (!a->n || !b->n) return (a->n > 0) - (b->n > 0);
    if (a->point != b->point) return a->point < b->point ? -1 : 1;
    const int32_t n = a->n < b->n ? a->n : b->n;
    const int order = memcmp(a->digits, b->digits, (size_t)n);
    return order ? (order > 0) - (order < 0) : (a->n > b->n) - (a->n < b->n);
}

int qn__decimal_compare(const qn_decimal *a, const qn_decimal *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    return a->negative ? compare_size(b, a) : compare_size(a, b);
}

/* A bound for integers that is one itself: the next one above (sign 1) or below (sign -1) that may be had. */
static bool whole_bound(qn_schema *c, const qn_bound *b, int sign, qn_bound *out)
{
    const qn_decimal *d = &b->at;
    const bool whole = d->n <= d->point || !d->n, away = (d->negative ? -1 : 1) == sign; /* away from zero */
    *out = (qn_bound){*d, false};
    if (whole && !b->exclusive) return true;
    const int32_t n = d->point > 0 && d->n ? d->point : 0; /* digits before the point */
    char *digits = qn__schema_alloc(c, (size_t)n + 3, 1);
    if (!digits) return false;
    digits[0] = '0';
    for (int32_t i = 0; i < n; i++) digits[i + 1] = i < d->n ? d->digits[i] : '0';
    int32_t at = n;
    if (!d->n) {
        digits[0] = '1'; /* from zero, exclusive */
        out->at = decimal(digits, 1, 1, sign < 0);
        return true;
    }
    if (away) {
        for (; digits[at] == '9'; at--) digits[at] = '0';
        digits[at]++;
    } else if (whole) {
        for (; digits[at] == '0'; at--) digits[at] = '9';
        digits[at]--;
    }
    out->at = decimal(digits, n + 1, n + 1, d->negative);
    return true;
}

/* The bounds that hold; false when there is nothing between them. */
static bool bounds_of(qn_schema *c, const qn_schema_shape *s, qn_bound *lo, qn_bound *hi)
{
    if (s->lo) *lo = *s->lo;
    if (s->hi) *hi = *s->hi;
    if (s->integer && s->lo && !whole_bound(c, s->lo, 1, lo)) return false;
    if (s->integer && s->hi && !whole_bound(c, s->hi, -1, hi)) return false;
    if (!s->lo || !s->hi) return true;
    const int order = qn__decimal_compare(&lo->at, &hi->at);
    return order < 0 || (order == 0 && !lo->exclusive && !hi->exclusive);
}

bool qn__number_is_empty(qn_schema *c, const qn_schema_shape *s)
{
    qn_bound lo, hi;
    return !bounds_of(c, s, &lo, &hi) && qn__schema_going(c);
}

/* ---- digits ------------------------------------------------------------------------------------------------ */

enum { AT_LO = 1, AT_HI = 2 };

/* Sizes between two bounds: without a sign. */
typedef struct range {
    qn_schema *c;
    const qn_bound *lo, *hi; /* hi NULL: none */
    bool integer;
    int32_t to;
} range;

static int32_t n_whole(const qn_decimal *d) { return d->n && d->point > 0 ? d->point : 1; }
static char whole_digit(const qn_decimal *d, int32_t i) /* i-th of the digits before the point */
{
    return d->n && d->point > 0 && i < d->n ? d->digits[i] : '0';
}
static int32_t n_fraction(const qn_decimal *d) { return d->n > d->point ? d->n - d->point : 0; }
static char fraction_digit(const qn_decimal *d, int32_t i)
{
    const int32_t at = i + d->point;
    return at >= 0 && at < d->n ? d->digits[at] : '0';
}

static void free_digits(range *r, int32_t from, int32_t to) /* one or more */
{
    const int32_t more = qn__emit_state(r->c);
    qn__emit_bytes(r->c, from, more, '0', '9');
    qn__emit_bytes(r->c, more, more, '0', '9');
    qn__emit_empty(r->c, more, to);
}

static void zeros(qn_schema *c, int32_t from, int32_t to) /* ".0" */
{
    const int32_t point = qn__emit_state(c), more = qn__emit_state(c);
    qn__emit_bytes(c, from, point, '.', '.');
    qn__emit_bytes(c, point, more, '0', '0');
    qn__emit_bytes(c, more, more, '0', '0');
    qn__emit_empty(c, more, to);
}

/* Whether the number may end after n digits of its fraction, all as the flags say. */
static bool may_end(const range *r, int flags, int32_t n)
{
    if ((flags & AT_LO) && (n < n_fraction(&r->lo->at) || r->lo->exclusive)) return false;
    return !(flags & AT_HI) || n < n_fraction(&r->hi->at) || !r->hi->exclusive;
}

/* What stands behind the digits before the point. */
static void fraction(range *r, int32_t from, int flags)
{
    qn_schema *c = r->c;
    int32_t states[4] = {-1, -1, -1, -1};
    if (may_end(r, flags, 0)) qn__emit_empty(c, from, r->to);
    if (r->integer) {
        if (c->options.whole_fractions && may_end(r, flags, 0)) zeros(c, from, r->to);
        return;
    }
    states[flags] = qn__emit_state(c);
    qn__emit_bytes(c, from, states[flags], '.', '.');
    if (flags == 0) {
        free_digits(r, states[0], r->to);
        return;
    }
    int32_t longest = flags & AT_LO ? n_fraction(&r->lo->at) : 1;
    if ((flags & AT_HI) && n_fraction(&r->hi->at) > longest) longest = n_fraction(&r->hi->at);
    if (longest == 0) longest = 1;
    const int32_t free_state = qn__emit_state(c);
    free_digits(r, free_state, r->to);
    /* behind `longest` digits only zeros keep a flag, so the state leads to itself */
    for (int32_t i = 0; i <= longest && !c->g->failed; i++) {
        int32_t next[4] = {-1, -1, -1, -1};
        for (int f = 1; f < 4; f++) {
            if (states[f] < 0) continue;
            const char low = f & AT_LO ? fraction_digit(&r->lo->at, i) : '0';
            const char high = f & AT_HI ? fraction_digit(&r->hi->at, i) : '9';
            for (char digit = low; digit <= high; digit++) {
                const int g = ((f & AT_LO) && digit == low ? AT_LO : 0) | ((f & AT_HI) && digit == high ? AT_HI : 0);
                if (next[g] < 0) next[g] = i == longest && g == f ? states[f] : qn__emit_state(c);
                qn__emit_bytes(c, states[f], next[g], (uint8_t)digit, (uint8_t)digit);
            }
        }
        if (next[0] >= 0) {
            qn__emit_empty(c, next[0], r->to);
            qn__emit_empty(c, next[0], free_state);
        }
        for (int f = 1; f < 4 && i < longest; f++)
            if (next[f] >= 0 && may_end(r, f, i + 1)) qn__emit_empty(c, next[f], r->to);
        memcpy(states, next, sizeof states);
        states[0] = -1;
    }
}

/* Numbers with exactly n digits before the point, of which `flags` says which bounds have as many. */
static void tight(range *r, int32_t from, int32_t n, int flags)
{
    qn_schema *c = r->c;
    int32_t states[4] = {-1, -1, -1, -1};
    states[flags] = from;
    for (int32_t i = 0; i < n && qn__schema_going(c) && !c->g->failed; i++) {
        int32_t next[4] = {-1, -1, -1, -1};
        for (int f = 0; f < 4; f++) {
            if (states[f] < 0) continue;
            const char low = f & AT_LO ? whole_digit(&r->lo->at, i) : i == 0 && n > 1 ? '1' : '0';
            const char high = f & AT_HI ? whole_digit(&r->hi->at, i) : '9';
            for (char digit = low; digit <= high; digit++) {
                const int g = ((f & AT_LO) && digit == low ? AT_LO : 0) | ((f & AT_HI) && digit == high ? AT_HI : 0);
                if (next[g] < 0) next[g] = qn__emit_state(c);
                qn__emit_bytes(c, states[f], next[g], (uint8_t)digit, (uint8_t)digit);
            }
        }
        memcpy(states, next, sizeof states);
    }
    for (int f = 0; f < 4; f++)
        if (states[f] >= 0) fraction(r, states[f], f);
}

/* Numbers with `least` digits before the point to `most` (below 0: any number). */
static void loose(range *r, int32_t from, int32_t least, int32_t most)
{
    qn_schema *c = r->c;
    int32_t here = from;
    if (most >= 0 && most < least) return;
    const int32_t end = qn__emit_state(c);
    fraction(r, end, 0);
    if (least == 1) qn__emit_bytes(c, from, end, '0', '0');
    for (int32_t i = 1; i <= (most < 0 ? least : most) && qn__schema_going(c) && !c->g->failed; i++) {
        const int32_t next = qn__emit_state(c);
        qn__emit_bytes(c, here, next, i == 1 ? '1' : '0', '9');
        here = next;
        if (i >= least) qn__emit_empty(c, here, end);
    }
    if (most < 0) qn__emit_bytes(c, here, here, '0', '9');
}

static void sizes(qn_schema *c, const qn_bound *lo, const qn_bound *hi, bool integer, int32_t from, int32_t to)
{
    static const qn_bound zero;
    range r = {c, lo ? lo : &zero, hi, integer, to};
    const int32_t shortest = n_whole(&r.lo->at), longest = hi ? n_whole(&hi->at) : -1;
    if (hi) {
        const int order = compare_size(&r.lo->at, &hi->at);
        if (order > 0 || (order == 0 && (r.lo->exclusive || hi->exclusive))) return;
    }
    tight(&r, from, shortest, AT_LO | (longest == shortest ? AT_HI : 0));
    loose(&r, from, shortest + 1, longest < 0 ? -1 : longest - 1);
    if (longest > shortest) tight(&r, from, longest, AT_HI);
}

void qn__emit_number(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to)
{
    qn_bound lo, hi;
    if (!s->lo && !s->hi) {
        qn__emit_call(c, from, to, qn__general_rule(c, s->integer ? QN_GENERAL_integer : QN_GENERAL_number));
        return;
    }
    if (!bounds_of(c, s, &lo, &hi)) return;
    static const qn_bound zero;
    const int sign_lo = !s->lo           ? -1
                        : lo.at.negative ? -1
                                         : lo.at.n > 0,
              sign_hi = !s->hi           ? 1
                        : hi.at.negative ? -1
                                         : hi.at.n > 0;
    if (sign_hi >= 0) sizes(c, sign_lo >= 0 ? &lo : &zero, s->hi ? &hi : NULL, s->integer, from, to);
    if (sign_lo >= 0) return;
    const int32_t minus = qn__emit_state(c);
    qn_bound most = lo, least = hi; /* of the size */
    most.at.negative = least.at.negative = false;
    qn__emit_bytes(c, from, minus, '-', '-');
    sizes(c, sign_hi <= 0 ? &least : &zero, s->lo ? &most : NULL, s->integer, minus, to);
}
