/* SPDX-License-Identifier: MIT */
/* How much of prompts a step reads, on a machine whose times are made up: a step with prompts takes at most twice what
 * decoding alone takes, however many streams there are, however their number changes and however deep a prompt is, and
 * never less than 2 tokens are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>

#include "engine/batch.h"

enum { N_BATCH = 512 };

typedef struct machine {
    double step, stream, token; /* seconds: of any step, of each stream, of each token of a prompt */
    double deep;                /* more of each token at a depth of 8192 */
} machine;

static double decode_time(const machine *m, int n) { return m->step + n * m->stream; }

static int32_t budget(const qn_pace *p, int32_t n_decoding, int32_t n_reading, double depth, int32_t most)
{
    const int32_t fit = qn__pace_fit(p, n_decoding, depth, qn__pace_seconds(p, n_decoding, n_reading, 0));
    return fit < most ? fit : most;
}

/* One step with a prompt that doesn't end; what it took, as a multiple of decoding alone. */
static double one_step(qn_pace *p, const machine *m, int n, double depth, int *n_read)
{
    *n_read = qn__pace_decode_alone(p, n) ? 0 : budget(p, n, 1, depth, N_BATCH - n);
    const double seconds = decode_time(m, n) + *n_read * (m->token + m->deep * depth / 8192);
    qn__pace_note(p, n, *n_read, depth, seconds);
    return seconds / decode_time(m, n);
}

static void twice_at_most(void **state)
{
    (void)state;
    static const machine machines[] = {{1e-3, 1e-3, 2e-5, 0}, {20e-3, 1e-3, 1e-4, 0}, {1e-4, 50e-3, 1e-3, 2e-3}};
    static const int crowds[] = {64, 1, 7, 128, 3, 30, 1};
    for (size_t k = 0; k < sizeof(machines) / sizeof(machines[0]); k++) {
        const machine *m = &machines[k];
        qn_pace p = {0};
        for (size_t c = 0; c < sizeof(crowds) / sizeof(crowds[0]); c++) {
            const int n = crowds[c];
            double all = 0, most = 0;
            int n_read, read = 0, n_alone = 0;
            for (int i = 0; i < 40; i++) (void)one_step(&p, m, n, 4000, &n_read); /* it finds out */
            for (int i = 0; i < 330; i++) {
                const double times = one_step(&p, m, n, 4000, &n_read);
                if (n_read != 0 && n_read != 2 && times > most) most = times;
                n_alone += n_read == 0;
                read += n_read;
                all += times;
            }
            /* 2 are read whatever they take */
            if (most > 2.001) fail_msg("machine %zu, %d streams: a step takes %g times decoding", k, n, most);
            assert_in_range(n_alone, 9, 11); /* one in 33 measures anew */
            assert_true(read >= 320 * 2);
            /* and not much less than may be */
            if (decode_time(m, n) > 24 * m->token && decode_time(m, n) < (N_BATCH - n) * m->token)
                assert_true(all / 330 > 1.6);
        }
    }
}

/* A prompt that goes deep, then a short one, then one that begins where the first ended: no step is planned with what a
 * token took at another depth, once both were seen. */
static void depths(void **state)
{
    (void)state;
    static const machine m = {10e-3, 2e-3, 1e-3, 4e-3};
    static const double ends[][2] = {{0, 16000},     {0, 100}, {0, 16000},  {0, 100},
                                     {15000, 16000}, {0, 100}, {8000, 9000}};
    const int n = 8;
    qn_pace p = {0};
    for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
        int n_read;
        for (double depth = ends[k][0]; depth < ends[k][1]; depth += n_read ? n_read : 1) {
            const double times = one_step(&p, &m, n, depth, &n_read);
            if (k >= 3 && times > 2.1) fail_msg("prompt %zu, at %g: %g times decoding", k, depth, times);
            if (k >= 3 && n_read > 2 && times < 1.25) fail_msg("prompt %zu, at %g: only %g times", k, depth, times);
        }
    }
}

/* Others use the machine now and then, and all takes half as long again: after the first such step the next ones read
 * less, so that who writes hardly waits for more than twice what decoding takes when nobody does; a little later as
 * much is read as before. Steps that differ by a tenth change nothing. */
static void others_use_it(void **state)
{
    (void)state;
    static const machine m = {100e-3, 5e-3, 15e-3, 0};
    const int n = 8;
    qn_pace p = {0};
    int n_read, usual = 0, n_over = 0;
    for (int i = 0; i < 60; i++) (void)one_step(&p, &m, n, 0, &usual);
    for (int i = 0; i < 1000; i++) {
        const int at = i % 100;
        const double times = at < 8 ? 1.5 : i % 2 ? 1.1 : 0.9;
        const machine now = {times * m.step, times * m.stream, times * m.token, 0};
        const double took = one_step(&p, &now, n, 0, &n_read) * times;
        if (at > 0 && at < 8 && n_read != 0) n_over += took > 2.3;
        if (at >= 16 && n_read != 0 && n_read < usual - 2) fail_msg("step %d: %d of %d", i, n_read, usual);
    }
    if (n_over > 2) fail_msg("%d steps of 70 take more than 2.3 times decoding", n_over);
    /* nobody notices a step that is short */
    p = (qn_pace){0};
    for (int i = 0; i < 60; i++) (void)one_step(&p, &(machine){1e-3, 1e-4, 1e-4, 0}, n, 0, &usual);
    qn__pace_note(&p, n, usual, 0, 0.015);
    assert_true(p.slow == 1);
    qn__pace_note(&p, n, usual, 0, 0.025);
    assert_true(p.slow == 3);
}

