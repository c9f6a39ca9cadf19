/* SPDX-License-Identifier: MIT */
/* bench/sizes.c -- what it costs that every batch has another size: a random mix of 1 to 64 streams and parts of
 * prompts, and the share of the time that goes into making graphs and bringing them to size.
 *
 *     bench_sizes MODEL [STEPS [THREADS]] */
#include "base/error.h"
#include "base/metrics.h"
#include "base/thread.h"

#include <quern/engine.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAMS = 64, BATCH = 512, PART = 192, CTX = 8192 };

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A step of n streams, and of a prompt on the sequence behind them. */
static qn_status step(qn_session *s, int32_t n, int32_t part, qn_error *err)
{
    static qn_batch_item items[BATCH];
    int32_t k = 0;
    for (int32_t q = 0; q < n; q++)
        items[k++] = (qn_batch_item){.token = q + 1, .pos = qn_session_seq_pos_max(s, q) + 1, .seq = q, .logits = true};
    const int32_t first = qn_session_seq_pos_max(s, STREAMS) + 1;
    for (int32_t i = 0; i < part; i++) items[k++] = (qn_batch_item){.token = i + 1, .pos = first + i, .seq = STREAMS};
    QN_TRY(qn_session_decode(s, items, k, err));
    for (int32_t q = 0; q <= STREAMS; q++)
        if (qn_session_seq_len(s, q) > 100) QN_TRY(qn_session_seq_remove(s, q, 0, -1, err));
    return QN_OK;
}

static qn_status mix(qn_session *s, int steps, uint32_t *seed, qn_error *err)
{
    for (int i = 0; i < steps; i++) {
        const int32_t n = (int32_t)(next(seed) % STREAMS) + 1;
        const int32_t part = next(seed) % 2 ? (int32_t)(next(seed) % PART) : 0;
        QN_TRY(step(s, n, part, err));
    }
    return QN_OK;
}

static qn_status run(qn_session *s, int steps, qn_error *err)
{
    uint32_t seed = 1;
    qn_session_stats before, after;
    qn_metrics warm, end;
    qn_session_get_stats(s, &before);
    for (int round = 0; round < 3; round++) {
        qn_metrics_snapshot(&warm);
        QN_TRY(mix(s, steps, &seed, err));
        qn_metrics_snapshot(&end);
        qn_session_get_stats(s, &after);
        const double seconds = after.seconds - before.seconds, compile = after.compile_seconds - before.compile_seconds;
        printf("%d steps: %.2f s, %.3f ms a step of graphs, %.2f %% of the time; %d graphs made, %d allocations, %.1f "
               "MiB more\n",
               steps, seconds, compile / steps * 1e3, compile / seconds * 100,
               (int)(after.plan_cache_misses - before.plan_cache_misses), (int)(end.allocs - warm.allocs),
               (double)(int64_t)(end.live_bytes - warm.live_bytes) / (1 << 20));
        before = after;
    }
    return QN_OK;
}

int main(int argc, char **argv)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_error err = {0};
    if (argc < 2) return 2;
    const qn_engine_options engine = {.n_threads = argc > 3 ? atoi(argv[3]) : 0};
    const qn_session_options session = {
        .n_ctx = CTX, .n_batch = BATCH, .n_seq = STREAMS + 1, .n_logits = STREAMS, .no_plan_cache = getenv("NO_CACHE")};
    qn_status status = qn_engine_open(argv[1], &engine, &e, &err);
    if (status == QN_OK) status = qn_session_create(e, &session, &s, &err);
    if (status == QN_OK) status = run(s, argc > 2 ? atoi(argv[2]) : 100, &err);
    if (status != QN_OK) fprintf(stderr, "%s\n", err.text);
    qn_session_destroy(s);
    qn_engine_close(e);
    return status != QN_OK;
}
