/* SPDX-License-Identifier: MIT */
/* Shifting: cached keys are turned, nothing is computed anew. Attention sees differences of positions only, so a
 * shifted sequence must go on as one that was computed at the new positions. Not to the bit: a key turned by a and then
 * by b has been rounded twice, each time by up to 2^-24 of its length with F32 keys. A score is a sum over the head of
 * products of such errors with values of order 1 (these models' scores reach 10), so scores are off by some 1e-6, and
 * logits, through two layers, by no more than ten times that: 1e-5 relative. 16-bit keys round by 2^-11 or 2^-8, and
 * the limit grows alike. */
#include "rig.h"

enum { N = 45 };

static void write_yarn(qn_gguf_writer *w)
{
    qn_gguf_write_str(w, "llama.rope.scaling.type", "yarn");
    qn_gguf_write_f32(w, "llama.rope.scaling.factor", 4);
    qn_gguf_write_f32(w, "llama.rope.scaling.attn_factor", 1.25f);
    qn_gguf_write_u32(w, "llama.rope.scaling.original_context_length", 32);
}

static void write_linear(qn_gguf_writer *w)
{
    qn_gguf_write_str(w, "qwen2.rope.scaling.type", "linear");
    qn_gguf_write_f32(w, "qwen2.rope.scaling.factor", 2.5f);
}

static void write_window(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "gemma3.attention.sliding_window", 4096);
    qn_gguf_write_f32(w, "gemma3.rope.freq_base_swa", 300);
    qn_gguf_write_f32(w, "gemma3.rope.scaling.factor", 3);
}
static void write_partial(qn_gguf_writer *w) { qn_gguf_write_u32(w, "qwen3.rope.dimension_count", 4); }

/* All experts for every token: none is chosen otherwise for a rounding. */
static bool all_experts(qn_gguf_writer *w, const char *key)
{
    if (!strstr(key, "expert_used_count")) return false;
    qn_gguf_write_u32(w, key, 6);
    return true;
}

static const tiny models[] = {
    {.arch = "llama"},
    {.arch = "qwen2"},
    {.arch = "qwen3", .tied = true},
    {.arch = "llama", .extra = write_yarn},
    {.arch = "qwen2", .extra = write_linear},
    {.arch = "qwen3", .extra = write_partial},
    {.arch = "smollm3", .n_layer = 4},
    {.arch = "gemma3", .extra = write_window},
    {.arch = "openelm"},
    {.arch = "minicpm3"},
    {.arch = "deepseek2", .latent = true, .key = all_experts},
    {.arch = "bloom"},
};
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

#define NEAR(a, b, limit) check_near((a), (b), (limit), __FILE__, __LINE__)
static void check_near(rig_row a, rig_row b, double limit, const char *file, int line)
{
    const double d = rig_distance(&a, &b);
    if (!(d <= limit)) fail_msg("%s:%d: logits are off by %g, at most %g expected", file, line, d, limit);
}

static const struct {
    qn_dtype type;
    double limit;
} kinds[] = {{QN_DTYPE_F32, 1e-5}, {QN_DTYPE_F16, 5e-3}, {QN_DTYPE_BF16, 4e-2}};

static qn_session_options kv(int kind)
{
    return (qn_session_options){.kv_type = kinds[kind].type, .kv_type_set = true};
}

/* Up and down, a little and a lot, in one go and in several, against tokens computed at the new positions. */
static void whole_sequence(void **state)
{
    (void)state;
    static const int deltas[] = {1, 37, 5000, 100000};
    for (int m = 0; m < N_MODELS; m++)
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 4; d++) {
                qn_token tokens[N];
                rig_story(m, tokens, N);
                qn_session *s = rig_session(engines[m], kv(k));
                rig_feed(s, 0, tokens, N - 1);
                MUST(qn_session_seq_shift(s, 0, 0, -1, deltas[d], err));
                assert_int_equal(qn_session_seq_pos_max(s, 0), N - 2 + deltas[d]);
                assert_int_equal(qn_session_seq_len(s, 0), N - 1);
                rig_feed(s, 0, tokens + N - 1, 1);
                const rig_row up = rig_logits(s, -1);
                NEAR(up, rig_fresh_at(engines[m], kv(k), tokens, N, deltas[d]), kinds[k].limit);
                MUST(qn_session_seq_remove(s, 0, N - 1 + deltas[d], -1, err));
                MUST(qn_session_seq_shift(s, 0, 0, -1, -deltas[d], err));
                rig_feed(s, 0, tokens + N - 1, 1);
                NEAR(rig_logits(s, -1), rig_fresh(engines[m], kv(k), tokens, N), 2 * kinds[k].limit);
                qn_session_destroy(s);
            }
}

