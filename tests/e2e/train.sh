#!/bin/sh
# SPDX-License-Identifier: MIT
# quern train: text to a model that runs; killed at any moment and resumed it gives the same numbers; configuration files; mistakes.
. "$1/tests/e2e/lib/common.sh"

awk 'BEGIN { split("the cat sat on a mat every dog barks at night softly and sings to old moons", w, " "); s = 3
    for (i = 0; i < 4000; i++) { s = (s * 75 + 74) % 65537; printf "%s%s", w[s % 16 + 1], s % 7 == 0 ? ".\n" : " " } }' >"$work/text"
shape="--layers 2 --embd 32 --heads 4 --kv-heads 2 --ctx 24 --vocab-size 300 --batch 4 --lr 4e-3 --dropout 0.1 --seed 5 --eval-every 10"

# The model runs, and the loss has fallen.
expect 0 "$quern" train "$work/text" -o "$work/a.gguf" $shape --steps 60 -t 1 --log "$work/a.csv" --curve "$work/a.svg" --name "a <cat>"
grep -Eq "step 60/60 loss .* tokens/s, [0-9]+ % of peak" "$work/err" || { bad "no line of the last step:"; cat "$work/err"; }
[ "$(wc -l <"$work/a.csv")" -eq 61 ] || bad "$(wc -l <"$work/a.csv") lines of CSV"
awk -F, 'NR == 2 { first = $3 } END { exit !($3 < 0.75 * first && $5 > 0 && $5 < 3.5) }' "$work/a.csv" || { bad "the loss:"; sed -n '1,2p;$p' "$work/a.csv"; }
grep -q '<polyline class="held" points="[0-9]' "$work/a.svg" && grep -q "a &lt;cat" "$work/a.svg" || bad "the curve"
expect 0 "$quern" run "$work/a.gguf" "the cat" -n 20 -s 1
[ "$(wc -c <"$work/out")" -gt 20 ] || bad "the model says nothing: $(cat "$work/out")"
expect 0 "$quern" inspect "$work/a.gguf" --verify

# On a terminal narrower than the line of a step nothing of that line stays.
tm() { tmux -u -S "$work/tmux" -f /dev/null "$@" 2>/dev/null; }
for columns in 80 40; do
    command -v tmux >/dev/null && tm new-session -d -s t -x $columns -y 60 \
        "'$quern' train '$work/text' -o '$work/t.gguf' $shape --embd 64 --steps 800 -t 1 --eval-every 200; touch '$work/over'; sleep 60" || continue
    for i in $(seq 600); do [ -e "$work/over" ] && break; sleep 0.1; done
    tm capture-pane -p -t t >"$work/screen"
    tm kill-server
    rm -f "$work/over"
    grep -q "step 800/800" "$work/screen" || bad "a training on $columns columns"
    grep -qE '[[]=|b/B' "$work/screen" && { bad "the bar of a training stays on $columns columns:"; cat "$work/screen"; }
    sleep 0.5 # the server that was told to end may still be there
done

# Killed somewhere, three times, and resumed with another number of threads: the same log and the same file.
for seconds in 0.08 0.15 0.22; do
    "$quern" train "$work/text" -o "$work/b.gguf" $shape --steps 60 -t 2 --log "$work/b.csv" --checkpoint "$work/b.ckpt" --checkpoint-every 7 --resume \
        --name "a <cat>" >/dev/null 2>&1 &
    sleep $seconds
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
done
expect 0 "$quern" train "$work/text" -o "$work/b.gguf" $shape --steps 60 -t 2 --log "$work/b.csv" --checkpoint "$work/b.ckpt" --checkpoint-every 7 --resume --name "a <cat>"
cmp -s "$work/a.csv" "$work/b.csv" || { bad "the log of a resumed run differs"; diff "$work/a.csv" "$work/b.csv" | head -5; }
cmp -s "$work/a.gguf" "$work/b.gguf" || bad "the model of a resumed run differs"

cp "$work/b.ckpt" "$work/kept.ckpt"
expect 2 "$quern" train "$work/text" -o "$work/x.gguf" $shape --checkpoint "$work/b.ckpt"; one_line "b.ckpt is there: --resume goes on with it"
cmp -s "$work/b.ckpt" "$work/kept.ckpt" || bad "a checkpoint was replaced"

