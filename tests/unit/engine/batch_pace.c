/* SPDX-License-Identifier: MIT */
/* How much of prompts a step reads, on a machine whose times are made up: a step with prompts takes at most twice what
 * decoding alone takes, however many streams there are and however their number changes, and never less than 4 tokens
 * are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/batch.h"

enum { N_BATCH = 512 };

typedef struct machine {
    double step, stream, token; /* seconds: of any step, of each stream, of each token of a prompt */
} machine;

static double decode_time(const machine *m, int n) { return m->step + n * m->stream; }

/* One step with a prompt that doesn't end; what it took, as a multiple of decoding alone. */
static double one_step(qn_pace *p, const machine *m, int n, int *n_read)
{
    *n_read = qn__pace_decode_alone(p, n) ? 0 : qn__pace_budget(p, n, 1, N_BATCH - n);
    const double seconds = decode_time(m, n) + *n_read * m->token;
    qn__pace_note(p, n, *n_read, seconds);
    return seconds / decode_time(m, n);
}

static void twice_at_most(void **state)
{
    (void)state;
    static const machine machines[] = {{1e-3, 1e-3, 2e-5}, {20e-3, 1e-3, 1e-4}, {1e-4, 50e-3, 1e-3}};
    static const int crowds[] = {64, 1, 7, 128, 3, 30, 1};
    for (size_t k = 0; k < sizeof(machines) / sizeof(machines[0]); k++) {
        const machine *m = &machines[k];
        qn_pace p = {0};
        for (size_t c = 0; c < sizeof(crowds) / sizeof(crowds[0]); c++) {
            const int n = crowds[c];
            double all = 0, most = 0;
            int n_read, read = 0, n_alone = 0;
            for (int i = 0; i < 40; i++) (void)one_step(&p, m, n, &n_read); /* it finds out */
            for (int i = 0; i < 330; i++) {
                const double times = one_step(&p, m, n, &n_read);
                if (n_read != 0 && n_read != 4 && times > most) most = times;
                n_alone += n_read == 0;
                read += n_read;
                all += times;
            }
            /* 4 are read whatever they take */
            if (most > 2.001) fail_msg("machine %zu, %d streams: a step takes %g times decoding", k, n, most);
            assert_in_range(n_alone, 9, 11); /* one in 33 measures anew */
            assert_true(read >= 320 * 4);
            /* and not much less than may be */
            if (decode_time(m, n) > 24 * m->token && decode_time(m, n) < (N_BATCH - n) * m->token)
                assert_true(all / 330 > 1.6);
        }
    }
}

/* Nothing known, nobody waiting, no room: what is read then. */
static void bounds(void **state)
{
    (void)state;
    qn_pace p = {0};
    assert_int_equal(qn__pace_budget(&p, 8, 1, 500), 64);
    assert_int_equal(qn__pace_budget(&p, 8, 1, 10), 10);
    assert_int_equal(qn__pace_budget(&p, 0, 1, 0), 0);
    assert_false(qn__pace_decode_alone(&p, 0));
    assert_true(qn__pace_decode(&p, 4) == 0);
    qn__pace_note(&p, 0, 64, 0.064);                       /* a token takes a millisecond */
    assert_int_equal(qn__pace_budget(&p, 0, 1, 512), 150); /* 0.15 s */
    qn__pace_note(&p, 4, 0, 0.1);
    assert_int_equal(qn__pace_budget(&p, 4, 1, 512), 100);
    assert_int_equal(qn__pace_budget(&p, 3, 1, 512), 100);
    assert_int_equal(qn__pace_budget(&p, 100, 1, 512), 100); /* not less than what four take */
    assert_int_equal(qn__pace_budget(&p, 1, 1, 512), 25);    /* 0.1 s / 4 */
    assert_int_equal(qn__pace_budget(&p, 1, 4, 512), 100);   /* four wait for their first token, one for its next */
    assert_int_equal(qn__pace_budget(&p, 4, 3, 512), 100);
    assert_int_equal(qn__pace_budget(&p, 4, 8, 512), 150); /* as if nobody waited */
    p.decode_s[2] = 0.3;
    assert_int_equal(qn__pace_budget(&p, 4, 8, 512), 300); /* but not less than decoding takes */
    p.decode_s[2] = 0.1;
    /* one step that took long is not believed at once: it counts as four times the usual, an eighth of it */
    qn__pace_note(&p, 4, 0, 100);
    assert_true(qn__pace_decode(&p, 4) < 0.14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(twice_at_most), cmocka_unit_test(bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
