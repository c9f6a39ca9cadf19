#!/bin/sh
# SPDX-License-Identifier: MIT
# quern run: the text that NumPy gives, and an independent engine, at every level, thread count and batch; the prompt by every road; counters;
# errors.
. "$1/tests/e2e/lib/common.sh"

# The same text however it is computed. check_text MODEL PROMPT TOKENS WANT KEPT: with other cache types at least KEPT bytes are the same.
check_text() {
    for level in ref avx2 avxvnni avx512 amx; do
        for threads in 1 2 3; do
            expect 0 "$quern" run "$1" "$2" -n $3 --temp 0 --cpu $level -t $threads
            cmp -s "$work/out" "$4" || { bad "text differs at $level, $threads threads"; diff "$work/out" "$4"; }
        done
    done
    for kv in f32 bf16; do
        expect 0 "$quern" run "$1" "$2" -n $3 --temp 0 --kv-type $kv
        head -c $5 "$work/out" >"$work/a"; head -c $5 "$4" | cmp -s - "$work/a" || bad "text differs with KV $kv"
    done
    # The prompt from a pipe, from "-", from a file; --quiet leaves it out.
    printf '%s' "$2" >"$work/prompt"
    for how in "" "-"; do
        "$quern" run "$1" $how -n $3 --temp 0 <"$work/prompt" >"$work/out" 2>"$work/err" || bad "prompt by pipe ($how)"
        cmp -s "$work/out" "$4" || bad "text differs when the prompt is piped ($how)"
    done
    expect 0 "$quern" run "$1" -f "$work/prompt" -n $3 --temp 0
    cmp -s "$work/out" "$4" || bad "text differs with -f"
    expect 0 "$quern" run "$1" "$2" -n $3 --temp 0 --quiet
    sed "1s/^$2//" "$4" | cmp -s - "$work/out" || bad "--quiet"
    [ -s "$work/err" ] && { bad "standard error is not empty:"; cat "$work/err"; }
}

# By NumPy (tests/oracle/shakespeare.py).
model=$source/models/shakespeare.gguf
check_text "$model" "Good morrow" 60 "$source/tests/e2e/shakespeare/greedy.txt" 150
# How fast it was, where it is asked for.
expect 0 "$quern" run "$model" "Good morrow" -n 60 --temp 0 -q --show-timings
n_prompt=$("$quern" tokenize "$model" "Good morrow" | tr ',' '\n' | grep -c .)
grep -qE "^quern run: prompt $n_prompt tokens in [0-9.]+ s, [0-9.]+ tokens/s; written 60 in [0-9.]+ s, [0-9.]+ tokens/s\$" "$work/err" ||
    { bad "no times:"; cat "$work/err"; }
# By another engine: the quotation in the README beside the model.
stories=$shared/models/stories260K.gguf
if [ -e "$stories" ]; then
    sed -n 's/^> \{0,1\}//p' "$shared/models/README.md" >"$work/want"
    check_text "$stories" "Once upon a time" 120 "$work/want" 150
else
    echo "skipped: a second model, no $stories"
fi

# A stop string ends before itself; the same seed gives the same text, other seeds others.
expect 0 "$quern" run "$model" "Good morrow" -n 60 --temp 0 --stop "of this cause"
[ "$(cat "$work/out")" = "$(printf 'Good morrow,\nAnd, in the city ')" ] || bad "--stop: $(cat "$work/out")"
expect 0 "$quern" run "$model" "Once" -n 40 -s 7 ; cp "$work/out" "$work/a"
expect 0 "$quern" run "$model" "Once" -n 40 -s 7 ; cmp -s "$work/out" "$work/a" || bad "seed 7 twice"
expect 0 "$quern" run "$model" -p "Once" -n 40 -s 7 ; cmp -s "$work/out" "$work/a" || bad "-p"
expect 0 "$quern" run "$model" "Once" -n 40 -s 8 ; cmp -s "$work/out" "$work/a" && bad "seed 8 is seed 7"

