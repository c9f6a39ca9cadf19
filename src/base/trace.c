/* SPDX-License-Identifier: MIT */
/* src/base/trace.c -- rings and who is in them, what is recorded once, and mapped files.
 *
 * A thread that enters stores `inside`, then looks at the generation again; who shuts stores the generation, then looks
 * at `inside` of all threads. Both orders are sequentially consistent, so one of the two sees the other. The lock is
 * taken when a thread records for the first time, when it ends, and once a compiled graph. */
#include "base/trace.h"
#include "base/error.h"
#include "base/mem.h"
#include <pthread.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_RING ((size_t)3 << 20)
#define MAX_MAPS     256              /* known at once; files beyond are "in no file" */
#define MAX_WAITED   256              /* threads whose samples wake the writer; those beyond wait for its next look */
#define COUNTS_NS    INT64_C(2000000) /* between two readings of 3 us, at least: 0.15 % of what steps of 50 us take */

typedef struct thread {
    struct thread *next;
    _Atomic int inside; /* nested */
    bool known;
    uint64_t generation; /* for which `ring` was made */
    qn_trace_ring *ring; /* NULL: no memory */
} thread;

typedef struct mapping {
    const uint8_t *data;
    size_t bytes;
    const char *path; /* the map's own */
    int32_t id;
    int fd;                       /* the map's own */
    int64_t added_ns, removed_ns; /* removed_ns: 0 while it is mapped */
} mapping;

_Atomic uint64_t qn__trace_generation;
_Atomic bool qn__trace_ns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;
static _Thread_local thread me;
static thread *threads;
static qn_trace_ring *rings;
static qn_trace_blob *blobs;
static qn_trace_filter filter;
static uint64_t generation, lost;
static size_t ring_slots;
static uint32_t n_lanes;
static mapping maps[MAX_MAPS];
static int n_maps;
static int32_t last_map_id;
static _Atomic uint32_t last_plan;
static _Atomic uint64_t last_step;
static _Atomic int64_t counted_ns;
/* While there are rings: /proc/self/io, and what wakes the writer. */
static _Atomic int io_fd = -1, wake_fd = -1;

const char *qn_trace_kind_name(int kind)
{
#define NAME(name, text) #name,
    static const char *const names[] = {QN_TRACE_KIND_ROWS(NAME)};
#undef NAME
    return kind >= 0 && kind < QN_TRACE_KIND_COUNT ? names[kind] : "?";
}

const char *qn_trace_phase_name(int phase)
{
#define NAME(name) #name,
    static const char *const names[] = {QN_TRACE_PHASE_ROWS(NAME)};
#undef NAME
    return phase >= 0 && phase < QN_TRACE_PHASE_COUNT ? names[phase] : "?";
}

/* ---- threads ---- */

