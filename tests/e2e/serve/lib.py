# SPDX-License-Identifier: MIT
"""A server of our own on a free loopback port, and clients of Python's standard library for it."""
import fcntl, http.client, json, os, re, signal, socket, subprocess, sys, tempfile, threading, time, traceback

PATIENCE = 240  # seconds after which what does not come is lost: no test passes or fails by the speed of a machine
# A conversation whose answer ends when somebody ends it: no mark that would, and room for minutes (Server(.., *ENDLESS)).
ENDLESS = ("--ctx-size", "200000")
SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
LONG = {"messages": SUM, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 3, "logit_bias": {str(i): -100 for i in range(9)}}


class Server:
    def __init__(self, quern, model, *args, env=None, before=None):
        """model: one, a list of them, or none: all that there are. before: called first."""
        if before:
            before()
        self.log = tempfile.TemporaryFile("w+")
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)  # the place in the file is the server's, too
        models = [model] if isinstance(model, str) else model
        self.process = subprocess.Popen([quern, "serve", *models, "--port", "0", "-t", "1", *args], stderr=self.log, env=env)
        self.port = self.context = None  # context: of TLS

        def port():
            found = re.search(r"https?://(\[.*\]|[^:/]*):(\d+)", self.said())
            self.port = int(found.group(2)) if found else None
            return found or self.process.poll() is not None
        until(port)
        if self.port:
            return
        self.process.kill()
        raise SystemExit("no server: " + self.said())

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        """Ends it; what it says for that is its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
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
        kind = http.client.HTTPSConnection if self.context else http.client.HTTPConnection
        c = kind("127.0.0.1", self.port, timeout=PATIENCE, **({"context": self.context} if self.context else {}))
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

    def metrics(self, **headers):
        """Values by name, sums over their labels."""
        status, text = self.get("/metrics", **headers)
        assert status == 200, status
        values = {}
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.split("{")[0]] = values.get(name.split("{")[0], 0) + float(value)
        return values

    def stream(self, path, body, room=None, **headers):
        """The events of a stream, as (name, data). room: bytes that the system takes for us: what nobody reads is soon at the server again."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        if room:
            c.sock = socket.socket()
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            c.sock.settimeout(PATIENCE)
            c.sock.connect(("127.0.0.1", self.port))
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
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request("POST", path, json.dumps(body))
        r = c.getresponse()
        assert r.status == 200, (r.status, r.read())
        for line in r:
            yield json.loads(line)
        c.close()

    def connect(self, path, body, key=""):
        """A request without its answer."""
        data = json.dumps(body)
        s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode())
        return s

    def raw(self, data, half_close=False):
        """Bytes as they are; everything that comes back until the server closes."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
        except OSError:  # it may have closed the connection long before
            pass
        got = b""
        try:
            while True:
                piece = s.recv(65536)
                if not piece:
                    return got
                got += piece
        except TimeoutError:
            raise AssertionError(f"the server neither answers nor closes: {data[:60]}") from None
        except OSError:
            return got
        finally:
            s.close()


def until(what, seconds=PATIENCE):
    """Waits for something that comes."""
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
