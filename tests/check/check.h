/* SPDX-License-Identifier: MIT */
/* tests/check/check.h -- what the checks of kernels share. CHECK_KERNEL(NAME) in NAME.c is called by main.c for every
 * row of kernels.def at every level of the machine; a row without one does not link.
 *
 * Buffers have pages without access on both sides. A check places them so that they end at the upper page, begin at the
 * lower one, or lie one element after it; beside them, up to a page of what is accessible holds a pattern that
 * check_intact looks after. */
#ifndef QN_TESTS_CHECK_H
#define QN_TESTS_CHECK_H

#include "cpu/dispatch.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_SLOTS = 8 };

typedef struct check_slot {
    uint8_t *map; /* a page without access, `room` bytes, another such page */
    size_t room;
    uint8_t *data;
    size_t bytes;
    uint8_t *low, *high; /* the pattern lies in [low, high), apart from the data */
} check_slot;

/* What an oracle has said, in the order it was asked: at every level a row's check draws the same inputs, so that only
 * the first level's check has to ask. */
typedef struct check_oracle {
    struct check_answer {
        double exact, bound;
    } * answers;
    size_t n, room, next;
} check_oracle;

typedef struct check {
    const qn_kernels *kernels; /* the level under test */
    const qn_kernels *ref;     /* the reference level: every row gives its bits */
    const char *row;
    bool bench; /* time it instead of checking it */
    uint64_t random;
    check_slot slot[CHECK_SLOTS];
    char where[160]; /* what is being tried: goes before a failure's text */
    int64_t n_checks, n_failures;
    check_oracle oracle;
} check;

#define CHECK_KERNEL(name)                  void check_##name(check *t)
#define QN_KERNEL(name, bound, ret, params) CHECK_KERNEL(name);
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
void check_mm(check *t, qn_dtype dtype);
void check_unpack(check *t, qn_dtype dtype);

/* 0, 1, 2, 3, 5, 7, 8, ... 4099, then -1 */
extern const int64_t check_sizes[];
/* A few multiples of 32, then -1 */
extern const int64_t check_sizes_32[];

/* FILL(name, legal wherever a finite result is expected) */
/* clang-format off */
#define CHECK_FILL_ROWS(FILL) \
    FILL(random,    true)  /* normal, about 1 */ \
    FILL(zeros,     true)  /* of both signs */ \
    FILL(subnormal, true) \
    FILL(wide,      true)  /* 2^-30 to 2^30, both signs */ \
    FILL(positive,  true) \
    FILL(negative,  true) \
    FILL(alternate, true)  /* +100, -100: sums that vanish */ \
    FILL(spike,     true)  /* one large among small */ \
    FILL(huge,      false) /* up to FLT_MAX */ \
    FILL(special,   false) /* infinities and NaN among numbers */
/* clang-format on */
typedef enum check_fill_kind {
/* clang-format off */
#define FILL(name, finite) CHECK_FILL_##name,
    CHECK_FILL_ROWS(FILL)
#undef FILL
    CHECK_FILL_COUNT
    /* clang-format on */
} check_fill_kind;
const char *check_fill_name(check_fill_kind kind);
bool check_fill_finite(check_fill_kind kind); /* sums and products of it stay finite */
void check_fill(check *t, float *x, int64_t n, check_fill_kind kind);
uint64_t check_random(check *t);
double check_uniform(check *t, double lo, double hi);

typedef enum check_place { CHECK_AT_END, CHECK_AT_START, CHECK_SHIFTED, CHECK_PLACE_COUNT } check_place;
/* A guarded buffer, filled with a pattern; valid until the slot is used again. `elem` is how far CHECK_SHIFTED shifts.
 */
void *check_buffer(check *t, int slot, size_t bytes, size_t elem, check_place place);
float *check_floats(check *t, int slot, int64_t n, check_place place);
/* Nothing was written beside any buffer. */
void check_intact(check *t);

/* What is tried now, printf's way. */
void check_where(check *t, const char *fmt, ...) QN_PRINTF(2, 3);
void check_fail(check *t, const char *fmt, ...) QN_PRINTF(2, 3);
/* |got - want| <= bound; NaN wants NaN, an infinity the same one. */
void check_close(check *t, double got, double want, double bound, int64_t index);
/* The same bits, any NaN for a NaN. */
void check_same(check *t, const float *got, const float *want, int64_t n, const char *than);
void check_same_bytes(check *t, const void *got, const void *want, size_t n, const char *than);

/* y[i] = f(in[0][i], in[1][i], in[2][i]; s, b) rows: every size, fill and place, in place, over sub-ranges, against
 * `want` and the reference. */
typedef struct check_each {
    int n_in;
    bool adds;        /* the old y is a source too: in[n_in] */
    bool finite_only; /* the bound says nothing about overflow */
    void (*call)(const qn_kernels *kernels, float *y, const float *const *in, int64_t n);
    /* the exact value and how far the row may be from it */
    double (*want)(const float *in, double *bound);
} check_each;
void check_elements(check *t, const check_each *each);
/* each->want, asked once for all levels. */
double check_want(check *t, const check_each *each, const float *in, double *bound);

/* Runs `call` for a while and prints amount / second in units of 1e9. */
double check_now(void);
void check_report(check *t, const char *what, const char *unit, double amount, double seconds);
#define CHECK_BENCH(t, what, unit, amount, call) \
    do { \
        double begin_ = check_now(), spent_ = 0, done_ = 0; \
        for (int64_t batch_ = 1; spent_ < 0.04; batch_ *= 2) { \
            begin_ = check_now(); \
            for (int64_t i_ = 0; i_ < batch_; i_++) { call; } \
            spent_ = check_now() - begin_; \
            done_ = (double)batch_ * (double)(amount); \
        } \
        check_report(t, what, unit, done_, spent_); \
    } while (0)
enum { CHECK_BENCH_N = 4096 }; /* fits L1 with two more */

#endif
