/* SPDX-License-Identifier: MIT */
/* tests/e2e/trace.c -- a recording adds up: events are steps times nodes (those that all threads compute, times them),
 * spans cover their nodes, tokens and positions are those that were fed; results are the same bits with and without;
 * what is damaged reads up to the damage. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <quern/quern.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL QN_TESTS_DIR "/../models/shakespeare.gguf"
#define MUST(call) \
    do { \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, err.text); \
    } while (0)

static qn_error err;
static char path[64], other[64];
enum { N_PROMPT = 13, N_DECODE = 5 };

static qn_token token_of(int i) { return 5 + i * 37 % 200; }

static qn_engine *open_engine(int n_threads)
{
    qn_engine *engine = NULL;
    MUST(qn_engine_open(MODEL, &(qn_engine_options){.n_threads = n_threads}, &engine, &err));
    return engine;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A prompt, then tokens; the logits of all steps. [1 + N_DECODE, n_vocab] */
static float *generate(qn_engine *engine, int32_t *n_vocab)
{
    qn_engine_info info;
    qn_session *session = NULL;
    qn_token prompt[N_PROMPT];
    qn_engine_get_info(engine, &info);
    *n_vocab = info.n_vocab;
    float *logits = malloc((size_t)(1 + N_DECODE) * (size_t)info.n_vocab * sizeof *logits);
    assert_non_null(logits);
    MUST(qn_session_create(engine, &(qn_session_options){.n_ctx = 64}, &session, &err));
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_of(i);
    MUST(qn_session_feed(session, 0, prompt, N_PROMPT, &err));
    for (int i = 0; i <= N_DECODE; i++) {
        memcpy(logits + (size_t)i * (size_t)info.n_vocab, qn_session_logits(session, -1),
               (size_t)info.n_vocab * sizeof *logits);
        const qn_token next = token_of(N_PROMPT + i);
        if (i < N_DECODE) MUST(qn_session_feed(session, 0, &next, 1, &err));
    }
    qn_session_destroy(session);
    return logits;
}

/* ---- sums over a walk ---- */

typedef struct sums {
    uint64_t nodes, steps, marks;
    uint64_t expected; /* events of nodes */
    int n_members;
    int64_t last_end[64];
    int64_t in_steps; /* node time of member 0 */
} sums;

static bool add(void *ctx, const qn_trace_event *e)
{
    sums *s = ctx;
    assert_true(e->ns >= 0 && e->wait_ns >= 0 && e->wait_ns <= e->ns + 1);
    if (e->kind == QN_TRACE_mark) {
        assert_string_equal(e->text, s->marks == 0 ? "a mark" : "a span");
        s->marks++;
    }
    if (e->kind == QN_TRACE_step) {
        assert_non_null(e->step);
        s->steps++;
        return true;
    }
    if (e->kind != QN_TRACE_node) return true;
    assert_non_null(e->node);
    assert_true(e->node->computes);
    assert_true(e->lane->member == 0 || e->node->shared);
    assert_true(e->begin_ns >= e->step->begin_ns && e->begin_ns + e->ns <= e->step->begin_ns + e->step->ns);
    assert_true(e->lane->id < 64 && e->begin_ns >= s->last_end[e->lane->id]); /* one ends before the next begins */
    s->last_end[e->lane->id] = e->begin_ns + e->ns;
    s->nodes++;
    if (e->lane->member == 0) s->in_steps += e->ns;
    return true;
}

static void count_expected(const qn_trace_info *info, sums *s)
{
    for (int64_t i = 0; i < info->n_steps; i++) {
        const qn_trace_plan *plan = info->steps[i].plan;
        for (int32_t k = 0; k < plan->n_nodes; k++)
            if (plan->nodes[k].computes) s->expected += plan->nodes[k].shared ? (uint64_t)s->n_members : 1;
    }
}

static void check_steps(const qn_trace_info *info)
{
    assert_int_equal(info->n_steps, 1 + N_DECODE);
    for (int64_t i = 0; i < info->n_steps; i++) {
        const qn_trace_step *step = &info->steps[i];
        assert_int_equal(step->number, i + 1);
        assert_int_equal(step->phase, i == 0 ? QN_TRACE_PHASE_prompt : QN_TRACE_PHASE_decode);
        assert_int_equal(step->n_tokens, i == 0 ? N_PROMPT : 1);
        assert_true(step->ns > 0 && step->n_sights >= 1);
        const int first = i == 0 ? 0 : N_PROMPT + (int)i - 1;
        uint64_t pairs = 0;
        for (int32_t k = 0; k < step->n_tokens; k++) {
            assert_int_equal(step->tokens[k], token_of(first + k));
            assert_int_equal(step->pos[k], first + k);
            assert_int_equal(step->seq[k], 0);
            pairs += (uint64_t)(first + k + 1);
        }
        assert_int_equal(step->sights[0].cells, first + step->n_tokens);
        assert_int_equal(step->sights[0].pairs, pairs);
    }
}

