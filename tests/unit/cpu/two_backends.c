/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/two_backends.c -- random graphs, with weights and state split over two CPU backends, give what one
 * gives: bit for bit when both run at the same level, and within rounding when one runs at `ref` and the other at the
 * machine's best. */
#include "rig.h"

#include "unit/graph/builders.h"

#include "base/metrics.h"

enum { N = 6, M = 64, HEADS = 4, CELLS = 40, LIST = 24, VALUES = 64, STEPS = 30 };

/* One plan of what to build, drawn once, so that every variant builds the same graph. */
typedef struct draw {
    int op, a, b, home, hint, dtype;
    int64_t extra;
} draw;
typedef struct world {
    draw draws[STEPS];
    tensor weights[STEPS], norms, table, kv[2], x, ids, pos, rows, lists, spans;
    bool quantized;
} world;

static void world_open(world *w, uint64_t seed, bool quantized)
{
    static const qn_dtype floats[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16};
    static const qn_dtype blocks[] = {QN_DTYPE_Q8_0, QN_DTYPE_Q4_0, QN_DTYPE_Q5_1, QN_DTYPE_IQ4_NL};
    rng_state = seed * 2654435761u + 88172645463325252u;
    w->quantized = quantized;
    for (int i = 0; i < STEPS; i++) {
        w->draws[i] = (draw){(int)rng_int(0, 10), (int)rng_int(0, 1000), (int)rng_int(0, 1000), (int)rng_int(0, 1),
                             (int)rng_int(-1, 1), (int)rng_int(0, 2),    rng_int(0, 1000)};
        w->weights[i] = tensor_random(quantized ? blocks[rng_int(0, 3)] : floats[rng_int(0, 2)], qn_shape_of(M, M));
    }
    w->norms = tensor_random(QN_DTYPE_F32, qn_shape_of(M));
    w->table = tensor_random(quantized ? QN_DTYPE_Q8_0 : QN_DTYPE_F16, qn_shape_of(17, M));
    for (int i = 0; i < 2; i++) w->kv[i] = tensor_random(QN_DTYPE_F16, qn_shape_of(CELLS, M));
    w->x = tensor_random(QN_DTYPE_F32, qn_shape_of(N, M));
    w->ids = tensor_ints(qn_shape_of(N), NULL);
    w->pos = tensor_ints(qn_shape_of(N), NULL);
    w->rows = tensor_ints(qn_shape_of(N), NULL);
    w->lists = tensor_ints(qn_shape_of(2, LIST), NULL);
    w->spans = tensor_ints(qn_shape_of(N, 3), NULL);
    for (int i = 0; i < N; i++) {
        ints_of(&w->ids)[i] = (int32_t)rng_int(0, 16);
        ints_of(&w->pos)[i] = (int32_t)rng_int(0, 5000);
        ints_of(&w->rows)[i] = (int32_t)(i * 5 + 2);
        ints_of(&w->spans)[3 * i] = i % 2;
        ints_of(&w->spans)[3 * i + 2] = (int32_t)rng_int(0, LIST);
    }
    for (int i = 0; i < 2 * LIST; i++) ints_of(&w->lists)[i] = (int32_t)rng_int(0, CELLS - 1);
}

static void world_close(world *w)
{
    tensor *all[] = {&w->norms, &w->table, &w->kv[0], &w->kv[1], &w->x,
                     &w->ids,   &w->pos,   &w->rows,  &w->lists, &w->spans};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) tensor_free(all[i]);
    for (int i = 0; i < STEPS; i++) tensor_free(&w->weights[i]);
}

/* Backends and what lives in them. */
typedef struct site {
    qn_backend *be[2];
    int n;
    qn_sched *sched;
    qn_buffer *buffers[VALUES];
    int n_buffers;
    qn_buffer *kv[2];
} site;

