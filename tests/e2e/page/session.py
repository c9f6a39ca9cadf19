# SPDX-License-Identifier: MIT
"""The page in one browser through many tests: what is typed stays, what is kept is never replaced by less, two tabs agree,
the end is followed while nobody scrolls up, and markdown is what it says."""
import json, os, sys, threading
from lib import PATIENCE, Server, run
from scripted import BUSY, COUNT, IDLE, LAST, MODEL, TEXTS, Scripted, go, opened, quern, quiet, say, scripted, shot, source
from webdriver import KEYS

STORED = """(new Promise(done => { indexedDB.open('quern', 1).onsuccess = e => {
    const t = e.target.result.transaction(['conversations', 'messages']), got = {};
    t.objectStore('conversations').getAll().onsuccess = r => { got.conversations = r.target.result; };
    t.objectStore('messages').getAll().onsuccess = r => { got.messages = r.target.result; };
    t.oncomplete = () => { e.target.result.close(); done(got); }; }; }))"""
NOTICE = "document.querySelector('#notice').textContent"
FROM_END = "(l => l.scrollHeight - l.scrollTop - l.clientHeight)(document.querySelector('#log'))"
FRAMES = "new Promise(done => setTimeout(done, 60))"  # what a page does in the frames after
MAIN = "getComputedStyle(document.querySelector('main')).display != 'none'"
OTHERS = "[...document.querySelectorAll('#list li:not(.open) .title')]"
FULL = """(() => { const put = IDBObjectStore.prototype.put; IDBObjectStore.prototype.put = function (v) {
    if (window.full) throw new DOMException('full', 'QuotaExceededError'); return put.call(this, v); };
    window.full = true; })()"""
IMPORT = """(async text => { const real = document.createElement;
    document.createElement = function (tag) { const e = real.call(document, tag); if (tag === 'input') e.click = () => {
        const files = new DataTransfer(); files.items.add(new File([text], 'c.json')); e.files = files.files;
        e.dispatchEvent(new Event('change')); }; return e; };
    document.querySelector('#import').click(); document.createElement = real; await new Promise(done => setTimeout(done, 100));
    return document.querySelector('#notice').textContent; })(arguments[0])"""
EXPORT = """(async () => { const real = URL.createObjectURL; let file = null;
    URL.createObjectURL = b => { file = b; return real.call(URL, b); };
    document.querySelector('#export').click(); while (!file) await new Promise(done => setTimeout(done, 20));
    URL.createObjectURL = real; return JSON.parse(await file.text()); })()"""
RENDER = """(async text => { const {update} = await import('/page/markdown.js'), e = document.createElement('div');
    update(e, text); return e.innerHTML; })(arguments[0])"""


def new():
    Scripted.reply = None
    Scripted.text = "word " * 40
    Scripted.may_end.set()
    b.js("document.querySelector('#input').focus()")
    b.type("", "Alt", "n")
    b.until(f"{COUNT} == 0")


def streaming(text, messages):
    """Sends it; the answer waits for may_end."""
    Scripted.may_end.clear()
    b.js("document.querySelector('#input').focus()")
    b.type(text, "Enter")
    b.until(f"{BUSY} && {COUNT} == {messages} && {TEXTS}.at(-1).length > 100")


def ended():
    Scripted.may_end.set()
    b.until(IDLE)


def click(label, within="document", at=-1):
    b.js(f"[...{within}.querySelectorAll('button')].filter(e => e.textContent === arguments[0]).at({at}).click()", label)


def calls(*given):
    yield {"choices": [{"delta": {"tool_calls": [{"index": i, "id": name, "function": {"name": name, "arguments": arguments}}
                                                 for i, (name, arguments) in enumerate(given)]}}]}


