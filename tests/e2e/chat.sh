#!/bin/sh
# SPDX-License-Identifier: MIT
# quern chat without a terminal: one turn from -p, a pipe or both; what comes out is the answer alone; what is wrong is said in a line.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf # has no template of its own: "plain" is nothing but the texts
cat >"$work/t.jinja" <<'END'
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if tools %}tools: {{ tools|map(attribute='function')|map(attribute='name')|join }}
{% endif %}{% if enable_thinking is defined %}think: {{ enable_thinking }} {{ reasoning_effort }}
{% endif %}assistant:
END
said() { expect 0 "$quern" chat "$model" -t 1 --temp 0 "$@"; }
same() { cmp -s "$1" "$2" || { bad "$3:"; diff "$1" "$2"; }; }

# ---- an answer is what run gives after the same prompt ----
said -p "ROMEO:" -n 30 --chat-template plain; cp "$work/out" "$work/answer"
[ -s "$work/err" ] && { bad "said on standard error:"; cat "$work/err"; }
"$quern" run "$model" "ROMEO:" -n 30 --temp 0 -q -t 1 >"$work/run"
same "$work/answer" "$work/run" "chat is not run"
said -p "ROMEO:" -n 30; one_line "no chat template" "plain"
same "$work/answer" "$work/out" "with the template that is taken by itself"
# with another template, thinking, a system message and tools: as template renders it, of which run goes on
echo '[{"type": "function", "function": {"name": "f"}}]' >"$work/tools.json"
for think in on off high; do
    case $think in high) switch="on --reasoning-effort high" ;; *) switch=$think ;; esac
    # shellcheck disable=SC2086
    "$quern" template "$work/t.jinja" -p "Who is there?" --system "Be brief." --think $switch --tools "$work/tools.json" >"$work/prompt"
    grep -q "tools: f" "$work/prompt" || bad "no tools in the prompt"
    "$quern" run "$model" -f "$work/prompt" -n 20 --temp 0 -q -t 1 >"$work/run"
    said --chat-template-file "$work/t.jinja" -p "Who is there?" --system "Be brief." --think $think --tools "$work/tools.json" -n 20
    same "$work/run" "$work/out" "--think $think"
done

# words may be large: they are what the list has
"$quern" template "$work/t.jinja" -p x --think off >"$work/small"; "$quern" template "$work/t.jinja" -p x --think OFF >"$work/large"
same "$work/small" "$work/large" "template --think OFF"
said --chat-template-file "$work/t.jinja" -p x --think off -n 20; cp "$work/out" "$work/small"
said --chat-template-file "$work/t.jinja" -p x --think OFF -n 20; same "$work/small" "$work/out" "--think OFF"

# ---- the message as an argument, as run takes its prompt ----
said "ROMEO:" -n 30 --chat-template plain;                      same "$work/answer" "$work/out" "an argument is not -p"
printf 'ROMEO:' | "$quern" chat "$model" - -t 1 --temp 0 --chat-template plain -n 30 >"$work/out" 2>"$work/err" || bad "chat MODEL -"
same "$work/answer" "$work/out" "- is not standard input"
expect 2 "$quern" chat "$model" a -p b;                         one_line "twice"
expect 2 "$quern" chat "$model" a b;                            one_line "one argument too many; usage: quern chat MODEL [PROMPT] [options]"

# ---- pipes: the whole input is one message, behind the text of -p ----
piped() { "$quern" chat "$model" -t 1 --temp 0 --chat-template plain -n 20 "$@" >"$work/out" 2>"$work/err"; }
printf 'JULIET:\nO ' | piped || bad "a pipe: status $?"
cp "$work/out" "$work/pipe"
said -p "JULIET:
O " -n 20 --chat-template plain;                                same "$work/pipe" "$work/out" "a pipe is not -p"
printf 'A line.\nAnother.\n' | piped -p "Tell:" || bad "a pipe and -p: status $?"
cp "$work/out" "$work/pipe"
said -p "Tell:

A line.
Another." -n 20 --chat-template plain;                          same "$work/pipe" "$work/out" "a pipe behind -p"
printf '/help\n' | piped || bad "a command in a pipe: status $?"
grep -q "/reset" "$work/out" && bad "commands work in a pipe"

