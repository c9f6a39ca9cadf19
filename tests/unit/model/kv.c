/* SPDX-License-Identifier: MIT */
/* The cell tables against a naive model: each sequence an array by position, each cell counted by who lists it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/kv.h"

enum { N_CELLS = 48, N_SEQ = 4, N_POS = 40 };

/* What the naive model remembers: the token at a position of a sequence, -1 none. */
typedef struct naive {
    int32_t token[N_SEQ][N_POS];
} naive;

static const qn_kv_size size = {.n_seq = N_SEQ, .n_cells = N_CELLS, .most = N_CELLS, .row = N_CELLS};

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

static void check_invariants(const qn_kv *kv, const naive *m)
{
    uint16_t refs[N_CELLS] = {0};
    int used = 0;
    for (int q = 0; q < N_SEQ; q++) {
        int32_t last = -1, n = 0;
        for (int32_t i = 0; i < kv->len[q]; i++) {
            const int32_t cell = qn__kv_list(kv, q)[i];
            assert_in_range(cell, 0, N_CELLS - 1);
            assert_true(kv->pos[cell] > last);
            last = kv->pos[cell];
            assert_int_equal(kv->token[cell], m->token[q][last]);
            refs[cell]++;
        }
        for (int p = 0; p < N_POS; p++) n += m->token[q][p] >= 0;
        assert_int_equal(kv->len[q], n);
    }
    for (int c = 0; c < N_CELLS; c++) {
        assert_int_equal(kv->refs[c], refs[c]);
        used += refs[c] > 0;
    }
    assert_int_equal(kv->n_used, used);
}

static void step_add(qn_kv *kv, naive *m, uint32_t *r)
{
    const int q = (int)random_below(r, N_SEQ), p = (int)random_below(r, N_POS), token = (int)random_below(r, 1000);
    const bool can = kv->n_used < N_CELLS && m->token[q][p] < 0;
    const int32_t cell = qn__kv_add(kv, q, p, token);
    assert_int_equal(cell >= 0, can);
    if (can) m->token[q][p] = token;
}

static void step_remove(qn_kv *kv, naive *m, uint32_t *r)
{
    const int q = (int)random_below(r, N_SEQ), p0 = (int)random_below(r, N_POS), p1 = p0 + (int)random_below(r, 8);
    int n = 0;
    for (int p = p0; p < p1 && p < N_POS; p++) {
        n += m->token[q][p] >= 0;
        m->token[q][p] = -1;
    }
    assert_int_equal(qn__kv_remove(kv, q, p0, p1), n);
}

static void step_copy(qn_kv *kv, naive *m, uint32_t *r)
{
    const int src = (int)random_below(r, N_SEQ), dst = (src + 1 + (int)random_below(r, N_SEQ - 1)) % N_SEQ;
    const int p0 = (int)random_below(r, N_POS), p1 = p0 + (int)random_below(r, N_POS);
    qn__kv_copy(kv, src, dst, p0, p1, 0);
    for (int p = 0; p < N_POS; p++) m->token[dst][p] = p >= p0 && p < p1 ? m->token[src][p] : -1;
}

static void step_shift(qn_kv *kv, naive *m, uint32_t *r)
{
    const int q = (int)random_below(r, N_SEQ), p0 = (int)random_below(r, N_POS), p1 = p0 + (int)random_below(r, 12);
    const int delta = (int)random_below(r, 9) - 4;
    int32_t src[N_CELLS], dst[N_CELLS];
    naive moved = *m;
    bool can = true;
    for (int p = p0; p < p1 && p < N_POS; p++) moved.token[q][p] = -1;
    int first = -1, last = -1;
    for (int p = p0; p < p1 && p < N_POS; p++) {
        if (m->token[q][p] < 0) continue;
        if (first < 0) first = p;
        last = p;
        if (p + delta < 0 || p + delta >= N_POS || moved.token[q][p + delta] >= 0)
            can = false;
        else
            moved.token[q][p + delta] = m->token[q][p];
    }
    /* Moving past a neighbour is refused too: lists keep their order. */
    for (int p = 0; first >= 0 && p < N_POS; p++) {
        if (m->token[q][p] < 0 || (p >= p0 && p < p1)) continue;
        if ((p < p0 && first + delta <= p) || (p >= p1 && last + delta >= p)) can = false;
    }
    if (first >= 0 && last + delta >= N_POS) return; /* beyond the naive model's size, not beyond kv's */
    assert_int_equal(qn__kv_can_shift(kv, q, p0, p1, delta), first < 0 ? true : can);
    if (!can || qn__kv_shared(kv, q, p0, p1) > N_CELLS - kv->n_used) return;
    const int32_t n = qn__kv_shift(kv, q, p0, p1, delta, src, dst);
    for (int32_t i = 0; i < n; i++) assert_true(src[i] == dst[i] || kv->refs[src[i]] > 0);
    *m = moved;
}

static void random_operations(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        qn_kv kv;
        naive m;
        uint32_t r = seed;
        memset(&m, 0xff, sizeof(m));
        assert_int_equal(qn__kv_init(&kv, &size, NULL), QN_OK);
        for (int i = 0; i < 600; i++) {
            switch (random_below(&r, 8)) {
            case 0: step_remove(&kv, &m, &r); break;
            case 1: step_copy(&kv, &m, &r); break;
            case 2: step_shift(&kv, &m, &r); break;
            default: step_add(&kv, &m, &r); break;
            }
            check_invariants(&kv, &m);
        }
        qn__kv_deinit(&kv);
    }
}

/* What a copy on another device must be told: after replaying dirty ranges it equals the lists. */
static void dirty_ranges_cover_every_change(void **state)
{
    (void)state;
    static int32_t mirror[N_SEQ][N_CELLS];
    qn_kv kv;
    naive m;
    uint32_t r = 7;
    memset(&m, 0xff, sizeof(m));
    assert_int_equal(qn__kv_init(&kv, &size, NULL), QN_OK);
    for (int i = 0; i < 5000; i++) {
        switch (random_below(&r, 6)) {
        case 0: step_remove(&kv, &m, &r); break;
        case 1: step_copy(&kv, &m, &r); break;
        case 2: step_shift(&kv, &m, &r); break;
        default: step_add(&kv, &m, &r); break;
        }
        if (i % 3) continue;
        for (int q = 0; q < N_SEQ; q++) {
            for (int32_t j = kv.dirty_lo[q]; j < kv.dirty_hi[q]; j++) mirror[q][j] = qn__kv_list(&kv, q)[j];
            kv.dirty_lo[q] = kv.dirty_hi[q] = 0;
            assert_memory_equal(mirror[q], qn__kv_list(&kv, q), (size_t)kv.len[q] * sizeof(int32_t));
        }
    }
    qn__kv_deinit(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations),
                                       cmocka_unit_test(dirty_ranges_cover_every_change)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
