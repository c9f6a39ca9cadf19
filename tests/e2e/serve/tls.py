# SPDX-License-Identifier: MIT
"""TLS: streams, who leaves, plain text on the port of TLS and TLS on the plain one, SIGHUP; keys that are read again; limits."""
import http.client, json, os, shutil, signal, socket, ssl, subprocess, sys, threading
from lib import ENDLESS, LONG, PATIENCE, SUM, Server, run, until

quern, source = sys.argv[1:3]
MODEL = source + "/models/chat.gguf"
PATH = "/v1/chat/completions"


if not shutil.which("openssl") or b"GnuTLS" in subprocess.run([quern, "serve", MODEL, "--port", "0", "--tls-cert", "x", "--tls-key", "x"],
                                                                capture_output=True).stderr:
    sys.exit(print("skipped: no openssl, or built without GnuTLS") or 0)


def certificate(name):
    """Signed by itself, as name.pem and name.key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key", "-out",
                    name + ".pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, capture_output=True)


certificate("first")
certificate("second")


def use(name):
    shutil.copy(name + ".pem", "now.pem")
    shutil.copy(name + ".key", "now.key")


use("first")
server = Server(quern, MODEL, "--tls-cert", "now.pem", "--tls-key", "now.key", "--request-timeout", "3600", "--api-key-file", "keys", *ENDLESS,
                before=lambda: open("keys", "w").write("one\n"))


def trust(name):
    return ssl.create_default_context(cafile=name + ".pem")


def ask(method, path, body=None, name="first", key="one"):
    c = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=trust(name))
    c.request(method, path, body and json.dumps(body), {"Authorization": "Bearer " + key})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, json.loads(data)


def streams():
    return len(ask("GET", "/slots")[1])


def connect(body):
    s = trust("first").wrap_socket(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE), server_hostname="localhost")
    data = json.dumps(body)
    s.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode())
    return s


def test_answers():
    assert ask("GET", "/health") == (200, {"status": "ok"})
    whole = ask("POST", PATH, {"messages": SUM, "temperature": 0})[1]["choices"][0]["message"]["content"]
    assert whole == "2 + 3 = 5"
    c = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=trust("first"))
    c.request("POST", PATH, json.dumps({"messages": SUM, "temperature": 0, "stream": True}), {"Authorization": "Bearer one"})
    lines = [line[6:] for line in c.getresponse() if line.startswith(b"data: ")]
    c.close()
    text = "".join(json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines[:-1])
    assert lines[-1].strip() == b"[DONE]" and text == whole
    for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
        context = trust("first")
        context.minimum_version = context.maximum_version = version
        with context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost") as s:
            assert s.version() == version.name.replace("_", ".")


def test_leaving():
    for stream in True, False:
        for how in "close", "reset":
            s = connect({**LONG, "stream": stream, "n": 2})
            assert until(lambda: streams() > 0), "nothing began"
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            s.close()
            assert until(lambda: streams() == 0), (stream, how)


def test_wrong_port():
    """Plain text where TLS is spoken, half a hello, and TLS where plain text is."""
    strict = Server(quern, MODEL, "--tls-cert", "now.pem", "--tls-key", "now.key", "--request-timeout", "1")
    datas, got = (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02", b"\x00" * 300, b""), {}
    threads = [threading.Thread(target=lambda d: got.update({d: strict.raw(d)}), args=(d,)) for d in datas]
    [t.start() for t in threads]
    [t.join() for t in threads]  # each comes back when the server has closed
    assert set(got) == set(datas) and all(g == b"" or g[0] == 0x15 for g in got.values()), got  # an alert
    assert strict.stop() == 0
    with Server(quern, MODEL, "--request-timeout", "1") as plain:
        try:
            trust("first").wrap_socket(socket.create_connection(("127.0.0.1", plain.port), timeout=PATIENCE), server_hostname="localhost")
        except (ssl.SSLError, OSError):
            pass
        else:
            raise AssertionError("TLS on the plain port")

        def healthy():
            try:
                return plain.get("/health")[0] == 200
            except OSError:  # a second is short where a client gets little of the processor
                return False
        assert until(healthy)
    assert ask("GET", "/health")[0] == 200


def test_reload():
    """SIGHUP: another certificate for new connections, other keys; what is under way goes on; a bad file changes nothing."""
    held = connect({**LONG, "stream": True})
    assert held.recv(100)
    use("second")
    with open("keys", "w") as f:
        f.write("[alice]\none\n[bob]\ntwo\n")
    server.process.send_signal(signal.SIGHUP)

    def shown(name):
        try:
            return ask("GET", "/slots", name=name, key="two")[0] == 200
        except ssl.SSLError:
            return False
    assert until(lambda: shown("second"))
    assert not shown("first") and held.recv(100), "a stream that was under way"
    held.close()
    assert ask("GET", "/slots", name="second", key="one")[0] == 200
    assert until(lambda: ask("GET", "/slots", name="second")[1] == [])
    for file in "now.pem", "now.key":
        shutil.copy(file, "kept")
        with open(file, "w") as f:
            f.write("no certificate\n")
        before = server.said().count(file)
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: server.said().count(file) > before) and shown("second")
        shutil.copy("kept", file)
    shutil.copy("first.key", "now.key")
    server.process.send_signal(signal.SIGHUP)
    assert until(lambda: "another certificate" in server.said()) and shown("second")
    with open("keys", "w") as f:
        f.write("# nobody\n")
    server.process.send_signal(signal.SIGHUP)
    assert until(lambda: "no key" in server.said()) and shown("second")
    assert "key alice" in server.said() or "key bob" in server.said()


def test_reload_crowd():
    """Who says hello while certificates are replaced is shown one of them to the end."""
    over, wrong, n = threading.Event(), [], [0] * 4
    use("second")
    with open("keys", "w") as f:
        f.write("[alice]\none\n[bob]\ntwo\n")

    def hello(i):
        while not over.is_set():
            try:
                n[i] += ask("GET", "/health", name="second")[0] == 200
            except BaseException as e:
                wrong.append(e)
                return
    threads = [threading.Thread(target=hello, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    for _ in range(20):
        before = server.said().count("the certificate was read again")
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: server.said().count("the certificate was read again") > before)
    over.set()
    [t.join() for t in threads]
    assert not wrong and all(n), (wrong, n)


def test_ps():
    use("second")
    env = {**os.environ, "QUERN_HOST": f"https://127.0.0.1:{server.port}", "QUERN_API_KEY": "two"}
    done = subprocess.run([quern, "ps", "--cacert", "second.pem"], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "chat:latest" in done.stdout, done.stderr
    done = subprocess.run([quern, "ps", "--cacert", "first.pem"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr


def test_limits():
    with Server(quern, MODEL, "--api-key", "one", "--api-key", "two", "--requests-per-key", "2", "--connections-per-address", "6", *ENDLESS) as s:
        held = [s.connect(PATH, {**LONG, "stream": True}, "one") for _ in range(2)]
        assert until(lambda: len(s.get("/slots", Authorization="Bearer two")[1]) == 2)
        status, reply, headers = s.request("POST", PATH, {"messages": SUM}, {"Authorization": "Bearer one"})
        assert status == 429 and headers["Retry-After"] and "--requests-per-key" in reply["error"]["message"], reply
        assert s.post(PATH, {"messages": SUM, "max_tokens": 1}, Authorization="Bearer two")[0] == 200
        more = []

        def refused():
            c = socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE)
            try:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return c.recv(100) == b""
            except OSError:
                return True
            finally:
                c.close()

        def full():  # while the server still closes others of ours, one of these may be refused, and another one is needed
            if len(more) >= 4 and refused():
                return True
            more.append(socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE))
            return False
        assert until(full), "more connections than one address may have"
        for c in held + more:
            c.close()
        assert until(lambda: not refused())


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
