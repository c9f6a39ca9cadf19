#!/bin/sh
# SPDX-License-Identifier: MIT
# No command writes to a file that it reads, whatever the option and however the path is spelled, nor two texts to one file.
. "$1/tests/e2e/lib/common.sh"
cd "$work" || exit 1
m=m.gguf
expect 0 "$quern" synth $m --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --vocab-size 400 --ctx 64
expect 0 "$quern" run $m hi -n 2 --trace t.qtr
"$quern" run $m "the cat sat on the mat" -n 60 --temp 2 >text.txt 2>/dev/null
for i in 1 2 3 4; do echo '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}'; done >talks.jsonl
echo 1,2 >ids; ln -s $m link.gguf; ln $m hard.gguf; cp m.gguf a-00001-of-00002.gguf; cp m.gguf a-00002-of-00002.gguf
mkdir kept && cp -- *.* ids kept

# refuse FILE COMMAND...: the file is not written to.
refuse() {
    file=$1
    shift
    expect 2 "$quern" "$@"
    one_line "$file is what is read; write to another file"
}
refuse text.txt train text.txt -o text.txt
refuse text.txt train --text text.txt --curve ./text.txt -o x.gguf
refuse text.txt train text.txt -o x.gguf --checkpoint text.txt
refuse talks.jsonl train --chat talks.jsonl --lora $m -o x.gguf --log talks.jsonl
refuse $m train --chat talks.jsonl --lora $m -o $m
printf 'log = text.txt\ntext = text.txt\noutput = x.gguf\n' >conf
refuse text.txt train --config conf
refuse $m eval $m --tokens 1,2 -o $m
refuse ./link.gguf eval $m --tokens 1,2 -o ./link.gguf
refuse hard.gguf eval link.gguf --tokens 1,2 -o hard.gguf
expect 2 "$quern" eval $m --tokens 1,2 -o x --stats $m; one_line "--stats: $m is what is read"
expect 1 "$quern" eval $m --tokens @ids -o ids; one_line "--output: ids is what is read"
refuse a-00002-of-00002.gguf eval a-00001-of-00002.gguf --tokens 1,2 -o a-00002-of-00002.gguf
for option in stats metrics trace; do refuse $m run $m hi --$option $m; done
refuse ids run $m -f ids --stats ids
refuse $m graph $m -o $m
refuse t.qtr graph --trace t.qtr -o t.qtr
refuse $m lens $m hi -o $m
refuse t.qtr trace report t.qtr -o t.qtr
refuse t.qtr trace export t.qtr --csv -o t.qtr
refuse $m reorder $m ././m.gguf
expect 2 "$quern" train text.txt --checkpoint x.gguf -o ./x.gguf; one_line "--output and --checkpoint" "one file"
expect 2 "$quern" run $m hi --stats x --metrics x; one_line "--stats and --metrics" "one file"
for file in *.*; do case $file in x*) bad "a refused command left $file" ;; *) cmp -s "$file" "kept/$file" || [ "$file" = link.gguf ] || bad "$file has changed" ;; esac; done

# What is no file may be named as often as one likes, and a prompt is no file.
expect 0 "$quern" run $m hi -n 2 --stats /dev/null --metrics /dev/null
expect 0 "$quern" run $m -p ids -n 2 --stats ids
expect 0 "$quern" run $m hi -n 2 --stats - --metrics -
expect 0 "$quern" run $m hi -n 2 --stats /dev/stdout --metrics /dev/stdout
finish
