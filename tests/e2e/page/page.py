# SPDX-License-Identifier: MIT
"""The page, as a person uses it: by keyboard alone, through reloads and dead servers, with what a hostile model may say."""
import sys, threading, urllib.parse
from http.server import ThreadingHTTPServer
from lib import Server, run
from scripted import BUSY, COUNT, IDLE, LAST, MODEL, TEXTS, WRITTEN, Browser, Scripted, go, opened, press, quern, quiet, say, scripted, shot

HOSTILE = """# <img src=x onerror=alert(1)>

<script>alert(2)</script> [click](javascript:alert(3)) ![p](http://elsewhere.test/p.png) [ok](https://example.org/)

    <svg onload=alert(4)>

- **bold** and `code <b>`

| a | b |
|---|--:|
| 1 | 2 |

```c
int main(void) { return 0; } /* <i> */
```
""" + "*" * 3000 + "[" * 3000 + "> " * 3000


def test_conversation_by_keyboard():
    go(b, f"http://127.0.0.1:{server.port}/")
    say(b, "What is 2 plus 3?", 2)
    assert "5" in b.js(TEXTS)[1], b.js(TEXTS)
    assert "tokens" in b.js(LAST + ".querySelector('.stats').textContent")
    say(b, "What is 3 plus 4?", 4)
    assert "cached" in b.js(LAST + ".querySelector('.stats').textContent")
    shot(b, "conversation")
    press(b, "Again")
    b.until(f"{IDLE} && document.querySelector('.message:last-child .branch')?.textContent == '2/2'")
    # the question before is edited: a branch of its own, and the old one is still there
    press(b, "Edit", "user")
    b.type(" Now.", "Enter")
    b.until(f"{IDLE} && [...document.querySelectorAll('.message.user')].at(-1).querySelector('.branch')?.textContent == '2/2'")
    assert b.js(TEXTS)[2] == "What is 3 plus 4? Now.", b.js(TEXTS)
    press(b, "‹", "user")
    b.until("document.querySelectorAll('.message.user')[1].querySelector(':scope > .text').textContent == 'What is 3 plus 4?'")
    before = b.js(TEXTS)
    go(b, f"http://127.0.0.1:{server.port}/")
    assert b.js(TEXTS) == before, "a reload lost something"
    b.type("", "Alt", "n")
    b.until(f"{COUNT} == 0")
    b.type("", "Alt", "l")
    b.until("document.querySelector('#live dd')")
    rows = b.js("Object.fromEntries([...document.querySelectorAll('#live dt')].map(e => [e.textContent, e.nextSibling.textContent]))")
    number = lambda name: int(rows[name].replace(" ", ""))
    assert number("all") == number("cached for the next turn") + number("free") > number("free") > 0, rows
    assert rows["streams"] == rows["queued"] == "0" and number("taken") == 4, rows
    shot(b, "live")
    say(b, "Hello", 2)
    assert b.js("document.querySelectorAll('#list li').length") == 2
    quiet(b)


def test_stop_reload_and_a_dead_server():
    proxy, url = scripted(server)
    go(b, url)
    Scripted.text = "word " * 200
    b.type("one", "Enter")
    b.until(f"{BUSY} && {TEXTS}[1]?.length > 900")
    b.type("", "Escape")
    b.until(f"{IDLE} && {LAST}.querySelector('.note').textContent == 'stopped'")
    assert len(b.js(TEXTS)[1]) > 900
    b.type("two", "Enter")
    b.until(f"{BUSY} && {TEXTS}[3]?.length > 900")
    b.until(f"{WRITTEN}(1000)")  # all that came
    Scripted.text = "more " * 10
    go(b, url)
    assert len(b.js(TEXTS)[3]) >= 1000
    b.until(f"{LAST}.querySelector('.note').textContent.includes('the page was closed')")
    Scripted.may_end.set()
    press(b, "Again")
    b.until(f"{IDLE} && {TEXTS}.at(-1).startsWith('more')")
    Scripted.may_end.clear()
    b.type("three", "Enter")
    b.until(f"{BUSY} && {TEXTS}[5]?.length > 20")
    proxy.shutdown()
    proxy.server_close()
    Scripted.may_end.set()
    b.until(IDLE)
    say(b, "four", 8)
    assert "cannot be reached" in b.js(LAST + ".querySelector('.note').textContent")
    again = ThreadingHTTPServer(("127.0.0.1", int(urllib.parse.urlsplit(url).port)), Scripted)
    again.daemon_threads = True
    threading.Thread(target=again.serve_forever, daemon=True).start()
    press(b, "Again")
    b.until(f"{IDLE} && {TEXTS}.at(-1).startsWith('more')")
    again.shutdown()
    again.server_close()
    quiet(b, expected=("ERR_CONNECTION_REFUSED",))


