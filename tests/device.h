/* SPDX-License-Identifier: MIT */
/* tests/device.h -- is a device there that computes? */
#ifndef QN_TEST_DEVICE_H
#define QN_TEST_DEVICE_H

#include "backend/backend.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool device_works(const char *backend)
{
#ifdef QN_CHECKED
    printf("not in a checked build: what sanitizers find is PoCL's own\n");
    return false;
#endif
    fflush(stdout);
    const pid_t child = fork(); /* a device's library may end the process that asks it */
    if (child == 0) {
        qn_backend *be = NULL;
        qn_error err = {0};
        int n = 0;
        const qn_status status = qn__backends_open(backend, NULL, 1, &be, &n, &err);
        if (status != QN_OK) fprintf(stderr, "%s\n", err.text);
        _exit(status != QN_OK);
    }
    int ended = 1;
    while (child > 0 && waitpid(child, &ended, 0) < 0 && errno == EINTR) {}
    if (ended != 0) printf("no device of %s that works here: nothing is tried\n", backend);
    return ended == 0;
}

#endif
