#!/bin/sh
# SPDX-License-Identifier: MIT
# Every room has unit tests; every source file of a room has a test of its name, or one that names a function which the file defines, or
# a row in tests/lint/covered.txt; and every kernel row and every operation has its check.
cd "$1" || exit 1
fail=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rooms=$(sed -n 's/^set(QN_ROOMS \(.*\))$/\1/p' CMakeLists.txt)
for room in $rooms; do
    ls tests/unit/"$room"/*.c >/dev/null 2>&1 || { echo "tests/unit/$room: no tests"; fail=1; }
done
for name in $(sed -n 's/^QN_KERNEL(\([a-z0-9_]*\),.*/\1/p' src/cpu/kernel/kernels.def); do
    grep -rq "CHECK_KERNEL($name)\|check_$name\b" tests/check || { echo "kernel $name: no check"; fail=1; }
done

# What tests name, comments left out.
sed 's/ .*//; s/^/QN_OP_/' tests/unit/cpu/tensor_ops.txt | sort -u >"$work/rows"
find tests/unit tests/check tests/golden tests/fault -name '*.[ch]' -o -name '*.inc' | xargs cat |
    sed 's|/\*.*\*/||; /^ *\/\*/,/\*\//d; s|//.*||' | grep -oE '\bqn_[A-Za-z0-9_]+\(?|\bQN_OP_[a-z0-9_]+' |
    sort -u - "$work/rows" >"$work/named"
# An operation is checked by its enum entry, by a call of the builder of its name, or by rows of tensor_ops.txt.
sed -n 's/^QN_OP(\([a-z0-9_]*\), *\(compute\|update\),.*/\1/p' src/graph/ops.def | sort >"$work/ops"
[ -s "$work/ops" ] || { echo "found no operations"; fail=1; }
while read -r op; do
    grep -qx "QN_OP_$op\|qn__$op(" "$work/named" || { echo "op $op: no check"; fail=1; }
done <"$work/ops"

# A file's own functions start their lines. A driver, qn__cpu_op_NAME, is an operation's.
for room in $rooms; do find "src/$room" -name '*.c'; done | sort >"$work/sources"
find tests/unit tests/check -name '*.c' | sed 's|.*/||; s|\.c$||' | sort -u >"$work/tests"
xargs awk '
    FILENAME == ARGV[1] { sub(/\($/, ""); named[$0] = 1; next }
    FILENAME == ARGV[2] { mirror[$0] = 1; next }
    FNR == 1 { if (file != "" && !covered) print file; file = FILENAME; base = file; gsub(/.*\/|\.c$/, "", base); covered = base in mirror }
    /^const qn_cpu_op qn__cpu_op_/ || (/^[a-z]/ && match($0, /qn_[a-z0-9_]+\(/) && $0 !~ /;$/) {
        name = $0
        if (name ~ /qn__cpu_op_/) { covered = 1; next }
        name = substr(name, RSTART, RLENGTH - 1)
        if (name in named) covered = 1
    }
    END { if (!covered) print file }' "$work/named" "$work/tests" <"$work/sources" >"$work/open"
# covered.txt: SOURCE TEST WORD, the first two with wildcards. NAME in WORD is the name of the source file.
while read -r source test word; do
    case $source in '' | '#'*) continue ;; esac
    used=
    while read -r file; do
        # shellcheck disable=SC2254
        case $file in $source) ;; *) continue ;; esac
        used=1
        name=$(basename "$file" .c)
        want=$(echo "$word" | sed "s/NAME/$name/")
        # shellcheck disable=SC2086
        grep -qwiF -e "$want" $test 2>/dev/null || { echo "tests/lint/covered.txt: $test does not name $want ($file)"; fail=1; }
        echo "$file" >>"$work/covered"
    done <"$work/open"
    [ "$used" ] || { echo "tests/lint/covered.txt: $source is not needed"; fail=1; }
done <tests/lint/covered.txt
touch "$work/covered"
sort -u "$work/covered" | comm -23 "$work/open" - | sed 's/$/: no test names it, and no row of tests\/lint\/covered.txt/' >"$work/bare"
[ ! -s "$work/bare" ] || { cat "$work/bare"; fail=1; }
exit $fail
