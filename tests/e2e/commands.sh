#!/bin/sh
# SPDX-License-Identifier: MIT
# eval, tokenize, inspect, graph, synth and doctor, as a user calls them.
. "$1/tests/e2e/lib/common.sh"

# synth: a small model of each architecture, which every other command then reads.
for arch in llama qwen2 qwen3; do
    expect 0 "$quern" synth "$work/$arch.gguf" --arch $arch --layers 2 --embd 256 --heads 8 --kv-heads 2 --ff 512 --vocab-size 600 --ctx 128 --type Q4_K_M
    expect 0 "$quern" inspect "$work/$arch.gguf" --verify
    expect 0 "$quern" run "$work/$arch.gguf" "kalo mi" -n 8 --temp 0
    expect 0 "$quern" graph "$work/$arch.gguf"
done
expect 0 "$quern" synth "$work/again.gguf" --arch qwen3 --layers 2 --embd 256 --heads 8 --kv-heads 2 --ff 512 --vocab-size 600 --ctx 128 --type Q4_K_M
cmp -s "$work/again.gguf" "$work/qwen3.gguf" || bad "synth: the same seed gives another file"
expect 2 "$quern" synth "$work/x.gguf" --preset nonesuch;   one_line "nonesuch" "tinyllama-1.1b"
expect 1 "$quern" synth "$work/x.gguf" --layers 2;          one_line "embedding length (n_embd)"
expect 2 "$quern" synth "$work/x.gguf";                     one_line "--preset" "--layers"
expect 2 "$quern" synth "$work/x.gguf" --preset qwen3-0.6b --type Q9; one_line "Q9"
[ -e /dev/full ] && { expect 1 "$quern" synth /dev/full --arch llama --layers 2 --embd 256 --heads 4 --ff 512 --vocab-size 600; one_line "No space left"; }
[ -e "$work/x.gguf" ] && bad "a failed synth left a file"

# eval: shapes, batches, token lists.
model=$work/llama.gguf
expect 0 "$quern" eval "$model" --tokens 1,2,3,4,5 -o "$work/a.npy"
size=$(wc -c <"$work/a.npy"); [ "$size" -eq $((128 + 5 * 600 * 4)) ] || bad "eval: $size bytes"
head -c 128 "$work/a.npy" | grep -aq "'shape': (5, 600)" || bad "eval: shape"
printf '[1, 2,\n 3 4 5]\n' >"$work/list"
expect 0 "$quern" eval "$model" --tokens "@$work/list" -o "$work/b.npy" --batch 2 -t 2
cmp -s "$work/a.npy" "$work/b.npy" || bad "eval: a batch of 2 gives other logits"
expect 1 "$quern" eval "$model" --tokens 1,x -o "$work/c.npy";   one_line '"x"'
expect 1 "$quern" eval "$model" --tokens 1,600 -o "$work/c.npy"; one_line "600" "599"
expect 1 "$quern" eval "$model" --tokens "" -o "$work/c.npy"
expect 2 "$quern" eval "$model" --tokens 1;                      one_line "-o"
expect 1 "$quern" eval "$model" --tokens 1 -o "$work/no/c.npy";  one_line "No such file"
[ -e "$work/c.npy" ] && bad "a failed eval left a file"

# Tokens that see what comes after them are computed at once, more than a batch has by default too.
expect 0 "$quern" synth "$work/llada.gguf" --arch llada --layers 1 --embd 32 --heads 2 --ff 32 --vocab-size 400 --ctx 1024 --type F32 --spread 0.2
i=0; while [ $i -lt 600 ]; do printf '%d ' $((i * 7 % 400)); i=$((i + 1)); done >"$work/list"
expect 0 "$quern" eval "$work/llada.gguf" --tokens "@$work/list" -o "$work/whole.npy" -b 600
expect 0 "$quern" eval "$work/llada.gguf" --tokens "@$work/list" -o "$work/b.npy"
cmp -s "$work/whole.npy" "$work/b.npy" || bad "eval: of tokens that see both ways some saw less"
expect 2 "$quern" eval "$work/llada.gguf" --tokens "@$work/list" -o "$work/c.npy" -b 512; one_line "512" "600"

# placement: half on another backend, the same logits; a rule that names no backend.
expect 0 "$quern" eval "$model" --tokens 1,2,3,4,5 -o "$work/b.npy" --backends cpu,cpu --place 'blk.1.*=1'
cmp -s "$work/a.npy" "$work/b.npy" || bad "eval: two backends give other logits"
expect 0 "$quern" graph "$model" --plan --backends cpu,cpu:ref --place 'blk.1.*=1'
grep -q "cpu:ref" "$work/out" || bad "graph --plan names no backend"
expect 1 "$quern" eval "$model" --tokens 1 -o "$work/c.npy" --place 'blk.1.*=3'; one_line "backend 3"
expect 0 "$quern" graph "$model" --plan --backends cpu,cpu:ref --place 'blk.1=1'
grep -q '"attn_res-1" -> cpu:ref' "$work/out" && ! grep -q 'blk.*-> cpu:ref' "$work/out" || bad "graph --plan: a layer's hint"
expect 0 "$quern" eval "$model" --tokens 1,2,3,4,5 -o "$work/b.npy" --backends cpu,cpu --place 'blk.1=1'
cmp -s "$work/a.npy" "$work/b.npy" || bad "eval: a layer's hint gives other logits"

