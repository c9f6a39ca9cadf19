# SPDX-License-Identifier: MIT
"""/v1/completions and llama-server's own endpoints."""
import json, os, subprocess, sys
from lib import Server, run

quern, source = sys.argv[1:3]
sys.path.insert(1, source + "/tests/oracle")
import metrics  # noqa: E402
MODEL = source + "/models/shakespeare.gguf"
server = Server(quern, MODEL, "--alias", "will", "--temp", "0.7")
BODY = {"prompt": "ROMEO:\n", "seed": 5, "max_tokens": 12}


def ran(*args):
    return subprocess.run([quern, "run", MODEL, "ROMEO:\n", "-q", "-t", "1", *args], capture_output=True, check=True).stdout.decode()


def test_completions():
    """What the command line gives, whole and in pieces."""
    r = server.good("/v1/completions", {**BODY, "temperature": 0})
    assert r["object"] == "text_completion" and r["model"] == "will"
    assert r["choices"][0]["finish_reason"] == "length" and r["usage"]["completion_tokens"] == 12
    assert ran("-n", "12", "--temp", "0").rstrip("\n") == "ROMEO:\n" + r["choices"][0]["text"].rstrip("\n") or ran(
        "-n", "12", "--temp", "0").rstrip("\n") == r["choices"][0]["text"].rstrip("\n")
    for more in {}, {"n": 3}, {"logprobs": 2}, {"echo": True}, {"stop": ["\n"]}, {"prompt": ["A", "B"], "n": 2}:
        body = {**BODY, **more}
        whole = server.good("/v1/completions", body)
        events = [e for _, e in server.stream("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})]
        assert events[-1] == "[DONE]" and events[-2]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
        for c in whole["choices"]:
            mine = [x for e in events[:-1] for x in e["choices"] if x["index"] == c["index"]]
            assert "".join(x["text"] for x in mine) == c["text"], (c, mine)
            assert mine[-1]["finish_reason"] == c["finish_reason"]
            if "logprobs" in more:
                for name in "tokens", "token_logprobs", "top_logprobs", "text_offset":
                    assert sum((x["logprobs"][name] for x in mine), []) == c["logprobs"][name]
                assert "".join(c["logprobs"]["tokens"]) == c["text"] and c["logprobs"]["text_offset"][1] == len(c["logprobs"]["tokens"][0])
    two = server.good("/v1/completions", {**BODY, "prompt": ["ROMEO:\n", "JULIET:\n"]})["choices"]
    assert [c["text"] for c in two] == [server.good("/v1/completions", {**BODY, "prompt": p})["choices"][0]["text"] for p in ("ROMEO:\n", "JULIET:\n")]
    assert server.good("/v1/completions", {**BODY, "echo": True})["choices"][0]["text"].startswith("ROMEO:\n")


def test_tokens():
    text = "To be, or not to be: Ünïcode \U0001f600"
    ids = server.good("/tokenize", {"content": text})["tokens"]
    shown = subprocess.run([quern, "tokenize", MODEL, text], capture_output=True).stdout.decode()
    assert [str(i) for i in ids] == [w.strip(",[]") for w in shown.split() if w.strip(",[]").isdigit()][-len(ids):]
    assert server.good("/detokenize", {"tokens": ids})["content"] == text
    pieces = server.good("/tokenize", {"content": text, "with_pieces": True})["tokens"]
    assert [p["id"] for p in pieces] == ids
    spelled = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
    assert spelled.decode().strip() == text
    assert len(server.good("/tokenize", {"content": text, "add_special": True})["tokens"]) == len(ids) + 1
    by_ids = server.good("/v1/completions", {**BODY, "prompt": server.good("/tokenize", {"content": "ROMEO:\n", "add_special": True})["tokens"]})
    assert by_ids["choices"][0]["text"] == server.good("/v1/completions", BODY)["choices"][0]["text"]
    mixed = server.good("/completion", {"prompt": ["ROMEO", ids[3], ":"], "n_predict": 2})
    assert mixed["tokens_predicted"] == 2
    assert server.good("/tokenize", {"content": ""})["tokens"] == [] and server.good("/detokenize", {"tokens": []})["content"] == ""


def test_completion():
    whole = server.good("/completion", {"prompt": "ROMEO:\n", "seed": 5, "n_predict": 12, "n_probs": 2, "return_tokens": True})
    assert whole["content"] == server.good("/v1/completions", BODY)["choices"][0]["text"]
    assert whole["stop"] and whole["stop_type"] == "limit" and len(whole["tokens"]) == 12 == len(whole["completion_probabilities"])
    assert whole["timings"]["predicted_n"] == 12 and whole["timings"]["predicted_ms"] > 0
    events = [e for _, e in server.stream("/completion", {"prompt": "ROMEO:\n", "seed": 5, "n_predict": 12, "stream": True, "return_tokens": True})]
    assert "".join(e["content"] for e in events) == whole["content"] and sum((e["tokens"] for e in events), []) == whole["tokens"]
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    word = server.good("/completion", {"prompt": "ROMEO:\n", "seed": 5, "n_predict": 40, "stop": [whole["content"][5:8]]})
    assert word["stop_type"] == "word" and word["stopping_word"] == whole["content"][5:8] and word["content"] == whole["content"][:5]


def test_template():
    made = server.good("/apply-template", {"messages": [{"role": "user", "content": "Hello"}]})["prompt"]
    with open("m.json", "w") as f:
        json.dump([{"role": "user", "content": "Hello"}], f)
    assert made.strip() == subprocess.run([quern, "template", MODEL, "-p", "Hello"], capture_output=True).stdout.decode().strip()


def test_looking():
    props = server.get("/props")[1]
    assert props["model_alias"] == "will" and props["total_slots"] == 8 and props["default_generation_settings"]["n_ctx"] > 0
    values = server.metrics()
    assert values["quern_tokens_generated_total"] > 50 and values["quern_n_streams"] == 0
    assert values["quern_n_requests_total"] == values["quern_n_ended_total"]
    assert server.get("/slots") == (200, [])


def test_metrics():
    """As a strict reader takes them; what the library counts is there too."""
    server.good("/v1/completions", {**BODY, "max_tokens": 3})
    samples, kinds = metrics.read_text(server.get("/metrics")[1].decode())
    assert kinds["quern_time_to_first_token_seconds"] == kinds["quern_graph_run_seconds"] == "histogram"
    assert samples["quern_graph_runs_total", ()] >= samples["quern_n_steps_total", (("model", "will"),)] > 0
    assert samples["quern_op_runs_total", (("op", "linear"),)] > 0 and samples["quern_loads_total", ()] == 1


def test_trace():
    """The last of what was computed, as `quern trace` reads it; with several keys never anybody's prompt."""
    assert server.get("/trace")[0] == 404
    last = ("--trace", "t.qtr", "--trace-last", "4M")
    with Server(quern, MODEL, *last) as s:
        for n in 3, 4:
            s.good("/v1/completions", {**BODY, "max_tokens": n})
            status, data = s.get("/trace")
            assert status == 200
            with open("got.qtr", "wb") as f:
                f.write(data)
            stats = json.loads(subprocess.run([quern, "trace", "stats", "got.qtr", "--json"], capture_output=True, check=True).stdout)
            steps = stats["kinds"]["step"]["count"]
            assert steps >= 3 if n == 3 else steps > before, (n, steps)
            before = steps
        assert not os.path.exists("t.qtr")
    two = ("--api-key", "a", "--api-key", "b")
    with Server(quern, MODEL, *last, *two) as s:
        assert s.get("/trace")[0] == 401
        status, reply = s.get("/trace", Authorization="Bearer a")
        assert status == 403 and "--trace-no-tokens" in reply["error"]["message"]
    with Server(quern, MODEL, *last, *two, "--trace-no-tokens") as s:
        assert s.get("/trace", Authorization="Bearer b")[0] == 200


def test_refusals():
    for path, body, field in (("/v1/completions", {}, "prompt"), ("/v1/completions", {"prompt": 3}, "prompt"),
                              ("/v1/completions", {"prompt": [1, 99999]}, "prompt[1]"), ("/v1/completions", {"prompt": [[1], [None]]}, "prompt[1][0]"),
                              ("/v1/completions", {"prompt": "x", "suffix": "y"}, "suffix"), ("/v1/completions", {"prompt": "x", "best_of": 2}, "best_of"),
                              ("/v1/completions", {"prompt": "x", "echo": True, "logprobs": 1}, "echo"), ("/v1/completions", {"prompt": "x " * 9000}, "prompt"),
                              ("/completion", {"prompt": ["a", "b"]}, "prompt"), ("/completion", {"prompt": "x", "n_probs": 21}, "n_probs"),
                              ("/tokenize", {}, "content"), ("/tokenize", {"content": 3}, "content"), ("/detokenize", {}, "tokens"),
                              ("/detokenize", {"tokens": ["x"]}, "tokens[0]"), ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
                              ("/apply-template", {}, "messages")):
        status, reply = server.post(path, body)
        assert status == 400 and reply["error"]["param"] == field, (path, body, reply)


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