def test_typed_text_stays():
    new()
    say(b, "first", 2)
    streaming("second", 4)
    click("Edit", at=0)
    b.type(" anew")
    assert b.js("document.querySelector('.edit textarea').value") == "first anew"
    b.type("", "Enter")  # nothing is sent while an answer is written, and the buttons say so
    idle = b.js("[...document.querySelectorAll('[data-idle]')].map(e => [e.textContent, e.disabled])")
    assert idle == [["Send", True], ["Again", True]], idle
    ended()
    assert b.js("[document.activeElement.value, document.activeElement.disabled]") == ["first anew", False]
    assert not b.js("document.querySelector('.edit button').disabled")
    b.type("", "Escape")
    assert b.js("document.activeElement.textContent") == "Edit" and b.js(TEXTS)[0] == "first"
    # two calls: the second result stays when the first is given, and none can be given once the conversation goes on
    new()
    Scripted.reply = lambda body: calls(("weather", "{}"), ("time", "{}"))
    say(b, "tools", 2)
    b.js("document.querySelectorAll('.call textarea')[0].focus()")
    b.type("rain")
    b.js("document.querySelectorAll('.call textarea')[1].focus()")
    b.type("noon")
    click("Answer", at=0)
    b.until(f"{COUNT} == 3")
    assert b.js("[...document.querySelectorAll('.call textarea')].map(e => e.value)") == ["noon"]
    assert b.js("document.activeElement.value") == "noon"
    Scripted.reply = None
    streaming("never mind", 5)
    assert b.js("document.querySelectorAll('.call form').length") == 0
    ended()
    b.type("a draft")
    go(b, url)
    assert b.js("document.querySelector('#input').value") == "a draft"
    b.js("document.querySelector('#input').select()")
    b.type("sent", "Enter")
    b.until(f"{COUNT} == 7 && {IDLE}")
    assert b.js("sessionStorage.getItem('draft')") is None


def test_a_call_that_was_stopped():
    new()
    gate = threading.Event()

    def half(body):
        yield from calls(("weather", '{"ci'))
        gate.wait(PATIENCE)
    Scripted.reply = half
    b.type("weather?", "Enter")
    b.until(f"{BUSY} && document.querySelector('.call')")
    b.type("", "Escape")
    b.until(IDLE)
    gate.set()
    assert b.js("document.querySelectorAll('.call form').length") == 0
    Scripted.reply = None
    say(b, "more", 4)
    assert [m["role"] for m in Scripted.requests[-1]["messages"]] == ["user", "user"], Scripted.requests[-1]


def test_export_and_import():
    new()
    say(b, "story", 2)
    streaming("go on", 4)
    half = b.js(EXPORT)
    story = next(c for c in half if c["title"] == "story")
    assert [m["id"] for m in story["messages"] if m["state"] == "streaming"] == [story["leaf"]], story
    ended()
    say(b, "and then", 6)
    before = b.js(STORED)
    whole = next(c for c in b.js(EXPORT) if c["title"] == "story")
    last = max((m for m in whole["messages"] if m["role"] == "assistant"), key=lambda m: m["created"])
    assert len(whole["messages"]) == 6 and whole["leaf"] == last["id"], whole
    for c in half:
        for m in c["messages"]:
            m["content"] = m["content"][:9]
    assert b.js(IMPORT, json.dumps(half)) == ""
    assert b.js(STORED) == before
    go(b, url)
    assert b.js(COUNT) == 6
    good = {"id": "good", "title": "good", "leaf": "m1", "changed": 1, "messages": [
        {"id": "m1", "parent": None, "role": "user", "content": "q", "created": 1},
        {"id": "m2", "parent": "m1", "role": "assistant", "content": "a", "created": 2}]}
    bad = {**good, "id": "bad", "messages": [{"id": "m1", "parent": None, "role": "assistant", "created": 1}]}
    assert "message 1 of conversation 2" in b.js(IMPORT, json.dumps([good, bad]))
    for wrong in ('{"a": 1}', "null", '[{"messages": []}]', "[null]"):
        assert "Nothing was taken" in b.js(IMPORT, wrong), wrong
    assert b.js(STORED) == before
    assert b.js(IMPORT, json.dumps([good])) == ""
    b.js("[...document.querySelectorAll('#list .title')].find(e => e.textContent == 'good').click()")
    b.until(f"{COUNT} == 2 && {TEXTS}[1] == 'a'")  # down to the newest child of the leaf that it says


