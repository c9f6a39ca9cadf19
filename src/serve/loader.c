/* SPDX-License-Identifier: MIT */
/* src/serve/loader.c -- the loader: one thread that loads models in the order in which they were asked for, makes room
 * for them, and unloads what nobody has used for a while. Neither HTTP threads nor workers nor other models' executors
 * wait for it. A model that somebody holds is never unloaded: where room is needed, those used the longest time ago are
 * marked as leaving. Who holds one of them goes on; who comes to it waits behind the model that needs the room, so that
 * nobody waits for ever. */
#include "serve/exchange.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* ---- waiting: under models_lock ---- */

static void want(model *m)
{
    server *s = m->server;
    if (m->wanted) return;
    m->wanted = true;
    m->next_wanted = NULL;
    model **at = &s->wanted;
    while (*at) at = &(*at)->next_wanted;
    *at = m;
}

static void want_no_more(model *m)
{
    model **at = &m->server->wanted;
    while (*at && *at != m) at = &(*at)->next_wanted;
    if (*at) *at = m->next_wanted;
    m->wanted = false;
}

/* Takes all who wait: a list by next_job. */
static exchange *take_waiting(model *m)
{
    exchange *list = m->first;
    m->first = NULL;
    m->end = &m->first;
    return list;
}

static void hold(exchange *x, model *m)
{
    x->model = m;
    x->load_ns = now_ns() - x->asked_ns;
    m->n_users++;
}

/* Those who waited hold the model now. Returns them, to be made jobs of without the lock. */
static exchange *admit_waiting(model *m)
{
    exchange *list = take_waiting(m);
    for (exchange *x = list; x; x = x->next_job) {
        x->waits_for = NULL;
        hold(x, m);
    }
    return list;
}

static void add_jobs(exchange *list)
{
    while (list) {
        exchange *x = list;
        list = x->next_job;
        work_add(x);
        exchange_release(x); /* of the list */
    }
}

static void refuse_all(exchange *list, const problem *p)
{
    while (list) {
        exchange *x = list;
        list = x->next_job;
        exchange_refuse(x, p);
        exchange_release(x);
    }
}

/* ---- asking ---- */

static bool refuse(exchange *x, const problem *p)
{
    exchange_refuse(x, p);
    return false;
}

/* Under lock. */
static bool hold_or_wait(exchange *x, model *m)
{
    m->keep_ns = x->server->o.keep_alive_s < 0 ? -1 : (int64_t)x->server->o.keep_alive_s * 1000000000;
    m->unload = false;
    if (m->state == MODEL_loaded && !m->leaving) {
        hold(x, m);
        return true;
    }
    exchange_hold(x);
    x->waits_for = m;
    x->next_job = NULL;
    *m->end = x;
    m->end = &x->next_job;
    atomic_store(&m->abandoned, false);
    if (m->state != MODEL_loading) want(m);
    pthread_cond_signal(&x->server->models_changed);
    return false;
}

static const char *name_in(exchange *x, problem *p)
{
    const char *name = NULL;
    const fields f = {x->json, "", p};
    if (x->query_model) return x->query_model;
    if (x->json) (void)field_string(&f, "model", &name);
    return name;
}

bool loader_enter(exchange *x)
{
    server *s = x->server;
    problem p = {0};
    if (x->route->needs == NEEDS_none || x->model) return true;
    x->asked_ns = now_ns();
    if (x->route->needs == NEEDS_model && strcmp(x->route->method, "POST") == 0 && !(x->json = exchange_parse(x, &p)))
        return refuse(x, &p);
    const char *name = name_in(x, &p);
    if (p.status) return refuse(x, &p);
    x->named = name;
    pthread_mutex_lock(&s->models_lock);
    model *m = catalog_find(s, name, &x->adapter, &p);
    if (!m && p.status != 400 && catalog_is_old(s)) {
        problem why = {0};
        pthread_mutex_unlock(&s->models_lock);
        (void)catalog_refresh(s, &why); /* it may have come since; what catalog_find says knows of a failure */
        p = (problem){0};
        pthread_mutex_lock(&s->models_lock);
        m = catalog_find(s, name, &x->adapter, &p);
    }
    if (m && atomic_load(&s->models_stop)) problem_set(&p, 503, "", "the server is stopping");
    const bool held = m && !p.status && hold_or_wait(x, m);
    pthread_mutex_unlock(&s->models_lock);
    if (p.status) return refuse(x, &p);
    if (!held && exchange_is_gone(x)) loader_leave(x); /* it left before it waited */
    return held;
}

