# SPDX-License-Identifier: MIT
"""Several models by name: loaded when they are asked for, unloaded when nobody uses them, within --memory, in order."""
import json, os, re, shutil, subprocess, sys, threading, time
from lib import LONG, SUM, Server, run, until

quern, source = sys.argv[1:3]
PATH = "/v1/chat/completions"
CHAT, WILL = source + "/models/chat.gguf", source + "/models/shakespeare.gguf"
ASK = {"messages": SUM, "temperature": 0}
os.makedirs("empty", exist_ok=True)
HOME = {**os.environ, "HOME": os.path.abspath("empty"), "XDG_DATA_HOME": os.path.abspath("empty"), **{name: "" for name in (
    "OLLAMA_MODELS", "HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "XDG_CACHE_HOME")}}


def folder(name, *files):
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    for file in files:
        shutil.copy(CHAT, f"{name}/{file}.gguf")
    return name


def serve(name, *args):
    return Server(quern, [], "--models-dir", name, *args, env=HOME)


def states(s):
    return {m["id"]: m["status"]["value"] for m in s.get("/models")[1]["data"]}


def answer(s, model, **more):
    return s.good(PATH, {**ASK, "model": model, **more})["choices"][0]["message"]["content"]


def is_leaving(s, name):
    """It is about to be unloaded, as `ollama ps` sees that: its time is over."""
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 60))
    return any(m["name"] == name and m["expires_at"] < soon for m in s.get("/api/ps")[1]["models"])


def bytes_of(s):
    return s.get("/api/ps")[1]["models"][0]["size"]


def test_on_demand():
    with serve(folder("two", "a", "b")) as s:
        assert states(s) == {"a": "unloaded", "b": "unloaded"} and s.get("/api/ps")[1]["models"] == []
        assert {m["name"] for m in s.get("/api/tags")[1]["models"]} == {"a:latest", "b:latest"}
        assert answer(s, "a") == "2 + 3 = 5" and states(s) == {"a": "loaded", "b": "unloaded"}
        assert answer(s, "b:latest") == answer(s, "b.gguf") == "2 + 3 = 5" and states(s) == {"a": "loaded", "b": "loaded"}
        ps = {m["name"]: m for m in s.get("/api/ps")[1]["models"]}
        assert ps["a:latest"]["context_length"] > 0 and ps["a:latest"]["size"] > os.path.getsize(CHAT) * 0.5
        for body, status in (({**ASK, "model": "c"}, 404), (ASK, 400), ({**ASK, "model": 3}, 400)):
            got, reply = s.post(PATH, body)
            assert got == status and reply["error"]["param"] == "model", reply
        assert "a, b" in s.post(PATH, {**ASK, "model": "c"})[1]["error"]["message"]
        assert s.get("/v1/models/a")[1]["status"]["value"] == "loaded" and s.get("/v1/models/c")[0] == 404
        assert s.get("/props?model=b")[1]["model_alias"] == "b" and s.get("/props")[0] == 400
        assert s.good("/api/embed", {"model": "b", "input": "x"})["embeddings"]
        assert s.good("/models/unload", {"model": "a"}) == {"success": True}
        assert until(lambda: states(s)["a"] == "unloaded") and s.post("/models/unload", {"model": "a"})[0] == 400
        assert s.good("/models/load", {"model": "a"}) == {"success": True} and states(s)["a"] == "loaded"
        assert 'quern_tokens_generated_total{model="a"} 21' in s.get("/metrics")[1].decode(), "counters go on"


def test_keep_alive():
    with serve(folder("one", "a"), "--keep-alive", "0") as s:
        assert answer(s, "a") == "2 + 3 = 5" and until(lambda: states(s)["a"] == "unloaded")
        body = {"model": "a", "messages": SUM, "stream": False}
        s.good("/api/chat", {**body, "keep_alive": "5m"})
        assert states(s)["a"] == "loaded"
        s.good("/api/chat", {**body, "keep_alive": -1})
        assert s.get("/api/ps")[1]["models"][0]["expires_at"].startswith("9999")
        assert s.good("/api/generate", {"model": "a", "keep_alive": 0, "stream": False})["done_reason"] == "unload"
        assert until(lambda: states(s)["a"] == "unloaded")
        assert s.post("/api/chat", {**body, "keep_alive": "soon"})[0] == 400


def test_ps_and_stop():
    def command(*args, port=None, **env):
        done = subprocess.run([quern, *args], env={**HOME, "QUERN_HOST": f"127.0.0.1:{port or s.port}", **env}, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
    with serve(folder("ps", "a", "b"), "--api-key", "secret") as s:
        assert command("ps")[0] == 1 and "key" in command("ps")[2]
        assert command("ps", QUERN_API_KEY="secret")[:2] == (0, "")
        status, reply = s.post(PATH, {**ASK, "model": "a"}, Authorization="Bearer secret")
        assert status == 200, reply
        status, out, _ = command("ps", "--api-key", "secret")
        words = out.splitlines()[1].split()
        assert status == 0 and out.splitlines()[0].split()[0] == "NAME" and words[0] == "a:latest" and words[3:5] == ["512", "0"], out
        listed = json.loads(command("ps", "--json", QUERN_API_KEY="secret")[1])
        assert [m["name"] for m in listed] == ["a:latest"] and listed[0]["streams"] == 0 and listed[0]["size"] > 0
        assert command("stop", "a", QUERN_API_KEY="secret") == (0, "", "")
        assert until(lambda: command("ps", QUERN_API_KEY="secret")[1] == "")
        for name, word in (("a", "not loaded"), ("x", "not here")):
            status, _, err = command("stop", name, QUERN_API_KEY="secret")
            assert status == 1 and word in err and len(err.splitlines()) == 1, err
        gone = s.port
    status, _, err = command("ps", port=gone)
    assert status == 1 and "no server answers" in err and len(err.splitlines()) == 1, err
    assert command("ps", "--host", "a b")[0] == 2


def test_memory():
    """One fits: whoever asks for the other waits until nobody holds the first, in order; nobody is cut off."""
    with serve(folder("three", "a", "b", "c"), "--ctx-size", "8192") as s:
        answer(s, "a")
        one = bytes_of(s)
    with serve("three", "--memory", str(int(one * 1.5)), "--ctx-size", "8192") as s:
        assert answer(s, "a") == answer(s, "b") == "2 + 3 = 5"
        assert states(s) == {"a": "unloaded", "b": "loaded", "c": "unloaded"}
        # what nobody reads is waited for, so that b is held for as long as this test wants; eight short answers take as much room as a
        # long one, whose last tokens attend to thousands
        stream = s.stream(PATH, {**LONG, "stream": True, "model": "b", "n": 8, "max_tokens": 200, "logprobs": True, "top_logprobs": 20}, room=4096)
        next(stream)
        assert until(lambda: s.metrics()["quern_n_paused"] > 0)
        order, threads = [], []

        def ask(model):
            order.append(answer(s, model))
        for i, model in enumerate(("a", "c", "b")):
            # the one that has the room takes whoever comes until the loader knows that another needs it
            assert model != "b" or until(lambda: is_leaving(s, "b:latest")), s.get("/api/ps")
            threads.append(threading.Thread(target=ask, args=(model,)))
            threads[-1].start()
            assert until(lambda: s.metrics()["quern_http_requests_waiting"] == i + 1), (i, s.metrics())
        assert s.get("/health")[0] == 200 and not order
        left = s.connect(PATH, {**ASK, "model": "a"})
        assert until(lambda: s.metrics()["quern_http_requests_waiting"] == 4)
        left.close()  # who leaves waits no longer
        assert until(lambda: s.metrics()["quern_http_requests_waiting"] == 3)
        assert [e for _, e in stream][-1] == "[DONE]"
        [t.join() for t in threads]
        assert order == ["2 + 3 = 5"] * 3, order
        loads = re.findall(r"(\w): loaded in", s.said())
        assert loads == ["a", "b", "a", "c", "b"], loads
    with serve("three", "--memory", "100K") as s:
        status, reply, headers = s.request("POST", PATH, {**ASK, "model": "a"})
        assert status == 503 and headers["Retry-After"] and "--memory" in reply["error"]["message"], reply


def test_larger_than_memory():
    """One that is larger than models may be in sum is paged, alone and beside another: what it says stays the same."""
    ask = {"prompt": "a b c", "temperature": 0, "max_tokens": 6, "model": "big"}

    def text(s, **more):
        return s.good("/v1/completions", {**ask, **more})["choices"][0]["text"]
    subprocess.run([quern, "synth", folder("large", "a") + "/big.gguf", "--layers", "8", "--embd", "512", "--heads", "8", "--ff", "4096",
        "--vocab-size", "4096", "--type", "Q8_0"], check=True)
    with serve("large") as s:
        want = text(s), text(s, prompt="d e f")
        assert bytes_of(s) > 58 << 20
    with serve("large", "--memory", "60M", "--ctx-size", "256", "--batch-size", "32") as s:
        assert answer(s, "a") == "2 + 3 = 5" and until(lambda: s.metrics()["quern_http_requests"] == 1)
        assert text(s) == want[0] and states(s) == {"a": "unloaded", "big": "loaded"}, "it has the room of who is idle"
        stream = s.stream("/v1/completions", {**ask, "max_tokens": 30, "stream": True})
        next(stream)
        assert answer(s, "a") == "2 + 3 = 5", "a small one is loaded beside it"
        assert [e for _, e in stream][-1] == "[DONE]"
        assert states(s) == {"a": "loaded", "big": "loaded"} and text(s, prompt="d e f") == want[1]
        assert s.metrics()["quern_ahead_bytes_total"] > 0
    with serve("large", "--memory", "30M") as s:
        status, reply, headers = s.request("POST", "/v1/completions", ask)
        assert status == 503 and headers["Retry-After"] and "--memory" in reply["error"]["message"], reply
        assert answer(s, "a") == "2 + 3 = 5"


def test_files():
    """A file that goes, comes and changes."""
    with serve(folder("files", "a", "b")) as s:
        assert answer(s, "a") == "2 + 3 = 5"
        os.remove("files/a.gguf")
        assert answer(s, "a") == "2 + 3 = 5", "what is mapped goes on"
        s.good("/models/unload", {"model": "a"})
        assert until(lambda: states(s)["a"] == "unloaded")
        status, reply = s.post(PATH, {**ASK, "model": "a"})
        assert status == 404 and "gone" in reply["error"]["message"], reply
        n = s.get("/v1/models/b")[1]["meta"]["n_params"]
        answer(s, "b")
        shutil.copy(WILL, "files/new")
        os.replace("files/new", "files/b.gguf")
        assert answer(s, "b") == "2 + 3 = 5"
        s.good("/models/unload", {"model": "b"})
        assert until(lambda: states(s)["b"] == "unloaded")
        s.good("/completion", {"model": "b", "prompt": "ROMEO:", "n_predict": 2})
        assert s.get("/v1/models/b")[1]["meta"]["n_params"] != n
        with open("files/b.gguf", "r+b") as f:
            f.write(b"no model")
        s.good("/models/unload", {"model": "b"})
        assert until(lambda: states(s)["b"] == "unloaded")
        assert s.post(PATH, {**ASK, "model": "b"})[0] == 500


def test_named():
    """Two that are named, by their files."""
    with Server(quern, [CHAT, WILL]) as s:
        assert states(s) == {"chat": "unloaded", "shakespeare": "unloaded"} and answer(s, "chat") == "2 + 3 = 5"
        assert s.good("/completion", {"model": "shakespeare", "prompt": "ROMEO:", "n_predict": 2})["tokens_predicted"] == 2


if __name__ == "__main__":
    sys.exit(run(globals()) > 0)
