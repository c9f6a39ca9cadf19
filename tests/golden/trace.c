/* SPDX-License-Identifier: MIT */
/* tests/golden/trace.c -- recordings of the models of models.def add up, a prompt and a decode, on one thread and on
 * two, of encoders a text: events are steps times nodes; what nodes read of weights is what the file has: whole
 * tensors, rows of tables, the experts that were chosen, and every tensor that the architecture needs; the plan is what
 * the session reserved. Of experts on a device ids and gates are those of the processor. */
#include "engine/engine.h"
#include "unit/model/tiny.h"

#include "base/trace.h"
#include "device.h"
#include "models.h"

enum {
    N_PROMPT = 9,
    N_DECODE = 2,
#ifdef QN_CHECKED
    EVERY = 12,
#else
    EVERY = 1,
#endif
};

static char path[64], record[64];

typedef struct sums {
    uint64_t nodes, expected;
    int n_members;
} sums;

static bool count(void *ctx, const qn_trace_event *e)
{
    sums *s = ctx;
    if (e->kind == QN_TRACE_node) s->nodes++;
    return true;
}

/* ---- weights ---- */

/* -1: none. */
static int tensor_at(const qn_gguf *file, int32_t number, uint64_t offset)
{
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        uint64_t at = 0;
        if (qn__trace_map_of(t->data, &at) == number && offset == at) return (int)i;
    }
    return -1;
}

/* What the node reads of the source in this step, by the file. */
static double bytes_read(const qn_trace_node *n, int k, const qn_trace_step *step)
{
    const qn_trace_node *src = &step->plan->nodes[n->src[k]];
    if (strcmp(n->op, "get_rows") == 0 && k == 0) {
        const qn_trace_node *ids = &step->plan->nodes[n->src[1]];
        return (double)src->bytes / (double)src->shape[0] * (double)ids->shape[0];
    }
    if (strcmp(n->op, "gather") == 0 && k == 0) return (double)n->bytes;
    if (strcmp(n->op, "attention") == 0 && k == 3) return 0; /* lists of cells: counted with the cells */
    if (strcmp(n->op, "linear_experts") == 0 && (k == 1 || k == 3)) {
        const int32_t ids = step->plan->nodes[n->src[2]].root;
        for (int32_t i = 0; i < step->n_choices; i++)
            if (step->choices[i].node == ids)
                return (double)src->bytes / (double)src->shape[0] * step->choices[i].n_distinct;
        fail_msg("step %llu has no ids of node %d", (unsigned long long)step->number, ids);
    }
    return (double)src->bytes;
}

static void check_weights(const char *name, const qn_gguf *file, const qn_trace_step *step, bool *used)
{
    for (int32_t i = 0; i < step->plan->n_nodes; i++) {
        const qn_trace_node *n = &step->plan->nodes[i];
        double want = 0;
        for (int k = 0; n->computes && k < n->n_src; k++) {
            const qn_trace_node *root = &step->plan->nodes[step->plan->nodes[n->src[k]].root];
            if (strcmp(root->op, "param") != 0 || (root->flags & 2)) continue;
            want += bytes_read(n, k, step);
            if (root->space != QN_TRACE_FILE) continue;
            const int at = tensor_at(file, root->file, root->offset);
            if (at < 0 || qn_gguf_tensor_get(file, (size_t)at)->size_bytes != root->bytes)
                fail_msg("%s: \"%s\" lies at %llu of the file, where no such tensor is", name, root->name,
                         (unsigned long long)root->offset);
            used[at] = true;
        }
        const double have = n->computes ? qn_trace_cost_of(n, step).weight_bytes : 0;
        if (have != want)
            fail_msg("%s: node %d, %s \"%s\", step %llu reads %.0f bytes of weights, %.0f expected", name, i, n->op,
                     n->name, (unsigned long long)step->number, have, want);
    }
}

static bool overlaps(const qn_gguf_tensor *a, const qn_gguf_tensor *b)
{
    const uint8_t *p = a->data, *q = b->data;
    return p < q + b->size_bytes && q < p + a->size_bytes;
}

/* Tensors that these models don't need for logits: keys and values of layers that use another layer's, the head of a
 * reranker, factors for contexts of another length, what is there once more in another form. */