void loader_leave(exchange *x)
{
    server *s = x->server;
    pthread_mutex_lock(&s->models_lock);
    model *m = x->waits_for;
    if (m) {
        exchange **at = &m->first;
        while (*at != x) at = &(*at)->next_job;
        *at = x->next_job;
        if (!*at) m->end = at;
        x->waits_for = NULL;
        if (!m->first && m->state == MODEL_loading) atomic_store(&m->abandoned, true);
        if (!m->first && m->wanted) want_no_more(m);
        pthread_cond_signal(&s->models_changed);
    }
    pthread_mutex_unlock(&s->models_lock);
    if (m) exchange_release(x);
}

void loader_release(model *m)
{
    server *s = m->server;
    pthread_mutex_lock(&s->models_lock);
    m->n_users--;
    m->used_ns = now_ns();
    if (m->n_users == 0) pthread_cond_signal(&s->models_changed);
    pthread_mutex_unlock(&s->models_lock);
}

void loader_unload(model *m)
{
    if (m->state == MODEL_loading) atomic_store(&m->abandoned, true);
    m->unload = true;
    pthread_cond_signal(&m->server->models_changed);
}

void loader_keep(model *m, int64_t ns)
{
    pthread_mutex_lock(&m->server->models_lock);
    m->keep_ns = ns;
    pthread_mutex_unlock(&m->server->models_lock);
}

/* ---- room ---- */

/* Under lock: what all but one have to have. */
static uint64_t used_by_others(const server *s, const model *but)
{
    uint64_t sum = 0;
    for (const model *m = s->models; m; m = m->next)
        if (m != but) sum += atomic_load(&m->least);
    return sum;
}

/* Under lock, which is let go meanwhile. Who waits for it has it wanted already. */
static void unload(model *m)
{
    server *s = m->server;
    m->state = MODEL_unloading;
    m->leaving = m->unload = false;
    model_keep_counts(m);
    pthread_mutex_unlock(&s->models_lock);
    model_unload(m);
    text_log(s, "%s: unloaded", m->name);
    pthread_mutex_lock(&s->models_lock);
    m->state = MODEL_unloaded;
}

/* Under lock: of those that are loaded, idle or not, the one that was used the longest time ago. */
static model *oldest(server *s, const model *but, bool idle)
{
    model *found = NULL;
    for (model *m = s->models; m; m = m->next)
        if (m != but && m->state == MODEL_loaded && (!idle || !m->n_users) &&
            (!found || (m->leaving && !found->leaving) ||
             (m->leaving == found->leaving && m->used_ns < found->used_ns)))
            found = m;
    return found;
}

/* Under lock: those that were to make room stay after all, and who waits for them goes on. */
static void stay(server *s)
{
    for (model *m = s->models; m; m = m->next) {
        if (!m->leaving || m->state != MODEL_loaded) continue;
        m->leaving = false;
        if (m->wanted) want_no_more(m);
        exchange *list = admit_waiting(m);
        pthread_mutex_unlock(&s->models_lock);
        add_jobs(list);
        pthread_mutex_lock(&s->models_lock);
    }
}

/* Under lock: one other model is unloaded, for which it may have to be waited. False where none is left, or nobody
 * wants the room any more. */
static bool unload_one(server *s, const model *m)
{
    for (;;) {
        if (atomic_load(&m->abandoned) || atomic_load(&s->models_stop)) return false;
        model *idle = oldest(s, m, true);
        if (idle) {
            unload(idle);
            return true;
        }
        model *busy = oldest(s, m, false);
        if (!busy) return false;
        busy->leaving = true;
        pthread_cond_wait(&s->models_changed, &s->models_lock);
    }
}

enum { BYTES_TEXT = 32 };

