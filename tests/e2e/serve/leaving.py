# SPDX-License-Identifier: MIT
"""Clients that vanish, and what is answered at any load. The answers here would go on for minutes, the prompts are long.
leaving.py QUERN SOURCE 1000: so many of them."""
import json, os, random, shutil, socket, ssl, subprocess, sys, threading
from lib import ENDLESS, LONG, PATIENCE, Server, run, until

quern, source = sys.argv[1:3]
MANY = int(sys.argv[3]) if sys.argv[3:] else 200
MODEL = source + "/models/chat.gguf"
PATH = "/v1/chat/completions"
LINGER = b"\x01\0\0\0\0\0\0\0"  # closing resets the connection


def vanish(server, i, context, models):
    """One of many: what he asks for, when and how he leaves."""
    r = random.Random(i)
    words = "word " * r.choice((1, 20, 20000))
    body = json.dumps({**LONG, "messages": [{"role": "user", "content": words}], "stream": i % 2 == 0, "n": r.randrange(1, 4), "seed": i,
                       "model": r.choice(models)})
    plain = s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    if context:
        s = context.wrap_socket(s, server_hostname="localhost")
    s.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    for _ in range(r.choice((0, 0, 1, 5)) if i % 2 == 0 else 0):  # some pieces, if they come while he is there
        s.settimeout(0.3)
        try:
            s.recv(1000)
        except TimeoutError:
            break
    how = r.randrange(3)
    if how == 0 and not context:
        s.shutdown(socket.SHUT_WR)
    if how == 1:
        (s if context else plain).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    s.close()


def crowd(server, n, context=None, models=("chat",)):
    def some(first):
        for i in range(first, n, 10):
            vanish(server, i, context, models)
    threads = [threading.Thread(target=some, args=(first,)) for first in range(10)]
    [t.start() for t in threads]
    [t.join() for t in threads]


def all_gone(server):
    """Nothing is under way but this question, and all cells are free or kept for who comes next."""
    m = server.metrics()
    parts = [m[f"quern_n_{part}_cells"] for part in ("stream", "shared", "cached", "free")]
    return (m["quern_http_requests"] == 1 and server.get("/slots")[1] == [] and m["quern_n_requests_total"] == m["quern_n_ended_total"] and
            parts[0] == parts[1] == 0 and sum(parts) == m["quern_n_cells"])


def test_200_clients():
    """Queued, in the prompt, streaming and not; closed, reset, closed by half: nobody is answered any more, and all cells are back."""
    with Server(quern, MODEL, "--parallel", "4", "--queue", "1000", *ENDLESS) as server:
        crowd(server, MANY)
        # on a slow machine few are still there when their requests are read: others come, then
        assert until(lambda: server.metrics()["quern_n_requests_total"] > 20 or crowd(server, 20)), "nobody was there when his request was read"
        assert until(lambda: all_gone(server)), server.metrics()
        assert server.good(PATH, {"messages": [{"role": "user", "content": "What is 2 plus 3?"}], "temperature": 0})["choices"][0]["message"]["content"] == "2 + 3 = 5"


