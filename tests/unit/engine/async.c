/* SPDX-License-Identifier: MIT */
/* Decoding in the background: the bits of a synchronous decode, its errors, and what may be asked meanwhile. Run it
 * under the thread sanitizer too. */
#include "rig.h"
#include <stdatomic.h>

enum { N = 40 };

static void items_of(qn_batch_item *items, int story, int n, int first)
{
    for (int i = 0; i < n; i++) items[i] = (qn_batch_item){rig_token(story, first + i), first + i, 0, i + 1 == n};
}

static void same_bits(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.arch = "qwen3"}, NULL);
    qn_session *now = rig_session(e, (qn_session_options){.n_batch = 16}),
               *later = rig_session(e, (qn_session_options){.n_batch = 16});
    qn_batch_item items[N];
    assert_true(qn_session_poll(later)); /* nothing runs */
    items_of(items, 3, N, 0);
    rig_decode(now, items, N); /* three chunks */
    MUST(qn_session_decode_start(later, items, N, err));
    MUST(qn_session_wait(later, err));
    SAME(rig_logits(later, -1), rig_logits(now, -1));
    uint64_t allocs = 0;
    for (int i = 0; i < 20; i++) {
        qn_metrics m;
        items_of(items, 3, 1, N + i);
        rig_decode(now, items, 1);
        MUST(qn_session_decode_start(later, items, 1, err));
        while (!qn_session_poll(later)) {}
        MUST(qn_session_wait(later, err));
        SAME(rig_logits(later, -1), rig_logits(now, -1));
        qn_metrics_snapshot(&m);
        if (i == 1) allocs = m.allocs;
        if (i > 1) assert_int_equal(m.allocs, allocs);
    }
    qn_session_destroy(now);
    qn_session_destroy(later);
    qn_engine_close(e);
}

/* A callback that holds the run until the test lets it go. */
static _Atomic bool go_on, stop_it;
static bool hold(void *ctx, const qn_node *node, bool after)
{
    (void)ctx, (void)node, (void)after;
    while (!atomic_load(&go_on)) {}
    return !atomic_load(&stop_it);
}

static void while_it_runs(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){.n_seq = 2});
    qn_batch_item items[N], one = {1, 0, 1, true};
    size_t kept;
    char *text = NULL;
    items_of(items, 1, N, 0);
    REFUSED(state, qn_session_wait(s, err), "no decode");
    atomic_store(&go_on, false);
    qn_session_set_eval(s, hold, NULL);
    MUST(qn_session_decode_start(s, items, N, err));
    assert_false(qn_session_poll(s));
    const char *const word = "under way";
    REFUSED(state, qn_session_decode_start(s, &one, 1, err), word);
    REFUSED(state, qn_session_decode(s, &one, 1, err), word);
    REFUSED(state, qn_session_feed(s, 1, &one.token, 1, err), word);
    REFUSED(state, qn_session_seq_remove(s, 0, 0, -1, err), word);
    REFUSED(state, qn_session_seq_copy(s, 0, 1, 0, -1, err), word);
    REFUSED(state, qn_session_seq_keep(s, 0, err), word);
    REFUSED(state, qn_session_seq_shift(s, 0, 0, -1, 1, err), word);
    REFUSED(state, qn_session_reuse(s, 0, &one.token, 1, &kept, err), word);
    REFUSED(state, qn_session_save(s, tiny_path("s"), err), word);
    REFUSED(state, qn_session_restore(s, tiny_path("s"), err), word);
    REFUSED(state, qn_session_set_loras(s, NULL, 0, err), word);
    REFUSED(state, qn_session_print_graph(s, 1, -1, QN_GRAPH_text, &text, err), word);
    REFUSED(state, qn_session_print_plan(s, 1, &text, err), word);
    REFUSED(state, qn_session_print_last(s, -1, QN_GRAPH_text, &text, err), word);
    assert_null(qn_session_logits(s, -1));
    assert_int_equal(qn_session_n_logits(s), 0);
    atomic_store(&go_on, true);
    MUST(qn_session_wait(s, err));
    assert_non_null(qn_session_logits(s, -1));
    rig_decode(s, &one, 1); /* and then all is as ever */
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* What decode refuses, start refuses at once; what fails on the way comes out of wait, and the chunk is taken back. */
static void errors(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    qn_batch_item items[N], wrong = {RIG_VOCAB, 0, 0, true};
    items_of(items, 1, N, 0);
    REFUSED(invalid, qn_session_decode_start(s, &wrong, 1, err), "300");
    REFUSED(limit, qn_session_decode_start(s, items, 65, err), "65 tokens");
    assert_true(qn_session_poll(s));
    items[20].pos = 3; /* taken: found when its chunk comes */
    MUST(qn_session_decode_start(s, items, N, err));
    REFUSED(invalid, qn_session_wait(s, err), "position 3");
    assert_int_equal(qn_session_seq_len(s, 0), 16);
    atomic_store(&go_on, true);
    atomic_store(&stop_it, true);
    qn_session_set_eval(s, hold, NULL);
    items_of(items, 1, 2, 16);
    MUST(qn_session_decode_start(s, items, 2, err));
    REFUSED(cancelled, qn_session_wait(s, err), "stopped");
    atomic_store(&stop_it, false);
    MUST(qn_session_decode_start(s, items, 2, err)); /* never waited for: destroying does */
    qn_session_destroy(s);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(while_it_runs),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
