#!/bin/sh
# SPDX-License-Identifier: MIT
# The page of quern serve in a browser, driven through WebDriver (Debian's chromium and chromium-driver).
. "$1/tests/e2e/lib/common.sh"
sanitized && { echo "skipped: a browser takes 22 s of processor time and sees the same page; e2e_serve drives the server"; exit 77; }
for program in python3 chromium chromedriver; do
    command -v $program >/dev/null 2>&1 || { echo "skipped: no $program"; exit 77; }
done
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
cd "$work" || exit 1
part() { # one file of tests: each has servers and a browser of its own, and mostly waits
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source/tests/e2e/serve" HOME="$work/$1" TMPDIR="$work/$1" \
        python3 "$source/tests/e2e/page/$1.py" "$quern" "$source" >"$work/$1.out" 2>&1
    echo $? >"$work/$1.status"
}
mkdir page session
part session &
part page
wait
for name in page session; do
    [ "$(cat $name.status)" -eq 0 ] || { bad "$name.py:"; tail -n 60 $name.out; }
done
finish
