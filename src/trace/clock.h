/* SPDX-License-Identifier: MIT */
/* src/trace/clock.h -- the clock of a recording: the processor's counter where it is one. */
#ifndef QN_TRACE_CLOCK_H
#define QN_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* It never stops and never changes its pace. */
bool qn__trace_counter_is_clock(void);
/* Both at one time: of a few tries the one that took least. */
void qn__trace_read_both(uint64_t *ticks, int64_t *ns);
/* What an event takes, in ns: two readings and a slot. */
double qn__trace_measure_event(void);

#endif