"$quern" chat "$model" -t 1 --temp 0 --chat-template plain -n 20 -p "ROMEO:" >"$work/closed" 2>"$work/err" <&- || bad "a closed input and -p: $(cat "$work/err")"
said -p "ROMEO:" -n 20 --chat-template plain;                   same "$work/closed" "$work/out" "a closed input is not an empty one"
"$quern" chat "$model" >"$work/out" 2>"$work/err" <&-;          [ $? -eq 2 ] || bad "status of a closed input alone"; one_line "no message"

# ---- options: grammar, stop, the length ----
said -p "ROMEO:" --grammar 'root ::= "yes"';                    [ "$(cat "$work/out")" = yes ] || bad "--grammar: $(cat "$work/out")"
printf '%s' 'root ::= "a" [b-c]' >"$work/g"
said -p "ROMEO:" --grammar-file "$work/g";                      grep -qx 'a[bc]' "$work/out" || bad "--grammar-file: $(cat "$work/out")"
said -p "ROMEO:" --grammar 'root ::= "ä€😀"';                     [ "$(cat "$work/out")" = "ä€😀" ] || bad "UTF-8 out of bytes: $(cat "$work/out")"
said -p "ROMEO:" --json-schema '{"enum": ["yes"]}';             [ "$(cat "$work/out")" = '"yes"' ] || bad "--json-schema: $(cat "$work/out")"
said -p "ROMEO:" -n 200 --stop "
" --chat-template plain -n 30;                                  [ "$(grep -c . "$work/out")" -le 1 ] || bad "--stop: $(cat "$work/out")"
said -p "ROMEO:" -n 0;                                          [ -s "$work/out" ] && bad "-n 0 says: $(cat "$work/out")"
expect 0 "$quern" chat "$model" -t 1 -p x --seed 3 -n 20; cp "$work/out" "$work/a"
expect 0 "$quern" chat "$model" -t 1 -p x --seed 3 -n 20; same "$work/a" "$work/out" "--seed"

# ---- tools: a call is a line of JSON; which is called can be asked for ----
printf '%s' '{% for t in tools %}{{ t.function.name }} {% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}
</tool_call>{% endfor %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}' >"$work/calls.jinja"
echo '[{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "ring", "parameters": {"type": "object", "properties": {"times": {"enum": [3]}}, "required": ["times"], "additionalProperties": false}}}]' >"$work/two.json"
calls() { said -p "What is the time?" --chat-template-file "$work/calls.jinja" --tools "$work/two.json" -n 120 -c 1024 "$@"; }
calls --tool-choice get_time;                                   [ "$(head -n 1 "$work/out")" = '{"name":"get_time","arguments":{"city":"Oslo"}}' ] || bad "--tool-choice get_time: $(cat "$work/out")"
calls --tool-choice ring;                                       [ "$(head -n 1 "$work/out")" = '{"name":"ring","arguments":{"times":3}}' ] || bad "--tool-choice ring: $(cat "$work/out")"
calls --tool-choice required;                                   grep -q '^{"name":"\(ring\|get_time\)",' "$work/out" || bad "--tool-choice required: $(cat "$work/out")"
calls --tool-choice none;                                       grep -q '^{"name"' "$work/out" && bad "--tool-choice none: $(cat "$work/out")"
expect 2 "$quern" chat "$model" -p x --tool-choice none;        one_line "--tool-choice" "--tools"
expect 2 "$quern" chat "$model" -p x --tools "$work/two.json" --tool-choice required --grammar 'root ::= "y"'; one_line "--tool-choice" "grammar"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/calls.jinja" --tools "$work/two.json" --tool-choice sing; one_line "sing"

