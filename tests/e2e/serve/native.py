# SPDX-License-Identifier: MIT
"""/v1/completions and llama-server's own endpoints."""
import json, os, subprocess, sys
from lib import Server, run, until

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


def test_tokens_of_much():
    """What a list of tokens takes is bounded, and counted."""
    with Server(quern, MODEL, "--max-body", "8M") as s:
        ids = s.good("/tokenize", {"content": "~" * 5000})["tokens"]
        assert len(ids) >= 5000 and [p["id"] for p in s.good("/tokenize", {"content": "~" * 5000, "with_pieces": True})["tokens"]] == ids
        status, reply = s.post("/tokenize", {"content": "~" * 3000000, "with_pieces": True})
        assert status == 413 and "--max-body" in reply["error"]["message"], (status, reply)
        assert until(lambda: s.metrics()["quern_http_body_bytes"] == 0)


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
    assert made.strip() == subprocess.run([quern, "template", MODEL, "-p", "Hello"], capture_output=True).stdout.decode().strip()


def test_looking():
    props = server.get("/props")[1]
    assert props["model_alias"] == "will" and props["total_slots"] == 8 and props["default_generation_settings"]["n_ctx"] > 0
    assert server.metrics()["quern_tokens_generated_total"] > 50

    def rests():  # one that a word of "stop" ended is answered before it is cancelled
        values = server.metrics()
        return values["quern_n_streams"] == 0 and values["quern_n_requests_total"] == values["quern_n_ended_total"]
    assert until(rests) and server.get("/slots") == (200, []), server.metrics()


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


