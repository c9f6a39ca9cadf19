#!/bin/sh
# SPDX-License-Identifier: MIT
# quern trace as a user calls it: a run is recorded, summed up, compared and exported; every export has the same events and the same
# sum of nanoseconds; accounts sum to the threads' time; what is damaged is said, with status 1; hostile names are inert.
. "$1/tests/e2e/lib/common.sh"
model=$source/models/shakespeare.gguf
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
cd "$work" || exit 1
expect 0 "$quern" run "$model" "O Romeo" -n 12 --temp 0 -t 2; cp out plain
expect 0 "$quern" trace run "$model" "O Romeo" -n 12 --temp 0 -t 2
cmp -s out plain || bad "a recorded run says something else"
[ -s trace.qtr ] || bad "no trace.qtr"
expect 0 "$quern" trace stats trace.qtr
for word in operation layer node roofline decode prompt linear attention barriers; do grep -q "$word" out || bad "stats: no $word"; done
expect 0 "$quern" trace stats trace.qtr --json; cp out stats.json
for form in chrome csv json perfetto; do expect 0 "$quern" trace export trace.qtr --$form -o "t.$form"; done
expect 0 "$quern" trace export trace.qtr --csv; cmp -s out t.csv || bad "export to a file and to standard output differ"
# What is no file stays what it is: a link, a pipe, what standard output goes to.
echo old >real; ln -s real link; expect 0 "$quern" trace export trace.qtr --csv -o link
[ -L link ] && cmp -s real t.csv || bad "export replaced a link"
ln -s /proc/self/fd/1 own; expect 0 "$quern" trace export trace.qtr --csv -o own
[ -L own ] && cmp -s out t.csv || bad "export to the program's own output"
mkfifo pipe; cat pipe >got & expect 0 "$quern" trace export trace.qtr --csv -o pipe; wait $!
[ -p pipe ] && cmp -s got t.csv || bad "export replaced a pipe"
expect 0 "$quern" graph "$model" --dot -o x.dot; echo old >real
expect 0 "$quern" graph "$model" --dot -o link; [ -L link ] && cmp -s real x.dot || bad "graph replaced a link"
expect 0 "$quern" graph "$model" --dot -o own;  [ -L own ] && cmp -s out x.dot || bad "graph -o to the program's own output"
# An option of another action, or of a graph that is not recorded, would do nothing.
expect 2 "$quern" trace stats trace.qtr --chrome; one_line "--chrome" "stats"
expect 2 "$quern" trace export trace.qtr --csv --top 3; one_line "--top" "export"
expect 2 "$quern" graph --trace trace.qtr --phase prompt; one_line "--phase" "--trace"
expect 2 "$quern" trace export trace.qtr --csv --chrome; one_line "exactly one"
expect 2 "$quern" trace run; one_line "MODEL"
# What is no recorded run leaves the recording that is there, and is not said to be one.
cp trace.qtr kept.qtr; echo text >bad.gguf
expect 0 "$quern" trace run --help; [ -s err ] && bad "trace run --help: $(cat err)"
expect 1 "$quern" trace run none.gguf hi; one_line "none.gguf" "No such file"
expect 1 "$quern" run bad.gguf hi --trace trace.qtr; one_line "bad.gguf"
expect 1 "$quern" eval none.gguf --tokens 1 -o e.npy --trace trace.qtr; one_line "none.gguf"
expect 1 "$quern" embed none.gguf hi --trace trace.qtr; one_line "none.gguf"
expect 1 "$quern" bench "$model" none.gguf -p 0 -n 4 -r 1 -t 1 --peak-time 0.02 --trace trace.qtr; one_line "none.gguf"
expect 1 "$quern" run "$model" "O Romeo, Romeo" -c 2 --trace trace.qtr; grep -q "nothing to record" err || bad "a failed run: $(cat err)"
cmp -s trace.qtr kept.qtr || bad "a run that was none has replaced a recording"
[ -z "$(find . -name '.quern-*')" ] || bad "a recording that was given up is there: $(ls -a)"
chmod 600 trace.qtr; ln -s trace.qtr linked.qtr; expect 0 "$quern" run "$model" "O Romeo" -n 3 --trace linked.qtr
[ -L linked.qtr ] && [ "$(ls -l trace.qtr | cut -c1-10)" = -rw------- ] || bad "a recording replaced a link, or its mode"
cmp -s trace.qtr kept.qtr && bad "a run has not replaced a recording"
cp kept.qtr trace.qtr
expect 0 "$quern" trace diff trace.qtr trace.qtr --json; cp out diff.json
expect 0 "$quern" trace diff trace.qtr trace.qtr
expect 0 "$quern" trace watch trace.qtr
# The graph of a step, in every form and colour: the same nodes as those of its model, and the time that stats have.
for color in kind backend time bytes; do
    for form in dot svg text; do
        expect 0 "$quern" graph --trace trace.qtr --step 2 --color $color --$form -o "step.$color.$form"
    done
    if command -v dot >/dev/null; then dot -Tsvg "step.$color.dot" >/dev/null 2>err || bad "Graphviz reads step.$color.dot: $(cat err)"; fi
