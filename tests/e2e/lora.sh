#!/bin/sh
# SPDX-License-Identifier: MIT
# Adapters as a user meets them: trained over a quantized base, run, switched off, merged; killed and resumed; mistakes.
. "$1/tests/e2e/lib/common.sh"

base=$work/base.gguf
expect 0 "$quern" synth "$base" --arch qwen3 --layers 2 --embd 256 --heads 4 --kv-heads 2 --ff 256 --vocab-size 400 --ctx 128 --type Q4_K_M
awk 'BEGIN { for (i = 0; i < 300; i++) printf "the %s sat on the %s.\n", i % 2 ? "cat" : "old dog", i % 3 ? "mat" : "moon" }' >"$work/text"
train="--ctx 24 --batch 2 --steps 16 --lr 1e-2 --seed 4 --eval-every 4 --lora-r 4 --lora-alpha 8"

expect 0 "$quern" train "$work/text" --lora "$base" -o "$work/a.gguf" $train -t 1 --log "$work/a.csv"
awk -F, 'NR == 2 { first = $3 } END { exit !($3 < 0.9 * first) }' "$work/a.csv" || { bad "the loss:"; sed -n '1,2p;$p' "$work/a.csv"; }
expect 0 "$quern" inspect "$work/a.gguf" --verify
grep -q '"lora"' "$work/out" || "$quern" inspect "$work/a.gguf" | grep -q '"lora"' || bad "inspect: no adapter.type"

# Layers computed again in backward: the same losses and pairs. BF16 is not for pairs.
expect 0 "$quern" train "$work/text" --lora "$base" -o "$work/g.gguf" $train -t 1 --log "$work/g.csv" --grad-checkpointing
cmp -s "$work/a.csv" "$work/g.csv" && cmp -s "$work/a.gguf" "$work/g.gguf" || bad "--grad-checkpointing changes losses or adapter"
expect 1 "$quern" train "$work/text" --lora "$base" -o "$work/x.gguf" $train --bf16; one_line "bf16"

# Killed, resumed on two threads: the same file.
"$quern" train "$work/text" --lora "$base" -o "$work/b.gguf" $train -t 2 --checkpoint "$work/ckpt" --checkpoint-every 3 >/dev/null 2>&1 &
sleep 0.2
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
expect 0 "$quern" train "$work/text" --lora "$base" -o "$work/b.gguf" $train -t 2 --checkpoint "$work/ckpt" --resume
cmp -s "$work/a.gguf" "$work/b.gguf" || bad "the adapter of a resumed run differs"

# Another training than the checkpoint's: what differs is named. The other base has the shapes and the size of this one.
expect 0 "$quern" synth "$work/like.gguf" --arch qwen3 --layers 2 --embd 256 --heads 4 --kv-heads 2 --ff 256 --vocab-size 400 --ctx 128 --type Q4_K_M --seed 77
[ "$(wc -c <"$base")" -eq "$(wc -c <"$work/like.gguf")" ] || bad "bases of one shape differ in size"
go_on="-o $work/x.gguf $train --checkpoint $work/ckpt --resume"
expect 1 "$quern" train "$work/text" --lora "$work/like.gguf" $go_on;            one_line "ckpt belongs to another base model"
expect 1 "$quern" train "$work/text" --lora "$base" $go_on --lora-alpha 9;       one_line "lora-alpha is 9, 8 in the checkpoint"
expect 1 "$quern" train "$work/text" --lora "$base" $go_on --lora-r 2;           one_line "lora-r is 2, 4 in the checkpoint"
expect 1 "$quern" train "$work/text" --lora "$base" $go_on --lora-targets '*.attn_q'; one_line "lora-targets"
echo "another text, which is much shorter than the one above is, but long enough to fill a window." >"$work/text2"
expect 1 "$quern" train "$work/text2" --lora "$base" $go_on;                     one_line "ckpt belongs to another text"

