# SPDX-License-Identifier: MIT
"""What stands around a server: systemd, nginx, HAProxy, with the files of contrib/."""
import http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time
from lib import Server, run, until

quern, source = sys.argv[1:3]
MODEL = source + "/models/chat.gguf"
LONG = {"messages": [{"role": "user", "content": "Hello"}], "stream": True, "max_tokens": 150, "seed": 3, "ignore_eos": True,
        "grammar": 'root ::= [a-z ]+'}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def found(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def contrib(name, ports):
    """A file of contrib/ with other ports: [that it listens on, first replica, second replica]."""
    with open(f"{source}/contrib/{name}") as f:
        text = f.read()
    for old, new in zip((8080, 8081, 8082), ports):
        assert f"127.0.0.1:{old}" in text, (name, old)
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    return text


def times(port, headers):
    """When the pieces of a stream come, and the text."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", "/v1/chat/completions", json.dumps(LONG), {"Content-Type": "application/json", **headers})
    r = c.getresponse()
    assert r.status == 200, (r.status, r.read())
    at, text = [], ""
    for line in r:
        if line.startswith(b"data: {"):
            at.append(time.monotonic())
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
    c.close()
    return at, text


def reads(server):
    return int(server.metrics()["quern_n_requests_total"])


def through(command, port):
    """A proxy under way before two replicas: streams come piece by piece, the same text, and stay on their replica."""
    with Server(quern, MODEL) as one, Server(quern, MODEL) as two:
        proxy = subprocess.Popen(command(one.port, two.port), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            def alive():
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    return True
                except OSError:
                    return proxy.poll() is not None
            assert until(alive) and proxy.poll() is None, proxy.stderr.read()
            time.sleep(0.5)  # a proxy that takes the replicas for dead knows by now
            _, alone = times(one.port, {})
            at, text = times(port, {"X-Conversation": "first"})
            assert text == alone, (text, alone)
            assert sum(b > a for a, b in zip(at, at[1:])) > 20 and at[-1] > at[0], "all pieces came at once"
            served = set()
            for conversation in ("a", "b", "c", "d", "e", "f"):
                for turn in range(2):
                    before = reads(one), reads(two)
                    times(port, {"X-Conversation": conversation})
                    now = reads(one) - before[0], reads(two) - before[1]
                    assert sum(now) == 1, now
                    served.add(now)
                    if turn:
                        assert now == first, f"conversation {conversation} went from {first} to {now}"
                    first = now
            assert len(served) == 2, "one replica serves all"
        finally:
            proxy.send_signal(signal.SIGTERM)
            proxy.wait(20)


def test_nginx():
    if not found("nginx"):
        return print("skipped: no nginx")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        def command(one, two):
            with open(folder + "/nginx.conf", "w") as f:
                f.write(f"daemon off; master_process off; pid {folder}/pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off;\n")
                for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
                    f.write(f"{kind}_temp_path {folder}/{kind};\n")
                f.write(contrib("nginx.conf", (port, one, two)) + "}\n")
            return [found("nginx"), "-c", folder + "/nginx.conf", "-p", folder, "-e", "stderr"]
        through(command, port)


def test_haproxy():
    if not found("haproxy"):
        return print("skipped: no haproxy")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        def command(one, two):
            with open(folder + "/haproxy.cfg", "w") as f:
                f.write(contrib("haproxy.cfg", (port, one, two)).replace("inter 2s", "inter 50ms"))
            return [found("haproxy"), "-db", "-f", folder + "/haproxy.cfg"]
        through(command, port)


def test_notify():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(folder + "/notify")
        s.settimeout(30)
        os.environ["NOTIFY_SOCKET"] = folder + "/notify"
        try:
            with Server(quern, MODEL) as server:
                assert s.recv(100) == b"READY=1"
                assert server.get("/health")[0] == 200
            assert s.recv(100) == b"STOPPING=1"
        finally:
            del os.environ["NOTIFY_SOCKET"]


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
