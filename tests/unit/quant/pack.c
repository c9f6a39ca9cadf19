/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/pack.c -- packing leaves no more error than ggml's packers do (pack_figures.h), importance steers
 * it, a block depends on nothing but itself, and what cannot be packed is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "quant/quant.h"
#include "rows.h"

#include "pack_bits.h"
#include "pack_figures.h"

#define N_FIGURES (sizeof pack_figures / sizeof pack_figures[0])
#define N_BITS    (sizeof pack_bits / sizeof pack_bits[0])
/* How far above the reference an error may be; what was measured lies between 0 and 1. */
#define SLACK     1.02

static float x[N_ROWS * N_COLS], y[N_ROWS * N_COLS], w[N_COLS];
static unsigned char packed[N_ROWS * N_COLS * 8];

static const char *const dist_names[] = {
#define DIST(name, value) #name,
    DIST_ROWS(DIST)
#undef DIST
};

static double pack_and_measure(qn_dtype dtype, const float *importance, const float *weights)
{
    qn_error err = {0};

    if (qn_pack(dtype, x, packed, N_ROWS, N_COLS, importance, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_unpack(dtype, packed, y, N_ROWS * N_COLS, NULL), QN_OK);
    return rows_error(x, y, weights);
}

static void errors_are_at_most_the_references(void **state)
{
    (void)state;
    const float none[N_ROWS * N_COLS] = {0};

    for (size_t f = 0; f < N_FIGURES; f++) {
        qn_dtype dtype;
        assert_true(qn_dtype_find(pack_figures[f].name, &dtype));
        for (int dist = 0; dist < N_DISTS; dist++) {
            for (int s = 0; s < N_SCALES; s++) {
                const double limit = pack_figures[f].error[dist][s] * SLACK;
                rows_fill(dist, rows_scale[s], x);
                const double error = pack_and_measure(dtype, NULL, NULL), energy = rows_error(x, none, NULL);
                if (!(error <= limit) || !(error <= energy * 1.000001))
                    fail_msg("%s, %s times %g: error %g, reference %g, energy %g", pack_figures[f].name,
                             dist_names[dist], rows_scale[s], error, pack_figures[f].error[dist][s], energy);
            }
        }
    }
}

static void weighted_errors_are_at_most_the_references(void **state)
{
    (void)state;
    rows_importance(w);
    for (size_t f = 0; f < N_FIGURES; f++) {
        qn_dtype dtype;
        assert_true(qn_dtype_find(pack_figures[f].name, &dtype));
        for (int dist = 0; dist < N_DISTS; dist++) {
            rows_fill(dist, 1, x);
            const double error = pack_and_measure(dtype, w, w), blind = pack_and_measure(dtype, NULL, w);
            if (!(error <= pack_figures[f].weighted[dist] * SLACK))
                fail_msg("%s, %s: weighted error %g, reference %g", pack_figures[f].name, dist_names[dist], error,
                         pack_figures[f].weighted[dist]);
            if (!(error <= blind * 1.000001))
                fail_msg("%s, %s: weighted error %g with importance, %g without", pack_figures[f].name,
                         dist_names[dist], error, blind);
            if (dist == DIST_gaussian && !(error < blind * 0.995))
                fail_msg("%s: importance only brings the weighted error from %g to %g", pack_figures[f].name, blind,
                         error);
        }
    }
}

static uint64_t hash_packed(uint64_t h, qn_dtype dtype)
{
    const size_t n = (size_t)qn_dtype_row_bytes(dtype, N_COLS) * N_ROWS;
    for (size_t i = 0; i < n; i++) h = (h ^ packed[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* The bytes are the same on every machine, and stay what they are: a search that has become worse within the limits
 * above shows here. On purpose changed? The message has the new row. */
static void bytes_stay(void **state)
{
    (void)state;
    static const int dists[] = {DIST_gaussian, DIST_laplace, DIST_positive, DIST_outlier, DIST_offset};
    int changed = 0;

    rows_importance(w);
    for (size_t f = 0; f < N_FIGURES; f++) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        qn_dtype dtype;
        assert_true(qn_dtype_find(pack_figures[f].name, &dtype));
        for (size_t i = 0; i < sizeof dists / sizeof dists[0]; i++) {
            rows_fill(dists[i], 0.02, x);
            for (int k = 0; k < 2; k++) {
                if (qn_pack(dtype, x, packed, N_ROWS, N_COLS, k ? w : NULL, NULL) != QN_OK) fail_msg("not packed");
                h = hash_packed(h, dtype);
            }
        }
        const char *name = f < N_BITS ? pack_bits[f].name : "";
        if (f < N_BITS && h == pack_bits[f].hash && !strcmp(name, pack_figures[f].name)) continue;
        printf("    {\"%s\", UINT64_C(0x%016llx)},\n", pack_figures[f].name, (unsigned long long)h);
        changed++;
    }
    assert_int_equal(changed, 0);
}

/* Formats that other writers pack must pack here, and those that pack must have figures. */
static void what_packs(void **state)
{
    (void)state;
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        bool has_figure = info->class_ == QN_CLASS_real;

        for (size_t f = 0; f < N_FIGURES; f++) has_figure = has_figure || strcmp(pack_figures[f].name, info->name) == 0;
        if (qn_dtype_can_pack((qn_dtype)d) != has_figure)
            fail_msg("%s: packs %d, has a figure %d", info->name, !has_figure, has_figure);
        if (has_figure) continue;
        qn_error err = {0};
        assert_int_equal(qn_pack((qn_dtype)d, x, packed, 1, 256, NULL, &err), QN_STATUS_unsupported);
        assert_non_null(strstr(err.text, info->name));
    }
    assert_false(qn_dtype_can_pack(QN_DTYPE_COUNT));
    assert_false(qn_dtype_can_pack((qn_dtype)-1));
}

/* However many blocks and rows are packed at once, and wherever to, the bytes are the same; every byte of a block is
 * written. */
static void blocks_are_independent(void **state)
{
    (void)state;
    static unsigned char again[sizeof packed];

    rows_importance(w);
    rows_fill(DIST_laplace, 0.02, x);
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);

        if (!qn_dtype_can_pack((qn_dtype)d)) continue;
        for (int weighted = 0; weighted < 2; weighted++) {
            const size_t bytes = (size_t)qn_dtype_row_bytes((qn_dtype)d, N_COLS) * 2;
            memset(packed, 0, sizeof packed);
            memset(again, 0xff, sizeof again);
            assert_int_equal(qn_pack((qn_dtype)d, x, packed, 2, N_COLS, weighted ? w : NULL, NULL), QN_OK);
            unsigned char *to = again + 1;
            const int64_t step = info->block_elems == 1 ? 64 : info->block_elems;
            for (int64_t at = 0; at < 2 * N_COLS; at += step, to += qn_dtype_row_bytes((qn_dtype)d, step))
                assert_int_equal(qn_pack((qn_dtype)d, x + at, to, 1, step, weighted ? w + at % N_COLS : NULL, NULL),
                                 QN_OK);
            if (memcmp(packed, again + 1, bytes) != 0) fail_msg("%s: a block packed alone differs", info->name);
            assert_int_equal(again[bytes + 1], 0xff);
        }
    }
}

