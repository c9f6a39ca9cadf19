# SPDX-License-Identifier: MIT
"""What tests of the page share: a server that says what a test wants, and short names for what is on the page."""
import itertools, json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from lib import PATIENCE
from webdriver import Browser

quern, source = sys.argv[1:3]
MODEL = source + "/models/chat.gguf"
SHOTS = os.environ.get("QN_SCREENSHOTS")
COUNT = "document.querySelectorAll('.message').length"
IDLE = "!document.querySelector('#send').hidden"
BUSY = "document.querySelector('#send').hidden"
# Whether a message that is being written has so many letters in the browser's store.
WRITTEN = """(n => new Promise(done => { indexedDB.open('quern', 1).onsuccess = e => {
    e.target.result.transaction('messages').objectStore('messages').getAll().onsuccess = found => { e.target.result.close();
        done(found.target.result.some(m => m.state === 'streaming' && m.content.length >= n)); }; }; }))"""
LAST = "[...document.querySelectorAll('.message')].at(-1)"
TEXTS = "[...document.querySelectorAll('.message > .text')].map(e => e.textContent)"


def go(b, url):
    b.go(url)
    b.until("document.body.dataset.ready")


def opened(url, **options):
    b = Browser(**options)
    go(b, url)
    return b


def say(b, text, messages):
    b.type(text, "Enter")
    b.until(f"{COUNT} == {messages} && {IDLE}")


def press(b, label, role="assistant"):
    """A button of the last message of a role, by keyboard alone: Shift and Tab go to it from the line that is typed in."""
    b.js("document.querySelector('#input').focus()")
    last = f"[...document.querySelectorAll('.message.{role}')].at(-1)"
    for _ in range(80):
        b.type("", "Shift", "Tab")
        if b.js(f"document.activeElement.textContent === arguments[0] && {last}.contains(document.activeElement)", label):
            return b.type("", "Enter")
    raise AssertionError(f"Tab never comes to {label}")


def quiet(b, expected=()):
    """Nothing was asked of others, nothing failed but what a test expects."""
    origin = b.js("location.origin")
    for name in b.js("performance.getEntriesByType('resource').map(r => r.name)"):
        assert name.startswith(origin), name
    for line in b.console():
        assert any(e in line for e in expected), line


def shot(b, name):
    if SHOTS:
        b.screenshot(os.path.join(SHOTS, name + ".png"))


class Scripted(BaseHTTPRequestHandler):
    """A server that passes the page on, and says what the test wants, piece by piece, until it may end."""
    protocol_version = "HTTP/1.1"
    text, may_end, pieces = "", threading.Event(), 40
    reply = None   # or what a request of a chat is answered with: chunks, texts of them, or (status, error)
    models = None  # or the names of those that it says it has
    requests = []

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        status, body, headers = self.behind.request("GET", self.path)
        if self.path == "/v1/models" and self.models:
            body = {"data": [{"id": name} for name in self.models]}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.close_connection = True  # a server that is shut down is gone for good
        self.send_response(status)
        for name in ("Content-Type", "Content-Security-Policy"):
            self.send_header(name, headers.get(name, ""))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        self.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.close_connection = True
        reply = type(self).reply  # a function, no method
        chunks = iter(reply(self.requests[-1])) if reply else None
        first = next(chunks, "") if chunks else None
        status = first[0] if isinstance(first, tuple) else 200
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if status == 200 else "application/json")
        self.end_headers()
        if status != 200:
            return self.wfile.write(json.dumps({"error": {"message": first[1]}}).encode())
        if chunks:
            return self.write(itertools.chain([first], chunks))
        size = max(1, len(self.text) // self.pieces)
        for i in range(0, len(self.text), size):
            self.wfile.write(b"data: " + json.dumps({"choices": [{"delta": {"content": self.text[i:i + size]}}]}).encode() + b"\n\n")
        self.wfile.flush()
        self.may_end.wait(PATIENCE)
        self.wfile.write(b"data: [DONE]\n\n")


    def write(self, chunks):
        try:
            for c in chunks:
                delta = {"choices": [{"delta": {"content": c}}]} if isinstance(c, str) else c
                self.wfile.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # stopped
            pass


def scripted(server):
    Scripted.behind = server
    Scripted.may_end.clear()
    s = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    s.daemon_threads = True
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s, f"http://127.0.0.1:{s.server_port}/"