static const struct {
    const char *model, *tensor;
} unneeded[] = {{"gemma3n*", "blk.*.attn_k*"},
                {"gemma3n*", "blk.*.attn_v*"},
                {"gemma4*", "blk.*.attn_k*"},
                {"gemma4*", "blk.*.attn_v*"},
                {"*_fused", "blk.*.ffn_gate_exps.weight"},
                {"*_fused", "blk.*.ffn_up_exps.weight"},
                {"*", "rope_factors_*.weight"},
                {"phi?", "blk.*.attn_?.*"},
                {"*_rank", "blk.*.attn_?.*"},
                {"*", "cls*"}};

/* What else the file has was read: by itself, or as a part of what lies there as one. */
static void check_all_used(const char *name, const qn_gguf *file, const bool *used)
{
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        bool known = used[i];
        for (size_t k = 0; k < qn_gguf_n_tensors(file) && !known; k++)
            known = used[k] && overlaps(t, qn_gguf_tensor_get(file, k));
        for (size_t k = 0; k < sizeof unneeded / sizeof unneeded[0] && !known; k++)
            known = qn__glob_match(unneeded[k].model, name) && qn__glob_match(unneeded[k].tensor, t->name);
        if (!known) fail_msg("%s: \"%s\" is not read", name, t->name);
    }
}

/* ---- a model ---- */

/* Models that see the whole text at once have no decode. */
static int n_decode(const qn_engine *engine) { return engine->model->sees_ahead ? 0 : N_DECODE; }

/* As the file says, so that a head is read too. */
static void encode(qn_session *session, const qn_engine_info *info, const qn_token *tokens)
{
    const int32_t width = info->n_embd + info->n_embd_out + info->n_label; /* or less */
    float *out = malloc((size_t)N_PROMPT * (size_t)width * sizeof *out);
    assert_non_null(out);
    MUST(qn_session_embeddings(session, &(qn_embedding_text){tokens, N_PROMPT}, 1, NULL, out, err));
    free(out);
}

static void run(qn_engine *engine, const qn_engine_info *info, uint64_t *reserved)
{
    qn_session *session = NULL;
    qn_session_stats stats;
    qn_token tokens[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) tokens[i] = (i * 37 + 3) % 250;
    MUST(qn_session_create(engine, &(qn_session_options){.n_ctx = 32, .n_batch = N_PROMPT, .embeddings = info->encoder},
                           &session, err));
    if (info->encoder) encode(session, info, tokens);
    if (!info->encoder) MUST(qn_session_feed(session, 0, tokens, N_PROMPT, err));
    for (int i = 0; i < n_decode(engine) && !info->encoder; i++) MUST(qn_session_feed(session, 0, tokens + i, 1, err));
    qn_session_get_stats(session, &stats);
    *reserved = stats.reserved_bytes;
    qn_session_destroy(session);
}

static void check(const char *name, const char *file, int n_threads)
{
    static bool used[4096];
    qn_engine *engine = NULL;
    qn_engine_info info;
    qn_trace *t = NULL;
    qn_trace_info about;
    uint64_t reserved = 0, planned = 0;
    MUST(qn_engine_open(file, &(qn_engine_options){.n_threads = n_threads}, &engine, err));
    qn_engine_get_info(engine, &info);
    sums s = {.n_members = n_threads};
    memset(used, 0, sizeof used);
    MUST(qn_trace_start(record, NULL, err));
    run(engine, &info, &reserved);
    MUST(qn_trace_stop(NULL, err));
    MUST(qn_trace_open(record, &t, err));
    qn_trace_get_info(t, &about);
    assert_null(qn_trace_damage(t));
    assert_int_equal(about.dropped, 0);
    /* what comes behind the pooling, where there is something, is a graph of its own */
    const bool head = info.encoder && about.n_steps == 2 && about.steps[1].n_tokens == 0;
    assert_int_equal(about.n_steps, info.encoder ? 1 + head : 1 + n_decode(engine));
    assert_int_equal(about.steps[0].n_tokens, N_PROMPT);
    MUST(qn_trace_walk(t, count, &s, err));
    for (int64_t i = 0; i < about.n_steps; i++) {
        const qn_trace_plan *plan = about.steps[i].plan;
        for (int32_t k = 0; k < plan->n_nodes; k++)
            if (plan->nodes[k].computes) s.expected += plan->nodes[k].shared ? (uint64_t)s.n_members : 1;
        check_weights(name, qn_engine_file(engine), &about.steps[i], used);
        uint64_t bytes = 0;
        for (int32_t k = 0; k < plan->n_places; k++) bytes += plan->place_bytes[k];
        if (bytes > planned) planned = bytes;
    }
    if (s.nodes != s.expected)
        fail_msg("%s, %d threads: %llu events of nodes, %llu expected", name, n_threads, (unsigned long long)s.nodes,
                 (unsigned long long)s.expected);
    if (planned != reserved)
        fail_msg("%s: %llu bytes planned, %llu reserved", name, (unsigned long long)planned,
                 (unsigned long long)reserved);
    check_all_used(name, qn_engine_file(engine), used);
    qn_trace_close(t);
    qn_engine_close(engine);
}