# Run: it changes what is said; at scale 0 it does not; merged in F32 it nearly does the same.
tokens=1,40,60,80,100,120
expect 0 "$quern" eval "$base" --tokens $tokens -o "$work/plain.npy"
expect 0 "$quern" eval "$base" --tokens $tokens -o "$work/off.npy" --lora "$work/a.gguf:0"
expect 0 "$quern" eval "$base" --tokens $tokens -o "$work/on.npy" --lora "$work/a.gguf"
expect 0 "$quern" eval "$base" --tokens $tokens -o "$work/one.npy" --lora "$work/a.gguf:1" --batch 1 -t 2
expect 0 "$quern" eval "$base" --tokens $tokens -o "$work/half.npy" --lora "$work/a.gguf:0.5" --lora "$work/b.gguf:.5"
cmp -s "$work/plain.npy" "$work/off.npy" || bad "an adapter at scale 0 changes logits"
cmp -s "$work/plain.npy" "$work/on.npy" && bad "an adapter changes nothing"
cmp -s "$work/on.npy" "$work/one.npy" || bad "a batch of 1 on 2 threads gives other logits"
cmp -s "$work/on.npy" "$work/half.npy" && bad "two halves are one to the bit: they are not added one after the other"
expect 0 "$quern" run "$base" "the cat" -n 8 --temp 0 --lora "$work/a.gguf"
expect 0 "$quern" graph "$base" --text --lora "$work/a.gguf"
grep -q "attn_q.weight.lora_a" "$work/out" || bad "graph: no adapter"
expect 0 "$quern" export-lora "$base" "$work/a.gguf" "$work/merged.gguf" --type Q8_0
expect 0 "$quern" run "$work/merged.gguf" "the cat" -n 8 --temp 0
expect 0 "$quern" export-lora "$base" "$work/a.gguf:0" "$work/same.gguf"
expect 0 "$quern" eval "$work/same.gguf" --tokens $tokens -o "$work/same.npy"
cmp -s "$work/plain.npy" "$work/same.npy" || bad "merged at scale 0 the base is another"

# Mistakes: one line, 2 for usage, 1 for failures.
expect 0 "$quern" synth "$work/other.gguf" --arch llama --layers 1 --embd 64 --heads 4 --ff 64 --vocab-size 400
expect 1 "$quern" eval "$work/other.gguf" --tokens 1 -o "$work/x.npy" --lora "$work/a.gguf"; one_line "a.gguf" "general.architecture" "qwen3"
expect 1 "$quern" eval "$base" --tokens 1 -o "$work/x.npy" --lora "$base";                  one_line "general.type"
expect 1 "$quern" eval "$base" --tokens 1 -o "$work/x.npy" --lora "$work/none.gguf";        one_line "none.gguf"
expect 2 "$quern" eval "$base" --tokens 1 -o "$work/x.npy" --lora ":1";                     one_line "--lora"
expect 1 "$quern" eval "$base" --tokens 1 -o "$work/x.npy" --lora "$work/a.gguf" --lora "$work/a.gguf:nan"; one_line "a.gguf:nan"
expect 2 "$quern" export-lora "$base" "$work/a.gguf" "$work/x.gguf" --type Q9;              one_line "Q9"
expect 2 "$quern" export-lora "$base" "$work/a.gguf";                                       one_line "missing"
[ -e /dev/full ] && { expect 1 "$quern" export-lora "$base" "$work/a.gguf" /dev/full;       one_line "No space left"; }
cp "$base" "$work/kept.gguf"; ln -s base.gguf "$work/link.gguf"
expect 2 "$quern" export-lora "$base" "$work/a.gguf" "$base";                               one_line "$base is what is read"
expect 2 "$quern" export-lora "$base" "$work/a.gguf" "$work/link.gguf";                     one_line "link.gguf is what is read"
expect 2 "$quern" export-lora "$base" "$work/a.gguf:2" "$work/a.gguf";                      one_line "a.gguf is what is read"
cmp -s "$base" "$work/kept.gguf" || bad "export-lora has replaced the base"
expect 2 "$quern" train "$work/text" -o "$work/x.gguf" --lora-r 4;                          one_line "--lora"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --lora "$base" --layers 3;           one_line "layers is the base's"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --lora "$base" --lora-targets frob;  one_line "frob" "blk.0.attn_q"
expect 1 "$quern" train "$work/text" -o "$work/x.gguf" --lora "$work/a.gguf";               one_line "a.gguf"
expect 2 "$quern" train "$work/text" -o "$work/x.gguf" --lora "$base" --type Q8_0;          one_line "an adapter is F32" "Q8_0"
for file in x.npy x.gguf; do [ -e "$work/$file" ] && bad "a failed command left $file"; done
finish
