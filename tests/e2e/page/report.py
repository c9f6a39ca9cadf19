# SPDX-License-Identifier: MIT
"""The page of quern trace report, as a person uses it: every view is drawn and its table is what quern trace stats says; what is
selected in one is marked in all; keys alone; what is missing, damaged, lost or hostile is said and does nothing."""
import csv, io, json, os, struct, subprocess, sys, urllib.parse, zlib
from webdriver import Browser

quern = sys.argv[1]
SHOTS = os.environ.get("QN_SCREENSHOTS")
DRAWN = "Chart.all.every(c => !c.dirty)"
PICTURE = "Object.fromEntries(Chart.all.map(c => [c.canvas.closest('section').id + ' ' + c.canvas.dataset.name, c.canvas.toDataURL()]))"
BLANK = """Chart.all.filter(c => c.canvas.width && !c.g.getImageData(0, 0, c.canvas.width, c.canvas.height).data.some(x => x))
    .map(c => c.canvas.dataset.name)"""


def shown(b, path, fragment=""):
    b.go("about:blank")
    b.go("file://" + os.path.abspath(path) + fragment)
    b.until("document.body.dataset.ready || document.body.dataset.failed")
    assert not b.js("document.body.dataset.failed"), b.js("document.body.innerText")[:500]
    b.until(DRAWN)
    assert b.js(BLANK) == [], b.js(BLANK)
    quiet(b)


def quiet(b):
    """Nothing was asked of anybody, nothing failed, and nothing that a trace says ran."""
    for name in b.js("performance.getEntriesByType('resource').map(r => r.name)"):
        assert name.startswith("data:"), name
    said = b.console()
    assert said == [], said
    assert b.js("document.querySelectorAll('img, iframe, object, embed, svg').length") == 0


def near(a, b, what):
    assert abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 1.5, (what, a, b)


def rows_of(b, view):
    """The view's table, as it is copied, read by Python's reader."""
    return list(csv.DictReader(io.StringIO(b.js(f"{view}View.tables[0].csv()"))))


def equals(rows, wanted, fields):
    """Rows of a table are those of stats, field by field."""
    assert len(rows) == len(wanted), (len(rows), len(wanted))
    of = {r["name"]: r for r in rows}
    for w in wanted:
        for f in fields:
            near(float(of[w["name"]][f]), w[f], (w["name"], f))


FIELDS = ["count", "ns", "wait_ns", "p50_ns", "p99_ns", "max_ns", "bytes", "weight_bytes", "ops"]


def tables(b, stats):
    accounts = {r["account"]: r["ns"] for r in rows_of(b, "accounts")}
    for name, ns in stats["accounts_ns"].items():
        assert accounts[name] == "not measured" if ns is None else abs(float(accounts[name]) - ns) <= 1.5, (name, accounts)
    equals(rows_of(b, "timeline"), stats["operations"], FIELDS)
    equals(rows_of(b, "roofline"), stats["nodes"], FIELDS)
    head = {r["what"]: r["value"] for r in rows_of(b, "head")}
    for key in ("ns", "steps", "events", "dropped", "threads", "node_events", "lost_nodes"):
        near(float(head[key]), stats[key], key)
    near(sum(float(r["touched"]) for r in rows_of(b, "file")), sum(p["weight_bytes"] for p in stats["phases"].values()), "touched")
    assert {r["name"] for r in rows_of(b, "graph")} <= {r["name"] for r in stats["nodes"]}


def whole(b, stats):
    """Without a selection tables are what stats says; with all steps selected they are computed here, and the same."""
    tables(b, stats)
    b.js("select({steps: [0, trace.steps.n - 1]})")
    b.until(DRAWN)
    computed = b.js("sums() !== trace.stats")
    assert computed
    accounts = {r["account"]: r["ns"] for r in rows_of(b, "accounts")}
    for name, ns in stats["accounts_ns"].items():
        assert ns is None or abs(float(accounts[name]) - ns) <= stats["steps"] + 1, (name, accounts[name], ns)  # a step's is a whole number
    equals(rows_of(b, "timeline"), stats["operations"], FIELDS)
    equals(rows_of(b, "roofline"), stats["nodes"], FIELDS)
    near(sum(float(r["touched"]) for r in rows_of(b, "file")), sum(p["weight_bytes"] for p in stats["phases"].values()), "touched, computed")
    b.js("select({steps: null})")


SUMS = ["rows", "min", "max", "mean", "rms", "nan", "inf", "zero", "channel"]


