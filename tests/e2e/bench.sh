#!/bin/sh
# SPDX-License-Identifier: MIT
# quern bench: the shapes of its three outputs, several values of options, limits recomputed from the file's tensors, the plot, errors.
. "$1/tests/e2e/lib/common.sh"

# The peaks need not be right, but are measured before and after the tests of each engine.
bench() { "$quern" bench --peak-time 0.06 "$@"; }
model=$work/tiny.gguf
expect 0 "$quern" synth "$model" --layers 2 --embd 256 --heads 8 --kv-heads 2 --ff 512 --vocab-size 600 --ctx 64 --type Q4_K_M
expect 0 "$quern" synth "$work/tied.gguf" --tied --layers 2 --embd 256 --heads 8 --kv-heads 2 --ff 512 --vocab-size 600 --ctx 64 --type F16

# Every combination is a row, in order; depth and steps go past what the model was trained for.
expect 0 bench "$model" "$work/tied.gguf" -p 16,600 -n 16,0 -b 1,4 -d 0,90 --kv-type f16,Q8_0 -t 1 -r 2 -o csv
cp "$work/out" "$work/speed.csv"
[ "$(head -n 1 "$work/out" | cut -d, -f1-9)" = "model,test,depth,batch,kv_type,tokens_per_second,spread,limit_share,peak_bytes" ] || bad "CSV header"
for kv in f16 q8_0; do for depth in 0 90; do for test in pp16,$depth,1 pp600,$depth,1 tg16,$depth,1 tg16,$depth,4; do echo "$test,$kv"; done; done; done >"$work/tests"
tail -n +2 "$work/out" | cut -d, -f2-5 >"$work/have"
cat "$work/tests" "$work/tests" | cmp -s - "$work/have" || { bad "rows differ"; cat "$work/have"; }
tail -n +2 "$work/out" | awk -F, '!($6 > 0 && $7 >= 0 && $8 > 0 && $9 > 0 && $10 > 0 && $11 == 1 && $15 > 0 && $16 > 0 && $17 > 0 && $18 == 2 && $19 > 0) { print; bad = 1 }
    { share = $6 / $13; if (share / $8 > 1.001 || share / $8 < 0.999) { print "share:", $0; bad = 1 } } END { exit bad }' || bad "CSV values"

# A prompt longer than what a window takes back: the depth is filled in anew.
expect 0 "$quern" synth "$work/window.gguf" --arch gemma3 --layers 2 --embd 64 --heads 2 --kv-heads 1 --ff 64 --vocab-size 300 --ctx 64 --set attention.sliding_window=8 --type F16
expect 0 bench "$work/window.gguf" -p 700 -n 4 -b 1,2 -d 90 -t 1 -r 2 -o csv
[ "$(wc -l <"$work/out")" = 4 ] || bad "rows of a model with windows"

# The limit again, from what inspect says of the tensors: bytes and products of the body, rows of the table, the output matrix (a chunk
# whose logits nobody wants has those of one token all the same), and for each cell its keys, its values and where it lies.
for file in "$model" "$work/tied.gguf"; do
    expect 0 "$quern" inspect "$file" --csv
    awk -F, -v file="$file" '
        NR == FNR { if (FNR == 1) next; macs = $7 > 1 ? $8 * $9 : 0; n++
                    type[n] = $4; name[n] = $1; bytes[n] = $3; mul[n] = macs; if ($1 == "output.weight") has_out = 1; next }
        FNR == 1 || $1 != file { next }
        { steps = substr($2, 3) + 0; prompt = substr($2, 1, 2) == "pp"; cell = 2 * 4 + ($5 == "f16" ? 2 * 2 * 64 * 2 : 2 * 2 * 68)
          rate["F32"] = $17; rate["BF16"] = $19; rate["F16"] = $19 * 2 / 3 > $17 ? $19 * 2 / 3 : $17
          seconds = 0; width = prompt ? ($3 + steps < 512 ? $3 + steps : 512) : 1
          for (at = 0; at < steps; at += width) {
              len = steps - at < width ? steps - at : width
              read = $4 * ($3 + at + len) * cell; c = 0
              for (i = 1; i <= n; i++) {
                  out = name[i] == "output.weight" || (name[i] == "token_embd.weight" && !has_out)
                  if (name[i] == "token_embd.weight") read += bytes[i] / 600 * len * $4
                  if (name[i] == "token_embd.weight" && has_out) continue
                  read += bytes[i]
                  c += 2 * mul[i] * (out && prompt ? 1 : len * $4) / (type[i] ~ /^Q/ ? $16 : rate[type[i]]) / 1e9
              }
              r = read / $15 / 1e9
              seconds += r > c ? r : c
          }
          want = steps * $4 / seconds; seen++
          if ($13 / want > 1.002 || $13 / want < 0.998) { print "limit " $13 ", " want " expected: " $0; bad = 1 } }
        END { exit bad || seen != 16 }' "$work/out" "$work/speed.csv" || bad "limits of $file"
