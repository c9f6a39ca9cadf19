/* SPDX-License-Identifier: MIT */
/* src/base/trace_text.c -- what a recording is told and what it writes, as text and packed numbers: lists of ranges and
 * of names; numbers of as few bytes as they need. */
#include "base/trace.h"
#include <string.h>

bool qn__trace_in_ranges(const char *list, int64_t x, bool *valid)
{
    bool in = list == NULL;
    if (valid) *valid = true;
    for (const char *p = list; p && *p;) {
        char one[64];
        const size_t n = strcspn(p, ",");
        int64_t lo, hi = INT32_MAX;
        if (n < sizeof one) {
            memcpy(one, p, n);
            one[n] = '\0';
            char *dash = n > 0 ? strchr(one + 1, '-') : NULL;
            if (dash) *dash = '\0';
            const bool ok = qn__parse_i64(one, -1, INT32_MAX, &lo) &&
                            (!dash || dash[1] == '\0' || qn__parse_i64(dash + 1, lo, INT32_MAX, &hi));
            if (!dash) hi = lo;
            if (!ok && valid) *valid = false;
            if (ok && x >= lo && x <= hi) in = true;
        } else if (valid) {
            *valid = false;
        }
        p += n + (p[n] == ',');
    }
    return in;
}

bool qn__trace_in_names(const char *list, const char *name)
{
    if (!list) return true;
    for (const char *p = list; *p;) {
        char one[128];
        const size_t n = strcspn(p, ",");
        if (n > 0 && n < sizeof one) {
            memcpy(one, p, n);
            one[n] = '\0';
            if (qn__glob_match(one, name)) return true;
        }
        p += n + (p[n] == ',');
    }
    return false;
}

void qn__put_varint(qn_str *s, uint64_t x)
{
    uint8_t b[10];
    size_t n = 0;
    for (; x > 127; x >>= 7) b[n++] = (uint8_t)(x | 128);
    b[n++] = (uint8_t)x;
    qn__str_append(s, b, n);
}

void qn__put_signed(qn_str *s, int64_t x) { qn__put_varint(s, (uint64_t)x << 1 ^ (x < 0 ? UINT64_MAX : 0)); }

void qn__put_text(qn_str *s, const char *text, size_t n)
{
    qn__put_varint(s, n);
    qn__str_append(s, text, n);
}
