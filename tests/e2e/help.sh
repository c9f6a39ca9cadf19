#!/bin/sh
# SPDX-License-Identifier: MIT
# Help, manual pages and completions: every command and every option is in each of them; mistyped names are answered with near ones;
# exit statuses; the examples run. Completion is tried in bash, and in zsh and fish where they are installed.
. "$1/tests/e2e/lib/common.sh"
commands=$(sed -n 's/^QN_COMMAND(\([a-z_]*\),.*/\1/p' "$source/src/cli/commands.def" | tr _ -)
[ "$(echo "$commands" | wc -l)" -ge 12 ] || bad "few commands: $commands"
# The words of a file, one a line.
words() { tr -cs 'a-zA-Z0-9_.-' '\n' <"$1" | sort -u; }

# ---- help: by every road, to standard output, with status 0 ----
expect 0 "$quern" help;    cp "$work/out" "$work/overview"
expect 0 "$quern" --help;  cmp -s "$work/out" "$work/overview" || bad "quern --help is not quern help"
expect 0 "$quern" -h;      cmp -s "$work/out" "$work/overview" || bad "quern -h is not quern help"
for flag in --version -V; do
    expect 0 "$quern" $flag
    grep -Eqx 'quern [0-9]+\.[0-9]+\.[0-9]+' "$work/out" || bad "$flag: $(cat "$work/out")"
done
grep -q -- "quern --version" "$work/overview" || bad "help: no --version"
expect 2 "$quern"; [ -s "$work/out" ] && bad "quern alone writes to standard output"
for shell in bash zsh fish; do expect 0 "$quern" completion $shell; cp "$work/out" "$work/completion.$shell"; done
words "$work/completion.bash" >"$work/words.bash"

expect 0 "$quern" help --man; cp "$work/out" "$work/quern.1"
for name in $commands; do
    grep -q "^  $name  *[a-z]" "$work/overview" || bad "help: no $name"
    expect 0 "$quern" "$name" --help; cp "$work/out" "$work/help"
    expect 0 "$quern" "$name" -h;     cmp -s "$work/out" "$work/help" || bad "$name: -h is not --help"
    expect 0 "$quern" help "$name";   cmp -s "$work/out" "$work/help" || bad "help $name is not $name --help"
    grep -q "^usage: quern $name " "$work/help" || bad "$name: no usage line"
    grep -q '^Examples:' "$work/help" || bad "$name: no examples"
    [ "$(awk 'length > 100' "$work/help" | grep -cv '^      quern\|^      echo')" -eq 0 ] || { bad "$name: help is wider than 100 columns:"; awk 'length > 100' "$work/help"; }
    # Lines are filled: the first word of one had no room on the one above.
    awk '{ match($0, /^ */) } RLENGTH > 20 && RLENGTH == indent && length(last) + 1 + length($1) <= 100 { print; n++ } { last = $0; indent = RLENGTH } END { exit n > 0 }' "$work/help" || bad "$name: help is broken too early"

    expect 0 "$quern" help --man "$name"; cp "$work/out" "$work/quern-$name.1"
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES "EXIT STATUS" ENVIRONMENT "SEE ALSO"; do
        grep -q "^.SH $section\$" "$work/quern-$name.1" || bad "quern-$name.1: no $section"
    done
    sed 's/\\-/-/g; s/\\f[BIR]//g' "$work/quern-$name.1" >"$work/plain"
    grep -q "quern-$name(1)" "$work/plain" || sed 's/\\-/-/g; s/\\f[BIR]//g' "$work/quern.1" | grep -q "quern-$name(1)" || bad "quern.1 does not name quern-$name"
    # Options as help lists them: "  -n, --predict N   ..."
    sed -n 's/^  \(-\([a-z]\), \|    \)--\([a-z0-9-]*\).*/\3 \2/p' "$work/help" >"$work/options"
    [ -s "$work/options" ] || bad "$name: no options"
    # What is looked through for each option: words with blanks around, of the page and of this command's rows, which in bash and
    # zsh stand between its case and the next.
    in_page=" $(tr -cs 'a-zA-Z0-9_-' ' ' <"$work/plain") "
    in_bash=" $(sed -n "/^ *$name)\$/,/;;\$/p" "$work/completion.bash" | tr -cs 'a-zA-Z0-9_-' ' ') "
    in_zsh=" $(sed -n "/^ *$name)\$/,/;;\$/p" "$work/completion.zsh" | tr -cs 'a-zA-Z0-9_-' ' ') "
    in_fish=" $(grep "__quern_in $name' " "$work/completion.fish" | tr '\n' ' ') "
    while read -r long letter; do
        case $in_page in *" --$long "*) ;; *) bad "quern-$name.1: no --$long" ;; esac
        case $in_bash in *" --$long "*) ;; *) bad "bash: $name has no --$long" ;; esac
        case $in_zsh in *" --$long "*) ;; *) bad "zsh: $name has no --$long" ;; esac
        case $in_fish in *" -l $long "*) ;; *) bad "fish: $name has no --$long" ;; esac
        [ -z "$letter" ] && continue
        case $in_fish in *" -s $letter -l $long "* | *" -l $long -s $letter "*) ;; *) bad "fish: $name has no -$letter" ;; esac
        case $in_bash in *" -$letter "*) ;; *) bad "bash: $name has no -$letter" ;; esac
    done <"$work/options"
    # Placeholders that nothing is known about would be completed with nothing.
    for word in $(sed -n "s/^usage: quern $name \(.*\) \[options\]/\1/p" "$work/help") \
        $(sed -n 's/^  \(-[a-z], \|    \)--[a-z0-9-]* \([A-Z][^ ]*\).*/\2/p' "$work/help"); do
        kind=$(echo "$word" | sed 's/^\[//; s/\.\.\..*//; s/[][|:=(].*//')
        grep -q "^CLI_VALUE(\"$kind\"," "$source/src/cli/values.def" || bad "$name: no row for $word in values.def"
    done