def test_a_store_that_keeps_nothing():
    new()
    say(b, "kept", 2)
    b.js(FULL)
    say(b, "full", 4)
    assert "Not kept" in b.js(NOTICE)
    b.js("window.full = false")
    streaming("mid", 6)
    assert b.js(NOTICE) == "", "it keeps again"
    b.js("window.full = true")
    ended()
    assert "Not kept" in b.js(NOTICE) and "word" in b.js(TEXTS)[5]
    b.js("window.full = false")
    say(b, "again", 8)
    go(b, url)
    assert b.js(COUNT) == 8, "what could not be kept at first is missing"
    none = b.cdp("Page.addScriptToEvaluateOnNewDocument", {"source": "IDBFactory.prototype.open = () => { const r = {}; "
                 "setTimeout(() => { r.error = new DOMException('none', 'InvalidStateError'); r.onerror(); }); return r; }"})
    go(b, url)
    assert "Not kept" in b.js(NOTICE)
    say(b, "one", 2)
    b.type("", "Alt", "n")
    b.until(f"{COUNT} == 0")
    say(b, "two", 2)
    b.js(f"{OTHERS}[0].click()")
    b.until(f"{TEXTS}[0] == 'one'")
    assert [c["title"] for c in b.js(EXPORT)] == ["one", "two"]
    b.cdp("Page.removeScriptToEvaluateOnNewDocument", none)
    go(b, url)


def test_where_an_answer_goes():
    new()
    b.type("question")
    keys = ("keyDown", "Enter"), ("keyUp", "Enter"), ("keyDown", "Alt"), ("keyDown", "n"), ("keyUp", "n"), ("keyUp", "Alt")
    actions = [{"type": kind, "value": KEYS.get(key, key)} for kind, key in keys]
    b.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
    b.until(f"{COUNT} == 0 && {OTHERS}.some(e => e.textContent == 'question')")
    assert Scripted.requests[-1]["messages"] == [{"role": "user", "content": "question"}], Scripted.requests[-1]
    say(b, "other", 2)
    # of two that are opened at once the last one is shown, also when the first comes later
    b.js("""(() => { let first = true; const done = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, 'oncomplete');
        Object.defineProperty(IDBTransaction.prototype, 'oncomplete', {configurable: true, set(f) {
            done.set.call(this, first ? e => setTimeout(() => f(e), 100) : f); first = false; }}); })()""")
    titles = b.js(f"{OTHERS}.slice(0, 2).map(e => (e.click(), e.textContent))")
    b.js("new Promise(done => setTimeout(done, 150))")
    assert b.js("document.querySelector('#list .open .title').textContent") == titles[1], titles


def test_a_model_that_is_gone():
    Scripted.models = ["old"]
    try:
        go(b, url)
        new()
        Scripted.reply = lambda body: ["fine"] if body["model"] in Scripted.models else [(404, "not here")]
        say(b, "one", 2)
        Scripted.models = ["new"]
        say(b, "two", 4)
        b.until("[...document.querySelectorAll('#model option')].map(e => e.textContent).join() == 'new,old (not here)'")
        b.type("", "Alt", "n")
        b.until(f"{COUNT} == 0")
        say(b, "three", 2)
        assert b.js(TEXTS)[1] == "fine"
    finally:
        Scripted.models = None
        go(b, url)


def test_two_tabs():
    new()
    say(b, "shared", 2)
    streaming("long", 4)
    first = b.call("GET", "/window")
    second = b.call("POST", "/window/new", {"type": "tab"})["handle"]
    switch = lambda tab: b.call("POST", "/window", {"handle": tab})
    try:
        switch(second)
        go(b, url)
        assert b.js(LAST + ".querySelector('.note').textContent") == "is being written in another tab"
        assert b.js("document.querySelector('#send').disabled")
        b.js("window.confirm = () => true")
        b.js("document.querySelector('#list .open [aria-label^=Delete]').click()")
        b.until(NOTICE + ".startsWith('Another tab is writing')")
        click("Edit", at=0)
        b.type(" typed here")
        Scripted.may_end.set()
        b.until(f"!document.querySelector('#send').disabled && {TEXTS}[3].length == 200")
        assert b.js("document.querySelector('.edit textarea').value") == "shared typed here"
        b.js("document.querySelector('#input').focus()")
        say(b, "from two", 6)
        assert len(Scripted.requests[-1]["messages"][-2]["content"]) == 200
        switch(first)
        b.until(f"{COUNT} == 6")
        say(b, "from one", 8)
        switch(second)
        b.until(f"{COUNT} == 8")
        b.js("document.querySelector('#list .open [aria-label^=Delete]').click()")
        b.until("![...document.querySelectorAll('#list .title')].some(e => e.textContent == 'shared')")
        switch(first)
        b.until(f"{TEXTS}[0] != 'shared'")
        assert not any(m["content"] == "from one" for m in b.js(STORED)["messages"])
    finally:
        switch(second)
        b.call("DELETE", "/window")
        switch(first)


