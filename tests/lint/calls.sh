#!/bin/sh
# SPDX-License-Identifier: MIT
# Library code never exits, aborts, prints or reads the environment, and asks for memory in base/ only.
cd "$1" || exit 1
fail=0
library=$(find src -name '*.[ch]' -not -path 'src/cli/*')
# Comments and strings do not count.
check() {
    for file in $2; do
        sed -e 's:"\(\\.\|[^"\\]\)*":"":g' -e 's:/\*.*\*/::g' -e 's://.*::' -e '/^ \* /d' -e '/^\/\*/d' "$file" |
            grep -nE "(^|[^a-zA-Z0-9_.>])($1) *\(" | sed "s|^|$file:|" | grep . && fail=1
    done
}
check 'exit|_exit|abort|printf|puts|putchar|fprintf|getenv|setlocale|strtok|rand|srand' "$library"
check 'malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf' "$(echo "$library" | grep -v '^src/base/')"
# No switch on an op, dtype, architecture or backend: rows say what differs.
grep -rnE 'case QN_(OP|DTYPE|ARCH|BACKEND)_' src --include='*.c' --include='*.h' && { echo "a switch on rows"; fail=1; }
exit $fail