def test_clients_of_tls():
    if not shutil.which("openssl"):
        return print("skipped: no openssl")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "tls.key", "-out", "tls.pem",
                    "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        server = Server(quern, MODEL, "--parallel", "4", "--queue", "1000", "--tls-cert", "tls.pem", "--tls-key", "tls.key", *ENDLESS)
    except SystemExit as e:
        if "GnuTLS" in str(e):
            return print("skipped: built without GnuTLS")
        raise
    server.context = context
    with server:
        crowd(server, MANY // 5, context)
        assert until(lambda: all_gone(server)), server.metrics()


def folder(*names):
    """Copies of the model, and an environment that knows no other."""
    shutil.rmtree("several", ignore_errors=True)
    os.makedirs("several/home")
    for name in names:
        shutil.copy(MODEL, f"several/{name}.gguf")
    return "several", {**os.environ, "HOME": os.path.abspath("several/home"), "XDG_DATA_HOME": os.path.abspath("several/home"), **{
        name: "" for name in ("OLLAMA_MODELS", "HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "XDG_CACHE_HOME")}}


def states(server):
    return {m["id"]: m["status"]["value"] for m in server.get("/models")[1]["data"]}


def plus(server, model):
    return server.good(PATH, {"messages": [{"role": "user", "content": "What is 2 plus 3?"}], "temperature": 0, "model": model})["choices"][0]["message"]["content"]


def size_of_one(place, env):
    with Server(quern, [], "--models-dir", place, *ENDLESS, env=env) as server:
        plus(server, "a")
        return server.get("/api/ps")[1]["models"][0]["size"]


def test_while_models_are_loaded():
    """Room for one of three: most of these clients leave before theirs is there. Nothing of them stays, neither who waits nor what is loaded for nobody."""
    place, env = folder("a", "b", "c")
    one = size_of_one(place, env)
    with Server(quern, [], "--models-dir", place, "--memory", str(one * 3 // 2), "--parallel", "4", "--queue", "1000", *ENDLESS, env=env) as server:
        crowd(server, MANY // 2, models="abc")
        assert until(lambda: all_gone(server) and server.metrics()["quern_http_requests_waiting"] == 0), server.metrics()
        assert [plus(server, m) for m in "abc"] == ["2 + 3 = 5"] * 3 and list(states(server).values()).count("loaded") == 1
        # one waits for room that somebody holds: who holds it goes on, and when nobody waits any more, others come to it again
        held = server.connect(PATH, {**LONG, "model": "c", "stream": True})
        assert held.recv(100)
        for how in "close", "reset", "half":
            waits = server.connect(PATH, {**LONG, "model": "a"})
            assert until(lambda: states(server)["a"] == "loading" and server.metrics()["quern_http_requests_waiting"] == 1)
            if how == "reset":
                waits.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            if how == "half":
                waits.shutdown(socket.SHUT_WR)
            else:
                waits.close()
            assert until(lambda: states(server)["a"] == "unloaded" and server.metrics()["quern_http_requests_waiting"] == 0), how
            assert plus(server, "c") == "2 + 3 = 5" and held.recv(100), how
            waits.close()
        held.close()
        assert until(lambda: all_gone(server))


def test_a_file_that_is_read_for_nobody():
    """Reading a large file is given up when who asked has left."""
    place, env = folder("a")
    os.truncate(place + "/a.gguf", 1 << 29)  # its end is a hole
    with Server(quern, [], "--models-dir", place, "--load", "populate", env=env) as server:
        def given_up():
            s = server.connect(PATH, {**LONG, "model": "a"})
            left = until(lambda: states(server)["a"] != "unloaded")
            s.close()
            assert left and until(lambda: states(server)["a"] != "loading")
            if "a: not loaded: a: reading" in server.said():
                return True
            server.post("/models/unload", {"model": "a"})  # it was too quick for us
            assert until(lambda: states(server)["a"] == "unloaded")
            return False
        assert until(given_up), server.said()
        assert plus(server, "a") == "2 + 3 = 5" and until(lambda: all_gone(server))


def test_answered_at_any_load():
    """While a step is computed /health, /slots and /metrics answer: both replies around them tell of the same step."""
    with Server(quern, MODEL, *ENDLESS) as server:
        body = json.dumps({"prompt": "word " * 100000, "n_predict": 1})
        s = server.connect("/completion", json.loads(body))
        assert until(lambda: any(x["state"] == "reading" for x in server.get("/slots")[1]))

        def within_a_step():
            before = server.metrics()
            assert server.get("/health") == (200, {"status": "ok"}) and server.get("/slots")[0] == 200
            after = server.metrics()
            return before["quern_n_steps_total"] == after["quern_n_steps_total"] and 0 < before["quern_step_under_way_seconds"] < after["quern_step_under_way_seconds"]
        assert until(within_a_step)
        slot = server.get("/slots")[1][0]
        assert slot["n_prompt_tokens_read"] < slot["n_prompt_tokens"], "the prompt was read before"
        s.close()
        assert until(lambda: server.get("/slots")[1] == [])


if __name__ == "__main__":
    sys.exit(1 if run(globals()) else 0)