/* What the plan says of memory is what the program reserves for such a graph. */
static void it_adds_up(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        int32_t n_vocab;
        qn_trace *t = NULL;
        qn_trace_info info;
        qn_trace_summary summary;
        sums s = {.n_members = n_threads};
        qn_engine *engine = open_engine(n_threads);
        float *without = generate(engine, &n_vocab);
        MUST(qn_trace_start(path, NULL, &err));
        assert_true(qn_trace_is_on());
        float *with = generate(engine, &n_vocab);
        qn_trace_mark("a mark");
        const uint64_t begin = qn_trace_time();
        assert_true(begin != 0);
        qn_trace_span(QN_TRACE_mark, "a span", begin);
        MUST(qn_trace_stop(&summary, &err));
        assert_false(qn_trace_is_on());
        qn_trace_mark("nobody sees this");
        assert_true(qn_trace_time() == 0);
        assert_memory_equal(with, without, (size_t)(1 + N_DECODE) * (size_t)n_vocab * sizeof *with);

        MUST(qn_trace_open(path, &t, &err));
        assert_null(qn_trace_damage(t));
        qn_trace_get_info(t, &info);
        assert_int_equal(info.dropped, 0);
        assert_int_equal(summary.dropped, 0);
        check_steps(&info);
        MUST(qn_trace_walk(t, add, &s, &err));
        count_expected(&info, &s);
        assert_int_equal(s.nodes, s.expected);
        assert_int_equal(s.steps, info.n_steps);
        assert_int_equal(s.marks, 2);
        int64_t steps_ns = 0;
        for (int64_t i = 0; i < info.n_steps; i++) steps_ns += info.steps[i].ns;
        assert_true(s.in_steps > 0 && s.in_steps <= steps_ns);
        qn_trace_close(t);
        free(with);
        free(without);
        qn_engine_close(engine);
    }
}

/* So far. */
static int64_t n_steps_in(const char *file)
{
    qn_trace *t = NULL;
    qn_trace_info info;
    if (qn_trace_open(file, &t, NULL) != QN_OK) return 0;
    qn_trace_get_info(t, &info);
    const int64_t n = info.n_steps > 0 && info.steps[info.n_steps - 1].ns > 0 ? info.n_steps : 0;
    qn_trace_close(t);
    return n;
}