static void site_open(site *s, qn_cpu_level first, qn_cpu_level second, int n, const qn_sched_options *options)
{
    *s = (site){.n = n};
    OK(qn__backend_cpu.open(
        &(qn_backend_options){.level = first, .level_set = true, .n_threads = 2, .name = "cpu:first"}, &s->be[0], err));
    OK(qn__backend_cpu.open(
        &(qn_backend_options){.level = second, .level_set = true, .n_threads = 1, .name = "cpu:second"}, &s->be[1],
        err));
    OK(qn__sched_create(s->be, n, options, &s->sched, err));
}

static void site_close(site *s)
{
    qn__sched_destroy(s->sched);
    for (int i = 0; i < s->n_buffers; i++) qn__backend_cpu.buffer_destroy(s->buffers[i]);
    for (int i = 0; i < 2; i++) qn__backend_cpu.close(s->be[i]);
}

static qn_buffer *store(site *s, const tensor *t, int home)
{
    qn_buffer *b;
    assert_true(s->n_buffers < VALUES);
    OK(qn__backend_cpu.buffer_create(s->be[home % s->n], t->bytes, &b, err));
    OK(qn__backend_cpu.upload(b, 0, t->data, t->bytes, err));
    return s->buffers[s->n_buffers++] = b;
}

static qn_node *param(qn_graph *g, site *s, const tensor *t, int home, uint32_t flags)
{
    return qn__param(g, "param", t->dtype, &t->shape, store(s, t, home), 0, flags);
}

static qn_node *attend(qn_graph *g, qn_node *kv[2], qn_node *q, qn_node *lists, qn_node *spans)
{
    qn_node *k = qn__reshape(g, kv[0], qn_shape_of(CELLS, 2, 32)),
            *v = qn__reshape(g, kv[1], qn_shape_of(CELLS, 2, 32));
    return qn__reshape(g,
                       qn__attention(g,
                                     &(qn_attn_sources){.q = qn__reshape(g, q, qn_shape_of(N, 2, 32)),
                                                        .k = k,
                                                        .v = v,
                                                        .lists = lists,
                                                        .spans = spans},
                                     &(qn_attn_attrs){.scale = 0.18f}),
                       qn_shape_of(N, M));
}

static qn_graph *build_world(world *w, site *s)
{
    static const qn_rope_attrs rope = {.mode = QN_ROPE_NEOX,
                                       .n_rot = 16,
                                       .base = 10000,
                                       .freq_scale = 1,
                                       .attn_factor = 1,
                                       .beta_fast = 32,
                                       .beta_slow = 1};
    qn_graph *g = NULL;
    OK(qn__graph_create(&g, err));
    qn_node *v[VALUES];
    int n = 0;
    qn_node *ids = qn__input(g, "ids", QN_DTYPE_I32, &w->ids.shape),
            *pos = qn__input(g, "pos", QN_DTYPE_I32, &w->pos.shape);
    qn_node *rows = qn__input(g, "rows", QN_DTYPE_I32, &w->rows.shape),
            *lists = qn__input(g, "lists", QN_DTYPE_I32, &w->lists.shape);
    qn_node *spans = qn__input(g, "spans", QN_DTYPE_I32, &w->spans.shape);
    v[n++] = qn__input(g, "x", QN_DTYPE_F32, &w->x.shape);
    v[n++] = qn__get_rows(g, param(g, s, &w->table, 1, 0), ids);
    qn_node *kv[2];
    for (int i = 0; i < 2; i++) {
        s->kv[i] = store(s, &w->kv[i], 1);
        kv[i] = qn__param(g, "kv", QN_DTYPE_F16, &w->kv[i].shape, s->kv[i], 0, QN_NODE_mutable);
    }
    qn_node *norm = qn__const(g, "norm", QN_DTYPE_F32, &w->norms.shape, w->norms.data);

    for (int i = 0; i < STEPS; i++) {
        const draw *d = &w->draws[i];
        qn__graph_scope(g, i / 5, s->n == 2 ? d->hint : -1);
        qn_node *a = v[d->a % n], *b = v[d->b % n], *y = NULL;
        qn_node *tame = qn__rms_norm(g, a, NULL, 1e-5f); /* keeps numbers from growing without end */
        switch (d->op) {
        case 0:
        case 1:
        case 2: y = qn__linear(g, tame, param(g, s, &w->weights[i], d->home, 0), NULL); break;
        case 3: y = qn__rms_norm(g, a, norm, 1e-5f); break;
        case 4: y = qn__add(g, a, b); break;
        case 5: y = qn__mul(g, tame, qn__rms_norm(g, b, norm, 1e-6f)); break;
        case 6: y = qn__swiglu(g, tame, b); break;
        case 7:
            y = qn__reshape(g, qn__rope(g, qn__reshape(g, a, qn_shape_of(N, HEADS, M / HEADS)), pos, NULL, &rope),
                            qn_shape_of(N, M));
            break;
        case 8:
            y = qn__copy(g, qn__permute(g, qn__reshape(g, a, qn_shape_of(M, N)), (int[]){1, 0}, 2), QN_DTYPE_F32);
            break;
        case 9:
            kv[d->extra & 1] = qn__set_rows(g, kv[d->extra & 1], tame, rows);
            y = attend(g, kv, tame, lists, spans);
            break;
        default: y = qn__silu(g, qn__scale(g, tame, 0.5f, 0.1f)); break;
        }
        v[n++] = y;
    }
    qn_node *sum = v[n - 1];
    for (int i = 2; i < 8; i++) sum = qn__add(g, sum, v[n - i]);
    qn__output(g, qn__name(g, sum, "y"));
    qn__output(g, qn__name(g, qn__permute(g, v[n - 2], (int[]){1, 0}, 2), "transposed"));
    return g;
}

