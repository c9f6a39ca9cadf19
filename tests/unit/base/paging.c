/* SPDX-License-Identifier: MIT */
/* How memory for weights is shared out: what is read again for want of it is what is missing, and a window that is no
 * larger than it must be; nothing is read while all fits. Figures of a dense model and of a mixture of experts. */
#include "base/paging.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MB UINT64_C(1000000)

/* 1.1 B shape in Q4_K_M, and 16 layers of 64 experts: bytes as the engine counts them. */
static const qn_paging dense = {
    .block = QN_PAGING_BLOCK, .whole = 632 * MB, .tables = 37 * MB, .rows = 3 * MB, .greediest = 6};
static const qn_paging mixture = {.block = QN_PAGING_BLOCK,
                                  .whole = 85 * MB,
                                  .tables = 18 * MB,
                                  .rows = 2 * MB,
                                  .experts = 900 * MB,
                                  .at_once = 3 * 6 * 295 * 1000,
                                  .greediest = 2};

static qn_paging_share share_of(qn_paging x, uint64_t budget)
{
    x.budget = budget;
    return qn__paging_share(&x);
}

static uint64_t read_again(const qn_paging *x, const qn_paging_share *s)
{
    return s->keep < x->whole ? x->whole - s->keep : 0;
}

/* What a token reads of blocks grows by little where memory is just too small, and never falls as memory shrinks. */
static void little_is_missing(void **state)
{
    (void)state;
    const uint64_t all = dense.whole + dense.tables, indexed = all + all / QN_PAGING_INDEX;
    assert_true(share_of(dense, indexed).fits);
    for (uint64_t budget = indexed - 1; budget >= dense.whole + dense.rows;
         budget -= MB) { /* tables alone come and go */
        const qn_paging_share s = share_of(dense, budget);
        assert_false(s.fits);
        assert_int_equal(s.window, 0);
        assert_int_equal(s.window_bytes, 0);
        assert_int_equal(read_again(&dense, &s), 0);
    }
    for (uint64_t missing = 1; missing <= 4; missing++) {
        const qn_paging_share s = share_of(dense, dense.whole + dense.rows - missing * MB);
        assert_int_equal(s.window, 2);
        assert_true(read_again(&dense, &s) <= missing * MB + 2 * QN_PAGING_BLOCK);
    }
    uint64_t before = 0;
    for (uint64_t budget = indexed; budget > MB; budget -= MB) {
        const qn_paging_share s = share_of(dense, budget);
        const uint64_t now = read_again(&dense, &s);
        assert_true(now >= before);
        before = now;
        if (s.fits) continue;
        assert_true(s.keep + s.window_bytes + dense.rows <= budget || s.keep == 0);
        assert_true(s.window == 0 || s.window >= 2 * s.group);
        assert_true(s.window <= 2 * dense.greediest + 2);
    }
    assert_int_equal(before, dense.whole);
    assert_int_equal(share_of(dense, 0).keep, 0);
    assert_int_equal(share_of(dense, 300 * MB).group, QN_PAGING_GROUP);
}

static void experts_get_the_rest(void **state)
{
    (void)state;
    const uint64_t all = mixture.whole + mixture.experts + mixture.tables;
    assert_true(share_of(mixture, all + all / QN_PAGING_INDEX).fits);
    qn_paging_share s = share_of(mixture, mixture.whole + mixture.experts + mixture.rows);
    assert_true(!s.fits && s.window == 0);
    assert_int_equal(qn__paging_slots(s.keep - mixture.whole, mixture.experts, mixture.experts / 48, 64), 64);
    s = share_of(mixture, 400 * MB); /* blocks stay; experts come and go */
    assert_int_equal(s.window, 0);
    assert_int_equal(s.window_bytes, 2 * mixture.at_once);
    assert_true(s.keep > mixture.whole);
    s = share_of(mixture, 60 * MB); /* both come and go */
    assert_true(s.window > 0 && s.window_bytes == 2 * mixture.at_once + (uint64_t)s.window * mixture.block);
    assert_int_equal(qn__paging_slots(450 * MB, 900 * MB, 900 * MB / 48, 64), 32);
    assert_int_equal(qn__paging_slots(0, 900 * MB, 900 * MB / 48, 64), 0);
    assert_int_equal(qn__paging_slots(0, 0, 0, 3), 3);
}

static void rows_and_blocks(void **state)
{
    (void)state;
    assert_int_equal(qn__paging_rows(40 * MB, 32000), QN_PAGING_ROWS * (1250 + QN_PAGING_PAGE));
    assert_int_equal(qn__paging_rows(100, 10), 100);
    assert_int_equal(qn__paging_rows(100, 0), 100);
    assert_int_equal(qn__paging_rows(UINT64_MAX, 1), UINT64_MAX);
    assert_int_equal(qn__paging_block(1), QN_PAGING_PAGE);
    assert_int_equal(qn__paging_block(64 << 20), 512 << 10);
    assert_int_equal(qn__paging_block(UINT64_MAX / 2), QN_PAGING_BLOCK);
}