static int64_t bytes_in(const char *file)
{
    struct stat st;
    return stat(file, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* After the first steps nothing is allocated, by the writer neither. */
static void allocates_nothing(void **state)
{
    (void)state;
    static const qn_trace_options options[] = {{0}, {.last_bytes = 2 << 20}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        qn_session *session = NULL;
        qn_metrics before, after;
        qn_engine *engine = open_engine(2);
        remove(path);
        MUST(qn_trace_start(path, &options[i], &err));
        MUST(qn_session_create(engine, &(qn_session_options){.n_ctx = 256}, &session, &err));
        for (int k = 0; k < 3; k++) MUST(qn_session_feed(session, 0, &(qn_token){7}, 1, &err));
        if (i == 0) {
            while (n_steps_in(path) < 1) usleep(20000); /* the writer has taken the plan */
        } else {
            char *bytes;
            size_t n;
            MUST(qn_trace_copy(&bytes, &n, &err));
            qn_free(bytes);
        }
        qn_metrics_snapshot(&before);
        const int64_t start = now_ms(), n_bytes = bytes_in(path);
        for (int k = 3; k < 100; k++) {
            const qn_token token = token_of(k);
            MUST(qn_session_feed(session, 0, &token, 1, &err));
        }
        while (i == 0 && bytes_in(path) == n_bytes) usleep(5000); /* a block is written */
        while (i == 1 && now_ms() - start < 600) usleep(20000);   /* or kept, which nobody sees without allocating */
        qn_metrics_snapshot(&after);
        assert_int_equal(after.allocs - before.allocs, 0);
        MUST(qn_trace_stop(NULL, &err));
        qn_session_destroy(session);
        qn_engine_close(engine);
    }
}

/* ---- damage ---- */

static char *slurp(const char *from, size_t *size)
{
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size);
    assert_true(bytes && fread(bytes, 1, *size, f) == *size);
    fclose(f);
    return bytes;
}

static void spill(const char *to, const char *bytes, size_t size)
{
    FILE *f = fopen(to, "wb");
    assert_true(f && (size == 0 || fwrite(bytes, 1, size, f) == size) && fclose(f) == 0);
}

static bool count_event(void *ctx, const qn_trace_event *e)
{
    (void)e;
    ++*(uint64_t *)ctx;
    return true;
}

/* Events of the blocks before `at`, by the headers alone. */
static uint64_t events_before(const char *bytes, size_t at)
{
    uint64_t n = 0;
    for (size_t block = 16; block + 40 <= at;) {
        uint16_t kind;
        uint32_t rows, packed;
        memcpy(&kind, bytes + block + 4, 2);
        memcpy(&rows, bytes + block + 12, 4);
        memcpy(&packed, bytes + block + 20, 4);
        if (block + 40 + packed > at) break;
        if (kind == 5) n += rows;
        block += 40 + packed;
    }
    return n;
}

static void check_damaged(const char *bytes, size_t size, size_t at, size_t before)
{
    qn_trace *t = NULL;
    uint64_t n = 0;
    spill(other, bytes, size);
    const qn_status status = qn_trace_open(other, &t, &err);
    if (at < 16) {
        assert_int_equal(status, QN_STATUS_format);
        return;
    }
    assert_int_equal(status, QN_OK);
    const char *damage = qn_trace_damage(t);
    assert_non_null(damage);
    unsigned long long where = 0;
    assert_int_equal(sscanf(damage, "at byte %llu", &where), 1);
    assert_true(where <= at);
    MUST(qn_trace_walk(t, count_event, &n, &err));
    /* events of runs are not told: one a thread and step */
    assert_true(n <= before);
    assert_true(n + 2 * (1 + N_DECODE) + 2 >= before);
    qn_trace_close(t);
}

/* Cut anywhere, and with any byte another. */
static void damage_is_found(void **state)
{
    (void)state;
    int32_t n_vocab;
    size_t size;
    qn_engine *engine = open_engine(1);
    const qn_trace_options options = {.layers = "1", .ops = "linear"};
    MUST(qn_trace_start(path, &options, &err));
    free(generate(engine, &n_vocab));
    MUST(qn_trace_stop(NULL, &err));
    qn_engine_close(engine);
    char *bytes = slurp(path, &size);
    const size_t stride = size / 150 + 1;
    for (size_t at = 0; at < size; at += at < 100 || at + 100 > size ? 1 : stride) {
        check_damaged(bytes, at, at, events_before(bytes, at));
        bytes[at] ^= 0x40;
        size_t whole = at; /* of the block that it is in nothing is read */
        check_damaged(bytes, size, at, at < 16 ? 0 : events_before(bytes, whole));
        bytes[at] ^= 0x40;
    }
    free(bytes);
}

static void refusals(void **state)
{
    (void)state;
    qn_trace *t = NULL;
    char header[16] = "QNTRACE\n\2\0\0\0\4\3\2\1";
    spill(other, header, sizeof header);
    assert_int_equal(qn_trace_open(other, &t, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "version 2"));
    memcpy(header + 8, "\0\0\0\1\1\2\3\4", 8);
    spill(other, header, sizeof header);
    assert_int_equal(qn_trace_open(other, &t, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "byte order"));
    spill(other, "no trace at all, but long enough", 32);
    assert_int_equal(qn_trace_open(other, &t, &err), QN_STATUS_format);
    /* what is there and no trace is not overwritten */
    assert_int_equal(qn_trace_start(other, NULL, &err), QN_STATUS_invalid);
    assert_int_equal(qn_trace_stop(NULL, &err), QN_STATUS_state);
    MUST(qn_trace_start(path, NULL, &err));
    assert_int_equal(qn_trace_start(path, NULL, &err), QN_STATUS_state);
    MUST(qn_trace_stop(NULL, &err));
    const qn_trace_options wrong[] = {{.layers = "1,x"}, {.tokens = "5-2"}, {.phases = "decoding"}, {.last_bytes = 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(qn_trace_start(path, &wrong[i], &err), QN_STATUS_invalid);
    assert_int_equal(qn_trace_start("/no/such/folder/t.qtr", NULL, &err), QN_STATUS_io);
}

/* A full disk ends the recording and nothing else. */
static void full_disk(void **state)
{
    (void)state;
    int32_t n_vocab;
    qn_trace_summary summary;
    if (access("/dev/full", W_OK) != 0) skip();
    qn_engine *engine = open_engine(2);
    float *without = generate(engine, &n_vocab);
    MUST(qn_trace_start("/dev/full", NULL, &err));
    float *with = generate(engine, &n_vocab);
    MUST(qn_trace_stop(&summary, &err));
    assert_true(summary.failed);
    assert_true(summary.reason[0] != '\0');
    assert_memory_equal(with, without, (size_t)(1 + N_DECODE) * (size_t)n_vocab * sizeof *with);
    free(with);
    free(without);
    qn_engine_close(engine);
}

/* A process that is killed leaves all but the last moments. */
static void killed(void **state)
{
    (void)state;
    qn_trace *t = NULL;
    qn_trace_info info;
    uint64_t n = 0;
    MUST(qn_trace_start(path, NULL, &err)); /* a recording that is there is replaced by what is readable all along */
    qn_trace_mark("the one before");
    MUST(qn_trace_stop(NULL, &err));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int32_t n_vocab;
        qn_engine *engine = NULL;
        if (qn_trace_start(path, NULL, NULL) != QN_OK) _exit(1);
        if (qn_engine_open(MODEL, &(qn_engine_options){.n_threads = 2}, &engine, NULL) != QN_OK) _exit(1);
        while (n_steps_in(path) <= 20) free(generate(engine, &n_vocab));
        raise(SIGKILL);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    MUST(qn_trace_open(path, &t, &err));
    const char *damage = qn_trace_damage(t); /* or it was killed in the middle of a write */
    assert_true(damage && (strstr(damage, "was not stopped") || strstr(damage, "the file ends inside of a block")));
    qn_trace_get_info(t, &info);
    assert_true(info.n_steps > 20 && info.steps[10].ns > 0);
    MUST(qn_trace_walk(t, count_event, &n, &err));
    assert_int_equal(n, info.events);
    assert_true(n > 1000);
    qn_trace_close(t);
}

/* ---- two at once ---- */

typedef struct marks {
    int n;
    int64_t longest;
} marks;

static bool find_marks(void *ctx, const qn_trace_event *e)
{
    marks *m = ctx;
    if (e->kind != QN_TRACE_mark) return true;
    m->n++;
    if (e->ns > m->longest) m->longest = e->ns;
    return true;
}

static void *generate_apart(void *arg)
{
    int32_t n_vocab;
    (void)arg;
    qn_engine *engine = open_engine(2);
    free(generate(engine, &n_vocab));
    qn_engine_close(engine);
    return NULL;
}

static void two_sessions(void **state)
{
    (void)state;
    pthread_t threads[2];
    qn_trace *t = NULL;
    qn_trace_info info;
    sums s = {.n_members = 2};
    MUST(qn_trace_start(path, NULL, &err));
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, generate_apart, NULL), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    MUST(qn_trace_stop(NULL, &err));
    MUST(qn_trace_open(path, &t, &err));
    qn_trace_get_info(t, &info);
    assert_null(qn_trace_damage(t));
    assert_int_equal(info.n_steps, 2 * (1 + N_DECODE));
    MUST(qn_trace_walk(t, add, &s, &err));
    count_expected(&info, &s);
    assert_int_equal(s.nodes, s.expected);
    assert_true(info.n_lanes >= 3); /* two callers, and who helps them */
    uint32_t first = info.steps[0].session, n_first = 0;
    for (int64_t i = 0; i < info.n_steps; i++) n_first += info.steps[i].session == first;
    assert_int_equal(n_first, 1 + N_DECODE);
    qn_trace_close(t);
}

/* A recording that is there stays until there is a step or a mark; a mark takes no time, the first one neither. */
static void keeps_what_is_there(void **state)
{
    (void)state;
    size_t n_before, n_after;
    qn_trace_summary summary;
    qn_trace *t = NULL;
    qn_trace_info info;
    marks m = {0};
    remove(path);
    MUST(qn_trace_start(path, NULL, &err));
    qn_trace_mark("first");
    MUST(qn_trace_stop(&summary, &err));
    assert_int_equal(summary.n_files, 1);
    assert_int_equal(summary.events, 1);
    char *before = slurp(path, &n_before);
    MUST(qn_trace_start(path, NULL, &err));
    qn_engine_close(open_engine(1));
    MUST(qn_trace_stop(&summary, &err));
    assert_int_equal(summary.n_files, 0);
    char *after = slurp(path, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    free(before);
    free(after);
    MUST(qn_trace_start(path, NULL, &err));
    qn_trace_mark("first");
    qn_trace_mark("second");
    MUST(qn_trace_stop(&summary, &err));
    assert_int_equal(summary.n_files, 1);
    assert_int_equal(summary.events, 2);
    MUST(qn_trace_open(path, &t, &err));
    qn_trace_get_info(t, &info);
    assert_int_equal(info.events, 2);
    MUST(qn_trace_walk(t, find_marks, &m, &err));
    assert_true(m.n == 2 && m.longest < 1000000); /* 3 MiB are written in 2.6 ms */
    qn_trace_close(t);
}

/* The last records, written when asked. */
static void flight_recorder(void **state)
{
    (void)state;
    int32_t n_vocab;
    qn_trace_summary summary;
    qn_trace *t = NULL;
    uint64_t n = 0;
    qn_engine *engine = open_engine(1);
    const qn_trace_options options = {.last_bytes = 1 << 20};
    remove(path);
    MUST(qn_trace_start(path, &options, &err));
    free(generate(engine, &n_vocab));
    assert_int_not_equal(access(path, F_OK), 0);
    qn_trace_dump();
    MUST(qn_trace_stop(&summary, &err));
    assert_int_equal(summary.n_files, 1);
    MUST(qn_trace_open(path, &t, &err));
    assert_null(qn_trace_damage(t));
    MUST(qn_trace_walk(t, count_event, &n, &err));
    assert_true(n > 100);
    qn_trace_close(t);
    qn_engine_close(engine);
}

/* ---- a slow step ---- */

typedef struct dawdler {
    int64_t until_ms;
} dawdler;

static bool dawdle(void *ctx, const qn_node *node, bool after)
{
    (void)node, (void)after;
    while (now_ms() < ((const dawdler *)ctx)->until_ms) usleep(1000);
    return true;
}

/* A step that takes ten times as long as the longest before it takes more than three times their median, however busy
 * the machine is. It is written without being asked for; without a slow step nothing is. */
static void slow_step(void **state)
{
    (void)state;
    for (int slow = 0; slow <= 1; slow++) {
        qn_session *session = NULL;
        qn_trace_summary summary;
        int64_t longest = 1;
        qn_engine *engine = open_engine(1);
        remove(path);
        MUST(qn_trace_start(path, &(qn_trace_options){.last_bytes = 1 << 20, .if_slow = slow ? 3 : 1e6f}, &err));
        MUST(qn_session_create(engine, &(qn_session_options){.n_ctx = 64}, &session, &err));
        for (int i = 0; i < 20 + slow; i++) {
            const int64_t start = now_ms();
            dawdler d = {.until_ms = start + 10 * longest};
            if (i == 20) qn_session_set_eval(session, dawdle, &d);
            MUST(qn_session_feed(session, 0, &(qn_token){7}, 1, &err));
            if (now_ms() - start + 1 > longest) longest = now_ms() - start + 1;
        }
        MUST(qn_trace_stop(&summary, &err));
        assert_true(slow ? summary.n_files >= 1 : summary.n_files == 0);
        assert_int_equal(access(path, F_OK) == 0, slow);
        qn_session_destroy(session);
        qn_engine_close(engine);
    }
    for (int i = 2; i < 20; i++) { /* of steps that were slow by chance */
        char more[96];
        snprintf(more, sizeof more, "%s.%d", path, i);
        remove(more);
    }
}

/* What is kept may be looked at while it goes on. */
static qn_status refuse(void *ctx, qn_tap_value *value, qn_error *e)
{
    (void)value;
    ++*(int *)ctx;
    if (e) *e = (qn_error){.status = QN_STATUS_cancelled};
    return QN_STATUS_cancelled;
}

static bool count_nodes(void *ctx, const qn_trace_event *e)
{
    *(int *)ctx += e->kind == QN_TRACE_node;
    return true;
}

/* Of a run that was stopped the recording has the nodes that were computed, none that were passed over on the way out.
 */
static void stopped(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        int n_taps = 0, n_nodes = 0;
        qn_session *session;
        qn_trace *trace;
        const qn_token token = 5;
        qn_engine *engine = open_engine(n_threads);
        MUST(qn_session_create(engine, NULL, &session, &err));
        MUST(qn_session_tap_fn(session, "embd", false, refuse, &n_taps, &err));
        MUST(qn_trace_start(path, NULL, &err));
        assert_int_equal(qn_session_feed(session, 0, &token, 1, &err), QN_STATUS_cancelled);
        MUST(qn_trace_stop(NULL, &err));
        MUST(qn_trace_open(path, &trace, &err));
        MUST(qn_trace_walk(trace, count_nodes, &n_nodes, &err));
        qn_trace_close(trace);
        assert_int_equal(n_taps, 1);
        assert_int_equal(n_nodes, 1);
        qn_session_destroy(session);
        qn_engine_close(engine);
    }
}

static qn_status multiply(void *ctx, qn_tap_value *value, qn_error *e)
{
    qn_tensor *x = qn_arange(ctx, 0, 300 * 300, 1, QN_DTYPE_F32);
    x = qn_matmul(qn_reshape(x, qn_shape_of(300, 300)), qn_ones(ctx, qn_shape_of(300, 1), QN_DTYPE_F32));
    value->data[0] = (float)qn_item(qn_select(qn_select(x, 0, 1), 0, 0));
    value->changed = true;
    if (e) *e = *qn_context_error(ctx);
    return qn_context_error(ctx)->status;
}

/* A function of a tap computes with tensors while the team is busy with the run that calls it, and the recording stays
 * that of the run. */
static void tensors_inside(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        int n_nodes[2] = {0};
        for (int inside = 0; inside <= 1; inside++) {
            qn_context *tensors;
            qn_session *session;
            qn_trace *trace;
            const qn_token token = 5;
            qn_engine *engine = open_engine(n_threads);
            MUST(qn_context_create(&(qn_context_options){.n_threads = 2}, &tensors, &err));
            MUST(qn_session_create(engine, NULL, &session, &err));
            if (inside) MUST(qn_session_tap_fn(session, "embd", true, multiply, tensors, &err));
            MUST(qn_trace_start(path, NULL, &err));
            MUST(qn_session_feed(session, 0, &token, 1, &err));
            MUST(qn_trace_stop(NULL, &err));
            MUST(qn_trace_open(path, &trace, &err));
            assert_null(qn_trace_damage(trace));
            MUST(qn_trace_walk(trace, count_nodes, &n_nodes[inside], &err));
            qn_trace_close(trace);
            qn_session_destroy(session);
            qn_context_destroy(tensors);
            qn_engine_close(engine);
        }
        assert_int_equal(n_nodes[0], n_nodes[1]);
    }
}

static void copied(void **state)
{
    (void)state;
    int32_t n_vocab;
    char *bytes = NULL;
    size_t n = 0;
    qn_trace *t = NULL;
    qn_trace_info info;
    qn_engine *engine = open_engine(2);
    assert_int_equal(qn_trace_copy(&bytes, &n, &err), QN_STATUS_state);
    MUST(qn_trace_start(path, NULL, &err));
    assert_int_equal(qn_trace_copy(&bytes, &n, &err), QN_STATUS_state); /* it is all in the file */
    MUST(qn_trace_stop(NULL, &err));
    remove(path);
    MUST(qn_trace_start(path, &(qn_trace_options){.last_bytes = 1 << 20}, &err));
    for (int round = 1; round <= 2; round++) {
        free(generate(engine, &n_vocab));
        MUST(qn_trace_copy(&bytes, &n, &err));
        FILE *f = fopen(other, "wb");
        assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
        qn_free(bytes);
        MUST(qn_trace_open(other, &t, &err));
        assert_null(qn_trace_damage(t));
        qn_trace_get_info(t, &info);
        assert_int_equal(info.n_steps, round * (1 + N_DECODE));
        qn_trace_close(t);
    }
    assert_int_not_equal(access(path, F_OK), 0);
    MUST(qn_trace_stop(NULL, &err));
    qn_engine_close(engine);
}

int main(void)
{
    snprintf(path, sizeof path, "trace-%ld.qtr", (long)getpid());
    snprintf(other, sizeof other, "trace-%ld.cut", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_adds_up),
        cmocka_unit_test(allocates_nothing),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(refusals),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(killed),
        cmocka_unit_test(two_sessions),
        cmocka_unit_test(flight_recorder),
        cmocka_unit_test(copied),
        cmocka_unit_test(slow_step),
        cmocka_unit_test(stopped),
        cmocka_unit_test(tensors_inside),
        cmocka_unit_test(keeps_what_is_there),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    remove(other);
    return failed;
}