static void feed(qn_exec *e, const world *w)
{
    const struct {
        const char *name;
        const tensor *t;
    } in[] = {{"x", &w->x},       {"ids", &w->ids},     {"pos", &w->pos},
              {"rows", &w->rows}, {"lists", &w->lists}, {"spans", &w->spans}};
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
        const qn_node *n = qn__exec_find(e, in[i].name);
        if (n) OK(qn__exec_set(e, n, in[i].t->data, in[i].t->bytes, err));
    }
}

/* The state as it was, so that every run starts alike. */
static void rewind_state(const site *s, const world *w)
{
    for (int i = 0; i < 2; i++) OK(qn__backend_cpu.upload(s->kv[i], 0, w->kv[i].data, w->kv[i].bytes, err));
}

static void fetch(const qn_exec *e, float *y)
{
    OK(qn__exec_get(e, qn__exec_find(e, "y"), y, 0, N * M * 4, err));
    OK(qn__exec_get(e, qn__exec_find(e, "transposed"), y + N * M, 0, N * M * 4, err));
}

static qn_exec *compile(world *w, site *s)
{
    qn_exec *e = NULL;
    OK(qn__sched_compile(s->sched, build_world(w, s), "world", 5, &e, err));
    feed(e, w);
    return e;
}

static void run_once(world *w, qn_cpu_level first, qn_cpu_level second, int n, float *y, int *transfers)
{
    site s;
    site_open(&s, first, second, n, NULL);
    qn_exec *e = compile(w, &s);
    *transfers = qn__exec_n_transfers(e);
    OK(qn__exec_run(e, NULL, err));
    fetch(e, y);
    site_close(&s);
}

static void test_split_is_whole(void **state)
{
    (void)state;
    const qn_cpu_level best = qn__kernels_get(QN_CPU_LEVEL_COUNT - 1)->level;
    int moved = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        static float one[2 * N * M], two[2 * N * M], mixed[2 * N * M];
        world w;
        int transfers;
        world_open(&w, seed, seed % 2);
        run_once(&w, best, best, 1, one, &transfers);
        assert_int_equal(transfers, 0);
        run_once(&w, best, best, 2, two, &transfers);
        moved += transfers;
        assert_memory_equal(one, two, sizeof(one));
        run_once(&w, QN_CPU_ref, best, 2, mixed, &transfers);
        double err2 = 0, sum2 = 0;
        for (int i = 0; i < 2 * N * M; i++) {
            err2 += ((double)one[i] - mixed[i]) * ((double)one[i] - mixed[i]);
            sum2 += (double)one[i] * one[i];
        }
        assert_true(isfinite(sum2) && sum2 > 0);
        /* Columns of block weights are rounded to 8 bits: a last bit before that may become a step after it. */
        if (err2 > (w.quantized ? 1e-4 : 1e-10) * sum2) fail_msg("seed %d: NMSE %g", (int)seed, err2 / sum2);
        world_close(&w);
    }
    assert_true(moved > 100); /* the graphs really were split */
}

