#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/soak for 20 seconds where a sanitizer looks on, for 5 otherwise.
. "$1/tests/e2e/lib/common.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
seconds=5
sanitized && seconds=20
PYTHONDONTWRITEBYTECODE=1 python3 "$source/tests/soak/soak.py" "$quern" "$source" $seconds >"$work/out" 2>&1 || { bad "soak:"; tail -n 40 "$work/out"; }
finish
