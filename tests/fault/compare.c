/* SPDX-License-Identifier: MIT */
/* A failing allocator under a comparison of backends: the step fails and is taken back, and everything comes back. */
#include "failing.h"

#include <quern/compare.h>

static qn_status look(void *ctx, const qn_compared *c, qn_error *err)
{
    (void)err;
    *(int *)ctx += c->n_differ != 0;
    return QN_OK;
}

static qn_status life(void *ctx, qn_error *err)
{
    qn_session *s = NULL;
    qn_token ids[1];
    int n_differ = 0;
    rig_story(0, ids, 1);
    qn_status status = qn_session_create(ctx, &(qn_session_options){.n_ctx = 8, .n_batch = 1}, &s, err);
    if (status == QN_OK) status = qn_session_compare(s, "cpu:ref", 1, look, &n_differ, err);
    if (status == QN_OK) status = qn_session_feed(s, 0, ids, 1, err);
    assert_int_equal(n_differ, 0);
    qn_session_destroy(s);
    return status;
}

static void allocations(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.arch = "qwen3", .n_layer = 1}, &(qn_engine_options){.n_threads = 1});
    fault_sweep("comparison", life, NULL, e);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
