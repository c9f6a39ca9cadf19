/* SPDX-License-Identifier: MIT */
/* tests/check/support.c -- guarded buffers, fills, comparisons and the harness of rows that compute element by element.
 */
#include "check.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const int64_t check_sizes[] = {0,   1,   2,   3,    4,    5,    7,    8,    9,    11,   15,   16,  17,  23,
                               24,  31,  32,  33,   47,   48,   63,   64,   65,   100,  127,  128, 129, 255,
                               256, 257, 511, 1000, 1023, 1024, 1025, 2049, 4095, 4096, 4099, -1};
const int64_t check_sizes_32[] = {0, 32, 64, 96, 128, 160, 256, 288, 1024, 4096 + 32, -1};

/* ---- buffers --------------------------------------------------------------------------------- */

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *check_buffer(check *t, int slot, size_t bytes, size_t elem, check_place place)
{
    check_slot *s = &t->slot[slot];
    const size_t guard = page(), room = (bytes + elem + guard - 1) / guard * guard + guard;
    if (room > s->room) {
        if (s->map) munmap(s->map, s->room + 2 * guard);
        s->map = mmap(NULL, room + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (s->map == MAP_FAILED || mprotect(s->map + guard, room, PROT_READ | PROT_WRITE) != 0) {
            perror("check: mmap");
            exit(2);
        }
        s->room = room;
    }
    uint8_t *base = s->map + guard;
    s->data = place == CHECK_AT_END ? base + s->room - bytes : place == CHECK_AT_START ? base : base + elem;
    s->bytes = bytes;
    s->low = (size_t)(s->data - base) > guard ? s->data - guard : base;
    s->high = (size_t)(base + s->room - (s->data + bytes)) > guard ? s->data + bytes + guard : base + s->room;
    memset(s->low, 0xa5, (size_t)(s->high - s->low));
    return s->data;
}

float *check_floats(check *t, int slot, int64_t n, check_place place)
{
    return check_buffer(t, slot, (size_t)n * sizeof(float), sizeof(float), place);
}

/* Whether all bytes are the pattern: the first is, and each is what the next one is. */
static bool is_pattern(const uint8_t *p, size_t n) { return n == 0 || (p[0] == 0xa5 && memcmp(p, p + 1, n - 1) == 0); }

void check_intact(check *t)
{
    t->n_checks++;
    for (int i = 0; i < CHECK_SLOTS; i++) {
        const check_slot *s = &t->slot[i];
        if (!s->map) continue;
        const uint8_t *end = s->data + s->bytes;
        if (is_pattern(s->low, (size_t)(s->data - s->low)) && is_pattern(end, (size_t)(s->high - end))) continue;
        for (const uint8_t *p = s->low; p < s->high; p++) {
            if (p == s->data) p += s->bytes;
            if (p == s->high || *p == 0xa5) continue;
            check_fail(t, "byte %td of buffer %d was written", p - s->data, i);
            break;
        }
    }
}

/* ---- fills ----------------------------------------------------------------------------------- */

uint64_t check_random(check *t) /* splitmix64 */
{
    uint64_t z = t->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double check_uniform(check *t, double lo, double hi)
{
    return lo + (hi - lo) * (double)(check_random(t) >> 11) * 0x1p-53;
}

static float sign_of(check *t) { return check_random(t) & 1 ? 1 : -1; }

static float element(check *t, int64_t i, check_fill_kind kind)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0, -0.0f, 1};
    switch (kind) {
    case CHECK_FILL_zeros: return check_random(t) & 1 ? 0.0f : -0.0f;
    case CHECK_FILL_subnormal: return sign_of(t) * (float)(check_random(t) % 8388607) * 0x1p-149f;
    case CHECK_FILL_wide: return sign_of(t) * (float)exp2(check_uniform(t, -30, 30));
    case CHECK_FILL_positive: return (float)check_uniform(t, 0.5, 8);
    case CHECK_FILL_negative: return (float)check_uniform(t, -8, -0.5);
    case CHECK_FILL_alternate: return i % 2 ? -100 : 100;
    case CHECK_FILL_spike: return i % 29 == 3 ? 80 * sign_of(t) : (float)check_uniform(t, -0.01, 0.01);
    case CHECK_FILL_huge: return sign_of(t) * (float)exp2(check_uniform(t, 60, 127.9));
    case CHECK_FILL_special: return check_random(t) % 3 ? (float)check_uniform(t, -4, 4) : special[check_random(t) % 8];
    default: return (float)(check_uniform(t, -2, 2) + check_uniform(t, -2, 2));
    }
}

void check_fill(check *t, float *x, int64_t n, check_fill_kind kind)
{
    for (int64_t i = 0; i < n; i++) x[i] = element(t, i, kind);
}

const char *check_fill_name(check_fill_kind kind)
{
#define FILL(name, finite) #name,
    static const char *const names[] = {CHECK_FILL_ROWS(FILL)};
#undef FILL
    return names[kind];
}

bool check_fill_finite(check_fill_kind kind)
{
#define FILL(name, finite) finite,
    static const bool finites[] = {CHECK_FILL_ROWS(FILL)};
#undef FILL
    return finites[kind];
}

/* ---- verdicts -------------------------------------------------------------------------------- */

void check_where(check *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->where, sizeof t->where, fmt, args);
    va_end(args);
}

void check_fail(check *t, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (t->n_failures++ < 5) printf("  %s %s, %s: %s\n", qn_cpu_level_name(t->kernels->level), t->row, t->where, text);
}

