/* SPDX-License-Identifier: MIT */
/* src/engine/batch_pace.c -- how much of prompts a step reads: as much as takes the time that its decoding takes; where
 * more streams read than decode, as many times that, so that a crowd which came at once begins soon.
 * Moving averages of both, the latter by the number of streams, since that changes faster than the averages would. */
#include "engine/batch.h"

enum {
    LEAST_READ = 4,  /* tokens of prompts a step, however slow: deep in a long prompt attention is most of the time */
    FIRST_READ = 64, /* before anything was measured */
    STALE = 32,      /* steps with prompts after which one without is due, to measure it */
};

/* A step that keeps nobody waiting: whoever comes meanwhile begins after it, and a cancelled request is noticed. */
static const double ALONE_SECONDS = 0.15;

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

int32_t qn__pace_budget(const qn_pace *p, int32_t n_decoding, int32_t n_reading, int32_t most)
{
    const double decode = n_decoding ? qn__pace_decode(p, n_decoding) : 0;
    double may = n_decoding && n_reading > n_decoding ? decode * n_reading / n_decoding : decode;
    if (!n_decoding || may > ALONE_SECONDS) may = decode > ALONE_SECONDS ? decode : ALONE_SECONDS;
    double tokens = p->token_s > 0 && may > 0 ? may / p->token_s : FIRST_READ;
    if (tokens < LEAST_READ) tokens = LEAST_READ;
    return tokens < most ? (int32_t)tokens : most;
}

static void average(double *mean, double x)
{
    if (*mean > 0 && x > 4 * *mean) x = 4 * *mean; /* a graph was compiled, or the machine was busy */
    *mean = *mean > 0 ? *mean + (x - *mean) / 8 : x;
}

void qn__pace_note(qn_pace *p, int32_t n_decoded, int32_t n_read, double seconds)
{
    const int32_t k = class_of(n_decoded);
    if (n_read == 0) {
        average(&p->decode_s[k], seconds);
        p->since[k] = 0;
        return;
    }
    const double decode = n_decoded ? qn__pace_decode(p, n_decoded) : 0;
    if (seconds > decode) average(&p->token_s, (seconds - decode) / n_read);
    if (n_decoded) p->since[k]++;
}