done
command -v dot >/dev/null || echo "no dot here: Graphviz did not read the pictures"
expect 0 "$quern" graph --trace trace.qtr --step 2; cmp -s out step.time.text || bad "the default is another colour"
expect 0 "$quern" graph --trace trace.qtr --step 2 --layer 1 --svg -o one.svg
expect 2 "$quern" graph --trace trace.qtr "$model"; one_line "either MODEL or --trace"
expect 2 "$quern" graph; one_line "either MODEL or --trace"
expect 2 "$quern" graph "$model" --color time; one_line "--color time needs --trace"
expect 2 "$quern" graph "$model" --step 3; one_line "--step needs --trace"
expect 2 "$quern" graph --trace trace.qtr --plan; one_line "of a MODEL"
expect 1 "$quern" graph --trace trace.qtr --step 99; one_line "no step 99" "1 to 12"
expect 1 "$quern" graph --trace trace.qtr --layer 99; one_line "layer 99" "0 to 3"; [ -s out ] && bad "a graph of no layer: $(cat out)"
for color in kind backend bytes; do expect 0 "$quern" graph "$model" --color $color --dot -o "model.$color.dot"; done
head -c $(($(wc -c <trace.qtr) * 9 / 10)) trace.qtr >cut.qtr
expect 1 "$quern" graph --trace cut.qtr; one_line "damaged"; [ -s out ] || bad "nothing of a trace that was cut"
python3 - <<'END' || bad "pictures of steps"
import re, xml.etree.ElementTree as et
def nodes(name):
    return {m[1]: m[2] for m in re.finditer(r'^ *(n\d+) \[label="([^"\\]*)', open(name).read(), re.M)}
def fills(name):
    return re.findall(r'fillcolor="(#\w+)"', open(name).read())
def ops(found):
    return sorted(re.sub(" .*", "", op) for op in found.values())
steps = {c: nodes(f"step.{c}.dot") for c in ("kind", "backend", "time", "bytes")}
assert len(set(map(str, steps.values()))) == 1 and ops(steps["time"]) == ops(nodes("model.kind.dot"))
heat = "#fffaf0"
for color in "time", "bytes":
    used = fills(f"step.{color}.dot")
    assert "#eb5541" in used and heat in used and len(set(used)) > 4, (color, set(used))  # the greatest, nothing, and between
