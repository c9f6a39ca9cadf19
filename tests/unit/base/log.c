/* SPDX-License-Identifier: MIT */
/* tests/unit/base/log.c -- the log hook: silence, one line, re-entry, exchange under fire. */
#include "base/log.h"
#include "base/thread.h"
#include "failing.h"

typedef struct seen {
    _Atomic int n;
    qn_log_level level;
    char line[2048];
} seen;

static void keep(void *ctx, qn_log_level level, const char *line)
{
    seen *s = ctx;
    s->n++;
    s->level = level;
    strncpy(s->line, line, sizeof s->line - 1);
}

static void silent_without_hook(void **state)
{
    (void)state;
    qn__log(QN_LOG_error, "into the void %d", 1);
    seen s = {0};
    qn_set_log(keep, &s);
    qn_set_log(NULL, NULL);
    qn__log(QN_LOG_error, "still nothing");
    assert_int_equal(s.n, 0);
}

static void one_line(void **state)
{
    (void)state;
    seen s = {0};
    qn_set_log(keep, &s);
    qn__log(QN_LOG_warn, "a %d\nb\r", 3);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.level, QN_LOG_warn);
    assert_string_equal(s.line, "a 3 b ");
    qn__log(QN_LOG_info, "%3000d", 1); /* cut, not overrun */
    assert_int_equal(strlen(s.line), 1023);
    qn_set_log(NULL, NULL);
}

static void reenter(void *ctx, qn_log_level level, const char *line)
{
    (void)level, (void)line;
    seen *s = ctx;
    s->n++;
    qn_set_log(keep, s);
    qn__log(QN_LOG_debug, "from inside");
}

static void hook_may_log_and_replace(void **state)
{
    (void)state;
    seen s = {0};
    qn_set_log(reenter, &s);
    qn__log(QN_LOG_info, "outer");
    assert_int_equal(s.n, 2);
    assert_string_equal(s.line, "from inside");
    qn_set_log(NULL, NULL);
}

static void count_a(void *ctx, qn_log_level level, const char *line)
{
    (void)level, (void)line;
    (*(_Atomic int *)ctx)++;
}
static void count_b(void *ctx, qn_log_level level, const char *line)
{
    (void)level, (void)line;
    (*(_Atomic int *)ctx) += 100000;
}

static _Atomic int a, b;

static void fire(void *ctx, int member, int n_members)
{
    (void)ctx, (void)n_members;
    for (int i = 0; i < 2000; i++) {
        if (member == 0) {
            if (i % 2 == 0)
                qn_set_log(count_a, &a);
            else
                qn_set_log(count_b, &b);
        } else {
            qn__log(QN_LOG_info, "line %d", i);
        }
    }
}

/* A function never meets the other one's context. */
static void exchanged_while_others_log(void **state)
{
    (void)state;
    qn_team *team;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 3}, &team, NULL), QN_OK);
    qn_set_log(count_a, &a);
    qn__team_run(team, fire, NULL);
    qn__team_destroy(team);
    assert_true(a + b / 100000 == 4000);
    assert_true(a < 100000 && b % 100000 == 0);
    qn_set_log(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_without_hook),
        cmocka_unit_test(one_line),
        cmocka_unit_test(hook_may_log_and_replace),
        cmocka_unit_test(exchanged_while_others_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
