# SPDX-License-Identifier: MIT
"""/v1/chat/completions: streams are whole answers in pieces, and every member does what it says."""
import json, sys, threading
from lib import Server, run

quern, source = sys.argv[1:3]
PATH = "/v1/chat/completions"
MODEL = source + "/models/chat.gguf"
server = Server(quern, MODEL)
SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}


def ask(messages=SUM, **more):
    return server.good(PATH, {"messages": messages, "seed": 7, **more})


def joined(body):
    """A stream put together again, one message and reason an index; and its usage."""
    out, usage = {}, None
    events = list(server.stream(PATH, {**body, "stream": True}))
    assert events[-1] == (None, "[DONE]"), events[-1]
    for _, e in events[:-1]:
        assert e["object"] == "chat.completion.chunk" and e["id"] == events[0][1]["id"]
        usage = e.get("usage") or usage
        for c in e["choices"]:
            m = out.setdefault(c["index"], {"content": "", "reasoning_content": "", "tool_calls": [], "logprobs": []})
            assert "finish_reason" not in m, "something came after the end"
            d = c["delta"]
            m["content"] += d.get("content") or ""
            m["reasoning_content"] += d.get("reasoning_content") or ""
            for t in d.get("tool_calls") or []:
                if t["index"] == len(m["tool_calls"]):
                    assert t["id"] and t["type"] == "function" and t["function"]["name"]
                    m["tool_calls"].append({"id": t["id"], "type": "function", "function": dict(t["function"])})
                else:
                    m["tool_calls"][t["index"]]["function"]["arguments"] += t["function"]["arguments"]
            if c["logprobs"]:
                m["logprobs"] += c["logprobs"]["content"]
            if c["finish_reason"]:
                m["finish_reason"] = c["finish_reason"]
    return out, usage


def same_stream(**body):
    body = {"messages": SUM, "seed": 7, **body}
    whole = server.good(PATH, body)
    pieces, usage = joined({**body, "stream_options": {"include_usage": True}})
    for c in whole["choices"]:
        m, p = c["message"], pieces[c["index"]]
        assert (m["content"] or "") == p["content"], (m, p)
        assert m.get("reasoning_content", "") == p["reasoning_content"], (m, p)
        calls = [[t["function"] for t in x.get("tool_calls", [])] for x in (m, p)]
        assert calls[0] == calls[1], calls
        assert c["finish_reason"] == p["finish_reason"], (c, p)
        if body.get("logprobs"):
            assert c["logprobs"]["content"] == p["logprobs"]
    for name in "prompt_tokens", "completion_tokens", "total_tokens":
        assert whole["usage"][name] == usage[name]
    return whole


def test_answer():
    r = ask(temperature=0)
    assert r["object"] == "chat.completion" and r["model"] == "chat" and r["id"].startswith("chatcmpl-")
    c = r["choices"][0]
    assert c["message"]["role"] == "assistant" and c["message"]["content"] == "2 + 3 = 5", c
    assert c["finish_reason"] == "stop" and c["logprobs"] is None
    u = r["usage"]
    assert u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] and u["prompt_tokens"] == 17
    assert 0 < u["completion_tokens_details"]["reasoning_tokens"] < u["completion_tokens"]


def test_streams():
    same_stream()
    same_stream(n=3)
    same_stream(max_tokens=3)
    same_stream(temperature=1.5, top_k=0, top_p=1, min_p=0)
    same_stream(messages=[{"role": "user", "content": "How is the weather in Rome?"}], tools=[WEATHER], n=2)
    same_stream(chat_template_kwargs={"enable_thinking": False}, logprobs=True, top_logprobs=3)
    same_stream(logprobs=True)


def test_seed():
    hot = dict(temperature=2, top_k=0, top_p=1, min_p=0, max_tokens=40)
    texts = [ask(**{**hot, "seed": s})["choices"][0]["message"] for s in (1, 1, 2, 0, 0)]
    assert texts[0] == texts[1] and texts[0] != texts[2] and texts[3] == texts[4]
    r = ask(**hot, n=2)
    assert r["choices"][0]["message"] != r["choices"][1]["message"]
    assert r["choices"][0]["message"] == ask(**hot)["choices"][0]["message"]


def test_limits():
    for name in "max_tokens", "max_completion_tokens":
        r = ask(**{name: 2})
        assert r["usage"]["completion_tokens"] == 2 and r["choices"][0]["finish_reason"] == "length"
    off = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": 0}
    assert ask(**off, stop=" 3")["choices"][0]["message"]["content"] == "2 +"
    r = ask(**off, stop=["none", "+ 3 ="])["choices"][0]
    assert r["message"]["content"] == "2 " and r["finish_reason"] == "stop"
    banned = ask(**off, logit_bias={str(r): -100 for r in range(10, 300)})["choices"][0]["message"]
    assert banned["content"] != "2 + 3 = 5"


