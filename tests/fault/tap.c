/* SPDX-License-Identifier: MIT */
/* A failing allocator, and a full disk, under taps: a tap is set whole or not at all, a step that fails is none, and
 * everything comes back. */
#include "failing.h"

#include <quern/lens.h>
#include <quern/tap.h>
#include <unistd.h>

typedef struct work {
    qn_engine *engine;
    rig_row want;
} work;

static qn_session *begin(const work *w)
{
    return rig_session(w->engine, (qn_session_options){.n_ctx = 32, .n_batch = 4, .no_plan_cache = true});
}

/* A life with every kind of action. */
static qn_status life(void *ctx, qn_error *err)
{
    static const char *const taps[] = {"q-*=save=", "*-0@1=stats=", "attn_norm-1=imatrix=", "ffn_out-?=hash=",
                                       "*=check"};
    const work *w = ctx;
    qn_session *s = NULL;
    char text[1024];
    qn_token ids[3];
    rig_story(0, ids, 3);
    qn_status status = qn_session_create(w->engine, &(qn_session_options){.n_ctx = 32, .n_batch = 4}, &s, err);
    for (size_t i = 0; i < sizeof taps / sizeof taps[0] && status == QN_OK; i++) {
        char name[24];
        snprintf(name, sizeof name, "out-%zu", i);
        snprintf(text, sizeof text, "%s%s", taps[i], strstr(taps[i], "check") ? "" : tiny_path(name));
        status = qn_session_tap(s, text, err);
    }
    if (status == QN_OK) status = qn_session_feed(s, 0, ids, 3, err);
    if (status == QN_OK) {
        const rig_row row = rig_logits(s, 0);
        SAME(row, w->want);
        status = qn_session_taps_end(s, err);
    }
    qn_session_destroy(s);
    return status;
}

static void allocations(void **state)
{
    (void)state;
    work w = {.engine = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = 1})};
    qn_token ids[3];
    rig_story(0, ids, 3);
    qn_session *s = begin(&w);
    rig_feed(s, 0, ids, 3);
    w.want = rig_logits(s, 0);
    qn_session_destroy(s);
    fault_sweep("taps", life, NULL, &w);
    qn_engine_close(w.engine);
}

/* The lens and a grid of patches: whole, or not there; taps of others are as they were. */
static qn_status look(void *ctx, qn_error *err)
{
    const work *w = ctx;
    qn_session *s = NULL;
    qn_lens *lens = NULL;
    qn_lens_grid *grid = NULL;
    qn_token ids[2], other[2];
    rig_story(0, ids, 2);
    rig_story(1, other, 2);
    const qn_lens_options options = {.attention = true, .logits = true};
    const qn_lens_patch_options words = {.has_words = true, .words = {3, 4}};
    qn_status status = qn_session_create(w->engine, &(qn_session_options){.n_ctx = 32, .n_batch = 4}, &s, err);
    if (status == QN_OK) status = qn_session_tap(s, "ffn_out-0=hash", err);
    if (status == QN_OK) status = qn_lens_create(s, ids, 2, &options, &lens, err);
    if (status == QN_OK) {
        assert_true(qn_lens_at(lens, 1, 1)->rank == 1 && qn_lens_n_heads(lens, 1) > 0);
        status = qn_session_seq_remove(s, 0, 0, -1, err);
    }
    if (status == QN_OK) status = qn_lens_patch(s, ids, other, 2, &words, &grid, err);
    qn_lens_grid_destroy(grid);
    qn_lens_destroy(lens);
    qn_session_destroy(s);
    return status;
}

static void lens_allocations(void **state)
{
    (void)state;
    work w = {.engine = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = 1})};
    fault_sweep("the lens", look, NULL, &w);
    qn_engine_close(w.engine);
}

/* The file is a device that is always full: the step fails and is taken back; without the tap all goes on. */
static void full_disk(void **state)
{
    (void)state;
    const work w = {.engine = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = 2})};
    qn_token ids[3];
    char text[1024];
    rig_story(0, ids, 3);
    qn_session *s = begin(&w);
    snprintf(text, sizeof text, "q-*=save=%s", tiny_path("full"));
    MUST(qn_session_tap(s, text, err));
    assert_int_equal(symlink("/dev/full", tiny_path("full/q-1.npy")), 0);
    REFUSED(io, qn_session_feed(s, 0, ids, 3, err), "q-1.npy", "No space left");
    assert_int_equal(qn_session_seq_len(s, 0), 0);
    MUST(qn_session_taps_end(s, err));
    MUST(qn_session_tap(s, "q-1=stats=/dev/full", err));
    MUST(qn_session_tap(s, "q-1=imatrix=/dev/full", err));
    rig_feed(s, 0, ids, 3);
    REFUSED(io, qn_session_taps_end(s, err), "/dev/full", "No space left");
    rig_feed(s, 0, ids, 1);
    qn_session_destroy(s);
    qn_engine_close(w.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations), cmocka_unit_test(lens_allocations),
                                       cmocka_unit_test(full_disk)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