# names and taps: what is wrong is a mistake of usage, said before anything is computed or written.
expect 0 "$quern" graph "$model" --names --layer 1
grep -q '^ffn_res-1 F32 .* = resid_post-1' "$work/out" || bad "graph --names"
expect 2 "$quern" eval "$model" --tokens 1 -o "$work/c.npy" --tap 'fnn_out-1=zero'; one_line "ffn_out-1"
expect 2 "$quern" run "$model" x --tap 'ffn_act.silu-1=zero'; one_line "pass fuse"
expect 2 "$quern" run "$model" x --control-vector-layer-range 0-1; one_line "control-vector"
expect 1 "$quern" run "$model" x --control-vector "$work/no.gguf"; one_line "no.gguf"
[ -e "$work/c.npy" ] && bad "a tap that was refused left a file"
expect 0 "$quern" eval "$model" --tokens 1,2,3,4,5 -o "$work/b.npy" --tap "*=save=$work/values" --tap '*=check'
cmp -s "$work/a.npy" "$work/b.npy" || bad "eval: saving gives other logits"
[ -s "$work/values/ffn_res-1.npy" ] && [ -s "$work/values/rows.npy" ] || bad "eval --tap: nothing was saved"

# tokenize there and back.
expect 0 "$quern" tokenize "$model" "kalo mi" --no-bos
ids=$(cat "$work/out")
expect 0 "$quern" tokenize "$model" --decode "$ids"
[ "$(cat "$work/out")" = "kalo mi" ] || bad "tokenize: $(cat "$work/out")"
expect 0 "$quern" tokenize "$model" "kalo mi"
case $(cat "$work/out") in "[1, "*) ;; *) bad "tokenize: no BOS" ;; esac
expect 1 "$quern" tokenize "$model" --decode 99999; one_line "99999"