/* Would the test above see keys that were not turned? Positions that lie about the keys must show. */
static void sensitive(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[N];
        rig_story(m, tokens, N);
        qn_session *s = rig_session(engines[m], kv(0));
        rig_feed(s, 0, tokens, N - 1);
        rig_decode(s, &(qn_batch_item){tokens[N - 1], N - 1 + 37, 0, true}, 1); /* far away from the rest */
        DIFFERENT(rig_logits(s, 0), rig_fresh_at(engines[m], kv(0), tokens, N, 37));
        qn_session_destroy(s);
    }
}

/* What a full context does: the beginning stays, some go, the rest moves up. The witness has the same hole, but closes
 * it by computing the tail's successors where the tail is; only the beginning is at another distance, so it must go
 * too. */
static void context_shift(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[N + 6];
        rig_story(m, tokens, N + 6);
        qn_session *s = rig_session(engines[m], kv(0)), *w = rig_session(engines[m], kv(0));
        rig_feed(s, 0, tokens, N);
        rig_feed(w, 0, tokens, N);
        MUST(qn_session_seq_remove(s, 0, 0, 15, err));
        MUST(qn_session_seq_remove(w, 0, 0, 15, err));
        MUST(qn_session_seq_shift(s, 0, 15, -1, -15, err));
        assert_int_equal(qn_session_seq_pos_max(s, 0), N - 16);
        rig_feed(s, 0, tokens + N, 6);
        rig_feed(w, 0, tokens + N, 6);
        NEAR(rig_logits(s, -1), rig_logits(w, -1), 1e-5);
        qn_session_destroy(s);
        qn_session_destroy(w);
    }
}

/* A part moves away and back again; the others don't move, so the end is where it began. */
static void a_part(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[N];
        rig_story(m, tokens, N);
        qn_session *s = rig_session(engines[m], kv(0));
        rig_feed(s, 0, tokens, N - 1);
        MUST(qn_session_seq_shift(s, 0, 20, -1, 300, err));
        rig_feed(s, 0, tokens + N - 1, 1);
        DIFFERENT(rig_logits(s, -1), rig_fresh(engines[m], kv(0), tokens, N));
        MUST(qn_session_seq_remove(s, 0, N - 1 + 300, -1, err));
        MUST(qn_session_seq_shift(s, 0, 20, -1, -300, err));
        assert_int_equal(qn_session_seq_pos_max(s, 0), N - 2);
        rig_feed(s, 0, tokens + N - 1, 1);
        NEAR(rig_logits(s, -1), rig_fresh(engines[m], kv(0), tokens, N), 1e-5);
        qn_session_destroy(s);
    }
}

/* Cells that others hold are copied first: the others go on as if nothing had happened, to the bit. */
static void shared_cells(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++)
        for (int k = 0; k < 3; k++) {
            qn_token tokens[N + 5];
            rig_story(m, tokens, N + 5);
            qn_session_options o = kv(k);
            o.n_seq = 3;
            qn_session *s = rig_session(engines[m], o);
            rig_feed(s, 0, tokens, N - 1);
            MUST(qn_session_seq_copy(s, 0, 1, 0, 30, err));
            MUST(qn_session_seq_copy(s, 0, 2, 0, -1, err));
            assert_int_equal(qn_session_free_cells(s), RIG_MAX - (N - 1));
            MUST(qn_session_seq_shift(s, 0, 10, -1, 64, err)); /* 20 cells of it are in all three, 14 in two */
            assert_int_equal(qn_session_free_cells(s), RIG_MAX - (N - 1) - (N - 11));
            MUST(qn_session_seq_shift(s, 0, 0, 10, 64, err));
            assert_int_equal(qn_session_free_cells(s), RIG_MAX - 2 * (N - 1));
            rig_feed(s, 1, tokens + 30, 10);
            SAME(rig_logits(s, -1), rig_fresh(engines[m], kv(k), tokens, 40));
            rig_feed(s, 2, tokens + N - 1, 6);
            SAME(rig_logits(s, -1), rig_fresh(engines[m], kv(k), tokens, N + 5));
            rig_feed(s, 0, tokens + N - 1, 1);
            NEAR(rig_logits(s, -1), rig_fresh_at(engines[m], kv(k), tokens, N, 64), kinds[k].limit);
            qn_session_destroy(s);
        }
}

