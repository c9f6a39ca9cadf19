#!/bin/sh
# SPDX-License-Identifier: MIT
# No function of the library has only tests for callers: what no public function and no row leads to is connected or goes. And each
# public function is used: by a command, an example, a page of docs/ or a test.
cd "$1" || exit 1
build=$2 fail=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { # TEXT FILE of names
    [ ! -s "$2" ] || { sed "s/\$/: $1/" "$2"; fail=1; }
}
# Every function has a section of its own: the linker names those that nothing exported leads to.
find "$build" -path '*/room_*' -name '*.o' >"$work/objects"
[ -s "$work/objects" ] || { echo "no objects in $build"; exit 1; }
${CC:-cc} -shared -nostdlib -o "$work/lib.so" -Wl,--gc-sections,--print-gc-sections "@$work/objects" 2>&1 |
    grep -oE '\.qn__[A-Za-z0-9_]+' | sed 's/^\.//' | sort -u >"$work/unreached"
# Some of these were inlined into all their callers, or are called by the files of another processor: the text tells, with the name
# that a line defines or declares taken away.
find src -name '*.[ch]' -o -name '*.def' -o -name '*.inc' | grep -v '^src/cli/' | xargs cat |
    sed 's/"\([^"\\]\|\\.\)*"//g; s|/\*.*\*/||; /^\/\*/,/\*\//d' >"$work/text"
grep -oE '\bqn__[A-Za-z0-9_]+' "$work/text" | sort -u >"$work/words"
sed -E 's/^([a-z][^(={]*[ *])?qn__[A-Za-z0-9_]+\(//' "$work/text" | grep -oE '\bqn__[A-Za-z0-9_]+' | sort -u >"$work/used"
find "$build" -name '*.o' -not -path '*/room_*' | xargs nm -u | grep -oE '\bqn_[A-Za-z0-9_]+' | sort -u >"$work/asked"
# A room that records operations by their rows leads to their builders too.
find src -name '*.[ch]' -o -name '*.def' | grep -vE '^src/(graph|backend|cpu)/' | xargs grep -ohE '\bQN_OP_[a-z0-9_]+' |
    sed 's/QN_OP_/qn__/' | sort -u - "$work/used" -o "$work/used"
# A name that no file spells is pasted together by a macro, and so are its calls: only a test's reference counts then.
{ cat "$work/words" "$work/asked" | sort -u | comm -12 "$work/unreached" -
    sed -n 's/^static inline [^(]*[ *]\(qn__[a-z0-9_]*\)(.*/\1/p' "$work/text" | sort -u
} | sort -u | comm -23 - "$work/used" >"$work/bare"
say "nothing leads to it but tests" "$work/bare"
# Public functions, by what the objects of the program and the tests refer to, and by the words of examples and pages.
nm -D --defined-only "$build/libquern.so" | grep -oE '\bqn_[a-z0-9_]+$' | sort -u >"$work/public"
[ -s "$work/public" ] || { echo "$build/libquern.so exports nothing"; exit 1; }
find examples docs README.md -type f | xargs cat | grep -aoE '\bqn_[a-z0-9_]+' | sort -u - "$work/asked" >"$work/named"
comm -23 "$work/public" "$work/named" >"$work/idle"
say "no command, example, page or test uses it" "$work/idle"
exit $fail
