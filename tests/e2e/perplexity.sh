#!/bin/sh
# SPDX-License-Identifier: MIT
# perplexity, as a user calls it: what llama-perplexity says of the same two models and the same text, files, what is refused.
. "$1/tests/e2e/lib/common.sh"
a=$work/a.gguf b=$work/b.gguf story=$work/story kld=$work/a.kld
small="--arch llama --layers 2 --embd 64 --heads 4 --ff 128 --vocab-size 400 --ctx 128 --spread 0.1 --type F32"
# shellcheck disable=SC2086
expect 0 "$quern" synth "$a" $small --seed 7
# shellcheck disable=SC2086
expect 0 "$quern" synth "$b" $small --seed 8
i=1; while [ $i -le 600 ]; do printf '%d ' $i; i=$((i + 1)); done | sed 's/ $//' >"$story"; echo >>"$story"

# has NAME VALUE ERROR: a line of the output, numbers to 2e-4 of their size
has() {
    grep "^$1  " "$work/out" | sed "s/^$1 *//" | awk -v value="$2" -v error="$3" '
        function near(x, y, d) { d = x - y; if (d < 0) d = -d; if (y < 0) y = -y; return d <= 2e-4 * y + 1e-6 }
        END { exit !(NR == 1 && near($1, value) && (error == "" || near($3, error))) }' || bad "$1: not $2 +- $3: $(cat "$work/out")"
}

# llama-perplexity (llama.cpp b9749): -f text -c 64 -b 64 --chunks 9, with --kl-divergence-base and --kl-divergence
expect 0 "$quern" perplexity "$a" -f "$story" -c 64 --chunks 9
has perplexity 608.3212 25.02688
grep -q "^279 tokens of 9 chunks" "$work/out" || bad "chunks: $(cat "$work/out")"
expect 0 "$quern" perplexity "$a" -f "$story" -c 64 --chunks 9 --kl-divergence-base "$kld"
expect 0 "$quern" perplexity "$b" --kl-divergence-base "$kld" --kl-divergence
compared() {
    has perplexity 594.746660 29.922876
    has "perplexity of the base" 608.322157 25.026894
    has "ln of the ratio" -0.022569 0.073648
    has "ratio of perplexities" 0.977684 0.072005
    has "difference of perplexities" -13.575497 44.226304
    has "KL divergence" 0.645887 0.002869
    has "p - q, root mean square" 0.229 0.011
    has "same token most likely" 0 0
    for line in "least 0.542027 -0.555" "1 % 0.551530 -0.503" "median 0.652022 0.018" "90 % 0.712425" "99.9 % 0.749330 0.760" "greatest 0.749902 0.789"; do
        name=$(echo "$line" | sed 's/ -*0\..*//')
        # shellcheck disable=SC2046
        set -- $(echo "$line" | sed "s/^$name //")
        sed "s/^$name  */at /" "$work/out" | awk -v kld="$1" -v p="${2:-}" '
            $1 == "at" { n++; d = $2 - kld; e = $3 - p; exit !(d < 1e-4 && d > -1e-4 && (p == "" || (e <= 0.0011 && e >= -0.0011))) }
            END { if (!n) exit 1 }' || bad "$name: not $*: $(cat "$work/out")"
    done
}
compared
expect 0 "$quern" perplexity "$b" -f "$story" -c 64 --chunks 9 --base "$a" -t 1; compared; cp "$work/out" "$work/one"
"$quern" perplexity "$b" -f - -c 64 --chunks 9 --base "$a" -b 7 -t 3 <"$story" >"$work/out" 2>"$work/err" || bad "from standard input: $(cat "$work/err")"
for file in one out; do grep -v "tokens of" "$work/$file" >"$work/$file.numbers"; done
cmp -s "$work/one.numbers" "$work/out.numbers" || bad "threads and batches change numbers"

expect 0 "$quern" perplexity "$b" --kl-divergence-base "$kld" --kl-divergence --json
if command -v python3 >/dev/null; then
    python3 - "$work/out" <<'END' || bad "perplexity --json: $(cat "$work/out")"
import json, math, sys
r = json.load(open(sys.argv[1]))
assert r["perplexity"] == 1 and r["chunks"] == 9 and r["tokens"] == 279
assert abs(math.exp(r["nll"]["value"]) - r["ppl"]["value"]) < 1e-9 * r["ppl"]["value"]
assert abs(r["kld"]["value"] - 0.645887) < 1e-4 and r["kld_at"]["min"] <= r["kld_at"]["median"] <= r["kld_at"]["max"]
END
fi

# ---- what is refused, in one line, and nothing is lost ----
cp "$kld" "$work/kept"
expect 2 "$quern" perplexity "$a";                                                       one_line "-f FILE"
expect 2 "$quern" perplexity "$a" --kl-divergence;                                       one_line "--kl-divergence-base"
expect 2 "$quern" perplexity "$a" -f "$story" --kl-divergence --kl-divergence-base "$kld"; one_line "--file"
expect 2 "$quern" perplexity "$a" --base "$b" --kl-divergence --kl-divergence-base "$kld"; one_line "--base"
expect 2 "$quern" perplexity "$a" -f "$story" --kl-divergence-base -;                     one_line "file"
expect 2 "$quern" perplexity "$a" -f "$story" --kl-divergence-base "$story";               one_line "$story"
expect 2 "$quern" perplexity "$a" -f "$story" --kl-divergence-base "$a";                  one_line "$a"
expect 2 "$quern" perplexity "$b" --kl-divergence --kl-divergence-base "$kld" --trace "$kld"; one_line "$kld"
expect 1 "$quern" perplexity "$a" --kl-divergence --kl-divergence-base "$story";             one_line "begin with"
expect 1 "$quern" perplexity "$a" --kl-divergence --kl-divergence-base "$kld" -c 32;     one_line "32" "64"
expect 1 "$quern" perplexity "$a" --kl-divergence --kl-divergence-base "$work/none";     one_line "No such file"
expect 1 "$quern" perplexity "$a" -f "$story" -c 100000;                                  one_line "100000"
expect 1 "$quern" perplexity "$a" -f "$work/none";                                       one_line "No such file"
expect 1 "$quern" perplexity "$a" -f "$story" -c 64 --kl-divergence-base "$work/no/x";    one_line "$work/no/x"
# shellcheck disable=SC2086
expect 0 "$quern" synth "$work/c.gguf" $small --vocab-size 500
expect 1 "$quern" perplexity "$work/c.gguf" --kl-divergence --kl-divergence-base "$kld"; one_line "500" "400"
expect 1 "$quern" perplexity "$work/c.gguf" --base "$a" -f "$story" -c 64;                one_line "500" "400"
cmp -s "$kld" "$work/kept" || bad "a file that was read was changed"
head -c 5000 "$kld" >"$work/cut"
expect 1 "$quern" perplexity "$a" --kl-divergence --kl-divergence-base "$work/cut";      one_line "to its end"
expect 0 "$quern" perplexity "$a" -f "$story" -c 64 --kl-divergence-base "$work/cut"
[ "$(wc -c <"$work/cut")" -gt "$(wc -c <"$kld")" ] || bad "a file that was there was not written anew"
finish
