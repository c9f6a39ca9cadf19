# SPDX-License-Identifier: MIT
"""What strangers do: garbage, halves, two lengths, too much, too deep, from elsewhere, without a key; and who leaves."""
import http.client, json, os, socket, subprocess, sys, threading, time
from lib import ENDLESS, LONG, PATIENCE, SUM, Server, run, until

quern, source = sys.argv[1:3]
PATH = "/v1/chat/completions"
MODEL = source + "/models/chat.gguf"
server = Server(quern, MODEL, "--max-body", "100K", "--parallel", "2", "--queue", "2", "--request-timeout", "3600", *ENDLESS)


def alive():
    assert server.get("/health") == (200, {"status": "ok"})
    assert server.good(PATH, {"messages": SUM, "temperature": 0})["choices"][0]["message"]["content"] == "2 + 3 = 5"


def head(extra="", body="", method="POST", path=PATH, host="localhost"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n{body}".encode()


def first_line(data, **how):
    return server.raw(data, **how).split(b"\r\n")[0].decode()


def at_once(what, do):
    """What it does for each, all side by side."""
    got = [None] * len(what)

    def one(i):
        got[i] = do(what[i])
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(what))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return got


def test_garbage():
    """Refused, or closed since nothing more can come: nobody waits for the hour that a request may take."""
    datas = (b"\x00\xff\xfe" * 50, b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
             b"GET / HT", head("Content-Length: 900\r\n", "{"), head("Transfer-Encoding: chunked\r\n", "5\r\n{"), b"POST " + PATH.encode() + b" HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A" * 40000 + b"\r\n\r\n")
    for data, line in zip(datas, at_once(datas, lambda d: first_line(d, half_close=True))):
        assert line == "" or line.split()[1] in ("400", "408", "414", "431", "505"), (data[:20], line)
    alive()


def test_framing():
    body = json.dumps({"messages": SUM})
    n = len(body)
    for extra in (f"Content-Length: {n}\r\nContent-Length: {n}\r\n", f"Content-Length: {n}\r\nContent-Length: 3\r\n",
                  f"Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n", f"Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n",
                  "Transfer-Encoding: gzip, chunked\r\n", "Content-Length: -1\r\n", "Content-Length: 1e3\r\n",
                  f"Content-Length: {n}, {n}\r\n", f"Content-Length: +{n}\r\n", "Content-Length: 99999999999999999999999\r\n"):
        line = first_line(head(extra, body))
        assert line.split()[1:2] in (["400"], ["413"]), (extra, line)
    assert first_line(head("Host: other\r\nContent-Length: 0\r\n")).split()[1] == "400"
    alive()
    chunks = "".join(f"{len(p):x}\r\n{p}\r\n" for p in (body[:5], body[5:9], body[9:])) + "0\r\n\r\n"
    assert first_line(head("Transfer-Encoding: chunked\r\nConnection: close\r\n", chunks)).split()[1] == "200"


def chunked(s, path, body):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=PATIENCE)
    c.request("POST", path, body, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    r = c.getresponse()
    got = r.status, json.loads(r.read()), r.headers
    c.close()
    return got


def test_bodies():
    for body, word in ((b"", "empty"), (b"{", "no JSON"), (b"[]", "a list"), (b"null", "null"), (b'"x"', "text"),
                       (b'{"messages": "\xff\xfe"}', "no JSON"), (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "64 levels"),
                       (b"{}" * 3, "no JSON"), (b'{"a": 1, "a"', "no JSON"), (b"[" * 90000, "64 levels")):
        status, reply = server.post(PATH, body)
        assert status == 400 and word in reply["error"]["message"], (body[:20], status, reply)
    status, reply = server.post(PATH, json.dumps({"messages": SUM, "x": "y" * 110000}))
    assert status == 413 and "102400" in reply["error"]["message"], reply
    big = "1000\r\n" + "x" * 4096 + "\r\n"
    assert first_line(head("Transfer-Encoding: chunked\r\nConnection: close\r\n", big * 30 + "0\r\n\r\n")).split()[1] == "413"
    alive()


def test_refused_bodies():
    """Who sends a body that is refused is told why when he has sent it; who asks before, at once; who never ends, is left."""
    def chunks(n):
        return (b"x" * 65536 for _ in range(n >> 16))
    with Server(quern, MODEL, "--max-body", "4M") as s:
        for path, body, status in ((PATH, b"x" * (30 << 20), 413), (PATH, chunks(30 << 20), 413), ("/nothing", chunks(30 << 20), 404)):
            got, reply, _ = s.request("POST", path, body) if isinstance(body, bytes) else chunked(s, path, body)
            assert got == status and reply["error"]["message"], (got, reply)
        reply = s.raw(head(f"Expect: 100-continue\r\nContent-Length: {30 << 20}\r\n"))
        assert reply.startswith(b"HTTP/1.1 413 "), reply
        c, sent = socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE), 0
        c.sendall(head("Transfer-Encoding: chunked\r\n"))
        try:
            for chunk in chunks(1 << 30):
                c.sendall(b"10000\r\n" + chunk + b"\r\n")
                sent += len(chunk)
        except OSError:
            pass
        assert 30 << 20 < sent < 1 << 30, sent
        c.close()
        assert until(lambda: s.metrics()["quern_http_requests"] == 1) and s.metrics()["quern_http_body_bytes"] == 0


