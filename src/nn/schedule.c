/* SPDX-License-Identifier: MIT */
/* src/nn/schedule.c -- learning rates as functions of the step. */
#include <quern/optim.h>

#include <math.h>

#define PI 3.14159265358979323846

/* t of n: steps since the warm-up, and how many there are. */
typedef double (*rate_fn)(const qn_lr_schedule *s, double t, double n);

static double rate_constant(const qn_lr_schedule *s, double t, double n)
{
    (void)t;
    (void)n;
    return s->lr;
}

static double part_of(double t, double n) { return n <= 0 || t >= n ? 1 : t / n; }

static double rate_linear(const qn_lr_schedule *s, double t, double n)
{
    return s->lr + (s->min_lr - s->lr) * part_of(t, n);
}

static double rate_cosine(const qn_lr_schedule *s, double t, double n)
{
    return s->min_lr + (s->lr - s->min_lr) * (1 + cos(PI * part_of(t, n))) / 2;
}

static double rate_step(const qn_lr_schedule *s, double t, double n)
{
    (void)n;
    return s->lr * pow(s->gamma != 0 ? s->gamma : 0.1, floor(t / (s->every > 0 ? (double)s->every : 1)));
}

static double rate_exponential(const qn_lr_schedule *s, double t, double n)
{
    (void)n;
    return s->lr * pow(s->gamma != 0 ? s->gamma : 0.999, t);
}

static double along_cosine(double from, double to, double part) { return to + (from - to) / 2 * (1 + cos(PI * part)); }

/* Both parts end at a step: the first at part * total - 1, the second at total - 1, as in PyTorch. */
static double rate_one_cycle(const qn_lr_schedule *s, double t, double n)
{
    const double start = s->lr / (s->div != 0 ? s->div : 25), end = start / (s->final_div != 0 ? s->final_div : 1e4);
    const double top = (s->part != 0 ? s->part : 0.3) * n - 1, last = n - 1;
    if (t <= top && top > 0) return along_cosine(start, s->lr, t / top);
    return along_cosine(s->lr, end, t < last ? (t - top) / (last - top) : 1);
}

double qn_lr_at(const qn_lr_schedule *s, int64_t step)
{
    static const rate_fn rates[QN_LR_COUNT] = {
#define QN_LR_FN(name, text) rate_##name,
        QN_LR_ROWS(QN_LR_FN)
#undef QN_LR_FN
    };
    if ((unsigned)s->kind >= QN_LR_COUNT) return NAN;
    const int64_t i = step < 0 ? 0 : step, warmup = s->kind == QN_LR_one_cycle || s->warmup < 0 ? 0 : s->warmup;
    if (i < warmup) return s->lr * (double)(i + 1) / (double)(warmup + 1);
    const double rate = rates[s->kind](s, (double)(i - warmup), (double)(s->total - warmup));
    return s->kind != QN_LR_one_cycle && rate < s->min_lr ? s->min_lr : rate;
}
