#!/bin/sh
# SPDX-License-Identifier: MIT
# quern chat on a terminal, which tmux plays: what a person types and sees. The conversation, its history, lines and messages of several
# lines, Ctrl-C, commands, files, calls of tools, a full context, and how many tokens a turn computes, counted outside.
. "$1/tests/e2e/lib/common.sh"
command -v tmux >/dev/null || { echo "skipped: no tmux"; exit 77; }
model=$source/models/shakespeare.gguf
export XDG_STATE_HOME="$work/state" LC_ALL=C.UTF-8
unset NO_COLOR VISUAL EDITOR TMUX
tm() { tmux -u -S "$work/tmux" -f /dev/null "$@" 2>/dev/null; }
trap 'tm kill-server; rm -rf "$work"' EXIT
tm new-session -d cat && tm list-panes >/dev/null || { echo "skipped: tmux opens no terminal (no /dev/pts?)"; exit 77; }

# chat OPTIONS...: a new terminal with quern chat in it; the pane stays when it ends, and its exit status is in a file.
chat() {
    tm kill-server
    n_prompts=0
    rm -f "$work/status"
    printf 'trap : INT; ' >"$work/command"
    for word in env TERM="${TERM_OF_CHAT:-tmux-256color}" "$quern" chat "$model" -t 1 "$@"; do
        case $word in *\'*) word=$(printf '%s' "$word" | sed "s/'/'\\\\''/g") ;; esac
        printf "'%s' " "$word" >>"$work/command"
    done
    printf '%s' "${tail_of_chat:-}; echo \$? >'$work/status.part'; mv '$work/status.part' '$work/status'" >>"$work/command"
    # the server that was told to end may still be there
    wait_for tm new-session -d -s c -x 100 -y 50 "sh '$work/command'" ';' set-option -g remain-on-exit on
    sees "Ctrl-D leaves" || finish
}
# wait_for COMMAND: until it succeeds; what has not come after minutes never will, on the slowest machine
wait_for() {
    tries=0
    until "$@"; do
        [ $((tries += 1)) -lt 4000 ] || return 1
        sleep 0.05
    done
}
# capture: the screen, for a pipe. Each look is two programs: there are hundreds.
capture() { exec tmux -u -S "$work/tmux" -f /dev/null capture-pane -p -S -300 -t c 2>/dev/null; }
screen() { (capture) >"$work/screen"; }
# sees TEXT [TIMES]: waits until it stands on the screen that often
sees() { wait_for seen "$@" || { bad "never seen: \"$1\""; grep . "$work/screen"; return 1; }; }
seen() {
    capture | WANT=$1 awk -v n="${2:-1}" -v to="$work/screen" 'BEGIN { printf "" >to } { print >to } index($0, ENVIRON["WANT"]) { seen++ } END { close(to); exit seen < n }'
}
# answering TEXT: waits until an answer to it is being written, some lines of it
answering() { wait_for is_answering "$1" || { bad "no answer begins"; grep . "$work/screen"; }; }
is_answering() {
    capture | WANT="> $1" awk -v to="$work/screen" 'BEGIN { printf "" >to } { print >to } index($0, ENVIRON["WANT"]) == 1 { begun = 1 } begun && /./ { n++ } END { close(to); exit n < 4 }'
}
keys() { tm send-keys -t c "$@"; }
# types TEXT: and Enter
types() { tm send-keys -l -t c -- "$1" ';' send-keys -t c Enter; }
# say TEXT: a line, and its end; waits for the next prompt
say() { types "$1"; prompt; }
# prompt: waits until a new prompt is the last line, not the one that was there before
n_prompts=0
prompt() { wait_for is_prompt || { bad "no prompt came"; grep . "$work/screen"; }; }
is_prompt() {
    n=$(capture | awk -v to="$work/screen" 'BEGIN { printf "" >to } { print >to } /^>/ { n++ } /./ { last = $0 } END { close(to); print last == ">" ? n : 0 }')
    [ "$n" -gt "$n_prompts" ] && n_prompts=$n
}
# prompt_is_back: the same, but something may stand behind it already
prompt_is_back() { wait_for is_back || { bad "no prompt came back"; cat "$work/screen"; }; }
is_back() {
    capture | awk -v to="$work/screen" -v before="$n_prompts" 'BEGIN { printf "" >to } /./ { print >to; last = $0 } /^>/ { n++ } END { close(to); exit !(n > before && last ~ /^>/) }'
}
clear_screen() { n_prompts=0; tm send-keys -R -t c ';' clear-history -t c; keys Enter; prompt; }
leaves() { # by the keys
    keys "$@"
    wait_for [ -e "$work/status" ]
    [ "$(cat "$work/status")" = 0 ] || { bad "left with: $(cat "$work/status")"; screen; grep . "$work/screen"; }
}