done

# Markdown is the default; --roofline adds columns.
expect 0 bench "$model" -p 16 -n 4 -r 1 -t 1
[ "$(grep -c '^|' "$work/out")" -eq 4 ] || { bad "Markdown rows"; cat "$work/out"; }
for word in "pp16" "tg4" "of limit" "reads" "int8" "f32" "median of 1"; do grep -q "$word" "$work/out" || bad "Markdown: no $word"; done
grep -q "limited by" "$work/out" && bad "Markdown: limits without --roofline"
[ "$(grep '^|' "$work/out" | awk '{ print length }' | sort -u | wc -l)" -eq 1 ] || bad "Markdown: columns are not aligned"
expect 0 bench "$model" -p 0 -n 4 -r 1 -t 1 --roofline
for word in "limit tokens/s" "limited by" "Gop/s"; do grep -q "$word" "$work/out" || bad "--roofline: no $word"; done

# Without a model the peaks alone, in every format; a level that the machine lacks is the next lower one.
expect 0 bench --roofline -t 1 --cpu ref
for word in "1 thread at ref" "reads" "int8" "f32"; do grep -q "$word" "$work/out" || bad "--roofline alone: no $word"; done
grep -q "^|" "$work/out" && bad "--roofline alone: a table without rows"
expect 0 bench --roofline -t 1,2 --cpu ref -o csv
[ "$(grep -c '^[12],ref,[0-9]' "$work/out")" -eq 2 ] || bad "--roofline alone: CSV"
expect 0 bench --roofline -t 1 -o json
grep -q '"tests": \[\]' "$work/out" && grep -q '"read_gb_s"' "$work/out" || bad "--roofline alone: JSON"

# JSON, and a second machine entry for a second level.
expect 0 bench "$model" -p 0 -n 4 -r 3 -t 1 --cpu ref,avx2 -o json
cp "$work/out" "$work/speed.json"
for key in machine tests read_gb_s int8_gops f32_gflops threads cpu_level model test depth batch kv_type tokens_per_second spread limit_share peak_bytes; do
    grep -q "\"$key\":" "$work/out" || bad "JSON: no $key"
done
if command -v python3 >/dev/null; then
    python3 - "$work/speed.json" "$model" <<'EOF' || bad "JSON"
import json, sys
d = json.load(open(sys.argv[1]))
assert list(d)[:2] == ["machine", "tests"] and list(d["machine"]) == ["read_gb_s", "int8_gops", "f32_gflops", "threads", "cpu_level", "bf16_gflops"]
assert d["machine"]["cpu_level"] == "ref" and d["machine"]["threads"] == 1 and len(d["machines"]) == len(d["tests"])
for t in d["tests"]:
    assert list(t)[:9] == "model test depth batch kv_type tokens_per_second spread limit_share peak_bytes".split()
    assert (t["model"], t["test"], t["depth"], t["batch"], t["kv_type"]) == (sys.argv[2], "tg4", 0, 1, "f16")
    assert abs(t["tokens_per_second"] / t["limit_tokens_per_second"] / t["limit_share"] - 1) < 1e-4
