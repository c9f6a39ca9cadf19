#!/bin/sh
# SPDX-License-Identifier: MIT
# quern trace report: what it does with files here; the page in a browser, driven through WebDriver, in page/report.py.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
cd "$work" || exit 1
printf 'a prompt </script><img src=x onerror=alert(1)> \033]0;x\007 \377\376 \342\200\256' >prompt
expect 0 "$quern" trace run "$model" "$(cat prompt)" -n 12 --temp 0 -t 2
expect 0 "$quern" trace report trace.qtr
grep -q '^report.html: ' out || bad "it doesn't say where the page is: $(cat out)"
expect 0 "$quern" trace report trace.qtr -o -; cmp -s out report.html || bad "the page on standard output is another"
grep -q 'onerror=alert' report.html && bad "a prompt is in the page as it is"
# What is no report stays; a report is made anew.
expect 0 "$quern" trace report trace.qtr
echo mine >report.html
expect 1 "$quern" trace report trace.qtr; one_line "report.html is there and no report"
[ "$(cat report.html)" = mine ] || bad "a file that is no report was overwritten"
expect 0 "$quern" trace report trace.qtr -o report.html
expect 2 "$quern" trace report
expect 2 "$quern" trace report a b c
expect 1 "$quern" trace report "$model" -o m.html; one_line "is no trace"
[ -e m.html ] && bad "a page of what is no trace"
head -c 3000 trace.qtr >cut.qtr
expect 1 "$quern" trace report cut.qtr -o cut.html; one_line "is damaged at byte"
[ -s cut.html ] || bad "no page of a damaged trace"
if [ -w /dev/full ]; then expect 1 sh -c "'$quern' trace report trace.qtr -o - >/dev/full"; fi
for bad in none/x.html /; do expect 1 "$quern" trace report trace.qtr -o $bad; one_line "cannot write"; done
# What quern lens said goes into the page; what it did not say doesn't.
expect 0 "$quern" lens "$model" "O Romeo" --attention --json; cp out lens.json
expect 0 "$quern" run "$model" "O Romeo" -n 5 --temp 0 -t 2 --trace values.qtr --trace-values '*'
expect 0 "$quern" trace report values.qtr --lens lens.json -o values.html
expect 1 "$quern" trace report values.qtr --lens values.html -o no.html; one_line "values.html" "quern lens --json"
expect 1 "$quern" trace report values.qtr --lens none.json -o no.html; one_line "none.json"
[ -e no.html ] && bad "a page without the lens that was asked for"
echo '{"lens": 1, "tokens": [1], "layers": [{"layer": "</script><script>window.bad=1</script>"}]}' >odd.json
expect 0 "$quern" trace report trace.qtr --lens odd.json -o odd.html
grep -q 'window.bad' odd.html && bad "a lens is in the page as it is"
bytes=$(cat "$source"/src/cli/report/* | wc -c)
[ "$bytes" -lt 200000 ] || bad "the page's own files are $bytes bytes"
grep -lE '</script|https?://|//# source' "$source"/src/cli/report/*.js && bad "the page's files hold what ends a script, or an address"

expect 0 "$quern" trace stats trace.qtr --json; cp out trace.json
expect 0 "$quern" trace run "$model" "O Romeo" -n 5 --temp 0 -t 1 --trace other.qtr
expect 0 "$quern" trace diff other.qtr trace.qtr --json; cp out diff.json
expect 0 "$quern" trace report trace.qtr other.qtr -o two.html
expect 0 "$quern" synth moe.gguf --preset olmoe-1b-7b --layers 2 --embd 64 --heads 2 --kv-heads 2 --ff 32 --vocab-size 300 --type F16
expect 0 "$quern" trace run moe.gguf "O Romeo" -n 6 --temp 0 -t 2 --trace moe.qtr
expect 0 "$quern" trace stats moe.qtr --json; cp out moe.json
expect 0 "$quern" trace report moe.qtr -o moe.html
expect 0 "$quern" trace stats values.qtr --json; cp out values.json
# A browser takes 25 s of processor time, and sees the same page of any build.
[ $failures -gt 0 ] || sanitized && finish
for program in python3 chromium chromedriver; do
    command -v $program >/dev/null 2>&1 || { echo "skipped: no $program"; exit 77; }
done
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source/tests/e2e/serve" HOME="$work" TMPDIR="$work" \
    python3 "$source/tests/e2e/page/report.py" "$quern" >"$work/out" 2>&1
status=$?
[ $status -eq 0 ] || { bad "the page:"; tail -n 60 "$work/out"; }
finish