done
# Every variable that the program reads is in the pages.
for name in $(grep -rhoE 'getenv\("[A-Z_]+"\)' "$source/src/cli" | sed 's/.*"\(.*\)".*/\1/'); do
    grep -q "$name" "$work/quern.1" || bad "quern.1: no $name"
done
# The formatters have nothing to complain about.
for page in "$work"/quern*.1; do
    if command -v groff >/dev/null; then groff -man -ww -z "$page" >"$work/out" 2>&1; [ -s "$work/out" ] && { bad "groff:"; cat "$work/out"; }; fi
    if command -v mandoc >/dev/null; then mandoc -T lint -W warning "$page" >"$work/out" 2>&1 || { bad "mandoc:"; cat "$work/out"; }; fi
done
# The build wrote the same ones.
if [ -e "$build/manual/quern.1" ]; then
    for page in "$work"/quern*.1; do cmp -s "$page" "$build/manual/$(basename "$page")" || bad "$build/manual/$(basename "$page") is another one"; done
    cmp -s "$work/completion.bash" "$build/manual/quern" || bad "$build/manual/quern is another one"
fi

# ---- names that are nearly right ----
expect 2 "$quern" rnu;                       one_line '"rnu"' "did you mean run?"
expect 2 "$quern" tokenise;                  one_line "did you mean tokenize?"
expect 2 "$quern" insp;                      one_line "did you mean inspect?"
expect 2 "$quern" frobnicate;                one_line "quern help"; grep -q "did you mean" "$work/err" && bad "frobnicate is near to something"
expect 2 "$quern" help exprot-lora;          one_line "did you mean export-lora?"
expect 2 "$quern" help run eval;             one_line "one argument too many"
expect 2 "$quern" run --tmep 1 x y;          one_line '"--tmep"' "did you mean --temp?"
expect 2 "$quern" run --predicted=5 x y;     one_line "did you mean --predict?"
expect 2 "$quern" run --zzzz x y;            one_line "quern run --help"; grep -q "did you mean" "$work/err" && bad "--zzzz is near to something"
expect 2 "$quern" run -Z x y;                one_line '"-Z"'
expect 2 "$quern" completion tcsh;           one_line '"tcsh"' "bash"
expect 2 "$quern" completion;                one_line "usage: quern completion SHELL"

# ---- what other programs call an option is taken, or named ----
small="$source/models/shakespeare.gguf"
expect 0 "$quern" run "$small" x -n 3 --temp 0; cp "$work/out" "$work/three"
for option in "--predict 3" "--n-predict 3" "--n-predict=3"; do
    # shellcheck disable=SC2086
    expect 0 "$quern" run "$small" x --temp 0 $option --batch 4 --temperature 0 -ngl 0 --n-gpu-layers 0
    cmp -s "$work/out" "$work/three" || bad "run $option: $(cat "$work/out")"
    # shellcheck disable=SC2086
    expect 0 "$quern" chat "$small" -p x --temp 0 $option -sys "" --system-prompt "" --batch 4
