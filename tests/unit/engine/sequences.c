/* SPDX-License-Identifier: MIT */
/* Several sequences in one cache: whatever was shared, copied, removed or computed beside it, a token's logits are bit
 * for bit those of its own sequence computed alone from the start. */
#include "rig.h"

static const tiny models[] = {{.arch = "llama"},
                              {.arch = "qwen2", .type = QN_DTYPE_F16},
                              {.arch = "qwen3", .n_embd = 64, .n_ff = 64, .type = QN_DTYPE_Q8_0}};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

static qn_engine *engines[N_MODELS];
static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) engines[i] = rig_open(&models[i], NULL);
    return 0;
}
static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) qn_engine_close(engines[i]);
    return 0;
}

/* Three stories token by token in one batch each, against each alone. */
static void interleaved(void **state)
{
    (void)state;
    enum { N = 40, STORIES = 3 };
    for (int m = 0; m < N_MODELS; m++) {
        static rig_row alone[STORIES][N];
        for (int q = 0; q < STORIES; q++) {
            qn_session *s = rig_session(engines[m], (qn_session_options){0});
            for (int i = 0; i < N; i++) {
                rig_decode(s, &(qn_batch_item){rig_token(q, i), i, 0, true}, 1);
                alone[q][i] = rig_logits(s, 0);
            }
            qn_session_destroy(s);
        }
        DIFFERENT(alone[0][N - 1], alone[1][N - 1]);
        /* Batches of all kinds of sizes: 120 items in chunks of 1, 7, 32 and all. */
        static const int chunks[] = {1, 7, 32, N * STORIES};
        for (int c = 0; c < 4; c++) {
            qn_session *s =
                rig_session(engines[m],
                            (qn_session_options){.n_seq = STORIES, .n_batch = chunks[c], .n_logits = N * STORIES});
            qn_batch_item items[N * STORIES];
            for (int i = 0; i < N * STORIES; i++)
                items[i] = (qn_batch_item){rig_token(i % STORIES, i / STORIES), i / STORIES, i % STORIES, true};
            rig_decode(s, items, N * STORIES);
            assert_int_equal(qn_session_n_logits(s), N * STORIES);
            for (int i = 0; i < N * STORIES; i++) SAME(rig_logits(s, i), alone[i % STORIES][i / STORIES]);
            SAME(rig_logits(s, -1), alone[STORIES - 1][N - 1]);
            assert_null(qn_session_logits(s, N * STORIES));
            assert_null(qn_session_logits(s, -N * STORIES - 1));
            qn_session_destroy(s);
        }
    }
}

/* Within a batch the order of items does not matter: a token sees its sequence up to its position, wherever the others
 * stand. */
static void any_order(void **state)
{
    (void)state;
    enum { N = 24 };
    for (int m = 0; m < N_MODELS; m++) {
        qn_batch_item items[N];
        rig_row first[N];
        for (int round = 0; round < 6; round++) {
            int order[N];
            for (int i = 0; i < N; i++) order[i] = round == 1 ? N - 1 - i : i;
            uint32_t r = (uint32_t)round;
            for (int i = N - 1; round > 1 && i > 0; i--) {
                r = r * 1664525u + 1013904223u;
                const int k = (int)((r >> 8) % (uint32_t)(i + 1)), t = order[i];
                order[i] = order[k];
                order[k] = t;
            }
            qn_session *s = rig_session(engines[m], (qn_session_options){.n_seq = 2, .n_logits = N});
            for (int i = 0; i < N; i++)
                items[i] = (qn_batch_item){rig_token(order[i] % 2, order[i]), order[i] / 2, order[i] % 2, true};
            rig_decode(s, items, N);
            for (int i = 0; i < N; i++) {
                if (round == 0) first[order[i]] = rig_logits(s, i);
                SAME(rig_logits(s, i), first[order[i]]);
            }
            qn_session_destroy(s);
        }
    }
}

