# SPDX-License-Identifier: MIT
"""threads.py QUERN SOURCE MODEL: everything that threads of the server do beside each other, with a model of next to
nothing: a crowd in every dialect, streams, grammars, whole prompts read anew, clients that leave, pages of numbers. For
the thread sanitizer; answers are those that each request gets alone."""
import os, sys, threading
from lib import *

quern, source, model = sys.argv[1:4]
server = Server(quern, model, "--parallel", "6", "--threads", "2", "--ctx-size", "1024")
CHAT, TEXT, CLAUDE, OLLAMA = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat"


def ask(i):
    messages = [{"role": "user", "content": f"{i % 5} " * (1 + i % 4 * 3) + "plus?"}]
    body = {"seed": i + 1, "temperature": 1.2, "max_tokens": 6, "messages": messages}
    if i % 6 == 0:
        return CHAT, {**body, "response_format": {"type": "json_object"}}
    if i % 6 == 1:
        return CHAT, {**body, "n": 2, "logprobs": True, "top_logprobs": 3}
    if i % 6 == 2:
        return CHAT, {**body, "stream": True}
    if i % 6 == 3:
        return TEXT, {"prompt": [5 + i % 7] * 40, "seed": i + 1, "max_tokens": 6, "cache_prompt": i % 12 == 3}
    if i % 6 == 4:
        return CLAUDE, {"messages": messages, "max_tokens": 6, "temperature": 0}
    return OLLAMA, {"messages": messages, "stream": False, "options": {"seed": i + 1, "num_predict": 6}}


def answer(i):
    path, body = ask(i)
    if body.get("stream"):
        return [e["choices"] for _, e in server.stream(path, body) if e != "[DONE]"]
    reply = server.good(path, body)
    return reply.get("choices") or reply.get("content") or reply["message"]


def test_crowd():
    """Each of a crowd gets what it gets alone, while others leave and look."""
    n, rounds = 12, 2
    alone = [answer(i) for i in range(n)]
    got = [[None] * n for _ in range(rounds)]
    wrong = []

    def one(i):
        try:
            for r in range(rounds):
                got[r][i] = answer(i)
        except BaseException as e:
            wrong.append((i, e))

    def leave():
        for i in range(6):
            s = server.connect(CHAT, {"messages": SUM, "max_tokens": 500, "stream": i % 2 == 0})
            if i % 3:
                s.recv(1)
            s.close()

    def look():
        for path in ("/metrics", "/slots", "/health", "/v1/models", "/metrics", "/slots"):
            assert server.get(path)[0] == 200
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    threads += [threading.Thread(target=f) for f in (leave, look)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong
    for r in range(rounds):
        assert got[r] == alone, [i for i in range(n) if got[r][i] != alone[i]]


def test_models():
    """Models are shown while they are made anew, and counted while they go and come; clients have different keys."""
    wrong = []
    keys = [{"Authorization": "Bearer " + k} for k in ("one", "two")]
    with open("keys", "w") as f:
        f.write("one\ntwo\n")
    with Server(quern, model, "--api-key-file", "keys", env={**os.environ, "XDG_DATA_HOME": os.path.abspath("data")}) as s:
        base = s.get("/v1/models", **keys[0])[1]["data"][0]["id"]
        written = []

        def attempt(fn, key):
            try:
                for k in range(8):
                    fn(k, key)
            except BaseException as e:
                wrong.append(e)

        def good(path, body, key):
            status, reply = s.post(path, body, **key)
            assert status == 200, (status, reply)

        def make(k, key):
            good("/api/create", {"model": "made", "from": base, "template": f"{k}" * 1000}, key)

        def show(k, key):
            assert s.post("/api/show", {"model": "made"}, **key)[0] in (200, 404)

        def go_and_come(k, key):
            good("/v1/completions", {"model": base, "prompt": [5, 6], "max_tokens": 2, "seed": k}, key)
            good("/models/unload", {"model": base}, key)

        def count(k, key):
            written.append(s.metrics(**key).get("quern_tokens_generated_total", 0))
        work = (make, show, make, show, go_and_come, count)
        threads = [threading.Thread(target=attempt, args=(fn, keys[i % 2])) for i, fn in enumerate(work)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong, wrong
        assert written == sorted(written), written
        assert s.request("DELETE", "/api/delete", {"model": "made"}, keys[0])[0] == 200


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0 or failed:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
