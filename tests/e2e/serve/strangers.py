# SPDX-License-Identifier: MIT
"""What strangers do: garbage, halves, two lengths, too much, too deep, from elsewhere, without a key; and who leaves."""
import json, socket, sys, threading, time
from lib import Server, run, until

quern, source = sys.argv[1:3]
PATH = "/v1/chat/completions"
MODEL = source + "/models/chat.gguf"
server = Server(quern, MODEL, "--max-body", "100K", "--parallel", "2", "--queue", "2")
SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
LONG = {"messages": SUM, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 3,
        "logit_bias": {str(i): -100 for i in range(9)}}  # no mark that ends it: goes on until the context is full


def alive():
    assert server.get("/health") == (200, {"status": "ok"})
    assert server.good(PATH, {"messages": SUM, "temperature": 0})["choices"][0]["message"]["content"] == "2 + 3 = 5"


def head(extra="", body="", method="POST", path=PATH, host="localhost"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n{body}".encode()


def first_line(data, **how):
    return server.raw(data, **how).split(b"\r\n")[0].decode()


def test_garbage():
    datas = (b"\x00\xff\xfe" * 50, b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
             b"GET / HT", b"POST " + PATH.encode() + b" HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A" * 40000 + b"\r\n\r\n")
    got = {}

    def one(data):
        begin = time.monotonic()
        got[data] = first_line(data, half_close=True), time.monotonic() - begin
    threads = [threading.Thread(target=one, args=(d,)) for d in datas]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for data in datas:
        line, seconds = got[data]
        assert seconds < 4 and (line == "" or line.split()[1] in ("400", "408", "414", "431", "505")), (data[:20], line, seconds)
    alive()


def test_framing():
    body = json.dumps({"messages": SUM})
    n = len(body)
    for extra in (f"Content-Length: {n}\r\nContent-Length: {n}\r\n", f"Content-Length: {n}\r\nContent-Length: 3\r\n",
                  f"Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n", f"Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n",
                  "Transfer-Encoding: gzip, chunked\r\n", "Content-Length: -1\r\n", "Content-Length: 1e3\r\n",
                  f"Content-Length: {n}, {n}\r\n", f"Content-Length: +{n}\r\n", "Content-Length: 99999999999999999999999\r\n"):
        line = first_line(head(extra, body), wait=2.0)
        assert line.split()[1:2] in (["400"], ["413"]), (extra, line)
    assert first_line(head("Host: other\r\nContent-Length: 0\r\n")).split()[1] == "400"
    alive()
    chunks = "".join(f"{len(p):x}\r\n{p}\r\n" for p in (body[:5], body[5:9], body[9:])) + "0\r\n\r\n"
    assert first_line(head("Transfer-Encoding: chunked\r\nConnection: close\r\n", chunks)).split()[1] == "200"


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


def test_paths():
    assert server.get("/nothing")[0] == 404
    assert server.request("PUT", "/health")[0] == 405
    assert server.get(PATH)[0] == 405
    assert server.request("HEAD", "/health")[:2] == (200, b"")
    assert server.get("/v1/models/chat")[1]["id"] == "chat"
    assert server.get("/v1/models/other")[0] == 404
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
    status, _, headers = server.request("OPTIONS", PATH, headers={"Origin": "http://localhost", "Access-Control-Request-Method": "POST"})
    assert status == 204 and "POST" in headers["Access-Control-Allow-Methods"], (status, dict(headers))


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


def connect(body, path=PATH):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    data = json.dumps(body)
    s.sendall(head(f"Content-Length: {len(data)}\r\n", data, path=path))
    return s


def streams():
    """How many are under way, those that wait included."""
    return len(server.get("/slots")[1])


def test_leaving():
    """Streaming or not, queued or not: who leaves is gone, and what he held with him."""
    def quiet():
        return until(lambda: streams() == 0)
    for how in ("close", "reset", "half", "before the first token"):
        for stream in (True, False):
            s = connect({**LONG, "stream": stream, "n": 2, "max_tokens": 400})
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
    for s in queued:
        s.close()
    assert quiet()
    alive()


def test_queue_full():
    held, refused = [], None
    for i in range(40):
        s = connect({**LONG, "stream": True, "n": 2})
        held.append(s)
        line = s.recv(4000)
        if line.startswith(b"HTTP/1.1 429"):
            refused = line
            break
    for s in held:
        s.close()
    assert refused and b"Retry-After" in refused and b"queue is full" in refused, refused
    assert until(lambda: streams() == 0)
    alive()


def test_slow_reader():
    """Who doesn't read holds up nobody else."""
    s = connect({**LONG, "stream": True, "n": 2, "logprobs": True, "top_logprobs": 20})
    alive()
    s.close()


def drip(port, begin, more):
    """What comes back, and after how long, for a request of which a byte comes now and then."""
    c = socket.create_connection(("127.0.0.1", port), timeout=10)
    c.sendall(begin)
    c.settimeout(0.2)
    start, got = time.monotonic(), b""
    while time.monotonic() - start < 8:
        try:
            piece = c.recv(1000)
            got += piece
            if not piece:
                break
        except socket.timeout:
            try:
                c.sendall(more)
            except OSError:
                break
        except OSError:
            break
    c.close()
    return got, time.monotonic() - start


def test_drips():
    """A request that doesn't come is not waited for."""
    begins = ((b"", b"\n"), (b"POST " + PATH.encode(), b"x"), (head("Content-Length: 1000\r\n", '{"messages"'), b"x"),
              (head("Transfer-Encoding: chunked\r\n", "5\r\n{"), b"x"))
    with Server(quern, MODEL, "--request-timeout", "1") as s:
        got = [None] * len(begins)

        def one(i):
            got[i] = drip(s.port, *begins[i])
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(begins))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for text, seconds in got:
            assert seconds < 6 and (not text or b" 408 " in text or b" 400 " in text), got
        assert s.get("/health")[0] == 200


