/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_batch.c -- any sequence of a batcher's calls, while its executor runs: each request that was taken
 * ends once, with what it gets alone or, where it was cancelled, the beginning of that; nothing else ends with an
 * error; the numbers fit each other. A byte is a call, those behind it say of what. */
#include <quern/batch.h>

#include "require.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_KINDS = 10, N_CTX = 40, MAX_ANSWER = 64, MAX_REQUESTS = 48, N_BATCHERS = 5 };

/* What is asked for; a kind's prompt shares its beginning with that of another. */
typedef struct kind {
    qn_token prompt[N_CTX];
    size_t n_prompt;
    qn_sampler_params sampler;
    bool grammar, shift; /* shift: it goes on when the context is full, to MAX_ANSWER */
    qn_token answer[MAX_ANSWER];
    int n_answer;
    qn_batch_end end;
} kind;

typedef struct request {
    qn_batcher *b;
    const kind *kind;
    uint64_t id;
    int max_tokens, cancel_after;
    bool taken;
    _Atomic bool cancelled, ended;
    int n;
    qn_token tokens[MAX_ANSWER];
    qn_batch_end end;
} request;

static qn_engine *engine;
static qn_grammar *grammar;
static kind kinds[N_KINDS];
static sem_t ends; /* one for each request that ended */
static qn_batcher
    *batchers[N_BATCHERS + 1]; /* of so many streams; they go on from input to input, whose answers stay */

static void on_event(void *ctx, const qn_batch_event *e)
{
    request *r = ctx;
    REQUIRE(!atomic_load(&r->ended));
    if (e->kind == QN_BATCH_token) {
        REQUIRE(r->n < MAX_ANSWER);
        r->tokens[r->n++] = e->token;
        REQUIRE(e->usage.n_generated == r->n && e->usage.n_read == e->usage.n_prompt);
        if (r->n == r->cancel_after) {
            atomic_store(&r->cancelled, true);
            qn_batcher_cancel(r->b, e->request);
        }
    }
    if (e->kind != QN_BATCH_end) return;
    r->end = e->end;
    atomic_store(&r->ended, true);
    sem_post(&ends);
}

static qn_status submit(request *r, bool no_cache, const char *key, qn_error *err)
{
    const qn_batch_request q = {.prompt = r->kind->prompt,
                                .n_prompt = r->kind->n_prompt,
                                .sampler = &r->kind->sampler,
                                .grammar = r->kind->grammar ? grammar : NULL,
                                .max_tokens = r->max_tokens || !r->kind->shift ? r->max_tokens : MAX_ANSWER,
                                .context_shift = r->kind->shift,
                                .n_keep = (int32_t)r->kind->n_prompt / 3 - 1,
                                .key = key,
                                .no_cache = no_cache,
                                .fn = on_event,
                                .ctx = r};
    return qn_batcher_submit(r->b, &q, &r->id, err);
}

static qn_batcher *new_batcher(int32_t n_parallel, int32_t n_queue, bool share)
{
    qn_batcher *b = NULL;
    const qn_batcher_options o = {.session = {.n_ctx = N_CTX, .n_batch = 16},
                                  .n_parallel = n_parallel,
                                  .n_queue = n_queue,
                                  .share_cache = share};
    REQUIRE(qn_batcher_create(engine, &o, &b, NULL) == QN_OK);
    return b;
}

/* Each kind alone, with nothing in the cache. */
static void start(void)
{
    static const qn_sampler_params samplers[] = {{.greedy = true},
                                                 {.temperature = 1.5f, .seed = 7},
                                                 {.repeat_penalty = 1.3f, .seed = 8},
                                                 {.mirostat = 2, .seed = 9}};
    char path[64];
    qn_error err = {0};
    REQUIRE(sem_init(&ends, 0, 0) == 0);
    snprintf(path, sizeof(path), P_tmpdir "/fuzz-batch-%d.gguf", (int)getpid());
    const qn_synth_options synth = {.arch = "llama",
                                    .n_layer = 1,
                                    .n_embd = 32,
                                    .n_head = 2,
                                    .n_kv_head = 1,
                                    .n_ff = 32,
                                    .n_vocab = 300,
                                    .n_ctx = 64,
                                    .spread = 0.5f,
                                    .type = "F32"};
    REQUIRE(qn_synth(path, &synth, NULL, NULL, &err) == QN_OK);
    REQUIRE(qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &engine, &err) == QN_OK);
    unlink(path);
    REQUIRE(qn_grammar_create("root ::= [a-z]+", NULL, &grammar, NULL) == QN_OK);
    qn_batcher *b = new_batcher(1, 1, false);
    for (int i = 0; i < N_KINDS; i++) {
        kind *k = &kinds[i];
        k->n_prompt = 1 + (size_t)(i * 11) % (N_CTX - 4);
        for (size_t j = 0; j < k->n_prompt; j++)
            k->prompt[j] = (qn_token)(3 + (j * 37 + (j > 5) * (size_t)(i % 3)) % 250);
        k->sampler = samplers[i % 4];
        k->grammar = i == 5;
        k->shift = i >= 8;
        request r = {.b = b, .kind = k};
        REQUIRE(submit(&r, true, "", &err) == QN_OK);
        while (!atomic_load(&r.ended)) sem_wait(&ends);
        REQUIRE(r.end == QN_BATCH_END_stop || r.end == (k->shift ? QN_BATCH_END_length : QN_BATCH_END_context));
        memcpy(k->answer, r.tokens, sizeof(r.tokens));
        k->n_answer = r.n;
        k->end = r.end;
    }
    qn_batcher_destroy(b);
}

