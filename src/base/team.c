/* SPDX-License-Identifier: MIT */
/* src/base/team.c -- a team of threads. Three gates carry everything: `go` opens when there is work, `done` when the
 * last member has finished, `bar` when the last member has come to the barrier. A gate is a word that only ever counts
 * up and a count of sleepers; who waits reads the word first, then does what makes the opening possible, then waits for
 * a change, so an opening is never missed and no gate needs a second phase. The word of `go` also says how many members
 * the run has: whoever is not of it reads nothing else, as nobody waits for it. */
#include "base/error.h"
#include "base/fpenv.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/park.h"
#include "base/thread.h"
#include "base/thread_start.h"
#include <sched.h>
#include <string.h>

#define SPIN_US       50   /* longer than the gap between two operators of a small model, far shorter than a token */
#define PAUSES_A_LOOK 32   /* pauses between two readings of the clock: a microsecond or so */
#define PAUSE_NS      1000 /* of the spin without yielding; see gate_wait */
#define YIELDS        4    /* before parking: enough when the other members only wait for a core */
#define LINE          64
#define N_BITS        10 /* of the word of `go`: members of the run, or STOP; the rest counts runs */
#define STOP          ((1 << N_BITS) - 1)

typedef struct gate {
    _Alignas(LINE) _Atomic int word;
    _Atomic int n_parked;
} gate;

typedef struct member {
    qn_team *team;
    int index;
    int seen; /* word of `go` when it was made: a member that starts late must not miss the first run */
    pthread_t thread;
} member;

struct qn_team {
    int n, most;      /* members there are, and may be */
    int cpus;         /* that may be busy with us */
    int64_t asked_ns; /* to spin, where all members have a core */
    _Atomic int64_t spin_ns;
    qn_team_fn fn; /* written before `go` opens, read after by the members of the run, as the next two */
    void *ctx;
    int n_active; /* members of the run */
    gate go, done, bar;
    _Alignas(LINE) _Atomic int n_running; /* members other than the caller that have not finished this run */
    _Alignas(LINE) _Atomic int n_arrived; /* at the barrier */
    _Alignas(LINE) _Atomic int64_t next;  /* first element that nobody has taken */
    _Alignas(LINE) member members[];
};

#ifdef QN_CHECKED
_Atomic uint64_t qn__team_hostile;
#endif

/* ---- gates ---- */

static void gate_open(gate *g)
{
    /* Sequentially consistent with the waiter's count: either we see the sleeper or it sees the new word. */
    atomic_fetch_add_explicit(&g->word, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&g->n_parked, memory_order_seq_cst) > 0) qn__unpark_all(&g->word);
}

static void start_run(qn_team *team, int n)
{
    gate *g = &team->go;
    const unsigned run = (unsigned)atomic_load_explicit(&g->word, memory_order_relaxed) >> N_BITS;
    atomic_store_explicit(&g->word, (int)((run + 1) << N_BITS | (unsigned)n), memory_order_seq_cst);
    if (atomic_load_explicit(&g->n_parked, memory_order_seq_cst) > 0) qn__unpark_all(&g->word);
}

static bool opened(gate *g, int old) { return atomic_load_explicit(&g->word, memory_order_acquire) != old; }

/* First pauses only, then yields between looks, then sleep: whoever is waited for may need the core that a spinner
 * holds, because other programs want cores too. Two members on two cores, a barrier: 0.2 us on an idle machine either
 * way; next to a load of 4, 100 us without yields, 12 us with yields after 5 us, 2.5 us with yields after 1 us. */
static void gate_wait(gate *g, int old, int64_t spin_ns)
{
    int64_t now = spin_ns > 0 ? qn__now_ns() : 0;
    const int64_t start = now;
    for (int yields = 0; spin_ns >= 0 && (now - start < spin_ns || yields < YIELDS);) {
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            if (opened(g, old)) return;
            if (spin_ns > 0) qn__pause();
        }
        if (spin_ns == 0 || now - start > PAUSE_NS) {
            sched_yield();
            yields++;
        }
        if (spin_ns > 0) now = qn__now_ns();
    }
    atomic_fetch_add_explicit(&g->n_parked, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&g->word, memory_order_seq_cst) == old) qn__park(&g->word, old);
    atomic_fetch_sub_explicit(&g->n_parked, 1, memory_order_relaxed);
}

/* ---- life ---- */

static void *member_main(void *arg)
{
    member *me = arg;
    qn_team *team = me->team;
    int seen = me->seen;
    bool ran = false;
    (void)qn__fp_begin(); /* it began with the state of whoever made it */
    for (;;) {
        /* who is not of this run may not be of the next: it sleeps at once */
        gate_wait(&team->go, seen, ran ? atomic_load_explicit(&team->spin_ns, memory_order_relaxed) : -1);
        seen = atomic_load_explicit(&team->go.word, memory_order_acquire);
        const int n = seen & STOP;
        if (n == STOP) return NULL;
        ran = me->index < n;
        if (!ran) continue;
        team->fn(team->ctx, me->index, n);
        if (atomic_fetch_sub_explicit(&team->n_running, 1, memory_order_acq_rel) == 1) gate_open(&team->done);
    }
}

/* With fewer cores than members, whoever is waited for may need the core that a spinner holds. */
static void set_spin(qn_team *team, int n)
{
    atomic_store_explicit(&team->spin_ns, team->asked_ns > 0 && n > team->cpus ? 0 : team->asked_ns,
                          memory_order_relaxed);
}