done
expect 2 "$quern" serve "$small" --predict 0;               one_line "--n-predict"
expect 0 "$quern" eval "$small" --tokens 1,2 -o "$work/x.npy" --batch-size 1
expect 2 "$quern" embed "$small" x --batch-size 0;          one_line "--batch"
expect 0 "$quern" template "$small" -p x --chat-template plain --chat-template-kwargs '{}'; [ "$(cat "$work/out")" = x ] || bad "template --chat-template"
echo "{{ messages[0].content }}!" >"$work/t.jinja"
expect 0 "$quern" template "$small" -p x --chat-template-file "$work/t.jinja"; [ "$(cat "$work/out")" = "x!" ] || bad "template --chat-template-file"
for option in -m --model --model=x; do expect 2 "$quern" run $option x y; one_line "the model is an argument; usage: quern run MODEL"; done
expect 2 "$quern" chat "$small" -m x;                       one_line "the model is an argument; usage: quern chat MODEL"
expect 2 "$quern" train -m x;                               grep -q "is an argument" "$work/err" && bad "train has no model"
expect 2 "$quern" run "$small" -fa on;                      one_line "attention"
expect 2 "$quern" run "$small" x --tmp 0;                   one_line "--temp"
expect 2 "$quern" run "$small" x --system y;                one_line "quern chat"
expect 2 "$quern" run "$small" x --seed -2;                 one_line "--seed" "from -1 up"
for command in run chat; do expect 0 "$quern" $command "$small" -p x -n 2 --seed -1; done
expect 2 "$quern" synth "$work/x.gguf" --seed -1;           one_line "--seed" "from 0 up"
"$quern" run --help | grep -q "n-predict" && bad "run --help shows two names"

# ---- statuses: no command takes a wrong option, or a file that is not there, for anything else ----
for name in $commands; do
    expect 2 "$quern" "$name" --no-such-option; one_line "no-such-option"
    expect 2 "$quern" "$name" a b c d --no-such-option 2>/dev/null; one_line ""
done
# A value that is none of those that are possible is found before anything else is done.
expect 2 "$quern" train "$source/README.md" -o "$work/x.gguf" --type Q9_K; one_line "--type" "Q9_K" "Q4_K_M"
expect 2 "$quern" bench "$work/none" --cpu "ref,avx9";                     one_line "--cpu" "ref,avx9"
expect 2 "$quern" synth "$work/x.gguf" --arch gpt1;                        one_line "--arch" "gpt1" "llama"
expect 2 "$quern" export-lora a b c --type IQ1_S;                          one_line "--type" "IQ1_S"
printf 'type = Q9_K\n' >"$work/conf"
expect 2 "$quern" train "$source/README.md" -o "$work/x.gguf" --config "$work/conf"; one_line "Q9_K"
for name in run eval embed rerank tokenize inspect graph bench export-lora train; do
    arguments=$work/none.gguf
    case $name in
    run | embed | tokenize) arguments="$arguments x" ;;
    rerank) arguments="$arguments x y" ;;
    eval) arguments="$arguments --tokens 1 -o $work/x.npy" ;;
    export-lora) arguments="$arguments $work/none $work/x.gguf" ;;
    train) arguments="$arguments -o $work/x.gguf" ;;
    esac
    # shellcheck disable=SC2086
    expect 1 "$quern" $name $arguments; one_line "none" "No such file"
done

# ---- the examples, with files of their names; those that measure or train take too long ----
cp "$source/models/shakespeare.gguf" "$work/model.gguf"
PATH=$build:$PATH
echo "Notes." >"$work/notes.txt"
printf 'One.\nTwo.\n' >"$work/texts.txt"
"$quern" synth "$work/reranker.gguf" --arch bert --optional --layers 1 --embd 32 --heads 2 --ff 48 --vocab-size 300 --ctx 64 >"$work/out" 2>&1 || bad "no reranker"
"$quern" run "$work/model.gguf" ROMEO: -n 8 --trace "$work/trace.qtr" >"$work/out" 2>&1 || bad "no recording"
for name in run chat embed rerank eval tokenize inspect graph list show completion help; do
    "$quern" help $name | sed -n '/^Examples:/,$s/^      //p' | grep -v 'source <\|fish/completions\|zfunc\|man -l\|chat model.gguf$' >"$work/examples"
    while read -r line; do
        (cd "$work" && sh -c "$line") </dev/null >"$work/out" 2>"$work/err" || { bad "the example fails: $line"; cat "$work/err"; }
    done <"$work/examples"
done

# ---- completion in bash ----
if command -v bash >/dev/null; then
    cat >"$work/try.bash" <<'END'