/* "512.0 MiB", "1.50 GiB" */
static const char *bytes_text(char buf[BYTES_TEXT], uint64_t bytes)
{
    const double mib = (double)bytes / (1 << 20);
    snprintf(buf, BYTES_TEXT, mib < 1023.95 ? "%.1f MiB" : "%.2f GiB", mib < 1023.95 ? mib : mib / 1024);
    return buf;
}

static bool too_large(const model *m, uint64_t least, problem *p)
{
    char takes[BYTES_TEXT], most[BYTES_TEXT];
    return problem_set(p, 503, "model", "%s takes %s at the least, and %s are what models may take (--memory)", m->name,
                       bytes_text(takes, least), bytes_text(most, m->server->o.memory));
}

static bool nobody(const model *m, problem *p)
{
    p->given_up = true;
    return problem_set(p, 503, "model", "%s is not loaded any more", m->name);
}

/* Under lock, which is let go meanwhile. One that is larger than all models may be has the room of those that nobody
 * uses, and shares the rest with the others. */
static bool make_room(model *m, uint64_t bytes, uint64_t least, problem *p)
{
    server *s = m->server;
    const uint64_t most = s->o.memory;
    if (most && least > most) return too_large(m, least, p);
    for (model *idle; m->paged && !atomic_load(&m->abandoned) && (idle = oldest(s, m, true));) unload(idle);
    while (most && used_by_others(s, m) + least > most)
        if (!unload_one(s, m)) return nobody(m, p);
    atomic_store(&m->bytes, bytes);
    atomic_store(&m->least, least);
    return true;
}

bool loader_take(model *m, uint64_t bytes, problem *p)
{
    server *s = m->server;
    pthread_mutex_lock(&s->models_lock);
    const uint64_t others = used_by_others(s, m), own = atomic_load(&m->least);
    const bool good = !s->o.memory || others + own + bytes <= s->o.memory;
    if (good) {
        atomic_fetch_add(&m->bytes, bytes);
        atomic_fetch_add(&m->least, bytes);
    }
    pthread_mutex_unlock(&s->models_lock);
    if (good) return true;
    char needs[BYTES_TEXT], left[BYTES_TEXT];
    return problem_set(p, 503, "model", "%s needs %s more for this, and there are %s (--memory)", m->name,
                       bytes_text(needs, bytes), bytes_text(left, s->o.memory - others - own));
}

/* ---- loading ---- */

/* Under lock, which is let go meanwhile. Where the machine's own memory is short, others go one by one until it is
 * enough. */
static bool load(model *m, problem *p)
{
    server *s = m->server;
    uint64_t bytes = 0, least = 0;
    m->paged = false;
    pthread_mutex_unlock(&s->models_lock);
    bool good = model_measure(m, &bytes, &least, p);
    pthread_mutex_lock(&s->models_lock);
    m->paged = s->o.memory && bytes > s->o.memory;
    good = good && make_room(m, bytes, m->paged ? least : bytes, p);
    while (good) {
        const uint64_t limit = s->o.memory && !m->paged ? s->o.memory - used_by_others(s, m) : 0;
        pthread_mutex_unlock(&s->models_lock);
        good = model_load(m, limit, p);
        pthread_mutex_lock(&s->models_lock);
        if (good || !p->no_room || s->o.memory || s->o.engine.memory_limit || !unload_one(s, m)) break;
        *p = (problem){0};
        good = true;
    }
    if (good && (atomic_load(&m->abandoned) || atomic_load(&s->models_stop))) good = nobody(m, p);
    return good;
}

/* Under lock: who came while a load that nobody waited for was being undone waits for the next one. Where somebody
 * asked for that end, only who came behind him does. */
static bool again(model *m, const problem *p)
{
    if (!p->given_up || !m->first || m->unload || atomic_load(&m->server->models_stop)) return false;
    atomic_store(&m->abandoned, false);
    want(m);
    return true;
}

