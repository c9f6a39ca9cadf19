#!/bin/sh
# SPDX-License-Identifier: MIT
# quern serve, with clients of Python's standard library: the answers of each dialect, and what strangers do. Each program starts servers
# of its own on free loopback ports.
. "$1/tests/e2e/lib/common.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
cd "$work" || exit 1
# Three at a time, the longest first, each in a folder of its own: most of what they do is to wait.
programs="leaving models strangers around tls"
for program in "$source"/tests/e2e/serve/*.py; do
    name=$(basename "$program" .py)
    case " $programs " in *" $name "*) continue ;; esac
    case $name in lib | clients* | threads) ;; *) programs="$programs $name" ;; esac
done
printf '%s\n' $programs | PYTHONDONTWRITEBYTECODE=1 xargs -P 3 -I NAME sh -c \
    'mkdir NAME && cd NAME && { python3 "$2/tests/e2e/serve/NAME.py" "$1" "$2" >out 2>&1 || touch failed; }' sh "$quern" "$source"
for name in $programs; do
    [ -e "$name/out" ] && [ ! -e "$name/failed" ] || { bad "$name.py:"; tail -n 60 "$name/out"; }
done
expect 2 "$quern" serve "$source/models/chat.gguf" --host 0.0.0.0; one_line "0.0.0.0" "--api-key" "--no-auth"
expect 2 "$quern" serve "$source/models/chat.gguf" --max-body x;   one_line "--max-body"
expect 2 "$quern" serve "$source/models/chat.gguf" --max-body "5 "; one_line "--max-body"
expect 2 "$quern" serve "$source/models/chat.gguf" -n 0;          one_line "--n-predict"
expect 2 "$quern" serve "$source/models/chat.gguf" --keep 3;       one_line "--keep" "--context-shift"
expect 2 "$quern" serve "$source/models/chat.gguf" --no-auth --api-key k; one_line "--no-auth" "--api-key" "exclude"
expect 2 "$quern" serve "$source/models/chat.gguf" --lora-init-without-apply; one_line "--lora-init-without-apply" "--lora LORA.gguf"
"$quern" serve "$source/models/chat.gguf" --port 0 2>"$work/first" & first=$!
for i in $(seq 600); do port=$(sed -n 's|.*://127.0.0.1:\([0-9]*\).*|\1|p' "$work/first" | head -n 1); [ -n "$port" ] && break; sleep 0.1; done
expect 1 "$quern" serve "$source/models/chat.gguf" --port "$port"; one_line "port $port" "in use" "--port N"
kill $first; wait $first
expect 1 "$quern" serve none.gguf --port 0;                       one_line "cannot read 'none.gguf'" "No such file"
expect 1 "$quern" serve "$source/models/chat.gguf" --port 0 --memory 1M; one_line "chat takes" "1.0 MiB are what models may take"
expect 1 "$quern" serve "$source/models/chat.gguf" --host 192.0.2.1 --api-key k --port 1; one_line "192.0.2.1"
finish
