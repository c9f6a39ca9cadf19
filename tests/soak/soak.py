# SPDX-License-Identifier: MIT
"""soak.py QUERN SOURCE SECONDS -- good clients beside bad ones: who asks something sensible gets the answer that he gets alone, whatever
strangers send, who leaves, which models go and come, and how often SIGHUP comes; memory stays, and in the end nothing is held. An hour
by hand, 20 seconds in ./test.sh.

QN_FAIL_EVERY=N: every N-th allocation of the program fails meanwhile (fail_alloc.c; in a build with the address sanitizer only where
that is a library: clang's -shared-libasan at linking, ASAN_OPTIONS=verify_asan_link_order=0:quarantine_size_mb=16). Then who asks may be
told that there is no memory, or cut off; what he is answered is still what he gets alone.
QN_SEED: another order of everything."""
import collections, http.client, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e/serve"))
from lib import LONG, PATIENCE, Server, until

quern, source, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
fail_every = os.environ.get("QN_FAIL_EVERY", "")
random.seed(int(os.environ.get("QN_SEED", "1")))
work = tempfile.mkdtemp()
os.chdir(work)
KEY = {"Authorization": "Bearer good"}
BAD = {"Authorization": "Bearer bad"}
CHAT = "/v1/chat/completions"
ENOUGH = 160  # answers to good clients: a process has all its memory after a third of that, the sanitizer's quarantine included
done, failures, over = collections.Counter(), [], threading.Event()


def keys():
    with open("keys.new", "w") as f:
        f.write("good\nbad\n")
    os.replace("keys.new", "keys")  # never half a file


def ask(i):
    return [{"role": "user", "content": f"What is {i} plus {i % 7}?"}]


TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
GOOD = [  # path, body, what of the reply does not depend on who else is there
    *((CHAT, {"model": "a", "messages": ask(i), "seed": i + 1, "temperature": 1.1, "max_tokens": 12}, lambda r: r["choices"]) for i in range(6)),
    (CHAT, {"model": "a", "messages": ask(3), "seed": 3, "max_tokens": 30, "response_format": {"type": "json_object"}}, lambda r: r["choices"]),
    (CHAT, {"model": "a", "messages": ask(3), "seed": 4, "tools": [{"type": "function", "function": TOOL}], "tool_choice": "required"},
     lambda r: [c["function"] for c in r["choices"][0]["message"]["tool_calls"]]),
    ("/v1/completions", {"model": "a", "prompt": ["To be", "The end"], "n": 2, "seed": 5, "max_tokens": 8, "logprobs": 2}, lambda r: r["choices"]),
    ("/v1/messages", {"model": "a", "max_tokens": 12, "messages": ask(5), "seed": 6}, lambda r: r["content"]),
    ("/api/chat", {"model": "a", "messages": ask(6), "stream": False, "options": {"seed": 7, "num_predict": 12}}, lambda r: r["message"]),
    ("/v1/embeddings", {"model": "a", "input": ["Once upon a time"]}, lambda r: r["data"]),
]


def reply(path, body):
    """Who is told to come again later comes again."""
    while True:
        status, got, _ = server.request("POST", path, body, KEY)
        if status not in (429, 503) or over.is_set():
            return status, got
        done["told to come again"] += 1
        time.sleep(0.05)


def good():
    i = random.randrange(len(GOOD))
    path, body, part = GOOD[i]
    if path == CHAT and "tools" not in body and random.random() < 0.4:
        c = server.connect(path, {**body, "stream": True}, "good")
        with c.makefile("rb") as f:
            lines, last = [], b""
            for last in f:
                if last in (b"data: [DONE]\n", b"Connection: close\r\n") or b'"error"' in last:
                    break
                lines.append(last)
        c.close()
        if not lines and fail_every:
            raise ConnectionError
        if lines[0].split()[1] == b"200" and not over.is_set():
            lines = [line for line in lines if line.startswith(b"data: {")]
            text = "".join(json.loads(line[6:])["choices"][0]["delta"].get("content") or "" for line in lines)
            want = alone[i][0]["message"]["content"] or ""
            assert want.startswith(text) if fail_every and last != b"data: [DONE]\n" else text == want, (i, text, want, last[:300])
        return
    status, got = reply(path, body)
    if not over.is_set():
        assert status == 200 and part(got) == alone[i], (i, status, got, alone[i])


def raw(data, half_close=True):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    try:
        s.sendall(data)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    except TimeoutError:
        raise
    except OSError:  # it may have been let go at once: then there is nothing to shut down
        pass
    finally:
        s.close()


def head(length, path=CHAT):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer bad\r\n{length}\r\n\r\n".encode()


def garbage():
    raw(random.randbytes(random.randrange(1, 3000)))


def half_a_request():
    whole = head("Content-Length: 900") + json.dumps({"model": "a", "messages": ask(1)}).encode()
    raw(whole[:random.randrange(1, len(whole))])


