/* SPDX-License-Identifier: MIT */
/* src/serve/histogram.h -- how often something took how long, as Prometheus has it. */
#ifndef QN_SERVE_HISTOGRAM_H
#define QN_SERVE_HISTOGRAM_H

#include "serve/text.h"
#include <stdint.h>

/* Upper ends of the buckets in seconds; what takes longer is counted in `n` alone. */
#define HISTOGRAM_BOUNDS 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120
enum { HISTOGRAM_BUCKETS = 16 };

typedef struct histogram {
    uint64_t n, bucket[HISTOGRAM_BUCKETS]; /* each value is in one bucket */
    double sum;                            /* seconds */
} histogram;

void histogram_add(histogram *h, double seconds);
/* The lines of one labelled series: name_bucket, name_sum, name_count. label: 'model="x"'. */
void histogram_put(text *t, const char *name, const char *label, const histogram *h);
/* The same of other bounds, [n]. */
void histogram_put_buckets(text *t, const char *name, const char *label, const double *bounds, const uint64_t *buckets,
                           int n, uint64_t count, double sum);

#endif
