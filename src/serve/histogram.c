/* SPDX-License-Identifier: MIT */
/* src/serve/histogram.c -- see histogram.h. */
#include "serve/histogram.h"

static const double bounds[HISTOGRAM_BUCKETS] = {HISTOGRAM_BOUNDS};

void histogram_add(histogram *h, double seconds)
{
    int i = 0;
    while (i < HISTOGRAM_BUCKETS && seconds > bounds[i]) i++;
    if (i < HISTOGRAM_BUCKETS) h->bucket[i]++;
    h->n++;
    h->sum += seconds;
}

/* Buckets are written as sums: of all values up to each bound. */
void histogram_put_buckets(text *t, const char *name, const char *label, const double *ends, const uint64_t *buckets,
                           int n, uint64_t count, double sum)
{
    uint64_t below = 0;
    for (int i = 0; i < n; i++) {
        below += buckets[i];
        text_printf(t, "quern_%s_bucket{%s,le=\"%g\"} %llu\n", name, label, ends[i], (unsigned long long)below);
    }
    text_printf(t, "quern_%s_bucket{%s,le=\"+Inf\"} %llu\n", name, label, (unsigned long long)count);
    text_printf(t, "quern_%s_sum{%s} %.17g\n", name, label, sum);
    text_printf(t, "quern_%s_count{%s} %llu\n", name, label, (unsigned long long)count);
}

void histogram_put(text *t, const char *name, const char *label, const histogram *h)
{
    histogram_put_buckets(t, name, label, bounds, h->bucket, HISTOGRAM_BUCKETS, h->n, h->sum);
}
