/* SPDX-License-Identifier: MIT */
/* src/base/thread.h -- a team of threads that run one function together, and the clock.
 *
 * A team of n has n-1 threads of its own; the thread that calls qn__team_run is member 0. Members spin briefly for work
 * (spin_us), then park on a futex or condition variable, so an idle team costs nothing. No call after create allocates.
 */
#ifndef QN_BASE_THREAD_H
#define QN_BASE_THREAD_H

#include <quern/base.h>
#include <stdatomic.h>

#define QN_MAX_THREADS 256

typedef struct qn_team qn_team;
typedef void (*qn_team_fn)(void *ctx, int member, int n_members);

typedef struct qn_team_options {
    int n_threads; /* 0: qn__default_threads() */
    int spin_us;   /* before parking; 0 means 50, negative parks at once */
    bool may_grow; /* up to QN_MAX_THREADS */
} qn_team_options;

qn_status qn__team_create(const qn_team_options *options, qn_team **out, qn_error *err);
void qn__team_destroy(qn_team *team);
int qn__team_size(const qn_team *team);
/* fn runs once on each member; returns when all have returned. Not reentrant; one caller at a time. */
void qn__team_run(qn_team *team, qn_team_fn fn, void *ctx);
/* The same for members 0 .. n-1; the others sleep. */
void qn__team_run_some(qn_team *team, int n, qn_team_fn fn, void *ctx);
/* Members up to n, of a team that may grow, while it does not run. On failure those that were started stay. */
qn_status qn__team_grow(qn_team *team, int n, qn_error *err);
/* Only from inside fn, by every member: nobody leaves before all have come. Memory written before is visible after. */
void qn__team_barrier(qn_team *team);
/* Dynamic work sharing inside fn: hands out [begin,end) chunks of [0,total). Reset happens by itself at the next
 * barrier or run, so every member must have drained it before. Returns false when nothing is left. */
bool qn__team_next(qn_team *team, int64_t total, int64_t chunk, int64_t *begin, int64_t *end);

#ifdef QN_CHECKED
/* Not 0: qn__team_next cuts pieces of 1 to 2*chunk elements that depend on this seed, so a test can show that results
 * do not depend on slicing. Test builds only; set it while no team runs. */
extern _Atomic uint64_t qn__team_hostile;
#endif

/* A mutex and a once, so that nothing above base names pthreads. */
typedef struct qn_mutex {
    union {
        char bytes[64];
        void *align;
    } u;
} qn_mutex;
void qn__mutex_init(qn_mutex *m);
void qn__mutex_deinit(qn_mutex *m);
void qn__mutex_lock(qn_mutex *m);
void qn__mutex_unlock(qn_mutex *m);
typedef struct qn_once {
    _Atomic int state;
} qn_once; /* zero-initialised */
void qn__once(qn_once *once, void (*fn)(void));

/* ---- turn.c: a lock that goes to whoever has had it for the shortest time ---- */
/* Two who want it all the time get half of the time each, however long one holds it; who comes back after a pause has
 * no claim on what it did not use. Zero-initialised after qn__turns_init. */
typedef struct qn_turn_taker {
    int64_t used_ns;
} qn_turn_taker;
typedef struct qn_turns {
    qn_mutex lock;
    struct qn_turn_waiter *waiting; /* oldest first */
    qn_turn_taker *last;
    const void *last_thread;
    int64_t start_ns, used_ns; /* of the turn under way; of whoever has it, when it began */
    int64_t changed_ns;        /* when it last went to another taker, in another thread */
    bool taken;
} qn_turns;
void qn__turns_init(qn_turns *turns);
void qn__turns_deinit(qn_turns *turns);
void qn__turns_take(qn_turns *turns, qn_turn_taker *taker); /* one thread a taker */
bool qn__turns_try(qn_turns *turns, qn_turn_taker *taker);  /* only when nobody has it */
void qn__turns_give(qn_turns *turns, qn_turn_taker *taker);
void qn__turns_forget(qn_turns *turns, const qn_turn_taker *taker); /* before a taker goes */
/* Somebody else waits, or had it in the last second in another thread: who takes turns with himself is alone. */
bool qn__turns_shared(qn_turns *turns, const qn_turn_taker *taker);

/* ---- pool.c: the threads of this process ---- */
/* One team for all who compute. Each is a user with a number of threads, of which the team has as many as the largest
 * wants; users run one at a time, in turns by time. The team ends with its last user. */
typedef struct qn_pool_user qn_pool_user;
/* n_threads as in qn_team_options. May wait for a run to end; state from inside of a run, where the team would have to
 * grow. */
qn_status qn__pool_join(int n_threads, qn_pool_user **out, qn_error *err);
void qn__pool_leave(qn_pool_user *user); /* NULL: nothing */
int qn__pool_size(const qn_pool_user *user);
/* For qn__team_barrier and qn__team_next inside a run. */
qn_team *qn__pool_team(const qn_pool_user *user);
/* As qn__team_run with the user's number of threads. From inside of another user's run on the caller's thread alone;
 * never from inside of one of its own. A user of one thread computes on its caller's and takes no turn. */
void qn__pool_run(qn_pool_user *user, qn_team_fn fn, void *ctx);
/* Other users compute in other threads: long runs should be short ones. */
bool qn__pool_shared(qn_pool_user *user);

/* Compute threads that make sense here: the smallest of the affinity mask, the cgroup CPU quota (rounded up) and the
 * number of physical cores behind the mask; at least 1, at most QN_MAX_THREADS. */
int qn__default_threads(void);
int64_t qn__now_ns(void); /* monotonic */

/* A counter of unknown but steady pace, several times cheaper to read than the clock; qn__now_ns where there is none.
 * Good for shares of a stretch whose ends are measured with the clock. */
static inline uint64_t qn__ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return (uint64_t)qn__now_ns();
#endif
}

/* One background thread that runs submitted jobs in order (asynchronous execution); submit fails when a job is pending.
 */
typedef struct qn_worker qn_worker;
qn_status qn__worker_create(qn_worker **out, qn_error *err);
void qn__worker_destroy(qn_worker *worker); /* waits for the job */
qn_status qn__worker_submit(qn_worker *worker, void (*fn)(void *), void *ctx, qn_error *err);
void qn__worker_wait(qn_worker *worker);

/* A bell: who waits wakes when it has been rung since the last wait, or after so many milliseconds. */
typedef struct qn_bell qn_bell;
qn_status qn__bell_create(qn_bell **out, qn_error *err);
void qn__bell_destroy(qn_bell *bell);
void qn__bell_ring(qn_bell *bell);
void qn__bell_wait(qn_bell *bell, int ms);
/* The calling thread gives way to others from now on, where the system lets it. */
void qn__thread_give_way(void);

#endif
