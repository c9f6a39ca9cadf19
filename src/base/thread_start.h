/* SPDX-License-Identifier: MIT */
/* src/base/thread_start.h -- how base starts a thread; the only header that names pthreads. */
#ifndef QN_BASE_THREAD_START_H
#define QN_BASE_THREAD_START_H

#include <pthread.h>
#include <quern/base.h>
#include <signal.h>

/* `number` and `of` are for the message only. */
qn_status qn__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, int number, int of, qn_error *err);

#endif