static void every_model_adds_up(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m += EVERY) {
        MUST(qn_synth(path, &models[m].options, NULL, NULL, err));
        for (int n_threads = 1; n_threads <= 2; n_threads++) check(models[m].name, path, n_threads);
    }
}

/* A model that was trained and published, where it is at hand. */
static void stories_add_up(void **state)
{
    (void)state;
    static const char stories[] = QN_SHARED_DIR "/models/stories260K.gguf";
    if (access(stories, R_OK) != 0) {
        printf("skipped: no shared/models/stories260K.gguf\n");
        skip();
    }
    for (int n_threads = 1; n_threads <= 2; n_threads++) check("stories260K", stories, n_threads);
}

/* ---- experts on a device ---- */

static bool has_experts(const qn_synth_options *o)
{
    for (int i = 0; o->set && o->set[i]; i++)
        if (strncmp(o->set[i], "expert_count=", 13) == 0) return true;
    return false;
}

static qn_trace *record_on(const char *backends, qn_trace_info *info)
{
    qn_engine *engine = NULL;
    qn_trace *t = NULL;
    qn_engine_info about;
    uint64_t reserved;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 1, .backends = backends}, &engine, err));
    qn_engine_get_info(engine, &about);
    MUST(qn_trace_start(record, NULL, err));
    run(engine, &about, &reserved);
    MUST(qn_trace_stop(NULL, err));
    qn_engine_close(engine);
    MUST(qn_trace_open(record, &t, err));
    qn_trace_get_info(t, info);
    return t;
}

/* Graphs of two backends have nodes of their own numbers; routers stand in the same order. */
static void same_choices(const char *name, const qn_trace_info *a, const qn_trace_info *b)
{
    assert_int_equal(a->n_steps, b->n_steps);
    for (int64_t i = 0; i < a->n_steps; i++) {
        const qn_trace_step *x = &a->steps[i], *y = &b->steps[i];
        if (x->n_choices != y->n_choices || x->n_choices == 0)
            fail_msg("%s, step %d: %d choices on the processor, %d on the device", name, (int)i, x->n_choices,
                     y->n_choices);
        for (int32_t k = 0; k < x->n_choices; k++) {
            const qn_trace_choice *p = &x->choices[k], *q = &y->choices[k];
            assert_int_equal(y->plan->nodes[q->node].place, 0); /* the device's own, no copy of them */
            assert_string_not_equal(y->plan->places[0], "cpu");
            assert_int_equal(p->n_ids, q->n_ids);
            assert_memory_equal(p->ids, q->ids, (size_t)p->n_ids * sizeof *p->ids);
            assert_true(p->gates && q->gates);
            assert_memory_equal(p->gates, q->gates, (size_t)p->n_ids * sizeof *p->gates);
        }
    }
}

static void experts_of_a_device(void **state)
{
    (void)state;
    int n = 0;
    if (!device_works("opencl")) skip();
    for (int m = 0; m < N_MODELS && n < 3; m++) {
        qn_trace_info a, b;
        if (!has_experts(&models[m].options)) continue;
        n++;
        MUST(qn_synth(path, &models[m].options, NULL, NULL, err));
        qn_trace *cpu = record_on("cpu", &a);
        qn_trace *device = record_on("opencl,cpu", &b);
        same_choices(models[m].name, &a, &b);
        qn_trace_close(cpu);
        qn_trace_close(device);
    }
    assert_int_equal(n, 3);
}

int main(void)
{
    snprintf(path, sizeof path, "golden-trace-%ld.gguf", (long)getpid());
    snprintf(record, sizeof record, "golden-trace-%ld.qtr", (long)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_adds_up), cmocka_unit_test(stories_add_up),
                                       cmocka_unit_test(experts_of_a_device)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    remove(record);
    return failed;
}
