/* SPDX-License-Identifier: MIT */
/* src/cpu/roofline/measure.c -- the peaks that a program on this machine is compared with: reading memory (one
 * stream a thread or several, whichever is faster), products of bytes, products of floats; with all threads at once.
 * Each thread works for its share of the time and counts what it did; a rate is the sum over threads. */
#include "cpu/dispatch.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"

#include <string.h>

enum {
    BUFFER_MAX = 512 << 20, /* larger than any last-level cache; less only where memory is short */
    BUFFER_MIN = 16 << 20,
    BLOCK = 256 << 10,     /* bytes between looks at the clock */
    STEPS = 4 << 20,       /* multiply-adds between looks at the clock */
    STREAMS = 8,           /* where Sapphire Rapids stops getting faster (bench/streams.c) */
    CHUNK = 512,           /* bytes of a stream before the next stream */
    PREFETCH_BYTES = 1024, /* prefetch distance in a stream */
};

typedef struct peak_job {
    const qn_kernels *kernels;
    uint8_t *buffer;
    int64_t bytes;
    int64_t ns;                     /* for each */
    double rate[4][QN_MAX_THREADS]; /* units a second, by member */
    uint64_t seen[QN_MAX_THREADS];  /* results are kept, so that no work is optimised away */
} peak_job;

/* The part of the buffer that a thread reads, in whole cache lines. */
static void part_of(const peak_job *job, int member, int n_members, int64_t *begin, int64_t *end)
{
    const int64_t lines = job->bytes / 64;
    *begin = lines * member / n_members * 64;
    *end = lines * (member + 1) / n_members * 64;
}

static uint64_t read_streams(const qn_kernels *kernels, const uint8_t *p)
{
    enum { EACH = BLOCK / STREAMS };
    uint64_t sum = 0;
    for (int at = 0; at < EACH; at += CHUNK)
        for (int s = 0; s < STREAMS; s++) {
            const uint8_t *chunk = p + s * EACH + at;
            for (int i = 0; i < CHUNK; i += 64) __builtin_prefetch(chunk + PREFETCH_BYTES + i);
            sum ^= kernels->probe_read(chunk, CHUNK / 8);
        }
    return sum;
}

static double read_rate(peak_job *job, int member, int n_members, bool streams)
{
    int64_t begin, end, done = 0;
    part_of(job, member, n_members, &begin, &end);
    const int64_t start = qn__now_ns();
    int64_t now = start, at;
    for (at = begin; now - start < job->ns / 2; now = qn__now_ns()) {
        const int64_t n = end - at < BLOCK ? end - at : BLOCK;
        const uint8_t *p = job->buffer + at;
        job->seen[member] ^= streams && n == BLOCK ? read_streams(job->kernels, p) : job->kernels->probe_read(p, n / 8);
        done += n;
        at = at + n < end ? at + n : begin;
    }
    return (double)done / (double)(now - start) * 1e9;
}

static double work_rate(peak_job *job, int member, int64_t (*probe)(int64_t))
{
    int64_t done = 0, now;
    const int64_t start = qn__now_ns();
    do {
        done += probe(STEPS);
        now = qn__now_ns();
    } while (now - start < job->ns);
    job->seen[member] ^= (uint64_t)done;
    return 2.0 * (double)done / (double)(now - start) * 1e9;
}

/* Also the first touch: a thread's part gets pages near its processor. */
static void fill(void *ctx, int member, int n_members)
{
    peak_job *job = ctx;
    int64_t begin, end;
    part_of(job, member, n_members, &begin, &end);
    memset(job->buffer + begin, member + 1, (size_t)(end - begin));
}

static void read_all(void *ctx, int member, int n_members)
{
    peak_job *job = ctx;
    const double one = read_rate(job, member, n_members, false), many = read_rate(job, member, n_members, true);
    job->rate[0][member] = one > many ? one : many;
}

static void int8_all(void *ctx, int member, int n_members)
{
    (void)n_members;
    peak_job *job = ctx;
    job->rate[1][member] = work_rate(job, member, job->kernels->probe_int8);
}

static void f32_all(void *ctx, int member, int n_members)
{
    (void)n_members;
    peak_job *job = ctx;
    job->rate[2][member] = work_rate(job, member, job->kernels->probe_f32);
}

