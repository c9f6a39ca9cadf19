/* SPDX-License-Identifier: MIT */
/* tests/check/main.c -- check [--bench] [--filter STR] [--level L] [--seed N]: runs the check of every row of
 * kernels.def, and of the product of every weight format, at every level that this machine has and that has a kernel of
 * its own there; with --bench it times them instead. The last line says how many (row, level) pairs passed and failed.
 */
#include "check.h"

#include <signal.h>
#include <unistd.h>

typedef struct options {
    bool bench;
    const char *filter;
    qn_cpu_level first, last;
    uint64_t seed;
} options;

static int n_passed, n_failed, n_same;
static check *running; /* for the handler */

/* An access past a guard: say where, since nothing after it can be trusted. */
static void crashed(int signal_number)
{
    char text[320];
    const int n = snprintf(text, sizeof text, "  %s %s, %s: signal %d\n",
                           running ? qn_cpu_level_name(running->kernels->level) : "", running ? running->row : "",
                           running ? running->where : "", signal_number);
    if (write(STDOUT_FILENO, text, (size_t)n) < 0) _exit(3);
    _exit(1);
}

static void run_one(const options *o, qn_cpu_level level, const char *name, void (*fn)(check *),
                    void (*by_dtype)(check *, qn_dtype), qn_dtype dtype)
{
    static check t; /* its buffers serve all rows */
    if (o->filter && !strstr(name, o->filter)) return;
    t.kernels = qn__kernels_get(level);
    t.ref = qn__kernels_get(QN_CPU_ref);
    t.row = name;
    t.bench = o->bench;
    t.random = o->seed;
    t.n_checks = t.n_failures = 0;
    t.where[0] = 0;
    for (int i = 0; i < CHECK_SLOTS; i++) /* nobody looks after another row's buffers */
        if (t.slot[i].map) check_buffer(&t, i, 0, 0, CHECK_AT_START);
    running = &t;
    const double begin = check_now();
    if (fn)
        fn(&t);
    else
        by_dtype(&t, dtype);
    running = NULL;
    if (o->bench) return;
    if (t.n_checks == 0) check_fail(&t, "nothing was checked");
    if (t.n_failures > 5) printf("  ... %lld failures\n", (long long)t.n_failures);
    printf("%-4s %-8s %-16s %10lld checks %7.2f s\n", t.n_failures ? "FAIL" : "ok", qn_cpu_level_name(level), name,
           (long long)t.n_checks, check_now() - begin);
    fflush(stdout);
    if (t.n_failures)
        n_failed++;
    else
        n_passed++;
}

/* below: the level that was just checked, if any; a kernel that is its very kernel gives the same again. */
static void run_level(const options *o, qn_cpu_level level, const qn_kernels *below)
{
    const qn_kernels *here = qn__kernels_get(level);
#define QN_KERNEL(name, bound, ret, params) \
    if (below && below->name == here->name) \
        n_same++; \
    else \
        run_one(o, level, #name, check_##name, NULL, QN_DTYPE_F32);
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype dtype = (qn_dtype)d;
        char name[40];
        if (!qn__quant_get(dtype)->unpack) continue;
        const bool same = below && below->unpack[d] == here->unpack[d];
        const bool same_mm = same && memcmp(&below->mm[d], &here->mm[d], sizeof here->mm[d]) == 0;
        n_same += same + same_mm;
        snprintf(name, sizeof name, "mm_%s", qn_dtype_get(dtype)->name);
        if (!same_mm) run_one(o, level, name, NULL, check_mm, dtype);
        snprintf(name, sizeof name, "unpack_%s", qn_dtype_get(dtype)->name);
        if (!same) run_one(o, level, name, NULL, check_unpack, dtype);
    }
}

static int usage(const char *program)
{
    fprintf(stderr, "usage: %s [--bench] [--filter STR] [--level L] [--seed N]\nlevels:", program);
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) fprintf(stderr, " %s", qn_cpu_level_name((qn_cpu_level)l));
    fputc('\n', stderr);
    return 2;
}

int main(int argc, char **argv)
{
    qn_machine machine;
    qn_machine_get(&machine);
    options o = {.first = QN_CPU_ref, .last = machine.level, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--bench") == 0) {
            o.bench = true;
            continue;
        }
        if (!value) return usage(argv[0]);
        i++;
        if (strcmp(argv[i - 1], "--filter") == 0) {
            o.filter = value;
        } else if (strcmp(argv[i - 1], "--seed") == 0) {
            o.seed = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i - 1], "--level") == 0) {
            if (!qn_cpu_level_find(value, &o.first)) return usage(argv[0]);
            if (!(machine.levels >> o.first & 1)) {
                fprintf(stderr, "check: this machine has no %s, its best level is %s\n", value,
                        qn_cpu_level_name(machine.level));
                return 2;
            }
            o.last = o.first;
        } else {
            return usage(argv[0]);
        }
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGILL, crashed);
#else
    (void)crashed;
#endif
    const qn_kernels *below = NULL;
    for (int l = (int)o.first; l <= (int)o.last; l++) {
        if (!(machine.levels >> l & 1)) continue;
        run_level(&o, (qn_cpu_level)l, below);
        if (!o.bench) below = qn__kernels_get((qn_cpu_level)l);
    }
    if (o.bench) return 0;
    if (n_passed + n_failed == 0) fprintf(stderr, "check: no row has \"%s\" in its name\n", o.filter ? o.filter : "");
    printf("%d passed, %d failed, %d are the level's below\n", n_passed, n_failed, n_same);
    return n_failed > 0 || n_passed == 0;
}
