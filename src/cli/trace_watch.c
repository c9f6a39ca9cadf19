/* SPDX-License-Identifier: MIT */
/* src/cli/trace_watch.c -- quern trace watch: a page of a terminal that follows a trace while it grows, and ends with
 * it, or when nothing has been written for a minute. Where there is no terminal, one look is printed. */
#include "cli/trace.h"
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_MS = 500, STILL_S = 2 /* two thirds of a second pass between blocks */, END_S = 60 };

static void print_look(const trace_sums *s, int32_t top)
{
    double total = 0;
    static const char *const names[] = {
#define ROW(name, text) #name,
        TRACE_ACCOUNT_ROWS(ROW)
#undef ROW
    };
    printf("%.1f s, %lld steps, %llu events, %llu lost\n", (double)s->info.ns * 1e-9, (long long)s->info.n_steps,
           (unsigned long long)s->info.events, (unsigned long long)s->info.dropped);
    trace_print_lacks(stdout, s);
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) {
        if (!s->n_steps[i] || s->step_ns[i] <= 0) continue;
        printf("%-8s %10.2f tokens/s", qn_trace_phase_name(i), (double)s->n_tokens[i] / s->step_ns[i] * 1e9);
        if (!s->lacks_nodes) printf(" %8.2f GB/s", s->bytes[i] / s->step_ns[i]);
        printf("\n");
    }
    for (int i = 0; i < TRACE_ACCOUNTS; i++) total += s->account[i];
    for (int i = 0; i < TRACE_ACCOUNTS && total > 0; i++)
        if (trace_account_known(s, i)) printf("%-10s %6.2f %%\n", names[i], 100 * s->account[i] / total);
    if (s->info.n_usage > 0) {
        const qn_trace_usage *first = &s->info.usage[0], *last = &s->info.usage[s->info.n_usage - 1];
        printf("faults: %lld major, %lld minor; ", (long long)(last->major_faults - first->major_faults),
               (long long)(last->minor_faults - first->minor_faults));
        if (last->read_bytes >= 0)
            printf("%.1f MB read from disk\n", (double)(last->read_bytes - first->read_bytes) * 1e-6);
        else
            printf("bytes read from disk: not measured\n");
    }
    for (size_t i = 0; i < s->nodes.n && i < (size_t)top; i++)
        printf("%-36.64s %10.3f ms %9.2f us p50\n", s->nodes.rows[i].key, s->nodes.rows[i].ns * 1e-6,
               (double)s->nodes.rows[i].p50 * 1e-3);
}

/* What has been seen of the file. */
typedef struct watching {
    uint64_t bytes; /* of the last look */
    int64_t grew_ms;
    int still_s;      /* seconds since it grew */
    bool ended;       /* it is whole: nothing more comes */
    char damage[320]; /* "": none */
} watching;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void note_growth(const char *path, watching *w)
{
    struct stat st;
    const uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (bytes != w->bytes) w->grew_ms = now_ms();
    w->bytes = bytes;
    w->still_s = (int)((now_ms() - w->grew_ms) / 1000);
}

static int look(const char *path, int32_t top, bool terminal, watching *w)
{
    qn_error err;
    qn_trace *t = NULL;
    trace_sums s;
    note_growth(path, w);
    if (qn_trace_open(path, &t, &err) != QN_OK) return cli_fail_error(&err);
    const char *damage = qn_trace_damage(t);
    snprintf(w->damage, sizeof w->damage, "%s", damage ? damage : "");
    w->ended = !damage;
    int status = trace_sum(t, false, &s);
    if (status == CLI_OK) {
        if (terminal) printf("\033[H\033[2J%s\n", path);
        print_look(&s, top);
        /* a file that grows has no end yet */
        if (terminal && damage && w->still_s >= STILL_S) printf("nothing new for %d s; %s\n", w->still_s, damage);
        status = fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
        trace_sums_deinit(&s);
    }
    qn_trace_close(t);
    return status;
}

int trace_watch(const trace_options *o, const char *const *files)
{
    const bool terminal = isatty(STDOUT_FILENO);
    watching w = {.grew_ms = now_ms()};
    int status = CLI_OK;
    for (;;) {
        status = look(files[0], o->top, terminal, &w);
        if (status != CLI_OK || w.ended || !terminal || w.still_s >= END_S || cli_interrupted()) break;
        nanosleep(&(struct timespec){.tv_nsec = EVERY_MS * 1000000L}, NULL);
    }
    if (status != CLI_OK || w.ended) return status;
    if (cli_interrupted()) return CLI_INTERRUPTED;
    if (terminal) return cli_fail("%s: nothing new for %d s; %s", files[0], w.still_s, w.damage);
    return cli_fail("%s is damaged %s", files[0], w.damage);
}
