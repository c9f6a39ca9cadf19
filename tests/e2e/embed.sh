#!/bin/sh
# SPDX-License-Identifier: MIT
# embed and rerank, as a user calls them: forms of output, texts from everywhere, poolings, and what is refused.
. "$1/tests/e2e/lib/common.sh"
small="--layers 2 --embd 32 --heads 4 --ff 48 --vocab-size 400 --ctx 64 --type F32 --spread 0.2"
# shellcheck disable=SC2086
for arch in bert nomic-bert qwen3; do expect 0 "$quern" synth "$work/$arch.gguf" --arch $arch $small; done
# shellcheck disable=SC2086
expect 0 "$quern" synth "$work/rerank.gguf" --arch bert --optional $small
model=$work/bert.gguf

# ---- embed: a line of 32 numbers a text, the same from everywhere and in every batch ----
expect 0 "$quern" embed "$model" "kalo mi" "no" "li sa"; cp "$work/out" "$work/three"
[ "$(awk 'NF == 32' "$work/three" | wc -l)" -eq 3 ] || bad "embed: not three rows of 32"
printf 'kalo mi\r\nno\nli sa' >"$work/texts"
expect 0 "$quern" embed "$model" -f "$work/texts" -t 2;       cmp -s "$work/out" "$work/three" || bad "embed -f gives other numbers"
"$quern" embed "$model" -f - <"$work/texts" >"$work/out" 2>&1; cmp -s "$work/out" "$work/three" || bad "embed -f - gives other numbers"
expect 0 "$quern" embed "$model" "no" -b 20 -t 3;             sed -n 2p "$work/three" | cmp -s - "$work/out" || bad "embed: alone it gives other numbers"
expect 0 "$quern" embed "$model" "kalo mi" --normalize
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit !(s > 0.99999 && s < 1.00001) }' "$work/out" || bad "embed --normalize: not of length 1"
for pooling in mean first last; do expect 0 "$quern" embed "$model" "kalo mi" --pooling $pooling; cp "$work/out" "$work/$pooling"; done
sed -n 1p "$work/three" | cmp -s - "$work/mean" || bad "embed: the default of an encoder is not mean"
expect 0 "$quern" embed "$model" "kalo mi" --pooling none
sed -n 1p "$work/out" | cmp -s - "$work/first" || bad "embed: the first row of none is not first"
grep . "$work/out" | tail -n 1 | cmp -s - "$work/last" || bad "embed: the last row of none is not last"
[ -z "$(tail -n 1 "$work/out")" ] || bad "embed --pooling none: no empty line after the text"
expect 0 "$quern" embed "$model" "kalo mi" "no" --json
if command -v python3 >/dev/null; then
    python3 - "$work/out" "$work/three" <<'END' || bad "embed --json"
import json, sys
answer, rows = json.load(open(sys.argv[1])), [list(map(float, line.split())) for line in open(sys.argv[2])]
assert [d["embedding"] for d in answer["data"]] == rows[:2] and [d["index"] for d in answer["data"]] == [0, 1]
assert answer["object"] == "list" and answer["pooling"] == "mean" and answer["usage"]["prompt_tokens"] > 2
END
fi
expect 0 "$quern" embed "$work/qwen3.gguf" "kalo mi" "no"; cp "$work/out" "$work/decoder"
expect 0 "$quern" embed "$work/qwen3.gguf" "kalo mi" "no" -b 2 --pooling last; cmp -s "$work/out" "$work/decoder" || bad "embed: a decoder's default is not last, or chunks give other numbers"