assert 3 < len(set(fills("step.kind.dot"))) <= 10 and len(set(fills("step.backend.dot"))) == 1
assert fills("model.kind.dot").sort() == fills("step.kind.dot").sort()
for color in steps:
    texts = [t.text or "" for t in et.parse(f"step.{color}.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert "step 2, decode, 1 tokens" in texts and any(t == "product" for t in texts) == (color == "kind"), (color, texts[:12])
    assert any(re.fullmatch(r"[\d.]+ [KMG]?i?B", t) for t in texts) == (color == "bytes"), color
times = re.findall(r" ([\d.]+) us$", open("step.time.text").read(), re.M)
assert len(times) > 50 and sum(map(float, times)) > 0
END
python3 - <<'END' || bad "the figures of stats and exports"
import csv, json
stats = json.load(open("stats.json"))
events = json.load(open("t.json"))
rows = list(csv.DictReader(open("t.csv")))
chrome = json.load(open("t.chrome"))["traceEvents"]
assert len(events) == len(rows) == len(chrome) == stats["events"], (len(events), stats["events"])
total = sum(e["ns"] for e in events)
assert total == sum(int(r["ns"]) for r in rows) == round(sum(c["dur"] for c in chrome) * 1000)
assert sum(k["ns"] for k in stats["kinds"].values()) == total
assert {k: v["count"] for k, v in stats["kinds"].items() if v["count"]} == {k: sum(e["kind"] == k for e in events) for k in {e["kind"] for e in events}}
assert sum(r["count"] for r in stats["nodes"]) == sum(e["kind"] == "node" and e["member"] == 0 for e in events)
# Percentiles are nearest ranks: of the few times here the 99th is the greatest.
for r in stats["nodes"]:
    each = sorted(e["ns"] for e in events if e["kind"] == "node" and e["member"] == 0 and e["name"] == r["name"])
    assert not each or 1 < len(each) == r["count"] < 100 and [r["p50_ns"], r["p99_ns"]] == [each[(len(each) + 1) // 2 - 1], each[-1]], (r, each)
# Every nanosecond of both threads, from the first step to the last, is in one account; none is below nothing.
steps = [e for e in events if e["kind"] == "step"]
span = max(e["begin_ns"] + e["ns"] for e in steps) - min(e["begin_ns"] for e in steps)
accounts = {k: v for k, v in stats["accounts_ns"].items() if v is not None}  # paging and pre-emption: where the kernel lets them be sampled
assert abs(sum(accounts.values()) - stats["threads"] * span) < 0.01 * stats["threads"] * span, (accounts, span)
assert all(v >= 0 for v in accounts.values()), accounts
# Of a thread, slices nest: none begins inside of another and ends outside.
for tid in {c["tid"] for c in chrome}:
    ends = []
    for c in sorted((c for c in chrome if c["tid"] == tid), key=lambda c: (c["ts"], -c["dur"])):
        while ends and ends[-1] <= c["ts"] + 1e-6: ends.pop()
        assert not ends or c["ts"] + c["dur"] <= ends[-1] + 2e-3, c
        ends.append(c["ts"] + c["dur"])
assert all(abs(r["ns"][0] - r["ns"][1]) < 1e-6 for r in json.load(open("diff.json"))["nodes"])
# Perfetto's packets: as many begins as ends, and the same sum.
data, at, sums, counts = open("t.perfetto", "rb").read(), 0, {1: 0, 2: 0}, {1: 0, 2: 0}
def varint(b, i):
    x = s = 0
    while True:
        x |= (b[i] & 127) << s; s += 7; i += 1
        if b[i - 1] < 128: return x, i
def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        if key & 7: n, i = varint(b, i); yield key >> 3, b[i : i + n]; i += n
        else: v, i = varint(b, i); yield key >> 3, v
for number, packet in fields(data):
    assert number == 1
    packet = dict(fields(packet))
    if 11 in packet:
        kind = dict(fields(packet[11]))[9]
        sums[kind] += packet[8]; counts[kind] += 1
assert counts[1] == counts[2] == len(events) and sums[2] - sums[1] == total
END
# Advice: figures follow from those beside them; what the trace lacks is named, and nothing is put in its place.
expect 0 "$quern" trace advise trace.qtr
grep -q "A token takes" out || bad "advise: $(cat out)"
expect 0 "$quern" trace advise trace.qtr --json --memory 1M --disk 0.001; cp out advise.json
expect 0 "$quern" trace advise trace.qtr --json --memory 4G --disk 0.001; cp out plenty.json
expect 0 "$quern" trace advise trace.qtr --json --memory 1M; cp out nodisk.json
expect 2 "$quern" trace advise trace.qtr --memory some
expect 2 "$quern" trace advise trace.qtr --disk fast
expect 2 "$quern" trace advise trace.qtr --disk 0
expect 1 "$quern" trace advise trace.qtr --disk measure
grep -q "too small to measure a disk with" err || bad "--disk measure of a small file: $(cat err)"
python3 - <<'END' || bad "advise: $(cat advise.json)"
import json
d, c = json.load(open("advise.json")), json.load(open("advise.json"))["curves"]
assert c["steps"] > 5 and len(c["memory"]) == 33 and all(0 <= x <= c["touched"] for x in c["lru"])
for p in ("keep_first", "lru", "lfu", "optimal"):
    assert c[p][0] == c["touched"] and all(a >= b - 1 for a, b in zip(c[p], c[p][1:])), p
    assert all(o <= x + 1 for o, x in zip(c["optimal"], c[p])) or p == "keep_first", p
if d["compute_ms"] is not None:
    m, plenty = d["memory"], json.load(open("plenty.json"))["memory"]
    near = lambda a, b: abs(a - b) <= 1e-4 * b
    assert m["bytes"] == 2**20 and m["kept_bytes"] == 0 and m["kernel_bytes"] > 0 and m["ahead_bytes"] > 0.9 * c["touched"] / c["tokens"], m
    assert near(m["ms"], max(m["ahead_bytes"] / 1e3, d["steady_ms"])), (m, d["steady_ms"])  # at 1000 bytes a ms
    assert near(m["kernel_ms"], m["kernel_bytes"] / 1e3 + m["kernel_jump_bytes"] * 2e-7 + d["steady_ms"]), m
    assert plenty["ahead_bytes"] == plenty["kernel_bytes"] == 0 and near(plenty["ms"], plenty["kernel_ms"]), plenty
    options = {a["option"]: a for a in d["advice"]}
    assert all(a["gain"] > 0.01 and a["expected_ms"][0] <= a["expected_ms"][1] for a in options.values()), options
    assert "--memory 1M" not in options and m["least_bytes"] > m["bytes"], options # the engine would refuse it
    assert any("1.0 MB are too few" in x for x in d["not_measured"]), d["not_measured"]
    assert m["kernel_least_ms"] <= m["kernel_ms"] and plenty["least_bytes"] == m["least_bytes"], m
    if json.load(open("nodisk.json"))["disk_gb_s"] is None:
        assert any("how fast the disk is" in m for m in json.load(open("nodisk.json"))["not_measured"])
END
# The command that is printed is what was typed with one option more, whatever the prompt; what may hold it stands for
# itself where tokens are left out.
typed="O Romeo's \"love\" \$HOME; *"
expect 0 "$quern" synth large.gguf --layers 2 --embd 1024 --heads 8 --ff 4096 --vocab-size 300 --type F16
expect 0 "$quern" run large.gguf "$typed" -n 3 --ignore-eos --temp 0 -t 1 --trace q.qtr; cp out said
expect 0 "$quern" trace advise q.qtr --json --memory 1M --disk 0.5
least=$(python3 -c 'import json; print(json.load(open("out"))["memory"]["least_bytes"] / 2**20 // 1 + 1)' | sed 's/\.0//')
expect 0 "$quern" trace advise q.qtr --memory "${least}M" --disk 0.5
command=$(sed -n 's/^   quern \(.* --memory .*\)/\1/p' out | head -n 1) # the least that is said is what an engine takes
[ -n "$command" ] || bad "advise prints no command for ${least}M: $(cat out)"
expect 0 sh -c "\"\$0\" $command" "$quern"
cmp -s out said || bad "the command that advise prints says something else: $command"
expect 0 "$quern" trace diff q.qtr after.qtr
# So it is with what a terminal must not get, with what tables have another sign for, and where "--" ends the options.
typed=$(printf 'a|b \\ c\td\001')
expect 0 "$quern" run -n 3 --ignore-eos --temp 0 -t 1 --trace q.qtr -- large.gguf "$typed"; cp out said
expect 0 "$quern" trace advise q.qtr --memory "${least}M" --disk 0.5
command=$(sed -n 's/^   quern \(.* --memory .*\)/\1/p' out | head -n 1)
case $command in *"--memory ${least}M --trace after.qtr -- "*) ;; *) bad "advise puts options behind --: $command" ;; esac
printf %s "$command" | LC_ALL=C grep -q '[[:cntrl:]]' && bad "advise prints a control"
if command -v bash >/dev/null; then
    expect 0 bash -c "\"\$0\" $command" "$quern"
    cmp -s out said || bad "the command that advise prints says something else: $command"
fi
expect 0 "$quern" run large.gguf "$typed" -n 3 --ignore-eos --temp 0 -t 1 --trace q.qtr --trace-no-tokens
expect 0 "$quern" trace advise q.qtr --memory "${least}M" --disk 0.5
grep -q '^   quern run \.\. --memory' out || bad "advise of a trace without tokens: $(cat out)"
# Damage is named; what comes before it is there.
head -c 3000 trace.qtr >cut.qtr
expect 1 "$quern" trace watch cut.qtr; one_line "cut.qtr" "at byte" "of 3000: the file ends inside of a block"; [ -s out ] || bad "watch: no look"
python3 - <<END || bad "watch of a recording that nobody writes"
import os, pty, select, signal, time
pid, fd = pty.fork()
if pid == 0: os.execv("$quern", ["quern", "trace", "watch", "cut.qtr"])
seen, until = b"", time.monotonic() + 60
while b"nothing new for" not in seen and time.monotonic() < until:
    if select.select([fd], [], [], 1)[0]: seen += os.read(fd, 4096)
os.kill(pid, signal.SIGINT)
while b"\r\n" not in seen[seen.rfind(b"nothing new for"):] and time.monotonic() < until: seen += os.read(fd, 4096)
assert b"s; at byte" in seen[seen.rfind(b"nothing new for"):], seen[-300:]
assert os.WIFEXITED(os.waitpid(pid, 0)[1])
END
expect 1 "$quern" trace stats cut.qtr
grep -q "at byte [0-9]* of 3000: the file ends inside of a block" err || bad "a cut trace: $(cat err)"
expect 1 "$quern" trace stats "$model"
grep -q "is no trace" err || bad "a model for a trace: $(cat err)"
# What is there and no trace stays; wrong lists are usage errors before the first token.
echo text >mine.txt
expect 2 "$quern" run "$model" x -n 1 --trace mine.txt
[ "$(cat mine.txt)" = text ] || bad "--trace has overwritten a text"
expect 2 "$quern" run "$model" x -n 1 --trace t.qtr --trace-layers 1,b
expect 2 "$quern" run "$model" x -n 1 --trace t.qtr --trace-phase decoding
expect 2 "$quern" run "$model" x -n 1 --trace-limit 1M
expect 2 "$quern" trace stats
expect 2 "$quern" trace look trace.qtr
# With hashes the first value that differs is named, whatever the threads and batches; a run that computes the same has the same.
hash() { expect 0 "$quern" run "$model" "O Romeo, Romeo" -n 4 --temp 0 --trace-hash --trace "$@"; }
hash h1.qtr -t 1; hash h2.qtr -t 2 -b 4; hash h3.qtr --tap 'ffn_act-1@3=scale=1.01'
expect 0 "$quern" trace diff h1.qtr h2.qtr
grep -q '^[0-9]* rows of values have the same bits$' out || bad "hashes of the same run: $(cat out)"
expect 0 "$quern" trace diff h1.qtr h3.qtr
grep -q 'rows of values differ; the first is ffn_act-1 (swiglu, layer 1) in step 1, for token [0-9]* at position 3 of sequence 0$' out ||
    bad "the first value that differs: $(cat out)"
expect 0 "$quern" trace diff h3.qtr h1.qtr --json
python3 -c 'import json; f = json.load(open("out"))["values"]; assert f["differ"] > 0 and f["first"]["name"] == "ffn_act-1" and f["first"]["position"] == 3, f' ||
    bad "diff --json: no first value"
expect 0 "$quern" trace diff h1.qtr trace.qtr
grep -q 'no values to compare' out || bad "one without hashes: $(head -n 3 out)"
expect 2 "$quern" run "$model" x -n 1 --trace-hash
for action in trace record; do expect 2 "$quern" run "$model" x -n 1 --tap "l_out-*=$action"; one_line "l_out-*=$action" "--trace FILE"; done
# A filter that leaves nothing.
expect 0 "$quern" run "$model" x -n 1 --trace e.qtr --trace-layers 99 --trace-ops linear; one_line "no node" "--trace-ops, --trace-layers"
expect 0 "$quern" run "$model" x -n 1 --trace e.qtr --trace-ops foo; one_line "no node" "--trace-ops"
expect 0 "$quern" run "$model" x -n 2 --trace e.qtr --trace-layers 0; [ -s err ] && bad "a filter that leaves some: $(cat err)"
# Experts: every choice of every token is counted, prompt included, unless it was not wanted.
expect 0 "$quern" synth moe.gguf --arch qwen3moe --preset tiny --set expert_count=8 --set expert_used_count=3 --set expert_feed_forward_length=32
expect 0 "$quern" tokenize moe.gguf "O Romeo, Romeo"; cp out ids.json
expect 0 "$quern" eval moe.gguf --tokens @ids.json -o e.npy -b 4 --trace moe.qtr
expect 0 "$quern" trace stats moe.qtr; grep -q '^layer 0 *8 *3 ' out || bad "stats: no experts"
expect 0 "$quern" trace stats moe.qtr --json; cp out moe.json
expect 0 "$quern" eval moe.gguf --tokens @ids.json -o e.npy --trace none.qtr --trace-no-experts
expect 0 "$quern" trace stats none.qtr --json; cp out none.json
python3 - <<'END' || bad "the experts of stats"
import json, math
n = len(json.load(open("ids.json")))
experts = json.load(open("moe.json"))["experts"]
assert len(experts["layers"]) == 2 and json.load(open("none.json"))["experts"]["layers"] == []
for layer in experts["layers"]:
    use, all = layer["use"], layer["tokens"] * layer["used"]
    assert layer["tokens"] == n and len(use) == 8 and sum(use) == all == 3 * n
    assert abs(layer["entropy"] + sum(u / all * math.log2(u / all) for u in use if u)) < 1e-5
    assert abs(layer["chance"] - sum((u / n) ** 2 for u in use) / 3) < 1e-5 and 0 <= layer["overlap"] <= 1
    assert abs(sum(layer["gates"]) - n) < 1e-3, layer  # this model's gates of a token add up to 1
used = sorted((u for l in experts["layers"] for u in l["use"]), reverse=True)
assert abs(experts["hottest"][2] - sum(used[:2]) / sum(used)) < 1e-5
END
# What values were like, as the tap "stats" has it of the same run, whatever the batches; of one value with a NaN, too.
expect 0 "$quern" eval "$model" --tokens @ids.json -o e.npy -b 4 -t 2 --trace v.qtr --trace-values '*' --tap '*=stats=v.csv'
expect 0 "$quern" trace stats v.qtr --json; cp out v.json
expect 0 "$quern" trace stats v.qtr; grep -q '^value .* rms .* channel$' out || bad "stats: no values"
expect 0 "$quern" eval "$model" --tokens @ids.json -o e.npy --trace part.qtr --trace-values 'l_out-*'
expect 0 "$quern" trace stats part.qtr --json; cp out part.json
expect 2 "$quern" run "$model" x -n 1 --trace-values '*'; one_line "--trace-values needs --trace"
expect 2 "$quern" run "$model" x -n 1 --trace t.qtr --trace-values 'l_outs-*'; one_line "l_outs"
python3 - <<'END' || bad "the values of stats"
import csv, json
have = {v["name"]: v for v in json.load(open("v.json"))["values"]}
want = {r["name"]: r for r in csv.DictReader(open("v.csv"))}
assert have.keys() == want.keys() and len(have) > 30, (len(have), len(want))
for name, w in want.items():
    h = have[name]
    assert [h[k] for k in ("rows", "nan", "inf", "zero")] == [int(w[k]) for k in ("rows", "nan", "inf", "zero")], (h, w)
    assert (h["rms"] is None) == ("nan" in w["min"]), (h, w)
    for k in ("min", "max", "mean", "rms") if h["rms"] is not None else ():
        assert abs(h[k] - float(w[k])) <= 1e-5 * max(abs(h["min"]), abs(h["max"])), (name, k, h[k], w[k])
part = json.load(open("part.json"))["values"]
assert [v["name"] for v in part] == [f"ffn_res-{i}" for i in range(len(part))] and len(part) > 1, part
assert all(v == have[v["name"]] for v in part), part  # the same bits whatever the batches
assert json.load(open("moe.json"))["values"] == []
END
# Every nanosecond is in one account, of an encoder, of experts, and of a model that was trained, where it is at hand.
expect 0 "$quern" synth bert.gguf --arch bert --embd 64 --heads 4 --ff 64 --layers 2 --vocab-size 300 --ctx 128
set -- "eval moe.gguf --tokens @ids.json -o e.npy -b 4" "embed bert.gguf hello"
[ -e "$shared/models/stories260K.gguf" ] && set -- "$@" "run $shared/models/stories260K.gguf Once -n 20 --temp 0"
for run in "$@"; do
    for threads in 1 2; do
        rm -f a.qtr
        expect 0 "$quern" $run -t $threads --trace a.qtr
        expect 0 "$quern" trace stats a.qtr --json; cp out a.json
        expect 0 "$quern" trace export a.qtr --json; cp out a.events
        python3 - "$threads" <<'END' || bad "accounts: $run -t $threads"
import json, sys
stats, steps = json.load(open("a.json")), [e for e in json.load(open("a.events")) if e["kind"] == "step"]
span = max(e["begin_ns"] + e["ns"] for e in steps) - min(e["begin_ns"] for e in steps)
accounts = [v for v in stats["accounts_ns"].values() if v is not None]
assert stats["threads"] == int(sys.argv[1]) and stats["steps"] == len(steps) > 0
assert abs(sum(accounts) - stats["threads"] * span) < 0.01 * stats["threads"] * span, (stats["accounts_ns"], span)
assert all(v >= -1 for v in accounts), accounts
assert all(r["roofline"] <= 1 for t in ("operations", "layers", "nodes") for r in stats[t])
END
    done
done
# A step with a token of each of several sequences: what it takes is shared out.
expect 0 "$quern" bench "$model" -p 0 -n 4 -b 4 -r 1 -t 1 --peak-time 0.02 --trace b4.qtr
expect 0 "$quern" trace stats b4.qtr --json; cp out b4.json
expect 0 "$quern" trace advise b4.qtr --json; cp out b4.advise
expect 0 "$quern" trace advise b4.qtr; grep -q "4.00 tokens a step" out || bad "advise: $(head -n 1 out)"
python3 - <<'END' || bad "advise of several sequences"
import json
p, a = json.load(open("b4.json"))["phases"]["decode"], json.load(open("b4.advise"))
assert a["tokens"] == p["tokens"] == 4 * a["steps"] and abs(a["ms"] * 1e6 - p["ns"] / p["tokens"]) < 1e-4 * p["ns"], (a["ms"], p)
assert abs(a["touched_bytes"] - a["curves"]["touched"] / a["curves"]["tokens"]) < 0.05 * a["touched_bytes"], a["touched_bytes"] # blocks are more than rows
END
# What ends inside of a step: that step is in no sum, so that a whole one's weights stay what they are.
expect 0 "$quern" run "$model" "O Romeo" -n 220 --ignore-eos --temp 0 -t 1 --trace long.qtr
expect 0 "$quern" trace stats long.qtr --json; cp out long.json
python3 - <<'END' || bad "cutting a recording inside of a step"
import struct, zlib
data, at, steps = open("long.qtr", "rb").read(), 16, 0
def number(b, i):
    end = i
    while b[end] > 127: end += 1
    return sum((x & 127) << 7 * k for k, x in enumerate(b[i : end + 1])), end + 1
def put(x):
    return bytes([x & 127 | 128]) + put(x >> 7) if x > 127 else bytes([x])
while True: # a block of events, as far as before the end of the 20th step
    magic, kind, method, lane, rows, raw_bytes, packed, dropped = struct.unpack_from("<IHHIIIIQ", data, at)
    payload = data[at + 40 : at + 40 + packed]
    raw = zlib.decompress(payload) if method else payload
    if kind == 5:
        i, columns = 0, []
        for _ in range(3): _, i = number(raw, i)
        head = raw[:i]
        for c in range(5):
            n, i = number(raw, i)
            ends = [0]
            while ends[-1] < n: ends.append(ends[-1] + 1 if c == 0 else number(raw, i + ends[-1])[1] - i)
            columns.append((raw[i : i + n], ends))
            i += n
        where = [k for k, x in enumerate(columns[0][0]) if x == 3]
        if steps + len(where) >= 20: break
        steps += len(where)
    at += 40 + packed
rows = where[20 - steps - 1] - 3
raw = head + b"".join(put(ends[rows]) + column[: ends[rows]] for column, ends in columns)
block = struct.pack("<IHHIIIIQI", magic, kind, 0, lane, rows, len(raw), len(raw), dropped, zlib.crc32(raw))
open("half.qtr", "wb").write(data[:at] + block + struct.pack("<I", zlib.crc32(block)) + raw)
END
expect 1 "$quern" trace stats half.qtr; grep -q "without an end in the file, with [0-9]* events of nodes: not in the sums" out || bad "a step without an end: $(head -n 5 out)"
expect 1 "$quern" trace stats half.qtr --json; cp out half.json
python3 - <<'END' || bad "sums of a recording without an end"
import json
whole, half = json.load(open("long.json")), json.load(open("half.json"))
a, b = whole["phases"]["decode"], half["phases"]["decode"]
assert half["cut_steps"] >= 1 and half["cut_nodes"] > 5 and b["steps"] == 18, (half["cut_steps"], half["cut_nodes"], b)
assert b["weight_bytes"] / b["steps"] == a["weight_bytes"] / a["steps"], (a, b)
assert all(v is None or v >= -1 for v in half["accounts_ns"].values()), half["accounts_ns"]
assert whole["end"] == "stopped" and whole["cut_steps"] == 0 and half["end"] is None
END
# Threads of teams of other sizes are counted in the steps that they computed in.
expect 0 "$quern" bench "$model" -p 0 -n 6 -r 1 -t 1,2 --peak-time 0.02 --trace teams.qtr
expect 0 "$quern" trace stats teams.qtr; grep -q "^teams .* up to 2 of them in a step" out || bad "teams: $(head -n 6 out)"
expect 0 "$quern" trace stats teams.qtr --json; cp out teams.json
expect 0 "$quern" trace export teams.qtr --json; cp out teams.events
python3 - <<'END' || bad "accounts of two teams"
import json
stats, events = json.load(open("teams.json")), json.load(open("teams.events"))
steps = {e["step"]: e for e in events if e["kind"] == "step"}
took_part, threads = 0, {e["thread"] for e in events if e["kind"] in ("node", "step") and e["member"] >= 0}
for t in threads:
    mine = [steps[n] for n in {e["step"] for e in events if e["thread"] == t and e["kind"] in ("node", "step")}]
    took_part += max(e["begin_ns"] + e["ns"] for e in mine) - min(e["begin_ns"] for e in mine)
accounts = [v for v in stats["accounts_ns"].values() if v is not None]
assert stats["threads"] == 2 and stats["all_threads"] == len(threads) and not stats["one_team"], stats["all_threads"]
assert abs(sum(accounts) - took_part) < 0.01 * took_part and all(v >= -1 for v in accounts), (accounts, took_part)
assert json.load(open("long.json"))["one_team"]
END
# The first step that is there, which of the last records is not the run's first.
python3 - <<'END' || bad "leaving out the first blocks of a recording"
import struct
data, at, out = open("long.qtr", "rb").read(), 16, b""
out, steps, left = data[:16], 0, 0
while at < len(data):
    kind, = struct.unpack_from("<H", data, at + 4)
    end = at + 40 + struct.unpack_from("<I", data, at + 20)[0]
    steps += kind == 4
    if kind != 4 or steps > 1: out += data[at:end]
    at = end
open("later.qtr", "wb").write(out)
END
expect 0 "$quern" graph --trace later.qtr; grep -q '^graph "step [0-9]*, decode' out || bad "the first step there is: $(head -n 1 out)"
grep -q '"step 1,' out && bad "step 1 is there"
# Filters; a limit; a full disk, which changes neither text nor status.
expect 0 "$quern" run "$model" "O Romeo" -n 5 --temp 0 --trace f.qtr --trace-layers 1 --trace-ops "linear*" --trace-phase decode --trace-no-tokens
expect 0 "$quern" trace export f.qtr --csv
awk -F, 'NR > 1 && $1 == "node" && ($3 != "linear" || $4 != 1 || $7 != "decode") { exit 1 }' out || bad "filters let something else through"
# What was left out is said, and nothing that needs it is; what was left out of a picture took no time that is known.
expect 0 "$quern" trace stats f.qtr; grep -q "recorded were only ops linear\*; layers 1; phases decode" out || bad "stats: no filter"
[ "$(grep -c "not measured  \(bound by\|others wait\|waiting at\|values copied\|the first\|outside\)" out)" = 7 ] || bad "stats of a filter: $(cat out)"
grep -q '^decode .* not measured$' out || bad "stats of a filter: $(grep '^decode' out)"
expect 0 "$quern" trace stats f.qtr --json; cp out f.json
expect 0 "$quern" trace report f.qtr -o f.html
expect 1 "$quern" trace advise f.qtr; one_line "only ops linear*; layers 1" "--trace-layers"
expect 0 "$quern" graph --trace f.qtr; [ "$(grep -c ' linear(.* us$' out)" = "$(grep -c ' linear(.*layer=1.* us$' out)" ] || bad "graph: $(cat out)"
grep -q ' linear(.*layer=1.* us$' out && grep -q ' linear(.*layer=0 on [a-z:]*$' out || bad "graph: a time that was not recorded"
expect 0 "$quern" run "$model" "O Romeo" -n 5 --temp 0 --trace p.qtr --trace-phase decode
expect 0 "$quern" trace advise p.qtr; grep -q "recorded were only phases decode: the time outside of graphs is not measured" out || bad "advise: no filter"
expect 0 "$quern" trace stats p.qtr --json; cp out p.json
python3 - <<'END' || bad "the figures of filtered recordings"
import json
f, p = json.load(open("f.json")), json.load(open("p.json"))
known = lambda s: {k for k, v in s["accounts_ns"].items() if v is not None} - {"paging", "preempted"}
assert f["filter"] == f["notes"]["filter"] == "ops linear*; layers 1; phases decode" and known(f) == set(), f["accounts_ns"]
assert f["phases"]["decode"]["bytes"] is None and f["phases"]["decode"]["tokens"] == 4, f["phases"]
assert p["filter"] == "phases decode" and known(p) == {"memory", "arithmetic", "serial", "slowest", "transfers", "around"}, p["accounts_ns"]
assert p["phases"]["decode"]["weight_bytes"] > 1e6 and json.load(open("long.json"))["filter"] is None
END
grep -q "Romeo" f.qtr && bad "--trace-no-tokens leaves the prompt in"
expect 0 "$quern" run "$model" "O Romeo" -n 60 --temp 0 --trace l.qtr --trace-limit 16K
[ "$(wc -c <l.qtr)" -le 16384 ] || bad "--trace-limit 16K: $(wc -c <l.qtr) bytes"
expect 0 "$quern" trace stats l.qtr; grep -q "ended early: its size was limited" out || bad "stats: a limit is not said"
expect 0 "$quern" trace stats l.qtr --json; grep -q '"end": "its size was limited"' out || bad "stats --json: a limit is not said"
if [ -w /dev/full ]; then
    expect 0 "$quern" run "$model" "O Romeo" -n 12 --temp 0 -t 2 --trace /dev/full
    cmp -s out plain || bad "a full disk changes the text"
    grep -q "No space left" err || bad "a full disk is not said: $(cat err)"
fi
for command in "eval $model --tokens 1,2,3 -o e.npy" "bench $model -p 0 -n 4 -r 1 -t 1 --peak-time 0.02"; do
    rm -f c.qtr
    # shellcheck disable=SC2086
    expect 0 "$quern" $command --trace c.qtr
    expect 0 "$quern" trace stats c.qtr
    grep -q '^linear' out || bad "$command: no products recorded"
done
# The last records are written at an error, and not without one.
expect 0 "$quern" run "$model" "O Romeo" -n 3 --temp 0 --trace last.qtr --trace-last 2M
[ -e last.qtr ] && bad "--trace-last writes though nothing was wrong"
expect 1 "$quern" run "$model" "O Romeo, Romeo" -c 2 --trace last.qtr --trace-last 2M
expect 0 "$quern" trace export last.qtr --csv
grep -q "^load," out || bad "--trace-last: what was before the error is not there"
expect 2 "$quern" run "$model" x -n 1 --trace l.qtr --trace-if-slow 3x
finish
