/* SPDX-License-Identifier: MIT */
/* tests/unit/train/pack.c -- rows of conversations hold every token once, in order, with its target, and are nearly
 * full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

enum { N = 500, MOST = 61 };

static qn_train_talk talks[N];
static int32_t ids[N][MOST];
static uint8_t said[N][MOST];

static void make_talks(int32_t n_ctx)
{
    uint64_t state = 9;
    for (int i = 0; i < N; i++) {
        talks[i] = (qn_train_talk){ids[i], said[i], 2 + (int32_t)(qn__train_random(&state) % (uint64_t)n_ctx)};
        for (int32_t k = 0; k < talks[i].n; k++) {
            ids[i][k] = i * 100 + k;
            said[i][k] = qn__train_random(&state) % 3 == 0;
        }
    }
}

/* Whether the part that begins at that cell is its talk; marks it. */
static int32_t check_part(const qn_train_rows *r, int64_t at, bool *seen)
{
    const int32_t i = r->ids[at] / 100, n = talks[i].n - 1;
    assert_false(seen[i]);
    seen[i] = true;
    for (int32_t k = 0; k < n; k++) {
        assert_int_equal(r->ids[at + k], ids[i][k]);
        assert_int_equal(r->part[at + k], r->part[at]);
        assert_int_equal(r->targets[at + k], said[i][k + 1] ? ids[i][k + 1] : -1);
    }
    return n;
}

static void whole_and_full(void **state)
{
    (void)state;
    const int32_t n_ctx = 60;
    qn_train_rows r = {0};
    qn_error err;
    bool seen[N] = {false};
    int64_t fed = 0;
    make_talks(n_ctx);
    if (qn__talks_pack(talks, N, n_ctx, &r, &err) != QN_OK) fail_msg("%s", err.text);
    for (int64_t row = 0; row < r.n; row++) {
        int32_t k = 0, n_parts = 0, n_learnt = 0;
        for (; k < n_ctx && r.part[row * n_ctx + k] >= 0; n_parts++) {
            assert_int_equal(r.part[row * n_ctx + k], n_parts);
            k += check_part(&r, row * n_ctx + k, seen);
        }
        assert_true(n_parts > 0 && k <= n_ctx);
        fed += k;
        for (; k < n_ctx; k++) assert_true(r.part[row * n_ctx + k] == -1 && r.targets[row * n_ctx + k] == -1);
        for (k = 0; k < n_ctx; k++) n_learnt += r.targets[row * n_ctx + k] >= 0;
        assert_int_equal(r.n_learnt[row], n_learnt);
    }
    for (int i = 0; i < N; i++) assert_true(seen[i]);
    print_message("%lld rows, %.1f %% full\n", (long long)r.n, 100.0 * (double)fed / (double)(r.n * n_ctx));
    assert_true((double)fed > 0.97 * (double)(r.n * n_ctx));
    qn__rows_deinit(&r);
    assert_int_equal(r.n, 0);
}

static void none(void **state)
{
    (void)state;
    qn_train_rows r = {0};
    assert_int_equal(qn__talks_pack(talks, 0, 60, &r, NULL), QN_OK);
    assert_int_equal(r.n, 0);
    assert_null(r.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_and_full), cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