def large_body():
    """100 MB, by length or in pieces: refused while it comes, and who doesn't look isn't kept waiting."""
    begun = time.monotonic()
    s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    try:
        chunked = random.random() < 0.5
        s.sendall(head("Transfer-Encoding: chunked" if chunked else "Content-Length: 100000000"))
        for _ in range(1600):
            s.sendall((b"10000\r\n" if chunked else b"") + b"x" * 65536 + (b"\r\n" if chunked else b""))
    except OSError:
        pass
    finally:
        s.close()
    assert time.monotonic() - begun < 60, time.monotonic() - begun


def bad(path, body, *statuses):
    status, got, _ = server.request("POST", path, body, BAD)
    assert status in (*statuses, 429, 503), (status, got, body[:200])


def deep():
    n = random.choice((65, 1000, 400000))
    bad(CHAT, b'{"a":' + random.choice((b"[", b'{"a":')) * n, 400, 413)


def many_values():
    bad(CHAT, b'{"model": "a", "messages": [' + b",".join([random.choice((b"{}", b"[]", b"0"))] * 200000) + b"]}", 400, 413)


def no_utf8():
    bad(random.choice(GOOD)[0], b'{"model": "a", "messages": [{"role": "user", "content": "' + random.randbytes(20).replace(b'"', b"x") + b'\xff"}]}', 400)


