#!/bin/sh
# SPDX-License-Identifier: MIT
# Lines of the pages end at 120 columns: tables and the targets of links excepted, which cannot be broken.
cd "$1" || exit 1
fail=0
for file in docs/*.md ./*.md; do
    awk -v limit=120 '
        /^\|/ { next }
        { line = $0; gsub(/\]\([^)]*\)/, "]", line); gsub(/https?:[^ ]*/, "", line) }
        length(line) > limit { print FILENAME ":" FNR ": " length(line) " columns"; found = 1 }
        END { exit found }' "$file" || fail=1
done
exit $fail
