#!/bin/sh
# SPDX-License-Identifier: MIT
# Models of Ollama, Hugging Face, LM Studio, llama.cpp and a folder: laid out as these programs lay them out, with good, split,
# half-downloaded, dangling and hostile entries. Each is listed, runs, or is named with a reason.
. "$1/tests/e2e/lib/common.sh"
unset OLLAMA_MODELS HF_HUB_CACHE HF_HOME LLAMA_CACHE XDG_CACHE_HOME
HOME=$work/home
export HOME
mkdir -p "$HOME"

expect 0 "$quern" list
[ -s "$work/out" ] && { bad "list of nothing:"; cat "$work/out"; }
one_line "no models are here" "--models-dir" "downloads nothing" "ollama, huggingface-cli or curl"
expect 0 "$quern" list --json; [ "$(tr -d ' \n' <"$work/out")" = "[]" ] || bad "list --json of nothing"

# ---- architectures: what the documentation lists, in both forms ----
expect 0 "$quern" list --archs
tr '\n' ' ' <"$1/docs/FORMATS.md" | sed 's/.*## Architectures//; s/Of these, what is refused.*//' | grep -oE '`[a-z0-9_.-]+`' | tr -d '`' |
    grep -vE '^(general\.architecture|attention\.causal|pooling_type|classifier\.output_labels)$' | sort -u >"$work/listed"
LC_ALL=C sort -u "$work/out" | sort -u | cmp -s - "$work/listed" || { bad "docs/FORMATS.md does not list what list --archs prints:"; sort -u "$work/out" | diff - "$work/listed"; }
grep -q "\[$(wc -l <"$work/out") architectures\]" "$1/README.md" || bad "README.md does not say that there are $(wc -l <"$work/out") architectures"
cp "$work/out" "$work/archs"
expect 0 "$quern" help synth
tr ' ,' '\n\n' <"$work/out" | sort -u >"$work/said"
while read -r arch; do grep -qxF "$arch" "$work/said" || bad "quern help synth does not name $arch"; done <"$work/archs"
expect 0 "$quern" list --archs --json; tr -d '[]" ,\n' <"$work/out" >"$work/one"; tr -d '\n' <"$work/archs" | cmp -s - "$work/one" || bad "list --archs --json"

model=$work/model.gguf
expect 0 "$quern" synth "$model" --preset tiny --type Q4_K_M
size=$(wc -c <"$model")
printf 'I answer in verse.' >"$work/system"
printf '{"temperature":0,"stop":["<a>","<b>"],"num_ctx":64,"top_k":7,"unknown":[1,{"x":2}],"num_predict":3}' >"$work/params"

# ---- Ollama ----
ollama=$HOME/.ollama/models
hash() { sha256sum "$1" | cut -d' ' -f1; }
blob() { mkdir -p "$ollama/blobs"; cp "$1" "$ollama/blobs/sha256-$(hash "$1")"; }
layer() { # TYPE FILE [SIZE]
    printf '{"mediaType":"application/vnd.ollama.image.%s","digest":"sha256:%s","size":%s}' "$1" "$(hash "$2")" "${3:-$(wc -c <"$2")}"
}
manifest() { # LIST HOST/NAMESPACE/NAME/TAG LAYERS
    mkdir -p "$ollama/$1/$(dirname "$2")"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"digest":"sha256:00","size":1},"layers":[%s]}' \
        "$3" >"$ollama/$1/$2"
}
blob "$model"; blob "$work/system"; blob "$work/params"
base="$(layer model "$model")"
manifest manifests registry.ollama.ai/library/tiny/latest "$base"
manifest manifests registry.ollama.ai/library/tiny/1b "$base,$(layer system "$work/system"),$(layer params "$work/params")"
manifest manifests registry.ollama.ai/someone/mine/q4 "$base,$(layer template "$work/params")"
manifest manifests hf.co/bart/Thing-GGUF/Q4_K_M "$base"
# manifest-v2: a link to a manifest among the blobs.
cp "$ollama/manifests/registry.ollama.ai/library/tiny/latest" "$work/m"
blob "$work/m"
mkdir -p "$ollama/manifest-v2/ollama.com/library/new"
ln -s "../../../../blobs/sha256-$(hash "$work/m")" "$ollama/manifest-v2/ollama.com/library/new/latest"
# Not whole.
printf x >"$work/short"; hash_short=$(hash "$work/short"); printf y >"$work/gone"; printf z >"$work/cut"
: >"$ollama/blobs/sha256-$hash_short-partial"
manifest manifests registry.ollama.ai/library/pulling/latest "$(layer model "$work/short" 1000)"
manifest manifests registry.ollama.ai/library/dangling/latest "$(layer model "$work/gone")"
head -c 5000 "$model" >"$ollama/blobs/sha256-$(hash "$work/cut")"
manifest manifests registry.ollama.ai/library/truncated/latest "$(layer model "$work/cut" "$size")"
printf w >"$work/cut2"
head -c 5000 "$model" >"$ollama/blobs/sha256-$(hash "$work/cut2")"
manifest manifests registry.ollama.ai/library/lying/latest "$(layer model "$work/cut2" 5000)"
manifest manifests registry.ollama.ai/library/tensors/latest "$(layer tensor "$work/gone")"
manifest manifests registry.ollama.ai/library/empty/latest ""
# Hostile.
manifest manifests registry.ollama.ai/library/climber/latest \
    '{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../../../etc/passwd","size":1}'
