/* SPDX-License-Identifier: MIT */
/* tests/check/main.c -- check [--bench] [--filter STR] [--level L] [--seed N] [--oracles-to FILE]
 * [--oracles-from FILE]: runs the check of every row of kernels.def, and of the product of every weight format, at
 * every level that this machine has and that has a kernel of its own there; with --bench it times them instead. The
 * last line says how many (row, level) pairs passed and failed. With --oracles-to it runs rows of kernels.def at the
 * first level and writes what their oracles say; with --oracles-from that is read, where an emulator would take long to
 * compute it. */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

typedef struct options {
    bool bench;
    const char *filter;
    const qn_kernels *levels[QN_CPU_LEVEL_COUNT + 1]; /* lowest first; NULL after the last */
    uint64_t seed;
    FILE *oracles_to, *oracles_from; /* NULL: none */
} options;

static int n_passed, n_failed, n_same;
static check at_hand;  /* its buffers serve all rows */
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

static void broken(const char *what)
{
    fprintf(stderr, "check: oracles: %s\n", what);
    exit(2);
}

/* A row's answers to another process, or from one: how many, and each. */
static void tell_oracle(const check_oracle *oracle, FILE *to)
{
    const uint64_t n = oracle->n;
    if (fwrite(&n, sizeof n, 1, to) != 1 || (n > 0 && fwrite(oracle->answers, sizeof *oracle->answers, n, to) != n))
        broken("they cannot be written");
}

static void hear_oracle(check_oracle *oracle, FILE *from)
{
    uint64_t n;
    if (fread(&n, sizeof n, 1, from) != 1) broken("there are no more");
    if (n > oracle->room) {
        oracle->answers = realloc(oracle->answers, n * sizeof *oracle->answers);
        if (!oracle->answers) broken("no memory");
        oracle->room = n;
    }
    if (n > 0 && fread(oracle->answers, sizeof *oracle->answers, n, from) != n) broken("they end too early");
    oracle->n = n;
}

static void run_one(const options *o, const qn_kernels *kernels, const char *name, void (*fn)(check *),
                    void (*by_dtype)(check *, qn_dtype), qn_dtype dtype)
{
    check *t = &at_hand;
    if (o->filter && !strstr(name, o->filter)) return;
    t->kernels = kernels;
    t->ref = qn__kernels_get(QN_CPU_ref);
    t->row = name;
    t->bench = o->bench;
    t->random = o->seed;
    t->n_checks = t->n_failures = 0;
    t->where[0] = 0;
    t->oracle.next = 0;
    for (int i = 0; i < CHECK_SLOTS; i++) /* nobody looks after another row's buffers */
        if (t->slot[i].map) check_buffer(t, i, 0, 0, CHECK_AT_START);
    if (fn && o->oracles_from) hear_oracle(&t->oracle, o->oracles_from);
    running = t;
    const double begin = check_now();
    if (fn)
        fn(t);
    else
        by_dtype(t, dtype);
    running = NULL;
    if (fn && o->oracles_to) tell_oracle(&t->oracle, o->oracles_to);
    if (o->bench) return;
    if (t->n_checks == 0) check_fail(t, "nothing was checked");
    if (t->oracle.next != t->oracle.n) check_fail(t, "other inputs than at the level below");
    if (t->n_failures > 5) printf("  ... %lld failures\n", (long long)t->n_failures);
    printf("%-4s %-8s %-16s %10lld checks %7.2f s\n", t->n_failures ? "FAIL" : "ok", qn_cpu_level_name(kernels->level),
           name, (long long)t->n_checks, check_now() - begin);
    fflush(stdout);
    if (t->n_failures)
        n_failed++;
    else
        n_passed++;
}

/* A row at every level in turn. A kernel that is the very one of the level below gives the same again. */
#define EACH_LEVEL(o, here, below) \
    at_hand.oracle.n = 0; \
    for (const qn_kernels *const *l_ = (o)->levels, *here, *below = NULL; (here = *l_) != NULL; \
         l_++, below = (o)->bench ? NULL : here)

static void run_rows(const options *o)
{
#define QN_KERNEL(name, bound, ret, params) \
    EACH_LEVEL(o, here, below) \
    { \
        if (below && below->name == here->name) \
            n_same++; \
        else \
            run_one(o, here, #name, check_##name, NULL, QN_DTYPE_F32); \
    }
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
    for (int d = 0; d < QN_DTYPE_COUNT && !o->oracles_to; d++) { /* these ask none */
        const qn_dtype dtype = (qn_dtype)d;
        char name[40];
        if (!qn__quant_get(dtype)->unpack) continue;
        snprintf(name, sizeof name, "mm_%s", qn_dtype_get(dtype)->name);
        EACH_LEVEL(o, here, below)
        {
            if (below && below->unpack[d] == here->unpack[d] &&
                memcmp(&below->mm[d], &here->mm[d], sizeof here->mm[d]) == 0)
                n_same++;
            else
                run_one(o, here, name, NULL, check_mm, dtype);
        }
        snprintf(name, sizeof name, "unpack_%s", qn_dtype_get(dtype)->name);
        EACH_LEVEL(o, here, below)
        {
            if (below && below->unpack[d] == here->unpack[d])
                n_same++;
            else
                run_one(o, here, name, NULL, check_unpack, dtype);
        }
    }
}

static int usage(const char *program)
{
    fprintf(
        stderr,
        "usage: %s [--bench] [--filter STR] [--level L] [--seed N] [--oracles-to FILE] [--oracles-from FILE]\nlevels:",
        program);
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) fprintf(stderr, " %s", qn_cpu_level_name((qn_cpu_level)l));
    fputc('\n', stderr);
    return 2;
}

int main(int argc, char **argv)
{
    qn_machine machine;
    qn_machine_get(&machine);
    qn_cpu_level first = QN_CPU_ref, last = machine.level;
    options o = {.seed = 1};
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
            if (!qn_cpu_level_find(value, &first)) return usage(argv[0]);
            if (!(machine.levels >> first & 1)) {
                fprintf(stderr, "check: this machine has no %s, its best level is %s\n", value,
                        qn_cpu_level_name(machine.level));
                return 2;
            }
            last = first;
        } else if (strcmp(argv[i - 1], "--oracles-to") == 0) {
            o.oracles_to = fopen(value, "wb");
            if (!o.oracles_to) broken(strerror(errno));
            last = first;
        } else if (strcmp(argv[i - 1], "--oracles-from") == 0) {
            o.oracles_from = fopen(value, "rb");
            if (!o.oracles_from) broken(strerror(errno));
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
    for (int l = (int)first, n = 0; l <= (int)last; l++)
        if (machine.levels >> l & 1) o.levels[n++] = qn__kernels_get((qn_cpu_level)l);
    if (o.oracles_from && (first != last || o.bench)) broken("they are for one level");
    run_rows(&o);
    if (o.oracles_to && fclose(o.oracles_to) != 0) broken("they cannot be written");
    if (o.oracles_from) (void)fclose(o.oracles_from);
    if (o.bench) return 0;
    if (n_passed + n_failed == 0) fprintf(stderr, "check: no row has \"%s\" in its name\n", o.filter ? o.filter : "");
    printf("%d passed, %d failed, %d are the level's below\n", n_passed, n_failed, n_same);
    return n_failed > 0 || n_passed == 0;
}