def test_limits():
    """Both names take the same."""
    for name in "max_tokens", "max_completion_tokens":
        r = ask(temperature=0, **{name: 0})
        assert r["choices"][0]["message"]["content"] == "" and r["usage"]["completion_tokens"] == 0, r
        assert ask(temperature=0, **{name: -1})["choices"][0]["finish_reason"] == "stop"


def test_seeds():
    """Answer k has seed + k, and any seed but -1 gives the same again."""
    def words(seed, n=1):
        hot = {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 30}
        return [c["message"]["content"] for c in ask([{"role": "user", "content": "Tell me something"}], seed=seed, n=n, **hot)["choices"]]
    assert len(set(words(0, 3))) == 3 and words(0, 3) == [words(seed)[0] for seed in (0, 1, 2)]
    assert words(5, 2) == [words(seed)[0] for seed in (5, 6)]
    last = words(-2, 3)
    assert last == words(-2, 3) and last[2] == words(0)[0]


def test_reasoning():
    off = ask(reasoning_effort="none", temperature=0)
    assert "reasoning_content" not in off["choices"][0]["message"]
    assert off["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
    on = ask(reasoning_effort="high", temperature=0)
    assert on["choices"][0]["message"]["reasoning_content"]


def test_logprobs():
    r = ask(temperature=0, logprobs=True, top_logprobs=4, max_tokens=60)["choices"][0]
    content = r["logprobs"]["content"]
    assert b"".join(bytes(t["bytes"]) for t in content).decode() == r["message"]["content"], content
    for t in content:
        assert len(t["top_logprobs"]) == 4 and t["top_logprobs"][0]["token"] == t["token"]
        assert t["logprob"] <= 0 and [x["logprob"] for x in t["top_logprobs"]] == sorted(
            (x["logprob"] for x in t["top_logprobs"]), reverse=True)


def test_tools():
    question = [{"role": "user", "content": "How is the weather in Rome?"}]
    for choice in "required", {"type": "function", "function": {"name": "get_weather"}}:
        r = same_stream(messages=question, tools=[WEATHER], tool_choice=choice)["choices"][0]
        call = r["message"]["tool_calls"][0]
        assert r["finish_reason"] == "tool_calls" and call["id"].startswith("call_") and r["message"]["content"] is None
        assert list(json.loads(call["function"]["arguments"])) == ["city"]
    r2 = ask(question + [r["message"], {"role": "tool", "tool_call_id": call["id"], "content": "sunny, 25 degrees"}],
             tools=[WEATHER])
    assert r2["choices"][0]["message"]["content"]
    assert "tool_calls" not in ask(question, tools=[WEATHER], tool_choice="none")["choices"][0]["message"]


def test_formats():
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}, "ok": {"enum": ["yes", "no"]}},
              "required": ["sum", "ok"], "additionalProperties": False}
    for _ in range(2):
        r = same_stream(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})
        value = json.loads(r["choices"][0]["message"]["content"])
        assert isinstance(value["sum"], int) and value["ok"] in ("yes", "no") and len(value) == 2
    r = ask(response_format={"type": "json_object"}, temperature=0, max_tokens=60)["choices"][0]
    assert r["message"]["content"].startswith("{") and (r["finish_reason"] == "length" or json.loads(r["message"]["content"]) is not None)
    assert ask(grammar='root ::= "yes" | "no"')["choices"][0]["message"]["content"] in ("yes", "no")
    assert ask(response_format={"type": "text"}, temperature=0)["choices"][0]["message"]["content"]


def test_cache():
    talk = [{"role": "system", "content": "Answer with one number."}] + SUM
    first = ask(talk, temperature=0, chat_template_kwargs={"enable_thinking": False})
    second = ask(talk, temperature=0, chat_template_kwargs={"enable_thinking": False})
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == second["usage"]["prompt_tokens"] - 1 and first["choices"][0]["message"] == second["choices"][0]["message"]
    assert ask(talk, cache_prompt=False, temperature=0)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    more = talk + [first["choices"][0]["message"], {"role": "user", "content": "And 4 plus 4?"}]
    third = ask(more, temperature=0, chat_template_kwargs={"enable_thinking": False})
    assert third["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["total_tokens"] - 1


def test_crowd():
    """Each of a crowd gets what it gets alone."""
    bodies = [{"messages": [{"role": "user", "content": f"What is {i} plus {i % 7}?"}], "seed": i + 1, "temperature": 1.2,
               "max_tokens": 30, **({"response_format": {"type": "json_object"}} if i % 5 == 0 else {})} for i in range(24)]
    alone = [server.good(PATH, b)["choices"] for b in bodies]
    got = [None] * len(bodies)

    def one(i):
        got[i] = server.good(PATH, bodies[i])["choices"]
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(bodies))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert got == alone


def refused(status, field, *words, path=PATH, **body):
    got, reply = server.post(path, {"messages": SUM, **body})
    e = reply["error"]
    assert got == status and e["param"] == field, (got, reply)
    for w in words:
        assert w in e["message"], (w, e)


