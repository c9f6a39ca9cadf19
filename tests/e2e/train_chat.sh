#!/bin/sh
# SPDX-License-Identifier: MIT
# quern train --chat: conversations to a model that answers and stops; interrupted and resumed; adapters; mistakes.
. "$1/tests/e2e/lib/common.sh"

# Two questions, over and over, and one that is answered by a call.
awk 'BEGIN { for (i = 0; i < 60; i++) {
    say("What colour is snow?", "Snow is white."); say("What colour is coal?", "Coal is black.")
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}, {\"role\": \"assistant\", \"reasoning_content\": \"I look.\", \"tool_calls\": [{\"id\": \"1\", "
    printf "\"type\": \"function\", \"function\": {\"name\": \"look\", \"arguments\": \"{}\"}}]}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"look\"}}]}\n" } }
    function say(q, a) { printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", q, a }' >"$work/talks"
shape="--layers 1 --embd 32 --heads 4 --ctx 64 --batch 4 --lr 2e-2 --seed 5 --eval-every 20 --steps 40"
template="--chat-template $source/models/chat.jinja --special <|im_start|>,<|im_end|>,<think>,</think>,<tool_call>,</tool_call>,<tools>,</tools>
    --eos-token <|im_end|> --split-digits"
# answer MODEL QUESTION [OPTION...]: what the model says to it, control tokens shown.
answer() {
    model=$1 question=$2
    shift 2
    expect 0 "$quern" template "$model" -p "$question" "$@"
    cp "$work/out" "$work/prompt"
    expect 0 "$quern" run "$model" -f "$work/prompt" -q -n 40 --temp 0 --special
    cat "$work/out"
}
# says WANT MODEL QUESTION [OPTION...]
says() {
    want=$1
    shift
    have=$(answer "$@")
    [ "$have" = "$want" ] || bad "\"$have\", \"$want\" expected"
}

expect 0 "$quern" train --chat "$work/talks" -o "$work/a.gguf" $shape $template -t 1 --log "$work/a.csv" --curve "$work/a.svg"
grep -q "162 conversations and 18 held out" "$work/err" || { bad "conversations:"; sed -n 1,3p "$work/err"; }
says "Snow is white." "$work/a.gguf" "What colour is snow?"
says "Coal is black." "$work/a.gguf" "What colour is coal?"
expect 0 "$quern" chat "$work/a.gguf" -p "What colour is coal?" --temp 0
[ "$(cat "$work/out")" = "Coal is black." ] || bad "quern chat: $(cat "$work/out")"
echo '[{"type": "function", "function": {"name": "look"}}]' >"$work/tools"
says '<think>
I look.
</think>

<tool_call>
{"name": "look", "arguments": {}}
</tool_call>' "$work/a.gguf" "Weather?" --tools "$work/tools"
expect 0 "$quern" chat "$work/a.gguf" -p "Weather?" --tools "$work/tools" --temp 0
[ "$(cat "$work/out")" = '{"name":"look","arguments":{}}' ] || bad "quern chat, a call: $(cat "$work/out")"
expect 0 "$quern" template "$work/a.gguf" --source
cmp -s "$work/out" "$source/models/chat.jinja" || bad "the template of the file is another"

expect 0 "$quern" tokenize "$work/a.gguf" "<|im_start|></tool_call><|im_end|>" --no-bos
[ "$(cat "$work/out")" = "[3, 8, 4]" ] || bad "tokens: $(cat "$work/out")"
expect 0 "$quern" tokenize "$work/a.gguf" "<|im_start|>" --no-bos --no-special
[ "$(cat "$work/out")" = "[3]" ] && bad "<|im_start|> is a token without --special's"

# Killed and resumed on two threads: the same log and file.
"$quern" train --chat "$work/talks" -o "$work/b.gguf" $shape $template -t 2 --log "$work/b.csv" --checkpoint "$work/ckpt" --checkpoint-every 7 >/dev/null 2>&1 &
sleep 0.1
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
expect 0 "$quern" train --chat "$work/talks" -o "$work/b.gguf" $shape $template -t 2 --log "$work/b.csv" --checkpoint "$work/ckpt" --checkpoint-every 7 --resume
cmp -s "$work/a.csv" "$work/b.csv" && cmp -s "$work/a.gguf" "$work/b.gguf" || bad "a resumed run differs"

# ChatML is what there is without a template; a file of options; an adapter that changes an answer.
grep -v tools "$work/talks" >"$work/plain"
{ echo "chat = $work/plain"; echo "$shape" | sed 's/--\([a-z-]*\) \([^ ]*\) */\1 = \2\n/g'; } >"$work/conf"
expect 0 "$quern" train --config "$work/conf" -o "$work/c.gguf" --type Q8_0
says "Snow is white." "$work/c.gguf" "What colour is snow?"
sed 's/Snow is white/Snow is cold/' "$work/plain" >"$work/cold"
expect 0 "$quern" train --chat "$work/cold" --lora "$work/c.gguf" -o "$work/lora.gguf" --ctx 64 --batch 4 --steps 60 --lr 1.6e-2 --seed 1
cp "$work/prompt" "$work/question"
expect 0 "$quern" run "$work/c.gguf" --lora "$work/lora.gguf" -f "$work/question" -q -n 40 --temp 0
[ "$(cat "$work/out")" = "Snow is cold." ] || bad "with the adapter: $(cat "$work/out")"

# Mistakes.
echo '{"messages": [{"role": "user", "content": "a"}]}' >"$work/unanswered"
echo "What?" >"$work/text"
for bad_list in "a,,b" "<a>,<a>" "</s>" "a b"; do
    expect 1 "$quern" train "$work/plain" -o "$work/x.gguf" --special "$bad_list"; one_line "special token"
done
expect 1 "$quern" train "$work/plain" -o "$work/x.gguf" --special "<a>" --eos-token "<b>";          one_line "<b>"
expect 2 "$quern" train "$work/text" --chat "$work/talks" -o "$work/x.gguf";                        one_line "--chat"
expect 1 "$quern" train --chat "$work/unanswered" -o "$work/x.gguf";                                one_line "$work/unanswered:1" "assistant"
expect 1 "$quern" train --chat "$work/text" -o "$work/x.gguf";                                      one_line "$work/text:1"
expect 1 "$quern" train --chat "$work/talks" -o "$work/x.gguf";                                     one_line "$work/talks:3" "does not show"
expect 1 "$quern" train --chat "$work/plain" -o "$work/x.gguf" --chat-template "$work/none";        one_line "No such file"
echo "{% if %}" >"$work/broken.jinja"
expect 1 "$quern" train --chat "$work/plain" -o "$work/x.gguf" --chat-template "$work/broken.jinja"; one_line "chat template" "line 1"
expect 1 "$quern" train --chat "$work/plain" -o "$work/x.gguf" --chat-template "$source/models/chat.jinja"; one_line "would never stop"
expect 1 "$quern" train --chat "$work/plain" --lora "$work/c.gguf" -o "$work/x.gguf" --special "<a>"; one_line "base"
[ -e "$work/x.gguf" ] && bad "a failed command left a model"
finish