/* Where one step in twenty takes twice as long whatever is read, less is read, for 0.4 times what decoding takes; once
 * no step has for long, as much as before. */
static void slow_steps(void **state)
{
    (void)state;
    static const machine m = {100e-3, 5e-3, 5e-3, 0};
    const int n = 8;
    qn_pace p = {0};
    int n_read = 0;
    for (int i = 0; i < 40; i++) qn__pace_note(&p, n, 0, 0, decode_time(&m, n));
    for (int i = 0; i < 20; i++) (void)one_step(&p, &m, n, 0, &n_read);
    assert_in_range(n_read, 24, 26); /* 0.9 of 140 ms */
    for (int i = 0; i < 400; i++) qn__pace_note(&p, n, 0, 0, decode_time(&m, n) * (i % 20 ? 1 : 2));
    assert_true(p.tail > 1.7 && p.tail < 2.2);
    for (int i = 0; i < 20; i++) (void)one_step(&p, &m, n, 0, &n_read);
    assert_in_range(n_read, 10, 12);
    for (int i = 0; i < 2000; i++) qn__pace_note(&p, n, 0, 0, decode_time(&m, n));
    for (int i = 0; i < 20; i++) (void)one_step(&p, &m, n, 0, &n_read);
    assert_in_range(n_read, 24, 26);
}

/* A token that is read alone, in large steps, takes less time than beside streams. */
static void alone_and_beside(void **state)
{
    (void)state;
    qn_pace p = {0};
    for (int i = 0; i < 40; i++) qn__pace_note(&p, 8, 0, 0, 0.03);
    qn__pace_note(&p, 0, 64, 0, 0.064);
    qn__pace_note(&p, 8, 10, 0, 0.07);
    for (int i = 0; i < 40; i++) qn__pace_note(&p, 0, 64, 0, 0.064);
    assert_in_range(budget(&p, 8, 1, 0, 500), 6, 7); /* 27 ms of 4 */
    assert_in_range(budget(&p, 0, 1, 0, 500), 149, 151);
}

/* A stream was deep in a long context when its steps were measured, and the one that writes now isn't: what a step with
 * a prompt takes is hardly more than that, and a token of the prompt isn't taken for nothing. */
static void after_a_deep_stream(void **state)
{
    (void)state;
    qn_pace p = {0};
    for (int i = 0; i < 20; i++) qn__pace_note(&p, 0, 64, 100, 0.256); /* 4 ms a token */
    qn__pace_note(&p, 1, 0, 0, 0.094);
    qn__pace_note(&p, 1, 16, 8, 0.096);
    assert_in_range(budget(&p, 1, 1, 8, 500), 60, 85); /* 85 ms; not 800 */
}

/* One that takes long is read in steps of three of a stream's: a question behind it waits for no more. */
static void long_alone(void **state)
{
    (void)state;
    qn_pace p = {0};
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.15); /* not known what a step of a stream takes */
    qn__pace_note(&p, 1, 0, 0, 0.015);
    const double s = qn__pace_seconds(&p, 0, 1, 100);
    assert_true(s > 0.0449 && s < 0.0451);
    assert_true(qn__pace_seconds(&p, 0, 1, 19.9) == 0.15);
    p.decode_s[0] = 0.001;
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.02); /* there is no use in less */
    p.decode_s[0] = 0.2;
    assert_true(fabs(qn__pace_seconds(&p, 0, 1, 100) - 0.6) < 1e-9); /* or hardly anything would be read */
    assert_true(fabs(qn__pace_seconds(&p, 0, 1, 1) - 0.6) < 1e-9);
    p = (qn_pace){0};
    qn__pace_note(&p, 8, 0, 0, 0.13); /* nor is it by what eight take together */
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.15);
}