def test_keep_alive():
    import http.client
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for _ in range(3):
        c.request("POST", PATH, json.dumps({"messages": SUM, "max_tokens": 2}))
        r = c.getresponse()
        assert r.status == 200 and json.loads(r.read())["usage"]["completion_tokens"] == 2
    c.close()


def test_stopping():
    """Streams end in their own form, and the program at once."""
    s = Server(quern, MODEL, "--grace", "0")
    got = []

    def read():
        try:
            got.extend(e for _, e in s.stream(PATH, {**LONG, "stream": True, "n": 8}))
        except Exception as e:
            got.append(e)
    t = threading.Thread(target=read)
    t.start()
    until(lambda: got)
    begin = time.monotonic()
    assert s.stop() == 0 and time.monotonic() - begin < 20
    t.join()
    last = got[-1]
    assert last == "[DONE]" or "stopping" in last["error"]["message"], last


def test_grace():
    """Who is being answered when it stops gets the rest; who comes then is told."""
    s = Server(quern, MODEL)
    got = []
    t = threading.Thread(target=lambda: got.extend(e for _, e in s.stream(PATH, {**LONG, "stream": True, "n": 3, "max_tokens": 200})))
    t.start()
    assert until(lambda: got)
    s.process.send_signal(15)
    until(lambda: "stops" in s.said())
    late = None
    try:
        late = s.post(PATH, {"messages": SUM})[0]
    except OSError:
        pass  # it had ended already
    assert s.process.wait(60) == 0 and late in (None, 503), late
    t.join()
    assert got[-1] == "[DONE]" and sum(c["finish_reason"] is not None for e in got[:-1] for c in e["choices"]) == 3


def test_log():
    """A line a request, without a word of what was said."""
    with Server(quern, MODEL, "--api-key", "secret", "--api-key", "other") as s:
        body = {"messages": [{"role": "user", "content": "Xylophone?"}], "max_tokens": 3}
        for key, status in (("other", 200), ("wrong", 401)):
            assert s.post(PATH, body, Authorization="Bearer " + key)[0] == status
        assert until(lambda: s.said().count(PATH) == 2), s.said()
        answered, refused = [line for line in s.said().splitlines() if PATH in line]
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