# Ctrl-C: what is kept, and how it goes on.
for options in "--checkpoint $work/int.ckpt" ""; do
    "$quern" train "$work/text" -o "$work/x.gguf" $shape --steps 100000 -t 1 $options 2>"$work/err" &
    for i in $(seq 600); do grep -q "^step " "$work/err" && break; sleep 0.1; done
    kill -INT $!
    wait $!
    [ $? -eq 130 ] || bad "status of an interrupted training"
    tail -n 1 "$work/err" >"$work/last"; mv "$work/last" "$work/err"
    if [ -n "$options" ]; then one_line "interrupted; $work/int.ckpt keeps step" "--resume"; else one_line "interrupted after step" "nothing of it is kept"; fi
done
[ -s "$work/int.ckpt" ] || bad "no checkpoint of an interrupted training"

# So do SIGTERM and SIGHUP, unless the latter is ignored already, as under nohup.
for signal in TERM HUP; do
    case $signal-$(awk '/^SigIgn/ { print $2 }' /proc/self/status) in HUP-*[13579bdf]) continue ;; esac
    rm -f "$work/int.ckpt"
    "$quern" train "$work/text" -o "$work/x.gguf" $shape --steps 100000 -t 1 --checkpoint "$work/int.ckpt" 2>"$work/err" &
    for i in $(seq 600); do grep -q "^step " "$work/err" && break; sleep 0.1; done
    kill -$signal $!
    wait $!
    [ $? -eq 130 ] || bad "status of a training that SIG$signal ended"
    tail -n 1 "$work/err" >"$work/last"; mv "$work/last" "$work/err"
    one_line "interrupted; $work/int.ckpt keeps step" "--resume"
    [ -s "$work/int.ckpt" ] || bad "no checkpoint after SIG$signal"
done

# A training that ran out of patience has ended: gone on with, it writes the same model and learns nothing more.
lost="--layers 1 --embd 32 --heads 2 --ctx 32 --vocab-size 300 --steps 400 --lr 0.1 --min-lr 0.1 --warmup 1 --eval-every 1 --patience 1 -t 1"
expect 0 "$quern" train "$work/text" -o "$work/p.gguf" $lost --checkpoint "$work/p.ckpt" --log "$work/p.csv"
[ "$(wc -l <"$work/p.csv")" -lt 400 ] || bad "patience never ended"
cp "$work/p.csv" "$work/p1.csv"
expect 0 "$quern" train "$work/text" -o "$work/q.gguf" $lost --checkpoint "$work/p.ckpt" --log "$work/p.csv" --resume
cmp -s "$work/p.csv" "$work/p1.csv" || bad "a training out of patience went on: $(wc -l <"$work/p1.csv") lines, then $(wc -l <"$work/p.csv")"
cmp -s "$work/p.gguf" "$work/q.gguf" || bad "a training out of patience wrote another model"
expect 2 "$quern" train "$work/text" -o "$work/x.gguf" $shape --patience 2 --eval-fraction 0; one_line "--patience" "--eval-fraction 0"

# The same by a file of options; the command line counts more. Quantized: smaller.
{ echo "# a comment"; echo "text = $work/text"; echo "output = $work/none.gguf"; echo "tied = true"; echo
  echo "$shape --steps 12" | sed 's/--\([a-z-]*\) \([^ ]*\) */\1 = \2\n/g'; } >"$work/conf"
expect 0 "$quern" train --config "$work/conf" -o "$work/c.gguf" --type Q8_0
[ -e "$work/none.gguf" ] && bad "the configuration's output was written"
expect 0 "$quern" train --config "$work/conf" -o "$work/d.gguf" --type F32
[ $(($(wc -c <"$work/c.gguf") * 2)) -lt "$(wc -c <"$work/d.gguf")" ] || bad "Q8_0 is not smaller"
expect 0 "$quern" run "$work/c.gguf" "the cat" -n 5 --temp 0

# Layers computed again in backward: the same losses and model in less memory. BF16: nearly the same losses.
expect 0 "$quern" train "$work/text" -o "$work/e.gguf" $shape --layers 6 --ctx 96 --batch 6 --steps 8 -t 1 --log "$work/e.csv"
most=$(grep -oE '[0-9]+ MiB of memory' "$work/err" | cut -d' ' -f1)
expect 0 "$quern" train "$work/text" -o "$work/f.gguf" $shape --layers 6 --ctx 96 --batch 6 --steps 8 -t 1 --log "$work/f.csv" --grad-checkpointing
least=$(grep -oE '[0-9]+ MiB of memory' "$work/err" | cut -d' ' -f1)
cmp -s "$work/e.csv" "$work/f.csv" && cmp -s "$work/e.gguf" "$work/f.gguf" || bad "--grad-checkpointing changes losses or model"
[ "$least" -lt "$most" ] || bad "--grad-checkpointing takes $least MiB of $most"
expect 0 "$quern" train "$work/text" -o "$work/g.gguf" $shape --layers 6 --ctx 96 --batch 6 --steps 8 -t 1 --log "$work/g.csv" --bf16
paste -d, "$work/e.csv" "$work/g.csv" | awk -F, 'NR > 1 { d = $3 - $8; n += d != 0; if (d < 0) d = -d; if (d > 0.02) far = 1 } END { exit far || !n }' ||
    { bad "--bf16: losses"; paste "$work/e.csv" "$work/g.csv"; }
