/* SPDX-License-Identifier: MIT */
/* tests/standin/standin.h -- what a test sets and reads of the stand-in for libcuda.so.1 (and libamdhip64.so), which it
 * opens by path before the driver asks for it: the loader then gives the same one to both. */
#ifndef QN_TESTS_STANDIN_H
#define QN_TESTS_STANDIN_H

#include <stdint.h>

typedef struct standin {
    /* Set by the test. */
    int fail_at;           /* this call fails with fail_code; 0: none does. Calls that give something back never do */
    int fail_code;         /* 0: 719 */
    int devices;           /* that are there */
    uint64_t memory_bytes; /* of each */

    /* Counted since standin_reset. */
    int calls, launches, captures, replays, writes, reads, syncs, allocs;
    int rows, tiles;     /* launches of kernels for devices with warps: rows_NAME, tile_NAME */
    int live;            /* objects that are still there */
    uint64_t live_bytes; /* of the devices' memory */
    int n_wrong;         /* breaches of the rules */
    char wrong[512];     /* the first */
} standin;

/* Exported by the library. */
standin *standin_state(void);
int standin_launched(const char *kernel); /* whether it ever was, whatever was reset since */
void standin_reset(void);                 /* counters and settings; what is live stays */

#endif