def test_allowed_tools():
    """Of several tools some: the model knows of no others."""
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}
    body = {"messages": SUM, "temperature": 0}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "other"}}]}}
    one = server.good(PATH, {**body, "tools": [WEATHER, other], "tool_choice": allowed})
    want = server.good(PATH, {**body, "tools": [other], "tool_choice": "required"})
    assert one["choices"][0]["message"]["tool_calls"][0]["function"] == want["choices"][0]["message"]["tool_calls"][0]["function"]
    assert one["usage"]["prompt_tokens"] == want["usage"]["prompt_tokens"]
    allowed["allowed_tools"]["tools"][0]["function"]["name"] = "none"
    refused(400, "tool_choice.allowed_tools.tools[0]", "none", tools=[WEATHER], tool_choice=allowed)


def test_cut_call():
    """A call that the limit cut shows nothing of itself in the text, and probabilities are of what is text."""
    body = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "tools": [WEATHER], "temperature": 0,
            "reasoning_effort": "none", "logprobs": True}
    whole = server.good(PATH, body)
    assert whole["choices"][0]["message"]["tool_calls"], whole
    for n in range(1, whole["usage"]["completion_tokens"]):
        choice = server.good(PATH, {**body, "max_tokens": n})["choices"][0]
        assert not choice["message"]["content"] and not choice["logprobs"]["content"] and choice["finish_reason"] == "length", (n, choice)


def test_refusals():
    refused(404, "model", "nobody", "chat", model="nobody")
    refused(400, "messages", "a list", messages="hello")
    refused(400, "messages", messages=None)
    for arguments, said in ("{", "JSON"), ("[]", "an object"):
        call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}]}
        refused(400, "messages[1].tool_calls[0].function.arguments", said, messages=SUM + [call], tools=[WEATHER])
    call["tool_calls"][0]["function"]["arguments"] = "null"
    assert server.good(PATH, {"messages": SUM + [call, {"role": "tool", "tool_call_id": "a", "content": "x"}], "max_tokens": 1})
    got = server.post(PATH, {"messages": []})[1]["error"]
    assert got["param"] == "messages" and got["message"].startswith("messages: the list is empty"), got
    refused(400, "messages[0].content[0]", "image_url", messages=[{"role": "user", "content": [{"type": "image_url"}]}])
    refused(400, "messages", "2010 tokens", "512", messages=[{"role": "user", "content": "x " * 2000}])
    refused(400, "temperature", "-1", temperature=-1)
    refused(400, "temperature", "text", temperature="hot")
    refused(400, "top_p", "1.5", top_p=1.5)
    refused(400, "n", "0", n=0)
    refused(400, "n", "whole", n=1.5)
    refused(400, "stop[1]", "a number", stop=["a", 1])
    refused(400, "stop[1]", "5000 bytes", stop=["a", "b" * 5000])
    refused(400, "stop", "5000 bytes", stop="b" * 5000)
    refused(400, "seed", "text", seed="x")
    refused(400, "stream", "true or false", stream=1)
    refused(400, "top_logprobs", "21", logprobs=True, top_logprobs=21)
    refused(400, "top_logprobs", "logprobs", top_logprobs=2)
    refused(400, "logit_bias.99999", "vocabulary", logit_bias={"99999": 1})
    refused(400, "logit_bias.x", "number", logit_bias={"x": "y"})
    refused(400, "tools[0].type", "retrieval", tools=[{"type": "retrieval"}])
    refused(400, "tool_choice", "maybe", tools=[WEATHER], tool_choice="maybe")
    refused(400, "tool_choice", "no tools", tool_choice="required")
    other = {"type": "function", "function": {"name": "other"}}
    for tools in {}, {"tools": [WEATHER]}:
        refused(400, "tool_choice.function.name", '"other"', tool_choice=other, **tools)
    refused(400, "json_schema", "not", json_schema={"not": {}})
    refused(400, "max_completion_tokens", "-2", max_completion_tokens=-2)
    refused(400, "response_format.type", "yaml", response_format={"type": "yaml"})
    refused(400, "response_format", "not", response_format={"type": "json_schema", "json_schema": {"schema": {"not": {}}}})
    loose = {"type": "json_schema", "json_schema": {"schema": {"type": "integer", "not": {}, "maximum": 9}, "strict": False}}
    assert server.good(PATH, {"messages": SUM, "max_tokens": 1, "response_format": loose})
    refused(400, "grammar", "line", grammar="root = x")
    refused(400, "reasoning_effort", "huge", reasoning_effort="huge")
    assert server.good(PATH, {"messages": SUM, "max_tokens": 1, "reasoning_effort": "max"})
    refused(400, "functions", functions=[])
    refused(400, "store", store=True)
    refused(400, "modalities", modalities=["text", "audio"])
    assert server.good(PATH, {"messages": SUM, "max_tokens": 1, "temperature": None, "user": "me", "unknown": 3})


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
