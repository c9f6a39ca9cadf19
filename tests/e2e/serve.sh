#!/bin/sh
# SPDX-License-Identifier: MIT
# quern serve, with clients of Python's standard library: the answers of each dialect, and what strangers do. Each program starts servers
# of its own on free loopback ports.
. "$1/tests/e2e/lib/common.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
cd "$work" || exit 1
for program in "$source"/tests/e2e/serve/*.py; do
    case $program in */lib.py | */clients*.py | */threads.py) continue ;; esac
    PYTHONDONTWRITEBYTECODE=1 python3 "$program" "$quern" "$source" >"$work/out" 2>&1 || { bad "${program##*/}:"; tail -n 60 "$work/out"; }
done
expect 2 "$quern" serve "$source/models/chat.gguf" --host 0.0.0.0; one_line "0.0.0.0" "--api-key" "--no-auth"
expect 2 "$quern" serve "$source/models/chat.gguf" --max-body x;   one_line "--max-body"
expect 1 "$quern" serve "$source/models/chat.gguf" --host 192.0.2.1 --api-key k --port 1; one_line "192.0.2.1"
finish