static void copy_then_diverge(void **state)
{
    (void)state;
    enum { PREFIX = 21, REST = 9 };
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[PREFIX + REST];
        qn_session *s = rig_session(engines[m], (qn_session_options){.n_seq = 4, .n_ctx = 64});
        rig_story(0, tokens, PREFIX);
        rig_feed(s, 0, tokens, PREFIX);
        for (int q = 1; q < 4; q++) MUST(qn_session_seq_copy(s, 0, q, 0, -1, err));
        assert_int_equal(qn_session_free_cells(s), 64 - PREFIX); /* shared, not copied */
        for (int i = 0; i < REST; i++) {                         /* all four go on together, each its own way */
            qn_batch_item items[4];
            for (int q = 0; q < 4; q++) items[q] = (qn_batch_item){rig_token(q + 1, i), PREFIX + i, q, true};
            rig_decode(s, items, 4);
        }
        assert_int_equal(qn_session_free_cells(s), 64 - PREFIX - 4 * REST);
        for (int q = 0; q < 4; q++) {
            assert_int_equal(qn_session_seq_len(s, q), PREFIX + REST);
            assert_int_equal(qn_session_seq_pos_max(s, q), PREFIX + REST - 1);
            rig_story(q + 1, tokens + PREFIX, REST);
            SAME(rig_logits(s, q), rig_fresh(engines[m], (qn_session_options){0}, tokens, PREFIX + REST));
        }
        qn_session_destroy(s);
    }
}

static void copy_of_a_part(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[20], other[20];
        qn_session *s = rig_session(engines[m], (qn_session_options){.n_seq = 2});
        rig_story(0, tokens, 20);
        rig_story(1, other, 20);
        rig_feed(s, 0, tokens, 20);
        rig_feed(s, 1, other, 15); /* goes when the copy comes */
        MUST(qn_session_seq_copy(s, 0, 1, 0, 12, err));
        assert_int_equal(qn_session_seq_len(s, 1), 12);
        assert_int_equal(qn_session_free_cells(s), RIG_MAX - 20);
        rig_feed(s, 1, other + 12, 8);
        const rig_row diverged = rig_logits(s, -1);
        memcpy(other, tokens, 12 * sizeof(*tokens));
        SAME(diverged, rig_fresh(engines[m], (qn_session_options){0}, other, 20));
        /* A part from the middle: the sequence then begins at position 5, as in a session that was given these
         * positions only. */
        MUST(qn_session_seq_copy(s, 0, 1, 5, 12, err));
        assert_int_equal(qn_session_seq_len(s, 1), 7);
        assert_int_equal(qn_session_seq_pos_max(s, 1), 11);
        /* Nothing: the copy of an empty range empties. */
        MUST(qn_session_seq_copy(s, 0, 1, 30, -1, err));
        assert_int_equal(qn_session_seq_len(s, 1), 0);
        assert_int_equal(qn_session_seq_pos_max(s, 1), -1);
        rig_feed(s, 0, tokens, 1); /* the original is none the worse */
        qn_token more[21];
        memcpy(more, tokens, sizeof(tokens));
        more[20] = tokens[0];
        SAME(rig_logits(s, -1), rig_fresh(engines[m], (qn_session_options){0}, more, 21));
        qn_session_destroy(s);
    }
}

static void remove_and_decode_again(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[30];
        qn_session *s = rig_session(engines[m], (qn_session_options){.n_ctx = 40});
        rig_story(0, tokens, 30);
        for (int round = 0; round < 8; round++) { /* the cells come round the ring several times */
            rig_feed(s, 0, tokens, 30);
            const rig_row straight = rig_fresh(engines[m], (qn_session_options){0}, tokens, 30);
            SAME(rig_logits(s, -1), straight);
            MUST(qn_session_seq_remove(s, 0, 17, -1, err));
            assert_int_equal(qn_session_seq_len(s, 0), 17);
            rig_story(round + 1, tokens + 17, 13);
            rig_feed(s, 0, tokens + 17, 13);
            const rig_row other = rig_fresh(engines[m], (qn_session_options){0}, tokens, 30);
            SAME(rig_logits(s, -1), other);
            DIFFERENT(straight, other);
            MUST(qn_session_seq_remove(s, 0, 0, -1, err));
            assert_int_equal(qn_session_free_cells(s), 40);
        }
        qn_session_destroy(s);
    }
}

