#!/bin/sh
# SPDX-License-Identifier: MIT
# What threads of quern serve do beside each other, with a model so small that the thread sanitizer watches it in seconds: it has no test
# of its own of anything else.
. "$1/tests/e2e/lib/common.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
cd "$work" || exit 1
expect 0 "$quern" synth tiny.gguf --preset tiny --vocab "$source/models/chat.gguf"
PYTHONDONTWRITEBYTECODE=1 python3 "$source/tests/e2e/serve/threads.py" "$quern" "$source" tiny.gguf >out 2>&1 || { bad "threads.py:"; tail -n 60 out; }
finish
