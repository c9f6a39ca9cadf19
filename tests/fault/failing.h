/* SPDX-License-Identifier: MIT */
/* tests/fault/failing.h -- the N-th allocation fails, for every N until the operation gets through without meeting it:
 * once alone, as after a moment's shortage, and once with all that follow, so that cleaning up gets nothing either.
 * Each failure must be a clean nomem with a message, and give back every block. */
#ifndef QN_TEST_FAULT_FAILING_H
#define QN_TEST_FAULT_FAILING_H

#include "unit/engine/rig.h"
#include <stdatomic.h>

static struct {
    _Atomic long n;    /* allocations asked for since the last arming */
    _Atomic long live; /* blocks out at present */
    long fail_at;      /* -1: none */
    bool all_after;
} hook = {.fail_at = -1};

static inline void *hook_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    const long i = hook.n++;
    if (hook.fail_at >= 0 && (hook.all_after ? i >= hook.fail_at : i == hook.fail_at)) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, align, size) != 0) return NULL;
    hook.live++;
    return p;
}

static inline void hook_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx, (void)size;
    hook.live--;
    free(ptr);
}

static inline int hook_install(void **state)
{
    (void)state;
    qn_set_allocator(&(qn_allocator){hook_alloc, hook_release, NULL});
    return 0;
}

static inline int hook_remove(void **state)
{
    (void)state;
    qn_set_allocator(NULL);
    return hook.live == 0 ? 0 : -1; /* whatever the tests opened is closed */
}

static inline void hook_arm(long fail_at, bool all_after)
{
    hook.n = 0;
    hook.fail_at = fail_at;
    hook.all_after = all_after;
}

/* Does it, and undoes what stays: `live` must be where it was. */
typedef qn_status (*fault_fn)(void *ctx, qn_error *err);
/* Is the object that survived still good? Called with the hook at rest after every failure. */
typedef void (*fault_check)(void *ctx);

static inline void fault_sweep(const char *what, fault_fn fn, fault_check check, void *ctx)
{
    for (int all_after = 0; all_after < 2; all_after++) {
        long at = 0, n_failed = 0;
        for (bool through = false; !through; at++) {
            qn_error err = {0};
            const long before = hook.live;
            hook_arm(at, all_after);
            const qn_status status = fn(ctx, &err);
            through = hook.n <= at;
            hook_arm(-1, false);
            if (hook.live != before)
                fail_msg("%s, allocation %ld%s: %ld blocks are out, %ld before (%s)", what, at,
                         all_after ? " and after" : "", (long)hook.live, before, err.text);
            const bool survived = status == QN_OK && (through || !all_after);
            const bool clean =
                !through && status == QN_STATUS_nomem && err.status == status && err.text[0] && !strchr(err.text, '\n');
            if (!survived && !clean)
                fail_msg("%s, allocation %ld%s: %s, \"%s\" (%s:%d)", what, at, all_after ? " and after" : "",
                         qn_status_name(status), err.text, err.file, err.line);
            n_failed += clean;
            if (check) check(ctx);
            if (at > 20000) fail_msg("%s: no end", what);
        }
        if (all_after) printf("%s: %ld allocations\n", what, at - 1);
        assert_true(n_failed > 0); /* something was there to fail */
    }
}

#endif
