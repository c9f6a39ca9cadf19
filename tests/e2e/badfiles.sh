#!/bin/sh
# SPDX-License-Identifier: MIT
# Every handmade bad file of the fuzz corpora ends with status 1 and one line on standard error that names the offset and what was
# expected; every good one opens. Files whose header is whole but whose tokenizer is damaged end so in tokenize and in run.
. "$1/tests/e2e/lib/common.sh"
corpus=$source/tests/fuzz/corpus/fuzz_gguf
bad_files=0
while IFS='	' read -r name status words; do
    case $status in
    ok) expect 0 "$quern" inspect "$corpus/$name" ;;
    *) expect 1 "$quern" inspect "$corpus/$name"; one_line "$name"; bad_files=$((bad_files + 1))
       expect 1 "$quern" run "$corpus/$name" x; one_line "$name" ;;
    esac
done <"$source/tests/fuzz/corpus/fuzz_gguf.expect"
[ $bad_files -ge 40 ] || bad "only $bad_files bad files"
# A file that ends too early is called that, with the size that it has and the size that it needs; a damaged length is not.
cp "$source/models/shakespeare.gguf" "$work/whole.gguf"
size=$(wc -c <"$work/whole.gguf")
head -c $((size - 1)) "$work/whole.gguf" >"$work/cut.gguf"
expect 1 "$quern" run "$work/cut.gguf" x; one_line "cut.gguf: the file is cut off: $((size - 1)) bytes, at least $size are needed; download it again: tensor " "expected it to end"
head -c 65536 "$work/whole.gguf" >"$work/cut.gguf"
expect 1 "$quern" run "$work/cut.gguf" x; one_line "the file is cut off: 65536 bytes, at least"
for n in 0 3 20 100 1000 5000; do
    head -c $n "$work/whole.gguf" >"$work/cut.gguf"
    expect 1 "$quern" inspect "$work/cut.gguf"; one_line "the file is cut off: $n bytes, at least" "download it again"
done
for name in bad-string-huge bad-count-n_kv-2e63 bad-array-count-0 bad-array-string-huge bad-key-huge; do
    expect 1 "$quern" inspect "$corpus/$name.gguf"; grep -q "cut off" "$work/err" && bad "$name is called cut off"
done
tok_files=0
for file in "$corpus"/tok-*; do
    case $file in
    *tok-good-* | *tok-spm-scores-integers*) expect 0 "$quern" tokenize "$file" ab; continue ;;
    esac
    expect 1 "$quern" tokenize "$file" x; one_line "tokenizer"
    tok_files=$((tok_files + 1))
done
[ $tok_files -ge 10 ] || bad "only $tok_files bad tokenizers"
echo "$bad_files bad files, $tok_files bad tokenizers"
finish
