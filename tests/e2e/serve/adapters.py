# SPDX-License-Identifier: MIT
"""Adapters by request: each answer is that of `quern run` with the same adapters, whoever else is served; what one set has
cached is not another's; /lora-adapters says and sets what requests get that say nothing."""
import os, subprocess, sys, tempfile, threading
from lib import Server, run

quern, source = sys.argv[1:3]
MODEL = source + "/models/shakespeare.gguf"
folder = tempfile.TemporaryDirectory()
N, PROMPT = 10, "ROMEO:\nWhat is"
BODY = {"prompt": PROMPT, "n_predict": N, "temperature": 0}


def made(name, text):
    """An adapter that changes what is said: two large steps of training."""
    words, out = f"{folder.name}/{name}.txt", f"{folder.name}/{name}.gguf"
    with open(words, "w") as f:
        f.write(text * 60)
    subprocess.run([quern, "train", words, "--lora", MODEL, "-o", out, "--ctx", "16", "--batch", "1", "--steps", "3", "--lr", "0.5",
                    "--lora-r", "2", "-t", "1", "--seed", "3"], check=True, capture_output=True)
    return out


FILES = [made("a", "the quick brown fox jumps over the lazy dog. "), made("b", "ZOUNDS! 12345 67890 += ")]
server = Server(quern, MODEL, "--lora", FILES[0], "--lora", FILES[1] + ":0.5", "--lora-init-without-apply")
SETS = [[], [(0, 1)], [(1, 1)], [(0, 0.25), (1, 1)], [(1, 0.5)]]
alone = {}


def lora(s):
    return [{"id": i, "scale": scale} for i, scale in s]


def want(s):
    """What the command line says with these adapters."""
    if str(s) not in alone:
        args = [a for i, scale in s for a in ("--lora", f"{FILES[i]}:{scale}")]
        said = subprocess.run([quern, "run", MODEL, PROMPT, "-q", "-t", "1", "-n", str(N), "--temp", "0", *args], capture_output=True,
                              check=True).stdout.decode()
        alone[str(s)] = said[len(PROMPT):] if said.startswith(PROMPT) else said
    return alone[str(s)].rstrip("\n")


def answer(s, **more):
    return server.good("/completion", {**BODY, **({"lora": lora(s)} if s else {}), **more})


def test_by_request():
    for s in SETS:
        assert answer(s)["content"].rstrip("\n") == want(s), s
    assert len({want(s) for s in SETS}) >= 4, alone
    assert answer(SETS[3])["content"] == answer(SETS[3][::-1])["content"]  # the list's order says nothing
    chat = {"messages": [{"role": "user", "content": "Speak."}], "max_tokens": N, "temperature": 0}
    assert server.good("/v1/completions", {"prompt": PROMPT, "max_tokens": N, "temperature": 0, "lora": lora(SETS[1])})["choices"][0][
        "text"].rstrip("\n") == want(SETS[1])
    assert server.good("/v1/chat/completions", {**chat, "lora": lora(SETS[1])})["choices"][0]["message"] != \
        server.good("/v1/chat/completions", chat)["choices"][0]["message"]


def test_by_name():
    """An adapter is a model, too."""
    ids = [m["id"] for m in server.get("/v1/models")[1]["data"]]
    assert ids == ["shakespeare", "shakespeare:a", "shakespeare:b"], ids
    assert server.get("/v1/models/shakespeare:a")[1]["parent"] == "shakespeare" and server.get("/v1/models/shakespeare:c")[0] == 404
    for name, s in ("shakespeare", []), ("shakespeare:a", [(0, 1)]), ("shakespeare.gguf:b", [(1, 1)]):
        r = server.good("/completion", {**BODY, "model": name})
        assert r["content"].rstrip("\n") == want(s) and r["model"] == name, (name, r)
    r = server.good("/v1/completions", {"prompt": PROMPT, "max_tokens": N, "temperature": 0, "model": "shakespeare:b", "lora": lora(SETS[1])})
    assert r["choices"][0]["text"].rstrip("\n") == want(SETS[1]), "what the request says counts"
    for body, status in ({"model": "shakespeare:c"}, 404), ({"model": "other:a"}, 404):
        assert server.post("/completion", {**BODY, **body})[0] == status
    status, reply = server.post("/v1/embeddings", {"model": "shakespeare:a", "input": "x"})
    assert status == 400 and reply["error"]["param"] == "model", reply


