/* SPDX-License-Identifier: MIT */
/* Tokens that several threads choose at once, and what a step reads for a short question. */
#include "adapter.h"
#include "crowd.h"
#include "engine/batch.h"

/* Masks of many streams are made, and their tokens drawn, by several threads: each gets what it gets alone. A batcher
 * that computes and draws in turn counts as one: its steps are not cut into parts for others. */
static void masks_at_once(void **state)
{
    (void)state;
    enum { N = 8 };
    qn_engine *e = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = 2});
    qn_session *alone = crowd_session(e);
    qn_grammar *grammar = NULL;
    MUST(qn_grammar_create("root ::= [a-z]+ \" \" [a-z ]+", NULL, &grammar, err));
    qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 1000}, .n_parallel = N});
    crowd_request r[N];
    for (int i = 0; i < N; i++) {
        r[i] = (crowd_request){.n_prompt = 10,
                               .n_answer = 40,
                               .sampler = {.seed = 1 + (uint64_t)i, .temperature = 1},
                               .grammar = grammar,
                               .cancel_after = -1};
        rig_story(i, r[i].prompt, r[i].n_prompt);
        crowd_expect(alone, &r[i]);
    }
    for (int i = 0; i < N; i++) MUST(crowd_submit(b, &r[i], err));
    for (int i = 0; i < N; i++) crowd_wait(&r[i]);
    for (int i = 0; i < N; i++) CROWD_SAME(&r[i]);
    assert_false(qn__pool_shared(b->pool));
    qn_batcher_destroy(b);
    qn_grammar_destroy(grammar);
    qn_session_destroy(alone);
    qn_engine_close(e);
}

typedef struct question {
    qn_batcher *b;
    double slow;      /* by how much the machine seems to be slower than it was */
    qn_lora_use lora; /* of the question; none: no adapter */
    qn_token prompt[48];
    size_t n_prompt;
    qn_status status;
    uint64_t id;
    _Atomic int n_parts; /* of the prompt, before the one that gives the first token */
    _Atomic bool answered;
} question;

static void hear(void *ctx, const qn_batch_event *e)
{
    question *q = ctx;
    if (e->kind == QN_BATCH_progress) atomic_fetch_add(&q->n_parts, 1);
    if (e->kind == QN_BATCH_end) atomic_store(&q->answered, true);
}

/* On the executor, which alone knows the pace: reading seems to take a second a token, so that as little is read in a
 * step as can be. */
static void ask_now(void *ctx, const qn_batch_event *e)
{
    question *q = ctx;
    if (e->kind == QN_BATCH_end) atomic_store(&q->answered, true);
    if (e->kind != QN_BATCH_token || q->id) return;
    q->b->pace = (qn_pace){.token_s = {1, 1}, .slow = q->slow};
    for (int i = 0; i < QN_PACE_CLASSES; i++) q->b->pace.decode_s[i] = 1e-6;
    question *asked = q + 1;
    const qn_batch_request r = {.prompt = asked->prompt,
                                .n_prompt = asked->n_prompt,
                                .max_tokens = 1,
                                .loras = &asked->lora,
                                .n_loras = asked->lora.lora != NULL,
                                .fn = hear,
                                .ctx = asked};
    asked->status = qn_batcher_submit(q->b, &r, &q->id, NULL);
}

/* A question of 32 tokens is read at once beside streams that write; one of more in parts; and one with another set of
 * adapters comes to its turn though the machine is so slow that there is no time for prompts. */
static void short_question(void **state)
{
    (void)state;
    const qn_logit_bias no_end = {2, -INFINITY};
    for (int more = 0; more < 3; more++) {
        const char *path = tiny_path("question.gguf");
        qn_engine *e = NULL;
        question q[2] = {{0}};
        uint64_t id;
        MUST(tiny_write(path, &(tiny){.arch = "llama"}, err));
        MUST(qn_engine_open(path, NULL, &e, err));
        if (more == 2) {
            const char *file = adapter_write(&(adapter){.path = path, .seed = 1, .rank = 2, .alpha = 4});
            q[0].slow = 3;
            q[1].lora.scale = 1;
            MUST(qn_lora_open(e, file, &q[1].lora.lora, err));
        }
        q[0].b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 400, .n_batch = 64}});
        q[1].n_prompt = more ? 48 : 32;
        rig_story(3, q[1].prompt, (int)q[1].n_prompt);
        const qn_batch_request r = {.prompt = q[1].prompt,
                                    .n_prompt = 5,
                                    .max_tokens = 60,
                                    .sampler =
                                        &(qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1},
                                    .key = "other",
                                    .fn = ask_now,
                                    .ctx = q};
        MUST(qn_batcher_submit(q[0].b, &r, &id, err));
        while (!atomic_load(&q[0].answered) || !atomic_load(&q[1].answered)) usleep(200);
        assert_int_equal(q[1].status, QN_OK);
        if (more)
            assert_true(q[1].n_parts > 0);
        else
            assert_int_equal(q[1].n_parts, 0);
        qn_batcher_destroy(q[0].b);
        qn_engine_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_at_once), cmocka_unit_test(short_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
