/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/compare.c -- a node that gives other values on one of two backends is named, with what differs and
 * by how much, and no other node is. */
#include "rig.h"
#include "unit/main.h"

#include <quern/compare.h>
#include "backend/sched.h"
#include "engine/engine.h"

enum { N = 5 };

/* The session's own backend, with a kernel broken on purpose: one value of one node is wrong. */
static const qn_backend_type *whole;
static qn_backend_type broken;
static qn_engine *broken_engine;
static struct fault {
    const char *name; /* of the node */
    int64_t at;
    int ulps; /* added to the element; 0: it becomes a NaN */
} fault;
static qn_session *spoiled;

static bool spoil(void *ctx, const qn_node *n, bool after)
{
    const qn_run *run = ctx;
    if (after && fault.name && strcmp(qn_node_name(n), fault.name) == 0) {
        float values[4096];
        const int64_t count = qn_layout_numel(&n->layout);
        assert_true(count <= 4096 && fault.at < count);
        MUST(qn__exec_take(spoiled->running, n, values, NULL, err));
        for (int i = 0; i < fault.ulps; i++) values[fault.at] = nextafterf(values[fault.at], INFINITY);
        if (!fault.ulps) values[fault.at] = NAN;
        MUST(qn__exec_put(spoiled->running, n, values, err));
    }
    return run->eval(run->eval_ctx, n, after);
}

static qn_status run_broken(qn_program *program, const qn_run *run, qn_error *err)
{
    if (!run || !run->eval) return whole->run(program, run, err);
    qn_run other = *run;
    other.eval = spoil;
    other.eval_ctx = (void *)run;
    return whole->run(program, &other, err);
}

static int break_a_kernel(void **state)
{
    (void)state;
    broken_engine = rig_open(&(tiny){.arch = "qwen3", .n_layer = 3}, NULL);
    whole = broken_engine->backends[0]->type;
    broken = *whole;
    broken.run = run_broken;
    broken_engine->backends[0]->type = &broken;
    return 0;
}

static int end_it(void **state)
{
    (void)state;
    broken_engine->backends[0]->type = whole;
    qn_engine_close(broken_engine);
    return 0;
}

typedef struct seen {
    int n, n_differ, n_refused, n_updates;
    char name[64], op[32], source[64];
    qn_compared first; /* of those that differ */
    int stop_after;
} seen;

static qn_status look(void *ctx, const qn_compared *c, qn_error *err)
{
    seen *s = ctx;
    s->n++;
    s->n_refused += c->why != NULL;
    s->n_updates += strcmp(c->value.op, "set_rows") == 0;
    assert_true(c->n_sources > 0 && c->n_tokens == N);
    if (s->stop_after && s->n == s->stop_after) return QN_FAIL(err, limit, "enough, after %s", c->value.op);
    if (!c->n_differ) {
        assert_true(c->at == -1 && c->distance == 0 && c->ulps == 0);
        return QN_OK;
    }
    if (s->n_differ++) return QN_OK;
    s->first = *c;
    snprintf(s->name, sizeof s->name, "%s", c->value.name);
    snprintf(s->op, sizeof s->op, "%s", c->value.op);
    snprintf(s->source, sizeof s->source, "%s", c->sources[0].name);
    assert_true(c->sources[0].max > c->sources[0].min); /* they are looked at where something differs */
    return QN_OK;
}

static qn_status compare(const char *backend, seen *s, rig_row *logits, qn_error *err)
{
    qn_token ids[N];
    rig_story(0, ids, N);
    spoiled = rig_session(broken_engine, (qn_session_options){0});
    qn_status status = backend ? qn_session_compare(spoiled, backend, 1, look, s, err) : QN_OK;
    if (status == QN_OK) status = qn_session_feed(spoiled, 0, ids, N, err);
    if (status == QN_OK && logits) *logits = rig_logits(spoiled, 0);
    qn_session_destroy(spoiled);
    return status;
}

static void all_the_same(void **state)
{
    (void)state;
    rig_row with, without;
    seen s = {0};
    fault = (struct fault){0};
    MUST(compare("cpu:ref", &s, &with, err));
    assert_true(s.n > 40 && s.n_updates == 2 * 3); /* keys and values of three layers */
    assert_int_equal(s.n_differ, 0);
    assert_int_equal(s.n_refused, 0);
    MUST(compare(NULL, NULL, &without, err));
    SAME(with, without);
}

static void one_is_named(void **state)
{
    (void)state;
    static const struct fault faults[] = {{"ffn_act-1", 77, 3}, {"attn-0", 0, 1}, {"q-2", 5, 0}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        seen s = {0};
        fault = faults[i];
        MUST(compare("cpu:ref", &s, NULL, err));
        assert_int_equal(s.n_differ, 1);
        assert_string_equal(s.name, fault.name);
        assert_int_equal(s.first.n_differ, 1);
        assert_int_equal(s.first.at, fault.at);
        if (fault.ulps) {
            assert_int_equal(s.first.ulps, fault.ulps);
            assert_true(s.first.distance > 0 && s.first.first > s.first.second);
            assert_true(s.first.largest >= fabs((double)s.first.second));
            assert_int_equal(s.first.value.n_not_finite, 0);
        } else {
            assert_true(s.first.ulps == UINT64_MAX && isinf(s.first.distance) && isnan(s.first.first));
            assert_int_equal(s.first.value.n_not_finite, 1);
        }
    }
    fault = faults[0];
    seen s = {0};
    MUST(compare("cpu:ref", &s, NULL, err));
    assert_string_equal(s.op, "swiglu");
    assert_string_equal(s.source, "ffn_gate-1");
}

static void what_is_refused(void **state)
{
    (void)state;
    qn_error why = {0};
    seen s = {0};
    fault = (struct fault){0};
    assert_int_equal(compare("frob", &s, NULL, &why), QN_STATUS_unsupported);
    assert_non_null(strstr(why.text, "frob"));
    assert_int_equal(compare("cpu,cpu:ref", &s, NULL, &why), QN_STATUS_limit);

    /* Who looks may stop it, with an error of their own; the session goes on. */
    s = (seen){.stop_after = 4};
    assert_int_equal(compare("cpu:ref", &s, NULL, &why), QN_STATUS_limit);
    assert_non_null(strstr(why.text, "enough, after "));
    assert_int_equal(s.n, 4);

    qn_token ids[N];
    rig_story(0, ids, N);
    s = (seen){.stop_after = 1};
    spoiled = rig_session(broken_engine, (qn_session_options){0});
    assert_int_equal(qn_session_compare(spoiled, "cpu", 1, NULL, NULL, &why), QN_STATUS_invalid);
    MUST(qn_session_compare(spoiled, "cpu", 1, look, &s, err));
    assert_int_equal(qn_session_feed(spoiled, 0, ids, N, &why), QN_STATUS_limit);
    MUST(qn_session_compare(spoiled, NULL, 0, NULL, NULL, err));
    MUST(qn_session_feed(spoiled, 0, ids, N, err));
    assert_int_equal(s.n, 1);
    qn_session_destroy(spoiled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_the_same),
        cmocka_unit_test(one_is_named),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, break_a_kernel, end_it);
}
