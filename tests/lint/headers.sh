#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public header stands alone, in C and in C++; quern/quern.h includes them all; and who includes what a task is about has what the
# task needs: gradients are switched off and on in programs of quern/ops.h, and in those of quern/nn.h.
cd "$1" || exit 1
fail=0
t=$2/headers.$$
compiles() { # LANGUAGE TEXT: what the compiler says, nothing when it compiles
    printf "$2" | case $1 in
    c) ${CC:-cc} -std=c17 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c - ;;
    c++) c++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - ;;
    esac >"$t" 2>&1 || { fail=1; echo "$1: $3"; head -n 5 "$t"; }
}
n=0
for language in c c++; do
    command -v $([ $language = c ] && echo "${CC:-cc}" || echo c++) >/dev/null || continue
    for header in include/quern/*.h; do
        n=$((n + 1))
        compiles $language "#include <quern/${header##*/}>\nint main(void) { return 0; }\n" "$header alone"
    done
    for header in quern ops nn; do
        compiles $language "#include <quern/$header.h>\nvoid f(qn_context *c, qn_tensor *t) { (void)qn_set_grad_enabled(c, false); (void)qn_backward(qn_relu(t)); }\n" \
            "$header.h has no gradients or no operations"
    done
done
for header in include/quern/*.h; do
    name=${header##*/}
    [ "$name" = quern.h ] || grep -q "^#include <quern/$name>" include/quern/quern.h || { fail=1; echo "quern.h does not include $name"; }
done
rm -f "$t"
[ "$n" -ge 18 ] || { fail=1; echo "only $n headers were compiled"; }
exit $fail