# ---- a conversation ----
chat --chat-template plain -n 8 --temp 0; prompt
say "ROMEO:"; say "My lost ö?"; say "/save $work/c.json"
grep -qF '{"role": "user", "content": "My lost ö?"}' "$work/c.json" || { bad "not as it was typed:"; cat "$work/c.json"; }
leaves C-d
# A terminal that can move no cursor has its own lines; so has a build without libedit.
export TERM_OF_CHAT=dumb
chat --chat-template plain -n 8 --temp 0; prompt
types '"""one'; sees "..."; types 'two"""'; prompt
types 'three\'; types 'four'; prompt
say "/save $work/c.json"
for text in 'one\ntwo' 'three\nfour'; do
    grep -qF "{\"role\": \"user\", \"content\": \"$text\"}" "$work/c.json" || { bad "no message \"$text\" in:"; cat "$work/c.json"; }
done
keys C-c; sees "Ctrl-C again or Ctrl-D leaves"; prompt
leaves C-c
unset TERM_OF_CHAT

# ---- answers alone go to a pipe; a person goes on seeing the rest ----
tail_of_chat=">'$work/answers'"
chat --chat-template plain -n 8 --temp 0; prompt
say "ROMEO:"; say "/stats"; sees "prompt "
leaves C-d
tail_of_chat=
"$quern" run "$model" "ROMEO:" -q -n 8 --temp 0 -t 1 >"$work/run"
cmp -s "$work/run" "$work/answers" || { bad "not the answer alone:"; cat "$work/answers"; }

# ---- commands ----
printf '#!/bin/sh\necho "by the editor" >"$1"\n' >"$work/editor"; chmod +x "$work/editor"
export EDITOR="$work/editor"
chat --chat-template plain -n 8 --temp 0; prompt
unset EDITOR
say "ROMEO:"; say "JULIET:"; say "KING:"; say "//slash"; say "/save $work/c.json"
clear_screen
say /reset; say /context; sees "0 messages"
say "/load $work/c.json"; sees "8 messages read"
clear_screen; say /clear; say /context; sees "0 messages"; say "/load $work/c.json"; sees "8 messages read"
say "/save $work/d.json"; cmp -s "$work/c.json" "$work/d.json" || { bad "saved, loaded and saved is not the same:"; diff "$work/c.json" "$work/d.json"; }
say /regenerate; say "/save $work/d.json"
cmp -s "$work/c.json" "$work/d.json" || { bad "the same answer was not generated again:"; diff "$work/c.json" "$work/d.json"; }
say "/edit slush"; say "/save $work/d.json"
grep -qF '"content": "slush"' "$work/d.json" || bad "/edit did not change the message"
grep -qF '/slash' "$work/d.json" && bad "/edit left the old message"
[ "$(grep -c role "$work/d.json")" -eq 8 ] || bad "/edit: not 8 messages"
say "/edit"; say "/save $work/d.json"
grep -qF '"content": "by the editor"' "$work/d.json" || bad "/edit did not take what the editor wrote"
say "/system Be brief."; say "/system"; sees "Be brief." 2
say "/save $work/d.json"; grep -qF '[{"role": "system", "content": "Be brief."}' "$work/d.json" || bad "no system message"
say "/system -"; say "/system"; sees "no system message"
say "/set temp 0.25"; sees "temp                   0.25"
say "/set predict 5"; say "x"; say /stats; sees "answer       5 tokens"
clear_screen
say "/frob"; sees '"/frob" is no command'
say "/rest"; sees 'did you mean /reset'
say "/set tmp 3"; sees "did you mean temp?"
say "/set temp -3"; sees 'is no number from 0'
say "/set temp"; sees "needs a value"
echo '[{"role": "user", "content": 3}]' >"$work/bad.json"
say "/load $work/bad.json"; sees "messages[0].content"
say "/load $work/none.json"; sees "No such file"
say "/save"; sees "needs the name of a file"
say "/save $work/none/x"; sees "cannot write"
say "/save $work/e.json"; [ "$(grep -c role "$work/e.json")" -eq 10 ] || bad "what failed changed the conversation"
say "/help"; sees "/regenerate"
leaves -l "/bye
"

