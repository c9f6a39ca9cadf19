/* SPDX-License-Identifier: MIT */
/* src/base/log.c -- lines for the log hook. The pair (function, context) is read under a lock of a few instructions and
 * called outside it, so a hook may itself log or replace the hook. */
#include "base/log.h"
#include "base/str.h"
#include <stdatomic.h>
#include <stdarg.h>

static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic bool present;
static qn_log_fn hook;
static void *hook_ctx;

static void take(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {}
}

static void give(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

void qn_set_log(qn_log_fn fn, void *ctx)
{
    take();
    hook = fn;
    hook_ctx = ctx;
    give();
    atomic_store_explicit(&present, fn != NULL, memory_order_release);
}

void qn__log(qn_log_level level, const char *fmt, ...)
{
    if (!atomic_load_explicit(&present, memory_order_acquire)) return;
    take();
    const qn_log_fn fn = hook;
    void *const ctx = hook_ctx;
    give();
    if (fn == NULL) return;

    char line[1024];
    va_list args;
    va_start(args, fmt);
    qn__vformat(line, sizeof line, fmt, args);
    va_end(args);
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 && *p != '\t') *p = ' ';
    }
    fn(ctx, level, line);
}
