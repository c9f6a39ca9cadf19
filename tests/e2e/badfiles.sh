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