def test_delete_while_answered():
    """A conversation that is deleted while it is answered, on the screen or in the background, stays so, whole."""
    kept = """new Promise(done => { indexedDB.open('quern', 1).onsuccess = e => {
        const t = e.target.result.transaction(['conversations', 'messages']), got = {};
        t.objectStore('conversations').getAll().onsuccess = r => { got.titles = r.target.result.map(c => c.title); };
        t.objectStore('messages').count().onsuccess = r => { got.messages = r.target.result; };
        t.oncomplete = () => { e.target.result.close(); done(got); }; }; })"""
    proxy, url = scripted(server)
    go(b, url)
    b.js("window.confirm = () => true")
    Scripted.text = "word " * 200
    Scripted.may_end.set()
    say(b, "kept", 2)
    for background in True, False:
        b.type("", "Alt", "n")
        b.until(f"{COUNT} == 0")
        Scripted.may_end.set()
        say(b, "gone", 2)
        Scripted.may_end.clear()
        b.type("again", "Enter")
        b.until(f"{BUSY} && {TEXTS}[3]?.length > 900")
        b.until("document.querySelector('[title=\\'Delete \"gone\"\\']')")
        if background:
            b.js("[...document.querySelectorAll('#list .title')].find(e => e.textContent == 'kept').click()")
            b.until(f"{IDLE} && {TEXTS}[0] == 'kept'")
        b.js("document.querySelector('[title=\\'Delete \"gone\"\\']').click()")
        b.until(f"document.querySelectorAll('#list li').length == 1 && {TEXTS}[0] == 'kept'")
    Scripted.may_end.set()
    say(b, "more", 4)  # whatever ends late has ended
    got = b.js(kept)
    assert got == {"titles": ["kept"], "messages": 4}, got
    quiet(b)
    proxy.shutdown()
    proxy.server_close()


def test_what_a_model_says_is_inert():
    with Server(quern, MODEL) as server:
        proxy, url = scripted(server)
        Scripted.text = HOSTILE
        Scripted.may_end.set()
        b = opened(url, width=400, height=700, dark=True)
        try:
            say(b, "go", 2)
            inner = LAST + ".querySelector(':scope > .text')"
            assert b.js(f"{inner}.querySelectorAll('img, script, svg, [onerror], [onload]').length") == 0
            links = b.js(f"[...{inner}.querySelectorAll('a')].map(a => a.href)")
            assert links == ["http://elsewhere.test/p.png", "https://example.org/"], links
            assert "<script>alert(2)</script>" in b.js(inner + ".textContent")
            assert b.js(f"{inner}.querySelectorAll('table td').length") == 2 and b.js(f"{inner}.querySelector('pre .word').textContent") == "int"
            assert b.js("document.documentElement.scrollWidth") <= 400, "wider than the screen"
            dark = b.js("getComputedStyle(document.body).backgroundColor")
            assert sum(map(int, dark[4:-1].split(","))) < 200, dark
            shot(b, "phone")
            b.type("", "Alt", "s")
            b.until("document.querySelector('#settings').open")
            b.type("", "Escape")
            b.until("!document.querySelector('#settings').open")
            quiet(b)
        finally:
            b.close()
            proxy.shutdown()
            proxy.server_close()


def test_500_messages():
    put = """(text => new Promise(done => { const r = indexedDB.open('quern', 1); r.onsuccess = () => {
        const t = r.result.transaction(['conversations', 'messages'], 'readwrite');
        t.objectStore('conversations').put({id: 'long', title: 'long', model: '', settings: {}, leaf: 'm499', changed: 1});
        for (let i = 0; i < 500; i++) t.objectStore('messages').put({conversation: 'long', id: 'm' + i, parent: i ? 'm' + (i - 1) : null,
            created: i, role: i % 2 ? 'assistant' : 'user', content: text, state: 'done'});
        t.oncomplete = () => { localStorage.setItem('last', 'long'); done(true); }; }; }))(arguments[0])"""
    with Server(quern, MODEL) as server:
        url = f"http://127.0.0.1:{server.port}/"
        b = opened(url)
        try:
            assert b.js(put, HOSTILE[:600])
            b.cdp("Performance.enable", {"timeDomain": "threadTicks"})
            b.go(url)
            b.until(f"document.body.dataset.ready && {COUNT} == 500")
            shown = b.js("Math.round(performance.now())")
            took = {m["name"]: m["value"] for m in b.cdp("Performance.getMetrics", {})["metrics"]}["TaskDuration"]
            print(f"500 messages after {shown} ms, of which the page computed {1000 * took:.0f}")
            assert took < 1, "of the processor's time: by the clock it is as busy as the machine"
            quiet(b)
        finally:
            b.close()


OWN = {name: test for name, test in globals().items() if test in (test_what_a_model_says_is_inert, test_500_messages)}
failed = run(OWN)
# The others share a server and a browser; each has an origin, and with it a store, of its own.
with Server(quern, MODEL, "--temp", "0") as server:
    b = Browser()
    try:
        failed += run({name: test for name, test in globals().items() if name not in OWN})
    finally:
        b.close()
sys.exit(1 if failed else 0)