/* A hole: what follows sees the rest, at its positions. The witness never had the hole's tokens. */
static void remove_from_the_middle(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[25];
        qn_session *s = rig_session(engines[m], (qn_session_options){0}),
                   *w = rig_session(engines[m], (qn_session_options){0});
        rig_story(3, tokens, 25);
        /* One layer's keys depend on tokens only, later layers' on what was seen: so compute the same way, then remove
         * in both, once before and once after more tokens came. */
        rig_feed(s, 0, tokens, 20);
        MUST(qn_session_seq_remove(s, 0, 4, 9, err));
        assert_int_equal(qn_session_seq_len(s, 0), 15);
        assert_int_equal(qn_session_seq_pos_max(s, 0), 19);
        qn_session *r = rig_session(engines[m], (qn_session_options){0}); /* which gets its lists from a file, whole */
        MUST(qn_session_save(s, tiny_path("hole.state"), err));
        MUST(qn_session_restore(r, tiny_path("hole.state"), err));
        rig_feed(s, 0, tokens + 20, 5);
        rig_feed(r, 0, tokens + 20, 5);
        const rig_row a = rig_logits(s, -1);
        SAME(a, rig_logits(r, -1));
        qn_session_destroy(r);
        for (int i = 0; i < 20; i++) rig_decode(w, &(qn_batch_item){tokens[i], i, 0, false}, 1);
        for (int p = 4; p < 9; p++) MUST(qn_session_seq_remove(w, 0, p, p + 1, err));
        for (int i = 20; i < 25; i++) rig_decode(w, &(qn_batch_item){tokens[i], i, 0, true}, 1);
        SAME(a, rig_logits(w, 0));
        DIFFERENT(a, rig_fresh(engines[m], (qn_session_options){0}, tokens, 25));
        /* The hole is filled again with the same tokens: not the same as never having had it, but its positions are
         * free. */
        qn_batch_item items[5];
        for (int i = 0; i < 5; i++) items[i] = (qn_batch_item){tokens[4 + i], 4 + i, 0, i == 4};
        rig_decode(s, items, 5);
        assert_int_equal(qn_session_seq_len(s, 0), 25);
        /* they see only what is before them */
        SAME(rig_logits(s, -1), rig_fresh(engines[m], (qn_session_options){0}, tokens, 9));
        qn_session_destroy(s);
        qn_session_destroy(w);
    }
}

static void keep(void **state)
{
    (void)state;
    qn_token tokens[16];
    qn_session *s = rig_session(engines[0], (qn_session_options){.n_seq = 3});
    for (int q = 0; q < 3; q++) {
        rig_story(q, tokens, 15);
        rig_feed(s, q, tokens, 15);
    }
    MUST(qn_session_seq_keep(s, 1, err));
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    assert_int_equal(qn_session_seq_len(s, 1), 15);
    assert_int_equal(qn_session_seq_len(s, 2), 0);
    assert_int_equal(qn_session_free_cells(s), RIG_MAX - 15);
    rig_story(0, tokens, 15);
    rig_feed(s, 0, tokens, 15); /* others may begin anew */
    rig_story(1, tokens, 16);
    rig_feed(s, 1, tokens + 15, 1);
    SAME(rig_logits(s, -1), rig_fresh(engines[0], (qn_session_options){0}, tokens, 16));
    qn_session_destroy(s);
}

