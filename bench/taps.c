/* SPDX-License-Identifier: MIT */
/* bench/taps.c -- MODEL [THREADS [ROUNDS]]: what a tap on a node costs a token. Two sessions of one engine decode the
 * same tokens in turn, one with taps on what attention and feed-forward of every layer give, one without; printed is
 * the difference of the best of both, for a node. Looking is the copy and two barriers; saving is that and a row of a
 * file, which has to take less than the copy and 2 us. */
#include "base/thread.h"
#include <quern/engine.h>
#include <quern/tap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = 32 };

static qn_error err;

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, err.text);
    return 1;
}

typedef struct looked {
    int64_t n, bytes;
} looked;

static qn_status look(void *ctx, qn_tap_value *v, qn_error *e)
{
    looked *l = ctx;
    (void)e;
    l->n++;
    l->bytes = v->row_size * (int64_t)sizeof *v->data;
    return QN_OK;
}

static double run_ns(qn_session *s)
{
    if (qn_session_seq_remove(s, 0, 0, -1, &err) != QN_OK) exit(fail("clearing"));
    const int64_t start = qn__now_ns();
    for (qn_token i = 0; i < TOKENS; i++) {
        const qn_token token = 3 + i * 7 % 200;
        if (qn_session_feed(s, 0, &token, 1, &err) != QN_OK) exit(fail("decoding"));
    }
    return (double)(qn__now_ns() - start) / TOKENS;
}

/* ns a token that the taps take: the best of the rounds of each, as what disturbs can only add. */
static double cost(qn_session *plain, qn_session *tapped, int rounds, double *token_ns)
{
    double best[2] = {1e30, 1e30};
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < 2; k++) {
            const double ns = run_ns(k ? tapped : plain);
            if (ns < best[k]) best[k] = ns;
        }
    *token_ns = best[0];
    return best[1] - best[0];
}

static double copy_ns(int64_t bytes)
{
    enum { N = 20000 };
    char *a = calloc(2, (size_t)bytes + 64), *b = a + bytes + 64;
    const int64_t start = qn__now_ns();
    for (int i = 0; i < N; i++) {
        memcpy(b, a, (size_t)bytes);
        __asm__ volatile("" ::"r"(b) : "memory");
    }
    const double ns = (double)(qn__now_ns() - start) / N;
    free(a);
    return ns;
}

int main(int argc, char **argv)
{
    const int threads = argc > 2 ? atoi(argv[2]) : 1, rounds = argc > 3 ? atoi(argv[3]) : 101;
    char folder[] = "/tmp/quern-taps-XXXXXX", tap[96];
    qn_engine *engine = NULL;
    qn_session *plain = NULL, *other = NULL, *saving = NULL;
    const qn_session_options so = {.n_ctx = 2 * TOKENS};
    looked l = {0};
    double token_ns;
    if (argc < 2 || !mkdtemp(folder)) return 1;
    snprintf(tap, sizeof tap, "*_out-*=save=%s", folder);
    if (qn_engine_open(argv[1], &(qn_engine_options){.n_threads = threads}, &engine, &err) != QN_OK)
        return fail(argv[1]);
    if (qn_session_create(engine, &so, &plain, &err) != QN_OK ||
        qn_session_create(engine, &so, &other, &err) != QN_OK ||
        qn_session_create(engine, &so, &saving, &err) != QN_OK ||
        qn_session_tap_fn(other, "*_out-*", false, look, &l, &err) != QN_OK ||
        qn_session_tap(saving, tap, &err) != QN_OK)
        return fail("taps");
    (void)run_ns(plain);
    (void)run_ns(other);
    (void)run_ns(saving);
    const double nodes = (double)l.n / TOKENS, copy = copy_ns(l.bytes);
    const double looking = cost(plain, other, rounds, &token_ns) / nodes,
                 saved = cost(plain, saving, rounds, &token_ns) / nodes;
    printf("%.1f us a token, %.0f nodes of %lld bytes; copying one takes %.3f us\n", token_ns * 1e-3, nodes,
           (long long)l.bytes, copy * 1e-3);
    printf("looked at  %8.2f us a node\nsaved      %8.2f us a node%s\n", looking * 1e-3, saved * 1e-3,
           saved > copy + 2000 ? "  (at most its copy and 2)" : "");
    qn_session_destroy(plain);
    qn_session_destroy(other);
    qn_session_destroy(saving);
    qn_engine_close(engine);
    char remove[128];
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    return system(remove) != 0 || saved > copy + 2000;
}