static void thread_ends(void *arg)
{
    thread *t = arg;
    pthread_mutex_lock(&lock);
    for (thread **at = &threads; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    if (t->ring && t->generation == generation) atomic_store_explicit(&t->ring->orphan, true, memory_order_release);
    t->ring = NULL;
    t->known = false;
    t->generation = 0;
    pthread_mutex_unlock(&lock);
}

static void make_key(void) { have_key = pthread_key_create(&key, thread_ends) == 0; }

/* Under the lock, so that whoever counts what is allocated finds it among the rings. */
static qn_trace_ring *ring_create(void)
{
    qn_trace_ring *r = qn__alloc(sizeof(*r) + ring_slots * sizeof(r->slots[0]));
    if (!r) return NULL;
    memset(r, 0, sizeof(*r));
    r->mask = ring_slots - 1;
    r->lane = n_lanes++;
    r->member = -1;
#ifdef SYS_gettid
    r->thread = (uint32_t)syscall(SYS_gettid);
#endif
    r->samples_error = filter.no_faults ? 0 : qn__samples_open(&r->samples);
    r->next = rings;
    rings = r;
    return r;
}

/* Under the lock. */
static void know_me(void)
{
    if (me.known || !have_key || pthread_setspecific(key, &me) != 0) return;
    me.known = true;
    me.next = threads;
    threads = &me;
}

/* A ring for this thread, if recording is still on. Every page of it is written before there is an event: the faults of
 * 3 MiB, one by one between nodes, would cost a small model a tenth of its speed. */
static void join(void)
{
    qn_trace_ring *r = NULL;
    pthread_once(&once, make_key);
    pthread_mutex_lock(&lock);
    const uint64_t now = atomic_load_explicit(&qn__trace_generation, memory_order_relaxed);
    if (now != 0) {
        know_me();
        me.generation = now;
        me.ring = r = me.known ? ring_create() : NULL;
        if (!r) lost++;
        /* whoever shuts waits until the pages are there */
        if (r) atomic_store_explicit(&me.inside, 1, memory_order_seq_cst);
    }
    pthread_mutex_unlock(&lock);
    if (!r) return;
    memset(r->slots, 0, ((size_t)r->mask + 1) * sizeof(r->slots[0]));
    atomic_store_explicit(&me.inside, 0, memory_order_release);
}

qn_trace_ring *qn__trace_enter(void)
{
    const uint64_t now = atomic_load_explicit(&qn__trace_generation, memory_order_acquire);
    const int inside = atomic_load_explicit(&me.inside, memory_order_relaxed);
    if (inside > 0) {
        atomic_store_explicit(&me.inside, inside + 1, memory_order_relaxed);
        return me.ring;
    }
    if (now == 0) return NULL;
    if (me.generation != now) join();
    if (me.generation != now || !me.ring) return NULL;
    atomic_store_explicit(&me.inside, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&qn__trace_generation, memory_order_seq_cst) == now) return me.ring;
    atomic_store_explicit(&me.inside, 0, memory_order_release);
    return NULL;
}

void qn__trace_leave(void)
{
    const int inside = atomic_load_explicit(&me.inside, memory_order_relaxed);
    atomic_store_explicit(&me.inside, inside - 1, memory_order_release);
}

bool qn__trace_room(qn_trace_ring *r, uint64_t head, uint64_t n)
{
    const uint64_t size = r->mask + 1, some = size / 4; /* time for the writer to come: 75 ms at a million a second */
    const uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire), used = head - tail;
    if (n > size || used > size - n) {
        atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
        return false;
    }
    if (used < some) {
        r->look_at = tail + some;
        return true;
    }
    if (r->asked != tail + 1) qn__trace_wake(); /* not while it is on its way */
    r->asked = tail + 1;
    r->look_at = used < size - some ? head + some : tail + size;
    return true;
}

void qn__trace_put_record(qn_trace_ring *r, uint32_t what, uint64_t begin, uint64_t arg, const qn_trace_part *parts,
                          int n_parts)
{
    size_t bytes = 0;
    for (int i = 0; i < n_parts; i++) bytes += parts[i].bytes;
    const uint64_t n = 1 + (bytes + sizeof(qn_trace_slot) - 1) / sizeof(qn_trace_slot);
    const uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head + n > r->look_at && !qn__trace_room(r, head, n)) return;
    r->slots[head & r->mask] =
        (qn_trace_slot){.begin = begin, .duration = bytes, .id = what, .waiting = arg, .kind = QN_TRACE_SLOT_record};
    size_t to = 0; /* in bytes behind the first slot */
    for (int i = 0; i < n_parts; i++) {
        const uint8_t *from = parts[i].data;
        for (size_t left = parts[i].bytes; left > 0;) {
            const size_t within = to % sizeof(qn_trace_slot), room = sizeof(qn_trace_slot) - within;
            const size_t m = left < room ? left : room;
            memcpy((uint8_t *)&r->slots[(head + 1 + to / sizeof(qn_trace_slot)) & r->mask] + within, from, m);
            from += m;
            to += m;
            left -= m;
        }
    }
    atomic_store_explicit(&r->head, head + n, memory_order_release);
}