def test_the_end_is_followed():
    new()
    paragraphs = ("A sentence of an answer that has some length. " * 12 + "\n\n") * 8
    for i in range(5):
        Scripted.reply = lambda body: [paragraphs]
        say(b, "q", 2 * i + 2)
    b.js(FRAMES)
    assert b.js(FROM_END) < 4, "an answer that comes at once"
    go(b, url)
    b.js(FRAMES)
    assert b.js(FROM_END) < 4, "a conversation that is opened"
    more = threading.Semaphore(1)

    def slow(body):
        for _ in range(3):
            more.acquire()
            yield paragraphs
    Scripted.reply = slow
    b.type("slow", "Enter")
    b.until(f"{TEXTS}[11]?.length > 1000")
    b.js(FRAMES)
    assert b.js(FROM_END) < 4, "while it grows"
    b.cdp("Input.dispatchMouseEvent", {"type": "mouseWheel", "x": 700, "y": 300, "deltaX": 0, "deltaY": -30})
    b.until(f"{FROM_END} > 20")
    more.release()
    b.until(f"{TEXTS}[11].length > {1.5 * len(paragraphs)}")
    b.js(FRAMES)
    assert b.js(FROM_END) > 500, "somebody reads further up"
    b.js("document.querySelector('#log').scrollTop = 1e9")
    b.js(FRAMES)
    more.release()
    b.until(IDLE)
    b.js(FRAMES)
    assert b.js(FROM_END) < 4, "the end was reached again"


def test_keys_touch_and_readers():
    new()
    piece = lambda text, p: {"token": text, "logprob": p}
    token = lambda text, p: {**piece(text, p), "top_logprobs": [piece(text, p), piece("other" + text, -3)]}
    tokens = {"content": [token("one", -.1), token(" two", -.2)]}
    Scripted.reply = lambda body: [{"choices": [{"delta": {"content": "one two"}, "logprobs": tokens}]}]
    say(b, "probabilities", 2)
    b.js("[...document.querySelectorAll('.message button')].find(e => e.textContent == 'Probabilities').focus()")
    b.type("", "Enter")
    b.until("document.querySelector('.tokens')")
    assert b.js("document.activeElement.textContent") == "Text", "the focus stays at the button"
    b.js("document.querySelector('.tokens [tabindex=\"0\"]').focus()")
    assert '"otherone"' in b.js("document.querySelector('.alternatives').textContent")
    b.js("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))")
    assert '"other two"' in b.js("document.querySelector('.alternatives').textContent")
    assert b.js("[...document.querySelectorAll('.tokens span')].map(e => e.tabIndex)") == [-1, 0]
    b.js("document.querySelector('.tokens span').click()")
    assert '"otherone"' in b.js("document.querySelector('.alternatives').textContent")
    shot(b, "tokens")
    b.js("window.confirm = () => true")
    b.js("document.querySelector('#list li:not(.open) [aria-label^=Delete]').focus()")
    many = b.js("document.querySelectorAll('#list li').length")
    b.type("", "Enter")
    b.until(f"document.querySelectorAll('#list li').length == {many} - 1")
    b.until("document.activeElement.matches('#list [aria-label^=Delete]')")
    assert b.js("document.querySelector('#log').getAttribute('role')") == "log"
    b.js("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Dead', code: 'KeyN', altKey: true}))")  # Option on a Mac
    b.until(f"{COUNT} == 0")
    say(b, "capital", 2)
    b.js("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'N', code: 'KeyN', altKey: true}))")
    b.until(f"{COUNT} == 0")


def test_size():
    with os.scandir(source + "/src/serve/page") as files:
        assert sum(f.stat().st_size for f in files) < 150000, "of all that a browser loads, before compression"