/* More cells than a batch: several runs of one graph, and a cell is neither left out nor turned twice. */
static void in_pieces(void **state)
{
    (void)state;
    static const int batches[] = {1, 7, 16, 33, 128};
    for (int m = 0; m < 2; m++) {
        qn_token tokens[101];
        rig_row first;
        rig_story(m, tokens, 101);
        for (int b = 0; b < 5; b++) {
            qn_session_options o = kv(0);
            o.n_batch = batches[b];
            qn_session *s = rig_session(engines[m], o);
            rig_feed(s, 0, tokens, 100);
            MUST(qn_session_seq_shift(s, 0, 0, -1, 9, err));
            rig_feed(s, 0, tokens + 100, 1);
            if (b == 0) first = rig_logits(s, -1);
            SAME(rig_logits(s, -1), first);
            qn_session_destroy(s);
        }
        NEAR(first, rig_fresh_at(engines[m], kv(0), tokens, 101, 9), 1e-5);
    }
}

static void blocks(void **state)
{
    (void)state;
    static const struct {
        qn_dtype type;
        double limit;
    } rows[] = {{QN_DTYPE_Q8_0, 8e-2}, {QN_DTYPE_Q5_0, 5e-1}, {QN_DTYPE_Q4_0, 1}};
    qn_engine *e = rig_open(&(tiny){.head = 32, .n_embd = 64}, NULL); /* heads of whole blocks */
    qn_token tokens[N];
    rig_story(0, tokens, N);
    for (int k = 0; k < 3; k++) {
        const qn_session_options o = {.kv_type = rows[k].type, .kv_type_set = true, .n_seq = 2};
        qn_session *s = rig_session(e, o);
        rig_feed(s, 0, tokens, N - 1);
        MUST(qn_session_seq_copy(s, 0, 1, 0, -1, err));
        MUST(qn_session_seq_shift(s, 0, 0, -1, 50, err));
        rig_feed(s, 0, tokens + N - 1, 1);
        NEAR(rig_logits(s, -1), rig_fresh_at(e, o, tokens, N, 50), rows[k].limit);
        rig_feed(s, 1, tokens + N - 1, 1);
        SAME(rig_logits(s, -1), rig_fresh(e, o, tokens, N));
        qn_session_destroy(s);
    }
    qn_engine_close(e);
}

static void refused(void **state)
{
    (void)state;
    qn_token tokens[N];
    rig_story(0, tokens, N);
    qn_session *s = rig_session(engines[0], (qn_session_options){.n_seq = 2, .n_ctx = 50});
    rig_feed(s, 0, tokens, 30);
    REFUSED(invalid, qn_session_seq_shift(s, 0, 0, -1, -1, err), "negative");
    REFUSED(invalid, qn_session_seq_shift(s, 0, 5, 10, 1, err), "others");
    REFUSED(invalid, qn_session_seq_shift(s, 0, 5, 10, -1, err), "others");
    REFUSED(invalid, qn_session_seq_shift(s, 0, 5, -1, -5, err));
    REFUSED(invalid, qn_session_seq_shift(s, 0, 0, -1, INT32_MAX, err));
    REFUSED(invalid, qn_session_seq_shift(s, 0, 0, -1, INT32_MIN, err));
    REFUSED(invalid, qn_session_seq_shift(s, 0, 9, 8, 1, err));
    MUST(qn_session_seq_shift(s, 0, 0, -1, 0, err));
    MUST(qn_session_seq_shift(s, 0, 40, -1, 1, err)); /* nothing there */
    MUST(qn_session_seq_shift(s, 1, 0, -1, 1, err));
    MUST(qn_session_seq_copy(s, 0, 1, 0, -1, err));
    REFUSED(limit, qn_session_seq_shift(s, 0, 0, -1, 5, err), "30 cells", "20 are free");
    assert_int_equal(qn_session_seq_pos_max(s, 0), 29);
    assert_int_equal(qn_session_free_cells(s), 20);
    MUST(qn_session_seq_shift(s, 0, 10, -1, 5, err)); /* 20 there are */
    assert_int_equal(qn_session_free_cells(s), 0);
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    rig_feed(s, 1, tokens + 30, 10);
    SAME(rig_logits(s, -1), rig_fresh(engines[0], (qn_session_options){0}, tokens, 40)); /* none of it hurt the other */
    /* The last position there is: nothing fits after it, and nothing is counted past it. */
    MUST(qn_session_seq_remove(s, 1, 0, -1, err));
    rig_feed(s, 1, tokens, 4);
    MUST(qn_session_seq_shift(s, 1, 0, -1, INT32_MAX - 2 - 4, err));
    rig_feed(s, 1, tokens, 1);
    assert_int_equal(qn_session_seq_pos_max(s, 1), INT32_MAX - 2);
    REFUSED(limit, qn_session_feed(s, 1, tokens, 3, err), "2147483645");
    REFUSED(invalid, qn_session_seq_shift(s, 1, 0, -1, 1, err));
    REFUSED(invalid, qn_session_decode(s, &(qn_batch_item){1, INT32_MAX - 1, 1, true}, 1, err), "2147483646");
    qn_session_destroy(s);
}

