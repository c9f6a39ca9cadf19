/* SPDX-License-Identifier: MIT */
/* src/trace/pagecache.c -- what Linux would read for a trace's steps if its page cache had so much room: its two lists
 * and its shadows (mm/vmscan.c, mm/workingset.c), played with units of some pages.
 *
 * A unit that is missing comes with those around it, onto the inactive list; its shadow says how much was dropped since
 * it went. If that is no more than the active list has, it comes onto the active list instead. Who needs room looks at
 * the inactive list's oldest: what was used since the last look stays, what was used before two looks in a row becomes
 * active, the rest goes. The active list's oldest become inactive while it is the longer one, and, as fast as the
 * inactive list is looked through, while shadows bring units onto it. */
#include "base/error.h"
#include "trace/read.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 1 << 15, LEAST_UNIT = 64 << 10, MOST_AROUND = 128, NONE = -1 };
enum { MOST_USES = 1 << 20, MOST_READ = 1 << 22 }; /* units; more is hostile */
enum { ABSENT, INACTIVE, ACTIVE };

typedef struct unit {
    int32_t older, newer;
    uint8_t list;
    bool young, referenced, was; /* used since the last look; at the look before, too; there once */
    uint64_t gone;               /* age when it was dropped */
} unit;

typedef struct list {
    int32_t oldest, newest;
    int64_t n;
} list;

typedef struct file {
    int32_t id, first, n; /* of its units */
    uint64_t bytes;
} file;

typedef struct cache {
    QN_TRACE_LIST(file) files; /* by number */
    unit *units;
    uint64_t unit, block; /* bytes of one; that come with a missing one, 0: only what is used of it */
    list lists[3];
    int64_t room, first_active; /* units; of others on the active list */
    uint64_t age;               /* dropped, or made active, so far */
    double debt;                /* units of the active list that have still to be looked at */
    bool activated;             /* by a shadow, since the last look */
    bool counts;
    double read, jumps;
    int64_t uses, n_read, step;
    int32_t last; /* used */
} cache;

/* ---- lists ---- */

static void add(cache *c, int32_t u, uint8_t to)
{
    list *l = &c->lists[to];
    unit *x = &c->units[u];
    x->list = to;
    x->older = l->newest;
    x->newer = NONE;
    if (l->newest != NONE) c->units[l->newest].newer = u;
    if (l->oldest == NONE) l->oldest = u;
    l->newest = u;
    l->n++;
}

static int32_t take_oldest(cache *c, uint8_t from)
{
    list *l = &c->lists[from];
    const int32_t u = l->oldest;
    l->oldest = c->units[u].newer;
    if (l->oldest == NONE) l->newest = NONE;
    if (l->oldest != NONE) c->units[l->oldest].older = NONE;
    l->n--;
    c->units[u].list = ABSENT;
    return u;
}

/* ---- room ---- */

static bool active_is_longer(const cache *c)
{
    const int64_t inactive = c->lists[INACTIVE].n, active = c->lists[ACTIVE].n;
    const double gib = floor((double)(inactive + active) * (double)c->unit / (double)(1 << 30));
    return (double)inactive * (gib > 0 ? floor(sqrt(10 * gib)) : 1) < (double)active;
}

static void deactivate(cache *c)
{
    const int32_t u = take_oldest(c, ACTIVE);
    c->units[u].young = false;
    add(c, u, INACTIVE);
}

/* Looks at the oldest inactive unit. */
static void look(cache *c)
{
    const int32_t u = take_oldest(c, INACTIVE);
    unit *x = &c->units[u];
    if (x->young) {
        x->young = false;
        if (x->referenced) c->age++;
        add(c, u, x->referenced ? ACTIVE : INACTIVE);
        x->referenced = !x->referenced;
        return;
    }
    x->referenced = false;
    x->was = true;
    x->gone = ++c->age;
}

/* For one more, before it comes. */
static void make_room(cache *c)
{
    for (;;) {
        const int64_t inactive = c->lists[INACTIVE].n, active = c->lists[ACTIVE].n;
        if (inactive + active < c->room || inactive + active == 0) break;
        if (inactive == 0) {
            deactivate(c);
            continue;
        }
        if (active > 0 && (c->activated || active_is_longer(c))) c->debt += (double)active / (double)inactive;
        for (; c->debt >= 1 && c->lists[ACTIVE].n > 0; c->debt--) deactivate(c);
        if (c->lists[ACTIVE].n == 0) c->debt = 0;
        look(c);
    }
    c->activated = false;
}

/* ---- uses ---- */

static uint64_t bytes_of(const cache *c, const file *f, int32_t u)
{
    const uint64_t at = (uint64_t)(u - f->first) * c->unit;
    return f->bytes - at < c->unit ? f->bytes - at : c->unit;
}

static void come(cache *c, int32_t u)
{
    unit *x = &c->units[u];
    make_room(c);
    const int64_t active = c->lists[ACTIVE].n + c->first_active;
    const bool back = x->was && (int64_t)(c->age - x->gone) <= active;
    c->activated |= back;
    c->age += back;
    x->young = x->referenced = false;
    c->n_read++;
    add(c, u, back ? ACTIVE : INACTIVE);
}

