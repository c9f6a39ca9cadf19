#!/bin/sh
# SPDX-License-Identifier: MIT
# README's sample is what comes, to the letter, at every level and number of threads, and what try.sh asks for.
. "$1/tests/e2e/lib/common.sh"
# The command and its output: the indented lines from "    $ build/quern run" on, up to the next paragraph.
sed -n '/^    \$ build\/quern run/,/^[^ ]/p' "$source/README.md" | sed '/^[^ ]/d; s/^    //' >"$work/sample"
[ "$(grep -c . "$work/sample")" -ge 6 ] || { bad "README has no sample:"; cat "$work/sample"; }
sed -n '1s/^\$ build\/quern//p; 2p' "$work/sample" >"$work/command"
sed '1,2d' "$work/sample" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$work/want"
cd "$source" || exit 1
for options in "" "-t 1 --cpu ref" "-t 3 -b 1"; do
    eval "set -- $(cat "$work/command")"
    # shellcheck disable=SC2086
    "$quern" "$@" $options >"$work/out" 2>"$work/err" </dev/null || { bad "README's command fails ($options)"; cat "$work/err"; }
    cmp -s "$work/out" "$work/want" || { bad "README's sample differs ($options):"; diff "$work/out" "$work/want"; }
done
grep -q -- "$(sed -n '2s/^" //p' "$work/sample")" "$source/try.sh" || bad "try.sh asks for something else than README shows"
finish
