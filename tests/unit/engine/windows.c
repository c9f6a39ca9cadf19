/* SPDX-License-Identifier: MIT */
/* What a session remembers, for one architecture of each kind of memory: a session whose windows forget computes the
 * same bits as one that keeps all, whatever is removed, copied, moved, saved and restored; where it cannot, it says so
 * and from which position it can. */
#include "rig.h"

#include "engine/engine.h"

enum { N = 340, KEEPS = 512 };

static void all_windows(qn_gguf_writer *w) { qn_gguf_write_u32(w, "gemma3.attention.sliding_window", TINY_WINDOW); }

static void long_window(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "cohere2.attention.sliding_window", 130);
    qn_gguf_write_u32(w, "cohere2.attention.sliding_window_pattern", 2);
}

static const struct kind {
    tiny model;
    int window; /* 0: none */
    int full;   /* layers of two that keep all */
    int row[2]; /* elements of a key and a value of a layer */
} kinds[] = {
    {{.arch = "llama", .n_ctx = KEEPS}, 0, 2, {16, 16}},
    {{.arch = "gemma3", .n_ctx = KEEPS, .extra = tiny_window}, TINY_WINDOW, 1, {16, 16}},
    {{.arch = "gemma3", .n_ctx = KEEPS, .extra = all_windows}, TINY_WINDOW, 0, {16, 16}},
    {{.arch = "cohere2", .n_ctx = KEEPS, .extra = long_window}, 130, 1, {16, 16}},
    {{.arch = "minicpm3", .n_ctx = KEEPS}, 0, 2, {32, 32}},
    {{.arch = "mistral4", .n_ctx = KEEPS, .latent = true}, 0, 2, {28, 0}}, /* 24 of keys and values, 4 rotated */
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static qn_engine *engines[KINDS];
static int open_all(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) engines[k] = rig_open(&kinds[k].model, &(qn_engine_options){.n_threads = 1});
    return 0;
}
static int close_all(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) qn_engine_close(engines[k]);
    return 0;
}

/* A batch of KEEPS forgets nothing in a context of as many. */
static qn_session *session(int kind, int n_batch)
{
    return rig_session(engines[kind], (qn_session_options){.n_ctx = KEEPS, .n_batch = n_batch, .n_seq = 3});
}

static void feed(qn_session *s, int seq, int story, int from, int to)
{
    qn_token tokens[N];
    for (int i = from; i < to; i++) tokens[i - from] = rig_token(story, i);
    rig_feed(s, seq, tokens, to - from);
}

static rig_row say(qn_session *s, int seq, qn_token token)
{
    rig_feed(s, seq, &token, 1);
    return rig_logits(s, -1);
}

static int cells_of(const qn_session *s, int group) { return s->memory.kv[group].n_used; }

/* ---- */

static void forgetting_changes_no_bit(void **state)
{
    (void)state;
    static rig_row want[N];
    for (int k = 0; k < KINDS; k++) {
        const int n = kinds[k].window ? N : 100;
        qn_session *all = session(k, KEEPS);
        for (int i = 0; i < n; i++) want[i] = say(all, 0, rig_token(0, i));
        assert_int_equal(qn_session_seq_back(all, 0), 0);
        static const int batches[] = {1, 7, 40};
        for (int b = 0; b < 3; b++) {
            qn_session *s = session(k, batches[b]);
            for (int i = 0; i < n; i += batches[b]) {
                const int to = i + batches[b] < n ? i + batches[b] : n;
                feed(s, 1, 0, i, to);
                SAME(rig_logits(s, -1), want[to - 1]);
                if (kinds[k].window) assert_in_range(cells_of(s, 1), 0, kinds[k].window + batches[b] + QN_KV_BACK);
            }
            assert_int_equal(cells_of(s, 0), n);
            assert_int_equal(qn_session_seq_back(s, 1) > 0, kinds[k].window > 0);
            qn_session_destroy(s);
        }
        qn_session_destroy(all);
    }
}

static void saved_at_40_of_80(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++)
        for (int b = 0; b < 2; b++) {
            qn_session *s = session(k, b ? 1 : 40), *r = session(k, b ? 40 : 1);
            feed(s, 0, 0, 0, 200); /* what was forgotten before counts too */
            MUST(qn_session_seq_copy(s, 0, 2, 0, -1, err));
            feed(s, 2, 1, 0, 20);
            feed(s, 1, 0, 0, 40);
            MUST(qn_session_save(s, tiny_path("40.state"), err));
            MUST(qn_session_restore(r, tiny_path("40.state"), err));
            for (int i = 40; i < 80; i++)
                for (int q = 0; q < 3; q++) SAME(say(r, q, rig_token(q, i)), say(s, q, rig_token(q, i)));
            qn_session *alone = session(k, KEEPS);
            feed(alone, 0, 0, 0, 40);
            for (int i = 40; i < 80; i++) (void)say(alone, 0, rig_token(1, i));
            SAME(say(r, 1, 5), say(alone, 0, 5));
            qn_session_destroy(alone);
            qn_session_destroy(s);
            qn_session_destroy(r);
        }
}

