/* SPDX-License-Identifier: MIT */
/* bench/batch.c -- the batcher without a server: N streams at once over a model, each of PROMPT tokens and ANSWER more,
 * in tokens a second and in processor time for each token, for every N given.
 *
 *     bench_batch MODEL THREADS PROMPT ANSWER N.. */
#include "base/park.h"
#include "base/thread.h"

#include <quern/batch.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct load {
    _Atomic int n_open;
} load;

static void on_event(void *ctx, const qn_batch_event *e)
{
    load *l = ctx;
    if (e->kind != QN_BATCH_end) return;
    if (e->error) fprintf(stderr, "%s\n", e->error->text);
    if (atomic_fetch_sub(&l->n_open, 1) == 1) qn__unpark_all(&l->n_open);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static qn_status run(qn_batcher *b, int n, int prompt, int answer, bool print, qn_error *err)
{
    static uint32_t seed = 1;
    const qn_logit_bias no_end[] = {{2, -100}, {4, -100}}; /* of models/chat.gguf, and of what synth writes */
    qn_token *tokens = malloc((size_t)prompt * sizeof(*tokens));
    load l = {.n_open = n};
    qn_batcher_stats before, after;
    qn_batcher_get_stats(b, &before);
    const int64_t start = qn__now_ns();
    const double cpu = cpu_seconds();
    qn_status status = tokens ? QN_OK : QN_STATUS_nomem;
    for (int i = 0; i < n && status == QN_OK; i++) {
        uint64_t id;
        for (int k = 0; k < prompt; k++)
            tokens[k] = (qn_token)((seed = seed * 1664525u + 1013904223u) >> 8) % 100 + 100;
        const qn_sampler_params sampler = {.seed = seed, .logit_bias = no_end, .n_logit_bias = 2};
        const qn_batch_request r = {.prompt = tokens,
                                    .n_prompt = (size_t)prompt,
                                    .sampler = &sampler,
                                    .max_tokens = answer,
                                    .fn = on_event,
                                    .ctx = &l};
        status = qn_batcher_submit(b, &r, &id, err);
    }
    for (int left; status == QN_OK && (left = atomic_load(&l.n_open)) > 0;) qn__park(&l.n_open, left);
    free(tokens);
    if (status != QN_OK || !print) return status;
    const double seconds = (double)(qn__now_ns() - start) * 1e-9;
    qn_batcher_get_stats(b, &after);
    const double written = (double)(after.tokens_generated - before.tokens_generated);
    printf("%3d streams: %9.1f tokens/s, %8.2f us of processor a token, %6.1f tokens a step, %.3f ms a step\n", n,
           written / seconds, (cpu_seconds() - cpu) / written * 1e6, written / (double)(after.n_steps - before.n_steps),
           (after.busy_seconds - before.busy_seconds) / (double)(after.n_steps - before.n_steps) * 1e3);
    return QN_OK;
}

int main(int argc, char **argv)
{
    qn_engine *e = NULL;
    qn_batcher *b = NULL;
    qn_error err = {0};
    if (argc < 6) {
        fputs("usage: bench_batch MODEL THREADS PROMPT ANSWER N..\n", stderr);
        return 2;
    }
    const int prompt = atoi(argv[3]), answer = atoi(argv[4]);
    qn_status status = qn_engine_open(argv[1], &(qn_engine_options){.n_threads = atoi(argv[2])}, &e, &err);
    for (int i = 5; i < argc && status == QN_OK; i++) {
        const int n = atoi(argv[i]);
        const qn_batcher_options o = {.n_parallel = n, .session = {.n_ctx = 2 * n * (prompt + answer + 32)}};
        status = qn_batcher_create(e, &o, &b, &err);
        if (status == QN_OK) status = run(b, n, prompt, answer, false, &err);
        for (int k = 0; k < 3 && status == QN_OK; k++) status = run(b, n, prompt, answer, true, &err);
        qn_batcher_destroy(b);
        b = NULL;
    }
    if (status != QN_OK) fprintf(stderr, "%s\n", err.text);
    qn_engine_close(e);
    return status != QN_OK;
}