/* Values far beyond binary16, subnormal ones, all at once: finite comes out, and large values come out large. */
static void extremes_saturate(void **state)
{
    (void)state;
    static const float nasty[] = {FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f, 0,       -0.0f, 1,
                                  -3e38f,  65504,    65520,   1e20f,  -1e-20f, 5e5f,  1e9f};

    rows_importance(w);
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);

        if (!qn_dtype_can_pack((qn_dtype)d) || info->class_ != QN_CLASS_block) continue;
        for (uint64_t round = 0; round < 60; round++) {
            const int kinds = 1 + (int)(round % 14);
            for (int i = 0; i < 512; i++)
                x[i] = nasty[(random_word(round, (uint64_t)i) % (uint64_t)kinds + round) % 14];
            for (int i = 0; i < 512; i++) w[i] = round % 3 ? fabsf(x[511 - i]) : 0;
            assert_int_equal(qn_pack((qn_dtype)d, x, packed, 1, 512, round % 2 ? w : NULL, NULL), QN_OK);
            assert_int_equal(qn_unpack((qn_dtype)d, packed, y, 512, NULL), QN_OK);
            for (int i = 0; i < 512; i++)
                if (!isfinite(y[i])) fail_msg("%s: %g became %g", info->name, (double)x[i], (double)y[i]);
        }
        for (int i = 0; i < 512; i++) x[i] = i % 2 ? -1e30f : 1e30f;
        assert_int_equal(qn_pack((qn_dtype)d, x, packed, 1, 512, NULL, NULL), QN_OK);
        assert_int_equal(qn_unpack((qn_dtype)d, packed, y, 512, NULL), QN_OK);
        for (int i = 0; i < 512; i++)
            if (!(i % 2 ? y[i] <= -2000 : y[i] >= 2000))
                fail_msg("%s: %g became %g", info->name, (double)x[i], (double)y[i]);
    }
}