def test_narrow():
    new()
    say(b, "one", 2)
    b.cdp("Emulation.setDeviceMetricsOverride", {"width": 400, "height": 700, "deviceScaleFactor": 1, "mobile": True})
    try:
        go(b, url)
        menu = lambda: (b.js("document.querySelector('#menu').click()"), b.until("!" + MAIN))
        menu()
        b.js("document.querySelector('#list .open .title').click()")
        b.until(MAIN)
        menu()
        b.type("", "Escape")
        b.until(MAIN)
        menu()
        b.js("document.querySelector('#new').click()")
        b.until(MAIN)
        menu()
        b.js("document.querySelector('#new').click()")  # in an empty one
        b.until(MAIN)
        Scripted.reply = lambda body: ["| Planet | Diameter (km) | Distance (million km) | Temperature | Orbital period |\n"
                                       "|-|-|-|-|-|\n| Mercury | 4,879 | 57.9 | 167 degrees on average | 88 days |\n\n"
                                       "\u05e9\u05dc\u05d5\u05dd one\n- \u05e9\u05dc\u05d5\u05dd"]
        say(b, "table", 2)
        assert b.js("(e => e.scrollWidth > e.clientWidth)(document.querySelector('.scroll'))"), "its words are broken"
        assert b.js("getComputedStyle(document.querySelector('.text > p')).unicodeBidi") == "plaintext"
        assert b.js("getComputedStyle(document.querySelector('.text > ul')).direction") == "rtl"
        Scripted.reply = lambda body: [(400, "x" * 300)]
        say(b, "error", 4)
        assert b.js("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('#log'))"), "wider than the screen"
    finally:
        b.cdp("Emulation.clearDeviceMetricsOverride", {})
        go(b, url)


def test_markdown():
    link = 'target="_blank" rel="noopener noreferrer nofollow"'
    code = lambda text: ('<figure class="code"><figcaption><span>text</span><button type="button" title="Copy">Copy</button>'
                         '</figcaption><pre tabindex="0"><code>' + text + "</code></pre></figure>")
    few, more = "x\n  y", "int x;\n    y;\n\nz;"
    for text, wanted in (
            ("See [1] and [the docs](https://x.org/) now", f'<p>See [1] and <a href="https://x.org/" {link}>the docs</a> now</p>'),
            ("`a[` [b [c] d](https://x.org/)", f'<p><code>a[</code> <a href="https://x.org/" {link}>b [c] d</a></p>'),
            ("[![p](https://x.org/p)](https://x.org/)", f'<p><a href="https://x.org/" {link}><span>p</span></a></p>'),
            ("**`**kwargs`** and *`*args`*", "<p><strong><code>**kwargs</code></strong> and <em><code>*args</code></em></p>"),
            ("*p in `*p = 1` here", "<p>*p in <code>*p = 1</code> here</p>"),
            ("1. One\n    ```\n    x\n      y\n    ```", f"<ol><li>One{code(few)}</li></ol>"),
            ("1. One\n- a\n- b\n2. Two", '<ol><li>One</li></ol><ul><li>a</li><li>b</li></ul><ol start="2"><li>Two</li></ol>'),
            ("- a\n- b\n\n1. x", "<ul><li>a</li><li>b</li></ul><ol><li>x</li></ol>"),
            ("1. a\n   - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
            ("So:\n\n    int x;\n        y;\n\n    z;\n\nEnd", f"<p>So:</p>{code(more)}<p>End</p>")):
        got = b.js(RENDER, text).replace(' start="1"', "").replace(' dir="auto"', "")
        assert got == wanted, (text, got, wanted)
    assert b.js("(async e => ((await import('/page/markdown.js')).update(e, 'word\\n'.repeat(140000)), e.textContent.length))"
                "(document.createElement('div'))") > 600000


def test_code_that_grows():
    new()
    more = threading.Semaphore(1)

    def slow(body):
        for piece in "Text\n\n```c\nint a;\n", "int b;\n", "int c;\n```\nMore\n":
            more.acquire()
            yield piece
    Scripted.reply = slow
    b.type("code", "Enter")
    b.until("document.querySelector('.code code')?.textContent.includes('int a;')")
    b.js("(() => { window.pre = document.querySelector('.code pre'); getSelection().selectAllChildren(pre); })()")
    more.release()
    b.until("document.querySelector('.code code').textContent.includes('int b;')")
    assert b.js("pre.isConnected && getSelection().toString().startsWith('int a;')")
    assert b.js("document.querySelectorAll('.code .word').length") == 0
    more.release()
    b.until(IDLE)
    assert b.js("pre.isConnected") and b.js("document.querySelectorAll('.code .word').length") == 3
    assert b.js(TEXTS)[1].endswith("int a;\nint b;\nint c;More"), b.js(TEXTS)


with Server(quern, MODEL) as server:
    proxy, url = scripted(server)
    b = opened(url)
    try:
        failed = run(globals())
        quiet(b, expected=("404 (Not Found)", "400 (Bad Request)"))
    finally:
        b.close()
        proxy.shutdown()
        proxy.server_close()
sys.exit(1 if failed else 0)