int64_t qn__trace_read_bytes(void)
{
    char text[512];
    const ssize_t n = pread(atomic_load_explicit(&io_fd, memory_order_relaxed), text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nread_bytes: ");
    return line ? strtoll(line + 13, NULL, 10) : -1;
}

void qn__trace_put_counts(qn_trace_ring *r, uint64_t step)
{
    struct rusage u;
    const int64_t ns = qn__now_ns();
    int64_t last = atomic_load_explicit(&counted_ns, memory_order_relaxed);
    if (ns - last < COUNTS_NS || !atomic_compare_exchange_strong(&counted_ns, &last, ns)) return;
    qn_trace_counts c = {-1, -1, -1, -1, qn__trace_read_bytes()};
    if (getrusage(RUSAGE_SELF, &u) == 0)
        c = (qn_trace_counts){u.ru_minflt, u.ru_majflt, u.ru_nvcsw, u.ru_nivcsw, c.read_bytes};
    const qn_trace_part part = {&c, sizeof c};
    qn__trace_put_record(r, QN_TRACE_RECORD_counts, qn__trace_ticks(), step, &part, 1);
}

static _Thread_local int n_pauses;

void qn__trace_pause(bool pause) { n_pauses += pause ? 1 : -1; }

bool qn__trace_paused(void) { return n_pauses > 0; }

uint64_t qn__trace_begin(void) { return qn__trace_on() && !qn__trace_paused() ? qn__trace_ticks() : 0; }

void qn__trace_end(qn_trace_kind kind, uint64_t begin)
{
    if (begin == 0) return;
    const uint64_t end = qn__trace_ticks(); /* before a ring is made */
    qn_trace_ring *r = qn__trace_enter();
    if (!r) return;
    qn__trace_put(r, (int)kind, 0, begin, end, 0);
    qn__trace_leave();
}

/* ---- once ---- */

/* Under the lock. */
static void push(qn_trace_blob_kind kind, qn_str *bytes)
{
    qn_trace_blob *blob = bytes->failed ? NULL : qn__alloc(sizeof(*blob));
    if (blob && generation != 0) {
        *blob = (qn_trace_blob){.next = blobs, .kind = kind, .bytes = *bytes};
        blobs = blob;
        return;
    }
    lost++;
    qn__free(blob);
    qn__str_deinit(bytes);
}

void qn__trace_submit(qn_trace_blob_kind kind, qn_str *bytes)
{
    pthread_mutex_lock(&lock);
    push(kind, bytes);
    pthread_mutex_unlock(&lock);
    *bytes = (qn_str){0};
}

uint32_t qn__trace_next_plan(void) { return 1 + atomic_fetch_add_explicit(&last_plan, 1, memory_order_relaxed); }
uint64_t qn__trace_next_step(void) { return 1 + atomic_fetch_add_explicit(&last_step, 1, memory_order_relaxed); }
uint64_t qn__trace_steps(void) { return atomic_load_explicit(&last_step, memory_order_relaxed); }
const qn_trace_filter *qn__trace_get_filter(void) { return &filter; }

/* ---- mapped files ---- */

/* Under the lock: the path is the map's. */
static void push_map(const mapping *m)
{
    qn_str s = {0};
    qn__put_varint(&s, (uint64_t)m->id);
    qn__put_varint(&s, m->bytes);
    qn__put_text(&s, m->path, strlen(m->path));
    push(QN_TRACE_BLOB_file, &s);
}

void qn__trace_map_added(const void *data, size_t bytes, const char *path, int fd)
{
    pthread_mutex_lock(&lock);
    if (n_maps < MAX_MAPS) {
        maps[n_maps++] = (mapping){data, bytes, path, ++last_map_id, fd, qn__now_ns(), 0};
        if (generation != 0) push_map(&maps[n_maps - 1]);
    }
    pthread_mutex_unlock(&lock);
}

void qn__trace_map_removed(const void *data)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_maps; i++)
        if (maps[i].data == data && maps[i].removed_ns == 0) {
            if (generation != 0)
                maps[i].removed_ns = qn__now_ns();
            else
                maps[i] = maps[--n_maps];
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void forget_removed(int64_t before_ns)
{
    for (int i = 0; i < n_maps;)
        if (maps[i].removed_ns != 0 && maps[i].removed_ns < before_ns)
            maps[i] = maps[--n_maps];
        else
            i++;
}

/* Under the lock; ns 0: now. */
static const mapping *find_map(uintptr_t at, int64_t ns)
{
    for (int i = 0; i < n_maps; i++) {
        const mapping *m = &maps[i];
        const uintptr_t start = (uintptr_t)m->data;
        if (at < start || at - start >= m->bytes) continue;
        if (ns == 0 ? m->removed_ns == 0 : ns >= m->added_ns && (m->removed_ns == 0 || ns < m->removed_ns)) return m;
    }
    return NULL;
}

int32_t qn__trace_map_at(uint64_t address, int64_t ns, uint64_t *offset)
{
    pthread_mutex_lock(&lock);
    const mapping *m = find_map((uintptr_t)address, ns);
    const int32_t id = m ? m->id : -1;
    if (m) *offset = (uintptr_t)address - (uintptr_t)m->data;
    pthread_mutex_unlock(&lock);
    return id;
}

int32_t qn__trace_map_of(const void *p, uint64_t *offset) { return qn__trace_map_at((uintptr_t)p, 0, offset); }

static qn_resident_file file_of(const mapping *m) { return (qn_resident_file){m->fd, m->data, m->bytes}; }

bool qn__trace_map_next(int32_t after, qn_trace_mapped *out)
{
    const mapping *next = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_maps; i++)
        if (maps[i].removed_ns == 0 && maps[i].id > after && (!next || maps[i].id < next->id)) next = &maps[i];
    if (next) {
        const qn_resident_file f = file_of(next);
        *out = (qn_trace_mapped){next->id, next->bytes, qn__residency_of(&f)};
    }
    pthread_mutex_unlock(&lock);
    return next != NULL;
}

