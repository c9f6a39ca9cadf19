/* SPDX-License-Identifier: MIT */
/* tests/unit/text/shorter.h -- long runs of one thing, and draws for statistics, are shorter by this factor under a
 * sanitizer, which finds in the rest nothing new and takes ten times as long. */
#ifndef QN_TEST_SHORTER_H
#define QN_TEST_SHORTER_H

#ifdef QN_CHECKED
enum { SHORTER = 8 };
#else
enum { SHORTER = 1 };
#endif

#endif
