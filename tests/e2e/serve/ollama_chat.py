# SPDX-License-Identifier: MIT
"""Ollama's endpoints: lines are whole answers in pieces."""
import json, sys
from lib import Server, run, until

quern, source = sys.argv[1:3]
server = Server(quern, source + "/models/chat.gguf")
SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def joined(path, body):
    lines = list(server.lines(path, body))  # streams unless told
    assert [x["done"] for x in lines] == [False] * (len(lines) - 1) + [True]
    words, thoughts, calls = "", "", []
    for x in lines:
        m = x.get("message", x)
        words += m.get("content", m.get("response", ""))
        thoughts += m.get("thinking", "")
        calls += [c["function"] for c in m.get("tool_calls", [])]
    return words, thoughts, calls, lines[-1]["done_reason"], lines[-1]["eval_count"], lines[-1]["prompt_eval_count"]


def same(path, body):
    whole = server.good(path, {**body, "stream": False})
    m = whole.get("message", whole)
    calls = [c["function"] for c in m.get("tool_calls", [])]
    got = (m.get("content", m.get("response")), m.get("thinking", ""), calls, whole["done_reason"], whole["eval_count"], whole["prompt_eval_count"])
    assert got == joined(path, body), (got, joined(path, body))
    assert whole["total_duration"] > 0 and whole["eval_duration"] > 0
    return whole


def test_chat():
    body = {"model": "chat", "messages": SUM, "options": {"temperature": 0, "seed": 1}}
    r = same("/api/chat", body)
    assert r["message"]["content"] == "2 + 3 = 5" and r["message"]["thinking"] and r["model"] == "chat"
    assert "thinking" not in same("/api/chat", {**body, "think": False})["message"]
    assert same("/api/chat", {**body, "options": {"num_predict": 2, "seed": 1}})["done_reason"] == "length"
    assert same("/api/chat", {**body, "think": False, "options": {"temperature": 0, "stop": [" ="]}})["message"]["content"] == "2 + 3"
    hot = {**body, "options": {"temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 9, "num_predict": 30}}
    assert same("/api/chat", hot)["message"] == same("/api/chat", hot)["message"]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    assert isinstance(json.loads(same("/api/chat", {**body, "format": schema})["message"]["content"])["n"], int)
    assert same("/api/chat", {**body, "format": "json", "options": {"num_predict": 60, "seed": 1}})["message"]["content"].startswith("{")
    r = server.good("/api/chat", {**body, "think": False, "stream": False, "logprobs": True})
    assert "".join(t["token"] for t in r["logprobs"]) == r["message"]["content"]


def test_tools():
    question = {"role": "user", "content": "How is the weather in Rome?"}
    r = same("/api/chat", {"model": "chat", "messages": [question], "tools": [TOOL], "options": {"temperature": 0}})
    assert r["message"]["tool_calls"][0]["function"]["arguments"] == {"city": "Rome"} and r["done_reason"] == "stop"
    back = [question, r["message"], {"role": "tool", "tool_name": "get_weather", "content": "sunny"}]
    second = same("/api/chat", {"model": "chat", "messages": back, "tools": [TOOL], "options": {"temperature": 0}})
    theirs = [question, {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}]}, {"role": "tool", "content": "sunny"}]
    prompt = server.good("/apply-template", {"messages": theirs, "tools": [TOOL]})["prompt"]
    for n in range(4, 32, 4):  # cut in the middle of a call, too: what is whole is a call, in both forms
        cut = same("/api/chat", {"model": "chat", "messages": [question], "tools": [TOOL], "think": False, "tool_choice": "required",
                                 "options": {"temperature": 0, "num_predict": n}})
        calls = cut["message"].get("tool_calls", [])
        assert [c["function"]["arguments"] for c in calls] == ([{"city": "Rome"}] if cut["done_reason"] == "stop" else []), cut
    assert second["prompt_eval_count"] == len(server.good("/tokenize", {"content": prompt, "add_special": True})["tokens"])


def test_generate():
    r = same("/api/generate", {"model": "chat:latest", "prompt": "What is 2 plus 3?", "think": False, "options": {"temperature": 0}})
    assert r["response"] == "2 + 3 = 5"
    raw = same("/api/generate", {"model": "chat", "prompt": "What is", "raw": True, "options": {"temperature": 0, "num_predict": 5}})
    theirs = server.good("/v1/completions", {"prompt": "What is", "max_tokens": 5, "temperature": 0})
    assert raw["response"] == theirs["choices"][0]["text"]
    system = {"model": "chat", "prompt": "Hello", "system": "Be brief.", "think": False, "options": {"temperature": 0}}
    talk = {"model": "chat", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}], "think": False, "options": {"temperature": 0}}
    assert same("/api/generate", system)["response"] == same("/api/chat", talk)["message"]["content"]


