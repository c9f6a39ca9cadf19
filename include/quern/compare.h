/* SPDX-License-Identifier: MIT */
/* quern/compare.h -- one graph on two backends, node by node on the same inputs: which node gives other values, and
 * how other.
 *
 * The session computes as ever, on its own backends. Each node is computed a second time, alone, on the other backend,
 * from the very sources that it had; so a difference is of that node and not of one before it. Nothing that the other
 * computes goes into the session's results. */
#ifndef QUERN_COMPARE_H
#define QUERN_COMPARE_H

#include <quern/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Borrowed, as all of qn_compared is: valid during the call. */
typedef struct qn_compared_value {
    const char *name, *op; /* as the graph prints them; names may be "" */
    int layer;             /* -1 outside layers */
    qn_dtype dtype;
    qn_shape shape;
    float min, max;       /* of its finite elements; 0 and 0 without any */
    int64_t n_not_finite; /* NaN and infinite */
} qn_compared_value;

typedef struct qn_compared {
    qn_compared_value value; /* of the session; of a node that writes into memory, that memory as it is then */
    const char *why;         /* why the other backend does not compute this node; NULL: it did */
    int64_t n;               /* elements */
    int64_t n_differ;        /* with other bits; a NaN is the same as any NaN */
    /* Of the element that differs most: its place, row-major, and both values. -1 when none does. */
    int64_t at;
    float first, second;
    double distance;  /* |first - second|; infinite where one is not finite */
    uint64_t ulps;    /* float32 numbers from one to the other, the largest of all elements; UINT64_MAX with a NaN */
    double largest;   /* finite magnitude of the value */
    int32_t n_tokens; /* of the step */
    /* what was computed from; min, max and n_not_finite are there only when a value differs */
    const qn_compared_value *sources;
    int n_sources;
} qn_compared;

/* Called for every node that computes, in order, by the thread that decodes. A failure stops the decode, which then
 * fails with it. */
typedef qn_status (*qn_compare_fn)(void *ctx, const qn_compared *c, qn_error *err);

/* From the next decode on; `backend` is one of those that qn_engine_options.backends names ("cpu:ref", "opencl:0"),
 * with n_threads (0: the default). NULL ends it, as qn_session_destroy does. It takes the place of the callback of
 * qn_session_set_eval. On failure nothing has changed. Threads: as qn_session_decode. */
QN_API qn_status qn_session_compare(qn_session *session, const char *backend, int n_threads, qn_compare_fn fn,
                                    void *ctx, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