EOF
    # The plot: one bar a row, text escaped; what it refuses.
    plot="python3 $source/bench/plot.py"
    expect 0 $plot "$work/speed.csv" "$work/speed.svg" --panel test --series batch --where depth=90 --where kv_type=f16 --limit limit_tokens_per_second --title "a < b"
    python3 - "$work/speed.svg" <<'EOF' || bad "plot"
import sys, xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse(sys.argv[1]).getroot()
assert root[0].text == "a < b"
assert sum(1 for r in root.iter(svg + "rect") if r.find(svg + "title") is not None) == 8
assert sum(1 for r in root.iter(svg + "line") if r.get("class") == "limit") == 8 + 1
EOF
    expect 1 $plot "$work/speed.csv" "$work/x.svg" --panel test --series batch; one_line "second bar" "--where"
    expect 1 $plot "$work/speed.csv" "$work/x.svg" --series engine;             one_line "engine" "batch"
    [ -e "$work/x.svg" ] && bad "a failed plot left a file"
fi

# Mistakes; what was measured before a failure is still shown.
expect 2 bench;                              one_line "argument is missing"
expect 2 bench "$model" -p 0 -n 0;           one_line "--prompt" "--predict"
expect 2 bench "$model" -b 1,0;              one_line "--batch" "1 to 256"
expect 2 bench "$model" -p 5,;               one_line "--prompt"
expect 2 bench "$model" -n 99999999999999999999999999; one_line "--predict"
expect 2 bench "$model" -d -1;               one_line "--depth"
expect 2 bench "$model" -t 0;                one_line "--threads"
expect 2 bench "$model" -r 0;                one_line "--repetitions"
expect 2 bench "$model" --peak-time 0;       one_line "--peak-time"
expect 2 bench "$model" -o xml;              one_line "xml" "json"
expect 2 bench "$model" --cpu avx2,avx9;     one_line "avx9" "avx2"
expect 2 bench "$model" --kv-type f16,q3;    one_line "q3" "Q8_0"
expect 2 bench "$model" -p 0 -n 4 -r 1 --kv-type q4_k; one_line "q4_k" "Q4_0"
expect 0 bench "$model" -p 0 -n 4 -r 1 -t 1 --peak-time 0.01 -o CSV --kv-type f16; grep -q '^model,' "$work/out" || bad "-o CSV"
expect 1 bench "$model" -p 0 -n 4 -d 16777216 -b 256 -r 1;    one_line "16777216" "4294968320" "268435456"
# a model that is not there is told before anything is measured; where one turns out to be wrong, finished rows are shown
expect 1 bench "$model" "$work/none.gguf" -p 0 -n 4 -r 1 -t 1 -o csv; one_line "none.gguf" "No such file"
[ -s "$work/out" ] && bad "measured before the second model was looked for"
printf 'GGUF\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$work/empty.gguf"
expect 1 bench "$model" "$work/empty.gguf" -p 0 -n 4 -r 1 -t 1 -o csv; one_line "empty.gguf" "architecture"
[ "$(wc -l <"$work/out")" -eq 2 ] || bad "the finished row is not shown"
if [ -e /dev/full ]; then
    bench "$model" -p 0 -n 4 -r 1 -t 1 >/dev/full 2>"$work/err"; [ $? -eq 1 ] || bad "no failure on a full disk"
    one_line "No space left"
fi

# The scripts say what they take, and measure nothing when it is something else.
for script in memory trace; do
    expect 0 bash "$source/bench/$script.sh" --help; grep -q "^usage: .*bench/$script.sh" "$work/out" || bad "$script.sh --help"
    expect 2 bash "$source/bench/$script.sh" --frob; one_line "--frob"
done
finish
