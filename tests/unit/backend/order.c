/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/order.c -- random graphs over three asynchronous backends give what one gives, whatever is done
 * when: nothing is read before it was computed, and nothing written before its readers are through. */
#include "pair.h"

enum { PLACES = 3, STEPS = 24, ROWS = 4, COLS = 3, VALUES = ROWS * COLS, GRAPHS = 60, RUNS = 3 };

/* What to build, drawn once, so that one backend and three build the same. */
typedef struct draw {
    int op, a, b, hint;
    bool output;
} draw;

typedef struct world {
    fake fakes[PLACES];
    int n_places;
    qn_sched *sched;
    qn_exec *exec;
    qn_buffer *state, *weight;
} world;

static uint64_t rng;
static int below(int n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (int)(rng % (uint64_t)n);
}

static qn_node *step(qn_graph *g, const draw *d, qn_node **values, int n, qn_node **cells, qn_node *rows, qn_node *w)
{
    qn_node *a = values[d->a % n], *b = values[d->b % n];
    switch (d->op) {
    case 0: return qn__add(g, a, b);
    case 1: return qn__scale(g, a, -0.5f, 3);
    case 2: return qn__add(g, qn__scale(g, a, 0.25f, 0), qn__linear(g, b, w, NULL));
    case 3: *cells = qn__set_rows(g, *cells, a, rows); return qn__add(g, *cells, b);
    case 4: return qn__linear(g, b, qn__permute(g, qn__narrow(g, a, 0, 1, COLS), (int[]){1, 0}, 2), NULL);
    default: return qn__add(g, qn__narrow(g, a, 0, 1, 1), b);
    }
}

static void world_open(world *w, const draw *draws, int n_places, int state_at, int weight_at)
{
    static float zero[VALUES], weight[COLS * COLS];
    static const char *const names[] = {"fake:0", "fake:1", "fake:2"};
    qn_backend *backends[PLACES];
    w->n_places = n_places;
    for (int i = 0; i < COLS * COLS; i++) weight[i] = (float)(i % 4 - 1);
    for (int i = 0; i < n_places; i++) {
        fake_init(&w->fakes[i], names[i]);
        w->fakes[i].pace = n_places > 1 ? pace * (uint64_t)(i + 1) : 0;
        w->fakes[i].shows_host = below(2);
        backends[i] = &w->fakes[i].base;
    }
    OK(qn__sched_create(backends, n_places, NULL, &w->sched, err));
    w->state = buffer_of(&w->fakes[state_at % n_places], zero, VALUES);
    w->weight = buffer_of(&w->fakes[weight_at % n_places], weight, COLS * COLS);

    qn_graph *g = new_graph();
    qn_node *values[STEPS + 1];
    qn_node *cells = qn__param(g, "state", QN_DTYPE_F32, &qn_shape_of(ROWS, COLS), w->state, 0, QN_NODE_mutable);
    qn_node *weights = qn__param(g, "weight", QN_DTYPE_F32, &qn_shape_of(COLS, COLS), w->weight, 0, 0);
    qn_node *rows = qn__input(g, "rows", QN_DTYPE_I32, &qn_shape_of(ROWS));
    values[0] = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(ROWS, COLS));
    for (int i = 0; i < STEPS; i++) {
        on(g, draws[i].hint % n_places);
        values[i + 1] = step(g, &draws[i], values, i + 1, &cells, rows, weights);
        if (!draws[i].output && i + 1 < STEPS) continue;
        char name[16];
        snprintf(name, sizeof(name), "y%d", i);
        out(g, values[i + 1], name);
    }
    OK(qn__sched_compile(w->sched, g, NULL, 0, &w->exec, err));
}

static void world_run(world *w, int run)
{
    float x[VALUES];
    int32_t rows[ROWS];
    for (int i = 0; i < VALUES; i++) x[i] = (float)((i * 7 + run * 5) % 11 - 5);
    for (int i = 0; i < ROWS; i++) rows[i] = (i * 3 + run) % ROWS;
    if (qn__exec_find(w->exec, "x")) set(w->exec, "x", x, VALUES);
    if (qn__exec_find(w->exec, "rows"))
        OK(qn__exec_set(w->exec, qn__exec_find(w->exec, "rows"), rows, sizeof(rows), err));
    OK(qn__exec_run(w->exec, NULL, err));
}

static void world_close(world *w)
{
    qn__sched_destroy(w->sched);
    fake_buffer_destroy(w->state);
    fake_buffer_destroy(w->weight);
    for (int i = 0; i < w->n_places; i++) {
        assert_int_equal(w->fakes[i].n_too_soon, 0);
        assert_int_equal(w->fakes[i].n_programs + w->fakes[i].n_buffers, 0);
    }
}

static void test_three_asynchronous_backends_give_what_one_gives(void **state)
{
    (void)state;
    static world one, three;
    int transfers = 0;
    for (int graph = 0; graph < GRAPHS; graph++) {
        draw draws[STEPS];
        rng = (uint64_t)graph * 0x9E3779B97F4A7C15u + pace + 1;
        for (int i = 0; i < STEPS; i++) draws[i] = (draw){below(6), below(100), below(100), below(30), below(6) == 0};
        const int state_at = below(PLACES), weight_at = below(PLACES);
        world_open(&one, draws, 1, state_at, weight_at);
        world_open(&three, draws, PLACES, state_at, weight_at);
        transfers += qn__exec_n_transfers(three.exec);
        for (int run = 0; run < RUNS; run++) {
            world_run(&one, run);
            world_run(&three, run);
            for (int i = 0; i < STEPS; i++) {
                char name[16];
                float want[VALUES], y[VALUES];
                snprintf(name, sizeof(name), "y%d", i);
                if (!qn__exec_find(one.exec, name)) continue;
                get(one.exec, name, want, VALUES);
                get(three.exec, name, y, VALUES);
                for (int k = 0; k < VALUES; k++)
                    if (memcmp(&y[k], &want[k], 4) != 0)
                        fail_msg("graph %d, run %d, %s[%d]: %g, %g expected", graph, run, name, k, (double)y[k],
                                 (double)want[k]);
            }
        }
        world_close(&one);
        world_close(&three);
    }
    assert_true(transfers > GRAPHS * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_asynchronous_backends_give_what_one_gives)};
    RUN_AT_EVERY_PACE(tests);
}