qn_status qn__team_grow(qn_team *team, int n, qn_error *err)
{
    QN_ASSERT(n <= team->most);
    for (; team->n < n; team->n++) {
        member *m = &team->members[team->n];
        *m = (member){.team = team,
                      .index = team->n,
                      .seen = atomic_load_explicit(&team->go.word, memory_order_relaxed)};
        QN_TRY(qn__thread_start(&m->thread, member_main, m, team->n + 1, n, err));
    }
    return QN_OK;
}

qn_status qn__team_create(const qn_team_options *options, qn_team **out, qn_error *err)
{
    const qn_team_options o = options != NULL ? *options : (qn_team_options){0};
    const int n = o.n_threads != 0 ? o.n_threads : qn__default_threads(), most = o.may_grow ? QN_MAX_THREADS : n;
    if (n < 1 || n > QN_MAX_THREADS) {
        return QN_FAIL(err, invalid, "%d threads were asked for, 1 to %d are possible", n, QN_MAX_THREADS);
    }
    const size_t size = sizeof(qn_team) + (size_t)most * sizeof(member);
    qn_team *team = qn__calloc(1, size);
    if (team == NULL) return QN_FAIL_NOMEM(err, size);
    team->n = 1; /* the caller */
    team->most = most;
    team->cpus = qn__cpus_at_once("");
    team->asked_ns = o.spin_us < 0 ? -1 : (int64_t)(o.spin_us != 0 ? o.spin_us : SPIN_US) * 1000;
    set_spin(team, n);
    const qn_status status = qn__team_grow(team, n, err);
    if (status != QN_OK) {
        qn__team_destroy(team);
        return status;
    }
    *out = team;
    return QN_OK;
}

void qn__team_destroy(qn_team *team)
{
    if (team == NULL) return;
    start_run(team, STOP);
    for (int i = 1; i < team->n; i++) pthread_join(team->members[i].thread, NULL);
    qn__free(team);
}

int qn__team_size(const qn_team *team) { return team->n; }

/* ---- work ---- */

void qn__team_run(qn_team *team, qn_team_fn fn, void *ctx) { qn__team_run_some(team, team->n, fn, ctx); }

static void run_some(qn_team *team, int n, qn_team_fn fn, void *ctx)
{
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    team->n_active = n;
    if (n == 1) {
        fn(ctx, 0, 1);
        return;
    }
    set_spin(team, n);
    team->fn = fn;
    team->ctx = ctx;
    QN_ASSERT(atomic_load_explicit(&team->n_running, memory_order_relaxed) == 0);
    atomic_store_explicit(&team->n_running, n - 1, memory_order_relaxed);
    const int done = atomic_load_explicit(&team->done.word, memory_order_relaxed);
    start_run(team, n);
    fn(ctx, 0, n);
    gate_wait(&team->done, done, atomic_load_explicit(&team->spin_ns, memory_order_relaxed));
}

void qn__team_run_some(qn_team *team, int n, qn_team_fn fn, void *ctx)
{
    QN_ASSERT(n >= 1 && n <= team->n);
    const uint64_t fp = qn__fp_begin();
    run_some(team, n, fn, ctx);
    qn__fp_end(fp);
}

void qn__team_barrier(qn_team *team)
{
    const int phase = atomic_load_explicit(&team->bar.word, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->n_arrived, 1, memory_order_acq_rel) == team->n_active - 1) {
        atomic_store_explicit(&team->n_arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->next, 0, memory_order_relaxed);
        gate_open(&team->bar);
    } else {
        gate_wait(&team->bar, phase, atomic_load_explicit(&team->spin_ns, memory_order_relaxed));
    }
}

#ifdef QN_CHECKED
/* Cuts of 1 to 2*chunk elements, and now and then a member that loses its turn, all from the seed and the place. */
static bool next_hostile(qn_team *team, uint64_t seed, int64_t total, int64_t chunk, int64_t *begin, int64_t *end)
{
    int64_t at = atomic_load_explicit(&team->next, memory_order_relaxed);
    int64_t size;
    do {
        if (at >= total) return false;
        uint64_t h = (seed ^ (uint64_t)at) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        if ((h & 7) == 0) sched_yield();
        size = 1 + (int64_t)((h >> 3) % (2 * (uint64_t)chunk));
        if (size > total - at) size = total - at;
    } while (!atomic_compare_exchange_weak_explicit(&team->next, &at, at + size, memory_order_relaxed,
                                                    memory_order_relaxed));
    *begin = at;
    *end = at + size;
    return true;
}
#endif

bool qn__team_next(qn_team *team, int64_t total, int64_t chunk, int64_t *begin, int64_t *end)
{
    QN_ASSERT(total <= INT64_C(1) << 53); /* QN_MAX_THREADS overshoots of `next` by a whole total still fit */
    if (chunk < 1) chunk = 1;
    if (chunk > total) chunk = total;
    /* Looking first keeps the counter from running away when drained members ask again. */
    if (atomic_load_explicit(&team->next, memory_order_relaxed) >= total) return false;
#ifdef QN_CHECKED
    const uint64_t seed = atomic_load_explicit(&qn__team_hostile, memory_order_relaxed);
    if (seed != 0) return next_hostile(team, seed, total, chunk, begin, end);
#endif
    const int64_t at = atomic_fetch_add_explicit(&team->next, chunk, memory_order_relaxed);
    if (at >= total) return false;
    *begin = at;
    *end = total - at < chunk ? total : at + chunk;
    return true;
}