/* Columns that do not matter still get values of their own size. */
static void importance_of_zero(void **state)
{
    (void)state;
    rows_fill(DIST_gaussian, 1, x);
    for (size_t f = 0; f < N_FIGURES; f++) {
        qn_dtype dtype;
        assert_true(qn_dtype_find(pack_figures[f].name, &dtype));
        const double limit = 1.5 * pack_and_measure(dtype, NULL, NULL);

        for (int i = 0; i < N_COLS; i++) w[i] = 0;
        assert_true(pack_and_measure(dtype, w, NULL) <= limit);
        for (int i = 0; i < N_COLS; i++) w[i] = i / 32 % 2 ? 1e30f : 0;
        assert_true(pack_and_measure(dtype, w, NULL) <= 2 * limit);
        for (int i = 0; i < N_COLS; i++) w[i] = i / 256 % 2 ? 1e-40f : 0;
        assert_true(pack_and_measure(dtype, w, NULL) <= 2 * limit);
    }
}

static void refuses(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    qn_error err = {0};

    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        const qn_dtype t = (qn_dtype)d;

        if (!qn_dtype_can_pack(t)) continue;
        rows_fill(DIST_gaussian, 1, x);
        rows_importance(w);
        for (int k = 0; k < 3; k++) {
            x[5 * N_COLS + 1023] = bad[k];
            memset(packed, 0x5a, sizeof packed);
            assert_int_equal(qn_pack(t, x, packed, N_ROWS, N_COLS, NULL, &err), QN_STATUS_invalid);
            assert_non_null(strstr(err.text, "row 5, column 1023"));
            assert_non_null(strstr(err.text, info->name));
            for (int i = 0; i < 64; i++) assert_int_equal(packed[i], 0x5a);
            assert_int_equal(qn_pack(t, x, packed, 5, N_COLS, NULL, &err), QN_OK);
            x[5 * N_COLS + 1023] = 0;

            w[77] = k == 2 ? -1 : bad[k];
            assert_int_equal(qn_pack(t, x, packed, 1, N_COLS, w, &err), QN_STATUS_invalid);
            assert_non_null(strstr(err.text, "column 77"));
            w[77] = 1;
        }
        assert_int_equal(qn_pack(t, x, packed, -1, N_COLS, NULL, &err), QN_STATUS_invalid);
        assert_int_equal(qn_pack(t, x, packed, 1, -info->block_elems, NULL, &err), QN_STATUS_invalid);
        assert_int_equal(qn_pack(t, NULL, packed, 1, N_COLS, NULL, &err), QN_STATUS_invalid);
        assert_int_equal(qn_pack(t, x, NULL, 1, N_COLS, NULL, NULL), QN_STATUS_invalid);
        assert_int_equal(qn_pack(t, x, packed, INT64_MAX / 8, N_COLS, NULL, &err), QN_STATUS_invalid);
        assert_int_equal(qn_pack(t, x, packed, 0, N_COLS, NULL, &err), QN_OK);
        assert_int_equal(qn_pack(t, x, packed, 3, 0, NULL, &err), QN_OK);
        if (info->block_elems > 1) {
            assert_int_equal(qn_pack(t, x, packed, 1, info->block_elems + 1, NULL, &err), QN_STATUS_invalid);
            assert_int_equal(qn_pack(t, x, packed, 1, info->block_elems - 1, NULL, &err), QN_STATUS_invalid);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_at_most_the_references),
        cmocka_unit_test(weighted_errors_are_at_most_the_references),
        cmocka_unit_test(bytes_stay),
        cmocka_unit_test(what_packs),
        cmocka_unit_test(blocks_are_independent),
        cmocka_unit_test(extremes_saturate),
        cmocka_unit_test(importance_of_zero),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