manifest manifests registry.ollama.ai/library/notjson/latest '{"mediaType"'
manifest manifests registry.ollama.ai/library/deep/latest "$(printf '%1000s' | tr ' ' '[')"
truncate -s 1G "$ollama/manifests/registry.ollama.ai/library/tiny/huge"
mkfifo "$ollama/manifests/registry.ollama.ai/library/tiny/fifo"
ln -s loop "$ollama/manifests/registry.ollama.ai/library/tiny/loop"
ln -s /etc/passwd "$ollama/manifests/registry.ollama.ai/library/tiny/out"
ln -s ../.. "$ollama/manifests/registry.ollama.ai/library/round"
touch "$ollama/manifests/.DS_Store" "$ollama/manifests/registry.ollama.ai/library/tiny/bad name"

# ---- Hugging Face ----
hub=$HOME/.cache/huggingface/hub
commit=0123456789abcdef0123456789abcdef01234567
repo() { # ORG--REPO
    r=$hub/models--$1
    mkdir -p "$r/refs" "$r/blobs" "$r/snapshots/$commit"
    printf %s $commit >"$r/refs/main"
}
put() { cp "$1" "$r/blobs/$2"; ln -s "../../blobs/$2" "$r/snapshots/$commit/$3"; }
repo org--one-GGUF;   put "$model" aa one-Q4_K_M.gguf
repo org--two-GGUF;   put "$model" aa two-Q4_K_M.gguf; put "$model" bb two-Q8_0.gguf; put "$model" cc mmproj-two-F16.gguf
"$build/t_e2e_split" "$model" "$work/big" 3
repo org--split-GGUF
for i in 1 2 3; do put "$work/big-0000$i-of-00003.gguf" s$i big-Q4_K_M-0000$i-of-00003.gguf; done
repo org--part-GGUF;  put "$work/big-00001-of-00003.gguf" p1 big-Q4_K_M-00001-of-00003.gguf; put "$work/big-00003-of-00003.gguf" p3 big-Q4_K_M-00003-of-00003.gguf
repo org--gone-GGUF;  ln -s ../../blobs/none "$r/snapshots/$commit/gone-Q4_0.gguf"
repo org--half-GGUF;  head -c 3000 "$model" >"$r/blobs/hh.incomplete"
repo org--out-GGUF;   ln -s "$model" "$r/snapshots/$commit/out-Q4_0.gguf"; ln -s ../../.. "$r/snapshots/$commit/up"
repo org--badref;     printf '../../../../etc' >"$r/refs/main"
repo org--fiforef;    rm "$r/refs/main"; mkfifo "$r/refs/main"
repo org--noref;      rm "$r/refs/main"; put "$model" aa noref-F16.gguf
mkdir "$hub/models--..--.." "$hub/models--" "$hub/datasets--a--b"