source "$1/completion.bash"
complete -p quern >/dev/null || echo "FAILED: nothing is registered"
cd "$1/files" || exit 1
# try WANT WORD...: completes the last word; WANT is what comes, sorted, with blanks between.
try() {
    local want=$1 got
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _quern
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
    [[ ${got% } == "$want" ]] || echo "FAILED: ${*@Q}: ${got@Q}, ${want@Q} expected"
}
try "embed eval export-lora" quern e
try "run" quern ru
try "--version" quern --v
try "--temp" quern run --te
try "--predict --presence-penalty" quern run --pre
try "help" quern hel
try "embed eval export-lora" quern help e
try "bash" quern completion b
try "F16 F32" quern run --kv-type F
try "F16 F32" quern run --kv-type = F
try "BF16 F16 F32 IQ4_NL Q4_0 Q4_1 Q5_0 Q5_1 Q8_0" quern run --kv-type =
try "Q4_K Q4_K_M Q4_K_S" quern synth x.gguf --type Q4_K
try "tiny tinyllama-1.1b" quern synth --preset tin
try "starcoder starcoder2" quern synth --arch starc
try "decode prompt" quern graph model.gguf --phase ""
try "all auto" quern run model.gguf --gpu-layers a
try "" quern run model.gguf --control-vector-layer-range a
try "temperature" quern run --samplers te
try "top_k;temperature" quern run --samplers "\"top_k;te"
try "F32,F16" quern bench --kv-type F32,F1
try "csv" quern bench -o c
try "model.gguf one.gguf sub" quern run ""
try "mean" quern embed model.gguf --pooling m
try "sub/two.gguf" quern inspect sub/
try "model.gguf" quern run m
try "model.gguf" quern run --temp 0.5 -n 3 --quiet m
try "" quern run model.gguf t
try "model.gguf" quern export-lora one.gguf model.gguf m
try "" quern export-lora one.gguf model.gguf x.gguf m
try "text.txt" quern train text.txt t
try "text.txt" quern run model.gguf -f t
try "text.txt" quern run model.gguf --file = t
try "one.gguf" quern run model.gguf --lora o
try "sub" quern run model.gguf --graph-dir s
try "model.gguf one.gguf sub" quern bench one.gguf model.gguf one.gguf ""
try "" quern run model.gguf -- --te
try "" quern frobnicate x
END
    mkdir -p "$work/files/sub"
    touch "$work/files/model.gguf" "$work/files/one.gguf" "$work/files/text.txt" "$work/files/sub/two.gguf"
    bash --norc "$work/try.bash" "$work" >"$work/out" 2>&1
    if grep -q . "$work/out"; then cat "$work/out"; bad "completion in bash"; fi
fi

# ---- and in the others ----
if command -v fish >/dev/null; then
    cat >"$work/try.fish" <<'END'
source $argv[1]/completion.fish
cd $argv[1]/files
function try
    set -l got (complete -C $argv[2] | string replace -r '\t.*' '' | sort | string join ' ')
    test "$got" = "$argv[1]"; or echo "FAILED: $argv[2]: $got, $argv[1] expected"
end
try "embed eval export-lora" "quern e"
try "--temp" "quern run --te"
try "F16 F32" "quern run --kv-type F"
try "F32,F16" "quern bench --kv-type F32,F1"
try "model.gguf" "quern run m"
try "text.txt" "quern run model.gguf -f t"
try "" "quern run model.gguf t"
try "export-lora" "quern help ex"
END
    HOME=$work XDG_CONFIG_HOME=$work fish "$work/try.fish" "$work" >"$work/out" 2>&1
    if grep -q . "$work/out"; then cat "$work/out"; bad "completion in fish"; fi
fi
if command -v zsh >/dev/null; then
    cat >"$work/try.zsh" <<'END'
# A zsh of its own in a pseudo-terminal, whose compadd notes what would be offered.
zmodload zsh/zpty
dir=$1
cat >$dir/.zshrc <<RC
PS1= HISTFILE= fpath=($dir/fpath \$fpath)
autoload -Uz compinit
compinit -u -d $dir/dump
compadd() {
    [[ " \$* " == *" -"[OAD]" "* ]] || { typeset -a hits; builtin compadd -A hits "\$@"; print -rl -- \$hits >>$dir/hits; }
    builtin compadd "\$@"
}
cd $dir/files
print >$dir/ready
RC
try() { # WANT LINE
    local i got=
    rm -f $dir/hits $dir/ready
    zpty z "ZDOTDIR=$dir zsh -i"
    for i in {1..6000}; do [[ -e $dir/ready ]] && break; sleep 0.02; done # minutes, on the slowest machine
    zpty -w -n z "$2"$'\t'
    for i in {1..6000}; do
        zpty -r -t z >/dev/null
        [[ -e $dir/hits ]] && got=$(sort -u $dir/hits | grep . | tr '\n' ' ')
        [[ ${got% } == $1 ]] && break
        sleep 0.02
    done
    zpty -d z
    [[ ${got% } == $1 ]] || print "FAILED: $2: $got, $1 expected"
}
try "embed eval export-lora" "quern e"
try "--ignore-eos" "quern run --ig"
try "F16 F32" "quern run --kv-type F"
try "model.gguf" "quern run m"
try "text.txt" "quern run model.gguf -f t"
END
    mkdir -p "$work/fpath"
    cp "$work/completion.zsh" "$work/fpath/_quern"
    HOME=$work zsh -f "$work/try.zsh" "$work" >"$work/out" 2>&1
    if grep -q . "$work/out"; then cat "$work/out"; bad "completion in zsh"; fi
fi
finish
