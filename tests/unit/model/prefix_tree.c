/* SPDX-License-Identifier: MIT */
/* The tree of prefixes against a naive model, a list of all texts that were ever read: what is found is the longest
 * common prefix while nothing had to go; what is shared is the text's own cells, in every group; parts add up after
 * every step; what was of no use for the longest time goes first, from its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/prefix_tree.h"

enum { N_SEQ = 5, MOST = 400, N_TEXT = 60, N_TEXTS = 400, N_BATCH = 9, N_ROOTS = 2 };

typedef struct reader {
    qn_token text[N_TEXT];
    int n, root, done; /* n 0: the sequence is nobody's */
    qn_tree_place at;
} reader;

typedef struct text {
    qn_token text[N_TEXT];
    int n, root;
} text;

typedef struct rig {
    qn_memory m;
    qn_tree t;
    qn_tree_root root[N_ROOTS];
    uint16_t seen[MOST];
    reader r[N_SEQ];
    text texts[N_TEXTS]; /* all that were in the tree */
    int n_texts, n_evicted;
    uint32_t random;
} rig;

static rig *set_up(int n_cells, const int *windows, int n_windows, int n_ends)
{
    rig *g = calloc(1, sizeof(*g));
    qn_kv_size sizes[QN_MAX_GROUPS];
    assert_non_null(g);
    sizes[0] = qn__kv_size(0, n_cells, N_BATCH, N_SEQ, n_ends);
    for (int i = 0; i < n_windows; i++) sizes[i + 1] = qn__kv_size(windows[i], n_cells, N_BATCH, N_SEQ, n_ends);
    assert_int_equal(qn__memory_init(&g->m, sizes, 1 + n_windows, NULL), QN_OK);
    assert_int_equal(qn__tree_init(&g->t, &g->m, NULL), QN_OK);
    for (int i = 0; i < N_ROOTS; i++) g->root[i].child = -1;
    g->random = 1;
    return g;
}

static void tear_down(rig *g)
{
    qn__tree_deinit(&g->t);
    qn__memory_deinit(&g->m);
    free(g);
}

static uint32_t below(rig *g, uint32_t n)
{
    g->random = g->random * 1664525u + 1013904223u;
    return (g->random >> 8) % n;
}

static int common(const qn_token *a, int n_a, const qn_token *b, int n_b)
{
    int k = 0;
    while (k < n_a && k < n_b && a[k] == b[k]) k++;
    return k;
}

/* ---- what a batcher does ---- */

static int begin(rig *g, int q, const qn_token *tokens, int n, int root)
{
    reader *r = &g->r[q];
    int32_t n_busy, want_busy = 0;
    assert_int_equal(r->n, 0);
    r->n = n;
    r->root = root;
    memcpy(r->text, tokens, (size_t)n * sizeof(*tokens));
    r->done = qn__tree_find(&g->t, &g->root[root], tokens, n, &n_busy);
    r->at = qn__tree_share(&g->t, &g->root[root], q, tokens, r->done);
    for (int i = 0; i < r->done; i++) want_busy += g->m.kv->refs[qn__kv_list(g->m.kv, q)[i]] > 2; /* tree and we */
    assert_int_equal(n_busy, want_busy);
    return r->done;
}

/* Every list holds what its sequence has read, each at its position, a window's at least what the next token sees. */
static void check_lists(const rig *g)
{
    for (int q = 0; q < N_SEQ; q++)
        for (int32_t k = 0; k < g->m.n_groups; k++) {
            const qn_kv *kv = &g->m.kv[k];
            const reader *r = &g->r[q];
            const int32_t gone = kv->gone[q];
            if (!r->n) continue;
            assert_int_equal(gone + kv->len[q], r->done);
            if (k) assert_true(gone == 0 || gone + kv->size.window <= r->done + 1);
            if (k == 0) assert_int_equal(gone, 0);
            for (int32_t i = 0; i < kv->len[q]; i++) {
                const int32_t cell = qn__kv_list(kv, q)[i];
                assert_int_equal(kv->pos[cell], gone + i);
                assert_int_equal(kv->token[cell], r->text[gone + i]);
            }
        }
}