# ---- LM Studio ----
lm=$HOME/.lmstudio/models
mkdir -p "$lm/pub/Repo-GGUF"
ln -s "$model" "$lm/pub/Repo-GGUF/Repo-Q4_K_M.gguf" # as lms import --symbolic-link does
cp "$model" "$lm/pub/Repo-GGUF/downloading_Repo-Q8_0.gguf.part"
ln -s .. "$lm/pub/Repo-GGUF/up"; ln -s . "$lm/pub/here"
mkfifo "$lm/pub/Repo-GGUF/fifo-Q4_0.gguf"
mkdir "$lm/pub/Repo-GGUF/folder.gguf"
: >"$lm/pub/Repo-GGUF/empty-Q4_0.gguf"
printf 'not a model' >"$lm/pub/Repo-GGUF/text-Q4_0.gguf"
mkdir "$lm/closed"; chmod 000 "$lm/closed"
mkdir -p "$work/chosen/pub/Far-GGUF" "$work/pointed/models/pub/Moved-GGUF" "$HOME/.cache/lm-studio"
cp "$model" "$work/chosen/pub/Far-GGUF/Far-Q4_K_M.gguf"
cp "$model" "$work/pointed/models/pub/Moved-GGUF/Moved-Q8_0.gguf"
printf '{"language": {"x": [1]}, "downloadsFolder": "%s", "y": 1}' "$work/chosen" >"$HOME/.lmstudio/settings.json"
printf '{"downloadsFolder": 3' >"$work/pointed/settings.json" # LM Studio takes its usual folder then
mkfifo "$HOME/.cache/lm-studio/settings.json"
printf '%s\n' "$work/pointed" >"$HOME/.lmstudio-home-pointer"

# ---- llama.cpp ----
mkdir -p "$HOME/.cache/llama.cpp"
cp "$model" "$HOME/.cache/llama.cpp/ggml_org_small-GGUF_small-Q4_K_M.gguf"
printf '{}' >"$HOME/.cache/llama.cpp/manifest=ggml_org=small-GGUF=latest.json"
cp "$model" "$HOME/.cache/llama.cpp/other.gguf.downloadInProgress"

# ---- a folder ----
mkdir -p "$work/dir/sub"
cp "$model" "$work/dir/sub/local.gguf"
cp "$model" "$(printf '%s/dir/e\033[31m\377.gguf' "$work")"
d=$work/dir; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do d=$d/d; mkdir "$d"; done; cp "$model" "$d/deep.gguf"

# ---- list ----
expect 0 timeout 240 "$quern" list --models-dir "$work/dir"
grep -q "  no: " "$work/out" && bad "list lists what cannot be used"; cp "$work/out" "$work/used"
n_used=$(($(wc -l <"$work/out") - 1))
n_not=$(sed -n 's/^quern list: \([0-9]*\) more cannot be used; --all lists them with the reason$/\1/p' "$work/err"); one_line "cannot be used"
timeout 240 "$quern" list --all --models-dir "$work/dir" >"$work/list" 2>"$work/err" </dev/null || { bad "list fails"; cat "$work/err"; }
row() { # NAME SOURCE TEXT
    grep -E "^$1  +$2 " "$work/list" | grep -qF -- "$3" || { bad "no row \"$1\" of $2 with \"$3\":"; grep -E "^$1  " "$work/list"; }
}
row tiny:latest ollama yes;                      row tiny:1b ollama yes
row tiny:latest ollama Q4_K_M;                   row tiny:latest ollama llama
row someone/mine:q4 ollama yes;                  row hf.co/bart/Thing-GGUF:Q4_K_M ollama yes
row new:latest ollama yes;                       row pulling:latest ollama "no: half-downloaded"
row dangling:latest ollama "no: its file is not there"
row truncated:latest ollama "no: half-downloaded: 5000 bytes of $size"
row lying:latest ollama "no: ";                  row tensors:latest ollama "no: stored as safetensors"
row empty:latest ollama "no: its manifest names no model"
row climber:latest ollama "no: its digest is not sha256"
row notjson:latest ollama "no: its manifest:";   row deep:latest ollama "no: its manifest:"
row tiny:huge ollama "no: its manifest: 1073741824 bytes"
row tiny:fifo ollama "no: its manifest is a named pipe"
row tiny:loop ollama "leads back to itself";     row tiny:out ollama "leads out of the store"
row round ollama "a link to a folder";           row 'bad name' ollama "this is no name of a model"
row org/one-GGUF:Q4_K_M huggingface yes;         row org/two-GGUF:Q8_0 huggingface yes
row org/split-GGUF:Q4_K_M huggingface yes;       row org/part-GGUF:Q4_K_M huggingface "half-downloaded: part 2 of 3 is missing"
row org/gone-GGUF:Q4_0 huggingface "a link to a file that is not there"
row org/half-GGUF huggingface "half-downloaded: 3000 bytes so far"
row org/out-GGUF:Q4_0 huggingface "leads out of the store"
row org/badref huggingface "refs/main holds no commit"
row org/fiforef huggingface "a named pipe";      row org/noref:F16 huggingface yes
row 'models--\.\.--\.\.' huggingface "no name of a repository"
row pub/Repo-GGUF:Q4_K_M lmstudio yes;           row pub/Repo-GGUF:Q8_0 lmstudio "half-downloaded"
row pub/Far-GGUF:Q4_K_M lmstudio yes;            row pub/Moved-GGUF:Q8_0 lmstudio yes
row pub/Repo-GGUF:fifo-Q4_0 lmstudio "a named pipe"
row pub/Repo-GGUF:empty-Q4_0 lmstudio "no: empty"
row pub/Repo-GGUF:text-Q4_0 lmstudio "no: "
[ "$(id -u)" -eq 0 ] || row closed lmstudio "Permission denied"
row ggml_org/small-GGUF:Q4_K_M llamacpp yes;     row other llamacpp half-downloaded
row sub/local folder yes
row 'e\\x1b\[31m\\xff' folder yes
[ "$(wc -l <"$work/list")" -eq $((1 + n_used + n_not)) ] || bad "list --all: $(wc -l <"$work/list") lines, $n_used and $n_not models"
head -n $((1 + n_used)) "$work/list" | awk 'NR > 1 { print $1 }' >"$work/first"; awk 'NR > 1 { print $1 }' "$work/used" | cmp -s - "$work/first" ||
    bad "list --all: those that can be used do not come first"