typedef struct stopper {
    int left;
    int32_t last;
    bool before;
} stopper;
static bool stop(void *ctx, const qn_node *node, bool after)
{
    stopper *s = ctx;
    if (after) assert_int_equal(s->last, node->id);
    s->last = node->id;
    return s->left-- > 0;
}

static void test_stopping_harms_nothing(void **state)
{
    (void)state;
    world w;
    site s;
    static float whole[2 * N * M], again[2 * N * M];
    world_open(&w, 5, true);
    site_open(&s, QN_CPU_ref, QN_CPU_LEVEL_COUNT - 1, 2, NULL);
    qn_exec *e = compile(&w, &s);
    OK(qn__exec_run(e, NULL, err));
    fetch(e, whole);
    for (int at = 0;; at++) {
        stopper when = {.left = at};
        qn_error error;
        rewind_state(&s, &w);
        feed(e, &w);
        const qn_status status = qn__exec_run(e, &(qn_run){.eval = stop, .eval_ctx = &when}, &error);
        if (status == QN_OK) break;
        assert_int_equal(status, QN_STATUS_cancelled);
        rewind_state(&s, &w);
        feed(e, &w);
        OK(qn__exec_run(e, NULL, err));
        fetch(e, again);
        assert_memory_equal(whole, again, sizeof(whole));
    }
    fetch(e, again); /* node by node, with nobody stopping it, is the same too */
    assert_memory_equal(whole, again, sizeof(whole));
    site_close(&s);
    world_close(&w);
}

static void test_runs_allocate_nothing(void **state)
{
    (void)state;
    world w;
    site s;
    static float y[2 * N * M];
    static double ns[1024];
    world_open(&w, 9, true);
    site_open(&s, QN_CPU_ref, QN_CPU_LEVEL_COUNT - 1, 2, NULL);
    qn_exec *e = compile(&w, &s);
    assert_true(qn__exec_graph(e)->n_nodes < 1024);
    OK(qn__exec_run(e, NULL, err));
    const uint64_t allocs = QN_METRIC_READ(allocs), tasks = QN_METRIC_READ(kernel_tasks);
    int64_t n_work = 0;
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++) {
        const qn_op_kind kind = qn__op_info(qn__exec_graph(e)->nodes[i]->op)->kind;
        n_work += kind == QN_KIND_compute || kind == QN_KIND_update;
    }
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(qn__sched_find(s.sched, "world", 5), e);
        feed(e, &w);
        OK(qn__exec_run(e, &(qn_run){.node_ns = ns}, err));
        fetch(e, y);
    }
    assert_int_equal(QN_METRIC_READ(allocs), allocs);
    assert_int_equal(QN_METRIC_READ(kernel_tasks), tasks + 5 * n_work);
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++) {
        const qn_op_kind kind = qn__op_info(qn__exec_graph(e)->nodes[i]->op)->kind;
        const bool timed = kind == QN_KIND_compute || kind == QN_KIND_update || kind == QN_KIND_transfer;
        assert_true(timed ? ns[i] > 0 : ns[i] == 0);
    }
    site_close(&s);
    world_close(&w);
}