# ---- what a turn computes, counted outside ----
# The cache holds the first prompt and what was said but for the last token; the second turn computes what comes after the longest common
# beginning of that and its own prompt. One template only adds; one shows earlier questions in another form.
printf '%s' 'This is a play of kings and of those who serve them. {% for m in messages %}[{{ m.role }}] {{ m.content }}
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}' >"$work/adds.jinja"
printf '%s' 'This is a play of kings and of those who serve them. {% for m in messages %}[{{ m.role }}{{ " now" if loop.last }}] {{ m.content }}
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}' >"$work/rewrites.jinja"
for template in adds rewrites; do
    chat --chat-template-file "$work/$template.jinja" -n 12 --temp 0; prompt
    say "Who is there, in the night?"; say "/save $work/1.json"; say "Speak to me of the king."; clear_screen; say "/stats"; say "/save $work/2.json"
    said=$(sed -n 's/.*: \([0-9]*\) reused, \([0-9]*\) computed.*/\1 \2/p' "$work/screen")
    sed -n '1s/,$/]/p' "$work/1.json" >"$work/1u.json" # what was asked first, and the whole before the second answer
    sed '$d' "$work/2.json" | sed '$s/,$/]/' >"$work/2u.json"
    for i in 1 2; do "$quern" template "$work/$template.jinja" -m "$work/${i}u.json" >"$work/$i.txt"; done
    "$quern" run "$model" -f "$work/1.txt" -n 11 --temp 0 -t 1 >"$work/1.said" # of the 12 that were said the last is not in the cache
    tokens() { "$quern" tokenize "$model" "$1" | tr -d '[] ' | tr ',' '\n'; }
    tokens "$(cat "$work/1.said")" >"$work/1.ids" # run's last newline is not the model's
    tokens "$(cat "$work/2.txt")" >"$work/2.ids"
    want=$(paste -d ' ' "$work/1.ids" "$work/2.ids" | awk '$1 != $2 { print NR - 1; exit }')
    total=$(grep -c . "$work/2.ids")
    [ "$said" = "$want $((total - want))" ] || bad "$template: /stats says \"$said\" reused and computed, outside \"$want $((total - want))\" were counted"
    [ "$want" -gt 4 ] || bad "$template: only $want tokens are common, nothing was tested"
done

# ---- Ctrl-C in mid-answer keeps what was said ----
chat --chat-template plain --ignore-eos -c 400000 --temp 0; prompt # an answer that goes on for minutes
types "ROMEO:"; answering ROMEO; keys C-c; sees "(stopped)"; prompt
say "/save $work/c.json"
grep -q '"role": "assistant"' "$work/c.json" || { bad "what was said is lost:"; cat "$work/c.json"; }
say "/context"; sees "2 messages"
clear_screen; say /reset # and so while the terminal takes nothing, which Ctrl-S makes it do, and when its size changes then
types "JULIET:"; answering JULIET; keys C-s; sleep 0.3; tm resize-window -t c -x 90; sleep 0.1; keys C-c; sees "(stopped)"; prompt
say "/context"; sees "2 messages"
keys C-c; sees "Ctrl-C again or Ctrl-D leaves"; prompt
leaves C-c

# ---- what is typed into an answer is not shown in it, and is the beginning of the next message ----
for TERM_OF_CHAT in tmux-256color dumb; do
    export TERM_OF_CHAT
    chat --chat-template plain --ignore-eos -n 150 -c 4096 --temp 0; prompt
    types "ROMEO:"; answering ROMEO; keys -l "typed ahead"; prompt_is_back
    sed '$d' "$work/screen" | grep -q "typed ahead" && { bad "what was typed ahead stands in the answer, terminal $TERM_OF_CHAT:"; grep . "$work/screen"; }
    types " of it"; n_prompts=2; prompt
    say "/save $work/c.json"
    grep -q '"content": "typed ahead of it"' "$work/c.json" || { bad "what was typed ahead is lost, terminal $TERM_OF_CHAT:"; cat "$work/c.json"; }