grep -q deep.gguf "$work/list" && bad "a folder of twelve levels is walked through"
grep -q mmproj "$work/list" && bad "a projector is listed"
LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177]')" "$work/list" && bad "a control character is printed"
expect 0 timeout 240 "$quern" list --json --models-dir "$work/dir"
grep -q '"name": "org/part-GGUF:Q4_K_M"' "$work/out" || bad "list --json: $(head -c 300 "$work/out")"
expect 1 "$quern" list --models-dir "$work/none"; one_line "$work/none is no folder"

# ---- run ----
run() { # STATUS MODEL [OPTION VALUE]
    status=$1 name=$2
    shift 2
    expect "$status" timeout 240 "$quern" run "$name" x -n 2 --temp 0 --quiet "$@"
}
expect 0 "$quern" run "$model" x -n 2 --temp 0 --quiet; cp "$work/out" "$work/want"
for name in tiny tiny:latest TINY library/tiny registry.ollama.ai/library/tiny:latest someone/mine:q4 hf.co/bart/Thing-GGUF:Q4_K_M new \
    org/one-GGUF org/one-GGUF:q4_k_m huggingface.co/org/one-GGUF org/one-GGUF/one-Q4_K_M.gguf org/split-GGUF org/two-GGUF:Q8_0 \
    pub/Repo-GGUF:Q4_K_M Repo-Q4_K_M ggml_org/small-GGUF "$lm/pub/Repo-GGUF/Repo-Q4_K_M.gguf"; do
    run 0 "$name"
    cmp -s "$work/out" "$work/want" || { bad "run $name: $(cat "$work/out" "$work/err")"; }
    [ -s "$work/err" ] && { bad "run $name says:"; cat "$work/err"; }