static void copied_at_40(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        rig_row want[2];
        for (int q = 0; q < 2; q++) {
            qn_session *alone = session(k, KEEPS);
            feed(alone, 0, 0, 0, 40);
            for (int i = 40; i < 250; i++) want[q] = say(alone, 0, rig_token(q, i));
            qn_session_destroy(alone);
        }
        DIFFERENT(want[0], want[1]);
        qn_session *s = session(k, 7);
        feed(s, 1, 0, 0, 40);
        MUST(qn_session_seq_copy(s, 1, 2, 0, -1, err));
        for (int g = 0; g < s->memory.n_groups; g++) assert_int_equal(cells_of(s, g), 40); /* shared */
        rig_row have[2];
        for (int i = 40; i < 250; i++)
            for (int q = 0; q < 2; q++) have[q] = say(s, 1 + q, rig_token(q, i));
        for (int q = 0; q < 2; q++) SAME(have[q], want[q]);
        MUST(qn_session_seq_remove(s, 1, 0, -1, err));
        MUST(qn_session_seq_remove(s, 2, 0, -1, err));
        for (int g = 0; g < s->memory.n_groups; g++) assert_int_equal(cells_of(s, g), 0);
        qn_session_destroy(s);
    }
}

static void last_20_again(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++)
        for (int b = 0; b < 3; b++) {
            qn_session *s = session(k, (const int[]){1, 7, KEEPS}[b]);
            rig_row want[20];
            feed(s, 0, 0, 0, 280);
            for (int i = 0; i < 20; i++) want[i] = say(s, 0, rig_token(0, 280 + i));
            for (int round = 0; round < 2; round++) {
                MUST(qn_session_seq_remove(s, 0, 280, -1, err));
                for (int i = 0; i < 20; i++) SAME(say(s, 0, rig_token(0, 280 + i)), want[i]);
            }
            qn_session_destroy(s);
        }
}

/* ---- what is forgotten ---- */

/* What is refused changes nothing; the position that is named can be gone back to, and the one before it cannot. */
static void named_positions(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        if (!kinds[k].window) continue;
        qn_session *s = session(k, 1), *all = session(k, KEEPS);
        size_t kept = 99;
        char number[16];
        qn_token tokens[N];
        rig_story(0, tokens, N);
        feed(s, 0, 0, 0, 300);
        feed(all, 0, 0, 0, 300);
        const int back = qn_session_seq_back(s, 0);
        /* w + 1 + 64 positions are held; the first token that can be computed anew sees w - 1 of them */
        assert_int_equal(back, 300 - (kinds[k].window + 1 + QN_KV_BACK) + kinds[k].window - 1);
        snprintf(number, sizeof number, "position %d", back);
        REFUSED(state, qn_session_seq_remove(s, 0, back - 1, -1, err), "sequence 0", number);
        REFUSED(state, qn_session_seq_remove(s, 0, 1, -1, err), number);
        REFUSED(state, qn_session_seq_copy(s, 0, 1, 0, back - 1, err), number);
        assert_int_equal(qn_session_seq_len(s, 0), 300);
        assert_int_equal(qn_session_seq_len(s, 1), 0);
        MUST(qn_session_seq_copy(s, 0, 1, 0, back, err));
        MUST(qn_session_seq_copy(all, 0, 1, 0, back, err));
        SAME(say(s, 1, 9), say(all, 1, 9));
        /* moving what is held to what is forgotten, and computing in between */
        MUST(qn_session_seq_remove(s, 1, 100, back - 1, err));
        REFUSED(state, qn_session_seq_shift(s, 1, back - 1, -1, 101 - back, err), "sequence 1");
        const qn_batch_item between = {1, 105, 1, true};
        REFUSED(state, qn_session_decode(s, &between, 1, err), "position 105", "sequence 1");
        REFUSED(state, qn_session_decode_start(s, &between, 1, err),
                "position 105"); /* and nothing is to be waited for */
        /* a prefix that is held, and one that is not: the whole is read again */
        MUST(qn_session_reuse(s, 0, tokens, (size_t)back + 1, &kept, err));
        assert_int_equal(kept, back);
        MUST(qn_session_seq_remove(all, 0, back, -1, err));
        for (int i = back; i < back + 20; i++) SAME(say(s, 0, rig_token(0, i)), say(all, 0, rig_token(0, i)));
        MUST(qn_session_reuse(s, 0, tokens, 100, &kept, err));
        assert_int_equal(kept, 0);
        assert_int_equal(qn_session_seq_len(s, 0), 0);
        assert_int_equal(qn_session_seq_back(s, 0), 0);
        feed(s, 0, 0, 0, 30);
        MUST(qn_session_seq_remove(all, 0, 30, -1, err));
        SAME(say(s, 0, 3), say(all, 0, 3));
        qn_session_destroy(s);
        qn_session_destroy(all);
    }
}

