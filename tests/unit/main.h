/* SPDX-License-Identifier: MIT */
/* tests/unit/main.h -- the arguments of the running test program, for a test that starts itself again. */
#ifndef QN_TEST_MAIN_H
#define QN_TEST_MAIN_H

extern int test_argc;
extern char **test_argv; /* [test_argc] */

#endif