static void reuse(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[30], other[30];
        size_t kept = 99;
        rig_story(0, tokens, 30);
        rig_story(1, other, 30);
        qn_session *s = rig_session(engines[m], (qn_session_options){.n_seq = 2});
        MUST(qn_session_reuse(s, 0, tokens, 30, &kept, err));
        assert_int_equal(kept, 0);
        rig_feed(s, 0, tokens, 30);
        const rig_row whole = rig_logits(s, -1);
        MUST(qn_session_reuse(s, 0, tokens, 30, &kept, err)); /* the last one gives logits again */
        assert_int_equal(kept, 29);
        assert_int_equal(qn_session_seq_len(s, 0), 29);
        rig_feed(s, 0, tokens + kept, (int)(30 - kept));
        SAME(rig_logits(s, -1), whole);
        MUST(qn_session_reuse(s, 0, tokens, 12, &kept, err)); /* a shorter prompt */
        assert_int_equal(kept, 11);
        rig_feed(s, 0, tokens + kept, (int)(12 - kept));
        SAME(rig_logits(s, -1), rig_fresh(engines[m], (qn_session_options){0}, tokens, 12));
        memcpy(other, tokens, 7 * sizeof(*tokens)); /* one that goes another way from 7 on */
        MUST(qn_session_reuse(s, 0, other, 30, &kept, err));
        assert_int_equal(kept, 7);
        rig_feed(s, 0, other + kept, (int)(30 - kept));
        SAME(rig_logits(s, -1), rig_fresh(engines[m], (qn_session_options){0}, other, 30));
        for (int i = 0; i < 30; i++) other[i] = 17;
        MUST(qn_session_reuse(s, 0, other, 30, &kept, err));
        assert_int_equal(kept, 0);
        rig_feed(s, 0, other, 30);
        /* positions are compared, not entries: these tokens are all alike */
        MUST(qn_session_seq_remove(s, 0, 3, 5, err));
        MUST(qn_session_reuse(s, 0, other, 30, &kept, err));
        assert_int_equal(kept, 3);
        MUST(qn_session_reuse(s, 0, NULL, 0, &kept, err));
        assert_int_equal(kept, 0);
        assert_int_equal(qn_session_seq_len(s, 0), 0);
        qn_session_destroy(s);
    }
}

/* ---- anything after anything ---- */

enum { SEQS = 4, CELLS = 96, LONGEST = 40 };
/* what each sequence must hold */
typedef struct book {
    qn_token tokens[SEQS][LONGEST];
    int n[SEQS];
    uint32_t random;
} book;

static int below(book *b, int n)
{
    b->random = b->random * 1664525u + 1013904223u;
    return (int)((b->random >> 8) % (uint32_t)n);
}

static void grow_some(qn_session *s, book *b, qn_engine *e)
{
    qn_batch_item items[SEQS * 6];
    int n = 0, last[SEQS];
    for (int q = 0; q < SEQS; q++) {
        last[q] = -1;
        for (int k = below(b, 7); k > 0 && b->n[q] < LONGEST && n < qn_session_free_cells(s); k--) {
            last[q] = n;
            b->tokens[q][b->n[q]] = below(b, RIG_VOCAB);
            items[n++] = (qn_batch_item){b->tokens[q][b->n[q]], b->n[q], q, false};
            b->n[q]++;
        }
        if (last[q] >= 0) items[last[q]].logits = true;
    }
    if (n == 0) return;
    rig_decode(s, items, n);
    for (int q = 0, row = 0; q < SEQS; q++) {
        if (last[q] < 0) continue;
        if (below(b, 4) == 0) SAME(rig_logits(s, row), rig_fresh(e, (qn_session_options){0}, b->tokens[q], b->n[q]));
        row++;
    }
}

