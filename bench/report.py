#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/report.py QUERN MODEL [EVENTS ..]: how fast the page of quern trace report is. Records MODEL until there are about so many
events (10, 10000 and 1000000), opens the report in Chromium (Debian's chromium, chromium-driver), and prints a row of each: the
file's size, milliseconds to first paint and until all views are drawn, and the slowest of 40 frames of zooming and dragging."""
import json, os, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../tests/e2e", folder) for folder in ("page", "serve")]
from webdriver import Browser

MOVES = """(() => { let worst = 0; const v = timelineView, c = v.chart; v.range.set(v.first, v.last);
    for (let i = 0; i < 40; i++) { if (i < 24) v.range.zoom(.6); else v.range.move(i % 2 ? .3 : -.5);
        for (const x of [v.map, c]) { x.draw(); worst = Math.max(worst, x.ms); } } return worst; })()"""


def record(quern, model, events, path):
    """So many events; a trace of 10 has those of one operation of the first step."""
    one = ["--trace-ops", "get_rows", "--trace-tokens", "0"] if events < 100 else []
    n, runs = 16, 1
    for _ in range(3):
        command = [quern, "bench", model, "-p", "0", "-n", str(n), "-r", str(runs), "-t", "2", "--trace", path]
        if one:
            command = [quern, "run", model, "O", "-n", "1", "--trace", path] + one
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        have = json.loads(subprocess.run([quern, "trace", "stats", path, "--json"], capture_output=True).stdout)["events"]
        if one or have >= 0.9 * events:
            return have
        n, runs = 64, max(1, round(events / have * n * (runs + 1) / 64))
    return have


def main():
    quern, model = sys.argv[1:3]
    print("| events | file, MB | first paint, ms | all views, ms | slowest frame, ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for wanted in [int(x) for x in sys.argv[3:]] or [10, 10_000, 1_000_000]:
            trace, page = os.path.join(work, "t.qtr"), os.path.join(work, "t.html")
            events = record(quern, model, wanted, trace)
            subprocess.run([quern, "trace", "report", trace, "-o", page], check=True, stdout=subprocess.DEVNULL)
            b = Browser(1400, 900)
            try:
                b.go("file://" + page)
                b.until("document.body.dataset.ready || document.body.dataset.failed")
                paint = b.js("performance.getEntriesByName('first-contentful-paint')[0].startTime")
                print(f"| {events} | {os.path.getsize(page) / 1e6:.2f} | {paint:.0f} | {b.js('document.body.dataset.ready')} | {b.js(MOVES):.0f} |", flush=True)
            finally:
                b.close()


main()
