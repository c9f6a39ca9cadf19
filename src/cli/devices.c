/* SPDX-License-Identifier: MIT */
/* src/cli/devices.c -- devices, found and measured by a process of its own. */
#include "cli/devices.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static void measure(cli_found_devices *f, bool all, double seconds)
{
    for (int i = 0; i < f->n; i++) {
        if (f->device[i].integrated && !all)
            f->not_measured[i].status = QN_STATUS_cancelled;
        else
            (void)qn_device_measure(f->device[i].backend, seconds, &f->peaks[i], &f->not_measured[i]);
    }
}

void cli_find_devices(bool all, double seconds, cli_found_devices *out)
{
    int ends[2];
    *out = (cli_found_devices){0};
    if (pipe(ends) != 0) return;
    fflush(stdout); /* or the child has it, too */
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO);
        out->n = qn_devices_get(out->device, CLI_MAX_DEVICES, &out->why);
        measure(out, all, seconds);
        _exit(write(ends[1], out, sizeof(*out)) != (ssize_t)sizeof(*out));
    }
    close(ends[1]);
    char *to = (char *)out;
    size_t got = 0;
    for (ssize_t n; child > 0 && got < sizeof(*out) && (n = read(ends[0], to + got, sizeof(*out) - got)) != 0;)
        if (n > 0)
            got += (size_t)n;
        else if (errno != EINTR)
            break;
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    if (child > 0 && got == sizeof(*out)) return;
    *out = (cli_found_devices){.why = {.status = QN_STATUS_unsupported}};
    snprintf(out->why.text, sizeof(out->why.text), "a device's library ended the process that asked for its devices");
}