/* Whoever unmaps the file waits. */
bool qn__trace_map_resident(const qn_trace_mapped *m, size_t offset, size_t unit, size_t n, uint32_t *pages)
{
    bool said = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_maps; i++) {
        if (maps[i].id != m->id || maps[i].removed_ns != 0) continue;
        const qn_resident_file f = file_of(&maps[i]);
        said = qn__resident_pages(&f, m->residency, offset, unit, n, pages);
    }
    pthread_mutex_unlock(&lock);
    return said;
}

/* ---- for the recorder ---- */

qn_status qn__trace_open_rings(const qn_trace_filter *f, uint32_t ring_bytes, qn_error *err)
{
    static uint64_t last_generation;
    const size_t want = (ring_bytes ? ring_bytes : DEFAULT_RING) / sizeof(qn_trace_slot);
    pthread_mutex_lock(&lock);
    if (generation != 0) {
        pthread_mutex_unlock(&lock);
        return QN_FAIL(err, state, "a recording is on already");
    }
    filter = *f;
    for (ring_slots = 64; ring_slots < want; ring_slots *= 2) {}
    n_lanes = 0;
    lost = 0;
    atomic_store_explicit(&last_plan, 0, memory_order_relaxed);
    atomic_store_explicit(&last_step, 0, memory_order_relaxed);
    atomic_store_explicit(&counted_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&io_fd, open("/proc/self/io", O_RDONLY | O_CLOEXEC), memory_order_relaxed);
    atomic_store_explicit(&wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), memory_order_relaxed);
    generation = ++last_generation;
    forget_removed(INT64_MAX);
    for (int i = 0; i < n_maps; i++) push_map(&maps[i]);
    atomic_store_explicit(&qn__trace_generation, generation, memory_order_seq_cst);
    pthread_mutex_unlock(&lock);
    return QN_OK;
}

static bool anybody_inside(void)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (const thread *t = threads; t && !any; t = t->next)
        any = atomic_load_explicit(&t->inside, memory_order_seq_cst) > 0;
    pthread_mutex_unlock(&lock);
    return any;
}

/* Whoever is inside may take the lock, for a graph that it records first, so it is not held between two looks; who
 * ends meanwhile is in the list no more. Nobody comes in: neither by `generation` nor, under the lock, by join. */
qn_status qn__trace_shut(qn_error *err)
{
    if (atomic_load_explicit(&me.inside, memory_order_relaxed) > 0)
        return QN_FAIL(err, state, "a recording can't be stopped inside of a run");
    atomic_store_explicit(&qn__trace_generation, 0, memory_order_seq_cst);
    while (anybody_inside()) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return QN_OK;
}