static void one_operation(qn_session *s, book *b, qn_engine *e)
{
    const int q = below(b, SEQS), other = (q + 1 + below(b, SEQS - 1)) % SEQS;
    size_t kept = 0;
    switch (below(b, 10)) {
    case 0: /* cut the end off */
        b->n[q] = below(b, b->n[q] + 1);
        MUST(qn_session_seq_remove(s, q, b->n[q], -1, err));
        break;
    case 1: /* share a beginning */
        b->n[other] = below(b, b->n[q] + 1);
        memcpy(b->tokens[other], b->tokens[q], sizeof(b->tokens[q]));
        MUST(qn_session_seq_copy(s, q, other, 0, b->n[other], err));
        break;
    case 2: /* begin with what another one holds */
        MUST(qn_session_reuse(s, q, b->tokens[other], (size_t)b->n[other], &kept, err));
        assert_true((int)kept <= b->n[q]);
        b->n[q] = (int)kept;
        break;
    case 3: /* away and back by way of a file */
        MUST(qn_session_save(s, tiny_path("random.state"), err));
        for (int k = 0; k < SEQS; k++) MUST(qn_session_seq_remove(s, k, 0, -1, err));
        rig_feed(s, 0, (qn_token[]){1, 2, 3}, 3);
        MUST(qn_session_restore(s, tiny_path("random.state"), err));
        break;
    case 4:
        if (below(b, 6)) break;
        MUST(qn_session_seq_keep(s, q, err));
        for (int k = 0; k < SEQS; k++) b->n[k] = k == q ? b->n[k] : 0;
        break;
    default: grow_some(s, b, e); break;
    }
    for (int k = 0; k < SEQS; k++) {
        assert_int_equal(qn_session_seq_len(s, k), b->n[k]);
        assert_int_equal(qn_session_seq_pos_max(s, k), b->n[k] - 1);
    }
}

static void random_operations(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 9; seed++) {
        book b = {.random = seed * 77777};
        qn_engine *e = engines[seed % N_MODELS];
        qn_session *s = rig_session(
            e, (qn_session_options){.n_seq = SEQS, .n_ctx = CELLS, .n_batch = seed % 2 ? 5 : 32, .n_logits = SEQS});
        for (int i = 0; i < 120; i++) one_operation(s, &b, e);
        qn_session_destroy(s);
    }
}

static void wrong_arguments(void **state)
{
    (void)state;
    qn_session *s = rig_session(engines[0], (qn_session_options){.n_seq = 2});
    const qn_token tokens[4] = {1, 2, 3, 4};
    size_t kept = 7;
    rig_feed(s, 0, tokens, 4);
    REFUSED(invalid, qn_session_seq_remove(s, 2, 0, -1, err), "sequence 2", "0 to 1");
    REFUSED(invalid, qn_session_seq_remove(s, -1, 0, -1, err), "sequence -1");
    REFUSED(invalid, qn_session_seq_remove(s, 0, -3, -1, err), "-3");
    REFUSED(invalid, qn_session_seq_remove(s, 0, 3, 2, err), "3", "2");
    REFUSED(invalid, qn_session_seq_copy(s, 0, 0, 0, -1, err), "itself");
    REFUSED(invalid, qn_session_seq_copy(s, 0, 2, 0, -1, err), "sequence 2");
    REFUSED(invalid, qn_session_seq_copy(s, 2, 0, 0, -1, err), "sequence 2");
    REFUSED(invalid, qn_session_seq_keep(s, 2, err), "sequence 2");
    REFUSED(invalid, qn_session_seq_shift(s, 5, 0, -1, 1, err), "sequence 5");
    REFUSED(invalid, qn_session_reuse(s, 2, tokens, 4, &kept, err), "sequence 2");
    assert_int_equal(kept, 7);
    assert_int_equal(qn_session_seq_len(s, 0), 4);
    assert_int_equal(qn_session_seq_len(s, 2), 0);
    assert_int_equal(qn_session_seq_pos_max(s, -1), -1);
    MUST(qn_session_seq_remove(s, 1, 0, -1, err)); /* nothing to remove is no mistake */
    MUST(qn_session_seq_remove(s, 0, 2, 2, err));
    assert_int_equal(qn_session_seq_len(s, 0), 4);
    qn_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved),
        cmocka_unit_test(any_order),
        cmocka_unit_test(copy_then_diverge),
        cmocka_unit_test(copy_of_a_part),
        cmocka_unit_test(remove_and_decode_again),
        cmocka_unit_test(remove_from_the_middle),
        cmocka_unit_test(keep),
        cmocka_unit_test(reuse),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
