#!/bin/sh
# SPDX-License-Identifier: MIT
# Lines of C end at 120 columns, and .c and .h files are as .clang-format writes them (checked where clang-format 14 is installed,
# since each version writes a little differently).
cd "$1" || exit 1
fail=0
find src include tests bench examples -name '*.[ch]' -o -name '*.def' -o -name '*.inc' | sort >"$2/format.list"
long=$(xargs awk 'length > 120 { print FILENAME ":" FNR ": " length " columns" }' <"$2/format.list")
[ -z "$long" ] || { echo "$long"; fail=1; }
for tool in clang-format-14 clang-format; do
    command -v $tool >/dev/null 2>&1 || continue
    case $($tool --version) in *"version 14."*) ;; *) continue ;; esac
    off=$(grep '\.[ch]$' "$2/format.list" | xargs -P 2 -n 40 $tool --dry-run 2>&1 | grep 'warning:' | cut -d: -f1 | sort -u)
    [ -z "$off" ] || { echo "$off" | sed 's/$/: not as .clang-format has it (clang-format -i)/'; fail=1; }
    break
done
exit $fail
