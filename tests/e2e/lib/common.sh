# SPDX-License-Identifier: MIT
# tests/e2e/lib/common.sh -- sourced by the scripts of tests/e2e: $source and $build from the arguments, a scratch folder, small asserts.
set -u
source=$(cd "$1" && pwd) && build=$(cd "$2" && pwd) || exit 1 # scripts change folders and look for the program in PATH
quern=$build/quern
shared=${QN_SHARED_DIR:-$source/../shared}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
ok() { :; }
bad() { echo "FAILED: $*"; failures=$((failures + 1)); }
need_shared() { [ -e "$shared/$1" ] || { echo "skipped: no shared/$1"; exit 77; }; }
# expect STATUS COMMAND...: runs it, standard output to $work/out, standard error to $work/err.
expect() {
    want=$1
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" -eq "$want" ] || { bad "status $got, $want expected: $*"; cat "$work/err"; }
}
# one_line TEXT...: standard error of the last command is one line that holds every TEXT.
one_line() {
    [ "$(wc -l <"$work/err")" -eq 1 ] || { bad "not one line on standard error:"; cat "$work/err"; }
    for text in "$@"; do grep -qF -- "$text" "$work/err" || { bad "no \"$text\" in: $(cat "$work/err")"; }; done
}
# sanitized: whether an address sanitizer looks on
sanitized() { grep -q __asan_init "$quern"; }
finish() { [ $failures -eq 0 ] && echo passed; exit $((failures > 0)); }