done
unset TERM_OF_CHAT

# ---- a full context: both numbers, and a choice ----
chat --chat-template plain --ignore-eos -n 40 -c 128 --temp 0; prompt
say "One."; say "Two."
types "Three."; sees "the context 128"; sees "[n]othing?"
tr '\n' ' ' <"$work/screen" | grep -q "The oldest turn (\|The [2-9] oldest turns (" || { bad "which turns can be left out is not said:"; grep . "$work/screen"; }
keys -l n; keys Enter; prompt
say "/context"; grep -q "longer read" "$work/screen" && bad "turns are left out that nobody wanted left out"
clear_screen
types "/regenerate"; sees "[n]othing?"; keys -l d; keys Enter; sees "left out"; prompt
say "/context"; grep -q "no longer read" "$work/screen" || bad "/context does not tell that turns are left out"
say "/stats"
say "/save $work/c.json"; grep -q '"One."' "$work/c.json" || bad "/save has lost the oldest turn"
chat --chat-template plain --ignore-eos -n 40 -c 128 --temp 0 --context-shift; prompt
say "One."; say "Two."; say "Three."; sees "left out"; say "/stats"; say "Four."; say "Five."
grep -q "othing?" "$work/screen" && bad "--context-shift asks"

# ---- tools: a call is shown, and answered by hand ----
printf '%s' '{% for t in tools %}{{ t|tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}
</tool_call>{% endfor %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}' >"$work/tools.jinja"
echo '[{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]' >"$work/tools.json"
chat --chat-template-file "$work/tools.jinja" --tools "$work/tools.json" --temp 0 --grammar 'root ::= "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"'; prompt
types "What is the time?"; sees '-> get_time {"city": "Oslo"}'; sees "get_time ="
types "half past two"; sees "get_time =" 2; keys C-c; prompt
say "/save $work/c.json"
grep -q '"role": "tool".*"content": "half past two"' "$work/c.json" || { bad "no result of the tool:"; cat "$work/c.json"; }
expect 0 "$quern" chat "$model" -t 1 -p "What is the time?" --chat-template-file "$work/tools.jinja" --tools "$work/tools.json" --temp 0 --grammar 'root ::= "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"'
[ "$(cat "$work/out")" = '{"name":"get_time","arguments":{"city":"Oslo"}}' ] || bad "a call outside of a terminal: $(cat "$work/out")"

# ---- reasoning is dimmed; colours only where they are wanted; a model's escape sequences do nothing ----
printf '%s' '{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}' >"$work/think.jinja"
grammar='root ::= "<think>hm</think>so\x1b[31m\x07 it is\x9b" "4m"'
chat --chat-template-file "$work/think.jinja" --temp 0 --grammar "$grammar"; prompt
say "And?"; sees "hm"
tm capture-pane -p -e -S -300 -t c >"$work/screen"
grep -q "$(printf '\033\\[2mhm')" "$work/screen" || { bad "reasoning is not dimmed:"; cat -v "$work/screen"; }
grep -q "so␛\[31m␇ it is�4m" "$work/screen" || { bad "control characters are not shown as pictures:"; cat -v "$work/screen"; }
export NO_COLOR=1
chat --chat-template-file "$work/think.jinja" --temp 0 --grammar "$grammar"; prompt
say "And?"; sees "hm"
tm capture-pane -p -e -S -300 -t c >"$work/screen"
grep -q "$(printf '\033\\[')" "$work/screen" && { bad "colours with NO_COLOR:"; cat -v "$work/screen"; }

unset NO_COLOR

