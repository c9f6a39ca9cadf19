#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What one program takes beside another: pairs.py [--rounds N] [--core N] 'COMMAND' 'COMMAND'..

Each of the others runs beside the first, both at once on one core, so that whatever else slows the machine slows both:
where runs in turn differ by 20 %, the quotients of such pairs differ by less than half a percent. What counts is
processor time, of all threads; the median of the pairs' quotients is printed, with their quartiles. For programs that
compute with one thread; others would wait for each other. Linux."""
import argparse
import os
import shlex
import statistics
import sys


def start(command, core):
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {core})
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    return pid


def seconds(commands, core):
    """What each took, in processor time."""
    pids = [start(c, core) for c in commands]
    taken = {}
    for _ in pids:
        pid, status, usage = os.wait4(-1, 0)
        if status:
            raise SystemExit("pairs.py: %s: status %d" % (shlex.join(commands[pids.index(pid)]), status))
        taken[pid] = usage.ru_utime + usage.ru_stime
    return [taken[pid] for pid in pids]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    args = parser.parse_args()
    first, *others = [shlex.split(c) for c in args.commands]
    if not others or args.rounds < 2:
        parser.error("two commands, and two rounds, at least")
    quotients = [[] for _ in others]
    for i in range(args.rounds):
        for k, other in enumerate(others):
            pair = [first, other]
            taken = seconds(pair[:: -1 if i % 2 else 1], args.core)[:: -1 if i % 2 else 1]
            quotients[k].append(100 * (taken[1] / taken[0] - 1))
    for q in quotients:
        low, middle, high = statistics.quantiles(q, n=4)
        print("%+.2f %% (%+.2f to %+.2f)" % (middle, low, high))
    return 0


if __name__ == "__main__":
    sys.exit(main())