static void check_answer(const request *r, bool all_may_be_cancelled)
{
    const kind *k = r->kind;
    REQUIRE(atomic_load(&r->ended) && r->n <= k->n_answer);
    REQUIRE(memcmp(r->tokens, k->answer, (size_t)r->n * sizeof(*r->tokens)) == 0);
    if (r->end == QN_BATCH_END_cancelled)
        REQUIRE(all_may_be_cancelled || atomic_load(&r->cancelled));
    else if (r->max_tokens && r->max_tokens <= k->n_answer && r->end == QN_BATCH_END_length)
        REQUIRE(r->n == r->max_tokens);
    else
        REQUIRE(r->n == k->n_answer && r->end == k->end);
}

static void check_stats(qn_batcher *b, uint64_t n_taken)
{
    qn_batcher_stats s;
    qn_batch_info list[4];
    qn_batcher_get_stats(b, &s);
    REQUIRE(s.n_requests == n_taken && s.n_ended <= s.n_requests && s.n_streams <= qn_batcher_n_parallel(b));
    REQUIRE(s.n_free_cells >= 0 && s.n_free_cells <= s.n_cells && s.n_cells >= N_CTX && s.n_queued >= 0);
    REQUIRE(s.n_stream_cells >= 0 && s.n_shared_cells >= 0 && s.n_cached_cells >= 0 && s.n_cached >= 0);
    REQUIRE(s.n_stream_cells + s.n_shared_cells + s.n_cached_cells + s.n_free_cells == s.n_cells);
    const int32_t n = qn_batcher_list(b, list, 4);
    for (int32_t i = 0; i < n && i < 4; i++)
        REQUIRE(list[i].id > 0 && list[i].id <= s.n_requests && list[i].usage.n_read <= list[i].usage.n_prompt);
}

/* Those that were paused go on; all come to their ends. */
static void wait_for_all(qn_batcher *b, request *requests, int n)
{
    qn_batcher_stats s;
    for (int i = 0; i < n; i++)
        if (requests[i].taken) qn_batcher_pause(b, requests[i].id, false);
    for (int i = 0; i < n; i++)
        while (requests[i].taken && !atomic_load(&requests[i].ended)) sem_wait(&ends);
    qn_batcher_get_stats(b, &s);
    REQUIRE(s.n_streams == 0 && s.n_queued == 0 && s.n_ended == s.n_requests);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"", "a", "b"};
    request *requests = calloc(MAX_REQUESTS, sizeof(*requests));
    int n = 0, n_taken = 0;
    if (!engine) start();
    if (size < 2 || !requests) {
        free(requests);
        return 0;
    }
    const int32_t n_parallel = 1 + data[0] % N_BATCHERS;
    qn_batcher_stats before;
    if (!batchers[n_parallel]) batchers[n_parallel] = new_batcher(n_parallel, 1 + n_parallel * 2 % 7, n_parallel & 1);
    qn_batcher *b = batchers[n_parallel];
    qn_batcher_get_stats(b, &before);
    for (size_t i = 2; i + 2 < size && n < MAX_REQUESTS; i += 3) {
        const uint8_t what = data[i], which = data[i + 1], how = data[i + 2];
        request *old = n ? &requests[which % n] : NULL;
        qn_error err = {0};
        switch (what % 8) {
        case 0:
        case 1:
        case 2: {
            request *r = &requests[n++];
            r->b = b;
            r->kind = &kinds[which % N_KINDS];
            /* few of them write until the context is full: a run has a crowd more often than a long answer */
            r->max_tokens = how & 8 ? 1 + how / 64 : how & 1 ? how / 8 : how & 16 ? 0 : 1 + how / 32;
            r->cancel_after = how & 2 ? 1 + how / 16 : -1;
            const qn_status status = submit(r, how & 4, keys[which / 8 % 3], &err);
            r->taken = status == QN_OK;
            n_taken += r->taken;
            REQUIRE(r->taken || (status == QN_STATUS_limit && err.text[0]));
            break;
        }
        case 3:
            if (!old || !old->taken) break;
            atomic_store(&old->cancelled, true);
            qn_batcher_cancel(b, old->id);
            break;
        case 4:
        case 5:
            if (old && old->taken) qn_batcher_pause(b, old->id, what % 8 == 4);
            break;
        case 6: check_stats(b, before.n_requests + (uint64_t)n_taken); break;
        case 7: usleep(how); break; /* the executor gets on */
        }
    }
    static unsigned n_asked; /* for a batcher's end: each eighth gets it, as a new one takes as long as all else */
    const bool waits = data[1] & 15 || n_asked++ % 8 != 0;
    if (waits) {
        wait_for_all(b, requests, n);
    } else {
        qn_batcher_destroy(b);
        batchers[n_parallel] = NULL;
    }
    for (int i = 0; i < n; i++)
        if (requests[i].taken) check_answer(&requests[i], !waits);
    free(requests);
    return 0;
}