/* Passes and the cache change no bit. */
static void test_passes_change_no_bit(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 36; seed++) {
        static float plain[2 * N * M], refined[2 * N * M];
        world w;
        world_open(&w, seed, seed % 2);
        for (int pass = 0; pass <= QN_PASS_COUNT; pass++) {
            site s;
            site_open(&s, QN_CPU_LEVEL_COUNT - 1, QN_CPU_ref, 1,
                      &(qn_sched_options){.passes_off = pass == QN_PASS_COUNT ? 0 : ~(1u << pass),
                                          .no_cache = pass & 1});
            qn_exec *e = compile(&w, &s);
            OK(qn__exec_run(e, NULL, err));
            fetch(e, pass ? refined : plain);
            if (pass) assert_memory_equal(plain, refined, sizeof(plain));
            site_close(&s);
        }
        world_close(&w);
    }
}

static int count_of(const qn_exec *e, qn_op op, int32_t place)
{
    const qn_graph *g = qn__exec_graph(e);
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) n += g->nodes[i]->op == op && g->nodes[i]->place == place;
    return n;
}

/* What follows from ids alone is computed in each place that reads it, of what the graph names: also where its own
 * sources lie, after others were put in their place where it was computed first. */
static void test_computed_in_both_places(void **state)
{
    (void)state;
    static const int32_t ids[N] = {4, 0, 3, 3, 1, 2}, steps[N] = {1, 2, 3, 4, 5, 6};
    site s;
    qn_exec *e = NULL;
    qn_graph *g = NULL;
    site_open(&s, QN_CPU_ref, QN_CPU_ref, 2, NULL);
    OK(qn__graph_create(&g, err));
    qn_node *in = qn__input(g, "ids", QN_DTYPE_I32, &qn_shape_of(N)),
            *more = qn__const(g, "steps", QN_DTYPE_I32, &qn_shape_of(N), steps);
    qn__graph_scope(g, -1, 0); /* both are read here first */
    qn_node *product = qn__mul(g, in, more);
    qn__graph_scope(g, -1, 1);
    qn_node *half = qn__copy(g, in, QN_DTYPE_F16), *sum = qn__add(g, in, more);
    qn_node *there[] = {qn__unary(g, QN_OP_neg, half), qn__unary(g, QN_OP_neg, sum)};
    qn__graph_scope(g, -1, 0);
    qn_node *here[] = {qn__unary(g, QN_OP_abs, half), qn__unary(g, QN_OP_abs, sum)};
    qn__output(g, qn__name(g, product, "product"));
    for (int i = 0; i < 2; i++) {
        qn__output(g, qn__name(g, there[i], i ? "sum there" : "half there"));
        qn__output(g, qn__name(g, here[i], i ? "sum here" : "half here"));
    }
    OK(qn__sched_compile(s.sched, g, NULL, 0, &e, err));
    assert_int_equal(qn__exec_n_transfers(e), 0);
    for (int32_t place = 0; place < 2; place++) {
        assert_int_equal(count_of(e, QN_OP_copy, place), 1);
        assert_int_equal(count_of(e, QN_OP_add, place), 1);
        assert_int_equal(count_of(e, QN_OP_input, place), 1); /* and not once more */
        assert_int_equal(count_of(e, QN_OP_param, place), 1);
    }
    OK(qn__exec_set(e, qn__exec_find(e, "ids"), ids, sizeof ids, err));
    OK(qn__exec_run(e, NULL, err));
    for (int k = 0; k < 2; k++) {
        const int sign = k ? 1 : -1;
        uint16_t halves[N];
        int32_t sums[N];
        OK(qn__exec_get(e, qn__exec_find(e, k ? "half here" : "half there"), halves, 0, sizeof halves, err));
        OK(qn__exec_get(e, qn__exec_find(e, k ? "sum here" : "sum there"), sums, 0, sizeof sums, err));
        for (int i = 0; i < N; i++) {
            assert_true(qn__f16_to_f32(halves[i]) == (float)(sign * ids[i]));
            assert_int_equal(sums[i], sign * (ids[i] + steps[i]));
        }
    }
    site_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_is_whole),          cmocka_unit_test(test_stopping_harms_nothing),
        cmocka_unit_test(test_runs_allocate_nothing),   cmocka_unit_test(test_passes_change_no_bit),
        cmocka_unit_test(test_computed_in_both_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