# ---- a full context is never cut silently ----
long=$(seq 1 150 | tr '\n' ' ')
expect 1 "$quern" chat "$model" -t 1 -p "$long" -c 64 --chat-template plain
one_line "the conversation has" "tokens, the context 64" "one turn alone"
[ -s "$work/out" ] && bad "an answer came: $(cat "$work/out")"
expect 0 "$quern" chat "$model" -t 1 -p "ROMEO:" -c 32 --ignore-eos --chat-template plain
one_line "the answer was cut here" "the conversation has 32 tokens, the context 32" "-c asks"; [ -s "$work/out" ] || bad "no answer came"
"$quern" chat "$model" -t 1 -p "ROMEO:" -c 32 --ignore-eos --chat-template plain >"$work/both" 2>&1 </dev/null
[ "$(tail -n 1 "$work/both" | cut -c1-36)" = "quern chat: the answer was cut here," ] || bad "the message is not on a line of its own: $(tail -n 1 "$work/both")"
expect 0 "$quern" synth "$work/short.gguf" --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --vocab-size 400 --ctx 64
expect 0 "$quern" chat "$work/short.gguf" -t 1 -p "kalo" --ignore-eos --chat-template plain
one_line "the answer was cut here" "the model was trained for no larger context"; grep -q -- "-c asks" "$work/err" && bad "-c is of no use here"
# with --context-shift it goes on, where -n says how far
expect 0 "$quern" chat "$work/short.gguf" -t 1 -p "kalo" --ignore-eos --chat-template plain --context-shift
one_line "the answer was cut here" "with -n N, --context-shift would go on"; cp "$work/out" "$work/cut"
expect 0 "$quern" chat "$work/short.gguf" -t 1 -p "kalo" --ignore-eos --chat-template plain --context-shift -n 200
grep -q "the oldest half of the answer is left out" "$work/err" || bad "--context-shift in one turn: $(cat "$work/err")"
grep -q "cut here" "$work/err" && bad "--context-shift cuts an answer"
[ "$(wc -c <"$work/out")" -gt $((2 * $(wc -c <"$work/cut"))) ] || bad "--context-shift does not go on"
# an answer by a schema that was cut is not one
schema='{"type": "array", "items": {"type": "integer"}, "minItems": 60}'
expect 1 "$quern" chat "$model" -t 1 -p "ROMEO:" --json-schema "$schema" -n 6 --chat-template plain; one_line "the answer was cut after 6 tokens" "schema"
expect 1 "$quern" chat "$model" -t 1 -p "ROMEO:" --json-schema "$schema" -c 32 --chat-template plain; one_line "the answer was cut here"

# ---- what is wrong is said in a line ----
expect 2 "$quern" chat "$model";                                one_line "no message" "-p"
expect 2 "$quern" chat;                                         one_line "argument"
# A value of --think that does nothing is said to; one that does something is not.
chat=$source/models/chat.gguf
for think in on off low; do
    expect 0 "$quern" chat "$model" -p x -n 1 --think $think; grep -q -- "--think $think: the model's template has no switch" "$work/err" || bad "--think $think: $(cat "$work/err")"
done
expect 0 "$quern" chat "$chat" -p x -n 1 --think high; one_line "--think high" "the same as on"
expect 0 "$quern" chat "$chat" -p x -n 1 --think off; [ -s "$work/err" ] && bad "--think off: $(cat "$work/err")"
expect 2 "$quern" chat "$model" -p x --think maybe;             one_line "maybe" "on, off, low, medium, high"
expect 2 "$quern" chat "$model" -p x --grammar 'root ::= "a"' --grammar-file "$work/g"; one_line "twice"
expect 2 "$quern" chat "$model" -p x --chat-template plain --chat-template-file "$work/t.jinja"; one_line "twice"
expect 2 "$quern" chat "$model" -p x --temp -1;                 one_line "--temp"
expect 1 "$quern" chat "$work/none.gguf" -p x;                  one_line "none.gguf"
expect 1 "$quern" chat "$model" -p x --chat-template nosuch;    one_line "nosuch"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/none"; one_line "none"
expect 1 "$quern" chat "$model" -p x --tools "$work/none";      one_line "none"
printf "a\n{{ x|nosuch }}" >"$work/bad.jinja"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/bad.jinja"; one_line "bad.jinja" "line 2"
printf "{{ raise_exception('Only cats.') }}" >"$work/no.jinja"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/no.jinja"; one_line "refuses" "Only cats."
expect 1 "$quern" chat "$model" -p x --chat-template plain --tools "$work/tools.json"; one_line "--tools" "no place for tools"
echo '[{"type": "function"}]' >"$work/bad.json"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/t.jinja" --tools "$work/bad.json"; one_line "tools[0]"
expect 1 "$quern" chat "$model" -p x --chat-template-file "$work/t.jinja" --chat-template-kwargs '['; one_line "kwargs"
printf 'a\0b' >"$work/nul"
"$quern" chat "$model" <"$work/nul" >"$work/out" 2>"$work/err" && bad "a NUL byte is taken"; one_line "NUL"
if [ -e /dev/full ]; then
    "$quern" chat "$model" -p x -n 5 --chat-template plain >/dev/full 2>"$work/err" </dev/null
    [ $? -eq 1 ] || bad "a full disk: status $?"; one_line "No space"
fi
finish