def test_models():
    assert server.get("/api/tags")[1]["models"][0]["name"] == "chat:latest"
    assert server.get("/api/ps")[1]["models"][0]["context_length"] == 512
    assert [int(n) for n in server.get("/api/version")[1]["version"].split(".")] >= [0, 13, 4]  # what Codex asks for
    info = server.good("/api/show", {"model": "chat"})["model_info"]
    assert info["llama.context_length"] == 512  # what is served, as above
    assert server.get("/api/nothing") == (404, {"error": "there is no /api/nothing here"})
    shown = server.good("/api/show", {"model": "chat"})
    assert "tools" in shown["capabilities"] and shown["model_info"]["llama.block_count"] == 4 and "im_start" in shown["template"]
    assert server.good("/api/pull", {"model": "chat"}) == {"status": "success"}
    for path in "/api/show", "/api/pull", "/api/chat", "/api/generate":
        status, reply = server.post(path, {"model": "other", "messages": SUM, "prompt": "x"})
        assert status == 404 and "other" in reply["error"] and "chat" in reply["error"], reply
    for path in "/api/chat", "/api/generate":
        r = server.good(path, {"model": "chat"})
        assert r["done"] and r["done_reason"] == "load"


def test_load():
    """How long the model was waited for; what unloads it, and what does not."""
    with Server(quern, [source + "/models/chat.gguf", source + "/models/shakespeare.gguf"]) as s:
        def loaded():
            return [m["name"] for m in s.get("/api/ps")[1]["models"]]
        body = {"model": "chat", "messages": SUM, "stream": False, "think": False, "options": {"temperature": 0}}
        for _ in range(2):
            r = s.good("/api/chat", body)
            assert 0 < r["load_duration"] < r["total_duration"], r
        for path, more in (("/api/chat", {"options": {"temperature": "x"}}), ("/api/chat", {"messages": "x"}), ("/api/generate", {"prompt": 5}),
                           ("/api/chat", {"messages": [{"role": "user", "content": "x " * 2000}]}), ("/api/embed", {"input": 5})):
            assert s.post(path, {**body, "keep_alive": 0, **more})[0] == 400
        assert loaded() == ["chat:latest"] and "unloaded" not in s.said()
        for keep in "0m", 0, "0s", 0.0, "0h0m":
            assert s.good("/api/generate", {"model": "chat", "keep_alive": "5m"})["done_reason"] == "load"
            assert s.good("/api/generate", {"model": "chat", "keep_alive": keep})["done_reason"] == "unload"
            assert until(lambda: loaded() == [])
        assert s.good("/api/chat", {**body, "keep_alive": 0})["message"]["content"] and until(lambda: loaded() == [])


def test_refusals():
    for path, more, word in (("/api/chat", {"messages": "x"}, "messages"), ("/api/chat", {"format": "xml"}, "format"),
                             ("/api/chat", {"think": "much"}, "think"), ("/api/chat", {"options": {"num_ctx": 100000}}, "options.num_ctx"),
                             ("/api/chat", {"options": {"temperature": "hot"}}, "options.temperature"), ("/api/chat", {"stream": 1}, "stream"),
                             ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["abcd"]}]}, "messages[0].images"),
                             ("/api/generate", {"prompt": "x", "suffix": "y"}, "suffix"), ("/api/generate", {"prompt": 5}, "prompt"),
                             ("/api/chat", {"messages": [{"role": "user", "content": "x " * 2000}]}, "512"),  # never cut, as Ollama does
                             ("/api/generate", {"prompt": "x " * 2000, "truncate": True}, "prompt: the prompt has 2010 tokens, the context 512"),
                             ("/api/chat", {"options": {"stop": ["a", 1]}}, "options.stop[1]: "), ("/api/chat", {"format": {"not": {}}}, "format: "),
                             ("/api/chat", {"think": "a" + "é" * 30}, "think: \"aé"),
                             ("/api/embed", {"input": "x " * 2000, "truncate": True}, "512")):
        status, reply = server.post(path, {"model": "chat", "messages": SUM, **more})
        assert status == 400 and word in reply["error"], (more, status, reply)


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