/* Room for n tokens of a sequence; false: nothing is left to give up. */
static bool room(rig *g, int q, int n)
{
    int32_t seq;
    qn__memory_begin(&g->m);
    for (int i = 0; i < n; i++) qn__memory_expect(&g->m, q, g->r[q].done + i);
    assert_true(qn__memory_make_room(&g->m, &seq));
    for (int32_t k = 0; k < g->m.n_groups; k++) {
        const int32_t missing = n - qn__kv_free(&g->m.kv[k]);
        const int32_t freed = missing > 0 ? qn__tree_evict(&g->t, k, missing) : 0;
        g->n_evicted += freed;
        if (freed < missing) return false;
    }
    return true;
}

static void note(rig *g, const reader *r, int n)
{
    assert_true(g->n_texts < N_TEXTS);
    text *t = &g->texts[g->n_texts++];
    memcpy(t->text, r->text, sizeof(t->text));
    t->n = n;
    t->root = r->root;
}

static bool compute(rig *g, int q, int n, bool end)
{
    reader *r = &g->r[q];
    int32_t rows[QN_MAX_GROUPS];
    if (!room(g, q, n)) return false;
    for (int i = 0; i < n; i++, r->done++) assert_true(qn__memory_add(&g->m, q, r->done, r->text[r->done], rows, 1));
    qn__tree_add(&g->t, &g->root[r->root], q, &r->at, r->done, end);
    return true;
}

static void leave(rig *g, int q)
{
    reader *r = &g->r[q];
    qn__tree_add(&g->t, &g->root[r->root], q, &r->at, r->done, true);
    qn__tree_use(&g->t, r->at.node);
    assert_true(qn__memory_remove(&g->m, q, 0, INT32_MAX));
    r->n = 0;
}

/* ---- */

/* Texts that part at few places. */
static int invent(rig *g, qn_token *tokens)
{
    const int n = 1 + (int)below(g, N_TEXT);
    for (int i = 0; i < n; i++) tokens[i] = (qn_token)(i % 7 == 6 ? below(g, 3) : (uint32_t)i % 5);
    return n;
}

static int longest(const rig *g, const qn_token *tokens, int n, int root)
{
    int most = 0;
    for (int i = 0; i < g->n_texts; i++) {
        const int k = g->texts[i].root == root ? common(g->texts[i].text, g->texts[i].n, tokens, n) : 0;
        if (k > most) most = k;
    }
    for (int q = 0; q < N_SEQ; q++) { /* and what others have read so far */
        const int k = g->r[q].n && g->r[q].root == root ? common(g->r[q].text, g->r[q].at.n, tokens, n) : 0;
        if (k > most) most = k;
    }
    return most;
}

typedef struct pool {
    int n_cells, n_windows, windows[2], n_ends;
} pool;

static void random_readers(void **state)
{
    (void)state;
    static const pool pools[] = {
        {.n_cells = 400},
        {.n_cells = 90},
        {.n_cells = 90, .n_windows = 1, .windows = {8}},
        {.n_cells = 400, .n_windows = 2, .windows = {1, 20}, .n_ends = 2},
        {.n_cells = 70, .n_windows = 2, .windows = {30, 5}, .n_ends = 4},
    };
    for (size_t p = 0; p < sizeof(pools) / sizeof(pools[0]); p++) {
        rig *g = set_up(pools[p].n_cells, pools[p].windows, pools[p].n_windows, pools[p].n_ends);
        int n_found = 0, n_less = 0;
        for (int i = 0; i < 3000 && g->n_texts < N_TEXTS; i++) {
            const int q = (int)below(g, N_SEQ);
            reader *r = &g->r[q];
            qn_token tokens[N_TEXT];
            if (!r->n) {
                const int n = invent(g, tokens), root = (int)below(g, N_ROOTS), most = longest(g, tokens, n, root);
                const int found = begin(g, q, tokens, n, root);
                assert_true(found <= most);
                if (!g->n_evicted && !pools[p].n_windows) assert_int_equal(found, most);
                n_less += found < most;
                n_found += found;
            } else if (r->done < r->n && below(g, 12)) {
                const int left = r->n - r->done, n = 1 + (int)below(g, N_BATCH), k = n < left ? n : left;
                if (!compute(g, q, k, r->done + k == r->n)) {
                    note(g, r, r->done);
                    leave(g, q); /* set back */
                }
            } else {
                note(g, r, r->done);
                leave(g, q);
            }
            check_lists(g);
            assert_true(qn__tree_adds_up(&g->t, g->seen));
        }
        assert_true(n_found > 1000);
        if (pools[p].n_cells < 100) assert_true(g->n_evicted > 100 && n_less > 10);
        for (int q = 0; q < N_SEQ; q++)
            if (g->r[q].n) leave(g, q);
        assert_int_equal(g->m.kv->n_both, 0);
        while (qn__tree_evict(&g->t, 0, 7) > 0) {}
        for (int32_t k = 0; k < g->m.n_groups; k++) assert_int_equal(g->m.kv[k].n_used, 0);
        assert_true(g->root[0].child < 0 && g->root[1].child < 0 && g->t.emptied && g->t.n_leaves == 0);
        tear_down(g);
    }
}

