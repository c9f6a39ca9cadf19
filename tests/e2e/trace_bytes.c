/* SPDX-License-Identifier: MIT */
/* tests/e2e/trace_bytes.c -- where bytes come from: of a model that is not in the page cache, the faults of a step lie
 * in all that it touches and in nothing else; what was read from disk is what came into memory. Where the kernel
 * forbids one or the other, the trace says so and has no figure. */
#include "base/samples.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <quern/quern.h>

#include <cmocka.h>

#define MUST(call) \
    do { \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, err.text); \
    } while (0)
/* What one fault may map, at most: a huge page of the page cache. Usually it is 64 KiB. */
#define AROUND ((uint64_t)2 << 20)
enum { N_TOKENS = 3, FIRST = 15000 };

static qn_error err;
static char folder[64], model[96], path[96];

static int make_model(void **state)
{
    (void)state;
    /* A table of 8 MiB of which three rows are read, and an output matrix of as much. */
    const qn_synth_options options = {.arch = "llama",
                                      .n_layer = 1,
                                      .n_embd = 256,
                                      .n_head = 4,
                                      .n_ff = 512,
                                      .n_vocab = 16384,
                                      .n_ctx = 64,
                                      .type = "F16"};
    snprintf(folder, sizeof folder, "trace-bytes-%ld", (long)getpid());
    snprintf(model, sizeof model, "%s/model.gguf", folder);
    snprintf(path, sizeof path, "%s/t.qtr", folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    MUST(qn_synth(model, &options, NULL, NULL, &err));
    assert_int_equal(chmod(model, 0644), 0);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    remove(path);
    remove(model);
    remove(folder);
    return 0;
}

static qn_trace *record(int n_threads, void (*before)(void *), void *ctx)
{
    qn_trace *t = NULL;
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_token tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = FIRST + i;
    remove(path);
    if (qn_trace_start(path, NULL, &err) != QN_OK) return NULL;
    if (qn_engine_open(model, &(qn_engine_options){.n_threads = n_threads}, &engine, &err) != QN_OK) return NULL;
    if (qn_session_create(engine, &(qn_session_options){.n_ctx = 64}, &session, &err) != QN_OK) return NULL;
    if (before) before(ctx);
    if (qn_session_feed(session, 0, tokens, N_TOKENS, &err) != QN_OK) return NULL;
    if (before) before(ctx);
    qn_session_destroy(session);
    qn_engine_close(engine);
    if (qn_trace_stop(NULL, &err) != QN_OK || qn_trace_open(path, &t, &err) != QN_OK) return NULL;
    return t;
}

/* ---- out of the page cache ---- */

typedef struct counted {
    int fd, n;
    int64_t read[2], resident[2];
} counted;

static int64_t read_so_far(void)
{
    char line[128];
    long long bytes = -1;
    FILE *f = fopen("/proc/self/io", "r");
    while (f && fgets(line, sizeof line, f)) (void)sscanf(line, "read_bytes: %lld", &bytes);
    if (f) fclose(f);
    return bytes;
}

static int64_t resident_now(int fd)
{
    struct stat st;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(fstat(fd, &st), 0);
    const size_t size = (size_t)st.st_size, n = (size + page - 1) / page;
    unsigned char *in = malloc(n);
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(in && p != MAP_FAILED && mincore(p, size, in) == 0);
    int64_t pages = 0;
    for (size_t i = 0; i < n; i++) pages += in[i] & 1;
    munmap(p, size);
    free(in);
    return pages * (int64_t)page;
}

/* Before the step the file is dropped, but for what the process has mapped of its header. It is read to its end first,
 * so that nothing is still on its way. After the step what was asked for may be: that is waited for. */
static void look(void *ctx)
{
    counted *c = ctx;
    static char some[1 << 16];
    for (off_t at = 0; c->n == 0 && pread(c->fd, some, sizeof some, at) > 0;) at += (off_t)sizeof some;
    if (c->n == 0) (void)posix_fadvise(c->fd, 0, 0, POSIX_FADV_DONTNEED);
    c->read[c->n] = read_so_far();
    for (int i = 0; i < 1000; i++) {
        c->resident[c->n] = resident_now(c->fd);
        const int64_t read = c->read[c->n] - c->read[0], came = c->resident[c->n] - c->resident[0];
        if (c->n == 0 || llabs(read - came) * 20 <= read) break;
        usleep(2000);
    }
    c->n++;
}

typedef struct reach {
    const qn_trace_info *info;
    const qn_trace_step *step;
    uint64_t faults, touches;
    const qn_trace_fault *fault; /* looked for */
    bool found;
} reach;

static bool in_step(const qn_trace_step *s, const qn_trace_fault *f)
{
    return f->at_ns >= s->begin_ns && f->at_ns <= s->begin_ns + s->ns;
}

/* A fault lies in it, or so near that it mapped what is touched. */
static bool is_faulted(void *ctx, const qn_trace_touch *touch)
{
    reach *r = ctx;
    uint64_t covered = touch->offset > AROUND ? touch->offset - AROUND : 0;
    const uint64_t end = touch->offset + touch->bytes;
    for (uint64_t at = touch->offset; at < end; at += AROUND) { /* each part of it that is larger than a fault maps */
        bool any = false;
        for (int64_t i = 0; i < r->info->n_faults && !any; i++) {
            const qn_trace_fault *f = &r->info->faults[i];
            any = f->file == touch->file && f->offset >= covered && f->offset < at + 2 * AROUND;
        }
        if (!any) fail_msg("no fault in %s at %llu", touch->weight->name, (unsigned long long)at);
        covered = at;
    }
    r->touches++;
    return true;
}

static bool is_touched(void *ctx, const qn_trace_touch *touch)
{
    reach *r = ctx;
    r->found = touch->file == r->fault->file && r->fault->offset >= touch->offset &&
               r->fault->offset < touch->offset + touch->bytes;
    return !r->found;
}

static void check_faults(const qn_trace_info *info)
{
    reach r = {.info = info, .step = &info->steps[0]};
    qn_trace_touches(r.step, is_faulted, &r);
    assert_true(r.touches > 10);
    for (int64_t i = 0; i < info->n_faults; i++) {
        r.fault = &info->faults[i];
        if (!in_step(r.step, r.fault) || r.fault->file < 0) continue;
        r.found = false;
        qn_trace_touches(r.step, is_touched, &r);
        if (!r.found) fail_msg("a fault at %llu, which no node touches", (unsigned long long)r.fault->offset);
        r.faults++;
    }
    assert_true(r.faults >= 5); /* the output matrix alone is four times what a fault may map */
}

/* Of the table no more than the rows of the tokens. */
static void check_table(qn_trace *t)
{
    const qn_trace_extent *x;
    int64_t n;
    MUST(qn_trace_get_extents(t, &x, &n, &err));
    for (int64_t i = 0; i < n; i++) {
        const bool table = strcmp(x[i].weight->name, "token_embd.weight") == 0;
        assert_int_equal(x[i].ever, table ? N_TOKENS * 256 * 2 : x[i].bytes);
        assert_true(x[i].order >= 0 && (!table || x[i].order == 0));
    }
    assert_true(n > 8);
}

static void cold_step(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        qn_trace_info info;
        counted c = {.fd = open(model, O_RDONLY)};
        assert_true(c.fd >= 0 && fsync(c.fd) == 0);
        (void)posix_fadvise(c.fd, 0, 0, POSIX_FADV_DONTNEED);
        qn_trace *t = record(n_threads, look, &c);
        if (!t) fail_msg("%s", err.text);
        close(c.fd);
        qn_trace_get_info(t, &info);
        assert_int_equal(info.n_steps, 1);
        check_table(t);
        const int64_t read = c.read[1] - c.read[0], came = c.resident[1] - c.resident[0];
        const qn_trace_step *s = &info.steps[0];
        if (c.read[0] < 0 || c.resident[0] > (int64_t)AROUND || read == 0) {
            print_message(
                "skipped: this file system keeps the file in memory, or doesn't count what is read from it\n");
            qn_trace_close(t);
            skip();
        }
        if (llabs(read - came) * 20 > read)
            fail_msg("%lld bytes were read and %lld came into memory", (long long)read, (long long)came);
        if (s->ns > 2000000) assert_true(s->read_bytes >= 0 && llabs(s->read_bytes - read) * 20 <= read);
        if (info.sampled && info.samples_lost == 0) check_faults(&info);
        if (!info.sampled) print_message("faults: %s\n", qn_trace_find_note(t, "faults"));
        qn_trace_close(t);
    }
}

