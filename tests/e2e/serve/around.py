# SPDX-License-Identifier: MIT
"""What stands around a server: systemd, nginx, HAProxy, with the files of contrib/."""
import http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from lib import ENDLESS, LONG, PATIENCE, Server, run, until

quern, source = sys.argv[1:3]
MODEL = source + "/models/chat.gguf"
PATH = "/v1/chat/completions"
# What listens on a port that is written down here has an address of this process, so that nobody else can have taken it.
ADDRESS = f"127.{64 + os.getpid() // 65536 % 64}.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
PORT = 8080


def found(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def contrib(name, ports):
    """A file of contrib/ with an address of ours and other ports: [first replica, second replica]."""
    with open(f"{source}/contrib/{name}") as f:
        text = f.read()
    for old, new in ("127.0.0.1:8080", f"{ADDRESS}:{PORT}"), *((f"127.0.0.1:808{i + 1}", f"127.0.0.1:{ports[i]}") for i in (0, 1)):
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text


def opened(conversation, address=(ADDRESS, PORT), body={}):
    c = http.client.HTTPConnection(*address, timeout=PATIENCE)
    c.request("POST", PATH, json.dumps({**LONG, "stream": True, **body}), {"Host": "localhost", "X-Conversation": conversation})
    r = c.getresponse()
    assert r.status == 200, (r.status, r.read())
    return c, r


def text_of(*how, **more):
    c, r = opened(*how, **more, body={"max_tokens": 12})
    text = "".join(choice["delta"].get("content") or "" for line in r if line.startswith(b"data: {")
                   for choice in json.loads(line[6:])["choices"])
    c.close()
    return text


def reads(server):
    return int(server.metrics()["quern_n_requests_total"])


class Halting(BaseHTTPRequestHandler):
    """A replica that says the next piece of a stream when the one before has arrived at the client."""
    protocol_version = "HTTP/1.1"
    arrived = threading.Semaphore(0)

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(5):
            data = b"data: %d\n\n" % i
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            if not self.arrived.acquire(timeout=PATIENCE):
                return
        self.wfile.write(b"0\r\n\r\n")


class Proxy:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __enter__(self):
        def ready():
            try:
                c = http.client.HTTPConnection(ADDRESS, PORT, timeout=PATIENCE)
                c.request("GET", "/health", headers={"Host": "localhost"})
                return c.getresponse().status == 200
            except OSError:
                return self.process.poll() is not None
        assert until(ready) and self.process.poll() is None, self.process.stderr.read()
        return self

    def __exit__(self, *what):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process.stderr.close()


def piece_by_piece(command):
    replicas = [ThreadingHTTPServer(("127.0.0.1", 0), Halting) for _ in range(2)]
    for r in replicas:
        r.daemon_threads = True
        threading.Thread(target=r.serve_forever, daemon=True).start()
    with Proxy(command(*(r.server_port for r in replicas))):
        c, r = opened("x")
        for i in range(5):
            assert r.readline() == b"data: %d\n" % i and r.readline() == b"\n"
            Halting.arrived.release()
        assert r.read() == b""
        c.close()
    for r in replicas:
        r.shutdown()
        r.server_close()


def through(command, checks=0):
    """A proxy under way before two replicas: the same text, a conversation stays on its replica, and who leaves is gone there."""
    piece_by_piece(command)
    with Server(quern, MODEL, *ENDLESS) as one, Server(quern, MODEL, *ENDLESS) as two, Proxy(command(one.port, two.port)):
        # one that takes the replicas for dead does so by now
        assert until(lambda: all(s.said().count("GET /health: 200") >= checks for s in (one, two)))
        assert text_of("first") == text_of("first", ("127.0.0.1", one.port)) != ""
        served = set()
        for conversation in "abcdefgh":
            for turn in range(2):
                before = reads(one), reads(two)
                text_of(conversation)
                now = reads(one) - before[0], reads(two) - before[1]
                assert sum(now) == 1, now
                served.add(now)
                if turn:
                    assert now == first, f"conversation {conversation} went from {first} to {now}"
                first = now
        assert len(served) == 2, "one replica serves all"
        c, r = opened("first")
        assert r.readline().startswith(b"data: {")
        r.close()
        c.close()
        assert until(lambda: one.get("/slots")[1] == two.get("/slots")[1] == []), "who left is answered still"


def test_nginx():
    if not found("nginx"):
        return print("skipped: no nginx")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        def command(one, two):
            with open(folder + "/nginx.conf", "w") as f:
                f.write(f"daemon off; master_process off; pid {folder}/pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off;\n")
                for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
                    f.write(f"{kind}_temp_path {folder}/{kind};\n")
                f.write(contrib("nginx.conf", (one, two)) + "}\n")
            return [found("nginx"), "-c", folder + "/nginx.conf", "-p", folder, "-e", "stderr"]
        through(command)


def test_haproxy():
    if not found("haproxy"):
        return print("skipped: no haproxy")
    with tempfile.TemporaryDirectory() as folder:
        def command(one, two):
            with open(folder + "/haproxy.cfg", "w") as f:
                # known to be alive at once, and dead only where nothing listens
                f.write(contrib("haproxy.cfg", (one, two)).replace("inter 2s", "inter 50ms").replace("option httpchk", f"timeout check {PATIENCE}s\n    option httpchk"))
            return [found("haproxy"), "-db", "-f", folder + "/haproxy.cfg"]
        through(command, checks=5)


def test_notify():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(folder + "/notify")
        s.settimeout(PATIENCE)
        os.environ["NOTIFY_SOCKET"] = folder + "/notify"
        try:
            with Server(quern, MODEL) as server:
                assert s.recv(100) == b"READY=1"
                assert server.get("/health")[0] == 200
            assert s.recv(100) == b"STOPPING=1"
        finally:
            del os.environ["NOTIFY_SOCKET"]


def test_watchdog():
    """It says that it is alive as often as systemd asks for, and not where another process is meant."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(folder + "/notify")
        s.settimeout(PATIENCE)
        env = {**os.environ, "NOTIFY_SOCKET": folder + "/notify", "WATCHDOG_USEC": "100000"}
        with Server(quern, MODEL, env=env):
            assert [s.recv(100) for _ in range(4)] == [b"READY=1"] + [b"WATCHDOG=1"] * 3
        while s.recv(100) == b"WATCHDOG=1":
            pass
        with Server(quern, MODEL, env={**env, "WATCHDOG_PID": "1"}) as server:
            assert s.recv(100) == b"READY=1" and server.get("/health")[0] == 200
        assert s.recv(100) == b"STOPPING=1"


def test_unit():
    if not found("systemd-analyze"):
        return print("skipped: no systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        with open(source + "/contrib/quern.service") as f:
            text = f.read().replace("/usr/bin/quern", quern)
        with open(folder + "/quern.service", "w") as f:
            f.write(text)
        r = subprocess.run([found("systemd-analyze"), "verify", "--man=no", folder + "/quern.service"], capture_output=True, text=True)
        assert r.returncode == 0 and "quern.service" not in r.stderr, r.stderr


sys.exit(1 if run(globals()) else 0)
