#!/bin/sh
# SPDX-License-Identifier: MIT
# Every sampling option of quern run changes what it should, with seeds that make it repeatable; with its off value, nothing.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
prompt="ROMEO:
O"
# text OPTIONS...: what run says to the prompt, on one line.
text() { "$quern" run "$model" "$prompt" -n 48 -t 1 --seed 7 --quiet "$@" 2>"$work/err" </dev/null | tr '\n' ' '; }
same() { want=$1; shift; got=$(text "$@"); [ "$got" = "$want" ] || bad "$*: \"$got\", \"$want\" expected: $(cat "$work/err")"; }
differs() { other=$1; shift; got=$(text "$@"); [ -n "$got" ] && [ "$got" != "$other" ] || bad "$*: still \"$got\" $(cat "$work/err")"; }

plain=$(text)
greedy=$(text --temp 0)
[ -n "$plain" ] || bad "no text: $(cat "$work/err")"
same "$plain"
differs "$plain" --seed 8

# The defaults as help prints them, given explicitly.
"$quern" run --help | sed -n '/^Choosing/,/^ *-h, --help/p' | tr '\n' ' ' | sed 's/ \(-[a-z], \)\{0,1\}--/\n--/g' |
    sed -n 's/^--\([a-z-]*\) [A-Z]* .*(default: *\(-\{0,1\}[0-9.]*\)).*/--\1 \2/p' >"$work/defaults"
[ "$(wc -l <"$work/defaults")" -ge 12 ] || { bad "few defaults:"; cat "$work/defaults"; }
# shellcheck disable=SC2046
same "$plain" $(cat "$work/defaults")

# Each option, on and off. The second form of an option that needs another one is beside it with that alone.
differs "$plain" --temp 1.5
differs "$plain" --top-k 1;                    same "$greedy" --top-k 1
differs "$(text --temp 2 --top-k 0)" --temp 2 --top-k 5
differs "$plain" --top-p 0;                    same "$greedy" --top-p 0
differs "$(text --temp 2 --top-k 0 --top-p 1 --min-p 0)" --temp 2 --top-k 0 --top-p 0.5 --min-p 0
same "$greedy" --min-p 1
differs "$(text --temp 2 --top-k 0 --top-p 1 --min-p 0)" --temp 2 --top-k 0 --top-p 1 --min-p 0.2
differs "$plain" --typical 0.3;                same "$plain" --typical 1
differs "$(text --temp 2)" --temp 2 --top-nsigma 0.5;  same "$plain" --top-nsigma 0; same "$plain" --top-nsigma -1
differs "$plain" --xtc-probability 1;          same "$plain" --xtc-probability 0
same "$plain" --xtc-probability 1 --xtc-threshold 1
differs "$(text --xtc-probability 1)" --xtc-probability 1 --xtc-threshold 0.3
differs "$greedy" --top-p 0 --min-keep 20;     same "$plain" --min-keep 1
differs "$plain" --dynatemp-range 0.7;         same "$plain" --dynatemp-range 0
differs "$(text --dynatemp-range 0.7)" --dynatemp-range 0.7 --dynatemp-exp 3; same "$plain" --dynatemp-exp 3
differs "$greedy" --temp 0 --repeat-penalty 1.5
differs "$greedy" --temp 0 --frequency-penalty 1
differs "$greedy" --temp 0 --presence-penalty 1
same "$greedy" --temp 0 --presence-penalty 1 --repeat-last-n 0
differs "$(text --temp 0 --presence-penalty 1)" --temp 0 --presence-penalty 1 --repeat-last-n 4
differs "$(text --temp 0 --presence-penalty 1 --repeat-last-n 4)" --temp 0 --presence-penalty 1 --repeat-last-n -1
same "$(text --temp 0 --presence-penalty 1 --repeat-last-n 200)" --temp 0 --presence-penalty 1 --repeat-last-n -1