void check_close(check *t, double got, double want, double bound, int64_t index)
{
    t->n_checks++;
    const bool fits = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= bound;
    if (!fits) check_fail(t, "element %lld is %.9g, %.9g expected within %.3g", (long long)index, got, want, bound);
}

void check_same(check *t, const float *got, const float *want, int64_t n, const char *than)
{
    t->n_checks++;
    if (n > 0 && memcmp(got, want, (size_t)n * 4) == 0) return;
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], 4) == 0 || (isnan(got[i]) && isnan(want[i]))) continue;
        check_fail(t, "element %lld is %a, %a %s", (long long)i, (double)got[i], (double)want[i], than);
        return;
    }
}

void check_same_bytes(check *t, const void *got, const void *want, size_t n, const char *than)
{
    const uint8_t *a = got, *b = want;
    t->n_checks++;
    for (size_t i = 0; i < n; i++) {
        if (a[i] == b[i]) continue;
        check_fail(t, "byte %zu is %02x, %02x %s", i, a[i], b[i], than);
        return;
    }
}

/* ---- rows that compute element by element ---------------------------------------------------- */

enum { SLOT_Y = 4, SLOT_REF = 5, MAX_IN = 4 };

double check_want(check *t, const check_each *each, const float *in, double *bound)
{
    check_oracle *o = &t->oracle;
    if (o->next == o->room) {
        o->room = o->room ? 2 * o->room : 1 << 16;
        o->answers = realloc(o->answers, o->room * sizeof *o->answers);
        if (!o->answers) {
            perror("check: realloc");
            exit(2);
        }
    }
    struct check_answer *a = &o->answers[o->next++];
    if (o->next > o->n) {
        a->exact = each->want(in, &a->bound);
        o->n = o->next;
    }
    *bound = a->bound;
    return a->exact;
}

/* A value does not depend on its index or on n. */
static void sub_ranges(check *t, const check_each *each, const float *y, const float *old, const float *const *in,
                       int64_t n)
{
    float part[64];
    for (int times = 0; times < 4 && n > 0; times++) {
        const int64_t at = (int64_t)(check_random(t) % (uint64_t)n);
        const int64_t left = n - at < 40 ? n - at : 40, count = 1 + (int64_t)(check_random(t) % (uint64_t)left);
        const float *from[MAX_IN] = {0};
        for (int i = 0; i < each->n_in; i++) from[i] = in[i] ? in[i] + at : NULL;
        if (each->adds) memcpy(part, old + at, (size_t)count * 4);
        each->call(t->kernels, part, from, count);
        check_same(t, part, y + at, count, "in the whole row");
    }
}

static void one_case(check *t, const check_each *each, int64_t n, check_fill_kind fill, check_place place)
{
    const float *in[MAX_IN] = {0};
    float *old = NULL;
    for (int i = 0; i < each->n_in + each->adds; i++) {
        float *x = check_floats(t, i, n, place);
        check_fill(t, x, n, fill);
        if (i < each->n_in)
            in[i] = x;
        else
            old = x;
    }
    float *y = check_floats(t, SLOT_Y, n, place), *want = check_floats(t, SLOT_REF, n, place);
    if (each->adds) {
        memcpy(y, old, (size_t)n * 4);
        memcpy(want, old, (size_t)n * 4);
    }
    each->call(t->kernels, y, in, n);
    each->call(t->ref, want, in, n);
    check_intact(t);
    check_same(t, y, want, n, "at level ref");
    for (int64_t j = 0; j < n && (!each->finite_only || check_fill_finite(fill)); j++) {
        float values[MAX_IN] = {0};
        double bound = 0;
        for (int i = 0; i < each->n_in; i++) values[i] = in[i][j];
        if (each->adds) values[each->n_in] = old[j];
        const double exact = check_want(t, each, values, &bound);
        check_close(t, y[j], exact, bound, j);
    }
    sub_ranges(t, each, y, old, in, n);
    for (int i = 0; i < each->n_in && !each->adds; i++) { /* y over each source; it is no source of later ones */
        const float *over[MAX_IN] = {in[0], in[1], in[2]};
        memcpy(want, in[i], (size_t)n * 4);
        over[i] = want;
        each->call(t->kernels, want, over, n);
        check_same(t, want, y, n, "out of place");
    }
    check_intact(t);
}

void check_elements(check *t, const check_each *each)
{
    if (t->bench) {
        const float *in[MAX_IN] = {0};
        for (int i = 0; i < each->n_in; i++) {
            float *x = check_floats(t, i, CHECK_BENCH_N, CHECK_AT_START);
            check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
            in[i] = x;
        }
        float *y = check_floats(t, SLOT_Y, CHECK_BENCH_N, CHECK_AT_START);
        memset(y, 0, CHECK_BENCH_N * 4);
        CHECK_BENCH(t, t->row, "GB/s", (each->n_in + 1 + each->adds) * 4 * CHECK_BENCH_N,
                    each->call(t->kernels, y, in, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                one_case(t, each, *n, (check_fill_kind)fill, (check_place)place);
            }
}

/* ---- time ------------------------------------------------------------------------------------ */

double check_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void check_report(check *t, const char *what, const char *unit, double amount, double seconds)
{
    printf("%-8s %-28s %9.2f %s\n", qn_cpu_level_name(t->kernels->level), what, amount / seconds / 1e9, unit);
    fflush(stdout);
}
