#!/bin/sh
# SPDX-License-Identifier: MIT
# ./try.sh [MODEL.gguf "PROMPT" [quern run options]] -- installs what is missing, builds, and generates text: with the model of
# models/ when none is named. Says then how to talk with one.
set -eu
cd "$(dirname "$0")"
if [ $# -lt 1 ]; then
    set -- "$PWD/models/shakespeare.gguf" "ROMEO:
" -n 70 --temp 0.7 --seed 5 # what README shows
fi
case $1 in
/*) model=$1 ;;
*) model=$OLDPWD/$1 ;;
esac
shift
. tools/need.sh
need_build
[ -x build/quern ] || echo "Building: two minutes on two cores, the first time" >&2
cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
if [ -t 2 ]; then
    cmake --build build --target quern >&2 # counts
else
    cmake --build build --target quern >/dev/null || { cmake --build build --target quern >&2; exit 1; }
fi
build/quern run "$model" "$@"
printf '\nTo talk with a model: build/quern chat models/chat.gguf\n' >&2
