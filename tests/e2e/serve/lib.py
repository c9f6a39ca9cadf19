# SPDX-License-Identifier: MIT
"""A server of our own on a free loopback port, and clients of Python's standard library for it."""
import http.client, json, os, re, signal, socket, subprocess, sys, tempfile, threading, time, traceback


class Server:
    def __init__(self, quern, model, *args):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([quern, "serve", model, "--port", "0", "-t", "1", *args], stderr=self.log)
        self.port = None
        for _ in range(3000):
            self.log.seek(0)
            found = re.search(r"http://(\[.*\]|[^:/]*):(\d+)", self.log.read())
            if found:
                self.port = int(found.group(2))
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.process.kill()
        raise SystemExit("no server: " + self.said())

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        """Ends it; what it says for that is its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "it had to be killed"

    def __enter__(self):
        return self

    def __exit__(self, *what):
        status = self.stop()
        if what[0] is None and status != 0:
            raise SystemExit(f"the server ended with {status}: {self.said()}")

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method, path, data, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        kind = r.getheader("Content-Type") or ""
        return r.status, json.loads(text) if kind.startswith("application/json") and text else text, r.headers

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)[:2]

    def post(self, path, body, **headers):
        return self.request("POST", path, body, headers)[:2]

    def good(self, path, body):
        status, reply = self.post(path, body)
        assert status == 200, (status, reply)
        return reply

    def stream(self, path, body, **headers):
        """The events of a stream, as (name, data)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", path, json.dumps(body), headers)
        r = c.getresponse()
        assert r.status == 200, (r.status, r.read())
        name = None
        for line in r:
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, line[6:] if line == "data: [DONE]" else json.loads(line[6:])
                name = None
        c.close()

    def lines(self, path, body):
        """The objects of a stream of lines."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", path, json.dumps(body))
        r = c.getresponse()
        assert r.status == 200, (r.status, r.read())
        for line in r:
            yield json.loads(line)
        c.close()

    def raw(self, data, wait=5.0, half_close=False):
        """Bytes as they are; everything that comes back until the server closes, or `wait` is over."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=wait)
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    return got
                got += piece
        except OSError:  # it may have closed the connection long before
            return got if "got" in locals() else b""
        finally:
            s.close()


def until(what, seconds=20):
    """Waits for something that comes soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.01)
    return False


def run(tests):
    """Every function of a module whose name begins with test_; how many failed."""
    failed = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_"):
            continue
        begin = time.monotonic()
        try:
            test()
        except BaseException:
            failed += 1
            print(f"{name} failed:")
            traceback.print_exc(file=sys.stdout)
        took = time.monotonic() - begin
        if os.environ.get("QN_TIMES") or took > 5:
            print(f"{name}: {took:.2f} s")
    return failed