expect 0 "$quern" run "$work/g.gguf" "the cat" -n 5 --temp 0

# Another architecture: norms of a row a head, and one norm for both halves of a layer. What has no gradient is said.
expect 0 "$quern" train "$work/text" -o "$work/h.gguf" $shape --arch stablelm --steps 8 --type Q8_0 --checkpoint "$work/h.ckpt"
expect 0 "$quern" run "$work/h.gguf" "the cat" -n 5 --temp 0
expect 0 "$quern" train "$work/text" -o "$work/i.gguf" --lora "$work/h.gguf" --ctx 20 --batch 2 --steps 2
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" $shape --steps 8 --resume --checkpoint "$work/h.ckpt"; one_line "arch=stablelm is in the checkpoint, and not asked for"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" $shape --arch qwen3moe; one_line "this qwen3moe is a mixture of experts; linear_experts has no gradient"
"$quern" train --help >"$work/out"
grep -q stablelm "$work/out" || bad "--help does not list stablelm"
grep -qE "qwen3moe|modern-bert" "$work/out" && bad "--help lists what cannot be trained"
# A weight of three dimensions.
expect 0 "$quern" train "$work/text" -o "$work/n.gguf" $shape --arch gemma3n --steps 2 --type Q8_0
expect 0 "$quern" inspect "$work/n.gguf" --verify
expect 0 "$quern" run "$work/n.gguf" "the cat" -n 5 --temp 0
expect 0 "$quern" synth "$work/m.gguf" --arch qwen3moe --layers 1 --embd 32 --heads 2 --ff 32 --vocab-size 300 --ctx 32
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --lora "$work/m.gguf"; one_line "$work/m.gguf" "this qwen3moe is a mixture of experts; linear_experts has no gradient"

# Mistakes: one line, 2 for usage, 1 for failures.
: >"$work/empty"
echo "two words" >"$work/short"
expect 2 "$quern" train;                                                   one_line "no text"
expect 2 "$quern" train "$work/text";                                      one_line "-o OUT.gguf"
expect 2 "$quern" train "$work/text" -o x --layers 0;                      one_line "--layers" '"0"'
expect 2 "$quern" train "$work/text" -o x --lr fast;                       one_line "--lr" "fast"
expect 2 "$quern" train "$work/text" -o x --resume;                        one_line "--checkpoint"
expect 2 "$quern" train "$work/text" -o x --checkpoint-every 3;            one_line "--checkpoint FILE"
expect 2 "$quern" train "$work/text" -o x --trace t --trace-phase prompt;  one_line "--trace-phase"
printf 'a%.0s \303\244 \303\266 b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z 0 1 2 3 4 5 6 7 8 9' 1 2 3 >"$work/letters"
expect 1 "$quern" train "$work/letters" -o "$work/x.gguf" --vocab-size 270 --ctx 8; one_line "one of at least"
expect 1 "$quern" train "$work/none" -o "$work/x.gguf";                    one_line "$work/none" "No such file"
expect 1 "$quern" train "$work/empty" -o "$work/x.gguf";                   one_line "empty"
expect 1 "$quern" train "$work/short" -o "$work/x.gguf";                   one_line "ctx"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --embd 33;          one_line "embd is 33"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --vocab-size 90000; one_line "vocab-size is 90000"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --layers 256 --embd 16384 --ff 65536; one_line "this machine has"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" $shape --steps 60 --heads 2 --checkpoint "$work/b.ckpt" --resume; one_line "heads is 2, 4 in the checkpoint"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" $shape --checkpoint "$work/a.gguf" --resume; one_line "$work/a.gguf"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" $shape --log "$work/letters" --checkpoint "$work/b.ckpt" --resume --steps 60; one_line "no log"
expect 1 "$quern" train --config "$work/none" -o x;                        one_line "No such file"
echo "layers = many" >"$work/conf"
expect 2 "$quern" train --config "$work/conf" "$work/text" -o x;           one_line "--layers" "many"
echo "colour = red" >"$work/conf"
expect 1 "$quern" train --config "$work/conf" "$work/text" -o x;           one_line "conf:1" "colour"
echo "config = $work/other" >"$work/conf"
expect 1 "$quern" train --config "$work/conf" "$work/text" -o x;           one_line "conf:1" "no other one"
echo "tied = maybe" >"$work/conf"
expect 1 "$quern" train --config "$work/conf" "$work/text" -o x;           one_line "conf:1" "maybe"

