# SPDX-License-Identifier: MIT
"""Embeddings in every dialect are what quern embed gives; a request beside others has the same bits."""
import base64, json, math, struct, subprocess, sys, threading
from lib import Server, run

quern, source = sys.argv[1:3]
MODEL = source + "/models/chat.gguf"
server = Server(quern, MODEL)
TEXTS = ["Once upon a time", "The end", "2 + 3 = 5, and <|im_end|> is text here"]


def embed(texts):
    done = subprocess.run([quern, "embed", MODEL, *texts, "--normalize", "-t", "1"], capture_output=True, check=True)
    return [[float(x) for x in line.split()] for line in done.stdout.decode().splitlines()]


WANT = embed(TEXTS)


def same(rows):
    assert len(rows) == len(WANT)
    for got, want in zip(rows, WANT):
        assert len(got) == len(want) == 192
        assert max(abs(x - y) for x, y in zip(got, want)) < 1e-7 and abs(math.hypot(*got) - 1) < 1e-5


def test_all_alike():
    r = server.good("/v1/embeddings", {"input": TEXTS, "model": "chat"})
    same([d["embedding"] for d in r["data"]])
    assert [d["index"] for d in r["data"]] == [0, 1, 2] and r["usage"]["prompt_tokens"] == r["usage"]["total_tokens"] > 10
    packed = server.good("/v1/embeddings", {"input": TEXTS, "encoding_format": "base64"})["data"]
    exact = [list(struct.unpack("<192f", base64.b64decode(d["embedding"]))) for d in packed]
    same(exact)
    assert [[struct.unpack("f", struct.pack("f", x))[0] for x in d["embedding"]] for d in r["data"]] == exact
    theirs = server.good("/api/embed", {"model": "chat", "input": TEXTS})
    same(theirs["embeddings"])
    assert 0 < theirs["load_duration"] < theirs["total_duration"] and theirs["prompt_eval_count"] == r["usage"]["prompt_tokens"]
    same([d["embedding"][0] for d in server.good("/embedding", {"content": TEXTS})])
    same([server.good("/api/embeddings", {"model": "chat", "prompt": t})["embedding"] for t in TEXTS])
    same([server.good("/v1/embeddings", {"input": t})["data"][0]["embedding"] for t in TEXTS])


def test_ids():
    plain = TEXTS[:2]
    ids = [server.good("/tokenize", {"content": t, "add_special": True})["tokens"] for t in plain]
    by_ids = server.good("/v1/embeddings", {"input": ids})
    assert [d["embedding"] for d in by_ids["data"]] == [d["embedding"] for d in server.good("/v1/embeddings", {"input": plain})["data"]]


def test_many():
    """As many texts as there may be, more than there are answers to a request of another kind."""
    words = [f"{i}" for i in range(2048)]
    subprocess.run([quern, "synth", "tiny.gguf", "--layers", "2", "--embd", "64", "--heads", "2", "--ff", "64", "--vocab-size", "512"], check=True)
    with Server(quern, "tiny.gguf") as s:
        many = [d["embedding"] for d in s.good("/v1/embeddings", {"input": words})["data"]]
        assert len(many) == 2048
        for i in 0, 129, 2047:
            assert s.good("/v1/embeddings", {"input": words[i]})["data"][0]["embedding"] == many[i]


def test_crowd():
    """While others are answered."""
    alone = server.good("/v1/embeddings", {"input": TEXTS})["data"]
    body = {"messages": [{"role": "user", "content": "Count to 9."}], "seed": 1, "max_tokens": 40}
    answer = server.good("/v1/chat/completions", body)["choices"]
    got = []
    threads = [threading.Thread(target=lambda: got.append(server.good("/v1/embeddings", {"input": TEXTS})["data"] == alone)) for _ in range(6)]
    threads += [threading.Thread(target=lambda: got.append(server.good("/v1/chat/completions", body)["choices"] == answer)) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert got == [True] * 12


def test_refusals():
    for body, field in (({}, "input"), ({"input": 3}, "input"), ({"input": ["x", 3.5]}, "input[1]"),
                        ({"input": "x", "encoding_format": "int8"}, "encoding_format"), ({"input": "x", "dimensions": 64}, "dimensions"),
                        ({"input": "x " * 3000}, "input"), ({"input": [99999]}, "input[0]"),
                        ({"input": ["x", "x " * 3000]}, "input[1]"), ({"input": [[1], []]}, "input[1]"), ({"input": ["x"] * 2049}, "input")):
        status, reply = server.post("/v1/embeddings", body)
        assert status == 400 and reply["error"]["param"] == field, (field, reply)
    status, reply = server.post("/v1/rerank", {"query": "a", "documents": ["b"]})
    assert status == 400 and "head" in reply["error"]["message"]
    for path, body, field in (("/embedding", {"content": "x " * 3000}, "content"), ("/embedding", {"content": ["x", "x " * 3000]}, "content[1]"),
                              ("/api/embeddings", {"model": "chat", "prompt": "x " * 3000}, "prompt")):
        status, reply = server.post(path, body)
        said = reply["error"]["message"] if path == "/embedding" else reply["error"]
        assert status == 400 and said.startswith(field + ": "), (field, reply)
    for body, field in (({"documents": ["b"]}, "query"), ({"query": "a"}, "documents"), ({"query": "a", "documents": [3]}, "documents[0]")):
        status, reply = server.post("/v1/rerank", body)
        assert status == 400 and reply["error"]["param"] == field, reply


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
