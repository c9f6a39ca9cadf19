#!/bin/sh
# SPDX-License-Identifier: MIT
# What a user runs into: memory that is not there, a context beyond training, a reader that goes away, a slip in a pattern, layers
# on two backends; loading policies, QUERN_LOG, and what --stats tells.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf

# A context too large: refused before it is taken, with both numbers and one that fits; every command asks.
expect 1 "$quern" run "$model" x -n 2 -c 268435456
one_line "a context of 268435456 tokens needs" "GiB" "free beside the weights" "the largest that fits is"
expect 1 "$quern" run "$model" x -n 2 -c 30000 -b 64 --memory-limit 12M
fits=$(sed -n 's/.*the largest that fits is \([0-9]*\).*/\1/p' "$work/err")
[ "$fits" -gt 300 ] || bad "\"$fits\" is no context: $(cat "$work/err")"
expect 0 "$quern" run "$model" x -n 2 -c "$fits" -b 64 --memory-limit 12M
expect 1 "$quern" run "$model" x -n 2 -c $((fits + 1)) -b 64 --memory-limit 12M
expect 0 "$quern" run "$model" x -n 2 -c 30000 --memory-limit none
expect 1 "$quern" graph "$model" --phase prompt --tokens 100000 --memory-limit 12M; one_line "100000 tokens"
expect 1 "$quern" eval "$model" --tokens 1,2,3 -o "$work/x.npy" --memory-limit 1M; one_line "3 tokens" "(memory_limit): none fits"
expect 1 "$quern" eval "$model" --tokens 1,2,3 -o "$work/x.npy" --memory 1M; one_line "3 tokens" "(memory): none fits"
expect 1 "$quern" bench "$model" -p 0 -n 1 -d 90000 -r 1 --memory-limit 12M; one_line "90001 tokens"
expect 2 "$quern" run "$model" x --memory-limit 12Q; one_line "12Q" "none"
expect 2 "$quern" run "$model" x --device-memory 1G; one_line "--device-memory" "--gpu-layers"
expect 1 "$quern" run "$model" x --load populate --memory-limit 100K; one_line "loading takes" "(memory_limit)" "lazy"

# A context beyond training: one warning, however far it goes; none up to there.
expect 0 "$quern" run "$model" "ROMEO:" -n 330 --temp 0 --ignore-eos -c 400; one_line "400 tokens of context" "trained for 256"
expect 0 "$quern" run "$model" "ROMEO:" -n 20 --temp 0 --ignore-eos
[ -s "$work/err" ] && { bad "a warning for nothing:"; cat "$work/err"; }

# A reader that goes away ends the program quietly, whatever the command.
closed() {
    { "$quern" "$@" 2>"$work/err"; echo $? >"$work/status"; } | head -n 1 >/dev/null
    [ -s "$work/err" ] && { bad "a closed pipe is worth words to: $*"; cat "$work/err"; }
    status=$(cat "$work/status")
    # 0 where all was written before the reader left
    [ "$status" -eq 141 ] || [ "$status" -eq 0 ] || bad "status $status after a closed pipe: $*"
}
closed run "$model" "ROMEO:" -n 4000 --ignore-eos -c 256
closed inspect "$model" --json
closed graph "$model" --svg
closed graph "$model" --plan
closed tokenize "$model" "To be or not to be"
closed synth --help
closed --help
closed eval "$model" --tokens 1,2,3,4,5,6,7,8,9,10,11,12 -o -
"$quern" run "$model" "ROMEO:" -n 4000 --ignore-eos -c 256 2>"$work/err" | true
[ -s "$work/err" ] && { bad "a closed pipe is worth words:"; cat "$work/err"; }

# A slip in a pattern; a path is named once.
expect 1 "$quern" run "$model" x -n 2 --backends cpu,cpu:ref --place 'nosuch*=1'; one_line 'nosuch*' "matches no weight" "inspect"
for command in "run $work/none.gguf x" "inspect $work/none.gguf" "run $model x --lora $work/none.gguf" "run $work x" \
    "tokenize $work/none.gguf x" "eval $model --tokens 1 -o $work/no/none.gguf" "export-lora $work/none.gguf x.gguf y.gguf"; do
    # shellcheck disable=SC2086
    "$quern" $command >/dev/null 2>"$work/err" </dev/null
    [ "$(grep -o "$work[a-z./]*" "$work/err" | sort | uniq -c | awk '{ print $1 }')" = 1 ] || { bad "not one path, once: $command"; cat "$work/err"; }
done

# A layer on another backend: no weight is copied in a run, the stream goes over once and comes back once.
expect 0 "$quern" run "$model" "ROMEO:" -n 8 --temp 0; cp "$work/out" "$work/one"
expect 0 "$quern" run "$model" "ROMEO:" -n 8 --temp 0 --backends cpu,cpu:ref --place 'blk.1.*=1' --stats "$work/stats"
cmp -s "$work/out" "$work/one" || bad "two backends write another text"
grep -q '"weight_transfers": 0,' "$work/stats" || { bad "weights were copied:"; cat "$work/stats"; }
grep -q '"n_splits": 3,' "$work/stats" || bad "not three splits"
expect 0 "$quern" graph "$model" --plan --backends cpu,cpu:ref --place 'blk.1.*=1'
[ "$(grep -c 'copy.*ffn_res' "$work/out")" -eq 2 ] || { bad "the stream:"; grep copy "$work/out"; }
grep -q 'copy.*weight' "$work/out" && { bad "a weight is copied:"; grep copy "$work/out"; }

