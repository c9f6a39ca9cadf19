# SPDX-License-Identifier: MIT
"""The page in one browser through many tests: what is typed stays, what is kept is never replaced by less, two tabs agree,
the end is followed while nobody scrolls up, and markdown is what it says."""
import json, sys, threading
from lib import PATIENCE, Server, run
from scripted import BUSY, COUNT, IDLE, LAST, MODEL, TEXTS, Scripted, go, opened, quern, quiet, say, scripted, shot
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
        got = b.js(RENDER, text).replace(' start="1"', "")
        assert got == wanted, (text, got, wanted)
    assert len(b.js(RENDER, "word\n" * 70000)) > 300000
    assert len(b.js(RENDER, "*a* " * 70000)) > 300000


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
