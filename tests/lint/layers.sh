#!/bin/sh
# SPDX-License-Identifier: MIT
# Includes point downward only. The rooms that a room may see are read from CMakeLists.txt, so there is one list.
cd "$1" || exit 1
fail=0
for room in $(sed -n 's/^set(QN_ROOMS \(.*\))$/\1/p' CMakeLists.txt); do
    sees=$(sed -n "s/^set(QN_SEES_$room *\(.*\))\$/\1/p" CMakeLists.txt)
    found=$(grep -rnoE '#include "[a-z0-9_]+/' "src/$room" --include='*.[ch]' --include='*.def' --include='*.inc' 2>/dev/null | sed 's/#include "\([a-z0-9_]*\)\//\1/')
    for line in $found; do
        target=${line##*:}
        [ "$target" = "$room" ] && continue
        case " $sees " in
        *" $target "*) ;;
        *) echo "$line: $room may not see $target (it sees: $sees)"; fail=1 ;;
        esac
    done
done
# The server and the program see the public headers and what they own; the program starts the server.
grep -rnE '#include "' src/serve --include='*.[ch]' --include='*.def' | grep -v '#include "serve/' && { echo "serve may include only <quern/...> and its own"; fail=1; }
grep -rnE '#include "' src/cli --include='*.[ch]' --include='*.def' | grep -vE '#include "(cli/|serve/(serve|stop)\.h")' && { echo "cli may include only <quern/...>, its own, and serve/serve.h and stop.h"; fail=1; }
exit $fail