/* Under lock, which is let go meanwhile. */
static void load_next(server *s)
{
    model *m = s->wanted;
    problem p = {0};
    char name[256];
    want_no_more(m);
    bool good = m->state == MODEL_loaded;
    if (!good) {
        m->state = MODEL_loading;
        good = load(m, &p);
        if (!good) {
            pthread_mutex_unlock(&s->models_lock);
            model_unload(m);
            pthread_mutex_lock(&s->models_lock);
        }
        m->state = good ? MODEL_loaded : MODEL_unloaded;
        m->used_ns = now_ns();
    }
    exchange *list = good ? admit_waiting(m) : again(m, &p) ? NULL : take_waiting(m);
    for (exchange *x = list; x; x = x->next_job) x->waits_for = NULL;
    snprintf(name, sizeof(name), "%s", m->name); /* one that was not loaded may end when the lock is let go */
    char takes[BYTES_TEXT];
    bytes_text(takes, atomic_load(&m->bytes));
    pthread_mutex_unlock(&s->models_lock);
    if (good)
        text_log(s, "%s: loaded in %.1f s, %s", name, m->load_seconds, takes);
    else
        text_log(s, "%s: not loaded: %s", name, p.text);
    if (good)
        add_jobs(list);
    else
        refuse_all(list, &p);
    pthread_mutex_lock(&s->models_lock);
    stay(s);
}

/* ---- the thread ---- */

/* Under lock: unloads what is due; until when nothing will be, 0: for ever. */
static int64_t expire(server *s)
{
    int64_t next = 0;
    for (model *m = s->models; m; m = m->next) {
        if (m->state != MODEL_loaded || m->n_users) continue;
        const bool now = m->unload || m->gone;
        const int64_t due = now ? 0 : m->used_ns + m->keep_ns;
        if (!now && m->keep_ns < 0) continue;
        if (due <= now_ns()) {
            unload(m);
            return 1; /* the list may be another one now */
        }
        if (!next || due < next) next = due;
    }
    return next;
}

static void *loader(void *ctx)
{
    server *s = ctx;
    pthread_mutex_lock(&s->models_lock);
    while (!atomic_load(&s->models_stop)) {
        const int64_t due = expire(s);
        if (due == 1) continue;
        if (s->wanted) {
            load_next(s);
        } else if (due) {
            const struct timespec t = {due / 1000000000, due % 1000000000};
            pthread_cond_timedwait(&s->models_changed, &s->models_lock, &t);
        } else {
            pthread_cond_wait(&s->models_changed, &s->models_lock);
        }
    }
    pthread_mutex_unlock(&s->models_lock);
    return NULL;
}

/* One that was named alone is loaded before anybody is let in. */
static bool load_first(server *s, qn_error *err)
{
    problem p = {0};
    model *m = s->models;
    if (s->o.n_models != 1) return true;
    pthread_mutex_lock(&s->models_lock);
    m->state = MODEL_loading;
    m->keep_ns = s->o.keep_alive_s < 0 ? -1 : (int64_t)s->o.keep_alive_s * 1000000000;
    const bool good = load(m, &p);
    m->state = good ? MODEL_loaded : MODEL_unloaded;
    m->used_ns = now_ns();
    pthread_mutex_unlock(&s->models_lock);
    if (good) return true;
    err->status = QN_STATUS_io;
    snprintf(err->text, sizeof(err->text), "%.500s", p.text);
    return false;
}

bool loader_start(server *s, qn_error *err)
{
    sigset_t all, old;
    if (!load_first(s, err)) return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int rc = pthread_create(&s->loader, NULL, loader, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->has_loader = rc == 0;
    if (rc == 0) return true;
    err->status = QN_STATUS_limit;
    snprintf(err->text, sizeof(err->text), "cannot start a thread: %s", strerror(rc));
    return false;
}

void loader_stop(server *s)
{
    problem p = {0};
    exchange *list = NULL, **end = &list;
    problem_set(&p, 503, "", "the server is stopping");
    pthread_mutex_lock(&s->models_lock);
    atomic_store(&s->models_stop, true);
    pthread_cond_broadcast(&s->models_changed);
    pthread_mutex_unlock(&s->models_lock);
    if (s->has_loader) pthread_join(s->loader, NULL);
    s->has_loader = false;
    pthread_mutex_lock(&s->models_lock); /* workers may still read the list of models anew */
    for (model *m = s->models; m; m = m->next)
        for (*end = take_waiting(m); *end; end = &(*end)->next_job) (*end)->waits_for = NULL;
    pthread_mutex_unlock(&s->models_lock);
    refuse_all(list, &p);
}
