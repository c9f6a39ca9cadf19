/* SPDX-License-Identifier: MIT */
/* src/cli/trace_perfetto.h -- a trace as Perfetto reads it. */
#ifndef QN_CLI_TRACE_PERFETTO_H
#define QN_CLI_TRACE_PERFETTO_H

#include "cli/trace.h"

int trace_write_perfetto(qn_trace *t, FILE *out);

#endif
