/* SPDX-License-Identifier: MIT */
/* tests/golden/values.c -- what recordings have of values: a kernel broken on purpose and a NaN planted in a weight are
 * named by the hashes of two recordings, and the second by a check; experts and gates of all tokens are those that
 * NumPy computes in float64 (values_figures.inc, written by tests/oracle/values.py). With --write DIR it only writes
 * the model, for that program. */
#include "cpu/program.h"
#include "engine/engine.h"
#include "unit/model/tiny.h"

#include <quern/tap.h>
#include <quern/trace.h>

enum { N = 8, N_PROMPT = 6, N_LAYER = 2, N_EXPERT = 8, N_USED = 3 };
static const qn_synth_options synth = {.arch = "qwen3moe",
                                       .n_layer = N_LAYER,
                                       .n_embd = 64,
                                       .n_head = 4,
                                       .n_kv_head = 2,
                                       .n_ff = 96,
                                       .n_vocab = 320,
                                       .n_ctx = 64,
                                       .n_embd_head = 16,
                                       .spread = 0.2f,
                                       .type = "F32",
                                       .seed = 12,
                                       .set = (const char *const[]){"expert_count=8", "expert_used_count=3",
                                                                    "expert_feed_forward_length=32", NULL}};
static char model[768], spoilt[768];
static qn_token tokens[N];

static qn_engine *open_engine(const char *path)
{
    qn_engine *e = NULL;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 2}, &e, err));
    return e;
}

/* A prompt in batches of 4, then token by token. */
static void run(qn_engine *e, const char *record, const qn_trace_options *options)
{
    qn_session *s = NULL;
    MUST(qn_trace_start(record, options, err));
    MUST(qn_session_create(
        e, &(qn_session_options){.n_ctx = 64, .n_batch = 4, .kv_type = QN_DTYPE_F32, .kv_type_set = true}, &s, err));
    MUST(qn_session_tap(s, "*=trace", err));
    MUST(qn_session_feed(s, 0, tokens, N_PROMPT, err));
    for (int i = N_PROMPT; i < N; i++) MUST(qn_session_feed(s, 0, tokens + i, 1, err));
    MUST(qn_session_taps_end(s, err));
    qn_session_destroy(s);
    MUST(qn_trace_stop(NULL, err));
}

/* Records both, and compares. */
static void first_difference(qn_engine *a, qn_engine *b, const char *name, int layer, int pos)
{
    char records[2][768];
    qn_trace *t[2] = {NULL, NULL};
    qn_trace_difference d;
    for (int i = 0; i < 2; i++) {
        snprintf(records[i], sizeof records[i], "%s", tiny_path(i ? "b.qtr" : "a.qtr"));
        run(i ? b : a, records[i], NULL);
        MUST(qn_trace_open(records[i], &t[i], err));
        assert_null(qn_trace_damage(t[i]));
    }
    MUST(qn_trace_compare_values(t[0], t[1], &d, err));
    assert_true(d.compared > N * 40 && d.alone == 0);
    if (!name) {
        assert_int_equal(d.differ, 0);
        assert_null(d.node);
    } else {
        assert_true(d.differ > 0);
        assert_string_equal(d.node->name, name);
        assert_int_equal(d.node->layer, layer);
        assert_int_equal(d.step->pos[d.item], pos);
        assert_int_equal(d.step->tokens[d.item], tokens[pos]);
    }
    for (int i = 0; i < 2; i++) qn_trace_close(t[i]);
}

/* Wrong in the last bit, of large values only. */
static void (*whole_swiglu)(float *y, const float *gate, const float *up, int64_t n);
static void broken_swiglu(float *y, const float *gate, const float *up, int64_t n)
{
    whole_swiglu(y, gate, up, n);
    for (int64_t i = 0; i < n; i++)
        if (y[i] > 1) y[i] = nextafterf(y[i], 0);
}

static void a_broken_kernel_is_named(void **state)
{
    (void)state;
    qn_engine *a = open_engine(model), *b = open_engine(model);
    qn_cpu *cpu = (qn_cpu *)b->backends[0];
    qn_kernels broken = *cpu->kernels;
    first_difference(a, b, NULL, 0, 0);
    whole_swiglu = broken.swiglu_f32;
    broken.swiglu_f32 = broken_swiglu;
    cpu->kernels = &broken;
    first_difference(a, b, "ffn_moe_act-0", 0, 0);
    qn_engine_close(a);
    qn_engine_close(b);
}

