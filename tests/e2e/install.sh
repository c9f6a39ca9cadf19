#!/bin/sh
# SPDX-License-Identifier: MIT
# The installed library serves a program by pkg-config and by find_package: examples/generate.c generates the expected text with both.
. "$1/tests/e2e/lib/common.sh"
grep -q '^QN_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && { echo "skipped: a sanitized library needs a sanitized program"; exit 77; }
cmake --install "$build" --prefix "$work/usr" >"$work/log" 2>&1 || { cat "$work/log"; bad "install"; finish; }
libdir=$(dirname "$(find "$work/usr" -name 'libquern.so' | head -n 1)")
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
cc -std=c17 -Wall -Wextra -Werror "$source/examples/generate.c" -o "$work/shared-program" $(pkg-config --cflags --libs quern) -Wl,-rpath,"$libdir" || bad "pkg-config, shared"
cc -std=c17 "$source/examples/generate.c" -o "$work/static-program" $(pkg-config --cflags quern) "$libdir/libquern.a" $(pkg-config --static --libs-only-l quern | sed 's/-lquern//') || bad "pkg-config, static"
mkdir "$work/find"
cat >"$work/find/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(find_quern C)
find_package(quern REQUIRED)
add_executable(found generate.c)
target_link_libraries(found quern::quern)
END
cp "$source/examples/generate.c" "$work/find/"
{ cmake -G Ninja -S "$work/find" -B "$work/find/build" -DCMAKE_PREFIX_PATH="$work/usr" && cmake --build "$work/find/build"; } >"$work/log" 2>&1 || { cat "$work/log"; bad "find_package"; }
# C++ programs see the same headers.
if command -v c++ >/dev/null; then
    printf '#include <quern/engine.h>\n#include <quern/npy.h>\nint main() { return qn_version()[0] == 0; }\n' >"$work/t.cc"
    c++ -Wall -Wextra -Werror "$work/t.cc" -o "$work/t" $(pkg-config --cflags --libs quern) -Wl,-rpath,"$libdir" && "$work/t" || bad "C++"
fi
if [ -e "$shared/models/stories260K.gguf" ]; then
    for program in "$work/shared-program" "$work/static-program" "$work/find/build/found"; do
        expect 0 "$program" "$shared/models/stories260K.gguf" "Once upon a time" 60
        grep -q '^, there was a little girl named Lily. She loved to play' "$work/out" || { bad "$program:"; cat "$work/out"; }
    done
fi
[ "$(grep -c . "$source/examples/generate.c")" -le 60 ] || bad "the example is longer than a page"
finish