static void read_all(rig *g, const qn_token *tokens, int n, int root, int want)
{
    assert_int_equal(begin(g, 0, tokens, n, root), want);
    while (g->r[0].done < n) {
        const int left = n - g->r[0].done;
        assert_true(compute(g, 0, left < N_BATCH ? left : N_BATCH, left <= N_BATCH));
    }
    leave(g, 0);
    assert_true(qn__tree_adds_up(&g->t, g->seen));
}

static int found(const rig *g, const qn_token *tokens, int n, int root)
{
    int32_t n_busy;
    return qn__tree_find(&g->t, &g->root[root], tokens, n, &n_busy);
}

/* The story number k, of which all have the first 10 tokens in common. */
static void story(qn_token *tokens, int k)
{
    for (int i = 0; i < N_TEXT; i++) tokens[i] = i < 10 ? i : 1000 * k + i;
}

static void oldest_first_from_its_end(void **state)
{
    (void)state;
    rig *g = set_up(130, NULL, 0, 0);
    qn_token s[4][N_TEXT];
    for (int k = 0; k < 4; k++) story(s[k], k);
    for (int k = 0; k < 3; k++) read_all(g, s[k], 50, 0, k ? 10 : 0);
    assert_int_equal(g->t.n_leaves, 3); /* 10 + 3 * 40 */
    read_all(g, s[0], 50, 0, 50);       /* of use again */
    assert_int_equal(begin(g, 1, s[2], 30, 0), 30);
    read_all(g, s[3], 30, 1, 0); /* another's */
    assert_int_equal(found(g, s[1], 50, 0), 20);
    assert_int_equal(found(g, s[0], 50, 0), 50);
    assert_int_equal(found(g, s[3], 50, 0), 10);
    read_all(g, s[3], 60, 1, 30); /* the rest of 1, then of 2 what nobody holds */
    assert_int_equal(found(g, s[1], 50, 0), 10);
    assert_int_equal(found(g, s[2], 50, 0), 30);
    assert_int_equal(found(g, s[0], 50, 0), 50);
    assert_int_equal(g->t.n_leaves, 3);
    assert_int_equal(qn__tree_evict(&g->t, 0, 1000), 130 - 30); /* none that a sequence holds */
    leave(g, 1);
    assert_int_equal(qn__tree_evict(&g->t, 0, 1000), 30);
    tear_down(g);
}

/* A window keeps the ends of a prompt and its answer, and places where texts part; a prefix is found as long as these
 * have all that the next token sees. */