done
run 0 local --models-dir "$work/dir";     run 0 sub/local --models-dir "$work/dir"
run 1 org/two-GGUF;                       one_line "may be" "org/two-GGUF:Q4_K_M" "org/two-GGUF:Q8_0"
run 1 pulling;                            one_line "pulling:latest" "half-downloaded"
run 1 org/part-GGUF;                      one_line "part 2 of 3"
run 1 climber;                            one_line "sha256"
run 1 tiny:huge;                          one_line "1073741824 bytes"
run 1 tinny;                              one_line "no such file" "near are: tiny"
run 1 tiny:1v;                            one_line "near are: tiny:1b"
run 1 zzzzzz;                             one_line "no such file" "quern list" "downloads nothing"
run 1 hf.co/some/where;                   one_line "hf.co/some/where: no such file" "downloads nothing"
run 1 https://hf.co/some/where.gguf;      one_line "no such file" "downloads nothing"
run 1 "$work/x.safetensors";              one_line "models must be GGUF"
expect 2 "$quern" pull tiny;              one_line '"pull" is no command' "downloads nothing"
run 1 ../../etc/passwd;                   one_line "../../etc/passwd"
run 1 "$(printf 'a\033b')";               one_line "no such file"
run 1 none.gguf;                          one_line "No such file"
run 1 "$work/dir";                        one_line "is a directory"
# The model's own options: defaults that the command line overrides.
expect 0 "$quern" run tiny:1b x --quiet;  one_line "tiny:1b sets: temperature 0, stop <a>, stop <b>, num_ctx 64, top_k 7, num_predict 3"
expect 0 "$quern" run tiny:1b x --quiet -n2 --top-k=3 --stop END -c 32
one_line "sets: temperature 0"; grep -q "num_ctx\|num_predict\|stop\|top_k" "$work/err" && bad "options are overridden: $(cat "$work/err")"
# A parameter that makes no sense is said and left alone.
printf '{"temperature":"hot","top_k":1e99}' >"$work/params2"; blob "$work/params2"
manifest manifests registry.ollama.ai/library/tiny/odd "$base,$(layer params "$work/params2")"
expect 0 "$quern" run tiny:odd x -n 2 --quiet
grep -q '"hot"' "$work/err" || bad "a parameter that is no number: $(cat "$work/err")"
# An adapter acts as one that is given by --lora.
head -c 3000 "$source/tests/text/sonnets.txt" >"$work/text"
expect 0 "$quern" train "$work/text" --lora "$model" -o "$work/adapter.gguf" --steps 2 --ctx 16 --batch 1 --lr 0.1
blob "$work/adapter.gguf"
manifest manifests registry.ollama.ai/library/tiny/tuned "$base,$(layer adapter "$work/adapter.gguf")"
expect 0 "$quern" eval tiny:tuned --tokens 1,2,3 -o "$work/tuned.npy"
expect 0 "$quern" eval "$model" --lora "$work/adapter.gguf" --tokens 1,2,3 -o "$work/given.npy"
expect 0 "$quern" eval tiny --tokens 1,2,3 -o "$work/without.npy"
cmp -s "$work/tuned.npy" "$work/given.npy" || bad "the adapter of tiny:tuned"
cmp -s "$work/tuned.npy" "$work/without.npy" && bad "tiny:tuned is tiny"
manifest manifests registry.ollama.ai/library/tiny/torn "$base,$(layer adapter "$work/gone")"
run 1 tiny:torn; one_line "its adapter" "its file is not there"
# The system prompt is that of a conversation.
expect 0 "$quern" chat tiny:1b -p hi; grep -q "tiny:1b sets: .*system" "$work/err" || bad "chat: $(cat "$work/err")"
expect 0 "$quern" chat tiny:1b -p hi --system no; grep -q "sets: .*system" "$work/err" && bad "--system: $(cat "$work/err")"
for command in "tokenize tiny hi" "inspect tiny" "template tiny -p hi" "graph tiny" "eval tiny --tokens 1 -o $work/x.npy" "show tiny:1b"; do
    # shellcheck disable=SC2086
    expect 0 "$quern" $command
done

# ---- show ----
expect 0 "$quern" show tiny:1b
for line in "source                 ollama" "type                   Q4_K_M" "context                256" "option                 stop <b>" \
    "system prompt          18 bytes" "runs                   yes" "template               plain"; do
    grep -q "^$line" "$work/out" || { bad "show: no \"$line\" in:"; cat "$work/out"; }
done
expect 0 "$quern" show tiny --json; grep -q '"needs"' "$work/out" || bad "show --json"
expect 0 "$quern" show tiny --template; grep -q messages "$work/out" || bad "show --template: $(cat "$work/out")"
expect 1 "$quern" show truncated; one_line "half-downloaded"
head -c 3000 "$source/models/shakespeare.gguf" >"$work/short.gguf"
expect 1 sh -c "cd '$work' && '$quern' show short.gguf"; [ "$(grep -o "short.gguf" "$work/err" | wc -l)" -eq 1 ] || bad "show: $(cat "$work/err")"

# ---- places by the environment ----
expect 0 env HOME=/nonexistent OLLAMA_MODELS="$ollama" "$quern" show tiny
expect 0 env HOME=/nonexistent HF_HUB_CACHE="$hub" "$quern" show org/one-GGUF
expect 0 env HOME=/nonexistent HF_HOME="$HOME/.cache/huggingface" "$quern" show org/one-GGUF
expect 0 env HOME=/nonexistent XDG_CACHE_HOME="$HOME/.cache" "$quern" show org/one-GGUF
expect 0 env HOME=/nonexistent LLAMA_CACHE="$HOME/.cache/llama.cpp" "$quern" show ggml_org/small-GGUF
expect 1 env HOME=/nonexistent "$quern" show tiny
chmod 755 "$lm/closed"
finish