/* Tokens that come from the end to the beginning: a window has room for a batch of them. */
static void out_of_order(void **state)
{
    (void)state;
    qn_session *s = session(1, 7);
    qn_batch_item items[140];
    for (int i = 0; i < 140; i++) items[i] = (qn_batch_item){rig_token(0, 139 - i), 139 - i, 0, i == 139};
    REFUSED(state, qn_session_decode(s, items, 140, err), "sequence 0", "in order");
    assert_int_equal(qn_session_seq_len(s, 0), 77); /* eleven chunks, w + 7 + 64 places */
    qn_session_destroy(s);
}

static uint32_t random_state;
static int below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

typedef struct move {
    int what, seq, to, p0, p1, delta;
} move;

static move any_move(const qn_session *s)
{
    const int q = below(3), end = qn_session_seq_pos_max(s, q) + 1;
    const int p0 = below(4) ? end - below(end < 30 ? end + 1 : 30) : below(end + 1);
    return (move){below(3),      q, (q + 1 + below(2)) % 3, below(4) ? p0 : end / 2, below(2) ? -1 : p0 + below(40),
                  below(41) - 20};
}

static qn_status do_move(qn_session *s, const move *m, qn_error *err)
{
    return m->what == 0   ? qn_session_seq_remove(s, m->seq, m->p0, m->p1, err)
           : m->what == 1 ? qn_session_seq_copy(s, m->seq, m->to, m->p0, m->p1, err)
                          : qn_session_seq_shift(s, m->seq, m->p0, m->p1, m->delta, err);
}

/* Two sessions, one of which forgets, in the same way through anything: what it does not refuse has the same bits. */
static void random_operations(void **state)
{
    (void)state;
    int done[3] = {0}, n_refused = 0;
    for (int k = 0; k < KINDS; k++)
        for (uint32_t seed = 1; seed <= (kinds[k].window ? 5 : 1); seed++) {
            qn_session *s = session(k, (int)seed), *all = session(k, KEEPS);
            random_state = seed;
            for (int step = 0; step < 60; step++) {
                const move m = any_move(all);
                qn_error why;
                const qn_status status = do_move(s, &m, &why);
                const int n = 1 + below(below(3) ? 30 : 120), story = below(50), q = below(3);
                if (status == QN_OK) MUST(do_move(all, &m, err));
                if (status != QN_OK && status != QN_STATUS_state) assert_int_equal(do_move(all, &m, NULL), status);
                done[m.what] += status == QN_OK;
                n_refused += status == QN_STATUS_state;
                /* what is left of a sequence may have a hole before what was removed: it can go on behind that only */
                if (qn_session_free_cells(all) < n || qn_session_seq_back(s, q) > qn_session_seq_pos_max(s, q) + 1) {
                    MUST(qn_session_seq_remove(s, q, 0, -1, err));
                    MUST(qn_session_seq_remove(all, q, 0, -1, err));
                }
                if (qn_session_free_cells(all) < n) continue;
                feed(s, q, story, 0, n);
                feed(all, q, story, 0, n);
                SAME(rig_logits(s, -1), rig_logits(all, -1));
            }
            qn_session_destroy(s);
            qn_session_destroy(all);
        }
    printf("%d removed, %d copied, %d moved, %d refused\n", done[0], done[1], done[2], n_refused);
    for (int i = 0; i < 3; i++) assert_true(done[i] > 100);
    assert_true(n_refused > 10);
}

/* ---- memory ---- */

static uint64_t kv_bytes(int kind, int n_ctx)
{
    qn_estimate est;
    MUST(qn_engine_estimate(engines[kind], &(qn_session_options){.n_ctx = n_ctx, .n_batch = 512}, &est, err));
    return est.kv_bytes;
}

static uint64_t layer_bytes(const struct kind *k, uint64_t n_cells)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 2; i++) bytes += (n_cells * (uint64_t)k->row[i] * 2 + 255) / 256 * 256; /* F16 */
    return bytes;
}

/* What a window's layers take is the same at any context. */
static void only_full_layers_grow(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const struct kind *kind = &kinds[k];
        const uint64_t full = (uint64_t)kind->full,
                       windows = (2 - full) * layer_bytes(kind, (uint64_t)(kind->window + 512 + QN_KV_BACK));
        assert_int_equal(kv_bytes(k, 131072), full * layer_bytes(kind, 131072) + windows);
        assert_int_equal(kv_bytes(k, 8192), full * layer_bytes(kind, 8192) + windows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgetting_changes_no_bit),
        cmocka_unit_test(saved_at_40_of_80),
        cmocka_unit_test(copied_at_40),
        cmocka_unit_test(last_20_again),
        cmocka_unit_test(named_positions),
        cmocka_unit_test(out_of_order),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(only_full_layers_grow),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
