/* SPDX-License-Identifier: MIT */
/* A failing allocator under a recording: starting fails cleanly or not at all; what runs while it is on is never
 * touched, whatever the recording gets no memory for, which is counted; reading fails with nomem and gives all back. A
 * trace that ends anywhere, or with any byte another, is read up to there; so is one of which a write failed. */
#include "failing.h"
#include "trace/read.h"
#include <quern/tap.h>
#include <quern/trace.h>
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

static char path[64];

typedef struct work {
    qn_engine *engine;
    qn_token tokens[12];
    rig_row want;
    bool steps; /* something was recorded before memory was short */
} work;

/* The session is made with memory at hand; what fails is the recording's alone. */
static qn_status record(void *ctx, qn_error *e)
{
    work *w = ctx;
    qn_trace_summary summary;
    const qn_status status = qn_trace_start(path, NULL, e);
    if (status != QN_OK) return status;
    const long n = hook.n, at = hook.fail_at;
    const bool all_after = hook.all_after;
    hook_arm(-1, false);
    qn_session *s = rig_session(w->engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    rig_feed(s, 0, w->tokens, 10);
    const rig_row got = rig_logits(s, -1);
    qn_session_destroy(s);
    hook_arm(at, all_after);
    hook.n = n;
    MUST(qn_trace_stop(&summary, err)); /* nobody is told of a recording's troubles but here */
    SAME(got, w->want);
    return QN_OK;
}

static void recording(void **state)
{
    (void)state;
    work w = {.engine = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = 1})};
    rig_story(0, w.tokens, 12);
    qn_session *s = rig_session(w.engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    rig_feed(s, 0, w.tokens, 10);
    w.want = rig_logits(s, -1);
    qn_session_destroy(s);
    for (int all_after = 0; all_after < 2; all_after++) {
        bool through = false;
        long n_failed = 0;
        for (long at = 0; !through; at++) {
            qn_error e = {0};
            const long before = hook.live;
            hook_arm(at, all_after);
            const qn_status status = record(&w, &e);
            through = hook.n <= at;
            hook_arm(-1, false);
            if (hook.live != before)
                fail_msg("allocation %ld: %ld blocks are out, %ld before (%s)", at, (long)hook.live, before, e.text);
            assert_true(status == QN_OK || (status == QN_STATUS_nomem && e.text[0]));
            n_failed += status != QN_OK;
            assert_in_range(at, 0, 2000);
        }
        assert_true(n_failed > 5);
    }
    qn_engine_close(w.engine);
}

/* What a reader may be asked for beyond the trace itself. */
static qn_status ask(qn_trace *t, qn_error *e)
{
    const qn_trace_extent *extents;
    qn_trace_info info;
    qn_trace_curves curves;
    qn_trace_cell cells[4];
    qn_trace_difference difference;
    int64_t n;
    qn_trace_get_info(t, &info);
    qn_status status = qn_trace_get_extents(t, &extents, &n, e);
    if (status == QN_OK) status = qn_trace_get_curves(t, -1, &curves, e);
    if (status == QN_OK)
        status = qn_trace_get_cells(t, info.files[0].id, 0, info.files[0].bytes / 4 + 1, 4, 0, info.n_steps, cells, e);
    if (status == QN_OK) status = qn_trace_compare_values(t, t, &difference, e);
    return status;
}

static qn_status read_all(void *ctx, qn_error *e)
{
    qn_trace *t = NULL;
    (void)ctx;
    qn_status status = qn_trace_open(path, &t, e);
    if (status == QN_OK) status = ask(t, e);
    qn_trace_close(t);
    return status;
}

/* A small trace with something of every kind. */
static void make_small(const char *arch)
{
    qn_engine *engine = rig_open(&(tiny){.arch = arch}, &(qn_engine_options){.n_threads = 1});
    qn_token tokens[12];
    rig_story(0, tokens, 12);
    MUST(qn_trace_start(path, &(qn_trace_options){.ops = "attention"}, err));
    qn_session *s = rig_session(engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    MUST(qn_session_tap(s, "l_out-*=trace", err));
    MUST(qn_session_tap(s, "l_out-*=record", err));
    for (int i = 0; i < 3; i++) rig_feed(s, 0, tokens + 3 * i, 3);
    qn_session_destroy(s);
    qn_trace_mark("a mark");
    MUST(qn_trace_stop(NULL, err));
    qn_engine_close(engine);
}

static void reading(void **state)
{
    (void)state;
    make_small("qwen3moe");
    fault_sweep("read", read_all, NULL, NULL);
}

/* ---- damage ---- */

static uint8_t *slurp(size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size);
    assert_true(bytes && fread(bytes, 1, *size, f) == *size);
    fclose(f);
    return bytes;
}