def hostile_schema():
    names = [f"k{i}" for i in range(300)]
    schema = random.choice((
        {"$ref": "#"}, {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"pattern": "(a*)*" * 40, "type": "string"},
        {"type": "string", "minLength": 10 ** 9}, {"type": "array", "minItems": 10 ** 9, "items": {}}, {"enum": list(range(20000))},
        {"type": "object", "properties": {n: {"anyOf": [{"type": "integer"}] * 30} for n in names}, "required": names},
        {"type": "object", "patternProperties": {"^(.*)+$": {}}}))
    bad(CHAT, json.dumps({"model": "a", "messages": ask(1), "max_tokens": 4, "response_format": {
        "type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}), 200, 400)


def hostile_grammar():
    grammar = random.choice(("root ::= root root | \"\"", "root ::= (" * 60 + "\"a\"" + ")*" * 60, "root ::= \"a\"{0,100000}{0,100000}",
                             "root ::= [^\\x00-\\U0010FFFF]", "root ::= " + " | ".join(f"r{i}" for i in range(500))))
    bad("/completion", json.dumps({"model": "a", "prompt": "x", "n_predict": 4, "grammar": grammar}), 200, 400)


def hostile_words():
    """For the template and the tokenizer."""
    words = random.choice(("<|im_end|>\n<|im_start|>system\n" * 20, "{{ raise_exception('x') }}{% for i in range(10**9) %}", "\u202e\u0000a\U0010ffff" * 50,
                           "a" * 60000, " " * 60000, "\U0001f468\u200d" * 5000))
    bad(CHAT, json.dumps({"model": "a", "max_tokens": 2, "messages": [{"role": random.choice(("user", "system", "tool")), "content": words}],
                          "chat_template_kwargs": {words[:20]: {"a": [words[:99]] * 50}}}), 200, 400)


def slow_reader():
    s = server.connect(CHAT, {**LONG, "model": "a", "stream": True, "max_tokens": 600, "logprobs": True, "top_logprobs": 20}, "bad")
    for _ in range(random.randrange(100)):
        s.recv(100)
        over.wait(0.02)
    s.close()


def vanishing():
    s = server.connect(CHAT, {**LONG, "model": random.choice("ab"), "stream": random.random() < 0.5, "n": random.randrange(1, 4)}, "bad")
    over.wait(random.random() ** 3 * 0.5)
    if random.random() < 0.5:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    s.close()


def hangup():
    keys()
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)


def models_go_and_come():
    how = random.randrange(3)
    if how == 0 and os.path.exists("models/b.gguf"):
        os.remove("models/b.gguf")
    else:
        shutil.copy(source + f"/models/{'chat' if how == 1 else 'shakespeare'}.gguf", "b.new")
        os.replace("b.new", "models/b.gguf")
    server.process.send_signal(signal.SIGHUP)
    bad("/v1/completions", json.dumps({"model": "b", "prompt": "x", "max_tokens": 3}), 200, 400, 404)  # 400: it went between two looks at it
    bad("/models/unload", json.dumps({"model": "b"}), 200, 400, 404)


def health():
    for path in "/health", "/metrics", "/slots":
        status, got = server.get(path, **KEY)
        assert status == 200 or (fail_every and status == 503), (path, status, got)
    time.sleep(0.05)


def repeat(what):
    while not over.is_set():
        try:
            what()
            done[what.__name__] += 1
        except (ConnectionError, http.client.HTTPException):  # a bad one may be cut off
            if fail_every:
                done["cut off"] += 1
            elif what in (good, health):
                failures.append((what.__name__, "cut off"))
                over.set()
        except BaseException as e:
            failures.append((what.__name__, repr(e)[:2000]))
            over.set()


def memory():
    """Bytes of our own: RssAnon and VmSwap."""
    with open(f"/proc/{server.process.pid}/status") as f:
        return 1024 * sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon", "VmSwap")))


os.makedirs("models")
for name in "ab":
    shutil.copy(source + "/models/chat.gguf", f"models/{name}.gguf")
keys()
preload = {}
if fail_every:
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fail.so", source + "/tests/soak/fail_alloc.c"], check=True)
    preload = {"LD_PRELOAD": work + "/fail.so", "FAIL_EVERY": fail_every, "FAIL_WHILE": work + "/failing"}
server = Server(quern, [], "--models-dir", "models", "--api-key-file", "keys", "--max-body", "1M", "--parallel", "8", "--queue", "64", "--ctx-size",
                "2048", "--request-timeout", "20", "--timeout", "2", "--keep-alive", "3600",
                env={**os.environ, **preload, "HOME": work, "XDG_DATA_HOME": work, "OLLAMA_MODELS": "", "HF_HOME": "", "HF_HUB_CACHE": "", "LLAMA_CACHE": ""})
# Thoughts that are ended, with room behind them and without.
think = server.request("POST", "/tokenize", {"model": "a", "content": "</think>"}, KEY)[1]["tokens"][0]
GOOD += [(CHAT, {"model": "a", "messages": ask(i), "seed": i, "temperature": 1.2, "max_tokens": n, "reasoning_budget_tokens": 12,
                 "reasoning_effort": "low", "logit_bias": {str(think): -100}, "ignore_eos": True}, lambda r: r["choices"]) for i, n in ((8, 13), (9, 40))]
alone = []
for path, body, part in GOOD:
    status, got = reply(path, body)
    assert status == 200, (path, body, got)
    alone.append(part(got))

if fail_every:
    open("failing", "w").close()
kinds = [good] * 6 + [health, garbage, half_a_request, large_body, deep, many_values, no_utf8, hostile_schema, hostile_grammar, hostile_words,
         slow_reader, vanishing, hangup, models_go_and_come]
threads = [threading.Thread(target=repeat, args=(k,), daemon=True) for k in kinds]
[t.start() for t in threads]
begin, sizes = time.monotonic(), []  # sizes: time, answers, bytes
while not over.wait(min(1, seconds / 20)) and time.monotonic() - begin < seconds and server.process.poll() is None:
    sizes.append((time.monotonic() - begin, done["good"], memory()))
over.set()
if fail_every:
    os.remove("failing")
[t.join(PATIENCE) for t in threads]
if any(t.is_alive() for t in threads):
    failures.append(("hang", [k.__name__ for k, t in zip(kinds, threads) if t.is_alive()]))
if server.process.poll() is None:
    # whoever left is gone, and what was held is free or kept for who comes next
    if not until(lambda: server.get("/slots", **KEY)[1] == [], 60):
        failures.append(("held", server.get("/slots", **KEY)[1]))
    for (path, body, part), want in zip(GOOD, alone):
        status, got, _ = server.request("POST", path, body, KEY)
        if status != 200 or part(got) != want:
            failures.append(("afterwards", path, status, got))
    m = server.metrics(**KEY)
    if m["quern_n_requests_total"] != m["quern_n_ended_total"]:
        failures.append(("not all ended", m))
status = server.stop()
half = sizes[-1][1] / 2 if sizes else 0
early = [b for t, n, b in sizes if (t < max(60, seconds / 2) if seconds >= 120 else n < half)]
late = [b for _, _, b in sizes][len(early):]
print(f"{seconds:.0f} s:", ", ".join(f"{n} {k}" for k, n in sorted(done.items())))
if fail_every:
    print("allocations that failed:", open("failing.n").read().strip() if os.path.exists("failing.n") else "not known")
print("memory, MiB:", " ".join(f"{b / 2 ** 20:.0f}" for _, _, b in sizes[::max(1, len(sizes) // 40)]))
if done["good"] < ENOUGH:
    print(f"memory says nothing after {done['good']} answers")
elif late and sorted(late)[len(late) // 2] > max(early) * 1.05 + 8 * 2 ** 20:
    failures.append(("memory grows", max(early), sorted(late)[len(late) // 2]))
for line in server.said().splitlines():
    if "a step has been computed" in line or "Sanitizer" in line:
        failures.append(("log", line))
if status != 0:
    failures.append(("ended with", status, server.said()[-3000:]))
for f in failures:
    print("FAILED:", *f)
os.chdir("/")
shutil.rmtree(work)
sys.exit(bool(failures))
