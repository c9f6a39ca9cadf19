# SPDX-License-Identifier: MIT
"""JSON and Prometheus text of `quern run --metrics`: python3 tests/oracle/metrics.py RUN.json RUN.prom

Both files are of runs of 12 tokens; the second read its weights at once. Read by Python's json and by a reader of
Prometheus's text format (0.0.4) of our own, which is strict; where PyPI's prometheus_client is installed, by that too,
and both have to find the same."""
import json, re, sys

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)\Z')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


def read_text(text):
    """{(name, labels): value}, {family: kind}; every family has one HELP, one TYPE, and its samples stand together."""
    samples, kinds, helps, family = {}, {}, set(), None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in helps and len(line.split(" ", 3)) == 4, line
            helps.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and name not in kinds and kind in ("counter", "gauge", "histogram"), line
            kinds[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            name, labels, value = match.groups()
            base = name if kinds[family] != "histogram" else re.sub("_(bucket|sum|count)$", "", name)
            assert base == family, (name, family)
            key = name, tuple(sorted(LABEL.findall(labels or "")))
            assert key not in samples, key
            samples[key] = float(value)
    assert helps == set(kinds)
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total"), (name, kind)
        if kind == "histogram":
            check_histogram(name, samples)
    return samples, kinds


def check_histogram(name, samples):
    """Buckets grow, the last is the count, and the sum lies where the buckets say."""
    series = {}
    for (sample, labels), value in samples.items():
        if sample == name + "_bucket":
            rest = tuple(x for x in labels if x[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    assert series or not any(n.startswith(name + "_") for n, _ in samples), name
    for labels, buckets in series.items():
        ends, counts = zip(*buckets)
        assert list(ends) == sorted(set(ends)) and ends[-1] == float("inf"), (name, ends)
        assert list(counts) == sorted(counts) and counts[-1] == samples[name + "_count", labels], (name, counts)
        least = most = last = end = 0
        for e, n in buckets:
            least += (n - last) * end
            most += (n - last) * e if n > last else 0
            end, last = e, n
        assert least - 1e-6 <= samples[name + "_sum", labels] <= most + 1e-6, (name, least, samples[name + "_sum", labels], most)


def same_as_client(text, samples, kinds):
    """False where prometheus_client is not installed."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return False
    theirs, families = {}, {}
    for family in text_string_to_metric_families(text):
        families[family.name + ("_total" if family.type == "counter" else "")] = family.type
        for s in family.samples:
            theirs[s.name, tuple(sorted(s.labels.items()))] = s.value
    assert families == kinds, set(families) ^ set(kinds)
    assert theirs.keys() == samples.keys()
    assert all(v == samples[k] or v != v for k, v in theirs.items())
    return True


def main(as_json, as_text):
    m = json.load(open(as_json))
    counters, ops = m["counters"], m["ops"]
    text = open(as_text).read()
    samples, kinds = read_text(text)
    read = same_as_client(text, samples, kinds)
    # what ran is what the histograms have, and the time of all operations is within that of the runs
    assert counters["graph_runs"] == m["histograms"]["graph_run"]["count"] == 12
    assert counters["compute_ns"] == m["histograms"]["graph_run"]["sum_ns"]
    assert m["histograms"]["sample"]["count"] == 12 and m["histograms"]["load"]["count"] == counters["loads"] == 1
    assert sum(op["count"] for op in ops) == counters["kernel_tasks"], (sum(op["count"] for op in ops), counters)
    assert 0 < sum(op["ns"] for op in ops) <= counters["compute_ns"]
    assert [op["ns"] for op in ops] == sorted((op["ns"] for op in ops), reverse=True) and "linear" in {op["op"] for op in ops}
    for h in m["histograms"].values():
        assert sum(n for _, n in h["buckets"]) == h["count"]
        assert [e for e, _ in h["buckets"]] == [1000 << i for i in range(len(h["buckets"]) - 1)] + [None]
    assert m["gauges"]["peak_bytes"] >= m["gauges"]["live_bytes"] > 0 and counters["allocs"] >= counters["frees"]
    # both forms have the same rows
    names = {"quern_" + (n[:-3] + "_seconds" if n.endswith("_ns") else n) + "_total" for n in counters}
    names |= {"quern_" + n for n in m["gauges"]} | {f"quern_{n}_bytes_per_second" for n in m["rates"]}
    names |= {f"quern_{n}_seconds" for n in m["histograms"]} | {"quern_op_runs_total", "quern_op_seconds_total"}
    assert names == set(kinds), names ^ set(kinds)
    # speed is bytes by seconds; nothing was populated in the first run
    assert m["rates"]["populate"] is None and counters["populated_bytes"] == 0
    populated, seconds = samples["quern_populated_bytes_total", ()], samples["quern_populate_seconds_total", ()]
    assert populated > 0 and abs(samples["quern_populate_bytes_per_second", ()] / (populated / seconds) - 1) < 1e-3
    print("as prometheus_client reads it" if read else "prometheus_client is not installed: our own reader alone")


if __name__ == "__main__":
    main(*sys.argv[1:])
