/* SPDX-License-Identifier: MIT */
/* Tokens that see what comes after them: a call's items are computed at once, whatever order they come in, and what a
 * token sees is a window to both sides or all of its own sequence. */
#include "rig.h"

static void not_causal(qn_gguf_writer *w) { qn_gguf_write_bool(w, "gemma2.attention.causal", false); }
static void not_causal_window(qn_gguf_writer *w)
{
    not_causal(w);
    qn_gguf_write_u32(w, "gemma2.attention.sliding_window", 9);
    qn_gguf_write_u32(w, "gemma2.attention.sliding_window_pattern", 0); /* in every layer */
}

static qn_engine *open_with(void (*extra)(qn_gguf_writer *), int32_t n_layer)
{
    return rig_open(&(tiny){.arch = "gemma2", .n_layer = n_layer, .extra = extra}, NULL);
}

/* Logits of token `at` when `n` tokens are one call, in the order of positions or against it, beside another sequence
 * or alone. */
static rig_row at_once(qn_engine *e, const qn_token *tokens, int n, int at, bool backwards, bool beside)
{
    qn_batch_item items[40];
    int k = 0;
    qn_session *s = rig_session(e, (qn_session_options){.n_batch = 40, .n_seq = 2});
    for (int i = 0; i < n; i++) {
        const int p = backwards ? n - 1 - i : i;
        items[k++] = (qn_batch_item){tokens[p], p, beside, p == at};
        if (beside && i % 2) items[k++] = (qn_batch_item){rig_token(3, i), i, 0, false};
    }
    rig_decode(s, items, k);
    const rig_row row = rig_logits(s, 0);
    qn_session_destroy(s);
    return row;
}

static void order_and_neighbours(void **state)
{
    (void)state;
    qn_token tokens[24], other[24];
    void (*const kinds[])(qn_gguf_writer *) = {not_causal, not_causal_window};
    rig_story(0, tokens, 24);
    memcpy(other, tokens, sizeof tokens);
    other[23] = (other[23] + 1) % RIG_VOCAB;
    for (int k = 0; k < 2; k++) {
        qn_engine *e = open_with(kinds[k], 2);
        const rig_row want = at_once(e, tokens, 24, 20, false, false);
        SAME(at_once(e, tokens, 24, 20, true, false), want);
        SAME(at_once(e, tokens, 24, 20, false, true), want);
        DIFFERENT(at_once(e, other, 24, 20, false, false), want); /* the last token is seen from before it */
        qn_engine_close(e);
    }
}

/* One layer with a window of 9: four positions to either side, and not one more. */
static void half_a_window_to_each_side(void **state)
{
    (void)state;
    qn_token tokens[24];
    qn_engine *e = open_with(not_causal_window, 1);
    rig_story(1, tokens, 24);
    const rig_row want = at_once(e, tokens, 24, 12, false, false);
    for (int p = 0; p < 24; p++) {
        const qn_token was = tokens[p];
        tokens[p] = (was + 7) % RIG_VOCAB;
        const rig_row row = at_once(e, tokens, 24, 12, false, false);
        if (p < 8 || p > 16)
            SAME(row, want);
        else
            DIFFERENT(row, want);
        tokens[p] = was;
    }
    qn_engine_close(e);
}

static void longer_than_a_batch(void **state)
{
    (void)state;
    qn_token tokens[24];
    qn_batch_item items[24];
    qn_engine *e = open_with(not_causal, 1);
    qn_session *s = rig_session(e, (qn_session_options){.n_batch = 23});
    rig_story(0, tokens, 24);
    for (int i = 0; i < 24; i++) items[i] = (qn_batch_item){tokens[i], i, 0, i == 23};
    REFUSED(limit, qn_session_decode(s, items, 24, err), "24", "23", "n_batch");
    REFUSED(limit, qn_session_feed(s, 0, tokens, 24, err), "24", "23", "n_batch");
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    rig_decode(s, items, 23);
    qn_session_destroy(s);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_neighbours),
        cmocka_unit_test(half_a_window_to_each_side),
        cmocka_unit_test(longer_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
