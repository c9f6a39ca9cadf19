/* SPDX-License-Identifier: MIT */
/* src/base/team.c -- a team of threads. Three gates carry everything: `go` opens when there is work, `done` when the
 * last member has finished, `bar` when the last member has come to the barrier. A gate is a word that only ever counts
 * up and a count of sleepers; who waits reads the word first, then does what makes the opening possible, then waits for
 * a change, so an opening is never missed and no gate needs a second phase. */
#include "base/error.h"
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

typedef struct gate {
    _Alignas(LINE) _Atomic int word;
    _Atomic int n_parked;
} gate;

typedef struct member {
    qn_team *team;
    int index;
    pthread_t thread;
} member;

struct qn_team {
    int n;
    int64_t spin_ns;
    qn_team_fn fn; /* written before `go` opens, read after */
    void *ctx;
    bool stop;
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
    int seen = 0; /* the word's value when the team was made: a member that starts late must not miss the first run */
    for (;;) {
        gate_wait(&team->go, seen, team->spin_ns);
        seen = (int)((unsigned)seen + 1u); /* the caller waits for every member, so the word is at most one ahead */
        if (team->stop) return NULL;
        team->fn(team->ctx, me->index, team->n);
        if (atomic_fetch_sub_explicit(&team->n_running, 1, memory_order_acq_rel) == 1) gate_open(&team->done);
    }
}

static void stop_members(qn_team *team, int n_started)
{
    team->stop = true;
    gate_open(&team->go);
    for (int i = 1; i < n_started; i++) pthread_join(team->members[i].thread, NULL);
}

qn_status qn__team_create(const qn_team_options *options, qn_team **out, qn_error *err)
{
    const qn_team_options o = options != NULL ? *options : (qn_team_options){0};
    const int n = o.n_threads != 0 ? o.n_threads : qn__default_threads();
    if (n < 1 || n > QN_MAX_THREADS) {
        return QN_FAIL(err, invalid, "%d threads were asked for, 1 to %d are possible", n, QN_MAX_THREADS);
    }
    const size_t size = sizeof(qn_team) + (size_t)n * sizeof(member);
    qn_team *team = qn__calloc(1, size);
    if (team == NULL) return QN_FAIL_NOMEM(err, size);
    team->n = n;
    team->spin_ns = o.spin_us < 0 ? -1 : (int64_t)(o.spin_us != 0 ? o.spin_us : SPIN_US) * 1000;
    /* With fewer cores than members, whoever is waited for may need the core that a spinner holds. */
    if (team->spin_ns > 0 && n > qn__cpus_at_once("")) team->spin_ns = 0;

    for (int i = 1; i < n; i++) {
        team->members[i].team = team;
        team->members[i].index = i;
        const qn_status status =
            qn__thread_start(&team->members[i].thread, member_main, &team->members[i], i + 1, n, err);
        if (status != QN_OK) {
            stop_members(team, i);
            qn__free(team);
            return status;
        }
    }
    *out = team;
    return QN_OK;
}

void qn__team_destroy(qn_team *team)
{
    if (team == NULL) return;
    stop_members(team, team->n);
    qn__free(team);
}

int qn__team_size(const qn_team *team) { return team->n; }

/* ---- work ---- */

void qn__team_run(qn_team *team, qn_team_fn fn, void *ctx)
{
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    if (team->n == 1) {
        fn(ctx, 0, 1);
        return;
    }
    team->fn = fn;
    team->ctx = ctx;
    QN_ASSERT(atomic_load_explicit(&team->n_running, memory_order_relaxed) == 0);
    atomic_store_explicit(&team->n_running, team->n - 1, memory_order_relaxed);
    const int done = atomic_load_explicit(&team->done.word, memory_order_relaxed);
    gate_open(&team->go);
    fn(ctx, 0, team->n);
    gate_wait(&team->done, done, team->spin_ns);
}

void qn__team_barrier(qn_team *team)
{
    const int phase = atomic_load_explicit(&team->bar.word, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->n_arrived, 1, memory_order_acq_rel) == team->n - 1) {
        atomic_store_explicit(&team->n_arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->next, 0, memory_order_relaxed);
        gate_open(&team->bar);
    } else {
        gate_wait(&team->bar, phase, team->spin_ns);
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