# Loading: policies by name; bytes, seconds and speed; the log on request.
bytes=$(wc -c <"$model")
for policy in lazy populate ahead; do
    expect 0 "$quern" run "$model" "ROMEO:" -n 8 --temp 0 --load $policy --stats "$work/stats"
    cmp -s "$work/out" "$work/one" || bad "--load $policy writes another text"
done
expect 0 "$quern" run "$model" x -n 2 --temp 0 --load populate --stats "$work/stats"
grep -q "\"bytes\": $bytes,\|\"bytes\": $bytes\$" "$work/stats" || { bad "populate read not $bytes bytes"; cat "$work/stats"; }
grep -q '"gb_per_second": 0.0,' "$work/stats" && bad "populate at no speed"
expect 2 "$quern" run "$model" x --load eager; one_line "eager" "populate" "ahead"
expect 2 "$quern" run "$model" x --mlock --load lazy; one_line "exclude"
expect 0 "$quern" run "$model" "ROMEO:" -n 8 --temp 0 --populate; cmp -s "$work/out" "$work/one" || bad "--populate writes another text"
expect 0 "$quern" run "$model" x -n 2 --populate --load populate
expect 2 "$quern" run "$model" x --populate --load ahead; one_line "exclude" "--populate"
expect 2 "$quern" run "$model" x --populate --mlock; one_line "exclude"

# What the process may use in all: the same text, or a refusal that says what is missing.
for memory in auto 64G 26M; do
    expect 0 "$quern" run "$model" "ROMEO:" -n 8 --temp 0 -c 64 -b 16 --memory $memory --stats "$work/stats"
    cmp -s "$work/out" "$work/one" || bad "--memory $memory writes another text"
    grep -q '"kept_bytes": [1-9]' "$work/stats" || bad "--memory $memory keeps nothing"
done
expect 1 "$quern" run "$model" x -n 2 --memory 1; one_line "0 B of memory" "none fits"
expect 1 "$quern" run "$model" x -n 2 --memory 100K --load populate; one_line "loading takes" "(memory)" "lazy"
for memory in 0 -1 none 6Q 99999999999999999999 ''; do
    expect 2 "$quern" run "$model" x --memory "$memory"; one_line "--memory" "auto"
done

# Tensors in another order: the same keys, tensors and text.
tensors() { # name, size, type and bytes of two layers' and the last
    "$quern" inspect "$1" --csv | grep '^blk\.10\?\.\|^output' | while IFS=, read -r name offset size type rest; do
        echo "$name $size $type $(tail -c +$((offset + 1)) "$1" | head -c "$size" | cksum)"
    done | sort
}
expect 0 "$quern" synth "$work/twelve.gguf" --arch llama --layers 12 --embd 32 --heads 2 --ff 32 --vocab-size 300
expect 0 "$quern" run "$work/twelve.gguf" "x y z" -n 8 --temp 0 --trace "$work/t.qtr"; cp "$work/out" "$work/two"
expect 0 "$quern" reorder "$work/twelve.gguf" "$work/layers.gguf" --by layer
expect 0 "$quern" reorder "$work/twelve.gguf" "$work/traced.gguf" --trace "$work/t.qtr"
for file in layers traced; do
    expect 0 "$quern" run "$work/$file.gguf" "x y z" -n 8 --temp 0
    cmp -s "$work/out" "$work/two" || bad "$file writes another text"
    [ "$(tensors "$work/$file.gguf")" = "$(tensors "$work/twelve.gguf")" ] || bad "$file has other tensors"
done
expect 2 "$quern" reorder "$work/layers.gguf" "$work/layers.gguf"; one_line "layers.gguf" "another file"
expect 2 "$quern" reorder "$work/layers.gguf" "$work/x.gguf" --by layer --trace "$work/t.qtr"; one_line "exclude"
expect 2 "$quern" reorder "$work/layers.gguf" "$work/x.gguf" --by size; one_line "size" "layer"
expect 1 "$quern" reorder "$work/layers.gguf" "$work/x.gguf" --trace "$work/layers.gguf"; one_line "layers.gguf"
expect 1 "$quern" reorder "$work/layers.gguf" "$work/none/x.gguf"; one_line "none/x.gguf"
[ -e "$work/x.gguf" ] && bad "a refused reorder left a file"

# Locking is the system's to allow; a refusal says what to look at.
"$quern" run "$model" "ROMEO:" -n 8 --temp 0 --mlock >"$work/out" 2>"$work/err"
case $? in 0) cmp -s "$work/out" "$work/one" || bad "--mlock writes another text" ;; *) one_line "ulimit -l" ;; esac
QUERN_LOG=info "$quern" run "$model" x -n 2 --temp 0 --load populate >/dev/null 2>"$work/err"; one_line "loaded" "GB/s"
QUERN_LOG=loud "$quern" run "$model" x -n 2 --temp 0 >/dev/null 2>"$work/err"; one_line "QUERN_LOG" "loud" "info"
"$quern" --help | grep -q QUERN_LOG || bad "--help does not tell of QUERN_LOG"

# What operations cost: every one that ran, and in all no more than the runs took.
expect 0 "$quern" run "$model" "ROMEO:" -n 50 --temp 0 --stats "$work/stats"
for op in linear attention rms_norm; do grep -A 1 "\"op\": \"$op\"" "$work/stats" | grep -q '"count": [1-9]' || bad "no $op in --stats"; done
grep -q '"compute_ns": [1-9]' "$work/stats" || bad "no compute_ns"
grep -q '"mapped_bytes": [1-9]' "$work/stats" || bad "no mapped_bytes"
finish
