#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/count_checks.sh [SHARED] -- how many of the tests' assertions run here, with the material of SHARED (../shared) and without it.
#
# A place is a line of a test that asserts: assert_* and fail_msg of cmocka and what tests/ builds of them, check_* of tests/check, REQUIRE of
# the fuzz targets, and in scripts expect, one_line, says and bad. It ran when the line was reached, or, where it only says what is
# wrong (fail_msg, bad), the line before it that decides. "evaluated" is how often C places were. Tests' own files are compiled with
# gcc's coverage for that, the library is not; scripts are traced. A place that ran in no case is listed with --list.
set -eu
cd "$(dirname "$0")/.."
list=
[ "${1:-}" = --list ] && { list=1; shift; }
material=$(realpath -m "${1:-../shared}")
dir=$PWD/build-count
jobs=$(nproc)
mkdir -p "$dir"
seen=$dir/shared # what the tests take for SHARED: a link that is there in one run and not in the other
cmake -G Ninja -B "$dir" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DQN_COUNT_CHECKS=ON -DQN_SHARED_DIR="$seen" >"$dir/log"
cmake --build "$dir" >"$dir/log" || { tail -n 60 "$dir/log"; exit 1; }

one_run() { # NAME: leaves NAME.c (count file:line) and NAME.sh (file:line)
    find "$dir" -name '*.gcda' -delete
    ctest --test-dir "$dir" -j "$jobs" -E '^(e2e|fault|golden)_|^lint_' -V >"$dir/$1.log" 2>&1 || { grep -E 'FAILED|\*\*\*' "$dir/$1.log"; exit 1; }
    (cd "$dir" && find . -name '*.gcda' | xargs -r gcov -t 2>/dev/null) | awk -v root="$PWD/" -v dir="$dir/" '
        { split($0, f, ":"); n = f[1]; line = f[2] + 0; gsub(/[ *]/, "", n) }
        line == 0 && f[3] == "Source" { file = f[4]; sub(root, "", file); sub(/^\.\.\//, "", file); next }
        n == "-" || line == 0 || file !~ /^tests\// { next }
        { count[file ":" line] += (n ~ /^[#=]/ ? 0 : n) }
        END { for (k in count) print count[k], k }' >"$dir/$1.c"
    : >"$dir/$1.trace"
    for script in tests/e2e/*.sh; do
        rm -f "$dir/out"
        # PS4 is set in there, because bash takes none from root's environment.
        QN_SHARED_DIR=$seen BASH_XTRACEFD=9 bash --posix -c 'PS4="+ \${BASH_SOURCE}:\${LINENO} "; set -x; traced=$1; shift; . "$traced"' \
            sh "$script" "$PWD" "$dir" 9>>"$dir/$1.trace" >"$dir/out" 2>&1 || [ $? -eq 77 ] || { cat "$dir/out"; echo "FAILED $script"; exit 1; }
        grep '^skipped' "$dir/out" >>"$dir/$1.log" || :
    done
    sed -n 's/^+* \([^ ]*:[0-9]*\) .*/\1/p' "$dir/$1.trace" | sed "s|^$PWD/||" | sort -u >"$dir/$1.sh"
}
ln -sfn "$material" "$seen"
[ -d "$material" ] && one_run with
rm -f "$seen"
one_run without

# FILE:LINE of each place, by what the line says; comments and definitions are none. Behind it how many lines up it may have been decided.
places() {
    grep -nE '\<(assert_[a-z_]+|fail_msg|fail|MUST|REFUSED|REQUIRE|EXPECT[A-Z_]*|check_(close|same|same_bytes|intact|elements|fail|refusal))\(' \
        $(git ls-files 'tests/*.c' 'tests/*.h') | grep -vE ':[0-9]+:(#define|/\*| \*|static|void|bool)' |
        awk -F: '{ print $1 ":" $2, /fail(_msg)?\(/ ? 4 : 0 }'
}
script_places() {
    grep -nE '(^|[^a-z_"$])(expect|one_line|says|bad) ' tests/e2e/*.sh | grep -vE ':[0-9]+: *#' | cut -d: -f1,2
}
ran() { # NAME: of the places on standard input those that ran, with how often
    awk -v run="$dir/$1.c" '
        BEGIN { while ((getline l < run) > 0) { split(l, f, " "); count[f[2]] = f[1] } }
        { split($1, f, ":"); n = 0; for (back = 0; back <= $2 && !n; back++) n = count[f[1] ":" f[2] - back]; if (n) print n, $1 }'
}
ran_scripts() {
    awk -v run="$dir/$1.sh" '
        BEGIN { while ((getline l < run) > 0) seen[l] = 1 }
        { split($0, f, ":"); for (back = 0; back < 3; back++) if (seen[f[1] ":" f[2] - back]) { print 1, $0; break } }'
}
echo
for name in with without; do
    [ -e "$dir/$name.c" ] || continue
    places | ran $name >"$dir/$name.places"
    script_places | ran_scripts $name >"$dir/$name.scripts"
    printf '%-8s %6d places in C of %d, evaluated %.0f times; %d in scripts of %d; %d cmocka tests, %d of them skipped\n' "$name" \
        "$(wc -l <"$dir/$name.places")" "$(places | wc -l)" "$(awk '{ n += $1 } END { print n }' "$dir/$name.places")" \
        "$(wc -l <"$dir/$name.scripts")" "$(script_places | wc -l)" \
        "$(grep -cE '\[ +(OK|SKIPPED|  SKIPPED) +\]' "$dir/$name.log")" "$(grep -cE '\[ +SKIPPED +\] [a-z]' "$dir/$name.log")"
done
if [ -e "$dir/with.places" ]; then
    cat "$dir/with.places" "$dir/with.scripts" | cut -d' ' -f2 | sort >"$dir/a"
    cat "$dir/without.places" "$dir/without.scripts" | cut -d' ' -f2 | sort >"$dir/b"
    echo "without: $(awk "BEGIN { printf \"%.1f\", 100 * $(wc -l <"$dir/b") / $(wc -l <"$dir/a") }") % of the places that run with it; only with it:"
    comm -23 "$dir/a" "$dir/b" | sed 's/^/    /'
fi
echo "reasons given without it:"
grep -hoE 'skipped: .*' "$dir/without.log" | sort | uniq -c
if [ -n "$list" ]; then
    echo "places that never ran:"
    { places | cut -d' ' -f1; script_places; } | sort | comm -23 - <(sort -u "$dir"/[ab] 2>/dev/null)
fi
