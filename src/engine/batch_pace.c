/* SPDX-License-Identifier: MIT */
/* src/engine/batch_pace.c -- how much of prompts a step reads: nearly as much as takes the time that its decoding
 * takes; where more streams read than decode, as many times that, so that a crowd which came at once begins soon.
 * Moving averages of both, the latter by the number of streams, since that changes faster than the averages would. A
 * token of a prompt takes a part that grows with its depth, since it attends to all before it; beside streams it takes
 * more than in the large steps of a prompt that is alone. While a machine is slower than it was, less is read. Where
 * nobody writes steps may be long, since whoever comes ends them. */
#include "engine/batch.h"

#include <math.h>

enum {
    LEAST_READ = 2,  /* tokens of prompts a step, however slow: deep in a long prompt attention is most of the time */
    FIRST_READ = 64, /* before anything was measured */
    STALE = 32,      /* steps with prompts after which one without is due, to measure it */
};

/* A step with prompts may take twice what decoding alone takes. Steps of one size differ by a tenth and more, so that
 * less is aimed at. On a machine that others use one step in a hundred takes half as long again and more whatever it
 * does: less still is aimed at, so that with prompts that one takes MOST_TIMES the usual. An Emerald Rapids where it
 * takes twice as long, 8 streams beside a prompt of 3 K, 99th percentile by the median, and the prompt's time by that
 * alone: always 0.9: 3.0 to 4.0, 3.4 to 3.6; at least 0.5: 2.3 to 3.4, 2.9 to 3.7; 0.4: 2.0 to 2.9, 3.0 to 3.8. */
static const double AIM = 0.9, LEAST_AIM = 0.4, MOST_TIMES = 2.2;
static const double TAIL_STEP = 0.08;
/* A step that keeps nobody waiting: whoever comes meanwhile begins after it, and a cancelled request is noticed. */
static const double ALONE_SECONDS = 0.15;
/* The same where steps can be stopped: tokens take least in steps of 32 and more, and as much is lost at most. */
static const double STOPPABLE_SECONDS = 0.5;
/* Of time in which prompts are read alone a part may be lost to steps that were stopped, and so many seconds at once:
 * beyond that, steps go on to their ends. */
static const double LOST_PART = 0.125, MOST_LOST = 2;
/* Of a step of a crowd: who writes already waits for it. Twice decoding where that is more, or a machine whose steps
 * take long would read little in each; but never more than one that keeps nobody waiting, unless decoding is. */
static const double CROWD_SECONDS = 0.06, CROWD_DECODES = 2;
/* Of a prompt that takes longer than that, in times of a stream's step: a question behind it waits for less. A token in
 * a step of ten takes up to twice what it takes in one of 64, so that shorter prompts are read in large steps; less
 * than 20 ms nobody would notice. */
static const double LONG_SECONDS = 20, LONG_STEPS = 3, LEAST_SECONDS = 0.02;
static const double DEEP = 8192; /* tokens */
/* What the first token beside streams is taken for at least, of one that is read alone. */
static const double LEAST_BESIDE = 0.25;
/* A machine that others use is half as fast now and then, for seconds: a step that took so much more than was expected
 * says that it is, and the next ones read less, so that who writes waits no longer than usual. Nobody notices that of
 * a step of less than LEAST_SECONDS. */
static const double SLOW = 1.15, MOST_SLOW = 3;

/* Streams in powers of two. */
static int32_t class_of(int32_t n)
{
    int32_t k = 0;
    while (n > 1 && k < QN_PACE_CLASSES - 1) n = (n + 1) / 2, k++;
    return k;
}

double qn__pace_decode(const qn_pace *p, int32_t n)
{
    const int32_t k = class_of(n);
    for (int32_t i = k; i >= 0; i--) /* fewer streams take less time: with them nobody waits longer */
        if (p->decode_s[i] > 0) return p->decode_s[i];
    for (int32_t i = k + 1; i < QN_PACE_CLASSES; i++)
        if (p->decode_s[i] > 0) return p->decode_s[i] / (double)(1 << (i - k));
    return 0;
}

bool qn__pace_decode_alone(const qn_pace *p, int32_t n) { return n > 0 && p->since[class_of(n)] >= STALE; }

double qn__pace_token(const qn_pace *p, int32_t n_decoding, double depth)
{
    const double own = p->token_s[n_decoding > 0], token = own > 0 ? own : p->token_s[n_decoding == 0];
    return token > 0 ? token + p->deep_s * depth / DEEP : ALONE_SECONDS / FIRST_READ;
}

bool qn__pace_stoppable(const qn_pace *p) { return p->stops && p->lost_s < MOST_LOST; }

void qn__pace_note_stopped(qn_pace *p, double seconds) { p->lost_s += seconds; }

/* Nobody waits for a token. Most of a slow machine's step, or of one that reads its weights from disk, is the same
 * however few tokens it has: in less than that time nothing would be read. What a stream's step takes has to be known
 * of one stream: an eighth of what eight take may be a third of it. */