/* One number of the router of layer 1. */
static void spoil(void)
{
    qn_gguf *file = NULL;
    static char bytes[4 << 20];
    MUST(qn_gguf_open(model, NULL, &file, err));
    const qn_gguf_tensor *t = qn_gguf_tensor_find(file, "blk.1.attn_v.weight");
    assert_non_null(t);
    FILE *f = fopen(model, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(size > 0 && size < sizeof bytes);
    const char *at = NULL;
    for (size_t i = 0; i + t->size_bytes <= size && !at; i += 32)
        if (memcmp(bytes + i, t->data, t->size_bytes) == 0) at = bytes + i;
    assert_non_null(at);
    memcpy(bytes + (at - bytes) + 40, &(float){NAN}, sizeof(float));
    f = fopen(spoilt, "wb");
    assert_true(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
    qn_gguf_close(file);
}

static void a_planted_nan_is_named(void **state)
{
    (void)state;
    spoil();
    qn_engine *a = open_engine(model), *b = open_engine(spoilt);
    qn_session *s = NULL;
    first_difference(a, b, "v-1", 1, 0);
    MUST(qn_session_create(b, &(qn_session_options){.n_ctx = 64}, &s, err));
    MUST(qn_session_tap(s, "*=check", err));
    REFUSED(invalid, qn_session_feed(s, 0, tokens, N, err), "v-1 (layer 1)", "is NaN", "position 0");
    qn_session_destroy(s);
    qn_engine_close(a);
    qn_engine_close(b);
}

/* ---- experts ---- */

static const struct {
    int32_t ids[N * N_USED];
    float gates[N * N_USED];
} figures[N_LAYER] = {
#include "values_figures.inc"
};

static void experts_are_numpys(void **state)
{
    (void)state;
    qn_engine *e = open_engine(model);
    const qn_trace_options without = {.no_experts = true};
    for (int left_out = 0; left_out <= 1; left_out++) {
        qn_trace *t = NULL;
        qn_trace_info info;
        int n[N_LAYER] = {0};
        run(e, tiny_path("experts.qtr"), left_out ? &without : NULL);
        MUST(qn_trace_open(tiny_path("experts.qtr"), &t, err));
        qn_trace_get_info(t, &info);
        assert_int_equal(info.n_steps, 4);
        for (int64_t i = 0; i < info.n_steps; i++) {
            const qn_trace_step *step = &info.steps[i];
            assert_int_equal(step->n_choices, left_out ? 0 : N_LAYER);
            for (int k = 0; k < step->n_choices; k++) {
                const qn_trace_choice *c = &step->choices[k];
                const int layer = step->plan->nodes[c->node].layer;
                assert_non_null(c->gates);
                assert_int_equal(c->n_ids, N_USED * step->n_tokens);
                for (int x = 0; x < c->n_ids; x++, n[layer]++) {
                    assert_int_equal(c->ids[x], figures[layer].ids[n[layer]]);
                    assert_float_equal(c->gates[x], figures[layer].gates[n[layer]], 1e-5f);
                }
            }
        }
        for (int l = 0; l < N_LAYER; l++) assert_int_equal(n[l], left_out ? 0 : N * N_USED);
        qn_trace_close(t);
    }
    qn_engine_close(e);
}

int main(int argc, char **argv)
{
    const bool write = argc == 3 && strcmp(argv[1], "--write") == 0;
    for (int i = 0; i < N; i++) tokens[i] = (i * i * 31 + i * 97 + 1) % 320;
    snprintf(model, sizeof model, "%s", write ? argv[2] : tiny_path("values.gguf"));
    snprintf(spoilt, sizeof spoilt, "%s", write ? "" : tiny_path("spoilt.gguf"));
    MUST(qn_synth(model, &synth, NULL, NULL, err));
    if (write) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_kernel_is_named),
        cmocka_unit_test(a_planted_nan_is_named),
        cmocka_unit_test(experts_are_numpys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