def test_extras():
    """What llama-server's clients say: honoured, or refused."""
    body = {"prompt": "ROMEO:\n", "n_predict": 12, "seed": 5, "temperature": 1.5}
    read = server.good("/completion", {**body, "prompt": "JULIET:\nRead this alone.", "n_predict": 0})
    assert read["content"] == "" and read["tokens_predicted"] == 0 and read["stop_type"] == "limit", read
    again = server.good("/completion", {**body, "prompt": "JULIET:\nRead this alone."})
    assert again["tokens_cached"] == again["tokens_evaluated"] - 1, again
    r = server.good("/v1/completions", {"prompt": "ROMEO:\n", "max_tokens": 0, "echo": True})
    assert r["choices"][0]["text"] == "ROMEO:\n" and r["usage"]["completion_tokens"] == 0 and r["timings"]["predicted_n"] == 0, r
    one = server.good("/completion", {**body, "samplers": ["top_k"], "top_k": 1})["content"]
    assert one == server.good("/completion", {**body, "temperature": 0})["content"] == server.good("/completion", {**body, "samplers": "kt", "top_k": 1})["content"]
    assert server.good("/completion", {**body, "samplers": ["typ_p", "temperature"], "top_k": 1})["content"] != one, "top-k is left out"
    plain = {"prompt": "the king the king the king the", "n_predict": 8, "temperature": 0}
    dry = {**plain, "dry_multiplier": 50, "dry_allowed_length": 1}
    free = {**dry, "dry_sequence_breakers": list("abcdefghijklmnopqrstuvwxyz ")}
    said = [server.good("/completion", b)["content"] for b in (plain, dry, free)]
    assert said[0] == said[2] != said[1], said
    for member, value, field in (("samplers", [1], "samplers[0]"), ("samplers", "kk", "samplers"), ("samplers", 3, "samplers"), ("n", 2, "n"),
                                 ("samplers", "kk", "samplers"), ("dry_sequence_breakers", [1], "dry_sequence_breakers[0]"), ("n_cmpl", 2, "n_cmpl"),
                                 ("post_sampling_probs", True, "post_sampling_probs"), ("dry_sequence_breakers", ["x"] * 65, "dry_sequence_breakers"),
                                 ("ignore_eos", "x", "ignore_eos"), ("n_discard", -1, "n_discard")):
        status, reply = server.post("/completion", {**body, member: value})
        assert status == 400 and reply["error"]["param"] == field, (member, value, reply)
    # What llama.cpp's editors send with every request: answered, and said what of it did nothing.
    editor = {**body, "temperature": 0, "n_indent": 2, "t_max_predict_ms": 1500, "response_fields": ["content"], "samplers": ["top_k", "infill"]}
    status, reply, headers = server.request("POST", "/completion", editor)
    assert (status, reply["content"]) == (200, server.good("/completion", {**body, "temperature": 0})["content"])
    assert headers["X-Quern-Ignored"] == "n_indent, t_max_predict_ms, response_fields, samplers[1]:infill", dict(headers)
    # Other programs: samplers of other versions, a grammar that is none, limits by any of their names.
    status, reply, headers = server.request("POST", "/completion", {**body, "samplers": ["top_k", "adaptive_p", "top_k"], "top_k": 1, "grammar": ""})
    assert reply["content"] == one and headers["X-Quern-Ignored"] == "samplers[1]:adaptive_p, samplers[2]:top_k", dict(headers)
    for name in "n_predict", "max_tokens", "max_completion_tokens":
        for path in "/completion", "/v1/completions":
            r = server.good(path, {"prompt": "ROMEO:\n", "seed": 5, name: 3})
            assert r["timings"]["predicted_n"] == 3, r
    events = [e for _, e in server.stream("/completion", {**body, "stream": True})]
    ids = server.good("/completion", {**body, "return_tokens": True})["tokens"]
    assert [t for e in events for t in e["tokens"]] == ids and len(ids) == 12, (events, ids)
    word = server.good("/tokenize", {"content": "the"})["tokens"]
    by_number = server.good("/completion", {**body, "logit_bias": [[t, -3] for t in word]})["content"]
    assert by_number == server.good("/completion", {**body, "logit_bias": [["the", -3]]})["content"] == server.good("/completion", {**body, "logit_bias": {"the": -3}})["content"]
    assert "X-Quern-Ignored" not in server.request("POST", "/completion", {**body, "n_indent": 0, "response_fields": []})[2]
    ids = server.good("/tokenize", {"content": "word " * 40})["tokens"][:100]
    with Server(quern, MODEL, "--batch-size", "8") as s:  # so the prompt takes many steps; what of them is told hangs on who is quicker
        for path, more in ("/completion", {"n_predict": 3}), ("/v1/completions", {"max_tokens": 3}):
            def told():
                events = [e for _, e in s.stream(path, {"prompt": ids, "cache_prompt": False, "stream": True, "return_progress": True,
                                                        "timings_per_token": True, **more}) if e != "[DONE]"]
                assert all("timings" in e for e in events) and events[-1]["timings"]["predicted_n"] == 3, events
                steps = [e["prompt_progress"] for e in events if "prompt_progress" in e]
                assert all(t["cache"] == 0 and t["total"] == len(ids) and 0 < t["processed"] < len(ids) for t in steps), steps
                assert [t["processed"] for t in steps] == sorted(t["processed"] for t in steps), steps
                return steps
            assert until(told)
    assert "timings" in server.good("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2})


def test_end_of_text():
    """An answer that would end goes on."""
    ask = {"messages": [{"role": "user", "content": "What is 2 plus 3?"}], "temperature": 0, "max_tokens": 40}
    with Server(quern, source + "/models/chat.gguf") as s:
        assert s.good("/v1/chat/completions", ask)["choices"][0]["finish_reason"] == "stop"
        r = s.good("/v1/chat/completions", {**ask, "ignore_eos": True})
        assert r["choices"][0]["finish_reason"] == "length" and r["usage"]["completion_tokens"] == 40, r


def shifted(s, ids, n, keep, ctx, discard=0):
    """What n tokens behind ids are: greedily, by requests that never fill the context, and by llama-server's rule of what goes."""
    seen, got, kept = list(ids), [], min(len(ids) if keep < 0 else keep, ctx - 4)
    while len(got) < n:
        part = s.good("/completion", {"prompt": seen, "n_predict": min(n - len(got), ctx + 1 - len(seen)), "temperature": 0, "return_tokens": True})["tokens"]
        got, seen = got + part, seen + part
        if len(seen) == ctx + 1:
            del seen[kept:kept + (discard or (len(seen) - kept) // 2)]
    return got


def test_context_shift():
    """An answer that fills the context goes on as far as it may, with what is left; a prompt is never cut."""
    ctx, n, ids = 24, 40, server.good("/tokenize", {"content": "ROMEO:\nBut so"})["tokens"]
    with Server(quern, MODEL, "--ctx-size", str(ctx), "--context-shift", "--keep", "2", "--parallel", "3", "--temp", "0") as s:
        room = ctx + 1 - len(ids)
        for more, keep in ({}, 2), ({"n_keep": 0}, 0), ({"n_keep": -1}, -1), ({"n_keep": 3, "n_discard": 9}, 3), ({"n_keep": 1000}, 1000):
            body = {"prompt": ids, "n_predict": n, "return_tokens": True, **more}
            r = s.good("/completion", body)
            assert r["truncated"] is True and r["stop_type"] == "limit" and r["tokens_predicted"] == n and r["tokens_evaluated"] == len(ids), r
            assert r["tokens"] == shifted(s, ids, n, keep, ctx, more.get("n_discard", 0)), more
            events = [e for _, e in s.stream("/completion", {**body, "stream": True})]
            assert "".join(e["content"] for e in events) == r["content"] and events[-1]["truncated"] is True
        text = r["content"]
        assert s.good("/completion", {"prompt": ids, "n_predict": room})["truncated"] is False
        r = s.good("/completion", {"prompt": ids})  # to no number of tokens: it ends
        assert r["truncated"] is True and r["stop_type"] == "limit" and r["tokens_predicted"] == room, r
        r = s.good("/v1/completions", {"prompt": ids, "max_tokens": n, "n_keep": 1000})
        assert r["choices"][0]["finish_reason"] == "length" and r["choices"][0]["text"] == text and r["usage"]["completion_tokens"] == n, r
        ask = {"messages": [{"role": "user", "content": "ROMEO:"}]}
        r = s.good("/v1/chat/completions", {**ask, "max_tokens": n})
        assert r["choices"][0]["finish_reason"] == "length" and r["usage"]["completion_tokens"] == n, r
        whole = r["choices"][0]["message"]["content"]
        r = s.good("/v1/messages", {**ask, "max_tokens": n})
        assert r["stop_reason"] == "max_tokens" and r["usage"]["output_tokens"] == n and r["content"][0]["text"] == whole, r
        r = s.good("/api/chat", {**ask, "stream": False, "options": {"num_predict": n, "num_keep": 2}})
        assert r["done_reason"] == "length" and r["eval_count"] == n and r["message"]["content"] == whole, r
        r = s.good("/api/chat", {**ask, "stream": False, "shift": False, "options": {"num_predict": n}})
        assert r["done_reason"] == "length" and r["eval_count"] < ctx, r
        status, reply = s.post("/completion", {"prompt": ids * 8})
        assert status == 400 and str(8 * len(ids)) in reply["error"]["message"] and str(ctx) in reply["error"]["message"], reply
        status, reply = s.post("/completion", {"prompt": ids, "n_keep": -2})
        assert status == 400 and reply["error"]["param"] == "n_keep", reply
        values = s.metrics()
        assert values["quern_n_context_shifts_total"] > 20 and "left out" in s.said()
    with Server(quern, MODEL, "--ctx-size", str(ctx)) as s:
        r = s.good("/completion", {"prompt": ids, "n_predict": 100})
        assert r["truncated"] is True and r["stop_type"] == "limit" and r["tokens_predicted"] == room, r
        status, reply = s.post("/api/chat", {**ask, "shift": True})
        assert status == 400 and "--context-shift" in reply["error"], reply


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