static void windows_keep_ends(void **state)
{
    (void)state;
    enum { WINDOW = 5, LONG = 300, PROMPT = 150, PART = 40 };
    const int window = WINDOW;
    rig *g = set_up(MOST, &window, 1, 4);
    reader *r = &g->r[0];
    qn_token tokens[LONG];
    for (int i = 0; i < LONG; i++) tokens[i] = i;
    /* like `begin` and `compute`, of a text that is longer than a reader's */
    int32_t n_busy, rows[QN_MAX_GROUPS];
    r->at = qn__tree_share(&g->t, g->root, 0, tokens, 0);
    for (r->done = 0; r->done < LONG;) {
        assert_true(room(g, 0, 5));
        for (int i = 0; i < 5; i++, r->done++) assert_true(qn__memory_add(&g->m, 0, r->done, tokens[r->done], rows, 1));
        if (r->done <= PROMPT) qn__tree_add(&g->t, g->root, 0, &r->at, r->done, r->done == PROMPT);
        assert_true(qn__tree_adds_up(&g->t, g->seen));
        /* while it is read, it can be shared as far as it is read */
        if (r->done <= PROMPT) assert_int_equal(qn__tree_find(&g->t, g->root, tokens, LONG, &n_busy), r->done);
    }
    leave(g, 0);
    assert_int_equal(found(g, tokens, LONG, 0), LONG);
    assert_int_equal(found(g, tokens, LONG - QN_KV_BACK, 0), LONG - QN_KV_BACK);
    assert_int_equal(found(g, tokens, LONG - QN_KV_BACK - N_BATCH - WINDOW, 0), PROMPT);
    assert_int_equal(found(g, tokens, PROMPT - QN_KV_BACK, 0), PROMPT - QN_KV_BACK);
    assert_int_equal(found(g, tokens, PROMPT - QN_KV_BACK - 1, 0), 0);
    assert_true(g->m.kv[1].n_kept <= 2 * (WINDOW - 1 + QN_KV_BACK));
    /* who parts from it at a place without a window reads all, and others find that place */
    qn_token other[2][N_TEXT];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_TEXT; i++) other[k][i] = i < PART ? i : 1000 * (k + 1) + i;
    read_all(g, other[0], N_TEXT, 0, 0);
    assert_int_equal(found(g, other[1], N_TEXT, 0), PART);
    assert_int_equal(found(g, tokens, LONG, 0), LONG); /* and nobody lost anything */
    assert_int_equal(found(g, tokens, PROMPT, 0), PROMPT);
    /* cells of the window alone are missing: the prefix is not lost, only what saw them */
    const int32_t kept = g->m.kv->n_kept;
    assert_true(qn__tree_evict(&g->t, 1, 2 * QN_KV_BACK) == 2 * QN_KV_BACK);
    assert_int_equal(g->m.kv->n_kept, kept);
    assert_true(qn__tree_adds_up(&g->t, g->seen));
    assert_int_equal(found(g, other[0], N_TEXT, 0), N_TEXT);
    tear_down(g);
}

/* A checker that cannot fail shows nothing: each part put wrong is found. */
static void wrong_sums_are_found(void **state)
{
    (void)state;
    const int window = 4;
    rig *g = set_up(100, &window, 1, 1);
    qn_token s[N_TEXT];
    story(s, 1);
    read_all(g, s, 30, 0, 0);
    assert_int_equal(begin(g, 0, s, 20, 0), 20);
    int32_t *const numbers[] = {&g->m.kv->n_used,       &g->m.kv->n_kept,       &g->m.kv->n_both,
                                &g->m.kv[1].n_kept,     &g->t.n_leaves,         &g->t.parent[g->r[0].at.node],
                                &g->m.kv->pos[3],       &g->t.groups[0].oldest, &g->t.child[g->r[0].at.node],
                                &g->t.groups[1].newest, &g->root[0].child};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const int32_t was = *numbers[i];
        *numbers[i] = was == 1 ? 0 : was - 1;
        if (*numbers[i] < -1) *numbers[i] = 1;
        if (qn__tree_adds_up(&g->t, g->seen)) fail_msg("number %zu may be wrong", i);
        *numbers[i] = was;
        assert_true(qn__tree_adds_up(&g->t, g->seen));
    }
    g->m.kv->refs[3]++;
    assert_false(qn__tree_adds_up(&g->t, g->seen));
    tear_down(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_readers),
        cmocka_unit_test(oldest_first_from_its_end),
        cmocka_unit_test(windows_keep_ends),
        cmocka_unit_test(wrong_sums_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