# Every step's graph, with times.
mkdir "$work/graphs"
expect 0 "$quern" run "$model" Once -n 3 --temp 0 --graph-dir "$work/graphs"
for n in 0 1 2; do grep -q '^digraph' "$work/graphs/token_0000$n.dot" || bad "no graph of step $n"; done
expect 1 "$quern" run "$model" Once -n 3 --graph-dir "$work/none"; one_line "No such file"

# Counters of a decode: one parse, one scheduler, few builds, nothing allocated once warm. -c goes past what the model was trained for.
expect 0 "$quern" run "$model" "Once upon a time" -n 200 --temp 0 --ignore-eos -c 256 --stats "$work/stats.json"
for want in '"gguf_parses": 1' '"sched_created": 1' '"allocs_after_warmup": 0' '"decode_tokens": 200'; do
    grep -q "$want\b" "$work/stats.json" || { bad "no $want in:"; cat "$work/stats.json"; }
done
builds=$(sed -n 's/.*"graph_builds": \([0-9]*\).*/\1/p' "$work/stats.json")
# The worst case, a prompt's size with the same but for one token (what grows is learnt from the two), and one token.
[ "$builds" -le 4 ] || bad "$builds graph builds"

# Mistakes: status 2 for usage, 1 for failures, one line that says what and why.
expect 2 "$quern" run;                                        one_line "argument is missing"
expect 2 "$quern" run "$model" x --temp abc;                  one_line "--temp" "abc"
expect 2 "$quern" run "$model" x --temp -1;                   one_line "--temp"
expect 2 "$quern" run "$model" x -p y;                        one_line "twice" "--prompt"
expect 2 "$quern" run "$model" x -t 0;                        one_line "--threads"
expect 2 "$quern" run "$model" x -t 99999999999999999999;     one_line "--threads"
expect 2 "$quern" run "$model" x --frobnicate;                one_line "--frobnicate"
expect 2 "$quern" run "$model" x -n;                          one_line "--predict"
expect 2 "$quern" run "$model" x --cpu avx9;                  one_line "avx9" "avx2"
expect 2 "$quern" run "$model" x --kv-type q3;                one_line "q3"
expect 2 "$quern" run "$model" x --kv-type q4_k;              one_line "q4_k" "Q4_0"
expect 2 "$quern" frob;                                       one_line "frob"
expect 1 "$quern" run "$work/none.gguf" x;                    one_line "none.gguf" "No such file"
expect 1 "$quern" run "$work" x;                              one_line "directory"
expect 1 "$quern" run "$source/models/README.md" x;           one_line "GGUF"
expect 1 "$quern" run "$model" "Once upon a time" -c 3;       one_line "6 tokens" "3"
LC_ALL=C sed 's/\(general.architecture............\)llama/\1other/' "$source/tests/unit/text/vocab/spm.gguf" >"$work/other.gguf"
expect 1 "$quern" run "$work/other.gguf" x;                   one_line '"other"' "quern synth --help"
expect 0 "$quern" run --help
expect 0 "$quern" --help
expect 0 "$quern" --version

# A full disk: the text to /dev/full, statistics to a full device.
if [ -e /dev/full ]; then
    "$quern" run "$model" Once -n 5 --temp 0 >/dev/full 2>"$work/err"; [ $? -eq 1 ] || bad "no failure on a full disk"
    one_line "No space left"
fi
# What taps collected outlives an interrupted run.
"$quern" run "$model" Once -n 30000 -c 32768 --ignore-eos --tap "ffn_out-*=stats=$work/st.csv" >"$work/out" 2>"$work/err" &
pid=$!; tries=0
until [ "$(wc -c <"$work/out")" -gt 200 ] || [ $tries -gt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -INT $pid; wait $pid; [ $? -eq 130 ] || bad "status of an interrupted run"
[ -s "$work/st.csv" ] || bad "an interrupted run lost its taps"
# A reader that goes away ends the run.
"$quern" run "$model" Once -n 2000 --ignore-eos -c 4096 2>"$work/err" | head -c 20 >/dev/null
# A file that shrinks while it is mapped.
finish
