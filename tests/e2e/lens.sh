#!/bin/sh
# SPDX-License-Identifier: MIT
# quern lens as a user calls it: tables and JSON say the same, the last layer says what the model goes on with, heads' weights add up to 1,
# a prompt patched with its own values stays as it was, and what is wrong is said before anything is computed.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
cd "$work" || exit 1
prompt="My father said that" theirs="My mother said that"
expect 0 "$quern" lens "$model" "$prompt"
for word in "layer 0" "layer 3" "token" "came"; do grep -q "^$word" out || bad "no line of $word: $(cat out)"; done
expect 0 "$quern" lens "$model" "$prompt" --attention --layers 1 --position 2; cp out heads
grep -q '^layer 1 head 0 *[01]\.[0-9]* [0-2] "' heads || bad "no heads: $(cat heads)"
grep -q '^layer 0' heads && bad "--layers 1 shows layer 0"
expect 0 "$quern" lens "$model" "$prompt" --attention --json -o lens.json --top 3
expect 0 "$quern" lens "$model" "$prompt" --attention --json --top 3; cmp -s out lens.json || bad "a file and standard output differ"
expect 0 "$quern" tokenize "$model" "$prompt"; cp out ids.json
expect 0 "$quern" run "$model" "$prompt" -n 1 --temp 0 --quiet; cp out goes_on
expect 0 "$quern" lens "$model" "$prompt" --patch "$theirs" --words " he, she" --json; cp out patch.json
expect 0 "$quern" lens "$model" "$prompt" --patch "$prompt" --words " he, she" --patch-value mlp_out --json; cp out own.json
expect 0 "$quern" lens "$model" "$prompt" --patch "$theirs" --words " he, she"; cp out patch
grep -q '^Logit of "' patch || bad "no grid: $(cat patch)"
expect 0 "$quern" lens "$model" "$prompt" --tap 'resid_post-1@2=zero' --json; cp out zero.json
python3 - <<'END' || bad "the figures of the lens"
import json, math
lens, patch, own, zero, ids = (json.load(open(f)) for f in ("lens.json", "patch.json", "own.json", "zero.json", "ids.json"))
n = len(ids)
assert lens["lens"] == 1 and lens["tokens"] == ids and lens["next"][:-1] == ids[1:] and len(lens["layers"]) == lens["n_layer"]
for layer in lens["layers"]:
    assert all(len(layer[k]) == n for k in ("entropy", "rank", "p", "rms", "max", "channel", "top"))
    for i in range(n):
        top = dict(zip(layer["top"][i][::2], layer["top"][i][1::2]))
        assert len(top) == 3 and sum(top.values()) <= 1.001 and 0 <= layer["entropy"][i] <= math.log2(lens["n_vocab"]) + 1e-3
        assert all(str(t) in lens["words"] for t in top)
        if layer["rank"][i] <= 3:
            assert layer["top"][i][2 * (layer["rank"][i] - 1)] == lens["next"][i] and abs(top[lens["next"][i]] - layer["p"][i]) < 1e-3
        assert layer["rms"][i] <= layer["max"][i]
last = lens["layers"][-1]
assert last["rank"][-1] == 1 and lens["words"][str(lens["next"][-1])].strip() == open("goes_on").read().strip() != ""
assert len(lens["attention"]) == lens["n_layer"]
for layer in lens["attention"]:
    assert layer["error"] < 1e-6
    for head in layer["heads"]:
        for i in range(n):
            row = head[i * n : (i + 1) * n]
            assert abs(sum(row) - 1) < 1e-2 and all(w == 0 for w in row[i + 1 :])
grid = patch["patch"]
assert grid["other"] != grid["base"] and len(grid["difference"]) == lens["n_layer"]
# The last layer's value of the last token is all that its logits are made of; of tokens before it nothing.
assert abs(grid["difference"][-1][-1] - grid["other"]) < 1e-4 * abs(grid["other"]) + 1e-5
assert all(abs(x - grid["base"]) < 1e-5 for x in grid["difference"][-1][:-1])
assert all(x == own["patch"]["base"] for row in own["patch"]["difference"] for x in row)
assert zero["layers"][1]["rms"][2] == 0 and zero["layers"][1]["rms"][1] > 0
END
# What is wrong.
expect 2 "$quern" lens "$model"; grep -q "no prompt" err || bad "no prompt: $(cat err)"
expect 2 "$quern" lens "$model" x --layers 9; grep -q "layers 0 to" err || bad "layers: $(cat err)"
expect 2 "$quern" lens "$model" x --layers 1-; expect 2 "$quern" lens "$model" x --layers 2-1
expect 2 "$quern" lens "$model" x --position 99; grep -q "tokens 0 to" err || bad "position: $(cat err)"
expect 2 "$quern" lens "$model" x --words "a,b"; grep -q "patch" err || bad "words alone: $(cat err)"
expect 2 "$quern" lens "$model" "$prompt" --patch "O"; grep -q "as many" err || bad "lengths: $(cat err)"
expect 2 "$quern" lens "$model" "$prompt" --patch "$prompt"; grep -q "which two words to compare (words)" err || bad "the same word: $(cat err)"
expect 2 "$quern" lens "$model" "$prompt" --patch "$prompt"  --words " thou"; expect 2 "$quern" lens "$model" "$prompt" --patch "$prompt" --words "Rosencrantz, he"
grep -q "one token" err || bad "a word of several tokens: $(cat err)"
expect 2 "$quern" lens "$model" "$prompt" --patch "$theirs" --patch-value fnn_out --words " he, she"; grep -q "close are" err || bad "no such value: $(cat err)"
expect 2 "$quern" lens "$model" x --tap 'nothing-1=zero'
[ -w /dev/full ] && { expect 1 "$quern" lens "$model" x -o /dev/full; }
finish
