/* SPDX-License-Identifier: MIT */
/* src/base/metrics.c -- the process-wide counters. A row whose text says "(a gauge)" survives a reset. */
#include "base/metrics.h"
#include <string.h>

qn_metrics_atomic qn__metrics;

void qn_metrics_snapshot(qn_metrics *out)
{
#define READ(name, text) out->name = QN_METRIC_READ(name);
    QN_METRIC_ROWS(READ)
#undef READ
}

void qn_metrics_reset(void)
{
#define ZERO(name, text) \
    if (strstr(text, "(a gauge)") == NULL) atomic_store_explicit(&qn__metrics.name, 0, memory_order_relaxed);
    QN_METRIC_ROWS(ZERO)
#undef ZERO
    atomic_store_explicit(&qn__metrics.peak_bytes, QN_METRIC_READ(live_bytes), memory_order_relaxed);
}
