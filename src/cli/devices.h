/* SPDX-License-Identifier: MIT */
/* src/cli/devices.h -- which devices there are, and what they can do at most. */
#ifndef QN_CLI_DEVICES_H
#define QN_CLI_DEVICES_H

#include "cli/cli.h"
#include <quern/machine.h>

enum { CLI_MAX_DEVICES = 16 };

typedef struct cli_found_devices {
    int n;
    qn_device device[CLI_MAX_DEVICES];
    qn_device_peaks peaks[CLI_MAX_DEVICES];
    qn_error not_measured[CLI_MAX_DEVICES]; /* status OK: peaks are there; cancelled: they were not asked for */
    qn_error why;                           /* there are none; status QN_OK: nothing is to be said */
} cli_found_devices;

/* Each measured for about so many seconds a peak. A device whose memory is the host's is often the processor itself,
 * and slow: it is measured with `all` only. They are asked by a process of its own: a maker's library may end the one
 * that calls it (PoCL does where /sys is missing). */
void cli_find_devices(bool all, double seconds, cli_found_devices *out);

#endif
