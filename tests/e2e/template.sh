#!/bin/sh
# SPDX-License-Identifier: MIT
# quern template: prompts, ids, what a template wants, and its errors. models/shakespeare.gguf has no template of its own.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
cat >"$work/t.jinja" <<'END'
{%- for m in messages %}
<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}[{{ c.function.name }}{{ c.function.arguments|tojson }}]{% endfor %}
{%- if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}

{% endfor %}
{{- 'tools ' ~ tools|map(attribute='function')|map(attribute='name')|join(',') if tools }}
{%- if add_generation_prompt %}<|assistant|>{{ '' if enable_thinking is not false else '<nothink>' }}{{ x }}{% endif %}
END
cat >"$work/m.json" <<'END'
[{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "a \"b\"\nc"}]},
 {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"x\": [1, 2.0]}"}}]}]
END
echo '[{"type": "function", "function": {"name": "f"}}]' >"$work/tools.json"
text() { expect 0 "$quern" template "$@"; cat "$work/out"; }
check() { [ "$1" = "$2" ] || bad "found \"$1\", expected \"$2\""; }

check "$(text "$work/t.jinja" -p hi)" "<|user|>hi
<|assistant|>"
check "$(text "$work/t.jinja" -p 'a"b' --system S --no-generation-prompt)" '<|system|>S
<|user|>a"b'
check "$(text "$work/t.jinja" -m "$work/m.json" --tools "$work/tools.json" --think off --kwargs '{"x": "!"}')" '<|system|>S
<|user|>a "b"
c
<|assistant|>[f{"x": [1, 2.0]}]
tools f<|assistant|><nothink>!'
check "$(text "$work/t.jinja" -p hi --plain-spans)" "8 10"
if [ -e /dev/full ]; then
    "$quern" template "$work/t.jinja" -p hi --plain-spans >/dev/full 2>"$work/err"; [ $? -eq 1 ] || bad "--plain-spans: no failure on a full disk"
fi
check "$(text "$work/t.jinja" --source | cksum)" "$(cksum <"$work/t.jinja")"
expect 0 "$quern" template "$work/t.jinja" --info
for line in 'calls of earlier turns yes, several a turn' 'arguments              object' 'reasoning              reasoning_content' \
    'thinking can be set    yes' 'its effort can be set  no' 'tools                  yes'; do
    grep -qF "$line" "$work/out" || { bad "no \"$line\" in:"; cat "$work/out"; }
done

# A model: its own template or, without one, a built-in one by name; the ids are those of the text.
check "$(text "$model" -p "O Romeo")" "O Romeo"
check "$(text "$model" -p "O Romeo" --tokens)" "$("$quern" tokenize "$model" "O Romeo")"
check "$(text "$model" -p "hi" --template chatml)" "<|im_start|>user
hi<|im_end|>
<|im_start|>assistant"
check "$(text "$model" --template-file "$work/t.jinja" -p hi --no-generation-prompt --tokens)" "$("$quern" tokenize "$model" "<|user|>hi
")"
expect 0 "$quern" template "$model" --info;                             grep -q 'plain, ' "$work/out" || bad "not the plain template"

# What is wrong is said in a line.
expect 2 "$quern" template "$model";                                    one_line "--messages"
expect 2 "$quern" template "$work/t.jinja" -p hi --tokens;              one_line "--tokens"
expect 2 "$quern" template "$work/t.jinja" -p hi --think maybe;         one_line "maybe" "on, off"
expect 1 "$quern" template "$model" -p hi --template nosuch;            one_line "nosuch"
expect 2 "$quern" template "$model" -p hi --template plain --template-file "$work/t.jinja"; one_line "twice"
expect 1 "$quern" template "$model" -p hi --template-file "$work/none.jinja"; one_line "none.jinja"
expect 1 "$quern" template "$work/none.gguf" -p hi;                     one_line "none.gguf"
echo '[{"role": "user"}, 3]' >"$work/bad.json"
expect 1 "$quern" template "$work/t.jinja" -m "$work/bad.json";         one_line "messages[1]: found int"
expect 1 "$quern" template "$work/t.jinja" -p hi --kwargs '[';          one_line "kwargs: JSON, offset 1"
printf 'a\n{{ x|nosuch }}' >"$work/bad.jinja"
expect 1 "$quern" template "$work/bad.jinja" -p hi;                     one_line "line 2, column 6: no filter named 'nosuch'"
printf "{{ raise_exception('Only cats.') }}" >"$work/no.jinja"
expect 1 "$quern" template "$work/no.jinja" -p hi;                      one_line "Only cats."
finish