# DRY: a prompt that repeats itself is gone on with, until DRY forbids it.
prompt="the king, the king, the king, the"
loop=$(text --temp 0 -n 12)
dry="--temp 0 -n 12 --dry-multiplier 4"
differs "$loop" $dry
same "$loop" --temp 0 -n 12 --dry-multiplier 0
same "$loop" $dry --dry-penalty-last-n 0
same "$loop" $dry --dry-allowed-length 1000
same "$loop" $dry --dry-sequence-breaker the
differs "$loop" $dry --dry-sequence-breaker none
differs "$(text --temp 0 -n 12 --dry-multiplier 0.05)" --temp 0 -n 12 --dry-multiplier 0.05 --dry-base 8
# Newlines by force, until DRY outweighs it; a newline that breaks sequences is never a repetition.
nl=$("$quern" tokenize "$model" --no-bos "a
" | sed 's/.*[[ ]\([0-9]*\)\]/\1/')
force="-n 30 --temp 0 --logit-bias $nl+1000"
lines=$(text $force)
dry="$force --dry-multiplier 4"
differs "$lines" $dry --dry-sequence-breaker none
same "$lines" $dry --dry-sequence-breaker '\n'
same "$lines" $dry --dry-sequence-breaker '
'
same "$lines" $dry
prompt="ROMEO:
O"

# Mirostat, both versions; it takes the place of top-k and the like.
differs "$plain" --mirostat 1
differs "$plain" --mirostat 2
differs "$(text --mirostat 1)" --mirostat 2
same "$(text --mirostat 2)" --mirostat 2 --top-k 1
same "$plain" --mirostat 0
differs "$(text --mirostat 2)" --mirostat 2 --mirostat-ent 1
differs "$(text --mirostat 2)" --mirostat 2 --mirostat-lr 0.9
same "$plain" --mirostat-lr 0.9 --mirostat-ent 1

# A bias forces a token, and bans it.
ids=$("$quern" tokenize "$model" --no-bos "and")
id=$(echo "$ids" | sed 's/.*[[ ]\([0-9]*\)\]/\1/')
piece=$("$quern" tokenize "$model" --decode "$id")
[ "$(text --temp 0 -n 3 --logit-bias "$id+1000" | tr -d ' ')" = "$(printf '%s%s%s' "$piece" "$piece" "$piece" | tr -d ' ')" ] || bad "--logit-bias $id+1000: $(text --temp 0 -n 3 --logit-bias "$id+1000")"
first=$("$quern" run "$model" "$prompt" -n 1 --temp 0 --quiet --special | head -n 1)
first_id=$("$quern" tokenize "$model" --no-bos -- "$prompt$first" | sed 's/.*[[ ]\([0-9]*\)\]/\1/')
for ban in "$first_id-inf" "$first_id-1000" "1+0,$first_id-inf"; do differs "$greedy" --temp 0 --logit-bias "$ban"; done
same "$greedy" --temp 0 -l "$first_id+0" -l "$id-inf" -l "$id+0"
eos=$("$quern" inspect "$model" --json | sed -n 's/.*"tokenizer.ggml.eos_token_id": \([0-9]*\).*/\1/p')
[ "$(text --temp 0 --logit-bias "$eos+1000" | tr -d ' ')" = "" ] || bad "a forced end is no end"
[ -n "$(text --temp 0 --logit-bias "$eos+1000" --ignore-eos | tr -d ' ')" ] || bad "--ignore-eos ends"

# The order: names, letters, and what is left out does nothing.
all="penalties;dry;top_n_sigma;top_k;typical_p;top_p;min_p;xtc;temperature"
same "$plain" --samplers "$all"
same "$plain" --samplers "penalties;dry;top-n-sigma;top-k;typ_p;top-p;min-p;xtc;temp"
same "$plain" --samplers edskypmxt
same "$plain" --sampling-seq edskypmxt
same "$greedy" --samplers top_k --top-k 1
same "$(text --samplers 'temperature;top_k' --temp 2 --top-k 3)" --sampling-seq tk --temp 2 --top-k 3
differs "$greedy" --samplers temperature --top-k 1
differs "$(text --temp 3 --top-p 0.6)" --temp 3 --top-p 0.6 --samplers "temperature;top_p"

# Mistakes.
expect 2 "$quern" run "$model" x --samplers "top_k;nonesuch";  one_line "--samplers" "nonesuch"
expect 2 "$quern" run "$model" x --samplers foo;               one_line "--samplers" '"foo"' "';'"
expect 2 "$quern" run "$model" x --samplers "top_k,top_p";     one_line '"top_k,top_p"' "';'"
expect 2 "$quern" run "$model" x --samplers "top_k;top_k";     one_line "top_k" "twice"
expect 2 "$quern" run "$model" x --sampling-seq "kz";          one_line "--sampling-seq" '"z"'
expect 2 "$quern" run "$model" x --sampling-seq "kk";          one_line "twice"
expect 2 "$quern" run "$model" x --samplers k --sampling-seq k; one_line "exclude"
for bias in 5 x+1 5+ 5+x -5+1 5-infinity 5++1 "5+1,," 99999999999999999999+1; do
    expect 2 "$quern" run "$model" x --logit-bias="$bias"; one_line "--logit-bias" "TOKEN(+/-)BIAS"
done
expect 1 "$quern" run "$model" x --logit-bias 1024+1;          one_line "1024" "1023"
expect 2 "$quern" run "$model" x --mirostat 3;                 one_line "--mirostat" "0 to 2"
expect 2 "$quern" run "$model" x --xtc-probability 1.5;        one_line "--xtc-probability"
expect 2 "$quern" run "$model" x --dry-base 0.5;               one_line "--dry-base"
expect 2 "$quern" run "$model" x --dry-sequence-breaker "";    one_line "--dry-sequence-breaker"
expect 1 "$quern" run "$model" x --dry-multiplier 1 --dry-sequence-breaker "$(printf '%050d' 0)"; one_line "40"
finish