/* ---- what the kernel forbids ---- */

static int (*by_kernel)(void *attr);
static _Atomic int n_calls;
static int fail_from, fail_to, with;

static int failing(void *attr)
{
    const int call = n_calls++;
    if (call < fail_from || call > fail_to) return by_kernel(attr);
    errno = with;
    return -1;
}

static int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void forbidden(void **state)
{
    (void)state;
    static const int codes[] = {EACCES, ENOSYS, EPERM};
    by_kernel = qn__samples_event;
    qn__samples_event = failing;
    fail_from = 0;
    fail_to = INT32_MAX;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        qn_trace_info info;
        const qn_trace_extent *x;
        int64_t n;
        with = codes[i];
        qn_trace *t = record(1, NULL, NULL);
        if (!t) fail_msg("%s", err.text);
        qn_trace_get_info(t, &info);
        const char *how = qn_trace_find_note(t, "faults");
        assert_false(info.sampled);
        assert_true(info.n_faults == 0 && info.n_pauses == 0);
        assert_true(strncmp(how, "not sampled", 11) == 0 && strstr(how, strerror(codes[i])) &&
                    strstr(how, "getrusage"));
        MUST(qn_trace_get_extents(t, &x, &n, &err));
        for (int64_t k = 0; k < n; k++) assert_true(x[k].faults == -1 && x[k].fault_ns == -1);
        assert_true(info.n_usage >= 2 && info.usage[0].minor_faults >= 0);
        if (info.steps[0].ns > 2000000) assert_true(info.steps[0].faults >= 0);
        qn_trace_close(t);
    }
    qn__samples_event = by_kernel;
}

