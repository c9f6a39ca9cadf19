#!/bin/sh
# SPDX-License-Identifier: MIT
# Library code never exits, aborts, prints or reads the environment, and asks for memory in base/ only.
cd "$1" || exit 1
fail=0
library=$(find src -name '*.[ch]' -not -path 'src/cli/*' -not -path 'src/serve/*')
# Comments and strings do not count.
check() {
    # shellcheck disable=SC2086
    awk -v calls="(^|[^a-zA-Z0-9_.>])($1) *[(]" '
        /^ \* / || /^\/\*/ { next }
        {
            line = $0
            gsub(/"(\\.|[^"\\])*"/, "\"\"", line)
            gsub(/\/\*.*\*\//, "", line)
            sub(/\/\/.*/, "", line)
            if (line ~ calls) { print FILENAME ":" FNR ":" $0; found = 1 }
        }
        END { exit !found }' $2 && fail=1
}
check 'exit|_exit|abort|printf|puts|putchar|fprintf|getenv|setlocale|strtok|rand|srand' "$library"
check 'malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf' "$(echo "$library" | grep -v '^src/base/')"
# No switch on an op, dtype, architecture or backend: rows say what differs.
grep -rnE 'case QN_(OP|DTYPE|ARCH|BACKEND)_' src --include='*.c' --include='*.h' && { echo "a switch on rows"; fail=1; }
exit $fail