# A disk that is full, where the system has one to show; what cannot be written is said, and nothing is left.
for what in "-o /dev/full" "-o $work/x.gguf --log /dev/full" "-o $work" "-o $work/x.gguf --curve $work" "-o $work/x.gguf --checkpoint /nonexistent/x" "-o /nonexistent/x.gguf"; do
    [ -e /dev/full ] || continue
    "$quern" train "$work/text" $shape --steps 2 $what >/dev/null 2>"$work/err"
    [ $? -eq 1 ] || bad "status with $what"
    grep -cq "^quern train: " "$work/err" || { bad "no message with $what:"; cat "$work/err"; }
done
[ -e "$work/x.gguf" ] && bad "a file was left"
# What was trained outlives a curve that cannot be written: a name that fits, but not with what a temporary file adds.
"$quern" train "$work/text" $shape --steps 2 -o "$work/x.gguf" --curve "$work/$(printf '%0246d' 0).svg" >/dev/null 2>"$work/err"
[ $? -eq 1 ] || bad "status of a training that lost its curve"
[ "$(grep -c "^quern train: .*too long" "$work/err")" -eq 1 ] || { bad "a lost curve:"; cat "$work/err"; }
expect 0 "$quern" run "$work/x.gguf" "a" -n 2 -q
# And a checkpoint that cannot, which is said once; and one that can outlives a model that cannot.
if [ -e /dev/full ]; then
    rm -f "$work/x.gguf"
    "$quern" train "$work/text" $shape --steps 6 -o "$work/x.gguf" --checkpoint /dev/full --checkpoint-every 1 >/dev/null 2>"$work/err"
    [ $? -eq 1 ] || bad "status of a training that lost its checkpoint"
    [ "$(grep -c "No space left" "$work/err")" -eq 1 ] && [ "$(grep -c "the training goes on" "$work/err")" -eq 1 ] || { bad "a lost checkpoint:"; cat "$work/err"; }
    expect 0 "$quern" run "$work/x.gguf" "a" -n 2 -q
    "$quern" train "$work/text" $shape --steps 7 -o /dev/full --checkpoint "$work/keep.ckpt" --checkpoint-every 5 >/dev/null 2>"$work/err"
    [ $? -eq 1 ] || bad "status of a training that lost its model"
    grep -q "keep.ckpt keeps what was learnt" "$work/err" || { bad "a lost model:"; cat "$work/err"; }
    expect 0 "$quern" train "$work/text" $shape --steps 7 -o "$work/y.gguf" --checkpoint "$work/keep.ckpt" --resume
    expect 0 "$quern" train "$work/text" $shape --steps 7 -o "$work/z.gguf"
    cmp -s "$work/y.gguf" "$work/z.gguf" || bad "the model from a kept checkpoint differs"
fi
# A folder that goes away and comes back: the next checkpoint is tried. What an interrupted training says is what there is.
for back in 0 1; do
    mkdir "$work/folder"
    "$quern" train "$work/text" -o "$work/x.gguf" $shape --steps 100000 -t 1 --checkpoint "$work/folder/c" --checkpoint-every 20 2>"$work/err" &
    for i in $(seq 600); do [ -s "$work/folder/c" ] && break; sleep 0.1; done
    mv "$work/folder" "$work/away"
    for i in $(seq 600); do grep -q "the training goes on" "$work/err" && break; sleep 0.1; done
    if [ $back -eq 1 ]; then
        rm "$work/away/c"
        mv "$work/away" "$work/folder"
        for i in $(seq 600); do [ -s "$work/folder/c" ] && break; sleep 0.1; done
    fi
    kill -INT $!
    wait $!
    [ $? -eq 130 ] || bad "status of an interrupted training that lost a checkpoint"
    tail -n 1 "$work/err" >"$work/last"; mv "$work/last" "$work/err"
    if [ $back -eq 1 ]; then one_line "interrupted; $work/folder/c keeps step" "--resume"; else one_line "could not be written since, and keeps step"; fi
    rm -rf "$work/away" "$work/folder"
done
ls "$work" | grep -q tmp && bad "temporary files: $(ls "$work")"
finish