def test_a_name_acts_by_its_own_scale():
    """Whatever the others are set to meanwhile; and wherever a model is named."""
    with Server(quern, MODEL, "--lora", FILES[1] + ":0.5") as s:
        for _ in range(2):
            assert s.good("/completion", {**BODY, "model": "shakespeare:b"})["content"].rstrip("\n") == want([(1, 0.5)])
            assert s.post("/lora-adapters", []) == (200, {"success": True})
        assert s.good("/completion", BODY)["content"].rstrip("\n") == want([])
        assert s.good("/api/show", {"model": "shakespeare:b"})["details"] and s.good("/api/pull", {"model": "shakespeare:b"})
        assert s.get("/slots?model=shakespeare:b") == (200, []) and s.get("/slots?model=other")[0] == 404
        assert s.post("/models/unload", {"model": "shakespeare:b"}) == (200, {"success": True})


def test_a_crowd_of_sets():
    said, threads = {}, []
    for k in range(20):
        t = threading.Thread(target=lambda k=k: said.update({k: answer(SETS[k % 5], cache_prompt=k % 2 == 0)["content"]}))
        t.start()
        threads.append(t)
    for t in threads:
        t.join()
    for k in range(20):
        assert said[k].rstrip("\n") == want(SETS[k % 5]), (k, said[k])


def test_the_cache():
    """Asked again a prompt is cached, under the same adapters and no others."""
    text = PROMPT + " it that I have to say of adapters?"
    n = answer([], prompt=text)["tokens_evaluated"]
    for s in SETS[1:]:
        assert answer(s, prompt=text)["tokens_cached"] < n - 1
        assert answer(s, prompt=text)["tokens_cached"] == n - 1
    assert answer([(0, 0.5)], prompt=text)["tokens_cached"] == 0  # a set that nobody had
    assert answer([(0, 0)], prompt=text)["tokens_cached"] == n - 1  # no adapter at all


def test_by_server():
    listed = server.get("/lora-adapters")[1]
    assert [(a["id"], os.path.samefile(a["path"], f), a["scale"]) for a, f in zip(listed, FILES)] == [(0, True, 0), (1, True, 0)]
    assert server.post("/lora-adapters", [{"id": 1, "scale": 0.5}]) == (200, {"success": True})
    assert [a["scale"] for a in server.get("/lora-adapters")[1]] == [0, 0.5]
    assert answer([])["content"].rstrip("\n") == want([(1, 0.5)])
    assert answer([(0, 1)])["content"].rstrip("\n") == want([(0, 1)])  # a request's own list is all there is
    assert answer([], lora=[])["content"].rstrip("\n") == want([(1, 0.5)])
    assert server.post("/lora-adapters", []) == (200, {"success": True})
    assert answer([])["content"].rstrip("\n") == want([])


def test_refusals():
    for value, field in ((3, "lora"), ([3], "lora[0]"), ([{"id": 2, "scale": 1}], "lora[0].id"), ([{"id": -1, "scale": 1}], "lora[0].id"),
                         ([{"id": 0}], "lora[0].scale"), ([{"scale": 1}], "lora[0].id"), ([{"id": 0, "scale": "x"}], "lora[0].scale"),
                         ([{"id": 0, "scale": 1}, {"id": 0, "scale": 1e9}], "lora[1].scale")):
        status, reply = server.post("/completion", {**BODY, "lora": value})
        assert status == 400 and reply["error"]["param"] == field, (value, reply)
    for body, word in (({}, "array"), ([{"id": 7, "scale": 1}], "no number 7"), ("", "array"), ([[]], "object")):
        status, reply = server.post("/lora-adapters", body)
        assert status == 400 and word in reply["error"]["message"], (body, reply)
    assert [a["scale"] for a in server.get("/lora-adapters")[1]] == [0, 0]


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
