/* SPDX-License-Identifier: MIT */
/* src/base/log.h -- lines for the log hook. Cheap when no hook is set. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H
#include <quern/base.h>
void qn__log(qn_log_level level, const char *fmt, ...) QN_PRINTF(2, 3);
#endif