# inspect: machine-readable forms parse and agree.
expect 0 "$quern" inspect "$model" --csv
[ "$(head -n 1 "$work/out" | cut -d, -f1-7)" = "name,file_offset,size_bytes,type,layer,component,n_dims" ] || bad "inspect --csv header"
rows=$(($(wc -l <"$work/out") - 1))
expect 0 "$quern" inspect "$model" --tensors
[ "$(wc -l <"$work/out")" -eq "$rows" ] || bad "inspect: CSV and list differ in rows"
expect 0 "$quern" inspect "$model" --json
command -v python3 >/dev/null && { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); assert len(d['tensors'])==int(sys.argv[2])" "$work/out" $rows || bad "inspect --json"; }
command -v python3 >/dev/null && { python3 - "$work/out" <<'END' || bad "inspect --json: layers and metadata"
import json, sys
d = json.load(open(sys.argv[1]))
layers = {t["name"]: t.get("layer") for t in d["tensors"]}
assert layers["token_embd.weight"] is None and layers["blk.0.attn_q.weight"] == 0 and layers["blk.1.attn_q.weight"] == 1
m = d["metadata"]
assert m["general.architecture"] == "llama" and m["tokenizer.ggml.tokens"][:3] == ["<unk>", "<s>", "</s>"]
assert len(m["tokenizer.ggml.tokens"]) == len(m["tokenizer.ggml.token_type"]) == 600 and m["llama.block_count"] == 2
END
}
expect 0 "$quern" inspect "$model"
# A stranger's file: a name with a comma and quotes, five dimensions, 5,000 experts, a list of lists, a NaN.
command -v python3 >/dev/null && { python3 - "$work" <<'END' || bad "inspect: a stranger's file was not written"
import struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
tensors, data = [('odd, "name"', (2, 1, 3, 1, 2)), ("blk.0.ffn_up_exps.weight", (8, 4, 5000)), ("nan", (4,))], b""
head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 2) + text("general.architecture") + struct.pack("<I", 8) + text("none")
head += text("lists") + struct.pack("<IIQ", 9, 9, 2) + struct.pack("<IQ3I", 4, 3, 1, 2, 3) * 2
for name, dims in tensors:
    head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data))
    n = 1
    for d in dims:
        n *= d
    data += (struct.pack("<4f", 1, float("nan"), 1, 1) if name == "nan" else bytes(4 * n)).ljust((4 * n + 31) // 32 * 32, b"\0")
open(sys.argv[1] + "/odd.gguf", "wb").write(head.ljust((len(head) + 31) // 32 * 32, b"\0") + data)
END
expect 0 "$quern" inspect "$work/odd.gguf" --json; cp "$work/out" "$work/odd.json"
expect 0 "$quern" inspect "$work/odd.gguf" --csv; cp "$work/out" "$work/odd.csv"
python3 - "$work" <<'END' || bad "inspect: a stranger's file is shown otherwise than it is"
import csv, json, sys
d, rows = json.load(open(sys.argv[1] + "/odd.json")), list(csv.DictReader(open(sys.argv[1] + "/odd.csv")))
assert len(d["tensors"]) == len(rows) == 3 and d["metadata"]["lists"] == [None, None], d["metadata"]  # more experts than anybody has
assert d["tensors"][0]["name"] == rows[0]["name"] == 'odd, "name"' and d["tensors"][0]["shape"] == [2, 1, 3, 1, 2]
assert rows[0]["n_dims"] == "5" and [rows[0][f"dim{i}"] for i in range(8)] == ["2", "1", "3", "1", "2", "", "", ""]
END
for form in --json --csv; do # what is found doesn't stand in what programs read
    expect 1 "$quern" inspect "$work/odd.gguf" --verify $form; grep -q "^nan: " "$work/err" || bad "inspect --verify $form: the NaN is not named"
    cmp -s "$work/out" "$work/odd.${form#--}" || bad "inspect --verify $form: another listing"
done
expect 1 "$quern" inspect "$work/odd.gguf" --verify; grep -q "^nan: " "$work/out" || bad "inspect --verify: the NaN is not named"
}
expect 0 "$quern" inspect "$model"

# graph: every form.
for form in --text --dot --svg; do expect 0 "$quern" graph "$model" --phase prompt $form; [ -s "$work/out" ] || bad "graph $form is empty"; done
expect 0 "$quern" graph "$model" --layer 1 --dot
grep -q '^digraph' "$work/out" || bad "graph --dot"
expect 1 "$quern" graph "$model" --layer 7; one_line "layer 7"
expect 1 "$quern" graph "$model" --dot -o "$(printf '%05000d' 0)"; one_line "the path is too long"
expect 2 "$quern" graph "$model" --phase frob; one_line "frob"

# passes: a table of what each did; off by name, and the logits stay.
expect 0 "$quern" graph "$model" --passes
[ "$(awk 'NR > 1 { printf "%s ", $1 }' "$work/out")" = "fold layout cse fuse dce " ] || bad "graph --passes: $(cat "$work/out")"
awk '$1 == "fuse" && $2 > $3 && $4 > 0 && /-[0-9]+ silu.*\+[0-9]+ swiglu/ { found = 1 } END { exit !found }' "$work/out" || bad "graph --passes: fuse did nothing: $(cat "$work/out")"
expect 0 "$quern" graph "$model" --passes --no-pass fuse --no-pass cse
[ "$(grep -cE '^(fuse|cse) +[0-9]+ +off$' "$work/out" | tr -d ' ')" = 2 ] || bad "graph --no-pass: $(cat "$work/out")"
expect 0 "$quern" graph "$model" --no-pass fuse
grep -q swiglu "$work/out" && bad "graph --no-pass fuse fuses"
for pass in fold layout cse fuse dce; do
    expect 0 "$quern" eval "$model" --tokens 1,2,3,4,5 -o "$work/b.npy" --no-pass $pass
    cmp -s "$work/a.npy" "$work/b.npy" || bad "eval --no-pass $pass gives other logits"
done
expect 2 "$quern" bench "$model" --no-pass fuse,cse; one_line "--no-pass" "fuse,cse"
expect 2 "$quern" run "$model" x --no-pass frob; one_line "--no-pass" "frob" "fold, layout"
expect 2 "$quern" graph "$model" --passes --plan; one_line "--passes"

# A device beyond those that there are: how they are counted, and what lists them.
expect 1 "$quern" eval "$model" --tokens 1 -o "$work/c.npy" --device opencl:63
if grep -q "[1-9] of them were found" "$work/err"; then one_line "device 63 is not there" "numbers begin at 0" "quern doctor"; fi

# compare: two backends, node by node. What differs is in t_engine_compare, which breaks a kernel.
expect 0 "$quern" compare "$model" --backends cpu,cpu:ref
grep -qE '^([0-9]+) nodes: \1 the same, 0 differ$' "$work/out" || bad "compare: $(cat "$work/out")"
expect 0 "$quern" compare "$model" --backends cpu,cpu:ref --tokens 5 --json
grep -q '"differ": 0, "refused": 0}' "$work/out" || bad "compare --json: $(cat "$work/out")"
command -v python3 >/dev/null && { python3 -c "import json,sys; assert json.load(open(sys.argv[1]))['nodes'] > 20" "$work/out" || bad "compare --json"; }
expect 2 "$quern" compare "$model"; one_line "--backends" "cpu,opencl"
expect 2 "$quern" compare "$model" --backends cpu,cpu,cpu; one_line "--backends"
expect 1 "$quern" compare "$model" --backends cpu,frob; one_line "frob"
expect 1 "$quern" compare "$model" --backends cpu,cpu:ref --tokens 100000; one_line "100000"

expect 0 "$quern" doctor
for word in processor level cores memory "read bandwidth" "int8 peak" "f32 peak" PCRE2; do grep -q "$word" "$work/out" || bad "doctor: no $word"; done
finish
