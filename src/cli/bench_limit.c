/* SPDX-License-Identifier: MIT */
/* src/cli/bench_limit.c -- how fast a test could be on this machine: a roofline over what must be read and multiplied
 * at least, as the library counts it over the graph (qn_session_get_cost).
 *
 * Reading: all weights (of a mixture's experts those that so many tokens choose, if all are as likely) once for each
 * chunk of a prompt or step of a decode, and the keys and values of every position that its sequences see. Arithmetic:
 * the products with weights, at the 8-bit peak for block types and the peak of their own for others; attention's own
 * products are left out. The larger of the two times bounds the chunk or step. Whatever else is done only lowers the
 * share. */
#include "cli/bench.h"

static double at_least_tiny(double x)
{
    return x > 1e-9 ? x : 1e-9; /* a peak that came out as zero bounds nothing, but must not divide */
}

/* Of n_seq sequences that have `seen` positions each, the last n of them new. */
static double cache_bytes(const qn_batch_cost *cost, double n_seq, double seen, double n)
{
    double bytes = 0;
    for (int k = 0; k < cost->n_sights; k++) {
        const double reach = cost->sights[k].reach, most = reach > 0 && reach + n - 1 < seen ? reach + n - 1 : seen;
        bytes += cost->sights[k].cell_bytes * n_seq * most;
    }
    return bytes;
}

static double compute_seconds(const qn_batch_cost *cost, const qn_machine_peaks *peaks)
{
    /* three products of bfloat16 where BF16 takes two (backend/numbers/act.h) */
    const double f16_by_bf16 = peaks->bf16_gflops * 2 / 3;
    const double f16 = f16_by_bf16 > peaks->f32_gflops ? f16_by_bf16 : peaks->f32_gflops;
    return 1e-9 * (cost->int8_ops / at_least_tiny(peaks->int8_gops) + cost->f32_ops / at_least_tiny(peaks->f32_gflops) +
                   cost->bf16_ops / at_least_tiny(peaks->bf16_gflops) + cost->f16_ops / at_least_tiny(f16));
}

typedef struct summed {
    double seconds, reading, computing;
} summed;

/* `times` batches of one cost. */
static void add(summed *s, bench_limit *limit, const qn_batch_cost *cost, double cache, double times,
                const qn_machine_peaks *peaks)
{
    const double bytes = cost->weight_bytes + cache;
    const double to_read = bytes / (at_least_tiny(peaks->read_gb_s) * 1e9), to_compute = compute_seconds(cost, peaks);
    s->seconds += times * (to_read > to_compute ? to_read : to_compute);
    s->reading += times * to_read;
    s->computing += times * to_compute;
    limit->bytes += times * bytes;
    limit->ops += times * (cost->int8_ops + cost->f32_ops + cost->bf16_ops + cost->f16_ops);
}

bench_limit bench_limit_of(const bench_row *row, const qn_machine_peaks *peaks)
{
    summed s = {0};
    bench_limit limit = {0};
    if (row->at_once > 0) {
        add(&s, &limit, &row->whole, cache_bytes(&row->whole, row->at_once, row->n, row->n),
            (double)row->batch / row->at_once, peaks);
    } else {
        const int32_t chunk = row->prompt ? row->chunk : 1;
        for (int32_t at = 0; at < row->n; at += chunk) {
            const int32_t n = row->n - at < chunk ? row->n - at : chunk;
            const qn_batch_cost *cost = n == chunk ? &row->whole : &row->rest;
            const double seen = (double)row->depth + at + n;
            add(&s, &limit, cost, cache_bytes(cost, row->prompt ? 1 : row->batch, seen, n), 1, peaks);
        }
    }
    limit.by_memory = s.reading >= s.computing;
    limit.tokens_per_second = (double)row->n * row->batch / at_least_tiny(s.seconds);
    return limit;
}