def same_values(b, stats):
    rows = {r["name"]: r for r in rows_of(b, "values")}
    assert len(rows) == len(stats["values"]) > 20, (len(rows), len(stats["values"]))
    for w in stats["values"]:
        for f in SUMS:
            have, want = float(rows[w["name"]][f]), w[f]
            assert abs(have - want) <= 1e-6 * max(1, abs(want)), (w["name"], f, have, want)


def values(b):
    """What values were is what stats says, computed here too; what the lens says is in the page."""
    stats, said = json.load(open("values.json")), json.load(open("lens.json"))
    shown(b, "values.html")
    same_values(b, stats)
    b.js("select({steps: [0, trace.steps.n - 1]})")
    assert b.js("valueSums.rows() !== trace.stats.values")
    same_values(b, stats)
    b.js("select({steps: null})")
    rows = list(csv.DictReader(io.StringIO(b.js("lens.rows.csv()"))))
    n = len(said["tokens"])
    assert len(rows) == n * len(said["layers"])
    for i, r in enumerate(rows):
        layer, t = said["layers"][i // n], i % n
        assert (int(r["layer"]), int(r["position"]), int(r["rank"])) == (layer["layer"], t, layer["rank"][t]), r
        assert float(r["p"]) == layer["p"][t] and float(r["entropy"]) == layer["entropy"][t] and float(r["p of it"]) == layer["top"][t][1], r
        likeliest = said["words"][str(layer["top"][t][0])]
        assert r["likeliest"].lstrip("'") == likeliest.lstrip("'") or any(ord(c) < 32 for c in likeliest), r
    assert b.js("lens.checked(lens.data()) !== null && lens.checked({...lens.data(), words: undefined}) === null")
    assert b.js("lens.highest([{entropy: [1, null]}, {entropy: new Array(300000).fill(2)}])") == 2
    drawn = b.js("Chart.all.filter(c => c.canvas.closest('#values')).map(c => [c.canvas.dataset.name, c.hits.length])")
    assert {name for name, hits in drawn if hits > 5} == {"values", "lens", "attention"}, drawn
    assert b.js("valuesView.role") == b.js("valuesView.pick.value") == "ffn_res"
    # A cell selects its node and step; another value, layer and head are other pictures.
    before = b.js(PICTURE)
    b.js("(h => h.pick())(Chart.all.find(c => c.canvas.dataset.name === 'values').hits[3])")
    b.until("selection.node !== null && selection.steps !== null")
    assert b.js("roleOf(selection.node) === valuesView.role")
    b.js("select({node: null, steps: null})")
    for change in ("valuesView.pick.value = 'attn_out', valuesView.pick.dispatchEvent(new Event('change'))", "lens.head.value = 'mean', lens.head.dispatchEvent(new Event('change'))",
                   "[...document.querySelectorAll('#values button')].find(e => e.textContent === 'entropy').click()", "options.set('graph', 'rms'), graphView.chart.redraw()"):
        b.js(change)
    b.until(DRAWN)
    after = b.js(PICTURE)
    for chart in ("values values", "values lens", "values attention", "graph Graph"):
        assert before[chart] != after[chart], chart
    assert "Not measured" not in b.js("document.querySelector('#values').innerText + document.querySelector('#graph').innerText")
    shown(b, "odd.html")
    assert "can't be read" in b.js("document.querySelector('#values').innerText"), b.js("document.querySelector('#values').innerText")
    assert b.js("typeof window.bad") == "undefined"


def click(b, view):
    """A click of the mouse on what the view drew for a weight or a node that reads one, where nothing else covers it; its key."""
    at = b.js("""(view => { for (const c of Chart.all) {
        if (c.canvas.closest('section').id !== view) continue;
        c.canvas.scrollIntoView({block: 'center', behavior: 'instant'});
        for (const h of c.hits) {
            const key = h.pick && c.words(h).split(/[\\n ]/)[0], i = (trace.nodes.of.get(key) || [])[0];
            const readers = i === undefined ? null : trace.nodes.inFile(i) ? trace.nodes.users[i] : trace.nodes.weights[i] && [i];
            if (!readers || !readers.every(k => trace.nodes.op[k] === 'linear')) continue;
            for (const fx of [.5, .1, .9]) for (const fy of [.5, .1, .9]) {
                const x = h.x + h.w * fx, y = h.y + h.h * fy, r = c.canvas.getBoundingClientRect();
                if (c.hits[c.find(x, y)] === h && c.find(x + 1, y) === c.find(x, y)) return [r.left + x, r.top + y, key];
            }
        }
    } return null; })(arguments[0])""", view)
    assert at, view
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        b.cdp("Input.dispatchMouseEvent", {"type": kind, "x": at[0], "y": at[1], "button": "none" if kind == "mouseMoved" else "left", "clickCount": 1})
    return at[2]


def selecting(b):
    """What is clicked in one view is marked in all."""
    b.js("graphView.open = 0, graphView.lay(), timelineView.look([1, 1])")
    b.until(DRAWN)
    before = b.js(PICTURE)
    for view in ("timeline", "roofline", "graph", "memory", "file"):
        b.js("select({node: null, lane: null})")
        b.until(DRAWN)
        key = click(b, view)
        b.until(f"selection.node === {json.dumps(key)}")
        assert "node=" + urllib.parse.quote_plus(key) in b.js("location.hash"), b.js("location.hash")
        b.until(DRAWN)
        after = b.js(PICTURE)
        for chart in ("timeline lanes", "roofline Roofline", "graph Graph", "file Bytes of the file", "memory plan"):
            assert after[chart] != before[chart], (view, key, chart)
        assert key in b.js("document.querySelector('#selection').innerText")
        assert len(b.js("[...marked()]")) > 1
    b.js("select({node: null, lane: null})")
    # A brush over steps is a selection, and a part of the whole.
    b.js("accountsView.brush('up', accountsView.geometry.left + 1, accountsView.geometry.left + accountsView.geometry.room * .4)")
    chosen = b.js("selection.steps")
    assert chosen[0] == 0 and chosen[1] < b.js("trace.steps.n") - 1
    assert 0 < b.js("sums().nodes.reduce((a, r) => a + r.ns, 0)") < b.js("trace.stats.nodes.reduce((a, r) => a + r.ns, 0)")


def keys(b):
    b.js("select({node: null, steps: null, lane: null}), document.activeElement.blur()")
    b.type("/attn-1")
    b.until("!document.querySelector('#found').hidden")
    b.type("", "Enter")
    b.until("selection.node === 'attn-1'")
    b.type("]")
    b.type("]")
    b.until("selection.steps && selection.steps[0] === 1")
    address = b.js("location.hash")
    b.type("", "Escape")
    b.until("selection.node === null && selection.steps === null && document.querySelector('#selection').hidden")
    b.type("3")
    b.until("document.activeElement.closest('#timeline')")
    b.js("Chart.all.find(c => c.canvas.dataset.name === 'lanes').canvas.focus()")
    b.js("timelineView.range.set(timelineView.first, timelineView.last)")
    for _ in range(3):
        b.type("+")
    b.until("timelineView.range.to - timelineView.range.from < (timelineView.last - timelineView.first) * .5")
    # Every picture and every table is reached by Tab.
    reached = b.js("[...document.querySelectorAll('canvas, summary')].every(e => e.tabIndex >= 0)")
    assert reached
    b.js("Chart.all.find(c => c.canvas.dataset.name === 'Roofline').canvas.focus()")
    b.cdp("Input.dispatchKeyEvent", {"type": "keyDown", "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39})
    b.type("", "Enter")
    b.until("selection.node !== null")
    return address


# ---- traces that no run of ours makes: names of a hostile model, records lost, a single step ----

def number(x):
    out = bytearray()
    while x > 127:
        out.append(x & 127 | 128)
        x >>= 7
    return bytes(out + bytes([x]))


signed = lambda x: number(x * 2 if x >= 0 else -x * 2 - 1)
text = lambda s: number(len(s)) + s


def block(kind, payload, rows=1, lane=0, dropped=0):
    head = struct.pack("<4sHHIIIIQI", b"QBLK", kind, 0, lane, rows, len(payload), len(payload), dropped, zlib.crc32(payload))
    return head + struct.pack("<I", zlib.crc32(head)) + payload


def node(op, name, layer, sources, space, flags):
    out = text(op) + text(name) + text(b"F32") + signed(layer) + signed(0) + number(flags) + number(1) + number(4) + number(len(sources))
    out += b"".join(signed(s) for s in sources) + signed(0) + signed(2) + number(16) + number(space) + number(1 if space == 2 else 0)
    return out + number(64 if space == 2 else 0) + number(0) * 2 + number(16 if space == 1 else 0) + number(0) * 2 + number(100) + number(0) * 6


HOSTILE = b"</script><script>window.bad=1</script><img src=x onerror=window.bad=1>\x1b]0;x\x07\xff\xfe\xe2\x80\xae"


def hostile(path, drops):
    places = number(1) + text(HOSTILE) + number(64)
    plan = number(0) + places + number(2) + node(HOSTILE, b"blk." + HOSTILE, 0, [], 2, 0) + node(b"=cmd|calc", HOSTILE, 0, [1], 1, 24)
    step = number(1) + number(1000) + number(0) + number(1) + number(2) + number(1) + number(1) + number(0) + number(1) + signed(7) + signed(0)
    columns = [bytes([0, 1, 3]), signed(0) + signed(1) + signed(-1), signed(0) + signed(100) + signed(-1000), number(0) + number(900) + number(1000), number(1) + number(5) + number(1)]
    events = number(1000) + number(1) + signed(0) + b"".join(number(len(c)) + c for c in columns)
    notes = text(b"clock") + text(b"clock_gettime") + text(b"event_ns") + text(b"20") + text(HOSTILE) + text(HOSTILE)
    data = b"QNTRACE\n" + struct.pack("<II", 1, 0x01020304) + block(1, notes, 3) + block(7, number(1) + number(1)) + block(2, number(0) + number(4096) + text(HOSTILE))
    data += block(3, plan) + block(4, step) + block(5, events, 3, 0, drops) + block(6, number(1100) + number(20) + text(HOSTILE), 1, 0)
    data += block(7, number(100000) + number(100000)) + block(8, text(b"stopped") + number(3) + number(drops) + number(1))
    with open(path, "wb") as f:
        f.write(data)


def inert(b):
    for drops in (0, 3):
        hostile("hostile.qtr", drops)
        done = subprocess.run([quern, "trace", "report", "hostile.qtr", "-o", "hostile.html"], capture_output=True)
        assert done.returncode == 0, done.stderr
        assert b"window.bad" not in open("hostile.html", "rb").read()
        shown(b, "hostile.html")
        assert b.js("trace.steps.n") == 1 and b.js("trace.nodes.n") == 2
        said = b.js("document.body.innerText")
        assert ("3 records were lost" in said) == bool(drops), said[:800]
        b.js("[...document.querySelectorAll('details')].forEach(d => { d.open = true; })")
        b.js("select({node: trace.nodes.key[1], steps: [0, 0]})")
        b.until(DRAWN)
        for view in ("head", "roofline", "graph", "file", "memory"):
            for row in rows_of(b, view):  # no table program computes a field
                assert not any(v and v[0] in "=+@" for v in row.values()), row
        assert b.js("typeof window.bad") == "undefined"
        assert not any(ord(c) < 32 and c not in "\n\t" or c in "\u202e\u007f" for c in b.js("document.body.innerText"))
        quiet(b)


def main():
    stats = json.load(open("trace.json"))
    b = Browser(1300, 900)
    try:
        shown(b, "report.html")
        assert b.js("VIEWS.length") == len(b.js("VIEWS.filter(v => v.box.parentElement.dataset.state).map(v => v.id)"))
        whole(b, stats)
        selecting(b)
        address = keys(b)
        shown(b, "report.html", address)  # the address brings the selection back
        assert b.js("selection.node") == "attn-1" and b.js("selection.steps") == [1, 1]
        assert b.js("document.querySelector('#experts').dataset.state") == "missing"
        assert "Not measured" in b.js("document.querySelector('#values').innerText")

        shown(b, "two.html")
        diff = {r["name"]: r for r in json.load(open("diff.json"))["operations"]}
        rows = rows_of(b, "compare")
        assert len(rows) == len(diff)
        for r in rows:
            for k, side in enumerate(("other", "this")):
                near(float(r["count " + side]), diff[r["name"]]["count"][k], r)
                assert abs(float(r["ns " + side]) - diff[r["name"]]["ns"][k]) <= 0.1, r

        shown(b, "moe.html")
        experts = json.load(open("moe.json"))["experts"]["layers"]
        use = [int(r["use"]) for r in rows_of(b, "experts")]
        assert use == [n for layer in experts for n in layer["use"]] and sum(use) > 0
        tables(b, json.load(open("moe.json")))

        values(b)

        shown(b, "cut.html")
        assert "is damaged" in b.js("document.querySelector('#head').innerText")
        inert(b)
    finally:
        b.close()
    for width, dark in ((400, True), (1300, True)):
        b = Browser(width, 900, dark=dark)
        try:
            shown(b, "report.html")
            assert b.js("document.documentElement.scrollWidth") <= width
            ground = b.js("getComputedStyle(document.body).backgroundColor")
            assert max(int(x) for x in ground[4:-1].split(",")) < 64, ground
            if SHOTS:
                b.screenshot(os.path.join(SHOTS, f"report-{width}.png"))
        finally:
            b.close()


main()