def test_values():
    """What the values of a body take is bounded."""
    with Server(quern, MODEL, "--max-body", "1M") as s:
        for value in "{}", "[]", "0,0":
            status, reply = s.post(PATH, '{"messages": [' + ",".join([value] * 160000) + "]}")
            assert status == 413 and "values" in reply["error"]["message"], reply


def held(s, n, length):
    """Clients that have sent half of a request each, and wait."""
    clients = [socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) for _ in range(n)]
    for c in clients:
        c.sendall(head(f"Content-Length: {length}\r\n", "{" + " " * (length // 2)))
    return clients


def test_sum_of_bodies():
    """What is over the sum of all bodies is told so, also who waits for that with half of his body unsent; the others
    wait on, and go when the server stops: nobody waits for the hour that a request may take."""
    n, most = 1 << 20, 64  # the sum is 8 times the largest body, or 64 MiB
    s = Server(quern, MODEL, "--max-body", str(n), "--request-timeout", "3600", "--grace", "3600")
    try:
        full = held(s, most, n)
        assert until(lambda: s.metrics()["quern_http_body_bytes"] == most * n)
        drip = socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE)
        drip.sendall(head("Transfer-Encoding: chunked\r\n", "5\r\n{"))  # of an unknown length: nothing is announced
        for c in held(s, 3, n) + [drip]:
            reply = b"".join(iter(lambda: c.recv(4096), b""))
            assert reply.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in reply and b"too many large requests" in reply, reply
        assert s.get("/health")[0] == 200
        status, reply = s.post(PATH, {"messages": SUM})
        assert status == 503 and "too many large requests" in reply["error"]["message"], reply
        full.pop().close()
        assert until(lambda: s.post(PATH, {"messages": SUM, "max_tokens": 1})[0] == 200)
    finally:
        status = s.stop()
    assert status == 0, status


def test_paths():
    assert server.get("/nothing")[0] == 404
    for method, path, allow in (("PUT", "/health", "GET, HEAD"), ("GET", PATH, "POST"), ("PUT", "/v1/responses/x", "GET, HEAD, POST, DELETE")):
        status, _, headers = server.request(method, path)
        assert status == 405 and headers["Allow"] == allow, (path, status, dict(headers))
    assert server.request("HEAD", "/health")[:2] == (200, b"")
    assert server.get("/v1/models/chat")[1]["id"] == "chat"
    assert server.get("/v1/models/other")[0] == 404 and server.get("/v1/models/other")[1]["error"]["code"] == "model_not_found"
    for path in "/v1/models/other", "/v1/nothing":
        status, reply = server.get(path, **{"anthropic-version": "2023-06-01"})
        assert status == 404 and reply["type"] == "error" and reply["error"]["type"] == "not_found_error", reply
    for path in ("/../etc/passwd", "/v1/models/%2e%2e/x", "/" + "a" * 3000, "/%00", "/v1/models/%ff"):
        assert server.get(path)[0] in (400, 404), path
    alive()


def test_hosts():
    for host, status in (("localhost", 200), (f"127.0.0.1:{server.port}", 200), ("[::1]:80", 200), ("LOCALHOST.:1", 200),
                         ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example", 403), ("", 400)):
        assert server.get("/health", Host=host)[0] == status, host
    for origin, status in (("http://localhost:3000", 200), (f"http://127.0.0.1:{server.port}", 200), ("https://evil.example", 403),
                           ("null", 403), ("http://localhost.evil.example", 403), ("file://", 403)):
        got, _, headers = server.request("GET", "/health", headers={"Origin": origin})
        assert got == status, (origin, got)
        assert headers["Access-Control-Allow-Origin"] == (origin if status == 200 else None)
    asks = {"Origin": "http://localhost", "Access-Control-Request-Method": "POST"}
    status, _, headers = server.request("OPTIONS", PATH, headers=asks)
    assert status == 204 and "POST" in headers["Access-Control-Allow-Methods"], (status, dict(headers))
    wanted = "authorization,Content-Type, x-api-key,anthropic-version, x-stainless-os, x-other, x-stainless-,x-conversation"
    status, _, headers = server.request("OPTIONS", "/v1/messages", headers={**asks, "Access-Control-Request-Headers": wanted})
    assert status == 204 and headers["Access-Control-Allow-Headers"] == (
        "authorization, Content-Type, x-api-key, anthropic-version, x-stainless-os, x-conversation"), dict(headers)
    headers = server.request("GET", "/nothing", headers={"Origin": "http://localhost"})[2]
    assert "X-Quern-Ignored" in headers["Access-Control-Expose-Headers"] and "Retry-After" in headers["Access-Control-Expose-Headers"]
    assert server.request("GET", "/nothing")[2]["Access-Control-Expose-Headers"] is None


def test_keys():
    with open("keys.txt", "w") as f:
        f.write("# keys\n\nsecond key\n")
    with Server(quern, MODEL, "--api-key", "first", "--api-key-file", "keys.txt", "--cors-origins", "https://page.example",
                "--allow-host", "model.example") as s:
        body = {"messages": SUM, "max_tokens": 1}
        for headers, status in (({}, 401), ({"Authorization": "Bearer firs"}, 401), ({"Authorization": "Bearer first2"}, 401),
                                ({"Authorization": "first"}, 401), ({"Authorization": "Bearer first"}, 200),
                                ({"Authorization": "bearer second key"}, 200), ({"x-api-key": "first"}, 200), ({"x-api-key": ""}, 401)):
            got, reply = s.post(PATH, body, **headers)
            assert got == status, (headers, got, reply)
            if status == 401:
                assert reply["error"]["code"] == "invalid_api_key" and "first" not in reply["error"]["message"]
        assert s.get("/health")[0] == 200 and s.get("/v1/models")[0] == 401
        assert s.get("/health", Host="model.example")[0] == 200 and s.get("/health", Host="x.example")[0] == 403
        assert s.get("/health", Origin="https://page.example")[0] == 200
        assert s.get("/health", Origin="https://other.example")[0] == 403
        # one key's cache is not told to another
        talk = {"messages": SUM, "max_tokens": 1, "temperature": 0}
        used = [s.post(PATH, talk, Authorization="Bearer " + k)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
                for k in ("second key", "second key", "first")]
        assert used[1] == 16 and used[2] in (0, 16), used  # 16: of the request at the top


def connect(body, path=PATH, port=None):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what nobody reads is soon at the server again
    s.settimeout(PATIENCE)
    s.connect(("127.0.0.1", port or server.port))
    data = json.dumps(body)
    s.sendall(head(f"Content-Length: {len(data)}\r\n", data, path=path))
    return s


def streams():
    """How many are under way, those that wait included."""
    return len(server.get("/slots")[1])


def left():
    """Requests whose clients did not wait for the end."""
    return server.said().count("the client left")


def test_leaving():
    """Streaming or not, queued or not: who leaves is gone, and what he held with him. The answers would go on for long."""
    n = left()

    def quiet():
        return until(lambda: left() == n and streams() == 0)
    for how in ("close", "reset", "half", "before the first token"):
        for stream in (True, False):
            s = connect({**LONG, "stream": stream, "n": 2})
            n += 1
            if how != "before the first token":
                assert until(lambda: streams() > 0), "nothing began"
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            if how == "half":
                s.shutdown(socket.SHUT_WR)
                assert quiet(), how
            s.close()
            assert quiet(), (how, stream)
    queued = [connect({**LONG, "stream": i % 2 == 0}) for i in range(4)]
    n += 4
    for s in queued:
        s.close()
    assert quiet()
    alive()


def test_queue_full():
    held, lines = [], []
    for i in range(3):  # two are written, two wait
        s = connect({**LONG, "stream": True, "n": 2})
        held.append(s)
        lines.append(s.recv(4000))
    for s in held:
        s.close()
    assert [line.split()[1] for line in lines] == [b"200", b"200", b"429"], lines
    assert b"Retry-After" in lines[2] and b"queue is full" in lines[2], lines[2]
    assert until(lambda: streams() == 0)
    alive()


def test_slow_reader():
    """Who doesn't read is waited for, and holds up nobody else, although all streams are his; after --timeout he is not."""
    much = {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20, "n": 7}
    name = "--alias", "m" * 4000  # which each event has in it
    with Server(quern, MODEL, "--parallel", "7", *name, *ENDLESS) as patient, Server(quern, MODEL, "--timeout", "1", *name, *ENDLESS) as strict:
        s, ended = connect(much, port=patient.port), connect(much, port=strict.port)
        assert until(lambda: [x["state"] for x in patient.get("/slots")[1]] == ["paused"] * 7)
        assert patient.good(PATH, {"messages": SUM, "temperature": 0})["choices"][0]["message"]["content"] == "2 + 3 = 5"
        assert patient.metrics()["quern_n_set_backs_total"] > 0
        s.close()
        assert until(lambda: patient.get("/slots")[1] == [])
        assert until(lambda: "the client left" in strict.said() and strict.get("/slots")[1] == [])
        ended.close()


def test_unread_reply():
    """Who doesn't read a reply that is whole is left, too."""
    with Server(quern, MODEL, "--timeout", "1") as s:
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.settimeout(PATIENCE)
        c.connect(("127.0.0.1", s.port))
        body = json.dumps({"content": "one two three " * 15000, "with_pieces": True})
        c.sendall(head(f"Content-Length: {len(body)}\r\n", body, path="/tokenize"))
        assert until(lambda: "the client left" in s.said()), s.said()
        assert s.metrics()["quern_http_requests"] == 1
        c.close()


def drip(port, begin, more):
    """What comes back for a request of which a byte comes now and then; None: it is waited for without an end."""
    c = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    got = b""
    try:
        c.sendall(begin)
        c.settimeout(0.2)
        for _ in range(5 * PATIENCE):
            try:
                piece = c.recv(1000)
                got += piece
                if not piece:
                    return got
            except TimeoutError:
                c.sendall(more)
    except OSError:
        return got
    finally:
        c.close()


def is_healthy(s):
    try:
        return s.get("/health")[0] == 200
    except OSError:  # a second is short where a client gets little of the processor
        return False


def test_drips():
    """A request that doesn't come is not waited for."""
    begins = ((b"", b"\n"), (b"POST " + PATH.encode(), b"x"), (head("Content-Length: 1000\r\n", '{"messages"'), b"x"),
              (head("Transfer-Encoding: chunked\r\n", "5\r\n{"), b"x"))
    with Server(quern, MODEL, "--request-timeout", "1") as s:
        got = at_once(begins, lambda b: drip(s.port, *b))
        for text in got:
            assert text is not None and (not text or b" 408 " in text or b" 400 " in text), got

        assert until(lambda: is_healthy(s))


def test_keep_alive():
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    for _ in range(3):
        c.request("POST", PATH, json.dumps({"messages": SUM, "max_tokens": 2}))
        r = c.getresponse()
        assert r.status == 200 and json.loads(r.read())["usage"]["completion_tokens"] == 2
    c.close()


def test_no_memory():
    """Every allocation fails for a while (soak/fail_alloc.c, which a program that is linked with a sanitizer does not see): who comes then
    is let go at once, and not forgotten until he leaves."""
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fail.so", source + "/tests/soak/fail_alloc.c"], check=True)
    failing = os.path.abspath("failing")
    env = {**os.environ, "LD_PRELOAD": os.path.abspath("fail.so"), "FAIL_EVERY": "1", "FAIL_WHILE": failing}
    with Server(quern, MODEL, "--request-timeout", "5", env=env) as s:
        open(failing, "w").close()
        try:
            for data in b"", b"GET /hea", head("Content-Length: 5\r\n"):
                assert s.raw(data)[:12] in (b"", b"HTTP/1.1 503", b"HTTP/1.1 408"), data
        finally:
            os.remove(failing)
        assert until(lambda: is_healthy(s) and s.metrics()["quern_http_requests"] == 1)


def test_stopping():
    """Streams end in their own form, and the program at once."""
    s = Server(quern, MODEL, "--grace", "0", *ENDLESS)
    got = []

    def read():
        try:
            got.extend(e for _, e in s.stream(PATH, {**LONG, "stream": True, "n": 8}))
        except Exception as e:
            got.append(e)
    t = threading.Thread(target=read)
    t.start()
    assert until(lambda: got) and s.stop() == 0
    t.join()
    assert "stopping" in got[-1]["error"]["message"], got[-1]


def test_late_body():
    """A body that ends when nobody is left to read it: its sender is told, and the program waits for nothing else."""
    s = Server(quern, MODEL, "--grace", "0")
    reader = socket.socket()  # of a reply that keeps the server for a while: nobody takes it
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", s.port))
    body = json.dumps({"content": "one two three " * 15000, "with_pieces": True})
    reader.sendall(head(f"Content-Length: {len(body)}\r\n", body, path="/tokenize"))
    assert reader.recv(1)
    body = json.dumps({"messages": SUM})
    late = socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE)
    late.sendall(head(f"Content-Length: {len(body)}\r\n", body[:9]))
    assert until(lambda: s.metrics()["quern_http_requests"] >= 2)
    s.process.send_signal(15)
    time.sleep(0.3)  # it may be answered still, or be told that it is late
    late.sendall(body[9:].encode())
    assert late.recv(12) in (b"HTTP/1.1 503", b"HTTP/1.1 200")
    reader.close()
    late.close()
    assert s.process.wait(PATIENCE) == 0, s.said()


def test_grace():
    """Who is being answered when it stops gets the rest; who comes then is told."""
    s = Server(quern, MODEL, "--grace", "3600")
    got = []
    t = threading.Thread(target=lambda: got.extend(e for _, e in s.stream(PATH, {**LONG, "stream": True, "n": 3, "max_tokens": 200})))
    t.start()
    assert until(lambda: got)
    s.process.send_signal(15)
    assert until(lambda: "stops" in s.said())
    late = None
    try:
        late = s.post(PATH, {"messages": SUM})[0]
    except OSError:
        pass  # it had ended already
    assert s.process.wait(PATIENCE) == 0 and late in (None, 503), late
    t.join()
    assert got[-1] == "[DONE]" and sum(c["finish_reason"] is not None for e in got[:-1] for c in e["choices"]) == 3


def test_log():
    """A line a request, without a word of what was said."""
    with Server(quern, MODEL, "--api-key", "secret", "--api-key", "other") as s:
        body = {"messages": [{"role": "user", "content": "Xylophone?"}], "max_tokens": 3}
        for key, status in (("other", 200), ("wrong", 401)):
            assert s.post(PATH, body, Authorization="Bearer " + key)[0] == status
        assert until(lambda: s.said().count(PATH) == 2), s.said()
        answered, refused = sorted((line for line in s.said().splitlines() if PATH in line), key=lambda line: "401" in line)
        for word in "POST", "200", "key 1", "3 written", "length":
            assert word in answered, (word, answered)
        assert "401" in refused
        for word in "Xylophone", "secret", "other", "wrong":
            assert word not in s.said(), word
    with Server(quern, MODEL, "--log-disable") as s:
        assert s.post(PATH, {"messages": SUM, "max_tokens": 1})[0] == 200 and PATH not in s.said()


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