static void use(cache *c, const file *f, int32_t u, double touched)
{
    unit *const x = &c->units[u];
    if (x->list == ABSENT) {
        const int32_t around = (int32_t)(c->block / c->unit);
        int32_t from = u - around / 2, to = from + around;
        if (around < 2) {
            from = u;
            to = u + 1;
        }
        if (from < f->first) from = f->first;
        if (to > f->first + f->n) to = f->first + f->n;
        for (int32_t v = from; v < to; v++) {
            if (c->units[v].list != ABSENT) continue;
            const double bytes = c->block ? (double)bytes_of(c, f, v) : touched;
            if (c->counts) c->read += bytes;
            if (c->counts && u != c->last + 1) c->jumps += bytes;
            come(c, v);
        }
    }
    x->young = true;
    c->last = u;
}

static int by_number(const void *a, const void *b)
{
    const file *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static const file *find(const cache *c, int32_t id)
{
    const file key = {.id = id};
    return c->files.n ? bsearch(&key, c->files.at, c->files.n, sizeof key, by_number) : NULL;
}

/* Where a touch lies, in units of a file; false: nowhere. */
static const file *place(const cache *c, const qn_trace_touch *t, int32_t *first, int32_t *n)
{
    const file *f = find(c, t->file);
    if (!f || t->offset >= f->bytes || t->bytes == 0) return NULL;
    const uint64_t end = f->bytes - t->offset < t->bytes ? f->bytes : t->offset + t->bytes;
    *first = f->first + (int32_t)(t->offset / c->unit);
    *n = f->first + (int32_t)((end - 1) / c->unit) - *first + 1;
    return f;
}

static bool play_touch(void *ctx, const qn_trace_touch *t)
{
    cache *c = ctx;
    int32_t first, n;
    const file *f = place(c, t, &first, &n);
    if (!f) return true;
    const double share = t->touched / (double)t->bytes;
    /* which slices is not known: as many units, elsewhere in each step */
    const int32_t some = share < 1 ? (int32_t)(share * (double)n) + 1 : n, step = n / some;
    const int32_t skip = some < n ? (int32_t)(c->step * 7919 % step) : 0;
    for (int32_t i = 0; i < some && c->n_read < MOST_READ; i++)
        use(c, f, first + skip + i * step, share * (double)c->unit);
    return c->n_read < MOST_READ;
}

static bool count_touch(void *ctx, const qn_trace_touch *t)
{
    cache *c = ctx;
    int32_t first, n;
    if (place(c, t, &first, &n)) c->uses += n;
    return c->uses < MOST_USES;
}

/* ---- all of it ---- */

static bool lay_out(cache *c, const qn_trace *t)
{
    uint64_t bytes = 0, n = 0;
    for (size_t i = 0; i < t->files.n; i++) {
        file *f = QN_TRACE_MORE(&c->files);
        if (!f) return false;
        *f = (file){.id = t->files.at[i].id, .bytes = t->files.at[i].bytes};
        bytes = f->bytes < UINT64_MAX - bytes ? bytes + f->bytes : UINT64_MAX;
    }
    if (c->files.n) qsort(c->files.at, c->files.n, sizeof c->files.at[0], by_number);
    for (c->unit = LEAST_UNIT; bytes / c->unit >= MOST_UNITS || c->block / c->unit > MOST_AROUND; c->unit *= 2) {}
    for (size_t i = 0; i < c->files.n; i++) {
        file *f = &c->files.at[i];
        f->first = (int32_t)n;
        f->n = (int32_t)(f->bytes / c->unit + (f->bytes % c->unit > 0));
        n += (uint64_t)f->n;
    }
    c->units = qn__alloc((size_t)(n + 1) * sizeof *c->units);
    if (c->units) memset(c->units, 0, (size_t)(n + 1) * sizeof *c->units);
    for (int i = 0; i < 3; i++) c->lists[i] = (list){NONE, NONE, 0};
    return c->units != NULL;
}

static bool is_decode(const qn_trace_step *s) { return s->phase == QN_TRACE_PHASE_decode && s->ns > 0; }

bool qn__trace_play_kernel(qn_trace *t, uint64_t block, uint64_t room, uint64_t active, qn_trace_kernel *out)
{
    cache c = {.block = block};
    const bool ok = lay_out(&c, t);
    size_t first = t->steps.n;
    int64_t decodes = 0, k = 0, n_tokens = 0;
    *out = (qn_trace_kernel){0};
    while (ok && first > 0 && c.uses < MOST_USES) { /* the last ones, if there are very many */
        first--;
        qn_trace_touches(&t->steps.at[first], count_touch, &c);
        decodes += is_decode(&t->steps.at[first]);
    }
    c.room = (int64_t)(room / c.unit);
    c.first_active = (int64_t)(active / c.unit);
    for (size_t i = first; ok && i < t->steps.n; i++) {
        const qn_trace_step *s = &t->steps.at[i];
        c.counts = is_decode(s) && k >= decodes / 2;
        k += is_decode(s);
        if (c.counts) n_tokens += s->n_tokens;
        c.step = (int64_t)i;
        qn_trace_touches(s, play_touch, &c);
    }
    if (n_tokens > 0) *out = (qn_trace_kernel){c.read / (double)n_tokens, c.jumps / (double)n_tokens};
    qn__free(c.files.at);
    qn__free(c.units);
    return ok;
}
