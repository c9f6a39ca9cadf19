/* SPDX-License-Identifier: MIT */
/* bench/engines.c -- two engines over one file, each with a session that decodes: one after the other, then at once.
 * At once should take no longer than the sum.
 *
 *     bench_engines MODEL [TOKENS [THREADS [ROUNDS]]] */
#include "base/error.h"
#include "base/thread.h"

#include <quern/engine.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct side {
    qn_engine *engine;
    qn_session *session;
    int n_tokens;
    qn_status status;
    qn_error error;
} side;

static void decode(void *ctx)
{
    side *s = ctx;
    s->status = qn_session_seq_remove(s->session, 0, 0, -1, &s->error);
    for (int i = 0; i < s->n_tokens && s->status == QN_OK; i++)
        s->status = qn_session_feed(s->session, 0, (qn_token[]){1 + i % 100}, 1, &s->error);
}

static qn_status open_side(side *s, const char *path, int n_threads, qn_error *err)
{
    QN_TRY(qn_engine_open(path, &(qn_engine_options){.n_threads = n_threads}, &s->engine, err));
    QN_TRY(qn_session_create(s->engine, &(qn_session_options){.n_ctx = s->n_tokens + 8}, &s->session, err));
    decode(s); /* warm */
    return QN_OK;
}

static qn_status measure(side *s, int rounds, qn_error *err)
{
    qn_worker *worker = NULL;
    double in_turn = 0, at_once = 0;
    QN_TRY(qn__worker_create(&worker, err));
    for (int i = 0; i < rounds; i++) { /* in turn, so that a busy machine is busy for both */
        int64_t start = qn__now_ns();
        decode(&s[0]);
        decode(&s[1]);
        in_turn += (double)(qn__now_ns() - start) * 1e-9;
        start = qn__now_ns();
        (void)qn__worker_submit(worker, decode, &s[0], NULL);
        decode(&s[1]);
        qn__worker_wait(worker);
        at_once += (double)(qn__now_ns() - start) * 1e-9;
    }
    qn__worker_destroy(worker);
    printf("2 engines, %d tokens each: one after the other %.3f s, at once %.3f s, %.2f times as long\n",
           s->n_tokens * rounds, in_turn, at_once, at_once / in_turn);
    return QN_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    qn_error err = {0};
    side s[2] = {{.n_tokens = argc > 2 ? atoi(argv[2]) : 50}};
    s[1].n_tokens = s[0].n_tokens;
    const int n_threads = argc > 3 ? atoi(argv[3]) : 0, rounds = argc > 4 ? atoi(argv[4]) : 5;
    qn_status status = open_side(&s[0], argv[1], n_threads, &err);
    if (status == QN_OK) status = open_side(&s[1], argv[1], n_threads, &err);
    if (status == QN_OK) status = measure(s, rounds, &err);
    for (int i = 0; i < 2; i++) {
        if (s[i].status != QN_OK) fprintf(stderr, "%s\n", s[i].error.text);
        qn_session_destroy(s[i].session);
        qn_engine_close(s[i].engine);
    }
    if (status != QN_OK) fprintf(stderr, "%s\n", err.text);
    return status != QN_OK;
}