/* Where the block begins that this byte is in. */
static size_t block_of(const uint8_t *bytes, size_t size, size_t at)
{
    size_t block = 16;
    while (block + 40 <= size) {
        uint32_t packed;
        memcpy(&packed, bytes + block + 20, 4);
        if (at < block + 40 + packed) break;
        block += 40 + packed;
    }
    return block;
}

/* All whole blocks before the damage are read, and it is said where they end. */
static void check_damage(const uint8_t *bytes, size_t size, size_t at, size_t block)
{
    qn_trace *t = NULL;
    qn_error e = {0};
    unsigned long long where = 0;
    const qn_status status = qn__trace_read(bytes, size, &t, &e);
    if (at < 16) {
        assert_int_equal(status, QN_STATUS_format);
        return;
    }
    if (status != QN_OK) fail_msg("byte %zu: %s", at, e.text);
    const char *damage = qn_trace_damage(t);
    if (!damage || sscanf(damage, "at byte %llu", &where) != 1 || where != block)
        fail_msg("byte %zu of %zu: \"%s\", byte %zu expected", at, size, damage ? damage : "whole", block);
    qn_trace_close(t);
}

/* Cut at every byte, and every byte changed. */
static void every_byte(void **state)
{
    (void)state;
    enum {
#ifdef QN_CHECKED
        STRIDE = 7
#else
        STRIDE = 1
#endif
    };
    size_t size;
    make_small("llama");
    uint8_t *bytes = slurp(&size);
    for (size_t at = 0; at < size; at += STRIDE) {
        const size_t block = block_of(bytes, size, at);
        uint8_t *cut = malloc(at + 1); /* so that a sanitizer sees what is read behind it */
        assert_non_null(cut);
        memcpy(cut, bytes, at);
        check_damage(cut, at, at, block);
        free(cut);
        bytes[at] ^= (uint8_t)(1 + at % 255);
        check_damage(bytes, size, at, block);
        bytes[at] ^= (uint8_t)(1 + at % 255);
    }
    free(bytes);
}

/* ---- the N-th write ---- */

static struct {
    long n, fail_at; /* -1: none */
} writes = {.fail_at = -1};

/* Half of what is to be written is, then the disk is full. */
ssize_t write(int fd, const void *data, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "write");
    if (fd > 2 && writes.fail_at >= 0) {
        const long i = writes.n++;
        if (i == writes.fail_at && n > 1) return real(fd, data, n / 2);
        if (i >= writes.fail_at) {
            errno = ENOSPC;
            return -1;
        }
    }
    return real(fd, data, n);
}

static void every_write(void **state)
{
    (void)state;
    work w = {.engine = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = 1})};
    qn_token tokens[12];
    bool through = false;
    long n_failed = 0;
    rig_story(0, tokens, 12);
    for (long at = 0; !through; at++) {
        qn_trace *t = NULL;
        qn_trace_summary summary;
        qn_error e = {0};
        remove(path);
        writes.n = 0;
        writes.fail_at = at;
        MUST(qn_trace_start(path, NULL, err));
        qn_session *s = rig_session(w.engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
        rig_feed(s, 0, tokens, 10);
        qn_session_destroy(s);
        MUST(qn_trace_stop(&summary, err));
        through = writes.n <= at;
        writes.fail_at = -1;
        assert_true(summary.failed != through && (through || summary.reason[0]));
        const qn_status status = qn_trace_open(path, &t, &e);
        if (at == 0) assert_int_equal(status, QN_STATUS_format); /* not even its first bytes */
        if (at > 0) assert_int_equal(status, QN_OK);
        if (status == QN_OK) assert_true((qn_trace_damage(t) == NULL) == through);
        qn_trace_close(t);
        n_failed += !through;
        assert_in_range(at, 0, 5000); /* a writer that gets little time writes in more pieces */
    }
    assert_true(n_failed > 3);
    qn_engine_close(w.engine);
}

int main(void)
{
    snprintf(path, sizeof path, "fault-trace-%ld.qtr", (long)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(recording), cmocka_unit_test(reading),
                                       cmocka_unit_test(every_byte), cmocka_unit_test(every_write)};
    const int failed = cmocka_run_group_tests(tests, hook_install, hook_remove);
    remove(path);
    return failed;
}
