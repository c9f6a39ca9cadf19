#!/bin/sh
# SPDX-License-Identifier: MIT
# quern run --grammar and --json-schema: what a small model says follows it, whatever the seed; errors name their place.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
said() { expect 0 "$quern" run "$model" "ROMEO:" --quiet -t 1 "$@"; cat "$work/out"; }

for seed in 1 2 3 4 5; do
    answer=$(said --seed $seed --grammar 'root ::= "yes" | "no"')
    case $answer in yes | no) ;; *) bad "\"$answer\" is neither yes nor no" ;; esac
    said --seed $seed -n 200 --grammar 'root ::= line{3}
line ::= [A-Z] [a-z ]{5,30} "." "\n"' >"$work/lines"
    [ "$(grep -cE '^[A-Z][a-z ]{5,30}\.$' "$work/lines")" -eq 3 ] || { bad "seed $seed: not three lines:"; cat "$work/lines"; }
done
cat >"$work/json.gbnf" <<'END'
root   ::= "{" "\"name\": " string ", \"age\": " [1-9] [0-9]? "}"
string ::= "\"" [A-Za-z ]{1,20} "\""
END
said --seed 3 -n 100 --grammar-file "$work/json.gbnf" >"$work/json"
grep -qE '^\{"name": "[A-Za-z ]{1,20}", "age": [1-9][0-9]?\}$' "$work/json" || { bad "not by the grammar:"; cat "$work/json"; }

# what masks cost is among the statistics
said --seed 1 --grammar 'root ::= [a-z]{9}' -n 9 --stats "$work/stats" >"$work/nine"
grep -q '"masks": [1-9],' "$work/stats" && grep -q '"mask_seconds": [0-9.e-]*[1-9]' "$work/stats" || { bad "no masks in the statistics:"; cat "$work/stats"; }
# a lazy grammar: what comes before its trigger is free, what comes with it or behind it is not
for seed in 1 2 3; do
    said --seed $seed -n 300 --grammar 'root ::= "a" ":yes!"' --grammar-trigger a >"$work/lazy"
    [ "$(tr '\n' ' ' <"$work/lazy" | sed 's/^[^a]*//')" = "a:yes! " ] || { bad "seed $seed: not as the trigger begins:"; cat "$work/lazy"; }
    said --seed $seed -n 300 --grammar 'root ::= "yes!"' --grammar-trigger-after he --grammar-trigger-after a >"$work/lazy"
    tr '\n' ' ' <"$work/lazy" | sed 's/he/a/g' | grep -q '^[^a]*ayes! $' || { bad "seed $seed: not what follows the trigger:"; cat "$work/lazy"; }
done
expect 2 "$quern" run "$model" x --grammar-trigger a;                   one_line "wants a grammar"
expect 1 "$quern" run "$model" x --grammar 'root ::= "b"' --grammar-trigger a; one_line "does not begin with it"
expect 1 "$quern" run "$model" x --grammar 'root ::= <nothing>';        one_line "no token <nothing>"

expect 1 "$quern" run "$model" x --grammar 'root ::= "a" |
x';                                                     one_line "line 2, column 1: rule \"x\" is not defined"
expect 1 "$quern" run "$model" x --grammar 'root ::= root "a"';         one_line "begins with itself"
expect 2 "$quern" run "$model" x --grammar 'root ::= "a"' --grammar-file "$work/json.gbnf"; one_line "twice"
expect 1 "$quern" run "$model" x --grammar-file "$work/none";           one_line "none"

# JSON by a schema, from the command line and from files
schema='{"type": "object", "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"}, "age": {"type": "integer",
"minimum": 1, "maximum": 120}, "sad": {"type": "boolean"}}, "required": ["name", "age", "sad"], "additionalProperties": false}'
printf '%s' "$schema" >"$work/schema.json"
for seed in 1 2 3; do
    said --seed $seed -n 300 -j "$schema" >"$work/json"
    tr -d '\n\t ' <"$work/json" | grep -qE '^\{"name":"[A-Z][a-z]{1,8}","age":([1-9][0-9]?|1[01][0-9]|120),"sad":(true|false)\}$' ||
        { bad "seed $seed: not by the schema:"; cat "$work/json"; }
done
for how in --json-schema=@ --json-schema-file=; do # of the last seed, the same
    said --seed 3 -n 300 "$how$work/schema.json" >"$work/same"
    cmp -s "$work/json" "$work/same" || { bad "$how:"; cat "$work/same"; }
done
expect 1 "$quern" run "$model" x -j '{"properties": {"a": {"not": {}}}}'; one_line 'schema, #/properties/a: "not" is not supported'
expect 1 "$quern" run "$model" x -j '{"type": "string"';                  one_line "offset 17: the text ends"
expect 1 "$quern" run "$model" x -j "@$work/none";                        one_line "none"
expect 2 "$quern" run "$model" x -j true --grammar 'root ::= "a"';        one_line "twice"
printf '{}\0' >"$work/zero"
expect 1 "$quern" run "$model" x --json-schema-file "$work/zero";         one_line "zero byte at offset 2"
finish
