/* SPDX-License-Identifier: MIT */
/* tests/standin/fibers.c -- the work-items of a group by turns: each runs to its next MEET, on a stack of its own. That
 * a barrier is met by all of a group or none is checked; the order of work-items changes from group to group, so that
 * a barrier that misses shows in the results. */
#include "dialect.h"
#include "kernels.h"

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

enum { MAX_WIDTH = 1024, STACK = 65536, MAX_ROOM = 65536 };

int64_t standin_group;
int32_t standin_lane, standin_width;
void *standin_room;

typedef enum state { IDLE, AT_BARRIER, DONE } state;
static struct {
    ucontext_t context;
    jmp_buf at;
    state state;
    char *stack; /* NULL: not begun */
} fibers[MAX_WIDTH];
static ucontext_t first_context;
static jmp_buf turns;
static bool alone; /* the work-item at hand runs on the caller's stack: the first of its group has met no barrier */
static const standin_kernel *kernel;
static void **arguments;
static uint64_t room[MAX_ROOM / 8];

/* Switching by _setjmp and _longjmp asks nothing of the system, as swapcontext would. */
static void yield(int lane, state s)
{
    fibers[lane].state = s;
    if (_setjmp(fibers[lane].at) == 0) _longjmp(turns, 1);
}

void standin_meet(void)
{
    if (alone) _longjmp(turns, 1);
    yield(standin_lane, AT_BARRIER);
}

static const char *run_rest(int width)
{
    alone = true;
    const bool met = _setjmp(turns) != 0;
    if (!met)
        for (standin_lane = 1; standin_lane < width; standin_lane++) kernel->run(arguments);
    alone = false;
    return met ? "a barrier that not all of a group reach" : NULL;
}

static void body(void)
{
    const int lane = standin_lane;
    for (;;) {
        kernel->run(arguments);
        yield(lane, DONE);
    }
}

static int resume(int lane)
{
    standin_lane = lane;
    if (_setjmp(turns) != 0) return 1;
    if (fibers[lane].stack) _longjmp(fibers[lane].at, 1);
    fibers[lane].stack = malloc(STACK);
    if (!fibers[lane].stack || getcontext(&fibers[lane].context) != 0) return 0;
    fibers[lane].context.uc_stack.ss_sp = fibers[lane].stack;
    fibers[lane].context.uc_stack.ss_size = STACK;
    makecontext(&fibers[lane].context, body, 0);
    (void)swapcontext(&first_context, &fibers[lane].context);
    return 0;
}

static const char *run_group(int width)
{
    if (!resume(0)) return "no memory for a work-item's stack";
    if (fibers[0].state == DONE) return run_rest(width);
    for (int rounds = 0;; rounds++) {
        int met = rounds == 0;
        for (int i = rounds == 0; i < width; i++) {
            const int lane = rounds > 0 && (standin_group + rounds) % 2 ? width - 1 - i : i;
            if (!resume(lane)) return "no memory for a work-item's stack";
            met += fibers[lane].state == AT_BARRIER;
        }
        if (met == 0) return NULL;
        if (met != width) return "a barrier that not all of a group reach";
    }
}

const char *standin_run(const standin_kernel *which, uint32_t n_groups, uint32_t width, uint32_t room_bytes,
                        void **given)
{
    if (width > MAX_WIDTH || room_bytes > MAX_ROOM) return "more than a device has";
    kernel = which;
    arguments = given;
    standin_width = (int32_t)width;
    standin_room = room;
    for (uint32_t g = 0; g < n_groups; g++) {
        standin_group = g;
        memset(room, 0xa7, room_bytes); /* no group finds anything there */
        const char *wrong = run_group((int)width);
        if (wrong) return wrong;
    }
    return NULL;
}