/* The first three tell whether it may be at all; a thread has three more. */
static void every_one_fails(void **state)
{
    (void)state;
    by_kernel = qn__samples_event;
    qn__samples_event = failing;
    with = EMFILE;
    const int before = count_fds();
    for (fail_from = 0; fail_from < 10; fail_from++) {
        qn_trace_info info;
        fail_to = fail_from;
        n_calls = 0;
        qn_trace *t = record(2, NULL, NULL);
        if (!t) fail_msg("%s", err.text);
        qn_trace_get_info(t, &info);
        const char *less = qn_trace_find_note(t, "faults_incomplete");
        assert_int_equal(info.n_steps, 1);
        assert_null(qn_trace_damage(t));
        if (fail_from < 3) assert_false(info.sampled);
        if (info.sampled) assert_true((less != NULL) == (n_calls > fail_from));
        if (less) assert_non_null(strstr(less, strerror(EMFILE)));
        qn_trace_close(t);
        assert_int_equal(count_fds(), before);
    }
    qn__samples_event = by_kernel;
}

/* Of a file that is somebody else's, and may not be written, nothing is guessed. */
static void another_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can be somebody else\n");
        skip();
    }
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        qn_trace_info info;
        const qn_trace_extent *x;
        int64_t n;
        if (setuid(65534) != 0 || access(model, R_OK) != 0 || access(folder, W_OK) != 0) _exit(77);
        qn_trace *t = record(1, NULL, NULL);
        if (!t) _exit(1);
        qn_trace_get_info(t, &info);
        if (info.n_files != 1 || info.n_steps != 1 || !qn_trace_find_note(t, "faults")) _exit(2);
        const bool known = strcmp(info.files[0].residency, "cachestat") == 0; /* before Linux 6.14 it tells everybody */
        if (!known && strcmp(info.files[0].residency, "unknown") != 0) _exit(3);
        if (qn_trace_get_extents(t, &x, &n, &err) != QN_OK || n < 8) _exit(4);
        for (int64_t i = 0; i < n; i++)
            if (!known && (x[i].resident != -1 || x[i].unused != -1 || x[i].grown != -1)) _exit(5);
        qn_trace_close(t);
        _exit(0);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: another user may not enter this folder\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_user), cmocka_unit_test(cold_step),
                                       cmocka_unit_test(forbidden), cmocka_unit_test(every_one_fails)};
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
