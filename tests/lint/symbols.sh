#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports exactly what the public headers declare.
cd "$1" || exit 1
lib=$2/libquern.so
[ -e "$lib" ] || { echo "no $lib"; exit 1; }
declared=$(for h in include/quern/*.h; do ${CC:-cc} -E -P -Iinclude "$h"; done | sed 's/__attribute__((visibility("default")))/QN_API/g' | tr '\n' ' ' | grep -oE 'QN_API [^;({]*\b(qn_[a-z0-9_]+)\(' | sed 's/.*\b\(qn_[a-z0-9_]*\)($/\1/' | sort -u)
exported=$(nm -D --defined-only "$lib" | awk '{print $3}' | sed 's/@.*//' | grep -vE '^(_init|_fini|__|_edata|_end|_bss)' | sort -u)
[ -n "$declared" ] || { echo "found no declarations"; exit 1; }
diff_out=$(printf '%s\n' "$declared" >"$2/declared.txt"; printf '%s\n' "$exported" | diff "$2/declared.txt" -)
[ -z "$diff_out" ] && exit 0
echo "declared (<) and exported (>) differ:"; echo "$diff_out"; exit 1