/* Where steps can be stopped they are long; but not once that has cost two seconds, until reading makes up for it. */
static void stopped(void **state)
{
    (void)state;
    qn_pace p = {.stops = true};
    assert_true(qn__pace_stoppable(&p));
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.15); /* not known what a token takes */
    qn__pace_note(&p, 0, 64, 0, 0.64);
    assert_true(fabs(qn__pace_seconds(&p, 0, 1, 100) - 0.64) < 1e-9); /* no step was shorter */
    qn__pace_note(&p, 0, 32, 0, 0.3);
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.5);
    qn__pace_note(&p, 1, 0, 0, 0.015);
    assert_true(qn__pace_seconds(&p, 0, 1, 100) == 0.5);
    assert_true(qn__pace_seconds(&p, 0, 1, 1) == 0.5);
    p.decode_s[0] = 0.2;
    assert_true(fabs(qn__pace_seconds(&p, 0, 1, 1) - 0.6) < 1e-9); /* or hardly anything would be read */
    p.decode_s[0] = 0.015;
    for (int i = 0; i < 7; i++) qn__pace_note_stopped(&p, 0.3);
    assert_false(qn__pace_stoppable(&p));
    assert_true(fabs(qn__pace_seconds(&p, 0, 1, 100) - 0.045) < 1e-9);
    for (int i = 0; i < 10; i++) qn__pace_note(&p, 8, 64, 0, 0.1); /* nobody waited for these */
    assert_false(qn__pace_stoppable(&p));
    for (int i = 0; i < 10; i++) qn__pace_note(&p, 0, 64, 0, 0.1);
    assert_true(qn__pace_stoppable(&p));
    for (int i = 0; i < 200; i++) qn__pace_note(&p, 0, 64, 0, 0.1);
    assert_true(p.lost_s == 0);
}

/* Steps of which nearly all is the same however few tokens they have, before and after a stream has written. */
static void slow_alone(void **state)
{
    (void)state;
    static const machine machines[] = {{5, 0.01, 5e-3, 0}, {0.4, 0.01, 2e-3, 0}};
    for (size_t k = 0; k < sizeof(machines) / sizeof(machines[0]); k++) {
        qn_pace p = {0};
        for (int prompt = 0; prompt < 3; prompt++) {
            int n_steps = 0;
            for (int left = 1000, n; left > 0; left -= n, n_steps++) {
                n = budget(&p, 0, 1, 0, left < N_BATCH ? left : N_BATCH);
                qn__pace_note(&p, 0, n, 0, machines[k].step + n * machines[k].token);
            }
            if (n_steps > 6) fail_msg("machine %zu, prompt %d: %d steps", k, prompt, n_steps);
            qn__pace_note(&p, 1, 0, 0, decode_time(&machines[k], 1));
        }
    }
}

/* Nothing known, nobody waiting, no room: what is read then. */
static void bounds(void **state)
{
    (void)state;
    qn_pace p = {0};
    assert_int_equal(budget(&p, 8, 1, 0, 500), 64);
    assert_int_equal(budget(&p, 8, 1, 0, 10), 10);
    assert_int_equal(budget(&p, 0, 1, 0, 0), 0);
    assert_false(qn__pace_decode_alone(&p, 0));
    assert_true(qn__pace_decode(&p, 4) == 0);
    qn__pace_note(&p, 0, 64, 0, 0.064);                  /* a token takes a millisecond */
    assert_in_range(budget(&p, 0, 1, 0, 512), 149, 150); /* 0.15 s */
    qn__pace_note(&p, 4, 0, 0, 0.1);
    assert_in_range(budget(&p, 4, 1, 0, 512), 89, 90); /* 0.9 of it */
    assert_in_range(budget(&p, 3, 1, 0, 512), 89, 90);
    assert_in_range(budget(&p, 100, 1, 0, 512), 89, 90); /* not less than what four take */
    assert_int_equal(budget(&p, 1, 1, 0, 512), 22);      /* 0.1 s / 4 */
    assert_in_range(budget(&p, 1, 2, 0, 512), 44, 45);   /* two wait for their first token, one for its next */
    assert_in_range(budget(&p, 4, 3, 0, 512), 89, 90);
    assert_in_range(budget(&p, 4, 8, 0, 512), 149, 150); /* as if nobody waited */
    p.decode_s[2] = 0.3;
    assert_in_range(budget(&p, 4, 8, 0, 512), 299, 300); /* but not less than decoding takes */
    p.decode_s[2] = 0.02;
    assert_in_range(budget(&p, 4, 8, 0, 512), 35, 36);  /* by heads */
    assert_in_range(budget(&p, 4, 60, 0, 512), 59, 60); /* who writes waits no longer for a crowd */
    p.decode_s[2] = 0.05;
    assert_in_range(budget(&p, 4, 60, 0, 512), 99, 100); /* than that, or twice decoding */
    p.decode_s[2] = 0.1;
    /* one step that took long is not believed at once: it counts as four times the usual, an eighth of it */
    qn__pace_note(&p, 4, 0, 0, 100);
    assert_true(qn__pace_decode(&p, 4) < 0.14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(twice_at_most),    cmocka_unit_test(depths),
                                       cmocka_unit_test(others_use_it),    cmocka_unit_test(slow_steps),
                                       cmocka_unit_test(alone_and_beside), cmocka_unit_test(after_a_deep_stream),
                                       cmocka_unit_test(long_alone),       cmocka_unit_test(stopped),
                                       cmocka_unit_test(slow_alone),       cmocka_unit_test(bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
