/* SPDX-License-Identifier: MIT */
/* bench/graph.c -- what a new batch shape costs before it can run: building the graph, all passes, placing, planning
 * (and printing one layer, which is next to nothing). Usage: bench_graph MODEL.gguf [MODEL.gguf ...]; prints the median
 * of 50. Models of more layers show that the time grows with the graph: quern synth deep.gguf --layers 512 --embd 64
 * --heads 4 --ff 96 --vocab-size 500. */
#include <quern/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 50 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int time_model(const char *path)
{
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_engine_info info;
    qn_error err;
    double ms[ROUNDS];
    qn_status status = qn_engine_open(path, NULL, &engine, &err);
    if (status == QN_OK) status = qn_session_create(engine, &(qn_session_options){.n_ctx = 512}, &session, &err);
    for (int i = 0; i < ROUNDS && status == QN_OK; i++) {
        char *text = NULL;
        const double start = now_ms();
        status = qn_session_print_graph(session, 1, 0, QN_GRAPH_text, &text, &err);
        ms[i] = now_ms() - start;
        if (status == QN_OK) qn_free(text);
    }
    if (status == QN_OK) {
        qn_engine_get_info(engine, &info);
        qsort(ms, ROUNDS, sizeof(*ms), by_value);
        printf("%-32s %5d layers %8.3f ms %8.3f us a layer\n", path, info.n_layer, ms[ROUNDS / 2],
               ms[ROUNDS / 2] * 1e3 / info.n_layer);
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    qn_session_destroy(session);
    qn_engine_close(engine);
    return status == QN_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) failed |= time_model(argv[i]);
    return failed;
}
