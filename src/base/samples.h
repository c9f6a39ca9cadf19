/* SPDX-License-Identifier: MIT */
/* src/base/samples.h -- page faults of one thread, and when it lost its core, as the kernel samples them
 * (perf_event_open, which an ordinary user may up to perf_event_paranoid 2): into a ring that the kernel fills and one
 * reader empties. The thread itself pays for a fault, some 2 us, and nothing while there are none. */
#ifndef QN_BASE_SAMPLES_H
#define QN_BASE_SAMPLES_H

#include <quern/base.h>

typedef enum qn_sample_kind {
    QN_SAMPLE_fault, /* begins, at the address `at` */
    QN_SAMPLE_minor, /* it is served */
    QN_SAMPLE_major, /* likewise; the kernel counts it as one that waited for the disk */
    QN_SAMPLE_out,   /* the thread lost its core, though it could have gone on */
    QN_SAMPLE_in,    /* it has one again, whyever it had none */
    QN_SAMPLE_lost   /* `at` samples found no room */
} qn_sample_kind;

typedef struct qn_sample {
    qn_sample_kind kind;
    int64_t ns; /* CLOCK_MONOTONIC */
    uint64_t at;
} qn_sample;

enum { QN_SAMPLE_EVENTS = 3 };
typedef struct qn_samples {
    bool open;
    int fd[QN_SAMPLE_EVENTS];
    uint64_t id[QN_SAMPLE_EVENTS];
    void *ring;
    size_t ring_bytes, page;
} qn_samples; /* zeroed: not open */

/* Of the calling thread, from now on. 0, or what errno said; then nothing is open. */
int qn__samples_open(qn_samples *s);
void qn__samples_close(qn_samples *s);
/* Up to n of them, oldest first; 0 when there are no more now. One reader at a time. */
size_t qn__samples_read(qn_samples *s, qn_sample *to, size_t n);

/* perf_event_open(2) of the calling thread: a descriptor, or -1 and errno. Tests put another in its place, while
 * nothing is recorded. */
extern int (*qn__samples_event)(void *attr);

#endif