# ---- the model that comes along: a conversation with a tool, and what its second turn computes ----
if [ -e "$source/models/chat.gguf" ]; then
    model=$source/models/chat.gguf
    chat --temp 0; prompt
    say "What is 12 + 30?"; sees "42"; say "/save $work/1.json"
    say "How many minutes are in 3 hours?"; sees "180"; say "/stats"; say "/save $work/2.json"
    said=$(sed -n 's/.*: \([0-9]*\) reused, \([0-9]*\) computed.*/\1 \2/p' "$work/screen")
    sed '$d' "$work/2.json" | sed '$s/,$/]/' >"$work/2u.json"
    numbers() { tr -d '[] ' | tr ',' '\n'; }
    "$quern" template "$model" -m "$work/1.json" --continue --tokens | numbers >"$work/1.ids" # what the cache holds: to the answer's end
    "$quern" template "$model" -m "$work/2u.json" --tokens | numbers >"$work/2.ids"
    want=$(paste -d ' ' "$work/1.ids" "$work/2.ids" | awk '$1 != $2 { print NR - 1; exit }') total=$(grep -c . "$work/2.ids")
    [ "$said" = "$want $((total - want))" ] || bad "chat.gguf: /stats says \"$said\" reused and computed, outside \"$want $((total - want))\" were counted"
    leaves C-d
    chat --temp 0 --tools "$source/examples/weather.json" --tool-choice required; prompt # one must be called, but after its result none
    types "What is the weather in Oslo?"; sees '-> get_weather {"city": "'; sees "get_weather ="
    types '{"degrees": 7, "sky": "rainy"}'; prompt; sees " 7 degrees"
    say "/save $work/c.json"
    grep -q '"role": "tool".*"degrees' "$work/c.json" || { bad "no result of the tool:"; cat "$work/c.json"; }
    model=$source/models/shakespeare.gguf
fi

# ---- lines are edited; the history lasts ----
grep -q el_gets "$quern" || { echo "skipped: editing, a build without libedit"; finish; }
chat --chat-template plain -n 8 --temp 0; prompt
say "ROMEO:"
keys -l "lost mid"; keys C-a; keys -l "My "; keys C-e BSpace BSpace BSpace; types "ö?"; prompt
say "/save $work/c.json"
grep -qF '{"role": "user", "content": "My lost ö?"}' "$work/c.json" || { bad "not as it was edited:"; cat "$work/c.json"; }
keys Up Up Up; sees "> ROMEO:" 2; keys C-c; prompt
keys -l "/re"; keys Tab; sees "/reset  /regenerate"; sees "> /re" 2; keys C-c; prompt # several: they are listed
keys -l "/st"; keys Tab; sees "> /stats"; keys Enter; prompt
sees "  prompt "
leaves C-d
chat --chat-template plain -n 8 --temp 0
prompt; keys Up; sees "> /stats"; keys Up Up Up; sees "> ROMEO:"; keys Down; sees "> My lost ö?"; keys C-c; prompt
# A history that is long and broken: the newest 1000 stay.
{ seq -f 'entry %g' 1500; printf 'a\\nb \\\\ c\nx\000y\nhalf a line'; } >"$work/state/quern/chat_history"
chat --chat-template plain -n 8 --temp 0; prompt
keys Up; sees "> x y"; keys Up; sees "b \\ c"; keys Up; sees "> entry 1500"; keys C-c; prompt
[ "$(grep -c '' "$work/state/quern/chat_history")" -le 1001 ] || bad "the history was not shortened"
[ "$(stat -c %a "$work/state/quern/chat_history")" = 600 ] || bad "the history can be read by others"
# Another chat shortens it meanwhile: by way of another file, under its lock.
h=$work/state/quern/chat_history
( flock 9; touch "$work/held"; sleep 0.3; cp "$h" "$h.new"; mv "$h.new" "$h" ) 9<"$h" &
until [ -e "$work/held" ]; do sleep 0.01; done
say "while it is held"; wait $!
grep -qxF "while it is held" "$h" || bad "what was said while another shortened the history is lost"

# ---- several lines: """, a trailing \, what is pasted ----
types '"""one'; sees "..."; types 'two"""'; prompt
types 'three\'; types 'four'; prompt
printf 'five\nsix\tsix\nseven' >"$work/paste"
tm load-buffer "$work/paste"; tm paste-buffer -p -t c; sees "... seven"; keys Enter; prompt
keys Up; sees "seven" 2; keys C-c; prompt # as one entry of the history
grep -qxF 'one\ntwo' "$work/state/quern/chat_history" || { bad "a message of two lines is not a line of the history:"; tail -n 5 "$work/state/quern/chat_history"; }
types "/edit"; sees "edit> five"; types " more"; prompt
say "/save $work/c.json"
for text in 'one\ntwo' 'three\nfour' 'five\nsix\tsix\nseven more'; do
    grep -qF "{\"role\": \"user\", \"content\": \"$text\"}" "$work/c.json" || { bad "no message \"$text\" in:"; cat "$work/c.json"; }
done
finish
