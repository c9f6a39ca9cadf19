#!/bin/sh
# SPDX-License-Identifier: MIT
# Threads follow the quota of a cgroup (v1 or v2, whichever the machine has): under one CPU there is one, since two would wait for each
# other while they are not let run.
. "$1/tests/e2e/lib/common.sh"
[ "$(nproc)" -gt 1 ] || { echo "skipped: one CPU"; exit 77; }
root=/sys/fs/cgroup
if [ -e $root/cpu/cpu.cfs_quota_us ]; then
    group=$root/cpu/quern-quota-$$
elif grep -qw cpu $root/cgroup.subtree_control 2>/dev/null; then
    group=$root/quern-quota-$$
else
    echo "skipped: no cgroup has a quota here"; exit 77
fi
mkdir "$group" 2>/dev/null || { echo "skipped: no cgroup may be made"; exit 77; }
trap 'rmdir "$group"; rm -rf "$work"' EXIT
{ if [ -e "$group/cpu.max" ]; then
    echo "100000 100000" >"$group/cpu.max"
else
    echo 100000 >"$group/cpu.cfs_period_us" && echo 100000 >"$group/cpu.cfs_quota_us"
fi; } 2>/dev/null || { echo "skipped: no quota may be set"; exit 77; }
within() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
within true 2>/dev/null || { echo "skipped: nothing may be moved into a cgroup"; exit 77; }

threads() { sed -n 's/.*"threads": \([0-9]*\),.*/\1/p' "$work/stats" | head -n 1; }
expect 0 "$quern" run "$source/models/shakespeare.gguf" "ROMEO:" -n 8 --temp 0 -t 2 --quiet --stats "$work/stats"
mv "$work/out" "$work/want"
expect 0 within "$quern" run "$source/models/shakespeare.gguf" "ROMEO:" -n 8 --temp 0 --quiet --stats "$work/stats"
[ "$(threads)" = 1 ] || bad "$(threads) threads under a quota of one CPU"
cmp -s "$work/want" "$work/out" || bad "another answer under a quota"
expect 0 within "$quern" doctor
grep -q "quota 1.00" "$work/out" && grep -q "^threads  *1 by default" "$work/out" || { bad "doctor:"; cat "$work/out"; }
finish