/* Learned positions end, and what is cached for one stays there: a prompt is then computed again. */
static void learned_positions(void **state)
{
    (void)state;
    qn_token tokens[N];
    size_t kept = 0;
    rig_story(0, tokens, N);
    qn_engine *e = rig_open(&(tiny){.arch = "gpt2", .n_kv_head = 4, .n_ctx = 60}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){.n_ctx = 80});
    rig_feed(s, 0, tokens, 40);
    REFUSED(unsupported, qn_session_seq_shift(s, 0, 10, -1, -5, err), "gpt2", "learned");
    MUST(qn_session_reuse_shift(s, 0, tokens + 3, 30, &kept, err));
    assert_int_equal(kept, 0);
    REFUSED(invalid, qn_session_decode(s, &(qn_batch_item){1, 60, 0, true}, 1, err), "position 60", "trained for 60");
    MUST(qn_session_decode(s, &(qn_batch_item){1, 59, 0, true}, 1, err));
    qn_session_destroy(s);
    qn_engine_close(e);
    e = rig_open(&(tiny){.arch = "baichuan"}, NULL); /* no positions: nothing to rotate */
    s = rig_session(e, (qn_session_options){0});
    rig_feed(s, 0, tokens, 30);
    MUST(qn_session_seq_shift(s, 0, 0, -1, 7, err));
    rig_feed(s, 0, tokens + 30, 1);
    SAME(rig_logits(s, -1), rig_fresh(e, (qn_session_options){0}, tokens, 31));
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* The oldest left out of a prompt: the rest is found in the sequence and moved, as by hand. */
static void reuse_moves(void **state)
{
    (void)state;
    enum { KEPT = 5, GONE = 12 };
    for (int m = 0; m < N_MODELS; m++) {
        qn_token tokens[N + 2], less[N + 2];
        size_t kept = 0;
        rig_story(m, tokens, N + 2);
        memcpy(less, tokens, KEPT * sizeof(*less));
        memcpy(less + KEPT, tokens + KEPT + GONE, (N + 2 - KEPT - GONE) * sizeof(*less));
        qn_session *s = rig_session(engines[m], kv(0)), *w = rig_session(engines[m], kv(0));
        rig_feed(s, 0, tokens, N);
        rig_feed(w, 0, tokens, N);
        MUST(qn_session_reuse_shift(s, 0, less, N + 2 - GONE, &kept, err));
        assert_int_equal(kept, N - GONE);
        assert_int_equal(qn_session_seq_pos_max(s, 0), N - GONE - 1);
        MUST(qn_session_seq_remove(w, 0, KEPT, KEPT + GONE, err));
        MUST(qn_session_seq_shift(w, 0, KEPT + GONE, -1, -GONE, err));
        rig_feed(s, 0, tokens + N, 2);
        rig_feed(w, 0, tokens + N, 2);
        SAME(rig_logits(s, -1), rig_logits(w, -1));
        /* What is all there needs no move, but the last token gives logits again. */
        MUST(qn_session_reuse_shift(s, 0, less, N + 2 - GONE, &kept, err));
        assert_int_equal(kept, N + 2 - GONE - 1);
        /* Less than QN_REUSE_MIN_RUN tokens stay where they are, and go. */
        memmove(less + KEPT, tokens + N - QN_REUSE_MIN_RUN + 3, (QN_REUSE_MIN_RUN - 1) * sizeof(*less));
        MUST(qn_session_reuse_shift(s, 0, less, KEPT + QN_REUSE_MIN_RUN, &kept, err));
        assert_int_equal(kept, KEPT);
        assert_int_equal(qn_session_seq_len(s, 0), KEPT);
        MUST(qn_session_reuse_shift(s, 0, NULL, 0, &kept, err));
        assert_int_equal(kept, 0);
        assert_int_equal(qn_session_reuse_shift(s, 1, less, 3, &kept, NULL), QN_STATUS_invalid);
        qn_session_destroy(s);
        qn_session_destroy(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_sequence), cmocka_unit_test(sensitive),    cmocka_unit_test(context_shift),
        cmocka_unit_test(a_part),         cmocka_unit_test(shared_cells), cmocka_unit_test(in_pieces),
        cmocka_unit_test(blocks),         cmocka_unit_test(refused),      cmocka_unit_test(learned_positions),
        cmocka_unit_test(reuse_moves),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