/* Several share a room evenly; who needs less leaves it to the others, and all that is there is given out. */
static void parts(void **state)
{
    (void)state;
    assert_int_equal(qn__paging_part(100, NULL, 0), 100);
    assert_int_equal(qn__paging_part(100, (uint64_t[]){1000}, 1), 50);
    assert_int_equal(qn__paging_part(100, (uint64_t[]){10}, 1), 90);
    assert_int_equal(qn__paging_part(100, (uint64_t[]){10, 1000}, 2), 45);
    assert_int_equal(qn__paging_part(100, (uint64_t[]){10, 40, 1000}, 3), 30); /* the 40 gets no more than others */
    assert_int_equal(qn__paging_part(100, (uint64_t[]){10, 20, 30, 1000}, 4), 23);
    assert_int_equal(qn__paging_part(0, (uint64_t[]){10, 20}, 2), 0);
    const uint64_t sizes[] = {7, 19, 23, 64, 900};
    uint64_t sum = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t others[4];
        for (int k = 0, n = 0; k < 5; k++)
            if (k != i) others[n++] = sizes[k];
        const uint64_t part = qn__paging_part(200, others, 4);
        sum += part < sizes[i] ? part : sizes[i];
    }
    assert_true(sum <= 200 && sum > 200 - 5);
}

/* ---- experts ---- */

typedef struct told {
    int n_read, n_dropped;
    bool in[8];
} told;

static void tell(void *ctx, int32_t expert, bool drop)
{
    told *t = ctx;
    assert_true(t->in[expert] == drop);
    t->in[expert] = !drop;
    t->n_read += !drop;
    t->n_dropped += drop;
}

static void choose(qn_paging_experts *x, told *t, int a, int b)
{
    qn__paging_choice_begin(x);
    qn__paging_choice_count(x, a);
    qn__paging_choice_count(x, b);
    qn__paging_choice_end(x, tell, t);
    assert_true(t->in[a] && t->in[b]); /* both are there at once, whatever the room */
    qn__paging_settle(x, tell, t);
}

static void favourites_stay(void **state)
{
    (void)state;
    for (int slots = 0; slots <= 8; slots++) {
        uint32_t count[8] = {0};
        int32_t seen[8] = {0};
        uint8_t here[8] = {0};
        told t = {0};
        qn_paging_experts x = {.n = 8, .slots = slots, .count = count, .seen = seen, .here = here};
        for (int i = 0; i < 20; i++) choose(&x, &t, 3, 5);
        for (int i = 0; i < 8; i++) choose(&x, &t, i, (i + 1) % 8);
        int n = 0;
        for (int i = 0; i < 8; i++) n += t.in[i];
        assert_int_equal(n, slots < 8 ? slots : 8);
        assert_true(slots < 1 || t.in[3] || t.in[5]);
        assert_true(slots < 2 || (t.in[3] && t.in[5]));
        assert_int_equal(x.hits + x.misses, 2 * 28);
        assert_int_equal(x.misses, (uint64_t)t.n_read);
        assert_int_equal(t.n_read - t.n_dropped, n);
        qn__paging_choice_begin(&x);
        qn__paging_choice_count(&x, -1);
        qn__paging_choice_count(&x, 8);
        qn__paging_choice_end(&x, tell, &t);
        assert_int_equal(x.hits + x.misses, 2 * 28);
    }
}

/* The first have places to begin with: each is told when it is chosen first, and doesn't count as missing. Those that
 * nobody chose give way, the last of them first, and what is chosen more often stays as ever. */
static void places_are_filled(void **state)
{
    (void)state;
    for (int slots = 0; slots <= 9; slots++) {
        uint32_t count[8] = {0};
        int32_t seen[8] = {0};
        uint8_t here[8] = {0};
        told t = {0};
        qn_paging_experts x = {.n = 8, .slots = slots, .count = count, .seen = seen, .here = here};
        const int n = slots < 8 ? slots : 8;
        qn__paging_fill(&x);
        assert_int_equal(x.n_here, n);
        for (int round = 0; round < 3; round++)
            for (int i = 0; i + 1 < n; i++) choose(&x, &t, i, i + 1);
        assert_int_equal(x.misses, 0);
        assert_int_equal(t.n_read, n > 1 ? n : 0); /* once each */
        if (n < 3 || n > 6) continue;
        qn__paging_fill(&x); /* as if nobody had asked */
        for (int i = 0; i < 8; i++) count[i] = 0;
        for (int i = 0; i < n; i++) t.in[i] = true;
        const told before = t;
        qn__paging_choice_begin(&x);
        qn__paging_choice_count(&x, 7);
        t.in[7] = false;
        qn__paging_choice_end(&x, tell, &t);
        assert_true(t.in[7] && !t.in[n - 1] && t.n_dropped == before.n_dropped + 1 && x.misses == 1);
    }
}

/* What was chosen long ago counts for less. */
static void counts_are_halved(void **state)
{
    (void)state;
    uint32_t count[8] = {0};
    int32_t seen[8] = {0};
    uint8_t here[8] = {0};
    told t = {0};
    qn_paging_experts x = {.n = 8, .slots = 2, .count = count, .seen = seen, .here = here};
    for (int i = 0; i < QN_PAGING_AGE * 8; i++) choose(&x, &t, 0, 1);
    assert_true(count[0] < QN_PAGING_AGE * 8);
    for (int i = 0; i < QN_PAGING_AGE * 8 * 2; i++) choose(&x, &t, 6, 7);
    assert_true(t.in[6] && t.in[7] && !t.in[0] && !t.in[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(little_is_missing), cmocka_unit_test(experts_get_the_rest),
                                       cmocka_unit_test(rows_and_blocks),   cmocka_unit_test(parts),
                                       cmocka_unit_test(favourites_stay),   cmocka_unit_test(places_are_filled),
                                       cmocka_unit_test(counts_are_halved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