# ---- rerank ----
expect 0 "$quern" rerank "$work/rerank.gguf" "kalo" "no" "li sa" "mi"; cp "$work/out" "$work/ranked"
[ "$(cut -f 1 "$work/ranked" | sort -rg | cmp - - && cut -f 2 "$work/ranked" | sort | tr -d '\n')" = 012 ] || bad "rerank: $(cat "$work/ranked")"
cut -f 1 "$work/ranked" >"$work/scores"; sort -rg "$work/scores" | cmp -s - "$work/scores" || bad "rerank: not the best first"
expect 0 "$quern" rerank "$work/rerank.gguf" "kalo" "no" "li sa" "mi" --top 1; head -n 1 "$work/ranked" | cmp -s - "$work/out" || bad "rerank --top"
expect 0 "$quern" rerank "$work/rerank.gguf" "kalo" "no" --json; grep -q '"relevance_score": ' "$work/out" || bad "rerank --json"

# ---- bench: texts of a length, as many as the batch; no decoding ----
expect 0 "$quern" bench "$model" -p 5,60 -b 2,7 -r 1 -o csv
[ "$(wc -l <"$work/out")" -eq 5 ] && grep -q pp60 "$work/out" || bad "bench: $(cat "$work/out")"
expect 1 "$quern" bench "$model" -p 5 -d 3 -r 1; one_line "no depth"
for name in bge-small nomic-embed; do
    expect 0 "$quern" synth "$work/slice.gguf" --preset $name --layers 1 --type Q4_0; expect 0 "$quern" embed "$work/slice.gguf" "kalo"
    [ "$(awk '{ print NF }' "$work/out")" -ge 384 ] || bad "synth --preset $name"
done

# ---- what is refused, in one line ----
expect 1 "$quern" embed "$model" "";                       one_line "text 0 is empty"
printf 'a\n\nb\n' >"$work/gap"
expect 1 "$quern" embed "$model" -f "$work/gap";           one_line "line 2" "empty"
expect 1 "$quern" embed "$model" -f "$work/nothing";       one_line "No such file"
: >"$work/void"
expect 2 "$quern" embed "$model" -f "$work/void";          one_line "no text"
expect 2 "$quern" embed "$model";                          one_line "no text"
expect 2 "$quern" embed "$model" a --pooling max;          one_line "max" "none, mean"
expect 1 "$quern" embed "$model" a --pooling rank;         one_line "no head"
expect 1 "$quern" rerank "$model" a b;                     one_line "no reranker" "head"
expect 1 "$quern" rerank "$work/rerank.gguf" "" b;         one_line "query is empty"
long=$(printf 'kalo %.0s' $(seq 300))
expect 1 "$quern" embed "$model" "$long";                  one_line "trained for 64"
expect 1 "$quern" embed "$work/nomic-bert.gguf" "$long" -b 30; one_line "30 at once (n_batch)"
expect 0 "$quern" embed "$work/nomic-bert.gguf" "$long"
for command in "run $model x" "chat $model -p x" "eval $model --tokens 1 -o $work/x.npy"; do
    # shellcheck disable=SC2086
    expect 1 "$quern" $command; grep -q "bert is an encoder" "$work/err" || bad "$command: $(cat "$work/err")"
done
expect 1 "$quern" train "$source/README.md" --lora "$model" -o "$work/x.gguf"; one_line "bert" "output matrix"
expect 0 "$quern" graph "$model"; grep -q hidden "$work/out" || bad "graph: no hidden states"

# ---- a real WordPiece vocabulary ----
if [ -e "$shared/vocab/bert-bge.gguf" ]; then
    # shellcheck disable=SC2086
    expect 0 "$quern" synth "$work/bge.gguf" --arch bert $small --vocab "$shared/vocab/bert-bge.gguf"
    expect 0 "$quern" embed "$work/bge.gguf" "Hello world" --json; grep -q '"prompt_tokens": 4' "$work/out" || bad "embed: no [CLS] and [SEP]: $(tail -n 1 "$work/out")"
    expect 0 "$quern" embed "$work/bge.gguf" "Hello [SEP]" --json; grep -q '"prompt_tokens": 6' "$work/out" || bad "embed: a text's [SEP] is no text: $(tail -n 1 "$work/out")"
fi
finish