static void bf16_all(void *ctx, int member, int n_members)
{
    (void)n_members;
    peak_job *job = ctx;
    job->rate[3][member] = work_rate(job, member, job->kernels->probe_bf16);
}

static double total_of(const peak_job *job, int which, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += job->rate[which][i];
    return sum / 1e9;
}

static int64_t buffer_bytes(void)
{
    qn_machine m;
    qn_machine_get(&m);
    uint64_t room = m.memory_free_bytes / 4;
    if (m.memory_limit_bytes > 0 && m.memory_limit_bytes / 4 < room) room = m.memory_limit_bytes / 4;
    if (room == 0 || room > BUFFER_MAX) return BUFFER_MAX;
    return room < BUFFER_MIN ? BUFFER_MIN : (int64_t)(room / BLOCK * BLOCK);
}

static bool has_bf16(const qn_kernels *kernels) { return kernels->mm[QN_DTYPE_BF16].act == QN_ACT_bf16; }

static qn_status check(qn_cpu_level level, int threads, double seconds, qn_error *err)
{
    if ((unsigned)level >= QN_CPU_LEVEL_COUNT) return QN_FAIL(err, invalid, "measure: no CPU level %d", (int)level);
    if (threads < 0 || threads > QN_MAX_THREADS)
        return QN_FAIL(err, invalid, "measure: %d threads, 0 to %d expected", threads, QN_MAX_THREADS);
    if (!(seconds >= 0 && seconds <= 3600))
        return QN_FAIL(err, invalid, "measure: %g seconds, 0 to 3600 expected", seconds);
    return QN_OK;
}

static qn_status measure_all(peak_job *job, int threads, qn_machine_peaks *out, qn_error *err)
{
    qn_team *team = NULL;
    job->bytes = buffer_bytes();
    job->buffer = qn__alloc((size_t)job->bytes);
    if (!job->buffer) return QN_FAIL_NOMEM(err, (size_t)job->bytes);
    const qn_status status = qn__team_create(&(qn_team_options){.n_threads = threads}, &team, err);
    if (status == QN_OK) {
        const int n = qn__team_size(team);
        qn__team_run(team, fill, job);
        qn__team_run(team, read_all, job);
        qn__team_run(team, int8_all, job);
        qn__team_run(team, f32_all, job);
        *out =
            (qn_machine_peaks){n, total_of(job, 0, n), total_of(job, 1, n), total_of(job, 2, n), total_of(job, 2, n)};
        if (has_bf16(job->kernels)) { /* a weight takes two products (act.h) */
            qn__team_run(team, bf16_all, job);
            out->bf16_gflops = total_of(job, 3, n) / 2;
        }
        qn__team_destroy(team);
    }
    qn__free(job->buffer);
    return status;
}

qn_status qn_machine_measure(qn_cpu_level level, int threads, double seconds, qn_machine_peaks *out, qn_error *err)
{
    QN_TRY(check(level, threads, seconds, err));
    peak_job *job = qn__calloc(1, sizeof *job);
    if (!job) return QN_FAIL_NOMEM(err, sizeof *job);
    job->kernels = qn__kernels_get(level);
    job->ns = (int64_t)((seconds > 0 ? seconds : 1.0) * 1e9 / (has_bf16(job->kernels) ? 4 : 3));
    const qn_status status = measure_all(job, threads, out, err);
    qn__free(job);
    return status;
}

qn_status qn_machine_measure_f32(qn_cpu_level level, int threads, double seconds, double *gflops, qn_error *err)
{
    qn_team *team = NULL;
    QN_TRY(check(level, threads, seconds, err));
    peak_job *job = qn__calloc(1, sizeof *job);
    if (!job) return QN_FAIL_NOMEM(err, sizeof *job);
    job->kernels = qn__kernels_get(level);
    job->ns = (int64_t)((seconds > 0 ? seconds : 1.0) * 1e9);
    const qn_status status = qn__team_create(&(qn_team_options){.n_threads = threads}, &team, err);
    if (status == QN_OK) {
        qn__team_run(team, f32_all, job);
        *gflops = total_of(job, 2, qn__team_size(team));
        qn__team_destroy(team);
    }
    qn__free(job);
    return status;
}
