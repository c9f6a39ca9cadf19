/* SPDX-License-Identifier: MIT */
/* What a host program does beside: it forks, and sets a rounding mode of its own. Bits stay. */
#include "rig.h"
#include <fenv.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 40 };

static qn_token text[N];

static int make_text(void **state)
{
    (void)state;
    rig_story(2, text, N);
    return 0;
}

static rig_row run(qn_session *s)
{
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    rig_feed(s, 0, text, N);
    return rig_logits(s, 0);
}

static bool same(const rig_row *a, const rig_row *b) { return memcmp(a->x, b->x, sizeof a->x) == 0; }

/* In the child: 0, or which of the steps failed. No checks of cmocka's, whose failures would be the parent's tests. */
static int child(qn_engine *open, qn_session *session, const rig_row *want, const char *path)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_error err;
    alarm(60); /* whoever waits for threads that are not there is ended */
    rig_row row = run(session);
    if (!same(&row, want)) return 1;
    if (qn_engine_open(path, &(qn_engine_options){.n_threads = 3}, &e, &err) != QN_OK) return 2;
    if (qn_session_create(e, &(qn_session_options){.n_ctx = 64}, &s, &err) != QN_OK) return 3;
    row = run(s);
    if (!same(&row, want)) return 4;
    qn_session_destroy(s);
    qn_engine_close(e);
    row = run(session);
    if (!same(&row, want)) return 5;
    qn_session_destroy(session);
    qn_engine_close(open);
    return 0;
}

static void forks(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it ends a child that starts threads */
#endif
    qn_engine *e = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = 3});
    char path[768];
    snprintf(path, sizeof path, "%s", qn_gguf_path(qn_engine_file(e)));
    qn_session *s = rig_session(e, (qn_session_options){.n_ctx = 64});
    const rig_row want = run(s);
    for (int i = 0; i < 2; i++) {
        int status = -1;
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(child(e, s, &want, path));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("the child: status %d", status);
        const rig_row after = run(s); /* the parent's threads are there still */
        SAME(after, want);
    }
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void rounding(void **state)
{
    (void)state;
    static const int modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    static const char *const archs[] = {"llama", "gemma3"};
    for (int a = 0; a < 2; a++)
        for (int threads = 1; threads <= 3; threads++) {
            qn_engine *e = rig_open(&(tiny){.arch = archs[a]}, &(qn_engine_options){.n_threads = threads});
            qn_session *s = rig_session(e, (qn_session_options){.n_ctx = 64});
            const rig_row want = run(s);
            for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
                assert_int_equal(fesetround(modes[m]), 0);
                const rig_row row = run(s);
                qn_engine *other = NULL;
                MUST(
                    qn_engine_open(qn_gguf_path(qn_engine_file(e)), &(qn_engine_options){.n_threads = 2}, &other, err));
                qn_session *fresh = rig_session(other, (qn_session_options){.n_ctx = 64});
                const rig_row again = run(fresh); /* all of it with that mode, threads made under it */
                assert_int_equal(fegetround(), modes[m]);
                assert_int_equal(fesetround(FE_TONEAREST), 0);
                SAME(row, want);
                SAME(again, want);
                qn_session_destroy(fresh);
                qn_engine_close(other);
            }
            qn_session_destroy(s);
            qn_engine_close(e);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forks), cmocka_unit_test(rounding)};
    return cmocka_run_group_tests(tests, make_text, NULL);
}