qn_trace_ring *qn__trace_rings(void)
{
    pthread_mutex_lock(&lock);
    qn_trace_ring *first = rings;
    pthread_mutex_unlock(&lock);
    return first;
}

uint64_t qn__trace_held(void)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (const qn_trace_ring *r = rings; r; r = r->next) bytes += sizeof(*r) + (r->mask + 1) * sizeof(r->slots[0]);
    for (const qn_trace_blob *b = blobs; b; b = b->next) bytes += sizeof(*b) + b->bytes.cap;
    pthread_mutex_unlock(&lock);
    return bytes;
}

qn_trace_blob *qn__trace_take_blobs(void)
{
    pthread_mutex_lock(&lock);
    qn_trace_blob *newest = blobs, *oldest = NULL;
    blobs = NULL;
    pthread_mutex_unlock(&lock);
    while (newest) {
        qn_trace_blob *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

void qn__trace_free_blobs(qn_trace_blob *list)
{
    while (list) {
        qn_trace_blob *next = list->next;
        qn__str_deinit(&list->bytes);
        qn__free(list);
        list = next;
    }
}

void qn__trace_wake(void)
{
    const uint64_t one = 1;
    const ssize_t n = write(atomic_load_explicit(&wake_fd, memory_order_relaxed), &one, sizeof one);
    (void)n; /* where it isn't to be had, the writer comes when its time is over */
}

bool qn__trace_wait(int ms)
{
    static struct pollfd fds[1 + MAX_WAITED];
    uint64_t times;
    nfds_t n = 1;
    fds[0] = (struct pollfd){.fd = atomic_load_explicit(&wake_fd, memory_order_relaxed), .events = POLLIN};
    pthread_mutex_lock(&lock);
    for (const qn_trace_ring *r = rings; r; r = r->next)
        if (r->samples.open && n <= MAX_WAITED) fds[n++] = (struct pollfd){.fd = r->samples.fd[0], .events = POLLIN};
    pthread_mutex_unlock(&lock);
    return poll(fds, n, ms) > 0 && fds[0].revents && read(fds[0].fd, &times, sizeof times) > 0;
}

size_t qn__trace_read_samples(qn_trace_ring *r, qn_sample *to, size_t n)
{
    const bool gone = atomic_load_explicit(&r->orphan, memory_order_acquire);
    const size_t got = qn__samples_read(&r->samples, to, n);
    if (gone && got == 0) qn__samples_close(&r->samples);
    return got;
}

static void free_ring(qn_trace_ring *r)
{
    qn__samples_close(&r->samples);
    qn__free(r);
}

void qn__trace_reap(int64_t sampled_ns)
{
    pthread_mutex_lock(&lock);
    for (qn_trace_ring **at = &rings; *at;) {
        qn_trace_ring *r = *at;
        const bool gone = atomic_load_explicit(&r->orphan, memory_order_acquire);
        if (gone && !r->samples.open &&
            atomic_load_explicit(&r->head, memory_order_acquire) ==
                atomic_load_explicit(&r->tail, memory_order_relaxed)) {
            lost += atomic_load_explicit(&r->dropped, memory_order_relaxed);
            *at = r->next;
            free_ring(r);
        } else {
            at = &r->next;
        }
    }
    forget_removed(sampled_ns);
    pthread_mutex_unlock(&lock);
}

uint64_t qn__trace_lost(void)
{
    pthread_mutex_lock(&lock);
    const uint64_t n = lost;
    pthread_mutex_unlock(&lock);
    return n;
}

void qn__trace_close_rings(void)
{
    qn_trace_blob *left = qn__trace_take_blobs();
    pthread_mutex_lock(&lock);
    while (rings) {
        qn_trace_ring *next = rings->next;
        free_ring(rings);
        rings = next;
    }
    forget_removed(INT64_MAX);
    const int fds[] = {atomic_exchange_explicit(&io_fd, -1, memory_order_relaxed),
                       atomic_exchange_explicit(&wake_fd, -1, memory_order_relaxed)};
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    generation = 0;
    pthread_mutex_unlock(&lock);
    qn__trace_free_blobs(left);
}