static double alone(const qn_pace *p, double rest_s)
{
    const double one = p->decode_s[0] > 0           ? p->decode_s[0]
                       : p->least_s > ALONE_SECONDS ? p->least_s
                                                    : 0,
                 steps = LONG_STEPS * one;
    const bool known = p->token_s[0] > 0 || p->token_s[1] > 0;
    if (known && qn__pace_stoppable(p)) {
        const double least = p->decode_s[0] > 0 ? steps : one;
        return least > STOPPABLE_SECONDS ? least : STOPPABLE_SECONDS;
    }
    if (steps > ALONE_SECONDS) return steps;
    if (rest_s <= LONG_SECONDS || one <= 0) return ALONE_SECONDS;
    return steps > LEAST_SECONDS ? steps : LEAST_SECONDS;
}

/* What a step of a crowd reads for, at most. */
static double crowd(double decode)
{
    const double twice = CROWD_DECODES * decode, most = twice < ALONE_SECONDS ? twice : ALONE_SECONDS;
    return decode > most ? decode : most > CROWD_SECONDS ? most : CROWD_SECONDS;
}

/* How long a step reads prompts, in times of its decoding. */
static double aim(const qn_pace *p)
{
    const double rest = p->tail > 0 ? MOST_TIMES / p->tail - 1 : AIM;
    return rest < LEAST_AIM ? LEAST_AIM : rest < AIM ? rest : AIM;
}

double qn__pace_seconds(const qn_pace *p, int32_t n_decoding, int32_t n_reading, double rest_s)
{
    const double decode = n_decoding ? qn__pace_decode(p, n_decoding) : 0;
    if (!n_decoding) return alone(p, rest_s);
    if (decode <= 0) return ALONE_SECONDS;
    if (n_reading <= n_decoding) return p->slow > 1 ? decode * fmax(0, (1 + aim(p)) / p->slow - 1) : aim(p) * decode;
    const double by_heads = aim(p) * decode * n_reading / n_decoding, most = crowd(decode);
    return by_heads < most ? by_heads : most;
}

int32_t qn__pace_fit(const qn_pace *p, int32_t n_decoding, double depth, double seconds)
{
    const double tokens = seconds / qn__pace_token(p, n_decoding, depth);
    return tokens < LEAST_READ ? LEAST_READ : tokens < INT32_MAX ? (int32_t)tokens : INT32_MAX;
}

static double at_most(double x, double most) { return most > 0 && x > most ? most : x; }

static void average(double *mean, double x)
{
    x = at_most(x, 4 * *mean); /* a graph was compiled, or the machine was busy */
    *mean = *mean > 0 ? *mean + (x - *mean) / 8 : x;
}

/* token + deep * depth, moved towards what was measured by the one that counts for more at this depth. */
static void average_token(qn_pace *p, double *token, double depth, double x)
{
    const double at = depth / DEEP, guess = *token + p->deep_s * at;
    if (*token <= 0) {
        *token = x > p->deep_s * at ? x - p->deep_s * at : x;
        return;
    }
    const double change = (at_most(x, 4 * guess) - guess) / 8 / (1 + at * at);
    p->deep_s = p->deep_s + change * at > 0 ? p->deep_s + change * at : 0;
    *token = *token + change > guess / 64 ? *token + change : guess / 64;
}

/* times: what a step took of what was expected. One that is slow counts at once, those that are not halve it. */
static void note_slow(qn_pace *p, double times)
{
    const double now = times > SLOW ? times < MOST_SLOW ? times : MOST_SLOW : 1;
    p->slow = now > p->slow ? now : p->slow + (now - p->slow) / 2;
}

/* One step in a hundred is above: each of those raises it as much as the others lower it. */
static void note_tail(qn_pace *p, double times)
{
    if (p->tail <= 0) p->tail = 1;
    p->tail *= times > p->tail ? 1 + TAIL_STEP : 1 - TAIL_STEP / 99;
    if (p->tail < 1) p->tail = 1;
}

void qn__pace_note(qn_pace *p, int32_t n_decoded, int32_t n_read, double depth, double seconds)
{
    const int32_t k = class_of(n_decoded);
    const double decode = n_decoded ? qn__pace_decode(p, n_decoded) : 0;
    const bool known = n_decoded && p->decode_s[k] > 0 && (n_read == 0 || p->token_s[1] > 0);
    const double token = n_read ? qn__pace_token(p, n_decoded, depth) : 0,
                 times = known ? seconds / (decode + n_read * token) : 1;
    if (known) note_slow(p, seconds > LEAST_SECONDS ? times : 1);
    if (n_read == 0) {
        if (known) note_tail(p, times);
        average(&p->decode_s[k], seconds);
        p->since[k] = 0;
        return;
    }
    if (!n_decoded) p->lost_s = p->lost_s > LOST_PART * seconds ? p->lost_s - LOST_PART * seconds : 0;
    if (!n_decoded && (p->least_s <= 0 || seconds < p->least_s)) p->least_s = seconds;
    /* Where all took longer, a token did so by as much as the rest. */
    double each = known ? token * fmin(times, SLOW) : (seconds - decode) / n_read;
    /* What the streams took was measured when they were deeper, perhaps, and would leave next to nothing. */
    if (!known && n_decoded && p->token_s[0] > 0) each = fmax(each, token * LEAST_BESIDE);
    if (each > 0) average_token(p, &p->token_s[n_decoded > 0], depth, each);
    if (n_decoded) p->since[k]++;
}
