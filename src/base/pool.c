/* SPDX-License-Identifier: MIT */
/* src/base/pool.c -- the one team of the process: made by its first user, grown by whoever wants more threads, gone
 * with the last. Two engines that spun on teams of their own shared cores as programs that know nothing of each other
 * do. */
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include <pthread.h>

struct qn_pool_user {
    qn_turn_taker taker;
    int n;
    int forks;      /* of the process when it joined */
    qn_team *team;  /* the process's, or of one member: the caller */
    qn_team *alone; /* of one member, for what is computed within another user's run; NULL where `team` is one */
};

/* Whose run this thread is a member of. */
static _Thread_local const qn_pool_user *running;

static struct {
    qn_once once;
    qn_mutex lock;  /* of the two below */
    int n_users;    /* of more than one thread */
    qn_team *team;  /* NULL without them */
    qn_turns turns; /* to run it, or to grow it */
    int forks;      /* how often this process is a fork's child of one that computed */
} pool;

/* Of the team the child has the memory and no thread: who comes gets another, and who is there computes alone. */
static void forked(void)
{
    qn__mutex_init(&pool.lock);
    qn__turns_init(&pool.turns);
    pool.team = NULL;
    pool.n_users = 0;
    pool.forks++;
}

static void init(void)
{
    qn__mutex_init(&pool.lock);
    qn__turns_init(&pool.turns);
    (void)pthread_atfork(NULL, NULL, forked); /* without memory for that it is as without */
}

/* Of the team as it is now, with threads. */
static bool on_team(const qn_pool_user *user) { return user->n > 1 && user->forks == pool.forks; }

/* A function that a run calls, such as a tap's, computes something itself: the team is busy with that run. */
static bool within(const qn_pool_user *user) { return running && running != user && on_team(user); }

/* Under lock. */
static qn_status provide(qn_pool_user *user, qn_error *err)
{
    qn_status status = QN_OK;
    if (user->n == 1) return qn__team_create(&(qn_team_options){.n_threads = 1}, &user->team, err);
    QN_TRY(qn__team_create(&(qn_team_options){.n_threads = 1}, &user->alone, err));
    if (!pool.team) {
        status = qn__team_create(&(qn_team_options){.n_threads = user->n, .may_grow = true}, &pool.team, err);
    } else if (qn__team_size(pool.team) < user->n && running) {
        status = QN_FAIL(err, state, "%d threads, of which %d are there and compute what calls this", user->n,
                         qn__team_size(pool.team));
    } else if (qn__team_size(pool.team) < user->n) {
        qn__turns_take(&pool.turns, &user->taker);
        status = qn__team_grow(pool.team, user->n, err);
        qn__turns_give(&pool.turns, &user->taker);
    }
    user->team = pool.team;
    pool.n_users += status == QN_OK;
    return status;
}

/* Under lock. */
static void end_unused(void)
{
    if (pool.n_users) return;
    qn__team_destroy(pool.team);
    pool.team = NULL;
}

qn_status qn__pool_join(int n_threads, qn_pool_user **out, qn_error *err)
{
    const int n = n_threads ? n_threads : qn__default_threads();
    if (n < 1 || n > QN_MAX_THREADS)
        return QN_FAIL(err, invalid, "%d threads were asked for, 1 to %d are possible", n, QN_MAX_THREADS);
    qn_pool_user *user = qn__calloc(1, sizeof(*user));
    if (!user) return QN_FAIL_NOMEM(err, sizeof(*user));
    user->n = n;
    qn__once(&pool.once, init);
    qn__mutex_lock(&pool.lock);
    user->forks = pool.forks;
    const qn_status status = provide(user, err);
    end_unused();
    qn__mutex_unlock(&pool.lock);
    if (status != QN_OK) {
        qn__team_destroy(user->alone);
        qn__free(user);
        return status;
    }
    *out = user;
    return QN_OK;
}

void qn__pool_leave(qn_pool_user *user)
{
    if (!user) return;
    qn__mutex_lock(&pool.lock);
    qn__turns_forget(&pool.turns, &user->taker);
    if (on_team(user)) pool.n_users--;
    end_unused();
    qn__mutex_unlock(&pool.lock);
    if (user->n == 1) qn__team_destroy(user->team);
    qn__team_destroy(user->alone);
    qn__free(user);
}

int qn__pool_size(const qn_pool_user *user) { return user->n; }

qn_team *qn__pool_team(const qn_pool_user *user) { return within(user) ? user->alone : user->team; }

typedef struct job {
    const qn_pool_user *user;
    qn_team_fn fn;
    void *ctx;
} job;

static void run_job(void *ctx, int member, int n)
{
    const job *j = ctx;
    running = j->user;
    j->fn(j->ctx, member, n);
    running = NULL; /* no team's run is inside of another */
}

void qn__pool_run(qn_pool_user *user, qn_team_fn fn, void *ctx)
{
    if (within(user) || !on_team(user)) {
        qn__team_run_some(qn__pool_team(user), 1, fn, ctx);
        return;
    }
    qn__turns_take(&pool.turns, &user->taker);
    qn__team_run_some(user->team, user->n, run_job, &(job){user, fn, ctx});
    qn__turns_give(&pool.turns, &user->taker);
}

bool qn__pool_shared(qn_pool_user *user) { return on_team(user) && qn__turns_shared(&pool.turns, &user->taker); }
